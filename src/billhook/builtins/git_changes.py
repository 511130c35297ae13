"""Which protected files a git command would really change: commits are compared with each other and with the disk.

Only objects are read (`ls-tree`, `merge-base`): no hooks, filters, pagers, monitors or fetches run, and the index is
left alone. Where git gives no answer in time, the file counts as changed.
"""

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from billhook.builtins.protected_files import Hit, ProtectedFiles, Touch
from billhook.effects import gitstate
from billhook.effects.effect import UNKNOWN, Command
from billhook.effects.families.git import general
from billhook.effects.gitstate import BROKEN, UnreadableError, digest, read_file
from billhook.effects.places import World, absolute, has_pattern, inside, repository_above
from billhook.effects.programs import Options
from billhook.effects.table import word_set

_SECONDS: Final = 2.0
_MOST_FILES: Final = 2_000
_MOST_SPECS: Final = 200  # more of them count as the whole work tree
_APPROVED_ONLY: Final = frozenset({"switch", "merge", "pull", "pick", "remove"})
"""Ways to bring other commits into the work tree; changed files lose their approval anyway."""
_UNTRACKS = re.compile(r" (?:rm|reset|update-index|read-tree) ")
_MOVES = re.compile(r" (?:update-ref|symbolic-ref) | (?:branch|tag) .*(?:-f|-M|--force|-B)\b")
_OTHER_REPOSITORY = re.compile(r"--(?:git-dir|work-tree)|GIT_[A-Z_]*(?:DIR|TREE|FILE|DIRECTORY)[A-Z_]*=")
_VALUED: Final = word_set(
    "-b -B -c -C --create --force-create --orphan -s --source -m --message --conflict -e --exclude -x --exec -X --onto"
    " --strategy --strategy-option --mainline"
)
_MAGIC = re.compile(r":\([^)]*\)|:[!^/]*")
_CHANGES_TREES = re.compile(r"--(?:tree|index|commit|subdirectory|parent)-filter")
_PAUSED: Final = ("--abort", "--continue", "--quit", "--skip", "--edit-todo", "--show-current-patch")
_PLACES: Final = {"clone": 1, "worktree": 1, "submodule": 2}  # verbs that fill a folder: where it is named
Tree = dict[str, str]


class _Change(msgspec.Struct, frozen=True):
    """How a command changes the work tree. An empty kind: any file in it."""

    kind: str = ""
    commit: str = "HEAD"
    specs: tuple[str, ...] = (":/",)


def git_hits(guarded: ProtectedFiles, command: Command, world: World, approved: Sequence[str]) -> Iterator[Hit]:
    """The protected files that a git command changes or removes."""
    _, folder, rest = general(command)
    at = absolute(folder, command.cwd, world) if folder else command.cwd
    other = _OTHER_REPOSITORY.search(guarded.text) is not None  # its files are put into this folder
    for place in dict.fromkeys((at, command.cwd) if other else (at,)):
        root = world.fs.real(repository_above(place) or place) if UNKNOWN not in place else ""
        for change in _changes(rest) if rest else ():
            specs = change.specs if len(change.specs) <= _MOST_SPECS else (":/",)
            touches = [_touch(spec, place, root, world) for spec in dict.fromkeys(specs)]
            yield from _hits(guarded, change, root, touches, approved)


def _touch(spec: str, folder: str, root: str, world: World) -> Touch:
    """A path as git reads it: `:/x` from the top, `*` across folders; a folder includes everything below it."""
    magic = _MAGIC.match(spec)
    bare = spec[magic.end() :] if magic else spec
    path = absolute(bare.lstrip("/") or ".", root, world) if magic else absolute(bare, folder, world)
    return Touch(path, below=True, loose=has_pattern(bare))


def _hits(
    guarded: ProtectedFiles, change: _Change, root: str, touches: list[Touch], approved: Sequence[str]
) -> Iterator[Hit]:
    """Other branches are ordinary work: there only approved files count."""
    kind, commit = change.kind, change.commit
    if kind in _APPROVED_ONLY:
        there = [os.path.realpath(path) for path in approved if os.path.lexists(path)]
        hits = [Hit(path) for path in dict.fromkeys(there) if root and path.startswith(root + "/")]
        made = re.search(rf"\bgit branch {re.escape(commit)}\s*(?:&&|;|$)", guarded.text)
        if made or (commit and os.path.lexists(posixpath.join(guarded.cwd, commit))):
            return
    else:
        hits = [hit for touch in touches for hit in guarded.by_touch(touch)]
    if hits and kind not in ("", "remove") and not _is_prepared(guarded.text, kind):
        inside = {real: hit for hit in hits if root and (real := os.path.realpath(hit.path)).startswith(root + "/")}
        if not guarded.compares:
            yield from (msgspec.structs.replace(hit, compared=True) for hit in hits)
            return
        kept = set(changed(root, kind, commit, list(inside))) if inside else set()
        hits = [hit for hit in hits if (real := os.path.realpath(hit.path)) not in inside or real in kept]
    yield from hits


def _is_prepared(text: str, kind: str) -> bool:
    """Whether the line itself changes git's data, or uses another repository: then git can't be queried."""
    prepares = _UNTRACKS if kind in ("clean", "untracked") else _MOVES
    return _OTHER_REPOSITORY.search(text) is not None or any(map(prepares.search, re.split(r"&&|\|\||[;|\n]", text)))


# What a command does, by its words


def _changes(words: Sequence[str]) -> list[_Change]:
    verb, rest = words[0], list(words[1:])
    said = Options(rest, _VALUED)
    operands = [word for word in said.operands if word]
    if said.has("--pathspec-from-file") and verb in ("checkout", "restore", "rm"):
        return [_Change("" if verb == "rm" else "reset")]
    if verb in ("checkout", "switch"):
        return _checkout(verb, rest, said, operands)
    if verb == "restore":
        index_only = said.has("-S", "--staged") and not said.has("-W", "--worktree")
        commit = (said.values("-s", "--source") or ["HEAD"])[-1]
        return [] if index_only or not operands else [_Change("reset", commit, tuple(operands))]
    if verb in ("rm", "mv"):
        spared = said.has("--cached", "-n", "--dry-run")
        into = [f"{operands[-1]}/{posixpath.basename(each)}" for each in operands[:-1]] if verb == "mv" else []
        return [] if spared else [_Change(specs=(*operands, *into))]
    if verb == "clean":
        removes = said.has("-f", "--force", "-i", "--interactive") and not said.has("-n", "--dry-run")
        return [_Change("clean", specs=tuple(operands) or (".",))] if removes else []
    if verb == "stash":
        return _stash(rest, said, operands)
    if verb in _PLACES and (verb == "clone" or operands[:1] == ["add"]):
        return [_Change(specs=(word,)) for word in operands[_PLACES[verb] :][:1]]
    if verb == "reset" and said.has("--hard", "--merge", "--keep"):
        return [_Change("reset", (operands or ["HEAD"])[0])]
    if verb in ("checkout-index", "read-tree") and said.has("-f", "-u", "-a", "--force", "--all"):
        return [_Change()]
    return _other_commits(verb, said, operands)


def _checkout(verb: str, rest: list[str], said: Options, operands: list[str]) -> list[_Change]:
    """`git checkout x`: another commit, or a file; `git checkout x -- y`: files of another commit."""
    before = rest[: rest.index("--")] if "--" in rest else rest
    commits = Options(before, _VALUED).operands
    target = (["@{-1}"] if commits[:1] == ["-"] else commits or ["HEAD"])[0]
    if verb == "checkout" and operands[len(commits) :]:
        return [_Change("reset", target, tuple(operands[len(commits) :]))]
    if said.has("-f", "--force", "--discard-changes"):
        return [_Change("reset", target)]
    if verb == "switch" and said.has("--orphan"):
        return [_Change("remove")]
    switch = [_Change("switch", target)] if commits else []
    if verb == "switch" or said.has("-b", "-B", "--orphan", "--detach"):
        return switch
    files = [_Change("reset", "HEAD", tuple(operands))] if operands else []
    if operands[1:]:
        return [*files, _Change("reset", target, tuple(operands[1:]))]
    return files + switch


def _stash(rest: list[str], said: Options, operands: list[str]) -> list[_Change]:
    verb, named = (operands[0], operands[1:]) if operands else ("push", [])
    if verb in ("pop", "apply", "branch", "store"):
        which = named[1:2] if verb == "branch" else named[-1:]
        stash = which[0] if which else "0"
        return [_Change("pick", f"stash@{{{stash}}}" if stash.isdecimal() else stash)]
    if verb not in ("push", "save", "create") and not rest[0].startswith("-"):
        return []
    kind = "untracked" if said.has("-u", "-a", "--include-untracked", "--all") else "reset"
    return [_Change(kind, specs=tuple(named) if verb == "push" and named else (":/",))]


def _other_commits(verb: str, said: Options, operands: list[str]) -> list[_Change]:
    """The verbs that bring other commits into the work tree."""
    if said.has(*_PAUSED):
        return []
    if verb == "merge" or (verb == "rebase" and operands):
        commits = said.values("--onto") or (operands if verb == "merge" else operands[:1])
        return [_Change("merge", commit) for commit in commits]
    if verb == "pull" and operands and operands[0][0] in "./~":  # from a folder: its commits are not known here
        return [_Change("merge", "".join(operands[1:2]) or UNKNOWN if operands[0] == "." else UNKNOWN)]
    if verb in ("pull", "rebase"):
        return [_Change("pull", "/".join(operands[:2]) if operands[1:] else "@{upstream}")]
    if verb in ("cherry-pick", "revert"):
        return [_Change("pick", commit) for commit in operands]
    sparse = verb == "sparse-checkout" and operands[:1] in (["set"], ["init"], ["reapply"])
    rewrites = verb == "filter-repo" or (verb == "filter-branch" and any(map(_CHANGES_TREES.match, said.names)))
    return [_Change("remove", "")] if sparse or rewrites else []


# What really differs


def changed(root: str, kind: str, commit: str, paths: Sequence[str]) -> list[str]:
    """The files and folders below `root` that the command changes or removes; all if that is unknown."""
    names = {os.path.relpath(path, root): path for path in paths}
    try:
        difference = _Difference(root, kind, commit, list(names))
        return [path for name, path in names.items() if difference.of(name)]
    except BROKEN:
        nothing = kind == "pull" or (commit.startswith("stash@{") and not gitstate.has_stash(root))
        return [] if nothing else list(paths)


class _Difference:
    """What one command does to the files with these names."""

    def __init__(self, root: str, kind: str, commit: str, names: list[str]) -> None:
        self.root, self.kind, self.names = root, kind, names
        if UNKNOWN in commit or commit.startswith("-"):
            raise UnreadableError(commit)
        before, dots, after = commit.partition("..")
        if kind in ("merge", "pull"):
            before, after = gitstate.run_git(root, "merge-base", "HEAD", commit, seconds=_SECONDS).strip(), commit
        elif not dots:
            before, after = f"{commit}^" if kind == "pick" else "HEAD", commit
        self.before, self.after = self.tree(before), self.target(after.lstrip(".") or "HEAD")

    def of(self, name: str) -> bool:
        files = [file for file in {*self.before, *self.after} if inside(file, [name])]
        if self.kind in ("clean", "untracked") and any(file not in self.before for file in self.on_disk(name)):
            return True
        if self.kind in ("reset", "untracked"):
            return any(self.after.get(file, "") != self.blob(file) for file in files)
        return self.kind != "clean" and any(self.before.get(file) != self.after.get(file) for file in files)

    def target(self, commit: str) -> Tree:
        """The tree of a branch. `git switch` creates a branch that only the remote has."""
        try:
            return self.tree(commit)
        except UnreadableError:
            if self.kind != "switch":
                raise
            return self.tree(f"origin/{commit}")

    def tree(self, commit: str) -> Tree:
        words = ("ls-tree", "-r", "-z", "--full-tree", commit, "--", *self.names)
        listed = gitstate.run_git(self.root, *words, seconds=_SECONDS)
        entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
        return {name: meta.split()[2] for meta, _, name in entries}

    def blob(self, name: str) -> str:
        """The object id of a file on disk; "" if it does not exist."""
        path = os.path.join(self.root, name)
        data = os.fsencode(os.readlink(path)) if os.path.islink(path) else read_file(path)
        algorithm = "sha256" if any(len(each) == 64 for each in self.before.values()) else "sha1"
        return "" if data is None else digest(algorithm, b"blob %d\0" % len(data) + data).hex()

    def on_disk(self, name: str) -> list[str]:
        path = os.path.join(self.root, name)
        if not os.path.isdir(path) or os.path.islink(path):
            return [name]
        found: list[str] = []
        for folder, _, files in os.walk(path):
            found += [os.path.relpath(os.path.join(folder, file), self.root) for file in files]
            if len(found) > _MOST_FILES:
                raise UnreadableError(f"{name} has too many files")
        return found
