"""Hundreds of hostile outputs through real processes: no exception escapes, and no complete deny is overlooked."""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from billhook import Engine, Hook, PreToolUse, Status, Verdict, command

EVENT = PreToolUse(tool_name="Bash", tool_input={"command": "ls"})
DENIES = [
    b'{"decision":"block","reason":"no"}',
    b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}',
    b'{"continue":false,"stopReason":"no"}',
    b'{"decision":"\\u0062lock","reason":"no"}',
]
OTHERS = [
    b"",
    b"plain text",
    b"{",
    b"}" * 50,
    b"[1,2",
    b"null",
    b'{"decision":"approve"}',
    b'{"decision":"approve","decision":"approve"}',
    b'{"continue":NaN}',
    b'{"a":1e999}',
    b'{"n":' + b"9" * 5000 + b"}",
    b"[" * 100_000,
    b'{"a":' * 20_000,
    b"\xff\xfe\x00",
    b"\xef\xbb\xbf{}",
    b"\x00" * 300,
    b"\x1b[2J\x1b]0;x\x07",
    '{"systemMessage":"\u202e\ud83d\ude00"}'.encode("utf-8", "surrogatepass"),
    b'{"systemMessage":"\\ud800"}',
    b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"command":"\\u0000"}}}',
    b'{"async":true}',
    b'{"async":true,"asyncTimeout":1e300}',
    b'{"hookSpecificOutput":[]}',
    b'{"decision":{"a":[]}}',
    b'{"":""}' * 500,
]
GLUE = [b"", b"\n", b" ", b"\r\n", b"\x00", b"banner\n", b"\xef\xbb\xbf", b"x" * 5000 + b"\n", b"}\n", b"\xc3"]


class Case(NamedTuple):
    """The output and exit code of a hook."""

    stdout: bytes
    code: int
    dialect: str
    denies: bool


def cases(number: int, seed: int) -> Iterator[Case]:
    """Documents combined from pieces, cut and mutated; the same for the same seed."""
    rng = random.Random(seed)
    for index in range(number):
        dialect = rng.choice(["claude", "claw", "claw-text", "lesson", "spec"])
        code = rng.choice([0, 0, 0, 1, 3, 127, 255])
        if dialect == "lesson" and code == 1:
            code = 0  # a deny alone
        kind = index % 4
        if kind == 0:  # a complete deny among other text
            text = rng.choice(GLUE) + rng.choice(DENIES) + rng.choice(GLUE) + rng.choice([b"", rng.choice(OTHERS)])
            yield Case(text, code, dialect, True)
        elif kind == 1:  # other text
            text = b"".join(rng.choice(GLUE) + rng.choice(OTHERS) for _ in range(rng.randrange(1, 4)))
            yield Case(text, code, dialect, False)
        elif kind == 2:  # a document with bytes changed or cut
            changed = bytearray(rng.choice([*DENIES, *OTHERS[:20]]))
            for _ in range(rng.randrange(1, 6)):
                if changed:
                    changed[rng.randrange(len(changed))] = rng.randrange(256)
            yield Case(bytes(changed[: rng.randrange(len(changed) + 1)]), code, dialect, False)
        else:  # noise
            yield Case(rng.randbytes(rng.randrange(3000)), code, dialect, False)


async def ask(case: Case, path: Path, slots: asyncio.Semaphore) -> Verdict:
    run = command(f"cat {path}; exit {case.code}", dialect=case.dialect, login="no")
    hook = Hook(name="hostile", run=run, dialect=case.dialect, timeout=60)
    async with slots:
        return await Engine([hook]).fire(EVENT)


@pytest.mark.parametrize(
    "number", [pytest.param(400, id="400"), pytest.param(10_000, id="10,000", marks=pytest.mark.slow)]
)
def test_hostile_outputs(number: int, tmp_path: Path) -> None:
    """No exception escapes, every outcome is valid, and a complete deny denies whatever surrounds it."""

    made = list(cases(number, seed=number))
    for n, case in enumerate(made):
        (tmp_path / str(n)).write_bytes(case.stdout)

    async def all_of_them() -> list[tuple[Case, Verdict]]:
        slots = asyncio.Semaphore(6)
        asked = (ask(case, tmp_path / str(n), slots) for n, case in enumerate(made))
        return list(zip(made, await asyncio.gather(*asked), strict=True))

    for case, verdict in asyncio.run(all_of_them()):
        (outcome,) = verdict.outcomes
        shown = (case, outcome)
        answered = (Status.OK, Status.BACKGROUND)
        assert outcome.status in (*answered, Status.FAILED, Status.COULD_NOT_START), shown
        if case.denies:
            assert verdict.denied, shown
        assert json.loads(verdict.to_json())["outcomes"][0]["hook"] == "hostile"
        assert outcome.failed_open == (outcome.status not in answered), shown
