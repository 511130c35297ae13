"""Work that the line itself keeps: after `git stash -u &&` there is nothing left that a reset could discard.

Only commands after a successful stash or commit count: those behind `&&`.
"""

from typing import Final

from msgspec.structs import replace

from billhook.effects.effect import UNKNOWN, Command, Effect
from billhook.effects.families import git
from billhook.effects.places import base_of, has_pattern, repository_above
from billhook.effects.programs import Options
from billhook.effects.run import Run
from billhook.effects.table import word_set

_CHANGED: Final = "changed"  # tracked files, and what is staged
_NEEDED: Final = {
    git.UNTRACKED: frozenset({git.UNTRACKED}),
    git.IGNORED: frozenset({git.IGNORED}),
    git.UNTRACKED_AND_IGNORED: frozenset({git.UNTRACKED, git.IGNORED}),
}
"""What must be kept so that `git clean` loses nothing; every other command discards changes."""
_VALUES: Final = word_set("-m --message -F --file -C -c --author --date --pathspec-from-file")
_PARTS: Final = word_set(
    "-p --patch -k --keep-index -S --staged --pathspec-from-file --dry-run -o --only --interactive"
)
"""Options with which a stash or a commit takes only a part of the work, or none."""
_GIVES_BACK: Final = frozenset({"pop", "apply", "branch", "drop", "clear"})


def note_saved(command: Command, run: Run) -> None:
    """Remember what a stash or a commit keeps, and in which repository."""
    if command.name != "git" or not command.args:
        return
    verb, *words = command.args
    if verb not in ("stash", "add", "commit"):
        return
    state, root = run.state, repository_above(run.state.cwd, run.world.fs) if UNKNOWN not in run.state.cwd else ""
    if state.saved_in != root:
        state.saved, state.saved_in = frozenset(), root
    options = Options(words, _VALUES)
    if verb == "add":
        everything = options.has("-A", "--all") and not options.operands
        state.staged_all = everything or (options.operands == ["."] and state.cwd == root)
    elif verb == "commit":
        state.saved |= _committed(options, state.staged_all)
    elif words[:1] and words[0] in _GIVES_BACK:
        state.saved = frozenset()
    else:
        state.saved |= _stashed(words, options)


def _committed(options: Options, staged_all: bool) -> frozenset[str]:
    if options.operands or options.has(*_PARTS):
        return frozenset()
    if staged_all:
        return frozenset({_CHANGED, git.UNTRACKED})
    return frozenset({_CHANGED}) if options.has("-a", "--all") else frozenset()


def _stashed(words: list[str], options: Options) -> frozenset[str]:
    operands = options.operands
    is_save = operands[:1] == ["save"]  # what follows it is a message
    if (operands and operands != ["push"] and not is_save) or options.has(*_PARTS) or words[:1] == ["create"]:
        return frozenset()
    if options.has("-a", "--all"):
        return frozenset({_CHANGED, git.UNTRACKED, git.IGNORED})
    untracked = {git.UNTRACKED} if options.has("-u", "--include-untracked") else set()
    return frozenset({_CHANGED, *untracked})


def after_saving(effect: Effect, run: Run) -> Effect:
    """The remaining effect, without the work that the line has saved so far."""
    saved = run.state.saved
    if effect.kind == "drop-recovery" and saved and "stash" in effect.cause.split():
        return replace(effect, weight="heavy", certain=False, why="this line stashes work before")
    if effect.weight != "normal" or effect.scope not in ("project", "temp", "unknown"):
        return effect
    needed = frozenset({_CHANGED, git.UNTRACKED}) if effect.kind == "delete" else _NEEDED.get(effect.why, {_CHANGED})
    return replace(effect, weight="light") if needed <= saved and _is_there(effect, run) else effect


def _is_there(effect: Effect, run: Run) -> bool:
    """Whether all that an effect takes belongs to the repository whose work was kept."""
    fs, root, target = run.world.fs, run.state.saved_in, effect.target
    if effect.kind == "discard" and not target:
        return repository_above(run.state.cwd, fs) == root
    if effect.kind not in ("discard", "delete") or UNKNOWN in target:
        return False
    base = base_of(target)
    below = base != root or (effect.kind == "discard" and not has_pattern(target))
    return below and repository_above(base, fs) == root
