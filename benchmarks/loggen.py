"""Make an event log of any size, with the same lines as the real writer: a valid chain and rotated files.

    python benchmarks/loggen.py FOLDER 1GB

FOLDER is the state root; the log is below it in `hooks/`. The same size makes the same log.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from billhook.core import strictjson
from billhook.store.files import log_folder
from billhook.store.log import note
from billhook.store.log.eventlog import CURRENT, make_line, rotated_name

PROJECT = "/srv/shop"
NEEDLE = "Grüße aus der Ablage 4711"
"""In one command of this many records; not only ASCII, so that the log contains it with escapes."""
NEEDLE_EVERY = 16_000
MAX_BYTES = 64 << 20
_UNITS = {"GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1}
_WORDS = ("git", "status", "diff", "commit", "run", "test", "build", "src", "main", "config", "parse", "read", "write",
          "line", "hook", "guard", "deny", "allow")  # fmt: skip
_TOOLS = ("Bash", "Read", "Edit", "Write", "Grep", "Glob", "WebFetch")
_BODIES = 2_000
"""Records that differ in more than their number: enough that no predictor learns them."""


def make_log(root: Path, size: int, *, max_bytes: int = MAX_BYTES) -> Path:
    """Write a log of about `size` bytes, rotated like a real one; returns its folder."""
    folder = log_folder(root, PROJECT)
    folder.mkdir(mode=0o700, parents=True)
    seq, written, prev = 1, 0, ""
    bodies = _bodies()
    while written < size:
        path = folder / CURRENT
        first = seq
        with path.open("wb", buffering=1 << 20) as file:
            most = min(max_bytes, size - written)
            seq, prev, length = _fill(file, bodies, seq, prev, most)
            written += length
            is_last = written >= size
            if not is_last:
                line, prev = make_line(seq, prev, note("rotated", "the file is full"))
                file.write(line)
                seq, written = seq + 1, written + len(line)
        if not is_last:
            path.rename(folder / rotated_name(first))
    return folder


def _fill(file: IO[bytes], bodies: Iterator[bytes], seq: int, prev: str, size: int) -> tuple[int, str, int]:
    length = 0
    while length < size:
        line, prev = make_line(seq, prev, next(bodies))
        file.write(line)
        length += len(line)
        seq += 1
    return seq, prev, length


def _bodies() -> Iterator[bytes]:
    """Encoded records without end, each with a new id and time."""
    chance = random.Random(4)
    made = [strictjson.encode(_record(chance)) for _ in range(_BODIES)]
    needle = strictjson.encode(_record(chance, NEEDLE))
    number = 0
    while True:
        number += 1
        body = needle if number % NEEDLE_EVERY == 100 else made[number % _BODIES]
        second = number // 10
        clock = b"%02d:%02d:%02d.%06d" % (second // 3600 % 24, second // 60 % 60, second % 60, number % 10 * 100_000)
        yield b'{"id":"%032x","time":"2026-01-%02dT%bZ",' % (number, 1 + second // 86400 % 28, clock) + body[1:]


def _record(chance: random.Random, needle: str = "") -> dict[str, Any]:
    tool = chance.choice(_TOOLS) if not needle else "Bash"
    session = f"{chance.randrange(40):08x}-5a17-4c1e-9d2b-3f0c8e6b7a91"
    words = " ".join(chance.choices(_WORDS, k=chance.randrange(8, 90)))
    return {
        "mono": round(chance.uniform(1, 90_000), 6),
        "event": chance.choice(("PreToolUse", "PostToolUse")) if not needle else "PreToolUse",
        "session_id": session,
        "session_name": "brave-otter",
        "turn_id": f"{session}:{chance.randrange(60)}",
        "tool": tool,
        "tool_use_id": f"toolu_{chance.randrange(10**12):012d}",
        "cwd": PROJECT,
        "project": PROJECT,
        "host": "claude",
        "decision": chance.choices(("none", "allow", "deny"), (90, 8, 2))[0],
        "stop": False,
        "keep_going": False,
        "failed_open": 0,
        "duration_ms": round(chance.uniform(0.1, 40), 3),
        "config": "",
        "redacted": 0,
        "reason": None,
        "input": {"command": f"{words} {needle}".strip(), "description": f"{chance.choice(_WORDS)} – café"},
        "outcomes": [_outcome(chance, name) for name in ("turn-tracker", "guard")],
        "not_asked": {"format": "did not match"},
    }


def _outcome(chance: random.Random, name: str) -> dict[str, Any]:
    shown = {"hook": name, "source": "hooks.yaml", "dialect": "spec", "status": "ok", "decision": "none"}
    return {**shown, "duration_ms": round(chance.uniform(0.01, 20), 3)}


def read_size(text: str) -> int:
    """`1GB`, `200MB`, `5000`."""
    unit = next((name for name in _UNITS if text.upper().endswith(name)), "")
    return int(float(text[: len(text) - len(unit)]) * _UNITS[unit or "B"])


if __name__ == "__main__":
    print(make_log(Path(sys.argv[1]), read_size(sys.argv[2])))
