"""OpenAI's wire format: what its real SDK sends for us, and what its answers and errors become."""

from typing import Any

import pytest

from agent.model_server import ModelServer, Refuse, Say, use
from agent.test_services import ASKED, BASH, KEY, answer, ask, environment, merged_history, refusal, with_model
from billhook.agent.conversation import ToolUse, Usage, assistant, user
from billhook.agent.models import UNREADABLE, ModelRequest, OpenAI
from billhook.session import ToolResult


def test_a_request_as_it_is_sent() -> None:
    """Model, system message, tools and conversation, streamed with usage, with the key as a bearer's."""
    with ModelServer() as server:
        ask("openai", server)
    received = server.received[0]
    assert received.path == "/v1/chat/completions"
    assert received.headers["authorization"] == f"Bearer {KEY}"
    function = {"name": "Bash", "description": "Runs a command.", "parameters": dict(BASH.schema)}
    assert received.body == {
        "model": "m-1",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "list the files"}],
        "tools": [{"type": "function", "function": function}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_nothing_is_sent_of_what_there_is_not() -> None:
    """Without a system text or tools the request has neither."""
    with ModelServer() as server:
        ask("openai", server, ModelRequest("", (user("hi"),)))
    assert server.bodies[0].keys() == {"model", "messages", "stream", "stream_options"}
    assert [message["role"] for message in server.bodies[0]["messages"]] == ["user"]


def test_organization_and_project_are_named() -> None:
    """Both come from the environment that we were given."""
    with ModelServer() as server:
        env = {**environment("openai", server.url), "OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-1"}
        with_model(OpenAI("m", env), lambda model: model.complete(ASKED, lambda piece: None))
    headers = server.received[0].headers
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")


def test_the_conversation_in_the_format_of_the_service() -> None:
    """Roles alternate, texts are not empty, and each result is a message after its use; errors are marked."""
    with ModelServer() as server:
        ask("openai", server, ModelRequest("", merged_history(), (BASH,)))
    assert server.bodies[0]["messages"] == [
        {"role": "user", "content": "one\ntwo"},
        {
            "role": "assistant",
            "content": "and",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "Bash", "arguments": '{"command":"ls"}'}},
                {"id": "b", "type": "function", "function": {"name": "Read", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "files"},
        {"role": "tool", "tool_call_id": "b", "content": "Error: no such file"},
        {"role": "user", "content": "note"},
    ]


def test_a_whole_exchange() -> None:
    """The answer goes back as it came, with the result of its tool."""
    with ModelServer(Say(uses=(use("Bash", {"command": "ls"}, "a"),)), Say(("Two files.",))) as server:
        first = ask("openai", server).message
        history = (*ASKED.messages, first, user(ToolResult("a", "")))
        assert ask("openai", server, ModelRequest("", history, (BASH,))).message.text == "Two files."
    function = {"name": "Bash", "arguments": '{"command":"ls"}'}
    assert server.bodies[1]["messages"][1:] == [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "a", "content": ""},
    ]


KINDS = {
    "key": (Refuse(401, "invalid_request_error", code="invalid_api_key"), "authentication_failed"),
    "region": (Refuse(403, "request_forbidden"), "authentication_failed"),
    "quota": (Refuse(429, "insufficient_quota", code="insufficient_quota"), "billing_error"),
    "billing": (Refuse(400, "invalid_request_error", code="billing_hard_limit_reached"), "billing_error"),
    "rate": (Refuse(429, "tokens", code="rate_limit_exceeded"), "rate_limit"),
    "overloaded": (Refuse(503, "service_unavailable"), "overloaded"),
    "request": (Refuse(400, "invalid_request_error", code="context_length_exceeded"), "invalid_request"),
    "model": (Refuse(404, "invalid_request_error", code="model_not_found"), "model_not_found"),
    "path": (Refuse(404, "invalid_request_error"), "model_not_found"),
    "server": (Refuse(500, "server_error"), "server_error"),
}


@pytest.mark.parametrize(("step", "kind"), KINDS.values(), ids=KINDS)
def test_the_kinds_of_errors(step: Refuse, kind: str) -> None:
    """Each error of the service has its word, and its own text is in the message."""
    error = refusal("openai", step, max_retries=0)
    assert (error.kind, error.details) == (kind, step.message)
    assert error.message.endswith(f"({step.status}): {step.message}")


def chunk(delta: dict[str, Any], stop: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": stop}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}


def part(index: int, arguments: str, id: str | None = None, name: str | None = None) -> dict[str, Any]:  # noqa: A002
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}


def test_calls_that_are_mixed() -> None:
    """Each piece goes to the call whose number it has."""
    parts = [
        part(0, '{"command"', "a", "Bash"),
        part(1, "", "b", "Bash"),
        part(0, ': "one"}'),
        part(1, '{"command": "two"}'),
    ]
    done = answer("openai", Say(events=(*(chunk({"tool_calls": [one]}) for one in parts), chunk({}, "tool_calls"))))
    assert done.message.tool_uses == [
        ToolUse("a", "Bash", {"command": "one"}),
        ToolUse("b", "Bash", {"command": "two"}),
    ]


def test_calls_that_have_the_same_number() -> None:
    """Some services send whole calls, all with number 0: an id of its own begins another."""
    calls = [part(0, '{"command": "one"}', "a", "Bash"), part(0, '{"command": "two"}', "b", "Bash")]
    done = answer("openai", Say(events=(chunk({"tool_calls": calls}, "stop"),)))
    assert done.message.tool_uses == [
        ToolUse("a", "Bash", {"command": "one"}),
        ToolUse("b", "Bash", {"command": "two"}),
    ]


def test_an_id_with_every_piece() -> None:
    """It is still one call."""
    calls = [part(0, '{"command":', "a", "Bash"), part(0, ' "one"}', "a", "Bash")]
    done = answer("openai", Say(events=(*(chunk({"tool_calls": [one]}) for one in calls), chunk({}, "tool_calls"))))
    assert done.message.tool_uses == [ToolUse("a", "Bash", {"command": "one"})]


def test_calls_that_cant_be_told_apart_run_nothing() -> None:
    """Two calls without an id and with one number must not be merged into other arguments."""
    calls = [part(0, '{"command": "one"}', None, "Bash"), part(0, '{"command": "two"}', None, "Bash")]
    done = answer("openai", Say(events=(chunk({"tool_calls": calls}, "tool_calls"),)))
    assert [one.name for one in done.message.tool_uses] == [UNREADABLE]


def test_usage_with_the_last_piece() -> None:
    """Some services count in the chunk that ends the answer; some don't count at all."""
    counted = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert answer("openai", Say(events=(chunk({"content": "x"}, "stop", usage=counted),))).usage == Usage(3, 4)
    assert answer("openai", Say(events=(chunk({"content": "x"}, "stop"),))).usage == Usage()


def test_a_refusal_is_shown_as_text() -> None:
    """The model's own words for it."""
    events = (chunk({"refusal": "I can't "}), chunk({"refusal": "do that."}), chunk({}, "stop"))
    assert answer("openai", Say(events=events)).message == assistant("I can't do that.")
