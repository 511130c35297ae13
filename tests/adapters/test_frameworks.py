"""Answers of hooks take effect in every framework, for every way to run its agent."""

from pathlib import Path
from typing import Any

import pytest

import billhook
from adapters.driving import DRIVES, Drive, Tools, bash
from billhook import Engine, Event, Hook, ask, command, deny, inject, keep_going, on, rewrite, stop
from billhook.adapters import BlockedError, StoppedError, engine_for

MOST_USED = ("langchain", "langchain async", "openai_agents", "pydantic_ai")


@pytest.fixture(params=[pytest.param(one, marks=() if one in MOST_USED else pytest.mark.slow) for one in DRIVES])
def drive(request: pytest.FixtureRequest) -> Drive:
    return DRIVES[request.param]


WHOLE_LIFE = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"]


@on("PreToolUse", match="Bash")
def guard(event: Any) -> Any:
    command = event.tool_input["command"]
    if command.startswith("rm"):
        return deny("nothing is removed here")
    return ask("is this fine") if command.startswith("push") else None


@on("PreToolUse")
def rewriter(event: Any) -> Any:
    return rewrite(input={"command": "ls -l"}) if event.tool_input.get("command") == "ls" else None


@on("PostToolUse")
def redact(event: Any) -> Any:
    return rewrite(output="[redacted]") if "secret" in str(event.tool_response) else None


def test_a_life_without_objections(drive: Drive) -> None:
    """Every event of a run is fired once and in order, and nothing is changed."""
    seen = drive([guard], bash("ls"))

    assert (seen.error, seen.ran, seen.results, seen.reported) == (None, ["ls"], [("ran ls", False)], "done")
    assert seen.events == WHOLE_LIFE
    assert seen.told == ["be brief", "be brief"]


def test_a_call_is_blocked(drive: Drive) -> None:
    """The tool does not run, the model reads why, and the run goes on."""
    seen = drive([guard], bash("rm -r build", "ls"))

    assert seen.ran == ["ls"]
    assert [text for text, _ in seen.results] == ["nothing is removed here", "ran ls"]
    assert seen.reported == "done"


def test_an_input_is_rewritten(drive: Drive) -> None:
    """The tool gets what the hook wrote."""
    seen = drive([rewriter], bash("ls"))

    assert (seen.ran, seen.results) == (["ls -l"], [("ran ls -l", False)])


def test_an_output_is_rewritten(drive: Drive) -> None:
    """The model gets what the hook wrote."""
    seen = drive([redact], bash("cat secret"))

    assert (seen.ran, seen.results) == (["cat secret"], [("[redacted]", False)])


def test_context_reaches_the_model_once(drive: Drive) -> None:
    """Context of hooks is at the end of the next system message, and in no other."""

    @on("PreToolUse")
    def before(event: Any) -> Any:
        return inject("the build is broken")

    @on("UserPromptSubmit")
    def at_the_prompt(event: Any) -> Any:
        return inject("it is Monday")

    @on("SessionStart")
    def at_the_start(event: Any) -> Any:
        return inject("be kind")

    seen = drive([before, at_the_prompt, at_the_start], bash("ls", "ls"))

    reported = "be brief\n\nthe build is broken"
    assert seen.told == ["be brief\n\nbe kind\nit is Monday", reported, reported]


def test_no_user_can_be_asked(drive: Drive) -> None:
    """An ask without a user is a deny with that reason."""
    seen = drive([guard], bash("push"))

    assert (seen.ran, seen.results[0][0]) == ([], "is this fine (no user can be asked)")


def test_a_list_of_hooks_has_the_guard(drive: Drive) -> None:
    """Unless it brings one of its own."""
    force = "git push --force origin feature"

    seen = drive(engine_for([]), bash("rm -rf ~", force, "ls"))

    assert seen.ran == ["ls"]
    assert f"To allow it, the user can add `Bash({force})` to `guard(allow=[...])`." in seen.results[1][0]
    assert drive(engine_for([billhook.guard(allow=[f"Bash({force})"])]), bash(force)).ran == [force]


@pytest.mark.parametrize(("answer", "ran"), [("once", ["push"]), ("no", [])])
def test_the_person_is_asked(drive: Drive, answer: str, ran: list[str]) -> None:
    """`ask=` gets the question, and its answer counts."""
    questions = []

    def asked(question: Any) -> str:
        questions.append((question.tool_name, question.tool_input, question.reason))
        return answer

    seen = drive([guard], bash("push"), ask=asked)

    assert questions == [("bash", {"command": "push"}, "is this fine")]
    assert seen.ran == ran


def test_a_prompt_is_refused(drive: Drive) -> None:
    """No model sees it, and the caller reads why."""

    @on("UserPromptSubmit")
    def no_secrets(event: Any) -> Any:
        return deny("prompts without keys, please") if "key" in event.prompt else None

    seen = drive([no_secrets], bash("ls"), prompt="my key is 123")

    assert (seen.told, seen.ran) == ([], [])
    assert seen.events == ["SessionStart", "UserPromptSubmit", "SessionEnd"]
    info = getattr(getattr(seen.error, "guardrail_result", None), "output", None)
    assert "prompts without keys, please" in (seen.reported, str(seen.error), getattr(info, "output_info", ""))
    if drive in (DRIVES["openai_agents"], DRIVES["pydantic_ai"]):
        assert isinstance(seen.error, BlockedError)


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_the_run_is_stopped(drive: Drive, event: str) -> None:
    """No model is called and no tool is run after a hook has ended the run; its reason is what the caller gets."""

    @on(event)
    def enough(event: Any) -> Any:
        return stop("that is enough")

    seen = drive([enough], bash("ls", "ls -a"))

    assert seen.ran == (["ls"] if event == "PostToolUse" else [])
    assert len(seen.told) == 1
    assert seen.events[-1] == "SessionEnd" and "Stop" not in seen.events
    assert seen.reported == "that is enough" or isinstance(seen.error, StoppedError)
    assert seen.error is None or str(seen.error) == "that is enough"


def test_an_agent_is_kept_going(drive: Drive) -> None:
    """A Stop hook's reason is the next message to the model; if that is not possible, it is reported."""

    @on("Stop")
    def once_more(event: Any) -> Any:
        return None if event.stop_hook_active else keep_going("now write the tests")

    seen = drive([once_more], bash())

    if drive in (DRIVES["openai_agents, Runner"], DRIVES["openai_agents, streamed"], DRIVES["pydantic_ai, streamed"]):
        assert (seen.reported, len(seen.told)) == ("done", 1)
        assert any("now write the tests" in line for line in seen.lines)
    else:
        assert (seen.reported, len(seen.told)) == ("done again", 2)
        assert seen.events == ["SessionStart", "UserPromptSubmit", "Stop", "Stop", "SessionEnd"]


def test_a_tool_fails(drive: Drive) -> None:
    """PostToolUseFailure has the tool's own error, and the framework treats it as ever."""
    errors = []

    @on("PostToolUseFailure")
    def watch(event: Any) -> None:
        errors.append(event.error)

    seen = drive([watch], bash("fail"))

    assert errors == ["fail: no such file"]
    if seen.error is None:
        assert seen.results == [("An error occurred while running the tool. Please try again.", False)]
    else:
        assert isinstance(seen.error, ValueError)


@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_a_gate_that_fails_lets_nothing_through(drive: Drive, how: str) -> None:
    """A gate that raises or hangs denies, and the person is told."""

    @on("PreToolUse", on_failure="deny", timeout=0.05)
    async def gate(event: Any) -> None:
        import asyncio

        if how == "raises":
            raise RuntimeError("a bug in the gate")
        await asyncio.sleep(60)

    seen = drive([gate], bash("ls"))

    assert seen.ran == []
    assert "gate" in seen.results[0][0]
    assert any("gate" in line for line in seen.lines)


def test_a_hook_that_fails_open_is_told(drive: Drive) -> None:
    """A hook that is no gate and raises changes nothing, but not in silence."""

    @on("PreToolUse")
    def broken(event: Any) -> None:
        raise RuntimeError("a bug in the hook")

    seen = drive([broken], bash("ls"))

    assert seen.ran == ["ls"]
    assert any("a bug in the hook" in line for line in seen.lines)


def test_a_crash_of_ours_lets_nothing_through(drive: Drive) -> None:
    """Whatever breaks inside billhook, the tool does not run and the caller hears of it."""

    class LogFault(Engine):
        async def fire(self, event: Any, *, deadline: float | None = None) -> Any:
            if isinstance(event, Event) and event.hook_event_name == "PreToolUse":
                raise RuntimeError("a bug in the engine")
            return await super().fire(event, deadline=deadline)

    seen = drive(LogFault([]), bash("ls"))

    assert seen.ran == []
    assert "a bug in the engine" in str(seen.error) or "error occurred" in seen.results[0][0]


def test_calls_at_the_same_time(drive: Drive) -> None:
    """The calls of one reply are judged each for itself."""
    calls = [("bash", {"command": command}) for command in ("ls", "rm x", "pwd", "cat secret")]

    seen = drive([guard, rewriter, redact], [calls, "done"])

    assert sorted(seen.ran) == ["cat secret", "ls -l", "pwd"]
    results = [text for text, _ in seen.results]
    assert results == ["ran ls -l", "nothing is removed here", "ran pwd", "[redacted]"]
    assert seen.events.count("PreToolUse") == 4 and seen.events.count("PostToolUse") == 3


def test_structures_in_and_out(drive: Drive) -> None:
    """Hooks see and write inputs and outputs that are no texts."""
    shown = []

    @on("PreToolUse", match="look_up")
    def before(event: Any) -> Any:
        shown.append(event.tool_input)
        return rewrite(input={"query": {"n": 2}})

    @on("PostToolUse", match="look_up")
    def after(event: Any) -> Any:
        shown.append(event.tool_response)
        return rewrite(output={"found": {}, "rows": []})

    seen = drive([before, after], [[("look_up", {"query": {"n": 1}})], "done"])

    assert seen.ran == ["look_up {'n': 2}"]
    found = shown[1] if isinstance(shown[1], dict) else __import__("json").loads(shown[1])
    assert (shown[0], found) == ({"query": {"n": 1}}, {"found": {"n": 2}, "rows": [1, 2]})
    assert str(seen.results[0][0]).replace('"', "'").replace(" ", "") == "{'found':{},'rows':[]}"


def test_a_structure_that_no_hook_changes(drive: Drive) -> None:
    """What hooks leave alone is what the framework makes of it without them."""
    script = [[("look_up", {"query": {"n": 1}})], "done"]

    assert drive([guard], script).results == drive([], script).results


def test_tools_by_another_name(drive: Drive) -> None:
    """`names` lets hooks that know `Bash` guard a shell that is called otherwise."""
    shown = []

    @on("PreToolUse", match="Read")
    def watch(event: Any) -> Any:
        shown.append(event.tool_name)
        return deny("no")

    seen = drive([watch], bash("ls"), names={"bash": "Read"})

    assert (seen.ran, shown) == ([], ["Read"])


def test_a_deny_after_the_tool(drive: Drive) -> None:
    """The deny comes after the call; the model reads the reason beside the output."""

    @on("PostToolUse")
    def late(event: Any) -> Any:
        return deny("this should not have been read")

    seen = drive([late], bash("cat"), tools=Tools(lambda command: "the output"))

    assert seen.results[0][0] == "the output\n\nthis should not have been read"


def test_hooks_in_the_background_finish(drive: Drive, tmp_path: Path) -> None:
    """The end of a run waits for them."""
    run = command(f"sleep 0.3; touch {tmp_path}/$CLAUDE_EVENT_TYPE")
    hooks = [Hook(name="h", run=run, events=("PostToolUse", "Stop"), dialect="claude", background=True, timeout=20)]
    drive(hooks, bash("ls"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["PostToolUse", "Stop"]
