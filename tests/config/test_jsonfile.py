"""Read JSON into nodes: places, accepted extensions, and what is read of a file with errors."""

import json
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.config.nodes import FieldNodes, Node
from billhook.config.read_json import read_json

FILE = "settings.json"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=20
)
NOISE = ("", "", " ", "\n", "\t", "\r\n", "// a comment, {\n", '/* one " \n more */')
CONFIG: dict[str, Any] = {
    "model": "opus",
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"command": "a.sh", "args": ["-c", "x, y"], "timeout": 5}, {"command": "b"}]},
            {"matcher": "Write|Edit", "hooks": [{"url": "http://h/", "headers": {"a": "b", "c": "{d}"}}]},
        ],
        "Stop": [{"hooks": [{"command": "echo [it]", "async": True}]}],
    },
    "env": {"A": "1"},
}


def plain(text: str) -> Any:
    node = read_json(text, FILE).node
    return node.plain() if node else "nothing"


def places(text: str) -> list[tuple[str, int, int]]:
    return [(one.code, one.line, one.column) for one in read_json(text, FILE).findings]


def walk(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node.value, FieldNodes):
        for key, value in node.value:
            yield key
            yield from walk(value)
    elif isinstance(node.value, tuple):
        for value in node.value:
            yield from walk(value)


def at(text: str, line: int, column: int) -> str:
    """The text from a place on; fails if there is no such place."""
    lines = text.split("\n")
    assert 1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1
    return "\n".join(lines[line - 1 :])[column - 1 :]


def noisy(value: Any, dice: random.Random) -> str:
    """JSON with comments, odd white space and trailing commas."""

    def gap() -> str:
        return dice.choice(NOISE)

    def inside(parts: list[str]) -> str:
        return ",".join(parts) + (gap() + "," if parts and dice.random() < 0.3 else "") + gap()

    if isinstance(value, dict):
        pairs = [f"{gap()}{json.dumps(k)}{gap()}:{gap()}{noisy(v, dice)}{gap()}" for k, v in value.items()]
        return "{" + inside(pairs) + "}"
    if isinstance(value, list):
        return "[" + inside([gap() + noisy(one, dice) + gap() for one in value]) + "]"
    return json.dumps(value, ensure_ascii=dice.random() < 0.5)


def test_places() -> None:
    """Every key and value has its line and column, counted in characters from 1."""
    text = '// é\n{"ключ": 1, "b": [true,\n  null, {"😀": "é"}], /* é */ "c": -1.5e3\r\n, "d": "x"}'
    node = read_json(text, FILE).node
    assert node
    assert [
        (one.value, one.line, one.column) for one in walk(node) if not isinstance(one.value, tuple | FieldNodes)
    ] == [
        ("ключ", 2, 2),
        (1, 2, 10),
        ("b", 2, 13),
        (True, 2, 19),
        (None, 3, 3),
        ("😀", 3, 10),
        ("é", 3, 15),
        ("c", 3, 30),
        (-1500.0, 3, 35),
        ("d", 4, 3),
        ("x", 4, 8),
    ]
    assert (node.line, node.column) == (2, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param(" // only\n/* comments */", {}, id="only comments"),
        pytest.param("{}", {}, id="empty object"),
        pytest.param('{"a": 1,}', {"a": 1}, id="trailing comma in an object"),
        pytest.param("[1, 2 /* x */ , // y\n]", [1, 2], id="trailing comma in a list"),
        pytest.param('{"a": "// no /* comment"}', {"a": "// no /* comment"}, id="comment marks in a string"),
        pytest.param(r'"\"\\\/\b\f\n\r\t\u00e9"', '"\\/\b\f\n\r\té', id="escapes"),
        pytest.param(r'"\ud83d\ude00"', "😀", id="surrogate pair"),
        pytest.param(r'"a\ud83dz\ude00"', "a\ufffdz\ufffd", id="lone surrogates"),
        pytest.param("1e999", math.inf, id="float beyond floats"),
        pytest.param("-" + "9" * 400, -int("9" * 400), id="large integer"),
        pytest.param("9" * 5000, math.inf, id="integer beyond Python's limit"),
        pytest.param("[" * 64 + "]" * 64, json.loads("[" * 64 + "]" * 64), id="64 levels"),
    ],
)
def test_valid(text: str, value: Any) -> None:
    """Accepted extensions cause no finding."""
    assert plain(text) == value
    assert places(text) == []


@pytest.mark.parametrize(
    ("text", "value", "finding", "hint"),
    [
        pytest.param('{"a": NaN, "b": 2}', {"b": 2}, ("BH104", 1, 7), "null", id="NaN"),
        pytest.param('{"a": -Infinity, "b": 2}', {"b": 2}, ("BH104", 1, 7), "null", id="Infinity"),
        pytest.param('{"a": True, "b": 2}', {"b": 2}, ("BH104", 1, 7), "`true`", id="Python's True"),
        pytest.param("{'a': 1, \"b\": 2}", {"b": 2}, ("BH104", 1, 2), '`"a"`', id="single-quoted key"),
        pytest.param('{"a": \'x\', "b": 2}', {"b": 2}, ("BH104", 1, 7), '`"x"`', id="single-quoted value"),
        pytest.param('{a: 1, "b": 2}', {"b": 2}, ("BH104", 1, 2), '`"a"`', id="unquoted key"),
        pytest.param('{"a": x, "b": 2}', {"b": 2}, ("BH104", 1, 7), '`"x"`', id="unquoted value"),
        pytest.param('{"a": 1\n "b": 2}', {"a": 1, "b": 2}, ("BH104", 2, 2), "`,`", id="missing comma"),
        pytest.param('{"a": 1; "b": 2}', {"a": 1, "b": 2}, ("BH104", 1, 8), "`,`", id="semicolon"),
        pytest.param('{"a" 1, "b": 2}', {"b": 2}, ("BH104", 1, 2), '`"key": value`', id="missing colon"),
        pytest.param('{"a" = 1, "b": 2}', {"b": 2}, ("BH104", 1, 6), "", id="equals sign"),
        pytest.param('{"a": , "b": 2}', {"b": 2}, ("BH104", 1, 2), "value", id="missing value"),
        pytest.param('{"a": "b": "c", "d": 2}', {"d": 2}, ("BH104", 1, 10), "`,`", id="two colons"),
        pytest.param('{"a": 1,, "b": 2}', {"a": 1, "b": 2}, ("BH104", 1, 9), "`,`", id="two commas"),
        pytest.param('{5: 1, "b": 2}', {"b": 2}, ("BH104", 1, 2), '`"key": value`', id="number as key"),
        pytest.param('{"a": 01, "b": 2}', {"b": 2}, ("BH104", 1, 7), "`0.5`", id="leading zero"),
        pytest.param('{"a": "\\q", "b": 2}', {"b": 2}, ("BH104", 1, 8), "`\\\\`", id="unknown escape"),
        pytest.param('{"a": "x\ty", "b": 2}', {"b": 2}, ("BH104", 1, 9), "`\\u0009`", id="tab in a string"),
        pytest.param('{"a": ["x" "y", "z"]}', {"a": ["z"]}, ("BH104", 1, 12), "`,`", id="missing comma in a list"),
        pytest.param('{"a": ["b": 1]}', {"a": []}, ("BH104", 1, 11), "`{`", id="colon in a list"),
        pytest.param('{"a": 1, "a": 2}', {"a": 2}, ("BH105", 1, 10), "rename", id="duplicate key"),
        pytest.param('{"a": 1', "nothing", ("BH104", 1, 1), "`}`", id="missing brace"),
        pytest.param('{"a": [1, 2}', "nothing", ("BH104", 1, 12), "`]`", id="crossed brackets"),
        pytest.param('{"a": 1}}', "nothing", ("BH104", 1, 9), "`}`", id="one brace too many"),
        pytest.param('"a": 1', "nothing", ("BH104", 1, 4), "`{`", id="no braces"),
        pytest.param("{}\n{}", "nothing", ("BH108", 2, 1), "one document", id="two documents"),
        pytest.param("{} x", "nothing", ("BH108", 1, 4), "one document", id="text after the end"),
        pytest.param("# c\n{}", "nothing", ("BH104", 1, 1), "`//`", id="hash comment"),
        pytest.param('{"a": "x\n}', "nothing", ("BH104", 1, 7), '`"`', id="unclosed string"),
        pytest.param('{"a": "x, "b": 1}', "nothing", ("BH104", 1, 12), '`"`', id="unmatched quotes"),
        pytest.param("{} /* x", "nothing", ("BH104", 1, 4), "`*/`", id="unclosed comment"),
        pytest.param('{"a": \'{"b": 1}\'}', "nothing", ("BH104", 1, 7), "double", id="JSON in single quotes"),
        pytest.param("[" * 65 + "]" * 65, "nothing", ("BH106", 1, 65), "levels", id="65 levels"),
        pytest.param("[" * 500_000, "nothing", ("BH106", 1, 65), "levels", id="many brackets"),
    ],
)
def test_errors(text: str, value: Any, finding: tuple[str, int, int], hint: str) -> None:
    """An error has one finding with its place and the fix; valid parts around it are read."""
    assert plain(text) == value
    assert places(text) == [finding]
    assert hint in read_json(text, FILE).findings[0].hint


@pytest.mark.parametrize(
    ("entry", "column"),
    [
        pytest.param('{"command": "x" "if": "Bash(ls)"}', 17, id="missing comma"),
        pytest.param('{"command": "x", "if": Bash}', 24, id="unquoted condition"),
        pytest.param('{"command": "x", "args": ["a" "b"]}', 31, id="missing comma in arguments"),
        pytest.param('{"command": "x", "headers": {"a": }}', 30, id="missing value further in"),
        pytest.param('{"command": "echo "hi" there"}', 20, id="quotes inside a string"),
    ],
)
def test_whole_entry(entry: str, column: int) -> None:
    """Without one field it would be a different hook: it is left out as a whole, and the other hooks stay."""
    text = f'{{"hooks": {{"PreToolUse": [{{"matcher": "B", "hooks": [\n{entry},\n{{"command": "y"}}]}}, {{"c": 1}}]}}}}'
    assert plain(text) == {"hooks": {"PreToolUse": [{"matcher": "B", "hooks": [{"command": "y"}]}, {"c": 1}]}}
    assert places(text) == [("BH104", 2, column)]


def handlers(value: Any) -> Iterator[Any]:
    for groups in value.get("hooks", {}).values():
        for group in groups:
            yield (group.get("matcher"), None)
            yield from ((group.get("matcher"), one) for one in group.get("hooks", ()))


@pytest.mark.parametrize("indent", [None, 1], ids=["one line", "many lines"])
@pytest.mark.parametrize("instead", ["", " ", '"', ",", ":", "{", "}", "[", "]", "'", "x", "\n", "/*", "\\"])
def test_nothing_invented(indent: int | None, instead: str) -> None:
    """If one character is removed or replaced and the file is not valid JSON any more, no new hook appears."""
    text = json.dumps(CONFIG, indent=indent)
    old = list(handlers(CONFIG))
    for position in range(len(text)):
        changed = text[:position] + instead + text[position + 1 :]
        try:
            value = json.loads(changed)
        except ValueError:
            result = read_json(changed, FILE)
            kept = result.node.plain() if result.node else {}
            assert not isinstance(kept, dict) or all(one in old for one in handlers(kept)), changed
            tolerated = instead in ("", ",", "/*") and not result.findings
            assert tolerated or result.findings, changed
        else:
            assert plain(changed) == value


@given(VALUES, st.randoms(use_true_random=False))
def test_round_trip(value: Any, dice: random.Random) -> None:
    """What is written is read back, with comments and trailing commas too."""
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False), noisy(value, dice)):
        result = read_json(text, FILE)
        assert result.node and result.findings == ()
        assert result.node.plain() == value


@given(VALUES, st.randoms(use_true_random=False))
def test_places_point_at_values(value: Any, dice: random.Random) -> None:
    """The text at the place of every value is that value."""
    text = noisy(value, dice)
    node = read_json(text, FILE).node
    assert node
    for one in walk(node):
        found, _ = json.JSONDecoder().raw_decode(at(text, one.line, one.column)) if is_leaf(one) else (None, 0)
        assert found == one.value if is_leaf(one) else at(text, one.line, one.column)[0] in "{["


def is_leaf(node: Node) -> bool:
    return not isinstance(node.value, tuple | FieldNodes)


@given(st.text(st.sampled_from("{}[],:;\"'\\/*\n 1ae-.ué\0"), max_size=40) | st.text(max_size=40))
def test_any_text(text: str) -> None:
    """Any text results in a node or a finding, and every finding has a place inside of the text."""
    result = read_json(text, FILE)
    assert result.node is not None or result.findings
    for one in result.findings:
        assert at(text, one.line, one.column) is not None
        assert one.hint and one.file == FILE and one.message


@pytest.mark.parametrize(
    "text",
    [
        '{"a" ' * 5,
        '{"a" "a" ',
        "[1 ",
        "[,",
        "[:",
        'a"',
        '["a"b"',
        '"\\"',
        "/*",
        "'",
        "[{}",
        '"a,"b ',
        "[]",
        "\n'",
        '"a"1',
    ],
)
def test_hostile_repetition(text: str) -> None:
    """A long file full of errors is read quickly, with few findings."""
    for long in (text * (200_000 // len(text)), "[" + text.strip("[") * (200_000 // len(text)) + "]"):
        result = read_json(long, FILE)
        assert len(result.findings) <= 100
