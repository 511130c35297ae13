"""Published patterns that a recipe replaces: BH512, always a note.

A command *is* a recipe only if both do the same, with the command's own values (tests/recipes/test_replaceable.py runs
both). A recipe *may replace* a hook that has its purpose. A script that does anything else is left alone.
"""

import re
import shlex
from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from billhook.config.declaration import Declared, RunAction
from billhook.config.lint import finding
from billhook.config.lint.commands import scripts
from billhook.core.text import Finding, counted

_LONGEST: Final = 120  # lines of a script that does one thing
_FORMATTER: Final = r"(?:npx |uv run |uvx |pnpm exec )?(?:prettier --write|ruff format|gofmt -w|rustfmt)\b[^;&|]*"
_FILE: Final = r"""jq -r ['"]?\.tool_input\.file_path[^|;]*\| *"""
_TEXT: Final = r"""(?:'[^']*'|"[^"$`]*"|[\w/.-]+)"""
_REFUSES: Final = r"exit 2|permissionDecision\W+deny|decision\W+block"
_CURRENT: Final = (
    r"git (?:-C \S+ )?(?:branch --show-current|rev-parse --abbrev-ref HEAD|symbolic-ref (?:-q )?--short HEAD)"
)
_ELSEWHERE: Final = re.compile(r"\b(?:curl|wget|ssh|scp|npm|npx|docker|gh|rm|mv|cp|tee|mail)\b|>>|\bpip3? install")
"""Signs of a script that does more than refuse."""


class Replaced(NamedTuple):
    """A shape of hooks, and the recipe that does the same."""

    recipe: str
    events: frozenset[str]
    line: str = ""  # the whole command, where that is all; its named groups are parameters of the recipe
    script: tuple[str, ...] = ()  # what a script contains, each of it; or a command that is one
    same: bool = False  # it does the same, for the events that the hook has


_WAITING: Final = frozenset({"Stop", "Notification"})
_BEFORE: Final = frozenset({"PreToolUse"})
TABLE: Final = (
    Replaced("format-after-edit", frozenset({"PostToolUse"}), rf"{_FILE}xargs (?:-\S+ )*{_FORMATTER}(?:\|\| true)?"),
    Replaced("notify-desktop", _WAITING, rf"notify-send(?: -\S+)*(?: {_TEXT})+"),
    Replaced("notify-desktop", _WAITING, r"osascript -e 'display notification [^']*'"),
    Replaced("notify-sound", _WAITING, rf"paplay (?P<linux>{_TEXT})", same=True),
    Replaced("notify-sound", _WAITING, rf"afplay (?P<mac>{_TEXT})", same=True),
    Replaced("notify-bell", _WAITING, r"""(?:printf|echo -ne?) ['"]\\(?:a|007)['"] ?> ?/dev/tty""", same=True),
    Replaced("notify-bell", _WAITING, r"""(?:printf|echo -ne?) ['"]?\\(?:a|007)['"]?|tput bel"""),
    Replaced("no-commits-to-main", _BEFORE, script=(_CURRENT, r"\bmain\b", r"git.{0,9}commit", _REFUSES)),
    Replaced("no-verify", _BEFORE, script=("--no-verify", _REFUSES)),
)


def lint_replaceable(hook: Declared) -> Iterator[Finding]:
    """A hook in an agent's settings file that a recipe can replace."""
    if hook.shape == "yaml" or not isinstance(hook.action, RunAction):
        return
    text = hook.action.text.strip()
    for one in TABLE:
        if {*hook.events} <= one.events and (what := _described(one, hook, text)):
            yield replace(_found(one, hook, text, what), note=True)
            return


def _found(one: Replaced, hook: Declared, text: str, what: str) -> Finding:
    if one.same and hook.match in (None, "", "*"):
        found = re.fullmatch(one.line, text)
        values = {"events": ",".join(hook.events), **(found.groupdict() if found else {})}
        given = [word for name, value in values.items() for word in ("--set", f"{name}={''.join(shlex.split(value))}")]
        message = f"{what} is `{shlex.join(['billhook', 'add', one.recipe, *given])}`"
        return finding(hook, "BH512", "run", message, f"`billhook add {one.recipe} --print` shows what it would be")
    hint = f"compare them: `billhook add {one.recipe} --print` shows what it does"
    return finding(hook, "BH512", "run", f"`billhook add {one.recipe}` may replace {what}", hint)


def _described(one: Replaced, hook: Declared, text: str) -> str:
    """What a recipe replaces, in words; empty if nothing."""
    if one.line:
        return "this command" if re.fullmatch(one.line, text) else ""
    for content in (text, *(script for _, script in scripts(hook))):
        code = "\n".join(line for line in content.splitlines() if not line.lstrip().startswith("#"))
        if all(re.search(part, code) for part in one.script) and not _ELSEWHERE.search(code):
            lines = content.count("\n") + (not content.endswith("\n"))
            if lines <= _LONGEST:
                return "this command" if content is text else f"this script of {counted(lines, 'line')}"
    return ""


CHECKS: Final = (lint_replaceable,)
