"""What the scripted model says: a list of steps, one for each of its turns."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tool call; `raw` is the input of a free-form tool, which takes text instead of arguments."""

    tool: str
    input: Mapping[str, Any] = {}
    raw: str = ""
    namespace: str = ""


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of the model: something said, tools called, or both."""

    text: str = ""
    calls: Sequence[Call] = ()


class Script(msgspec.Struct, frozen=True, omit_defaults=True):
    """`steps` for the conversation with the person, `delegated` for one that opens with the words DELEGATED."""

    steps: Sequence[Step] = ()
    delegated: Sequence[Step] = (Step("delegated work done"),)

    def at(self, turns: Sequence["Turn"], opening: str) -> Step:
        """The step that follows what the model has said already. Requests repeat, so nothing is counted here."""
        steps = self.delegated if DELEGATED in opening else self.steps
        said = {step.text for step in steps if step.text}
        done = sum(1 for turn in turns if turn.calls or turn.text.strip() in said)
        return steps[done] if done < len(steps) else Step("nothing more to say")


class Turn(msgspec.Struct, frozen=True):
    """One turn that a request shows as the model's. Some agents put words there that no model said."""

    text: str
    calls: bool


DELEGATED = "DELEGATED-TASK"
