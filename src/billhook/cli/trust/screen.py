"""The screen of a pending hook or allow rule: everything, with look-alike and invisible characters marked."""

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import click

from billhook.cli.screen import picked, shown_path
from billhook.config.config import Config, Entry, kind_of
from billhook.config.declaration import (
    Exec,
    Mask,
    Python,
    Rewrite,
    RunAction,
    Say,
    Url,
    conditions_in_words,
    needs_consent,
)
from billhook.config.permissions import NAME, Waiting
from billhook.config.trust import FileMark, Fingerprint, changes, text_of
from billhook.core import strictjson
from billhook.core.dialect_traits import meanings
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS
from billhook.core.text import counted, escape, visible

_ALIKE: Final = frozenset("аАВеЕКМНоОрРсСТуУхХіІјЈѕЅԁԛԝһӏүҮԌΑΒΕΖΗΙΚΜΝΟΡΤΥΧονιαρυκօՕսՍհոցքհıȷɑɡɩʋǃ∕⁄∖ꓸ։")
"""Characters that look like ASCII ones. Those that Unicode itself normalizes to ASCII are not in this list."""
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_WORD: Final = re.compile(r"\w+")


def marked(text: str) -> str:
    """The text with suspicious characters escaped, and all that `visible` escapes."""
    lines = []
    for line in text.split("\n"):
        at = suspicious(line)
        lines.append("".join(escape(char) if place in at else visible(char) for place, char in enumerate(line)))
    return "\n".join(lines)


def suspicious(line: str) -> set[int]:
    """The positions of suspicious characters in a line."""
    if line.isascii() and line.isprintable():
        return set()
    return {at for at, char in enumerate(line) if _is_odd(char)} | _foreign(line)


def _is_odd(char: str) -> bool:
    if char.isascii():
        return not char.isprintable() and char != "\t"
    equal = unicodedata.normalize("NFKC", char)
    looks_plain = len(equal) == 1 and equal.isascii()
    return looks_plain or not char.isprintable() or char.isspace() or _BLANK.match(char) is not None


def _foreign(line: str) -> set[int]:
    """Look-alikes of ASCII letters, in a word that also has ASCII letters or has only look-alikes. In real text of
    another script, some letters are no look-alikes."""
    prose = any(char.isalpha() and not char.isascii() and char not in _ALIKE for char in line)
    found: set[int] = set()
    for word in _WORD.finditer(line):
        letters = [char for char in word[0] if char.isalpha()]
        mixed = any(char.isascii() for char in letters)
        if mixed or (not prose and all(char in _ALIKE for char in letters)):
            found |= {word.start() + at for at, char in enumerate(word[0]) if char in _ALIKE}
    return found | {at for at, char in enumerate(line) if char in _ALIKE and not char.isalnum()}


def warning(texts: Iterable[str]) -> str:
    """One line that names the suspicious characters in the texts; empty if there are none."""
    lines = (line for text in texts for line in text.split("\n"))
    found = Counter(line[at] for line in lines for at in sorted(suspicious(line)))
    if not found:
        return ""
    names = [f"{escape(char)} {unicodedata.name(char, 'control character').lower()}" for char in list(found)[:4]]
    more = f" and {len(found) - 4} others" if len(found) > 4 else ""
    count = found.total()
    what = "1 character looks" if count == 1 else f"{count} characters look"
    return f"{what} like another character or can't be seen: {', '.join(names)}{more}"


# The hooks that an argument names:
_HASH = re.compile(r"[0-9a-f]{8,64}")
_SHORT = 12
_NAMED = 8  # hooks that a hint names; the others are counted


def chosen(config: Config, word: str) -> list[Entry]:
    """The hooks that need approval and match a word: the one with that display name; else those of that name, if at
    most one of them is pending; else those with the hash. Raises UsageError if the word is ambiguous."""
    theirs = [entry for entry in config.entries if entry.hash]
    if shown := [entry for entry in theirs if entry.shown == word]:
        return shown
    named = [(entry, entry.declared) for entry in theirs]
    called = [entry for entry, one in named if word in (one.name, f"{one.layer}/{one.name}")]
    pending = [entry for entry in called if entry.pending]
    refuse_several(word, [(entry.shown, entry.hash) for entry in pending])
    if called:
        return pending or called
    hashed = [entry for entry in theirs if is_hash_of(word, entry.hash)]
    refuse_several(word, {entry.hash: (entry.shown, entry.hash) for entry in hashed}.values())
    return hashed


def is_hash_of(word: str, hash: str) -> bool:  # noqa: A002 (its name everywhere else)
    """Whether a word is a hash, or a long enough prefix of it."""
    return _HASH.fullmatch(word) is not None and hash.startswith(word)


def refuse_several(word: str, found: Iterable[tuple[str, str]]) -> None:
    """Raises UsageError, with display names and hashes, if a word means more than one hook."""
    several: Sequence[tuple[str, str]] = list(found)
    if len(several) < 2:
        return
    names = ", ".join(f"{shown} ({hash_[:_SHORT]})" for shown, hash_ in several[:_NAMED])
    more = f" and {len(several) - _NAMED} more" if len(several) > _NAMED else ""
    raise UsageError(f"`{word}` could mean {len(several)} hooks", hint=f"use a name or hash: {names}{more}")


# Allow rules that came with a project:
_LABEL = 12


def rules_called(config: Config, word: str) -> list[Waiting] | None:
    """The pending rules that match a word: `permissions`, `permissions.allow`, the same with a layer before it, their
    display name, or a hash. None: the word means no rules; empty: they are already approved. Raises UsageError if the
    word is ambiguous."""

    def names(layer: str) -> tuple[str, ...]:
        return ("permissions", NAME, f"{layer}/{NAME}")

    pending = config.permissions.pending
    found = [one for one in pending if word in (one.shown, *names(one.layer)) or is_hash_of(word, one.hash)]
    if len(found) > 1:
        which = ", ".join(f"{one.layer}/{NAME} ({one.hash[:_SHORT]}, {one.shown})" for one in found)
        raise UsageError(f"`{word}` could mean the rules of {len(found)} files", hint=f"use one of: {which}")
    if found:
        return found
    approved = [one for one in config.permissions.allow if needs_consent(one.layer)]
    return [] if any(word in names(one.layer) for one in approved) else None


def rules_summary(now: Config) -> list[str]:
    """Which allow rules of the project are in force now, and which are pending."""
    counting = Counter(one.file for one in now.permissions.allow if needs_consent(one.layer))
    lines = [f"{NAME} of {shown_path(file)}: {counted(count, 'rule')} in force" for file, count in counting.items()]
    lines += [f"{one.shown}: {counted(len(one.rules), 'rule')} not in force" for one in now.permissions.pending]
    return [visible(line) for line in lines]


# A pending hook, shown in full:
Pending = Entry | Waiting  # what waits for approval: a hook, or the allow rules of a file

MAX_SHOWN = 1 << 20  # longer files are not shown
_MISSING = 5
_RULES = {
    "allow": "the event continues without its answer",
    "deny": "gate: the event is denied",
    "ask": "gate: the user is asked",
}


def whole(one: Pending, number: int, count: int) -> Iterator[str]:
    """Everything that an approval of this hook, or of the rules of a file, covers."""
    status = "not approved yet"
    if isinstance(one, Waiting):
        status = "more rules than were approved" if one.before is not None else status
    elif before := one.consent.before:
        status = f"changed since it was approved on {before.approved_at[:10]}"
    yield f"{click.style(f'{number} of {count}  {marked(one.shown)}', bold=True)}  ({status})"
    if odd := warning(_approved_texts(one)):
        yield click.style(f"warning: {odd}", fg="yellow")
    yield ""
    if isinstance(one, Waiting):
        yield "  these calls of an agent would run without asking:"
        for rule in one.rules:
            known = one.before is None or str(rule.rule) in one.before
            text = marked(str(rule.rule)).replace("\n", "\\n")  # never shortened: all of it is approved
            yield f"    | {text}{'' if known else click.style('  (new)', fg='green')}"
        yield from ("", f"  {'from':<{_LABEL}}{visible(shown_path(one.file))}:{one.rules[0].line}")
        yield f"  {'hash':<{_LABEL}}{one.hash}"
        return
    for label, text in facts(one):
        first, *rest = marked(text.rstrip("\n")).split("\n")
        yield f"  {label:<{_LABEL}}{first}".rstrip()
        yield from (f"  {'':<{_LABEL}}{line}".rstrip() for line in rest)
    print_ = _print(one)  # the approval covers the files that the hook names, and others beside them
    for label, texts in (("files", list(_file_lines(print_))), ("uncovered", print_.uncovered)):
        for place, text in enumerate(texts):
            yield f"  {'' if place else label:<{_LABEL}}{marked(text)}"
    for mark in print_.named:  # the scripts themselves, exactly as in the fingerprint
        yield from _shown(mark) if mark.identity else ()
    if one.consent.before is not None:
        yield from ("", "  what changed")
        for line in changes(one.consent.before, one.declared, print_):
            colour = {"+": "green", "-": "red"}.get(line[:1])
            yield f"    {click.style(marked(line), fg=colour)}".rstrip()


def facts(entry: Entry) -> Iterator[tuple[str, str]]:
    """The definition of the hook, as pairs of label and text."""
    declared = entry.declared
    yield "events", ", ".join(declared.events) or "every event"
    if declared.match is not None:
        yield "match", declared.match
    yield from conditions_in_words(declared.conditions.as_data())
    yield from _action(entry)
    if isinstance(declared.action, RunAction | Exec | Python | Url):
        yield "dialect", declared.dialect
        rule = meanings(declared.dialect)
        usual = dict.fromkeys(rule.timeouts.get(event, rule.timeout) for event in declared.events or EVENTS)
        default = f"{' or '.join(f'{seconds:g} s' for seconds in usual)} (default)"
        yield "timeout", f"{declared.timeout:g} s" if declared.timeout is not None else default
    if declared.background:
        yield "background", "it answers later"
    if declared.shadow:
        yield "shadow", "it runs and is recorded, and decides nothing"
    if declared.always:
        yield "always", "it also runs after another hook denied"
    if not isinstance(declared.action, Say) or declared.gate:
        yield "on failure", _RULES[declared.on_failure]
    yield "priority", f"{declared.priority:g}"
    if declared.after:
        yield "after", ", ".join(declared.after)
    yield "from", f"{shown_path(declared.file)}:{declared.line}"
    yield "hash", entry.hash


_SAYS = {
    "inject": "injects",
    "deny": "denies",
    "ask": "asks",
    "allow": "allows",
    "notify": "notifies",
    "keep_going": "keeps going",
    "stop": "stops",
}


def _action(entry: Entry) -> Iterator[tuple[str, str]]:
    declared = entry.declared
    match declared.action:
        case RunAction(text, shell, login):
            yield "runs", text
            how = [shell] if shell else []
            how += ["as a login shell"] if login == "exact" else []
            yield from (("shell", ", ".join(how)),) if how else ()
        case Exec(argv):
            yield "runs", strictjson.dumps(list(argv))
        case Python(target, interpreter, options):
            yield "runs", f"Python function {target}" + (f", by {interpreter}" if interpreter else "")
            yield from (("options", options),) if options else ()
        case Url(url, headers, allowed_env):
            yield "sends to", url
            if headers:
                yield "headers", ", ".join(name for name, _ in headers)
            if allowed_env:
                yield "may send", "the variables " + ", ".join(allowed_env)
        case Say(decision, text, file, command):
            yield _SAYS[decision], text or ("-" if not file and not command else "")
            yield from (("file", file),) if file else ()
            yield from (("runs", command),) if command else ()
        case Rewrite() | Mask():
            deed, _, detail = declared.does.partition(": ")
            yield f"{deed}s", detail
        case None:
            does = "blocks its events" if declared.gate else "does nothing"
            yield "broken", f"{declared.broken}\nonce approved, it {does} until it is fixed"
        case _:
            yield "runs", f"{kind_of(declared.action)}: billhook does not run this kind yet"


def _print(entry: Entry) -> Fingerprint:
    assert entry.consent.fingerprint is not None
    return entry.consent.fingerprint


def _file_lines(print_: Fingerprint) -> Iterator[str]:
    for mark in print_.named:
        known = f"sha256 {mark.sha256[:12]}" if mark.sha256 else "can't be read: identified by its times"
        if mark.identity:
            yield f"{shown_path(mark.path)}  {mark.identity[2]:,} bytes, {known}"
    missing = [mark for mark in print_.named if not mark.identity]
    for mark in missing[:_MISSING]:
        yield f"{shown_path(mark.path)}  does not exist; if it appears, the hook needs a new approval"
    if len(missing) > _MISSING:
        yield f"and {len(missing) - _MISSING} more that don't exist"
    yield from (f"and {counted(count, 'code file')} in {shown_path(folder)}/" for folder, count in print_.trees.items())


def unseen(one: Pending) -> list[str]:
    """The files that the hook names and that can't be shown: an approval covers them unseen."""
    named = () if isinstance(one, Waiting) else _print(one).named
    return [shown_path(mark.path) for mark in named if mark.identity and _text(mark) is None]


def covered_texts(entry: Entry) -> str:
    """The other code files that an approval covers, in full."""
    marks = _print(entry).files[len(_print(entry).named) :]
    return "\n".join(line for mark in marks for line in _shown(mark)) or "there are no other code files"


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
    yield f"  {marked(shown_path(mark.path))}{': binary, long or changing; not shown' if text is None else ''}"
    # not splitlines: a shell ends lines only at newlines; never shortened: all of it is approved
    lines = text.removesuffix("\n").split("\n") if text is not None else ()
    yield from (f"    | {marked(line)}".rstrip() for line in lines)


@functools.lru_cache(maxsize=64)
def _text(mark: FileMark) -> str | None:
    return text_of(mark, MAX_SHOWN)


def as_data(one: Pending, approved: bool) -> dict[str, Any]:
    """The same as JSON."""
    if isinstance(one, Waiting):
        return {
            "name": NAME,
            "approved": approved,
            "state": "new" if one.before is None else "changed",
            "allow": [{"rule": str(rule.rule), **picked(rule, "line column")} for rule in one.rules],
            "source": f"{one.file}:{one.rules[0].line}",
            **picked(one, "layer file hash before"),
        }
    declared, print_, before = one.declared, _print(one), one.consent.before
    return {
        "name": one.shown,
        "approved": approved,
        "state": one.state,
        **picked(declared, "events match"),
        "if": None,
        **declared.conditions.as_data(),
        "kind": kind_of(declared.action),
        "what": declared.does,
        **picked(declared, "broken? dialect timeout on_failure background always shadow priority after"),
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
