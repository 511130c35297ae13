"""A project with an event log, written by the real writer, with fixed times."""

import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from billhook.store.files import log_folder
from billhook.store.log.eventlog import open_log
from billhook.store.sessions import Sessions
from billhook.store.state import FileState
from cli.terminal import PROGRAM, Ended, billhook, environment, on_terminal

ONE, TWO = "7c9e6679-7425-40de-944b-e07fc1f90ae7", "7c9e0000-aaaa-40de-944b-000000000002"


class Recorded:
    """A home folder and a project with a log. Each record gets the next minute and id, unless they are given."""

    def __init__(self, base: Path, project: str = "shop") -> None:
        self.home = base
        self.project = base / project
        self.root = base / ".claude"
        (self.project / ".git").mkdir(parents=True)
        self.sessions = Sessions(FileState(self.root))
        self.number = 0

    @property
    def log(self) -> Path:
        return log_folder(self.root, str(self.project)) / "hooks.jsonl"

    def name(self, session_id: str, name: str) -> None:
        self.sessions.rename(session_id, name, str(self.project))

    def add(self, event: str, tool: str | None = None, given: Any = None, **more: Any) -> str:
        """Append a record; returns its id."""
        self.number += 1
        session = more.get("session_id", ONE)
        content = {
            "id": f"{self.number:06x}{'ab' * 13}",
            "time": f"2026-03-01T{21 + self.number // 60:02}:{self.number % 60:02}:00.000000Z",
            "mono": 100.0 + self.number,
            "event": event,
            "session_id": session,
            "session_name": "",
            "turn_id": f"{session}:1",
            "tool": tool,
            "tool_use_id": None,
            "cwd": str(self.project),
            "project": str(self.project),
            "host": "claude",
            "decision": "none",
            "reason": None,
            "duration_ms": 1.5,
            **({} if given is None else {"input": given}),
            **more,
        }
        open_log(self.root, str(self.project)).append(content)
        return str(content["id"])

    def environment(self, **changes: str | None) -> dict[str, str]:
        ours: dict[str, str | None] = dict.fromkeys(("XDG_CONFIG_HOME", "BILLHOOK_HOME", "CLAUDE_PROJECT_DIR"))
        return environment(**{**ours, "HOME": str(self.home), "TZ": "UTC", **changes})

    def run(self, *arguments: str, **changes: str | None) -> Ended:
        """Run `billhook events` in the project, with its output in a pipe."""
        return billhook("events", *arguments, env=self.environment(**changes), cwd=self.project)

    def screen(self, *arguments: str, **changes: str | None) -> str:
        """The screen, with a fixed name for the temporary folder."""
        return self.plain(self.run(*arguments, **changes).screen)

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        """One JSON object per line."""
        code, out = self.asked(*arguments)
        assert code == 0, out
        return [json.loads(line) for line in out.splitlines()]

    def asked(self, *arguments: str) -> tuple[int, bytes]:
        """Exit code and output. Runs in this process, because starting one for each query takes long."""
        from billhook.cli.events import verb

        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with self._standing_here(), redirect_stdout(out), redirect_stderr(io.StringIO()):
            code = verb.main(list(arguments), "events", standalone_mode=False)
        out.flush()
        return code, out.buffer.getvalue()

    @contextmanager
    def _standing_here(self) -> Iterator[None]:
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update(self.environment())
        time.tzset()
        try:
            with chdir(self.project):
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)
            time.tzset()

    def seqs(self, *arguments: str) -> list[int]:
        """The numbers of the records that are printed."""
        return [record["seq"] for record in self.lines(*arguments)]

    def complaint(self, *arguments: str) -> str:
        """The error message for an invalid command line."""
        ended = self.run(*arguments)
        assert (ended.code, ended.out) == (2, ""), ended
        return self.plain(ended.err)

    def plain(self, text: str) -> str:
        """The text with a fixed name for the temporary folder."""
        return text.replace(self.log.parent.name, "-home-me-shop").replace(str(self.home), "/home/me")

    def on_terminal(self, *arguments: str, **changes: str | None) -> Ended:
        """The same on a terminal of 100 columns."""
        env: dict[str, Any] = {**self.environment(), "COLUMNS": "100", **changes}
        ended = on_terminal("events", *arguments, cwd=self.project, **env)
        return ended._replace(out=self.plain(ended.out))

    def following(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """`billhook events --follow`, running."""
        return subprocess.Popen(
            [PROGRAM, "events", "--follow", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(),
            cwd=self.project,
        )


def interrupted(process: "subprocess.Popen[bytes]") -> tuple[int, bytes, bytes]:
    """Press Ctrl-C; returns what it printed after that."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def a_night(place: Recorded) -> None:
    """Records of a session with everything that the table shows differently."""
    place.name(ONE, "jolly-squid")
    place.add("SessionStart", given={"source": "startup"}, session_name="jolly-squid")
    place.add("UserPromptSubmit", given={"prompt": "Ship the release,\nplease"})
    place.add("PreToolUse", "Read", {"file_path": f"{place.project}/app.py"}, tool_use_id="t1")
    place.add("PostToolUse", "Read", {"file_path": f"{place.project}/app.py"}, tool_use_id="t1", output="print(1)")
    place.add(
        "PreToolUse", "Bash", {"command": "git push --force origin main"}, tool_use_id="t2", decision="deny",
        reason="no force pushes",
        outcomes=[
            {"hook": "turn-tracker", "duration_ms": 0.2, "data": {"turnId": f"{ONE}:1", "sequence": 1}},
            {"hook": "no-force", "decision": "deny", "reason": "no force pushes", "duration_ms": 12.5,
             "source": f"{place.project}/.billhook/hooks.yaml:8"},
        ],
        not_asked={"scan": "did not match"},
    )  # fmt: skip
    place.add(
        "PreToolUse", "Bash", {"command": "rm -rf build"}, tool_use_id="t3", failed_open=2, duration_ms=5012.25,
        outcomes=[
            {"hook": "guard", "status": "failed", "error": "exit code 1: jq: not found", "failed_open": True},
            {"hook": "slow", "status": "timed_out", "error": "no answer within 5 s", "failed_open": True},
        ],
    )  # fmt: skip
    place.add(
        "PostToolUseFailure", "Bash", {"command": "rm -rf build"}, tool_use_id="t3", output="Permission denied"
    )  # fmt: skip
    place.add("PreToolUse", "mcp__db__query", {"sql": "select 1"}, decision="ask", reason="a person decides")
    place.add("Stop", given={"stop_hook_active": False}, keep_going=True, reason="the tests did not run")
    place.add("SessionStart", given={"source": "startup"}, session_id=TWO, turn_id=f"{TWO}:1")
    place.add("PreToolUse", "Write", {"file_path": "notes/日本語.md"}, session_id=TWO, turn_id=f"{TWO}:3")
