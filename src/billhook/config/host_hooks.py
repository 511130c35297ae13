"""Hooks that an agent runs itself: inside it, billhook skips those entries, so that no hook runs twice."""

import functools
import os
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from billhook.agents import EVERY_AGENT
from billhook.config.declaration import Declared, Url
from billhook.config.file_read import FileRead

_FILES: Final = (".claude/settings.json", ".claude/settings.local.json")


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
    """It calls over HTTP, where it has no variables to show. Not sure, it is believed where any of its files has
    billhook's address."""


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
    return _unsure(environ.get("CLAUDE_PROJECT_DIR", ""), over_http)


@functools.lru_cache(maxsize=64)
def _unsure(project: str, over_http: bool) -> HostAgent:
    return HostAgent("claude", project, sure=False, over_http=over_http)


def believed(agent: HostAgent, reads: Iterable[FileRead]) -> HostAgent:
    """The same, sure where the files say so."""
    if agent.sure or not agent.over_http:
        return agent
    installed = any(entry.ours and isinstance(entry.action, Url) for read in reads for entry in read.entries)
    return msgspec.structs.replace(agent, sure=installed)


def runs_itself(agent: HostAgent, declared: Declared, read: FileRead, home: str) -> str:
    """Who runs an entry of a file if not billhook, in words; nothing when nobody else does."""
    if not _reads_these(agent.host) or declared.shape != "nested" or declared.ours:
        return ""
    if not _reads(agent, declared, home):
        return ""
    if not agent.sure and not any(entry.ours for entry in read.entries):
        return ""
    return f"run by {EVERY_AGENT[agent.host].title} itself"


def is_claudes(declared: Declared, host: str) -> bool:
    """Whether Claude Code runs an entry itself, as far as its file tells; in an agent that does not read that file
    nobody does."""
    of_claude = declared.shape == "nested" and not declared.ours and declared.file.endswith(_FILES)
    return of_claude and (not host or _reads_these(host.removeprefix("http:")))


def of_claude_code(declared: Declared) -> bool:
    """Whether Claude Code runs it itself, whatever billhook does: an entry of its own settings."""
    return (
        declared.shape == "nested" and not declared.ours and declared.file.endswith(tuple(f"/{one}" for one in _FILES))
    )


def adopting_command(declared: Declared) -> str:
    """What moves an entry of Claude Code's settings to billhook; nothing for a file that `install` does not know."""
    if not declared.file.endswith(f"/{_FILES[0]}"):
        return ""
    return (
        "billhook install claude --adopt" if declared.layer == "user" else "billhook install claude --project --adopt"
    )


def _reads(agent: HostAgent, declared: Declared, home: str) -> bool:
    """Whether the file is one that the agent reads."""
    folder = next((declared.file.removesuffix(f"/{name}") for name in _FILES if declared.file.endswith(f"/{name}")), "")
    if not folder:
        return False
    if folder == home:
        return agent.host == "claude" or "user" in EVERY_AGENT[agent.host].reads_claude
    return not os.path.isdir(agent.project) or os.path.realpath(agent.project) == folder
