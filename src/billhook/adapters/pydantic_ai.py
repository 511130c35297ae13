"""Pydantic AI: `Agent(model, capabilities=[HookCapability()])`.

It sees a call last, with the final arguments of the tool. One run is one session; the conversation's id is the
session's id, and a run with earlier messages resumes it.
"""

import asyncio
import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from billhook import adapters as runs
from billhook.session.calls import HURRY, Question, awaited, text_of

try:
    from pydantic import ValidationError
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.tools import DeferredToolRequests
    from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
    from pydantic_core import to_jsonable_python
    from pydantic_graph import End
except ImportError as missing:
    raise runs.not_installed("pydantic-ai", missing) from missing

_called: ContextVar[RunContext[Any]] = ContextVar("billhook_called")  # the current call


class HookCapability(AbstractCapability[Any]):
    """The hooks around a Pydantic AI agent. Can serve many runs at once: each has a copy."""

    def __init__(
        self,
        hooks: runs.Hooks = None,
        *,
        approval: bool = False,
        names: Mapping[str, str] | None = None,
        tell: runs.Tell | None = None,
        **session: Any,
    ) -> None:
        """`hooks`: an engine, a list of hooks, or nothing for the configuration. `approval`: the decision `ask` becomes
        a deferred tool call that needs approval (`DeferredToolRequests`). `names`: the names of tools for hooks.
        `session`: options of a Session (`cwd`, `ask`, `permissions` ...)."""
        self._approval, self._ask = approval, session.pop("ask", None)
        self.engine, self._options = runs.prepared(hooks, "pydantic-ai", names, tell, session)
        self._session: runs.AdapterRun | None = None
        self._under_way: dict[asyncio.Future[None], asyncio.Task[Any] | None] = {}
        """Calls without a result so far: their end, and their task."""
        self._told = ""
        self._next = ""  # a hook's request before the run ends

    def get_ordering(self) -> CapabilityOrdering:
        """Innermost, so that hooks see the changes of other capabilities."""
        return CapabilityOrdering(position="innermost")

    @property
    def _run(self) -> runs.AdapterRun:
        assert self._session is not None, "this works only inside a run"
        return self._session

    # -- a run and its end

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        own = copy.copy(self)
        about: dict[str, Any] = {
            "session_id": ctx.conversation_id or "",
            "source": "resume" if ctx.messages else "startup",
            "ask": own._user_answer if self._ask or self._approval else None,
        }
        own._session = runs.AdapterRun(self.engine, **about | self._options)
        own._under_way = {}
        return own

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:
        async with self._run as run:
            if run.stopped is None and ctx.prompt is not None:
                submitted = await run.prompt(
                    ctx.prompt if isinstance(ctx.prompt, str) else "\n".join(map(_words, ctx.prompt))
                )
                if submitted.denied:
                    raise runs.BlockedError(submitted.reason or "a hook refused the prompt")
            try:
                return await handler()
            except runs.StoppedError:
                raise
            except Exception as error:
                await run.failed("unknown", details=f"{type(error).__name__}: {error}")
                raise
            except BaseException:
                await self._break_off()
                raise
            finally:
                if self._next:
                    run.report(f"a hook asked to continue ({self._next}), but the answer was already streamed")

    async def _break_off(self) -> None:
        """Cancel the calls now: their events must come before the session's end."""
        ends = list(self._under_way)
        for task in self._under_way.values():
            if task is not None:
                task.cancel()
        if ends:
            await asyncio.wait(ends, timeout=HURRY)

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        """Stop, if the run would end here. A hook can keep it running: its reason is the next prompt."""
        if isinstance(result, End) and not isinstance(result.data.output, DeferredToolRequests):
            ending = await self._run.stop(text_of(runs.plain(result.data.output)))
            if ending.keep_going:
                self._next = ending.reason or "Go on."
                ctx.enqueue(self._next)
        return result

    # -- the model

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        if self._run.stopped is not None:
            raise runs.StoppedError(self._run.stopped)
        self._next, self._told = "", self._run.take_context()
        if self._told:
            parameters = request_context.model_request_parameters
            parts = [*(parameters.instruction_parts or []), InstructionPart(self._told, dynamic=True)]
            request_context.model_request_parameters = replace(parameters, instruction_parts=parts)
        return request_context

    async def on_model_request_error(self, ctx: RunContext[Any], *, request_context: Any, error: Exception) -> Any:
        if self._told:  # the model has not read it
            self._run.add_context(self._told)
        raise error

    # -- a tool

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return _GuardedToolset(toolset, self)

    async def call(self, toolset: AbstractToolset[Any], name: str, args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        """Run a call with hooks: a deny is a failure that the model reads, and costs no retry."""
        given, run = {key: runs.plain(value) for key, value in args.items()}, self._run
        attempt = runs.Attempt(
            lambda final: toolset.call_tool(name, args if final == given else _typed(ctx, tool, final), ctx, tool),
            passing=(ApprovalRequired, CallDeferred),
        )
        with self._being_judged(ctx):
            result = await runs.attempted(run, name, given, attempt, ctx.tool_call_id or "")
        if not attempt.began or result.is_error:
            raise ToolFailed(result.content)
        return _sayable(run.output_of(attempt, result)) if run.was_rewritten(result) else run.output_of(attempt, result)

    @contextmanager
    def _being_judged(self, ctx: RunContext[Any]) -> Iterator[None]:
        mark, ended = _called.set(ctx), asyncio.get_running_loop().create_future()
        self._under_way[ended] = asyncio.current_task()
        try:
            yield
        finally:
            _called.reset(mark)
            del self._under_way[ended]
            ended.set_result(None)

    async def _user_answer(self, question: Question) -> Any:
        """The user's answer: from the program's `ask`, or by an approval, for which the run is deferred."""
        if self._ask is not None:
            return await awaited(self._ask(question))
        if _called.get().tool_call_approved:
            return "once"
        about = {"reason": question.reason, "by": question.by, "tool_input": question.tool_input}
        raise runs.PassingError(ApprovalRequired(about))


@dataclass
class _GuardedToolset(WrapperToolset[Any]):
    """The tools of a run. All changes of a call come before this, so it has the final arguments."""

    capability: HookCapability

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        return await self.capability.call(self.wrapped, name, tool_args, ctx, tool)


def _typed(ctx: Any, tool: Any, given: dict[str, Any]) -> dict[str, Any]:
    """A rewritten input, validated for the tool."""
    try:
        typed: dict[str, Any] = tool.args_validator.validate_python(given, context=ctx.validation_context)
    except ValidationError as error:
        why = f"a hook rewrote the input of {tool.tool_def.name}, and the new input is not valid: {error}"
        raise ToolFailed(why) from error
    return typed


def _sayable(output: Any) -> Any:
    """A replaced output unchanged, or as text if the model could not read it."""
    try:
        to_jsonable_python(output, bytes_mode="base64")
    except ValueError:
        return runs.plain(output)
    return output


def _words(part: Any) -> str:
    """The text of a part of a prompt; of a part without text, its type or address."""
    words = part if isinstance(part, str) else getattr(part, "content", None)
    if isinstance(words, str):
        return words
    about = str(getattr(part, "url", "")).partition(",")[0] or getattr(part, "media_type", "") or type(part).__name__
    return f"[{getattr(part, 'kind', 'content')}: {about}]"
