"""Asking again for an answer that broke off. An SDK tries again until an answer begins; what ends it later is ours.

Nothing of such an answer was used, so that asking again is safe: at most a person has read its beginning.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from itertools import count
from typing import Any, ClassVar, Final

from billhook.agent.model import Completion, Model, ModelError, Request, Say
from billhook.agent.models.failures import failure
from billhook.agent.models.wire import Answer

PASSING: Final = frozenset({"overloaded", "rate_limit", "server_error"})  # faults that may be over in a moment
AGAIN: Final = 3  # how often an answer is asked for again of which something was said
_FIRST, _LONGEST = 0.5, 8.0

Stream = Callable[[Request, Answer], AsyncGenerator[str, None]]
"""Asks a service: gives the texts of its answer as they come, and puts all of it into an `Answer`."""


class BrokeOffError(ModelError):
    """An answer broke off after a part of it was shown. It can be asked for again; the person has to be told."""


async def answered(stream: Stream, request: Request, say: Say, *, service: str, retries: int) -> Completion:
    """A service's answer, asked for again until something of it was said; raises BrokeOffError after that."""
    for tried in count():
        answer, said = Answer(request), False
        try:
            async with aclosing(stream(request, answer)) as pieces:
                async for piece in pieces:
                    said = True
                    say(piece)
            return answer.completion(service)
        except ModelError as error:
            if not answer.begun or error.kind not in PASSING or (tried == retries and not said):
                raise
            if said:
                raise BrokeOffError(error.message, kind=error.kind, details=error.details, hint=error.hint) from None
        await asyncio.sleep(_pause(tried))
    raise AssertionError("counting does not end")


class Service:
    """A model behind an SDK of its own. Calls that fail for a while are tried again: by the SDK, and by `answered` once
    an answer has begun. A subclass gives `_open`, which starts a streamed call, and `_take`."""

    service: ClassVar[str]

    def __init__(self, model: str, key: str, client: Any, max_retries: int) -> None:
        self._model, self._key, self._client, self._retries = model, key, client, max_retries

    @property
    def name(self) -> str:
        return f"{self.service}:{self._model}"

    async def complete(self, request: Request, say: Say) -> Completion:
        return await answered(self._pieces, request, say, service=self.service, retries=self._retries)

    async def close(self) -> None:
        await self._client.close()

    async def _pieces(self, request: Request, answer: Answer) -> AsyncGenerator[str, None]:
        """The texts of the answer as they come; the rest goes into `answer`."""
        try:
            async with await self._open(request) as events:
                answer.begun = True
                async for event in events:
                    if piece := self._take(event, answer):
                        yield piece
        except Exception as error:
            raise failure(error, self.service, [self._key]) from None

    def _open(self, request: Request) -> Awaitable[Any]:
        raise NotImplementedError

    def _take(self, event: Any, answer: Answer) -> str:
        """Put one event into the answer; gives the text that it brought."""
        raise NotImplementedError


async def completed(model: Model, request: Request, say: Say, tell: Callable[[str], None]) -> Completion:
    """A model's answer, also when it broke off in the middle: then a person is told, and it is asked for again."""
    for tried in range(AGAIN):
        try:
            return await model.complete(request, say)
        except BrokeOffError as error:
            tell(f"{error.message}; what it said so far does not count, and it is asked again")
        await asyncio.sleep(_pause(tried))
    return await model.complete(request, say)


def _pause(tried: int) -> float:
    """Seconds to wait, as the SDKs do: twice as long each time, and never all clients at once."""
    return float(min(_FIRST * 2**tried, _LONGEST) * (1 - 0.25 * random.random()))
