"""How a daemon was started, for the one that takes its place.

A daemon may end without anybody having asked for that: an upgrade, a kill, its folder was moved. It is a client then
that starts the next one, and it knows of no options; but agents may have the HTTP address in their settings, and let
events pass when nobody listens there.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from billhook.store.files import StoreError, read_bytes, remove, write_atomically

FILE: Final = "options"
_LARGEST: Final = 4096


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of `billhook daemon run`."""

    idle_exit: float
    http: str = ""
    exposed: bool = False

    def words(self) -> list[str]:
        """As they are given on a command line."""
        http = ["--http", self.http] if self.http else []
        return [*http, *(["--exposed"] if self.exposed else []), "--idle-exit", f"{self.idle_exit:g}"]


def remember(folder: Path, options: Options) -> None:
    """Keep them in the daemon's folder. Where that is impossible it is no reason not to serve."""
    with suppress(StoreError):
        write_atomically(folder / FILE, msgspec.json.encode(options), root=folder, durable=False)


def forget(folder: Path) -> None:
    """What ends now was meant to end."""
    with suppress(StoreError):
        remove(folder / FILE, root=folder)


def recalled(folder: Path) -> Options | None:
    """The options of the last daemon here, unless it was meant to end."""
    try:
        found = read_bytes(folder / FILE, _LARGEST, root=folder)
        return None if found is None else msgspec.json.decode(found, type=Options)
    except (StoreError, msgspec.MsgspecError):
        return None  # nobody can say what was meant
