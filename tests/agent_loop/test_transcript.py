"""The conversation on disk: written as it happens, whole again when it is resumed."""

import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agent_loop.running import DONE, Project, bash, tool, unique
from billhook import Hook
from billhook.agent.conversation import INTERRUPTED, Text, ToolUse, Transcript, assistant, transcript_of, user
from billhook.core.errors import UsageError
from billhook.session import ToolResult
from cli.place import Place
from cli.terminal import PROGRAM, living


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_written_as_it_happens(project: Project) -> None:
    """When a hook runs for a tool, the transcript already has the prompt and the model's call."""
    seen: list[list[dict[str, Any]]] = []

    def look(ctx: Any) -> None:
        text = Path(ctx.payload["transcript_path"]).read_text()
        seen.append([json.loads(line) for line in text.splitlines()])

    project.run([bash("true"), DONE], Hook(name="look", run=look, events=("PreToolUse", "Stop")))
    assert [[(line["type"], line["role"]) for line in lines] for lines in seen] == [
        [("message", "user"), ("message", "assistant")],
        [("message", "user"), ("message", "assistant"), ("message", "user"), ("message", "assistant")],
    ]
    assert seen[0][1]["content"] == [
        {"type": "tool_use", "id": "toolu_0001", "name": "Bash", "input": {"command": "true"}}
    ]


def test_only_its_owner_can_read_it(project: Project) -> None:
    """The file is 0600, and so are the folders for their owner alone."""
    path = project.run([DONE]).transcript
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_resumed(project: Project) -> None:
    """The model is told the whole conversation again, then the new prompt; the file goes on."""
    first = project.run([bash("echo hi"), {"text": "printed hi"}], prompt="print hi")
    again = project.run([DONE], resume=first.session_id, prompt="and now?")
    assert again.transcript == first.transcript
    assert again.requests[0].messages == (
        user("print hi"),
        assistant(ToolUse("toolu_0001", "Bash", {"command": "echo hi"})),
        user(ToolResult("toolu_0001", "hi")),
        assistant("printed hi"),
        user("and now?"),
    )
    assert [line["role"] for line in again.lines] == ["user", "assistant"] * 3


def test_odd_characters(project: Project) -> None:
    """What JSON and lines could stumble over comes back as it was."""
    odd = 'tab\t, newline\n, carriage\r, line\u2028, nul\x00, half \ud83d, quote " and \U0001f600'
    first = project.run([{"text": odd}], prompt=odd)
    again = project.run([DONE], resume=first.session_id)
    kept = odd.replace("\ud83d", "\ufffd" * 3)
    assert [message.text for message in again.requests[0].messages[:2]] == [kept, kept]


# -- interrupted ----------------------------------------------------------------------------------------------------


def test_killed_in_the_middle_of_a_tool(tmp_path: Path) -> None:
    """After `kill -9` all messages are there; resuming gives the call a result that reports the interruption."""
    place, tag = Place(tmp_path), unique()
    place.file("turns.json", json.dumps([bash("echo first"), {"text": "on it", **bash(f"sleep {tag}")}]))
    asked = [PROGRAM, "agent", "-p", "go", "--model", "scripted:turns.json", "--permission-mode", "bypassPermissions"]
    running = subprocess.Popen(
        asked,
        cwd=place.project,
        env=place.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + 30
        while not living(f"sleep\0{tag}") and time.monotonic() < end:
            time.sleep(0.02)
        running.kill()
        running.wait(10)
    finally:
        for pid in living(tag):
            os.kill(pid, signal.SIGKILL)
    (transcript,) = (place.home / ".claude" / "billhook" / "transcripts").glob("*/*.jsonl")
    lines = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert [line["role"] for line in lines] == ["user", "assistant", "user", "assistant"]
    assert lines[-1]["content"][0] == {"type": "text", "text": "on it"}

    place.file("turns.json", json.dumps([{"text": "I see"}]))
    resumed = place.run(*asked[1:3], "go on", *asked[4:], "--resume", ".")
    assert (resumed.code, resumed.out) == (0, "I see\n"), resumed
    read = Transcript(transcript, place.home / ".claude").read()
    assert [type(block) for message in read for block in message.content][3:] == [
        Text,
        ToolUse,
        ToolResult,
        Text,
        Text,
    ]
    (given,) = [block for block in read[4].content if isinstance(block, ToolResult)]
    assert (given.content, given.is_error) == (INTERRUPTED, True)


def test_a_torn_last_line(project: Project) -> None:
    """It is left out, and later messages are on a new line."""
    first = project.run([{"text": "one"}, {"text": "two"}])
    whole = first.transcript.read_bytes()
    first.transcript.write_bytes(whole[:-20])
    again = project.run([DONE], resume=first.session_id, prompt="and now?")
    assert again.requests[0].messages == (user("go"), user("and now?"))
    third = project.run([DONE], resume=first.session_id, prompt="third")
    assert [message.text for message in third.requests[0].messages] == ["go", "and now?", "done", "third"]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("", id="an empty line"),
        pytest.param("no JSON", id="no JSON"),
        pytest.param("[1, 2]", id="a list"),
        pytest.param("\udcff", id="no UTF-8"),
        pytest.param('{"type": "message", "role": "system", "content": []}', id="another role"),
        pytest.param('{"type": "message", "role": "user", "content": "text"}', id="a string for a list"),
        pytest.param('{"type": "message", "role": "user", "content": [{"type": "image"}]}', id="an unknown block"),
        pytest.param('{"type": "compacted", "messages": 3}', id="a compaction of nothing"),
        pytest.param('{"type": "later", "what": "not known yet"}', id="another type"),
    ],
)
def test_a_damaged_line(line: str, project: Project) -> None:
    """One line that can't be read costs that line only."""
    first = project.run([{"text": "one"}])
    lines = first.transcript.read_text().splitlines()
    first.transcript.write_text("\n".join([lines[0], line, lines[1]]) + "\n", errors="surrogateescape")
    again = project.run([DONE], resume=first.session_id)
    assert [message.text for message in again.requests[0].messages] == ["go", "one", "go"]


@pytest.mark.parametrize("name", ["unknown", "../../etc/passwd", "", "a" * 300], ids=["unknown", "a path", "", "long"])
def test_a_session_that_is_not_there(name: str, project: Project) -> None:
    """An id without a transcript is an error with a hint; an empty one is a new session."""
    if not name:
        assert project.run([DONE], resume=name).of("SessionStart")[0]["source"] == "startup"
        return
    with pytest.raises(UsageError) as caught:
        project.run([DONE], resume=name)
    assert "has no transcript here" in caught.value.message and caught.value.hint


def test_a_link_in_its_place(project: Project, tmp_path: Path) -> None:
    """Another file under a transcript's name is neither read nor written."""
    first = project.run([{"text": "one"}])
    (tmp_path / "other").write_bytes(first.transcript.read_bytes())
    first.transcript.unlink()
    first.transcript.symlink_to(tmp_path / "other")
    with pytest.raises(Exception, match="link"):
        project.run([DONE], resume=first.session_id)


# -- no place to write ----------------------------------------------------------------------------------------------


def test_no_place_for_transcripts(project: Project) -> None:
    """The run goes on without it, and the person is told once."""
    (project.root / "billhook").mkdir(parents=True, mode=0o700)
    (project.root / "billhook" / "transcripts").write_text("in the way")
    turns = [bash("echo hi"), tool("Task", description="look", prompt="look"), {"text": "found"}, DONE]
    ran = project.run(turns)
    assert (ran.ended.how, ran.results[0].content) == ("done", "hi")
    assert len(ran.notices) == 1 and ran.notices[0].startswith("the transcript can't be written: ")


def test_a_home_that_can_not_be_written(tmp_path: Path) -> None:
    """The same if nothing can be written: tools run, hooks run, one notice reports the problem."""
    place = Place(tmp_path)
    place.own("hooks: {no-rm: {events: PreToolUse, if: 'Bash(rm *)', deny: no rm}}\n")
    place.file("turns.json", json.dumps([bash("echo hi"), bash("rm x"), DONE]))
    ended = place.run(
        *("agent", "-p", "go", "--model", "scripted:turns.json", "--permission-mode", "bypassPermissions"),
        BILLHOOK_HOME="/proc/billhook",
    )
    assert (ended.code, ended.out) == (0, "done\n"), ended
    assert ended.err.count("the transcript can't be written") == 1
    assert "no rm" in ended.err and "    hi\n" in ended.err


def test_the_place_of_a_subagents_transcript(tmp_path: Path) -> None:
    """Below its session's, and never elsewhere, whatever the ids are."""
    for session, agent in (("s", "a"), ("../../x", "../../y"), ("", "z"), ("a/b", "c/d")):
        path = transcript_of(tmp_path, "/some/project", session, agent).path
        assert path.resolve().is_relative_to(tmp_path / "billhook" / "transcripts")
