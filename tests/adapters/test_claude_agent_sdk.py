"""The Claude Agent SDK: what its Claude Code is answered; with the real one in the slow suite."""

import asyncio
from pathlib import Path
from typing import Any, get_args

import pytest
from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny
from claude_agent_sdk.types import HookEvent

from adapters.claude_client import claude
from billhook import Engine, Hook, allow, ask, deny, inject, keep_going, on, rewrite, stop
from billhook.adapters.claude_agent_sdk import hooks
from clients.script import Call

COMMAND = {"command": "touch made", "description": "as told"}
BASE = {"session_id": "s", "transcript_path": "", "cwd": "/", "permission_mode": "default"}
BEFORE = {**BASE, "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": COMMAND, "tool_use_id": "1"}
OUTPUT = {"stdout": "the key is 123", "stderr": "", "interrupted": False, "isImage": False}
AFTER = {**BEFORE, "hook_event_name": "PostToolUse", "tool_response": OUTPUT}


def hook(event: str, answer: Any) -> Hook:
    @on(event, name="scripted")
    def scripted(event: Any) -> Any:
        return answer

    return scripted


def answered(given: Any, payload: dict[str, Any], **options: Any) -> Any:
    """What Claude Code is answered."""
    callback: Any = hooks(given, **options)[payload["hook_event_name"]][0].hooks[0]
    return asyncio.run(callback(payload, payload.get("tool_use_id"), {"signal": None}))


def test_every_event_of_the_sdk_is_served() -> None:
    """All that it knows; what waits for an answer is blocked when there is none."""
    served = hooks([])

    assert set(served) == {get_args(one)[0] for one in get_args(HookEvent)}
    blocks = {name for name, matchers in served.items() if matchers[0].on_failure == "block"}
    assert blocks >= {"PreToolUse", "UserPromptSubmit", "PermissionRequest", "PreCompact", "PostToolUse"}
    assert served["PreToolUse"][0].timeout == 60 and hooks([], timeout=5)["Stop"][0].timeout == 5


def test_a_list_of_hooks_has_the_guard() -> None:
    """Without any hook of its own, too."""
    output = answered([], {**BEFORE, "tool_input": {"command": "rm -rf ~"}})

    assert output["hookSpecificOutput"]["permissionDecision"] == "deny"


def specific(event: str, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


DENIED = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="no")


@pytest.mark.parametrize(
    ("answer", "payload", "output"),
    [
        (None, BEFORE, {}),
        (deny("no"), BEFORE, DENIED),
        (ask("sure"), BEFORE, specific("PreToolUse", permissionDecision="ask", permissionDecisionReason="sure")),
        (allow(), BEFORE, specific("PreToolUse", permissionDecision="allow")),
        (rewrite(input={"command": "ls"}), BEFORE, specific("PreToolUse", updatedInput={"command": "ls"})),
        (inject("note"), BEFORE, specific("PreToolUse", additionalContext="note")),
        (stop("no"), BEFORE, {**DENIED, "continue": False, "stopReason": "no"}),
        (inject("note"), AFTER, specific("PostToolUse", additionalContext="note")),
        (rewrite(output="***"), AFTER, specific("PostToolUse", updatedToolOutput={**OUTPUT, "stdout": "***"})),
        (
            rewrite(output={**OUTPUT, "stdout": "-"}),
            AFTER,
            specific("PostToolUse", updatedToolOutput={**OUTPUT, "stdout": "-"}),
        ),
        (keep_going("more"), {**BASE, "hook_event_name": "Stop"}, {"decision": "block", "reason": "more"}),
        (
            deny("no"),
            {**BASE, "hook_event_name": "UserPromptSubmit", "prompt": "x"},
            {"decision": "block", "reason": "no"},
        ),
    ],
    ids=lambda one: None,
)
def test_answers(answer: Any, payload: dict[str, Any], output: dict[str, Any]) -> None:
    """Each decision in the words that Claude Code obeys."""
    assert answered([hook(payload["hook_event_name"], answer)], payload) == output


READ = {**AFTER, "tool_name": "Read", "tool_response": {"type": "text", "file": {"content": "the key"}}}


@pytest.mark.parametrize("new", [["text"], {"type": "text"}, {"type": 1, "file": {}}, {"type": "redacted"}, None])
def test_an_output_of_another_shape_ends_the_run(new: Any) -> None:
    """Claude Code would ignore it and show the model what was to be hidden. The person is told."""
    lines: list[str] = []
    output = answered([hook("PostToolUse", rewrite(output=new))], READ, tell=lines.append)

    assert output["continue"] is False and "Claude Code does not accept" in output["stopReason"]
    assert "updatedToolOutput" not in str(output)
    assert lines == [f"the run ends: {output['stopReason']}"]


@pytest.mark.parametrize("new", ["***", {"file": {"content": "***"}}, {"type": "text", "file": {"content": "***"}}])
def test_an_output_that_can_be_made_to_fit(new: Any) -> None:
    """Text replaces the tool's text, and a part of an object is merged into the whole."""
    output = answered([hook("PostToolUse", rewrite(output=new))], READ)

    assert output == specific("PostToolUse", updatedToolOutput={"type": "text", "file": {"content": "***"}})


def test_a_stop_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Claude Code ends with an empty answer, so the person hears here who ended the run, and why."""
    answered([hook("PostToolUse", stop("enough for today"))], AFTER)

    assert "the run ends: enough for today" in caplog.text


@pytest.mark.parametrize("gate", [False, True])
def test_a_hook_that_hangs(gate: bool) -> None:
    """Its own rule answers before Claude Code's timeout, and the failure is reported."""

    @on("PreToolUse", on_failure="deny" if gate else "allow")
    async def hangs(event: Any) -> None:
        await asyncio.sleep(60)

    lines: list[str] = []
    output = answered([hangs], BEFORE, timeout=0.2, tell=lines.append)

    assert (output != {}) is gate
    assert len(lines) == 1 and "hangs" in lines[0]


def test_a_crash_of_ours_is_a_failed_callback(caplog: pytest.LogCaptureFixture) -> None:
    """It raises, and the matcher has `on_failure="block"` then."""

    class LogFault(Engine):
        async def fire(self, event: Any, *, deadline: float | None = None) -> Any:
            raise RuntimeError("a bug in the engine")

    with pytest.raises(RuntimeError, match="a bug in the engine"):
        answered(LogFault([]), BEFORE)
    assert "PreToolUse was not checked" in caplog.text


def test_what_can_not_be_expressed_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """An answer that Claude Code has no word for is not lost in silence."""
    payload = {**BASE, "hook_event_name": "Notification", "message": "x", "notification_type": "idle_prompt"}

    answered([hook("Notification", allow("because"))], payload)

    assert "Claude Code can't express" in caplog.text


# -- with the real one


@pytest.mark.slow
def test_deny(tmp_path: Path) -> None:
    """The command does not run, and the model reads why."""
    ran = claude(tmp_path, hooks([hook("PreToolUse", deny("nothing is made here"))]), ["touch made"])

    assert not (ran.folder / "made").exists()
    assert "nothing is made here" in ran.results[0]


@pytest.mark.slow
def test_no_objection(tmp_path: Path) -> None:
    """Everything is asked about and nothing changed."""
    events: list[str] = []
    engine = Engine([], observers=[lambda verdict: events.append(verdict.event)])

    ran = claude(tmp_path, hooks(engine), ["touch made; echo well", "false"])

    assert (ran.folder / "made").exists()
    assert (ran.reported, ran.results[0]) == ("all done", "well")
    assert events == [
        "UserPromptSubmit",
        *("PreToolUse", "PostToolUse"),
        *("PreToolUse", "PostToolUseFailure"),
        "Stop",
    ]


@pytest.mark.slow
def test_rewrites(tmp_path: Path) -> None:
    """The command and its output are those that hooks wrote."""
    before = hook("PreToolUse", rewrite(input={"command": "touch second; echo key 123", "description": "x"}))

    ran = claude(tmp_path, hooks([before, hook("PostToolUse", rewrite(output="[redacted]"))]), ["touch first"])

    assert (sorted(one.name for one in ran.folder.iterdir()), ran.results) == (["second"], ["[redacted]"])
    assert not ran.model_saw("key 123")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("new", "reads"),
    [
        pytest.param("[redacted]", ["1\t[redacted]"], id="text"),
        pytest.param({"file": {"content": "[redacted]"}}, ["1\t[redacted]"], id="a part"),
        pytest.param({"type": "redacted"}, [], id="another shape"),
    ],
)
def test_another_content_of_a_file(tmp_path: Path, new: Any, reads: list[str]) -> None:
    """The model reads what the hook wrote, or nothing more at all."""
    (tmp_path / "keys").write_text("key 123\n")
    read = Call("Read", {"file_path": str(tmp_path / "keys")})

    ran = claude(tmp_path, hooks([hook("PostToolUse", rewrite(output=new))]), [read])

    assert ran.results == reads
    assert not ran.model_saw("key 123")


@pytest.mark.slow
@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "UserPromptSubmit"])
def test_context(tmp_path: Path, event: str) -> None:
    """The model reads what hooks add."""
    ran = claude(tmp_path, hooks([hook(event, inject("the build is broken"))]), ["true"])

    assert ran.model_saw("the build is broken")


@pytest.mark.slow
def test_ask_without_a_user(tmp_path: Path) -> None:
    """There is no user, so an ask is a deny."""
    ran = claude(tmp_path, hooks([hook("PreToolUse", ask("is this fine"))]), ["touch made"])

    assert not (ran.folder / "made").exists()
    assert "is this fine" in ran.results[0]


@pytest.mark.slow
@pytest.mark.parametrize("yes", [True, False])
def test_ask(tmp_path: Path, yes: bool) -> None:
    """`can_use_tool` is asked, with the hook's reason, though the command is allowed by a rule."""
    reasons = []

    async def can_use_tool(tool: str, given: Any, context: Any) -> Any:
        reasons.append(context.decision_reason)
        return PermissionResultAllow() if yes else PermissionResultDeny(message="the user declined")

    careful = hook("PreToolUse", ask("is this fine"))
    ran = claude(tmp_path, hooks([careful]), ["touch made"], can_use_tool=can_use_tool)

    assert (reasons, (ran.folder / "made").exists()) == (["is this fine"], yes)


@pytest.mark.slow
def test_a_prompt_is_refused(tmp_path: Path) -> None:
    """No model sees it."""
    ran = claude(tmp_path, hooks([hook("UserPromptSubmit", deny("no keys here"))]), [], prompt="my key")

    assert (ran.asked, "no keys here" in ran.reported) == ([], True)


@pytest.mark.slow
@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_stop(tmp_path: Path, event: str) -> None:
    """The run ends; before the tool, it does not run either."""
    ran = claude(tmp_path, hooks([hook(event, stop("that is enough"))]), ["touch made", "touch more"])

    assert (ran.folder / "made").exists() is (event == "PostToolUse")
    assert not (ran.folder / "more").exists()
    assert len(ran.asked) == 1


@pytest.mark.slow
def test_keep_going(tmp_path: Path) -> None:
    """A Stop hook's reason is the next thing that the model reads."""

    @on("Stop")
    def once_more(event: Any) -> Any:
        return None if event.stop_hook_active else keep_going("now write the tests")

    ran = claude(tmp_path, hooks([once_more]), [])

    assert ran.model_saw("now write the tests")
    assert ran.reported == "done again"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["raises", "hangs", "blocks the loop", "crash of ours"])
def test_nothing_gets_through(tmp_path: Path, how: str) -> None:
    """Whatever happens to a gate or to us, the command does not run."""
    import time

    @on("PreToolUse", on_failure="deny")
    async def gate(event: Any) -> None:
        if how == "raises":
            raise RuntimeError("a bug")
        if how == "blocks the loop":
            time.sleep(3)  # noqa: ASYNC251 (that is the fault)
        await asyncio.sleep(60)

    class LogFault(Engine):
        async def fire(self, event: Any, *, deadline: float | None = None) -> Any:
            raise RuntimeError("a bug in the engine")

    ran = claude(tmp_path, hooks(LogFault([]) if how == "crash of ours" else [gate], timeout=1), ["touch made"])

    assert not (ran.folder / "made").exists()
