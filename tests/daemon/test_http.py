"""The daemon over HTTP: every route, every dialect's answers, the stream, and what the log has of it."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from msgspec.structs import replace

from billhook import __version__
from billhook.agents import DIALECTS
from billhook.agents.base import CAPABILITIES
from billhook.core.answer_schema import UNIVERSAL
from billhook.core.answers import Answer, Decision, Exit, ask, defer, deny, inject, keep_going, stop
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS, Block, Event, parse
from billhook.serve import hook_server
from billhook.serve.control import address
from billhook.serve.engine_pool import EnginePool
from billhook.serve.hook_server import guessed
from billhook.serve.http import serve
from billhook.serve.http.access import _no_token
from billhook.serve.http.answer import as_json, refusal_output
from billhook.store.files import StoreError
from daemon.http_serving import Serving, serving

SPOKEN = ("claude", "claw", "claw-text", "lesson")
TOKEN_OF_SOMEBODY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
HOOKS = f"""\
hooks:
  denies: {{events: [PreToolUse, PermissionRequest], match: Denies, deny: not here}}
  asks: {{events: PreToolUse, match: Asks, ask: a person decides}}
  allows: {{events: PreToolUse, match: Allows, allow: fine}}
  injects: {{events: [PreToolUse, PostToolUse], match: Injects, inject: mind the gap}}
  secret: {{events: PreToolUse, match: Secret, deny: "never use {TOKEN_OF_SOMEBODY} here"}}
  rewrites:
    events: PreToolUse
    match: Rewrites
    run: printf '{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","updatedInput":{{"command":"ls"}}}}}}'
  output:
    events: PostToolUse
    match: Rewrites
    run: printf '{{"hookSpecificOutput":{{"hookEventName":"PostToolUse","updatedToolOutput":"tidied"}}}}'
  stops: {{events: PreToolUse, match: Stops, run: 'printf "{{\\"continue\\":false,\\"stopReason\\":\\"enough\\"}}"'}}
  prompt:
    events: UserPromptSubmit
    run: if grep -q forbidden; then echo no such words >&2; exit 2; else echo be brief; fi
  goes-on: {{events: Stop, run: echo run the tests first >&2; exit 2}}
  compact: {{events: PreCompact, match: auto, deny: not now}}
  slow: {{events: PreToolUse, match: Slow, run: 'echo $$ > "$CLAUDE_CWD/pid"; sleep 60', gate: true}}
  crashes: {{events: PreToolUse, match: Crashes, run: exit 7, gate: true}}
  environment: {{events: PostToolUse, match: Env, run: env > "$CLAUDE_CWD/environment"}}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    base = tmp_path_factory.mktemp("http")
    configuration = base / "home" / ".config" / "billhook" / "hooks.yaml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(HOOKS)
    (base / "work").mkdir()
    with serving(base) as running:
        yield running


@pytest.fixture
def client(served: Serving) -> Iterator[httpx.Client]:
    with served.client() as client:
        yield client


def event(name: str, base: Path, **fields: Any) -> dict[str, Any]:
    """An event in wire form."""
    return {"hook_event_name": name, "session_id": "s-1", "cwd": str(base / "work"), **fields}


def tool(called: str, base: Path, name: str = "PreToolUse", **fields: Any) -> dict[str, Any]:
    return event(name, base, tool_name=called, tool_input={"command": "true"}, **fields)


# -- routes


def test_health_needs_no_token(served: Serving) -> None:
    """The health check needs no token."""
    found = httpx.get(f"{served.url}/healthz", trust_env=False, verify=False)

    assert (found.status_code, found.json()) == (200, {"status": "ok", "version": __version__})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/hook", 404),
        ("GET", "/healthz/", 404),
        ("POST", "/hook/klingon", 404),
        ("POST", "/hook/spec", 404),
        ("POST", "/hook/claude/more", 404),
        ("GET", "/hook/claude", 405),
        ("GET", "/fire", 405),
        ("PUT", "/fire", 405),
        ("OPTIONS", "/fire", 405),
        ("POST", "/events", 405),
        ("DELETE", "/healthz", 405),
        ("GET", "/events?sesion=1", 400),
    ],
)
def test_unknown_paths_are_reported_in_json(client: httpx.Client, method: str, path: str, status: int) -> None:
    """Unknown paths and wrong methods get the anatomy of our errors."""
    found = client.request(method, path)

    assert found.status_code == status
    assert found.headers["content-type"] == "application/json"
    assert set(found.json()["error"]) == {"message", "place", "hint"}
    assert ("allow" in found.headers) == (status == 405)


@pytest.mark.parametrize(
    ("head", "status"), [("X-Long: " + "y" * 31_000, 200), ("X-Long: " + "y" * 33_000, 400), ("X: y\r\n" * 6000, 400)]
)
def test_a_head_has_a_limit(served: Serving, head: str, status: int) -> None:
    """32 KiB, also when all of it comes at once."""
    line = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nConnection: close\r\n"

    answer = served.raw(f"{line}{head.strip()}\r\n\r\n".encode())

    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]


def test_no_answer_is_for_other_origins(client: httpx.Client, served: Serving) -> None:
    """There is no CORS, nothing is kept by a cache, and no header tells what software this is."""
    for found in (client.get("/healthz"), client.get("/x"), client.post("/fire", json=tool("Denies", served.base))):
        names = {name.lower() for name in found.headers}
        assert not any(name.startswith("access-control") for name in names)
        assert found.headers["cache-control"] == "no-store" and "server" not in names


def test_heads_have_no_body(client: httpx.Client) -> None:
    """And one of the stream ends."""
    for path in ("/healthz", "/openapi.json", "/events"):
        found = client.head(path)
        assert (found.status_code, found.content) == (200, b"")


def test_fire_gives_the_verdict(client: httpx.Client, served: Serving) -> None:
    """The same object as `billhook fire --json` prints."""
    found = client.post("/fire", json=tool("Denies", served.base))

    verdict = found.json()
    assert found.status_code == 200
    assert (verdict["event"], verdict["decision"], verdict["reason"]) == ("PreToolUse", "deny", "not here")
    assert "denies" in [outcome["hook"] for outcome in verdict["outcomes"]]


def test_the_description_is_of_these_routes(client: httpx.Client, served: Serving) -> None:
    """OpenAPI has every route with its methods, and the answers follow it."""
    whole = client.get("/openapi.json").json()
    answers: dict[tuple[str, str], Callable[[], httpx.Response]] = {
        ("/healthz", "get"): lambda: client.get("/healthz"),
        ("/openapi.json", "get"): lambda: client.get("/openapi.json"),
        ("/fire", "post"): lambda: client.post("/fire", json=tool("Denies", served.base)),
        ("/hook/{dialect}", "post"): lambda: client.post("/hook/claude", json=tool("Rewrites", served.base)),
    }

    described = {(path, method) for path, methods in whole["paths"].items() for method in methods}
    assert described == {*answers, ("/events", "get")}
    assert whole["servers"] == [{"url": served.url}]
    for (path, method), answer in answers.items():
        found = answer()
        schema = whole["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
        _validate(found.json(), schema, whole)
        assert found.status_code == 200
    for wrong in (client.get("/x"), client.post("/fire", content=b"{"), client.post("/hook/klingon")):
        _validate(wrong.json(), {"$ref": "#/components/schemas/Error"}, whole)
    for named in re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(whole)):
        there = whole
        for part in named.split("/"):
            there = there[part]


def _validate(value: Any, schema: dict[str, Any], whole: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator({**schema, "components": whole["components"]}).validate(value)


# -- what each dialect is answered

INSIDE = "hookSpecificOutput"
ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({"tool_name": "Other"}, {}),
    "deny": ({"tool_name": "Denies"}, {INSIDE: {"permissionDecision": "deny", "permissionDecisionReason": "not here"}}),
    "ask": (
        {"tool_name": "Asks"},
        {INSIDE: {"permissionDecision": "ask", "permissionDecisionReason": "a person decides"}},
    ),
    "allow": ({"tool_name": "Allows"}, {INSIDE: {"permissionDecision": "allow", "permissionDecisionReason": "fine"}}),
    "context": ({"tool_name": "Injects"}, {INSIDE: {"additionalContext": "mind the gap"}}),
    "rewrite": ({"tool_name": "Rewrites"}, {INSIDE: {"updatedInput": {"command": "ls"}}}),
    "stop": (
        {"tool_name": "Stops"},
        {
            "continue": False,
            "stopReason": "enough",
            INSIDE: {"permissionDecision": "deny", "permissionDecisionReason": "enough"},
        },
    ),
    "permission": (
        {"hook_event_name": "PermissionRequest", "tool_name": "Denies"},
        {INSIDE: {"decision": {"behavior": "deny", "message": "not here"}}},
    ),
    "prompt": (
        {"hook_event_name": "UserPromptSubmit", "prompt": "a forbidden word"},
        {"decision": "block", "reason": "no such words"},
    ),
    "prompt context": (
        {"hook_event_name": "UserPromptSubmit", "prompt": "hello"},
        {INSIDE: {"additionalContext": "be brief"}},
    ),
    "keep going": (
        {"hook_event_name": "Stop", "stop_hook_active": False},
        {"decision": "block", "reason": "run the tests first"},
    ),
    "compact": ({"hook_event_name": "PreCompact", "trigger": "auto"}, {"decision": "block", "reason": "not now"}),
    "compact allowed": ({"hook_event_name": "PreCompact", "trigger": "manual"}, {}),
    "after": (
        {"hook_event_name": "PostToolUse", "tool_name": "Injects", "tool_response": "done"},
        {INSIDE: {"additionalContext": "mind the gap"}},
    ),
    "output": (
        {"hook_event_name": "PostToolUse", "tool_name": "Rewrites", "tool_response": "done"},
        {INSIDE: {"updatedToolOutput": "tidied"}},
    ),
}


def _asked(fields: dict[str, Any], base: Path) -> dict[str, Any]:
    about_a_tool = {"tool_input": {"command": "true"}} if "tool_name" in fields else {}
    return {**event("PreToolUse", base), **about_a_tool, **fields}


@pytest.mark.parametrize("case", ANSWERS)
def test_claude_is_answered_as_on_stdout(client: httpx.Client, served: Serving, case: str) -> None:
    """A 200 with the JSON that a command hook prints: the agent reads both by the same schema."""
    fields, expected = ANSWERS[case]
    asked = _asked(fields, served.base)
    if INSIDE in expected:
        expected = {**expected, INSIDE: {"hookEventName": asked["hook_event_name"], **expected[INSIDE]}}

    found = client.post("/hook/claude", json=asked)

    said = re.sub(r"\. The user can allow this call once: `billhook allow-once \w{6}`", "", found.text)
    assert (found.status_code, json.loads(said)) == (200, expected)


@pytest.mark.parametrize("dialect", SPOKEN)
@pytest.mark.parametrize("case", [case for case in ANSWERS if case != "output"])
def test_every_dialect_reads_its_answer_as_it_was_meant(
    client: httpx.Client, served: Serving, dialect: str, case: str
) -> None:
    """What a hook decides comes out of the JSON alone: no exit code helps over HTTP."""
    fields, expected = ANSWERS[case]
    asked = _asked(fields, served.base)
    if dialect.startswith("claw") and isinstance(asked.get("tool_response"), str):
        asked["tool_output"] = asked.pop("tool_response")

    found = client.post(f"/hook/{dialect}", json=asked)

    read = DIALECTS[dialect].read_exit(parse(_asked(fields, served.base)), Exit(code=0, stdout=found.content)).answer
    inside = expected.get(INSIDE, {})
    held_up = inside.get("permissionDecision") or inside.get("decision", {}).get("behavior")
    assert found.status_code == 200
    if case in ("prompt", "compact"):
        held_up = "deny"
    assert read.decision == (held_up or "none")
    assert read.context == inside.get("additionalContext", "")
    assert read.updated_input == inside.get("updatedInput")
    assert read.keep_going == (case == "keep going")
    if case == "stop":
        assert read.stop == (dialect in ("claude", "lesson"))


def _sample(name: str) -> Event:
    made = guessed(json.dumps({"hook_event_name": name}).encode(), "")
    assert made is not None
    return made


REFUSALS: dict[str, Answer] = {"deny": deny("no"), "ask": ask("?"), "defer": defer("later"), "stop": stop("enough")}


@pytest.mark.parametrize("dialect", SPOKEN)
@pytest.mark.parametrize("name", [*EVENTS, "SomethingNew"])
def test_what_holds_an_event_up_is_obeyed(name: str, dialect: str) -> None:
    """On every event and in every dialect the JSON of a refusal is a refusal for who reads it, and never nothing."""
    about, spoken = _sample(name), DIALECTS[dialect]
    for reported, answer in REFUSALS.items():
        output = as_json(spoken, about, answer).output
        read = spoken.read_exit(about, Exit(code=0, stdout=json.dumps(output).encode())).answer
        held_up = read.objects or read.decision in (Decision.ASK, Decision.DEFER)
        if about.gates or about.block is Block.STOP:
            assert held_up, reported
        if about.block is Block.KEEP_GOING:
            assert read.keep_going or read.stop, reported
    going = as_json(spoken, about, keep_going("more"))[0]
    read = spoken.read_exit(about, Exit(code=0, stdout=json.dumps(going).encode())).answer
    assert read.keep_going == (about.block is Block.KEEP_GOING)


@pytest.mark.parametrize("dialect", SPOKEN)
@pytest.mark.parametrize("name", [*EVENTS, "SomethingNew"])
def test_a_refusal_of_an_unknown_event_refuses_and_keeps_no_agent_running(name: str, dialect: str) -> None:
    """If the event is unknown, the answer refuses gates and lets an agent stop."""
    about, spoken = _sample(name), DIALECTS[dialect]

    read = spoken.read_exit(about, Exit(code=0, stdout=json.dumps(refusal_output("?")).encode())).answer

    if about.gates or about.block is Block.STOP:
        assert read.objects
    if about.block is Block.KEEP_GOING:
        assert read.stop or not read.keep_going


AGENTS = ("codex", "gemini", "qwen", "copilot", "cursor", "opencode", "universal")


@pytest.mark.parametrize("dialect", AGENTS)
def test_a_refusal_in_the_words_of_an_agent(dialect: str) -> None:
    """Whatever an agent can be denied is denied in JSON alone, in words that it obeys; a refusal of an event that it
    does not have holds for who reads it as the reference does."""
    spoken, rows = DIALECTS[dialect], CAPABILITIES.get(dialect, CAPABILITIES["claude"])
    for name in EVENTS:
        about = _sample(name)
        for reported, answer in REFUSALS.items():
            output = as_json(spoken, about, answer).output
            read = spoken.read_exit(about, Exit(code=0, stdout=json.dumps(output).encode()))
            if name in rows and rows[name].deny:
                assert read.answer.objects and not read.error, (name, reported, output)
            elif about.gates and name not in rows:
                assert read.answer.objects, (name, reported, output)
        unknown = json.dumps(refusal_output("?", dialect)).encode()
        if name == "PreToolUse":
            assert spoken.read_exit(about, Exit(code=0, stdout=unknown)).answer.objects
        if about.block is Block.KEEP_GOING and dialect not in ("qwen", "universal"):  # these can't be told to stop
            read = spoken.read_exit(about, Exit(code=0, stdout=unknown))
            assert read.answer.stop or not read.answer.keep_going


ASKED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "codex": (
        "",
        {"hook_event_name": "PreToolUse", "tool_name": "Denies", "turn_id": "t", "model": "m"},
        {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not here"}},
    ),
    "gemini": (
        "",
        {"hook_event_name": "BeforeTool", "tool_name": "Denies"},
        {"decision": "deny", "reason": "not here"},
    ),
    "qwen": (
        "",
        {"hook_event_name": "PreToolUse", "tool_name": "Denies"},
        {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not here"}},
    ),
    "copilot": (
        "?event=preToolUse",
        {"sessionId": "s", "timestamp": 1, "toolName": "Denies", "toolArgs": "{}"},
        {"permissionDecision": "deny", "permissionDecisionReason": "not here"},
    ),
    "cursor": (
        "",
        {"hook_event_name": "preToolUse", "tool_name": "Denies", "conversation_id": "c"},
        {"permission": "deny", "user_message": "not here", "agent_message": "not here"},
    ),
    "universal": (
        "",
        {"hook_event_name": "PreToolUse", "tool_name": "Denies"},
        {"decision": "block", "permissionDecision": "deny", "permission": "deny"},
    ),
}


@pytest.mark.parametrize("dialect", ASKED)
def test_every_agent_is_answered_in_its_words(client: httpx.Client, served: Serving, dialect: str) -> None:
    """The event in the agent's own form, the answer in the fields that it honours."""
    query, fields, expected = ASKED[dialect]
    asked = {"cwd": str(served.base), "session_id": f"http-{dialect}", "tool_input": {}, **fields}

    found = client.post(f"/hook/{dialect}{query}", json=asked)

    assert found.status_code == 200
    output = found.json()
    for key, value in expected.items():
        inner = value.items() if isinstance(value, dict) else [(key, value)]
        answered = output[key] if isinstance(value, dict) else output
        assert all(answered[field].startswith(text) for field, text in inner), output  # the reason ends with a code


def test_context_waits_over_http_too(client: httpx.Client, served: Serving) -> None:
    """What Gemini can't be told before a tool it is told after it."""
    asked = {"cwd": str(served.base), "session_id": "waits", "tool_name": "Injects", "tool_input": {}}

    before = client.post("/hook/gemini", json={**asked, "hook_event_name": "BeforeTool"})
    after = client.post("/hook/gemini", json={**asked, "hook_event_name": "AfterTool", "tool_response": {}})

    assert "mind the gap" not in before.text
    assert after.json()[INSIDE]["additionalContext"].count("mind the gap") == 2


def test_texts_survive(client: httpx.Client, served: Serving) -> None:
    """Odd characters in an event neither break the answer nor its log."""
    asked = tool("Denies", served.base, extra="\ud800 \u2028 é 🪝\0")
    found = client.post("/hook/claude", content=json.dumps(asked).encode())

    assert found.json()[INSIDE]["permissionDecision"] == "deny"
    assert inject("x").context == "x"


# -- whose hooks, and what they are given


def test_hooks_get_a_small_environment_and_the_project(client: httpx.Client, served: Serving) -> None:
    """Home, PATH, user and language of the daemon, and nothing else of it; the header names the project."""
    project = served.base / "project é"
    project.mkdir(exist_ok=True)
    asked = tool("Env", served.base, "PostToolUse", tool_response="x")
    headers = {"X-Billhook-Project": os.fsencode(project)}

    found = client.post("/hook/claude", json=asked, headers=headers)  # type: ignore[arg-type]

    lines = (served.base / "work" / "environment").read_text().splitlines()
    env = dict(line.split("=", 1) for line in lines if "=" in line)
    assert found.json() == {}
    assert (env["HOME"], env["USER"], env["LANG"]) == (str(served.base / "home"), "tester", "C.UTF-8")
    assert env["PATH"] == os.environ["PATH"]
    assert "SECRET_OF_THE_DAEMON" not in env
    assert env["CLAUDE_PROJECT_DIR"] == str(project)


def test_who_sends_no_cwd_names_the_project(client: httpx.Client, served: Serving) -> None:
    """Older protocols have no field for the folder."""
    asked = {"hook_event_name": "PreToolUse", "tool_name": "Denies", "tool_input": {}}

    found = client.post("/hook/claw", json=asked, headers={"X-Billhook-Project": str(served.base / "work")})

    assert found.json()[INSIDE]["permissionDecisionReason"] == "not here"


def test_the_log_names_http(client: httpx.Client, served: Serving) -> None:
    """A record shows that the event came over HTTP, and its dialect; also for an event that could not be checked."""
    session = "of-the-log"
    for path in ("/hook/claude", "/hook/claw", "/hook/claw-text", "/hook/lesson", "/fire"):
        client.post(path, json={**tool("Denies", served.base), "session_id": session})
    client.post("/hook/claude", json={**tool("Denies", served.base), "session_id": session, "cwd": "relative"})

    hosts = [record["host"] for record in served.log() if record.get("session_id") == session]
    expected = ["http", "http:claude", "http:claude", "http:claw", "http:claw-text", "http:lesson"]
    assert sorted(hosts) == expected


# -- when it can't be judged


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server whose user has configured nothing."""
    base = tmp_path_factory.mktemp("bare")
    (base / "work").mkdir()
    own = base / "home" / ".config" / "billhook" / "hooks.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("guard: off\n")  # it is a gate
    with serving(base) as running:
        yield running


BROKEN: dict[str, tuple[Any, str]] = {
    "no JSON": (b'{"hook_event_name": "PreToolUse", ', "not JSON"),
    "empty": (b"", "not JSON"),
    "two documents": (b"{}{}", "not JSON"),
    "a list": (b"[]", "expected an object"),
    "no name": (b"{}", "$.hook_event_name"),
    "bad UTF-8": (b'{"hook_event_name": "PreToolUse\xff"}', "did you mean"),
    "deep": (b'{"hook_event_name":"PreToolUse","tool_name":"x","tool_input":' + b"[" * 5000, "not JSON"),
    "wrong type": ({"hook_event_name": "PreToolUse", "cwd": "/", "tool_name": 7, "tool_input": {}}, "$.tool_name"),
    "missing field": ({"hook_event_name": "PreToolUse", "cwd": "/", "tool_input": {}}, "$.tool_name"),
    "no folder": ({"hook_event_name": "Stop"}, "$.cwd"),
    "mistyped": ({"hook_event_name": "PreTolUse", "cwd": "/"}, "did you mean `PreToolUse`"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_event_is_an_error_where_nothing_guards(bare: Serving, case: str) -> None:
    """400, what is wrong, and where: in this folder nothing is configured that could want to refuse it."""
    body, message = BROKEN[case]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    project = {"X-Billhook-Project": str(bare.base / "work")} if case != "no folder" else {}
    with bare.client() as client:
        for path in ("/fire", "/hook/claude"):
            if path == "/hook/claude" and case == "no folder":
                continue
            found = client.post(path, content=content, headers=project)
            assert found.status_code == 400, path
            assert message in found.json()["error"]["message"]


NOBODYS: dict[str, bytes] = {
    "no JSON": b"{",
    "empty": b"",
    "no folder": b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}',
    "a relative folder": b'{"hook_event_name": "PreToolUse", "cwd": "work", "tool_name": "Bash", "tool_input": {}}',
    "a folder beyond what is read": b'{"hook_event_name": "PreToolUse", "tool_input": "%b", "cwd": "/"}'
    % (b"x" * (8 * 1024 * 1024)),
}


@pytest.mark.parametrize(
    ("case", "dialect"), [*((case, "claude") for case in NOBODYS), ("no JSON", "gemini"), ("no folder", "claw")]
)
def test_an_event_of_an_unknown_project_is_refused(bare: Serving, case: str, dialect: str) -> None:
    """Whether the project has a gate is unknown, and with an error status the agent would continue."""
    began = time.monotonic()
    with bare.client() as client:
        found = client.post(f"/hook/{dialect}", content=NOBODYS[case])
        let = client.post(f"/hook/{dialect}?on_failure=allow", content=NOBODYS[case])

    assert time.monotonic() - began < 8, "what has come is not waited for"
    assert found.status_code == 200
    assert "deny" in found.text or "block" in found.text
    assert (let.status_code, let.json()) == (200, {})


@pytest.mark.parametrize("case", [case for case in BROKEN if case != "no folder"])
def test_what_is_no_event_is_refused_where_something_guards(client: httpx.Client, case: str) -> None:
    """An agent continues if its hook returns an error, so a refusal is a 200 with a body."""
    body, _ = BROKEN[case]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    for dialect in ("claude", "claw-text"):
        found = client.post(f"/hook/{dialect}", content=content)
        if dialect == "claw-text" and case == "empty":
            continue  # in that dialect it may be an event of the environment
        reported = found.json()
        refused = reported.get("decision") == "block" or reported.get(INSIDE, {}).get("permissionDecision") == "deny"
        assert found.status_code == 200 and refused, reported
        assert found.headers["x-billhook-note"]
    assert client.post("/fire", content=content).status_code == 400


@pytest.mark.parametrize(
    ("on_failure", "status", "reported"),
    [("allow", 200, {}), ("deny", 200, {"decision": "block"}), ("", 400, {})],
)
def test_on_failure_decides_what_becomes_of_what_can_not_be_judged(
    bare: Serving, on_failure: str, status: int, reported: dict[str, Any]
) -> None:
    """`?on_failure=` is what `--on-failure` is elsewhere."""
    query = {"on_failure": on_failure} if on_failure else {}
    with bare.client() as client:
        project = {"X-Billhook-Project": str(bare.base / "work")}
        found = client.post("/hook/claude", content=b"{", params=query, headers=project)

    assert found.status_code == status
    if status == 200:
        assert reported.items() <= found.json().items() and bool(found.json()) == bool(reported)


def test_the_query_names_the_event_where_the_body_does_not(client: httpx.Client, served: Serving) -> None:
    """`?event=` is the event's name on the command line."""
    asked = tool("Denies", served.base)
    del asked["hook_event_name"]

    found = client.post("/hook/claude", json=asked, params={"event": "PreToolUse"})

    assert found.json()[INSIDE]["permissionDecision"] == "deny"


@pytest.mark.parametrize(
    "query",
    [
        "deadline=soon",
        "deadline=0",
        "deadline=-1",
        "on_failure=perhaps",
        "onfailure=deny",
        "deadline=1&deadline=2",
        "event=--config=/etc/passwd",
        "config=/etc/passwd",
        "event=",
    ],
)
def test_a_query_that_makes_no_sense_refuses(client: httpx.Client, served: Serving, query: str) -> None:
    """Like an invalid option of a command hook; `/fire` reports the error."""
    asked = tool("Other", served.base)
    found = client.post(f"/hook/claude?{query}", json=asked)
    fired = client.post(f"/fire?{query}", json=asked)

    assert (found.status_code, fired.status_code) == (200, 400)
    assert "deny" in found.text or "block" in found.text
    assert fired.json()["error"]["message"]
    assert "--" not in fired.text.replace("--config=/etc/passwd", "") and "--" not in found.text


@pytest.mark.parametrize(
    ("case", "expected"),
    [({"cwd": "work"}, "$.cwd"), ({"cwd": "./x"}, "$.cwd")],
    ids=["relative", "dotted"],
)
def test_a_relative_folder_is_refused(
    client: httpx.Client, served: Serving, case: dict[str, str], expected: str
) -> None:
    """The base of a relative path is unknown."""
    asked = {**tool("Other", served.base), **case}

    fired = client.post("/fire", json=asked)
    assert fired.status_code == 400 and expected in fired.json()["error"]["message"]
    assert client.post("/hook/claude", json=asked).json()[INSIDE]["permissionDecision"] == "deny"
    named = client.post("/fire", json=tool("Other", served.base), headers={"X-Billhook-Project": "work"})
    assert named.status_code == 400


def test_a_deadline_is_kept(client: httpx.Client, served: Serving) -> None:
    """The answer is there before the agent's timeout, and a gate that was too slow has refused."""
    began = time.monotonic()
    found = client.post("/hook/claude?deadline=300", json=tool("Slow", served.base))

    assert time.monotonic() - began < 8
    assert found.json()[INSIDE]["permissionDecision"] == "deny"


def test_a_gate_that_crashes_refuses(client: httpx.Client, served: Serving) -> None:
    """And a note reports the problem."""
    found = client.post("/hook/claude", json=tool("Crashes", served.base))

    assert found.json()[INSIDE]["permissionDecision"] == "deny"
    assert "exit code 7" in found.headers["x-billhook-note"]


def test_who_goes_away_takes_its_hooks_along(served: Serving) -> None:
    """A request whose client has disconnected is cancelled."""
    folder = served.base / "leaving"
    folder.mkdir(exist_ok=True)
    with served.client() as impatient, pytest.raises(httpx.ReadTimeout):
        impatient.post("/hook/claude", json={**tool("Slow", served.base), "cwd": str(folder)}, timeout=1.5)

    pid = int((folder / "pid").read_text())
    end = time.monotonic() + 15
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}")


def test_two_hundred_at_once_get_their_own_answers(served: Serving) -> None:
    """Each client gets its own answer."""
    wanted = {"Denies": "deny", "Asks": "ask", "Allows": "allow", "Rewrites": None}

    async def everybody() -> list[tuple[str, Any]]:
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(
            base_url=served.url, headers=served.headers, timeout=60, limits=limits, trust_env=False, verify=False
        ) as client:

            async def one(number: int) -> tuple[str, Any]:
                called = list(wanted)[number % len(wanted)]
                found = await client.post("/hook/claude", json=tool(called, served.base))
                return called, found.json()[INSIDE].get("permissionDecision")

            return await asyncio.gather(*map(one, range(200)))

    assert [reported for reported in asyncio.run(everybody()) if wanted[reported[0]] != reported[1]] == []


# -- the stream


def _events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of a stream: their kind and data."""
    kind = ""
    for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


def _watched(client: httpx.Client, query: str, count: int, do: Callable[[], object]) -> list[dict[str, Any]]:
    """The first verdicts of a stream, which begins before something is done."""
    with client.stream("GET", f"/events{query}") as stream, ThreadPoolExecutor(1) as aside:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert next(lines) == ": watching"
        done = aside.submit(do)
        found = [data for _, (kind, data) in zip(range(count), _events(lines), strict=False) if kind == "verdict"]
        done.result()
        return found


def test_the_description_names_what_there_is(client: httpx.Client) -> None:
    """`openapi.json` has every dialect, event and field of an answer."""
    whole = client.get("/openapi.json").json()
    schemas = whole["components"]["schemas"]
    assert whole["info"]["version"] == __version__ and whole["servers"] == [{"url": str(client.base_url)}]
    assert whole["paths"]["/hook/{dialect}"]["post"]["parameters"][0]["schema"]["enum"] == list(hook_server.DIALECTS)
    assert ", ".join(EVENTS) in schemas["Event"]["description"]
    assert list(schemas["Answer"]["properties"]) == list(UNIVERSAL)


def test_the_stream_tells_of_all_who_ask(client: httpx.Client, served: Serving) -> None:
    """Verdicts over HTTP, and those of the socket."""
    whole = client.get("/openapi.json").json()

    def ask_all() -> None:
        client_of_mine = served.client()
        with client_of_mine:
            client_of_mine.post("/hook/claw", json=tool("Denies", served.base))
            client_of_mine.post("/fire", json=tool("Asks", served.base))
        code, stdout, _ = served.over_the_socket(tool("Denies", served.base), "--as", "claude")
        assert code == 0 and b"not here" in stdout

    found = _watched(client, "", 3, ask_all)

    reported = [(one["host"], one["event"], one["tool"], one["decision"], one["session_id"]) for one in found]
    assert reported == [
        ("http:claw", "PreToolUse", "Denies", "deny", "s-1"),
        ("http", "PreToolUse", "Asks", "ask", "s-1"),
        ("claude", "PreToolUse", "Denies", "deny", "s-1"),
    ]
    for one in found:
        _validate(one, {"$ref": "#/components/schemas/StreamedVerdict"}, whole)


def test_the_stream_can_be_narrowed(client: httpx.Client, served: Serving) -> None:
    """By session and by event, each of which may be given several times."""

    def ask_all() -> None:
        with served.client() as mine:
            for session in ("a", "b", "c"):
                mine.post("/fire", json={**tool("Asks", served.base), "session_id": session})
                mine.post("/fire", json={**event("Stop", served.base), "session_id": session})
                mine.post("/fire", json={**event("PreCompact", served.base, trigger="auto"), "session_id": session})

    found = _watched(client, "?session=a&session=c&event=Stop&event=PreCompact", 4, ask_all)

    assert [(one["session_id"], one["event"]) for one in found] == [
        ("a", "Stop"),
        ("a", "PreCompact"),
        ("c", "Stop"),
        ("c", "PreCompact"),
    ]


def test_the_stream_has_no_secrets(client: httpx.Client, served: Serving) -> None:
    """They are taken out as in the log."""

    def do() -> None:
        with served.client() as mine:
            mine.post("/fire", json=tool("Secret", served.base))

    (found,) = _watched(client, "", 1, do)

    assert TOKEN_OF_SOMEBODY not in json.dumps(found)
    assert found["reason"].startswith("never use ")


def test_a_hook_that_asks_this_very_server_goes_in_no_circle(tmp_path: Path) -> None:
    """An agent's settings are our configuration, too: its HTTP hook, which is us, is one of our hooks then. Without a
    token, because hooks get a small environment."""
    (tmp_path / "work").mkdir()
    with serving(tmp_path) as running, running.client() as client:
        address_of_us = f"{running.url}/hook/claude"
        hook = {"type": "http", "url": address_of_us, "headers": {"Authorization": "Bearer $T"}, "onFailure": "block"}
        settings = tmp_path / "home" / ".claude" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}))

        found = client.post("/hook/claude", json=tool("Other", tmp_path))
        hosts = [record["host"] for record in running.log()]
        stranger = httpx.post(address_of_us, json={}, headers={"User-Agent": "billhook"}, trust_env=False, verify=False)

    assert (found.status_code, found.json()) == (200, {})
    assert hosts == ["http:claude"]
    assert stranger.status_code == 401


# -- starting it


def test_the_verb_listens(tmp_path: Path) -> None:
    """`billhook daemon run --http` is enough, and `billhook daemon status` shows the address."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "BILLHOOK_HOME": str(tmp_path / "state")}
    billhook = [sys.executable, "-m", "billhook", "daemon"]
    with subprocess.Popen([*billhook, "run", "--http", "127.0.0.1:0"], env=env, stderr=subprocess.PIPE) as daemon:
        try:
            assert daemon.stderr is not None and b"listening" in daemon.stderr.readline()
            told = subprocess.run([*billhook, "status", "--json"], env=env, capture_output=True, check=True)
            token = (tmp_path / "state" / "billhook" / "daemon" / "token").read_text().strip()
            url = json.loads(told.stdout)["http"]
            asked = {"hook_event_name": "Stop", "cwd": str(tmp_path)}
            headers = {"Authorization": f"Bearer {token}"}
            found = httpx.post(f"{url}/fire", json=asked, headers=headers, trust_env=False, verify=False, timeout=20)
            counted = subprocess.run([*billhook, "status", "--json"], env=env, capture_output=True, check=True)
        finally:
            daemon.terminate()

    assert (found.status_code, found.json()["decision"]) == (200, "none")
    assert json.loads(counted.stdout)["requests"] == 1
    assert token not in (tmp_path / "state" / "billhook" / "daemon" / "log").read_text()


@pytest.mark.parametrize("text", ["", ":", "8123", ":8123", "localhost", "localhost:", "::1:8123", "a:b", "h:65536"])
def test_an_invalid_address(text: str) -> None:
    """The message has an example."""
    with pytest.raises(UsageError, match="invalid address"):
        address(text)


def test_addresses() -> None:
    """Names and both kinds of numbers."""
    assert address("127.0.0.1:8123") == ("127.0.0.1", 8123)
    assert address("localhost:0") == ("localhost", 0)
    assert address("[::1]:80") == ("::1", 80)


def _start(folder: Path, host: str = "127.0.0.1", port: int = 0, *, exposed: bool = False) -> str:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def begin() -> str:
        running = await serve(EnginePool(), host, port, folder, exposed=exposed)
        await running.close()
        return running.url

    return asyncio.run(begin())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_are_not_served(tmp_path: Path, host: str) -> None:
    """Unless that is explicitly requested."""
    with pytest.raises(UsageError, match="other machines") as raised:
        _start(tmp_path, host)

    assert "unencrypted" in raised.value.hint


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="there is no IPv6 here")
def test_the_loopback_has_a_longer_address(tmp_path: Path) -> None:
    """Its URL has brackets."""
    assert re.fullmatch(r"http://\[::1\]:\d+", _start(tmp_path, "::1"))


def test_to_be_reachable_can_be_meant(tmp_path: Path) -> None:
    """Then it listens."""
    assert _start(tmp_path, "0.0.0.0", exposed=True).startswith("http://0.0.0.0:")


def test_a_port_that_is_taken(tmp_path: Path, served: Serving) -> None:
    """It is reported."""
    with pytest.raises(UsageError, match="can't listen"):
        _start(tmp_path, "127.0.0.1", served.port)


def test_the_token_is_for_its_user_alone_and_stays(tmp_path: Path) -> None:
    """0600, long, and the same the next time: agents have it in their settings."""
    before = os.umask(0)
    try:
        _start(tmp_path / "d")
    finally:
        os.umask(before)
    file = tmp_path / "d" / "token"
    first = file.read_text()
    _start(tmp_path / "d")

    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == first and len(first.strip()) >= 43
    assert os.listdir(tmp_path / "d") == ["token"]


@pytest.mark.parametrize("how", ["readable", "writable", "a link", "short", "empty", "a folder"])
def test_a_token_that_can_not_be_trusted(tmp_path: Path, how: str) -> None:
    """What others may know or have chosen is no token."""
    file = tmp_path / "token"
    file.write_text("x" * 43 + "\n")
    file.chmod({"readable": 0o644, "writable": 0o620}.get(how, 0o600))
    if how == "a link":
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    elif how in ("short", "empty"):
        file.write_text("secret" if how == "short" else "")
    elif how == "a folder":
        file.unlink()
        file.mkdir()

    with pytest.raises(StoreError):
        _start(tmp_path)


def test_an_answer_that_stops_where_nothing_can_be_stopped() -> None:
    """It refuses what was about to happen instead."""
    worded = as_json(DIALECTS["claude"], _sample("PreCompact"), replace(stop("enough"), message="hm"))

    assert worded.output == {"decision": "block", "reason": "enough"}
    assert "stop became a deny" in worded.lost


def test_a_rewritten_output_fits_the_tool() -> None:
    """An output that Claude Code would ignore is adapted to the tool's shape, or ends the run."""
    read = {"type": "text", "file": {"filePath": "/f", "content": "SECRET"}}
    event = parse({"hook_event_name": "PostToolUse", "tool_name": "Read", "tool_input": {}, "tool_response": read})
    worded = as_json(DIALECTS["claude"], event, Answer(updated_output="***"))
    assert worded.output["hookSpecificOutput"]["updatedToolOutput"]["file"]["content"] == "***" and worded.lost
    worded = as_json(DIALECTS["claude"], event, Answer(updated_output={"type": "image"}))
    assert worded.output["continue"] is False and "updatedToolOutput" not in str(worded.output) and worded.lost


# -- the project of a session, and the token


@pytest.fixture
def projects(served: Serving, tmp_path: Path) -> tuple[str, str]:
    """One project whose gate denies, and a folder without any."""
    first, other = tmp_path / "first", tmp_path / "other"
    for folder in (first, other):
        (folder / ".git").mkdir(parents=True)
    return str(first), str(other)


def test_a_session_stays_in_its_project(served: Serving, projects: tuple[str, str]) -> None:
    """What began in a project is judged there, wherever the agent has gone since; the log names the project."""
    first, other = projects
    session = f"session of {first}"

    def project(cwd: str, session: str, **headers: str) -> str:
        body = {"hook_event_name": "PreToolUse", "session_id": session, "cwd": cwd, "tool_name": "X", "tool_input": {}}
        with served.client() as client:
            assert client.post("/hook/claude", json=body, headers=headers).status_code == 200
        return str(last_record(served)["project"])

    assert project(first, session) == first
    assert project(other, session) == first
    assert project(other, "another session") == other
    assert project(other, session, **{"X-Billhook-Project": other}) == other
    assert project(other, session, **{"X-Billhook-Project": "$CLAUDE_PROJECT_DIR"}) == first


def last_record(served: Serving) -> dict[str, Any]:
    files = (served.base / "state" / "hooks").glob("*/hooks.jsonl")
    lines = [line for file in files for line in file.read_text().splitlines()]
    records: list[dict[str, Any]] = sorted((json.loads(line) for line in lines), key=lambda one: str(one["time"]))
    return records[-1]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (None, "the request has no token"),
        ("Bearer", "the request has no token"),
        ("Bearer $BILLHOOK_TOKEN", "the request has no token"),
        ("Bearer " + "x" * 43, "wrong token"),
    ],
)
def test_what_to_set_when_the_token_is_missing(served: Serving, header: str | None, message: str) -> None:
    headers = {} if header is None else {"Authorization": header}
    found = httpx.post(f"{served.url}/hook/claude", json={}, headers=headers, trust_env=False)
    error = found.json()["error"]
    assert (found.status_code, message in error["message"]) == (401, True)
    assert 'export BILLHOOK_TOKEN="$(cat $BILLHOOK_HOME/billhook/daemon/token)"' in error["hint"]


@pytest.mark.parametrize(("state", "folder"), [(".claude", "~/.claude"), ("state", "$BILLHOOK_HOME")])
def test_the_file_of_the_token_can_be_copied_from_the_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, folder: str
) -> None:
    """A daemon in the background has BILLHOOK_HOME set, also where its user has not."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BILLHOOK_HOME", str(tmp_path / state))
    assert f"cat {folder}/billhook/daemon/token)" in str(_no_token("").hint)
