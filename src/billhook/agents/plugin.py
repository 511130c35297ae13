"""Shared by the agents that run no commands as hooks: `install` writes a plugin that does, and refuses when they fail.

The plugin of an agent is plugin.js, which runs the entries, and the agent's own file, which connects its events. All of
them send events with Claude Code's names of fields, and read Claude Code's `hookSpecificOutput`.
"""

import json
from typing import Any

from msgspec import UNSET

from billhook.agents.base import Agent
from billhook.agents.codec import AgentDialect, Payload, block, kinds
from billhook.agents.formats import InProgram, source
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Event


class PluginDialect(AgentDialect):
    specific = kinds(
        "hookEventName permissionDecision permissionDecisionReason additionalContext updatedToolOutput",
        objects="updatedInput",
    )
    context_in_output = True

    def decide(self, event: Event, answer: Answer) -> tuple[Payload, Payload]:
        if answer.updated_output is not UNSET:
            return {}, {"updatedToolOutput": answer.updated_output}
        if answer.decision is Decision.DENY or answer.keep_going:
            return block(answer.reason), {}
        asked = {"permissionDecision": "ask", "permissionDecisionReason": answer.reason}
        inside: Payload = asked if answer.decision is Decision.ASK else {}
        if answer.updated_input is not None:
            inside["updatedInput"] = self.sent_input(event, answer.updated_input)
        return {}, inside

    def read_decision(self, event: Event, fields: Payload, inside: Payload) -> Payload:
        said = super().read_decision(event, fields, inside)
        if "updatedInput" in inside:
            said["updated_input"] = self.canonical(event, inside["updatedInput"])
        return said | ({"updated_output": inside["updatedToolOutput"]} if "updatedToolOutput" in inside else {})


class Plugin(InProgram):
    """Settings in one line of a plugin, which is a file of at most 60 lines; the program is beside this module."""

    begin, end = "const settings = ", "\nconst run = "

    def __init__(self, name: str, title: str) -> None:
        self.name, self.title = name, title

    def write(self, settings: str, text: str) -> str:
        common = self.filled("plugin.js", _in_one_line(settings))
        return common.replace("AGENT", self.title, 1).replace("NAME", self.name, 1) + source(f"{self.name}.js")


def _in_one_line(settings: str) -> str:
    hooks = json.loads(settings).get("hooks", {}) if settings.strip() else {}
    return json.dumps({"hooks": hooks}, ensure_ascii=False) if hooks else "{}"


def agent(name: str, title: str, **fields: Any) -> Agent:
    """The record of an agent with a plugin."""
    return Agent(
        name=name,
        title=title,
        meanings=Meanings(name=name, naming=name, join="\n\n", timeout=60.0),
        own_file=True,
        format=Plugin(name, title),
        shape="flat",
        typed=False,
        fail_closed=("failClosed", True),
        **fields,
    )
