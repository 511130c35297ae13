"""Codex: the reference's format, read strictly.

An unknown field, `ask`, a deny without a reason, an `allow` without a rewrite, and before a tool also `continue`,
`stopReason` and `suppressOutput` make it drop the whole answer and run the tool. So only the fields that are listed
here are written.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from billhook.agents import base
from billhook.agents.base import dig
from billhook.agents.codec import ALWAYS, TOP, AgentDialect, Payload, block, checked_fields, input_of, kinds
from billhook.core.answer_schema import MisreadError
from billhook.core.answers import NOTHING, Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Event

_WITHOUT_BLOCK: Final = {**ALWAYS, **kinds(objects="hookSpecificOutput")}
_WITHOUT_INSIDE: Final = {**ALWAYS, **kinds("decision reason")}
_ACCEPTED: Final[Mapping[str, Mapping[str, str]]] = {
    **dict.fromkeys(("PreToolUse", "PostToolUse", "UserPromptSubmit"), TOP),
    **dict.fromkeys(("PermissionRequest", "SessionStart", "SubagentStart"), _WITHOUT_BLOCK),
    **dict.fromkeys(("Stop", "SubagentStop"), _WITHOUT_INSIDE),
}
"""By event: the fields at the top; other events have the common ones."""
_CONTEXT: Final = kinds("hookEventName additionalContext")
_SPECIFIC: Final[Mapping[str, Mapping[str, str]]] = {
    "PreToolUse": {**_CONTEXT, **kinds("permissionDecision permissionDecisionReason", objects="updatedInput")},
    "PermissionRequest": kinds("hookEventName", objects="decision"),
}
"""By event: the fields inside `hookSpecificOutput`."""
_WORDS: Final = {"allow": Decision.ALLOW, "deny": Decision.DENY, "ask": Decision.ASK}

_ONLY_A_COMMAND: Final = ("Bash", "apply_patch")
"""Tools whose rewritten input must be a `command`: Codex silently ignores all other fields."""
_WORDS_ONLY: Final = ("description",)  # Fields that only describe the call and don't change the tool's action.


class _Codex(AgentDialect):
    words = _WORDS
    block_replaces_output = True

    def refused(self, event: Event, wanted: Payload) -> str:
        if getattr(event, "tool_name", "") not in _ONLY_A_COMMAND:
            return ""
        odd = [key for key in _unsupported_changes(event, wanted) if key not in _WORDS_ONLY]
        if odd:
            return f"Codex accepts only a new `command`, not `{str(odd[0])[:60]}`"
        return "" if isinstance(wanted.get("command"), str) else "the new input has no `command`"

    def suit(self, event: Event, answer: Answer, lost: list[str]) -> Answer:
        if answer.updated_input is None or getattr(event, "tool_name", "") not in _ONLY_A_COMMAND:
            return answer
        odd = _unsupported_changes(event, answer.updated_input)
        lost += [f"`{key}` of the input can't be expressed" for key in odd]
        said = {key: value for key, value in answer.updated_input.items() if key not in odd}
        return replace(answer, updated_input=said) if odd else answer

    def decide(self, event: Event, answer: Answer) -> tuple[Payload, Payload]:
        if answer.updated_input is not None:
            wanted = self.sent_input(event, answer.updated_input)
            return {}, {"permissionDecision": "allow", "updatedInput": wanted}
        if answer.updated_output is not UNSET:
            return block(answer.updated_output), {}
        return super().decide(event, answer)

    def fields(self, event: Event, output: Payload) -> tuple[Payload, Payload]:
        name = event.hook_event_name
        fields = _strictly(output, _ACCEPTED.get(name, ALWAYS), "")
        inside = fields.get("hookSpecificOutput", {})
        return fields, _strictly(inside, _SPECIFIC.get(name, _CONTEXT), "hookSpecificOutput.")

    def decode_answer(self, event: Event, output: Payload) -> Answer:
        answer = super().decode_answer(event, output)
        if answer.decision is not Decision.DENY:
            _as_codex_does(event.hook_event_name, output, self.fields(event, output)[1])
        return replace(answer, quiet=False)

    def read_decision(self, event: Event, fields: Payload, inside: Payload) -> Payload:
        if inside.get("permissionDecision") == "allow":  # it only means that the input may be replaced
            given = inside.get("updatedInput")
            return {"updated_input": None if given is None else self.canonical(event, given)}
        if "permissionDecision" in inside or "decision" not in fields:
            return super().read_decision(event, fields, inside)
        if fields["decision"] != "block":
            raise MisreadError(f'"decision": "{fields["decision"][:60]}" is not understood; write "decision": "block"')
        return self.read_block(event, Decision.DENY, fields.get("reason", ""))

    def text(self, event: Event, text: str) -> Answer:
        return Answer(context=text) if event.text_is_context else NOTHING


def _unsupported_changes(event: Event, wanted: Payload) -> list[str]:
    """The new or changed fields of a rewritten input, except for the command."""
    given = input_of(event)
    return [key for key in wanted if key != "command" and (key not in given or wanted[key] != given[key])]


def _strictly(output: Payload, kinds: Mapping[str, str], path: str) -> Payload:
    fields = checked_fields(output, kinds, path)
    strange = [key for key in output if key not in kinds]
    denies = fields.get("decision") == "block" or fields.get("permissionDecision") == "deny"
    if strange and not denies:  # even a deny that Codex would drop counts as a deny
        raise MisreadError(f"Codex drops an answer with `{path}{str(strange[0])[:60]}`, which it does not know")
    return fields


def _as_codex_does(name: str, output: Payload, inside: Payload) -> None:
    """Raises MisreadError for an answer that Codex drops."""
    if name in ("PreToolUse", "PermissionRequest"):
        for key in ("continue", "stopReason", "suppressOutput"):
            if output.get(key) not in (None, key == "continue", False if key == "suppressOutput" else None):
                raise MisreadError(f"Codex drops an answer with `{key}` on {name}")
    if "updatedInput" in inside and inside.get("permissionDecision") != "allow":
        raise MisreadError('Codex drops `updatedInput` without "permissionDecision": "allow"')
    if inside.get("permissionDecision") == "allow" and "updatedInput" not in inside:
        raise MisreadError('Codex drops "permissionDecision": "allow" without `updatedInput`')


# -- its files

_TIMEOUT: Final = 600


def _trust(check: base.TrustCheck) -> Iterator[base.Trust]:
    """Trust in folders, and in each hook by a hash of its definition."""
    said = _config(os.path.join(check.agent.home(), "config.toml"))
    if any(one.scope == "project" for one in check.installed):
        yield _folder(said, check.project)
    for one in check.installed:
        yield _entries(one, said)


def _config(path: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError):  # unreadable files are reported with the entries
        return {}


def _folder(said: dict[str, Any], project: str) -> base.Trust:
    levels = [dig(said, "projects", path, "trust_level") for path in (project, os.path.realpath(project))]
    if "trusted" in levels:
        return base.Trust("ok", "Codex trusts this folder")
    how = "is set not to trust" if "untrusted" in levels else "does not trust"
    text = f"Codex {how} this folder, and reads no hooks from it"
    return base.Trust("fail", text, "start `codex` here, and trust the folder")


def _entries(one: base.Installed, said: dict[str, Any]) -> base.Trust:
    state = dig(said, "hooks", "state")
    standing = [_why_skipped(one.path, entry, state if isinstance(state, dict) else {}) for entry in one.entries]
    skipped = [word for word in standing if word]
    if not skipped:
        return base.Trust("ok", f"Codex trusts all {len(standing)} entries of {one.path}")
    why = " and ".join(f"{skipped.count(word)} {word}" for word in dict.fromkeys(skipped))
    text = f"Codex silently skips {len(skipped)} of {len(standing)} entries of {one.path}: {why}"
    return base.Trust("fail", text, "start `codex` here, type /hooks, and trust billhook's")


def _why_skipped(path: str, entry: base.SettingsEntry, state: dict[str, Any]) -> str:
    """Why Codex does not run an entry; empty if it does."""
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


def trusted_hash(entry: base.SettingsEntry) -> str:
    """What Codex saves when the user trusts an entry: the hash of its canonical form."""
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
    import tomllib

    path = os.path.join(os.path.dirname(file), "config.toml")
    try:
        said = tomllib.loads(read(path).decode())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        yield f"{path} can't be read ({error}); Codex does not start with it"
        return
    if False in (dig(said, "features", "hooks"), dig(said, "features", "codex_hooks")):
        yield f"{path} disables hooks: set `hooks = true` below [features], otherwise Codex does not run billhook"
    hooks = said.get("hooks")
    if isinstance(hooks, dict) and set(hooks) - {"state"}:
        yield f"{path} has other hooks; Codex runs them beside billhook, and they are not changed"


def _start(_agent: base.Agent, url: str, prompt: str, _settings: base.Settings) -> base.Start:
    provider = (
        f'{{name="canary", base_url="{url}/v1", env_key="BILLHOOK_CANARY_KEY", wire_api="responses", '
        "request_max_retries=0, stream_max_retries=0, supports_websockets=false}"
    )
    said = ['model_provider="canary"', f"model_providers.canary={provider}", "check_for_update_on_startup=false"]
    said += ["analytics.enabled=false", 'sandbox_mode="read-only"']
    options = tuple(word for one in said for word in ("-c", one))
    return base.Start(("exec", "--skip-git-repo-check", *options, prompt), {"BILLHOOK_CANARY_KEY": base.CANARY_KEY})


def _sends(payload: Mapping[str, Any], _environ: Mapping[str, str]) -> int:
    by_path = "/.codex/" in str(payload.get("transcript_path"))
    return 2 if "model" in payload and ("turn_id" in payload or by_path) else 0


AGENT: Final = base.Agent(
    name="codex",
    title="Codex",
    meanings=Meanings(name="codex", naming="codex", join="\n\n", timeout=600.0, timeouts={"SessionEnd": 1.0}),
    event_names={name: name for name in f"{base.LIKE_CLAUDE} PermissionRequest PostCompact".split()},
    tools={"spawn_agent": "Agent"},
    inputs={"Agent": {"message": "prompt"}},
    unhooked=frozenset({"write_stdin", "web_search", "tool_search"}),
    capabilities=base.rounded(
        "PreToolUse or PostToolUse",
        PreToolUse="deny rewrite_input context message",
        PostToolUse="replace_output context message",
        PermissionRequest="allow deny message",
        UserPromptSubmit="deny context stop message",
        SessionStart="context stop message",
        SessionEnd="",
        Stop="stop keep_going message",
        SubagentStart="context stop message",
        SubagentStop="stop keep_going message",
        PreCompact="stop message",
        PostCompact="stop message",
    ),
    taken_over="`command`",
    refusals=base.REFUSALS_WITH_PERMISSION,
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
        ("any", "Codex runs new hooks only after you trust them: start it, type /hooks, and trust billhook's"),
    ),
    transcripts=True,
    start=_start,
    longest={"SessionEnd": 3},
    ending=(3, 2500),
    system_message=True,
    parallel=True,
)
AGENTS = {"codex": AGENT}
DIALECTS = {"codex": _Codex(AGENT)}
