"""Why a hook would run for an event or not, the edit that changes it, and what each hook did about a past event."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from billhook.agents import AGENTS
from billhook.builtins.guard import Guard
from billhook.builtins.rate_limit import RateLimiter
from billhook.config.build import absence
from billhook.config.builtin_hooks import StandIn
from billhook.config.conditions import EventTests, NotAgain, OnBranch, OnPaths
from billhook.config.config import Config, HookRow, rows
from billhook.config.declaration import LAYERS, Conditions, Declared, Say, conditions_in_words
from billhook.config.entry import Part
from billhook.config.history import rows_of
from billhook.config.installation import adopting_command, of_claude_code
from billhook.config.lint import edit, listed
from billhook.config.lint.matchers import lint_match, lint_rules
from billhook.core import tools
from billhook.core.answers import NOTHING, Answer, Decision, Outcome, SkipReason
from billhook.core.dialect_traits import Meanings
from billhook.core.errors import BillhookError, RuleError
from billhook.core.events import Block, Event, parse
from billhook.core.hook import Condition, Context, Hook
from billhook.core.match import compile_matcher
from billhook.core.text import Finding, counted
from billhook.effects import shell
from billhook.effects.conditions import AfterEffect, HasEffect, cell_of, effects_in, single
from billhook.effects.effect import Effect
from billhook.effects.rules import Rule
from billhook.engine.plan import Plan
from billhook.engine.step import Step
from billhook.runners.command import Literally
from billhook.store.files import StoreError
from billhook.store.log.record import OutcomeRecord, Record

_PLAIN = re.compile(r"[A-Za-z0-9_\- ,|]*")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_NEVER = frozenset({"BH301", "BH302", "BH303"})
_SHOWN = 3  # commands of one line that are named


def match_reason(hook: Declared, pattern: str, row: Meanings, event: Event) -> tuple[str, str]:
    """Why a matcher does not match what an event is about, and the edit that makes it."""
    target = event.target or ""
    field = event.match_field or ""
    if not target:
        return f"match `{pattern}` is compared with `{field}`, which is empty", f"give the event a `{field}`"
    names = [target]
    if field == "tool_name":
        canonical = tools.canonical(target)
        called = [tools.called(canonical, row.naming)] if row.naming != "canonical" else []
        names = list(dict.fromkeys([target, canonical, *called]))
    why = f"match `{pattern}` does not match {' or '.join(f'`{name}`' for name in names)}"
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


def _wider(hook: Declared, pattern: str, row: Meanings, names: list[str]) -> str:
    name = names[-1] if row.naming != "canonical" else tools.canonical(names[0])
    if not _NAME.fullmatch(name):
        return "leave the matcher out"
    if row.matching not in ("wildcard", "claude"):
        return f"write another hook for `{name}`, or leave the matcher out"
    plain = row.matching == "wildcard" or _PLAIN.fullmatch(pattern)
    return f"write `{edit(hook, 'match', f'{pattern}|{name}' if plain else f'({pattern})|^{name}$')}`"


def rule_reason(hook: Declared, text: str, event: Event) -> tuple[str, str]:
    """Why the rule of `if` does not strike an event, and a rule that would."""
    tool = getattr(event, "tool_name", "")
    if not tool:
        why = f"`if` is a rule about a tool call, and {event.hook_event_name} has none"
        return why, f"remove `{edit(hook, 'rules', text)}`"
    name = tools.canonical(tool)
    try:
        rule = Rule.parse(text)
    except RuleError as error:
        return f"if `{text}`: {error.message}", error.hint
    if not rule.names(name):
        return f"if `{text}` is about `{rule.tool}`, and this is `{name}`", _other_tool(hook, name)
    return f"if `{text}` does not match {_compared(name, event)}", _other_rule(hook, name, event)


def _other_tool(hook: Declared, name: str) -> str:
    slip = _slip(hook, "rules")
    if slip is not None and slip.edit and Rule.parse(slip.edit).names(name):
        return f"write `{slip.hint}`"
    return f"write `{edit(hook, 'rules', name)}`, which matches every `{name}`"


def _compared(name: str, event: Event) -> str:
    given = getattr(event, "tool_input", None)
    command = tools.command_of(name, given)
    if command is not None:
        texts = list(dict.fromkeys(found.text for found in shell.parse(command).commands if found.words))
        more = f" and {len(texts) - _SHOWN} more commands" if len(texts) > _SHOWN else ""
        return listed(texts[:_SHOWN]) + more if texts else "an empty command"
    paths = tools.paths_of(name, given)
    return listed(list(paths)) if paths else "this input"


def _other_rule(hook: Declared, name: str, event: Event) -> str:
    """A rule that matches, as near to the old one as there is: found by trying."""
    given, cwd = getattr(event, "tool_input", None), event.cwd or None
    for finding in lint_rules([hook]):
        if Rule.parse(finding.edit).strikes(name, given, cwd):
            return f"write `{edit(hook, 'rules', finding.edit)}`, which sees the other spellings, too"
    for candidate in _candidates(name, event):
        try:
            if Rule.parse(candidate).strikes(name, given, cwd):
                return f"write `{edit(hook, 'rules', candidate)}`"
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


def effect_reason(hook: Declared | None, wanted: Sequence[str], event: Event) -> tuple[str, str]:
    """Why a call has none of the effects of `effect`, and the edit that names one that it has."""
    named = f"effect {listed(list(wanted))}"
    if not getattr(event, "tool_name", ""):
        return f"{named} is about a tool call, and {event.hook_event_name} has none", ""
    cells = list(dict.fromkeys(map(cell_of, getattr(event, "effects", ()))))
    if not cells:
        return f"{named}: this call has no effect that billhook knows", ""
    more = f" and {counted(len(cells) - _SHOWN, 'more effect')}" if len(cells) > _SHOWN else ""
    why = f"{named} is not among what this call would do: {listed(cells[:_SHOWN])}{more}"
    kind = cells[0].partition(":")[0]
    return why, f"write `{edit(hook, 'effects', [*wanted, kind])}`" if hook is not None else ""


# Why a hook would be asked about an event, or why not; found out without asking any.


Failed = Literal[
    "event", "off", "new", "changed", "broken", "not yet", "same", "elsewhere", "match", "source", "if",
    "effect", "after_effect", "paths", "branch", "when", "once", "cooldown", "background",
]  # fmt: skip
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


class Explanation(msgspec.Struct, frozen=True):
    """One event and every configured hook."""

    event: Event
    hooks: tuple[Explained, ...]  # those for this event: first those that an engine comes to, in that order
    others: tuple[Explained, ...]  # those for other events only
    outlook: Outlook
    parallel: bool = False

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What the call would do; nothing for an event without a tool."""
        return effects_in(self)


def has_no_say(row: HookRow) -> bool:
    """Whether it is a built-in that only keeps books: those that decide are gates."""
    return row.layer == "built-in" and row.on_failure == "allow"


def explain(config: Config, event: Event) -> Explanation:
    """What each configured hook would do about an event. Nothing is run, and nothing is asked on the network."""
    wanted: list[Explained] = []
    others: list[Explained] = []
    for row in rows(config):
        if row.wants(event.hook_event_name):
            wanted.append(_explained(row, event, config, wanted))
        elif not row.switch:
            others.append(_for_other_events(row, event))
    wanted.sort(key=lambda one: not (one.runs or one.blocks))
    places = enumerate(wanted, 1)
    hooks = tuple(replace(one, order=place) if one.runs or one.blocks else one for place, one in places)
    return Explanation(event, hooks, tuple(others), _outlook(hooks, event), config.parallel)


def _for_other_events(row: HookRow, event: Event) -> Explained:
    name = event.hook_event_name
    why = f"it wants {listed(list(row.events))}, not `{name}`"
    fix = f'put it below `"{name}"`, too' if row.declared is not None else ""
    if row.declared is not None and row.declared.shape == "yaml":
        fix = f"write `events: [{', '.join((*row.events, name))}]`"
    return Explained(row=row, reasons=(Reason("event", why, fix),))


def _explained(row: HookRow, event: Event, config: Config, earlier: Sequence[Explained]) -> Explained:
    problems, ctx = config.problems, Context(event, _answers(earlier), {}, config.knowing)
    looked = [(step, tuple(_conditions(row, step, ctx))) for step in _steps(row, event)]
    blocks = any(isinstance(step.run, StandIn) and step.run.blocks and not failed for step, failed in looked)
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
        says=(says := _known_answer(row, step, ctx) if not reasons else None),
        notes=tuple(_notes(row, step, says)),
    )


def _steps(row: HookRow, event: Event) -> Iterator[Step]:
    """The hook as an engine's plan has it; one that no engine has, as it would have it."""
    hooks = row.hooks
    if not hooks and row.declared is not None:
        # What is broken about it may be its rule or its time: those would not become a hook.
        broken = {"conditions": Conditions(), "timeout": None} if row.declared.broken else {}
        hooks = (absence(replace(row.declared, **broken), ""),)
    for hook in hooks:
        yield from _alone(hook).list_for(event).all


def _alone(hook: Hook) -> Plan:
    return Plan([replace(hook, after=())])


def _standing(row: HookRow, problems: Sequence[Finding]) -> Iterator[Reason]:
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


def _conditions(row: HookRow, step: Step, ctx: Context) -> Iterator[Reason]:
    event = ctx.event
    if not _alone(step.hook).steps(event):
        yield _not_matched(row, step, event)
    declared = row.declared
    for condition in single(step.hook.condition) if step.hook.condition is not None else ():
        yield from _not_true(condition, row, ctx)
    if step.hook.background and step.hook.gate and event.gates:
        why = f"it is a gate in the background, and {event.hook_event_name} waits for the answer: it counts as failed"
        fix = f"remove `{edit(declared, 'background', True)}`" if declared is not None else ""
        yield Reason("background", why, fix)


def _not_true(condition: Condition, row: HookRow, ctx: Context) -> Iterator[Reason]:
    """Why one of the conditions of a hook is not true of an event; nothing where it is."""
    if isinstance(condition, AfterEffect):
        yield from _not_seen(condition, row, ctx)
    elif isinstance(condition, NotAgain):
        yield from _ran_before(condition, ctx)
    elif condition(ctx):
        return
    elif isinstance(condition, OnPaths | OnBranch | EventTests):
        yield Reason(_KEYS[type(condition)], condition.why(ctx))
    elif isinstance(condition, Part):
        fitting = f" that match `{row.match}`" if row.match else ""
        title = next(agent.title for agent in AGENTS.values() if row.part in agent.narrower)
        yield Reason("match", f"it runs at {title}'s {row.part}, and for other agents' calls{fitting}")
    elif isinstance(condition, HasEffect):
        yield Reason("effect", *effect_reason(row.declared, condition.wanted, ctx.event))
    elif row.declared is not None:
        rules = row.conditions.rules
        reasons = [rule_reason(row.declared, rule, ctx.event) for rule in rules]
        yield Reason("if", *reasons[0] if len(rules) == 1 else ("; ".join(why for why, _ in reasons), ""))


_KEYS: Final[dict[type, Failed]] = {OnPaths: "paths", OnBranch: "branch", EventTests: "when"}


def _ran_before(condition: NotAgain, ctx: Context) -> Iterator[Reason]:
    """Whether `once` or `cooldown` holds it back; asked without noting anything."""
    try:
        if why := condition.why(ctx):
            yield Reason("once" if condition.once else "cooldown", why)
    except (LookupError, StoreError) as error:
        yield Reason("once", str(error))


def _not_seen(condition: AfterEffect, row: HookRow, ctx: Context) -> Iterator[Reason]:
    named = f"after_effect {listed(list(condition.wanted))}"
    try:
        if not condition(ctx):
            yield Reason("after_effect", f"{named} was not seen in this session before")
    except LookupError:
        blocked = ": a gate then does not pass" if row.on_failure != "allow" else ""
        why = f"{named} depends on the session's earlier calls, and this event names no session{blocked}"
        yield Reason("after_effect", why)
    except StoreError as error:
        yield Reason("after_effect", f"{named}: what the session did before can't be read: {error.message}")


def _not_matched(row: HookRow, step: Step, event: Event) -> Reason:
    sources = step.meanings.session_sources
    source = event.target or ""
    if event.hook_event_name == "SessionStart" and sources is not None and source not in sources:
        why = f"under `{step.dialect}` a session only starts by {listed(sorted(sources))}, and this is `{source}`"
        return Reason("source", why, "use another dialect, `claude` for example; exit codes mean other things there")
    assert row.declared is not None  # built-ins have no matcher
    return Reason("match", *match_reason(row.declared, step.hook.match or "", step.meanings, event))


def _failure(step: Step, event: Event) -> str:
    if event.gates:
        return f"a failure {_ON_FAILURE[step.on_failure]}"
    if event.block is Block.KEEP_GOING:
        return "a failure is shown, and the agent stops as it would"
    return "a failure is shown" if step.on_failure == "allow" else "a failure marks the result as an error"


def _answers(earlier: Sequence[Explained]) -> list[Outcome]:
    """What earlier hooks are known to answer: a user's own `allow` overrides the guard."""
    known = ((one.row, one.says) for one in earlier if one.says is not None)
    return [Outcome(row.name, source=f"{row.layer} {row.place}", answer=says) for row, says in known]


def _known_answer(row: HookRow, step: Step, ctx: Context) -> Answer | None:
    """Plain lines of config always say the same, the guard only reads the event, and built-ins that keep books
    have nothing to say: these can be told."""
    if has_no_say(row):
        return NOTHING
    literal = row.declared is not None and isinstance(row.declared.action, Say)
    if literal and isinstance(step.run, Literally):
        return step.run.answer
    return step.run(ctx) if isinstance(step.run, Guard) else None


def _notes(row: HookRow, step: Step, says: Answer | None) -> Iterator[str]:
    if says is not None and says.data and isinstance(step.run, Guard):
        yield from filter(None, [says.data["how_to_allow"]])
    if isinstance(step.run, RateLimiter):
        yield from (f"{limit.in_words}, then {limit.then}" for limit, _ in step.run.limits)
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


# A past decision: what each hook did about an event then, why the others were not asked, and what would become of it
# today. All of it comes from the record, the configuration that was kept with it, and the configuration of today.


Row = Mapping[str, Any]  # a hook as `billhook list --json` prints it, and as a kept configuration has it
Standing = Literal["asked", "background", "skipped", "not asked"]

_STANDINGS: Final[dict[str, Standing]] = {"skipped": "skipped", "background": "background"}
_LONGEST: Final = 200  # characters of a command or path in a reason


class Considered(msgspec.Struct, frozen=True, kw_only=True):
    """One hook of that event."""

    name: str
    standing: Standing
    why: str = ""  # why it was skipped or not asked
    said: OutcomeRecord | None = None  # what happened when it was asked
    decided: bool = False  # it is one of those whose answer became the decision
    own: bool = False  # it was a hook of the program that asked, which no file has
    then: Row | None = None  # how it was configured; None: not known
    today: Explained | None = None  # what would become of it today, about the same event


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """One record, and every hook that had to do with it."""

    record: Record
    hooks: tuple[Considered, ...]  # those that were come to, in that order; then those that were not asked
    by: tuple[str, ...]  # whose answers became the decision
    known: bool  # the configuration of that moment is known
    today: Explanation | None = None  # the same event under the configuration of today; None where it can't be told
    untold: tuple[str, ...] = ()  # what is not known, and why

    @property
    def removed(self) -> tuple[str, ...]:
        """Hooks of a file that are not configured for such an event any more."""
        return tuple(one.name for one in self.hooks if one.today is None and not one.own) if self.today else ()

    @property
    def added(self) -> tuple[str, ...]:
        """Hooks of a file that would be asked today, and of which the record knows nothing."""
        met = {one.name for one in self.hooks}
        asked = [one.row for one in self.today.hooks if one.runs] if self.today else []
        return tuple(row.name for row in asked if row.name not in met and row.layer != "built-in")


def look_back(record: Record, kept: Mapping[str, Any] | None, config: Config) -> Past:
    """A record, the configuration that was kept for it if it is still there, and that of today."""
    event, then_rows = event_of(record), rows_of(kept)
    today, untold = _today(record, event, config)
    outlooks = {one.row.name: one for one in today.hooks} if today is not None else {}
    by = decided_by(record)
    hooks = [
        replace(
            one,
            decided=one.name in by and one.standing == "asked",
            own=_is_own(one.name, record, None if kept is None else then_rows),
            then=then_rows.get(one.name),
            today=outlooks.get(one.name),
        )
        for one in _considered(record, then_rows, event)
    ]
    untold += [f"what `{one.name}` is today: it was a hook of the program that asked" for one in hooks if one.own]
    if kept is None:
        not_kept = f"the configuration of that moment: {record.config[:12]} was not kept"
        not_said = "which configuration it was decided under: the record does not say"
        untold.insert(0, not_kept if record.config else not_said)
    return Past(
        record=record,
        hooks=tuple(hooks),
        by=by,
        known=kept is not None,
        today=today,
        untold=tuple(untold),
    )


# -- what happened


def decided_by(record: Record) -> tuple[str, ...]:
    """The hooks whose answers became the decision, stopped the agent or kept it going; where a record does not say who
    did, those that gave the reason."""
    strong = [said for said in record.outcomes if said.decision == record.decision != "none"]
    if record.stop or record.keep_going:
        strong += [said for said in record.outcomes if (said.stop if record.stop else said.keep_going)]
    if not strong and record.reason and (record.decision != "none" or record.stop or record.keep_going):
        strong = [said for said in record.outcomes if said.reason and said.reason in record.reason]
    return tuple(dict.fromkeys(said.hook for said in strong))


def _is_own(name: str, record: Record, rows: Mapping[str, Row] | None) -> bool:
    """Whether a hook was the program's own: its outcome names no layer. Of one without an outcome, when it is known
    that the configuration of its time had none of that name."""
    for said in record.outcomes:
        if said.hook == name:
            return (said.source or "").partition(" ")[0] not in (*LAYERS, "built-in")
    return rows is not None and name not in rows


def _considered(record: Record, rows: Mapping[str, Row], event: Event | None) -> Iterator[Considered]:
    met = {said.hook for said in record.outcomes}
    for said in record.outcomes:
        standing = _STANDINGS.get(said.status, "asked")
        if standing != "skipped":
            yield Considered(name=said.hook, standing=standing, said=said)
            continue
        word = record.not_asked.get(said.hook) or said.error or ""
        why = said.error if word == SkipReason.CONDITION_RAISED else _why_not(word, rows.get(said.hook), record, event)
        not_approved = word == SkipReason.NOT_TRUSTED  # what stands in for it was skipped
        yield Considered(name=said.hook, standing="not asked" if not_approved else "skipped", why=why or word)
    for name, word in record.not_asked.items():
        if name not in met:
            yield Considered(name=name, standing="not asked", why=_why_not(word, rows.get(name), record, event))
    for name, row in rows.items() if record.judged else ():
        if name not in met and name not in record.not_asked and wants(row, record.event):
            why = row.get("why") or "the record says nothing about it"
            yield Considered(name=name, standing="not asked", why=str(why))


def _why_not(word: str, row: Row | None, record: Record, event: Event | None) -> str:
    if row is None:
        return word
    detail = ""
    if word == SkipReason.NOT_MATCHED and row.get("match"):
        target = (event.target if event is not None else None) or record.tool
        detail = f"match `{row['match']}` is not for `{target}`" if target else f"match `{row['match']}`"
    elif word == SkipReason.CONDITION_FALSE:
        wanted = " and ".join(f"{label} `{text}`" for label, text in conditions_in_words(row))
        detail = f"{wanted} is not true of {_about(record, event)}" if wanted else ""
    standing = str(row.get("why") or "") if row.get("state") != "runs" else ""
    return f"{word}: {'; '.join(filter(None, (detail, standing)))}".removesuffix(": ")


def _about(record: Record, event: Event | None) -> str:
    text = event.target or "" if event is not None else ""
    if record.tool:
        text = tools.command_of(record.tool, record.input) or tools.path_of(record.tool, record.input) or ""
    return f"`{text[:_LONGEST]}{'...' if len(text) > _LONGEST else ''}`" if text else "this"


def wants(row: Row, event: str) -> bool:
    """Whether a hook is for that event."""
    events = row.get("events")
    return not events or (isinstance(events, list) and event in events)


# -- the same event today


def event_of(record: Record) -> Event | None:
    """The event that a record is about, as far as the log has it; None: not enough of it to tell."""
    if record.tool is not None and not isinstance(record.input, Mapping):
        return None
    try:
        return parse(record.payload)
    except BillhookError:
        return None


def _today(record: Record, event: Event | None, config: Config) -> tuple[Explanation | None, list[str]]:
    if event is None:
        why = "the log has not enough of its input" if record.input is None else "its input is no event of today"
        return None, [f"what would become of it today: {why}"]
    untold = []
    if record.redacted:
        texts = "1 text was" if record.redacted == 1 else f"{record.redacted} texts were"
        untold.append(f"what rules would say to the whole input: {texts} redacted")
    try:
        return explain(config, event), untold
    except Exception as error:  # what a log has may be no input that any hook ever saw
        return None, [f"what would become of it today: {type(error).__name__}: {error}"]
