"""An agent with a scripted model in a project of its own, and everything that happened in its run."""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from billhook import Answer, Hook, command
from billhook.agent.factory import open_agent
from billhook.agent.loop import AgentLoop
from billhook.agent.models import Model, ModelRequest
from billhook.agent.script import ScriptedModel
from billhook.agent.ui_events import NoticeShown, SessionStarted, TaskChanged, TurnEnded, UiEvent
from billhook.config import Config, load_config
from billhook.config.trust import approve_entry
from billhook.core.functions import from_matchers
from billhook.session import ToolResult
from cli.terminal import living

Drive = Callable[[AgentLoop], Awaitable[Any]]
SECONDS = 30
"""For as long a run may take."""


class Project:
    """A folder to work in, and a state root. Lives as long as its test."""

    def __init__(self, base: Path) -> None:
        self.folder, self.root = base / "project", base / "state"
        (self.folder / ".git").mkdir(parents=True)

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def config(self, **options: Any) -> Config:
        return load_config(self.folder, home=self.root, **options)

    def approve(self) -> None:
        """Approve all hooks of the project, as a person would."""
        for entry in self.config().pending:
            approve_entry(entry, self.root)

    def run(self, turns: Any, *hooks: Hook, prompt: str = "go", **options: Any) -> "CanaryRun":
        """Run one prompt to its end. Without a permission mode nothing is asked, so that hooks alone decide."""

        async def drive(agent: AgentLoop) -> TurnEnded:
            return await agent.run(prompt)

        return self.drive(turns, drive, *hooks, **options)

    def drive(self, turns: Any, drive: Drive, *hooks: Hook, **options: Any) -> "CanaryRun":
        """Open an agent and do something with it; `turns` is a script, or a model."""
        ran = CanaryRun(self, turns if hasattr(turns, "complete") else ScriptedModel(turns))
        options = {"permission_mode": "bypassPermissions", "config": self.config(), **options}
        config = options.pop("config")

        async def main() -> Any:
            opened = open_agent(
                config, ran.model, cwd=str(self.folder), show=ran.show, hooks=[ran.recorder, *hooks], **options
            )
            async with opened as agent:
                ran.agent = agent
                return await drive(agent)

        try:
            ran.returned = asyncio.run(asyncio.wait_for(main(), SECONDS))
        except BaseException as error:
            ran.raised = error
            if not isinstance(error, asyncio.CancelledError | ExpectedError):
                raise
        return ran


class ExpectedError(Exception):
    """What a test raises on purpose."""


class CanaryRun:
    """What happened in one run."""

    def __init__(self, project: Project, model: Model) -> None:
        self.project, self.model = project, model
        self.shown: list[Any] = []
        self.events: list[dict[str, Any]] = []
        """The payload of each event, as a hook got it, in order."""
        self.returned: Any = None
        self.raised: BaseException | None = None
        self.agent: AgentLoop | None = None
        self.recorder = Hook(
            name="recorder", run=lambda ctx: self.events.append(ctx.event.payload), events=(), priority=-1000
        )

    def show(self, event: UiEvent) -> None:
        self.shown.append(event)

    @property
    def ended(self) -> TurnEnded:
        assert isinstance(self.returned, TurnEnded), self.returned
        return self.returned

    @property
    def requests(self) -> list[ModelRequest]:
        """What the model was asked, in order."""
        found: list[ModelRequest] = self.model.requests  # type: ignore[attr-defined]
        return found

    @property
    def names(self) -> list[str]:
        return [event["hook_event_name"] for event in self.events]

    def of(self, name: str) -> list[dict[str, Any]]:
        """The events of one name."""
        return [event for event in self.events if event["hook_event_name"] == name]

    @property
    def results(self) -> list[ToolResult]:
        """The tool results that the model received, in order, each once."""
        found: dict[str, ToolResult] = {}
        for request in self.requests:
            for message in request.messages:
                found |= {block.tool_use_id: block for block in message.content if isinstance(block, ToolResult)}
        return list(found.values())

    @property
    def added(self) -> list[str]:
        """What hooks added to the system message of each call of the model."""
        plain = self.requests[0].system.partition("\n\n")[0]
        assert all(request.system.startswith(plain) for request in self.requests)
        return [request.system.removeprefix(plain).removeprefix("\n\n") for request in self.requests]

    @property
    def notices(self) -> list[str]:
        return [one.text for one in self.shown if isinstance(one, NoticeShown)]

    @property
    def tasks(self) -> list[tuple[str, str]]:
        return [(one.task_id, one.state) for one in self.shown if isinstance(one, TaskChanged)]

    @property
    def session_id(self) -> str:
        return next(one.session_id for one in self.shown if isinstance(one, SessionStarted))

    @property
    def transcript(self) -> Path:
        return Path(next(one.transcript_path for one in self.shown if isinstance(one, SessionStarted)))

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The transcript, line by line."""
        return [json.loads(line) for line in self.transcript.read_text().splitlines()]


def tool(name: str, /, **given: Any) -> dict[str, Any]:
    """A turn of the model that uses a tool."""
    return {"tool": {"name": name, "input": given}}


def bash(line: str, **given: Any) -> dict[str, Any]:
    return tool("Bash", command=line, **given)


def says(event: str, answer: Answer | dict[str, Any], name: str = "guard", **when: Any) -> Hook:
    """A hook that always gives the same answer, in words of seed 001."""
    return Hook(name=name, run=lambda ctx: answer, events=(event,), **{"dialect": "spec", **when})


def shell(event: str, text: str, dialect: str = "claude", name: str = "script", **when: Any) -> Hook:
    """A hook that is a command."""
    return Hook(name=name, run=command(text, dialect=dialect), events=(event,), dialect=dialect, **when)


def callbacks(**groups: list[dict[str, Any]]) -> list[Hook]:
    """Seed 001's map of events to groups of callbacks."""
    return from_matchers(groups)


def specific(event: str, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


DONE = {"text": "done"}


def unique() -> str:
    """Seconds that no other process sleeps for: they find it again."""
    return str(uuid.uuid4().int)[:14]


async def started(tag: str) -> None:
    """Wait until a process with this tag in its command line lives."""
    while not await asyncio.to_thread(living, tag):
        pass
