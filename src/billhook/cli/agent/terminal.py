"""The terminal of an agent's run: what it shows, the lines that the user types, and Ctrl-C.

The model's text goes to standard output, all else to standard error: `billhook agent -p ... > answer` gets the answer.
"""

import asyncio
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

import click

from billhook.agent import ui_events as ui
from billhook.agent.loop import AgentLoop
from billhook.agent.ui_events import TurnEnded
from billhook.cli.screen import is_terminal, not_written, shown_path, width, write, write_json
from billhook.core import strictjson, tools
from billhook.core.text import counted, one_line, visible
from billhook.engine.progress import HookCancelled, HookFinished, HookStarted, HookTimedOut

SLOW: Final = 0.5  # seconds after which a hook is reported as still running
_RESULT_LINES: Final = 3
_LABELS: Final = {
    "denied": ("denied by", "red"),
    "objected": ("objected to by", "red"),
    "asked": ("asked by", "yellow"),
    "deferred": ("deferred by", "yellow"),
    "allowed": ("allowed by", "green"),
    "stopped": ("stopped by", "red"),
    "kept_going": ("more work requested by", "yellow"),
    "rewrote_input": ("input rewritten by", "cyan"),
    "rewrote_output": ("output rewritten by", "cyan"),
    "told_model": ("context from", "cyan"),
    "told_user": ("message from", "cyan"),
    "failed": ("failed:", "yellow"),
    "failed_open": ("FAILED OPEN:", "red"),
    "warned": ("partly ignored:", "yellow"),
}
_QUIET: Final = frozenset({"session-naming", "turn-tracker"})
"""Built-ins that tell the model at each start what the user already knows."""


class _Stdout:
    """Standard output, which may fail: the run continues then, because its actions matter more."""

    unwritten = False  # some output was lost, and not because its reader closed the pipe

    def lose(self, error: OSError) -> None:
        not_written(error)
        self.unwritten = self.unwritten or error.errno != errno.EPIPE


class JsonStream(_Stdout):
    def __call__(self, event: Any) -> None:
        try:
            write_json(event)
        except OSError as error:
            self.lose(error)


class Screen(_Stdout):
    """The terminal. Lives as long as the run. `streams`: the model's text is shown as it comes; otherwise only the last
    message goes to standard output, and earlier ones go to standard error. `later`: background hooks, which are never
    reported as slow."""

    def __init__(self, *, hooks: int, streams: bool, later: Collection[str] = ()) -> None:
        self._hooks, self._streams = hooks, streams
        self._verbatim = not is_terminal(sys.stdout)
        self._held: list[str] | None = []  # lines that wait for the first one, the session's header
        self._in_line = self._streamed = False
        self._prompt = ""
        self._last = ""  # the model's last message, not shown yet
        self._callers: dict[str | None, str] = {}
        """The callers of open calls: an event only has a teammate's type."""
        self._mates: dict[str, str] = {}  # teammates by their ids
        self._refused = False  # a hook's line shows why the prompt was blocked
        self._denied: set[str | None] = set()
        self._slow = _SlowHooks(self.urgent, later)

    def __call__(self, event: Any) -> None:
        match event:
            case ui.SessionStarted():
                self._begin(event)
            case ui.TextDelta() if event.agent == "main" and self._streams:
                self._streamed = True
                self._write(event.text)
            case ui.MessageShown():
                self._message(event)
            case ui.ToolCalled():
                self._called(event)
            case ui.ToolEnded():
                self._result(event)
            case ui.VerdictShown():
                self._judged(event)
            case ui.NoticeShown():
                self.line(f"note: {visible(event.text)}")
            case ui.Compacted():
                self.line(f"compacted ({event.trigger}): {one_line(event.summary, width() - 20)}")
            case ui.TaskChanged():
                self._mates |= {event.agent_id: event.agent} if event.agent_id else {}
                self.line(_task(event))
            case HookStarted() | HookFinished() | HookTimedOut() | HookCancelled():
                self._slow.on_event(event)
            case ui.TurnEnded():
                self._ended(event)

    def line(self, text: str) -> None:
        if self._held is not None:
            self._held.append(text)
            return
        self._break_line()
        self._wipe_prompt()
        write(text, err=True)
        if self._prompt:
            _put(self._prompt.rpartition("\n")[2])

    def urgent(self, text: str) -> None:
        """A line that does not wait for the header."""
        self.flush()
        self.line(text)

    def interrupted(self, text: str) -> None:
        """A line in answer to Ctrl-C; replaces the `^C` that the terminal prints."""
        self.flush()
        if not self._in_line and not self._prompt and _can_wipe():
            _put("\r\x1b[K")
        self.line(text)

    def flush(self) -> None:
        held, self._held = self._held or [], None
        for text in held:
            self.line(text)

    def prompt(self, text: str) -> None:
        """Show a prompt; empty: the user has answered it."""
        if text:
            self.flush()
            self._wipe_prompt()
            self._prompt = ""
            *before, last = text.split("\n")
            for one in before:
                self.line(one)
            self._break_line()
            _put(last)
        self._prompt = text

    def withdraw(self) -> None:
        """Remove the prompt: no answer is expected any more."""
        self._wipe_prompt()
        self._prompt = ""

    def _break_line(self) -> None:
        """End the model's line before other output. If stdout is a file, its lines stay whole."""
        if self._in_line and not self._verbatim:
            self._write("\n")

    def _wipe_prompt(self) -> None:
        if self._prompt:
            _put("\r\x1b[K" if _can_wipe() else "\n")

    # -- events

    def _begin(self, event: ui.SessionStarted) -> None:
        name = event.session_name or event.session_id[:8]
        facts = [event.model, shown_path(event.cwd, here=False), counted(self._hooks, "hook")]
        facts += [f"mode {event.permission_mode}"]
        facts += [event.source] if event.source != "startup" else []
        first = f"{click.style(visible(name), bold=True)}  {visible(', '.join(facts))}"
        self._held = [first, *(self._held or [])]
        self.flush()

    def _message(self, event: ui.MessageShown) -> None:
        if event.agent != "main":
            if event.text:
                self.line(f"{_who(event.agent)}{one_line(event.text, width() - len(event.agent) - 2)}")
        elif not self._streams:
            self._on_the_way()
            self._last = event.text
        else:
            self._write("" if self._streamed else event.text)  # not every model streams its text
            self._write("\n" * self._in_line)
            self._streamed = False

    def _called(self, event: ui.ToolCalled) -> None:
        self._callers[event.tool_use_id] = event.agent
        if event.agent == "main":
            self._on_the_way()
        self.line(f"{_who(event.agent)}{click.style(event.name, bold=True)}  {_short(event.name, event.input)}")

    def _on_the_way(self) -> None:
        if self._last:
            self.line(visible(self._last))
        self._last = ""

    def _result(self, event: ui.ToolEnded) -> None:
        denied = event.tool_use_id in self._denied
        self._denied.discard(event.tool_use_id)
        self._callers.pop(event.tool_use_id, None)
        if denied and event.is_error:
            return  # the hook's line shows it
        lines = [line for line in event.content.split("\n") if line.strip()]
        for number, line in enumerate(lines[:_RESULT_LINES]):
            mark = "error: " if event.is_error and number == 0 else ""
            shown = one_line(f"{mark}{line}", width() - 4)
            self.line("    " + click.style(shown, fg="red" if mark else None, dim=not event.is_error))
        if len(lines) > _RESULT_LINES:
            self.line(click.style(f"    ... {counted(len(lines) - _RESULT_LINES, 'more line')}", dim=True))

    def _judged(self, event: ui.VerdictShown) -> None:
        name = event.verdict["event"]
        if event.verdict["keep_going"] and event.agent == "main":
            self._on_the_way()
        decided = {deed.hook for deed in event.deeds if deed.did in ("denied", "asked")}
        for deed in event.deeds:
            if deed.did == "told_model" and deed.hook in _QUIET:
                continue
            if deed.did == "failed" and deed.hook in decided:
                continue  # the reason of its decision shows it
            if deed.did in ("denied", "stopped") and name == "PreToolUse":
                self._denied.add(event.tool_use_id)
            self._refused |= deed.did == "denied" and name == "UserPromptSubmit"
            who = self._callers.get(event.tool_use_id) or self._mates.get(event.agent_id, event.agent)
            self.line(f"    {_who(who)}{_deed(deed, name)}")

    def _ended(self, event: ui.TurnEnded) -> None:
        if event.how == "done":
            if not event.text.strip():
                self.line(click.style("(no answer)", dim=True))
            elif not self._streams:
                self.flush()
                self._write(event.text if event.text.endswith("\n") else f"{event.text}\n")
            self._last = ""
            return
        self._on_the_way()
        if event.how == "interrupted":
            self.line(click.style("stopped", fg="yellow"))
        else:
            word = "error" if event.how == "failed" else event.how
            explained = event.how == "blocked" and self._refused
            text = "the model has not seen it" if explained else visible(event.text)
            self.line(f"{click.style(word, fg='red')}: {text}" if text else word)
        self._refused = False

    # -- standard output

    def _write(self, text: str) -> None:
        """Write the model's text; unchanged if stdout is not a terminal."""
        if not text:
            return
        terminal = None if self._verbatim else sys.stdout.encoding
        shown = text if self._verbatim else visible(text)
        try:
            click.echo(shown.encode(terminal or "utf-8", "replace"), nl=False)
        except OSError as error:
            self.lose(error)
        self._in_line = self._streams and not text.endswith("\n")


class _SlowHooks:
    """Reports that a hook is still running, once, and later how it ended."""

    def __init__(self, line: ui.Show, later: Collection[str]) -> None:
        self._line, self._later = line, later
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._named: set[int] = set()

    def on_event(self, event: HookStarted | HookFinished | HookTimedOut | HookCancelled) -> None:
        if isinstance(event, HookStarted):
            if event.hook not in self._later:
                self._timers[event.asking] = asyncio.get_running_loop().call_later(SLOW, self._report_slow, event)
            return
        if timer := self._timers.pop(event.asking, None):
            timer.cancel()
        if event.asking in self._named:
            self._named.discard(event.asking)
            how = "timed out" if isinstance(event, HookTimedOut) else "was ended"
            if isinstance(event, HookFinished):
                how = "finished" if event.status == "ok" else event.status.replace("_", " ")
            self._line(f"    hook `{visible(event.hook)}` {how} after {event.duration_ms / 1e3:.1f} s")

    def _report_slow(self, event: HookStarted) -> None:
        self._named.add(event.asking)
        text = f"hook `{visible(event.hook)}` is still running ({SLOW} s) on {visible(event.event)}"
        self._line(f"    {text}; its timeout is {round(event.timeout, 1):g} s ...")


def in_loop(show: ui.Show) -> ui.Show:
    """A thread-safe `show`: background hooks report from their own threads, but only the loop's thread may print."""
    loop, own = asyncio.get_running_loop(), threading.get_ident()

    def shown(event: Any) -> None:
        if threading.get_ident() == own:
            show(event)
            return
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(show, event)

    return shown


def _deed(deed: ui.HookEffect, event: str) -> str:
    """`denied by guard (12 ms): no rm`; for other events than PreToolUse, the event's name comes first."""
    words, colour = _LABELS[deed.did]
    where = "" if event == "PreToolUse" else f"{event}: "
    took = f"{deed.duration_ms:.0f} ms" if deed.duration_ms >= 10 else f"{deed.duration_ms:.1f} ms"
    first = f"{where}{click.style(words, fg=colour)} {visible(deed.hook)} ({took})"
    if deed.did == "failed_open":
        first += ", and the event continued without its answer"
    if deed.did == "rewrote_input":
        return f"{first}: {one_line(deed.text, max(20, width() - len(click.unstyle(first)) - 6))}"
    text = visible(deed.text[:2000]).replace("\n", "\n      ")
    return f"{first}: {text}" if deed.text else first


def _who(agent: str) -> str:
    return "" if agent == "main" else f"{visible(agent)}: "


def _short(name: str, given: dict[str, Any]) -> str:
    room = max(20, width() - len(name) - 4)
    command = tools.command_of(name, given)
    if command is not None:
        return one_line(command, room)
    for field in ("file_path", "path", "description", "to", "task_id"):
        if isinstance(given.get(field), str):
            return one_line(shown_path(given[field]), room)
    return one_line(strictjson.compact(given), room) if given else ""


def _task(event: ui.TaskChanged) -> str:
    state = {"open": "is not accepted as done", "idle": "is idle"}.get(event.state, event.state)
    who = event.detail if event.state == "idle" else event.task_id
    detail = f": {event.detail}" if event.detail and event.state != "idle" else ""
    return one_line(f"{who} {state} ({event.subject}){detail}", width())


def _can_wipe() -> bool:
    return is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"


def _put(text: str) -> None:
    with suppress(OSError):
        click.echo(text, nl=False, err=True)


# What the user types, and Ctrl-C:
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
