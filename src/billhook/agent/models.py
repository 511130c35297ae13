"""The models that the agent can use, by name: their interface, and the services behind an SDK, Anthropic and OpenAI.

The services share their errors, retries and parts of their wire formats.
"""

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from billhook.agent.conversation import Block, Message, Text, ToolUse, Usage, assistant, unused_id
from billhook.core import strictjson
from billhook.core.errors import BillhookError, StrictJSONError, UsageError
from billhook.session.calls import ToolResult

if TYPE_CHECKING:  # an SDK loads slowly, and may not be installed
    from anthropic.types import MessageDeltaUsage, RawMessageStreamEvent
    from anthropic.types import Usage as UsageAtStart
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall

UNREADABLE: Final = "unreadable_tool_call"
"""The name of a tool use with invalid input. No tool has this name: it is refused like an unknown tool, the model sees
its text and the error, and nothing runs with a wrong input. Its input contains the `tool`, the original `arguments`
and the `fault`."""


class ToolSpec(msgspec.Struct, frozen=True):
    """The description of a tool for the model. `schema` is the JSON Schema of its input."""

    name: str
    description: str
    schema: Mapping[str, Any]


class ModelRequest(msgspec.Struct, frozen=True):
    """The input of one model call. Without `tools` only text is expected: a summary, for example."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    agent: str = "main"  # the caller: `main`, a subagent's type or a teammate's name


class Completion(msgspec.Struct, frozen=True):
    message: Message
    usage: Usage = Usage()
    left_out: str = ""  # the unusable part of the answer, for the user; empty: all of it can be used


class ModelError(BillhookError):
    """The model gave no answer. `kind` is one of the values of StopFailure: `rate_limit`, `overloaded`,
    `authentication_failed`, `billing_error`, `invalid_request`, `model_not_found`, `server_error`, `max_output_tokens`,
    `unknown`. `begun`: a part of the answer had arrived, so that no SDK has tried again."""

    def __init__(
        self, message: str, *, kind: str = "unknown", details: str = "", hint: str = "", begun: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.details = details
        self.begun = begun


TextSink = Callable[[str], None]  # gets the text of an answer in pieces, as it arrives


class Model(Protocol):
    """A model. Lives as long as the agent; several tasks of one loop may call it at once."""

    @property
    def name(self) -> str: ...

    async def complete(self, request: ModelRequest, say: TextSink) -> Completion:
        """The answer to a request. Raises ModelError, after retries where they make sense; see `completed`."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


# Models by name:

SERVICES = ("scripted", "anthropic", "openai")
DEFAULTS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5.5"}  # The default models, without a name and MODEL_ID.

KEYS = {"anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "openai": ("OPENAI_API_KEY",)}
_HOW = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or use `--model scripted:FILE`, which needs no key"


def open_model(name: str, env: Mapping[str, str]) -> Model:
    """The model for a name; without a name, that of the service whose key is set. Raises UsageError. Only `env` counts:
    a project's `.env` must not choose where a conversation is sent."""
    with_key = (service for service, keys in KEYS.items() if any(env.get(key) for key in keys))
    service, _, model = (name or next(with_key, "")).partition(":")
    if not service and not name:
        raise UsageError("no model is configured", hint=_HOW)
    if service == "scripted":
        from billhook.agent.script import ScriptedModel

        if not model:
            raise UsageError("`scripted` needs a file", hint="as in --model scripted:turns.yaml")
        return ScriptedModel.read(model)
    if service not in SERVICES:
        raise UsageError(f"unknown model `{name}`", hint=_suggestion(name, service))
    return _client(service, model or env.get("MODEL_ID") or DEFAULTS[service], env)


def _client(service: str, model: str, env: Mapping[str, str]) -> Model:
    key_in(env, *KEYS[service])  # before the SDK, which loads slowly
    try:
        return Anthropic(model, env) if service == "anthropic" else OpenAI(model, env)
    except ModuleNotFoundError as error:
        from billhook.core.text import install_command

        message = f"`{service}:{model}` needs the package `{error.name}`"
        raise UsageError(message, hint=install_command(service)) from None


def _suggestion(name: str, service: str) -> str:
    from billhook.core.text import nearest

    for start, real in (("claude", "anthropic"), ("gpt", "openai")):
        if service.startswith(start):
            return f"did you mean `{real}:{name}`?"
    near = nearest(service, SERVICES)
    return f"did you mean `{near}:`?" if near else "use one of scripted:FILE, anthropic:MODEL, openai:MODEL"


def key_in(env: Mapping[str, str], *names: str) -> tuple[str, str]:
    """The first of these variables that is set, and its value. Raises UsageError if it can't be sent."""
    for name in names:
        if key := env.get(name, "").strip():
            if key.isascii() and key.isprintable():
                return name, key
            raise UsageError(f"{name} contains a character that is not allowed in a key", hint="copy the key again")
    raise UsageError(f"no key: {names[0]} is not set", hint=f"set {' or '.join(names)}")


def address_in(env: Mapping[str, str], name: str, otherwise: str) -> str:
    """The address in a variable, or `otherwise`. Raises UsageError if it is not an address."""
    address = env.get(name, "").strip() or otherwise
    try:
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname:
            return address
    except ValueError:
        pass  # an unbalanced bracket
    raise UsageError(f"{name} is not the address of a service", hint=f"set it like {name}={otherwise}")


# Errors of services:


class _FailureKind(NamedTuple):
    what: str  # what the service did
    hint: str
    statuses: tuple[int, ...] = ()
    words: str = ""  # error types of Anthropic, error codes and types of OpenAI


_TABLE: Final = {
    "authentication_failed": _FailureKind(
        "rejected the key",
        "check the key, and whether it may use this model",
        (401, 403),
        "authentication_error permission_error invalid_api_key",
    ),
    "billing_error": _FailureKind(
        "has a billing problem",
        "check the account's balance and limits",
        (402,),
        "billing_error insufficient_quota billing_not_active billing_hard_limit_reached",
    ),
    "rate_limit": _FailureKind(
        "got too many requests",
        "wait a while, or request a higher limit",
        (429,),
        "rate_limit_error rate_limit_exceeded",
    ),
    "overloaded": _FailureKind("is overloaded", "try again later", (503, 529), "overloaded_error"),
    "invalid_request": _FailureKind("rejected the request", "", (400, 413, 422), "invalid_request_error"),
    "model_not_found": _FailureKind(
        "has no such model", "check the model's name and the base URL", (404,), "not_found_error model_not_found"
    ),
    "server_error": _FailureKind("failed", "try again later", (408,), "api_error timeout_error server_error"),
    "unknown": _FailureKind("gave no answer", ""),
}
KINDS: Final = (*_TABLE, "max_output_tokens")
_BY_WORD: Final = {word: name for name, kind in _TABLE.items() for word in kind.words.split()}
_BY_STATUS: Final = {status: name for name, kind in _TABLE.items() for status in kind.statuses}
_SHORTEST = 8  # characters of a secret that is searched for in an error


def failure(error: Exception, service: str, secrets: Iterable[str], *, begun: bool) -> ModelError:
    """An SDK's error as a ModelError, without the `secrets` that the service may have repeated."""
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) and status >= 400 else None
    message = _message(error)
    kind = _kind(error, status, message)
    what, hint, *_ = _TABLE[kind]
    if kind == "server_error" and not status:
        what = _on_the_way(error)
    for secret in secrets:
        if len(secret) < _SHORTEST:
            continue  # a short one is in many words
        message = message.replace(secret, "***")
    number = f" ({status})" if status else ""
    return ModelError(f"{service} {what}{number}: {message}", kind=kind, details=message, hint=hint, begun=begun)


def _kind(error: Exception, status: int | None, message: str) -> str:
    if "credit balance" in message:
        return "billing_error"  # Anthropic reports it as an invalid request
    inner = _inner(error)
    for word in (inner.get("code"), inner.get("type")):
        # OpenAI's type for all errors of a caller; the status is more specific.
        if isinstance(word, str) and word in _BY_WORD and not (status and word == "invalid_request_error"):
            return _BY_WORD[word]
    return _BY_STATUS.get(status, "server_error" if status >= 500 else "unknown") if status else "server_error"


def _on_the_way(error: Exception) -> str:
    name = type(error.__cause__ or error).__name__
    if "Timeout" in name:
        return "did not answer in time"
    return "can't be reached" if "Connect" in name else "closed the connection"


def _inner(error: Exception) -> dict[str, object]:
    """The part of an answer that describes the error. Both services nest it, and one SDK has already unwrapped it."""
    body = getattr(error, "body", None)
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    return body if isinstance(body, dict) else {}


def _message(error: Exception) -> str:
    said = _inner(error).get("message")
    if isinstance(said, str) and said:
        return said
    cause = error.__cause__ or error
    name, text = type(cause).__name__, " ".join(str(cause).split())[:500]
    return f"{name}: {text}" if text else name


# Common parts of the wire formats:

LONGEST_CONNECT = 10.0  # seconds to wait for a connection

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


def merged(messages: Iterable[Message]) -> Iterator[Message]:
    """The conversation as services need it: roles alternate, no text is empty, and results of tools come first."""
    said = (Message(one.role, tuple(filter(_has_content, one.content))) for one in messages)
    for role, group in groupby((one for one in said if one.content), lambda one: one.role):
        blocks = [block for message in group for block in message.content]
        yield Message(role, tuple(sorted(blocks, key=lambda block: not isinstance(block, ToolResult))))


def _has_content(block: Block) -> bool:
    return not isinstance(block, Text) or bool(block.text.strip())


def sayable(value: Any) -> Any:
    """A JSON value that can be sent as UTF-8: a tool's output may contain half characters."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {sayable(key): sayable(one) for key, one in value.items()}
    return [sayable(one) for one in value] if isinstance(value, list | tuple) else value


class PartialToolUse(msgspec.Struct):
    id: str
    name: str
    arguments: str = ""


End = Literal["", "complete", "cut", "refused"]


class ReplyParts:
    """One answer as far as it has arrived."""

    def __init__(self, request: ModelRequest) -> None:
        self.parts: list[Text | PartialToolUse] = []
        self.calls: dict[int, PartialToolUse] = {}  # tool uses among the parts, by the service's number
        self.usage = Usage()
        self.end: End = ""  # How the service ended it. Without an end, nothing of it may be used.
        self.begun = False  # the service has begun to answer: from now on its SDK does not retry
        self._taken = {use.id for message in request.messages for use in message.tool_uses}

    def add_text(self, piece: str) -> str:
        if self.parts and isinstance(last := self.parts[-1], Text):
            self.parts[-1] = Text(last.text + piece)
        elif piece:
            self.parts.append(Text(piece))
        return piece

    def add_call(self, number: int, call: PartialToolUse) -> None:
        self.parts.append(call)
        self.calls[number] = call

    def completion(self, service: str) -> Completion:
        """The whole answer. Raises ModelError if there is none, or if its tool calls were lost."""
        if not self.end:
            message = f"{service} closed the connection in the middle of an answer"
            raise ModelError(message, kind="server_error", hint="try again", begun=True)
        kept = self._usable_parts()
        if self.end == "refused" and not kept:
            raise ModelError(f"{service} declined to answer")
        lost = len(kept) < len(self.parts) and not any(isinstance(part, PartialToolUse) for part in kept)
        if self.end == "cut" and (lost or not kept):
            message = f"{service} reached its limit of output tokens before a complete answer"
            raise ModelError(message, kind="max_output_tokens", hint="ask for smaller steps")
        usable = assistant(*(self._tool_use(part) if isinstance(part, PartialToolUse) else part for part in kept))
        left_out = self._left_out(kept)
        return Completion(usable, self.usage, left_out=left_out and f"{service} {left_out}")

    def _left_out(self, kept: list[Text | PartialToolUse]) -> str:
        calls = [
            part.name
            for part in self.parts
            if isinstance(part, PartialToolUse) and not any(part is one for one in kept)
        ]
        if not calls:
            return ""
        why = "declined to continue" if self.end == "refused" else "reached its limit of output tokens"
        return f"{why}: {', '.join(calls)} was not called"

    def _usable_parts(self) -> list[Text | PartialToolUse]:
        """The usable parts. A call that was cut off at the limit is not: half a command can be another command."""
        if self.end == "refused":
            return [part for part in self.parts if isinstance(part, Text)]
        in_a_call = self.end == "cut" and self.parts and isinstance(self.parts[-1], PartialToolUse)
        return self.parts[:-1] if in_a_call else self.parts

    def _tool_use(self, call: PartialToolUse) -> ToolUse:
        use_id = unused_id(call.id, self._taken)  # some services send none, or the same in each answer
        try:
            given = strictjson.loads(call.arguments, max_bytes=None) if call.arguments.strip() else {}
            fault = "" if isinstance(given, dict) else "the arguments are not a JSON object"
        except StrictJSONError as error:
            fault = f"the arguments are not JSON: {error.message}"
        if not _TOOL_NAME.fullmatch(call.name):
            fault = "no tool can have this name"  # the service would reject a conversation that contains it
        if fault:
            return ToolUse(use_id, UNREADABLE, {"tool": call.name, "arguments": call.arguments, "fault": fault})
        return ToolUse(use_id, call.name, given, call.arguments if call.arguments.strip() else "")


# Services, and a new attempt if an answer is cut off:

PASSING: Final = frozenset({"overloaded", "rate_limit", "server_error"})  # temporary errors
AGAIN: Final = 3  # how often an answer that was cut off is requested again
_FIRST, _LONGEST = 0.5, 8.0


class Service:
    """A model behind an SDK, which retries temporary failures until an answer has begun. A subclass has `_open`, which
    starts a streamed call, and `_take`."""

    service: ClassVar[str]

    def __init__(self, model: str, key: str, client: Any) -> None:
        self._model, self._key, self._client = model, key, client

    @property
    def name(self) -> str:
        return f"{self.service}:{self._model}"

    async def complete(self, request: ModelRequest, say: TextSink) -> Completion:
        answer = ReplyParts(request)
        async with aclosing(self._pieces(request, answer)) as pieces:
            async for piece in pieces:
                say(piece)
        return answer.completion(self.service)

    async def close(self) -> None:
        await self._client.close()

    async def _pieces(self, request: ModelRequest, answer: ReplyParts) -> AsyncGenerator[str, None]:
        try:
            async with await self._open(request) as events:
                answer.begun = True
                async for event in events:
                    if piece := self._take(event, answer):
                        yield piece
        except Exception as error:
            raise failure(error, self.service, [self._key], begun=answer.begun) from None

    def _open(self, request: ModelRequest) -> Any:
        raise NotImplementedError

    def _take(self, event: Any, answer: ReplyParts) -> str:
        """Add one event to the answer: its text."""
        raise NotImplementedError


async def completed(model: Model, request: ModelRequest, say: TextSink, tell: Callable[[str], None]) -> Completion:
    """A model's answer. If it is cut off, it is requested again; if a part of it was shown, with a notice to the
    user."""
    shown = False

    def noted(piece: str) -> None:
        nonlocal shown
        shown = True
        say(piece)

    for tried in range(AGAIN):
        shown = False
        try:
            return await model.complete(request, noted)
        except ModelError as error:
            if not error.begun or error.kind not in PASSING:
                raise
            if shown:
                tell(f"{error.message}; the answer so far is discarded and requested again")
        await asyncio.sleep(_pause(tried))
    return await model.complete(request, say)


def _pause(tried: int) -> float:
    """Seconds to wait, as in the SDKs: doubled each time, with a random part."""
    return float(min(_FIRST * 2**tried, _LONGEST) * (1 - 0.25 * random.random()))


# Claude, through Anthropic's SDK: the Messages API, streamed.

MAX_TOKENS = 32_000  # the longest answer, including thinking

_CLAUDE_ENDS: dict[str, End] = {"max_tokens": "cut", "model_context_window_exceeded": "cut", "refusal": "refused"}


class Anthropic(Service):
    """A model of Anthropic. Thinking is neither shown nor sent back: hooks may change the messages around it."""

    service = "anthropic"

    def __init__(self, model: str, env: Mapping[str, str], *, max_retries: int = 4, timeout: float = 600) -> None:
        """The key is ANTHROPIC_API_KEY, or ANTHROPIC_AUTH_TOKEN, which is sent as a bearer token. `timeout`: seconds
        without any data. Raises UsageError for a bad key or URL."""
        from anthropic import AsyncAnthropic, Timeout

        name, key = key_in(env, "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
        client = AsyncAnthropic(
            api_key=key if name == "ANTHROPIC_API_KEY" else None,
            auth_token=key if name == "ANTHROPIC_AUTH_TOKEN" else None,
            base_url=address_in(env, "ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
            max_retries=max_retries,
            timeout=Timeout(timeout, connect=min(timeout, LONGEST_CONNECT)),
        )
        super().__init__(model, key, client)

    def _open(self, request: ModelRequest) -> Any:
        # Not the SDK's `stream`, which treats half of a tool's input as complete.
        return self._client.messages.create(**self._body(request), stream=True)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": MAX_TOKENS,
            "messages": [
                {"role": one.role, "content": [_block(block) for block in one.content]}
                for one in merged(request.messages)
            ],
        }
        if request.system:
            body["system"] = request.system
        if request.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}
                for tool in request.tools
            ]
        return dict(sayable(body))

    def _take(self, event: "RawMessageStreamEvent", answer: ReplyParts) -> str:
        match event.type:
            case "message_start":
                answer.usage = _usage(event.message.usage, answer.usage)
            case "content_block_start" if event.content_block.type == "tool_use":
                block = event.content_block
                answer.add_call(
                    event.index,
                    PartialToolUse(block.id, block.name, strictjson.dumps(block.input) if block.input else ""),
                )
            case "content_block_start" if event.content_block.type == "text":
                return answer.add_text(event.content_block.text)
            case "content_block_delta" if event.delta.type == "input_json_delta":
                answer.calls[event.index].arguments += event.delta.partial_json
            case "content_block_delta" if event.delta.type == "text_delta":
                return answer.add_text(event.delta.text)
            case "message_delta":
                answer.usage = _usage(event.usage, answer.usage)
                answer.end = (
                    _CLAUDE_ENDS.get(event.delta.stop_reason, "complete") if event.delta.stop_reason else answer.end
                )
        return ""


def _block(block: Block) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, ToolResult):
        content = block.content or "(no output)"  # the service rejects an empty error
        result = {"type": "tool_result", "tool_use_id": block.tool_use_id, "content": content}
        return {**result, "is_error": True} if block.is_error else result
    return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}


def _usage(said: "UsageAtStart | MessageDeltaUsage", before: Usage) -> Usage:
    """The tokens so far, including those from a cache."""
    sent = (said.input_tokens, said.cache_creation_input_tokens, said.cache_read_input_tokens)
    return Usage(max(before.input_tokens, sum(tokens or 0 for tokens in sent)), said.output_tokens or 0)


# Models of OpenAI and compatible services: Chat Completions, streamed, through OpenAI's SDK.

_ENDS: dict[str, End] = {"length": "cut", "content_filter": "refused"}


class OpenAI(Service):
    """A model of OpenAI, or of the service at OPENAI_BASE_URL. Also uses OPENAI_ORG_ID and OPENAI_PROJECT_ID."""

    service = "openai"

    def __init__(self, model: str, env: Mapping[str, str], *, max_retries: int = 4, timeout: float = 600) -> None:
        """The key is OPENAI_API_KEY. `timeout`: seconds without any data. Raises UsageError for a bad key or URL."""
        from openai import AsyncOpenAI, Timeout

        _, key = key_in(env, "OPENAI_API_KEY")
        client = AsyncOpenAI(
            api_key=key,
            organization=env.get("OPENAI_ORG_ID") or None,
            project=env.get("OPENAI_PROJECT_ID") or None,
            base_url=address_in(env, "OPENAI_BASE_URL", "https://api.openai.com/v1"),
            max_retries=max_retries,
            timeout=Timeout(timeout, connect=min(timeout, LONGEST_CONNECT)),
        )
        super().__init__(model, key, client)

    def _open(self, request: ModelRequest) -> Any:
        return self._client.chat.completions.create(**self._body(request), stream=True)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        system = [{"role": "system", "content": request.system}] if request.system else []
        body: dict[str, Any] = {
            "model": self._model,
            "messages": system + [wire for message in merged(request.messages) for wire in _messages(message)],
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)},
                }
                for tool in request.tools
            ]
        return dict(sayable(body))

    def _take(self, event: "ChatCompletionChunk", answer: ReplyParts) -> str:
        if event.usage:
            answer.usage = Usage(event.usage.prompt_tokens, event.usage.completion_tokens)
        if not event.choices:
            return ""
        choice = event.choices[0]
        if choice.finish_reason:
            answer.end = _ENDS.get(choice.finish_reason, "complete")
        for part in choice.delta.tool_calls or ():
            _take_call(part, answer)
        return answer.add_text(choice.delta.content or choice.delta.refusal or "")


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    """A message as one or several of the service's: each result of a tool is a separate one."""
    for block in message.content:
        if isinstance(block, ToolResult):
            content = f"Error: {block.content}" if block.is_error else block.content
            yield {"role": "tool", "tool_call_id": block.tool_use_id, "content": content}
    if message.tool_uses:
        yield {"role": "assistant", "content": message.text or None, "tool_calls": _tool_calls(message)}
    elif message.text:
        yield {"role": message.role, "content": message.text}


def _tool_calls(message: Message) -> list[dict[str, Any]]:
    return [
        {
            "id": use.id,
            "type": "function",
            "function": {"name": use.name, "arguments": strictjson.dumps(sayable(use.input))},
        }
        for use in message.tool_uses
    ]


def _take_call(part: "ChoiceDeltaToolCall", answer: ReplyParts) -> None:
    """A part of a call: the first has id and name, each has the next piece of the arguments."""
    call = answer.calls.get(part.index)
    if call is None or (part.id and part.id != call.id):  # some services use the same number for all calls
        call = PartialToolUse(part.id or "", "")
        answer.add_call(part.index, call)
    if part.function:
        call.name = call.name or part.function.name or ""
        call.arguments += part.function.arguments or ""
