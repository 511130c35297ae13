"""The tools that every agent has (Read, Write, Edit, Bash and TodoWrite), and the workspace, which no path can leave.

`Task` and its like are in `factory`.
"""

import codecs
import errno
import os
import re
import shlex
import shutil
import signal
import stat
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import msgspec

from billhook.agent.models import ToolSpec
from billhook.core.errors import BillhookError
from billhook.core.text import counted
from billhook.runners import process

Input = dict[str, Any]


class ToolError(Exception):
    """The tool ran and failed; the text is for the model and the hooks."""


class Tool(msgspec.Struct, frozen=True):
    """One tool. `run` returns the `tool_response` for hooks, a string or JSON value, or raises ToolError."""

    spec: ToolSpec
    run: Callable[[Input], Awaitable[Any]]

    @property
    def name(self) -> str:
        return self.spec.name


# A tool's input, checked against its JSON Schema:

ALIASES: dict[str, dict[str, str]] = {
    "Read": {"path": "file_path"},
    "Write": {"path": "file_path"},
    "Edit": {"path": "file_path", "old_text": "old_string", "new_text": "new_string"},
}
"""Other names of a tool's fields, from seed 004."""

Schema = Mapping[str, Any]
_KINDS: dict[str, tuple[Any, str]] = {
    "string": (str, "a string"),
    "boolean": (bool, "true or false"),
    "integer": (int | float, "a whole number from 1 up"),
    "number": (int | float, "a number of seconds"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
}
"""By JSON Schema's name of a type: Python's types, and its name in messages."""
_FOUND = {bool: "a boolean", dict: "an object", list: "a list", str: "a string"}


def spec(name: str, description: str, required: str, /, **properties: Schema) -> ToolSpec:
    """The description of a tool for the model; `required` are names of fields, separated by spaces."""
    return ToolSpec(name, description, fields(required, **properties))


def fields(required: str, /, **properties: Schema) -> dict[str, Any]:
    """The schema of an object."""
    about = {"type": "object", "properties": properties, "required": required.split()}
    return {**about, "additionalProperties": False}


def tool(spec: ToolSpec, run: Callable[[Input], Awaitable[Any]]) -> Tool:
    """A tool whose `run` gets the fields of its schema, with their types checked."""

    async def run_checked(given: Input) -> Any:
        return await run(_object(canonical(spec.name, given), spec.schema))

    return Tool(spec, run_checked)


def canonical(tool: str, given: Input) -> Input:
    """The input with the names that hooks and rules use. Raises ToolError if two names of a field have different
    values."""
    aliases = ALIASES.get(tool, {})
    if not aliases.keys() & given.keys():
        return given
    settled: Input = {}
    for key, value in given.items():
        name = aliases.get(key, key)
        own = given.get(name)
        if None not in (own, value) and own != value:
            raise ToolError(f"`{name}` and `{key}` are the same field, but they differ: use `{name}` only")
        if value is not None or (key == name and name not in settled):
            settled[name] = value
    return settled


def _object(given: Input, schema: Schema) -> Input:
    properties = schema["properties"]
    for name in schema["required"]:
        if given.get(name) is None:
            raise ToolError(f"`{name}` is missing: it must be {_KINDS[properties[name]['type']][1]}")
    present = {name: given[name] for name in properties if given.get(name) is not None}
    return {name: _value(value, name, properties[name]) for name, value in present.items()}


def _value(value: Any, name: str, schema: Schema) -> Any:
    kind = schema["type"]
    if not isinstance(value, _KINDS[kind][0]) or (isinstance(value, bool) and kind != "boolean"):
        raise _mistyped(name, kind, value)
    match kind:
        case "string":
            _check_text(value, name, schema)
        case "integer":
            if value != value // 1 or value < schema["minimum"]:
                raise _mistyped(name, kind, value)
            return int(value)
        case "array":
            return [_item(item, f"{name}[{number}]", schema["items"]) for number, item in enumerate(value)]
    return value


def _item(item: Any, place: str, schema: Schema) -> Input:
    _value(item, place, {"type": "object"})
    try:
        return _object(item, schema)
    except ToolError as error:
        raise ToolError(f"{place}: {error}") from None


def _check_text(value: str, name: str, schema: Schema) -> None:
    if not value and "minLength" in schema:
        raise ToolError(f"`{name}` is empty")
    if value not in schema.get("enum", [value]):
        raise ToolError(f"`{name}` must be one of {', '.join(schema['enum'])}, not `{value}`")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"`{name}` contains half a character (a lone surrogate) at position {error.start}") from None


def _mistyped(name: str, kind: str, value: object) -> ToolError:
    found = str(value) if type(value) in (int, float) else _FOUND.get(type(value), type(value).__name__)
    return ToolError(f"`{name}` must be {_KINDS[kind][1]}, not {found}")


# The workspace:

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

READ_LINES = 2000
READ_CAP = 50_000  # characters of a file that the model gets at once
LARGEST_FILE = 64 << 20  # bytes of a file that are read: counting gigabytes would take too long
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 16


async def read(workspace: Workspace, given: Input) -> str:
    path = _path(workspace, given)
    first, lines = given.get("offset", 1), given.get("limit", READ_LINES)
    with _opened(workspace, path) as file:
        if b"\0" in file.read(8192):
            raise ToolError(f"`{workspace.name(path)}` is a binary file of {os.fstat(file.fileno()).st_size:,} bytes")
        file.seek(0)
        return _part(file, first, lines) or f"(`{workspace.name(path)}` is empty)"


async def write(workspace: Workspace, given: Input) -> str:
    path = _path(workspace, given)
    content = given["content"]
    _replace(workspace, path, content.encode())
    lines = content.count("\n") + (not content.endswith("\n") and content != "")
    return f"Wrote {counted(lines, 'line')} to {workspace.name(path)}"


async def edit(workspace: Workspace, given: Input) -> str:
    path = _path(workspace, given)
    old, new, everywhere = given["old_string"], given["new_string"], given.get("replace_all", False)
    if old == new:
        raise ToolError("`old_string` and `new_string` are the same: there is nothing to change")
    with _opened(workspace, path) as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise ToolError(f"`{workspace.name(path)}` is larger than {LARGEST_FILE:,} bytes: edit it with a command")
    changed, times = _replaced(data, old, new, everywhere, workspace.name(path))
    _replace(workspace, path, changed)
    return f"Edited {workspace.name(path)}: replaced {counted(times, 'occurrence')}"


def _part(file: BinaryIO, first: int, lines: int) -> str:
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    text, line, last, seen = "", 1, 0, 0
    while piece := file.readline(_PIECE):  # also an endless line is read in pieces
        if line == first + lines:
            return f"{text}[... there is more: continue with `offset` {line} ...]"
        if line >= first:
            text += decode(piece).replace("\r\n", "\n")
        if len(text) > READ_CAP:
            return f"{text[:READ_CAP]}\n[... cut in line {line}, after {READ_CAP:,} characters ...]"
        seen += len(piece)
        if seen > LARGEST_FILE:
            raise ToolError(f"`offset` {first} is beyond the first {LARGEST_FILE:,} bytes: read it with a command")
        last, line = line, line + piece.endswith(b"\n")
    text += decode(b"", final=True)
    if seen and not text:
        raise ToolError(f"`offset` {first} is beyond the end: the last line is {last}")
    return text


def _replaced(data: bytes, old: str, new: str, everywhere: bool, name: str) -> tuple[bytes, int]:
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
        raise OSError(errno.EINVAL, f"it is {_NO_FILES.get(kind, 'a device')}, not a file")
    return found


@contextmanager
def _explained(workspace: Workspace, path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(f"`{workspace.name(path)}` can't be {done}: {error.strerror or error}") from None


_NO_FILES = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFLNK: "a link", stat.S_IFSOCK: "a socket"}
_FILE = {"type": "string", "minLength": 1, "description": "The file, absolute or relative to the working directory"}

READ = spec(
    "Read",
    f"Read a text file of the workspace: {READ_LINES:,} lines or {READ_CAP:,} characters of it at once. If there is "
    "more, the last line is a note in brackets.",
    "file_path",
    file_path=_FILE,
    offset={"type": "integer", "minimum": 1, "description": "The line to begin with; the first line is 1"},
    limit={"type": "integer", "minimum": 1, "description": "How many lines"},
)
WRITE = spec(
    "Write",
    "Create or replace a file of the workspace. Missing folders are created.",
    "file_path content",
    file_path=_FILE,
    content={"type": "string", "description": "The whole new content"},
)
EDIT = spec(
    "Edit",
    "Replace text in a file of the workspace. It must occur exactly once, or use `replace_all`. All other bytes are "
    "unchanged.",
    "file_path old_string new_string",
    file_path=_FILE,
    old_string={"type": "string", "minLength": 1, "description": "The text as it is in the file, including spaces"},
    new_string={"type": "string", "description": "The replacement"},
    replace_all={"type": "boolean", "description": "Replace every occurrence"},
)


# Bash:


class CappedOutput(bytearray):
    """Accepts any number of bytes and keeps `cap` characters of them, from both ends. `process` adds a command's output
    to a bytearray; as a bytearray this one stays empty."""

    def __init__(self, cap: int) -> None:
        super().__init__()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._half = cap // 2
        self._head = self._tail = ""
        self._count = 0

    def __iadd__(self, chunk: bytes, /) -> Self:  # type: ignore[override,misc]  # only bytes are added
        self._keep(self._decoder.decode(chunk))
        return self

    def _keep(self, text: str) -> None:
        room = self._half - len(self._head)
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-self._half :]
        self._count += len(text)

    def text(self) -> str:
        """All of it, or both ends with a line between them. Call it once, at the end."""
        self._keep(self._decoder.decode(b"", final=True))
        if left_out := self._count - len(self._head) - len(self._tail):
            return f"{self._head}\n[... {left_out:,} characters left out ...]\n{self._tail}"
        return self._head + self._tail


Background = Callable[[str, str, Callable[[], Awaitable[str]]], Awaitable[str]]
"""Makes a task of a job, from its subject and description: the text for the model."""

BASH_SECONDS = 120.0
LONGEST_BASH = 600.0
OUTPUT_CAP = 30_000  # characters of output that the model gets
CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")

# The shell writes its folder to a file, independent of the command's descriptors and variables: at its end, and in bash
# also at each change (outside subshells), so that no trap, `exec` or signal of the command can prevent it.
_TELL = "{{ command pwd -P >|{file}; }} 2>/dev/null"
_AT_CHANGE = '{name}() {{ builtin {name} "$@" || return; ((BASH_SUBSHELL)) || {tell} || :; }}; '
# All on one line, so that the shell's messages count the lines of the command.
_RUN = 'eval "$(cat)" </dev/null 2>&1'


async def bash(workspace: Workspace, background: Background | None, given: Input) -> str:
    """Run a command. With `background` it can leave one running."""
    command = given["command"]
    if not command.strip() or "\0" in command:
        raise ToolError("`command` must be a shell command: it is blank, or contains a NUL character")
    if not given.get("run_in_background"):
        return await _foreground(command, workspace, _seconds(given, BASH_SECONDS))
    if background is None:
        raise ToolError("`run_in_background` is not available here; run it without")
    cwd, seconds = workspace.cwd, _seconds(given, LONGEST_BASH)
    subject = given.get("description") or command.strip().splitlines()[0][:80]
    return await background(subject, command, lambda: _shell(command, cwd, seconds))


def _seconds(given: Input, default: float) -> float:
    return min(given["timeout"] / 1000, LONGEST_BASH) if "timeout" in given else default


async def _foreground(command: str, workspace: Workspace, seconds: float) -> str:
    """Run it, then change to its last folder, even if it failed."""
    cwd = workspace.cwd
    with tempfile.TemporaryDirectory(prefix=".billhook-", ignore_cleanup_errors=True) as folder:
        report = Path(folder, "cwd")
        try:
            text, failed = await _shell(command, cwd, seconds, report), False
        except ToolError as error:
            text, failed = str(error), True
        moved = _move(workspace, _reported(report) or str(cwd))
    told = f"{text}\n{moved}" if moved else text
    if failed:
        raise ToolError(told)
    return told


async def _shell(command: str, cwd: Path, seconds: float, report: Path | None = None) -> str:
    """Run a command to its end: its output. Raises ToolError, with the output, unless it succeeds."""
    output = CappedOutput(OUTPUT_CAP)
    # Commands don't get the agent's API keys: one `env` in a log would publish them.
    env = {name: value for name, value in os.environ.items() if name not in CREDENTIALS}
    child = process.start(_argv(report), stdin=command.encode(), env=env, cwd=cwd, keep=output)
    ended = await child.wait(seconds)
    assert ended is not None
    output += ended.stdout  # empty, if `keep` is supported
    text = output.text().rstrip("\n")
    if ended.code == 0:
        return text or "(no output)"
    if ended.start_error:
        how = f"the shell could not be started: {ended.start_error}"
    elif ended.timed_out:
        how = f"timed out: ended after {seconds:g} seconds"
    elif ended.signal is not None:
        how = f"ended by signal {ended.signal} ({signal.strsignal(ended.signal)})"
    else:
        how = "ended with an unknown exit code" if ended.code is None else f"exit code {ended.code}"
    raise ToolError(f"{how}\n{text}" if text else how)


def _argv(report: Path | None) -> tuple[str, ...]:
    found = shutil.which("bash")
    shell = found or "/bin/sh"
    before = ""
    if report is not None:
        tell = _TELL.format(file=shlex.quote(str(report)))
        before = f"trap {shlex.quote(tell)} EXIT; "
        if found:
            before += "".join(_AT_CHANGE.format(name=name, tell=tell) for name in ("cd", "pushd", "popd"))
    return (shell, "-c", before + _RUN, Path(shell).name)


def _reported(report: Path) -> str:
    try:
        # The command could replace this file: links and pipes are not followed.
        file = os.open(report, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(file, "rb") as stream:
            return os.fsdecode((stream.read(1 << 16) or b"").removesuffix(b"\n"))
    except OSError:
        return ""


def _move(workspace: Workspace, folder: str) -> str:
    """Make it the current directory, or return to the root with a note."""
    try:
        workspace.cwd = Path(folder)
    except ToolError:
        workspace.go_back()
        root = shown(workspace.root)
        return f"(`{shown(folder)}` is not a folder in the workspace: the next command starts in `{root}` again)"
    return ""


BASH = spec(
    "Bash",
    "Run a shell command in the workspace. `cd` lasts until the next call; variables and functions don't. Standard "
    "input is empty. Processes that the command leaves running are ended: use `run_in_background` for a server or a "
    f"long job. Of a long output you get the beginning and the end, {OUTPUT_CAP:,} characters in total.",
    "command",
    command={"type": "string", "minLength": 1, "description": "One or more lines of shell commands"},
    timeout={
        "type": "integer",
        "minimum": 1,
        "description": f"Timeout in milliseconds: {BASH_SECONDS * 1000:.0f} by default (in the "
        f"background {LONGEST_BASH * 1000:.0f}), at most {LONGEST_BASH * 1000:.0f}",
    },
    run_in_background={"type": "boolean", "description": "Don't wait for the end"},
    description={"type": "string", "description": "What it does, in five to ten words"},
)

# TodoWrite:

_MARKS: Final = {"pending": " ", "in_progress": ">", "completed": "x"}


async def todo_write(given: Input) -> str:
    todos = given["todos"]
    done = sum(todo["status"] == "completed" for todo in todos)
    title = f"{done} of {len(todos)} done" if todos else "The list is empty"
    return "\n".join([title, *map(_todo_line, todos)])


def _todo_line(todo: Input) -> str:
    being_done = todo.get("activeForm") if todo["status"] == "in_progress" else ""
    words = being_done or todo["content"]
    return f"[{_MARKS[todo['status']]}] {' '.join(words.split())}"


_TODO = fields(
    "content status",
    content={"type": "string", "minLength": 1, "description": "What to do"},
    status={"type": "string", "enum": list(_MARKS)},
    activeForm={"type": "string", "description": "The same while it is being done"},
)
TODO_WRITE = spec(
    "TodoWrite",
    "Keep a list of tasks, for work of several steps. Each call replaces the whole list. Have one item in progress at "
    "a time, and mark it completed as soon as it is.",
    "todos",
    todos={"type": "array", "items": _TODO},
)


# All of them:


def standard_tools(workspace: Workspace, *, background: Background | None = None) -> list[Tool]:
    """The standard tools for one agent in one workspace. `background` starts a command as a task and returns the text
    for the model; without it nothing runs in the background."""

    return [
        tool(BASH, partial(bash, workspace, background)),
        tool(READ, partial(read, workspace)),
        tool(WRITE, partial(write, workspace)),
        tool(EDIT, partial(edit, workspace)),
        tool(TODO_WRITE, todo_write),
    ]
