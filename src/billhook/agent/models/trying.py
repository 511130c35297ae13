"""Asking again for an answer that broke off. An SDK tries again until an answer begins; what ends it later is ours.

Nothing of such an answer was used, so that asking again is safe: at most a person has read its beginning.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from itertools import count
from typing import Final

from billhook.agent.model import Completion, Model, ModelError, Request, Say
from billhook.agent.models.wire import Answer

PASSING: Final = frozenset({"overloaded", "rate_limit", "server_error"})  # faults that may be over in a moment
AGAIN: Final = 3  # how often an answer is asked for again of which something was said
_FIRST, _LONGEST = 0.5, 8.0

Stream = Callable[[Request, Answer], AsyncGenerator[str, None]]
"""Asks a service: gives the texts of its answer as they come, and puts all of it into an `Answer`."""


class BrokeOffError(ModelError):
    """An answer ended after something of it was said, by a fault that may pass. It can be asked for again, but whoever
    heard its beginning has to be told."""


async def answered(stream: Stream, request: Request, say: Say, *, service: str, retries: int) -> Completion:
    """A service's answer. One that breaks off before anything of it was said is asked for again; raises BrokeOffError
    for one that breaks off later, and any other ModelError as it is."""
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
