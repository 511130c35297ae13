"""What the tests of answering share."""

from pathlib import Path

import pytest

from answering.agents import Agent


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """An agent with a home and a project of its own."""
    return Agent(tmp_path)
