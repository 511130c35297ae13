"""Paths of a call made absolute, the scope that each is in, and the file system as effects see it."""

import functools
import os
import posixpath
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from billhook.effects.effect import UNKNOWN, Scope

MOST_NAMES: Final = 2_000  # of one folder
LARGEST_TEXT: Final = 256 * 1024
_MOST_LINKS: Final = 8  # links that lead to links


class FileSystem(Protocol):
    """The queries that effects may use. No method raises, writes, or runs anything."""

    def kind(self, path: str) -> str:
        """`file`, `dir`, `link`, `other`, or "" where nothing is. A link is not followed."""

    def real(self, path: str) -> str:
        """The path with all links followed."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder, at most MOST_NAMES; empty if it is not a folder."""

    def read(self, path: str, limit: int = LARGEST_TEXT) -> str | None:
        """The text of a regular file; None if it is not one, too large, or not text."""


class RealFileSystem:
    """This machine's."""

    def kind(self, path: str) -> str:
        try:
            mode = os.lstat(path).st_mode
        except (OSError, ValueError):
            return ""
        if stat.S_ISLNK(mode):
            return "link"
        return "dir" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"

    def real(self, path: str) -> str:
        try:
            return os.path.realpath(path)
        except (OSError, ValueError):
            return os.path.normpath(path)

    def names(self, folder: str) -> list[str]:
        try:
            with os.scandir(folder) as entries:
                return [entry.name for entry, _ in zip(entries, range(MOST_NAMES), strict=False)]
        except (OSError, ValueError):
            return []

    def read(self, path: str, limit: int = LARGEST_TEXT) -> str | None:
        # O_NONBLOCK: a pipe in the place of a script must not stall the judge
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError):
            return None
        try:
            data = b"\0" if not stat.S_ISREG(os.fstat(descriptor).st_mode) else os.read(descriptor, limit + 1)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return None if len(data) > limit or b"\0" in data else data.decode("utf-8", "replace")


REAL: Final = RealFileSystem()


class NoFiles:
    """A file system in which nothing is: that of another machine."""

    def kind(self, path: str) -> str:
        return ""

    def real(self, path: str) -> str:
        return posixpath.normpath(path)

    def names(self, folder: str) -> list[str]:
        return []

    def read(self, path: str, limit: int = 0) -> str | None:
        return None


NO_FILES: Final = NoFiles()


class Overlay:
    """A file system with what a line itself makes on top: folders, files and links that are not there yet."""

    def __init__(self, fs: FileSystem) -> None:
        self.fs = fs
        self.made: dict[str, str] = {}  # path -> dir or file
        self.links: dict[str, str] = {}  # path -> what it leads to
        self.written: dict[str, str | None] = {}  # files -> their text, where the line shows it
        self._real, self._names = functools.cache(fs.real), functools.cache(fs.names)  # a line asks for them often

    def kind(self, path: str) -> str:
        return "link" if path in self.links else self.made.get(path) or self.fs.kind(path)

    def real(self, path: str) -> str:
        for _ in range(_MOST_LINKS if self.links else 0):
            link = next((each for each in self.links if path == each or path.startswith(each + "/")), None)
            if link is None:
                break
            path = os.path.normpath(os.path.join(os.path.dirname(link), self.links[link])) + path[len(link) :]
        folder, name = posixpath.split(path)
        is_plain = name and self.fs.kind(path) != "link"
        return posixpath.join(self._real(folder), name) if is_plain else self._real(path)

    def names(self, folder: str) -> list[str]:
        found = self._names(folder)
        above = folder.rstrip("/") + "/"
        new = (path[len(above) :] for path in (*self.made, *self.links, *self.written) if path.startswith(above))
        return list(dict.fromkeys((*found, *(name for name in new if "/" not in name))))

    def read(self, path: str, limit: int = LARGEST_TEXT) -> str | None:
        text = self.written.get(path)
        return text if text is not None else self.fs.read(path, limit)


_SYSTEM: Final = """
/ /C: /Applications /Library /System /Users /bin /boot /dev /etc /home /lib /lib32 /lib64 /opt /private /proc /root /run
/sbin /sys /usr /var
"""
TEMPORARY: Final = ("/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp", "/dev/shm", "/var/folders", "/run/user")
_CACHES: Final = """
.npm/_cacache .cache/pip .cache/uv .cache/yarn .cache/pypoetry .cache/pre-commit .cache/go-build .gradle/caches
.cargo/registry/cache Library/Caches/pip Library/Caches/Homebrew
"""
"""Folders in a home that programs fill again."""
_SIGNS: Final = frozenset("*?[")
_HARMLESS_DEVICES: Final = """
null zero full random urandom tty pts/ ptmx std fd/ shm/ console tcp/ udp/ cu. dri/ snd/ video input/ kvm net/ log
fuse usb serial i2c spi gpio kmsg mqueue
"""
_DISK = re.compile(r"(?:[A-Z]:|[a-z]:(?=[\\/]))(?:[\\/]?(?i:users)[\\/]?([^\\/*?]+)(.*))?", re.DOTALL)
"""A path of Windows: the user whose home it is in, and the rest."""
_LONGEST_PATTERN: Final = 512
LONGEST_PATH: Final = 16_384  # no system opens a longer one


class World(msgspec.Struct, frozen=True):
    """Where a call happens: its folder, the project around it, and the user's home."""

    cwd: str
    home: str
    roots: tuple[str, ...]  # the project's root, and its other worktrees
    temporary: tuple[str, ...] = ()  # further folders for temporary files: `$TMPDIR`
    environ: Mapping[str, str] = {}
    fs: FileSystem = REAL

    @property
    def scopes(self) -> dict[str, Scope]:
        """The folders that decide on a scope; the nearest one above a path does."""
        found: dict[str, Scope] = dict.fromkeys(_SYSTEM.split(), "system")
        found |= dict.fromkeys((*TEMPORARY, *self.temporary), "temp")
        if self.home != "/":
            found[self.home] = "home"
            found |= {f"{self.home}/{cache}": "temp" for cache in _CACHES.split()}
            # other users' homes are no part of the system
        above_home = self.home + "/"
        for root in self.roots:
            if root != "/" and not above_home.startswith(root + "/"):
                found[root] = "project"
        return found


def scope_of(path: str, scopes: Mapping[str, Scope]) -> Scope:
    """The scope of an absolute path: that of the nearest folder above it that has one."""
    at = path.partition(UNKNOWN)[0]
    if not at.startswith("/"):
        return "unknown"
    if at != path:
        at = at.rpartition("/")[0] or "/"  # the unknown part may be empty, or lead upwards
    at = base_of(at)
    while at not in scopes:
        above = posixpath.dirname(at)
        if above in ("/", "/home", "/Users"):  # /data, /srv, another user's home
            return "outside"
        at = above
    return scopes[at]


def base_of(path: str) -> str:
    """The folder above the first pattern of a path: `/a` for `/a/*/b`; a path without a pattern as it is."""
    if _SIGNS.isdisjoint(path):
        return path
    segments = path.split("/")
    plain = next(place for place, segment in enumerate(segments) if not _SIGNS.isdisjoint(segment))
    return "/".join(segments[:plain]) or "/"


def has_pattern(path: str) -> bool:
    return not _SIGNS.isdisjoint(path)


def absolute(word: str, cwd: str, world: World) -> str:
    """A word as an absolute path, `.` and `..` resolved; it begins with UNKNOWN where the call doesn't show where."""
    if len(word) > LONGEST_PATH or (len(word) > _LONGEST_PATTERN and has_pattern(word)):
        return UNKNOWN
    if word[1:2] == ":" and (disk := _DISK.match(word)):
        word = f"{world.home}/{disk[2]}" if disk[1] else f"/{word[0].upper()}:/{word[2:]}"
        word = word.replace("\\", "/")
    if word.startswith("~"):
        word = _from_home(word, cwd, world)
    elif word.startswith("/proc/self/cwd"):
        word = cwd + word[len("/proc/self/cwd") :]
    elif word.startswith("/proc/self/root/"):
        word = word[len("/proc/self/root") :]
    path = word if word.startswith(("/", UNKNOWN)) else f"{cwd}/{word}"
    if path.startswith(UNKNOWN):
        return path
    return "/" + posixpath.normpath(path).lstrip("/")


def _from_home(word: str, cwd: str, world: World) -> str:
    name, slash, rest = word.partition("/")
    if name == "~":
        return world.home + slash + rest
    if name == "~+":
        return cwd + slash + rest
    # `~-` and other users' homes are not looked up
    return UNKNOWN + slash + rest if name == "~-" or UNKNOWN in name else f"/home/{name[1:]}{slash}{rest}"


def resolved(path: str, fs: FileSystem, *, itself: bool = False) -> str:
    """A path with the links on its way followed, and its own unless the link itself is meant."""
    if UNKNOWN in path or has_pattern(path):
        base = base_of(path.partition(UNKNOWN)[0].rpartition("/")[0] if UNKNOWN in path else path)
        return fs.real(base).rstrip("/") + path[len(base.rstrip("/")) :] if base.startswith("/") else path
    if itself:
        folder, name = posixpath.split(path)
        return posixpath.join(fs.real(folder), name) if name else path
    return fs.real(path)


def inside(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders, or below one."""
    above = tuple(folders)
    return path in above or path.startswith(_prefixes(above))


@functools.lru_cache(maxsize=256)
def _prefixes(folders: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(folder.rstrip("/") + "/" for folder in folders)


def is_device(path: str) -> bool:
    """Whether writing to a path reaches a disk, the memory or the kernel's emergency keys; terminals don't count."""
    if not path.startswith("/dev/"):
        return path in ("/proc/sysrq-trigger", "/proc/kcore")
    return len(path) > 5 and not path[5:].startswith(tuple(_HARMLESS_DEVICES.split()))


def is_stream(path: str) -> bool:
    """Whether a path is `/dev/null`, a terminal or a descriptor: what is written there is kept nowhere."""
    return path.startswith("/dev/") and not is_device(path) and not path.startswith("/dev/shm/")


def upwards(folder: str) -> Iterator[str]:
    """A folder and all that are above it."""
    yield folder
    while (above := posixpath.dirname(folder)) != folder:
        folder = above
        yield folder


def repository_above(folder: str, fs: FileSystem = REAL) -> str:
    """The nearest folder from here upwards that holds `.git`; "" where there is none below the root of the system."""
    return next((at for at in upwards(folder) if at != "/" and fs.kind(f"{at}/.git")), "")
