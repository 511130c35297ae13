"""A plain chat in the terminal: prompts, a few commands, and what happens meanwhile."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any, Final

from billhook.agent.loop import Agent
from billhook.agent.model import ModelError
from billhook.agent.shown import Ended
from billhook.cli.agent_terminal import Interrupts, Terminal
from billhook.text import suggest

IDLE: Final = 60.0  # seconds without a word after which the person is notified that the agent waits
PROMPT: Final = "> "
COMMANDS: Final = {
    "/compact": "replace the conversation by a summary; what follows says what to keep",
    "/clear": "begin anew: another session, nothing said yet",
    "/help": "this",
    "/exit": "end (also Ctrl-D); Ctrl-C stops the turn, twice the session",
}
_COMMAND: Final = re.compile(r"(/[a-zA-Z]*)(?:\s+(.*))?", re.S)

Work = Coroutine[Any, Any, Ended | None]


class Chat:
    """One chat with one agent. Lives as long as the session."""

    def __init__(
        self,
        agent: Agent,
        terminal: Terminal,
        interrupts: Interrupts,
        *,
        clear: Callable[[], Coroutine[Any, Any, None]],
        tell: Callable[[str], None],
        idle: float = IDLE,
    ) -> None:
        self.agent, self.terminal, self.interrupts = agent, terminal, interrupts
        self._clear, self._tell, self._idle = clear, tell, idle

    async def run(self) -> Ended:
        """Until the person has had enough, or a signal or a hook ends it."""
        session = self.agent.session
        if session.stopped is not None:
            ended = Ended("stopped", session.stopped)
            self.agent.show(ended)
            return ended
        while not self.interrupts.code:
            work = await self._next()
            if work is None:
                session.end_reason = "prompt_input_exit"
                return Ended("done", "", self.agent.usage)
            done = await self.interrupts.turn(work, self.agent)
            if done is not None:
                self.agent.show(done)
        return Ended("interrupted", "", self.agent.usage)

    async def _next(self) -> Work | None:
        """What is to be done next: what the person says, or what a background task left open; None: nothing more."""
        line = asyncio.ensure_future(self.terminal.line(PROMPT))
        settled = asyncio.ensure_future(self.agent.team.settle())
        self.interrupts.at_prompt = True
        try:
            await self._wait(line, settled)
            still_open = settled.result() if settled.done() else ""
            if not line.done():
                return self.agent.answer(still_open)
            if still_open:
                self.agent.session.add_context(still_open)
            return self._meant(line.result())
        finally:
            self.interrupts.at_prompt = False
            line.cancel()
            settled.cancel()
            await asyncio.wait([line, settled])

    async def _wait(self, line: "asyncio.Task[str | None]", settled: "asyncio.Task[str]") -> None:
        """Until there is a line, or something that a background task left open. Who is silent is notified, once."""
        waiting: set[asyncio.Task[Any]] = {line, settled}
        patience: float | None = self._idle
        while not line.done() and not (settled.done() and settled.result()):
            waiting.difference_update([settled] if settled.done() else [])
            done, _ = await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                patience = None
                await self.agent.session.notify("the agent waits for your input", type="idle_prompt")

    # -- commands

    def _meant(self, line: str | None) -> Work | None:
        """What a line wants; None: the end."""
        if line is None:
            self._tell("")
            return None
        self.interrupts.typed()
        text = line.strip()
        command = _COMMAND.fullmatch(text)
        if command is None:
            return self.agent.turn(text) if text else self._say()
        match command[1].lower():
            case "/exit":
                return None
            case "/clear":
                return self._clear()
            case "/compact":
                return self._compact((command[2] or "").strip())
            case "/help":
                return self._say(*(f"{name:<9} {what}" for name, what in COMMANDS.items()))
            case other:
                return self._say(f"no command `{other}`: {suggest(other, COMMANDS)}")

    async def _say(self, *lines: str) -> None:
        for line in lines:
            self._tell(line)

    async def _compact(self, instructions: str) -> Ended | None:
        if not self.agent.messages:
            self._tell("nothing was said yet")
            return None
        try:
            if not await self.agent.compact("manual", instructions or None):
                self._tell("not compacted: a hook was against it")
        except ModelError as error:
            await self.agent.session.failed(error.kind, details=error.details or None, last_message=str(error))
            return Ended("failed", str(error), self.agent.usage)
        return None
