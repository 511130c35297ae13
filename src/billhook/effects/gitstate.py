"""What would be lost: uncommitted work and stashes of a repository. Nothing that it configures runs.

Files are compared with the index here, because git would run the repository's filters for that. git itself only
compares the index with the current commit, and lists untracked files. What isn't known in time is uncertain.
"""

import fnmatch
import functools
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from billhook.core import client_env
from billhook.effects.gitindex import BROKEN, Index, UnreadableError, digest, read_file
from billhook.effects.places import has_pattern, inside, upwards

_GENERATED = """
build dist node_modules target .venv venv __pycache__ .pytest_cache .mypy_cache .ruff_cache .tox coverage .next .nuxt
.cache .gradle .terraform
"""
GENERATED: Final = frozenset(_GENERATED.split())
MOST_NAMES: Final = 50
_MILLISECONDS: Final = 20.0
_GIT_SECONDS: Final = 0.2
_SETTLED_NS: Final = 2_000_000_000  # git may still be writing a worktree that is newer
_SETTINGS: Final = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_ENVIRONMENT: Final = {
    "GIT_ALLOW_PROTOCOL": "none",  # no missing object is fetched: older versions ignore GIT_NO_LAZY_FETCH
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
_STAGED: Final = (
    "diff-index", "--cached", "--name-only", "-z", "--diff-filter=u", "--no-renames", "--no-ext-diff",
    "--ita-invisible-in-index", "--ignore-submodules=all",
)  # fmt: skip
_UNTRACKED: Final = ("ls-files", "--others", "-z", *(f"--exclude={name}/" for name in sorted(GENERATED)))
_COLLAPSED: Final = (*_UNTRACKED, "--directory", "--no-empty-directory")  # an untracked folder counts as one


class Work(msgspec.Struct):
    """What a repository has that no commit has. Names are relative to its root, at most MOST_NAMES of each kind."""

    modified: list[str]  # or deleted, against the index
    staged: list[str]  # against the current commit
    untracked: list[str]
    certain: bool = True
    why: str = ""

    def doubt(self, error: BaseException) -> None:
        why = str(error) if isinstance(error, UnreadableError) else "the repository can't be read"
        self.certain, self.why = False, self.why or why


def run_git(root: str, *words: str, seconds: float = _GIT_SECONDS) -> str:
    """The output of a git command that only reads objects, the index and names: no hook, monitor or fetch runs."""
    import subprocess  # only where git is needed

    kept = {key: value for key, value in client_env.environ().items() if not key.startswith("GIT_")}
    command = [_program(root), "--no-pager", *_SETTINGS, "-C", root, *words]
    try:
        done = subprocess.run(
            command, env=kept | _ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=True
        )
    except subprocess.TimeoutExpired:
        raise UnreadableError("git did not answer in time") from None
    except subprocess.SubprocessError:
        raise UnreadableError("git can't read the repository") from None
    return os.fsdecode(done.stdout)


def _program(root: str) -> str:
    """git as PATH finds it, but none that the repository brings along."""
    for folder in (*client_env.environ().get("PATH", "").split(":"), "/usr/bin", "/usr/local/bin"):
        path = os.path.join(folder, "git")
        is_own = inside(os.path.realpath(path), [os.path.realpath(root)])
        if folder.startswith("/") and not is_own and os.access(path, os.X_OK):
            return path
    raise UnreadableError("git is not installed")


def repository(path: str) -> tuple[str, str] | None:
    """The worktree that a path is in, and its git folder, which is elsewhere for linked worktrees and submodules."""
    found = ((at, _gitdir(at)) for at in upwards(os.path.abspath(path)))
    return next((each for each in found if each[1]), None)


def _gitdir(folder: str) -> str:
    place = os.path.join(folder, ".git")
    if not os.path.isdir(place):
        kind, _, target = _line(place).partition(": ")
        place = os.path.normpath(os.path.join(folder, target)) if kind == "gitdir" and target else ""
    return place if place and os.path.isfile(os.path.join(place, "HEAD")) else ""


def _line(path: str) -> str:
    """The content of a file of one line; "" where it can't be read."""
    try:
        return os.fsdecode((read_file(path, 4096) or b"").strip())
    except BROKEN:
        return ""


class Repository:
    """The settings and refs of a repository; made for one question."""

    def __init__(self, gitdir: str) -> None:
        self.gitdir = gitdir
        self.common = os.path.normpath(os.path.join(gitdir, _line(os.path.join(gitdir, "commondir"))))
        self.settings = _settings(read_file(os.path.join(self.common, "config"), 1 << 20) or b"")
        self.algorithm = "sha256" if self.settings.get("extensions.objectformat") == "sha256" else "sha1"

    def symbolic(self, name: str) -> str:
        """The ref that a symbolic ref names, "" where it names a commit."""
        text = _line(os.path.join(self.gitdir, name)) or _line(os.path.join(self.common, name))
        return text[5:].strip() if text.startswith("ref: ") else ""

    def has_ref(self, name: str) -> bool:
        """Whether a ref exists. True where only git can tell."""
        if "extensions.refstorage" in self.settings:
            return True
        packed = read_file(os.path.join(self.common, "packed-refs")) or b""
        loose = (os.path.lexists(os.path.join(folder, name)) for folder in (self.gitdir, self.common))
        return any(loose) or os.fsencode(f" {name}\n") in packed

    def head(self) -> str:
        """The current commit; before the first one, the tree without files, which git knows in every repository."""
        branch = self.symbolic("HEAD")
        return digest(self.algorithm, b"tree 0\0").hex() if branch and not self.has_ref(branch) else "HEAD"


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


def _opened(root: str) -> Repository:
    found = repository(root)
    if found is None or os.path.realpath(found[0]) != os.path.realpath(root):
        raise UnreadableError("no git repository")
    return Repository(found[1])


class _Look:
    """One look at a worktree, limited to those names in it, or at the whole of it."""

    def __init__(self, root: str, names: list[str], end: float, work: Work) -> None:
        self.root, self.names, self.end, self.work, self.repo = root, names, end, work, _opened(root)

    def fill(self, names: list[str], find: Callable[[], Iterator[str]]) -> None:
        try:
            for name in itertools.islice(find(), MOST_NAMES):
                names.append(name)  # one by one: those before an error count
        except BROKEN as error:
            self.work.doubt(error)

    def modified(self) -> Iterator[str]:
        index = Index(self.root, os.path.join(self.repo.gitdir, "index"), self.repo.algorithm, self.end)
        return index.modified(self._is_wanted, modes=self.repo.settings.get("core.filemode") != "false")

    def _is_wanted(self, name: str) -> bool:
        return not self.names or any(
            inside(name, [each]) or (has_pattern(each) and fnmatch.fnmatchcase(name, each)) for each in self.names
        )

    def staged(self) -> Iterator[str]:
        return self._git(*_STAGED, self.repo.head())

    def untracked(self, ignored: bool, only_ignored: bool = False) -> Iterator[str]:
        """Files that git doesn't know; a repository inside counts as one. What is generated is left out."""
        if only_ignored:
            others = set(self.untracked(ignored=False))
            return (name for name in self.untracked(ignored=True) if name not in others)
        try:
            return self._git(*_UNTRACKED) if ignored else self._git(*_UNTRACKED, "--exclude-standard")
        except UnreadableError as error:  # too many files, or rules that take too long: rather too much than too little
            self.work.doubt(error)
            return self._git(*_COLLAPSED)

    def _git(self, *words: str) -> Iterator[str]:
        """The names that git lists. Its folders are named: a setting could lead it elsewhere."""
        places = (f"--git-dir={self.repo.gitdir}", f"--work-tree={self.root}")
        seconds = max(_GIT_SECONDS, self.end - time.monotonic())
        listed = run_git(self.root, *places, *words, "--", *(f"./{name}" for name in self.names), seconds=seconds)
        return filter(None, listed.split("\0"))


def _relative(root: str, paths: Sequence[str]) -> list[str]:
    """The paths in the worktree as names, "" for its root."""
    bases = (root, os.path.realpath(root))
    return [path[len(base) :].strip("/") for path in paths for base in bases if inside(path, [base])]


def uncommitted(
    root: str,
    paths: Sequence[str] = (),
    *,
    untracked: bool = False,
    ignored: bool = False,
    only_ignored: bool = False,
    deadline_ms: float = _MILLISECONDS,
) -> Work:
    """The work below some paths (files, folders, patterns; none: the whole worktree) that no commit has.

    `ignored` adds what git ignores to the untracked files, but never what is generated; `only_ignored` leaves it alone.
    """
    work, end = Work([], [], []), time.monotonic() + deadline_ms / 1000
    names = _relative(root, paths)
    if paths and not names:
        return work
    try:
        look = _Look(root, [] if "" in names else names, end, work)
    except BROKEN as error:
        work.doubt(error)
        return work
    look.fill(work.modified, look.modified)
    look.fill(work.staged, look.staged)
    if untracked:
        look.fill(work.untracked, lambda: look.untracked(ignored, only_ignored))
    return work


def current_branch(root: str) -> str:
    """The branch that is checked out; "" if there is none, or it is unknown."""
    try:
        name = _opened(root).symbolic("HEAD")
    except BROKEN:
        return ""
    return name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else ""


def default_branches(root: str) -> set[str]:
    """The branches that other people work on: the usual names, and the default branches of the remotes."""
    found = {"main", "master"}
    try:
        repo = _opened(root)
        found.add(repo.symbolic("refs/remotes/origin/HEAD").removeprefix("refs/remotes/origin/"))
        found.add(repo.settings.get("init.defaultbranch", ""))
    except BROKEN:
        pass  # the usual names remain
    return found - {""}


def has_commit(root: str) -> bool:
    """Whether there is a first commit. True if that is unknown."""
    try:
        return _opened(root).head() == "HEAD"
    except BROKEN:
        return True


def has_stash(root: str) -> bool:
    """Whether something is stashed. True if that is unknown: a stash is easily lost."""
    try:
        return _opened(root).has_ref("refs/stash")
    except BROKEN:
        return repository(root) is not None


def submodules(root: str) -> list[str]:
    """The folders of the submodules, as `.gitmodules` names them."""
    try:
        lines = os.fsdecode(read_file(os.path.join(root, ".gitmodules"), 1 << 20) or b"").splitlines()
    except BROKEN:
        return []
    settings = (line.partition("=") for line in lines)
    found = [value.strip() for name, _, value in settings if name.strip() == "path"]
    return [name for name in found[:MOST_NAMES] if repository(os.path.join(root, name)) != repository(root)]


def worktrees(gitdir: str) -> list[str]:
    """The linked worktrees of a repository. One that doesn't point back doesn't count: any folder may be claimed."""
    common = _line(os.path.join(gitdir, "commondir"))
    place = os.path.normpath(os.path.join(gitdir, common, "worktrees"))
    try:
        state = os.stat(place)
        is_new = time.time_ns() - state.st_mtime_ns < _SETTLED_NS
        look = _worktrees.__wrapped__ if is_new else _worktrees
        found = look(place, state.st_ino, state.st_mtime_ns, state.st_ctime_ns)
    except BROKEN:
        return []
    return [root for root in found if os.path.lexists(f"{root}/.git")]


@functools.lru_cache(maxsize=64)
def _worktrees(place: str, *state: int) -> tuple[str, ...]:
    """The same as long as no worktree is added or removed: their number may be large, and every call needs them."""
    with os.scandir(place) as entries:
        folders = [entry.path for entry, _ in zip(entries, range(MOST_NAMES), strict=False)]
    return tuple(sorted(filter(None, map(_worktree, folders))))


def _worktree(folder: str) -> str:
    link = _line(os.path.join(folder, "gitdir"))
    root = os.path.dirname(os.path.normpath(os.path.join(folder, link)))
    found = repository(root) if link else None
    return root if found and found[0] == root and os.path.realpath(found[1]) == os.path.realpath(folder) else ""
