"""Codex: the reference's form, read strictly.

A field that it does not know, `ask`, a deny without a reason, an `allow` that rewrites nothing, and before a tool also
`continue`, `stopReason` and `suppressOutput` make it drop the whole answer and run the tool. So nothing is written but
what is listed here.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from billhook.agents.base import (
    ALLOW,
    ASK,
    CANARY_KEY,
    FAILURE_PERMISSION,
    LATE,
    LIKE_CLAUDE,
    NEXT,
    ON,
    OUTPUT,
    REWRITE,
    STOP,
    UNPREVENTED,
    Agent,
    Failure,
    Installed,
    Settings,
    SettingsEntry,
    Start,
    Trust,
    row,
)
from billhook.agents.codec import (
    AgentDialect,
    EncodedAnswer,
    MisheardError,
    Payload,
    Plain,
    known,
    one_of,
    own_input,
    refusal,
    spoken,
)
from billhook.core.answers import NOTHING, Answer, Decision, Reply
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Block, Event

_TOP: Final = {"continue": bool, "stopReason": str, "suppressOutput": bool, "systemMessage": str}
_BLOCK: Final = {"decision": str, "reason": str}
_INSIDE: Final = {"hookSpecificOutput": dict}
_TAKES: Final[dict[str, dict[str, type]]] = {
    "PreToolUse": {**_TOP, **_BLOCK, **_INSIDE},
    "PostToolUse": {**_TOP, **_BLOCK, **_INSIDE},
    "UserPromptSubmit": {**_TOP, **_BLOCK, **_INSIDE},
    "PermissionRequest": {**_TOP, **_INSIDE},
    "SessionStart": {**_TOP, **_INSIDE},
    "SubagentStart": {**_TOP, **_INSIDE},
    "Stop": {**_TOP, **_BLOCK},
    "SubagentStop": {**_TOP, **_BLOCK},
}
"""By event: the fields at the top; the other events take the first four."""
_CONTEXT: Final[dict[str, type]] = {"hookEventName": str, "additionalContext": str}
_SPECIFIC: Final[dict[str, dict[str, type]]] = {
    "PreToolUse": {**_CONTEXT, "permissionDecision": str, "permissionDecisionReason": str, "updatedInput": dict},
    "PermissionRequest": {"hookEventName": str, "decision": dict},
}
"""By event: the fields inside `hookSpecificOutput`."""
_NOT_BEFORE: Final = ("continue", "stopReason", "suppressOutput")
_WORDS: Final = {"allow": Decision.ALLOW, "deny": Decision.DENY, "ask": Decision.ASK}


_ONLY_A_COMMAND: Final = ("Bash", "apply_patch")
"""Tools of whose rewritten input Codex takes over `command`, and passes over everything else in silence."""
_WORDS_ONLY: Final = ("description",)
"""Fields that say what the model is about, and change nothing of what the tool does."""


class _Codex(Plain):
    """How Codex speaks."""

    def refused(self, event: Event, wanted: Payload) -> str:
        if getattr(event, "tool_name", "") not in _ONLY_A_COMMAND:
            return ""
        odd = [key for key in _not_taken(event, wanted) if key not in _WORDS_ONLY]
        if odd:
            return f"Codex takes over nothing but `command`, and so not `{str(odd[0])[:60]}`"
        return "" if isinstance(wanted.get("command"), str) else "Codex needs its `command`, which is left out"

    def suit(self, event: Event, answer: Answer, lost: list[str]) -> Answer:
        if answer.updated_input is None or getattr(event, "tool_name", "") not in _ONLY_A_COMMAND:
            return answer
        odd = _not_taken(event, answer.updated_input)
        lost += [f"`{key}` of the input can't be said" for key in odd]
        said = {key: value for key, value in answer.updated_input.items() if key not in odd}
        return replace(answer, updated_input=said) if odd else answer

    def say(self, event: Event, answer: Answer) -> EncodedAnswer:
        name = event.hook_event_name
        if not AGENT.event_names.get(name):
            return refusal(answer)
        output, inside = self._decision(event, answer)
        if answer.stop:
            output |= {"continue": False} | ({"stopReason": answer.stop_reason} if answer.stop_reason else {})
        if answer.message:
            output["systemMessage"] = answer.message
        if answer.context:
            inside["additionalContext"] = answer.context
        if inside:
            output["hookSpecificOutput"] = {"hookEventName": name, **inside}
        return EncodedAnswer(output)

    def _decision(self, event: Event, answer: Answer) -> tuple[Payload, Payload]:
        name, denies = event.hook_event_name, answer.decision is Decision.DENY
        if name == "PreToolUse" and denies:
            return {}, {"permissionDecision": "deny", "permissionDecisionReason": answer.reason}
        if name == "PreToolUse" and answer.updated_input is not None:
            wanted = own_input(event, answer.updated_input, "codex")
            return {}, {"permissionDecision": "allow", "updatedInput": wanted}
        if name == "PermissionRequest" and answer.decision is not Decision.NONE:
            said = {"behavior": "deny", "message": answer.reason} if denies else {"behavior": "allow"}
            return {}, {"decision": said}
        if denies or answer.keep_going:
            return {"decision": "block", "reason": answer.reason}, {}
        if answer.updated_output is not UNSET:
            return {"decision": "block", "reason": answer.updated_output}, {}
        return {}, {}

    def hear(self, event: Event, output: Payload) -> Answer:
        name = event.hook_event_name
        fields = _strictly(output, _TAKES.get(name, _TOP), "")
        inside = _strictly(fields.get("hookSpecificOutput", {}), _SPECIFIC.get(name, _CONTEXT), "hookSpecificOutput.")
        said: Payload = {"message": fields.get("systemMessage", ""), "context": inside.get("additionalContext", "")}
        said |= self._heard_decision(event, fields, inside)
        if fields.get("continue") is False:
            said |= {"stop": True, "stop_reason": fields.get("stopReason", "")}
        if said.get("decision") is not Decision.DENY:
            _as_codex_does(name, output, inside)
        return Answer(**said)

    def _heard_decision(self, event: Event, fields: Payload, inside: Payload) -> Payload:
        if "permissionDecision" in inside:
            decision = one_of("hookSpecificOutput.permissionDecision", inside["permissionDecision"], _WORDS)
            if decision is Decision.ALLOW:  # all that it says is that the input may be another one
                return {"updated_input": _canonical(event, inside.get("updatedInput"))}
            return spoken(decision, inside.get("permissionDecisionReason", ""), event)
        if isinstance(inside.get("decision"), dict):
            wanted = known(inside["decision"], {"behavior": str, "message": str}, "hookSpecificOutput.decision.")
            decision = one_of("behavior", wanted.get("behavior", ""), _WORDS)
            return spoken(decision, wanted.get("message", "") if decision is Decision.DENY else "", event)
        if fields.get("decision") == "block":
            return _blocked(event, fields.get("reason", ""))
        if "decision" in fields:
            raise MisheardError(f'"decision": "{fields["decision"][:60]}" is not understood; write "decision": "block"')
        return {}

    def text(self, event: Event, text: str) -> Answer:
        return Answer(context=text) if event.text_is_context else NOTHING

    def block(self, event: Event, text: str) -> Reply:
        if event.hook_event_name == "PostToolUse" and text:
            return Reply(answer=Answer(updated_output=text))
        return super().block(event, text)


def _not_taken(event: Event, wanted: Payload) -> list[str]:
    """What of a rewritten input is new or another, and no command."""
    given = getattr(event, "tool_input", None)
    given = given if isinstance(given, dict) else {}
    return [key for key in wanted if key != "command" and (key not in given or wanted[key] != given[key])]


def _strictly(output: Payload, kinds: dict[str, type], path: str) -> Payload:
    fields = known(output, kinds, path)
    strange = [key for key in output if key not in kinds]
    if strange and not _denies(fields):
        raise MisheardError(f"Codex drops an answer with `{path}{str(strange[0])[:60]}`, which it does not know")
    return fields


def _denies(fields: Payload) -> bool:
    """Even a deny that Codex would drop is meant as one."""
    return fields.get("decision") == "block" or fields.get("permissionDecision") == "deny"


def _as_codex_does(name: str, output: Payload, inside: Payload) -> None:
    """Raises MisheardError for what Codex drops."""
    if name in ("PreToolUse", "PermissionRequest"):
        for key in _NOT_BEFORE:
            if output.get(key) not in (None, key == "continue", False if key == "suppressOutput" else None):
                raise MisheardError(f"Codex drops an answer with `{key}` on {name}")
    if "updatedInput" in inside and inside.get("permissionDecision") != "allow":
        raise MisheardError('Codex drops `updatedInput` without "permissionDecision": "allow"')
    if inside.get("permissionDecision") == "allow" and "updatedInput" not in inside:
        raise MisheardError('Codex drops "permissionDecision": "allow" without `updatedInput`')


def _blocked(event: Event, reason: str) -> Payload:
    if event.hook_event_name == "PostToolUse":
        return {"updated_output": reason} if reason else {}
    reason = reason or f"blocked by a {event.hook_event_name} hook"
    if event.block is Block.KEEP_GOING:
        return {"keep_going": True, "reason": reason}
    return {"decision": Decision.DENY, "reason": reason}


def _canonical(event: Event, given: Payload | None) -> Payload | None:
    from billhook.core.tools import canonical_input

    if given is None:
        return None
    found: Payload = canonical_input(str(getattr(event, "tool_name", "")), given, "codex")[0]
    return found


# -- its files

_TIMEOUT: Final = 600
_HOOKS: Final = "start `codex` here, type /hooks, and trust billhook's"


def _trust(agent: Agent, project: str, installed: Sequence[Installed], _settings: Settings) -> Iterator[Trust]:
    """Folders, and hooks one by one, by a hash of what each says."""
    said = _config(os.path.join(agent.home(), "config.toml"))
    if any(one.scope == "project" for one in installed):
        yield _folder(said, project)
    for one in installed:
        yield _entries(one, said)


def _config(path: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError):  # what can't be read is said where the entries are looked at
        return {}


def _folder(said: dict[str, Any], project: str) -> Trust:
    projects = said.get("projects")
    levels = [
        projects[path].get("trust_level")
        for path in dict.fromkeys((project, os.path.realpath(project)))
        if isinstance(projects, dict) and isinstance(projects.get(path), dict)
    ]
    if "trusted" in levels:
        return Trust("ok", "Codex trusts this folder")
    how = "has been told not to trust" if "untrusted" in levels else "has not been told to trust"
    text = f"Codex {how} this folder, and reads no hooks of it"
    return Trust("fail", text, "start `codex` here, and trust the folder")


def _entries(one: Installed, said: dict[str, Any]) -> Trust:
    hooks = said.get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    standing = [_standing(one.path, entry, state if isinstance(state, dict) else {}) for entry in one.entries]
    skipped = [word for word in standing if word]
    if not skipped:
        return Trust("ok", f"Codex trusts all {len(standing)} entries of {one.path}")
    why = " and ".join(f"{skipped.count(word)} {word}" for word in dict.fromkeys(skipped))
    text = f"Codex skips {len(skipped)} of {len(standing)} entries of {one.path} without a word: {why}"
    return Trust("fail", text, _HOOKS)


def _standing(path: str, entry: SettingsEntry, state: dict[str, Any]) -> str:
    """Why Codex does not run an entry; empty when it does."""
    event = snake(entry.event)
    keys = [f"{file}:{event}:{entry.at}:{entry.inner}" for file in dict.fromkeys((path, os.path.realpath(path)))]
    found = next((state[key] for key in keys if isinstance(state.get(key), dict)), None)
    if found is None or not found.get("trusted_hash"):
        return "not trusted yet"
    if found["trusted_hash"] != trusted_hash(entry):
        return "changed since it was trusted"
    return "switched off" if found.get("enabled") is False else ""


def snake(event: str) -> str:
    """`pre_tool_use`, as Codex calls PreToolUse in its state."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def trusted_hash(entry: SettingsEntry) -> str:
    """What Codex writes down when somebody trusts an entry: the hash of what it says, in a canonical form."""
    import hashlib
    import json

    said = entry.data
    handler = {
        "type": "command",
        "command": said.get("command"),
        "timeout": said.get("timeout", _TIMEOUT),
        "async": said.get("async") is True,
    }
    for key in ("statusMessage", "commandWindows"):
        if said.get(key) is not None:
            handler[key] = said[key]
    identity: dict[str, Any] = {"event_name": snake(entry.event), "hooks": [handler]}
    if entry.group.get("matcher") is not None:
        identity["matcher"] = entry.group["matcher"]
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"


def _beside(file: str, read: Callable[[str], bytes]) -> Iterator[str]:
    """It reads a second file in the same folder."""
    import tomllib

    path = os.path.join(os.path.dirname(file), "config.toml")
    try:
        said = tomllib.loads(read(path).decode())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        yield f"{path} can't be read ({error}); Codex will not start with it"
        return
    features = said.get("features")
    if isinstance(features, dict) and False in (features.get("hooks"), features.get("codex_hooks")):
        yield f"{path} switches hooks off: set `hooks = true` below [features], or Codex will not ask billhook"
    hooks = said.get("hooks")
    if isinstance(hooks, dict) and set(hooks) - {"state"}:
        yield f"{path} has hooks of its own; Codex runs them beside billhook, and they stay as they are"


def _start(_agent: Agent, url: str, prompt: str, _settings: Settings) -> Start:
    provider = (
        f'{{name="canary", base_url="{url}/v1", env_key="BILLHOOK_CANARY_KEY", wire_api="responses", '
        "request_max_retries=0, stream_max_retries=0, supports_websockets=false}"
    )
    said = ['model_provider="canary"', f"model_providers.canary={provider}", "check_for_update_on_startup=false"]
    said += ["analytics.enabled=false", 'sandbox_mode="read-only"']
    options = tuple(word for one in said for word in ("-c", one))
    return Start(("exec", "--skip-git-repo-check", *options, prompt), {"BILLHOOK_CANARY_KEY": CANARY_KEY})


def _sends(payload: Mapping[str, Any], _environ: Mapping[str, str]) -> int:
    by_path = "/.codex/" in str(payload.get("transcript_path"))
    return 2 if "model" in payload and ("turn_id" in payload or by_path) else 0


AGENT: Final = Agent(
    name="codex",
    title="Codex",
    meanings=Meanings(name="codex", naming="codex", join="\n\n", timeout=600.0, timeouts={"SessionEnd": 1.0}),
    event_names={name: name for name in f"{LIKE_CLAUDE} PostCompact".split()},
    tools={"spawn_agent": "Agent"},
    inputs={"Agent": {"message": "prompt"}},
    unhooked=frozenset({"write_stdin", "web_search", "tool_search"}),
    capabilities={
        "PreToolUse": row("deny rewrite_input context message", allow=ALLOW, ask=ASK, stop=STOP),
        "PostToolUse": row("replace_output context message", deny=OUTPUT, stop=LATE),
        "PermissionRequest": row("allow deny message", ask=ASK, rewrite_input=REWRITE, stop=STOP, context=NEXT),
        "UserPromptSubmit": row("deny context stop message", ask=ASK),
        "SessionStart": row("context stop message", deny=LATE),
        "SessionEnd": row(**UNPREVENTED),
        "Stop": row("stop keep_going message", deny=ON, context=NEXT),
        "SubagentStart": row("context stop message", deny=LATE),
        "SubagentStop": row("stop keep_going message", deny=ON, context=NEXT),
        "PreCompact": row("stop message", deny="ends the run", context=NEXT),
        "PostCompact": row("stop message", deny="ends the run", context=NEXT),
    },
    taken_over="`command`",
    failures=(Failure("compact", 0, None), Failure("permission", 0, FAILURE_PERMISSION), Failure("")),
    sends=_sends,
    marks=dict.fromkeys(("CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID", "CODEX_CI"), ""),
    packages=(("@openai", "codex"),),
    program="codex",
    project_file=".codex/hooks.json",
    user_file=".codex/hooks.json",
    home_variable="CODEX_HOME",
    beside=_beside,
    trust=_trust,
    next_steps=(
        ("any", "Codex runs new hooks only when you have trusted them: start it, type /hooks, and trust billhook's"),
    ),
    transcripts="billhook.agents.transcripts.codex",
    start=_start,
    longest={"SessionEnd": 3},
    ending=(3, 2500),
    system_message=True,
)
AGENTS = {"codex": AGENT}
DIALECTS = {"codex": AgentDialect(agent=AGENT, voice=_Codex())}
