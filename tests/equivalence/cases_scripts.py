"""Larger scripts that use several things at once, as people combine them."""

from equivalence.harness import ADDRESSES, FRAME, Case

HELPERS = {
    "helpers/__init__.py": "from .text import shout\nNAME = __name__\n",
    "helpers/text.py": "from . import data\ndef shout(text):\n    return text.upper() + data.MARK\n",
    "helpers/data.py": "MARK = '!'\n",
    "other.py": "import helpers.text as text\nprint('other', __name__, __spec__.name, __cached__ is not None)\n",
}
CASES = [
    Case(
        name="siblings-and-packages",
        script="""
            import other, helpers, importlib, os, sys
            from helpers import shout
            print(shout("x"), helpers.NAME, helpers.__path__, other.text is sys.modules["helpers.text"])
            print(sorted(os.listdir("__pycache__")), sorted(os.listdir("helpers/__pycache__")))
            print(importlib.reload(helpers) is helpers, importlib.util.find_spec("helpers.data").origin)
            try:
                from . import other
            except ImportError as error:
                print(error)
        """,
        files=HELPERS,
    ),
    Case(
        name="siblings-without-cache",
        script="import other, os; print(os.path.exists('__pycache__'))",
        files=HELPERS,
        flags=("-B",),
    ),
    Case(name="siblings-isolated", script="import other", files=HELPERS, flags=("-I",)),
    Case(
        name="script-that-imports-itself",
        script="""
            import sys
            print(__name__)
            class Rule: pass
            if __name__ == "__main__":
                import script
                print(script.Rule is Rule, script.__spec__.name, sorted(script.__dict__) == sorted(globals()))
                sys.exit(script.Rule is Rule)
        """,
    ),
    Case(
        name="command-line-with-subcommands",
        script="""
            import argparse, sys
            parser = argparse.ArgumentParser(description="checks")
            parser.add_argument("--version", action="version", version="%(prog)s 1")
            commands = parser.add_subparsers(dest="command", required=True)
            check = commands.add_parser("check")
            check.add_argument("paths", nargs="+")
            check.add_argument("--level", type=int, choices=range(3), default=1)
            found = parser.parse_args()
            print(found)
            parser.exit(4, "done\\n")
        """,
        arguments=("check", "a b", "é\udcff", "--level", "2"),
    ),
    Case(
        name="command-line-is-wrong",
        script="""
            import argparse
            parser = argparse.ArgumentParser()
            parser.add_argument("--level", type=int)
            parser.parse_args()
        """,
        arguments=("--level", "high"),
    ),
    Case(
        name="help-at-this-width",
        script="""
            import argparse
            parser = argparse.ArgumentParser(epilog="word " * 60)
            parser.add_argument("--long-option", help="text " * 30)
            parser.parse_args()
        """,
        arguments=("-h",),
        env={"COLUMNS": "50"},
    ),
    Case(
        name="bytes-through-buffers",
        script="""
            import sys
            head = sys.stdin.buffer.peek(3)[:3]
            print(head, sys.stdin.readable(), sys.stdin.seekable(), sys.stdin.isatty(), sys.stdin.buffer.raw)
            sys.stdout.flush()
            data = sys.stdin.buffer.read()
            sys.stdout.buffer.write(bytes(reversed(data)))
            sys.stdout.write("text")
            sys.stdout.buffer.raw.write(b"raw")
        """,
        stdin=bytes(range(256)) * 900,
    ),
    Case(
        name="questions",
        script="""
            import getpass
            name = input("name? ")
            try:
                while True:
                    print(repr(input()))
            except EOFError as error:
                print(type(error), error)
            try:
                input("more? ")
            finally:
                print("asked", name)
        """,
        stdin="Zoë\r\nlast line without end".encode(),
    ),
    Case(
        name="megabyte-through",
        script="import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer, 4096); sys.exit(9)",
        stdin=b"0123456789abcde\n" * 65_000,
    ),
    Case(
        name="json-of-every-kind",
        script="""
            import json, sys
            event = json.load(sys.stdin)
            json.dump(event, sys.stdout, indent=2, sort_keys=True, ensure_ascii=False)
            print(json.dumps(event, ensure_ascii=True, separators=(",", ":")))
            json.dump({"x": float("nan"), "y": object()}, sys.stdout)
        """,
        stdin='{"b": "\\ud800é", "a": [1e400, -0.0, 12345678901234567890], "c": {}}'.encode(),
        normalise=ADDRESSES,
    ),
    Case(
        name="logging-from-everywhere",
        script="""
            import atexit, logging, logging.handlers, sys, threading, warnings
            form = "%(name)s %(processName)s %(threadName)s %(filename)s %(message)s"
            logging.basicConfig(level="DEBUG", format=form)
            logging.captureWarnings(True)
            memory = logging.handlers.MemoryHandler(100, target=logging.StreamHandler(sys.stdout))
            logging.getLogger("kept").addHandler(memory)
            logging.getLogger("kept").info("until the end")
            logging.getLogger(__name__).exception("no error")
            warnings.warn("captured")
            thread = threading.Thread(target=logging.error, args=("in a thread",), name="worker")
            atexit.register(logging.critical, "at exit")
            thread.start()
            logging.lastResort = None
            raise RuntimeError("after all")
        """,
    ),
    Case(
        name="threads-after-main",
        script="""
            import sys, threading, time
            def later():
                time.sleep(0.1)
                print("later", threading.main_thread().is_alive(), threading.current_thread().name)
                sys.exit(8)
            threading.Thread(target=later, name="non-daemon").start()
            threading.Thread(target=time.sleep, args=(99,), daemon=True).start()
            print("main ends", threading.active_count())
            sys.exit(3)
        """,
    ),
    Case(
        name="executor-at-exit",
        script="""
            import concurrent.futures, time
            pool = concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix="p")
            futures = [pool.submit(lambda n: (time.sleep(0.05), print("done", n, flush=True)), 1)]
            futures.append(pool.submit(int, "x"))
            print(futures[1].exception())
        """,
    ),
    Case(
        name="pipeline-of-programs",
        script="""
            import subprocess, sys
            print("before")  # buffered: comes last
            first = subprocess.Popen(["printf", "b\\\\na\\\\n"], stdout=subprocess.PIPE)
            second = subprocess.run(["sort"], stdin=first.stdout, text=True, capture_output=True)
            print(second, first.wait())
            subprocess.run([sys.executable, "-c", "import sys; print(sys.argv, sys.flags.isolated)", "x"], check=True)
            subprocess.run("echo $0; exit 3", shell=True, check=True)
        """,
        normalise={"'/[^']*python[^']*'": "PYTHON"},
    ),
    Case(
        name="program-reads-the-same-input",
        script="""
            import subprocess, sys
            print(repr(sys.stdin.readline()), flush=True)
            subprocess.run(["cat"])
        """,
        stdin=b"first\nsecond\n",
    ),
    Case(
        name="asyncio-programs",
        script="""
            import asyncio, sys
            async def main():
                made = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
                print(await made.communicate(b"through"), made.returncode)
                loop = asyncio.get_running_loop()
                print(type(loop).__name__, loop.get_debug(), await asyncio.to_thread(sum, [1, 2]))
                asyncio.create_task(asyncio.sleep(99), name="left")
                await asyncio.gather(asyncio.sleep(0), main_error())
            async def main_error():
                raise KeyError("in a task")
            asyncio.run(main())
        """,
    ),
    Case(
        name="handlers-of-signals",
        script="""
            import faulthandler, os, signal, sys, threading
            def handler(number, frame):
                print(signal.Signals(number).name, frame.f_code.co_name, frame.f_lineno, frame.f_back)
            for name in ("SIGUSR1", "SIGTERM", "SIGCHLD", "SIGALRM"):
                signal.signal(getattr(signal, name), handler)
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            signal.pause()
            os.kill(os.getpid(), signal.SIGUSR1)
            signal.raise_signal(signal.SIGTERM)
            print(signal.set_wakeup_fd(-1), faulthandler.is_enabled(), signal.siginterrupt(signal.SIGUSR1, False))
            faulthandler.dump_traceback(file=sys.stdout)
            sys.stdout.flush()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        """,
        normalise=ADDRESSES | {'File "[^"]*warm_[^\n]*\n': ""},
        unlike=FRAME,
    ),
    Case(
        name="temporary-names",
        script="""
            import os, pathlib, tempfile
            with tempfile.TemporaryDirectory(prefix="x-") as folder:
                path = pathlib.Path(folder) / "f"
                print(path.write_text("é"), oct(path.stat().st_mode), oct(os.stat(folder).st_mode))
                print(tempfile.gettempdir())
            kept = tempfile.NamedTemporaryFile(dir=".", delete=False, prefix="kept-")
            kept.write(b"never closed")
            os.rename(kept.name, "kept")
        """,
    ),
    Case(
        name="locale-and-encodings",
        script="""
            import locale, os, sys, time
            print(locale.getlocale(), locale.getpreferredencoding(), locale.setlocale(locale.LC_ALL, ""))
            print(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), sys.getdefaultencoding())
            print(locale.localeconv()["decimal_point"], time.strftime("%x %A", (2024, 2, 29, 0, 0, 0, 3, 60, 0)))
            print(open("new", "w").encoding, os.fsencode("é"), locale.strcoll("a", "B") < 0)
        """,
        env={"LC_ALL": "C"},
    ),
    Case(
        name="site-and-configuration",
        script="""
            import site, sys, sysconfig, platform
            print(site.ENABLE_USER_SITE, site.PREFIXES, site.getsitepackages(), site.getusersitepackages())
            print(sysconfig.get_paths(), sysconfig.get_config_var("prefix"), sysconfig.is_python_build())
            print(platform.python_version(), sys.prefix == sys.base_prefix, sys.exec_prefix, sys.platlibdir)
        """,
    ),
    Case(
        name="user-site-off",
        script="import site, sys; print(site.ENABLE_USER_SITE, sys.flags, sys.path)",
        flags=("-s", "-E"),
        env={"PYTHONPATH": "/nowhere", "PYTHONDONTWRITEBYTECODE": "1"},
    ),
    Case(
        name="classes-of-main-through-pickle",
        script="""
            import copy, dataclasses, enum, multiprocessing, pickle, sys
            @dataclasses.dataclass(frozen=True, order=True)
            class Item:
                name: str
                tags: list = dataclasses.field(default_factory=list, compare=False)
            class Kind(enum.Flag):
                A = enum.auto()
                B = enum.auto()
            def work(item):
                return dataclasses.replace(item, name=item.name + "!"), Kind.A | Kind.B
            if __name__ == "__main__":
                data = pickle.dumps([Item("x", [1]), Kind.A, work], 5)
                print(len(data), pickle.loads(data), copy.deepcopy(Item("y")) == Item("y"), Item.__module__)
                for method in sys.argv[1:]:
                    with multiprocessing.get_context(method).Pool(1) as pool:
                        print(pool.map(work, [Item("z")]))
        """,
        arguments=("fork", "spawn"),
        normalise=ADDRESSES,
    ),
    Case(
        name="sources",
        script="""
            import inspect, linecache, sys, traceback
            def documented(a: int, /, b=2, *, c: "str" = ""):
                '''What it does.'''
                return inspect.currentframe()
            print(inspect.getsource(documented), inspect.signature(documented), inspect.getdoc(documented))
            print(inspect.getsourcefile(documented), inspect.getmodule(documented))
            print(inspect.getfile(sys.modules[__name__]))
            print(linecache.getline(__file__, 2), documented(1).f_lineno, documented.__code__.co_filename)
            print(traceback.extract_stack()[-1], inspect.getmodulename(__file__))
            print(inspect.getsource(sys.modules["__main__"])[:40])
        """,
        normalise=ADDRESSES,
    ),
    Case(
        name="replaced-by-another-script",
        script="""
            import os, sys
            print("first", flush=True)
            os.environ["SEEN"] = "1"
            os.execv(sys.executable, [sys.executable, "-u", "next.py", *sys.argv[1:]])
        """,
        files={"next.py": "import os, sys\nprint(os.environ['SEEN'], sys.argv, sys.stdin.read())\nsys.exit(6)\n"},
        arguments=("a", ""),
        stdin=b"input",
    ),
    Case(
        name="restarts-itself",
        script="""
            import os, sys
            if os.environ.get("AGAIN") != "2":
                os.environ["AGAIN"] = str(int(os.environ.get("AGAIN", "0")) + 1)
                os.execvp(sys.orig_argv[0], sys.orig_argv)
            print(sys.orig_argv, sys.argv)
        """,
        arguments=("x", "y z"),
    ),
    Case(
        name="descriptors-moved",
        script="""
            import os, sys
            saved = os.dup(1)
            os.dup2(os.open("log", os.O_CREAT | os.O_WRONLY), 1)
            print("into the log", saved)
            sys.stdout.flush()
            os.dup2(saved, 1)
            print("back", os.get_inheritable(1), os.get_blocking(0))
            sys.stdin.close()
            print(os.open("/dev/null", os.O_RDONLY))
        """,
    ),
    Case(
        name="limits-of-resources",
        script="""
            import resource, signal, sys
            print([resource.getrlimit(which) for which in range(resource.RLIMIT_NLIMITS
                   if hasattr(resource, "RLIMIT_NLIMITS") else 10)])
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            try:
                with open("big", "wb") as file:
                    file.write(b"x" * 200)
            except OSError as error:
                print(error, file.tell() if not file.closed else "closed")
            resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
            try:
                files = [open(__file__) for _ in range(20)]
            except OSError as error:
                print(error)
        """,
    ),
    Case(
        name="processor-time-is-limited",
        script="import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass\n",
        slow=True,
    ),
    Case(
        name="names-in-unicode",
        script="""
            import os, sys
            print(ascii(sys.argv), ascii(__file__), ascii(sys.path[0]), ascii(sorted(os.listdir("."))))
            größe = "naïve"
            print(größe, os.path.exists(sys.argv[1]))
            raise ValueError("日本")
        """,
        path="dossier é/скрипт.py",
        stored="dossier é/скрипт.py",
        files={"fichier ü": ""},
        arguments=("fichier ü", "\udce9", "a\nb", "🙂"),
    ),
    Case(
        name="futures",
        script="""
            # comment
            '''Doc.'''
            from __future__ import annotations, generator_stop
            import __future__
            def f(x: nonexistent) -> also.missing: ...
            print(f.__annotations__, __doc__, annotations.compiler_flag, eval("f.__code__.co_flags") & 0x1000000 != 0)
            print(compile("x: y", "n", "exec").co_flags & annotations.compiler_flag)
        """,
    ),
    Case(
        name="future-too-late",
        script="import os\nfrom __future__ import annotations\n",
        again=True,
    ),
    Case(
        name="syntax-error-at-run-time",
        script="""
            import ast
            for text in ("def f(:", "x = = 1", "'unclosed", "return", "  x", "print 'x'", "f'{'"):
                try:
                    compile(text, "given", "exec")
                except SyntaxError as error:
                    print(type(error).__name__, error, error.text, error.offset)
            exec("1 +")
        """,
    ),
    Case(
        name="errors-with-causes-and-notes",
        script="""
            import sys
            class Odd(Exception):
                def __str__(self):
                    raise ValueError("no text")
            def first():
                {}["key"]
            def second():
                try:
                    first()
                except KeyError as error:
                    if hasattr(error, "add_note"):
                        error.add_note("a note\\nof two lines")
                    raise Odd from error
            try:
                second()
            except Odd:
                [1 for x in "ab" if x.missing]
        """,
    ),
    Case(
        name="deep-recursion-ends-in-an-error",
        script="""
            import sys
            print(sys.getrecursionlimit())
            sys.setrecursionlimit(300)
            def down(): down()
            down()
        """,
        normalise={r"repeated \d+ more times": "repeated"},
    ),
    Case(
        name="tracing-of-a-script",
        script="""
            import sys, threading
            lines = []
            def trace(frame, event, argument):
                lines.append((frame.f_code.co_name, event, frame.f_lineno))
                return trace
            sys.settrace(trace)
            def f(x):
                return x + 1
            f(1)
            sys.settrace(None)
            print(lines)
            sys.setprofile(lambda *given: None)
            print(sys.getprofile() is not None, sys.gettrace())
        """,
    ),
    Case(
        name="warnings-as-errors",
        script="""
            import warnings
            try:
                warnings.warn("old", DeprecationWarning)
            except DeprecationWarning as error:
                print("raised", error)
            warnings.simplefilter("always")
            warnings.warn("shown", UserWarning)
            print(warnings.filters[:2])
            open(__file__)
            import imp_that_is_missing
        """,
        flags=("-W", "error", "-Wignore::ImportWarning"),
    ),
    Case(
        name="seed-and-flags",
        script="""
            import sys
            print(hash("text"), sorted({"b", "a", "c", "é"}, key=hash), list({"x", "y", "z"}), sys.flags, __debug__)
            assert False
        """,
        flags=("-uOB",),
        env={"PYTHONHASHSEED": "42"},
    ),
    Case(
        name="unbuffered-order",
        script="""
            import os, sys
            for number in range(5):
                print("out", number, end=" ")
                os.write(2, b"err ")
                os.write(1, b"low ")
            sys.stderr.write("partial")
            os._exit(5)
        """,
        flags=("-u",),
    ),
    Case(
        name="module-variables-at-the-end",
        script="""
            import atexit, weakref, sys
            class Kept:
                def __init__(self, name):
                    self.name = name
                def __del__(self, out=sys.stdout.write):
                    out(f"{self.name} ends, {atexit is not None}, {sys is not None}\\n")
            a, _b, c = Kept("a"), Kept("_b"), Kept("c")
            cycle = [Kept("in a cycle")]
            cycle.append(cycle)
            weakref.finalize(c, print, "finalized")
            atexit.register(print, "at exit")
            del cycle
        """,
    ),
    Case(
        name="contexts-and-generators-at-the-end",
        script="""
            import contextlib, sys
            @contextlib.contextmanager
            def held(name):
                print("enter", name)
                try:
                    yield name
                finally:
                    print("leave", name, flush=True)
            stack = contextlib.ExitStack()
            stack.enter_context(held("one"))
            other = held("two")
            other.__enter__()
            sys.exit("not closed")
        """,
    ),
    Case(
        name="threads-and-forks",
        script="""
            import os, threading, time
            lock = threading.Lock()
            threading.Thread(target=time.sleep, args=(0.3,)).start()
            print("once", flush=True)
            child = os.fork()
            if not child:
                print("child", threading.active_count(), threading.main_thread() is threading.current_thread())
                exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        flags=("-W", "ignore"),
    ),
    Case(
        name="state-between-lines",
        script="""
            import sqlite3, csv, datetime, decimal, io, random, textwrap, uuid, zoneinfo, collections, statistics
            random.seed(1)
            print(random.random(), decimal.getcontext().prec, statistics.mean([1, 2]), uuid.UUID(int=1))
            print(datetime.datetime(2024, 1, 1).astimezone().tzname())
            print(sqlite3.connect(":memory:").execute("select 1").fetchone())
            print(list(csv.reader(io.StringIO("a,'b'\\n"))), textwrap.shorten("a b c", 4), collections.Counter("aab"))
        """,
    ),
    Case(
        name="lock-of-a-file",
        script="""
            import fcntl, os
            file = open("lock", "w")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            child = os.fork()
            if not child:
                try:
                    fcntl.flock(open("lock"), fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    os.write(1, str(error).encode())
                os._exit(0)
            os.wait()
        """,
    ),
]
