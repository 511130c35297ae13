"""Each framework's agent, driven by its own scripted model: the same steps in, the same record out."""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from billhook import Engine, Hook

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # there is no server for it

Call = tuple[str, dict[str, Any]]
Step = Sequence[Call] | str
"""The model's output in one turn: tool calls, or text."""


class KnownValue(msgspec.Struct, kw_only=True):
    """What came of a run."""

    ran: list[str]
    """The commands that the tool was run with."""
    results: list[tuple[Any, bool]] = []
    """What the model got for its calls, and whether as an error."""
    told: list[str] = []
    """The system message of each model call."""
    reported: str = ""
    error: BaseException | None = None
    events: list[str] = []
    lines: list[str] = []
    """What the person was told."""


class Tools:
    """`bash` returns what it was given; `fail` in its command fails it. `look_up` takes and gives a structure."""

    def __init__(self, read: Callable[[str], str] = lambda command: f"ran {command}") -> None:
        self.ran: list[str] = []
        self.read = read

    def bash(self, command: str) -> str:
        """Run a command."""
        self.ran.append(command)
        if "fail" in command:
            raise ValueError(f"{command}: no such file")
        return self.read(command)

    def look_up(self, query: dict[str, int]) -> dict[str, Any]:
        """Look something up."""
        self.ran.append(f"look_up {query}")
        return {"found": query, "rows": [1, 2]}


class Watched:
    """An engine that notes the events that it is fired, and lines for the person."""

    def __init__(self, hooks: Iterable[Hook] | Engine) -> None:
        self.events: list[str] = []
        self.lines: list[str] = []
        note = lambda verdict: self.events.append(verdict.event)
        self.engine = hooks if isinstance(hooks, Engine) else Engine(hooks, observers=[note])


Drive = Callable[..., KnownValue]


def bash(*commands: str) -> list[Step]:
    """A script: one call after the other, then the end."""
    return [*([("bash", {"command": command})] for command in commands), "done", "done again"]


def ids() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"call-{number}"


# -- LangChain


def langchain_model(steps: Sequence[Step], told: list[str]) -> Any:
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class ScriptedModel(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, messages: Any, *rest: Any, **options: Any) -> Any:
            told.append(messages[0].text if messages[0].type == "system" else "")
            return super()._generate(messages, *rest, **options)

    number = ids()

    def reported(step: Step) -> AIMessage:
        if isinstance(step, str):
            return AIMessage(step)
        calls: list[Any] = [{"name": name, "args": given, "id": next(number)} for name, given in step]
        return AIMessage("", tool_calls=calls)

    return ScriptedModel(messages=iter([reported(step) for step in steps]))


def langchain_agent(steps: Sequence[Step], told: list[str], tools: Tools, middleware: Any, **options: Any) -> Any:
    from langchain.agents import create_agent
    from langchain.tools import tool

    given = [tool(tools.bash), tool(tools.look_up)]
    model = langchain_model(steps, told)
    return create_agent(model, given, middleware=middleware, system_prompt="be brief", **options)


def _langchain(
    hooks: Any,
    steps: Sequence[Step],
    invoke: Callable[[Any, Any], Any],
    prompt: str,
    tools: Tools | None,
    **options: Any,
) -> KnownValue:
    from langchain_core.messages import HumanMessage, ToolMessage

    from billhook.adapters.langchain import HookMiddleware

    watched, tools, told = Watched(hooks), tools or Tools(), list[str]()
    middleware = HookMiddleware(watched.engine, tell=watched.lines.append, **options)
    seen = KnownValue(ran=tools.ran, told=told, events=watched.events, lines=watched.lines)
    agent = langchain_agent(steps, told, tools, [middleware])
    try:
        state = invoke(agent, {"messages": [HumanMessage(prompt)]})
    except Exception as error:
        seen.error = error
        return seen
    messages = state["messages"]
    seen.results = [(one.content, one.status == "error") for one in messages if isinstance(one, ToolMessage)]
    seen.reported = messages[-1].text
    assert not middleware._runs  # nothing is kept of a run that is over
    return seen


def langchain(
    hooks: Any, steps: Sequence[Step], *, prompt: str = "hello", tools: Tools | None = None, **options: Any
) -> KnownValue:
    """`agent.invoke`."""
    return _langchain(hooks, steps, lambda agent, given: agent.invoke(given), prompt, tools, **options)


def langchain_async(
    hooks: Any, steps: Sequence[Step], *, prompt: str = "hello", tools: Tools | None = None, **options: Any
) -> KnownValue:
    """`agent.ainvoke`."""
    return _langchain(hooks, steps, lambda agent, given: asyncio.run(agent.ainvoke(given)), prompt, tools, **options)


# -- OpenAI Agents SDK


def openai_agent(steps: Sequence[Step], tools: Tools, **options: Any) -> tuple[Any, Any]:
    from agents import Agent, Tool, function_tool
    from agents.testing import ScriptedModel, assistant_message, function_call

    number = ids()
    model = ScriptedModel(
        [
            [assistant_message(step)]
            if isinstance(step, str)
            else [function_call(name, given, call_id=next(number)) for name, given in step]
            for step in steps
        ]
    )
    given: list[Tool] = [function_tool(tools.bash), function_tool(tools.look_up, strict_mode=False)]
    return Agent(name="scripted", model=model, tools=given, instructions="be brief", **options), model


def _openai(
    hooks: Any,
    steps: Sequence[Step],
    run: Callable[[Any, Any, str], Any],
    prompt: str,
    tools: Tools | None,
    **options: Any,
) -> KnownValue:
    from billhook.adapters.openai_agents import Hooked

    watched, tools = Watched(hooks), tools or Tools()
    hooked = Hooked(watched.engine, tell=watched.lines.append, **options)
    agent, model = openai_agent(steps, tools)
    seen = KnownValue(ran=tools.ran, events=watched.events, lines=watched.lines)
    try:
        seen.reported = str(run(hooked, agent, prompt))
    except Exception as error:
        seen.error = error
    seen.told = [call.system_instructions for call in model.calls]
    asked = model.calls[-1].input if model.calls else []
    items = asked if isinstance(asked, list) else []
    seen.results = [(one["output"], False) for one in items if one.get("type") == "function_call_output"]
    return seen


def openai_agents(
    hooks: Any, steps: Sequence[Step], *, prompt: str = "hello", tools: Tools | None = None, **options: Any
) -> KnownValue:
    """`Hooked.run`."""
    run = lambda hooked, agent, prompt: hooked.run_sync(agent, prompt).final_output
    return _openai(hooks, steps, run, prompt, tools, **options)


def openai_runner(
    hooks: Any, steps: Sequence[Step], *, prompt: str = "hello", tools: Tools | None = None, **options: Any
) -> KnownValue:
    """The SDK's own Runner."""

    async def run(hooked: Any, agent: Any, prompt: str) -> Any:
        from agents import Runner

        return (await Runner.run(hooked.agent(agent), prompt, hooks=hooked)).final_output

    return _openai(hooks, steps, lambda *all_of_it: asyncio.run(run(*all_of_it)), prompt, tools, **options)


def openai_streamed(
    hooks: Any, steps: Sequence[Step], *, prompt: str = "hello", tools: Tools | None = None, **options: Any
) -> KnownValue:
    """The SDK's own Runner, with an answer that is streamed."""

    async def run(hooked: Any, agent: Any, prompt: str) -> Any:
        from agents import Runner

        result = Runner.run_streamed(hooked.agent(agent), prompt, hooks=hooked)
        async for _ in result.stream_events():
            pass
        return result.final_output

    return _openai(hooks, steps, lambda *all_of_it: asyncio.run(run(*all_of_it)), prompt, tools, **options)


# -- Pydantic AI


def pydantic_agent(steps: Sequence[Step], told: list[str], tools: Tools, **options: Any) -> Any:
    import json

    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    number = ids()

    def step(messages: Any, info: Any) -> Step:
        told.append(info.instructions or "")
        return steps[sum(1 for message in messages if isinstance(message, ModelResponse))]

    def say(messages: Any, info: Any) -> ModelResponse:
        reported = step(messages, info)
        if isinstance(reported, str):
            return ModelResponse([TextPart(reported)])
        return ModelResponse([ToolCallPart(name, given, tool_call_id=next(number)) for name, given in reported])

    async def stream(messages: Any, info: Any) -> Any:
        reported = step(messages, info)
        if isinstance(reported, str):
            yield reported
        else:
            for at, (name, given) in enumerate(reported):
                yield {at: DeltaToolCall(name, json.dumps(given), tool_call_id=next(number))}

    agent: Any = Agent(FunctionModel(say, stream_function=stream), instructions="be brief", **options)
    agent.tool_plain(tools.bash)
    agent.tool_plain(tools.look_up)
    return agent


def _pydantic(
    hooks: Any, steps: Sequence[Step], run: Callable[[Any, str], Any], prompt: str, tools: Tools | None, **options: Any
) -> KnownValue:
    from pydantic_ai.messages import RetryPromptPart, ToolReturnPart

    from billhook.adapters.pydantic_ai import HookCapability

    watched, tools, told = Watched(hooks), tools or Tools(), list[str]()
    seen = KnownValue(ran=tools.ran, told=told, events=watched.events, lines=watched.lines)
    capability = HookCapability(watched.engine, tell=watched.lines.append, **options)
    agent = pydantic_agent(steps, told, tools, capabilities=[capability])
    try:
        reported, messages = run(agent, prompt)
    except Exception as error:
        seen.error = error
        return seen
    parts = [part for message in messages for part in message.parts]
    seen.results = [
        (part.content, getattr(part, "outcome", "retry") != "success")
        for part in parts
        if isinstance(part, ToolReturnPart | RetryPromptPart)
    ]
    seen.reported = reported
    return seen


def pydantic_ai(
    hooks: Any, steps: Sequence[Step], *, prompt: str = "hello", tools: Tools | None = None, **options: Any
) -> KnownValue:
    """`agent.run`."""

    async def run(agent: Any, prompt: str) -> Any:
        result = await agent.run(prompt)
        return result.output, result.all_messages()

    return _pydantic(hooks, steps, lambda *both: asyncio.run(run(*both)), prompt, tools, **options)


def pydantic_streamed(
    hooks: Any, steps: Sequence[Step], *, prompt: str = "hello", tools: Tools | None = None, **options: Any
) -> KnownValue:
    """`agent.run_stream`."""

    async def run(agent: Any, prompt: str) -> Any:
        async with agent.run_stream(prompt) as result:
            return await result.get_output(), result.all_messages()

    return _pydantic(hooks, steps, lambda *both: asyncio.run(run(*both)), prompt, tools, **options)


DRIVES: Mapping[str, Drive] = {
    "langchain": langchain,
    "langchain async": langchain_async,
    "openai_agents": openai_agents,
    "openai_agents, Runner": openai_runner,
    "openai_agents, streamed": openai_streamed,
    "pydantic_ai": pydantic_ai,
    "pydantic_ai, streamed": pydantic_streamed,
}
"""Every way to run an agent, by the adapter and how."""
