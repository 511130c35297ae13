"""A file system in a table, and a world around it, for tests of effects."""

import posixpath
from collections.abc import Mapping

from billhook.effects.effect import Command, Effect
from billhook.effects.families import effects_of_command
from billhook.effects.places import World

PROJECT = "/home/me/proj"


class FakeFileSystem:
    """Files by path: their text, `None` for a folder, `-> path` for a link."""

    def __init__(self, files: Mapping[str, str | None]) -> None:
        self.files = dict(files)
        for path in files:
            at = posixpath.dirname(path)
            while at not in self.files:
                self.files[at] = None
                at = posixpath.dirname(at)

    def kind(self, path: str) -> str:
        if path not in self.files:
            return ""
        text = self.files[path]
        return "dir" if text is None else "link" if text.startswith("-> ") else "file"

    def real(self, path: str) -> str:
        at = "/"
        for segment in path.split("/"):
            at = posixpath.normpath(posixpath.join(at, segment))
            text = self.files.get(at)
            if text is not None and text.startswith("-> "):
                at = self.real(posixpath.join(posixpath.dirname(at), text[3:]))
        return at

    def names(self, folder: str) -> list[str]:
        above = folder.rstrip("/") + "/"
        return sorted(
            {path[len(above) :].split("/")[0] for path in self.files if path.startswith(above) and path != above}
        )

    def read(self, path: str, limit: int = 1 << 18) -> str | None:
        text = self.files.get(self.real(path))
        return text if text is not None and not text.startswith("-> ") and len(text) <= limit else None


def world(files: Mapping[str, str | None] | None = None, cwd: str = PROJECT) -> World:
    tree = {f"{PROJECT}/.git": None, f"{PROJECT}/src/a.py": "a = 1\n", "/etc/passwd": "", "/tmp": None, **(files or {})}
    return World(cwd, "/home/me", (PROJECT,), fs=FakeFileSystem(tree))


def effects_of_words(*words: str, files: Mapping[str, str | None] | None = None, cwd: str = PROJECT) -> list[Effect]:
    """The effects of one plain command by the tables alone."""
    here = world(files, cwd)
    command = Command(words[0], tuple(words[1:]), cwd, text=" ".join(words))
    return effects_of_command(command, here, here.scopes)
