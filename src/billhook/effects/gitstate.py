"""What would be lost: uncommitted work and stashes of a repository. Nothing that it configures runs.

Files are compared with the index here, because git would run the repository's filters for that. git itself only
compares the index with the current commit, and lists untracked files. What isn't known in time is uncertain.
"""

import fnmatch
import functools
import itertools
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from billhook.core import client_env
from billhook.effects.effect import UNKNOWN
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
_KEEP: Final = ("refs/heads/", "refs/remotes/", "refs/tags/")
_UNTRACKED: Final = ("ls-files", "--others", "-z", *(f"--exclude={name}/" for name in sorted(GENERATED)))
_COLLAPSED: Final = (*_UNTRACKED, "--directory", "--no-empty-directory")  # an untracked folder counts as one


class Work(msgspec.Struct):
    """What a repository has that no commit has. Names are relative to its root, at most MOST_NAMES of each kind."""

    modified: list[str]  # or deleted, against the index
    staged: list[str]  # against the current commit
    untracked: list[str]
    certain: bool = True
    why: str = ""

    def below(self, names: Sequence[str]) -> "Work":
        """The part of it in some files, folders or patterns."""
        modified, staged, untracked = (
            [each for each in kind if has_effect(each, names)] for kind in (self.modified, self.staged, self.untracked)
        )
        more = max(map(len, (self.modified, self.staged, self.untracked))) >= MOST_NAMES
        why = self.why or ("there are too many changes" if more else "")
        return Work(modified, staged, untracked, self.certain and not more, why)

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


def has_effect(name: str, names: Sequence[str]) -> bool:
    """Whether a name is one of these files, in one of these folders, or matches one of these patterns."""
    return any(inside(name, [each]) or (has_pattern(each) and fnmatch.fnmatchcase(name, each)) for each in names)


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
        return not self.names or has_effect(name, self.names)

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


def relative(root: str, paths: Sequence[str]) -> list[str]:
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
    names = relative(root, paths)
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


def is_kept(root: str, branch: str) -> bool:
    """Whether other branches or tags have all commits of a branch; also where there is no such branch."""
    ref = f"refs/heads/{branch}"
    if UNKNOWN in branch or has_pattern(branch):
        return False
    try:
        if not run_git(root, "for-each-ref", "--format=x", ref):
            return True
        found = run_git(root, "for-each-ref", "--count=2", "--format=%(refname)", "--contains", ref, *_KEEP)
    except UnreadableError:
        return False
    return found.split() != [ref]


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


# the index, and the files of a worktree against it


_LARGEST: Final = 32 << 20
_LARGEST_COMPARED: Final = 8 << 20
_LONGEST_PATH: Final = 4096
_OPENING: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # a pipe in the place of a file can't stall
_ASSUMED, _EXTENDED, _STAGE = 0x8000, 0x4000, 0x3000
_SKIPPED, _INTENDED = 0x4000, 0x2000  # of the second flags: skip-worktree, `git add -N`
_LINK, _SUBMODULE, _FOLDER = 0o120000, 0o160000, 0o040000
_KIND, _EXECUTABLE = 0o170000, 0o100


class UnreadableError(Exception):
    """The repository can't be read, or not in time."""


BROKEN: Final = (UnreadableError, OSError, ValueError, IndexError, struct.error, OverflowError, MemoryError)


def check_time(end: float) -> None:
    """Raises after a moment of `time.monotonic`."""
    if time.monotonic() > end:
        raise UnreadableError("the repository is too large to read in time")


def read_file(path: str, limit: int = _LARGEST, flags: int = 0) -> bytes | None:
    """The content of a regular file; None if there is none."""
    try:
        descriptor = os.open(path, _OPENING | flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableError(f"{path} is not a regular file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise UnreadableError(f"{path} is too large")
    return data


def digest(algorithm: str, data: bytes) -> bytes:
    import hashlib  # a cryptographic library: only where files are compared

    return hashlib.new(algorithm, data, usedforsecurity=False).digest()


class IndexEntry(NamedTuple):
    """One file of the index, as git saw it last."""

    name: str
    seen: tuple[int, ...]  # ctime and mtime, each in seconds and nanoseconds, and the inode
    mode: int
    size: int
    oid: bytes
    flags: int
    more: int  # flags, if `_EXTENDED`


class Index:
    """The index of a worktree, of version 2 to 4. What is broken, or not read at `end`, raises one of `BROKEN`."""

    def __init__(self, root: str, path: str, algorithm: str, end: float) -> None:
        self.root, self.algorithm, self.end = root, algorithm, end
        self.data = read_file(path)
        self.written = os.stat(path).st_mtime_ns if self.data is not None else 0
        self.folders = {"": True}

    def modified(self, has_effect: Callable[[str], bool], *, modes: bool) -> Iterator[str]:
        """The files that are not as they were staged, or in conflict. `modes`: it matters which are executable."""
        last = ""  # a file with conflicts has up to three entries
        for entry in self._entries():
            more = entry.more if entry.flags & _EXTENDED else 0
            spared = entry.flags & _ASSUMED or more & _SKIPPED or entry.mode in (_SUBMODULE, _FOLDER)
            if spared or entry.name == last or not has_effect(entry.name):
                continue
            if entry.flags & _STAGE or more & _INTENDED or self._differs(entry, modes):
                last = entry.name
                yield last

    def _entries(self) -> Iterator[IndexEntry]:
        if self.data is None:
            return
        data, width, name = self.data, 32 if self.algorithm == "sha256" else 20, b""
        version, count, at = *self._header(data, width), 12
        fields = struct.Struct(f">4I4x2I8xI{width}sHH")  # not the device, the user and the group
        for number in range(count):
            if not number % 128:
                check_time(self.end)
            values = fields.unpack_from(data, at)
            start = at + fields.size - (0 if values[8] & _EXTENDED else 2)
            kept = b""
            if version == 4:
                dropped, start = _dropped(data, start)
                kept = name[: max(0, len(name) - dropped)]
            end = data.index(0, start)
            name = kept + data[start:end]
            if len(name) > _LONGEST_PATH:
                raise UnreadableError("the index is broken")
            yield IndexEntry(os.fsdecode(name), values[:5], *values[5:])
            at = end + 1 if version == 4 else at + ((end - at + 8) & ~7)
        _check_extensions(data, at, len(data) - width)

    def _header(self, data: bytes, width: int) -> tuple[int, int]:
        signature, version, count = struct.unpack_from(">4sII", data)
        end = max(0, len(data) - width)
        sums = (bytes(width), digest(self.algorithm, data[:end]))  # zeros: index.skipHash
        if signature != b"DIRC" or version not in (2, 3, 4) or data[end:] not in sums:
            raise UnreadableError("the index is broken, or of an unknown version")
        return version, count

    def _differs(self, entry: IndexEntry, modes: bool) -> bool:
        """Whether a file changed; its content is read only where times and numbers don't tell."""
        if not self._is_folder(entry.name.rpartition("/")[0]):
            return True
        try:
            now = os.lstat(f"{self.root}/{entry.name}")
        except OSError:
            return True
        if (now.st_mode ^ entry.mode) & (_KIND | _EXECUTABLE if modes and entry.mode != _LINK else _KIND):
            return True
        if entry.size and now.st_size & 0xFFFFFFFF != entry.size:
            return True
        return not self._is_untouched(entry, now) and not self._has_content(entry, now)

    def _is_folder(self, name: str) -> bool:
        """Whether a folder is one, and no link to another place."""
        if name not in self.folders:
            try:
                is_one = stat.S_ISDIR(os.lstat(os.path.join(self.root, name)).st_mode)
            except OSError:
                is_one = False
            self.folders[name] = is_one and self._is_folder(name.rpartition("/")[0])
        return self.folders[name]

    def _is_untouched(self, entry: IndexEntry, now: os.stat_result) -> bool:
        """Whether the file is the one that git saw, and not changed in the moment when the index was written."""
        times = (*divmod(now.st_ctime_ns, 10**9), *divmod(now.st_mtime_ns, 10**9))
        same = entry.seen == (*times, now.st_ino & 0xFFFFFFFF) and entry.size == now.st_size & 0xFFFFFFFF
        return same and now.st_mtime_ns < self.written

    def _has_content(self, entry: IndexEntry, now: os.stat_result) -> bool:
        """Whether the content is what was staged; not if it is too large to tell in time."""
        check_time(self.end)
        if now.st_size > _LARGEST_COMPARED:
            return False
        path = f"{self.root}/{entry.name}"
        data = os.fsencode(os.readlink(path)) if entry.mode == _LINK else read_file(path, flags=os.O_NOFOLLOW) or b""
        return digest(self.algorithm, b"blob %d\0" % len(data) + data) == entry.oid


def _dropped(data: bytes, at: int) -> tuple[int, int]:
    """How much of the name before it a name of version 4 drops, and where that number ends."""
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = ((value + 1) << 7) + (data[at] & 127)
    return value, at + 1


def _check_extensions(data: bytes, at: int, end: int) -> None:
    """Raises where the entries of another file count as well."""
    while at + 8 <= end:
        name, size = struct.unpack_from(">4sI", data, at)
        if name == b"link":
            raise UnreadableError("the index is split in two files")
        at += 8 + size
