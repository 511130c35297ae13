"""What a person ought to know about an agent's file before they rely on what is written there."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Final

from billhook.agents import AGENTS
from billhook.agents.base import Agent, Scope
from billhook.cli.install.entries import NAME, PROGRAM, handlers, is_written
from billhook.config import sources
from billhook.config.declared import Run, Url
from billhook.config.edit_json import Document, at_path
from billhook.config.own_entries import is_billhook
from billhook.core import client_env
from billhook.core.errors import UsageError


def notes_about(file: str, document: Document, host: Agent) -> list[str]:
    """Sentences; `document` is the file without our entries."""
    off = [*_switches(file, document, host), *_disabled(file, document, host)]
    return [
        *off,
        *_second_callers(file, document, host),
        *(host.beside(file, sources.read_bytes) if host.beside else ()),
    ]


def _switches(file: str, document: Document, host: Agent) -> Iterator[str]:
    for path, off in (
        (["disableAllHooks"], True),
        (["hooksConfig", "enabled"], False),
        (["tools", "enableHooks"], False),
    ):
        found = at_path(document, path)
        if found is not None and document.plain(found) is off:
            place = f"{file}:{document.place(found)}"
            yield f"{place} switches all hooks off (`{'.'.join(path)}`): {host.title} will not ask billhook"


def _disabled(file: str, document: Document, host: Agent) -> Iterator[str]:
    """Some agents can switch off single hooks, by their names."""
    for path in (["hooksConfig", "disabled"], ["hooks", "disabled"]):
        found = at_path(document, path)
        names = document.plain(found) if found is not None else None
        if host.named and found is not None and isinstance(names, list) and NAME in names:
            place = f"{file}:{document.place(found)}"
            yield f"{place} switches billhook's hooks off (`{'.'.join(path)}`): {host.title} will not ask it"


def _second_callers(file: str, document: Document, host: Agent) -> Iterator[str]:
    for one in handlers(document, host):
        command, url = one.data.get("command"), one.data.get("url")
        action = Run(command) if isinstance(command, str) else Url(url) if isinstance(url, str) else None
        if is_billhook(action) and not is_written(one.data):
            yield f"{file}:{one.line} calls billhook as well, in words of your own; remove that entry"


# Where billhook-hook is, and whether it will still be there tomorrow.


_REMEDY: Final = "install it to stay (`uv tool install billhook`, or pipx), and run that one"
_TEMPORARY: Final = "a folder for temporary files"
_SCRATCH: Final = ("/tmp", "/var/tmp", "/dev/shm", "/private/tmp", "/private/var/folders")
_CACHES: Final = (
    ("UV_CACHE_DIR", ""),
    ("PIPX_HOME", ".cache"),
    ("XDG_CACHE_HOME", ""),
)


def named(program: str) -> str:
    """The program that a person chose, as an absolute path. Raises UsageError."""
    path = client_env.abspath(client_env.expanduser(program))
    if os.path.isdir(path):
        path = os.path.join(path, PROGRAM)
    if os.path.basename(path) != PROGRAM or not os.access(path, os.X_OK):
        hint = f"name an executable `{PROGRAM}`, or the folder that it is in"
        raise UsageError(f"`{program}` is no {PROGRAM} that can be run", hint=hint)
    return path


def lasting() -> str:
    """The absolute path of billhook-hook, where it will stay. Raises UsageError."""
    beside = os.path.join(os.path.dirname(sys.executable), PROGRAM)
    on_path = shutil.which(PROGRAM, path=client_env.environ().get("PATH")) or ""
    found = [
        path for path in (beside, os.path.abspath(on_path) if on_path else "") if path and os.access(path, os.X_OK)
    ]
    if not found:
        raise UsageError(f"there is no `{PROGRAM}` beside {sys.executable}", hint=_REMEDY)
    stays = [path for path in found if not throw_away(path)]
    if not stays:
        raise UsageError(
            f"this billhook is in {throw_away(found[0])}: entries in your own settings would soon lead nowhere",
            place=found[0],
            hint=f"{_REMEDY}; or name one that stays with --program",
        )
    # The name on PATH outlives what it leads to: a new version may be put elsewhere.
    return stays[-1] if os.path.samefile(stays[0], stays[-1]) else stays[0]


def throw_away(path: str) -> str:
    """What kind of throw-away place a program is in, or leads to; empty when it is in none."""
    return _thrown_away(path) or _thrown_away(os.path.realpath(path))


def _thrown_away(path: str) -> str:
    if any(_below(path, cache) for cache in _cache_folders()) or "/.cache/" in path:
        return "a cache (uvx, pipx run and their like keep theirs there)"
    if any(_below(path, folder) for folder in (*_SCRATCH, tempfile.gettempdir())):
        return _TEMPORARY
    return ""


def soon_gone(path: str) -> str:
    """What kind of throw-away place a program is in that a person named; empty where their home is no better."""
    place = throw_away(path)
    return "" if place == _TEMPORARY == _thrown_away(client_env.expanduser("~")) else place


def _cache_folders() -> list[str]:
    found = [os.path.join(value, rest) for name, rest in _CACHES if (value := client_env.environ().get(name))]
    return [*found, client_env.expanduser("~/.cache"), client_env.expanduser("~/Library/Caches")]


def _below(path: str, folder: str) -> bool:
    return path.startswith((os.path.join(folder, ""), os.path.join(os.path.realpath(folder), "")))


def of_a_project(path: str) -> str:
    """The virtual environment inside a repository that a program belongs to; empty for any other."""
    above = os.path.dirname(os.path.dirname(os.path.realpath(path)))
    inside = os.path.exists(os.path.join(above, "pyvenv.cfg")) and os.path.exists(
        os.path.join(os.path.dirname(above), ".git")
    )
    return above if inside else ""


def agents_here(scope: Scope, project: str) -> dict[str, str]:
    """The name of every agent, with how one sees that it is used here; empty when one doesn't."""
    return {host.name: _seen(host, scope, project) for host in AGENTS.values()}


def _seen(host: Agent, scope: Scope, project: str) -> str:
    if found := shutil.which(host.program, path=client_env.environ().get("PATH")):
        return found
    places = [os.path.normpath(os.path.join(host.home(), trace)) for trace in host.traces]
    if scope == "project":
        places.append(os.path.dirname(host.file(scope, project)))
    return next((place for place in places if os.path.exists(place)), "")
