"""VS Code's agent. It reads the settings of Claude Code and Copilot and obeys Claude Code's answers; its payloads have
different names.

From its documentation, not measured. Canonical names are added beside the original ones, so that a guard for `Bash` and
`file_path` runs; the original fields are unchanged. It ignores matchers.
"""

from collections.abc import Mapping
from typing import Any, Final

from billhook.agents import base

_TOOLS: Final = base.pairs(
    "run_in_terminal=Bash runInTerminal=Bash runTerminalCommand=Bash create_file=Write createFile=Write "
    "replace_string_in_file=Edit multi_replace_string_in_file=Edit insert_edit_into_file=Edit editFiles=Edit "
    "read_file=Read readFile=Read"
)
_FIELDS: Final = base.pairs(
    "file_path=filePath content=content old_string=oldString new_string=newString command=command"
)
"""The canonical names of input fields, and VS Code's."""


def _payload(sent: Mapping[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {"hook_event_name": sent.get("hookEventName"), "session_id": sent.get("sessionId", "")}
    tool, given = sent.get("tool_name"), sent.get("tool_input")
    if isinstance(tool, str) and tool in _TOOLS:
        known |= {"tool_name": _TOOLS[tool], "original_tool_name": tool}
    if isinstance(given, Mapping):
        known["tool_input"] = _input(given)
    return {**sent, **known}


def _input(given: Mapping[str, Any]) -> dict[str, Any]:
    added = {ours: given[theirs] for ours, theirs in _FIELDS.items() if theirs in given and ours not in given}
    files = given.get("files")
    if "file_path" not in added and isinstance(files, list) and len(files) == 1 and isinstance(files[0], str):
        added["file_path"] = files[0]
    return {**given, **added}


def _own_input(rewritten: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """A rewritten input with VS Code's names: a change of a canonical name is applied to the original name."""
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


AGENT: Final = base.Agent(
    name="vscode",
    title="VS Code",
    aliases=("vscode", "vs-code", "VSCode", "code"),
    sends=lambda payload, _environ: 2 * ("hookEventName" in payload and "hook_event_name" not in payload),
    payload_of=_payload,
    input_for=_own_input,
    reads_claude=("user", "project"),
)
AGENTS = {"vscode": AGENT}
