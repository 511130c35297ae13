"""The impact of an effect: what it would really destroy, read from the disk before the guard decides.

Only facts that can change a decision are looked up: whether git can restore deleted files, whether there is uncommitted
work to discard, which branch a push is for. No program that a repository configures runs for that.
"""

import fnmatch
import os
import posixpath
import shlex
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from billhook.core import client_env
from billhook.effects import gitstate
from billhook.effects.effect import UNKNOWN, Effect
from billhook.effects.families import git
from billhook.effects.places import TEMPORARY, base_of, has_pattern, inside
from billhook.effects.table import word_set

if TYPE_CHECKING:
    from billhook.builtins.guard import EffectVerdict

_JUNK: Final = word_set(
    """
    *.pyc *.pyo *.o *.obj *.log *.tmp *.temp *.bak *.swp *.swo *~ *.orig *.rej *.class *.cache *.coverage *.egg-info
    .DS_Store Thumbs.db *.map *.tsbuildinfo *.profraw *.gcda *.gcno core nohup.out __pycache__ node_modules *.pid
    .coverage*
    """
)
"""Names of files that programs make again."""
_EVERYTHING: Final = word_set("* ** ?* .* *.* .[!.]* .??* .[a-z]*")
_INTERNALS: Final = word_set("HEAD config index packed-refs objects refs logs modules worktrees")
_CLEANED: Final = (git.UNTRACKED, git.IGNORED, git.UNTRACKED_AND_IGNORED)
_MOST_SHOWN: Final = 50
Impact = tuple[Effect, tuple[str, ...]]


_MOST_LOOKS: Final = 8  # at parts of a repository; one at the whole of it answers for the others
_MOST_BRANCHES: Final = 8
_MOST_QUERIED: Final = 100
_known: Final[ContextVar[dict[object, gitstate.Work]]] = ContextVar("known")
"""What one judgement has looked up so far."""
_asked: Final[ContextVar[list[str]]] = ContextVar("asked")
"""The lookups of one judgement so far."""


def impacts_of(effects: Iterable[Effect], cwd: str) -> list[Impact]:
    """The impact of each effect of a call; a repository does not change while they are looked up."""
    _known.set({})
    _asked.set([])
    return [each for effect in effects if (each := impact_of(effect, cwd))]


def _uncommitted(
    root: str, paths: Sequence[str], *, untracked: bool = False, ignored: bool = False, only_ignored: bool = False
) -> gitstate.Work:
    _asked.get([]).append(root)
    known, key = _known.get({}), (root, *paths, untracked, ignored, only_ignored)
    if key not in known and paths and len(known) >= _MOST_LOOKS:
        whole = _uncommitted(root, (), untracked=untracked, ignored=ignored, only_ignored=only_ignored)
        return whole.below(gitstate.relative(root, paths))
    if key not in known:
        known[key] = gitstate.uncommitted(root, paths, untracked=untracked, ignored=ignored, only_ignored=only_ignored)
    return known[key]


def impact_of(effect: Effect, cwd: str) -> Impact | None:
    """An effect with its weight here and now, and the files that would be lost; None if it does nothing."""
    look = _LOOKS.get(effect.kind)
    if effect.recursive and look in (_delete, _discard) and len(_asked.get([])) > _MOST_QUERIED:
        return _heavy(replace(effect, certain=False, why="the call names too many files"))
    known = effect.weight == "heavy" or "ssh" in effect.via  # the disk of another machine can't be seen
    return look(effect, cwd) if look and not known else (effect, ())


def depends_on_files(effect: Effect, cwd: str) -> bool:
    """Whether that depends on uncommitted work, on the current branch or on a stash, which change every day."""
    if (effect.weight == "heavy" and effect.kind != "disarm") or "ssh" in effect.via:
        return False
    if effect.kind == "disarm":
        return effect.via == ("git",)
    if effect.kind == "delete":
        return effect.recursive and effect.weight == "normal" and effect.scope == "project" and _may_lose(effect, cwd)
    if effect.kind == "discard":
        return effect.weight != "light" and UNKNOWN not in effect.folder + effect.target
    if effect.kind == "force-push":
        return not effect.target
    return effect.kind == "drop-recovery" and not {"stash", "branch"}.isdisjoint(effect.cause.split())


def _may_lose(effect: Effect, cwd: str) -> bool:
    """Whether a deletion in the project may take files that git can't restore: not all of it, and nothing generated."""
    base, name = base_of(effect.target), posixpath.basename(effect.target)
    if UNKNOWN in effect.target or not gitstate.GENERATED.isdisjoint(base.split("/")):
        return False
    is_part = has_pattern(effect.target) and name not in _EVERYTHING
    wanted = effect.names or ((name,) if is_part else ())
    if wanted and all(_matches(one, _JUNK) for one in wanted):
        return False
    found = gitstate.repository(base) or gitstate.repository(cwd)
    root = found[0] if found else cwd
    whole = _removes_all(effect) and (base == root or _contains_work(effect.target, cwd))
    return not whole and not inside(effect.target, [f"{root}/.git"])


def possible(effect: Effect) -> tuple[Effect | None, Effect]:
    """The least and the most that such an effect may be."""
    if effect.kind in ("discard", "drop-recovery", "disarm"):
        return None, effect
    return effect, replace(effect, weight="heavy")


def _heavy(effect: Effect, *lost: str) -> Impact:
    return replace(effect, weight="heavy"), lost


# Files


def _delete(effect: Effect, cwd: str) -> Impact:
    """Deletions and changed permissions: everything at once is heavy, and so is what git can't restore."""
    if _removes_all(effect) and effect.target in TEMPORARY:  # other programs keep their files there
        return _heavy(replace(effect, scope="outside"))
    if _removes_all(effect) and _contains_work(effect.target, cwd):
        return _heavy(replace(effect, scope="outside") if effect.scope == "temp" else effect)
    if effect.scope == "home" and _removes_all(effect) and _is_top(base_of(effect.target)):
        return _heavy(effect)
    if effect.scope == "project" and UNKNOWN not in effect.target:
        return _in_project(effect, cwd)
    return effect, ()


def _removes_all(effect: Effect) -> bool:
    """Whether nothing below the target is spared."""
    every = not has_pattern(effect.target) or posixpath.basename(effect.target) in _EVERYTHING
    return effect.recursive and not effect.names and every


def _contains_work(target: str, cwd: str) -> bool:
    """Whether the project or the home folder is somewhere below, and not the target itself."""
    base = base_of(target).rstrip("/") + "/"
    found = gitstate.repository(cwd)
    places = (found[0] if found else cwd, client_env.expanduser("~"))
    return UNKNOWN not in target and any(each.startswith(base) for each in places)


def _is_top(folder: str) -> bool:
    """Whether it is the home folder, or a folder directly in it."""
    home = client_env.expanduser("~").rstrip("/")
    return inside(folder, [home]) and folder.count("/") <= home.count("/") + 1


def _in_project(effect: Effect, cwd: str) -> Impact:
    if effect.weight == "light" and "/.git" not in effect.target:
        return effect, ()  # a call may have very many of these
    base = base_of(effect.target)
    found = gitstate.repository(base) or gitstate.repository(cwd)
    root = found[0] if found else cwd
    if inside(effect.target, [f"{root}/.git"]):
        is_internal = _is_internal(effect.target[len(root) + 5 :].lstrip("/"))
        return _heavy(effect) if is_internal else (effect, ())
    light = effect.weight == "light" or os.path.islink(effect.target)
    if effect.kind != "delete" or not effect.recursive or light:
        return effect, ()
    lost, doubt = _lost(effect, root, found is not None)
    if lost or (base == root and _removes_all(effect)):
        return _heavy(effect, *lost)
    # Too large to check in time: there may be work.
    return _heavy(replace(effect, certain=False, why=doubt)) if doubt else (effect, ())


def _is_internal(path: str) -> bool:
    """Whether a path below `.git` is part of the repository's data; hooks, locks and messages are routine."""
    first = path.partition("/")[0]
    return not path.endswith(".lock") and (first in _INTERNALS or has_pattern(first) or not path)


def _lost(effect: Effect, root: str, in_git: bool) -> tuple[tuple[str, ...], str]:
    """The files that would be lost for good, and why there may be more of them."""
    pattern = posixpath.basename(effect.target)
    is_part = has_pattern(effect.target) and pattern not in _EVERYTHING
    wanted = effect.names or ((pattern,) if is_part else ())
    if wanted and all(_matches(name, _JUNK) for name in wanted):
        return (), ""
    base = base_of(effect.target)
    generated = not gitstate.GENERATED.isdisjoint(base.split("/")) or not os.path.lexists(base)
    if not in_git:
        return () if generated or wanted else (base,), ""
    work = _uncommitted(root, [base] if base != root else [], untracked=True)
    names = dict.fromkeys((*work.modified, *work.staged, *work.untracked))
    kept = [name for name in names if not wanted or any(_matches(part, wanted) for part in name.split("/"))]
    found = [name for name in kept if not _matches(posixpath.basename(name), _JUNK)]
    return tuple(found[:_MOST_SHOWN]), "" if generated else work.why


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, each) for each in patterns)


# Git


def _repository(effect: Effect, cwd: str) -> tuple[str, str] | None:
    """The repository that git works in: for `git -C x`, and for git after `cd x`, the repository of x."""
    folder = effect.folder or cwd
    return None if UNKNOWN in folder else gitstate.repository(folder)


def _discard(effect: Effect, cwd: str) -> Impact | None:
    """Nothing is discarded without a repository, or where there is nothing to lose."""
    if effect.weight == "light" or UNKNOWN in effect.folder + effect.target:
        return effect, ()
    found = _repository(effect, cwd)
    if found is None:
        here = effect.scope in ("project", "temp")
        return None if here else (replace(effect, certain=False, why="no repository is known there"), ())
    lost, doubt = _discarded(effect, found[0])
    if lost:
        return effect, tuple(dict.fromkeys(lost))[:_MOST_SHOWN]
    return (replace(effect, certain=False, why=doubt), ()) if doubt else None


def _discarded(effect: Effect, root: str) -> tuple[list[str], str]:
    """The files whose work would be lost, and why there may be more of them."""
    path = effect.target if effect.target.startswith("/") else ""
    own = _own_root(path)
    if own and own != root:  # `git worktree remove`, `git submodule deinit`: everything in it
        work = gitstate.uncommitted(own, untracked=True)
        return [*work.modified, *work.staged, *work.untracked], work.why
    cleans = effect.why in _CLEANED
    ignored, only = cleans and effect.why != git.UNTRACKED, effect.why == git.IGNORED
    work = _uncommitted(root, [path] if path else [], untracked=cleans, ignored=ignored, only_ignored=only)
    lost = work.untracked if cleans else [*work.modified, *work.staged]
    doubt = work.why
    if path and not cleans and not has_pattern(path) and not os.path.lexists(path):
        doubt = doubt or "no such file is known here"
    if effect.via[-2:] == ("git", "git"):  # `git submodule foreach git ...`
        lost += [f"{name}/{each}" for name in gitstate.submodules(root) for each in _work_of(f"{root}/{name}")]
    return lost, doubt


def _own_root(path: str) -> str:
    """A path if it is the root of a worktree or of a submodule."""
    found = gitstate.repository(path) if path else None
    return found[0] if found and os.path.realpath(found[0]) == os.path.realpath(path) else ""


def _work_of(root: str) -> list[str]:
    work = gitstate.uncommitted(root)
    return [*work.modified, *work.staged]


def _force_push(effect: Effect, cwd: str) -> Impact:
    """The branch decides: other people share a default branch."""
    found = _repository(effect, cwd)
    if found is None or not os.path.isdir(effect.folder or cwd):  # the branch of a missing folder is unknown
        return effect, ()
    branch = effect.target or gitstate.current_branch(found[0])
    named = replace(effect, target=branch)
    return _heavy(named) if branch in gitstate.default_branches(found[0]) else (named, ())


def _drop_recovery(effect: Effect, cwd: str) -> Impact | None:
    found = _repository(effect, cwd)
    words = effect.cause.split()
    if found and "stash" in words and not gitstate.has_stash(found[0]):
        return None
    if found and "branch" in words and _are_kept(found[0], effect.target.split()):
        return None
    return effect, ()


def _are_kept(root: str, branches: list[str]) -> bool:
    return len(branches) <= _MOST_BRANCHES and all(gitstate.is_kept(root, name) for name in branches)


# How to keep the work


def with_rescue(judged: "EffectVerdict", cwd: str) -> "EffectVerdict":
    """The lost files with the command that keeps them; no command if `.git` would be deleted as well."""
    effect = judged.effect
    if not judged.lost or effect.kind not in ("delete", "discard"):
        return judged
    base = base_of(effect.target) if effect.target.startswith("/") else ""
    root = (_own_root(base) if effect.kind == "discard" else "") or _root(effect, base, cwd)
    if not root:
        return replace(judged, in_git=False)
    if effect.kind == "delete" and _own_root(base) == base and not has_pattern(effect.target):
        return judged
    return replace(judged, keeps=_rescue(effect, root, cwd))


def _root(effect: Effect, base: str, cwd: str) -> str:
    found = _repository(effect, cwd) if effect.kind == "discard" else gitstate.repository(base)
    return found[0] if found else ""


def _rescue(effect: Effect, root: str, cwd: str) -> str:
    """The command: a stash leaves out ignored files unless it has `--all`, and needs a first commit."""
    here = gitstate.repository(cwd)
    git_here = "git" if here and os.path.realpath(here[0]) == os.path.realpath(root) else f"git -C {shlex.quote(root)}"
    if not gitstate.has_commit(root):
        return f"{git_here} add -A && {git_here} commit -m wip"
    if effect.via[-2:] == ("git", "git"):
        return "git submodule foreach git stash push -u -m wip"
    ignored = effect.why in (git.IGNORED, git.UNTRACKED_AND_IGNORED)
    return f"{git_here} stash push {'--all' if ignored else '-u'} -m wip"


_LOOKS: Final[dict[str, Callable[[Effect, str], Impact | None]]] = {
    "delete": _delete,
    "overwrite": _delete,
    "permissions": _delete,
    "discard": _discard,
    "force-push": _force_push,
    "drop-recovery": _drop_recovery,
}
