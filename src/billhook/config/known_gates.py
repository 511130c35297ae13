"""Gates and files that were in force before: what is gone is reported until a person acknowledges it.

Remembered by the folder that a file belongs to, and under `user` for the files that come with no project. A file of the
user's is reported as a whole, because its owner may edit it at will. Of a project's file each approved gate is, and all
approved hooks when the file is gone. Where `HOME` is not the account's own, what is remembered there is read, too.
"""

import functools
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from billhook.config.config import Config, Entry
from billhook.config.declared import needs_consent
from billhook.core import client_env
from billhook.store.files import StoreError
from billhook.store.state import FileState, Value

KIND: Final = "gates"
USER: Final = "user"
_IN_FORCE: Final = ("runs", "broken", "not yet", "same", "changed")
"""States of an entry in which a gate of it judges, or denies in its place."""


class Missing(NamedTuple):
    """Gates of one file that no longer apply; all hooks of it, where the whole file is gone."""

    key: str
    file: str
    gates: tuple[str, ...]
    what: str = "hook"

    @property
    def why(self) -> str:
        if self.key != USER:
            return "removed or not on this branch"
        return "HOME or XDG_CONFIG_HOME has changed" if os.path.lexists(self.file) else "the file is gone"


class _Found(NamedTuple):
    """By file: its gates in force, and all of its hooks that may run."""

    gates: dict[str, list[str]]
    hooks: dict[str, list[str]]


def remember(config: Config) -> None:
    """Note what is in force now. Writes only what was not known. Raises StoreError."""
    state = FileState(Path(config.root))
    for key, found in _in_force(config).items():
        merged = functools.partial(_merged, found=found, whole=key == USER)
        if merged(state.read(KIND, key)) is not None:
            state.update(KIND, key, merged)


def missing(config: Config) -> list[Missing]:
    """What was in force here and is not any more. Raises StoreError."""
    state = FileState(Path(config.root))
    mine = state.read(KIND, USER)
    present = {read.source.path for read in config.sources} | set(_acknowledged(mine))
    known = {one.file: one for one in (*_gone_files(USER, _accounts(config)), *_gone_files(USER, mine))}
    found = [one for file, one in known.items() if file not in present]
    here = config.folder or config.project
    for folder in (here, *map(str, Path(here).parents)):
        found += _missing_in(config, folder, state.read(KIND, folder))
    return found


def _gone_files(key: str, record: Value | None) -> Iterator[Missing]:
    gates = _names(record, "files")
    for file, hooks in {**gates, **_names(record, "hooks")}.items():
        of_file = gates.get(file, [])
        names = tuple(dict.fromkeys([*of_file, *hooks]))
        yield Missing(key, file, names, "gate" if len(of_file) == len(names) else "hook")


def acknowledge(config: Config, gone: Iterable[Missing]) -> None:
    """Forget what is gone: it is remembered again once it is back. Raises StoreError."""
    state = FileState(Path(config.root))
    for one in gone:
        state.update(KIND, one.key, functools.partial(_without, gone=one))


def _in_force(config: Config) -> dict[str, _Found]:
    found: dict[str, _Found] = defaultdict(lambda: _Found({}, {}))
    for read in config.sources:
        if read.source.layer in ("managed", "user") and read.readable:
            entries = [one for one in read.entries if not one.ours]
            found[USER].gates[read.source.path] = [one.name for one in entries if one.gate]
            found[USER].hooks[read.source.path] = [one.name for one in entries if one.enabled and not one.broken]
    for entry in config.entries:
        declared = entry.declared
        if needs_consent(declared.layer) and entry.consent.given and not declared.ours:
            found[declared.folder].hooks.setdefault(declared.file, []).append(declared.name)
        if needs_consent(declared.layer) and _guards(entry):
            found[declared.folder].gates.setdefault(declared.file, []).append(declared.name)
    return found


def _guards(entry: Entry) -> bool:
    before = entry.consent.before
    given = entry.consent.given or (before is not None and before.gate)
    return given and entry.declared.gate and entry.state in _IN_FORCE


def _merged(before: Value | None, found: _Found, *, whole: bool) -> Value | None:
    """The record with what was found; None when that changes nothing. Only an acknowledgement forgets a gate of a
    project; a file of the user's counts as a `whole`, as it is now."""
    files, hooks, known = _names(before, "files"), _names(before, "hooks"), _acknowledged(before)
    gates = {
        file: sorted({*names, *(() if whole else files.get(file, ()))})
        for file, names in {**files, **found.gates}.items()
    }
    after = {
        "files": {file: names for file, names in gates.items() if names},
        "hooks": {file: sorted(set(names)) for file, names in {**hooks, **found.hooks}.items() if names},
        "acknowledged": [file for file in known if file not in found.gates],
    }
    return None if after == {"files": files, "hooks": hooks, "acknowledged": known} else after


def _missing_in(config: Config, folder: str, record: Value | None) -> Iterator[Missing]:
    reads = {read.source.path: read for read in config.sources}
    elsewhere = {entry.declared.name for entry in config.entries if entry.consent.given or _guards(entry)}
    gates = _names(record, "files")
    for one in _gone_files(folder, record):
        exists = os.path.lexists(one.file)
        if (one.file in reads and not reads[one.file].readable) or (one.file not in reads and exists):
            continue  # it denies by itself, or belongs to another project now
        here = {entry.declared.name for entry in config.entries if entry.declared.file == one.file}
        known = gates.get(one.file, ()) if exists else one.gates
        gone = tuple(name for name in known if name not in here | elsewhere)
        if gone:
            yield one._replace(gates=gone, what="gate" if set(gone) <= set(gates.get(one.file, ())) else "hook")


def _without(before: Value | None, gone: Missing) -> Value:
    left: dict[str, dict[str, list[str]]] = {}
    for field in ("files", "hooks"):
        files = _names(before, field)
        names = [name for name in files.pop(gone.file, ()) if name not in gone.gates]
        left[field] = {**files, gone.file: names} if names else files
    known = {*_acknowledged(before), gone.file} if gone.key == USER else ()
    return {**left, "acknowledged": sorted(known)}


def _accounts(config: Config) -> Value | None:
    """What is remembered in the account's own home, where `HOME` is another folder and BILLHOOK_HOME is not set."""
    environ = client_env.environ()
    own = "" if environ.get("BILLHOOK_HOME") else _account_home()
    if own in ("", environ.get("HOME")):
        return None
    try:
        return FileState(Path(own, ".claude")).read(KIND, USER)
    except StoreError:  # not ours to read
        return None


def _account_home() -> str:
    """The home of the account in /etc/passwd. The `pwd` module would connect to name servers, which may hang."""
    uid = str(os.geteuid())
    try:
        lines = Path("/etc/passwd").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((found[5] for found in (line.split(":") for line in lines) if found[2:3] == [uid] and found[5:]), "")


def _names(record: Value | None, field: str) -> dict[str, list[str]]:
    files = (record or {}).get(field)
    found = {file: names for file, names in files.items() if isinstance(names, list)} if isinstance(files, dict) else {}
    return {file: [name for name in names if isinstance(name, str)] for file, names in found.items()}


def _acknowledged(record: Value | None) -> list[str]:
    known = (record or {}).get("acknowledged")
    return [file for file in known if isinstance(file, str)] if isinstance(known, list) else []
