"""Downloads the agents from npm and PyPI into the cache folder: `scripts/clients --install`."""

import os
import platform
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from clients.agents import Agent, cache, find, version, with_own_node

VERSIONS: Final = {
    "claude": "0.2.184",
    "codex": "0.169.0",
    "gemini": "0.61.0",
    "copilot": "1.0.102",
    "qwen": "0.24.4",
    "opencode": "1.18.33",
    "pi": "0.87.1",
    "cline": "3.0.65",
    "openclaw": "2026.9.6",
    "hermes": "0.19.0",
}
"""The versions with which docs/hosts.md was measured."""


_ARCH: Final = "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"


def install(agent: Agent, *, newest: bool = False) -> Iterator[str]:
    """Downloads the agent unless it is there, and prints what it does."""
    if find(agent) is not None and not newest:
        yield f"{agent.title}: is here"
        return
    wanted = "latest" if newest else VERSIONS[agent.speaks]
    yield f"{agent.title}: getting {agent.package} {wanted} ..."
    get = _from_pypi if agent.speaks == "claude" else _into_venv if agent.python else _from_npm
    got = get(agent, wanted)
    found = find(agent)
    yield f"{agent.title}: {version(agent, found)}" if got and found else f"{agent.title}: could not be had"


def _from_npm(agent: Agent, wanted: str) -> bool:
    if shutil.which("npm") is None:
        return False
    folder = cache() / agent.package.rpartition("/")[2]
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "package.json").exists():
        (folder / "package.json").write_text('{"private": true}\n')
    packages = [f"{name}@{wanted}" for name in (agent.package, *agent.packages)]
    return (not agent.node or _npm(folder, [f"node-linux-{_ARCH}@{agent.node}"])) and _npm(folder, packages)


def _npm(folder: Path, packages: Sequence[str]) -> bool:
    """Some packages check the version of Node when they are installed."""
    words = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *packages]
    path = with_own_node(folder / "node_modules" / ".bin" / "npm", os.environ["PATH"])
    return (
        subprocess.run(
            words, cwd=folder, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL, check=False
        ).returncode
        == 0
    )


def _from_pypi(agent: Agent, wanted: str) -> bool:
    """Only the program is unpacked from the wheel: it needs nothing else."""
    folder = cache() / agent.package
    folder.mkdir(parents=True, exist_ok=True)
    named = agent.package if wanted == "latest" else f"{agent.package}=={wanted}"
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
    if subprocess.run([*words, named], check=False).returncode:
        return False
    newest = max(folder.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    with zipfile.ZipFile(newest) as wheel:
        programs = [name for name in wheel.namelist() if name == "claude_agent_sdk/_bundled/claude"]
        for name in programs:
            os.chmod(wheel.extract(name, folder), 0o755)
    _drop(folder)
    return bool(programs)


def _into_venv(agent: Agent, wanted: str) -> bool:
    folder = cache() / agent.package
    named = agent.package if wanted == "latest" else f"{agent.package}=={wanted}"
    venv.create(folder, with_pip=True)
    words = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", named]
    return subprocess.run(words, check=False).returncode == 0


def _drop(folder: Path) -> None:
    for wheel in folder.glob("*.whl"):
        wheel.unlink()
