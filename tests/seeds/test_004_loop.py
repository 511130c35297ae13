"""Seed 004's `Try it` list, run through the agent loop with the seed's `.hooks.json` as it is printed."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_loop.running import DONE, CanaryRun, Project, tool
from billhook.agent.loop import AgentLoop
from billhook.agent.ui_events import VerdictShown
from billhook.session import ToolResult
from cli.place import Place
from seeds.test_seed_004 import CONFIG

HELLO = 'console.log("hello");\n'
TRY_IT: list[tuple[str, list[dict[str, Any]]]] = [
    ("run pwd", [tool("bash", command="pwd"), {"text": "Here."}]),
    ("run ls -la", [tool("bash", command="ls -la"), {"text": "Listed."}]),
    (
        "summarize the current workspace in one sentence",
        [tool("bash", command="ls"), tool("read_file", path="README.md"), {"text": "A project that says hello."}],
    ),
    (
        "create notes/hello.ts and print the file content",
        [
            tool("write_file", path="notes/hello.ts", content=HELLO),
            tool("read_file", path="notes/hello.ts"),
            {"text": f"It says {HELLO}"},
        ],
    ),
]
"""What the person asks for, and what the model does then."""
MISSING = "/path/to/lint-check.sh"


def lesson(text: str) -> str:
    """A file's text as the seed prints it: the sample in the other test begins on a line of its own."""
    return text.strip() + "\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write(".hooks.json", lesson(CONFIG))
    made.write("README.md", "Says hello.\n")
    return made


def tried(project: Project) -> CanaryRun:
    """The whole list in one session."""

    async def drive(agent: AgentLoop) -> list[str]:
        return [(await agent.run(prompt)).text for prompt, _ in TRY_IT]

    return project.drive([turn for _, turns in TRY_IT for turn in turns], drive)


def outcomes(ran: CanaryRun, event: str) -> list[list[dict[str, Any]]]:
    """What the lesson's hooks did at each event of a name."""
    verdicts = [one.verdict for one in ran.shown if isinstance(one, VerdictShown) and one.verdict["event"] == event]
    return [[one for one in verdict["outcomes"] if one["dialect"] == "lesson"] for verdict in verdicts]


def test_try_it(project: Project) -> None:
    """Each thing is done; the model gets the tools' own output, because hooks that exit with 0 say nothing."""
    project.approve()
    ran = tried(project)
    assert ran.returned == ["Here.", "Listed.", "A project that says hello.", f"It says {HELLO}"]
    pwd, listing, names, readme, wrote, printed = [result.content for result in ran.results]
    assert pwd == str(project.folder)
    assert ".hooks.json" in listing and listing.startswith("total ")
    assert (names, readme) == ("README.md", "Says hello.\n")
    assert (wrote, printed) == ("Wrote 1 line to notes/hello.ts", HELLO)
    assert not any(result.is_error for result in ran.results) and set(ran.added) == {""}
    assert (project.folder / "notes" / "hello.ts").read_text() == HELLO
    assert (project.folder / ".hooks.json").read_text() == lesson(CONFIG), "unchanged"


def test_hooks_of_the_list(project: Project) -> None:
    """Each hook runs where its matcher says: `bash` for commands, `write_file` for the file, no matcher for all."""
    project.approve()
    ran = tried(project)
    ((start,),) = outcomes(ran, "SessionStart")
    assert (start["status"], start["exit_code"]) == ("ok", 0)
    before = outcomes(ran, "PreToolUse")
    assert [[one["hook"] for one in each] for each in before] == [
        ["echo"],
        ["echo"],
        ["echo"],
        [],
        ["lint-check"],
        [],
    ]
    assert [[one["status"] for one in each] for each in outcomes(ran, "PostToolUse")] == [["ok"]] * 6


def test_the_missing_script_is_a_warning(project: Project) -> None:
    """The script of the sample does not exist: the file is written all the same, and the warning can be seen."""
    project.approve()
    ran = tried(project)
    judged = [one for one in ran.shown if isinstance(one, VerdictShown) and one.verdict["event"] == "PreToolUse"][4]
    assert (judged.verdict["decision"], judged.verdict["failed_open"]) == ("none", 1)
    (deed,) = judged.deeds
    assert (deed.hook, deed.did) == ("lint-check", "failed_open") and MISSING in deed.text


def test_without_consent(project: Project) -> None:
    """Before the person has approved the file none of its hooks runs; the agent works without them."""
    ran = tried(project)
    assert ran.returned[0] == "Here."
    assert {one["status"] for each in outcomes(ran, "PreToolUse") for one in each} == {"skipped"}


def test_try_it_in_the_terminal(tmp_path: Path) -> None:
    """The same with `billhook agent -p`, the first prompt in a new session and each other one resuming it."""
    place = Place(tmp_path)
    place.file(".hooks.json", lesson(CONFIG))
    place.file("README.md", "Says hello.\n")
    assert place.alone("trust", "--yes", "--all").code == 0
    errors = []
    for number, (prompt, turns) in enumerate(TRY_IT):
        place.file("turns.json", json.dumps(turns))
        again = ["--resume", "."] if number else []
        ended = place.run(
            *("agent", "-p", prompt, "--model", "scripted:turns.json", "--permission-mode", "bypassPermissions"), *again
        )
        assert (ended.code, ended.out.strip()) == (0, turns[-1]["text"].strip()), ended
        errors.append(ended.err)
    assert place.file(".hooks.json", lesson(CONFIG)).read_text() == lesson(CONFIG)
    assert (place.project / "notes" / "hello.ts").read_text() == HELLO
    assert MISSING in errors[3] and not any(MISSING in text for text in errors[:3])
    assert HELLO.strip() in errors[3], "the file's content is printed"


@pytest.mark.parametrize(
    ("event", "code", "content", "is_error"),
    [
        pytest.param("PreToolUse", 1, "Blocked by hook: mind", True, id="exit 1 -> block tool, return stderr as error"),
        pytest.param("PreToolUse", 2, "ran\n\nmind", False, id="exit 2 -> inject stderr into conversation, continue"),
        pytest.param("PostToolUse", 1, "ran", False, id="exit 1 after the tool -> warning logged"),
        pytest.param("PostToolUse", 2, "ran\n\nmind", False, id="exit 2 -> append stderr to result"),
    ],
)
def test_exit_codes(event: str, code: int, content: str, is_error: bool, project: Project) -> None:
    """Each arrow of the seed's chart: what the model gets as the tool's result."""
    hook = {"matcher": "bash", "command": f"echo mind >&2; exit {code}"}
    project.write(".hooks.json", json.dumps({"hooks": {event: [hook]}}))
    project.approve()
    ran = project.run([tool("bash", command="echo ran"), DONE])
    assert ran.results == [ToolResult("toolu_0001", content, is_error)]
