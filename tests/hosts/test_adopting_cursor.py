"""Cursor's narrower events: adopted hooks read and answer the same as without billhook."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.terminal import Ended, billhook
from hosts.installed import Home

PAYLOADS: dict[str, dict[str, Any]] = {
    "beforeShellExecution": {"command": "rm -rf é", "sandbox": False},
    "afterShellExecution": {"command": "ls", "output": "a\nb", "duration": 12},
    "beforeMCPExecution": {"tool_name": "search", "tool_input": '{"q": "x"}', "url": "https://mcp.test"},
    "afterMCPExecution": {"tool_name": "search", "tool_input": '{"q": "x"}', "result_json": '{"n": 1}'},
    "beforeReadFile": {"file_path": "/p/notes.txt", "content": "KEY=1", "attachments": []},
    "beforeTabFileRead": {"file_path": "/p/notes.txt", "content": "KEY=1"},
    "afterFileEdit": {"file_path": "/p/a.py", "edits": [{"old_string": "a", "new_string": "b"}]},
    "afterTabFileEdit": {"file_path": "/p/a.py", "edits": [{"old_string": "a", "new_string": "b"}, {}]},
    "beforeSubmitPrompt": {"prompt": "hi", "attachments": []},
    "stop": {"status": "completed", "loop_count": 0},
    "sessionStart": {"session_id": "c", "is_background_agent": False},
    "afterAgentResponse": {"text": "done"},
    "afterAgentThought": {"text": "hm", "duration_ms": 3},
}
GATING = ("beforeShellExecution", "beforeMCPExecution", "beforeReadFile", "beforeTabFileRead")
SCRIPT = "tee seen.json >/dev/null; cat answer; exit $(cat code)"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path)
    (found.project / "hook.sh").write_text(SCRIPT)
    return found


def adopted(home: Home, **events: list[dict[str, Any]]) -> Path:
    """A project whose hooks for Cursor were moved."""
    file = home.write(json.dumps({"version": 1, "hooks": events}, indent=2) + "\n", "cursor")
    run(home, "install", "cursor", "--project", "--adopt")
    return file


def environment(home: Home) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDG", "BILLHOOK", "CLAUDE"))}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**kept, "HOME": str(home.home), "PATH": path, "BILLHOOK_NO_DAEMON": "1"}


def run(home: Home, *words: str, stdin: str = "") -> Ended:
    return billhook(*words, stdin=stdin.encode(), cwd=home.project, env=environment(home))


def sent(home: Home, event: str, **more: Any) -> str:
    common = {"conversation_id": "c", "generation_id": "g", "hook_event_name": event}
    roots = {"workspace_roots": [str(home.project)], "cwd": str(home.project)}
    return json.dumps({**common, **roots, **PAYLOADS.get(event, {}), **more}, ensure_ascii=False)


def fired(home: Home, event: str, answer: str = "", code: int = 0, **more: Any) -> dict[str, Any]:
    """What Cursor reads when it runs the entry in its file."""
    (home.project / "answer").write_text(answer)
    (home.project / "code").write_text(str(code))
    (home.project / "seen.json").unlink(missing_ok=True)
    entry = json.loads(home.file("cursor").read_text())["hooks"][event][-1]["command"]
    done = subprocess.run(
        ["sh", "-c", entry],
        input=sent(home, event, **more),
        cwd=home.project,
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else {}


def seen(home: Home) -> str:
    file = home.project / "seen.json"
    return file.read_text() if file.exists() else ""


@pytest.mark.parametrize("event", PAYLOADS)
def test_each_of_its_events_is_moved_and_restored(home: Home, event: str) -> None:
    """The hook reads what Cursor sent, and uninstall restores the file."""
    file = adopted(home, **{event: [{"command": "sh hook.sh"}]})
    before = json.dumps({"version": 1, "hooks": {event: [{"command": "sh hook.sh"}]}}, indent=2) + "\n"
    assert list(yaml.safe_load((home.project / ".billhook" / "hooks.yaml").read_text())["hooks"]) == ["hook"]
    assert run(home, "check").out.startswith("no findings in 1 hook")
    fired(home, event)
    assert json.loads(seen(home)) == json.loads(sent(home, event))
    run(home, "uninstall", "cursor", "--project")
    assert file.read_text() == before and not (home.project / ".billhook").exists()


@pytest.mark.parametrize("event", GATING)
def test_a_deny_acts(home: Home, event: str) -> None:
    """In JSON, in its earlier spelling, by exit code 2, and by an invalid answer."""
    adopted(home, **{event: [{"command": "sh hook.sh"}]})
    told = fired(home, event, '{"permission": "deny", "user_message": "no", "agent_message": "use trash"}')
    assert told["permission"] == "deny" and "no" in told["user_message"] and "use trash" in told["agent_message"]
    told = fired(home, event, '{"continue": true, "permission": "deny", "userMessage": "never"}', command="2")
    assert (told["permission"], told["user_message"]) == ("deny", "never")
    assert fired(home, event, "stop it", code=2, command="3")["permission"] == "deny"
    assert fired(home, event, '{"permission": "dney"}', command="4")["permission"] == "deny"
    assert fired(home, event, '{"permission": "allow"}', command="5") == {}


def test_an_ask_reaches_the_user(home: Home) -> None:
    """Cursor supports it on this event only, so it is not rounded to what the whole event supports."""
    adopted(home, beforeShellExecution=[{"command": "sh hook.sh"}])
    told = fired(home, "beforeShellExecution", '{"permission": "ask", "user_message": "sure?"}')
    assert (told["permission"], told["user_message"]) == ("ask", "sure?")


def test_its_matcher_is_for_the_command(home: Home) -> None:
    """For reading and editing files, it is for the kind of tool."""
    adopted(home, beforeShellExecution=[{"command": "sh hook.sh", "matcher": "curl|wget "}])
    fired(home, "beforeShellExecution", command="ls")
    assert not seen(home)
    fired(home, "beforeShellExecution", command="sudo curl x")
    assert seen(home)


def test_each_hook_runs_once_for_a_call(home: Home) -> None:
    """Cursor sends the whole event and the narrower one: hooks for one don't run for the other."""
    whole = {"command": "echo whole >> ran"}
    adopted(home, beforeShellExecution=[{"command": "echo part >> ran"}], preToolUse=[whole])
    fired(home, "preToolUse", tool_name="Shell", tool_input={"command": "ls"}, tool_use_id="1")
    assert (home.project / "ran").read_text().split() == ["whole"]
    fired(home, "beforeShellExecution", command="ls")
    assert (home.project / "ran").read_text().split() == ["whole", "part"]


@pytest.mark.parametrize(
    ("event", "call", "expected"),
    [
        (
            "beforeShellExecution",
            {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "rm é"}},
            {"command": "rm é"},
        ),
        (
            "afterFileEdit",
            {
                "hook_event_name": "PostToolUse",
                "tool_name": "Edit",
                "tool_input": {"file_path": "/a", "old_string": "x", "new_string": "y"},
                "tool_response": {},
            },
            {"file_path": "/a", "edits": [{"old_string": "x", "new_string": "y"}]},
        ),
        (
            "beforeMCPExecution",
            {"hook_event_name": "PreToolUse", "tool_name": "mcp__docs__search", "tool_input": {"q": 1}},
            {"tool_name": "search", "tool_input": '{"q":1}'},
        ),
        (
            "beforeReadFile",
            {"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": "hook.sh"}},
            {"file_path": "hook.sh", "content": SCRIPT},
        ),
    ],
)
def test_another_agents_call_in_its_words(
    home: Home, event: str, call: dict[str, Any], expected: dict[str, Any]
) -> None:
    adopted(home, **{event: [{"command": "sh hook.sh"}]})
    (home.project / "answer").write_text("")
    (home.project / "code").write_text("0")
    run(home, "hook", "--as", "claude", stdin=json.dumps({"session_id": "s", "cwd": str(home.project), **call}))
    found = json.loads(seen(home))
    assert found["hook_event_name"] == event and expected.items() <= found.items()


def test_explain_names_the_event(home: Home) -> None:
    adopted(home, beforeShellExecution=[{"command": "sh hook.sh", "matcher": "curl"}])
    told = run(home, "explain", "PreToolUse", "--tool", "Bash", "--input", '{"command": "ls"}').out
    expected = "it runs at Cursor's beforeShellExecution, and for calls of other agents that match `curl`"
    assert expected in " ".join(told.split())
