"""A configuration as it was loaded: every configured hook, what became of it, and an engine of them."""

import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from billhook import caller
from billhook.config.declared import Declared
from billhook.config.fileread import Builtin, FileRead
from billhook.config.findings import Finding
from billhook.config.keys import BUILTINS
from billhook.config.knowing import Knowing
from billhook.config.options import filled
from billhook.errors import UsageError
from billhook.hook import Hook

if TYPE_CHECKING:
    from billhook.config.consent import Consent, Trust
    from billhook.config.permitting import Rules
    from billhook.config.recording import Recording
    from billhook.engine import Engine, Observer
    from billhook.progress import Listener

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
        from billhook.config.permitting import rules_of

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
        from billhook.engine import Engine
        from billhook.plan import Plan

        more = tuple(hooks)
        recorded = [] if self.recording is None else [self.recording.observer(host, more)]
        env = {"CLAUDE_PROJECT_DIR": caller.environ().get("CLAUDE_PROJECT_DIR") or self.project}
        for hook in more if self.knowing is not None else ():
            if hook.name in BUILTINS:
                raise UsageError(f"`{hook.name}` is the name of a built-in", hint="give your hook another name")
        return Engine(
            Plan([*self.hooks, *more]) if more else self.plan,
            parallel=self.parallel,
            observers=[*recorded, *observers],
            env=env,
            know=self.knowing,
            listen=listen,
            notices=None if self.knowing is None else Notices(self, host),
        )

    def switched_off_builtins(self, event: str) -> list[str]:
        """The built-ins for an event that their owner switched off."""
        from billhook.config.builtin import EVENTS

        off = [(name, events) for name, events in EVENTS.items() if self.builtins[name].enabled is False]
        return [name for name, events in off if not events or event in events]

    @functools.cached_property
    def recording(self) -> "Recording | None":
        """The event log; None where nothing is recorded."""
        settings = self.builtins["event-logger"]
        if self.knowing is None or settings.enabled is False:
            return None
        from billhook.config.recording import Recording

        return Recording(self, filled("event-logger", settings.options), self.knowing)
