"""Factory Droid: the reference's events and answers, with its own names of tools.

From its documentation and reports of users, not measured. Its documents also show payloads in camelCase; both are read.
It reads `hooks.json` in its folder instead of the `hooks` of its settings if that file exists, and
according to a report it then runs no hooks, so `install` writes the settings.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from billhook.agents import base
from billhook.agents.codec import Payload, ReferenceForm
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Event


class _Droid(ReferenceForm):
    names = base.pairs(
        "hookEventName=hook_event_name sessionId=session_id transcriptPath=transcript_path "
        "permissionMode=permission_mode toolName=tool_name toolInput=tool_input toolResponse=tool_response "
        "toolUseId=tool_use_id stopHookActive=stop_hook_active"
    )

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        base.set_folder(payload, [env.get("FACTORY_PROJECT_DIR")])
        return super().read(payload, env)

    def write(self, payload: Payload, event: Event) -> Payload:
        return payload


def _beside(file: str, read: Callable[[str], bytes]) -> Iterator[str]:
    instead = os.path.join(os.path.dirname(file), "hooks.json")
    try:
        read(instead)
    except OSError:
        return
    yield f"{instead} exists: Droid does not start the hooks in {file} then; move its hooks there, and remove it"


def _trust(check: base.TrustCheck) -> Iterator[base.Trust]:
    for path in dict.fromkeys(check.agent.file(scope, check.project) for scope in ("user", "project")):
        if check.settings(path).get("hooksDisabled") is True:
            yield base.Trust("fail", f"{path} disables all hooks (`hooksDisabled`)", "change that setting")
    yield base.Trust("unknown", "Droid's files don't show whether an organisation's policy allows these hooks")


AGENT: Final = base.Agent(
    name="droid",
    title="Factory Droid",
    aliases=("factory",),
    meanings=Meanings(name="droid", naming="droid", join="\n\n", timeout=60.0),
    event_names={name: name for name in f"{base.LIKE_CLAUDE} Notification".split() if name != "SubagentStart"},
    tools=base.pairs("Execute=Bash Create=Write ApplyPatch=apply_patch FetchUrl=WebFetch Task=Agent"),
    inputs={
        "Edit": {**base.OLD_AND_NEW, "change_all": "replace_all"},
        "Read": base.PATH,
        "apply_patch": {"input": "command"},
    },
    capabilities=base.rounded(
        "UserPromptSubmit or PostToolUse",
        PreToolUse="allow deny ask rewrite_input stop message",
        PostToolUse="context stop message",
        UserPromptSubmit="deny context stop message",
        SessionStart="context message",
        SessionEnd="",
        Stop="stop keep_going message",
        SubagentStop="stop keep_going message",
        PreCompact="message",
        Notification="message",
    ),
    sends=lambda payload, environ: int("hook_event_name" in payload and bool(environ.get("FACTORY_PROJECT_DIR"))),
    marks={"FACTORY_PROJECT_DIR": ""},
    packages=(("@factory", "cli"),),
    program="droid",
    headless=frozenset({"exec"}),
    project_file=".factory/settings.json",
    user_file=".factory/settings.json",
    beside=_beside,
    trust=_trust,
    next_steps=(("any", "restart Droid, and review billhook's hooks in `/hooks`: it reads them when it starts"),),
    system_message=True,
    parallel=True,
)
AGENTS = {"droid": AGENT}
DIALECTS = {"droid": _Droid(AGENT)}
