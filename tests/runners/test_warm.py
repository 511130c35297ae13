"""Scripts as forks of a warm interpreter: what they see, what they leave, and when they start the plain way."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from billhook.core.answers import Exit
from billhook.runners import process, warm
from warm_ready import wait_until_ready

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="warm interpreters need Linux"),
    pytest.mark.usefixtures("adopting"),
]


def run_warm(argv: tuple[str, ...], cwd: Path, stdin: bytes = b"", env: dict[str, str] | None = None) -> Exit:
    env = dict(os.environ) if env is None else env
    assert wait_until_ready(argv, env, cwd) == ""
    child = asyncio.run(warm.start(argv, stdin=stdin, env=env, cwd=cwd))
    assert isinstance(child, warm.WarmChild)
    ended = asyncio.run(child.wait(30))
    assert ended is not None
    return ended


def run_plain(argv: tuple[str, ...], cwd: Path, stdin: bytes = b"", env: dict[str, str] | None = None) -> Exit:
    return asyncio.run(
        process.run(argv, stdin=stdin, env=dict(os.environ) if env is None else env, cwd=cwd, seconds=30)
    )


def script(folder: Path, text: str) -> tuple[str, str]:
    (folder / "hook.py").write_text(text)
    return sys.executable, "hook.py"


def test_a_script_sees_and_leaves_the_same(tmp_path: Path) -> None:
    text = """
import json, os, sys
print(sys.argv, sys.path, __file__, __name__, __spec__, sys.flags, os.getcwd(), os.umask(0), sys.orig_argv)
print(sorted(globals()), os.getpid() == os.getpgrp(), os.getppid(), sorted(os.listdir("/proc/self/fd")))
print(sys.stdin.encoding, sys.stdout.encoding, sys.stdout.errors, sys.stderr.errors, sys.stdout.line_buffering)
print(json.load(sys.stdin), sorted(k for k in os.environ if k != "BILLHOOK_CHILD"))
kept = open("kept", "a"); kept.write("never closed")
raise ValueError("at the end")
"""
    argv = script(tmp_path, text)
    plain = run_plain(argv, tmp_path, b'{"a": 1}')
    assert plain.code == 1
    assert b"ValueError: at the end" in plain.stderr
    assert run_warm(argv, tmp_path, b'{"a": 1}') == plain
    assert (tmp_path / "kept").read_text() == "never closednever closed"


def test_nothing_is_left_for_the_next_call(tmp_path: Path) -> None:
    argv = script(
        tmp_path, "import os, json\nprint(hasattr(json, 'x'), 'X' in os.environ)\njson.x = os.environ['X'] = '1'"
    )
    assert [run_warm(argv, tmp_path).stdout for _ in range(3)] == [b"False False\n"] * 3


@pytest.mark.parametrize(
    "end", ["sys.exit(3)", "sys.exit()", "sys.exit('why')", "os._exit(4)", "os.kill(os.getpid(), 15)"]
)
def test_the_exit_status_is_the_same(tmp_path: Path, end: str) -> None:
    argv = script(tmp_path, f"import os, sys\nprint('x')\n{end}\n")
    assert run_warm(argv, tmp_path) == run_plain(argv, tmp_path)


def test_a_changed_script_runs_as_it_is_now(tmp_path: Path) -> None:
    assert run_warm(script(tmp_path, "print(1)"), tmp_path).stdout == b"1\n"
    assert run_warm(script(tmp_path, "print(2)"), tmp_path).stdout == b"2\n"


def test_a_local_module_with_the_name_of_a_common_one_starts_plain(tmp_path: Path) -> None:
    argv = script(tmp_path, "import json\nprint(json.__file__)")
    run_warm(argv, tmp_path)
    (tmp_path / "json.py").touch()
    assert asyncio.run(warm.start(argv, stdin=b"", env=dict(os.environ), cwd=tmp_path)) is None


def test_the_deadline_ends_the_tree(tmp_path: Path) -> None:
    argv = script(tmp_path, "import subprocess\nprint('began', flush=True)\nsubprocess.run(['sleep', '100'])")
    env = dict(os.environ)
    assert wait_until_ready(argv, env, tmp_path) == ""
    child = asyncio.run(warm.start(argv, stdin=b"", env=env, cwd=tmp_path))
    assert isinstance(child, warm.WarmChild)
    ended = asyncio.run(child.wait(0.5))
    assert ended is not None
    assert ended.timed_out
    assert ended.stdout == b"began\n"
    assert not child._tree.signal()
