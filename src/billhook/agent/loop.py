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

import time
from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec.structs import replace

from billhook.agent import conversation
from billhook.agent import tools as base
from billhook.agent import ui_events as ui
from billhook.agent.conversation import INTERRUPTED, NOT_RUN, Block, Message, Text, ToolUse, Transcript, Usage, user
from billhook.agent.models import UNREADABLE, Completion, Model, ModelError, ModelRequest, Say, completed
from billhook.agent.team import Team
from billhook.agent.tools import Tool, ToolError, Workspace
from billhook.core import tools as names
from billhook.session.calls import ToolResult
from billhook.session.session import FORCED_AT_MOST, Session

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
    team: Team
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
            self._tell(completion.left_out)
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

    async def _complete(self, request: ModelRequest, say: Say) -> Completion:
        completion = await completed(self.model, request, say, self._tell)
        self.team.usage += completion.usage
        return completion

    def _tell(self, text: str) -> None:
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
