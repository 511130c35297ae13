"""The names in archives and patches, read with bounds."""

import posixpath
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, cast

MAX_MEMBERS: Final = 2_000
LARGEST: Final = 50_000_000


def unpacked(path: str, strip: int | None = 0) -> list[str]:
    """The members' names without their first `strip` folders (None: without any); empty if it can't be read."""
    found: list[str] = []
    try:
        for name in _members(path):
            cut = posixpath.basename(name) if strip is None else "/".join(name.split("/")[strip:])
            found += [cut] if cut else []
            if len(found) >= MAX_MEMBERS:
                break
    except Exception:
        return found  # broken archives raise any kind of error; names that were read before still count
    return found


class _Bounded:
    """A stream that ends after so many bytes: a small file may unpack to a huge one."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.left = LARGEST

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(min(size, self.left) if size >= 0 else self.left)
        self.left -= len(data)
        return data


def _members(path: str) -> Iterator[str]:
    import os
    import stat

    if not stat.S_ISREG(os.stat(path).st_mode) or os.path.getsize(path) > LARGEST:
        return
    with open(path, "rb") as file:
        magic = file.read(6)
    if magic.startswith(b"PK"):
        import zipfile

        with zipfile.ZipFile(path) as archive:
            yield from archive.namelist()
        return
    import tarfile

    with _opened(path, magic) as stream, tarfile.open(fileobj=cast(BinaryIO, _Bounded(stream)), mode="r|") as members:
        for member in members:
            yield member.name


def _opened(path: str, magic: bytes) -> BinaryIO:
    if magic.startswith(b"\x1f\x8b"):
        import gzip

        return cast(BinaryIO, gzip.open(path))
    if magic.startswith(b"BZh"):
        import bz2

        return cast(BinaryIO, bz2.open(path))
    if magic.startswith(b"\xfd7zXZ"):
        import lzma

        return cast(BinaryIO, lzma.open(path))
    return open(path, "rb")


# The files that a patch changes, by its headers:


LARGEST_PATCH: Final = 1 << 20
_LONGEST_NAME: Final = 4096
_BLOCK = re.compile(r"^[ \t]*\*\*\* (?:(?:Add|Update|Delete) File|Move to):([^\n]+)", re.M)
_HEADER = re.compile(
    r"^(?:---|\+\+\+|\*\*\*(?! (?:Begin|End) |.{0,20}(?:File|to):)|Index:|rename from|rename to|copy to) ([^\t\n]+)",
    re.M,
)
"""Of unified and context diffs; the lines of a block, `*** Begin Patch` and `*** Add File: x`, look alike."""
_GIT = re.compile(r"^diff --git (\S+) (\S+)$", re.M)
_STAMP = re.compile(r" \d{4}-\d\d-\d\d[ T][^\n]*")


def patched(text: str, strip: int | None = 1) -> list[str]:
    """The names in a patch: as written, and without their first `strip` folders; None: without any of them."""
    found = [name[1].strip() for name in _BLOCK.finditer(text)]
    headers = [_STAMP.sub("", name[1]).strip(' "\r') for name in _HEADER.finditer(text)]
    headers += [name for pair in _GIT.finditer(text) for name in pair.groups()]
    for name in [name for name in headers if name != "/dev/null"]:
        found += [name, posixpath.basename(name) if strip is None else "/".join(name.split("/")[strip:])]
    names = dict.fromkeys(name for name in found if len(name) <= _LONGEST_NAME)
    return [name for name in names if name]
