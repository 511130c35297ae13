"""The pytest plugin and the assertions, in a pytest of their own."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import billhook
from billhook import Engine, assert_allows, assert_asks, assert_denies, assert_runs, deny, guard, on
from billhook.core.events import PreToolUse
from rules.place import RulesPlace


@pytest.fixture
def place(tmp_path: Path) -> RulesPlace:
    return RulesPlace(tmp_path)


def run(place: RulesPlace, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    return subprocess.run(
        command, cwd=place.project, env=place.env(), capture_output=True, text=True, timeout=120, check=False
    )


def test_it_collects_the_cases_of_rules(place: RulesPlace) -> None:
    """Those of `.billhook/hooks.yaml`, and files of cases in any folder. A failure shows why."""
    place.rules("  - {bash: git push, expect: ask}\n  - {bash: git push, expect: deny, by: no-env}")
    more = "- {write: .env, expect: deny}\n- {bash: ls, expect: none, needs: no-such-program}\n"
    place.file("tests/more.hooktest.yaml", more)
    done = run(place, "-rsf")

    assert done.returncode == 1, done
    assert "1 failed, 2 passed, 1 skipped" in done.stdout
    assert "expected deny, got ask" in done.stdout
    assert "no-env: skipped, because the call reads or writes no file" in done.stdout
    assert "hooks.yaml::bash: git push[12]" in done.stdout and "`no-such-program` is not installed" in done.stdout


def test_broken_cases_and_commands_that_are_not_approved(place: RulesPlace) -> None:
    place.rules("  - {bash: ls, expect: deny}", "hooks:\n  gate: {events: PreToolUse, run: exit 2}\n")
    done = run(place, "-rs")
    assert "1 skipped" in done.stdout and "not approved: run `billhook trust`" in done.stdout
    place.approve()
    assert "1 passed" in run(place).stdout
    place.rules("  - {bash: ls, expect: perhaps}")
    assert "unknown value `perhaps`" in run(place).stdout


def test_fixtures(place: RulesPlace) -> None:
    """The engine of the project in a scratch copy; one with hooks of the test; and nothing of either is left."""
    place.rules("")
    place.file("gate.sh", "touch here; exit 2\n")
    place.file(
        ".billhook/hooks.yaml",
        "hooks:\n  gate: {events: PreToolUse, match: Bash, run: sh gate.sh}\n"
        "  one: {events: Stop, once: project, inject: x}\n",
    )
    place.approve()
    place.file(
        "test_it.py",
        """
import os
import pytest
from billhook import Engine, deny, on
from billhook import assert_allows, assert_denies, assert_runs

def test_of_the_project(billhook_engine, fire):
    assert fire("ls").denied
    assert not fire({"write": "a.txt"}).denied
    assert_denies(billhook_engine, "ls")
    assert os.path.exists("here")

@pytest.mark.parametrize("n", [1, 2])
def test_again(billhook_engine, n):
    assert not os.path.exists("here")
    assert_runs(billhook_engine, {"event": {"hook_event_name": "Stop"}}, "one")

class TestOwn:
    @pytest.fixture
    def billhook_engine(self):
        @on("PreToolUse", match="Bash")
        def no_push(event):
            return deny("no") if "push" in event.tool_input["command"] else None
        return Engine([no_push])

    def test_it(self, fire, billhook_engine):
        assert fire("git push").reason == "no"
        assert_allows(billhook_engine, "ls")

def test_home_is_the_users_again():
    assert "billhook-test-" not in os.environ["HOME"]
""",
    )
    done = run(place)

    assert done.returncode == 0 and "5 passed" in done.stdout, done
    assert not (place.project / "here").exists()


def test_it_costs_nothing_unless_it_is_used(place: RulesPlace) -> None:
    """Without cases and fixtures nothing of billhook but the plugin is imported."""
    place.file(
        "test_it.py",
        "import sys\n\ndef test_it():\n"
        "    ours = {name for name in sys.modules if name.startswith('billhook.')}\n"
        "    old_names = {'billhook.pytest', 'billhook.rules', 'billhook.webhooks'}\n"
        "    assert ours - old_names == {'billhook.testing', 'billhook.testing.plugin'}\n",
    )
    done = run(place)

    assert done.returncode == 0, done.stdout


def test_the_example_of_the_guide(place: RulesPlace) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "test-your-rules.md").read_text()
    place.file("test_guide.py", guide.partition("```python\n")[2].partition("```")[0])

    assert "1 passed" in run(place).stdout


# -- assertions


@on("PreToolUse", match="Bash")
def no_push(event: PreToolUse) -> object:
    return deny("not on Fridays") if "push" in event.tool_input["command"] else None


def test_assertions_that_hold() -> None:
    engine = Engine([no_push, guard()])

    assert assert_denies(engine, "git push", "Fridays").denied
    assert_denies(engine, "rm -rf /")
    assert_asks(engine, "npm publish")
    assert_allows(engine, "ls")
    assert_allows(engine, {"write": "a.txt"})
    assert_allows(engine, {"hook_event_name": "Stop"})
    assert_runs(engine, PreToolUse(tool_name="Bash", tool_input={"command": "ls"}), "no-push")


def test_assertions_that_fail() -> None:
    """The message names the decision and what each hook did."""
    engine = Engine([no_push])
    with pytest.raises(AssertionError, match="expected deny, got none: no hook objects \\(ran: no-push\\)"):
        assert_denies(engine, "ls")
    with pytest.raises(AssertionError, match="expected ask, got deny: no-push deny: not on Fridays"):
        assert_asks(engine, "git push")
    with pytest.raises(AssertionError, match="expected allow, got deny"):
        assert_allows(engine, "git push")
    with pytest.raises(AssertionError, match="a reason that matches `Mondays`, got: not on Fridays"):
        assert_denies(engine, "git push", "Mondays")
    with pytest.raises(AssertionError, match="expected hook `other` to run, but it did not"):
        assert_runs(engine, "ls", "other")
    with pytest.raises(AssertionError, match="no hook listens for this event"):
        assert_runs(engine, {"prompt": "hello"}, "no-push")


def test_names() -> None:
    """The assertions under their old names."""
    old = importlib.import_module("billhook.pytest")

    for name in ("assert_allows", "assert_asks", "assert_denies", "assert_runs"):
        assert getattr(old, name) is getattr(billhook, name)
