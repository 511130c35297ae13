"""`billhook-hook` as it is installed: compiled, or the launcher where there is no compiler."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import billhook
from daemon import calling
from daemon.calling import COMPILER, SOURCE, Client, built, closing
from daemon.fake_daemon import STARTED, FakeDaemon, answer

PROJECT = SOURCE.parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (PROJECT / "hatch_build.py").exists(), reason="not a checkout"),
]


@pytest.fixture(params=["/bin/sh", "/bin/bash"])
def launcher(request: pytest.FixtureRequest) -> Iterator[Client]:
    """Run by this shell: /bin/sh is another one on each system."""
    if not Path(request.param).exists():
        pytest.skip(f"there is no {request.param}")
    with calling.installed("launcher", calling.LAUNCHER) as one:
        one.program.write_text(calling.LAUNCHER.read_text().replace("#!/bin/sh", f"#!{request.param}"))
        yield one


def run(program: Path, *words: str | bytes, **env: str) -> tuple[int, bytes, bytes]:
    env = {"PATH": "/usr/bin:/bin", "BILLHOOK_NO_DAEMON": "1", **env}
    seen = subprocess.run([program, *words], env=env, input=b"{}", capture_output=True, timeout=30, check=False)
    return seen.returncode, seen.stdout, seen.stderr


@pytest.mark.parametrize("how", ["directly", "through a link", "through a link to a link", "through PATH"])
def test_launcher(launcher: Client, how: str) -> None:
    """The launcher runs `billhook hook` of its own installation, with the caller's arguments, stdin and folder."""
    launcher.tell({"stdout": "out\n", "stderr": "err\n", "code": 2})
    words: list[str | bytes] = ["--as", b"\xff a", "", "--deadline=5000"]
    if how == "through PATH":
        launcher.env["PATH"] = f"{launcher.bin}:/usr/bin:/bin"
        launcher.program = Path("billhook-hook")
    elif how != "directly":
        (launcher.folder / "link").symlink_to("bin/billhook-hook")
        (launcher.folder / "link 2").symlink_to(launcher.folder / "link")
        launcher.program = launcher.folder / ("link" if how == "through a link" else "link 2")
    assert launcher.run(*words, stdin=b'{"a": "\xff"}\n')[:3] == (2, b"out\n", b"err\n")
    call = launcher.cold_call()
    assert call["words"] == [b"hook", *(word if isinstance(word, bytes) else word.encode() for word in words)]
    assert (call["input"], call["cwd"]) == (b'{"a": "\xff"}\n', str(launcher.folder))


def test_launcher_with_billhook_elsewhere(launcher: Client) -> None:
    """Without a `billhook` beside it the one on PATH is run."""
    elsewhere = launcher.folder / "elsewhere"
    launcher.bin.rename(elsewhere)
    launcher.bin.mkdir()
    (elsewhere / "billhook-hook").rename(launcher.program)
    assert launcher.run(env={**launcher.env, "PATH": f"{elsewhere}:/usr/bin:/bin"}).stdout == b"cold\n"


@pytest.mark.parametrize("what", ["closed", "a folder"])
def test_launcher_without_stdin(launcher: Client, what: str) -> None:
    """Python itself would not start with a folder there, and agents allow the call for its exit code."""
    folder = os.open(launcher.folder, os.O_RDONLY)
    process = launcher.start(stdin=folder, preexec_fn=closing(0) if what == "closed" else None)
    assert process.communicate(timeout=30) == (b"cold\n", b"")
    os.close(folder)
    assert launcher.cold_call()["input"] == b""


START, BROKE = b"billhook: cannot start billhook hook\n", b"billhook: billhook hook exited unexpectedly\n"
BROKEN = {
    "no interpreter": ("#!/nowhere/python\n", START),
    "an import that fails": ("#!/bin/sh\necho Traceback >&2\nexit 1\n", BROKE),
    "killed": ("#!/bin/sh\necho half of\nkill -9 $$\n", BROKE),
    "an unknown code": ("#!/bin/sh\necho half of\nexit 3\n", BROKE),
}


@pytest.mark.parametrize(("script", "why"), BROKEN.values(), ids=BROKEN.keys())
def test_launcher_with_a_broken_installation(launcher: Client, script: str, why: bytes) -> None:
    """The event is refused: by JSON where nothing was printed before, else by the exit code."""
    (launcher.bin / "billhook").write_text(script)
    result = launcher.run("--as", "copilot", stdin=b'{"hook_event_name": "PreToolUse"}')
    printed = "half of" in script
    assert result.code == (2 if printed else 0)
    assert (b'"permissionDecision":"deny"' in result.stdout) != printed
    assert result.stderr.endswith(why)


def test_launcher_finds_the_event_at_the_top(launcher: Client) -> None:
    """A tool's input can't pose as an event that always passes."""
    (launcher.bin / "billhook").unlink()
    nested = b'{"tool_input": {"hook_event_name": "Stop"}, "hook_event_name": "PreToolUse"}'
    assert launcher.run("--as", "codex", stdin=nested).code == 2
    assert launcher.run("--as", "codex", stdin=b'{"hook_event_name":\n"Stop"}').code == 0


def test_launcher_with_stdin_that_stays_open(launcher: Client) -> None:
    """Its own refusal does not wait for the end of stdin."""
    (launcher.bin / "billhook").unlink()
    process = launcher.start("--as", "codex")
    assert process.stdin is not None
    process.stdin.write(b'{"hook_event_name": "Stop"}')
    process.stdin.flush()
    assert process.wait(timeout=10) == 0
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_launcher_that_is_ended(launcher: Client, number: int) -> None:
    """`billhook hook` is told, and its answer is the answer."""
    began = launcher.folder / "began"
    script = f"#!/bin/sh\ntrap 'echo in my own words; kill $!; exit 2' TERM\nsleep 60 &\n: > {began}\nwait\n"
    (launcher.bin / "billhook").write_text(script)
    process = launcher.start()
    while not began.exists():
        time.sleep(0.01)
    process.send_signal(number)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (2, b"in my own words\n")


# -- real wheels ---------------------------------------------------------------------------------------------------


def wheel(folder: Path, **env: str) -> Path:
    """The wheel of this checkout; skips where the build backend can't be had."""
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(PROJECT)]
    made = subprocess.run(words, env={**os.environ, **env}, capture_output=True, timeout=300, check=False)
    if made.returncode and b"hatchling" in made.stderr:
        pytest.skip("hatchling can't be had")
    assert made.returncode == 0, made.stderr.decode()
    (found,) = folder.glob("*.whl")
    return found


def installed(found: Path, folder: Path) -> Path:
    """The program in a new environment; its dependencies are not needed."""
    venv.create(folder, with_pip=False)
    words = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet", "--no-deps"]
    subprocess.run([*words, found], check=True, timeout=300)
    return folder / "bin" / "billhook-hook"


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [True, False], ids=["compiled", "pure"])
def test_wheel(tmp_path: Path, compiler: bool) -> None:
    """A wheel has the program for its platform, or else the launcher and no platform."""
    if compiler and not COMPILER:
        pytest.skip("there is no compiler")
    found = wheel(tmp_path, **({} if compiler else {"BILLHOOK_NO_COMPILER": "1"}))
    assert found.name.endswith("-py3-none-any.whl") != compiler
    with zipfile.ZipFile(found) as files:
        (script,) = [name for name in files.namelist() if name.endswith(".data/scripts/billhook-hook")]
        assert files.read(script).startswith(b"\x7fELF" if compiler else b"#!/bin/sh\n")
    root = Path(tempfile.mkdtemp(prefix="bh-"))
    program = installed(found, root / "venv")
    with FakeDaemon(root, [STARTED, answer(0, b"yes")]) as daemon:
        if compiler:
            assert run(program, BILLHOOK_HOME=str(root)) == (0, b"yes", b"")
            assert daemon.request.version.decode() == billhook.__version__
        else:  # without its dependencies the package can't be imported
            assert run(program, "--as", "codex", BILLHOOK_HOME=str(root))[0] == 2
            assert not daemon.requests
    shutil.rmtree(root)


@pytest.mark.skipif(not COMPILER, reason="there is no compiler")
def test_program_needs_nothing(tmp_path: Path) -> None:
    """The compiled client is static: it runs where there is nothing else."""
    program = built("c", tmp_path)
    assert b"ld-linux" not in program.read_bytes()[:4096]
    assert run(program, "--on-failure", "deny", PATH=str(tmp_path))[0] == 2
