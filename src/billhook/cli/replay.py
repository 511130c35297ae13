"""`billhook replay`: what the rules would have decided about recorded events, or about the calls in transcripts."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from billhook.agents import AGENTS
from billhook.agents.base import Agent
from billhook.agents.transcripts import PastCall, TranscriptScan
from billhook.cli import screen, times
from billhook.cli.events import query
from billhook.cli.options import choice, complete_among, flag, option, words
from billhook.config.history import about
from billhook.core.errors import UsageError
from billhook.core.text import counted, suggestion
from billhook.store.files import StoreError
from billhook.store.log import Record, RecordFilter
from billhook.store.log.reader import LogReader
from billhook.testing import replay
from billhook.testing.judge import Judges

FAIL_ON: Final = ("denied", "changed", "never")
_ALL: Final = "all"
_DAYS: Final = 30  # of transcripts, unless --since is given
_KINDS: Final = {"denied": "newly denied", "denied instead": "denied instead of asked",
                 "asked": "newly asked about", "asked instead": "asked instead of denied",
                 "kept going": "newly kept going", "allowed": "newly allowed"}  # fmt: skip
READABLE: Final = tuple(agent.name for agent in AGENTS.values() if agent.transcripts)

_HELP = f"""Show which past events the current hooks would decide differently.

The guard, and hooks with fixed answers and conditions, judge each event of this project's log again. Hooks that are not
approved yet count, too. Nothing is written. With --transcripts, they judge the calls in the agents' transcripts instead
({", ".join(READABLE)}; the last {_DAYS} days), also those from before billhook was installed.

Hooks that run code don't run. If the log has the answer of the same, unchanged hook, that answer is used. Otherwise the
result is unknown. It is also unknown if it depends on redacted text, on the branch, on uncommitted work, or on the
tests `file_exists`, `changed_files` and `has_secret`.

`once`, `cooldown`, rate limits and `after_effect` are computed from the events of the log. Scripts, links and protected
files are read as they are today.
"""


@click.command(
    "replay",
    help=_HELP,
    epilog="""\b
Examples:
  billhook replay                          all events of the log
  billhook replay --since 7d --rules new.yaml
  billhook replay --rules HEAD~1           the rules of an earlier commit
  billhook replay --transcripts            what would have been stopped
  billhook replay --json | jq '.hooks[] | {hook, count}'

Exit code: 0 no call that was allowed would now be denied, 1 at least one
would (--fail-on changes this), 2 usage.""",
)
@times.option("--since", end=False, help="Only events since then: 7d, 2h, yesterday, a date.")
@times.option("--until", end=True, help="Only events until then.")
@option("--session", "sessions", "NAME", "Only this session, by name or id. May be repeated.", multiple=True)
@option("--rules", "FILE|REV", "Use the rules of this file, or of a git revision, instead of the project's.")
@click.option(
    "--transcripts",
    metavar="[AGENT,..]",
    is_flag=False,
    flag_value=_ALL,
    shell_complete=complete_among(READABLE),
    help="Judge the calls in agents' transcripts instead.",
)
@flag(
    "--run-commands", "Also run approved hooks that run code, in this folder: they may write files or use the network."
)
@choice(FAIL_ON, "--fail-on", "Exit 1 if an event is newly denied, or if any decision changed.")
@flag("--json", "as_json", "Print one JSON object.")
def verb(
    since: str | None,
    until: str | None,
    sessions: tuple[str, ...],
    rules: str | None,
    transcripts: str | None,
    run_commands: bool,
    fail_on: str,
    as_json: bool,
) -> int:
    if rules is not None and run_commands:
        raise UsageError("--run-commands can't be combined with --rules", hint="only approved hooks may run code")
    if since and until and since > until:
        raise UsageError("--since is later than --until", hint="swap them")
    here = query.here()
    judges = Judges(replay.rules_from(rules, here.project) if rules is not None else None, run_commands=run_commands)
    if transcripts is None:
        ids = query.named_sessions(sessions, here).get(here.project, frozenset()) if sessions else None
        begin = None if judges.of(here.project, "").remembers else since  # hooks may depend on earlier events
        wanted = RecordFilter(sessions=ids, project=here.project, since=begin, until=until)
        with screen.progress("the log") as tick:
            found = replay.replay(_log_records(here.reader(), wanted, tick), judges, since or "")
    else:
        first = since or times.written(datetime.now(UTC) - timedelta(days=_DAYS))

        def is_selected(one: PastCall) -> bool:
            in_time = until is None or one.call.time <= until
            return in_time and (not sessions or one.call.session.startswith(sessions))

        with screen.progress("calls") as tick:
            calls = _transcript_records(_agents(transcripts), here.project, first, is_selected, tick)
            found = replay.replay(calls, judges)
    what = "calls" if transcripts else "events"
    view = ReplayScreen(found, since, rules, what, judges.of(here.project, "").unapproved)
    screen.report(as_json, view.lines(), view.data())
    if not found.events and not as_json:
        more = (
            "`--transcripts` replays the calls in the agents' transcripts"
            if transcripts is None
            else "--since 90d goes back further"
        )
        screen.hint(more)
    failed = found.kinds["denied"] if fail_on == "denied" else found.different
    return int(bool(failed) and fail_on != "never")


def _agents(text: str) -> list[Agent]:
    names = READABLE if text == _ALL else words([text])
    for name in names:
        if name not in READABLE:
            raise UsageError(f"no transcripts of `{name}` can be read", hint=suggestion(name, READABLE))
    return [AGENTS[name] for name in names]


# The past:
def _log_records(reader: LogReader, wanted: RecordFilter, tick: Callable[[int, int], None]) -> Iterator[Record]:
    """The records of the log, with their side files; without its input a record is unknown."""
    done, total = 0, reader.bytes
    for entry in reader.forward(wanted):
        done += len(entry.line)
        tick(done, total)
        record = entry.record
        with suppress(StoreError):
            record = reader.whole(record)
        yield record


def _transcript_records(
    agents: Iterable[Agent],
    project: str,
    since: str,
    wanted: Callable[[PastCall], bool],
    tick: Callable[[int, int], None],
) -> Iterator[Record]:
    """The calls in the transcripts of a project, each once, if its agent would have run hooks for it."""
    known: set[tuple[str, str]] = set()
    number = itertools.count(1)
    for agent in agents:
        for one in TranscriptScan(agent, project, lambda folder: replay.project_of(folder) == project, since):
            tick(next(number), 0)
            unhooked = one.came == "refused" or one.call.elsewhere or one.call.tool in agent.unhooked
            if not unhooked and one.key not in known and wanted(one):
                known.add(one.key)
                yield replay.record_of(one, agent, project)


# The screen:
class ReplayScreen:
    def __init__(
        self, found: replay.ReplayResult, since: str | None, rules: str | None, what: str, unapproved: Sequence[str]
    ) -> None:
        from billhook.store.redaction import Redactor

        self.found, self.since, self.rules, self.what, self.unapproved = found, since, rules, what, unapproved
        self._redacted = Redactor().text

    def lines(self) -> Iterator[str]:
        for hook, group in sorted(self.found.hooks.items(), key=lambda one: -one[1].count):
            yield click.style(f"{hook}  {counted(group.count, self.what.removesuffix('s'))}", bold=True)
            counts = group.changes.most_common()
            yield f"  {', '.join(f'{count:,} {self._change(*words)}' for words, count in counts)}"
            yield from self._examples(group)
            yield ""
        if self.found.unknown:
            yield from (click.style("unknown", bold=True), *grouped_lines(self.found.unknowns), "")
        if self.unapproved:
            yield from screen.filled(f"counted although they are not approved: {', '.join(self.unapproved)}", 0)
        yield from screen.filled(self.summary, 0)

    def _examples(self, group: replay.Examples) -> Iterator[str]:
        for one in group.first:
            yield from _example_lines(one, f"  {self._change(one.then.word, one.now.word)}")
            yield from screen.hanging(self._redacted(one.now.reason), 6) if one.now.reason else ()

    def _change(self, then: str, now: str) -> str:
        """`none -> deny`; of transcripts only what would be decided."""
        return f"{then} -> {now}" if self.what == "events" else now

    @property
    def summary(self) -> str:
        found = self.found
        changed = [f"{found.kinds[kind]:,} {text}" for kind, text in _KINDS.items() if found.kinds[kind]]
        unknown = f"; {found.unknown:,} unknown" if found.unknown else ""
        if self.what == "events":
            many = "none would" if not found.different else f"{found.different:,} would"
            return f"of {counted(found.events, 'event')}, {many} be decided differently{': ' if changed else ''}" + (
                f"{', '.join(changed)}{unknown}"
            )
        stopped = [text.replace("newly ", "") for text in changed if "allowed" not in text]
        days = f" since {times.day(self.since)}" if self.since else f" in the last {_DAYS} days"
        return f"of {counted(found.events, 'call')}{days}, {found.stopped:,} would have been stopped" + (
            f"{': ' if stopped else ''}{', '.join(stopped)}{unknown}"
        )

    def data(self) -> dict[str, Any]:
        found = self.found
        return {
            "since": self.since or None,
            "rules": self.rules,
            "source": "log" if self.what == "events" else "transcripts",
            **screen.picked(found, "events different unknown stopped"),
            **{kind.replace(" ", "_"): found.kinds[kind] for kind in _KINDS},
            "not_approved": list(self.unapproved),
            "hooks": [
                {"hook": hook, "count": group.count, "changes": self._changes(group), "examples": self._shown(group)}
                for hook, group in found.hooks.items()
            ],
            "unknowns": [
                {"why": why, "count": group.count, "examples": self._shown(group)}
                for why, group in found.unknowns.items()
            ],
        }

    def _changes(self, group: replay.Examples) -> list[dict[str, Any]]:
        return [{"then": then, "now": now, "count": count} for (then, now), count in group.changes.most_common()]

    def _shown(self, group: replay.Examples) -> list[dict[str, Any]]:
        return [
            {
                **screen.picked(one.record, "id time session_id event tool"),
                "agent": one.record.host,
                "call": _named_call(one.record),
                "then": one.then.word,
                "now": one.now.word,
                "reason": self._redacted(one.now.reason) or None,
            }
            for one in group.first
        ]


def grouped_lines(groups: Mapping[str, replay.Examples]) -> Iterator[str]:
    """Events by a reason, the most frequent one first, each with its first examples."""
    for why, group in sorted(groups.items(), key=lambda one: -one[1].count):
        yield from screen.beside(f"  {group.count:>6,}  ", why)
        yield from (line for one in group.first for line in _example_lines(one))


def _example_lines(one: replay.Difference, tail: str = "") -> Iterator[str]:
    head = f"    {times.shown_time(one.record.time)}  "
    call, room = screen.with_shown_paths(_named_call(one.record)), screen.width() - len(head) - len(tail)
    if room < 30:  # the call is below its time
        yield f"{head}{screen.coloured(tail.strip(), one.now.word)}".rstrip()
        yield from screen.hanging(screen.cut(call, 2 * screen.width()), 6)
    else:
        yield f"{head}{screen.cut(call, room)}{screen.coloured(tail, one.now.word)}"


def _named_call(record: Record) -> str:
    head = record.tool if record.event == "PreToolUse" else f"{record.event} {record.tool or ''}".strip()
    return f"{head}: {call}" if (call := shown_call(record)) else head or ""


def shown_call(record: Record) -> str:
    """What an event is about, in one line, without secrets: transcripts contain them."""
    from billhook.store.redaction import Redactor

    return Redactor().text(about(record))[:300]
