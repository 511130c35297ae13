"""The same session for loops that are not async: each call blocks until its hooks have answered."""

import asyncio
import functools
import inspect
import os
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from billhook.core import drive
from billhook.core.answers import Verdict
from billhook.core.events import Event
from billhook.engine.engine import Engine
from billhook.session.calls import INTERRUPTS, Execute, SentInput, ToolResult, awaited, copied, interruption, shown
from billhook.session.session import Session

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[Session, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["SyncSession", P], T]:
    """A method of Session, as the session's own class has it, that blocks until it is done."""

    @functools.wraps(method)
    def blocking(self: "SyncSession", /, *args: P.args, **options: P.kwargs) -> T:
        start: Callable[P, Coroutine[Any, Any, T]] = getattr(self.session, method.__name__)
        return run_to_end(start(*args, **options))

    return blocking


def run_to_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Block until it is done, also inside a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return drive.run(coroutine)
    return drive.run_aside(coroutine)


class _Attribute(Generic[T]):
    """An attribute of the session, to be read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: "SyncSession", kind: type | None = None) -> T:
        value: T = getattr(owner.session, self.name)
        return value


class SyncSession:
    """A session whose calls block; `session` is the one behind it. Works inside a running loop too, which it blocks."""

    def __init__(self, engine: Engine | Session, **options: Any) -> None:
        self.session = engine if isinstance(engine, Session) else Session(engine, **options)

    def __enter__(self) -> Self:
        run_to_end(self.session.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_to_end(self.session.__aexit__(kind, error, trace))

    id = _Attribute[str]()
    cwd = _Attribute[str]()
    transcript_path = _Attribute[str]()
    permission_mode = _Attribute[str]()
    turn = _Attribute[int]()
    stopped = _Attribute[str | None]()

    clear = _blocking(Session.clear)
    prompt = _blocking(Session.prompt)
    stop = _blocking(Session.stop)
    failed = _blocking(Session.failed)
    notify = _blocking(Session.notify)
    compact = _blocking(Session.compact)
    before_tool = _blocking(Session.before_tool)
    after_tool = _blocking(Session.after_tool)
    batch = _blocking(Session.batch)

    def fire(self, event: type[Event], *, deadline: float | None = None, **fields: Any) -> Verdict:
        return run_to_end(self.session.fire(event, deadline=deadline, **fields))

    def take_context(self) -> str:
        return self.session.take_context()

    def subagent(
        self,
        agent_type: str,
        *,
        agent_id: str = "",
        transcript_path: str | os.PathLike[str] = "",
        detached: bool = False,
    ) -> "SyncSession":
        nested = self.session.subagent(
            agent_type, agent_id=agent_id, transcript_path=transcript_path, detached=detached
        )
        return SyncSession(nested)

    def call_tool(
        self,
        name: str,
        tool_input: dict[str, Any],
        execute: Execute,
        *,
        tool_use_id: str = "",
        sent: SentInput | None = None,
    ) -> ToolResult:
        """Here the tool runs in the caller's own thread, with no loop around it: it may start one."""
        call = self.before_tool(name, tool_input, tool_use_id=tool_use_id, sent=sent)
        if call.result is not None:
            return call.result
        try:
            output = execute(copied(call.tool_input))
            if inspect.isawaitable(output):
                output = run_to_end(awaited(output))
        except INTERRUPTS as error:
            self.after_tool(call, error=interruption(error), is_interrupt=True)
            raise
        except Exception as error:
            return self.after_tool(call, error=shown(error))
        return self.after_tool(call, output)
