"""The script of a model: a list of steps, one for each of its turns."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tool call; `raw` is the input of a free-form tool, which is text instead of arguments."""

    tool: str
    input: Mapping[str, Any] = {}
    raw: str = ""
    namespace: str = ""


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of the model: text, tool calls, or both."""

    text: str = ""
    calls: Sequence[Call] = ()


class Script(msgspec.Struct, frozen=True, omit_defaults=True):
    """`steps` for the conversation with the user, `delegated` for one that begins with the words DELEGATED."""

    steps: Sequence[Step] = ()
    delegated: Sequence[Step] = (Step("delegated work done"),)

    def at(self, turns: Sequence["Turn"], opening: str) -> Step:
        """The step after the turns in the request. Requests may repeat, so nothing is counted here."""
        steps = self.delegated if DELEGATED in opening else self.steps
        said = {step.text for step in steps if step.text}
        done = sum(1 for turn in turns if turn.calls or turn.text.strip() in said)
        return steps[done] if done < len(steps) else Step("The script has ended.")


class Turn(msgspec.Struct, frozen=True):
    """One turn of the model in a request. Some agents add text there that is not from the model."""

    text: str
    calls: bool


DELEGATED = "DELEGATED-TASK"
