"""The scripted model answers in each protocol, and recorded payloads contain nothing of the machine."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from typing import Any

import pytest

from clients.cases import CASES
from clients.golden import EVENTS, GOLDEN
from clients.running import TESTS
from clients.script import Call, Script, Step
from clients.scripted_model import serving
from clients.table import DOCUMENT, TITLES, between, put_between

SCRIPT = Script([Step(calls=[Call("run", {"command": "true"})]), Step("all done")])


def _post(url: str, body: dict[str, Any]) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return str(answer.read().decode())


WIRES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "messages": (
        "/v1/messages",
        {"messages": [{"role": "user", "content": "go"}]},
        {
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [{"type": "tool_use", "name": "run", "id": "1", "input": {}}]},
            ]
        },
    ),
    "responses": (
        "/v1/responses",
        {"input": [{"type": "message", "role": "user", "content": "go"}]},
        {"input": [{"type": "message", "role": "user", "content": "go"}, {"type": "function_call", "call_id": "1"}]},
    ),
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "go"}]},
        {"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "tool_calls": [{"id": "1"}]}]},
    ),
    "gemini": (
        "/v1beta/models/any:streamGenerateContent",
        {"contents": [{"role": "user", "parts": [{"text": "go"}]}]},
        {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "run"}}]}]},
    ),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", list(WIRES))
def test_wires(wire: str, stream: bool) -> None:
    """The request alone determines the step; a request without tools gets text that is not from the script."""
    path, first, second = WIRES[wire]
    more = {"tools": [{"name": "run"}], "stream": stream}
    with serving(SCRIPT) as model:
        for _ in range(2):  # the same request gets the same step again
            said = _post(model.url + path, first | more)
            assert "command" in said and "all done" not in said
        assert "all done" in _post(model.url + path, second | more)
        assert "beside the script" in _post(model.url + path, first | {"stream": stream})
        assert [request.main for request in model.asked] == [True, True, True, False]


@pytest.mark.parametrize("host", list(EVENTS))
def test_recorded_payloads(host: str) -> None:
    """A recorded payload contains its agent, and nothing of the machine."""
    recorded = list((GOLDEN / host).glob("*.json"))
    assert len(recorded) > (2 if len(EVENTS[host]) == 1 else 9)
    for path in recorded:
        text = path.read_text()
        held = json.loads(text)
        assert list(held) == ["client", "version", "argument", "env", "stdin"]
        assert held["argument"] in path.stem and isinstance(held["stdin"], dict)
        assert not re.findall(r"/root\b|/work\b|[\" ]/tmp/(?!claude-1000)|TOKEN|SOCKET", text), path


def test_between_marks() -> None:
    """Only the text between the marks of a document is replaced."""
    text = "a\n<!-- x -->\nold\n<!-- end of x -->\nb\n"
    assert put_between(text, "x", "new\n") == "a\n<!-- x -->\nnew\n<!-- end of x -->\nb\n"


def test_every_agent_is_in_the_document() -> None:
    """docs/hosts.md has a column for each agent, a row for each case, and its waiting times."""
    text = DOCUMENT.read_text()
    assert [title for title in TITLES.values() if f"| {title} " not in between(text, "cases")] == []
    assert [case.title for case in CASES if f"| {case.title} |" not in between(text, "cases")] == []
    assert "p99" in between(text, "wait")


def test_unknown_names() -> None:
    """`scripts/clients` lists the agents when it gets an unknown name."""
    words = [sys.executable, "-m", "clients", "unknown"]
    told = subprocess.run(
        words, env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=False
    )
    assert told.returncode == 2 and "unknown" in told.stderr and "codex" in told.stderr
