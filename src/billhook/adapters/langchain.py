"""LangChain: `create_agent(model, tools, middleware=[..., HookMiddleware()])`, sync and async.

Put it last, so that hooks see the changes of other middleware. One `invoke` is one session. With a checkpointer the
thread's id is the session's id, and a later `invoke` resumes it.
"""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, NotRequired

from billhook import adapters as runs
from billhook.session.calls import Question, ToolResult, text_of
from billhook.session.session import SyncSession, run_to_end

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
    from langchain.agents.middleware.types import PrivateStateAttr
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
    from langgraph.config import get_config
    from langgraph.errors import GraphBubbleUp
    from langgraph.types import Command, interrupt
except ImportError as missing:
    raise runs.not_installed("langchain", missing) from missing


class HookState(AgentState[Any]):
    """The middleware's state of a conversation: the current run."""

    billhook_run: NotRequired[Annotated[str, PrivateStateAttr]]


class HookMiddleware(AgentMiddleware[HookState, Any, Any]):
    """The hooks around a LangChain agent. Can serve many runs at once, and lives as long as its agent."""

    state_schema = HookState

    def __init__(
        self,
        hooks: runs.Hooks = None,
        *,
        approval: bool = False,
        names: Mapping[str, str] | None = None,
        tell: runs.Tell | None = None,
        **session: Any,
    ) -> None:
        """`hooks`: an engine, a list of hooks, or nothing for the configuration. `approval`: the decision `ask` becomes
        an `interrupt`, which needs a checkpointer; resumed with True the call runs. `names`: the names of tools for
        hooks. `session`: options of a Session (`cwd`, `ask`, `permissions` ...)."""
        super().__init__()
        self.engine, self._options = runs.prepared(hooks, "langchain", names, tell, session)
        ask = session.get("ask") or (_interrupted if approval else None)
        self._options["ask"] = runs.passing(ask, (GraphBubbleUp,)) if ask else None
        self._runs = runs.RunCache[str, runs.AdapterRun]()

    # -- a run and its end

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: HookState, runtime: Any) -> dict[str, Any] | None:
        return run_to_end(self.abefore_agent(state, runtime))

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: HookState, runtime: Any) -> dict[str, Any] | None:
        key = uuid.uuid4().hex
        has_history = any(isinstance(message, AIMessage) for message in state["messages"])
        run = self._remember(key, "resume" if has_history else "startup")
        await run.__aenter__()
        prompts = _prompts(state)
        if prompts and run.stopped is None:
            verdict = await run.prompt("\n\n".join(message.text for message in prompts))
            if verdict.denied:
                run.stop_run(verdict.reason or "a hook refused the prompt")
                gone = [RemoveMessage(id=one.id) for one in prompts if one.id]  # later runs must not see it, either
                return {"billhook_run": key, "messages": [*gone, AIMessage(run.stopped)], "jump_to": "end"}
        return {"billhook_run": key}

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: HookState, runtime: Any) -> dict[str, Any] | None:
        run = self._run(state)
        return None if run.stopped is None else {"messages": [AIMessage(run.stopped)], "jump_to": "end"}

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: HookState, runtime: Any) -> dict[str, Any] | None:
        return self.before_model(state, runtime)

    @hook_config(can_jump_to=["model"])
    def after_agent(self, state: HookState, runtime: Any) -> dict[str, Any] | None:
        return run_to_end(self.aafter_agent(state, runtime))

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: HookState, runtime: Any) -> dict[str, Any] | None:
        run = self._run(state)
        ending = await run.stop(_last_message(state)) if run.stopped is None else None
        if ending is not None and ending.keep_going:
            return {"messages": [HumanMessage(ending.reason or "Go on.")], "jump_to": "model"}
        self._runs.pop(_key(state), None)
        await run.__aexit__(None, None, None)
        return None

    def _remember(self, key: str, source: str) -> runs.AdapterRun:
        run = runs.AdapterRun(self.engine, **{"session_id": _thread(), "source": source} | self._options)
        if key:
            self._runs[key] = run
        return run

    def _run(self, state: Any) -> runs.AdapterRun:
        """The run of a conversation. A run that was interrupted in another process continues in a new session. Outside
        of an agent (a ToolNode alone) each call is a run."""
        key = _key(state)
        return self._runs.get(key) or self._remember(key, "resume")

    # -- the model

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        run = self._run(request.state)
        context = run.take_context()
        try:
            return handler(_with_context(request, context))
        except Exception as error:
            run_to_end(_failed(run, context, error))
            raise

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        run = self._run(request.state)
        context = run.take_context()
        try:
            return await handler(_with_context(request, context))
        except Exception as error:
            await _failed(run, context, error)
            raise

    # -- a tool

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        run, call = self._run(request.state), request.tool_call
        attempt = _attempt(request, handler)
        with attempt.raising():
            result = SyncSession(run).call_tool(call["name"], call["args"], attempt, tool_use_id=call["id"] or "")
        self._report_lost(run, request.state)
        return _message(run, request, attempt, result)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        run, call = self._run(request.state), request.tool_call
        attempt = _attempt(request, handler)
        result = await runs.attempted(run, call["name"], call["args"], attempt, call["id"] or "")
        self._report_lost(run, request.state)
        return _message(run, request, attempt, result)

    def _report_lost(self, run: runs.AdapterRun, state: Any) -> None:
        """Outside of an agent only the result of the call can be used: report other answers of hooks."""
        if _key(state):
            return
        if run.stopped is not None:
            run.report(f"a hook stopped the run ({run.stopped}), which only works inside an agent")
        if context := run.take_context():
            run.report(f"a hook's context for the model was ignored outside of an agent: {context}")


def _key(state: Any) -> str:
    return str(state.get("billhook_run", "")) if isinstance(state, Mapping) else ""


def _thread() -> str:
    """The id of the conversation, if there is a checkpointer."""
    try:
        return str(get_config().get("configurable", {}).get("thread_id") or "")
    except RuntimeError:  # not inside a graph
        return ""


# -- messages ------------------------------------------------------------------------------------------------------


def _prompts(state: HookState) -> list[AnyMessage]:
    """The user's messages since the agent's last one; empty if a run continues without a new prompt."""
    messages = state["messages"]
    spoke = max((i for i, message in enumerate(messages) if isinstance(message, AIMessage)), default=-1)
    return [message for message in messages[spoke + 1 :] if isinstance(message, HumanMessage)]


def _last_message(state: HookState) -> str | None:
    messages = state["messages"]
    return messages[-1].text if messages and isinstance(messages[-1], AIMessage) else None


def _with_context(request: Any, context: str) -> Any:
    """The request with the hooks' context at the end of its system message."""
    if not context:
        return request
    before = request.system_message
    content: Any = context
    if before is not None and isinstance(before.content, str):
        content = f"{before.content}\n\n{context}"
    elif before is not None:
        content = [*before.content, {"type": "text", "text": context}]
    return request.override(system_message=SystemMessage(content))


async def _failed(run: runs.AdapterRun, context: str, error: Exception) -> None:
    """The model gave no answer, so it has not read the context."""
    if context:
        run.add_context(context)
    if not isinstance(error, GraphBubbleUp):
        await run.failed("unknown", details=f"{type(error).__name__}: {error}")


def _interrupted(question: Question) -> Any:
    return interrupt({"tool_name": question.tool_name, "tool_input": question.tool_input, "reason": question.reason})


# -- a call of a tool ----------------------------------------------------------------------------------------------


def _attempt(request: Any, handler: Callable[[Any], Any]) -> runs.Attempt:
    def invoke(given: dict[str, Any]) -> Any:
        if given == request.tool_call["args"]:
            return handler(request)
        return handler(request.override(tool_call={**request.tool_call, "args": given}))

    return runs.Attempt(invoke, read=lambda made: _read(made, request), passing=(GraphBubbleUp,))


def _read(made: Any, request: Any) -> Any:
    """A tool's output for hooks: the content of its message; of a Command without one, its update."""
    message = _own_message(made, request)
    if message is None:
        return runs.plain(made.update if isinstance(made, Command) else made)
    if message.status == "error":
        raise runs.ToolFailureError(text_of(runs.plain(message.content)))
    return runs.plain(message.content)


def _own_message(made: Any, request: Any) -> ToolMessage | None:
    """The message that answers the call, anywhere in the tool's output."""
    if isinstance(made, ToolMessage):
        return made
    candidates: list[Any] = made if isinstance(made, list) else _updated(made)
    for one in candidates:
        if isinstance(one, Command):
            candidates = [*candidates, *_updated(one)]
    answers = [one for one in candidates if isinstance(one, ToolMessage)]
    return next((one for one in answers if one.tool_call_id == request.tool_call["id"]), None)


def _updated(made: Any) -> list[AnyMessage]:
    update = made.update if isinstance(made, Command) else None
    return list(update.get("messages", [])) if isinstance(update, Mapping) else []


def _message(run: runs.AdapterRun, request: Any, attempt: runs.Attempt, result: ToolResult) -> Any:
    """The result for LangChain: the tool's output, unless the call was refused or hooks changed it."""
    call, changed = request.tool_call, run.was_rewritten(result)
    if not attempt.began:
        return ToolMessage(result.content, name=call["name"], tool_call_id=call["id"], status="error")
    content = run.output_of(attempt, result)
    own = _own_message(attempt.output, request)
    if not changed and (content is attempt.output or (own is not None and content == text_of(runs.plain(own.content)))):
        return attempt.output
    status = "error" if result.is_error else "success"
    content = content if isinstance(content, str) or _is_content(content) else text_of(runs.plain(content))
    if own is None:  # its changes of the state are dropped, too
        return ToolMessage(content, name=call["name"], tool_call_id=call["id"], status=status)
    return _with(attempt.output, own, own.model_copy(update={"content": content, "status": status}))


def _is_content(value: Any) -> bool:
    """Whether it is valid content of a message: a list of strings and blocks."""
    blocks = value if isinstance(value, list) else [None]
    return all(isinstance(one, str) or (isinstance(one, dict) and "type" in one) for one in blocks)


def _with(made: Any, own: ToolMessage, changed: ToolMessage) -> Any:
    if made is own:
        return changed
    if isinstance(made, list):
        return [_with(one, own, changed) for one in made]
    if isinstance(made, Command) and own in _updated(made):
        messages = [changed if one is own else one for one in _updated(made)]
        return replace(made, update={**(made.update or {}), "messages": messages})
    return made
