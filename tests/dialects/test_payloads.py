"""What a child is given: stdin, environment; and what is read when billhook is itself the child."""

import json
import os
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook.agents import DIALECTS, dialect
from billhook.agents.child import ENV_LIMIT, ChildCall, fit, inherited
from billhook.core import events
from billhook.core.answers import Answer, Outcome
from billhook.core.errors import EventError, UsageError
from billhook.core.events import Event
from billhook.core.hook import Context, Hook
from billhook.engine.engine import Engine
from billhook.runners.command import command
from strategies import BASE, SAMPLES, json_values, sample

FIRST = ("claude", "spec", "claw", "claw-text", "lesson")
PROCESS_DIALECTS = ("claude", "claw", "claw-text", "lesson")
EVERYWHERE = {
    *("CLAUDE_PROJECT_DIR", "CLAUDE_SESSION_ID", "CLAUDE_SESSION_NAME", "CLAUDE_TURN_ID", "CLAUDE_TURN_SEQUENCE"),
    *("CLAUDE_EVENT_TYPE", "CLAUDE_CWD"),
}
WITH_HOOK_VARIABLES = ("claw", "claw-text", "lesson")
LS = {"command": "ls"}


def call(name: str, event: Event, notes: tuple[Outcome, ...] = ()) -> ChildCall:
    return dialect(name).write_call(Context(event, list(notes)))


def stdin(name: str, event: Event) -> Any:
    return json.loads(call(name, event).stdin)


PRE = sample("PreToolUse", tool_input=LS)
POST = sample("PostToolUse", tool_input=LS, tool_response="a.txt")
FAILURE = sample("PostToolUseFailure", tool_input=LS, error="boom")

# -- stdin ---------------------------------------------------------------------------------------------------------

STDIN = [
    pytest.param("claude", PRE, {**BASE, "hook_event_name": "PreToolUse", **SAMPLES["PreToolUse"]}, id="claude"),
    pytest.param(
        "claw",
        PRE,
        {
            "hook_event_name": "PreToolUse",
            "tool_name": "bash",
            "tool_input": LS,
            "tool_input_json": '{"command":"ls"}',
            "tool_output": None,
            "tool_result_is_error": False,
        },
        id="seed 000: the payload of its page",
    ),
    pytest.param(
        "claw",
        POST,
        {
            "hook_event_name": "PostToolUse",
            "tool_name": "bash",
            "tool_input": LS,
            "tool_input_json": '{"command":"ls"}',
            "tool_output": "a.txt",
            "tool_result_is_error": False,
        },
        id="seed 000: after the tool",
    ),
    pytest.param(
        "claw",
        FAILURE,
        {
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "bash",
            "tool_input": LS,
            "tool_input_json": '{"command":"ls"}',
            "tool_output": "boom",
            "tool_error": "boom",
            "tool_result_is_error": True,
        },
        id="claw: a failed tool",
    ),
    pytest.param(
        "claw-text",
        PRE,
        {
            "hook_event_name": "PreToolUse",
            "tool_name": "bash",
            "tool_input": "ls",
            "tool_input_json": '{"command": "ls"}',
        },
        id="seed 003: the payload of its page",
    ),
    pytest.param(
        "claw-text",
        POST,
        {
            "hook_event_name": "PostToolUse",
            "tool_name": "bash",
            "tool_input": "ls",
            "tool_input_json": '{"command": "ls"}',
            "tool_output": "a.txt",
            "tool_result_is_error": False,
        },
        id="seed 003: additional fields after the tool",
    ),
    pytest.param(
        "claw-text",
        sample("PreToolUse", tool_name="Write", tool_input={"file_path": "a", "content": "é"}),
        {
            "hook_event_name": "PreToolUse",
            "tool_name": "write_file",
            "tool_input": '{"file_path": "a", "content": "é"}',
            "tool_input_json": '{"file_path": "a", "content": "é"}',
        },
        id="claw-text: JSON for tools without a command",
    ),
    pytest.param(
        "lesson",
        sample("PreToolUse", tool_name="read_file", tool_input="not JSON"),
        {
            "hook_event_name": "PreToolUse",
            "tool_name": "read_file",
            "tool_input": {"raw": "not JSON"},
            "tool_input_json": "not JSON",
            "tool_output": None,
            "tool_result_is_error": False,
        },
        id="claw, lesson: text that is not JSON",
    ),
]


@pytest.mark.parametrize(("name", "event", "payload"), STDIN)
def test_the_payload_on_stdin(name: str, event: Event, payload: dict[str, Any]) -> None:
    """Each dialect sends the fields of its seed."""
    assert stdin(name, event) == payload


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("event", [*SAMPLES, "SomethingNew"])
def test_stdin_is_one_line_as_a_person_writes_it(name: str, event: str) -> None:
    """Seed 003's guard reads one line: so there is one, for every event, with the characters as they are."""
    sent = call(name, sample(event, extra_text="é\n\x85\u2028\ud800", extra_object={"a": [1, 2]})).stdin
    text = sent.decode()
    if name == "claude":  # as it writes it itself
        assert '": ' not in text and ', "' not in text
        text = text.replace('":', '": ').replace(',"', ', "')

    assert text.endswith("\n") and len(text.splitlines()) == 1
    assert text.startswith('{"') and f'"hook_event_name": "{event}"' in text and '":"' not in text and '","' not in text
    assert json.loads(sent)["hook_event_name"] == event
    if "extra_text" in text:
        assert r'"extra_text": "é\n\u0085\u2028\ud800", "extra_object": {"a": [1' in text


@settings(max_examples=100)
@given(json_values, st.sampled_from(PROCESS_DIALECTS))
def test_the_whole_input_is_always_on_stdin(value: Any, name: str) -> None:
    """Whatever the input is, it arrives whole, and the child can be started with what is in its environment."""
    event = sample("PreToolUse", tool_input={"command": value, "pad": "x" * 200_000})
    sent = call(name, event)
    received = json.loads(sent.stdin)
    inside = json.loads(received["tool_input_json"]) if name == "claw-text" else received["tool_input"]

    assert inside == event.payload["tool_input"] or name == "claw-text"
    assert all(len(os.fsencode(f"{key}={text}")) < 131_072 and "\0" not in text for key, text in sent.env.items())


@pytest.mark.parametrize("name", PROCESS_DIALECTS)
@pytest.mark.parametrize("value", [float("nan"), {1: 2}, {"a": {3, 4}}, b"bytes", object], ids=str)
def test_what_json_has_no_word_for_still_reaches_the_guard(name: str, value: Any) -> None:
    """A Python value that is not JSON does not keep the guard from being asked."""
    event = events.PreToolUse(tool_name="Bash", tool_input={"command": "ls", "odd": value})

    assert json.loads(call(name, event).stdin)["tool_name"] in ("Bash", "bash")


# -- environment ---------------------------------------------------------------------------------------------------

TURN = Outcome("turn-tracker", answer=Answer(data={"turnId": "s1:5", "sequence": 5}))
NAMING = Outcome("session-naming", answer=Answer(data={"sessionName": "jolly-squid"}))


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("event", [PRE, POST, FAILURE], ids=lambda event: event.hook_event_name)
def test_each_dialect_sets_its_own_variables(name: str, event: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 002's variables are set everywhere; HOOK_* only where seeds 000, 003 and 004 define them."""
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    env = call(name, event, (TURN, NAMING)).env
    of_hooks = {
        "HOOK_EVENT": event.hook_event_name,
        "HOOK_TOOL_NAME": "bash",
        "HOOK_TOOL_INPUT": {"claw": '{"command":"ls"}', "claw-text": "ls"}.get(name, '{"command": "ls"}'),
        **({} if event is PRE else {"HOOK_TOOL_OUTPUT": "a.txt" if event is POST else "boom"}),
        **_error_flag(name, event),
    }

    assert env == {
        "CLAUDE_PROJECT_DIR": "/",
        "CLAUDE_SESSION_ID": "s1",
        "CLAUDE_SESSION_NAME": "jolly-squid",
        "CLAUDE_TURN_ID": "s1:5",
        "CLAUDE_TURN_SEQUENCE": "5",
        "CLAUDE_EVENT_TYPE": event.hook_event_name,
        "CLAUDE_CWD": "/",
        **(of_hooks if name in WITH_HOOK_VARIABLES else {}),
    }


def _error_flag(name: str, event: Event) -> dict[str, str]:
    """Seed 000: 0 or 1; seed 003: true or false, after the tool only."""
    if name == "claw-text":
        return {} if event is PRE else {"HOOK_TOOL_IS_ERROR": "true" if event is FAILURE else "false"}
    return {"HOOK_TOOL_IS_ERROR": "1" if event is FAILURE else "0"}


@pytest.mark.parametrize("name", DIALECTS)
def test_events_without_a_tool_have_no_variables_of_one(name: str) -> None:
    """HOOK_TOOL_* is unset where there is no tool."""
    assert not [key for key in call(name, sample("SessionStart")).env if key.startswith("HOOK_TOOL")]


def test_the_project_is_where_the_session_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference 2.8: CLAUDE_PROJECT_DIR does not follow the working directory."""
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "/project")

    assert call("claude", PRE).env["CLAUDE_PROJECT_DIR"] == "/project"


OUTPUTS = [
    pytest.param("text", "text", "0", id="text"),
    pytest.param({"stdout": "out", "stderr": ""}, "out", "0", id="a shell's result"),
    pytest.param({"stdout": "out", "stderr": "err"}, "out\nerr", "0", id="both streams"),
    pytest.param({"content": "é"}, '{"content": "é"}', "0", id="any object"),
    pytest.param({"resultType": "success", "textResultForLlm": "out"}, "out", "0", id="Copilot's"),
    pytest.param({"result_type": "success", "text_result_for_llm": "out"}, "out", "0", id="Copilot's, Pascal"),
    pytest.param({"llmContent": "Output: out", "returnDisplay": "out"}, "out", "0", id="Gemini's"),
    pytest.param({"llmContent": [{"text": "out"}, {"x": 1}], "returnDisplay": {}}, "out", "0", id="Gemini's, in parts"),
    pytest.param({"stdout": "", "is_error": True}, "", "1", id="a result with an error"),
    pytest.param(None, "", "0", id="nothing"),
]


@pytest.mark.parametrize(("response", "text", "flag"), OUTPUTS)
def test_what_the_tool_returned_as_text(response: Any, text: str, flag: str) -> None:
    """HOOK_TOOL_OUTPUT is what a person would call the output."""
    env = call("claw", sample("PostToolUse", tool_response=response)).env

    assert (env["HOOK_TOOL_OUTPUT"], env["HOOK_TOOL_IS_ERROR"]) == (text, flag)


FIT = [
    # value, fitted, cut
    pytest.param("plain", "plain", False, id="fits"),
    pytest.param("x" * ENV_LIMIT, "x" * ENV_LIMIT, False, id="exactly 64 KiB"),
    pytest.param("x" * (ENV_LIMIT + 1), "x" * ENV_LIMIT, True, id="one byte more"),
    pytest.param("é" * ENV_LIMIT, "é" * (ENV_LIMIT // 2), True, id="two bytes each"),
    pytest.param("x" + "é" * ENV_LIMIT, "x" + "é" * (ENV_LIMIT // 2 - 1), True, id="cut on a character boundary"),
    pytest.param("x" + "\U0001f600" * ENV_LIMIT, "x" + "\U0001f600" * (ENV_LIMIT // 4 - 1), True, id="four bytes each"),
    pytest.param("a\0b", "a\ufffdb", False, id="NUL"),
    pytest.param("a\ud800b", "a\ufffdb", False, id="a lone surrogate"),
    pytest.param("\ud800" * ENV_LIMIT, "\ufffd" * (ENV_LIMIT // 3), True, id="many of them"),
    pytest.param("\0" * ENV_LIMIT, "\ufffd" * (ENV_LIMIT // 3), True, id="many NULs"),
    pytest.param("/caf\udce9", "/caf\udce9", False, id="a path that is not UTF-8 stays one"),
]


@pytest.mark.parametrize(("value", "fitted", "cut"), FIT)
def test_a_value_that_execve_takes(value: str, fitted: str, cut: bool) -> None:
    """Copies are cut at 64 KiB on a character boundary; NUL and lone surrogates are replaced."""
    assert fit(value) == (fitted, cut)


@given(st.text(alphabet=st.characters(codec=None)), st.integers(0, 3))
def test_any_value_fits(text: str, more: int) -> None:
    """Whatever the text is, the copy can be handed to a process."""
    fitted, cut = fit(text * (1 + more * 20_000))
    data = os.fsencode(fitted)

    assert len(data) <= ENV_LIMIT and b"\0" not in data
    assert cut or len(fitted) == len(text * (1 + more * 20_000))


@pytest.mark.parametrize("name", WITH_HOOK_VARIABLES)
def test_what_was_cut_is_marked(name: str) -> None:
    """A guard can see that its copy is not the whole."""
    event = sample("PostToolUse", tool_input={"command": "x" * 200_000}, tool_response="y" * 200_000)
    env = call(name, event).env

    assert len(env["HOOK_TOOL_INPUT"]) == len(env["HOOK_TOOL_OUTPUT"]) == ENV_LIMIT
    assert {key: value for key, value in env.items() if key.endswith("_TRUNCATED")} == {
        "HOOK_TOOL_INPUT_TRUNCATED": "1",
        "HOOK_TOOL_OUTPUT_TRUNCATED": "1",
    }


HOOK_OWN = {"HOOK_EVENT", "HOOK_TOOL_NAME", "HOOK_TOOL_OUTPUT", "HOOK_TOOL_IS_ERROR", "HOOK_TOOL_INPUT_TRUNCATED"}


def test_a_stale_variable_of_an_outer_hook_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an outer hook was told must not reach a guard, where its own dialect has such a variable."""
    for key in (*EVERYWHERE, *HOOK_OWN):
        monkeypatch.setenv(key, "stale")
    monkeypatch.setenv("MY_OWN", "kept")
    stale = {key for key, value in inherited().items() if value == "stale"}

    assert stale == {"CLAUDE_PROJECT_DIR", *HOOK_OWN}
    assert stale & inherited(hook_variables=False).keys() == {"CLAUDE_PROJECT_DIR"}
    assert inherited(hook_variables=False)["MY_OWN"] == "kept"


@pytest.mark.skipif(sys.platform == "win32", reason="speaks to sh")
@pytest.mark.parametrize("name", PROCESS_DIALECTS)
def test_a_real_child_sees_its_own_event_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a real process: the dialect's own values, nothing stale beside them, and the whole line on stdin. In the
    claude dialect HOOK_* are variables like any other."""
    for key in ("HOOK_TOOL_OUTPUT", "HOOK_TOOL_INPUT_TRUNCATED", "HOOK_EVENT"):
        monkeypatch.setenv(key, "stale")
    script = (
        'read -r line; printf "%s|%s|%s|%s|%s" "$HOOK_EVENT" "$HOOK_TOOL_NAME" "${HOOK_TOOL_OUTPUT-unset}"'
        ' "${HOOK_TOOL_INPUT_TRUNCATED-unset}" "${#line}" >&2; exit 2'
    )
    script = script.replace(">&2", "") if name.startswith("claw") else script
    hook = Hook(name="h", run=command(script, dialect=name, login="no"), dialect=name)
    verdict = Engine([hook]).fire_sync(PRE)
    reported = verdict.reason or "".join(verdict.context)
    told = "stale||stale|stale" if name == "claude" else "PreToolUse|bash|unset|unset"

    assert reported == f"{told}|{len(call(name, PRE).stdin) - 1}"


@pytest.mark.skipif(sys.platform == "win32", reason="speaks to sh")
@pytest.mark.parametrize("size", [65_535, 65_536, 131_053, 131_054, 131_055, 131_056, 131_072, 3_000_000])
@pytest.mark.parametrize("name", PROCESS_DIALECTS)
def test_padding_does_not_switch_a_guard_off(name: str, size: int) -> None:
    """Reliability 3.1: a payload of any size is judged, whole."""
    event = sample("PreToolUse", tool_input={"command": "x" * size + "\0\ud800 rm -rf /"})
    deny = "echo found >&2; exit 1" if name == "lesson" else "echo found | tee /dev/stderr; exit 2"
    hook = Hook(name="h", run=command(f"if grep -q 'rm -rf /'; then {deny}; fi", dialect=name, login="no"))

    assert Engine([hook]).fire_sync(event).denied


# -- being a hook --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["claude", "spec"])
@pytest.mark.parametrize("event", [*SAMPLES, "SomethingNew"])
def test_an_event_that_was_sent_is_received(name: str, event: str) -> None:
    """claude and spec carry the whole event, unknown fields and odd characters included."""
    given_ = sample(event, unknown={"a": ["\ud800", 1]})

    assert dialect(name).read_call(call(name, given_).stdin, {}) == given_


@pytest.mark.parametrize("name", ["claw", "claw-text", "lesson"])
@pytest.mark.parametrize("event", [PRE, POST, FAILURE], ids=lambda event: event.hook_event_name)
def test_a_tool_call_that_was_sent_is_received(name: str, event: Event) -> None:
    """The seeds' protocols carry the tool, its input and its output; the canonical names come back."""
    sent = call(name, event)
    received = dialect(name).read_call(sent.stdin, sent.env)

    assert type(received) is type(event)
    for field in ("tool_name", "tool_input", "tool_response", "error", "session_id", "cwd"):
        assert getattr(received, field, None) == getattr(event, field, None)


@pytest.mark.parametrize("name", ["claw", "claw-text", "lesson"])
@pytest.mark.parametrize("event", sorted(set(SAMPLES) - {"PermissionRequest", "PermissionDenied"}))
def test_events_without_a_tool_are_carried_whole(name: str, event: str) -> None:
    """Events that the seeds don't know travel as the reference has them."""
    given_ = sample(event)
    if not hasattr(given_, "tool_name"):
        assert dialect(name).read_call(call(name, given_).stdin, {}) == given_


def test_the_lessons_hooks_are_told_everything_in_the_environment() -> None:
    """Seed 004 step 4: without stdin the variables are the event."""
    env = {"HOOK_EVENT": "PreToolUse", "HOOK_TOOL_NAME": "bash", "HOOK_TOOL_INPUT": '{"command": "npm test"}'}
    event = dialect("lesson").read_call(b"", env)

    assert isinstance(event, events.PreToolUse)
    assert (event.tool_name, event.tool_input) == ("Bash", {"command": "npm test"})


SEEDS = [
    pytest.param(
        "claw",
        b'{"hook_event_name":"PreToolUse","tool_name":"bash","tool_input":{"command":"ls"},'
        b'"tool_input_json":"{\\"command\\":\\"ls\\"}","tool_output":null,"tool_result_is_error":false}',
        id="seed 000",
    ),
    pytest.param(
        "claw-text",
        b'{"hook_event_name":"PreToolUse","tool_name":"bash","tool_input":"ls",'
        b'"tool_input_json":"{\\"command\\": \\"ls\\"}"}',
        id="seed 003",
    ),
    pytest.param(
        "claw-text",
        b'{"hook_event_name":"PreToolUse","tool_name":"bash","tool_input":"ls"}',
        id="seed 003 without tool_input_json",
    ),
]


@pytest.mark.parametrize(("name", "data"), SEEDS)
def test_the_payloads_of_the_seeds_are_read(name: str, data: bytes) -> None:
    """The JSON on the seeds' pages is an event."""
    event = dialect(name).read_call(data, {"CLAUDE_SESSION_ID": "s9", "PWD": "/here"})

    assert isinstance(event, events.PreToolUse)
    assert (event.tool_name, event.tool_input) == ("Bash", LS)
    assert (event.session_id, event.cwd) == ("s9", "/here")


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"x", id="text"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'"PreToolUse"', id="a string"),
        pytest.param(b"{}", id="no name"),
        pytest.param(b'{"hook_event_name":"PreToolUse","tool_name":5,"tool_input":{}}', id="a tool that is a number"),
        pytest.param(b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"a":NaN}}', id="NaN"),
        pytest.param(b"[" * 100_000, id="100,000 levels"),
        pytest.param(b"\xff\xfe{\0}\0", id="UTF-16"),
    ],
)
def test_what_is_no_call_is_an_event_error(name: str, data: bytes) -> None:
    """A malformed call is an EventError in every dialect, at once."""
    with pytest.raises(EventError):
        dialect(name).read_call(data, {})


@settings(max_examples=800)
@given(st.sampled_from([*DIALECTS]), st.binary(max_size=80) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_call_is_an_event_or_an_event_error(name: str, data: bytes) -> None:
    """Whatever arrives on stdin, nothing else escapes."""
    for given_ in (data, b'{"hook_event_name":"PreToolUse","tool_name":"x","tool_input":' + data + b"}"):
        try:
            assert dialect(name).read_call(given_, {}).payload
        except EventError:
            continue


def test_an_unknown_dialect_names_the_known_ones() -> None:
    """A typo in a dialect's name is told which ones there are."""
    with pytest.raises(UsageError, match="one of claude, spec, claw, claw-text, lesson"):
        dialect("clawd")
