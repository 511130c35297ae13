"""Which local files a command names."""

import os
import py_compile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billhook.config.declaration import Action, Exec, FixedAnswer, Python, RunAction, UnsupportedAction, Url
from billhook.config.referenced_files import named as look_for
from billhook.config.sources import FileSnapshot

FILES = {
    "x.sh": "exit 0\n",
    "guard": "exit 0\n",
    "rules.json": "{}",
    "patterns.txt": "rm",
    "state": "1",
    "audit.log": "",
    "events.jsonl": "",
    "README": "",
    "sub/x.sh": "",
    "sub/deep/y.sh": "",
    "with blank/x.sh": "",
    "scripts/x.py": "",
    "hooks/a.mjs": "",
    "pkg/__init__.py": "",
    "pkg/mod.py": "",
    "pkg/__main__.py": "",
    "bin/tool": "#!/bin/sh\n",
    ".claude/hooks/guard.sh": "#!/bin/sh\nexit 0\n",
    "-odd.sh": "",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("a project")  # a space, because real paths have them
    make(root, FILES)
    (root / "bin" / "tool").chmod(0o755)
    return root


def make(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def named(action: Action | str | None, root: Path) -> list[str]:
    """The files, relative to the project if they are inside."""
    found = look_for(RunAction(action) if isinstance(action, str) else action, str(root), FileSnapshot()).files
    assert len(set(found)) == len(found) and all(os.path.isabs(path) for path in found)
    return [path.removeprefix(f"{root}/") for path in found]


def named_files(action: Action, folder: str) -> list[str]:
    """The named files, and those in their folders."""
    found = look_for(action, folder, FileSnapshot())
    return [*found.files, *(path for files in found.trees.values() for path in files)]


# every row: a command, and the files it names
COMMANDS: list[tuple[str, list[str]]] = [
    # the seeds'
    ("python3 /path/to/safety-check.py", ["/path/to/safety-check.py"]),
    ("bash /path/to/audit-log.sh", ["/path/to/audit-log.sh"]),
    ("if echo \"$HOOK_TOOL_INPUT\" | grep -q 'rm -rf'; then echo 'Blocked'; exit 2; fi", []),
    ('"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh --strict', [".claude/hooks/guard.sh"]),
    ('cd "$CLAUDE_PROJECT_DIR" && ./x.sh', ["x.sh"]),
    ("uv run scripts/x.py", ["scripts/x.py"]),
    ("node ./hooks/a.mjs", ["hooks/a.mjs"]),
    # the project's folder, in every spelling
    ("$CLAUDE_PROJECT_DIR/x.sh", ["x.sh"]),
    ("${CLAUDE_PROJECT_DIR}/x.sh", ["x.sh"]),
    ('"${CLAUDE_PROJECT_DIR}/with blank/x.sh"', ["with blank/x.sh"]),
    ("${CLAUDE_PROJECT_DIR:-.}/x.sh", ["x.sh"]),
    ('"$(git rev-parse --show-toplevel)/x.sh"', ["x.sh"]),
    ('"$PWD/x.sh"', ["x.sh"]),
    ("$(pwd)/x.sh", ["x.sh"]),
    ("$CLAUDE_PROJECT_DIRECTORY/x.sh", []),
    # programs
    ("./x.sh", ["x.sh"]),
    ("./sub/../x.sh", ["x.sh"]),
    ("./missing.sh", ["missing.sh"]),
    ("./missing", ["missing"]),
    ("missing", []),
    ("ls; ./x.sh | sub/x.sh && true || ./guard", ["x.sh", "sub/x.sh", "guard"]),
    ("env A=1 timeout 5 ./x.sh", ["x.sh"]),
    ("exec ./x.sh", ["x.sh"]),
    ("sudo -u me ./x.sh", ["x.sh"]),
    ("sh -c './x.sh && bash sub/x.sh'", ["x.sh", "sub/x.sh"]),
    ("xargs ./x.sh", ["x.sh"]),
    ("echo $(./x.sh) `./guard`", ["x.sh", "guard"]),
    ("./sub", []),
    # interpreters
    ("sh x.sh", ["x.sh"]),
    ("bash -eu -o pipefail x.sh", ["x.sh"]),
    ("bash missing.sh", ["missing.sh"]),
    ("bash guard", ["guard"]),
    ("bash missing", []),
    ("bash -- -odd.sh", ["-odd.sh"]),
    ("bash < x.sh", ["x.sh"]),
    ("source ./x.sh", ["x.sh"]),
    (". sub/x.sh", ["sub/x.sh"]),
    ("python3.12 -u -W error scripts/x.py --flag", ["scripts/x.py"]),
    ("python -X dev missing.py", ["missing.py"]),
    ("/usr/bin/env python3 scripts/x.py", ["scripts/x.py"]),
    ("node --require ./hooks/a.mjs missing.js", ["hooks/a.mjs", "missing.js"]),
    ("node -e 'x.js'", []),
    ("ruby -w missing.rb", ["missing.rb"]),
    ("perl -e 'print 1'", []),
    ("deno run --allow-read missing.ts", ["missing.ts"]),
    ("bun run hooks/a.mjs", ["hooks/a.mjs"]),
    ("bun hooks/a.mjs", ["hooks/a.mjs"]),
    ("npx tsx hooks/a.mjs", ["hooks/a.mjs"]),
    ("uv run --with requests python scripts/x.py", ["scripts/x.py"]),
    ("uv run --quiet -- python scripts/x.py", ["scripts/x.py"]),
    ("poetry run python scripts/x.py", ["scripts/x.py"]),
    ("awk -f missing.awk", []),
    ("awk -f ./missing.awk", ["missing.awk"]),
    # working directory of the shell
    ("cd sub && ./x.sh", ["sub/x.sh"]),
    ("cd sub && cd deep && ./y.sh", ["sub/deep/y.sh"]),
    ("cd $CLAUDE_PROJECT_DIR/sub && bash x.sh", ["sub/x.sh"]),
    ("(cd sub && ./x.sh); ./guard", ["sub/guard", "sub/x.sh", "guard", "x.sh"]),
    ("cd $UNKNOWN && ./x.sh", ["x.sh"]),
    # variables that the text itself sets
    ("D=sub; $D/x.sh", ["sub/x.sh"]),
    ('export D="$CLAUDE_PROJECT_DIR/with blank"; bash "$D/x.sh"', ["with blank/x.sh"]),
    ("D=sub; E=$D/deep; ${E}/y.sh", ["sub/deep/y.sh"]),
    ("D=sub; D=other; $D/x.sh", []),
    ("for f in a b; do ./$f; done", []),
    # files that are read
    ("jq -f rules.json --arg x=y README", ["rules.json", "README"]),
    ("grep -f patterns.txt", ["patterns.txt"]),
    ("grep -fpatterns.txt", ["patterns.txt"]),
    ("./x.sh --config=rules.json", ["x.sh", "rules.json"]),
    ("curl -d @rules.json https://example.com/x.sh", ["rules.json"]),
    ("cat < README", ["README"]),
    ("dd if=README of=state", ["README"]),
    ("cp rules.json state", ["rules.json"]),
    ("./x.sh no-such-file ./sub", ["x.sh"]),
    # files that are written, or only mentioned
    ("tee -a state", []),
    ("touch state; rm state; mkdir state", []),
    ("mv rules.json state", []),
    ("./x.sh > state 2>> README", ["x.sh"]),
    ("echo 1 > state; cat state", []),
    ("sed -i s/a/b/ README", []),
    ("cat audit.log events.jsonl", []),
    ("echo README; printf README; [ -f README ]; test -e README", []),
    ("timeout 5 tee README", []),
    # of the system
    ("/usr/bin/grep x /etc/passwd", []),
    ("cat /dev/null /proc/self/status", []),
    ("/opt/no/such --x", []),
    # nothing
    ("", []),
    ("$CMD $ARGS", []),
    ("'", []),
    ("./x.sh '", ["x.sh"]),
    ("https://example.com/x.sh", ["https:/example.com/x.sh"]),
]


@pytest.mark.parametrize(("command", "files"), COMMANDS, ids=[command or "empty" for command, _ in COMMANDS])
def test_commands(project: Path, command: str, files: list[str]) -> None:
    """Each command names exactly these files."""
    assert sorted(named(command, project)) == sorted(files)


def test_home(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file outside of the project counts if it is named by its path."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for spelling in ("~/bin/guard.sh", "$HOME/bin/guard.sh", '"${HOME}/bin/guard.sh"', "bash ~/bin/guard.sh"):
        assert named(spelling, project) == [f"{tmp_path}/bin/guard.sh"]


def test_programs_on_path(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program on PATH counts only inside of the project, even if it does not exist there yet."""
    make(tmp_path, {"tool": "", "other": ""})
    for name in ("tool", "other"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{project}/bin:{tmp_path}:/usr/bin:/bin")
    assert named("tool x", project) == ["bin/tool"]
    assert named("other x", project) == ["bin/other"]
    monkeypatch.setenv("PATH", f"{tmp_path}:{project}/bin")
    assert named("tool x", project) == []


EXECS: list[tuple[tuple[str, ...], list[str]]] = [
    (("./x.sh", "rules.json"), ["x.sh", "rules.json"]),
    (("${CLAUDE_PROJECT_DIR}/x.sh",), ["x.sh"]),
    (("python3", "scripts/x.py", "; rm x.sh"), ["scripts/x.py"]),
    (("bash", "-c", "./x.sh && . sub/x.sh"), ["x.sh", "sub/x.sh"]),
    (("env", "A=1", "./x.sh"), ["x.sh"]),
    (("./with blank/x.sh", "it's", 'a "b"'), ["with blank/x.sh"]),
    (("if", "./x.sh"), ["x.sh"]),
    (("missing",), []),
    ((), []),
]


@pytest.mark.parametrize(("argv", "files"), EXECS, ids=[" ".join(argv) for argv, _ in EXECS])
def test_argument_lists(project: Path, argv: tuple[str, ...], files: list[str]) -> None:
    """A program and its arguments name files like a command, without shell syntax."""
    assert named(Exec(argv), project) == files


@pytest.mark.parametrize(
    "action", [None, Url("https://x/x.sh"), FixedAnswer("deny", "./x.sh"), UnsupportedAction("prompt")], ids=repr
)
def test_actions_without_files(project: Path, action: Action | None) -> None:
    """Actions without a program name no files."""
    assert named(action, project) == []


def present(found: list[str], root: Path) -> list[str]:
    return sorted(path for path in found if (root / path).exists())


# every row: the files of a project, a command, and which of them count
SCRIPTS: dict[str, tuple[dict[str, str], str, list[str]]] = {
    "sourced": (
        {"a.sh": "source ./b.sh\n. c.sh", "b.sh": "./d", "c.sh": "", "d": "", "e.sh": ""},
        "./a.sh",
        ["b.sh", "c.sh", "d"],
    ),
    "project": ({"h/a.sh": '. "$CLAUDE_PROJECT_DIR/lib.sh"', "lib.sh": ""}, "h/a.sh", ["lib.sh"]),
    "dirname": ({"h/a.sh": '. "$(dirname "$0")/b.sh"', "h/b.sh": ""}, "bash h/a.sh", ["h/b.sh"]),
    "dirname --": ({"h/a.sh": '. "$(dirname -- "${BASH_SOURCE[0]}")/b.sh"', "h/b.sh": ""}, "h/a.sh", ["h/b.sh"]),
    "cut": (
        {"h/a.sh": '. "${BASH_SOURCE[0]%/*}/b.sh"; "${0%/*}"/c', "h/b.sh": "", "h/c": ""},
        "h/a.sh",
        ["h/b.sh", "h/c"],
    ),
    "cd pwd": ({"h/a.sh": '. "$(cd "$(dirname "$0")" && pwd)"/b.sh', "h/b.sh": ""}, "h/a.sh", ["h/b.sh"]),
    "variable": (
        {"h/a.sh": 'D="$(cd "$(dirname "${BASH_SOURCE[0]}")" >/dev/null 2>&1 && pwd -P)"\n. "$D/b.sh"', "h/b.sh": ""},
        "h/a.sh",
        ["h/b.sh"],
    ),
    "parent": (
        {"h/a.sh": 'R=$(cd "$(dirname "$0")/.." && pwd)\nexec "$R/lib/b.sh"', "lib/b.sh": ""},
        "h/a.sh",
        ["lib/b.sh"],
    ),
    "realpath": (
        {"h/a.sh": 'D=$(dirname "$(realpath "$0")"); python3 "$D/c.py"', "h/c.py": "import d", "h/d.py": ""},
        "h/a.sh",
        ["h/c.py", "h/d.py"],
    ),
    "readlink": ({"h/a.sh": 'D=$(dirname "$(readlink -f "$0")"); $D/b.sh', "h/b.sh": ""}, "h/a.sh", ["h/b.sh"]),
    "no suffix": ({"a": "#!/usr/bin/env bash\n. ./b", "b": ""}, "./a", ["b"]),
    "no first line": ({"a": ". ./b", "b": ""}, "./a", ["b"]),
    "data is not a script": ({"a.sh": "cat b.json; grep -f c", "b.json": "", "c": "./d", "d": ""}, "./a.sh", []),
    "argument is not a script": ({"c": "./d\n", "d": ""}, "grep -f c", []),
    "circle": ({"a.sh": ". ./b.sh", "b.sh": ". ./a.sh"}, "./a.sh", ["b.sh"]),
    "binary": ({"a": "\0. ./b", "b": ""}, "./a", []),
    "python by first line": ({"a": "#!/usr/bin/env python3\nimport b", "b.py": ""}, "./a", ["b.py"]),
    "python by uv": ({"a": "#!/usr/bin/env -S uv run --script\nimport b", "b.py": ""}, "./a", ["b.py"]),
    "python by interpreter": ({"a": "import b", "b.py": ""}, "python3 a", ["b.py"]),
    "interpreter in the project": ({"a": "#!{root}/venv/python\n", "venv/python": ""}, "./a", ["venv/python"]),
    "transitive": ({"h/a.py": "import b", "h/b.py": "import c", "h/c.py": ""}, "h/a.py", ["h/b.py", "h/c.py"]),
    "package": (
        {"a.py": "import p.q.r", "p/__init__.py": "", "p/q/__init__.py": "", "p/q/r.py": ""},
        "./a.py",
        ["p/__init__.py", "p/q/__init__.py", "p/q/r.py"],
    ),
    "from package": (
        {"a.py": "from p import q, x", "p/__init__.py": "", "p/q.py": "", "p/z.py": "", "p/z.txt": ""},
        "./a.py",
        ["p/__init__.py", "p/q.py", "p/z.py"],
    ),
    "star": ({"a.py": "from p import *", "p.py": "import q", "q.py": ""}, "./a.py", ["p.py", "q.py"]),
    "relative": (
        {
            "p/__init__.py": "",
            "p/m.py": "from . import a\nfrom .b import c\nfrom ..x import y",
            "p/a.py": "",
            "p/b.py": "",
            "x.py": "",
        },
        "python3 -m p.m",
        ["p/__init__.py", "p/m.py", "p/a.py", "p/b.py", "x.py"],
    ),
    "namespace": ({"a.py": "import n.m\nfrom n import k", "n/m.py": "", "n/k.py": ""}, "./a.py", ["n/m.py", "n/k.py"]),
    "in a function": (
        {"a.py": "def f():\n  try:\n    import b\n  except ImportError: pass", "b.py": ""},
        "./a.py",
        ["b.py"],
    ),
    "by name": (
        {"a.py": "import importlib as i\ni.import_module('b')\n__import__('c')", "b.py": "", "c.py": ""},
        "./a.py",
        ["b.py", "c.py"],
    ),
    "hostile name": (
        {"a.py": "__import__('/etc/passwd')\n__import__('../x')\n__import__('')\n__import__('\\0')"},
        "./a.py",
        [],
    ),
    "module": (
        {"m/__init__.py": "", "m/__main__.py": "import b", "b.py": ""},
        "python3 -m m",
        ["m/__init__.py", "m/__main__.py", "b.py"],
    ),
    "module of uv": ({"m.py": ""}, "uv run -m m", ["m.py"]),
    "code": ({"b.py": "import c", "c.py": ""}, "python3 -c 'import b; b.main()'", ["b.py", "c.py"]),
    "code in the text": ({"b.py": ""}, "python3 - <<'EOF'\nimport b\nEOF\n", ["b.py"]),
    "PYTHONPATH": ({"a.py": "import b", "lib/b.py": ""}, "PYTHONPATH=lib:$PYTHONPATH python3 a.py", ["lib/b.py"]),
    "sys.path": ({"h/x/a.py": "import sys; sys.path.insert(0, '..')\nimport b", "h/b.py": ""}, "h/x/a.py", ["h/b.py"]),
    "extension": ({"a.py": "import b, c", "b.abi3.so": "", "c.pyc": ""}, "./a.py", ["b.abi3.so", "c.pyc"]),
    "does not parse": ({"a.py": "import b\nif"}, "./a.py", []),
    "odd escape": ({"a.py": "import b\n'\\d'", "b.py": ""}, "./a.py", ["b.py"]),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_followed(tmp_path: Path, name: str) -> None:
    """Files that a named script sources, runs or imports count as well."""
    files, command, more = SCRIPTS[name]
    make(tmp_path, {path: text.replace("{root}", str(tmp_path)) for path, text in files.items()})
    script = [word for word in command.replace("./", "").split() if word in files]
    found = [path.removeprefix(f"{tmp_path}/") for path in named_files(RunAction(command), str(tmp_path))]
    assert present(found, tmp_path) == sorted({*script, *more})


def test_python_hooks(tmp_path: Path) -> None:
    """`module:function` is searched where the worker searches, the project first."""
    make(tmp_path, {".billhook/guard.py": "import rules", ".claude/rules.py": "", "venv/bin/python": ""})
    found = named(Python("guard:check", "venv/bin/python"), tmp_path)
    assert present(found, tmp_path) == [".billhook/guard.py", ".claude/rules.py", "venv/bin/python"]
    (tmp_path / "guard.py").write_text("")
    assert "guard.py" in named(Python("guard:check"), tmp_path), "a module that is found first"
    assert named(Python("", "python3"), tmp_path) == []


@pytest.mark.parametrize("mode", list(py_compile.PycInvalidationMode))
def test_compiled_files_that_hide_their_source(tmp_path: Path, mode: py_compile.PycInvalidationMode) -> None:
    """A compiled file that Python loads without checking its source counts; the others are only a cache."""
    make(tmp_path, {"a.py": "import b", "b.py": ""})
    compiled = py_compile.compile(str(tmp_path / "b.py"), invalidation_mode=mode)
    assert compiled is not None
    counts = mode is not py_compile.PycInvalidationMode.TIMESTAMP
    assert (compiled in named_files(RunAction("python3 a.py"), str(tmp_path))) == counts


def test_links_and_dots(tmp_path: Path) -> None:
    """`..` after a link is resolved by the system, not by the text."""
    make(tmp_path, {"p/x.sh": "", "elsewhere/x.sh": "", "elsewhere/in/y": ""})
    (tmp_path / "p" / "link").symlink_to("../elsewhere/in")
    (found,) = named("./link/../x.sh", tmp_path / "p")
    assert os.path.samefile(tmp_path / "p" / found, tmp_path / "elsewhere" / "x.sh")


def test_a_link_of_the_system_into_the_project(tmp_path: Path) -> None:
    """A project may be in a folder of the system, or linked from there."""
    make(tmp_path, {"real/x.sh": ". ./y.sh", "real/y.sh": ""})
    (tmp_path / "project").symlink_to("real")
    assert named("./x.sh", tmp_path / "project") == ["x.sh", "y.sh"]
    assert named(f"{tmp_path}/real/x.sh", tmp_path / "project")[0] == f"{tmp_path}/real/x.sh"


def test_private_characters_do_not_bypass_it(tmp_path: Path) -> None:
    """A name of characters that represent values internally is still that name."""
    make(tmp_path, {"\ue000.sh": "", "\ue001": ""})
    assert named("$CLAUDE_PROJECT_DIR/\ue000.sh; ./\ue001", tmp_path) == ["\ue000.sh", "\ue001"]


def test_pipes_are_not_opened(tmp_path: Path) -> None:
    """Nothing waits for a writer, whatever kind of file is named."""
    for name in ("x.sh", "y.py", "json.py"):
        os.mkfifo(tmp_path / name)
    make(tmp_path, {"z.py": "import json"})
    done = threading.Event()

    def look() -> None:
        named("./x.sh; python3 y.py; python3 z.py; cat < x.sh", tmp_path)
        done.set()

    threading.Thread(target=look, daemon=True).start()
    assert done.wait(20)


HOSTILE: dict[str, str] = {
    "nested": "import a\n" + "(" * 100_000,
    "minus": "import a\nx = " + "-" * 300_000 + "1",
    "dots": "import a\nx = a" + ".a" * 100_000,
    "sum": "import a\nx = 1" + "+1" * 100_000,
    "nul": "import a\0",
    "coding": "# coding: no-such\nimport a",
    "long line": "import a\nx = '" + "a" * 900_000 + "'",
    "many imports": "\n".join(f"import m{n}" for n in range(2_000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_python(tmp_path: Path, name: str) -> None:
    """A source that can't be parsed has no imports, and is read quickly."""
    make(tmp_path, {"x.py": HOSTILE[name]})
    started = time.process_time()
    assert "x.py" in named("python3 x.py", tmp_path)
    assert time.process_time() - started < 20


HOSTILE_SHELL: dict[str, str] = {
    "substitutions": "$(" * 50_000,
    "variables": "\n".join(f"V{n}=$V{n + 1}x" for n in range(2_000)),
    "values": "\n".join(f"V{n}=x{n}\n./$V{n}" for n in range(2_000)),
    "defaults": "${CLAUDE_PROJECT_DIR:-" * 20_000,
    "blanks": "$(cd " + " " * 200_000,
    "folders": "\n".join(f"cd d{n}" for n in range(5_000)),
    "quotes": "'\"" * 100_000,
    "private": "".join(map(chr, range(0xE000, 0xF900))) + " $HOME/x",
    "surrogate": "./\ud800 \udcff",
}


@pytest.mark.parametrize("name", HOSTILE_SHELL)
def test_hostile_shell(tmp_path: Path, name: str) -> None:
    """It neither raises nor takes long, as a command and as a script."""
    started = time.process_time()
    named(HOSTILE_SHELL[name], tmp_path)
    (tmp_path / "x.sh").write_bytes(HOSTILE_SHELL[name].encode("utf-8", "surrogatepass"))
    assert named("./x.sh", tmp_path)[0] == "x.sh"
    assert time.process_time() - started < 20


def test_many_scripts(tmp_path: Path) -> None:
    """A chain of scripts is followed up to a limit."""
    make(tmp_path, {f"s{n}.sh": f". ./s{n + 1}.sh" for n in range(600)})
    assert 500 <= len(named("./s0.sh", tmp_path)) <= 502
    make(tmp_path, {f"m{n}.py": f"import m{n + 1}" for n in range(600)})
    assert 500 <= len(present(named("./m0.py", tmp_path), tmp_path)) <= 502


SYNTAX = ["./x.sh", "python3", "-m", "-c", "bash", "cd", "sub", "&&", ";", "|", ">", "<", "$HOME", "~", "$(", ")", '"']
ODD = [
    "'",
    "uv",
    "run",
    "--",
    "-",
    "=",
    "D=x",
    "$D",
    "`",
    "\\",
    "{",
    "}",
    "..",
    "/",
    "é",
    "\ud800",
    "\ue000",
    "\n",
    "\0",
]
words = st.sampled_from([*SYNTAX, *ODD])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(words | st.text(max_size=4), max_size=12), st.sampled_from([" ", ""]), st.booleans())
def test_never_raises(project: Path, parts: list[str], glue: str, as_list: bool) -> None:
    """For any command the result is a list of absolute paths."""
    action: Any = Exec(tuple(parts)) if as_list else RunAction(glue.join(parts))
    named(action, project)
    named(Python(glue.join(parts), glue.join(parts[:2])), project)
