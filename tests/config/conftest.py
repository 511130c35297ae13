"""What the tests of configuration share."""

from pathlib import Path

import pytest

from config.project import Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in a temporary folder, with a home and a state root of its own."""
    return Project(tmp_path, monkeypatch)
