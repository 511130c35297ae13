"""ripgrep, where it is installed, tells the places of some bytes in long files sooner than Python does.

It only says where to look: every line that it names is read and judged by us, and when it fails, or is not there, the
files are searched without it.
"""

import os
import shutil
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

FILES_AT_ONCE: Final = 8
"""For one process of it: enough that its start does not count, and few enough to show how far we are."""
_FEWEST_BYTES: Final = 16 << 20  # fewer are searched while ripgrep is still starting
_LONGEST_NEEDLES: Final = 64 << 10  # bytes: the system takes 128 KiB for one argument
_MOST_OUTPUT: Final = 4 << 20  # Bytes. What is in so many lines is found sooner by reading all of them.
_PATIENCE: Final = 600.0  # Seconds. They are regular files, so nothing real takes that long.
_FLAGS: Final = ("--no-config", "--fixed-strings", "--text", "--encoding=none", "--no-mmap", "--color=never",
                 "--case-sensitive", "--no-line-number", "--with-filename", "--null", "--no-heading", "--byte-offset",
                 "--max-columns=1", "--no-messages")  # fmt: skip


def places(files: Sequence[int], needles: Sequence[bytes]) -> dict[int, list[int]]:
    """By open file: where the lines begin that have a needle, in order. Empty when ripgrep can't tell."""
    path = program()
    if path is None or sum(map(len, needles)) > _LONGEST_NEEDLES:
        return {}
    if sum(os.fstat(file).st_size for file in files) < _FEWEST_BYTES:
        return {}
    # By descriptor, not by name: what is searched is what we opened, whatever lies at that name now.
    names = {os.fsencode(f"/dev/fd/{file}"): file for file in files}
    patterns = [word for needle in needles for word in (b"-e", needle)]
    try:
        output = _output([os.fsencode(path), *map(os.fsencode, _FLAGS), *patterns, b"--", *names], files)
        return {} if output is None else _read(output, names)
    except (OSError, ValueError, KeyError):
        return {}


def _output(argv: list[bytes], files: Sequence[int]) -> bytes | None:
    """What it prints; None when it fails, or has too much to say."""
    import subprocess
    import threading

    silent = subprocess.DEVNULL
    with subprocess.Popen(argv, stdin=silent, stdout=subprocess.PIPE, stderr=silent, pass_fds=files) as child:
        watch = threading.Timer(_PATIENCE, child.kill)
        watch.daemon = True
        watch.start()
        try:
            output = child.stdout.read(_MOST_OUTPUT + 1) if child.stdout else b""
            if len(output) > _MOST_OUTPUT:
                child.kill()
            child.wait()
        except BaseException:  # somebody has pressed Ctrl-C
            child.kill()
            raise
        finally:
            watch.cancel()
    is_sound = child.returncode == (0 if output else 1) and (not output or output.endswith(b"\n"))
    return output if is_sound and len(output) <= _MOST_OUTPUT else None


def program() -> str | None:
    """ripgrep's full path; None: it is not installed."""
    return _on(os.environ.get("PATH", os.defpath))


@lru_cache(maxsize=4)
def _on(path: str) -> str | None:
    found = shutil.which("rg", path=path)
    # What a relative entry of PATH leads to is whatever lies in this folder.
    return found if found is not None and os.path.isabs(found) else None


def _read(output: bytes, names: dict[bytes, int]) -> dict[int, list[int]]:
    """Lines such as `/dev/fd/7 NUL 12345:something`, those of one file together and in order."""
    found: dict[int, list[int]] = {file: [] for file in names.values()}
    for line in output.split(b"\n")[:-1]:
        name, rest = line.split(b"\0", 1)
        found[names[name]].append(int(rest[: rest.index(b":")]))
    return found
