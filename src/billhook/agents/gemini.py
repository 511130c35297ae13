"""Gemini CLI: its own names for events, `decision` and `reason` at the top, and `hookSpecificOutput.tool_input`.

It ignores `hookSpecificOutput.permissionDecision`, so a deny hook that was copied from Claude Code allows. Context
before a tool is ignored, too, and waits here for AfterTool. A rewritten input is merged into the old one.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from billhook.agents import base
from billhook.agents.codec import AgentDialect, Payload, block, input_of, kinds
from billhook.core import client_env
from billhook.core.answer_schema import MisreadError
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Event

_WORDS_ONLY: Final = ("description", "instruction")
"""Fields of an input that only describe the call and don't change the tool's action."""


class _Gemini(AgentDialect):
    blocking = range(2, 256)
    specific = kinds("hookEventName additionalContext", objects="tool_input")
    context_in_output = True
    no_reason = no_output = "No reason provided"
    block_replaces_output = True

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        if payload.get("hook_event_name") == "AfterAgent" and "prompt_response" in payload:
            payload.setdefault("last_assistant_message", payload["prompt_response"])
        return payload

    def kind(self, name: str, payload: Payload) -> str:
        """A failed tool is a separate canonical event."""
        response = payload.get("tool_response")
        error = response.get("error") if isinstance(response, dict) else None
        if name != "PostToolUse" or not error:
            return name
        message = error.get("message") if isinstance(error, dict) else error
        payload.setdefault("error", message if isinstance(message, str) else "the tool failed")
        return "PostToolUseFailure"

    def refused(self, event: Event, wanted: Payload) -> str:
        gone = [key for key in input_of(event) if key not in wanted and key not in _WORDS_ONLY]
        return f"Gemini CLI would keep `{gone[0]}`, which the new input removes" if gone else ""

    def suit(self, event: Event, answer: Answer, lost: list[str]) -> Answer:
        """Fields without an effect can stay when an input is rewritten."""
        if answer.updated_input is not None:
            kept = {key: value for key, value in input_of(event).items() if key not in answer.updated_input}
            lost += [f"`{key}` of the input is unchanged" for key in kept]
            answer = replace(answer, updated_input={**kept, **answer.updated_input})
        return super().suit(event, answer, lost)

    def decide(self, event: Event, answer: Answer) -> tuple[Payload, Payload]:
        if answer.updated_input is not None:
            return {}, {"tool_input": self.sent_input(event, answer.updated_input)}
        if answer.decision is Decision.DENY:
            return self.deny_unknown(answer), {}
        if answer.updated_output is not UNSET:
            return {"decision": "deny", "reason": answer.updated_output}, {}
        return (block(answer.reason) if answer.keep_going else {}), {}

    def deny_unknown(self, answer: Answer) -> Payload:
        return {"decision": "deny", "reason": answer.reason}

    def read_decision(self, event: Event, fields: Payload, inside: Payload) -> Payload:
        if "permissionDecision" in fields.get("hookSpecificOutput", {}) and "decision" not in fields:
            raise MisreadError('Gemini CLI ignores `permissionDecision`; write "decision": "deny" at the top level')
        said = super().read_decision(event, fields, inside)
        if "tool_input" in inside:
            said["updated_input"] = self.merged(event, inside["tool_input"])
        return said

    def text(self, event: Event, text: str) -> Answer:
        return Answer(message=text)


# -- its files


def _trust(check: base.TrustCheck) -> Iterator[base.Trust]:
    environ = client_env.environ()
    forced = environ.get("GEMINI_CLI_TRUST_WORKSPACE")
    if forced in ("true", "false"):
        why = "the variable GEMINI_CLI_TRUST_WORKSPACE is set"
        yield check.folder(forced == "true", why, _NO_WINDOW)
    else:
        yield trusted_folders(check, environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH", ""), more=_NO_WINDOW)


_NO_WINDOW: Final = ". In non-interactive mode it does not start here"


def trusted_folders(check: base.TrustCheck, file: str = "", *, more: str = "", by_default: bool = True) -> base.Trust:
    """Whether a list of trusted folders contains this one. `by_default`: the list counts if nothing is set."""
    file = file or os.path.join(check.agent.home(), "trustedFolders.json")
    enabled = base.dig(check.settings(check.agent.file("user", check.project)), "security", "folderTrust", "enabled")
    if enabled is False or (enabled is None and not by_default):
        return base.Trust("ok", f"{check.agent.title} trusts every folder (`security.folderTrust` is off)")
    trusted = _by_rules(check.settings(file), os.path.realpath(check.project))
    return check.folder(trusted, file if trusted is not None else "", more)


def _by_rules(rules: Mapping[str, Any], project: str) -> bool | None:
    """The longest rule for a folder; None if there is none."""
    longest: tuple[int, bool | None] = (-1, None)
    for path, level in rules.items():
        effective = os.path.realpath(os.path.dirname(path) if level == "TRUST_PARENT" else path)
        inside = project == effective or project.startswith(os.path.join(effective, ""))
        if inside and len(path) > longest[0] and level in ("TRUST_PARENT", "TRUST_FOLDER", "DO_NOT_TRUST"):
            longest = len(path), level != "DO_NOT_TRUST"
    return longest[1]


def _start(agent: base.Agent, url: str, prompt: str, settings: base.Settings) -> base.Start:
    environ = {"GEMINI_API_KEY": base.CANARY_KEY, "GEMINI_TELEMETRY_ENABLED": "false"}
    if base.dig(settings(agent.file("user", "")), "security", "auth", "selectedType"):
        # Without a chosen method, it would treat the address as a gateway and need more settings; then only the proxy
        # works.
        environ["GOOGLE_GEMINI_BASE_URL"] = url
    return base.Start(("-p", prompt), environ)


_ONLY_ITS: Final = ("BeforeModel", "AfterModel", "BeforeToolSelection")
_EVENTS: Final = base.pairs(
    "PreToolUse=BeforeTool PostToolUse=AfterTool PostToolUseFailure=AfterTool UserPromptSubmit=BeforeAgent "
    "SessionStart=SessionStart SessionEnd=SessionEnd Stop=AfterAgent PreCompact=PreCompress Notification=Notification"
)


def _sends(payload: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    name = payload.get("original_event_name", payload.get("hook_event_name"))
    if name in _ONLY_ITS or (name in _EVENTS.values() and name not in _EVENTS):
        return 2
    session = environ.get("GEMINI_SESSION_ID")
    told = "hook_event_name" in payload and "timestamp" in payload
    return 1 if told and session and session == payload.get("session_id") else 0


AGENT: Final = base.Agent(
    name="gemini",
    title="Gemini CLI",
    meanings=Meanings(name="gemini", naming="gemini", join="\n\n", timeout=60.0, time_per_second=1000),
    event_names=_EVENTS,
    only_its=_ONLY_ITS,
    also_refused=frozenset({"BeforeModel"}),
    not_usual=frozenset({"PreCompact"}),  # it sends PreCompress at every turn, even without compaction
    tools=base.pairs(
        "run_shell_command=Bash read_file=Read write_file=Write replace=Edit glob=Glob grep_search=Grep "
        "search_file_content=Grep list_directory=LS web_fetch=WebFetch google_web_search=WebSearch "
        "write_todos=TodoWrite invoke_agent=Agent"
    ),
    inputs={
        "Bash": {"is_background": "run_in_background"},
        "Read": {"file_path": "file_path", "absolute_path": "file_path"},
        "Edit": {"allow_multiple": "replace_all"},
        "Glob": {"dir_path": "path"},
        "Grep": {"dir_path": "path"},
        "LS": {"dir_path": "path"},
        "Agent": {"agent_name": "subagent_type"},
    },
    capabilities=base.quiet(
        base.rounded(
            "PostToolUse",
            PreToolUse="deny rewrite_input stop message",
            PostToolUse="replace_output context stop message",
            PostToolUseFailure="context stop message",
            UserPromptSubmit="deny context stop message",
            SessionStart="context message",
            SessionEnd="",
            Stop="stop keep_going message",
            PreCompact="message",
            Notification="message",
        )
        | {"Stop": base.rounded_row("stop keep_going message", "UserPromptSubmit or PostToolUse")}
    ),
    sends=_sends,
    marks={"GEMINI_CLI": "", "GEMINI_SESSION_ID": ""},
    packages=(("@google", "gemini-cli"),),
    variable_files=(".gemini/.env",),
    program="gemini",
    project_file=".gemini/settings.json",
    user_file=".gemini/settings.json",
    traces=("settings.json", "tmp", "oauth_creds.json", "installation_id", "trustedFolders.json", "extensions"),
    transcripts=True,
    names_calls=False,
    home_variable="GEMINI_CLI_HOME",
    home_is="home",
    read_keys=frozenset({"env"}),
    trust=_trust,
    next_steps=(("project", base.TRUST_FIRST.format("Gemini CLI")),),
    start=_start,
    named=True,
    group={"sequential": True},  # one after another, billhook last: other hooks may rewrite the input
    system_message=True,
    parallel=True,
)
AGENTS = {"gemini": AGENT}
DIALECTS = {"gemini": _Gemini(AGENT)}
