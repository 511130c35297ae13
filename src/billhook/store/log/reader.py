"""Reading an event log: from its beginning, from its end, by id, with filters; also with foreign lines, and while it
grows.

Nothing here takes a lock or changes a file. No file is mapped into memory: if it were truncated meanwhile, the process
would crash.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from billhook.core import strictjson
from billhook.core.errors import StrictJSONError
from billhook.store.files import StoreError, opened, status
from billhook.store.log import ALL, START, Record, RecordFilter, Side, read_line, read_side, side_path
from billhook.store.log.eventlog import CURRENT, reading, rotated_name, rotated_names

FIRST: Final = 16 << 10  # bytes of the first block at the end of a file: a few records
BLOCK: Final = 64 << 10  # larger blocks of memory are returned to the system each time
LONGEST: Final = 16 << 20  # a longer line is skipped: no record is that long
_MANY_BLOCKS: Final = 64  # after these it is worth loading a faster search
_DEEPEST: Final = 500  # events deeper than 400 are rejected
_ID_DIGITS: Final = 32
_FIXED: Final = frozenset({"v", "seq", "prev", "id", "time", "mono", "event", "side", "hash"})
"""Fields that always come from the line, never from its side file."""

Kind = TypeVar("Kind")
Line = tuple[int, bytes | None]  # a line without its newline, and its offset in the file; None: it is too long


# A file of lines, from either end:


class LineBlock(NamedTuple):
    offset: int  # where they begin in the file
    data: bytes
    lost: int = 0  # lines that were skipped here

    def lines(self, needles: "Group" = ()) -> list[Line]:
        """Every line, or those that contain one of some bytes."""
        if needles:
            return self._lines_with(needles)
        found: list[Line] = []
        offset = self.offset
        for line in self.data[:-1].split(b"\n") if self.data else ():
            found.append((offset, line))
            offset += len(line) + 1
        return found

    def _lines_with(self, needles: "Group") -> list[Line]:
        data, ends = self.data, dict[int, int]()
        for needle in needles:
            at = 0
            while (hit := data.find(needle, at)) >= 0:
                begin, at = data.rfind(b"\n", 0, hit) + 1, data.find(b"\n", hit) + 1
                ends[begin] = at - 1
        return [(self.offset + begin, data[begin:end]) for begin, end in sorted(ends.items())]


def forward(file: int, offset: int = 0, *, closed: bool = False, end: int = sys.maxsize) -> Iterator[LineBlock]:
    """Blocks from `offset`, the beginning of a line, to `end` or to the end of the file when it is reached. A last line
    without a newline is still being written; in a file that is `closed` it is skipped."""
    size = BLOCK
    while True:
        data = os.pread(file, max(0, min(size, end - offset)), offset)
        whole = data.rfind(b"\n") + 1
        if whole:
            yield LineBlock(offset, data[:whole])
            offset, size = offset + whole, BLOCK
        elif len(data) < size:
            if data and closed:
                yield LineBlock(offset, b"", lost=1)
            return
        elif size < LONGEST:
            size *= 2
        else:
            offset, ended = _after_line(file, offset + size)
            if ended or closed:
                yield LineBlock(offset, b"", lost=1)


def backward(file: int, end: int, *, closed: bool = False) -> Iterator[LineBlock]:
    """Blocks from `end` to the beginning of the file, in this order, small ones first."""
    size, last = FIRST, end_of_lines(file, end)
    if last < end and closed:
        yield LineBlock(last, b"", lost=1)
    end = last
    while end > 0:
        begin = max(0, end - size)
        data = os.pread(file, end - begin, begin)
        if len(data) < end - begin:  # truncated meanwhile
            end = end_of_lines(file, begin + len(data))
            continue
        start = data.find(b"\n", 0, -1) + 1 if begin else 0
        if start or not begin:
            yield LineBlock(begin + start, data[start:])
            end, size = begin + start, min(2 * size, BLOCK)
        elif size < LONGEST:
            size *= 2
        else:
            end, size = end_of_lines(file, begin), BLOCK
            yield LineBlock(end, b"", lost=1)


def lines_at(file: int, begins: Iterable[int]) -> Iterator[Line]:
    """The lines that begin at some offsets. A line without a newline is still being written."""
    for begin in begins:
        size = FIRST
        data = os.pread(file, size, begin)
        while b"\n" not in data and len(data) == size < LONGEST:
            size *= 2
            data = os.pread(file, size, begin)
        line, newline, _ = data.partition(b"\n")
        if newline or len(data) == size:
            yield begin, line if newline else None


def end_of_lines(file: int, end: int) -> int:
    """The end of the last whole line before `end`: after a newline, or 0."""
    if end and os.pread(file, 1, end - 1) == b"\n":
        return end
    while end > 0:
        begin = max(0, end - BLOCK)
        newline = os.pread(file, end - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0


@cache
def quick_search() -> Callable[[bytes, bytes], bool]:
    """Whether some bytes contain others. The C library's `memmem` takes half the time of Python's search; loading it
    takes as long as searching some megabytes."""
    try:
        import ctypes

        memmem = ctypes.CDLL(None).memmem
    except (ImportError, OSError, AttributeError, TypeError):  # not on every system
        return bytes.__contains__
    memmem.restype = ctypes.c_void_p
    memmem.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return lambda data, needle: memmem(data, len(data), needle, len(needle)) is not None


def _after_line(file: int, offset: int) -> tuple[int, bool]:
    """The end of the line that continues at `offset`, and whether it has a newline."""
    while data := os.pread(file, BLOCK, offset):
        newline = data.find(b"\n")
        if newline >= 0:
            return offset + newline + 1, True
        offset += len(data)
    return offset, False


# A snapshot of the files of an event log, for a reader while others write:


class LogFile(NamedTuple):
    """One file of a log while it is open."""

    path: Path
    descriptor: int
    closed: bool  # rotated: nothing is added to it

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size


class LogFiles:
    """The files of a log at one moment, oldest first; each is opened when it is needed. A rotation meanwhile neither
    hides nor repeats records: the current file was opened before the others were listed."""

    def __init__(self, path: Path, within: int, current: int | None) -> None:
        self._folder = path.parent
        self._within = within
        self._current = None if current is None else LogFile(path, current, False)
        self.names = older_names(within, current)
        if current is not None:
            self.names.append(CURRENT)

    @contextmanager
    def opened(self, name: str) -> Iterator[LogFile | None]:
        """One of the files; None if it no longer exists. Raises StoreError."""
        if name == CURRENT:
            yield self._current
            return
        path = self._folder / name
        with reading(self._within, path) as file:
            yield None if file is None else LogFile(path, file, True)


@contextmanager
def open_log_files(folder: Path, root: Path) -> Iterator[LogFiles | None]:
    """The files of a log as they are now; None: there is no log. Raises StoreError."""
    with opened(folder, root) as within:
        if within is None:
            yield None
            return
        path = folder / CURRENT
        with reading(within, path) as current:
            yield LogFiles(path, within, current)


def older_names(folder: int, current: int | None) -> list[str]:
    """The names of the rotated files that are older than a file which was opened as the current one. Usually these are
    all rotated files. But that file, and others after it, may have been rotated since it was opened."""
    names = rotated_names(folder)
    if current is None or is_at(CURRENT, folder, current):
        return names
    mine = next((index for index, name in enumerate(names) if is_at(name, folder, current)), None)
    return names[:mine]


def is_at(name: str, folder: int, file: int) -> bool:
    """Whether an open file still has this name."""
    found = status(name, folder)
    return found is not None and os.path.samestat(found, os.fstat(file))


def sizes(folder: Path, root: Path) -> dict[str, int]:
    """The names and sizes of a log's files, oldest first. Opens none of them."""
    with opened(folder, root) as within:
        if within is None:
            return {}
        found = {name: status(name, within) for name in (*rotated_names(within), CURRENT)}
        return {name: one.st_size for name, one in found.items() if one is not None}


# Filters, compiled into a test of a line's bytes and a test of its record:

Group = tuple[bytes, ...]  # one of these must be in a line
Filled = Callable[[Record, Group], Record]  # adds the fields of the side file, if that contains one of some bytes

_SIDE: Final = b'"side":{'  # In every line whose record has a side file. Inside a string the quotes would be escaped.
_FEWEST_DIGITS: Final = 8  # Ids and hashes match from this many digits on: `bad` and `cafe` would match too many.
_LAYERS: Final = frozenset({"managed", "fleet", "user", "explicit", "project", "local", "built-in"})
"""Where hooks come from. In a record it is a prefix of names that several hooks share."""
_COMPARED: Final = frozenset({"session_id", "tool", "decision", "project"})
"""Fields that are compared. They go to a side file only if the other fields are too long by themselves."""


class Query:
    """The predicate of one query: a test of bytes, then of records."""

    def __init__(
        self, wanted: RecordFilter, filled: Filled, *, notes: bool = False, id_prefix: str = "", side_files: bool = True
    ) -> None:
        self._text, self._hook = _joined(wanted.text), _joined(wanted.hook)
        self._since = wanted.since or ""
        self._until = "\U0010ffff" if wanted.until is None else wanted.until
        self._filled, self._notes, self._id_prefix = filled, notes, id_prefix
        self._exact = _exact(wanted)
        groups = self._groups(side_files)
        self.is_rare = bool(wanted.text or id_prefix)
        self.first = groups[0] if groups else ()  # searched for in blocks of lines: the most selective group
        self._others = groups[1:]
        self._is_dated = wanted.since is not None or wanted.until is not None
        self.looks_at_all = not groups and not self._is_dated  # no line is skipped because of its bytes

    def _groups(self, side_files: bool) -> list[Group]:
        """A matching line contains one item of each group. The most selective group comes first."""
        found: list[Group] = [spellings(self._text)] if self._text else []
        if self._hook is not None:
            hook = spellings(self._hook)
            found.append(tuple(a + one + z for one in hook for a in (b'"', b"/") for z in (b'"', b"#")))
        for field, values, default in self._exact:
            if default not in values:  # a default may be left out of a line
                name = field.encode()
                found.append(tuple(b'"%b":"%b"' % (name, one) for value in sorted(values) for one in spellings(value)))
        if side_files:  # almost any field may be there
            found = [(*group, _SIDE) for group in found]
        return [tuple(b'"id":"' + one for one in spellings(self._id_prefix)), *found] if self._id_prefix else found

    def may_match(self, line: bytes) -> bool:
        """Whether a line contains one item of every group, and its time is in the range."""
        for group in self._others:
            if not any(one in line for one in group):
                return False
        if not self._is_dated:
            return True
        begin = line.find(b'"time":"') + 8
        end = line.find(b'"', begin)
        return begin < 8 or end < 0 or self._since <= line[begin:end].decode("ascii", "replace") <= self._until

    def matches(self, record: Record) -> bool:
        if (record.note is not None and not self._notes) or not record.id.startswith(self._id_prefix):
            return False
        if record.side is not None and not _COMPARED.isdisjoint(record.side.fields):
            record = self._filled(record, ())
        if not all(getattr(record, field) in values for field, values, _ in self._exact):
            return False
        return self._since <= record.time <= self._until and self._names_hook(record) and self._has_text(record)

    def _names_hook(self, record: Record) -> bool:
        if self._hook is None:
            return True
        if record.side is not None and not {"outcomes", "not_asked"}.isdisjoint(record.side.fields):
            record = self._filled(record, spellings(self._hook))
        return any(called(name, self._hook) for name in hooks_of(record))

    def _has_text(self, record: Record) -> bool:
        text = self._text
        if not text or has_text(record, text):
            return True
        return record.side is not None and has_text(self._filled(record, spellings(text)), text)


def spellings(text: str) -> Group:
    """How the writer may encode a string inside quotes. A DEL has two encodings: it is escaped only if another
    character of the same value is not ASCII. All other characters have one encoding."""
    plain = strictjson.encode(text)[1:-1]
    return (plain, plain.replace(b"\x7f", b"\\u007f")) if b"\x7f" in plain else (plain,)


def _joined(text: str | None) -> str | None:
    """The text as a log contains it: two halves of a surrogate pair are one character there."""
    return None if text is None else text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _exact(wanted: RecordFilter) -> list[tuple[str, frozenset[str], str | None]]:
    """Fields that must have one of some values: name, values, the default if the line does not have the field."""
    project = None if wanted.project is None else frozenset((wanted.project,))
    fields = (("session_id", wanted.sessions, ""), ("tool", wanted.tools, None), ("decision", wanted.decisions, "none"),
              ("event", wanted.events, None), ("project", project, ""))  # fmt: skip
    return [(field, values, default) for field, values, default in fields if values is not None]


def hooks_of(record: Record) -> list[str]:
    """The hooks in a record: first those that ran, then those that were skipped."""
    return list(dict.fromkeys((*(said.hook for said in record.outcomes), *record.not_asked)))


def called(shown: str, name: str) -> bool:
    """Whether the hook with this name in a record matches the given name. A name alone means every hook of that name:
    `guard` also matches `project/guard` and `project/guard#2`, which a record contains if several hooks have the name.
    With a layer or a number it means only that hook."""
    if shown == name:
        return True
    layer, slash, rest = shown.partition("/")
    plain = rest if slash and layer in _LAYERS else shown
    base, _, number = plain.rpartition("#")
    return name == plain or (name == base and number.isdecimal())


def has_text(record: Record, text: str) -> bool:
    """Whether a record contains some text: in a string, a key or a number. The names of the record's fields, its place
    in the chain and its measured times don't count, and ids and hashes match only from their beginning and from eight
    digits on: a search for `reason` or `bad` does not mean those."""
    if len(text) >= _FEWEST_DIGITS and any(
        one.startswith(text) for one in (record.id, record.config, record.hash, record.prev)
    ):
        return True
    values = [getattr(record, field) for field in _SEARCHED]
    return contains([*values, *(getattr(said, field) for said in record.outcomes for field in _SEARCHED_OF_HOOK)], text)


_SEARCHED: Final = (
    *("event", "tool", "decision", "reason", "session_name", "session_id", "turn_id", "tool_use_id", "time", "cwd"),
    *("project", "host", "note", "context", "messages", "transcript_path", "permission_mode", "agent_id", "agent_type"),
    *("input", "output", "fields", "not_asked", "rewritten_input", "rewritten_output"),
)
_SEARCHED_OF_HOOK: Final = ("hook", "source", "dialect", "status", "decision", "reason", "error", "lost", "data")


def contains(value: Any, text: str) -> bool:
    """Whether some text is in one of the strings, keys or numbers of a JSON value, at any depth."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            if text in one:
                return True
        elif isinstance(one, dict):
            left += one.keys()
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
        elif one is not None and not isinstance(one, bool) and text in strictjson.dumps(one):
            return True
    return False


# ripgrep finds bytes in long files faster than Python. It only finds candidates: every line is read and tested here. If
# it fails or is missing, the files are searched without it.

FILES_AT_ONCE: Final = 8  # For one ripgrep process: enough to outweigh its start, and few enough to show progress.
_FEWEST_BYTES: Final = 16 << 20  # Python searches fewer bytes before ripgrep has started
_LONGEST_NEEDLES: Final = 64 << 10  # bytes: the system allows 128 KiB for one argument
_MOST_OUTPUT: Final = 4 << 20  # Bytes. With so many matches it is faster to read all lines.
_TIMEOUT: Final = 600.0  # Seconds. Regular files never take that long.
_FLAGS: Final = ("--no-config", "--fixed-strings", "--text", "--encoding=none", "--no-mmap", "--color=never",
                 "--case-sensitive", "--no-line-number", "--with-filename", "--null", "--no-heading", "--byte-offset",
                 "--max-columns=1", "--no-messages")  # fmt: skip


def match_places(files: Sequence[int], needles: Sequence[bytes]) -> dict[int, list[int]]:
    """By open file: the offsets of the lines that contain a needle, in order. Empty if ripgrep can't tell."""
    path = program()
    if path is None or sum(map(len, needles)) > _LONGEST_NEEDLES:
        return {}
    if sum(os.fstat(file).st_size for file in files) < _FEWEST_BYTES:
        return {}
    # By descriptor, not by name: another file may have that name by now.
    names = {os.fsencode(f"/dev/fd/{file}"): file for file in files}
    patterns = [word for needle in needles for word in (b"-e", needle)]
    try:
        output = _output([os.fsencode(path), *map(os.fsencode, _FLAGS), *patterns, b"--", *names], files)
        return {} if output is None else _read(output, names)
    except (OSError, ValueError, KeyError):
        return {}


def _output(argv: list[bytes], files: Sequence[int]) -> bytes | None:
    """Its output; None if it fails, or prints too much."""
    import subprocess
    import threading

    silent = subprocess.DEVNULL
    with subprocess.Popen(argv, stdin=silent, stdout=subprocess.PIPE, stderr=silent, pass_fds=files) as child:
        watch = threading.Timer(_TIMEOUT, child.kill)
        watch.daemon = True
        watch.start()
        try:
            output = child.stdout.read(_MOST_OUTPUT + 1) if child.stdout else b""
            if len(output) > _MOST_OUTPUT:
                child.kill()
            child.wait()
        except BaseException:  # Ctrl-C
            child.kill()
            raise
        finally:
            watch.cancel()
    is_sound = child.returncode == (0 if output else 1) and (not output or output.endswith(b"\n"))
    return output if is_sound and len(output) <= _MOST_OUTPUT else None


def program() -> str | None:
    """ripgrep's full path; None: it is not installed."""
    return _on(os.environ.get("PATH", os.defpath))


@lru_cache(maxsize=4)
def _on(path: str) -> str | None:
    found = shutil.which("rg", path=path)
    # A relative entry of PATH may lead to any program in this folder.
    return found if found is not None and os.path.isabs(found) else None


def _read(output: bytes, names: dict[bytes, int]) -> dict[int, list[int]]:
    """Lines such as `/dev/fd/7 NUL 12345:something`, those of one file together and in order."""
    found: dict[int, list[int]] = {file: [] for file in names.values()}
    for line in output.split(b"\n")[:-1]:
        name, rest = line.split(b"\0", 1)
        found[names[name]].append(int(rest[: rest.index(b":")]))
    return found


# From lines to records:


class LogEntry(NamedTuple):
    """A record, and where it is."""

    record: Record
    line: bytes  # as it is in the file, without the newline
    file: Path
    offset: int


class _Scan:
    def __init__(self, query: Query, log: "LogReader") -> None:
        self.query, self._log = query, log
        self.foreign = 0  # lines so far that are not records
        self._blocks = 0

    def found(self, log: LogFiles, *, newest_first: bool) -> Iterator[LogEntry]:
        names = log.names[::-1] if newest_first else log.names
        for number, batch in enumerate(self._batches(names, newest_first)):
            with ExitStack() as held:
                files = [file for name in batch if (file := held.enter_context(log.opened(name)))]
                places = {} if newest_first and not number else self._places(files)
                for file in files:
                    if file.descriptor in places:
                        begins = places[file.descriptor][:: -1 if newest_first else 1]
                        yield from self.entries(lines_at(file.descriptor, begins), file)
                        continue
                    if newest_first:
                        blocks = backward(file.descriptor, file.size, closed=file.closed)
                    else:
                        blocks = forward(file.descriptor, closed=file.closed)
                    for block in blocks:
                        yield from self.in_block(block, file, newest_first=newest_first)

    def _batches(self, names: Sequence[str], newest_first: bool) -> list[Sequence[str]]:
        """Which files are searched together. A search from the end mostly stops soon, so its first file is alone."""
        if not self.query.is_rare or program() is None:
            return [[name] for name in names]
        cuts = [0, *range(int(newest_first), len(names), FILES_AT_ONCE), len(names)]
        return [names[a:b] for a, b in pairwise(cuts) if a < b]

    def _places(self, files: Sequence[LogFile]) -> dict[int, list[int]]:
        """By descriptor: the offsets of candidate lines. Empty if there is no fast search."""
        return match_places([file.descriptor for file in files], self.query.first) if self.query.is_rare else {}

    def in_block(self, block: LineBlock, file: LogFile, *, newest_first: bool = False) -> Iterator[LogEntry]:
        self._meet(block.lost)
        self._blocks += 1
        needles = self.query.first
        if self._blocks > _MANY_BLOCKS and needles and not any(quick_search()(block.data, one) for one in needles):
            return iter(())
        lines = block.lines(needles)
        return self.entries(reversed(lines) if newest_first else lines, file)

    def entries(self, lines: Iterable[Line], file: LogFile) -> Iterator[LogEntry]:
        """The matching records among some lines."""
        for offset, line in lines:
            if line is None:
                self._meet(1)
            elif self.query.may_match(line):
                record = decoded(line)
                if record is None:
                    self._meet(line != b"")
                elif self.query.matches(record):
                    yield LogEntry(record, line, file.path, offset)

    def _meet(self, foreign: int) -> None:
        self.foreign += foreign
        self._log.foreign += foreign


def decoded(line: bytes) -> Record | None:
    """The record of one line; None if it is not a record."""
    return _decoded_by(_RECORD, line) if line.startswith(b'{"v":') else None


def _decoded_by(decoder: "msgspec.json.Decoder[Kind]", data: bytes) -> Kind | None:
    """The decoded value of some bytes; None if they are not valid. The fast decoder does not support lone surrogates,
    which a log may contain."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        if not data.isascii():
            return None
    try:
        value = strictjson.loads_leniently(data, max_depth=_DEEPEST)
        return msgspec.convert(value, decoder.type)
    except (StrictJSONError, msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


_RECORD = msgspec.json.Decoder(Record)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class LogReader:
    """One project's log. Keeps no file open between two calls. A missing log is an empty one. A link, a pipe or another
    user's file in its place raises StoreError."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self.foreign = 0
        """Lines so far that are not records: foreign, incomplete or too long. A search by bytes sees only lines that
        contain those bytes."""
        self.skipped: int | None = None  # How many such lines the log has; None until every line was read.
        self.unread: set[str] = set()
        """The ids of records that were read without their side file, because it is missing or was changed."""

    def files(self) -> list[Path]:
        """The log's files, oldest first."""
        return [self.folder / name for name in sizes(self.folder, self.root)]

    @property
    def stamp(self) -> tuple[int, int, int]:
        """Changes with each record. The log with the newest one has the greatest; a log that is gone has zeros."""
        for path in (self.folder / CURRENT, self.folder):
            with suppress(OSError):
                found = os.lstat(path)
                return found.st_mtime_ns, found.st_ino, found.st_size
        return 0, 0, 0

    @property
    def bytes(self) -> int:
        """The size of all its files."""
        return sum(sizes(self.folder, self.root).values())

    def forward(self, wanted: RecordFilter = ALL, *, notes: bool = False) -> Iterator[LogEntry]:
        """The matching records, oldest first. `notes`: also those about the log itself."""
        return self._entries(self.scan(wanted, notes), newest_first=False)

    def backward(self, wanted: RecordFilter = ALL, *, notes: bool = False) -> Iterator[LogEntry]:
        """The matching records, newest first. Reads no more than the caller consumes."""
        return self._entries(self.scan(wanted, notes), newest_first=True)

    def find(self, id_prefix: str, *, notes: bool = False) -> LogEntry | None:
        """The record whose id begins with this. Raises StoreError if there are several."""
        found: LogEntry | None = None
        with closing(self._entries(self.scan(ALL, notes, id_prefix), newest_first=True)) as entries:
            for entry in entries:
                if len(id_prefix) >= _ID_DIGITS:
                    return entry
                if found is not None and found.record.id != entry.record.id:
                    what = f"several record ids begin with `{id_prefix}`: {found.record.id}, {entry.record.id}"
                    raise StoreError(what, place=str(self.folder), hint="use more digits of the id")
                found = found or entry
        return found

    def follow(
        self, wanted: RecordFilter = ALL, since_now: bool = True, poll: float = 0.5, *, notes: bool = False
    ) -> Iterator[LogEntry]:
        """The matching records as they are written, without end; the log may be rotated, removed or missing so far.
        Begins with records that are written after this call, not after the first `next`; without `since_now` with the
        oldest."""
        return Follower(self, since_now=since_now).entries(self.scan(wanted, notes, side_files=True), poll)

    def whole(self, record: Record) -> Record:
        """The record with the fields of its side file. Raises StoreError if that is missing, damaged or another's."""
        if record.side is None:
            return record
        return _merged(record, record.side, _side_file(self.folder, self.root, record.side))

    def scan(self, wanted: RecordFilter, notes: bool, id_prefix: str = "", side_files: bool | None = None) -> _Scan:
        """A query that is ready to run."""
        if side_files is None:
            side_files = wanted is not ALL and self._has_side_files()
        query = Query(wanted, self._filled, notes=notes, id_prefix=id_prefix, side_files=side_files)
        return _Scan(query, self)

    def _entries(self, scan: _Scan, *, newest_first: bool) -> Generator[LogEntry, None, None]:
        with open_log_files(self.folder, self.root) as log:
            if log is not None:
                yield from scan.found(log, newest_first=newest_first)
        if scan.query.looks_at_all:
            self.skipped = scan.foreign

    def _has_side_files(self) -> bool:
        with opened(side_path(self.folder, "").parent, self.root) as folder:
            if folder is None:
                return False
            with os.scandir(folder) as found:
                return next(found, None) is not None

    def _filled(self, record: Record, needles: Group) -> Record:
        """As `whole`, if the side file can be read and contains one of some bytes; otherwise the record unchanged."""
        if record.side is None:
            return record
        try:
            data = _side_file(self.folder, self.root, record.side)
            found = not needles or any(needle in data for needle in needles)
            return _merged(record, record.side, data) if found else record
        except StoreError:
            self.unread.add(record.id)
            return record


def _side_file(folder: Path, root: Path, side: Side) -> bytes:
    data, wrong = read_side(folder, root, side)
    if wrong:
        raise StoreError(f"the side file of a record {wrong}", place=str(side_path(folder, side.sha256)))
    return data


def _merged(record: Record, side: Side, data: bytes) -> Record:
    large = _decoded_by(_OBJECT, data) or {}
    fields = {name: large[name] for name in side.fields if name in large and name not in _FIXED}
    try:
        return msgspec.convert({**msgspec.structs.asdict(record), **fields}, Record)
    except msgspec.MsgspecError as error:
        raise StoreError(f"the side file of record {record.seq} is not valid: {error}", place=side.sha256) from None


# Following a log:


class LogPlace(NamedTuple):
    """Where the next line of a log begins, if the file is still the same."""

    file: int = 0  # its inode
    offset: int = 0


NOWHERE: Final = LogPlace()


def blocks_after(
    folder: Path, root: Path, number: int, known: LogPlace = NOWHERE
) -> Iterator[tuple[LogFile, LineBlock]]:
    """The part of a log with higher numbers, oldest first; some older records may precede it. It begins at the `known`
    place, if the file is still there."""
    with open_log_files(folder, root) as log:
        names = [] if log is None else log.names
        older = (index for index, name in enumerate(names) if name != CURRENT and name <= rotated_name(number + 1))
        for name in names[max(older, default=0) :]:
            assert log is not None
            with log.opened(name) as file:
                if file is not None:
                    for block in forward(file.descriptor, _start(file, number, known), closed=file.closed):
                        yield file, block


def _start(file: LogFile, number: int, known: LogPlace) -> int:
    if known.offset and os.fstat(file.descriptor).st_ino == known.file and known.offset <= file.size:
        return known.offset
    return place_of(file, number + 1) if number else 0


def place_of(file: LogFile, number: int) -> int:
    """The offset of the first record with at least this number; the end of the file if there is none."""
    low, high = 0, file.size
    while high - low > _NEAR:
        middle = (low + high) // 2
        match = NUMBERED_LINE.search(os.pread(file.descriptor, _NEAR, middle))
        if match is None or int(match[1]) >= number:
            high = middle
        else:
            low = middle + match.start() + (match[0][:1] == b"\n")
    for block in forward(file.descriptor, low, closed=file.closed):
        for offset, line in block.lines():
            ends = read_line(line or b"")
            if ends is not None and ends.seq >= number:
                return offset
    return file.size


_NEAR: Final = 256 << 10  # bytes: more than the longest line; a search by number ends within them
NUMBERED_LINE: Final = re.compile(rb"(?:^|\n)" + re.escape(START) + rb"([1-9][0-9]{0,17}),")


class Follower:
    """The position of a reader that follows a log: its last record."""

    def __init__(self, log: LogReader, *, since_now: bool) -> None:
        self._log = log
        self._last = self._newest() if since_now else None
        self._place = NOWHERE

    def entries(self, scan: _Scan, poll: float) -> Iterator[LogEntry]:
        """New records, without end: checks every `poll` seconds."""
        while True:
            yield from self._news(scan)
            time.sleep(poll)

    def _newest(self) -> Record | None:
        newest = next(self._log.backward(notes=True), None)
        return None if newest is None else newest.record

    def _news(self, scan: _Scan) -> Iterator[LogEntry]:
        newest, last = self._newest(), self._last
        if newest is None or (last and (newest.seq, newest.hash) == (last.seq, last.hash)):
            return
        if last and newest.seq <= last.seq:  # the log was removed, and begun again
            last, self._place = None, NOWHERE
        self._last, number = newest, last.seq if last else 0
        for file, block in blocks_after(self._log.folder, self._log.root, number, self._place):
            self._place = LogPlace(os.fstat(file.descriptor).st_ino, block.offset + len(block.data))
            for entry in scan.in_block(block, file):
                if entry.record.seq > number:
                    self._last = max(self._last, entry.record, key=lambda one: one.seq)
                    yield entry
