"""A session and its subagents: the events from start to end."""

import asyncio
import functools
import inspect
import os
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, Self, TypeVar

from msgspec.structs import replace

from billhook.core import drive, events
from billhook.core.answers import Outcome, Verdict
from billhook.core.dialect_traits import meanings
from billhook.core.errors import UsageError
from billhook.engine.engine import Engine
from billhook.session import calls

FORCED_AT_MOST: Final = 8  # how often in a row hooks may prevent an agent from stopping
SOURCES: Final = ("startup", "resume", "clear", "compact", "fork")


def _refuse_unknown(name: str, value: object, known: Sequence[str | None]) -> None:
    if value not in known:
        raise UsageError(f"invalid {name} `{value}`", hint=f"use one of {', '.join(word for word in known if word)}")


class Session:
    """One session of an agent: `async with` fires SessionStart and SessionEnd. Belongs to one task at a time."""

    def __init__(
        self,
        engine: Engine,
        *,
        cwd: str | os.PathLike[str] = "",
        source: str = "startup",
        ask: calls.Ask | None = None,
        permissions: calls.Permissions | None = None,
        permission_mode: str = "default",
        session_id: str = "",
        transcript_path: str | os.PathLike[str] = "",
        model: str | None = None,
        agent_type: str | None = None,
        setup: Literal["init", "maintenance"] | None = None,
    ) -> None:
        """`ask` gets the user's answer; without it, `ask` decisions are denied. `permissions` are the rules beside the
        hooks; without them a call without an objection runs."""
        _refuse_unknown("source", source, SOURCES)
        _refuse_unknown("permission_mode", permission_mode, calls.MODES)
        _refuse_unknown("setup", setup, (None, "init", "maintenance"))
        self.engine = engine
        self.id = session_id or str(uuid.uuid4())
        self.cwd = os.path.abspath(cwd or os.getcwd())
        self.source, self.setup = source, setup
        self.ask = ask
        self.permissions: calls.Permissions = permissions or calls.HookPermissions()
        self.permission_mode = permission_mode
        self.granted = calls.GrantedRules()  # rules that PermissionRequest hooks added for this session
        self.transcript_path = os.fspath(transcript_path or "")
        self.model, self.agent_type = model, agent_type
        self.turn = 0  # how many prompts it has had
        self.stopped: str | None = None  # why a hook ended the run; None: none did
        self.end_reason = "other"  # the reason in SessionEnd
        self.has_ended = False
        self._ids = {self.id}  # its id, and its ids before `/clear`
        self._prompt_id: str | None = None
        self._contexts: list[tuple[str, str]] = []
        self._forced = 0
        self._calls = calls.ToolCalls(self)

    # -- its life

    async def __aenter__(self) -> Self:
        try:
            await self._begin()
        except BaseException as error:
            await self._end(error)
            raise
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.has_ended = True
        await self._end(error)

    async def _begin(self) -> None:
        if self.setup is not None:
            await self.fire(events.Setup, trigger=self.setup)
        await self._start(self.source)

    async def _start(self, source: str) -> Verdict:
        return await self.fire(events.SessionStart, source=source, model=self.model, agent_type=self.agent_type)

    async def _end(self, error: BaseException | None) -> None:
        """SessionEnd. Hooks in the background finish within their time limits; an interrupt ends them."""
        if error is not None and not isinstance(error, Exception | SystemExit):
            self.end_background()
        try:
            await self.fire(events.SessionEnd, deadline=calls.HURRY, reason=self.end_reason)
        except BaseException:
            self.end_background()
            raise
        await self.engine.background.finish(self._ids)

    @property
    def background_hooks(self) -> list[str]:
        """The hooks of this session that still run in the background."""
        return self.engine.background.names(self._ids)

    def end_background(self) -> None:
        """End hooks of this session that run in the background: their processes are killed, their answers lost."""
        self.engine.background.cancel(self._ids)

    async def clear(self, *, session_id: str = "", transcript_path: str | os.PathLike[str] | None = None) -> None:
        """Start over, as `/clear` does: this session ends, and another with a new id starts."""
        await self.fire(events.SessionEnd, deadline=calls.HURRY, reason="clear")
        self.id, self._prompt_id, self.stopped = session_id or str(uuid.uuid4()), None, None
        self._ids.add(self.id)
        self.source = "clear"
        self.transcript_path = self.transcript_path if transcript_path is None else os.fspath(transcript_path)
        self.turn = self._forced = 0
        self.granted = calls.GrantedRules()
        self._contexts.clear()
        await self._start("clear")

    # -- firing

    async def fire(self, event: type[events.Event], *, deadline: float | None = None, **fields: Any) -> Verdict:
        """Fire an event of this session. Its context waits for the next model call, and a stop is noted."""
        verdict = await self.ask_hooks(event, deadline=deadline, **fields)
        self.keep_context(verdict.outcomes)
        return verdict

    async def ask_hooks(self, event: type[events.Event], *, deadline: float | None = None, **fields: Any) -> Verdict:
        """Fire an event; the caller handles its context."""
        verdict = await self.engine.fire(self.event(event, **fields), deadline=deadline)
        if verdict.stop and event is not events.SessionEnd:
            self.stop_run(verdict.stop_reason or f"a hook stopped the run at {verdict.event}")
        return verdict

    def event(self, event: type[events.Event], **fields: Any) -> events.Event:
        """An event of this session."""
        sent = fields.pop("sent_input", None)
        made = event(**{**self._base(), **fields})
        if sent is not None:
            made.keep_sent_input(*sent)
        return made

    def _base(self) -> dict[str, Any]:
        return {
            "session_id": self.id,
            "transcript_path": self.transcript_path,
            "cwd": self.cwd,
            "permission_mode": self.permission_mode,
            "prompt_id": self._prompt_id,
        }

    def stop_run(self, reason: str) -> None:
        """End the run; the first reason is kept."""
        self.stopped = self.stopped or reason

    # -- context

    def keep_context(self, outcomes: Sequence[Outcome]) -> None:
        """Keep the hooks' context for the model, joined as in their dialects."""
        for outcome in outcomes:
            if outcome.answer.context:
                self.add_context(outcome.answer.context, join=meanings(outcome.dialect).join)

    def add_context(self, text: str, *, join: str = "\n\n") -> None:
        """Add context to the next model call."""
        self._contexts.append((join, text))

    def take_context(self) -> str:
        """The context for the system message of the next model call. Each text is returned once."""
        taken, self._contexts = self._contexts, []
        return "".join((join if i else "") + text for i, (join, text) in enumerate(taken))

    # -- prompts and the end of a turn

    async def prompt(self, text: str) -> Verdict:
        """A prompt was submitted. `denied`: the model must not see it; the reason is for the user. A run that a hook
        stopped continues with the next prompt, unless it was stopped at the session's start."""
        self.stopped = self.stopped if self.turn == 0 else None
        self.turn += 1
        self._prompt_id, self._forced = str(uuid.uuid4()), 0
        verdict = await self.ask_hooks(events.UserPromptSubmit, prompt=text)
        if not verdict.denied:  # context for a refused prompt must not reach a later one
            self.keep_context(verdict.outcomes)
        return verdict

    async def stop(self, last_message: str | None = None) -> Verdict:
        """The agent has finished its reply. `keep_going`: a hook asks for more, and the reason is the next task. Hooks
        can do this 8 times in a row; then the verdict's message names them, and the agent stops."""
        return self._bounded(await self._fire_stop(last_message))

    async def _fire_stop(self, last_message: str | None) -> Verdict:
        return await self.fire(events.Stop, stop_hook_active=self._forced > 0, last_assistant_message=last_message)

    def _bounded(self, verdict: Verdict) -> Verdict:
        if verdict.keep_going and self.stopped is None:
            self._forced += 1
            if self._forced <= FORCED_AT_MOST:
                return verdict
            hooks = ", ".join(f"`{outcome.hook}`" for outcome in verdict.outcomes if outcome.answer.keep_going)
            enough = f"{hooks} kept the agent going {FORCED_AT_MOST} times in a row; it stops now"
            verdict = replace(verdict, messages=(*verdict.messages, enough)).with_id(verdict.id)
        self._forced = 0
        return replace(verdict, keep_going=False).with_id(verdict.id) if verdict.keep_going else verdict

    async def failed(self, error: str, *, details: str | None = None, last_message: str | None = None) -> Verdict:
        """The model's service ended the turn with an error: `rate_limit`, `overloaded` ..."""
        return await self.fire(
            events.StopFailure, error=error, error_details=details, last_assistant_message=last_message
        )

    async def notify(self, message: str, *, type: str, title: str | None = None) -> Verdict:  # noqa: A002 (its name)
        """The user gets a notification: `permission_prompt`, `idle_prompt`, `agent_completed` ..."""
        return await self.fire(events.Notification, message=message, notification_type=type, title=title)

    async def compact(
        self,
        summarise: Callable[[], str | Awaitable[str]],
        *,
        trigger: Literal["manual", "auto"] = "manual",
        instructions: str | None = None,
    ) -> str | None:
        """Compact the conversation: PreCompact, summary, PostCompact, SessionStart. None: a hook refused."""
        before = await self.fire(events.PreCompact, trigger=trigger, custom_instructions=instructions)
        if before.denied or self.stopped is not None:
            return None
        summary: str = await calls.awaited(summarise())
        await self.fire(events.PostCompact, trigger=trigger, compact_summary=summary)
        await self._start("compact")
        return summary

    def subagent(
        self,
        agent_type: str,
        *,
        agent_id: str = "",
        transcript_path: str | os.PathLike[str] = "",
        detached: bool = False,
    ) -> "Subagent":
        """A session for a subagent: `async with session.subagent("reviewer") as nested`. A hook that stops it also
        stops this one, unless it is `detached`."""
        return Subagent(self, agent_type, agent_id or uuid.uuid4().hex[:16], os.fspath(transcript_path or ""), detached)

    # -- tools

    async def call_tool(
        self,
        name: str,
        tool_input: dict[str, Any],
        execute: calls.Execute,
        *,
        tool_use_id: str = "",
        sent: calls.SentInput | None = None,
    ) -> calls.ToolResult:
        """Run the hooks, the tool with the input as rewritten, and the hooks for its result."""
        call = await self.before_tool(name, tool_input, tool_use_id=tool_use_id, sent=sent)
        return call.result or await self._calls.run(call, execute)

    async def before_tool(
        self, name: str, tool_input: dict[str, Any], *, tool_use_id: str = "", sent: calls.SentInput | None = None
    ) -> calls.Call:
        """PreToolUse and permission. Run the tool with the returned `tool_input`, then call `after_tool`; with a
        `result` it must not run. `sent` is the input as the model wrote it, for hooks that read it: its JSON text, or
        the same with other names of fields."""
        return await self._calls.before(name, tool_input, tool_use_id, sent)

    async def after_tool(
        self, call: calls.Call, output: Any = None, *, error: str | None = None, is_interrupt: bool = False
    ) -> calls.ToolResult:
        """PostToolUse, or PostToolUseFailure if there is an `error`: the result with the feedback of all hooks."""
        return await self._calls.after(call, output, error, is_interrupt)

    async def batch(self, calls: Sequence[Mapping[str, Any]]) -> Verdict:
        """All tools of one reply have run: `tool_name`, `tool_input`, `tool_use_id` and `tool_response` of each."""
        verdict = await self.fire(events.PostToolBatch, tool_calls=[dict(call) for call in calls])
        if verdict.denied:  # a block here ends the loop
            self.stop_run(verdict.reason or "a hook stopped the run at PostToolBatch")
        return verdict


class Subagent(Session):
    """The session of a subagent: SubagentStart, SubagentStop. All its events have `agent_id` and `agent_type`. Hooks,
    rules and user are the parent's."""

    def __init__(self, parent: Session, agent_type: str, agent_id: str, transcript_path: str, detached: bool) -> None:
        super().__init__(
            parent.engine,
            cwd=parent.cwd,
            ask=parent.ask,
            permissions=parent.permissions,
            permission_mode=parent.permission_mode,
            session_id=parent.id,
            transcript_path=parent.transcript_path,
            model=parent.model,
            agent_type=agent_type,
        )
        self.parent, self.agent_id, self.detached = parent, agent_id, detached
        self.granted = parent.granted
        self.agent_transcript_path = transcript_path
        self._prompt_id = parent._prompt_id
        self.stopped = None if detached else parent.stopped
        self._has_stopped = False

    def _base(self) -> dict[str, Any]:
        return {**super()._base(), "agent_id": self.agent_id, "agent_type": self.agent_type}

    async def _begin(self) -> None:
        await self.fire(events.SubagentStart)

    async def _end(self, error: BaseException | None) -> None:
        if not self._has_stopped:  # it failed: hooks that count starts and stops still need the stop
            await self.fire(events.SubagentStop, deadline=calls.HURRY, agent_transcript_path=self.agent_transcript_path)

    async def prompt(self, text: str) -> Verdict:
        self._has_stopped = False
        return await super().prompt(text)

    async def stop(self, last_message: str | None = None) -> Verdict:
        self._has_stopped = True
        verdict = await super().stop(last_message)
        self._has_stopped = not verdict.keep_going
        return verdict

    async def _fire_stop(self, last_message: str | None) -> Verdict:
        return await self.fire(
            events.SubagentStop,
            stop_hook_active=self._forced > 0,
            last_assistant_message=last_message,
            agent_transcript_path=self.agent_transcript_path,
        )

    def stop_run(self, reason: str) -> None:
        super().stop_run(reason)
        if not self.detached:
            self.parent.stop_run(reason)


# The same session for synchronous loops:

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[Session, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["SyncSession", P], T]:
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
    return drive.run_in_thread(coroutine)


class _Attribute(Generic[T]):
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: "SyncSession", kind: type | None = None) -> T:
        value: T = getattr(owner.session, self.name)
        return value


class SyncSession:
    """A session with blocking calls; `session` is the async one. Also works inside a running loop, which it blocks."""

    def __init__(self, engine: Engine | Session, **options: Any) -> None:
        self.session = engine if isinstance(engine, Session) else Session(engine, **options)

    def __enter__(self) -> Self:
        run_to_end(self.session.__aenter__())
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
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

    def fire(self, event: type[events.Event], *, deadline: float | None = None, **fields: Any) -> Verdict:
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
        about: dict[str, Any] = {"agent_id": agent_id, "transcript_path": transcript_path, "detached": detached}
        return SyncSession(self.session.subagent(agent_type, **about))

    def call_tool(
        self,
        name: str,
        tool_input: dict[str, Any],
        execute: calls.Execute,
        *,
        tool_use_id: str = "",
        sent: calls.SentInput | None = None,
    ) -> calls.ToolResult:
        """The tool runs in the caller's thread without a running loop, so it may start one."""
        call = self.before_tool(name, tool_input, tool_use_id=tool_use_id, sent=sent)
        if call.result is not None:
            return call.result
        try:
            output = execute(calls.copied(call.tool_input))
            if inspect.isawaitable(output):
                output = run_to_end(calls.awaited(output))
        except calls.INTERRUPTS as error:
            self.after_tool(call, error=calls.interruption(error), is_interrupt=True)
            raise
        except Exception as error:
            return self.after_tool(call, error=calls.shown(error))
        return self.after_tool(call, output)
