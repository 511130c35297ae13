"""Every event of the reference's tables 1.1 to 1.3, field by field; and events that are not what they should be."""

import json
import pickle
from contextlib import suppress
from typing import Any, NamedTuple, cast

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from billhook.core import events
from billhook.core.errors import EventError
from billhook.core.events import EVENTS, OtherEvent, PreToolUse, decode, parse
from strategies import BASE, SAMPLES, json_values, objects, sample

BASE_FIELDS = (
    *("session_id", "transcript_path", "cwd", "permission_mode?", "prompt_id?", "agent_id?", "agent_type?"),
    *("effort?", "scratchpad_dir?"),
)
MODEL_FIELDS = (
    "from_model to_model requested_model? source context_tokens prompt_cache_warm cache_ttl"
    " estimated_cache_write_usd pricing"
)
TASK_FIELDS = "task_id task_subject task_description? teammate_name? team_name?"


class Row(NamedTuple):
    """One row of reference 1.3: a `?` marks a field that may be absent."""

    fields: str
    match: str | None = None
    blocks: bool = False
    """Exit 2 or a JSON answer can prevent something, keep the agent going or end its loop."""


TABLE: dict[str, Row] = {
    "PreToolUse": Row("tool_name tool_input tool_use_id mcp_server?", "tool_name", True),
    "PostToolUse": Row("tool_name tool_input tool_response tool_use_id duration_ms? mcp_server?", "tool_name"),
    "PostToolUseFailure": Row(
        "tool_name tool_input tool_use_id error is_interrupt? duration_ms? mcp_server?", "tool_name"
    ),
    "PostToolBatch": Row("tool_calls", None, True),
    "PermissionRequest": Row("tool_name tool_input permission_suggestions? mcp_server?", "tool_name", True),
    "PermissionDenied": Row("tool_name tool_input tool_use_id reason mcp_server?", "tool_name"),
    "UserPromptSubmit": Row("prompt source? session_title?", None, True),
    "UserPromptExpansion": Row("expansion_type command_name command_args command_source? prompt", "command_name", True),
    "Notification": Row("message title? notification_type", "notification_type"),
    "MessageDisplay": Row("turn_id message_id index final delta"),
    "SessionStart": Row(
        "source model? session_title? seconds_since_last_response? context_tokens? prompt_cache_likely_expired?"
        " estimated_cache_write_usd?",
        "source",
    ),
    "SessionEnd": Row("reason", "reason"),
    "Setup": Row("trigger", "trigger"),
    "Stop": Row("stop_hook_active last_assistant_message? background_tasks? session_crons?", None, True),
    "StopFailure": Row("error error_details? last_assistant_message?", "error"),
    "SubagentStart": Row("agent_id agent_type", "agent_type"),
    "SubagentStop": Row(
        "stop_hook_active agent_id agent_transcript_path agent_type last_assistant_message? background_tasks?"
        " session_crons?",
        "agent_type",
        True,
    ),
    "TeammateIdle": Row("teammate_name team_name", None, True),
    "TaskCreated": Row(TASK_FIELDS, None, True),
    "TaskCompleted": Row(TASK_FIELDS, None, True),
    "PreCompact": Row("trigger custom_instructions?", "trigger", True),
    "PostCompact": Row("trigger compact_summary", "trigger"),
    "PreModelSwitch": Row(MODEL_FIELDS, "to_model", True),
    "PostModelSwitch": Row(MODEL_FIELDS, "to_model"),
    "Elicitation": Row("mcp_server_name message mode? url? elicitation_id? requested_schema?", "mcp_server_name", True),
    "ElicitationResult": Row("mcp_server_name elicitation_id? mode? action content?", "mcp_server_name", True),
    "ConfigChange": Row("source file_path?", "source", True),
    "InstructionsLoaded": Row(
        "file_path memory_type load_reason globs? trigger_file_path? parent_file_path?", "load_reason"
    ),
    "CwdChanged": Row("old_cwd new_cwd"),
    "FileChanged": Row("file_path event", "file_path"),
    "DirectoryAdded": Row("directory source", "source"),
    "WorktreeCreate": Row("name", None, True),
    "WorktreeRemove": Row("worktree_path"),
}
REQUIRED: dict[str, set[str]] = {
    **{name: {"tool_name", "tool_input"} for name, row in TABLE.items() if row.match == "tool_name"},
    "UserPromptSubmit": {"prompt"},
    "UserPromptExpansion": {"prompt", "command_name"},
    "PreModelSwitch": {"to_model"},
    "Elicitation": {"mcp_server_name"},
    "ElicitationResult": {"mcp_server_name"},
    "ConfigChange": {"source"},
}
"""What guards judge. The reference always sends more; older agents and those of others don't, and their events are
events too."""

FULL: dict[str, Any] = {
    "mcp_server": {"name": "files", "source": "user"},
    "duration_ms": 1.5,
    "is_interrupt": True,
    "permission_suggestions": [{"type": "setMode"}],
    "background_tasks": [{"id": "1"}],
    "session_crons": [{"id": "1"}],
    "seconds_since_last_response": 1.5,
    "context_tokens": 10,
    "prompt_cache_likely_expired": True,
    "estimated_cache_write_usd": 0.25,
    "requested_schema": {"type": "object"},
    "content": {"a": 1},
    "globs": ["*.py"],
    "effort": {"level": "high"},
}
"""A value for each optional field that is not a string."""


def wire(name: str, **more: Any) -> dict[str, Any]:
    return {**BASE, "hook_event_name": name, **SAMPLES.get(name, {}), **more}


def full(name: str) -> dict[str, Any]:
    """An event with every field that the reference lists for it."""
    optional = [field[:-1] for field in [*BASE_FIELDS, *TABLE[name].fields.split()] if field.endswith("?")]
    return {**wire(name), **{field: FULL.get(field, "text") for field in optional}}


def read(payload: dict[str, Any]) -> events.Event:
    return decode(json.dumps(payload).encode())


# -- the table -----------------------------------------------------------------------------------------------------


def test_there_are_33_events() -> None:
    """Reference 1.1 lists 33 events; each has a type of its name."""
    assert len(TABLE) == 33
    assert set(TABLE) == set(EVENTS)
    assert all(kind.__name__ == kind.hook_event_name == name for name, kind in EVENTS.items())


@pytest.mark.parametrize("name", TABLE)
def test_the_fields_are_those_of_the_reference(name: str) -> None:
    """Each type has the base fields and its own, by their wire names, and no other."""
    own = [field.rstrip("?") for field in TABLE[name].fields.split()]
    base = [field.rstrip("?") for field in BASE_FIELDS]

    assert set(EVENTS[name].__struct_fields__) == {*base, *own}


@pytest.mark.parametrize("name", TABLE)
def test_a_required_field_is_required(name: str) -> None:
    """A field that a guard judges is required, and the error names it; all other fields are optional."""
    for field in [*BASE_FIELDS, *TABLE[name].fields.split()]:
        key = field.rstrip("?")
        payload = {one: value for one, value in full(name).items() if one != key}
        for make in (read, parse):
            if key not in REQUIRED.get(name, set()):
                assert make(payload).payload == payload
                continue
            with pytest.raises(EventError) as caught:
                make(payload)
            assert caught.value.path == f"$.{key}"


@pytest.mark.parametrize("name", TABLE)
def test_an_event_with_nothing_but_what_is_required(name: str) -> None:
    """Every other field has a value of its type, and none of them is in the payload."""
    required = REQUIRED.get(name, set())
    payload = {"hook_event_name": name, **{key: value for key, value in SAMPLES[name].items() if key in required}}
    for event in (read(payload), parse(payload)):
        assert event.payload == payload
        assert read(EVENTS[name](**{key: payload[key] for key in required}).payload).hook_event_name == name
        for field in TABLE[name].fields.split():
            value = getattr(event, field.rstrip("?"))
            assert value is not None or field.endswith("?") or field == "tool_response"


@pytest.mark.parametrize("name", [*TABLE, "SomethingNew"])
def test_null_is_as_good_as_absent(name: str) -> None:
    """If a field is not required, null is accepted; the payload still has what was sent."""
    plain = {"hook_event_name": name, **SAMPLES.get(name, {})}
    kind = EVENTS.get(name, OtherEvent)
    fields = {key.rstrip("?") for key in (*BASE_FIELDS, *(TABLE[name].fields.split() if name in TABLE else ()))}
    for field in fields - REQUIRED.get(name, set()):
        payload = {**plain, field: None}
        without = {key: value for key, value in plain.items() if key != field}
        for event in (read(payload), parse(payload)):
            assert type(event) is kind
            assert getattr(event, field) == getattr(parse(without), field)
            assert event.payload == payload


@pytest.mark.parametrize("field", ["tool_name", "prompt"])
def test_null_for_what_a_guard_judges(field: str) -> None:
    """There is nothing to judge."""
    name = "PreToolUse" if field == "tool_name" else "UserPromptSubmit"
    with pytest.raises(EventError) as caught:
        read(wire(name, **{field: None}))
    assert caught.value.path == f"$.{field}"


@pytest.mark.parametrize("name", TABLE)
def test_an_event_reads_every_field_and_writes_it_back(name: str) -> None:
    """All fields arrive as attributes of the same name, and the payload is what was sent."""
    payload = full(name)
    for event in (read(payload), parse(payload)):
        assert type(event) is EVENTS[name]
        assert {field: getattr(event, field) for field in payload if field != "hook_event_name"} == {
            field: value for field, value in payload.items() if field != "hook_event_name"
        }
        assert event.payload == payload
        assert event.extra == {}


@pytest.mark.parametrize("name", TABLE)
def test_optional_fields_are_absent_unless_they_were_sent(name: str) -> None:
    """An event that is made here is sent without the optional fields that it has not."""
    event = EVENTS[name](**SAMPLES[name])
    assert event.payload == {
        "session_id": "",
        "transcript_path": "",
        "cwd": "",
        **wire(name),
        **dict.fromkeys(BASE, ""),
    }


@pytest.mark.parametrize("name", TABLE)
def test_what_a_matcher_looks_at(name: str) -> None:
    """Which events take a matcher, and on which field (1.3)."""
    row, event = TABLE[name], sample(name)
    wanted = None if row.match is None else SAMPLES[name][row.match]
    if name == "FileChanged":
        wanted = ".envrc"  # the file's name

    assert (row.match, wanted) == (event.match_field, event.target)


@pytest.mark.parametrize("name", TABLE)
def test_which_events_can_block(name: str) -> None:
    """Which events can prevent something (1.3)."""
    assert EVENTS[name].can_block is TABLE[name].blocks


@pytest.mark.parametrize("name", TABLE)
def test_an_event_never_changes(name: str) -> None:
    """Events are frozen."""
    event = sample(name)
    with pytest.raises(AttributeError):
        event.session_id = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", TABLE)
def test_a_wrong_type_is_named_by_its_path(name: str) -> None:
    """Each typed field refuses a value of another type, with its path."""
    for field in [*BASE_FIELDS, *TABLE[name].fields.split()]:
        key = field.rstrip("?")
        if key in ("tool_input", "tool_response"):
            continue  # any value
        payload = {**full(name), key: [0] if FULL.get(key) != [0] and not isinstance(FULL.get(key), list) else {}}
        if key == "tool_calls":
            payload[key] = "text"
        for make in (read, parse):
            with pytest.raises(EventError) as caught:
                make(payload)
            assert caught.value.path.startswith(f"$.{key}")


# -- unknown names --------------------------------------------------------------------------------------------


@given(objects)
def test_unknown_fields_survive(more: dict[str, Any]) -> None:
    """Unknown fields are kept, in every way that an event can be read."""
    unknown = {f"x_{key}": value for key, value in more.items()}
    payload = {**wire("PreToolUse"), **unknown}
    event = read(payload)

    assert event.extra == unknown
    assert parse(event.payload) == event == pickle.loads(pickle.dumps(event))
    assert event.replace(tool_input={"command": "pwd"}).extra == unknown


@given(st.text(min_size=1).filter(lambda name: name not in EVENTS), objects)
@example("OtherEvent", {})
@example("Event", {"name": "x", "tool_name": "Bash"})
@example("pretooluse", {})
@example("\ud800", {})
def test_an_unknown_name_is_an_other_event(name: str, more: dict[str, Any]) -> None:
    """An event that we have no type for is kept whole."""
    payload = {**more, **BASE, "hook_event_name": name}
    for event in (read(payload), parse(payload)):
        assert type(event) is OtherEvent
        assert event.hook_event_name == event.name == name
        assert event.payload == payload
        assert event.can_block and not event.gates and event.match_field is None
        assert pickle.loads(pickle.dumps(event)) == event


def test_an_other_event_can_be_made() -> None:
    """An OtherEvent that is made here is sent under its name."""
    assert OtherEvent(name="New", cwd="/").payload["hook_event_name"] == "New"
    assert "name" not in OtherEvent(name="New").payload


# -- what is not an event ------------------------------------------------------------------------------------------

TOOL = b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":%s}'
NO_EVENTS = [
    pytest.param(b"", "$", id="nothing"),
    pytest.param(b"nonsense", "$", id="text"),
    pytest.param(b"[]", "$", id="a list"),
    pytest.param(b"null", "$", id="null"),
    pytest.param(b"{}", "$.hook_event_name", id="no name"),
    pytest.param(b'{"hook_event_name":""}', "$.hook_event_name", id="an empty name"),
    pytest.param(b'{"hook_event_name":5}', "$.hook_event_name", id="a number for a name"),
    pytest.param(b'{"hook_event_name":"Stop"} {}', "$", id="two documents"),
    pytest.param(b'{"hook_event_name":"Stop"', "$", id="cut"),
    pytest.param(b'{"hook_event_name":"Stop","cwd":5}', "$.cwd", id="a wrong type"),
    pytest.param(b'{"hook_event_name":"SomethingNew","cwd":5}', "$.cwd", id="a wrong type of an unknown event"),
    pytest.param(
        b'{"hook_event_name":"InstructionsLoaded","file_path":"a","memory_type":"b","load_reason":"c","globs":["a",5]}',
        "$.globs[1]",
        id="a wrong type inside a list",
    ),
    pytest.param(TOOL % b'{"a":NaN}', "$", id="NaN"),
    pytest.param(TOOL % b'{"a":Infinity}', "$", id="Infinity"),
    pytest.param(TOOL % b"{'a':1}", "$", id="single quotes"),
    pytest.param(TOOL % (b"[" * 100_000 + b"]" * 100_000), "$", id="100,000 levels"),
    pytest.param(TOOL % (b"[" * 100_000), "$", id="100,000 levels, never closed"),
    pytest.param(b'{"hook_event_name":"Stop"}'.decode().encode("utf-16"), "$", id="UTF-16"),
]


@pytest.mark.parametrize(("data", "path"), NO_EVENTS)
def test_what_is_no_event_is_an_error_with_a_path(data: bytes, path: str) -> None:
    """A malformed event is an EventError that names the JSON path."""
    with pytest.raises(EventError) as caught:
        decode(data)
    assert caught.value.path == path
    assert f"`{path}`" in str(caught.value)


ODD = [
    pytest.param(rb'{"command":"\ud800"}', {"command": "\ud800"}, id="a lone surrogate"),
    pytest.param(rb'{"command":"a\udfffb"}', {"command": "a\udfffb"}, id="a lone low surrogate"),
    pytest.param(rb'{"\udc00":1}', {"\udc00": 1}, id="a lone surrogate in a key"),
    pytest.param(b'{"command":"\xff\xfe"}', {"command": "\ufffd\ufffd"}, id="bytes that are not UTF-8"),
    pytest.param(b'{"command":"\xed\xa0\x80"}', {"command": "\ufffd\ufffd\ufffd"}, id="a surrogate in UTF-8"),
    pytest.param(rb'{"command":"\u0000"}', {"command": "\0"}, id="NUL"),
    pytest.param(b"[" * 100 + b"]" * 100, None, id="100 levels"),
    pytest.param(b"[" * 390 + b"]" * 390, None, id="390 levels"),
    pytest.param(b'{"a":' + b"7" * 4000 + b"}", {"a": int("7" * 4000)}, id="a number of 4,000 digits"),
    pytest.param(b'"just text"', "just text", id="a string for an input"),
    pytest.param(b"null", None, id="null for an input"),
]


@pytest.mark.parametrize(("raw", "tool_input"), ODD)
def test_one_odd_value_does_not_lose_the_event(raw: bytes, tool_input: Any) -> None:
    """Odd escapes, odd bytes and odd sizes are still an event with all its fields."""
    for data in (TOOL % raw, b"\xef\xbb\xbf" + TOOL % raw):
        event = decode(data)
        assert isinstance(event, PreToolUse)
        assert event.tool_name == "Bash"
        assert event.payload["tool_input"] == event.tool_input
        assert tool_input is None or event.tool_input == tool_input
        event.text_of("tool_input")


@pytest.mark.parametrize("raw", [b'{"a":' + b"7" * 5000 + b"}", b'{"a":1e999}'], ids=["5,000 digits", "1e999"])
def test_a_number_that_is_too_large_is_infinite(raw: bytes) -> None:
    """It is valid JSON, and must not switch off the guard that looks at the field beside it."""
    event = decode(b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":' + raw + b"}")

    assert cast("PreToolUse", event).tool_input == {"a": float("inf")}


@settings(max_examples=300)
@given(st.sampled_from(list(SAMPLES)), st.data())
def test_any_damage_is_an_event_or_an_event_error(name: str, data: st.DataObject) -> None:
    """Bytes changed, cut or inserted anywhere give an event or an EventError, nothing else."""
    raw = bytearray(json.dumps(full(name)).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        if not raw:
            break
    with suppress(EventError):
        event = decode(bytes(raw))
        event.payload, event.extra, event.target, repr(event)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from([*BASE, "hook_event_name", "tool_name", "tool_input", "x"]), json_values))
def test_any_dict_is_an_event_or_an_event_error(payload: dict[str, Any]) -> None:
    """Whatever JSON a dict holds, it becomes an event or an EventError."""
    for given_ in (payload, {"hook_event_name": "PreToolUse", **payload}):
        with suppress(EventError):
            assert parse(given_).payload == given_


# -- lazily --------------------------------------------------------------------------------------------------------


@given(json_values)
def test_a_field_that_is_decoded_late_is_the_same(value: Any) -> None:
    """`tool_input` read from bytes equals `tool_input` read from a dict."""
    payload = wire("PostToolUse", tool_input=value, tool_response=[value])
    event = read(payload)

    assert event == parse(payload)
    assert (value, [value]) == (event.payload["tool_input"], event.payload["tool_response"])
    assert getattr(event, "tool_input") == value  # noqa: B009
    assert event.replace(session_id="other").payload["tool_input"] == value


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        pytest.param(b'{"command": "ls"}', '{"command": "ls"}', id="as the sender wrote it"),
        pytest.param(b'{"command":"rm \\u002drf"}', '{"command": "rm -rf"}', id="a hidden hyphen"),
        pytest.param(b'{"command":"rm \\u002Drf"}', '{"command": "rm -rf"}', id="a hidden hyphen, upper case"),
        pytest.param(b'{"command":"\\u0072m"}', '{"command": "rm"}', id="a hidden letter"),
        pytest.param(b'{"command":"cat \\/etc"}', '{"command": "cat /etc"}', id="a hidden slash"),
        pytest.param('{"c":"é"}'.encode(), '{"c":"é"}', id="characters as they are"),
    ],
)
def test_text_of_hides_nothing(raw: bytes, text: str) -> None:
    """The text of an input is the sender's, unless escapes hide plain characters from a guard that greps."""
    assert decode(TOOL % raw).text_of("tool_input") == text


def test_events_of_different_kinds_differ() -> None:
    """Equality compares the kind and the whole payload."""
    assert sample("TaskCreated") != sample("TaskCompleted")
    assert sample("Stop") == sample("Stop") != sample("Stop", x=1)
    assert sample("Stop") != "Stop"


def test_a_made_event_is_checked_like_a_received_one() -> None:
    """An event that is sent is read back as the same event."""
    for name in SAMPLES:
        made = EVENTS[name](**SAMPLES[name], cwd="/x")
        assert read(made.payload) == made
        assert name in repr(made)


def test_decoding_does_not_look_into_the_input() -> None:
    """The large fields stay undecoded until their first use."""
    event = decode(TOOL % b'{"command":"ls"}')
    raw = events._member(PreToolUse, "tool_input").__get__(event, PreToolUse)

    assert type(raw) is msgspec.Raw


FIRST = [
    b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}',
    b'{"tool_name":"Bash","tool_input":{"hook_event_name":"Stop"},"hook_event_name":"PreToolUse"}',
    b'{"tool_name":"Bash","tool_input":{"hook_event_name":"PreToolUse"}}',
    b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{},"hook_event_name":"Stop"}',
    b'{"hook_event_name":"Stop","tool_name":"Bash","tool_input":{},"hook_event_name":"PreToolUse"}',
    b'{"hook_event_name":"Unheard","x":1}',
    b'{"hook_event_name":3}',
    b'{"hook_event_name":"PreToolUse"}',
    b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"\\ud800"}}',
    b"[]",
    b"{",
]


@pytest.mark.parametrize("data", FIRST, ids=lambda data: data.decode()[:60])
def test_the_first_event_of_a_process_is_read_like_any_other(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that meets one event has a decoder for that kind alone: it gives the same event, or the same error."""

    def outcome() -> object:
        try:
            event = decode(data)
        except EventError as error:
            return str(error), error.path
        return type(event), event.payload

    monkeypatch.setattr(events, "_decode", events._decode_first)
    first = outcome()
    assert events._decode is not events._decode_first and first == outcome()
