"""`after`: who waits for whom. A missing name or a cycle breaks the hooks that are part of it, and no others.

A less trusted layer can't break a hook of a more trusted one by waiting for it: of a cycle through several layers only
the least trusted hooks are broken, and a name means the hooks of one's own and more trusted layers.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from billhook.config import layers
from billhook.config.config import Entry
from billhook.config.declared import Action, Declared, Exec, Python, Say, Url
from billhook.config.fields import BUILTINS
from billhook.core.lazy import pattern
from billhook.core.text import Finding, nearest


def settle_order(entries: Sequence[Entry], *, builtins: frozenset[str]) -> tuple[list[Entry], list[Finding]]:
    """The entries by unique names, each waiting only for hooks that run, and `builtins`; and what is wrong."""
    settled = _named(entries)
    findings: list[Finding] = []
    waits: dict[int, list[int]] = {}
    for i, entry in enumerate(settled):
        found, missing = _meant(i, settled)
        if missing:
            message = f"it runs after `{missing}`, which does not exist"
            near = nearest(missing, [*(one.declared.name for one in settled), *BUILTINS])
            hint = f"did you mean `{near}`?" if near else "remove it, or name a hook that is there"
            findings.append(_finding("BH212", message, hint, entry.declared))
            settled[i] = _broken(entry, message)
        waits[i] = found
    for i, entry in enumerate(settled):
        way = _way_back(i, waits, layers.rank(entry.declared.layer), settled)
        if way:
            message = f"hooks wait for each other: {' -> '.join(settled[at].declared.name for at in way)}"
            findings.append(_finding("BH213", message, "remove one of these `after`", entry.declared))
            settled[i] = _broken(entry, message)
    return [_waiting(entry, [settled[j] for j in waits[i]], builtins) for i, entry in enumerate(settled)], findings


def _named(entries: Sequence[Entry]) -> list[Entry]:
    """The same name in two layers is shown as `layer/name`; one that comes again in a layer is numbered."""
    times = Counter(entry.declared.name for entry in entries)
    seen: Counter[str] = Counter()
    named = []
    for entry in entries:
        name = entry.declared.name
        if times[name] > 1:
            name = f"{entry.declared.layer}/{name}"
        seen[name] += 1
        shown = name if seen[name] == 1 else f"{name}#{seen[name]}"
        hook = entry.hook and msgspec.structs.replace(entry.hook, name=shown)
        named.append(msgspec.structs.replace(entry, shown=shown, hook=hook))
    return named


def _meant(i: int, entries: Sequence[Entry]) -> tuple[list[int], str]:
    own = layers.rank(entries[i].declared.layer)
    found: list[int] = []
    for name in entries[i].declared.after:
        called = [j for j, one in enumerate(entries) if name in (one.declared.name, one.shown)]
        above = [j for j in called if layers.rank(entries[j].declared.layer) <= own]
        if not above and name not in BUILTINS:
            return found, name
        found += above
    return found, ""


def _finding(code: str, message: str, hint: str, declared: Declared) -> Finding:
    line, column = declared.places.get("after", (declared.line, declared.column))
    return Finding(code, message, declared.file, line, column, hint, declared.name)


def _broken(entry: Entry, why: str) -> Entry:
    if entry.state != "runs":
        return entry  # whatever stands in for it stays
    hook = None
    if entry.declared.gate:
        from billhook.config.build import refusal

        stand_in = refusal(entry.declared, f"{why} ({entry.declared.place})")
        hook = msgspec.structs.replace(stand_in, name=entry.shown)
    return msgspec.structs.replace(entry, state="broken", why=why, hook=hook)


def _waiting(entry: Entry, others: Sequence[Entry], builtins: frozenset[str]) -> Entry:
    if entry.hook is None or not entry.declared.after:
        return entry
    names = [one.shown for one in others if one.state == "runs"]
    names += [name for name in entry.declared.after if name in builtins]
    after = tuple(dict.fromkeys(names)) if entry.state == "runs" else ()
    return msgspec.structs.replace(entry, hook=msgspec.structs.replace(entry.hook, after=after))


def _way_back(start: int, waits: dict[int, list[int]], rank: int, entries: Sequence[Entry]) -> list[int]:
    """How a hook that runs waits for itself, through hooks that run and are at least as trusted; empty: it doesn't."""

    def next_to(at: int) -> list[int]:
        others = [(j, entries[j]) for j in waits[at]]  # one that was found broken a moment ago is part of the cycle
        return [j for j, one in others if one.state in ("runs", "broken") and layers.rank(one.declared.layer) <= rank]

    came_from: dict[int, int] = {}
    to_do = [start] if waits[start] and entries[start].state == "runs" else []
    while to_do:
        at = to_do.pop()
        for j in next_to(at):
            if j == start:
                way = [start]
                while at != start:
                    way.insert(0, at)
                    at = came_from[at]
                return [start, *way]
            if j not in came_from:
                came_from[j] = at
                to_do.append(j)
    return []


# `${VAR}` and `${VAR:-default}` in hooks.yaml, put in when a hook is about to be made and never before it may
# run.


_VARIABLE = pattern(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^{}\\]|\\.)*))?\}")


class UnsetError(Exception):
    """A variable that is not set, and has no default."""


class Values:
    """The variables of one load. Notes which were asked for, so that a cached result knows what it depends on."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.used: dict[str, str | None] = {}

    def fill(self, text: str, folder: str = "") -> str:
        """The text with its variables put in; `$${VAR}` stays as `${VAR}`. UnsetError names one that is missing."""
        return _VARIABLE.sub(lambda found: self._value(found, folder), text) if "${" in text else text

    def _value(self, found: re.Match[str], folder: str) -> str:
        escaped, name, default = found.groups()
        if escaped:
            return found[0][1:]
        if name == "CLAUDE_PROJECT_DIR":  # the hook's own project, whatever is set outside
            return folder
        value = self.used[name] = self._env.get(name)
        if value or (value is not None and default is None):
            return value
        if default is None:
            raise UnsetError(name)
        return str(default)


def interpolated(declared: Declared, values: Values) -> Declared:
    """The hook with its variables put in. Only hooks.yaml has them; elsewhere the text means itself."""
    if declared.shape != "yaml":
        return declared

    def fill(text: str) -> str:
        return values.fill(text, declared.folder)

    return msgspec.structs.replace(
        declared,
        action=_filled(declared.action, fill),
        match=None if declared.match is None else fill(declared.match),
        when=fill(declared.when),
        title=fill(declared.title),
    )


def _filled(action: Action | None, fill: Callable[[str], str]) -> Action | None:
    match action:
        case Exec(argv):
            return Exec(tuple(fill(word) for word in argv))
        case Python(target, interpreter):
            return Python(fill(target), fill(interpreter))
        case Url(url, headers, allowed_env):
            return Url(fill(url), headers, allowed_env)  # headers take only what is allowed to them, at each call
        case Say(decision, text):
            return Say(decision, fill(text))
        case _:
            return action
