"""Requests as bytes: they are decoded correctly, independent of earlier callers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.serve import protocol

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
NAME = st.text(st.sampled_from("ABC_"), min_size=1, max_size=3)
WHO = st.tuples(TEXT, st.lists(TEXT, max_size=3), TEXT, st.dictionaries(NAME, TEXT, max_size=3))


@given(st.lists(st.tuples(WHO, st.binary(max_size=20)), max_size=12))
def test_every_caller_is_told_from_the_others(
    calls: list[tuple[tuple[str, list[str], str, dict[str, str]], bytes]],
) -> None:
    """Also callers with nearly the same head."""
    for (version, argv, cwd, environ), stdin in [*calls, *calls]:
        body = protocol.request(version, argv, cwd, environ, stdin)[protocol.HEAD :]
        asked = protocol.read(body)
        assert (asked.version, asked.argv, asked.cwd, asked.stdin) == (version, argv, cwd, stdin)
        assert protocol.variables(asked.environ) == environ


@given(WHO, st.binary(min_size=1, max_size=20), st.data())
def test_a_request_that_is_cut_off_is_none(
    who: tuple[str, list[str], str, dict[str, str]], stdin: bytes, data: st.DataObject
) -> None:
    """Also when its caller is known."""
    body = protocol.request(*who, stdin)[protocol.HEAD :]
    protocol.read(body)
    with pytest.raises(protocol.BadRequestError):
        protocol.read(body[: data.draw(st.integers(0, len(body) - 1))])
    with pytest.raises(protocol.BadRequestError):
        protocol.read(body + b"x")
