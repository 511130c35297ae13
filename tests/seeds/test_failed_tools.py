"""Seeds 000, 003 and 004 know one event after the tool: a hook for it hears of a failed tool, too, however it was
made. Files and the Python API agree."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from billhook import (
    Engine,
    Hook,
    PostToolUse,
    PostToolUseFailure,
    Session,
    SyncSession,
    command,
    load,
    on,
)
from session.around import run

SEEDS = ("claw", "claw-text", "lesson")
NOTE = 'printf "%s %s %s" "$HOOK_EVENT" "$HOOK_TOOL_IS_ERROR" "$HOOK_TOOL_OUTPUT" > '


def failure(**more: Any) -> PostToolUseFailure:
    return PostToolUseFailure(tool_name="Bash", tool_input={"command": "ls"}, error="boom", **more)


def hook(dialect: str, text: str, **more: Any) -> Hook:
    return Hook(name="seed", run=command(text, dialect=dialect), events=("PostToolUse",), dialect=dialect, **more)


def raises(given: dict[str, Any]) -> str:
    raise OSError("boom")


def fired(hook: Hook, folder: Path) -> None:
    Engine([hook]).fire_sync(failure())


def at_once(hook: Hook, folder: Path) -> None:
    Engine([hook, hook], parallel=True).fire_sync(failure())


def in_session(hook: Hook, folder: Path) -> None:
    async def go() -> None:
        async with Session(Engine([hook])) as session:
            await session.call_tool("Bash", {"command": "ls"}, raises)

    run(go())


def in_sync_session(hook: Hook, folder: Path) -> None:
    with SyncSession(Engine([hook])) as session:
        session.call_tool("Bash", {"command": "ls"}, raises)


def beside_files(hook: Hook, folder: Path) -> None:
    load(folder, home=folder / "state", hooks=[hook]).fire_sync(failure(cwd=str(folder)))


@pytest.mark.parametrize("fire", [fired, at_once, in_session, in_sync_session, beside_files])
@pytest.mark.parametrize("dialect", SEEDS)
def test_a_seeds_hook_hears_of_a_failed_tool(tmp_path: Path, dialect: str, fire: Callable[[Hook, Path], None]) -> None:
    said = tmp_path / "said"
    fire(hook(dialect, NOTE + str(said)), tmp_path)
    assert said.read_text() == f"PostToolUse {'true' if dialect == 'claw-text' else '1'} boom"


def test_a_function_hears_of_it_as_well() -> None:
    """It is told of a PostToolUse whose flag is set, and may answer as on PostToolUse."""
    heard = []

    def note(event: PostToolUse) -> dict[str, Any]:
        heard.append((event.hook_event_name, event.tool_response, event.payload["tool_result_is_error"]))
        return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "noted"}}

    made = on(PostToolUse)(note)
    verdict = Engine([Hook(name="note", run=made.run, events=("PostToolUse",), dialect="claw")]).fire_sync(failure())
    assert heard == [("PostToolUse", "boom", True)]
    assert verdict.context == ("noted",)
    assert verdict.failed_open == 0


@pytest.mark.parametrize(
    ("events", "dialect", "heard"),
    [
        (("PostToolUse",), "claude", []),
        (("PostToolUse",), "spec", []),
        (("PostToolUse", "PostToolUseFailure"), "claw", ["PostToolUseFailure"]),
        ((), "claw", ["PostToolUseFailure"]),
        (("PreToolUse",), "claw", []),
    ],
)
def test_the_others_choose_for_themselves(events: tuple[str, ...], dialect: str, heard: list[str]) -> None:
    found: list[str] = []
    one = Hook(name="n", run=lambda ctx: found.append(ctx.event_type), events=events, dialect=dialect)
    Engine([one]).fire_sync(failure())
    assert found == heard


def test_a_denial_after_a_failed_tool_is_fed_back() -> None:
    """Exit 2 after the tool: labelled as denied, as after a tool that succeeded."""
    with SyncSession(Engine([hook("claw", "echo no; exit 2")])) as session:
        result = session.call_tool("Bash", {"command": "ls"}, raises)
    assert (result.content, result.is_error) == ("boom\n\nHook feedback (denied):\nno", True)
