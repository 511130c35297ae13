"""What the model gets for a tool call after the hooks have run."""

import pytest

from billhook import (
    Answer,
    Decision,
    Outcome,
    PostToolUse,
    PreToolUse,
    Status,
    Verdict,
    allow,
    ask,
    deny,
    fold,
    inject,
    stop,
)
from billhook.session.calls import Result, denied_result, merge_feedback

PRE = PreToolUse(tool_name="Bash", tool_input={})
POST = PostToolUse(tool_name="Bash", tool_input={}, tool_response="")


def before(*answers: Answer, dialect: str = "claw") -> Verdict:
    return fold(PRE, [Outcome(f"hook-{n}", "", dialect, Status.OK, answer) for n, answer in enumerate(answers)])


def after(*answers: Answer, dialect: str = "claw") -> Verdict:
    return fold(POST, [Outcome(f"hook-{n}", "", dialect, Status.OK, answer) for n, answer in enumerate(answers)])


@pytest.mark.parametrize(
    ("output", "pre", "post", "text", "is_error"),
    [
        pytest.param("out", None, None, "out", False, id="no hooks: unchanged"),
        pytest.param("out", before(), after(), "out", False, id="empty answers: unchanged"),
        pytest.param("  \n", before(), after(), "  \n", False, id="blank output without feedback: unchanged"),
        pytest.param("out", before(inject("a")), None, "out\n\nHook feedback:\na", False, id="before"),
        pytest.param("out", None, after(inject("a")), "out\n\nHook feedback:\na", False, id="after"),
        pytest.param(
            "out",
            before(inject("a")),
            after(inject("b")),
            "out\n\nHook feedback:\na\n\nHook feedback:\nb",
            False,
            id="both: the sample",
        ),
        pytest.param(
            "out",
            before(inject("a"), inject("b")),
            None,
            "out\n\nHook feedback:\na\nb",
            False,
            id="two messages: a line each",
        ),
        pytest.param("", before(inject("a")), None, "Hook feedback:\na", False, id="blank output: the section alone"),
        pytest.param(" \n ", None, after(inject("a")), "Hook feedback:\na", False, id="white space: the section alone"),
        pytest.param(
            "",
            before(inject("a")),
            after(inject("b")),
            "Hook feedback:\na\n\nHook feedback:\nb",
            False,
            id="blank output: the sections alone",
        ),
        pytest.param("out\n", None, after(inject("a")), "out\n\nHook feedback:\na", False, id="one blank line only"),
        pytest.param("out", None, after(deny("no")), "out\n\nHook feedback (denied):\nno", True, id="a deny after"),
        pytest.param("", None, after(deny("no")), "Hook feedback (denied):\nno", True, id="a deny after blank output"),
        pytest.param(
            "out",
            None,
            after(inject("a"), deny("no")),
            "out\n\nHook feedback (denied):\na\nno",
            True,
            id="one section for all answers after the tool",
        ),
        pytest.param(
            "out",
            before(inject("a")),
            after(deny("no")),
            "out\n\nHook feedback:\na\n\nHook feedback (denied):\nno",
            True,
            id="only the section after is marked",
        ),
    ],
)
def test_merging(output: str, pre: Verdict | None, post: Verdict | None, text: str, is_error: bool) -> None:
    """The output, then the hooks before the tool, then those after it."""
    assert merge_feedback(output, pre, post) == Result(text, is_error)


def test_an_error_stays_an_error() -> None:
    """A tool that failed has failed, whatever hooks answer."""
    assert merge_feedback("boom", None, after(inject("a")), is_error=True).is_error
    assert merge_feedback("boom", None, None, is_error=True) == Result("boom", True)


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("claude", "out"),
        ("spec", "out"),
        ("claw", "out\n\nHook feedback:\na"),
        ("claw-text", "out\n\nHook feedback:\na"),
        ("lesson", "out\n\na"),
    ],
)
def test_labels_inside_the_result(dialect: str, text: str) -> None:
    """Which dialects merge feedback, and under which label; the context of the others goes its own way."""
    assert merge_feedback("out", None, after(inject("a"), dialect=dialect)).text == text


def test_dialects_side_by_side() -> None:
    """Hooks of several dialects after one tool: each dialect's label, in the order of the hooks."""
    outcomes = [
        Outcome("one", "", "claw", Status.OK, inject("a")),
        Outcome("two", "", "lesson", Status.OK, inject("b")),
        Outcome("three", "", "claude", Status.OK, inject("c")),
        Outcome("four", "", "claw", Status.OK, inject("d")),
    ]
    assert merge_feedback("out", None, fold(POST, outcomes)).text == "out\n\nHook feedback:\na\nd\n\nb"


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("claude", "no"),
        ("spec", "no"),
        ("claw", "no"),
        ("claw-text", "Hook denied: no"),
        ("lesson", "Blocked by hook: no"),
    ],
)
def test_denied_results(dialect: str, text: str) -> None:
    """The result of a denied call in each dialect: always an error."""
    assert denied_result(before(deny("no"), dialect=dialect)) == Result(text, True)


def test_the_hook_that_denied_chooses_the_words() -> None:
    """With hooks of several dialects, the hook that denied decides the wording."""
    outcomes = [
        Outcome("one", "", "claw-text", Status.OK, allow("fine")),
        Outcome("two", "", "lesson", Status.OK, deny("no")),
    ]
    assert denied_result(fold(PRE, outcomes)).text == "Blocked by hook: no"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(deny(""), "denied by hook `hook-0`", id="a deny without words"),
        pytest.param(stop("enough"), "enough", id="a stop denies before a tool"),
        pytest.param(ask("sure?"), "sure?", id="ask, without a user"),
        pytest.param(Answer(decision=Decision.DENY, reason="{reason}"), "{reason}", id="braces are text"),
    ],
)
def test_odd_denials(answer: Answer, text: str) -> None:
    """A denied call always has some text."""
    assert denied_result(before(answer)) == Result(text, True)
