"""The configured hooks, for verbs that run them; and what their user ought to know beside the verdict."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from billhook import caller
from billhook.config.declared import LAYERS
from billhook.errors import UsageError

if TYPE_CHECKING:
    from billhook.config import Config, Entry
    from billhook.config.consent import Trust
    from billhook.config.inside import Inside
    from billhook.config.kept import Kept

_NAMED = 5  # hooks that a note names; the rest is counted


class NotLoadedError(Exception):
    """The files of a folder have to be read first, which may take long."""


def load(
    cwd: str,
    files: Iterable[str] = (),
    trust: "Trust" = "approved",
    *,
    host: "str | Inside" = "",
    read_files: bool = True,
) -> "Config":
    """What applies in a folder, and the files of --config as one more layer; `host`: inside that agent, whose own
    entries then have the state `elsewhere` (`load_config` tells more). NotLoadedError without `read_files`, unless it
    is known from before."""
    served, named = caller.served(), tuple(files)
    key = (served and (id(served.environ), served.cwd), cwd, named, trust, host)
    known = _known.get(key) if served is not None else None
    if served is not None and known is not None and known[0] is served.environ and known[1].holds(served.environ):
        return known[1].config
    if not read_files:
        raise NotLoadedError(cwd)
    from billhook.config.loading import load_kept

    folder = standing(cwd)
    kept = load_kept(folder, named, LAYERS, trust=trust, host=host)
    if served is not None and folder == cwd:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = served.environ, kept
    return kept.config


_known: dict[object, "tuple[Mapping[str, str], Kept]"] = {}
"""What applies where callers were that we served before, by their environment and folder."""
_MOST_KNOWN = 512


def standing(folder: str) -> str:
    """A folder, or the nearest one above it that exists: an agent that removed the folder it stands in still stands in
    its project. Where nothing of the way exists, the folder that we are in."""
    try:
        asked = folder = caller.abspath(folder or ".")
    except FileNotFoundError:
        raise UsageError("the working directory is gone", hint="change to a folder that exists") from None
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    if folder != asked and os.path.dirname(folder) == folder:
        try:
            return caller.getcwd()
        except OSError:
            return folder
    return folder


def notes(config: "Config", host: str = "") -> list[str]:
    """At most one line about hooks that are not approved, one about those that Claude Code runs itself, one about what
    is wrong with the files, and one about approvals that don't count."""
    from billhook.config.inside import is_claudes

    found = []
    claudes = [entry for entry in config.pending if is_claudes(entry.declared, host)]
    if pending := [entry for entry in config.pending if entry not in claudes]:
        hooks, them = ("1 hook is", "it") if len(pending) == 1 else (f"{len(pending)} hooks are", "them")
        names = ", ".join(map(_called, pending[:_NAMED]))
        more = f" and {len(pending) - _NAMED} more" if len(pending) > _NAMED else ""
        found.append(f"{hooks} not approved and did not run: {names}{more} (`billhook trust` shows {them})")
    if claudes:
        hooks, them = ("1 hook", "it") if len(claudes) == 1 else (f"{len(claudes)} hooks", "them")
        moves = f"(`billhook install claude --adopt` moves {them} to billhook)"
        why = f"because Claude Code runs {them} itself"
        found.append(f"{hooks} in Claude Code's settings did not run here, {why} {moves}")
    if problems := config.problems:
        first, number = f"{problems[0].place}: {problems[0].message}", len(problems)
        there = f"1 problem in the configuration: {first}"
        there = there if number == 1 else f"{number} problems in the configuration: the first: {first}"
        found.append(f"{there} (`billhook check` shows all)")
    if unbelieved := doubts(config):
        found.append(f"approvals that can't be believed don't count: {unbelieved[0]}")
    return found


def doubts(config: "Config") -> list[str]:
    """What keeps approvals from being read, where hooks wait for one: what is lost there may have been a gate."""
    from billhook.store.approvals import Approvals

    approvals = Approvals(Path(config.root))
    for file in dict.fromkeys(entry.declared.file for entry in config.pending):
        approvals.of_file(file)
    return approvals.problems


def _called(entry: "Entry") -> str:
    if entry.state != "changed":
        return entry.shown
    gate = entry.declared.gate or (entry.consent.before is not None and entry.consent.before.gate)
    return f"{entry.shown} (changed{'; blocks until it is approved' if gate else ''})"
