"""Python functions as hooks: `@on` for functions of `(event)` or `(event, ctx)`, `from_matchers` for seed 001's map."""

import contextvars
import functools
import opcode
import os
import re
import threading
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

import msgspec

from billhook.core import drive
from billhook.core.answers import OnFailure, Reply, Status
from billhook.core.dialect_traits import meanings
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS, Event
from billhook.core.hook import Condition, Context, Handler, Hook, Source, event_name
from billhook.core.lazy import lazy_module

if TYPE_CHECKING:
    import asyncio
    import inspect

    from billhook.core import text
else:
    asyncio = lazy_module("asyncio")
    inspect = lazy_module("inspect")
    text = lazy_module("billhook.core.text")

T = TypeVar("T")

_SEND = opcode.opmap["SEND"]  # the opcode of every `await`, `async for` and `async with`


def callback(function: Callable[..., Any], *, thread: bool = False) -> Handler:
    """A function of `(event)`, `(event, ctx)` or `(ctx)`, sync or async, as a handler. `thread=True` runs it in a
    separate thread, where it can't block the loop; it is left behind when it times out.

    A single parameter is the event, unless its name is `ctx` or `context`. A second parameter is the context if it has
    no default, or one of these names. A parameter named `options` gets that key of the hook's file.
    """
    parameters = _positional(function)
    first, second = (*(one for one in parameters if one.name != "options"), None, None)[:2]
    handler: Handler = _EventFunction(function)
    if second is not None and (second.default is second.empty or second.name in _CONTEXT):
        handler = lambda ctx: function(ctx.event, ctx)
    elif first is not None and first.name in _CONTEXT:
        handler = function
    if any(one.name == "options" for one in _parameters(function)):
        handler = _with_options(function, [one for one in (first, second) if one is not None])
    return _Threaded(handler) if thread else handler


def _with_options(function: Callable[..., Any], parameters: "list[inspect.Parameter]") -> Handler:
    """A function that also takes `options`; its other parameters are the event and the context as usual."""
    needed = [one for one in parameters if one.default is one.empty or one.name in _CONTEXT]
    takes_context = [one.name in _CONTEXT or place > 0 for place, one in enumerate(needed)]

    def handler(ctx: Context) -> Any:
        return function(*(ctx if context else ctx.event for context in takes_context), options=ctx.options)

    return handler


_CONTEXT = ("ctx", "context")


class _EventFunction(msgspec.Struct, frozen=True):
    """A function of the event. The engine may call `of_event` directly, without the context."""

    of_event: Callable[[Event], Any]

    @property
    def never_waits(self) -> bool:
        return _never_waits(self.of_event)

    def __call__(self, ctx: Context) -> Any:
        return self.of_event(ctx.event)


def _never_waits(function: Callable[..., Any]) -> bool:
    """Whether it is an async function without an `await`; many are async only because an interface requires it."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType) or not code.co_flags & inspect.CO_COROUTINE:
        return False
    return _SEND not in code.co_code[::2]


def on(
    *events: type[Event] | str,
    match: str | None = None,
    condition: Condition | None = None,
    priority: int = 100,
    after: Iterable[str] = (),
    timeout: float | None = None,
    on_failure: OnFailure = "allow",
    thread: bool = False,
    background: bool = False,
    always: bool = False,
    name: str = "",
    title: str = "",
) -> Callable[[Callable[..., Any]], Hook]:
    """Make a hook from a function.

    @on(PreToolUse, match="Bash")
    def no_force_push(event):
        if "push --force" in event.tool_input["command"]:
            return deny("no force pushes")

    The function takes `(event)`, `(event, ctx)` or `(ctx)`, is sync or async, and returns an Answer, a dict as
    seed 001 or seed 002 print it, or nothing. Without an event here, the annotation of its first parameter names it.
    """

    if any(inspect.isroutine(event) for event in events):
        raise UsageError("@on takes events, not the function", hint="@on(PreToolUse), or @on()")

    def decorate(function: Callable[..., Any]) -> Hook:
        return Hook(
            name=name or _name_of(function).replace("_", "-"),
            title=title,
            run=callback(function, thread=thread),
            events=events or _annotated(function),  # type: ignore[arg-type]  # a Hook converts them to names
            match=match,
            condition=condition,
            priority=priority,
            after=(after,) if isinstance(after, str) else tuple(after),
            timeout=timeout,
            on_failure=on_failure,
            background=background,
            always=always,
            source=_place(function),
        )

    return decorate


def from_matchers(
    config: Mapping[str, Sequence[Any]], *, dialect: Literal["spec", "claude"] = "spec", thread: bool = False
) -> list[Hook]:
    """Seed 001's map from event to matcher groups, whose callbacks take `(input, tool_use_id, context)`.

    A group is a dict or an object with `matcher`, `hooks`, `timeout` and `on_failure`, such as the Agent SDK's
    HookMatcher. Only `continue: false` ends the run. `thread=True` runs each synchronous callback in a separate thread.
    In `spec` the hooks of a group share its timeout; in `claude` each has it, and a callback that times out on
    PreToolUse or on a prompt blocks, as in the SDK.
    """
    hooks = []
    shared = meanings(dialect).shared_timeout
    for event, groups in config.items():
        name = event_name(event)
        if not isinstance(groups, Sequence) or isinstance(groups, str):
            raise UsageError(f"{event} has no list of matcher groups", hint='{"PreToolUse": [{"hooks": [check]}]}')
        for g, group in enumerate(groups):
            get = (
                _fields_of(group, f"{event}[{g}]") if isinstance(group, Mapping) else functools.partial(getattr, group)
            )
            functions = get("hooks", None)
            if not isinstance(functions, Sequence) or isinstance(functions, str):
                raise UsageError(f"{event}[{g}] has no list of `hooks`", hint='{"matcher": "Bash", "hooks": [check]}')
            on_failure: Any = get("on_failure", None) or "allow"
            for h, function in enumerate(functions):
                hooks.append(
                    Hook(
                        name=f"{_name_of(function)}@{name}[{g}][{h}]",
                        run=_sdk_handler(function, name, dialect == "claude", on_failure in ("block", "deny"), thread),
                        events=(name,),
                        match=get("matcher", None) or None,
                        timeout=get("timeout", None) or None,
                        on_failure=on_failure,
                        always=True,
                        dialect=dialect,
                        budget=f"{name}[{g}]" if shared else "",
                        source=_place(function),
                    )
                )
    return hooks


def _fields_of(group: Mapping[str, Any], place: str) -> Callable[[str, Any], Any]:
    """The fields of a group; a misspelt field must not switch a guard off."""
    known = {"matcher": "matcher", "hooks": "hooks", "timeout": "timeout", "on_failure": "on_failure"}
    spelt = known | {"onFailure": "on_failure"}
    for key in group:
        if key not in spelt:
            raise UsageError(f"{place} has an unknown field `{key}`", hint=text.suggestion(str(key), known))
    return {spelt[key]: value for key, value in group.items()}.get


class _SdkCallback(msgspec.Struct, frozen=True):
    """A callback with the Agent SDK's signature."""

    function: Callable[..., Any]
    event_name: str
    sdk: bool  # the SDK's rules apply, not only its signature
    blocks: bool  # `on_failure="block"`: then even None is not an answer, as in the SDK
    blocks_on_timeout: ClassVar[frozenset[str]] = frozenset({"PreToolUse", "UserPromptSubmit", "UserPromptExpansion"})

    @property
    def on_timeout(self) -> OnFailure | None:
        return "deny" if self.sdk and self.event_name in self.blocks_on_timeout else None

    @property
    def never_waits(self) -> bool:
        return not (self.sdk and self.blocks) and _never_waits(self.function)

    def __call__(self, ctx: Context) -> Any:
        return self.of_event(ctx.event)

    def of_event(self, event: Event) -> Any:
        given = _copied(event.payload)
        returned = self.function(given, given.get("tool_use_id") or None, {"signal": None})
        return _insisting(returned) if self.sdk and self.blocks else returned


def _sdk_handler(function: Callable[..., Any], event: str, sdk: bool, blocks: bool, thread: bool) -> Handler:
    handler = _SdkCallback(function, event, sdk, blocks)
    if not thread or inspect.iscoroutinefunction(_plain(function)):
        return handler
    return _Threaded(handler, handler.on_timeout)


async def _insisting(returned: Any) -> Any:
    value = await returned if inspect.isawaitable(returned) else returned
    return Reply(status=Status.FAILED, error="returned None; {} means no opinion") if value is None else value


def _copied(value: Any) -> Any:
    """A callback may change its arguments; the event stays unchanged."""
    if type(value) is dict:
        return {key: _copied(one) if type(one) in _NESTED else one for key, one in value.items()}
    return [_copied(one) for one in value] if type(value) is list else value


_NESTED = (dict, list)


class _Threaded(msgspec.Struct, frozen=True):
    """A function that runs in a separate thread: if it hangs, it must not occupy a pool that others wait for."""

    run: Handler
    on_timeout: OnFailure | None = None

    async def __call__(self, ctx: Context) -> Any:
        return await in_thread(lambda: self._finished(ctx))

    def _finished(self, ctx: Context) -> Any:
        result = self.run(ctx)
        return drive.run(result) if inspect.iscoroutine(result) else result


async def in_thread(work: Callable[[], T]) -> T:
    """The return value of a function in a separate thread, which is left behind when the caller is cancelled."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if not answered.done():  # it may have timed out
            answered.set_result((result, error))

    def run() -> None:
        result, failure = None, None
        try:
            result = context.run(work)
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            pass  # the loop is closed, and its caller is gone

    threading.Thread(target=run, name="billhook-hook", daemon=True).start()
    result, error = await answered
    if error is not None:
        raise error
    return cast("T", result)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside a partial, a wrapper or a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    return function if inspect.isroutine(function) else type(function).__call__


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)


def _parameters(function: Callable[..., Any]) -> "list[inspect.Parameter]":
    try:
        return [*inspect.signature(function).parameters.values()]
    except ValueError:  # some functions written in C have no signature
        return []


def _positional(function: Callable[..., Any]) -> "list[inspect.Parameter]":
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one for one in _parameters(function) if one.kind in kinds]


def _annotated(function: Callable[..., Any]) -> tuple[type[Event] | str, ...]:
    """The events that the first parameter's annotation names: `event: PreToolUse | PostToolUse`."""
    hint = next((one.annotation for one in _positional(function)), None)
    if isinstance(hint, str):
        hint = _resolved(hint, getattr(_plain(function), "__globals__", {}))
    options = typing.get_args(hint) or (hint,)
    found = tuple(one for one in options if isinstance(one, type) and issubclass(one, Event))
    if not found:
        name = _name_of(function)
        raise UsageError(f"`{name}` names no event", hint="@on(PreToolUse), or annotate its event")
    return () if Event in found else found


def _resolved(text: str, names: dict[str, Any]) -> Any:
    """The value of an annotation that is a string, as with `from __future__ import annotations`."""
    try:
        return typing.get_type_hints(types.SimpleNamespace(__annotations__={"event": text}), names)["event"]
    except Exception:  # it names something that exists only inside a function: look for our events in the text
        known = [EVENTS[word] for word in re.findall(r"\w+", text) if word in EVENTS]
        return typing.Union[tuple(known)] if known else None  # noqa: UP007 - made from a list


def _place(function: Callable[..., Any]) -> Source:
    code = getattr(_plain(function), "__code__", None)
    if code is None:
        return Source()
    return Source(file=_near(code.co_filename), line=code.co_firstlineno)


def _near(path: str) -> str:
    try:
        here = os.getcwd() + os.sep
    except OSError:
        return path
    return path.removeprefix(here)
