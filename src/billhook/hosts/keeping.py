"""What `install` remembers, in the user's own state: the file as it was, and what has to be put back."""

import hashlib
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from billhook.agents.base import Agent, Scope
from billhook.errors import BillhookError
from billhook.store import files

_LARGEST: Final = 4 << 20
_RECORD: Final = "record.json"
_BEFORE: Final = "before"
_RESTORE: Final = "restore"
_YAML: Final = "hooks.yaml"


class Adopted(msgspec.Struct, frozen=True):
    """One handler that was moved into a hooks.yaml."""

    event: str  # what the agent calls it
    entry: dict[str, Any]  # what stood in the event's list: a group with this one handler, or the handler itself
    name: str  # What it is called in hooks.yaml


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """Where adopted handlers went."""

    file: str
    existed: bool
    after: str  # the hash of that file with them
    pieces: tuple[str, ...]  # the texts that were added
    handlers: tuple[Adopted, ...]
    made: tuple[str, ...] = ()


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One installation."""

    host: str
    scope: Scope
    file: str
    existed: bool  # whether there was a file before
    after: str  # the hash of the file with our entries
    made: tuple[str, ...] = ()  # folders that had to be made for it
    moved: Moved | None = None


def digest(data: bytes | None) -> str:
    return hashlib.sha256(data).hexdigest() if data is not None else ""


class Shelf:
    """The place of one agent's file in our state."""

    def __init__(self, root: Path, host: Agent, scope: Scope, file: str) -> None:
        key = hashlib.sha256(os.fsencode(file)).hexdigest()[:12]
        self.root, self.name = root, os.path.basename(file)
        self.folder = root / "billhook" / "installed" / f"{host.name}-{scope}-{key}"

    @property
    def backup(self) -> Path:
        """The file as it was right before it was changed."""
        return self.folder / f"{self.name}.{_BEFORE}"

    def kept(self) -> Kept | None:
        """What is remembered; None when nothing is, or it can't be believed."""
        data = files.read_bytes(self.folder / _RECORD, _LARGEST, root=self.root)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=Kept)
        except msgspec.MsgspecError:
            hint = f"remove {self.folder}; entries can then still be removed one by one"
            raise BillhookError(
                "the record of this installation is damaged", place=str(self.folder), hint=hint
            ) from None

    def restored(self) -> bytes | None:
        """The file as it shall be without us; None when that is not known."""
        return files.read_bytes(self.folder / _RESTORE, _LARGEST, root=self.root)

    def yaml(self) -> bytes | None:
        """The hooks.yaml as it was before handlers were moved there; None when there was none."""
        return files.read_bytes(self.folder / _YAML, _LARGEST, root=self.root)

    def keep(self, kept: Kept, before: bytes | None, restore: bytes | None) -> None:
        """Remember. Raises StoreError, and then nothing may be changed."""
        if before is not None:
            self._write(self.backup.name, before)
        if restore is not None:
            self._write(_RESTORE, restore)
        self._write(_RECORD, msgspec.json.format(msgspec.json.encode(kept)) + b"\n")

    def keep_yaml(self, before: bytes | None) -> None:
        if before is not None:
            self._write(_YAML, before)

    def forget(self) -> None:
        """Nothing has to be put back any more; the backup stays."""
        for name in (_RECORD, _RESTORE, _YAML):
            files.remove(self.folder / name, root=self.root)

    def _write(self, name: str, data: bytes) -> None:
        files.write_atomically(self.folder / name, data, root=self.root)
