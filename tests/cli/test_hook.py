"""`billhook hook` through real pipes: answers, and failures."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from billhook import EVENTS, Context, Decision, Event, Status
from billhook.agents import dialect
from billhook.config import load_config
from billhook.config.loader import existing_folder
from billhook.core.answers import Exit
from billhook.core.events import parse
from cli.place import Place
from cli.terminal import PROGRAM, Ended, gone

BASH: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
EVENT = {"session_id": "s", "cwd": "", "transcript_path": ""}
PRE = json.dumps({**EVENT, "hook_event_name": "PreToolUse", **BASH}).encode()
POST = json.dumps({**EVENT, "hook_event_name": "PostToolUse", **BASH, "tool_response": "out"}).encode()
GATE = "hooks:\n  guard:\n    events: PreToolUse\n    run: 'true'\n    gate: true\n"
LOGGER = "hooks:\n  log:\n    events: [PreToolUse, PostToolUse]\n    run: 'true'\n"
DENIED = "deny"
ALLOWED = "pass"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def said(ended: Ended) -> str:
    """How an agent with the dialect `claude` reads this end of a PreToolUse hook: deny, ask, allow or pass."""
    if ended.code == 2:
        return DENIED
    assert ended.code in (0, 129, 130, 143), ended
    if not ended.out.strip():
        return ALLOWED
    answer = json.loads(ended.out)
    return str(answer.get("hookSpecificOutput", {}).get("permissionDecision") or answer.get("decision") or ALLOWED)


CONTEXT = {"hookSpecificOutput": {"hookEventName": "EVENT", "additionalContext": "c"}}
BLOCK = {"decision": "block", "reason": "r"}
BLOCKED = [
    # the hook's action, the answer to Claude Code
    pytest.param([f"echo '{json.dumps(BLOCK)}'"], BLOCK, id="JSON"),
    pytest.param(["echo r >&2; exit 2"], BLOCK, id="exit 2"),
    pytest.param([f"echo '{json.dumps(CONTEXT)}'", "echo r >&2; exit 2"], BLOCK | CONTEXT, id="beside context"),
    pytest.param(["echo r >&2; exit 2", "echo b >&2; exit 2"], {**BLOCK, "reason": "r\nb"}, id="two blocks"),
]


@pytest.mark.parametrize("event", ["PostToolUse", "PostToolUseFailure"])
@pytest.mark.parametrize(("runs", "answer"), BLOCKED)
def test_a_block_after_the_tool_stays_one(place: Place, event: str, runs: list[str], answer: Any) -> None:
    """Claude Code puts the reason of a block beside the result, and context elsewhere."""
    hooks = [
        f"  h{n}:\n    events: {event}\n    run: |\n      {run.replace('EVENT', event)}\n" for n, run in enumerate(runs)
    ]
    place.own("hooks:\n" + "".join(hooks))
    ended = place.run("hook", stdin=POST.replace(b'"PostToolUse"', f'"{event}"'.encode()))

    assert json.loads(ended.out) == json.loads(json.dumps(answer).replace("EVENT", event))


# -- the answer in every dialect


def about(name: str) -> Event:
    fields: dict[str, Any] = {
        "PreToolUse": BASH,
        "PostToolUse": {**BASH, "tool_response": "out"},
        "UserPromptSubmit": {"prompt": "hello"},
        "Stop": {"stop_hook_active": False},
    }[name]
    return parse({**EVENT, "hook_event_name": name, **fields})


GRID = [("PreToolUse", decision) for decision in ("deny", "ask", "allow", "")]
GRID += [(name, "deny") for name in ("PostToolUse", "UserPromptSubmit", "Stop")]


@pytest.mark.parametrize("speech", ["claude", "claw", "claw-text", "lesson"])
@pytest.mark.parametrize(("name", "decision"), GRID, ids=[f"{name}-{decision or 'none'}" for name, decision in GRID])
def test_every_answer_in_every_dialect(place: Place, speech: str, name: str, decision: str) -> None:
    """The decision of the configured hooks reaches the agent; what its dialect can't express is on stderr."""
    action = f"{decision}: because" if decision else "run: 'true'"
    file = place.own(f"hooks:\n  it:\n    events: {name}\n    {action}\n")
    event = about(name)
    codec = dialect(speech)
    stdin, env = codec.write_call(Context(event, [], {}))
    ended = place.run("hook", "--as", speech, stdin=stdin, told=env, CLAUDE_PROJECT_DIR=None)
    verdict = load_config(place.project, files=[file]).engine().fire_sync(event)
    reply = codec.read_exit(event, Exit(code=ended.code, stdout=ended.out.encode(), stderr=ended.err.encode()))
    assert reply.status is Status.OK
    expected = verdict.as_answer(codec.meanings.join)
    if "can't express everything" in ended.err:
        assert reply.answer.objects or not expected.objects or not event.can_block
    else:
        reason = reply.answer.reason.partition(". The user can allow this call once")[0]
        assert msgspec.structs.replace(reply.answer, reason=reason) == expected
        assert ended.err == (expected.reason or expected.context if ended.code and not ended.out else "")
    if decision == "deny" and name == "PreToolUse":
        assert ended.code == {"claude": 0, "lesson": 1}.get(speech, 2)


def test_the_default_is_claude(place: Place) -> None:
    """Without --as the dialect is `claude`; the event's cwd determines the project."""
    place.own("hooks:\n  never:\n    events: PreToolUse\n    deny: not here\n")
    said = json.loads(place.run("hook", stdin=PRE).out)["hookSpecificOutput"]
    reason = said.pop("permissionDecisionReason")
    assert said == {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
    assert reason.startswith("not here. The user can allow this call once: `billhook allow-once ")


def test_the_lesson_uses_the_environment(place: Place) -> None:
    """A hook of seed 004 gets its input in the environment, not on stdin."""
    place.own("hooks:\n  never:\n    events: PreToolUse\n    match: Bash\n    deny: not here\n")
    told = {"HOOK_EVENT": "PreToolUse", "HOOK_TOOL_NAME": "bash", "HOOK_TOOL_INPUT": '{"command":"ls"}'}
    ended = place.run("hook", "--as", "lesson", told=told)
    assert (ended.code, ended.out, ended.err) == (1, "", "not here")


def test_an_agent_that_does_not_name_the_event(place: Place) -> None:
    """EVENT on the command line names it."""
    place.own("hooks:\n  never:\n    events: PreToolUse\n    deny: not here\n")
    assert said(place.run("hook", "PreToolUse", stdin=json.dumps(BASH).encode())) == DENIED


# -- which configuration


@pytest.mark.parametrize(
    "how", ["CLAUDE_PROJECT_DIR", "the event's cwd", "our cwd", "a folder that is gone", "a stale variable"]
)
def test_the_project(place: Place, how: str) -> None:
    """The agent's variable, else the event, else the working directory determines the project whose hooks run."""
    (place.project / ".git").mkdir()
    place.file("hooks.yaml", "hooks:\n  never:\n    events: PreToolUse\n    deny: not here\n")
    assert place.alone("trust", "--all", "--yes").code == 0
    elsewhere = place.folder / "elsewhere"
    elsewhere.mkdir()
    there = str(place.project)
    cwds = {"the event's cwd": there, "a folder that is gone": f"{there}/a/b/c", "a stale variable": there}
    cwd = cwds.get(how, "")
    stdin = json.dumps({**EVENT, "hook_event_name": "PreToolUse", **BASH, "cwd": cwd}).encode()
    variables = {"CLAUDE_PROJECT_DIR": str(place.project), "a stale variable": "/does/not/exist"}
    ended = place.run(
        "hook", stdin=stdin, cwd=place.project if how == "our cwd" else elsewhere, CLAUDE_PROJECT_DIR=variables.get(how)
    )
    assert said(ended) == DENIED
    assert ended.err == ""


def test_pending_hooks_are_named(place: Place) -> None:
    """Hooks without approval don't run, and are named to the user and on stderr."""
    place.file(
        "hooks.yaml",
        "hooks:\n  never:\n    events: PreToolUse\n    deny: not here\n  other:\n    events: Stop\n    run: x\n",
    )
    ended = place.run("hook", stdin=PRE)
    assert (ended.code, json.loads(ended.out)) == (
        0,
        {
            "systemMessage": "billhook: 2 hooks in hooks.yaml are not approved and did not run: never, other."
            " Review them: billhook trust"
        },
    )
    assert ended.err == (
        "billhook: note: 2 hooks in hooks.yaml are not approved and did not run: never, other."
        " Review them: billhook trust\n"
    )


def test_config(place: Place) -> None:
    """--config FILE is one more layer."""
    place.own(LOGGER)
    file = place.folder / "more.yaml"
    file.write_text("hooks:\n  never:\n    events: PreToolUse\n    deny: not here\n")
    assert said(place.run("hook", f"--config={file}", stdin=PRE)) == DENIED


# -- broken input

NO_GUARD = "guard: off\n"
BROKEN = {
    "nothing": b"",
    "garbage": b"\xff\xfe not json",
    "an array": b"[]",
    "cut off": PRE[:60],
    "cut off in the input": PRE[:-4],
    "a number for a name": PRE.replace(b'"Bash"', b"5"),
    "no tool": b'{"hook_event_name": "PreToolUse"}',
    "no input": b'{"hook_event_name": "PreToolUse", "tool_name": "Bash"}',
    "two documents": PRE + PRE,
    "too deep": b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":' + b"[" * 5000,
    "10 MB": PRE[:-4] + b"x" * 10_000_000,
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_input_is_denied_where_there_is_a_gate(place: Place, kind: str) -> None:
    """An event that can't be read is a failure of every gate that is configured for it."""
    place.own(GATE)
    ended = place.run("hook", stdin=BROKEN[kind])
    assert said(ended) == DENIED
    assert ended.err.startswith("billhook: the event on stdin can't be read: ")
    assert "Traceback" not in ended.out + ended.err


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_input_is_denied_by_the_guard(place: Place, kind: str) -> None:
    """The guard is a gate like any other."""
    ended = place.run("hook", stdin=BROKEN[kind])
    assert said(ended) == DENIED
    assert ended.err.startswith("billhook: the event on stdin can't be read: ")


@pytest.mark.parametrize("kind", ["nothing", "cut off", "10 MB"])
def test_broken_input_continues_visibly_without_a_gate(place: Place, kind: str) -> None:
    """Without a gate it is allowed, with a message on stderr, and to the user if the event is known."""
    place.own(NO_GUARD + LOGGER)
    ended = place.run("hook", stdin=BROKEN[kind])
    assert (ended.code, json.loads(ended.out or "{}").keys()) in ((0, set()), (0, {"systemMessage"}))
    assert ended.err.endswith("billhook: the event continues without being checked\n")


def test_a_lone_surrogate(place: Place) -> None:
    """One odd escape in a command must not disable guards."""
    place.own("hooks:\n  never:\n    events: PreToolUse\n    if: Bash(rm *)\n    deny: not here\n")
    stdin = PRE.replace(b'"ls"', b'"rm \\ud800"')
    ended = place.run("hook", stdin=stdin)
    assert (said(ended), ended.err) == (DENIED, "")


@pytest.mark.parametrize(
    ("speech", "rule", "code"),
    [
        pytest.param("claude", "deny", 2, id="claude denies"),
        pytest.param("claw", "deny", 2, id="claw denies"),
        pytest.param("claw-text", "deny", 2, id="claw-text denies"),
        pytest.param("lesson", "deny", 1, id="lesson denies"),
        pytest.param("claude", "allow", 0, id="claude allows"),
        pytest.param("lesson", "allow", 0, id="lesson allows"),
    ],
)
def test_on_failure_with_an_unknown_event(place: Place, speech: str, rule: str, code: int) -> None:
    """--on-failure decides, whatever is configured; if the event is unknown, the exit code has the answer."""
    place.own(GATE if rule == "allow" else NO_GUARD + LOGGER)
    ended = place.run("hook", "--as", speech, "--on-failure", rule, stdin=b"{")
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("billhook: the event on stdin can't be read")


@pytest.mark.parametrize("speech", ["claude", "claw", "claw-text", "lesson"])
def test_on_failure_deny_in_each_dialect(place: Place, speech: str) -> None:
    """If the event's name can be found, the refusal has the agent's format."""
    ended = place.run("hook", "--as", speech, "--on-failure=deny", stdin=PRE[:60])
    exit_ = Exit(code=ended.code, stdout=ended.out.encode(), stderr=ended.err.encode())
    reply = dialect(speech).read_exit(about("PreToolUse"), exit_)
    assert reply.answer.decision is Decision.DENY
    assert "can't be read" in reply.answer.reason


@pytest.mark.parametrize(
    ("stdin", "arguments", "expected"),
    [
        pytest.param(b'{"hook_event_name": "PostToolUse", ', [], ALLOWED, id="another event"),
        pytest.param(b'{"hook_event_name": "PreToolUse", ', [], DENIED, id="the gate's event"),
        pytest.param(b"{", ["PostToolUse"], ALLOWED, id="named on the command line"),
        pytest.param(b"{", ["PreToolUse"], DENIED, id="the gate's, named on the command line"),
        pytest.param(b"{", [], DENIED, id="unknown: any gate counts"),
        pytest.param(
            b'{"hook_event_name": "PreToolUse", "tool_input": {"hook_event_name": "PostToolUse"}, ',
            [],
            DENIED,
            id="a tool's input that poses as another event",
        ),
    ],
)
def test_which_gates_count(place: Place, stdin: bytes, arguments: list[str], expected: str) -> None:
    """A broken event is denied if a gate is configured for it; its name is searched in the broken text."""
    place.own(GATE)
    assert said(place.run("hook", *arguments, stdin=stdin)) == expected


@pytest.mark.parametrize("rule", ["", "deny"])
def test_a_failure_never_keeps_an_agent_going(place: Place, rule: str) -> None:
    """On Stop a block means "continue": a failure must not cause that."""
    place.own("hooks:\n  it:\n    events: Stop\n    run: 'true'\n    gate: true\n")
    ended = place.run("hook", *(["--on-failure", rule] if rule else []), stdin=b'{"hook_event_name": "Stop", ')
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.startswith("billhook: the event on stdin can't be read")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("hooks:\n  a:\n    events: PreToolUse\n    deny: not here\n", DENIED, id="a literal deny counts"),
        pytest.param("hooks:\n  a:\n    events: PreToolUse\n    ask: well?\n", DENIED, id="a literal ask counts"),
        pytest.param("hooks:\n  a:\n    events: PreToolUse\n    inject: hi\n", ALLOWED, id="a literal text does not"),
        pytest.param(GATE + "    enabled: false\n", ALLOWED, id="one that is switched off does not"),
        pytest.param(GATE + "    match: 5\n", DENIED, id="a broken one does"),
        pytest.param("", ALLOWED, id="built-ins that observe don't"),
        pytest.param("guard: standard\n", DENIED, id="the guard does"),
        pytest.param("guard: {preset: off, discard: ask}\n", DENIED, id="one cell of the guard does"),
        pytest.param("guard: {preset: off, discard: allow}\n", ALLOWED, id="a cell that allows does not"),
        pytest.param(
            "builtins: {rate-limit: {options: {at_most: 1, per: turn}}}\n", DENIED, id="a limit that was asked for does"
        ),
    ],
)
def test_what_counts_as_a_gate(place: Place, text: str, expected: str) -> None:
    """Hooks that can block; the guard only if it judges more than billhook's files."""
    place.own(text if text.startswith("guard:") else NO_GUARD + text)
    assert said(place.run("hook", stdin=b"{")) == expected


# -- broken configuration


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], DENIED), (["--on-failure", "deny"], DENIED), (["--on-failure", "allow"], ALLOWED)],
    ids=["default", "deny", "allow"],
)
def test_an_unreadable_file_with_gates(place: Place, arguments: list[str], expected: str) -> None:
    """The hooks of an unreadable file are unknown, but its text contains `gate`."""
    place.own(GATE + "   ]: [\n")
    ended = place.run("hook", *arguments, stdin=PRE)
    assert said(ended) == expected
    assert "hooks.yaml" in ended.err + ended.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], ALLOWED), (["--on-failure", "deny"], DENIED)],
    ids=["default", "deny"],
)
def test_an_unreadable_file_without_gates(place: Place, arguments: list[str], expected: str) -> None:
    """Without any gate it is allowed, visibly; --on-failure deny is stricter."""
    place.own("hooks: [\n")
    ended = place.run("hook", *arguments, stdin=PRE)
    assert said(ended) == expected
    assert "hooks.yaml" in ended.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], DENIED), (["--on-failure", "allow"], ALLOWED)],
    ids=["default", "allow"],
)
def test_a_named_file_that_is_not_there(place: Place, arguments: list[str], expected: str) -> None:
    """The user relies on a file named on the command line."""
    ended = place.run("hook", "--config", "/does/not/exist.yaml", *arguments, stdin=PRE)
    assert said(ended) == expected
    assert "/does/not/exist.yaml" in ended.err


def test_one_bad_entry_does_not_disable_its_neighbours(place: Place) -> None:
    """It is reported in one note; the others run."""
    place.own(
        "hooks:\n  bad:\n    events: PreToolUse\n    rum: x\n  never:\n    events: PreToolUse\n    deny: not here\n"
    )
    ended = place.run("hook", stdin=PRE)
    assert said(ended) == DENIED
    assert ended.err.count("\n") == 1
    assert "hooks.yaml:4: unknown key `rum`" in ended.err


def test_a_changed_gate_denies(place: Place) -> None:
    """A gate that was approved and then changed blocks its events."""
    script = place.file("guard.sh", "#!/bin/sh\n", 0o755)
    place.file("hooks.yaml", "hooks:\n  guard:\n    events: PreToolUse\n    run: ./guard.sh\n    gate: true\n")
    assert place.alone("trust", "--all", "--yes").code == 0
    assert said(place.run("hook", stdin=PRE)) == ALLOWED
    script.write_text("#!/bin/sh\n\n")
    assert said(place.run("hook", stdin=PRE)) == DENIED
    assert said(place.run("hook", stdin=PRE[:60])) == DENIED


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], DENIED), (["--on-failure", "allow"], ALLOWED)],
    ids=["default", "allow"],
)
def test_approvals_that_can_not_be_read(place: Place, arguments: list[str], expected: str) -> None:
    """Without approvals a gate may be missing, so the event is denied."""
    place.file("hooks.yaml", GATE)
    assert place.alone("trust", "--all", "--yes").code == 0
    (place.home / ".claude" / "billhook" / "approvals").chmod(0o777)
    ended = place.run("hook", *arguments, stdin=PRE)
    assert said(ended) == expected
    assert "approvals" in ended.err
    assert json.loads(place.run("hook", *arguments, stdin=POST).out or "{}").keys() <= {"systemMessage"}


# -- internal errors


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], DENIED), (["--on-failure", "deny"], DENIED), (["--on-failure", "allow"], ALLOWED)],
    ids=["default", "deny", "allow"],
)
def test_a_crash_while_loading(place: Place, arguments: list[str], expected: str) -> None:
    """The gates are unknown: the event is denied, and the exit code is never one that agents ignore."""
    broken = place.folder / "broken"
    broken.mkdir()
    (broken / "yaml.py").write_text("raise RuntimeError('a broken installation')")
    place.own(GATE)
    ended = place.run("hook", *arguments, stdin=PRE, PYTHONPATH=str(broken))
    assert said(ended) == expected
    assert "Traceback" not in ended.out + ended.err
    assert ended.err.startswith("billhook: ")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["--as", "cluade"], 2, id="an unknown dialect"),
        pytest.param(["--oops"], 2, id="an unknown option"),
        pytest.param(["--on-failure"], 2, id="a missing value"),
        pytest.param(["--as", "lesson", "--on-failure", "maybe"], 1, id="an unknown rule"),
        pytest.param(["PreToolUse", "Bash"], 0, id="unexpected argument: denied in JSON"),
        pytest.param(["Stop", "--oops"], 0, id="never keeps an agent going"),
        pytest.param(["--on-failure", "allow", "--oops"], 0, id="--on-failure allow"),
    ],
)
def test_a_mistyped_command_line_is_denied(place: Place, arguments: list[str], code: int) -> None:
    """A mistake in an agent's settings: the call is blocked, and stderr has the reason."""
    ended = place.run("hook", *arguments, stdin=b"{")
    assert ended.code == code
    assert ('"deny"' in ended.out) == (arguments[0] == "PreToolUse")
    assert ended.err.startswith("billhook: ")


@contextmanager
def begun(place: Place) -> Iterator["subprocess.Popen[bytes]"]:
    """`billhook hook` with an event, once its hook has created the file `began`."""
    with subprocess.Popen(
        [PROGRAM, "hook"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=place.env(), cwd=place.project,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(PRE)
        process.stdin.close()
        process.stdin = None
        end = time.monotonic() + 30
        while not (place.project / "began").exists() and time.monotonic() < end:
            time.sleep(0.01)
        yield process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("gate", [True, False], ids=["gate", "no gate"])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside one in the background"])
def test_signals(place: Place, number: int, gate: bool, beside: bool) -> None:
    """A signal ends the hooks first, and never opens a gate."""
    tag = f"billhook-test-{os.getpid()}-{time.monotonic_ns()}"
    rule = "true" if gate else "false"
    late = f"  late:\n    events: PreToolUse\n    run: 'sleep 60; : {tag}'\n    background: true\n" if beside else ""
    slow = f"  slow:\n    events: PreToolUse\n    run: 'touch began; sleep 60; : {tag}'\n    gate: {rule}\n"
    place.own(f"{NO_GUARD}hooks:\n{late}{slow}")
    with begun(place) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    ended = Ended(process.returncode, out.decode(), err.decode())
    assert said(ended) == (DENIED if gate else ALLOWED), ended
    assert ended.code == (0 if gate else 128 + number)
    assert f"ended by signal {number}" in ended.err
    assert gone(tag, 5)


def test_a_signal_and_a_hook_that_ignores_it(place: Place) -> None:
    """After a signal, a KILL may follow soon: the hook is killed before that, and a second signal in the meantime does
    not leave it running."""
    tag = f"billhook-test-{os.getpid()}-{time.monotonic_ns()}"
    deaf = f"  deaf:\n    events: PreToolUse\n    run: \"trap '' TERM; touch began; sleep 60; : {tag}\"\n"
    place.own(f"{NO_GUARD}hooks:\n{deaf}")
    with begun(place) as process:
        for _ in range(40):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.01)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM and "ended by signal 15" in err.decode()
    assert gone(tag, 0)


@pytest.mark.parametrize(
    ("action", "code"),
    [("deny: not here", 2), ("ask: well?", 2), ("inject: hello", 0), ("run: 'true'", 0)],
    ids=["deny", "ask", "inject", "nothing"],
)
def test_stdout_that_takes_nothing(place: Place, action: str, code: int) -> None:
    """If a refusal can't be written, the exit code refuses."""
    place.own(f"hooks:\n  it:\n    events: PreToolUse\n    {action}\n")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [PROGRAM, "hook"], input=PRE, stdout=full, stderr=subprocess.PIPE, env=place.env(), cwd=place.project,
            check=False,
        )  # fmt: skip
    assert done.returncode == code, done


def test_a_refusal_is_no_failure(place: Place) -> None:
    """`--on-failure allow` is for internal errors: a hook's deny that can't be written still denies."""
    place.own("hooks:\n  never:\n    events: PreToolUse\n    deny: not here\n")
    command = f"exec {PROGRAM} hook --on-failure allow >/dev/full"
    done = subprocess.run(["/bin/sh", "-c", command], input=PRE, env=place.env(), cwd=place.project, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize(("text", "code"), [(GATE, 2), (NO_GUARD + LOGGER, 143)], ids=["gate", "no gate"])
def test_a_signal_while_it_reads(place: Place, text: str, code: int) -> None:
    """It ends at once, though stdin is still open."""
    place.own(text)
    with subprocess.Popen(
        [PROGRAM, "hook"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.env(), cwd=place.project
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"{")
        process.stdin.flush()
        end = time.monotonic() + 30
        while _unread(process.stdin.fileno()) and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == code


def _unread(pipe: int) -> int:
    """The number of unread bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_closed_streams(place: Place) -> None:
    """Without any streams, the exit code still blocks the call."""
    place.own(GATE)
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {PROGRAM} hook <&- >&- 2>&-"], env=place.env(), cwd=place.project, check=False
    )
    assert done.returncode == 2


# -- failures of hooks, and later answers


def test_failed_open_is_reported(place: Place) -> None:
    """A hook that fails open is named to the user and on stderr, with the reason."""
    place.own("hooks:\n  it:\n    events: PreToolUse\n    run: 'exit 7'\n")
    ended = place.run("hook", stdin=PRE)
    told = "billhook: hook `it` failed and was ignored: exit code 7. Details: billhook events --failed"
    assert (ended.code, json.loads(ended.out)) == (0, {"systemMessage": told})
    assert ended.err == "billhook: hook `it` failed: exit code 7 (the event continued without its answer)\n"


WAITING = "until [ -e go ]; do sleep 0.05; done; touch done"
PROMISE = "echo '{\"async\": true}'"
LATE = {
    "PreToolUse": (PRE, f"events: PreToolUse\n    run: '{WAITING}'\n    background: true"),
    "PostToolUse": (POST, f"events: PostToolUse\n    run: '{WAITING}'\n    background: true"),
    "a promise": (POST, f"events: PostToolUse\n    dialect: spec\n    run: |\n      {PROMISE}; {WAITING}"),
}


@pytest.mark.parametrize("event", LATE)
@pytest.mark.parametrize("program", ["billhook hook", "billhook-hook"])
def test_later_answers(place: Place, event: str, program: str) -> None:
    """The agent waits for the answer, not for a background hook, which ends later."""
    stdin, hook = LATE[event]
    place.own(f"hooks:\n  later:\n    {hook}\n  context:\n    events: '*'\n    run: echo hello\n    dialect: claw\n")
    argv = [PROGRAM, "hook"] if program == "billhook hook" else [str(Path(PROGRAM).parent / program)]
    ended = subprocess.run(
        argv, input=stdin, capture_output=True, env=place.env(BILLHOOK_NO_DAEMON="1"), cwd=place.project, check=False
    )
    assert (ended.returncode, b"hello" in ended.stdout) == (0, True), ended
    assert not (place.project / "done").exists()
    (place.project / "go").touch()
    assert appears(place.project / "done")


def test_a_background_hook_has_its_time_out(place: Place) -> None:
    """The remaining process ends with its hook, at the timeout at the latest."""
    tag = f"billhook-test-{os.getpid()}-{time.monotonic_ns()}"
    run = f"run: 'touch began; sleep 60; : {tag}'\n    background: true\n    timeout: 1\n"
    place.own(f"hooks:\n  late:\n    events: PreToolUse\n    {run}")
    assert place.run("hook", "--as", "claude", stdin=PRE).code == 0
    assert appears(place.project / "began")
    assert gone(tag, 20)


def test_killed_before_the_answer(place: Place) -> None:
    """If an agent kills its hook, all processes of the hook are ended."""
    tag = f"billhook-test-{os.getpid()}-{time.monotonic_ns()}"
    late = f"  late:\n    events: PreToolUse\n    run: 'sleep 60; : {tag}'\n    background: true\n"
    place.own(f"hooks:\n{late}  slow:\n    events: PreToolUse\n    run: 'touch began; sleep 60; : {tag}'\n")
    with begun(place) as process:
        process.kill()
    assert gone(tag, 10)


def appears(path: Path) -> bool:
    end = time.monotonic() + 30
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return path.exists()


def test_an_agent_that_leaves_the_pipe_open(place: Place) -> None:
    """A complete event is answered, even if stdin never ends."""
    place.own("hooks:\n  never:\n    events: PreToolUse\n    deny: not here\n")
    with subprocess.Popen(
        [PROGRAM, "hook"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.env(), cwd=place.project
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(PRE[:70])
        process.stdin.flush()
        time.sleep(0.05)
        process.stdin.write(PRE[70:] + b"\n")
        process.stdin.flush()
        assert b'"deny"' in process.stdout.read()
        assert process.wait(30) == 0


def test_pipes_that_do_not_block(place: Place) -> None:
    """Agents may use non-blocking pipes: long events and answers are still complete."""
    place.own("hooks:\n  it:\n    events: PreToolUse\n    run: head -c 300000 /dev/zero | tr '\\0' x >&2; exit 2\n")
    their_in, our_in = os.pipe()
    our_out, their_out = os.pipe()
    os.set_blocking(their_in, False)
    os.set_blocking(their_out, False)
    process = subprocess.Popen([PROGRAM, "hook"], stdin=their_in, stdout=their_out, env=place.env(), cwd=place.project)
    os.close(their_in)
    os.close(their_out)
    time.sleep(0.3)
    with open(our_in, "wb") as stdin:
        stdin.write(PRE)
    time.sleep(0.3)
    with open(our_out, "rb") as stdout:
        answer = json.loads(stdout.read())["hookSpecificOutput"]
    assert process.wait(30) == 0
    assert (answer["permissionDecision"], len(answer["permissionDecisionReason"]) > 60_000) == ("deny", True)


def test_light(place: Place) -> None:
    """It starts at every tool call, so it imports nothing that only screens or other hooks need."""
    place.own(GATE)
    code = (
        "import atexit, sys\nsys.argv = ['billhook', 'hook']\nfrom billhook.cli.main import main\n"
        "atexit.register(lambda: print(*sys.modules))\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=PRE, capture_output=True, env=place.env(), cwd=place.project, check=True
    )
    loaded = set(done.stdout.decode().split())
    assert {"billhook.cli.hook", "billhook.engine.engine"} <= loaded
    assert set() == loaded & {"click", "httpx", "rich", "billhook.cli.group", "billhook.webhook", "http.client"}


def test_every_event_continues_without_hooks(place: Place) -> None:
    """Events without hooks exit with 0 and print nothing, also not on stderr."""
    for name in ("Notification", "Stop"):
        assert name in EVENTS
        ended = place.run("hook", stdin=json.dumps({**EVENT, "hook_event_name": name, "message": ""}).encode())
        assert (ended.code, ended.out) == (0, ""), ended


def test_help(place: Place) -> None:
    """`billhook hook --help` has an example for an agent's settings, and the failure rule."""
    ended = place.run("hook", "--help")
    assert ended.code == 0
    assert "billhook hook --as claude" in ended.out
    assert "--on-failure deny" in ended.out


def test_secrets_that_a_hook_printed_stay_out_of_the_warning(place: Place) -> None:
    """An agent may copy stderr into its transcript."""
    secret = "ghp_" + "a1B2" * 9
    place.own(f"hooks:\n  leaks:\n    events: PreToolUse\n    run: 'echo token={secret} >&2; exit 1'\n")
    ended = place.run("hook", stdin=PRE)
    assert "hook `leaks` failed: exit code 1: token=[redacted" in ended.err and secret not in ended.err


@pytest.mark.parametrize("obstacle", ["folder", "link", "too short"])
def test_an_unusable_key_is_reported(place: Place, obstacle: str) -> None:
    """Secrets are still removed, but equal ones don't look equal; the user is told."""
    key = place.home / ".claude" / "billhook" / "redaction.key"
    key.parent.mkdir(parents=True)
    if obstacle == "folder":
        key.mkdir()
    elif obstacle == "link":
        key.symlink_to(place.home / "elsewhere")
    else:
        key.write_bytes(b"x")
    event = {
        **EVENT,
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "mysql -pabcdefgh1"},
    }
    ended = place.run("hook", stdin=json.dumps(event).encode())
    assert "with a key that only this process has" in ended.err and "redaction.key" in ended.err, ended


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("{}/project/gone/deep", "{}/project"), ("/nowhere/at/all", "{}/project"), ("/", "/"), ("", "{}/project")],
    ids=["a folder that was removed", "a folder that never was", "the root", "none"],
)
def test_the_working_directory_of_an_agent(
    place: Place, monkeypatch: pytest.MonkeyPatch, asked: str, expected: str
) -> None:
    """An agent in a missing folder is still inside its project."""
    monkeypatch.chdir(place.project)
    assert existing_folder(asked.format(place.folder)) == expected.format(place.folder)
