"""What an agent's dialect can't say of a verdict, for the log: the record is written before the answer is."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from billhook.agents import DIALECTS, Dialect, dialect_of
from billhook.agents.child import Written
from billhook.answers import NOTHING, Answer, Verdict
from billhook.events import Event


class Unsaid(NamedTuple):
    """What of a verdict does not reach the agent, or not now."""

    lost: tuple[str, ...] = ()
    by_hook: tuple[tuple[str, ...], ...] = ()  # the same for each outcome, in their order: of what that hook said


class Encoded(NamedTuple):
    """A verdict as one answer, and that in an agent's words."""

    answer: Answer
    written: Written


def encoded(verdict: Verdict, dialect: Dialect) -> Encoded:
    """The verdict for an agent: encoded once, for its record and for the agent itself."""
    known: tuple[Dialect, Encoded] | None = verdict.__dict__.get("encoded")
    if known is None or known[0] is not dialect:
        answer = verdict.as_answer(dialect.meanings.join)
        known = dialect, Encoded(answer, dialect.write_exit(verdict.about, answer))
        verdict.__dict__["encoded"] = known
    return known[1]


def unsaid(verdict: Verdict, host: str) -> Unsaid:
    """What can't be said to whom we serve; nothing where the host speaks no dialect."""
    name = dialect_of(host).removeprefix("http:")
    if name not in DIALECTS:
        return Unsaid()
    dialect = DIALECTS[name]
    lost = _lost(name, lambda: encoded(verdict, dialect).written)
    if not lost:
        return Unsaid()
    by_hook = [_of_hook(dialect, name, verdict.about, outcome.answer, lost) for outcome in verdict.outcomes]
    return Unsaid(lost, tuple(by_hook))


def noted(outcomes: list[dict[str, Any]], by_hook: Sequence[tuple[str, ...]]) -> list[dict[str, Any]]:
    """Outcomes as the log has them, each with what was lost of it."""
    if not by_hook:
        return outcomes
    pairs = zip(outcomes, by_hook, strict=True)
    return [{**one, "lost": [*one.get("lost", ()), *lost]} if lost else one for one, lost in pairs]


def _of_hook(dialect: Dialect, name: str, event: Event, answer: Answer, of_all: tuple[str, ...]) -> tuple[str, ...]:
    """Of what is lost, that which this hook said."""
    if answer is NOTHING:
        return ()
    own = _lost(name, lambda: dialect.write_exit(event, replace(answer, data=None, background=False)))
    return tuple(one for one in own if one in of_all)


def _lost(name: str, write: Callable[[], Written]) -> tuple[str, ...]:
    try:
        written = write()
    except Exception as error:  # a hook in Python may say anything; what is wrong with it is told with the answer
        return (f"it can't be said to `{name}`: {type(error).__name__}: {error}",)
    held = ("context is held for a later event",) if written.held else ()
    return tuple(f"the `{name}` dialect can't say everything: {one}" for one in (*written.lost, *held))
