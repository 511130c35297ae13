"""Python functions of a configuration, in worker processes that are treated badly in every way we know."""

import asyncio
import importlib.util
import os
import py_compile
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from billhook import Engine, Hook, PreToolUse, Stop
from billhook.core.answers import Answer, Decision, Outcome, Reply, Status
from billhook.core.errors import UsageError
from billhook.core.events import Event
from billhook.core.hook import Context
from billhook.runners.process_tree import settle
from billhook.runners.worker import PythonHook, close, problem_with, python
from descriptors import open_descriptors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

EVENT = PreToolUse(tool_name="Bash", tool_input={"command": "rm -rf /"}, session_id="s", cwd="/")
GENEROUS = 30.0
PRELUDE = """\
import asyncio, ctypes, os, signal, subprocess, sys, threading, time
from billhook import Answer, allow, deny, inject, notify, on, PreToolUse
"""


def living(tag: str) -> list[int]:
    """Processes with the tag in their command line or environment; zombies have none."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            for file in ("cmdline", "environ"):
                with suppress(OSError):
                    if tag.encode() in Path(f"/proc/{name}/{file}").read_bytes():
                        found.append(int(name))
                        break
    return found


def gone(tag: str, seconds: float = 3) -> bool:
    end = time.monotonic() + seconds
    while living(tag) and time.monotonic() < end:
        time.sleep(0.02)
    return not living(tag)


@pytest.fixture
def tag(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A word in the environment of every worker of the test, and so of all that a worker starts."""
    name = f"t{random.randrange(10**11, 10**12)}"
    monkeypatch.setenv("BILLHOOK_TEST_TAG", name)
    yield name
    close()
    settle()
    left = living(name)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == []


class Project:
    """A folder with modules whose functions handle events."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, code: str, *, prelude: bool = True) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((PRELUDE if prelude else "") + textwrap.dedent(code))
        return path

    def hook(self, target: str, **options: Any) -> PythonHook:
        return python(target, folder=str(self.folder), **options)

    def ask(self, target: str, *, seconds: float = GENEROUS, event: Event = EVENT, **options: Any) -> Reply:
        ctx = Context(event, [])
        ctx.deadline = time.monotonic() + seconds
        return asyncio.run(self.hook(target, **options)(ctx))

    def pid(self, **options: Any) -> int:
        """The process that answers."""
        if not (self.folder / "who.py").exists():
            self.write("who.py", "def am_i(event): return Answer(data=os.getpid())")
        data = self.ask("who:am_i", **options).answer.data
        assert isinstance(data, int)
        return data


@pytest.fixture
def project(tmp_path: Path, tag: str) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose worker stays warm: for functions that do no harm."""
    return Project(tmp_path_factory.mktemp("shared"))


# What a function may be, and what it may return

MEANINGS: dict[str, tuple[str, Answer]] = {
    "of the event": (
        "def f(event): return deny(event.tool_input['command'])",
        Answer(decision=Decision.DENY, reason="rm -rf /"),
    ),
    "of event and context": ("def f(event, ctx): return inject(ctx.session_id)", Answer(context="s")),
    "async": (
        "async def f(event):\n    await asyncio.sleep(0)\n    return allow('ok')",
        Answer(decision=Decision.ALLOW, reason="ok"),
    ),
    "nothing": ("def f(event): pass", Answer()),
    "a dict": (
        "def f(event): return {'decision': 'block', 'reason': 'no'}",
        Answer(decision=Decision.DENY, reason="no"),
    ),
    "a handler's result": ("def f(event): return {'success': True, 'data': {'n': [1]}}", Answer(data={"n": [1]})),
    "an error as a reason": (
        "def f(event): return deny(ValueError('no'))",
        Answer(decision=Decision.DENY, reason="no"),
    ),
    "decorated": ("@on(PreToolUse)\ndef f(event): return notify('hi')", Answer(message="hi")),
    "decorated, in a thread": ("@on(PreToolUse, thread=True)\ndef f(event): return notify('hi')", Answer(message="hi")),
    "a method": ("class F:\n    def g(self, event): return notify('hi')\nf = F().g", Answer(message="hi")),
    "an odd letter": ("def f(event): return notify('\\ud800 \\u00e9')", Answer(message="\ud800 é")),
    "rewrites": (
        "def f(event): return Answer(updated_input={'command': 'ls'})",
        Answer(updated_input={"command": "ls"}),
    ),
}


@pytest.mark.parametrize("case", MEANINGS)
def test_what_a_function_returns(shared: Project, case: str) -> None:
    """A function means in a worker what it means in our own process."""
    code, answer = MEANINGS[case]
    module = f"means_{list(MEANINGS).index(case)}"
    shared.write(f"{module}.py", code)
    assert shared.ask(f"{module}:f") == Reply(answer=answer)


def test_a_deny_of_stop_keeps_the_agent_going(shared: Project) -> None:
    """The event's own rules apply: a deny of Stop is a reason to continue."""
    shared.write("a_deny_of_stop_keeps_the_agent_going.py", "def f(event): return deny('run the tests')")
    assert shared.ask("a_deny_of_stop_keeps_the_agent_going:f", event=Stop()).answer == Answer(
        keep_going=True, reason="run the tests"
    )


def test_the_dialect_reads_the_dict(shared: Project) -> None:
    """The hook's dialect defines what a dict means."""
    shared.write("the_dialect_reads_the_dict.py", "def f(event): return {'systemMessage': 'hi'}")
    assert shared.ask("the_dialect_reads_the_dict:f", dialect="spec").answer == Answer(context="hi")
    assert shared.ask("the_dialect_reads_the_dict:f", dialect="claude").answer == Answer(message="hi")


def test_dotted_names_and_homes(project: Project) -> None:
    """Modules in packages, functions in classes, and modules in .billhook and .claude are found; the folder first."""
    project.write("rules/shell.py", "class Guard:\n    @staticmethod\n    def check(event): return notify('dotted')")
    project.write(".billhook/mine.py", "def f(event): return notify('.billhook')")
    project.write(".claude/mine.py", "def f(event): return notify('.claude')")
    project.write(".claude/other.py", "def f(event): return notify(os.getcwd())")
    assert project.ask("rules.shell:Guard.check").answer.message == "dotted"
    assert project.ask("mine:f").answer.message == ".billhook"
    assert project.ask("other:f").answer.message == str(project.folder)


def test_large_events_arrive_whole(project: Project) -> None:
    """An event of many megabytes reaches the worker, again and again."""
    project.write("policy.py", "def f(event): return notify(str(len(event.tool_input['command'])))")
    for size in (1, 5_000_000, 3, 200_000):
        event = PreToolUse(tool_name="Bash", tool_input={"command": "x" * size})
        assert project.ask("policy:f", event=event).answer.message == str(size)


def test_an_event_beyond_all_bounds(project: Project) -> None:
    """An event that is too large is a failure, not a worker that chokes."""
    project.write("policy.py", "def f(event): pass")
    event = PreToolUse(tool_name="Bash", tool_input={"command": "x" * (65 << 20)})
    reply = project.ask("policy:f", event=event)
    assert reply.status is Status.FAILED and "longer than" in reply.error


# The firing


def test_earlier_results_state_and_env(project: Project) -> None:
    """A function sees earlier answers, and later hooks see what it left in the state and the environment."""
    code = """
        def f(event, ctx):
            assert list(ctx.results) == ["turn-tracker-PreToolUse", "odd-PreToolUse"]
            assert ctx.find("turn-tracker").data == {"sequence": 7}
            assert ctx.find("odd").block and ctx.find("odd").block_reason == "no"
            assert ctx.state == {"kept": 1, "gone": 2, "list": [1]} and ctx.env == {"A": "1", "B": "2"}
            assert 1 < ctx.seconds_left <= 30
            del ctx.state["gone"], ctx.env["B"]
            ctx.state["list"].append(2)
            ctx.state["new"], ctx.state["odd"] = {"x": None}, {1, 2}
            ctx.env["C"], ctx.env["odd"] = "3", 4
    """
    project.write("policy.py", code)
    odd = Outcome("odd", answer=Answer(decision=Decision.DENY, reason="no", data=object()))
    ctx = Context(EVENT, [Outcome("turn-tracker", answer=Answer(data={"sequence": 7})), odd], {"A": "1", "B": "2"})
    ctx.deadline = time.monotonic() + GENEROUS
    thing = object()
    ctx.state.update({"kept": 1, "gone": 2, "list": [1], "thing": thing})
    reply = asyncio.run(project.hook("policy:f")(ctx))
    assert (reply.status, reply.error) == (Status.OK, "")
    assert ctx.state == {"kept": 1, "list": [1, 2], "new": {"x": None}, "thing": thing}
    assert ctx.env == {"A": "1", "C": "3"}
    assert [lost.split(" ")[0] for lost in reply.lost] == ["`ctx.state['odd']`", "`ctx.env['odd']`"]


def test_two_hooks_of_one_firing(project: Project) -> None:
    """Through the engine: the second function sees the first one's data and state."""
    code = """
        def first(event, ctx):
            ctx.state["n"] = 1
            return {"success": True, "data": {"turn": 3}}
        def second(event, ctx):
            return deny(f"{ctx.find('first').data} {ctx.state}")
    """
    project.write("policy.py", code)
    hooks = [Hook(name=name, run=project.hook(f"policy:{name}")) for name in ("first", "second")]
    assert Engine(hooks).fire_sync(EVENT).reason == "{'turn': 3} {'n': 1}"


# How it can go wrong

FAILURES: dict[str, tuple[str, Status, str]] = {
    "raises": ("def f(event):\n    raise ValueError('boom')", Status.FAILED, "ValueError: boom (policy.py:4)"),
    "raises what can't be shown": (
        "class E(Exception):\n    def __str__(self): 1 / 0\ndef f(event): raise E",
        Status.FAILED,
        "E (policy.py:5)",
    ),
    "raises KeyboardInterrupt": ("def f(event): raise KeyboardInterrupt", Status.FAILED, "KeyboardInterrupt"),
    "recursion": ("def f(event): return f(event)", Status.FAILED, "RecursionError"),
    "wrong signature": ("def f(): pass", Status.FAILED, "TypeError"),
    "returns an object": ("def f(event): return object()", Status.FAILED, "returned object"),
    "returns data that is no JSON": ("def f(event): return Answer(data=object())", Status.FAILED, "not plain data"),
    "returns a loop": (
        "def f(event):\n    x = []; x.append(x)\n    return Answer(data=x)",
        Status.FAILED,
        "not plain data",
    ),
    "returns NaN": ("def f(event): return Answer(data=float('nan'))", Status.FAILED, "not plain data"),
    "returns a nest": (
        "def f(event):\n    x = []\n    for _ in range(99): x = [x]\n    return Answer(data=x)",
        Status.FAILED,
        "nested deeper",
    ),
    "returns megabytes": ("def f(event): return notify('x' * 2_000_000)", Status.FAILED, "longer than 1,048,576 bytes"),
    "returns nonsense": ("def f(event): return {'decision': 'maybe'}", Status.FAILED, '"block" or "approve"'),
    "answers later": (
        "from billhook.core.answers import Reply\ndef f(event): return Reply(later=print)",
        Status.FAILED,
        "background: true",
    ),
    "prints megabytes and fails": (
        "def f(event):\n    print('x' * 5_000_000)\n    1 / 0",
        Status.FAILED,
        "it printed: xxx",
    ),
    "no module": ("", Status.COULD_NOT_START, "can't import `policy`: ModuleNotFoundError"),
    "import error": (
        "import nothing_of_the_kind",
        Status.COULD_NOT_START,
        "No module named 'nothing_of_the_kind' (policy.py:3)",
    ),
    "syntax error": ("def f(:", Status.COULD_NOT_START, "SyntaxError: invalid syntax (policy.py:3)"),
    "raises at import": ("x = 1\n1 / 0", Status.COULD_NOT_START, "ZeroDivisionError: division by zero (policy.py:4)"),
    "exits at import": ("sys.exit(0)", Status.COULD_NOT_START, "SystemExit: 0"),
    "no function": ("def ff(event): pass", Status.COULD_NOT_START, "`policy` has no `f`"),
    "not callable": ("f = 3", Status.COULD_NOT_START, "`policy:f` is of type int"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failures(project: Project, case: str) -> None:
    """Each fault of a function is an outcome with an exact message."""
    code, status, error = FAILURES[case]
    if code:
        project.write("policy.py", code)
    reply = project.ask("policy:f")
    assert (reply.status, reply.answer) == (status, Answer())
    assert error in reply.error


DEATHS: dict[str, tuple[str, int | None, int | None]] = {
    "sys.exit(3)": ("sys.exit(3)", 3, None),
    "sys.exit()": ("sys.exit()", 0, None),
    "sys.exit(text)": ("sys.exit('bye')", 1, None),
    "os._exit(0)": ("os._exit(0)", 0, None),
    "os._exit(2)": ("os._exit(2)", 2, None),
    "segmentation fault": ("ctypes.string_at(0)", None, signal.SIGSEGV),
    "kill -9 of itself": ("os.kill(os.getpid(), 9)", None, signal.SIGKILL),
    "kill -9 of its group": ("os.killpg(0, 9)", None, signal.SIGKILL),
    "abort": ("os.abort()", None, signal.SIGABRT),
    "closes everything": ("os.closerange(0, 4096)", 70, None),
    "closes everything and opens files": (
        "os.closerange(0, 4096)\n    for _ in range(150): os.open('/dev/null', os.O_RDWR)",
        70,
        None,
    ),
    "another program": ("os.execv('/bin/sh', ['sh', '-c', 'exit 5'])", 5, None),
    "exit with a child": ("subprocess.Popen(['sleep', '1000']); os._exit(4)", 4, None),
    "exit with a stubborn child": (
        "subprocess.Popen(['sh', '-c', 'trap \"\" TERM; sleep 1000; sleep 1000']); time.sleep(0.1); os._exit(4)",
        4,
        None,
    ),
}


@pytest.mark.parametrize("case", DEATHS)
def test_deaths(project: Project, tag: str, case: str) -> None:
    """A worker that dies costs its own event only: a failure with the exit code or the signal, and nothing is left."""
    code, exit_code, number = DEATHS[case]
    project.write("policy.py", f"def f(event):\n    {code}")
    reply = project.ask("policy:f")
    ends = {(exit_code, number)}
    if case.startswith("closes everything"):
        ends.add((None, signal.SIGKILL))  # its owner may notice first, and end it
    assert reply.status is Status.FAILED and (reply.exit_code, reply.signal) in ends, reply.error
    assert gone(tag)


HANGS = {
    "loops": "while True: pass",
    "sleeps": "time.sleep(1e9)",
    "loops in C": "sum(range(10**15))",
    "swallows everything": "while True:\n        try: time.sleep(0.01)\n        except BaseException: pass",
    "ignores signals": "for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n    time.sleep(1e9)",
    "stops itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "prints without end": "while True: print('x' * 1000)",
    "waits for a thread": "threading.Thread(target=time.sleep, args=(1e9,)).start(); time.sleep(1e9)",
    "has children": "subprocess.run(['sh', '-c', 'sleep 1000 & setsid sleep 1000 & sleep 1000'])",
    "has a stubborn child elsewhere": (
        "subprocess.Popen(['sh', '-c', 'trap \"\" TERM; sleep 1000; sleep 1000'], start_new_session=True)\n"
        "    time.sleep(1e9)"
    ),
    "closes everything": "os.closerange(0, 4096); time.sleep(1e9)",
    "waits for input": "sys.stdin.read(); os.read(os.pipe()[0], 1)",
}


@pytest.mark.parametrize("case", HANGS)
def test_hangs(project: Project, tag: str, case: str) -> None:
    """A function that does not return is ended at its deadline, with all its processes."""
    project.pid()  # so that the deadline is the function's own
    project.write("policy.py", f"def f(event):\n    {HANGS[case]}")
    began = time.monotonic()
    reply = project.ask("policy:f", seconds=0.25)
    assert (reply.status, reply.answer) == (Status.TIMED_OUT, Answer())
    assert time.monotonic() - began < 5
    assert gone(tag, 1)


def test_an_async_function_that_hangs(project: Project, tag: str) -> None:
    """The same for one that awaits, through the engine, where a gate then denies."""
    project.write("policy.py", "async def f(event): await asyncio.sleep(1e9)")
    hook = Hook(name="h", run=project.hook("policy:f"), timeout=0.5, on_failure="deny")
    verdict = Engine([hook]).fire_sync(EVENT)
    assert verdict.denied and verdict.outcomes[0].status is Status.TIMED_OUT
    assert gone(tag, 1)


def test_no_time_at_all(project: Project, tag: str) -> None:
    """A function whose deadline passed before it could start does not run, and nothing is started."""
    project.write("policy.py", "def f(event): pass")
    assert project.ask("policy:f", seconds=-1).status is Status.TIMED_OUT
    assert living(tag) == []


def test_a_late_deny_counts(project: Project) -> None:
    """What else is wrong with an answer does not undo its deny."""
    project.write("policy.py", "def f(event): return Answer(decision='deny', reason='no', data=object())")
    project.write("long.py", "def f(event): return deny('x' * 2_000_000)")
    reply = project.ask("policy:f")
    assert (reply.status, reply.answer) == (Status.OK, Answer(decision=Decision.DENY, reason="no"))
    assert "not plain data" in reply.lost[0]
    reply = project.ask("long:f")
    assert reply.answer.decision is Decision.DENY and len(reply.answer.reason) == 1 << 16


# What it prints, and what else goes through its pipes

NOISE = {
    "print": "print('{}')",
    "os.write": "os.write(1, b'{}')",
    "C": "ctypes.CDLL(None).puts(b'{}'); ctypes.CDLL(None).fflush(None)",
    "a child": "subprocess.run(['echo', '{}'])",
    "sys.__stdout__": "sys.__stdout__.write('{}'); sys.__stdout__.flush()",
    "closes stdout": "sys.stdout.close()",
}


@pytest.mark.parametrize("case", NOISE)
def test_a_module_that_prints(shared: Project, case: str) -> None:
    """Whatever is printed, at import and at call, the answer arrives."""
    module = f"prints_{list(NOISE).index(case)}"
    shared.write(f"{module}.py", f"{NOISE[case]}\ndef f(event):\n    {NOISE[case]}\n    return deny('no')")
    for _ in range(2):
        assert shared.ask(f"{module}:f") == Reply(answer=Answer(decision=Decision.DENY, reason="no"))


GARBAGE = {
    "noise": "b'x' * 100",
    "half a header": "b'bh'",
    "a frame without JSON": "b'bhw\\n\\0\\0\\0\\1x'",
    "a frame of the wrong shape": 'b\'bhw\\n\\0\\0\\0\\x10{"status": "odd"}\'',
    "a frame without end": "b'bhw\\n\\xff\\xff\\xff\\xff'",
    "an answer of its own": "b'bhw\\n\\0\\0\\0\\2{}'",
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_in_the_pipe(project: Project, tag: str, case: str) -> None:
    """A hook that writes into the worker's own pipe makes its own event fail, whatever it writes."""
    code = f"""
        def f(event):
            for fd in range(3, 300):
                try:
                    os.write(fd, {GARBAGE[case]})
                except OSError:
                    pass
            time.sleep(0.1)
    """
    project.write("policy.py", code)
    reply = project.ask("policy:f")
    assert (reply.status, reply.answer) == (Status.FAILED, Answer())
    assert gone(tag, 1)


def test_stdin_is_empty(shared: Project) -> None:
    """A function that reads its standard input finds the end of it, not our requests."""
    shared.write("stdin_is_empty.py", "def f(event): return notify(repr(sys.stdin.read()))")
    assert shared.ask("stdin_is_empty:f").answer.message == "''"


def test_a_fork_that_comes_back(project: Project, tag: str) -> None:
    """A copy of the worker that returns from the hook can't answer."""
    project.write("policy.py", "def f(event):\n    if os.fork(): time.sleep(0.2)\n    return notify('one')")
    for _ in range(2):
        assert project.ask("policy:f").answer.message == "one"
    assert gone(tag, 1)


# Warm, and not too warm


def test_a_worker_is_used_again(project: Project, tag: str) -> None:
    """The next event finds the worker warm, in another event loop and another thread, too."""
    first = project.pid()
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(project.pid()))
    thread.start()
    thread.join()
    assert found == [first] and project.pid() == first and living(tag) == [first]
    os.kill(first, 0)
    close()
    assert gone(tag, 1) and project.pid() != first


def test_events_leave_nothing_to_each_other(project: Project) -> None:
    """A warm worker starts each event in the project's folder, with environment and file mode mask as they were, and
    no alarm set."""
    code = """
        calls = []
        def f(event):
            calls.append(1)
            answer = notify(f"{len(calls)} {os.getcwd()} {os.environ.get('LEFT')} {os.umask(0o135):o}")
            os.chdir("/")
            os.environ["LEFT"] = "over"
            signal.alarm(1)
            return answer
    """
    project.write("policy.py", code)
    mask = os.umask(0o022)
    os.umask(mask)
    assert project.ask("policy:f").answer.message == f"1 {project.folder} None {mask:o}"
    assert project.ask("policy:f").answer.message == f"2 {project.folder} None {mask:o}"


def same_size(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def test_an_edited_module_is_seen(project: Project) -> None:
    """An edit takes effect at the next event: of the module, of one that it imports, or of one that it imports late."""
    module = project.write(
        "policy.py", "import helper\ndef f(event):\n    import late\n    return notify('a' + helper.x + late.x)"
    )
    helper, late = project.write("helper.py", "x = 'b'"), project.write("late.py", "x = 'c'")
    messages = [project.ask("policy:f").answer.message]
    for path, old, new in ((module, "'a'", "'A'"), (helper, "'b'", "'B'"), (late, "'c'", "'C'")):
        same_size(path, old, new)
        messages.append(project.ask("policy:f").answer.message)
    assert messages == ["abc", "Abc", "ABc", "ABC"]
    assert not list(project.folder.rglob("__pycache__"))


def test_edited_data_is_seen(project: Project) -> None:
    """A file that a module reads while it is imported counts as a part of it; one that is read at a call does not."""
    project.write("policy.py", "x = open('rules.txt').read()\ndef f(event): return notify(x + open('now.txt').read())")
    rules, now = project.write("rules.txt", "a", prelude=False), project.write("now.txt", "1", prelude=False)
    pid = project.pid()
    assert project.ask("policy:f").answer.message == "a1"
    now.write_text("2")
    assert project.ask("policy:f").answer.message == "a2" and project.pid() == pid
    rules.write_text("b")
    assert project.ask("policy:f").answer.message == "b2" and project.pid() != pid


def test_modules_from_elsewhere(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PYTHONPATH holds for workers, a relative one from where we are; edits there are seen as well."""
    library = Project(tmp_path / "here/library")
    shared = library.write("shared.py", "x = 'a'")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", "library")
    project.write("policy.py", "import shared\ndef f(event): return notify(shared.x)")
    assert project.ask("policy:f").answer.message == "a"
    same_size(shared, "'a'", "'b'")
    assert project.ask("policy:f").answer.message == "b"


def test_a_removed_module_is_missed(project: Project) -> None:
    """A module that is gone is not answered from memory."""
    path = project.write("policy.py", "def f(event): pass")
    assert project.ask("policy:f").status is Status.OK
    path.unlink()
    assert project.ask("policy:f").status is Status.COULD_NOT_START
    project.write("policy.py", "def f(event): return notify('back')")
    assert project.ask("policy:f").answer.message == "back"


def test_another_environment_is_another_worker(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that changed in our process is seen by the next event."""
    project.write(
        "policy.py", "def f(event): return notify(os.environ.get('SOMETHING', '') + os.environ['CLAUDE_PROJECT_DIR'])"
    )
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    assert project.ask("policy:f").answer.message == str(project.folder)
    monkeypatch.setenv("SOMETHING", "new")
    assert project.ask("policy:f").answer.message == f"new{project.folder}"


LEFTOVERS = {
    "a thread": "threading.Thread(target=time.sleep, args=(1000,)).start()",
    "a daemon thread": "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
    "a child": "subprocess.Popen(['sleep', '1000'])",
    "a child of a child": "subprocess.run(['sh', '-c', 'sleep 1000 &'])",
}


@pytest.mark.parametrize("case", LEFTOVERS)
def test_what_a_hook_leaves_running(project: Project, tag: str, case: str) -> None:
    """The answer counts, and processes that still run are ended, at the latest with the worker."""
    project.write("policy.py", f"def f(event):\n    {LEFTOVERS[case]}\n    return deny('no')")
    assert project.ask("policy:f") == Reply(answer=Answer(decision=Decision.DENY, reason="no"))
    close()
    assert gone(tag, 2)


def test_a_worker_that_died_while_it_was_idle(project: Project, tag: str) -> None:
    """After a worker was killed, the next event gets a new one."""
    first = project.pid()
    os.kill(first, signal.SIGKILL)
    assert gone(tag)
    while Path(f"/proc/{first}/stat").exists() and " Z " not in Path(f"/proc/{first}/stat").read_text():
        time.sleep(0.001)  # its command line disappears before it has ended
    assert project.pid() != first


def test_two_projects_never_mix(tmp_path: Path, tag: str) -> None:
    """Modules of the same name in two projects are two modules."""
    projects = [Project(tmp_path / name) for name in ("one", "two")]
    for one in projects:
        one.write("policy.py", f"import helper\ndef f(event): return notify(helper.x + {one.folder.name!r})")
        one.write("helper.py", f"x = {one.folder.name!r}")
    for _ in range(2):
        assert [one.ask("policy:f").answer.message for one in projects] == ["oneone", "twotwo"]


def test_a_project_can_not_stand_in_for_billhook(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files called like our modules are the project's own affair, even when the project is our working directory."""
    for name in ("billhook/__init__.py", "billhook/worker_main.py", "msgspec.py", "json.py", "asyncio.py"):
        project.write(name, "raise SystemExit('never')", prelude=False)
    project.write("policy.py", "def f(event): return notify('fine')")
    monkeypatch.chdir(project.folder)
    assert project.ask("policy:f").answer.message == "fine"


# Many at once


def test_sixteen_threads_at_once(project: Project, tag: str) -> None:
    """One engine, sixteen threads, some of whose hooks die: each gets its own answer, and no more than a few stay."""
    code = """
        def f(event):
            number = int(event.tool_input["command"])
            if number % 8 == 5: os._exit(3)
            return deny(str(number))
    """
    project.write("policy.py", code)
    engine = Engine([Hook(name="h", run=project.hook("policy:f"), timeout=60)])
    answers: dict[int, tuple[str, int | None]] = {}

    def fire(thread: int) -> None:
        for number in range(thread * 3, thread * 3 + 3):
            event = PreToolUse(tool_name="Bash", tool_input={"command": str(number)})
            verdict = engine.fire_sync(event)
            answers[number] = verdict.reason, verdict.outcomes[0].exit_code

    threads = [threading.Thread(target=fire, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: ("", 3) if n % 8 == 5 else (str(n), None) for n in range(48)}
    assert 1 <= len(living(tag)) <= 8
    close()
    assert gone(tag, 1)


def test_one_loop_many_calls(project: Project, tag: str) -> None:
    """Calls of one event loop that are waiting at the same time don't wait for each other."""
    project.write("policy.py", "def f(event):\n    time.sleep(0.3)\n    return deny('no')")
    hooks = [Hook(name=f"h{n}", run=project.hook("policy:f"), timeout=60) for n in range(4)]
    verdict = asyncio.run(Engine(hooks, parallel=True).fire(EVENT))
    assert [outcome.answer.reason for outcome in verdict.outcomes] == ["no"] * 4
    assert len(living(tag)) == 4


def test_closed_while_busy(project: Project, tag: str) -> None:
    """A worker that is busy when all are closed answers, and is not kept."""
    project.write("policy.py", "def f(event):\n    time.sleep(0.5)\n    return notify('still')")
    messages: list[str] = []
    thread = threading.Thread(target=lambda: messages.append(project.ask("policy:f").answer.message))
    thread.start()
    while not living(tag):
        time.sleep(0.02)
    close()
    thread.join()
    assert messages == ["still"] and living(tag) == []


def test_cancelled(project: Project, tag: str) -> None:
    """A call that is cancelled takes its worker with it."""
    project.write("policy.py", "def f(event): subprocess.run(['sleep', '1000'])")

    async def cancel() -> None:
        ctx = Context(EVENT, [])
        task = asyncio.create_task(project.hook("policy:f")(ctx))
        while len(living(tag)) < 2:  # noqa: ASYNC110 - another process tells
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert gone(tag, 1)


# The owner's end

OWNER = """
import asyncio, os, sys, threading, time
from billhook import PreToolUse
from billhook.core.hook import Context
from billhook.runners.worker import python
def ask(target, seconds=30.0):
    ctx = Context(PreToolUse(tool_name="Bash", tool_input={}), [])
    ctx.deadline = time.monotonic() + seconds
    return asyncio.run(python(target, folder=sys.argv[1])(ctx))
def reached():
    ends = time.monotonic() + 25
    while not os.path.exists(sys.argv[1] + "/reached") and time.monotonic() < ends: time.sleep(0.01)
def die():
    reached()
    os.kill(os.getpid(), 9)
"""


def owner(project: Project, code: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-W", "error", "-c", OWNER + textwrap.dedent(code), str(project.folder)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


DIE = "threading.Thread(target=die).start()"
ENDS = {
    "returns": "ask('policy:quick')",
    "exits": "ask('policy:quick'); sys.exit(3)",
    "exits at once": "ask('policy:quick'); os._exit(0)",
    "is killed": "ask('policy:quick'); os.kill(os.getpid(), 9)",
    "ends while a thread asks": "threading.Thread(target=ask, args=['policy:loop'], daemon=True).start(); reached()",
    "is killed while it loops": f"{DIE}; ask('policy:loop')",
    "is killed while a child runs": f"{DIE}; ask('policy:child')",
    "is killed while C code runs": f"{DIE}; ask('policy:stuck', 5)",
}


@pytest.mark.parametrize("case", ENDS)
def test_workers_end_with_their_owner(project: Project, tag: str, case: str) -> None:
    """However our process ends, its workers end, busy or idle."""
    code = """
        def reached(): open("reached", "w").close()
        def quick(event): pass
        def loop(event):
            reached()
            while True: pass
        def child(event):
            child = subprocess.Popen(['sleep', '1000'])
            reached()
            child.wait()
        def stuck(event):
            reached()
            sum(range(10**15))
    """
    project.write("policy.py", code)
    with owner(project, ENDS[case]) as process:
        process.wait(30)
    assert gone(tag, 8)


def test_a_copy_of_the_owner_leaves_its_workers_alone(project: Project, tag: str) -> None:
    """After a fork, the copy starts its own workers, and the original keeps its own."""
    code = """
        before = ask("who:am_i").answer.data
        if (child := os.fork()) == 0:
            print(before != ask("who:am_i").answer.data, flush=True)
            from billhook.runners.worker import close
            close()
            os._exit(0)
        os.waitpid(child, 0)
        print(before == ask("who:am_i").answer.data, flush=True)
    """
    project.write("who.py", "def am_i(event): return Answer(data=os.getpid())")
    with owner(project, code) as process:
        printed, _ = process.communicate(timeout=30)
    assert printed.split() == ["True", "True"]
    assert gone(tag, 1)


def test_no_descriptor_is_left(project: Project, tag: str) -> None:
    """Whatever became of its workers, our process has the same descriptors open as before."""
    code = """
        def fine(event): pass
        def late(event): time.sleep(1e9)
        def dies(event): os._exit(1)
        def raises(event): 1 / 0
        def deaf(event): os.closerange(0, 4096); time.sleep(0.1)
    """
    project.write("policy.py", code)
    large = PreToolUse(tool_name="Bash", tool_input={"command": "x" * 3_000_000})
    project.ask("policy:fine")
    close()
    before = open_descriptors()
    for name in ("fine", "fine", "late", "dies", "fine", "raises", "deaf", "nothing"):
        project.ask(f"policy:{name}", event=large, seconds=0.5 if name == "late" else GENEROUS)
    project.ask("policy:fine", interpreter="./missing")
    close()
    settle()
    assert open_descriptors() <= before


def test_no_descriptors_are_left_to_start_with(project: Project, tag: str) -> None:
    """When our process can open nothing more, that is the reason given, and nothing hangs or leaks."""
    code = """
        import resource
        ask("policy:f")
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        for left in range(14):
            from billhook.runners.worker import close
            close()
            taken = []
            try:
                while True: taken.append(os.open("/dev/null", os.O_RDONLY))
            except OSError: pass
            for fd in taken[:left + 4]: os.close(fd)
            try: print(ask("policy:f").status)
            except OSError: print("no loop")
            for fd in taken[left + 4:]: os.close(fd)
        print(ask("policy:f").status)
    """
    project.write("policy.py", "def f(event): pass")
    with owner(project, code) as process:
        printed, _ = process.communicate(timeout=30)
    assert set(printed.split("\n")) <= {"no loop", "ok", "could_not_start", ""}
    assert "could_not_start" in printed and printed.endswith("ok\n")
    assert gone(tag, 2)


def test_any_folder(tmp_path: Path, tag: str) -> None:
    """A project's folder may have any bytes in its name."""
    project = Project(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9 -n\n")))
    project.write("policy.py", "def f(event): return notify(repr(os.getcwdb()[-9:]))")
    assert project.ask("policy:f").answer.message == repr(b"/caf\xe9 -n\n"[-9:])


# Another interpreter


def wrapper(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_another_interpreter(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named by a path in the project, by a full path, or by a name on PATH; each has its own workers."""
    project.write("policy.py", "def f(event): return notify(os.environ.get('BY', ''))")
    path = wrapper(project.folder / "env/bin/py", f'BY=wrapper exec {sys.executable} "$@"')
    assert project.ask("policy:f", interpreter="env/bin/py").answer.message == "wrapper"
    assert project.ask("policy:f", interpreter=str(path)).answer.message == "wrapper"
    assert project.ask("policy:f").answer.message == ""
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    assert project.ask("policy:f", interpreter="py").answer.message == "wrapper"


INTERPRETERS = {
    "missing": (None, "does not exist"),
    "without billhook": (f'exec {sys.executable} -I -S "$@"', "has no billhook; install it: "),
    "no Python": ("exit 0", "could not start as a worker: exit code 0"),
    "an old Python": ("echo 'Unknown option: -P' >&2; exit 2", "billhook needs Python 3.11"),
    "an old billhook": (
        "echo \"No module named 'billhook.runners.worker_main'\" >&2; exit 1",
        "has a billhook that is too old",
    ),
    "another protocol": (
        'printf \'bhw\\n\\000\\000\\000\\040{"protocol":99,"billhook":"9.9"}\'; sleep 1000',
        "its billhook 9.9 uses protocol 99, not 4; install the same billhook",
    ),
}


@pytest.mark.parametrize("case", INTERPRETERS)
def test_an_unusable_interpreter(project: Project, tag: str, case: str) -> None:
    """What is wrong with an interpreter, and how to repair it, is in the message."""
    body, error = INTERPRETERS[case]
    if body is not None:
        wrapper(project.folder / "py", body)
    reply = project.ask("policy:f", interpreter="./py")
    assert reply.status is Status.COULD_NOT_START
    assert error in reply.error
    assert gone(tag, 1)


def test_an_interpreter_that_prints_first(project: Project) -> None:
    """The output of a start-up file does no harm."""
    project.write("policy.py", "def f(event): return notify('fine')")
    wrapper(project.folder / "py", f'echo hello from sitecustomize; exec {sys.executable} "$@"')
    assert project.ask("policy:f", interpreter="./py") == Reply(answer=Answer(message="fine"))


def test_a_folder_that_is_gone(tmp_path: Path, tag: str) -> None:
    """A project without a folder can't run."""
    reply = Project(tmp_path / "nowhere").ask("policy:f")
    assert reply.status is Status.COULD_NOT_START and "nowhere" in reply.error


# Names

TARGETS = {
    "policy:check": "",
    "pkg.sub.policy:Guard.check": "",
    "_p:_": "",
    "": "no function is named",
    "policy": "`policy` names no function; write `policy:function`",
    "pkg.policy": "write `pkg:policy`",
    "policy.py:check": "is a file; name the module: `policy:check`",
    "./hooks/policy.py:check": "name the module: `hooks.policy:check`",
    ".policy:check": "can't be the name of a module",
    "policy:": "can't be the name of a function",
    "policy:a:b": "can't be the name of a function",
    "policy:check()": "can't be the name of a function",
    "policy: check": "can't be the name of a function",
    "class:check": "can't be the name of a module",
    "a..b:check": "can't be the name of a module",
}


@pytest.mark.parametrize("target", TARGETS)
def test_what_names_a_function(target: str) -> None:
    """An invalid name is refused with the reason."""
    problem = problem_with(target)
    assert TARGETS[target] in problem and bool(TARGETS[target]) == bool(problem)
    if problem:
        with pytest.raises(UsageError):
            python(target, folder="/")


def test_hooks_compare_by_what_they_do() -> None:
    """Two hooks that do the same are equal; an unknown dialect is refused."""
    assert python("a:b", folder="/x") == python("a:b", folder="/x/") != python("a:b", folder="/y")
    assert python("a:b", folder="/").keeps_time
    with pytest.raises(UsageError):
        python("a:b", folder="/", dialect="klingon")


def test_importing_billhook_imports_none_of_it() -> None:
    """Who has no such hook pays nothing for them."""
    code = "import billhook, sys; print([name for name in sys.modules if 'worker' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


def test_a_planted_compiled_module_is_ignored(tmp_path: Path) -> None:
    """What runs is the source that was approved, whatever lies in `__pycache__` beside it, times and size included."""
    evil, source = tmp_path / "evil.py", tmp_path / "planted.py"
    evil.write_text("def check(event):\n    return {'systemMessage': 'evil'}\n")
    source.write_text("def check(event):\n    return {'systemMessage': 'good'}\n")
    os.utime(evil, (1e9, 1e9))
    os.utime(source, (1e9, 1e9))
    cached = Path(importlib.util.cache_from_source(str(source)))
    py_compile.compile(str(evil), cfile=str(cached), doraise=True)
    control = subprocess.run(
        [sys.executable, "-c", "import planted; print(planted.check(0))"], cwd=tmp_path, capture_output=True, check=True
    )
    assert b"evil" in control.stdout  # Python itself believes it
    hook = Hook(name="h", run=python("planted:check", folder=str(tmp_path)), events=("PreToolUse",), dialect="spec")
    event = PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, cwd=str(tmp_path))
    assert Engine([hook]).fire_sync(event).context == ("good",)
