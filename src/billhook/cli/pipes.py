"""Standard streams as an agent hands them to its hook: read and written whole, whatever kind of pipe they are."""

import os
from collections.abc import Iterable

from billhook.answering.saying import lines_for_people

_SILENCE = 0.5  # seconds without a word after which a whole document counts as all that comes


def all_of(descriptor: int) -> bytes:
    """Everything up to the end; or up to a whole document, for agents that leave the pipe open."""
    data = bytearray()
    while True:
        looks_whole = data[-64:].rstrip().endswith(b"}")
        if looks_whole and not _ready(descriptor, _SILENCE) and _is_whole(bytes(data)):
            return bytes(data)
        try:
            part = os.read(descriptor, 1 << 20)
        except BlockingIOError:
            _ready(descriptor, None)
            continue
        if not part:
            return bytes(data)
        data += part


def _ready(descriptor: int, seconds: float | None) -> bool:
    """Whether there is something to read within so long, the end included."""
    import select

    if os.name == "nt":  # there only sockets can be waited for
        return True
    return bool(select.select([descriptor], [], [], seconds)[0])


def _is_whole(data: bytes) -> bool:
    from billhook import strictjson
    from billhook.errors import StrictJSONError

    try:
        return isinstance(strictjson.loads_leniently(data, max_depth=400), dict)
    except StrictJSONError:
        return False


def put(descriptor: int, data: bytes) -> bool:
    """Write everything; False when it can't be written."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # an agent's pipe may be set up so
            import select

            select.select([], [descriptor], [])
        except OSError:
            return False
    return True


def tell(lines: Iterable[str]) -> None:
    """Lines for whoever reads stderr."""
    put(2, lines_for_people(lines))


def hang_up() -> None:
    """Let whoever reads stdout go on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
