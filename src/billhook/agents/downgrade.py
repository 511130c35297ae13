"""An answer made to fit an agent: what its row of capabilities lets it be told, and what becomes of the rest.

Toward deny, never toward silence: what holds a call up becomes a deny where it can't be said otherwise, a rewrite that
can't be said denies with what was wanted, context waits for an event that can carry it, and everything is reported.
"""

from typing import Any, Final, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from billhook.agents.base import WAITING, Agent, Capabilities
from billhook.core import strictjson
from billhook.core.answers import Answer, Decision
from billhook.core.events import Block, Event

_LONGEST_WANT: Final = 4000


class Fitted(NamedTuple):
    """An answer of which everything can be said."""

    answer: Answer
    lost: list[str]
    held: str


def fitted(agent: Agent, event: Event, answer: Answer, row: Capabilities, refused: str = "") -> Fitted:
    """Make an answer fit. `refused`: why the rewritten input can't be said, although others can."""
    rounding = _Rounding(agent, event, answer, row)
    rounding.stop()
    rounding.decision()
    rounding.rewritten_input(refused)
    rounding.late_denial()
    rounding.rewritten_output()
    rounding.going_on()
    rounding.texts()
    rounding.others()
    return Fitted(rounding.answer, rounding.lost, rounding.held)


class _Rounding:
    """One answer being made to fit. Lives for one call."""

    def __init__(self, agent: Agent, event: Event, answer: Answer, row: Capabilities) -> None:
        self.agent, self.title = agent, agent.title
        self.event, self.name = event, event.hook_event_name
        self.answer, self.row = answer, row
        self.lost: list[str] = []
        self.held = ""

    def change(self, lost: str = "", **changes: Any) -> None:
        self.answer = replace(self.answer, **changes)
        if lost:
            self.lost.append(lost)

    def stop(self) -> None:
        """The end of the run; before a tool it denies the call as well, because some agents would still make it."""
        answer = self.answer
        if not answer.stop:
            if answer.stop_reason:
                self.change("a stop reason without a stop", stop_reason="")
            return
        reason = answer.stop_reason or answer.reason or "a hook stopped the run"
        if self.row.deny and answer.decision is not Decision.DENY and (self.name in WAITING or not self.row.stop):
            self.change(
                "a stop became a deny and a stop" if self.row.stop else "", decision=Decision.DENY, reason=reason
            )
        if not self.row.stop:
            told = "" if self.row.deny or self.row.keep_going else f"A hook wants this run to end: {reason}"
            context = _joined(self.answer.context, told) if self.row.context else self.answer.context
            lost = f"a stop {self.row.becomes('stop')} on {self.name}"
            self.change(lost, stop=False, stop_reason="", context=context)
        if answer.keep_going:
            self.change("keep_going beside a stop", keep_going=False, reason="")

    def decision(self) -> None:
        answer, decision = self.answer, self.answer.decision
        if decision is Decision.ALLOW and not self.row.allow:
            self.change(f"allow {self.row.becomes('allow')} on {self.name}", decision=Decision.NONE, reason="")
        elif decision in (Decision.ASK, Decision.DEFER) and not (decision is Decision.ASK and self.row.ask):
            if self.row.deny:
                told = f": {answer.reason}" if answer.reason else ""
                reason = f"This needs the approval of a person, and {self.title} can't ask for it here{told}"
                self.change(f"{decision} became a deny", decision=Decision.DENY, reason=reason)
            else:
                self.change(f"{decision} can't be said on {self.name}", decision=Decision.NONE, reason="")
        elif decision is Decision.DENY and not answer.reason.strip():
            # Codex makes the call when no reason is given.
            self.change("a deny without a reason", reason=f"denied by a {self.name} hook")
        elif decision is Decision.NONE and answer.reason and not answer.keep_going:
            self.change("a reason without a decision", reason="")

    def rewritten_input(self, refused: str) -> None:
        answer = self.answer
        if answer.updated_input is None:
            return
        if answer.decision is Decision.DENY:
            self.change("the rewritten input of a call that is denied", updated_input=None)
        elif refused or not self.row.rewrite_input or self._undecided:
            why = refused or f"{self.title} can't be told so"
            wanted = strictjson.compact(answer.updated_input)[:_LONGEST_WANT]
            reason = f"A hook wants this call with another input, and {why}. What it wants: {wanted}"
            if self.row.deny:
                self.change(
                    "a rewritten input became a deny", updated_input=None, decision=Decision.DENY, reason=reason
                )
            else:
                self.change(f"a rewritten input can't be said on {self.name}", updated_input=None)

    @property
    def _undecided(self) -> bool:
        """A permission that is asked for takes another input only beside an allow."""
        return self.name == "PermissionRequest" and self.answer.decision is Decision.NONE

    def late_denial(self) -> None:
        """A deny of what can't be prevented: told to whoever can still be told."""
        answer = self.answer
        if answer.decision is not Decision.DENY or self.row.deny:
            return
        lost = f"deny on {self.name} {self.row.becomes('deny')}"
        if self.row.keep_going:
            self.change(lost, decision=Decision.NONE, keep_going=not answer.stop)
        elif self.row.replace_output and answer.updated_output is UNSET:
            self.change(lost, decision=Decision.NONE, reason="", updated_output=answer.reason)
        elif self.row.context:
            self.change(lost, decision=Decision.NONE, reason="", context=_joined(answer.context, answer.reason))
        elif self.row.stop and not answer.stop:
            self.change(lost, decision=Decision.NONE, reason="", stop=True, stop_reason=answer.reason)
        elif self.row.message:
            self.change(lost, decision=Decision.NONE, reason="", message=_joined(answer.message, answer.reason))
        else:
            self.change(lost, decision=Decision.NONE, reason="")

    def rewritten_output(self) -> None:
        output = self.answer.updated_output
        if output is UNSET:
            return
        if not self.row.replace_output:
            lost = f"a rewritten output {self.row.becomes('replace_output')} on {self.name}"
            told = f"A hook wants this to be read instead of the output: {as_text(output)}"
            told = _joined(self.answer.context, told) if self.row.context else self.answer.context
            self.change(lost, updated_output=UNSET, context=told)
        elif not isinstance(output, str) or not output.strip():
            self.change("a rewritten output is said as text", updated_output=as_text(output) or "(nothing)")

    def going_on(self) -> None:
        answer = self.answer
        if not answer.keep_going:
            return
        if not self.row.keep_going or answer.decision is not Decision.NONE:
            reason = "" if answer.decision is Decision.NONE else answer.reason
            self.change(f"keep_going can't be said on {self.name}", keep_going=False, reason=reason)
        elif not answer.reason.strip():
            # Only a reason makes these agents go on; where context is all there is, it is the reason.
            reason = answer.context or "a hook wants the work to go on"
            self.change("keep_going without a reason", reason=reason, context="")

    def texts(self) -> None:
        answer = self.answer
        if answer.context and not self.row.context:
            if any(row.context for row in self.agent.capabilities.values()) and self.name != "SessionEnd":
                self.held = answer.context
            else:
                self.lost.append(f"context can't be said on {self.name}")
            self.change(context="")
        if answer.message and not self.row.message:
            self.change(f"a message {self.row.becomes('message')} on {self.name}", message="")

    def others(self) -> None:
        answer = self.answer
        if answer.quiet and not self.row.quiet:
            self.change(f"`suppressOutput` has no effect on {self.name}", quiet=False)
        if answer.extras:
            named = ", ".join(f"`{key}`" for key in answer.extras)
            self.change(f"{named} can't be said on {self.name}", extras={})
        if answer.data is not None:
            self.change("`data` is for hooks of the same firing", data=None)
        if answer.background:
            self.change("an answer that comes later", background=False)


def as_text(output: object) -> str:
    """A tool's output as the text that a model reads of it."""
    if isinstance(output, str):
        return output
    if isinstance(output, dict):
        for key in ("stdout", "textResultForLlm", "text_result_for_llm", "llmContent", "output", "text"):
            if isinstance(output.get(key), str):
                told = output.get("stderr") if key == "stdout" else ""
                return "\n".join(part for part in (output[key], told) if isinstance(part, str) and part)
    return strictjson.compact(output)


def unknown(event: Event) -> Capabilities:
    """The row of an event that the agent is not known to have: whatever waits for an answer is denied all the same."""
    return Capabilities(
        deny=event.block in (Block.DENY, Block.NOT_HONOURED),
        instead={"context": "held", "stop": "becomes deny"},
    )


def _joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


# -- a rewritten output in the shape that Claude Code takes: it silently ignores one of another shape

_FIXED: Final = ("type", "mode", "status")
"""Keys whose value says which shape the rest has: another value is another shape."""


class ShapedOutput(NamedTuple):
    """An answer that Claude Code takes."""

    answer: Answer
    lost: str = ""  # how it differs from what the hook said; nothing: it does not


def shape_output(event: Event, answer: Answer) -> ShapedOutput:
    """The answer with its rewritten output in the shape of the tool's own. Text goes where the tool has its text, and a
    part of an object is laid over the whole. What can't be made to fit ends the run: nobody reads the original."""
    own, new = getattr(event, "tool_response", None), answer.updated_output
    if new is UNSET or event.hook_event_name != "PostToolUse":
        return ShapedOutput(answer)
    tool = str(getattr(event, "tool_name", "the tool"))
    shaped = new if own is None or tool.startswith("mcp__") else _shaped(own, new)
    if shaped is UNSET or shaped is None:
        why = f"a hook replaced the output of {tool} by one that Claude Code does not take for it"
        ended = replace(answer, updated_output=UNSET, stop=True, stop_reason=answer.stop_reason or why)
        return ShapedOutput(ended, f"{why}, so the run ends")
    if shaped == new:
        return ShapedOutput(answer)
    shape = "a rewritten output is said in the shape that the tool's output has"
    return ShapedOutput(replace(answer, updated_output=shaped), shape)


def _shaped(own: Any, new: Any) -> Any:
    """What a hook wrote, in the shape of the tool's own output; UNSET: it has none."""
    if isinstance(own, str):
        return new if isinstance(new, str) or new is None else strictjson.compact(new)
    if isinstance(own, dict) and isinstance(new, str):
        return _with_text(own, new)
    laid = _laid_over(own, new)
    return UNSET if laid == own and new != own else laid  # a part that changes nothing was meant to hide the rest


def _with_text(own: dict[str, Any], text: str) -> Any:
    """Text in the place of what a shell printed, or of what stands in a file."""
    if isinstance(own.get("stdout"), str):
        others: dict[str, Any] = {"stderr": "", "isImage": False}
        return {**own, "stdout": text, **{key: others[key] for key in others if key in own}}
    file = own.get("file")
    if own.get("type") == "text" and isinstance(file, dict) and isinstance(file.get("content"), str):
        return {**own, "file": {**file, "content": text}}
    return UNSET


def _laid_over(own: Any, new: Any) -> Any:
    """A new value over one of the same kind, key by key; UNSET where they are not of one kind."""
    if isinstance(own, dict) and isinstance(new, dict):
        return _object_over(own, new)
    if isinstance(own, list) and isinstance(new, list):
        return new if all(any(_same_kind(one, item) for one in own) for item in new) else UNSET
    return new if _kind(own) is _kind(new) else UNSET


def _object_over(own: dict[str, Any], new: dict[str, Any]) -> Any:
    laid = dict(own)
    for key, value in new.items():
        if key not in own or (key in _FIXED and value != own[key]):
            return UNSET
        laid[key] = _laid_over(own[key], value)
        if laid[key] is UNSET:
            return UNSET
    return laid


def _same_kind(own: Any, new: Any) -> bool:
    """Whether an item is like one of the tool's own: as a whole, for there is no telling which one it stands for."""
    if isinstance(own, dict) and (not isinstance(new, dict) or own.keys() != new.keys()):
        return False
    return _laid_over(own, new) is not UNSET


def _kind(value: Any) -> type:
    """What JSON calls it: all numbers are of one kind."""
    return float if type(value) is int else type(value)
