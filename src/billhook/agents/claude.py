"""Claude Code: the reference. Its events, settings and answers are the defaults of every dialect.

Its codec is in `reference`, because every start of `billhook hook` needs the codec, but few need this record.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Final

from billhook.agents import base
from billhook.agents.base import DENIES, UNPREVENTED, Capabilities, Refusal, quiet, row
from billhook.core import client_env
from billhook.core import dialect_traits as rows
from billhook.core.events import EVENTS

_BLOCK: Final = "becomes a block, whose reason the model reads beside the result"
_SHOWN: Final = "is only shown to the user"
_CAPABILITIES: Final[Mapping[str, Capabilities]] = {
    "PreToolUse": row("allow deny ask rewrite_input context stop message"),
    "PostToolUse": row("replace_output context stop message", deny=_BLOCK),
    "PostToolUseFailure": row("context stop message", deny=_BLOCK),
    "PostToolBatch": row("context stop message", deny="ends the run"),
    "PermissionRequest": row("allow deny rewrite_input stop message", ask=DENIES),
    "PermissionDenied": row("stop message"),
    "UserPromptSubmit": row("deny context stop message", ask=DENIES),
    "UserPromptExpansion": row("deny context stop message", ask=DENIES),
    "Notification": row("context stop message"),
    "MessageDisplay": row("stop message"),
    "SessionStart": row("context stop message", deny=_SHOWN),
    "SessionEnd": row(deny=UNPREVENTED),
    "Setup": row("context stop message", deny=_SHOWN),
    "Stop": row("context stop keep_going message", deny="keeps the agent going"),
    "StopFailure": row(),
    "SubagentStart": row("context stop message", deny=_SHOWN),
    "SubagentStop": row("context stop keep_going message", deny="keeps the agent going"),
    "TeammateIdle": row("stop keep_going message", deny="keeps the agent going"),
    "TaskCreated": row("deny message", ask=DENIES, stop="is ignored"),
    "TaskCompleted": row("deny stop message", ask=DENIES),
    "PreCompact": row("deny", ask=DENIES, stop="is ignored"),
    "PostCompact": row(),
    "PreModelSwitch": row("allow deny ask stop message"),
    "PostModelSwitch": row("context stop message", deny=_SHOWN),
    "Elicitation": row("allow deny stop message", ask=DENIES),
    "ElicitationResult": row("allow deny stop message", ask=DENIES),
    "ConfigChange": row("deny", ask=DENIES, stop="is ignored"),
    "InstructionsLoaded": row(),
    "CwdChanged": row("message", deny=_SHOWN),
    "FileChanged": row("message", deny=_SHOWN),
    "DirectoryAdded": row("message", deny=_SHOWN),
    "WorktreeCreate": row("deny stop message", ask=DENIES),
    "WorktreeRemove": row(),
}


def _trust(check: base.TrustCheck) -> Iterator[base.Trust]:
    agent, project = check.agent, check.project
    yield from _switches(check)
    moved = client_env.environ().get(agent.home_variable)
    file = os.path.join(agent.home() if moved else client_env.abspath(client_env.expanduser("~")), ".claude.json")
    said = check.settings(file).get("projects")
    known = said if isinstance(said, dict) else {}
    above = [known[folder] for folder in base.way_up(project) if isinstance(known.get(folder), dict)]
    if any(one.get("hasTrustDialogAccepted") is True for one in above):
        yield base.Trust("ok", "Claude Code trusts this folder")
    elif os.path.realpath(project) in known or project in known:
        text = "Claude Code does not trust this folder yet; an interactive session runs no hooks before that"
        yield base.Trust("warn", text, "start `claude` here, and accept the folder")
    else:
        text = "Claude Code has not been started in this folder yet; it then asks whether you trust the folder"
        yield base.Trust("unknown", text)


def _switches(check: base.TrustCheck) -> Iterator[base.Trust]:
    """Files that `install` does not read: the user's local file of the project, and an organisation's settings."""
    remote = os.path.join(check.agent.home(), "remote-settings.json")  # sent by an organisation's server
    yield from check.switched_off(os.path.join(check.project, ".claude", "settings.local.json"))
    for path in ("/etc/claude-code/managed-settings.json", remote):
        yield from check.switched_off(path)
        if check.settings(path).get("allowManagedHooksOnly") is True:
            text = f"{path} allows only managed hooks (`allowManagedHooksOnly`)"
            yield base.Trust("fail", text, "add billhook's entries to that file")


def _start(_agent: base.Agent, url: str, prompt: str, _settings: base.Settings) -> base.Start:
    environ = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": base.CANARY_KEY,
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_USE_BEDROCK": "",
        "CLAUDE_CODE_USE_VERTEX": "",
    }
    # For the model's address, settings override a variable, and the command line overrides both.
    return base.Start(("-p", prompt, "--settings", json.dumps({"env": environ})), environ)


_FOR_TOOL: Final = {"hookSpecificOutput": {"hookEventName": "PreToolUse", **base.REFUSE_TOOL}}

AGENT: Final = base.Agent(
    name="claude",
    title="Claude Code",
    meanings=rows.CLAUDE,
    event_names={name: name for name in EVENTS},
    capabilities=quiet(_CAPABILITIES),
    refusals=(
        # the code is for Claude Code, the form for agents that read its settings
        Refusal("tool", 2, _FOR_TOOL, "client"),
        Refusal(
            "tool", 2, {**base.REFUSE_TOOL, "permission": "deny", "user_message": "@", "agent_message": "@"}, "project"
        ),
        Refusal(
            "prompt", 0, base.REFUSE, "client project"
        ),  # Copilot also reads these settings, and ignores the exit code here
        Refusal("permission", 0, base.REFUSE_PERMISSION),
        Refusal(""),
    ),
    marks={"CLAUDECODE": "", "CLAUDE_CODE_ENTRYPOINT": ""},
    packages=(("@anthropic-ai", "claude-code"),),
    program="claude",
    project_file=".claude/settings.json",
    user_file=".claude/settings.json",
    home_variable="CLAUDE_CONFIG_DIR",
    # billhook's state is in that folder, too, so the folder alone proves nothing
    traces=("settings.json", "projects", "plugins", "statsig", "../.claude.json"),
    strict_files=(".claude/settings.json", ".claude/settings.local.json"),
    trust=_trust,
    transcripts=True,
    start=_start,
    longest={"SessionEnd": 60},
    ending=(2, 1200),  # all of SessionEnd has 1.5 seconds, unless an entry has a longer timeout
    fail_closed=("onFailure", "block"),
    http=True,
    no_http=frozenset({"SessionStart", "Setup"}),
    system_message=True,
    parallel=True,
    equal_once=True,
    variable_files=(".claude/settings.json", ".claude/settings.local.json"),
    # with -p, and for programs that use its SDK; measured in 2.1.325
    unattended=lambda _payload, environ: environ.get("CLAUDE_CODE_SESSION_ATTENDED") == "0",
)
AGENTS = {"claude": AGENT}
