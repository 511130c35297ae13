"""One hooks.yaml with a guard, a rewriter and an annotator, and what comes of four commands wherever hooks are asked.

Used by the tests of `billhook agent`, of the real agents and of the framework adapters. The tool is `Bash` with the one
argument `command`, in the words of whoever calls it.
"""

from typing import Final

import msgspec

HOOKS: Final = """\
hooks:
  guard:
    events: PreToolUse
    if: Bash(touch forbidden*)
    deny: the guard says no to forbidden files
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
"""As a user's own file it needs nobody's approval."""


class Expected(msgspec.Struct, frozen=True):
    """`command` is what the model asks for; `runs` what is run, empty when nothing may; `told` what the model reads."""

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
    Expected("denied", "touch forbidden", "", "the guard says no to forbidden files"),
    Expected("rewritten", "touch first", "touch second"),
    Expected("annotated", "touch noted", "touch noted", "the annotator has a word to add"),
)
FILES: Final = ("plain", "forbidden", "first", "second", "noted")
"""Every file that one of the commands could make."""
