"""The files of a worktree against its index, by reading both: git itself would run the repository's filters."""

import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_LARGEST: Final = 32 << 20
_LARGEST_COMPARED: Final = 8 << 20
_LONGEST_PATH: Final = 4096
_OPENING: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # a pipe in the place of a file can't stall
_ASSUMED, _EXTENDED, _STAGE = 0x8000, 0x4000, 0x3000
_SKIPPED, _INTENDED = 0x4000, 0x2000  # of the second flags: skip-worktree, `git add -N`
_LINK, _SUBMODULE, _FOLDER = 0o120000, 0o160000, 0o040000
_KIND, _EXECUTABLE = 0o170000, 0o100


class UnreadableError(Exception):
    """The repository can't be read, or not in time."""


BROKEN: Final = (UnreadableError, OSError, ValueError, IndexError, struct.error, OverflowError, MemoryError)


def check_time(end: float) -> None:
    """Raises after a moment of `time.monotonic`."""
    if time.monotonic() > end:
        raise UnreadableError("the repository is too large to read in time")


def read_file(path: str, limit: int = _LARGEST, flags: int = 0) -> bytes | None:
    """The content of a regular file; None if there is none."""
    try:
        descriptor = os.open(path, _OPENING | flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableError(f"{path} is not a regular file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise UnreadableError(f"{path} is too large")
    return data


def digest(algorithm: str, data: bytes) -> bytes:
    import hashlib  # a cryptographic library: only where files are compared

    return hashlib.new(algorithm, data, usedforsecurity=False).digest()


class IndexEntry(NamedTuple):
    """One file of the index, as git saw it last."""

    name: str
    seen: tuple[int, ...]  # ctime and mtime, each in seconds and nanoseconds, and the inode
    mode: int
    size: int
    oid: bytes
    flags: int
    more: int  # flags, if `_EXTENDED`


class Index:
    """The index of a worktree, of version 2 to 4. What is broken, or not read at `end`, raises one of `BROKEN`."""

    def __init__(self, root: str, path: str, algorithm: str, end: float) -> None:
        self.root, self.algorithm, self.end = root, algorithm, end
        self.data = read_file(path)
        self.written = os.stat(path).st_mtime_ns if self.data is not None else 0
        self.folders = {"": True}

    def modified(self, is_wanted: Callable[[str], bool], *, modes: bool) -> Iterator[str]:
        """The files that are not as they were staged, or in conflict. `modes`: it matters which are executable."""
        last = ""  # a file with conflicts has up to three entries
        for entry in self._entries():
            more = entry.more if entry.flags & _EXTENDED else 0
            spared = entry.flags & _ASSUMED or more & _SKIPPED or entry.mode in (_SUBMODULE, _FOLDER)
            if spared or entry.name == last or not is_wanted(entry.name):
                continue
            if entry.flags & _STAGE or more & _INTENDED or self._differs(entry, modes):
                last = entry.name
                yield last

    def _entries(self) -> Iterator[IndexEntry]:
        if self.data is None:
            return
        data, width, name = self.data, 32 if self.algorithm == "sha256" else 20, b""
        version, count, at = *self._header(data, width), 12
        fields = struct.Struct(f">4I4x2I8xI{width}sHH")  # not the device, the user and the group
        for number in range(count):
            if not number % 128:
                check_time(self.end)
            values = fields.unpack_from(data, at)
            start = at + fields.size - (0 if values[8] & _EXTENDED else 2)
            kept = b""
            if version == 4:
                dropped, start = _dropped(data, start)
                kept = name[: max(0, len(name) - dropped)]
            end = data.index(0, start)
            name = kept + data[start:end]
            if len(name) > _LONGEST_PATH:
                raise UnreadableError("the index is broken")
            yield IndexEntry(os.fsdecode(name), values[:5], *values[5:])
            at = end + 1 if version == 4 else at + ((end - at + 8) & ~7)
        _check_extensions(data, at, len(data) - width)

    def _header(self, data: bytes, width: int) -> tuple[int, int]:
        """The version, and how many entries there are."""
        signature, version, count = struct.unpack_from(">4sII", data)
        end = max(0, len(data) - width)
        sums = (bytes(width), digest(self.algorithm, data[:end]))  # zeros: index.skipHash
        if signature != b"DIRC" or version not in (2, 3, 4) or data[end:] not in sums:
            raise UnreadableError("the index is broken, or of an unknown version")
        return version, count

    def _differs(self, entry: IndexEntry, modes: bool) -> bool:
        """Whether a file changed; its content is read only where times and numbers don't tell."""
        if not self._is_folder(entry.name.rpartition("/")[0]):
            return True
        try:
            now = os.lstat(f"{self.root}/{entry.name}")
        except OSError:
            return True
        if (now.st_mode ^ entry.mode) & (_KIND | _EXECUTABLE if modes and entry.mode != _LINK else _KIND):
            return True
        if entry.size and now.st_size & 0xFFFFFFFF != entry.size:
            return True
        return not self._is_untouched(entry, now) and not self._has_content(entry, now)

    def _is_folder(self, name: str) -> bool:
        """Whether a folder is one, and no link to another place."""
        if name not in self.folders:
            try:
                is_one = stat.S_ISDIR(os.lstat(os.path.join(self.root, name)).st_mode)
            except OSError:
                is_one = False
            self.folders[name] = is_one and self._is_folder(name.rpartition("/")[0])
        return self.folders[name]

    def _is_untouched(self, entry: IndexEntry, now: os.stat_result) -> bool:
        """Whether the file is the one that git saw, and not changed in the moment when the index was written."""
        times = (*divmod(now.st_ctime_ns, 10**9), *divmod(now.st_mtime_ns, 10**9))
        same = entry.seen == (*times, now.st_ino & 0xFFFFFFFF) and entry.size == now.st_size & 0xFFFFFFFF
        return same and now.st_mtime_ns < self.written

    def _has_content(self, entry: IndexEntry, now: os.stat_result) -> bool:
        """Whether the content is what was staged; not if it is too large to tell in time."""
        check_time(self.end)
        if now.st_size > _LARGEST_COMPARED:
            return False
        path = f"{self.root}/{entry.name}"
        data = os.fsencode(os.readlink(path)) if entry.mode == _LINK else read_file(path, flags=os.O_NOFOLLOW) or b""
        return digest(self.algorithm, b"blob %d\0" % len(data) + data) == entry.oid


def _dropped(data: bytes, at: int) -> tuple[int, int]:
    """How much of the name before it a name of version 4 drops, and where that number ends."""
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = ((value + 1) << 7) + (data[at] & 127)
    return value, at + 1


def _check_extensions(data: bytes, at: int, end: int) -> None:
    """Raises where the entries of another file count as well."""
    while at + 8 <= end:
        name, size = struct.unpack_from(">4sI", data, at)
        if name == b"link":
            raise UnreadableError("the index is split in two files")
        at += 8 + size
