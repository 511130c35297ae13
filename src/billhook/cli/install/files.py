"""Agents' files on disk: read whole, replaced whole, through the links that dotfile managers make."""

import errno
import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from billhook.agents.base import Agent, Scope
from billhook.config import sources
from billhook.config.nodes import MAX_BYTES
from billhook.core.errors import BillhookError
from billhook.store import files

_NEW: Final = {"user": 0o600, "project": 0o666}
"""The mode of a new file: the user's own is nobody else's business; a project's is as the umask has it."""


def behind(file: str, scope: Scope, project: str) -> str:
    """The file that is really written: links are followed, out of a project they are not. Raises BillhookError."""
    real = os.path.realpath(file)
    if scope == "project" and not real.startswith(os.path.join(os.path.realpath(project), "")):
        hint = "replace the link by a file of the project"
        raise BillhookError(f"it leads out of the project, to {real}", place=file, hint=hint)
    if os.path.islink(file) and not os.path.isdir(os.path.dirname(real)):
        raise BillhookError(
            f"it is a link to {real}, which is not there", place=file, hint="mend the link, or remove it"
        )
    return real


def content(real: str) -> bytes | None:
    """What is in a file; None when there is none. Raises BillhookError for what can't be read."""
    try:
        data = sources.read_bytes(real, MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _explained("read", real, error) from error
    if len(data) > MAX_BYTES:
        raise BillhookError(f"more than {MAX_BYTES:,} bytes", place=real, hint="this is no settings file")
    return data


def replace(real: str, data: bytes, scope: Scope, expected: bytes | None) -> list[str]:
    """Put `data` in the place of `expected`, all at once, with the same mode; the folders that had to be made.

    Raises BillhookError, and then nothing was changed.
    """
    if content(real) != expected:
        hint = "run it again"
        raise BillhookError("it was changed while it was being looked at; nothing was written", place=real, hint=hint)
    made: list[str] = []
    try:
        made = _folders(os.path.dirname(real), scope)
        _write(real, data, scope)
    except OSError as error:
        unmake(made)
        raise _explained("write", real, error) from error
    return made


def _write(real: str, data: bytes, scope: Scope) -> None:
    folder, name = os.path.split(real)
    draft = os.path.join(folder, f".{name}.{os.urandom(6).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _NEW[scope])
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            _as_before(real, descriptor)
            os.fsync(descriptor)
        os.rename(draft, real)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    _sync(folder)


def _as_before(real: str, descriptor: int) -> None:
    """Mode and owner of the file that is there."""
    with suppress(FileNotFoundError):
        found = os.stat(real)
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
        mine = os.fstat(descriptor)
        if (found.st_uid, found.st_gid) != (mine.st_uid, mine.st_gid):
            with suppress(OSError):  # only root may give files away
                os.fchown(descriptor, found.st_uid, found.st_gid)


def _folders(folder: str, scope: Scope) -> list[str]:
    """Make the folders that are missing; those, the outermost first."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    made = list(reversed(missing))
    for one in made:
        os.mkdir(one, 0o700 if scope == "user" else 0o777)
    return made


def remove(real: str, expected: bytes | None, made: list[str]) -> None:
    """Remove a file, and the folders that were made for it and are empty. Raises BillhookError."""
    if content(real) != expected:
        raise BillhookError("it was changed while it was being looked at", place=real, hint="run it again")
    try:
        os.unlink(real)
        _sync(os.path.dirname(real))
    except OSError as error:
        raise _explained("remove", real, error) from error
    unmake(made)


def unmake(made: list[str]) -> None:
    """Remove folders that are empty, the innermost first."""
    for folder in reversed(made):
        with suppress(OSError):
            os.rmdir(folder)


def _sync(folder: str) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _explained(doing: str, real: str, error: OSError) -> BillhookError:
    hint = _HINTS.get(error.errno or 0, "look at the permissions of the file and of its folder")
    return BillhookError(f"can't {doing} it: {error.strerror or error}", place=real, hint=hint)


_HINTS: Final = {
    errno.ENOSPC: "make room on that disk",
    errno.EROFS: "that disk is read-only: edit the file where it comes from",
    errno.ENOTDIR: "a file lies where a folder is needed: move it away",
    errno.EBUSY: "the file is mounted on its own; edit it where it comes from",
    errno.ELOOP: "the links go in a circle: mend them",
}


# What `install` remembers, in the user's own state:


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
