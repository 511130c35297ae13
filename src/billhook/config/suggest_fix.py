"""Why a matcher, rule or effect does not match an event, and an edit of the hook that would make it match.

An edit is proposed only if it can't weaken a hook: the hook runs for the event, still runs for everything that it ran
for, and nothing else about it changes. A hook with a fixed answer is corrected where it has a slip, and never made to
answer for other calls. A hook that allows is never widened. Without a safe edit there is no proposal.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from billhook.config.build import absence
from billhook.config.declaration import Declared, Exec, Mask, Python, RunAction, Say, Url
from billhook.config.lint import edit, listed
from billhook.config.lint.matchers import TOOLS, VALUES, corrected_rule, lint_match, other_spelling, with_rule
from billhook.core import tools
from billhook.core.dialect_traits import Meanings, meanings
from billhook.core.errors import RuleError
from billhook.core.events import Event
from billhook.core.match import compile_matcher
from billhook.core.text import Finding, counted
from billhook.effects import shell
from billhook.effects.conditions import cell_of
from billhook.effects.rules import Rule
from billhook.engine.plan import Plan

_NAME_LIST: Final = re.compile(r"[A-Za-z0-9_\- ,|]*")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_RULE: Final = re.compile(r"\s*([A-Za-z_]\w*)\(.+\)\s*")
_SLIPS: Final = frozenset({"BH301", "BH302", "BH303"})
_LISTS: Final = ("wildcard", "claude")  # ways of matching that read `a|b` as two names
_SHOWN: Final = 3  # commands or effects of one call that are named


class Proposal(msgspec.Struct, frozen=True):
    """One edit of a hook."""

    fix: str  # for the user: "write `match: Bash`"
    fields: Mapping[str, Any]  # what it changes: fields of `Declared`, or `rules`
    corrects: bool = False  # it corrects a slip; else it adds calls that the hook was not for


def is_safe(hook: Declared, proposals: Sequence[Proposal], event: Event) -> bool:
    """Whether these edits together make the hook run for the event, and take nothing away from it."""
    if not _may_widen(hook) and not all(one.corrects for one in proposals):
        return False
    if isinstance(hook.action, Say) and hook.action.decision == "allow":
        return False
    edited = _edited(hook, proposals)
    return _runs_for(edited, event) and _matches_as_before(hook, edited)


def _may_widen(hook: Declared) -> bool:
    """Whether more calls are harmless: the hook looks at each one itself, or only informs."""
    if isinstance(hook.action, Say):
        return hook.action.decision in ("inject", "notify")
    return isinstance(hook.action, RunAction | Exec | Python | Url | Mask)


def _edited(hook: Declared, proposals: Sequence[Proposal]) -> Declared:
    fields: dict[str, Any] = {}
    for one in proposals:
        fields |= one.fields
    if "rules" in fields:
        fields["conditions"] = replace(hook.conditions, rules=fields.pop("rules"))
    return replace(hook, **fields)


def _runs_for(hook: Declared, event: Event) -> bool:
    """Whether matcher and rules are true of the event; tried out, because a pattern may mean something else."""
    plan = Plan([absence(replace(hook, after=(), timeout=None), "")])
    given, cwd = getattr(event, "tool_input", None), event.cwd or None
    name, rules = tools.canonical(getattr(event, "tool_name", "")), hook.conditions.rules
    struck = not rules or any(Rule.parse(text).strikes(name, given, cwd) for text in rules)
    return struck and bool(plan.steps(event))


def _matches_as_before(hook: Declared, edited: Declared) -> bool:
    """Whether the new matcher matches every known name that the old one matched."""
    row = meanings(hook.dialect)
    for event in hook.events or ("PreToolUse",):
        before, after = (compile_matcher(one.match, row.matching, event) for one in (hook, edited))
        names = VALUES.get(event, "").split() or [name for tool in TOOLS for name in (tool, _called(tool, row))]
        if any(before.matches(name) and not after.matches(name) for name in names):
            return False
    return True


def _called(tool: str, row: Meanings) -> str:
    return tools.called(tool, row.naming) if row.naming != "canonical" else tool


def other_event(hook: Declared, name: str) -> Proposal | None:
    """The edit that adds an event; none for a hook of one agent's part of an event, which has exactly one."""
    if hook.part:
        return None
    fix = f'add it under `"{name}"`, too'
    if hook.shape == "yaml":
        fix = f"write `events: [{', '.join((*hook.events, name))}]`"
    return Proposal(fix, {"events": (*hook.events, name)})


# -- matchers


def match_reason(hook: Declared, pattern: str, row: Meanings, event: Event) -> tuple[str, Proposal | None]:
    """Why a matcher does not match an event, and the edit that makes it match."""
    target, field = event.target or "", event.match_field or ""
    if not target:
        return f"`match: {pattern}` is compared with `{field}`, which this event does not have", None
    names = _names_of(target, field, row)
    why = f"`match: {pattern}` does not match {' or '.join(f'`{name}`' for name in names)}"
    slip = _slip(hook) if pattern == hook.match else None
    if slip is not None and (found := _correction(hook, slip, event)):
        return slip.message, found
    if found := _other_case(hook, pattern, row, event, names):
        return f"{why}: `{row.name}` is case-sensitive", found
    # A slip elsewhere in the pattern is corrected by the way.
    return why, _wider(hook, (slip.edit if slip is not None else "") or pattern, row, names)


def _names_of(target: str, field: str, row: Meanings) -> list[str]:
    if field != "tool_name":
        return [target]
    canonical = tools.canonical(target)
    called = [tools.called(canonical, row.naming)] if row.naming != "canonical" else []
    return list(dict.fromkeys([target, canonical, *called]))


def _slip(hook: Declared) -> Finding | None:
    place = hook.places.get("match")
    return next((one for one in lint_match(hook) if one.code in _SLIPS and (one.line, one.column) == place), None)


def _correction(hook: Declared, slip: Finding, event: Event) -> Proposal | None:
    """The edit of a slip, where it makes the hook match this event."""
    rule, proposal = _RULE.fullmatch(hook.match or ""), None
    if slip.edit:
        proposal = Proposal(f"write `{edit(hook, 'match', slip.edit)}`", {"match": slip.edit}, corrects=True)
    elif rule and not hook.conditions.rules:
        tool, text = tools.canonical(rule[1]), (hook.match or "").strip()
        fix = f"write `{edit(hook, 'match', tool)}` and `{edit(hook, 'rules', text)}`"
        proposal = Proposal(fix, {"match": tool, "rules": (text,)}, corrects=True)
    return proposal if proposal is not None and _runs_for(_edited(hook, [proposal]), event) else None


def _other_case(hook: Declared, pattern: str, row: Meanings, event: Event, names: list[str]) -> Proposal | None:
    lower = compile_matcher(pattern.lower(), row.matching, event.hook_event_name)
    if not _NAME_LIST.fullmatch(pattern) or not lower.matches(*(name.lower() for name in names)):
        return None
    fixed = pattern
    for name in names:
        fixed = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", name, fixed, flags=re.I)
    return Proposal(f"write `{edit(hook, 'match', fixed)}`", {"match": fixed}, corrects=True)


def _wider(hook: Declared, pattern: str, row: Meanings, names: list[str]) -> Proposal | None:
    name = names[-1] if row.naming != "canonical" else tools.canonical(names[0])
    if row.matching not in _LISTS or not _NAME.fullmatch(name) or name in re.split(r"[|,\s]+", pattern):
        return None
    plain = row.matching == "wildcard" or _NAME_LIST.fullmatch(pattern)
    wider = f"{pattern}|{name}" if plain else f"({pattern})|^{name}$"
    return Proposal(f"write `{edit(hook, 'match', wider)}`", {"match": wider})


# -- rules and effects


def rule_reason(hook: Declared, event: Event) -> tuple[str, Proposal | None]:
    """Why no rule of `if` matches an event, and a corrected rule that does."""
    name, rules = tools.canonical(getattr(event, "tool_name", "")), hook.conditions.rules
    why = _rule_why(rules[0], event) if len(rules) == 1 else _rules_why(rules, name, event)
    command = tools.command_of(name, getattr(event, "tool_input", None)) or ""
    for text in rules:
        if tool_fixed := corrected_rule(text):
            return why, _with_rule(hook, text, tool_fixed, "")
        if wider := other_spelling(text, command):
            return why, _with_rule(hook, text, wider, ", which also matches the other spellings")
    return why, None


def _with_rule(hook: Declared, old: str, new: str, comment: str) -> Proposal:
    value = with_rule(hook, old, new)
    rules = (value,) if isinstance(value, str) else tuple(value)
    return Proposal(f"write `{edit(hook, 'rules', value)}`{comment}", {"rules": rules}, corrects=True)


def _rules_why(rules: Sequence[str], name: str, event: Event) -> str:
    compared = _compared(name, event) if name else f"{event.hook_event_name}, which has no tool"
    return f"no rule of `if` matches {compared}: {', '.join(f'`{text}`' for text in rules)}"


def _rule_why(text: str, event: Event) -> str:
    tool = getattr(event, "tool_name", "")
    if not tool:
        return f"`if: {text}` is a rule for tool calls, and {event.hook_event_name} has no tool"
    name = tools.canonical(tool)
    try:
        rule = Rule.parse(text)
    except RuleError as error:
        return f"`if: {text}`: {error.message}"
    if not rule.names(name):
        return f"`if: {text}` is for `{rule.tool}`, and this is `{name}`"
    return f"`if: {text}` does not match {_compared(name, event)}"


def _compared(name: str, event: Event) -> str:
    """What a rule is compared with, for the user."""
    given = getattr(event, "tool_input", None)
    command = tools.command_of(name, given)
    if command is not None:
        texts = list(dict.fromkeys(found.text for found in shell.parse(command).commands if found.words))
        more = f" and {len(texts) - _SHOWN} more commands" if len(texts) > _SHOWN else ""
        return listed(texts[:_SHOWN]) + more if texts else "an empty command"
    paths = tools.paths_of(name, given)
    return listed(list(paths)) if paths else "this input"


def effect_reason(wanted: Sequence[str], event: Event) -> str:
    """Why a call has none of the effects of `effect`."""
    named = f"`effect: {', '.join(wanted)}`"
    if not getattr(event, "tool_name", ""):
        return f"{named} is for tool calls, and {event.hook_event_name} has no tool"
    cells = list(dict.fromkeys(map(cell_of, getattr(event, "effects", ()))))
    if not cells:
        return f"{named}: this call has no known effect"
    more = f" and {counted(len(cells) - _SHOWN, 'more effect')}" if len(cells) > _SHOWN else ""
    return f"{named}: this call has other effects: {listed(cells[:_SHOWN])}{more}"
