"""Scripts that hypothesis makes: prints, reads, exits and exceptions in any order, plain and warm."""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equivalence.harness import ADDRESSES, Case, check_same

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="warm interpreters are for Linux")
PRELUDE = """\
import atexit, os, sys, threading
class Noisy:
    def __init__(self, text): self.text = text
    def __del__(self): print("del", self.text)
def fail(depth, error):
    if depth: fail(depth - 1, error)
    raise error
kept = []
"""
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
quoted = texts.map(repr)
streams = st.sampled_from(["sys.stdout", "sys.stderr"])
errors = st.builds(
    "{}({})".format, st.sampled_from(["ValueError", "KeyError", "OSError", "KeyboardInterrupt", "RuntimeError"]), quoted
)
codes = st.one_of(st.integers(-300, 300).map(repr), st.integers().map(repr), quoted, st.just("None"), st.just("[1]"))
ends = st.one_of(
    st.builds("sys.exit({})".format, codes),
    st.builds("os._exit({})".format, st.integers(0, 255)),
    st.builds("fail({}, {})".format, st.integers(0, 3), errors),
    st.builds("os.kill(os.getpid(), {})".format, st.sampled_from([1, 2, 9, 10, 15])),
)
effects = st.one_of(
    st.builds("print({}, file={})".format, quoted, streams),
    st.builds("print({}, end={}, flush=True)".format, quoted, quoted),
    st.builds("{}.write({})".format, streams, quoted),
    st.builds("os.write({}, {})".format, st.sampled_from([1, 2]), st.binary(max_size=8).map(repr)),
    st.builds("sys.stdout.buffer.write({})".format, st.binary(max_size=8).map(repr)),
    st.builds("{}.flush()".format, streams),
    st.builds("print(ascii(sys.stdin.read({})))".format, st.integers(0, 20)),
    st.just("print(ascii(sys.stdin.readline()))"),
    st.just("print(ascii(input('> ')))"),
    st.builds("print(os.read(0, {}))".format, st.integers(1, 9)),
    st.builds("atexit.register(print, {})".format, quoted),
    st.builds("atexit.register(fail, {}, {})".format, st.integers(0, 1), errors),
    st.builds("kept.append(Noisy({}))".format, quoted),
    st.builds("thread = threading.Thread(target=print, args=({},)); thread.start(); thread.join()".format, quoted),
    st.builds("thread = threading.Thread(target=fail, args=(0, {})); thread.start(); thread.join()".format, errors),
    st.builds("open('log', 'a').write({})".format, quoted),
    st.just("os.dup2(1, 2)"),
    st.just("sys.stdin.close()"),
)


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def blocks(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    """Statements around other statements."""
    return st.one_of(
        st.builds(lambda body, end: ["try:", *indented(body), "finally:", *indented(end)], inner, inner),
        st.builds(
            lambda body, catch, end: ["try:", *indented(body), f"except {catch}:", *indented(end)],
            inner,
            st.sampled_from(["Exception as error", "BaseException as error", "SystemExit", "ValueError"]),
            inner,
        ),
        st.builds(lambda body: ["def work():", *indented(body), "work()"], inner),
        st.builds(lambda body: ["for _ in range(2):", *indented(body)], inner),
        st.builds(lambda one, two: one + two, inner, inner),
    )


statements = st.one_of(effects, effects, effects, ends).map(lambda line: [line])
bodies = st.recursive(
    st.lists(statements, min_size=1, max_size=4).map(lambda parts: [line for part in parts for line in part]),
    blocks,
    max_leaves=5,
)
inputs = st.one_of(st.binary(max_size=40), st.text(max_size=40).map(str.encode))


def check(body: list[str], stdin: bytes, folder: Path) -> None:
    script = PRELUDE + "\n".join(body) + "\n"
    check_same(Case(name="made", script=script.encode(), stdin=stdin, normalise=ADDRESSES), folder)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(bodies, inputs)
def test_made(tmp_path: Path, body: list[str], stdin: bytes) -> None:
    """Whatever a script prints, reads and raises, both ways are equal."""
    check(body, stdin, tmp_path / "here")


@pytest.mark.slow
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(bodies, inputs)
def test_many_made(tmp_path: Path, body: list[str], stdin: bytes) -> None:
    """The same with many more scripts."""
    check(body, stdin, tmp_path / "here")
