"""Allow rules that came with a project: shown in full before they are approved, one file at a time."""

from collections.abc import Iterator
from typing import Any

import click

from billhook.cli.chosen import is_hash_of
from billhook.cli.lookalikes import marked
from billhook.cli.show import picked
from billhook.cli.table import shown_path
from billhook.config import Config
from billhook.config.declared import needs_consent
from billhook.config.permitting import NAME, Waiting
from billhook.errors import UsageError
from billhook.text import counted, visible

_LABEL = 12
_SHORT = 12


def rules_called(config: Config, word: str) -> list[Waiting] | None:
    """The rules that wait and are meant by a word: `permissions`, `permissions.allow`, with a layer before it, the name
    that they are shown under, or a hash. None: it means no rules; none of them: they are approved already. UsageError
    when it could mean several."""

    def names(layer: str) -> tuple[str, ...]:
        return ("permissions", NAME, f"{layer}/{NAME}")

    pending = config.permissions.pending
    found = [one for one in pending if word in (one.shown, *names(one.layer)) or is_hash_of(word, one.hash)]
    if len(found) > 1:
        which = ", ".join(f"{one.layer}/{NAME} ({one.hash[:_SHORT]}, {one.shown})" for one in found)
        raise UsageError(f"`{word}` could mean the rules of {len(found)} files", hint=f"say which: {which}")
    if found:
        return found
    approved = [one for one in config.permissions.allow if needs_consent(one.layer)]
    return [] if any(word in names(one.layer) for one in approved) else None


def rule_lines(one: Waiting) -> Iterator[str]:
    """Every rule that is approved with this file, for a person to read."""
    yield "  these calls of an agent would run without asking:"
    for rule in one.rules:
        new = click.style("  (new)", fg="green") if one.before is not None and str(rule.rule) not in one.before else ""
        text = marked(str(rule.rule)).replace("\n", "\\n")  # all of it: it is all approved
        yield f"    | {text}{new}"
    yield ""
    yield f"  {'from':<{_LABEL}}{visible(shown_path(one.file))}:{one.rules[0].line}"
    yield f"  {'hash':<{_LABEL}}{one.hash}"


def rules_as_data(one: Waiting, approved: bool) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "name": NAME,
        "approved": approved,
        "state": "new" if one.before is None else "changed",
        "allow": [{"rule": str(rule.rule), **picked(rule, "line column")} for rule in one.rules],
        "source": f"{one.file}:{one.rules[0].line}",
        **picked(one, "layer file hash before"),
    }


def rules_summary(now: Config) -> list[str]:
    """Which allow rules of the project count now, and which wait; nothing where it has none."""
    counting: dict[str, int] = {}
    for one in now.permissions.allow:
        if needs_consent(one.layer):
            counting[one.file] = counting.get(one.file, 0) + 1
    lines = [f"{NAME} of {shown_path(file)}: {counted(count, 'rule')} in force" for file, count in counting.items()]
    lines += [f"{one.shown}: {counted(len(one.rules), 'rule')} not in force" for one in now.permissions.pending]
    return [visible(line) for line in lines]
