"""Each seed's configuration example, from a file on disk, unchanged: loaded, approved, fired."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from billhook import Decision, Event, PostToolUse, PreToolUse, SessionStart, Verdict
from billhook.config import Config, load_config
from billhook.config.lint import lint
from billhook.config.trust import approve_entry
from billhook.session.calls import Result, denied_result, merge_feedback
from seeds.examples import FLAT, PIPELINE, SHORT_PIPELINE, STRINGS
from seeds.test_seed_003 import JQ
from seeds.test_seed_004 import CONFIG as LESSON

SCRIPTS = Path(__file__).with_name("scripts")


class Workspace:
    """A project with a home and a state root of its own."""

    def __init__(self, base: Path) -> None:
        self.home, self.folder, self.root = base / "home", base / "project", base / "state"
        for made in (self.home / ".claude", self.folder / ".git"):
            made.mkdir(parents=True)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def script(self, name: str, of: str) -> Path:
        return Path(shutil.copy(SCRIPTS / of, self.folder / name))

    def load(self) -> Config:
        return load_config(self.folder, home=self.root, builtins=False)

    def approve(self) -> None:
        for entry in self.load().pending:
            approve_entry(entry, self.root)

    def fire(self, event: Event) -> Verdict:
        return self.load().engine().fire_sync(event.replace(cwd=str(self.folder)))


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A project; and jq where the machine has none, because seed 003's guard needs it."""
    made = Workspace(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    for name in ("XDG_CONFIG_HOME", "BILLHOOK_HOME", "CLAUDE_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    if shutil.which("jq") is None:
        tools = tmp_path / "bin"
        tools.mkdir()
        (tools / "jq").write_text(JQ.format(python=sys.executable))
        (tools / "jq").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return made


def bash(command: str) -> PreToolUse:
    return PreToolUse(tool_name="bash", tool_input={"command": command})


def done(command: str = "ls") -> PostToolUse:
    return PostToolUse(tool_name="bash", tool_input={"command": command}, tool_response="out")


# -- seed 000: plain strings -----------------------------------------------------------------------------------------


def test_seed_000_is_read_as_it_stands(workspace: Workspace) -> None:
    """`.claude/settings.json`: one hook, in the dialect `claw`; all there is to say is that it fails open."""
    file = workspace.write(".claude/settings.json", STRINGS)
    config = workspace.load()
    (entry,) = config.entries
    assert (entry.declared.dialect, entry.declared.shape, entry.declared.events) == ("claw", "strings", ("PreToolUse",))
    assert entry.declared.place == f"{file}:4"
    assert config.problems == () and [one.code for one in lint([entry.declared])] == ["BH506"]


def test_seed_000_blocks_what_it_says(workspace: Workspace) -> None:
    """`This hook checks if a bash command contains rm -rf and blocks it with exit code 2.`"""
    workspace.write(".claude/settings.json", STRINGS)
    assert workspace.fire(bash("rm -rf /")).decision is Decision.NONE  # nobody approved it
    workspace.approve()
    verdict = workspace.fire(bash("rm -rf /"))
    assert denied_result(verdict) == Result("Blocked: destructive command", True)
    assert workspace.fire(bash("ls")).decision is Decision.NONE


# -- seed 002: hooks.yaml --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [PIPELINE, SHORT_PIPELINE], ids=["pipeline configuration", "one line"])
@pytest.mark.parametrize("name", ["hooks.yaml", ".claude/hooks.yaml", ".billhook/hooks.yaml"])
def test_seed_002_is_read_as_it_stands(workspace: Workspace, name: str, text: str) -> None:
    """Wherever the file lies: no finding, hooks one after the other."""
    workspace.write(name, text)
    config = workspace.load()
    assert config.problems == () and config.entries == () and config.parallel is False


def test_seed_002_settles_the_built_ins(workspace: Workspace) -> None:
    """Each built-in is on, with the options of the example."""
    workspace.write("hooks.yaml", PIPELINE)
    found = workspace.load().builtins
    assert {name: found[name].enabled is not False for name in ("turn-tracker", "session-naming", "event-logger")} == {
        "turn-tracker": True,
        "session-naming": True,
        "event-logger": True,
    }
    assert found["turn-tracker"].options == {"preserve_on_resume": True, "inject_context": False}
    assert found["event-logger"].options == {"include_input": True, "include_output": True}


def test_seed_002_with_its_external_hook(workspace: Workspace) -> None:
    """The example hook of the seed, below the configuration: it runs with the variables of the table."""
    workspace.script("my-hook.sh", "my_hook.sh")
    hook = "handlers:\n  my-hook: {events: SessionStart, command: bash my-hook.sh, dependsOn: [turn-tracker]}\n"
    workspace.write("hooks.yaml", f"{PIPELINE}\n{hook}")
    workspace.approve()
    verdict = workspace.fire(SessionStart(source="startup", session_id="abc-123"))
    assert [outcome.status for outcome in verdict.outcomes] == ["ok"]
    assert "Event: SessionStart" in verdict.context[0]


# -- seed 003: flat commands -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".claude.json", ".claude/settings.json"])
def test_seed_003_is_read_as_it_stands(workspace: Workspace, name: str) -> None:
    """Both files of `Configuration`: two hooks in `claw-text`; that the scripts are missing is found, with a place."""
    file = workspace.write(name, FLAT)
    config = workspace.load()
    assert [(entry.declared.dialect, entry.declared.shape, entry.declared.line) for entry in config.entries] == [
        ("claw-text", "flat", 4),
        ("claw-text", "flat", 9),
    ]
    assert config.problems == ()
    found = lint([entry.declared for entry in config.entries])
    missing = [(one.code, one.file, one.line, one.column) for one in found if "/path/to/" in one.message]
    assert missing == [("BH401", str(file), 5, 20), ("BH401", str(file), 10, 20)], found


def test_seed_003_with_scripts_that_are_not_there(workspace: Workspace) -> None:
    """Approved as it stands: Python ends with 2 when it can't open a script, and 2 is DENY; bash fails otherwise."""
    workspace.write(".claude.json", FLAT)
    workspace.approve()
    assert denied_result(workspace.fire(bash("ls"))).text.startswith("Hook denied: ")
    after = workspace.fire(done())
    assert after.decision is Decision.NONE and after.warnings


@pytest.mark.parametrize("name", [".claude.json", ".claude/settings.json"])
def test_seed_003_with_its_scripts(workspace: Workspace, name: str) -> None:
    """The example with its paths replaced by the two scripts of the seed, which are unchanged."""
    guard = workspace.script("safety-guard.sh", "safety_guard.sh")
    log = workspace.script("audit-log.sh", "audit_logger.sh")
    text = FLAT.replace("python3 /path/to/safety-check.py", f"bash {guard}").replace("/path/to/audit-log.sh", str(log))
    workspace.write(name, text)
    assert workspace.fire(bash("rm -rf /")).decision is Decision.NONE
    workspace.approve()
    verdict = workspace.fire(bash("rm -rf /tmp/test"))
    assert denied_result(verdict).text == "Hook denied: Blocked: Dangerous command pattern detected"
    assert workspace.fire(bash("ls")).decision is Decision.NONE
    workspace.fire(done("cargo test"))
    assert '"cargo test"' in (workspace.home / ".claude" / "audit.log").read_text()


# -- seed 004: .hooks.json -------------------------------------------------------------------------------------------


def test_seed_004_is_read_as_it_stands(workspace: Workspace) -> None:
    """Four hooks in `lesson`; that the script is not there is found, with a place."""
    file = workspace.write(".hooks.json", LESSON.lstrip("\n"))
    config = workspace.load()
    assert [(entry.declared.dialect, entry.declared.shape) for entry in config.entries] == [
        ("lesson", "hooks.json")
    ] * 4
    assert [entry.declared.match for entry in config.entries] == ["bash", "write_file", None, None]
    assert config.problems == ()
    found = lint([entry.declared for entry in config.entries])
    missing = [(one.code, one.file, one.line) for one in found if "/path/to/" in one.message]
    assert missing == [("BH401", str(file), 5)], found


def test_seed_004_fired_as_it_stands(workspace: Workspace) -> None:
    """Its hooks exit with 0: silence; the script that is not there is a warning, and the tool goes on."""
    workspace.write(".hooks.json", LESSON)
    assert [one.status for one in workspace.fire(bash("npm test")).outcomes] == ["skipped"]
    workspace.approve()
    for event in (bash("npm test"), done(), SessionStart(source="startup")):
        verdict = workspace.fire(event)
        assert [one.status for one in verdict.outcomes] == ["ok"] and verdict.decision is Decision.NONE
        assert verdict.context == ()
    missing = workspace.fire(PreToolUse(tool_name="write_file", tool_input={"path": "a"}))
    assert missing.decision is Decision.NONE and missing.warnings


@pytest.mark.parametrize(
    ("code", "decision", "context"),
    [
        pytest.param(0, "none", (), id="| 0 | Success | Continue to execute tool |"),
        pytest.param(1, "deny", (), id="| 1 | Block | Tool NOT executed, stderr returned as error |"),
        pytest.param(2, "none", ("too long",), id="| 2 | Inject | stderr injected as message, tool still executes |"),
    ],
)
def test_seed_004_with_a_script(workspace: Workspace, code: int, decision: str, context: tuple[str, ...]) -> None:
    """The example with its path replaced by a script that ends with each code of the table."""
    script = workspace.write("lint-check.sh", f"#!/bin/sh\necho 'too long' >&2\nexit {code}\n")
    script.chmod(0o755)
    workspace.write(".hooks.json", LESSON.replace("/path/to/lint-check.sh", str(script)))
    workspace.approve()
    verdict = workspace.fire(PreToolUse(tool_name="write_file", tool_input={"path": "a", "content": "b"}))
    assert (verdict.decision, verdict.context) == (decision, context)
    if code == 1:
        assert denied_result(verdict) == Result("Blocked by hook: too long", True)
    if code == 2:
        assert merge_feedback("out", verdict, None).text == "out\n\ntoo long"
