"""A hook that waits for consent, shown in full: what will run, when, and every file it names."""

import functools
from collections.abc import Iterator
from typing import Any

import click

from billhook import strictjson
from billhook.cli.lookalikes import marked, warning
from billhook.cli.show import picked
from billhook.cli.table import shown_path
from billhook.cli.trust_permissions import rule_lines, rules_as_data
from billhook.config import Entry
from billhook.config.declared import Exec, Python, Run, Say, Url
from billhook.config.fingerprint import FileMark, Fingerprint, changes, text_of
from billhook.config.permitting import Waiting
from billhook.config.rows import kind_of
from billhook.events import EVENTS
from billhook.meanings import meanings
from billhook.text import counted

Pending = Entry | Waiting  # what waits for consent: a hook, or the allow rules of a file

MAX_SHOWN = 1 << 20  # longer files are not shown
_MISSING = 5
_LABEL = 12
_RULES = {
    "allow": "the event goes on without its answer",
    "deny": "gate: what it should have judged is denied",
    "ask": "gate: the person is asked",
}


def screen(one: Pending, number: int, count: int) -> str:
    """Everything that is approved with this hook, or with the rules of a file, for a person to read."""
    return "\n".join(_lines(one, number, count))


def _lines(one: Pending, number: int, count: int) -> Iterator[str]:
    yield f"{click.style(f'{number} of {count}  {marked(one.shown)}', bold=True)}  ({_standing(one)})"
    if odd := warning(_approved_texts(one)):
        yield click.style(f"warning: {odd}", fg="yellow")
    yield ""
    if isinstance(one, Waiting):
        yield from rule_lines(one)
        return
    for label, text in facts(one):
        first, *rest = marked(text.rstrip("\n")).split("\n")
        yield f"  {label:<{_LABEL}}{first}".rstrip()
        yield from (f"  {'':<{_LABEL}}{line}".rstrip() for line in rest)
    yield from _files(one)
    for mark in _print(one).named:  # the scripts themselves, exactly as they were fingerprinted
        yield from _shown(mark) if mark.identity else ()
    yield from _changes(one)


def _standing(one: Pending) -> str:
    if isinstance(one, Waiting):
        return "more rules than were approved" if one.before is not None else "not approved yet"
    before = one.consent.before
    return f"changed since it was approved on {before.approved_at[:10]}" if before else "not approved yet"


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
    for label, texts in (("files", list(_file_lines(_print(entry)))), ("uncovered", _print(entry).uncovered)):
        for number, text in enumerate(texts):
            yield f"  {'' if number else label:<{_LABEL}}{marked(text)}"


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


def unseen(one: Pending) -> list[str]:
    """The files that the hook names and that can't be shown: approved without having been seen."""
    named = () if isinstance(one, Waiting) else _print(one).named
    return [shown_path(mark.path) for mark in named if mark.identity and _text(mark) is None]


def covered_texts(entry: Entry) -> str:
    """The files that count because of their folder, in full."""
    marks = _print(entry).files[len(_print(entry).named) :]
    return "\n".join(line for mark in marks for line in _shown(mark)) or "nothing else counts"


def _approved_texts(one: Pending) -> Iterator[str]:
    if isinstance(one, Waiting):
        yield from (str(rule.rule) for rule in one.rules)
        return
    yield one.shown
    yield from (text for _, text in facts(one))
    for mark in _print(one).files:
        yield mark.path
        yield (_text(mark) or "") if mark.identity else ""


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
    if entry.consent.before is None:
        return
    yield ""
    yield "  what changed"
    for line in changes(entry.consent.before, entry.declared, _print(entry)):
        colour = {"+": "green", "-": "red"}.get(line[:1])
        yield f"    {click.style(marked(line), fg=colour)}".rstrip()


def as_data(one: Pending, approved: bool) -> dict[str, Any]:
    """The same as JSON."""
    if isinstance(one, Waiting):
        return rules_as_data(one, approved)
    declared, print_, before = one.declared, _print(one), one.consent.before
    return {
        "name": one.shown,
        "approved": approved,
        "state": one.state,
        **picked(declared, "events match"),
        "if": declared.when or None,
        "kind": kind_of(declared.action),
        "what": declared.does,
        **picked(declared, "broken? dialect timeout on_failure background always priority after"),
        "source": declared.place,
        **picked(declared, "file line"),
        "hash": one.hash,
        "files": [
            {"path": mark.path, "size": mark.identity[2] if mark.identity else None, "sha256": mark.sha256 or None}
            for mark in print_.files
        ],
        "folders": [{"path": folder, "code_files": count} for folder, count in print_.trees.items()],
        "not_covered": print_.uncovered,
        "not_shown": unseen(one),
        "warning": warning(_approved_texts(one)) or None,
        "changes": changes(before, declared, print_) if before is not None else None,
    }
