"""What would make a hook want an event: the condition that failed, put in words, and the edit that changes it."""

import re
from collections.abc import Iterator

from billhook import shell, tools
from billhook.config.declared import Declared
from billhook.config.findings import Finding
from billhook.config.lint.found import edit, listed
from billhook.config.lint.match import lint_match
from billhook.config.lint.rule import lint_rules
from billhook.errors import RuleError
from billhook.events import Event
from billhook.match import compile_matcher
from billhook.meanings import Meanings
from billhook.rules import Rule

_PLAIN = re.compile(r"[A-Za-z0-9_\- ,|]*")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_NEVER = frozenset({"BH301", "BH302", "BH303"})
_SHOWN = 3  # commands of one line that are named


def event_fix(hook: Declared, event: str) -> str:
    """How a hook comes to want another event, too."""
    if hook.shape == "yaml":
        return f"write `events: [{', '.join((*hook.events, event))}]`"
    return f'put it below `"{event}"`, too'


def match_reason(hook: Declared | None, pattern: str, row: Meanings, event: Event) -> tuple[str, str]:
    """Why a matcher does not match what an event is about, and the edit that makes it."""
    target = event.target or ""
    field = event.match_field or ""
    if not target:
        return f"match `{pattern}` is compared with `{field}`, which is empty", f"give the event a `{field}`"
    names = _names(target, row, field)
    why = f"match `{pattern}` does not match {' or '.join(f'`{name}`' for name in names)}"
    if hook is None:
        return why, ""
    slip = _slip(hook, "match") if pattern == hook.match else None
    # a list may have a slip elsewhere: the edit has to make it match this very event
    if slip is not None and (not slip.edit or _matches(slip.edit, row, event, names)):
        return slip.message, f"write `{slip.hint}`" if slip.edit else slip.hint
    if _PLAIN.fullmatch(pattern) and _matches(pattern.lower(), row, event, [name.lower() for name in names]):
        mended = pattern
        for name in names:
            mended = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", name, mended, flags=re.I)
        return f"{why}: under `{row.name}` case counts", f"write `{edit(hook, 'match', mended)}`"
    # What is wrong about it elsewhere is mended by the way.
    return why, _wider(hook, (slip.edit if slip is not None else "") or pattern, row, names)


def _slip(hook: Declared, field: str) -> Finding | None:
    place = hook.places.get(field)
    return next((one for one in lint_match(hook) if one.code in _NEVER and (one.line, one.column) == place), None)


def _matches(pattern: str, row: Meanings, event: Event, names: list[str]) -> bool:
    return compile_matcher(pattern, row.matching, event.hook_event_name).matches(*names)


def _names(target: str, row: Meanings, field: str) -> list[str]:
    if field != "tool_name":
        return [target]
    canonical = tools.canonical(target)
    names = [target, canonical, *([tools.called(canonical, row.naming)] if row.naming != "canonical" else [])]
    return list(dict.fromkeys(names))


def _wider(hook: Declared, pattern: str, row: Meanings, names: list[str]) -> str:
    name = names[-1] if row.naming != "canonical" else tools.canonical(names[0])
    apart = f"write another hook for `{name}`, or leave the matcher out"
    if not _NAME.fullmatch(name):
        return "leave the matcher out"
    if row.matching == "wildcard" or (row.matching == "claude" and _PLAIN.fullmatch(pattern)):
        return f"write `{edit(hook, 'match', f'{pattern}|{name}')}`"
    if row.matching == "claude":
        return f"write `{edit(hook, 'match', f'({pattern})|^{name}$')}`"
    return apart


def rule_reason(hook: Declared | None, text: str, event: Event) -> tuple[str, str]:
    """Why the rule of `if` does not strike an event, and a rule that would."""
    tool = getattr(event, "tool_name", "")
    if not tool:
        why = f"`if` is a rule about a tool call, and {event.hook_event_name} has none"
        return why, f"remove `{edit(hook, 'when', text)}`" if hook is not None else ""
    name = tools.canonical(tool)
    try:
        rule = Rule.parse(text)
    except RuleError as error:
        return f"if `{text}`: {error.message}", error.hint
    if not rule.names(name):
        why = f"if `{text}` is about `{rule.tool}`, and this is `{name}`"
        return why, _other_tool(hook, rule, name)
    why = f"if `{text}` does not match {_compared(name, event)}"
    return why, _other_rule(hook, text, name, event)


def _other_tool(hook: Declared | None, rule: Rule, name: str) -> str:
    if hook is None:
        return ""
    slip = _slip(hook, "when")
    if slip is not None and slip.edit and Rule.parse(slip.edit).names(name):
        return f"write `{slip.hint}`"
    return f"write `{edit(hook, 'when', name)}`, which matches every `{name}`"


def _compared(name: str, event: Event) -> str:
    given = getattr(event, "tool_input", None)
    command = tools.command_of(name, given)
    if command is not None:
        texts = list(dict.fromkeys(found.text for found in shell.parse(command).commands if found.words))
        more = f" and {len(texts) - _SHOWN} more commands" if len(texts) > _SHOWN else ""
        return listed(texts[:_SHOWN]) + more if texts else "an empty command"
    paths = tools.paths_of(name, given)
    return listed(list(paths)) if paths else "this input"


def _other_rule(hook: Declared | None, text: str, name: str, event: Event) -> str:
    """A rule that matches, as near to the old one as there is: found by trying."""
    if hook is None:
        return ""
    given, cwd = getattr(event, "tool_input", None), event.cwd or None
    for finding in lint_rules([hook]):
        if Rule.parse(finding.edit).strikes(name, given, cwd):
            return f"write `{edit(hook, 'when', finding.edit)}`, which sees the other spellings, too"
    for candidate in _candidates(name, event):
        try:
            if Rule.parse(candidate).strikes(name, given, cwd):
                return f"write `{edit(hook, 'when', candidate)}`"
        except RuleError:
            continue
    return ""


def _candidates(name: str, event: Event) -> Iterator[str]:
    given = getattr(event, "tool_input", None)
    command = tools.command_of(name, given)
    if command is not None:
        for found in shell.parse(command).commands:
            words = [word for word in found.words[:2] if _NAME.fullmatch(word) and not word.startswith("-")]
            if words:
                yield f"{name}({' '.join(words)} *)"
    for path in tools.paths_of(name, given):
        yield f"{name}({path})"
    yield name
