"""What would be lost: uncommitted work, stashes and unpushed commits of a repository, by reading its files only.

No git process runs, and nothing that a repository configures: no hook, filter, monitor or pager. The index is compared
with the files and with the current commit as git does it. All is bounded by a time: what isn't known then is uncertain.
"""

import fnmatch
import hashlib
import itertools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from billhook.effects.gitignore import GENERATED, IgnoreRule, is_ignored, read_rules
from billhook.effects.gitindex import (
    ASSUMED,
    FOLDER,
    INTENDED,
    LINK,
    LONGEST_PATH,
    SKIPPED,
    STAGE,
    SUBMODULE,
    Index,
    IndexEntry,
)
from billhook.effects.gitobjects import (
    BROKEN,
    LARGEST_OBJECT,
    Clock,
    Repository,
    UnreadableError,
    read_file,
    repository,
)

__all__ = [
    "Work", "current_branch", "default_branches", "has_stash", "is_pushed", "repository", "restorable", "uncommitted",
    "worktrees",
]  # fmt: skip

MOST_NAMES: Final = 50
_MILLISECONDS: Final = 20.0
_MOST_COMMITS: Final = 64  # that `is_pushed` follows
_KIND, _EXECUTABLE = 0o170000, 0o100


class Work(msgspec.Struct):
    """What a repository has that no commit has. Names are relative to its root, at most MOST_NAMES of each kind."""

    modified: list[str]  # or deleted, against the index
    staged: list[str]  # against the current commit
    untracked: list[str]
    certain: bool = True
    why: str = ""

    def doubt(self, why: str) -> None:
        self.certain, self.why = False, self.why or why


class _Look:
    """One look at a worktree, limited to some paths of it."""

    def __init__(self, root: str, gitdir: str, paths: Sequence[str], clock: Clock) -> None:
        self.root, self.clock = root, clock
        self.repo = Repository(gitdir, clock)
        self.index = Index(os.path.join(gitdir, "index"), self.repo)
        self.names = [name for path in paths if (name := relative(root, path)) is not None]
        self.everything = not paths or "" in self.names
        self.compared = _KIND if self.repo.settings.get("core.filemode") == "false" else _KIND | _EXECUTABLE
        self._folders = {"": True}
        self.doubts: list[str] = []

    def wanted(self, name: str) -> bool:
        return self.everything or any(
            name == each or name.startswith(each + "/") or (_is_pattern(each) and fnmatch.fnmatchcase(name, each))
            for each in self.names
        )

    def modified(self) -> Iterator[str]:
        last = ""  # a file with conflicts has up to three entries
        for number, entry in enumerate(self.index.entries):
            if not number % 64:
                self.clock.check()
            spared = entry.flags & ASSUMED or entry.more & SKIPPED or entry.mode in (SUBMODULE, FOLDER)
            if not spared and entry.name != last and self.wanted(entry.name) and self._differs(entry):
                last = entry.name
                yield last

    def _differs(self, entry: IndexEntry) -> bool:
        """Whether a file is not as it was staged; its content is read only where times and numbers don't tell."""
        name, numbers, _, flags, more = entry
        if flags & STAGE or more & INTENDED or not self._is_folder(name.rpartition("/")[0]):
            return True
        try:
            now = os.lstat(f"{self.root}/{name}")
        except OSError:
            return True
        if (now.st_mode ^ numbers[6]) & (_KIND if numbers[6] == LINK else self.compared):
            return True
        if now.st_size & 0xFFFFFFFF != numbers[9] and numbers[9]:
            return True
        return not self._is_untouched(numbers, now) and not self._has_content(entry, now)

    def _is_folder(self, name: str) -> bool:
        """Whether a folder is one, and no link to another place."""
        if name not in self._folders:
            try:
                is_one = stat.S_ISDIR(os.lstat(os.path.join(self.root, name)).st_mode)
            except OSError:
                is_one = False
            self._folders[name] = is_one and self._is_folder(name.rpartition("/")[0])
        return self._folders[name]

    def _is_untouched(self, numbers: tuple[int, ...], now: os.stat_result) -> bool:
        """Whether the file is the one that git saw, and not changed in the moment when the index was written."""
        return (
            now.st_ctime_ns == numbers[0] * 10**9 + numbers[1]
            and now.st_mtime_ns == numbers[2] * 10**9 + numbers[3]
            and now.st_ino & 0xFFFFFFFF == numbers[5]
            and now.st_size & 0xFFFFFFFF == numbers[9]
            and now.st_mtime_ns < self.index.written
        )

    def _has_content(self, entry: IndexEntry, now: os.stat_result) -> bool:
        self.clock.check()
        path = os.path.join(self.root, entry.name)
        if entry.mode == LINK:
            data = os.fsencode(os.readlink(path))
        elif now.st_size > LARGEST_OBJECT:
            self.doubts.append(f"{entry.name} is too large to compare")
            return True
        else:
            data = read_file(path, LARGEST_OBJECT, os.O_NOFOLLOW) or b""
        blob = hashlib.new(self.repo.algorithm, b"blob %d\0" % len(data), usedforsecurity=False)
        blob.update(data)
        return blob.digest() == entry.oid

    def has_submodule(self) -> bool:
        """Whether there is one: what it holds is known to its own repository only."""
        return any(entry.mode == SUBMODULE and self.wanted(entry.name) for entry in self.index.entries)

    def staged(self) -> Iterator[str]:
        """The files of the index that are not those of the current commit; folders with the same tree are left out."""
        head = self.repo.head_tree()
        if head and self.index.trees.get("") == head:
            return
        files = {entry.name: entry for entry in self.index.entries if not entry.more & INTENDED}
        folders = [("", head)] if head else []
        seen, same = set(), set()
        while folders:
            folder, oid = folders.pop()
            if self.index.trees.get(folder) == oid:
                same.add(folder)
                continue
            for mode, name, item in self.repo.tree(oid):
                if mode == FOLDER:
                    folders.append((f"{folder}{name}/", item))
                    continue
                seen.add(folder + name)
                if mode != SUBMODULE and not _is_staged_as(files.get(folder + name), mode, item):
                    yield folder + name
        for name, entry in files.items():
            spared = name in seen or entry.flags & STAGE or entry.mode in (SUBMODULE, FOLDER)
            if not spared and same.isdisjoint(_above(name)):
                yield name

    def untracked(self, ignored: bool) -> Iterator[str]:
        """Files that git doesn't know; a repository inside counts as one. What is generated is left out."""
        tracked = {entry.name: entry.mode for entry in self.index.entries}
        rules = read_rules(os.path.join(self.repo.common, "info/exclude"), "")
        stack: list[tuple[str, list[IgnoreRule], bool]] = [("", rules, False)]
        while stack:
            folder, rules, inside = stack.pop()
            entries = self._entries_of(folder)
            if ".git" in entries and folder:
                yield folder
                continue
            if ".gitignore" in entries:
                rules = [*rules, *read_rules(entries[".gitignore"].path, folder)]
            for entry in entries.values():
                name, is_folder = folder + entry.name, entry.is_dir(follow_symlinks=False)
                known = name in tracked and not (is_folder and tracked[name] != SUBMODULE)
                if known or entry.name == ".git" or not self._leads_to(name):
                    continue
                spared = inside or is_ignored(rules, name, is_folder)
                if (spared and not ignored) or (is_folder and entry.name in GENERATED):
                    continue
                if is_folder:
                    stack.append((name + "/", rules, spared))
                elif self.wanted(name) and (entry.is_symlink() or entry.is_file()):
                    yield name

    def _entries_of(self, folder: str) -> dict[str, os.DirEntry[str]]:
        found: dict[str, os.DirEntry[str]] = {}
        with os.scandir(os.path.join(self.root, folder)) as entries:
            for number, entry in enumerate(entries):
                if not number % 64:
                    self.clock.check()
                found[entry.name] = entry
        return found

    def _leads_to(self, name: str) -> bool:
        """Whether a name is wanted, or the folder of something wanted."""
        return self.wanted(name) or any(each.startswith(name + "/") or _is_pattern(each) for each in self.names)


def _is_staged_as(entry: IndexEntry | None, mode: int, oid: bytes) -> bool:
    if entry is None:
        return False
    return bool(entry.flags & STAGE) or (entry.oid == oid and not (entry.mode ^ mode) & (_KIND | _EXECUTABLE))


def _above(name: str) -> Iterator[str]:
    """The folders of a name, as `""` and `src/`."""
    yield ""
    yield from (name[: place + 1] for place, letter in enumerate(name) if letter == "/")


def _is_pattern(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def relative(root: str, path: str) -> str | None:
    """A path as a name in the worktree, "" for its root; None where it is elsewhere."""
    for base in (root, os.path.realpath(root)):
        if path == base or path.startswith(base.rstrip("/") + "/"):
            return path[len(base) :].strip("/")
    return None


def uncommitted(
    root: str,
    paths: Sequence[str] = (),
    *,
    untracked: bool = False,
    ignored: bool = False,
    deadline_ms: float = _MILLISECONDS,
) -> Work:
    """The work below some paths (files, folders, patterns; none: the whole worktree) that no commit has.

    `ignored` adds what git ignores to the untracked files, but never what is generated.
    """
    work = Work([], [], [])
    try:
        look = _Look(root, _gitdir_of(root), paths, Clock(deadline_ms))
    except BROKEN as error:
        work.doubt(_reason(error))
        return work
    _fill(work, work.modified, look.modified)
    _fill(work, work.staged, lambda: filter(look.wanted, look.staged()))
    if untracked:
        _fill(work, work.untracked, lambda: look.untracked(ignored))
    for doubt in look.doubts:
        work.doubt(doubt)
    return work


def _fill(work: Work, names: list[str], find: Callable[[], Iterator[str]]) -> None:
    try:
        for name in itertools.islice(find(), MOST_NAMES):
            names.append(name)  # one by one: those before an error count
    except BROKEN as error:
        work.doubt(_reason(error))


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, UnreadableError) else "the repository can't be read"


def _gitdir_of(root: str) -> str:
    found = repository(root)
    if found is None or os.path.realpath(found[0]) != os.path.realpath(root):
        raise UnreadableError("no git repository")
    return found[1]


def restorable(root: str, path: str, *, deadline_ms: float = _MILLISECONDS) -> bool | None:
    """Whether all below a path is tracked and unmodified, or ignored or generated; None where that isn't known.

    Then a delete of it loses nothing that git or a build can't bring back. The root, with `.git` in it, never is.
    """
    name = relative(root, path)
    if not name or ".git" in name.split("/"):
        return False
    if not os.path.lexists(path):
        return True
    try:
        look = _Look(root, _gitdir_of(root), [path], Clock(deadline_ms))
        changed = (each for each in look.modified() if os.path.lexists(os.path.join(root, each)))
        if next(changed, None) or next(look.untracked(ignored=False), None):
            return False
        return None if look.doubts or look.has_submodule() else True
    except BROKEN:
        return None


def _opened(root: str) -> Repository:
    return Repository(_gitdir_of(root), Clock(_MILLISECONDS))


def current_branch(root: str) -> str:
    """The branch that is checked out; "" where it is none, or not known."""
    try:
        name = _opened(root).symbolic("HEAD")
    except BROKEN:
        return ""
    return name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else ""


def default_branches(root: str) -> set[str]:
    """The branches that others work on: the usual names, and those that the repository says."""
    found = {"main", "master"}
    try:
        repo = _opened(root)
        found.add(repo.symbolic("refs/remotes/origin/HEAD").removeprefix("refs/remotes/origin/"))
        found.add(repo.settings.get("init.defaultbranch", ""))
    except BROKEN:
        pass  # the usual names remain
    return found - {""}


def has_stash(root: str) -> bool:
    """Whether something is stashed. True where that can't be told: a stash is easily lost."""
    try:
        return bool(_opened(root).commit_of("refs/stash"))
    except UnreadableError as error:
        return str(error) != "no git repository"
    except BROKEN:
        return True


def is_pushed(root: str, ref: str = "HEAD") -> bool | None:
    """Whether a remote branch is at the commit of a ref; False if some remote branch is behind it; None: unknown."""
    try:
        repo = _opened(root)
        names = (ref, f"refs/heads/{ref}", f"refs/tags/{ref}")
        commit = next((found for name in names if (found := repo.commit_of(name))), "")
        remote = repo.remote_commits() if commit else set()
        if not commit or not remote:
            return False
        return True if commit in remote else _is_ahead(repo, commit, remote)
    except BROKEN:
        return None


def _is_ahead(repo: Repository, commit: str, remote: set[str]) -> bool | None:
    seen, waiting = {commit}, [commit]
    while waiting and len(seen) < _MOST_COMMITS:
        parents = [parent for parent in repo.parents(waiting.pop(0)) if parent not in seen]
        if not remote.isdisjoint(parents):
            return False
        seen.update(parents)
        waiting += parents
    return None


def worktrees(gitdir: str) -> list[str]:
    """The linked worktrees of a repository. One that doesn't point back doesn't count: any folder may be claimed."""
    try:
        common = Repository(gitdir, Clock(_MILLISECONDS)).common
        with os.scandir(os.path.join(common, "worktrees")) as entries:
            folders = [entry.path for entry, _ in zip(entries, range(MOST_NAMES), strict=False)]
        return sorted(filter(None, map(_worktree, folders)))
    except BROKEN:
        return []


def _worktree(folder: str) -> str:
    try:
        link = os.fsdecode((read_file(os.path.join(folder, "gitdir"), LONGEST_PATH) or b"").strip())
    except BROKEN:
        return ""
    root = os.path.dirname(os.path.normpath(os.path.join(folder, link)))
    found = repository(root) if link else None
    return root if found and found[0] == root and os.path.realpath(found[1]) == os.path.realpath(folder) else ""
