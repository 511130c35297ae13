"""The command line of a hook."""

import pytest

from billhook.core.errors import UsageError
from billhook.serve.hook_server import Arguments


def taken(*words: str) -> Arguments:
    arguments = Arguments()
    arguments.take(list(words))
    return arguments


def test_every_option_in_both_spellings() -> None:
    """`--as claw` and `--as=claw` are the same."""
    apart = taken(
        *("--as", "claw", "--on-failure", "deny", "--config", "a", "--config", "b"),
        *("--deadline", "5000", "--from", "user", "Stop"),
    )
    together = taken(
        "--as=claw", "--on-failure=deny", "--config=a", "--config=b", "--deadline=5000", "--from=user", "Stop"
    )
    assert apart == together == Arguments("claw", "deny", ["a", "b"], "Stop", 5.0, "user")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--as", "cluade"], "cluade"),
        (["--on-failure", "maybe"], "maybe"),
        (["--deadline", "soon"], "soon"),
        (["--deadline", "0"], "0"),
        (["--deadline", "-5"], "-5"),
        (["--deadline", "٣"], "٣"),
        (["--deadline", "9999999999"], "9999999999"),
        (["--from", "me"], "me"),
        (["--config"], "--config"),
        (["--verbose"], "--verbose"),
        (["Stop", "Start"], "Start"),
    ],
)
def test_a_slip_is_named(words: list[str], named: str) -> None:
    """The error has the problem and a hint."""
    with pytest.raises(UsageError, match=named) as raised:
        taken(*words)
    assert raised.value.hint


def test_hooks_have_less_time_than_the_agent_waits() -> None:
    """A tenth is kept for carrying the answer, a fifth of a second at least and half a second at most, and never more
    than half; without a deadline there is none."""
    assert taken().seconds_for_hooks is None
    assert taken("--deadline", "100").seconds_for_hooks == pytest.approx(0.05)
    assert taken("--deadline", "1000").seconds_for_hooks == pytest.approx(0.8)
    assert taken("--deadline", "3000").seconds_for_hooks == pytest.approx(2.7)
    assert taken("--deadline", "60000").seconds_for_hooks == pytest.approx(59.5)
