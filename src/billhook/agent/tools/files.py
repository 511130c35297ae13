"""The tools Read, Write and Edit, and the agent's workspace, which no path can leave."""

import codecs
import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from billhook.agent import tools as base
from billhook.agent.tools import Input, ToolError
from billhook.core.errors import BillhookError
from billhook.core.text import counted

# O_PATH: a folder that may be entered but not listed is enough.
_FOLDER = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Workspace:
    """One folder and the current directory in it; lives as long as its agent."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise BillhookError(f"the workspace `{shown(root)}` is not a folder", hint="start in a folder that exists")
        self._cwd = self.root

    @property
    def cwd(self) -> Path:
        """The base of commands and relative paths. If the folder no longer exists, it is the root again."""
        if not self._cwd.is_dir():
            self.go_back()
        return self._cwd

    @cwd.setter
    def cwd(self, folder: str | os.PathLike[str]) -> None:
        """Raises ToolError for a path outside the workspace, or one that is not a folder."""
        path = self.path(os.fspath(folder))
        if not path.is_dir():
            raise ToolError(f"`{shown(folder)}` is not a folder")
        self._cwd = path

    def go_back(self) -> None:
        """Make the root the current directory again."""
        self._cwd = self.root

    def path(self, text: str) -> Path:
        """The real path for a path of the model, absolute or relative to `cwd`; it may not exist. Links are followed,
        and `~` has no special meaning. Raises ToolError if it is outside the workspace."""
        try:
            real = Path(os.path.realpath(os.path.join(self.cwd, text)))
        except ValueError as error:
            raise ToolError(f"`{shown(text)}` is not a valid path: {error}") from None
        if not real.is_relative_to(self.root):
            leads = "" if os.path.normpath(text) == str(real) else f" leads to `{shown(real)}`, which"
            raise ToolError(f"`{shown(text)}`{leads} is outside the workspace `{shown(self.root)}`")
        if why := _not_sure(real):
            raise ToolError(f"`{shown(text)}` can't be resolved: {why}")
        return real

    def inside(self, text: str) -> bool:
        """Whether `path` would accept it."""
        try:
            self.path(text)
        except ToolError:
            return False
        return True

    def name(self, path: Path) -> str:
        """The name of a path in messages: relative to the workspace."""
        return shown(path.relative_to(self.root)) if path.is_relative_to(self.root) else shown(path)

    @contextmanager
    def holder(self, path: Path, *, create: bool = False) -> Iterator[int]:
        """A descriptor of the parent folder of a path from `path`, for `dir_fd`; missing folders are created on demand.
        No link is followed. Raises OSError."""
        held = os.open(self.root, _FOLDER)
        try:
            for name in path.parent.relative_to(self.root).parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=held)
                inner = os.open(name, _FOLDER, dir_fd=held)
                os.close(held)
                held = inner
            yield held
        finally:
            os.close(held)


def _not_sure(real: Path) -> str:
    """Why `realpath` could not resolve a path: at a link to itself it gives up and guesses."""
    try:
        real.lstat()
    except FileNotFoundError:
        pass
    except OSError as error:  # a name that is too long, a folder without access, a file in the place of a folder
        return error.strerror or str(error)
    return "a link leads to itself" if real.is_symlink() or os.path.realpath(real) != str(real) else ""


def shown(path: str | os.PathLike[str]) -> str:
    """A path as text that can be printed and sent: of limited length, and without half characters."""
    text = os.fspath(path)
    short = text if len(text) <= 200 else text[:200] + "..."
    return short.encode("utf-8", "backslashreplace").decode()


# Read, Write and Edit:


LINES = 2000
CAP = 50_000  # characters of a file that the model gets at once
LARGEST = 64 << 20  # bytes of a file that are read: counting gigabytes would take too long
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 16


async def read(workspace: Workspace, given: Input) -> str:
    """Read text; of a long file a part."""
    path = _path(workspace, given)
    first, lines = given.get("offset", 1), given.get("limit", LINES)
    with _opened(workspace, path) as file:
        if b"\0" in file.read(8192):
            raise ToolError(f"`{workspace.name(path)}` is a binary file of {os.fstat(file.fileno()).st_size:,} bytes")
        file.seek(0)
        return _part(file, first, lines) or f"(`{workspace.name(path)}` is empty)"


async def write(workspace: Workspace, given: Input) -> str:
    """Write a whole file."""
    path = _path(workspace, given)
    content = given["content"]
    _replace(workspace, path, content.encode())
    lines = content.count("\n") + (not content.endswith("\n") and content != "")
    return f"Wrote {counted(lines, 'line')} to {workspace.name(path)}"


async def edit(workspace: Workspace, given: Input) -> str:
    """Replace one string with another."""
    path = _path(workspace, given)
    old, new, everywhere = given["old_string"], given["new_string"], given.get("replace_all", False)
    if old == new:
        raise ToolError("`old_string` and `new_string` are the same: there is nothing to change")
    with _opened(workspace, path) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ToolError(f"`{workspace.name(path)}` is larger than {LARGEST:,} bytes: edit it with a command")
    changed, times = _replaced(data, old, new, everywhere, workspace.name(path))
    _replace(workspace, path, changed)
    return f"Edited {workspace.name(path)}: replaced {counted(times, 'occurrence')}"


def _part(file: BinaryIO, first: int, lines: int) -> str:
    """Some lines of a file, with a last line about how to read more."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    text, line, last, seen = "", 1, 0, 0
    while piece := file.readline(_PIECE):  # also an endless line is read in pieces
        if line == first + lines:
            return f"{text}[... there is more: continue with `offset` {line} ...]"
        if line >= first:
            text += decode(piece).replace("\r\n", "\n")
        if len(text) > CAP:
            return f"{text[:CAP]}\n[... cut in line {line}, after {CAP:,} characters ...]"
        seen += len(piece)
        if seen > LARGEST:
            raise ToolError(f"`offset` {first} is beyond the first {LARGEST:,} bytes: read it with a command")
        last, line = line, line + piece.endswith(b"\n")
    text += decode(b"", final=True)
    if seen and not text:
        raise ToolError(f"`offset` {first} is beyond the end: the last line is {last}")
    return text


def _replaced(data: bytes, old: str, new: str, everywhere: bool, name: str) -> tuple[bytes, int]:
    """The new content, and the number of replacements."""
    before, after = old.encode(), new.encode()
    if b"\r\n" in data and data.count(b"\n") == data.count(b"\r\n"):
        # All its lines end with CRLF, but the model sees and writes LF.
        before, after = (re.sub(b"\r?\n", b"\r\n", part) for part in (before, after))
    times = len(re.findall(b"(?=" + re.escape(before) + b")", data))  # also overlapping ones, which are ambiguous
    if not times:
        raise ToolError(
            f"`old_string` does not occur in `{name}`: read the file and use the text exactly as it is there"
        )
    if times > 1 and not everywhere:
        raise ToolError(
            f"`old_string` occurs {times} times in `{name}`: include more of the text around it, or use `replace_all`"
        )
    return data.replace(before, after), data.count(before)


def _path(workspace: Workspace, given: Input) -> Path:
    path = workspace.path(given["file_path"])
    if path == workspace.root:
        raise ToolError("the workspace itself is a folder, not a file")
    return path


@contextmanager
def _opened(workspace: Workspace, path: Path) -> Iterator[BinaryIO]:
    """A regular file, open for reading. Raises ToolError for anything else, without waiting."""
    with _explained(workspace, path, "read"), workspace.holder(path) as folder:
        _regular(path, folder)
        with open(os.open(path.name, _READ, dir_fd=folder), "rb") as file:
            yield file


def _replace(workspace: Workspace, path: Path, data: bytes) -> None:
    """Replace a file: other processes never see half of it, and a link there is not followed."""
    with _explained(workspace, path, "written"), workspace.holder(path, create=True) as folder:
        old = None
        with suppress(FileNotFoundError):
            old = _regular(path, folder)
            if not os.access(path.name, os.W_OK, dir_fd=folder):
                raise PermissionError(errno.EACCES, "it is read-only")
        temporary = f".billhook-{os.urandom(8).hex()}.tmp"
        try:
            with open(os.open(temporary, _CREATE, 0o666, dir_fd=folder), "wb") as file:
                file.write(data)
                if old is not None:
                    with suppress(PermissionError):  # only root may change owners, and a file must not become root's
                        os.fchown(file.fileno(), old.st_uid, old.st_gid)
                    os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def _regular(path: Path, folder: int) -> os.stat_result:
    found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(kind, 'a device')}, not a file")
    return found


@contextmanager
def _explained(workspace: Workspace, path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(f"`{workspace.name(path)}` can't be {done}: {error.strerror or error}") from None


_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFLNK: "a link", stat.S_IFSOCK: "a socket"}
_FILE = {"type": "string", "minLength": 1, "description": "The file, absolute or relative to the working directory"}


READ = base.spec(
    "Read",
    f"Read a text file of the workspace: {LINES:,} lines or {CAP:,} characters of it at once. If there is more, the "
    "last line is a note in brackets.",
    "file_path",
    file_path=_FILE,
    offset={"type": "integer", "minimum": 1, "description": "The line to begin with; the first line is 1"},
    limit={"type": "integer", "minimum": 1, "description": "How many lines"},
)
WRITE = base.spec(
    "Write",
    "Create or replace a file of the workspace. Missing folders are created.",
    "file_path content",
    file_path=_FILE,
    content={"type": "string", "description": "The whole new content"},
)
EDIT = base.spec(
    "Edit",
    "Replace text in a file of the workspace. It must occur exactly once, or use `replace_all`. All other bytes are "
    "unchanged.",
    "file_path old_string new_string",
    file_path=_FILE,
    old_string={"type": "string", "minLength": 1, "description": "The text as it is in the file, including spaces"},
    new_string={"type": "string", "description": "The replacement"},
    replace_all={"type": "boolean", "description": "Replace every occurrence"},
)
