"""A hook that waits for consent, shown in full: what will run, when, and every file it names."""

from collections.abc import Iterator
from typing import Any

import click

from billhook import strictjson
from billhook.cli.show import safe
from billhook.cli.table import shown_path
from billhook.config import Entry
from billhook.config.declared import Exec, Python, Run, Say, Url
from billhook.config.fingerprint import FileMark, approval_of, changes
from billhook.config.rows import kind_of
from billhook.meanings import meanings

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
    yield f"{click.style(f'{number} of {count}  {safe(entry.shown)}', bold=True)}  ({standing})"
    yield ""
    for label, text in facts(entry):
        first, *rest = safe(text.rstrip("\n")).split("\n")
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
    seconds = dict.fromkeys(rule.timeouts.get(event, rule.timeout) for event in entry.declared.events)
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


def _files(entry: Entry) -> Iterator[str]:
    """The files that the hook names: part of what is approved."""
    marks = entry.consent.fingerprint.files if entry.consent.fingerprint is not None else ()
    label = "files"
    for mark in (mark for mark in marks if mark.identity):
        yield f"  {label:<{_LABEL}}{safe(shown_path(mark.path))}  {_size(mark)}"
        label = ""
    missing = [mark for mark in marks if not mark.identity]
    for mark in missing[:_MISSING]:
        yield f"  {label:<{_LABEL}}{safe(shown_path(mark.path))}  not there; if it appears, the hook waits again"
        label = ""
    if len(missing) > _MISSING:
        yield f"  {label:<{_LABEL}}and {len(missing) - _MISSING} more that are not there"


def _size(mark: FileMark) -> str:
    size = f"{mark.identity[2]:,} bytes"
    return f"{size}, sha256 {mark.sha256[:12]}" if mark.sha256 else f"{size}, can't be read: known by its times"


def _texts(entry: Entry) -> Iterator[str]:
    """The scripts themselves, exactly as they were fingerprinted."""
    print_ = entry.consent.fingerprint
    assert print_ is not None
    contents = approval_of(entry.declared, print_).contents
    for mark in print_.files:
        if not mark.identity:
            continue
        yield ""
        text = contents.get(mark.path)
        if text is None:
            yield f"  {safe(shown_path(mark.path))}: binary, long or changing; not shown"
            continue
        yield f"  {safe(shown_path(mark.path))}"
        lines = text.removesuffix("\n").split("\n")  # not splitlines: to a shell, no other character ends a line
        yield from (f"    | {safe(line)}".rstrip() for line in lines)  # all of it: it is all approved


def _changes(entry: Entry) -> Iterator[str]:
    print_, before = entry.consent.fingerprint, entry.consent.before
    assert print_ is not None and before is not None
    yield ""
    yield "  what changed"
    for line in changes(before, entry.declared, print_):
        colour = {"+": "green", "-": "red"}.get(line[:1])
        yield f"    {click.style(safe(line), fg=colour)}".rstrip()


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
        "changes": changes(entry.consent.before, declared, print_) if entry.consent.before is not None else None,
    }
