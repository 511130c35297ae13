"""`billhook trust`: show hooks that wait for approval, approve them, list and revoke approvals."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from billhook.cli.options import agent_around, at_terminal, flag, refuse_agents
from billhook.cli.screen import fitted, hint, note, picked, report, say, say_json, shown_path, unreadable, width
from billhook.cli.trust import screen
from billhook.cli.trust.screen import Pending, is_hash_of, marked, refuse_several
from billhook.config import loader
from billhook.config.config import Config, Entry
from billhook.config.declaration import needs_consent
from billhook.config.loader import load_config
from billhook.config.notices import acknowledge, missing
from billhook.config.permissions import Waiting, in_force
from billhook.config.trust import ChangedError, TrustAction, approve_entry, approve_rules, record_trust
from billhook.core.errors import UsageError
from billhook.core.text import counted, suggest, visible
from billhook.store.approvals import Approval, Approvals


def list_approvals(config: Config, words: Sequence[str], *, everywhere: bool, as_json: bool) -> int:
    """Show the approvals of this project, or of all projects, the newest first."""
    approvals = Approvals(Path(config.root))
    found = _known(config, approvals, everywhere)
    if words:
        found = list({one.file + one.hash: one for word in words for one in _called(word, found, config)}.values())
    for text in approvals.problems:
        note(f"ignored: {text}")
    nothing = "there are no approvals" if everywhere else "there are no approvals here"
    lines = [line for one in found for line in _lines(one, config)] or [nothing]
    report(as_json, lines, *(_data(one, config) for one in found))
    return 0


def revoke(config: Config, words: Sequence[str], *, everything: bool, as_json: bool) -> int:
    """Revoke approvals, and report what no longer runs."""
    if not words and not everything:
        raise UsageError("--revoke needs a hook name, or --all", hint="`billhook trust --list` shows the approvals")
    approvals = Approvals(Path(config.root))
    known = _known(config, approvals, everywhere=False)
    chosen = _chosen(known, words, config) if words else known
    gone = [one for one in chosen if approvals.revoke(one.file, one.hash)]
    log_trust("revoked", gone, config)
    names = [visible(_shown(one, config)) for one in gone]
    lines = [f"revoked {name}  {shown_path(one.file)}  {one.hash[:12]}" for one, name in zip(gone, names, strict=True)]
    what = "no longer runs" if all(one.of_hook for one in gone) else "no longer in force"
    text = f"{counted(len(gone), 'approval')} revoked; {what}: {', '.join(dict.fromkeys(names))}"
    lines.append(text if gone else "there are no approvals here")
    report(as_json, lines, *({**_data(one, config), "revoked": True} for one in gone))
    return 0 if gone else 1


def acknowledge_gone(config: Config, words: Sequence[str], *, as_json: bool) -> int:
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
    """The approvals of this project's files, also of removed ones; or all approvals."""
    if everywhere:
        return approvals.all()
    files = {read.source.path for read in config.sources if needs_consent(read.source.layer)}
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
            hooks = {_hook_of(one, config): (_shown(one, config), one.hash) for one in reversed(approvals)}
            refuse_several(word, hooks.values())
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
    found = found or [one for one in known if is_hash_of(word, one.hash)]
    if not found:
        names = dict.fromkeys(_shown(one, config) for one in known)
        hint = suggest(word, names) if names else "there are no approvals here"
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


def _shown(one: Approval, config: Config) -> str:
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


def _lines(one: Approval, config: Config) -> list[str]:
    status = _status(one, config)
    mark = "" if status == "in force" else f"  ({status})"
    gate = ", gate" if one.gate else ""
    when = one.approved_at[:16].replace("T", " ")
    first = f"{when}  {click.style(visible(_shown(one, config)), fg='cyan')}{gate}{mark}"
    return [first, f"                  {visible(shown_path(one.file))}  {one.hash[:12]}"]


def _data(one: Approval, config: Config) -> dict[str, Any]:
    about = picked(one, "file hash gate approved_at")
    return {"name": _shown(one, config), **about, "standing": _status(one, config), "replaces": one.replaces or None}


# `billhook trust`:
_WHOLE = re.compile(r"[0-9a-f]{64}")
_CHOICES = """\
y       approve exactly what is shown
n       don't approve it; Enter does the same
v       view the other code files that this approves
q       quit
?       show this help
unseen  approve it although one of its files can't be shown"""


@click.command(
    "trust",
    epilog="""\b
Examples:
  billhook trust                    show each waiting hook, and ask
  billhook trust lint no-destroy    only these
  billhook trust --all --yes        approve everything that waits here
  billhook trust --list             list the approvals of this project
  billhook trust --revoke lint      revoke an approval
  billhook trust --acknowledge      stop warnings about removed gates

Exit code: 0 nothing waits for approval, 1 something still waits, 2 usage, or refused.""",
)
@click.argument("hooks", nargs=-1, metavar="[NAME|HASH ...]")
@flag("--all", "everything", "With --yes: all waiting hooks. With --list: all projects.")
@flag("--yes", "Approve the named hooks, or --all, without asking.")
@flag("--revoke", "revoking", "Revoke the approvals of the named hooks; with --all, of all hooks here.")
@flag("--acknowledge", "Stop warnings about removed gates: about those named NAME, or all.")
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
        return list_approvals(config, hooks, everywhere=everything, as_json=as_json)
    if revoking:
        refuse_agents("--revoke")
        return revoke(config, hooks, everything=everything, as_json=as_json)
    if acknowledge:
        refuse_agents("--acknowledge")
        return acknowledge_gone(config, hooks, as_json=as_json)
    if yes and not hooks and not everything:
        raise UsageError("--yes needs a hook name, or --all", hint="`billhook trust` shows the waiting hooks")
    whole = [word for word in hooks if _WHOLE.fullmatch(word)]
    if yes or whole:
        refuse_agents("--yes" if yes else "a hash")
    wanted = _wanted(config, hooks)
    sure = wanted if yes else [one for one in wanted if one.hash in whole]
    return _Review(config, wanted, sure, as_json=as_json).run()


def _wanted(config: Config, words: Sequence[str]) -> list[Pending]:
    """The pending items that were named; all of them if none was named."""
    if not words:
        return [*config.pending, *config.permissions.pending]
    found: dict[int, Pending] = {}
    for word in words:
        entries = screen.chosen(config, word)
        if not entries and (rules := screen.rules_called(config, word)) is not None:
            if not rules:
                note(f"`{word}` is already approved")
            found |= {id(one): one for one in rules}
            continue
        if not entries:
            names = [entry.shown for entry in config.entries if entry.hash]
            hint = suggest(word, names) if names else "no hook of this project needs approval"
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
                self._show("\n".join(screen.whole(one, number, len(self.wanted))) + "\n")
            agreed = id(one) in self.sure or (self.asks and not self.over and self._answered(one))
            approved = not self.over and agreed and self._approve(one)
            if self.as_json:
                say_json(screen.as_data(one, approved))
            if self.over:
                break
        return self._end()

    def _answered(self, one: Pending) -> bool:
        hidden = screen.unseen(one)
        while True:
            match typed(f"approve {marked(one.shown)}? [y/N/v/q/?] "):
                case "y" | "yes" if hidden:
                    say(f"not shown: {', '.join(map(marked, hidden))}; type `unseen` to approve it anyway")
                case "y" | "yes":
                    return True
                case "unseen" if hidden:
                    return True
                case "v" | "view" if not isinstance(one, Waiting):
                    self._show(screen.covered_texts(one))
                case "" | "n" | "no":
                    return False
                case "q" | "quit":
                    self.over = True
                    return False
                case _:
                    say(_CHOICES)

    def _show(self, text: str) -> None:
        """Print it; in a pager if the user is asked and it does not fit on the screen."""
        shown = fitted(text, width())
        if self.asks and shown.count("\n") >= shutil.get_terminal_size().lines:
            click.echo_via_pager(shown)
        else:
            say(text)

    def _approve(self, one: Pending) -> bool:
        how = "with `billhook trust --yes`" if id(one) in self.sure else "from a terminal"
        try:
            approve = approve_rules if isinstance(one, Waiting) else approve_entry
            approval = approve(one, self.config.root, how)  # type: ignore[arg-type]
        except ChangedError as error:
            self.changed = True
            say(f"not approved: {marked(str(error))}\n", err=True)
            return False
        self.approved.append(one)
        self.approvals.append(approval)
        if id(one) in self.sure and (hidden := screen.unseen(one)):
            note(f"{one.shown} was approved without showing {', '.join(hidden)}: binary, long or changing")
        if not self.as_json:
            say(click.style(f"approved {marked(one.shown)}", fg="green") + "\n")
        return True

    def _end(self) -> int:
        log_trust("approved", self.approvals, self.config)
        now = load_config(builtins=False)
        hashes = {one.hash for one in self.wanted}
        waiting: list[Pending] = [*now.pending, *now.permissions.pending]
        left = [one for one in waiting if one.hash in hashes]
        if not self.as_json:
            hooks = sum(not isinstance(one, Waiting) for one in self.approved)
            say("\n".join([_summary(now, hooks), *screen.rules_summary(now)]))
        if left and self.agent and not (self.approved or self.over):
            hint(f"only a person can approve hooks, and this runs inside {self.agent}: run it in your own terminal")
        elif left and not (self.approved or self.over or self.asks):
            hint("run it in a terminal to decide about each; --yes approves the named ones, `--all --yes` everything")
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
    """Whether the user answers yes."""
    return typed(f"{question} [y/N] ") in ("y", "yes")


def log_trust(action: TrustAction, approvals: Iterable[Approval], config: Config, **more: object) -> None:
    """Record in the event log what the user allowed or revoked, and note if that fails."""
    if unrecorded := record_trust(action, approvals, config, **more):
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
    return f"{text}\n{counted(len(waiting), 'hook')} {wait}: {', '.join(map(marked, waiting))}"
