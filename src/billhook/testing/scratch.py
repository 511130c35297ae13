"""A scratch copy of a project, with its own home folder and state: test cases run there, and change nothing else.

The copy is made once. Each worker has a copy of that copy, and restores it after a case that changed something.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from billhook.agents import AGENTS
from billhook.config import sources
from billhook.config.approval_scope import NAMES as BUILD_FILES
from billhook.config.config import Config
from billhook.config.referenced_files import named
from billhook.config.sources import FileSnapshot
from billhook.core.errors import UsageError
from billhook.effects import gitstate
from billhook.effects.gitstate import UnreadableError

MOST_FILES: Final = 5_000
MOST_BYTES: Final = 64 << 20
"""A larger project is not copied as a whole: only its hook files, and the scripts that hooks name."""
_REMOVED: Final = ("GIT_", "BILLHOOK_", "CLAUDE", "XDG_", "HOOK_")
_MARKS: Final = frozenset({mark for agent in AGENTS.values() for mark in agent.marks} | {"AI_AGENT", "AUGMENT_AGENT"})
_CODE_OF_GIT: Final = (".git/config", ".git/hooks", ".git/info")
_SETTINGS: Final = "[user]\n\tname = billhook test\n\temail = test@localhost\n[core]\n\thooksPath = /dev/null\n"


class Original(msgspec.Struct, frozen=True):
    """The folders that are copied, and which of their files."""

    project: str  # empty outside of a project
    home: str
    files: tuple[str, ...]  # absolute paths in the project or in the home folder
    is_repository: bool = False
    covered: frozenset[str] = frozenset()
    """The scripts that hooks run: no case replaces them. Build files, such as a Makefile, are input of a command that
    cases need to vary."""

    @property
    def inner(self) -> str:
        """The place of the project in a copy. A project below the home folder stays below it: scopes depend on that."""
        if not self.project:
            return "home/project"
        below = self.project.startswith(self.home + "/")
        return f"home/{os.path.relpath(self.project, self.home)}" if below else "project"

    def place_in(self, copy: Path, path: str) -> Path:
        """The place of a file in a copy."""
        if self.project and path.startswith(self.project + "/"):
            return copy / self.inner / os.path.relpath(path, self.project)
        return copy / "home" / os.path.relpath(path, self.home)


def original_of(config: Config, *, whole: bool) -> Original:
    """What is copied for a configuration. `whole`: the project with all its files, unless it is too large."""
    project, home = config.project, os.path.realpath(os.path.expanduser("~"))
    look = FileSnapshot()
    found = [read.source.path for read in config.sources]
    references = [named(one.declared.action, one.declared.folder, look) for one in config.entries]
    scripts = [
        path for one in references for path in (*one.files, *(file for tree in one.trees.values() for file in tree))
    ]
    in_repository = whole and os.path.exists(os.path.join(project, ".git"))
    files = dict.fromkeys([*found, *scripts, *(_listed(project) if in_repository else ())])
    folders = tuple(f"{folder}/" for folder in (project if whole else "", home) if len(folder) > 1)
    inside = tuple(path for path in files if path.startswith(folders) and "/.git/" not in path)
    covered = frozenset(path for path in scripts if os.path.basename(path) not in BUILD_FILES)
    return Original(project if whole else "", home, inside, in_repository, covered)


def _listed(project: str) -> list[str]:
    """The tracked files and the new ones that are not ignored; none if they are too many or too large."""
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    try:
        names = gitstate.run_git(project, *words, seconds=20).split("\0")
        paths = [os.path.join(project, name) for name in dict.fromkeys(names) if name]
        sizes = [os.lstat(path).st_size for path in paths if os.path.lexists(path)]
    except (OSError, UnreadableError):
        return []
    return paths if len(paths) <= MOST_FILES and sum(sizes) <= MOST_BYTES else []


def copy_original(original: Original, copy: Path) -> None:
    """Make the first copy. It is a repository on the same branch if the project is one."""
    project = copy / original.inner
    project.mkdir(parents=True)
    (copy / "home").mkdir(exist_ok=True)
    for path in original.files:
        _copy_file(path, original.place_in(copy, path))
    (copy / "home" / ".gitconfig").write_text(_SETTINGS)
    if original.is_repository and shutil.which("git"):
        branch = gitstate.current_branch(original.project)
        for words in (f"init -q -b {branch or 'main'}", "add -A", "commit -q --allow-empty --no-verify -m copy"):
            _git(project, copy / "home", words)
        if not branch:
            _git(project, copy / "home", "checkout -q --detach")


def _copy_file(path: str, target: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode) and os.path.isabs(os.readlink(path)):
            return  # it would lead out of the copy
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target, follow_symlinks=False)
    except OSError as error:
        hint = "check its permissions"
        raise UsageError(
            f"it can't be copied: {(error.strerror or str(error)).lower()}", place=path, hint=hint
        ) from None


def _git(project: Path, home: Path, words: str) -> None:
    env = {**environment(home), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *words.split(" ")], cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip()
        raise UsageError(f"can't make a scratch repository: {why}", hint="check that git works here")


def environment(home: Path) -> dict[str, str]:
    """This process's variables, without those that lead to the user's files, a repository or an agent."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_REMOVED) and name not in _MARKS}
    return {**kept, "HOME": str(home)}


Mark = tuple[int, ...]


class Scratch:
    """The copy of one worker."""

    def __init__(self, original: Original, source: Path, folder: Path) -> None:
        self.original, self.source, self.folder = original, source, folder
        self.home, self.project = folder / "home", folder / original.inner
        self.state = folder.with_name(f"{folder.name}-state")
        shutil.copytree(source, folder, symlinks=True)
        self._marks = dict(_marks(folder))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This process works with the home folder and state of the copy."""
        before = dict(os.environ)
        inside = environment(self.home) | {"BILLHOOK_HOME": str(self.state)}
        os.environ.clear()
        os.environ.update(inside)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def moved(self, text: str) -> str:
        """Replace paths of the project by those of the copy."""
        return text.replace(self.original.project, str(self.project)) if self.original.project else text

    def shown(self, text: str) -> str:
        """Replace paths of the copy by the real ones."""
        text = text.replace(str(self.project), self.original.project or "~/project")
        return text.replace(str(self.home), self.original.home)

    def write(self, files: Mapping[str, str]) -> None:
        """Write the files of a case. Raises UsageError for one that would be outside, or that an approval covers."""
        for name, text in files.items():
            path, real = self.project / name, os.path.join(self.original.project, name)
            inside = os.path.realpath(path.parent).startswith(os.path.realpath(self.project))
            of_git = os.path.normpath(name).startswith(_CODE_OF_GIT)
            if not inside or real in self.original.covered or of_git:
                why = "that an approved hook runs" if real in self.original.covered else "outside of the project"
                why = "from which git runs programs" if of_git else why
                raise UsageError(f"a test can't write `{name}`, a file {why}", hint="use another name")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_text(text, encoding="utf-8")

    def forget(self) -> None:
        """Remove the state: the next case begins with new sessions."""
        for above, _, files in os.walk(self.state):  # empty folders stay: to remove them takes much longer
            for name in files:
                os.unlink(os.path.join(above, name))

    def restore(self) -> None:
        """Undo every change of the copy."""
        now = dict(_marks(self.folder))
        for path in sorted(now.keys() - self._marks.keys(), reverse=True):
            _remove(path)
        changed = [path for path, mark in self._marks.items() if now.get(path) != mark]
        for path in changed:
            self._renew(path)
        self._marks |= _marks_of(changed)

    def _renew(self, path: str) -> None:
        source = self.source / os.path.relpath(path, self.folder)
        if source.is_dir() and not source.is_symlink():
            if os.path.islink(path) or not os.path.isdir(path):
                _remove(path)
                os.mkdir(path)
            return
        _remove(path)
        shutil.copy2(source, path, follow_symlinks=False)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


def _marks(folder: Path) -> Iterator[tuple[str, Mark]]:
    """Every file and folder below a folder, folders first, each with what changes when it does."""
    for above, folders, files in os.walk(folder):
        paths = [os.path.join(above, name) for name in (*folders, *files)]
        yield from _marks_of(paths).items()


def _marks_of(paths: Iterable[str]) -> dict[str, Mark]:
    found = {path: os.lstat(path) for path in paths if os.path.lexists(path)}
    return {
        path: (one.st_mode,) if stat.S_ISDIR(one.st_mode) else (one.st_mode, *sources.IDENTITY(one))
        for path, one in found.items()
    }
