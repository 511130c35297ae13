"""What a person ought to know about an agent's file before they rely on what is written there."""

from collections.abc import Iterator

from billhook.agents.base import Agent
from billhook.config import sources
from billhook.config.declared import Run, Url
from billhook.config.installed import is_billhook
from billhook.hosts.agentfile import handlers
from billhook.hosts.entries import NAME, is_written
from billhook.hosts.jsonedit import at_path
from billhook.hosts.jsontext import Document


def notes_about(file: str, document: Document, host: Agent) -> list[str]:
    """Sentences; `document` is the file without our entries."""
    off = [*_switches(file, document, host), *_disabled(file, document, host)]
    return [
        *off,
        *_second_callers(file, document, host),
        *(host.beside(file, sources.read_bytes) if host.beside else ()),
    ]


def _switches(file: str, document: Document, host: Agent) -> Iterator[str]:
    for path, off in (
        (["disableAllHooks"], True),
        (["hooksConfig", "enabled"], False),
        (["tools", "enableHooks"], False),
    ):
        found = at_path(document, path)
        if found is not None and document.plain(found) is off:
            place = f"{file}:{document.place(found)}"
            yield f"{place} switches all hooks off (`{'.'.join(path)}`): {host.title} will not ask billhook"


def _disabled(file: str, document: Document, host: Agent) -> Iterator[str]:
    """Some agents can switch off single hooks, by their names."""
    for path in (["hooksConfig", "disabled"], ["hooks", "disabled"]):
        found = at_path(document, path)
        names = document.plain(found) if found is not None else None
        if host.named and found is not None and isinstance(names, list) and NAME in names:
            place = f"{file}:{document.place(found)}"
            yield f"{place} switches billhook's hooks off (`{'.'.join(path)}`): {host.title} will not ask it"


def _second_callers(file: str, document: Document, host: Agent) -> Iterator[str]:
    for one in handlers(document, host):
        command, url = one.data.get("command"), one.data.get("url")
        action = Run(command) if isinstance(command, str) else Url(url) if isinstance(url, str) else None
        if is_billhook(action) and not is_written(one.data):
            yield f"{file}:{one.line} calls billhook as well, in words of your own; remove that entry"
