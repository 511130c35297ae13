"""What would make a hook want an event: the condition that failed, put in words, and the edit that changes it."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from billhook.builtins.self_protection import SelfProtection
from billhook.config.build import absence
from billhook.config.builtin_hooks import Refusal
from billhook.config.config import Config, HookRow, rows
from billhook.config.declaration import Declared, Say
from billhook.config.host_hooks import adopting_command, of_claude_code
from billhook.config.lint.codes import edit, listed
from billhook.config.lint.matchers import lint_match
from billhook.config.lint.rules import lint_rules
from billhook.core import tools
from billhook.core.answers import NOTHING, Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.errors import RuleError
from billhook.core.events import Block, Event
from billhook.core.hook import Context, Hook
from billhook.core.match import compile_matcher
from billhook.core.text import Finding
from billhook.effects import shell
from billhook.effects.rules import Rule
from billhook.engine.plan import Plan
from billhook.engine.step import Step
from billhook.runners.command import Literally

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


# Why a hook would be asked about an event, or why not; found out without asking any.


Failed = Literal[
    "event", "off", "new", "changed", "broken", "not yet", "same", "elsewhere", "match", "source", "if", "background"
]
_STRICTNESS = {decision: place for place, decision in enumerate(Decision)}
_ON_FAILURE = {"deny": "denies it", "ask": "asks the person", "allow": "lets it pass"}


class Reason(msgspec.Struct, frozen=True):
    """One condition that keeps a hook from being asked, and what would change that."""

    condition: Failed
    why: str
    fix: str = ""


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """One hook and one event."""

    row: HookRow
    order: int | None = None  # its place among those that an engine would come to; None: it would not
    reasons: tuple[Reason, ...] = ()  # every condition that failed; none: it would be asked
    blocks: bool = False  # it is not asked, and what it would have judged is held up for that
    seconds: float | None = None  # its deadline
    default: bool = False  # the deadline is the dialect's own for this event
    failure: str = ""  # what happens if it fails; nothing when it can't
    says: Answer | None = None  # what it would answer, where that is known
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        return not self.reasons

    @property
    def silent(self) -> bool:
        """It never has a say in the verdict."""
        return has_no_say(self.row)

    @property
    def why(self) -> str:
        return "; ".join(reason.why for reason in self.reasons)

    @property
    def fix(self) -> str:
        return "; ".join(reason.fix for reason in self.reasons if reason.fix)


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said about the verdict beforehand."""

    decision: Decision  # the strictest answer that is known
    certain: bool  # nothing that a hook may answer changes the decision
    by: tuple[str, ...] = ()  # the hooks whose known answers make the decision
    open: tuple[str, ...] = ()  # the hooks whose answers are not known
    gates: tuple[str, ...] = ()  # those that hold the event up if they fail
    fail_open: tuple[str, ...] = ()  # those that let it pass if they fail


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """One event and every configured hook."""

    event: Event
    hooks: tuple[Explained, ...]  # those for this event: first those that an engine comes to, in that order
    others: tuple[Explained, ...]  # those for other events only
    outlook: Outlook
    parallel: bool = False


def has_no_say(row: HookRow) -> bool:
    """Whether it is a built-in that only keeps books: those that decide are gates."""
    return row.layer == "built-in" and row.on_failure == "allow"


def explain(config: Config, event: Event) -> Explanation:
    """What each configured hook would do about an event. Nothing is run, and nothing is asked on the network."""
    wanted: list[Explained] = []
    others: list[Explained] = []
    for row in rows(config):
        if row.wants(event.hook_event_name):
            wanted.append(_explained(row, event, config.problems))
        elif not row.switch:
            others.append(_for_other_events(row, event))
    wanted.sort(key=lambda one: not (one.runs or one.blocks))
    hooks = tuple(
        msgspec.structs.replace(one, order=place) if one.runs or one.blocks else one
        for place, one in enumerate(wanted, 1)
    )
    return Explanation(
        event=event, hooks=hooks, others=tuple(others), outlook=_outlook(hooks, event), parallel=config.parallel
    )


def _for_other_events(row: HookRow, event: Event) -> Explained:
    why = f"it wants {listed(list(row.events))}, not `{event.hook_event_name}`"
    fix = event_fix(row.declared, event.hook_event_name) if row.declared is not None else ""
    return Explained(row=row, reasons=(Reason("event", why, fix),))


def _explained(row: HookRow, event: Event, problems: Sequence[Finding]) -> Explained:
    looked = [(step, tuple(_conditions(row, step, event))) for step in _steps(row, event)]
    blocks = any(isinstance(step.run, Refusal) and not failed for step, failed in looked)
    if not looked:
        return Explained(row=row, reasons=tuple(_standing(row, problems)))
    step, failed = min(looked, key=lambda one: len(one[1]))
    reasons = (*_standing(row, problems), *failed)
    return Explained(
        row=row,
        reasons=reasons,
        blocks=blocks,
        seconds=step.timeout,
        default=step.hook.timeout is None,
        failure="" if isinstance(step.run, Literally) else _failure(step, event),
        says=_known_answer(row, step, event) if not reasons else None,
        notes=tuple(_notes(row, step)),
    )


def _steps(row: HookRow, event: Event) -> Iterator[Step]:
    """The hook as an engine's plan has it; one that no engine has, as it would have it."""
    hooks = row.hooks
    if not hooks and row.declared is not None:
        # What is broken about it may be its rule or its time: those would not become a hook.
        broken = {"when": "", "timeout": None} if row.declared.broken else {}
        hooks = (absence(msgspec.structs.replace(row.declared, **broken), ""),)
    for hook in hooks:
        yield from _alone(hook).list_for(event).all


def _alone(hook: Hook) -> Plan:
    return Plan([msgspec.structs.replace(hook, after=())])


def _standing(row: HookRow, problems: Sequence[Finding]) -> Iterator[Reason]:
    if row.state == "runs":
        return
    import shlex

    name = shlex.quote(row.name)
    if row.state == "new" and row.declared is not None and of_claude_code(row.declared):
        adopt = adopting_command(row.declared)
        fix = f"`{adopt}` moves it to billhook; " * bool(adopt)
        fix += f"`billhook trust {name}` approves it for other agents"
        yield Reason("new", "it is run by Claude Code itself, and not approved for other agents", fix)
    elif row.state == "new":
        yield Reason("new", "it is not approved", f"`billhook trust {name}` shows it and asks")
    elif row.state == "changed":
        yield Reason("changed", row.why.partition(";")[0], f"`billhook trust {name}` shows how and asks")
    elif row.state == "off":
        yield Reason("off", f"it is switched off: {row.why}", "remove that")
    elif row.state in ("broken", "not yet"):
        yield Reason(row.state, row.broken or row.why, _hint(row, problems) or "`billhook check` tells more")
    else:
        yield Reason(row.state, row.why)
    if row.state in ("new", "changed") and row.broken:
        yield Reason("broken", row.broken, _hint(row, problems))


def _hint(row: HookRow, problems: Sequence[Finding]) -> str:
    here = [one for one in problems if one.file == row.file and one.message in (row.broken or row.why)]
    at_line = [one for one in here if one.line >= row.line]
    return (at_line or here)[0].hint if here else ""


def _conditions(row: HookRow, step: Step, event: Event) -> Iterator[Reason]:
    if not _alone(step.hook).steps(event):
        yield _not_matched(row, step, event)
    if step.hook.condition is not None and not step.hook.condition(Context(event, [])):
        if row.part and not row.when:
            fitting = f" that match `{row.match}`" if row.match else ""
            yield Reason("match", f"it runs at Cursor's {row.part}, and for other agents' calls{fitting}")
            return
        why, fix = rule_reason(row.declared, row.when, event)
        yield Reason("if", why, fix)
    if step.hook.background and step.hook.gate and event.gates:
        why = f"it is a gate in the background, and {event.hook_event_name} waits for the answer: it counts as failed"
        fix = f"remove `{edit(row.declared, 'background', True)}`" if row.declared is not None else ""
        yield Reason("background", why, fix)


def _not_matched(row: HookRow, step: Step, event: Event) -> Reason:
    sources = step.meanings.session_sources
    source = event.target or ""
    if event.hook_event_name == "SessionStart" and sources is not None and source not in sources:
        why = f"under `{step.dialect}` a session only starts by {listed(sorted(sources))}, and this is `{source}`"
        fix = "use another dialect, `claude` for example; exit codes mean other things there"
        return Reason("source", why, fix)
    why, fix = match_reason(row.declared, step.hook.match or "", step.meanings, event)
    return Reason("match", why, fix)


def _failure(step: Step, event: Event) -> str:
    if event.gates:
        return f"a failure {_ON_FAILURE[step.on_failure]}"
    if event.block is Block.KEEP_GOING:
        return "a failure is shown, and the agent stops as it would"
    return "a failure is shown" if step.on_failure == "allow" else "a failure marks the result as an error"


def _known_answer(row: HookRow, step: Step, event: Event) -> Answer | None:
    """Plain lines of config always say the same, self-protection only reads the event, and built-ins that keep books
    have nothing to say: these can be told."""
    if has_no_say(row):
        return NOTHING
    literal = row.declared is not None and isinstance(row.declared.action, Say)
    if literal and isinstance(step.run, Literally):
        return step.run.answer
    return step.run(Context(event, [])) if isinstance(step.run, SelfProtection) else None


def _notes(row: HookRow, step: Step) -> Iterator[str]:
    if step.matcher.problem:
        yield f"its matcher `{step.hook.match}` can't be read and so matches everything: {step.matcher.problem}"
    if step.when_late is not None:
        yield f"a late answer counts as {step.when_late}"
    if row.state == "runs" and row.declared is not None and of_claude_code(row.declared):
        adopt = adopting_command(row.declared)
        moved = f"; `{adopt}` moves it to billhook" if adopt else ""
        yield f"inside Claude Code it is run by Claude Code itself{moved}"


def _outlook(hooks: Sequence[Explained], event: Event) -> Outlook:
    known = [(one.row.name, Decision.DENY) for one in hooks if one.blocks and event.gates]
    known += [(one.row.name, one.says.decision) for one in hooks if one.says is not None]
    strictest = max((decision for _, decision in known), key=_STRICTNESS.__getitem__, default=Decision.NONE)
    asked = [one for one in hooks if one.runs]
    unknown = tuple(one.row.name for one in asked if one.says is None)
    can_fail = [one for one in asked if one.failure and event.gates and not one.silent]
    return Outlook(
        decision=strictest,
        certain=strictest is Decision.DENY or not unknown,
        by=tuple(name for name, decision in known if decision is strictest and decision is not Decision.NONE),
        open=unknown,
        gates=tuple(one.row.name for one in can_fail if one.row.on_failure != "allow"),
        fail_open=tuple(one.row.name for one in can_fail if one.row.on_failure == "allow"),
    )
