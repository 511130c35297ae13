"""The user's approvals: one small file for each, in the user's state, never in the repository.

`{root}/billhook/approvals/{configuration file}/{hash}.json`. The name identifies what is approved, so two writers can't
conflict and no lock is needed: approving creates a file, revoking removes it. An approval stays valid until it is
revoked: switching branches does not invalidate it.
"""

import functools
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from billhook.core.lazy import lazy_module, pattern
from billhook.store import files
from billhook.store.files import StoreError, sha256

if TYPE_CHECKING:
    import json
else:
    json = lazy_module("json")

MAX_RECORD = 16 << 20
_HASH = pattern(r"[0-9a-f]{64}")
_FOLDER = pattern(r"[0-9a-f]{32}")


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """An approved hook, or the approved allow rules of a file."""

    hash: str
    file: str  # the configuration file, absolute
    name: str
    definition: dict[str, Any]
    gate: bool
    files: dict[str, str] = {}  # the SHA-256 of the files that it names, by absolute path; empty for a missing file
    beside: dict[str, str] = {}  # the same for code files that are covered because of their folder
    links: dict[str, str] = {}  # the real paths of those that are reached through links
    contents: dict[str, str] = {}
    """Their text as it was approved, to show later changes. Long and binary files are left out."""
    approved_at: str  # UTC, ISO 8601
    replaces: str = ""  # the hash of the approval before, if a change was approved
    how: str = ""  # how it was approved: `from a terminal`, for example
    covers: int = 1  # the version of the rule for covered files: earlier versions covered fewer files

    @property
    def covered(self) -> dict[str, str]:
        return {**self.files, **self.beside}

    @property
    def of_hook(self) -> bool:
        """Whether it approves a hook; otherwise it approves the permission rules of a file."""
        return "permissions" not in self.definition


class _DefinitionPart(msgspec.Struct):
    """The used fields of a definition; other versions may have more."""

    name: str = ""
    events: list[str] = []
    match: str | None = None
    dialect: str = ""
    rule: str | list[str] = msgspec.field(default="", name="if")


class Approvals:
    """The approvals below one state root. Keeps nothing in memory but `problems`."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.folder = self.root / "billhook" / "approvals"
        self.problems: list[str] = []  # invalid approvals that were ignored, each once

    def get(self, file: str, hash: str) -> Approval | None:  # noqa: A002 (the name of the record's field)
        """The record of an approval, if there is a valid one."""
        if not _HASH.fullmatch(hash):
            return None
        path = self._of(file)
        with self._trusted_folder(path) as folder:
            return None if folder is None else self._record(folder, path / f"{hash}.json")

    def of_file(self, file: str) -> list[Approval]:
        """The approvals for one configuration file, newest first."""
        return _newest_first(self._records(self._of(file)))

    def all(self) -> list[Approval]:
        """All approvals, newest first."""
        with self._trusted_folder(self.folder) as folder:
            names = [] if folder is None else sorted(os.listdir(folder))
        for name in names:
            if not _FOLDER.fullmatch(name):
                self._problem(f"{self.folder / name}: ignored, because it is not a folder of this user")
        found = (self._records(self.folder / name) for name in names if _FOLDER.fullmatch(name))
        return _newest_first(record for records in found for record in records)

    def add(self, approval: Approval) -> None:
        """Approve. Raises StoreError if it can't be saved, or would not be valid afterwards."""
        if not _HASH.fullmatch(approval.hash):
            raise StoreError(f"`{approval.hash}` is not the hash of a hook")
        path = self._of(approval.file) / f"{approval.hash}.json"
        # the standard library's, because a command may contain a lone surrogate, which msgspec rejects
        data = json.dumps(msgspec.to_builtins(approval), indent=1).encode("ascii") + b"\n"
        if len(data) > MAX_RECORD:
            hint = "move the command into a script"
            raise StoreError("the hook is too long for an approval", place=approval.file, hint=hint)
        files.write_atomically(path, data, root=self.root, private=True)

    def revoke(self, file: str, hash: str) -> bool:  # noqa: A002
        """Revoke an approval. False if there was none. Raises StoreError if it can't be removed."""
        if not _HASH.fullmatch(hash):
            return False
        return files.remove(self._of(file) / f"{hash}.json", root=self.root)

    def stamp(self, file: str) -> tuple[int, ...]:
        """A value for caches that changes with every approval for this file. Lists one folder and reads no file. The
        names are part of it, because two changes within one tick of the file system's clock have equal times."""
        path = self._of(file)
        with self._trusted_folder(path) as folder:
            if folder is None:
                return ()
            found = os.fstat(folder)
            names = "\n".join(sorted(name for name in os.listdir(folder) if not name.startswith(files.TEMPORARY)))
        listed = int(sha256(names.encode("utf-8", "surrogatepass")).hexdigest()[:16], 16)
        return (found.st_dev, found.st_ino, found.st_mode, found.st_mtime_ns, found.st_ctime_ns, listed)

    def way_to(self, file: str) -> tuple[str, ...]:
        """The folders between the root and the approvals for a file: only this user may write to them."""
        return str(self.folder.parent), str(self.folder), str(self._of(file))

    def listed(self, file: str) -> dict[str, int]:
        """The approved hashes for a configuration file, and when each record was written (ns). No record is read, so
        damaged ones are included."""
        with self._trusted_folder(self._of(file)) as folder:
            names = [] if folder is None else [name for name in os.listdir(folder) if _HASH.fullmatch(name[:-5])]
            return {name[:-5]: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns for name in names}

    def _of(self, file: str) -> Path:
        return self.folder / _folder_name(os.path.abspath(file))

    @contextmanager
    def _trusted_folder(self, path: Path) -> Iterator[int | None]:
        """An open folder of approvals; None if it is missing, or if other users can write to it."""
        with ExitStack() as stack:
            folder: int | None = None
            try:
                folder = stack.enter_context(files.opened(path, self.root, private=True))
            except StoreError as error:
                self._problem(f"{error.place}: {error.message}")
            yield folder

    def _records(self, path: Path) -> list[Approval]:
        with self._trusted_folder(path) as folder:
            if folder is None:
                return []
            names = [name for name in os.listdir(folder) if not name.startswith(files.TEMPORARY)]
            return [record for name in names if (record := self._record(folder, path / name))]

    def _record(self, folder: int, path: Path) -> Approval | None:
        """Read one record; None if it is missing, damaged, or does not match its name."""
        record = None
        try:
            data = files.read_in(folder, path, MAX_RECORD, private=True)
            record = None if data is None else _decoded(data)
        except StoreError as error:
            self._problem(f"{error.place}: {error.message}")
        except (ValueError, RecursionError) as error:
            self._problem(f"{path}: ignored, because the file is damaged: {error}")
        if record is None or (_HASH.fullmatch(record.hash) and path == self._of(record.file) / f"{record.hash}.json"):
            return record
        self._problem(f"{path}: ignored, because the content does not match the file's name")
        return None

    def _problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)


def _decoded(data: bytes) -> Approval:
    """Raises ValueError or RecursionError, also for a definition that billhook can't have written."""
    try:
        record = msgspec.json.decode(data, type=Approval)
    except (ValueError, RecursionError):  # the standard library accepts more, and its messages are better
        record = msgspec.convert(json.loads(data), Approval)
    msgspec.convert(record.definition, _DefinitionPart)
    return record


@functools.lru_cache(maxsize=64)
def _folder_name(file: str) -> str:
    return sha256(file.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _newest_first(records: Iterable[Approval]) -> list[Approval]:
    return sorted(records, key=lambda record: (record.approved_at, record.hash), reverse=True)
