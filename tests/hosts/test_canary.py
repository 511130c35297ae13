"""`billhook doctor --canary`: an agent is started briefly, and calls billhook or does not."""

import json
import re
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from billhook.agents import AGENTS as RECORDS
from billhook.agents.base import CANARY_KEY, Agent
from billhook.agents.codex import snake, trusted_hash
from billhook.cli.doctor.checks import settings_of
from billhook.cli.doctor.proof import environment
from billhook.cli.install.entries import Handler
from cli.terminal import living
from clients.agents import AGENTS, find
from hosts.test_doctor import Person, me
from hosts.test_doctor_findings import put

__all__ = ["me"]

ASKS = """\
#!/bin/sh
# a fake Claude Code: passes its prompt to the hook, and waits for a model
printf '{"hook_event_name":"UserPromptSubmit","session_id":"s-canary","cwd":"%s","prompt":"%s"}' "$PWD" "$2" |
  "$HOME/../bin/billhook-hook" --as claude --deadline 20000
sleep 600.5 TAG &
sleep 600.5 TAG
"""
REFUSES = "#!/bin/sh\necho please log in >&2\nexit 41\n"


def agent(me: Person, text: str, name: str = "claude") -> None:
    """Put a program of that name on PATH."""
    path = me.bin / name
    path.write_text(text)
    path.chmod(0o755)


def shown(me: Person, *arguments: str) -> str:
    return re.sub(r"\d+\.\d s", "N.N s", me.doctor(*arguments).screen)


def test_it_fires(me: Person) -> None:
    """The prompt is in the log, so the hook fired. The agent is ended with all its processes."""
    tag = f"tag-{me.folder.name}-{id(me)}"
    (me.bin / "sleep").symlink_to("/bin/sleep")
    agent(me, ASKS.replace("sleep 600.5 TAG", f"exec -a {tag} sleep 600.5").replace("#!/bin/sh", "#!/bin/bash"))
    assert me.alone("install", "claude", "--program", str(me.bin)).code == 0
    try:
        assert shown(me, "claude", "--canary") == snapshot("""\
Claude Code
  ok    canary     the hook fired after N.N s (UserPromptSubmit, session
                   s-canary)
-- stderr
note: Claude Code is started briefly, without a model ...
-- exit 0
""")
        assert living(tag) == []
        found = me.doctor("claude", "--canary", "--json").verdict
        assert (found["ok"], found["agents"][0]["level"]) == (True, "ok")
        assert "last called billhook" in me.doctor("claude").out
    finally:
        me.alone("daemon", "stop")


def test_it_does_not_fire(me: Person) -> None:
    """The finding has what the agent printed, or what the doctor found."""
    agent(me, REFUSES)
    assert me.alone("install", "claude", "--program", str(me.bin)).code == 0
    assert shown(me, "claude", "--canary") == snapshot("""\
Claude Code
  warn  canary     no hook fired: Claude Code exited after N.N s with code 41
                   and did not call billhook; it printed: please log in
                   -> start `claude` here, and read what it prints
-- stderr
note: Claude Code is started briefly, without a model ...
-- exit 1
""")
    (me.project / ".claude").mkdir()
    (me.project / ".claude" / "settings.local.json").write_text('{"disableAllHooks": true}')
    assert "disables all hooks" in me.doctor("claude", "--canary").out
    agent(me, "#!/nowhere/at-all\n")
    assert "can't be started: No such file" in me.doctor("claude", "--canary").out


def test_what_cannot_be_tested(me: Person) -> None:
    """An agent that is missing, one that needs an account, one that is not installed, events after the model call."""
    assert me.alone("install", "cursor", "codex", "--program", str(me.bin)).code == 0
    assert me.alone("install", "claude", "--program", str(me.bin), "--events", "PreToolUse").code == 0
    agent(me, REFUSES)
    assert shown(me, "cursor", "codex", "gemini", "claude", "--canary") == snapshot("""\
Cursor
  note  canary     can't be tested: Cursor needs an account and a window
Codex
  note  canary     can't be tested: no `codex` on PATH
Gemini CLI
  fail  canary     no hook can fire: not installed
                   -> billhook install gemini
Claude Code
  note  canary     can't be tested: none of the installed events is fired before
                   the model is called
                   -> billhook install claude
-- exit 1
""")


def test_inside_an_agent(me: Person) -> None:
    """An agent, which hooks judge, can't start agents."""
    ended = me.alone("doctor", "--canary", CLAUDECODE="1")
    assert (ended.code, "--canary is refused here" in ended.err) == (2, True)
    assert me.alone("doctor", CLAUDECODE="1").code == 1


@pytest.mark.parametrize("host", [one for one in RECORDS.values() if one.start], ids=lambda one: one.name)
def test_nothing_leaves(host: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every proxy is the closed port, whatever the environment is; the user's keys are not used."""
    monkeypatch.setenv("HOME", str(tmp_path))
    around = {"https_proxy": "http://proxy.example:3128", "NO_PROXY": "*", "ANTHROPIC_API_KEY": "real", "PATH": "/bin"}
    assert host.start is not None
    start = host.start(host, "http://127.0.0.1:9", "the prompt", settings_of)
    given = environment(start, "http://127.0.0.1:9", around)
    ways = [value for key, value in given.items() if key.lower() in ("http_proxy", "https_proxy", "all_proxy")]
    assert set(ways) == {"http://127.0.0.1:9"} and len(ways) == 6
    assert given["NO_PROXY"] == given["no_proxy"] == "127.0.0.1,localhost"
    assert CANARY_KEY in str(start.environ) and "the prompt" in start.words


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude", "gemini", "qwen", "copilot", "codex"])
def test_real_agents(name: str, me: Person) -> None:
    """Each fires if its entries are trusted; Codex does not before that, and the doctor shows why."""
    binary = find(AGENTS[name])
    if binary is None:
        pytest.skip(f"{AGENTS[name].title} is not here: scripts/clients --install gets it")
    (me.bin / name).symlink_to(binary)
    path = f"{me.bin}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    assert me.alone("install", name, "--program", str(me.bin)).code == 0
    if name == "gemini":
        put(me.home / ".gemini" / "trustedFolders.json", {str(me.project): "TRUST_FOLDER"})
    try:
        ended = me.alone("doctor", name, "--canary", PATH=path)
        if name == "codex":
            assert (ended.code, "not trusted yet" in ended.out) == (1, True), ended
            put(me.home / ".codex" / "config.toml", codex_state_of(me))
            ended = me.alone("doctor", name, "--canary", PATH=path)
        assert (ended.code, "the hook fired after" in ended.out) == (0, True), ended
    finally:
        me.alone("daemon", "stop")


def codex_state_of(me: Person) -> str:
    """Codex's settings after the user has trusted billhook's entries."""
    file = me.home / ".codex" / "hooks.json"
    rows = []
    for event, groups in json.loads(file.read_text())["hooks"].items():
        hash_ = trusted_hash(Handler(event, 0, 0, groups[0]["hooks"][0], {}, 1))
        rows.append(f'[hooks.state."{file}:{snake(event)}:0:0"]\ntrusted_hash = "{hash_}"\n')
    return "".join(rows)
