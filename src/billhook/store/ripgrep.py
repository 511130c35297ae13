"""ripgrep, where it is installed, tells the places of some bytes in a long file sooner than Python does.

It only says where to look: every line that it names is read and judged by us, and when it fails, or is not there, the
file is searched without it.
"""

import os
import shutil
from functools import lru_cache
from typing import Final

SHORTEST_FILE: Final = 16 << 20
"""Bytes. A shorter file is searched while ripgrep is still starting."""
_LONGEST_NEEDLES: Final = 64 << 10
"""Bytes: the system takes 128 KiB for one argument."""
_PATIENCE: Final = 300.0
"""Seconds for one file. It is a regular one, so nothing real takes that long."""
_FLAGS: Final = ("--no-config", "--fixed-strings", "--text", "--encoding=none", "--no-mmap", "--color=never",
                 "--case-sensitive", "--no-line-number", "--no-filename", "--no-heading", "--only-matching",
                 "--byte-offset")  # fmt: skip


def places(file: int, needles: tuple[bytes, ...]) -> list[int] | None:
    """Where the needles are in an open file, in order; None when ripgrep can't tell."""
    program = installed(os.environ.get("PATH", ""))
    if program is None or sum(map(len, needles)) > _LONGEST_NEEDLES:
        return None
    if os.fstat(file).st_size < SHORTEST_FILE:
        return None
    import subprocess

    argv = [program, *_FLAGS, *(word for needle in needles for word in (b"-e", needle)), "-"]
    try:
        os.lseek(file, 0, os.SEEK_SET)
        ended = subprocess.run(argv, stdin=file, capture_output=True, timeout=_PATIENCE, check=False)
        if ended.returncode not in (0, 1):
            return None
        return [int(line[: line.index(b":")]) for line in ended.stdout.splitlines()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


@lru_cache(maxsize=4)
def installed(path: str) -> str | None:
    """ripgrep's full path. One that is found by a relative entry of PATH is whatever lies in this folder: not used."""
    program = shutil.which("rg", path=path)
    return program if program is not None and os.path.isabs(program) else None
