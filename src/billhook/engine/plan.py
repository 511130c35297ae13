"""Which hooks an event gets, and in which order: compiled once, looked up in a dict.

Order: priority ascending, then `after`, then the given order. Stable. A hook whose `run` has `runs_last` comes after
all hooks that don't wait for it, whatever their priority.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from billhook.core import tools
from billhook.core.answers import OnFailure
from billhook.core.dialect_traits import meanings
from billhook.core.errors import PlanError
from billhook.core.events import EVENTS, Event
from billhook.core.hook import Hook
from billhook.core.lazy import lazy_module
from billhook.core.match import ExpressionSet
from billhook.engine.step import ReviewedStep, ShadowStep, Step, is_async

if TYPE_CHECKING:
    import heapq
else:
    heapq = lazy_module("heapq")

_STRICTNESS: dict[OnFailure, int] = {"allow": 0, "ask": 1, "deny": 2}
_CACHE_LIMIT = 1024
_WRITE_OR_EDIT = "Write\0Edit"  # the name of a tool that may be either; no real tool has this name


class Steps(tuple[Step, ...]):
    """The hooks that handle an event, in order."""

    waits: bool  # at least one of them may wait
    grouped: bool  # some of them start together, or share a request
    waves: "list[list[Step]] | None"  # the same steps as groups that start together; None: each runs alone
    following: dict[Step, list[Step]]  # by step: the steps directly after it that one request to a worker may include

    def __new__(cls, steps: Iterable[Step]) -> "Steps":
        made = super().__new__(cls, steps)
        made.waits = any(step.waits for step in made)
        made.waves = together(made) if made.waits else None
        made.following = _following(made)
        made.grouped = made.waves is not None or bool(made.following)
        return made


def together(steps: Iterable[Step]) -> list[list[Step]] | None:
    """The steps in waves: neighbours that their agent would start together (`Hook.together`). None if no wave would
    have two steps that wait: then a task for each would only cost time."""
    waves = [list(group) for _, group in groupby(steps, key=lambda step: step.hook.together or step)]
    return waves if any(sum(step.waits for step in wave) > 1 for wave in waves) else None


class Plan:
    """The hooks of one engine in their order. Lives as long as the engine; never changes."""

    def __init__(self, hooks: Iterable[Hook]) -> None:
        self.hooks = tuple(_order(*_distinct(list(hooks))))
        self.names = _shown_names(self.hooks)
        self.idle = frozenset(
            kind for name, kind in EVENTS.items() if not any(hook.handles(name) for hook in self.hooks)
        )
        """The events that no hook listens for, whatever their matcher field is."""
        self._observed = False
        self.by_type: dict[Any, EventList] = {}  # the typed events that occurred so far
        self._by_name: dict[str, EventList] = {}

    @cached_property
    def observed(self) -> "Plan":
        """The same for an engine with listeners, which get every call."""
        made = object.__new__(Plan)
        made.__dict__.update(self.__dict__)
        made._observed, made.by_type, made._by_name = True, {}, {}
        return made

    @cached_property
    def at_once(self) -> frozenset[type[Event]]:
        """The events whose hooks never wait, whatever their matcher field is."""
        slow = [hook for hook in self.hooks if hook.background or hook.handles_failures or is_async(hook.run)]
        return frozenset(kind for name, kind in EVENTS.items() if not any(hook.handles(name) for hook in slow))

    def steps(self, event: Event) -> Steps:
        """The hooks that listen for this event, in order."""
        return (self.by_type.get(type(event)) or self.list_for(event)).steps(event)

    def list_for(self, event: Event) -> "EventList":
        name = event.hook_event_name
        made = self._by_name.get(name)
        if made is None:
            made = self._compile(event)
            if len(self._by_name) < _CACHE_LIMIT:  # names of events come from outside
                self._by_name[name] = made
            if name in EVENTS:
                self.by_type[type(event)] = made
        return made

    def waves(self, steps: Sequence[Step]) -> list[list[Step]]:
        """The same steps as groups that may run in parallel: each after the groups that its hooks depend on."""
        level: dict[str, int] = {}
        groups: list[list[Step]] = []
        for step in steps:
            depth = max((level[name] + 1 for name in step.hook.after if name in level), default=0)
            depth = len(groups) if _runs_last(step.hook) else depth
            level[step.hook.name] = max(depth, level.get(step.hook.name, 0))
            if depth == len(groups):
                groups.append([])
            groups[depth].append(step)
        return groups

    def _compile(self, event: Event) -> "EventList":
        name = event.hook_event_name
        steps = [
            _kind_of(hook)(hook, shown, name, observed=self._observed)
            for hook, shown in zip(self.hooks, self.names, strict=True)
            if hook.handles(name)
        ]
        return EventList(event, steps)


class EventList:
    """The steps of one kind of event, indexed by what their matchers look for."""

    def __init__(self, event: Event, steps: list[Step]) -> None:
        self.all = steps
        self.on_session_start = event.hook_event_name == "SessionStart"
        self.target_of: Callable[[Event], str | None] = attrgetter("target")
        if event.match_field is not None and type(event).target is Event.target:
            self.target_of = attrgetter(event.match_field)
        self.always: list[int] = []
        self.by_name: dict[str, list[int]] = defaultdict(list)
        self._patterns: list[int] = []
        self._set: ExpressionSet | None = None
        self.known: dict[str | None, Steps] = {}
        self._made: dict[tuple[int, ...], Steps] = {}  # most names lead to the same few
        for position, step in enumerate(steps):
            if step.matcher.everything:
                self.always.append(position)
            elif step.matcher.names is not None:
                for name in step.matcher.names:
                    self.by_name[name].append(position)
            else:
                self._patterns.append(position)
        if self._patterns:
            self._set = ExpressionSet([steps[position].matcher.expression for position in self._patterns])
        self._namings = {step.meanings.naming for step in steps if not step.matcher.everything} - {"canonical"}
        if event.match_field == "tool_name" and set(self._wanting("Edit")).difference(self._wanting("Write")):
            self.target_of = _tool_in_doubt

    def steps(self, event: Event) -> Steps:
        """The steps for this event's matcher field: compared once, then looked up in `known`."""
        target = self.target_of(event)
        found = self.known.get(target)
        if found is None:
            if len(self.known) >= _CACHE_LIMIT:  # names of tools come from outside
                self.known.clear()
            found = self.known[target] = self._find(event, target or "")
        return found

    def _find(self, event: Event, target: str) -> Steps:
        field = event.match_field
        if field == "tool_name":
            found = self._wanting(target)
            if target == _WRITE_OR_EDIT:
                found = [*self._wanting("Write"), *self._wanting("Edit")]
        elif field is None:
            # The event has no matcher field: matchers are ignored, unless the hook is for all events that match.
            return Steps(step for step in self.all if step.hook.events or step.matcher.everything)
        else:
            found = self._places(target)
        if self.on_session_start:
            return Steps(step for step in map(self.all.__getitem__, sorted(found)) if self._starts(step, target))
        places = tuple(sorted(set(found)) if len(found) > 1 else found)
        made = self._made.get(places)
        if made is None:
            made = Steps(self.all[i] for i in places)
            if len(self._made) < _CACHE_LIMIT:
                self._made[places] = made
        return made

    def _places(self, name: str) -> list[int]:
        """The steps that match this name; each is in one index only, so none appears twice."""
        found = self.always + self.by_name.get(name, [])
        if self._set is not None and (matching := self._set.matching(name)):
            found += [self._patterns[i] for i in matching]
        return found

    def _wanting(self, tool: str) -> list[int]:
        """The steps that match a tool by its name in the event, by its canonical name, by its name in their dialect, or
        by the name of an equivalent tool: a hook for `Write` also gets patches. A step may appear twice."""
        found = self._places(tool)
        for name in tools.OTHER_NAMES.get(tool, ()):
            found += self._places(name)
        for naming in self._namings:
            own = tools.called(tool, naming)
            if own != tool:
                found += (i for i in self._places(own) if self.all[i].meanings.naming == naming)
        return found

    def _starts(self, step: Step, source: str) -> bool:
        sources = step.meanings.session_sources
        return sources is None or source in sources


def _following(steps: Sequence[Step]) -> dict[Step, list[Step]]:
    found: dict[Step, list[Step]] = {}
    for step, after in pairwise(reversed(steps)):
        if after.batch_key is not None and after.batch_key == step.batch_key:
            found[after] = [step, *found.get(step, ())]
    return found


def _kind_of(hook: Hook) -> type[Step]:
    """Decided here, once: most hooks count as they answer, and pay nothing for those that don't."""
    if hook.shadow:
        return ShadowStep
    return Step if hook.review is None else ReviewedStep


def _tool_in_doubt(event: Event) -> str | None:
    """The name of the tool; both names of a tool that may be either, so that hooks for `Edit` run."""
    name: str = getattr(event, "tool_name", "")
    return _WRITE_OR_EDIT if name == "Write" and tools.also_edits(event.payload) else name


def _distinct(hooks: list[Hook]) -> tuple[list[Hook], dict[str, str]]:
    """Identical hooks from several layers run once, with the strictest `on_failure` among them. Also returns the new
    names of the omitted ones."""
    kept: dict[Any, int] = {}
    distinct: list[Hook] = []
    renamed: dict[str, str] = {}
    for hook in hooks:
        if not isinstance(hook, Hook):
            raise PlanError(f"{hook!r} is not a hook", hint="make a hook from a function with @on(PreToolUse)")
        if not isinstance(hook.priority, int | float):
            raise PlanError(f"hook `{hook.name}` has the priority {hook.priority!r}; it must be a number")
        if hook.timeout is not None and not (isinstance(hook.timeout, int | float) and hook.timeout > 0):
            raise PlanError(f"hook `{hook.name}` has a timeout of {hook.timeout!r}; it must be a positive number")
        meanings(hook.dialect)  # an unknown dialect is an error now, not when a tool is about to run
        how = (hook.background, hook.always, hook.shadow)
        key = (hook.run, hook.events, hook.match, hook.condition, hook.dialect, how)
        try:
            at = kept.setdefault(key, len(distinct))
        except TypeError:  # a callable that can't be hashed equals no other
            at = len(distinct)
        if at == len(distinct) or distinct[at].source.layer == hook.source.layer:
            distinct.append(hook)
            continue
        renamed[hook.name] = distinct[at].name
        if _STRICTNESS[hook.on_failure] > _STRICTNESS[distinct[at].on_failure]:
            distinct[at] = msgspec.structs.replace(distinct[at], on_failure=hook.on_failure)
    return distinct, renamed


def _order(hooks: list[Hook], renamed: dict[str, str]) -> list[Hook]:
    positions: dict[str, list[int]] = defaultdict(list)
    for i, hook in enumerate(hooks):
        positions[hook.name].append(i)
    for name, now in renamed.items():
        positions.setdefault(name, positions[now])
    waits_for: list[set[int]] = []
    for i, hook in enumerate(hooks):
        needed: set[int] = set()
        for name in hook.after:
            if name not in positions:
                raise PlanError(
                    f"hook `{hook.name}` runs after `{name}`, which does not exist",
                    place=str(hook.source),
                    hint=f"known hooks: {', '.join(sorted(positions))}",
                )
            needed.update(positions[name])
        waits_for.append(needed - {i} if hook.name not in hook.after else needed)
    if not any(waits_for):
        return sorted(hooks, key=_turn)
    ordered: list[Hook] = []
    ready = [(_turn(hooks[i]), i) for i in range(len(hooks)) if not waits_for[i]]
    heapq.heapify(ready)
    waiting = {i: set(needed) for i, needed in enumerate(waits_for) if needed}
    while ready:
        _, i = heapq.heappop(ready)
        ordered.append(hooks[i])
        for j, needed in list(waiting.items()):
            needed.discard(i)
            if not needed:
                del waiting[j]
                heapq.heappush(ready, (_turn(hooks[j]), j))
    if waiting:
        names = _cycle(waiting, hooks)
        raise PlanError(f"hooks wait for each other: {' -> '.join(names)}", hint="remove one of these `after` keys")
    return ordered


def _turn(hook: Hook) -> tuple[bool, float]:
    return _runs_last(hook), hook.priority


def _runs_last(hook: Hook) -> bool:
    return getattr(hook.run, "runs_last", False)


def _cycle(waiting: dict[int, set[int]], hooks: list[Hook]) -> list[str]:
    at = next(iter(waiting))
    path: list[int] = []
    while at not in path:
        path.append(at)
        at = next(i for i in waiting[at] if i in waiting)
    return [hooks[i].name for i in [*path[path.index(at) :], at]]


def _shown_names(hooks: Sequence[Hook]) -> list[str]:
    """The same name in two layers is shown as `layer/name`; a name given twice in one layer is numbered."""
    times = Counter(hook.name for hook in hooks)
    seen: Counter[str] = Counter()
    names = []
    for hook in hooks:
        name = hook.name
        if times[name] > 1 and hook.source.layer:
            name = f"{hook.source.layer}/{name}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return names
