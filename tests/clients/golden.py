"""Records the real input of each agent's hooks in tests/dialects/golden: `scripts/clients --record`.

Names of this machine, ids and times are replaced consistently, so that a file only changes when an agent does.
"""

import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from billhook.agents import AGENTS as HOSTS
from billhook.agents.base import SettingsFormat
from clients.agents import AGENTS, Agent, Place, find, version
from clients.running import TESTS, Run, run
from clients.script import Call, Script, Step

GOLDEN: Final = TESTS / "dialects" / "golden"
_MODEL_EVENTS: Final = ("BeforeModel", "AfterModel", "BeforeToolSelection")
EVENTS: Final[Mapping[str, Sequence[str]]] = {
    "claude": tuple(HOSTS["claude"].spellings.values()),
    "codex": tuple(HOSTS["codex"].spellings.values()),
    "gemini": (*HOSTS["gemini"].spellings.values(), *_MODEL_EVENTS),
    "qwen": tuple(HOSTS["claude"].spellings.values()),
    "copilot": tuple(HOSTS["copilot"].spellings.values()),
    "copilot-claude": tuple(HOSTS["claude"].spellings.values()),
    **{name: tuple(HOSTS[name].spellings.values()) for name in ("opencode", "pi", "cline", "openclaw")},
}
"""`copilot-claude` is Copilot with the hooks of .claude/settings.json. Qwen takes Claude Code's names."""


def record(host: str) -> Iterator[str]:
    """Runs the agent with a recorder on each event, and writes a file for each kind of payload."""
    agent = AGENTS[host]
    binary = find(agent)
    if binary is None:
        yield f"{host}: {agent.title} is not here"
        return
    with tempfile.TemporaryDirectory(prefix="billhook-golden-") as folder:
        place = Place(Path(folder).resolve())
        ran = run(_recording(host, agent, str(binary), place))
        for again in _compacting(host, agent, str(binary), place):
            run(again)
        lines = (place.root / "log").read_text().splitlines() if (place.root / "log").exists() else []
        got = [json.loads(line) for line in lines]
        yield f"{host}: exit {ran.exit} after {ran.seconds:.0f} s, {ran.turns} turns, {len(got)} events"
        if not got:
            yield ran.stdout[-2000:] + ran.stderr[-2000:]
        yield from _marks(host, got, place)
        named = {"client": AGENTS[agent.speaks].title, "version": version(agent, binary)}
        for name, entry in _kinds(got).items():
            written = {**named, **_Scrubber(place).scrubbed(entry)}
            path = GOLDEN / host / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n")


def _recording(host: str, agent: Agent, binary: str, place: Place) -> Run:
    note = str(place.project / "note.txt")
    calls = [
        agent.shell(f"env > {place.root}/shell-env; echo hello"),
        agent.write(note, "first line"),
        agent.read(note),
        agent.edit(note, "first line", "second line"),
        agent.delegate,
        agent.shell("echo trouble >&2; sleep 1; exit 3"),
        agent.read(str(place.project / "missing.txt")),
    ]
    if named := _MCP_NAMES.get(agent.speaks):
        calls.append(Call(named, {"text": "from the model"}, namespace=_MCP_SPACES.get(agent.speaks, "")))
    script = Script([*(Step(calls=[call]) for call in calls), Step("all done")])
    files, words = _settings(host, place), _with_tools_of_a_server(agent.speaks)
    return Run(agent.name, binary, str(place.root), script, files=files, words=words)


def _compacting(host: str, agent: Agent, binary: str, place: Place) -> Iterator[Run]:
    """A run that compacts the conversation, for agents that can be made to do so."""
    script = Script([Step(calls=[agent.shell("echo again")]), Step("all done")])
    again = Run(agent.name, binary, str(place.root), script, files=_settings(host, place))
    if host == "claude":
        yield msgspec.structs.replace(again, prompt="/compact", words=["--continue"])
    if host == "codex":
        yield msgspec.structs.replace(again, words=["-c", "model_auto_compact_token_limit=5"], seconds=12)


_MCP_NAMES: Final = {
    "claude": "mcp__notes__add_note",
    "codex": "add_note",
    "gemini": "mcp_notes_add_note",
    "qwen": "mcp__notes__add_note",
    "copilot": "notes-add_note",
}
_MCP_SPACES: Final = {"codex": "mcp__notes"}
_SERVER: Final = {"command": sys.executable, "args": [str(TESTS / "clients" / "mcp_server.py")]}


def _with_tools_of_a_server(name: str) -> list[str]:
    """The arguments that give an agent an MCP server; Gemini and Qwen read it from their settings."""
    servers = json.dumps({"mcpServers": {"notes": _SERVER}})
    match name:
        case "claude":
            return ["--mcp-config", servers, "--allowedTools", "Bash,Write,Edit,Read,Agent,mcp__notes__add_note"]
        case "codex":
            given = {key: json.dumps(value) for key, value in _SERVER.items()}
            return [word for key, value in given.items() for word in ("-c", f"mcp_servers.notes.{key}={value}")]
        case "copilot":
            return ["--additional-mcp-config", servers]
        case _:
            return []


def _settings(host: str, place: Place) -> dict[str, str]:
    def command(event: str) -> str:
        return shlex.join([sys.executable, str(TESTS / "clients" / "recorder.py"), f"{place.root}/log", event])

    if host in HOSTS and type(HOSTS[host].format) is not SettingsFormat:
        entries = {event: [{"command": command(event), "timeout": 20}] for event in EVENTS[host]}
        own = HOSTS[host]
        beside = {f"home/{os.path.dirname(own.user_file)}/{name}": text for name, text in own.companions}
        return {**beside, f"home/{own.user_file}": own.format.write(json.dumps({"hooks": entries}), "")}
    nested = {
        event: [{"hooks": [{"type": "command", "command": command(event), "timeout": _timeout(host)}]}]
        for event in EVENTS[host]
    }
    flat = {event: [{"type": "command", "bash": command(event), "timeoutSec": 20}] for event in EVENTS[host]}
    held: dict[str, Any] = {"version": 1, "hooks": flat} if host == "copilot" else {"hooks": nested}
    if host in ("gemini", "qwen"):
        held["mcpServers"] = {"notes": _SERVER}
    return {f"project/{_FILES[host]}": json.dumps(held)}


_FILES: Final = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "qwen": ".qwen/settings.json",
    "copilot": ".github/hooks/recorder.json",
    "copilot-claude": ".claude/settings.json",
}


def _timeout(host: str) -> int:
    return 20_000 if host in ("gemini", "qwen") else 20


def _kinds(got: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One payload of each kind: by event and tool; failures are separate."""
    kinds: dict[str, dict[str, Any]] = {}
    for entry in got:
        event = entry["stdin"] if isinstance(entry["stdin"], dict) else {}
        called = event.get("tool_call") or {}
        tool = event.get("tool_name") or event.get("toolName") or called.get("name")
        trouble = [] if entry["argument"].endswith("Failure") else _trouble(event)
        name = "-".join([entry["argument"], *([str(tool).replace("/", "-")] if tool else []), *trouble])
        kinds.setdefault(name, entry)
    return kinds


def _trouble(event: dict[str, Any]) -> list[str]:
    told = json.dumps([event.get(name) for name in ("tool_response", "tool_result", "toolResult", "error")])
    return ["failed"] if any(words in told for words in ("trouble", "missing.txt")) else []


def _marks(host: str, got: list[dict[str, Any]], place: Place) -> Iterator[str]:
    """The variables that the agent itself adds for hooks, and for the commands of its shell tool."""
    for_hooks = sorted({name for entry in got for name in entry["env"] if _is_mark(name)})
    yield f"{host}: hooks get {', '.join(for_hooks)}"
    if (shell := place.root / "shell-env").exists():
        names = {line.partition("=")[0] for line in shell.read_text().splitlines()}
        yield f"{host}: shell commands get {', '.join(sorted(name for name in names if _is_mark(name)))}"


def _is_mark(name: str) -> bool:
    return bool(
        re.match(
            r"CLAUDE|CODEX|GEMINI|QWEN|COPILOT|OPENCODE|OPENCLAW|PI_|AI_AGENT|AGENT|GITHUB|HOOK|OTEL|PROJECT_DIR", name
        )
    )


_OURS: Final = re.compile(
    r"COPILOT_(?:HOME|AUTO_UPDATE|OFFLINE|ALLOW_ALL|PROVIDER_.*|MODEL)|GEMINI_(?:API_KEY|CLI_HOME)|CODEX_HOME"
    r"|OPENCODE_DISABLE_.*|OPENCODE_PID|PI_(?:OFFLINE|TELEMETRY|SKIP_VERSION_CHECK)"
    r"|CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC|CLAUDE_CODE_MESSAGING_.*|CLAUDE_PID|CODEX_MANAGED_.*"
)


class _Scrubber:
    """Replaces names of this machine; equal values stay equal."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.ids: dict[str, str] = {}

    def scrubbed(self, entry: dict[str, Any]) -> dict[str, Any]:
        marks = {n: v for n, v in entry["env"].items() if _is_mark(n) and not _OURS.fullmatch(n)}
        return {
            "argument": entry["argument"],
            "env": {name: self._text(value) for name, value in sorted(marks.items())},
            "stdin": self._value(entry["stdin"]),
        }

    def _value(self, value: Any) -> Any:
        match value:
            case dict():
                return {name: self._number(name, item) for name, item in value.items()}
            case list():
                return [self._value(item) for item in value]
            case str():
                return self._text(value)
            case _:
                return value

    def _number(self, name: str, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return 1767225600000 if name == "timestamp" else 7 if name.endswith(("_ms", "Ms")) else value
        return self._value(value)

    def _text(self, text: str) -> str:
        root = str(self.place.root)
        for path, instead in ((f"{root}/project", "/home/user/project"), (f"{root}/home", "/home/user")):
            text = text.replace(path, instead).replace(_dashed(path), _dashed(instead))
            text = text.replace(path.replace("/", "-"), _dashed(instead))  # pi keeps all other characters
        text = text.replace(str(TESTS / "clients"), "/home/user/tools").replace(sys.executable, "python3")
        text = re.sub(r"/tmp/claude-\d+", "/tmp/claude-1000", text.replace(root, "/home/user"))
        text = re.sub(r"PGID: \d+", "PGID: 1000", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d[:-]\d\d(?:[:-]\d\d)?(?:[.-]\d+)?Z?", "2026-01-01T00:00:00.000Z", text)
        text = re.sub(r"sessions/\d{4}/\d\d/\d\d", "sessions/2026/01/01", text)
        text = re.sub(r"(session-2026-01-01T00:00:00.000Z-)[0-9a-f]{8}", r"\g<1>00000000", text)
        return _ID.sub(lambda found: self._id(found[0]), text)

    def _id(self, found: str) -> str:
        number = len(self.ids) + 1
        stand_in = f"00000000-0000-4000-8000-{number:012d}" if "-" in found or "_" in found else f"a{number:016d}"
        return self.ids.setdefault(found, stand_in)


_ID: Final = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\ba[0-9a-f]{16}\b|\bses_\w+"
    r"|\b(?:conv_|agent_)?\d{13}_\w+"
)


def _dashed(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", path)


def main() -> None:
    """Records the named hosts, or all."""
    for host in sys.argv[1:] or EVENTS:
        for line in record(host):
            print(line, flush=True)  # noqa: T201 - the words of a script


if __name__ == "__main__":
    main()
