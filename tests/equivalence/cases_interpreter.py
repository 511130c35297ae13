"""What a script finds in its interpreter: `__main__`, `sys`, hooks, frames, built-ins."""

from equivalence.harness import ADDRESSES, FRAME, Case

CASES = [
    Case(
        name="main-dict",
        script="""
            for name, value in list(globals().items()):
                if name == "__loader__":
                    value = (type(value), value.name, value.path)
                print(name, value)
        """,
    ),
    Case(
        name="main-module",
        script="""
            import sys
            import __main__
            print(sys.modules["__main__"] is __main__, vars(__main__) is globals(), type(__main__), repr(__main__))
            print(__name__, __file__, __spec__, __package__, __doc__, __builtins__, __cached__)
            print(sorted(dir()), globals() is locals())
        """,
    ),
    Case(
        name="main-docstring",
        script='''
            """What this script does."""
            limit: int = 3
            print(__doc__, __annotations__)
            print(__loader__.get_filename("__main__"), __loader__.is_package("__main__"))
            print(__loader__.get_source("__main__"))
        ''',
    ),
    Case(
        name="main-changed",
        script="""
            import sys
            del __file__, __doc__
            __name__ = "other"
            sys.modules["__main__"] = sys
            def show():
                print(sorted(globals()))
            show()
            raise ValueError("after that")
        """,
    ),
    Case(
        name="main-removed",
        script="""
            import atexit, sys
            del sys.modules["__main__"]
            atexit.register(lambda: print("__main__" in sys.modules, __name__))
            try:
                import __main__
            except ImportError as error:
                print(error)
        """,
    ),
    Case(
        name="main-names-of-a-hook",
        script="""
            # Names that a runner could have left or overwritten.
            for name in ("sys", "os", "main", "run", "code", "text", "path", "argv", "fd", "warm_main", "exec"):
                print(name, name in globals(), name in dir(__builtins__))
        """,
    ),
    Case(
        name="main-imports-main",
        script="""
            import helper
            value = 5
            helper.show()
        """,
        files={
            "helper.py": """
                import __main__
                def show():
                    print(__main__.value, __main__.__file__, __main__.__name__)
            """
        },
    ),
    Case(
        name="argv",
        script="import sys; print(sys.argv, sys.orig_argv)",
        arguments=("a b", "", "--", "-u", "é€", "*", "$HOME", "line\nbreak", "-c", "\udce9"),
        env={"LANG": "C.UTF-8"},
    ),
    Case(name="no-arguments", script="import sys; print(sys.argv, sys.orig_argv, len(sys.argv))"),
    Case(
        name="arguments-of-argparse",
        script="""
            import argparse
            parser = argparse.ArgumentParser(description="A hook")
            parser.add_argument("--event", choices=["a", "b"], required=True)
            print(parser.parse_args(["--event", "a"]))
            parser.parse_args()
        """,
        arguments=("--event", "c"),
    ),
    Case(name="path", script="import sys; print(*sys.path, sep='\\n'); print(len(sys.path))"),
    Case(
        name="finders",
        script="""
            import sys
            print(sys.meta_path)
            print(sys.path_hooks)
        """,
        normalise=ADDRESSES,
    ),
    Case(name="flags", script="import sys; print(sys.flags, sys._xoptions, sys.warnoptions)"),
    Case(
        name="identity",
        script="""
            import sys
            for name in ("executable", "_base_executable", "prefix", "base_prefix", "exec_prefix", "base_exec_prefix",
                         "version", "hexversion", "platform", "platlibdir", "pycache_prefix", "dont_write_bytecode",
                         "byteorder", "maxsize", "api_version", "copyright", "ps1", "tracebacklimit"):
                print(name, getattr(sys, name, "missing"))
            print(sys.implementation)
        """,
    ),
    Case(
        name="settings",
        script="""
            import gc, sys
            print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.getdefaultencoding())
            print(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), sys.get_int_max_str_digits())
            print(sys.gettrace(), sys.getprofile(), sys.get_asyncgen_hooks(), sys.get_coroutine_origin_tracking_depth())
            print(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks, gc.garbage)
            print(sys.is_finalizing(), sys.getdlopenflags(), sys.exc_info(), sys.thread_info)
        """,
    ),
    Case(
        name="hooks",
        script="""
            import builtins, sys
            print(sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__)
            print(sys.unraisablehook is sys.__unraisablehook__, sys.breakpointhook is sys.__breakpointhook__)
            print(sys.excepthook, sys.displayhook, sys.unraisablehook, sys.breakpointhook)
            print(builtins.__import__, builtins.open, builtins.print, builtins.input, builtins.__build_class__)
            print(hasattr(sys, "last_type"), hasattr(sys, "last_value"), hasattr(sys, "last_traceback"))
            import threading
            print(threading.excepthook)
        """,
    ),
    Case(
        name="builtins",
        script="""
            import builtins
            print(sorted(vars(builtins)))
            print(exit, quit, copyright, credits, license, help, type(builtins._) if hasattr(builtins, "_") else "")
        """,
    ),
    Case(
        name="foreign-modules",
        script="""
            import sys
            odd = [name for name in sys.modules if "warm" in name or "billhook" in name or name.startswith("__mp")]
            print(odd)
            for name in sys.modules:
                origin = getattr(sys.modules[name], "__file__", None) or ""
                if "billhook" in origin:
                    print(name, origin)
        """,
    ),
    Case(
        name="frames",
        script="""
            import inspect, sys, traceback
            frame = sys._getframe()
            print(frame.f_code.co_name, frame.f_code.co_filename, frame.f_code.co_firstlineno, frame.f_lineno)
            print(frame.f_globals is globals(), frame.f_locals is globals(), frame.f_back is None)
            def inner():
                return len(inspect.stack()), traceback.format_stack()
            print(*inner())
            traceback.print_stack()
        """,
        unlike=FRAME,
    ),
    Case(
        name="recursion-depth",
        script="""
            def dive(depth):
                try:
                    return dive(depth + 1)
                except RecursionError:
                    return depth
            print(dive(0))
        """,
        unlike=FRAME,
    ),
    Case(
        name="annotations-are-evaluated",
        script="""
            def check(count: 1 + 1) -> "text": ...
            print(check.__annotations__)
            print(eval("1"), compile("1", "x", "eval").co_flags)
        """,
    ),
    Case(
        name="annotations-of-the-future",
        script="""
            from __future__ import annotations
            def check(count: Undefined[int]) -> None: ...
            print(check.__annotations__, annotations.compiler_flag)
        """,
    ),
    Case(name="optimised", script="print(__debug__)\nassert False, 'off'", flags=("-O",)),
    Case(name="asserts", script="print(__debug__)\nassert 1 == 2, 'on'"),
    Case(
        name="hash-seed",
        script="""
            import sys
            print(hash("a"), hash(b"b"), hash("déjà"), {"x", "y", "z", "w"}, sys.flags.hash_randomization)
            print(hash(1.5), hash((1, "a")))
        """,
        env={"PYTHONHASHSEED": "42"},
    ),
    Case(
        name="hash-seed-0",
        script="import sys; print(hash('a'), list({'x', 'y', 'z'}), sys.flags.hash_randomization)",
        env={"PYTHONHASHSEED": "0"},
    ),
    Case(name="hash-random", script="import sys; print(sys.flags.hash_randomization, hash('a') == hash('a'))"),
    Case(
        name="warning-filters",
        script="""
            import warnings
            print(*warnings.filters, sep="\\n")
            print(warnings.defaultaction, warnings.onceregistry, "__warningregistry__" in globals())
            warnings.warn("old", DeprecationWarning)
            warnings.warn("careful")
            for _ in range(2):
                warnings.warn("once per line", UserWarning)
            warnings.warn("hidden", ImportWarning)
            print(list(__warningregistry__))
        """,
    ),
    Case(
        name="warning-beyond-the-top",
        script="import warnings; warnings.warn('there is no caller', stacklevel=2)",
        unlike=FRAME,
    ),
    Case(
        name="warnings-of-the-compiler",
        script="""
            pattern = "\\\\d \\d"
            if 1 is 1:
                print(pattern)
            assert (1, "always true")
        """,
    ),
    Case(
        name="warning-options",
        script="""
            import sys, warnings
            print(sys.warnoptions, warnings.filters[:3])
            warnings.warn("now an error", DeprecationWarning)
        """,
        env={"PYTHONWARNINGS": "error::DeprecationWarning,ignore::UserWarning"},
    ),
    Case(
        name="resource-warning",
        script="""
            import tracemalloc
            print(tracemalloc.is_tracing())
            def leak():
                open(__file__)
            leak()
        """,
        flags=("-W", "default"),
    ),
    Case(
        name="threads-at-start",
        script="""
            import os, sys, threading
            main = threading.main_thread()
            print(main, main is threading.current_thread(), main.ident == threading.get_ident())
            print(main.native_id == os.getpid() == threading.get_native_id(), threading.enumerate() == [main])
            print(threading.active_count(), len(sys._current_frames()), threading.stack_size(), main.daemon)
        """,
        normalise={r"\b\d{8,}\b": "IDENT"},
    ),
    Case(
        name="contexts",
        script="""
            import contextvars, decimal, locale, time
            print(len(contextvars.copy_context()), decimal.getcontext(), decimal.DefaultContext)
            print(locale.setlocale(locale.LC_ALL), locale.getlocale(), time.tzname, time.timezone, time.daylight)
            print(time.localtime(0), time.strftime("%A %B", time.gmtime(0)))
        """,
    ),
    Case(
        name="clock-of-logging",
        script="""
            # The script was written just before the call.
            import logging, os
            start = logging._startTime
            print(os.stat(__file__).st_mtime <= (start / 1e9 if start > 1e12 else start))
        """,
    ),
    Case(
        name="exit-helpers-at-start",
        script="""
            import atexit, weakref, threading
            print(weakref.finalize._registry == {}, weakref.finalize._registered_with_atexit)
        """,
    ),
    Case(
        name="audit",
        script="""
            import sys
            seen = []
            def note(event, arguments):
                if event in ("open", "import", "exec", "compile", "os.putenv") and len(seen) < 40:
                    seen.append(event)
            sys.addaudithook(note)
            open(__file__).close()
            exec("1")
            print(seen)
        """,
    ),
    Case(
        name="tracing",
        script="""
            import sys
            calls = []
            def trace(frame, event, argument):
                calls.append((event, frame.f_code.co_name, frame.f_lineno))
                return trace
            def work():
                return 1 + 1
            sys.settrace(trace)
            work()
            sys.settrace(None)
            print(calls)
        """,
    ),
    Case(
        name="display",
        script="""
            import sys
            sys.displayhook("text")
            import builtins
            print(builtins._, sys.getrefcount(object()) > 0)
        """,
    ),
    Case(
        name="development-mode",
        script="import faulthandler, sys; print(sys.flags.dev_mode, sys.warnoptions, faulthandler.is_enabled())",
        flags=("-X", "dev"),
        refused=True,
    ),
    Case(
        name="fault-handler",
        script="""
            import faulthandler, sys
            print(faulthandler.is_enabled(), sys._xoptions)
            faulthandler.dump_traceback(file=sys.stdout, all_threads=False)
        """,
        unlike=FRAME,
        env={"PYTHONFAULTHANDLER": "1"},
        normalise=ADDRESSES,
    ),
    Case(
        name="trace-memory",
        slow=True,
        script="import tracemalloc; print(tracemalloc.is_tracing(), tracemalloc.get_traceback_limit())",
        env={"PYTHONTRACEMALLOC": "3"},
    ),
]
