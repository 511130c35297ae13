"""Which files a git command would really change: commits are compared with each other, and with what is on the disk.

Only objects are read (`ls-tree`, `merge-base`): no hooks, filters, pagers, monitors or fetches run, and the index is
left alone. What git can't tell in time counts as changed.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Final

from billhook import caller
from billhook.script import UNKNOWN

_SECONDS: Final = 2.0
_LARGEST: Final = 16 << 20
_MOST_FILES: Final = 2_000
_SETTINGS: Final = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat")

Tree = dict[str, str]


class UnknownError(Exception):
    """git can't tell."""


def changed(root: str, kind: str, commit: str, paths: Sequence[str]) -> list[str]:
    """Those of the files and folders below `root` that the command changes or removes; all where that can't be told."""
    names = {os.path.relpath(path, root): path for path in paths}
    try:
        change = _Change(root, kind, commit, list(names))
        return [path for name, path in names.items() if change.of(name)]
    except (UnknownError, OSError, ValueError):
        return [] if kind == "pull" or (commit.startswith("stash@{") and _no_stash(root)) else list(paths)


def _no_stash(root: str) -> bool:
    git = os.path.join(root, ".git")
    return os.path.isdir(git) and not any(
        os.path.lexists(f"{git}/{name}") for name in ("refs/stash", "logs/refs/stash")
    )


class _Change:
    """What one command does to the files of these names."""

    def __init__(self, root: str, kind: str, commit: str, names: list[str]) -> None:
        self.root, self.kind, self.names = root, kind, names
        if UNKNOWN in commit or commit.startswith("-"):
            raise UnknownError
        before, dots, after = commit.partition("..")
        if kind in ("merge", "pull"):
            before, after = self.merge_base(commit), commit
        elif kind == "pick" and not dots:
            before, after = f"{commit}^", commit
        elif not dots:
            before, after = "HEAD", commit
        self.before, self.after = self.tree(before), self.target(after.lstrip(".") or "HEAD")

    def of(self, name: str) -> bool:
        files = [file for file in {*self.before, *self.after} if file == name or file.startswith(name + "/")]
        if self.kind == "clean":
            return any(file not in self.before for file in self.on_disk(name))
        if self.kind == "untracked" and any(file not in self.before for file in self.on_disk(name)):
            return True
        if self.kind in ("reset", "untracked"):
            return any(self.after.get(file, "") != self.blob(file) for file in files)
        return any(self.before.get(file) != self.after.get(file) for file in files)

    def target(self, commit: str) -> Tree:
        """A branch that is only known of a remote is made on the way."""
        try:
            return self.tree(commit)
        except UnknownError:
            if self.kind != "switch":
                raise
            return self.tree(f"origin/{commit}")

    def tree(self, commit: str) -> Tree:
        listed = self.git("ls-tree", "-r", "-z", "--full-tree", commit, "--", *self.names)
        entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
        return {name: meta.split()[2] for meta, _, name in entries}

    def merge_base(self, commit: str) -> str:
        return self.git("merge-base", "HEAD", commit).strip()

    def blob(self, name: str) -> str:
        """The object that a file on the disk would be; "" where there is none."""
        path = os.path.join(self.root, name)
        if os.path.islink(path):
            data = os.fsencode(os.readlink(path))
        elif not os.path.isfile(path):
            return ""
        else:
            with open(path, "rb") as file:
                data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise UnknownError
        kind = hashlib.sha256 if any(len(each) == 64 for each in self.before.values()) else hashlib.sha1
        return kind(b"blob %d\0" % len(data) + data).hexdigest()

    def on_disk(self, name: str) -> Iterable[str]:
        path = os.path.join(self.root, name)
        if not os.path.isdir(path) or os.path.islink(path):
            return [name]
        found: list[str] = []
        for folder, _, files in os.walk(path):
            found += [os.path.relpath(os.path.join(folder, file), self.root) for file in files]
            if len(found) > _MOST_FILES:
                raise UnknownError
        return found

    def git(self, *words: str) -> str:
        import subprocess

        command = [_program(self.root), "--no-pager", *_SETTINGS, "-C", self.root, *words]
        try:
            done = subprocess.run(
                command, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=True
            )
        except subprocess.SubprocessError:
            raise UnknownError from None
        return done.stdout.decode("utf-8", "surrogateescape")


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in caller.environ().items() if not key.startswith("GIT_")}
    return {**kept, "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


def _program(root: str) -> str:
    """git as PATH finds it, but none that the repository brings along."""
    inside = os.path.join(os.path.realpath(root), "")
    for folder in (*caller.environ().get("PATH", "").split(":"), "/usr/bin", "/usr/local/bin"):
        path = os.path.join(folder, "git")
        if folder.startswith("/") and not os.path.realpath(path).startswith(inside) and os.access(path, os.X_OK):
            return path
    raise UnknownError
