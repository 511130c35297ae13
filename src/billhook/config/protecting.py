"""What self-protection protects: our configuration, approved scripts, and what billhook keeps."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from billhook import caller
from billhook.agents import TABLE
from billhook.builtins.protected import Protected
from billhook.config import installation, sources
from billhook.config.declared import Exec, Python, Run
from billhook.config.looking import Look
from billhook.store.approvals import Approvals

if TYPE_CHECKING:
    from billhook.config.loaded import Entry

_OTHERS = [row for name, row in TABLE.items() if name != "claude"]
_AGENTS = tuple(file for row in _OTHERS for file in (*row.files, *row.beside))
"""Where other agents keep the entry that calls billhook, in a project and below the home folder alike."""
_IN_PROJECT, _IN_HOME = ([f"{row.folders[at]}/billhook.json" for row in _OTHERS if row.folders] for at in (0, 1))
_SETTINGS = frozenset({"settings.json", "hooks.json", "config.toml", "billhook.json"})
NAMES = frozenset({*sources.PROJECT_FILES, *sources.LOCAL_FILES, *_AGENTS, *_IN_PROJECT})


def protected(found: sources.Found, root: Path, entries: Sequence["Entry"], approvals: Approvals) -> Protected:
    """Files that exist and files that don't exist yet alike: one that appears is a new layer. What was approved in
    folders below counts as well: it applies as soon as somebody works there."""
    folders = dict.fromkeys([found.project, *(file.folder for file in found.files)])
    files = [os.path.join(folder, name) for folder in folders for name in sorted(NAMES)]
    files += [file.path for file in found.files] + [sources.MANAGED, *sources.user_files()]
    home = caller.expanduser("~")
    files += [os.path.join(home, name) for name in (*_AGENTS, *_IN_HOME)]
    loaded = {file.path for file in found.files}
    every = approvals.all()
    below = [one for one in every if one.file.startswith(found.project + os.sep) and one.file not in loaded]
    files += [path for one in below for path in (one.file, *one.files)]
    others = [one for one in every if one.file not in loaded and one not in below]
    settings = [path for path in files if path.startswith(home + os.sep) and os.path.basename(path) in _SETTINGS]
    look = Look()
    files += [path for entry in entries if entry.consent.standing != "new" for path in _named(entry, look)]
    own_folders = {folder for path in sources.user_files() if (folder := os.path.dirname(path)).endswith("/billhook")}
    approved = [entry for entry in entries if entry.consent.standing in ("approved", "changed")]
    installed = installation.installation()
    return Protected(
        files=tuple(dict.fromkeys(files)),
        folders=(*(os.path.join(folder, ".billhook") for folder in folders), *sorted(own_folders)),
        programs=installation.programs(settings),
        interpreters=installed.interpreters,
        packages=(*installed.packages, *installation.source_package(found.project)),
        sites=installed.sites,
        search_path=installation.search_path(),
        elsewhere=tuple(dict.fromkeys(path for one in others for path in (one.file, *one.files))),
        approved=tuple(
            dict.fromkeys(
                [path for entry in approved for path in (entry.declared.file, *_named(entry, look))]
                + [path for one in below for path in (one.file, *one.files)]
            )
        ),
        state=tuple(str(root / name) for name in ("billhook", "turns", "hooks")),
        names=NAMES,
    )


def _named(entry: "Entry", look: Look) -> list[str]:
    """The files that a hook names: a guard of the user's own is disarmed by an edit just as an approved one. An edit of
    a file beside them takes the approval away, and then a gate denies."""
    consent = entry.consent
    if consent.loaded is not None:
        return [mark.path for mark in consent.loaded.named]
    if consent.before is not None:
        return [*consent.before.files]
    action = entry.declared.action
    if not isinstance(action, Run | Exec | Python):
        return []
    folder = entry.declared.module_folder if isinstance(action, Python) else entry.declared.folder
    from billhook.config.named import named

    return list(named(action, folder, look).files)
