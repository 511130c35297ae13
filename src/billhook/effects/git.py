"""Which files a git command would really change: commits are compared with each other, and with what is on the disk.

Only objects are read (`ls-tree`, `merge-base`): no hooks, filters, pagers, monitors or fetches run, and the index is
left alone. What git can't tell in time counts as changed.
"""

import os
import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from billhook.core import client_env
from billhook.effects.programs import Touch, Words, Writes, after
from billhook.effects.script import UNKNOWN

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
        change = _GitChange(root, kind, commit, list(names))
        return [path for name, path in names.items() if change.of(name)]
    except (UnknownError, OSError, ValueError):
        return [] if kind == "pull" or (commit.startswith("stash@{") and _no_stash(root)) else list(paths)


def _no_stash(root: str) -> bool:
    git = os.path.join(root, ".git")
    return os.path.isdir(git) and not any(
        os.path.lexists(f"{git}/{name}") for name in ("refs/stash", "logs/refs/stash")
    )


class _GitChange:
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
        import hashlib  # a cryptographic library: only where files are compared

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
    kept = {key: value for key, value in client_env.environ().items() if not key.startswith("GIT_")}
    return {**kept, "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


def _program(root: str) -> str:
    """git as PATH finds it, but none that the repository brings along."""
    inside = os.path.join(os.path.realpath(root), "")
    for folder in (*client_env.environ().get("PATH", "").split(":"), "/usr/bin", "/usr/local/bin"):
        path = os.path.join(folder, "git")
        if folder.startswith("/") and not os.path.realpath(path).startswith(inside) and os.access(path, os.X_OK):
            return path
    raise UnknownError


# Which files of the work tree a git command puts back, moves or removes.


ROOT: Final = ":/"  # the top of the work tree, as git spells it

_VALUED: Final = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix"})
_OPTION_VALUES: Final = frozenset(
    {
        "-b",
        "-B",
        "-c",
        "-C",
        "--create",
        "--force-create",
        "--orphan",
        "-s",
        "--source",
        "-m",
        "--message",
        "--conflict",
    }
    | {"-e", "--exclude", "-x", "--exec", "-X", "--onto", "--strategy", "--strategy-option", "--mainline"}
)
_WITH_OUTPUT: Final = {
    **dict.fromkeys(("diff", "log", "show", "diff-tree", "range-diff"), ("--output", "--output")),
    "format-patch": ("-o", "--output-directory"),
    "archive": ("-o", "--output"),
}
_CHANGES_TREES = re.compile(r"--(?:tree|index|commit|subdirectory|parent)-filter")
_MAGIC = re.compile(r":\([^)]*\)|:[!^/]*")
_ONLY_TELL: Final = frozenset({"--check", "--stat", "--numstat", "--summary"})


def git_writes(words: Sequence[str]) -> Writes:
    """What `git ...` touches in the work tree."""
    at, folder = 1, None
    aliases: list[str] = []
    while at < len(words) and words[at].startswith("-"):
        option, equals, value = words[at].partition("=")
        if option in ("-C", "--work-tree"):
            value = value if equals else " ".join(words[at + 1 : at + 2])
            folder = posixpath.join(folder, value) if folder else value
        elif option == "-c" or option.startswith("-calias"):
            aliases += words[at : at + 2]
        at += 1 + (option in _VALUED and not equals)
    verb, rest = (words[at], list(words[at + 1 :])) if at < len(words) else ("", [])
    found = Writes(_touches(verb, rest), code=[word for word in aliases if "alias." in word], folder=folder)
    if verb in ("apply", "am"):
        found.runs_input = True
        _patches(found, rest)
    if verb in _WITH_OUTPUT:
        found.touches += [Touch(path, below=True) for path in after(rest, *_WITH_OUTPUT[verb])]
    if verb == "bundle" and rest[:1] == ["create"]:
        found.touches += [Touch(path) for path in _operands(rest)[1:2]]
    return found


def _patches(found: Writes, rest: list[str]) -> None:
    if not _ONLY_TELL.isdisjoint(rest) and "--apply" not in rest:
        return
    said = Words(rest, "pC", "directory exclude include whitespace")
    found.patches = said.operands
    found.into = next(iter(said.values("directory")), "")
    strips = said.values("p")
    found.strip = int(strips[-1]) if strips and strips[-1].isdecimal() and len(strips[-1]) < 4 else 1


def _touches(verb: str, rest: list[str]) -> list[Touch]:
    flags = {word for word in rest if word.startswith("-")}
    short = "".join(word[1:] for word in flags if not word.startswith("--"))
    operands = _operands(rest)
    everything = any(word.startswith("--pathspec-from-file") for word in flags)
    if verb in ("checkout", "switch"):
        return _checkout(verb, rest, flags, short, operands, everything)
    if verb == "restore":
        index_only = (flags & {"--staged", "-S"} or "S" in short) and not (flags & {"--worktree", "-W"} or "W" in short)
        commit = next(after(rest, "-s", "--source"), "HEAD")
        return [] if index_only else [_everything("reset", commit)] if everything else _named(operands, "reset", commit)
    if verb == "rm":
        if flags & {"--cached", "-n", "--dry-run"}:
            return []
        return [Touch(ROOT, below=True)] if everything else _named(operands)
    if verb == "mv":
        put = [Touch(target, sources=tuple(operands[:-1])) for target in operands[-1:]]
        return put + [Touch(source, below=True) for source in operands[:-1]]
    if verb == "clean":
        quiet = "n" in short or "--dry-run" in flags or not ("f" in short or "--force" in flags or "i" in short)
        return [] if quiet else _named(operands or ["."], "clean", "HEAD")
    if verb == "stash":
        return _stash(rest, flags, short, operands)
    if verb == "submodule":
        return [Touch(target, sources=(UNKNOWN,)) for target in operands[2:3] if operands[0] == "add"]
    if verb == "worktree":
        return [Touch(target, sources=(UNKNOWN,)) for target in operands[1:2] if operands[0] == "add"]
    if verb == "clone":
        return [Touch(target, sources=(UNKNOWN,)) for target in operands[1:2]]
    if verb == "reset" and flags & {"--hard", "--merge", "--keep"}:
        return [_everything("reset", (operands or ["HEAD"])[0])]
    if verb in ("checkout-index", "read-tree") and ("f" in short or "u" in short or "a" in short):
        return [Touch(ROOT, below=True)]
    return _other_commits(verb, rest, flags, operands)


def _checkout(
    verb: str, rest: list[str], flags: set[str], short: str, operands: list[str], everything: bool
) -> list[Touch]:
    """`git checkout x`: another commit, or a file; `git checkout x -- y`: files of another commit."""
    force = "f" in short or flags & {"--force", "--discard-changes"}
    at = rest.index("--") if "--" in rest else len(rest)
    commits = _operands(rest[:at]) + (["@{-1}"] if "-" in rest[:at] else [])
    target = (commits or ["HEAD"])[0]
    if everything:
        return [_everything("reset", target)]
    if operands[len(commits) :] and "--" in rest and verb == "checkout":
        return _named(operands[len(commits) :], "reset", target)
    if force:
        return [_everything("reset", target)]
    switch = [_everything("switch", target)] if commits else []
    if verb == "switch" and "--orphan" in flags:
        return [_everything("remove", "")]
    if verb == "switch" or flags & {"-b", "-B", "--orphan", "--detach"}:
        return switch
    files = _named(operands, "reset", "HEAD") + (_named(operands[1:], "reset", target) if operands[1:] else [])
    return files if operands[1:] else files + switch


def _stash(rest: list[str], flags: set[str], short: str, operands: list[str]) -> list[Touch]:
    if operands[:1] in (["pop"], ["apply"], ["branch"]):
        which = operands[2:3] if operands[0] == "branch" else operands[1:2]
        stash = which[0] if which else "0"
        return [_everything("pick", f"stash@{{{stash}}}" if stash.isdecimal() else stash)]
    if operands[:1] == ["store"]:
        return [_everything("pick", commit) for commit in operands[-1:]]
    if operands and operands[0] not in ("push", "save", "create") and not rest[0].startswith("-"):
        return []
    kind = "untracked" if "u" in short or "a" in short or flags & {"--include-untracked", "--all"} else "reset"
    named = operands[1:] if "--" in rest and operands[:1] == ["push"] else []
    return _named(named, kind, "HEAD") or [_everything(kind, "HEAD")]


def _other_commits(verb: str, rest: list[str], flags: set[str], operands: list[str]) -> list[Touch]:
    """What brings other commits into the work tree."""
    if flags & {"--abort", "--continue", "--quit", "--skip", "--edit-todo", "--show-current-patch"}:
        return []
    if verb == "merge" or (verb == "rebase" and operands):
        onto = list(after(rest, "--onto", "--onto"))
        return [_everything("merge", commit) for commit in onto or (operands if verb == "merge" else operands[:1])]
    if verb == "pull" and operands and operands[0][0] in "./~":  # from a folder: what it holds is not known here
        return [_everything("merge", "".join(operands[1:2]) or UNKNOWN if operands[0] == "." else UNKNOWN)]
    if verb in ("pull", "rebase"):
        return [_everything("pull", "/".join(operands[:2]) if operands[1:] else "@{upstream}")]
    if verb in ("cherry-pick", "revert"):
        return [_everything("pick", commit) for commit in operands]
    sparse = verb == "sparse-checkout" and operands[:1] in (["set"], ["init"], ["reapply"])
    rewrites = verb == "filter-repo" or (verb == "filter-branch" and any(map(_CHANGES_TREES.match, flags)))
    return [_everything("remove", "")] if sparse or rewrites else []


def _everything(kind: str, commit: str) -> Touch:
    return Touch(ROOT, below=True, git=(kind, commit))


def _named(operands: Sequence[str], kind: str = "", commit: str = "") -> list[Touch]:
    found = [touch for operand in operands for touch in _pathspec(operand)]
    return [msgspec.structs.replace(touch, git=(kind, commit)) for touch in found] if kind else found


def _operands(rest: list[str]) -> list[str]:
    found, at, ended = [], 0, False
    while at < len(rest):
        word = rest[at]
        if word == "--" and not ended:
            ended = True
        elif ended or not word.startswith("-"):
            found.append(word)
        elif word in _OPTION_VALUES:
            at += 1
        at += 1
    return found


def _pathspec(operand: str) -> list[Touch]:
    """A path as git reads it: `:/x` from the top, `*` across folders; what lies below a folder is meant as well."""
    bare, top = operand, ""
    if magic := _MAGIC.match(operand):
        bare, top = operand[magic.end() :], ROOT
    loose = any(sign in bare for sign in "*?[")
    path = (top + bare) if top else bare
    return [Touch(path, below=True, loose=loose)] if path else []
