"""Settings that are not in a JSON file: inside a plugin, and in a YAML file."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from billhook.agents import AGENTS
from billhook.agents.base import can
from billhook.agents.formats import with_shell, without_shell
from billhook.agents.plugin import Plugin
from billhook.config.edit_json import measured
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
    assert file.read_text() != written
    assert home.install("opencode").state == "updated"
    assert file.read_text() == written


def test_a_plugin_of_another_author_is_not_changed(home: Home) -> None:
    file = home.write("export const Mine = async () => ({})\n", "opencode")
    with pytest.raises(BillhookError, match="billhook did not write this file") as error:
        home.install("opencode")
    assert error.value.place == str(file)
    assert file.read_text() == "export const Mine = async () => ({})\n"


DRIVES = {
    "opencode": """\
const hooks = await Object.values(plugin)[0]({ directory: process.cwd() })
const output = { args: { command: "ls", description: "d" } }
await hooks["tool.execute.before"]({ tool: "bash", sessionID: "s", callID: "c" }, output)
console.log(JSON.stringify(output.args))
""",
    "openclaw": """\
const handlers = {}
plugin.default.register({ on: (name, handler) => (handlers[name] = handler) })
const given = { toolName: "exec", toolCallId: "c", params: { command: "ls", description: "d" } }
const answer = await handlers.before_tool_call(given, { sessionId: "s" })
if (answer?.block) throw new Error(answer.blockReason)
console.log(JSON.stringify(answer?.params ?? given.params))
""",
    "amp": """\
const handlers = {}
plugin.default({ on: (name, handler) => (handlers[name] = handler) })
const input = { command: "ls", description: "d" }
const answer = await handlers["tool.call"]({ tool: "shell_command", input, thread: { id: "s" } }, {})
if (answer.action !== "allow") throw new Error(answer.message)
console.log(JSON.stringify(input))
""",
    "pi": """\
const handlers = {}
plugin.default({ on: (name, handler) => (handlers[name] = handler) })
const ctx = { cwd: process.cwd(), hasUI: false, sessionManager: { getSessionId: () => "s" } }
const event = { toolName: "bash", toolCallId: "c", input: { command: "ls", description: "d" } }
const answer = await handlers.tool_call(event, ctx)
if (answer?.block) throw new Error(answer.reason)
console.log(JSON.stringify(event.input))
""",
}
"""By agent: calls the plugin as the agent does, with one shell command, and prints the input that it would run."""
ANSWERS = {
    "nothing": ("exit 0", '{"command":"ls","description":"d"}', ""),
    "a rewrite": (
        'cat >/dev/null; echo \'{"hookSpecificOutput": {"updatedInput": {"command": "id"}}}\'',
        '{"command":"id"}',
        "",
    ),
    "a deny": ('cat >/dev/null; echo \'{"decision": "block", "reason": "not now"}\'', "", "not now"),
    "exit code 2": ("echo not here >&2; exit 2", "", "not here"),
    "a crash": ("echo broken >&2; exit 1", "", "broken"),
    "no JSON": ("echo hello", "", "billhook failed"),
    "null": ("echo null", "", "billhook failed"),
    "too late": ("sleep 30", "", "no answer within 1 seconds"),
    "no such program": ("exec /nowhere/billhook-hook", "", "not found"),
}
PLUGINS = [name for name, agent in AGENTS.items() if isinstance(agent.format, Plugin)]


def plugin_with(agent: str, folder: Path, command: str) -> Path:
    """The agent's plugin with one entry before a tool."""
    entry = {"command": command, "timeout": 1 if "sleep" in command else 20, "failClosed": True}
    settings = json.dumps({"hooks": {AGENTS[agent].event_names["PreToolUse"]: [entry]}})
    file = folder / "billhook.mjs"
    file.write_text(AGENTS[agent].format.write(settings, ""))
    return file


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("agent", ["amp", "pi"])
def test_an_ask_without_a_user_refuses_with_its_reason(tmp_path: Path, agent: str) -> None:
    """In the background these agents have no dialog."""
    asked = {"permissionDecision": "ask", "permissionDecisionReason": "really?"}
    command = f"cat >/dev/null; echo {shlex.quote(json.dumps({'hookSpecificOutput': asked}))}"
    drive = tmp_path / "drive.mjs"
    drive.write_text(f"const plugin = await import(process.argv[2])\n{DRIVES[agent]}")
    words = ["node", str(drive), str(plugin_with(agent, tmp_path, command))]
    ran = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (1, "") and "Error: really?" in ran.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("agent", PLUGINS)
@pytest.mark.parametrize(("command", "args", "error"), ANSWERS.values(), ids=ANSWERS)
def test_a_plugin_runs_the_entry_and_fails_closed(
    tmp_path: Path, agent: str, command: str, args: str, error: str
) -> None:
    if "updatedInput" in command and not can(agent, "PreToolUse").rewrite_input:
        return  # billhook denies then
    drive = tmp_path / "drive.mjs"
    drive.write_text(f"const plugin = await import(process.argv[2])\n{DRIVES[agent]}")
    words = ["node", str(drive), str(plugin_with(agent, tmp_path, command))]
    ran = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert ran.stdout.strip() == args, ran.stderr
    assert error in ran.stderr and (ran.returncode == 0) == bool(args)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_in_openclaw_no_other_plugin_changes_what_was_judged(tmp_path: Path) -> None:
    """It runs plugins in the order of their priorities, the highest first."""
    drive = tmp_path / "drive.mjs"
    drive.write_text("""\
const plugin = await import(process.argv[2])
plugin.default.register({ on: (name, handler, options) => console.log(name, options?.priority ?? 0) })
""")
    words = ["node", str(drive), str(plugin_with("openclaw", tmp_path, "exit 0"))]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines() == ["before_tool_call -1000", "after_tool_call 0"]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_openclaw_sends_the_text_of_an_output(tmp_path: Path) -> None:
    """Its results are lists of parts."""
    entry = {"command": f"cat > {tmp_path}/sent", "timeout": 20}
    file, drive = tmp_path / "billhook.mjs", tmp_path / "drive.mjs"
    file.write_text(AGENTS["openclaw"].format.write(json.dumps({"hooks": {"after_tool_call": [entry]}}), ""))
    drive.write_text("""\
const handlers = {}
const plugin = await import(process.argv[2])
plugin.default.register({ on: (name, handler) => (handlers[name] = handler) })
const result = { content: [{ type: "text", text: "one" }, { type: "image" }], details: { status: "error" } }
await handlers.after_tool_call({ toolName: "read", toolCallId: "c", params: {}, result }, { sessionId: "s" })
""")
    subprocess.run(["node", str(drive), str(file)], timeout=60, check=True)
    sent = json.loads((tmp_path / "sent").read_text())
    assert (sent["tool_response"], sent["tool_result_is_error"]) == ("one\n(image)", True)


@pytest.mark.parametrize("agent", PLUGINS)
def test_a_plugin_is_short_enough_to_read(tmp_path: Path, agent: str) -> None:
    """A reader checks it before it runs inside the agent: the whole file has at most 60 lines."""
    text = plugin_with(agent, tmp_path, "exit 0").read_text()
    assert len(text.splitlines()) <= 60


def test_the_companions_of_a_plugin(home: Home) -> None:
    """OpenClaw loads a plugin only from a folder with two more files: they come and go with it."""
    assert home.install("openclaw", "user").state == "installed"
    folder = home.file("openclaw", "user").parent
    assert sorted(one.name for one in folder.iterdir()) == ["index.js", "openclaw.plugin.json", "package.json"]
    assert json.loads((folder / "package.json").read_text())["openclaw"] == {"extensions": ["./index.js"]}
    assert home.install("openclaw", "user").state == "already"
    (folder / "package.json").unlink()
    assert home.install("openclaw", "user").state == "updated"
    assert (folder / "package.json").exists()
    assert home.uninstall("openclaw", "user").state == "removed"
    assert [*home.home.iterdir()] == [home.project]
    assert home.uninstall("openclaw", "user").state == "absent"


def test_a_companion_of_someone_else_stays(home: Home) -> None:
    """`install` refuses to overwrite it, and `uninstall` leaves one that was changed."""
    theirs = home.file("openclaw", "user").parent / "package.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("{}")
    with pytest.raises(BillhookError, match="did not write this file"):
        home.install("openclaw", "user")
    assert [*theirs.parent.iterdir()] == [theirs]
    theirs.unlink()
    home.install("openclaw", "user")
    theirs.write_text("{}")
    home.uninstall("openclaw", "user")
    assert [*theirs.parent.iterdir()] == [theirs] and theirs.read_text() == "{}"


NAMED = """\
{
  // mine
  "lint": {
    "PreToolUse": [{"matcher": "run_command", "hooks": [{"type": "command", "command": "./lint.sh"}]}],
    "Stop": [{"type": "command", "command": "./done.sh"}]
  }
}
"""


def test_hooks_below_names(home: Home) -> None:
    """Antigravity: billhook's entries have a name of their own, those of tools in groups and others without."""
    file = home.write(NAMED, "antigravity")
    assert home.install("antigravity").state == "installed"
    document = measured(file.read_text())
    written = document.root.plain()["billhook"] if document.root is not None else {}
    assert [*written["PreToolUse"][0]] == ["hooks"] and [*written["Stop"][0]] == ["type", "command", "timeout"]
    assert "./lint.sh" in file.read_text() and "// mine" in file.read_text()
    assert home.uninstall("antigravity").state == "removed"
    assert file.read_text() == NAMED


def test_adopted_hooks_return_below_their_names(home: Home) -> None:
    """Also if the file was changed in the meantime."""
    file = home.write(NAMED, "antigravity")
    change = home.install("antigravity", adopt=True)
    assert len(change.adopted) == 2 and "./lint.sh" not in file.read_text()
    file.write_text(file.read_text().replace("// mine", "// still mine"))
    home.uninstall("antigravity")
    document = measured(file.read_text())
    before = measured(NAMED)
    assert document.root is not None and before.root is not None
    assert document.root.plain() == before.root.plain()
    assert "// still mine" in file.read_text()


def test_one_list_of_hooks(home: Home) -> None:
    """Kiro: each entry has a unique name, its trigger and its command below `action`."""
    home.install("kiro")
    written = json.loads(home.file("kiro").read_text())
    assert written["version"] == "v1" and len({one["name"] for one in written["hooks"]}) == len(written["hooks"])
    assert {one["trigger"] for one in written["hooks"]} == {AGENTS["kiro"].spellings[e] for e in AGENTS["kiro"].events}
    assert all(one["action"]["type"] == "command" and one["timeout"] == 60 for one in written["hooks"])


def test_other_entries_of_one_list_stay_as_they_are(home: Home) -> None:
    """Names, unknown keys, and actions that are no commands; also if the file was changed in the meantime."""
    mine = [
        {"name": "lint", "trigger": "PreToolUse", "action": {"type": "command", "command": "x", "cwd": "y"}, "z": 1},
        {"trigger": "Stop", "action": {"type": "agent", "prompt": "go on"}},
    ]
    file = home.write(json.dumps({"version": "v1", "hooks": mine}), "kiro")
    home.install("kiro")
    assert [one for one in json.loads(file.read_text())["hooks"] if one in mine] == mine
    file.write_text(file.read_text() + "\n")
    home.uninstall("kiro")
    assert json.loads(file.read_text()) == {"version": "v1", "hooks": mine}
