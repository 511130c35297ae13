"""Which event is meant by a name that any agent uses. Reads the records of all agents."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from billhook.agents import AGENTS
from billhook.core.events import EVENTS
from billhook.core.registry import LazyTable

EVENT_NAMES: Final = LazyTable[Mapping[str, str]](AGENTS, lambda name: AGENTS[name].event_names)
"""By agent: our name of an event, and its own, as it is spelt in that agent's settings."""
NARROWER: Final = LazyTable[Mapping[str, str]](AGENTS, lambda name: AGENTS[name].narrower)
"""By agent: further names of its own, each for some of what one event of ours is about."""


@cache
def tools_of() -> Mapping[str, str]:
    """By such a narrower name: the tools that it is about."""
    return {name: tools for agent in AGENTS.values() for name, tools in agent.tools_of.items()}


@cache
def others() -> frozenset[str]:
    """Events that only one agent has, and we no type for: by its own names."""
    return frozenset(name for agent in AGENTS.values() for name in agent.only_its)


def fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


_OURS: Final = {fold(name): name for name in EVENTS}


@cache
def meant(agent: str) -> Mapping[str, str]:
    """By the folded name that an agent uses: our name of the event. Of two events with one name, the wider one."""
    record = AGENTS[agent]
    names = {fold(own): name for name, own in reversed(list(record.event_names.items()))}
    return names | {fold(own): name for own, name in record.narrower.items()}


def canonical_event(name: str, agent: str = "") -> str:
    """The event that any agent means by a name, in whatever case and with or without `_` and `-`; "" when none does.

    `agent`: the one that most likely uses it; the records of the others are only imported when it does not.
    """
    folded = fold(name[:100])
    if name in EVENTS or folded in _OURS:
        return _OURS[folded]
    likely = (agent,) if agent in AGENTS else ()
    return next((meant(one)[folded] for one in (*likely, *AGENTS) if folded in meant(one)), "")


def own_events(agent: str, name: str) -> str:
    """What a name in an agent's own file means: our name of the event, or the name itself where it is about a part of
    one or about something that only this agent has; "" when the agent has no such event."""
    ours = {own: event for event, own in reversed(list(EVENT_NAMES[agent].items()))} if agent in AGENTS else {}
    if ours.get(name):
        return ours[name]
    return name if name in NARROWER.get(agent, {}) or (agent != "claude" and name in others()) else ""


def whole(name: str, agent: str = "") -> str:
    """The event of ours that a narrower name is about a part of; any other name as it is. `agent`: the one whose name
    it is, if that is known."""
    if name in EVENTS:
        return name
    known = (agent,) if agent in AGENTS else AGENTS
    return next((NARROWER[one][name] for one in known if name in NARROWER[one]), name)


def is_own_name(name: str) -> bool:
    """Whether some agent has an event of exactly that name."""
    return name in others() or any(own_events(agent, name) for agent in AGENTS)


def own_name(dialect: str, event: str) -> str:
    """What an agent calls an event of ours; "" when it has no such event."""
    return EVENT_NAMES[dialect].get(event, "") if dialect in AGENTS else ""
