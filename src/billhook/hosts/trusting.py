"""Whether an agent trusts this folder, and our entries in its files, as far as its own files tell.

Agents skip hooks that they don't trust without a word, so that nobody notices that nothing is judged.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from billhook import caller
from billhook.config import sources
from billhook.config.reading import MAX_BYTES, read_text
from billhook.hosts import Host
from billhook.hosts.doctor_entries import Installation
from billhook.hosts.doctor_finding import Finding, Level
from billhook.hosts.trusting_codex import codex_trust

_MANAGED: Final = ("/etc/claude-code/managed-settings.json",)


def trust_findings(host: Host, project: str, installed: list[Installation]) -> Iterator[Finding]:
    """What the agent's files say about trust; nothing for an agent that has no such thing."""
    yield from _ASKED[host.name](host, project, installed)


def settings_of(path: str) -> dict[str, Any]:
    """A settings file, comments allowed; empty when there is none, or none that can be read."""
    try:
        data = sources.read_bytes(path, MAX_BYTES)
    except OSError:
        return {}
    read = read_text(data, path if path.endswith(".json") else f"{path}.json")
    plain = read.node.plain() if read.node is not None else {}
    return plain if isinstance(plain, dict) else {}


def _matters(installed: list[Installation]) -> Level:
    """How bad it is that the agent reads nothing of a project: all is lost where nothing else is installed."""
    scopes = {one.scope for one in installed}
    return "fail" if scopes == {"project"} else "warn" if "project" in scopes else "ok"


# -- Claude Code


def _claude(host: Host, project: str, installed: list[Installation]) -> Iterator[Finding]:
    yield from _claude_switches(host, project)
    moved = caller.environ().get("CLAUDE_CONFIG_DIR")
    file = os.path.join(host.home() if moved else caller.abspath(caller.expanduser("~")), ".claude.json")
    said = settings_of(file).get("projects")
    known = said if isinstance(said, dict) else {}
    above = [known[folder] for folder in _way_up(project) if isinstance(known.get(folder), dict)]
    if any(one.get("hasTrustDialogAccepted") is True for one in above):
        yield Finding("ok", "trust", "Claude Code trusts this folder")
    elif os.path.realpath(project) in known or project in known:
        text = "Claude Code has not been told to trust this folder; in its window it runs no hooks before that"
        yield Finding("warn", "trust", text, "start `claude` here, and accept the folder")
    else:
        text = "Claude Code has not been opened in this folder; it asks then whether to trust it"
        yield Finding("unknown", "trust", text)


def _claude_switches(host: Host, project: str) -> Iterator[Finding]:
    """What `install` does not look at: the person's own file of the project, and what an organisation sets."""
    managed = (*_MANAGED, os.path.join(host.home(), "remote-settings.json"))  # what an organisation's server sent
    for path in (os.path.join(project, ".claude", "settings.local.json"), *managed):
        said = settings_of(path)
        if said.get("disableAllHooks") is True:
            yield Finding("fail", "trust", f"{path} switches all hooks off (`disableAllHooks`)", "change that setting")
        if path in managed and said.get("allowManagedHooksOnly") is True:
            text = f"{path} allows none but managed hooks (`allowManagedHooksOnly`)"
            yield Finding("fail", "trust", text, "have billhook's entries put into that file")
    yield from _invalid_files(host, project)


_INVALID: Final = frozenset({"BH104", "BH203", "BH204", "BH206", "BH216"})


def _invalid_files(host: Host, project: str) -> Iterator[Finding]:
    """Claude Code skips a whole settings file, and every hook in it, for one entry of a form that it does not know."""
    from billhook.config.shapes import read_file

    for path in dict.fromkeys(
        (
            os.path.join(host.home(), "settings.json"),
            os.path.join(project, ".claude", "settings.json"),
            os.path.join(project, ".claude", "settings.local.json"),
        )
    ):
        read = read_file(path, "explicit", project) if os.path.isfile(path) else None
        wrong = next((one for one in read.findings if one.code in _INVALID), None) if read is not None else None
        odd = next((one for one in read.entries if one.shape != "nested"), None) if read is not None else None
        if wrong is not None or odd is not None:
            line, what = (
                (wrong.line, wrong.message) if wrong is not None else (odd.line if odd else 0, "a bare command")
            )
            text = f"{path}:{line}: {what}; Claude Code skips the whole file for one invalid entry"
            yield Finding(
                "warn", "trust", text, "fix that entry, or move it to a hooks.yaml; `billhook check` shows all"
            )


def _way_up(folder: str) -> Iterator[str]:
    """A folder and all above it, as it was named and as it really is."""
    for begin in dict.fromkeys((folder, os.path.realpath(folder))):
        path, above = "", begin
        while above != path:
            path, above = above, os.path.dirname(above)
            yield path


# -- Gemini CLI and Qwen Code


def _gemini(host: Host, project: str, installed: list[Installation]) -> Iterator[Finding]:
    environ = caller.environ()
    forced = environ.get("GEMINI_CLI_TRUST_WORKSPACE") if host.name == "gemini" else None
    if forced in ("true", "false"):
        yield _folder(host, installed, forced == "true", "the variable GEMINI_CLI_TRUST_WORKSPACE says so")
        return
    enabled = dig(settings_of(host.file("user", project)), "security", "folderTrust", "enabled")
    if enabled is False or (enabled is None and host.name == "qwen"):
        yield Finding("ok", "trust", f"{host.title} trusts every folder (`security.folderTrust` is off)")
        return
    usual = os.path.join(host.home(), "trustedFolders.json")
    file = environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH", usual) if host.name == "gemini" else usual
    trusted = _by_rules(settings_of(file), os.path.realpath(project))
    yield _folder(host, installed, trusted, file if trusted is not None else "")


def _by_rules(rules: Mapping[str, Any], project: str) -> bool | None:
    """What the longest rule about a folder says; None when there is none."""
    longest: tuple[int, bool | None] = (-1, None)
    for path, level in rules.items():
        effective = os.path.realpath(os.path.dirname(path) if level == "TRUST_PARENT" else path)
        inside = project == effective or project.startswith(os.path.join(effective, ""))
        if inside and len(path) > longest[0] and level in ("TRUST_PARENT", "TRUST_FOLDER", "DO_NOT_TRUST"):
            longest = len(path), level != "DO_NOT_TRUST"
    return longest[1]


def _folder(host: Host, installed: list[Installation], trusted: bool | None, why: str) -> Finding:
    because = f" ({why})" if why else ""
    if trusted:
        return Finding("ok", "trust", f"{host.title} trusts this folder{because}")
    level = _matters(installed)
    if level == "ok":
        text = f"{host.title} does not trust this folder{because}; the entries in your own settings count all the same"
        window = ", and without a window it does not start here" if host.name == "gemini" else ""
        return Finding("ok", "trust", text + window)
    text = f"{host.title} does not trust this folder{because}, and reads no hooks of it"
    return Finding(level, "trust", text, f"start `{host.program}` here, and trust the folder")


def dig(value: object, *keys: str) -> object:
    """What stands below some keys; None where nothing does."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


# -- Copilot and Cursor


def _copilot(host: Host, project: str, installed: list[Installation]) -> Iterator[Finding]:
    folders: list[str] = []
    for name in ("config.json", "settings.json"):
        said = settings_of(os.path.join(host.home(), name))
        if said.get("disableAllHooks") is True:
            text = f"{os.path.join(host.home(), name)} switches all hooks off (`disableAllHooks`)"
            yield Finding("fail", "trust", text, "change that setting")
        for key in ("trusted_folders", "trustedFolders"):
            value = said.get(key)
            folders += [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
    real = [os.path.realpath(one) for one in folders]
    yield _folder(host, installed, any(folder in real for folder in _way_up(project)), "")


def _cursor(host: Host, project: str, installed: list[Installation]) -> Iterator[Finding]:
    yield Finding("unknown", "trust", "whether Cursor trusts this folder can't be read from its files")


_ASKED: Final[Mapping[str, Callable[[Host, str, list[Installation]], Iterator[Finding]]]] = {
    "claude": _claude,
    "codex": codex_trust,
    "gemini": _gemini,
    "qwen": _gemini,
    "copilot": _copilot,
    "cursor": _cursor,
}
