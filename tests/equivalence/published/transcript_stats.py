#!/usr/bin/env python3
"""SessionEnd: what the session did, as a Markdown report."""

import collections
import datetime as dt
import itertools
import json
import statistics
import sys
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    kind: str
    when: dt.datetime
    tools: tuple

    @classmethod
    def read(cls, text):
        data = json.loads(text)
        content = data.get("message", {}).get("content", [])
        tools = tuple(part["name"] for part in content if isinstance(part, dict) and part.get("type") == "tool_use")
        return cls(data["type"], dt.datetime.fromisoformat(data["timestamp"]), tools)


def read(path):
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                yield Line.read(text)
            except (ValueError, KeyError) as error:
                print(f"line {number}: {type(error).__name__}", file=sys.stderr)


def report(lines):
    tools = collections.Counter(itertools.chain.from_iterable(line.tools for line in lines))
    gaps = [(b.when - a.when).total_seconds() for a, b in zip(lines, lines[1:])]
    yield f"# {lines[0].when:%d %B %Y}"
    yield f"{len(lines)} lines, {lines[-1].when - lines[0].when}"
    yield f"pauses: median {statistics.median(gaps):.1f} s, longest {max(gaps):.1f} s"
    for kind, group in itertools.groupby(sorted(line.kind for line in lines)):
        yield f"- {kind}: {len(list(group))}"
    for tool, count in tools.most_common():
        yield f"| {tool} | {count} |"


event = json.load(sys.stdin)
lines = list(read(event["transcript_path"]))
assert len(lines) > 1, "an empty session"
text = "\n".join(report(lines))
Path("report.md").write_text(text)
print(text)
