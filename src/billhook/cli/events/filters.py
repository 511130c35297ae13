"""The filters of `billhook events` and its commands: options, and what they ask of the log."""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
import msgspec

from billhook.cli import times
from billhook.cli.events.log import Here, Logs, Slice
from billhook.cli.events.session_names import meant
from billhook.cli.options import words
from billhook.core import tools
from billhook.core.answers import Decision
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS
from billhook.core.text import folded, suggest
from billhook.serve.hook_server import canonical
from billhook.store.record import Record, Wanted

_DECISIONS = {one.value: one.value for one in Decision} | {
    "block": "deny", "blocked": "deny", "denied": "deny", "approve": "allow", "approved": "allow", "allowed": "allow",
    "asked": "ask", "deferred": "defer",
}  # fmt: skip
_NOTES = "log"  # the event of records that are about the log itself
FAILED = frozenset({"failed", "timed_out", "could_not_start"})  # how asking a hook can go wrong

Verb = Callable[..., Any]


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for on the command line."""

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
    """The options that choose records. The verb gets them as `filters`, together with its `sessions`."""

    @functools.wraps(verb)
    def with_filters(**given: Any) -> Any:
        taken = {name: given.pop(name) for name in Filters.__struct_fields__ if name in given}
        if taken["since"] and taken["until"] and taken["since"] > taken["until"]:
            raise UsageError("--since is later than --until", hint="nothing can be between them: swap them?")
        return verb(filters=Filters(**taken), **given)

    return _with(_OPTIONS, with_filters)


def _with(options: Iterable[Callable[[Verb], Verb]], verb: Verb) -> Verb:
    for option in reversed(list(options)):
        verb = option(verb)
    return verb


def _words(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    found = words(value)
    if value and not found:
        raise UsageError(f"{param.opts[0]} is empty", hint=f"`{ctx.command_path} --help` shows how it is meant")
    return found


def _decisions(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> frozenset[str] | None:
    found = _words(ctx, param, value)
    for word in found:
        if word.lower() not in _DECISIONS:
            raise UsageError(f"no decision `{word}`", hint=suggest(word, [one.value for one in Decision]))
    return frozenset(_DECISIONS[word.lower()] for word in found) or None


_OPTIONS = (
    click.option("--event", "-e", "events", metavar="E,..", multiple=True, callback=_words,
                 help="Only these events, in any spelling; `log` is what the log notes about itself."),
    click.option("--tool", "-t", "tools", metavar="T,..", multiple=True, callback=_words,
                 help="Only these tools, by any name that a dialect has for them."),
    click.option("--decision", "-d", "decisions", metavar="D,..", multiple=True, callback=_decisions,
                 help="Only these decisions: none, allow, ask, defer, deny."),
    click.option("--hook", metavar="H",
                 help="Only where this hook was asked, or was not, with the reason; `guard` is also project/guard and "
                 "user/guard#2."),
    click.option("--failed", is_flag=True, help="Only where a hook failed, timed out or could not start."),
    times.option("--since", "--from-time", "since", end=False,
                        help="From then on: 1h, 30m, 2d (ago), 22:00, yesterday, a day, or ISO 8601 (local time "
                        "unless it names a zone)."),
    times.option("--until", "--to-time", "until", end=True,
                        help="Up to then, that included; a day alone means its end."),
)  # fmt: skip


def number(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    """Reads a count: 0 or more."""
    if value is not None and value < 0:
        raise UsageError(f"{param.opts[0]} {value} is less than nothing", hint=f"as in {param.opts[0]} 5")
    return value


def slice_options(limit: str) -> Callable[[Verb], Verb]:
    """`--last`, `--first`, `--limit`, `--offset`, which the verb gets as `part`; `limit` describes the default."""
    texts = {
        ("--last", "-n", "last"): "The newest N.",
        ("--first", "first"): "The oldest N.",
        ("--limit", "limit"): f"At most N, the newest unless --first is given; 0: all.  [default: {limit}]",
        ("--offset", "offset"): "Leave out N, and take those before them; with --first, those after.",
    }
    options = [click.option(*names, type=int, metavar="N", callback=number, help=text) for names, text in texts.items()]

    def with_options(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def with_part(first: int | None, last: int | None, limit: int | None, offset: int | None, **given: Any) -> Any:
            if first is not None and last is not None:
                raise UsageError("--first and --last exclude each other", hint="leave one of them out")
            return verb(part=Slice(first=first, last=last, limit=limit, offset=offset or 0), **given)

        return _with(options, with_part)

    return with_options


def json_options(
    text: str = "One line of JSON for each. This is what a pipe gets.", human: str = "The table, also in a pipe."
) -> Callable[[Verb], Verb]:
    """`--json` and `--human`. The verb gets `in_json`: JSON was asked for, or standard output is no terminal."""

    def with_options(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def with_format(as_json: bool, human: bool, **given: Any) -> Any:
            if as_json and human:
                raise UsageError("--json and --human exclude each other", hint="leave one of them out")
            on_terminal = sys.stdout is not None and sys.stdout.isatty()
            return verb(in_json=as_json or not (human or on_terminal), **given)

        as_table = click.option("--human", is_flag=True, help=human)(with_format)
        return click.option("--json", "as_json", is_flag=True, help=text)(as_table)

    return with_options


def chosen(filters: Filters, here: Here) -> Logs:
    """The records that pass; no logs when `.` is meant and the log is empty."""
    ids = meant(filters.sessions, here) if filters.sessions else {here.project: None}
    events = frozenset(_events(filters.events, here, ids or {here.project: None}))
    wanted = Wanted(
        events=events or None,
        tools=frozenset(_tools(filters.tools, here)) or None,
        decisions=filters.decisions,
        hook=plain_hook(filters.hook),
        since=filters.since,
        until=filters.until,
        text=filters.text,
    )
    each = {project: msgspec.structs.replace(wanted, sessions=sessions) for project, sessions in ids.items()}
    return Logs(each, here, failed if filters.failed else None, notes=_NOTES in events)


def failed(record: Record) -> bool:
    """Whether a hook failed, timed out or could not start."""
    return record.failed_open > 0 or any(said.status in FAILED for said in record.outcomes)


def plain_hook(name: str | None) -> str | None:
    """A hook's name without the event that seed 002 puts at the end of its ids: `turn-tracker-PreToolUse`."""
    base, _, event = (name or "").rpartition("-")
    return base if base and event in EVENTS else name


def _events(words: Iterable[str], here: Here, projects: Iterable[str]) -> Iterator[str]:
    """Agents have events of their own: what nobody knows is matched with what the logs have, in any spelling."""
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
            raise UsageError(f"no event `{word}`", hint=suggest(word, [*EVENTS, *sorted(logged - {*EVENTS})]))
        yield from found


def _tools(words: Iterable[str], here: Here) -> Iterator[str]:
    """Tools are an open set: a name that nobody knows counts if a record has it."""
    from billhook.config.lint.matchers import TOOLS

    known = {folded(name): name for name in TOOLS}
    for word in words:
        name = tools.canonical(word)
        occurs = here.reader().backward(Wanted(tools=frozenset((name,))))
        if name not in TOOLS and not name.startswith("mcp__") and next(occurs, None) is None:
            name = known.get(folded(word), "") or tools.canonical(word.lower())
            if name not in TOOLS:
                raise UsageError(f"no tool `{word}`, and no record names one", hint=suggest(word, sorted(TOOLS)))
        yield name
