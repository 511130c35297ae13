"""Fixtures for the tests of rules under test."""

from pathlib import Path

import pytest

from config.project import Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in a temporary folder, with its own home and state root."""
    return Project(tmp_path, monkeypatch)
