"""A query of the event log: filters compiled into a test of a line's bytes and a test of its record.

If ripgrep is installed, it finds bytes in long files faster than Python. It only finds candidates: every line is read
and tested here. If ripgrep fails or is missing, the files are searched without it.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from billhook.core import strictjson
from billhook.store.log import Record, Wanted

FILES_AT_ONCE: Final = 8
"""For one ripgrep process: enough to outweigh its start, and few enough to show progress."""
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


# Filters:

Group = tuple[bytes, ...]  # one of these must be in a line
Filled = Callable[[Record, Group], Record]  # adds the fields of the side file, if that contains one of some bytes

_SIDE: Final = b'"side":{'
"""In every line whose record has a side file. Inside a string the quotes would be escaped."""
_FEWEST_DIGITS: Final = 8
"""Ids and hashes match from this many digits on: `bad` and `cafe` would match too many."""
_LAYERS: Final = frozenset({"managed", "user", "explicit", "project", "local", "built-in"})
"""Where hooks come from. In a record it is a prefix of names that several hooks share."""
_COMPARED: Final = frozenset({"session_id", "tool", "decision", "project"})
"""Fields that are compared. They go to a side file only if the other fields are too long by themselves."""


class Query:
    """The predicate of one query: a test of bytes, then of records."""

    def __init__(
        self, wanted: Wanted, filled: Filled, *, notes: bool = False, id_prefix: str = "", side_files: bool = True
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
        """Whether the record matches."""
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
        if not text or says(record, text):
            return True
        return record.side is not None and says(self._filled(record, spellings(text)), text)


def spellings(text: str) -> Group:
    """How the writer may encode a string inside quotes.

    A DEL has two encodings: it is escaped only if another character of the same value is not ASCII. All other
    characters have one encoding.
    """
    plain = strictjson.encode(text)[1:-1]
    return (plain, plain.replace(b"\x7f", b"\\u007f")) if b"\x7f" in plain else (plain,)


def _joined(text: str | None) -> str | None:
    """The text as a log contains it: two halves of a surrogate pair are one character there."""
    return None if text is None else text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _exact(wanted: Wanted) -> list[tuple[str, frozenset[str], str | None]]:
    """Fields that must have one of some values: name, values, the default if the line does not have the field."""
    project = None if wanted.project is None else frozenset((wanted.project,))
    fields = (("session_id", wanted.sessions, ""), ("tool", wanted.tools, None), ("decision", wanted.decisions, "none"),
              ("event", wanted.events, None), ("project", project, ""))  # fmt: skip
    return [(field, values, default) for field, values, default in fields if values is not None]


def hooks_of(record: Record) -> list[str]:
    """The hooks in a record: first those that ran, then those that were skipped."""
    return list(dict.fromkeys((*(said.hook for said in record.outcomes), *record.not_asked)))


def called(shown: str, name: str) -> bool:
    """Whether the hook with this name in a record matches the given name.

    A name alone means every hook of that name: `guard` also matches `project/guard` and `project/guard#2`, which a
    record contains if several hooks have the name. With a layer or a number it means only that hook.
    """
    if shown == name:
        return True
    layer, slash, rest = shown.partition("/")
    plain = rest if slash and layer in _LAYERS else shown
    base, _, number = plain.rpartition("#")
    return name == plain or (name == base and number.isdecimal())


def says(record: Record, text: str) -> bool:
    """Whether a record contains some text: in a string, a key or a number.

    The names of the record's fields, its place in the chain and its measured times don't count, and ids and hashes
    match only from their beginning and from eight digits on: a search for `reason` or `bad` does not mean those.
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
