"""What a record is about, in a few words: rows of the table, with a tool's call and its result joined."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from billhook import strictjson, tools
from billhook.cli.events_filters import FAILED
from billhook.cli.show import word_of
from billhook.events import EVENTS
from billhook.store.record import Record, Said
from billhook.store.searching import called

TRUST: Final = "Trust"  # The event of an approval. It belongs to no session.

_AFTER: Final = frozenset({"PostToolUse", "PostToolUseFailure"})
_SEVERE: Final = ("deny", "stop", "defer", "ask", "failed open", "keep going", "allow")
"""What is shown of a pair: the first of these that one of the two has."""
_TELLING: Final = (
    "prompt", "message", "url", "pattern", "query", "description", "task", "subject", "error", "name", "task_subject",
    "teammate_name",
)  # fmt: skip
"""Fields that say what something is about, where the event or the tool has none of its own for that."""


class Row(msgspec.Struct, frozen=True):
    """One line of the table: a record, or a tool's call together with its result."""

    record: Record
    after: Record | None = None

    @property
    def records(self) -> tuple[Record, ...]:
        return (self.record,) if self.after is None else (self.record, self.after)

    @property
    def event(self) -> str:
        if self.after is None:
            return self.record.event
        return "Pre+Post" if self.after.event == "PostToolUse" else "Pre+PostFailure"

    @property
    def word(self) -> str:
        """What became of it."""
        words = [word(record) for record in self.records]
        return next((one for one in _SEVERE if one in words), "none")

    @property
    def ms(self) -> float:
        return sum(record.duration_ms for record in self.records)


def joined(records: Iterable[Record]) -> list[Row]:
    """Rows in the order of their first record. A pair has one session, tool and tool_use_id."""
    rows: list[Row] = []
    calls: dict[tuple[str | None, ...], int] = {}
    for record in records:
        key = (record.session_id, record.tool, record.tool_use_id)
        if record.event in _AFTER and key in calls:
            place = calls.pop(key)
            rows[place] = Row(rows[place].record, record)
            continue
        if record.event == "PreToolUse" and record.tool_use_id:
            calls[key] = len(rows)
        rows.append(Row(record))
    return rows


def word(record: Record) -> str:
    """What became of an event: the decision, or what else there is to say."""
    if record.stop:
        return "deny" if record.decision == "deny" else "stop"
    if record.decision in ("deny", "defer", "ask"):
        return record.decision
    if record.failed_open:
        return "failed open"
    return "keep going" if record.keep_going else record.decision


def told(record: Record) -> str:
    """What the agent was told instead, where it has no word for what the hooks decided; nothing where it has."""
    became = any("became a deny" in text or "becomes deny" in text for text in record.lost)
    return f"{record.host or 'the agent'} was told deny" if became and record.decision != "deny" else ""


def what(record: Record) -> str:
    """The tool, and what the event was about."""
    return f"{record.tool or ''} {about(record)}".strip()


def about(record: Record) -> str:
    """What a tool was to do, or what the event tells: a command, a path, a prompt, a source."""
    given = record.input
    if record.note is not None:
        return record.reason or record.note
    if record.tool:
        found = tools.command_of(record.tool, given) or _path(record)
        return found or _telling(given) or (strictjson.compact(given) if given else "")
    if not isinstance(given, dict):
        return "" if given is None else strictjson.compact(given)
    if record.event == TRUST:
        names = [str(one.get("name", "")) for one in given.get("hooks", ()) if isinstance(one, dict)]
        return f"{given.get('action', '')} {', '.join(names)}".strip()
    event = EVENTS.get(record.event)
    own = given.get(event.match_field) if event is not None and event.match_field else None
    return own if isinstance(own, str) and own else _telling(given)


def _path(record: Record) -> str:
    """The file that a call is about, as people write it: from the folder that its session stood in."""
    path = tools.path_of(record.tool or "", record.input) or ""
    return path.removeprefix(f"{record.cwd}/") if record.cwd else path


def _telling(given: Any) -> str:
    if not isinstance(given, dict):
        return ""
    return next((found for key in _TELLING if isinstance(found := given.get(key), str) and found), "")


def turn(record: Record) -> str:
    """The number of the turn, and after a dot that of the subagent's."""
    prefix = f"{record.session_id}:"
    if not record.turn_id.startswith(prefix):
        return record.turn_id.rpartition(":")[2]
    return record.turn_id.removeprefix(prefix).replace(":s:", ".")


def details(row: Row, hook: str | None = None) -> Iterator[tuple[str, str]]:
    """What else is to be said of a row, each with the word that gives it its colour. `hook`: what it did, too."""
    for record in row.records:
        decided = list(_deciding(record))
        yield from ((word(record), text) for text in decided)
        if instead := told(record):
            yield "deny", instead
        yield from (("failed open" if said.failed_open else "failed", failure(said)) for said in _failed(record))
        for name, text in parts_of(hook, record) if hook is not None else ():
            if not any(one.startswith(f"{name}: ") for one in decided):
                yield "", f"{name}: {text}"
        if record.event == "PostToolUseFailure" and isinstance(record.output, str):
            yield "failed", f"the tool failed: {record.output}"


def _deciding(record: Record) -> Iterator[str]:
    """The reasons with the hooks that gave them; the reason alone when no hook gave it."""
    found = [
        f"{said.hook}: {said.reason}"
        for said in record.outcomes
        if said.reason and said.decision == record.decision and said.status not in FAILED
    ]
    if found and record.decision != "none":
        yield from found
    elif record.reason and not any(said.error and said.error in record.reason for said in record.outcomes):
        yield record.reason


def _failed(record: Record) -> list[Said]:
    return [said for said in record.outcomes if said.status in FAILED]


def failure(said: Said) -> str:
    """How a hook failed, and what that meant."""
    text = f"{said.hook} {said.status.replace('_', ' ')}{', let pass' if said.failed_open else ''}"
    return f"{text}: {said.error}" if said.error else text


def parts_of(hook: str, record: Record) -> Iterator[tuple[str, str]]:
    """The hooks that are called so, each with what it did about an event; none when they have no part in it."""
    for said in record.outcomes:
        if called(said.hook, hook) and said.status not in ("skipped", *FAILED):
            yield said.hook, f"{word_of(said)}, {said.duration_ms:.1f} ms"
    for name, why in record.not_asked.items():
        if called(name, hook):
            yield name, f"not asked, {why}"
