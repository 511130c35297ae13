"""Gives every event the id under which the log will have it. The record itself is written after the fold: a logger has
to know what later hooks said."""

from typing import Final

from billhook.answers import Answer
from billhook.hook import Hook, Source

NAME: Final = "event-logger"


def event_logger() -> Hook:
    """The built-in: `ctx.find("event-logger").data["id"]` is the record's id for every later hook."""
    return Hook(
        name=NAME,
        title="records every event in the log",
        run=lambda ctx: Answer(data={"id": ctx.id}),
        priority=50,
        dialect="spec",
        source=Source(layer="built-in"),
    )
