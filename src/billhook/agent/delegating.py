"""Tools with which an agent gives work to others: Task, SendMessage, TaskOutput.

A subagent is an agent inside a session inside the session: the same model, hooks, rules and person, its own transcript.
"""

import uuid
from collections.abc import Callable
from typing import Final

from billhook.agent.loop import Agent
from billhook.agent.tool import Input, Tool, ToolError
from billhook.agent.tools import inputs

_TEXT: Final = {"type": "string"}
_LONGEST_WAIT: Final = 600.0

TASK: Final = inputs.spec(
    "Task",
    "Give a piece of work to a subagent, and get its last message. With run_in_background it works beside you; with a "
    "name it becomes a teammate, which takes messages (SendMessage) when it is done. TaskOutput waits for either.",
    "description prompt",
    description={**_TEXT, "description": "The work in a few words"},
    prompt={**_TEXT, "description": "Everything the subagent has to know"},
    subagent_type={**_TEXT, "description": "What kind of agent; general-purpose if nothing else fits"},
    run_in_background={"type": "boolean"},
    name={**_TEXT, "description": "Makes it a teammate of this name"},
)
SEND: Final = inputs.spec("SendMessage", "Send a message to a teammate.", "to message", to=_TEXT, message=_TEXT)
OUTPUT: Final = inputs.spec(
    "TaskOutput",
    "Get the output of a background task or of a teammate's first task.",
    "task_id",
    task_id=_TEXT,
    wait={"type": "number", "description": "Seconds to wait for its end"},
)

Spawn = Callable[[Agent, str, str, str], Agent]
"""Makes an agent inside another's session, from (parent, type, agent id, a teammate's name or nothing)."""


def delegating_tools(agent: Agent, spawn: Spawn) -> list[Tool]:
    """The tools with which an agent has others work."""

    async def task(given: Input) -> str:
        return await _delegate(agent, spawn, given)

    async def send(given: Input) -> str:
        return agent.team.send(given["to"], given["message"])

    return [inputs.tool(TASK, task), inputs.tool(SEND, send)]


def output_tool(agent: Agent) -> Tool:
    """The tool with which an agent gets at what runs in the background."""

    async def output(given: Input) -> str:
        return await agent.team.output(given["task_id"], min(max(given.get("wait", 0.0), 0.0), _LONGEST_WAIT))

    return inputs.tool(OUTPUT, output)


async def _delegate(agent: Agent, spawn: Spawn, given: Input) -> str:
    subject, prompt, name = given["description"], given["prompt"], given.get("name", "")
    nested = spawn(agent, given.get("subagent_type", "general-purpose"), uuid.uuid4().hex[:16], name)
    if name:
        hired = await agent.team.hire(agent.session, nested, subject, prompt)
        return f"{name} is at work on {hired.id}; TaskOutput waits for it, SendMessage gives it more"
    if given.get("run_in_background"):
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
