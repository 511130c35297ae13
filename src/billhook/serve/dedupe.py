"""One call that arrives through several settings files: hooks run once, and each entry gets the same answer.

Some agents read hooks from several files, for example also from Claude Code's, and run the entries of each.
The first process runs the hooks; the others wait, and write the same answer in their own dialect. They wait for a part
of their time only: then, or if the first process died, they run the hooks themselves. Claude Code needs none of this
unless billhook is in several of its files.
"""

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.core import strictjson
from billhook.core.answers import Answer, Decision
from billhook.core.errors import BillhookError
from billhook.core.events import Event
from billhook.serve.hook_server import Arguments
from billhook.store.files import StoreError, sha256
from billhook.store.state import CallClaim, CallRecord, CallRecords

if TYPE_CHECKING:
    from billhook.config.config import Config
    from billhook.config.sources import FileRead

WINDOW: Final = 10.0  # seconds in which an equal call without an id from another entry counts as the same call
WINDOW_BY_ID: Final = 60.0
TIMEOUT: Final = 20.0  # seconds to wait for the first process if the agent's timeout is unknown
_SHARE: Final = 0.8  # of the time for hooks; after that there is still time to run the hooks here
_SHORTEST, _LONGEST = 0.002, 0.05
_IDS: Final = ("tool_use_id", "toolUseId", "tool_call_id", "toolCallId")


class SharedVerdict(msgspec.Struct, frozen=True):
    """The answer of the hooks, from this process or another one."""

    answer: Answer
    warnings: tuple[str, ...] = ()


Judge = Callable[[], Awaitable[SharedVerdict]]


def call_of(agent: str, event: Event, stdin: bytes, config: "Config", arguments: Arguments) -> CallRecord | None:
    """The call that an event is about; None if it can't be told from another session's. A different agent, different
    hooks or another failure rule make it a different call; `--as`, `--from` and the event's name identify the entry."""
    if not event.session_id:
        return None
    given = _given_id(stdin)
    tool, held = getattr(event, "tool_name", None), getattr(event, "tool_input", None)
    about = [given] if given else [tool, held, *(event.payload.get(name) for name in ("prompt", "message"))]
    try:
        whose = [agent, config.project, arguments.files, arguments.on_failure, *map(_as_it_is, config.sources)]
        key = strictjson.encode([event.hook_event_name, *whose, *about])
    except (BillhookError, ValueError, TypeError):
        return None
    window = WINDOW_BY_ID if given else WINDOW
    entry = f"{arguments.dialect} {arguments.event} {arguments.source}"
    # entries without --from have equal command lines, and Claude Code runs each of them
    alike = given and arguments.dialect == "claude" and not arguments.source
    times = config.installed.get(event.hook_event_name, 0) if alike else 1
    return CallRecord(event.session_id, sha256(key).hexdigest(), entry, window, max(1, times))


def _as_it_is(read: "FileRead") -> list[Any]:
    """The state of a file with hooks: if it changed between two calls, the hooks run again."""
    try:
        found = os.stat(read.source.path)
    except OSError:
        return [read.source.path]
    return [read.source.path, found.st_mtime_ns, found.st_size]


def _given_id(stdin: bytes) -> str:
    """The call's id from the agent; empty if billhook made one up, because two calls may share that."""
    try:
        sent = strictjson.loads_leniently(stdin, max_depth=400)
    except BillhookError:
        return ""
    found = [sent.get(name) for name in _IDS] if isinstance(sent, Mapping) else []
    return next((one for one in found if isinstance(one, str) and one), "")


class SharedCall:
    """One call, as this process handles it. Lives as long as the call."""

    def __init__(self, root: str, call: CallRecord, seconds: float | None) -> None:
        self._calls = CallRecords(Path(root))
        self._call = call
        self._ends = time.monotonic() + (TIMEOUT if seconds is None else seconds * _SHARE)

    async def judged(self, judge: Judge) -> SharedVerdict:
        """The answer of the hooks, run by this process or by the first one. Without a writable state every process runs
        them."""
        try:
            taken = await self._claim()
        except StoreError:
            taken = None
        if taken is not None and taken.mine:
            return await self._judge_claimed(taken, judge)
        shared = None if taken is None else _read(taken.said or {})
        return shared or await judge()

    async def _claim(self) -> CallClaim | None:
        """The call, with its answer or claimed by this process; None: no answer in time."""
        taken = self._calls.take(self._call)
        pause = _SHORTEST
        while not taken.mine and taken.said is None:
            if time.monotonic() >= self._ends:
                return None
            await _sleep(pause)
            pause = min(pause * 1.5, _LONGEST)
            # a call whose process died is claimed again: by this process, or by another that waits
            taken = self._calls.look(self._call, taken.id) or self._calls.take(self._call)
        return taken

    async def _judge_claimed(self, taken: CallClaim, judge: Judge) -> SharedVerdict:
        said: dict[str, Any] | None = None
        try:
            judged = await judge()
            said = _shared_record(judged)
        finally:
            try:
                if said is not None:
                    self._calls.save_answer(self._call, taken.id, said)
                else:
                    self._calls.give_up(self._call, taken.id)
            except StoreError:
                pass  # the others see that this process ended, or their wait ends
        return judged


async def _sleep(seconds: float) -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        time.sleep(seconds)  # noqa: ASYNC251 - a process for one event, which has nothing else to do
    else:
        await asyncio.sleep(seconds)


def _shared_record(judged: SharedVerdict) -> dict[str, Any] | None:
    """The record for the other processes; None if it can't be encoded, or contains a secret."""
    from billhook.store.redaction import Redactor

    if judged.answer.decision is Decision.DEFER:
        return None  # the same call comes again, and the hooks run then
    answer = msgspec.structs.replace(judged.answer, data=None, background=False)
    try:
        said: dict[str, Any] = {"answer": msgspec.to_builtins(answer), "warnings": list(judged.warnings)}
        strictjson.encode(said)
    except (BillhookError, TypeError, ValueError, RecursionError):
        return None
    return said if not Redactor().redacted(said).texts else None


def _read(said: dict[str, Any]) -> SharedVerdict | None:
    """The answer in a record; None if it can't be read, for example after an edit."""
    try:
        return msgspec.convert(said, SharedVerdict)
    except msgspec.ValidationError:
        return None
