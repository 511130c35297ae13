"""What callers get through the daemon is what `billhook hook` would have told them, whatever changed meanwhile."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.running import PROGRAM, Home, Reply, children_of, eventually, home_in, is_alive, numbers_in, written

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

DENIES = "hooks:\n  no: {events: PreToolUse, deny: %s}\n"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path) as one:
        yield one


def reason(reply: Reply) -> str:
    """Why it was denied, without the code of `allow-once`; nothing when it was not."""
    reported: dict[str, Any] = json.loads(reply.stdout or b"{}").get("hookSpecificOutput", {})
    return str(reported.get("permissionDecisionReason", "")).partition(". The user can allow")[0]


def cold(home: Home, event: dict[str, Any]) -> "subprocess.CompletedProcess[bytes]":
    """The same event, answered by a process of its own."""
    words = [*PROGRAM, "hook", "--as", "claude"]
    stdin = json.dumps(event).encode()
    return subprocess.run(
        words, input=stdin, env=home.env(), cwd=home.project, capture_output=True, timeout=60, check=False
    )


# -- what changes on disk --------------------------------------------------------------------------------------------


def test_edited_file_counts_from_the_next_event_on(home: Home) -> None:
    """Written, written again in the same moment, removed: each event sees the file of its time."""
    home.start()
    assert reason(home.ask()) == ""
    for words in ("one", "two", "six", "ten") * 3:
        path = home.own(DENIES % words)
        assert reason(home.ask()) == words
    path.unlink()
    assert reason(home.ask()) == ""


def test_consent_is_looked_at_again(home: Home) -> None:
    """A project's hook does not run before it is approved, runs afterwards, and not when it changed or was revoked."""
    script = home.file("guard.sh", "#!/bin/sh\necho from the guard >&2\nexit 2\n", 0o755)
    home.file("hooks.yaml", "hooks:\n  guard: {events: PreToolUse, run: ./guard.sh, gate: true}\n")
    home.start()
    first = home.ask()
    assert (reason(first), b"not approved" in first.stderr) == ("", True), first
    home.approve()
    assert reason(home.ask()) == "from the guard"
    before = script.stat()
    script.write_text("#!/bin/sh\necho from the GUARD >&2\nexit 2\n")
    os.utime(script, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = reason(home.ask())
    assert "changed" in changed and "from the" not in changed
    home.approve()
    assert reason(home.ask()) == "from the GUARD"
    revoked = home.billhook("trust", "--revoke", "guard")
    assert revoked.returncode == 0, revoked
    assert "from the" not in reason(home.ask())


def test_script_that_changes_while_it_is_called(home: Home) -> None:
    """Between two events a script that was approved is another one: it never runs."""
    ran = home.project / "ran"
    script = home.file("guard.sh", "#!/bin/sh\nexit 0\n", 0o755)
    home.file("hooks.yaml", "hooks:\n  guard: {events: PreToolUse, run: ./guard.sh, gate: true}\n")
    home.approve()
    home.start()
    for number in range(5):
        assert not home.ask().denied
        script.write_text(f"#!/bin/sh\necho {number} >> {ran}\n")
        assert home.ask().denied
        script.write_text("#!/bin/sh\nexit 0\n")
    assert not ran.exists()


# -- the same as in one process --------------------------------------------------------------------------------------


def conversation(home: Home, session: str) -> list[dict[str, Any]]:
    """The events of a short session."""
    about: list[tuple[str, dict[str, Any]]] = [
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {"prompt": "list the files"}),
        ("PreToolUse", {"tool_input": {"command": "ls"}}),
        ("PostToolUse", {"tool_input": {"command": "ls"}, "tool_response": "a b c"}),
        ("PreToolUse", {"tool_input": {"command": "rm -rf /tmp/x"}}),
        ("Stop", {"stop_hook_active": False}),
        ("UserPromptSubmit", {"prompt": "again"}),
        ("PreToolUse", {"tool_input": {"command": "exit 7"}}),
        ("Stop", {"stop_hook_active": False}),
        ("SessionEnd", {"reason": "exit"}),
    ]
    return [home.event(name, session_id=session, **fields) for name, fields in about]


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what differs from run to run."""
    drop = {"id", "time", "mono", "duration_ms", "seq", "prev", "hash", "session_id", "session_name", "turn_id"}
    kept = {key: value for key, value in record.items() if key not in drop}
    kept["turn"] = str(record.get("turn_id", "")).rpartition(":")[2].rpartition("-")[2]
    kept["outcomes"] = [
        {key: value for key, value in outcome.items() if key not in ("duration_ms", "data", "context", "code")}
        for outcome in record.get("outcomes", ())
    ]
    return kept


def test_log_is_that_of_single_processes(home: Home) -> None:
    """Answers and records of a session are the same through the daemon as with a process for each event."""
    home.own(
        "hooks:\n  no-rm: {events: PreToolUse, if: Bash(rm *), deny: never}\n"
        "  odd: {events: PreToolUse, run: 'echo \"$CLAUDE_TURN_SEQUENCE\" >&2; exit 7'}\n"
        "  told: {events: UserPromptSubmit, run: 'echo turn $CLAUDE_TURN_SEQUENCE'}\n"
    )
    home.start()
    warm = [home.ask(event) for event in conversation(home, "warm")]
    alone = [cold(home, event) for event in conversation(home, "cold")]
    assert [reply.code for reply in warm] == [done.returncode for done in alone]
    code = re.compile(rb"allow-once \w{6}")  # it depends on the session
    assert [code.sub(b"", reply.stdout) for reply in warm] == [code.sub(b"", done.stdout) for done in alone]
    assert [reply.stderr for reply in warm] == [done.stderr for done in alone]
    records = home.records()
    ours = [comparable(record) for record in records if record["session_id"] == "warm"]
    theirs = [comparable(record) for record in records if record["session_id"] == "cold"]
    assert len(ours) == 10
    assert ours == theirs
    assert home.billhook("events", "verify").returncode == 0


def test_events_of_a_session_begin_in_their_order(home: Home) -> None:
    """Of many events at once each gets the turn of its place, however long hooks take."""
    home.own("hooks:\n  turn: {events: PreToolUse, run: 'sleep 0.2; echo $CLAUDE_TURN_SEQUENCE >&2; exit 2'}\n")
    home.start()
    home.ask(home.event("SessionStart", source="startup"))
    stop = home.event("Stop", stop_hook_active=False)
    calls = [home.call(stop if number % 3 == 0 else home.event()) for number in range(60)]
    turns = [reason(call.reply()) for call in calls]
    assert turns == ["" if number % 3 == 0 else str(2 + number // 3) for number in range(60)]


def test_many_callers_at_once_lose_no_record(home: Home) -> None:
    """Hundreds of events of many sessions, beside processes of their own: every record is there once."""
    home.start()

    def warm(number: int) -> int | None:
        return home.ask(home.event(session_id=f"s{number % 7}", tool_use_id=f"w{number}")).code

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        codes = [pool.submit(warm, number) for number in range(300)]
        alone = [cold(home, home.event(tool_use_id=f"c{number}")).returncode for number in range(3)]
        assert [code.result() for code in codes] == [0] * 300 and alone == [0] * 3
    used = sorted(record["tool_use_id"] for record in home.records())
    assert used == sorted([f"w{number}" for number in range(300)] + [f"c{number}" for number in range(3)])
    assert home.billhook("events", "verify").returncode == 0


# -- callers ---------------------------------------------------------------------------------------------------------


def test_a_project_that_is_slow_to_read_keeps_no_other_waiting(home: Home, tmp_path: Path) -> None:
    """The event of an unapproved clone comes first, and the other project's answer arrives first."""
    home.own(DENIES % "guarded")
    clone = tmp_path / "clone"
    hook = "  h%d: {events: PreToolUse, if: 'Bash(x%d *)', run: 'sh *.sh'}\n"
    hooks = "hooks:\n" + "".join(hook % (number, number) for number in range(1500))
    for name in ("hooks.yaml", ".billhook/hooks.yaml", ".billhook/hooks.local.yaml"):
        written(clone / name, hooks)
    home.start()
    assert reason(home.ask()) == "guarded"
    slow = home.call(home.event(cwd=str(clone)), cwd=clone)
    assert reason(home.ask()) == "guarded"
    assert not slow.has_answer
    assert reason(slow.reply()) == "guarded"


def test_hooks_have_the_callers_environment_and_folder(home: Home) -> None:
    """Variables of any bytes and the working directory are the caller's; nothing of the daemon's own is there."""
    seen = home.project / "seen"
    home.own(f"hooks:\n  see: {{events: PreToolUse, run: 'env -0 > {seen}; pwd -P > {seen}.cwd'}}\n")
    home.start(env=home.env(OF_THE_DAEMON="yes", LANG="C", PYTHONPATH="/nowhere"))
    odd = "".join(map(chr, range(1, 128))) + "ü€" + os.fsdecode(b"\xff\x80")
    there = home.project / "ü b"
    there.mkdir()
    env = home.env(ODD=odd, EMPTY="", LANG="de_DE.UTF-8", PATH=os.environ["PATH"] + ":/odd path")
    assert home.ask(home.event(cwd=str(there)), env=env, cwd=there).code == 0
    got = dict(pair.split(b"=", 1) for pair in seen.read_bytes().split(b"\0") if pair)
    for name, value in env.items():
        assert got[name.encode()] == value.encode("utf-8", "surrogateescape"), name
    assert b"OF_THE_DAEMON" not in got
    assert (home.project / "seen.cwd").read_text() == f"{there}\n"


def test_two_callers_do_not_mix(home: Home, tmp_path: Path) -> None:
    """Callers with another home, another configuration folder, another project at once: each has its own hooks."""
    home.start()
    which: dict[str, dict[str, str]] = {}
    for name in ("one", "two"):
        for kind, variable in (("home", "HOME"), ("xdg", "XDG_CONFIG_HOME"), ("project", "CLAUDE_PROJECT_DIR")):
            folder = tmp_path / f"{name}-{kind}"
            place = {"home": folder / ".config", "xdg": folder, "project": folder}[kind] / "billhook"
            place.mkdir(parents=True)
            (place / "hooks.yaml").write_text(
                f"hooks:\n  of: {{events: PreToolUse, run: 'sleep 0.01; echo {name}-{kind} $WHO >&2; exit 2'}}\n"
            )
            env = home.env(**{variable: str(folder), "WHO": f"{name}-{kind}"})
            which[f"{name}-{kind}"] = env if kind != "project" else {**env, "HOME": str(tmp_path / "one-home")}
    expected = {name: f"{name if 'project' not in name else 'one-home'} {name}" for name in which}

    def ask(name: str) -> tuple[str, str]:
        return name, reason(home.ask(env=which[name]))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, list(which) * 10))
    assert set(answers) == set(expected.items())


def test_project_folder_is_the_callers(home: Home, tmp_path: Path) -> None:
    """CLAUDE_PROJECT_DIR of a caller determines the project and its hooks, and they see it."""
    other = tmp_path / "other"
    other.mkdir()
    home.own("hooks:\n  see: {events: PreToolUse, run: 'echo \"$CLAUDE_PROJECT_DIR\" >&2; exit 2'}\n")
    home.start()
    assert reason(home.ask(env=home.env(CLAUDE_PROJECT_DIR=str(other)))) == str(other)
    assert reason(home.ask()) == str(home.project)


# -- Python hooks ----------------------------------------------------------------------------------------------------

MISCHIEF = {
    "loops": "while True: pass",
    "sleeps": "import time; time.sleep(1e9)",
    "exits": "import os; os._exit(7)",
    "crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
}


def test_worker_that_fails_costs_its_own_event_only(home: Home) -> None:
    """While hooks loop, sleep, exit and crash, others are answered in time and rightly."""
    lines = [f"def {name}(event):\n    {body}\n" for name, body in MISCHIEF.items()]
    home.file("bad.py", "\n".join([*lines, "def fine(event):\n    return {'decision': 'block', 'reason': 'fine'}\n"]))
    entries = []
    for name in [*MISCHIEF, "fine"]:
        seconds = 2 if name in ("loops", "sleeps") else 30
        about = f"match: {name.title()}, python: 'bad:{name}', gate: true, timeout: {seconds}"
        entries.append(f"  {name}: {{events: PreToolUse, {about}}}\n")
    home.file("hooks.yaml", "hooks:\n" + "".join(entries))
    home.approve()
    home.start()
    assert "fine" in reason(home.ask(home.event(tool_name="Fine")))
    bad = [home.call(home.event(tool_name=name.title(), session_id=name)) for name in MISCHIEF]
    began = time.monotonic()
    for _ in range(8):
        assert "fine" in reason(home.ask(home.event(tool_name="Fine")))
    assert time.monotonic() - began < 30
    reasons = dict(zip(MISCHIEF, [reason(call.reply()) for call in bad], strict=True))
    assert "in time" in reasons["loops"] and "in time" in reasons["sleeps"]
    assert "exit code 7" in reasons["exits"] and "SIGSEGV" in reasons["crashes"]
    assert "fine" in reason(home.ask(home.event(tool_name="Fine")))


def test_worker_is_kept_and_restarted_when_its_file_changes(home: Home) -> None:
    """The same process answers again, until a file that it loaded is another one."""
    home.own("hooks:\n  who: {events: PreToolUse, python: 'who:who'}\n")
    code = (
        "import os, helper\n"
        "def who(event):\n    return {'decision': 'block', 'reason': f'{helper.word} {os.getpid()}'}\n"
    )
    places = home.home / ".config" / "billhook"
    (places / "who.py").write_text(code)
    (places / "helper.py").write_text("word = 'one'\n")
    home.start()
    first, second = reason(home.ask()), reason(home.ask())
    assert first == second and first.startswith("one ")
    (places / "helper.py").write_text("word = 'another'\n")
    third = reason(home.ask())
    assert third.startswith("another ") and third.split()[1] != first.split()[1]


def test_callers_with_other_variables_keep_their_workers(home: Home) -> None:
    """Two callers of one project with different environments don't end each other's worker."""
    home.file("who.py", "import os\ndef f(event):\n    return {'decision': 'block', 'reason': str(os.getpid())}\n")
    home.file("hooks.yaml", "hooks:\n  who: {events: PreToolUse, python: 'who:f'}\n")
    home.approve()
    home.start()
    pids = [reason(home.ask(env=home.env(TERMINAL=name))) for name in "ababab"]
    assert pids[0] != pids[1]
    assert pids == pids[:2] * 3


@pytest.mark.parametrize("how", ["cold", "warm"])
def test_a_variable_without_a_name_is_left_out(home: Home, how: str) -> None:
    """No process can be started with one, so command and Python hooks do without, with a daemon and without."""
    told = home.project / "told"
    home.file("policy.py", f"def f(event):\n    open({str(told)!r}, 'a').write('function\\n')\n")
    asked = "{events: PreToolUse, python: 'policy:f'}"
    home.file("hooks.yaml", f"hooks:\n  a: {asked}\n  b: {{events: PreToolUse, run: 'echo command >> {told}'}}\n")
    home.approve()
    env = home.env(**{"": "weird"})
    if how == "warm":
        home.start()
        code = home.ask(env=env).code
    else:
        words, event = [*PROGRAM, "hook", "--as", "claude"], json.dumps(home.event()).encode()
        done = subprocess.run(words, env=env, cwd=home.project, input=event, capture_output=True, check=False)
        code = done.returncode
    assert (code, told.read_text()) == (0, "function\ncommand\n")


def test_late_answers_reach_their_session(home: Home) -> None:
    """A late answer of a hook is delivered at the next event of the same session, and in no other session."""
    words = '{"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "later %s"}}'
    script = home.file("later.sh", f"#!/bin/sh\nsleep 0.3; printf '{words}' \"$CLAUDE_SESSION_ID\"\n", 0o755)
    home.own(f"hooks:\n  later: {{events: PostToolUse, run: '{script}', background: true}}\n")
    daemon = home.start("--idle-exit", "0")
    for session in ("a", "b"):
        assert home.ask(home.event("PostToolUse", session_id=session, tool_response="x")).code == 0
    eventually(lambda: home.status(daemon.pid).busy == 0)  # type: ignore[union-attr]
    told = [home.ask(home.event("UserPromptSubmit", session_id=session, prompt="p")).stdout for session in "ab"]
    assert [b"later a" in told[0], b"later b" in told[1]] == [True, True], told
    assert b"later b" not in told[0]


def test_hooks_end_with_their_caller(home: Home) -> None:
    """A caller that goes away while a Python hook loops takes the worker along."""
    file = home.project / "pids"
    home.file(
        "loop.py",
        f"import os\ndef f(event):\n    open({str(file)!r}, 'a').write(f'{{os.getpid()}}\\n')\n    while True: pass\n",
    )
    home.file("hooks.yaml", "hooks:\n  loop: {events: PreToolUse, python: 'loop:f', timeout: 60}\n")
    home.approve()
    daemon = home.start()
    with home.call():
        (pid,) = numbers_in(file)
    eventually(lambda: not is_alive(pid), 10)
    eventually(lambda: pid not in children_of(daemon.pid), 10)
