"""The index file of a git repository: what is staged, and what git saw of each file then."""

import hashlib
import os
import struct
from typing import Final, NamedTuple

from billhook.effects.gitobjects import Repository, UnreadableError, offset_number, read_file

LONGEST_PATH: Final = 4096
ASSUMED, STAGE, _EXTENDED = 0x8000, 0x3000, 0x4000
SKIPPED, INTENDED = 0x4000, 0x2000  # of the second flags: skip-worktree, `git add -N`
LINK, SUBMODULE, FOLDER = 0o120000, 0o160000, 0o040000
_NUMBERS: Final = struct.Struct(">10I")  # ctime, mtime (seconds, nanoseconds), dev, ino, mode, uid, gid, size


class IndexEntry(NamedTuple):
    """One file of the index."""

    name: str
    numbers: tuple[int, ...]
    oid: bytes
    flags: int
    more: int

    @property
    def mode(self) -> int:
        return self.numbers[6]


class Index:
    """The index file: versions 2 to 4."""

    def __init__(self, path: str, repo: Repository) -> None:
        self.entries: list[IndexEntry] = []
        self.trees: dict[str, bytes] = {}  # folders, such as `src/`, whose tree is known to be that of the index
        self.width, self.clock, self.written = repo.width, repo.clock, 0
        data = read_file(path)
        if data is None:
            return
        self.written = os.stat(path).st_mtime_ns
        self._check(data, repo.algorithm)
        self._extensions(data, self._read(data))

    def _check(self, data: bytes, algorithm: str) -> None:
        end = len(data) - self.width
        if data[:4] != b"DIRC" or end < 12:
            raise UnreadableError("the index is broken")
        sums = (bytes(self.width), hashlib.new(algorithm, data[:end], usedforsecurity=False).digest())
        if data[end:] not in sums:  # zeros: index.skipHash
            raise UnreadableError("the index is broken")

    def _read(self, data: bytes) -> int:
        version, count = struct.unpack_from(">II", data, 4)
        if version not in (2, 3, 4):
            raise UnreadableError("an unknown version of the index")
        at, name, fixed = 12, b"", _NUMBERS.size + self.width
        for number in range(count):
            if not number % 128:
                self.clock.check()
            flags, more = struct.unpack_from(">HH", data, at + fixed)
            start = at + fixed + (4 if flags & _EXTENDED else 2)
            kept = b""
            if version == 4:
                dropped, start = offset_number(data, start)
                kept = name[: max(0, len(name) - dropped)]
            end = data.index(0, start)
            name = kept + data[start:end]
            if len(name) > LONGEST_PATH:
                raise UnreadableError("the index is broken")
            self.entries.append(
                IndexEntry(
                    name.decode("utf-8", "surrogateescape"),
                    _NUMBERS.unpack_from(data, at),
                    data[at + _NUMBERS.size : at + fixed],
                    flags,
                    more if flags & _EXTENDED else 0,
                )
            )
            at = end + 1 if version == 4 else at + ((end - at + 8) & ~7)
        return at

    def _extensions(self, data: bytes, at: int) -> None:
        while at + 8 <= len(data) - self.width:
            name, size = struct.unpack_from(">4sI", data, at)
            if name == b"link":
                raise UnreadableError("the index is split in two files")
            if name == b"TREE":
                self._cached_trees(data[at + 8 : at + 8 + size])
            at += 8 + size
        self.trees |= {entry.name: entry.oid for entry in self.entries if entry.numbers[6] == FOLDER}  # a sparse index

    def _cached_trees(self, data: bytes) -> None:
        """The trees that git remembers: each folder is followed by those in it."""
        at, above, left = 0, [""], [1]
        while at < len(data):
            self.clock.check()
            end = data.index(0, at)
            line = data.index(b"\n", end)
            files, folders = (int(number) for number in data[end + 1 : line].split(b" "))
            while not left[-1]:
                above.pop()
                left.pop()
            left[-1] -= 1
            name = f"{above[-1]}{os.fsdecode(data[at:end])}/" if end > at else ""
            at = line + 1
            if files >= 0:
                self.trees[name] = data[at : at + self.width]
                at += self.width
            above.append(name)
            left.append(folders)
