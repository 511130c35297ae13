"""What Codex trusts: folders, and hooks one by one, by a hash of what each says."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from typing import Any, Final

from billhook.hosts import Host
from billhook.hosts.agentfile import Handler
from billhook.hosts.doctor_entries import Installation
from billhook.hosts.doctor_finding import Finding

_DEFAULT: Final = 600
_HOOKS: Final = "start `codex` here, type /hooks, and trust billhook's"


def codex_trust(host: Host, project: str, installed: list[Installation]) -> Iterator[Finding]:
    """Whether Codex reads this folder's entries, and whether it runs ours."""
    said = _config(os.path.join(host.home(), "config.toml"))
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


def _folder(said: dict[str, Any], project: str) -> Finding:
    projects = said.get("projects")
    levels = [
        projects[path].get("trust_level")
        for path in dict.fromkeys((project, os.path.realpath(project)))
        if isinstance(projects, dict) and isinstance(projects.get(path), dict)
    ]
    if "trusted" in levels:
        return Finding("ok", "trust", "Codex trusts this folder")
    how = "has been told not to trust" if "untrusted" in levels else "has not been told to trust"
    text = f"Codex {how} this folder, and reads no hooks of it"
    return Finding("fail", "trust", text, "start `codex` here, and trust the folder")


def _entries(one: Installation, said: dict[str, Any]) -> Finding:
    hooks = said.get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    standing = [_standing(one.path, entry, state if isinstance(state, dict) else {}) for entry in one.entries]
    skipped = [word for word in standing if word]
    if not skipped:
        return Finding("ok", "trust", f"Codex trusts all {len(standing)} entries of {one.path}")
    why = " and ".join(f"{skipped.count(word)} {word}" for word in dict.fromkeys(skipped))
    text = f"Codex skips {len(skipped)} of {len(standing)} entries of {one.path} without a word: {why}"
    return Finding("fail", "trust", text, _HOOKS)


def _standing(path: str, entry: Handler, state: dict[str, Any]) -> str:
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


def trusted_hash(entry: Handler) -> str:
    """What Codex writes down when somebody trusts an entry: the hash of what it says, in a canonical form."""
    said = entry.data
    handler = {
        "type": "command",
        "command": said.get("command"),
        "timeout": said.get("timeout", _DEFAULT),
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
