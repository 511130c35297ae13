"""The lines that `add` prints under "see it work" do show it: pasted into a shell, in an empty folder and in git."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from billhook.config.recipes import shipped
from cli.place import Place

EFFECTS = {
    "compaction-notes": r"notes-load +told the model.*to model +The parser is left to do",
    "file-context": r"file-context +told the model.*to model +Deploys are on Fridays",
    "git-context": r"git-context +told the model.*to model +## ",
    "commit-each-turn": r"commit-each-turn +no objection.*\n[0-9a-f]{7,} The turn is over\n",
    "conventional-commits": r"conventional-commits +deny",
    "no-commits-to-main": r"no-commits-to-main +deny",
    "no-verify": r"no-verify +deny",
    "session-limits": r"rate-limit +runs\n +note: tool calls at most 500 times per session, then ask",
    "event-log": r'event-log +no objection.*\n\{.*"hook_event_name": ?"PreToolUse"',
    "event-webhook": r"event-webhook +background .*POST http://127\.0\.0\.1:8080/events.*event-webhook failed later",
    "notify-bell": r"notify-bell +no objection",
    "notify-desktop": r"notify-desktop +no objection",
    "notify-sound": r"notify-sound answered later",
    "locked-installs": r"locked-installs +deny",
    "use-pnpm": r"use-pnpm +rewrote input.*pnpm run build",
    "use-uv": r"use-uv +rewrote input.*uv pip install rich",
    "private-paths": r"private-paths +deny",
    "protect-paths": r"protect-paths +deny",
    "format-after-edit": r"format-python +no objection.*\nx = 1\n",
    "lint-after-edit": r"lint-python +.*F401",
    "tests-before-stop": r"tests-before-stop +keep going",
    "mask-secrets": r"mask-secrets +rewrote output.*\[redacted",
    "secrets-in-prompts": r"secrets-in-prompts +deny",
}
WITH_GIT = (
    "compaction-notes",
    "git-context",
    "commit-each-turn",
    "conventional-commits",
    "no-commits-to-main",
    "no-verify",
)
PLACES = [*((name, "empty") for name in EFFECTS), *((name, "git") for name in (*WITH_GIT, "tests-before-stop"))]
SET = [
    ("no-commits-to-main", "branches=release/*,trunk", r"no-commits-to-main +deny"),
    ("protect-paths", "paths=infra/**", r"protect-paths +deny"),
    ("private-paths", "paths=*.key", r"private-paths +deny"),
    ("file-context", "file=The plan.md", r"file-context +told the model"),
    ("event-log", "file=a b/the log", r'\n\{.*"hook_event_name": ?"PreToolUse"'),
    ("event-webhook", "events=PostToolUse", r"event-webhook failed later"),
    ("commit-each-turn", "branch=log/agent", r"\n[0-9a-f]{7,} The turn is over\n"),
    ("session-limits", "cost=2.5", r"a cost of at most 2\.5 per session \(all prices are 0\), then ask"),
    ("session-limits", "calls=7", r"tool calls at most 7 times per session"),
]


def pasted(place: Place, *words: str) -> str:
    """What a shell prints for the lines that `billhook add` prints."""
    added = place.typing("add", *words, "--yes", answers=[])
    assert added.code == 0, added
    lines = added.out.partition("see it work:\n")[2]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    git = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    env = place.env(PATH=path, PAGER="cat", **git)
    done = subprocess.run(["sh", "-c", lines], cwd=place.project, env=env, capture_output=True, timeout=60, check=False)
    return (done.stdout + done.stderr).decode()


def repository(place: Place) -> None:
    """A clean repository with one commit, on a side branch."""
    words = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for more in (["init", "-q", "-b", "topic"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*words, *more], cwd=place.project, env=place.env(), check=True, capture_output=True)


def test_every_recipe_has_an_effect() -> None:
    """So that a new one is tried as well."""
    assert {*EFFECTS} == {one.name for one in shipped()}


@pytest.mark.parametrize(("name", "where"), PLACES)
def test_it_is_shown(tmp_path: Path, name: str, where: str) -> None:
    """The hook by its name, and what it does."""
    place = Place(tmp_path)
    if where == "git":
        repository(place)
    if name == "tests-before-stop":
        (place.project / "Makefile").write_text("test:\n\t@false\n")
    printed = pasted(place, name)

    assert re.search(EFFECTS[name], printed, re.DOTALL), printed


@pytest.mark.parametrize(("name", "value", "effect"), SET)
def test_with_other_values(tmp_path: Path, name: str, value: str, effect: str) -> None:
    """What it shows follows the values that it was added with."""
    printed = pasted(Place(tmp_path), name, "--set", value)

    assert re.search(effect, printed, re.DOTALL), printed
