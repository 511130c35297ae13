"""The file system as effects see it: a few questions, each bounded, so that a test can answer them from a table."""

import os
import stat
from typing import Final, Protocol

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


class Overlay:
    """A file system with what a line itself makes on top: folders, files and links that are not there yet."""

    def __init__(self, fs: FileSystem) -> None:
        self.fs = fs
        self.made: dict[str, str] = {}  # path -> dir or file
        self.links: dict[str, str] = {}  # path -> what it leads to
        self.written: dict[str, str | None] = {}  # files -> their text, where the line shows it

    def kind(self, path: str) -> str:
        return "link" if path in self.links else self.made.get(path) or self.fs.kind(path)

    def real(self, path: str) -> str:
        for _ in range(_MOST_LINKS if self.links else 0):
            link = next((each for each in self.links if path == each or path.startswith(each + "/")), None)
            if link is None:
                break
            path = os.path.normpath(os.path.join(os.path.dirname(link), self.links[link])) + path[len(link) :]
        return self.fs.real(path)

    def names(self, folder: str) -> list[str]:
        found = self.fs.names(folder)
        above = folder.rstrip("/") + "/"
        new = (path[len(above) :] for path in (*self.made, *self.links, *self.written) if path.startswith(above))
        return list(dict.fromkeys((*found, *(name for name in new if "/" not in name))))

    def read(self, path: str, limit: int = LARGEST_TEXT) -> str | None:
        text = self.written.get(path)
        return text if text is not None else self.fs.read(path, limit)
