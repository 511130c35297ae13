"""Hooks of Claude Code's plugins. That agent runs them itself: billhook only shows that they are there."""

import os
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from billhook.agents import AGENTS
from billhook.cli.doctor.folder_trust import settings_of
from billhook.config.declared import Declared
from billhook.config.shapes import read_file

_MOST: Final = 200  # plugins that are looked at


class PluginHook(msgspec.Struct, frozen=True):
    """One hook of one plugin."""

    plugin: str
    declared: Declared


def plugin_hooks(project: str) -> list[PluginHook]:
    """The hooks of every plugin that is installed and switched on for this project."""
    return [PluginHook(name, one) for name, folder in _enabled(project) for one in _hooks_in(folder)]


def _enabled(project: str) -> Iterator[tuple[str, str]]:
    """The name and the folder of each; the project's settings come after the user's, as in the agent itself."""
    home = AGENTS["claude"].home()
    switches: dict[str, Any] = {}
    for file in (
        os.path.join(home, "settings.json"),
        os.path.join(project, ".claude", "settings.json"),
        os.path.join(project, ".claude", "settings.local.json"),
    ):
        said = settings_of(file).get("enabledPlugins")
        switches |= said if isinstance(said, dict) else {}
    installed = settings_of(os.path.join(home, "plugins", "installed_plugins.json")).get("plugins")
    for name, found in list(installed.items())[:_MOST] if isinstance(installed, dict) else ():
        folder = _folder(found, project)
        if folder and switches.get(name) is True:
            yield name, folder


def _folder(found: object, project: str) -> str:
    """Where a plugin lies: one place, or several for different projects."""
    for one in found if isinstance(found, list) else [found]:
        if not isinstance(one, dict) or not isinstance(one.get("installPath"), str):
            continue
        if one.get("projectPath") in (None, project):
            return str(one["installPath"])
    return ""


def _hooks_in(folder: str) -> Iterator[Declared]:
    """What its file of hooks declares, and what the manifest names instead of that file."""
    said = settings_of(os.path.join(folder, ".claude-plugin", "plugin.json")).get("hooks")
    named = [one for one in (said if isinstance(said, list) else [said]) if isinstance(one, str)]
    for path in dict.fromkeys(os.path.normpath(os.path.join(folder, one)) for one in ("hooks/hooks.json", *named)):
        if os.path.isfile(path) and path.startswith(os.path.join(folder, "")):
            yield from (one for one in read_file(path, "explicit", folder).entries if one.action is not None)
