"""Every recipe: no findings in an empty project, and its tests pass for every agent that supports it."""

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from billhook.agents import AGENTS, dialect
from billhook.agents.base import CAPABILITIES
from billhook.cli.check import hosted, limits_of_builtins
from billhook.config import edit_yaml, load_config
from billhook.config.cases import event_of
from billhook.config.recipes import Recipe, plain
from billhook.core.events import Event
from billhook.testing.expectations import ran
from cli.terminal import billhook, environment
from dialects.clients_as_measured import CLIENTS
from dialects.test_agents_grid import SENT
from recipes.cases import RECIPES, Scratch, judge, possible

ALL = [
    (f"{one.name}-{number}", one, case)
    for one in RECIPES.values()
    for number, case in enumerate(plain(one.sections({}))["tests"])
]
CASES = [pytest.param(one, case, id=name) for name, one, case in ALL]
DIFFERENT = {
    (event_of(case)["hook_event_name"], str(case.get("expect")), *case): (name, one, case) for name, one, case in ALL
}
"""One case for each event, decision and kind of expectation: the same answer is written in the same way."""
IN_AGENTS = [pytest.param(one, case, id=name) for name, one, case in DIFFERENT.values()]
SHELL = [pytest.param(one, case, id=name) for name, one, case in DIFFERENT.values() if "bash" in case]


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs beside Python are found, ruff among them."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Scratch:
    """An empty project to which the recipe of the test was added."""
    return Scratch(tmp_path, added(request.node.callspec.params["recipe"].name), monkeypatch)


@cache
def added(name: str) -> str:
    return edit_yaml.with_sections(None, "hooks.yaml", RECIPES[name].sections({})).decode()


def test_there_are_enough() -> None:
    """Recipes for every purpose that people write hooks for."""
    assert len(RECIPES) >= 16
    assert {"log", "context", "notify", "quality", "paths", "secrets", "git", "packages", "limits"} == {
        one.purpose for one in RECIPES.values()
    }


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_its_text(recipe: Recipe) -> None:
    """One line that fits on a screen, tests for both sides, and no script or jq."""
    texts = " ".join(recipe.texts.values())
    cases = plain(recipe.sections({}))["tests"]

    assert len(recipe.title) <= 56
    assert all(one.about and "\n" not in one.about for one in recipe.parameters.values())
    assert "jq" not in texts and "python3 -c" not in texts and ".sh" not in texts
    assert any("by" in case or ("only" in case and case["expect"] != "none") for case in cases)
    assert recipe.show


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_no_findings(recipe: Recipe, scratch: Scratch) -> None:
    """`billhook check` prints nothing, not even a note."""
    done = billhook("check", cwd=scratch.project, env=environment(HOME=str(scratch.home)))

    assert done.code == 0 and done.out.startswith("no findings in"), done


@pytest.mark.parametrize(("recipe", "case"), CASES)
def test_its_tests_are_right(recipe: Recipe, case: dict[str, Any], scratch: Scratch) -> None:
    """Through the real engine; commands really run."""
    if not possible(case):
        pytest.skip(f"no {case['needs']} here")

    judge(case, scratch.fire(scratch.event(case)))


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(("recipe", "case"), IN_AGENTS)
def test_in_every_agent(recipe: Recipe, case: dict[str, Any], scratch: Scratch, agent: str) -> None:
    """The hooks run the same, and the agent's form of the answer loses nothing that `check --host` does not name."""
    name = event_of(case)["hook_event_name"]
    if not possible(case) or name not in CAPABILITIES[agent]:
        pytest.skip(f"{agent} has no {name}")
    event = scratch.event(case)
    verdict = scratch.fire(event, agent)
    config = load_config(scratch.project, trust="all")
    entries = [one.declared for one in config.entries]
    limits = hosted(AGENTS[agent], entries, 0, [str(scratch.project)]).found
    of_builtins = [text for text in limits_of_builtins(config, AGENTS[agent]) if "rate-limit" in text]

    judge(case, verdict)
    written = dialect(agent).write_exit(event, verdict.as_answer())
    lost = [one for one in written.lost if not (one.startswith("a rewritten output ") and one.endswith(" text"))]
    assert not lost or of_builtins or any(name in one.events for one in limits), (lost, limits)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("recipe", "case"), SHELL)
def test_a_shell_call_of_every_client(recipe: Recipe, case: dict[str, Any], scratch: Scratch, client: str) -> None:
    """A shell call in each client's own form: what is denied does not run, and what is rewritten runs rewritten, or
    does not run where the client can't be told."""
    agent, obeys = CLIENTS[client]
    expected = case.get("expect")
    scratch.event(case)
    event = client_event(client, case["bash"], scratch)
    verdict = scratch.fire(event, agent)

    assert (case.get("by") in ran(verdict)) is ("by" in case)
    assert "only" not in case or (case["only"] in ran(verdict)) is (case["expect"] != "none")
    effect = obeys(dialect(agent).write_exit(event, verdict.as_answer()).exit)
    if expected == "rewrite":
        assert case["input"]["command"] in [*(effect.rewritten or {}).values(), *effect.reason.split('"')]
    else:
        assert effect.runs is (expected != "deny")


def client_event(client: str, command: str, scratch: Scratch) -> Event:
    """A shell call as a client sends it."""
    sent = json.loads(json.dumps(SENT[client]).replace('"ls"', json.dumps(command)))
    return dialect(CLIENTS[client][0]).read_call(json.dumps({**sent, "cwd": str(scratch.project)}).encode(), {})


# -- what a case can't express


def in_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Scratch:
    scratch = Scratch(tmp_path, added(name), monkeypatch)
    scratch.git("init", "-q")
    scratch.file("kept.txt", "one\n")
    scratch.git("add", "kept.txt")
    scratch.git("commit", "-q", "-m", "first")
    return scratch


def test_commit_each_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn is a commit of a side branch, untracked files included; branch, index and files stay."""
    scratch = in_repository(tmp_path, monkeypatch, "commit-each-turn")
    head, status = scratch.git("rev-parse", "HEAD"), scratch.git("status", "--short")
    for turn, message in enumerate(("'; touch hacked; '", "Second turn"), 1):
        scratch.file(f"new{turn}.txt", "x\n")
        event = {"hook_event_name": "Stop", "last_assistant_message": message}
        verdict = scratch.fire(scratch.event({"event": event}))
        assert "commit-each-turn" in ran(verdict), verdict

    assert scratch.git("log", "--format=%s", "agent/turns").splitlines() == [
        "Second turn",
        "'; touch hacked; '",
        "first",
    ]
    assert scratch.git("ls-tree", "--name-only", "agent/turns").splitlines()[-3:] == [
        "kept.txt",
        "new1.txt",
        "new2.txt",
    ]
    assert scratch.git("rev-parse", "HEAD") == head
    assert scratch.git("diff", "--cached", "--name-only") == "" and status in scratch.git("status", "--short")


def test_tests_before_stop_ends_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After three times the agent may stop, and the user gets a message."""
    scratch = Scratch(tmp_path, added("tests-before-stop"), monkeypatch)
    case = {"event": {"hook_event_name": "Stop"}, "files": {"Makefile": "test:\n\t@false\n"}}
    seen = [scratch.fire(scratch.event(case)) for _ in range(4)]

    assert [one.keep_going for one in seen] == [True, True, True, False]
    assert "stopped after 3 attempts" in "\n".join(seen[-1].messages)


def test_tests_before_stop_runs_nothing_where_nothing_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean repository whose session began before."""
    scratch = in_repository(tmp_path, monkeypatch, "tests-before-stop")
    scratch.file("Makefile", "test:\n\t@false\n")
    scratch.git("add", "-A")
    scratch.git("commit", "-q", "-m", "all")
    scratch.fire(scratch.event({"event": {"hook_event_name": "SessionStart", "source": "startup"}}))

    assert not scratch.fire(scratch.event({"event": {"hook_event_name": "Stop"}})).keep_going


def test_notes_survive_a_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent's last message, and the state of git, reach the next start."""
    scratch = in_repository(tmp_path, monkeypatch, "compaction-notes")
    for event in (
        {"hook_event_name": "Stop", "last_assistant_message": "$(touch hacked) is left"},
        {"hook_event_name": "PreCompact", "trigger": "auto", "custom_instructions": ""},
    ):
        scratch.fire(scratch.event({"event": event}))
    told = scratch.fire(scratch.event({"event": {"hook_event_name": "SessionStart", "source": "compact"}}))

    assert "$(touch hacked) is left" in told.context[0] and "## main" in told.context[0]
    assert not (scratch.project / "hacked").exists()


def test_session_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user is asked about the call after the last allowed one."""
    recipe = RECIPES["session-limits"]
    text = edit_yaml.with_sections(None, "hooks.yaml", recipe.sections({"calls": "2"})).decode()
    scratch = Scratch(tmp_path, text, monkeypatch)
    decisions = [str(scratch.fire(scratch.event({"bash": "ls"})).decision) for _ in range(3)]

    assert decisions == ["none", "none", "ask"]


def test_event_log_is_lines_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line for each event, whatever is in it."""
    scratch = Scratch(tmp_path, added("event-log"), monkeypatch)
    for command in ("ls", "printf 'a\nb' > '$x'"):
        scratch.fire(scratch.event({"bash": command}))
    lines = (scratch.project / ".billhook" / "events.log").read_text().splitlines()

    assert [json.loads(line)["tool_input"]["command"] for line in lines] == ["ls", "printf 'a\nb' > '$x'"]


def test_format_really_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with a hostile name is formatted, and its name stays a name."""
    scratch = Scratch(tmp_path, added("format-after-edit"), monkeypatch)
    name = "a; touch hacked; $(touch hacked) b.py"
    given = {"file_path": str(scratch.project / name), "content": ""}
    event = {"hook_event_name": "PostToolUse", "tool_name": "Write", "tool_input": given, "tool_response": "ok"}
    scratch.fire(scratch.event({"event": event, "files": {"ruff.toml": "", name: "x=1\n"}}))

    assert (scratch.project / name).read_text() == "x = 1\n"
    assert not list(tmp_path.rglob("hacked"))


def test_tests_key_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tests:` that is not a list of mappings is a finding, and disables no hook."""
    scratch = Scratch(tmp_path, "hooks: {a: {events: Stop, inject: x}}\ntests: [push]\n", monkeypatch)
    config = load_config(scratch.project, trust="all", home=scratch.home / ".claude")

    assert [(one.code, one.line) for one in config.problems] == [("BH203", 2)]
    assert "a" in ran(config.engine().fire_sync({"hook_event_name": "Stop"}))
    assert yaml.safe_load((scratch.project / ".billhook/hooks.yaml").read_text())["tests"] == ["push"]
