"""One hooks.yaml with a guard, a rewriter and an annotator, and the expected results of four commands everywhere.

Used by the tests of `billhook agent`, of the real agents and of the framework adapters. The tool is `Bash` with the
argument `command`, in the naming of each agent.
"""

from typing import Final

import msgspec

HOOKS: Final = """\
hooks:
  guard:
    events: PreToolUse
    if: Bash(touch forbidden*)
    deny: the guard denies forbidden files
    gate: true
  rewriter:
    events: PreToolUse
    if: Bash(touch first*)
    run: >-
      printf '%s' '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow",
      "updatedInput": {"command": "touch second"}}}'
  annotator:
    events: PostToolUse
    if: Bash(touch noted*)
    inject: the annotator has a word to add
"""
"""The user's file needs no approval."""


class Expected(msgspec.Struct, frozen=True):
    """`command`: the model's command; `runs`: the command that runs, empty if none; `told`: what the model reads."""

    name: str
    command: str
    runs: str
    told: str = ""

    @property
    def denied(self) -> bool:
        return not self.runs

    @property
    def rewritten(self) -> bool:
        return bool(self.runs) and self.runs != self.command


TABLE: Final = (
    Expected("allowed", "touch plain", "touch plain"),
    Expected("denied", "touch forbidden", "", "the guard denies forbidden files"),
    Expected("rewritten", "touch first", "touch second"),
    Expected("annotated", "touch noted", "touch noted", "the annotator has a word to add"),
)
FILES: Final = ("plain", "forbidden", "first", "second", "noted")
"""Every file that one of the commands could create."""
