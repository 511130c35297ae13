"""Cursor: `permission`, `user_message` and `agent_message`, one event for all tools and narrower ones for some.

The model reads `user_message` of a deny, so it contains the reason as well. Before a tool `ask` is accepted but not
obeyed, and of a rewritten input only some fields are used: what Cursor would silently ignore is refused here.
"""

import os
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from billhook.agents import base, parsed
from billhook.agents.codec import AgentDialect, Payload, checked_fields, decision_fields, input_of, kinds
from billhook.core import strictjson
from billhook.core.answer_schema import decision_of
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import JSON_FIELDS, Event
from billhook.core.tools import ALSO_EDITS

LONGEST_CONTEXT: Final = 10_000  # characters; longer context is dropped by the agent
_RENAMED: Final = base.pairs(
    "tool_output=tool_response error_message=error subagent_id=agent_id subagent_type=agent_type "
    "summary=last_assistant_message duration=duration_ms"
)
_REWRITABLE: Final = {
    "Bash": ("command", "cwd", "timeout"),
    "Read": ("file_path",),
    "Write": ("file_path",),
    "Delete": ("file_path",),
    "LS": ("path",),
    "Grep": ("pattern", "path"),
    "WebFetch": ("url",),
}
"""By tool: the fields of a rewritten input that the agent uses. For tools of MCP servers it uses all."""
_STAYING: Final = ("description", "cwd", "timeout")
"""Fields that the agent always sends and a rewritten input may omit: they are unchanged then."""
_TOP: Final = kinds(
    "permission user_message agent_message additional_context followup_message",
    booleans="continue",
    objects="updated_input",
)
_EARLIER: Final = {"userMessage": "user_message", "agentMessage": "agent_message"}  # the spelling of the first versions
_WORDS: Final = {"allow": Decision.NONE, "ask": Decision.ASK, "deny": Decision.DENY}
"""An allow only means that this hook has no objection."""


class _Cursor(AgentDialect):
    closed = "answer"
    stdout_first = True
    names = _RENAMED

    # -- reading

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        if not payload.get("session_id") and isinstance(payload.get("conversation_id"), str):
            payload["session_id"] = payload["conversation_id"]
        base.set_folder(payload, payload.get("workspace_roots"))
        payload = super().read(payload, env)
        if isinstance(payload.get("loop_count"), int):
            payload.setdefault("stop_hook_active", payload["loop_count"] > 0)
        named = payload.get("hook_event_name")
        if isinstance(named, str) and named in _PARTS:
            payload |= _PARTS[named].read(payload)
        if payload.get("tool_name") == "Write":  # one tool for both, and its input does not show which
            payload[ALSO_EDITS] = True
        payload |= {key: parsed(payload[key]) for key in JSON_FIELDS if key in payload}
        return _with_mcp_name(payload)

    def write(self, payload: Payload, event: Event) -> Payload:
        told = super().write(payload, event)
        told = {"conversation_id": event.session_id, "workspace_roots": [event.cwd] if event.cwd else [], **told}
        return _narrowed(told, event, self.part) if self.part else told

    # -- writing

    def row(self, event: Event) -> base.Capabilities:
        """The output of an MCP server's tool can be replaced."""
        row = super().row(event)
        after_mcp = event.hook_event_name == "PostToolUse" and _is_mcp(event)
        return replace(row, replace_output=True) if after_mcp and row.context else row

    def refused(self, event: Event, wanted: Payload) -> str:
        given = input_of(event)
        taken = _REWRITABLE.get(str(getattr(event, "tool_name", "")), ())
        changed = [key for key in wanted if key not in given or wanted[key] != given[key]]
        if not _is_mcp(event):
            changed = [key for key in changed if key not in taken]
        left_out = [key for key in given if key not in wanted and key not in _STAYING]
        odd = [*left_out, *changed]
        return f"Cursor would ignore the new value of `{odd[0]}`" if odd else ""

    def suit(self, event: Event, answer: Answer, lost: list[str]) -> Answer:
        if answer.updated_input is not None:
            lost += [f"`{key}` of the input is unchanged" for key in input_of(event) if key not in answer.updated_input]
        if len(answer.context) <= LONGEST_CONTEXT:
            return answer
        lost.append(f"context was cut: Cursor drops context of more than {LONGEST_CONTEXT:,} characters")
        return replace(answer, context=answer.context[: LONGEST_CONTEXT - 10] + " ... (cut)")

    def encode_answer(self, event: Event, answer: Answer) -> Payload:
        name = event.hook_event_name
        output: Payload = {}
        if name in ("PreToolUse", "SubagentStart"):
            output = self.deny_unknown(answer)
        elif name == "UserPromptSubmit" and answer.decision is Decision.DENY:
            output = {"continue": False, "user_message": answer.reason}
        elif answer.keep_going:
            output = {"followup_message": answer.reason}
        elif answer.message:
            output = {"user_message": answer.message}
        if answer.updated_input is not None:
            output["updated_input"] = self.sent_input(event, answer.updated_input)
        if answer.updated_output is not UNSET:
            output["updated_mcp_tool_output"] = answer.updated_output
        if answer.context:
            output["additional_context"] = answer.context
        return output

    def deny_unknown(self, answer: Answer) -> Payload:
        if answer.decision is Decision.NONE:
            return {}
        told = {"user_message": answer.reason, "agent_message": answer.reason} if answer.reason else {}
        return {"permission": answer.decision.value, **told}

    # -- reading

    def decode_answer(self, event: Event, output: Payload) -> Answer:
        fields = checked_fields({**{_EARLIER.get(key, key): value for key, value in output.items()}, **output}, _TOP)
        said: Payload = {"context": fields.get("additional_context", "")}
        if "permission" in fields:
            decision = decision_of("permission", fields["permission"], _WORDS)
            told = (fields.get("user_message", ""), fields.get("agent_message", ""))
            reason = "\n".join(text for text in dict.fromkeys(told) if text)
            said |= decision_fields(decision, reason, event) if decision is not Decision.NONE else {}
        elif fields.get("continue") is False and event.hook_event_name == "UserPromptSubmit":
            said |= decision_fields(Decision.DENY, fields.get("user_message", ""), event)
        elif fields.get("followup_message"):
            said |= {"keep_going": True, "reason": fields["followup_message"]}
        else:
            said["message"] = fields.get("user_message", "")
        if "updated_input" in fields:
            said["updated_input"] = self.merged(event, fields["updated_input"])
        if output.get("updated_mcp_tool_output") is not None:
            said["updated_output"] = output["updated_mcp_tool_output"]
        return Answer(**said)


# -- the narrower events, as calls of their tools


def _shell(payload: Payload) -> Payload:
    given = {key: payload[key] for key in ("command", "cwd") if key in payload}
    return {"tool_name": "Shell", "tool_input": given} | (
        {"tool_response": payload["output"]} if "output" in payload else {}
    )


def _mcp(payload: Payload) -> Payload:
    called = payload.get("tool_name")
    made: Payload = {"tool_name": f"MCP:{called}"} if isinstance(called, str) and ":" not in called else {}
    return made | ({"tool_response": payload["result_json"]} if "result_json" in payload else {})


def _file_read(payload: Payload) -> Payload:
    return {"tool_name": "Read", "tool_input": {"file_path": payload.get("file_path")}}


def _file_edited(payload: Payload) -> Payload:
    edits = payload.get("edits")
    given: Payload = {"file_path": payload.get("file_path"), "edits": edits}
    edit = base.only(edits)
    given |= {key: edit[key] for key in ("old_string", "new_string") if key in edit}
    return {"tool_name": "Edit", "tool_input": given}


_COMMON: Final = (
    "conversation_id generation_id model session_id cursor_version workspace_roots user_email transcript_path"
)
_LONGEST_CONTENT: Final = 1 << 20


def _narrowed(told: Payload, event: Event, part: str) -> Payload:
    """A call of a tool, by any agent, as the narrower event."""
    given = input_of(event)
    common: Payload = {key: told[key] for key in _COMMON.split() if key in told}
    return {**common, "hook_event_name": part, **_PARTS[part].write(given, told)}


def _shell_fields(given: Payload, told: Payload) -> Payload:
    fields = {"command": given.get("command", ""), "cwd": given.get("cwd") or told.get("cwd", "")}
    return fields | _result(told, "output")


def _mcp_fields(given: Payload, told: Payload) -> Payload:
    tool = str(told.get("tool_name", "")).removeprefix("MCP:").split("__")[-1]
    return {"tool_name": tool, "tool_input": strictjson.dumps(given)} | _result(told, "result_json")


def _result(told: Payload, name: str) -> Payload:
    if "tool_output" not in told:
        return {}
    result = told["tool_output"]
    if name == "output" and isinstance(result, dict) and isinstance(result.get("stdout"), str):
        result = f"{result['stdout']}{result.get('stderr') or ''}"
    text = result if isinstance(result, str) else strictjson.dumps(result)
    return {name: text, **({"duration": told["duration"]} if "duration" in told else {})}


def _read_fields(given: Payload, told: Payload) -> Payload:
    path = str(given.get("file_path", ""))
    return {"file_path": path, "content": _content(os.path.join(str(told.get("cwd", "")), path)), "attachments": []}


def _content(path: str) -> str:
    """The content of the file that is about to be read; empty if it can't be read at once."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST_CONTENT)
    except OSError:
        return ""


def _edit_fields(given: Payload, told: Payload) -> Payload:
    edits = given.get("edits")
    if not isinstance(edits, list):
        new = given.get("new_string", given.get("content", ""))
        edits = [{"old_string": given.get("old_string", ""), "new_string": new}]
    return {"file_path": given.get("file_path", ""), "edits": edits}


def _with_mcp_name(payload: Payload) -> Payload:
    """The agent does not send the name of a tool's server: `cursor` is used instead."""
    called = payload.get("tool_name")
    if isinstance(called, str) and called.startswith("MCP:"):
        server = payload.get("mcp_server_name")
        server = server if isinstance(server, str) and server else "cursor"
        payload |= {"tool_name": f"mcp__{server}__{called[4:]}", "original_tool_name": called}
    return payload


def _is_mcp(event: Event) -> bool:
    return str(getattr(event, "tool_name", "")).startswith("mcp__")


_DENY: Final = {"permission": "deny", "user_message": "@", "agent_message": "@"}
_BLOCKABLE: Final = "PreToolUse or PostToolUse"
_MCP_OUTPUT: Final = "(for tools of MCP servers, it replaces the output)"


class _Part(NamedTuple):
    event: str
    tools: str
    row: base.Capabilities
    read: Callable[[Payload], Payload]
    write: Callable[[Payload, Payload], Payload]


_OBSERVED: Final = base.rounded_row("", _BLOCKABLE, stop="is ignored", replace_output="is lost")
_SHELL: Final = ("Bash", base.rounded_row("deny ask", _BLOCKABLE), _shell, _shell_fields)
_MCP: Final = ("mcp__.*", base.rounded_row("deny ask", _BLOCKABLE), _mcp, _mcp_fields)
_READ: Final = _Part("PreToolUse", "Read", base.rounded_row("deny", _BLOCKABLE), _file_read, _read_fields)
_EDITED: Final = _Part("PostToolUse", "Edit|MultiEdit|Write", _OBSERVED, _file_edited, _edit_fields)
_PARTS: Final = {
    "beforeShellExecution": _Part("PreToolUse", *_SHELL),
    "beforeMCPExecution": _Part("PreToolUse", *_MCP),
    "beforeReadFile": _READ,
    "beforeTabFileRead": _READ,
    "afterShellExecution": _Part("PostToolUse", *_SHELL)._replace(row=_OBSERVED),
    "afterMCPExecution": _Part("PostToolUse", *_MCP)._replace(row=_OBSERVED),
    "afterFileEdit": _EDITED,
    "afterTabFileEdit": _EDITED,
}

_ONLY_HERE: Final = {"conversation_id", "generation_id"}  # an event with both is Cursor's

AGENT: Final = base.Agent(
    name="cursor",
    title="Cursor",
    meanings=Meanings(name="cursor", naming="cursor", join="\n\n", timeout=60.0),
    event_names={**base.LIKE_CLAUDE_IN_CAMEL_CASE, "UserPromptSubmit": "beforeSubmitPrompt"},
    narrower={name: part.event for name, part in _PARTS.items()},
    tools_of={name: part.tools for name, part in _PARTS.items()},
    only_its=("afterAgentResponse", "afterAgentThought", "workspaceOpen"),
    installs_own=True,
    tools={"Shell": "Bash", "StrReplace": "Edit", "List": "LS", "Fetch": "WebFetch", "Task": "Agent"},
    inputs={
        "Write": {"file_path": "file_path", "path": "file_path", "content": "content", "contents": "content"},
        "Edit": {"file_path": "file_path", "path": "file_path"},
        "Read": {"file_path": "file_path", "path": "file_path"},
        "LS": {"path": "path", "file_path": "path"},
        "Grep": {"path": "path", "file_path": "path"},
    },
    capabilities=base.rounded(
        _BLOCKABLE,
        PreToolUse="deny rewrite_input context",
        PostToolUse="context",
        PostToolUseFailure="context",
        UserPromptSubmit="deny context",
        SessionStart="context",
        SessionEnd="",
        Stop="keep_going",
        SubagentStart="deny",
        SubagentStop="keep_going",
        PreCompact="message",
    )
    | {
        "PostToolUse": base.rounded_row("context", _BLOCKABLE, replace_output=f"{base.LATE} {_MCP_OUTPUT}"),
        "SubagentStart": base.rounded_row("deny", _BLOCKABLE, rewrite_input=""),
    },
    narrower_capabilities={name: part.row for name, part in _PARTS.items()},
    taken_over="a command or a path",
    refusals=(
        base.Refusal("", 0, {"continue": False, **_DENY}, "http"),
        base.Refusal("subagent", 0, {"permission": "deny", "user_message": "@"}, "user project"),
        base.Refusal("subagent", 0, _DENY),
        base.Refusal("compact", 0, None),
        base.Refusal("prompt", 0, {"continue": False, "user_message": "@"}),
        base.Refusal("tool", 0, _DENY),
        base.Refusal("", 2, _DENY),
    ),
    parts=True,
    sends=lambda payload, _environ: 3 * ("cursor_version" in payload or payload.keys() >= _ONLY_HERE),
    reads_claude=("user", "project"),
    marks={"CURSOR_AGENT": ""},  # not CURSOR_TRACE_ID, which the user's terminal inside the editor has, too
    program="cursor-agent",
    headless=frozenset({"-p", "--print"}),
    without_program=True,  # the editor
    project_file=".cursor/hooks.json",
    user_file=".cursor/hooks.json",
    own_keys={"failClosed": "gate"},
    trust=lambda _: [base.Trust("unknown", "Cursor's files don't show whether it trusts this folder")],
    next_steps=(("any", "restart Cursor, and check Settings, Hooks for billhook"),),
    shape="flat",
    head={"version": 1},
    typed=False,
    fail_closed=("failClosed", True),
    also_refused=frozenset({"SubagentStart"}),
)
AGENTS = {"cursor": AGENT}
DIALECTS = {"cursor": _Cursor(AGENT), **{f"cursor:{part}": _Cursor(AGENT, part) for part in _PARTS}}
"""`cursor:beforeShellExecution`: for a hook for that event."""
