"""Times as users type and read them. Records are in UTC; users see local time."""

import re
import time as system_time
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any, TypeVar

import click

from billhook.core.errors import UsageError
from billhook.core.text import age

Verb = TypeVar("Verb", bound=Callable[..., Any])

_SPELLINGS = (
    "s sec second seconds", "m min minute minutes", "h hour hours", "d day days", "w week weeks"
)  # fmt: skip
_LENGTHS = {word: words.split()[-1] for words in _SPELLINGS for word in words.split()}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([a-z]+)\s*")
_AGO = re.compile(rf"(?:{_PART.pattern})+(?:ago)?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?")
_HINT = "as in 1h, 30m, 2d, 1w, 22:00, yesterday, 2026-03-01 or 2026-03-01T22:00"


def option(*names: str, end: bool, **settings: Any) -> Callable[[Verb], Verb]:
    """An option whose value is a time, converted to the format of records. `end`: a day alone means its end."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        return None if value is None else written(moment(value, param.opts[0], end=end))

    return click.option(*names, metavar="TIME", callback=read, **settings)


def moment(text: str, option: str, *, end: bool = False, now: datetime | None = None) -> datetime:
    """Parses a time: ISO 8601 (local time unless it has a zone), a time of day, or how long ago."""
    now = now or datetime.now().astimezone()
    words = text.strip().lower()
    try:
        found = _day(words, now, end) or _clock(words, now) or _ago(words, now)
        found = found or datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None:
        raise UsageError(f"{option} `{text}` is not a time", hint=_HINT)
    return found


def seconds_of(text: str, option: str) -> float:
    """Parses a length of time: `10m`, `1h30m`."""
    now = datetime.now().astimezone()
    found = _ago(text.strip().lower(), now)
    if found is None:
        raise UsageError(f"{option} `{text}` is not a length of time", hint="as in 10m or 1h")
    return (now - found).total_seconds()


def written(when: datetime) -> str:
    """The format of `Record.time`."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def local(text: str) -> datetime | None:
    """A record's time as local time; None if it is not a time."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def _formatted(form: str, room: int) -> Callable[[str], str]:
    """Formats times of records. Of a string that is not a time, the first `room` characters are shown."""

    def shown(text: str) -> str:
        when = local(text)
        return when.strftime(form) if when else text[:room]

    return shown


clock = _formatted("%H:%M:%S", 8)
day = _formatted("%Y-%m-%d", 0)
minute = _formatted("%Y-%m-%d %H:%M", 16)
shown_time = _formatted("%Y-%m-%d %H:%M:%S", 40)


def _day(words: str, now: datetime, end: bool) -> datetime | None:
    if words == "now":
        return now
    if words in ("today", "yesterday"):
        date = now.date() - timedelta(days=words == "yesterday")
    elif _DAY.fullmatch(words):
        date = datetime.fromisoformat(words).date()
    else:
        return None
    return datetime.combine(date, time.max if end else time.min).astimezone()


def _clock(words: str, now: datetime) -> datetime | None:
    """The last time that a clock showed this time of day."""
    if not _CLOCK.fullmatch(words):
        return None
    found = datetime.combine(now.date(), time.fromisoformat(words.rjust(5, "0"))).astimezone()
    return found if found <= now else (found.replace(tzinfo=None) - timedelta(days=1)).astimezone()


def _ago(words: str, now: datetime) -> datetime | None:
    if not _AGO.fullmatch(words):
        return None
    parts = _PART.findall(words.removesuffix("ago").strip())
    if any(unit not in _LENGTHS for _, unit in parts):
        return None
    return now - sum((timedelta(**{_LENGTHS[unit]: float(number)}) for number, unit in parts), timedelta())


# Times of records, relative to now:
_MONTH = 31 * 86400


def ago(text: str, now: float | None = None) -> str:
    """`3 min ago`; after a month, the date."""
    when = local(text)
    if when is None:
        return f"at {text[:40]}"
    seconds = (system_time.time() if now is None else now) - when.timestamp()
    return age(seconds) if seconds < _MONTH else f"on {when:%Y-%m-%d}"


def midnight(now: datetime | None = None) -> str:
    """The start of this day in local time, in the format of records."""
    today = (now or datetime.now()).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    return written(today.astimezone())
