"""Rules that PermissionRequest hooks add for a session (`updatedPermissions`), and what they are offered."""

import os
from collections.abc import Mapping
from typing import Any, Final

from billhook import tools
from billhook.answers import Decision
from billhook.errors import RuleError
from billhook.rules import Rule, covers
from billhook.session.permission import MODES, Ruling

_UPDATES: Final = ("addRules", "replaceRules", "removeRules")
_PATTERN: Final = frozenset("*?[]{}()\\:!\n")  # characters that make a rule about more than the one call


class GrantedRules:
    """The rules that hooks added, for this session and its subagents only: no file is written."""

    def __init__(self) -> None:
        self._rules: dict[str, list[Rule]] = {"allow": [], "ask": [], "deny": []}

    def update(self, updates: Any) -> str:
        """Apply `updatedPermissions`, all or nothing; returns the new mode, or nothing. Raises RuleError."""
        rules = {behavior: list(some) for behavior, some in self._rules.items()}
        mode = ""
        for one in updates if isinstance(updates, list) else [updates]:
            if not isinstance(one, Mapping):
                raise RuleError("an entry of `updatedPermissions` is not an object")
            if one.get("type") == "setMode":
                mode = str(one.get("mode"))
                if mode not in MODES:
                    raise RuleError(f"`updatedPermissions` sets an unknown mode `{mode}`")
            else:
                _change(rules, one)
        self._rules = rules
        return mode

    def applied(self, ruling: Ruling, name: str, tool_input: dict[str, Any], cwd: str) -> Ruling:
        """A ruling with these rules beside it. An allow rule never overrides other rules, or a hook that asks."""
        for rule in self._rules["deny"]:
            if rule.strikes(name, tool_input, cwd):
                return Ruling(Decision.DENY, f"denied by `{rule}`, a rule that a hook added", _BY)
        for rule in self._rules["ask"]:
            if ruling.decision is Decision.ALLOW and rule.strikes(name, tool_input, cwd):
                return Ruling(
                    Decision.ASK, f"{name} needs permission: `{rule}`, a rule that a hook added", _BY, firm=True
                )
        may_allow = self._rules["allow"] and ruling.decision is Decision.ASK and not ruling.firm
        if may_allow and covers(self._rules["allow"], name, tool_input, cwd):
            return Ruling(Decision.ALLOW, by=_BY)
        return ruling


_BY: Final = "a hook, for this session"


def suggestions(name: str, tool_input: dict[str, Any], cwd: str) -> list[dict[str, Any]]:
    """What a hook may answer with so that this very call is not asked about again; nothing where no rule says that."""
    command, path = tools.command_of(name, tool_input), tools.path_of(name, tool_input)
    content = command if command is not None else path and "/" + os.path.join(cwd, path)
    if content is not None and (not content.strip() or _PATTERN & set(content)):
        return []
    rule = {"toolName": name, **({"ruleContent": content} if content else {})}
    return [{"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}]


def _change(rules: dict[str, list[Rule]], one: Mapping[str, Any]) -> None:
    kind, behavior, listed = one.get("type"), one.get("behavior"), one.get("rules")
    if kind not in _UPDATES or behavior not in rules or not isinstance(listed, list):
        raise RuleError(f"`updatedPermissions` of type `{kind}` can't be acted on here")
    meant = [_rule(each) for each in listed]
    kept = [] if kind == "replaceRules" else [rule for rule in rules[str(behavior)] if rule not in meant]
    rules[str(behavior)] = kept if kind == "removeRules" else kept + meant


def _rule(given: Any) -> Rule:
    if not isinstance(given, Mapping) or not isinstance(given.get("toolName"), str):
        raise RuleError("a rule of `updatedPermissions` names no tool")
    content = given.get("ruleContent")
    return Rule.parse(f"{given['toolName']}({content})" if content else given["toolName"])
