"""The entries that `install` writes, run by a real shell with and without billhook."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from billhook.agents import AGENTS, DIALECTS
from billhook.agents.base import Agent, can
from billhook.cli.install.entries import REFUSED_WITHOUT, EntryOptions, command, entry, is_refused, is_written, times
from billhook.config.declaration import RunAction
from billhook.config.sources import is_billhook
from billhook.core.dialect_traits import MEANINGS

ODD = "/home/it's me/bin dir/billhook-hook"
SHELLS = ("sh", "bash")
CLIENT = Path(sys.executable).with_name("billhook-hook")


def handler(host: Agent, event: str, options: EntryOptions) -> dict[str, Any]:
    found = entry(host, event, options)
    return found["hooks"][0] if "hooks" in found else found


def line(host: Agent, event: str, options: EntryOptions) -> str:
    return str(handler(host, event, options)[host.command_key])


def run(text: str, path: str, shell: str = "sh", stdin: str = "{}") -> subprocess.CompletedProcess[str]:
    """Run an entry as an agent does."""
    found = next(one for one in (f"/bin/{shell}", f"/usr/bin/{shell}") if os.path.exists(one))
    env = {"PATH": path, "HOME": os.environ["HOME"]}
    return subprocess.run(
        [found, "-c", text], capture_output=True, text=True, input=stdin, env=env, timeout=60, check=False
    )


@pytest.mark.parametrize("host", AGENTS.values(), ids=lambda host: host.name)
def test_the_table(host: Agent) -> None:
    """Every agent has a dialect of its name, supports the installed events, and has no duplicate event names."""
    assert host.name in MEANINGS and host.name in DIALECTS
    assert set(host.events) <= set(host.spellings)
    own = [host.spellings[event] for event in host.events]
    assert len(set(own)) == len(own)
    assert host.unit_per_second == MEANINGS[host.name].time_per_second
    assert host.default_timeout == MEANINGS[host.name].timeout


@pytest.mark.parametrize("host", AGENTS.values(), ids=lambda host: host.name)
@pytest.mark.parametrize("needed", [0, 1, 30, 59, 61, 600, 3600])
def test_the_deadline_is_shorter_than_the_agents_time_out(host: Agent, needed: float) -> None:
    """In the agent's unit, for every event, however long hooks may take; an integer, because strict agents need one."""
    for event in host.spellings:
        options = EntryOptions(scope="project", seconds={event: needed})
        written = handler(host, event, options).get(host.timeout_key, int(host.default_timeout))
        deadline = int(line(host, event, options).split("--deadline ")[1].split()[0])
        assert type(written) is int
        assert 0 < deadline <= written * 1000 / host.unit_per_second - 300, event
        if event not in host.longest and needed > 2:
            assert deadline >= needed * 1000


def test_session_end_is_short() -> None:
    """Claude Code allows 1.5 seconds for all hooks, Codex at most 3."""
    assert times(AGENTS["claude"], "SessionEnd", 0) == (2, 1200)
    assert times(AGENTS["claude"], "SessionEnd", 30) == (32, 30000)
    assert times(AGENTS["claude"], "SessionEnd", 300) == (60, 58000)
    assert times(AGENTS["codex"], "SessionEnd", 30) == (3, 2500)


def test_the_agents_own_switch() -> None:
    """Agents that can refuse when a hook fails are told to, where a refusal makes sense."""
    for event in AGENTS["claude"].events:
        said = handler(AGENTS["claude"], event, EntryOptions(scope="user"))
        assert said.get("onFailure") == ("block" if event in REFUSED_WITHOUT else None)
    said = handler(AGENTS["cursor"], "PreToolUse", EntryOptions(scope="user"))
    assert said["failClosed"] is True
    assert "failClosed" not in handler(AGENTS["cursor"], "Stop", EntryOptions(scope="user"))


def test_a_subagent_of_cursors() -> None:
    """Only Cursor has an event before it starts one: it is refused if billhook is missing, and if the hook fails."""
    cursor = AGENTS["cursor"]
    assert handler(cursor, "SubagentStart", EntryOptions(scope="user"))["failClosed"] is True
    for options in (EntryOptions(scope="project"), EntryOptions(scope="user", program=ODD)):
        ended = run(line(cursor, "SubagentStart", options), "/nowhere")
        said = json.loads(ended.stdout)
        assert (ended.returncode, said["permission"]) == (0, "deny") and "uv tool install" in said["user_message"]


def every_entry() -> list[tuple[Agent, str, EntryOptions]]:
    options = [
        EntryOptions(scope="user", program="/opt/x/billhook-hook"),
        EntryOptions(scope="user", program=ODD),
        EntryOptions(scope="project"),
        EntryOptions(scope="project", if_missing="allow"),
    ]
    return [(host, event, one) for host in AGENTS.values() for event in host.spellings for one in options]


def test_entries_are_recognised() -> None:
    """By `uninstall`, and by the loader: an entry that is loaded as a hook would call billhook again."""
    for host, event, options in every_entry():
        assert is_written(handler(host, event, options)), (host.name, event, options)
        assert is_billhook(RunAction(line(host, event, options))), (host.name, event, options)
    assert is_written(
        entry(AGENTS["claude"], "Stop", EntryOptions(scope="user", http="http://127.0.0.1:1"))["hooks"][0]
    )


def test_entries_of_earlier_versions() -> None:
    """Entries of earlier versions are recognised: a new install updates them, and uninstall removes them."""
    for host, event, options in every_entry():
        older = line(host, event, options).replace(f" --from {options.scope}", "")
        assert "--from" not in older and is_written({"command": older}), (host.name, event, options)


@pytest.mark.parametrize(
    "theirs",
    [
        {"type": "command", "command": "billhook hook --as claude"},
        {"type": "command", "command": "exec ./billhook-hooks --as claude --deadline 5"},
        {"type": "command", "command": "exec other --as claude --deadline 5000"},
        {"type": "command", "command": "rm -rf x; exec billhook-hook --as claude --deadline 5000"},
        {"type": "command", "command": "exec billhook-hook --as claude --deadline 5000; rm -rf x"},
        {"type": "command", "command": ["exec billhook-hook --as claude --deadline 5000"]},
        {"type": "http", "url": "http://127.0.0.1:8123/hook/claude?deadline=5"},
        {"type": "http", "url": "http://[/hook/claude?deadline=5", "allowedEnvVars": ["BILLHOOK_TOKEN"]},
        {},
        "text",
        None,
    ],
    ids=str,
)
def test_what_others_wrote(theirs: object) -> None:
    """Entries in any other form are not taken for those of `install`."""
    assert not is_written(theirs)


@pytest.mark.parametrize("shell", SHELLS)
def test_without_billhook_a_project_refuses(shell: str) -> None:
    """Before a tool and a prompt, in the agent's format of a refusal, with the way to install billhook."""
    for host in AGENTS.values():
        for event in ("PreToolUse", "UserPromptSubmit"):
            if event not in host.event_names:
                continue
            if host.neutral(event) is not None and not can(host.name, event).deny:
                continue  # strict: any other answer would end its turn
            ended = run(line(host, event, EntryOptions(scope="project")), "/nowhere", shell)
            said = json.loads(ended.stdout) if ended.stdout else {}
            reason = ended.stderr or next(
                text for text in reversed(said.values()) if isinstance(text, str) and "billhook" in text
            )
            assert "uv tool install ." in reason
            both = (host.name, event) in (("claude", "PreToolUse"), ("hermes", "PreToolUse"))  # the code, and JSON
            if host.name not in ("claude", "cline", "copilot", "cursor", "antigravity") and not both:
                assert (ended.returncode, ended.stdout) == (2, "")
                continue
            assert (ended.returncode, bool(ended.stderr)) == ((2, True) if both else (0, False))
            refusal = {key: value for key, value in said.items() if "billhook" not in str(value)}
            assert (
                refusal
                == {
                    # Copilot also reads Claude Code's file, and would lose the reason, or allow the prompt
                    ("claude", "PreToolUse"): {"permissionDecision": "deny", "permission": "deny"},
                    ("claude", "UserPromptSubmit"): {"decision": "block"},
                    ("antigravity", "PreToolUse"): {"decision": "deny"},
                    ("hermes", "PreToolUse"): {"action": "block"},
                    ("copilot", "PreToolUse"): {"permissionDecision": "deny"},
                    ("copilot", "UserPromptSubmit"): {"decision": "block"},
                    ("cursor", "PreToolUse"): {"permission": "deny"},
                    ("cursor", "UserPromptSubmit"): {"continue": False},
                    ("cline", "PreToolUse"): {"cancel": True},
                }[host.name, event]
            )


def test_without_billhook_nothing_is_kept_going() -> None:
    """On every other event the entry prints nothing and exits with 0: a refusal on Stop would keep an agent going."""
    lines = {
        line(host, event, options)
        for host, event, options in every_entry()
        if options.scope == "project"
        and options.if_missing == "deny"
        and not is_refused(host, event)
        and host.neutral(event) is None
    }
    rests = {text.split("; exec ")[0] for text in lines}
    assert rests == {"command -v billhook-hook >/dev/null 2>&1 || exit 0"}
    ended = run(next(iter(lines)), "/nowhere")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_if_missing_allow_warns(shell: str) -> None:
    """With `--if-missing allow` the call continues, with a warning that it is not guarded."""
    for host in AGENTS.values():
        ended = run(line(host, "PreToolUse", EntryOptions(scope="project", if_missing="allow")), "/nowhere", shell)
        assert ended.returncode == 0
        assert "uv tool install ." in ended.stderr
        if ended.stdout:
            silence = host.neutral("PreToolUse")
            warning = {"systemMessage": ended.stderr.strip()}
            assert json.loads(ended.stdout) == (warning if silence is None else silence)


def test_a_program_that_is_gone() -> None:
    """Entries in the user's settings also refuse once billhook was removed, whatever its path looks like."""
    for host in AGENTS.values():
        ended = run(line(host, "PreToolUse", EntryOptions(scope="user", program=ODD)), "/usr/bin:/bin")
        assert f"billhook install {host.name}" in ended.stdout + ended.stderr
        assert ended.returncode == (0 if host.name in ("cline", "copilot", "cursor", "antigravity") else 2)


def test_with_billhook(tmp_path: Path) -> None:
    """If billhook-hook exists, it runs with exactly these arguments, and nothing else happens."""
    folder = tmp_path / "it's here"
    folder.mkdir()
    program = folder / "billhook-hook"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\ncat\nexit 7\n')
    program.chmod(0o755)
    for host in AGENTS.values():
        options = EntryOptions(scope="user", program=str(program))
        argument = [host.spellings["PreToolUse"]] if host.event_argument else []
        deadline = str(times(host, "PreToolUse", 0)[1])
        for scope, text, path in (
            ("user", line(host, "PreToolUse", options), "/usr/bin:/bin"),
            ("project", line(host, "PreToolUse", EntryOptions(scope="project")), f"{folder}:/usr/bin:/bin"),
        ):
            ended = run(text, path, stdin='{"a": 1}')
            words = ["--as", host.name, "--deadline", deadline, "--from", scope, *argument]
            assert (ended.returncode, ended.stdout, ended.stderr) == (7, "\n".join(words) + '\n{"a": 1}', "")


def test_the_client_takes_no_value_for_an_event(tmp_path: Path) -> None:
    """Its refusal has the format for the event that the entry names, and not for `user`."""
    words = [str(CLIENT), "--as", "copilot", "--deadline", "150", "--from", "user", "userPromptSubmitted"]
    env = {**os.environ, "BILLHOOK_HOME": str(tmp_path / "state"), "BILLHOOK_NO_DAEMON": "1"}
    child = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    with child, child.stdin:  # an agent that never comes to an end
        assert json.loads(child.stdout.read())["decision"] == "block"


@pytest.mark.slow
@pytest.mark.parametrize("host", AGENTS.values(), ids=lambda host: host.name)
def test_the_real_client_takes_them(host: Agent, tmp_path: Path) -> None:
    """The client of this package accepts every entry."""
    for event in host.events:
        deadline = times(host, event, 0)[1]
        text = command(host, event, EntryOptions(scope="user", program=str(CLIENT)), deadline)
        payload: dict[str, object] = {"hook_event_name": event, "session_id": "s", "cwd": str(tmp_path), "prompt": ""}
        payload |= {"tool_name": "Bash", "tool_input": {"command": "true"}}
        payload |= {"toolName": "bash", "toolArgs": {"command": "true"}}
        env = {**os.environ, "BILLHOOK_HOME": str(tmp_path / "state")}
        told = json.dumps(payload).encode()
        ended = subprocess.run(
            ["/bin/sh", "-c", text], capture_output=True, input=told, env=env, timeout=60, check=False
        )
        assert ended.returncode == 0, (event, ended)
        assert b"no option" not in ended.stderr
