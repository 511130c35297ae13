"""Whether an agent runs a process: this one, or one that is connected to the daemon.

Only the user can approve hooks and answer questions. The search for an agent among the parent processes prevents
accidents, not attacks: a process can hide what it is. Names are compared whole, never as parts of a path, because a
folder may be called `claude`.
"""

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from billhook.agents import AGENTS
from billhook.agents.base import Agent

MARKS: Mapping[str, str] = {
    **{mark: title or agent.title for agent in AGENTS.values() for mark, title in agent.marks.items()},
    "AUGMENT_AGENT": "Augment",
    "AI_AGENT": "an agent",
    "HOOK_EVENT": "a hook",
    "CLAUDE_EVENT_TYPE": "a hook",
}
"""Environment variables that agents set for the commands they run."""

PROGRAMS: Mapping[str, str] = {
    agent.program: agent.program_title or agent.title for agent in AGENTS.values() if not agent.is_editor
}
PACKAGES: Mapping[tuple[str, str], str] = {
    one: agent.program_title or agent.title for agent in AGENTS.values() for one in agent.packages
}
_INTERPRETER = re.compile(r"node|nodejs|bun|deno|python[\d.]*|pypy[\d.]*|sh|bash|dash|zsh")
_SCRIPT_ENDS = re.compile(r"\.(?:js|mjs|cjs|py|exe)$")

_CONNECTIONS: Final = ("/proc/net/tcp", "/proc/net/tcp6")


def agent_around(pid: int = 0) -> str:
    """The agent that runs a process, by default this one, and how that was detected; empty without one."""
    for name, agent in MARKS.items() if not pid else ():
        if os.environ.get(name):
            return f"{agent} (the variable {name} is set)"
    for one in _and_ancestors(pid or os.getppid()):
        if agent := agent_of(_words(one)):
            return f"{agent} (process {one})"
        for name in _marks_of(one):
            return f"{MARKS[name]} (process {one} has the variable {name})"
    return ""


def is_headless(agent: Agent, pid: int) -> bool:
    """Whether a process was started by this agent without a person, as far as the agent's command line shows that."""
    title = agent.program_title or agent.title
    lines = (_words(one) for one in _and_ancestors(pid)) if agent.headless else ()
    return not agent.headless.isdisjoint(next((words for words in lines if agent_of(words) == title), ()))


def agent_at_port(port: int, server: int) -> str:
    """The same for a program on this machine that is connected from one port to another; empty if it is not found."""
    sockets = {f"socket:[{inode}]" for inode in _connections(port, server)}
    owners = (pid for pid in os.listdir("/proc") if pid.isdecimal()) if sockets else ()
    return next((agent for pid in owners if _has_one(pid, sockets) and (agent := agent_around(int(pid)))), "")


def _connections(port: int, server: int) -> Iterator[str]:
    for path in _CONNECTIONS:
        with suppress(OSError), open(path, encoding="ascii") as file:
            for line in itertools.islice(file, 1, None):
                fields = line.split()
                if fields[1].endswith(f":{port:04X}") and fields[2].endswith(f":{server:04X}"):
                    yield fields[9]


def _has_one(pid: str, sockets: set[str]) -> bool:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):  # it has ended, or is of another user
        return any(os.readlink(f"{folder}/{name}") in sockets for name in os.listdir(folder))
    return False


def agent_of(argv: Sequence[str]) -> str:
    """The agent that a command line starts; empty for other programs."""
    if not argv:
        return ""
    program, rest = argv[0], list(argv[1:])
    if _INTERPRETER.fullmatch(_plain(program)):
        program, rest = _script(rest)
    name = _plain(program)
    if name == "billhook" and rest[:1] in (["agent"], ["hook"], ["daemon"]):
        return f"billhook {rest[0]}"
    parts = program.split("/")
    return PROGRAMS.get(name) or next((PACKAGES[pair] for pair in itertools.pairwise(parts) if pair in PACKAGES), "")


def _script(words: list[str]) -> tuple[str, list[str]]:
    while words:
        word = words.pop(0)
        if word == "-m" and words:
            return words[0], words[1:]
        if not word.startswith("-"):
            return word, words
        if word in ("-c", "-e", "--eval", "-p", "--print"):
            break  # a program on the command line has no name
    return "", []


def _plain(program: str) -> str:
    return _SCRIPT_ENDS.sub("", os.path.basename(program).lstrip("-"))


def _and_ancestors(pid: int) -> Iterator[int]:
    while pid > 0:
        yield pid
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return


def _words(pid: int) -> list[str]:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read(1 << 16).rstrip(b"\0").split(b"\0")]
    return []


def _marks_of(pid: int) -> list[str]:
    """The marks in another process's environment. A mark that was removed for this process only is still there."""
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        pairs = (pair.partition(b"=") for pair in file.read().split(b"\0"))
        held = {os.fsdecode(name) for name, _, value in pairs if value}
        return [name for name in MARKS if name in held]
    return []
