"""Claude Code: the reference. Its events, settings and answers are those of every dialect that has no others.

Its codec is in `reference`, because every start of `billhook hook` needs that, and hardly any needs this record.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from billhook.agents.base import (
    ASK,
    BLOCK,
    CANARY_KEY,
    REFUSE,
    REFUSE_PERMISSION,
    REFUSE_TOOL,
    SHOWN,
    UNPREVENTED,
    Agent,
    Capabilities,
    Installed,
    Refusal,
    Settings,
    Start,
    Trust,
    quiet,
    row,
    way_up,
)
from billhook.core import client_env
from billhook.core import dialect_traits as rows
from billhook.core.events import EVENTS

_CAPABILITIES: Final[Mapping[str, Capabilities]] = {
    "PreToolUse": row("allow deny ask rewrite_input context stop message"),
    "PostToolUse": row("replace_output context stop message", deny=BLOCK),
    "PostToolUseFailure": row("context stop message", deny=BLOCK),
    "PostToolBatch": row("context stop message", deny="ends the run"),
    "PermissionRequest": row("allow deny rewrite_input stop message", ask=ASK),
    "PermissionDenied": row("stop message"),
    "UserPromptSubmit": row("deny context stop message", ask=ASK),
    "UserPromptExpansion": row("deny context stop message", ask=ASK),
    "Notification": row("context stop message"),
    "MessageDisplay": row("stop message"),
    "SessionStart": row("context stop message", deny=SHOWN),
    "SessionEnd": row(**UNPREVENTED),
    "Setup": row("context stop message", deny=SHOWN),
    "Stop": row("context stop keep_going message", deny="makes it go on"),
    "StopFailure": row(),
    "SubagentStart": row("context stop message", deny=SHOWN),
    "SubagentStop": row("context stop keep_going message", deny="makes it go on"),
    "TeammateIdle": row("stop keep_going message", deny="makes it go on"),
    "TaskCreated": row("deny message", ask=ASK, stop="is ignored"),
    "TaskCompleted": row("deny stop message", ask=ASK),
    "PreCompact": row("deny", ask=ASK, stop="is ignored"),
    "PostCompact": row(),
    "PreModelSwitch": row("allow deny ask stop message"),
    "PostModelSwitch": row("context stop message", deny=SHOWN),
    "Elicitation": row("allow deny stop message", ask=ASK),
    "ElicitationResult": row("allow deny stop message", ask=ASK),
    "ConfigChange": row("deny", ask=ASK, stop="is ignored"),
    "InstructionsLoaded": row(),
    "CwdChanged": row("message", deny=SHOWN),
    "FileChanged": row("message", deny=SHOWN),
    "DirectoryAdded": row("message", deny=SHOWN),
    "WorktreeCreate": row("deny stop message", ask=ASK),
    "WorktreeRemove": row(),
}

_MANAGED: Final = ("/etc/claude-code/managed-settings.json",)


def _trust(agent: Agent, project: str, _installed: Sequence[Installed], settings: Settings) -> Iterator[Trust]:
    yield from _switches(agent, project, settings)
    moved = client_env.environ().get(agent.home_variable)
    file = os.path.join(agent.home() if moved else client_env.abspath(client_env.expanduser("~")), ".claude.json")
    said = settings(file).get("projects")
    known = said if isinstance(said, dict) else {}
    above = [known[folder] for folder in way_up(project) if isinstance(known.get(folder), dict)]
    if any(one.get("hasTrustDialogAccepted") is True for one in above):
        yield Trust("ok", "Claude Code trusts this folder")
    elif os.path.realpath(project) in known or project in known:
        text = "Claude Code has not been told to trust this folder; in its window it runs no hooks before that"
        yield Trust("warn", text, "start `claude` here, and accept the folder")
    else:
        yield Trust("unknown", "Claude Code has not been opened in this folder; it asks then whether to trust it")


def _switches(agent: Agent, project: str, settings: Settings) -> Iterator[Trust]:
    """Files that `install` does not read: the person's own file of the project, and what an organisation sets."""
    managed = (*_MANAGED, os.path.join(agent.home(), "remote-settings.json"))  # sent by an organisation's server
    for path in (os.path.join(project, ".claude", "settings.local.json"), *managed):
        said = settings(path)
        if said.get("disableAllHooks") is True:
            yield Trust("fail", f"{path} switches all hooks off (`disableAllHooks`)", "change that setting")
        if path in managed and said.get("allowManagedHooksOnly") is True:
            text = f"{path} allows none but managed hooks (`allowManagedHooksOnly`)"
            yield Trust("fail", text, "have billhook's entries put into that file")


def _start(_agent: Agent, url: str, prompt: str, _settings: Settings) -> Start:
    environ = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": CANARY_KEY,
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_USE_BEDROCK": "",
        "CLAUDE_CODE_USE_VERTEX": "",
    }
    # What settings say about the model's address counts more than a variable; what the command line says, most.
    return Start(("-p", prompt, "--settings", json.dumps({"env": environ})), environ)


_FOR_TOOL: Final = {"hookSpecificOutput": {"hookEventName": "PreToolUse", **REFUSE_TOOL}}

AGENT: Final = Agent(
    name="claude",
    title="Claude Code",
    meanings=rows.CLAUDE,
    event_names={name: name for name in EVENTS},
    capabilities=quiet(_CAPABILITIES),
    refusals=(
        # the code is for Claude Code, the form for agents that read its settings
        Refusal("tool", 2, _FOR_TOOL, "client"),
        Refusal("tool", 2, {**REFUSE_TOOL, "permission": "deny", "user_message": "@", "agent_message": "@"}, "project"),
        Refusal("prompt", 0, REFUSE, "client project"),  # Copilot, which reads them too, would not hear the code here
        Refusal("permission", 0, REFUSE_PERMISSION),
        Refusal(""),
    ),
    marks={"CLAUDECODE": "", "CLAUDE_CODE_ENTRYPOINT": ""},
    packages=(("@anthropic-ai", "claude-code"),),
    program="claude",
    project_file=".claude/settings.json",
    user_file=".claude/settings.json",
    home_variable="CLAUDE_CONFIG_DIR",
    # billhook keeps its own state in that folder, too, so the folder alone says nothing
    traces=("settings.json", "projects", "plugins", "statsig", "../.claude.json"),
    strict_files=(".claude/settings.json", ".claude/settings.local.json"),
    trust=_trust,
    transcripts="billhook.agents.transcripts.claude",
    start=_start,
    longest={"SessionEnd": 60},
    ending=(2, 1200),  # it gives 1.5 seconds to all of SessionEnd, unless an entry says more
    fail_closed=("onFailure", "block"),
    http=True,
    no_http=frozenset({"SessionStart", "Setup"}),
    system_message=True,
)
AGENTS = {"claude": AGENT}
