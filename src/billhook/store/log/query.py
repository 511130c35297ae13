"""ripgrep, where it is installed, tells the places of some bytes in long files sooner than Python does.

It only says where to look: every line that it names is read and judged by us, and when it fails, or is not there, the
files are searched without it.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from billhook.core import strictjson
from billhook.core.errors import StrictJSONError
from billhook.store.log import files as log_files
from billhook.store.log.files import LogFile, LogFiles, quick_find
from billhook.store.log.record import Record, Wanted

FILES_AT_ONCE: Final = 8
"""For one process of it: enough that its start does not count, and few enough to show how far we are."""
_FEWEST_BYTES: Final = 16 << 20  # fewer are searched while ripgrep is still starting
_LONGEST_NEEDLES: Final = 64 << 10  # bytes: the system takes 128 KiB for one argument
_MOST_OUTPUT: Final = 4 << 20  # Bytes. What is in so many lines is found sooner by reading all of them.
_PATIENCE: Final = 600.0  # Seconds. They are regular files, so nothing real takes that long.
_FLAGS: Final = ("--no-config", "--fixed-strings", "--text", "--encoding=none", "--no-mmap", "--color=never",
                 "--case-sensitive", "--no-line-number", "--with-filename", "--null", "--no-heading", "--byte-offset",
                 "--max-columns=1", "--no-messages")  # fmt: skip


def match_places(files: Sequence[int], needles: Sequence[bytes]) -> dict[int, list[int]]:
    """By open file: where the lines begin that have a needle, in order. Empty when ripgrep can't tell."""
    path = program()
    if path is None or sum(map(len, needles)) > _LONGEST_NEEDLES:
        return {}
    if sum(os.fstat(file).st_size for file in files) < _FEWEST_BYTES:
        return {}
    # By descriptor, not by name: what is searched is what we opened, whatever lies at that name now.
    names = {os.fsencode(f"/dev/fd/{file}"): file for file in files}
    patterns = [word for needle in needles for word in (b"-e", needle)]
    try:
        output = _output([os.fsencode(path), *map(os.fsencode, _FLAGS), *patterns, b"--", *names], files)
        return {} if output is None else _read(output, names)
    except (OSError, ValueError, KeyError):
        return {}


def _output(argv: list[bytes], files: Sequence[int]) -> bytes | None:
    """What it prints; None when it fails, or has too much to say."""
    import subprocess
    import threading

    silent = subprocess.DEVNULL
    with subprocess.Popen(argv, stdin=silent, stdout=subprocess.PIPE, stderr=silent, pass_fds=files) as child:
        watch = threading.Timer(_PATIENCE, child.kill)
        watch.daemon = True
        watch.start()
        try:
            output = child.stdout.read(_MOST_OUTPUT + 1) if child.stdout else b""
            if len(output) > _MOST_OUTPUT:
                child.kill()
            child.wait()
        except BaseException:  # somebody has pressed Ctrl-C
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
    # What a relative entry of PATH leads to is whatever lies in this folder.
    return found if found is not None and os.path.isabs(found) else None


def _read(output: bytes, names: dict[bytes, int]) -> dict[int, list[int]]:
    """Lines such as `/dev/fd/7 NUL 12345:something`, those of one file together and in order."""
    found: dict[int, list[int]] = {file: [] for file in names.values()}
    for line in output.split(b"\n")[:-1]:
        name, rest = line.split(b"\0", 1)
        found[names[name]].append(int(rest[: rest.index(b":")]))
    return found


# Which records somebody wants:


Group = tuple[bytes, ...]  # one of these must be in a line

SIDE: Final = b'"side":{'
"""In every line whose record has a side file. Inside a text it would be written with backslashes."""
_FEWEST_DIGITS: Final = 8
"""Ids and hashes are found from this many digits on: `bad` and `cafe` would be in too many of them."""
_LAYERS: Final = frozenset({"managed", "user", "explicit", "project", "local", "built-in"})
"""Where hooks come from. A record says it before the name of a hook that is not the only one of its name."""
_ASKED: Final = frozenset({"session_id", "tool", "decision", "project"})
"""Fields that are compared and go to a side file only when the rest of the record is too long by itself."""


def spellings(text: str) -> Group:
    """How the writer may spell a text inside quotes.

    Two ways for a text with a DEL in it: it is written as it is, or escaped when something else in the same value is
    beyond ASCII. All other characters have one way.
    """
    plain = strictjson.encode(text)[1:-1]
    return (plain, plain.replace(b"\x7f", b"\\u007f")) if b"\x7f" in plain else (plain,)


def readable(wanted: Wanted) -> Wanted:
    """The same wish in characters as they come out of a log: two halves of a surrogate pair are one there."""
    if (wanted.text or "").isascii() and (wanted.hook or "").isascii():
        return wanted
    return msgspec.structs.replace(wanted, text=_joined(wanted.text), hook=_joined(wanted.hook))


def _joined(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def groups(wanted: Wanted, *, side_files: bool) -> list[Group]:
    """What a wanted line has among its bytes: of each group something. The most telling group first."""
    found = []
    if wanted.text:
        found.append(spellings(wanted.text))
    if wanted.hook is not None:
        found.append(tuple(a + one + z for one in spellings(wanted.hook) for a in (b'"', b"/") for z in (b'"', b"#")))
    for field, values, default in _exact(wanted):
        if default not in values:  # it may be left out of a line
            name = field.encode()
            found.append(tuple(b'"%b":"%b"' % (name, one) for value in sorted(values) for one in spellings(value)))
    # Almost any field may lie in the side file.
    return [(*group, SIDE) for group in found] if side_files else found


def _exact(wanted: Wanted) -> list[tuple[str, frozenset[str], str | None]]:
    """Fields that must have one of some values: name, values, what the field is when the line does not say."""
    project = None if wanted.project is None else frozenset((wanted.project,))
    fields = (("session_id", wanted.sessions, ""), ("tool", wanted.tools, None), ("decision", wanted.decisions, "none"),
              ("event", wanted.events, None), ("project", project, ""))  # fmt: skip
    return [(field, values, default) for field, values, default in fields if values is not None]


def may_match(line: bytes, others: list[Group], wanted: Wanted) -> bool:
    """Whether a line's bytes have something of every group, and its time is not out of bounds."""
    for group in others:
        if not any(one in line for one in group):
            return False
    if wanted.since is None and wanted.until is None:
        return True
    begin = line.find(b'"time":"') + 8
    end = line.find(b'"', begin)
    return begin < 8 or end < 0 or _in_time(line[begin:end].decode("ascii", "replace"), wanted)


def _in_time(time: str, wanted: Wanted) -> bool:
    return (wanted.since is None or time >= wanted.since) and (wanted.until is None or time <= wanted.until)


def matches(record: Record, wanted: Wanted, filled: Callable[[Record, Group], Record]) -> bool:
    """Whether it is wanted. `filled` adds what lies in a side file: of any, or of one that has some bytes."""
    if record.side is not None and not _ASKED.isdisjoint(record.side.fields):
        record = filled(record, ())
    if not _fields_match(record, wanted) or (wanted.hook is not None and not _asked(record, wanted.hook, filled)):
        return False
    text = wanted.text
    return not text or says(record, text) or (record.side is not None and says(filled(record, spellings(text)), text))


def _asked(record: Record, hook: str, filled: Callable[[Record, Group], Record]) -> bool:
    if record.side is not None and not {"outcomes", "not_asked"}.isdisjoint(record.side.fields):
        record = filled(record, spellings(hook))
    return any(called(name, hook) for name in hooks_of(record))


def hooks_of(record: Record) -> list[str]:
    """The hooks that a record names: those that were asked, and then those that were not."""
    return list(dict.fromkeys((*(said.hook for said in record.outcomes), *record.not_asked)))


def called(shown: str, name: str) -> bool:
    """Whether a hook that a record shows so is called that.

    A name alone means every hook of that name: `guard` is also what stands there as `project/guard` while there is
    another one, or as `project/guard#2`. With its layer, or its number, it means that one only.
    """
    if shown == name:
        return True
    layer, slash, rest = shown.partition("/")
    plain = rest if slash and layer in _LAYERS else shown
    base, _, number = plain.rpartition("#")
    return name == plain or (name == base and number.isdecimal())


def _fields_match(record: Record, wanted: Wanted) -> bool:
    return (  # spelt out: it is asked of every record of a log
        (wanted.sessions is None or record.session_id in wanted.sessions)
        and (wanted.events is None or record.event in wanted.events)
        and (wanted.tools is None or record.tool in wanted.tools)
        and (wanted.decisions is None or record.decision in wanted.decisions)
        and (wanted.since is None or record.time >= wanted.since)
        and (wanted.until is None or record.time <= wanted.until)
        and (wanted.project is None or record.project == wanted.project)
    )


def says(record: Record, text: str) -> bool:
    """Whether a text is in what the record says: in a text, a key or a number of it.

    The names of the record's own fields, its place in the chain and its measured times don't count, and ids and hashes
    only from their beginning and from eight digits on: nobody who looks for `reason` or `bad` means those.
    """
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
    """Whether a text is in one of the strings, keys or numbers of a JSON value, however deep."""
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


# From the lines of a log to the records that somebody wants.


Kind = TypeVar("Kind")
Lines = Iterable[tuple[int, bytes | None]]  # lines with their offsets; None for one that is too long to be looked at
_DEEPEST: Final = 500  # what an agent sends is refused beyond 400

_MANY_BLOCKS: Final = 16  # after these it pays to have a quicker way to find things


class LogEntry(NamedTuple):
    """A record, and where it stands."""

    record: Record
    line: bytes  # as it is in the file, without the newline
    file: Path
    offset: int


class Sought:
    """One question to a log: what its lines must have among their bytes, and what its records must be.

    `filled` adds what lies in a record's side file; `met` is told how many lines were none of ours.
    """

    def __init__(
        self,
        wanted: Wanted,
        filled: Callable[[Record, Group], Record],
        met: Callable[[int], None],
        *,
        notes: bool = False,
        id_prefix: str = "",
        side_files: bool = True,
    ) -> None:
        self._wanted = wanted = readable(wanted)
        self._filled = filled
        self._met = met
        self._notes = notes
        self._id_prefix = id_prefix
        found = groups(wanted, side_files=side_files)
        if id_prefix:
            found.insert(0, tuple(b'"id":"' + one for one in spellings(id_prefix)))
        self._is_rare = bool(wanted.text or id_prefix)
        self._first = found[0] if found else None
        self._others = found[1:]
        self._seen = 0
        self.foreign = 0  # lines met so far that are none of ours

    @property
    def looks_at_all(self) -> bool:
        """Whether every line is looked at, and none is passed over for its bytes."""
        is_dated = self._wanted.since is not None or self._wanted.until is not None
        return self._first is None and not self._others and not is_dated

    def _meet(self, foreign: int) -> None:
        self.foreign += foreign
        self._met(foreign)

    def batches(self, names: Sequence[str], *, newest_first: bool) -> list[Sequence[str]]:
        """Which files are looked at together. From the end we mostly stop soon: there the first file comes alone."""
        if not self._is_rare or program() is None:
            return [[name] for name in names]
        cuts = [0, *range(int(newest_first), len(names), FILES_AT_ONCE), len(names)]
        return [names[a:b] for a, b in pairwise(cuts) if a < b]

    def places(self, files: Sequence[LogFile]) -> dict[int, list[int]]:
        """By descriptor: where the rare thing is that somebody searches for. Empty when there is no quick way."""
        if self._first is None or not self._is_rare:
            return {}
        return match_places([file.descriptor for file in files], self._first)

    def lines(self, block: log_files.LineBlock, *, newest_first: bool = False) -> Lines:
        """The lines of a block that may be wanted."""
        self._meet(block.lost)
        self._seen += 1
        if self._first is None:
            found = block.lines()
        else:
            is_long = self._seen > _MANY_BLOCKS
            found = block.lines_with(self._first, quick_find(block.data) if is_long else block.data.find)
        return reversed(found) if newest_first else found

    def entries(self, lines: Lines, file: LogFile) -> Iterator[LogEntry]:
        """The wanted records among some lines."""
        for offset, line in lines:
            if line is None:
                self._meet(1)
            elif may_match(line, self._others, self._wanted):
                record = decoded(line)
                if record is None:
                    self._meet(line != b"")
                elif self._is_sought(record):
                    yield LogEntry(record, line, file.path, offset)

    def _is_sought(self, record: Record) -> bool:
        told = (self._notes or record.note is None) and record.id.startswith(self._id_prefix)
        return told and matches(record, self._wanted, self._filled)


def steps(log: LogFiles, sought: Sought, *, newest_first: bool) -> Iterator[tuple[LogFile, int, Lines]]:
    """A log in steps: the file, how many bytes are behind us after each, and the lines that may be wanted."""
    names = log.names[::-1] if newest_first else log.names
    for number, batch in enumerate(sought.batches(names, newest_first=newest_first)):
        with ExitStack() as held:
            files = [file for name in batch if (file := held.enter_context(log.opened(name)))]
            places = {} if newest_first and not number else sought.places(files)
            for file in files:
                if file.descriptor in places:
                    there = places[file.descriptor]
                    yield file, file.size, log_files.lines_at(file.descriptor, there[::-1] if newest_first else there)
                    continue
                if newest_first:
                    found = log_files.backward(file.descriptor, file.size, closed=file.closed)
                else:
                    found = log_files.forward(file.descriptor, closed=file.closed)
                for block in found:
                    yield file, block.stop - block.start, sought.lines(block, newest_first=newest_first)


def decoded(line: bytes) -> Record | None:
    """The record of one line; None when it is none of ours, whatever it is."""
    return decoded_as(_RECORD, line, Record) if line.startswith(b'{"v":') else None


def decoded_as(decoder: "msgspec.json.Decoder[Kind]", data: bytes, kind: type[Kind]) -> Kind | None:
    """What a decoder makes of some bytes; None when they are not what it reads.

    Lone surrogates, which the writer writes, are beyond the quick decoder.
    """
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        if not data.isascii():
            return None
    try:
        return msgspec.convert(strictjson.loads_leniently(data, max_depth=_DEEPEST), kind)
    except (StrictJSONError, msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


_RECORD = msgspec.json.Decoder(Record)
