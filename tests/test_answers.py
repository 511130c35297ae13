"""Folding the answers of hooks into one verdict."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from billhook.core.answers import (
    NOTHING,
    Answer,
    Decision,
    Outcome,
    Status,
    Verdict,
    allow,
    ask,
    defer,
    deny,
    fold,
    inject,
    keep_going,
    notify,
    rewrite,
    stop,
)
from billhook.core.events import EVENTS, Event
from strategies import answers, sample, some_events

GATED, STOP = sample("PreToolUse"), sample("Stop")
ORDER = [Decision.NONE, Decision.ALLOW, Decision.ASK, Decision.DEFER, Decision.DENY]


def folded(*several: Answer, event: Event = GATED, **options: Any) -> Verdict:
    return fold(event, [Outcome(f"h{number}", answer=answer) for number, answer in enumerate(several)], **options)


# -- decisions -----------------------------------------------------------------------------------------------------

MAKERS = {
    Decision.NONE: lambda text: Answer(reason=text),
    Decision.ALLOW: allow,
    Decision.ASK: ask,
    Decision.DEFER: defer,
    Decision.DENY: deny,
}


@pytest.mark.parametrize(("weak", "strong"), [*itertools.combinations(ORDER, 2)], ids=str)
def test_deny_beats_defer_beats_ask_beats_allow_beats_none(weak: Decision, strong: Decision) -> None:
    """Reference 2.5: deny > defer > ask > allow, in any order; the reason is the winner's."""
    one, two = MAKERS[weak]("weak"), MAKERS[strong]("strong")
    for several in ((one, two), (two, one)):
        verdict = folded(*several)
        assert (verdict.decision, verdict.reason) == (strong, "strong")


@pytest.mark.parametrize("decision", ORDER)
def test_all_reasons_of_the_winning_decision_are_kept(decision: Decision) -> None:
    """Every reason is kept, in order, once."""
    make = MAKERS[decision]

    assert folded(make("b"), make("a"), make("b"), make("")).reason == "b\na"


@pytest.mark.parametrize(
    ("several", "decision", "reason"),
    [
        pytest.param((allow("a"), deny("d")), Decision.ALLOW, "a", id="an allow before a deny"),
        pytest.param((NOTHING, deny("d"), allow("a")), Decision.DENY, "d", id="a deny before an allow"),
        pytest.param((inject("c"), ask("q")), Decision.ASK, "q", id="context is no decision"),
        pytest.param((allow("a"), stop("over")), Decision.DENY, "over", id="stop is a deny all the same"),
        pytest.param((), Decision.NONE, "", id="no decision"),
    ],
)
def test_first_takes_the_first_decision(several: tuple[Answer, ...], decision: Decision, reason: str) -> None:
    """Seed 001 section 8, read literally: the first hook that decides."""
    verdict = folded(*several, combine="first")

    assert (verdict.decision, verdict.reason) == (decision, reason)


@settings(max_examples=400)
@given(st.lists(answers, max_size=5), answers, st.data())
def test_one_more_answer_never_weakens_the_verdict(several: list[Answer], more: Answer, data: st.DataObject) -> None:
    """Adding an outcome anywhere leaves the decision, the stop and the objection at least as strict."""
    at = data.draw(st.integers(0, len(several)))
    before, after = folded(*several), folded(*several[:at], more, *several[at:])

    assert ORDER.index(after.decision) >= ORDER.index(before.decision)
    assert after.stop >= before.stop
    assert after.denied >= before.denied


@settings(max_examples=400)
@given(some_events, st.lists(answers, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_answers_does_not_change_the_decision(event: Event, several: list[Answer], dice: Any) -> None:
    """Decision, stop and keep_going do not depend on the order of the answers."""
    shuffled = several[:]
    dice.shuffle(shuffled)
    one, two = folded(*several, event=event), folded(*shuffled, event=event)

    assert (one.decision, one.stop, one.keep_going) == (two.decision, two.stop, two.keep_going)
    assert set(one.reason.split("\n")) == set(two.reason.split("\n"))


# -- stop and keep going -------------------------------------------------------------------------------------------

ENDS = [
    # event, answers, decision, keep_going, stop, reason
    pytest.param(STOP, (keep_going("more"),), "none", True, False, "more", id="Stop: a block goes on"),
    pytest.param(STOP, (keep_going("a"), keep_going("b")), "none", True, False, "a\nb", id="Stop: all reasons"),
    pytest.param(STOP, (keep_going("more"), stop("over")), "none", False, True, "", id="stop beats keep_going"),
    pytest.param(STOP, (stop("over"), keep_going("more")), "none", False, True, "", id="... in any order"),
    pytest.param(STOP, (deny("d"), keep_going("more")), "deny", True, False, "d\nmore", id="no reason is lost"),
    pytest.param(GATED, (stop("over"),), "deny", False, True, "over", id="PreToolUse: stop is also a deny"),
    pytest.param(GATED, (allow("a"), stop("over")), "deny", False, True, "over", id="... that beats an allow"),
    pytest.param(GATED, (deny("d"), stop("over")), "deny", False, True, "d", id="a deny keeps its reason"),
    pytest.param(GATED, (keep_going("more"),), "none", False, False, "", id="PreToolUse: nothing to keep going"),
    pytest.param(sample("PostToolUse"), (stop("over"),), "none", False, True, "", id="PostToolUse: only a stop"),
]


@pytest.mark.parametrize(("event", "several", "decision", "going", "stopped", "reason"), ENDS)
def test_how_a_run_ends_or_goes_on(
    event: Event, several: tuple[Answer, ...], decision: str, going: bool, stopped: bool, reason: str
) -> None:
    """Stop beats keep_going, and before a tool it also denies."""
    verdict = folded(*several, event=event)

    assert (verdict.decision, verdict.keep_going, verdict.stop) == (decision, going, stopped)
    assert verdict.reason == reason
    assert verdict.stop_reason == ("over" if stopped else "")


# -- the rest ------------------------------------------------------------------------------------------------------


def test_the_last_rewrite_wins() -> None:
    """Of several rewrites the last one is what permissions, later hooks and the tool see."""
    verdict = folded(rewrite(input={"a": 1}), NOTHING, rewrite(input={"a": 2}), deny("no"))
    after = folded(rewrite(output="x"), rewrite(output=None), event=sample("PostToolUse"))

    assert verdict.tool_input == {"a": 2}
    assert after.tool_output is None
    assert folded(NOTHING).tool_input is None
    assert folded(NOTHING).tool_output is UNSET


def test_contexts_messages_and_extras_add_up() -> None:
    """All context for the model and all messages for the user are kept, in order."""
    verdict = folded(
        inject("a"),
        notify("m"),
        Answer(context="b", message="n", extras={"x": 1, "y": 1}),
        Answer(extras={"y": 2}),
    )

    assert verdict.context == ("a", "b")
    assert verdict.messages == ("m", "n")
    assert verdict.extras == {"x": 1, "y": 2}
    assert verdict.as_answer() == Answer(context="a\n\nb", message="m\nn", extras={"x": 1, "y": 2})


@pytest.mark.parametrize("event", EVENTS)
def test_open_passes_are_counted_on_every_event(event: str) -> None:
    """`failed_open` is the number of outcomes that failed and were ignored, whatever the event could block."""
    failed = Outcome("h", status=Status.FAILED, failed_open=True, error="boom")
    verdict = fold(sample(event), [failed, Outcome("ok"), replace(failed, answer=inject("c"))])

    assert verdict.failed_open == 2
    assert len(verdict.warnings) == 2


def test_no_answer_is_no_objection_and_no_approval() -> None:
    """Exit 0 everywhere is `none`: the permission flow continues as if no hook had run."""
    verdict = folded(NOTHING, NOTHING)

    assert (verdict.decision, verdict.reason, verdict.denied) == (Decision.NONE, "", False)
    assert [outcome.hook for outcome in verdict.outcomes] == ["h0", "h1"]


def test_a_verdict_is_the_same_json_everywhere() -> None:
    """Design section 4: the keys of a verdict and of its outcomes."""
    shown = folded(deny("no")).to_dict()

    assert list(shown) == [
        *("id", "event", "decision", "reason", "context", "messages", "tool_input", "tool_output", "keep_going"),
        *("stop", "stop_reason", "failed_open", "duration_ms", "outcomes"),
    ]
    assert list(shown["outcomes"][0]) == [
        *("hook", "source", "dialect", "status", "decision", "reason", "exit_code", "signal", "failed_open"),
        *("duration_ms", "error", "lost"),
    ]


@given(some_events, st.lists(answers, max_size=3))
def test_any_verdict_can_be_written(event: Event, several: list[Answer]) -> None:
    """With any answers, the verdict is one line of JSON."""
    line = folded(*several, event=event).to_json()

    assert line.isascii() and "\n" not in line
