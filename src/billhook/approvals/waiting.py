"""Wait until a person answers a question, in any process, or until its time is over."""

import asyncio
import time
from typing import Final

from billhook.approvals.queue import Questions, QueuedQuestion

_INTERVAL: Final = 0.05


async def wait(questions: Questions, question: QueuedQuestion, seconds: float) -> QueuedQuestion:
    """The question when it is answered; without an answer when the time is over. Raises StoreError."""
    ends, stamp = time.monotonic() + seconds, None
    await asyncio.sleep(0)  # a caller without a loop starts one now
    while not question.answer:
        now = questions.stamp()
        if now != stamp:
            stamp, question = now, questions.find(question.id) or question
        elif time.monotonic() >= ends:
            break
        else:
            await asyncio.sleep(min(_INTERVAL, max(0.0, ends - time.monotonic())))
    return question
