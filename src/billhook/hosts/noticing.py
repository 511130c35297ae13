"""What a person ought to know about an agent's file before they rely on what is written there."""

import os
from collections.abc import Iterator

from billhook.config import sources
from billhook.config.declared import Run, Url
from billhook.config.installed import is_billhook
from billhook.hosts import Host
from billhook.hosts.agentfile import handlers
from billhook.hosts.entries import NAME, is_written
from billhook.hosts.jsonedit import at_path
from billhook.hosts.jsontext import Document


def notes_about(file: str, document: Document, host: Host) -> list[str]:
    """Sentences; `document` is the file without our entries."""
    off = [*_switches(file, document, host), *_disabled(file, document, host)]
    return [*off, *_second_callers(file, document, host), *_beside(file, host)]


def _switches(file: str, document: Document, host: Host) -> Iterator[str]:
    for path, off in (
        (["disableAllHooks"], True),
        (["hooksConfig", "enabled"], False),
        (["tools", "enableHooks"], False),
    ):
        found = at_path(document, path)
        if found is not None and document.plain(found) is off:
            place = f"{file}:{document.place(found)}"
            yield f"{place} switches all hooks off (`{'.'.join(path)}`): {host.title} will not ask billhook"


def _disabled(file: str, document: Document, host: Host) -> Iterator[str]:
    """Gemini and Qwen can switch off single hooks, by their names."""
    for path in (["hooksConfig", "disabled"], ["hooks", "disabled"]):
        found = at_path(document, path)
        names = document.plain(found) if found is not None else None
        if host.named and found is not None and isinstance(names, list) and NAME in names:
            place = f"{file}:{document.place(found)}"
            yield f"{place} switches billhook's hooks off (`{'.'.join(path)}`): {host.title} will not ask it"


def _second_callers(file: str, document: Document, host: Host) -> Iterator[str]:
    for one in handlers(document, host):
        command, url = one.data.get("command"), one.data.get("url")
        action = Run(command) if isinstance(command, str) else Url(url) if isinstance(url, str) else None
        if is_billhook(action) and not is_written(one.data):
            yield f"{file}:{one.line} calls billhook as well, in words of your own; remove that entry"


def _beside(file: str, host: Host) -> Iterator[str]:
    """Codex reads a second file in the same folder."""
    if host.name != "codex":
        return
    import tomllib

    path = os.path.join(os.path.dirname(file), "config.toml")
    try:
        said = tomllib.loads(sources.read_bytes(path).decode())
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
