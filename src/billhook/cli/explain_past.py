"""`billhook explain ID`: a past decision, under the configuration of that moment, and what differs today."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from billhook.cli.events.query import LogScope
from billhook.cli.events.show import by_id, found, whole
from billhook.cli.explain import heading, outlook_data, verdict_line
from billhook.cli.list import failure_rule
from billhook.cli.options import loaded
from billhook.cli.screen import facts, filled, hanging, note, picked, say, say_json, shown_path, width, word_of
from billhook.cli.times import ago, shown_time
from billhook.config import loader
from billhook.config.builtin_options import filled as with_defaults
from billhook.config.config import Config, content, kept
from billhook.config.explain import Considered, FieldChange, Past, Row, event_of, look_back
from billhook.core import strictjson
from billhook.core.errors import UsageError
from billhook.core.text import counted, one_line
from billhook.store.log.record import Record

_COLOURS = {"deny": "red", "stop": "red", "ask": "yellow", "defer": "yellow"}
_INDENT = 5
_FEWEST = 8  # digits by which an id is named


def explain_record(digits: str, configs: Sequence[str], *, as_json: bool) -> bool:
    """Explain the decision whose id begins so, or whose number that is. False: there is none, and the digits were meant
    otherwise; a number is no command."""
    config = loaded(configs)
    here = LogScope(config.project, Path(config.root))
    match = by_id(digits, here, notes=False) if len(digits) >= _FEWEST else None
    if match is None and digits.isdecimal() and not digits.startswith("0"):
        match = found(digits, here)
        if match[1].record.note is not None:
            raise UsageError(f"record {digits} is about the log itself: nothing was decided", hint="name another one")
    if match is None:
        note(f"no record of the log has an id that begins with `{digits}`, so this is about a command")
        return False
    record, _ = whole(*match)
    if record.project and record.project != config.project:
        config = loader.load_for_cwd(record.cwd or record.project, [os.path.abspath(file) for file in configs])
    past = look_back(record, kept(Path(config.root), record.config), config, _as_kept(config))
    if as_json:
        say_json(_as_data(past))
    else:
        say("\n".join(_screen(past)))
    return True


def _as_kept(config: Config) -> dict[str, Any]:
    """The configuration of today in the form in which those of the past are kept: secrets that are equal stay equal."""
    data = content(config)
    options = with_defaults("event-logger", config.builtins["event-logger"].options)
    if options["redact"]:
        from billhook.store.redaction import redactor

        data = redactor(Path(config.root), more_keys=options["redact_keys"]).value(data)
    form: dict[str, Any] = strictjson.loads(strictjson.encode(data), max_bytes=None)
    return form


def _as_data(past: Past) -> dict[str, Any]:
    record = past.record
    return {
        **picked(
            record, "id seq time event tool input session_id session_name turn_id cwd project host decision reason"
        ),
        "decided_by": past.by,
        **picked(record, "failed_open judged duration_ms config?"),
        "config_known": past.known,
        "hooks": [_hook_data(one) for one in past.hooks],
        "today": {
            "differs": past.differs if past.known else None,
            "added": [row["name"] for row in past.added],
            "removed": past.removed,
            "changed": [one.name for one in past.hooks if one.changes],
            "settings": past.settings,
            "verdict": outlook_data(past.today.outlook) if past.today is not None else None,
            "not_known": past.untold,
        },
    }


def _hook_data(one: Considered) -> dict[str, Any]:
    today = None if one.today is None else picked(one.today, "runs why?")
    return {**picked(one, "name standing why? decided own said then now changes"), "today": today}


# -- on the screen


def _screen(past: Past) -> Iterator[str]:
    event, record = event_of(past.record), past.record
    title = heading(event) if event is not None else one_line(f"{record.event} {record.tool or ''}", width())
    yield click.style(title, bold=True)
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
    return one.said is not None and one.said.source == "built-in" and word_of(one.said) == "no objection"


def _hook(one: Considered, place: int) -> Iterator[str]:
    word = word_of(one.said) if one.said is not None else one.standing
    well = one.said is not None and one.said.status == "ok"
    colour = _COLOURS.get(word, "green") if well else "yellow"
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
    yield from (one_line(f"{key} {row[key]}", 70) for key in ("match", "if") if row.get(key))
    if row.get("dialect") and row.get("layer") != "built-in":
        yield str(row["dialect"])
    if row.get("on_failure"):
        yield failure_rule(str(row["on_failure"]))
    if row.get("trust"):
        yield str(row["trust"])
    if row.get("file"):
        yield shown_path(str(row.get("source") or row["file"]))


def _verdict(past: Past) -> Iterator[str]:
    for line in filled(f"verdict: {_decision(past)}", 0):
        yield click.style(line, bold=True)
    if past.record.reason:
        yield from filled(f"reason: {past.record.reason}", 0)
    if past.record.failed_open and past.record.judged:
        yield f"{counted(past.record.failed_open, 'hook')} failed and let the event pass"


def _decision(past: Past) -> str:
    record = past.record
    if not record.judged:
        did = "the event passed" if record.decision == "none" else f"the answer was {record.decision}"
        return f"never judged; {did}"
    because = f", because of {', '.join(past.by)}" if past.by else ""
    what = f"{record.decision} (no objection)" if record.decision == "none" and not because else record.decision
    did = ", and the agent was stopped" if record.stop else ", and the agent went on" if record.keep_going else ""
    return f"{what}{because}{did}, after {record.duration_ms:.1f} ms"


def _today(past: Past) -> Iterator[str]:
    yield click.style("Today", bold=True)
    lines = list(_differences(past))
    if not lines and past.known:
        lines = ["the configuration is the same as far as this event goes"]
    if past.today is not None:
        lines.append(verdict_line(past.today.outlook, past.today.event))
    lines += [f"not known: {text}" for text in past.untold]
    for line in lines:
        yield from hanging(line, 2)


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
        place = f" ({shown_path(str(row['source']))})" if row.get("file") else ""
        yield f"{row['name']}: {'added' if past.known else 'not in the record'}{place}"
    for change in past.settings:
        yield _change(change)


def _outcome(one: Considered) -> str:
    """What becomes of it today, where that differs."""
    if one.today is None:
        return ""
    if one.standing in ("asked", "background") and not one.today.runs:
        return f", so it would not be asked: {one.today.why}"
    own_condition = one.standing == "not asked" or one.why.startswith("condition")
    return ", so it would be asked" if own_condition and one.today.runs else ""


def _change(change: FieldChange) -> str:
    if change.field == "hash":
        return "what it runs has changed"
    field = "what it does" if change.field == "what" else change.field
    return f"{field} {_value(change.then)} -> {_value(change.now)}"


def _value(value: Any) -> str:
    if value is None or value == []:
        return "none"
    text = value if isinstance(value, str) else strictjson.dumps(value)
    return f"`{one_line(text, 200)}`"
