"""Seeds 000 and 004: a hook gets the tool's input raw, with the keys and the text that the model wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_loop.running import Project
from billhook import Engine, Hook, Session, command
from session.around import run

BEFORE_AND_AFTER = ("PreToolUse", "PostToolUse")
NOTES = (
    'cat > {0}/stdin.$HOOK_EVENT; printf "%s" "$HOOK_TOOL_INPUT" > {0}/env.$HOOK_EVENT; '
    'printf "%s" "$HOOK_TOOL_NAME" > {0}/name.$HOOK_EVENT'
)


def noting(folder: Path, dialect: str, events: tuple[str, ...] = BEFORE_AND_AFTER) -> Hook:
    folder.mkdir(exist_ok=True)
    return Hook(name="noting", run=command(NOTES.format(folder), dialect=dialect), events=events, dialect=dialect)


@pytest.mark.parametrize("dialect", ["claw", "claw-text", "lesson"])
@pytest.mark.parametrize("called", ["write_file", "Write"])
@pytest.mark.parametrize(
    "given",
    [
        {"path": "notes/é.txt", "content": "a: b, c"},
        {"content": "x", "file_path": "a.txt"},
        {"path": "a.txt", "file_path": "a.txt", "content": "x"},
    ],
)
def test_keys_are_those_of_the_model(tmp_path: Path, dialect: str, called: str, given: dict[str, Any]) -> None:
    """Before and after the tool, in the order that the model wrote; the tool understands both names."""
    project = Project(tmp_path)
    seen = tmp_path / "seen"
    hook = noting(seen, dialect)
    ran = project.run([{"tool": {"name": called, "input": given}}, {"text": "done"}], hook)
    assert ran.ended.how == "done"
    assert (project.folder / (given.get("path") or given["file_path"])).read_text() == given["content"]
    for event in BEFORE_AND_AFTER:
        assert list(json.loads((seen / f"env.{event}").read_text()).items()) == list(given.items())
        told = json.loads((seen / f"stdin.{event}").read_text())
        assert list(json.loads(told["tool_input_json"]).items()) == list(given.items())
        if dialect != "claw-text":
            assert list(told["tool_input"].items()) == list(given.items())
        assert (seen / f"name.{event}").read_text() == "write_file"


def test_other_dialects_keep_the_canonical_keys(tmp_path: Path) -> None:
    """A hook written for Claude Code looks for `file_path`; and so do rules."""
    project, seen = Project(tmp_path), []
    hook = Hook(name="h", run=lambda ctx: seen.append(ctx.payload["tool_input"]), events=BEFORE_AND_AFTER)
    project.run([{"tool": {"name": "write_file", "input": {"path": "a", "content": "x"}}}, {"text": "done"}], hook)
    assert seen == 2 * [{"file_path": "a", "content": "x"}]


def test_a_failed_tool(tmp_path: Path) -> None:
    project, seen = Project(tmp_path), tmp_path / "seen"
    turns = [{"tool": {"name": "read_file", "input": {"path": "missing"}}}, {"text": "done"}]
    project.run(turns, noting(seen, "lesson", ("PostToolUse",)))
    assert (seen / "env.PostToolUse").read_text() == '{"path": "missing"}'


def test_a_rewritten_input_is_what_later_hooks_get(tmp_path: Path) -> None:
    project, seen = Project(tmp_path), tmp_path / "seen"
    first = Hook(
        name="first",
        run=lambda ctx: {"updatedInput": {"file_path": "b", "content": "y"}},
        events=("PreToolUse",),
        dialect="lesson",
        priority=1,
    )
    turns = [{"tool": {"name": "write_file", "input": {"path": "a", "content": "x"}}}, {"text": "done"}]
    project.run(turns, first, noting(seen, "lesson"))
    for event in BEFORE_AND_AFTER:
        assert json.loads((seen / f"env.{event}").read_text()) == {"file_path": "b", "content": "y"}
    assert (project.folder / "b").read_text() == "y"


TEXT = '{ "command":"echo  \\"a\\"" ,\t"timeout" : 1e3}'


@pytest.mark.parametrize("dialect", ["claw", "lesson"])
def test_text_in_a_session(tmp_path: Path, dialect: str) -> None:
    """`sent` is the text of the model: HOOK_TOOL_INPUT is that, to the letter."""
    seen = tmp_path / "seen"

    async def go() -> None:
        async with Session(Engine([noting(seen, dialect)])) as session:
            await session.call_tool("bash", json.loads(TEXT), lambda given: "a", sent=TEXT)

    run(go())
    for event in BEFORE_AND_AFTER:
        assert (seen / f"env.{event}").read_text() == TEXT
        assert json.loads((seen / f"stdin.{event}").read_text())["tool_input_json"] == TEXT


def test_text_that_hides_characters_is_written_again(tmp_path: Path) -> None:
    """A guard that greps sees what a person sees."""
    seen = tmp_path / "seen"

    async def go() -> None:
        async with Session(Engine([noting(seen, "lesson")])) as session:
            await session.call_tool(
                "bash", {"command": "rm -rf x"}, lambda given: "", sent='{"command":"rm \\u002drf x"}'
            )

    run(go())
    assert (seen / "env.PreToolUse").read_text() == '{"command": "rm -rf x"}'


@pytest.mark.parametrize("dialect", ["claw", "claw-text", "lesson"])
@pytest.mark.parametrize(("output", "text"), [(None, ""), ("", ""), ("a", "a"), (0, "0"), (False, "false"), ([], "[]")])
def test_output_of_a_tool(tmp_path: Path, dialect: str, output: Any, text: str) -> None:
    """A tool that returns nothing has an empty output."""
    note = f'printf "%s" "${{HOOK_TOOL_OUTPUT?}}" > {tmp_path}/env; cat > {tmp_path}/stdin'
    hook = Hook(name="h", run=command(note, dialect=dialect), events=("PostToolUse",), dialect=dialect)

    async def go() -> None:
        async with Session(Engine([hook])) as session:
            await session.call_tool("bash", {"command": "x"}, lambda given: output)

    run(go())
    assert (tmp_path / "env").read_text() == text
    assert json.loads((tmp_path / "stdin").read_text())["tool_output"] == text


@pytest.mark.parametrize(
    ("dialect", "code", "result"),
    [
        ("claw-text", "echo 'Hook denied: no rm'; exit 2", "Hook denied: no rm"),
        ("claw-text", "echo 'no rm'; exit 2", "Hook denied: no rm"),
        ("lesson", "echo 'Blocked by hook: no rm' >&2; exit 1", "Blocked by hook: no rm"),
        ("lesson", "echo 'no rm' >&2; exit 1", "Blocked by hook: no rm"),
        ("lesson", "exit 1", "Blocked by hook"),
        ("claw", "echo 'no rm'; exit 2", "no rm"),
    ],
)
def test_a_label_is_not_there_twice(dialect: str, code: str, result: str) -> None:
    hook = Hook(name="h", run=command(code, dialect=dialect), events=("PreToolUse",), dialect=dialect)

    async def go() -> str:
        async with Session(Engine([hook])) as session:
            return (await session.call_tool("bash", {"command": "x"}, lambda given: "ran")).content

    assert run(go()) == result
