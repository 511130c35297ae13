"""The one reader for what hooks print refuses everything that two readers could read differently."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.core import strictjson
from billhook.core.errors import StrictJSONError
from strategies import json_values

BAD = [
    # text, message
    pytest.param("", "expecting value", id="empty"),
    pytest.param('{"a":1,"a":2}', 'the key "a" is given twice', id="reliability 3.3: duplicate keys"),
    pytest.param('[{"x":{"b":1,"b":1}}]', 'the key "b" is given twice', id="duplicate keys deep inside"),
    pytest.param('{"a":1,"\\u0061":2}', 'the key "a" is given twice', id="duplicate keys in escapes"),
    pytest.param("NaN", "NaN is not JSON", id="reliability 3.3: NaN"),
    pytest.param("[Infinity]", "Infinity is not JSON", id="Infinity"),
    pytest.param("[-Infinity]", "-Infinity is not JSON", id="-Infinity"),
    pytest.param("1e999", "too large", id="reliability 3.3: 1e999"),
    pytest.param("-1e999", "too large", id="-1e999"),
    pytest.param("[" * 65 + "]" * 65, "nested deeper than 64 levels", id="65 levels"),
    pytest.param("[" * 100_000 + "]" * 100_000, "nested deeper than 64 levels", id="reliability 3.3: 100,000 levels"),
    pytest.param('{"a":' * 65 + "1" + "}" * 65, "nested deeper than 64 levels", id="65 objects"),
    pytest.param("7" * 5000, "digits", id="reliability 3.3: 5,000 digits"),
    pytest.param("{} {}", "more text after the JSON document", id="two documents"),
    pytest.param("{}x", "more text after the JSON document", id="text after"),
    pytest.param("{'a':1}", "property name", id="single quotes"),
    pytest.param('{"a":1,}', "property name", id="a trailing comma"),
    pytest.param('{"a":"\n"}', "control character", id="a newline in a string"),
    pytest.param('"' + "x" * (1 << 20) + '"', "longer than 1,048,576 bytes", id="more than 1 MiB"),
    pytest.param('"' + "é" * (1 << 19) + '"', "longer than 1,048,576 bytes", id="bytes are counted, not characters"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_what_is_refused(text: str, message: str) -> None:
    """Each is a StrictJSONError with the reason, from text and from bytes."""
    for given_ in (text, text.encode()):
        with pytest.raises(StrictJSONError) as caught:
            strictjson.loads(given_)
        assert message in str(caught.value)


GOOD: list[Any] = [
    pytest.param("\ufeff{}", {}, id="a byte order mark"),
    pytest.param(" \n{} \n", {}, id="white space"),
    pytest.param("[" * 64 + "]" * 64, None, id="64 levels"),
    pytest.param('["' + "[" * 1000 + '"]', ["[" * 1000], id="brackets in a string are no levels"),
    pytest.param('["\\"' + "[" * 1000 + '"]', ['"' + "[" * 1000], id="brackets behind an escaped quote"),
    pytest.param("[]," * 0 + "[" + "{}," * 1000 + "{}]", [{}] * 1001, id="wide is not deep"),
    pytest.param('"\\ud800"', "\ud800", id="a lone surrogate"),
    pytest.param("1e308", 1e308, id="a large number"),
    pytest.param('"' + "x" * ((1 << 20) - 2) + '"', "x" * ((1 << 20) - 2), id="exactly 1 MiB"),
]


@pytest.mark.parametrize(("text", "value"), GOOD)
def test_what_is_accepted(text: str, value: Any) -> None:
    """One whole document is read, odd or not."""
    for given_ in (text, text.encode()):
        read = strictjson.loads(given_)
        assert value is None or read == value


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    """A bad byte in a reason does not lose the decision."""
    assert strictjson.loads(b'{"decision":"block","reason":"\xff"}') == {"decision": "block", "reason": "\ufffd"}


@given(json_values)
def test_what_is_written_is_one_ascii_line_that_reads_back(value: Any) -> None:
    """`dumps` writes one line of ASCII; `loads` reads the same value, lone surrogates included."""
    line = strictjson.dumps(value)

    assert line.isascii() and "\n" not in line
    assert strictjson.loads(line) == value
    assert json.loads(strictjson.compact(value)) == value


@given(st.text(alphabet='{}[]"\\,:a1 \n'))
def test_the_strict_reader_reads_nothing_that_the_loose_one_refuses(text: str) -> None:
    """Whatever is accepted means the same to Python's own reader; everything else is a StrictJSONError."""
    try:
        value = strictjson.loads(text)
    except StrictJSONError:
        return
    assert json.loads(text.removeprefix("\ufeff")) == value


@pytest.mark.parametrize(
    ("value", "line"),
    [
        pytest.param({"a": float("nan")}, '{"a":null}', id="NaN"),
        pytest.param([float("-inf")], "[null]", id="-Infinity"),
        pytest.param({(1, 2): {3: 4}}, '{"(1, 2)":{"3":4}}', id="keys that are no strings"),
        pytest.param({"a": (1, {2})}, '{"a":[1,[2]]}', id="a set is a list"),
    ],
)
def test_what_json_has_no_word_for_is_still_written(value: Any, line: str) -> None:
    """An odd value in a tool's input must not keep the guard from being asked."""
    assert strictjson.dumps(value) == line


HOSTILE = {
    "open brackets": "[" * (1 << 20),
    "open braces": "{" * (1 << 20),
    "quotes": "{}" * 65 + '"' * (1 << 20),
    "escaped quotes outside a string": "{}" * 65 + '\\"' * (1 << 19),
    "backslashes": "{}" * 65 + '"' + "\\" * (1 << 20),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_quickly(name: str) -> None:
    """A megabyte of any nonsense takes linear time."""
    began = time.process_time()
    with pytest.raises(StrictJSONError):
        strictjson.loads(HOSTILE[name], max_bytes=None)
    assert time.process_time() - began < 2


def test_a_preview_is_one_short_line() -> None:
    """What is shown of hostile text has no control characters and at most 160 of its characters."""
    shown = strictjson.preview("\x1b[31m\n" + "x" * 1000)

    assert shown.isascii() and shown.isprintable()
    assert shown.startswith("\\x1b[31m\\n") and shown.endswith("x...")


@given(json_values)
def test_our_own_json_is_read_like_any_other(value: Any) -> None:
    """The fast reader for our own files has the same result as the strict one."""
    data = strictjson.encode(value) + b"\n"
    assert strictjson.loads_own(data) == strictjson.loads(data, max_bytes=None)


OWN = [b'{"a":1,"a":2}', b'{"a": 1}', b"NaN", b'{"a":1e999}', b"{", b"\xff", b'{"a":"\\u0041"}', b"[" * 70 + b"]" * 70]


@pytest.mark.parametrize("data", OWN, ids=repr)
def test_an_edited_file_of_ours_is_read_strictly(data: bytes) -> None:
    """A file of ours that was edited is refused, or read, by the same rules as all JSON."""

    def outcome(read: Any) -> object:
        try:
            return read(data)
        except StrictJSONError as error:
            return str(error)

    assert outcome(strictjson.loads_own) == outcome(strictjson.loads)
