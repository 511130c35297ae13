"""Exports the heads of logs at intervals, in a thread of its own: a share that hangs must not delay a verdict."""

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from billhook.core.errors import BillhookError
from billhook.serve import server_log
from billhook.store.files import log_folder
from billhook.store.log import verify

if TYPE_CHECKING:
    from billhook.config.config import Config


class HeadExports:
    """When the head of each log was exported last. Lives as long as the daemon."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, Path], float] = {}
        self._running: dict[str, threading.Thread] = {}
        self._problems: dict[str, str] = {}

    def tick(self, configs: Iterable["Config"], *, now: bool = False) -> None:
        """Begin what is due; with `now`, everything."""
        for config in configs:
            options = {} if config.recording is None else config.recording.options
            target, folder = options.get("export_head_to", ""), log_folder(Path(config.root), config.project)
            last = self._last.get((target, folder), 0.0)
            if target and (now or time.monotonic() - last >= options["export_head_every"]):
                self._begin(target, folder, Path(config.root))

    def _begin(self, target: str, folder: Path, root: Path) -> None:
        running = self._running.get(target)
        if running is not None and running.is_alive():
            return
        self._last[target, folder] = time.monotonic()
        thread = threading.Thread(target=self._export, args=(target, folder, root), daemon=True)
        self._running[target] = thread
        thread.start()

    def _export(self, target: str, folder: Path, root: Path) -> None:
        problem = ""
        try:
            verify.export(Path(target), folder, root)
        except BillhookError as error:
            problem = f"{error.place}: {error.message}"
        except OSError as error:
            problem = f"{target}: {error.strerror or error}"
        if problem and self._problems.get(target) != problem:
            server_log.log.warning("no head was exported: %s", problem)
        self._problems[target] = problem

    def wait(self, seconds: float) -> None:
        """Give those that run a moment to end."""
        end = time.monotonic() + seconds
        for thread in list(self._running.values()):
            thread.join(max(0.0, end - time.monotonic()))
