"""Published patterns that a recipe replaces: BH512, always a note.

The table has only shapes whose behaviour was compared with that of the recipe (tests/recipes/test_replaceable.py). A
script that does anything else is not reported.
"""

import re
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
    line: str = ""  # the whole command
    script: tuple[str, ...] = ()  # patterns that a script or command contains, all of them


_WAITING: Final = frozenset({"Stop", "Notification"})
_BEFORE: Final = frozenset({"PreToolUse"})
TABLE: Final = (
    Replaced("format-after-edit", frozenset({"PostToolUse"}), rf"{_FILE}xargs (?:-\S+ )*{_FORMATTER}(?:\|\| true)?"),
    Replaced("notify-desktop", _WAITING, rf"notify-send(?: -\S+)*(?: {_TEXT})+"),
    Replaced("notify-desktop", _WAITING, r"osascript -e 'display notification [^']*'"),
    Replaced("notify-sound", _WAITING, rf"(?:afplay|paplay)(?: {_TEXT})+ ?&?"),
    Replaced(
        "notify-bell", _WAITING, r"""(?:printf|echo -e|echo -ne) ['"]?\\(?:a|007)['"]?(?: ?> ?/dev/tty)?|tput bel"""
    ),
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
            hint = f"`billhook add {one.recipe} --print` shows it"
            found = finding(hook, "BH512", "run", f"the recipe `{one.recipe}` can replace {what}", hint)
            yield replace(found, note=True)
            return


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
