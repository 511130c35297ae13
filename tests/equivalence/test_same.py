"""Every script behaves the same in a fresh and in a warm interpreter: output, order, exit status, files."""

import sys
from pathlib import Path

import pytest

from equivalence import cases_ends, cases_files, cases_interpreter, cases_process, cases_scripts, cases_streams
from equivalence.harness import Case, check_same, parameters

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="warm interpreters are for Linux")
CASES = [
    *cases_interpreter.CASES,
    *cases_streams.CASES,
    *cases_process.CASES,
    *cases_ends.CASES,
    *cases_files.CASES,
    *cases_scripts.CASES,
]


def test_names_are_unique() -> None:
    """Each case can be named in a report."""
    assert len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", parameters(CASES))
def test_same(case: Case, tmp_path: Path) -> None:
    """Bytes, status and files are equal."""
    check_same(case, tmp_path / "here")
