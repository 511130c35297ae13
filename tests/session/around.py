"""What the tests of a session share: an engine that notes what was fired, hooks in one line, rules that note what they
were asked."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from billhook import Answer, Decision, Engine, Event, Hook, Verdict, command
from billhook.session import Ruling, Session

T = TypeVar("T")
LS = {"command": "ls"}


class Noted:
    """An engine and everything that was fired with it."""

    def __init__(self, *hooks: Hook) -> None:
        self.verdicts: list[Verdict] = []
        self.engine = Engine(hooks, observers=[self.verdicts.append])

    @property
    def events(self) -> list[Event]:
        return [verdict.about for verdict in self.verdicts]

    @property
    def names(self) -> list[str]:
        return [event.hook_event_name for event in self.events]

    @property
    def inside(self) -> list[str]:
        """The events between SessionStart and SessionEnd."""
        assert (self.names[0], self.names[-1]) == ("SessionStart", "SessionEnd")
        return self.names[1:-1]

    def of(self, name: str) -> dict[str, Any]:
        """The payload of the only event of this name."""
        (event,) = [event for event in self.events if event.hook_event_name == name]
        return event.payload

    def session(self, **options: Any) -> Session:
        return Session(self.engine, **options)


class Rules:
    """Rules with one ruling for every call, or one per input from a dict; they record the calls."""

    def __init__(self, *rulings: Ruling) -> None:
        self.rulings = list(rulings)
        self.judged: list[tuple[str, dict[str, Any], str, str, Decision]] = []
        self.remembered: list[tuple[str, dict[str, Any], str]] = []

    def judge(self, tool_name: str, tool_input: dict[str, Any], *, cwd: str, mode: str, hook: Decision) -> Ruling:
        self.judged.append((tool_name, tool_input, cwd, mode, hook))
        return self.rulings.pop(0) if len(self.rulings) > 1 else self.rulings[0]

    def remember(self, tool_name: str, tool_input: dict[str, Any], *, cwd: str) -> None:
        self.remembered.append((tool_name, tool_input, cwd))


def says(event: str, answer: Answer | dict[str, Any], name: str = "guard", dialect: str = "spec", **when: Any) -> Hook:
    """A hook that always gives this answer."""
    return Hook(name=name, run=lambda ctx: answer, events=(event,), dialect=dialect, **when)


def shell(event: str, text: str, dialect: str, name: str = "script", **when: Any) -> Hook:
    """A hook that is a command."""
    return Hook(name=name, run=command(text, dialect=dialect), events=(event,), dialect=dialect, **when)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it, for as long as a test may take."""
    return asyncio.run(asyncio.wait_for(work, 30))
