"""An agent's codec reads what it writes; and it expresses exactly its row of capabilities."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billhook.agents import AGENTS, DIALECTS, EVENT_NAMES, NARROWER, canonical_event, dialect, others
from billhook.agents.base import CAPABILITIES, FIELDS, Capabilities, can
from billhook.core.answers import (
    Answer,
    Decision,
    Status,
    allow,
    ask,
    deny,
    inject,
    keep_going,
    notify,
    rewrite,
    stop,
)
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS, Event
from strategies import answers, sample, some_events

OTHER_AGENTS = [name for name in AGENTS if name != "claude"]


def read_back(name: str, event: Event, answer: Answer) -> None:
    """Reading gives the same answer exactly if nothing was lost or held; an objection is never lost."""
    order = list(Decision)
    codec = dialect(name)
    written = codec.write_exit(event, answer)
    reply = codec.read_exit(event, written.exit)
    same = reply.status is Status.OK and reply.answer == answer

    assert same == (not written.lost and not written.held)
    assert all(isinstance(line, str) and line for line in written.lost)
    assert written.held in ("", answer.context) or answer.context in written.held
    if event.hook_event_name == "PreToolUse":
        assert reply.answer.objects or not answer.objects
        weaker = order.index(reply.answer.decision) < order.index(answer.decision)
        assert not weaker or answer.decision is Decision.ALLOW


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from([*OTHER_AGENTS, "universal"]), event=some_events, answer=answers)
def test_what_is_written_is_read_back_unless_something_is_reported(name: str, event: Event, answer: Answer) -> None:
    """The property of every dialect, for the agents."""
    read_back(name, event, answer)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OTHER_AGENTS, "universal"])
@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(event=some_events, answer=answers)
def test_the_same_many_times(name: str, event: Event, answer: Answer) -> None:
    """The property of every dialect, for each agent at length."""
    read_back(name, event, answer)


# -- the table and the codec

WANTS: dict[str, Answer] = {
    "allow": allow(),
    "deny": deny("no"),
    "ask": ask("sure?"),
    "rewrite_input": rewrite(input={"command": "ls -l"}),
    "replace_output": rewrite(output="x"),
    "context": inject("mind"),
    "stop": Answer(stop=True, stop_reason="over", decision=Decision.DENY, reason="over"),
    "keep_going": keep_going("go on"),
    "message": notify("hello"),
}


def _rows() -> Iterator[Any]:
    for name, events in CAPABILITIES.items():
        for event, row in events.items():
            yield pytest.param(name, sample(event), row, id=f"{name}: {event}")
    for name, agent in AGENTS.items():
        for own, row in agent.narrower_capabilities.items():
            narrower = sample(NARROWER[name][own], original_event_name=own)
            yield pytest.param(name, narrower, row, id=f"{name}: {own}")


ROWS = list(_rows())


@pytest.mark.parametrize(("name", "event", "row"), ROWS)
def test_the_codec_expresses_what_the_table_has(name: str, event: Event, row: Capabilities) -> None:
    """Each field that is true is expressed without loss; each that is false is reported, or held for later."""
    assert set(WANTS) == set(FIELDS)
    for field in FIELDS:
        if name == "claude" and field in ("allow", "deny") and event.hook_event_name.startswith("Elicitation"):
            continue  # an action has no place for a reason
        answer = wanted(field, event, row)
        if name == "claude" and field == "replace_output":
            answer = rewrite(output={"stdout": "x"})  # which has the shape of the tool's own
        written = dialect(name).write_exit(event, answer)
        spoken = not written.lost and not written.held
        assert spoken == getattr(row, field), (field, written)


def wanted(field: str, event: Event, row: Capabilities) -> Answer:
    """An answer with one effect, as it is usual on this event."""
    name = event.hook_event_name
    if field == "stop" and (not row.deny or name not in ("PreToolUse", "PermissionRequest")):
        return stop("over")
    if field == "context" and row.context and name in ("Stop", "SubagentStop"):
        return Answer(context="mind", keep_going=True)  # there it makes the agent go on
    if field == "rewrite_input" and name == "PermissionRequest":
        return Answer(decision=Decision.ALLOW, updated_input={"command": "ls -l"})
    return WANTS[field]


@pytest.mark.parametrize(("name", "event", "row"), ROWS)
def test_the_table_has_a_replacement_for_other_fields(name: str, event: Event, row: Capabilities) -> None:
    """If an objection can't be expressed, the row has its replacement."""
    for field, clause in row.instead.items():
        assert field in FIELDS and (not getattr(row, field) or clause.startswith("also ")), field
        assert clause and clause[0].islower()
    if row.deny and event.hook_event_name == "PreToolUse":
        assert row.ask or row.instead["ask"] == "becomes deny"
    if not row.context and "held" in row.instead.get("context", ""):
        assert dialect(name).write_exit(event, inject("mind")).held == "mind"


def test_the_table_has_every_event_of_every_agent() -> None:
    """Who has an event is told by the names and by the capabilities alike."""
    for name in AGENTS:
        assert set(CAPABILITIES[name]) == set(EVENT_NAMES[name]), name
        assert set(CAPABILITIES[name]) <= set(EVENTS)
        assert dialect(name).event_names == EVENT_NAMES[name]  # type: ignore[attr-defined]
    assert can("codex", "TaskCreated") == Capabilities()
    assert can("unknown", "PreToolUse") == Capabilities()
    assert can("cursor", "beforeReadFile") == AGENTS["cursor"].narrower_capabilities["beforeReadFile"]


# -- names

NAMES = [
    *((own, name) for row in EVENT_NAMES.values() for name, own in row.items() if name != "PostToolUseFailure"),
    *((own, name) for row in NARROWER.values() for own, name in row.items()),
    ("pre_tool_use", "PreToolUse"),
    ("PRETOOLUSE", "PreToolUse"),
    ("before-tool", "PreToolUse"),
    *((own, "") for own in sorted(others())),
    ("", ""),
    ("PreTool", ""),
    ("x" * 10_000, ""),
]


@pytest.mark.parametrize(("own", "name"), NAMES)
def test_an_event_is_known_by_every_agents_name(own: str, name: str) -> None:
    """Any agent's spelling gives the canonical event; an unknown name gives none."""
    assert canonical_event(own) == name


def test_dialects_are_found_by_name_without_being_imported() -> None:
    """Looking at the table imports no codec; an unknown name is told all of them."""
    assert {*AGENTS, "universal"} <= set(DIALECTS)
    assert "codex" in DIALECTS and "unknown" not in DIALECTS and len(DIALECTS) == len(list(DIALECTS))
    with pytest.raises(UsageError) as error:
        dialect("unknown")
    assert f"{', '.join([*AGENTS][1:])}, universal" in (error.value.hint or "")


# -- exit codes and odd answers of hooks that speak an agent's dialect

DENIED = Decision.DENY
GRID = [
    # dialect, code, stdout, stderr, decision, on_failure
    *(pytest.param(n, 2, "", "no", DENIED, None, id=f"{n}: exit 2 + stderr") for n in [*OTHER_AGENTS, "universal"]),
    *(pytest.param(n, 2, "no", "", DENIED, None, id=f"{n}: exit 2 + stdout text only") for n in OTHER_AGENTS),
    *(pytest.param(n, 2, "", "", DENIED, None, id=f"{n}: exit 2, silent") for n in OTHER_AGENTS),
    pytest.param("codex", 1, "", "x", None, None, id="codex: exit 1 + stderr"),
    pytest.param("gemini", 3, "", "no", DENIED, None, id="gemini: exit 3 + stderr, any code from 2"),
    pytest.param("codex", 3, "", "no", None, None, id="codex: exit 3 + stderr"),
    pytest.param("copilot", 1, "", "x", None, "deny", id="copilot: exit 1 + stderr, fail-closed"),
    pytest.param("copilot", 3, "", "x", None, "deny", id="copilot: exit 3 + stderr"),
    pytest.param("copilot", 0, '{"a"', "", None, None, id="copilot: broken JSON, exit 0"),
    pytest.param("cursor", 0, '{"a"', "", None, "deny", id="cursor: broken JSON, exit 0, blocks"),
    pytest.param("cursor", 0, '{"permission": "no"}', "", None, "deny", id="cursor: misspelt value, blocks"),
    pytest.param("cursor", 1, "", "x", None, None, id="cursor: exit 1"),
    pytest.param("gemini", 0, '{"decision": "no"}', "", None, None, id="gemini: misspelt value"),
    pytest.param("codex", 0, '{"a": 1}', "", None, None, id="codex: one unknown field"),
    pytest.param("codex", 0, '{"continue": false}', "", DENIED, None, id="codex: continue:false, meant as a stop"),
]


@pytest.mark.parametrize(("name", "code", "stdout", "stderr", "decision", "on_failure"), GRID)
def test_how_a_hook_of_an_agent_ended(
    name: str, code: int, stdout: str, stderr: str, decision: Decision | None, on_failure: str | None
) -> None:
    """A hook that was written for an agent is read as that agent reads it, but never more kindly than it was meant."""
    from billhook.core.answers import Exit

    ended = Exit(code=code, stdout=stdout.encode(), stderr=stderr.encode())
    reply = dialect(name).read_exit(sample("PreToolUse"), ended)

    if decision is None:
        assert reply.status is Status.FAILED
        assert reply.on_failure == on_failure
    else:
        assert reply.answer.objects
        assert reply.answer.reason or reply.answer.stop
        assert reply.answer.reason == "no" or "no" not in (stdout, stderr)


FOREIGN = [
    {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}},
    {"decision": "block", "reason": "no", "unknown": 1},
    {"decision": "block"},
]


@pytest.mark.parametrize("name", [*OTHER_AGENTS, "universal"])
@pytest.mark.parametrize("reported", FOREIGN, ids=json.dumps)
def test_a_deny_of_the_reference_denies_in_every_dialect(name: str, reported: dict[str, Any]) -> None:
    """Gemini would allow it, Codex drop it: with us a hook that was copied still guards."""
    from billhook.core.answers import Exit

    reply = dialect(name).read_exit(sample("PreToolUse"), Exit(code=0, stdout=json.dumps(reported).encode()))

    assert reply.answer.decision is Decision.DENY


def test_a_permission_that_no_hook_gives_takes_no_other_input() -> None:
    """A rewrite without a decision can't be expressed there: the old input must not run instead."""
    event = sample("PermissionRequest")
    for name in OTHER_AGENTS:
        if "PermissionRequest" in EVENT_NAMES[name]:
            written = dialect(name).write_exit(event, rewrite(input={"command": "ls -l"}))
            assert dialect(name).read_exit(event, written.exit).answer.decision is Decision.DENY, name
            assert "a rewritten input became a deny" in written.lost, name
