"""A minimal MCP server: one tool, `add_note`, over stdin and stdout. Standard library only."""

import json
import sys

_TOOL = {
    "name": "add_note",
    "description": "Adds a note.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def _result(method: str, params: dict[str, object]) -> dict[str, object]:
    match method:
        case "initialize":
            told = {"name": "notes", "version": "1.0"}
            spoken = params.get("protocolVersion", "2025-06-18")
            return {"protocolVersion": spoken, "capabilities": {"tools": {}}, "serverInfo": told}
        case "tools/list":
            return {"tools": [_TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": "note added"}]}
        case _:
            return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:  # everything else is a notification
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": _result(asked["method"], asked.get("params") or {})}
        print(json.dumps(answer), flush=True)  # noqa: T201 - its way to speak
