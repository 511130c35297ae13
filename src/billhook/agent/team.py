"""Background tasks, and teammates with a mailbox.

A task is announced (TaskCreated), runs, and is done after TaskCompleted: if a hook refuses that, the task stays open,
and the reason goes back to the model. A teammate is a named agent; when its work is done and its mailbox is empty,
TeammateIdle is fired, and a hook can give it more work.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from billhook.agent.conversation import Usage
from billhook.agent.tools import ToolError
from billhook.agent.ui_events import NoticeShown, Show, TaskChanged
from billhook.core.events import TaskCompleted, TaskCreated, TeammateIdle
from billhook.session.session import FORCED_AT_MOST, Session, Subagent

if TYPE_CHECKING:
    from billhook.agent.loop import AgentLoop

Job = Callable[[], Awaitable[str]]
State = Literal["started", "done", "failed", "open"]
_TOLD: Final = 4_000  # characters of a task's output in the notification to the model


@dataclass(eq=False)
class Mate:
    """A teammate: a name and a mailbox. Lives as long as the team."""

    name: str
    team: str
    agent_id: str
    mail: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    idle: asyncio.Event = field(default_factory=asyncio.Event)  # it has nothing to do, and no hook gave it work
    forced: int = 0  # how often in a row a hook gave it work

    @property
    def fields(self) -> dict[str, Any]:
        return {"teammate_name": self.name, "team_name": self.team}


@dataclass(eq=False)
class Task:
    """One background task. Lives as long as the team."""

    id: str
    subject: str
    description: str
    mate: Mate | None
    output: str = ""
    state: str = "started"
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def fields(self) -> dict[str, Any]:
        """The common fields of a task's events."""
        about = {"task_id": self.id, "task_subject": self.subject, "task_description": self.description}
        return about if self.mate is None else about | self.mate.fields


class Team:
    """All tasks and teammates of one main session. Lives as long as the session; `close` ends all that still run."""

    def __init__(self, show: Show, name: str = "main") -> None:
        self.show, self.name = show, name
        self.tasks: dict[str, Task] = {}
        self.mates: dict[str, Mate] = {}
        self.usage = Usage()  # of all model calls in this session
        self._running: set[asyncio.Task[None]] = set()
        self._reopened: list[str] = []
        self._numbers = itertools.count(1)

    # -- background tasks

    async def start(self, agent: "AgentLoop", subject: str, description: str, job: Job) -> Task:
        """Create a task and start it. Raises ToolError if a hook refuses."""
        task = await self._announced(agent.session, subject, description, self.mates.get(agent.name))
        self._follow(self._run(agent.session, task, job), task)
        return task

    async def _announced(self, session: Session, subject: str, description: str, mate: Mate | None) -> Task:
        task = Task(f"task_{next(self._numbers)}", subject, description, mate)
        created = await session.fire(TaskCreated, **task.fields)
        if created.denied or session.stopped is not None:
            raise ToolError(created.reason or session.stopped or "a hook refused the task")
        self.tasks[task.id] = task
        self._changed(task, "started")
        return task

    async def _run(self, session: Session, task: Task, job: Job) -> None:
        state: State = "done"
        try:
            task.output = await job()
        except ToolError as error:
            task.output, state = str(error), "failed"
        refused = await self._completed(session, task, state)
        if refused:
            self._reopen(task, refused)
        else:
            _alive(session).add_context(
                f"Background task {task.id} ({task.subject}) is {state}:\n{task.output[:_TOLD]}"
            )

    async def _completed(self, session: Session, task: Task, state: State) -> str:
        """Mark a task as done. Why a hook refuses; empty: it is done."""
        verdict = await session.fire(TaskCompleted, **task.fields)
        if verdict.denied:
            self._changed(task, "open", verdict.reason)
            return verdict.reason or "a hook refused it"
        self._changed(task, state)
        await session.notify(f"{task.subject} is {state}", type="agent_completed", title=task.id)
        return ""

    def _reopen(self, task: Task, why: str) -> None:
        self._reopened.append(f"Task {task.id} ({task.subject}) is not accepted as done: {why}")

    async def output(self, task_id: str, seconds: float) -> str:
        """The output of a task; waits for its end, up to a limit."""
        task = self.tasks.get(task_id)
        if task is None:
            raise ToolError(f"no task `{task_id}`; the tasks are: {', '.join(self.tasks) or 'none'}")
        try:
            await asyncio.wait_for(task.ended.wait(), seconds)
        except TimeoutError:
            return f"{task.id} is still running"
        return f"{task.id} is {task.state}\n{task.output}".strip()

    # -- teammates

    async def hire(self, session: Session, agent: "AgentLoop", subject: str, prompt: str) -> Task:
        """A teammate that begins with a task. Raises ToolError if a hook refuses."""
        if agent.name in self.mates or agent.name == self.name:
            raise ToolError(f"the agent `{agent.name}` already exists; send it a message instead")
        mate = Mate(agent.name, self.name, getattr(agent.session, "agent_id", ""))
        task = await self._announced(session, subject, prompt, mate)
        self.mates[mate.name] = mate
        self._follow(self._live(agent, mate, task, prompt), task, mate)
        return task

    async def _live(self, agent: "AgentLoop", mate: Mate, task: Task, prompt: str) -> None:
        """Work, go idle, get mail, work. Ends with the team, or when a hook stops it."""
        async with agent.session as session:
            wanted: str | None = prompt
            while wanted is not None:
                ended = await agent.answer(wanted)
                if not task.ended.is_set():
                    task.output = ended.text
                if session.stopped is not None:
                    if not task.ended.is_set():
                        self._changed(task, "failed", session.stopped)
                    self.show(NoticeShown(f"a hook stopped {mate.name}: {session.stopped}"))
                    break
                wanted = await self._next(session, mate, task, "done" if ended.how == "done" else "failed")

    async def _next(self, session: Session, mate: Mate, task: Task, state: State) -> str | None:
        """The next work of a teammate: a task that a hook does not accept yet, its mail, or work from a hook."""
        may_be_forced = mate.forced < FORCED_AT_MOST
        if not task.ended.is_set():
            refused = await self._completed(session, task, state)
            if refused and may_be_forced and session.stopped is None:
                mate.forced += 1
                return refused
            if refused:
                self._reopen(task, refused)
            task.ended.set()
        if mate.mail.empty():
            idle = await session.fire(TeammateIdle, **mate.fields)
            if session.stopped is not None:
                return None
            if idle.keep_going and may_be_forced:
                mate.forced += 1
                return idle.reason or "Go on."
            if idle.keep_going:
                self.show(NoticeShown(f"hooks kept {mate.name} going {FORCED_AT_MOST} times in a row; it stops now"))
            # The teammate is idle; its task is unchanged.
            self.show(TaskChanged(task.id, task.subject, "idle", mate.name, mate.name, mate.agent_id))
            await session.notify(f"{mate.name} has nothing to do", type="agent_needs_input", title=mate.name)
            mate.idle.set()
        mate.forced = 0
        return await mate.mail.get()

    def send(self, to: str, text: str) -> str:
        """Put a message into a teammate's mailbox."""
        if to not in self.mates:
            raise ToolError(f"no teammate `{to}`; the teammates are: {', '.join(self.mates) or 'none'}")
        self.mates[to].idle.clear()
        self.mates[to].mail.put_nowait(text)
        return f"sent to {to}"

    # -- the end

    async def settle(self) -> str:
        """Wait until all tasks have ended and all teammates are idle: the tasks that are still open, for the model."""
        while pending := [one for one in self._waited_for() if not one.is_set()]:
            await pending[0].wait()
        reopened, self._reopened = self._reopened, []
        return "\n".join(reopened)

    def _waited_for(self) -> list[asyncio.Event]:
        return [*(task.ended for task in self.tasks.values()), *(mate.idle for mate in self.mates.values())]

    async def close(self) -> None:
        """End all that still run."""
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _follow(self, work: Coroutine[Any, Any, None], task: Task, mate: Mate | None = None) -> None:
        """Run it; every end, also an exception, wakes up those who wait for it."""

        async def followed() -> None:
            try:
                await work
            except Exception as error:
                self._changed(task, "failed", f"{type(error).__name__}: {error}")
            finally:
                task.ended.set()
                if mate is not None:
                    mate.idle.set()
                    self.mates.pop(mate.name, None)

        self._running.add(asyncio.ensure_future(followed()))

    def _changed(self, task: Task, state: State, detail: str = "") -> None:
        task.state = state
        whose = ("main", "") if task.mate is None else (task.mate.name, task.mate.agent_id)
        self.show(TaskChanged(task.id, task.subject, state, detail, *whose))


def _alive(session: Session) -> Session:
    """The session, or its parent if it has ended, so that the results of its tasks are delivered."""
    while isinstance(session, Subagent) and session.has_ended:
        session = session.parent
    return session
