"""The tables of the compiled client and of its launcher are generated from the records of the agents."""

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "client_words.py"


@pytest.fixture(scope="module")
def generator() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_the_tables_are_up_to_date(generator: dict[str, Any]) -> None:
    """If not: `.venv/bin/python scripts/client_words.py`."""
    assert generator["TABLE"].read_text("utf-8") == generator["header"]()
    text = generator["LAUNCHER"].read_text("utf-8")
    assert text == generator["launcher"](text)


def test_every_event_has_one_kind(generator: dict[str, Any]) -> None:
    names = [name for names in generator["kinds"]().values() for name in names]
    assert len(names) == len(set(names))
