"""Wait until a person answers a question, in any process, or until its time is over."""

import asyncio
import time
from pathlib import Path
from typing import Final

from billhook.approvals.queue import Questions, QueuedQuestion

_INTERVAL: Final = 0.05
_read: Final[dict[Path, tuple[tuple[int, ...], dict[str, QueuedQuestion]]]] = {}
"""By root: the questions as they were last read, with their stamp. All that wait in this process share them."""


async def wait(questions: Questions, question: QueuedQuestion, seconds: float) -> QueuedQuestion:
    """The question when it is answered; without an answer when the time is over. Raises StoreError."""
    ends = time.monotonic() + seconds
    while True:
        question = _known(questions).get(question.id, question)
        left = ends - time.monotonic()
        if question.answer or left <= 0:
            return question
        await asyncio.sleep(min(_INTERVAL, left))


def _known(questions: Questions) -> dict[str, QueuedQuestion]:
    stamp = questions.stamp()
    before, known = _read.get(questions.root, ((), {}))
    if stamp != before:
        known = {one.id: one for one in questions.all()}
        _read[questions.root] = stamp, known
    return known
