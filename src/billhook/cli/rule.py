"""`billhook rule`: what a code means."""

import click

from billhook.cli.screen import hint, picked, say, say_json
from billhook.config.lint import Section, sections
from billhook.core.errors import UsageError
from billhook.core.text import nearest


@click.command(
    "rule",
    epilog="""\b
Examples:
  billhook rule BH301
  billhook rule
  billhook rule --json | jq -r '.code + " " + .title'""",
)
@click.argument("code", required=False, metavar="CODE")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each code.")
def verb(code: str | None, as_json: bool) -> int:
    """Say what a code of `billhook check` means, and how to mend what it finds.

    Without CODE: all of them, one line each.
    """
    chosen = [section_of(code)] if code is not None else list(sections().values())
    if as_json:
        say_json(*(picked(section, "code title text") for section in chosen))
    elif code is not None:
        say(f"{_heading(chosen[0])}\n\n{chosen[0].text}")
    else:
        say("\n".join(_heading(section) for section in chosen))
        hint("`billhook rule CODE` tells more")
    return 0


def section_of(code: str) -> Section:
    """The section of a code, in any case; UsageError names the nearest."""
    known = sections()
    word = code.upper() if not code.isdigit() else f"BH{code}"
    if word in known:
        return known[word]
    near = nearest(word, known) if len(word) != len("BH301") else ""  # of a whole code, the nearest is about anything
    raise UsageError(f"no code `{code}`", hint=f"did you mean `{near}`?" if near else "`billhook rule` lists them all")


def _heading(section: Section) -> str:
    return f"{click.style(section.code, bold=True)} {section.title}"
