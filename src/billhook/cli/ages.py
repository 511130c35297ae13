"""Times of records as people say them."""

import time
from datetime import datetime

from billhook.cli.events_times import local, written

_UNITS = (("min", 60, 60), ("h", 3600, 24), ("day", 86400, 31))
"""Each with its seconds, and up to how many of it are counted."""


def shown_time(text: str) -> str:
    """`2026-11-16 01:30:12`, in the user's zone."""
    when = local(text)
    return when.strftime("%Y-%m-%d %H:%M:%S") if when else text[:40]


def ago(text: str, now: float | None = None) -> str:
    """`3 min ago`; the day, for what is longer ago than a month."""
    when = local(text)
    if when is None:
        return f"at {text[:40]}"
    seconds = (time.time() if now is None else now) - when.timestamp()
    if seconds < 60:
        return "just now"
    for unit, length, most in _UNITS:
        number = int(seconds // length)
        if number < most:
            return f"{number} {unit}{'s' if unit == 'day' and number > 1 else ''} ago"
    return f"on {when:%Y-%m-%d}"


def midnight(now: datetime | None = None) -> str:
    """When this day began in the user's zone, as records have it."""
    today = (now or datetime.now()).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    return written(today.astimezone())
