"""Whether a person sees questions as they come: on an open page, or in a terminal with `billhook approvals --watch`.

Each of them holds a shared lock on one file. So one that ended, in whatever way, does not count.
"""

import os
from pathlib import Path
from typing import Final

from billhook.approvals.queue import KEY, KIND
from billhook.store.files import LockedError, LockFile, StoreError, locked
from billhook.store.state import FileState

_SECONDS: Final = 0.02  # others that check hold the lock for an instant, those that watch hold it as long as they do


def watcher(root: Path) -> LockFile:
    """What a process holds while its user sees new questions."""
    return LockFile(_path(root), root, shared=True)


def is_watched(root: Path) -> bool:
    """Whether some process shows new questions to a person."""
    path = _path(root)
    if not os.path.lexists(path):
        return False
    try:
        with locked(path, root=root, seconds=_SECONDS):
            return False
    except StoreError as error:
        return isinstance(error, LockedError)


def _path(root: Path) -> Path:
    return FileState(root).path(KIND, KEY).with_name("watched")
