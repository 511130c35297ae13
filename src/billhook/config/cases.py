"""Test cases of rules: `tests:` in hooks.yaml and in `*.hooktest.yaml` files.

A case describes one event (`bash`, `write`, `read`, `prompt` or a whole `event`) and what is expected of its verdict.
This module reads cases and compares them with verdicts; it runs nothing.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from billhook.agents import AGENTS
from billhook.config import sources
from billhook.config.nodes import FieldNodes, Node, read_text
from billhook.core import strictjson
from billhook.core.errors import BillhookError
from billhook.core.events import EVENTS, parse
from billhook.core.text import Finding, suggestion
from billhook.effects.effect import KINDS, SCOPES

CALLS: Final = ("bash", "write", "read", "prompt", "event")
EXPECTED: Final = ("allow", "deny", "ask", "none", "stop", "rewrite", "keep_going")
_PERMISSIONS: Final = ("allow", "ask", "deny", "none")
_EXPRESSIONS: Final = ("reason", "context", "message", "output")
_EXPECTATIONS: Final = (*_EXPRESSIONS, "expect", "by", "without", "input", "effects", "permission")
_KINDS: Final[dict[str, Any]] = {
    **dict.fromkeys(
        ("bash", "write", "read", "prompt", "name", "expect", "by", "without", "agent", "needs", "permission"), str
    ),
    **dict.fromkeys(_EXPRESSIONS, str),
    **dict.fromkeys(("event", "input", "files"), dict),
    **dict.fromkeys(("after", "effects"), list),
    "only": (str, list),
}
_WORDS: Final[dict[Any, str]] = {str: "a string", dict: "a mapping", list: "a list", (str, list): "a name or a list"}
SUFFIXES: Final = (".hooktest.yaml", ".hooktest.yml")  # files that contain only test cases
_EXAMPLE: Final = 'for example `- {bash: "git push", expect: ask, by: push-gate}`'


class Case(msgspec.Struct, frozen=True):
    """One test case and its place."""

    data: dict[str, Any]
    file: str
    line: int

    @property
    def title(self) -> str:
        """A line for people: its name, or the call that it describes."""
        if name := self.data.get("name"):
            return str(name)
        kind = next((each for each in CALLS if each in self.data), "")
        given = self.data.get(kind, "")
        return f"{kind}: {given if isinstance(given, str) else strictjson.dumps(given)}"


def read_cases(node: Node | None, file: str) -> tuple[list[Case], list[Finding]]:
    """The cases below `tests`, and what is wrong with the others."""
    if node is None or node.value is None:
        return [], []
    if not isinstance(node.value, tuple):
        return [], [Finding("BH203", "`tests` must be a list of mappings", file, node.line, node.column, _EXAMPLE)]
    cases: list[Case] = []
    findings: list[Finding] = []
    for one in node.value:
        wrong = [Finding(code, text, file, at.line, at.column, hint) for code, text, at, hint in _wrong(one)]
        findings += wrong
        if not wrong:
            cases.append(Case(one.plain(), file, one.line))
    return cases, findings


def unknown_hooks(cases: Iterable[Case], known: Collection[str]) -> Iterator[Finding]:
    """Hooks that cases name and that don't exist: such a case may pass for ever."""
    for case in cases:
        only = case.data.get("only", [])
        named = [*([only] if isinstance(only, str) else only), *(case.data.get(key) for key in ("by", "without"))]
        for name in named:
            if name is not None and name not in known:
                hint = suggestion(str(name), known, "`billhook list` shows the hooks")
                yield Finding("BH206", f"no hook is called `{name}`", case.file, case.line, 1, hint)


def cases_in(path: str) -> tuple[list[Case], list[Finding]]:
    """The cases of one file: a hooks.yaml, or a file of cases (a list, or a mapping with `tests`)."""
    try:
        read = read_text(sources.read_bytes(path), path)
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", "") or str(error)).lower()
        return [], [Finding("BH101", f"it can't be opened: {why}", path, 1, 1, "check the path")]
    found = list(read.findings)
    node = read.node
    if node is not None and isinstance(node.value, FieldNodes):
        others = [key for key, _ in node.value if key.value != "tests"] if path.endswith(SUFFIXES) else []
        hint = "put the rules into hooks.yaml, and the cases below `tests`"
        found += [Finding("BH202", f"unknown key `{key.value}`", path, key.line, key.column, hint) for key in others]
        node = node.value.get("tests")
    cases, wrong = read_cases(node, path)
    return cases, [*found, *wrong]


def case_files(files: Iterable[str], folders: Iterable[str]) -> list[str]:
    """The files that may contain cases: the YAML files among those with hooks, and `*.hooktest.yaml` beside them."""
    own = [file for file in files if file.endswith((".yaml", ".yml"))]
    places = dict.fromkeys([*(os.path.dirname(file) for file in own), *folders])
    beside = [
        os.path.join(folder, name)
        for folder in places
        if os.path.isdir(folder)
        for name in sorted(os.listdir(folder))
        if name.endswith(SUFFIXES)
    ]
    return list(dict.fromkeys([*own, *beside]))


def _wrong(node: Node) -> Iterator[tuple[str, str, Node, str]]:
    """What is wrong with one case: code, message, place and hint."""
    if not isinstance(node.value, FieldNodes):
        yield "BH203", "`tests` must be a list of mappings", node, _EXAMPLE
        return
    for key, value in node.value:
        name = str(key.value)
        wanted = _KINDS.get(name)
        if wanted is None:
            yield "BH202", f"unknown key `{name}` in a test", key, suggestion(name, _KINDS)
        elif not isinstance(value.plain(), wanted):
            yield "BH203", f"`{name}` must be {_WORDS[wanted]}, not {value.kind}", value, _EXAMPLE
        else:
            yield from _wrong_value(name, value)
    given = [name for name in CALLS if node.value.get(name) is not None]
    if len(given) != 1:
        what = "a test needs a call" if not given else f"a test describes one call, not {len(given)}"
        yield "BH204", what, node, f"one of {', '.join(f'`{name}`' for name in CALLS)}"
    if not any(node.plain().get(name) for name in _EXPECTATIONS):
        yield "BH204", "a test without an expectation can't fail", node, _EXAMPLE


def _wrong_value(name: str, node: Node) -> Iterator[tuple[str, str, Node, str]]:
    value = node.plain()
    known = {"expect": EXPECTED, "agent": tuple(AGENTS), "permission": _PERMISSIONS}.get(name)
    if known and value not in known:
        yield "BH206", f"unknown value `{value}` of `{name}`", node, suggestion(value, known)
    if name == "event":
        yield from _wrong_event(value, node)
    if name in _EXPRESSIONS:
        try:
            re.compile(value)
        except re.error as error:
            yield "BH206", f"`{name}` is not a regular expression: {error}", node, "escape its special characters"
    if name == "files":
        bad = [key for key, text in value.items() if not _is_inside(key) or not isinstance(text, str)]
        if bad:
            hint = 'for example `files: {src/a.py: "x = 1\\n"}`'
            yield "BH206", f"`files` must be paths below the project, with their content: `{bad[0]}`", node, hint
    if name == "after":
        bad = [one for one in value if not isinstance(one, dict) or len([key for key in CALLS if key in one]) != 1]
        if bad:
            example = 'for example `after: [{bash: "cat .env"}]`'
            unknown = [key for key in bad[0] if key not in CALLS] if isinstance(bad[0], dict) else []
            hint = suggestion(str(unknown[0]), CALLS, example) if unknown else example
            yield "BH203", f"`after` must be a list of calls, not {strictjson.dumps(bad[0])}", node, hint
    for effect in value if name == "effects" else ():
        kind, _, scope = str(effect).partition(":")
        if kind not in KINDS or (scope and scope not in SCOPES):
            hint = suggestion(scope if kind in KINDS else kind, SCOPES if kind in KINDS else KINDS)
            yield "BH206", f"unknown effect `{effect}`", node, hint


def _wrong_event(value: dict[str, Any], node: Node) -> Iterator[tuple[str, str, Node, str]]:
    name = value.get("hook_event_name")
    if name not in EVENTS:
        hint = suggestion(str(name), EVENTS, "for example `event: {hook_event_name: Stop}`")
        yield "BH201", "`event` needs the `hook_event_name` of an event", node, hint
        return
    try:
        parse(value)
    except BillhookError as error:
        yield "BH203", f"`event` can't be read: {error}", node, "docs/events.md has the fields of each event"


def _is_inside(path: str) -> bool:
    return bool(path.strip()) and not os.path.isabs(path) and ".." not in path.split("/") and "\0" not in path


def event_of(case: Mapping[str, Any]) -> dict[str, Any]:
    """The event that a case describes, as an agent sends it."""
    tool: dict[str, tuple[str, dict[str, Any]]] = {
        "bash": ("Bash", {"command": case.get("bash")}),
        "write": ("Write", {"file_path": case.get("write"), "content": ""}),
        "read": ("Read", {"file_path": case.get("read")}),
    }
    for name, (tool_name, given) in tool.items():
        if name in case:
            return {"hook_event_name": "PreToolUse", "tool_name": tool_name, "tool_input": given}
    if "fire" in case:
        return {"hook_event_name": case["fire"]}
    if "prompt" in case:
        return {"hook_event_name": "UserPromptSubmit", "prompt": case["prompt"]}
    event = case.get("event")
    return dict(event) if isinstance(event, dict) else {}
