"""What a Python callback returned. Most return a record or nothing, for which no reader of JSON is needed."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from billhook.answers import Answer, Decision, Reply
from billhook.events import Block, Event
from billhook.later import later
from billhook.meanings import Meanings

if TYPE_CHECKING:
    from billhook.outputs import reading
else:
    reading = later("billhook.outputs.reading")


def read_returned(event: Event, value: object, meanings: Meanings) -> Reply:
    """Read what a Python callback returned: an Answer, a Reply, a dict of seed 001 or seed 002, or nothing."""
    if value is None:
        return Reply()
    if type(value) is Answer:  # quicker than isinstance, which asks the metaclass
        if value.decision is Decision.DENY and event.block is Block.KEEP_GOING:
            return Reply(answer=replace(value, decision=Decision.NONE, keep_going=True))  # a block of Stop
        return Reply(answer=value)
    return value if type(value) is Reply else reading.read_mapping(event, value, meanings)
