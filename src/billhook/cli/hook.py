"""`billhook hook`: one event on standard input, the verdict on standard output, standard error and the exit code.

The streams are read and written whole, whatever kind of pipe they are.
"""

import os
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from billhook.cli.signals import catch_signals, handle_signals, hang_up
from billhook.core.answers import Status, Verdict
from billhook.core.events import Event
from billhook.core.text import lines_for_people
from billhook.serve.hook_server import HookResponse, HookServer

if TYPE_CHECKING:
    import signal

    from billhook.config.config import Config
    from billhook.engine.engine import Engine
else:
    import _signal as signal  # without enumerations, which are slow to create


_SILENCE = 0.5  # seconds without data after which a complete document counts as the whole input


def all_of(descriptor: int) -> bytes:
    """Everything up to the end of the input, or up to a complete document if the agent leaves the pipe open."""
    data = bytearray()
    while True:
        looks_whole = data[-64:].rstrip().endswith(b"}")
        if looks_whole and not _ready(descriptor, _SILENCE) and _is_whole(bytes(data)):
            return bytes(data)
        try:
            part = os.read(descriptor, 1 << 20)
        except BlockingIOError:
            _ready(descriptor, None)
            continue
        if not part:
            return bytes(data)
        data += part


def _ready(descriptor: int, seconds: float | None) -> bool:
    import select

    if os.name == "nt":  # select only works for sockets there
        return True
    return bool(select.select([descriptor], [], [], seconds)[0])


def _is_whole(data: bytes) -> bool:
    from billhook.core import strictjson
    from billhook.core.errors import StrictJSONError

    try:
        return isinstance(strictjson.loads_leniently(data, max_depth=400), dict)
    except StrictJSONError:
        return False


def put(descriptor: int, data: bytes) -> bool:
    """Write everything; False if that fails."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # an agent's pipe may be non-blocking
            import select

            select.select([], [descriptor], [])
        except OSError:
            return False
    return True


def print_errors(lines: Iterable[str]) -> None:
    """Print lines on stderr."""
    put(2, lines_for_people(lines))


# `billhook hook`:
_ENDING = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO")
"""Signals that would end this process without an answer."""
_LAST = 0.2  # seconds before the agent's timeout at which processes left by hooks are killed
_CARRIED = 0.2  # seconds that a client needs after our answer, on a busy machine


def main(argv: list[str]) -> int:
    """Answer one event; the exit code. Never raises, and never returns a code that is weaker than the answer."""
    run = _HookRun()
    try:
        run.begin()
        _listen(run.caught)
        return run.answer(argv)
    except BaseException as error:  # a traceback would mean exit code 1, with which agents continue
        try:
            return run.crashed(error)
        except BaseException:
            return run.last_code()
    finally:
        run.close()


def _awaited(waiting: Coroutine[Any, Any, HookResponse]) -> HookResponse:
    """The response, when a person has answered a question."""
    import asyncio

    return asyncio.run(waiting)


class _HookRun:
    def __init__(self) -> None:
        self.answering = HookServer(_stdin, self._fire)
        self.caught: list[int] = []
        self.client = 0  # the process id of the client that started us, and answers for us if we time out
        self.response: HookResponse | None = None  # the answer was written: a later error can't change it
        self._engine: Engine | None = None
        self._goes_on = False  # a hook answers later
        self._let_go: Callable[[int], None] = lambda code: hang_up(1)
        """Lets the agent continue, with an exit code if it waits for our parent process."""
        self._at_once = False  # no hook awaits anything: no event loop, no child process

    def begin(self) -> None:
        """Read the client's variable, and remove it from the environment of our hooks."""
        who, _, until = os.environ.pop("BILLHOOK_CLIENT", "").partition(" ")
        if who.isdecimal() and until.isdecimal():
            self.client = int(who)
            self.answering.ends = int(until) / 1000 - _CARRIED if int(until) else None

    def answer(self, argv: list[str]) -> int:
        response = self.answering.prepare(argv)
        if response is None and self.answering.is_synchronous:
            self._at_once = True
            catch_signals(self.caught)
            said = self.answering.judge_at_once()
            response = said if isinstance(said, HookResponse) else _awaited(said)
        elif response is None:
            if self.answering.may_go_on and hasattr(os, "fork"):
                split = _split()
                if isinstance(split, int):
                    return split
                self._let_go = split
            import asyncio

            response = asyncio.run(self.answering.judge())
            catch_signals(self.caught)
        code = self._write(response)
        if self._goes_on and self._engine is not None:
            self._let_go(code)
            self.answering.ends = None
            while not self._engine.background.settle(0.05) and not self.caught:
                pass
        return code

    async def _fire(self, config: "Config", event: Event) -> Verdict:
        seconds = self.answering.arguments.seconds_for_hooks
        if self._at_once:
            return await config.engine(host=self.answering.host).fire(event, deadline=seconds)
        from billhook.cli import signals
        from billhook.runners import process_tree

        process_tree.adopt_orphans()
        if self.client and not process_tree.end_with(self.client):
            self.caught.append(signal.SIGTERM)
            raise KeyboardInterrupt
        self._engine = config.engine(host=self.answering.host)
        verdict = await signals.fire(self._engine, event, self.caught, seconds)
        self._goes_on = any(outcome.status is Status.BACKGROUND for outcome in verdict.outcomes)
        return verdict

    def _write(self, response: HookResponse) -> int:
        self.response = response
        if not put(1, response.stdout) and response.fallback is not None:
            self.response = response = response.fallback
        put(2, response.all_of_stderr)
        return response.code

    def crashed(self, error: BaseException) -> int:
        if os.environ.get("BILLHOOK_DEBUG"):
            import traceback

            traceback.print_exception(error)
        if self.response is not None:
            print_errors([f"after the answer: {type(error).__name__}: {error}"])
            return self.response.code
        if self.caught or isinstance(error, KeyboardInterrupt):
            number = (self.caught or [2])[0]
            why = f"ended by signal {number} before there was a verdict"
            return self._write(self.answering.fail(why, passing=128 + number))
        return self._write(self.answering.crashed(error))

    def last_code(self) -> int:
        """The exit code if nothing can be written any more."""
        return self.response.code if self.response is not None and self.response.code else self.answering.last_code

    def close(self) -> None:
        """End what still runs before the agent's timeout, and at once after a signal."""
        if self._engine is None:
            return
        from billhook.runners import process_tree

        urgent = bool(self.caught)
        catch_signals([])
        self._engine.background.cancel()
        left = process_tree.GRACE if self.answering.ends is None else self.answering.ends - time.monotonic() - _LAST
        process_tree.settle(grace=0.0 if urgent else min(left, process_tree.GRACE))


def _stdin() -> bytes:
    if os.isatty(0):
        print_errors(["waiting for an event as JSON on standard input (end it with Ctrl-D)"])
    return all_of(0)


def _listen(caught: list[int]) -> None:
    """A signal before the hooks run is a failure like any other, not a silent end."""

    def end(number: int, frame: object) -> None:
        caught.append(number)
        catch_signals(caught)  # the answer that follows must not be interrupted
        raise KeyboardInterrupt

    handle_signals(_ENDING, end)


# Answering before background hooks end: the agent waits for the parent, the child runs the hooks and outlives it.
# The fork comes before the hooks run, while there is one thread. Signals that reach the parent are passed on. After
# the answer the child runs alone, and ends with its hooks. POSIX only.


_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGALRM")


def _split() -> Callable[[int], None] | int:
    """Fork. In the child: the function that lets the parent end with a code. In the parent: that code."""
    from billhook.runners import process_tree

    read, write = os.pipe()
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError:  # no more processes: the agent has to wait
        os.close(read)
        os.close(write)
        return lambda code: hang_up(1)
    if child:
        os.close(write)
        return _follow_child(child, read)
    os.close(read)
    os.setsid()  # a signal for the parent's group reaches us once, from the parent
    if not process_tree.end_with(parent):
        raise KeyboardInterrupt
    return lambda code: _end_parent(write, code)


def _end_parent(write: int, code: int) -> None:
    from billhook.runners import process_tree

    process_tree.outlive_parent()
    hang_up(0, 1, 2)
    os.write(write, bytes([code]))
    os.close(write)


def _follow_child(child: int, read: int) -> int:
    handle_signals(_PASSED_ON, lambda number, frame: os.kill(child, number))
    code = os.read(read, 1)
    if code:
        return code[0]
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended < 0:
        raise ChildProcessError(f"the process that ran the hooks was ended by signal {-ended}")
    return ended


_EPILOG = """\b
Example, in an agent's settings:
  {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "billhook hook --as claude"}]}]}}

--on-failure applies if the event or the configuration can't be read, the event is unknown, its folder does not exist,
hooks call billhook recursively, or there is an internal error:

\b
  --on-failure deny   the event is denied, in the dialect's format
  --on-failure allow  the event is allowed
  neither             the event is denied if a gate listens for it, else allowed

The guard is a gate for tool calls. What went wrong is printed on stderr.

Background hooks may continue after the verdict, until their timeout; their answers are ignored.

Exit code: 0, or the code with which the dialect blocks."""


def _command() -> Any:
    """The command for `billhook hook --help`. The verb itself does not use click."""
    import click

    from billhook.serve.hook_server import DIALECTS

    from_help = (
        "The settings file that contains this command. If both files contain it, the hooks still run once per call."
    )
    deadline_help = "Milliseconds for all hooks together; must be shorter than the agent's timeout."

    @click.command("hook", epilog=_EPILOG)
    @click.argument("event", required=False, metavar="[EVENT]")
    @click.option(
        "--as", "dialect", metavar="NAME", help=f"The agent's dialect: {', '.join(DIALECTS)}.  [default: claude]"
    )
    @click.option("--on-failure", metavar="allow|deny", help="What to do if the event can't be checked; see below.")
    @click.option("--config", metavar="FILE", multiple=True, help="One more configuration file. May be repeated.")
    @click.option("--deadline", metavar="MS", help=deadline_help)
    @click.option("--from", "source", metavar="user|project", help=from_help)
    def hook(**given: object) -> int:
        """Answer one event: read it as JSON on stdin, run the configured hooks, and return the verdict on stdout and
        stderr and as the exit code.

        EVENT is the event's name, for agents whose JSON has none, in the agent's spelling or in billhook's. Case, `_`
        and `-` don't matter.
        """
        import sys

        return main(sys.argv[2:])

    return hook


def __getattr__(name: str) -> Any:
    """The click command, which is only needed for `billhook hook --help`."""
    if name == "verb":
        return _command()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
