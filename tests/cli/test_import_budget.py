"""What `billhook hook` loads. It starts at every tool call, and every module is felt there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from cli.place import Place

EVENT = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t"}
HEAVY = {
    *("_hashlib", "ast", "asyncio", "click", "concurrent.futures", "ctypes", "dataclasses", "decimal", "difflib"),
    *(
        "email",
        "html",
        "http",
        "importlib.metadata",
        "inspect",
        "json",
        "locale",
        "logging",
        "multiprocessing",
        "pickle",
    ),
    *("platform", "random", "re2", "rich", "secrets", "selectors", "shlex", "signal", "socket", "ssl", "subprocess"),
    *("pickle", "tempfile", "textwrap", "threading", "tokenize", "traceback", "typing_extensions", "unittest"),
    *("urllib.parse", "uuid", "weakref", "yaml"),
}
"""Modules that cost more than running every built-in. They are imported only where they are needed."""


PROBE = """
import atexit, sys
sys.argv = ["billhook", "hook"]
atexit.register(lambda: print("", *sys.modules, file=sys.stderr, sep=chr(10)))
from billhook.cli.main import main
main()
"""


def loaded(place: Place) -> set[str]:
    """The modules that were imported for one event, by the second event of a session: the first one makes files."""
    event = {**EVENT, "cwd": str(place.project), "tool_input": {"command": "ls -la"}}
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-c", PROBE],
            input=json.dumps(event).encode(),
            capture_output=True,
            env=place.env(),
            cwd=place.project,
            check=True,
        )
    return set(ended.stderr.decode().split())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def ours(modules: set[str]) -> list[str]:
    return sorted(name for name in modules if name.partition(".")[0] == "billhook")


def test_an_event_without_hooks(place: Place) -> None:
    """Without files, what is loaded reads the event, asks the built-ins and writes the log: these, and no more."""
    modules = loaded(place)
    assert modules & HEAVY == set()
    assert ours(modules) == snapshot(
        [
            "billhook",
            "billhook.agents",
            "billhook.agents.child",
            "billhook.agents.reference",
            "billhook.builtins",
            "billhook.builtins.guard",
            "billhook.builtins.trackers",
            "billhook.cli",
            "billhook.cli.hook",
            "billhook.cli.main",
            "billhook.cli.signals",
            "billhook.config",
            "billhook.config.builtin_hooks",
            "billhook.config.config",
            "billhook.config.declaration",
            "billhook.config.layers",
            "billhook.config.loader",
            "billhook.config.nodes",
            "billhook.config.notices",
            "billhook.config.recorder",
            "billhook.config.sources",
            "billhook.core",
            "billhook.core.answer_schema",
            "billhook.core.answers",
            "billhook.core.client_env",
            "billhook.core.dialect_traits",
            "billhook.core.errors",
            "billhook.core.events",
            "billhook.core.hook",
            "billhook.core.lazy",
            "billhook.core.match",
            "billhook.core.strictjson",
            "billhook.core.text",
            "billhook.core.tools",
            "billhook.effects",
            "billhook.effects.effect",
            "billhook.engine",
            "billhook.engine.background",
            "billhook.engine.engine",
            "billhook.engine.plan",
            "billhook.engine.progress",
            "billhook.engine.step",
            "billhook.pytest",
            "billhook.rules",
            "billhook.serve",
            "billhook.serve.hook_server",
            "billhook.store",
            "billhook.store.approvals",
            "billhook.store.files",
            "billhook.store.log",
            "billhook.store.log.eventlog",
            "billhook.store.redaction",
            "billhook.store.secrets",
            "billhook.store.secrets.assignments",
            "billhook.store.sessions",
            "billhook.store.state",
            "billhook.webhooks",
        ]
    )


RULE = "hooks:\n  no-shell:\n    events: PreToolUse\n    match: Bash\n    deny: Not here\n"


def test_one_plain_rule(place: Place) -> None:
    """A deny rule needs a reader of files, and nothing that runs programs."""
    place.own(RULE)
    modules = loaded(place)
    assert modules & HEAVY - {"yaml"} == snapshot({"difflib", "json"})
    assert ours(modules) == snapshot(
        [
            "billhook",
            "billhook.agents",
            "billhook.agents.child",
            "billhook.agents.reference",
            "billhook.agents.stdout",
            "billhook.builtins",
            "billhook.builtins.guard",
            "billhook.builtins.trackers",
            "billhook.cli",
            "billhook.cli.hook",
            "billhook.cli.main",
            "billhook.cli.signals",
            "billhook.config",
            "billhook.config.build",
            "billhook.config.builtin_hooks",
            "billhook.config.config",
            "billhook.config.declaration",
            "billhook.config.entry",
            "billhook.config.layers",
            "billhook.config.loader",
            "billhook.config.nodes",
            "billhook.config.notices",
            "billhook.config.override",
            "billhook.config.read_hook",
            "billhook.config.read_yaml",
            "billhook.config.recorder",
            "billhook.config.shapes",
            "billhook.config.sources",
            "billhook.config.trust",
            "billhook.core",
            "billhook.core.answer_json",
            "billhook.core.answer_schema",
            "billhook.core.answers",
            "billhook.core.client_env",
            "billhook.core.dialect_traits",
            "billhook.core.errors",
            "billhook.core.events",
            "billhook.core.hook",
            "billhook.core.lazy",
            "billhook.core.match",
            "billhook.core.strictjson",
            "billhook.core.text",
            "billhook.core.tools",
            "billhook.effects",
            "billhook.effects.conditions",
            "billhook.effects.effect",
            "billhook.effects.programs",
            "billhook.effects.rules",
            "billhook.effects.script",
            "billhook.effects.shell",
            "billhook.engine",
            "billhook.engine.background",
            "billhook.engine.engine",
            "billhook.engine.plan",
            "billhook.engine.progress",
            "billhook.engine.step",
            "billhook.pytest",
            "billhook.rules",
            "billhook.runners",
            "billhook.runners.command",
            "billhook.serve",
            "billhook.serve.hook_server",
            "billhook.store",
            "billhook.store.approvals",
            "billhook.store.files",
            "billhook.store.log",
            "billhook.store.log.eventlog",
            "billhook.store.redaction",
            "billhook.store.secrets",
            "billhook.store.secrets.assignments",
            "billhook.store.sessions",
            "billhook.store.state",
            "billhook.webhooks",
        ]
    )


LIGHT = """
import sys
from billhook.cli.main import import_lightly
import_lightly()
import msgspec
missing = [name for name in ("typing_extensions", "uuid", "decimal", "datetime", "urllib.parse") if name in sys.modules]
import datetime, decimal, pathlib, uuid
print(missing, datetime.__file__ is not None, decimal.Decimal("1.5"), uuid.UUID(int=1).version)
print(msgspec.json.encode(datetime.date(2020, 1, 2)), msgspec.json.decode(b'"2020-01-02"', type=datetime.date))
print(pathlib.Path("/a b").as_uri(), msgspec.json.schema(int), msgspec.inspect.type_info(int).gt, msgspec.yaml.encode)
"""


def test_left_out_modules_are_imported_on_use(place: Place) -> None:
    """msgspec works as it does elsewhere, and the modules that others stood in for are the real ones."""
    ended = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, env=place.env(), text=True, check=True)
    first, second, third = ended.stdout.splitlines()
    assert first == "[] True 1.5 None"
    assert second == "b'\"2020-01-02\"' 2020-01-02"
    assert third.startswith("file:///a%20b {'type': 'integer'} None <function encode")


@pytest.mark.parametrize("end", ["", "\n"], ids=["nothing", "a line"])
def test_stdout_is_whole_though_the_process_ends_at_once(place: Place, end: str) -> None:
    """All output is there, although the process exits without cleanup."""
    place.own(RULE)
    event = {**EVENT, "cwd": str(place.project), "tool_input": {"command": "x" * 100_000}}
    ended = place.run("hook", stdin=(json.dumps(event) + end).encode())
    assert ended.code == 0 and json.loads(ended.out)["hookSpecificOutput"]["permissionDecisionReason"].startswith(
        "Not here"
    )
