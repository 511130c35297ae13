"""Where billhook itself is installed: its programs, its package, its interpreter, and what runs before them."""

import functools
import os
import re
import sys
from collections.abc import Iterable

import msgspec

from billhook.core import client_env
from billhook.core.lazy import pattern

PROGRAMS = ("billhook-hook", "billhook")
_LARGEST = 1 << 20
_IN_SETTINGS = pattern(
    r"""(?:'(/[^'\n]*?/billhook(?:-hook)?)'|(?<![\w'])(/[^\s"'\\;|&]*/billhook(?:-hook)?))(?![\w/-])"""
)


class Installation(msgspec.Struct, frozen=True):
    """The parts of this process's own installation."""

    programs: tuple[str, ...]
    interpreters: tuple[str, ...]
    packages: tuple[str, ...]
    sites: tuple[str, ...]


@functools.cache
def installation() -> Installation:
    """What this process runs from."""
    beside = os.path.dirname(sys.executable)
    programs = [path for name in PROGRAMS if os.path.lexists(path := os.path.join(beside, name))]
    sites = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    ours = re.compile(r"billhook(?:-.*(?:-info|\.egg))?", re.DOTALL)
    packages = [os.path.join(site, name) for site in sites for name in _listed(site) if ours.fullmatch(name)]
    if os.path.basename(sys.prefix) == "billhook":  # uv tool and pipx make an environment for each program
        packages.append(sys.prefix)
    return Installation(
        tuple(programs), _with_links((sys.executable,)), _with_links(packages), _with_links(filter(None, sites))
    )


def programs(settings: Iterable[str]) -> tuple[str, ...]:
    """The programs that agents run: as their settings name them, as PATH finds them, and beside the interpreter."""
    on_path = ([os.path.join(folder, name) for folder in _path()] for name in PROGRAMS)
    found = [next(filter(os.path.exists, paths), "") for paths in on_path]
    named = [named for file in settings for named in _named_in(file)]
    return _with_links(os.path.abspath(one) for one in (*named, *found, *installation().programs) if one)


def _path() -> list[str]:
    return [folder for folder in client_env.environ().get("PATH", "").split(":") if folder.startswith("/")]


def search_path() -> tuple[str, ...]:
    """The folders of PATH, links followed as well."""
    return _with_links(_path())


def _named_in(file: str) -> list[str]:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read(_LARGEST)
    except (OSError, ValueError):
        return []
    return [one or other for one, other in _IN_SETTINGS.findall(text)] if "billhook" in text else []


def source_package(project: str) -> tuple[str, ...]:
    """The package itself, where it is installed from a source tree; () in that tree: working on it is ordinary work."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    inside = os.path.join(os.path.realpath(project), "")
    return () if package.startswith(inside) or package in installation().packages else (package,)


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _with_links(paths: Iterable[str]) -> tuple[str, ...]:
    listed = [path.rstrip("/") or "/" for path in paths]
    placed = [os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in listed]
    return tuple(dict.fromkeys([*listed, *placed, *map(os.path.realpath, listed)]))
