"""A long-lived process: nothing grows with the number of events."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from billhook.config import load_config
from billhook.core.events import parse
from billhook.store.files import log_folder
from billhook.store.log.verify import verify
from config.project import Project
from descriptors import open_descriptors

USER = "~/.config/billhook/hooks.yaml"
LINUX = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what /proc shows")


def resident() -> int:
    """Bytes of memory that this process has in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def fire(project: Project, events: range) -> None:
    """Events of a hundred sessions, with an engine of the cached configuration, as in a daemon."""
    engine = load_config(project.folder, home=project.root).engine()
    for number in events:
        about = {
            "hook_event_name": ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop")[number % 4],
            "session_id": f"session-{number % 100}",
            "cwd": str(project.folder),
            "tool_name": "Bash",
            "tool_input": {"command": f"echo {number}"},
            "tool_response": "x" * (number % 500),
            "tool_use_id": f"t{number}",
            "prompt": f"prompt {number}",
            "stop_hook_active": False,
        }
        verdict = await engine.fire(parse(about))
        assert verdict.failed_open == 0, verdict.warnings


def grows(project: Project, warm_up: int, events: int) -> None:
    project.write(USER, "hooks:\n  no-rm: {events: PreToolUse, if: Bash(rm *), deny: never}\n")
    asyncio.run(fire(project, range(warm_up)))
    before = resident(), open_descriptors(), threading.active_count()
    asyncio.run(fire(project, range(warm_up, warm_up + events)))
    assert open_descriptors() <= before[1] and threading.active_count() == before[2]
    assert resident() - before[0] < 8 << 20
    found = verify(log_folder(project.root, str(project.folder)), project.root)
    assert (found.records - found.notes, list(found.findings)) == (warm_up + events, [])


@LINUX
def test_thousands_of_events(project: Project) -> None:
    """Memory, descriptors and threads stay as they were after the first thousand; every record is there."""
    grows(project, 1_000, 2_000)


@LINUX
@pytest.mark.slow
def test_a_hundred_thousand_events(project: Project) -> None:
    """The same for a hundred thousand."""
    grows(project, 5_000, 95_000)


@LINUX
def test_many_engines_share_what_they_open(project: Project) -> None:
    """An engine for each event does not need a descriptor each."""
    asyncio.run(fire(project, range(4)))
    before = open_descriptors()
    for number in range(50):
        asyncio.run(fire(project, range(number, number + 1)))
    assert open_descriptors() <= before + 1
