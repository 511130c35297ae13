"""Which records somebody wants: told from a line's bytes where that is sound, and then from the record itself.

A line is decoded only when its bytes may be wanted. The bytes that are looked for are those that the writer makes of
a text; a line in another spelling of JSON was not written by billhook.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from billhook import strictjson
from billhook.store.record import Record, Wanted

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
