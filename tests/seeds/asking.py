"""Asking hooks for real, and seeing what they were given."""

import json
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from billhook import Engine, Event, Hook, Verdict, command


def hook(text: str, dialect: str, name: str = "hook", **options: Any) -> Hook:
    return Hook(name=name, title=text, run=command(text, dialect=dialect), dialect=dialect, **options)


def fire(event: Event, *commands: str, dialect: str, **options: Any) -> Verdict:
    """Fire an event at shell commands."""
    hooks = [hook(text, dialect, f"hook-{number}", **options) for number, text in enumerate(commands, 1)]
    return Engine(hooks).fire_sync(event)


class Given(NamedTuple):
    """What a hook was given."""

    stdin: str
    env: dict[str, str]

    @property
    def payload(self) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self.stdin)
        return made


def given(event: Event, dialect: str, folder: Path) -> Given:
    """What a hook of this dialect gets for an event: a real one writes it down."""
    at = shlex.quote(str(folder))
    verdict = fire(event, f"cat > {at}/stdin; env -0 > {at}/env", dialect=dialect)
    assert [outcome.status for outcome in verdict.outcomes] == ["ok"], verdict.warnings
    pairs = (folder / "env").read_bytes().decode("utf-8", "surrogateescape").split("\0")
    env = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    return Given((folder / "stdin").read_text(), env)
