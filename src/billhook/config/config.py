"""A loaded configuration: every configured hook with its state, and an engine that runs them."""

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

from billhook import __version__
from billhook.config.builtin_hooks import Review, StandIn, filled
from billhook.config.declaration import (
    BUILTINS,
    Action,
    Exec,
    FixedAnswer,
    HookDeclaration,
    HookFields,
    Mask,
    Python,
    Rewrite,
    RunAction,
    UnsupportedAction,
    Url,
)
from billhook.config.recorder import SessionLookup
from billhook.config.sources import Builtin, FileRead
from billhook.core import client_env, strictjson
from billhook.core.errors import StrictJSONError, UsageError
from billhook.core.hook import Hook, listens
from billhook.core.text import Finding
from billhook.store import files
from billhook.store.files import StoreError, sha256
from billhook.store.log import LARGEST_SNAPSHOT, is_hash, snapshot_path
from billhook.store.state import FileState

if TYPE_CHECKING:
    from billhook.approvals import ApprovalSettings
    from billhook.builtins.session_notes import SeenEffects, SessionNotes
    from billhook.config.fleet_policy import AppliedPolicy
    from billhook.config.override import Pause
    from billhook.config.permissions import Rules
    from billhook.config.recorder import LogRecorder
    from billhook.config.trust import Consent, Trust
    from billhook.core.answers import Verdict
    from billhook.engine.engine import Approve, Engine, Observer
    from billhook.engine.progress import Listener


State = Literal["runs", "off", "new", "changed", "broken", "not yet", "same", "elsewhere"]


class Entry(msgspec.Struct, frozen=True):
    """One configured hook and its state."""

    declared: HookDeclaration
    consent: "Consent"
    state: State
    """`runs`; `off`: switched off; `new`, `changed`: not approved; `broken`; `not yet`: a type that is not supported;
    `same`: a more trusted layer has the same hook; `elsewhere`: the agent that calls billhook runs it itself."""
    why: str = ""  # why it does not run; empty if it does
    hook: Hook | None = None  # the hook of an engine, or its stand-in
    shown: str = ""  # its name, unique in this configuration: `name`, `layer/name` or `layer/name#2`

    @property
    def hash(self) -> str:
        """The key of its approval; empty if it needs none."""
        return self.consent.fingerprint.hash if self.consent.fingerprint is not None else ""

    @property
    def pending(self) -> bool:
        """Whether it waits for consent."""
        return not self.consent.given and self.state not in ("off", "elsewhere", "not yet")

    def with_hook(self, **changes: Any) -> "Entry":
        """The entry with these fields of its hook changed, if it has one."""
        return self if self.hook is None else replace(self, hook=replace(self.hook, **changes))


class Config(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What was loaded. Never changes."""

    project: str
    root: str  # the folder of billhook's state
    sources: tuple[FileRead, ...]
    entries: tuple[Entry, ...]  # every configured hook, most trusted layer first
    problems: tuple[Finding, ...]
    hooks: tuple[Hook, ...]  # the hooks that an engine runs: configured hooks, stand-ins, and built-ins
    parallel: bool
    builtins: dict[str, Builtin]
    plan: Any = None
    knowing: SessionLookup | None = None  # looks up the name and turn of a session; None without built-ins
    trust: "Trust" = "approved"  # the `trust` that it was loaded with
    host: str = ""  # the agent that it was loaded for, if that runs some of the entries itself
    folder: str = ""  # the folder that it was loaded for
    pause: "Pause | None" = None  # `billhook pause`; it may be over
    fleet: "AppliedPolicy | None" = None  # the policy of the fleet that this machine is a host of
    approvals: "ApprovalSettings | None" = None  # `approvals:`; None: asks wait while a person watches the queue

    @functools.cached_property
    def pending(self) -> tuple[Entry, ...]:
        """The hooks that wait for consent."""
        return tuple(entry for entry in self.entries if entry.pending)

    @functools.cached_property
    def installed(self) -> Mapping[str, int]:
        """By event: in how many of the files billhook itself is a hook."""
        found = [{event for entry in read.entries if entry.ours for event in entry.events} for read in self.sources]
        return Counter(event for events in found for event in events)

    @functools.cached_property
    def permissions(self) -> "Rules":
        """The permission rules of all files, for an agent; read on first use."""
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
        approvals: bool = True,
    ) -> "Engine":
        """A new engine with the configured hooks and the caller's `hooks`, ordered by priority. `host` is the agent or
        program that it serves, for the log; `listen` is called for each hook that runs. Without `approvals` no ask
        waits for a person: for tests."""
        from billhook.config.notices import Notices
        from billhook.engine.engine import Engine
        from billhook.engine.plan import Plan

        more = tuple(hooks)
        recorded: list[Observer] = [] if self.recording is None else [self.recording.observer(host, more)]
        recorded += [] if self.knowing is None else self.noting(self.knowing.state)
        recorded += [one.review.settle for one in self.hooks if isinstance(one.review, Review)][:1]
        env = {
            "CLAUDE_PROJECT_DIR": client_env.environ().get("CLAUDE_PROJECT_DIR") or self.project,
            "BILLHOOK_AGENT": host,
        }
        own = self.hooks
        for hook in more if self.knowing is not None else ():
            if hook.name == "guard":  # a common name for a hook: the built-in then gets its longer name
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
            approve=self._approver(host) if approvals else None,
        )

    @functools.cached_property
    def queued(self) -> frozenset[str]:
        """The hooks with `approve: queue`."""
        return frozenset(one.shown for one in self.entries if one.declared.approve)

    def question_seconds(self, *, queued: bool) -> float:
        """The longest wait of a question that is configured: by `approvals:`, or because a hook has `approve: queue`.
        0: questions wait only while a person watches."""
        from billhook.approvals import ApprovalSettings

        own = self.approvals.seconds if self.approvals is not None else 0.0
        return own or (ApprovalSettings().seconds if queued else 0.0)

    def _approver(self, host: str) -> "Approve":
        """What happens to an ask. Its modules are loaded with the first one."""

        async def approve(verdict: "Verdict", ends: float) -> "Verdict":
            from billhook.config.approver import Approver

            return await Approver(self.approvals, self.queued, Path(self.root), self.project, host)(verdict, ends)

        return approve

    def noting(self, state: FileState) -> "Iterator[SeenEffects | SessionNotes]":
        """The observers that hooks need: the effects of calls for `after_effect`; when sessions began, and how many
        prompts they had. A failure counts for one of these hooks, a gate if there is one."""
        running = sorted((one for one in self.entries if one.hook is not None), key=lambda one: not one.declared.gate)
        for one in [one for one in running if one.declared.conditions.after_effects][:1]:
            from billhook.builtins.session_notes import SeenEffects

            yield SeenEffects(state, one.shown, one.declared.gate)
        for one in [one for one in running if _needs_notes(one.declared)][:1]:
            from billhook.builtins.session_notes import SessionNotes

            yield SessionNotes(state, self.project, one.shown, one.declared.gate)

    @functools.cached_property
    def recording(self) -> "LogRecorder | None":
        """The event log; None if nothing is recorded."""
        settings = self.builtins["event-logger"]
        if self.knowing is None or settings.enabled is False:
            return None
        from billhook.config.recorder import LogRecorder

        return LogRecorder(self, filled("event-logger", settings.options), self.knowing)


def _needs_notes(declared: HookDeclaration) -> bool:
    """Whether a hook depends on the start of a session or on its prompts."""
    limited = isinstance(declared.action, FixedAnswer) and declared.action.limit > 0
    return limited or declared.conditions.once == "turn" or "changed_files" in repr(declared.conditions.when)


# Every configured hook as a row for screens:


Effect = Literal["runs", "blocks", "nothing"]
_TRUST = {"own": "own", "approved": "approved", "new": "not approved", "changed": "changed"}
_STATES: dict[Effect, State] = {"runs": "runs", "blocks": "broken", "nothing": "off"}

_GUARD = "built-in/guard"
_BUILT_IN = {"guard": "stops what can't be undone, and protects billhook's files"}
_KINDS: dict[type, str] = {
    RunAction: "run",
    Exec: "exec",
    Python: "python",
    Url: "url",
    FixedAnswer: "answer",
    Rewrite: "rewrite",
    Mask: "mask",
}


class HookRow(HookFields, frozen=True, kw_only=True):
    """One hook: its action, source and state."""

    name: str  # as in verdicts, unique here: `name`, `layer/name` or `layer/name#2`
    what: str
    kind: str  # run, exec, python, url, answer, built-in, or the type of an unsupported handler; empty: broken
    trust: str  # own, approved, not approved, changed, or built-in
    state: State
    why: str = ""
    effect: Effect  # an engine runs it, blocks the events that it would have judged, or does nothing
    hash: str = ""  # the key of its approval, if it has one; `exact_hash` is set for all hooks
    entry: Entry | None = None
    hooks: tuple[Hook, ...] = ()  # its hooks in an engine, stand-ins included
    policy: str = ""  # the policy that it is part of, and its signer, in the layer `fleet`
    declared: HookDeclaration | None = None  # None: a built-in, or the stand-in for a file that can't be read

    @property
    def place(self) -> str:
        """`file:line`; the layer if there is no file."""
        return f"{self.file}:{self.line}" if self.line else self.file or self.layer

    @property
    def exact_hash(self) -> str:
        """The key that its approval has or would have. Reads the hook's files, which takes time."""
        return self.entry.hash if self.entry is not None else ""

    @property
    def broken(self) -> str:
        """Why its declaration can't be used, whether it is approved or not."""
        return f"it can't be used: {self.declared.broken}" if self.declared is not None and self.declared.broken else ""

    @property
    def switch(self) -> bool:
        """Whether it only switches another hook off."""
        return self.declared is not None and self.declared.switch

    def not_warm(self, project: str) -> str | None:
        """Why its Python script can't run in a warm interpreter, as far as its command tells; "": it can. None: it
        starts no Python script."""
        from billhook.config.trust import ApprovedHook
        from billhook.runners.command import CommandRunner

        run = self.hooks[0].run if self.hooks else None
        run = run.run if isinstance(run, ApprovedHook) else run
        text = " ".join(run.argv) if isinstance(run, CommandRunner) else ""
        if not isinstance(run, CommandRunner) or not ("python" in text or ".py" in text or "uv run" in text):
            return None
        if not run.warm:
            return "`warm: false`"
        from billhook.runners import warm

        folder = run.cwd or project
        return warm.reason(run.argv, {**client_env.environ(), "CLAUDE_PROJECT_DIR": folder}, folder)

    def handles(self, event: str) -> bool:
        """Whether it listens for that event, whatever its conditions are."""
        if self.switch:
            return False
        stand_ins = any(hook.handles(event) for hook in self.hooks)
        return stand_ins or (not self.hooks and listens(self.events, self.dialect, event))


def rows(config: Config) -> list[HookRow]:
    """Every hook once: those with an effect in running order, then those without."""
    by_hook = {id(entry.hook): entry for entry in config.entries if entry.hook is not None}
    by_place = {(one.declared.file, one.declared.line, one.shown): one for one in config.entries if one.hook}
    owners: dict[int, tuple[Entry | None, str, list[Hook]]] = {}
    for hook, name in zip(config.plan.hooks, config.plan.names, strict=True):
        # A gate that changed has a second stand-in, which is found by its place only.
        entry = by_hook.get(id(hook)) or by_place.get((hook.source.file, hook.source.line, hook.name))
        owners.setdefault(id(entry or hook), (entry, name, []))[2].append(hook)
    for entry in config.entries:
        owners.setdefault(id(entry), (entry, "", []))
    found = [
        _of_entry(entry, tuple(hooks)) if entry is not None else _single_row(hooks[0], name)
        for entry, name, hooks in owners.values()
    ]
    if config.fleet is not None:
        signed = config.fleet.signed
        found = [replace(row, policy=signed) if row.layer == "fleet" else row for row in found]
    return sorted(found, key=lambda row: row.effect == "nothing")


def _of_entry(entry: Entry, hooks: tuple[Hook, ...]) -> HookRow:
    declared = entry.declared
    return HookRow(
        name=entry.shown,
        what=declared.does,
        kind=kind_of(declared.action),
        trust=_TRUST[entry.consent.state],
        state=entry.state,
        why=entry.why,
        effect=_effect(hooks),
        hash=entry.consent.loaded.hash if entry.consent.loaded is not None else "",
        entry=entry,
        hooks=hooks,
        declared=declared,
        **{field: getattr(declared, field) for field in HookFields.__struct_fields__},
    )


def _single_row(hook: Hook, name: str) -> HookRow:
    effect = _effect((hook,))
    builtin = hook.source.layer == "built-in"
    own, place = (set(HookFields.__struct_fields__).intersection(one.__struct_fields__) for one in (hook, hook.source))
    shared = {field: getattr(hook, field) for field in own} | {field: getattr(hook.source, field) for field in place}
    return HookRow(
        name=name,
        what=_BUILT_IN.get(hook.name, hook.title) if builtin else "replaces a file that can't be read",
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
    """The kind of a hook, in one word."""
    return action.kind if isinstance(action, UnsupportedAction) else _KINDS.get(type(action), "")


# Snapshots of configurations:


VERSION: Final = 1


class ConfigSnapshot:
    """One configuration, as `billhook list --json` prints it. Made once for each loaded configuration."""

    def __init__(self, config: "Config", redact: Callable[[Any], Any]) -> None:
        self._data = strictjson.encode(redact(content(config)))
        self.hash = sha256(self._data).hexdigest()
        self._root = Path(config.root)
        self.is_saved = False

    def save(self) -> None:
        """Write it if it is missing or has another size. Raises StoreError, also for a link, a pipe or a folder."""
        if self.is_saved:
            return
        path, found = snapshot_path(self._root, self.hash), None
        with files.opened(path.parent, self._root, create=True) as folder, suppress(OSError):
            found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        # reading the file would slow down every call; `billhook events verify` does it
        if found is None or not stat.S_ISREG(found.st_mode) or found.st_size != len(self._data):
            files.write_atomically(path, self._data, root=self._root)
        self.is_saved = True


def read_snapshot(root: Path, hash: str) -> dict[str, Any] | None:  # noqa: A002 (its name in records)
    """The configuration with that hash: `project`, `parallel`, `builtins`, and its `hooks` in running order; None if
    its snapshot is missing or has another hash."""
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
    """The content of a snapshot."""
    builtins = {
        name: {"enabled": one.enabled, "options": filled(name, one.options)} for name, one in config.builtins.items()
    }
    guards = (hook.run for hook in config.hooks if hook.source.layer == "built-in" and hasattr(hook.run, "settings"))
    return {
        "v": VERSION,
        "version": __version__,
        "project": config.project,
        "parallel": config.parallel,
        "builtins": builtins,
        "allowed": [str(rule) for guard in guards for rule in guard.settings.allowed],  # by the user's rules
        "hooks": [as_data(row) for row in rows(config)],
    }


def as_data(row: "HookRow") -> dict[str, Any]:
    """A hook as JSON: what `billhook list --json` prints."""
    conditions = dict.fromkeys(("if", "effects", "after_effects")) | row.conditions.as_data()
    data = conditions | {key: getattr(row, _ATTRIBUTES.get(key, key)) for key in _KEYS.split()}
    data |= {key: data[key] or None for key in _OPTIONAL}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in data.items()}


_KEYS: Final = """
    name events what kind match dialect on_failure priority after timeout background always shadow trust state effect
    why layer source file line hash
"""
_ATTRIBUTES: Final = {"source": "place"}
_OPTIONAL: Final = ("why", "file", "line", "hash")  # null if they are empty
