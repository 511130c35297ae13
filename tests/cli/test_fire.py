"""`billhook fire`: the event it builds, the hooks it asks, what it prints and how it ends."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from billhook import EVENTS
from cli.terminal import Ended, billhook

GUARD = 'if echo "$HOOK_TOOL_INPUT" | grep -q "rm -rf"; then echo "Blocked: destructive command"; exit 2; fi'
KEYS = [
    "id", "event", "decision", "reason", "context", "messages", "tool_input", "tool_output", "keep_going", "stop",
    "stop_reason", "failed_open", "duration_ms", "outcomes",
]  # fmt: skip
OUTCOME_KEYS = [
    "hook", "source", "dialect", "status", "decision", "reason", "exit_code", "signal", "failed_open", "duration_ms",
    "error", "lost",
]  # fmt: skip
ALLOW = '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'


def fire(*arguments: str | bytes, **options: Any) -> Ended:
    return billhook("fire", *arguments, "--json", **options)


def seen(*arguments: str | bytes, **options: Any) -> dict[str, Any]:
    """What a hook got on its standard input."""
    with tempfile.TemporaryDirectory() as folder:
        ended = fire(*arguments, "--run", f"cat > {folder}/stdin", **options)
        assert ended.code == 0, ended
        found: dict[str, Any] = json.loads(Path(folder, "stdin").read_bytes())
    return found


def test_the_seeds_guard_denies() -> None:
    """The guard of seed 000 on `rm -rf`: deny, its reason, exit 1."""
    ended = fire(
        "PreToolUse", "--tool", "bash", "--input", '{"command":"rm -rf /tmp/x"}', "--dialect", "claw", "--run", GUARD
    )
    assert ended.code == 1
    assert '"decision":"deny"' in ended.out
    assert ended.verdict["reason"] == "Blocked: destructive command"
    assert ended.err == ""


def test_the_seeds_guard_allows() -> None:
    """The same on `ls`: none, exit 0."""
    ended = fire("PreToolUse", "--tool", "bash", "--input", '{"command":"ls"}', "--dialect", "claw", "--run", GUARD)
    assert (ended.code, ended.verdict["decision"], ended.verdict["reason"]) == (0, "none", None)


def test_verdict_as_json() -> None:
    """One line, with exactly these keys, in this order."""
    verdict = fire("PreToolUse", "--tool", "Bash", "--run", "true", "--run", "exit 2", "--run", "true").verdict
    assert list(verdict) == KEYS
    assert [list(outcome) for outcome in verdict["outcomes"]] == [OUTCOME_KEYS] * 3
    assert [outcome["status"] for outcome in verdict["outcomes"]] == ["ok", "ok", "skipped"]
    assert {outcome["source"] for outcome in verdict["outcomes"]} == {"command line"}


def test_extras_only_when_given() -> None:
    """The outputs that only one event knows are one more key."""
    output = '{"hookSpecificOutput":{"hookEventName":"SessionStart","sessionTitle":"T"}}'
    verdict = fire("SessionStart", "--run", f"echo '{output}'").verdict
    assert list(verdict) == [*KEYS, "extras"]
    assert verdict["extras"] == {"sessionTitle": "T"}


@pytest.mark.parametrize(
    ("arguments", "decision", "code"),
    [
        pytest.param(["--run", "true"], "none", 0, id="none"),
        pytest.param(["--run", f"echo '{ALLOW}'"], "allow", 0, id="allow"),
        pytest.param(["--run", f"echo '{ALLOW.replace('allow', 'ask')}'"], "ask", 1, id="ask"),
        pytest.param(["--run", f"echo '{ALLOW.replace('allow', 'defer')}'"], "defer", 1, id="defer"),
        pytest.param(["--run", f"echo '{ALLOW.replace('allow', 'deny')}'"], "deny", 1, id="deny"),
        pytest.param(["--run", "echo '{\"continue\": false}'"], "deny", 1, id="stop denies before a tool"),
        pytest.param(["--run", "exit 1"], "none", 0, id="a failure passes"),
        pytest.param(["--run", "exit 1", "--on-failure", "deny"], "deny", 1, id="--on-failure deny"),
        pytest.param(["--run", "exit 1", "--on-failure", "ask"], "ask", 1, id="--on-failure ask"),
        pytest.param(["--run", "sleep 60", "--timeout", "0.2", "--on-failure", "deny"], "deny", 1, id="--timeout"),
        pytest.param(["--exec", "/does/not/exist", "--on-failure", "deny"], "deny", 1, id="could not start"),
        pytest.param([], "none", 0, id="no hooks"),
    ],
)
def test_exit_codes(arguments: list[str], decision: str, code: int) -> None:
    """0 not denied, 1 denied or asked."""
    ended = fire("PreToolUse", "--tool", "Bash", *arguments)
    assert (ended.verdict["decision"], ended.code) == (decision, code)


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_can_be_fired(name: str) -> None:
    """With its name, and a tool where it is about one; the hook gets every field that the event always has."""
    about_a_tool = "tool_name" in EVENTS[name].__struct_fields__
    ended = fire(name, *(["--tool", "Bash"] if about_a_tool else []), "--run", "cat; true")
    assert ended.code == 0
    assert ended.err == ""
    assert ended.verdict["event"] == name
    assert len(ended.verdict["outcomes"]) == 1


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("PreToolUse", {"tool_name": "Bash", "tool_input": {}}),
        ("Stop", {"stop_hook_active": False}),
        ("PreCompact", {"trigger": "manual", "custom_instructions": None}),
        (
            "SubagentStop",
            {
                "stop_hook_active": False,
                "agent_id": "agent-fire",
                "agent_type": "general-purpose",
                "agent_transcript_path": "",
            },
        ),
        ("PostToolBatch", {"tool_calls": []}),
    ],
)
def test_samples(name: str, fields: dict[str, Any], tmp_path: Path) -> None:
    """What is not given gets a sample, so that hooks find every field that they may rely on."""
    tool = ["--tool", "Bash"] if "tool_name" in fields else []
    got = seen(name, *tool, cwd=tmp_path)
    base = {"session_id": got["session_id"], "transcript_path": "", "cwd": str(tmp_path), "hook_event_name": name}
    assert got == {**base, **fields, **({"tool_use_id": got["tool_use_id"]} if tool else {})}


def test_each_call_has_its_own_id() -> None:
    """Two test events are two calls: `billhook events` joins records with the same id."""
    first, second = (seen("PreToolUse", "--tool", "Bash")["tool_use_id"] for _ in range(2))
    assert first.startswith("toolu_fire_") and first != second


def test_each_project_has_a_session(tmp_path: Path) -> None:
    """The same one for all that is fired in it, however the folder is named."""
    for name in ("one/.git", "one/sub", "two/.git"):
        (tmp_path / name).mkdir(parents=True)

    def session(name: str, *arguments: str) -> Any:
        return seen("Stop", *arguments, cwd=tmp_path / name)["session_id"]

    first, again, below = session("one"), session("two", "--cwd", str(tmp_path / "one")), session("one/sub")
    assert first == again == below != session("two")
    assert first.startswith("fire-")


def test_options_build_the_event(tmp_path: Path) -> None:
    """Tool, input, output, error flag, session and directory."""
    got = seen(
        "PostToolUse", "--tool", "bash", "--input", '{"command":"ls"}', "--output", '{"stdout":"a"}', "--error",
        "--session", "s1", "--cwd", str(tmp_path),
    )  # fmt: skip
    assert got == {
        "session_id": "s1",
        "transcript_path": "",
        "cwd": str(tmp_path),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_response": {"stdout": "a"},
        "tool_result_is_error": True,
        "tool_use_id": got["tool_use_id"],
    }


@pytest.mark.parametrize(("given", "got"), [("plain text", "plain text"), ("[1, 2]", [1, 2]), ('"a"', "a"), ("", "")])
def test_output_is_json_or_text(given: str, got: Any) -> None:
    """What the tool returned: JSON when it is, else the text."""
    assert seen("PostToolUse", "--tool", "Bash", "--output", given)["tool_response"] == got


def test_output_of_a_failed_tool() -> None:
    """On PostToolUseFailure the output is the error."""
    assert seen("PostToolUseFailure", "--tool", "Bash", "--output", "boom")["error"] == "boom"


def test_input_for_other_events() -> None:
    """For an event without a tool, the input gives its fields."""
    assert (
        seen("UserPromptSubmit", "--input", '{"prompt":"hi","extra":1}').items() >= {"prompt": "hi", "extra": 1}.items()
    )


def test_values_from_files(tmp_path: Path) -> None:
    """`@file` reads a file, with or without a byte order mark; `@-` standard input."""
    (tmp_path / "in.json").write_bytes(b'\xef\xbb\xbf{"command": "ls"}\n')
    (tmp_path / "out.txt").write_text("done\n")
    got = seen("PostToolUse", "--tool", "Bash", "--input", f"@{tmp_path}/in.json", "--output", f"@{tmp_path}/out.txt")
    assert (got["tool_input"], got["tool_response"]) == ({"command": "ls"}, "done\n")
    assert seen("PreToolUse", "--tool", "Bash", "--input", "@-", stdin=b'{"a": 1}')["tool_input"] == {"a": 1}


def test_a_whole_event(tmp_path: Path) -> None:
    """`--event`: as it is, fields that we don't know included; without EVENT it names itself."""
    event = {
        "session_id": "s9", "transcript_path": "/t", "cwd": str(tmp_path), "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t", "new": [1, None, "ü"],
    }  # fmt: skip
    assert seen("--event", json.dumps(event)) == event
    assert seen("PreToolUse", "--event", "@-", stdin=json.dumps(event).encode()) == event
    (tmp_path / "event.json").write_text(json.dumps(event, indent=2))
    assert seen("--event", f"@{tmp_path}/event.json") == event


def test_options_over_a_whole_event() -> None:
    """Options that are given win over `--event`; what it lacks is filled in."""
    event = '{"hook_event_name":"PreToolUse","session_id":"s1","tool_name":"Bash","tool_input":{"a":1}}'
    got = seen("--event", event, "--session", "s2", "--tool", "write_file", "--input", '{"b":2}')
    assert (got["session_id"], got["tool_name"], got["tool_input"]) == ("s2", "Write", {"b": 2})
    assert got["cwd"]


@pytest.mark.parametrize("how", ["--input", "--event"])
def test_the_input_stays_as_it_was_typed(how: str) -> None:
    """Hooks that read the text get the text, spaces included."""
    event = '{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":  "ls"}}'
    arguments = ["--event", event] if how == "--event" else ["--tool", "Bash", "--input", '{"command":  "ls"}']
    verdict = fire(
        "PreToolUse", *arguments, "--dialect", "claw", "--run", 'echo "got $HOOK_TOOL_INPUT"; exit 2'
    ).verdict
    assert verdict["reason"] == 'got {"command":  "ls"}'


@pytest.mark.parametrize("name", ["pre_tool_use", "pretooluse", "Pre-Tool-Use"])
def test_spellings_of_an_event(name: str) -> None:
    """Case, `_` and `-` don't matter, on the command line and in a recorded event."""
    assert seen(name, "--tool", "Bash")["hook_event_name"] == "PreToolUse"
    recorded = json.dumps({"hook_event_name": name, "tool_name": "Bash", "tool_input": {"a": 1}})
    got = seen("--event", recorded)
    assert (got["hook_event_name"], got["tool_input"]) == ("PreToolUse", {"a": 1})
    assert seen("PreToolUse", "--event", recorded)["hook_event_name"] == "PreToolUse"


def test_a_recorded_event_with_a_slip() -> None:
    """A name that is nearly that of an event is not fired."""
    ended = billhook("fire", "--event", '{"hook_event_name": "PreToolUze"}', "--run", "true")
    assert (ended.code, "did you mean PreToolUse?" in ended.err) == (2, True)


@pytest.mark.parametrize("kind", ["nothing", "a file"])
@pytest.mark.parametrize("hooks", [[], ["--run", "true"]], ids=["configured", "--run"])
def test_a_folder_that_is_not_there(tmp_path: Path, kind: str, hooks: list[str]) -> None:
    """--cwd has to be a folder: else hooks of another one would be asked."""
    if kind == "a file":
        (tmp_path / "x").touch()
    ended = billhook("fire", "PreToolUse", "--tool", "Bash", "--cwd", str(tmp_path / "x"), *hooks)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: --cwd {tmp_path}/x: no such folder\n\nhint: check the path\n"


def test_an_unknown_event() -> None:
    """An unknown event is fired, too, with all given fields."""
    got = seen("DeployStarted", "--tool", "Bash", "--input", '{"a":1}', "--output", "x")
    assert (got["hook_event_name"], got["tool_name"], got["tool_input"]) == ("DeployStarted", "Bash", {"a": 1})


@pytest.mark.parametrize(("match", "asked"), [("Bash", 1), ("bash", 0), ("Wr.*|B.*", 1), ("Write", 0), ("*", 1)])
def test_match(match: str, asked: int) -> None:
    """`--match` decides whether the hooks run."""
    verdict = fire("PreToolUse", "--tool", "bash", "--match", match, "--run", "true").verdict
    assert len(verdict["outcomes"]) == asked


def test_programs_without_a_shell(tmp_path: Path) -> None:
    """`--exec` splits words as a shell does and expands nothing; hooks of `--run` come first."""
    verdict = fire(
        "PreToolUse", "--tool", "Bash", "--exec", "printf '%s|' a 'b c' $HOME", "--run", "echo one", "--dialect", "claw"
    ).verdict
    assert verdict["context"] == ["one", "a|b c|$HOME|"]


@pytest.mark.parametrize(
    ("dialect", "code", "decision"),
    [
        ("claude", 1, "none"), ("claude", 2, "deny"),
        ("spec", 1, "none"), ("spec", 2, "none"),
        ("claw", 1, "none"), ("claw", 2, "deny"),
        ("claw-text", 1, "none"), ("claw-text", 2, "deny"),
        ("lesson", 1, "deny"), ("lesson", 2, "none"),
    ],
)  # fmt: skip
def test_dialects(dialect: str, code: int, decision: str) -> None:
    """The exit codes 1 and 2 have the meaning of the dialect, and no other."""
    verdict = fire("PreToolUse", "--tool", "Bash", "--dialect", dialect, "--run", f"exit {code}").verdict
    assert verdict["decision"] == decision
    assert verdict["outcomes"][0]["exit_code"] == code


def test_no_other_hooks(tmp_path: Path) -> None:
    """Only the hooks given on the command line are asked, whatever lies in the directory."""
    (tmp_path / ".claude").mkdir()
    hooks = '{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "touch ran; exit 2"}]}]}}'
    (tmp_path / ".claude" / "settings.json").write_text(hooks)
    ended = fire("PreToolUse", "--tool", "Bash", "--run", "true", cwd=tmp_path)
    assert (ended.code, len(ended.verdict["outcomes"])) == (0, 1)
    assert not (tmp_path / "ran").exists()


def test_hooks_do_not_get_our_input() -> None:
    """A hook's standard input is its payload, never what we were given."""
    assert "secret" not in json.dumps(seen("Stop", stdin=b"secret"))


def test_the_data_of_each_hook_is_shown() -> None:
    """Seed 002: what a handler hands to later ones is in its result."""
    data = '{"success": true, "data": {"turnId": "s:5", "sequence": 5}}'
    outcomes = fire("Stop", "--run", f"echo '{data}'", "--run", "true").verdict["outcomes"]

    assert [outcome.get("data") for outcome in outcomes] == [{"turnId": "s:5", "sequence": 5}, None]


@pytest.mark.parametrize("name", ["PreTolUse", "SesionStart", "PostTooluseFailur"])
def test_a_mistyped_event_is_not_fired(name: str) -> None:
    """A hook would seem to pass that is never asked."""
    ended = billhook("fire", name, "--run", "true")

    assert ended.code == 2 and "hint: did you mean " in ended.err and not ended.out


def test_an_event_that_no_agent_sends_is_fired() -> None:
    """It may be one of your own."""
    ended = fire("Deployment", "--run", "true")

    assert ended.code == 0 and "no known agent sends `Deployment`" in ended.err


def test_an_event_of_one_agent_is_fired() -> None:
    """billhook has no type for it, but an agent sends it."""
    assert "no known agent" not in fire("BeforeModel", "--run", "true").err
