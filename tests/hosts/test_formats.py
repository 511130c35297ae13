"""Settings that are not in a JSON file: inside a plugin, and in a YAML file."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from billhook.agents import AGENTS
from billhook.agents.base import with_shell, without_shell
from billhook.core.errors import BillhookError, UsageError
from hosts.installed import Home

YAML = """\
# my settings
model: x

hooks:
  pre_tool_call:
    - matcher: terminal
      command: ~/mine.sh  # it is mine

# how it looks
display: {color: true}
"""
AS_YAML = [YAML, "model: x\n", "model: x", "hooks: {}\nmodel: x\n", "", "# nothing but words\n"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    made = Home(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    for name in ("XDG_CONFIG_HOME", "HERMES_HOME"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.mark.parametrize("text", AS_YAML)
def test_yaml_is_given_back_byte_for_byte(home: Home, text: str) -> None:
    file = home.write(text, "hermes", "user")
    assert home.install("hermes", "user").state == "installed"
    after = yaml.safe_load(file.read_text())
    before = yaml.safe_load(text) or {}
    assert set(after["hooks"]) == set(AGENTS["hermes"].event_names.values())
    assert {**after, "hooks": 0} == {**before, "hooks": 0}
    assert home.install("hermes", "user").state == "already"
    assert home.uninstall("hermes", "user").state == "removed"
    assert file.read_text() == text


def test_what_others_changed_in_yaml_stays(home: Home) -> None:
    """The other parts of the file, with comments, and other hooks."""
    file = home.write(YAML, "hermes", "user")
    home.install("hermes", "user")
    file.write_text(file.read_text() + "more: 1\n")
    home.uninstall("hermes", "user")
    assert yaml.safe_load(file.read_text()) == {**yaml.safe_load(YAML), "more": 1}
    assert "# my settings" in file.read_text() and "# how it looks" in file.read_text()


@pytest.mark.parametrize("text", ["{model: x}", "model: [", "- a\n- b: &x {}\n  c: *y\n"])
def test_yaml_that_can_not_be_edited_is_left_alone(home: Home, text: str) -> None:
    file = home.write(text, "hermes", "user")
    with pytest.raises(BillhookError):
        home.install("hermes", "user")
    assert file.read_text() == text


def test_an_agent_without_settings_for_a_project(home: Home) -> None:
    with pytest.raises(UsageError, match="has no project settings"):
        home.install("hermes")


def test_only_commands_of_ours_get_a_shell() -> None:
    for command in ("exec billhook-hook --as hermes", "command -v 'a b' || { echo 'it''s gone'; exit 2; }; exec x"):
        assert with_shell(command).startswith("sh -c ") and without_shell(with_shell(command)) == command
    for command in ("~/mine.sh", "sh -c 'ls -l'", "sh -c 'a", "billhook-hook"):
        assert with_shell(command) == without_shell(command) == command


def test_the_plugin_is_written_again_when_it_was_changed(home: Home) -> None:
    """Its entries are the same, but the program around them differs."""
    home.install("opencode")
    file = home.file("opencode")
    written = file.read_text()
    file.write_text(written.replace("throw new Error", "console.log"))
    assert home.install("opencode").state == "updated"
    assert file.read_text() == written


def test_a_plugin_of_another_author_is_not_changed(home: Home) -> None:
    file = home.write("export const Mine = async () => ({})\n", "opencode")
    with pytest.raises(BillhookError):
        home.install("opencode")
    assert file.read_text() == "export const Mine = async () => ({})\n"


DRIVE = """\
const plugin = await import(process.argv[2])
const hooks = await Object.values(plugin)[0]({ directory: process.cwd() })
const output = { args: { command: "ls", description: "d" } }
await hooks["tool.execute.before"]({ tool: "bash", sessionID: "s", callID: "c" }, output)
console.log(JSON.stringify(output.args))
"""
ANSWERS = {
    "nothing": ("exit 0", '{"command":"ls","description":"d"}', ""),
    "a rewrite": (
        'cat >/dev/null; echo \'{"hookSpecificOutput": {"updatedInput": {"command": "id"}}}\'',
        '{"command":"id"}',
        "",
    ),
    "exit code 2": ("echo not here >&2; exit 2", "", "not here"),
    "a crash": ("echo broken >&2; exit 1", "", "broken"),
    "no JSON": ("echo hello", "", "billhook failed"),
    "too late": ("sleep 30", "", "no answer within 1 seconds"),
    "no such program": ("exec /nowhere/billhook-hook", "", "not found"),
}


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize(("command", "args", "error"), ANSWERS.values(), ids=ANSWERS)
def test_the_plugin_runs_the_entry_and_fails_closed(tmp_path: Path, command: str, args: str, error: str) -> None:
    entry = {"command": command, "timeout": 1 if "sleep" in command else 20, "failClosed": True}
    settings = json.dumps({"hooks": {"tool.execute.before": [entry]}})
    plugin, drive = tmp_path / "billhook.mjs", tmp_path / "drive.mjs"
    plugin.write_text(AGENTS["opencode"].format.write(settings, ""))
    drive.write_text(DRIVE)
    ran = subprocess.run(
        ["node", str(drive), str(plugin)], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert ran.stdout.strip() == args, ran.stderr
    assert error in ran.stderr and (ran.returncode == 0) == bool(args)
