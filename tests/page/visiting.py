"""What tests of the page share: a daemon with a project, a browser's requests, and a log of any length."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from billhook.agents.around import agent_around
from billhook.core import strictjson
from billhook.serve import control
from billhook.store.files import log_folder
from billhook.store.log.eventlog import CURRENT, make_line
from daemon.running import Home, eventually, home_in

HOOKS = """\
hooks:
  no-deploy: {events: PreToolUse, match: Bash, if: "Bash(deploy *)", deny: deployments need a person}
  notes: {events: PostToolUse, match: Bash, run: "true"}
"""


class Visitor:
    """A browser as far as HTTP is concerned."""

    def __init__(self, link: str) -> None:
        self.base, _, self.code = link.partition("/ui/#code=")
        self.port = int(self.base.rpartition(":")[2])
        limits = httpx.Limits(max_keepalive_connections=0)  # no connection is left open
        self.http = httpx.Client(base_url=self.base, timeout=60, trust_env=False, verify=False, limits=limits)
        self.own = {"origin": self.base}

    def login(self, code: str = "", **headers: str) -> httpx.Response:
        return self.http.post("/ui/login", json={"code": code or self.code}, headers={**self.own, **headers})

    def get(self, view: str, /, **query: Any) -> Any:
        """What a view gets."""
        response = self.http.get(f"/ui/api/{view}", params=query)
        assert response.status_code == 200, response.text
        return response.json()

    def answer(self, id_: str, allow: bool, **more: Any) -> httpx.Response:
        body = {"id": id_, "allow": allow, **more}
        return self.http.post("/ui/api/answer", json=body, headers=self.own)

    def news(self) -> Iterator[dict[str, Any]]:
        """The messages of the live stream."""
        with self.http.stream("GET", "/ui/api/live") as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))
                elif line == ": watching":
                    yield {}


def visitor(home: Home) -> Visitor:
    """A browser with a new link; not logged in."""
    if agent := agent_around():
        pytest.skip(f"the page is for people: this runs inside {agent}")
    return Visitor(control.page_link(home.root).url)


@contextmanager
def visited(base: Path, hooks: str = HOOKS) -> Iterator[tuple[Home, Visitor]]:
    """A daemon with hooks, and a browser that is logged in."""
    with home_in(base) as home:
        home.own(hooks)
        home.start()
        guest = visitor(home)
        assert guest.login().status_code == 200
        yield home, guest


def write_log(home: Home, many: int, **fields: Any) -> Path:
    """A log of the project with so many records, with a valid chain; every hundredth is a denial."""
    folder = log_folder(home.root, str(home.project))
    folder.mkdir(mode=0o700, parents=True)
    prev = ""
    with (folder / CURRENT).open("wb") as file:
        for number in range(1, many + 1):
            record = {**_record(home, number), **fields}
            line, prev = make_line(number, prev, strictjson.encode(record))
            file.write(line)
    (folder / CURRENT).chmod(0o600)
    return folder / CURRENT


def _record(home: Home, number: int) -> dict[str, Any]:
    denied = number % 100 == 0
    second = number // 10
    clock = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}.{number % 10 * 100_000:06}"
    outcome = {"hook": "guard", "source": "built-in", "decision": "deny" if denied else "none", "duration_ms": 0.2}
    return {
        "id": f"{number:032x}",
        "time": f"2026-01-{1 + second // 86400:02}T{clock}Z",
        "mono": float(number),
        "event": "PreToolUse",
        "session_id": f"session-{number % 7}",
        "turn_id": f"session-{number % 7}:{1 + number // 1000}",
        "tool": "Bash" if number % 3 else "Read",
        "cwd": str(home.project),
        "project": str(home.project),
        "host": "claude",
        "decision": "deny" if denied else "none",
        "reason": "not this one" if denied else None,
        "duration_ms": 0.5,
        "input": {"command": f"make step-{number}", "description": "x" * 400},
        "outcomes": [outcome],
    }


def await_events(guest: Visitor, home: Home, many: int) -> list[dict[str, Any]]:
    """The rows of the timeline, once there are so many."""

    def rows() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = guest.get("events", project=str(home.project))["rows"]
        return found if len(found) >= many else []

    found: list[dict[str, Any]] = eventually(rows)
    return found
