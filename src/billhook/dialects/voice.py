"""How one agent speaks: the shape of a voice, what most voices have in common, and checks for what they hear."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from billhook import meanings as rows
from billhook import strictjson
from billhook.answers import NOTHING, Answer, Decision, Reply
from billhook.dialects.capabilities import Can
from billhook.events import Event
from billhook.outputs import blocked

Payload = dict[str, Any]


class Said(NamedTuple):
    """An answer in an agent's words."""

    output: Payload
    code: int = 0
    stderr: str = ""


class MisheardError(Exception):
    """What a hook printed is none of the agent's answers; the message says exactly why."""


class Voice(Protocol):
    """How one agent differs from the others."""

    part: str  # the narrower event of the agent that a hook was written for; usually none

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        """What the agent sends, with our names for its fields; the tool and its input are still the agent's."""

    def kind(self, name: str, payload: Payload) -> str:
        """Which of our events it is, where the agent has one name for several."""

    def write(self, payload: Payload, event: Event) -> Payload:
        """The other way round: what a hook of this agent is told."""

    def row(self, event: Event, row: Can) -> Can:
        """What the agent can be told on this event, where that depends on more than its name."""

    def refused(self, event: Event, wanted: Payload) -> str:
        """Why the agent would not run the tool with exactly this input; "" when it would."""

    def suit(self, event: Event, answer: Answer, lost: list[str]) -> Answer:
        """An answer that fits the agent's row, in the combination that it takes; adds to what is lost."""

    def say(self, event: Event, answer: Answer) -> Said:
        """An answer in the agent's words. Everything in it can be said."""

    def hear(self, event: Event, output: Payload) -> Answer:
        """What such words mean. Raises MisheardError."""

    def text(self, event: Event, text: str) -> Answer:
        """What plain text means that a hook printed."""

    def block(self, event: Event, text: str) -> Reply:
        """What an exit code that blocks means."""


class Plain:
    """What most voices have in common: the reference's fields, and no opinion about anything else."""

    part = ""

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        return payload

    def kind(self, name: str, payload: Payload) -> str:
        return name

    def write(self, payload: Payload, event: Event) -> Payload:
        return payload

    def row(self, event: Event, row: Can) -> Can:
        return row

    def refused(self, event: Event, wanted: Payload) -> str:
        return ""

    def suit(self, event: Event, answer: Answer, lost: list[str]) -> Answer:
        return answer

    def text(self, event: Event, text: str) -> Answer:
        return NOTHING

    def block(self, event: Event, text: str) -> Reply:
        """As in the reference, and also where that wants its decision in JSON."""
        if event.hook_event_name == "PermissionRequest":
            reason = text or "denied by a PermissionRequest hook"
            return Reply(answer=Answer(decision=Decision.DENY, reason=reason))
        return blocked(event, text, rows.CLAUDE)


def refusal(answer: Answer, output: Payload | None = None) -> Said:
    """A deny on an event that the agent is not known to have: in the exit code, which all of them know."""
    return Said(output or {}, 2, answer.reason) if answer.decision is Decision.DENY else Said({})


# -- hearing

_NAMED = {str: "a string", bool: "true or false", dict: "an object"}


def known(output: Mapping[str, Any], kinds: Mapping[str, type], path: str = "") -> Payload:
    """The known fields of an answer that are not null. Raises MisheardError for a wrong type."""
    found = {key: output[key] for key in kinds if output.get(key) is not None}
    for key, value in found.items():
        if not isinstance(value, kinds[key]):
            shown = strictjson.compact(value)[:60]
            raise MisheardError(f"`{path}{key}` must be {_NAMED[kinds[key]]}, not {shown}")
    return found


def one_of(field: str, value: str, words: Mapping[str, Decision]) -> Decision:
    """The decision that a word stands for. Raises MisheardError for another word."""
    if value not in words:
        listed = ", ".join(f'"{word}"' for word in words)
        raise MisheardError(f'`{field}` is "{value[:60]}"; it is one of {listed}')
    return words[value]


def spoken(decision: Decision, reason: str, event: Event) -> Payload:
    """The fields of an answer that decides so; a deny never goes without a reason."""
    if decision is Decision.DENY:
        reason = reason or f"denied by a {event.hook_event_name} hook"
    return {"decision": decision, "reason": reason}
