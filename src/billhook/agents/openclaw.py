"""OpenClaw, by a plugin. It denies a call itself if a plugin is too slow; an ask waits for its user.

Measured in 2026.9.6. It loads a plugin only from a folder with both companions, which its settings name in three
places; it lists a plugin that is one file as enabled, and never loads it.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from billhook.agents import base
from billhook.agents.plugin import PluginDialect, agent

_EVENTS: Final = base.pairs("PreToolUse=before_tool_call PostToolUse=after_tool_call")
_FOLDER: Final = ".openclaw/plugins/billhook"
_COMPANIONS: Final[dict[str, dict[str, Any]]] = {
    "package.json": {
        "name": "billhook",
        "version": "1.0.0",
        "type": "module",
        "openclaw": {"extensions": ["./index.js"]},
    },
    "openclaw.plugin.json": {
        "id": "billhook",
        "name": "billhook",
        "activation": {"onStartup": True},
        "configSchema": {"type": "object"},
    },
}
_LINES: Final = {  # by the place below `plugins`, and how its value ends
    ("load", "paths", _FOLDER): f'"load": {{"paths": ["~/{_FOLDER}"]}}',
    ("allow", "billhook"): '"allow": ["billhook"]',
    ("entries", "billhook", "enabled", "True"): '"entries": {"billhook": {"enabled": true}}',
}


def _trust(check: base.TrustCheck) -> Iterator[base.Trust]:
    if not check.installed:
        return
    title, settings = "OpenClaw does not load billhook's plugin:", check.read("openclaw.json")
    lacking = [line for (*keys, end), line in _LINES.items() if not _ends(base.dig(settings, "plugins", *keys), end)]
    for name, text in _COMPANIONS.items():
        if check.read(f"plugins/billhook/{name}") != text:
            yield base.Trust("fail", f"{title} {name} beside it is missing or changed", "billhook install openclaw")
    if lacking:
        remedy = f"add to `plugins` in openclaw.json: {', '.join(lacking)}"
        yield base.Trust("fail", f"{title} its settings don't name it", remedy)
    else:
        yield base.Trust("ok", "OpenClaw's settings name billhook's plugin")


def _ends(value: object, end: str) -> bool:
    """Whether a value, or one in a list, ends so."""
    return any(str(one).rstrip("/").endswith(end) for one in (value if isinstance(value, list) else [value]))


AGENT: Final = agent(
    "openclaw",
    "OpenClaw",
    event_names=_EVENTS,
    tools=base.pairs("exec=Bash read=Read write=Write edit=Edit grep=Grep web_fetch=WebFetch"),
    inputs={"Read": base.PATH, "Write": base.PATH, "Edit": base.PATH, "apply_patch": {"input": "command"}},
    capabilities=base.rounded("", PreToolUse="deny ask rewrite_input", PostToolUse=""),
    sends=lambda payload, _environ: 2 * base.sends_own_names(_EVENTS.values(), payload),
    marks={"OPENCLAW_SHELL": ""},
    packages=(("node_modules", "openclaw"),),
    program="openclaw",
    user_file=f"{_FOLDER}/index.js",
    companions=tuple((name, json.dumps(text, indent=2) + "\n") for name, text in _COMPANIONS.items()),
    trust=_trust,
    next_steps=(
        ("any", "add this to ~/.openclaw/openclaw.json, and restart the Gateway:"),
        ("any", f'"plugins": {{{", ".join(_LINES.values())}}}'),
    ),
)
AGENTS = {"openclaw": AGENT}
DIALECTS = {"openclaw": PluginDialect(AGENT)}
