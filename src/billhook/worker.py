"""`python: module:function` of a configuration, in a process of its own: a hook that loops, exits or crashes is a
failed outcome, and two projects' modules never mix.

What a caller may rely on:

- The function means what it means under `@on`: it takes `(event)`, `(event, ctx)` or `(ctx)`, is sync or async, and
  returns an Answer, a dict or nothing. A hook made by `@on` works, too; the configuration alone says when it runs.
- `ctx.results`, `ctx.state` and `ctx.env` are there as plain data. What the function changes in `state` and `env` is
  brought back where JSON can say it; the rest is named as lost.
- A worker is kept for the project's next event. It is not used again when it failed or was late, when something of
  the hook is still running in it, when a file that it loaded has changed, or when our environment has.
- One event at a time for each worker; who finds none idle gets a new one. Workers move between event loops and threads.
- At the deadline the worker and all that it started are ended; all workers end with this process, however it ends.
"""

import json
import keyword
import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, ClassVar

import msgspec

from billhook import caller, strictjson
from billhook.agents.child import inherited
from billhook.answers import FAILURES, NOTHING, Outcome, Reply, Status
from billhook.errors import UsageError
from billhook.exits import Exit
from billhook.hook import Context
from billhook.meanings import meanings
from billhook.worker_pool import WORKERS, Key, StrangerError, Worker
from billhook.worker_wire import LARGEST_REQUEST, Changes, GarbageError, framed

__all__ = ["PythonHook", "close", "problem_with", "python"]

_TOLD = 160  # how much of the end of a worker's stderr goes into an error


def python(target: str, *, folder: str, interpreter: str = "", dialect: str = "spec") -> "PythonHook":
    """`module:function` of the project in `folder`, run by `interpreter`: a path (a relative one starts from the
    folder), a name on PATH, or empty for our own. Raises UsageError for what can't be meant."""
    problem = problem_with(target)
    if problem:
        raise UsageError(problem, hint="python: module:function")
    meanings(dialect)
    return PythonHook(target, os.path.abspath(folder), interpreter, dialect)


def problem_with(target: str) -> str:
    """Why this can't be a `module:function`; empty when it can."""
    module, colon, function = target.partition(":")
    if not target.strip():
        return "no function is named; write `module:function`"
    if not colon:
        head, _, tail = target.rpartition(".")
        return f"`{target}` names no function; write `{head or target}:{tail if head else 'function'}`"
    if "/" in module or module.endswith(".py"):
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")
        return f"`{module}` is a file; name the module: `{dotted}:{function}`"
    for what, dotted in (("module", module), ("function", function)):
        for part in dotted.split("."):
            if not part.isidentifier() or keyword.iskeyword(part):
                return f"`{dotted}` can't be the name of a {what}; write `module:function`"
    return ""


def close() -> None:
    """End all workers that wait for an event; those that are busy end after it. The next event starts new ones."""
    WORKERS.close()


class PythonHook(msgspec.Struct, frozen=True):
    """Ask a function in a worker. It keeps `ctx.deadline` itself."""

    target: str
    folder: str
    interpreter: str = ""
    dialect: str = "spec"
    keeps_time: ClassVar[bool] = True

    async def __call__(self, ctx: Context) -> Reply:
        program = self._program()
        if not program or sys.platform == "win32":
            return _not_started("there is no Python here that could be started as a worker; name one as `interpreter:`")
        number = int.from_bytes(os.urandom(6))
        request = framed(_request(self, ctx, number))
        if len(request) > LARGEST_REQUEST:
            return Reply(status=Status.FAILED, error=f"the event is longer than {LARGEST_REQUEST:,} bytes")
        if ctx.seconds_left <= 0:
            return Reply(status=Status.TIMED_OUT, error="its time was over before it could be asked")
        worker = WORKERS.take(
            Key(self.folder, program), {"CLAUDE_PROJECT_DIR": self.folder, **inherited(hook_variables=False)}
        )
        return _not_started(worker) if isinstance(worker, str) else await _ask(worker, request, number, ctx)

    def _program(self) -> str:
        given = caller.expanduser(self.interpreter)
        if os.sep in given:
            return os.path.join(self.folder, given)
        return given or sys.executable


async def _ask(worker: Worker, request: bytes, number: int, ctx: Context) -> Reply:
    try:
        told = await worker.ask(request, number, ctx.seconds_left)
    except StrangerError as error:
        return _not_started(f"{error}; install the same billhook for `{worker.key.program}`")
    except GarbageError as error:
        return Reply(status=Status.FAILED, error=f"{error}{_printed(worker)}")
    except OSError as error:
        return _not_started(f"the worker could not be asked: {error.strerror}")
    finally:
        WORKERS.give_back(worker)
    if isinstance(told, Exit):
        return _ended(told, worker)
    _bring_back(ctx.state, told.state)
    _bring_back(ctx.env, told.env, str)
    return Reply(
        answer=told.answer,
        status=told.status,
        error=told.error + (_printed(worker) if told.status in FAILURES else ""),
        exit_code=told.exit_code,
        on_failure=told.on_failure,
        lost=tuple(told.lost),
    )


# -- what a worker is told -------------------------------------------------------------------------------------------


def _request(hook: PythonHook, ctx: Context, number: int) -> bytes:
    seconds = ctx.seconds_left
    head = {
        "number": number,
        "target": hook.target,
        "folder": hook.folder,
        "dialect": hook.dialect,
        "seconds": None if seconds == float("inf") else seconds,
        "state": _plain_state(ctx.state),
        "env": {key: value for key, value in ctx.env.items() if isinstance(value, str)},
        "known": {"session_name": ctx.session_name, "turn_id": ctx.turn_id},
    }
    results = b",".join(_plain_outcome(outcome) for outcome in ctx.results.values())
    return b'%b,"results":[%b]}\n%b' % (strictjson.encode(head)[:-1], results, strictjson.encode(ctx.payload))


def _plain_outcome(outcome: Outcome) -> bytes:
    """An earlier result as JSON; what that has no word for is text. Each hook tells the next ones of all before it, so
    those that had nothing to say are written once."""
    if outcome.answer is not NOTHING:
        return _written(outcome)
    kept = _silent.get(id(outcome))
    if kept is None or kept[0] is not outcome:
        if len(_silent) >= _MOST_SILENT:
            _silent.clear()
        kept = _silent[id(outcome)] = outcome, _written(outcome)
    return kept[1]


_silent: dict[int, tuple[Outcome, bytes]] = {}
_MOST_SILENT = 1024


def _written(outcome: Outcome) -> bytes:
    try:
        return strictjson.encode(msgspec.to_builtins(outcome, enc_hook=str))
    except Exception:  # its data is an object of somebody else's, which may do anything when it is looked at
        answer = msgspec.structs.replace(outcome.answer, data=None, updated_input=None, updated_output=None, extras={})
        return strictjson.encode(msgspec.to_builtins(msgspec.structs.replace(outcome, answer=answer)))


def _plain_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """What of the state is plain data; the rest is for hooks in this process only."""
    plain = {}
    for key, value in state.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            continue
        if isinstance(key, str):
            plain[key] = value
    return plain


# -- what it says ----------------------------------------------------------------------------------------------------


def _bring_back(ours: MutableMapping[str, Any], changes: Changes, kind: type = object) -> None:
    ours.update({key: value for key, value in changes.made.items() if isinstance(value, kind)})
    for key in changes.gone:
        ours.pop(key, None)


def _ended(how: Exit, worker: Worker) -> Reply:
    """The failure that the end of a worker is."""
    if how.timed_out:
        error = "no answer in time; the worker and all that it started were ended"
        return Reply(status=Status.TIMED_OUT, error=error + _printed(worker))
    if how.lost:
        return Reply(status=Status.FAILED, error="its worker ended, and somebody else collected the exit status")
    if how.signal is not None:
        error = f"its worker was killed by {_signal_name(how.signal)}{_printed(worker)}"
        return Reply(status=Status.FAILED, error=error, signal=how.signal)
    if worker.greeting is None:
        return msgspec.structs.replace(_not_started(_why_no_worker(worker, how.code)), exit_code=how.code)
    error = f"its worker ended with exit code {how.code} before there was an answer{_printed(worker)}"
    return Reply(status=Status.FAILED, error=error, exit_code=how.code)


def _why_no_worker(worker: Worker, code: int | None) -> str:
    """Why an interpreter did not become a worker, from what it printed."""
    program, missing = worker.key.program, _MISSING.search(worker.stderr)
    install = f"install it: {shlex.quote(program)} -m pip install billhook"
    if missing is not None and missing[1] == "billhook":
        return f"`{program}` has no billhook; {install}"
    if missing is not None and missing[1].startswith("billhook."):
        return f"`{program}` has a billhook that is too old; {install.replace('install b', 'install -U b')}"
    if "Unknown option: -P" in worker.stderr:
        return f"`{program}` is too old; billhook needs Python 3.11 or later"
    return f"`{program}` did not become a worker: exit code {code}{_printed(worker)}"


_MISSING = re.compile(r"No module named '?([\w.]+)")


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _printed(worker: Worker) -> str:
    """The end of what the worker printed, for an error."""
    text = worker.stderr.strip()
    return f"; it printed: {strictjson.preview(text[-_TOLD:])}" if text else ""


def _not_started(why: str) -> Reply:
    return Reply(status=Status.COULD_NOT_START, error=why)
