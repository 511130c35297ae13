"""Agents that run no hooks: why, and what they have instead. From their documentation and sources, not measured."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

Patterns = Mapping[
    str, Mapping[str, Sequence[str]]
]  # by tool and by kind (`allow`, `ask`, `deny`): regular expressions


class HooklessAgent(NamedTuple):
    title: str
    why: str
    tools: Mapping[str, tuple[str, ...]] = {}
    """By billhook's name of a tool: the names for which its settings have rules by regular expression; empty: none."""

    @property
    def refusal(self) -> tuple[str, str]:
        """Why billhook can't be installed, in one sentence, and what is possible."""
        name = next(name for name, one in WITHOUT_HOOKS.items() if one is self)
        possible = (
            f"`billhook list --host {name}` prints those of your rules that {self.title} supports, as its settings"
        )
        return f"{self.title} can't call billhook: {self.why}", possible if self.tools else "use another agent"

    def settings(self, patterns: Patterns) -> str:
        """The rules as they are in its settings."""
        tools: dict[str, dict[str, Any]] = {}
        for tool, kinds in patterns.items():
            for name in self.tools[tool]:
                listed = {_KINDS[kind]: [{"pattern": one} for one in some] for kind, some in kinds.items()}
                tools[name] = {key: [*tools.get(name, {}).get(key, []), *some] for key, some in listed.items()}
        return json.dumps({"agent": {"tool_permissions": {"tools": tools}}}, indent=2, ensure_ascii=False)


_KINDS: Final = {"allow": "always_allow", "ask": "always_confirm", "deny": "always_deny"}
_FILES: Final = ("edit_file", "save_file", "delete_path", "move_path")

WITHOUT_HOOKS: Final[Mapping[str, HooklessAgent]] = {
    "continue": HooklessAgent("Continue", "its CLI reads a configuration of hooks, but never runs them"),
    "junie": HooklessAgent("Junie CLI", "it runs a hook when a session starts, and none before a tool"),
    "roo": HooklessAgent("Roo Code", "it has no hooks"),
    "zed": HooklessAgent(
        "Zed",
        "its agent has no hooks, only rules by regular expression",
        {"Bash": ("terminal",), "Edit": _FILES, "Write": _FILES, "WebFetch": ("fetch",)},
    ),
}
