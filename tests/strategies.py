"""Hypothesis strategies for events and answers, shared by the tests, and one sample of each event."""

from typing import Any

from hypothesis import strategies as st

from billhook.core import events
from billhook.core.answers import Answer, Decision
from billhook.core.events import Event

TOOL: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
MODELS: dict[str, Any] = {
    "from_model": "a",
    "to_model": "b",
    "requested_model": None,
    "source": "command",
    "context_tokens": 10,
    "prompt_cache_warm": True,
    "cache_ttl": "5m",
    "estimated_cache_write_usd": 0.5,
    "pricing": "catalog",
}
SAMPLES: dict[str, dict[str, Any]] = {
    "PreToolUse": {**TOOL, "tool_use_id": "t1"},
    "PostToolUse": {**TOOL, "tool_use_id": "t1", "tool_response": {"stdout": "x"}},
    "PostToolUseFailure": {**TOOL, "tool_use_id": "t1", "error": "boom"},
    "PostToolBatch": {"tool_calls": [{**TOOL, "tool_use_id": "t1"}]},
    "PermissionRequest": {**TOOL},
    "PermissionDenied": {**TOOL, "tool_use_id": "t1", "reason": "auto"},
    "UserPromptSubmit": {"prompt": "hello"},
    "UserPromptExpansion": {
        "expansion_type": "slash_command",
        "command_name": "review",
        "command_args": "",
        "prompt": "/review",
    },
    "Notification": {"message": "hi", "notification_type": "idle_prompt"},
    "MessageDisplay": {"turn_id": "1", "message_id": "2", "index": 0, "final": True, "delta": "text"},
    "SessionStart": {"source": "startup"},
    "SessionEnd": {"reason": "logout"},
    "Setup": {"trigger": "init"},
    "Stop": {"stop_hook_active": False},
    "StopFailure": {"error": "rate_limit"},
    "SubagentStart": {"agent_id": "a1", "agent_type": "reviewer"},
    "SubagentStop": {
        "stop_hook_active": False,
        "agent_id": "a1",
        "agent_transcript_path": "/t",
        "agent_type": "reviewer",
    },
    "TeammateIdle": {"teammate_name": "bob", "team_name": "blue"},
    "TaskCreated": {"task_id": "1", "task_subject": "do"},
    "TaskCompleted": {"task_id": "1", "task_subject": "do"},
    "PreCompact": {"trigger": "manual", "custom_instructions": None},
    "PostCompact": {"trigger": "auto", "compact_summary": "short"},
    "PreModelSwitch": MODELS,
    "PostModelSwitch": MODELS,
    "Elicitation": {"mcp_server_name": "files", "message": "which?"},
    "ElicitationResult": {"mcp_server_name": "files", "action": "accept"},
    "ConfigChange": {"source": "project_settings"},
    "InstructionsLoaded": {"file_path": "/a.md", "memory_type": "Project", "load_reason": "include"},
    "CwdChanged": {"old_cwd": "/a", "new_cwd": "/b"},
    "FileChanged": {"file_path": "/a/.envrc", "event": "change"},
    "DirectoryAdded": {"directory": "/a", "source": "slash_command"},
    "WorktreeCreate": {"name": "feature"},
    "WorktreeRemove": {"worktree_path": "/w"},
}
"""The fields of one event of each kind, without the ones that every event has."""

BASE = {"session_id": "s1", "transcript_path": "/t.jsonl", "cwd": "/"}


def sample(name: str, **more: Any) -> Event:
    """One event of a kind; an unknown name makes an OtherEvent."""
    return events.parse({**BASE, "hook_event_name": name, **SAMPLES.get(name, {}), **more})


names = st.sampled_from([*SAMPLES, "SomethingNew"])
some_events = names.map(sample)

texts = st.one_of(
    st.sampled_from(
        ["", "no", "two\nlines", " padded ", '{"decision": "block"}', "exit 2", "é\u4e2d\U0001f600", "\ud800"]
    ),
    st.text(max_size=30),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)

EXTRAS: dict[str, st.SearchStrategy[Any]] = {
    "terminalSequence": texts,
    "classifierContext": texts,
    "retry": st.booleans(),
    "sessionTitle": texts,
    "suppressOriginalPrompt": st.booleans(),
    "displayContent": texts,
    "initialUserMessage": texts,
    "watchPaths": st.lists(texts, max_size=2),
    "reloadSkills": st.booleans(),
    "action": st.sampled_from(["accept", "decline", "cancel", "other"]),
    "content": objects,
    "worktreePath": texts,
    "updatedPermissions": st.lists(objects, max_size=2),
    "somethingElse": json_values,
    "decision": texts,
}
extras = st.sampled_from(list(EXTRAS)).flatmap(
    lambda key: st.one_of(EXTRAS[key], EXTRAS[key], json_values).map(lambda value: {key: value})
)

PARTS: list[st.SearchStrategy[dict[str, Any]]] = [
    st.fixed_dictionaries({"decision": st.sampled_from(Decision), "reason": texts}),
    st.fixed_dictionaries({"decision": st.just(Decision.DENY), "reason": texts}),
    st.fixed_dictionaries({"context": texts}),
    st.fixed_dictionaries({"message": texts}),
    st.fixed_dictionaries({"updated_input": objects}),
    st.fixed_dictionaries({"updated_output": json_values}),
    st.fixed_dictionaries({"keep_going": st.just(True), "reason": texts}),
    st.fixed_dictionaries({"keep_going": st.just(True), "context": texts}),
    st.fixed_dictionaries({"stop": st.booleans(), "stop_reason": texts}),
    st.fixed_dictionaries({"quiet": st.just(True)}),
    st.fixed_dictionaries({"data": json_values}),
    st.fixed_dictionaries({"background": st.one_of(st.just(True), st.integers(1, 10_000).map(lambda n: n / 1000))}),
    st.fixed_dictionaries({"extras": extras}),
]
answers = st.lists(st.one_of(PARTS), max_size=3).map(
    lambda parts: Answer(**{field: value for part in parts for field, value in part.items()})
)
"""Answers with up to three fields, sensible together or not."""
