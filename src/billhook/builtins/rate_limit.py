"""A maximum of calls per turn, session or minute, of minutes per turn or session, or of tokens or cost per session:
then calls are denied, or the user is asked.

A call counts when it is allowed here: a call that was denied, or asked about, does not count. A limit whose count can't
be read or written denies every call. Turns come from turn-tracker; without it, a session is one turn. Calls of agents
that name no session count together in their project, per hour instead of per turn and session. Tokens are read from
the agent's transcript, with the prices that the user wrote.
"""

import math
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from billhook.builtins.trackers import turn_of
from billhook.core.answers import NOTHING, Answer, ask, deny
from billhook.core.hook import Context, Hook, Source
from billhook.effects.rules import When, condition
from billhook.store import files
from billhook.store.files import StoreError
from billhook.store.state import FileState, Value

Tokens = Sequence[int]  # input, output, read from the cache, written to it
ReadTokens = Callable[[dict[str, Any], str, str], Mapping[str, Tokens]]
"""The tokens of a session by model, from what it kept of earlier calls (which it updates), the transcript and the
session."""
NAME: Final = "rate-limit"
SECONDS: Final = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a million tokens of a model cost, in the currency of the limit."""

    input: float
    output: float
    cache_read: float | None = None  # None: the price of input
    cache_write: float | None = None

    def of(self, tokens: Tokens) -> float:
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        prices = (self.input, self.output, read, write)
        return sum(number * price for number, price in zip(tokens, prices, strict=True)) / 1e6


class RateLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How often the calls that match a rule are allowed."""

    rule: str | None = None  # a permission rule such as `Bash(curl *)`; None: every tool call
    at_most: Annotated[int, msgspec.Meta(ge=0)] | Annotated[float, msgspec.Meta(ge=0)]  # whole, except for a cost
    per: Literal["turn", "session", "minute", "hour", "day"] = "session"
    """`minute`: any 60 seconds of the session; `hour`: any 60 minutes, used for turn and session without a session.
    With `scope: fleet` a minute, hour or day of the server's clock."""
    of: Literal["calls", "minutes", "tokens", "cost"] = "calls"
    """What `at_most` counts. Minutes begin with the first such call; tokens and cost are those of the whole session."""
    prices: dict[str, Price] = {}  # for a cost: by glob of the model; the first that matches decides
    then: Literal["deny", "ask"] = "deny"
    scope: Literal["session", "fleet"] = "session"  # `fleet`: the calls of all machines count together
    offline: Literal["local", "deny"] = "local"
    """What happens when the fleet's counter does not answer in time: count on this machine, or deny."""
    reason: str = ""  # printed before the limit itself

    @property
    def key(self) -> str:
        """What it counts. Limits that count the same calls share a count; a changed number keeps its count."""
        scope = " fleet" if self.scope == "fleet" else ""
        return f"{self.per} {self.rule or '*'}{'' if self.of == 'calls' else f' {self.of}'}{scope}"

    def reached(self, used: "LimitUsage", now: float) -> bool:
        """Whether it is used up."""
        if self.of == "minutes":
            return used.began is not None and now - used.began >= self.at_most * 60
        return used.count >= self.at_most

    @property
    def spends(self) -> bool:
        """Whether it counts what is in the transcript."""
        return self.of in ("tokens", "cost")

    def spent(self, tokens: Mapping[str, Tokens]) -> "LimitUsage":
        """What of it these tokens use up. Raises StoreError for a model without a price."""
        if self.of == "tokens":
            return LimitUsage(sum(map(sum, tokens.values())))
        return LimitUsage(sum(self._price(model).of(used) for model, used in tokens.items()))

    def _price(self, model: str) -> Price:
        for glob, price in self.prices.items():
            if fnmatchcase(model, glob):
                return price
        hint = "add the model to `prices` of the limit"
        raise StoreError(f"a limit of cost has no price for the model `{model}`", hint=hint)

    @property
    def in_words(self) -> str:
        """What it allows."""
        times = "once" if self.at_most == 1 else f"{self.at_most} times"
        if self.of == "calls":
            who = " on all machines of the fleet" if self.scope == "fleet" else ""
            return f"{f'`{self.rule}`' if self.rule else 'tool calls'} at most {times} per {self.per}{who}"
        most = f"a {self.of} of at most {self.at_most:g}" if self.of == "cost" else f"at most {self.at_most} {self.of}"
        free = self.of == "cost" and not any(one.input or one.output for one in self.prices.values())
        nothing = " (all prices are 0)" if free else ""
        return f"{f'`{self.rule}` ' if self.rule else ''}{most} per {self.per}{nothing}"

    @property
    def without_session(self) -> "RateLimit":
        """The same limit for an agent without sessions, where the end of a turn or a session is unknown."""
        return self if self.per in SECONDS else msgspec.structs.replace(self, per="hour")


def rate_limit(
    state: FileState,
    limits: Sequence[RateLimit],
    project: str = "",
    *,
    clock: Callable[[], float] = time.monotonic,
    tokens: ReadTokens = lambda kept, transcript, session: {},
) -> Hook:
    """The built-in gate that counts tool calls. Raises RuleError. Calls without a session count together in `project`,
    or in the folder that they name. `clock` is monotonic, and the same in every process."""
    counted = tuple((limit, condition(limit.rule) if limit.rule else None) for limit in limits)
    limiter = FleetRateLimiter if any(limit.scope == "fleet" for limit in limits) else RateLimiter
    return Hook(
        name=NAME,
        title="limits how often tools are called",
        run=limiter(state, counted, project, clock, tokens),
        events=("PreToolUse",),
        priority=15,
        on_failure="deny",
        dialect="spec",
        source=Source(layer="built-in"),
    )


class RateLimiter(msgspec.Struct, frozen=True):
    """What the gate does. Calls that match no limit need no access to the state."""

    state: FileState
    limits: tuple[tuple[RateLimit, When | None], ...]
    project: str
    clock: Callable[[], float]
    tokens: ReadTokens
    shared: bool = True  # false: limits of the fleet count here alone, as in a replay

    def __call__(self, ctx: Context) -> Answer | Awaitable[Answer]:
        struck = self._struck(ctx)
        return self._judge(ctx, struck) if struck else NOTHING

    def _struck(self, ctx: Context) -> list[RateLimit]:
        return [limit for limit, rule in self.limits if rule is None or rule(ctx)]

    def _judge(self, ctx: Context, struck: list[RateLimit]) -> Answer:
        counted = ctx.state.setdefault(NAME, set())  # a gate runs again when a later hook rewrites the input
        key = ctx.session_id
        if not key:
            key = f"no session in {self.project or ctx.cwd}"
            struck = [limit.without_session for limit in struck if limit.of == "calls"]  # no begin, no minutes
        transcript = ctx.event.transcript_path and os.path.join(ctx.cwd, ctx.event.transcript_path)
        refusal = self._count(key, [limit for limit in struck if limit.key not in counted], transcript)
        if refusal:
            return refusal
        counted.update(limit.key for limit in struck)
        return NOTHING

    def _count(self, key: str, limits: list[RateLimit], transcript: str) -> Answer | None:
        """Count a call under all its limits. If one is reached: count nothing, and return the refusal."""
        spending, limits = [one for one in limits if one.spends], [one for one in limits if not one.spends]
        turn = turn_of(self.state, key)[1] if any(limit.per == "turn" for limit in limits) else 0
        refusals: list[Answer] = []
        shared = [limit for limit in limits if self.shared and limit.scope == "fleet"]
        own = [limit for limit in limits if limit not in shared]

        def change(record: Value | None) -> Value:
            now = self.clock()
            record = dict(record or {})
            counts = _counts(record)
            for limit in own:
                counts[limit.key] = counts.get(limit.key, LimitUsage()).in_force(limit, turn, now)
            used = [(limit, counts[limit.key]) for limit in own]
            used += self._spent(record, spending, transcript, key)
            reached = [(limit, used) for limit, used in used if limit.reached(used, now)]
            refusal = _refused(reached, now) if reached else self._count_in_fleet(shared, now)
            if refusal is not None:
                refusals.append(refusal)
            else:
                counts |= {key: counts[key].one_more(limit, now) for key, limit in _by_key(own).items()}
            return {**record, "counts": msgspec.to_builtins(counts)}

        if limits or spending:
            self.state.update("limits", key, change)
        return refusals[0] if refusals else None

    def _count_in_fleet(self, limits: Sequence[RateLimit], now: float) -> Answer | None:
        """Count a call under the limits of the fleet, until one is reached. Returns the refusal."""
        if not limits:
            return None
        for key, limit in _by_key(limits).items():
            seconds = SECONDS[limit.per]
            found = count_shared(self.state, key, seconds, now)
            if found is not None and found.total > limit.at_most:
                return _objection(limit, f"the next call is allowed in {_in_words(found.left)}")
            if found is None and limit.offline == "deny":
                return _objection(limit, "the fleet's counter can't be reached")
            if found is None and not count_here(self.state, key, seconds, now, limit.at_most):
                return _objection(limit, "this machine alone has used it up; the fleet's counter can't be reached")
        return None

    def _spent(
        self, record: Value, limits: Sequence[RateLimit], transcript: str, session: str
    ) -> list[tuple[RateLimit, "LimitUsage"]]:
        """What the session has used of limits of tokens and cost. Without a transcript they don't apply."""
        if not limits or not transcript:
            return []
        try:
            tokens = self.tokens(record.setdefault("transcripts", {}), transcript, session)
        except (OSError, msgspec.ValidationError) as error:
            raise StoreError(f"the tokens of the transcript can't be read: {error}", place=transcript) from None
        return [(limit, limit.spent(tokens)) for limit in limits]


class FleetRateLimiter(RateLimiter, frozen=True):
    """The same, with a limit of the fleet. It may wait for the fleet, and other verdicts must not: so it is async."""

    async def __call__(self, ctx: Context) -> Answer:
        struck = self._struck(ctx)
        if all(limit.scope != "fleet" for limit in struck):
            return self._judge(ctx, struck) if struck else NOTHING
        from billhook.core.functions import in_thread

        return await in_thread(lambda: self._judge(ctx, struck))


class LimitUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a limit is used."""

    count: int | float = 0
    turn: int | None = None  # the turn of the calls, for limits per turn
    times: tuple[float, ...] | None = None  # the time of each call, oldest first, for limits per minute and hour
    began: float | None = None  # the time of the first call, for limits in minutes

    def in_force(self, limit: RateLimit, turn: int, now: float) -> "LimitUsage":
        """The part that still counts."""
        if limit.per == "turn":
            return self if self.turn == turn else LimitUsage(turn=turn)
        if limit.per == "session":
            return self
        # A time in the future is from before the machine was started. It counts as now, so that it soon expires.
        past = [min(time, now) for time in self.times or ()]
        times = tuple(time for time in past if time > now - SECONDS[limit.per])
        return LimitUsage(len(times), times=times)

    def one_more(self, limit: RateLimit, now: float) -> "LimitUsage":
        if limit.of == "minutes":
            # A time in the future is from before the machine was started.
            return msgspec.structs.replace(self, began=min(now, now if self.began is None else self.began))
        times = None if self.times is None else (*self.times, round(now, 3))
        return msgspec.structs.replace(self, count=self.count + 1, times=times)


def _in_words(seconds: float) -> str:
    return f"{math.ceil(seconds)} s" if seconds <= 120 else f"{math.ceil(seconds / 60)} minutes"


def _by_key(limits: Sequence[RateLimit]) -> dict[str, RateLimit]:
    return {limit.key: limit for limit in limits}


def _counts(record: Value) -> dict[str, LimitUsage]:
    try:
        return msgspec.convert(record.get("counts", {}), dict[str, LimitUsage])
    except msgspec.ValidationError as error:
        hint = "remove the session's file in billhook/limits"
        raise StoreError(f"the count of calls is damaged: {error}", hint=hint) from None


def _refused(reached: list[tuple[RateLimit, LimitUsage]], now: float) -> Answer:
    """The answer for a call when limits are reached; the strictest of them decides."""
    limit, used = min(reached, key=lambda one: one[0].then != "deny")
    why = ", because the agent names no session" if limit.per == "hour" else ""
    return _objection(limit, _ends(limit, used, now), why)


def _objection(limit: RateLimit, ends: str, why: str = "") -> Answer:
    rule = f"Limit: {limit.in_words}{why}; {ends}"
    reason = f"{limit.reason}\n{rule}" if limit.reason else rule
    return deny(reason) if limit.then == "deny" else ask(reason)


def _ends(limit: RateLimit, used: LimitUsage, now: float) -> str:
    if limit.per == "turn":
        return "the count starts again with the next turn"
    if limit.per == "hour" and not used.times:
        return "no call is allowed"
    if limit.per == "session" or limit.at_most < 1 or not used.times:
        return "it applies until the session ends"
    left = used.times[int(used.count - limit.at_most)] + SECONDS[limit.per] - now
    return f"the next call is allowed in {math.ceil(left)} s"


# The hooks' side of a limit that many machines share. The process that connects this machine with its fleet has a
# socket, and asks the fleet's counter. A verdict waits for it only until a short deadline. Calls that were counted here
# instead are reported with the next call that it answers.

DEADLINE: Final = 0.05  # seconds
SOCKET: Final = Path("billhook", "fleet", "limits.sock")  # below the state root
_KIND: Final = "shared"
_LONGEST: Final = 4096


class SharedCount(NamedTuple):
    """How much of a limit the whole fleet has used."""

    total: int  # with the calls that were added
    left: float  # seconds until the next window begins


def count_shared(state: FileState, key: str, seconds: float, now: float) -> SharedCount | None:
    """Count one call in the fleet, and those that were counted here before; None if there is no answer in time. `now`
    is monotonic. Raises StoreError."""
    before = _take(state, key, now - seconds)
    found = _request_count(state.root, key, seconds, 1 + len(before))
    if found is None and before:
        _add(state, key, before)
    return found


def count_here(state: FileState, key: str, seconds: float, now: float, at_most: float) -> bool:
    """Count one call on this machine alone; False if it has used the limit up. Raises StoreError."""
    admitted: list[bool] = []

    def change(record: Value | None) -> Value:
        times = [one for one in _times(record) if now - seconds < one <= now]
        admitted.append(len(times) < at_most)
        return {"times": [*times, now] if admitted[0] else times}

    state.update(_KIND, key, change)
    return admitted[0]


def _request_count(root: Path, key: str, seconds: float, add: int) -> SharedCount | None:
    import json
    import socket

    ends = time.monotonic() + DEADLINE
    request = json.dumps({"limit": key, "seconds": seconds, "add": add}).encode() + b"\n"
    try:
        with (
            files.opened((root / SOCKET).parent, root, private=True) as folder,
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link,
        ):
            link.settimeout(DEADLINE)
            link.connect(f"/proc/self/fd/{folder}/{SOCKET.name}")  # a path of any length, in just this folder
            link.sendall(request)
            reply = b""
            while not reply.endswith(b"\n") and len(reply) < _LONGEST:
                link.settimeout(max(0.001, ends - time.monotonic()))
                if not (part := link.recv(_LONGEST)):
                    return None
                reply += part
        said: dict[str, Any] = json.loads(reply)
        return SharedCount(said["total"], said["left"]) if "total" in said else None
    except (OSError, ValueError, TypeError, StoreError):
        return None


def _take(state: FileState, key: str, oldest: float) -> list[float]:
    """The times of calls that the fleet has not counted. They are removed, so that no other process reports them."""
    if not _times(state.read(_KIND, key)):
        return []
    taken: list[float] = []

    def change(record: Value | None) -> Value:
        taken[:] = [one for one in _times(record) if one > oldest]
        return {"times": []}

    state.update(_KIND, key, change)
    return taken


def _add(state: FileState, key: str, times: list[float]) -> None:
    state.update(_KIND, key, lambda record: {"times": sorted([*_times(record), *times])})


def _times(record: Value | None) -> list[float]:
    times = (record or {}).get("times")
    return [one for one in times if isinstance(one, int | float)] if isinstance(times, list) else []
