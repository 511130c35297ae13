"""What only LangChain has: threads, interrupts, commands, other middleware, tools in threads."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware, ToolRetryMiddleware
from langchain.tools import InjectedToolCallId, tool
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, interrupt

from adapters.driving import Tools, Watched, bash, langchain_agent, langchain_model
from billhook import Engine, adapters, ask, deny, inject, on, rewrite, stop
from billhook.adapters.langchain import HookMiddleware

Invoke = Callable[[Any, Any, Any], dict[str, Any]]


def _sync(agent: Any, given: Any, config: Any = None) -> dict[str, Any]:
    state: dict[str, Any] = agent.invoke(given, config)
    return state


def _async(agent: Any, given: Any, config: Any = None) -> dict[str, Any]:
    state: dict[str, Any] = asyncio.run(agent.ainvoke(given, config))
    return state


@pytest.fixture(params=[_sync, _async], ids=["sync", "async"])
def invoke(request: pytest.FixtureRequest) -> Invoke:
    return request.param  # type: ignore[no-any-return]


def reported(*texts: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text) for text in texts]}


@on("PreToolUse")
def careful(event: Any) -> Any:
    return ask("is this fine")


@pytest.mark.parametrize(("answer", "ran"), [(True, ["ls"]), (False, []), ("yes", ["ls"]), ({"ok": True}, [])])
def test_an_ask_is_an_interrupt(invoke: Invoke, answer: Any, ran: list[str]) -> None:
    """With `approval` the graph waits for the person, and goes on with their answer; anything but a yes is a no."""
    tools, watched = Tools(), Watched([careful])
    middleware = HookMiddleware(watched.engine, approval=True)
    agent = langchain_agent(bash("ls"), [], tools, [middleware], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "thread-1"}}

    waiting = invoke(agent, reported("go"), thread)
    asked = waiting["__interrupt__"][0].value
    assert (tools.ran, asked["tool_input"], asked["reason"]) == ([], {"command": "ls"}, "is this fine")

    state = invoke(agent, Command(resume=answer), thread)
    assert tools.ran == ran
    assert state["messages"][-1].text == "done"
    assert watched.events[-1] == "SessionEnd"


def test_an_interrupt_survives_its_process(invoke: Invoke) -> None:
    """A middleware that has never seen the run judges its calls all the same."""
    tools, kept = Tools(), InMemorySaver()
    thread = {"configurable": {"thread_id": "thread-1"}}
    first = langchain_agent(bash("ls"), [], tools, [HookMiddleware([careful], approval=True)], checkpointer=kept)
    invoke(first, reported("go"), thread)

    @on("PreToolUse")
    def strict(event: Any) -> Any:
        return deny(f"not in {event.session_id}")

    second = langchain_agent(["done"], [], tools, [HookMiddleware([strict])], checkpointer=kept)
    state = invoke(second, Command(resume=True), thread)

    assert tools.ran == []
    assert state["messages"][-2].text == "not in thread-1"


def test_a_thread_is_a_session(invoke: Invoke) -> None:
    """Each invoke of a thread is a life of the same session, which the later ones resume."""
    lives = []

    @on("SessionStart")
    def watch(event: Any) -> None:
        lives.append((event.session_id, event.source))

    agent = langchain_agent(bash(), [], Tools(), [HookMiddleware([watch])], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "thread-7"}}
    invoke(agent, reported("one"), thread)
    invoke(agent, reported("two"), thread)

    assert lives == [("thread-7", "startup"), ("thread-7", "resume")]


def test_a_refused_prompt_is_forgotten(invoke: Invoke) -> None:
    """No later run of the thread shows it to the model."""

    @on("UserPromptSubmit")
    def no_keys(event: Any) -> Any:
        return deny("no keys") if "key" in event.prompt else None

    shown: list[Any] = []

    class Watch(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            shown.extend(message.text for message in state["messages"])

    agent = langchain_agent(bash(), [], Tools(), [Watch(), HookMiddleware([no_keys])], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "thread-7"}}
    refused = invoke(agent, reported("my key", "is 123"), thread)
    invoke(agent, reported("hello"), thread)

    assert [message.text for message in refused["messages"]] == ["no keys"]
    assert shown == ["no keys", "hello"]


def test_a_prompt_without_words(invoke: Invoke) -> None:
    """A picture is a prompt, too: hooks for prompts run."""

    @on("UserPromptSubmit")
    def never(event: Any) -> Any:
        return deny("no pictures")

    told: list[str] = []
    picture = HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}])
    agent = langchain_agent(bash(), told, Tools(), [HookMiddleware([never])])

    assert invoke(agent, {"messages": [picture]}, None)["messages"][-1].text == "no pictures"
    assert told == []


def test_what_other_middleware_makes_of_a_call_is_judged(invoke: Invoke) -> None:
    """As the last one it sees what the others have rewritten."""

    class Rewrite(AgentMiddleware[Any, Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tool_call={**request.tool_call, "args": {"command": "rm -r /"}}))

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(request.override(tool_call={**request.tool_call, "args": {"command": "rm -r /"}}))

    @on("PreToolUse")
    def guard(event: Any) -> Any:
        return deny("no") if "rm" in event.tool_input["command"] else None

    tools = Tools()
    state = invoke(langchain_agent(bash("ls"), [], tools, [Rewrite(), HookMiddleware([guard])]), reported("go"), None)

    assert tools.ran == []
    assert state["messages"][-2].text == "no"


def test_each_attempt_of_a_retry_is_judged(invoke: Invoke) -> None:
    """Another middleware's retry is a new call for hooks, with a new id."""
    uses = []

    @on("PreToolUse")
    def watch(event: Any) -> None:
        uses.append(event.tool_use_id)

    again = ToolRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)
    tools = Tools()
    invoke(langchain_agent(bash("fail"), [], tools, [again, HookMiddleware([watch])]), reported("go"), None)

    assert uses == ["call-1", "call-1-2", "call-1-3"]
    assert tools.ran == ["fail"] * 3


def test_a_tool_that_gives_a_command(invoke: Invoke) -> None:
    """Hooks see the message in it and may rewrite it; the rest of the command stays."""

    @tool
    def note(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Note something."""
        message = ToolMessage(f"noted the secret {text}", tool_call_id=tool_call_id)
        return Command(update={"messages": [message, HumanMessage("and another thing")]})

    shown = []

    @on("PostToolUse")
    def redact(event: Any) -> Any:
        shown.append(event.tool_response)
        return rewrite(output="[redacted]")

    model = langchain_model([[("note", {"text": "x"})], "done"], [])
    state = invoke(create_agent(model, [note], middleware=[HookMiddleware([redact])]), reported("go"), None)

    assert shown == ["noted the secret x"]
    assert [one.text for one in state["messages"]] == ["go", "", "[redacted]", "and another thing", "done"]


def test_a_command_without_a_message() -> None:
    """Hooks see its update. One whose output is rewritten does nothing to the state."""

    @on("PostToolUse")
    def redact(event: Any) -> Any:
        return rewrite(output=f"[{event.tool_response}]")

    call: Any = {"name": "remember", "args": {"text": "x"}, "id": "1", "type": "tool_call"}
    request = ToolCallRequest(call, None, {}, None)  # type: ignore[arg-type]
    made = HookMiddleware([redact]).wrap_tool_call(request, lambda request: Command(update={"secret": "x"}))

    assert (type(made), made.content) == (ToolMessage, "[{'secret': 'x'}]")


def test_blocks_of_content_stay_blocks(invoke: Invoke) -> None:
    """Structured content that hooks leave alone is the tool's own, and hooks may write such."""
    blocks: list[Any] = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]

    @tool(response_format="content_and_artifact")
    def draw(what: str) -> Any:
        """Draw something."""
        return blocks, {"pixels": 3}

    @on("PostToolUse")
    def one_only(event: Any) -> Any:
        return rewrite(output=event.tool_response[:1]) if event.tool_input["what"] == "less" else None

    for what, content in (("all", blocks), ("less", blocks[:1])):
        model = langchain_model([[("draw", {"what": what})], "done"], [])
        state = invoke(create_agent(model, [draw], middleware=[HookMiddleware([one_only])]), reported("go"), None)
        drawn = state["messages"][-2]
        assert (drawn.content, drawn.artifact) == (content, {"pixels": 3})


def test_a_tool_that_asks_the_person_itself(invoke: Invoke) -> None:
    """Its interrupt is no failure, and the call that goes on is judged again."""

    @tool
    def choose(what: str) -> str:
        """Let the person choose."""
        return f"chose {interrupt(what)}"

    watched = Watched([])
    model = langchain_model([[("choose", {"what": "a colour"})], "done"], [])
    agent = create_agent(model, [choose], middleware=[HookMiddleware(watched.engine)], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}

    assert invoke(agent, reported("go"), thread)["__interrupt__"][0].value == "a colour"
    state = invoke(agent, Command(resume="red"), thread)

    assert state["messages"][-2].text == "chose red"
    assert "PostToolUseFailure" not in watched.events
    assert watched.events.count("PreToolUse") == 2 and watched.events.count("PostToolUse") == 1


def test_many_runs_at_once() -> None:
    """One middleware serves them all, and nothing gets from one to another."""

    @on("UserPromptSubmit")
    def note(event: Any) -> Any:
        return inject(f"this is {event.prompt}")

    @on("PreToolUse")
    async def guard(event: Any) -> Any:
        await asyncio.sleep(0.01)
        return deny("not you") if event.tool_input["command"] == "3" else None

    middleware = HookMiddleware([note, guard])
    told: dict[int, list[str]] = {}

    async def one(number: int, tools: Tools) -> str:
        told[number] = []
        agent = langchain_agent(bash(str(number)), told[number], tools, [middleware])
        state = await agent.ainvoke(reported(f"run {number}"))
        return str(state["messages"][-2].text)

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(one(number, Tools()) for number in range(8)))

    assert asyncio.run(all_of_them()) == [f"ran {n}" if n != 3 else "not you" for n in range(8)]
    assert [told[n][0] for n in range(8)] == [f"be brief\n\nthis is run {n}" for n in range(8)]
    assert not middleware._runs


def test_runs_in_threads() -> None:
    """`batch` runs an agent in many threads at once."""

    @on("PreToolUse")
    def guard(event: Any) -> Any:
        return deny(f"not {event.tool_input['command']}") if event.tool_input["command"] != "call 3" else None

    class Echo(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, messages: Any, *rest: Any, **options: Any) -> ChatResult:
            asked, last = messages[0].text, messages[-1]
            call: Any = {"name": "bash", "args": {"command": asked}, "id": asked}
            reported = AIMessage(last.text) if last.type == "tool" else AIMessage("", tool_calls=[call])
            return ChatResult(generations=[ChatGeneration(message=reported)])

    tools = Tools()
    middleware = HookMiddleware([guard])
    agent: Any = create_agent(Echo(messages=iter([])), [tool(tools.bash)], middleware=[middleware])
    states = agent.batch([reported(f"call {number}") for number in range(8)])

    answers = [state["messages"][-1].text for state in states]
    assert answers == [f"not call {n}" if n != 3 else "ran call 3" for n in range(8)]
    assert tools.ran == ["call 3"] and not middleware._runs


@pytest.mark.parametrize("mode", ["updates", "values"])
def test_streams(mode: Any) -> None:
    """A run that is streamed is judged like any other."""
    tools, watched = Tools(), Watched([_no_rm])
    pieces = list(
        langchain_agent(bash("rm x", "ls"), [], tools, [HookMiddleware(watched.engine)]).stream(
            reported("go"), stream_mode=mode
        )
    )

    assert pieces and tools.ran == ["ls"]
    assert watched.events[-2:] == ["Stop", "SessionEnd"]


@on("PreToolUse")
def _no_rm(event: Any) -> Any:
    return deny("no") if "rm" in event.tool_input["command"] else None


def test_an_agent_inside_a_tool(invoke: Invoke) -> None:
    """With the same middleware, it has a session of its own."""
    tools, middleware = Tools(), HookMiddleware([_no_rm])
    inner = langchain_agent(bash("rm x", "ls"), [], tools, [middleware])

    @tool
    def delegate(task: str) -> str:
        """Delegate it."""
        return str(inner.invoke(reported(task))["messages"][-1].text)

    model = langchain_model([[("delegate", {"task": "tidy up"})], "all done"], [])

    @on("PreToolUse", match="delegate")
    def watch(event: Any) -> None: ...

    outer = HookMiddleware([watch])
    state = invoke(create_agent(model, [delegate], middleware=[outer]), reported("go"), None)

    assert (state["messages"][-2].text, state["messages"][-1].text) == ("done", "all done")
    assert tools.ran == ["ls"] and not middleware._runs and not outer._runs


def test_a_sync_agent_inside_a_running_loop() -> None:
    """A notebook, a web server: `invoke` works there, too."""
    tools = Tools()

    @on("PreToolUse", match="Bash")
    async def guard(event: Any) -> Any:
        await asyncio.sleep(0)
        return deny("no") if "rm" in event.tool_input["command"] else None

    async def program() -> Any:
        return langchain_agent(bash("rm", "ls"), [], tools, [HookMiddleware([guard])]).invoke(reported("go"))

    asyncio.run(program())

    assert tools.ran == ["ls"]


def test_a_model_that_fails(invoke: Invoke) -> None:
    """StopFailure is fired, the error is raised, and context that the model has not read is not lost."""

    @on("UserPromptSubmit")
    def note(event: Any) -> Any:
        return inject("read this")

    watched, told = Watched([note]), list[str]()
    model = langchain_model(["never reached", "done"], told)

    class Fails(AgentMiddleware[Any, Any, Any]):
        """Innermost: the first call of the model fails."""

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return _failing(handler(request), told)

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return _failing(await handler(request), told)

    again = ModelRetryMiddleware(max_retries=1, initial_delay=0.0, jitter=False)
    middleware: list[Any] = [again, HookMiddleware(watched.engine), Fails()]
    agent = create_agent(model, middleware=middleware)
    state = invoke(agent, reported("go"), None)

    assert told == ["read this", "read this"]
    assert state["messages"][-1].text == "done"
    assert watched.events == ["SessionStart", "UserPromptSubmit", "StopFailure", "Stop", "SessionEnd"]


def _failing(response: Any, calls: list[str]) -> Any:
    if len(calls) == 1:
        raise ConnectionError("the service is down")
    return response


def test_runs_that_raised_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """LangChain does not report the end of a run that raised; the oldest runs are removed, and are new ones later."""
    monkeypatch.setattr(adapters, "_MOST_ENTRIES", 2)
    middleware = HookMiddleware([])
    for _ in range(4):
        with pytest.raises(ValueError, match="no such file"):
            langchain_agent(bash("fail"), [], Tools(), [middleware]).invoke(reported("go"))

    assert len(middleware._runs) == 2


def test_a_tool_node_alone() -> None:
    """Without an agent around it, each call is judged on its own: a stop ends no other."""

    @on("PreToolUse")
    def once(event: Any) -> Any:
        return stop("enough") if event.tool_input["command"] == "bad" else inject("mind the gap")

    tools, lines = Tools(), list[str]()
    middleware = HookMiddleware(Engine([once]), tell=lines.append)
    node = ToolNode([tool(tools.bash)], wrap_tool_call=middleware.wrap_tool_call)
    graph = StateGraph(MessagesState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    app = graph.compile()

    for command in ("bad", "ls"):
        call: Any = {"name": "bash", "args": {"command": command}, "id": command}
        app.invoke({"messages": [AIMessage("", tool_calls=[call])]})

    assert tools.ran == ["ls"]
    assert len(lines) == 2 and "enough" in lines[0] and "mind the gap" in lines[1]  # reported instead
