"""The rules of a folder as they are now, or others in their place, as judges of past events.

The real engine judges, on hooks that touch nothing: state is in memory, and hooks that run code don't run. What depends
on such a hook, on the files of that time or on redacted text is a doubt. An event with a doubt that could change the
decision is unknown, unless its record has the answer of the same hook.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from billhook.agents import AGENTS
from billhook.builtins import guard, impact, rate_limit
from billhook.config import actions, build, loader
from billhook.config.builtin_hooks import StandIn
from billhook.config.config import Config, as_data, content, read_snapshot, rows
from billhook.config.declaration import CONDITION_KEYS, LAYERS
from billhook.config.history import rows_of
from billhook.config.recorder import SessionLookup
from billhook.core import drive, strictjson
from billhook.core.answers import Decision, Verdict
from billhook.core.errors import BillhookError
from billhook.core.events import Event, parse
from billhook.core.hook import Condition, Context, Handler, Hook
from billhook.effects.conditions import AfterEffect, all_of, single
from billhook.effects.effect import Effect
from billhook.engine.engine import Engine
from billhook.engine.step import SHADOW
from billhook.runners.command import ConstantAnswer
from billhook.store.files import state_root
from billhook.store.log import OutcomeRecord, Record
from billhook.store.state import FileState, Value
from billhook.testing.expectations import deciders, outcome_of

RANK: Final = {str(decision): place for place, decision in enumerate(Decision)}
STRONGEST: Final = RANK[Decision.DENY]
_CODE: Final = frozenset({"run", "exec", "python", "url"})
_SAME: Final = ("events", "match", *CONDITION_KEYS, "dialect", "on_failure", "what", "kind")
_OWN_LAYERS: Final = ("managed", "fleet", "user")


# -- judgements


class Doubt(msgspec.Struct, frozen=True):
    """Something that could make the decision another one."""

    hook: str  # empty: no record can help
    why: str
    rank: int = STRONGEST  # of the strictest decision that it could lead to
    allows: bool = False  # it could allow what the guard stops
    total: bool = False  # nothing about the decision is certain


class Judgement(msgspec.Struct, frozen=True):
    """The decision about one event."""

    word: str  # allow, deny, ask, defer, none, stop, keep_going or rewrite; `unknown`
    by: tuple[str, ...] = ()
    reason: str = ""
    doubts: tuple[Doubt, ...] = ()
    by_guard: bool = False  # only the guard objects, and the user's own hooks can overrule it

    @classmethod
    def recorded(cls, one: OutcomeRecord) -> "Judgement":
        """The answer of one hook, as it was logged."""
        return cls(_word(one), (one.hook,), one.reason or "")

    @property
    def rank(self) -> int:
        return STRONGEST if self.word in ("stop", "keep_going") else RANK.get(self.word, 0)

    @property
    def open(self) -> tuple[Doubt, ...]:
        """The doubts that could change the decision."""
        matter = (one.total or one.rank > self.rank or (one.allows and self.by_guard) for one in self.doubts)
        return tuple(one for one, matters in zip(self.doubts, matter, strict=True) if matters)


NO_OBJECTION: Final = Judgement("none")


def _word(one: Record | OutcomeRecord) -> str:
    return "keep_going" if one.keep_going else "stop" if one.stop else one.decision


def judged_then(record: Record) -> Judgement:
    """The decision of the rules in a record, also where the user allowed the call once or paused the hook."""
    asked = any(one.hook == "approvals" and one.source == "built-in" for one in record.outcomes)
    word = "ask" if asked else _word(record)  # the rules asked, and a person answered
    if word in ("none", "allow") and any(one.rewrote_input for one in record.outcomes):
        word = "rewrite"
    then = Judgement(word, decided_by(record) if word != "none" else (), record.reason or "")
    waived = [(one, one.waived) for one in record.outcomes if one.waived is not None and one.waived.by != SHADOW]
    would = [Judgement(by.would.replace(" ", "_"), (one.hook,)) for one, by in waived]
    return max((then, *would), key=lambda one: one.rank)


def own_answers(record: Record) -> list[Judgement]:
    """The answers of the calling program's own hooks, which are in no file: they would be the same."""
    own = (Judgement.recorded(one) for one in record.outcomes if in_no_file(one))
    return [one for one in own if one.word != "none"]


class UnchangedHooks:
    """Which hooks were the same under an earlier configuration: then the record has their answers."""

    def __init__(self, config: Config, approved: Config) -> None:
        self._root = Path(config.root)
        self._now = {row.name: as_data(row) for row in rows(config)}
        self.approved = {row.name: as_data(row) for row in rows(approved)}
        self._content = strictjson.loads_own(strictjson.encode(content(config)))
        self._known: dict[str, frozenset[str]] = {}

    def resolved(self, found: Judgement, record: Record) -> Judgement:
        """The judgement with the recorded answers of doubtful hooks; `unknown` if one is missing."""
        same = self._of(record.config)
        best, left = found, list[Doubt]()
        for doubt in found.open:
            answer = None if doubt.total or doubt.hook not in same else _recorded(doubt, record)
            if answer is None:
                left.append(doubt)
            elif answer.rank > best.rank:
                best = answer
        return replace(found, word="unknown", doubts=tuple(left)) if left else replace(best, doubts=())

    def _of(self, hash_: str) -> frozenset[str]:
        if hash_ not in self._known:
            snapshot = read_snapshot(self._root, hash_) if hash_ else None
            self._known[hash_] = frozenset(self._same(snapshot)) if snapshot is not None else frozenset()
        return self._known[hash_]

    def _same(self, snapshot: Mapping[str, Any]) -> Iterator[str]:
        for name, then in rows_of(snapshot).items():
            now, approved = self._now.get(name), self.approved.get(name)
            if now is None or any(then.get(field) != now.get(field) for field in _SAME):
                continue
            if then.get("layer") == "built-in":
                if _settings(snapshot, name) == _settings(self._content, name):
                    yield name
            elif then.get("kind") not in _CODE:
                yield name
            elif approved is not None and then.get("hash") and approved.get("hash") == then["hash"]:
                yield name  # its files are the same, too


def _settings(snapshot: Mapping[str, Any], name: str) -> Any:
    """Everything that the decisions of a built-in depend on, apart from the call."""
    options = snapshot.get("builtins", {}).get(name.removeprefix("built-in/"))
    return snapshot.get("version"), options, snapshot.get("allowed", "unknown")


def _recorded(doubt: Doubt, record: Record) -> Judgement | None:
    """The recorded answer of the hook; None if the record has none, or not all of it."""
    for one in record.outcomes:
        if one.hook == doubt.hook and one.status != "skipped":
            allowed = one.source == "built-in" and any(each.decision == "allow" for each in record.outcomes)
            if one.rewrote_input or allowed:
                return None
            return Judgement.recorded(one)
    skipped = record.not_asked.get(doubt.hook, "")
    return NO_OBJECTION if skipped in ("condition false", "did not match") else None


MOST_CACHED: Final = 20_000  # judgements that are kept for equal events
_MOST_FOLDERS: Final = 32  # configurations that are kept, one for each folder and agent
_REDACTED: Final = b"[redacted "
_CONTENT: Final = frozenset({"content", "new_string", "old_string", "edits", "new_source", "file_text"})
"""Fields of a tool's input that are written to a file: no rule looks at them."""
_OF_THEIR_TIME: Final = frozenset({"file_exists", "changed_files", "has_secret"})
"""Tests of `when` that no record can answer."""


# -- records


def decided_by(record: Record) -> tuple[str, ...]:
    """The hooks whose answers became the decision, stopped the agent or kept it going. Where no outcome has the
    decision, the hooks that gave the reason."""
    strong = [one for one in record.outcomes if one.decision == record.decision != "none"]
    if record.stop or record.keep_going:
        strong += [one for one in record.outcomes if (one.stop if record.stop else one.keep_going)]
    if not strong and record.reason and (record.decision != "none" or record.stop or record.keep_going):
        strong = [one for one in record.outcomes if one.reason and one.reason in record.reason]
    return tuple(dict.fromkeys(one.hook for one in strong))


def in_no_file(one: OutcomeRecord) -> bool:
    return (one.source or "").partition(" ")[0] not in (*LAYERS, "built-in")


def event_of(record: Record) -> Event | None:
    """The event of a record, as far as the log has it; None: the log does not have enough of it."""
    if record.tool is not None and not isinstance(record.input, Mapping):
        return None
    try:
        return parse(record.payload)
    except BillhookError:
        return None


# -- hooks that touch nothing


class MemoryState(FileState):
    """State that is forgotten at the end."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._records: dict[tuple[str, str], Value] = {}

    def read(self, kind: str, key: str) -> Value | None:
        return self._records.get((kind, key))

    def value(self, kind: str, key: str, make: Callable[[Value | None, str], Any]) -> Any:
        return make(self.read(kind, key), key)

    def update(self, kind: str, key: str, change: Callable[[Value | None], Value | None]) -> Value | None:
        after = change(self.read(kind, key))
        if after is not None:
            self._records[kind, key] = after
        return after


class Moment:
    """The moment of the event that is judged, and the doubts about it so far."""

    def __init__(self) -> None:
        self.now = 0.0
        self.logged = True  # False: the call is from a transcript, perhaps from before billhook was installed
        self.doubts: list[Doubt] = []

    def clock(self) -> float:
        return self.now


class UnknownAnswer(msgspec.Struct, frozen=True):
    """In place of a hook that runs code, and of a condition that depends on files of that time: no answer, false."""

    doubt: Doubt
    past: Moment

    def __call__(self, ctx: Context) -> None:
        self.past.doubts.append(self.doubt)


class PastGuard(guard.Guard, frozen=True):
    """The guard without a look at uncommitted work, branches and stashes: they were others then."""

    past: Moment
    name: str

    def judged(self, effects: tuple[Effect, ...], cwd: str) -> list[guard.EffectVerdict]:
        open_ = [effect for effect in effects if impact.depends_on_files(effect, cwd)]
        certain = [effect for effect in effects if effect not in open_]
        found = super().judged(tuple(certain), cwd)
        for effect in open_:
            if effect.kind == "disarm" and not self.past.logged:
                continue
            low, high = (self._decided(one) for one in impact.possible(effect))
            found.append(guard.EffectVerdict(effect, low))
            if low != high:
                why = f"the guard's answer depends on the files of that time ({effect.kind})"
                self.past.doubts.append(Doubt(self.name, why, RANK.get(high, 0)))
        return [one for one in found if one.decision != "-"]

    def _decided(self, effect: Effect | None) -> str:
        return "-" if effect is None else guard.decision_of(effect, self.settings)


class _Substitutes:
    """The hooks of a configuration, as they can judge the past."""

    def __init__(self, config: Config, past: Moment, state: FileState, runnable: frozenset[str]) -> None:
        """`runnable`: the hooks that may run code."""
        self.past, self.state, self.runnable = past, state, runnable
        self.unknown: list[str] = []  # hooks whose results are not known
        self.stateful: list[Hook] = []  # hooks that depend on earlier events
        self.codes: list[Hook] = []  # hooks that run code
        named = zip(config.plan.hooks, config.plan.names, strict=True)
        self.hooks = [self._of(hook, name) for hook, name in named]

    def _of(self, hook: Hook, name: str) -> Hook:
        run = self._run(hook, name)
        if run is nothing or isinstance(run, UnknownAnswer):
            self.unknown.append(name.rpartition("/")[2])
        own = hook.source.layer in _OWN_LAYERS
        rank = _rank_of(run)
        allows = own and (rank == RANK[Decision.ALLOW] or isinstance(run, UnknownAnswer))
        condition = self._condition(
            hook, Doubt(name, f"{name}: a condition depends on files of that time", rank, allows)
        )
        return replace(hook, run=run, condition=condition, background=False, shadow=False, review=None)

    def _run(self, hook: Hook, name: str) -> Handler:
        run = hook.run
        observes = hook.source.layer == "built-in" and not hook.gate
        if observes or hook.background or hook.shadow or isinstance(run, actions.OutputMask):
            return nothing
        if isinstance(run, guard.Guard):
            return PastGuard(replace(run.protected, compares=False), run.settings, self.past, name)
        if isinstance(run, rate_limit.RateLimiter):
            if any(limit.spends for limit, _ in run.limits):
                return UnknownAnswer(Doubt(name, f"{name} depends on the tokens at that time"), self.past)
            self.stateful.append(hook)
            clock = self.past.clock
            return rate_limit.RateLimiter(self.state, run.limits, run.project, clock, run.tokens, shared=False)
        if isinstance(run, actions.Persistent) and not isinstance(run.run, actions.CommandOutput):
            self.stateful.append(hook)
            return replace(run, state=self.state)
        if (
            isinstance(run, ConstantAnswer | actions.TemplateAnswer | actions.InputRewrite | StandIn)
            or hook.source.layer == "built-in"
        ):
            return run
        if isinstance(run, actions.FileContent):
            return nothing if not hook.gate else UnknownAnswer(Doubt(name, f"{name} reads a file"), self.past)
        if name in self.runnable:
            self.codes.append(hook)
            return run
        own = hook.source.layer in _OWN_LAYERS
        return UnknownAnswer(Doubt(name, f"{name} runs code", allows=own), self.past)

    def _condition(self, hook: Hook, doubt: Doubt) -> Condition | None:
        known: list[Condition] = []
        last: list[Condition] = []
        for one in single(hook.condition) if hook.condition is not None else ():
            if isinstance(one, build.Cooldown):
                self.stateful.append(hook)
                last.append(replace(one, state=self.state, clock=self.past.clock))
            elif isinstance(one, build.OnBranch) or (
                isinstance(one, build.EventTests) and _OF_THEIR_TIME & dict(build.each_test(one.tests)).keys()
            ):
                last.insert(0, UnknownAnswer(doubt, self.past))
            elif isinstance(one, build.EventTests) and any(map(self._is_result, dict(build.each_test(one.tests)))):
                why = doubt.why.replace("files of that time", "a hook that runs code")
                last.insert(0, UnknownAnswer(replace(doubt, why=why), self.past))
            else:
                if isinstance(one, AfterEffect):
                    self.stateful.append(hook)
                known.append(one)
        return all_of([*known, *last])

    def _is_result(self, test: str) -> bool:
        """Whether it tests a result that is not known: `results.NAME.FIELD`."""
        return test.startswith("results.") and test.split(".")[1] in self.unknown


def nothing(ctx: Context) -> None:
    """In place of a hook that never decides."""


def _rank_of(run: Handler) -> int:
    """The rank of the strictest answer of a handler."""
    if isinstance(run, ConstantAnswer):
        answer = run.answer
        return STRONGEST if answer.stop or answer.keep_going else RANK[answer.decision]
    if isinstance(run, actions.TemplateAnswer):
        return RANK.get(run.decision, STRONGEST if run.decision in ("stop", "keep_going") else 0)
    return STRONGEST


# -- one configuration


class Judge:
    """One configuration that judges past events in their order."""

    def __init__(
        self, config: Config, approved: Config, state: FileState, *, host: str = "", run_commands: bool = False
    ) -> None:
        """`config` has the rules, `approved` what the user has approved of them."""
        self.config, self._past, self._state = config, Moment(), state
        may_run = [entry.shown for entry in approved.entries if entry.state == "runs" and run_commands]
        found = _Substitutes(config, self._past, state, frozenset(may_run))
        self._stateful, self._codes = found.stateful, found.codes
        observers = list(config.noting(state))
        self._noted = {event for one in observers for event in one.EVENTS}
        self._engine = Engine(
            found.hooks,
            observers=observers,
            env={"CLAUDE_PROJECT_DIR": config.project, "BILLHOOK_AGENT": host},
            know=SessionLookup(state, config.project, names=False, turns=True),
        )
        self._deciding = [hook for hook in self._engine.hooks if hook.run is not nothing]
        self._work: dict[str, str] = {}
        self._cache: dict[bytes, Judgement] = {}
        self._unchanged = UnchangedHooks(config, approved)

    @property
    def unapproved(self) -> list[str]:
        """Hooks that count here although the user has not approved them."""
        waiting = [name for name, row in self._unchanged.approved.items() if row["state"] in ("new", "changed")]
        return [entry.shown for entry in self.config.entries if entry.state == "runs" and entry.shown in waiting]

    @property
    def remembers(self) -> bool:
        """Whether hooks depend on earlier events."""
        return bool(self._stateful)

    def judge(self, record: Record) -> Judgement:
        """The decision about a recorded event now; `unknown` where that can't be known."""
        found = self._judged(record)
        if found.open:
            found = self._unchanged.resolved(found, record)
        own = own_answers(record) if record.decision != "none" or record.stop or record.keep_going else ()
        return max((found, *own), key=lambda one: one.rank) if own and not found.open else found

    def judge_single(self, record: Record) -> Judgement:
        """The same for one event, without those before it."""
        found = self.judge(record)
        if any(hook.handles(record.event) for hook in self._stateful):
            doubt = Doubt("", "it depends on earlier events of the session; `billhook replay` judges all", total=True)
            found = replace(found, word="unknown", doubts=(*found.doubts, doubt))
        return found

    def _judged(self, record: Record) -> Judgement:
        event = record.event
        work = self._work.get(event) or self._work_for(event)
        if work != "once":
            return self._fired(record, b"") if work == "each" else NO_OBJECTION
        key = _ENCODER.encode(
            (event, record.tool, record.cwd, record.permission_mode, record.agent_id, record.input, record.fields)
        )
        found = self._cache.get(key)
        if found is None:
            if len(self._cache) >= MOST_CACHED:
                self._cache.clear()
            found = self._cache[key] = self._fired(record, key)
        return found

    def _work_for(self, event: str) -> str:
        """Whether an event needs no judgement, one for equal records, or one for each record."""
        each = event in self._noted or any(hook.handles(event) for hook in (*self._stateful, *self._codes))
        some = any(hook.handles(event) for hook in self._deciding)
        self._work[event] = "each" if each else "once" if some else "none"
        return self._work[event]

    def _fired(self, record: Record, key: bytes) -> Judgement:
        event = event_of(record)
        if event is None:
            why = "the log does not have its input" if record.input is None else "its input is not a valid event"
            return Judgement("unknown", doubts=(Doubt("", why, total=True),))
        past = self._past
        past.doubts, past.now, past.logged = [], _seconds(record.time), bool(record.seq)
        sequence = record.turn_id.rpartition(":")[2]
        if record.session_id and sequence.isdecimal():
            self._state.update("turns", record.session_id, lambda _: {"sequence": int(sequence), "subagentSeq": 0})
        firing = self._engine.fire(event)
        verdict = drive.run(firing) if self._codes else _finished(firing)
        doubts = (*self._of_event(event, record, key), *past.doubts)
        by, reason = deciders(verdict), verdict.reason or verdict.stop_reason
        by_guard = [one.source for one in verdict.outcomes if one.hook in by] == ["built-in"]
        return Judgement(outcome_of(verdict), by, reason, doubts, by_guard)

    def _of_event(self, event: Event, record: Record, key: bytes) -> Iterator[Doubt]:
        """Doubts about what the record contains."""
        if (record.redacted or _REDACTED in key) and self._looks_at_redacted(event, record):
            yield Doubt("", "a part of its input was redacted", total=True)
        acts = any(effect.kind != "read" for effect in getattr(event, "effects", ())) if record.tool else False
        if acts and not os.path.isdir(record.cwd):
            yield Doubt("", "its folder no longer exists", total=True)

    def _looks_at_redacted(self, event: Event, record: Record) -> bool:
        given = record.input
        if record.tool and isinstance(given, Mapping):
            given = {key: value for key, value in given.items() if key not in _CONTENT}
        if _REDACTED not in _ENCODER.encode((given, record.fields)):
            return False
        steps = self._engine.plan.steps(event)
        return any(step.hook.condition is not None or isinstance(step.run, _LOOKING) for step in steps)


_LOOKING: Final = (PastGuard, actions.InputRewrite, rate_limit.RateLimiter)
_ENCODER: Final = msgspec.json.Encoder()


def _finished(firing: Coroutine[Any, Any, Verdict]) -> Verdict:
    """The result of a coroutine that never waits; an event loop would take longer than the hooks."""
    try:
        firing.send(None)
    except StopIteration as end:
        found: Verdict = end.value
        return found
    raise AssertionError("a hook waits that must not run")


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0


# -- many configurations


class Judges:
    """The configurations of the folders in which events happened."""

    def __init__(
        self, instead: loader.Instead | None = None, *, files: Sequence[str] = (), run_commands: bool = False
    ) -> None:
        """`instead`: other contents of files with rules; `files`: more files with rules."""
        self._instead, self._files, self._run_commands = instead or {}, files, run_commands
        self._state = MemoryState(state_root())  # one for all folders: a session may change its folder
        self._known: OrderedDict[tuple[str, str], Judge] = OrderedDict()

    def of(self, cwd: str, host: str) -> Judge:
        key = cwd, host
        if key not in self._known:
            if len(self._known) >= _MOST_FOLDERS:
                self._known.popitem(last=False)
            self._known[key] = self._build(cwd, host.removeprefix("http:"))
        return self._known[key]

    def _build(self, cwd: str, host: str) -> Judge:
        inside = host if host in AGENTS else ""
        approved = loader.load_for_cwd(cwd, self._files, host=inside)
        config = loader.load_instead(cwd, self._instead, self._files, host=inside)
        return Judge(config, approved, self._state, host=host, run_commands=self._run_commands)
