"""Rooms: what each folder of the package may import, and what `import billhook` loads."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import billhook

ROOT = Path(billhook.__file__).parent
ROOMS = sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file())
ORDER = ["core", "effects", "agents", "engine", "runners", "store", "builtins", "approvals", "config"]
ORDER += ["fleet", "testing", "session", "adapters", "agent", "serve", "cli"]


def allowed(room: str) -> set[str]:
    """The rooms that a room's docstring lets it import, and itself."""
    doc = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text("utf-8"))) or ""
    found = re.search(r"^Imports: (.+)\.$", doc, re.MULTILINE)
    assert found, f"the docstring of {room}/__init__.py needs a line `Imports: ...`"
    names = {"no other room": "", "every room": ", ".join(ORDER)}.get(found[1], found[1])
    return {room, *filter(None, names.split(", "))}


def imports(source: str, module: str) -> Iterator[tuple[str, int]]:
    """The modules of billhook that a source imports at run time, inside functions too, with their lines."""
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
            yield from ((a.name[9:], node.lineno) for a in node.names if a.name.startswith("billhook."))
        elif isinstance(node, ast.ImportFrom):
            yield from ((name, node.lineno) for name in imported_from(node, module.split(".")))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("import_module", "__import__", "lazy_module")
        ):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and str(argument.value).startswith("billhook."):
                    yield str(argument.value)[9:], node.lineno


def imported_from(node: ast.ImportFrom, package: list[str]) -> list[str]:
    base = node.module or ""
    if node.level:
        base = ".".join(["billhook", *package[: len(package) - node.level], *([base] if base else [])])
    if base == "billhook":
        return [alias.name for alias in node.names]
    return [base[9:]] if base.startswith("billhook.") else []


def offences(source: str, module: str) -> list[str]:
    """The imports of a module that its room does not allow. Public names of `billhook` itself are not a room."""
    room = module.split(".", maxsplit=1)[0]
    found = [(name.split(".")[0], line) for name, line in imports(source, module)]
    return [f"{module}:{line} imports {name}" for name, line in found if name in ROOMS and name not in allowed(room)]


def modules(room: str) -> list[tuple[str, Path]]:
    return [(".".join(p.relative_to(ROOT).with_suffix("").parts), p) for p in sorted((ROOT / room).rglob("*.py"))]


def test_only_rooms_and_the_public_face() -> None:
    """The package's folder holds the rooms, `__init__`, `__main__` and the typing marker."""
    assert sorted(ORDER) == ROOMS
    files = {path.name for path in ROOT.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}


def test_one_name_for_one_class() -> None:
    """No two classes of the package have the same name."""
    texts = [path.read_text("utf-8") for room in ROOMS for _, path in modules(room)]
    names = Counter(name for text in texts for name in re.findall(r"^class (\w+)", text, re.MULTILINE))

    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_its_docstring_lists(room: str) -> None:
    """No module imports from a room that its own room's docstring does not list."""
    assert [one for name, path in modules(room) for one in offences(path.read_text("utf-8"), name)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_up_the_list_only(room: str) -> None:
    """Every room that a room may import comes before it in the list of rooms."""
    assert {other for other in allowed(room) if ORDER.index(other) > ORDER.index(room)} == set()


def test_rooms_below_config_stay_independent() -> None:
    """The rooms below the engine import little: these sets are the design."""
    assert allowed("core") == {"core"}
    assert allowed("effects") == {"effects", "core"}
    assert allowed("agents") == {"agents", "core"}
    assert allowed("engine") == {"engine", "core"}
    assert allowed("runners") == {"runners", "core", "agents"}
    assert allowed("store") == {"store", "core"}
    assert allowed("builtins") == {"builtins", "core", "effects", "store"}


@pytest.mark.parametrize(
    "source",
    [
        "from billhook.runners.command import command",
        "from billhook import runners",
        "from billhook import core, agents",
        "import billhook.runners.process",
        "import billhook.agents.claude as c",
        "from ..agents import claude",
        "def f():\n    from billhook.cli import main",
        "import importlib\nimportlib.import_module('billhook.runners.process')",
        "process = lazy_module('billhook.runners.process')",
        "try:\n    import billhook.runners.spawn\nexcept ImportError:\n    pass",
    ],
)
def test_every_way_to_import_is_found(source: str) -> None:
    """Each of these lines in the engine is an offence."""
    assert offences(source, "engine.engine")


@pytest.mark.parametrize(
    "source",
    [
        "from billhook.core.answers import Answer",
        "from .plan import Plan",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from billhook.runners.process import Child",
        "import subprocess_of_another_package",
    ],
)
def test_what_is_allowed_is_allowed(source: str) -> None:
    """Lower rooms, the own room and imports for type checkers are fine."""
    assert offences(source, "engine.engine") == []


def test_the_engine_starts_no_process() -> None:
    """Not even with the standard library."""
    for name, path in [*modules("engine"), *modules("core")]:
        text = path.read_text("utf-8")
        assert not re.search(r"import subprocess|os\.fork|posix_spawn", text), name


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
        "from billhook import Hook, PreToolUse; from billhook.engine.plan import Plan; "
        "Plan([Hook(name='h', run=print, match='Bash', dialect='claude')])"
        ".steps(PreToolUse(tool_name='Bash', tool_input={}))"
    )
    assert not any(name.startswith("re2") for name in loaded(statement))
