"""Everything about a coding agent is in its module: nothing else in the package names one."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import billhook
from billhook.agents import AGENTS, DIALECTS, EVERY_AGENT, SHARED, TABLE, AgentRow, reader_of
from billhook.agents.base import Agent, SettingsFormat
from billhook.agents.transcripts import READERS
from billhook.core.dialect_traits import MEANINGS
from billhook.core.tools import NAMINGS
from cli.place import Place

ROOT = Path(billhook.__file__).parent
OTHERS = [name for name in TABLE if name != "claude"]
WORDS = [name for name in ("amp", "cline", "crush", "cursor", "goose", "pi", "windsurf") if name in TABLE]
PLAIN = [word for name in OTHERS if name not in WORDS for word in (name, EVERY_AGENT[name].title)]
VALUES = [rf"['\"]{name}['\"]|\b{name.capitalize()}\b" for name in WORDS]
NAMED = re.compile("|".join([rf"(?<![A-Za-z])(?i:{'|'.join(PLAIN)})", r"\bCURSOR", *VALUES]))
"""In any case, names and titles alike; those that are also ordinary words count as a value or a title only."""
CLAUDE = {
    "the reference dialect, which is the default": r"dialect|\"spec\"|\"claw\"|\bsaid\b|meanings|\bname=|_answered",
    "how matchers of the reference are read": r"matching|matcher|Matching|_LISTS|case ",
    "the shapes of its settings": r"nested|yaml",
    "the agent whose settings and plugins others read": r"agent|host|AGENTS|TABLE|HostAgent|row\.name|claude-agent-sdk",
    "the name of its models": r"anthropic",
    "the agent of an example": r"report",
}
"""Why `claude` may be a value in code elsewhere."""


def sources() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] != "agents"]


def test_no_other_module_names_an_agent() -> None:
    """Neither in code nor in text, except for programs that have the name of one: AWS has a `copilot`, too."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sources()
        if path.parent.name != "families"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if NAMED.search(line)
    ]
    assert found == []


def test_claude_is_named_as_the_reference_only() -> None:
    """As a value in code it is the reference dialect, its settings, or an example."""
    allowed = re.compile("|".join(CLAUDE.values()))
    found = []
    for path in sources():
        text = path.read_text("utf-8")
        values = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
        lines = [text.splitlines()[node.lineno - 1] for node in values if node.value == "claude"]
        found += [f"{path.relative_to(ROOT)}: {line.strip()}" for line in lines if not allowed.search(line)]
    assert found == []


@pytest.mark.parametrize("agent", EVERY_AGENT.values(), ids=lambda agent: agent.name)
def test_the_table_agrees_with_the_records(agent: Agent) -> None:
    """What start-up reads without importing a record is what the record has."""
    row = TABLE[agent.name]
    assert agent.transcripts == (agent.name in READERS)
    if row.alias_of:
        assert (
            row == AgentRow(alias_of=row.alias_of, also_reads=row.also_reads)
            and agent.name not in DIALECTS
            and agent.reads_claude
        )
        return
    assert agent.name == agent.meanings.name and MEANINGS[agent.name] is agent.meanings
    assert agent.name in DIALECTS and (agent.name == "claude" or NAMINGS[agent.name] is agent.tools)
    names = tuple(dict.fromkeys(filter(None, (agent.project_file, agent.user_file))))
    if type(agent.format) is not SettingsFormat or agent.named_groups:
        assert names in (row.files, row.beside) and row.folders == ()
        folder = os.path.dirname(agent.user_file)
        assert {f"{folder}/{name}" for name, _ in agent.companions} <= {*row.beside}  # they are protected, too
        assert not any(reader_of(f"/somewhere/{os.path.dirname(file)}", os.path.basename(file)) for file in names)
        return
    if agent.own_file and not row.files:
        assert row.folders == tuple(map(os.path.dirname, names))
    else:
        assert row.files[: len(names)] == names and row.folders == ()
    for file in names:
        folder, _, name = file.rpartition("/")
        assert reader_of(f"/somewhere/{folder}", name) == agent.name
        assert reader_of(f"/somewhere/{folder}", f"{name}.bak") == ""


PROBE = """
import atexit, sys
sys.argv = ["billhook", "hook", "--as", "{name}", *{words}]
atexit.register(lambda: print("", *sys.modules, file=sys.stderr, sep=chr(10)))
from billhook.cli.main import main
main()
"""


@pytest.mark.parametrize("name", AGENTS)
def test_a_hook_imports_no_other_agent(name: str, tmp_path: Path) -> None:
    """`billhook hook` starts at every tool call: it imports the records of those that its caller may be."""
    place = Place(tmp_path)
    agent = AGENTS[name]
    event = {"session_id": "s", "hook_event_name": agent.event_names["PreToolUse"], "tool_use_id": "t"}
    event |= {"tool_name": next((own for own, ours in agent.tools.items() if ours == "Bash"), "Bash")}
    words = [agent.event_names["PreToolUse"]] if agent.event_argument else []
    reported: dict[str, object] = {**event, "tool_input": {"command": "ls"}}
    if name == "copilot":
        words, reported = ["userPromptSubmitted"], {"sessionId": "s", "timestamp": 1, "prompt": "hello"}
    ended = subprocess.run(
        [sys.executable, "-c", PROBE.format(name=name, words=words)],
        input=json.dumps({**reported, "cwd": str(place.project)}).encode(),
        capture_output=True,
        env=place.env(),
        cwd=place.project,
        check=True,
    )
    loaded = set(ended.stderr.decode().split())
    assert {one for one in OTHERS if f"billhook.agents.{one}" in loaded} <= {name, SHARED.get(name)}
