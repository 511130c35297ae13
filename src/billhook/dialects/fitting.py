"""A rewritten output in the shape that Claude Code takes. It ignores one of another shape without a word, and the model
then reads what was to be hidden."""

from typing import Any, Final, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from billhook import strictjson
from billhook.answers import Answer
from billhook.events import Event

_FIXED: Final = ("type", "mode", "status")
"""Keys whose value says which shape the rest has: another value is another shape."""


class Fitted(NamedTuple):
    """An answer that Claude Code takes."""

    answer: Answer
    lost: str = ""  # how it differs from what the hook said; nothing: it does not


def fitted(event: Event, answer: Answer) -> Fitted:
    """The answer with its rewritten output in the shape of the tool's own. Text goes where the tool has its text, and a
    part of an object is laid over the whole. What can't be made to fit ends the run: nobody reads the original."""
    own, new = getattr(event, "tool_response", None), answer.updated_output
    if new is UNSET or event.hook_event_name != "PostToolUse":
        return Fitted(answer)
    tool = str(getattr(event, "tool_name", "the tool"))
    shaped = new if own is None or tool.startswith("mcp__") else _shaped(own, new)
    if shaped is UNSET or shaped is None:
        why = f"a hook replaced the output of {tool} by one that Claude Code does not take for it"
        ended = replace(answer, updated_output=UNSET, stop=True, stop_reason=answer.stop_reason or why)
        return Fitted(ended, f"{why}, so the run ends")
    if shaped == new:
        return Fitted(answer)
    shape = "a rewritten output is said in the shape that the tool's output has"
    return Fitted(replace(answer, updated_output=shaped), shape)


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
