"""The tools that every agent has: Bash, Read, Write, Edit and TodoWrite. (`Task` belongs to the loop.)"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.agent.models import ToolSpec

if TYPE_CHECKING:
    from billhook.agent.tools.bash import Background
    from billhook.agent.tools.files import Workspace

Input = dict[str, Any]


class ToolError(Exception):
    """The tool ran and failed; the text is for the model and the hooks."""


class Tool(msgspec.Struct, frozen=True):
    """One tool. `run` returns the `tool_response` for hooks, a string or JSON value, or raises ToolError."""

    spec: ToolSpec
    run: Callable[[Input], Awaitable[Any]]

    @property
    def name(self) -> str:
        return self.spec.name


# A tool's input, checked against its JSON Schema:


ALIASES: dict[str, dict[str, str]] = {
    "Read": {"path": "file_path"},
    "Write": {"path": "file_path"},
    "Edit": {"path": "file_path", "old_text": "old_string", "new_text": "new_string"},
}
"""Other names of a tool's fields, from seed 004."""

Schema = Mapping[str, Any]
_KINDS: dict[str, tuple[Any, str]] = {
    "string": (str, "a string"),
    "boolean": (bool, "true or false"),
    "integer": (int | float, "a whole number from 1 up"),
    "number": (int | float, "a number of seconds"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
}
"""By JSON Schema's name of a type: Python's types, and its name in messages."""
_FOUND = {bool: "a boolean", dict: "an object", list: "a list", str: "a string"}


def spec(name: str, description: str, required: str, /, **properties: Schema) -> ToolSpec:
    """The description of a tool for the model; `required` are names of fields, separated by spaces."""
    return ToolSpec(name, description, fields(required, **properties))


def fields(required: str, /, **properties: Schema) -> dict[str, Any]:
    """The schema of an object."""
    about = {"type": "object", "properties": properties, "required": required.split()}
    return {**about, "additionalProperties": False}


def tool(spec: ToolSpec, run: Callable[[Input], Awaitable[Any]]) -> Tool:
    """A tool whose `run` gets the fields of its schema, with their types checked."""

    async def run_checked(given: Input) -> Any:
        return await run(_object(canonical(spec.name, given), spec.schema))

    return Tool(spec, run_checked)


def canonical(tool: str, given: Input) -> Input:
    """The input with the names that hooks and rules use. Raises ToolError if two names of a field have different
    values."""
    aliases = ALIASES.get(tool, {})
    if not aliases.keys() & given.keys():
        return given
    settled: Input = {}
    for key, value in given.items():
        name = aliases.get(key, key)
        own = given.get(name)
        if None not in (own, value) and own != value:
            raise ToolError(f"`{name}` and `{key}` are the same field, but they differ: use `{name}` only")
        if value is not None or (key == name and name not in settled):
            settled[name] = value
    return settled


def _object(given: Input, schema: Schema) -> Input:
    properties = schema["properties"]
    for name in schema["required"]:
        if given.get(name) is None:
            raise ToolError(f"`{name}` is missing: it must be {_KINDS[properties[name]['type']][1]}")
    present = {name: given[name] for name in properties if given.get(name) is not None}
    return {name: _value(value, name, properties[name]) for name, value in present.items()}


def _value(value: Any, name: str, schema: Schema) -> Any:
    kind = schema["type"]
    if not isinstance(value, _KINDS[kind][0]) or (isinstance(value, bool) and kind != "boolean"):
        raise _mistyped(name, kind, value)
    match kind:
        case "string":
            _check_text(value, name, schema)
        case "integer":
            if value != value // 1 or value < schema["minimum"]:
                raise _mistyped(name, kind, value)
            return int(value)
        case "array":
            return [_item(item, f"{name}[{number}]", schema["items"]) for number, item in enumerate(value)]
    return value


def _item(item: Any, place: str, schema: Schema) -> Input:
    _value(item, place, {"type": "object"})
    try:
        return _object(item, schema)
    except ToolError as error:
        raise ToolError(f"{place}: {error}") from None


def _check_text(value: str, name: str, schema: Schema) -> None:
    if not value and "minLength" in schema:
        raise ToolError(f"`{name}` is empty")
    if value not in schema.get("enum", [value]):
        raise ToolError(f"`{name}` must be one of {', '.join(schema['enum'])}, not `{value}`")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"`{name}` contains half a character (a lone surrogate) at position {error.start}") from None


def _mistyped(name: str, kind: str, value: object) -> ToolError:
    found = str(value) if type(value) in (int, float) else _FOUND.get(type(value), type(value).__name__)
    return ToolError(f"`{name}` must be {_KINDS[kind][1]}, not {found}")


# TodoWrite:


_MARKS: Final = {"pending": " ", "in_progress": ">", "completed": "x"}


async def todo_write(given: Input) -> str:
    """Write a list."""
    todos = given["todos"]
    done = sum(todo["status"] == "completed" for todo in todos)
    title = f"{done} of {len(todos)} done" if todos else "The list is empty"
    return "\n".join([title, *map(_line, todos)])


def _line(todo: Input) -> str:
    being_done = todo.get("activeForm") if todo["status"] == "in_progress" else ""
    words = being_done or todo["content"]
    return f"[{_MARKS[todo['status']]}] {' '.join(words.split())}"


_TODO = fields(
    "content status",
    content={"type": "string", "minLength": 1, "description": "What to do"},
    status={"type": "string", "enum": list(_MARKS)},
    activeForm={"type": "string", "description": "The same while it is being done"},
)
SPEC = spec(
    "TodoWrite",
    "Keep a list of tasks, for work of several steps. Each call replaces the whole list. Have one item in progress at "
    "a time, and mark it completed as soon as it is.",
    "todos",
    todos={"type": "array", "items": _TODO},
)


# All of them:


def standard_tools(workspace: "Workspace", *, background: "Background | None" = None) -> list[Tool]:
    """The standard tools for one agent in one workspace. `background` starts a command as a task and returns the text
    for the model; without it nothing runs in the background."""
    from billhook.agent.tools import bash, files

    return [
        tool(bash.SPEC, partial(bash.bash, workspace, background)),
        tool(files.READ, partial(files.read, workspace)),
        tool(files.WRITE, partial(files.write, workspace)),
        tool(files.EDIT, partial(files.edit, workspace)),
        tool(SPEC, todo_write),
    ]
