"""An agent of a given size, for goal 9: starts hooks on request, and prints how long each took.

    python parent.py MEBIBYTES

Reads `fire` or `fork` with a number from stdin, one request a line, and prints the nanoseconds that it took.
"""

import asyncio
import sys

from harness import awaited, looped
from processes import KB, NOTHING, encoded, firing, fork_and_run, write_of

_PAGE = 4096


async def serve(mebibytes: int) -> None:
    ballast = bytearray(mebibytes << 20)
    ballast[::_PAGE] = b"x" * len(range(0, len(ballast), _PAGE))  # written to: only then it uses memory
    tool_input = write_of(KB)
    # A hook that does nothing: only its start is measured.
    cases = {"fire": awaited(firing(NOTHING), tool_input), "fork": looped(fork_and_run, encoded(tool_input))}
    for line in sys.stdin:
        word, count = line.split()
        print(await cases[word](int(count)), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
