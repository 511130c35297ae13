"""What was approved: shown, and taken back."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from billhook import strictjson
from billhook.cli.show import note, safe, say
from billhook.cli.table import counted, shown_path
from billhook.cli.values import nearest
from billhook.config import Config
from billhook.config.declared import needs_consent
from billhook.errors import UsageError
from billhook.store.approvals import Approval, Approvals

_HASH = re.compile(r"[0-9a-f]{8,64}")


def list_approvals(config: Config, words: Sequence[str], *, everywhere: bool, as_json: bool) -> int:
    """Show approvals of this project, or of every one; the newest first."""
    approvals = Approvals(Path(config.root))
    found = _named(_known(config, approvals, everywhere), words) if words else _known(config, approvals, everywhere)
    for text in approvals.problems:
        note(f"does not count: {text}")
    if as_json:
        for one in found:
            say(strictjson.dumps(_data(one, config)))
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
    chosen = _named(known, words) if words else known
    gone = [one for one in chosen if approvals.revoke(one.file, one.hash)]
    for one in gone:
        if as_json:
            say(strictjson.dumps({**_data(one, config), "revoked": True}))
        else:
            say(f"revoked {safe(one.name)}  {shown_path(one.file)}  {one.hash[:12]}")
    if not as_json:
        names = list(dict.fromkeys(one.name for one in gone))
        text = f"{counted(len(gone), 'approval')} taken back"
        say(f"{text}; not run any more: {', '.join(map(safe, names))}" if gone else "nothing was approved here")
    return 0 if gone else 1


def _known(config: Config, approvals: Approvals, everywhere: bool) -> list[Approval]:
    """The approvals of this project's files, those of files that are gone included; or all."""
    if everywhere:
        return approvals.all()
    files = {read.source.path for read in config.sources if needs_consent(read.source.layer)}
    inside = config.project.rstrip("/") + "/"
    return [one for one in approvals.all() if one.file in files or one.file.startswith(inside)]


def _named(known: list[Approval], words: Sequence[str]) -> list[Approval]:
    found: dict[str, Approval] = {}
    for word in words:
        prefix = word if _HASH.fullmatch(word) else "-"
        chosen = [one for one in known if one.name == word or one.hash.startswith(prefix)]
        if not chosen:
            names = dict.fromkeys(one.name for one in known)
            hint = nearest(word, names) if names else "nothing was approved here"
            raise UsageError(f"no approval here is for `{word}`", hint=hint)
        found |= {one.hash + one.file: one for one in chosen}
    return list(found.values())


def _standing(one: Approval, config: Config) -> str:
    """How an approval relates to what is there now."""
    if any(entry.hash == one.hash and entry.declared.file == one.file for entry in config.entries):
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
    first = f"{when}  {click.style(safe(one.name), fg='cyan')}{gate}{mark}"
    return [first, f"                  {safe(shown_path(one.file))}  {one.hash[:12]}"]


def _data(one: Approval, config: Config) -> dict[str, Any]:
    return {
        "name": one.name,
        "file": one.file,
        "hash": one.hash,
        "gate": one.gate,
        "approved_at": one.approved_at,
        "standing": _standing(one, config),
        "replaces": one.replaces or None,
    }
