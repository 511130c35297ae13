"""Every accepted shape is read into the same records; every mistake has a place, and affects only its entry."""

from typing import Any

import pytest

from billhook.config.declaration import (
    Conditions,
    Exec,
    FixedAnswer,
    HookDeclaration,
    Python,
    RunAction,
    UnsupportedAction,
    Url,
)
from billhook.config.shapes import read_file
from billhook.config.sources import FileRead
from config.project import Project
from seeds.examples import FLAT, PIPELINE, STRINGS

SEED_004 = """{
"hooks": {
"PreToolUse": [
{"matcher": "bash", "command": "echo 'Checking bash command...'"},
{"matcher": "write_file", "command": "/path/to/lint-check.sh"}
],
"PostToolUse": [
{"command": "echo 'Tool finished'"}
],
"SessionStart": [
{"command": "echo 'Session started at $(date)'"}
]
}
}"""
NESTED = """{
  // comments are fine
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "Bash",
        "hooks": [
          {"type": "command", "command": "./guard.sh", "timeout": 5, "if": "Bash(git *)", "onFailure": "block",
           "statusMessage": "guarding"},
          {"type": "command", "command": "guard", "args": ["--dir", "${CLAUDE_PROJECT_DIR}"], "async": true},
          {"type": "http", "url": "https://example.com/h", "headers": {"X-Key": "$KEY"}, "allowedEnvVars": ["KEY"]},
          {"type": "prompt", "prompt": "is this fine?"},
        ],
      },
    ],
  },
}"""


def read(project: Project, name: str, text: Any) -> FileRead:
    return read_file(str(project.write(name, text)), "project", str(project.folder))


def test_seed_000_plain_strings(project: Project) -> None:
    """Strings in settings.json are claw hooks, in their order."""
    (hook,) = read(project, ".claude/settings.json", STRINGS).entries
    assert (hook.dialect, hook.shape, hook.events, hook.line) == ("claw", "strings", ("PreToolUse",), 4)
    assert isinstance(hook.action, RunAction) and hook.action.text.startswith('if echo "$HOOK_TOOL_INPUT" | grep')


@pytest.mark.parametrize("name", [".claude.json", ".claude/settings.json"])
def test_seed_003_flat_commands(project: Project, name: str) -> None:
    """`{"command": ...}` without `hooks` is a claw-text hook, in either file."""
    before, after = read(project, name, FLAT).entries
    assert (before.dialect, before.shape, before.name, before.line) == ("claw-text", "flat", "safety-check", 4)
    assert (after.events, after.name, after.action) == (
        ("PostToolUse",),
        "audit-log",
        RunAction("bash /path/to/audit-log.sh"),
    )


def test_seed_004_hooks_json(project: Project) -> None:
    """`.hooks.json` uses the lesson dialect; a matcher filters by tool name, without one it fires for every tool."""
    entries = read(project, ".hooks.json", SEED_004).entries
    assert [(hook.events[0], hook.match, hook.line) for hook in entries] == [
        ("PreToolUse", "bash", 4),
        ("PreToolUse", "write_file", 5),
        ("PostToolUse", None, 8),
        ("SessionStart", None, 11),
    ]
    assert {hook.dialect for hook in entries} == {"lesson"}
    assert [hook.name for hook in entries] == ["echo", "lint-check", "echo-2", "echo-3"]


def test_seed_002_hooks_yaml(project: Project) -> None:
    """The file exactly as printed: parallel off, three built-ins with their options, no findings."""
    file = read(project, "hooks.yaml", PIPELINE)
    assert file.findings == () and file.parallel is False and file.entries == ()
    said = {one.name: (one.enabled, one.options) for one in file.builtins}
    assert said == {
        "turn-tracker": (True, {"preserve_on_resume": True, "inject_context": False}),
        "session-naming": (True, {}),
        "event-logger": (True, {"include_input": True, "include_output": True}),
    }


def test_nested_groups(project: Project) -> None:
    """Matcher groups with all their fields; comments and trailing commas are accepted."""
    file = read(project, ".claude/settings.json", NESTED)
    guard, program, http, prompt = file.entries
    assert (guard.match, guard.conditions.rules, guard.timeout, guard.on_failure, guard.title) == (
        "Bash",
        ("Bash(git *)",),
        5.0,
        "deny",
        "guarding",
    )
    assert guard.action == RunAction("./guard.sh") and guard.dialect == "claude" and guard.line == 8
    assert program.action == Exec(("guard", "--dir", "${CLAUDE_PROJECT_DIR}")) and program.background
    assert http.action == Url("https://example.com/h", (("X-Key", "$KEY"),), ("KEY",))
    assert prompt.action == UnsupportedAction("prompt") and prompt.match == "Bash"
    assert [(one.code, one.line) for one in file.findings] == [("BH207", 12)]


def native(project: Project, body: str) -> HookDeclaration:
    text = "hooks:\n  it:\n" + "".join(f"    {line}\n" for line in body.strip().splitlines())
    (hook,) = read(project, ".billhook/hooks.yaml", text).entries
    return hook


NATIVE: dict[str, tuple[str, dict[str, Any]]] = {
    "run": ("run: ./x.sh", {"action": RunAction("./x.sh")}),
    "command is run": ("command: ./x.sh", {"action": RunAction("./x.sh")}),
    "exec": ("exec: [./x.sh, --all]", {"action": Exec(("./x.sh", "--all"))}),
    "command and args": ("command: ./x.sh\nargs: [a, b]", {"action": Exec(("./x.sh", "a", "b"))}),
    "python": ("python: policies.guard:check", {"action": Python("policies.guard:check")}),
    "interpreter": ("python: a:b\ninterpreter: .venv/bin/python", {"action": Python("a:b", ".venv/bin/python")}),
    "url": ("url: https://x/y", {"action": Url("https://x/y")}),
    "deny": ("deny: no", {"action": None}),  # YAML reads a bare `no` as false
    "deny quoted": ('deny: "no"', {"action": FixedAnswer("deny", "no")}),
    "deny without reason": ("deny: true", {"action": FixedAnswer("deny", "")}),
    "ask": ("ask: sure?", {"action": FixedAnswer("ask", "sure?")}),
    "allow": ("allow: fine", {"action": FixedAnswer("allow", "fine")}),
    "inject": ("inject: be careful", {"action": FixedAnswer("inject", "be careful")}),
    "gate": ("run: x\ngate: true", {"on_failure": "deny"}),
    "gate and ask": ("run: x\ngate: true\non_failure: ask", {"on_failure": "ask"}),
    "no gate": ("run: x\ngate: false", {"on_failure": "allow"}),
    "onFailure": ("run: x\nonFailure: block", {"on_failure": "deny"}),
    "on-failure": ("run: x\non-failure: ask", {"on_failure": "ask"}),
    "after": ("run: x\nafter: [a, b]", {"after": ("a", "b")}),
    "dependsOn": ("run: x\ndependsOn: a", {"after": ("a",)}),
    "depends_on": ("run: x\ndepends_on: [a]", {"after": ("a",)}),
    "matcher": ("run: x\nmatcher: Bash", {"match": "Bash"}),
    "priority": ("run: x\npriority: -5", {"priority": -5}),
    "timeout": ("run: x\ntimeout: 2.5", {"timeout": 2.5}),
    "async": ("run: x\nasync: true", {"background": True}),
    "asyncRewake": ("run: x\nasyncRewake: true", {"background": True}),
    "background": ("run: x\nbackground: true", {"background": True}),
    "dialect": ("run: x\ndialect: lesson", {"dialect": "lesson"}),
    "if": ("run: x\nif: Bash(rm *)", {"conditions": Conditions(rules=("Bash(rm *)",))}),
    "title": ("run: x\ntitle: a guard", {"title": "a guard"}),
    "statusMessage": ("run: x\nstatusMessage: a guard", {"title": "a guard"}),
    "off": ("run: x\nenabled: false", {"enabled": False}),
    "shell": ("run: x\nshell: bash", {"action": RunAction("x", "bash")}),
    "login": ("run: x\nlogin: exact", {"action": RunAction("x", "", "exact")}),
    "no login": ("run: x\nlogin: no", {"action": RunAction("x", "", "no")}),
}


@pytest.mark.parametrize("row", NATIVE)
def test_native_keys(project: Project, row: str) -> None:
    """Each key of hooks.yaml, in each of its spellings."""
    body, expected = NATIVE[row]
    hook = native(project, f"events: PreToolUse\n{body}")
    assert {field: getattr(hook, field) for field in expected} == expected
    assert hook.events == ("PreToolUse",) and hook.named and (hook.line, hook.column) == (2, 3)


EVENTS = {
    "one": ("PreToolUse", ("PreToolUse",)),
    "a list": ("[PreToolUse, Stop]", ("PreToolUse", "Stop")),
    "snake_case": ("[pre_tool_use, session_start]", ("PreToolUse", "SessionStart")),
    "camelCase": ("preToolUse", ("PreToolUse",)),
    "our own": ("MyOwnEvent", ("MyOwnEvent",)),
}


@pytest.mark.parametrize("row", EVENTS)
def test_events(project: Project, row: str) -> None:
    """One event or a list, camelCase and snake_case."""
    given, expected = EVENTS[row]
    assert native(project, f"events: {given}\nrun: x").events == expected


def test_event_lists_in_yaml(project: Project) -> None:
    """The shapes of settings files may be in a YAML file, too."""
    text = (
        "hooks:\n  PreToolUse:\n    - echo hi\n    - matcher: Bash\n      hooks: [{type: command, command: ./x.sh}]\n"
    )
    one, two = read(project, "hooks.yaml", text).entries
    assert (one.dialect, two.dialect, two.match, two.line) == ("claw", "claude", "Bash", 5)


def test_handlers_is_hooks_and_lists_have_names(project: Project) -> None:
    """Seed 002's word, and its records with an id."""
    text = "handlers:\n  - id: mine\n    events: Stop\n    run: x\n"
    (hook,) = read(project, "hooks.yaml", text).entries
    assert (hook.name, hook.named, hook.events) == ("mine", True, ("Stop",))


def test_for_the_whole_file(project: Project) -> None:
    """`dialect` and `settings: timeout` apply to every hook without its own value."""
    text = "dialect: lesson\nsettings: {timeout: 7, parallelExecution: true}\nhooks:\n"
    text += "  a: {events: Stop, run: x}\n  b: {events: Stop, run: x, timeout: 1, dialect: claw}\n"
    file = read(project, "hooks.yaml", text)
    assert [(hook.dialect, hook.timeout) for hook in file.entries] == [("lesson", 7.0), ("claw", 1.0)]
    assert file.parallel is True


OURS = {
    "client": "billhook-hook --as claude --deadline 5000",
    "absolute": "/home/me/.local/bin/billhook hook --as claude",
    "module": "python3 -m billhook hook --as claude",
    "guarded": "command -v billhook-hook >/dev/null && billhook-hook --as claude",
    "uvx": "uvx billhook hook --as claude",
}


@pytest.mark.parametrize("row", OURS)
def test_entries_that_billhook_installed_are_not_hooks(project: Project, row: str) -> None:
    """Entries of billhook in an agent's file would only call billhook again."""
    group = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": OURS[row]}]}, "echo hi"]}}
    hooks = read(project, ".claude/settings.json", group).entries
    assert [(hook.name, hook.ours) for hook in hooks if not hook.ours] == [("echo", False)]


def test_entries_that_only_look_like_billhook(project: Project) -> None:
    """A command that mentions billhook, but doesn't run it as a hook, stays."""
    commands = [
        "echo billhook hook --as claude",
        "billhook fire Stop",
        "./billhook-hook-wrapper.sh",
        "./billhook hook --as claude",
        "./guard.sh && billhook hook --as claude",
        "echo no >&2; exit 2; billhook hook --as claude",
        "billhook hook --as claude >/dev/null; exit 2",
    ]
    file = read(project, ".claude/settings.json", {"hooks": {"PreToolUse": commands}})
    assert not any(hook.ours for hook in file.entries) and len(file.entries) == len(commands)


SLIPS: dict[str, tuple[str, str, list[tuple[str, int, int]], str]] = {
    # name: file, text, findings as (code, line, column), the hook that still works
    "yaml unknown event": (
        "hooks.yaml",
        "hooks:\n  bad: {events: PreToolUs, run: x}\n  good: {events: Stop, run: x}\n",
        [("BH201", 2, 17)],
        "good",
    ),
    "yaml unknown key": (
        "hooks.yaml",
        "hooks:\n  bad: {events: Stop, rum: x}\n  good: {events: Stop, run: x}\n",
        [("BH202", 2, 23)],
        "good",
    ),
    "yaml on is not a key": (
        "hooks.yaml",
        "hooks:\n  bad: {on: Stop, run: x}\n  good: {events: Stop, run: x}\n",
        [("BH202", 2, 9), ("BH204", 2, 3)],
        "good",
    ),
    "yaml wrong type": (
        "hooks.yaml",
        "hooks:\n  bad: {events: Stop, run: x, timeout: soon}\n  good: {events: Stop, run: x}\n",
        [("BH203", 2, 40)],
        "good",
    ),
    "yaml two actions": (
        "hooks.yaml",
        "hooks:\n  bad: {events: Stop, run: x, deny: y}\n  good: {events: Stop, run: x}\n",
        [("BH204", 2, 37)],
        "good",
    ),
    "yaml unknown dialect": (
        "hooks.yaml",
        "hooks:\n  bad: {events: Stop, run: x, dialect: claud}\n  good: {events: Stop, run: x}\n",
        [("BH205", 2, 40)],
        "good",
    ),
    "yaml bad rule": (
        "hooks.yaml",
        "hooks:\n  bad: {events: PreToolUse, run: x, if: 'Bash(git'}\n  good: {events: Stop, run: x}\n",
        [("BH208", 2, 41)],
        "good",
    ),
    "yaml reserved name": (
        "hooks.yaml",
        "hooks:\n  turn-tracker: {events: Stop, run: x}\n  good: {events: Stop, run: x}\n",
        [("BH210", 2, 3)],
        "good",
    ),
    "yaml a hook that is a list of words": (
        "hooks.yaml",
        "hooks:\n  bad: 5\n  good: {events: Stop, run: x}\n",
        [("BH203", 2, 8)],
        "good",
    ),
    "strings: a number": (
        ".claude/settings.json",
        '{"hooks": {"PreToolUse": [\n  5,\n  "echo good"\n]}}',
        [("BH203", 2, 3)],
        "echo",
    ),
    "flat: no command": (
        ".claude.json",
        '{"hooks": {"PreToolUse": [\n  {"comand": "x"},\n  {"command": "echo good"}\n]}}',
        [("BH202", 2, 4)],
        "echo",
    ),
    "nested: wrong-typed matcher": (
        ".claude/settings.json",
        '{"hooks": {"PreToolUse": [\n  {"matcher": 5, "hooks": [{"type": "command", "command": "x"}]},\n'
        '  {"hooks": [{"type": "command", "command": "echo good"}]}\n]}}',
        [("BH203", 2, 15)],
        "echo",
    ),
    "nested: unknown type": (
        ".claude/settings.json",
        '{"hooks": {"PreToolUse": [{"hooks": [\n  {"type": "comand", "command": "x"},\n'
        '  {"type": "command", "command": "echo good"}\n]}]}}',
        [("BH206", 2, 12)],
        "echo",
    ),
    "nested: bad regex": (
        ".claude/settings.json",
        '{"hooks": {"Stop": [\n  {"matcher": "Bash(", "hooks": [{"type": "command", "command": "echo good"}]}\n]}}',
        [("BH209", 2, 15)],
        "echo",
    ),
    "hooks.json: unknown event": (
        ".hooks.json",
        '{"hooks": {\n  "PretoolUsed": [{"command": "x"}],\n  "Stop": [{"command": "echo good"}]\n}}',
        [("BH201", 2, 3)],
        "echo",
    ),
    "nested: an event that is not a list": (
        ".claude/settings.json",
        '{"hooks": {\n  "PreToolUse": {"command": "x"},\n  "Stop": ["echo good"]\n}}',
        [("BH203", 2, 17)],
        "echo",
    ),
    "nested: onFailure on the group": (
        ".claude/settings.json",
        '{"hooks": {"Stop": [\n  {"onFailure": "block", "hooks": [{"type": "command", "command": "echo good"}]}\n]}}',
        [("BH510", 2, 4)],
        "echo",
    ),
    "settings: a handler outside of hooks": (
        ".claude/settings.json",
        '{"hooks": {"Stop": [\n  {"type": "command", "command": "echo good"}\n]}}',
        [("BH216", 2, 3)],
        "echo",
    ),
}


@pytest.mark.parametrize("row", SLIPS)
def test_one_bad_entry_affects_only_itself(project: Project, row: str) -> None:
    """It is reported with line, column and a hint; the other entries stay."""
    name, text, expected, good = SLIPS[row]
    file = read(project, name, text)
    assert [(one.code, one.line, one.column) for one in file.findings] == expected
    assert all(one.hint and one.file == str(project.path(name)) for one in file.findings)
    usable = [hook.name for hook in file.entries if hook.action is not None and not hook.broken]
    assert usable == [good]


def test_the_nearest_name_is_in_the_hint(project: Project) -> None:
    """The most likely key is suggested."""
    text = "hooks:\n  bad: {events: PreToolUs, rum: x, dialect: claud}\nbuiltin: {}\n"
    hints = [one.hint for one in read(project, "hooks.yaml", text).findings]
    assert {f"did you mean `{word}`?" for word in ("PreToolUse", "run", "claude", "builtins")} <= set(hints)


MEANT_AS_GATE = {
    "a typo in gate": "gat: true",
    "a typo in the value": "on_failure: blok",
    "a wrong type": 'gate: "yes"',
    "a number": "on_failure: 2",
    "a typo in the key": "on_falure: deny",
}


@pytest.mark.parametrize("row", MEANT_AS_GATE)
def test_a_misspelt_gate_is_a_gate(project: Project, row: str) -> None:
    """A typo in the key that makes a gate does not leave it open."""
    assert native(project, f"events: PreToolUse\nrun: x\n{MEANT_AS_GATE[row]}").on_failure == "deny"


def test_keys_of_the_agent_in_settings(project: Project) -> None:
    """Unknown keys in settings files belong to the agent; in our files they are mistakes."""
    assert read(project, ".claude/settings.json", {"model": "x", "permissions": {"deny": []}}).findings == ()
    assert [one.code for one in read(project, "hooks.yaml", "model: x\n").findings] == ["BH202"]


def test_duplicate_names(project: Project) -> None:
    """Two hooks with one name in one file: both stay, and it is reported."""
    text = "hooks:\n  - {name: a, events: Stop, run: x}\n  - {name: a, events: Stop, run: y}\n"
    file = read(project, "hooks.yaml", text)
    assert [one.code for one in file.findings] == ["BH211"] and len(file.entries) == 2


WHOLE_FILE = {
    "parallel": ("parallelExecution: 'no'\n", [("BH203", 1, 20)]),
    "disable": ("disableAllHooks: 1\n", [("BH203", 1, 18)]),
    "an unknown built-in": ("builtins:\n  turn-traker: true\n", [("BH202", 2, 3)]),
    "built-ins that are a list": ("builtins: [x]\n", [("BH203", 1, 11)]),
    "an unknown key of a built-in": ("builtins:\n  turn-tracker: {on: true}\n", [("BH202", 2, 18)]),
    "an invalid allow-list": ("allowedHttpHookUrls: https://x\n", [("BH203", 1, 22)]),
    "a dialect": ("dialect: klaud\n", [("BH205", 1, 10)]),
    "a list of dialects": ("dialect: [claude]\n", [("BH205", 1, 10)]),
    "a timeout": ("settings: {timeout: -1}\n", [("BH203", 1, 21)]),
}


@pytest.mark.parametrize("row", WHOLE_FILE)
def test_mistakes_for_the_whole_file(project: Project, row: str) -> None:
    """Each has a place, too, and its message has no internal names."""
    text, expected = WHOLE_FILE[row]
    findings = read(project, "hooks.yaml", text).findings
    assert [(one.code, one.line, one.column) for one in findings] == expected
    assert not any("Node" in one.message for one in findings)


UNREADABLE = {
    "not JSON": (".claude/settings.json", "hello", False),
    "a list": (".claude/settings.json", "[]", False),
    "broken YAML": ("hooks.yaml", "hooks:\n  a: [events: {Stop\n\t]", False),
    "broken YAML with a gate in it": ("hooks.yaml", "hooks:\n  a: [events: {Stop, gate: true\n\t]", True),
    "not UTF-8": ("hooks.yaml", "hooks: \udcff", False),
}


@pytest.mark.parametrize("row", UNREADABLE)
def test_a_file_that_cannot_be_read(project: Project, row: str) -> None:
    """It has a finding with a place, no entries, and whether it mentions a gate."""
    name, text, mentions_gate = UNREADABLE[row]
    path = project.write(name, "")
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    file = read_file(str(path), "project", str(project.folder))
    assert not file.readable and file.entries == () and file.mentions_gate is mentions_gate
    assert all(one.line and one.column and one.hint for one in file.findings) and file.findings


GOOD = '{"hooks": [{"type": "command", "command": "good"}]}'
GATE = '{"hooks": [{"type": "command", "command": "good", "onFailure": "block"}]}'
LOST = {
    "no gate in it": ('{"hooks": {"Stop": [%s, {"command" "bad"}]}}' % GOOD, False),  # noqa: UP031
    "the gate is the good one": ('{"hooks": {"Stop": [%s, {"command" "bad"}]}}' % GATE, False),  # noqa: UP031
    "the gate is the lost one": (
        '{"hooks": {"Stop": [%s, {"command" "bad", "onFailure": "block"}]}}' % GOOD,  # noqa: UP031
        True,
    ),
}


@pytest.mark.parametrize("row", LOST)
def test_a_gate_in_the_lost_part(project: Project, row: str) -> None:
    """A file that can be read in part records whether the other part may contain a gate."""
    text, mentions_gate = LOST[row]
    file = read(project, ".claude/settings.json", text)
    assert file.mentions_gate is mentions_gate and "BH104" in [one.code for one in file.findings]


def test_a_missing_file(project: Project) -> None:
    """A file that can't be opened has a finding as well."""
    file = read_file(str(project.folder / "nothing.yaml"), "explicit", str(project.folder))
    assert [(one.code, one.line) for one in file.findings] == [("BH101", 1)] and not file.readable


BLOCKS_ALL = '{"type": "command", "command": "exit 2", "onFailure": "block"}'
STRUCTURAL = {
    "an event that is a mapping": (
        ".claude/settings.json",
        '{"hooks": {"PreToolUse": {"matcher": "Bash", "hooks": [%s]}}}',
    ),
    "hooks that are a mapping": (".claude/settings.json", '{"hooks": {"PreToolUse": [{"hooks": %s}]}}'),
    "a list in a list": (".claude/settings.json", '{"hooks": {"PreToolUse": [[%s]]}}'),
    "a list of groups": (".claude/settings.json", '{"hooks": [{"hooks": [%s]}]}'),
    "handlers in a list": (".claude/settings.json", '{"hooks": {"PreToolUse": [{"hooks": [[%s]]}]}}'),
    "a group with `hook`": (".claude/settings.json", '{"hooks": {"PreToolUse": [{"hook": [%s]}]}}'),
    "a settings file with `hoks`": (".claude/settings.json", '{"hoks": {"PreToolUse": [%s]}}'),
    "a list of named hooks": ("hooks.yaml", "hooks:\n  - a: {events: PreToolUse, run: 'true', gate: true}\n"),
    "a hook that is a list": ("hooks.yaml", "hooks:\n  a:\n    - [{events: PreToolUse, gate: true}]\n"),
    "`hook` for `hooks`": ("hooks.yaml", "hook:\n  a: {events: PreToolUse, run: 'true', gate: true}\n"),
    "no `hooks` at all": ("hooks.yaml", "a: {events: PreToolUse, run: 'true', gate: true}\n"),
    "not indented": ("hooks.yaml", "hooks:\na:\nevents: PreToolUse\nrun: 'true'\ngate: true\n"),
}


@pytest.mark.parametrize("row", STRUCTURAL)
def test_a_gate_in_the_wrong_place_is_not_forgotten(project: Project, row: str) -> None:
    """A gate in a place where no hook is allowed is still detected."""
    name, text = STRUCTURAL[row]
    file = read(project, name, text.replace("%s", BLOCKS_ALL))
    blocks = any(hook.gate and not hook.action for hook in file.entries)
    assert file.findings and (file.mentions_gate or blocks)
    harmless = text.replace("%s", '{"type": "command", "command": "x"}').replace(", gate: true", "")
    assert not read(project, name, harmless.replace("gate: true\n", "")).mentions_gate


TWICE = {
    "two blocks of hooks": ("hooks:\n  g: {events: Stop, run: x}\nhooks:\n  l: {events: Stop, run: y}\n", 2, ["BH105"]),
    "run and command": ("hooks:\n  a: {events: Stop, run: x, command: y}\n", 0, ["BH105"]),
    "match and matcher": ("hooks:\n  a: {events: Stop, run: x, match: A, matcher: B}\n", 0, ["BH105"]),
    "run and run": ("hooks:\n  a: {events: Stop, run: x, run: y}\n", 0, ["BH105"]),
    "gate and on_failure": ("hooks:\n  a: {events: Stop, run: x, gate: true, on_failure: allow}\n", 1, ["BH206"]),
    "a title and a description": ("hooks:\n  a: {events: Stop, run: x, title: t, description: d}\n", 1, []),
}


@pytest.mark.parametrize("row", TWICE)
def test_twice(project: Project, row: str) -> None:
    """Two blocks of hooks both count; one key in two spellings is ambiguous."""
    text, usable, expected = TWICE[row]
    file = read(project, "hooks.yaml", text)
    assert sum(not hook.broken for hook in file.entries) == usable
    assert [one.code for one in file.findings] == expected


def test_a_gate_that_is_declared_twice(project: Project) -> None:
    """One of two values makes it a gate, so it is a gate."""
    (hook,) = read(project, "hooks.yaml", "hooks:\n  a: {events: Stop, run: x, gate: true, gate: false}\n").entries
    assert hook.gate and hook.broken


def test_an_id_and_a_name(project: Project) -> None:
    """Seed 002's handlers have both: the id is the name, the name is the title."""
    text = "hooks:\n  - {id: a, name: My Handler, events: Stop, run: x}\n"
    (hook,) = read(project, "hooks.yaml", text).entries
    assert (hook.name, hook.title) == ("a", "My Handler")
