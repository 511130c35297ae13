"""`billhook trust`: show what waits for approval in full and approve it, list and revoke approvals."""

import functools
import os
import re
import shutil
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from billhook.agents.around import agent_around
from billhook.cli.options import at_terminal, flag, refuse_agents, usage
from billhook.cli.screen import fitted, hint, note, picked, report, shown_path, unreadable, width, write, write_json
from billhook.config import declaration, loader, trust
from billhook.config.config import Config, Entry, kind_of, rows
from billhook.config.loader import load_config
from billhook.config.notices import acknowledge, missing
from billhook.config.permissions import NAME, PendingRules, in_force
from billhook.core import strictjson
from billhook.core.errors import UsageError
from billhook.core.text import counted, escape, suggestion, visible
from billhook.store.approvals import Approval, Approvals

Pending = Entry | PendingRules  # what waits for approval: a hook, or the allow rules of a file

_WHOLE = re.compile(r"[0-9a-f]{64}")
_CHOICES = """\
y       approve exactly what is shown
n       don't approve it; Enter does the same
v       view the other code files that this approves
q       quit
?       show this help
unseen  approve it although one of its files can't be shown"""


@usage("""\b
Examples:
  billhook trust                    show each waiting hook, and ask
  billhook trust lint no-destroy    only these
  billhook trust --all --yes        approve everything that waits here
  billhook trust --list             list the approvals of this project
  billhook trust --revoke lint      revoke an approval
  billhook trust --acknowledge      stop warnings about removed gates

Exit code: 0 nothing waits for approval; 1 something still waits; 2 usage,
refused, or a file can't be read.""")
@click.argument("hooks", nargs=-1, metavar="[NAME|HASH ...]")
@flag("--all", "everything", "With --yes: all waiting hooks. With --list: all projects.")
@flag("--yes", "Approve the named hooks, or --all, without asking.")
@flag("--revoke", "revoking", "Revoke the approvals of the named hooks; with --all, of all hooks here.")
@flag("--acknowledge", "Stop the warnings about removed gates: those named, or all.")
@flag("--list", "listing", "List approvals.")
@flag("--json", "as_json", "Print one line of JSON for each hook.")
def verb(
    hooks: tuple[str, ...], everything: bool, yes: bool, revoking: bool, acknowledge: bool, listing: bool, as_json: bool
) -> int:
    """Review the hooks of this project that wait for approval, and approve them.

    Shows each hook in full and asks. Also asks about permission rules in the project's settings files that let an agent
    run calls without asking.

    An approval covers what is shown: the hook's definition, the files that it names, and the code files next to its
    scripts. After a change of any of them, the hook needs a new approval; until then, a gate blocks its events. The
    complete HASH of a hook approves it without asking.
    """
    if hooks and everything:
        raise UsageError("hook names and --all can't be combined", hint="leave one of them out")
    config = load_config(builtins=False)
    if listing:
        return _list_approvals(config, hooks, everywhere=everything, as_json=as_json)
    if revoking:
        refuse_agents("--revoke")
        return _revoke(config, hooks, everything=everything, as_json=as_json)
    if acknowledge:
        refuse_agents("--acknowledge")
        return _acknowledge(config, hooks, as_json=as_json)
    if yes and not hooks and not everything:
        raise UsageError("--yes needs a hook name, or --all", hint="`billhook trust` shows the waiting hooks")
    whole = [word for word in hooks if _WHOLE.fullmatch(word)]
    if yes or whole:
        refuse_agents("--yes" if yes else "a hash")
    wanted = _selected(config, hooks)
    sure = wanted if yes else [one for one in wanted if one.hash in whole]
    return _Review(config, wanted, sure, as_json=as_json).run()


def _selected(config: Config, words: Sequence[str]) -> list[Pending]:
    if not words:
        return [*config.pending, *config.permissions.pending]
    found: dict[int, Pending] = {}
    for word in words:
        entries = _entries_called(config, word)
        if not entries and (rules := _rules_called(config, word)) is not None:
            if not rules:
                note(f"`{word}` is already approved")
            found |= {id(one): one for one in rules}
            continue
        if not entries:
            names = [entry.shown for entry in config.entries if entry.hash]
            hint = suggestion(word, names) if names else "no hook of this project needs approval"
            raise UsageError(f"no hook of this project is called `{word}`", hint=hint)
        pending = [entry for entry in entries if entry.pending]
        if not pending:
            note(f"`{word}` is {'disabled' if entries[0].state == 'off' else 'already approved'}")
        found |= {id(entry): entry for entry in pending}
    return list(found.values())


class _Review:
    """Shows the pending items one after the other, with one decision for each."""

    def __init__(self, config: Config, wanted: list[Pending], sure: list[Pending], *, as_json: bool) -> None:
        self.config, self.wanted, self.as_json = config, wanted, as_json
        self.sure = {id(one) for one in sure}
        self.approved: list[Pending] = []
        self.approvals: list[Approval] = []
        self.changed = False
        self.over = False
        terminal = not as_json and at_terminal()
        self.agent = agent_around() if terminal else ""
        self.asks = terminal and not self.agent

    def run(self) -> int:
        for text in loader.doubts(self.config):
            note(f"ignoring invalid approvals: {text}")
        for number, one in enumerate(self.wanted, 1):
            if not self.as_json:
                self._show("\n".join(_in_full(one, number, len(self.wanted))) + "\n")
            agreed = id(one) in self.sure or (self.asks and not self.over and self._answered(one))
            approved = not self.over and agreed and self._approve(one)
            if self.as_json:
                write_json(_pending_data(one, approved))
            if self.over:
                break
        return self._end()

    def _answered(self, one: Pending) -> bool:
        hidden = _unseen(one)
        while True:
            match typed(f"approve {marked(one.shown)}? [y/N/v/q/?] "):
                case "y" | "yes" if hidden:
                    write(f"not shown: {', '.join(map(marked, hidden))}; type `unseen` to approve it anyway")
                case "y" | "yes":
                    return True
                case "unseen" if hidden:
                    return True
                case "v" | "view" if not isinstance(one, PendingRules):
                    self._show(_covered_texts(one))
                case "" | "n" | "no":
                    return False
                case "q" | "quit":
                    self.over = True
                    return False
                case _:
                    write(_CHOICES)

    def _show(self, text: str) -> None:
        """Print it; in a pager if the user is asked and it does not fit on the screen."""
        shown = fitted(text, width())
        if self.asks and shown.count("\n") >= shutil.get_terminal_size().lines:
            click.echo_via_pager(shown)
        else:
            write(text)

    def _approve(self, one: Pending) -> bool:
        how = "with `billhook trust --yes`" if id(one) in self.sure else "from a terminal"
        try:
            approve = trust.approve_rules if isinstance(one, PendingRules) else trust.approve_entry
            approval = approve(one, self.config.root, how)  # type: ignore[arg-type]
        except trust.ChangedError as error:
            self.changed = True
            write(f"not approved: {marked(str(error))}\n", err=True)
            return False
        self.approved.append(one)
        self.approvals.append(approval)
        if id(one) in self.sure and (hidden := _unseen(one)):
            note(f"{one.shown} was approved without showing {', '.join(hidden)}: binary, long or changing")
        if not self.as_json:
            write(click.style(f"approved {marked(one.shown)}", fg="green") + "\n")
        return True

    def _end(self) -> int:
        log_trust("approved", self.approvals, self.config)
        now = load_config(builtins=False)
        hashes = {one.hash for one in self.wanted}
        waiting: list[Pending] = [*now.pending, *now.permissions.pending]
        left = [one for one in waiting if one.hash in hashes]
        if not self.as_json:
            hooks = sum(not isinstance(one, PendingRules) for one in self.approved)
            write("\n".join([_summary(now, hooks), *_rules_summary(now)]))
        if left and self.agent and not (self.approved or self.over):
            hint(f"only a person can approve hooks, and this runs inside {self.agent}: run it in your own terminal")
        elif left and not (self.approved or self.over or self.asks):
            hint(
                "run `billhook trust` in a terminal to decide about each hook; `--yes` approves the named hooks, "
                "`--all --yes` all"
            )
        if any(declaration.needs_consent(read.source.layer) for read in now.unreadable):
            return 2
        return 1 if left or self.changed else 0


def typed(question: str) -> str:
    """One answer from the terminal. Input from before the question is discarded."""
    import termios

    click.echo(question, nl=False)
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    line = sys.stdin.readline()
    if not line:
        click.echo()
    return line.strip().lower() if line else "q"


def agreed(question: str) -> bool:
    return typed(f"{question} [y/N] ") in ("y", "yes")


def log_trust(action: trust.TrustAction, approvals: Iterable[Approval], config: Config, **more: object) -> None:
    """Record in the event log what the user allowed or revoked, and note if that fails."""
    if unrecorded := trust.record_trust(action, approvals, config, **more):
        note(f"this was not logged: {unrecorded}")


def _summary(now: Config, approved: int) -> str:
    theirs = [entry for entry in now.entries if entry.hash]
    if not theirs:
        return unreadable(now) or "this project has no hooks that need approval"
    run = [entry.shown for entry in theirs if entry.state == "runs"]
    parts = [f"{counted(approved, 'hook')} approved"] if approved else []
    parts.append(f"{counted(len(run), 'hook')} of this project {'runs' if len(run) == 1 else 'run'}")
    text = "; ".join(parts) + (f": {', '.join(map(marked, run))}" if run else "")
    waiting = [entry.shown for entry in now.pending]
    if not waiting:
        return text if now.permissions.pending else f"{text}\nnothing waits for approval"
    wait = "waits" if len(waiting) == 1 else "wait"
    text += f"\n{counted(len(waiting), 'hook')} {wait}: {', '.join(map(marked, waiting))}"
    blocking = [row.name for row in rows(now) if row.effect == "blocks" and row.state == "changed"]
    blocked = f"\ncalls are blocked until you approve what checks them: {', '.join(map(marked, blocking))}"
    return text + (blocked if blocking else "")


# Approvals: list and revoke them:
def _list_approvals(config: Config, words: Sequence[str], *, everywhere: bool, as_json: bool) -> int:
    """Show the approvals of this project, or of all projects, the newest first."""
    approvals = Approvals(Path(config.root))
    found = _known(config, approvals, everywhere)
    if words:
        found = list({one.file + one.hash: one for word in words for one in _called(word, found, config)}.values())
    for text in approvals.problems:
        note(f"ignored: {text}")
    nothing = "there are no approvals" if everywhere else "there are no approvals here"
    lines = [line for one in found for line in _approval_lines(one, config)] or [nothing]
    report(as_json, lines, *(_approval_data(one, config) for one in found))
    return 0


def _revoke(config: Config, words: Sequence[str], *, everything: bool, as_json: bool) -> int:
    """Revoke approvals, and report what no longer runs."""
    if not words and not everything:
        raise UsageError("--revoke needs a hook name, or --all", hint="`billhook trust --list` shows the approvals")
    approvals = Approvals(Path(config.root))
    known = _known(config, approvals, everywhere=False)
    chosen = _chosen(known, words, config) if words else known
    gone = [one for one in chosen if approvals.revoke(one.file, one.hash)]
    log_trust("revoked", gone, config)
    names = [visible(_name_of(one, config)) for one in gone]
    lines = [f"revoked {name}  {shown_path(one.file)}  {one.hash[:12]}" for one, name in zip(gone, names, strict=True)]
    what = "no longer runs" if all(one.of_hook for one in gone) else "no longer in force"
    text = f"{counted(len(gone), 'approval')} revoked; {what}: {', '.join(dict.fromkeys(names))}"
    lines.append(text if gone else "there are no approvals here")
    report(as_json, lines, *({**_approval_data(one, config), "revoked": True} for one in gone))
    return 0 if gone else 1


def _acknowledge(config: Config, words: Sequence[str], *, as_json: bool) -> int:
    """Stop reporting gates that disappeared, and list them."""
    found = missing(config)
    if words:
        found = [one for one in found if set(words) & {*one.gates, one.file}]
        if not found:
            raise UsageError(f"no missing gate is called `{words[0]}`", hint="`billhook` lists them")
    acknowledge(config, found)
    names = [picked(one, "file gates") for one in found]
    if found:
        log_trust("acknowledged", (), config, gates=names)
    lines = [f"acknowledged {', '.join(map(visible, one.gates))}  {shown_path(one.file)}" for one in found]
    report(as_json, lines or ["no gate is missing here"], *names)
    return 0


def _known(config: Config, approvals: Approvals, everywhere: bool) -> list[Approval]:
    if everywhere:
        return approvals.all()
    files = {read.source.path for read in config.sources if declaration.needs_consent(read.source.layer)}
    inside = config.project.rstrip("/") + "/"
    return [one for one in approvals.all() if one.file in files or one.file.startswith(inside)]


def _chosen(known: list[Approval], words: Sequence[str], config: Config) -> list[Approval]:
    """The approvals of the named hooks, with earlier ones of the same hooks. Raises UsageError if a word could mean
    several hooks."""
    found: dict[str, Approval] = {}
    for word in words:
        approvals = _shown_as(word, known, config)
        for one in approvals:  # it grows: replaced ones go too, or a hook that is changed back would run
            before = (one.file, one.replaces)
            approvals += [old for old in known if old not in approvals and (old.file, old.hash) == before]
        if not approvals:
            approvals = _called(word, known, config)
            hooks = {_hook_of(one, config): (_name_of(one, config), one.hash) for one in reversed(approvals)}
            _refuse_several(word, hooks.values())
        found |= {one.hash + one.file: one for one in approvals}
    # An earlier, longer list of a file's allow rules would still cover the present ones: all lists are revoked.
    files = {one.file for one in found.values() if not one.of_hook}
    found |= {one.hash + one.file: one for one in known if one.file in files and not one.of_hook}
    return list(found.values())


def _shown_as(word: str, known: list[Approval], config: Config) -> list[Approval]:
    hooks = [entry for entry in config.entries if entry.hash and entry.shown == word]
    keys = {(entry.declared.file, key) for entry in hooks for key in (entry.hash, entry.shown)}
    return [one for one in known if {(one.file, one.hash), _hook_of(one, config)} & keys]


def _called(word: str, known: list[Approval], config: Config) -> list[Approval]:
    """The approvals of the hook with that display name; else of every hook of that name; else those with the hash."""
    layers = {read.source.path: read.source.layer for read in config.sources}
    found = _shown_as(word, known, config)
    found = found or [one for one in known if word in (one.name, f"{layers.get(one.file, '')}/{one.name}")]
    found = found or [one for one in known if _is_hash_of(word, one.hash)]
    if not found:
        names = dict.fromkeys(_name_of(one, config) for one in known)
        hint = suggestion(word, names) if names else "there are no approvals here"
        raise UsageError(f"there is no approval for `{word}` here", hint=hint)
    return found


def _entry_of(one: Approval, config: Config) -> Entry | None:
    """The hook of an approval: the approved version of it; else a changed version; else the only hook of that name in
    its file. None for the rules of a file."""
    hooks = config.entries if one.of_hook else ()
    here = [entry for entry in hooks if entry.hash and entry.declared.file == one.file]
    approved = [entry for entry in here if entry.hash == one.hash]
    came = [entry for entry in here if entry.consent.before is not None and entry.consent.before.hash == one.hash]
    called = [entry for entry in here if entry.declared.name == one.name]
    return next(iter([*approved, *came, *(called if len(called) == 1 else ())]), None)


def _hook_of(one: Approval, config: Config) -> tuple[str, str]:
    entry = _entry_of(one, config)
    return one.file, entry.shown if entry is not None else f" {one.name}"


def _name_of(one: Approval, config: Config) -> str:
    entry = _entry_of(one, config)
    return entry.shown if entry is not None else one.name


def _status(one: Approval, config: Config) -> str:
    approved = any(entry.hash == one.hash and entry.declared.file == one.file for entry in config.entries)
    if approved or (not one.of_hook and in_force(one, config.sources)):
        return "in force"
    if not os.path.exists(one.file):
        return "its file is gone"
    here = any(read.source.path == one.file for read in config.sources)
    return "no longer there" if here else "another project"


def _approval_lines(one: Approval, config: Config) -> list[str]:
    status = _status(one, config)
    mark = "" if status == "in force" else f"  ({status})"
    gate = ", gate" if one.gate else ""
    when = one.approved_at[:16].replace("T", " ")
    first = f"{when}  {click.style(visible(_name_of(one, config)), fg='cyan')}{gate}{mark}"
    return [first, f"                  {visible(shown_path(one.file))}  {one.hash[:12]}"]


def _approval_data(one: Approval, config: Config) -> dict[str, Any]:
    about = picked(one, "file hash gate approved_at")
    return {"name": _name_of(one, config), **about, "standing": _status(one, config), "replaces": one.replaces or None}


# The hooks that an argument names:
_HASH = re.compile(r"[0-9a-f]{8,64}")
_SHORT = 12
_NAMED = 8  # hooks that a hint names; the others are counted


def _entries_called(config: Config, word: str) -> list[Entry]:
    """The hooks that need approval and match a word: the one with that display name; else those of that name, if at
    most one of them is pending; else those with the hash. Raises UsageError if the word is ambiguous."""
    theirs = [entry for entry in config.entries if entry.hash]
    if shown := [entry for entry in theirs if entry.shown == word]:
        return shown
    named = [(entry, entry.declared) for entry in theirs]
    called = [entry for entry, one in named if word in (one.name, f"{one.layer}/{one.name}")]
    pending = [entry for entry in called if entry.pending]
    _refuse_several(word, [(entry.shown, entry.hash) for entry in pending])
    if called:
        return pending or called
    hashed = [entry for entry in theirs if _is_hash_of(word, entry.hash)]
    _refuse_several(word, {entry.hash: (entry.shown, entry.hash) for entry in hashed}.values())
    return hashed


def _is_hash_of(word: str, hash: str) -> bool:  # noqa: A002 (its name everywhere else)
    """Whether a word is a hash, or a long enough prefix of it."""
    return _HASH.fullmatch(word) is not None and hash.startswith(word)


def _refuse_several(word: str, found: Iterable[tuple[str, str]]) -> None:
    """Raises UsageError, with display names and hashes, if a word means more than one hook."""
    several: Sequence[tuple[str, str]] = list(found)
    if len(several) < 2:
        return
    names = ", ".join(f"{shown} ({hash_[:_SHORT]})" for shown, hash_ in several[:_NAMED])
    more = f" and {len(several) - _NAMED} more" if len(several) > _NAMED else ""
    raise UsageError(f"`{word}` could mean {len(several)} hooks", hint=f"use a name or hash: {names}{more}")


# Allow rules that came with a project:
_LABEL = 12


def _rules_called(config: Config, word: str) -> list[PendingRules] | None:
    """The pending rules that match a word: `permissions`, `permissions.allow`, the same with a layer before it, their
    display name, or a hash. None: the word means no rules; empty: they are already approved. Raises UsageError if the
    word is ambiguous."""

    def names(layer: str) -> tuple[str, ...]:
        return ("permissions", NAME, f"{layer}/{NAME}")

    pending = config.permissions.pending
    found = [one for one in pending if word in (one.shown, *names(one.layer)) or _is_hash_of(word, one.hash)]
    if len(found) > 1:
        which = ", ".join(f"{one.layer}/{NAME} ({one.hash[:_SHORT]}, {one.shown})" for one in found)
        raise UsageError(f"`{word}` could mean the rules of {len(found)} files", hint=f"use one of: {which}")
    if found:
        return found
    approved = [one for one in config.permissions.allow if declaration.needs_consent(one.layer)]
    return [] if any(word in names(one.layer) for one in approved) else None


def _rules_summary(now: Config) -> list[str]:
    """Which allow rules of the project are in force now, and which are pending."""
    counting = Counter(one.file for one in now.permissions.allow if declaration.needs_consent(one.layer))
    lines = [f"{NAME} of {shown_path(file)}: {counted(count, 'rule')} in force" for file, count in counting.items()]
    lines += [f"{one.shown}: {counted(len(one.rules), 'rule')} not in force" for one in now.permissions.pending]
    return [visible(line) for line in lines]


# A pending hook, shown in full:
_MAX_SHOWN = 1 << 20  # longer files are not shown
_MISSING = 5


def _in_full(one: Pending, number: int, count: int) -> Iterator[str]:
    """Everything that an approval of this hook, or of the rules of a file, covers."""
    status = "not approved yet"
    if isinstance(one, PendingRules):
        status = "more rules than were approved" if one.before is not None else status
    elif before := one.consent.before:
        status = f"changed since it was approved on {before.approved_at[:10]}"
    yield f"{click.style(f'{number} of {count}  {marked(one.shown)}', bold=True)}  ({status})"
    if odd := warning(_approved_texts(one)):
        yield click.style(f"warning: {odd}", fg="yellow")
    yield ""
    if isinstance(one, PendingRules):
        yield "  these calls of an agent would run without asking:"
        for rule in one.rules:
            known = one.before is None or str(rule.rule) in one.before
            text = marked(str(rule.rule)).replace("\n", "\\n")  # never shortened: all of it is approved
            yield f"    | {text}{'' if known else click.style('  (new)', fg='green')}"
        yield from ("", f"  {'from':<{_LABEL}}{visible(shown_path(one.file))}:{one.rules[0].line}")
        yield f"  {'hash':<{_LABEL}}{one.hash}"
        return
    facts = list(_facts(one))
    column = max(_LABEL, *(len(label) + 2 for label, _ in facts))
    for label, text in facts:
        first, *rest = marked(text.rstrip("\n")).split("\n")
        yield f"  {label:<{column}}{first}".rstrip()
        yield from (f"  {'':<{column}}{line}".rstrip() for line in rest)
    print_ = _print(one)  # the approval covers the files that the hook names, and others beside them
    for label, texts in (("files", list(_file_lines(print_))), ("uncovered", print_.uncovered)):
        for place, text in enumerate(texts):
            yield f"  {'' if place else label:<{column}}{marked(text)}"
    for mark in print_.named:  # the scripts themselves, exactly as in the fingerprint
        yield from _file_shown(mark) if mark.identity else ()
    if one.consent.before is not None:
        yield from ("", "  what changed")
        for line in trust.changes(one.consent.before, one.declared, print_):
            colour = {"+": "green", "-": "red"}.get(line[:1])
            yield f"    {click.style(marked(line), fg=colour)}".rstrip()


_ELSEWHERE = ("file", "name")  # parts of a definition that other lines show
_USUAL: tuple[Any, ...] = (None, "", "auto", [], {})


def _facts(entry: Entry) -> Iterator[tuple[str, str]]:
    """The definition of the hook, exactly what is approved, as pairs of label and text."""
    declared = entry.declared
    fields = trust.written_fields(trust.definition(declared))
    action = next(iter(fields))
    if fields[action] == "" and not any(label.startswith(f"{action}.") for label in fields):
        fields[action] = "(no reason)"  # `deny: true`
    for label, value in fields.items():
        if label not in _ELSEWHERE and value not in _USUAL and (label, value) != ("background", False):
            is_plain = isinstance(value, bool) or label == "exec"
            yield label.replace("_", " "), strictjson.dumps(value) if is_plain else declaration.in_words(value)
    if declared.action is None:
        does = "blocks its events" if declared.gate else "does nothing"
        yield "broken", f"{declared.broken}\nonce approved, it {does} until it is fixed"
    yield "from", f"{shown_path(declared.file)}:{declared.line}"
    yield "hash", entry.hash


def _print(entry: Entry) -> trust.Fingerprint:
    assert entry.consent.fingerprint is not None
    return entry.consent.fingerprint


def _file_lines(print_: trust.Fingerprint) -> Iterator[str]:
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


def _unseen(one: Pending) -> list[str]:
    """The files that the hook names and that can't be shown: an approval covers them unseen."""
    named = () if isinstance(one, PendingRules) else _print(one).named
    return [shown_path(mark.path) for mark in named if mark.identity and _text(mark) is None]


def _covered_texts(entry: Entry) -> str:
    """The other code files that an approval covers, in full."""
    marks = _print(entry).files[len(_print(entry).named) :]
    return "\n".join(line for mark in marks for line in _file_shown(mark)) or "there are no other code files"


def _approved_texts(one: Pending) -> Iterator[str]:
    if isinstance(one, PendingRules):
        yield from (str(rule.rule) for rule in one.rules)
        return
    yield one.shown
    yield from (text for _, text in _facts(one))
    for mark in _print(one).files:
        yield mark.path
        yield (_text(mark) or "") if mark.identity else ""


def _file_shown(mark: trust.FileMark) -> Iterator[str]:
    yield ""
    text = _text(mark)
    yield f"  {marked(shown_path(mark.path))}{': binary, long or changing; not shown' if text is None else ''}"
    # not splitlines: a shell ends lines only at newlines; never shortened: all of it is approved
    lines = text.removesuffix("\n").split("\n") if text is not None else ()
    yield from (f"    | {marked(line)}".rstrip() for line in lines)


@functools.lru_cache(maxsize=64)
def _text(mark: trust.FileMark) -> str | None:
    return trust.text_of(mark, _MAX_SHOWN)


def _pending_data(one: Pending, approved: bool) -> dict[str, Any]:
    """The same as JSON."""
    if isinstance(one, PendingRules):
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
        "not_shown": _unseen(one),
        "warning": warning(_approved_texts(one)) or None,
        "changes": trust.changes(before, declared, print_) if before is not None else None,
    }


# Look-alike and invisible characters:
_ALIKE: Final = frozenset("аАВеЕКМНоОрРсСТуУхХіІјЈѕЅԁԛԝһӏүҮԌΑΒΕΖΗΙΚΜΝΟΡΤΥΧονιαρυκօՕսՍհոցքհıȷɑɡɩʋǃ∕⁄∖ꓸ։")
"""Characters that look like ASCII ones. Those that Unicode itself normalizes to ASCII are not in this list."""
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def marked(text: str) -> str:
    """The text with suspicious characters escaped, and all that `visible` escapes."""
    lines = []
    for line in text.split("\n"):
        at = _suspicious(line)
        lines.append("".join(escape(char) if place in at else visible(char) for place, char in enumerate(line)))
    return "\n".join(lines)


def _suspicious(line: str) -> set[int]:
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
    for word in re.finditer(r"\w+", line):
        letters = [char for char in word[0] if char.isalpha()]
        mixed = any(char.isascii() for char in letters)
        if mixed or (not prose and all(char in _ALIKE for char in letters)):
            found |= {word.start() + at for at, char in enumerate(word[0]) if char in _ALIKE}
    return found | {at for at, char in enumerate(line) if char in _ALIKE and not char.isalnum()}


def warning(texts: Iterable[str]) -> str:
    """One line that names the suspicious characters in the texts; empty if there are none."""
    lines = (line for text in texts for line in text.split("\n"))
    found = Counter(line[at] for line in lines for at in sorted(_suspicious(line)))
    if not found:
        return ""
    names = [f"{escape(char)} {unicodedata.name(char, 'control character').lower()}" for char in list(found)[:4]]
    more = f" and {len(found) - 4} others" if len(found) > 4 else ""
    count = found.total()
    what = "1 character looks" if count == 1 else f"{count} characters look"
    return f"{what} like another character or can't be seen: {', '.join(names)}{more}"
