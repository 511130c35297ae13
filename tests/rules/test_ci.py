"""action.yml and .pre-commit-hooks.yaml: their steps are executed as GitHub Actions and pre-commit execute them."""

import os
import shlex
import site
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rules.place import RulesPlace

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
RULES = "hooks:\n  gate: {events: PreToolUse, match: Bash, gate: true, run: sh gate.sh}\n"


@pytest.fixture
def place(tmp_path: Path) -> RulesPlace:
    made = RulesPlace(tmp_path)
    made.file("gate.sh", "exit 2\n")
    made.rules("  - {bash: ls, expect: deny, by: gate}", RULES)
    subprocess.run(["git", "init", "-q"], cwd=made.project, check=True)
    return made


class Job:
    """A job of GitHub Actions: variables, the file with further folders of PATH, and the inputs of the action."""

    def __init__(self, place: RulesPlace, **given: str) -> None:
        self.place = place
        self.inputs = {name: one["default"] for name, one in ACTION["inputs"].items()} | given
        (place.folder / "temp").mkdir()
        self.paths = place.folder / "paths"
        self.paths.write_text("")
        self.env = place.env(
            RUNNER_TEMP=str(place.folder / "temp"), GITHUB_PATH=str(self.paths), GITHUB_ACTION_PATH=str(ROOT)
        )
        self.env["PATH"] = f"{Path(sys.executable).parent}:{self.env['PATH']}"

    def filled(self, text: str) -> str:
        for name, value in self.inputs.items():
            text = text.replace(f"${{{{ inputs.{name} }}}}", value)
        assert "${{" not in text
        return text

    def run(self, step: dict[str, Any], **more: str) -> "subprocess.CompletedProcess[str]":
        """One step, with the shell and options that GitHub uses."""
        assert step["shell"] == "bash" and "${{" not in step["run"]
        env = self.env | {name: self.filled(text) for name, text in step.get("env", {}).items()} | more
        env["PATH"] = os.pathsep.join([*reversed(self.paths.read_text().split()), env["PATH"]])
        folder = self.place.project / self.filled(step.get("working-directory", "."))
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)


def test_the_steps_of_the_action(place: RulesPlace) -> None:
    """Without an approval the tests of commands end with 2; the action approves, and they pass."""
    job = Job(place)
    assert job.run(STEPS["Test rules"]).returncode == 2
    done = approve(place, job)
    assert done.code == 0, done
    for name in ("Check hooks", "Test rules"):
        ended = job.run(STEPS[name])
        assert ended.returncode == 0, ended
    assert ended.stdout.strip().startswith("1 passed in ")


def approve(place: RulesPlace, job: Job) -> Any:
    """The step that approves, alone: this suite may itself be run by an agent, which can't approve."""
    step = STEPS["Approve hooks"]
    program, *words = shlex.split(step["run"])
    assert program == "billhook" and step["if"] == "inputs.approve == 'true'"
    return place.alone(*words)


def test_a_failure_is_an_annotation(place: RulesPlace) -> None:
    place.rules("  - {bash: ls, expect: ask}\n  - {bash: ls, expect: deny}", RULES)
    job = Job(place, args="-k ask; touch$IFS./injected")
    assert approve(place, job).code == 0
    ended = job.run(STEPS["Test rules"])
    assert ended.returncode == 2 and not (place.project / "injected").exists(), ended  # words, not shell code
    job.inputs["args"] = "--junit report.xml"
    ended = job.run(STEPS["Test rules"])

    assert ended.returncode == 1
    assert (
        "::error file=.billhook/hooks.yaml,line=4,title=billhook test::bash: ls: expected ask, got deny" in ended.stdout
    )
    assert (place.project / "report.xml").exists()


def test_a_broken_hook_fails_the_check(place: RulesPlace) -> None:
    place.rules("  - {bash: ls}", RULES + "  typo: {events: PreToolUsed, deny: x}\n")
    ended = Job(place).run(STEPS["Check hooks"])

    assert ended.returncode == 1 and "::error file=" in ended.stdout


@pytest.mark.slow
def test_the_action_installs_billhook(place: RulesPlace) -> None:
    """From its own folder into an environment of the job, which the later steps use. Without network: the packages that
    it depends on are those of this suite."""
    job = Job(place)
    offline = {"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}
    job.env["PYTHONPATH"] = site.getsitepackages()[0]
    ended = job.run(STEPS["Install billhook"], **offline)
    assert ended.returncode == 0, ended
    ended = job.run({"shell": "bash", "run": "command -v billhook && billhook --version"})

    assert ended.stdout.splitlines()[0] == str(place.folder / "temp" / "billhook" / "bin" / "billhook")
    assert ended.stdout.splitlines()[1].startswith("billhook "), ended


@pytest.mark.parametrize("hook", HOOKS, ids=[one["id"] for one in HOOKS])
def test_the_hooks_of_pre_commit(place: RulesPlace, hook: dict[str, Any]) -> None:
    """The entry as a command, with the variables that git sets for a hook."""
    place.approve()
    program, *words = shlex.split(hook["entry"])
    index = str(place.project / ".git" / "index")

    assert program == "billhook" and hook["pass_filenames"] is False
    passed = place.run(*words, GIT_INDEX_FILE=index, GIT_DIR=str(place.project / ".git"))
    assert passed.code == 0, passed
    place.rules("  - {bash: ls, expect: perhaps}", RULES)
    assert place.run(*words, GIT_INDEX_FILE=index).code in (1, 2)
