"""Which files are written by programs that fetch, unpack or patch; archives are read with bounds."""

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final, cast

from billhook.effects.programs import Touch, Words, Writes, after
from billhook.effects.script import UNKNOWN

MAX_MEMBERS: Final = 2_000
LARGEST: Final = 50_000_000


def unpacked(path: str, strip: int | None = 0) -> list[str]:
    """The members' names without their first `strip` folders (None: without any); none of what can't be read."""
    found: list[str] = []
    try:
        for name in _members(path):
            cut = posixpath.basename(name) if strip is None else "/".join(name.split("/")[strip:])
            found += [cut] if cut else []
            if len(found) >= MAX_MEMBERS:
                break
    except Exception:
        return found  # broken archives raise whatever they like; what was read before still counts
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


# Which files are written by programs that fetch, unpack or patch.


def curl(words: Sequence[str]) -> Writes:
    said = Words(
        words[1:],
        "oAbcCdDeEFHKmQrtTuUwxXyYz",
        "output output-dir cookie-jar dump-header trace stderr data header request url",
    )
    folder = next(iter(said.values("output-dir")), "")
    targets = said.values("o", "output", "c", "cookie-jar", "D", "dump-header", "trace", "stderr")
    if said.has("O", "remote-name", "remote-name-all", "J"):
        targets += [posixpath.basename(url) for url in [*said.operands, *said.values("url")]]
    return Writes([Touch(posixpath.join(folder, target) if folder else target) for target in targets])


def wget(words: Sequence[str]) -> Writes:
    said = Words(
        words[1:],
        "OPoaiBtTwQeU",
        "output-document directory-prefix output-file append-output input-file user-agent header",
    )
    targets = said.values("O", "output-document", "o", "output-file", "a", "append-output")
    folder = next(iter(said.values("P", "directory-prefix")), "")
    if not said.has("O", "output-document"):
        targets += [posixpath.join(folder, posixpath.basename(url)) for url in said.operands]
    return Writes([Touch(target) for target in targets])


def tar(words: Sequence[str]) -> Writes:
    """The members that are named, or all that an archive has, if it can be read; and a place to unpack that is ours."""
    first = words[1] if len(words) > 1 else ""
    rest = ["-" + first if first[:1] not in ("-", "") else first, *words[2:]]
    said = Words(rest, "fCTXbgIHV" if first[:1] == "-" else "", "file directory exclude strip-components transform")
    archives, folders = said.values("f", "file"), said.values("C", "directory")
    members = list(said.operands)
    if first[:1] != "-" and "f" in first:
        archives, members = members[:1], members[1:]
        folders = list(after(words, "-C", "--directory"))
        members = [member for member in members if member not in folders]
    if said.has("x", "extract", "get"):
        folder = folders[-1] if folders else "."
        inside = [Touch(posixpath.join(folder, member), below=True) for member in members]
        found = Writes([Touch(folder, sources=(UNKNOWN,)), *inside], into=folder)
        found.archives = [] if members else archives or ["-"]
        found.strip = number(said.values("strip-components"), 0)
        return found
    removes = [Touch(path, below=True) for path in members] if said.has("remove-files") else []
    return Writes([Touch(path) for path in archives if said.has("c", "create", "r", "u", "A")] + removes)


def unzip(words: Sequence[str]) -> Writes:
    said = Words(words[1:], "dxP")
    if said.has("l", "p", "t", "v", "Z"):
        return Writes()
    folder = next(iter(said.values("d")), ".")
    inside = [Touch(posixpath.join(folder, member), loose=True) for member in said.operands[1:]]
    found = Writes([Touch(folder, sources=(UNKNOWN,)), *inside], into=folder)
    found.archives = [] if inside else [name for each in said.operands[:1] for name in (each, each + ".zip")]
    found.strip = None if said.has("j") else 0
    return found


def python_unpacks(words: Sequence[str]) -> Writes | None:
    """`python -m zipfile -e x.zip d`, `python -m tarfile -e x.tar d`; None: something else."""
    if words[0] not in ("zipfile", "tarfile") or not {"-e", "--extract"} & set(words):
        return None
    operands = [word for word in words[1:] if not word.startswith("-")]
    folder = operands[1] if operands[1:] else "."
    return Writes([Touch(folder, sources=(UNKNOWN,))], archives=operands[:1], into=folder)


def cpio(words: Sequence[str]) -> Writes:
    said = Words(words[1:], "DFOEHMIC", "directory file")
    folder = next(iter(said.values("D", "directory")), ".")
    return Writes([Touch(folder, sources=(UNKNOWN,))] + [Touch(path) for path in said.operands + said.values("O", "F")])


def patch(words: Sequence[str]) -> Writes:
    said = Words(words[1:], "dioprBDFVYz", "directory input output strip")
    found = Writes([Touch(path) for path in [*said.operands[:1], *said.values("o", "output")]], runs_input=True)
    found.folder = next(iter(said.values("d", "directory")), None)
    found.patches = [*said.operands[1:2], *said.values("i", "input")]
    found.strip = number(said.values("p", "strip"), None)
    return found


def number(values: Sequence[str], otherwise: int | None) -> int | None:
    """The number that an option says."""
    return int(values[-1]) if values and values[-1].isdecimal() and len(values[-1]) < 4 else otherwise


# The files that a patch changes, by its headers:


LARGEST_PATCH: Final = 1 << 20
_LONGEST_NAME: Final = 4096
_BLOCK = re.compile(r"^[ \t]*\*\*\* (?:(?:Add|Update|Delete) File|Move to):([^\n]+)", re.M)
_HEADER = re.compile(r"^(?:---|\+\+\+|\*\*\*|Index:|rename from|rename to|copy to) ([^\t\n]+)", re.M)
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


def patched_by(path: str, strip: int | None) -> list[str]:
    """The names in a patch file, if it is there and not too large."""
    import os
    import stat

    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return []  # a pipe would keep us waiting
        with open(path, "rb") as file:
            text = file.read(LARGEST_PATCH + 1)
    except (OSError, ValueError):
        return []
    return patched(text.decode(errors="replace"), strip) if len(text) <= LARGEST_PATCH else []
