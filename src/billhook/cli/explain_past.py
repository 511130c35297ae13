"""`billhook explain ID`: a past decision, under the configuration of that moment, and what differs today."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from billhook import strictjson
from billhook.cli.ages import ago, shown_time
from billhook.cli.events_log import Here
from billhook.cli.events_show import found
from billhook.cli.explain import heading, outlook_data, verdict_line
from billhook.cli.loaded import loaded
from billhook.cli.show import note, say, word_of
from billhook.cli.table import facts, filled, one_line, shown_path, width
from billhook.config import configured
from billhook.config.loaded import Config
from billhook.config.options import filled as with_defaults
from billhook.config.past import Change, Considered, Past, Row, event_of, look_back
from billhook.config.snapshot import content, kept
from billhook.errors import UsageError
from billhook.store.files import StoreError, opened
from billhook.store.places import log_folder
from billhook.store.reading import Entry, LogReader
from billhook.store.record import Record

_INDENT = 5
_FEWEST = 8  # digits by which an id is named
_MOST_LOGS = 500  # logs of other projects that are looked into
_COLOURS = {"deny": "red", "stop": "red", "ask": "yellow", "defer": "yellow"}
_LABELS = {"if": "if", "match": "match", "what": "what it does", "on_failure": "on_failure", "hash": "what it runs"}


def explain_record(digits: str, configs: Sequence[str], *, as_json: bool) -> bool:
    """Explain the decision whose id begins so, or whose number that is. False: there is none, and the digits were meant
    otherwise; a number is no command."""
    config = loaded(configs)
    record = _found(digits, Path(config.root), config.project) if len(digits) >= _FEWEST else None
    if record is None and digits.isdecimal() and not digits.startswith("0"):
        record = _numbered(digits, Here(config.project, Path(config.root)))
    if record is None:
        note(f"no record of the log has an id that begins with `{digits}`, so this is about a command")
        return False
    if record.project and record.project != config.project:
        config = configured.load(record.cwd or record.project, [os.path.abspath(file) for file in configs])
    past = look_back(record, kept(Path(config.root), record.config), config, _as_kept(config))
    say(strictjson.dumps(_as_data(past)) if as_json else "\n".join(_screen(past)))
    return True


def _found(prefix: str, root: Path, project: str) -> Record | None:
    """In this project's log, else in those of others: an id is one of a kind."""
    own = log_folder(root, project)
    for folder in (own, *(folder for folder in _log_folders(root) if folder != own)):
        log = LogReader(folder, root)
        entry = log.find(prefix)
        if entry is not None:
            return _whole(log, entry)
    return None


def _numbered(digits: str, here: Here) -> Record:
    log, entry = found(digits, here)
    if entry.record.note is not None:
        raise UsageError(f"record {digits} is about the log itself: nothing was decided", hint="name another one")
    return _whole(log, entry)


def _whole(log: LogReader, entry: Entry) -> Record:
    try:
        return log.whole(entry.record)
    except StoreError:  # its side file is gone: what the line has is still worth telling
        return entry.record


def _log_folders(root: Path) -> list[Path]:
    """The folders of all logs, the one that changed last first."""
    path = root / "hooks"
    with opened(path, root) as folder:
        if folder is None:
            return []
        entries = [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        entries.sort(key=lambda entry: -entry.stat(follow_symlinks=False).st_mtime)
        return [path / entry.name for entry in entries[:_MOST_LOGS]]


def _as_kept(config: Config) -> dict[str, Any]:
    """The configuration of today in the form in which those of the past are kept."""
    form: dict[str, Any] = strictjson.loads(strictjson.encode(_redacting(config)(content(config))), max_bytes=None)
    return form


def _redacting(config: Config) -> Callable[[Any], Any]:
    """What the log does to secrets before it keeps a configuration: two that are equal stay equal."""
    options = with_defaults("event-logger", config.builtins["event-logger"].options)
    if not options["redact"]:
        return lambda value: value
    from billhook.store.redaction import redactor

    return redactor(Path(config.root), more_keys=options["redact_keys"]).value


# -- as JSON


def _as_data(past: Past) -> dict[str, Any]:
    record = past.record
    return {
        "id": record.id,
        "seq": record.seq,
        "time": record.time,
        "event": record.event,
        "tool": record.tool,
        "input": record.input,
        "session_id": record.session_id,
        "session_name": record.session_name,
        "turn_id": record.turn_id,
        "cwd": record.cwd,
        "project": record.project,
        "host": record.host,
        "decision": record.decision,
        "reason": record.reason,
        "decided_by": list(past.by),
        "failed_open": record.failed_open,
        "judged": record.judged,
        "duration_ms": record.duration_ms,
        "config": record.config or None,
        "config_known": past.known,
        "hooks": [_hook_data(one) for one in past.hooks],
        "today": _today_data(past),
    }


def _hook_data(one: Considered) -> dict[str, Any]:
    return {
        "name": one.name,
        "standing": one.standing,
        "why": one.why or None,
        "decided": one.decided,
        "own": one.own,
        "said": msgspec.to_builtins(one.said) if one.said is not None else None,
        "then": one.then,
        "now": one.now,
        "changes": [msgspec.to_builtins(change) for change in one.changes],
        "today": None if one.today is None else {"runs": one.today.runs, "why": one.today.why or None},
    }


def _today_data(past: Past) -> dict[str, Any]:
    return {
        "differs": past.differs if past.known else None,
        "added": [row["name"] for row in past.added],
        "removed": list(past.removed),
        "changed": [one.name for one in past.hooks if one.changes],
        "settings": [msgspec.to_builtins(change) for change in past.settings],
        "verdict": outlook_data(past.today.outlook) if past.today is not None else None,
        "not_known": list(past.untold),
    }


# -- on the screen


def _screen(past: Past) -> Iterator[str]:
    yield click.style(_title(past.record), bold=True)
    yield from facts(_about(past.record), 2)
    spoken = [one for one in past.hooks if not _silent(one)]
    for place, one in enumerate(spoken, 1):
        yield ""
        yield from _hook(one, place)
    if not spoken:
        yield from ("", "no hook wanted it" if past.record.judged else "no hook was asked")
    # a gate that is asked again after a rewrite is there twice
    names_spoken = {one.name for one in spoken}
    if silent := {one.name: one for one in past.hooks if _silent(one) and one.name not in names_spoken}:
        yield ""
        names = ", ".join(f"{name} ({_took(one)})" for name, one in silent.items())
        yield from (click.style(line, dim=True) for line in filled(f"built in, no objection: {names}", 0))
    yield ""
    yield from _verdict(past)
    yield ""
    yield from _today(past)


def _title(record: Record) -> str:
    event = event_of(record)
    return heading(event) if event is not None else one_line(f"{record.event} {record.tool or ''}", width())


def _about(record: Record) -> Iterator[str]:
    yield f"record {record.id}"
    yield f"{shown_time(record.time)} ({ago(record.time)})"
    session = record.session_name or record.session_id[:36]
    if session:
        yield f"session {session}"
    if record.turn_id:
        yield f"turn {record.turn_id.rpartition(':')[2]}"
    if record.host:
        yield f"asked by {record.host}"


def _silent(one: Considered) -> bool:
    """A built-in that did its work and has nothing to say."""
    said = one.said
    return said is not None and said.source == "built-in" and word_of(said) == "no objection"


def _hook(one: Considered, place: int) -> Iterator[str]:
    word, colour = _word(one)
    name = click.style(one_line(one.name, width() - 40), fg="cyan")
    number = place if one.said is not None else "-"
    took = f"  {_took(one)}" if one.said is not None else ""
    decided = "  decided" if one.decided else ""
    yield f"  {number:<2} {name}  {click.style(word, fg=colour)}{took}{click.style(decided, bold=True)}"
    if one.why:
        yield from filled(one.why, _INDENT)
    yield from _said(one)
    if one.then is not None:
        yield from facts(_facts(one.then), _INDENT)
    elif one.own:
        yield from facts(["a hook of the program that asked"], _INDENT)


def _word(one: Considered) -> tuple[str, str]:
    if one.said is None:
        return one.standing, "yellow"
    word = word_of(one.said)
    return word, _COLOURS.get(word, "green") if one.said.status == "ok" else "yellow"


def _took(one: Considered) -> str:
    return f"{one.said.duration_ms:.1f} ms" if one.said is not None else ""


def _said(one: Considered) -> Iterator[str]:
    if one.said is None:
        return
    told = (("to model: ", one.said.context), ("to user: ", one.said.message))
    for text in (one.said.reason, one.said.error, *one.said.lost, *(label + text for label, text in told if text)):
        if text:
            yield from filled(text, _INDENT)
    if one.said.status != "ok" and one.said.decision != "none":
        yield from filled(f"counted as {one.said.decision}, as its failure rule says", _INDENT)
    if one.said.failed_open:
        yield from filled("the event went on without its answer", _INDENT)


def _facts(row: Row) -> Iterator[str]:
    """How it was configured then."""
    for key in ("match", "if"):
        if row.get(key):
            yield one_line(f"{key} {row[key]}", 70)
    yield from (str(row[key]) for key in ("dialect",) if row.get(key) and row.get("layer") != "built-in")
    if row.get("on_failure"):
        yield "gate" if row["on_failure"] == "deny" else f"on_failure {row['on_failure']}"
    yield from (str(row[key]) for key in ("trust",) if row.get(key))
    if row.get("file"):
        yield shown_path(str(row.get("source") or row["file"]))


def _verdict(past: Past) -> Iterator[str]:
    record = past.record
    if not record.judged:
        yield from _not_judged(record)
        return
    because = f", because of {', '.join(past.by)}" if past.by else ""
    what = f"{record.decision} (no objection)" if record.decision == "none" and not because else record.decision
    did = ", and the agent was stopped" if record.stop else ", and the agent went on" if record.keep_going else ""
    for line in filled(f"verdict: {what}{because}{did}, after {record.duration_ms:.1f} ms", 0):
        yield click.style(line, bold=True)
    if record.reason:
        yield from filled(f"reason: {record.reason}", 0)
    if record.failed_open:
        hooks = "1 hook" if record.failed_open == 1 else f"{record.failed_open} hooks"
        yield f"{hooks} failed and let the event pass"


def _not_judged(record: Record) -> Iterator[str]:
    did = "the event passed" if record.decision == "none" else f"the answer was {record.decision}"
    for line in filled(f"verdict: never judged; {did}", 0):
        yield click.style(line, bold=True)
    if record.reason:
        yield from filled(f"reason: {record.reason}", 0)


def _today(past: Past) -> Iterator[str]:
    yield click.style("Today", bold=True)
    lines = list(_differences(past))
    if not lines and past.known:
        lines = ["the configuration is the same as far as this event goes"]
    if past.today is not None:
        lines.append(verdict_line(past.today.outlook, past.today.event))
    lines += [f"not known: {text}" for text in past.untold]
    for line in lines:
        first, *rest = filled(line, 2)
        yield first
        yield from ("  " + text for text in rest)


def _differences(past: Past) -> Iterator[str]:
    for one in past.hooks:
        if one.own:
            continue
        if one.now is None:
            yield f"{one.name}: removed"
        elif one.changes:
            yield f"{one.name}: {'; '.join(_change(change) for change in one.changes)}{_outcome(one)}"
        elif text := _outcome(one):
            yield f"{one.name}: {text.removeprefix(', so ')}"
    for row in past.added:
        yield f"{row['name']}: {'added' if past.known else 'not in the record'}{_place(row)}"
    for change in past.settings:
        yield _change(change)


def _outcome(one: Considered) -> str:
    """What becomes of it today, where that differs."""
    if one.today is None:
        return ""
    asked = one.standing in ("asked", "background")
    if asked and not one.today.runs:
        return f", so it would not be asked: {one.today.why}"
    own_condition = one.standing == "not asked" or one.why.startswith("condition")
    if own_condition and one.today.runs:
        return ", so it would be asked"
    return ""


def _change(change: Change) -> str:
    if change.field == "hash":
        return "what it runs has changed"
    return f"{_LABELS.get(change.field, change.field)} {_value(change.then)} -> {_value(change.now)}"


def _value(value: Any) -> str:
    if value is None or value == []:
        return "none"
    text = value if isinstance(value, str) else strictjson.dumps(value)
    return f"`{one_line(text, 200)}`"


def _place(row: Row) -> str:
    return f" ({shown_path(str(row['source']))})" if row.get("file") else ""
