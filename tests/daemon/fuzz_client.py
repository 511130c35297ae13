"""Unusual replies and command lines for the client, each with the expected result.

`python tests/daemon/fuzz_client.py CLIENT [COUNT [SEED]]` runs it for any build of the client.
"""

import os
import random
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from daemon.fake_daemon import STARTED, FakeDaemon, answer, frame

COLD = "cold"
"""The output of the `billhook` beside the client."""
LIMIT = (16 << 20) + 9

Ending = tuple[int, bytes]
"""Exit code and stdout."""


def expected(reply: bytes) -> Ending:
    """What the protocol makes of a reply that ends with a close."""
    started, at = False, 0
    while at < len(reply):
        kind, head = reply[at : at + 1], reply[at + 1 : at + 5]
        if kind == b"N" and not started:
            return 0, COLD.encode()
        if kind not in (b"A", b"S") or (kind == b"S" and started):
            break
        started = True
        size = struct.unpack(">I", head)[0] if len(head) == 4 else LIMIT + 1
        at += 5
        if size > (LIMIT if kind == b"A" else 0):
            break
        if kind == b"A":
            return read_answer(reply[at : at + size], size)
    return (2, b"") if started else (0, COLD.encode())


def read_answer(body: bytes, size: int) -> Ending:
    if len(body) < size or size < 9:
        return 2, b""
    out = struct.unpack_from(">I", body, 1)[0]
    if out > size - 9 or struct.unpack_from(">I", body, 5 + out)[0] != size - 9 - out:
        return 2, b""
    return body[0], body[5 : 5 + out]


def strange_reply(dice: random.Random) -> bytes:
    """A reply that was right once, or never was."""
    parts = [
        STARTED,
        answer(dice.choice([0, 1, 2, 3, 255]), dice.randbytes(dice.choice([0, 1, 5, 300])), dice.randbytes(3)),
        frame(b"N", b"sorry"),
        frame(dice.choice([b"S", b"A", b"N", b"x", b"\0"]), dice.randbytes(dice.randrange(20))),
        dice.randbytes(dice.randrange(12)),
        b"A" + struct.pack(">I", dice.choice([0, 8, 9, LIMIT, LIMIT + 1, 2**31, 2**32 - 1])),
    ]
    usual = [STARTED, parts[1]]
    data = bytearray(b"".join(usual if dice.random() < 0.6 else dice.choices(parts, k=dice.randrange(5))))
    for _ in range(dice.choice([0, 0, 1, 1, 2, 8])):
        if data:
            data[dice.randrange(min(len(data), 20))] = dice.choice([0, 1, 4, 9, 0x41, 0x53, 0x7F, 0x80, 0xFF])
    return bytes(data[: dice.randrange(len(data) + 1)] if data and dice.random() < 0.3 else data)


WORDS = [b"--as", b"--as=", b"--as=lesson", b"--on-failure", b"--on-failure=allow", b"--deadline", b"--deadline=1"]
WORDS += [
    b"9" * 400,
    b"99999",
    b"--config",
    b"--config=",
    b"-",
    b"--",
    b"---",
    b"",
    b"=",
    b"\xff\xfe",
    b"Stop",
    b"beforeShellExecution",
    b"--as=copilot",
    b"--as=cursor",
    b"--as=universal",
    b"%s%n",
]
WORDS += [b"x" * 5000, b"--deadline=-1", b"claw", b"--asx", b"--helpx"]


def strange_words(dice: random.Random) -> list[bytes]:
    """A command line; no deadline in it is so short that it would pass."""
    words = dice.choices(WORDS, k=dice.randrange(dice.choice([3, 10, 80])))
    for at, word in enumerate(words):
        if word == b"--deadline=1" or (word == b"--deadline" and words[at + 1 :][:1] == [b"99999"]):
            words[at] = b"--deadline=60000"
    return words


STRANGE_EVENTS = [
    b"",
    b"{",
    b'"',
    b'{"',
    b'{"hook_event_name',
    b'{"hook_event_name"',
    b'{"hook_event_name":',
    b'{"hook_event_name":"',
    b'{"hook_event_name":"Stop',
    b'{"hook_event_name":"\\',
    b'{"hook_event_name":"' + b"x" * 101 + b'"}',
    b'{"hook_event_name":"' + b"x" * 100 + b'"}',
    b"}" * 100,
    b"\\" * 99,
    b'{"hook_event_name" \n:\t "PreToolUse"}',
]


class Target:
    """A client with a `billhook` beside it that only reports that it was run."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.folder = folder
        self.program = os.fsencode(folder / "billhook-hook")
        shutil.copy2(program, folder / "billhook-hook")
        (folder / "billhook").write_text(f"#!/bin/sh\nprintf {COLD}\n")
        (folder / "billhook").chmod(0o755)
        self.env = {b"BILLHOOK_HOME": os.fsencode(folder / "root"), b"BILLHOOK_NO_DAEMON": b"1", b"PATH": b"/bin"}
        self.env[b"ASAN_OPTIONS"] = b"exitcode=99:detect_leaks=0"
        self.env[b"UBSAN_OPTIONS"] = b"halt_on_error=1:exitcode=99"

    def run(self, words: list[bytes], stdin: bytes) -> tuple[int, bytes, bytes]:
        """Exit code, stdout and stderr; files, because nothing here is worth a thread."""
        read, write = os.pipe()
        os.write(write, stdin)
        os.close(write)
        out, err = (os.open(self.folder, os.O_TMPFILE | os.O_RDWR) for _ in range(2))
        moves = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((read, out, err))]
        pid = os.posix_spawn(self.program, [self.program, *words], self.env, file_actions=moves)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        reported = [os.pread(fd, 1 << 20, 0) for fd in (out, err)]
        for fd in (read, out, err):
            os.close(fd)
        return code, reported[0], reported[1]


def fuzz(program: Path, count: int, seed: int, tell: Callable[[str], None] = lambda line: None) -> None:
    """Raises AssertionError at the first reply or command line that the client does not take as it should."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="bh-") as name:
        folder = Path(name)
        target = Target(program, folder)
        with FakeDaemon(folder / "root") as daemon:
            for turn in range(count):
                reply, words = strange_reply(dice), strange_words(dice) if turn % 4 == 0 else []
                stdin = dice.choice(STRANGE_EVENTS) if not words else b""
                daemon.steps = [reply or b""]
                before = len(daemon.requests)
                code, out, err = target.run(words, stdin)
                about = f"seed {seed}, turn {turn}: {words} {stdin!r} {reply!r} gave {code} {out!r} {err!r}"
                assert code != 99 and code >= 0 and b"Sanitizer" not in err and b"runtime error" not in err, about
                check(reply, words, stdin, (code, out), about)
                sent = daemon.requests[before:]
                assert len(words) > 64 or (len(sent) == 1 and sent[0].arguments == words), about
                assert not daemon.broken, about
                if turn % 1000 == 999:
                    tell(f"{turn + 1} of {count}")


def check(reply: bytes, words: list[bytes], stdin: bytes, ending: Ending, about: str) -> None:
    """The answer unchanged, or the cold path, or a failure answer, by the protocol."""
    right = expected(reply) if len(words) <= 64 else (0, COLD.encode())
    if right == (2, b""):  # in the words of some dialect, or as a pass
        assert ending[0] in ((0, 1, 2) if words else (2,)), about
    else:
        assert ending == right, f"{about}; expected {right}"


if __name__ == "__main__":
    given = sys.argv[1:]
    number = int(given[1]) if len(given) > 1 else 2000
    fuzz(Path(given[0]), number, int(given[2]) if len(given) > 2 else 1, lambda line: print(line, flush=True))  # noqa: T201
