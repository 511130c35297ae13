"""The input of a command hook: the agent's text if possible, else plainly formatted JSON."""

import json
from pathlib import Path

import pytest

from cli.place import Place

INPUT = r'{"b":1.0,  "command" : "echo caf\u00e9 é \ud83d\ude00", "a": 1e2}'


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def payload(speech: str, given: str = INPUT) -> str:
    """An event as an agent of that dialect may write it."""
    match speech:
        case "claude" | "codex":
            return (
                f'{{"session_id":"s","hook_event_name":"PreToolUse","tool_use_id" : "t", "tool_input":{given},'
                f'"tool_name":"Bash"}}'
            )
        case "gemini":
            return f'{{"tool_name": "run_shell_command","tool_input":{given},"hook_event_name":"BeforeTool"}}'
        case "copilot":
            return f'{{"toolArgs":{given},"sessionId":"s" , "toolName":"bash"}}'
        case "cursor":
            return f'{{"conversation_id":"c","hook_event_name":"preToolUse","tool_name":"Shell","tool_input":{given}}}'
        case "claw-text":
            command = json.loads(given)["command"]
            return (
                f'{{"tool_input_json": {json.dumps(given)},"hook_event_name":"PreToolUse","tool_name" : "bash",'
                f'"tool_input":{json.dumps(command)}}}'
            )
    return (
        f'{{"tool_input":{given},"tool_input_json": {json.dumps(given)},"hook_event_name":"PreToolUse",'
        '"tool_name" : "bash","tool_output":null, "tool_result_is_error":false}'
    )


def heard(place: Place, sent: str, speech: str, listens: str = "", **told: str) -> dict[str, str]:
    """The input of a hook with a dialect for this text of an agent."""
    place.own(
        f"hooks:\n  it:\n    events: PreToolUse\n    dialect: {listens or speech}\n"
        '    run: \'cat > stdin; printf %s "$HOOK_TOOL_INPUT" > input; printf %s "$HOOK_TOOL_NAME" > name\'\n'
    )
    argument = ("preToolUse",) if speech == "copilot" else ()
    ended = place.run("hook", "--as", speech, *argument, stdin=sent.encode(), told=told, PWD=str(place.project))
    assert ended.code == 0, ended
    return {name: (place.project / name).read_text() for name in ("stdin", "input", "name")}


@pytest.mark.parametrize("speech", ["claude", "codex", "gemini", "copilot", "cursor", "claw", "claw-text", "lesson"])
def test_a_hook_of_the_same_agent_gets_what_the_agent_wrote(place: Place, speech: str) -> None:
    """Byte for byte: the order of keys, spacing, escapes and numbers."""
    sent = payload(speech)

    assert heard(place, sent, speech)["stdin"] == sent + "\n"


@pytest.mark.parametrize("speech", ["claw", "lesson", "claude"])
@pytest.mark.parametrize("given", [INPUT, INPUT.replace("  ", "\n")], ids=["one line", "two lines"])
def test_the_tools_input_is_the_senders_text(place: Place, speech: str, given: str) -> None:
    """The variable and the field for raw text keep it, for any dialect of the agent."""
    for listens in ("claw", "lesson"):
        got = heard(place, payload(speech, given), speech, listens)
        told = json.loads(got["stdin"])

        assert len(got["stdin"].splitlines()) == 1
        assert given.replace("\n", " ") in got["stdin"]
        assert got["input"] == told["tool_input_json"] == given


def test_an_input_that_came_in_a_variable_is_kept(place: Place) -> None:
    """Hooks of seed 004 get everything in the environment."""
    variables = {"HOOK_EVENT": "PreToolUse", "HOOK_TOOL_NAME": "bash", "HOOK_TOOL_INPUT": INPUT}

    assert heard(place, "", "lesson", **variables)["input"] == INPUT


WRITTEN = [
    # why billhook rewrites it, the sent input, the plain form
    pytest.param(r'{"command":"rm \u002drf"}', '{"command": "rm -rf"}', id="escapes hide plain characters"),
    pytest.param('{"command":"\\/bin\\/rm"}', '{"command": "/bin/rm"}', id="a slash that needs no escape"),
]


@pytest.mark.parametrize(("given", "text"), WRITTEN)
@pytest.mark.parametrize("speech", ["claude", "gemini", "claw", "lesson"])
def test_text_that_hides_plain_characters_is_written_again(place: Place, speech: str, given: str, text: str) -> None:
    """A guard that greps sees the plain characters."""
    got = heard(place, payload(speech, given), speech)

    compact = text.replace(": ", ":")
    assert (compact if speech in ("claude", "gemini") else text) in got["stdin"]
    assert speech != "lesson" or got["input"] == text
    assert speech != "claw" or got["input"] == compact  # seed 000 prints it without spaces


def test_an_agents_event_is_written_for_hooks_of_other_agents(place: Place) -> None:
    """In the format of the hook's agent, with characters, not escapes."""
    got = heard(place, payload("gemini", '{"command":"echo \\u00e9"}'), "gemini", "claude")["stdin"]

    assert '"tool_name":"Bash"' in got and '{"command":"echo é"}' in got


def test_a_rewritten_input_is_written(place: Place) -> None:
    """An input that an earlier hook changed is written again."""
    rewritten = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command":"npm test"}}}'
    place.own(
        f"hooks:\n  first:\n    events: PreToolUse\n    run: |\n      echo '{rewritten}'\n"
        "  second:\n    events: PreToolUse\n    run: cat > stdin\n"
    )
    place.run("hook", stdin=payload("claude").encode())

    assert '"tool_input":{"command":"npm test"}' in (place.project / "stdin").read_text()


@pytest.mark.parametrize("speech", ["claude", "spec", "claw", "claw-text", "lesson", "gemini", "copilot"])
def test_an_event_of_billhook(place: Place, speech: str) -> None:
    """In the format of the seeds or the agents, by dialect, so that a guard finds the same text."""
    ended = place.run("fire", "PreToolUse", "--tool", "Bash", "--dialect", speech, "--run", "cat > stdin; :")
    got = (place.project / "stdin").read_text()
    compact = speech in ("claude", "gemini", "copilot")

    assert ended.code == 0 and compact == ('":"' in got) == ('","' in got) != ('": "' in got)


def test_the_callers_variables_are_kept(place: Place) -> None:
    """In the claude dialect HOOK_* are not set; the caller's variables reach the hook."""
    got = heard(place, payload("claude"), "claude", HOOK_TOOL_NAME="mine")

    assert (got["name"], got["input"]) == ("mine", "")
