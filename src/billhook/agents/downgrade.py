"""Adapts an answer to an agent: to its row of capabilities, with a replacement for everything that it does not support.

Toward deny, never toward silence: an objection becomes a deny if the agent can't express it otherwise, an unsupported
rewrite denies with the requested input, context waits for an event that can carry it, and every change is reported.
"""

from typing import Any, Final, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from billhook.agents.base import WAITING, Agent, Capabilities
from billhook.core import strictjson
from billhook.core.answers import Answer, Decision
from billhook.core.events import Block, Event

_LONGEST_REWRITE: Final = 4000


class SupportedAnswer(NamedTuple):
    """An answer that the agent can express completely."""

    answer: Answer
    lost: list[str]
    held: str


def fitted(agent: Agent, event: Event, answer: Answer, row: Capabilities, refused: str = "") -> SupportedAnswer:
    """Adapt an answer. `refused`: why this rewritten input can't be expressed, although others can."""
    rounding = _Rounding(agent, event, answer, row)
    rounding.stop()
    rounding.decision()
    rounding.rewritten_input(refused)
    rounding.denial_after_action()
    rounding.rewritten_output()
    rounding.going_on()
    rounding.texts()
    rounding.others()
    return SupportedAnswer(rounding.answer, rounding.lost, rounding.held)


class _Rounding:
    """The adaptation of one answer. Lives for one call."""

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
        """A stop; before a tool it also denies the call, because some agents would still make it."""
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
            told = "" if self.row.deny or self.row.keep_going else f"A hook stopped this run: {reason}"
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
                reason = f"This needs a person's approval, and {self.title} can't ask for it here{told}"
                self.change(f"{decision} became a deny", decision=Decision.DENY, reason=reason)
            else:
                self.change(f"{decision} can't be expressed on {self.name}", decision=Decision.NONE, reason="")
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
            why = refused or f"{self.title} does not support that"
            wanted = strictjson.compact(answer.updated_input)[:_LONGEST_REWRITE]
            reason = f"A hook rewrote the input of this call, but {why}. The new input: {wanted}"
            if self.row.deny:
                self.change(
                    "a rewritten input became a deny", updated_input=None, decision=Decision.DENY, reason=reason
                )
            else:
                self.change(f"a rewritten input can't be expressed on {self.name}", updated_input=None)

    @property
    def _undecided(self) -> bool:
        """A permission request accepts a rewritten input only with an allow."""
        return self.name == "PermissionRequest" and self.answer.decision is Decision.NONE

    def denial_after_action(self) -> None:
        """A deny after the action: reported to the model or the user, if possible."""
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
            told = f"A hook replaced the output with: {as_text(output)}"
            told = _joined(self.answer.context, told) if self.row.context else self.answer.context
            self.change(lost, updated_output=UNSET, context=told)
        elif not isinstance(output, str) or not output.strip():
            self.change("a rewritten output became text", updated_output=as_text(output) or "(nothing)")

    def going_on(self) -> None:
        answer = self.answer
        if not answer.keep_going:
            return
        if not self.row.keep_going or answer.decision is not Decision.NONE:
            reason = "" if answer.decision is Decision.NONE else answer.reason
            self.change(f"keep_going can't be expressed on {self.name}", keep_going=False, reason=reason)
        elif not answer.reason.strip():
            # These agents continue only with a reason; without one, context is used as the reason.
            reason = answer.context or "a hook asked to continue"
            self.change("keep_going without a reason", reason=reason, context="")

    def texts(self) -> None:
        answer = self.answer
        if answer.context and not self.row.context:
            if any(row.context for row in self.agent.capabilities.values()) and self.name != "SessionEnd":
                self.held = answer.context
            else:
                self.lost.append(f"context can't be expressed on {self.name}")
            self.change(context="")
        if answer.message and not self.row.message:
            self.change(f"a message {self.row.becomes('message')} on {self.name}", message="")

    def others(self) -> None:
        answer = self.answer
        if answer.quiet and not self.row.quiet:
            self.change(f"`suppressOutput` has no effect on {self.name}", quiet=False)
        if answer.extras:
            named = ", ".join(f"`{key}`" for key in answer.extras)
            self.change(f"{named} can't be expressed on {self.name}", extras={})
        if answer.data is not None:
            self.change("`data` is for hooks of the same firing", data=None)
        if answer.background:
            self.change("an answer that comes later", background=False)


def as_text(output: object) -> str:
    """A tool's output as text for the model."""
    if isinstance(output, str):
        return output
    if isinstance(output, dict):
        for key in ("stdout", "textResultForLlm", "text_result_for_llm", "llmContent", "output", "text"):
            if isinstance(output.get(key), str):
                told = output.get("stderr") if key == "stdout" else ""
                return "\n".join(part for part in (output[key], told) if isinstance(part, str) and part)
    return strictjson.compact(output)


def unknown(event: Event) -> Capabilities:
    """The row of an unknown event: an action that waits for an answer can still be denied."""
    return Capabilities(
        deny=event.block in (Block.DENY, Block.NOT_HONOURED),
        instead={"context": "held", "stop": "becomes deny"},
    )


def _joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


# -- a rewritten output in the shape that Claude Code accepts: it silently ignores other shapes

_FIXED: Final = ("type", "mode", "status")  # Keys whose value determines the shape of the other fields.


class ShapedOutput(NamedTuple):
    """An answer that Claude Code accepts."""

    answer: Answer
    lost: str = ""  # how it differs from the hook's answer; empty: it does not


def shape_output(event: Event, answer: Answer) -> ShapedOutput:
    """The answer with its rewritten output in the shape of the tool's output. Text replaces the tool's text, and a part
    of an object is merged into the whole. If it can't be adapted, the run ends, so that the model never reads the
    original."""
    own, new = getattr(event, "tool_response", None), answer.updated_output
    if new is UNSET or event.hook_event_name != "PostToolUse":
        return ShapedOutput(answer)
    tool = str(getattr(event, "tool_name", "the tool"))
    shaped = new if own is None or tool.startswith("mcp__") else _shaped(own, new)
    if shaped is UNSET or shaped is None:
        why = f"a hook replaced the output of {tool} with one that Claude Code does not accept"
        ended = replace(answer, updated_output=UNSET, stop=True, stop_reason=answer.stop_reason or why)
        return ShapedOutput(ended, f"{why}, so the run ends")
    if shaped == new:
        return ShapedOutput(answer)
    shape = "a rewritten output was adapted to the shape of the tool's output"
    return ShapedOutput(replace(answer, updated_output=shaped), shape)


def _shaped(own: Any, new: Any) -> Any:
    """The hook's output in the shape of the tool's output; UNSET: it can't be adapted."""
    if isinstance(own, str):
        return new if isinstance(new, str) or new is None else strictjson.compact(new)
    if isinstance(own, dict) and isinstance(new, str):
        return _with_text(own, new)
    laid = _laid_over(own, new)
    return UNSET if laid == own and new != own else laid  # a part that changes nothing was meant to hide the others


def _with_text(own: dict[str, Any], text: str) -> Any:
    if isinstance(own.get("stdout"), str):
        others: dict[str, Any] = {"stderr": "", "isImage": False}
        return {**own, "stdout": text, **{key: others[key] for key in others if key in own}}
    file = own.get("file")
    if own.get("type") == "text" and isinstance(file, dict) and isinstance(file.get("content"), str):
        return {**own, "file": {**file, "content": text}}
    return UNSET


def _laid_over(own: Any, new: Any) -> Any:
    """A new value merged into one of the same type, key by key; UNSET if the types differ."""
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
    """Whether an item has the shape of one of the tool's items: compared as a whole, because positions may differ."""
    if isinstance(own, dict) and (not isinstance(new, dict) or own.keys() != new.keys()):
        return False
    return _laid_over(own, new) is not UNSET


def _kind(value: Any) -> type:
    """The JSON type: all numbers are one type."""
    return float if type(value) is int else type(value)
