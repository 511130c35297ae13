"""How scripts end: exit codes, uncaught exceptions and their tracebacks, what runs at exit."""

from equivalence.harness import ADDRESSES, FRAME, Case

EXITS = {
    "nothing": "sys.exit()",
    "none": "sys.exit(None)",
    "zero": "sys.exit(0)",
    "one": "sys.exit(1)",
    "two": "sys.exit(2)",
    "255": "sys.exit(255)",
    "256": "sys.exit(256)",
    "minus-one": "sys.exit(-1)",
    "31-bits": "sys.exit(2**31)",
    "64-bits": "sys.exit(2**64 + 3)",
    "minus-64-bits": "sys.exit(-(2**70))",
    "true": "sys.exit(True)",
    "float": "sys.exit(3.5)",
    "text": "sys.exit('blocked: é')",
    "empty-text": "sys.exit('')",
    "bytes": "sys.exit(b'bytes')",
    "tuple": "sys.exit((1, 2))",
    "list": "sys.exit([])",
    "two-arguments": "raise SystemExit(1, 2)",
    "class": "raise SystemExit",
    "chained": "raise SystemExit(3) from ValueError('hidden')",
    "builtin": "exit(4)",
    "quit": "quit('reason')",
    "at-once": "os._exit(6)",
    "at-once-256": "os._exit(256 + 5)",
    "surrogate": "sys.exit('\\udc80')",
    "falls-off": "pass",
}
CODES = [
    Case(
        name=f"exit-{name}",
        script=f"import os, sys\nprint('out')\nprint('err', file=sys.stderr)\n{statement}\n",
    )
    for name, statement in EXITS.items()
]
ERRORS = {
    "plain": "1 / 0",
    "nested": """
def outer(value):
    return inner(value) + 1
def inner(value):
    return {"key": value}["missing"][0]
outer(
    5
)
""",
    "from": """
try:
    int("x")
except ValueError as error:
    raise RuntimeError("wrapped") from error
""",
    "context": """
try:
    [][1]
except IndexError:
    {}["a"]
""",
    "from-none": """
try:
    [][1]
except IndexError:
    raise KeyError("alone") from None
""",
    "group": "raise ExceptionGroup('several', [ValueError('a'), ExceptionGroup('inner', [KeyError('b')])])",
    "note": """
error = ValueError("with notes")
error.add_note("first")
error.add_note("second\\nline")
raise error
""",
    "name": "valeu = 1\nvalue",
    "attribute": "import os\nos.getpidd()",
    "module": "import nonexistent_module_of_a_hook",
    "from-module": "from os import nonexistent_name",
    "recursion": "def dive(): return dive()\ndive()",
    "mutual-recursion": "def a(): return b()\ndef b(): return a()\na()",
    "interrupt": "raise KeyboardInterrupt",
    "interrupt-text": "raise KeyboardInterrupt('by hand')",
    "interrupt-subclass": "class Stop(KeyboardInterrupt): ...\nraise Stop",
    "base": "class Odd(BaseException): ...\nraise Odd('base')",
    "generator": "raise GeneratorExit",
    "stop": "raise StopIteration(5)",
    "memory": "raise MemoryError",
    "lines": "raise ValueError('one\\n  two\\nthree')",
    "unicode": "raise ValueError('é € \\udc80 \\x00')",
    "qualified": "import json\njson.loads('[1,')",
    "bad-str": """
class Bad(Exception):
    def __str__(self):
        raise ValueError("no text")
raise Bad
""",
    "bad-class": "raise 5",
    "bad-exit": """
class Odd:
    def __str__(self):
        raise ValueError("no text")
import sys
sys.exit(Odd())
""",
    "no-class-module": "Error = type('Error', (Exception,), {'__module__': 5})\nraise Error",
    "limit": "import sys\nsys.tracebacklimit = 1\ndef f(): 1 / 0\ndef g(): f()\ng()",
    "limit-zero": "import sys\nsys.tracebacklimit = 0\n1 / 0",
    "compiled": "exec(compile('def f():\\n    1 / 0\\n\\nf()', '<made>', 'exec'))",
    "evaluated": "eval('1 +')",
    "in-lambda": "(lambda: (lambda: 1 / 0)())()",
    "in-class": "class Broken:\n    value = 1 / 0",
    "in-decorator": "def deco(f): raise TypeError('no')\n@deco\ndef f(): ...",
    "in-comprehension": "print([1 / (n - 1) for n in range(3)])",
    "in-generator": "def count():\n    yield 1\n    raise OSError(2, 'no', 'file')\nfor n in count():\n    print(n)",
    "in-with": """
class Guard:
    def __enter__(self): ...
    def __exit__(self, *about):
        raise RuntimeError("while leaving")
with Guard():
    raise ValueError("inside")
""",
    "in-finally": "try:\n    raise ValueError('first')\nfinally:\n    print('finally')",
    "in-coroutine": "import asyncio\nasync def f():\n    await g()\nasync def g():\n    1 / 0\nasyncio.run(f())",
    "multi-line": "value = (1 +\n    2 +\n    None +\n    3)",
    "long-line": "value = 1 / 0 if " + "True and " * 60 + "True else 0",
    "wide": "print('日本語', 1 / 0)",
    "tabs": "if True:\n\t\t1 / 0",
    "unbound": "def f():\n    print(x)\n    x = 1\nf()",
    "assertion": "assert [1, 2] == [1, 3], 'lists differ'",
    "traceback-module": "import traceback\ntry:\n    [][0]\nexcept LookupError:\n    traceback.print_exc()\n    raise",
    "with-traceback": "import sys\ntry:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise e.with_traceback(None)",
    "traceback-object": """
import sys
def fail():
    1 / 0
try:
    fail()
except ZeroDivisionError as error:
    tb = error.__traceback__
    while tb:
        print(tb.tb_lineno, tb.tb_frame.f_code.co_name, tb.tb_frame.f_back and tb.tb_frame.f_back.f_code.co_name)
        tb = tb.tb_next
""",
    "last-value": """
import atexit, sys
def show():
    print(sys.last_type, sys.last_value, sys.last_traceback.tb_lineno, sys.last_traceback.tb_next, sys.exc_info())
atexit.register(show)
raise ValueError("kept")
""",
    "hook": """
import sys
def hook(kind, value, tb):
    print("hook", kind, value, tb.tb_lineno, tb.tb_next, tb.tb_frame.f_code.co_filename)
sys.excepthook = hook
raise ValueError("to the hook")
""",
    "hook-fails": "import sys\ndef hook(*about):\n    raise KeyError('in the hook')\nsys.excepthook = hook\n1 / 0",
    "hook-exits": "import sys\nsys.excepthook = lambda *about: sys.exit(9)\n1 / 0",
    "hook-missing": "import sys\ndel sys.excepthook\n1 / 0",
    "hook-none": "import sys\nsys.excepthook = None\n1 / 0",
    "hook-sees-exit": "import sys\nsys.excepthook = lambda *about: print('not called')\nsys.exit(3)",
    "stderr-broken": "import sys\nclass Bad:\n    def write(self, text): raise OSError\nsys.stderr = Bad()\n1 / 0",
    "stderr-gone": "import sys\ndel sys.stderr\n1 / 0",
    "stderr-own": """
import sys
class Upper:
    def write(self, text):
        sys.__stdout__.write(text.upper())
sys.stderr = Upper()
raise ValueError("in capitals")
""",
    "unraisable-hook": """
import sys
sys.unraisablehook = lambda info: print("unraisable", info.exc_value, info.err_msg)
class Bad:
    def __del__(self):
        raise ValueError("in del")
Bad()
""",
    "display": "class C:\n    def __repr__(self): raise ValueError\nprint(C())",
}
FRAMES = ("recursion", "traceback-object")  # they show the frame below the script
COUNTS = {r"object refcount : \d": "object refcount : N"}
TRACEBACKS = [
    Case(
        name=f"error-{name}",
        script=text.lstrip("\n") + "\n",
        normalise={**ADDRESSES, **COUNTS},
        unlike=FRAME if name in FRAMES else "",
    )
    for name, text in ERRORS.items()
]
SYNTAX = {
    "expression": "print('never')\nvalue = 1 +\n",
    "quote": "print('never)\n",
    "bracket": "values = [1, 2\nprint(values)\n",
    "mismatch": "values = (1, 2]\n",
    "indent": "def f():\nprint('x')\n",
    "unindent": "if True:\n        a = 1\n    b = 2\n",
    "tabs": "if True:\n        a = 1\n\tb = 2\n",
    "keyword": "print 'old'\n",
    "assign": "f() = 1\n",
    "return": "return 5\n",
    "await": "await x\n",
    "nonlocal": "nonlocal x\n",
    "future": "import os\nfrom __future__ import annotations\n",
    "unknown-future": "from __future__ import braces\n",
    "invisible": "value\u00a0= 1\n",
    "long": "x = " + "1 + " * 300 + "\n",
    "end": "def f(\n",
    "f-string": "print(f'{1 +}')\n",
    "escape": "print('\\x')\n",
    "nested": "(" * 300 + "\n",
    "walrus": "value := 1\n",
}
USUAL = ("expression", "quote", "indent", "keyword", "future", "end")  # the others are for the slow run
SYNTAX_ERRORS = [
    Case(name=f"syntax-{name}", script=text.encode(), again=True, slow=name not in USUAL)
    for name, text in SYNTAX.items()
]
BROKEN_SOURCE = [
    Case(name="source-null", script=b"print('a')\nprint('\0')\n", refused=True),
    Case(name="source-not-utf8", script=b"print('a')\nprint('\xe9')\n", again=True),
    Case(name="source-unknown-coding", script=b"# -*- coding: nonexistent -*-\nprint('a')\n", again=True),
    Case(name="source-bom-and-coding", script=b"\xef\xbb\xbf# coding: latin-1\nprint('a')\n", again=True),
    Case(name="source-wrong-coding", script=b"# coding: ascii\nprint('\xc3\xa9')\n", again=True),
    Case(name="source-binary", script=bytes(range(256)), refused=True),
]
AT_EXIT = [
    Case(
        name="atexit",
        script="""
            import atexit, sys
            @atexit.register
            def first():
                print("first registered")
            atexit.register(print, "second", sep="-", end="!\\n")
            gone = atexit.register(lambda: print("never"))
            atexit.unregister(gone)
            atexit.register(lambda: atexit.register(print, "registered at exit"))
            sys.exit(3)
        """,
    ),
    Case(
        name="atexit-fails",
        normalise=ADDRESSES,
        script="import atexit\natexit.register(lambda: 1 / 0)\natexit.register(print, 'still')\n",
    ),
    Case(name="atexit-exits", script="import atexit, sys\natexit.register(sys.exit, 5)\natexit.register(print, 'x')\n"),
    Case(name="atexit-kills", script="import atexit, os\natexit.register(os._exit, 5)\nprint('buffered')\n"),
    Case(name="atexit-after-error", script="import atexit\natexit.register(print, 'end')\nraise ValueError('x')\n"),
    Case(
        name="atexit-count",
        script="import atexit\natexit.register(print, 1)\natexit._run_exitfuncs()\nprint(atexit._ncallbacks())\n",
    ),
    Case(
        name="finalizers",
        script="""
            import weakref
            class Resource: ...
            resource = Resource()
            weakref.finalize(resource, print, "finalised")
            other = Resource()
            weakref.finalize(other, print, "earlier").atexit = True
            del other
            print("end")
        """,
    ),
    Case(
        name="generator-at-exit",
        script="""
            def steps():
                try:
                    yield 1
                finally:
                    print("generator closed")
            running = steps()
            next(running)
        """,
    ),
    Case(
        name="modules-at-exit",
        script="""
            import helper, sys
            class Last:
                def __del__(self):
                    print("helper" if helper else "none", sys.modules is not None)
            helper.kept = Last()
            own = Last()
        """,
        files={"helper.py": "import atexit\natexit.register(print, 'helper at exit')\n"},
    ),
    Case(
        name="interrupt-in-atexit",
        script="import atexit, os, signal\natexit.register(os.kill, os.getpid(), signal.SIGINT)\nprint('main')\n",
    ),
    Case(
        name="interrupt-is-caught",
        script="""
            import os, signal, sys
            try:
                os.kill(os.getpid(), signal.SIGINT)
                import time; time.sleep(30)
            except KeyboardInterrupt:
                print("caught")
                sys.exit(130)
        """,
    ),
    Case(
        name="interrupt-default-action",
        script="import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nprint('x')\nos.kill(os.getpid(), 2)\n",
    ),
    Case(
        name="exit-in-try",
        script="""
            import sys
            try:
                sys.exit(3)
            except Exception:
                print("not caught")
            finally:
                print("finally")
                try:
                    sys.exit("second")
                except SystemExit as error:
                    print(error.code, error.args)
        """,
    ),
    Case(
        name="exit-changed",
        script="""
            error = SystemExit(1)
            error.code = 7
            raise error
        """,
    ),
    Case(
        name="exit-subclass",
        script="""
            class Leave(SystemExit):
                def __init__(self):
                    super().__init__("ignored")
                    self.code = 12
            raise Leave
        """,
    ),
    Case(
        name="exit-group",
        script="raise BaseExceptionGroup('both', [SystemExit(3), KeyboardInterrupt()])\n",
    ),
]
CASES = [*CODES, *TRACEBACKS, *SYNTAX_ERRORS, *BROKEN_SOURCE, *AT_EXIT]
