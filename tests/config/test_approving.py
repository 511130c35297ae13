"""Approving from Python: by hash, in a folder."""

import pytest

from billhook.config.trust import approve
from billhook.core.errors import UsageError
from config.project import Project


def test_an_unknown_hash(project: Project) -> None:
    """The error names the folder, and how to approve in another one."""
    project.write("hooks.yaml", "hooks:\n  it: {events: Stop, run: 'true'}\n")
    with pytest.raises(UsageError) as caught:
        approve("0" * 64, cwd=project.folder, home=project.root)
    assert f"no pending hook in {project.folder} has the hash `000" in caught.value.message
    assert caught.value.hint == "`billhook trust` shows pending hooks; for another folder: `approve(hash, cwd=...)`"
