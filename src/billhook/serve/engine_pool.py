"""Answers requests of many callers with engines that are kept warm.

An engine lives as long as the configuration it was made from is the same; `load_config` looks at every file for each
request. What depends on a caller (variables, folder) is told to the task that serves it (`billhook.core.client_env`).
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
from billhook.serve.hook_server import Answering, HookResponse

if TYPE_CHECKING:
    from billhook.config.config import Config
    from billhook.engine.engine import Engine

_QUICK: Final = hashlib, re2
"""Libraries that take long to load and are quick then: where they are loaded, digests and searches use them."""
_MOST_ENGINES: Final = 64
_MOST_ENVIRONMENTS: Final = 512
_LARGE: Final = 1 << 18  # bytes of an environment that is not kept
_MOST_WAITING: Final = 256  # sessions of one engine whose late answers are kept: some never come back


Observer = Callable[[Verdict, "Config", str], None]
"""Hears of every verdict, of the configuration and of who was served. Must not raise."""


class _PendingLoad:
    """Files that are being read for the callers from one place, who take turns afterwards in the order they came."""

    def __init__(self, task: "asyncio.Task[HookResponse | None]") -> None:
        self.task = task
        self.callers = 1

    async def turn(self, number: int) -> bool:
        """Wait for a caller's turn; whether it is the last so far. A caller that goes away ends nothing."""
        await asyncio.wait({self.task})
        return number == self.callers


class Served:
    """The engines and environments of a daemon. Lives as long as that."""

    def __init__(self) -> None:
        self._engines: dict[tuple[int, str, str], tuple[Config, Engine]] = {}
        self._environment = lru_cache(maxsize=_MOST_ENVIRONMENTS)(_environment)
        """The same object for the same bytes: what is worked out from it is found again by that."""
        self._loading: dict[tuple[bytes, str], _PendingLoad] = {}
        """By environment and folder. It stays until the last caller has begun: a new one must not overtake."""
        self.observers: list[Observer] = []

    def begin(self, asked: protocol.CallerRequest) -> HookResponse | Coroutine[Any, Any, HookResponse]:
        """What the caller's hook says, if no hook of anybody's has to be run for that; else what is to be awaited for
        it. Neither raises."""
        if self._loading and (loading := self._loading.get((asked.environ, asked.cwd))):
            loading.callers += 1
            return self._in_turn(loading, loading.callers, asked)
        return self._begin(asked)

    def _begin(self, asked: protocol.CallerRequest) -> HookResponse | Coroutine[Any, Any, HookResponse]:
        environment = self._environment if len(asked.environ) <= _LARGE else _environment
        whom = Caller(environment(asked.environ), asked.cwd)
        answering = self._answering(asked)
        answering.read_files = False
        with client_env.Serving(whom):
            try:
                heard = answering.prepare(asked.argv)
                if heard is not None:
                    return heard
                if answering.nobody_waits:
                    return answering.judge_at_once()
                return _rest(answering.judge, answering, whom)
            except NotLoadedError:
                answering = self._answering(asked)
                loading = _PendingLoad(asyncio.ensure_future(in_thread(lambda: answering.prepare(asked.argv))))
                self._loading[asked.environ, asked.cwd] = loading
                return _rest(lambda: self._once_loaded(loading, answering, asked), answering, whom)
            except Exception as error:
                return answering.crashed(error)

    def _answering(self, asked: protocol.CallerRequest) -> Answering:
        answering = Answering(lambda: asked.stdin, lambda config, event: self.fire(answering, config, event))
        return answering

    async def answer(self, asked: protocol.CallerRequest) -> HookResponse:
        """The same, waited for."""
        return await _waited_for(self.begin(asked))

    async def _in_turn(self, loading: _PendingLoad, number: int, asked: protocol.CallerRequest) -> HookResponse:
        await self._wait(loading, number, asked)
        return await _waited_for(self._begin(asked))

    async def _once_loaded(
        self, loading: _PendingLoad, answering: Answering, asked: protocol.CallerRequest
    ) -> HookResponse:
        """The answer where files have to be read first. A project that makes that slow keeps no other one waiting."""
        await self._wait(loading, 1, asked)
        return loading.task.result() or await answering.judge()

    async def _wait(self, loading: _PendingLoad, number: int, asked: protocol.CallerRequest) -> None:
        place = asked.environ, asked.cwd
        if await loading.turn(number) and self._loading.get(place) is loading:
            del self._loading[place]

    async def fire(self, answering: Answering, config: "Config", event: Event) -> Verdict:
        """Ask the hooks of a configuration, for whom this is being answered."""
        engine = self._engine(config, answering.host)
        if engine.background.answers or len(self._engines) > 1:
            self._bring_late_answers(event.session_id, engine)
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
        """Make room: those go of which nobody expects an answer any more, or else the oldest."""
        for key, (_, engine) in list(self._engines.items()):
            if not engine.background.answers and engine.background.settle(0.0):
                del self._engines[key]
        for key in list(self._engines)[: max(0, len(self._engines) - _MOST_ENGINES // 2)]:
            del self._engines[key]  # what still runs in it ends by itself

    def _bring_late_answers(self, session_id: str, to: "Engine") -> None:
        """A file may have changed since a hook was asked, and then another engine asked it."""
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
        """The configurations that callers are served by."""
        return [config for config, _ in self._engines.values()]

    @property
    def later(self) -> int:
        """How many engines have hooks that are still at work on a late answer."""
        return sum(not engine.background.settle(0.0) for _, engine in self._engines.values())


async def _waited_for(said: HookResponse | Awaitable[HookResponse]) -> HookResponse:
    return said if isinstance(said, HookResponse) else await said


async def _rest(answer: Callable[[], Awaitable[HookResponse]], answering: Answering, whom: Caller) -> HookResponse:
    with client_env.Serving(whom):
        try:
            return await answer()
        except Exception as error:
            return answering.crashed(error)


def _environment(environ: bytes) -> dict[str, str]:
    """A caller's variables, with the mark of everything that this daemon starts."""
    variables = protocol.variables(environ)
    marks = [variables.get(MARKER, ""), os.environ.get(MARKER, "")]
    return {**variables, MARKER: " ".join(filter(None, marks))} if marks[1] else variables
