"""Run one script in a fresh interpreter and in a warm one, and compare everything that can be seen from outside.

Both runs use the same folder, one after the other, so that paths in tracebacks are equal. What must differ, such as
process numbers, is named by the case itself; nothing else is normalised.
"""

import asyncio
import difflib
import os
import re
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

from billhook.core.answers import Exit
from billhook.runners import process, warm
from billhook.runners.process import Child
from warm_ready import wait_until_ready

SECONDS = 60.0
"""Far more than any script needs: a busy machine is no failure."""
READY = 20.0  # seconds for a parent to start
ADDRESSES = {"0x[0-9a-f]+": "ADDRESS"}
"""For `normalise`: the addresses of objects differ between any two processes."""
FRAME = "the frame of `warm_main.py` is below that of the script"
"""For `unlike`."""
Start = Callable[["Case", Path], Awaitable[Child]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One script, how it is called, and what it finds around it. Paths are relative to the folder of the case."""

    name: str
    script: str | bytes = ""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    setup: str = ""  # a shell line that prepares the folder
    shell: str = ""  # a line for the shell, instead of interpreter, flags, path and arguments
    interpreter: str = "python3"
    flags: tuple[str, ...] = ()
    path: str = "script.py"  # as the command line names it; `{folder}` is the folder of the case
    stored: str = "script.py"  # where the script is
    arguments: tuple[str, ...] = ()
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "."
    umask: int = 0o022
    normalise: Mapping[str, str] = field(default_factory=dict)
    """What must differ: patterns, and what replaces them in the output of both runs."""
    unlike: str = ""
    """Why a warm interpreter can't do the same. The case must differ then, so that the reason stays true."""
    slow: bool = False
    again: bool = False
    """Whether the fork ends before the script begins, and the command is started again, the plain way."""
    refused: bool = False
    """Whether it must start the plain way."""


class Result(NamedTuple):
    """What a run left: its exit, and the files of its folder."""

    exit: Exit
    files: dict[str, bytes]


def parameters(cases: Iterable[Case]) -> list[Any]:
    """The cases for `pytest.mark.parametrize`."""
    return [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.slow else []) for case in cases]


def base_python() -> str:
    """The interpreter below the virtual environment of this run: it starts without its site-packages."""
    return os.path.join(sys.base_prefix, "bin", "python3")


def environment(case: Case, folder: Path) -> dict[str, str]:
    """Little, and the same for most cases, so that they share a parent."""
    given = {name: value.format(folder=folder) for name, value in case.env.items()}
    path = f"{os.path.dirname(base_python())}:/usr/bin:/bin"
    return {"PATH": path, "HOME": "/nonexistent", "LANG": "C.UTF-8", "FOLDER": str(folder), **given}


def command(case: Case, folder: Path) -> tuple[str, ...]:
    if case.shell:
        return process.shell_argv(case.shell.format(folder=folder))
    interpreter = (case.interpreter.format(folder=folder),) if case.interpreter else ()
    return (*interpreter, *case.flags, case.path.format(folder=folder), *case.arguments)


async def start_plain(case: Case, folder: Path) -> Child:
    return process.start(
        command(case, folder), stdin=case.stdin, env=environment(case, folder), cwd=str(folder / case.cwd)
    )


async def start_warm(case: Case, folder: Path) -> Child:
    """Start it in a warm interpreter, and never in any other way. The first calls of an interpreter are refused until
    it is ready, and so may be others on a busy machine."""
    words, env, cwd = command(case, folder), environment(case, folder), str(folder / case.cwd)
    end = time.monotonic() + READY
    while time.monotonic() < end:
        if child := await warm.start(words, stdin=case.stdin, env=env, cwd=cwd):
            assert isinstance(child, warm.WarmChild)
            return child
        await asyncio.sleep(0.005)
    raise AssertionError(f"{case.name} was not started warm: {wait_until_ready(words, env, cwd, 0.0)}")


def check_refused(case: Case, folder: Path) -> None:
    """It is refused although a parent with a spare is ready, because of its command line or its files."""
    words, env, cwd = command(case, folder), environment(case, folder), str(folder / case.cwd)
    if warm.reason(words, env, cwd):
        assert asyncio.run(warm.start(words, stdin=case.stdin, env=env, cwd=cwd)) is None
        return
    for _ in range(3):
        if wait_until_ready(words, env, cwd, READY) == "":
            assert asyncio.run(warm.start(words, stdin=case.stdin, env=env, cwd=cwd)) is None, (
                f"{case.name} must start plain"
            )


def lay_out(case: Case, folder: Path) -> None:
    """Make the folder of a case, the same each time."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in {case.stored: case.script, **case.files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dedent(content).lstrip("\n").encode() if isinstance(content, str) else content)
        path.chmod(0o755)
    for name, target in case.links.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target.format(folder=folder))
    (folder / case.cwd).mkdir(parents=True, exist_ok=True)
    if case.setup:
        assert os.system(f"cd '{folder}' && {case.setup.format(folder=folder)} >/dev/null 2>&1") == 0


def run(case: Case, folder: Path, start: Start) -> Result:
    lay_out(case, folder)
    with under(case.umask):
        ended = asyncio.run(_to_the_end(case, folder, start))
    return Result(ended, left_in(folder))


async def _to_the_end(case: Case, folder: Path, start: Start) -> Exit:
    child = await start(case, folder)
    ended = await child.wait(SECONDS)
    assert ended is not None
    again = getattr(child, "_instead", None) is not None
    assert again == (case.again and isinstance(child, warm.WarmChild)), f"{case.name}: started again: {again}"
    assert not ended.timed_out, f"{case.name} did not end: {ended}"
    return ended


@contextmanager
def under(umask: int) -> Iterator[None]:
    """Change the umask of this process: a command inherits it when it starts."""
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


def left_in(folder: Path) -> dict[str, bytes]:
    """The files, with their permissions and content. The content of a `.pyc` depends on the time of its source."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if ".git" in path.relative_to(folder).parts:
            continue
        plain = path.is_file() and not path.is_symlink() and path.suffix != ".pyc"
        found[f"{path.relative_to(folder)} {path.lstat().st_mode:o}"] = path.read_bytes() if plain else b""
    return found


def normalised(case: Case, result: Result) -> Result:
    """Replace what the case names, in the output and in the files."""

    def clean(data: bytes) -> bytes:
        for pattern, to in case.normalise.items():
            data = re.sub(pattern.encode(), to.encode(), data)
        return data

    ended = _with_output(result.exit, clean(result.exit.stdout), clean(result.exit.stderr))
    return Result(ended, {clean(name.encode()).decode(): clean(data) for name, data in result.files.items()})


def _with_output(ended: Exit, stdout: bytes, stderr: bytes) -> Exit:
    fields = {name: getattr(ended, name) for name in ended.__struct_fields__}
    return Exit(**{**fields, "stdout": stdout, "stderr": stderr})


def check_same(case: Case, folder: Path) -> Result:
    """Run a case both ways; its results must be equal, or differ if the case expects that."""
    plain = normalised(case, run(case, folder, start_plain))
    assert not plain.exit.start_error, plain.exit.start_error
    if case.refused:
        check_refused(case, folder)
        return plain
    warmed = normalised(case, run(case, folder, start_warm))
    if case.unlike:
        assert warmed != plain, f"{case.name} no longer differs: {case.unlike}"
    else:
        assert warmed == plain, f"{case.name}:\n{differences(plain, warmed)}"
    return plain


def differences(plain: Result, warmed: Result) -> str:
    """What differs, as a diff."""
    return "\n".join(difflib.unified_diff(_shown(plain), _shown(warmed), "plain", "warm", lineterm="", n=2))


def _shown(result: Result) -> list[str]:
    ended = result.exit
    lines = ["stdout:", *_lines(ended.stdout), "stderr:", *_lines(ended.stderr)]
    lines.append(f"code {ended.code}, signal {ended.signal}, truncated {ended.truncated}, lost {ended.lost}")
    return [*lines, *(f"{name}: {data[:500]!r}" for name, data in result.files.items())]


def _lines(output: bytes) -> list[str]:
    return output.decode("utf-8", "backslashreplace").split("\n")
