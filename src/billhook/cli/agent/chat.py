"""The person at the terminal: the lines they type while the loop goes on, and Ctrl-C."""

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from billhook.agent.loop import AgentLoop
from billhook.agent.models import ModelError
from billhook.agent.ui_events import TurnEnded
from billhook.cli.agent.screen import Screen
from billhook.core.text import suggest

T = TypeVar("T")

_STOP, _HINT, _LAST = "stopping ...", "Ctrl-C once more ends the session", "ending the session ..."
LONGEST: Final = 4095
"""Bytes of a line. The driver of a terminal throws away what comes after them, and nobody can tell whether there was
something."""
_CUT: Final = (
    f"the terminal cut this line at {LONGEST:,} bytes, so nothing of it was used; "
    "use `billhook agent < file` for a long prompt"
)
FORGOTTEN: Final = 2.0  # seconds after which a Ctrl-C that stopped a turn does not count any more as the first of two
ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")  # Signals that end a session. The first Ctrl-C only stops the turn.


_Waiting = tuple[str, "asyncio.Future[str | None]"]  # what somebody is asked, and who gets the line


class Terminal:
    """Reads lines without holding up the event loop. The terminal stays as it is: whoever edits a line is its driver.

    Several may wait for a line: a question comes before the prompt that it broke into.
    """

    def __init__(self, screen: Screen, descriptor: int = 0) -> None:
        self._screen, self._descriptor = screen, descriptor
        self._waiting: list[_Waiting] = []
        self._begun = b""
        self._asking = asyncio.Lock()

    async def line(self, prompt: str, *, urgent: bool = False) -> str | None:
        """The next line, without its end; None: there is none any more (Ctrl-D)."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str | None] = loop.create_future()
        waiting = prompt, future
        if not self._waiting:
            loop.add_reader(self._descriptor, self._read)
        self._waiting.insert(len(self._waiting) if urgent else 0, waiting)
        if self._waiting[-1] is waiting:
            self._screen.prompt(prompt)
        try:
            return await future
        finally:
            on_top = self._waiting[-1] is waiting
            self._waiting.remove(waiting)
            if on_top and future.cancelled():
                self._screen.withdraw()
            if not self._waiting:
                loop.remove_reader(self._descriptor)
                self._screen.prompt("")
            elif on_top:
                self._screen.prompt(self._waiting[-1][0])

    async def answer(
        self, question: str, prompt: str, read: Callable[[str], T | None], otherwise: T, *, expected: str
    ) -> T:
        """The answer to a question, one at a time; `otherwise` when there is nobody any more. What was typed before
        the question was there is no answer to it; who types something else is told what is `expected`."""
        import termios

        async with self._asking:
            while True:
                self._begun = b""
                with suppress(termios.error):
                    termios.tcflush(self._descriptor, termios.TCIFLUSH)
                line = await self.line(f"{question}\n{prompt}", urgent=True)
                if line is None:
                    return otherwise
                answer = read(line)
                if answer is not None:
                    return answer
                question = expected

    def _read(self) -> None:
        """The terminal has a line; or what stands before a Ctrl-D, which is none yet; or its end."""
        try:
            data = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return
        except OSError:  # the terminal is gone
            data = b""
        if len(data.rstrip(b"\n")) >= LONGEST:
            self._begun = b""
            self._screen.prompt(f"{_CUT}\n{self._waiting[-1][0]}")
            return
        self._begun += data
        if data and not data.endswith(b"\n"):
            return
        line = self._begun.decode("utf-8", "replace").rstrip("\n") if self._begun else None
        self._begun = b""
        future = self._waiting[-1][1]
        if not future.done():
            future.set_result(line)


class Interrupts:
    """What a signal does: the first Ctrl-C stops the turn, a second one the session, and so do other signals at once.

    Lives as long as the event loop. Once the session ends, signals only end hooks in the background: its last hooks
    have a short deadline of their own.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._main = asyncio.current_task()
        self._turn: asyncio.Task[Any] | None = None
        self._pressed = 0
        self._stopped: tuple[asyncio.Task[Any], float] | None = None  # the turn that the last Ctrl-C stopped, and when
        self._hurry: Callable[[], None] | None = None  # set while the session ends
        self.at_prompt = False  # the person is asked what to do next: the first Ctrl-C only empties the line
        self.code = 0  # the exit code, when a signal ended the session

    def catch(self) -> None:
        """From now on signals come here."""
        if sys.platform == "win32":
            return
        for name in ENDING:
            number = getattr(signal, name)
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, self._signalled, number)

    def ignore(self) -> None:
        """Everything is over but the cleaning up: whatever signal comes now, we end as we were about to."""
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_BLOCK, {getattr(signal, name) for name in ENDING})

    def typed(self) -> None:
        """The person did something else than to press Ctrl-C."""
        self._pressed, self._stopped = 0, None

    def leave(self, hurry: Callable[[], None]) -> None:
        """The session is about to end by itself; `hurry` ends what it still waits for."""
        self._hurry = hurry
        if self.code:
            hurry()

    async def turn(self, work: Coroutine[Any, Any, T], agent: AgentLoop) -> T | TurnEnded:
        """Work that the person can stop: then it ended as interrupted, and everything is cleaned up."""
        task: asyncio.Task[T] = asyncio.ensure_future(work)
        self._turn = task
        try:
            await asyncio.wait([task])
        finally:
            self._turn = None
        return TurnEnded("interrupted", "", agent.usage) if task.cancelled() else task.result()

    def _signalled(self, number: int) -> None:
        if self.code:
            return
        if self._stopped is not None and self._turn is not self._stopped[0]:
            if time.monotonic() - self._stopped[1] > FORGOTTEN:
                self._pressed = 0
            self._stopped = None
        self._pressed += 1
        spared = self._turn is not None or self.at_prompt
        last = number != signal.SIGINT or self._pressed > 1 or not spared
        if last:
            self.code = 128 + number
        self._tell(_LAST if last else _STOP if self._turn is not None else _HINT)
        if self._turn is not None:
            self._stopped = self._turn, time.monotonic()
            self._turn.cancel()
        elif self._hurry is not None:
            self._hurry()
        elif last and self._main is not None:
            self._main.cancel()


# A plain chat in the terminal:
IDLE: Final = 60.0  # seconds without a word after which the person is notified that the agent waits
PROMPT: Final = "> "
COMMANDS: Final = {
    "/compact": "replace the conversation by a summary; what follows says what to keep",
    "/clear": "begin anew: another session, nothing said yet",
    "/help": "this",
    "/exit": "end (also Ctrl-D); Ctrl-C stops the turn, twice the session",
}
_COMMAND: Final = re.compile(r"(/[a-zA-Z]*)(?:\s+(.*))?", re.S)

Work = Coroutine[Any, Any, TurnEnded | None]


class Chat:
    """One chat with one agent. Lives as long as the session."""

    def __init__(
        self,
        agent: AgentLoop,
        terminal: Terminal,
        interrupts: Interrupts,
        *,
        clear: Callable[[], Coroutine[Any, Any, None]],
        tell: Callable[[str], None],
        idle: float = IDLE,
    ) -> None:
        self.agent, self.terminal, self.interrupts = agent, terminal, interrupts
        self._clear, self._tell, self._idle = clear, tell, idle

    async def run(self) -> TurnEnded:
        """Until the person has had enough, or a signal or a hook ends it."""
        session = self.agent.session
        if session.stopped is not None:
            ended = TurnEnded("stopped", session.stopped)
            self.agent.show(ended)
            return ended
        while not self.interrupts.code:
            work = await self._next()
            if work is None:
                session.end_reason = "prompt_input_exit"
                return TurnEnded("done", "", self.agent.usage)
            done = await self.interrupts.turn(work, self.agent)
            if done is not None:
                self.agent.show(done)
        return TurnEnded("interrupted", "", self.agent.usage)

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

    async def _compact(self, instructions: str) -> TurnEnded | None:
        if not self.agent.messages:
            self._tell("nothing was said yet")
            return None
        try:
            if not await self.agent.compact("manual", instructions or None):
                self._tell("not compacted: a hook was against it")
        except ModelError as error:
            await self.agent.session.failed(error.kind, details=error.details or None, last_message=str(error))
            return TurnEnded("failed", str(error), self.agent.usage)
        return None
