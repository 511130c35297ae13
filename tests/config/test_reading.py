"""Read bytes into nodes: encodings, limits, and the choice of the reader."""

import codecs
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.config.nodes import MAX_BYTES, read_text

JSON_SAMPLE = (
    b'{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"command": "a \xc3\xa9"}]}]}, // x\n "b": [1, 2,]}'
)
YAML_SAMPLE = "hooks:\n  é: {events: [Stop], run: |\n".encode() + b"x: &a 1\ny: *a\n"


@pytest.mark.parametrize(
    ("data", "file", "value"),
    [
        pytest.param(b'{"a": 1} // x', "a.json", {"a": 1}, id="json"),
        pytest.param(b"a: 1", "a.yaml", {"a": 1}, id="yaml"),
        pytest.param(b"a: 1", "A.YML", {"a": 1}, id="yml"),
        pytest.param(b"{a: 1} # x", "a.yaml", {"a": 1}, id="braces in yaml"),
        pytest.param(b' \n{"a": 1} // x', "hooks", {"a": 1}, id="braces without an ending"),
        pytest.param(b"a: 1 # x", "hooks.conf", {"a": 1}, id="no braces without an ending"),
        pytest.param(codecs.BOM_UTF8 + b'{"a": 1} // x', "hooks", {"a": 1}, id="byte order mark"),
        pytest.param('{"é": "😀"}'.encode("utf-16"), "a.json", {"é": "😀"}, id="UTF-16"),
        pytest.param(codecs.BOM_UTF16_BE + "é: 1".encode("utf-16-be"), "a.yaml", {"é": 1}, id="UTF-16, big-endian"),
        pytest.param(b"", "a.json", {}, id="empty json"),
        pytest.param(codecs.BOM_UTF8, "a.yaml", {}, id="only a mark"),
        pytest.param(b"  \n", "a", {}, id="blank"),
        pytest.param(b'"' + b"x" * (MAX_BYTES - 2) + b'"', "a.json", "x" * (MAX_BYTES - 2), id="as large as allowed"),
    ],
)
def test_read(data: bytes, file: str, value: Any) -> None:
    """The suffix picks the reader, else the first character; a byte order mark is not part of the text."""
    result = read_text(data, file)
    assert result.findings == ()
    assert result.node and result.node.plain() == value


def test_empty_place() -> None:
    """An empty file is an empty mapping at its beginning."""
    for file in ("a.json", "a.yaml", "a"):
        node = read_text(b"\n\n", file).node
        assert node and (node.line, node.column, node.kind) == (1, 1, "a mapping")


@pytest.mark.parametrize("file", ["a.json", "a.yaml", "a"])
@pytest.mark.parametrize(
    ("data", "finding"),
    [
        pytest.param(b"\xff", ("BH102", 1, 1), id="not UTF-8"),
        pytest.param("a: 1\né: ".encode() + b"\xe9", ("BH102", 2, 4), id="Latin 1"),
        pytest.param(codecs.BOM_UTF8 + b"a\n b\xc3", ("BH102", 2, 3), id="cut short, with a mark"),
        pytest.param(b"\xed\xa0\x80", ("BH102", 1, 1), id="surrogate"),
        pytest.param(codecs.BOM_UTF16_LE + b"a\0\n\0b\0\x00\xd8", ("BH102", 2, 2), id="UTF-16 cut short"),
        pytest.param(b"#" * (MAX_BYTES + 1), ("BH103", 1, 1), id="too large"),
    ],
)
def test_unreadable(data: bytes, finding: tuple[str, int, int], file: str) -> None:
    """A file that can't be decoded, or is too large, has one finding, with the place of the first bad byte."""
    result = read_text(data, file)
    assert result.node is None
    assert [(one.code, one.line, one.column) for one in result.findings] == [finding]
    assert result.findings[0].hint and result.findings[0].file == file


@given(
    st.sampled_from([JSON_SAMPLE, YAML_SAMPLE]),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 4), st.binary(max_size=3)), max_size=4),
    st.sampled_from(["a.json", "a.yaml", "a"]),
)
def test_changed_bytes(data: bytes, changes: list[tuple[int, int, bytes]], file: str) -> None:
    """Whatever happens to a file, it is read or there is a finding with a place."""
    for position, removed, instead in changes:
        data = data[:position] + instead + data[position + removed :]
    result = read_text(data, file)
    assert result.node is not None or result.findings
    assert all(one.line >= 1 and one.column >= 1 and one.hint for one in result.findings)


@given(st.binary(max_size=60), st.sampled_from(["a.json", "a.yaml", "a"]))
def test_any_bytes(data: bytes, file: str) -> None:
    """The same is true for any bytes."""
    result = read_text(data, file)
    assert result.node is not None or result.findings
