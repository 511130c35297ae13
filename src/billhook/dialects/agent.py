"""What the codecs of the coding agents share. Each agent adds its voice: the few words in which it differs."""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from billhook import events, strictjson, tools
from billhook import meanings as rows
from billhook.answers import NOTHING, Answer, Reply, Status
from billhook.dialects.base import (
    TOO_LONG,
    Call,
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
from billhook.dialects.capabilities import Can, can
from billhook.dialects.names import EVENT_NAMES, TITLES, canonical_event, own_name
from billhook.dialects.printed import Printed, objection_in, printed
from billhook.dialects.receiving import consistent, received_object, with_canonical_tool
from billhook.dialects.rounding import fitted, unknown
from billhook.dialects.voice import MisheardError, Payload, Voice
from billhook.events import Event
from billhook.exits import Exit
from billhook.hook import Context
from billhook.meanings import Meanings
from billhook.outputs import read_output


def _two(code: int) -> bool:
    return code == 2


class AgentDialect(msgspec.Struct, frozen=True, kw_only=True):
    """The codec of one coding agent. Lives as long as the process."""

    meanings: Meanings
    voice: Voice
    blocking: Callable[[int], bool] = _two  # the exit codes that block, whatever else is said
    closed: Literal["", "code", "answer"] = ""
    """Before a tool the agent itself does not make the call when a hook ends with another code than 0, or when its
    answer can't be understood."""
    stdout_first: bool = False
    """The reason of a block that is an exit code stands on stdout, else on stderr; usually it is the other way."""

    @property
    def event_names(self) -> Mapping[str, str]:
        """Our names of the events that this agent has, and its own, as its settings have them."""
        return EVENT_NAMES.get(self.meanings.name, {})

    @property
    def title(self) -> str:
        return TITLES[self.meanings.name]

    # -- being a hook of this agent

    def read_call(self, stdin: bytes, env: Mapping[str, str]) -> Event:
        payload = self.voice.read(consistent(received_object(stdin)), env)
        named = payload.get("hook_event_name")
        if isinstance(named, str) and (name := canonical_event(named)):
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
        fit = fitted(self.meanings.name, self.title, event, answer, self.row(event), refused)
        said = self.voice.say(event, self.voice.suit(event, fit.answer, fit.lost))
        stdout = strictjson.dumps(said.output) + "\n" if said.output else ""
        ended = Exit(code=said.code, stdout=encoded(stdout), stderr=encoded(said.stderr))
        heard = self.read_exit(event, ended)
        meant = replace(answer, context="") if fit.held else answer
        if heard.status is Status.OK and heard.answer == meant:
            return Written(ended, (), fit.held)
        return Written(ended, tuple(fit.lost) or (f"something that {self.title} has no word for",), fit.held)

    def row(self, event: Event) -> Can:
        """What the agent can be told on this event."""
        return self.voice.row(event, self._row(event))

    def _row(self, event: Event) -> Can:
        original = event.payload.get("original_event_name")
        if isinstance(original, str) and canonical_event(original) == event.hook_event_name:
            found = can(self.meanings.name, original)
            if found != Can():
                return found
        if own_name(self.meanings.name, event.hook_event_name):
            return can(self.meanings.name, event.hook_event_name)
        return unknown(event)

    # -- speaking to a hook of this agent

    def write_call(self, ctx: Context) -> Call:
        event, naming = ctx.event, self.meanings.naming
        meant = self.voice.part in ("", event.payload.get("original_event_name"))
        if meant and (sent := event.sent_as(self.meanings.name)):
            return Call(sent + b"\n", environment(ctx, self.meanings))
        named = own_name(self.meanings.name, event.hook_event_name) or event.hook_event_name
        tool = getattr(event, "tool_name", None)
        if named == event.hook_event_name and (tool is None or naming == "canonical"):
            return Call(event_line(event, self.meanings), environment(ctx, self.meanings))
        payload = {**event.payload, "hook_event_name": named}
        if isinstance(tool, str):
            payload["tool_name"] = event.payload.get("original_tool_name") or tools.called(tool, naming)
            if "tool_input" in payload:
                payload["tool_input"] = self.own_input(event, payload["tool_input"])
        return Call(line(self.voice.write(payload, event), self.meanings), environment(ctx, self.meanings))

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
