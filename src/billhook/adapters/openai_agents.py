"""OpenAI Agents SDK: `hooked = Hooked()`, then `await hooked.run(agent, "...")`.

`hooked.agent(agent)` is a copy with hooks around its tools, including those of MCP servers and of handoff agents;
`hooked.run` runs it in a session. With the SDK's `Runner`, pass the copy and `hooks=hooked`.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from typing import Any, Final

from billhook import adapters as runs
from billhook.core import strictjson
from billhook.core.errors import UsageError
from billhook.session.calls import text_of

try:
    from agents import (
        Agent,
        FunctionTool,
        GuardrailFunctionOutput,
        Handoff,
        InputGuardrail,
        InputGuardrailTripwireTriggered,
        RunContextWrapper,
        RunHooks,
        Runner,
        RunResult,
        Tool,
    )
    from agents.tool_context import ToolContext
except ImportError as missing:
    raise runs.not_installed("openai-agents", missing) from missing

_PROMPT: Final = "billhook"  # the name of the guardrail that fires UserPromptSubmit

_current: ContextVar["tuple[Hooked, runs.AdapterRun] | None"] = ContextVar("billhook_run", default=None)


class Hooked(RunHooks[Any]):
    """The hooks around agents of the SDK. Can serve many agents and runs at once."""

    def __init__(
        self,
        hooks: runs.Hooks = None,
        *,
        unjudged: Collection[str] = (),
        names: Mapping[str, str] | None = None,
        tell: runs.Tell | None = None,
        **session: Any,
    ) -> None:
        """`hooks`: an engine, a list of hooks, or nothing for the configuration. `unjudged`: names of tools that are
        accepted although no hook sees their calls, such as `web_search`. `names`: the names of tools for hooks.
        `session`: options of a Session (`cwd`, `ask`, `permissions` ...)."""
        self.engine, self._options = runs.prepared(hooks, "openai-agents", names, tell, session)
        self.unjudged = frozenset(unjudged)
        self._runs = runs.RunCache[int, tuple[Any, runs.AdapterRun]]()

    # -- agents and tools

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """A copy of an agent with hooks around its tools, its prompt and its context."""
        return self._agent(agent, {})

    def _agent(self, agent: Agent[Any], copies: dict[int, Agent[Any]]) -> Agent[Any]:
        if getattr(type(agent), "billhook", None) is self:
            return agent
        if id(agent) not in copies:
            self._refuse_unjudged(agent.tools)
            guardrail = InputGuardrail(self._submitted, name=_PROMPT, run_in_parallel=False)
            judged = copies[id(agent)] = agent.clone(input_guardrails=[guardrail, *agent.input_guardrails])
            judged.__class__ = _judged_class(type(agent), self)
            judged.handoffs = [self._handoff(one, copies) for one in agent.handoffs]
        return copies[id(agent)]

    def _handoff(self, to: Agent[Any] | Handoff[Any, Any], copies: dict[int, Agent[Any]]) -> Any:
        if isinstance(to, Agent):
            return self._agent(to, copies)
        hand_over = to.on_invoke_handoff

        async def judged(context: RunContextWrapper[Any], arguments: str) -> Any:
            return self.agent(await hand_over(context, arguments))

        return replace(to, on_invoke_handoff=judged)

    def _refuse_unjudged(self, tools: Collection[Tool]) -> None:
        """Raise for a tool that runs at the service, or that can't be wrapped, unless it is in `unjudged`."""
        for tool in tools:
            inner = getattr(tool, "_agent_instance", None)
            if isinstance(inner, Agent) and getattr(type(inner), "billhook", None) is None:
                hint = "make the tool from an agent with hooks: `hooked.agent(inner).as_tool(...)`"
                raise UsageError(f"no hook would see the tools of the agent behind `{tool.name}`", hint=hint)
            if not isinstance(tool, FunctionTool) and tool.name not in self.unjudged:
                hint = f'to accept that: `Hooked(unjudged=["{tool.name}"])`'
                raise UsageError(f"no hook would see the calls of `{tool.name}`", hint=hint)

    def tool(self, tool: FunctionTool) -> FunctionTool:
        """A tool with hooks: they can block a call, and rewrite its input and output."""
        invoke = tool.on_invoke_tool
        inner = getattr(invoke, "_invoke_tool_impl", None)
        if self in getattr(inner or invoke, "billhook", ()):
            return tool
        if inner is None:
            return replace(tool, on_invoke_tool=self._judged(tool, invoke))
        # A tool made from a function has an invoker that turns errors into text. It is outside of ours, so that hooks
        # get the error itself.
        outer = copy(invoke)
        outer._invoke_tool_impl = self._judged(tool, inner)  # type: ignore[attr-defined]
        return replace(tool, on_invoke_tool=outer)

    def _judged(self, tool: FunctionTool, invoke: Callable[..., Any]) -> Callable[..., Any]:
        async def judged(context: ToolContext[Any], arguments: str) -> Any:
            given = _read(arguments)
            if given is None:
                return f"not run: the input of {tool.name} is not a JSON object, so no hook can check it"
            run = await self._run(context)
            attempt = runs.Attempt(lambda final: invoke(context, arguments if final == given else json.dumps(final)))
            result = await runs.attempted(run, tool.name, given, attempt, context.tool_call_id)
            return run.output_of(attempt, result) if attempt.began else result.content

        others = getattr(invoke, "billhook", ())
        judged.__dict__.update(getattr(invoke, "__dict__", {}), billhook=(self, *others))
        return judged

    async def _submitted(self, context: Any, agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        """UserPromptSubmit. A refused prompt trips the guardrail, and the reason is its `output_info`."""
        run = await self._run(context)
        prompt = _prompt(given)
        if run.turn or prompt is None or run.stopped is not None:
            return GuardrailFunctionOutput(None, tripwire_triggered=False)
        verdict = await run.prompt(prompt)
        if verdict.denied:
            await self._close(context)
        return GuardrailFunctionOutput(verdict.reason or "a hook refused the prompt", tripwire_triggered=verdict.denied)

    # -- runs

    async def run(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 (the SDK's name)
        """As `Runner.run`, in a session that always ends with the run. A Stop hook can keep the agent running."""
        judged = self.agent(agent)
        kept_as = options.get("conversation_id") or getattr(options.get("session"), "session_id", "")
        about = {"session_id": str(kept_as), "source": await _source(input, options)}
        async with runs.AdapterRun(self.engine, **about | self._options) as run:
            mark = _current.set((self, run))
            try:
                return await self._until_done(run, judged, input, options)
            finally:
                _current.reset(mark)

    def run_sync(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 (the SDK's name)
        """The same for synchronous programs."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run(agent, input, **options))
        raise UsageError("`run_sync` can't be used inside a running event loop", hint="use `await hooked.run(...)`")

    async def _until_done(
        self, run: runs.AdapterRun, agent: Agent[Any], given: Any, options: dict[str, Any]
    ) -> RunResult:
        while True:
            try:
                result = await Runner.run(agent, given, **options)
            except InputGuardrailTripwireTriggered as tripped:
                outcome = tripped.guardrail_result
                if outcome.guardrail.name != _PROMPT:
                    raise
                raise runs.BlockedError(str(outcome.output.output_info)) from tripped
            except runs.StoppedError:
                raise
            except Exception as error:
                await run.failed("unknown", details=f"{type(error).__name__}: {error}")
                raise
            if result.interruptions:  # it waits for the user
                return result
            ending = await run.stop(text_of(runs.plain(result.final_output)))
            if not ending.keep_going:
                return result
            agent, given = result.last_agent, _go_on(result, ending.reason or "Go on.", options)

    async def _run(self, context: RunContextWrapper[Any]) -> runs.AdapterRun:
        """The session of a run: that of `run`, or one for each run of a Runner, identified by its `usage`."""
        current = _current.get()
        if current is not None and current[0] is self:
            return current[1]
        known = self._runs.get(id(context.usage))
        if known is not None:
            return known[1]
        run = runs.AdapterRun(self.engine, **self._options)
        self._runs[id(context.usage)] = (context.usage, run)
        return await run.__aenter__()

    async def with_context(self, context: RunContextWrapper[Any], instructions: str | None) -> str | None:
        """The instructions for the next model call, with the hooks' context at their end."""
        run = await self._run(context)
        if run.stopped is not None:
            if not run.under_way:  # otherwise this agent is a tool, whose call ends before the session does
                await self._close(context)
            raise runs.StoppedError(run.stopped)
        added = run.take_context()
        return "\n\n".join(filter(None, (instructions, added))) if added else instructions

    # -- for runs of a Runner

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        await self._run(context)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """Stop and SessionEnd, if `run` does not fire them. A hook can't keep a Runner running."""
        known = self._runs.get(id(context.usage))
        if known is not None and not known[1].has_ended:
            ending = await known[1].stop(text_of(runs.plain(output)))
            if ending.keep_going:
                known[1].report(f"a hook asked to continue ({ending.reason}), which only `Hooked.run` supports")
            await self._close(context)

    async def _close(self, context: RunContextWrapper[Any]) -> None:
        known = self._runs.get(id(context.usage))
        if known is None or known[1].has_ended:
            return
        if known[1].stopped is None:  # otherwise it stays: if an agent is a tool, its caller must end, too
            del self._runs[id(context.usage)]
        await known[1].__aexit__(None, None, None)


def _judged_class(kind: type[Agent[Any]], hooked: Hooked) -> type[Agent[Any]]:
    """The class of agents with hooks: the SDK copies agents, and a copy must have hooks, too."""

    async def get_all_tools(self: Any, run_context: RunContextWrapper[Any]) -> list[Tool]:
        tools = await kind.get_all_tools(self, run_context)
        hooked._refuse_unjudged(tools)
        return [hooked.tool(tool) if isinstance(tool, FunctionTool) else tool for tool in tools]

    async def get_system_prompt(self: Any, run_context: RunContextWrapper[Any]) -> str | None:
        return await hooked.with_context(run_context, await kind.get_system_prompt(self, run_context))

    own = {"get_all_tools": get_all_tools, "get_system_prompt": get_system_prompt, "billhook": hooked}
    return type(kind.__name__, (kind,), own)


# -- messages ------------------------------------------------------------------------------------------------------


def _read(arguments: str) -> dict[str, Any] | None:
    """The input for hooks. JSON that another parser could read differently is rejected."""
    given = strictjson.value_in(arguments, max_bytes=None) if arguments.strip() else {}
    return given if isinstance(given, dict) else None


def _prompt(given: Any) -> str | None:
    """The user's messages since the agent's last one; None if a run continues without a new prompt."""
    if isinstance(given, str):
        return given
    said: list[str] = []
    for item in given if isinstance(given, list) else []:
        role = item.get("role") if isinstance(item, Mapping) else None
        if role == "user":
            said.append(_words(item.get("content")))
        elif role not in ("system", "developer"):
            said.clear()
    return "\n\n".join(said) if said else None


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and "text" in part)


async def _source(given: Any, options: Mapping[str, Any]) -> str:
    session = options.get("session")
    if options.get("previous_response_id") or (session is not None and await session.get_items(limit=1)):
        return "resume"
    if isinstance(given, str):
        return "startup"
    items = given if isinstance(given, list) else []
    begins = isinstance(given, list) and all(isinstance(one, Mapping) and one.get("role") == "user" for one in items)
    return "startup" if begins else "resume"


def _go_on(result: RunResult, reason: str, options: dict[str, Any]) -> list[Any]:
    """The next input: the whole conversation, unless a session or the service stores it."""
    said: list[Any] = [{"role": "user", "content": reason}]
    if options.get("previous_response_id"):
        options["previous_response_id"] = result.last_response_id
    kept = any(options.get(key) for key in ("session", "conversation_id", "previous_response_id"))
    return said if kept else [*result.to_input_list(), *said]
