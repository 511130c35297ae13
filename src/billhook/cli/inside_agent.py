"""Are we being run by an agent? Consent is a person's to give, so an agent that could give it would need no hooks.

A net against accidents, not a wall: who controls a process can hide what it is. Names are compared whole, never as
parts of a path, because a person's folder may be called `claude`.
"""

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from billhook.agents import AGENTS

_FURTHER = {
    "OPENCODE": "OpenCode",
    "AUGMENT_AGENT": "Augment",
    "AI_AGENT": "an agent",
    "HOOK_EVENT": "a hook",
    "CLAUDE_EVENT_TYPE": "a hook",
}
MARKS: Mapping[str, str] = {
    **{mark: title or agent.title for agent in AGENTS.values() for mark, title in agent.marks.items()},
    **_FURTHER,
}
"""What agents put into the environment of the commands they run."""

PROGRAMS: Mapping[str, str] = {
    **{agent.program: agent.program_title or agent.title for agent in AGENTS.values()},
    "opencode": "OpenCode",
}
PACKAGES: Mapping[tuple[str, str], str] = {
    **{one: agent.program_title or agent.title for agent in AGENTS.values() for one in agent.packages},
    ("node_modules", "opencode-ai"): "OpenCode",
}
_INTERPRETER = re.compile(r"node|nodejs|bun|deno|python[\d.]*|pypy[\d.]*|sh|bash|dash|zsh")
_SCRIPT_ENDS = re.compile(r"\.(?:js|mjs|cjs|py|exe)$")
_DEEPEST = 100


def agent_around() -> str:
    """Which agent runs us, and how that shows; empty when none does."""
    for name, agent in MARKS.items():
        if os.environ.get(name):
            return f"{agent} (the variable {name} is set)"
    for pid in _ancestors():
        if agent := agent_of(_words(pid)):
            return f"{agent} (process {pid})"
        for name in _marks_of(pid):
            return f"{MARKS[name]} (process {pid} has the variable {name})"
    return ""


def agent_of(argv: Sequence[str]) -> str:
    """The agent that a command line is; empty for anything else."""
    if not argv:
        return ""
    program, rest = argv[0], list(argv[1:])
    name = _plain(program)
    if _INTERPRETER.fullmatch(name):
        program, rest = _script(rest)
        name = _plain(program)
    if name == "billhook" and rest[:1] in (["agent"], ["hook"], ["daemon"]):
        return f"billhook {rest[0]}"
    parts = program.split("/")
    return PROGRAMS.get(name) or next((PACKAGES[pair] for pair in itertools.pairwise(parts) if pair in PACKAGES), "")


def _script(words: list[str]) -> tuple[str, list[str]]:
    """What an interpreter runs, and its arguments."""
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


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    for _ in range(_DEEPEST):
        if pid <= 0:
            return
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
    """The marks in another process's environment: one that was taken out for us alone is still there."""
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        pairs = (pair.partition(b"=") for pair in file.read().split(b"\0"))
        held = {os.fsdecode(name) for name, _, value in pairs if value}
        return [name for name in MARKS if name in held]
    return []
