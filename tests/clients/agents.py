"""The agents: their programs, what they need to run offline, and the names of their tools."""

import importlib.metadata
import importlib.util
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from clients.script import Call


class Place(msgspec.Struct, frozen=True):
    """A temporary folder with a home and a project."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def project(self) -> Path:
        return self.root / "project"


class Start(msgspec.Struct, frozen=True):
    """How an agent is started: writes its settings; its variables and arguments."""

    environ: Mapping[str, str]
    words: Sequence[str]


class Agent(msgspec.Struct, frozen=True):
    """One coding agent. `shell`, `write`, `edit` and `read` create the tool call that its model would make.

    `installs`: the host for which billhook is installed, in `scope`; `speaks`: the host whose row of the capability
    table applies; `without`: the cases that don't apply.
    """

    name: str
    title: str
    package: str
    program: str
    prepare: Callable[[Place, str, str], Start]
    shell: Callable[[str], Call]
    write: Callable[[str, str], Call]
    edit: Callable[[str, str, str], Call]
    read: Callable[[str], Call]
    delegate: Call
    installs: str = ""
    scope: str = "--user"
    speaks: str = ""
    without: frozenset[str] = frozenset()
    packages: tuple[str, ...] = ()
    """Other npm packages that it needs, of the same version."""
    node: str = ""
    """The version of Node that it needs, if that is newer than what most machines have: it is installed beside it."""
    python: bool = False
    """Whether it is a package of PyPI, installed with its dependencies into a virtual environment."""


def cache() -> Path:
    """Where `scripts/clients --install` puts the agents."""
    named = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(os.environ.get("BILLHOOK_CLIENTS") or Path(named) / "billhook" / "clients")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _write_json(path: Path, value: object) -> None:
    _write(path, json.dumps(value, indent=2) + "\n")


def _prepare_claude(place: Place, url: str, prompt: str) -> Start:
    environ = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "scripted",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    tools = "Bash,Write,Edit,Read,Agent,Task"
    return Start(environ, ["-p", prompt, "--allowedTools", tools, "--output-format", "json"])


def _prepare_codex(place: Place, url: str, prompt: str) -> Start:
    """A model name that Codex knows: only known models get the tool `apply_patch`."""
    config = f"""\
model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false

[features]
hooks = true

[analytics]
enabled = false

[projects."{place.project}"]
trust_level = "trusted"
"""
    _write(place.home / ".codex" / "config.toml", config)
    trusted = ["--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox"]
    environ = {"CODEX_HOME": str(place.home / ".codex"), "SCRIPTED_KEY": "scripted"}
    return Start(environ, ["exec", "--skip-git-repo-check", "--json", *trusted, prompt])


def _quiet_settings(auth: str) -> dict[str, object]:
    return {
        "general": {"disableAutoUpdate": True, "disableUpdateNag": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": auth}, "folderTrust": {"enabled": False}},
    }


def _prepare_gemini(place: Place, url: str, prompt: str) -> Start:
    _write_json(place.home / ".gemini" / "settings.json", _quiet_settings("gemini-api-key"))
    environ = {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_HOME": str(place.home)}
    words = ["-p", prompt, "-m", "gemini-2.5-flash", "--approval-mode", "yolo", "--skip-trust", "-o", "json"]
    return Start(environ, words)


def _prepare_qwen(place: Place, url: str, prompt: str) -> Start:
    _write_json(place.home / ".qwen" / "settings.json", _quiet_settings("openai"))
    environ = {"OPENAI_API_KEY": "scripted", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "scripted"}
    return Start(environ, ["-p", prompt, "--approval-mode", "yolo", "--auth-type", "openai", "-o", "json"])


def _prepare_copilot(place: Place, url: str, prompt: str) -> Start:
    """`COPILOT_ALLOW_ALL=true` also trusts the folder: without it no hook of the project is loaded."""
    subprocess.run(["git", "init", "-q", str(place.project)], check=False)
    environ = {
        "COPILOT_HOME": str(place.home / ".copilot"),
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_OFFLINE": "true",
        "COPILOT_ALLOW_ALL": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": "scripted",
        "COPILOT_MODEL": "gpt-4.1",
    }
    alone = ["--no-color", "--no-auto-update", "--disable-builtin-mcps"]
    return Start(environ, ["-p", prompt, "--allow-all-tools", *alone])


def _prepare_opencode(place: Place, url: str, prompt: str) -> Start:
    """The plugin package must be next to its settings: otherwise it waits for the network."""
    model = {"name": "scripted", "tool_call": True}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "models": {"scripted": model}}
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "provider": {"scripted": {**provider, "options": {"baseURL": f"{url}/v1", "apiKey": "scripted"}}},
        "permission": {"bash": "allow", "edit": "allow", "external_directory": "allow"},
    }
    _write_json(place.project / "opencode.json", settings)
    binary = find(_PLAIN["opencode"])
    assert binary is not None
    own = place.home / ".config" / "opencode"
    packages = binary.parent.parent
    for name in ("package.json", "package-lock.json"):
        _write(own / name, (packages.parent / name).read_text())
    (own / "node_modules").symlink_to(packages)
    off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return Start({f"OPENCODE_DISABLE_{name}": "1" for name in off}, ["run", "--format", "json", prompt])


def _prepare_cline(place: Place, url: str, prompt: str) -> Start:
    settings = {"provider": "openai-compatible", "apiKey": "scripted", "model": "scripted", "baseUrl": f"{url}/v1"}
    used = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": "openai-compatible", "providers": {"openai-compatible": used}}
    _write_json(place.home / ".cline" / "data" / "settings" / "providers.json", providers)
    return Start({}, ["--json", "-P", "openai-compatible", "-m", "scripted", prompt])


def _prepare_pi(place: Place, url: str, prompt: str) -> Start:
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "scripted"}
    models = {"providers": {"scripted": {**provider, "models": [{"id": "scripted"}]}}}
    _write_json(place.home / ".pi" / "agent" / "models.json", models)
    environ = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}
    return Start(environ, ["-p", "--approve", "--provider", "scripted", "--model", "scripted", prompt])


_SESSION: Final = "00000000-0000-4000-8000-000000000001"


def _prepare_openclaw(place: Place, url: str, prompt: str) -> Start:
    """Its settings name billhook's plugin, as `billhook install` asks the user to write."""
    model = {"baseUrl": f"{url}/v1", "apiKey": "scripted", "api": "openai-completions"}
    settings = {
        "models": {"providers": {"scripted": {**model, "models": [{"id": "scripted", "name": "scripted"}]}}},
        "agents": {"defaults": {"model": {"primary": "scripted/scripted"}, "workspace": str(place.project)}},
        "tools": {"exec": {"security": "full", "ask": "off"}},
        "plugins": {
            "load": {"paths": ["~/.openclaw/plugins/billhook"]},
            "allow": ["billhook"],
            "entries": {"billhook": {"enabled": True}},
        },
    }
    _write_json(place.home / ".openclaw" / "openclaw.json", settings)
    return Start({}, ["agent", "--local", "--session-id", _SESSION, "--json", "--message", prompt])


def _prepare_hermes(place: Place, url: str, prompt: str) -> Start:
    """Its own checks of commands are off (`--yolo`): they would ask in a terminal."""
    model = {"provider": "custom", "default": "scripted", "base_url": f"{url}/v1", "api_key": "scripted"}
    lines = [f"  {name}: {value}\n" for name, value in {**model, "context_length": "200000"}.items()]
    _write(place.home / ".hermes" / "config.yaml", "".join(["model:\n", *lines]))
    environ = {"HERMES_HOME": str(place.home / ".hermes")}
    return Start(environ, ["chat", "--quiet", "--accept-hooks", "--yolo", "--toolsets", "terminal,file", "-q", prompt])


def _patch(path: str, *lines: str) -> Call:
    return Call("apply_patch", raw="\n".join(["*** Begin Patch", path, *lines, "*** End Patch"]) + "\n")


_TASK: Final = {"description": "a task", "prompt": "DELEGATED-TASK: do nothing"}

_PLAIN: Final[Mapping[str, Agent]] = {
    agent.name: msgspec.structs.replace(agent, installs=agent.name, speaks=agent.name)
    for agent in (
        Agent(
            "claude",
            "Claude Code",
            "claude-agent-sdk",
            "claude",
            _prepare_claude,
            shell=lambda command: Call("Bash", {"command": command, "description": "runs it"}),
            write=lambda path, content: Call("Write", {"file_path": path, "content": content}),
            edit=lambda path, old, new: Call("Edit", {"file_path": path, "old_string": old, "new_string": new}),
            read=lambda path: Call("Read", {"file_path": path}),
            delegate=Call("Agent", {**_TASK, "subagent_type": "general-purpose"}),
        ),
        Agent(
            "codex",
            "Codex CLI",
            "@openai/codex",
            "codex",
            _prepare_codex,
            shell=lambda command: Call("exec_command", {"cmd": command}),
            write=lambda path, content: _patch(f"*** Add File: {path}", *(f"+{line}" for line in content.split("\n"))),
            edit=lambda path, old, new: _patch(f"*** Update File: {path}", "@@", f"-{old}", f"+{new}"),
            read=lambda path: Call("exec_command", {"cmd": f"cat {path}"}),
            delegate=Call("spawn_agent", {"message": _TASK["prompt"]}, namespace="multi_agent_v1"),
        ),
        Agent(
            "gemini",
            "Gemini CLI",
            "@google/gemini-cli",
            "gemini",
            _prepare_gemini,
            shell=lambda command: Call("run_shell_command", {"command": command, "description": "runs it"}),
            write=lambda path, content: Call("write_file", {"file_path": path, "content": content}),
            edit=lambda path, old, new: Call(
                "replace", {"file_path": path, "old_string": old, "new_string": new, "instruction": "change it"}
            ),
            read=lambda path: Call("read_file", {"file_path": path}),
            delegate=Call("invoke_agent", {"agent_name": "generalist", "prompt": _TASK["prompt"]}),
        ),
        Agent(
            "copilot",
            "Copilot CLI",
            "@github/copilot",
            "copilot",
            _prepare_copilot,
            shell=lambda command: Call("bash", {"command": command, "description": "runs it"}),
            write=lambda path, content: Call("create", {"path": path, "file_text": content}),
            edit=lambda path, old, new: Call("edit", {"path": path, "old_str": old, "new_str": new}),
            read=lambda path: Call("view", {"path": path}),
            delegate=Call("task", {**_TASK, "agent_type": "general-purpose", "name": "a-task"}),
        ),
        Agent(
            "qwen",
            "Qwen Code",
            "@qwen-code/qwen-code",
            "qwen",
            _prepare_qwen,
            shell=lambda command: Call(
                "run_shell_command", {"command": command, "description": "runs it", "is_background": False}
            ),
            write=lambda path, content: Call("write_file", {"file_path": path, "content": content}),
            edit=lambda path, old, new: Call("edit", {"file_path": path, "old_string": old, "new_string": new}),
            read=lambda path: Call("read_file", {"file_path": path}),
            delegate=Call("agent", {**_TASK, "subagent_type": "general-purpose"}),
            node="24",
        ),
        Agent(
            "opencode",
            "OpenCode",
            "opencode-ai",
            "opencode",
            _prepare_opencode,
            shell=lambda command: Call("bash", {"command": command, "description": "runs it"}),
            write=lambda path, content: Call("write", {"filePath": path, "content": content}),
            edit=lambda path, old, new: Call("edit", {"filePath": path, "oldString": old, "newString": new}),
            read=lambda path: Call("read", {"filePath": path}),
            delegate=Call("task", {**_TASK, "subagent_type": "general"}),
            packages=("@opencode-ai/plugin",),
        ),
        Agent(
            "cline",
            "Cline CLI",
            "cline",
            "cline",
            _prepare_cline,
            shell=lambda command: Call("run_commands", {"commands": [command]}),
            write=lambda path, content: Call("editor", {"path": path, "new_text": content}),
            edit=lambda path, old, new: Call("editor", {"path": path, "old_text": old, "new_text": new}),
            read=lambda path: Call("read_files", {"files": [{"path": path}]}),
            delegate=Call("run_commands", {"commands": ["echo a task for a sub-agent"]}),
        ),
        Agent(
            "pi",
            "pi",
            "@earendil-works/pi-coding-agent",
            "pi",
            _prepare_pi,
            shell=lambda command: Call("bash", {"command": command}),
            write=lambda path, content: Call("write", {"path": path, "content": content}),
            edit=lambda path, old, new: Call("edit", {"path": path, "edits": [{"oldText": old, "newText": new}]}),
            read=lambda path: Call("read", {"path": path}),
            delegate=Call("bash", {"command": "echo it has no agent for a task"}),
            node="24",
        ),
        Agent(
            "openclaw",
            "OpenClaw",
            "openclaw",
            "openclaw",
            _prepare_openclaw,
            shell=lambda command: Call("exec", {"command": command}),
            write=lambda path, content: Call("write", {"path": path, "content": content}),
            edit=lambda path, old, new: Call("edit", {"path": path, "edits": [{"oldText": old, "newText": new}]}),
            read=lambda path: Call("read", {"path": path}),
            delegate=Call("exec", {"command": "echo a task for a sub-agent"}),
            node="24",
        ),
        Agent(
            "hermes",
            "Hermes",
            "hermes-agent",
            "hermes",
            _prepare_hermes,
            shell=lambda command: Call("terminal", {"command": command}),
            write=lambda path, content: Call("write_file", {"path": path, "content": content}),
            edit=lambda path, old, new: Call("patch", {"path": path, "old_string": old, "new_string": new}),
            read=lambda path: Call("read_file", {"path": path}),
            delegate=Call("terminal", {"command": "echo a task for a sub-agent"}),
            python=True,
        ),
    )
}


def _prepare_sdk(place: Place, url: str, prompt: str) -> Start:
    start = _prepare_claude(place, url, prompt)
    return Start(start.environ, [str(Path(__file__).with_name("sdk_agent.py")), prompt])


_NO_ENTRY: Final = frozenset(
    {"session-context", "too-late", "daemon-killed", "daemon-stopped", "no-daemon", "missing", "missing-prompt"}
)
AGENTS: Final[Mapping[str, Agent]] = {
    **_PLAIN,
    "copilot-claude": msgspec.structs.replace(
        _PLAIN["copilot"],
        name="copilot-claude",
        title="Copilot CLI, by .claude/settings.json",
        installs="claude",
        scope="--project",  # of Claude Code's files, it only reads the project's
    ),
    "claude-sdk": msgspec.structs.replace(
        _PLAIN["claude"],
        name="claude-sdk",
        title="Claude Agent SDK",
        prepare=_prepare_sdk,
        installs="",
        without=_NO_ENTRY,
    ),
}
"""All agents, and two variants: Copilot also reads Claude Code's settings, and the SDK runs hooks in the process that
uses it."""


def find(agent: Agent) -> Path | None:
    """The agent's program: in the cache, in the Claude Agent SDK, or on PATH."""
    if agent.name == "claude-sdk":
        return Path(sys.executable) if _bundled_claude(installed=True) else None
    if agent.name == "claude":
        return _bundled_claude() or _on_path(agent.program)
    programs = Path("bin") if agent.python else Path("node_modules", ".bin")
    inside = Path(agent.package.rpartition("/")[2]) / programs / agent.program
    cached = (folder / inside for folder in _caches())
    return next((path for path in cached if path.exists()), None) or _on_path(agent.program)


def _caches() -> list[Path]:
    """The cache below HOME, and the one of the user's account: tests have a temporary HOME."""
    account = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / "billhook" / "clients"
    return [cache(), account]


def _on_path(program: str) -> Path | None:
    found = shutil.which(program)
    return Path(found) if found else None


def _bundled_claude(*, installed: bool = False) -> Path | None:
    """The binary of claude-agent-sdk: of an installed one, or unpacked into the cache."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
    if not installed:
        folders += [folder / "claude-agent-sdk" / "claude_agent_sdk" for folder in _caches()]
    found = (folder / "_bundled" / "claude" for folder in folders)
    return next((path for path in found if os.access(path, os.X_OK)), None)


def with_own_node(binary: str | Path, path: str) -> str:
    """PATH with the program's own folder first, which has the version of Node that it needs."""
    return os.pathsep.join([os.path.dirname(binary), path])


def version(agent: Agent, binary: Path) -> str:
    """The version that the program prints."""
    if agent.name == "claude-sdk":
        return importlib.metadata.version("claude-agent-sdk")
    environ = {**os.environ, "PATH": with_own_node(binary, os.environ.get("PATH", os.defpath))}
    words = [str(binary), "--version"]
    said = subprocess.run(
        words, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, env=environ, check=False
    )
    number = re.search(r"\d+\.\d+\.\d+[\w.-]*", said.stdout + said.stderr)
    return number[0].rstrip(".") if number else "unknown"
