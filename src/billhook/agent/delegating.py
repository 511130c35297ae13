"""Tools with which an agent gives work to others: Task, SendMessage, TaskOutput.

A subagent is an agent inside a session inside the session: the same model, hooks, rules and person, its own transcript.
"""

import uuid
from collections.abc import Callable
from typing import Any, Final

from billhook.agent.loop import Agent
from billhook.agent.model import ToolSpec
from billhook.agent.tool import Input, Tool, ToolError

_TEXT: Final = {"type": "string"}
_LONGEST_WAIT: Final = 600.0

TASK: Final = ToolSpec(
    "Task",
    "Give a piece of work to a subagent, and get its last message. With run_in_background it works beside you; with a "
    "name it becomes a teammate, which takes messages (SendMessage) when it is done. TaskOutput waits for either.",
    {
        "type": "object",
        "properties": {
            "description": {**_TEXT, "description": "The work in a few words"},
            "prompt": {**_TEXT, "description": "Everything the subagent has to know"},
            "subagent_type": {**_TEXT, "description": "What kind of agent; general-purpose if nothing else fits"},
            "run_in_background": {"type": "boolean"},
            "name": {**_TEXT, "description": "Makes it a teammate of this name"},
        },
        "required": ["description", "prompt"],
    },
)
SEND: Final = ToolSpec(
    "SendMessage",
    "Send a message to a teammate.",
    {"type": "object", "properties": {"to": _TEXT, "message": _TEXT}, "required": ["to", "message"]},
)
OUTPUT: Final = ToolSpec(
    "TaskOutput",
    "Get the output of a background task or of a teammate's first task.",
    {
        "type": "object",
        "properties": {"task_id": _TEXT, "wait": {"type": "number", "description": "Seconds to wait for its end"}},
        "required": ["task_id"],
    },
)

Spawn = Callable[[Agent, str, str, str], Agent]
"""Makes an agent inside another's session, from (parent, type, agent id, a teammate's name or nothing)."""


def delegating_tools(agent: Agent, spawn: Spawn) -> list[Tool]:
    """The tools with which an agent has others work."""

    async def task(given: Input) -> str:
        return await _delegate(agent, spawn, given)

    async def send(given: Input) -> str:
        return agent.team.send(_text(given, "to"), _text(given, "message"))

    return [Tool(TASK, task, reads_only=True), Tool(SEND, send, reads_only=True)]


def output_tool(agent: Agent) -> Tool:
    """The tool with which an agent gets at what runs in the background."""

    async def output(given: Input) -> str:
        seconds = given.get("wait", 0)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise ToolError("`wait` must be a number of seconds")
        return await agent.team.output(_text(given, "task_id"), min(max(float(seconds), 0.0), _LONGEST_WAIT))

    return Tool(OUTPUT, output, reads_only=True)


async def _delegate(agent: Agent, spawn: Spawn, given: Input) -> str:
    subject, prompt = _text(given, "description"), _text(given, "prompt")
    kind = _text(given, "subagent_type", "general-purpose")
    name = _text(given, "name", "")
    nested = spawn(agent, kind, uuid.uuid4().hex[:16], name)
    if name:
        hired = await agent.team.hire(agent.session, nested, subject, prompt)
        return f"{name} is at work on {hired.id}; TaskOutput waits for it, SendMessage gives it more"
    if given.get("run_in_background") is True:
        started = await agent.team.start(agent, subject, prompt, lambda: _work(nested, prompt))
        return f"started as {started.id}; TaskOutput waits for it"
    return await _work(nested, prompt)


async def _work(nested: Agent, prompt: str) -> str:
    """A subagent's whole life, and its last message."""
    async with nested.session:
        ended = await nested.answer(prompt)
    if ended.how != "done":
        raise ToolError(f"the subagent {ended.how}: {ended.text}")
    return ended.text


def _text(given: dict[str, Any], field: str, default: str | None = None) -> str:
    value = given.get(field, default)
    if not isinstance(value, str):
        raise ToolError(f"`{field}` is missing" if value is None else f"`{field}` must be a text")
    return value
