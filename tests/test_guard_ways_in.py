"""The guard is on for every way into billhook, without a line of configuration."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adapters.driving import DRIVES, bash
from agent_loop.running import DONE, Project
from agent_loop.running import bash as shell_call
from billhook import PreToolUse, Session, adapters, load
from billhook.adapters.claude_agent_sdk import hooks
from daemon.http_serving import serving
from daemon.running import PROGRAM, Home, home_in

ADVICE = "Delete only what you made"


class EffectVerdict(msgspec.Struct, frozen=True):
    """Whether a call was allowed, and the text for the caller or the model."""

    passed: bool
    told: str = ""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home without any configuration, which is this process's own as well: nothing else is at risk."""
    with home_in(tmp_path) as made:
        (made.project / ".git").mkdir()
        (made.project / "build").mkdir()
        monkeypatch.setenv("HOME", str(made.home))
        monkeypatch.setenv("BILLHOOK_HOME", str(made.root))
        monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
        monkeypatch.chdir(made.project)
        yield made


def _call(home: Home, command: str) -> dict[str, Any]:
    return home.event(tool_input={"command": command})


def _answered(output: str | bytes) -> EffectVerdict:
    """An answer in the words of Claude Code; nothing at all lets the call through."""
    said = json.loads(output or "{}").get("hookSpecificOutput", {})
    return EffectVerdict(said.get("permissionDecision") is None, said.get("permissionDecisionReason", ""))


def engine(home: Home, command: str) -> EffectVerdict:
    """`load().fire(...)`."""
    event = PreToolUse(cwd=str(home.project), tool_name="Bash", tool_input={"command": command})
    verdict = asyncio.run(load().fire(event))
    return EffectVerdict(not verdict.denied, verdict.reason)


def session(home: Home, command: str) -> EffectVerdict:
    """`Session(load())` around a loop of one's own."""
    ran: list[str] = []

    async def run(given: Any) -> str:
        ran.append(given["command"])
        return "done"

    async def main() -> Any:
        async with Session(load()) as one:
            await one.prompt("go")
            return await one.call_tool("Bash", {"command": command}, run)

    result = asyncio.run(main())
    assert result.is_error == (not ran)
    return EffectVerdict(ran == [command], str(result.content))


def claude_agent_sdk(home: Home, command: str) -> EffectVerdict:
    """`hooks()`, called as the SDK calls it."""
    callback: Any = hooks()["PreToolUse"][0].hooks[0]
    answer = asyncio.run(callback(_call(home, command), "t1", {"signal": None}))
    return _answered(json.dumps(answer))


def framework(name: str) -> Callable[[Home, str], EffectVerdict]:
    def judged(home: Home, command: str) -> EffectVerdict:
        seen = DRIVES[name](load(), bash(command))
        return EffectVerdict(seen.ran == [command], str(seen.results[0][0]))

    return judged


def agent_loop(home: Home, command: str) -> EffectVerdict:
    """`billhook agent`, in the mode without questions."""
    project = Project(home.project.parent / "loop")
    (project.folder / "build").mkdir()
    (result,) = project.run([shell_call(command), DONE]).results
    return EffectVerdict(not result.is_error, str(result.content))


def http(home: Home, command: str) -> EffectVerdict:
    """`POST /hook/claude`."""
    with serving(home.project.parent) as server, server.client() as client:
        return _answered(client.post("/hook/claude", json=_call(home, command)).content)


def http_fire(home: Home, command: str) -> EffectVerdict:
    """`POST /fire`, with a verdict in billhook's own words."""
    with serving(home.project.parent) as server, server.client() as client:
        verdict = client.post("/fire", json=_call(home, command)).json()
    return EffectVerdict(verdict["decision"] != "deny", str(verdict.get("reason")))


def daemon(home: Home, command: str) -> EffectVerdict:
    """The daemon, over its socket."""
    home.start()
    return _answered(home.ask(_call(home, command)).stdout)


def cold(home: Home, command: str) -> EffectVerdict:
    """`billhook hook`, with no daemon running."""
    done = subprocess.run(
        [*PROGRAM, "hook", "--as", "claude"],
        input=json.dumps(_call(home, command)), env=home.env(), cwd=home.project, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    return _answered(done.stdout)


WAYS: dict[str, Callable[[Home, str], EffectVerdict]] = {
    "engine": engine,
    "session": session,
    "claude_agent_sdk": claude_agent_sdk,
    **{name: framework(name) for name in DRIVES},
    "agent loop": agent_loop,
    "http": http,
    "http, fire": http_fire,
    "daemon": daemon,
    "cold": cold,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_cannot_be_undone_is_denied(way: Callable[[Home, str], EffectVerdict], home: Home) -> None:
    """The home folder stays, and the model reads what to do instead."""
    judged = way(home, "rm -rf ~")
    assert not judged.passed and ADVICE in judged.told, judged
    assert home.home.exists()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_ordinary_work_passes(way: Callable[[Home, str], EffectVerdict], home: Home) -> None:
    """A folder that a build makes again can go."""
    judged = way(home, "rm -rf build/")
    assert judged.passed and ADVICE not in judged.told, judged


def test_every_adapter_is_tried() -> None:
    """A new adapter gets a row above."""
    modules = {path.stem for path in Path(*adapters.__path__).glob("[a-z]*.py")}
    assert modules - {"runs"} <= {way.partition(",")[0].partition(" ")[0] for way in WAYS}
