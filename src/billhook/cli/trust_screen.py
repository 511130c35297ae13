"""A hook that waits for consent, shown in full: what will run, when, and every file it names."""

import functools
from collections.abc import Iterator
from typing import Any

import click

from billhook import strictjson
from billhook.cli.lookalikes import marked, warning
from billhook.cli.table import counted, shown_path
from billhook.config import Entry
from billhook.config.declared import Exec, Python, Run, Say, Url
from billhook.config.fingerprint import FileMark, Fingerprint, changes, text_of
from billhook.config.rows import kind_of
from billhook.events import EVENTS
from billhook.meanings import meanings

MAX_SHOWN = 1 << 20  # longer files are not shown
_MISSING = 5
_LABEL = 12
_RULES = {
    "allow": "the event goes on without its answer",
    "deny": "gate: what it should have judged is denied",
    "ask": "gate: the person is asked",
}


def screen(entry: Entry, number: int, count: int) -> str:
    """Everything that is approved with this hook, for a person to read."""
    return "\n".join(_lines(entry, number, count))


def _lines(entry: Entry, number: int, count: int) -> Iterator[str]:
    before = entry.consent.before
    standing = f"changed since it was approved on {before.approved_at[:10]}" if before else "not approved yet"
    yield f"{click.style(f'{number} of {count}  {marked(entry.shown)}', bold=True)}  ({standing})"
    if odd := warning(_approved_texts(entry)):
        yield click.style(f"warning: {odd}", fg="yellow")
    yield ""
    for label, text in facts(entry):
        first, *rest = marked(text.rstrip("\n")).split("\n")
        yield f"  {label:<{_LABEL}}{first}".rstrip()
        yield from (f"  {'':<{_LABEL}}{line}".rstrip() for line in rest)
    yield from _files(entry)
    yield from _texts(entry)
    if before is not None:
        yield from _changes(entry)


def facts(entry: Entry) -> Iterator[tuple[str, str]]:
    """What the hook is, as pairs of label and text."""
    declared = entry.declared
    yield "events", ", ".join(declared.events) or "every event"
    if declared.match is not None:
        yield "match", declared.match
    if declared.when:
        yield "if", declared.when
    yield from _action(entry)
    if isinstance(declared.action, Run | Exec | Python | Url):
        yield "dialect", declared.dialect
        yield "timeout", f"{declared.timeout:g} s" if declared.timeout is not None else f"{_default(entry)} (default)"
    if declared.background:
        yield "background", "its answer comes later"
    if declared.always:
        yield "always", "it also runs after another hook denied"
    if not isinstance(declared.action, Say) or declared.gate:
        yield "on failure", _RULES[declared.on_failure]
    yield "priority", f"{declared.priority:g}"
    if declared.after:
        yield "after", ", ".join(declared.after)
    yield "from", f"{shown_path(declared.file)}:{declared.line}"
    yield "hash", entry.hash


def _default(entry: Entry) -> str:
    """The dialect's own time-outs, for the events that the hook is for."""
    rule = meanings(entry.declared.dialect)
    seconds = dict.fromkeys(rule.timeouts.get(event, rule.timeout) for event in entry.declared.events or EVENTS)
    return " or ".join(f"{number:g} s" for number in seconds or (rule.timeout,))


def _action(entry: Entry) -> Iterator[tuple[str, str]]:
    """What exactly runs."""
    declared = entry.declared
    match declared.action:
        case Run(text, shell, login):
            yield "runs", text
            how = [shell] if shell else []
            how += ["as a login shell"] if login == "exact" else []
            yield from (("shell", ", ".join(how)),) if how else ()
        case Exec(argv):
            yield "runs", strictjson.dumps(list(argv))
        case Python(target, interpreter):
            yield "runs", f"Python function {target}" + (f", by {interpreter}" if interpreter else "")
        case Url(url, headers, allowed_env):
            yield "sends to", url
            if headers:
                yield "headers", ", ".join(name for name, _ in headers)
            if allowed_env:
                yield "may send", "the variables " + ", ".join(allowed_env)
        case Say(decision, text):
            yield {"inject": "injects", "deny": "denies", "ask": "asks", "allow": "allows"}[decision], text or "-"
        case None:
            does = "blocks what it would have judged" if declared.gate else "does nothing"
            yield "broken", f"{declared.broken}\nonce approved, it {does} until it is mended"
        case _:
            yield "runs", f"{kind_of(declared.action)}: billhook does not run this kind yet"


def _print(entry: Entry) -> Fingerprint:
    assert entry.consent.fingerprint is not None
    return entry.consent.fingerprint


def _files(entry: Entry) -> Iterator[str]:
    """The files that the hook names, and how many count besides: part of what is approved."""
    label = "files"
    for text in _file_lines(_print(entry)):
        yield f"  {label:<{_LABEL}}{marked(text)}"
        label = ""
    label = "uncovered"
    for text in _print(entry).uncovered:
        yield f"  {label:<{_LABEL}}{marked(text)}"
        label = ""


def _file_lines(print_: Fingerprint) -> Iterator[str]:
    for mark in print_.named:
        if mark.identity:
            yield f"{shown_path(mark.path)}  {_size(mark)}"
    missing = [mark for mark in print_.named if not mark.identity]
    for mark in missing[:_MISSING]:
        yield f"{shown_path(mark.path)}  not there; if it appears, the hook waits again"
    if len(missing) > _MISSING:
        yield f"and {len(missing) - _MISSING} more that are not there"
    for folder, count in print_.trees.items():
        yield f"and {counted(count, 'code file')} in {shown_path(folder)}/"


def _size(mark: FileMark) -> str:
    size = f"{mark.identity[2]:,} bytes"
    return f"{size}, sha256 {mark.sha256[:12]}" if mark.sha256 else f"{size}, can't be read: known by its times"


def unseen(entry: Entry) -> list[str]:
    """The files that the hook names and that can't be shown: approved without having been seen."""
    return [shown_path(mark.path) for mark in _print(entry).named if mark.identity and _text(mark) is None]


def covered_texts(entry: Entry) -> str:
    """The files that count because of their folder, in full."""
    marks = _print(entry).files[len(_print(entry).named) :]
    return "\n".join(line for mark in marks for line in _shown(mark)) or "nothing else counts"


def _approved_texts(entry: Entry) -> Iterator[str]:
    yield entry.shown
    yield from (text for _, text in facts(entry))
    for mark in _print(entry).files:
        yield mark.path
        yield (_text(mark) or "") if mark.identity else ""


def _texts(entry: Entry) -> Iterator[str]:
    """The scripts themselves, exactly as they were fingerprinted."""
    for mark in _print(entry).named:
        if mark.identity:
            yield from _shown(mark)


def _shown(mark: FileMark) -> Iterator[str]:
    yield ""
    text = _text(mark)
    if text is None:
        yield f"  {marked(shown_path(mark.path))}: binary, long or changing; not shown"
        return
    yield f"  {marked(shown_path(mark.path))}"
    lines = text.removesuffix("\n").split("\n")  # not splitlines: to a shell, no other character ends a line
    yield from (f"    | {marked(line)}".rstrip() for line in lines)  # all of it: it is all approved


@functools.lru_cache(maxsize=64)
def _text(mark: FileMark) -> str | None:
    return text_of(mark, MAX_SHOWN)


def _changes(entry: Entry) -> Iterator[str]:
    print_, before = entry.consent.fingerprint, entry.consent.before
    assert print_ is not None and before is not None
    yield ""
    yield "  what changed"
    for line in changes(before, entry.declared, print_):
        colour = {"+": "green", "-": "red"}.get(line[:1])
        yield f"    {click.style(marked(line), fg=colour)}".rstrip()


def as_data(entry: Entry, approved: bool) -> dict[str, Any]:
    """The same as JSON."""
    declared, print_ = entry.declared, entry.consent.fingerprint
    assert print_ is not None
    return {
        "name": entry.shown,
        "approved": approved,
        "state": entry.state,
        "events": list(declared.events),
        "match": declared.match,
        "if": declared.when or None,
        "kind": kind_of(declared.action),
        "what": declared.does,
        "broken": declared.broken or None,
        "dialect": declared.dialect,
        "timeout": declared.timeout,
        "on_failure": declared.on_failure,
        "background": declared.background,
        "always": declared.always,
        "priority": declared.priority,
        "after": list(declared.after),
        "source": declared.place,
        "file": declared.file,
        "line": declared.line,
        "hash": entry.hash,
        "files": [
            {"path": mark.path, "size": mark.identity[2] if mark.identity else None, "sha256": mark.sha256 or None}
            for mark in print_.files
        ],
        "folders": [{"path": folder, "code_files": count} for folder, count in print_.trees.items()],
        "not_covered": list(print_.uncovered),
        "not_shown": unseen(entry),
        "warning": warning(_approved_texts(entry)) or None,
        "changes": changes(entry.consent.before, declared, print_) if entry.consent.before is not None else None,
    }
