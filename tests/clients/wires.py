"""The agents' four model protocols: read the turns of a request, and write one step as the answer.

Answers contain only what the agents read. Everything except the ids is deterministic.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from clients.script import Step, Turn

Json = dict[str, Any]
_NUMBERS = itertools.count(1)


class Reply(msgspec.Struct, frozen=True):
    """A body of JSON, or a stream of events."""

    body: Mapping[str, Any] = {}
    events: Sequence[tuple[str, Mapping[str, Any]]] = ()
    ends_with_done: bool = False


class Wire(msgspec.Struct, frozen=True):
    """`address` matches the request's path; `opening` is the user's first message."""

    name: str
    address: re.Pattern[str]
    turns: Callable[[Json], list[Turn]]
    opening: Callable[[Json], str]
    answer: Callable[[Step, Json, str], Reply]


def _id(kind: str) -> str:
    return f"{kind}{next(_NUMBERS):012d}"


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


# Anthropic Messages


def _anthropic_turns(body: Json) -> list[Turn]:
    said = [message.get("content") for message in body.get("messages", []) if message.get("role") == "assistant"]
    return [
        Turn(_text(content), isinstance(content, list) and any(part.get("type") == "tool_use" for part in content))
        for content in said
    ]


def _opening(body: Json) -> str:
    """All user messages before the first tool call: agents put text of their own in front."""

    def called(message: Json) -> bool:
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        return bool(message.get("tool_calls")) or any(part.get("type") == "tool_use" for part in parts)

    before = itertools.takewhile(lambda message: not called(message), body.get("messages", []))
    return "\n".join(_text(message.get("content")) for message in before if message.get("role") == "user")


def _anthropic_answer(step: Step, body: Json, path: str) -> Reply:
    blocks: list[Json] = [{"type": "text", "text": step.text}] if step.text else []
    for call in step.calls:
        blocks.append({"type": "tool_use", "id": _id("toolu_"), "name": call.tool, "input": dict(call.input)})
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {
        "id": _id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": blocks,
        "stop_reason": "tool_use" if step.calls else "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }
    return Reply(events=tuple(_anthropic_events(message))) if body.get("stream") else Reply(message)


def _anthropic_events(message: Json) -> Iterator[tuple[str, Json]]:
    def event(kind: str, **more: Any) -> tuple[str, Json]:
        return kind, {"type": kind, **more}

    yield event("message_start", message={**message, "content": [], "stop_reason": None})
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            written = json.dumps(block["input"])
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": written}
        yield event("content_block_start", index=index, content_block=empty)
        yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=end, usage=message["usage"])
    yield event("message_stop")


# OpenAI Responses


def _responses_turns(body: Json) -> list[Turn]:
    """The calls of one turn come one after the other, followed by their results."""
    turns: list[Turn] = []
    before = False
    for item in _items(body):
        called = item.get("type") in ("function_call", "custom_tool_call")
        spoke = item.get("type", "message") == "message" and item.get("role") == "assistant"
        if spoke or (called and not before):
            turns.append(Turn(_text(item.get("content")), called))
        before = called
    return turns


def _items(body: Json) -> list[Json]:
    given = body.get("input")
    return [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []


def _responses_opening(body: Json) -> str:
    before = itertools.takewhile(lambda item: item.get("role") != "assistant" and "call_id" not in item, _items(body))
    return "\n".join(_text(item.get("content")) for item in before if item.get("role") == "user")


def _responses_answer(step: Step, body: Json, path: str) -> Reply:
    output: list[Json] = []
    if step.text:
        content = [{"type": "output_text", "text": step.text, "annotations": []}]
        output.append({"type": "message", "id": _id("msg_"), "role": "assistant", "content": content})
    for call in step.calls:
        item: Json = {"id": _id("fc_"), "call_id": _id("call_"), "name": call.tool}
        if call.raw:
            item |= {"type": "custom_tool_call", "input": call.raw}
        else:
            item |= {"type": "function_call", "arguments": json.dumps(dict(call.input))}
        output.append(item | ({"namespace": call.namespace} if call.namespace else {}))
    for item in output:
        item["status"] = "completed"
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    response = {
        "id": _id("resp_"),
        "object": "response",
        "created_at": 0,
        "model": body.get("model", "scripted"),
        "status": "completed",
        "output": output,
        "usage": usage,
    }
    return Reply(events=tuple(_responses_events(response))) if body.get("stream") else Reply(response)


def _responses_events(response: Json) -> Iterator[tuple[str, Json]]:
    def event(kind: str, **more: Any) -> tuple[str, Json]:
        return kind, {"type": kind, **more}

    yield event("response.created", response={**response, "output": [], "status": "in_progress"})
    for index, item in enumerate(response["output"]):
        yield event("response.output_item.added", output_index=index, item=item)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=response)


# OpenAI Chat Completions


def _chat_turns(body: Json) -> list[Turn]:
    said = [message for message in body.get("messages", []) if message.get("role") == "assistant"]
    return [Turn(_text(message.get("content")), bool(message.get("tool_calls"))) for message in said]


def _chat_answer(step: Step, body: Json, path: str) -> Reply:
    calls: list[Json] = []
    for index, call in enumerate(step.calls):
        function = {"name": call.tool, "arguments": json.dumps(dict(call.input))}
        calls.append({"index": index, "id": _id("call_"), "type": "function", "function": function})
    end = "tool_calls" if calls else "stop"
    about = {"id": _id("chat_"), "created": 0, "model": body.get("model", "scripted")}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    message = {"role": "assistant", "content": step.text, **({"tool_calls": calls} if calls else {})}
    if not body.get("stream"):
        choices = [{"index": 0, "message": message, "finish_reason": end}]
        return Reply({**about, "object": "chat.completion", "choices": choices, "usage": usage})
    about["object"] = "chat.completion.chunk"
    spoken = {**about, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    ended = {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": end}], "usage": usage}
    return Reply(events=(("", spoken), ("", ended)), ends_with_done=True)


# Gemini


def _gemini_turns(body: Json) -> list[Turn]:
    said = [content.get("parts") or [] for content in body.get("contents", []) if content.get("role") == "model"]
    return [Turn(_text(parts), any("functionCall" in part for part in parts)) for parts in said]


def _gemini_opening(body: Json) -> str:
    contents = body.get("contents", [])

    def called(content: Json) -> bool:
        return any("functionCall" in part for part in content.get("parts") or [])

    before = itertools.takewhile(lambda content: not called(content), contents)
    return "\n".join(_text(content.get("parts")) for content in before if content.get("role") == "user")


def _gemini_answer(step: Step, body: Json, path: str) -> Reply:
    parts: list[Json] = [{"text": step.text}] if step.text else []
    for call in step.calls:
        parts.append({"functionCall": {"id": _id("call_"), "name": call.tool, "args": dict(call.input)}})
    config = body.get("generationConfig") or {}
    if not body.get("tools") and "json" in str(config.get("responseMimeType")):
        parts = [{"text": json.dumps(_SIDE_ANSWERS)}]
    response = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        "modelVersion": "scripted",
    }
    return Reply(events=(("", response),)) if ":stream" in path else Reply(response)


_SIDE_ANSWERS: Final = {
    "reasoning": "scripted",
    "next_speaker": "user",
    "model_choice": "flash",
    "complexity_score": 1,
    "complexity_reasoning": "scripted",
}
"""Gemini asks small models who is next and how hard a request is; one object answers all of these."""

WIRES: Final = (
    Wire(
        "anthropic",
        re.compile(r"/messages$"),
        _anthropic_turns,
        _opening,
        _anthropic_answer,
    ),
    Wire("responses", re.compile(r"/responses$"), _responses_turns, _responses_opening, _responses_answer),
    Wire(
        "chat",
        re.compile(r"/chat/completions$"),
        _chat_turns,
        _opening,
        _chat_answer,
    ),
    Wire(
        "gemini",
        re.compile(r"/models/[^/:]+:(?:stream)?[gG]enerateContent$"),
        _gemini_turns,
        _gemini_opening,
        _gemini_answer,
    ),
)
