"""Nothing of a clone runs, or connects to a server, before the user approved it. A tracer checks this."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from billhook.cli.main import VERBS
from billhook.config import load_config
from billhook.config.trust import approve_entry
from billhook.core.events import parse
from config.clones import SCENARIOS, Clone
from config.tracer import EVENTS, KnownValue, Verb, calls_in, traced, tracers, watch

PROGRAM = Path(sys.executable).with_name("billhook")
TRACERS = tracers()
SECRET = "s3cret-value-of-a-variable"
BEFORE, START = (json.dumps(event) for event in EVENTS)

LOOKS: tuple[Verb, ...] = (
    ("library", (), ""),
    ("status", (), ""),
    ("list", ("list",), ""),
    ("check", ("check",), ""),
    ("explain", ("explain", "rm -rf /"), ""),
    ("fire", ("fire", "PreToolUse", "--tool", "Bash", "--input", '{"command": "ls"}'), ""),
    ("fire-start", ("fire", "SessionStart", "--json"), ""),
    ("hook", ("hook", "--as", "claude"), BEFORE),
    ("hook-start", ("hook", "--as", "claude"), START),
    ("trust-list", ("trust", "--list"), ""),
    ("trust", ("trust",), "y\ny\ny\n"),
    ("schema", ("schema", "hooks"), ""),
)
VERBS_HERE = tuple(look for look in LOOKS if not look[1] or look[1][0].startswith("-") or look[1][0] in VERBS)


class Server:
    """Counts connections."""

    def __init__(self) -> None:
        self.connections = 0
        server = self

        class Answer(BaseHTTPRequestHandler):
            def setup(self) -> None:
                server.connections += 1
                super().setup()

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/hook"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def environment(clone: Clone) -> dict[str, str]:
    """The environment of a user at a terminal: no variables of an agent, and a secret."""
    return {
        "HOME": str(clone.home),
        "PATH": f"{PROGRAM.parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "SECRET": SECRET,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def looked_at(clone: Clone, tmp_path: Path, tracer: str) -> KnownValue:
    return watch(VERBS_HERE, standing(clone), environment(clone), tmp_path / f"work-{tracer}", tracer)


def standing(clone: Clone) -> Path:
    """The user's working directory: deep inside of the clone, if it has folders."""
    inner = clone.folder / "vendor" / "inner"
    return inner if inner.is_dir() else clone.folder


def approve_all(clone: Clone) -> None:
    root = clone.home / ".claude"
    for entry in load_config(standing(clone), home=root).pending:
        approve_entry(entry, root)


def fire_all(clone: Clone, **options: Any) -> None:
    engine = load_config(standing(clone), home=clone.home / ".claude", **options).engine()
    for event in EVENTS:
        engine.fire_sync(parse({**event, "cwd": str(standing(clone))}))


def assert_quiet(seen: KnownValue, clone: Clone, server: Server) -> None:
    """Nothing ran, nothing connected, no secret was shown, and every verb worked."""
    assert seen.started == [] and seen.connected == []
    assert not clone.canary.exists() and server.connections == 0
    for title, screen in seen.screens.items():
        assert screen.code in (0, 1, 2), (title, screen)
        assert "Traceback" not in screen.err and "internal error" not in screen.err, (title, screen)
        text = screen.out + screen.err
        assert SECRET not in text, title
        if title != "library":
            assert not set(text) & set("\x1b\x9b\x07\u202e\u2066"), (title, screen)


@pytest.mark.parametrize("row", SCENARIOS)
def test_nothing_runs_before_approval(
    row: str, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every verb and the library inspect the clone. Then the user approves everything, and it runs."""
    found = SCENARIOS[row]
    clone = Clone(tmp_path, server.url, found.folder)
    for name in ("XDG_CONFIG_HOME", "BILLHOOK_HOME", "CLAUDE_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(clone.home))
    found.fill(clone)
    assert not clone.canary.exists()
    assert_quiet(looked_at(clone, tmp_path, TRACERS[0]), clone, server)
    approve_all(clone)
    fire_all(clone)
    if found.after == "never":
        fire_all(clone, trust="all")
    assert clone.canary.exists() == (found.after == "runs")
    if found.after != "runs":
        assert (server.connections > 0) == (found.after == "calls")


def test_the_tracer_sees_what_runs(tmp_path: Path, server: Server) -> None:
    """Each tracer, with a hook that the user allowed: the tests above can fail."""
    clone = Clone(tmp_path, server.url)
    SCENARIOS["hooks.yaml with every kind of action"].fill(clone)
    verbs: tuple[Verb, ...] = (("all", ("fire", "SessionStart", "--trust", "all"), ""),)
    for name in TRACERS:
        seen = watch(verbs, clone.folder, environment(clone), tmp_path / name, name)
        assert any("x.sh" in program for program in seen.started), (name, seen)
        assert seen.connected, (name, seen)
    assert clone.canary.exists() and server.connections > 0


def test_python_sees_the_same(tmp_path: Path, server: Server) -> None:
    """Without strace, Python's audit events are enough."""
    clone = Clone(tmp_path, server.url)
    SCENARIOS["hooks.yaml with every kind of action"].fill(clone)
    assert_quiet(looked_at(clone, tmp_path, "audit"), clone, server)


SHADOWS: tuple[str, ...] = ("billhook", "msgspec", "yaml", "click", "re2", "tree_sitter", "httpx", "sitecustomize")
SHADOWS += ("usercustomize", "json", "re", "os", "typing", "enum", "encodings", "asyncio", "_distutils_hack")
SCRIPT = """
billhook
billhook list
billhook check
billhook explain 'rm -rf /'
billhook fire PreToolUse --tool Bash --input '{"command": "ls"}'
echo '%s' | billhook hook --as claude
billhook schema >&2
"""


def test_modules_in_the_clone(tmp_path: Path, server: Server) -> None:
    """The program, run by its name in a folder full of modules with the names of ours."""
    clone = Clone(tmp_path, server.url)
    SCENARIOS["hooks.yaml with every kind of action"].fill(clone)
    for name in SHADOWS:
        clone.write(f"{name}.py", clone.code)
        clone.write(f"{name}/__init__.py", clone.code)
        clone.write(f"{name}/__main__.py", clone.code)
    argv, log = ["/bin/sh", "-c", SCRIPT % BEFORE], tmp_path / "log"
    if "strace" in TRACERS:
        done = traced(argv, clone.folder, environment(clone), log)
        started, connected = calls_in(log)
        assert set(started) == {"/bin/sh", str(PROGRAM)} and connected == []
        assert len(started) == 8
    else:
        done = subprocess.run(argv, cwd=clone.folder, env=environment(clone), capture_output=True, check=False)
    assert b"Traceback" not in done.stderr and b"not approved" in done.stdout
    assert not clone.canary.exists() and server.connections == 0


def test_init_approves_only_what_it_wrote(tmp_path: Path, server: Server) -> None:
    """`billhook init` in a clone: the hooks of the clone still wait for approval."""
    clone = Clone(tmp_path, server.url)
    for row in ("plain strings", "hooks.json", "a repository in a repository"):
        SCENARIOS[row].fill(clone)
    verbs: tuple[Verb, ...] = (("init", ("init",), "y\n"), *VERBS_HERE)
    seen = watch(verbs, clone.folder, environment(clone), tmp_path / "watched", TRACERS[0])
    assert not clone.canary.exists() and server.connections == 0
    assert [name for name, screen in seen.screens.items() if screen.code not in (0, 1, 2)] == []


def test_a_clone_does_not_replace_a_python_hook_of_the_user(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's `python: module:function` is the user's module, even if a clone has a module of that name."""
    clone = Clone(tmp_path, server.url)
    monkeypatch.setenv("HOME", str(clone.home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    own = clone.home / ".config" / "billhook"
    own.mkdir(parents=True)
    (own / "hooks.yaml").write_text("hooks:\n  mine: {events: PreToolUse, python: 'my_policy:check'}\n")
    (own / "my_policy.py").write_text("def check(event):\n    return None\n")
    clone.write("my_policy.py", clone.code + "def check(event):\n    return None\n")
    fire_all(clone)
    assert not clone.canary.exists()
