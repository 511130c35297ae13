"""Times as users type them."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from billhook.cli.times import moment, written
from billhook.core.errors import UsageError
from cli.recorded import Recorded

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 3, 1, 23, 30, 15, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h", 3600), ("30m", 1800), ("2d", 172_800), ("1w", 604_800), ("90s", 90), ("1h ago", 3600), ("1h30m", 5400),
        ("2 hours ago", 7200), ("1 day", 86_400), ("1.5h", 5400), ("1d 2h", 93_600), ("now", 0), ("10min", 600),
    ],
)  # fmt: skip
def test_how_long_ago(text: str, seconds: float) -> None:
    """Units in every spelling, also combined."""
    assert moment(text, "--since", now=NOW) == NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-03-01T21:00:00Z", "2026-03-01T21:00:00.000000Z"),
        ("2026-03-01 21:00+01:00", "2026-03-01T20:00:00.000000Z"),
        ("2026-03-01T21:00:00.123456Z", "2026-03-01T21:00:00.123456Z"),
        ("20260301T210000Z", "2026-03-01T21:00:00.000000Z"),
    ],
)
def test_with_a_zone(text: str, utc: str) -> None:
    """Exactly that time, in the format of records."""
    assert written(moment(text, "--since", now=NOW)) == utc


@pytest.mark.parametrize(
    "text",
    ["", " ", "x", "h", "1", "1x", "1h later", "-1h", "25:00", "2026-13-01", "99999999999w", "9" * 9 + "w",
     "9999-12-31T23:59:59-14:00", "٣h", "1h\x00"],
)  # fmt: skip
def test_invalid_times(text: str) -> None:
    """An error with examples; nothing overflows."""
    with pytest.raises(UsageError, match="is not a time"):
        moment(text, "--since", now=NOW)


def test_days_and_clocks() -> None:
    """A date means midnight, or the end of that day; a time of day means the last such time."""
    here = datetime.now().astimezone()
    assert moment("2026-03-01", "--since").strftime("%F %T") == "2026-03-01 00:00:00"
    assert moment("2026-03-01", "--until", end=True).strftime("%F %T.%f") == "2026-03-01 23:59:59.999999"
    assert moment("yesterday", "--since") < moment("today", "--since") <= here
    assert moment("today", "--until", end=True) >= here
    for clock in ("0:00", "00:00", "23:59:59", f"{here:%H:%M}"):
        assert here - timedelta(hours=26) < moment(clock, "--since", now=here) <= here


def test_the_zone_of_the_user(tmp_path: Path) -> None:
    """Times without a zone are in the user's zone, also in the table."""
    place = Recorded(tmp_path)
    place.add("Stop", time="2026-03-01T23:30:00.000000Z")

    east = "XYZ-3"
    assert " 02:30:00 " in place.run("--human", TZ=east).out
    assert "2026-03-02\n" in place.run("--human", TZ=east).out
    assert place.run("--since", "2026-03-02", TZ=east).out != ""
    assert place.run("--since", "2026-03-02", TZ="UTC").out == ""
