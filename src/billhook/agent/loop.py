"""The agent loop. It owns control flow; hooks observe, block, rewrite or annotate, and only the loop acts.

    run                 one prompt, and the open tasks after it
      turn              UserPromptSubmit, then work
        work            until the model is done, a hook stops the run, or the model gives no answer
          call_model    with the context that hooks added
          use_tools     PreToolUse, permission, the tool, PostToolUse or PostToolUseFailure; then PostToolBatch
          may_stop      Stop: a hook can keep it running
          compact       PreCompact, a summary, PostCompact, SessionStart

`docs/agent-loop.md` draws the same, name by name. The session fires SessionStart and SessionEnd (`async with`).
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from msgspec.structs import replace

from billhook.agent import conversation
from billhook.agent import tools as base
from billhook.agent import ui_events as ui
from billhook.agent.conversation import INTERRUPTED, NOT_RUN, Block, Message, Text, ToolUse, Transcript, Usage, user
from billhook.agent.models import UNREADABLE, Completion, Model, ModelError, ModelRequest, TextSink, completed
from billhook.agent.tools import Tool, ToolError, Workspace
from billhook.core import tools as names
from billhook.core.events import TaskCompleted, TaskCreated, TeammateIdle
from billhook.session.calls import ToolResult
from billhook.session.session import FORCED_AT_MOST, Session, Subagent

BUDGET: Final = 150_000  # tokens of conversation at which it is compacted
_SUMMARISE: Final = """\
Summarise this conversation so that another agent can continue the work without it: what was asked, what was done and \
found, what is still to do, and every name, path and decision that matters."""


@dataclass(kw_only=True, eq=False)
class AgentLoop:
    """One conversation between a user, a model and tools, inside a session. Lives as long as the session."""

    session: Session
    model: Model
    workspace: Workspace
    transcript: Transcript
    show: ui.Show
    system: str
    team: "Team"
    name: str = "main"
    messages: list[Message] = field(default_factory=list)
    budget: int = BUDGET
    tools: dict[str, Tool] = field(default_factory=dict)
    _refused_at: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._used = {use.id for message in self.messages for use in message.tool_uses}

    # -- the loop

    async def run(self, prompt: str) -> ui.TurnEnded:
        """One prompt, and the tasks it started. A task that a hook does not accept as done goes back to the model."""
        ended = await self.turn(prompt)
        for _ in range(FORCED_AT_MOST):
            still_open = await self.team.settle() if ended.how == "done" else ""
            if not still_open:
                break
            ended = await self.answer(still_open)
        if ended.how == "done" and self.session.stopped is not None:  # by a hook of a background task
            return self._end("stopped", self.session.stopped)
        return replace(ended, usage=self.usage)

    async def turn(self, prompt: str) -> ui.TurnEnded:
        """One prompt, until the model is done."""
        if self.session.stopped is not None and self.session.turn == 0:
            return self._end("stopped", self.session.stopped)  # a hook stopped the run at its start
        self.show(ui.Prompted(prompt))
        submitted = await self.session.prompt(prompt)
        if submitted.denied:
            return self._end("blocked", submitted.reason)
        return await self.answer(prompt)

    async def answer(self, text: str) -> ui.TurnEnded:
        """Work on a request that is not from the user: from a parent, a teammate or a hook."""
        self.record(user(text))
        return await self.work()

    async def work(self) -> ui.TurnEnded:
        """Call the model and run its tools, until it is done."""
        said = ""
        try:
            while self.session.stopped is None:
                if self.size > self.budget:
                    await self.compact("auto")
                    if self.session.stopped is not None:
                        break
                reply = await self.call_model()
                said = reply.text
                if reply.tool_uses:
                    await self.use_tools(reply.tool_uses)
                elif await self.may_stop(said) and self.session.stopped is None:
                    return self._end("done", said)
        except ModelError as error:
            await self.session.failed(error.kind, details=error.details or None, last_message=str(error))
            return self._end("failed", str(error))
        return self._end("stopped", self.session.stopped)

    async def call_model(self) -> Message:
        """One reply of the model. The hooks' context is at the end of its system message, once."""
        context = self.session.take_context()
        system = f"{self.system}\n\n{context}" if context else self.system
        specs = tuple(tool.spec for tool in self.tools.values())
        try:
            request = ModelRequest(system, tuple(self.messages), specs, self.name)
            completion = await self._complete(request, lambda text: self.show(ui.TextDelta(text, self.name)))
        except BaseException:  # the model has not read it yet
            if context:
                self.session.add_context(context)
            raise
        reply = self._with_own_ids(completion.message)
        self.record(reply)
        self.show(ui.MessageShown(reply.text, self.name, completion.usage))
        if completion.left_out:
            self._notify(completion.left_out)
        return reply

    async def use_tools(self, uses: list[ToolUse]) -> None:
        """Run the tools of one reply one after another: exactly one result for each, even if this is interrupted."""
        results: list[ToolResult] = []
        try:
            for use in uses:
                started = use
                results.append(await self.use_tool(use))
                self.transcript.message(user(results[-1]))
        finally:
            for use in uses[len(results) :]:
                results.append(ToolResult(use.id, INTERRUPTED if use is started else NOT_RUN, True))
                self.transcript.message(user(results[-1]))
            self.messages.append(user(*results))
        await self.session.batch(
            [
                {
                    "tool_name": names.canonical(use.name),
                    "tool_input": use.input,
                    "tool_use_id": use.id,
                    "tool_response": result.content,
                }
                for use, result in zip(uses, results, strict=True)
            ]
        )

    async def use_tool(self, use: ToolUse) -> ToolResult:
        """One tool call with its UI events: the call and its result."""
        began, name = time.monotonic(), names.canonical(use.name)
        self.show(ui.ToolCalled(use.id, name, use.input, self.name))
        result = await self._run_tool(use, self.tools.get(name))
        took = round((time.monotonic() - began) * 1e3, 3)
        self.show(ui.ToolEnded(use.id, name, result.content, result.is_error, took, self.name))
        return result

    async def may_stop(self, said: str) -> bool:
        """The model is done. A hook can ask for more: its reason is the next message to the model."""
        ending = await self.session.stop(said)
        if ending.keep_going:
            self.record(user(ending.reason or "Go on."))
            return False
        forced = [outcome for outcome in ending.outcomes if outcome.answer.keep_going]
        if forced and self.session.stopped is None:
            self.show(ui.NoticeShown(ending.messages[-1]))
        return True

    async def compact(self, trigger: Literal["manual", "auto"], instructions: str | None = None) -> bool:
        """Replace the conversation with a summary; False: a hook refused."""
        if trigger == "auto" and self.size < self._refused_at * 1.2:
            return False  # it was refused recently
        summary = await self.session.compact(
            lambda: self._summary(instructions), trigger=trigger, instructions=instructions
        )
        if summary is None:
            self._refused_at = self.size
            return False
        self._refused_at = 0
        self.messages = [user(f"A summary of the conversation so far:\n\n{summary}\n\nContinue from there.")]
        self.transcript.compacted(self.messages)
        self.show(ui.Compacted(trigger, summary))
        return True

    # -- helpers

    @property
    def size(self) -> int:
        """Tokens of the conversation, roughly: four characters each."""
        return sum(_length(block) for message in self.messages for block in message.content) // 4

    def record(self, message: Message) -> None:
        """Add a message to the conversation and to the transcript."""
        self.messages.append(message)
        self.transcript.message(message)

    @property
    def usage(self) -> Usage:
        """The cost of the session so far, all its agents together."""
        return self.team.usage

    async def _complete(self, request: ModelRequest, say: TextSink) -> Completion:
        completion = await completed(self.model, request, say, self._notify)
        self.team.usage += completion.usage
        return completion

    def _notify(self, text: str) -> None:
        self.show(ui.NoticeShown(text if self.name == "main" else f"{self.name}: {text}"))

    async def _summary(self, instructions: str | None) -> str:
        wanted = f"{_SUMMARISE}\n{instructions}" if instructions else _SUMMARISE
        request = ModelRequest(self.system, (*self.messages, user(wanted)), agent=self.name)
        completion = await self._complete(request, lambda piece: None)
        if not completion.message.text.strip():
            raise ModelError("the conversation is too long for its budget, and the model returned no summary")
        return completion.message.text

    async def _run_tool(self, use: ToolUse, tool: Tool | None) -> ToolResult:
        """Hooks and permission, the tool, hooks again. An unknown tool runs no hooks."""
        if self.session.stopped is not None:
            return ToolResult(use.id, f"not run: {self.session.stopped}", True)
        if use.name == UNREADABLE:
            return ToolResult(use.id, str(use.input.get("fault")), True)
        if tool is None:
            return ToolResult(use.id, f"no tool `{use.name}`; the tools are {', '.join(self.tools)}", True)
        try:
            given = base.canonical(tool.name, use.input)  # before hooks and rules see it
        except ToolError as error:
            return ToolResult(use.id, str(error), True)
        self.session.cwd = str(self.workspace.cwd)
        sent = use.sent or use.input
        result = await self.session.call_tool(tool.name, given, tool.run, tool_use_id=use.id, sent=sent)
        self.session.cwd = str(self.workspace.cwd)
        return result

    def _with_own_ids(self, reply: Message) -> Message:
        """Give each call an unused id, also compared with calls before a compaction."""
        own = (
            replace(block, id=conversation.unused_id(block.id, self._used)) if isinstance(block, ToolUse) else block
            for block in reply.content
        )
        return Message(reply.role, tuple(own))

    def _end(self, how: ui.Ending, text: str | None) -> ui.TurnEnded:
        return ui.TurnEnded(how, text or "", self.usage)


def _length(block: Block) -> int:
    match block:
        case Text():
            return len(block.text)
        case ToolResult():
            return len(block.content)
        case ToolUse():
            return len(block.name) + len(str(block.input))


# Background tasks, and teammates with a mailbox.
#
# A task is announced (TaskCreated), runs, and is done after TaskCompleted: if a hook refuses that, the task stays open,
# and the reason goes back to the model. A teammate is a named agent; when its work is done and its mailbox is empty,
# TeammateIdle is fired, and a hook can give it more work.

Job = Callable[[], Awaitable[str]]
State = Literal["started", "done", "failed", "open"]
_LONGEST_OUTPUT: Final = 4_000  # characters of a task's output in the notification to the model


@dataclass(eq=False)
class Teammate:
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
    mate: Teammate | None
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

    def __init__(self, show: ui.Show, name: str = "main") -> None:
        self.show, self.name = show, name
        self.tasks: dict[str, Task] = {}
        self.mates: dict[str, Teammate] = {}
        self.usage = Usage()  # of all model calls in this session
        self._running: set[asyncio.Task[None]] = set()
        self._reopened: list[str] = []
        self._numbers = itertools.count(1)

    # -- background tasks

    async def start(self, agent: AgentLoop, subject: str, description: str, job: Job) -> Task:
        """Create a task and start it. Raises ToolError if a hook refuses."""
        task = await self._announced(agent.session, subject, description, self.mates.get(agent.name))
        self._follow(self._run(agent.session, task, job), task)
        return task

    async def _announced(self, session: Session, subject: str, description: str, mate: Teammate | None) -> Task:
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
                f"Background task {task.id} ({task.subject}) is {state}:\n{task.output[:_LONGEST_OUTPUT]}"
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

    async def hire(self, session: Session, agent: AgentLoop, subject: str, prompt: str) -> Task:
        """A teammate that begins with a task. Raises ToolError if a hook refuses."""
        if agent.name in self.mates or agent.name == self.name:
            raise ToolError(f"the agent `{agent.name}` already exists; send it a message instead")
        mate = Teammate(agent.name, self.name, getattr(agent.session, "agent_id", ""))
        task = await self._announced(session, subject, prompt, mate)
        self.mates[mate.name] = mate
        self._follow(self._live(agent, mate, task, prompt), task, mate)
        return task

    async def _live(self, agent: AgentLoop, mate: Teammate, task: Task, prompt: str) -> None:
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
                    self.show(ui.NoticeShown(f"a hook stopped {mate.name}: {session.stopped}"))
                    break
                wanted = await self._next(session, mate, task, "done" if ended.how == "done" else "failed")

    async def _next(self, session: Session, mate: Teammate, task: Task, state: State) -> str | None:
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
                self.show(ui.NoticeShown(f"hooks kept {mate.name} going {FORCED_AT_MOST} times in a row; it stops now"))
            # The teammate is idle; its task is unchanged.
            self.show(ui.TaskChanged(task.id, task.subject, "idle", mate.name, mate.name, mate.agent_id))
            await session.notify(f"{mate.name} has nothing to do", type="agent_needs_input", title=mate.name)
            mate.idle.set()
        mate.forced = 0
        return await mate.mail.get()

    def send(self, to: str, text: str) -> str:
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

    def _follow(self, work: Coroutine[Any, Any, None], task: Task, mate: Teammate | None = None) -> None:
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
        self.show(ui.TaskChanged(task.id, task.subject, state, detail, *whose))


def _alive(session: Session) -> Session:
    """The session, or its parent if it has ended, so that the results of its tasks are delivered."""
    while isinstance(session, Subagent) and session.has_ended:
        session = session.parent
    return session
