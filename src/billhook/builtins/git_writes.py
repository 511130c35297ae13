"""Which files of the work tree a git command puts back, moves or removes.

Switching branches (`git checkout main`, `git switch x`, `git pull`, `git merge`, `git rebase`) touches nothing here: it
is ordinary work, and a hook whose content changed by it is not approved any more. What throws work away counts, where
it names a file of ours or everything: `git checkout -- x`, `git restore .`, `git reset --hard`, `git stash`,
`git clean -f`.
"""

import posixpath
import re
from collections.abc import Sequence
from typing import Final

from billhook.builtins.touch import Touch, Words, Writes
from billhook.script import UNKNOWN

ROOT: Final = ":/"
"""The top of the work tree, as git spells it."""

_VALUED: Final = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix"})
_OPTION_VALUES: Final = frozenset(
    {"-b", "-B", "--orphan", "-s", "--source", "-m", "--message", "--conflict", "-e", "--exclude"}
)
_MAGIC = re.compile(r":\([^)]*\)|:[!^/]*")
_ONLY_TELL: Final = frozenset({"--check", "--stat", "--numstat", "--summary"})
_EVERYTHING: Final = Touch(ROOT, below=True)


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
    found.touches += [Touch(word.partition("=")[2]) for word in rest if word.startswith("--output=")]
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
    named = [touch for operand in operands for touch in _pathspec(operand)]
    everything = any(word.startswith("--pathspec-from-file") for word in flags)
    if verb == "checkout":
        makes = flags & {"-b", "-B", "--orphan"}
        force = "f" in short or "--force" in flags
        return [_EVERYTHING] if everything or (force and "--" not in rest) else [] if makes else named
    if verb == "restore":
        index_only = (flags & {"--staged", "-S"} or "S" in short) and not (flags & {"--worktree", "-W"} or "W" in short)
        return [] if index_only else [_EVERYTHING] if everything else named
    if verb == "rm":
        return [] if flags & {"--cached", "-n", "--dry-run"} else named
    if verb == "mv":
        put = [Touch(target, sources=tuple(operands[:-1])) for target in operands[-1:]]
        return put + [Touch(source, below=True) for source in operands[:-1]]
    if verb == "clean":
        quiet = "n" in short or "--dry-run" in flags or not ("f" in short or "--force" in flags or "i" in short)
        return [] if quiet else named or [Touch(".", below=True)]
    if verb == "stash":
        saves = not operands or operands[0] in ("push", "save", "create") or rest[0].startswith("-")
        return (named[1:] if "--" in rest and operands[:1] == ["push"] else [_EVERYTHING]) if saves else []
    if verb == "clone":
        return [Touch(target, sources=(UNKNOWN,)) for target in operands[1:2]]
    hard = verb == "reset" and flags & {"--hard", "--merge", "--keep"}
    switch = verb == "switch" and (flags & {"--discard-changes", "--force"} or "f" in short)
    plumbing = verb in ("checkout-index", "read-tree") and ("f" in short or "u" in short or "a" in short)
    return [_EVERYTHING] if hard or switch or plumbing else []


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
