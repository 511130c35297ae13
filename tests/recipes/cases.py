"""Test cases as `tests:` of a hooks.yaml has them, judged by the real engine in a separate folder."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from billhook.config import load_config
from billhook.config.cases import event_of
from billhook.config.recipes import shipped
from billhook.core.answers import Verdict
from billhook.core.events import Event, parse
from billhook.testing.expectations import differences

RECIPES = {one.name: one for one in shipped()}


class Scratch:
    """A project with a hooks.yaml, below a temporary home."""

    def __init__(self, folder: Path, hooks: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project, self.home = folder / "project", folder / "home"
        self.home.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("XDG_CONFIG_HOME", "")
        monkeypatch.delenv("BILLHOOK_HOME", raising=False)
        self.file(".billhook/hooks.yaml", hooks)

    def file(self, name: str, text: str) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def git(self, *words: str) -> str:
        env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        settings = ("user.name=A", "user.email=a@example.com", "init.defaultBranch=main")
        names = [word for setting in settings for word in ("-c", setting)]
        done = subprocess.run(["git", *names, *words], cwd=self.project, env=env, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def event(self, case: Mapping[str, Any]) -> Event:
        """The event of a case, here, with the files that the case names."""
        for name, text in case.get("files", {}).items():
            self.file(name, text)
        base = {"session_id": "s1", "transcript_path": "", "cwd": str(self.project)}
        return parse({**base, **event_of(case)})

    def fire(self, event: Event, agent: str = "claude") -> Verdict:
        """The verdict about an event from an agent; hooks that answer later have answered."""
        config = load_config(self.project, trust="all", home=self.home / ".claude")
        engine = config.engine(host=agent)
        verdict = engine.fire_sync(event)
        engine.background.settle(20)
        return verdict


def judge(case: Mapping[str, Any], verdict: Verdict) -> None:
    """Compare a verdict with what a case expects."""
    assert list(differences(case, verdict)) == []


def possible(case: Mapping[str, Any]) -> bool:
    """Whether the programs that a case needs are here."""
    return "needs" not in case or shutil.which(case["needs"]) is not None
