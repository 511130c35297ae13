"""What a verdict must be: the expectations of test cases, and assertions about an engine for tests in Python.

`assert_denies(engine, "rm -rf /")` and the case `{bash: rm -rf /, expect: deny}` mean the same.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from billhook.config.cases import CALLS, event_of
from billhook.core import strictjson
from billhook.core.answers import UNSET, Decision, Status, Verdict
from billhook.core.events import Event, parse
from billhook.engine.engine import Engine


def outcome_of(verdict: Verdict) -> str:
    """One word for the result of an event."""
    if verdict.keep_going:
        return "keep_going"
    if verdict.stop:
        return "stop"
    if verdict.tool_input is not None and str(verdict.decision) in ("none", "allow"):
        return "rewrite"
    return str(verdict.decision)


def deciders(verdict: Verdict) -> tuple[str, ...]:
    """The hooks that decided."""
    strong = [one for one in verdict.outcomes if one.answer.decision == verdict.decision != Decision.NONE]
    if verdict.stop or verdict.keep_going:
        strong += [one for one in verdict.outcomes if (one.answer.stop if verdict.stop else one.answer.keep_going)]
    strong = strong or [one for one in verdict.outcomes if one.answer.updated_input is not None]
    return tuple(dict.fromkeys(one.hook for one in strong))


def ran(verdict: Verdict) -> set[str]:
    """The hooks that ran and did not fail."""
    names = (one.hook for one in verdict.outcomes if one.status in (Status.OK, Status.BACKGROUND))
    return {form for name in names for form in forms(name)}


def forms(name: str) -> set[str]:
    """The names of a hook in tests: with the prefix of its layer, and without."""
    return {name, name.rpartition("/")[2]}


def differences(
    case: Mapping[str, Any], verdict: Verdict, effects: Iterable[str] = (), by: Iterable[str] | None = None
) -> Iterator[str]:
    """How a verdict differs from what a case expects; one sentence each. `by`: who decided, if an agent was told
    another decision than the hooks made."""
    for outcome in verdict.outcomes:
        if not outcome.success:
            yield f"hook `{outcome.hook}` failed: {outcome.error}"
    if "expect" in case and outcome_of(verdict) != case["expect"]:
        yield f"expected {case['expect']}, got {outcome_of(verdict)}"
    if "by" in case and case["by"] not in ran(verdict):
        yield f"expected hook `{case['by']}` to run, but it did not"
    elif "by" in case and case.get("expect", "none") != "none":
        decided = deciders(verdict) if by is None else by
        if not any(case["by"] in forms(name) for name in decided):
            yield f"expected {case['expect']} by hook `{case['by']}`, decided by {', '.join(decided) or 'no hook'}"
    if "without" in case and case["without"] in ran(verdict):
        yield f"expected hook `{case['without']}` not to run, but it did"
    given = verdict.tool_input or {}
    for field, wanted in case.get("input", {}).items():
        if given.get(field) != wanted:
            yield f"expected input `{field}` {strictjson.dumps(wanted)}, got {strictjson.dumps(given.get(field))}"
    for field, text in _texts(verdict).items():
        if field in case and not re.search(case[field], text):
            yield f"expected {field} to match `{case[field]}`, got {strictjson.dumps(text)}"
    missing = [name for name in case.get("effects", ()) if not _has(name, effects := list(effects))]
    if missing:
        yield f"expected effects {', '.join(missing)}, got {', '.join(effects) or 'none'}"


def _texts(verdict: Verdict) -> dict[str, str]:
    context = "\n".join(verdict.context)
    return {
        "reason": "\n".join(filter(None, (verdict.reason, verdict.stop_reason, context))),
        "context": context,
        "message": "\n".join(verdict.messages),
        "output": output_text(verdict),
    }


def output_text(verdict: Verdict) -> str:
    """The changed output: a string as it is, anything else as JSON; empty if it is unchanged."""
    if verdict.tool_output is UNSET:
        return ""
    return verdict.tool_output if isinstance(verdict.tool_output, str) else strictjson.dumps(verdict.tool_output)


def _has(name: str, effects: Iterable[str]) -> bool:
    """Whether effects such as `delete:home` contain one: `delete` or `delete:home`."""
    return any(each == name or each.startswith(f"{name}:") for each in effects)


# -- assertions


Call = str | Mapping[str, Any] | Event  # A shell command; a call as in `tests:` (`{"write": ".env"}`); an event


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
    """The hooks that answered or failed, with their reasons, in one line; or which ones ran."""
    told = [
        f"{one.hook} {one.answer.decision if one.success else one.status}: {one.answer.reason or one.error}"
        for one in verdict.outcomes
        if one.answer.has_content or not one.success
    ]
    names = ", ".join(sorted(ran(verdict)))
    silent = f"no hook objects (ran: {names})" if verdict.outcomes else "no hook listens for this event"
    return "; ".join(" ".join(text.split()) for text in told) or silent
