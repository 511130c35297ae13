"""What a line does by way of other files: links that it makes, patches, archives, scripts that it writes and runs."""

import os
import posixpath
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from billhook.builtins.archives import unpacked
from billhook.builtins.patches import patched_by
from billhook.builtins.paths import normal
from billhook.builtins.placing import absolute
from billhook.builtins.reading_code import only_reads
from billhook.builtins.touch import Touch, Writes
from billhook.builtins.writers import is_python
from billhook.script import UNKNOWN
from billhook.shell import SimpleCommand
from billhook.unwrap import SHELLS

_MAX_FILES: Final = 16
_MAX_LINKS: Final = 32
_MAX_SCRIPTS: Final = 1_000
_POUR: Final = frozenset({"cat", "zcat", "gzcat", "bzcat", "xzcat", "gunzip", "pv"})
"""Programs that give a file to the next one in the line."""
_MAKE_FILES: Final = frozenset({"tee", "cp", "mv", "ln", "dd", "install", "sponge"})


class Following:
    """What is known so far of one line's links, and of the files that it writes and runs."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.files_left = _MAX_FILES
        self.links: dict[str, str] = {}  # where they are -> what they lead to
        self.written: set[str] = set()
        self.poured: list[str] = []
        self.run: dict[str, bool] = {}  # -> whether it is Python

    def take(self, command: SimpleCommand, wrote: Writes, folders: list[str]) -> Iterator[Touch]:
        """Look at one command; what its patches and archives write."""
        inner = list(absolute(wrote.folder, folders)) if wrote.folder else folders
        made = [touch.path for touch in wrote.touches] if command.name in _MAKE_FILES else []
        self.written |= {normal(path) for word in (*command.written, *made) for path in absolute(word, inner)}
        read = [redirect.target for redirect in command.redirects if redirect.operator == "<"]
        self._runs(command, wrote, read, folders)
        for source, target in wrote.links:
            self._link(source, target, inner)
        if command.name in _POUR and len(self.poured) < _MAX_FILES:
            self.poured += [word for word in command.words[1 : _MAX_FILES + 1] if not word.startswith("-")]
        files = [file for file in (*wrote.archives, *(wrote.patches or ())) if file != "-"]
        if not files and (wrote.archives or wrote.patches is not None):
            files = read or self.poured
        for file in files:
            yield from self._named_in(file, wrote, list(dict.fromkeys((*inner, *folders))))

    def _named_in(self, file: str, wrote: Writes, folders: list[str]) -> Iterator[Touch]:
        if UNKNOWN in file:
            return
        for path in absolute(file, folders):
            if self.files_left <= 0 or not os.path.isfile(path):
                continue
            self.files_left -= 1
            names = patched_by(path, wrote.strip) if wrote.patches is not None else unpacked(path, wrote.strip)
            inside = list(absolute(wrote.into, folders)) if wrote.into else folders
            yield from (Touch(found) for name in names for found in absolute(name.lstrip("~"), inside))

    # scripts

    def _runs(self, command: SimpleCommand, wrote: Writes, read: list[str], folders: list[str]) -> None:
        words = command.words
        if not words or len(self.run) >= _MAX_SCRIPTS:
            return
        scripts = [*wrote.scripts, *(wrote.patches or ()), *wrote.archives, *(words[:1] if "/" in words[0] else ())]
        if command.name in (".", "source"):
            scripts += words[1:2]
        if wrote.runs_input or command.name in SHELLS:
            scripts += read
        python = is_python(command.name)
        for path in (path for script in scripts for path in absolute(script, folders)):
            self.run[normal(path)] = python and self.run.get(normal(path), True)

    def scripts_of_the_line(self) -> list[str]:
        """The line itself, if it runs what it writes: the text of that is in it, in whatever language."""
        found = [python for path, python in self.run.items() if path in self.written]
        return [self.text] if found and not (all(found) and only_reads(self.text)) else []

    # links

    def _link(self, source: str, target: str, folders: list[str]) -> None:
        for place in absolute(target, folders):
            if UNKNOWN in place or UNKNOWN in source or len(self.links) >= _MAX_LINKS:
                continue
            if os.path.isdir(place) or target.endswith("/") or target in (".", ".."):
                link = posixpath.join(place, posixpath.basename(source.rstrip("/")))
            else:
                link = place
            for leads_to in absolute(source, [posixpath.dirname(normal(link))]):
                self.links[normal(link)] = normal(leads_to)

    def behind_links(self, paths: Iterable[Touch]) -> list[Touch]:
        """What the line touches by way of links that it makes itself: they are not there yet."""
        found: list[Touch] = []
        todo = list(paths) if self.links else []
        for _ in range(2):  # a link may lead to another
            todo = [other for touch in todo for other in self._behind(touch)]
            found += todo
        return found

    def _behind(self, touch: Touch) -> Iterator[Touch]:
        path = normal(touch.path)
        for place, leads_to in self.links.items():
            inside = path.startswith(place + "/")
            if any(normal(source) == leads_to for source in touch.sources):
                continue  # the link itself is made
            if leads_to != place and (inside or (path == place and (touch.below or touch.sources))):
                yield msgspec.structs.replace(touch, path=leads_to + path[len(place) :])
