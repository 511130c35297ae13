"""OpenClaw, by a plugin. It denies a call itself if a plugin is too slow; an ask waits for its user.

From its package's documentation, not measured.
"""

from collections.abc import Iterator
from typing import Final

from billhook.agents import base
from billhook.agents.plugin import PluginDialect, agent

_EVENTS: Final = base.pairs("PreToolUse=before_tool_call PostToolUse=after_tool_call")
_FILE: Final = {"path": "file_path"}
_PLUGIN: Final = ".openclaw/plugins/billhook.js"


def _trust(check: base.TrustCheck) -> Iterator[base.Trust]:
    found = base.dig(check.read("openclaw.json"), "plugins", "load", "paths")
    paths = found if isinstance(found, list) else []
    if any(str(path).endswith(_PLUGIN) for path in paths):
        yield base.Trust("ok", "OpenClaw's settings name billhook's plugin")
    elif check.installed:
        remedy = f'add "~/{_PLUGIN}" to `plugins.load.paths` in openclaw.json'
        yield base.Trust("fail", "OpenClaw does not load billhook's plugin: its settings don't name the file", remedy)


AGENT: Final = agent(
    "openclaw",
    "OpenClaw",
    event_names=_EVENTS,
    tools=base.pairs("exec=Bash read=Read write=Write edit=Edit grep=Grep web_fetch=WebFetch"),
    inputs={"Read": _FILE, "Write": _FILE, "Edit": _FILE, "apply_patch": {"input": "command"}},
    capabilities=base.rounded("", PreToolUse="deny ask rewrite_input", PostToolUse=""),
    sends=lambda payload, _environ: 2 * base.sends_own_names(_EVENTS.values(), payload),
    marks={"OPENCLAW_SHELL": ""},
    packages=(("node_modules", "openclaw"),),
    program="openclaw",
    user_file=_PLUGIN,
    trust=_trust,
    next_steps=(
        ("any", f'add "~/{_PLUGIN}" to `plugins.load.paths` in ~/.openclaw/openclaw.json, and restart the Gateway'),
    ),
)
AGENTS = {"openclaw": AGENT}
DIALECTS = {"openclaw": PluginDialect(AGENT)}
