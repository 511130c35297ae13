"""Anthropic's wire format: what its real SDK sends for us, and what its answers and errors become."""

from typing import Any

import pytest

from agent.model_server import ModelServer, Refuse, Say, use
from agent.test_services import ASKED, BASH, KEY, answer, ask, merged_history, refusal, with_model
from billhook.agent.conversation import ToolUse, Usage, assistant, user
from billhook.agent.models import Anthropic, ModelRequest
from billhook.session import ToolResult


def test_a_request_as_it_is_sent() -> None:
    """Model, system text, tools and conversation, streamed, with the key in the header that the SDK chooses."""
    with ModelServer() as server:
        ask("anthropic", server)
    received = server.received[0]
    assert received.path == "/v1/messages"
    assert KEY in str(received.headers)
    assert received.body == {
        "model": "m-1",
        "max_tokens": 32_000,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "list the files"}]}],
        "tools": [{"name": "Bash", "description": "Runs a command.", "input_schema": dict(BASH.schema)}],
        "stream": True,
    }


def test_nothing_is_sent_of_what_there_is_not() -> None:
    """Without a system text or tools the request has neither."""
    with ModelServer() as server:
        ask("anthropic", server, ModelRequest("", (user("hi"),)))
    assert server.bodies[0].keys() == {"model", "max_tokens", "messages", "stream"}


def test_a_token_is_sent_as_a_bearer_s() -> None:
    """ANTHROPIC_AUTH_TOKEN is for gateways, which want no x-api-key."""
    headers = sent_with({"ANTHROPIC_AUTH_TOKEN": f" {KEY}\n"})
    assert headers["authorization"] == f"Bearer {KEY}"
    assert "x-api-key" not in headers


def test_the_key_counts_before_the_token() -> None:
    """As in the SDK, when both are set."""
    headers = sent_with({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_AUTH_TOKEN": "sk-other"})
    assert KEY in str(headers) and "sk-other" not in str(headers)


def sent_with(keys: dict[str, str]) -> dict[str, str]:
    """The headers of a request that is made with these keys."""
    with ModelServer() as server:
        env = {**keys, "ANTHROPIC_BASE_URL": server.url}
        with_model(Anthropic("m", env), lambda model: model.complete(ASKED, lambda piece: None))
    return server.received[0].headers


def test_the_conversation_in_the_format_of_the_service() -> None:
    """Roles take turns, texts are not empty, and results come first, with their error flags."""
    with ModelServer() as server:
        ask("anthropic", server, ModelRequest("", merged_history(), (BASH,)))
    assert server.bodies[0]["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}},
                {"type": "text", "text": "and"},
                {"type": "tool_use", "id": "b", "name": "Read", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "files"},
                {"type": "tool_result", "tool_use_id": "b", "content": "no such file", "is_error": True},
                {"type": "text", "text": "note"},
            ],
        },
    ]


@pytest.mark.parametrize("is_error", [True, False])
def test_an_empty_result(is_error: bool) -> None:
    """The service refuses an empty error."""
    history = (user("x"), assistant(ToolUse("a", "Bash", {})), user(ToolResult("a", "", is_error)))
    with ModelServer() as server:
        ask("anthropic", server, ModelRequest("", history, (BASH,)))
    result = server.bodies[0]["messages"][-1]["content"][0]
    assert result["content"] == "(no output)" and result.get("is_error", False) is is_error


def test_a_whole_exchange() -> None:
    """The answer goes back as it came, with the result of its tool."""
    with ModelServer(Say(("Looking.",), (use("Bash", {"command": "ls"}, "a"),)), Say(("Two files.",))) as server:
        first = ask("anthropic", server).message
        history = (*ASKED.messages, first, user(ToolResult("a", "x y")))
        assert ask("anthropic", server, ModelRequest("", history, (BASH,))).message.text == "Two files."
    assert server.bodies[1]["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x y"}]},
    ]


KINDS = {
    "key": (Refuse(401, "authentication_error", "invalid x-api-key"), "authentication_failed"),
    "permission": (Refuse(403, "permission_error"), "authentication_failed"),
    "billing": (Refuse(402, "billing_error"), "billing_error"),
    "balance": (Refuse(400, "invalid_request_error", "Your credit balance is too low"), "billing_error"),
    "rate": (Refuse(429, "rate_limit_error"), "rate_limit"),
    "overloaded": (Refuse(529, "overloaded_error", "Overloaded"), "overloaded"),
    "request": (Refuse(400, "invalid_request_error", "prompt is too long"), "invalid_request"),
    "too large": (Refuse(413, "request_too_large"), "invalid_request"),
    "model": (Refuse(404, "not_found_error", "model: nope"), "model_not_found"),
    "server": (Refuse(500, "api_error"), "server_error"),
}


@pytest.mark.parametrize(("step", "kind"), KINDS.values(), ids=KINDS)
def test_the_kinds_of_errors(step: Refuse, kind: str) -> None:
    """Each error of the service has its word, and its own text is in the message."""
    error = refusal("anthropic", step, max_retries=0)
    assert (error.kind, error.details) == (kind, step.message)
    assert error.message.endswith(f"({step.status}): {step.message}")


CACHED = {"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}
START = {
    "type": "message_start",
    "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": CACHED},
}
END = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return (
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    )


def test_thinking_is_not_shown_and_caches_are_counted() -> None:
    """A block that we don't know is passed over; what came from a cache was sent as well."""
    thought = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "s"},
    )
    redacted = block(1, {"type": "redacted_thinking", "data": "x"})
    unheard = block(2, {"type": "something_new", "text": "?"}, {"type": "something_new_delta", "text": "?"})
    text = block(3, {"type": "text", "text": ""}, {"type": "text_delta", "text": "ok"})
    done = answer("anthropic", Say(events=(START, *thought, *redacted, *unheard, *text, END)))
    assert done.message == assistant("ok")
    assert done.usage == Usage(127, 9)


def test_an_input_that_comes_with_the_beginning() -> None:
    """Some gateways send it at once; it is used, and not an empty one."""
    whole = block(0, {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}})
    done = answer("anthropic", Say(events=(START, *whole, END)))
    assert done.message.tool_uses == [ToolUse("a", "Bash", {"command": "ls"})]


def test_blocks_that_are_mixed() -> None:
    """Each piece goes to the block whose number it has."""
    a, b = (block(n, {"type": "tool_use", "id": i, "name": "Bash", "input": {}}) for n, i in enumerate("ab"))
    pieces = [(0, '{"command"'), (1, '{"command": "two"}'), (0, ': "one"}')]
    deltas = [
        {"type": "content_block_delta", "index": n, "delta": {"type": "input_json_delta", "partial_json": piece}}
        for n, piece in pieces
    ]
    done = answer("anthropic", Say(events=(START, a[0], b[0], *deltas, a[1], b[1], END)))
    assert [one.input["command"] for one in done.message.tool_uses] == ["one", "two"]
