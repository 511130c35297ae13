#!/usr/bin/env python3
"""SubagentStart and SubagentStop: a table of running subagents, shared by several processes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pickle
import signal
import sys
from pathlib import Path


@dataclasses.dataclass(order=True)
class Agent:
    name: str
    session: str
    stops: int = 0
    tags: list[str] = dataclasses.field(default_factory=list, compare=False)


@contextlib.contextmanager
def table(path: Path):
    """The table, loaded and saved; a signal in between leaves the old one."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        agents = pickle.loads(path.read_bytes()) if path.exists() else {}
        yield agents
        path.write_bytes(pickle.dumps(agents, protocol=4))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def update(agents: dict[str, Agent], event: dict) -> Agent:
    key = event.get("agent_id", "main")
    agent = agents.setdefault(key, Agent(event.get("agent_type", "general"), event["session_id"]))
    match event["hook_event_name"]:
        case "SubagentStart":
            agent.tags.append("started")
        case "SubagentStop":
            agent.stops += 1
            agent.tags.append("stopped")
        case other:
            raise ValueError(f"unexpected event: {other}")
    return agent


def main() -> None:
    event = json.load(sys.stdin)
    with table(Path(os.environ.get("TABLE", "agents.pickle"))) as agents:
        agent = update(agents, event)
    for each in sorted(agents.values()):
        print(each, "<-" if each is agent else "")


if __name__ == "__main__":
    main()
