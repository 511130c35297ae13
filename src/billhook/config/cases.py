"""Test cases of rules: `tests:` in hooks.yaml and in `*.hooktest.yaml` files.

A case describes one event (`bash`, `write`, `read`, `prompt` or a whole `event`) and what is expected of its verdict.
This module reads cases and compares them with verdicts; it runs nothing.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from billhook.agents import AGENTS
from billhook.config import sources
from billhook.config.nodes import FieldNodes, Node, read_text
from billhook.core import strictjson
from billhook.core.events import EVENTS
from billhook.core.text import Finding, suggestion

CALLS: Final = ("bash", "write", "read", "prompt", "event")
EXPECTED: Final = ("allow", "deny", "ask", "none", "stop", "rewrite", "keep_going")
_PERMISSIONS: Final = ("allow", "ask", "deny", "none")
_EXPRESSIONS: Final = ("reason", "context", "message", "output")
_KINDS: Final = {
    **dict.fromkeys(
        ("bash", "write", "read", "prompt", "name", "expect", "by", "without", "agent", "needs", "permission"), str
    ),
    **dict.fromkeys(_EXPRESSIONS, str),
    **dict.fromkeys(("event", "input", "files"), dict),
    **dict.fromkeys(("after", "effects"), list),
}
_WORDS: Final = {str: "a string", dict: "a mapping", list: "a list"}
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


def _wrong_value(name: str, node: Node) -> Iterator[tuple[str, str, Node, str]]:
    value = node.plain()
    known = {"expect": EXPECTED, "agent": tuple(AGENTS), "permission": _PERMISSIONS}.get(name)
    if known and value not in known:
        yield "BH206", f"unknown value `{value}` of `{name}`", node, suggestion(value, known)
    if name == "event" and value.get("hook_event_name") not in EVENTS:
        hint = "for example `event: {hook_event_name: Stop}`"
        yield "BH201", "`event` needs the `hook_event_name` of an event", node, hint
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
            yield "BH203", "`after` must be a list of calls", node, 'for example `after: [{bash: "cat .env"}]`'


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
