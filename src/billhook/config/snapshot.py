"""A configuration as it was: kept once by its hash, so that a past decision can be explained under the rules of its
time."""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from billhook import strictjson
from billhook.config.options import filled
from billhook.errors import StrictJSONError
from billhook.store import files
from billhook.store.digest import sha256
from billhook.store.files import StoreError
from billhook.store.snapshots import LARGEST_SNAPSHOT, is_hash, snapshot_path

if TYPE_CHECKING:
    from billhook.config.loaded import Config
    from billhook.config.rows import Row

VERSION: Final = 1


class Snapshot:
    """One configuration, in the words of `billhook list --json`. Made once for each loaded configuration."""

    def __init__(self, config: "Config", redact: Callable[[Any], Any]) -> None:
        self._data = strictjson.encode(redact(content(config)))
        self.hash = sha256(self._data).hexdigest()
        self._root = Path(config.root)
        self._kept = False

    def keep(self) -> None:
        """Write it if it is missing or has another size. Raises StoreError, also for a link, a pipe or a folder."""
        if self._kept:
            return
        path, found = snapshot_path(self._root, self.hash), None
        with files.opened(path.parent, self._root, create=True) as folder, suppress(OSError):
            found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        # to read the file would cost every call; `billhook events verify` does
        if found is None or not stat.S_ISREG(found.st_mode) or found.st_size != len(self._data):
            files.write_atomically(path, self._data, root=self._root)
        self._kept = True


def kept(root: Path, hash: str) -> dict[str, Any] | None:  # noqa: A002 (the word that records use)
    """The configuration of that hash: `project`, `parallel`, `builtins`, and its `hooks` in running order; None when
    nobody kept it, or what is there is not that."""
    if not is_hash(hash):
        return None
    try:
        data = files.read_bytes(snapshot_path(root, hash), LARGEST_SNAPSHOT, root=root)
        if data is None or sha256(data).hexdigest() != hash:
            return None
        content = strictjson.loads(data, max_bytes=LARGEST_SNAPSHOT)
    except (StoreError, StrictJSONError):
        return None
    return content if isinstance(content, dict) else None


def content(config: "Config") -> dict[str, Any]:
    """What is kept of a configuration."""
    from billhook.config.rows import rows

    builtins = {
        name: {"enabled": one.enabled, "options": filled(name, one.options)} for name, one in config.builtins.items()
    }
    return {
        "v": VERSION,
        "project": config.project,
        "parallel": config.parallel,
        "builtins": builtins,
        "hooks": [as_data(row) for row in rows(config)],
    }


def as_data(row: "Row") -> dict[str, Any]:
    """A hook as JSON: what `billhook list --json` prints."""
    data = {key: getattr(row, _ATTRIBUTES.get(key, key)) for key in _KEYS.split()}
    data |= {key: data[key] or None for key in _OPTIONAL}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in data.items()}


_KEYS: Final = """
    name events what kind match if dialect on_failure priority after timeout background always
    trust state effect why layer source file line hash
"""
_ATTRIBUTES: Final = {"if": "when", "source": "place"}
_OPTIONAL: Final = ("if", "why", "file", "line", "hash")  # null where they say nothing
