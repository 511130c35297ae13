"""Writing an answer as JSON, and naming what could not be said. Rounds toward deny, never toward silence."""

from typing import Any

from msgspec import UNSET

from billhook.answers import Answer, Decision
from billhook.events import Block, Event
from billhook.meanings import Meanings
from billhook.outputs.schema import ACTIONS, HEARD, specific_fields


def write_output(event: Event, answer: Answer, meanings: Meanings) -> tuple[dict[str, Any], list[str]]:
    """The answer as a JSON object, and what is lost. Nothing lost means that reading it gives the same answer."""
    writer = _Writer(event, answer, meanings)
    if answer.background:
        writer.promise()
    else:
        writer.decision()
        writer.texts()
        writer.rewrites()
        writer.others()
    return writer.finished()


class _Writer:
    """One answer being written. Lives for one call."""

    def __init__(self, event: Event, answer: Answer, meanings: Meanings) -> None:
        self.event = event
        self.name = event.hook_event_name
        self.answer = answer
        self.meanings = meanings
        self.fields = specific_fields(event)
        self.output: dict[str, Any] = {}
        self.inside: dict[str, Any] = {}
        """What goes into hookSpecificOutput."""
        self.lost: list[str] = []

    def promise(self) -> None:
        """The answer comes later."""
        wait = self.answer.background
        self.output["async"] = True
        if wait is not True:
            self.output["asyncTimeout"] = round(wait / self.meanings.async_unit)
        if self.answer != Answer(background=wait):
            self.lost.append("an answer that comes later can't also decide now")

    def decision(self) -> None:
        answer, decision, reason = self.answer, self.answer.decision, self.answer.reason
        if answer.keep_going:
            self._keep_going()
        elif decision is Decision.NONE:
            if reason:
                self.lost.append("a reason without a decision")
        elif self.name == "PermissionRequest":
            self._permission()
        elif "action" in self.fields:
            action = answer.extras.get("action") or ("accept" if decision is Decision.ALLOW else "decline")
            self.inside["action"] = action
            if reason or ACTIONS.get(action) is not decision or "action" not in answer.extras:
                self.lost.append(f"{decision} became {action}")
        elif "permissionDecision" in self.fields and not (decision is Decision.DEFER and self.name == "PreModelSwitch"):
            self.inside["permissionDecision"] = decision.value
            if reason:
                self.inside["permissionDecisionReason"] = reason
            elif decision is Decision.DENY:
                self.lost.append("a deny without a reason")
        elif decision is Decision.ALLOW:
            self.lost.append(f"allow can't be said on {self.name}")
        else:
            self.output |= {"decision": "block", "reason": reason}
            denies = self.event.block is Block.DENY or (self.meanings.can_undo and self.event.block is Block.MODEL)
            if decision is not Decision.DENY or not denies or not reason:
                self.lost.append(f"{decision} on {self.name} became a block")

    def _keep_going(self) -> None:
        if self.event.block is not Block.KEEP_GOING or self.answer.decision is not Decision.NONE:
            self.lost.append(f"keep_going can't be said on {self.name}")
        elif self.answer.reason or not self._context_keeps_going or not self.answer.context:
            self.output |= {"decision": "block", "reason": self.answer.reason}
            if not self.answer.reason:
                self.lost.append("keep_going without a reason")

    @property
    def _context_keeps_going(self) -> bool:
        """On Stop, the reference reads additionalContext as "go on"."""
        return self.event.block is Block.KEEP_GOING and self.meanings.name == "claude"

    def _permission(self) -> None:
        answer = self.answer
        if answer.decision is Decision.ALLOW:
            said: dict[str, Any] = {"behavior": "allow"}
            if answer.updated_input is not None:
                said["updatedInput"] = answer.updated_input
            if "updatedPermissions" in answer.extras:
                said["updatedPermissions"] = answer.extras["updatedPermissions"]
            if answer.reason:
                self.lost.append("the reason of an allow")
        else:
            said = {"behavior": "deny", "message": answer.reason}
            if answer.stop:
                said["interrupt"] = True
            if answer.decision is not Decision.DENY or not answer.reason:
                self.lost.append(f"{answer.decision} became a deny")
            if answer.updated_input is not None:
                self.lost.append("the rewritten input of a call that is denied")
            if "updatedPermissions" in answer.extras:
                self.lost.append("the permissions of a call that is denied")
        self.inside["decision"] = said

    def texts(self) -> None:
        answer, to_user = self.answer, self.meanings.system_message == "user"
        if answer.stop:
            if self.meanings.continue_false == "stop":
                self.output |= {"continue": False, "stopReason": answer.stop_reason}
            else:
                said = answer.reason or answer.stop_reason or "a hook stopped the run"
                self.output |= {"decision": "block", "reason": said}
                self.lost.append("stop became a deny")
        elif answer.stop_reason:
            self.lost.append("a stop reason without a stop")
        if answer.context:
            if "additionalContext" in self.fields and (answer.keep_going or not self._context_keeps_going):
                self.inside["additionalContext"] = answer.context
            elif not to_user:
                self.output["systemMessage"] = answer.context
            else:
                self.lost.append(f"context can't be said on {self.name}")
        if answer.message:
            if to_user:
                self.output["systemMessage"] = answer.message
            else:
                self.lost.append("a message for the user only")

    def rewrites(self) -> None:
        answer = self.answer
        if answer.updated_input is not None and self.name != "PermissionRequest":
            if "updatedInput" in self.fields and answer.decision is not Decision.DEFER:
                self.inside["updatedInput"] = answer.updated_input
            else:
                self.lost.append(f"the rewritten input can't be said on {self.name}")
        elif answer.updated_input is not None and answer.decision is Decision.NONE:
            self.lost.append("a rewritten input without a decision")
        if answer.updated_output is not UNSET:
            field = "updatedToolOutput" if self.meanings.name == "claude" else "updatedMCPToolOutput"
            if field in self.fields and answer.updated_output is not None:
                self.inside[field] = answer.updated_output
            else:
                self.lost.append(f"the rewritten output can't be said on {self.name}")

    def others(self) -> None:
        if self.answer.quiet:
            self.output["suppressOutput"] = True
        for key, value in self.answer.extras.items():
            if key == "terminalSequence":
                self.output[key] = value
            elif key in self.fields and key not in self.inside and key not in ("action", "decision"):
                self.inside[key] = value
            elif key not in self.inside and not (key == "updatedPermissions" and "decision" in self.inside):
                self.lost.append(f"`{key}` can't be said on {self.name}")
        if self.answer.data is not None:
            self.lost.append("`data` is for hooks of the same firing")

    def finished(self) -> tuple[dict[str, Any], list[str]]:
        if self.inside:
            self.output["hookSpecificOutput"] = {"hookEventName": self.name, **self.inside}
        heard = HEARD.get(self.name)
        if heard is not None:
            self.lost += [f"`{name}` has no effect on {self.name}" for name in self.output if name not in heard]
            self.output = {name: value for name, value in self.output.items() if name in heard}
        return self.output, self.lost
