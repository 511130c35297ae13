"""Faults that were found in the loop, each of them once."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent_loop.running import Project
from billhook import Answer, Context, Engine, Hook, Session, UsageError, deny, stop
from billhook.agent.conversation import INTERRUPTED, Text, ToolUse, Transcript, assistant, user
from billhook.agent.models import Completion, ModelRequest, TextSink
from billhook.agent.script import ScriptedModel
from billhook.core.functions import from_matchers
from billhook.session import ToolResult

DONE = {"text": "done"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"tool": {"name": name, "input": given}}


def guard(run: Any, event: str = "PreToolUse", match: str | None = None) -> Hook:
    return Hook(name="guard", run=run, events=(event,), match=match)


def test_a_subagent_is_judged_where_it_runs(project: Project) -> None:
    """A rule for a file in the parent's folder holds for a subagent, whose first call is made there."""
    project.write("sub/kept.txt", "kept\n")
    denied = f"Edit(/{project.folder}/sub/kept.txt)"  # two slashes: an absolute path
    project.write(".claude/settings.json", json.dumps({"permissions": {"deny": [denied]}}))
    script = {
        "turns": [call("Bash", command="cd sub"), call("Task", description="d", prompt="p", subagent_type="s"), DONE],
        "agents": {"s": [call("Write", file_path="kept.txt", content="gone"), DONE]},
    }
    ran = project.run(script)
    assert [event["cwd"] for event in ran.of("PreToolUse")][-1] == str(project.folder / "sub")
    assert (project.folder / "sub/kept.txt").read_text() == "kept\n"
    assert not (project.folder / "kept.txt").exists()


@pytest.mark.parametrize("name", ["Write", "write_file"])
def test_hooks_judge_one_name_of_a_field(project: Project, name: str) -> None:
    """A tool takes `path` for `file_path`, and a guard that looks at `file_path` sees it."""

    def no_env(ctx: Context) -> Answer | None:
        path = ctx.payload["tool_input"].get("file_path", "")
        return deny("no secrets") if path.endswith(".env") else None

    ran = project.run(
        [call(name, path="a.env", content="x"), call(name, path="a.txt", content="x"), DONE], guard(no_env)
    )
    assert [result.is_error for result in ran.results] == [True, False]
    assert not (project.folder / "a.env").exists() and (project.folder / "a.txt").exists()


def test_a_field_given_twice(project: Project) -> None:
    """If both names are given and differ, nothing runs: the input is ambiguous."""
    ran = project.run([call("Write", path="a", file_path="b", content="x"), DONE])
    assert ran.results[0].is_error and ran.of("PreToolUse") == []


def test_a_conversation_without_tools_is_compacted(project: Project) -> None:
    """Also one that only talks outgrows its budget."""

    async def talk(agent: Any) -> None:
        for _ in range(4):
            await agent.turn("x" * 3000)

    ran = project.drive([{"text": "y" * 3000}] * 4, talk, budget=1000)
    assert "PreCompact" in ran.names and "PostCompact" in ran.names


class SaysNothing(ScriptedModel):
    """A model that has no summary to give."""

    async def complete(self, request: ModelRequest, say: TextSink) -> Completion:
        if not request.tools:
            return Completion(assistant(Text("  ")))
        return await super().complete(request, say)


def test_an_empty_summary_wipes_nothing(project: Project) -> None:
    """The conversation is unchanged, and the run reports the error."""
    ran = project.run(SaysNothing([call("Bash", command="head -c 9000 /dev/zero | tr '\\0' x"), DONE]), budget=1000)
    assert ran.ended.how == "failed" and "no summary" in ran.ended.text
    assert ran.agent is not None and ran.agent.messages[0].text == "go"


@pytest.mark.parametrize("event", ["PreCompact", "PostCompact", "TaskCreated", "Notification", "UserPromptSubmit"])
def test_continue_false_of_seed_001_stops_at_every_event(event: str) -> None:
    """In the dialect of seed 001 every event accepts it: further hooks are skipped, and the run ends."""
    asked: list[str] = []

    async def first(given: Any, use: Any, context: Any) -> dict[str, Any]:
        return {"continue": False, "stopReason": "enough"}

    async def second(given: Any, use: Any, context: Any) -> dict[str, Any]:
        asked.append("second")
        return {}

    engine = Engine(from_matchers({event: [{"hooks": [first, second]}]}))
    wire = {"hook_event_name": event, "session_id": "s", "cwd": "/", "transcript_path": "", "prompt": "p"}
    verdict = engine.fire_sync({**wire, "trigger": "auto", "message": "m", "task_id": "1", "task_subject": "t"})
    assert (verdict.stop, verdict.stop_reason, asked) == (True, "enough", [])


def test_calls_at_the_same_time_and_a_stop() -> None:
    """A call whose hooks answer after another's stopped the run does not run."""

    async def judge(ctx: Context) -> Answer | None:
        slow = ctx.payload["tool_input"]["command"] == "slow"
        await asyncio.sleep(0.2 if slow else 0)
        return None if slow else stop("enough")

    async def main() -> list[ToolResult]:
        async with Session(Engine([guard(judge)])) as session:
            calls = (session.call_tool("Bash", {"command": word}, lambda given: "ran") for word in ("slow", "quick"))
            return await asyncio.gather(*calls)

    assert [result.is_error for result in asyncio.run(main())] == [True, True]


def test_a_hook_that_writes_into_the_input() -> None:
    """What runs is what was judged, not what a hook made of its own copy."""

    def meddles(ctx: Context) -> None:
        ctx.payload["tool_input"]["command"] = "rm -rf /"
        ctx.event.tool_input["command"] = "rm -rf /"  # type: ignore[attr-defined]

    given = {"command": "ls"}

    async def main() -> ToolResult:
        async with Session(Engine([guard(meddles)])) as session:
            return await session.call_tool("Bash", given, lambda given: given["command"])

    assert asyncio.run(main()).content == "ls" and given == {"command": "ls"}


def test_a_session_that_has_ended_runs_nothing() -> None:
    """A loop that goes on after its session is told so."""

    async def main() -> None:
        async with Session(Engine([])) as session:
            pass
        await session.call_tool("Bash", {"command": "ls"}, lambda given: "ran")

    with pytest.raises(UsageError, match="ended"):
        asyncio.run(main())


@pytest.mark.parametrize("option", [{"source": "bogus"}, {"permission_mode": "bogus"}, {"setup": "bogus"}])
def test_a_session_knows_its_words(option: dict[str, Any]) -> None:
    """A slip is an error at once, not an event that no matcher knows."""
    with pytest.raises(UsageError, match="bogus"):
        Session(Engine([]), **option)


def test_each_result_is_kept_as_it_comes(project: Project) -> None:
    """The transcript has the first of two results while the second tool still runs."""
    look = f"cat $(find {project.root} -name '*.jsonl' | grep transcripts) | grep -c first-output"
    uses = [{"name": "Bash", "input": {"command": word}} for word in ("echo first-output", look)]
    ran = project.run([{"tools": uses}, DONE])
    assert ran.results[1].content.strip() == "2"  # the call, and its result


def test_results_without_a_call_are_left_out(tmp_path: Path) -> None:
    """After a damaged line a conversation is still one that models take."""
    transcript = Transcript(tmp_path / "t.jsonl", tmp_path)
    use = ToolUse("a", "Bash", {"command": "ls"})
    for message in (user("go"), assistant(use), user(ToolResult("a", "ok")), user(ToolResult("lost", "whose?"))):
        transcript.message(message)
    transcript.message(assistant(ToolUse("b", "Bash", {})))
    read = transcript.read()
    results = [block for message in read for block in message.content if isinstance(block, ToolResult)]
    assert results == [ToolResult("a", "ok"), ToolResult("b", INTERRUPTED, True)]
    assert read[0] == user("go")


def test_accepting_edits_is_not_accepting_code_of_git(project: Project) -> None:
    """An edit below `.git` is asked about: a hook there runs at the next commit."""
    script = [call("Write", file_path=path, content="x") for path in (".git/hooks/pre-commit", "a.txt")]
    ran = project.run([*script, DONE], permission_mode="acceptEdits")
    assert [result.is_error for result in ran.results] == [True, False]
