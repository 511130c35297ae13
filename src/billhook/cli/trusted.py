"""What was approved: shown, and taken back."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from billhook.cli.chosen import is_hash_of, refuse_several
from billhook.cli.show import note, picked, say, say_json
from billhook.cli.table import shown_path
from billhook.config import Config, Entry
from billhook.config.approving import record_trust
from billhook.config.declared import needs_consent
from billhook.config.known_gates import acknowledge, missing
from billhook.config.permitting import in_force
from billhook.errors import UsageError
from billhook.store.approvals import Approval, Approvals
from billhook.text import counted, suggest, visible


def list_approvals(config: Config, words: Sequence[str], *, everywhere: bool, as_json: bool) -> int:
    """Show approvals of this project, or of every one; the newest first."""
    approvals = Approvals(Path(config.root))
    found = _known(config, approvals, everywhere)
    if words:
        found = list({one.file + one.hash: one for word in words for one in _called(word, found, config)}.values())
    for text in approvals.problems:
        note(f"does not count: {text}")
    if as_json:
        say_json(*(_data(one, config) for one in found))
    elif not found:
        say("nothing was approved here" if not everywhere else "nothing was approved yet")
    else:
        say("\n".join(line for one in found for line in _lines(one, config)))
    return 0


def revoke(config: Config, words: Sequence[str], *, everything: bool, as_json: bool) -> int:
    """Take approvals back, and say what does not run any more."""
    if not words and not everything:
        raise UsageError("--revoke takes back what?", hint="name hooks, or say --all")
    approvals = Approvals(Path(config.root))
    known = _known(config, approvals, everywhere=False)
    chosen = _with_all_rules(_chosen(known, words, config), known) if words else known
    gone = [one for one in chosen if approvals.revoke(one.file, one.hash)]
    if unrecorded := record_trust("revoked", gone, config):
        note(f"this is not in the event log: {unrecorded}")
    for one in gone:
        if as_json:
            say_json({**_data(one, config), "revoked": True})
        else:
            say(f"revoked {visible(_shown(one, config))}  {shown_path(one.file)}  {one.hash[:12]}")
    if not as_json:
        names = list(dict.fromkeys(_shown(one, config) for one in gone))
        text = f"{counted(len(gone), 'approval')} taken back"
        what = "not run any more" if all(one.of_hook for one in gone) else "not in force any more"
        say(f"{text}; {what}: {', '.join(map(visible, names))}" if gone else "nothing was approved here")
    return 0 if gone else 1


def acknowledge_gone(config: Config, words: Sequence[str], *, as_json: bool) -> int:
    """Forget gates that are gone, and say which."""
    found = missing(config)
    if words:
        found = [one for one in found if set(words) & {*one.gates, one.file}]
        if not found:
            raise UsageError(f"no gate that is gone is called `{words[0]}`", hint="`billhook` lists them")
    acknowledge(config, found)
    names = [picked(one, "file gates") for one in found]
    if found and (unrecorded := record_trust("acknowledged", (), config, gates=names)):
        note(f"this is not in the event log: {unrecorded}")
    if as_json:
        say_json(*names)
        return 0
    for one in found:
        say(f"acknowledged {', '.join(map(visible, one.gates))}  {shown_path(one.file)}")
    if not found:
        say("no gate is gone here")
    return 0


def _known(config: Config, approvals: Approvals, everywhere: bool) -> list[Approval]:
    """The approvals of this project's files, those of files that are gone included; or all."""
    if everywhere:
        return approvals.all()
    files = {read.source.path for read in config.sources if needs_consent(read.source.layer)}
    inside = config.project.rstrip("/") + "/"
    return [one for one in approvals.all() if one.file in files or one.file.startswith(inside)]


def _chosen(known: list[Approval], words: Sequence[str], config: Config) -> list[Approval]:
    """The approvals of the hooks that are named, earlier ones of the same hook included; UsageError when a word could
    mean several hooks."""
    found: dict[str, Approval] = {}
    for word in words:
        approvals = _with_earlier(_shown_as(word, known, config), known)
        if not approvals:
            approvals = _called(word, known, config)
            hooks = {_hook_of(one, config): (_shown(one, config), one.hash) for one in reversed(approvals)}
            refuse_several(word, hooks.values())
        found |= {one.hash + one.file: one for one in approvals}
    return list(found.values())


def _shown_as(word: str, known: list[Approval], config: Config) -> list[Approval]:
    """The approvals of the one hook that is shown so."""
    hooks = [entry for entry in config.entries if entry.hash and entry.shown == word]
    keys = {(entry.declared.file, key) for entry in hooks for key in (entry.hash, entry.shown)}
    return [one for one in known if {(one.file, one.hash), _hook_of(one, config)} & keys]


def _with_earlier(found: list[Approval], known: list[Approval]) -> list[Approval]:
    """Those that these replaced as well: else a hook that changes back would run again."""
    chosen = list(found)
    for one in chosen:
        chosen += [old for old in known if old not in chosen and (old.file, old.hash) == (one.file, one.replaces)]
    return chosen


def _with_all_rules(chosen: list[Approval], known: list[Approval]) -> list[Approval]:
    """All lists of allow rules that were approved for a file, when one of them is taken back: else an earlier, longer
    one would still cover what it has now."""
    files = {one.file for one in chosen if not one.of_hook}
    return [*chosen, *(one for one in known if one.file in files and not one.of_hook and one not in chosen)]


def _called(word: str, known: list[Approval], config: Config) -> list[Approval]:
    """The approvals of the hook that is shown so; else of every hook that has the name; else those of the hash."""
    layers = {read.source.path: read.source.layer for read in config.sources}
    found = _shown_as(word, known, config)
    found = found or [one for one in known if word in (one.name, f"{layers.get(one.file, '')}/{one.name}")]
    found = found or [one for one in known if is_hash_of(word, one.hash)]
    if not found:
        names = dict.fromkeys(_shown(one, config) for one in known)
        hint = suggest(word, names) if names else "nothing was approved here"
        raise UsageError(f"no approval here is for `{word}`", hint=hint)
    return found


def _entry_of(one: Approval, config: Config) -> Entry | None:
    """The hook that an approval is for: the one that it approves; else the one that came of it; else the only one of
    that name in its file. None for the rules of a file."""
    if not one.of_hook:
        return None
    here = [entry for entry in config.entries if entry.hash and entry.declared.file == one.file]
    for entry in here:
        if entry.hash == one.hash:
            return entry
    for entry in here:
        if entry.consent.before is not None and entry.consent.before.hash == one.hash:
            return entry
    called = [entry for entry in here if entry.declared.name == one.name]
    return called[0] if len(called) == 1 else None


def _hook_of(one: Approval, config: Config) -> tuple[str, str]:
    """What the approvals of one hook have in common."""
    entry = _entry_of(one, config)
    return one.file, entry.shown if entry is not None else f" {one.name}"


def _shown(one: Approval, config: Config) -> str:
    entry = _entry_of(one, config)
    return entry.shown if entry is not None else one.name


def _standing(one: Approval, config: Config) -> str:
    """How an approval relates to what is there now."""
    if any(entry.hash == one.hash and entry.declared.file == one.file for entry in config.entries):
        return "in force"
    if not one.of_hook and in_force(one, config.sources):
        return "in force"
    if not os.path.exists(one.file):
        return "its file is gone"
    here = any(read.source.path == one.file for read in config.sources)
    return "no longer there" if here else "another project"


def _lines(one: Approval, config: Config) -> list[str]:
    standing = _standing(one, config)
    mark = "" if standing == "in force" else f"  ({standing})"
    gate = ", gate" if one.gate else ""
    when = one.approved_at[:16].replace("T", " ")
    first = f"{when}  {click.style(visible(_shown(one, config)), fg='cyan')}{gate}{mark}"
    return [first, f"                  {visible(shown_path(one.file))}  {one.hash[:12]}"]


def _data(one: Approval, config: Config) -> dict[str, Any]:
    about = picked(one, "file hash gate approved_at")
    return {"name": _shown(one, config), **about, "standing": _standing(one, config), "replaces": one.replaces or None}
