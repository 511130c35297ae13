"""Lint of hooks as people publish them: what works stays clean, and the usual mistakes are found with their remedy."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from billhook.config.lint import is_note, lint
from billhook.config.lint.hooks import _sh
from billhook.config.lint.matchers import TOOLS
from billhook.config.shapes import read_file
from billhook.core.match import compile_matcher
from billhook.core.text import Finding

from .test_lint import MARK, codes, exactly, found, hook, match, script

DASH = pytest.mark.skipif(_sh() != "dash", reason="`sh` is another shell here")


def whole(folder: Path, name: str, data: Any) -> list[Finding]:
    """All findings in one file, of the reader and of lint, except for missing programs."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(data if isinstance(data, str) else json.dumps(data, indent=2))
    read = read_file(str(file), "explicit", str(folder))
    every = [*read.findings, *lint(read.entries, {str(file): read.variables})]
    return [one for one in every if not one.code.startswith("BH40") or one.code > "BH405"]


def group(command: str = "true", matcher: str | None = None, handler: Any = None, **keys: Any) -> dict[str, Any]:
    of_group = {} if matcher is None else {"matcher": matcher}
    return {**of_group, "hooks": [{"type": "command", "command": command, **(handler or {})}], **keys}


CLEAN = [
    pytest.param(".claude/settings.json", {"PreToolUse": [group(description="deny it", id="pre:x")]}, id="on a group"),
    pytest.param("hooks/hooks.json", {"Stop": [group(name="x", version=1, comment="y")]}, id="remarks on a group"),
    pytest.param(
        ".claude/settings.json",
        {"Stop": [group(handler={"rewakeMessage": "x", "rewakeSummary": "y", "statusMessage": "z", "author": "a"})]},
        id="remarks on a handler",
    ),
    pytest.param("hooks/hooks.json", {"Stop": [group(handler={"commandWindows": "x"})]}, id="another system's command"),
    pytest.param(".codex/hooks.json", {"PreToolUse": [group(matcher="^apply_patch$")]}, id="Codex's tool"),
    pytest.param("hooks/hooks.json", {"PreToolUse": [group(matcher="apply_patch")]}, id="Codex's tool in a plugin"),
    pytest.param(".codex/hooks.json", {"Stop": [group(handler={"additionalContextLimit": 9})]}, id="Codex's key"),
    pytest.param(
        ".gemini/settings.json",
        {
            "BeforeTool": [group(matcher="run_shell_command", handler={"timeout": 5000, "name": "x"})],
            "AfterModel": [group(matcher=".*", sequential=True)],
            "BeforeAgent": [group()],
        },
        id="Gemini CLI",
    ),
    pytest.param("hooks/hooks.json", {"BeforeAgent": [group()], "Stop": [group()]}, id="a plugin of two agents"),
    pytest.param(
        ".cursor/hooks.json",
        {
            "beforeShellExecution": [{"command": "true", "matcher": "ls", "failClosed": True, "timeout": 30}],
            "afterFileEdit": [{"command": "true"}],
            "beforeSubmitPrompt": [{"command": "true"}],
            "stop": [{"command": "true", "loop_limit": 3}],
            "preToolUse": [{"command": "true", "matcher": "Shell|Write"}],
        },
        id="Cursor",
    ),
    pytest.param(
        ".github/hooks/x.json",
        {"preToolUse": [{"type": "command", "bash": "true", "env": {"A": "1"}, "cwd": ".", "timeoutSec": 30}]},
        id="Copilot",
    ),
    pytest.param(".claude/settings.json", {"PreToolUse": [group(matcher="Bash|bash|shell")]}, id="two spellings"),
    pytest.param(".claude/settings.json", {"Stop": [group("bash -c 'source x; [[ a == b ]]'")]}, id="bash, named"),
    pytest.param(".claude/settings.json", {"Stop": [group("[[ a ]]", handler={"shell": "bash"})]}, id="bash, as a key"),
    pytest.param(".codex/hooks.json", {"Stop": [group("[[ a ]]")]}, id="a shell that we don't know"),
]


@pytest.mark.parametrize(("name", "hooks"), CLEAN)
def test_what_works_is_clean(tmp_path: Path, name: str, hooks: Any) -> None:
    """Keys that agents know or pass over, and each agent's own file in that agent's own words."""
    assert whole(tmp_path, name, {"version": 1, "$schema": "x", "description": "y", "hooks": hooks}) == []


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("timout", 5, "did you mean `timeout`?"),
        ("onFailures", "block", "did you mean `onFailure`?"),
        ("blocking", True, "exit code 2 blocks"),
        ("failClosed", True, "onFailure"),
        ("timeoutMs", 500, "seconds"),
        ("disabled", True, "the hook runs"),
        ("env", {"A": "b"}, "into the command"),
        ("condition", "x", "did you mean `if`?"),
        ("hookPath", "x", "did you mean `command`?"),
    ],
)
def test_keys_that_people_rely_on(tmp_path: Path, key: str, value: Any, hint: str) -> None:
    """BH202 for a slip, and for what no agent reads."""
    findings = whole(tmp_path, ".claude/settings.json", {"hooks": {"Stop": [group(handler={key: value})]}})
    assert codes(findings) == ["BH202"] and hint in findings[0].hint


def test_keys_of_a_group_that_people_rely_on(tmp_path: Path) -> None:
    """BH202 and BH510 on a matcher group."""
    rows: list[tuple[str, Any, str]] = [
        ("tools", ["Edit"], "BH202"),
        ("matchr", "Edit", "BH202"),
        ("timeout", 5, "BH510"),
    ]
    for key, value, code in rows:
        findings = whole(tmp_path, ".claude/settings.json", {"hooks": {"PreToolUse": [{**group(), key: value}]}})
        assert codes(findings) == [code], key


def test_a_remark_is_no_gate(tmp_path: Path) -> None:
    """Words in a description block nothing."""
    file = tmp_path / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"hooks": {"Stop": [group(description="deny; onFailure: block")]}}))
    assert not read_file(str(file), "user", str(tmp_path)).mentions_gate


def test_notes(tmp_path: Path) -> None:
    """BH207 in a file that an agent runs itself, and a type that only an unknown agent has."""
    prompt = {"hooks": {"Stop": [{"hooks": [{"type": "prompt", "prompt": "Done?"}]}]}}
    for name in (".claude/settings.json", "hooks/hooks.json"):
        findings = whole(tmp_path, name, prompt)
        assert codes(findings) == ["BH207"] and all(map(is_note, findings))
    assert not is_note(whole(tmp_path, "other.json", prompt)[0])
    process = {"hooks": {"Stop": [{"hooks": [{"type": "process", "command": "x", "timeoutMs": 5}]}]}}
    findings = whole(tmp_path, "hooks/hooks.json", process)
    assert sorted(codes(findings)) == ["BH202", "BH206"] and all(map(is_note, findings))
    assert not all(map(is_note, whole(tmp_path, ".claude/settings.json", process)))


def test_events_of_the_wrong_agent(tmp_path: Path) -> None:
    """BH201 with the name that this agent has for it."""
    rows = [
        (".gemini/settings.json", "PreToolUse", "did you mean `BeforeTool`?"),
        (".cursor/hooks.json", "UserPromptSubmit", "did you mean `beforeSubmitPrompt`?"),
        (".codex/hooks.json", "beforeShellExecution", "did you mean `PreToolUse`?"),
        (".codex/hooks.json", "Notification", "remove it, or use an event that it has"),
    ]
    for name, event, hint in rows:
        entry = {"command": "true"} if "cursor" in name else group()
        findings = whole(tmp_path, name, {"hooks": {event: [entry]}})
        assert [(one.code, one.hint) for one in findings] == [("BH201", hint)], event


def test_milliseconds_and_seconds(tmp_path: Path) -> None:
    """BH501 in the unit of the agent whose file it is."""
    rows = [("BeforeTool", ".gemini/settings.json", 30, "30000"), ("Stop", ".codex/hooks.json", 30000, "30")]
    for event, name, written, meant in rows:
        findings = whole(tmp_path, name, {"hooks": {event: [group(handler={"timeout": written})]}})
        assert [(one.code, one.hint) for one in findings] == [("BH501", f'write `"timeout": {meant}`')]


def test_events_outside_of_hooks(tmp_path: Path) -> None:
    """BH202: a plugin's file that begins with the events."""
    findings = whole(tmp_path, "hooks/hooks.json", {"Stop": [group()]})
    assert codes(findings) == ["BH202"] and "none of it runs" in findings[0].message


# -- matchers


@pytest.mark.parametrize(
    ("pattern", "code", "hint"),
    [
        ("mcp__", "BH302", "write `match: mcp__.*`"),
        ("mcp", "BH302", "write `match: mcp__.*`"),
        ("Bash|mcp__", "BH302", "write `match: ^(Bash|mcp__.*)$`"),
        ("Stop", "BH301", "write `events: Stop` and remove `match: Stop`"),
        ("PreToolUse", "BH301", "remove `match: PreToolUse`"),
        ("PreToolUse|Bash", "BH301", "write `match: Bash`"),
        ("Bash|Bsh", "BH301", "write `match: Bash`"),
        ("'Bash|'", "BH309", "write `match: Bash`"),
        ("'|Write'", "BH309", "write `match: Write`"),
        ("'Bash.*||Write'", "BH309", "write `match: Bash.*|Write`"),
        ("'(Bash|)'", "BH309", "write `match: (Bash)`"),
        ("'()'", "BH309", "remove `match: ()`"),
        ("'mcp__.*|'", "BH309", "write `match: mcp__.*`"),
        ("'tool == \"Bash\"'", "BH308", "write `match: Bash`"),
        ('\'tool == "Bash" || tool == "Write"\'', "BH308", "write `match: Bash|Write`"),
        ("tool_name == 'bash'", "BH308", "write `match: Bash`"),
        ("tool != 'Read'", "BH308", "name the tools, as in `match: Bash|Write`"),
        (
            '\'tool == "Bash" && tool_input.command matches "git push"\'',
            "BH308",
            "write `match: Bash`, and the rest of the condition as `if: Bash(...)`, or check it in the hook",
        ),
        (
            '\'tool == "Bash" && command =~ "rm"\'',
            "BH308",
            "write `match: Bash`, and the rest of the condition as `if: Bash(...)`, or check it in the hook",
        ),
        ("tool == 'Bash' || x", "BH308", "write one hook for each part of the condition"),
    ],
)
def test_matchers_that_do_something_else(tmp_path: Path, pattern: str, code: str, hint: str) -> None:
    """BH301, BH302, BH308 and BH309, each with an edit that can be used."""
    text = match(pattern)
    findings = found(tmp_path, text)
    assert codes(findings) == [code] and findings[0].hint == hint


@pytest.mark.parametrize(
    "pattern", ["'^(Bash||Write)$'", "(Web)?Fetch", "'Bash|Edit'", "'mcp__.*__(get|set)'", r"'a\|'"]
)
def test_matchers_that_are_fine(tmp_path: Path, pattern: str) -> None:
    """Not BH308 or BH309."""
    assert [one for one in codes(found(tmp_path, match(pattern))) if one in ("BH308", "BH309")] == []


def test_what_a_condition_does(tmp_path: Path) -> None:
    """The message of BH308 has whether it matches nothing or everything."""
    assert found(tmp_path, match("tool == 'Bash'"))[0].message.endswith("it never matches")
    assert found(tmp_path, match("tool == 'Bash' || x"))[0].message.endswith("it matches every tool")


@pytest.mark.parametrize(
    "pattern",
    ["bash", "Bash|bash|Edits", "bash edit|Write", "shell|run_shell_command", "Bash|mcp__memory|mcp__", "'Bash.*|'"],
)
def test_a_hint_never_weakens(tmp_path: Path, pattern: str) -> None:
    """A proposed matcher can be read, names nothing twice, and sees at least what the old one named."""
    for one in found(tmp_path, match(pattern)):
        proposed = one.edit
        names = proposed.strip("^$()").split("|")
        assert len(names) == len(set(names))
        now = compile_matcher(proposed, "claude", "PreToolUse")
        before = compile_matcher(pattern.strip("'"), "claude", "PreToolUse")
        assert not now.problem
        assert {tool for tool in TOOLS if now.matches(tool)} >= {tool for tool in TOOLS if before.matches(tool)} or (
            one.code == "BH309"
        )


def test_the_matcher_of_an_allow_is_never_removed(tmp_path: Path) -> None:
    """BH301: without a matcher the hook would allow every call."""
    (one,) = found(tmp_path, hook("events: PreToolUse\nmatch: PreToolUse\nallow: true"))
    assert (one.code, one.hint) == ("BH301", "name the tools that it allows")


def test_a_wider_rule_is_never_proposed_for_an_allow(tmp_path: Path) -> None:
    """BH306 is about guards: an allow that misses a spelling is none."""
    text = "events: PreToolUse\nif: Bash(git push --force *)\n"
    assert codes(found(tmp_path, hook(text + "allow: fine"))) == []
    assert codes(found(tmp_path, hook(text + "ask: sure?"))) == ["BH306"]


# -- commands


@pytest.mark.parametrize(
    ("command", "name", "query"),
    [
        ("prettier --write $CLAUDE_TOOL_FILE_PATH", "CLAUDE_TOOL_FILE_PATH", ".tool_input.file_path"),
        ('F="${CLAUDE_FILE_PATHS}"; ruff "$F"', "CLAUDE_FILE_PATHS", ".tool_input.file_path"),
        ('echo "$TOOL_INPUT" | grep -q rm', "TOOL_INPUT", "$(jq -r '.tool_input.command')"),
        ("printf %s $STDIN_JSON", "STDIN_JSON", ".tool_input"),
        ('echo "$CLAUDE_TOOL_NAME" >> log', "CLAUDE_TOOL_NAME", ".tool_name"),
        ("eslint $FILE", "FILE", ".tool_input.file_path"),
        ("eslint ${file_path}", "file_path", ".tool_input.file_path"),
        ("log $CLAUDE_TRANSCRIPT_PATH", "CLAUDE_TRANSCRIPT_PATH", ".transcript_path"),
        ("test -n $HOOK_TOOL_NAME", "HOOK_TOOL_NAME", ".tool_name"),
        ('x=$(echo "$CLAUDE_USER_PROMPT")', "CLAUDE_USER_PROMPT", ".prompt"),
        ("ls $CLAUDE_PROJECT_ROOT", "CLAUDE_PROJECT_ROOT", "$CLAUDE_PROJECT_DIR"),
    ],
)
def test_variables_that_no_agent_sets(tmp_path: Path, command: str, name: str, query: str) -> None:
    """BH406 in an agent's file and in hooks.yaml, with the line that reads it."""
    for file in (".claude/settings.json", ".codex/hooks.json", "hooks/hooks.json"):
        findings = whole(tmp_path, file, {"hooks": {"PostToolUse": [group(command)]}})
        assert [one.code for one in findings] == ["BH406"], file
        assert f"`${name}`" in findings[0].message and query in findings[0].hint
    text = hook(f"events: PostToolUse\nrun: {MARK}{json.dumps(command)}")
    if name == "file_path":  # in hooks.yaml that is a value of the event
        assert not [one for one in found(tmp_path, text.replace(MARK, "")) if one.code > "BH405"]
        return
    assert name in exactly([one for one in found(tmp_path, text) if one.code > "BH405"], "BH406", text).message


@pytest.mark.parametrize(
    "command",
    [
        "jq -r .tool_input.file_path | { read -r file; ruff $file; }",
        "FILE=$(jq -r .tool_input.file_path) && ruff $FILE",
        "while read -r file; do ruff $file; done",
        "for file in *.py; do ruff $file; done",
        "export TOOL_INPUT=$(cat); ./x.sh $TOOL_INPUT",
        "echo ${TOOL_INPUT:-none} ${FILE-x} ${STDIN_JSON:=y}",
        "echo '$TOOL_INPUT'",
        r"echo \$TOOL_INPUT",
        "echo $HOME $CLAUDE_PROJECT_DIR $CLAUDE_PLUGIN_ROOT $CLAUDE_ENV_FILE $CLAUDE_CODE_REMOTE $MY_OWN",
        "# $TOOL_INPUT\ntrue",
    ],
)
def test_variables_that_are_set(tmp_path: Path, command: str) -> None:
    """Not BH406."""
    assert whole(tmp_path, ".claude/settings.json", {"hooks": {"PostToolUse": [group(command)]}}) == []


def test_variables_with_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not BH406: `env` of the settings, the environment, and dialects that have such variables."""
    hooks = {"PostToolUse": [group("echo $TOOL_INPUT")]}
    assert whole(tmp_path, ".claude/settings.json", {"env": {"TOOL_INPUT": "x"}, "hooks": hooks}) == []
    assert codes(whole(tmp_path, ".claude/settings.json", {"hooks": hooks})) == ["BH406"]
    monkeypatch.setitem(os.environ, "TOOL_INPUT", "x")
    assert whole(tmp_path, ".claude/settings.json", {"hooks": hooks}) == []
    seeds = hook("events: PostToolUse\ndialect: claw\nrun: echo $HOOK_TOOL_NAME")
    assert found(tmp_path, seeds) == []
    assert found(tmp_path, hook("events: PostToolUse\nrun: echo $CLAUDE_SESSION_ID $CLAUDE_CWD")) == []


def test_variables_in_scripts(tmp_path: Path) -> None:
    """BH406 in a script that knows nothing else of the event."""
    script(tmp_path, "a.sh", '#!/bin/sh\nruff check "$CLAUDE_FILE_PATHS"\n')
    script(tmp_path, "b.sh", '#!/bin/sh\nin=$(cat)\nruff "${CLAUDE_FILE_PATHS:-$in}" "$CLAUDE_TOOL_NAME"\n')
    script(tmp_path, "c.py", "import os\nprint(os.environ['CLAUDE_TOOL_INPUT'])\n")
    for name, wanted in [("./a.sh", ["BH406"]), ("./b.sh", []), ("python3 c.py", ["BH406"])]:
        assert codes(found(tmp_path, hook(f"events: PostToolUse\nrun: {name}"))) == wanted, name


@DASH
@pytest.mark.parametrize(
    "command",
    [
        'if [[ "$A" == b ]]; then true; fi',
        "cat <<< x",
        "true &> /dev/null",
        "diff <(ls) <(ls -a)",
        "a=(1 2); true",
        "function f { true; }; f",
        "source ./env",
        '[ "$a" == b ] && true',
        'echo "${a//x/y}"',
        'echo "${a,,}"',
        'echo "${PIPESTATUS[0]}"',
        "for i in {1..3}; do true; done",
        'x="$([[ -f x ]] && echo y)"',
    ],
)
def test_bash_where_sh_runs_it(tmp_path: Path, command: str) -> None:
    """BH407, with the key that Claude Code and hooks.yaml have."""
    findings = whole(tmp_path, ".claude/settings.json", {"hooks": {"Stop": [group(command)]}})
    assert [(one.code, one.hint) for one in findings] == [
        ("BH407", 'add `"shell": "bash"`, or write the line for `sh`')
    ]
    text = hook(f"events: Stop\nrun: {MARK}{json.dumps(command)}\nshell: bash")
    assert [one for one in codes(found(tmp_path, text)) if one == "BH407"] == []


@DASH
@pytest.mark.parametrize(
    "command",
    [
        "[ -f x ] && true || true",
        "echo '[[ a ]]' \"<( b )\" && true",
        'node -e "a[[0]] == b; function x(){}"',
        "cat <<EOF\n[[ a ]] <<< b\nEOF",
        "true >/dev/null 2>&1 &",
        "case x in a|b) true;; esac",
        "x=$((1 + 2)); echo ${x:-1} ${x%.*} ${x##*/} ${#x}",
        ". ./env # source it",
        'f() { true; }; f; echo "a == b"',
    ],
)
def test_what_sh_knows(tmp_path: Path, command: str) -> None:
    """Not BH407."""
    assert whole(tmp_path, ".claude/settings.json", {"hooks": {"Stop": [group(command)]}}) == []


@pytest.mark.parametrize(
    "text",
    [
        "command -v jq >/dev/null || { echo 'jq not found, guard is off' >&2; exit 1; }\n",
        "if [ ! -f policy.json ]; then\n  echo 'policy.json is missing'\n  exit 1\nfi\n",
        "try:\n    data = json.load(sys.stdin)\nexcept ValueError as error:\n    print(error)\n    sys.exit(1)\n",
        "main().catch((error) => { console.error(error); process.exit(1) })\n",
        "# blocks dangerous commands\nusage() { echo 'usage: guard.sh' >&2; exit 1; }\n",
        "trap 'exit 1' ERR\necho protected\n",
    ],
)
def test_exit_1_that_reports_a_crash(tmp_path: Path, text: str) -> None:
    """Not BH504: the hook has failed, and does not mean no."""
    script(tmp_path, "guard.sh", f"#!/bin/sh\n{text}")
    assert "BH504" not in codes(found(tmp_path, hook("events: PreToolUse\nrun: ./guard.sh")))


def test_exit_1_beside_a_crash(tmp_path: Path) -> None:
    """BH504 names the line that refuses, not the line that reports a missing tool."""
    text = "#!/bin/sh\ncommand -v jq || exit 1\n" + "true\n" * 80 + "echo 'blocked: rm' >&2\nexit 1\n"
    script(tmp_path, "guard.sh", text)
    findings = found(tmp_path, hook("events: PreToolUse\nrun: ./guard.sh"))
    assert [(one.code, one.hint) for one in findings] == [
        ("BH504", "write `exit 2` in ./guard.sh:84, and add `gate: true`")
    ]
