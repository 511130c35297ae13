"""Imports only go down: section 3 of the design, walked with `ast`; and what `import billhook` brings with it."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import billhook

ROOT = Path(billhook.__file__).parent

VOCABULARY = {
    "errors",
    "extras",
    "later",
    "caller",
    "text",
    "strictjson",
    "globs",
    "events",
    "feedback",
    "exits",
    "answers",
    "meanings",
    "spellings",
    "tools",
    "hook",
    "match",
    "outputs",
    "script",
    "unwrap",
    "shell",
    "rules",
}
PROCESS = {"spawn", "tree", "process", "process_windows", "login"}
WORKER = {"worker", "worker_pool", "worker_main", "worker_files", "worker_wire"}
ENGINE = {"observing", "plan", "steps", "background", "stepping", "callbacks", "progress", "engine"}

MAY_KNOW: dict[str, set[str]] = {
    **dict.fromkeys(VOCABULARY, VOCABULARY),
    # the rows of an agent's dialect and its names of tools are in its record, which is imported when it is used
    "meanings": VOCABULARY | {"agents"},
    "agents": VOCABULARY | {"agents"},
    **{name: {"errors", "exits", "later"} | PROCESS for name in PROCESS},
    **dict.fromkeys(ENGINE, VOCABULARY | ENGINE),
    "callbacks": VOCABULARY | {"stepping"},
    "background": VOCABULARY | {"stepping"},
    "stepping": VOCABULARY,
    "observing": VOCABULARY | {"stepping"},
    "plan": VOCABULARY | {"steps"},
    "steps": VOCABULARY | {"progress", "stepping"},
    "progress": VOCABULARY,
    "handlers": VOCABULARY | {"agents", "process", "login", "callbacks", "stepping"},
    "webhooks": VOCABULARY | {"agents"},
    **dict.fromkeys(WORKER, VOCABULARY | PROCESS | WORKER | {"agents", "callbacks", "stepping", "__version__"}),
    "store": {"errors", "later", "caller", "strictjson", "store"},
    "builtins": VOCABULARY | {"store", "callbacks", "builtins"},
    "config": VOCABULARY
    | {"agents", "handlers", "webhooks", "worker", "plan", "steps", "engine", "spawn", "store", "builtins", "config"},
    "session": VOCABULARY | ENGINE | {"store"},
    "agent": VOCABULARY | ENGINE | {"store", "process", "spawn", "config", "session", "agent", "__version__"},
    "adapters": VOCABULARY | {"agents", "engine", "config", "session", "adapters"},
}
"""What a module may import, by the first part of its name. What is not listed here may know everything."""

LOWEST = {
    "errors": set[str](),
    "extras": set[str](),
    "later": set[str](),
    "caller": set[str](),
    "text": set[str](),
    "strictjson": {"errors", "later"},
    "exits": {"errors"},
    "spellings": {"errors", "strictjson"},
    "tools": {"errors", "spellings", "agents"},
}


def imports(source: str, module: str) -> Iterator[tuple[str, int]]:
    """The modules of ours that a source imports at run time, inside functions too, with their lines."""
    package = module.split(".")
    tree = ast.parse(source)
    only_for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in only_for_types:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("billhook."):
                    yield alias.name.removeprefix("billhook."), node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join(["billhook", *package[: len(package) - node.level], *([base] if base else [])])
            if base == "billhook":
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif base.startswith("billhook."):
                yield base.removeprefix("billhook."), node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__", "later")):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and str(argument.value).startswith("billhook."):
                    yield str(argument.value).removeprefix("billhook."), node.lineno


def offences(source: str, module: str) -> list[str]:
    """The imports of a module that go up."""
    top = module.split(".", maxsplit=1)[0]
    allowed = LOWEST.get(top, MAY_KNOW.get(top))
    if allowed is None:
        return []
    found = [(name.split(".")[0], line) for name, line in imports(source, module)]
    return [f"{module}:{line} imports {name}" for name, line in found if name not in allowed | {top}]


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found.append((name, path))
    return found


def test_imports_only_go_down() -> None:
    """No module of ours imports from a layer above its own."""
    found = [one for name, path in modules() for one in offences(path.read_text("utf-8"), name)]
    assert found == []


def test_every_module_has_its_layer() -> None:
    """A new module at the top of the package is put into a layer here, or is known to stand above all of them."""
    tops = {name.split(".")[0] for name, _ in modules()}
    above = {"__init__", "__main__", "answering", "cli"}
    later = {"daemon", "hosts"}
    assert tops - set(MAY_KNOW) - above - later == set()


def test_the_walker_sees_every_way_to_import() -> None:
    """Each of these lines in the engine is found; what is only for type checkers is not."""
    forbidden = [
        "from billhook.handlers import command",
        "from billhook import process",
        "from billhook import answers, agents",
        "import billhook.process",
        "import billhook.agents.claude as c",
        "from billhook.agents.child import fit",
        "from . import login",
        "from .config import load",
        "def f():\n    from billhook.cli import main",
        "import importlib\nimportlib.import_module('billhook.process')",
        "try:\n    import billhook.spawn\nexcept ImportError:\n    pass",
    ]
    for source in forbidden:
        assert offences(source, "engine"), source
    fine = [
        "from billhook.answers import Answer",
        "from billhook import stepping",
        "from .plan import Plan",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from billhook.process import Child",
        "import subprocess_of_somebody_else",
    ]
    for source in fine:
        assert offences(source, "engine") == [], source
    assert offences("from billhook.events import Event", "process")
    assert offences("from billhook.agents import dialect", "outputs.reading")
    assert offences("from ..engine import Engine", "outputs.reading")
    assert offences("from . import schema", "outputs.reading") == []
    assert offences("from billhook.engine import Engine", "match")
    assert offences("from billhook.engine import Engine", "cli.fire") == []


def test_the_engine_knows_no_process() -> None:
    """Not even the standard library's: nothing in the engine's layer starts one."""
    for name in ("engine", "plan", "background", "stepping", "callbacks", "hook", "match"):
        words = {
            node.id for node in ast.walk(ast.parse((ROOT / f"{name}.py").read_text())) if isinstance(node, ast.Name)
        }
        text = (ROOT / f"{name}.py").read_text()
        assert "subprocess" not in words, name
        assert "import subprocess" not in text and "os.fork" not in text and "posix_spawn" not in text, name


FORBIDDEN = ["asyncio", "subprocess", "click", "re2", "tree_sitter", "tree_sitter_bash", "socket", "ssl", "logging"]


def loaded(statement: str) -> set[str]:
    """Which of the heavy modules a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return {name for name in done.stdout.split() if name.split(".")[0] in FORBIDDEN}


def test_importing_billhook_is_light() -> None:
    """Cold start is felt at every tool call: the heavy modules come when they are needed."""
    assert loaded("import billhook") == set()
    assert loaded("from billhook import Engine, PreToolUse, Hook, deny; Engine([])") == set()


def test_planning_exact_names_needs_no_regex_library() -> None:
    """An engine whose matchers are plain names does without RE2."""
    statement = (
        "from billhook import *; from billhook.plan import Plan; "
        "Plan([Hook(name='h', run=print, match='Bash', dialect='claude')])"
        ".steps(PreToolUse(tool_name='Bash', tool_input={}))"
    ).replace("import *", "import Hook, PreToolUse")
    assert not any(name.startswith("re2") for name in loaded(statement))
