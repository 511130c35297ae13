"""What an approval covers, tested like an attack: approve, plant or change a file, fire."""

import importlib.util
import json
import os
import py_compile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from billhook import Verdict
from billhook.config import loader
from billhook.config.approval_scope import MAX_CODE, MAX_ENTRIES
from billhook.core.events import parse
from config.project import Project, entry, states

Change = Callable[[Project], object]


class Attack(NamedTuple):
    """The files of a project, an approved command, and what an attacker does then."""

    files: dict[str, str]
    command: str
    change: Change


def plant(name: str, text: str = "exit 0\n", mode: int = 0o644) -> Change:
    return lambda project: project.write(name, text, mode)


def compiled(source: str, mode: py_compile.PycInvalidationMode) -> Change:
    """Other code in the cache of a module, in a form that Python loads."""

    def change(project: Project) -> None:
        target = project.path(source)
        evil = project.write("evil.txt", "x = 2\n")
        cache = Path(importlib.util.cache_from_source(str(target)))
        py_compile.compile(str(evil), cfile=str(cache), invalidation_mode=mode)
        if mode is py_compile.PycInvalidationMode.CHECKED_HASH:
            of_source = importlib.util.source_hash(target.read_bytes())
            data = cache.read_bytes()
            cache.write_bytes(data[:8] + of_source + data[16:])

    return change


def link(name: str, target: str) -> Change:
    def change(project: Project) -> None:
        path = project.path(name)
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return change


SITE = "lib/python3.11/site-packages"
GUARD = "python3 h/guard.py"
HOOK = {"h/guard.py": "import sys, os\nsys.path.insert(0, os.path.dirname(__file__) + '/lib')\nimport rules\n"}
ATTACKS: dict[str, Attack] = {
    # in the folder of the script, and below
    "module behind sys.path": Attack({**HOOK, "h/lib/rules.py": ""}, GUARD, plant("h/lib/rules.py", "1")),
    "new module behind sys.path": Attack({**HOOK, "h/lib/rules.py": ""}, GUARD, plant("h/lib/json.py")),
    "folder that is new": Attack({"h/guard.py": ""}, GUARD, plant("h/lib/json.py")),
    "all of a package": Attack(
        {"h/guard.py": "from pkg import *\n", "h/pkg/__init__.py": "__all__ = ['a']\n", "h/pkg/a.py": ""},
        GUARD,
        plant("h/pkg/a.py", "1"),
    ),
    "import after a megabyte": Attack(
        {"h/guard.py": "#" * (1 << 20) + "\nimport rules\n", "h/rules.py": ""},
        GUARD,
        plant("h/rules.py", "1"),
    ),
    "import after a megabyte in the root": Attack(
        {"guard.py": "#" * (1 << 20) + "\nimport rules\n", "rules.py": ""}, "python3 guard.py", plant("rules.py", "1")
    ),
    "JavaScript module": Attack(
        {"h/guard.js": "require('./lib/rules')", "h/lib/rules.js": ""}, "node h/guard.js", plant("h/lib/rules.js", "1")
    ),
    "JavaScript module of a script in the root": Attack(
        {"guard.js": "require('./lib/rules')", "lib/rules.js": ""}, "node guard.js", plant("lib/rules.js", "1")
    ),
    "package.json beside": Attack({"h/guard.js": ""}, "node h/guard.js", plant("h/package.json", '{"type": "module"}')),
    "program that the script starts": Attack(
        {"h/guard.py": "import subprocess, os", "h/helper": "#!/bin/sh\n"},
        GUARD,
        plant("h/helper", "#!/bin/sh\nexit 0\n", 0o755),
    ),
    "data made executable": Attack(
        {"h/guard.py": "", "h/helper": ""}, GUARD, lambda project: project.path("h/helper").chmod(0o755)
    ),
    "sourced without suffix": Attack(
        {"h/guard.sh": '. "$(dirname "$0")/common"\n', "h/common": ""}, "sh h/guard.sh", plant("h/common", "exit 0")
    ),
    "sourced from another folder": Attack(
        {"h/guard.sh": '. "$(dirname "$0")/../lib/common.sh"\n', "lib/common.sh": ""},
        "sh h/guard.sh",
        plant("lib/common.sh", "exit 0"),
    ),
    **{
        f"started with {code}": Attack({"h/guard.py": code, "lib/x.sh": "", "lib/x.py": ""}, GUARD, change)
        for change in (lambda p: [p.write("lib/x.sh", "exit 0"), p.write("lib/x.py", "1")],)
        for code in (
            "import subprocess\nsubprocess.run(['sh', 'lib/x.sh'])\n",
            "subprocess.check_output(\n    ['bash', '-e', join(dirname(__file__), '..', 'lib/x.sh')],\n)\n",
            "subprocess.run('lib/x.sh --strict', shell=True)\n",
            "subprocess.run([sys.executable, 'lib/x.py'])\n",
            "subprocess.run(['uv', 'run', 'lib/x.py'])\n",
            "subprocess.run(f'{ROOT}/lib/x.sh')\n",
            "os.system('sh lib/x.sh')\n",
            "os.execvp('sh', ['sh', 'lib/x.sh'])\n",
            "exec(open('lib/x.py').read())\n",
            "runpy.run_path('lib/x.py')\n",
        )
    },
    "started by JavaScript": Attack(
        {"h/guard.js": "require('child_process').execSync('sh lib/x.sh')", "lib/x.sh": ""},
        "node h/guard.js",
        plant("lib/x.sh", "exit 0"),
    ),
    "removed": Attack({"h/guard.py": "", "h/rules.py": ""}, GUARD, lambda p: p.path("h/rules.py").unlink()),
    "script reached through a link": Attack(
        {"tools/guard.py": "import rules", "tools/rules.py": ""},
        GUARD,
        plant("tools/rules.py", "1"),
    ),
    "linked folder": Attack({"h/guard.py": "", "shared/a.py": ""}, GUARD, plant("shared/a.py", "1")),
    "linked folder that leads elsewhere": Attack(
        {"h/guard.py": "", "shared/a.py": "", "other/a.py": "1"}, GUARD, link("h/linked", "../other")
    ),
    # all files of a folder are run
    "loop over a pattern": Attack(
        {"policies/a.sh": ""}, 'for f in policies/*.sh; do sh "$f" || exit 2; done', plant("policies/b.sh")
    ),
    "loop without suffixes": Attack({"policies/a": ""}, 'for f in policies/*; do . "$f"; done', plant("policies/b")),
    "loop in the root": Attack({"a.policy": ""}, 'for f in *.policy; do sh "$f"; done', plant("b.policy")),
    "loop in a script": Attack(
        {"h/guard.sh": 'for f in "$(dirname "$0")"/../policies/*; do sh "$f"; done\n', "policies/a": ""},
        "sh h/guard.sh",
        plant("policies/b"),
    ),
    "loop over a variable": Attack(
        {"policies/a": ""}, 'D=policies; for f in "$D"/*; do sh "$f"; done', plant("policies/b")
    ),
    "cat into a shell": Attack({"policies/a": ""}, "cat policies/* | sh", plant("policies/b")),
    "cat of one file into a shell, in a script": Attack(
        {"h/guard.sh": "cat policies/a | sh\n", "policies/a": ""}, "sh h/guard.sh", plant("policies/a", "exit 0")
    ),
    "ls into xargs": Attack({"policies/a": ""}, "ls policies/* | xargs -n1 sh", plant("policies/b")),
    "ls of a folder": Attack({"policies/a": ""}, "ls policies | xargs -I{} sh policies/{}", plant("policies/b")),
    "echo into xargs": Attack({"policies/a": ""}, "echo policies/* | xargs -n1 sh", plant("policies/b")),
    "find": Attack({"policies/x/a": ""}, "find policies -type f -exec sh {} \\;", plant("policies/x/b")),
    "find into xargs": Attack({"policies/a.txt": ""}, "find policies -print0 | xargs -0 sh", plant("policies/b.txt")),
    "find that runs what it finds": Attack(
        {"policies/a": ""}, "find policies -type f -exec {} \\;", plant("policies/b")
    ),
    "run-parts": Attack({"policies/a": ""}, "run-parts policies", plant("policies/b")),
    "command substitution": Attack({"policies/a": ""}, 'eval "$(cat policies/*)"', plant("policies/b")),
    "code from a substitution": Attack({"policies/a": ""}, 'python3 -c "$(cat policies/*)"', plant("policies/b")),
    "read in a loop": Attack(
        {"policies/a": ""}, 'ls policies | while read f; do sh "policies/$f"; done', plant("policies/b")
    ),
    "name that is made at run time": Attack(
        {"policies/Bash": ""}, 'sh "policies/$CLAUDE_TOOL_NAME"', plant("policies/Write")
    ),
    "sourced by a pattern": Attack({"policies/a.sh": ""}, ". policies/*.sh", plant("policies/b.sh")),
    "process substitution": Attack(
        {"policies/a": ""}, 'while read -r f; do bash "$f"; done < <(find policies -type f)', plant("policies/b")
    ),
    "loop over ls": Attack({"policies/a": ""}, "for f in $(ls policies); do sh policies/$f; done", plant("policies/b")),
    "loop inside a shell": Attack(
        {"policies/a": ""}, "bash -c 'for f in policies/*; do . \"$f\"; done'", plant("policies/b")
    ),
    "loop after cd": Attack({"policies/a": ""}, 'cd policies && for f in *; do sh "$f"; done', plant("policies/b")),
    "parallel": Attack({"policies/a": ""}, "parallel sh ::: policies/*", plant("policies/b")),
    "two levels": Attack(
        {"policies/x/a.sh": ""}, 'for f in policies/*/*.sh; do sh "$f"; done', plant("policies/y/b.sh")
    ),
    "folder as a program": Attack({"h/__main__.py": ""}, "python3 h", plant("h/x.py")),
    # files that are loaded before the script
    "PYTHONPATH": Attack(
        {"h/guard.py": "", "lib/x.py": ""}, "PYTHONPATH=lib python3 h/guard.py", plant("lib/sitecustomize.py")
    ),
    "PYTHONPATH of the root": Attack({"h/guard.py": ""}, "PYTHONPATH=. python3 h/guard.py", plant("usercustomize.py")),
    "PYTHONPATH in a script": Attack(
        {"h/guard.sh": "export PYTHONPATH=lib\npython3 h/x.py\n", "h/x.py": "", "lib/y.py": ""},
        "sh h/guard.sh",
        plant("lib/sitecustomize.py"),
    ),
    "BASH_ENV": Attack({"env.sh": "", "h/guard.sh": ""}, "BASH_ENV=env.sh bash h/guard.sh", plant("env.sh", "exit 0")),
    "BASH_ENV that is not there yet": Attack(
        {"h/guard.sh": ""}, "BASH_ENV=./env.sh bash h/guard.sh", plant("env.sh", "exit 0")
    ),
    "env BASH_ENV": Attack({"e": "", "h/guard.sh": ""}, "env BASH_ENV=e bash h/guard.sh", plant("e", "exit 0")),
    "export ENV": Attack({"e": "", "h/guard.sh": ""}, "export ENV=e; sh h/guard.sh", plant("e", "exit 0")),
    "NODE_OPTIONS": Attack(
        {"h/guard.js": "", "lib/x.js": ""},
        "NODE_OPTIONS='--require ./lib/x.js' node h/guard.js",
        plant("lib/x.js", "1"),
    ),
    "node --import": Attack({"h/guard.js": "", "x.mjs": ""}, "node --import=./x.mjs h/guard.js", plant("x.mjs", "1")),
    "perl -I": Attack({"h/guard.pl": "", "lib/X.pm": ""}, "perl -I lib h/guard.pl", plant("lib/X.pm", "1")),
    "perl -Ilib": Attack({"h/guard.pl": "", "lib/X.pm": ""}, "perl -Ilib h/guard.pl", plant("lib/strict.pm")),
    "ruby -r": Attack({"h/guard.rb": "", "x.rb": ""}, "ruby -r ./x.rb h/guard.rb", plant("x.rb", "1")),
    "php -d": Attack({"h/x.php": "", "p.php": ""}, "php -d auto_prepend_file=p.php h/x.php", plant("p.php", "1")),
    "env -i": Attack({"e": "", "h/guard.sh": ""}, "env -i BASH_ENV=e bash h/guard.sh", plant("e", "exit 0")),
    "TypeScript's paths": Attack(
        {"h/x.ts": "", "h/tsconfig.json": "{}"}, "npx tsx h/x.ts", plant("h/tsconfig.json", "[]")
    ),
    "RUBYLIB": Attack({"h/guard.rb": "", "lib/x.rb": ""}, "RUBYLIB=lib ruby h/guard.rb", plant("lib/x.rb", "1")),
    "LD_PRELOAD": Attack({"h/guard.sh": "", "x.so": ""}, "LD_PRELOAD=./x.so sh h/guard.sh", plant("x.so", "1")),
    "PATH": Attack({"h/guard.sh": "", "b/x": ""}, "PATH=b:$PATH sh h/guard.sh", plant("b/grep", "#!/bin/sh\n", 0o755)),
    "interpreter of a first line": Attack(
        {"h/guard": "#!/usr/bin/env -S {root}/tools/run --x\n", "tools/run": ""},
        "h/guard",
        plant("tools/run", "exit 0"),
    ),
    "env -S": Attack({"h/x.py": "", "h/y.py": ""}, "env -S 'python3 h/x.py'", plant("h/y.py", "1")),
    # virtual environments
    **{
        f"{name} of a virtual environment": Attack(
            {f"{venv}/pyvenv.cfg": "", f"{venv}/bin/python": "", f"{venv}/{SITE}/x.py": "", "h/guard.py": ""},
            command,
            plant(f"{venv}/{planted}", "import os"),
        )
        for name, venv, command, planted in [
            (".pth", ".venv", ".venv/bin/python h/guard.py", f"{SITE}/evil.pth"),
            ("sitecustomize", ".venv", ".venv/bin/python h/guard.py", f"{SITE}/sitecustomize.py"),
            ("pyvenv.cfg", "env", "env/bin/python h/guard.py", "pyvenv.cfg"),
            ("activated .pth", ".venv", ". .venv/bin/python && python3 h/guard.py", f"{SITE}/evil.pth"),
            (".pth with uv run", ".venv", "uv run h/guard.py", f"{SITE}/evil.pth"),
            (".pth with poetry run", ".venv", "poetry run python h/guard.py", f"{SITE}/evil.pth"),
        ]
    },
    # modules by name
    "python -m": Attack({"pkg/__main__.py": "", "pkg/a.py": ""}, "python3 -m pkg", plant("pkg/a.py", "1")),
    "python -m of a module": Attack({"pkg/a.py": "", "pkg/b.py": ""}, "python3 -m pkg.a", plant("pkg/b.py", "1")),
    "python -c": Attack({"pkg/__init__.py": "", "pkg/b.py": ""}, "python3 -c 'import pkg'", plant("pkg/b.py", "1")),
    "python -c with sys.path": Attack(
        {"lib/rules.py": ""},
        "python3 -c 'import sys; sys.path.insert(0, \"lib\"); import rules'",
        plant("lib/rules.py", "1"),
    ),
    "shadow in the root": Attack({"guard.py": "import json"}, "python3 guard.py", plant("json.py")),
    "shadow that another module imports": Attack({"guard.py": "import json"}, "python3 guard.py", plant("random.py")),
    "module that was not there": Attack(
        {"guard.py": "try: import rules\nexcept: 1"}, "python3 guard.py", plant("rules.py")
    ),
    "unchecked compiled module": Attack(
        {"h/guard.py": "import a", "h/a.py": "x = 1\n"},
        GUARD,
        compiled("h/a.py", py_compile.PycInvalidationMode.UNCHECKED_HASH),
    ),
    "checked compiled module": Attack(
        {"h/guard.py": "import a", "h/a.py": "x = 1\n"},
        GUARD,
        compiled("h/a.py", py_compile.PycInvalidationMode.CHECKED_HASH),
    ),
    "compiled module in the root": Attack(
        {"guard.py": "import a", "a.py": "x = 1\n"},
        "python3 guard.py",
        compiled("a.py", py_compile.PycInvalidationMode.CHECKED_HASH),
    ),
    # instructions for other programs
    "make": Attack({"Makefile": "guard:\n\ttrue\n"}, "make guard", plant("Makefile", "guard:\n\tfalse\n")),
    "make elsewhere": Attack({"sub/Makefile": ""}, "cd sub && make guard", plant("sub/Makefile", "1")),
    "make -C": Attack({"sub/Makefile": ""}, "make -C sub guard", plant("sub/Makefile", "1")),
    "npm run": Attack({"package.json": "{}"}, "npm run guard", plant("package.json", '{"scripts": {}}')),
    "npm --prefix": Attack({"sub/package.json": "{}"}, "npm --prefix sub run guard", plant("sub/package.json", "[]")),
    "just": Attack({"justfile": "guard:\n"}, "just guard", plant("justfile", "guard:\n  true\n")),
}
BEFORE: dict[str, Change] = {
    "script reached through a link": link("h/guard.py", "../tools/guard.py"),
    "linked folder": link("h/linked", "../shared"),
    "linked folder that leads elsewhere": link("h/linked", "../shared"),
}


def approved(project: Project, hook: dict[str, Any], files: dict[str, str], before: Change | None = None) -> None:
    for name, text in files.items():
        project.write(name, text.replace("{root}", str(project.folder)), 0o755 if "/bin/" in name else 0o644)
    if before is not None:
        before(project)
    about = {"events": "PreToolUse", "match": "Bash", "gate": True, "dialect": "claude", **hook}
    project.write(".billhook/hooks.yaml", {"hooks": {"guard": about}})
    assert project.approve() == ["guard"]
    assert states(project.load()) == {"guard": "runs"}


def fired(project: Project, start: str) -> Verdict:
    """Fire with the configuration from before the change, or with one that is loaded now."""
    if start == "cold":
        loader._cache.clear()
    return project.fire()


@pytest.mark.parametrize("start", ["warm", "cold"])
@pytest.mark.parametrize("name", ATTACKS)
def test_attack(project: Project, name: str, start: str) -> None:
    """A planted or changed file invalidates the approval, and the gate denies."""
    attack = ATTACKS[name]
    approved(project, {"run": attack.command}, attack.files, BEFORE.get(name))
    attack.change(project)
    verdict = fired(project, start)
    assert verdict.decision == "deny", verdict
    assert "since it was approved" in (verdict.reason or "")
    assert states(project.load()) == {"guard": "changed"}


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_between_loading_and_running(project: Project, name: str) -> None:
    """A process that loaded the hooks checks them again before it runs one."""
    attack = ATTACKS[name]
    approved(project, {"run": attack.command}, attack.files, BEFORE.get(name))
    engine = project.load().engine()
    attack.change(project)
    about = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    verdict = engine.fire_sync(parse({**about, "cwd": str(project.folder)}))
    assert verdict.decision == "deny" and "since it was approved" in (verdict.reason or "")


def runs_a_script(project: Project) -> None:
    project.fire()


EVERYDAY: dict[str, Change] = {
    "a log": plant("h/audit.log", "x"),
    "state": plant("h/state.json", "{}"),
    "state without a suffix": plant("h/.last-run", "1"),
    "state in a new folder": plant("h/state/session-1", "1"),
    "many sessions": lambda project: [project.write(f"h/sessions/{n}.jsonl", "") for n in range(200)],
    "a lock": plant("h/guard.lock", "1"),
    "a database": plant("h/cache.sqlite3", "1"),
    "notes": plant("h/README.md", "1"),
    "an executable log": plant("h/x.log", "1", 0o777),
    "compiled modules": lambda p: [py_compile.compile(str(p.path(f"h/{n}.py"))) for n in ("guard", "rules")],
    "the hook runs": runs_a_script,
    "another file in the root": plant("setup.py", "1"),
    "another script elsewhere": plant("scripts/build.sh", "1"),
    "another commit": plant("src/app.py", "1"),
    "an installed package": plant("h/node_modules/x/index.js", "1"),
    "git": plant("h/.git/index", "1"),
    "the settings of an environment elsewhere": plant("pyvenv.cfg", ""),
    "a file that is checked": plant("src/checked.py", "1"),
    "a file that is mentioned": plant("conftest.py", "1"),
    "touched": lambda project: os.utime(project.path("h/rules.py")),
}


@pytest.mark.parametrize("start", ["warm", "cold"])
@pytest.mark.parametrize("name", EVERYDAY)
def test_everyday(project: Project, name: str, start: str) -> None:
    """Files that hooks write beside themselves, and changes elsewhere, don't invalidate the approval."""
    guard = "import rules, subprocess\nsubprocess.run(['true', 'src/checked.py'])\nif 'x' == 'conftest.py':\n    pass\n"
    files = {
        "h/guard.py": guard,
        "src/checked.py": "",
        "conftest.py": "",
        "h/rules.py": "",
        "scripts/build.sh": "",
        "h/node_modules/x/a.js": "",
    }
    approved(project, {"run": GUARD}, files)
    EVERYDAY[name](project)
    assert fired(project, start).decision == "none"
    assert states(project.load()) == {"guard": "runs"}


def test_a_hook_that_writes_beside_another(project: Project) -> None:
    """The first hook creates a file; the gate in the same folder still runs."""
    files = {"h/first.sh": "touch h/state-$$; mkdir -p h/new\n", "h/guard.sh": "exit 0\n"}
    about = {"events": "PreToolUse", "gate": True}
    for name, text in files.items():
        project.write(name, text)
    hooks = {"first": {**about, "run": "sh h/first.sh"}, "guard": {**about, "run": "sh h/guard.sh"}}
    project.write(".billhook/hooks.yaml", {"hooks": hooks})
    project.approve()
    for _ in range(3):
        assert project.fire().decision == "none"


def test_python_hooks(project: Project) -> None:
    """A function's file is a script like any other."""
    files = {".billhook/policy/guard.py": "def check(event):\n    return None\n", ".billhook/policy/rules.py": ""}
    approved(project, {"python": "policy.guard:check"}, files)
    assert project.fire().decision == "none"
    project.write(".billhook/policy/rules.py", "1")
    assert project.fire().decision == "deny"


UNCOVERED: dict[str, tuple[dict[str, str], str, str]] = {
    "script in the root": ({"guard.sh": ""}, "./guard.sh", "the project's top folder"),
    "outside": ({}, "sh {outside}", "outside of the project"),
    "packages": ({"h/a.js": "", "h/node_modules/x/a.js": ""}, "node h/a.js", "h/node_modules: installed packages"),
    "environment": ({"v/pyvenv.cfg": "", "v/bin/python": ""}, "v/bin/python -V", "v: installed packages"),
    "make": ({"Makefile": ""}, "make x", "code of the project that `make` runs"),
    "npm": ({}, "npm run x", "code of the project that `npm` runs"),
    "pytest": ({}, "pytest -q", "code of the project that `pytest` runs"),
    "script of a variable": ({"h/a.py": "subprocess.run(['sh', SCRIPT])"}, "python3 h/a.py", "known only at run time"),
    "name of a variable": ({}, 'sh "$SCRIPT"', "known only at run time"),
    "program of a variable": ({}, '"$PROGRAM" x', "known only at run time"),
    "too many": ({f"h/{n}.py": "" for n in range(MAX_CODE + 1)}, "python3 h/0.py", "h: too many"),
    "too many of any kind": (
        {"h/0.py": "", **{f"h/{n}.json": "" for n in range(MAX_ENTRIES + 1)}},
        "python3 h/0.py",
        "h: ",
    ),
    "too large": ({"h/a.py": "", "h/b.so": "x" * (17 << 20)}, "python3 h/a.py", "h: too many or too large"),
    "link that leads out": ({"h/a.py": ""}, "python3 h/a.py", "h/out: it leads to"),
}


@pytest.mark.parametrize("name", UNCOVERED)
def test_what_can_not_be_covered_is_reported(project: Project, tmp_path: Path, name: str) -> None:
    """During the approval, with the reason."""
    files, command, expected = UNCOVERED[name]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.sh").write_text("")
    before = link("h/out", str(tmp_path / "elsewhere")) if name == "link that leads out" else None
    approved(project, {"run": command.replace("{outside}", str(tmp_path / "elsewhere" / "x.sh"))}, files, before)
    print_ = entry(project.load(), "guard").consent.fingerprint
    assert print_ is not None
    assert any(expected in text for text in print_.uncovered), print_.uncovered


def test_folder_that_grows_over_the_bound(project: Project) -> None:
    """Flooding a folder does not help: that the folder is no longer covered is a change."""
    approved(project, {"run": "python3 h/0.py"}, {f"h/{n}.py": "" for n in range(MAX_CODE)})
    project.write("h/more.py", "")
    assert fired(project, "warm").decision == "deny"
    assert fired(project, "cold").decision == "deny"


def test_approval_of_an_earlier_version(project: Project) -> None:
    """It covered fewer files: the hook needs one more approval, and the reason does not report a changed file."""
    approved(project, {"run": GUARD}, {"h/guard.py": "", "h/rules.py": ""})
    (record,) = (project.root / "billhook" / "approvals").rglob("*.json")
    old = json.loads(record.read_text())
    del old["covers"], old["beside"]
    old["hash"] = "0" * 64
    record.unlink()
    record.with_name("0" * 64 + ".json").write_text(json.dumps(old))
    record.with_name("0" * 64 + ".json").chmod(0o600)
    verdict = fired(project, "cold")
    assert verdict.decision == "deny"
    assert "approvals now cover more files (1 of this hook); nothing else has changed" in (verdict.reason or "")


def test_hooks_without_scripts_keep_their_approval(project: Project) -> None:
    """No files are checked for them."""
    approved(project, {"run": "true"}, {})
    print_ = entry(project.load(), "guard").consent.fingerprint
    assert print_ is not None and print_.marks == ()
