"""Calls of one parent know nothing of each other, and each has its own random numbers, streams and files."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from billhook.core.answers import Exit
from equivalence.harness import (
    ADDRESSES,
    SECONDS,
    Case,
    Result,
    Start,
    differences,
    lay_out,
    normalised,
    run,
    start_plain,
    start_warm,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="warm interpreters are for Linux")

CHANGES = """
    import builtins, decimal, gc, io, json, locale, logging, os, random, re, resource, signal, string, sys, tempfile
    import threading, time, warnings
    json.dumps = lambda *_: "changed"
    json.decoder.JSONDecoder.decode = None
    re.compile("x"); re.search = None
    os.path.join = lambda *_: "changed"
    os.environ.clear(); os.environ["LEAK"] = "1"; os.putenv("LEAK2", "1")
    os.chdir("/"); os.umask(0o777)
    sys.stdout.reconfigure(encoding="ascii", line_buffering=True)
    sys.path[:] = ["/leak"]; sys.argv[:] = ["leak"]
    sys.modules["leak"] = sys; sys.leak = 1; del sys.modules["base64"]
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    signal.alarm(1000)
    locale.setlocale(locale.LC_ALL, "C")
    sys.setrecursionlimit(200); sys.setswitchinterval(1.0); sys.excepthook = None; sys.displayhook = None
    sys.set_int_max_str_digits(0); sys.dont_write_bytecode = True; sys.tracebacklimit = 0
    warnings.simplefilter("error"); decimal.getcontext().prec = 3; decimal.DefaultContext.prec = 4
    logging.basicConfig(level=logging.DEBUG); logging.addLevelName(20, "leak"); logging.disable(50)
    random.seed(1); tempfile.tempdir = "/leak"; gc.disable(); gc.set_threshold(1)
    string.ascii_letters = "leak"; threading.stack_size(1 << 20); time.time = lambda: 0
    os.environ["TZ"] = "LEAK+7"; time.tzset()
    resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50)); resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(3)
    os.register_at_fork(after_in_child=lambda: os._exit(99))
    import atexit; atexit.register(os._exit, 98)
    __name__ = "leak"; leak = 1
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    left_open = [os.open("/dev/null", 0) for _ in range(5)]
    import colorsys; colorsys.leak = 1
    sys.meta_path.clear(); sys.path_hooks.clear()
    builtins.leak = 1; builtins.print = lambda *_, **__: None; builtins.len = None; builtins.open = None
    raise SystemExit(7)
"""
FINGERPRINT = """
    import builtins, decimal, gc, io, json, locale, logging, os, random, re, resource, signal, string, sys, tempfile
    import threading, time, warnings, base64, colorsys, subprocess
    marker = os.environ.pop("BILLHOOK_CHILD")
    print(json.dumps([1]), json.loads("[1]"), re.search("x", "x"), os.path.join("a", "b"), dict(os.environ))
    print(subprocess.getoutput("env | grep -c LEAK"), os.getcwd(), oct(os.umask(0)), sys.path, sys.argv, sys.meta_path)
    print("leak" in sys.modules, hasattr(sys, "leak"), hasattr(builtins, "leak"), builtins.open, builtins.len)
    print([signal.getsignal(number) for number in sorted(signal.valid_signals())], signal.alarm(0))
    print(signal.pthread_sigmask(signal.SIG_BLOCK, []), locale.setlocale(locale.LC_ALL), sys.getrecursionlimit())
    print(sys.getswitchinterval(), sys.excepthook, sys.displayhook, sys.get_int_max_str_digits(), sys.stdout)
    print(sys.dont_write_bytecode, hasattr(sys, "tracebacklimit"), warnings.filters, decimal.getcontext())
    print(logging.root.handlers, logging.root.level, logging.getLevelName(20), logging.root.manager.disable)
    print(tempfile.tempdir, gc.isenabled(), gc.get_threshold(), string.ascii_letters, threading.stack_size())
    print(time.tzname, resource.getrlimit(resource.RLIMIT_NOFILE), os.nice(0), "leak" in globals(), __name__)
    print(threading.active_count(), os.listdir("/proc/self/fd"), hasattr(colorsys, "leak"), os.listdir("."))
    print(sorted(globals()), open("/proc/self/status").read().split("Threads:")[1].split()[0])
    print(subprocess.run(["true"]).returncode, os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1])
    child = os.fork()
    if not child:
        os._exit(4)
    print(os.waitpid(child, 0)[1])
    raise ValueError("é")
"""
SYNTAX_ERROR = "def f("
WAYS_TO_END = [
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "import os; os._exit(3)",
    "raise SystemExit('text')",
    "1 / 0",
    SYNTAX_ERROR,
    "import os; os.closerange(0, 30); os._exit(0)",
    "import os; os.killpg(0, 15)",
    "import threading, time; threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
    "import os; os.fork(); print('two')",
    "import ctypes; ctypes.string_at(0)",
    "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28)); 'x' * (1 << 30)",
]
NUMBERS = """
    import multiprocessing, os, random, secrets, tempfile, uuid, hashlib, ssl
    print(random.random(), random.getrandbits(64), random.SystemRandom().random())
    print(random.sample(range(10**9), 3))
    print(uuid.uuid4())
    print(uuid.uuid1().clock_seq, uuid.uuid1().time)
    print(secrets.token_hex(16), os.urandom(8).hex())
    print(os.path.basename(tempfile.mktemp()))
    print(multiprocessing.current_process().authkey.hex())
    print(ssl.RAND_bytes(8).hex())
"""


def fingerprint(folder: Path, start: Start) -> Result:
    case = Case(name="fingerprint", script=FINGERPRINT, normalise=ADDRESSES)
    return normalised(case, run(case, folder, start))


def test_nothing_is_left(tmp_path: Path) -> None:
    """A script that changes everything it can changes nothing for the next one."""
    expected = fingerprint(tmp_path / "here", start_plain)
    assert b"ValueError: \xc3\xa9" in expected.exit.stderr
    for _ in range(3):
        changed = run(Case(name="changes", script=CHANGES), tmp_path / "changes", start_warm)
        assert changed.exit.code == 98, changed
        found = fingerprint(tmp_path / "here", start_warm)
        assert found == expected, differences(expected, found)


@pytest.mark.parametrize("script", WAYS_TO_END)
def test_ends_leave_nothing(script: str, tmp_path: Path) -> None:
    """However a script ends, the next call is as usual."""
    text = f"import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n{script}\n"
    case = Case(name="end", script=text, again=script == SYNTAX_ERROR)
    plain, warmed = (run(case, tmp_path / "end", start).exit for start in (start_plain, start_warm))
    assert warmed == plain
    hello = run(Case(name="hello", script="print('hello')"), tmp_path / "hello", start_warm)
    assert hello.exit == Exit(code=0, stdout=b"hello\n")


def test_random_numbers_differ(tmp_path: Path) -> None:
    """No two calls get the same random numbers, names or keys."""
    calls = [run(Case(name="numbers", script=NUMBERS), tmp_path / "here", start_warm).exit for _ in range(4)]
    assert [call.code for call in calls] == [0] * 4, calls[0].stderr_text
    lines = [line for call in calls for line in call.stdout_text.split()]
    assert len(set(lines)) == len(lines) > 40


def together(cases: Sequence[Case], folder: Path) -> list[Exit | None]:
    async def gathered() -> list[Exit | None]:
        children = [await start_warm(case, folder / case.name) for case in cases]
        return await asyncio.gather(*(child.wait(SECONDS) for child in children))

    for case in cases:
        lay_out(case, folder / case.name)
    return asyncio.run(gathered())


def test_at_the_same_time(tmp_path: Path) -> None:
    """Calls that run together have their own input, output, arguments and status."""
    script = """
        import os, sys, time
        text = sys.stdin.read()
        for _ in range(5):
            print(sys.argv[1], text, os.environ["NUMBER"], os.path.basename(os.getcwd()), flush=True)
            print(sys.argv[1], file=sys.stderr)
            time.sleep(0.002)
        sys.exit(int(sys.argv[1]))
    """
    cases = [
        Case(name=f"n{n}", script=script, arguments=(str(n),), stdin=b"in%d" % n, env={"NUMBER": str(n)})
        for n in range(20)
    ]
    for n, ended in enumerate(together(cases, tmp_path)):
        out, err = f"{n} in{n} {n} n{n}\n" * 5, f"{n}\n" * 5
        assert ended == Exit(code=n, stdout=out.encode(), stderr=err.encode())


def test_changed_script(tmp_path: Path) -> None:
    """A script, and a module beside it, that change between two calls run as they are now."""
    for n in range(4):
        case = Case(
            name="changed",
            script=f"import helper\nprint({n}, helper.VALUE)\n1 / {n - 3}",
            files={"helper.py": f"VALUE = 'value {n}'\n" + "#" * n},
        )
        plain, warmed = (run(case, tmp_path / "here", start).exit for start in (start_plain, start_warm))
        assert warmed == plain
        assert warmed.stdout == b"%d value %d\n" % (n, n)


def test_new_local_module(tmp_path: Path) -> None:
    """A module that appears beside the script after a call is found by the next."""
    script = "try:\n    import late\n    print(late.__file__)\nexcept ImportError as error:\n    print(error)\n"
    for files in ({}, {"late.py": ""}, {"late/__init__.py": ""}):
        case = Case(name="late", script=script, files=files)
        plain, warmed = (run(case, tmp_path / "here", start).exit for start in (start_plain, start_warm))
        assert warmed == plain
