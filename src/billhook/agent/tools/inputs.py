"""What a model gave a tool, field by field: each reader returns a value of its type or names the field that is wrong.

A null counts as absent. A field may have a second name (seed 004's tools say `path` where ours say `file_path`);
when both are given they must agree, or else a hook could judge the one and the tool use the other.
"""

from typing import Any

from billhook.agent.tool import Input, ToolError

ALIASES: dict[str, dict[str, str]] = {
    "Read": {"path": "file_path"},
    "Write": {"path": "file_path"},
    "Edit": {"path": "file_path", "old_text": "old_string", "new_text": "new_string"},
}
"""Other names of a tool's fields, which seed 004's tools have."""


def canonical(tool: str, given: Input) -> Input:
    """The input under the names that hooks and rules look at. Raises ToolError when a field is given twice, and not
    the same."""
    aliases = ALIASES.get(tool, {})
    if not aliases.keys() & given.keys():
        return given
    settled: Input = {}
    for key, value in given.items():
        name = aliases.get(key, key)
        if value is not None or (key == name and name not in settled):
            settled[name] = value if key == name else _value(given, name, key)
    return settled


def text(given: Input, name: str, alias: str = "", *, empty: bool = False) -> str:
    """A text that must be there."""
    value = _value(given, name, alias)
    if value is None:
        raise ToolError(f"`{name}` is missing: it must be a text")
    if not isinstance(value, str):
        raise _mistyped(name, "a text", value)
    if not value and not empty:
        raise ToolError(f"`{name}` is empty")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"`{name}` holds half a character (a lone surrogate) at position {error.start}") from None
    return value


def optional_text(given: Input, name: str) -> str:
    """A text that may be missing or empty."""
    return "" if given.get(name) is None else text(given, name, empty=True)


def flag(given: Input, name: str) -> bool:
    """True or false; false when it is missing."""
    value = given.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise _mistyped(name, "true or false", value)


def count(given: Input, name: str) -> int | None:
    """A whole number from 1 up, or None when it is missing."""
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or value < 1:
        raise _mistyped(name, "a whole number from 1 up", value)
    return int(value)


def records(given: Input, name: str) -> list[dict[str, Any]]:
    """A list of objects that must be there."""
    value = given.get(name)
    if value is None:
        raise ToolError(f"`{name}` is missing: it must be a list")
    if not isinstance(value, list):
        raise _mistyped(name, "a list", value)
    for number, item in enumerate(value):
        if not isinstance(item, dict):
            raise _mistyped(f"{name}[{number}]", "an object", item)
    return value


def _value(given: Input, name: str, alias: str) -> Any:
    own, other = given.get(name), given.get(alias) if alias else None
    if own is not None and other is not None and own != other:
        raise ToolError(f"`{name}` and `{alias}` are the same field, but they differ: give `{name}` only")
    return other if own is None else own


def _mistyped(name: str, wanted: str, value: object) -> ToolError:
    words = {bool: "a boolean", dict: "an object", list: "a list", str: "a text"}
    found = str(value) if type(value) in (int, float) else words.get(type(value), type(value).__name__)
    return ToolError(f"`{name}` must be {wanted}, not {found}")
