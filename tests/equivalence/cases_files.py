"""Where a script is, how its text is stored, and what it imports."""

from textwrap import dedent

from equivalence.harness import ADDRESSES, Case

WHERE = """
    import os, sys
    print(__file__, sys.argv, sys.path[0], os.getcwd(), sys.orig_argv)
    def where(): ...
    print(where.__code__.co_filename)
    1 / 0
"""
PLACES = [
    Case(name="place-absolute", script=WHERE, path="{folder}/script.py", cwd="other"),
    Case(name="place-dot", script=WHERE, path="./script.py"),
    Case(name="place-dots", script=WHERE, path="sub/..//./script.py", files={"sub/x": ""}),
    Case(name="place-below", script=WHERE, path="a/b/hook.py", stored="a/b/hook.py"),
    Case(name="place-spaces", script=WHERE, path="my hooks/a hook.py", stored="my hooks/a hook.py"),
    Case(name="place-unicode", script=WHERE, path="hökäß/日本.py", stored="hökäß/日本.py"),
    Case(name="place-dash", script=WHERE, path="./-hook.py", stored="-hook.py"),
    Case(name="place-no-suffix", script=WHERE, path="hooks/pre-tool-use", stored="hooks/pre-tool-use"),
    Case(name="place-odd-suffix", script=WHERE, path="hook.txt", stored="hook.txt"),
    Case(name="place-hidden", script=WHERE, path=".claude/hooks/x.py", stored=".claude/hooks/x.py"),
    Case(
        name="place-linked-script",
        script=WHERE,
        path="link.py",
        links={"link.py": "real/script.py"},
        stored="real/script.py",
    ),
    Case(
        name="place-link-to-link",
        script=WHERE,
        path="{folder}/one.py",
        links={"one.py": "sub/two.py", "sub/two.py": "{folder}/real/three.py"},
        stored="real/three.py",
    ),
    Case(
        name="place-linked-folder",
        script=WHERE,
        path="linked/script.py",
        links={"linked": "real"},
        stored="real/script.py",
    ),
    Case(
        name="place-linked-cwd",
        script=WHERE,
        links={"linked": "real/deep"},
        stored="real/deep/script.py",
        cwd="linked",
    ),
    Case(name="place-isolated", script=WHERE, flags=("-I",)),
    Case(name="place-safe-path", script=WHERE, flags=("-P",)),
    Case(name="place-safe-path-variable", script=WHERE, env={"PYTHONSAFEPATH": "1"}),
]
TEXTS = [
    Case(name="text-empty", script=b""),
    Case(name="text-comment", script=b"# nothing"),
    Case(name="text-no-final-newline", script=b"print('x')\nif True:\n    print('y')"),
    Case(name="text-bom", script=b"\xef\xbb\xbfprint('marked', __file__, '\xc3\xa9')\n1 / 0\n"),
    Case(name="text-latin1", script=b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\nraise ValueError('\xe9')\n"),
    Case(
        name="text-coding-line-2",
        script=b"#!/usr/bin/env python3\n# vim: set fileencoding=cp1252 :\nprint(ascii('\x80'))\n",
    ),
    Case(name="text-crlf", script=b"text = '''a\r\nb'''\r\nif text:\r\n    print(repr(text))\r\n1 / 0\r\n"),
    Case(name="text-cr", script=b"print('one')\rprint('two')\r"),
    Case(name="text-mixed-ends", script=b"print('one')\r\nprint('two')\nprint('''x\r\ny''')\n1 / 0\r\n"),
    Case(name="text-form-feed", script=b"\x0cprint('x')\n\x0c\nprint('y')\n"),
    Case(name="text-control-z", script=b"print('x')\n\x1a\nprint('y')\n", again=True),
    Case(name="text-continuation", script=b"print('a' \\\n    'b')\nvalue = 1 \\\n    / 0\n"),
    Case(name="text-shebang", script=b"#!/usr/bin/python3 -u\nimport sys\nprint(sys.flags.unbuffered, sys.argv)\n"),
    Case(
        name="text-unicode",
        script="größe = 'é€日本😀'\nprint(größe, len(größe))\nµ = 1\nprint(sorted(globals())[-2:])\n",
    ),
    Case(
        name="text-large",
        script="values = [\n" + "    'x' * 10,\n" * 20_000 + "]\nprint(len(values))\n1 / 0\n",
        refused=True,
    ),
    Case(
        name="text-type-comments",
        script="value = []  # type: list\nmatch value:\n    case []:\n        print('empty')\n",
    ),
]
MODULES = [
    Case(
        name="module-beside",
        script="""
            import helper
            from lib.tools import double
            import lib, lib.deep.inner as inner
            print(helper.__file__, helper.__name__, helper.__spec__.origin, lib.__path__, inner.VALUE, double(4))
            print(helper.__cached__, helper.__loader__.path)
        """,
        files={
            "helper.py": "print('helper runs', __name__)\n",
            "lib/__init__.py": "from .tools import double\n",
            "lib/tools.py": "from . import deep\ndef double(n): return 2 * n\n",
            "lib/deep/__init__.py": "",
            "lib/deep/inner.py": "from ..tools import double\nVALUE = double(21)\n",
        },
    ),
    Case(
        name="module-in-namespace",
        script="import space.inner; print(space.__path__, space.inner.__file__, space.__spec__.origin)",
        files={"space/inner.py": "print(__package__)\n"},
    ),
    Case(
        name="module-of-linked-script",
        script="import helper; print(helper.__file__)",
        path="linked/hook.py",
        links={"linked/hook.py": "../real/script.py"},
        stored="real/script.py",
        files={"real/helper.py": "", "linked/helper.py": "raise SystemExit('the wrong one')\n"},
    ),
    Case(
        name="module-fails",
        script="import helper",
        files={"helper.py": "import other\n", "other.py": "def f():\n    1 / 0\nf()\n"},
    ),
    Case(name="module-syntax-error", script="import helper", files={"helper.py": "def f(:\n"}),
    Case(
        name="module-missing-inside",
        script="try:\n    import helper\nexcept ImportError as e:\n    print(e, e.name)\n    raise",
        files={"helper.py": "from helper2 import x\n"},
    ),
    Case(
        name="module-exits",
        script="import helper\nprint('never')",
        files={"helper.py": "import sys\nsys.exit('from a module')\n"},
    ),
    Case(
        name="module-circular",
        script="import one",
        files={"one.py": "from two import b\na = 1\n", "two.py": "from one import a\nb = 1\n"},
    ),
    Case(
        name="module-imports-script",
        script="""
            import sys
            print("runs as", __name__)
            if __name__ == "__main__":
                import script
                print(script is sys.modules["__main__"], script.__file__, script.__spec__.name)
        """,
    ),
    Case(
        name="module-cache",
        script="import helper; print(helper.VALUE)",
        files={"helper.py": "VALUE = 1\n"},
        setup="python3 -m compileall -q helper.py",
    ),
    Case(
        name="module-cache-off",
        script="import helper, sys; print(sys.dont_write_bytecode)",
        files={"helper.py": ""},
        env={"PYTHONDONTWRITEBYTECODE": "1"},
    ),
    Case(
        name="module-cache-off-by-flag",
        script="import helper, sys; print(sys.dont_write_bytecode)",
        files={"helper.py": ""},
        flags=("-B",),
    ),
    Case(
        name="module-cache-elsewhere",
        slow=True,
        script="""
            import helper, os, shutil, sys
            print(sys.pycache_prefix, helper.__cached__, os.path.exists(helper.__cached__))
            shutil.rmtree(sys.pycache_prefix)  # a parent has also put there what it imports itself
        """,
        files={"helper.py": ""},
        env={"PYTHONPYCACHEPREFIX": "{folder}/cache"},
    ),
    Case(
        name="module-reloaded",
        script="""
            import importlib, helper
            print(helper.VALUE)
            with open("helper.py", "w") as file:
                file.write("VALUE = 'changed'\\n")
            importlib.invalidate_caches()
            print(importlib.reload(helper).VALUE)
        """,
        files={"helper.py": "VALUE = 'first'\n"},
    ),
    Case(
        name="module-written-now",
        script="""
            import importlib
            with open("made.py", "w") as file:
                file.write("print('made', __file__)\\n")
            importlib.invalidate_caches()
            import made
        """,
    ),
    Case(
        name="module-in-path-variable",
        script="import helper, sys; print(helper.__file__, sys.path[:3])",
        files={"extra/helper.py": ""},
        env={"PYTHONPATH": "{folder}/extra:/nonexistent"},
    ),
    Case(
        name="module-in-added-path",
        script="""
            import os, sys
            sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
            import helper
            print(helper.__file__, sys.path[:2])
            sys.path.remove(sys.path[1])
            import beside
        """,
        files={"lib/helper.py": "", "beside.py": ""},
    ),
    Case(
        name="module-in-zip",
        script="import sys; sys.path.insert(0, 'bundle.zip'); import packed; print(packed.__file__); packed.fail()",
        files={"packed.py": "def fail():\n    1 / 0\n"},
        setup="touch -d 2026-01-01 packed.py && python3 -m zipfile -c bundle.zip packed.py && rm packed.py",
    ),
    Case(
        name="module-resources",
        script="""
            import importlib.resources, pkgutil
            print(importlib.resources.files("pack").joinpath("data.txt").read_text())
            print(pkgutil.get_data("pack", "data.txt"))
            print([module.name for module in pkgutil.iter_modules(["."])])
        """,
        files={"pack/__init__.py": "", "pack/data.txt": "data"},
    ),
    Case(
        name="module-named-like-a-rare-one",
        script="import this_is_rare, colorsys; print(colorsys.__file__)",
        files={"this_is_rare.py": "", "colorsys.py": "print('the local one')\n"},
    ),
    Case(
        name="module-named-like-a-common-one",
        script="import json; print(json.__file__)",
        files={"json.py": "print('the local one')\n"},
        refused=True,
    ),
    Case(
        name="package-named-like-a-common-one",
        script="import textwrap; print(textwrap.__file__)",
        files={"textwrap/__init__.py": "print('the local one')\n"},
        refused=True,
    ),
    Case(
        name="script-named-like-a-common-module",
        script="import json; print(json.dumps([1]))\nif __name__ == '__main__': print(__file__)",
        path="json.py",
        stored="json.py",
        refused=True,
    ),
    Case(
        name="relative-path-variable",
        script="import helper; print(helper.__file__)",
        files={"lib/helper.py": ""},
        env={"PYTHONPATH": "lib"},
        refused=True,
    ),
    Case(
        name="custom-finder",
        script="""
            import importlib.abc, importlib.util, sys
            class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
                def find_spec(self, name, path, target=None):
                    return importlib.util.spec_from_loader(name, self) if name == "virtual" else None
                def exec_module(self, module):
                    module.value = "made up"
            sys.meta_path.insert(0, Finder())
            import virtual
            print(virtual.value, virtual)
        """,
        normalise=ADDRESSES,
    ),
    Case(
        name="source-of-functions",
        script='''
            import inspect, linecache, sys
            def decorated(function):
                return function
            @decorated
            def check(value):
                """Check it."""
                return value  # a comment
            class Guard:
                """A class."""
                limit = 3
            print(inspect.getsource(check), inspect.getsource(Guard), inspect.getsourcelines(check)[1])
            print(inspect.getfile(check), inspect.getsourcefile(Guard), inspect.getmodule(check), inspect.getdoc(check))
            print(inspect.getsource(sys.modules["__main__"]) == open(__file__).read(), linecache.getline(__file__, 3))
            print(check.__module__, check.__qualname__, Guard.__module__, check.__globals__ is globals())
        ''',
    ),
    Case(
        name="pickles",
        script="""
            import copy, pickle, dataclasses, enum, typing
            @dataclasses.dataclass
            class Event:
                tool: str
                inputs: "typing.Dict[str, int]" = dataclasses.field(default_factory=dict)
            class Color(enum.Enum):
                RED = 1
            Point = typing.NamedTuple("Point", [("x", int)])
            def function(): ...
            for value in (Event("Bash", {"a": 1}), Color.RED, Point(3), function, Event):
                data = pickle.dumps(value, protocol=0)
                print(b"__main__" in data, pickle.loads(data) == value, copy.deepcopy(value) == value)
            print(typing.get_type_hints(Event), Event("x"), Event.__module__)
            pickle.dumps(lambda: 0)
        """,
        normalise=ADDRESSES,
    ),
    Case(
        name="pickle-read-elsewhere",
        script="""
            import pickle, subprocess, sys
            class Event: ...
            with open("event.pickle", "wb") as file:
                pickle.dump(Event(), file)
            subprocess.run([sys.executable, "reader.py"])
        """,
        files={"reader.py": "import pickle\nclass Event: ...\nprint(type(pickle.load(open('event.pickle', 'rb'))))\n"},
    ),
    Case(
        name="runpy-path",
        script="""
            import runpy, sys
            found = runpy.run_path("other.py", init_globals={"given": 1}, run_name="__main__")
            print(sorted(found), sys.argv, sys.modules["__main__"].__file__, __name__)
        """,
        files={"other.py": "import sys, __main__\nprint(__name__, __file__, sys.argv, given, __main__.__file__)\n"},
    ),
    Case(
        name="runpy-module",
        script="""
            import runpy
            runpy.run_module("pack", run_name="__main__", alter_sys=True)
            runpy.run_module("pack.missing")
        """,
        files={"pack/__init__.py": "", "pack/__main__.py": "import sys\nprint(__name__, __package__, sys.argv)\n"},
    ),
    Case(
        name="exec-of-a-file",
        script="""
            with open("part.py") as file:
                exec(compile(file.read(), "part.py", "exec"))
            print(from_part)
            execfile = exec(open("part.py").read(), {"__name__": "part"})
        """,
        files={"part.py": "from_part = __name__\nif __name__ == 'part': 1 / 0\n"},
    ),
    Case(
        name="doctests",
        script='''
            """Tests in a docstring.

            >>> double(2)
            4
            >>> double("x")
            'y'
            """
            import doctest, sys
            def double(value):
                return value * 2
            sys.exit(doctest.testmod().failed)
        ''',
    ),
    Case(
        name="unit-tests",
        script="""
            import unittest
            class Checks(unittest.TestCase):
                def test_passes(self):
                    self.assertEqual(1, 1)
                def test_fails(self):
                    self.assertEqual([1], [2])
            unittest.main()
        """,
        normalise={r"in \d+\.\d+s": "in TIME"},
    ),
    Case(
        name="script-removes-itself",
        script="""
            import os, sys
            os.remove(__file__)
            def fail():
                1 / 0
            print("still runs")
            fail()
        """,
    ),
    Case(
        name="script-changes-itself",
        script="""
            with open(__file__, "w") as file:
                file.write("raise SystemExit('the new text')\\n" * 9)
            def fail():
                1 / 0
            print("the old text runs")
            fail()
        """,
    ),
    Case(
        name="script-in-another-folder-than-cwd",
        script="""
            import os
            os.chdir("/")
            import helper
            print(helper.__file__, __file__)
            raise ValueError("with a relative path")
        """,
        files={"helper.py": ""},
    ),
    Case(
        name="own-line-cache",
        script="import warnings\n\n\ndef old():\n    warnings.warn('has a line', FutureWarning, 2)\n\n\nold()\n",
    ),
    Case(name="flag-E", script=WHERE, flags=("-E",), env={"PYTHONPATH": "{folder}", "PYTHONUNBUFFERED": "1"}),
    Case(name="flag-s", script=WHERE, flags=("-s",)),
    Case(
        name="flag-W", script="import sys, warnings; print(sys.warnoptions); warnings.warn('x')", flags=("-W", "error")
    ),
    Case(
        name="flag-W-joined",
        script="import sys, warnings; print(sys.warnoptions); warnings.warn('x')",
        flags=("-Werror",),
    ),
    Case(
        name="flag-X-utf8",
        script="import sys; print(sys.flags.utf8_mode, sys.stdin)",
        flags=("-X", "utf8"),
        env={"LANG": "C"},
    ),
    Case(
        name="flag-OO",
        slow=True,
        script="'''doc'''\nimport sys\nprint(__doc__, sys.flags.optimize, __debug__)",
        flags=("-OO",),
    ),
    Case(name="flags-joined", slow=True, script="import sys; print(sys.flags, sys.orig_argv)", flags=("-uBs",)),
    Case(name="flag-q", slow=True, script="import sys; print(sys.flags.quiet)", flags=("-q",)),
    Case(
        name="flag-S",
        script="import sys; print(sys.flags.no_site, 'site' in sys.modules, hasattr(__builtins__, 'exit'))",
        flags=("-S",),
    ),
    Case(name="flag-b", slow=True, script="print(b'a' == 'a')", flags=("-b",)),
    Case(name="variable-verbose", script="print('x')", env={"PYTHONVERBOSE": "1"}, normalise=ADDRESSES, refused=True),
    Case(name="variable-inspect", script="import sys; sys.exit(3)", env={"PYTHONINSPECT": "1"}, refused=True),
    Case(name="variable-development", script="open(__file__)\nprint('x')", env={"PYTHONDEVMODE": "1"}),
    Case(name="variable-ignored", script=WHERE, flags=("-E",), env={"PYTHONVERBOSE": "1", "PYTHONPATH": "x"}),
    Case(name="flag-module", script="", flags=("-m",), path="this", refused=True),
    Case(name="flag-command", script="", flags=("-c",), path="print('text')", refused=True),
    Case(name="flag-interactive", script="print('x')", flags=("-i",), refused=True),
    Case(name="flag-unknown", script="print('x')", flags=("-X", "importtime"), refused=True),
    Case(
        name="folder-as-script",
        script="print('in a folder', __file__, __package__)",
        path="app",
        stored="app/__main__.py",
        refused=True,
    ),
    Case(
        name="zip-as-script",
        script="print('in a zip')",
        stored="__main__.py",
        setup="python3 -m zipfile -c app.pyz __main__.py",
        path="app.pyz",
        refused=True,
    ),
    Case(
        name="compiled-script",
        script="print('compiled')",
        setup="python3 -c \"import py_compile; py_compile.compile('script.py', 'hook.pyc')\"",
        path="hook.pyc",
        refused=True,
    ),
    Case(name="missing-script", script="", path="nonexistent.py", refused=True),
    Case(name="standard-input-as-script", path="-", stdin=b"print('from stdin')", refused=True),
]
EXECUTABLES = [
    Case(
        name="shebang-env",
        script="#!/usr/bin/env python3" + "\n" + "import sys; print(sys.argv, sys.orig_argv, __file__)\n1 / 0",
        interpreter="",
        path="./script.py",
        arguments=("a",),
    ),
    Case(
        name="shebang-absolute",
        script="#!/usr/bin/python3 -u" + "\n" + "import sys; print(sys.argv, sys.orig_argv, sys.flags, sys.executable)",
        interpreter="",
        path="{folder}/script.py",
    ),
    Case(
        name="shebang-in-path",
        script="#!/usr/bin/env python3" + "\n" + "import sys; print(sys.argv, sys.orig_argv, __file__, sys.path[0])",
        interpreter="",
        stored="bin/hook",
        path="hook",
        env={"PATH": "{folder}/bin:/usr/bin:/bin"},
    ),
]
AROUND = """
    import os, sys
    print(sys.argv, sys.orig_argv, sys.flags, __file__, sys.executable, os.getcwd())
    os.environ.pop("BILLHOOK_CHILD")
    print(sorted(os.environ.items()), sys.stdin.read())
    os.system("env | grep -v BILLHOOK_CHILD | sort")
    sys.exit(3)
"""
LINES = {
    "plain": "python3 script.py",
    "words": """python3 -u script.py 'a  b' "c $WORD" --flag=x plain""",
    "absolute": '"$FOLDER"/script.py',
    "variable": "python3 $FOLDER/script.py $WORD",
    "braces": 'python3 "${{FOLDER}}/script.py"',
    "exec": "exec python3 script.py",
    "blanks": "  python3   script.py\t x ",
}
NOT_WARM = {
    "and": "true && python3 script.py",
    "list": "python3 script.py; echo after",
    "pipe": "python3 script.py | cat",
    "output": "python3 script.py 2>&1",
    "assignment": "X=1 python3 script.py",
    "substitution": "python3 script.py $(echo a)",
    "glob": "python3 script.py *.py",
    "tilde": "python3 script.py ~",
    "background": "python3 script.py &",
    "unset": "python3 script.py $UNSET_VARIABLE",
    "split": "python3 script.py $TWO_WORDS",
}
SHELL_LINES = [
    Case(
        name=f"shell-{name}",
        script="#!/usr/bin/env python3\n" + dedent(AROUND),
        shell=line,
        stdin=b"payload",
        env={"WORD": "word", "TWO_WORDS": "two words", "odd-name": "dropped by the shell", "OLDPWD": "/usr"},
        refused=name in NOT_WARM,
    )
    for name, line in {**LINES, **NOT_WARM}.items()
]
SHELL_ENDS = [
    Case(
        name=f"shell-{line.split()[0]}-ends-by-{name}",
        script=f"""
            import os, resource, signal
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            print("flushed", flush=True)
            os.kill(os.getpid(), signal.SIG{name})
        """,
        shell=line,
    )
    for line in ("python3 script.py", "exec python3 script.py")
    for name in ("TERM", "KILL", "INT", "SEGV", "USR1")
]
SHELL_GROUP = Case(
    name="shell-group",
    script="import os; print(os.getpid() == os.getpgrp())",
    shell="python3 script.py",
    unlike="the shell leads the process group, and waits; a warm script has no shell",
)
CASES = [*PLACES, *TEXTS, *MODULES, *EXECUTABLES, *SHELL_LINES, *SHELL_ENDS, SHELL_GROUP]
