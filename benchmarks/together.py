"""Goal 30: ten scripts that an agent would start at the same time, through billhook and its daemon.

The scripts are in the settings of Claude Code and unchanged: Python programs that read the event and don't object. The
peer is their plain start, all at once, without a shell, until the last one ends.
"""

import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec

from harness import PROCESSES, Bar, Goal, Trial, looped
from warm import CLIENT, daemon, process, project

HOOKS = 10
_SCRIPT = """\
import json
import re
import sys

event = json.load(sys.stdin)
if re.search(r"\\brm\\s+-rf\\b", event["tool_input"].get("command", "")):
    print("no", file=sys.stderr)
    sys.exit(2)
"""


async def ten_scripts() -> AsyncGenerator[Trial, None]:
    """Goal 30: through the client, against the same ten started by hand."""
    with project() as (base, env):
        scripts = [base / f"guard{number}.py" for number in range(HOOKS)]
        for script in scripts:
            script.write_text(_SCRIPT)
        _configure(base, scripts)
        with daemon(env):
            cases = {
                "billhook-hook": process(base, env)([CLIENT, "--as", "claude"]),
                "the same started together": looped(_start_all, (scripts, str(base / "event.json"), env)),
                "the same one after the other": looped(_start_each, (scripts, str(base / "event.json"), env)),
            }
            bars = [
                Bar("billhook-hook", "the same started together", 1 / 3),
                Bar("billhook-hook", "the same one after the other"),
            ]
            yield Trial("ten Python scripts", cases, bars, PROCESSES // 4)


def _configure(base: Path, scripts: list[Path]) -> None:
    """The user's settings of Claude Code, without billhook: then billhook runs their hooks."""
    handlers = [{"type": "command", "command": f"{sys.executable} {script}"} for script in scripts]
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": handlers}]}}
    (base / ".claude").mkdir()
    (base / ".claude" / "settings.json").write_bytes(msgspec.json.encode(settings))


_Started = tuple[list[Path], str, dict[str, str]]


def _start_all(what: _Started) -> None:
    scripts, event, env = what
    for pid in [_start(script, event, env) for script in scripts]:
        _end(pid)


def _start_each(what: _Started) -> None:
    scripts, event, env = what
    for script in scripts:
        _end(_start(script, event, env))


def _start(script: Path, event: str, env: dict[str, str]) -> int:
    stdin = (os.POSIX_SPAWN_OPEN, 0, event, os.O_RDONLY, 0)
    return os.posix_spawn(sys.executable, [sys.executable, str(script)], env, file_actions=[stdin])


def _end(pid: int) -> None:
    status = os.waitpid(pid, 0)[1]
    assert status == 0, f"a script ended with {status}"


GOALS = (Goal(30, "ten scripts of an agent's settings, daemon warm", ten_scripts),)
