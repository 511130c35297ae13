"""The shared codec of the coding agents. Each agent overrides the few things that differ."""

from collections.abc import Container, Mapping
from typing import Any, Final, Literal

from msgspec import UNSET
from msgspec.structs import replace

from billhook.agents import canonical_event, child, consistent, with_canonical_tool
from billhook.agents.base import Agent, Capabilities, able
from billhook.agents.downgrade import fitted, unknown
from billhook.agents.stdout import StdoutContent, objection_in, printed
from billhook.core import dialect_traits as rows
from billhook.core import events, strictjson, tools
from billhook.core.answer_json import blocked, read_output
from billhook.core.answer_schema import BOOL, OBJECT, STRING, MisreadError, check_kind, decision_of
from billhook.core.answers import NOTHING, Answer, Decision, Exit, Reply, Status
from billhook.core.events import Block, Event
from billhook.core.hook import Context

Payload = dict[str, Any]


def kinds(strings: str = "", *, booleans: str = "", objects: str = "") -> Mapping[str, str]:
    """The fields of a part of an answer, and the type of each."""
    by_kind = {STRING: strings, BOOL: booleans, OBJECT: objects}
    return {name: kind for kind, names in by_kind.items() for name in names.split()}


ALWAYS: Final = kinds("stopReason systemMessage", booleans="continue suppressOutput")
TOP: Final = {**ALWAYS, **kinds("decision reason", objects="hookSpecificOutput")}
WORDS: Final = {
    "deny": Decision.DENY,
    "block": Decision.DENY,
    "ask": Decision.ASK,
    "allow": Decision.NONE,
    "approve": Decision.NONE,
}
"""An allow only means that this hook has no objection: the agent's own policy still applies."""
_BEHAVIOURS: Final = {"allow": Decision.ALLOW, "deny": Decision.DENY}


def checked_fields(output: Mapping[str, Any], kinds: Mapping[str, str], path: str = "") -> Payload:
    """The known fields of an answer that are not null. Raises MisreadError for a wrong type."""
    found = {key: output[key] for key in kinds if output.get(key) is not None}
    for key, value in found.items():
        check_kind(value, kinds[key], path, key)
    return found


def decision_fields(decision: Decision, reason: str, event: Event) -> Payload:
    """The fields of an answer with this decision; a deny always has a reason."""
    if decision is Decision.DENY:
        reason = reason or f"denied by a {event.hook_event_name} hook"
    return {"decision": decision, "reason": reason}


def block(reason: str) -> Payload:
    return {"decision": "block", "reason": reason}


def input_of(event: Event) -> Payload:
    """The tool's input of an event; empty if it is not an object."""
    given = getattr(event, "tool_input", None)
    return given if isinstance(given, dict) else {}


def _output_with_context(answer: Answer, lost: list[str]) -> Answer:
    if answer.updated_output is UNSET or not answer.context:
        return answer
    lost.append("context became part of the rewritten output")
    return replace(answer, context="", updated_output=f"{answer.updated_output}\n\n{answer.context}")


class AgentDialect:
    """The codec of one coding agent, in the form that most agents share."""

    blocking: Container[int | None] = (2,)  # the exit codes that block, even with an answer on stdout
    closed: Literal["", "code", "answer"] = ""
    """Whether the agent itself blocks a tool call if a hook exits with another code than 0, or its answer is not
    valid."""
    stdout_first = False  # whether the reason of a block by exit code comes from stdout first, then from stderr
    names: Mapping[str, str] = {}  # its names of fields of a payload, and the canonical ones
    top: Mapping[str, str] = TOP  # the known fields of an answer
    specific: Mapping[str, str] = {}  # those in its `hookSpecificOutput`
    permission: Mapping[str, str] = kinds("behavior message")  # those in its `decision`
    words: Mapping[str, Decision] = WORDS
    no_reason = "blocked by a {} hook"  # the reason for `keep_going` if a hook gives none
    no_output = ""  # the replaced output then
    context_in_output = False  # whether it ignores context beside a replaced output
    block_replaces_output = False  # whether a block after a tool replaces its output with the reason

    def __init__(self, agent: Agent, part: str = "") -> None:
        """`part`: the agent's narrower event that a hook is for; usually none."""
        self.agent, self.part = agent, part
        self.meanings, self.title = agent.meanings, agent.title

    @property
    def event_names(self) -> Mapping[str, str]:
        """Billhook's names of this agent's events, and its own names in its settings."""
        return self.agent.event_names

    # -- what an agent may override: acting as its hook

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        """The agent's payload with canonical field names; the tool and its input still have the agent's names. Of two
        names for one field the first is used."""
        for own, name in self.names.items():
            if own in payload and name not in payload:
                payload[name] = payload.pop(own)
        return payload

    def kind(self, name: str, payload: Payload) -> str:
        """The canonical event, if the agent has one name for several."""
        return name

    def row(self, event: Event) -> Capabilities:
        """The agent's capabilities on this event."""
        original = event.payload.get("original_event_name")
        if isinstance(original, str) and canonical_event(original, self.agent.name) == event.hook_event_name:
            found = able(self.agent, original)
            if found != Capabilities():
                return found
        if event.hook_event_name in self.agent.event_names:
            return able(self.agent, event.hook_event_name)
        return unknown(event)

    def refused(self, event: Event, wanted: Payload) -> str:
        """Why the agent would not run the tool with exactly this input; "" if it would."""
        return ""

    def suit(self, event: Event, answer: Answer, lost: list[str]) -> Answer:
        """Adapt an answer to the combinations that the agent accepts; adds to `lost`."""
        return _output_with_context(answer, lost) if self.context_in_output else answer

    def encode_answer(self, event: Event, answer: Answer) -> Payload:
        """An answer in the agent's format, which can express all of it."""
        output, inside = self.decide(event, answer)
        if answer.stop:
            output |= {"continue": False} | ({"stopReason": answer.stop_reason} if answer.stop_reason else {})
        if answer.message:
            output["systemMessage"] = answer.message
        if answer.quiet:
            output["suppressOutput"] = True
        if answer.context:
            inside["additionalContext"] = answer.context
        if inside:
            output["hookSpecificOutput"] = {"hookEventName": self.event_names[event.hook_event_name], **inside}
        return output

    def decide(self, event: Event, answer: Answer) -> tuple[Payload, Payload]:
        """A decision or a rewrite in the agent's format: at the top, and in `hookSpecificOutput`."""
        name, denies = event.hook_event_name, answer.decision is Decision.DENY
        if name == "PreToolUse" and denies:
            return {}, {"permissionDecision": "deny", "permissionDecisionReason": answer.reason}
        if name == "PermissionRequest" and answer.decision is not Decision.NONE:
            return {}, {"decision": {"behavior": "deny", "message": answer.reason} if denies else {"behavior": "allow"}}
        return (block(answer.reason) if denies or answer.keep_going else {}), {}

    def deny_unknown(self, answer: Answer) -> Payload:
        """A deny on an unknown event, beside the exit code, which all agents support."""
        return {}

    # -- and running a hook of this agent

    def write(self, payload: Payload, event: Event) -> Payload:
        """The payload for a hook of this agent."""
        back = {name: own for own, name in reversed(list(self.names.items()))}
        return {back.get(key, key): value for key, value in payload.items()}

    def decode_answer(self, event: Event, output: Payload) -> Answer:
        """Read an answer in the agent's format. Raises MisreadError."""
        fields, inside = self.fields(event, output)
        said: Payload = {"message": fields.get("systemMessage", ""), "context": inside.get("additionalContext", "")}
        said |= self.read_decision(event, fields, inside)
        if fields.get("continue") is False:
            said |= self.read_stop(event, fields.get("stopReason", ""), said)
        return Answer(**said, quiet=fields.get("suppressOutput", False))

    def fields(self, event: Event, output: Payload) -> tuple[Payload, Payload]:
        """The fields of an answer: at the top, and in `hookSpecificOutput`. Raises MisreadError."""
        fields = checked_fields(output, self.top)
        return fields, checked_fields(fields.get("hookSpecificOutput", {}), self.specific, "hookSpecificOutput.")

    def read_decision(self, event: Event, fields: Payload, inside: Payload) -> Payload:
        """The decision or the rewrite in an answer. Raises MisreadError."""
        permission = fields.get("hookSpecificOutput", {}).get("decision")
        if event.hook_event_name == "PermissionRequest" and isinstance(permission, dict):
            return self.read_permission(
                event, checked_fields(permission, self.permission, "hookSpecificOutput.decision.")
            )
        if "permissionDecision" in inside:
            decision = decision_of("hookSpecificOutput.permissionDecision", inside["permissionDecision"], self.words)
            reason = inside.get("permissionDecisionReason", "")
            return decision_fields(decision, reason, event) if decision is not Decision.NONE else {}
        if "decision" in fields:
            decision, reason = decision_of("decision", fields["decision"], self.words), fields.get("reason", "")
            return self.read_block(event, decision, reason) if decision is not Decision.NONE else {}
        return {}

    def read_permission(self, event: Event, wanted: Payload) -> Payload:
        decision = decision_of("hookSpecificOutput.decision.behavior", wanted.get("behavior", ""), _BEHAVIOURS)
        if decision is Decision.DENY:
            return decision_fields(decision, wanted.get("message", ""), event)
        given = wanted.get("updatedInput")
        return {"decision": decision, "updated_input": None if given is None else self.canonical(event, given)}

    def read_block(self, event: Event, decision: Decision, reason: str) -> Payload:
        """Read `decision` at the top."""
        if decision is not Decision.DENY:
            return decision_fields(decision, reason, event)
        if self.block_replaces_output and event.hook_event_name == "PostToolUse":
            text = reason or self.no_output
            return {"updated_output": text} if text else {}
        if event.block is Block.KEEP_GOING:
            return {"keep_going": True, "reason": reason or self.no_reason.format(event.hook_event_name)}
        return decision_fields(decision, reason, event)

    def read_stop(self, event: Event, reason: str, said: Payload) -> Payload:
        """Read `continue: false`."""
        return {"stop": True, "stop_reason": reason}

    def text(self, event: Event, text: str) -> Answer:
        """Read plain text on stdout."""
        return NOTHING

    def block(self, event: Event, text: str) -> Reply:
        """Read a blocking exit code: as in the reference, and also on events where the reference needs JSON."""
        if self.block_replaces_output and event.hook_event_name == "PostToolUse" and text:
            return Reply(answer=Answer(updated_output=text))
        if event.hook_event_name == "PermissionRequest":
            reason = text or "denied by a PermissionRequest hook"
            return Reply(answer=Answer(decision=Decision.DENY, reason=reason))
        return blocked(event, text, rows.CLAUDE)

    # -- acting as a hook of this agent

    def read_call(self, stdin: bytes, env: Mapping[str, str]) -> Event:
        payload = self.read(consistent(events.read_object(stdin)), env)
        named = payload.get("hook_event_name")
        if isinstance(named, str) and (name := canonical_event(named, self.agent.name)):
            name = self.kind(name, payload)
            payload["hook_event_name"] = name
            if named != name:
                payload.setdefault("original_event_name", named)
        return events.parse(with_canonical_tool(payload, self.meanings.naming))

    def write_exit(self, event: Event, answer: Answer) -> child.ExitResult:
        if answer == NOTHING:
            return child.ExitResult(self.silent(event), ())
        if answer.objection:  # sent to the model like other context
            answer = replace(answer, objection="")
        refused = "" if answer.updated_input is None else self.refused(event, answer.updated_input)
        fit = fitted(self.agent, event, answer, self.row(event), refused)
        ended = self.encode(event, self.suit(event, fit.answer, fit.lost))
        meant = replace(answer, context="") if fit.held else answer
        lost = fit.lost or [f"something that {self.title} can't express"]
        return child.checked_result(self, event, meant, ended, lost)._replace(held=fit.held)

    def encode(self, event: Event, answer: Answer) -> Exit:
        """An answer that fits the agent, as the exit of a process."""
        if event.hook_event_name in self.event_names:
            said = self.encode_answer(event, answer)
            return child.exits(0, _line(said)) if said else self.silent(event)
        if answer.decision is not Decision.DENY:
            return self.silent(event)
        return child.exits(2, _line(self.deny_unknown(answer)), answer.reason)

    def silent(self, event: Event) -> Exit:
        """The answer without an opinion: usually nothing."""
        said = self.agent.neutral(event.hook_event_name)
        return child.exits(0, "" if said is None else strictjson.dumps(said) + "\n")

    # -- running a hook of this agent

    def write_call(self, ctx: Context) -> child.ChildCall:
        event, naming = ctx.event, self.meanings.naming
        meant = self.part in ("", event.payload.get("original_event_name"))
        if meant and (sent := event.sent_as(self.meanings.name)):
            return child.ChildCall(sent + b"\n", child.environment(ctx, self.meanings))
        named = self.agent.event_names.get(event.hook_event_name, event.hook_event_name)
        tool = getattr(event, "tool_name", None)
        if named == event.hook_event_name and (tool is None or naming == "canonical"):
            return child.ChildCall(child.event_line(event, self.meanings), child.environment(ctx, self.meanings))
        payload = {**event.payload, "hook_event_name": named}
        if isinstance(tool, str):
            payload["tool_name"] = event.payload.get("original_tool_name") or tools.called(tool, naming)
            if "tool_input" in payload:
                payload["tool_input"] = tools.own_input(_tool(event), payload["tool_input"], naming, _renamed(event))
        return child.ChildCall(
            child.line(self.write(payload, event), self.meanings), child.environment(ctx, self.meanings)
        )

    def sent_input(self, event: Event, given: object) -> object:
        """A rewritten input with the agent's names: those of this call, and its usual names for other fields."""
        sent = getattr(event, "tool_input", None)
        return tools.own_input(_tool(event), given, self.meanings.naming, _renamed(event), sent)

    def canonical(self, event: Event, given: Payload) -> Payload:
        """The input that a hook of this agent returned, with canonical names."""
        found: Payload = tools.canonical_input(_tool(event), given, self.meanings.naming)[0]
        return found

    def merged(self, event: Event, given: Payload) -> Payload:
        """The same for an agent that merges it into the original input."""
        return {**input_of(event), **self.canonical(event, given)}

    def read_exit(self, event: Event, exit: Exit) -> Reply:  # noqa: A002
        return child.evidence(self._read(event, exit), exit)

    def _read(self, event: Event, exit: Exit) -> Reply:  # noqa: A002
        if exit.start_error:
            return child.failed(exit)
        out = printed(exit)
        reply = self._read_reply(event, out)
        if reply.status is Status.OK and reply.answer.objects:
            return reply  # a complete deny counts with any exit code
        if out.output is None:
            found = objection_in(exit, event, rows.CLAUDE, lambda output: self._understood(event, output))
            if found is not None:
                return found
        if exit.code in self.blocking:
            return self._blocked(event, exit, out)
        if child.cut(exit) and exit.code is not None:
            return self._failed(event, child.TOO_LONG, "answer")
        if exit.code != 0:
            reply = child.failed(exit, out.broken or reply.error)
            return reply if exit.code is None else self._failed(event, reply, "code")
        if out.broken or reply.status is not Status.OK:
            return self._failed(event, Reply(status=Status.FAILED, error=out.broken or reply.error), "answer")
        return reply if out.output is not None or not out.text else Reply(answer=self.text(event, out.text))

    def _read_reply(self, event: Event, out: StdoutContent) -> Reply:
        if out.output is None:
            return Reply()
        reply = self._understood(event, out.output)
        if reply.status is Status.OK and (reply.answer.objects or (reply.answer != NOTHING and not event.gates)):
            return reply
        # A deny in the reference's format counts as a deny, even if this agent would not obey it.
        other = read_output(event, out.output, rows.CLAUDE)
        if other.status is Status.OK and other.answer.objects:
            return replace(other, error=f"this denies in a format that {self.title} does not obey")
        return reply

    def _understood(self, event: Event, output: Payload) -> Reply:
        if "hook_event_name" in output:  # the event itself, printed by a logger such as `tee`, is not an answer
            given = {**event.payload, "hook_event_name": output["hook_event_name"]}
            output = {key: value for key, value in output.items() if key not in given or given[key] != value}
        try:
            return Reply(answer=self.decode_answer(event, output))
        except MisreadError as error:
            return Reply(status=Status.FAILED, error=str(error))

    def _blocked(self, event: Event, exit: Exit, out: StdoutContent) -> Reply:  # noqa: A002
        texts = (exit.stderr_text.strip(), out.plain)
        first, second = reversed(texts) if self.stdout_first else texts
        reply = self.block(event, first or second)
        answer = replace(reply.answer, objection="")
        return replace(reply, answer=answer, error=reply.error or child.launch_note(exit))

    def _failed(self, event: Event, reply: Reply, how: str) -> Reply:
        closed = self.closed == how and event.hook_event_name == "PreToolUse"
        return replace(reply, on_failure="deny") if closed else reply


class ReferenceForm(AgentDialect):
    """The codec of an agent that follows the reference's `hookSpecificOutput` before a tool: allow, ask, rewrite."""

    specific = kinds(
        "hookEventName permissionDecision permissionDecisionReason additionalContext", objects="updatedInput"
    )
    words: Mapping[str, Decision] = {**WORDS, "allow": Decision.ALLOW}

    def decide(self, event: Event, answer: Answer) -> tuple[Payload, Payload]:
        if event.hook_event_name != "PreToolUse":
            return super().decide(event, answer)
        inside: Payload = {}
        if answer.decision is not Decision.NONE:
            reason = {"permissionDecisionReason": answer.reason} if answer.reason else {}
            inside = {"permissionDecision": answer.decision.value, **reason}
        if answer.updated_input is not None:
            inside["updatedInput"] = self.sent_input(event, answer.updated_input)
        return {}, inside

    def read_decision(self, event: Event, fields: Payload, inside: Payload) -> Payload:
        said = super().read_decision(event, fields, inside)
        given = inside.get("updatedInput")
        return said if given is None else {**said, "updated_input": self.canonical(event, given)}


class ExitForm(AgentDialect):
    """The codec of an agent that only takes an exit code: 2 refuses, with the reason on stderr."""

    def encode(self, event: Event, answer: Answer) -> Exit:
        if answer.decision is Decision.DENY or answer.keep_going:
            return child.exits(2, stderr=answer.reason)
        return child.exits(0, answer.context)

    def text(self, event: Event, text: str) -> Answer:
        return Answer(context=text) if self.row(event).context else NOTHING


def _tool(event: Event) -> str:
    return str(getattr(event, "tool_name", ""))


def _renamed(event: Event) -> dict[str, str] | None:
    renamed = event.payload.get("original_input_keys")
    return renamed if isinstance(renamed, dict) else None


def _line(output: Payload) -> str:
    return strictjson.dumps(output) + "\n" if output else ""
