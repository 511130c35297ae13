"""Every configured hook as people want to see it: in the order in which it runs, with what became of it."""

from collections import defaultdict
from typing import Any, Literal

import msgspec

from billhook.answers import OnFailure
from billhook.config.declared import Action, Declared, Exec, NotYet, Python, Run, Say, Url
from billhook.config.loaded import Config, Entry, State
from billhook.config.stand_ins import Absence, Refusal
from billhook.hook import Hook, Source, listens

Effect = Literal["runs", "blocks", "nothing"]
_TRUST = {"own": "own", "approved": "approved", "new": "not approved", "changed": "changed"}
_STATES: dict[Effect, State] = {"runs": "runs", "blocks": "broken", "nothing": "off"}

_BUILT_IN = {"self-protection": "guards billhook's own configuration, approvals and state"}
_KINDS: dict[type, str] = {Run: "run", Exec: "exec", Python: "python", Url: "url", Say: "answer"}
_SHARED = ("events", "match", "dialect", "on_failure", "priority", "after", "timeout", "background", "always")
"""Fields that are called the same in a declaration, in a hook and here."""
_PLACE = ("layer", "file", "line")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One hook: what it is, where it is from, how it stands."""

    name: str  # as verdicts call it, unique here: `name`, `layer/name` or `layer/name#2`
    what: str
    kind: str  # run, exec, python, url, answer, built-in, or the kind of a handler that is not run yet; empty: broken
    events: tuple[str, ...] = ()  # none: every event
    match: str | None = None
    part: str = ""
    when: str = ""
    dialect: str = ""
    on_failure: OnFailure = "allow"
    priority: int | float = 100
    after: tuple[str, ...] = ()
    timeout: float | None = None
    background: bool = False
    always: bool = False
    trust: str  # own, approved, not approved, changed, or built-in
    state: State
    why: str = ""
    effect: Effect  # what an engine does for it: runs it, blocks what it would have judged, or nothing
    layer: str = ""
    file: str = ""
    line: int = 0
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
        declared = self.declared
        return declared is not None and declared.action is None and not declared.enabled and not declared.broken

    def wants(self, event: str) -> bool:
        """Whether it is for that event, whatever the event is about."""
        if self.switch:
            return False
        stand_ins = any(hook.wants(event) for hook in self.hooks)
        return stand_ins or (not self.hooks and listens(self.events, self.dialect, event))


def rows(config: Config) -> list[Row]:
    """Every hook once: those with an effect in running order, then those without."""
    by_hook = {id(entry.hook): entry for entry in config.entries if entry.hook is not None}
    by_place = {(one.declared.file, one.declared.line, one.shown): one for one in config.entries if one.hook}
    of_entry: defaultdict[int, list[Hook]] = defaultdict(list)
    owners: list[tuple[Hook, str, Entry | None]] = []
    for hook, name in zip(config.plan.hooks, config.plan.names, strict=True):
        # A gate that changed has a second stand-in, that is known by its place only.
        entry = by_hook.get(id(hook)) or by_place.get((hook.source.file, hook.source.line, hook.name))
        first = entry is None or id(entry) not in of_entry
        if entry is not None:
            of_entry[id(entry)].append(hook)
        if first:
            owners.append((hook, name, entry))
    found = [
        _of_entry(entry, tuple(of_entry[id(entry)])) if entry is not None else _alone(hook, name)
        for hook, name, entry in owners
    ]
    found += [_of_entry(entry, ()) for entry in config.entries if id(entry) not in of_entry]
    return sorted(found, key=lambda row: row.effect == "nothing")


def _fields(source: Declared | Hook | Source, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def _of_entry(entry: Entry, hooks: tuple[Hook, ...]) -> Row:
    declared = entry.declared
    return Row(
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
        **_fields(declared, (*_SHARED, *_PLACE, "part", "when")),
    )


def _alone(hook: Hook, name: str) -> Row:
    effect = _effect((hook,))
    builtin = hook.source.layer == "built-in"
    return Row(
        name=name,
        what=_BUILT_IN.get(hook.name, hook.title) if builtin else "stands in for what can't be read",
        kind="built-in" if builtin else "",
        trust="built-in" if builtin else "own",
        state=_STATES[effect],
        why=hook.run.why if isinstance(hook.run, Refusal | Absence) else "",
        effect=effect,
        hooks=(hook,),
        **{**_fields(hook, _SHARED), **({"after": ()} if builtin else {}), **_fields(hook.source, _PLACE)},
    )


def _effect(hooks: tuple[Hook, ...]) -> Effect:
    if any(isinstance(hook.run, Refusal) for hook in hooks):
        return "blocks"
    return "nothing" if all(isinstance(hook.run, Absence) for hook in hooks) else "runs"


def kind_of(action: Action | None) -> str:
    """What kind of hook it is, in a word."""
    return action.kind if isinstance(action, NotYet) else _KINDS.get(type(action), "")
