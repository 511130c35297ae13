"""Asks wait in the queue: which ones, for how long, and what the agent gets."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from approvals.asking import ASKS, PUSH, QUEUED, approvals, decision, in_terminal, push, question, reason, waiting
from billhook.approvals.queue import Questions, is_watched, watcher
from cli.place import Place
from daemon.running import PROGRAM, Home, Reply, eventually, home_in

SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    (tmp_path / "h").mkdir()
    with home_in(tmp_path / "h") as home:
        yield home


def answered(home: Home, allow: bool = True, by: str = "Ann", via: str = "page", why: str = "") -> None:
    """Answer the question that waits, as the page does."""
    (one,) = waiting(home)
    Questions(home.root).answer(one.id, allow, by, via, why)


def asked(home: Home, *argv: str, allow: bool = True, why: str = "", **fields: Any) -> Reply:
    """The reply to a call that waits, and is then answered."""
    with home.call(push(home, **fields), *argv) as call:
        answered(home, allow, why=why)
        return call.reply()


# -- which asks wait


def test_nothing_waits_while_no_person_watches(home: Home) -> None:
    """Without `approvals:`, the agent gets the ask at once; its reason tells how it would wait. No file is created."""
    home.own(ASKS)
    home.start()
    assert reason(home.ask(push(home, mode="default"))) == "push to a remote?"
    unattended = home.env(CLAUDE_CODE_SESSION_ATTENDED="0")
    replies = [home.ask(push(home, mode=mode)) for mode in ("dontAsk", "bypassPermissions")]
    for reply in (*replies, home.ask(push(home, mode="default"), env=unattended)):
        assert decision(reply) == "ask" and "while `billhook ui` or" in reason(reply)
    codex = home.ask(push(home), "--as", "codex")
    assert "This needs a person's approval" in reason(codex) and "while `billhook ui` or" in reason(codex)
    assert not list(home.root.rglob("questions"))


@pytest.mark.parametrize("with_daemon", [True, False])
def test_a_question_waits_while_a_person_watches(home: Home, tmp_path: Path, with_daemon: bool) -> None:
    """Without `approvals:`, a terminal with `billhook approvals --watch` is enough; when it ends, nothing waits."""
    home.own(ASKS)
    if with_daemon:
        home.start()
    ask = home.ask if with_daemon else lambda event: Reply(True, stdout=hook(home, event))
    (tmp_path / "w").mkdir()
    with ThreadPoolExecutor(1) as people:
        answers = [("stop]", "y\n"), ("stop]", "n\n"), ("stop]", "\x04")]
        typing = Place(tmp_path / "w").typing
        watching = people.submit(typing, "approvals", "--watch", answers=answers, BILLHOOK_HOME=str(home.root))
        eventually(lambda: is_watched(home.root))
        assert decision(ask(push(home, mode="default"))) == "ask"
        assert [decision(ask(push(home))) for _ in range(2)] == ["allow", "deny"]
        Questions(home.root).add(question())
        watching.result()
    eventually(lambda: not is_watched(home.root))
    assert decision(ask(push(home, "git push other"))) == "ask"


def test_watching_without_answers_does_not_count(home: Home) -> None:
    """A program that reads the list can't answer, so no question waits for it."""
    home.own(ASKS)
    home.start()
    words = [*PROGRAM, "approvals", "--watch", "--json"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, env=home.env(), cwd=home.project, **pipes) as watching:
        assert watching.stderr is not None and b"waiting for questions" in watching.stderr.readline()
        assert decision(home.ask(push(home))) == "ask"
        watching.terminate()


def test_approvals_false_switches_the_queue_off(home: Home) -> None:
    """Also while a person watches. A hook with `approve: queue` still waits."""
    home.own(f"approvals: false\n{ASKS}")
    home.start()
    watching = watcher(home.root)
    watching.acquire()
    assert reason(home.ask(push(home))) == "push to a remote?"
    home.own(f"approvals: false\n{QUEUED}")
    with home.call(push(home)) as call:
        answered(home)
        assert decision(call.reply()) == "allow"
    watching.close()


def test_a_question_that_the_agent_shows_does_not_wait(home: Home) -> None:
    """Claude Code in a terminal asks the person at the keyboard."""
    home.own(approvals())
    home.start()
    for mode in ("default", "acceptEdits", "plan"):
        assert decision(home.ask(push(home, mode=mode))) == "ask"
    attended = home.env(CLAUDE_CODE_SESSION_ATTENDED="1")
    assert decision(home.ask(push(home, mode="default"), env=attended)) == "ask"


@pytest.mark.parametrize("mode", ["dontAsk", "bypassPermissions", "default"])
def test_a_question_that_no_person_sees_waits(home: Home, mode: str) -> None:
    """In modes that show no question; and in every mode of an unattended run."""
    home.own(approvals())
    home.start()
    env = home.env(CLAUDE_CODE_SESSION_ATTENDED="0" if mode == "default" else None)
    with home.call(push(home, mode=mode), env=env) as call:
        answered(home)
        assert decision(call.reply()) == "allow"


@pytest.mark.parametrize("agent", ["codex", "gemini", "qwen", "copilot", "opencode", "crush", "devin", "hermes"])
def test_agents_without_ask_wait(home: Home, agent: str) -> None:
    """After an allow they make the call; after a deny they don't, and the model gets the reason."""
    home.own(approvals())
    home.start()
    event = push(home, mode="default")
    for allow in (True, False):
        with home.call(event, "--as", agent) as call:
            answered(home, allow)
            reply = call.reply()
        assert (b"denied by Ann on the page" in reply.stdout) is not allow, reply


@pytest.mark.parametrize("agent", ["goose", "kiro", "windsurf"])
def test_agents_that_read_the_exit_code_wait(home: Home, agent: str) -> None:
    home.own(approvals())
    home.start()
    for allow in (True, False):
        with home.call(push(home, mode="default"), "--as", agent) as call:
            answered(home, allow)
            reply = call.reply()
        assert reply.code == (0 if allow else 2) and (b"denied by Ann on the page" in reply.stderr) is not allow


@pytest.mark.parametrize("agent", ["antigravity", "droid", "pi"])
def test_agents_with_ask_wait_in_a_mode_without_questions(home: Home, agent: str) -> None:
    """Where the agent asks its person otherwise."""
    home.own(approvals())
    home.start()
    asked = home.ask(push(home, mode="default"), "--as", agent)
    assert b"push to a remote?" in asked.stdout and not Questions(home.root).all()
    with home.call(push(home, mode="bypassPermissions"), "--as", agent) as call:
        answered(home, allow=False)
        assert b"denied by Ann on the page" in call.reply().stdout


@pytest.mark.parametrize("with_daemon", [True, False])
@pytest.mark.parametrize(
    ("agent", "program", "word"),
    [("droid", "droid", "exec"), ("antigravity", "agy", "-p"), ("cursor", "cursor-agent", "--print")],
)
def test_a_headless_run_waits(home: Home, agent: str, program: str, word: str, with_daemon: bool) -> None:
    """The command line of the agent shows it. In another run it asks its person."""
    home.own(approvals())
    if with_daemon:
        home.start()
    script = home.file(f"bin/{program}", 'shift\n"$@"\n')
    client = [str(Path(sys.executable).with_name("billhook-hook"))] if with_daemon else [*PROGRAM, "hook"]
    event = push(home, mode="default")
    if agent == "cursor":
        event = {"hook_event_name": "beforeShellExecution", "command": PUSH, "cwd": str(home.project)}

    def run(first: str) -> bytes:
        words = ["sh", str(script), first, *client, "--as", agent, "--deadline", "30000"]
        how: dict[str, Any] = {"input": json.dumps(event).encode(), "env": home.env(), "cwd": home.project}
        return bytes(subprocess.run(words, stdout=subprocess.PIPE, timeout=60, check=False, **how).stdout)

    assert b"push to a remote?" in run("chat") and not Questions(home.root).all()
    with ThreadPoolExecutor(1) as agents:
        ran = agents.submit(run, word)
        answered(home, allow=False)
        assert b"denied by Ann on the page" in ran.result()


def test_pi_without_a_screen_waits(home: Home) -> None:
    home.own(approvals())
    home.start()
    with home.call(push(home, mode="default", has_ui=False), "--as", "pi") as call:
        answered(home, allow=False)
        assert b"denied by Ann on the page" in call.reply().stdout


def test_a_hook_with_approve_queue_waits(home: Home) -> None:
    """Even where the agent could ask, and without `approvals:`."""
    home.own(QUEUED)
    home.start()
    assert decision(asked(home, mode="default", allow=False)) == "deny"


def test_other_hooks_still_deny(home: Home) -> None:
    """A question about a call that is denied anyway is skipped."""
    home.own(approvals() + "  no:\n    events: PreToolUse\n    deny: never\n")
    home.start()
    assert reason(home.ask(push(home))).startswith("never. ")
    assert Questions(home.root).all() == []


def test_an_event_that_can_not_wait_is_as_before(home: Home) -> None:
    """Only calls wait: a prompt is denied as before."""
    home.own("approvals: true\nhooks:\n  p:\n    events: UserPromptSubmit\n    ask: sure?\n")
    home.start()
    reply = home.ask(home.event("UserPromptSubmit", prompt="hello", permission_mode="dontAsk"))
    assert b"sure?" in reply.stdout + reply.stderr
    assert Questions(home.root).all() == []


# -- the answers


def test_the_record_has_who_answered(home: Home) -> None:
    home.own(approvals())
    home.start()
    reply = asked(home, allow=False, why="use a branch")
    assert reason(reply) == "denied by Ann on the page: use a branch"
    (record,) = home.records()
    outcome = next(one for one in record["outcomes"] if one["hook"] == "approvals")
    assert outcome["data"]["by"] == "Ann" and outcome["data"]["via"] == "page" and outcome["duration_ms"] > 0
    assert [one["decision"] for one in record["outcomes"] if one["hook"] == "push"] == ["ask"]
    assert record["decision"] == "deny"


def test_a_person_answers_in_a_terminal(home: Home, tmp_path: Path) -> None:
    home.own(approvals())
    home.start()
    with home.call(push(home)) as call:
        (one,) = waiting(home)
        assert one.code in in_terminal(home, tmp_path / "a").out
        ended = in_terminal(home, tmp_path / "b", "allow", one.code)
        assert ended.code == 0 and f"allowed: Bash: {PUSH}" in ended.out, ended
        assert decision(call.reply()) == "allow"
    ended = in_terminal(home, tmp_path / "c", "deny", one.code)
    assert ended.code == 1 and "answered first" in ended.out


def test_two_people_answer_at_once(home: Home, tmp_path: Path) -> None:
    """One of them is told that the other was first."""
    home.own(approvals())
    home.start()
    with home.call(push(home)) as call:
        (one,) = waiting(home)
        with ThreadPoolExecutor(2) as people:
            words = ("allow", "deny")
            ended = list(people.map(lambda word: in_terminal(home, tmp_path / word, word, one.id), words))
        first = words[[one.code for one in ended].index(0)]
        assert sorted(one.code for one in ended) == [0, 1]
        assert decision(call.reply()) == first


def test_watch_asks_for_answers(home: Home, tmp_path: Path) -> None:
    """Questions that come while a person watches are answered there; the end of input ends it."""
    home.own(approvals())
    home.start()
    (tmp_path / "w").mkdir()
    answers = [("stop]", "y\n"), ("stop]", "n\n"), ("stop]", "\x04")]
    with ThreadPoolExecutor(1) as people:
        typing = Place(tmp_path / "w").typing
        watching = people.submit(typing, "approvals", "--watch", answers=answers, BILLHOOK_HOME=str(home.root))
        assert [decision(home.ask(push(home))) for _ in range(2)] == ["allow", "deny"]
        with home.call(push(home)):
            assert "push to a remote?" in watching.result().out


def test_silence_denies_before_the_deadline(home: Home) -> None:
    """The reply is in time, and has the command with which the call may be repeated. It then passes once."""
    home.own(approvals("5m"))
    home.start()
    reply = home.ask(push(home), "--deadline", "3000")
    assert "no answer within 2 s: push to a remote?" in reason(reply)
    assert "the agent's timeout for hooks is shorter than this wait; `billhook doctor` shows the fix" in reason(reply)
    (one,) = Questions(home.root).all()
    assert one.state == "late" and f"`billhook approvals allow {one.code}`" in reason(reply)
    Questions(home.root).answer(one.code, True, "Ann", "terminal")
    assert decision(home.ask(push(home))) == "allow"
    with home.call(push(home)) as call:
        answered(home, False)
        assert decision(call.reply()) == "deny"


def test_the_time_limit_denies(home: Home) -> None:
    home.own(approvals("1s"))
    home.start()
    reply = home.ask(push(home))
    assert "no answer within 1 s" in reason(reply) and "the wait" not in reason(reply)


def test_a_question_tells_how_to_wait_longer(home: Home) -> None:
    """Without `approvals:` the entry in the agent's settings ends the wait: in the terminal, and in the reason."""
    home.own(ASKS)
    home.start()
    watching = watcher(home.root)
    watching.acquire()
    longer = "to wait longer, set `approvals:` in your hooks.yaml and run `billhook install`"
    with home.call(push(home), "--deadline", "4000") as call:
        waiting(home)
        assert f"        hint: {longer}\n" in home.billhook("approvals").stdout
        assert longer in reason(call.reply())
    assert longer not in home.billhook("approvals").stdout
    watching.close()


def test_equal_calls_need_an_answer_each(home: Home) -> None:
    """One answer runs one call."""
    home.own(approvals())
    home.start()
    with home.call(push(home)) as one, home.call(push(home, session_id="s1")) as other:
        one.began()
        other.began()
        answered(home)
        found = sorted((decision(one.reply()), decision(other.reply())))
    assert found == ["allow", "deny"]


def test_a_rewritten_call_is_shown_as_it_would_run(home: Home) -> None:
    rewrite = "  r:\n    events: PreToolUse\n    match: Bash\n    rewrite: {command: git push origin safe}\n"
    home.own(approvals() + rewrite)
    home.start()
    with home.call(push(home)) as call:
        assert waiting(home)[0].call == "Bash: git push origin safe"
        answered(home)
        said = json.loads(call.reply().stdout)["hookSpecificOutput"]
    assert said["permissionDecision"] == "allow" and said["updatedInput"]["command"] == "git push origin safe"


def test_a_daemon_that_restarts_keeps_the_queue(home: Home) -> None:
    """Its caller gets no answer from it; the answer of the person counts for the repeated call."""
    home.own(approvals())
    daemon = home.start()
    with home.call(push(home)) as call:
        (one,) = waiting(home)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        assert call.reply().code is None
    home.start()
    assert [each.id for each in waiting(home)] == [one.id]
    with home.call(push(home)) as call:
        eventually(lambda: Questions(home.root).pending()[0].until > one.until)
        answered(home)
        assert decision(call.reply()) == "allow"


def test_without_a_daemon(home: Home, tmp_path: Path) -> None:
    """One process for one event waits in the same way."""
    home.own(approvals())
    with ThreadPoolExecutor(1) as agent:
        run = agent.submit(hook, home, push(home))
        answered(home)
        assert decision(Reply(True, stdout=run.result())) == "allow"


def hook(home: Home, event: dict[str, Any]) -> bytes:
    """The answer of one process for one event."""
    words = [*PROGRAM, "hook", "--as", "claude", "--deadline", "30000"]
    stdin = json.dumps(event).encode()
    done = subprocess.run(
        words, input=stdin, env=home.env(), cwd=home.project, capture_output=True, timeout=60, check=False
    )
    return done.stdout


def test_a_daemon_that_waits_answers_others(home: Home) -> None:
    """A question delays no other call."""
    home.own(approvals())
    home.start()
    with home.call(push(home)) as call:
        waiting(home)
        assert decision(home.ask(home.event(session_id="s2"))) == "none"
        answered(home)
        assert decision(call.reply()) == "allow"


@pytest.mark.slow
def test_a_hundred_questions_delay_nothing(home: Home) -> None:
    """They are as long as they can be. Other calls get their verdicts meanwhile, and each answer arrives."""
    home.own(approvals("5m"))
    home.start()
    with ExitStack() as calls:
        events = [push(home, f"git push {number} {'x' * 5000}") for number in range(100)]
        asking = [calls.enter_context(home.call(event)) for event in events]
        eventually(lambda: len(Questions(home.root).pending()) == 100, 60)
        began = time.monotonic()
        assert [decision(home.ask(home.event())) for _ in range(20)] == ["none"] * 20
        assert time.monotonic() - began < 5
        for number, one in enumerate(Questions(home.root).pending()):
            assert "more characters" in one.call and len(one.call) < 4100
            Questions(home.root).answer(one.id, number % 2 == 0, "Ann", "page")
        assert Counter(decision(call.reply()) for call in asking) == {"allow": 50, "deny": 50}


def test_a_queue_that_can_not_be_written_denies(home: Home) -> None:
    """The agent would show the ask to no person, and might make the call."""
    home.own(approvals())
    folder = home.root / "billhook"
    folder.mkdir(parents=True)
    (folder / "questions").write_text("a file in place of the folder")
    home.start()
    reply = home.ask(push(home))
    assert decision(reply) == "deny" and "the question can't be asked" in reason(reply)


# -- secrets


def test_secrets_are_redacted(home: Home) -> None:
    """In the queue, in the log, and in what the agent gets."""
    home.own(approvals().replace("push to a remote?", f"push with {SECRET}?"))
    home.start()
    with home.call(push(home, f"git push https://x:{SECRET}@host/r")) as call:
        (one,) = waiting(home)
        assert "[redacted" in one.call and "[redacted" in one.reason
        shown = home.billhook("approvals", "--json").stdout + home.billhook("approvals").stdout
        answered(home, False)
        assert decision(call.reply()) == "deny"
    kept = [path.read_bytes() for path in home.root.rglob("*") if path.is_file()]
    assert not [text for text in (*kept, shown.encode()) if SECRET.encode() in text]


def test_control_characters_are_shown(home: Home) -> None:
    """A call can't hide a part of itself in a terminal."""
    home.own(approvals())
    home.start()
    with home.call(push(home, "git push \x1b[2K\u202e x")) as call:
        waiting(home)
        shown = home.billhook("approvals").stdout
        assert "\x1b" not in shown and "\\x1b" in shown and "\\u202e" in shown
        answered(home)
        call.reply()


# -- an agent can't answer


@pytest.mark.parametrize("word", ["allow", "deny"])
def test_programs_are_refused(home: Home, word: str) -> None:
    """Without a terminal, and inside an agent even with one. The question stays open."""
    home.own(approvals())
    home.start()
    with home.call(push(home)) as call:
        (one,) = waiting(home)
        refused = home.billhook("approvals", word, one.code)
        assert refused.returncode == 2 and "must be a terminal" in refused.stderr
        refused = home.billhook("approvals", word, one.code, env=home.env(CLAUDECODE="1"))
        assert refused.returncode == 2 and "inside Claude Code" in refused.stderr
        assert Questions(home.root).pending() == [one]
        answered(home)
        call.reply()


@pytest.mark.parametrize(
    "command",
    [
        "billhook approvals allow K7QF2M",
        "billhook ui --json",
        'python3 -c \'import subprocess; subprocess.run(["billhook", "ui", "--json"])\'',
        "billhook approvals deny K7QF2M",
        "billhook fleet approvals allow K7QF2M",
        "python3 -m billhook approvals allow K7QF2M",
        "script -qc 'billhook approvals allow K7QF2M' /dev/null",
        "uv run billhook approvals --json allow K7QF2M",
        "python3 -c 'from billhook.approvals.queue import Questions'",
        "python3 answers.py",
        "uv run answers.py",
        "echo y | script -qc 'billhook approvals --watch' /dev/null",
        "setsid script -qfc 'env -i billhook approvals allow K7QF2M' /dev/null",
        "expect -c 'spawn billhook approvals allow K7QF2M; interact'",
        "tmux send-keys -t 0 'billhook approvals allow K7QF2M' Enter",
        "systemd-run --user --pty billhook approvals allow K7QF2M",
        "echo 'billhook approvals allow K7QF2M' | at now",
        "echo '{}' > $BILLHOOK_HOME/billhook/questions/questions.json",
        "sed -i s/x/allow/ $BILLHOOK_HOME/billhook/questions/questions.json",
        "python3 -c 'import hmac; k = open(\"billhook/approvals.key\").read()'",
    ],
)
def test_the_guard_denies_answers_of_the_agent(home: Home, command: str) -> None:
    home.own("approvals: true\n")
    home.file("answers.py", "from billhook.approvals.queue import Questions\n")
    home.start()
    reply = home.ask(push(home, command, mode="bypassPermissions"))
    assert decision(reply) == "deny", reply
    assert Questions(home.root).all() == []


@pytest.mark.parametrize(
    "command",
    [
        "billhook approvals",
        "billhook approvals --json",
        "billhook approvals --watch --json",
        "billhook approvals allow --help",
        "billhook ui --help",
    ],
)
def test_an_agent_may_look(home: Home, command: str) -> None:
    home.own("approvals: true\n")
    home.start()
    assert decision(home.ask(push(home, command))) == "none"


def test_reading_the_key_of_links_needs_the_user(home: Home) -> None:
    """It is a secret file as others: with it, a program could sign a link."""
    home.own("guard: strict\n")
    home.start()
    assert decision(home.ask(push(home, f"cat {home.root}/billhook/approvals.key", mode="default"))) != "none"


# -- what a file tool would write

WRITES = (
    "approvals: {time: 20s, channels: []}\nhooks: {files: {events: PreToolUse, match: Write|Edit, ask: change it?}}"
)


@pytest.mark.parametrize(
    ("tool", "given", "content"),
    [
        ("Write", {"content": "one\ntwo"}, "+ one\n+ two"),
        ("Edit", {"old_string": "one", "new_string": "two\n"}, "- one\n+ two\n+ "),
        ("Edit", {"old_string": "1", "new_string": "2", "replace_all": True}, "- 1\n+ 2\nreplace_all: True"),
        ("MultiEdit", {"edits": [{"old_string": "1", "new_string": "2"}, {"new_string": "3"}]}, "- 1\n+ 2\n+ 3"),
        ("NotebookEdit", {"new_source": "print(1)", "cell_id": "c1"}, "+ print(1)\ncell_id: c1"),
        ("Write", {"content": SECRET}, "+ [redacted"),
    ],
)
def test_a_question_shows_what_would_be_written(home: Home, tool: str, given: dict[str, Any], content: str) -> None:
    """In the queue, in the terminal, and for programs; without secrets."""
    home.own(WRITES.replace("Write|Edit", tool))
    home.start()
    path = {"notebook_path" if tool == "NotebookEdit" else "file_path": "/p/new.txt"}
    with home.call(home.event(tool_name=tool, tool_input={**path, **given}, permission_mode="dontAsk")) as call:
        (one,) = waiting(home)
        assert one.call == f"{tool}: /p/new.txt"
        assert one.content.startswith(content) and SECRET not in one.content
        shown = home.billhook("approvals").stdout
        assert all(f"        {line}\n" in shown for line in one.content.split("\n"))
        assert json.loads(home.billhook("approvals", "--json").stdout)["content"] == one.content
        answered(home)
        assert decision(call.reply()) == "allow"


def test_a_patch_is_shown_whole(home: Home) -> None:
    """Codex changes several files with one call."""
    home.own(WRITES)
    home.start()
    patch = "*** Begin Patch\n*** Add File: a\n+1\n*** Add File: b\n+2\n*** End Patch"
    event = home.event(tool_name="apply_patch", tool_input={"command": patch})
    with home.call(event, "--as", "codex") as call:
        (one,) = waiting(home)
        assert one.call == "apply_patch: a" and one.content == patch
        answered(home)
        call.reply()


def test_a_long_change_is_cut_visibly(home: Home) -> None:
    """A long old text doesn't hide the new one; a terminal shows the first lines."""
    home.own(WRITES)
    home.start()
    edit = {"file_path": "/p/new.txt", "old_string": "old\n" * 9000, "new_string": "evil" + "\nx" * 9000}
    with home.call(home.event(tool_name="Edit", tool_input=edit, permission_mode="dontAsk")) as call:
        (one,) = waiting(home)
        assert len(one.content) < 4200 and one.content.count("more characters)") == 2 and "+ evil\n" in one.content
        shown = home.billhook("approvals").stdout
        assert shown.count("\n") < 80 and "more lines; the page shows them)" in shown
        answered(home)
        call.reply()
