"""Damaged logs: a result or a clear error, never a crash."""

import random
from pathlib import Path

from billhook.core.errors import BillhookError
from cli.recorded import Recorded, a_night

ASKED = (
    ("--json",), ("--human",), ("--minimal", "--human"), (".", "--human"), ("--failed",), ("--last", "3"),
    ("--hook", "guard", "--human"), ("list", "--human"), ("search", "push", "--human"), ("show", "5", "--human"),
    ("show", "000005"), ("files", "--human"), ("verify", "--json"), ("export",),
)  # fmt: skip
JUNK = (
    b"\n", b"\x00" * 50, b"{", b"}", b'"', b"[" * 3000, b"\xff\xfe", b"null", b"1e999", b'"\n{"v":1,"seq":5,',
    b'"side":{"sha256":"' + b"a" * 64 + b'","bytes":1,"fields":["input"]},', b'"time":"soon",', b'"input":[[1]],',
    b'"outcomes":[{"hook":"guard","status":"odd"}],', b'"duration_ms":-1e300,', b'"reason":"\\ud800",',
)  # fmt: skip


def damaged(log: bytes, chance: random.Random) -> bytes:
    """The log with random insertions, deletions and moves."""
    for _ in range(chance.randint(1, 4)):
        at, to = sorted(chance.randrange(len(log)) for _ in range(2))
        kind = chance.randrange(4)
        if kind == 0:
            log = log[:at] + chance.choice(JUNK) + log[at:]
        elif kind == 1:
            log = log[:at] + log[min(to, at + 40) :]
        elif kind == 2:
            log = log[:at] + bytes([chance.randrange(256)]) + log[at + 1 :]
        else:
            start = log.find(b',"', at) + 1
            log = log[:start] + chance.choice(JUNK[-6:]) + log[start:]
    return log


def test_damaged_logs(tmp_path: Path) -> None:
    """Two hundred damaged logs, each with a query."""
    place = Recorded(tmp_path)
    a_night(place)
    sound = place.log.read_bytes()
    for seed in range(200):
        chance = random.Random(seed)
        place.log.write_bytes(damaged(sound, chance))
        try:
            code, _ = place.asked(*chance.choice(ASKED))
        except BillhookError:
            continue
        assert code in (0, 1), seed
