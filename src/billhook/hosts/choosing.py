"""Which events an agent shall ask about, and how long each may take."""

from collections.abc import Iterable

from billhook.agents.base import Agent
from billhook.agents.names import NARROWER, canonical_event
from billhook.config import load_config
from billhook.config.declared import Declared, Layer, needs_consent
from billhook.errors import UsageError
from billhook.events import EVENTS
from billhook.hosts.agentfile import ours
from billhook.hosts.entries import SECONDS
from billhook.hosts.installing import Target
from billhook.hosts.jsontext import measured

_MARGIN = 2.0
_OF_A_PROJECT: tuple[Layer, ...] = ("project", "local")


class Needs:
    """What configured hooks need, beside what every agent is asked about."""

    def __init__(self, target: Target) -> None:
        host = target.host
        self.events = list(host.events)
        self.seconds: dict[str, float] = {}
        for event, seconds in (*_configured(target), *_standing(target)):
            if event not in host.spellings:
                continue
            if host.spellings[event] not in [host.spellings[one] for one in self.events]:
                self.events.append(event)
            if seconds > self.seconds.get(event, 0):
                self.seconds[event] = seconds


def _configured(target: Target) -> list[tuple[str, float]]:
    """The events of hooks that apply here and that the agent doesn't run itself, with their time-outs.

    What nobody approved has no say in the user's own settings: it may come from a clone.
    """
    own = target.scope == "user"
    config = load_config(target.project, layers=None if own else _OF_A_PROJECT, builtins=False, host=target.host.name)
    hooks = [
        one.declared
        for one in config.entries
        if one.state != "elsewhere" and not (own and needs_consent(one.declared.layer) and not one.consent.given)
    ]
    wanting = [one for one in hooks if one.enabled and not one.ours]
    return [(event, one.timeout or 0) for one in wanting for event in target.host.spellings if _is_for(one, event)]


def _is_for(hook: Declared, event: str) -> bool:
    if hook.part:
        return event == hook.part
    return hook.wants(event) if event in EVENTS else event in hook.events


def _standing(target: Target) -> list[tuple[str, float]]:
    """What was installed before: hooks of another folder may need it."""
    host = target.host
    found = []
    for one in ours(measured(target.text()), host):
        event = next((name for name, own in host.spellings.items() if own == one.event), "")
        number = one.data.get(host.timeout_key)
        seconds = number / host.unit_per_second if isinstance(number, int | float) else 0
        usual = host.ending[0] if event == "SessionEnd" else SECONDS
        found.append((event, seconds - _MARGIN if seconds > usual else 0.0))
    return found


def chosen_events(host: Agent, words: Iterable[str]) -> list[str]:
    """The canonical names of events that a person named, in any agent's spelling. Raises UsageError."""
    found: dict[str, str] = {}
    for word in _split(words):
        event = canonical_event(word)
        if not event:
            from difflib import get_close_matches

            near = get_close_matches(word, [*host.spellings, *host.spellings.values()], 1, 0.6)
            hint = f"did you mean `{near[0]}`?" if near else f"{host.title} has {', '.join(host.spellings)}"
            raise UsageError(f"no event `{word}`", hint=hint)
        if event not in host.spellings:
            hint = f"it has {', '.join(host.spellings)}"
            raise UsageError(f"{host.title} has no event `{event}`", hint=hint)
        found.setdefault(host.spellings[event], event)
    if not found:
        raise UsageError("--events names no event", hint="as in --events PreToolUse,Stop; or leave it out")
    return list(found.values())


def widened(host: Agent, words: Iterable[str]) -> list[str]:
    """Sentences about names that stand for a part of what is asked about instead."""
    narrow = {name.lower(): name for name in NARROWER.get(host.name, {})}
    named = [narrow[word.lower()] for word in _split(words) if word.lower() in narrow]
    return [
        f"{name} is asked about as {host.spellings[NARROWER[host.name][name]]}, which comes for every tool"
        for name in dict.fromkeys(named)
    ]


def _split(words: Iterable[str]) -> list[str]:
    return [part for given in words for part in given.replace(",", " ").split()]
