"""TodoWrite: the list that a model keeps of what it has to do."""

from typing import Final

from billhook.agent.tools import base
from billhook.agent.tools.base import Input, Tool

_MARKS: Final = {"pending": " ", "in_progress": ">", "completed": "x"}


def todo_write() -> Tool:
    """The tool that writes a list."""

    async def run(given: Input) -> str:
        todos = given["todos"]
        done = sum(todo["status"] == "completed" for todo in todos)
        title = f"{done} of {len(todos)} done" if todos else "The list is empty"
        return "\n".join([title, *map(_line, todos)])

    return base.tool(SPEC, run)


def _line(todo: Input) -> str:
    being_done = todo.get("activeForm") if todo["status"] == "in_progress" else ""
    words = being_done or todo["content"]
    return f"[{_MARKS[todo['status']]}] {' '.join(words.split())}"


_TODO = base.fields(
    "content status",
    content={"type": "string", "minLength": 1, "description": "What to do"},
    status={"type": "string", "enum": list(_MARKS)},
    activeForm={"type": "string", "description": "The same while it is being done"},
)
SPEC = base.spec(
    "TodoWrite",
    "Keep a list of what there is to do, for work of several steps. Each call gives the whole list anew. Have one item "
    "in progress at a time, and mark it completed as soon as it is.",
    "todos",
    todos={"type": "array", "items": _TODO},
)
