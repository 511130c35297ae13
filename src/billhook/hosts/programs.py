"""Where billhook-hook is, and whether it will still be there tomorrow."""

import os
import shutil
import sys
import tempfile
from typing import Final

from billhook import caller
from billhook.agents import AGENTS
from billhook.agents.base import Agent, Scope
from billhook.errors import UsageError
from billhook.hosts.entries import PROGRAM

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
    path = caller.abspath(caller.expanduser(program))
    if os.path.isdir(path):
        path = os.path.join(path, PROGRAM)
    if os.path.basename(path) != PROGRAM or not os.access(path, os.X_OK):
        hint = f"name an executable `{PROGRAM}`, or the folder that it is in"
        raise UsageError(f"`{program}` is no {PROGRAM} that can be run", hint=hint)
    return path


def lasting() -> str:
    """The absolute path of billhook-hook, where it will stay. Raises UsageError."""
    beside = os.path.join(os.path.dirname(sys.executable), PROGRAM)
    on_path = shutil.which(PROGRAM, path=caller.environ().get("PATH")) or ""
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
    return "" if place == _TEMPORARY == _thrown_away(caller.expanduser("~")) else place


def _cache_folders() -> list[str]:
    found = [os.path.join(value, rest) for name, rest in _CACHES if (value := caller.environ().get(name))]
    return [*found, caller.expanduser("~/.cache"), caller.expanduser("~/Library/Caches")]


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
    if found := shutil.which(host.program, path=caller.environ().get("PATH")):
        return found
    places = [os.path.normpath(os.path.join(host.home(), trace)) for trace in host.traces]
    if scope == "project":
        places.append(os.path.dirname(host.file(scope, project)))
    return next((place for place in places if os.path.exists(place)), "")
