"""Changes the times of an installed entry, in the agent's unit: `retime.py AGENT FILE EVENT DEADLINE SECONDS`."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from billhook.agents import AGENTS


def retimed(value: Any, deadline: str, seconds: int) -> Any:
    """The settings with another deadline of billhook (milliseconds) and another timeout of the agent (seconds)."""
    match value:
        case dict():
            return {name: _timed(name, retimed(item, deadline, seconds), seconds) for name, item in value.items()}
        case list():
            return [retimed(item, deadline, seconds) for item in value]
        case str():
            return re.sub(r"--deadline \d+", f"--deadline {deadline}", value)
        case _:
            return value


def _timed(name: str, value: Any, seconds: int) -> Any:
    if name not in ("timeout", "timeoutSec"):
        return value
    return seconds * 1000 if value >= 1000 else seconds


if __name__ == "__main__":
    agent, path, event, wanted, most = sys.argv[1:]
    file, form = Path(path), AGENTS[agent].format
    held = json.loads(form.read(file.read_text()))
    held["hooks"][event] = retimed(held["hooks"][event], wanted, int(most))
    file.write_text(form.write(json.dumps(held, indent=2), file.read_text()))
