"""Write an answer as JSON, and list what JSON could not express. Rounds toward deny, never toward no answer."""

import math
from typing import Any

from msgspec import UNSET

from billhook.core.answer_schema import ACTIONS, CHECKS, EXTRAS, HEARD, UNIVERSAL, block_on, specific_fields
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Block, Event


def write_output(event: Event, answer: Answer, meanings: Meanings) -> tuple[dict[str, Any], list[str]]:
    """The answer as a JSON object, and what is lost. If nothing is lost, reading it returns the same answer."""
    writer = _Writer(event, answer, meanings)
    if answer.background and not answer.objects and answer.decision in (Decision.NONE, Decision.ALLOW):
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
        self.fields = specific_fields(event)  # the fields allowed in hookSpecificOutput
        self.output: dict[str, Any] = {}
        self.inside: dict[str, Any] = {}  # the fields written there
        self.lost: list[str] = []

    def promise(self) -> None:
        """The answer comes later."""
        wait = self.answer.background
        self.output["async"] = True
        if wait is not True and not math.isfinite(wait):
            self.lost.append(f"a wait of {wait:g} s")
        elif wait is not True:
            units = wait * self.meanings.async_per_second
            self.output["asyncTimeout"] = max(1, round(units))
            if not math.isclose(units, self.output["asyncTimeout"]):
                self.lost.append(f"a wait of {wait:g} s was rounded")
        if self.answer != Answer(background=wait):
            self.lost.append("an answer that comes later can't also decide now")

    def decision(self) -> None:
        answer, decision, reason = self.answer, self.answer.decision, self.answer.reason
        if answer.keep_going and (decision is not Decision.NONE or self.event.block is not Block.KEEP_GOING):
            self.lost.append(f"keep_going can't be expressed with {decision} on {self.name}")
        if decision is Decision.NONE:
            if answer.keep_going and self.event.block is Block.KEEP_GOING:
                self._keep_going()
            elif answer.objection and block_on(self.event, self.meanings) is Block.MODEL:
                self._block(answer.objection)
            elif reason:
                self.lost.append("a reason without a decision")
        elif self.name == "PermissionRequest":
            self._permission()
        elif "action" in self.fields:
            self._action()
        elif "permissionDecision" in self.fields and not (decision is Decision.DEFER and self.name == "PreModelSwitch"):
            self.inside["permissionDecision"] = decision.value
            if reason:
                self.inside["permissionDecisionReason"] = reason
            elif decision is Decision.DENY:
                self.lost.append("a deny without a reason")
        elif decision is Decision.ALLOW:
            self.lost.append(f"allow can't be expressed on {self.name}")
        else:
            self._block(reason)
            if decision is not Decision.DENY or not self.denies or not reason:
                self.lost.append(f"{decision} on {self.name} became a block")

    @property
    def denies(self) -> bool:
        """A block here is a deny."""
        return block_on(self.event, self.meanings) is Block.DENY

    def _block(self, reason: str) -> None:
        self.output["decision"] = "block"
        if reason:
            self.output["reason"] = reason

    def _keep_going(self) -> None:
        if self.answer.reason:
            self._block(self.answer.reason)
        elif self.answer.context and self._context_keeps_going:
            pass  # `texts` writes it
        elif self.meanings.continue_true_keeps_going and not self.answer.stop:
            self.output["continue"] = True
        else:
            self._block("")
            self.lost.append("keep_going without a reason")

    @property
    def _context_keeps_going(self) -> bool:
        return (
            self.event.block is Block.KEEP_GOING
            and self.meanings.context_keeps_going
            and "additionalContext" in self.fields
        )

    def _action(self) -> None:
        """The answer to an elicitation is an action; the chosen one is kept if it means the same decision."""
        decision, chosen = self.answer.decision, self.answer.extras.get("action")
        agrees = isinstance(chosen, str) and ACTIONS.get(chosen) is decision
        action = chosen if agrees else "accept" if decision is Decision.ALLOW else "decline"
        self.inside["action"] = action
        if self.answer.reason or not agrees:
            self.lost.append(f"{decision} became {action}")

    def _permission(self) -> None:
        answer = self.answer
        if answer.decision is Decision.ALLOW:
            decision: dict[str, Any] = {"behavior": "allow"}
            if answer.updated_input is not None:
                decision["updatedInput"] = answer.updated_input
            if isinstance(answer.extras.get("updatedPermissions"), list):
                decision["updatedPermissions"] = answer.extras["updatedPermissions"]
            elif "updatedPermissions" in answer.extras:
                self.lost.append("`updatedPermissions` is not a list")
            if answer.reason:
                self.lost.append("the reason of an allow")
        else:
            decision = {"behavior": "deny", "message": answer.reason}
            if answer.stop:
                decision["interrupt"] = True
            if answer.decision is not Decision.DENY or not answer.reason:
                self.lost.append(f"{answer.decision} became a deny")
            if answer.updated_input is not None:
                self.lost.append("the rewritten input of a call that is denied")
            if "updatedPermissions" in answer.extras:
                self.lost.append("the permissions of a call that is denied")
        self.inside["decision"] = decision

    def texts(self) -> None:
        answer, to_user = self.answer, self.meanings.system_message == "user"
        if answer.stop:
            self._stop()
        elif answer.stop_reason:
            self.lost.append("a stop reason without a stop")
        blocks = answer.objection and self.output.get("reason") == answer.objection
        context = answer.beside_objection(self.meanings.join) if blocks else answer.context
        if context:
            if "additionalContext" in self.fields and (answer.keep_going or not self._context_keeps_going):
                self.inside["additionalContext"] = context
            elif not to_user:
                self.output["systemMessage"] = context
            else:
                self.lost.append(f"context can't be expressed on {self.name}")
        if answer.message:
            if to_user:
                self.output["systemMessage"] = answer.message
            else:
                self.lost.append("a message for the user only")

    def _stop(self) -> None:
        if self.meanings.continue_false == "deny" and self.denies:
            if self.answer.decision is not Decision.DENY:
                self._block(self.answer.stop_reason or "a hook stopped the run")
            self.lost.append("stop became a deny")
            return
        self.output["continue"] = False
        if self.answer.stop_reason:
            self.output["stopReason"] = self.answer.stop_reason

    def rewrites(self) -> None:
        answer = self.answer
        if answer.updated_input is not None and self.name != "PermissionRequest":
            if "updatedInput" in self.fields and answer.decision is not Decision.DEFER:
                self.inside["updatedInput"] = answer.updated_input
            else:
                self.lost.append(f"the rewritten input can't be expressed on {self.name}")
        elif answer.updated_input is not None and answer.decision is Decision.NONE:
            self.lost.append("a rewritten input without a decision")
        if answer.updated_output is not UNSET:
            if self.meanings.rewritten_output in self.fields and answer.updated_output is not None:
                self.inside[self.meanings.rewritten_output] = answer.updated_output
            else:
                self.lost.append(f"the rewritten output can't be expressed on {self.name}")

    def others(self) -> None:
        if self.answer.quiet:
            self.output["suppressOutput"] = True
        for key, value in self.answer.extras.items():
            if (key == "action" and key in self.inside) or (key == "updatedPermissions" and "decision" in self.inside):
                continue  # already written, or reported
            kind = UNIVERSAL[key] if key == "terminalSequence" else self.fields.get(key) if key in EXTRAS else None
            if kind is None or not CHECKS[kind](value):
                self.lost.append(f"`{key}` can't be expressed on {self.name}")
            else:
                (self.output if key == "terminalSequence" else self.inside)[key] = value
        if self.answer.data is not None:
            self.lost.append("`data` is for hooks of the same firing")
        if self.answer.background:
            self.lost.append("an answer that decides now can't also come later")

    def finished(self) -> tuple[dict[str, Any], list[str]]:
        if self.inside:
            self.output["hookSpecificOutput"] = {"hookEventName": self.name, **self.inside}
        heard = None if self.meanings.hears_all else HEARD.get(self.name)
        if heard is not None:
            self.lost += [f"`{name}` has no effect on {self.name}" for name in self.output if name not in heard]
            self.output = {name: value for name, value in self.output.items() if name in heard}
        return self.output, self.lost
