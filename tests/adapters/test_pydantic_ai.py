"""What only Pydantic AI has: typed arguments, approvals of deferred calls, other capabilities, conversations."""

import asyncio
import datetime
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    ImageUrl,
    ModelRetry,
    RunContext,
    ToolApproved,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from adapters.driving import Tools, Watched, bash, pydantic_agent
from billhook import ask, deny, inject, on, rewrite
from billhook.adapters.pydantic_ai import HookCapability


def scripted(*calls: ToolCallPart) -> FunctionModel:
    """A model that makes the calls, one at a turn, and is done."""

    def say(messages: Any, info: Any) -> ModelResponse:
        turn = sum(1 for message in messages if isinstance(message, ModelResponse))
        return ModelResponse([calls[turn]] if turn < len(calls) else [TextPart("done")])

    return FunctionModel(say)


def results(messages: Sequence[Any]) -> list[Any]:
    parts = [part for message in messages for part in message.parts]
    return [part.content for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart)]


class Meeting(BaseModel):
    """A structure with types that JSON does not have."""

    title: str
    day: datetime.date


@pytest.mark.parametrize(
    ("written", "got", "result"),
    [
        (None, [Meeting(title="a", day=datetime.date(2026, 1, 2))], Meeting(title="a", day=datetime.date(2026, 1, 2))),
        ({"meeting": {"title": "b", "day": "2026-03-04"}}, [Meeting(title="b", day=datetime.date(2026, 3, 4))], None),
        ({"meeting": {"title": "b", "day": "never"}}, [], "and the new input is not valid"),
    ],
    ids=["untouched", "rewritten", "wrongly rewritten"],
)
def test_typed_arguments(written: Any, got: list[Any], result: Any) -> None:
    """Hooks see JSON; what they write is checked as the model's own, and the tool gets its types."""
    taken, shown = [], []

    @on("PreToolUse")
    def before(event: Any) -> Any:
        shown.append(event.tool_input)
        return None if written is None else rewrite(input=written)

    @on("PostToolUse")
    def after(event: Any) -> None:
        shown.append(event.tool_response)

    call = ToolCallPart("plan", {"meeting": {"title": "a", "day": "2026-01-02"}}, tool_call_id="1")
    agent = Agent(scripted(call), capabilities=[HookCapability([before, after])])

    @agent.tool
    def plan(ctx: RunContext[None], meeting: Meeting) -> Meeting:
        taken.append(meeting)
        return meeting

    given = results(asyncio.run(agent.run("go")).all_messages())[0]

    assert taken == got
    assert shown[0] == {"meeting": {"title": "a", "day": "2026-01-02"}}
    assert shown[1:] == [one.model_dump(mode="json") for one in got]
    assert given == (result or got[0]) or (isinstance(result, str) and result in given)


@on("PreToolUse")
def careful(event: Any) -> Any:
    return ask("is this fine")


@pytest.mark.parametrize(
    ("answer", "ran"),
    [(True, ["ls"]), (False, []), (ToolApproved(override_args={"command": "pwd"}), ["pwd"])],
    ids=["yes", "no", "yes, but"],
)
def test_an_ask_is_an_approval(answer: Any, ran: list[str]) -> None:
    """With `approval` the run is put off with the hook's reason, and goes on with the person's answer."""
    tools, watched = Tools(), Watched([careful])
    capability = HookCapability(watched.engine, approval=True)
    agent = pydantic_agent(bash("ls"), [], tools, capabilities=[capability], output_type=[str, DeferredToolRequests])

    waiting = asyncio.run(agent.run("go"))
    about = waiting.output.metadata["call-1"]
    assert (tools.ran, about["reason"], about["tool_input"]) == ([], "is this fine", {"command": "ls"})
    assert "Stop" not in watched.events

    answers = DeferredToolResults(approvals={"call-1": answer})
    done = asyncio.run(agent.run(message_history=waiting.all_messages(), deferred_tool_results=answers))
    assert (done.output, tools.ran) == ("done", ran)
    assert watched.events[-2:] == ["Stop", "SessionEnd"]


def test_an_approval_without_a_user() -> None:
    """An agent that does not know deferred calls raises; nothing runs."""
    tools = Tools()
    agent = pydantic_agent(bash("ls"), [], tools, capabilities=[HookCapability([careful], approval=True)])

    with pytest.raises(Exception, match="DeferredToolRequests"):
        asyncio.run(agent.run("go"))
    assert tools.ran == []


def test_a_conversation_is_a_session() -> None:
    """A run with earlier messages resumes the session of their conversation."""
    lives = []

    @on("SessionStart")
    def watch(event: Any) -> None:
        lives.append((event.session_id, event.source))

    agent = pydantic_agent(["one", "two"], [], Tools(), capabilities=[HookCapability([watch])])
    first = asyncio.run(agent.run("hello"))
    asyncio.run(agent.run("again", message_history=first.all_messages()))

    assert [source for _, source in lives] == ["startup", "resume"]
    assert lives[0][0] == lives[1][0]


def test_what_other_capabilities_make_of_a_call_is_judged() -> None:
    """At every position in the list, it sees the final arguments of the tool."""

    class Rewrite(AbstractCapability[Any]):
        async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            return {"command": "rm -r /"}

    @on("PreToolUse")
    def guard(event: Any) -> Any:
        return deny("no") if "rm" in event.tool_input["command"] else None

    tools = Tools()
    agent = pydantic_agent(bash("ls"), [], tools, capabilities=[HookCapability([guard]), Rewrite()])
    given = results(asyncio.run(agent.run("go")).all_messages())

    assert (tools.ran, given) == ([], ["no"])


def test_a_tool_that_requests_a_retry() -> None:
    """ModelRetry is a failure to hooks, and a retry to the framework."""
    heard, ran = [], []

    @on("PostToolUseFailure")
    def watch(event: Any) -> None:
        heard.append(event.error)

    calls = [ToolCallPart("guess", {"n": n}, tool_call_id=str(n)) for n in (1, 2)]
    agent = Agent(scripted(*calls), capabilities=[HookCapability([watch])])

    @agent.tool_plain
    def guess(n: int) -> str:
        ran.append(n)
        if n == 1:
            raise ModelRetry("guess higher")
        return "right"

    given = results(asyncio.run(agent.run("go")).all_messages())

    assert (ran, given) == ([1, 2], ["guess higher", "right"])
    assert len(heard) == 1 and "guess higher" in heard[0]


def test_denials_cost_no_retries() -> None:
    """A tool that is denied again and again does not end the run."""

    @on("PreToolUse")
    def never(event: Any) -> Any:
        return deny("never")

    tools = Tools()
    agent = pydantic_agent(bash(*["ls"] * 5), [], tools, capabilities=[HookCapability([never])])
    given = results(asyncio.run(agent.run("go")).all_messages())

    assert (tools.ran, given) == ([], ["never"] * 5)


def test_tools_of_a_toolset() -> None:
    """They are judged like all others, under the name that the model knows."""
    names, ran = [], []

    @on("PreToolUse")
    def watch(event: Any) -> Any:
        names.append(event.tool_name)
        return rewrite(input={"path": "/tmp/x"})

    files: FunctionToolset[Any] = FunctionToolset()

    @files.tool_plain
    def remove(path: str) -> str:
        ran.append(path)
        return "removed"

    call = ToolCallPart("files_remove", {"path": "/"}, tool_call_id="1")
    agent = Agent(scripted(call), toolsets=[files.prefixed("files")], capabilities=[HookCapability([watch])])
    asyncio.run(agent.run("go"))

    assert (names, ran) == (["files_remove"], ["/tmp/x"])


def test_a_model_that_fails() -> None:
    """StopFailure and SessionEnd are fired, the error is the model's own, and a run that is cancelled ends, too."""
    watched = Watched([])

    def broken(messages: Any, info: Any) -> ModelResponse:
        raise UnexpectedModelBehavior("the service is down")

    agent = Agent(FunctionModel(broken), capabilities=[HookCapability(watched.engine)])
    with pytest.raises(UnexpectedModelBehavior, match="the service is down"):
        asyncio.run(agent.run("go"))

    assert watched.events == ["SessionStart", "UserPromptSubmit", "StopFailure", "SessionEnd"]


@pytest.mark.parametrize("calls", [1, 2])
def test_a_run_that_is_cancelled(calls: int) -> None:
    """The hooks of its tools hear of it, and then those of its session."""
    watched = Watched([])
    began = asyncio.Event()
    waits = [ToolCallPart("wait", {}, tool_call_id=str(number)) for number in range(calls)]
    agent = Agent(
        FunctionModel(lambda messages, info: ModelResponse(waits)), capabilities=[HookCapability(watched.engine)]
    )

    @agent.tool_plain
    async def wait() -> str:
        began.set()
        await asyncio.sleep(60)
        return "waited"

    async def program() -> None:
        running = asyncio.create_task(agent.run("go"))
        await asyncio.wait_for(began.wait(), 30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(program())

    failed = ["PostToolUseFailure"] * watched.events.count("PreToolUse")
    assert watched.events[-len(failed) - 1 :] == [*failed, "SessionEnd"]


def test_a_run_that_is_iterated() -> None:
    """`agent.iter` walks the same nodes, and its calls are judged."""
    watched, tools = Watched([]), Tools()
    agent = pydantic_agent(bash("ls"), [], tools, capabilities=[HookCapability(watched.engine)])

    async def program() -> Any:
        async with agent.iter("go") as run:
            async for _ in run:
                pass
        return run.result.output

    assert asyncio.run(program()) == "done"
    assert watched.events == [*("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")]


def test_many_runs_at_once() -> None:
    """One capability serves them all, and nothing gets from one to another."""

    @on("UserPromptSubmit")
    def note(event: Any) -> Any:
        return inject(f"this is {event.prompt}")

    @on("PreToolUse")
    async def judge(event: Any) -> Any:
        await asyncio.sleep(0.01)
        return deny("not you") if event.tool_input["command"] == "3" else None

    capability = HookCapability([note, judge])

    async def one(number: int) -> tuple[Any, str]:
        told: list[str] = []
        agent = pydantic_agent(bash(str(number)), told, Tools(), capabilities=[capability])
        result = await agent.run(f"run {number}")
        return results(result.all_messages()), told[0]

    async def all_of_them() -> Any:
        return await asyncio.gather(*(one(number) for number in range(8)))

    assert asyncio.run(all_of_them()) == [
        ([f"ran {n}" if n != 3 else "not you"], f"be brief\n\nthis is run {n}") for n in range(8)
    ]


def test_a_prompt_of_parts() -> None:
    """Hooks read the text of a prompt that is a list."""
    prompts = []

    @on("UserPromptSubmit")
    def watch(event: Any) -> None:
        prompts.append(event.prompt)

    asyncio.run(pydantic_agent(["done"], [], Tools(), capabilities=[HookCapability([watch])]).run(["look", "at this"]))

    assert prompts == ["look\nat this"]


def test_a_prompt_with_more_than_words() -> None:
    """Hooks read what is there beside the words, and not its bytes."""
    prompts: list[str] = []

    @on("UserPromptSubmit")
    def note(event: Any) -> None:
        prompts.append(event.prompt)

    agent = Agent(scripted(), capabilities=[HookCapability([note])])
    images = [ImageUrl(url) for url in ("https://example.com/a.png", "data:image/png;base64,iVBO")]
    asyncio.run(agent.run(["What is this?", BinaryContent(b"\x89PNG", media_type="image/png"), *images]))

    shown = ["[binary: image/png]", "[image-url: https://example.com/a.png]", "[image-url: data:image/png;base64]"]
    assert prompts == ["\n".join(["What is this?", *shown])]


def test_an_output_that_no_model_can_be_told() -> None:
    """It is told as text: a hook's mistake does not break the run."""

    class Odd:
        def __str__(self) -> str:
            return "something odd"

    @on("PostToolUse")
    def replace_it(event: Any) -> Any:
        return rewrite(output={"found": Odd()})

    tools = Tools()
    agent = pydantic_agent(bash("ls"), [], tools, capabilities=[HookCapability([replace_it])])

    assert results(asyncio.run(agent.run("go")).all_messages()) == [{"found": "something odd"}]
