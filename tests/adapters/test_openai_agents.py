"""What only the OpenAI Agents SDK has: handoffs, MCP servers, hosted tools, agents as tools, approvals."""

import asyncio
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    ModelBehaviorError,
    Runner,
    SQLiteSession,
    Tool,
    WebSearchTool,
    function_tool,
    handoff,
)
from agents.mcp import MCPServer
from agents.testing import ScriptedModel, assistant_message, function_call

from adapters.driving import Tools, Watched, bash, openai_agent
from billhook import Engine, deny, inject, keep_going, on, rewrite, stop
from billhook.adapters import StoppedError
from billhook.adapters.openai_agents import Hooked
from billhook.core.errors import UsageError


@on("PreToolUse")
def guard(event: Any) -> Any:
    return deny("nothing is removed here") if "rm" in str(event.tool_input) else None


def outputs(model: Any) -> list[Any]:
    """What the model got for its calls."""
    items = model.calls[-1].input
    return [one["output"] for one in items if isinstance(one, dict) and one.get("type") == "function_call_output"]


@pytest.mark.parametrize("how", ["agent", "handoff"])
def test_agents_that_it_hands_over_to(how: str) -> None:
    """Their tools are judged, too; agents that hand over to each other are no endless work."""
    tools = Tools()
    second, model = openai_agent(bash("rm x"), tools)
    first = Agent(name="first", model=ScriptedModel([[function_call("transfer_to_scripted", {}, call_id="1")]]))
    first.handoffs = [second if how == "agent" else handoff(second)]
    second.handoffs = [first] if how == "agent" else []

    result = Hooked([guard]).run_sync(first, "go")

    assert (result.final_output, tools.ran) == ("done", [])
    assert outputs(model)[-1] == "nothing is removed here"


class Server(MCPServer):
    """An MCP server in this process, with one tool."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[Any] = []

    @property
    def name(self) -> str:
        return "files"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> Any:
        from mcp.types import Tool as Listed

        return [Listed.model_validate({"name": "remove", "inputSchema": {"type": "object", "properties": {}}})]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None, **more: Any) -> Any:
        from mcp.types import CallToolResult

        self.called.append(arguments)
        return CallToolResult.model_validate({"content": [{"type": "text", "text": "removed"}]})

    async def list_prompts(self) -> Any:
        raise NotImplementedError

    async def get_prompt(self, name: str, arguments: Any = None) -> Any:
        raise NotImplementedError


def test_tools_of_mcp_servers() -> None:
    """They come while the agent runs, and are judged like all others."""
    server = Server()
    script = [[function_call("remove", {"path": path}, call_id=path)] for path in ("rm", "tmp")]
    model = ScriptedModel([*script, [assistant_message("done")]])
    agent: Any = Agent(name="a", model=model, mcp_servers=[server])

    Hooked([guard]).run_sync(agent, "go")

    assert server.called == [{"path": "tmp"}]
    assert outputs(model)[0] == "nothing is removed here"


def test_tools_that_hooks_can_not_see() -> None:
    """A hosted tool runs at the service: it is refused, unless it is named."""
    agent: Any = Agent(name="a", tools=[WebSearchTool()])

    with pytest.raises(UsageError, match="no hook would see the calls of `web_search`"):
        Hooked([]).agent(agent)
    assert Hooked([], unjudged=["web_search"]).agent(agent).tools == agent.tools


def test_a_tool_that_is_added_later() -> None:
    """What an agent gets after it was wrapped is judged when it is used."""
    tools = Tools()
    agent, model = openai_agent(bash("rm x"), tools)
    late: Tool = agent.tools.pop(0)
    hooked = Hooked([guard])
    judged = hooked.agent(agent)
    judged.tools.append(late)

    asyncio.run(Runner.run(judged, "go"))

    assert (tools.ran, outputs(model)) == ([], ["nothing is removed here"])


def test_an_agent_as_a_tool() -> None:
    """Its own tools must be judged, too: an agent that is not is refused."""
    tools = Tools()
    inner, model = openai_agent(bash("rm x"), tools)
    hooked = Hooked([guard])

    def outer(tool: FunctionTool) -> Agent[Any]:
        script = [[function_call("helper", {"input": "do it"}, call_id="1")], [assistant_message("all done")]]
        return Agent(name="outer", model=ScriptedModel(script), tools=[tool])

    with pytest.raises(UsageError, match="the tools of the agent behind `helper`"):
        hooked.agent(outer(inner.as_tool("helper", "helps")))
    result = hooked.run_sync(outer(hooked.agent(inner).as_tool("helper", "helps")), "go")

    assert (result.final_output, tools.ran, outputs(model)) == ("all done", [], ["nothing is removed here"])


def test_an_agent_is_judged_once() -> None:
    """Wrapping what is wrapped changes nothing: each call is one event."""
    tools, watched = Tools(), Watched([])
    agent, _ = openai_agent(bash("ls"), tools)
    hooked = Hooked(watched.engine)
    agent.tools = [hooked.tool(one) for one in agent.tools]

    hooked.run_sync(hooked.agent(hooked.agent(agent)), "go")

    assert watched.events.count("PreToolUse") == 1
    assert [one.name for one in agent.tools] == ["bash", "look_up"]


def test_two_sets_of_hooks() -> None:
    """A tool with another wrapper gets our hooks, too."""

    @on("PreToolUse")
    def never(event: Any) -> Any:
        return deny("never")

    tools = Tools()
    agent, model = openai_agent(bash("ls"), tools)
    agent.tools = [Hooked([]).tool(one) for one in agent.tools]
    Hooked([never]).run_sync(Hooked([guard]).agent(agent), "go")

    assert (tools.ran, outputs(model)) == ([], ["never"])


def test_one_tool_alone() -> None:
    """A judged tool in an agent that is not: block, rewrite in and out."""

    @on("PreToolUse")
    def before(event: Any) -> Any:
        return rewrite(input={"command": "ls -l"})

    @on("PostToolUse")
    def after(event: Any) -> Any:
        return rewrite(output=f"<{event.tool_response}>")

    tools = Tools()
    agent, model = openai_agent(bash("ls"), tools)
    agent.tools = [Hooked([before, after]).tool(one) for one in agent.tools]

    asyncio.run(Runner.run(agent, "go"))

    assert (tools.ran, outputs(model)) == (["ls -l"], ["<ran ls -l>"])


@pytest.mark.parametrize("arguments", ["", "[1]", "rm -r /", "null", '{"a": 1, "a": 2}'])
def test_an_input_that_is_no_object(arguments: str) -> None:
    """What hooks can't read, or could read in two ways, does not run; nothing at all is an empty input."""
    given = []

    async def anything(context: Any, raw: str) -> str:
        given.append(raw)
        return "ran"

    tool = FunctionTool(
        "raw", "takes anything", {"type": "object", "properties": {}}, anything, strict_json_schema=False
    )
    call: Any = function_call("raw", {}, call_id="1")
    call.arguments = arguments
    model = ScriptedModel([[call], [assistant_message("done")]])

    Hooked([]).run_sync(Agent(name="a", model=model, tools=[tool]), "go")

    assert given == ([""] if arguments == "" else [])
    assert ("no hook can check it" in outputs(model)[0]) is (arguments != "")


def test_a_tool_that_raises_is_treated_as_ever() -> None:
    """The words that its own error function makes reach the model, and hooks have heard of the error itself."""
    heard = []

    @on("PostToolUseFailure")
    def watch(event: Any) -> None:
        heard.append(event.error)

    @function_tool(failure_error_function=lambda context, error: f"in my words: {error}")
    def bash_tool(command: str) -> str:
        raise ValueError("broken")

    model = ScriptedModel([[function_call("bash_tool", {"command": "x"}, call_id="1")], [assistant_message("done")]])
    Hooked([watch]).run_sync(Agent(name="a", model=model, tools=[bash_tool]), "go")

    assert (heard, outputs(model)) == (["broken"], ["in my words: broken"])


def test_an_input_that_the_tool_does_not_take() -> None:
    """A rewrite to something else is a failure of the tool, and nothing runs."""

    @on("PreToolUse")
    def wrong(event: Any) -> Any:
        return rewrite(input={"something": "else"})

    tools = Tools()
    agent, model = openai_agent(bash("ls"), tools)
    Hooked([wrong]).run_sync(agent, "go")

    assert (tools.ran, outputs(model)) == ([], ["An error occurred while running the tool. Please try again."])


def test_an_approval_of_the_sdk() -> None:
    """A run that waits for the person is no end; when it goes on, its calls are judged."""
    ran, watched = [], Watched([guard])

    @function_tool(needs_approval=True)
    def remove(path: str) -> str:
        ran.append(path)
        return f"removed {path}"

    calls = [function_call("remove", {"path": path}, call_id=path) for path in ("rm", "tmp")]
    model = ScriptedModel([calls, [assistant_message("done")]])
    hooked = Hooked(watched.engine)
    agent = hooked.agent(Agent(name="a", model=model, tools=[remove]))

    async def program() -> Any:
        waiting = await hooked.run(agent, "go")
        assert len(waiting.interruptions) == 2 and "Stop" not in watched.events
        state = waiting.to_state()
        for one in waiting.interruptions:
            state.approve(one)
        return await hooked.run(agent, state)

    assert asyncio.run(program()).final_output == "done"
    assert (ran, outputs(model)) == (["tmp"], ["nothing is removed here", "removed tmp"])


@pytest.mark.parametrize("kept", [False, True])
def test_kept_going_in_a_conversation(kept: bool) -> None:
    """The model sees the whole conversation once, for every kind of storage."""

    @on("Stop")
    def once_more(event: Any) -> Any:
        return None if event.stop_hook_active else keep_going("now the tests")

    agent, model = openai_agent(bash("ls"), Tools())
    options = {"session": SQLiteSession("1")} if kept else {}

    result = Hooked([once_more]).run_sync(agent, "go", **options)

    assert result.final_output == "done again"
    reported = [one.get("content") for one in model.calls[-1].input if one.get("role") == "user"]
    assert reported == ["go", "now the tests"]
    assert len([one for one in model.calls[-1].input if one.get("type") == "function_call"]) == 1


def test_a_model_that_fails() -> None:
    """StopFailure and SessionEnd are fired, and the error is the SDK's own."""
    watched = Watched([])
    agent, _ = openai_agent([[("no_such_tool", {})]], Tools())

    with pytest.raises(ModelBehaviorError):
        Hooked(watched.engine).run_sync(agent, "go")

    assert watched.events == ["SessionStart", "UserPromptSubmit", "StopFailure", "SessionEnd"]


@pytest.mark.parametrize("with_runner", [False, True])
def test_many_runs_at_once(with_runner: bool) -> None:
    """One Hooked serves them all, and nothing gets from one to another."""

    @on("UserPromptSubmit")
    def note(event: Any) -> Any:
        return inject(f"this is {event.prompt}")

    sessions = set()

    @on("PreToolUse")
    async def judge(event: Any) -> Any:
        sessions.add(event.session_id)
        await asyncio.sleep(0.01)
        return deny("not you") if event.tool_input["command"] == "3" else None

    hooked = Hooked(Engine([note, judge]))

    async def one(number: int) -> tuple[Any, Any]:
        agent, model = openai_agent(bash(str(number)), Tools())
        if with_runner:
            await Runner.run(hooked.agent(agent), f"run {number}", hooks=hooked)
        else:
            await hooked.run(agent, f"run {number}")
        return outputs(model), model.calls[0].system_instructions

    async def all_of_them() -> Any:
        return await asyncio.gather(*(one(number) for number in range(8)))

    results = asyncio.run(all_of_them())
    assert results == [([f"ran {n}" if n != 3 else "not you"], f"be brief\n\nthis is run {n}") for n in range(8)]
    assert len(sessions) == 8 and not hooked._runs


def test_a_conversation_that_goes_on() -> None:
    """An input with earlier items resumes, and only the user's last message is the prompt."""
    seen = []

    @on("SessionStart", "UserPromptSubmit")
    def watch(event: Any) -> None:
        seen.append(getattr(event, "source", None) or event.prompt)

    agent, _ = openai_agent(["done"], Tools())
    reported: Any = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": [{"type": "input_text", "text": "one more"}]},
        {"role": "user", "content": "thing"},
    ]
    Hooked([watch]).run_sync(agent, reported)

    assert seen == ["resume", "one more\n\nthing"]


@pytest.mark.parametrize("how", ["run", "Runner", "streamed"])
def test_a_stop_inside_an_agent_that_is_a_tool(how: str) -> None:
    """It ends the whole run: the SDK turns the error into text, but the calling agent does not continue."""

    @on("PreToolUse", match="Bash")
    def enough(event: Any) -> Any:
        return stop("enough")

    tools, watched = Tools(), Watched([enough])
    hooked = Hooked(watched.engine)
    inner, _ = openai_agent(bash("ls"), tools)
    call = (
        [function_call("helper", {"input": "go"}, call_id="a")],
        [function_call("bash", {"command": "b"}, call_id="b")],
    )
    outer = Agent(name="outer", model=ScriptedModel([*call, [assistant_message("done")]]))
    outer.tools = [hooked.agent(inner).as_tool("helper", "helps"), function_tool(tools.bash)]

    async def run() -> Any:
        if how == "run":
            return await hooked.run(outer, "go")
        if how == "Runner":
            return await Runner.run(hooked.agent(outer), "go", hooks=hooked)
        result = Runner.run_streamed(hooked.agent(outer), "go", hooks=hooked)
        return [event async for event in result.stream_events()]

    with pytest.raises(StoppedError, match="enough"):
        asyncio.run(run())
    assert tools.ran == []
    assert (watched.events.count("SessionStart"), watched.events.count("SessionEnd")) == (1, 1)
    assert watched.events[-2:] == ["PostToolUseFailure", "SessionEnd"]


def test_a_conversation_that_the_sdk_keeps() -> None:
    """Its id is the session's, and the second run of it resumes it."""
    started: list[tuple[str, str]] = []

    @on("SessionStart")
    def note(event: Any) -> None:
        started.append((event.session_id, event.source))

    hooked, kept = Hooked([note]), SQLiteSession("conversation-1")
    for _ in range(2):
        agent, _ = openai_agent(["done"], Tools())
        hooked.run_sync(agent, "go", session=kept)

    assert started == [("conversation-1", "startup"), ("conversation-1", "resume")]


def test_run_sync_inside_a_loop() -> None:
    """The error has a hint, and no coroutine is left without an await."""
    agent, _ = openai_agent(["done"], Tools())

    async def program() -> None:
        Hooked([]).run_sync(agent, "go")

    with pytest.raises(UsageError, match="running event loop"):
        asyncio.run(program())
