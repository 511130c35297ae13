"""Python functions as hooks: `@on` for functions of `(event)` or `(event, ctx)`, `from_matchers` for seed 001's map."""

import asyncio
import functools
import inspect
import os
import threading
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from billhook.answers import OnFailure, Reply, Status
from billhook.errors import UsageError
from billhook.events import Event
from billhook.hook import Condition, Context, Handler, Hook, Source
from billhook.meanings import meanings


def callback(function: Callable[..., Any], *, thread: bool = False) -> Handler:
    """A function of `(event)` or `(event, ctx)`, sync or async, as a handler. `thread=True` runs it in a thread of
    its own, where it can't hold up the loop; it is left behind when its time is over."""
    takes_context = len(_positional(function)) > 1
    if thread:
        return _threaded(function, takes_context)
    return _OfEventAndContext(function) if takes_context else _OfEvent(function)


class _OfEvent(msgspec.Struct, frozen=True):
    """A function of the event. The engine may call `of_event` without making a detour over the context."""

    of_event: Callable[[Event], Any]

    def __call__(self, ctx: Context) -> Any:
        return self.of_event(ctx.event)


class _OfEventAndContext(msgspec.Struct, frozen=True):
    """A function of the event and the context."""

    function: Callable[[Event, Context], Any]

    def __call__(self, ctx: Context) -> Any:
        return self.function(ctx.event, ctx)


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
    name: str = "",
    title: str = "",
) -> Callable[[Callable[..., Any]], Hook]:
    """Make a hook from a function.

    @on(PreToolUse, match="Bash")
    def no_force_push(event):
        if "push --force" in event.tool_input["command"]:
            return deny("no force pushes")

    The function takes `(event)` or `(event, ctx)`, is sync or async, and returns an Answer, a dict as seed 001 or seed
    002 print it, or nothing. Without an event here, the annotation of its first parameter says which it wants.
    """

    def decorate(function: Callable[..., Any]) -> Hook:
        wanted = events or _annotated(function)
        return Hook(
            name=name or getattr(function, "__name__", "hook").replace("_", "-"),
            title=title,
            run=callback(function, thread=thread),
            events=tuple(_event_name(event) for event in wanted),
            match=match,
            condition=condition,
            priority=priority,
            after=(after,) if isinstance(after, str) else tuple(after),
            timeout=timeout,
            on_failure=on_failure,
            background=background,
            source=_place(function),
        )

    return decorate


def from_matchers(config: Mapping[str, Sequence[Any]], *, dialect: Literal["spec", "claude"] = "spec") -> list[Hook]:
    """Seed 001's map from event to matcher groups, whose callbacks take `(input, tool_use_id, context)`.

    A group is a dict or an object with `matcher`, `hooks`, `timeout` and `on_failure`, such as the Agent SDK's
    HookMatcher. In `spec` the hooks of a group share its timeout; in `claude` each has it, and a callback that is
    late on PreToolUse or on a prompt blocks, as the SDK does.
    """
    hooks = []
    shared = meanings(dialect).shared_timeout
    for event, groups in config.items():
        for g, group in enumerate(groups):
            get = group.get if isinstance(group, Mapping) else functools.partial(getattr, group)
            timeout = get("timeout", None) or None
            for h, function in enumerate(get("hooks", None) or ()):
                hooks.append(
                    Hook(
                        name=f"{getattr(function, '__name__', 'callback')}@{event}[{g}][{h}]",
                        run=_SdkCallback(function, dialect, _event_name(event)),
                        events=(_event_name(event),),
                        match=get("matcher", None) or None,
                        timeout=timeout,
                        on_failure=_on_failure(get("on_failure", None)),
                        dialect=dialect,
                        budget=f"{event}[{g}]" if shared else "",
                        source=_place(function),
                    )
                )
    return hooks


class _SdkCallback(msgspec.Struct, frozen=True):
    """A callback with the Agent SDK's signature."""

    function: Callable[..., Any]
    dialect: str
    event_name: str
    blocks_when_late: ClassVar[frozenset[str]] = frozenset({"PreToolUse", "UserPromptSubmit", "UserPromptExpansion"})

    @property
    def keeps_time(self) -> bool:
        return self.dialect == "claude"

    def __call__(self, ctx: Context) -> Any:
        said = self.function(ctx.payload, ctx.payload.get("tool_use_id"), {"signal": None})
        if self.dialect == "claude" and self.event_name in self.blocks_when_late and inspect.isawaitable(said):
            return _blocking_when_late(said, ctx.seconds_left)
        return said


async def _blocking_when_late(said: Awaitable[Any], seconds: float) -> Any:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await said
    except TimeoutError:
        if not limit.expired():
            raise
        return Reply(status=Status.TIMED_OUT, error=f"no answer within {seconds:.3g} s", on_failure="deny")


def _threaded(function: Callable[..., Any], takes_context: bool) -> Handler:
    async def run(ctx: Context) -> Any:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Any] = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if answered.done():
                return  # its time was over
            if error is None:
                answered.set_result(result)
            else:
                answered.set_exception(error)

        def work() -> None:
            result, failure = None, None
            try:
                result = function(ctx.event, ctx) if takes_context else function(ctx.event)
                if inspect.iscoroutine(result):
                    result = asyncio.run(result)
            except BaseException as error:
                failure = (
                    RuntimeError(f"raised {type(error).__name__}: {error}")
                    if isinstance(error, StopIteration)
                    else error
                )
            try:
                loop.call_soon_threadsafe(settle, result, failure)
            except RuntimeError:
                pass  # the loop is gone, and with it whoever asked

        # A thread of its own: a hook that hangs must not use up a pool that others wait for.
        threading.Thread(target=work, name="billhook-hook", daemon=True).start()
        return await answered

    return run


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one for one in inspect.signature(function).parameters.values() if one.kind in kinds]


def _annotated(function: Callable[..., Any]) -> tuple[type[Event] | str, ...]:
    """The events that the first parameter's annotation names: `event: PreToolUse | PostToolUse`."""
    parameters = _positional(function)
    hint = typing.get_type_hints(function).get(parameters[0].name) if parameters else None
    options = typing.get_args(hint) or (hint,)
    found = tuple(one for one in options if isinstance(one, type) and issubclass(one, Event) and one is not Event)
    if not found and hint is not Event:
        name = getattr(function, "__name__", "the function")
        raise UsageError(f"`{name}` does not say which event it wants", hint="@on(PreToolUse), or annotate its event")
    return found


def _event_name(event: type[Event] | str) -> str:
    return event if isinstance(event, str) else event.__name__


def _on_failure(word: str | None) -> OnFailure:
    words: dict[str | None, OnFailure] = {
        None: "allow", "allow": "allow", "continue": "allow", "deny": "deny", "block": "deny", "ask": "ask"
    }  # fmt: skip
    if word not in words:
        raise UsageError(f"on_failure is `{word}`", hint="one of allow, deny (also spelt block), ask")
    return words[word]


def _place(function: Callable[..., Any]) -> Source:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return Source()
    return Source(
        file=os.path.relpath(code.co_filename) if _is_near(code.co_filename) else code.co_filename,
        line=code.co_firstlineno,
    )


def _is_near(path: str) -> bool:
    return path.startswith(os.getcwd() + os.sep)
