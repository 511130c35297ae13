"""Real payloads of agents become canonical events, tools and inputs."""

import json
from pathlib import Path
from typing import Any

import pytest

from billhook.agents import AGENTS, EVERY_AGENT, canonical_event, dialect, dialect_of
from billhook.agents.universal import speaker
from billhook.core import events
from billhook.core.answers import rewrite
from billhook.core.errors import EventError
from billhook.core.events import EVENTS, Event, OtherEvent
from billhook.core.hook import Context
from billhook.serve.hook_server import detect_event, received
from strategies import sample

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*/*.json"))
INPUTS = {
    "Bash": {"command"},
    "Write": {"file_path", "content"},
    "Read": {"file_path"},
    "Edit": {"file_path"},
    "Agent": {"prompt"},
    "mcp__notes__add_note": {"text"},
    "apply_patch": {"command"},
}


def host(file: Path) -> str:
    """The dialect of a recording: Copilot was recorded in both of its spellings, and VS Code has none of its own."""
    return dialect_of(file.parent.name.removesuffix("-claude"))


def recorded(file: Path) -> tuple[dict[str, Any], Event]:
    """What was sent, and the event that is read, with its name from the command line where it has none."""
    record = json.loads(file.read_text("utf-8"))
    stdin = json.dumps(record["stdin"]).encode()
    if host(file) == "claude":
        return record["stdin"], detect_event("claude", stdin, record["env"], "")[0]
    return record["stdin"], received(dialect(host(file)), stdin, record["env"], record["argument"])


def test_there_are_recordings_of_every_agent() -> None:
    """An agent without golden files is not tested."""
    assert {file.parent.name for file in FILES} == {*EVERY_AGENT, "copilot-claude"}


@pytest.mark.parametrize("name", AGENTS)
def test_there_is_a_payload_of_every_event(name: str) -> None:
    """Recorded, or as its documentation shows it."""
    there = {json.loads(file.read_text("utf-8"))["argument"] for file in FILES if file.parent.name == name}
    assert {*AGENTS[name].spellings.values(), *AGENTS[name].only_its} <= there


def test_there_is_a_payload_of_every_event_of_vs_code() -> None:
    """It has no record of its events: these are in its documentation."""
    there = {file.stem.partition("-")[0] for file in FILES if file.parent.name == "vscode"}
    named = "SessionStart UserPromptSubmit PreToolUse PostToolUse PreCompact SubagentStart SubagentStop Stop"
    assert there == set(named.split())


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_recorded_payload_is_a_canonical_event(file: Path) -> None:
    """The event has our name, the session and the folder; the tool has our name and our words for its input."""
    sent, event = recorded(file)
    argument = json.loads(file.read_text("utf-8"))["argument"]
    meant = canonical_event(argument)

    assert event.hook_event_name in (meant or argument, "PostToolUseFailure")
    assert isinstance(event, OtherEvent) == (meant == "")
    assert event.session_id == "00000000-0000-4000-8000-000000000001"
    assert event.cwd == "/home/user/project" or (host(file) == "windsurf" and "cwd" not in sent["tool_info"])
    tool = getattr(event, "tool_name", None)
    if tool is None:
        return
    assert tool in INPUTS or tool.startswith("mcp__")
    assert event.hook_event_name == "PermissionRequest" or INPUTS.get(tool, set()) <= set(event.tool_input)  # type: ignore[attr-defined]
    if "tool_use_id" in EVENTS[event.hook_event_name].__struct_fields__:
        apart = sent.get("tool_call_id") or sent.get("extra", {}).get("tool_call_id")
        given = sent.get("tool_use_id") or apart or sent.get("tool_call", {}).get("id")
        assert event.tool_use_id == given or event.tool_use_id.startswith("made_")  # type: ignore[attr-defined]
    kept = {key for key in sent if key.islower() and key not in ("tool_name", "tool_input", "hook_event_name")}
    assert kept - set(getattr(dialect(host(file)), "names", {})) - {"tool_info"} <= set(event.payload)


PAIRS = [
    ("gemini/BeforeTool-run_shell_command", "gemini/AfterTool-run_shell_command"),
    ("copilot/preToolUse-create", "copilot/postToolUse-create"),
    ("copilot/preToolUse-create", "copilot-claude/PreToolUse-Write"),
    ("copilot/preToolUse-bash", "copilot-claude/PostToolUse-Bash"),
    ("copilot/preToolUse-edit", "copilot-claude/PreToolUse-Edit"),
    ("cursor/beforeShellExecution", "cursor/afterShellExecution"),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_made_up_id_is_that_of_the_call(one: str, other: str) -> None:
    """Before and after the tool, and in both spellings of an agent, the same call has the same id."""
    first, second = (recorded(GOLDEN / f"{name}.json")[1] for name in (one, other))

    assert first.tool_use_id == second.tool_use_id  # type: ignore[attr-defined]
    assert first.tool_use_id.startswith("made_")  # type: ignore[attr-defined]
    assert first.tool_input == second.tool_input  # type: ignore[attr-defined]
    assert first.tool_name == second.tool_name  # type: ignore[attr-defined]


def sent(name: str, **payload: Any) -> Event:
    return dialect(name).read_call(json.dumps({"session_id": "s", "cwd": "/", **payload}).encode(), {})


def test_other_calls_have_other_ids() -> None:
    """Another session, another tool, another input: another id; the order of keys does not matter."""
    call = {"hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": {"a": 1, "b": 2}}
    ids = [
        sent("gemini", **call).payload["tool_use_id"],
        sent("gemini", **call | {"session_id": "t"}).payload["tool_use_id"],
        sent("gemini", **call | {"tool_name": "other"}).payload["tool_use_id"],
        sent("gemini", **call | {"tool_input": {"a": 1, "b": 3}}).payload["tool_use_id"],
    ]

    assert len(set(ids)) == 4
    assert sent("gemini", **call | {"tool_input": {"b": 2, "a": 1}}).payload["tool_use_id"] == ids[0]


def test_a_tool_that_failed_is_an_event_of_its_own() -> None:
    """Gemini sends AfterTool with an error in the response."""
    _, event = recorded(GOLDEN / "gemini" / "AfterTool-read_file-failed.json")

    assert isinstance(event, events.PostToolUseFailure)
    assert event.error == "File not found: /home/user/project/missing.txt"
    assert event.payload["original_event_name"] == "AfterTool"


NAMED = [
    pytest.param("gemini", "BeforeTool", "run_shell_command", "Bash", id="gemini"),
    pytest.param("gemini", "BeforeTool", "replace", "Edit", id="gemini: replace"),
    pytest.param("qwen", "PreToolUse", "edit", "Edit", id="qwen: edit"),
    pytest.param("copilot", "PreToolUse", "notes-add_note", "mcp__notes__add_note", id="copilot: a server's tool"),
    pytest.param("copilot", "PreToolUse", "my-long-server-tool", "mcp__my-long-server__tool", id="copilot: the last"),
    pytest.param("cursor", "preToolUse", "MCP:add_note", "mcp__cursor__add_note", id="cursor: a server's tool"),
    pytest.param("cursor", "preToolUse", "Shell", "Bash", id="cursor"),
    pytest.param("codex", "PreToolUse", "apply_patch", "apply_patch", id="codex: a patch stays one"),
    pytest.param("gemini", "BeforeTool", "my_tool", "my_tool", id="an unlisted tool"),
]


@pytest.mark.parametrize(("name", "event", "own", "tool"), NAMED)
def test_tools_have_our_names(name: str, event: str, own: str, tool: str) -> None:
    """The tool's own name is kept beside ours when it is another one."""
    read = sent(name, hook_event_name=event, tool_name=own, tool_input={"command": "x"})

    assert read.payload["tool_name"] == tool
    assert read.payload.get("original_tool_name") == (own if own != tool else None)


def test_which_server_a_tool_is_of_is_told_by_gemini() -> None:
    """`mcp_server_tool` can't be split, but the payload has the server's name."""
    context = {"server_name": "my_notes", "tool_name": "add_note"}
    event = sent(
        "gemini", hook_event_name="BeforeTool", tool_name="mcp_my_notes_add_note", tool_input={}, mcp_context=context
    )

    assert event.payload["tool_name"] == "mcp__my_notes__add_note"


@pytest.mark.parametrize(
    ("name", "payload", "wanted", "reported"),
    [
        pytest.param(
            "copilot",
            {"hook_event_name": "preToolUse", "toolName": "create", "toolArgs": {"path": "/a", "file_text": "x"}},
            {"file_path": "/b", "content": "y"},
            {"modifiedArgs": {"path": "/b", "file_text": "y"}},
            id="copilot",
        ),
        pytest.param(
            "copilot",
            {"hook_event_name": "preToolUse", "toolName": "edit", "toolArgs": '{"path": "/a", "old_str": "x"}'},
            {"file_path": "/b", "old_string": "y"},
            {"modifiedArgs": {"path": "/b", "old_str": "y"}},
            id="copilot: arguments in a string",
        ),
        pytest.param(
            "gemini",
            {"hook_event_name": "BeforeTool", "tool_name": "read_file", "tool_input": {"absolute_path": "/a"}},
            {"file_path": "/b"},
            {"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": {"absolute_path": "/b"}}},
            id="gemini: an older name of a field",
        ),
        pytest.param(
            "codex",
            {"hook_event_name": "PreToolUse", "tool_name": "spawn_agent", "tool_input": {"message": "do"}},
            {"prompt": "do less"},
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "allow",
                    "updatedInput": {"message": "do less"},
                }
            },
            id="codex",
        ),
    ],
)
def test_a_rewrite_goes_out_in_the_agents_own_words(
    name: str, payload: dict[str, Any], wanted: dict[str, Any], reported: dict[str, Any]
) -> None:
    """What was renamed on the way in is named back on the way out."""
    given = {key: value for key, value in payload.items() if key != "hook_event_name"}
    named = {"hook_event_name": canonical_event(payload["hook_event_name"])} if name == "copilot" else {}
    event = sent(name, **payload | given | named)
    written = dialect(name).write_exit(event, rewrite(input=wanted))

    assert json.loads(written.exit.stdout) == reported
    assert written.lost == ()


def test_a_patch_that_is_bare_text_stays_one() -> None:
    """Some models give apply_patch no object: guards see a `command`, the agent gets text back."""
    patch = "*** Begin Patch\n*** Update File: a.txt\n*** End Patch"
    event = sent("copilot", hook_event_name="preToolUse", toolName="apply_patch", toolArgs=patch)
    written = dialect("copilot").write_exit(event, rewrite(input={"command": patch.replace("a.txt", "b.txt")}))

    assert event.payload["tool_input"] == {"command": patch}
    assert json.loads(written.exit.stdout)["modifiedArgs"] == patch.replace("a.txt", "b.txt")


def test_unknown_fields_are_kept() -> None:
    """Nothing that an agent sends is dropped."""
    event = sent(
        "copilot", hook_event_name="preToolUse", toolName="bash", toolArgs={"command": "ls"}, newField={"a": 1}
    )

    assert event.extra["newField"] == {"a": 1}
    assert event.payload["original_event_name"] == "preToolUse"


def test_a_payload_without_a_name_asks_for_one() -> None:
    """Copilot's first spelling has no event name: the command line has it."""
    with pytest.raises(EventError) as error:
        sent("copilot", toolName="bash", toolArgs={"command": "ls"})
    assert error.value.path == "$.hook_event_name"


def test_an_odd_escape_switches_no_guard_off() -> None:
    """A lone surrogate in a command is read."""
    data = b'{"hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"rm \\ud800"}}'

    assert dialect("gemini").read_call(data, {}).payload["tool_input"]["command"].startswith("rm ")


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_an_unknown_caller_is_read_like_the_agent_that_it_is(file: Path) -> None:
    """`universal` finds out whose words an event is in, unless they are the reference's."""
    record = json.loads(file.read_text("utf-8"))
    if speaker(record["stdin"]) == "codex" != host(file):
        assert recorded(file)[1].hook_event_name == record["argument"]
        return
    known = recorded(file)[1]
    stdin = json.dumps(record["stdin"]).encode()
    event = received(dialect("universal"), stdin, record["env"], record["argument"])

    assert event.hook_event_name == known.hook_event_name
    assert getattr(event, "tool_name", "") == getattr(known, "tool_name", "")
    assert (
        getattr(event, "tool_input", {}).items() <= getattr(known, "tool_input", {}).items()
    )  # VS Code's has both names


def test_the_reference_is_the_usual_speaker() -> None:
    """What has no mark of another agent is read in the reference's form."""
    assert speaker({"hook_event_name": "PreToolUse", "tool_name": "Bash"}) == "codex"
    assert speaker({}) == "codex"


@pytest.mark.parametrize("name", ["codex", "gemini", "qwen", "copilot", "cursor"])
@pytest.mark.parametrize(
    "event",
    [
        sample("PreToolUse"),
        sample("PreToolUse", tool_name="Write", tool_input={"file_path": "/a", "content": "x"}),
        sample("PostToolUse"),
        sample("UserPromptSubmit"),
        sample("Stop"),
        sample("SessionStart"),
    ],
    ids=lambda event: f"{event.hook_event_name} {getattr(event, 'tool_name', '')}",
)
def test_what_a_hook_of_an_agent_is_told_is_what_the_agent_would_send(name: str, event: Event) -> None:
    """A hook that was written for an agent can be run by us; what it is told, read again, is the same event."""
    call = dialect(name).write_call(Context(event, []))
    stdin = call.stdin
    again = received(dialect(name), stdin, call.env, event.hook_event_name)

    assert stdin.endswith(b"\n") and stdin.count(b"\n") == 1 and stdin.isascii()
    assert again.hook_event_name == event.hook_event_name
    fields = type(event).__struct_fields__
    assert {key: getattr(again, key) for key in fields} == {key: getattr(event, key) for key in fields}
