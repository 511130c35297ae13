"""Assertions about an engine, for tests in Python: `assert_denies(engine, "rm -rf /")`."""

import os
import re
from collections.abc import Mapping
from typing import Any

from billhook.config.cases import CALLS, event_of, outcome_of, ran
from billhook.core.answers import Verdict
from billhook.core.events import Event, parse
from billhook.engine.engine import Engine

Call = str | Mapping[str, Any] | Event
"""A shell command; a call as in `tests:` (`{"write": ".env"}`); an event."""


def fire_call(engine: Engine, call: Call, **fields: Any) -> Verdict:
    """The verdict about a call in this folder. `fields` are further fields of the event."""
    if isinstance(call, Event):
        return engine.fire_sync(call)
    given = {"bash": call} if isinstance(call, str) else call
    sent = event_of(given) if any(name in given for name in CALLS) else dict(given)
    base = {"session_id": "test", "transcript_path": "", "cwd": os.getcwd()}
    return engine.fire_sync(parse({**base, **sent, **fields}))


def assert_denies(engine: Engine, call: Call, reason: str = "") -> Verdict:
    """The call is denied, with a reason that matches the expression `reason`."""
    __tracebackhide__ = True
    return _assert_outcome(engine, call, ("deny", "stop"), "deny", reason)


def assert_asks(engine: Engine, call: Call, reason: str = "") -> Verdict:
    """The user is asked about the call."""
    __tracebackhide__ = True
    return _assert_outcome(engine, call, ("ask",), "ask", reason)


def assert_allows(engine: Engine, call: Call) -> Verdict:
    """No hook denies the call, asks about it or stops the agent."""
    __tracebackhide__ = True
    return _assert_outcome(engine, call, ("none", "allow", "rewrite"), "allow")


def assert_runs(engine: Engine, call: Call, hook: str) -> Verdict:
    """The hook of this name runs at the call, and does not fail."""
    __tracebackhide__ = True
    verdict = fire_call(engine, call)
    if hook not in ran(verdict):
        raise AssertionError(f"expected hook `{hook}` to run, but it did not: {_story(verdict)}")
    return verdict


def _assert_outcome(engine: Engine, call: Call, wanted: tuple[str, ...], word: str, reason: str = "") -> Verdict:
    __tracebackhide__ = True
    verdict = fire_call(engine, call)
    got = outcome_of(verdict)
    if got not in wanted:
        raise AssertionError(f"expected {word}, got {got}: {_story(verdict)}")
    if reason and not re.search(reason, verdict.reason or verdict.stop_reason):
        raise AssertionError(f"expected a reason that matches `{reason}`, got: {verdict.reason or verdict.stop_reason}")
    return verdict


def _story(verdict: Verdict) -> str:
    """What each hook did, in one line."""
    told = [
        f"{one.hook} {one.status}, {one.answer.decision} {one.answer.reason or one.error}" for one in verdict.outcomes
    ]
    return "; ".join(" ".join(text.split()) for text in told) or "no hook listens for this event"
