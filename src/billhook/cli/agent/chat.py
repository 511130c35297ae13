"""The user at the terminal: the lines they type while the loop runs, and Ctrl-C."""

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

_STOP, _HINT, _LAST = "stopping ...", "press Ctrl-C again to end the session", "ending the session ..."
LONGEST: Final = 4095
"""Bytes of a line. The terminal driver discards what comes after them without notice."""
_CUT: Final = (
    f"the terminal cut this line at {LONGEST:,} bytes, so it was ignored; use `billhook agent < file` for a long prompt"
)
FORGOTTEN: Final = 2.0  # seconds after which a Ctrl-C that stopped a turn no longer counts as the first of two
ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")  # Signals that end a session. The first Ctrl-C only stops the turn.


_Waiting = tuple[str, "asyncio.Future[str | None]"]  # the prompt, and the future that gets the line


class Terminal:
    """Reads lines without blocking the event loop. The terminal's mode is not changed: its driver edits the lines.

    Several readers may wait for a line: a question comes before the prompt that it interrupted.
    """

    def __init__(self, screen: Screen, descriptor: int = 0) -> None:
        self._screen, self._descriptor = screen, descriptor
        self._waiting: list[_Waiting] = []
        self._begun = b""
        self._asking = asyncio.Lock()

    async def line(self, prompt: str, *, urgent: bool = False) -> str | None:
        """The next line, without its end; None: the input has ended (Ctrl-D)."""
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
        """The answer to a question, one question at a time; `otherwise` if the input has ended. Input from before the
        question is discarded. After an invalid answer the user is told what is `expected`."""
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
        """The terminal has data: a line, the beginning of one (before a Ctrl-D), or the end of the input."""
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
    """Handles signals: the first Ctrl-C stops the turn, a second one ends the session; other signals end it at once.

    Lives as long as the event loop. While the session ends, signals only end background hooks: its last hooks have a
    short deadline.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._main = asyncio.current_task()
        self._turn: asyncio.Task[Any] | None = None
        self._pressed = 0
        self._stopped: tuple[asyncio.Task[Any], float] | None = None  # the turn that the last Ctrl-C stopped, and when
        self._hurry: Callable[[], None] | None = None  # set while the session ends
        self.at_prompt = False  # waiting for the next prompt: the first Ctrl-C only clears the line
        self.code = 0  # the exit code, if a signal ended the session

    def catch(self) -> None:
        """Start to handle signals."""
        if sys.platform == "win32":
            return
        for name in ENDING:
            number = getattr(signal, name)
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, self._signalled, number)

    def ignore(self) -> None:
        """Block signals during the final cleanup: the exit code is decided."""
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_BLOCK, {getattr(signal, name) for name in ENDING})

    def typed(self) -> None:
        """The user typed something, so earlier Ctrl-Cs no longer count."""
        self._pressed, self._stopped = 0, None

    def leave(self, hurry: Callable[[], None]) -> None:
        """The session is about to end; `hurry` ends what it still waits for."""
        self._hurry = hurry
        if self.code:
            hurry()

    async def turn(self, work: Coroutine[Any, Any, T], agent: AgentLoop) -> T | TurnEnded:
        """Run work that the user can stop; a stopped turn is cleaned up, and ends as interrupted."""
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
IDLE: Final = 60.0  # seconds without input after which a Notification is fired
PROMPT: Final = "> "
COMMANDS: Final = {
    "/compact": "replace the conversation with a summary; text after the command tells what to keep",
    "/clear": "start a new session with an empty conversation",
    "/help": "show this help",
    "/exit": "end the session (also Ctrl-D); Ctrl-C stops the turn, pressed twice it ends the session",
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
        """Run until the user, a signal or a hook ends the session."""
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
        """The next work: the user's line, or an unfinished background task; None: the user ended the chat."""
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
            return self._work_for(line.result())
        finally:
            self.interrupts.at_prompt = False
            line.cancel()
            settled.cancel()
            await asyncio.wait([line, settled])

    async def _wait(self, line: "asyncio.Task[str | None]", settled: "asyncio.Task[str]") -> None:
        """Wait for a line, or for an unfinished background task. Fires one Notification if the user is idle."""
        waiting: set[asyncio.Task[Any]] = {line, settled}
        timeout: float | None = self._idle
        while not line.done() and not (settled.done() and settled.result()):
            waiting.difference_update([settled] if settled.done() else [])
            done, _ = await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                timeout = None
                await self.agent.session.notify("the agent waits for your input", type="idle_prompt")

    # -- commands

    def _work_for(self, line: str | None) -> Work | None:
        """The work for a line; None: the end of the chat."""
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
            self._tell("the conversation is empty")
            return None
        try:
            if not await self.agent.compact("manual", instructions or None):
                self._tell("not compacted: a hook blocked it")
        except ModelError as error:
            await self.agent.session.failed(error.kind, details=error.details or None, last_message=str(error))
            return TurnEnded("failed", str(error), self.agent.usage)
        return None
