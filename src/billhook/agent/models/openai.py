"""Models of OpenAI, and of the many services that speak like it: Chat Completions, streamed, through OpenAI's SDK."""

from collections.abc import Awaitable, Iterator, Mapping
from typing import Any

from openai import AsyncOpenAI, Timeout
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall

from billhook.agent.conversation import Message, Usage
from billhook.agent.models import ModelRequest, address_in, key_in
from billhook.agent.models.wire import LONGEST_CONNECT, End, PartialToolUse, ReplyParts, Service, merged, sayable
from billhook.core import strictjson
from billhook.session.calls import ToolResult

_ENDS: dict[str, End] = {"length": "cut", "content_filter": "refused"}


class OpenAI(Service):
    """One model of OpenAI's, or of the service at OPENAI_BASE_URL. OPENAI_ORG_ID and OPENAI_PROJECT_ID count, too."""

    service = "openai"

    def __init__(self, model: str, env: Mapping[str, str], *, max_retries: int = 4, timeout: float = 600) -> None:
        """The key is OPENAI_API_KEY. `timeout`: seconds without any data. Raises UsageError for a bad key or URL."""
        _, key = key_in(env, "OPENAI_API_KEY")
        client = AsyncOpenAI(
            api_key=key,
            organization=env.get("OPENAI_ORG_ID") or None,
            project=env.get("OPENAI_PROJECT_ID") or None,
            base_url=address_in(env, "OPENAI_BASE_URL", "https://api.openai.com/v1"),
            max_retries=max_retries,
            timeout=Timeout(timeout, connect=min(timeout, LONGEST_CONNECT)),
        )
        super().__init__(model, key, client, max_retries)

    def _open(self, request: ModelRequest) -> Awaitable[Any]:
        opened: Awaitable[Any] = self._client.chat.completions.create(**self._body(request), stream=True)
        return opened

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

    def _take(self, event: ChatCompletionChunk, answer: ReplyParts) -> str:
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
    """A message of ours as one or several of theirs: each result of a tool is one of its own."""
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


def _take_call(part: ChoiceDeltaToolCall, answer: ReplyParts) -> None:
    """A part of a call: the first brings id and name, each the next piece of its arguments."""
    call = answer.calls.get(part.index)
    if call is None or (part.id and part.id != call.id):  # some services give all calls the same number
        call = PartialToolUse(part.id or "", "")
        answer.add_call(part.index, call)
    if part.function:
        call.name = call.name or part.function.name or ""
        call.arguments += part.function.arguments or ""
