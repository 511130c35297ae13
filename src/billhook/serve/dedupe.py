"""The same call through two files: judged once, answered twice alike.

Some agents read hooks from several files, Claude Code's among them, and run what stands in each.
Whoever comes first judges the call; the other one gets the same answer, and says it in its own words. It waits for it
no longer than it can afford: then, or when the first one died, it judges the call itself. Claude Code pays nothing here
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
from billhook.store.state import CallRecord, CallRecords, Taken

if TYPE_CHECKING:
    from billhook.config.config import Config
    from billhook.config.sources import FileRead

WINDOW: Final = 10.0  # seconds in which a call without an id that comes through another entry is taken for the same one
WINDOW_BY_ID: Final = 60.0
PATIENCE: Final = 20.0  # seconds to wait for the first one, where nobody said how long the agent waits
_SHARE: Final = 0.8  # of the time that hooks may take; in the rest the call can still be judged
_SHORTEST, _LONGEST = 0.002, 0.05
_IDS: Final = ("tool_use_id", "toolUseId", "tool_call_id", "toolCallId")


class SharedVerdict(msgspec.Struct, frozen=True):
    """What the hooks said, whoever asked them."""

    answer: Answer
    warnings: tuple[str, ...] = ()


Judge = Callable[[], Awaitable[SharedVerdict]]


def call_of(agent: str, event: Event, stdin: bytes, config: "Config", said: Arguments) -> CallRecord | None:
    """The call that an event is about; None when nobody could tell it from another session's. Another agent, other
    hooks or another failure rule make another call of it; `--as`, `--from` and the event's name tell entries apart."""
    if not event.session_id:
        return None
    given = _given_id(stdin)
    tool, held = getattr(event, "tool_name", None), getattr(event, "tool_input", None)
    about = [given] if given else [tool, held, *(event.payload.get(name) for name in ("prompt", "message"))]
    try:
        whose = [agent, config.project, said.files, said.on_failure, *map(_as_it_is, config.sources)]
        key = strictjson.encode([event.hook_event_name, *whose, *about])
    except (BillhookError, ValueError, TypeError):
        return None
    window = WINDOW_BY_ID if given else WINDOW
    entry = f"{said.dialect} {said.event} {said.source}"
    # entries that don't say whose they are have the same words, and Claude Code runs each of them
    alike = given and said.dialect == "claude" and not said.source
    times = config.installed.get(event.hook_event_name, 0) if alike else 1
    return CallRecord(event.session_id, sha256(key).hexdigest(), entry, window, max(1, times))


def _as_it_is(read: "FileRead") -> list[Any]:
    """A file of hooks: what changed between two calls has to be asked anew."""
    try:
        found = os.stat(read.source.path)
    except OSError:
        return [read.source.path]
    return [read.source.path, found.st_mtime_ns, found.st_size]


def _given_id(stdin: bytes) -> str:
    """The call's id as the agent gives it; nothing where one was made up, which two calls may share."""
    try:
        sent = strictjson.loads_leniently(stdin, max_depth=400)
    except BillhookError:
        return ""
    found = [sent.get(name) for name in _IDS] if isinstance(sent, Mapping) else []
    return next((one for one in found if isinstance(one, str) and one), "")


class Once:
    """One call, from this process's side. Lives as long as that takes."""

    def __init__(self, root: str, call: CallRecord, seconds: float | None) -> None:
        self._calls = CallRecords(Path(root))
        self._call = call
        self._ends = time.monotonic() + (PATIENCE if seconds is None else seconds * _SHARE)

    async def judged(self, judge: Judge) -> SharedVerdict:
        """What the hooks say: asked by us, or by whoever came first. Where nothing can be kept, everybody asks."""
        try:
            taken = await self._taken()
        except StoreError:
            taken = None
        if taken is not None and not taken.mine:
            return _read(taken.said or {})
        if taken is None:
            return await judge()
        return await self._ours(taken, judge)

    async def _taken(self) -> Taken | None:
        """The call, with what was said of it, or as ours; None: nobody said anything in time."""
        taken = self._calls.take(self._call)
        pause = _SHORTEST
        while not taken.mine and not _is_readable(taken.said):
            if taken.said is not None or time.monotonic() >= self._ends:
                return None
            await _sleep(pause)
            pause = min(pause * 1.5, _LONGEST)
            # one that nobody judges any more is taken anew: by us, or by another who waits
            taken = self._calls.look(self._call, taken.id) or self._calls.take(self._call)
        return taken

    async def _ours(self, taken: Taken, judge: Judge) -> SharedVerdict:
        said: dict[str, Any] | None = None
        try:
            judged = await judge()
            said = _kept(judged)
        finally:
            try:
                if said is not None:
                    self._calls.say(self._call, taken.id, said)
                else:
                    self._calls.give_up(self._call, taken.id)
            except StoreError:
                pass  # who waits sees that we are gone, or loses patience
        return judged


async def _sleep(seconds: float) -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        time.sleep(seconds)  # noqa: ASYNC251 - a process for one event, which has nothing else to do
    else:
        await asyncio.sleep(seconds)


def _kept(judged: SharedVerdict) -> dict[str, Any] | None:
    """What is written down for the other one; None for what can't be, or should not: with a secret in it."""
    from billhook.store.redaction import Redactor

    if judged.answer.decision is Decision.DEFER:
        return None  # the same call comes again, and is to be judged then
    answer = msgspec.structs.replace(judged.answer, data=None, background=False)
    try:
        said: dict[str, Any] = {"answer": msgspec.to_builtins(answer), "warnings": list(judged.warnings)}
        strictjson.encode(said)
    except (BillhookError, TypeError, ValueError, RecursionError):
        return None
    return said if not Redactor().redacted(said).texts else None


def _is_readable(said: dict[str, Any] | None) -> bool:
    if said is None:
        return False
    try:
        _read(said)
    except msgspec.ValidationError:
        return False
    return True


def _read(said: dict[str, Any]) -> SharedVerdict:
    return SharedVerdict(
        msgspec.convert(said.get("answer"), Answer), msgspec.convert(said.get("warnings"), tuple[str, ...])
    )
