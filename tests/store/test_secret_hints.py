"""The look that decides which searches for secrets are necessary."""

import sys

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from billhook.core import strictjson
from billhook.store.redaction import possible_rules
from billhook.store.secrets import RULES, SHAPES, SecretNames

NAMES = SecretNames(())
TAILS = ["aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9fG1hJ3", "0123456789abcdef" * 6, "bob:x@host", "A" * 30]
BITS = [
    *NAMES.triggers,
    *(hint for rule in RULES for hint in rule.hints),
    *(shape.prefixes[0] + TAILS[0] for shape in SHAPES),
    *("\n", "\t", "\b", "\x01", "\x1b[31m", "%3D", "%\x01A", "\\n", "_", "-", " ", "x", "A9", '"', "'", "\\", "é", "/"),
    *(" -u ", " -p ", "http://", '"auth": "', *TAILS),
]


@pytest.fixture(params=["with RE2", "without"])
def with_re2(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "without":
        monkeypatch.delitem(sys.modules, "re2")
    return bool(re2) and request.param == "with RE2"


@given(text=st.lists(st.sampled_from(BITS), max_size=6).map("".join))
def test_the_look_misses_nothing(text: str) -> None:
    """A rule or name that matches some text is tried, in the text itself and in JSON."""
    finding = {number for number, rule in enumerate(RULES) if any(rule.find(text))}
    named = {trigger for trigger in NAMES.triggers if trigger in text.lower()}
    for data in (text.encode(), strictjson.encode({"x": text})):
        rules, triggers = possible_rules(data, NAMES)
        assert finding <= {RULES.index(rule) for rule in rules}
        assert named <= set(triggers)


def test_most_texts_are_clean(with_re2: bool) -> None:
    """Words that only begin like a token's prefix don't cost a search."""
    rules, triggers = possible_rules(b'{"command":"ls -la src/file/work","description":"Lists"}', NAMES)
    assert not rules and not triggers
    if with_re2:
        assert possible_rules(b"ls src/task-list/oauth.py https://host/", NAMES) == ((), ())


def test_a_record_that_names_a_file_of_hooks_is_clean(with_re2: bool) -> None:
    """A web hook's address has `hooks` in it, and so has every record of a hook from a file: that alone is no hint."""
    for place in ("/home/me/x/.claude/hooks.yaml", "/home/me/.claude/hooks/guard.py", "hooks.jsonl"):
        rules, triggers = possible_rules(b'{"source":"%b"}' % place.encode(), NAMES)
        assert not rules and not triggers


def test_where_the_look_fails_everything_is_tried() -> None:
    """RE2 gives up when it has no room: that must not pass for a clean text."""
    names = SecretNames(())
    names.__dict__["looks"] = lambda data: []
    assert possible_rules(b"ls", names) == (RULES, names.triggers)
