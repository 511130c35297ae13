"""Goals 10 to 12: an event inside the agent's own process, and the Python hooks that listen for it."""

import asyncio
import importlib
import sys
from collections.abc import AsyncGenerator, Callable
from typing import Any

from billhook import Engine, Event, Hook, PreToolUse, on
from harness import LOOPS, Bar, Case, Goal, Trial, awaited, looped

_EVENT = PreToolUse(tool_name="Bash", tool_input={"command": "ls"})
_TIMEOUT = 60.0


async def _empty(event: Event) -> None:
    """Takes the event, as `fire` does, and does nothing."""


async def no_listener() -> AsyncGenerator[Trial, None]:
    """The engine has hooks, but none for this event."""
    engine = Engine(_hooks(10, _silent_async, "PostToolUse", "Stop"))
    cases: dict[str, Case] = {
        "Engine.fire": awaited(engine.fire, _EVENT),
        "await of an empty coroutine": awaited(_empty, _EVENT),
    }
    yield Trial("0 handlers", cases, [Bar("Engine.fire", "await of an empty coroutine", 3)], LOOPS)


async def one_handler() -> AsyncGenerator[Trial, None]:
    """Every hook has a timeout: the peer pays for `asyncio.timeout`, the limit has none."""
    handler = _silent_async()

    async def bare(event: Event) -> object:
        return await handler(event)

    async def with_timeout(event: Event) -> object:
        async with asyncio.timeout(_TIMEOUT):
            return await handler(event)

    yield Trial(
        "1 async handler",
        {
            "Engine.fire": awaited(Engine(_hooks(1, _silent_async)).fire, _EVENT),
            "bare await": awaited(bare, _EVENT),
            "asyncio.timeout": awaited(with_timeout, _EVENT),
        },
        [
            Bar("Engine.fire", "bare await", 6),
            # asyncio.timeout costs less on newer Pythons, so that beating it means less.
            Bar("Engine.fire", "asyncio.timeout", 0.5 if sys.version_info >= (3, 13) else 0.3),
        ],
        LOOPS,
    )


async def ten_handlers() -> AsyncGenerator[Trial, None]:
    """Our engine and the gather catch errors, keep timeouts and have a result of each; the bare loop does not."""
    handlers = [_silent_async() for _ in range(10)]

    async def bare(event: Event) -> None:
        for handler in handlers:
            await handler(event)

    async def guarded(handler: Callable[[Event], Any], event: Event) -> object:
        async with asyncio.timeout(_TIMEOUT):
            return await handler(event)

    async def gathered(event: Event) -> list[object]:
        return await asyncio.gather(*[guarded(handler, event) for handler in handlers], return_exceptions=True)

    yield Trial(
        "10 async handlers",
        {
            "Engine.fire": awaited(Engine(_hooks(10, _silent_async)).fire, _EVENT),
            "bare sequential await": awaited(bare, _EVENT),
            "gather, a timeout each": awaited(gathered, _EVENT),
        },
        [Bar("Engine.fire", "bare sequential await", 6), Bar("Engine.fire", "gather, a timeout each", 0.15)],
        LOOPS,
    )
    yield Trial(
        "10 sync handlers",
        {
            "Engine.fire": awaited(Engine(_hooks(10, _silent)).fire, _EVENT),
            "pluggy": looped(_pluggy(10), _EVENT),
        },
        [Bar("Engine.fire", "pluggy", 1.25)],
        LOOPS,
    )


def _hooks(count: int, make: Callable[[], Callable[[Event], Any]], *events: str) -> list[Hook]:
    hook = on(*events or ("PreToolUse",), timeout=_TIMEOUT)
    return [hook(make()) for _ in range(count)]


def _silent() -> Callable[[Event], Any]:
    """A separate function for each hook. It returns nothing, as most hooks do most of the time."""

    def handler(event: Event) -> None:
        return None

    return handler


def _silent_async() -> Callable[[Event], Any]:
    async def handler(event: Event) -> None:
        return None

    return handler


def _pluggy(count: int) -> Callable[[Event], object]:
    """The same handlers as plugins. A plugin manager has no timeouts and catches no errors."""
    pluggy = importlib.import_module("pluggy")
    manager = pluggy.PluginManager("bench")
    mark = pluggy.HookimplMarker("bench")

    class Spec:
        @pluggy.HookspecMarker("bench")  # type: ignore[untyped-decorator]
        def fired(self, event: Event) -> None: ...

    manager.add_hookspecs(Spec)
    for _ in range(count):

        class Plugin:
            @mark  # type: ignore[untyped-decorator]
            def fired(self, event: Event) -> None:
                return None

        manager.register(Plugin())

    def fire(event: Event) -> object:
        return manager.hook.fired(event=event)

    return fire


GOALS = (
    Goal(10, "An event that no hook listens for", no_listener),
    Goal(11, "One async handler with a timeout", one_handler),
    Goal(12, "Ten handlers with results, errors and timeouts", ten_handlers, needs=("pluggy",)),
)
