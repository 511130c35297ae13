"""Where the daemon of a user and a state root lies: a folder that only they can enter."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from billhook.store.files import private_folder

SOCKET: Final = "s"
_LONGEST: Final = 100
"""Bytes of a path that every system takes for a socket."""


def folder_of(root: Path) -> Path:
    """The daemon's folder below a state root."""
    return root / "billhook" / "daemon"


def made(root: Path) -> Path:
    """The folder, made where it is missing: 0700, ours, no link. Raises StoreError."""
    folder = folder_of(root)
    private_folder(folder, root=root)
    folder.chmod(0o700)
    return folder


@contextmanager
def reachable(folder: Path) -> Iterator[str]:
    """A path of the socket that the system takes, however long the folder's is."""
    path = str(folder / SOCKET)
    if len(os.fsencode(path)) <= _LONGEST or not os.path.isdir("/proc/self/fd"):
        yield path
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def connect(folder: Path, seconds: float) -> socket.socket:
    """A connection to the daemon. Raises OSError when none answers."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(seconds)
        with reachable(folder) as path:
            connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection
