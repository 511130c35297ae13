"""billhook inside an agent: billhook's entries, its installation, and the hooks that the agent runs itself."""

import functools
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from billhook.agents import EVERY_AGENT
from billhook.config.declaration import Action, Declared, Exec, RunAction, Url
from billhook.config.sources import FileRead
from billhook.core import client_env
from billhook.core.dialect_traits import MEANINGS
from billhook.core.lazy import pattern

# Entries that run billhook: loaded as hooks, they would only call billhook again.


def is_billhook(action: Action | None) -> bool:
    """Whether an action runs billhook as an agent's hook, and nothing else."""
    match action:
        case RunAction(text) if "billhook" in text:
            from billhook.effects import shell  # most events don't need the shell parser

            commands = [command.words for command in shell.parse(_IF_MISSING.sub("", text)).commands if command.words]
            called = [words for words in commands if words[:2] != ("command", "-v")]  # which tests for a program
            return bool(called) and all(map(_calls_us, called))
        case Exec(argv):
            return _calls_us(argv)
        case Url(url):
            return _OUR_ADDRESS.fullmatch(url) is not None
        case _:
            return False


def _calls_us(words: Sequence[str]) -> bool:
    """`billhook-hook`, `billhook hook --as ...`, also through `python -m`, `uvx` and others; not a local file."""
    if not words or words[0].startswith((".", "~")):
        return False
    names = [os.path.basename(word) for word in words]
    if names[0] in _RUNNERS or names[0].startswith("python"):
        at = next((i for i, name in enumerate(names) if name in ("billhook", "billhook-hook")), len(names))
        names = names[at:]
    if names[:1] == ["billhook-hook"]:
        return True
    return names[:2] == ["billhook", "hook"] and any(name.startswith("--as") for name in names)


_OUR_ADDRESS: Final = re.compile(
    rf"https?://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?/hook/(?:{'|'.join(MEANINGS)})(?:\?.*)?"
)
"""The address at which the daemon answers agents over HTTP: if billhook called it, the same hooks would run again."""
_IF_MISSING: Final = re.compile(r"\Acommand -v [^|&;]+ >/dev/null 2>&1 \|\| (?:exit 0|\{ .+? \}); (?=exec )", re.DOTALL)
"""The beginning of an entry that handles a missing billhook, before it runs billhook."""
_RUNNERS: Final = frozenset({"uvx", "uv", "pipx", "env", "exec"})


# The installation of billhook:


PROGRAMS = ("billhook-hook", "billhook")
_LARGEST = 1 << 20
_IN_SETTINGS = pattern(
    r"""(?:'(/[^'\n]*?/billhook(?:-hook)?)'|(?<![\w'])(/[^\s"'\\;|&]*/billhook(?:-hook)?))(?![\w/-])"""
)


class Installation(msgspec.Struct, frozen=True):
    """The files of this process's installation."""

    programs: tuple[str, ...]
    interpreters: tuple[str, ...]
    packages: tuple[str, ...]
    sites: tuple[str, ...]


@functools.cache
def installation() -> Installation:
    """The installation that this process runs from."""
    beside = os.path.dirname(sys.executable)
    programs = [path for name in PROGRAMS if os.path.lexists(path := os.path.join(beside, name))]
    sites = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    ours = re.compile(r"billhook(?:-.*(?:-info|\.egg))?", re.DOTALL)
    packages = [path for site in sites for path in _within(site) if ours.fullmatch(os.path.basename(path))]
    if os.path.basename(sys.prefix) == "billhook":  # uv tool and pipx make an environment for each program
        packages.append(sys.prefix)
    return Installation(
        tuple(programs), _with_links((sys.executable,)), _with_links(packages), _with_links(filter(None, sites))
    )


def programs(settings: Iterable[str]) -> tuple[str, ...]:
    """The programs that agents run: those in their settings, on PATH, and beside the interpreter."""
    on_path = ([os.path.join(folder, name) for folder in _path()] for name in PROGRAMS)
    found = [next(filter(os.path.exists, paths), "") for paths in on_path]
    named = [named for file in settings for named in _named_in(file)]
    return _with_links(os.path.abspath(one) for one in (*named, *found, *installation().programs) if one)


def _path() -> list[str]:
    return [folder for folder in client_env.environ().get("PATH", "").split(":") if folder.startswith("/")]


def search_path() -> tuple[str, ...]:
    """The folders of PATH, and the targets of links."""
    return _with_links(_path())


def _named_in(file: str) -> list[str]:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read(_LARGEST)
    except (OSError, ValueError):
        return []
    return [one or other for one, other in _IN_SETTINGS.findall(text)] if "billhook" in text else []


def source_package(project: str) -> tuple[str, ...]:
    """The package, if it is installed from a source tree; () in that tree, where edits are normal."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    inside = os.path.join(os.path.realpath(project), "")
    return () if package.startswith(inside) or package in installation().packages else (package,)


def _within(folder: str) -> list[str]:
    with suppress(OSError):
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return []


def _with_links(paths: Iterable[str]) -> tuple[str, ...]:
    listed = [path.rstrip("/") or "/" for path in paths]
    placed = [os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in listed]
    return tuple(dict.fromkeys([*listed, *placed, *map(os.path.realpath, listed)]))


# Hooks that an agent runs itself: inside it, billhook skips those entries, so that no hook runs twice.


_FILES: Final = ("/.claude/settings.json", "/.claude/settings.local.json")


class HostAgent(msgspec.Struct, frozen=True, cache_hash=True):
    """The agent that hooks are loaded for."""

    host: str = ""  # its name; empty: no agent that runs hooks itself
    project: str = ""
    """The folder whose settings it reads, from its variables. If it is empty or does not exist, the folder is unknown,
    and may be any folder above."""
    sure: bool = True
    """False: the caller uses that agent's format, but may be another program that runs no hooks. Then only files in
    which billhook is installed count as the agent's."""
    over_http: bool = False
    """It calls over HTTP, without variables. If not sure, it is confirmed if one of its files has billhook's URL."""


def _reads_these(host: str) -> bool:
    return host == "claude" or (host in EVERY_AGENT and bool(EVERY_AGENT[host].reads_claude))


def inside(host: "str | HostAgent", environ: Mapping[str, str]) -> HostAgent:
    """The agent of that name, in the project that its variables name."""
    if isinstance(host, HostAgent):
        return host
    return HostAgent(host, environ.get("CLAUDE_PROJECT_DIR", "")) if _reads_these(host) else HostAgent()


def seen(host: str, environ: Mapping[str, str], *, over_http: bool) -> HostAgent:
    """The same for a caller that uses that agent's format: it is Claude Code if its variables are set."""
    if host != "claude" or environ.get("CLAUDECODE") or environ.get("CLAUDE_CODE_ENTRYPOINT"):
        return inside(host, environ)
    return HostAgent("claude", environ.get("CLAUDE_PROJECT_DIR", ""), sure=False, over_http=over_http)


def confirmed(agent: HostAgent, reads: Iterable[FileRead]) -> HostAgent:
    """The agent; over HTTP it is sure if one of the files has billhook's URL."""
    if agent.sure or not agent.over_http:
        return agent
    installed = any(entry.ours and isinstance(entry.action, Url) for read in reads for entry in read.entries)
    return msgspec.structs.replace(agent, sure=installed)


def runs_itself(agent: HostAgent, declared: Declared, read: FileRead, home: str) -> str:
    """`run by Claude Code itself`, if the agent runs an entry of a file; else empty."""
    nested = declared.shape == "nested" and not declared.ours
    if not _reads_these(agent.host) or not nested or not _reads(agent, declared, home):
        return ""
    sure = agent.sure or any(entry.ours for entry in read.entries)
    return f"run by {EVERY_AGENT[agent.host].title} itself" if sure else ""


def of_claude_code(declared: Declared) -> bool:
    """Whether it is an entry of Claude Code's settings, which Claude Code runs itself."""
    return declared.shape == "nested" and not declared.ours and declared.file.endswith(_FILES)


def is_claudes(declared: Declared, host: str) -> bool:
    """The same inside an agent: only agents that read that file run the entry."""
    return of_claude_code(declared) and (not host or _reads_these(host.removeprefix("http:")))


def adopting_command(declared: Declared) -> str:
    """The command that moves an entry of Claude Code's settings to billhook; empty if `install` can't edit the file."""
    if not declared.file.endswith(_FILES[0]):
        return ""
    return f"billhook install claude {'' if declared.layer == 'user' else '--project '}--adopt"


def _reads(agent: HostAgent, declared: Declared, home: str) -> bool:
    """Whether the agent reads the file."""
    folder = next((declared.file.removesuffix(name) for name in _FILES if declared.file.endswith(name)), "")
    if not folder:
        return False
    if folder == home:
        return agent.host == "claude" or "user" in EVERY_AGENT[agent.host].reads_claude
    return not os.path.isdir(agent.project) or os.path.realpath(agent.project) == folder
