"""What the user approved: one small file for each approval, in the user's own state, never in the repository.

`{root}/billhook/approvals/{configuration file}/{hash}.json`. The name says what was approved, so two writers can't
disagree and no lock is needed: to approve is to create a file, to revoke is to remove it. What was once approved stays
approved: switching branches does not ask again.
"""

import functools
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from billhook.core.lazy import later, pattern
from billhook.store import files
from billhook.store.files import StoreError

if TYPE_CHECKING:
    import json
else:
    json = later("json")

MAX_RECORD = 16 << 20
_HASH = pattern(r"[0-9a-f]{64}")
_FOLDER = pattern(r"[0-9a-f]{32}")


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """One hook as it was approved, or the allow rules of a file."""

    hash: str
    file: str  # the configuration file, absolute
    name: str
    definition: dict[str, Any]
    gate: bool
    files: dict[str, str] = {}  # the files it names, by absolute path, and their SHA-256; empty where there was none
    beside: dict[str, str] = {}  # likewise the code files that count because of the folder that they are in
    links: dict[str, str] = {}  # where those of them lie that are reached through links
    contents: dict[str, str] = {}
    """Their text as it was approved, to show what changed since. Long and binary ones are left out."""
    approved_at: str  # UTC, ISO 8601
    replaces: str = ""  # the hash of what was approved in this one's place before, if it was a change that was approved
    how: str = ""  # how it was approved: `from a terminal`, for example
    covers: int = 1  # the rule by which files were covered: an approval by an earlier rule covered fewer

    @property
    def covered(self) -> dict[str, str]:
        """All files that count."""
        return {**self.files, **self.beside}

    @property
    def of_hook(self) -> bool:
        """It approves a hook; else the permission rules of a file."""
        return "permissions" not in self.definition


class _DefinitionPart(msgspec.Struct):
    """What of a definition is used; other versions may have more."""

    name: str = ""
    events: list[str] = []
    match: str | None = None
    dialect: str = ""
    rule: str | list[str] = msgspec.field(default="", name="if")


class Approvals:
    """The approvals under one state root. Lives as long as its maker likes: it keeps nothing but `problems`."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.folder = self.root / "billhook" / "approvals"
        self.problems: list[str] = []  # what was found there and not believed, each thing once

    def get(self, file: str, hash: str) -> Approval | None:  # noqa: A002 (the word that the record uses)
        """The record of an approval, if there is one that can be believed."""
        if not _HASH.fullmatch(hash):
            return None
        path = self._of(file)
        with self._believed(path) as folder:
            return None if folder is None else self._record(folder, path / f"{hash}.json")

    def of_file(self, file: str) -> list[Approval]:
        """What was approved for one configuration file, the newest first."""
        return _newest_first(self._records(self._of(file)))

    def all(self) -> list[Approval]:
        """Everything that was approved, the newest first."""
        with self._believed(self.folder) as folder:
            names = [] if folder is None else sorted(os.listdir(folder))
        for name in names:
            if not _FOLDER.fullmatch(name):
                self._problem(f"{self.folder / name}: not ours, ignored")
        found = (self._records(self.folder / name) for name in names if _FOLDER.fullmatch(name))
        return _newest_first(record for records in found for record in records)

    def add(self, approval: Approval) -> None:
        """Approve. Raises StoreError when it can't be kept, or would not be believed afterwards."""
        if not _HASH.fullmatch(approval.hash):
            raise StoreError(f"`{approval.hash}` is not the hash of a hook")
        path = self._of(approval.file) / f"{approval.hash}.json"
        # the standard library's, because a command may hold a lone surrogate, which msgspec refuses
        data = json.dumps(msgspec.to_builtins(approval), indent=1).encode("ascii") + b"\n"
        if len(data) > MAX_RECORD:
            raise StoreError("too long to be kept as approved", place=approval.file, hint="put it into a script")
        files.write_atomically(path, data, root=self.root, private=True)

    def revoke(self, file: str, hash: str) -> bool:  # noqa: A002
        """Take an approval back. False when there was none. Raises StoreError when it can't be removed."""
        if not _HASH.fullmatch(hash):
            return False
        return files.remove(self._of(file) / f"{hash}.json", root=self.root)

    def stamp(self, file: str) -> tuple[int, ...]:
        """Differs whenever something was approved or revoked for this file: for caches. One listing, nothing is read.

        The names are part of it, because two changes within one tick of the file system's clock leave the times alike.
        """
        path = self._of(file)
        with self._believed(path) as folder:
            if folder is None:
                return ()
            found = os.fstat(folder)
            names = "\n".join(sorted(name for name in os.listdir(folder) if not name.startswith(files.TEMPORARY)))
        listed = int(_sha256(names)[:16], 16)
        return (found.st_dev, found.st_ino, found.st_mode, found.st_mtime_ns, found.st_ctime_ns, listed)

    def way_to(self, file: str) -> tuple[str, ...]:
        """The folders on the way to what is approved for a file, from below the root: all have to be ours alone."""
        return str(self.folder.parent), str(self.folder), str(self._of(file))

    def listed(self, file: str) -> dict[str, int]:
        """The hashes that are approved for a configuration file, and when each record was written (ns). None is read,
        so one that is damaged is among them."""
        with self._believed(self._of(file)) as folder:
            names = [] if folder is None else [name for name in os.listdir(folder) if _HASH.fullmatch(name[:-5])]
            return {name[:-5]: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns for name in names}

    def _of(self, file: str) -> Path:
        return self.folder / _folder_name(os.path.abspath(file))

    @contextmanager
    def _believed(self, path: Path) -> Iterator[int | None]:
        """A folder of approvals, open; None when it is missing, or others may write what lies in it."""
        with ExitStack() as stack:
            folder: int | None = None
            try:
                folder = stack.enter_context(files.opened(path, self.root, private=True))
            except StoreError as error:
                self._problem(f"{error.place}: {error.message}")
            yield folder

    def _records(self, path: Path) -> list[Approval]:
        with self._believed(path) as folder:
            if folder is None:
                return []
            names = [name for name in os.listdir(folder) if not name.startswith(files.TEMPORARY)]
            return [record for name in names if (record := self._record(folder, path / name))]

    def _record(self, folder: int, path: Path) -> Approval | None:
        """Read one record; None for one that is missing, damaged, or not about what its place says."""
        record = None
        try:
            data = files.read_in(folder, path, MAX_RECORD, private=True)
            record = None if data is None else _decoded(data)
        except StoreError as error:
            self._problem(f"{error.place}: {error.message}")
        except (ValueError, RecursionError) as error:
            self._problem(f"{path}: damaged, so it doesn't count: {error}")
        if record is None or (_HASH.fullmatch(record.hash) and path == self._of(record.file) / f"{record.hash}.json"):
            return record
        self._problem(f"{path}: it approves something else than its name says, so it doesn't count")
        return None

    def _problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)


def _decoded(data: bytes) -> Approval:
    """Raises ValueError or RecursionError, also where a definition is none that we could have written."""
    try:
        record = msgspec.json.decode(data, type=Approval)
    except (ValueError, RecursionError):  # the standard library reads more, and says better what is wrong
        record = msgspec.convert(json.loads(data), Approval)
    msgspec.convert(record.definition, _DefinitionPart)
    return record


@functools.lru_cache(maxsize=64)
def _folder_name(file: str) -> str:
    return _sha256(file)[:32]


def _sha256(text: str) -> str:
    import hashlib  # a cryptographic library, for nothing where nothing needs approval

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _newest_first(records: Iterable[Approval]) -> list[Approval]:
    return sorted(records, key=lambda record: (record.approved_at, record.hash), reverse=True)
