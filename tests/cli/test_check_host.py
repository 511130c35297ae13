"""`billhook check --host` and `billhook list --host`: what an agent does not support, and what applies inside it."""

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from billhook.agents import AGENTS
from cli.folder import Folder

HOOKS = """\
hooks:
  review:
    events: PreToolUse
    match: Bash
    ask: A person has to see this
  remember:
    events: [PreToolUse, UserPromptSubmit]
    inject: Mind the style guide
  guard:
    events: [PreToolUse, PreCompact]
    run: ./guard.sh
    gate: true
  teach:
    events: PreToolUse
    run: |
      echo '{"hookSpecificOutput": {"additionalContext": "mind the tests"}}'
  tasks:
    events: TaskCreated
    exec: [./tasks]
  bye:
    events: SessionEnd
    run: ./bye.sh
    timeout: 20
  never:
    events: PreToolUse
    if: Bash(rm *)
    deny: Not here
"""
CLAUDES = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "./own.sh"}]}]}}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    one = Folder(tmp_path)
    one.write("~/.config/billhook/hooks.yaml", HOOKS)
    one.write(".claude/settings.json", CLAUDES)
    return one


def test_codex(folder: Folder) -> None:
    """Certain limits mean exit code 1; limits of what a hook might return are only shown."""
    assert folder.screen("check", "--host", "codex") == snapshot("""\
Codex: 4 of 8 hooks are not fully supported, 1 more may not be
  review  ~/.config/billhook/hooks.yaml:2
    on Codex's PreToolUse its ask becomes deny
  guard  ~/.config/billhook/hooks.yaml:9
    on Codex's PreCompact its deny ends the run
    if it returns ask or stop on Codex's PreToolUse, that becomes deny
  tasks  ~/.config/billhook/hooks.yaml:17
    Codex has no event TaskCreated, so the hook never runs for it
  bye  ~/.config/billhook/hooks.yaml:20
    its timeout of 20 s is too long for Codex's SessionEnd: after 2.5 s the hook
    counts as failed
  own  .claude/settings.json:6
    if it returns ask or stop on Codex's PreToolUse, that becomes deny
  built-ins
    on PreToolUse the guard's ask becomes deny; the reason contains a rule that
    would allow the call
-- exit 1
""")


@pytest.mark.parametrize(
    ("host", "match", "told"),
    [
        ("codex", "Write|Edit", "if it rewrites more than `command` on Codex's PreToolUse, that becomes deny"),
        ("codex", "apply_patch", "if it rewrites more than `command` on Codex's PreToolUse, that becomes deny"),
        ("cursor", "Edit", "if it rewrites more than a command or a path on Cursor's preToolUse, that becomes deny"),
        ("codex", "Bash", ""),
        ("gemini", "Write", ""),
    ],
)
def test_rewrites_that_are_taken_over_in_part(folder: Folder, host: str, match: str, told: str) -> None:
    """Limits of rewritten file contents are shown, and don't fail the check."""
    answer = {"hookSpecificOutput": {"updatedInput": {"file_path": "/safe"}}}
    hook = {"events": "PreToolUse", "match": match, "run": f"echo '{json.dumps(answer)}'"}
    folder.write("~/.config/billhook/hooks.yaml", json.dumps({"hooks": {"move": hook}}))
    folder.write(".claude/settings.json", {})
    ended = folder.billhook("check", "--host", host, "--json")
    messages = [json.loads(line)["message"] for line in ended.out.splitlines()]
    assert (ended.code, messages) == (0, [told] if told else [])


def test_gemini(folder: Folder) -> None:
    """With the agent's names of events."""
    assert folder.screen("check", "--host", "gemini", "../.config/billhook/hooks.yaml") == snapshot("""\
Gemini CLI: 5 of 7 hooks are not fully supported
  review  ~/.config/billhook/hooks.yaml:2
    on Gemini CLI's BeforeTool its ask becomes deny
  remember  ~/.config/billhook/hooks.yaml:6
    on Gemini CLI's BeforeTool its context is held until AfterTool
  guard  ~/.config/billhook/hooks.yaml:9
    on Gemini CLI's PreCompress its deny is only shown to the user
    if it returns ask on Gemini CLI's BeforeTool, that becomes deny
    if it returns context on Gemini CLI's BeforeTool, that is held until
    AfterTool
  teach  ~/.config/billhook/hooks.yaml:13
    on Gemini CLI's BeforeTool its context is held until AfterTool
  tasks  ~/.config/billhook/hooks.yaml:17
    Gemini CLI has no event TaskCreated, so the hook never runs for it
  built-ins
    on BeforeTool the guard's ask becomes deny; the reason contains a rule that
    would allow the call
-- exit 1
""")


def test_limits(folder: Folder) -> None:
    """Asks that become denials, and tokens that can't be counted."""
    limit = {"at_most": 5, "per": "session", "then": "ask", "of": "tokens"}
    folder.write("~/.config/billhook/hooks.yaml", json.dumps({"builtins": {"rate-limit": {"options": limit}}}))
    shown = {host: " ".join(folder.screen("check", "--host", host).split()) for host in ("claude", "codex", "cursor")}
    assert "on PreToolUse the ask of rate-limit becomes deny" in shown["codex"]
    assert {host: "limits of tokens and cost have no effect" in text for host, text in shown.items()} == {
        "claude": False,
        "codex": False,
        "cursor": True,
    }


def test_claude(folder: Folder) -> None:
    """No limits, and the hooks that Claude Code runs itself are counted."""
    assert folder.screen("check", "--host", "claude") == snapshot("""\
Claude Code: all 7 hooks are supported
  Claude Code itself runs 1 more hook
-- exit 0
""")


def test_for_programs(folder: Folder) -> None:
    """One object per line for each limit, in every agent."""
    ended = folder.billhook("check", "--host", "all", "--json")
    found = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 1 and {one["host"] for one in found} == {*AGENTS} - {"claude"}
    asks = [one for one in found if one["hook"] == "review" and one["host"] == "codex"]
    assert [{**one, "file": ""} for one in asks] == snapshot(
        [
            {
                "host": "codex",
                "hook": "review",
                "file": "",
                "line": 2,
                "events": ["PreToolUse"],
                "host_events": ["PreToolUse"],
                "wants": ["ask"],
                "becomes": "becomes deny",
                "sure": True,
                "message": "on Codex's PreToolUse its ask becomes deny",
            }
        ]
    )


def test_deadline_that_is_installed(folder: Folder) -> None:
    """A timeout is compared with billhook's installed deadline."""
    entry = {"bash": "exec /opt/billhook-hook --as copilot --deadline 5000 preToolUse", "timeoutSec": 6}
    folder.write(".github/hooks/billhook.json", {"version": 1, "hooks": {"preToolUse": [entry]}})
    slow = folder.write("slow.yaml", "hooks: {slow: {events: PreToolUse, exec: [./scan], timeout: 9, gate: true}}")
    assert folder.screen("check", "--host", "copilot", slow.name) == snapshot("""\
Copilot: 1 of 1 hook is not fully supported
  slow  slow.yaml:1
    if it returns ask or stop on Copilot's preToolUse, that becomes deny
    its timeout of 9 s is too long for Copilot's preToolUse: after 5 s the call
    is denied
  built-ins
    on preToolUse the guard's ask becomes deny; the reason contains a rule that
    would allow the call
-- exit 1
""")


WRONG = {
    "no such agent": ["--host", "codx"],
    "codes": ["--host", "codex", "--select", "BH3"],
    "another format": ["--host", "codex", "--format", "sarif"],
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG.keys())
def test_wrong_use(folder: Folder, words: list[str]) -> None:
    """An error with a suggestion."""
    ended = folder.billhook("check", *words)
    assert ended.code == 2 and "hint: " in ended.err


def test_file_that_cant_be_read(folder: Folder) -> None:
    """Its hooks are unknown, so the check fails."""
    broken = folder.write("broken.yaml", "hooks: [")
    ended = folder.billhook("check", "--host", "codex", broken.name)
    assert ended.code == 2 and "`billhook check` shows why" in ended.err


def test_list_inside_claude(folder: Folder) -> None:
    """Hooks that the agent runs itself are marked."""
    assert folder.screen("list", "--host", "claude", "--event", "PreToolUse") == snapshot("""\
what applies in Claude Code

PreToolUse
   1 metrics         times every hook
     on_failure allow   priority 1   built-in
   2 turn-tracker    counts the turns of a session
     on_failure allow   priority 5   built-in
   3 event-logger    records every event in the log
     on_failure allow   priority 50   built-in
   4 review          ask: A person has to see this
     match Bash   gate (asks)   own   ~/.config/billhook/hooks.yaml:2
   5 remember        inject: Mind the style guide
     on_failure allow   own   ~/.config/billhook/hooks.yaml:6
   6 guard           ./guard.sh
     gate   own   ~/.config/billhook/hooks.yaml:9
   7 teach           echo '{"hookSpecificOutput": {"additionalContext": "mind
                     the tests"}}'
     on_failure allow   own   ~/.config/billhook/hooks.yaml:13
   8 never           deny: Not here
     if Bash(rm *)   gate   own   ~/.config/billhook/hooks.yaml:24
   9 built-in/guard  stops what can't be undone, and protects billhook's files
     gate   priority 1000   built-in

Run by Claude Code itself
   - own             ./own.sh
     PreToolUse   .claude/settings.json:6   run by Claude Code itself
-- exit 0
""")


def test_list_inside_gemini(folder: Folder) -> None:
    """The agent's names of events, and hooks that never fire there."""
    assert folder.screen("list", "--host", "gemini") == snapshot("""\
what applies in Gemini CLI

PreToolUse (BeforeTool)
   1 review          ask: A person has to see this
     match Bash   gate (asks)   own   ~/.config/billhook/hooks.yaml:2
   2 remember        inject: Mind the style guide
     on_failure allow   own   ~/.config/billhook/hooks.yaml:6
   3 guard           ./guard.sh
     gate   own   ~/.config/billhook/hooks.yaml:9
   4 teach           echo '{"hookSpecificOutput": {"additionalContext": "mind
                     the tests"}}'
     on_failure allow   own   ~/.config/billhook/hooks.yaml:13
   5 never           deny: Not here
     if Bash(rm *)   gate   own   ~/.config/billhook/hooks.yaml:24
   6 built-in/guard  stops what can't be undone, and protects billhook's files
     gate   priority 1000   built-in

UserPromptSubmit (BeforeAgent)
   1 remember        inject: Mind the style guide
     on_failure allow   own   ~/.config/billhook/hooks.yaml:6

SessionEnd
   1 bye             ./bye.sh
     on_failure allow   timeout 20 s   own   ~/.config/billhook/hooks.yaml:20

PreCompact (PreCompress)
   1 guard           ./guard.sh
     gate   own   ~/.config/billhook/hooks.yaml:9

Built-ins that only observe
   1 metrics         times every hook
   2 turn-tracker    counts the turns of a session
   3 session-naming  names the session
   4 event-logger    records every event in the log

Not approved (review with `billhook trust`)
   - own             ./own.sh
     PreToolUse   on_failure allow   not approved   .claude/settings.json:6

Never fires in Gemini CLI, which has no such event
   - tasks           ./tasks
     TaskCreated   on_failure allow   own   ~/.config/billhook/hooks.yaml:17
-- stderr

hint: 1 hook not approved yet: review with `billhook trust`
-- exit 0
""")


def test_list_for_programs(folder: Folder) -> None:
    """Each line shows whether the hook fires inside that agent."""
    found = {one["name"]: one for one in folder.lines("list", "--host", "copilot", "--json")}
    assert [found[name]["fires"] for name in ("review", "tasks", "own")] == [True, False, False]
    assert found["remember"]["host_events"] == ["preToolUse", "userPromptSubmitted"]
    assert found["own"]["state"] == "elsewhere" and found["own"]["why"] == "run by Copilot itself"
