"""billhook inside an agent: its own entries, where it is installed, and the hooks that the agent runs itself."""

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

# Entries that are billhook itself: loaded as hooks, they would only call us again.


def is_billhook(action: Action | None) -> bool:
    """Whether it runs billhook as an agent's hook, and nothing else."""
    match action:
        case RunAction(text) if "billhook" in text:
            from billhook.effects import shell  # a quiet event needs no reader of commands

            commands = [command.words for command in shell.parse(_IF_MISSING.sub("", text)).commands if command.words]
            asked = [words for words in commands if words[:2] != ("command", "-v")]  # is it installed?
            return bool(asked) and all(map(_calls_us, asked))
        case Exec(argv):
            return _calls_us(argv)
        case Url(url):
            return _OUR_ADDRESS.fullmatch(url) is not None
        case _:
            return False


def _calls_us(words: Sequence[str]) -> bool:
    """`billhook-hook`, `billhook hook --as ...`, also through `python -m`, `uvx` and their like; not a local file."""
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
"""Where the daemon answers agents over HTTP: asked by ourselves, it would ask the same hooks once more."""
_IF_MISSING: Final = re.compile(r"\Acommand -v [^|&;]+ >/dev/null 2>&1 \|\| (?:exit 0|\{ .+? \}); (?=exec )", re.DOTALL)
"""What an entry says that acts where billhook is missing, before it runs billhook."""
_RUNNERS: Final = frozenset({"uvx", "uv", "pipx", "env", "exec"})


# Where billhook itself is installed:


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
    packages = [path for site in sites for path in _within(site) if ours.fullmatch(os.path.basename(path))]
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

    host: str = ""  # its name; empty: none that has hooks of its own
    project: str = ""
    """The folder whose settings it reads, as it says itself; empty, or none that is there: nobody knows, and every
    folder on the way may be it."""
    sure: bool = True
    """False: somebody speaks like that agent, who may be a loop of its own that runs no hooks. Then only those files
    count as the agent's in which billhook is installed."""
    over_http: bool = False
    """It calls over HTTP, without variables. If not sure, it is believed if one of its files has billhook's address."""


def _reads_these(host: str) -> bool:
    return host == "claude" or (host in EVERY_AGENT and bool(EVERY_AGENT[host].reads_claude))


def inside(host: "str | HostAgent", environ: Mapping[str, str]) -> HostAgent:
    """The agent of that name, in the folder that it says it works in."""
    if isinstance(host, HostAgent):
        return host
    return HostAgent(host, environ.get("CLAUDE_PROJECT_DIR", "")) if _reads_these(host) else HostAgent()


def seen(host: str, environ: Mapping[str, str], *, over_http: bool) -> HostAgent:
    """The same for somebody who speaks like that agent: Claude Code is believed where its variables say so."""
    if host != "claude" or environ.get("CLAUDECODE") or environ.get("CLAUDE_CODE_ENTRYPOINT"):
        return inside(host, environ)
    return HostAgent("claude", environ.get("CLAUDE_PROJECT_DIR", ""), sure=False, over_http=over_http)


def confirmed(agent: HostAgent, reads: Iterable[FileRead]) -> HostAgent:
    """The same, sure where the files say so."""
    if agent.sure or not agent.over_http:
        return agent
    installed = any(entry.ours and isinstance(entry.action, Url) for read in reads for entry in read.entries)
    return msgspec.structs.replace(agent, sure=installed)


def runs_itself(agent: HostAgent, declared: Declared, read: FileRead, home: str) -> str:
    """Who runs an entry of a file if not billhook, in words; nothing when nobody else does."""
    nested = declared.shape == "nested" and not declared.ours
    if not _reads_these(agent.host) or not nested or not _reads(agent, declared, home):
        return ""
    sure = agent.sure or any(entry.ours for entry in read.entries)
    return f"run by {EVERY_AGENT[agent.host].title} itself" if sure else ""


def of_claude_code(declared: Declared) -> bool:
    """Whether Claude Code runs it itself, whatever billhook does: an entry of its own settings."""
    return declared.shape == "nested" and not declared.ours and declared.file.endswith(_FILES)


def is_claudes(declared: Declared, host: str) -> bool:
    """The same inside an agent: in one that does not read that file, nothing else runs the entry."""
    return of_claude_code(declared) and (not host or _reads_these(host.removeprefix("http:")))


def adopting_command(declared: Declared) -> str:
    """What moves an entry of Claude Code's settings to billhook; nothing for a file that `install` does not know."""
    if not declared.file.endswith(_FILES[0]):
        return ""
    return f"billhook install claude {'' if declared.layer == 'user' else '--project '}--adopt"


def _reads(agent: HostAgent, declared: Declared, home: str) -> bool:
    """Whether the file is one that the agent reads."""
    folder = next((declared.file.removesuffix(name) for name in _FILES if declared.file.endswith(name)), "")
    if not folder:
        return False
    if folder == home:
        return agent.host == "claude" or "user" in EVERY_AGENT[agent.host].reads_claude
    return not os.path.isdir(agent.project) or os.path.realpath(agent.project) == folder
