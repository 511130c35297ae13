"""The files that a pattern of the shell's matches now, looked for inside one folder and within bounds.

A pattern may come with a repository that nobody approved, so it must not be able to keep us busy: it never leads out of
the folder, by its text or through a link, and it looks at a bounded number of names for a bounded time.
"""

import itertools
import os
import re
import time
from typing import Final, NamedTuple

from billhook.config.looking import Look
from billhook.globs import segment_matches

MAX_MATCHES: Final = 200
MAX_NAMES: Final = 5_000  # names of files that all patterns of one hook may look at
MAX_SECONDS: Final = 1.0  # what all patterns of one load may take, together
MAGIC: Final = re.compile(r"[*?\[]")
_OUTSIDE: Final = "it leads out of the project"


class Matches(NamedTuple):
    """What a pattern stands for."""

    files: tuple[str, ...] = ()
    problem: str = ""  # why there may be more: the pattern was not followed, or not everywhere


class TooMuchError(Exception):
    """More than we are willing to look at."""


class Patterns:
    """The patterns of one hook, seen from its project. They share one allowance of names, and a load's seconds."""

    def __init__(self, folder: str, look: Look) -> None:
        self.look = look
        self.tops = tuple({folder.rstrip("/"), look.real(folder).rstrip("/")})
        self.names = MAX_NAMES
        self.listed: set[str] = set()  # folders in which another file may appear that a pattern matches
        self.problem = ""

    def matches(self, pattern: str) -> Matches:
        """The files that an absolute pattern matches, in order."""
        if not self.inside(pattern):
            return Matches(problem=_OUTSIDE)
        began, self.problem = time.monotonic(), ""
        try:
            files = self._expanded(pattern, began + MAX_SECONDS - self.look.pattern_seconds)
        except TooMuchError:
            return Matches(problem="it has too many files to look through")
        finally:
            self.look.pattern_seconds += time.monotonic() - began
        return Matches(tuple(files), self.problem)

    def inside(self, path: str) -> bool:
        return any(path.startswith(top + "/") or path == top for top in self.tops)

    def _expanded(self, pattern: str, until: float) -> list[str]:
        found = [""]
        for part in pattern.split("/")[1:]:
            if time.monotonic() > until or len(found) > MAX_NAMES:
                raise TooMuchError
            magic = MAGIC.search(part)
            found = [path for above in found for path in (self._in(above, part) if magic else [f"{above}/{part}"])]
        existing = [path for path in found if self._stays(os.path.dirname(path)) and os.path.lexists(path)]
        if len(existing) > MAX_MATCHES:
            raise TooMuchError
        return existing

    def _in(self, folder: str, part: str) -> list[str]:
        """What one part of the pattern matches in one folder; nothing in one that lies elsewhere or can't be listed."""
        if not self._stays(folder):
            return []
        try:
            self.listed.add(folder)
            names = self._listed(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.problem = f"{folder} can't be listed: {(error.strerror or str(error)).lower()}"
            return []
        visible = names if part.startswith(".") else [name for name in names if not name.startswith(".")]
        return [f"{folder}/{name}" for name in visible if segment_matches(part, name)]

    def _stays(self, folder: str) -> bool:
        """Whether a folder lies inside, whatever links lead to it; that one doesn't is noted."""
        if self.inside(self.look.real(folder)):
            return True
        self.problem = _OUTSIDE
        return False

    def _listed(self, folder: str) -> list[str]:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, self.names + 1)]
        self.names -= len(names) + 1
        if self.names < 0:
            raise TooMuchError
        return sorted(names)
