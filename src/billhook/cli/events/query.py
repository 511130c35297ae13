"""The logs that a command reads: this project's, or those of the projects in which the named sessions ran."""

import functools
import heapq
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import msgspec

from billhook.cli import times
from billhook.cli.options import flag, option, with_options
from billhook.cli.options import words as split
from billhook.cli.screen import FAILED
from billhook.core import strictjson, tools
from billhook.core.answers import Decision
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS
from billhook.core.text import folded, suggestion
from billhook.serve.hook_server import canonical
from billhook.store import sessions as names
from billhook.store.files import StoreError, log_folder, opened, read_in, state_root
from billhook.store.log import Record, RecordFilter
from billhook.store.log.pages import MachineLogs
from billhook.store.log.reader import LogEntry, LogReader
from billhook.store.sessions import VERBS, SessionRecord, Sessions
from billhook.store.state import FOLDERS, LARGEST, FileState


class LogScope(NamedTuple):
    """The project and the state root of a query. Independent of the configuration, which may be broken."""

    project: str
    root: Path

    def reader(self, project: str = "") -> LogReader:
        return LogReader(log_folder(self.root, project or self.project), self.root)


def here() -> LogScope:
    """The project of the working directory, and the state root."""
    from billhook.config import sources
    from billhook.config.loader import existing_folder

    return LogScope(sources.find(existing_folder(".")).project, state_root())


def every_log(where: LogScope) -> list[LogReader]:
    """The logs of all projects, the most recently changed first."""
    return MachineLogs(where.root).all()


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the matching records are shown. The order is always oldest first."""

    first: int | None = None
    last: int | None = None
    limit: int | None = None  # 0: all
    offset: int = 0

    @property
    def end(self) -> int | None:
        """The number of records to read, including those that the offset skips; None: all."""
        numbers = [one for one in (self.first, self.last, self.limit or None) if one is not None]
        return self.offset + min(numbers) if numbers else None

    @property
    def given(self) -> bool:
        """Whether the user gave a number of records."""
        return not self.first is self.last is self.limit is None


class Logs:
    """The matching records of one or several logs, as if these were one log."""

    def __init__(
        self,
        wanted: Mapping[str, RecordFilter],
        here: LogScope,
        keep: Callable[[Record], bool] | None = None,
        *,
        notes: bool = False,
    ) -> None:
        """`wanted`: the filters for each project's log; `keep`: one more filter. `notes`: also the log's notes.

        Whether a record belongs to the project is checked here, not in `wanted`: without other filters, every line is
        read, and lines that billhook did not write are counted.
        """
        self.here = here
        self._by_folder: dict[Path, LogReader] = {}
        self._wanted: list[tuple[LogReader, RecordFilter]] = []
        for project, of_it in wanted.items():  # two projects may share a folder
            reader = here.reader(project)
            self._wanted.append((self._by_folder.setdefault(reader.folder, reader), of_it))
        self._projects: frozenset[str] | None = frozenset(wanted)
        self._keep = keep
        self._notes = notes

    @classmethod
    def of_all(
        cls,
        readers: Iterable[LogReader],
        wanted: RecordFilter,
        here: LogScope,
        keep: Callable[[Record], bool] | None,
        *,
        notes: bool = False,
    ) -> "Logs":
        """The matching records of all projects in some logs."""
        logs = cls({}, here, keep, notes=notes)
        logs._wanted = [(reader, wanted) for reader in readers]
        logs._by_folder = {reader.folder: reader for reader, _ in logs._wanted}
        logs._projects = None
        return logs

    @property
    def readers(self) -> list[LogReader]:
        return list(self._by_folder.values())

    @property
    def foreign(self) -> int | None:
        """The number of lines that billhook did not write; None if it is unknown, because filters skip most lines."""
        return known_sum(reader.skipped for reader in self.readers)

    @property
    def unread(self) -> int:
        """The number of records so far that could not be read completely."""
        return sum(len(reader.unread) for reader in self.readers)

    def forward(self, *, notes: bool = False) -> Iterator[LogEntry]:
        notes = notes or self._notes
        each = [reader.forward(wanted, notes=notes) for reader, wanted in self._wanted]
        return self._filtered(_merged(each, newest_first=False))

    def backward(self) -> Iterator[LogEntry]:
        """Newest first; reads no more than needed."""
        each = [reader.backward(wanted, notes=self._notes) for reader, wanted in self._wanted]
        return self._filtered(_merged(each, newest_first=True))

    def chosen(self, part: Slice, *, notes: bool = False) -> Iterator[LogEntry]:
        """The chosen part, oldest first. Without `--first`, the offset counts from the newest."""
        if part.first is not None:
            return islice(self.forward(), part.offset, part.end)
        if part.end is not None:
            newest = list(islice(self.backward(), part.offset, part.end))
            return iter(newest[::-1])
        return _all_but_last(self.forward(notes=notes), part.offset)

    def followed(self, newest: Slice) -> Iterator[LogEntry]:
        """The newest, and then new ones, for ever. Raises UsageError for more than one log."""
        if len(self._wanted) > 1:
            raise UsageError("these sessions belong to several projects", hint="follow one of them at a time")
        reader, wanted = self._wanted[0]
        # started before the existing records are read, so that none is missed
        coming = self._filtered(reader.follow(wanted, notes=self._notes))
        shown = 0
        for entry in self.chosen(newest):
            shown = entry.record.seq
            yield entry
        for entry in coming:
            if entry.record.seq > shown:
                shown = 0  # from here on all are new, even if the log is removed and starts again
                yield entry

    def whole(self, entry: LogEntry) -> Record:
        """The record with the content of its side file; without it if that can't be read."""
        try:
            return self._by_folder[entry.file.parent].whole(entry.record)
        except StoreError:
            return entry.record

    def count(self) -> int:
        """The number of records, including the log's notes: they are numbered without gaps."""
        ends = [(next(one.backward(notes=True), None), next(one.forward(notes=True), None)) for one in self.readers]
        return sum(newest.record.seq - oldest.record.seq + 1 for newest, oldest in ends if newest and oldest)

    def matching(self, entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
        """Those of some records, read elsewhere, that match. All logs have the same filter."""
        for reader, wanted in self._wanted[:1]:
            found = reader.scan(wanted, self._notes, side_files=False).query
            yield from self._filtered(one for one in entries if found.may_match(one.line) and found.matches(one.record))

    def _filtered(self, entries: Iterator[LogEntry]) -> Iterator[LogEntry]:
        for entry in entries:
            elsewhere = self._projects is not None and entry.record.project not in self._projects
            if elsewhere and entry.record.note is None:
                continue
            if self._keep is None or self._keep(self.whole(entry)):
                yield entry


def known_sum(numbers: Iterable[int | None]) -> int | None:
    """The sum; None if one of them is unknown."""
    known = list(numbers)
    return None if None in known else sum(number for number in known if number is not None)


def line_of(entry: LogEntry, whole: Record) -> bytes:
    """The complete record as one line of JSON: the line of the log, with the content of its side file, and with the
    original event as `payload` at the end."""
    line, side = entry.line, entry.record.side
    if side is not None or not line.isascii() or b"\x7f" in line:  # an edited line may contain escape sequences
        data: dict[str, Any] = strictjson.loads_leniently(line, max_depth=500)  # keeps fields of later versions
        fields = side.fields if side else ()
        data |= {field: msgspec.to_builtins(getattr(whole, field)) for field in fields if hasattr(whole, field)}
        line = strictjson.encode(data)
    if whole.note is not None or not line.endswith(b"}"):
        return line
    return b'%b,"payload":%b}' % (line[:-1], strictjson.encode(msgspec.to_builtins(whole.payload)))


def _merged(each: Sequence[Iterator[LogEntry]], *, newest_first: bool) -> Iterator[LogEntry]:
    if len(each) == 1:
        return each[0]
    return heapq.merge(*each, key=lambda entry: entry.record.time, reverse=newest_first)


def _all_but_last(entries: Iterator[LogEntry], number: int) -> Iterator[LogEntry]:
    held: deque[LogEntry] = deque()
    for entry in entries:
        held.append(entry)
        if len(held) > number:
            yield held.popleft()


# Which sessions the user named:
FEWEST: Final = 6  # characters of an id that are enough to name it
_RECORD = re.compile(r"[1-9][0-9]*|0[0-9a-f]{11,31}")
_NAMED = 8  # sessions that a hint names

Ids = dict[str, frozenset[str]]  # session ids by project


class SessionNames:
    """The present names of sessions. The log has the names at the time of the events."""

    def __init__(self, here: LogScope) -> None:
        self._sessions = Sessions(FileState(here.root))
        self._known: dict[str, str] = {}

    def of(self, record: Record) -> str:
        """The session's name, or else the first characters of its id; empty for a record without a session."""
        return self.name(record) or record.session_id[:8]

    def name(self, record: Record) -> str:
        """The session's name; empty if it has none."""
        key = record.session_id
        if key not in self._known:
            found = None
            with suppress(StoreError):
                found = self._sessions.get(key) if key else None
            self._known[key] = found.name if found and found.name else record.session_name
        return self._known[key]


def named_sessions(words: Iterable[str], here: LogScope) -> Ids:
    """The named sessions; each word may contain several, separated by commas. Empty if the only word is `.` and the log
    is empty. Raises UsageError for an unknown session, and if there is no word."""
    found: dict[str, frozenset[str]] = {}
    for word in split(words) or ("",):
        for project, ids in sessions_called(word, here).items():
            found[project] = found.get(project, frozenset()) | ids
    return found


def sessions_called(word: str, here: LogScope) -> Ids:
    """The sessions that one word names. A complete id comes before names."""
    if not word:
        hint = "`.` is the newest session here; `billhook events list` shows all of them"
        raise UsageError("the name of the session is empty", hint=hint)
    if word == ".":
        newest = newest_session(here)
        return {} if newest is None else {here.project: frozenset((newest,))}
    ids = _by_id(word, here) or next(filter(None, (_matches(word, known) for known in _known(word, here))), {})
    if not ids:
        raise _unknown(word, here)
    return ids


def newest_session(here: LogScope) -> str | None:
    """The session of the newest record here that has one; empty if no record has one; None if there are no records."""
    newest = None
    for entry in here.reader().backward(RecordFilter(project=here.project)):
        newest = entry.record.session_id
        if newest:
            break
    return newest


def _by_id(word: str, here: LogScope) -> Ids:
    sessions = Sessions(FileState(here.root))
    if any(session.session_id == word for session in sessions.recent(here.project)):
        return {here.project: frozenset((word,))}
    found = sessions.get(word)
    if found is not None:
        return {found.project: frozenset((word,))}
    adjective, _, animal = word.partition("-")
    made_up = adjective in names.ADJECTIVES and animal.partition("-")[0] in names.ANIMALS
    # names that billhook makes up are never ids, so the log need not be searched for them
    return {here.project: frozenset((word,))} if not made_up and is_logged(word, here) else {}


def is_logged(session_id: str, here: LogScope) -> bool:
    wanted = RecordFilter(sessions=frozenset((session_id,)), project=here.project)
    return next(here.reader().backward(wanted), None) is not None


def _known(word: str, here: LogScope) -> Iterator[Iterable[tuple[str, str, str]]]:
    """Project, id and name of candidates: this project's recent sessions; those in its log, which may have no name or
    be forgotten; all sessions with a name."""
    recent = Sessions(FileState(here.root)).recent(here.project)
    yield ((here.project, session.session_id, session.name) for session in recent)
    logged = here.reader().forward(RecordFilter(text=word, project=here.project))
    yield ((here.project, entry.record.session_id, entry.record.session_name) for entry in logged)
    yield ((session.project, session.session_id, session.name) for session in every_session(here))


def _matches(word: str, known: Iterable[tuple[str, str, str]]) -> Ids:
    """The sessions of that name; else the one whose id begins with the word, if that is long enough. Raises UsageError
    if several do."""
    named: dict[str, set[str]] = {}
    begun: set[tuple[str, str]] = set()
    for project, id_, name in known:
        if name == word:
            named.setdefault(project, set()).add(id_)
        elif len(word) >= FEWEST and id_.startswith(word):
            begun.add((project, id_))
    if named:
        return {project: frozenset(ids) for project, ids in named.items()}
    if len(begun) > 1:
        ids = ", ".join([id_ for _, id_ in sorted(begun)][:_NAMED])
        raise UsageError(f"the ids of {len(begun)} sessions begin with `{word}`", hint=f"use more characters: {ids}")
    return {project: frozenset((id_,)) for project, id_ in begun}


def every_session(here: LogScope) -> Iterator[SessionRecord]:
    path = here.root / FOLDERS["sessions"]
    with opened(path, here.root) as folder:
        if folder is None:
            return
        for name in os.listdir(folder):
            if not name.endswith(".json"):
                continue
            try:
                yield msgspec.json.decode(read_in(folder, path / name, LARGEST) or b"", type=SessionRecord)
            except (StoreError, msgspec.MsgspecError, UnicodeDecodeError):
                continue  # another program's file, or just removed


def _unknown(word: str, here: LogScope) -> UsageError:
    recent = Sessions(FileState(here.root)).recent(here.project)
    known = [*dict.fromkeys(session.name for session in recent), *(session.session_id for session in recent), *VERBS]
    if word in VERBS:
        hint = f"`{word}` is a command; `billhook events list` shows the sessions"
        return UsageError(f"no session is called `{word}`", hint=hint)
    hint = suggestion(word, known)
    if not hint.startswith("did you mean"):
        hint = "`billhook events list` shows the sessions of this project, --all those of every project"
    if _RECORD.fullmatch(word):
        hint = f"`billhook events show {word}` shows a record by its number or id"
    if 0 < len(word) < FEWEST and any(session.session_id.startswith(word) for session in recent):
        hint = f"use at least {FEWEST} characters of an id"
    return UsageError(f"no session `{word}`", hint=hint)


# The filters of `billhook events` and its commands:
_DECISIONS = {one.value: one.value for one in Decision} | {
    "block": "deny", "blocked": "deny", "denied": "deny", "approve": "allow", "approved": "allow", "allowed": "allow",
    "asked": "ask", "deferred": "defer",
}  # fmt: skip
_NOTES = "log"  # the event name of the log's notes

Verb = Callable[..., Any]


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    sessions: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    decisions: frozenset[str] | None = None
    hook: str | None = None
    failed: bool = False
    since: str | None = None
    until: str | None = None
    text: str | None = None


def filter_options(verb: Verb) -> Verb:
    """The filter options. The verb gets them, and its `sessions`, as `filters`."""

    @functools.wraps(verb)
    def with_filters(**given: Any) -> Any:
        taken = {name: given.pop(name) for name in Filters.__struct_fields__ if name in given}
        if taken["since"] and taken["until"] and taken["since"] > taken["until"]:
            raise UsageError("--since is later than --until", hint="swap them")
        return verb(filters=Filters(**taken), **given)

    return with_options(_OPTIONS, with_filters)


def _words(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    found = split(value)
    if value and not found:
        raise UsageError(f"{param.opts[0]} is empty", hint=f"`{ctx.command_path} --help` shows the usage")
    return found


def _decisions(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> frozenset[str] | None:
    found = _words(ctx, param, value)
    for word in found:
        if word.lower() not in _DECISIONS:
            raise UsageError(f"no decision `{word}`", hint=suggestion(word, [one.value for one in Decision]))
    return frozenset(_DECISIONS[word.lower()] for word in found) or None


_OPTIONS = (
    option("--event", "-e", "events", "E,..",
           "Only these events, in any spelling; `log` selects notes about the log itself, such as "
           "one about a damaged line.",
           multiple=True, callback=_words),
    option("--tool", "-t", "tools", "T,..",
           "Only these tools, by their names in any supported agent.", multiple=True, callback=_words),
    option("--decision", "-d", "decisions", "D,..",
           "Only these decisions: none, allow, ask, defer, deny.", multiple=True, callback=_decisions),
    option("--hook", "H",
           "Only events for which this hook ran, or was skipped although it matched; `guard` also matches "
           "project/guard and user/guard#2."),
    flag("--failed", "Only events for which a hook failed, timed out or could not start."),
    times.option("--since", "--from-time", "since", end=False,
                 help="The start: 1h, 30m, 2d (ago), 22:00, yesterday, a date, or ISO 8601 (local time unless it "
                 "has a zone)."),
    times.option("--until", "--to-time", "until", end=True,
                 help="The end, inclusive; a date alone means the end of that day."),
)  # fmt: skip


def number(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    """Checks a count: 0 or more."""
    if value is not None and value < 0:
        raise UsageError(f"{param.opts[0]} must not be negative, but is {value}", hint=f"as in {param.opts[0]} 5")
    return value


def slice_options(limit: str) -> Callable[[Verb], Verb]:
    """`--last`, `--first`, `--limit`, `--offset`, which the verb gets as `part`; `limit` describes the default."""
    texts = {
        ("--last", "-n", "last"): "The newest N.",
        ("--first", "first"): "The oldest N.",
        ("--limit", "limit"): f"At most N, the newest unless --first is given; 0: all.  [default: {limit}]",
        ("--offset", "offset"): "Skip the newest N; with --first, the oldest N.",
    }
    options = [option(*names, "N", text, type=int, callback=number) for names, text in texts.items()]

    def sliced(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def with_part(first: int | None, last: int | None, limit: int | None, offset: int | None, **given: Any) -> Any:
            if first is not None and last is not None:
                raise UsageError("--first and --last can't be combined", hint="leave one of them out")
            return verb(part=Slice(first=first, last=last, limit=limit, offset=offset or 0), **given)

        return with_options(options, with_part)

    return sliced


def json_options(
    text: str = "One line of JSON for each. The default in a pipe.", human: str = "The table, also in a pipe."
) -> Callable[[Verb], Verb]:
    """`--json` and `--human`. The verb gets `in_json`: --json was given, or standard output is not a terminal."""

    def with_options(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def with_format(as_json: bool, human: bool, **given: Any) -> Any:
            if as_json and human:
                raise UsageError("--json and --human can't be combined", hint="leave one of them out")
            on_terminal = sys.stdout is not None and sys.stdout.isatty()
            return verb(in_json=as_json or not (human or on_terminal), **given)

        return flag("--json", "as_json", text)(flag("--human", human)(with_format))

    return with_options


def chosen(filters: Filters, here: LogScope) -> Logs:
    """The matching records; no logs if the session is `.` and the log is empty."""
    ids = named_sessions(filters.sessions, here) if filters.sessions else {here.project: None}
    events = frozenset(_events(filters.events, here, ids or {here.project: None}))
    wanted = record_filter(filters, events, frozenset(_tools(filters.tools, here)))
    each = {project: msgspec.structs.replace(wanted, sessions=sessions) for project, sessions in ids.items()}
    return Logs(each, here, failed if filters.failed else None, notes=_NOTES in events)


def of_all(filters: Filters, readers: Iterable[LogReader], here: LogScope) -> Logs:
    """The matching records of all projects in some logs. Sessions are named by id, its beginning, or their name."""
    events = frozenset(_NOTES if folded(word) == _NOTES else canonical(word) or word for word in filters.events)
    wanted = record_filter(filters, events, frozenset(map(tools.canonical, filters.tools)))
    sessions = split(filters.sessions)

    def matches(record: Record) -> bool:
        named = (record.session_name == one or record.session_id.startswith(one) for one in sessions)
        return (not sessions or any(named)) and (not filters.failed or failed(record))

    return Logs.of_all(readers, wanted, here, matches if sessions or filters.failed else None, notes=_NOTES in events)


def record_filter(filters: Filters, events: frozenset[str], tools: frozenset[str]) -> RecordFilter:
    """The filter of a log for these options. `events` and `tools` have canonical names."""
    return RecordFilter(
        events=events or None,
        tools=tools or None,
        decisions=filters.decisions,
        hook=plain_hook(filters.hook),
        since=filters.since,
        until=filters.until,
        text=filters.text,
    )


def failed(record: Record) -> bool:
    """Whether a hook failed, timed out or could not start."""
    return record.failed_open > 0 or any(one.status in FAILED for one in record.outcomes)


def plain_hook(name: str | None) -> str | None:
    """A hook's name without the event at its end, as in `turn-tracker-PreToolUse` of seed 002."""
    base, _, event = (name or "").rpartition("-")
    return base if base and event in EVENTS else name


def _events(words: Iterable[str], here: LogScope, projects: Iterable[str]) -> Iterator[str]:
    """Canonical event names. Agents may have other events: unknown names are looked up in the logs, in any spelling."""
    logged: set[str] | None = None
    for word in words:
        known = _NOTES if folded(word) == _NOTES else canonical(word)
        if known:
            yield known
            continue
        if logged is None:
            logged = {entry.record.event for one in projects for entry in here.reader(one).forward()}
        found = [name for name in logged if folded(name) == folded(word)]
        if not found:
            raise UsageError(f"no event `{word}`", hint=suggestion(word, [*EVENTS, *sorted(logged - {*EVENTS})]))
        yield from found


def _tools(words: Iterable[str], here: LogScope) -> Iterator[str]:
    """Canonical tool names. Agents may have other tools: an unknown name is accepted if a record has it."""
    from billhook.config.lint.matchers import TOOLS

    known = {folded(name): name for name in TOOLS}
    for word in words:
        name = tools.canonical(word)
        occurs = here.reader().backward(RecordFilter(tools=frozenset((name,))))
        if name not in TOOLS and not name.startswith("mcp__") and next(occurs, None) is None:
            name = known.get(folded(word), "") or tools.canonical(word.lower())
            if name not in TOOLS:
                raise UsageError(f"no tool `{word}`, and no record with it", hint=suggestion(word, sorted(TOOLS)))
        yield name
