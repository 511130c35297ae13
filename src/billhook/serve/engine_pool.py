"""Answers requests of many callers with cached engines.

An engine lives as long as its configuration is unchanged; `load_config` checks every file for each request. Variables
and folder of the caller are set for the task that serves it (`billhook.core.client_env`).
"""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Coroutine
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import re2

from billhook.config.loader import NotLoadedError
from billhook.core import client_env
from billhook.core.answers import Verdict
from billhook.core.client_env import Caller
from billhook.core.events import Event
from billhook.core.functions import in_thread
from billhook.runners.process_tree import MARKER
from billhook.serve import protocol
from billhook.serve.hook_server import HookResponse, HookServer

if TYPE_CHECKING:
    from billhook.config.config import Config
    from billhook.engine.engine import Engine

_QUICK: Final = hashlib, re2
"""Libraries that load slowly but run fast: digests and searches use them if they are loaded."""
_MOST_ENGINES: Final = 64
_MOST_ENVIRONMENTS: Final = 512
_LARGE: Final = 1 << 18  # bytes of an environment that is not kept
_MOST_WAITING: Final = 256  # sessions of one engine whose late answers are kept: some sessions never continue


Observer = Callable[[Verdict, "Config", str], None]
"""Called with every verdict, its configuration and the host. Must not raise."""


class _PendingLoad:
    """A configuration that is being loaded for the callers of one folder. They continue in the order of arrival."""

    def __init__(self, task: "asyncio.Task[HookResponse | None]") -> None:
        self.task = task
        self.callers = 1

    async def turn(self, number: int) -> bool:
        """Wait for a caller's turn: whether it is the last so far. A caller that disconnects cancels nothing."""
        await asyncio.wait({self.task})
        return number == self.callers


class EnginePool:
    """The engines and environments of a daemon. Lives as long as the daemon."""

    def __init__(self) -> None:
        self._engines: dict[tuple[int, str, str], tuple[Config, Engine]] = {}
        self._environment = lru_cache(maxsize=_MOST_ENVIRONMENTS)(_environment)
        """The same object for the same bytes, because caches use its identity."""
        self._loading: dict[tuple[bytes, str], _PendingLoad] = {}
        """By environment and folder. An entry stays until its last caller has begun: a new one must not overtake."""
        self.observers: list[Observer] = []

    def begin(
        self, asked: protocol.CallerRequest, process: Callable[[], int] = int
    ) -> HookResponse | Coroutine[Any, Any, HookResponse]:
        """The response, if it needs no waiting; otherwise a coroutine that returns it. Neither raises."""
        if self._loading and (loading := self._loading.get((asked.environ, asked.cwd))):
            loading.callers += 1
            return self._in_turn(loading, loading.callers, asked, process)
        return self._begin(asked, process)

    def _begin(
        self, asked: protocol.CallerRequest, process: Callable[[], int]
    ) -> HookResponse | Coroutine[Any, Any, HookResponse]:
        environment = self._environment if len(asked.environ) <= _LARGE else _environment
        whom = Caller(environment(asked.environ), asked.cwd, process)
        answering = self._answering(asked)
        answering.read_files = False
        with client_env.Serving(whom):
            try:
                response = answering.prepare(asked.argv)
                if response is not None:
                    return response
                if not answering.is_synchronous:
                    return _rest(answering.judge, answering, whom)
                said = answering.judge_at_once()
                if isinstance(said, HookResponse):
                    return said
                return _rest(lambda: asyncio.ensure_future(said), answering, whom)
            except NotLoadedError:
                answering = self._answering(asked)
                loading = _PendingLoad(asyncio.ensure_future(in_thread(lambda: answering.prepare(asked.argv))))
                self._loading[asked.environ, asked.cwd] = loading
                return _rest(lambda: self._once_loaded(loading, answering, asked), answering, whom)
            except Exception as error:
                return answering.crashed(error)

    def _answering(self, asked: protocol.CallerRequest) -> HookServer:
        answering = HookServer(lambda: asked.stdin, lambda config, event: self.fire(answering, config, event))
        return answering

    async def answer(self, asked: protocol.CallerRequest) -> HookResponse:
        """The response, awaited."""
        return await _waited_for(self.begin(asked))

    async def _in_turn(
        self, loading: _PendingLoad, number: int, asked: protocol.CallerRequest, process: Callable[[], int]
    ) -> HookResponse:
        await self._wait(loading, number, asked)
        return await _waited_for(self._begin(asked, process))

    async def _once_loaded(
        self, loading: _PendingLoad, answering: HookServer, asked: protocol.CallerRequest
    ) -> HookResponse:
        """The response if files have to be read first. A project whose files are slow does not delay others."""
        await self._wait(loading, 1, asked)
        return loading.task.result() or await answering.judge()

    async def _wait(self, loading: _PendingLoad, number: int, asked: protocol.CallerRequest) -> None:
        place = asked.environ, asked.cwd
        if await loading.turn(number) and self._loading.get(place) is loading:
            del self._loading[place]

    async def fire(self, answering: HookServer, config: "Config", event: Event) -> Verdict:
        """Run the hooks of a configuration for the caller that is being answered."""
        engine = self._engine(config, answering.host)
        if engine.background.answers or len(self._engines) > 1:
            self._move_late_answers(event.session_id, engine)
        verdict = await engine.fire(event, deadline=answering.arguments.seconds_for_hooks)
        for observer in self.observers:
            observer(verdict, config, answering.host)
        return verdict

    def _engine(self, config: "Config", host: str) -> "Engine":
        key = (id(config), host, client_env.environ().get("CLAUDE_PROJECT_DIR", ""))
        kept = self._engines.get(key)
        if kept is None or kept[0] is not config:
            if len(self._engines) >= _MOST_ENGINES:
                self._forget_engines()
            kept = self._engines[key] = config, config.engine(host=host)
        return kept[1]

    def _forget_engines(self) -> None:
        """Make room: remove engines without pending background answers, otherwise the oldest."""
        for key, (_, engine) in list(self._engines.items()):
            if not engine.background.answers and engine.background.settle(0.0):
                del self._engines[key]
        for key in list(self._engines)[: max(0, len(self._engines) - _MOST_ENGINES // 2)]:
            del self._engines[key]  # hooks that still run in it end by themselves

    def _move_late_answers(self, session_id: str, to: "Engine") -> None:
        """Move late answers to the current engine: after a change of a file, another engine started the hook."""
        for _, engine in self._engines.values():
            waiting = engine.background.answers
            if not waiting:
                continue
            if engine is not to and session_id in waiting:
                engine.background.hand_over(session_id, to.background)
            while len(waiting) > _MOST_WAITING:
                waiting.pop(next(iter(waiting)), None)

    @property
    def configs(self) -> list["Config"]:
        """The configurations in use."""
        return [config for config, _ in self._engines.values()]

    @property
    def busy_engines(self) -> int:
        """How many engines have hooks in the background that are still running."""
        return sum(not engine.background.settle(0.0) for _, engine in self._engines.values())


async def _waited_for(said: HookResponse | Awaitable[HookResponse]) -> HookResponse:
    return said if isinstance(said, HookResponse) else await said


async def _rest(answer: Callable[[], Awaitable[HookResponse]], answering: HookServer, whom: Caller) -> HookResponse:
    with client_env.Serving(whom):
        try:
            return await answer()
        except Exception as error:
            return answering.crashed(error)


def _environment(environ: bytes) -> dict[str, str]:
    """A caller's variables, with the marker of all processes that this daemon starts."""
    variables = protocol.variables(environ)
    marks = [variables.get(MARKER, ""), os.environ.get(MARKER, "")]
    return {**variables, MARKER: " ".join(filter(None, marks))} if marks[1] else variables
