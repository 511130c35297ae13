"""Put an agent together from a configuration, and keep its session open."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from billhook.agent.delegating import delegating_tools, output_tool
from billhook.agent.loop import BUDGET, Agent
from billhook.agent.model import Model
from billhook.agent.permissions import AgentPermissions
from billhook.agent.shown import Notice, SessionStarted, Show, judged
from billhook.agent.team import Job, Team
from billhook.agent.tools import standard_tools
from billhook.agent.tools.workspace import Workspace
from billhook.agent.transcript import resumed, transcript_of
from billhook.answers import Verdict
from billhook.config import Config
from billhook.config.knowing import Looked
from billhook.hook import Hook
from billhook.session import Ask, Session, Subagent

SYSTEM = """\
You are an agent in the folder {cwd}. Do what the person asks with the tools you have, and say in few words what you \
did. A tool call may be denied by a hook or a rule; the result says why. Find another way, or ask: never get around \
it."""


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
) -> AsyncIterator[Agent]:
    """An agent in an open session: SessionStart was fired, SessionEnd will be, whatever happens. `resume` is the id of
    an earlier session. What happens is told to `show`; `hooks` are the caller's own, beside the configured ones."""
    root = Path(config.root)
    workspace = Workspace(cwd)
    permissions = AgentPermissions(config.permissions, workspace)
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
    agent = Agent(
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
            if problem := transcript.problem or agent.transcript.problem:  # after `begin_anew` it has another
                show(Notice(problem))


async def _announce_hooks_left(session: Session, show: Show) -> None:
    """The session's end waits for hooks in the background: say so when that takes longer."""
    end = time.monotonic() + _SILENT
    while (left := session.background_hooks) and time.monotonic() < end:  # noqa: ASYNC110 - they run in threads
        await asyncio.sleep(0.02)
    if left:
        show(Notice(f"waiting for hooks in the background: {', '.join(left)} (Ctrl-C ends them)"))


_SILENT: Final = 1.0  # seconds for which hooks in the background are waited for without a word


async def begin_anew(agent: Agent, config: Config) -> None:
    """Start over, as `/clear` does: another session and transcript. What runs in the background is ended."""
    await agent.team.close()
    session_id = str(uuid.uuid4())
    agent.transcript = transcript_of(Path(config.root), config.project, session_id)
    agent.team, agent.messages = Team(agent.show), []
    agent.session.permissions = AgentPermissions(config.permissions, agent.workspace)
    await agent.session.clear(session_id=session_id, transcript_path=str(agent.transcript.path))
    agent.show(_started(agent.session, config))


def _equip(agent: Agent, config: Config) -> None:
    """Give an agent its tools. A subagent has none to delegate with: one level is enough to follow."""

    async def background(subject: str, description: str, job: Job) -> str:
        task = await agent.team.start(agent, subject, description, job)
        return f"started as {task.id}; TaskOutput waits for it"

    tools = [*standard_tools(agent.workspace, background=background), output_tool(agent)]
    if not isinstance(agent.session, Subagent):
        tools += delegating_tools(agent, lambda *about: _spawn(config, *about))
    agent.tools = {tool.name: tool for tool in tools}


def _spawn(config: Config, parent: Agent, kind: str, agent_id: str, name: str) -> Agent:
    transcript = transcript_of(Path(config.root), config.project, parent.session.id, agent_id)
    workspace = Workspace(parent.workspace.root)
    workspace.cwd = parent.workspace.cwd  # it begins where its parent is, and is judged there
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
        said = {outcome.answer.message for outcome in verdict.outcomes}  # shown as theirs, or to be hidden
        for text in verdict.messages:
            if text not in said:  # billhook's own
                show(Notice(text))

    return observe


def _started(session: Session, config: Config) -> SessionStarted:
    return SessionStarted(
        session.id,
        Looked(config.knowing, session.id).session_name if config.knowing is not None else "",
        session.source,
        session.model or "",
        session.cwd,
        session.permission_mode,
        session.transcript_path,
    )
