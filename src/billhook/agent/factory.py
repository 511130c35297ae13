"""Makes an agent from a configuration, and the tools for delegating work: Task, SendMessage, TaskOutput.

A subagent is an agent in a nested session: the same model, hooks, rules and user, but a separate transcript.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from billhook.agent import tools as base
from billhook.agent.conversation import resumed, transcript_of
from billhook.agent.loop import BUDGET, AgentLoop, Job, Team
from billhook.agent.models import Model
from billhook.agent.permissions import AgentPermissions
from billhook.agent.tools import Input, Tool, ToolError, Workspace, standard_tools
from billhook.agent.ui_events import NoticeShown, SessionStarted, Show, judged
from billhook.config.config import Config
from billhook.config.recorder import LazySession
from billhook.core.answers import Verdict
from billhook.core.hook import Hook
from billhook.session.calls import Ask
from billhook.session.session import Session, Subagent

_TEXT: Final = {"type": "string"}
_LONGEST_WAIT: Final = 600.0

TASK: Final = base.spec(
    "Task",
    "Delegate work to a subagent, and get its last message. With run_in_background it works in parallel; with a name "
    "it becomes a teammate, which accepts messages (SendMessage) when it is done. TaskOutput waits for either.",
    "description prompt",
    description={**_TEXT, "description": "The work in a few words"},
    prompt={**_TEXT, "description": "Everything the subagent needs to know"},
    subagent_type={**_TEXT, "description": "The type of agent; general-purpose if nothing else fits"},
    run_in_background={"type": "boolean"},
    name={**_TEXT, "description": "Makes it a teammate of this name"},
)
SEND: Final = base.spec("SendMessage", "Send a message to a teammate.", "to message", to=_TEXT, message=_TEXT)
OUTPUT: Final = base.spec(
    "TaskOutput",
    "Get the output of a background task or of a teammate's first task.",
    "task_id",
    task_id=_TEXT,
    wait={"type": "number", "description": "Seconds to wait for its end"},
)

Spawn = Callable[[AgentLoop, str, str, str], AgentLoop]
"""Makes an agent inside another's session, from (parent, type, agent id, a teammate's name or an empty string)."""


def delegating_tools(agent: AgentLoop, spawn: Spawn) -> list[Tool]:
    async def send(given: Input) -> str:
        return agent.team.send(given["to"], given["message"])

    return [base.tool(TASK, partial(_delegate, agent, spawn)), base.tool(SEND, send)]


def output_tool(agent: AgentLoop) -> Tool:
    async def output(given: Input) -> str:
        return await agent.team.output(given["task_id"], min(max(given.get("wait", 0.0), 0.0), _LONGEST_WAIT))

    return base.tool(OUTPUT, output)


async def _delegate(agent: AgentLoop, spawn: Spawn, given: Input) -> str:
    subject, prompt, name = given["description"], given["prompt"], given.get("name", "")
    nested = spawn(agent, given.get("subagent_type", "general-purpose"), uuid.uuid4().hex[:16], name)
    if name:
        hired = await agent.team.hire(agent.session, nested, subject, prompt)
        return f"{name} is working on {hired.id}; TaskOutput waits for it, SendMessage sends it more work"
    if given.get("run_in_background"):
        started = await agent.team.start(agent, subject, prompt, lambda: _work(nested, prompt))
        return f"started as {started.id}; TaskOutput waits for it"
    return await _work(nested, prompt)


async def _work(nested: AgentLoop, prompt: str) -> str:
    async with nested.session:
        ended = await nested.answer(prompt)
    if ended.how != "done":
        raise ToolError(f"the subagent {ended.how}: {ended.text}")
    return ended.text


# Making an agent from a configuration, with an open session.

SYSTEM = """\
You are an agent in the folder {cwd}. Do what the user asks with the tools you have, and report briefly what you did. \
A tool call may be denied by a hook or a rule; the result contains the reason. Find another way, or ask: never get \
around it."""


@asynccontextmanager
async def open_agent(
    config: Config,
    model: Model,
    *,
    cwd: str,
    show: Show,
    ask: Ask | None = None,
    permission_mode: str | None = None,
    resume: str = "",
    setup: Literal["init", "maintenance"] | None = None,
    budget: int = BUDGET,
    hooks: Iterable[Hook] = (),
) -> AsyncIterator[AgentLoop]:
    """An agent in an open session: SessionStart was fired, SessionEnd is always fired at the end. `resume` is the id of
    an earlier session. `show` gets all UI events; `hooks` are the caller's, in addition to the configured ones."""
    root = Path(config.root)
    workspace = Workspace(cwd)
    permissions = AgentPermissions(config.permissions, workspace.inside)
    transcript, messages = resumed(root, config.project, resume) if resume else (None, [])
    session = Session(
        config.engine(hooks=hooks, host="agent", observers=[_shower(show)], listen=show),
        cwd=str(workspace.root),
        source="resume" if resume else "startup",
        ask=ask,
        permissions=permissions,
        permission_mode=permissions.starting_mode(permission_mode),
        session_id=resume,
        model=model.name,
        agent_type="main",
        setup=setup,
    )
    transcript = transcript or transcript_of(root, config.project, session.id)
    session.transcript_path = str(transcript.path)
    agent = AgentLoop(
        session=session,
        model=model,
        workspace=workspace,
        transcript=transcript,
        show=show,
        system=SYSTEM.format(cwd=workspace.root),
        team=Team(show),
        messages=messages,
        budget=budget,
    )
    _equip(agent, config)
    async with session:
        show(_started(session, config))
        try:
            yield agent
        finally:
            await agent.team.close()
            await _announce_hooks_left(session, show)
            if problem := transcript.problem or agent.transcript.problem:  # after `begin_anew` the agent has another
                show(NoticeShown(problem))


async def _announce_hooks_left(session: Session, show: Show) -> None:
    """The session's end waits for hooks in the background: show a notice if that takes longer."""
    end = time.monotonic() + _SILENT
    while (left := session.background_hooks) and time.monotonic() < end:  # noqa: ASYNC110 - they run in threads
        await asyncio.sleep(0.02)
    if left:
        show(NoticeShown(f"waiting for hooks in the background: {', '.join(left)} (Ctrl-C ends them)"))


_SILENT: Final = 1.0  # seconds of waiting for hooks in the background before the notice


async def start_over(agent: AgentLoop, config: Config) -> None:
    """Start over, as `/clear` does: another session and transcript. Background tasks are ended."""
    await agent.team.close()
    session_id = str(uuid.uuid4())
    agent.transcript = transcript_of(Path(config.root), config.project, session_id)
    agent.team, agent.messages = Team(agent.show), []
    agent.session.permissions = AgentPermissions(config.permissions, agent.workspace.inside)
    await agent.session.clear(session_id=session_id, transcript_path=str(agent.transcript.path))
    agent.show(_started(agent.session, config))


def _equip(agent: AgentLoop, config: Config) -> None:
    """Give an agent its tools. A subagent can't delegate: there is one level only."""

    async def background(subject: str, description: str, job: Job) -> str:
        task = await agent.team.start(agent, subject, description, job)
        return f"started as {task.id}; TaskOutput waits for it"

    tools = [*standard_tools(agent.workspace, background=background), output_tool(agent)]
    if not isinstance(agent.session, Subagent):
        tools += delegating_tools(agent, lambda *about: _spawn(config, *about))
    agent.tools = {tool.name: tool for tool in tools}


def _spawn(config: Config, parent: AgentLoop, kind: str, agent_id: str, name: str) -> AgentLoop:
    transcript = transcript_of(Path(config.root), config.project, parent.session.id, agent_id)
    workspace = Workspace(parent.workspace.root)
    workspace.cwd = parent.workspace.cwd  # it begins in the parent's folder, for rules and hooks, too
    session = parent.session.subagent(
        kind, agent_id=agent_id, transcript_path=str(transcript.path), detached=bool(name)
    )
    nested = replace(
        parent, session=session, workspace=workspace, transcript=transcript, name=name or kind, messages=[]
    )
    _equip(nested, config)
    return nested


def _shower(show: Show) -> Any:
    def observe(verdict: Verdict) -> None:
        show(judged(verdict))
        of_hooks = {outcome.answer.message for outcome in verdict.outcomes}  # shown with their hooks, or hidden
        for text in verdict.messages:
            if text not in of_hooks:  # a message of billhook itself
                show(NoticeShown(text))

    return observe


def _started(session: Session, config: Config) -> SessionStarted:
    return SessionStarted(
        session.id,
        LazySession(config.knowing, session.id).session_name if config.knowing is not None else "",
        session.source,
        session.model or "",
        session.cwd,
        session.permission_mode,
        session.transcript_path,
    )
