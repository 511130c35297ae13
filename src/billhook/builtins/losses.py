"""What an effect would really destroy: a look at the disk before the guard judges.

Only what can change a decision is looked up: whether git can restore what is deleted, whether there is uncommitted work
to discard, which branch a push is for. Nothing that a repository configures runs for that.
"""

import fnmatch
import os
import posixpath
from collections.abc import Iterator
from typing import Final

import msgspec

from billhook.core import client_env
from billhook.effects import gitstate
from billhook.effects.effect import UNKNOWN, Effect
from billhook.effects.families import git
from billhook.effects.gitstate import GENERATED
from billhook.effects.places import base_of, has_pattern

_JUNK = """
*.pyc *.pyo *.o *.obj *.log *.tmp *.temp *.bak *.swp *.swo *~ *.orig *.rej *.class *.cache *.coverage *.egg-info
.DS_Store Thumbs.db *.map *.tsbuildinfo *.profraw *.gcda *.gcno core nohup.out __pycache__ node_modules *.pid
.coverage*
"""
_JUNK_NAMES: Final = tuple(_JUNK.split())
_EVERYTHING: Final = frozenset({"*", "**", "?*", ".*", "*.*", ".[!.]*", ".??*", ".[a-z]*"})
_INTERNALS: Final = frozenset({"HEAD", "config", "index", "packed-refs", "objects", "refs", "logs", "modules"})
_MOST_SHOWN: Final = 50
Weighed = tuple[Effect, tuple[str, ...]]


def weighed(effect: Effect, cwd: str) -> Iterator[Weighed]:
    """An effect with the weight that it has here and now, and the files that would be lost; none if it does nothing."""
    look = _LOOKS.get(effect.kind)
    if look is None or effect.weight == "heavy":
        yield effect, ()
    else:
        yield from look(effect, cwd)


def _heavy(effect: Effect, *lost: str) -> Weighed:
    return msgspec.structs.replace(effect, weight="heavy"), lost


# files


def _delete(effect: Effect, cwd: str) -> Iterator[Weighed]:
    """Deleting, re-permissioning: everything at once is heavy, and so is what git can't restore."""
    if effect.recursive and not effect.names and _holds_work(effect.target, cwd):
        yield _heavy(msgspec.structs.replace(effect, scope="outside") if effect.scope == "temp" else effect)
    elif effect.scope == "home":
        yield _heavy(effect) if _is_top(effect) else (effect, ())
    elif effect.scope == "project" and UNKNOWN not in effect.target:
        yield from _in_project(effect, cwd)
    else:
        yield effect, ()


def _holds_work(target: str, cwd: str) -> bool:
    """Whether the project or the home folder is somewhere below, and not the target itself."""
    base = base_of(target).rstrip("/") + "/"
    name = posixpath.basename(target)
    if UNKNOWN in target or (has_pattern(target) and name not in _EVERYTHING):
        return False
    found = gitstate.repository(cwd)
    return any(each.startswith(base) for each in (found[0] if found else cwd, client_env.expanduser("~")))


def _is_top(effect: Effect) -> bool:
    """Whether it is the home folder, one of its top folders, or everything in them."""
    home = client_env.expanduser("~").rstrip("/")
    base = base_of(effect.target)
    if not effect.recursive or effect.names:
        return False
    if has_pattern(effect.target) and posixpath.basename(effect.target) not in _EVERYTHING:
        return False
    return (base + "/").startswith(home + "/") and base.count("/") <= home.count("/") + 1


def _in_project(effect: Effect, cwd: str) -> Iterator[Weighed]:
    found = gitstate.repository(base_of(effect.target)) or gitstate.repository(cwd)
    root = found[0] if found else cwd
    target, name = effect.target, posixpath.basename(effect.target)
    if target == f"{root}/.git" or target.startswith(f"{root}/.git/"):
        yield _heavy(effect) if _is_internal(target[len(root) + 5 :].lstrip("/")) else (effect, ())
        return
    light = effect.weight == "light" or os.path.islink(target)
    if effect.kind != "delete" or not effect.recursive or light:
        yield effect, ()
        return
    everything = not effect.names and (name in _EVERYTHING if has_pattern(target) else True)
    lost, doubt = _lost(effect, root, found is not None)
    if lost or (everything and base_of(target) == root):
        yield _heavy(effect, *lost)
    elif doubt:  # too large to look at in time: there may be work
        yield _heavy(msgspec.structs.replace(effect, certain=False, why=doubt))
    else:
        yield effect, ()


def _is_internal(path: str) -> bool:
    """Whether a path below `.git` is what the repository consists of; hooks, locks and messages are routine."""
    first = path.partition("/")[0]
    return not path.endswith(".lock") and (first in _INTERNALS or has_pattern(first) or not path)


def _lost(effect: Effect, root: str, in_git: bool) -> tuple[tuple[str, ...], str]:
    """The files that would be gone for good, and why there may be more of them."""
    wanted = effect.names or ((posixpath.basename(effect.target),) if has_pattern(effect.target) else ())
    if wanted and all(_is_junk(name) for name in wanted):
        return (), ""
    base = base_of(effect.target)
    generated = not GENERATED.isdisjoint(base.split("/")) or not os.path.lexists(base)
    if not in_git:
        return () if generated or wanted else (base,), ""
    work = gitstate.uncommitted(root, [base] if base != root else [], untracked=True)
    names = [*work.modified, *work.staged, *work.untracked]
    kept = [name for name in names if not wanted or _matches(name, wanted)]
    found = [name for name in dict.fromkeys(kept) if not _is_junk(posixpath.basename(name))]
    return tuple(found[:_MOST_SHOWN]), "" if generated else work.why


def _matches(path: str, wanted: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(part, each) for each in wanted for part in path.split("/"))


def _is_junk(name: str) -> bool:
    """Whether a name or a pattern is that of a file which programs make again."""
    return any(fnmatch.fnmatchcase(name, each) for each in _JUNK_NAMES)


# git


def _discard(effect: Effect, cwd: str) -> Iterator[Weighed]:
    """Nothing is discarded where there is nothing to lose."""
    if effect.weight == "light":
        yield effect, ()
        return
    found = gitstate.repository(cwd)
    if found is None or effect.scope not in ("project", "unknown", "temp"):
        yield effect, ()
        return
    root = found[0]
    paths = [path for path in effect.target.split(" ") if path and path.startswith("/")]
    cleans = effect.why in (git.UNTRACKED, git.IGNORED, git.UNTRACKED_AND_IGNORED)
    work = gitstate.uncommitted(root, paths, untracked=cleans, ignored=cleans and effect.why != git.UNTRACKED)
    lost = work.untracked if cleans else [*work.modified, *work.staged]
    if lost:
        yield effect, tuple(dict.fromkeys(lost))[:_MOST_SHOWN]
    elif not cleans and paths and not any(has_pattern(path) or os.path.lexists(path) for path in paths):
        yield msgspec.structs.replace(effect, certain=False, why="no such file is known here"), ()
    elif not work.certain:
        yield msgspec.structs.replace(effect, certain=False, why=work.why), ()


def _force_push(effect: Effect, cwd: str) -> Iterator[Weighed]:
    """The branch decides: a default branch is everybody's."""
    found = gitstate.repository(cwd)
    if found is None:
        yield effect, ()
        return
    if not effect.target and " -C" in effect.cause:  # another repository: its branch is not looked up
        yield effect, ()
        return
    branch = effect.target or gitstate.current_branch(found[0])
    if branch in gitstate.default_branches(found[0]):
        effect = msgspec.structs.replace(effect, weight="heavy")
    yield msgspec.structs.replace(effect, target=branch), ()


def _drop_recovery(effect: Effect, cwd: str) -> Iterator[Weighed]:
    found = gitstate.repository(cwd)
    if found is not None and "stash" in effect.cause.split() and not gitstate.has_stash(found[0]):
        return
    yield effect, ()


_LOOKS: Final = {
    "delete": _delete,
    "overwrite": _delete,
    "permissions": _delete,
    "discard": _discard,
    "force-push": _force_push,
    "drop-recovery": _drop_recovery,
}
