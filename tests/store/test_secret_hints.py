"""The quick look that tells whether a text is worth searching for secrets."""

import re2
from hypothesis import given
from hypothesis import strategies as st

from billhook.store.secrets import names
from billhook.store.secrets.names import SecretNames

assert re2, "the quick look is taken where this is loaded"
TRIGGERS = SecretNames(()).triggers
BITS = [
    *names._words(),
    *names._pieces(),
    *(encoded for _, encoded in TRIGGERS),
    *(hint.encode() for rule in names.RULES for hint in rule.hints),
    *(b"\\n", b"\\t", b"\\u", b"%", b"_", b"-", b" ", b"x", b"A9", b'"', b"\\", "é".encode(), b"/", b"."),
]


@given(st.lists(st.sampled_from(BITS), max_size=5).map(b"".join), st.sampled_from([bytes, bytes.upper, bytes.lower]))
def test_the_quick_look_misses_nothing(data: bytes, change: type[bytes]) -> None:
    """What it calls clean holds nothing that a rule or a name could find."""
    data = change(data)
    if names.quick_look(TRIGGERS)(data) is None:
        assert not names._rules(data)
        assert not any(encoded in data.lower() for _, encoded in TRIGGERS)


def test_most_texts_are_clean() -> None:
    """Words that only begin like a token's prefix don't cost a search."""
    assert names.worth_trying(b'{"command":"ls -la src/task/work","description":"Lists"}', TRIGGERS) == ((), ())


def test_a_record_that_names_a_file_of_hooks_is_clean() -> None:
    """A web hook's address has `hooks` in it, and so has every record of a hook from a file: that alone is no hint."""
    for place in ("/home/me/x/.claude/hooks.yaml", "/home/me/.claude/hooks/guard.py", "hooks.jsonl"):
        assert names.worth_trying(b'{"source":"%b"}' % place.encode(), TRIGGERS) == ((), ())
        assert not names._rules(place.encode())
