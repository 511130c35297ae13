"""Checks of a configuration that can be read, but probably does not do what its author meant: BH3xx, BH4xx, BH5xx.

`lint` checks hooks as files declare them. It reads the scripts that they name, and runs nothing.
"""

import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

from billhook.config.declaration import HookDeclaration, spelling
from billhook.core.events import EVENTS, Event
from billhook.core.text import Finding, joined


def lint(
    entries: Sequence[HookDeclaration], variables: Mapping[str, frozenset[str]] = MappingProxyType({})
) -> list[Finding]:
    """All findings by place, except for disabled or broken hooks. `variables`: by file, those it sets for its hooks."""
    from billhook.config.lint import commands, matchers
    from billhook.config.lint import hooks as one_hook

    hooks = [entry for entry in entries if entry.enabled and entry.action is not None]
    checks = (*matchers.CHECKS, *commands.CHECKS, *one_hook.CHECKS)
    found = [finding for hook in hooks for check in checks for finding in check(hook)]
    found += [one for hook in hooks for one in one_hook.lint_variables(hook, variables.get(hook.file, frozenset()))]
    found += matchers.lint_rules(hooks)
    found += one_hook.lint_dialects(hooks)
    found += one_hook.lint_results(hooks)
    # The matcher of a group is the matcher of all its handlers.
    distinct = {(one.code, one.file, one.line, one.column, one.message): one for one in reversed(found)}
    return sorted(distinct.values(), key=lambda one: (one.file, one.line, one.column, one.code))


# The text of every code: the sections of codes.md, which comes with the package.


class Section(msgspec.Struct, frozen=True):
    """What one code means: `## BH301 A matcher that can never match`, and the text below it."""

    code: str
    title: str
    text: str  # without the heading

    @property
    def summary(self) -> str:
        """The first paragraph, as one line."""
        return " ".join(self.text.partition("\n\n")[0].split())


def is_note(finding: Finding) -> bool:
    """Whether it is only for information, such as every finding from the event log, and does not fail a check."""
    return finding.note or finding.code.startswith("BH6")


@functools.cache
def page() -> str:
    return Path(__file__).with_name("codes.md").read_text(encoding="utf-8")


@functools.cache
def sections() -> dict[str, Section]:
    """Every code, in the order of the page."""
    parts = re.split(r"^## (BH\d+) (.+)\n", page(), flags=re.MULTILINE)[1:]
    found = [
        Section(*three) for three in zip(parts[::3], parts[1::3], (text.strip() for text in parts[2::3]), strict=True)
    ]
    return {section.code: section for section in found}


# What every lint needs:


class Edit(str):
    """A line of a file, and the value in it."""

    value: str


def finding(hook: HookDeclaration, code: str, field: str, message: str, hint: str, edit: str = "") -> Finding:
    """A finding at the place of one of the hook's fields, or of the hook where the file has no such field. `hint`: what
    to do, or the line to write, which has the new value of the field; else `edit` is that value."""
    value = edit or (hint.value if isinstance(hint, Edit) else "")
    return hook.finding(code, field, message, f"write `{hint}`" if isinstance(hint, Edit) else hint, value)


def edit(hook: HookDeclaration, field: str, value: object) -> Edit:
    """The line to write into the file: `match: Bash` or `"matcher": "Bash"`."""
    key = spelling(field, json=hook.shape != "yaml")
    if hook.shape != "yaml":
        line = Edit(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    else:
        line = Edit(f"{key}: {json.dumps(value) if not isinstance(value, str) or _needs_quotes(value) else value}")
    line.value = str(value)
    return line


def _needs_quotes(text: str) -> bool:
    return text[:1] in "*&!%@`{}[],?-|>#\"' " or ": " in text or " #" in text or text.endswith((":", " "))


def at_event(hook: HookDeclaration, *events: str) -> str:
    """A hint that moves a hook to other events, as its file spells that."""
    if hook.shape == "yaml":
        return f"write `{edit(hook, 'events', events[0] if len(events) == 1 else list(events))}`"
    return "move it to " + " and ".join(f'`"{event}": [...]`' for event in events)


def kinds(hook: HookDeclaration) -> list[type[Event]]:
    """The events that it names, those that have a type."""
    return [EVENTS[name] for name in hook.events if name in EVENTS]


def listed(words: list[str]) -> str:
    """`a`, `b` and `c`."""
    return joined([f"`{word}`" for word in words])
