"""VS Code's agent: it reads Claude Code's settings and obeys its words, but has names of its own in what it sends.

Taken from its documentation, not measured. What we know by another name is added beside what it sent, so that a guard
which was written for `Bash` and `file_path` is asked; what it sent stays as it is.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from billhook import strictjson
from billhook.answers import Answer

_TOOLS: Final = {
    "run_in_terminal": "Bash",
    "runInTerminal": "Bash",
    "runTerminalCommand": "Bash",
    "create_file": "Write",
    "createFile": "Write",
    "replace_string_in_file": "Edit",
    "multi_replace_string_in_file": "Edit",
    "insert_edit_into_file": "Edit",
    "editFiles": "Edit",
    "read_file": "Read",
    "readFile": "Read",
}
_FIELDS: Final = {
    "file_path": "filePath",
    "content": "content",
    "old_string": "oldString",
    "new_string": "newString",
    "command": "command",
}
"""Our names of what a tool gets, and VS Code's."""


def payload_of(sent: Mapping[str, Any]) -> dict[str, Any]:
    """What was sent, with the names of Claude Code beside it."""
    known: dict[str, Any] = {"hook_event_name": sent.get("hookEventName"), "session_id": sent.get("sessionId", "")}
    tool, given = sent.get("tool_name"), sent.get("tool_input")
    if isinstance(tool, str) and tool in _TOOLS:
        known |= {"tool_name": _TOOLS[tool], "original_tool_name": tool}
    if isinstance(given, Mapping):
        known["tool_input"] = input_of(given)
    return {**sent, **known}


def input_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's input, with our names for what has others."""
    added = {ours: given[theirs] for ours, theirs in _FIELDS.items() if theirs in given and ours not in given}
    files = given.get("files")
    if "file_path" not in added and isinstance(files, list) and len(files) == 1 and isinstance(files[0], str):
        added["file_path"] = files[0]
    return {**given, **added}


def rewritten_for_vscode(stdin: bytes, answer: Answer) -> Answer:
    """The answer with the rewritten input in the names that were sent."""
    sent = strictjson.loads_leniently(stdin, max_depth=400).get("tool_input")
    return replace(
        answer, updated_input=own_input(answer.updated_input or {}, sent if isinstance(sent, Mapping) else {})
    )


def own_input(rewritten: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """A rewritten input in VS Code's names: what a hook changed under our name is changed under the one that was
    sent."""
    own = dict(rewritten)
    for ours, theirs in _FIELDS.items():
        if ours in sent or ours not in own:
            continue
        value = own.pop(ours)
        if theirs in sent and value != sent[theirs]:
            own[theirs] = value
        elif theirs not in sent and value not in sent.get("files", ()):
            own["files"] = [value]
    return own
