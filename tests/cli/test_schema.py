"""`billhook schema` takes what the readers take, and objects to what they object to."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from inline_snapshot import snapshot
from jsonschema import Draft202012Validator

from billhook.config.declaration import NATIVE
from billhook.config.nodes import read_text
from billhook.config.permissions import MODES
from billhook.config.schema import schema, sections
from billhook.config.shapes import OWN_KEYS, SWITCHES, shape
from billhook.config.sources import SourceFile
from billhook.core.events import EVENTS
from billhook.core.text import Finding
from cli.terminal import billhook
from seeds.examples import PIPELINE

ROOT = Path(__file__).parents[2]
STARTER = ROOT / "src" / "billhook" / "config" / "starter.yaml"
FIELDS = sections()["fields"]
HOOKS = Draft202012Validator(schema("hooks"))
SETTINGS = Draft202012Validator(schema("settings"))


def faults(validator: Draft202012Validator, value: Any) -> list[str]:
    return [error.message for error in validator.iter_errors(value)]


def findings(text: str, file: str) -> list[Finding]:
    """The findings of the readers for the same text, without advice."""
    read = shape(read_text(text.encode(), file), SourceFile(file, "explicit", "/project"))
    return [finding for finding in read.findings if finding.code not in ("BH207", "BH208", "BH209", "BH510", "BH216")]


STRINGS = """{"hooks": {"PreToolUse": [
"if echo \\"$HOOK_TOOL_INPUT\\" | grep -q 'rm -rf'; then echo 'Blocked: destructive command'; exit 2; fi"
]}}"""
FLAT = """{"hooks": {
  "PreToolUse": [{"command": "python3 /path/to/safety-check.py"}],
  "PostToolUse": [{"command": "bash /path/to/audit-log.sh"}]
}}"""
LESSON = """{"hooks": {
  "PreToolUse": [
    {"matcher": "bash", "command": "echo 'Checking bash command...'"},
    {"matcher": "write_file", "command": "/path/to/lint-check.sh"}
  ],
  "PostToolUse": [{"command": "echo 'Tool finished'"}],
  "SessionStart": [{"command": "echo 'Session started at $(date)'"}]
}}"""
NESTED = """{"permissions": {"allow": ["Bash(ls)"]}, "model": "x", "disableAllHooks": false, "hooks": {
  "PreToolUse": [
    {"matcher": "Bash", "hooks": [
      {"type": "command", "command": "./guard.sh", "args": ["-x"], "timeout": 5, "if": "Bash(git *)",
       "onFailure": "deny", "statusMessage": "looking", "once": true},
      {"type": "http", "url": "https://example.com/hook", "headers": {"Authorization": "Bearer $TOKEN"},
       "allowedEnvVars": ["TOKEN"]},
      {"type": "prompt", "prompt": "Is it fine?", "model": "small"}
    ]}
  ],
  "Stop": [{"hooks": [{"type": "command", "command": "echo done", "async": true, "shell": "bash"}]}],
  "post_tool_use": [{"hooks": [{"type": "mcp_tool", "server": "s", "tool": "t", "input": {}}]}]
}}"""
NATIVE_FILE = """
version: 1
parallelExecution: false
settings: {timeout: 60}
hooks:
  no-destroy:
    events: PreToolUse
    if: Bash(terraform destroy *)
    deny: Destroying infrastructure needs a human
  scan:
    events: [PreToolUse, post_tool_use]
    match: Write|Edit
    run: ./policies/scan.sh
    gate: true
  lint-after-write:
    events: PostToolUse
    matcher: Write|Edit
    exec: [./scripts/lint.sh, --fix]
    priority: 150
    dependsOn: [scan]
    timeout: 20
    on_failure: block
  checked:
    event: PreToolUse
    python: policies.guard:check
    interpreter: /usr/bin/python3
  posted:
    events: Stop
    url: ${HOOK_URL:-https://example.com}
    onFailure: ask
    x-note: mine
  off:
    enabled: false
  Stop:
    - ./in-a-list.sh
    - {matcher: "*", hooks: [{type: command, command: echo}]}
"""
LISTED = """
dialect: lesson
handlers:
  - {name: one, events: Stop, inject: 'remember the milk'}
  - {id: two, events: [PreToolUse], deny: true, title: Never, background: false}
"""


@pytest.mark.parametrize(
    ("text", "file"),
    [
        pytest.param(STRINGS, ".claude/settings.json", id="strings"),
        pytest.param(FLAT, ".claude.json", id="flat"),
        pytest.param(NESTED, ".claude/settings.json", id="nested"),
        pytest.param(LESSON, ".hooks.json", id="hooks.json"),
        pytest.param(PIPELINE, "hooks.yaml", id="pipeline"),
        pytest.param(NATIVE_FILE, "hooks.yaml", id="native"),
        pytest.param(LISTED, "hooks.yaml", id="listed"),
        pytest.param(STARTER.read_text(), "hooks.yaml", id="what init writes"),
        pytest.param("hooks:\n", "hooks.yaml", id="nothing yet"),
        pytest.param("{}", ".claude/settings.json", id="no hooks"),
    ],
)
def test_every_shape_is_taken(text: str, file: str) -> None:
    """Files of every shape are valid, and the readers agree."""
    native = file.endswith(".yaml")

    assert faults(HOOKS if native else SETTINGS, yaml.safe_load(text)) == []
    assert findings(text, file) == []


SLIPS = {
    "unknown key": "hooks: {a: {events: Stop, run: ls, prioritty: 5}}",
    "unknown key at the top": "hoks: {}",
    "unknown event": "hooks: {a: {events: PreToolUze, run: ls}}",
    "no events": "hooks: {a: {run: ls}}",
    "no action": "hooks: {a: {events: Stop}}",
    "two actions": "hooks: {a: {events: Stop, run: ls, deny: x}}",
    "command as a list": "hooks: {a: {events: Stop, run: [ls]}}",
    "exec as text": "hooks: {a: {events: Stop, exec: ls}}",
    "exec of nothing": "hooks: {a: {events: Stop, exec: []}}",
    "empty command": "hooks: {a: {events: Stop, run: ' '}}",
    "timeout as text": "hooks: {a: {events: Stop, run: ls, timeout: '5'}}",
    "timeout of nothing": "hooks: {a: {events: Stop, run: ls, timeout: 0}}",
    "gate as text": "hooks: {a: {events: Stop, run: ls, gate: 'yes'}}",
    "on_failure": "hooks: {a: {events: Stop, run: ls, on_failure: close}}",
    "dialect": "hooks: {a: {events: Stop, run: ls, dialect: klingon}}",
    "dialect of all": "dialect: klingon",
    "timeout of all": "settings: {timeout: soon}",
    "shell": "hooks: {a: {events: Stop, run: ls, shell: fish}}",
    "login": "hooks: {a: {events: Stop, run: ls, login: maybe}}",
    "type": "hooks: {a: {events: Stop, type: comand, command: ls}}",
    "python target": "hooks: {a: {events: Stop, python: guard}}",
    "address": "hooks: {a: {events: Stop, url: example.com}}",
    "headers": "hooks: {a: {events: Stop, url: 'http://a', headers: {a: 1}}}",
    "a number": "hooks: {a: 1}",
    "hooks as text": "hooks: ls",
    "an entry that is a number": "hooks: {Stop: [1]}",
    "a mapping in after": "hooks: {a: {events: Stop, run: ls, after: {b: c}}}",
    "deny without text": "hooks: {a: {events: Stop, deny: false}}",
}


@pytest.mark.parametrize("text", SLIPS.values(), ids=SLIPS)
def test_slips_in_hooks_yaml(text: str) -> None:
    """What the readers report, an editor shows, too."""
    assert faults(HOOKS, yaml.safe_load(text))
    assert findings(text, "hooks.yaml")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"hooks": {"PreToolUze": []}}', id="unknown event"),
        pytest.param('{"hooks": {"Stop": "ls"}}', id="no list"),
        pytest.param('{"hooks": {"Stop": [{"hooks": {"command": "ls"}}]}}', id="handlers without a list"),
        pytest.param('{"hooks": {"Stop": [{"hooks": ["ls"]}]}}', id="a handler that is text"),
        pytest.param('{"hooks": {"Stop": [{"hooks": [{"type": "command"}]}]}}', id="no command"),
        pytest.param('{"hooks": {"Stop": [{"comand": "ls"}]}}', id="unknown key"),
        pytest.param('{"hooks": {"Stop": [{"macher": "*", "hooks": []}]}}', id="unknown key of a group"),
        pytest.param('{"hooks": {"Stop": [{"command": "ls", "timeout": "5"}]}}', id="timeout as text"),
        pytest.param('{"hooks": []}', id="hooks as a list"),
    ],
)
def test_slips_in_settings(text: str) -> None:
    """What the readers report, an editor shows, too."""
    assert faults(SETTINGS, json.loads(text))
    if "PreToolUze" not in text and "macher" not in text:  # an empty list has nothing that could be reported
        assert findings(text, ".claude/settings.json")


@pytest.mark.parametrize(
    ("validator", "text"),
    [
        pytest.param(HOOKS, "builtins: {turn-trakker: {}}", id="an unknown builtin"),
        pytest.param(HOOKS, "builtins: {turn-tracker: {enable: true}}", id="a builtin's key"),
        pytest.param(HOOKS, "parallelExecution: 'no'", id="parallel as text"),
        pytest.param(SETTINGS, '{"disableAllHooks": "yes"}', id="a switch that is text"),
        pytest.param(SETTINGS, '{"allowedHttpHookUrls": "https://a"}', id="a list that is text"),
    ],
)
def test_slips_in_what_holds_for_all(validator: Draft202012Validator, text: str) -> None:
    """What is wrong beside the hooks is shown, too."""
    assert faults(validator, yaml.safe_load(text))


def test_nothing_is_left_out() -> None:
    """Every key that the readers know is in the schema, and has a description."""
    assert set(FIELDS) == NATIVE
    assert set(sections()["top"]) == {*OWN_KEYS, *SWITCHES}
    assert all("description" in value for value in FIELDS.values())
    assert ", ".join(MODES) in sections()["parts"]["permissions"]["properties"]["defaultMode"]["description"]
    assert {*EVENTS} <= {*schema("hooks")["$defs"]["event"]["enum"]}


@pytest.mark.parametrize("field", ["login", "shell", "on_failure", "dialect", "type"])
def test_every_word_is_taken(field: str) -> None:
    """The readers take every word that the schema proposes."""
    for word in FIELDS[field]["enum"]:
        does = "url: https://a" if word == "http" else "run: ls"

        assert findings(f'hooks: {{a: {{events: Stop, {does}, {field}: "{word}"}}}}', "hooks.yaml") == []


def test_the_schemas_are_schemas() -> None:
    """Both are valid themselves."""
    Draft202012Validator.check_schema(schema("hooks"))
    Draft202012Validator.check_schema(schema("settings"))


def test_the_documents_show_valid_files() -> None:
    """Every whole hooks.yaml in the documents is valid."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    pages = [page for page in pages if page.name != "codes.md"]  # which shows what is wrong
    blocks = [block for page in pages for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)]
    files = [block for block in blocks if re.match(r"(?:#.*\n)*(?:hooks|handlers|version|builtins):", block)]

    assert [(block, found) for block in files if (found := faults(HOOKS, yaml.safe_load(block)))] == []


@pytest.mark.parametrize("kind", [(), ("hooks",), ("settings",)], ids=["none", "hooks", "settings"])
def test_printed(kind: tuple[str, ...]) -> None:
    """It is printed as JSON, for people."""
    ended = billhook("schema", *kind)

    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out) == schema("settings" if kind == ("settings",) else "hooks")
    assert ended.out.startswith('{\n  "$schema"')


def test_no_such_schema() -> None:
    """A mistyped kind is answered with the nearest."""
    assert billhook("schema", "setings").screen == snapshot("""\
-- stderr
error: no schema `setings`

hint: did you mean `settings`?
-- exit 2
""")
