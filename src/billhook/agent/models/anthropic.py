"""Claude, through Anthropic's own SDK: the Messages API, streamed."""

from collections.abc import Awaitable, Mapping
from typing import Any

from anthropic import AsyncAnthropic, Timeout
from anthropic.types import MessageDeltaUsage, RawMessageStreamEvent
from anthropic.types import Usage as UsageAtStart

from billhook.agent.conversation import Block, Text, Usage
from billhook.agent.models import ModelRequest, address_in, key_in
from billhook.agent.models.wire import LONGEST_CONNECT, End, PartialToolUse, ReplyParts, Service, merged, sayable
from billhook.core import strictjson
from billhook.session.calls import ToolResult

MAX_TOKENS = 32_000  # the longest answer, thoughts included

_ENDS: dict[str, End] = {"max_tokens": "cut", "model_context_window_exceeded": "cut", "refusal": "refused"}


class Anthropic(Service):
    """One model of Anthropic's. Thoughts are neither shown nor sent back: a hook may change what they are bound to."""

    service = "anthropic"

    def __init__(
        self,
        model: str,
        env: Mapping[str, str],
        *,
        max_retries: int = 4,
        timeout: float = 600,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        """The key is ANTHROPIC_API_KEY, or ANTHROPIC_AUTH_TOKEN, which is sent as a bearer's. `timeout` is how many
        seconds nothing may come. Raises UsageError for a key or an address that is none."""
        name, key = key_in(env, "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
        self._max_tokens = max_tokens
        client = AsyncAnthropic(
            api_key=key if name == "ANTHROPIC_API_KEY" else None,
            auth_token=key if name == "ANTHROPIC_AUTH_TOKEN" else None,
            base_url=address_in(env, "ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
            max_retries=max_retries,
            timeout=Timeout(timeout, connect=min(timeout, LONGEST_CONNECT)),
        )
        super().__init__(model, key, client, max_retries)

    def _open(self, request: ModelRequest) -> Awaitable[Any]:
        # Not the SDK's `stream`: that one reads half of a tool's input as if it were whole.
        opened: Awaitable[Any] = self._client.messages.create(**self._body(request), stream=True)
        return opened

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._max_tokens,
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

    def _take(self, event: RawMessageStreamEvent, answer: ReplyParts) -> str:
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
                answer.end = _ENDS.get(event.delta.stop_reason, "complete") if event.delta.stop_reason else answer.end
        return ""


def _block(block: Block) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, ToolResult):
        content = block.content or "(no output)"  # the service refuses an error that says nothing
        result = {"type": "tool_result", "tool_use_id": block.tool_use_id, "content": content}
        return {**result, "is_error": True} if block.is_error else result
    return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}


def _usage(said: UsageAtStart | MessageDeltaUsage, before: Usage) -> Usage:
    """What was counted so far. What came from a cache was sent as well."""
    sent = (said.input_tokens, said.cache_creation_input_tokens, said.cache_read_input_tokens)
    return Usage(max(before.input_tokens, sum(tokens or 0 for tokens in sent)), said.output_tokens or 0)
