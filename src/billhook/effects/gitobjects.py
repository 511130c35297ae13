"""The refs and objects of a git repository, by reading files: no git process, and so no hook, filter or monitor runs.

Each read is bounded in size and time. What is missing, broken or too large raises one of `BROKEN`.
"""

import os
import stat
import struct
import time
import zlib
from collections.abc import Iterator
from typing import Final

LARGEST_FILE: Final = 32 << 20
LARGEST_OBJECT: Final = 8 << 20
_LONGEST_CHAIN: Final = 256  # of deltas; git makes chains of 50
_MOST_REFS: Final = 5_000
_PACK_INDEX: Final = b"\xfftOc\x00\x00\x00\x02"
_OPENING: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # a pipe in the place of a file can't stall


class UnreadableError(Exception):
    """What the repository holds can't be told, or not in time."""


BROKEN: Final = (UnreadableError, OSError, ValueError, IndexError, struct.error, zlib.error, OverflowError, MemoryError)


class Clock:
    """The time that one question may take."""

    def __init__(self, milliseconds: float) -> None:
        self.end = time.monotonic() + milliseconds / 1000

    def check(self) -> None:
        if time.monotonic() > self.end:
            raise UnreadableError("the repository is too large to look at in time")


def open_file(path: str, flags: int = 0) -> int:
    """A descriptor of a regular file."""
    descriptor = os.open(path, _OPENING | flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableError(f"{path} is no regular file")
    return descriptor


def read_file(path: str, limit: int = LARGEST_FILE, flags: int = 0) -> bytes | None:
    """The content of a regular file; None where there is none."""
    try:
        descriptor = open_file(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise UnreadableError(f"{path} is too large")
    return data


def _line(path: str) -> str:
    return os.fsdecode((read_file(path, 4096) or b"").strip())


def repository(path: str) -> tuple[str, str] | None:
    """The worktree that a path is in, and its git folder, which is elsewhere for linked worktrees and submodules."""
    at = os.path.abspath(path)
    while True:
        if gitdir := _gitdir(at):
            return at, gitdir
        if at == os.path.dirname(at):
            return None
        at = os.path.dirname(at)


def _gitdir(folder: str) -> str:
    place = os.path.join(folder, ".git")
    try:
        if not os.path.isdir(place):
            kind, _, target = _line(place).partition(": ")
            place = os.path.normpath(os.path.join(folder, target)) if kind == "gitdir" and target else ""
        return place if place and os.path.isfile(os.path.join(place, "HEAD")) else ""
    except BROKEN:
        return ""


class Repository:
    """What is known of one repository; made for one question."""

    def __init__(self, gitdir: str, clock: Clock) -> None:
        self.gitdir, self.clock = gitdir, clock
        self.common = os.path.normpath(os.path.join(gitdir, _line(os.path.join(gitdir, "commondir"))))
        self.settings = _settings(read_file(os.path.join(self.common, "config"), 1 << 20) or b"")
        self.algorithm = "sha256" if self.settings.get("extensions.objectformat") == "sha256" else "sha1"
        self.width = 32 if self.algorithm == "sha256" else 20
        self._packed: dict[str, str] | None = None
        self._packs: list[str] | None = None

    def symbolic(self, name: str) -> str:
        """The ref that a symbolic ref names, "" where it names a commit."""
        text = _line(os.path.join(self.gitdir, name)) or _line(os.path.join(self.common, name))
        return text[5:].strip() if text.startswith("ref: ") else ""

    def commit_of(self, name: str) -> str:
        """The commit that a ref names, in hexadecimal; "" where it names none."""
        if "extensions.refstorage" in self.settings:
            raise UnreadableError("the refs are stored in an unknown format")
        for _ in range(5):
            target = self.symbolic(name)
            if not target:
                text = _line(os.path.join(self.gitdir, name)) or _line(os.path.join(self.common, name))
                return text or self.packed_refs().get(name, "")
            name = target
        raise UnreadableError(f"{name} leads to no commit")

    def packed_refs(self) -> dict[str, str]:
        if self._packed is None:
            lines = (read_file(os.path.join(self.common, "packed-refs")) or b"").splitlines()
            pairs = [os.fsdecode(line).split(" ", 1) for line in lines if line[:1] not in (b"#", b"^", b"")]
            self._packed = {pair[1]: pair[0] for pair in pairs if len(pair) == 2}
        return self._packed

    def remote_commits(self) -> set[str]:
        """The commits that the remote-tracking branches name."""
        found = {commit for name, commit in self.packed_refs().items() if name.startswith("refs/remotes/")}
        for folder, _, names in os.walk(os.path.join(self.common, "refs/remotes")):
            self.clock.check()
            found |= {_line(os.path.join(folder, name)) for name in names[:_MOST_REFS] if name != "HEAD"}
        return found

    def head_tree(self) -> bytes:
        """The tree of the current commit; b"" before the first one."""
        commit = self.commit_of("HEAD")
        return bytes.fromhex(self.object(bytes.fromhex(commit)).split(b"\n", 1)[0][5:].decode()) if commit else b""

    def parents(self, commit: str) -> list[str]:
        header = self.object(bytes.fromhex(commit)).partition(b"\n\n")[0]
        return [line[7:].decode() for line in header.split(b"\n") if line.startswith(b"parent ")]

    def tree(self, oid: bytes) -> Iterator[tuple[int, str, bytes]]:
        """The entries of a tree: mode, name, object."""
        data, at = self.object(oid), 0
        while at < len(data):
            end = data.index(0, at)
            mode, _, name = data[at:end].partition(b" ")
            at = end + 1 + self.width
            yield int(mode, 8), os.fsdecode(name), data[end + 1 : at]

    def object(self, oid: bytes, depth: int = 0) -> bytes:
        """The content of a commit or a tree. `depth`: how many deltas wait for it."""
        self.clock.check()
        name = oid.hex()
        for store in self._stores():
            if data := read_file(f"{store}/{name[:2]}/{name[2:]}", LARGEST_OBJECT):
                return _inflated(data).partition(b"\0")[2]
        for pack in self._pack_files():
            if (offset := self._offset(pack, oid)) is not None:
                return self._from_pack(pack, offset, depth)
        raise UnreadableError(f"the object {name} is missing")

    def _stores(self) -> list[str]:
        objects = os.path.join(self.common, "objects")
        borrowed = os.fsdecode(read_file(f"{objects}/info/alternates", 1 << 16) or b"").splitlines()
        return [objects, *(os.path.join(objects, line) for line in borrowed[:8] if line)]

    def _pack_files(self) -> list[str]:
        if self._packs is None:
            folders = [f"{store}/pack" for store in self._stores()]
            self._packs = [
                f"{folder}/{name[:-4]}"
                for folder in filter(os.path.isdir, folders)
                for name in os.listdir(folder)
                if name.endswith(".idx")
            ]
        return self._packs

    def _offset(self, pack: str, oid: bytes) -> int | None:
        """Where an object is in a pack, by bisecting the pack's index."""
        self.clock.check()
        file, names = open_file(pack + ".idx"), 8 + 1024
        try:
            if os.pread(file, 8, 0) != _PACK_INDEX:
                raise UnreadableError("an unknown version of pack index")
            fanout = struct.unpack(">256I", os.pread(file, 1024, 8))
            low, high, count = fanout[oid[0] - 1] if oid[0] else 0, fanout[oid[0]], fanout[255]
            while low < high:
                middle = (low + high) // 2
                name = os.pread(file, self.width, names + middle * self.width)
                if name == oid:
                    return _pack_offset(file, names + count * (self.width + 4), count, middle)
                low, high = (middle + 1, high) if name < oid else (low, middle)
            return None
        finally:
            os.close(file)

    def _from_pack(self, pack: str, offset: int, depth: int) -> bytes:
        """An object of a pack: the base of its chain of deltas, and each delta applied to it."""
        file = open_file(pack + ".pack")
        deltas: list[bytes] = []
        try:
            while depth + len(deltas) < _LONGEST_CHAIN:
                self.clock.check()
                kind, size, at = _entry_header(file, offset)
                if kind == 7:  # a delta to an object by name, which may be in another file
                    deltas.append(_inflated_at(file, at + self.width, size))
                    base = self.object(os.pread(file, self.width, at), depth + len(deltas))
                    return _with_deltas(base, deltas)
                if kind != 6:
                    return _with_deltas(_inflated_at(file, at, size), deltas)
                back, used = offset_number(os.pread(file, 16, at), 0)
                deltas.append(_inflated_at(file, at + used, size))
                offset -= back
        finally:
            os.close(file)
        raise UnreadableError("a chain of deltas is too long")


def _settings(text: bytes) -> dict[str, str]:
    """The settings of a repository's own configuration file, as `section.name`, without subsections."""
    found, section = {}, ""
    for line in os.fsdecode(text).splitlines():
        name, _, value = line.strip().partition("=")
        if name.startswith("["):
            section = name.strip("[] \t").lower()
        else:
            found[f"{section}.{name.strip().lower()}"] = value.strip().strip('"')
    return found


def _inflated(data: bytes) -> bytes:
    found = zlib.decompressobj().decompress(data, LARGEST_OBJECT + 1)
    if len(found) > LARGEST_OBJECT:
        raise UnreadableError("an object is too large")
    return found


def _inflated_at(file: int, at: int, size: int) -> bytes:
    if size > LARGEST_OBJECT:
        raise UnreadableError("an object is too large")
    reader, found = zlib.decompressobj(), b""
    while len(found) < size:
        data = os.pread(file, 4096 + size, at)
        if not data:
            raise UnreadableError("a pack ends early")
        at += len(data)
        found += reader.decompress(data, size - len(found))
    return found


def _pack_offset(file: int, table: int, count: int, number: int) -> int:
    (offset,) = struct.unpack(">I", os.pread(file, 4, table + number * 4))
    if offset & 0x80000000:  # in packs of more than 2 GiB
        (offset,) = struct.unpack(">Q", os.pread(file, 8, table + count * 4 + (offset & 0x7FFFFFFF) * 8))
    return int(offset)


def _entry_header(file: int, offset: int) -> tuple[int, int, int]:
    """The kind and size of a pack's entry, and where its content begins."""
    data = os.pread(file, 16, offset)
    kind, size, used = data[0] >> 4 & 7, data[0] & 15, 1
    while data[used - 1] & 128:
        size |= (data[used] & 127) << (7 * used - 3)
        used += 1
    return kind, size, offset + used


def offset_number(data: bytes, at: int) -> tuple[int, int]:
    """A number as git writes offsets and lengths of prefixes, and where it ends."""
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = ((value + 1) << 7) + (data[at] & 127)
    return value, at + 1


def _with_deltas(base: bytes, deltas: list[bytes]) -> bytes:
    for delta in reversed(deltas):
        base = _with_delta(base, delta)
    return base


def _with_delta(base: bytes, delta: bytes) -> bytes:
    """A delta: two sizes, then copies from the base (first bit set) and texts of its own."""
    at, found = 0, bytearray()
    for _ in range(2):
        while delta[at] & 128:
            at += 1
        at += 1
    while at < len(delta) and len(found) <= LARGEST_OBJECT:
        code = delta[at]
        at += 1
        if not code & 128:
            found += delta[at : at + code]
            at += code
            continue
        numbers = [0] * 7  # four bytes of an offset, three of a length; those that are 0 are left out
        for bit in range(7):
            if code & 1 << bit:
                numbers[bit] = delta[at]
                at += 1
        start, size = int.from_bytes(numbers[:4], "little"), int.from_bytes(numbers[4:], "little") or 0x10000
        found += base[start : start + size]
    return bytes(found)
