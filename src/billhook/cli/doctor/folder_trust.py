"""Whether an agent trusts this folder, and our entries in its files, as far as its own files tell.

Agents silently skip hooks that they don't trust.
"""

import os
from collections.abc import Iterator
from typing import Any, Final

from billhook.agents.base import Agent
from billhook.cli.doctor.entries import Installation
from billhook.cli.doctor.finding import Finding
from billhook.config import sources
from billhook.config.nodes import MAX_BYTES, read_text
from billhook.config.shapes import read_file

_INVALID: Final = frozenset({"BH104", "BH203", "BH204", "BH206", "BH216"})


def trust_findings(host: Agent, project: str, installed: list[Installation]) -> Iterator[Finding]:
    """What the agent's files say about trust; nothing for an agent that has no such thing."""
    found = host.trust(host, project, installed, settings_of) if host.trust is not None else ()
    facts = [Finding(one.level, "trust", one.text, one.remedy) for one in found]
    yield from facts[:-1]
    yield from _invalid_files(host, project)
    yield from facts[-1:]  # what it says about the folder comes last


def settings_of(path: str) -> dict[str, Any]:
    """A settings file, comments allowed; empty when there is none, or none that can be read."""
    try:
        data = sources.read_bytes(path, MAX_BYTES)
    except OSError:
        return {}
    read = read_text(data, path if path.endswith(".json") else f"{path}.json")
    plain = read.node.plain() if read.node is not None else {}
    return plain if isinstance(plain, dict) else {}


def _invalid_files(host: Agent, project: str) -> Iterator[Finding]:
    """Settings files, with every hook in them, that the agent skips because it does not know the form of one entry."""
    own = [host.file("user", project)] if host.strict_files else []
    paths = (*own, *(os.path.join(project, name) for name in host.strict_files))
    for path in dict.fromkeys(path for path in paths if os.path.isfile(path)):
        read = read_file(path, "explicit", project)
        wrong = [(one.line, one.message) for one in read.findings if one.code in _INVALID]
        odd = [(one.line, "a bare command") for one in read.entries if one.shape != "nested"]
        for line, what in [*wrong, *odd][:1]:
            text = f"{path}:{line}: {what}; {host.title} skips the whole file for one invalid entry"
            remedy = "fix that entry, or move it to a hooks.yaml; `billhook check` shows all"
            yield Finding("warn", "trust", text, remedy)
