"""The same session for loops that are not async: each call blocks until its hooks have answered."""

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from billhook import stepping
from billhook.answers import Verdict
from billhook.engine import Engine
from billhook.events import Event
from billhook.session.calls import INTERRUPTS, Call, Execute, SentInput, ToolResult, copied, interruption, shown
from billhook.session.session import Session
from billhook.session.waiting import awaited

T = TypeVar("T")


class SyncSession:
    """A session whose calls block; `session` is the one behind it. Works inside a running loop too, which it blocks."""

    def __init__(self, engine: Engine | Session, **options: Any) -> None:
        self.session = engine if isinstance(engine, Session) else Session(engine, **options)

    def __enter__(self) -> Self:
        _run(self.session.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _run(self.session.__aexit__(kind, error, trace))

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def cwd(self) -> str:
        return self.session.cwd

    @property
    def transcript_path(self) -> str:
        return self.session.transcript_path

    @property
    def permission_mode(self) -> str:
        return self.session.permission_mode

    @property
    def turn(self) -> int:
        return self.session.turn

    @property
    def stopped(self) -> str | None:
        return self.session.stopped

    def take_context(self) -> str:
        return self.session.take_context()

    def fire(self, event: type[Event], *, deadline: float | None = None, **fields: Any) -> Verdict:
        return _run(self.session.fire(event, deadline=deadline, **fields))

    def clear(self, *, session_id: str = "", transcript_path: str | os.PathLike[str] | None = None) -> None:
        _run(self.session.clear(session_id=session_id, transcript_path=transcript_path))

    def prompt(self, text: str) -> Verdict:
        return _run(self.session.prompt(text))

    def stop(self, last_message: str | None = None) -> Verdict:
        return _run(self.session.stop(last_message))

    def failed(self, error: str, *, details: str | None = None, last_message: str | None = None) -> Verdict:
        return _run(self.session.failed(error, details=details, last_message=last_message))

    def notify(self, message: str, *, type: str, title: str | None = None) -> Verdict:  # noqa: A002 (its word)
        return _run(self.session.notify(message, type=type, title=title))

    def compact(
        self,
        summarise: Callable[[], str],
        *,
        trigger: Literal["manual", "auto"] = "manual",
        instructions: str | None = None,
    ) -> str | None:
        return _run(self.session.compact(summarise, trigger=trigger, instructions=instructions))

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
                output = _run(awaited(output))
        except INTERRUPTS as error:
            self.after_tool(call, error=interruption(error), is_interrupt=True)
            raise
        except Exception as error:
            return self.after_tool(call, error=shown(error))
        return self.after_tool(call, output)

    def before_tool(
        self, name: str, tool_input: dict[str, Any], *, tool_use_id: str = "", sent: SentInput | None = None
    ) -> Call:
        return _run(self.session.before_tool(name, tool_input, tool_use_id=tool_use_id, sent=sent))

    def after_tool(
        self, call: Call, output: Any = None, *, error: str | None = None, is_interrupt: bool = False
    ) -> ToolResult:
        return _run(self.session.after_tool(call, output, error=error, is_interrupt=is_interrupt))

    def batch(self, calls: Sequence[Mapping[str, Any]]) -> Verdict:
        return _run(self.session.batch(calls))


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return stepping.run(coroutine)
    return stepping.run_aside(coroutine)
