"""Why a hook would run for an event or would be skipped, what each hook did at a past event, and an edit of a hook that
would make it match.

An edit is only proposed where a hook has a slip that `billhook check` finds, too, and where it makes the hook run for
the event. No edit is proposed for a hook that allows calls.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from billhook.agents import AGENTS
from billhook.builtins.guard import Guard
from billhook.builtins.rate_limit import RateLimiter
from billhook.config.build import Cooldown, EventTests, OnBranch, OnPaths, absence
from billhook.config.builtin_hooks import StandIn
from billhook.config.config import Config, HookRow, rows
from billhook.config.declaration import Conditions, FixedAnswer, HookDeclaration
from billhook.config.entry import Part
from billhook.config.lint import edit, listed
from billhook.config.lint.matchers import corrected_rule, lint_match, other_spelling, with_rule
from billhook.config.sources import adopting_command, of_claude_code
from billhook.core import tools
from billhook.core.answers import NOTHING, Answer, Decision, Outcome
from billhook.core.dialect_traits import Meanings
from billhook.core.errors import RuleError
from billhook.core.events import Block, Event
from billhook.core.hook import Condition, Context, Hook
from billhook.core.match import compile_matcher
from billhook.core.text import Finding, counted
from billhook.effects import shell
from billhook.effects.conditions import AfterEffect, HasEffect, cell_of, effects_in, single
from billhook.effects.effect import Effect
from billhook.effects.rules import Rule
from billhook.engine.plan import Plan, together
from billhook.engine.step import Step
from billhook.runners.command import ConstantAnswer
from billhook.store.files import StoreError

Failed = Literal[
    "event", "off", "new", "changed", "broken", "not yet", "same", "elsewhere", "match", "source", "if",
    "effect", "after_effect", "paths", "branch", "when", "once", "cooldown", "background", "not reached",
]  # fmt: skip
_STRICTNESS = {decision: place for place, decision in enumerate(Decision)}
_ON_FAILURE = {"deny": "the action is denied", "ask": "the user is asked", "allow": "the action continues"}


class Reason(msgspec.Struct, frozen=True):
    """One condition that is not met, and what would change that."""

    condition: Failed
    why: str
    fix: str = ""  # for the user: "write `match: Bash`"


class ExplainedHook(msgspec.Struct, frozen=True, kw_only=True):
    """One hook and one event."""

    row: HookRow
    order: int | None = None  # its place in the order of execution; None: it is skipped
    reasons: tuple[Reason, ...] = ()  # every condition that is not met; none: it would run
    blocks: bool = False  # a gate that can't run: what it would check is denied
    seconds: float | None = None  # its timeout
    default: bool = False  # the timeout is the default of its dialect for this event
    failure: str = ""  # what happens if it fails; empty where it can't fail
    answer: Answer | None = None  # what it would answer, where that is known
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        return not self.reasons

    @property
    def reached(self) -> bool:
        """False: it would run, but an earlier hook ends the run."""
        return not any(reason.condition == "not reached" for reason in self.reasons)

    @property
    def answers_later(self) -> bool:
        """It runs in the background: its answer never changes the verdict."""
        return self.row.declared is not None and self.row.declared.background

    @property
    def silent(self) -> bool:
        """It only observes, and never changes the verdict."""
        return only_observes(self.row)

    @property
    def why(self) -> str:
        return "; ".join(reason.why for reason in self.reasons)

    @property
    def fix(self) -> str:
        return "; ".join(reason.fix for reason in self.reasons if reason.fix)


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the verdict in advance."""

    decision: Decision  # the strictest known answer
    certain: bool  # no unknown answer can change the decision
    by: tuple[str, ...] = ()  # the hooks whose known answers make the decision
    open: tuple[str, ...] = ()  # the hooks whose answers are not known
    gates: tuple[str, ...] = ()  # hooks whose failure blocks the action
    fail_open: tuple[str, ...] = ()  # hooks whose failure does not stop the action


class Explanation(msgspec.Struct, frozen=True):
    """One event and every configured hook."""

    event: Event
    hooks: tuple[ExplainedHook, ...]  # those for this event: first those that run, in order
    others: tuple[ExplainedHook, ...]  # those that listen for other events only
    outlook: Forecast
    parallel: bool = False
    waves: tuple[tuple[str, ...], ...] = ()  # the hooks that start at the same time, in order; those that run alone too

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What the call would do; nothing for an event without a tool."""
        return effects_in(self)


def only_observes(row: HookRow) -> bool:
    """Whether it is a built-in that only observes: built-ins that decide are gates."""
    return row.layer == "built-in" and row.on_failure == "allow"


def explain(config: Config, event: Event) -> Explanation:
    """What each configured hook would do at an event. Nothing runs, and nothing is sent over the network."""
    wanted: list[ExplainedHook] = []
    others: list[ExplainedHook] = []
    for row in rows(config):
        if row.handles(event.hook_event_name):
            wanted.append(_explained(row, event, config, wanted))
        elif not row.switch:
            others.append(_for_other_events(row, event))
    waves = _waves(wanted, event, config)
    wanted = _without_unreached(wanted, waves, event)
    wanted.sort(key=lambda one: not (one.runs or one.blocks))
    places = enumerate(wanted, 1)
    hooks = tuple(replace(one, order=place) if one.runs or one.blocks else one for place, one in places)
    reached = {one.row.name for one in hooks if one.order is not None}
    shown = (tuple(name for name in wave if name in reached) for wave in waves)
    return Explanation(event, hooks, tuple(others), _outlook(hooks, event), config.parallel, tuple(filter(None, shown)))


def _without_unreached(hooks: list[ExplainedHook], waves: Sequence[Sequence[str]], event: Event) -> list[ExplainedHook]:
    """The same hooks; if an earlier hook certainly denies, that is the reason why the engine skips the later ones."""
    places = {name: place for place, wave in enumerate(waves) for name in wave}
    first = min((one for one in hooks if _denies(one, event)), key=lambda one: places[one.row.name], default=None)
    if first is None:
        return hooks
    why = Reason("not reached", f"`{first.row.name}` denies")
    last = places[first.row.name]
    after = [one.runs and not one.row.always and places[one.row.name] > last for one in hooks]
    return [
        replace(one, reasons=(why,), answer=None, notes=()) if unreached else one
        for one, unreached in zip(hooks, after, strict=True)
    ]


def _denies(one: ExplainedHook, event: Event) -> bool:
    """Whether it certainly ends the run. At an event that keeps the agent going, a deny does not."""
    if one.blocks or event.block is Block.KEEP_GOING:
        return one.blocks and event.gates
    return one.answer is not None and one.answer.objects and not one.answers_later


def _waves(hooks: Sequence[ExplainedHook], event: Event, config: Config) -> list[list[str]]:
    """The names of the hooks that match, in groups that start together. A deny skips the groups after it."""
    which = [one for one in hooks if not any(reason.condition in ("match", "source") for reason in one.reasons)]
    steps = [Step(hook, one.row.name, event.hook_event_name) for one in which for hook in one.row.hooks[:1]]
    waves = Plan([]).waves(steps) if config.parallel else together(steps) or [[step] for step in steps]
    return [[step.name for step in wave] for wave in waves]


def _for_other_events(row: HookRow, event: Event) -> ExplainedHook:
    why = f"it listens for {listed(list(row.events))}, not `{event.hook_event_name}`"
    return ExplainedHook(row=row, reasons=(Reason("event", why),))


def _explained(row: HookRow, event: Event, config: Config, earlier: Sequence[ExplainedHook]) -> ExplainedHook:
    problems, ctx = config.problems, Context(event, _answers(earlier), {}, config.knowing)
    looked = [(step, tuple(_conditions(row, step, ctx))) for step in _steps(row, event)]
    blocks = any(isinstance(step.run, StandIn) and step.run.blocks and not failed for step, failed in looked)
    if not looked:
        return ExplainedHook(row=row, reasons=tuple(_blockers(row, problems)))
    step, failed = min(looked, key=lambda one: len(one[1]))
    unmet = _with_safe_edits(row, failed)
    reasons = (*_blockers(row, problems, fixable=all(one.fix for one in unmet)), *unmet)
    return ExplainedHook(
        row=row,
        reasons=reasons,
        blocks=blocks,
        seconds=step.timeout,
        default=step.hook.timeout is None,
        failure="" if isinstance(step.run, ConstantAnswer) or row.shadow else _failure(step, event),
        answer=(answer := _fixed_answer(row, step, ctx) if not reasons else None),
        notes=tuple(_notes(row, step, answer)),
    )


def _with_safe_edits(row: HookRow, failed: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """The reasons; their edits only if all of them together make the hook run."""
    if all(one.fix for one in failed) and not _allows(row):
        return failed
    return tuple(replace(one, fix="") for one in failed)


def _allows(row: HookRow) -> bool:
    action = row.declared.action if row.declared is not None else None
    return isinstance(action, FixedAnswer) and action.decision == "allow"


def _steps(row: HookRow, event: Event) -> Iterator[Step]:
    """The hook as the plan of an engine has it, or would have it."""
    hooks = row.hooks
    if not hooks and row.declared is not None:
        # An unreadable rule or timeout may be what is broken about it: no hook can be built with those.
        broken = {"conditions": Conditions(), "timeout": None} if row.declared.broken else {}
        hooks = (absence(replace(row.declared, **broken), ""),)
    for hook in hooks:
        yield from _single_plan(hook).list_for(event).all


def _single_plan(hook: Hook) -> Plan:
    return Plan([replace(hook, after=())])


def _blockers(row: HookRow, problems: Sequence[Finding], *, fixable: bool = True) -> Iterator[Reason]:
    """Why a hook can't run at any event. `fixable`: it could run at this one."""
    if row.state == "runs":
        return
    import shlex

    name = shlex.quote(row.name)
    if row.state == "new" and row.declared is not None and of_claude_code(row.declared):
        fix = f"`billhook trust {name}` approves it for other agents"
        if adopt := adopting_command(row.declared):
            fix = f"`{adopt}` moves it to billhook; {fix}"
        yield Reason("new", "it is run by Claude Code itself, and not approved for other agents", fix)
    elif row.state == "new":
        yield Reason("new", "it is not approved", f"`billhook trust {name}` shows it and asks for approval")
    elif row.state == "changed":
        fix = f"`billhook trust {name}` shows the change and asks for approval"
        yield Reason("changed", row.why.partition(";")[0], fix)
    elif row.state == "off":
        yield Reason("off", f"it is switched off: {row.why}", _switch_on(row) if fixable else "")
    elif row.state == "broken":
        yield Reason("broken", row.broken or row.why, _hint(row, problems) or "`billhook check` shows details")
    else:
        yield Reason(row.state, row.why)
    if row.state in ("new", "changed") and row.broken:
        yield Reason("broken", row.broken, _hint(row, problems))


def _switch_on(row: HookRow) -> str:
    """What to remove; nothing for a hook that allows calls, which is switched off for a reason."""
    return "" if _allows(row) else f"remove {row.why.partition(' in ')[0]}"


def _hint(row: HookRow, problems: Sequence[Finding]) -> str:
    here = [one for one in problems if one.file == row.file and one.message in (row.broken or row.why)]
    at_line = [one for one in here if one.line >= row.line]
    return (at_line or here)[0].hint if here else ""


def _conditions(row: HookRow, step: Step, ctx: Context) -> Iterator[Reason]:
    event = ctx.event
    if not _single_plan(step.hook).steps(event):
        yield _not_matched(row, step, event)
    declared = row.declared
    for condition in single(step.hook.condition) if step.hook.condition is not None else ():
        yield from _not_true(condition, row, ctx)
    if step.hook.background and step.hook.gate and event.gates:
        why = f"it is a gate in the background, and {event.hook_event_name} waits for its answer: it counts as failed"
        fix = f"remove `{edit(declared, 'background', True)}`" if declared is not None else ""
        yield Reason("background", why, fix)


def _not_true(condition: Condition, row: HookRow, ctx: Context) -> Iterator[Reason]:
    """Why one of the conditions of a hook is not true of an event; nothing where it is true."""
    if isinstance(condition, AfterEffect):
        yield from _effect_missing(condition, row, ctx)
    elif isinstance(condition, Cooldown):
        yield from _ran_before(condition, ctx)
    elif condition(ctx):
        return
    elif isinstance(condition, OnPaths | OnBranch | EventTests):
        yield Reason(_KEYS[type(condition)], condition.why(ctx))
    elif isinstance(condition, Part):
        matching = f" that match `{row.match}`" if row.match else ""
        title = next(agent.title for agent in AGENTS.values() if row.part in agent.narrower)
        yield Reason("match", f"it runs at {title}'s {row.part}, and for calls of other agents{matching}")
    elif isinstance(condition, HasEffect):
        yield Reason("effect", _effect_reason(condition.wanted, ctx.event))
    elif row.declared is not None:
        yield _rule_reason(row.declared, ctx.event)
    else:  # a gate whose file can't be read: its approved rules count
        yield Reason("if", "its `if` does not match this call")


_KEYS: Final[dict[type, Failed]] = {OnPaths: "paths", OnBranch: "branch", EventTests: "when"}


def _ran_before(condition: Cooldown, ctx: Context) -> Iterator[Reason]:
    """Whether `once` or `cooldown` skips it. This run is not recorded."""
    try:
        if why := condition.why(ctx):
            yield Reason("once" if condition.once else "cooldown", why)
    except (LookupError, StoreError) as error:
        yield Reason("once", str(error))


def _effect_missing(condition: AfterEffect, row: HookRow, ctx: Context) -> Iterator[Reason]:
    named = f"`after_effect: {', '.join(condition.wanted)}`"
    try:
        if not condition(ctx):
            yield Reason("after_effect", f"{named}: not seen earlier in this session")
    except LookupError:
        blocked = ", so a gate blocks" if row.on_failure != "allow" else ""
        why = f"{named} depends on earlier calls of the session, and this event has no session{blocked}"
        yield Reason("after_effect", why)
    except StoreError as error:
        yield Reason("after_effect", f"{named}: earlier calls of the session can't be read: {error.message}")


def _not_matched(row: HookRow, step: Step, event: Event) -> Reason:
    sources = step.meanings.session_sources
    source = event.target or ""
    if event.hook_event_name == "SessionStart" and sources is not None and source not in sources:
        only = listed(sorted(sources))
        why = f"in the dialect `{step.dialect}`, SessionStart fires only for {only}, not for `{source}`"
        return Reason("source", why)
    assert row.declared is not None  # built-ins have no matcher
    return _match_reason(row.declared, step.hook.match or "", step.meanings, event)


def _failure(step: Step, event: Event) -> str:
    if event.gates:
        return f"if it fails, {_ON_FAILURE[step.on_failure]}"
    if event.block is Block.KEEP_GOING:
        return "if it fails, the error is shown and the agent stops as usual"
    outcome = "the error is shown" if step.on_failure == "allow" else "the result is marked as an error"
    return f"if it fails, {outcome}"


def _answers(earlier: Sequence[ExplainedHook]) -> list[Outcome]:
    """The known answers of earlier hooks: an `allow` in the user's file overrides the guard."""
    known = ((one.row, one.answer) for one in earlier if one.answer is not None and not one.row.shadow)
    return [Outcome(row.name, source=f"{row.layer} {row.place}", answer=answer) for row, answer in known]


def _fixed_answer(row: HookRow, step: Step, ctx: Context) -> Answer | None:
    """Fixed answers in a file are always the same, the guard only reads the event, and built-ins that only observe
    have no answer: these are known in advance."""
    if only_observes(row):
        return NOTHING
    literal = row.declared is not None and isinstance(row.declared.action, FixedAnswer)
    if literal and isinstance(step.run, ConstantAnswer):
        return step.run.answer
    return step.run(ctx) if isinstance(step.run, Guard) else None


def _notes(row: HookRow, step: Step, answer: Answer | None) -> Iterator[str]:
    if answer is not None and answer.data and isinstance(step.run, Guard):
        yield from filter(None, [answer.data["how_to_allow"]])
    if isinstance(step.run, RateLimiter):
        yield from (f"{limit.in_words}, then {limit.then}" for limit, _ in step.run.limits)
    if step.matcher.problem:
        yield f"its matcher `{step.hook.match}` can't be read, so it matches everything: {step.matcher.problem}"
    if step.on_timeout is not None:
        yield f"if it times out, that counts as {step.on_timeout}"
    if row.state == "runs" and row.declared is not None and of_claude_code(row.declared):
        adopt = adopting_command(row.declared)
        moved = f"; `{adopt}` moves it to billhook" if adopt else ""
        yield f"in Claude Code, it is run by Claude Code itself{moved}"


def _outlook(hooks: Sequence[ExplainedHook], event: Event) -> Forecast:
    hooks = [one for one in hooks if not one.row.shadow]
    known = [(one.row.name, Decision.DENY) for one in hooks if one.blocks and event.gates]
    known += [(one.row.name, one.answer.decision) for one in hooks if one.answer is not None and not one.answers_later]
    strictest = max((decision for _, decision in known), key=_STRICTNESS.__getitem__, default=Decision.NONE)
    running = [one for one in hooks if one.runs and not one.answers_later]
    unknown = tuple(one.row.name for one in running if one.answer is None)
    can_fail = [one for one in running if one.failure and event.gates and not one.silent]
    return Forecast(
        decision=strictest,
        certain=strictest is Decision.DENY or not unknown,
        by=tuple(name for name, decision in known if decision is strictest and decision is not Decision.NONE),
        open=unknown,
        gates=tuple(one.row.name for one in can_fail if one.row.on_failure != "allow"),
        fail_open=tuple(one.row.name for one in can_fail if one.row.on_failure == "allow"),
    )


# -- what does not match, and the slip that is to blame


_NAME_LIST: Final = re.compile(r"[A-Za-z0-9_\- ,|]*")
_SLIPS: Final = frozenset({"BH301", "BH302", "BH303"})
_SHOWN: Final = 3  # commands or effects of one call that are named


def _match_reason(hook: HookDeclaration, pattern: str, row: Meanings, event: Event) -> Reason:
    """Why a matcher does not match an event, and the edit that makes it match."""
    target, field = event.target or "", event.match_field or ""
    if not target:
        return Reason("match", f"`match: {pattern}` is compared with `{field}`, which this event does not have")
    names = _names_of(target, field, row)
    slip = _slip(hook) if pattern == hook.match else None
    if slip is not None and _corrects(slip, hook, row, event, names):
        return Reason("match", slip.message, slip.hint)
    why = f"`match: {pattern}` does not match {' or '.join(f'`{name}`' for name in names)}"
    if fixed := _other_case(pattern, row, event, names):
        return Reason("match", f"{why}: `{row.name}` is case-sensitive", f"write `{edit(hook, 'match', fixed)}`")
    return Reason("match", why)  # most matchers leave tools out on purpose


def _names_of(target: str, field: str, row: Meanings) -> list[str]:
    if field != "tool_name":
        return [target]
    canonical = tools.canonical(target)
    called = [tools.called(canonical, row.naming)] if row.naming != "canonical" else []
    return list(dict.fromkeys([target, canonical, *called]))


def _slip(hook: HookDeclaration) -> Finding | None:
    place = hook.places.get("match")
    return next((one for one in lint_match(hook) if one.code in _SLIPS and (one.line, one.column) == place), None)


def _corrects(slip: Finding, hook: HookDeclaration, row: Meanings, event: Event, names: list[str]) -> bool:
    """Whether the hint of a slip makes the hook run for the event. Without a new matcher, it moves a rule to `if`."""
    if slip.edit:
        return compile_matcher(slip.edit, row.matching, event.hook_event_name).matches(*names)
    return _rule_matches(hook.match or "", event)


def _other_case(pattern: str, row: Meanings, event: Event, names: list[str]) -> str:
    """The matcher in the spelling of the event, if only the case of its letters differs."""
    lower = compile_matcher(pattern.lower(), row.matching, event.hook_event_name)
    if not _NAME_LIST.fullmatch(pattern) or not lower.matches(*(name.lower() for name in names)):
        return ""
    for name in names:
        pattern = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", name, pattern, flags=re.I)
    return pattern


# -- rules and effects


def _rule_reason(hook: HookDeclaration, event: Event) -> Reason:
    """Why no rule of `if` matches an event, and a corrected rule that does."""
    name, rules = tools.canonical(getattr(event, "tool_name", "")), hook.conditions.rules
    why = _rule_why(rules[0], event) if len(rules) == 1 else _rules_why(rules, name, event)
    command = tools.command_of(name, getattr(event, "tool_input", None)) or ""
    for text in rules:
        fixed = corrected_rule(text)
        new = fixed or other_spelling(text, command)
        if new and _rule_matches(new, event):
            comment = "" if fixed else ", which also matches the other spellings"
            return Reason("if", why, f"write `{edit(hook, 'rules', with_rule(hook, text, new))}`{comment}")
    return Reason("if", why)


def _rule_matches(rule: str, event: Event) -> bool:
    name, given = tools.canonical(getattr(event, "tool_name", "")), getattr(event, "tool_input", None)
    try:
        return Rule.parse(rule).strikes(name, given, event.cwd or None)
    except RuleError:
        return False


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


def _effect_reason(wanted: Sequence[str], event: Event) -> str:
    """Why a call has none of the effects of `effect`."""
    named = f"`effect: {', '.join(wanted)}`"
    if not getattr(event, "tool_name", ""):
        return f"{named} is for tool calls, and {event.hook_event_name} has no tool"
    cells = list(dict.fromkeys(map(cell_of, getattr(event, "effects", ()))))
    if not cells:
        return f"{named}: this call has no known effect"
    more = f" and {counted(len(cells) - _SHOWN, 'more effect')}" if len(cells) > _SHOWN else ""
    return f"{named}: this call has other effects: {listed(cells[:_SHOWN])}{more}"
