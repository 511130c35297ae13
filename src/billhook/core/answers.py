"""A hook's answer (Answer), what happened when it ran (Outcome), and the Verdict that outcomes are folded into."""

import enum
import functools
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
from msgspec import UNSET as UNSET  # noqa: PLC0414 - exported: no hook rewrote it

from billhook.core.events import Block, Event
from billhook.core.strictjson import dumps


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """What a child returned, or what we return as a child. Exactly one of `code`, `signal`, `timed_out` and
    `start_error` tells how it ended. Output is bytes as printed, cut at a cap; `truncated`: there was more."""

    code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    timed_out: bool = False
    start_error: str = ""  # why the child could not be started, with the name of the errno; empty when it started
    lost: bool = False
    """Other code collected the exit status (a host that ignores SIGCHLD): how the child ended is unknown."""

    @property
    def stdout_text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def stderr_text(self) -> str:
        return self.stderr.decode("utf-8", "replace")


# A hook's answer (Answer), what happened when it ran (Outcome), what the agent acts on (Verdict).


class Decision(enum.StrEnum):
    """Weakest first. `none` is "no objection", never approval: the permission flow continues as if no hook had run."""

    NONE = "none"
    ALLOW = "allow"
    ASK = "ask"
    DEFER = "defer"
    DENY = "deny"


class Status(enum.StrEnum):
    """How the run of a hook ended."""

    OK = "ok"
    SKIPPED = "skipped"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    COULD_NOT_START = "could_not_start"
    BACKGROUND = "background"


OnFailure = Literal["allow", "deny", "ask"]


class SkipReason(enum.StrEnum):
    """Why a hook did not run, as the event log spells it. Two reasons are shown with their cause."""

    CONDITION_FALSE = "condition false"
    CONDITION_RAISED = "condition raised"
    DENIED = "denied"
    STOPPED = "stopped"
    NOT_MATCHED = "did not match"
    NOT_JUDGED = "the event was not judged"
    DISABLED = "disabled"
    NOT_TRUSTED = "not trusted"
    BROKEN = "broken"
    NOT_YET = "not run yet"
    SAME = "same as another"
    ELSEWHERE = "run by the agent itself"


class Skipped(msgspec.Struct, frozen=True):
    """Why a hook of this event did not run."""

    reason: SkipReason
    by: str = ""  # the hook that ended the run, or the error that its condition raised

    def __str__(self) -> str:
        return _SENTENCES.get(self.reason, self.reason.value).format(by=self.by)

    @property
    def recorded(self) -> str:
        """The same as the event log spells it."""
        return str(self) if self.reason in _ENDS else self.reason.value

    @classmethod
    def from_recorded(cls, text: str) -> "Skipped | None":
        """The reason from the text in the event log; None for any other text."""
        for reason in _ENDS:
            before, _, after = _SENTENCES[reason].partition("{by}")
            by = text.removeprefix(before).removesuffix(after)
            if by and text == f"{before}{by}{after}":
                return cls(reason, by=by)
        return cls(SkipReason(text)) if text in _REASONS else None


_SENTENCES = {
    SkipReason.CONDITION_FALSE: "its condition is false",
    SkipReason.CONDITION_RAISED: "its condition raised {by}",
    SkipReason.DENIED: "`{by}` answered deny",
    SkipReason.STOPPED: "`{by}` answered stop",
    SkipReason.NOT_TRUSTED: "not approved",
}
_ENDS = (SkipReason.DENIED, SkipReason.STOPPED)  # another hook ended the run: the log names it
_REASONS = frozenset(SkipReason) - set(_ENDS)

FAILURES = frozenset({Status.FAILED, Status.TIMED_OUT, Status.COULD_NOT_START})

_RANK = {decision: rank for rank, decision in enumerate(Decision)}
_NONE, _DENY, _OK = Decision.NONE, Decision.DENY, Status.OK


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A hook's answer. Everything is optional; authors write `return deny("...")` or return nothing."""

    decision: Decision = Decision.NONE
    reason: str = ""
    context: str = ""  # for the model
    objection: str = ""
    """The part of `context` that was a block of something that already happened: Claude Code shows it as one."""
    message: str = ""  # for the user
    updated_input: dict[str, Any] | None = None
    updated_output: Any = UNSET
    keep_going: bool = False
    stop: bool = False
    stop_reason: str = ""
    quiet: bool = False
    data: Any = None  # For later hooks: `ctx.results[...].data`
    background: float | bool = False  # the real answer comes later: True, or after at most so many seconds
    extras: dict[str, Any] = {}  # fields of one event only (`sessionTitle`, `watchPaths` ...), by their wire names

    @property
    def plain(self) -> bool:
        """It can be used as it is: it is here now, and all its fields have the right types."""
        return (
            type(self.decision) is Decision
            and not self.background
            and type(self.reason) is str
            and type(self.context) is str
            and type(self.message) is str
            and type(self.stop_reason) is str
            and type(self.extras) is dict
            and (self.updated_input is None or type(self.updated_input) is dict)
        )

    def tidy(self) -> "Answer":
        """The same as its author clearly meant it: `deny(error)` has the error's text as its reason, `decision="deny"`
        is the decision. Raises TypeError or ValueError for values without such a meaning."""
        decision = Decision(self.decision)
        rewritten = None if decision is _DENY else self.updated_input  # a deny counts, whatever else is wrong
        if rewritten is not None and not isinstance(rewritten, Mapping):
            raise TypeError(f"the rewritten input is {type(self.updated_input).__name__}, but it must be a dict")
        texts = {field: getattr(self, field) for field in ("reason", "context", "message", "stop_reason")}
        return msgspec.structs.replace(
            self,
            decision=decision,
            updated_input=None if rewritten is None else dict(rewritten),
            extras=dict(self.extras or {}),
            **{field: "" if value is None else str(value) for field, value in texts.items()},
        )

    def beside_objection(self, join: str) -> str:
        """The context without the objection in it."""
        if not self.objection:
            return self.context
        before, _, after = self.context.partition(self.objection)
        return join.join(filter(None, (before.strip(), after.strip())))

    @property
    def rewrites(self) -> bool:
        return self.updated_input is not None or self.updated_output is not UNSET

    @property
    def has_content(self) -> bool:
        """It has something for the agent or the user: data alone is for later hooks."""
        return self is not NOTHING and (
            self.decision is not _NONE
            or self.updated_input is not None
            or self.updated_output is not UNSET
            or bool(self.reason or self.context or self.message or self.keep_going or self.stop or self.stop_reason)
            or bool(self.quiet or self.extras or self.objection or self.background)
        )

    @property
    def objects(self) -> bool:
        """It blocks something: later hooks are skipped."""
        return self.decision is _DENY or self.stop


NOTHING = Answer()  # the empty answer


# -- makers, for hook authors --------------------------------------------------------------------------------------


def allow(reason: str = "") -> Answer:
    """Approve: skip the permission prompt. A deny or ask rule of the user still wins."""
    return Answer(decision=Decision.ALLOW, reason=reason)


def deny(reason: str) -> Answer:
    """Refuse. The reason goes to the model."""
    return Answer(decision=Decision.DENY, reason=reason)


def ask(reason: str = "") -> Answer:
    """Let the user decide."""
    return Answer(decision=Decision.ASK, reason=reason)


def defer(reason: str = "") -> Answer:
    """Leave the call pending: the run ends, and the question is repeated when it is resumed."""
    return Answer(decision=Decision.DEFER, reason=reason)


def inject(context: str) -> Answer:
    """Tell the model something."""
    return Answer(context=context)


def notify(message: str) -> Answer:
    """Tell the user something."""
    return Answer(message=message)


def rewrite(*, input: dict[str, Any] | None = None, output: Any = UNSET) -> Answer:  # noqa: A002 - the usual words for them
    """Replace the whole input before the tool runs, or the whole output afterwards."""
    return Answer(updated_input=input, updated_output=output)


def keep_going(reason: str) -> Answer:
    """On Stop: do not stop; the reason tells what to do next."""
    return Answer(keep_going=True, reason=reason)


def stop(reason: str = "") -> Answer:
    """End the agent's run. Before a tool it also denies the call."""
    return Answer(stop=True, stop_reason=reason)


# -- read from a hook -------------------------------------------------------------------------------------


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer with the evidence of how it was obtained: returned by a `run` that calls another program or server."""

    answer: Answer = NOTHING
    status: Status = Status.OK
    error: str = ""
    exit_code: int | None = None
    signal: int | None = None
    lost: tuple[str, ...] = ()
    on_failure: OnFailure | None = None  # the protocol's own rule for this failure, when it is stricter than the hook's
    output_bytes: int | None = None  # how much it printed or sent, where that is known
    later: Callable[[float], Awaitable["Reply"]] | None = None
    """Waits for the remaining part of an answer that comes later, for at most so many seconds."""


class WaivedAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer that does not count, and why: `shadow`, `paused`, or `allowed once (CODE)`."""

    by: str
    would: str = "none"  # what the answer would have done, in one word
    reason: str = ""

    @classmethod
    def of(cls, by: str, answer: Answer) -> "WaivedAnswer":
        """The answer in a word and its text."""
        rewrites = answer.updated_input is not None or answer.updated_output is not UNSET
        done = {"stop": answer.stop, "keep going": answer.keep_going, "rewrite": rewrites}
        done |= {"context": bool(answer.context), "message": bool(answer.message)}
        word = next((word for word, does in done.items() if does), "none")
        text = answer.reason or answer.stop_reason or answer.context or answer.message
        return cls(by, word if answer.decision is _NONE else answer.decision.value, text)

    def __str__(self) -> str:
        return f"{self.by}: would have answered {self.would}{f': {self.reason}' if self.reason else ''}"


class Outcome(msgspec.Struct, frozen=True):
    """What happened when a hook ran. Only the engine makes one, so a hook can't forge it."""

    hook: str
    source: str = ""
    dialect: str = ""
    status: Status = Status.OK
    answer: Answer = NOTHING
    duration_ms: float = 0.0
    failed_open: bool = False
    exit_code: int | None = None
    signal: int | None = None
    error: str = ""
    lost: tuple[str, ...] = ()
    output_bytes: int | None = None
    skipped: Skipped | None = None  # why it did not run, if the engine decided that; `error` has the sentence
    waived: WaivedAnswer | None = None  # the answer, if it does not count; `answer` is empty then
    code: str = ""  # with this code, the user can allow the call once

    @property
    def success(self) -> bool:
        return self.status not in FAILURES

    @property
    def data(self) -> Any:
        return self.answer.data

    @property
    def block(self) -> bool:
        return self.answer.decision is _DENY

    @property
    def block_reason(self) -> str:
        return self.answer.reason if self.block else ""

    @property
    def context_to_inject(self) -> str:
        return self.answer.context

    def to_dict(self) -> dict[str, Any]:
        return {
            "hook": self.hook,
            "source": self.source or None,
            "dialect": self.dialect,
            "status": self.status.value,
            "decision": self.answer.decision.value,
            "reason": self.answer.reason or self.answer.stop_reason or None,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "failed_open": self.failed_open,
            "duration_ms": round(self.duration_ms, 3),
            "error": self.error or None,
            "lost": list(self.lost),
            **({} if self.data is None else {"data": self.data}),
            **({} if self.waived is None else {"waived": msgspec.to_builtins(self.waived)}),
        }


class HookIdentity(Protocol):
    """The hook that a raw outcome is about."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def dialect(self) -> str: ...


RawOutcome = Outcome | tuple[HookIdentity, float, float]
"""What happened when a hook ran; (hook, began, ended) for an empty answer.

Most answers are empty; their outcomes are made when they are read.
"""


def to_outcome(raw: RawOutcome) -> Outcome:
    if type(raw) is not tuple:  # faster than isinstance, which calls the metaclass
        return raw  # type: ignore[return-value]
    hook, began, ended = raw
    return Outcome(hook.name, hook.source, hook.dialect, _OK, NOTHING, (ended - began) * 1e3)


def new_id() -> str:
    """An id for a verdict: 48 bits of milliseconds, so that ids sort by time, then 80 random bits."""
    try:
        random = _random.pop()
    except IndexError:
        more = os.urandom(10 * 64).hex()
        _random.extend(more[at : at + 20] for at in range(20, len(more), 20))
        random = more[:20]
    return f"{time.time_ns() // 1_000_000:012x}{random}"


_random: list[str] = []  # many are requested from the system at once
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.clear)  # a child makes its own


class Verdict(msgspec.Struct, frozen=True, dict=True):
    """What the agent acts on, with all outcomes as evidence. One firing makes one verdict."""

    about: Event
    raw_outcomes: Sequence[RawOutcome] = ()
    duration_ms: float = 0.0
    decision: Decision = Decision.NONE
    reason: str = ""
    context: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    tool_input: dict[str, Any] | None = None  # the input as rewritten; None: no hook rewrote it
    tool_output: Any = UNSET  # the output as rewritten; UNSET: no hook rewrote it
    keep_going: bool = False
    stop: bool = False
    stop_reason: str = ""
    failed_open: int = 0
    extras: dict[str, Any] | None = None
    quiet: bool = False  # all hooks with an answer hide it from the user (`suppressOutput`)

    @property
    def event(self) -> str:
        return self.about.hook_event_name

    @functools.cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What happened when each hook ran, in their order."""
        return tuple(map(to_outcome, self.raw_outcomes))

    @functools.cached_property
    def has_content(self) -> bool:
        """There is something for the agent or the user besides a reason; most events have nothing."""
        return (
            self.decision is not _NONE
            or self.tool_input is not None
            or self.tool_output is not UNSET
            or bool(self.context or self.messages or self.stop or self.keep_going or self.extras or self.quiet)
        )

    @functools.cached_property
    def id(self) -> str:
        return new_id()

    def with_id(self, id: str) -> "Verdict":  # noqa: A002 (the name of the field)
        """The same verdict, with an id that was reserved before it existed."""
        self.__dict__["id"] = id
        return self

    @property
    def denied(self) -> bool:
        return self.decision is _DENY

    @property
    def how_to_allow(self) -> str:
        """How the user can allow the call, for an agent that can't ask: `how_to_allow` in the data of the hooks that
        ask. Empty if one of them has none."""
        if once := self.how_to_allow_once:
            return once
        asking = [one.answer.data for one in self.outcomes if one.answer.decision is Decision.ASK]
        told = [data.get("how_to_allow") if isinstance(data, dict) else None for data in asking]
        return " ".join(dict.fromkeys(map(str, told))) if all(told) else ""

    @property
    def how_to_allow_once(self) -> str:
        """The command that allows this call once; empty if one of the deciding hooks can't be overridden."""
        codes = [one.code for one in self.outcomes if one.answer.decision is self.decision]
        if not codes or not all(codes) or self.stop:
            return ""
        return f"The user can allow this call once: `billhook allow-once {' '.join(dict.fromkeys(codes))}`"

    def as_answer(self, join: str = "\n\n") -> Answer:
        """The verdict as one answer: billhook's answer when it is itself a hook."""
        only: Answer | None = self.__dict__.get("only")
        if only is not None:
            return only
        objection, context = "", self.context
        if self.about.block is Block.MODEL and context:
            objection = _joined(outcome.answer.objection for outcome in self.outcomes)
            others = (outcome.answer.beside_objection(join) for outcome in self.outcomes)
            context = (objection, *filter(None, others)) if objection else context
        return Answer(
            decision=self.decision,
            reason=self.reason,
            context=join.join(context) if context else "",
            objection=objection,
            message="\n".join(self.messages) if self.messages else "",
            updated_input=self.tool_input,
            updated_output=self.tool_output,
            keep_going=self.keep_going,
            stop=self.stop,
            stop_reason=self.stop_reason,
            quiet=self.quiet,
            extras=self.extras or {},
        )

    @property
    def warnings(self) -> list[str]:
        """One line for each hook that failed, or whose answer was only partly used. Always show these."""
        lines = []
        for outcome in self.outcomes:
            if outcome.status is _OK and not outcome.lost:
                continue
            if outcome.status in FAILURES:
                ignored = outcome.failed_open or outcome.waived is not None
                effect = "the event continued without its answer" if ignored else "its on_failure applied"
                lines.append(f"hook `{outcome.hook}` {outcome.status.replace('_', ' ')}: {outcome.error} ({effect})")
            elif outcome.skipped is not None and outcome.skipped.reason is SkipReason.CONDITION_RAISED:
                lines.append(f"hook `{outcome.hook}` was skipped: {outcome.error}")
            lines.extend(f"hook `{outcome.hook}`: {lost}" for lost in outcome.lost)
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON, the same object everywhere: `--json`, the log, the HTTP answer."""
        shown = {
            "id": self.id,
            "event": self.event,
            "decision": self.decision.value,
            "reason": self.reason or None,
            "context": list(self.context),
            "messages": list(self.messages),
            "tool_input": self.tool_input,
            "tool_output": None if self.tool_output is UNSET else self.tool_output,
            "keep_going": self.keep_going,
            "stop": self.stop,
            "stop_reason": self.stop_reason or None,
            "failed_open": self.failed_open,
            "duration_ms": round(self.duration_ms, 3),
            "outcomes": [outcome.to_dict() for outcome in self.outcomes],
        }
        return {**shown, "extras": self.extras} if self.extras else shown

    def to_json(self) -> str:
        return dumps(self.to_dict())


# -- folding -------------------------------------------------------------------------------------------------------

Combine = Literal["strictest", "first"]


def fold(
    event: Event, outcomes: Sequence[RawOutcome], combine: Combine = "strictest", duration_ms: float = 0.0
) -> Verdict:
    """Fold outcomes, in the order in which hooks are configured, into one verdict.

    deny > defer > ask > allow > none over all answers; every reason of the winning decision is kept, and the last
    rewrite wins. `combine="first"` takes the first decision instead (the literal reading of seed 001's sample).
    """
    answers: list[Answer] = []
    open_passes = 0
    for raw in outcomes:
        if type(raw) is tuple:  # an empty answer
            continue
        open_passes += raw.failed_open  # type: ignore[union-attr]
        answer = raw.answer  # type: ignore[union-attr]
        if answer is not NOTHING and (answer.decision is not _NONE or answer.has_content):
            answers.append(answer)
    if not answers:
        silent = Verdict(event, outcomes, failed_open=open_passes, duration_ms=duration_ms)
        # The values of these properties, which would cost more to compute there.
        silent.__dict__.update(outcomes=tuple(map(to_outcome, outcomes)), has_content=False)
        return silent
    if len(answers) == 1:
        return _only(event, outcomes, answers[0], open_passes, duration_ms)

    stopped = any(answer.stop for answer in answers)
    stop_reason = _joined(answer.stop_reason for answer in answers if answer.stop)
    going = event.block is Block.KEEP_GOING and not stopped and any(answer.keep_going for answer in answers)
    decision = _decide(answers, combine)
    reason = _joined(answer.reason for answer in answers if _counts(answer, decision, going))
    if stopped and event.hook_event_name == "PreToolUse" and decision is not _DENY:
        decision, reason = _DENY, stop_reason
    quiet = all(answer.quiet for answer in answers)
    return Verdict(
        event,
        outcomes,
        decision=decision,
        reason=reason,
        context=tuple(answer.context for answer in answers if answer.context),
        messages=tuple(answer.message for answer in answers if answer.message and (quiet or not answer.quiet)),
        tool_input=_last(answer.updated_input for answer in answers if answer.updated_input is not None),
        tool_output=_last((answer.updated_output for answer in answers if answer.updated_output is not UNSET), UNSET),
        keep_going=going,
        stop=stopped,
        stop_reason=stop_reason,
        failed_open=open_passes,
        duration_ms=duration_ms,
        extras={key: value for answer in answers for key, value in answer.extras.items()} or None,
        quiet=quiet,
    )


def _only(
    event: Event, outcomes: Sequence[RawOutcome], answer: Answer, open_passes: int, duration_ms: float
) -> Verdict:
    """The same for one answer, the usual case."""
    decision, reason, stopped = answer.decision, answer.reason, answer.stop
    going = answer.keep_going and not stopped and event.block is Block.KEEP_GOING
    if answer.keep_going and not _counts(answer, decision, going):
        reason = ""
    if stopped and decision is not _DENY and event.hook_event_name == "PreToolUse":
        decision, reason = _DENY, answer.stop_reason
    verdict = Verdict(
        event,
        outcomes,
        duration_ms,
        decision,
        reason,
        (answer.context,) if answer.context else (),
        (answer.message,) if answer.message else (),
        answer.updated_input,
        answer.updated_output,
        going,
        stopped,
        answer.stop_reason if stopped else "",
        open_passes,
        answer.extras or None,
        answer.quiet,
    )
    odd = stopped or answer.keep_going or answer.stop_reason or answer.objection or answer.background
    if not odd and answer.data is None:
        verdict.__dict__["only"] = answer  # `as_answer` would make it again
    return verdict


def _decide(answers: Iterable[Answer], combine: Combine) -> Decision:
    decisions = [answer.decision for answer in answers if answer.decision is not _NONE]
    if combine == "first":
        # The sample looks for allow and deny only, and returns "ask" if it finds neither.
        settled = [decision for decision in decisions if decision in (Decision.ALLOW, _DENY)]
        decisions = settled[:1] or decisions[:1]
    return max(decisions, key=_RANK.__getitem__, default=_NONE)


def _counts(answer: Answer, decision: Decision, going: bool) -> bool:
    """Whether the answer's reason becomes part of the verdict's: it won, or it makes the agent continue."""
    if answer.keep_going and answer.decision is _NONE:
        return going
    return answer.decision is decision


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(text for text in texts if text))


def _last(values: Iterable[Any], default: Any = None) -> Any:
    for value in values:
        default = value
    return default
