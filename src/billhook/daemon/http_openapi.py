"""What is served, in the words of OpenAPI 3.1."""

from typing import Any, Final

from billhook import __version__
from billhook.answering.arguments import DIALECTS
from billhook.events import EVENTS
from billhook.outputs.schema import UNIVERSAL

_JSON: Final = "application/json"
_NULLABLE_TEXT: Final = {"type": ["string", "null"]}
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_DECISIONS: Final = {"enum": ["none", "allow", "ask", "defer", "deny"]}
_SHAPES: Final = {
    "a string": {"type": "string"},
    "true or false": {"type": "boolean"},
    "an object": {"type": "object"},
    "a number from 0 to 10^12": {"type": "number", "minimum": 0},
}


def described(url: str) -> dict[str, Any]:
    """The whole description; `url` is where the server is."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "billhook",
            "version": __version__,
            "description": "Hooks of AI agents over HTTP: one event in, one verdict out. Loopback only, with a token.",
        },
        "servers": [{"url": url}],
        "security": [{"token": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The file `token` in the daemon's folder."}
            },
            "parameters": _parameters(),
            "responses": _responses(),
            "schemas": _schemas(),
        },
    }


def _paths() -> dict[str, Any]:
    refusals = {name: {"$ref": f"#/components/responses/{name}"} for name in ("401", "403")}
    errors = {name: {"$ref": f"#/components/responses/{name}"} for name in ("400", "408", "413", "415", "500")}
    judging = [{"$ref": f"#/components/parameters/{name}"} for name in ("on_failure", "deadline", "event", "project")]
    dialect = {"name": "dialect", "in": "path", "required": True, "schema": {"enum": list(DIALECTS)}}
    event = {"required": True, "content": {_JSON: {"schema": _ref("Event")}}}
    return {
        "/healthz": {
            "get": {
                "summary": "Whether it is there. Needs no token.",
                "security": [],
                "responses": {"200": _response("It is.", "Health"), "403": refusals["403"]},
            }
        },
        "/openapi.json": {
            "get": {
                "summary": "This description.",
                "responses": {
                    "200": {"description": "OpenAPI 3.1.", "content": {_JSON: {"schema": {"type": "object"}}}},
                    **refusals,
                },
            }
        },
        "/hook/{dialect}": {
            "post": {
                "summary": "Be an agent's HTTP hook: the event in its dialect, the answer in its dialect's JSON.",
                "description": "Whatever refuses is a 200 with a body that says so, also when the event could not be "
                "judged and a gate is configured for it: agents let an event pass when their hook answers with an "
                "error. `{}` is no objection.",
                "parameters": [dialect, *judging],
                "requestBody": event,
                "responses": {
                    "200": {
                        **_response("The answer.", "Answer"),
                        "headers": {"X-Billhook-Note": {"description": "What people ought to know.", "schema": _TEXT}},
                    },
                    "404": {"$ref": "#/components/responses/404"},
                    **refusals,
                    **errors,
                },
            }
        },
        "/fire": {
            "post": {
                "summary": "Ask the hooks about an event, and get the verdict.",
                "parameters": judging,
                "requestBody": event,
                "responses": {"200": _response("The verdict.", "Verdict"), **refusals, **errors},
            }
        },
        "/events": {
            "get": {
                "summary": "Verdicts as they are made, over the socket and over HTTP, as server-sent events.",
                "description": "`event: verdict` has a StreamedVerdict as its data, without secrets; `event: dropped` "
                'has {"dropped": N}, when so many were not sent because the reader was too slow. A comment comes '
                "after 15 s of silence.",
                "parameters": [_filter("session", "Only this session."), _filter("event", "Only this kind of event.")],
                "responses": {
                    "200": {"description": "The stream.", "content": {"text/event-stream": {"schema": _TEXT}}},
                    "503": {"$ref": "#/components/responses/503"},
                    "400": errors["400"],
                    **refusals,
                },
            }
        },
    }


_TEXT: Final = {"type": "string"}


def _filter(name: str, what: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "description": f"{what} May be repeated.",
        "schema": {"type": "array", "items": _TEXT},
        "style": "form",
        "explode": True,
    }


def _parameters() -> dict[str, Any]:
    return {
        "on_failure": {
            "name": "on_failure",
            "in": "query",
            "description": "What becomes of an event that can't be judged. Without it, it is refused where a gate is "
            "configured for it.",
            "schema": {"enum": ["allow", "deny"]},
        },
        "deadline": {
            "name": "deadline",
            "in": "query",
            "description": "Milliseconds until the answer has to be there.",
            "schema": {"type": "integer", "minimum": 1, "maximum": 999_999_999},
        },
        "event": {
            "name": "event",
            "in": "query",
            "description": "The event's name, where the body does not say it.",
            "schema": _TEXT,
        },
        "project": {
            "name": "X-Billhook-Project",
            "in": "header",
            "description": "The project's folder, an absolute path: CLAUDE_PROJECT_DIR of the hooks. Without it the "
            "event's `cwd` says whose hooks apply.",
            "schema": _TEXT,
        },
    }


def _responses() -> dict[str, Any]:
    meanings = {
        "400": "What was sent can't be read, and nothing refuses it.",
        "401": "The token is missing or wrong.",
        "403": "The request is for another host, or comes from a web page.",
        "404": "There is no such thing.",
        "408": "The body came too slowly.",
        "413": "The body is larger than 8 MiB.",
        "415": "The body is compressed.",
        "500": "A fault of billhook's own.",
        "503": "Too many watch already.",
    }
    return {status: _response(meaning, "Error") for status, meaning in meanings.items()}


def _response(meaning: str, schema: str) -> dict[str, Any]:
    return {"description": meaning, "content": {_JSON: {"schema": _ref(schema)}}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas() -> dict[str, Any]:
    return {
        "Event": {
            "type": "object",
            "description": f"One event, as its agent sends it: {', '.join(EVENTS)}, what the agent calls these, or "
            "one of another name.",
            "properties": {"hook_event_name": _TEXT, "session_id": _TEXT, "cwd": _TEXT, "tool_name": _TEXT},
        },
        "Answer": {
            "type": "object",
            "description": "What a hook's stdout would say in that dialect. Empty: no objection.",
            "properties": {name: _SHAPES[kind] for name, kind in UNIVERSAL.items()},
        },
        "Verdict": _verdict({}),
        "StreamedVerdict": _verdict({"time": _TEXT, "session_id": _TEXT, "cwd": _TEXT, "host": _TEXT}),
        "Outcome": _outcome(),
        "Health": _object({"status": {"const": "ok"}, "version": _TEXT}),
        "Error": _object(
            {"error": _object({"message": _TEXT, "place": _NULLABLE_TEXT, "hint": _NULLABLE_TEXT})},
        ),
    }


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), **more}


def _verdict(more: dict[str, Any]) -> dict[str, Any]:
    verdict = {
        **more,
        "id": _TEXT,
        "event": _TEXT,
        "decision": _DECISIONS,
        "reason": _NULLABLE_TEXT,
        "context": _TEXTS,
        "messages": _TEXTS,
        "tool_input": {"type": ["object", "null"]},
        "tool_output": True,
        "keep_going": {"type": "boolean"},
        "stop": {"type": "boolean"},
        "stop_reason": _NULLABLE_TEXT,
        "failed_open": {"type": "integer", "minimum": 0},
        "duration_ms": {"type": "number", "minimum": 0},
        "outcomes": {"type": "array", "items": _ref("Outcome")},
    }
    made = _object(verdict)
    if more:
        made["properties"] |= {
            "tool": _NULLABLE_TEXT,
            "cut": {"type": "boolean", "description": "It was too large: only the gist is here."},
        }
        made["required"] = ["id", "time", "event", "decision", "host"]
    made["properties"]["extras"] = {"type": "object"}
    return made


def _outcome() -> dict[str, Any]:
    made = _object(
        {
            "hook": _TEXT,
            "source": _NULLABLE_TEXT,
            "dialect": _TEXT,
            "status": {"enum": ["ok", "skipped", "failed", "timed_out", "could_not_start", "background"]},
            "decision": _DECISIONS,
            "reason": _NULLABLE_TEXT,
            "exit_code": {"type": ["integer", "null"]},
            "signal": {"type": ["integer", "null"]},
            "failed_open": {"type": "boolean"},
            "duration_ms": {"type": "number"},
            "error": _NULLABLE_TEXT,
            "lost": _TEXTS,
        }
    )
    made["properties"]["data"] = True
    return made
