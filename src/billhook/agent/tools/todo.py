"""TodoWrite: the list that a model keeps of what it has to do."""

from typing import Any, Literal, get_args

import msgspec

from billhook.agent.model import ToolSpec
from billhook.agent.tool import Input, Tool, ToolError
from billhook.agent.tools import inputs

Status = Literal["pending", "in_progress", "completed"]
_MARKS = {"pending": " ", "in_progress": ">", "completed": "x"}


class Todo(msgspec.Struct, frozen=True):
    """One thing to do. `active_form` is how it reads while it is being done."""

    content: str
    status: Status
    active_form: str = ""

    def __str__(self) -> str:
        words = self.active_form if self.status == "in_progress" and self.active_form else self.content
        return f"[{_MARKS[self.status]}] {' '.join(words.split())}"


class TodoList:
    """The list as it was last written; lives as long as the agent."""

    def __init__(self) -> None:
        self.todos: tuple[Todo, ...] = ()

    def __str__(self) -> str:
        done = sum(todo.status == "completed" for todo in self.todos)
        title = f"{done} of {len(self.todos)} done" if self.todos else "The list is empty"
        return "\n".join([title, *map(str, self.todos)])


def todo_write(todos: TodoList) -> Tool:
    """The tool that writes a list."""

    async def run(given: Input) -> str:
        # Read all of it before any of it counts: a list with a mistake leaves the old one as it was.
        todos.todos = tuple(
            _todo(item, f"todos[{number}]") for number, item in enumerate(inputs.records(given, "todos"))
        )
        return str(todos)

    return Tool(SPEC, run, reads_only=True)


def _todo(item: dict[str, Any], place: str) -> Todo:
    try:
        content, status = inputs.text(item, "content"), inputs.text(item, "status")
        active_form = inputs.optional_text(item, "activeForm")
    except ToolError as error:
        raise ToolError(f"{place}: {error}") from None
    if status not in get_args(Status):
        raise ToolError(f"{place}: `status` must be one of {', '.join(get_args(Status))}, not `{status}`")
    return msgspec.convert({"content": content, "status": status, "active_form": active_form}, Todo)


SPEC = ToolSpec(
    "TodoWrite",
    "Keep a list of what there is to do, for work of several steps. Each call gives the whole list anew. Have one item "
    "in progress at a time, and mark it completed as soon as it is.",
    {
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {"type": "string", "minLength": 1, "description": "What to do"},
                        "status": {"type": "string", "enum": list(get_args(Status))},
                        "activeForm": {"type": "string", "description": "The same while it is being done"},
                    },
                    "required": ["content", "status"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["todos"],
        "additionalProperties": False,
    },
)
