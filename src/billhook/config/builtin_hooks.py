"""The built-ins that an engine gets, what the guard protects, and the stand-ins for hooks that can't run."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.agents import TABLE
from billhook.builtins import trackers
from billhook.config import builtin_options, installation, sources
from billhook.config.builtin_options import filled
from billhook.config.declaration import Declared, Exec, Python, RunAction, Say
from billhook.config.recorder import Knowing
from billhook.config.sources import Builtin, FileSnapshot
from billhook.core import client_env
from billhook.core.answers import Outcome, Reply, Status, Verdict
from billhook.core.errors import UsageError
from billhook.core.events import Event
from billhook.core.hook import Context, Hook, Source
from billhook.effects.effect import Protected
from billhook.store.approvals import Approvals
from billhook.store.files import state_root
from billhook.store.state import FileState

if TYPE_CHECKING:
    from billhook.builtins.guard import GuardSettings
    from billhook.config.config import Entry
    from billhook.config.override import Pause
    from billhook.effects.rules import Rule


class StandIn(msgspec.Struct, frozen=True):
    """Runs in place of a hook that can't be used or may not run. It blocks or is skipped, and reports why."""

    why: str
    of: str = ""  # the hook that it replaces: two stand-ins are never the same hook
    blocks: bool = True

    def __call__(self, ctx: Context) -> Reply:
        return Reply(status=Status.COULD_NOT_START if self.blocks else Status.SKIPPED, error=self.why)


# The files and settings of the guard:


_OTHERS = [row for name, row in TABLE.items() if name != "claude"]
_AGENTS = tuple(file for row in _OTHERS for file in (*row.files, *row.beside))
"""Files in which other agents have the entry that calls billhook, in a project and in the home folder."""
_IN_PROJECT, _IN_HOME = ([f"{row.folders[at]}/billhook.json" for row in _OTHERS if row.folders] for at in (0, 1))
_SETTINGS = frozenset({"settings.json", "billhook.json", *(os.path.basename(file) for file in _AGENTS)})
NAMES = frozenset({*sources.PROJECT_FILES, *sources.LOCAL_FILES, *_AGENTS, *_IN_PROJECT})


def guard_settings(said: Builtin, reads: Sequence[sources.FileRead]) -> "GuardSettings":
    """The guard's table from the user's files, and their allow rules."""
    from billhook.builtins.guard import GuardSettings

    options = filled("guard", said.options)
    preset = max(options["preset"], options["project_preset"], key=("off", "standard", "strict").index)
    allowed: tuple[Rule, ...] = ()
    if any(read.permissions for read in reads):
        from billhook.config.permissions import own_allow_rules

        allowed = own_allow_rules(reads)
    place = f"`permissions: {{allow: [...]}}` in {sources.own_file()}"
    return GuardSettings(preset, options["cells"], options["project_cells"], allowed, place, options["shadow"])


def guard(
    preset: str = "standard",
    *,
    cells: Mapping[str, str] | None = None,
    allow: Iterable[str] = (),
    cwd: str | os.PathLike[str] = "",
) -> Hook:
    """The guard for your own engine, without configuration files: `Engine([*hooks, guard()])`.

    `cells` change its table as `guard:` in a file does, `allow` are permission rules for calls that it ignores, `cwd`
    is the project. Raises UsageError, and RuleError for a rule that can't be read.
    """
    from billhook.builtins import guard as builtin
    from billhook.config.permissions import naming_rules
    from billhook.effects.rules import Rule

    given = dict(cells or {})
    for cell, decision in given.items():
        if hint := builtin_options.unknown_cell(cell):
            raise UsageError(f"the guard has no cell `{cell}`", hint=hint)
        _one_of(f"`{cell}`", decision, builtin_options.DECISIONS)
    _one_of("`preset`", preset, builtin_options.PRESETS)
    root = state_root()
    paths = protected(sources.find(os.path.realpath(cwd or client_env.getcwd())), root, (), Approvals(root))
    return builtin.guard(paths, builtin.GuardSettings(preset, given, {}, naming_rules(map(Rule.parse, allow))))


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UsageError(f"unknown value of {name}: `{value}`", hint=f"use one of {', '.join(known)}")


def protected(found: sources.FoundSources, root: Path, entries: Sequence["Entry"], approvals: Approvals) -> Protected:
    """The files that the guard protects, existing or not: a new file would be a new layer. Files with approvals in
    folders below are protected, too: they apply as soon as an agent works there."""
    folders = dict.fromkeys([found.project, *(file.folder for file in found.files)])
    files = [os.path.join(folder, name) for folder in folders for name in sorted(NAMES)]
    files += [file.path for file in found.files] + [sources.MANAGED, *sources.user_files()]
    home = client_env.expanduser("~")
    files += [os.path.join(home, name) for name in (*_AGENTS, *_IN_HOME)]
    loaded = {file.path for file in found.files}
    every = approvals.all()
    below = [one for one in every if one.file.startswith(found.project + os.sep) and one.file not in loaded]
    approved = [path for one in below for path in (one.file, *one.files)]
    files += approved
    others = [one for one in every if one.file not in loaded and one not in below]
    settings = [path for path in files if path.startswith(home + os.sep) and os.path.basename(path) in _SETTINGS]
    look = FileSnapshot()
    files += [path for entry in entries if entry.consent.standing != "new" for path in _named(entry, look)]
    own_folders = {folder for path in sources.user_files() if (folder := os.path.dirname(path)).endswith("/billhook")}
    for entry in entries:
        if entry.consent.standing in ("approved", "changed"):
            approved += [entry.declared.file, *_named(entry, look)]
    installed = installation.installation()
    return Protected(
        files=tuple(dict.fromkeys(files)),
        folders=(*(os.path.join(folder, ".billhook") for folder in folders), *sorted(own_folders)),
        programs=installation.programs(settings),
        interpreters=installed.interpreters,
        packages=(*installed.packages, *installation.source_package(found.project)),
        sites=installed.sites,
        search_path=installation.search_path(),
        elsewhere=tuple(dict.fromkeys(path for one in others for path in (one.file, *one.files))),
        approved=tuple(dict.fromkeys(approved)),
        # an agent that could write a pause would switch off its own guard
        state=(*(str(root / name) for name in ("billhook", "turns", "hooks")), sources.pause_file()),
        names=NAMES,
    )


def _named(entry: "Entry", look: FileSnapshot) -> list[str]:
    """The files that a hook names: an edit could disarm a gate of the user as well as an approved one. An edit of
    another file in their folders invalidates the approval, and a gate then denies."""
    consent = entry.consent
    if consent.loaded is not None:
        return [mark.path for mark in consent.loaded.named]
    if consent.before is not None:
        return [*consent.before.files]
    action = entry.declared.action
    if not isinstance(action, RunAction | Exec | Python):
        return []
    folder = entry.declared.module_folder if isinstance(action, Python) else entry.declared.folder
    from billhook.config.referenced_files import named

    return list(named(action, folder, look).files)


# Hooks that the user can override (`config/override.py`, which is loaded when a hook objects):


class Review(msgspec.Struct, frozen=True):
    """The review of one hook's objections: they may be paused, or allowed once."""

    hook: str
    project: str
    state: FileState
    is_guard: bool
    once: bool  # its objections have a code
    pause: "Pause | None"

    def __call__(self, event: Event, outcome: Outcome) -> Outcome:
        from billhook.config.override import reviewed

        return reviewed(self, event, outcome)

    def settle(self, verdict: Verdict) -> None:
        """After a verdict: what the user allowed once is used up only by a call that passes."""
        if verdict.denied or verdict.stop:
            from billhook.config.override import restore_unused

            restore_unused(self.state, verdict)


class Reviews(msgspec.Struct, frozen=True):
    """The reviews of one configuration."""

    project: str
    state: FileState
    in_agent: bool  # calls of an agent have codes; test events have none
    pause: "Pause | None"

    def added(self, hook: Hook, declared: Declared | None = None) -> Hook:
        """The hook, with a review if the user can override it: never a hook of the managed layer."""
        guard = is_the_guard(hook)
        action = declared.action if declared is not None else None
        once = self.in_agent and (guard or (isinstance(action, Say) and action.decision in ("deny", "ask")))
        names = (hook.name, declared.name if declared is not None else hook.name.removeprefix("built-in/"))
        pause = self.pause if self.pause is not None and self.pause.covers(*names) else None
        if hook.source.layer == "managed" or hook.shadow or not (once or pause is not None):
            return hook
        review = Review(hook.name, self.project, self.state, guard, once, pause)
        return msgspec.structs.replace(hook, review=review)


# The built-ins of an engine, with the settings of the files:


BUILTIN_EVENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "metrics": (),
    "turn-tracker": trackers.EVENTS,
    "session-naming": ("SessionStart",),
    "rate-limit": ("PreToolUse",),
}
"""The built-ins that can be switched off, and the events that they listen for; empty: every event."""


class Builtins:
    """The built-ins of one configuration, except for the guard, which needs the whole configuration."""

    def __init__(self, root: Path, project: str, settings: Mapping[str, Builtin]) -> None:
        self.settings = settings
        self.state = FileState(root)
        self.project = project
        self.knowing = Knowing(self.state, project, self._on("session-naming"), self._on("turn-tracker"))

    def _on(self, name: str) -> bool:
        settings = self.settings[name]
        configured = name != "rate-limit" or settings.options.get("limits") or settings.broken
        return bool(configured) and settings.enabled is not False

    @property
    def names(self) -> frozenset[str]:
        """The names of all built-ins of an engine."""
        return frozenset({"guard", *(name for name in self.settings if self._on(name))})

    @property
    def trackers(self) -> tuple[str, ...]:
        """The built-ins that other hooks rely on."""
        return tuple(name for name in ("turn-tracker", "session-naming", "event-logger") if self._on(name))

    def hooks(self) -> list[Hook]:
        """Ordinary hooks, in the order of their priorities."""
        names = ("metrics", "turn-tracker", "session-naming", "rate-limit", "event-logger")
        return [self._made(name, filled(name, self.settings[name].options)) for name in names if self._on(name)]

    def _made(self, name: str, options: dict[str, Any]) -> Hook:
        if name == "metrics":
            return trackers.metrics(**options)
        if name == "turn-tracker":
            return trackers.turn_tracker(self.state, **options)
        if name == "session-naming":
            from billhook.store.sessions import Sessions

            return trackers.session_naming(Sessions(self.state), self.project)
        if name == "event-logger":
            return trackers.event_logger()
        from billhook.builtins.rate_limit import RateLimit, rate_limit

        if broken := self.settings[name].broken:
            reply = Reply(status=Status.COULD_NOT_START, error=f"its options can't be used: {broken}")
            # it fails closed: a mistake in its options must not switch the limits off
            return Hook(
                name=name,
                title="replaces limits that can't be used",
                run=lambda ctx: reply,
                events=("PreToolUse",),
                priority=15,
                on_failure="deny",
                source=Source(layer="built-in"),
            )
        return rate_limit(self.state, [RateLimit(**limit) for limit in options["limits"]], self.project)


def is_the_guard(hook: Hook) -> bool:
    """Whether a hook is the built-in guard; a hook of a file may have the same name."""
    return hook.source.layer == "built-in" and hook.name.endswith("guard")


def is_guard_off(hook: Hook) -> bool:
    """Whether a hook is the guard, and the user switched it off as far as possible."""
    from billhook.builtins.guard import Guard

    return isinstance(hook.run, Guard) and not hook.run.settings.judges
