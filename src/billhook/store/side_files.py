"""Side files: what is too long for a line of the event log lies in a file of its own, named by its digest."""

import os
import stat
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from billhook.core import strictjson
from billhook.core.lazy import pattern
from billhook.store import files
from billhook.store.digest import sha256
from billhook.store.files import StoreError
from billhook.store.log.record import LARGE_FIELDS, LARGEST_LINE, ROOM, Side

LARGEST_BODY: Final = LARGEST_LINE - ROOM  # bytes of an encoded record that fits into a line
LARGEST_SIDE: Final = 1 << 30
_STAY: Final = frozenset({"id", "time", "mono", "event"})  # without these a line is no record
_OLD: Final = 3600  # seconds after which a file that is still called temporary was left by a writer that died
_LOOK_AT: Final = 2000  # names in the folder that are looked at for that: a process may write one side file and end
_swept: Final[set[Path]] = set()
_SIDE_ROOM: Final = 400  # bytes that `side` takes in the line


def side_path(folder: Path, sha256: str) -> Path:
    """Where the side file of this digest lies, for the log in `folder`."""
    return folder / "large" / f"{sha256}.json"


def moved(content: Mapping[str, Any], keep: Callable[[str, bytes], None]) -> bytes:
    """The encoded record without its largest fields, which are handed to `keep` with their digest as one JSON object.

    Only as many go as must for the line to fit: of those that are meant for it first, then of all but the few that a
    record can't do without.
    """
    encoded = {name: strictjson.encode(value) for name, value in content.items()}
    gone = _too_many(encoded)
    data = _object({name: encoded[name] for name in encoded if name in gone})
    digest = sha256(data).hexdigest()
    keep(digest, data)
    side = Side(digest, len(data), tuple(name for name in encoded if name in gone))
    stay = {name: value for name, value in encoded.items() if name not in gone}
    return _object({**stay, "side": strictjson.encode(side)})


def write_side(folder: Path, root: Path, sha256: str, data: bytes, *, sync: bool) -> None:
    """Keep a side file: whole or not at all. Raises StoreError.

    The first time in a process, what writers that died left half written there is removed.
    """
    if folder not in _swept:
        if len(_swept) > 100:
            _swept.clear()
        _swept.add(folder)
        _sweep(side_path(folder, sha256).parent, root)
    files.write_atomically(side_path(folder, sha256), data, root=root, durable=sync)


def read_side(folder: Path, root: Path, side: Side) -> bytes | None:
    """The bytes of a side file; None when it is missing or not what the line says it is. Raises StoreError."""
    path = side_path(folder, side.sha256)
    try:
        found = os.stat(path, follow_symlinks=False)
    except (OSError, ValueError):
        found = None
    if found is not None and stat.S_ISREG(found.st_mode) and found.st_size > side.bytes:
        return None  # it was added to, which need not be read to know that
    data = files.read_bytes(path, min(side.bytes, LARGEST_SIDE), root=root)
    if data is None or len(data) != side.bytes or sha256(data).hexdigest() != side.sha256:
        return None
    return data


def _sweep(folder: Path, root: Path) -> None:
    """Remove temporary files of ours that nobody has been writing for an hour. Whatever goes wrong, it can wait."""
    try:
        with files.opened(folder, root) as opened:
            if opened is None:
                return
            with os.scandir(opened) as entries:
                old = [one.name for one in islice(entries, _LOOK_AT) if _is_left_behind(one)]
            for name in old:
                os.unlink(name, dir_fd=opened)
    except (OSError, files.StoreError):
        pass


def _is_left_behind(entry: "os.DirEntry[str]") -> bool:
    rest = entry.name.removeprefix(files.TEMPORARY)
    if rest == entry.name or len(rest) != 16 or not entry.is_file(follow_symlinks=False):
        return False
    found = entry.stat(follow_symlinks=False)
    return found.st_uid == os.geteuid() and found.st_mtime < time.time() - _OLD


def _too_many(encoded: Mapping[str, bytes]) -> frozenset[str]:
    total = sum(len(name) + len(value) + 4 for name, value in encoded.items()) + _SIDE_ROOM
    gone: set[str] = set()
    for name in sorted(encoded, key=lambda name: (name not in LARGE_FIELDS, -len(encoded[name]))):
        if total > LARGEST_BODY and name not in _STAY:
            gone.add(name)
            total -= len(encoded[name])
    return frozenset(gone)


def _object(encoded: Mapping[str, bytes]) -> bytes:
    return b"{%b}" % b",".join(strictjson.encode(name) + b":" + value for name, value in encoded.items())


# Where configurations are kept that records name by their hash, and whether one is still what it was.


LARGEST_SNAPSHOT: Final = 64 << 20
_HASH: Final = pattern(r"[0-9a-f]{64}")


def snapshot_path(root: Path, hash: str) -> Path:  # noqa: A002 (the word that records use)
    """The file of the configuration that has this hash."""
    return root / "billhook" / "configs" / f"{hash}.json"


def is_hash(text: object) -> bool:
    """Whether it could be the hash of a configuration."""
    return isinstance(text, str) and _HASH.fullmatch(text) is not None


def what_is_wrong(root: Path, hash: str) -> str:  # noqa: A002
    """What became of the configuration that has this hash; empty when it is there as it was. Never raises."""
    try:
        data = files.read_bytes(snapshot_path(root, hash), LARGEST_SNAPSHOT, root=root)
    except StoreError as error:
        return f"can't be read: {error.message}"
    if data is None:
        return "is missing"
    return "" if sha256(data).hexdigest() == hash else "was changed"
