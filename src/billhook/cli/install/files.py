"""Agents' files on disk, the path of billhook-hook, and the backups of `install`."""

import errno
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from billhook.agents import AGENTS
from billhook.agents.base import Agent, Scope
from billhook.cli.install.entries import NAME, PROGRAM, by_hand
from billhook.config import sources
from billhook.config.edit_json import Document, at_path
from billhook.config.nodes import MAX_BYTES
from billhook.core import client_env
from billhook.core.errors import BillhookError, UsageError
from billhook.store import files

ALSO_CALLS: Final = "also calls billhook"
_SWITCHES: Final = {"disableAllHooks": True, "hooksConfig.enabled": False, "tools.enableHooks": False}


def notes_about(file: str, document: Document, host: Agent) -> list[str]:
    """Notes on what the user should change in a file; `document` is the file without billhook's entries."""
    off = []
    for path, value in _SWITCHES.items():
        found = at_path(document, path.split("."))
        if found is not None and found.value is value:
            off.append(f"{file}:{found.line} disables all hooks (`{path}`): {host.title} will not call billhook")
    for path in ("hooksConfig.disabled", "hooks.disabled"):  # some agents can disable single hooks by name
        found = at_path(document, path.split("."))
        if host.named and found is not None and isinstance(found.value, tuple) and NAME in found.plain():
            off.append(f"{file}:{found.line} disables billhook's hooks (`{path}`): {host.title} will not call it")
    twice = by_hand(document, host)
    return [
        *off,
        *(f"{file}:{one.line} {ALSO_CALLS}, in an entry that `install` did not write; remove it" for one in twice),
        *(host.beside(file, sources.read_bytes) if host.beside else ()),
    ]


# The path of billhook-hook, and whether it is a lasting one.
_REMEDY: Final = "install it permanently (`uv tool install .` in a checkout of billhook, or pipx), and run that one"
_TEMPORARY: Final = "a temporary folder"
_SCRATCH: Final = ("/tmp", "/var/tmp", "/dev/shm", "/private/tmp", "/private/var/folders")
_CACHES: Final = (("UV_CACHE_DIR", ""), ("PIPX_HOME", ".cache"), ("XDG_CACHE_HOME", ""))


def on_path(program: str) -> str:
    """The path of a program on PATH; empty if it is not there."""
    return shutil.which(program, path=client_env.environ().get("PATH")) or ""


def named(program: str) -> str:
    """The program that the user chose, as an absolute path. Raises UsageError."""
    path = client_env.abspath(client_env.expanduser(program))
    if os.path.isdir(path):
        path = os.path.join(path, PROGRAM)
    if os.path.basename(path) != PROGRAM or not os.access(path, os.X_OK):
        hint = f"name an executable `{PROGRAM}`, or its folder"
        raise UsageError(f"`{program}` is not an executable {PROGRAM}", hint=hint)
    return path


def lasting() -> str:
    """A lasting absolute path of billhook-hook. Raises UsageError."""
    beside = os.path.join(os.path.dirname(sys.executable), PROGRAM)
    installed = on_path(PROGRAM)
    found = [path for path in (beside, installed and os.path.abspath(installed)) if path and os.access(path, os.X_OK)]
    if not found:
        raise UsageError(f"there is no `{PROGRAM}` next to {sys.executable}", hint=_REMEDY)
    stays = [path for path in found if not throw_away(path)]
    if not stays:
        raise UsageError(
            f"this billhook is in {throw_away(found[0])}: entries in your settings would soon point to a missing file",
            place=found[0],
            hint=f"{_REMEDY}; or name a permanent one with --program",
        )
    # The link on PATH outlives its target: a new version may be installed elsewhere.
    return stays[-1] if os.path.samefile(stays[0], stays[-1]) else stays[0]


def throw_away(path: str) -> str:
    """The kind of temporary place in which a program is, or to which it links; empty if there is none."""
    caches = [os.path.join(value, rest) for name, rest in _CACHES if (value := client_env.environ().get(name))]
    caches += [client_env.expanduser("~/.cache"), client_env.expanduser("~/Library/Caches")]
    for one in (path, os.path.realpath(path)):
        if any(_below(one, cache) for cache in caches) or "/.cache/" in one:
            return "a cache (of uvx, pipx run or a similar tool)"
        if any(_below(one, folder) for folder in (*_SCRATCH, tempfile.gettempdir())):
            return _TEMPORARY
    return ""


def soon_gone(path: str) -> str:
    """The kind of temporary place of a program that the user named; empty if the home folder is in one, too."""
    place = throw_away(path)
    return "" if place == _TEMPORARY == throw_away(client_env.expanduser("~")) else place


def _below(path: str, folder: str) -> bool:
    return path.startswith((os.path.join(folder, ""), os.path.join(os.path.realpath(folder), "")))


def of_a_project(path: str) -> str:
    """The virtual environment of a repository to which a program belongs; empty if there is none."""
    above = os.path.dirname(os.path.dirname(os.path.realpath(path)))
    marks = (os.path.join(above, "pyvenv.cfg"), os.path.join(os.path.dirname(above), ".git"))
    return above if all(map(os.path.exists, marks)) else ""


def agents_here(scope: Scope, project: str) -> dict[str, str]:
    """For every agent, the path that shows that it is used here; empty if there is none."""
    seen = {}
    for host in AGENTS.values():
        places = [os.path.normpath(os.path.join(host.home(), trace)) for trace in host.traces]
        places += [os.path.dirname(host.file(scope, project))] if scope == "project" else []
        seen[host.name] = on_path(host.program) or next(filter(os.path.exists, places), "")
    return seen


# Agents' files on disk:
_NEW: Final = {"user": 0o600, "project": 0o666}
"""The mode of a new file: private for the user's file; for a project's, the umask applies."""


def behind(file: str, scope: Scope, project: str) -> str:
    """The file that is written: links are followed, but not out of a project. Raises BillhookError."""
    real = os.path.realpath(file)
    if scope == "project" and not real.startswith(os.path.join(os.path.realpath(project), "")):
        hint = "replace the link with a file in the project"
        raise BillhookError(f"this link leads out of the project, to {real}", place=file, hint=hint)
    if os.path.islink(file) and not os.path.isdir(os.path.dirname(real)):
        hint = "fix or remove the link"
        raise BillhookError(f"this is a link to {real}, which does not exist", place=file, hint=hint)
    return real


def content(real: str) -> bytes | None:
    """The content of a file; None if it does not exist. Raises BillhookError if it can't be read."""
    try:
        data = sources.read_bytes(real, MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _explained("read", real, error) from error
    if len(data) > MAX_BYTES:
        raise BillhookError(
            f"the file has more than {MAX_BYTES:,} bytes", place=real, hint="this is not a settings file"
        )
    return data


def replace(real: str, data: bytes, scope: Scope, expected: bytes | None) -> list[str]:
    """Replace `expected` with `data` atomically, with the same mode; returns the folders that were created.

    Raises BillhookError; then nothing was changed.
    """
    if content(real) != expected:
        hint = "run it again"
        raise BillhookError("the file was changed by another process; nothing was written", place=real, hint=hint)
    folder, missing, made = os.path.dirname(real), list[str](), list[str]()
    while not os.path.isdir(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    try:
        for one in missing:
            os.mkdir(one, 0o700 if scope == "user" else 0o777)
            made.append(one)
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
            with suppress(FileNotFoundError):  # keep mode and owner of the existing file
                found, mine = os.stat(real), os.fstat(descriptor)
                os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
                with suppress(OSError):  # only root may give files away
                    if (found.st_uid, found.st_gid) != (mine.st_uid, mine.st_gid):
                        os.fchown(descriptor, found.st_uid, found.st_gid)
            os.fsync(descriptor)
        os.rename(draft, real)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    _sync(folder)


def remove(real: str, expected: bytes | None, made: list[str]) -> None:
    """Remove a file, and the folders that were created for it if they are empty. Raises BillhookError."""
    if content(real) != expected:
        raise BillhookError("the file was changed by another process", place=real, hint="run it again")
    try:
        os.unlink(real)
        _sync(os.path.dirname(real))
    except OSError as error:
        raise _explained("remove", real, error) from error
    unmake(made)


def unmake(made: list[str]) -> None:
    """Remove empty folders, the innermost first."""
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
    hint = _HINTS.get(error.errno or 0, "check the permissions of the file and of its folder")
    return BillhookError(f"can't {doing} the file: {error.strerror or error}", place=real, hint=hint)


_HINTS: Final = {
    errno.ENOSPC: "free some space on that disk",
    errno.EROFS: "that disk is read-only: edit the original of the file",
    errno.ENOTDIR: "there is a file where a folder is needed: move it away",
    errno.EBUSY: "the file is a mount point: edit the original",
    errno.ELOOP: "the links form a circle: fix them",
}


# The backups of `install`, in the user's state:
_LARGEST: Final = 4 << 20
_RECORD: Final = "record.json"
_BEFORE: Final = "before"
_RESTORE: Final = "restore"
_YAML: Final = "hooks.yaml"


class Adopted(msgspec.Struct, frozen=True):
    """One handler that was moved into a hooks.yaml."""

    event: str  # the agent's name of it
    entry: dict[str, Any]  # the item of the event's list: a group with this one handler, or the handler itself
    name: str  # its name in hooks.yaml


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks.yaml to which handlers were moved."""

    file: str
    existed: bool
    after: str  # the hash of that file after the move
    pieces: tuple[str, ...]  # the added texts
    handlers: tuple[Adopted, ...]
    made: tuple[str, ...] = ()


class InstallBackup(msgspec.Struct, frozen=True, kw_only=True):
    """One installation."""

    host: str
    scope: Scope
    file: str
    existed: bool  # whether the file existed before
    after: str  # the hash of the file with billhook's entries
    made: tuple[str, ...] = ()  # folders that were created for it
    moved: Moved | None = None


def digest(data: bytes | None) -> str:
    return hashlib.sha256(data).hexdigest() if data is not None else ""


class Shelf:
    """The backup of one agent's file, in a folder of the user's state."""

    def __init__(self, root: Path, host: Agent, scope: Scope, file: str) -> None:
        key = hashlib.sha256(os.fsencode(file)).hexdigest()[:12]
        self.root, self.name = root, os.path.basename(file)
        self.folder = root / "billhook" / "installed" / f"{host.name}-{scope}-{key}"

    @property
    def backup(self) -> Path:
        """The file just before the last change."""
        return self.folder / f"{self.name}.{_BEFORE}"

    def kept(self) -> InstallBackup | None:
        """The record of the installation; None if there is none. Raises BillhookError if it is damaged."""
        data = files.read_bytes(self.folder / _RECORD, _LARGEST, root=self.root)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=InstallBackup)
        except msgspec.MsgspecError:
            hint = f"remove {self.folder}; `billhook uninstall` then still removes the entries"
            message = "the record of this installation is damaged"
            raise BillhookError(message, place=str(self.folder), hint=hint) from None

    def restored(self) -> bytes | None:
        """The file without billhook's entries; None if that is unknown."""
        return files.read_bytes(self.folder / _RESTORE, _LARGEST, root=self.root)

    def yaml(self) -> bytes | None:
        """The hooks.yaml before handlers were moved there; None if there was none."""
        return files.read_bytes(self.folder / _YAML, _LARGEST, root=self.root)

    def keep(
        self, kept: InstallBackup, before: bytes | None = None, restore: bytes | None = None, yaml: bytes | None = None
    ) -> None:
        """Save the record and the given files. Raises StoreError; then nothing may be changed."""
        for name, data in ((self.backup.name, before), (_RESTORE, restore), (_YAML, yaml)):
            if data is not None:
                self._write(name, data)
        self._write(_RECORD, msgspec.json.format(msgspec.json.encode(kept)) + b"\n")

    def forget(self) -> None:
        """Remove what is only needed to restore the file; the backup stays."""
        for name in (_RECORD, _RESTORE, _YAML):
            files.remove(self.folder / name, root=self.root)

    def _write(self, name: str, data: bytes) -> None:
        files.write_atomically(self.folder / name, data, root=self.root)
