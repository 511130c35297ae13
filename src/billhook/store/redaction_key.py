"""The key of the digests that stand for what was redacted: `billhook/redaction.key`, 32 random bytes, made once."""

import functools
import os
import time
from pathlib import Path
from typing import Final

from billhook.store.files import StoreError, create_once, opened, read_in

KEY_BYTES: Final = 32


def key_file(root: Path) -> Path:
    """Where the key lies."""
    return root / "billhook" / "redaction.key"


def kept_key(root: Path) -> bytes:
    """The user's key, made if there is none: all who come at the same time get the same one. Raises StoreError."""
    path = key_file(root)
    found = _read(path, root)
    if found is None:
        create_once(path, os.urandom(KEY_BYTES), root=root)
    for _ in range(20):  # where there are no hard links, another process may be about to write it
        found = found or _read(path, root)
        if found:
            break
        time.sleep(0.005)
    if found is None or len(found) != KEY_BYTES:
        size = 0 if found is None else len(found)
        raise StoreError(f"it has {size} bytes and not {KEY_BYTES}", place=str(path), hint=f"remove it: rm {path}")
    return found


def _read(path: Path, root: Path) -> bytes | None:
    with opened(path.parent, root) as folder:
        return None if folder is None else read_in(folder, path, KEY_BYTES, private=True)


@functools.cache
def own_key() -> bytes:
    """A key that nobody but this process has."""
    return os.urandom(KEY_BYTES)
