"""One hooks.yaml of a user gives the same decisions in every framework, without a word about it in the program."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.claude_client import claude
from adapters.driving import DRIVES, Tools, bash
from billhook import Engine, load, load_config
from billhook.adapters.claude_agent_sdk import hooks
from clients.same import FILES, HOOKS, TABLE, Expected


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home with the file, and a project to work in."""
    folder = tmp_path / "home" / ".config" / "billhook"
    folder.mkdir(parents=True)
    (folder / "hooks.yaml").write_text(HOOKS)
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BILLHOOK_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(project)
    return tmp_path


class Shell(Tools):
    """A tool that really runs its command."""

    def bash(self, command: str) -> str:
        """Run a command."""
        super().bash(command)
        return subprocess.run(["/bin/sh", "-c", command], check=True, capture_output=True, text=True).stdout


def made(folder: Path) -> list[str]:
    return [name for name in FILES if (folder / name).exists()]


@pytest.mark.parametrize("expected", TABLE, ids=lambda one: one.name)
@pytest.mark.parametrize("framework", ["langchain", "langchain async", "openai_agents", "pydantic_ai"])
def test_the_same_decisions(home: Path, framework: str, expected: Expected) -> None:
    """The same command is run, or none, and the model reads the same words."""
    tools = Shell()
    seen = DRIVES[framework](load(), bash(expected.command), tools=tools)

    assert seen.reported == "done"
    assert tools.ran == ([expected.runs] if expected.runs else [])
    assert made(home / "project") == [one.removeprefix("touch ") for one in [expected.runs] if one]
    assert expected.told in (seen.results[0][0] if expected.denied else seen.told[-1])
    logged = [path.read_text() for path in (home / "state").rglob("*.jsonl")]
    assert sum(text.count('"PreToolUse"') for text in logged) >= 1  # and it is in the event log


def _langchain() -> Any:
    from billhook.adapters.langchain import HookMiddleware

    return HookMiddleware().engine


def _openai() -> Any:
    from billhook.adapters.openai_agents import Hooked

    return Hooked().engine


def _pydantic() -> Any:
    from billhook.adapters.pydantic_ai import HookCapability

    return HookCapability().engine


@pytest.mark.parametrize("made_by", [_langchain, _openai, _pydantic])
def test_without_hooks_those_that_are_configured(home: Path, made_by: Callable[[], Engine]) -> None:
    """An adapter that is given nothing has what `load()` has."""
    assert {"guard", "rewriter", "annotator"} <= {hook.name for hook in made_by().hooks}


def test_the_log_names_the_framework(home: Path) -> None:
    """The event log shows where a call came from."""
    from adapters.driving import langchain_agent
    from billhook.adapters.langchain import HookMiddleware

    agent = langchain_agent(bash("touch plain"), [], Shell(), [HookMiddleware()])
    agent.invoke({"messages": [("user", "go")]})

    logged = [line for path in (home / "state").rglob("*.jsonl") for line in path.read_text().splitlines()]
    hosts = {json.loads(line).get("host") for line in logged if '"PreToolUse"' in line}
    assert hosts == {"langchain"}


def test_what_claude_code_runs_itself_can_be_left_to_it(home: Path) -> None:
    """With `setting_sources` Claude Code reads its own settings files, as documented."""
    settings = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}}
    (home / "home" / ".claude").mkdir()
    (home / "home" / ".claude" / "settings.json").write_text(json.dumps(settings))

    all_of_them = {hook.source.file for hook in load().hooks}
    without = {hook.source.file for hook in load_config(host="claude").engine().hooks}
    assert {Path(file).name for file in all_of_them - without} == {"settings.json"}
    assert hooks(load_config(host="claude").engine())


@pytest.mark.slow
@pytest.mark.parametrize("expected", TABLE, ids=lambda one: one.name)
def test_the_same_decisions_in_the_claude_agent_sdk(home: Path, expected: Expected) -> None:
    """The same, by the Claude Code that the SDK starts."""
    (home / "run").mkdir()
    ran = claude(home / "run", hooks(), [expected.command])

    assert ran.reported == "all done"
    assert made(ran.folder) == [one.removeprefix("touch ") for one in [expected.runs] if one]
    assert not expected.told or ran.model_saw(expected.told)
