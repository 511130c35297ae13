"""The tools that every agent has: Bash, Read, Write, Edit and TodoWrite. (`Task` belongs to the loop.)"""

from billhook.agent.tools.base import Tool, todo_write
from billhook.agent.tools.bash import Background, bash
from billhook.agent.tools.files import Workspace, edit, read, write

__all__ = ["Background", "Workspace", "standard_tools"]


def standard_tools(workspace: Workspace, *, background: Background | None = None) -> list[Tool]:
    """The standard tools for one agent in one workspace. `background` starts a command as a task and returns what the
    model is told; without it nothing runs in the background."""
    return [bash(workspace, background), read(workspace), write(workspace), edit(workspace), todo_write()]
