"""Which files a worker was made from, so that its owner can tell when one of them changes. Runs inside the worker."""

import os
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from typing import Any

from billhook.worker_wire import File, as_file

OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_INSTALLED = tuple(
    os.path.abspath(path) + os.sep
    for key, path in sysconfig.get_paths().items()
    if key in ("stdlib", "platstdlib", "purelib", "platlib")
)


class Files:
    """The files that were loaded and may change: modules that are not installed, and what they read in the project
    while they are imported. Each is looked at before it is read, so that no edit falls between."""

    def __init__(self) -> None:
        self.folder = ""
        self.loading = False
        self._new: dict[str, File] = {}
        self._seen: set[str] = set()
        look = SourceFileLoader.path_stats

        def path_stats(loader: SourceFileLoader, path: str) -> Mapping[str, Any]:
            if not os.path.abspath(path).startswith((OURS, *_INSTALLED)):
                self._note(path)
            return look(loader, path)

        SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign,assignment]
        sys.addaudithook(self._opened)

    def news(self) -> list[File]:
        new, self._new = list(self._new.values()), {}
        return new

    def _opened(self, happening: str, arguments: tuple[Any, ...]) -> None:
        if happening != "open" or not self.loading:
            return
        path, _, flags = arguments
        if not isinstance(path, str | bytes) or flags & (os.O_WRONLY | os.O_RDWR):
            return
        with suppress(OSError, ValueError):  # what is raised here would be raised by the module's own `open`
            full = os.path.abspath(os.fsdecode(path))
            if full.startswith(self.folder) and not full.startswith(_INSTALLED) and "__pycache__" not in full:
                self._note(full)

    def _note(self, path: str) -> None:
        full = os.path.abspath(path)
        if full not in self._seen:
            self._seen.add(full)
            # One that is not there when it is looked for may appear.
            self._new[full] = as_file(full) or (full, -1, 0, 0, 0)
