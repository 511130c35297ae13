"""`billhook explain`: which hooks an event would get, and why the others not. Nothing is run."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from billhook.cli.fire import build_event
from billhook.cli.list import conditions, failure_rule, source_of
from billhook.cli.options import config_option, event_named, loaded
from billhook.cli.screen import facts, filled, hanging, hint, picked, say, say_json, unreadable, width
from billhook.config.config import Config, as_data
from billhook.config.explain import Explained, Explanation, Outlook, explain
from billhook.core import strictjson, tools
from billhook.core.answers import Decision
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS, Event
from billhook.core.text import counted, nearest, one_line
from billhook.core.text import suggest as nearest_of

_INDENT = 5
_RECORD = re.compile(r"[0-9A-Fa-f]{8,32}|[1-9][0-9]{0,17}")
_OPTIONS = ("--tool", "--input", "--config", "--all", "--json", "--help")


@click.command(
    "explain",
    context_settings={"ignore_unknown_options": True},  # those of a command that was not quoted
    epilog="""\b
Examples:
  billhook explain 'git push --force'
  billhook explain PreToolUse --tool Write --input '{"file_path": "a.py"}'
  billhook explain SessionStart --input '{"source": "resume"}'
  billhook explain 12
  billhook explain 0199f3c81d2a""",
)
@click.argument("about", metavar="EVENT|COMMAND|ID", nargs=-1)
@click.option("--tool", metavar="NAME", help="The tool, by any name that a dialect has for it.")
@click.option(
    "--input", "input_", metavar="JSON|@FILE|@-", help="The tool's input; for other events, fields of the event."
)
@config_option
@click.option("--all", "everything", is_flag=True, help="Show the hooks for other events, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def verb(
    about: tuple[str, ...],
    tool: str | None,
    input_: str | None,
    configs: tuple[str, ...],
    everything: bool,
    as_json: bool,
) -> int:
    """Say which hooks would be asked about an event, and why the others not, without running anything.

    The argument is the name of an event, or a shell command, which stands for PreToolUse of Bash. It may also be a
    record of the event log, by its number or by the first eight digits of its id or more: then the decision of that
    time is explained, under the configuration of that time, and what differs today.
    """
    if len(about) == 1 and tool is None and input_ is None and _RECORD.fullmatch(about[0]):
        from billhook.cli.explain_past import explain_record

        if explain_record(about[0].lower(), configs, as_json=as_json):
            return 0
    config = loaded(configs)
    found = explain(config, _event(about, tool, input_, config))
    if as_json:
        say_json(_as_data(found, everything))
        return 0
    say("\n".join(_screen(found, everything)))
    if not config.entries and (unread := unreadable(config)):
        hint(unread)
    elif not config.entries:
        no_file = "no hooks are configured here; `billhook init` writes a first file"
        hint("the files here contain no hooks" if config.sources else no_file)
    return 0


def _event(about: Sequence[str], tool: str | None, input_: str | None, config: Config) -> Event:
    if not about:
        raise UsageError("which event, or which command?", hint="billhook explain 'git push --force'")
    name = event_named(about[0], config)
    if len(about) > 1:
        raise _too_many(about, name)
    if not name:
        _refuse_slips(about[0], tool, input_)
        name, tool, input_ = "PreToolUse", "Bash", strictjson.dumps({"command": about[0]})
    elif name in EVENTS and tool is None and "tool_name" in EVENTS[name].__struct_fields__:
        raise UsageError(f"{name} is about a tool: which one?", hint=f"billhook explain {name} --tool Bash")
    nothing: dict[str, Any] = dict.fromkeys(("output", "error", "session", "cwd", "whole"))
    return build_event({**nothing, "event": name, "tool": tool, "input_": input_})


def _too_many(about: Sequence[str], name: str) -> UsageError:
    if name or about[0].startswith("-"):
        odd = about[1] if name else about[0]
        return UsageError(
            f"`{odd}` is too much", hint=f"{nearest_of(odd, _OPTIONS)} (`billhook explain --help` tells more)"
        )
    quoted = " ".join(about).replace("'", "'\\''")
    return UsageError("that is more than one argument", hint=f"quote it: billhook explain '{quoted}'")


def _refuse_slips(text: str, tool: str | None, input_: str | None) -> None:
    """A shell command is taken for one only when it is hardly the name of an event."""
    near = nearest(text, EVENTS, 0.75) if text.isidentifier() else ""
    if near:
        raise UsageError(f"no event `{text}`", hint=f"did you mean `{near}`?")
    if tool is not None or input_ is not None:
        given = "--tool" if tool is not None else "--input"
        raise UsageError(
            f"`{text}` is no event, and {given} does not go with a command",
            hint=f"name the event (billhook explain PreToolUse --tool ...), or leave {given} out",
        )
    if not text.strip():
        raise UsageError("the command is empty", hint="billhook explain 'git push --force'")


def _as_data(found: Explanation, everything: bool) -> dict[str, Any]:
    shown = (*found.hooks, *found.others) if everything else found.hooks
    return {
        "event": found.event.hook_event_name,
        "tool": getattr(found.event, "tool_name", None),
        "hooks": [_hook_data(one) for one in shown],
        "other_events": [one.row.name for one in found.others if not one.silent],
        "verdict": outlook_data(found.outlook),
    }


def outlook_data(outlook: Outlook) -> dict[str, Any]:
    """What can be said about the verdict, as JSON."""
    return {**picked(outlook, "decision certain by"), "depends_on": outlook.open, **picked(outlook, "gates fail_open")}


def _hook_data(one: Explained) -> dict[str, Any]:
    return {
        "name": one.row.name,
        **picked(one, "runs blocks"),
        "failed": [reason.condition for reason in one.reasons],
        **picked(one, "why? fix? order"),
        "deadline": one.seconds,
        "on_failure_means": one.failure or None,
        "says": None if one.says is None else picked(one.says, "decision reason context"),
        "notes": one.notes,
        **{key: value for key, value in as_data(one.row).items() if key not in ("name", "why", "effect")},
        "hash": one.row.exact_hash or None,
    }


def _screen(found: Explanation, everything: bool) -> Iterator[str]:
    yield click.style(heading(found.event), bold=True)
    spoken = [one for one in found.hooks if not one.silent]
    for place, one in enumerate(spoken, 1):
        yield ""
        yield from _hook(one, place)
    if not spoken:
        yield ""
        yield f"no hook wants {one_line(found.event.hook_event_name, 60)}"
    others = [one for one in found.others if not one.silent]
    if others and everything:
        for one in others:
            yield ""
            yield from _hook(one, 0)
    elif others:
        yield ""
        yield from filled(_others(others), 0)
    if silent := [one.row.name for one in found.hooks if one.silent]:
        yield ""
        yield click.style(f"built in, without a say: {', '.join(silent)}", dim=True)
    yield ""
    yield from _conclusion(found)


def heading(event: Event) -> str:
    """The event in one line: what it is about."""
    tool, given = getattr(event, "tool_name", ""), getattr(event, "tool_input", None)
    about = tools.command_of(tool, given) if tool else event.target
    about = about or (tools.path_of(tool, given) if tool else None)
    head = f"{event.hook_event_name} {tool}".strip()
    return one_line(f"{head}: {about}" if about else head, width())


def _hook(one: Explained, place: int) -> Iterator[str]:
    word, colour = ("asked", "green") if one.runs else ("blocks", "red") if one.blocks else ("not asked", "yellow")
    number = f"{place}" if one.order is not None else "-"
    name = click.style(one_line(one.row.name, width() - 20), fg="cyan")
    yield f"  {number:<2} {name}  {click.style(word, fg=colour)}"
    if one.row.layer != "built-in" and one.says is None:
        yield " " * _INDENT + one_line(one.row.what, width() - _INDENT)
    for reason in one.reasons:
        yield from filled(reason.why, _INDENT)
        if reason.fix:
            yield from hanging(f"to change that: {reason.fix}", _INDENT)
    if one.blocks:
        yield from filled("what it would have judged is denied until then", _INDENT)
    if one.says is not None:
        answer, word = one.says, one.says.decision.value
        nothing = f"to the model: {answer.context}" if answer.context else "no objection"
        decided = f"{word}: {answer.reason}" if answer.reason else word
        yield from hanging(f"says: {nothing if answer.decision is Decision.NONE else decided}", _INDENT)
    for text in one.notes:
        yield from hanging(f"note: {text}", _INDENT)
    yield from facts(_facts(one), _INDENT)


def _facts(one: Explained) -> Iterator[str]:
    row = one.row
    if one.runs:
        yield from conditions(row)
    if row.layer != "built-in":
        yield row.dialect
    if one.runs and one.seconds is not None and one.failure:
        of_dialect = one.default and row.layer != "built-in"
        yield f"{one.seconds:g} s" + (f" (default of {row.dialect})" if of_dialect else "")
    if one.runs and one.failure:
        yield f"{failure_rule(row.on_failure)}: {one.failure}"
    if row.always:
        yield "also after a deny"
    yield source_of(row)


def _others(others: Sequence[Explained]) -> str:
    want = "wants" if len(others) == 1 else "want"
    named = ", ".join(f"{one.row.name} ({', '.join(one.row.events)})" for one in others[:8])
    more = f", and {len(others) - 8} more" if len(others) > 8 else ""
    return f"{counted(len(others), 'hook')} {want} other events: {named}{more} (--all shows why)"


def _conclusion(found: Explanation) -> Iterator[str]:
    outlook = found.outlook
    yield from (click.style(line, bold=True) for line in filled(verdict_line(outlook, found.event), 0))
    if outlook.gates:
        yield from filled(f"held up if one of these gates fails: {', '.join(outlook.gates)}", 0)
    if outlook.fail_open:
        yield from filled(f"passes if these fail, unless another hook objects: {', '.join(outlook.fail_open)}", 0)
    if found.parallel and len(outlook.open) > 1:
        yield "hooks that don't wait for each other run at once (parallelExecution)"


def verdict_line(outlook: Outlook, event: Event) -> str:
    """What can be said about the verdict."""
    by = ", ".join(outlook.by)
    if outlook.decision is Decision.DENY:
        others = ", whatever the other hooks say" if outlook.open else ""
        return f"verdict: deny{others}, because of {by}"
    if outlook.by:
        stricter = f", unless one of these is stricter: {', '.join(outlook.open)}" if outlook.open else ""
        return f"verdict: {outlook.decision.value}, because of {by}{stricter}"
    if outlook.open:
        return f"verdict: depends on what is answered by {', '.join(outlook.open)}"
    decides = ": the agent's own permissions decide" if event.gates and hasattr(event, "tool_name") else ""
    return f"verdict: none (no objection){decides}"
