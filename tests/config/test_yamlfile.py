"""Read YAML into nodes: places, scalars, aliases, and text that can't be read."""

import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from billhook.config.nodes import FieldNodes, Node
from billhook.config.read_yaml import read_yaml

FILE = "hooks.yaml"
# PyYAML writes these line endings as if they were spaces.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029"), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=20
)
SAMPLE = """\
# a comment
version: 1
defaults: &all {timeout: 20, 'match': "Write|Edit"}
hooks:
  scan:
    <<: *all
    events: [PreToolUse, Stop]
    run: |
      echo é
    gate: yes
  other:
  - !!str 5
  - ~
"""


def plain(text: str) -> Any:
    node = read_yaml(text, FILE).node
    return node.plain() if node else "nothing"


def places(text: str) -> list[tuple[str, int, int]]:
    return [(one.code, one.line, one.column) for one in read_yaml(text, FILE).findings]


def leaves(node: Node) -> Iterator[Node]:
    if isinstance(node.value, FieldNodes):
        for key, value in node.value:
            yield key
            yield from leaves(value)
    elif isinstance(node.value, tuple):
        for value in node.value:
            yield from leaves(value)
    else:
        yield node


def at(text: str, line: int, column: int) -> str:
    """The text from a place on; fails if there is no such place."""
    starts = [0, *(found.end() for found in re.finditer("\r\n|[\r\n\x85\u2028\u2029]", text))]
    assert 1 <= line <= len(starts)
    end = starts[line] if line < len(starts) else len(text)
    assert 1 <= column <= end - starts[line - 1] + 1
    return text[starts[line - 1] + column - 1 :]


def test_places() -> None:
    """Every key and value has its line and column; an aliased value has the place of its anchor."""
    node = read_yaml(SAMPLE, FILE).node
    assert node
    assert [(one.value, one.line, one.column) for one in leaves(node)] == [
        ("version", 2, 1),
        (1, 2, 10),
        ("defaults", 3, 1),
        ("timeout", 3, 17),
        (20, 3, 26),
        ("match", 3, 30),
        ("Write|Edit", 3, 39),
        ("hooks", 4, 1),
        ("scan", 5, 3),
        ("timeout", 3, 17),
        (20, 3, 26),
        ("match", 3, 30),
        ("Write|Edit", 3, 39),
        ("events", 7, 5),
        ("PreToolUse", 7, 14),
        ("Stop", 7, 26),
        ("run", 8, 5),
        ("echo é\n", 8, 10),
        ("gate", 10, 5),
        (True, 10, 11),
        ("other", 11, 3),
        ("5", 12, 5),
        (None, 13, 5),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param("# only\n\n# comments", {}, id="only comments"),
        pytest.param("---\n", {}, id="empty document"),
        pytest.param("null", None, id="null"),
        pytest.param('""', "", id="empty text"),
        pytest.param(
            "on: a\nyes: b\n5: c\n~: d\n?\n: e", {"on": "a", "yes": "b", "5": "c", "~": "d", "": "e"}, id="keys"
        ),
        pytest.param("[on, off, Yes, NO, true, y]", [True, False, True, False, True, "y"], id="words of YAML 1.1"),
        pytest.param("[1, -2, 0x1f, 010, 0b11, 1_000]", [1, -2, 31, 8, 3, 1000], id="integers"),
        pytest.param("[1.5, .inf, 1e3, 1.0e+3]", [1.5, math.inf, "1e3", 1000.0], id="floats"),
        pytest.param("[190:20:30, '1:99:99', 1:99:99]", [685230, "1:99:99", "1:99:99"], id="base 60"),
        pytest.param("[0x_, 0b_, =, 08]", ["0x_", "0b_", "=", "08"], id="almost numbers"),
        pytest.param("[2001-01-01, !!binary aGk=, !!timestamp x]", ["2001-01-01", "aGk=", "x"], id="stay text"),
        pytest.param('[!!str 5, ! 5, !!int "5", !!float "5", !!null x]', ["5", "5", 5, 5.0, None], id="tags"),
        pytest.param("!!map {a: !!seq [1]}", {"a": [1]}, id="tags of collections"),
        pytest.param("a: &x 5\n*x : *x\n", {"a": 5, "5": 5}, id="alias as key"),
        pytest.param("&k on: 1\nb: *k", {"on": 1, "b": True}, id="anchored key"),
        pytest.param("[&x 1, &x 2, *x]", [1, 2, 2], id="anchor used again"),
        pytest.param("{<<: [{a: 1, b: 1}, {b: 2, c: 2}], c: 3}", {"a": 1, "b": 1, "c": 3}, id="merge"),
        pytest.param('{"<<": {a: 1}}', {"<<": {"a": 1}}, id="quoted merge key"),
        pytest.param("1:" * 200_000 + "1", "1:" * 200_000 + "1", id="endless base 60"),
        pytest.param("[" * 64 + "]" * 64, yaml.safe_load("[" * 64 + "]" * 64), id="64 levels"),
    ],
)
def test_valid(text: str, value: Any) -> None:
    """The values of scalars, tags, anchors and merge keys, without findings."""
    assert plain(text) == value
    assert places(text) == []


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join(['*' + before] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
DEEP_ALIAS = "a: &a " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 40 + "*a" + "]" * 40


@pytest.mark.parametrize(
    ("text", "value", "finding", "hint"),
    [
        pytest.param("a: 1\nb: 2\na: 3", {"a": 3, "b": 2}, ("BH105", 3, 1), "rename", id="duplicate key"),
        pytest.param("a: !x 1\nb: 2", {"b": 2}, ("BH107", 1, 4), "tag", id="custom tag"),
        pytest.param("a: !!python/name:os.system\nb: 2", {"b": 2}, ("BH107", 1, 4), "tag", id="Python tag"),
        pytest.param("a: !!set {x}\nb: 2", {"b": 2}, ("BH107", 1, 4), "tag", id="set"),
        pytest.param("!x a: 1\nb: 2", {"b": 2}, ("BH107", 1, 1), "tag", id="tag of a key"),
        pytest.param("a: !!int x\nb: 2", {"b": 2}, ("BH107", 1, 4), "tag", id="a value that does not fit its tag"),
        pytest.param('a: !!int ""\nb: 2', {"b": 2}, ("BH107", 1, 4), "tag", id="empty integer"),
        pytest.param("!x a", "nothing", ("BH107", 1, 1), "tag", id="nothing but a tag"),
        pytest.param("? [a]\n: b\nc: d", {"c": "d"}, ("BH104", 1, 3), "plain text", id="list as key"),
        pytest.param("x: &x [a]\n*x : b", {"x": ["a"]}, ("BH104", 2, 1), "plain text", id="alias of a list as key"),
        pytest.param("<<: 5\na: 1", {"a": 1}, ("BH104", 1, 1), "`<<: *anchor`", id="merge of a number"),
        pytest.param("a: 1\n---\nb: 2", "nothing", ("BH108", 2, 1), "one document", id="two documents"),
        pytest.param("a:\n\t- b", "nothing", ("BH104", 2, 1), "spaces", id="tab"),
        pytest.param("a: b: c", "nothing", ("BH104", 1, 5), "quotes", id="two colons"),
        pytest.param("a: [[ -f x ]] && b", "nothing", ("BH104", 1, 4), "quotes", id="brackets of a shell"),
        pytest.param("a: [[ -f x ]] || b", "nothing", ("BH104", 1, 4), "quotes", id="brackets and a pipe"),
        pytest.param("tests:\n  - a\n  b:\n    c: 1", "nothing", ("BH104", 3, 3), "below `hooks:`", id="after tests"),
        pytest.param("x:\n  - a\n  b: 1", "nothing", ("BH104", 3, 3), "begin it with `- `", id="after a list"),
        pytest.param("a: @x", "nothing", ("BH104", 1, 4), "quotes", id="reserved character"),
        pytest.param("a: [1, 2", "nothing", ("BH104", 1, 4), "`]`", id="unclosed list"),
        pytest.param("a: {b: 1", "nothing", ("BH104", 1, 4), "`}`", id="unclosed mapping"),
        pytest.param('a: "x\nb: 1', "nothing", ("BH104", 1, 4), "quote", id="unclosed quote"),
        pytest.param('a: "\\q"', "nothing", ("BH104", 1, 5), "backslash", id="unknown escape"),
        pytest.param("- a\nb", "nothing", ("BH104", 2, 1), "key: value", id="key without a colon"),
        pytest.param("a: *x", "nothing", ("BH104", 1, 4), "`&x`", id="no such anchor"),
        pytest.param("é: \x07", "nothing", ("BH104", 1, 4), "escape", id="control character"),
        pytest.param("é: \ud800", "nothing", ("BH104", 1, 4), "escape", id="surrogate"),
        pytest.param("a: &a [*a]", "nothing", ("BH106", 1, 8), "alias", id="contains itself"),
        pytest.param("&a {<<: *a}", "nothing", ("BH106", 1, 9), "alias", id="merges itself"),
        pytest.param(BOMB, "nothing", ("BH106", 5, 12), "alias", id="alias bomb"),
        pytest.param(DEEP_ALIAS, "nothing", ("BH106", 2, 44), "levels", id="deep by alias"),
        pytest.param("[" * 65 + "]" * 65, "nothing", ("BH106", 1, 65), "levels", id="65 levels"),
        pytest.param("[" * 100_000, "nothing", ("BH106", 1, 65), "levels", id="many brackets"),
        pytest.param("- " * 100_000, "nothing", ("BH106", 1, 129), "levels", id="many dashes"),
        pytest.param("{a: " * 100_000, "nothing", ("BH106", 1, 257), "levels", id="many braces"),
        pytest.param("- x\n" * 20_000, "nothing", ("BH106", 20_000, 3), "fewer", id="too many values"),
    ],
)
def test_errors(text: str, value: Any, finding: tuple[str, int, int], hint: str) -> None:
    """An error has one finding with its place and the fix; the other parts are read."""
    assert plain(text) == value
    assert places(text) == [finding]
    assert hint in read_yaml(text, FILE).findings[0].hint


@pytest.mark.parametrize("field", ["if: !x Bash(ls)", "exec: [a, !x b]", "headers: {a: !x b}", "<<: 5"])
def test_whole_entry(field: str) -> None:
    """Without one field it would be a different hook: it is left out as a whole, and the other hooks stay."""
    text = f"hooks:\n  one:\n    allow: fine\n    {field}\n  two:\n    deny: no\n"
    assert plain(text) == {"hooks": {"two": {"deny": False}}}
    assert [line for _, line, _ in places(text)] == [4]


@given(VALUES, st.booleans())
def test_round_trip(value: Any, flow: bool) -> None:
    """Text that PyYAML writes is read like PyYAML reads it, with keys as strings."""
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True)
    result = read_yaml(text, FILE)
    assert result.node and result.findings == ()
    assert result.node.plain() == value


@given(VALUES)
def test_places_point_at_values(value: Any) -> None:
    """The text at the place of every scalar is that scalar."""
    text = yaml.safe_dump(value, default_style='"', width=10_000)
    node = read_yaml(text, FILE).node
    assert node
    for one in leaves(node):
        found = at(text, one.line, one.column)
        assert found[0] in '"!'
        if isinstance(one.value, str) and found[0] == '"':
            assert yaml.safe_load(re.match(r'"(\\.|[^"\\])*"', found, re.DOTALL)[0]) == one.value  # type: ignore[index]


@given(st.text(st.sampled_from("{}[],:-?&*!|>%@`'\"#\n\t ab<~0x1.é\r\x85\0"), max_size=40) | st.text(max_size=40))
def test_any_text(text: str) -> None:
    """Any text results in a node or a finding, and every finding has a place inside of the text."""
    check(text)


@given(st.integers(0, len(SAMPLE) - 1), st.integers(0, 8), st.text(max_size=3))
def test_changed_text(position: int, removed: int, instead: str) -> None:
    """The same is true for a valid file with one change."""
    check(SAMPLE[:position] + instead + SAMPLE[position + removed :])


def check(text: str) -> None:
    result = read_yaml(text, FILE)
    assert result.node is not None or result.findings
    for one in result.findings:
        assert at(text, one.line, one.column) is not None
        assert one.hint and one.file == FILE and one.message
