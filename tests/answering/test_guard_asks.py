"""What the guard asks of an agent that can't ask a person: a deny whose reason names the code that allows the call."""

import asyncio
import json
from typing import Any

import pytest

from answering.agents import Agent
from billhook.agents import AGENTS, DIALECTS, dialect_of
from billhook.core.answers import Answer, Decision, Exit
from billhook.core.client_env import Caller, Serving
from billhook.core.events import PreToolUse
from billhook.serve.engine_pool import EnginePool
from billhook.serve.hook_server import HookResponse
from billhook.serve.http.answer import HttpRequest, OverHttp

COMMAND = "git push --force origin feature"
RULE = f"add `Bash({COMMAND})` to `permissions: {{allow: [...]}}` in ~/.config/billhook/hooks.yaml"
EVERY = (*AGENTS, "universal", "claw", "claw-text", "lesson")


def call(agent: Agent) -> dict[str, Any]:
    tool = {"tool_name": "Bash", "tool_input": {"command": COMMAND}}
    return {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(agent.project), **tool}


def read(name: str, heard: HookResponse) -> Answer:
    event = PreToolUse(tool_name="Bash", tool_input={"command": COMMAND})
    ended = Exit(code=heard.code, stdout=heard.stdout, stderr=heard.stderr)
    return DIALECTS[dialect_of(name)].read_exit(event, ended).answer


def check(name: str, answer: Answer) -> None:
    """An ask stays as it is: the person who reads it decides. Dialects that are not an agent's name the rule."""
    assert answer.decision in (Decision.ASK, Decision.DENY)
    way = "The user can allow this call once: `billhook allow-once " if name in AGENTS else RULE
    assert (way in answer.reason) is (answer.decision is Decision.DENY), answer


@pytest.mark.parametrize("name", EVERY)
def test_as_a_command_hook(name: str, agent: Agent) -> None:
    check(name, read(name, agent.ask(call(agent), "--as", name)))


@pytest.mark.parametrize("name", EVERY)
def test_over_http(name: str, agent: Agent) -> None:
    with Serving(Caller(agent.env(), str(agent.project))):
        sent = HttpRequest(json.dumps(call(agent)).encode())
        heard = asyncio.run(OverHttp(EnginePool(), sent, (), dialect=name, host=f"http:{name}").answer([]))
    check(name, read(name, heard))


def test_the_rule_is_enough(agent: Agent) -> None:
    """What the reason names allows the call."""
    agent.hooks(f"permissions: {{allow: ['Bash({COMMAND})']}}")
    assert read("codex", agent.ask(call(agent), "--as", "codex")) == Answer()


def test_asks_of_others(agent: Agent) -> None:
    """No rule is named where it would not be enough."""
    agent.hooks("hooks: {q: {events: PreToolUse, ask: sure?}}")
    answer = read("codex", agent.ask(call(agent), "--as", "codex"))
    assert answer.decision is Decision.DENY and "To allow it" not in answer.reason
