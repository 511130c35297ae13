"""Agents that call their hook: the same call as each of them words it, in a home and a project of their own."""

import asyncio
import json
from pathlib import Path
from typing import Any

from billhook import Event, Verdict
from billhook.config import Config
from billhook.core import client_env
from billhook.core.client_env import Caller
from billhook.serve.hook_server import HookResponse, HookServer

GOLDEN = Path(__file__).parent.parent / "dialects" / "golden"


def golden(name: str) -> dict[str, Any]:
    """What a real agent sent: `stdin`, `env`, and the `argument` that its entry had."""
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return found


class Agent:
    """A folder with a home, a state root and a project, and an agent in it. Lives as long as its test."""

    def __init__(self, base: Path) -> None:
        self.home, self.project, self.root = base / "home", base / "project", base / "root"
        (self.home / ".config" / "billhook").mkdir(parents=True)
        (self.project / ".git").mkdir(parents=True)
        self.trace = base / "trace"
        self.variables: dict[str, str] = {}
        """What the agent itself has in its environment."""

    def env(self) -> dict[str, str]:
        own = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "BILLHOOK_HOME": str(self.root)}
        return {**own, "CLAUDE_PROJECT_DIR": str(self.project), **self.variables}

    def hooks(self, text: str) -> None:
        """The user's own hooks.yaml. `TRACE` is a file that tells who was asked."""
        path = self.home / ".config" / "billhook" / "hooks.yaml"
        path.write_text(text.replace("TRACE", str(self.trace)))

    @property
    def asked(self) -> int:
        """How often hooks that leave a trace were asked."""
        return len(self.trace.read_text().splitlines()) if self.trace.exists() else 0

    def records(self) -> list[dict[str, Any]]:
        files = sorted((self.root / "hooks").glob("*/hooks*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def copilot(self, command: str = "ls", **changes: Any) -> dict[str, Any]:
        """A call of Copilot's as an entry of `.github/hooks` gets it, under `preToolUse`."""
        reported = {"sessionId": "s", "timestamp": 1767225600000, "cwd": str(self.project)}
        return {**reported, "toolName": "bash", "toolArgs": {"command": command, "description": "it"}, **changes}

    def copilot_as_claude(self, command: str = "ls", **changes: Any) -> dict[str, Any]:
        """The same call as an entry of `.claude/settings.json` gets it."""
        reported = {"hook_event_name": "PreToolUse", "session_id": "s", "timestamp": "2026-01-01T00:00:00.000Z"}
        tool = {"tool_name": "Bash", "tool_input": {"command": command, "description": "it"}}
        return {**reported, "cwd": str(self.project), **tool, **changes}

    async def hears(self, payload: dict[str, Any], *argv: str) -> HookResponse:
        """The response of the agent's hook."""
        with client_env.Serving(Caller(self.env(), str(self.project))):
            answering = HookServer(lambda: json.dumps(payload).encode(), lambda *asked: _fire(answering, *asked))
            return await answering.answer(list(argv))

    def ask(self, payload: dict[str, Any], *argv: str) -> HookResponse:
        return asyncio.run(self.hears(payload, *argv))


async def _fire(answering: HookServer, config: Config, event: Event) -> Verdict:
    engine = config.engine(host=answering.host)
    return await engine.fire(event, deadline=answering.arguments.seconds_for_hooks)


def reported(heard: HookResponse) -> dict[str, Any]:
    """The answer in JSON."""
    found: dict[str, Any] = json.loads(heard.stdout) if heard.stdout else {}
    return found
