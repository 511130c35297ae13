"""What stands in for a hook that can't be asked, or may not be."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.agents import AGENTS, TABLE
from billhook.builtins import trackers as turn_tracker
from billhook.config import installation, sources
from billhook.config.builtin_options import filled
from billhook.config.declaration import Action, Declared, Exec, Python, RunAction, Say, Url
from billhook.config.recorder import Knowing
from billhook.config.shapes import Builtin
from billhook.config.sources import FileSnapshot
from billhook.config.trust import Consent, Consented
from billhook.core import client_env
from billhook.core.answers import Answer, Decision, OnFailure, Reply, Status
from billhook.core.dialect_traits import MEANINGS
from billhook.core.errors import RuleError
from billhook.core.events import EVENTS
from billhook.core.hook import Condition, Context, Handler, Hook, Source
from billhook.effects.protected_paths import Protected
from billhook.effects.rules import condition
from billhook.runners.command import command, execute, literal
from billhook.store.approvals import Approval, Approvals
from billhook.store.state import FileState

if TYPE_CHECKING:
    from billhook.config.config import Entry


class Refusal(msgspec.Struct, frozen=True):
    """Can't be asked, and says why."""

    why: str
    of: str = ""  # whose place it takes: two of them are never the same hook

    def __call__(self, ctx: Context) -> Reply:
        return Reply(status=Status.COULD_NOT_START, error=self.why)


class Absence(msgspec.Struct, frozen=True):
    """Is not asked, and says why."""

    why: str
    of: str = ""

    def __call__(self, ctx: Context) -> Reply:
        return Reply(status=Status.SKIPPED, error=self.why)


# What self-protection protects:


_OTHERS = [row for name, row in TABLE.items() if name != "claude"]
_AGENTS = tuple(file for row in _OTHERS for file in (*row.files, *row.beside))
"""Where other agents keep the entry that calls billhook, in a project and below the home folder alike."""
_IN_PROJECT, _IN_HOME = ([f"{row.folders[at]}/billhook.json" for row in _OTHERS if row.folders] for at in (0, 1))
_SETTINGS = frozenset({"settings.json", "hooks.json", "config.toml", "billhook.json"})
NAMES = frozenset({*sources.PROJECT_FILES, *sources.LOCAL_FILES, *_AGENTS, *_IN_PROJECT})


def protected(found: sources.FoundSources, root: Path, entries: Sequence["Entry"], approvals: Approvals) -> Protected:
    """Files that exist and files that don't exist yet alike: one that appears is a new layer. What was approved in
    folders below counts as well: it applies as soon as somebody works there."""
    folders = dict.fromkeys([found.project, *(file.folder for file in found.files)])
    files = [os.path.join(folder, name) for folder in folders for name in sorted(NAMES)]
    files += [file.path for file in found.files] + [sources.MANAGED, *sources.user_files()]
    home = client_env.expanduser("~")
    files += [os.path.join(home, name) for name in (*_AGENTS, *_IN_HOME)]
    loaded = {file.path for file in found.files}
    every = approvals.all()
    below = [one for one in every if one.file.startswith(found.project + os.sep) and one.file not in loaded]
    files += [path for one in below for path in (one.file, *one.files)]
    others = [one for one in every if one.file not in loaded and one not in below]
    settings = [path for path in files if path.startswith(home + os.sep) and os.path.basename(path) in _SETTINGS]
    look = FileSnapshot()
    files += [path for entry in entries if entry.consent.standing != "new" for path in _named(entry, look)]
    own_folders = {folder for path in sources.user_files() if (folder := os.path.dirname(path)).endswith("/billhook")}
    approved = [entry for entry in entries if entry.consent.standing in ("approved", "changed")]
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
        approved=tuple(
            dict.fromkeys(
                [path for entry in approved for path in (entry.declared.file, *_named(entry, look))]
                + [path for one in below for path in (one.file, *one.files)]
            )
        ),
        state=tuple(str(root / name) for name in ("billhook", "turns", "hooks")),
        names=NAMES,
    )


def _named(entry: "Entry", look: FileSnapshot) -> list[str]:
    """The files that a hook names: a guard of the user's own is disarmed by an edit just as an approved one. An edit of
    a file beside them takes the approval away, and then a gate denies."""
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


# From what a file declares to a hook that an engine runs; or to what stands in its place.


class Limits(msgspec.Struct, frozen=True):
    """What all HTTP hooks may do: each of these lists has to agree."""

    urls: tuple[tuple[str, ...], ...] = ()
    header_env: tuple[tuple[str, ...], ...] = ()

    def for_url(self, url: str) -> tuple[str, ...] | None:
        """The list that decides about an address: one that doesn't name it, if there is any."""
        from billhook.runners.webhook import address_allowed

        against = (some for some in self.urls if not address_allowed(url, some))
        return next(against, self.urls[-1] if self.urls else None)


def build(declared: Declared, consent: Consent, limits: Limits) -> Hook:
    """The hook, ready to run."""
    run = _handler(declared, limits)
    if consent.loaded is not None and consent.loaded.marks and consent.of is not None:
        # only what runs programs names files
        run = Consented(run, consent.of, consent.loaded, declared.gate)  # type: ignore[arg-type]
    return _hook(declared, run, declared.on_failure, background=declared.background)


def refusal(declared: Declared, why: str) -> Hook:
    """What stands in for a gate that can't be used: it blocks what the gate would have judged, and everything where
    that can't be told. Never raises, and waits for no other hook."""
    judged = msgspec.structs.replace(declared, when=_readable_rule(declared.when), after=(), timeout=None)
    return _hook(judged, Refusal(why, f"{declared.place} {declared.name}"), "deny")


def refusal_of(before: Approval, now: Declared, why: str) -> Hook:
    """What stands in for a gate that has changed since it was approved: it blocks what *that* would have judged. What
    the record doesn't have, or has from another version, narrows nothing."""
    was = before.definition
    judged = msgspec.structs.replace(
        now,
        name=before.name,
        events=tuple(was.get("events", ())),
        match=was.get("match"),
        part=was.get("part", ""),
        when=was.get("if", ""),
        dialect=was["dialect"] if was.get("dialect") in MEANINGS else now.dialect,
    )
    return refusal(judged, why)


def absence(declared: Declared, why: str) -> Hook:
    """What stands in for a hook that may not run: it does nothing, and says why."""
    return _hook(declared, Absence(why, f"{declared.place} {declared.name}"), "allow")


GATED = tuple(name for name, kind in EVENTS.items() if kind.gates)  # the events that wait for an answer


def blockade(source: Source, events: tuple[str, ...], why: str) -> Hook:
    """What stands in for a whole file that can't be read."""
    return Hook(name=UNREADABLE, run=Refusal(why), events=events, on_failure="deny", source=source, priority=0)


UNREADABLE = "unreadable-file"


def _hook(declared: Declared, run: Handler, on_failure: OnFailure, *, background: bool = False) -> Hook:
    match, when = _conditions(declared)
    return Hook(
        name=declared.name,
        run=run,
        events=declared.events,
        title=declared.title or declared.does,
        match=match,
        condition=when,
        priority=declared.priority,  # type: ignore[arg-type]
        after=declared.after,
        timeout=declared.timeout,
        on_failure=on_failure,
        background=background,
        always=declared.always,
        dialect=declared.dialect,
        source=Source(layer=declared.layer, file=declared.file, line=declared.line),
    )


def _conditions(declared: Declared) -> tuple[str | None, Condition | None]:
    rule = condition(declared.when) if declared.when else None
    if not declared.part:
        return declared.match, rule
    from billhook.config.entry import Part, tools_of

    return tools_of(declared.part), Part(declared.part, declared.match or "", rule)


def _readable_rule(when: str) -> str:
    """The rule of `if`; nothing, which is everything, where it can't be read."""
    try:
        condition(when)
    except RuleError:
        return ""
    return when


def _handler(declared: Declared, limits: Limits) -> Handler:
    dialect, folder = declared.dialect, declared.folder
    if declared.part and dialect in AGENTS and AGENTS[dialect].parts:
        dialect = f"{dialect}:{declared.part}"
    match declared.action:
        case RunAction(text, shell, login):
            return command(text, dialect=dialect, login=login, shell=shell, cwd=folder)
        case Exec(argv):
            return execute([_placed(word, folder) for word in argv], dialect=dialect, cwd=folder)
        case Python(target, interpreter):
            from billhook.runners.worker import python

            return python(target, folder=declared.module_folder, interpreter=interpreter, dialect=dialect)
        case Url(url, headers, allowed_env):
            from billhook.runners.webhook import webhook

            names = [name for name in allowed_env if all(name in some for some in limits.header_env)]
            return webhook(url, headers=headers, allowed_env=names, allowed_urls=limits.for_url(url), dialect=dialect)
        case Say(decision, text):
            inject = decision == "inject"
            return literal(Answer(context=text) if inject else Answer(decision=Decision(decision), reason=text))
        case _:
            raise AssertionError(f"nothing to build from {declared.action!r}")


def _placed(word: str, folder: str) -> str:
    """Arguments are no shell's text: the one variable that they may hold is put in here."""
    return word.replace("${CLAUDE_PROJECT_DIR}", folder).replace("$CLAUDE_PROJECT_DIR", folder)


def runs(action: Action | None) -> bool:
    """Whether there is something that can be asked."""
    return isinstance(action, RunAction | Exec | Python | Url | Say)


# The built-ins that an engine gets, as the files have them.


BUILTIN_EVENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "metrics": (),
    "turn-tracker": turn_tracker.EVENTS,
    "session-naming": ("SessionStart",),
    "rate-limit": ("PreToolUse",),
}
"""The built-ins that can be switched off, and the events that they are for; none: every event."""


class Builtins:
    """The built-ins of one configuration; self-protection stands apart, because it looks at the whole of it."""

    def __init__(self, root: Path, project: str, settings: Mapping[str, Builtin]) -> None:
        self.settings = settings
        self.state = FileState(root)
        self.project = project
        self.knowing = Knowing(self.state, project, self._on("session-naming"), self._on("turn-tracker"))

    def _on(self, name: str) -> bool:
        if name == "rate-limit":
            asked_for = self.settings[name].options.get("limits") or self.settings[name].broken
            return bool(asked_for) and self.settings[name].enabled is not False
        return self.settings[name].enabled is not False

    def _options(self, name: str) -> dict[str, Any]:
        return filled(name, self.settings[name].options)

    @property
    def names(self) -> frozenset[str]:
        """The names of all that an engine will have."""
        return frozenset({"self-protection", *(name for name in self.settings if self._on(name))})

    @property
    def trackers(self) -> tuple[str, ...]:
        """Those that others rely on."""
        return tuple(name for name in ("turn-tracker", "session-naming", "event-logger") if self._on(name))

    def hooks(self) -> list[Hook]:
        """Ordinary hooks, in the order of their priorities."""
        names = ("metrics", "turn-tracker", "session-naming", "rate-limit", "event-logger")
        return [self._made(name, self._options(name)) for name in names if self._on(name)]

    def _made(self, name: str, options: dict[str, Any]) -> Hook:
        """Each is imported only when it is needed."""
        if name == "metrics":
            from billhook.builtins.metrics import metrics

            return metrics(**options)
        if name == "turn-tracker":
            return turn_tracker.turn_tracker(self.state, **options)
        if name == "session-naming":
            from billhook.builtins.trackers import session_naming
            from billhook.store.sessions import Sessions

            return session_naming(Sessions(self.state), self.project)
        if name == "event-logger":
            from billhook.builtins.trackers import event_logger

            return event_logger()
        from billhook.builtins.rate_limit import RateLimit, rate_limit

        broken = self.settings[name].broken
        if broken:
            return _unusable(name, f"its options can't be used: {broken}", 15)
        return rate_limit(self.state, [RateLimit(**limit) for limit in options["limits"]], self.project)


def speaking_last(hooks: Sequence[Hook]) -> list[Hook]:
    """The same hooks for an engine that runs them at once: self-protection waits for all that come before it in turn.
    For what comes after it, by priority or by `after`, it can't wait."""
    from billhook.engine.plan import Plan

    in_turn = [hook.name for hook in Plan(hooks).hooks]
    at = in_turn.index("self-protection")
    earlier = tuple(dict.fromkeys(name for name in in_turn[:at] if name not in in_turn[at:]))
    return [msgspec.structs.replace(hook, after=earlier) if hook.name == "self-protection" else hook for hook in hooks]


def _unusable(name: str, why: str, priority: int) -> Hook:
    """What stands in for a guard that nobody can ask: a slip in its options must not open it."""

    def refuse(ctx: Context) -> Reply:
        return Reply(status=Status.COULD_NOT_START, error=why)

    return Hook(
        name=name,
        title="stands in for limits that can't be used",
        run=refuse,
        events=("PreToolUse",),
        priority=priority,
        on_failure="deny",
        source=Source(layer="built-in"),
    )
