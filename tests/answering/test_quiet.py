"""`suppressOutput`: hidden from the user where billhook shows things itself, passed on to agents that know it."""

import json
from pathlib import Path
from typing import Any

import pytest

from answering.agents import Agent, reported
from billhook.agent.ui_events import judged
from billhook.agents import dialect
from billhook.agents.base import CAPABILITIES
from billhook.config.declaration import HookDeclaration, RunAction
from billhook.config.lint.hooks import Host, limits
from billhook.core.answers import Answer, Outcome, fold
from billhook.core.events import parse
from cli.place import Place

EVENT: dict[str, Any] = {
    "hook_event_name": "PostToolUse",
    "session_id": "s",
    "transcript_path": "",
    "cwd": "",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "tool_response": {"stdout": "x"},
}
HOOK = """\
hooks:
  it:
    events: PostToolUse
    run: |
      printf '{"suppressOutput": true, "systemMessage": "hidden"}'
"""
KNOWS = {"claude", "gemini", "qwen"}


def outcome(name: str, **answer: Any) -> Outcome:
    return Outcome(name, answer=Answer(**answer))


def test_only_what_every_hook_hides_is_hidden() -> None:
    """A message of another hook is shown, without that of the quiet one."""
    quiet, loud = outcome("a", quiet=True, message="hidden"), outcome("b", message="shown")
    alone, both = fold(parse(EVENT), [quiet]), fold(parse(EVENT), [quiet, loud])
    assert (alone.quiet, alone.as_answer().quiet) == (True, True)
    assert (both.quiet, both.messages) == (False, ("shown",))


@pytest.mark.parametrize("host", CAPABILITIES)
def test_agents_that_know_it_are_told(host: str) -> None:
    """Others are not, and that is reported."""
    written = dialect(host).write_exit(parse(EVENT), Answer(quiet=True))
    told = json.loads(written.exit.stdout or b"{}")
    assert told == ({"suppressOutput": True} if host in KNOWS else {})
    assert bool(written.lost) == (host not in KNOWS)


def test_claude_code_is_told(agent: Agent) -> None:
    agent.hooks(HOOK)
    assert reported(agent.ask(EVENT)) == {"suppressOutput": True, "systemMessage": "hidden"}


@pytest.mark.parametrize("host", [host for host, events in CAPABILITIES.items() if "PostToolUse" in events])
def test_check_lists_it_where_it_is_lost(host: str) -> None:
    hook = HookDeclaration(name="it", events=("PostToolUse",), action=RunAction("echo '{\"suppressOutput\": true}'"))
    found = [limit for limit in limits(hook, Host(host, host, lambda event, wanted: wanted)) if "quiet" in limit.wants]
    assert bool(found) == (host not in KNOWS)
    assert all("its `suppressOutput` is lost" in limit.sentence for limit in found)


def test_fire_and_the_agent_hide_it(tmp_path: Path) -> None:
    """The decision is shown; the texts are not."""
    place = Place(tmp_path)
    place.own(HOOK)
    assert "hidden" not in place.run("fire", "PostToolUse", "--tool", "Bash").out.replace(HOOK, "").split("verdict")[1]
    shown = judged(fold(parse(EVENT), [outcome("a", quiet=True, message="hidden", context="for the model")]))
    assert shown.deeds == ()
