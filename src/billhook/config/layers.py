"""Merge layers. A less trusted layer can only tighten: it can't switch off, loosen or shorten what a more trusted layer
set.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from billhook.config import builtin_hooks
from billhook.config.config import Entry
from billhook.config.declaration import (
    BUILTINS,
    EVENT_VARIABLES,
    LAYERS,
    Action,
    Exec,
    FixedAnswer,
    HookDeclaration,
    Layer,
    Python,
    Url,
    needs_consent,
)
from billhook.config.sources import Builtin, FileRead
from billhook.core.lazy import pattern
from billhook.core.text import Finding, suggestion

if TYPE_CHECKING:
    from billhook.config.build import Limits


_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def layer_rank(layer: Layer) -> int:
    """0 is the most trusted."""
    return LAYERS.index(layer)


def switched_off(reads: Sequence[FileRead]) -> tuple[list[HookDeclaration], list[str], list[Finding]]:
    """All entries; for each, the reason if it is switched off; and findings for layers that can't switch it off.

    An entry that a project's file switches off gets `enabled: false` in its definition: switching off an approved hook
    is a change like any other, and for a gate the change must be approved.
    """
    entries = [entry for read in reads for entry in read.entries]
    off: dict[int, tuple[Layer, str]] = {}
    findings: list[Finding] = []
    for read in reads:
        if read.disable_all:
            line, _ = read.places.get("disableAllHooks", (1, 1))
            why = f"`disableAllHooks` in {read.source.path}:{line}"
            for i, entry in enumerate(entries):
                if layer_rank(entry.layer) >= layer_rank(read.source.layer):
                    off.setdefault(i, (read.source.layer, why))
    by_name: dict[str, list[int]] = defaultdict(list)
    for i, entry in enumerate(entries):
        by_name[entry.name].append(i)
    for i, switch in enumerate(entries):
        if switch.enabled or switch.broken:
            continue
        why = f"`enabled: false` in {switch.place}"
        off.setdefault(i, (switch.layer, why))
        for j in by_name[switch.name] if switch.named and switch.action is None else ():
            entry = entries[j]
            if layer_rank(entry.layer) >= layer_rank(switch.layer):
                off.setdefault(j, (switch.layer, why))
            elif entry.enabled:
                what = f"`{entry.name}` of the {entry.layer} layer ({entry.place})"
                message, hint = f"a {switch.layer} file can't switch off {what}", "switch it off there, or remove this"
                findings.append(switch.finding("BH215", "enabled", message, hint))
    for i, (layer, _) in off.items():
        if needs_consent(layer) and entries[i].enabled:
            entries[i] = replace(entries[i], enabled=False)
    return entries, [off[i][1] if i in off else "" for i in range(len(entries))], findings


def parallel(reads: Sequence[FileRead]) -> bool:
    """Whether hooks run in parallel. A file's `true` counts only if every more trusted file with hooks has it, too:
    parallel hooks see only the original input, which would loosen hooks that rely on their order."""
    for layer in reversed(LAYERS):
        own = [read for read in reads if read.source.layer == layer]
        if not any(read.parallel for read in own) or any(read.parallel is False for read in own):
            continue
        above = [read for read in reads if layer_rank(read.source.layer) < layer_rank(layer)]
        if all(read.parallel is True or (read.parallel is None and not read.entries) for read in above):
            return True
    return False


def builtin_settings(reads: Sequence[FileRead]) -> tuple[dict[str, Builtin], list[Finding]]:
    """The settings of each built-in: the most trusted file decides each key. A project can only tighten."""
    settled = {name: Builtin(name) for name in BUILTINS}
    findings: list[Finding] = []
    for read in sorted(reads, key=lambda read: (read.source.tightens, layer_rank(read.source.layer))):
        path, layer, tightens = read.source.path, read.source.layer, read.source.tightens
        of_project = needs_consent(layer)
        for settings in read.builtins:
            so_far, enabled, kept = settled[settings.name], settings.enabled, dict(settings.options)
            if enabled is False and tightens:
                message = f"a {layer} file can't switch off the built-in `{settings.name}`"
                hint = "switch it off in your own hooks.yaml"
                findings.append(Finding("BH215", message, path, settings.line, settings.column, hint))
                enabled = None
            for option in builtin_hooks.refused(settings.name, kept) if tightens else ():
                message, hint = _refused_option(layer, settings.name, option)
                findings.append(Finding("BH215", message, path, *settings.place_of(option), hint))
            kept = builtin_hooks.tightening(settings.name, kept) if tightens else kept
            settled[settings.name] = replace(
                so_far,
                enabled=so_far.enabled if so_far.enabled is not None else enabled,
                options=builtin_hooks.merged(settings.name, so_far.options, kept),
                broken=so_far.broken or ("" if of_project else settings.broken and f"{path}: {settings.broken}"),
            )
    return settled, findings


def _refused_option(layer: Layer, builtin: str, option: str) -> tuple[str, str]:
    """The finding about a setting that a project can't make: what is wrong, and the hint."""
    message = f"a {layer} file can't set `{option}` of `{builtin}` to this value"
    if (builtin, option) == ("guard", "preset"):
        message = f"a {layer} file can't disable the guard"
    elif builtin == "guard":
        message = f"a {layer} file can only make the guard stricter; this `{option}` is ignored"
    return message, "remove it, or set it in your own hooks.yaml"


def limits(reads: Sequence[FileRead], layer: Layer) -> "Limits":
    """The allow-lists for the HTTP hooks of a layer: its list and those of all more trusted layers must agree."""
    from billhook.config.build import Limits

    above = [[read for read in reads if read.source.layer == one] for one in LAYERS[: layer_rank(layer) + 1]]

    def each(field: str) -> tuple[tuple[str, ...], ...]:
        lists = ([getattr(read, field) for read in own if getattr(read, field) is not None] for own in above)
        return tuple(tuple(chain.from_iterable(some)) for some in lists if some)

    warm = not any(read.warm is False for read in reads if not needs_consent(read.source.layer))
    return Limits(each("allowed_urls"), each("allowed_header_env"), warm)


def what(entry: HookDeclaration) -> tuple[object, ...]:
    """The properties that make hooks of different layers the same hook."""
    when = (entry.events, entry.match, entry.conditions, entry.background, entry.always, entry.shadow)
    return (entry.action, when, entry.dialect, entry.folder)


def stricter(one: HookDeclaration, other: HookDeclaration) -> HookDeclaration:
    """The first, with the stricter failure rule of both."""
    looser = _STRICTNESS[other.on_failure] <= _STRICTNESS[one.on_failure]
    return one if looser else replace(one, on_failure=other.on_failure)


# `after`:


def settle_order(entries: Sequence[Entry], *, builtins: frozenset[str]) -> tuple[list[Entry], list[Finding]]:
    """The entries with unique names, each waiting only for hooks that run and for `builtins`; and the findings."""
    settled = _named(entries)
    findings: list[Finding] = []
    waits: dict[int, list[int]] = {}
    for i, entry in enumerate(settled):
        found, missing = _predecessors(i, settled)
        if missing:
            message = f"{entry.declared.subject} runs after `{missing}`, but no hook has that name"
            known = [*(one.declared.name for one in settled), *BUILTINS]
            hint = suggestion(missing, known, "remove `after`, or name a hook that exists")
            findings.append(entry.declared.finding("BH212", "after", message, hint))
            settled[i] = _broken(entry, message)
        waits[i] = found
    for i, entry in enumerate(settled):
        way = _way_back(i, waits, layer_rank(entry.declared.layer), settled)
        if way:
            message = f"hooks wait for each other: {' -> '.join(settled[at].declared.name for at in way)}"
            findings.append(entry.declared.finding("BH213", "after", message, "remove one of these `after` keys"))
            settled[i] = _broken(entry, message)
    return [_waiting(entry, [settled[j] for j in waits[i]], builtins) for i, entry in enumerate(settled)], findings


def _named(entries: Sequence[Entry]) -> list[Entry]:
    """The same name in two layers is shown as `layer/name`; a second hook of that name in one layer gets a number."""
    times = Counter(entry.declared.name for entry in entries)
    seen: Counter[str] = Counter()
    named = []
    for entry in entries:
        name = entry.declared.name
        if times[name] > 1:
            name = f"{entry.declared.layer}/{name}"
        seen[name] += 1
        shown = name if seen[name] == 1 else f"{name}#{seen[name]}"
        named.append(replace(entry.with_hook(name=shown), shown=shown))
    return named


def _predecessors(i: int, entries: Sequence[Entry]) -> tuple[list[int], str]:
    own = layer_rank(entries[i].declared.layer)
    found: list[int] = []
    for name in entries[i].declared.after:
        called = [j for j, one in enumerate(entries) if name in (one.declared.name, one.shown)]
        above = [j for j in called if layer_rank(entries[j].declared.layer) <= own]
        if not above and name not in BUILTINS:
            return found, name
        found += above
    return found, ""


def _broken(entry: Entry, why: str) -> Entry:
    if entry.state != "runs":
        return entry  # its replacement, if any, stays
    hook = None
    if entry.declared.gate:
        from billhook.config.build import refusal

        hook = replace(refusal(entry.declared, f"{why} ({entry.declared.place})"), name=entry.shown)
    return replace(entry, state="broken", why=why, hook=hook)


def _waiting(entry: Entry, others: Sequence[Entry], builtins: frozenset[str]) -> Entry:
    if not entry.declared.after:
        return entry
    names = [one.shown for one in others if one.state == "runs"]
    names += [name for name in entry.declared.after if name in builtins]
    return entry.with_hook(after=tuple(dict.fromkeys(names)) if entry.state == "runs" else ())


def _way_back(start: int, waits: dict[int, list[int]], rank: int, entries: Sequence[Entry]) -> list[int]:
    """The cycle in which a hook waits for itself, through hooks that run and are at least as trusted; empty: none."""

    def next_to(at: int) -> list[int]:
        others = [(j, entries[j]) for j in waits[at]]  # a hook that this check found broken is part of the cycle
        return [j for j, one in others if one.state in ("runs", "broken") and layer_rank(one.declared.layer) <= rank]

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


# `${VAR}` and `${VAR:-default}` in hooks.yaml are replaced when a hook is built, and never before it may run.


_VARIABLE = pattern(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^{}\\]|\\.)*))?\}")


def reads_environment(text: str) -> bool:
    """Whether text contains a variable of the environment; those of the event don't count."""
    return any(not escaped and name not in EVENT_VARIABLES for escaped, name, _ in _VARIABLE.findall(text))


class UnsetError(Exception):
    """A variable that is not set, and has no default."""


class Values:
    """The variables of one load. `used` are those that were read: a cached result depends on them."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.used: dict[str, str | None] = {}

    def fill(self, text: str, folder: str = "") -> str:
        """The text with its variables replaced; `$${VAR}` becomes `${VAR}`. Raises UnsetError with a missing name."""
        return _VARIABLE.sub(lambda found: self._value(found, folder), text) if "${" in text else text

    def _value(self, found: re.Match[str], folder: str) -> str:
        escaped, name, default = found.groups()
        if name in EVENT_VARIABLES:  # replaced later, for each event
            return found[0]
        if escaped:
            return found[0][1:]
        if name == "CLAUDE_PROJECT_DIR":  # the hook's project, whatever the environment has
            return folder
        value = self.used[name] = self._env.get(name)
        if value or (value is not None and default is None):
            return value
        if default is None:
            raise UnsetError(name)
        return str(default)


def interpolated(declared: HookDeclaration, values: Values) -> HookDeclaration:
    """The hook with its variables replaced. Only hooks.yaml has variables; other files are left as they are."""
    if declared.shape != "yaml":
        return declared

    def fill(text: str) -> str:
        return values.fill(text, declared.folder)

    wanted = declared.conditions

    return replace(
        declared,
        action=_filled(declared.action, fill),
        match=None if declared.match is None else fill(declared.match),
        conditions=replace(wanted, rules=tuple(map(fill, wanted.rules))),
        title=fill(declared.title),
    )


def _filled(action: Action | None, fill: Callable[[str], str]) -> Action | None:
    match action:
        case Exec(argv):
            return Exec(tuple(map(fill, argv)))
        case Python(target, interpreter):
            return replace(action, target=fill(target), interpreter=fill(interpreter))
        case Url(url):
            return replace(action, url=fill(url))  # headers are filled at each call, with allowed variables only
        case FixedAnswer(_, text, file):
            return replace(action, text=fill(text), file=fill(file))
    return action
