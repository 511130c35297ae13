"""What the codecs of the coding agents share. Each agent adds its voice: the few words in which it differs."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from billhook.agents.base import Agent, Capabilities, able
from billhook.agents.child import (
    TOO_LONG,
    ChildCall,
    Written,
    cut,
    encoded,
    environment,
    event_line,
    evidence,
    failed,
    launch_note,
    line,
)
from billhook.agents.downgrade import fitted, unknown
from billhook.agents.inbound import consistent, received_object, with_canonical_tool
from billhook.agents.names import canonical_event
from billhook.agents.stdout import Printed, objection_in, printed
from billhook.core import dialect_traits as rows
from billhook.core import events, strictjson, tools
from billhook.core.answer_reader import blocked, read_output
from billhook.core.answers import NOTHING, Answer, Decision, Exit, Reply, Status
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Event
from billhook.core.hook import Context

Payload = dict[str, Any]


class EncodedAnswer(NamedTuple):
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

    def row(self, event: Event, row: Capabilities) -> Capabilities:
        """What the agent can be told on this event, where that depends on more than its name."""

    def refused(self, event: Event, wanted: Payload) -> str:
        """Why the agent would not run the tool with exactly this input; "" when it would."""

    def suit(self, event: Event, answer: Answer, lost: list[str]) -> Answer:
        """An answer that fits the agent's row, in the combination that it takes; adds to what is lost."""

    def say(self, event: Event, answer: Answer) -> EncodedAnswer:
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

    def row(self, event: Event, row: Capabilities) -> Capabilities:
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


def refusal(answer: Answer, output: Payload | None = None) -> EncodedAnswer:
    """A deny on an event that the agent is not known to have: in the exit code, which all of them know."""
    return EncodedAnswer(output or {}, 2, answer.reason) if answer.decision is Decision.DENY else EncodedAnswer({})


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


def _two(code: int) -> bool:
    return code == 2


class AgentDialect(msgspec.Struct, frozen=True, kw_only=True):
    """The codec of one coding agent. Lives as long as the process."""

    agent: Agent
    voice: Voice
    blocking: Callable[[int], bool] = _two  # the exit codes that block, whatever else is said
    closed: Literal["", "code", "answer"] = ""
    """Before a tool the agent itself does not make the call when a hook ends with another code than 0, or when its
    answer can't be understood."""
    stdout_first: bool = False
    """The reason of a block that is an exit code stands on stdout, else on stderr; usually it is the other way."""

    @property
    def meanings(self) -> Meanings:
        return self.agent.meanings

    @property
    def event_names(self) -> Mapping[str, str]:
        """Our names of the events that this agent has, and its own, as its settings have them."""
        return self.agent.event_names

    @property
    def title(self) -> str:
        return self.agent.title

    # -- being a hook of this agent

    def read_call(self, stdin: bytes, env: Mapping[str, str]) -> Event:
        payload = self.voice.read(consistent(received_object(stdin)), env)
        named = payload.get("hook_event_name")
        if isinstance(named, str) and (name := canonical_event(named, self.agent.name)):
            name = self.voice.kind(name, payload)
            payload["hook_event_name"] = name
            if named != name:
                payload.setdefault("original_event_name", named)
        return events.parse(with_canonical_tool(payload, self.meanings.naming))

    def write_exit(self, event: Event, answer: Answer) -> Written:
        if answer == NOTHING:
            return _SILENT
        if answer.objection:  # it is told to the model like other context
            answer = replace(answer, objection="")
        refused = "" if answer.updated_input is None else self.voice.refused(event, answer.updated_input)
        fit = fitted(self.agent, event, answer, self.row(event), refused)
        said = self.voice.say(event, self.voice.suit(event, fit.answer, fit.lost))
        stdout = strictjson.dumps(said.output) + "\n" if said.output else ""
        ended = Exit(code=said.code, stdout=encoded(stdout), stderr=encoded(said.stderr))
        heard = self.read_exit(event, ended)
        meant = replace(answer, context="") if fit.held else answer
        if heard.status is Status.OK and heard.answer == meant:
            return Written(ended, (), fit.held)
        return Written(ended, tuple(fit.lost) or (f"something that {self.title} has no word for",), fit.held)

    def row(self, event: Event) -> Capabilities:
        """What the agent can be told on this event."""
        return self.voice.row(event, self._row(event))

    def _row(self, event: Event) -> Capabilities:
        original = event.payload.get("original_event_name")
        if isinstance(original, str) and canonical_event(original, self.agent.name) == event.hook_event_name:
            found = able(self.agent, original)
            if found != Capabilities():
                return found
        if event.hook_event_name in self.agent.event_names:
            return able(self.agent, event.hook_event_name)
        return unknown(event)

    # -- speaking to a hook of this agent

    def write_call(self, ctx: Context) -> ChildCall:
        event, naming = ctx.event, self.meanings.naming
        meant = self.voice.part in ("", event.payload.get("original_event_name"))
        if meant and (sent := event.sent_as(self.meanings.name)):
            return ChildCall(sent + b"\n", environment(ctx, self.meanings))
        named = self.agent.event_names.get(event.hook_event_name, event.hook_event_name)
        tool = getattr(event, "tool_name", None)
        if named == event.hook_event_name and (tool is None or naming == "canonical"):
            return ChildCall(event_line(event, self.meanings), environment(ctx, self.meanings))
        payload = {**event.payload, "hook_event_name": named}
        if isinstance(tool, str):
            payload["tool_name"] = event.payload.get("original_tool_name") or tools.called(tool, naming)
            if "tool_input" in payload:
                payload["tool_input"] = self.own_input(event, payload["tool_input"])
        return ChildCall(line(self.voice.write(payload, event), self.meanings), environment(ctx, self.meanings))

    def own_input(self, event: Event, given: object) -> object:
        """What a tool is given, in the agent's own words, whoever sent the event."""
        return tools.own_input(_tool(event), given, self.meanings.naming, _renamed(event))

    def read_exit(self, event: Event, exit: Exit) -> Reply:  # noqa: A002
        return evidence(self._read(event, exit), exit)

    def _read(self, event: Event, exit: Exit) -> Reply:  # noqa: A002
        if exit.start_error:
            return failed(exit)
        out = printed(exit)
        reply = self._heard(event, out)
        if reply.status is Status.OK and reply.answer.objects:
            return reply  # a whole deny denies, however the hook ended
        if out.output is None:
            found = objection_in(exit, event, rows.CLAUDE, lambda output: self._understood(event, output))
            if found is not None:
                return found
        if exit.code is not None and self.blocking(exit.code):
            return self._blocked(event, exit, out)
        if cut(exit) and exit.code is not None:
            return self._failed(event, TOO_LONG, "answer")
        if exit.code != 0:
            reply = failed(exit, out.broken or reply.error)
            return reply if exit.code is None else self._failed(event, reply, "code")
        if out.broken or reply.status is not Status.OK:
            return self._failed(event, Reply(status=Status.FAILED, error=out.broken or reply.error), "answer")
        return reply if out.output is not None or not out.text else Reply(answer=self.voice.text(event, out.text))

    def _heard(self, event: Event, out: Printed) -> Reply:
        """What the JSON on stdout says."""
        if out.output is None:
            return Reply()
        reply = self._understood(event, out.output)
        if reply.status is Status.OK and (reply.answer.objects or (reply.answer != NOTHING and not event.gates)):
            return reply
        # A deny in the words of the reference is meant as one, even where this agent would not obey it.
        other = read_output(event, out.output, rows.CLAUDE)
        if other.status is Status.OK and other.answer.objects:
            return replace(other, error=f"this denies in words that {self.title} does not obey")
        return reply

    def _understood(self, event: Event, output: Payload) -> Reply:
        if "hook_event_name" in output:  # a logger such as `tee` prints the event back: that is no answer
            given = {**event.payload, "hook_event_name": output["hook_event_name"]}
            output = {key: value for key, value in output.items() if key not in given or given[key] != value}
        try:
            return Reply(answer=self.voice.hear(event, output))
        except MisheardError as error:
            return Reply(status=Status.FAILED, error=str(error))

    def _blocked(self, event: Event, exit: Exit, out: Printed) -> Reply:  # noqa: A002
        texts = (exit.stderr_text.strip(), out.plain)
        first, second = reversed(texts) if self.stdout_first else texts
        reply = self.voice.block(event, first or second)
        answer = replace(reply.answer, objection="")
        return replace(reply, answer=answer, error=reply.error or launch_note(exit))

    def _failed(self, event: Event, reply: Reply, how: str) -> Reply:
        closed = self.closed == how and event.hook_event_name == "PreToolUse"
        return replace(reply, on_failure="deny") if closed else reply


def own_input(event: Event, given: object, naming: str) -> object:
    """What a tool is given, in the words of the agent that sent the event: those that it used for this call, and its
    usual ones for what was not in it."""
    sent = getattr(event, "tool_input", None)
    return tools.own_input(_tool(event), given, naming, _renamed(event), sent)


def _tool(event: Event) -> str:
    return str(getattr(event, "tool_name", ""))


def _renamed(event: Event) -> dict[str, str] | None:
    renamed = event.payload.get("original_input_keys")
    return renamed if isinstance(renamed, dict) else None


_SILENT = Written(Exit(code=0, stdout=b"", stderr=b""), ())
