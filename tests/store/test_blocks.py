"""Files of lines in blocks, from either end, with buffers so small that every line crosses one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook.store.log import reader as files

LINES = st.lists(st.binary(max_size=70).map(lambda line: line.replace(b"\n", b"")), max_size=30)
TAIL = st.binary(max_size=70).map(lambda line: line.replace(b"\n", b""))


@pytest.fixture(autouse=True, scope="module")
def small_buffers() -> Iterator[None]:
    """Blocks of 16 bytes, and a line of more than 64 is too long."""
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("FIRST", 8), ("BLOCK", 16), ("LONGEST", 64)):
            patch.setattr(files, name, size)
        yield


@contextmanager
def opened(data: bytes) -> Iterator[int]:
    with tempfile.TemporaryFile() as stream:
        stream.write(data)
        stream.flush()
        yield stream.fileno()


def expected(lines: list[bytes]) -> list[tuple[int, bytes]]:
    """Every line with its offset."""
    found, offset = [], 0
    for line in lines:
        found.append((offset, line))
        offset += len(line) + 1
    return found


def met(found: Iterator[files.LineBlock], *, backward: bool = False) -> tuple[list[tuple[int, bytes | None]], int]:
    """All lines of some blocks, and how many were passed over."""
    lines: list[tuple[int, bytes | None]] = []
    lost = 0
    for block in found:
        lost += block.lost
        lines += reversed(block.lines()) if backward else block.lines()
    return lines, lost


@settings(deadline=None)
@given(lines=LINES, tail=TAIL, closed=st.booleans())
def test_both_directions_have_the_same_lines(lines: list[bytes], tail: bytes, closed: bool) -> None:
    """Every line that is not too long, at its offset; an unfinished one counts as passed over in a closed file only."""
    data = b"".join(line + b"\n" for line in lines) + tail
    whole = [(offset, line) for offset, line in expected(lines) if len(line) < 64]
    too_long = len(lines) - len(whole) + bool(tail and closed)
    with opened(data) as file:
        ahead, lost_ahead = met(files.forward(file, closed=closed))
        back, lost_back = met(files.backward(file, len(data), closed=closed), backward=True)
    # A line may be a little longer than what is promised to be looked at, depending on where it lies.
    assert [one for one in ahead if len(one[1] or b"") < 64] == whole
    assert [one for one in reversed(back) if len(one[1] or b"") < 64] == whole
    assert len(ahead) - len(whole) + lost_ahead == len(back) - len(whole) + lost_back == too_long


@settings(deadline=None)
@given(lines=LINES, needles=st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=3))
def test_lines_with_some_bytes_are_those_that_have_them(lines: list[bytes], needles: list[bytes]) -> None:
    """The same lines as by looking at each; none twice."""
    sought = tuple(needle.replace(b"\n", b"x") for needle in needles)
    short = [line[:60] for line in lines]
    wanted = [(offset, line) for offset, line in expected(short) if any(needle in line for needle in sought)]
    found = []
    with opened(b"".join(line + b"\n" for line in short)) as file:
        for block in files.forward(file):
            found += block.lines(sought)
    assert found == wanted


@settings(deadline=None)
@given(lines=LINES, tail=TAIL, choice=st.data())
def test_lines_that_begin_at_some_places(lines: list[bytes], tail: bytes, choice: st.DataObject) -> None:
    """In any order; what has no newline is not there yet, and one that is too long is only named."""
    every = expected(lines)
    chosen = choice.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    unfinished = [sum(len(line) + 1 for line in lines)] if len(tail) < 64 else []
    with opened(b"".join(line + b"\n" for line in lines) + tail) as file:
        found = list(files.lines_at(file, [*(at for at, _ in chosen), *unfinished]))
    assert [at for at, _ in found] == [at for at, _ in chosen]
    assert [line for _, line in found] == [line if len(line) < 64 else None for _, line in chosen]


@settings(deadline=None)
@given(st.binary(max_size=200), st.binary(min_size=1, max_size=4))
def test_the_quick_search_finds_what_python_finds(data: bytes, needle: bytes) -> None:
    """Also with zeros in either."""
    assert files.quick_search()(data, needle) == (needle in data)


@pytest.mark.parametrize("keep", [0, 5, 24, 25, 26, 100])
def test_a_file_that_is_cut_off_meanwhile(tmp_path: Path, keep: int) -> None:
    """What is left is read, from either end; nothing fails."""
    lines = [b"%024d" % number for number in range(40)]
    path = tmp_path / "lines"
    for backward in (False, True):
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        file = os.open(path, os.O_RDONLY)
        found = files.backward(file, 1000) if backward else files.forward(file)
        seen = [next(found).lines()]
        os.truncate(path, keep)
        seen += [block.lines() for block in found]
        os.close(file)
        assert {line for some in seen for _, line in some} <= set(lines)
        assert len(seen[0]) >= 1
