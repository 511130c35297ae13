"""A configuration as it was loaded: every configured hook, what became of it, and an engine of them."""

import functools
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec.structs import replace

from billhook.config.builtin_hooks import StandIn
from billhook.config.builtin_options import filled
from billhook.config.declaration import (
    BUILTINS,
    Action,
    Declared,
    Exec,
    HookFields,
    Mask,
    NotYet,
    Python,
    Rewrite,
    RunAction,
    Say,
    Url,
)
from billhook.config.recorder import Knowing
from billhook.config.sources import Builtin, FileRead
from billhook.core import client_env, strictjson
from billhook.core.errors import StrictJSONError, UsageError
from billhook.core.hook import Hook, listens
from billhook.core.text import Finding
from billhook.store import files
from billhook.store.files import StoreError, sha256
from billhook.store.log.record import LARGEST_SNAPSHOT, is_hash, snapshot_path

if TYPE_CHECKING:
    from billhook.config.permissions import Rules
    from billhook.config.recorder import Recording
    from billhook.config.trust import Consent, Trust
    from billhook.engine.engine import Engine, Observer
    from billhook.engine.progress import Listener


State = Literal["runs", "off", "new", "changed", "broken", "not yet", "same", "elsewhere"]


class Entry(msgspec.Struct, frozen=True):
    """One configured hook and what became of it."""

    declared: Declared
    consent: "Consent"
    state: State
    """`runs`; `off`: switched off; `new`, `changed`: not approved; `broken`; `not yet`: a kind that we don't run;
    `same`: a more trusted layer has the very same hook; `elsewhere`: the agent that we are inside of runs it itself."""
    why: str = ""  # why it does not run; nothing when it does
    hook: Hook | None = None  # what an engine has for it: the hook, or what stands in for it
    shown: str = ""  # its name, unique in this configuration: `name`, `layer/name` or `layer/name#2`

    @property
    def hash(self) -> str:
        """What its approval is kept under; nothing when it needs none."""
        return self.consent.fingerprint.hash if self.consent.fingerprint is not None else ""

    @property
    def pending(self) -> bool:
        """It waits for consent."""
        return not self.consent.given and self.state not in ("off", "elsewhere")

    def with_hook(self, **changes: Any) -> "Entry":
        """The entry with these fields of its hook changed, if it has one."""
        return self if self.hook is None else replace(self, hook=replace(self.hook, **changes))


class Config(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What was loaded. Lives as long as its owner likes; never changes."""

    project: str
    root: str  # where billhook keeps its own files
    sources: tuple[FileRead, ...]
    entries: tuple[Entry, ...]  # every configured hook, most trusted layer first
    problems: tuple[Finding, ...]
    hooks: tuple[Hook, ...]  # what an engine runs: configured hooks, what stands in for some of them, and built-ins
    parallel: bool
    builtins: dict[str, Builtin]
    plan: Any = None
    knowing: Knowing | None = None  # tells hooks their session's name and turn; None without built-ins
    trust: "Trust" = "approved"  # what it was loaded with
    host: str = ""  # the agent that it was loaded for, where that runs some of the entries itself
    folder: str = ""  # the folder that it was loaded for

    @functools.cached_property
    def pending(self) -> tuple[Entry, ...]:
        """The hooks that wait for consent."""
        return tuple(entry for entry in self.entries if entry.pending)

    @functools.cached_property
    def installed(self) -> Mapping[str, int]:
        """In how many of the files billhook itself is a hook, by event."""
        found = [{event for entry in read.entries if entry.ours for event in entry.events} for read in self.sources]
        return Counter(event for events in found for event in events)

    @functools.cached_property
    def permissions(self) -> "Rules":
        """The permission rules of all files, for an agent; read when they are first asked for."""
        from billhook.config.permissions import rules_of

        return rules_of(self.sources, Path(self.root), self.trust)

    @functools.cached_property
    def unreadable(self) -> tuple[FileRead, ...]:
        """The files that can't be read at all."""
        return tuple(read for read in self.sources if not read.readable)

    def engine(
        self,
        *,
        hooks: Iterable[Hook] = (),
        observers: Iterable["Observer"] = (),
        host: str = "library",
        listen: "Listener | None" = None,
    ) -> "Engine":
        """An engine of its own: what is configured, and `hooks` of the caller's own among it, by their priorities.
        `host` is who it serves, for the log; `listen` hears of each hook that runs."""
        from billhook.config.notices import Notices
        from billhook.engine.engine import Engine
        from billhook.engine.plan import Plan

        more = tuple(hooks)
        recorded: list[Observer] = [] if self.recording is None else [self.recording.observer(host, more)]
        recorded += [*self._effects_seen(), *self._session_notes()]
        env = {
            "CLAUDE_PROJECT_DIR": client_env.environ().get("CLAUDE_PROJECT_DIR") or self.project,
            "BILLHOOK_AGENT": host,
        }
        own = self.hooks
        for hook in more if self.knowing is not None else ():
            if hook.name == "guard":  # many people call a hook so: then ours gets its longer name
                ours = [one.name == "guard" and one.source.layer == "built-in" for one in own]
                own = tuple(
                    replace(one, name=_GUARD) if is_ours else one for one, is_ours in zip(own, ours, strict=True)
                )
            elif hook.name in BUILTINS:
                raise UsageError(f"`{hook.name}` is the name of a built-in", hint="give your hook another name")
        return Engine(
            Plan([*own, *more]) if more else self.plan,
            parallel=self.parallel,
            observers=[*recorded, *observers],
            env=env,
            know=self.knowing,
            listen=listen,
            notices=None if self.knowing is None else Notices(self, host),
        )

    def _effects_seen(self) -> "Iterator[Observer]":
        """Records what calls would do, where a hook asks for it with `after_effect`."""
        asking = [one for one in self.entries if one.declared.conditions.after_effects and one.hook is not None]
        if asking and self.knowing is not None:
            from billhook.builtins.seen_effects import SeenEffects

            first = max(asking, key=lambda one: one.declared.gate)
            yield SeenEffects(self.knowing.state, first.shown, first.declared.gate)

    def _session_notes(self) -> "Iterator[Observer]":
        """Records when sessions begin and how many prompts they had, where a hook needs it."""
        asking = [one for one in self.entries if one.hook is not None and _needs_notes(one.declared)]
        if asking and self.knowing is not None:
            from billhook.builtins.session_notes import SessionNotes

            first = max(asking, key=lambda one: one.declared.gate)
            yield SessionNotes(self.knowing.state, self.project, first.shown, first.declared.gate)

    @functools.cached_property
    def recording(self) -> "Recording | None":
        """The event log; None where nothing is recorded."""
        settings = self.builtins["event-logger"]
        if self.knowing is None or settings.enabled is False:
            return None
        from billhook.config.recorder import Recording

        return Recording(self, filled("event-logger", settings.options), self.knowing)


def _needs_notes(declared: Declared) -> bool:
    limited = isinstance(declared.action, Say) and declared.action.limit > 0
    return limited or declared.conditions.once == "turn" or "changed_files" in repr(declared.conditions.when)


# Every configured hook as people want to see it:


Effect = Literal["runs", "blocks", "nothing"]
_TRUST = {"own": "own", "approved": "approved", "new": "not approved", "changed": "changed"}
_STATES: dict[Effect, State] = {"runs": "runs", "blocks": "broken", "nothing": "off"}

_GUARD = "built-in/guard"
_BUILT_IN = {"guard": "stops what can't be undone, and guards billhook's own files"}
_KINDS: dict[type, str] = {
    RunAction: "run",
    Exec: "exec",
    Python: "python",
    Url: "url",
    Say: "answer",
    Rewrite: "rewrite",
    Mask: "mask",
}


class HookRow(HookFields, frozen=True, kw_only=True):
    """One hook: what it is, where it is from, how it stands."""

    name: str  # as verdicts call it, unique here: `name`, `layer/name` or `layer/name#2`
    what: str
    kind: str  # run, exec, python, url, answer, built-in, or the kind of a handler that is not run yet; empty: broken
    trust: str  # own, approved, not approved, changed, or built-in
    state: State
    why: str = ""
    effect: Effect  # what an engine does for it: runs it, blocks what it would have judged, or nothing
    hash: str = ""  # what its approval is kept under, of hooks that have one; `exact_hash` of all others as well
    entry: Entry | None = None
    hooks: tuple[Hook, ...] = ()  # what an engine has for it, stand-ins included
    declared: Declared | None = None  # none: a built-in, or what stands in for a file that can't be read

    @property
    def place(self) -> str:
        """`file:line`; the layer where there is no file."""
        return f"{self.file}:{self.line}" if self.line else self.file or self.layer

    @property
    def exact_hash(self) -> str:
        """What its approval is, or would be, kept under. Looks at the hook's files, which takes time."""
        return self.entry.hash if self.entry is not None else ""

    @property
    def broken(self) -> str:
        """Why it can't be used as its file has it, whether it is approved or not."""
        return f"it can't be used: {self.declared.broken}" if self.declared is not None and self.declared.broken else ""

    @property
    def switch(self) -> bool:
        """It is no hook: all it does is to switch one off."""
        return self.declared is not None and self.declared.switch

    def wants(self, event: str) -> bool:
        """Whether it is for that event, whatever the event is about."""
        if self.switch:
            return False
        stand_ins = any(hook.wants(event) for hook in self.hooks)
        return stand_ins or (not self.hooks and listens(self.events, self.dialect, event))


def rows(config: Config) -> list[HookRow]:
    """Every hook once: those with an effect in running order, then those without."""
    by_hook = {id(entry.hook): entry for entry in config.entries if entry.hook is not None}
    by_place = {(one.declared.file, one.declared.line, one.shown): one for one in config.entries if one.hook}
    owners: dict[int, tuple[Entry | None, str, list[Hook]]] = {}
    for hook, name in zip(config.plan.hooks, config.plan.names, strict=True):
        # A gate that changed has a second stand-in, that is known by its place only.
        entry = by_hook.get(id(hook)) or by_place.get((hook.source.file, hook.source.line, hook.name))
        owners.setdefault(id(entry or hook), (entry, name, []))[2].append(hook)
    for entry in config.entries:
        owners.setdefault(id(entry), (entry, "", []))
    found = [
        _of_entry(entry, tuple(hooks)) if entry is not None else _alone(hooks[0], name)
        for entry, name, hooks in owners.values()
    ]
    return sorted(found, key=lambda row: row.effect == "nothing")


def _of_entry(entry: Entry, hooks: tuple[Hook, ...]) -> HookRow:
    declared = entry.declared
    return HookRow(
        name=entry.shown,
        what=declared.does,
        kind=kind_of(declared.action),
        trust=_TRUST[entry.consent.standing],
        state=entry.state,
        why=entry.why,
        effect=_effect(hooks),
        hash=entry.consent.loaded.hash if entry.consent.loaded is not None else "",
        entry=entry,
        hooks=hooks,
        declared=declared,
        **{field: getattr(declared, field) for field in HookFields.__struct_fields__},
    )


def _alone(hook: Hook, name: str) -> HookRow:
    effect = _effect((hook,))
    builtin = hook.source.layer == "built-in"
    own, place = (set(HookFields.__struct_fields__).intersection(one.__struct_fields__) for one in (hook, hook.source))
    shared = {field: getattr(hook, field) for field in own} | {field: getattr(hook.source, field) for field in place}
    return HookRow(
        name=name,
        what=_BUILT_IN.get(hook.name, hook.title) if builtin else "stands in for what can't be read",
        kind="built-in" if builtin else "",
        trust="built-in" if builtin else "own",
        state=_STATES[effect],
        why=hook.run.why if isinstance(hook.run, StandIn) else "",
        effect=effect,
        hooks=(hook,),
        **(shared | {"after": ()} if builtin else shared),
    )


def _effect(hooks: tuple[Hook, ...]) -> Effect:
    stand_ins = [hook.run.blocks for hook in hooks if isinstance(hook.run, StandIn)]
    return "blocks" if any(stand_ins) else "nothing" if len(stand_ins) == len(hooks) else "runs"


def kind_of(action: Action | None) -> str:
    """What kind of hook it is, in a word."""
    return action.kind if isinstance(action, NotYet) else _KINDS.get(type(action), "")


# A configuration as it was:


VERSION: Final = 1


class ConfigSnapshot:
    """One configuration, in the words of `billhook list --json`. Made once for each loaded configuration."""

    def __init__(self, config: "Config", redact: Callable[[Any], Any]) -> None:
        self._data = strictjson.encode(redact(content(config)))
        self.hash = sha256(self._data).hexdigest()
        self._root = Path(config.root)
        self.is_kept = False

    def keep(self) -> None:
        """Write it if it is missing or has another size. Raises StoreError, also for a link, a pipe or a folder."""
        if self.is_kept:
            return
        path, found = snapshot_path(self._root, self.hash), None
        with files.opened(path.parent, self._root, create=True) as folder, suppress(OSError):
            found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        # to read the file would cost every call; `billhook events verify` does
        if found is None or not stat.S_ISREG(found.st_mode) or found.st_size != len(self._data):
            files.write_atomically(path, self._data, root=self._root)
        self.is_kept = True


def kept(root: Path, hash: str) -> dict[str, Any] | None:  # noqa: A002 (the word that records use)
    """The configuration of that hash: `project`, `parallel`, `builtins`, and its `hooks` in running order; None when
    nobody kept it, or what is there is not that."""
    if not is_hash(hash):
        return None
    try:
        data = files.read_bytes(snapshot_path(root, hash), LARGEST_SNAPSHOT, root=root)
        if data is None or sha256(data).hexdigest() != hash:
            return None
        content = strictjson.loads(data, max_bytes=LARGEST_SNAPSHOT)
    except (StoreError, StrictJSONError):
        return None
    return content if isinstance(content, dict) else None


def content(config: "Config") -> dict[str, Any]:
    """What is kept of a configuration."""
    builtins = {
        name: {"enabled": one.enabled, "options": filled(name, one.options)} for name, one in config.builtins.items()
    }
    return {
        "v": VERSION,
        "project": config.project,
        "parallel": config.parallel,
        "builtins": builtins,
        "hooks": [as_data(row) for row in rows(config)],
    }


def as_data(row: "HookRow") -> dict[str, Any]:
    """A hook as JSON: what `billhook list --json` prints."""
    conditions = dict.fromkeys(("if", "effects", "after_effects")) | row.conditions.as_data()
    data = conditions | {key: getattr(row, _ATTRIBUTES.get(key, key)) for key in _KEYS.split()}
    data |= {key: data[key] or None for key in _OPTIONAL}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in data.items()}


_KEYS: Final = """
    name events what kind match dialect on_failure priority after timeout background always trust state effect why
    layer source file line hash
"""
_ATTRIBUTES: Final = {"source": "place"}
_OPTIONAL: Final = ("why", "file", "line", "hash")  # null where they say nothing
