"""The agent's own program: where it is, and which version, without starting it."""

import os
import re
import shutil
from collections.abc import Iterator
from typing import Final

from billhook import caller
from billhook.agents.base import Agent
from billhook.hosts.doctor_finding import Finding

_VERSION: Final = re.compile(r"\d+\.\d+\.\d+[\w.+-]*")
_HIGHEST: Final = 6  # folders above a program in which its package may say what it is
_LARGEST: Final = 1 << 20


def path_of(host: Agent) -> str:
    """The agent's program on PATH; empty when there is none."""
    return shutil.which(host.program, path=caller.environ().get("PATH")) or ""


def program_finding(host: Agent) -> Finding:
    """Whether the agent can be started from here."""
    path = path_of(host)
    if not path:
        if host.without_program:
            return Finding("unknown", "program", f"no `{host.program}` on PATH here")
        remedy = f"install {host.title}, or start billhook where `{host.program}` is on PATH"
        return Finding("warn", "program", f"{host.title} can't be started here: no `{host.program}` on PATH", remedy)
    version = version_of(path)
    return Finding("ok", "program", f"{path}, version {version}" if version else path)


def version_of(path: str) -> str:
    """The version that the files around a program tell; empty when they don't."""
    real = os.path.realpath(path)
    if _VERSION.fullmatch(os.path.basename(real)):
        return os.path.basename(real)
    return next(_packages_above(real), "")


def _packages_above(real: str) -> Iterator[str]:
    folder = os.path.dirname(real)
    for _ in range(_HIGHEST):
        try:
            with open(os.path.join(folder, "package.json"), "rb") as file:
                text = file.read(_LARGEST)
        except OSError:
            text = b""
        found = re.search(rb'"version"\s*:\s*"([^"\\]{1,60})"', text)
        if found and _VERSION.fullmatch(found[1].decode("ascii", "replace")):
            yield found[1].decode("ascii")
        if os.path.basename(os.path.dirname(folder)) == "node_modules" or folder == "/":
            return
        folder = os.path.dirname(folder)
