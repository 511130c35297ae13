"""The output of a run: a table for people, or one JSON object a line for a CI job."""

import json
import math
import os
import platform
from collections.abc import Sequence

from harness import Goal, Row

_LINE = "     {:<52} {:<30} {:>9} {:>9} {:>8}  {:>8}  {}"


def head() -> str:
    where = f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {load()} before"
    return f"{where}\n\n{_LINE.format('', 'against', 'ours', 'other', 'ratio', 'at most', '').rstrip()}"


def table(goal: Goal, rows: Sequence[Row]) -> str:
    lines = [f"{goal.number:>3}  {goal.title}"]
    for row in rows:
        times = (shown_time(row.ours_ns), shown_time(row.other_ns))
        word = "" if row.at_most == math.inf else "pass" if row.ok else "MISS"
        most = "-" if row.at_most == math.inf else number(row.at_most)
        lines.append(_LINE.format(row.name, row.against, *times, number(row.ratio), most, word).rstrip())
    return "\n".join(lines)


def foot(rows: Sequence[Row]) -> str:
    asked = [row for row in rows if row.at_most != math.inf]
    held = sum(row.ok for row in asked)
    return f"\nload average {load()} after\n{held} of {len(asked)} hold"


def json_lines(goal: Goal, rows: Sequence[Row]) -> str:
    return "\n".join(
        json.dumps(
            {
                "goal": goal.number,
                "name": row.name,
                "against": row.against,
                "ratio": round(row.ratio, 4),
                "at_most": None if row.at_most == math.inf else round(float(row.at_most), 4),
                "ok": row.ok,
            }
        )
        for row in rows
    )


def load() -> str:
    return " ".join(f"{one:.2f}" for one in os.getloadavg())


def number(value: float) -> str:
    return f"{value:.3f}"


def shown_time(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"
