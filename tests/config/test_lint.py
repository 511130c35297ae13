"""Lint: each code has rows that raise it, at the marked place, and rows that look alike and stay clean."""

import os
import re
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook.config.declaration import (
    LAYERS,
    Conditions,
    Exec,
    FixedAnswer,
    HookDeclaration,
    Layer,
    Python,
    RunAction,
    Url,
)
from billhook.config.lint import lint
from billhook.config.shapes import read_file
from billhook.core.dialect_traits import MEANINGS
from billhook.core.events import EVENTS
from billhook.core.text import Finding, install_command

MARK = "§"
"""Marks the value that the finding is about."""


def found(folder: Path, text: str, name: str = "hooks.yaml", layer: Layer = "project") -> list[Finding]:
    """The findings of lint in one file of a project."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text.replace(MARK, ""))
    return lint(read_file(str(file), layer, str(folder)).entries)


def hook(fields: str) -> str:
    """A hooks.yaml with one hook."""
    return "hooks:\n  h:\n" + textwrap.indent(textwrap.dedent(fields).strip(), "    ") + "\n"


def handler(event: str, fields: str, group: str = "") -> str:
    """A settings file with one handler."""
    return f'{{"hooks": {{"{event}": [{{{group}"hooks": [{{"type": "command", {fields}}}]}}]}}}}'


def place(text: str) -> tuple[int, int]:
    before = text.partition(MARK)[0]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def codes(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings]


def exactly(findings: list[Finding], code: str, text: str) -> Finding:
    """The only finding, which has that code and is at the mark."""
    assert codes(findings) == [code], findings
    assert (findings[0].line, findings[0].column) == place(text), findings
    assert findings[0].hint
    return findings[0]


def fixed(text: str, hint: str) -> str:
    """The text with the edits of a hint in place of the line of the finding."""
    lines, edits = text.splitlines(), re.findall(r"`([^`]+)`", hint)
    wrong = lines[place(text)[0] - 1]
    key = edits[0].partition(":")[0]
    new = "\n".join(f"    {line}" for line in edits)
    return "\n".join(
        new if one == wrong else one for one in lines if one == wrong or one.strip().partition(":")[0] != key
    )


def match(pattern: str, events: str = "PreToolUse", dialect: str = "claude") -> str:
    return hook(f"events: {events}\nmatch: {MARK}{pattern}\ndialect: {dialect}\nrun: 'true'")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param(match("bash"), "write `match: Bash`", id="case, and the name of another dialect"),
        pytest.param(match("Bash|write"), "write `match: Bash|Write`", id="one of a list"),
        pytest.param(match("BASH"), "write `match: Bash`", id="capitals"),
        pytest.param(match("Wrtie"), "write `match: Write`", id="two letters swapped"),
        pytest.param(match("Edits"), "write `match: Edit`", id="a letter too many"),
        pytest.param(match("WebFtch"), "write `match: WebFetch`", id="a letter missing"),
        pytest.param(match("todo_write"), "write `match: TodoWrite`", id="snake case"),
        pytest.param(match("read_file"), "write `match: Read`", id="the seeds' name under claude"),
        pytest.param(match("^(bash|Write)$"), "write `match: ^(Bash|Write)$`", id="inside an expression"),
        pytest.param(match("bash.*"), "write `match: Bash.*`", id="the beginning of a name"),
        pytest.param(
            match("Bash(git push *)"), "write `match: Bash` and `if: Bash(git push *)`", id="a rule for a matcher"
        ),
        pytest.param(match("BASH", dialect="lesson"), "write `match: Bash`", id="case under lesson"),
        pytest.param(match("Bsh", dialect="claw"), "write `match: Bash`", id="a slip under claw"),
        pytest.param(match("start", "SessionStart"), "one of startup, resume, clear, compact, fork", id="no source"),
        pytest.param(match("Startup", "SessionStart"), "write `match: startup`", id="the case of a source"),
        pytest.param(match("Bash", "SessionStart"), "one of startup, resume, clear, compact, fork", id="a tool"),
        pytest.param(match("automatic", "PreCompact"), "one of manual, auto", id="no trigger"),
        pytest.param(match("idle_promt", "Notification"), "write `match: idle_prompt`", id="a kind of notification"),
        pytest.param(
            match("rate_limit, overloaded", "StopFailure"), "write `match: rate_limit|overloaded`", id="a comma list"
        ),
        pytest.param(match("MCP__memory__.*"), "write `match: mcp__memory__.*`", id="the case of mcp__"),
        pytest.param(match("Bash|Mcp__GitHub__push"), "write `match: Bash|mcp__GitHub__push`", id="mcp__ in a list"),
        pytest.param(match("MCP__a__b", dialect="spec"), "write `match: mcp__a__b`", id="the case of mcp__ under spec"),
        pytest.param(match("Bash;Edit"), "write `match: Bash|Edit`", id="a semicolon"),
        pytest.param(match("Bash Edit"), "write `match: Bash|Edit`", id="a blank"),
        pytest.param(match("bash edit|Write"), "write `match: Bash|Edit|Write`", id="a blank in a list"),
        pytest.param(match("Bash or Edit"), "write `match: Bash|Edit`", id="a word between names"),
        pytest.param(match("Bash & Edit"), "write `match: Bash|Edit`", id="an ampersand"),
        pytest.param(match("Bash+Edit"), "write `match: Bash|Edit`", id="a plus"),
        pytest.param(match("bash deploy", dialect="claw"), "write `match: bash|deploy`", id="a blank under claw"),
        pytest.param(
            match("startup resume", "SessionStart"), "write `match: startup|resume`", id="sources and a blank"
        ),
        pytest.param(match("/Bash/"), "write `match: Bash`", id="slashes"),
        pytest.param(match("/bash|edit/i"), "write `match: Bash|Edit`", id="slashes around a list"),
        pytest.param(match("/^mcp__.*__push$/"), "write `match: ^mcp__.*__push$`", id="slashes around an expression"),
        pytest.param(match("/Bash/", dialect="lesson"), "write `match: Bash`", id="slashes under lesson"),
        pytest.param(match("run_shell_command"), "write `match: Bash`", id="another agent's name"),
        pytest.param(match("shell|Write"), "write `match: Bash|Write`", id="another agent's name in a list"),
        pytest.param(match("^apply_patch$"), "write `match: ^Edit$`", id="another agent's name in an expression"),
        pytest.param(match("clear", "SessionStart", "lesson"), "one of startup, resume", id="what lesson never fires"),
        pytest.param(
            hook(f"events: PreToolUse\nif: {MARK}Bahs(rm *)\nrun: 'true'"),
            "write `if: Bash(rm *)`",
            id="the tool of a rule",
        ),
        pytest.param(
            hook(f"events: PreToolUse\nmatch: Write\nif: {MARK}Bash(ls *)\nrun: 'true'"),
            "write `match: Bash`",
            id="a matcher and a rule that exclude each other",
        ),
    ],
)
def test_a_matcher_that_can_never_match(tmp_path: Path, text: str, hint: str) -> None:
    """BH301, with the matcher that was meant; written down, it is fine."""
    assert exactly(found(tmp_path, text), "BH301", text).hint == hint
    if not hint.startswith("one of"):
        assert found(tmp_path, fixed(text, hint)) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(match("Bash"), id="a name"),
        pytest.param(match("Bash|Write|Edit"), id="a list"),
        pytest.param(match("Bash, Write"), id="a list with commas"),
        pytest.param(match("'*'"), id="everything"),
        pytest.param(match("''"), id="nothing"),
        pytest.param(match("Notebook.*"), id="the beginning of names"),
        pytest.param(match(".*"), id="any"),
        pytest.param(match("^(?!Bash).*$"), id="RE2 can't"),
        pytest.param(match("deploy"), id="a tool of one's own"),
        pytest.param(match("run_shell_command|Bash"), id="another agent's tool, and ours"),
        pytest.param(match("shell", dialect="claw"), id="a tool of one's own under claw"),
        pytest.param(match("shell_history"), id="begins like another agent's tool"),
        pytest.param(match("mcp__GitHub__Push"), id="capitals in an MCP tool"),
        pytest.param(match("MCP__memory__*", dialect="claw"), id="case of mcp__ under claw"),
        pytest.param(match("(?i)MCP__memory__.*"), id="case of mcp__ told not to count"),
        pytest.param(match("my tool"), id="a blank in a name of one's own"),
        pytest.param(match("Bash | Edit , Write"), id="blanks around names"),
        pytest.param(match("Web+Fetch"), id="a plus in an expression"),
        pytest.param(match("code reviewer", "SubagentStop"), id="a blank in an agent of one's own"),
        pytest.param(match("/src/", "FileChanged"), id="a folder"),
        pytest.param(match("resume", "SessionStart", "lesson"), id="what lesson fires"),
        pytest.param(match("clear", "SessionStart", "spec"), id="spec fires all"),
        pytest.param(match("mcp__github__create_issue"), id="an MCP tool"),
        pytest.param(match("mcp__memory__.*"), id="all tools of a server"),
        pytest.param(match(".*task.*"), id="part of a name of one's own tools"),
        pytest.param(match("(?i)bash"), id="case told not to count"),
        pytest.param(match("bash", dialect="claw"), id="claw's name"),
        pytest.param(match("BASH", dialect="claw"), id="case under claw"),
        pytest.param(match("Bash", dialect="lesson"), id="canonical under lesson"),
        pytest.param(match("write_file", dialect="lesson"), id="lesson's name"),
        pytest.param(match("Bash", dialect="spec"), id="spec"),
        pytest.param(match("mcp__*", dialect="spec"), id="a glob under spec"),
        pytest.param(match("startup|resume", "SessionStart"), id="sources"),
        pytest.param(match("startup", "[PreToolUse, SessionStart]"), id="one of two events has it"),
        pytest.param(match("brand_new_kind", "Notification"), id="a notification of tomorrow"),
        pytest.param(match("rate_limit|overloaded", "StopFailure"), id="errors"),
        pytest.param(match("my-agent", "SubagentStop"), id="an agent of one's own"),
        pytest.param(match(r"\.envrc|\.env", "FileChanged"), id="files"),
        pytest.param(match("bash", "MyEvent"), id="an event we don't know"),
        pytest.param(match("${TOOLS:-Bash}"), id="a variable"),
        pytest.param(hook("events: PreToolUse\nif: bash(rm *)\nrun: 'true'"), id="a rule knows all names"),
        pytest.param(
            hook("events: PreToolUse\nmatch: Write\nif: Edit(src/**)\nrun: 'true'"), id="Edit speaks for Write"
        ),
        pytest.param(hook("events: PreToolUse\nif: deploy(prod)\nrun: 'true'"), id="a rule for a tool of one's own"),
        pytest.param(hook("events: PreToolUse\nmatch: bash\nenabled: false\nrun: 'true'"), id="switched off"),
    ],
)
def test_a_matcher_that_can_match(tmp_path: Path, text: str) -> None:
    """What may well match is no finding."""
    assert [code for code in codes(found(tmp_path, text)) if code.startswith("BH30")] == []


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param(match("mcp__memory"), "write `match: mcp__memory__.*`", id="a server"),
        pytest.param(match("mcp__memory__"), "write `match: mcp__memory__.*`", id="a server and the underscores"),
        pytest.param(match("Bash|mcp__memory"), "write `match: ^(Bash|mcp__memory__.*)$`", id="in a list"),
        pytest.param(match("mcp__memory", dialect="spec"), "write `match: mcp__memory__*`", id="spec"),
        pytest.param(match("mcp__memory", dialect="claw"), "write `match: mcp__memory__*`", id="claw"),
    ],
)
def test_a_server_without_its_tools(tmp_path: Path, text: str, hint: str) -> None:
    """BH302."""
    assert exactly(found(tmp_path, text), "BH302", text).hint == hint
    assert found(tmp_path, fixed(text, hint)) == []


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param(match("Bash*"), "write `match: Bash.*`", id="Bash*"),
        pytest.param(match("mcp__*"), "write `match: mcp__.*`", id="mcp__*"),
        pytest.param(match("Edit|Notebook*"), "write `match: Edit|Notebook.*`", id="in a list"),
        pytest.param(match("'*.py'", "FileChanged"), r"write `match: .*\.py`", id="*.py"),
        pytest.param(
            match("Write(*.py)"), "write `match: Write` and `if: Write(*.py)`", id="a rule that is no expression"
        ),
        pytest.param(match("mcp__memory__.*", dialect="spec"), "write `match: mcp__memory__*`", id=".* under spec"),
        pytest.param(
            match("Bash|Write", dialect="spec"),
            "write one hook for each of `Bash` and `Write`",
            id="a list under spec",
        ),
        pytest.param(
            match("^(bash|write_file)$", dialect="claw"), "write `match: bash|write_file`", id="regex under claw"
        ),
        pytest.param(
            match("bash|write_file", dialect="lesson"),
            "write one hook for each of `bash` and `write_file`",
            id="a list under lesson",
        ),
        pytest.param(
            match("write_*", dialect="lesson"),
            "name one tool, as in `match: bash`",
            id="a glob under lesson",
        ),
    ],
)
def test_a_pattern_of_another_dialect(tmp_path: Path, text: str, hint: str) -> None:
    """BH303."""
    assert exactly(found(tmp_path, text), "BH303", text).hint == hint
    if hint.startswith("write `match: "):
        assert found(tmp_path, fixed(text, hint)) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(match(r"mcp__\w*__delete"), id="a class repeated"),
        pytest.param(match("mcp__(a|b)*"), id="a group repeated"),
        pytest.param(match("Notebook.*|Bash"), id="an expression"),
        pytest.param(match("bash|write_*", dialect="claw"), id="claw's wildcards"),
        pytest.param(match("'*'", dialect="lesson"), id="lesson's star"),
        pytest.param(match("[BW]*", dialect="spec"), id="a class in a glob"),
    ],
)
def test_a_pattern_of_its_own_dialect(tmp_path: Path, text: str) -> None:
    """Not BH303."""
    assert "BH303" not in codes(found(tmp_path, text))


def test_a_matcher_that_is_ignored(tmp_path: Path) -> None:
    """BH304: Stop takes no matcher."""
    text = match("Bash", "Stop")
    assert exactly(found(tmp_path, text), "BH304", text).hint == "remove `match: Bash`"


@pytest.mark.parametrize(
    "text", [match("''", "Stop"), match(".*", "Stop"), match("'*'", "Stop"), match("Bash", "[PreToolUse, Stop]")]
)
def test_a_matcher_that_is_empty_or_used(tmp_path: Path, text: str) -> None:
    """Not BH304: many files have `"matcher": ""` everywhere."""
    assert found(tmp_path, text) == []


def test_a_rule_without_tools(tmp_path: Path) -> None:
    """BH305, also where only one of the events has no tool."""
    text = hook(f"events: SessionStart\nif: {MARK}Bash(ls)\nrun: 'true'")
    assert "the hook never runs" in exactly(found(tmp_path, text), "BH305", text).message
    text = hook(f"events: [PreToolUse, Stop]\nif: {MARK}Bash(ls)\nrun: 'true'")
    assert exactly(found(tmp_path, text), "BH305", text).message.endswith("`Stop` has none: the hook never runs there")
    assert found(tmp_path, hook("events: PostToolUse\nif: Bash(ls)\nrun: 'true'")) == []


def rule(text: str) -> str:
    return hook(f"events: PreToolUse\nif: {MARK}{text}\ndeny: never")


@pytest.mark.parametrize(
    ("text", "missed"),
    [
        pytest.param("Bash(git push --force *)", "`git push x --force`, `git push -f x` and", id="push"),
        pytest.param("Bash(git push --force:*)", "`git push -f x`", id="colon"),
        pytest.param("Bash(git push *--force*)", "`git push -f`", id="anywhere, but not -f"),
        pytest.param("Bash(rm -rf *)", "`rm -fr x`, `rm -r -f x` and `rm -f -r x`", id="rm"),
        pytest.param("Bash(rm -rf /)", "`rm -fr /`", id="rm of one folder"),
        pytest.param("Bash(git reset --hard *)", "`git reset x --hard`", id="reset"),
        pytest.param("Bash(git commit --no-verify *)", "`git commit -n x`", id="commit"),
        pytest.param("Bash(chmod -R 777 *)", "`chmod -R 0777 x`", id="chmod"),
    ],
)
def test_a_rule_that_misses_spellings(tmp_path: Path, text: str, missed: str) -> None:
    """BH306 names what gets past the rule."""
    finding = exactly(found(tmp_path, rule(text)), "BH306", rule(text))
    assert missed in finding.message
    assert "matches all of them" in finding.hint


@pytest.mark.parametrize(
    "text",
    [
        "Bash(git push *)",
        "Bash(rm *)",
        "Bash(rm)",
        "Bash(git push origin main *)",
        "Bash(terraform destroy *)",
        "Bash(git push --force-with-lease *)",
        "Bash(*--force*)",
        "Edit(src/**)",
        "Bash",
    ],
)
def test_a_rule_that_misses_nothing_usual(tmp_path: Path, text: str) -> None:
    """Not BH306."""
    assert found(tmp_path, rule(text)) == []


def test_rules_that_help_each_other(tmp_path: Path) -> None:
    """Not BH306: together the hooks see every spelling; on another event they don't help."""
    text = """\
hooks:
  long: {events: PreToolUse, if: 'Bash(git push *--force*)', deny: never}
  short: {events: PreToolUse, if: 'Bash(git push *-f*)', deny: never}
"""
    assert found(tmp_path, text) == []
    apart = text.replace("short: {events: PreToolUse", "short: {events: PermissionRequest")
    assert [(one.hook, one.code) for one in found(tmp_path, apart)] == [("long", "BH306")]


# -- commands


def script(folder: Path, name: str, text: str = "#!/bin/sh\n", mode: int = 0o755) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(mode)
    return path


def run(command: str) -> str:
    return hook(f"events: PostToolUse\nrun: {MARK}{command}")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with scripts of all kinds."""
    script(tmp_path, "scripts/good.sh")
    script(tmp_path, "scripts/plain.sh", mode=0o644)
    script(tmp_path, "scripts/bare.sh", "echo hi\n")
    script(tmp_path, "scripts/good.py", "print()\n", 0o644)
    script(tmp_path, "scripts/crlf.sh", "#!/bin/sh\r\necho\r\n")
    script(tmp_path, "scripts/lost.sh", "#!/no/such/interpreter\n")
    script(tmp_path, "scripts/open.sh", mode=0o777)
    script(tmp_path, "open/inside.sh")
    (tmp_path / "open").chmod(0o777)
    script(tmp_path, "sticky/inside.sh")
    (tmp_path / "sticky").chmod(0o1777)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code", "hint"),
    [
        pytest.param("./scripts/god.sh", "BH401", "did you mean `./scripts/good.sh`?", id="a slip"),
        pytest.param("./good.sh", "BH401", "did you mean `./scripts/good.sh`?", id="the wrong folder"),
        pytest.param("./nothing/like/it", "BH401", "create it, or correct the path", id="missing"),
        pytest.param("/no/such/script", "BH401", "create it, or correct the path", id="absolute"),
        pytest.param("./scripts", "BH401", "name the script in it", id="a folder"),
        pytest.param("$CLAUDE_PROJECT_DIR/x/y", "BH401", "create it", id="the project's variable"),
        pytest.param("python3 scripts/nil.py --flag", "BH401", "create it", id="an interpreter's script"),
        pytest.param("bash -e ./nil.sh", "BH401", "create it", id="a shell's script"),
        pytest.param("timeout 5 ./nil", "BH401", "create it", id="behind a wrapper"),
        pytest.param("true && ./nil || exit 0", "BH401", "create it", id="in a list"),
        pytest.param("cd $CLAUDE_PROJECT_DIR && ./nil", "BH401", "create it", id="after cd into the project"),
        pytest.param("./scripts/plain.sh", "BH402", "run `chmod +x ", id="not executable"),
        pytest.param("no-such-program-here -x", "BH403", "install `no-such-program-here`", id="not on PATH"),
        pytest.param("cat | no-such-program-here", "BH403", "install", id="not on PATH, in a pipe"),
        pytest.param("pyhton3 -c 1", "BH403", "did you mean `python3`?", id="not on PATH, a slip"),
        pytest.param("./scripts/open.sh", "BH404", "run `chmod o-w ", id="a world-writable script"),
        pytest.param("sh ./scripts/open.sh", "BH404", "run `chmod o-w ", id="read by a shell"),
        pytest.param("./open/inside.sh", "BH404", "run `chmod o-w ", id="a world-writable folder"),
        pytest.param("./scripts/crlf.sh", "BH405", r"run `sed -i 's/\r$//' ", id="CRLF"),
        pytest.param("bash scripts/crlf.sh", "BH405", r"run `sed -i 's/\r$//' ", id="CRLF, read by a shell"),
        pytest.param("./scripts/lost.sh", "BH405", "install it", id="no interpreter"),
    ],
)
def test_a_command_that_cannot_run(project: Path, command: str, code: str, hint: str) -> None:
    """BH401 to BH405, with the edit or command that repairs it."""
    text = run(command)
    assert exactly(found(project, text), code, text).hint.startswith(hint)


@pytest.mark.parametrize(
    "command",
    [
        "./scripts/good.sh --flag",
        "scripts/good.sh",
        "./scripts/bare.sh",
        "bash scripts/plain.sh",
        "python3 scripts/good.py",
        "python3 -c 'print(1)' nil.py",
        "python3 -m json.tool",
        "perl -pe s/a.b/c/",
        "python3 -u scripts/good.py nil.py",
        "bash -lc 'ls nil.sh'",
        "'[ -f nil.sh ] && sh ./nil.sh'",
        "test -x $CLAUDE_PROJECT_DIR/nil && $CLAUDE_PROJECT_DIR/nil",
        "sticky/inside.sh",
        '"$CLAUDE_PROJECT_DIR"/scripts/good.sh',
        "${CLAUDE_PROJECT_DIR}/scripts/good.sh",
        "'${CLAUDE_PROJECT_DIR:-.}/scripts/good.sh'",
        "$SOMEWHERE/nil.sh",
        "'${SOMEWHERE:-.}/nil.sh'",
        "$(find . -name nil.sh)",
        "cd elsewhere && ./nil.sh",
        "'[ -x ./nil ] && ./nil'",
        "bash -c '[[ -x ./nil ]] && ./nil'",
        "command -v no-such-program-here >/dev/null && no-such-program-here",
        "'helper() { echo; }; helper'",
        "PATH=./node_modules/.bin:$PATH no-such-program-here",
        "'if read -r line; then echo \"$line\"; fi'",
        "'for f in a b; do test -f $f; done'",
        "exit 0",
        "cat > /dev/null",
        ". ./scripts/good.sh",
        "ls nil.sh",
        "'echo ./nil.sh'",
    ],
)
def test_a_command_that_can_run(project: Path, command: str) -> None:
    """What can be found, or what only the shell will know, is no finding."""
    assert found(project, run(command)) == []


def test_programs_without_a_shell(project: Path) -> None:
    """`exec` has no builtins, and needs a `#!` line."""
    text = hook(f"events: PostToolUse\nexec: {MARK}[./scripts/bare.sh]")
    assert "#!" in exactly(found(project, text), "BH405", text).message
    assert codes(found(project, hook("events: PostToolUse\nexec: [shopt]"))) == ["BH403"]
    assert found(project, hook("events: PostToolUse\nexec: [./scripts/good.sh, nil.sh]")) == []
    assert found(project, hook("events: PostToolUse\nexec: ['$CLAUDE_PROJECT_DIR/scripts/good.sh']")) == []
    assert codes(found(project, hook("events: PostToolUse\npython: a:b\ninterpreter: ./nil"))) == ["BH401"]


MODULES = {
    "policies.py": "import os\nfrom json import dumps as encoded\n\ndef check(ctx): ...\n"
    "class Guard:\n    def look(self): ...\n"
    "if os.name == 'nt':\n    other = check\ntry:\n    import nil as maybe\nexcept ImportError:\n    maybe = None\n"
    "def late():\n    global made\n    made = check\n",
    "package/__init__.py": "",
    "package/rules.py": "async def judge(event): ...\n",
    "loose/inner.py": "judge = print\n",
    ".billhook/own.py": "def note(event): ...\n",
    ".claude/agents.py": "def note(event): ...\n",
    "stars.py": "from policies import *\n",
    "lazy.py": "def __getattr__(name): ...\n",
    "made.py": "globals()['check'] = print\n",
    "broken.py": "def check(:\n",
    "moved/__init__.py": "__path__.append('/elsewhere')\n",
    "json.py": "",
}


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A project with Python modules of all kinds."""
    for name, text in MODULES.items():
        script(tmp_path, name, text, 0o644)
    return tmp_path


@pytest.mark.parametrize(
    ("target", "message", "hint"),
    [
        pytest.param("nomodx:fn", "there is no module `nomodx` in ", "create ", id="no module"),
        pytest.param("polcies:check", "there is no module `polcies` in ", "did you mean `policies`?", id="a slip"),
        pytest.param("package.rulse:judge", "no module `package.rulse`", "did you mean `package.rules`?", id="package"),
        pytest.param("loose.nil:judge", "there is no module `loose.nil`", "create ", id="a folder without __init__"),
        pytest.param("policies.sub:check", "`policies` is not a package", "correct the name", id="no package"),
        pytest.param("policies:missing", "`policies` has no `missing`", "define it in ", id="no function"),
        pytest.param("policies:chek", "`policies` has no `chek`", "did you mean `policies:check`?", id="nearly one"),
        pytest.param("policies:look", "`policies` has no `look`", "define it in ", id="a method"),
        pytest.param("package:judge", "`package` has no `judge`", "define it in ", id="in the package's module"),
        pytest.param("own:nothing", "`own` has no `nothing`", "define it in ", id="in .billhook"),
    ],
)
def test_a_function_that_is_missing(modules: Path, target: str, message: str, hint: str) -> None:
    """BH401, without importing anything."""
    text = hook(f"events: PostToolUse\npython: {MARK}{target}")
    finding = exactly(found(modules, text), "BH401", text)
    assert message in finding.message and finding.hint.startswith(hint)


@pytest.mark.parametrize(
    "target",
    [
        "policies:check",
        "policies:Guard.look",
        "policies:Guard.unknown",
        "policies:encoded",
        "policies:other",
        "policies:maybe",
        "policies:made",
        "package.rules:judge",
        "package:rules",
        "loose.inner:judge",
        "own:note",
        "agents:note",
        "stars:check",
        "lazy:check",
        "made:check",
        "moved.far:check",
        "json:dumps",
        "os.path:exists",
        "pytest:main",
        "hypothesis.nil:fn",
        "billhook.nil:fn",
    ],
)
def test_a_function_that_may_be_there(modules: Path, target: str) -> None:
    """What is there, installed, or only known to a running program is no finding."""
    assert found(modules, hook(f"events: PostToolUse\npython: {target}")) == []


def test_a_source_that_can_not_be_read(modules: Path) -> None:
    """BH405, but not for another interpreter: that may be a later Python."""
    text = hook("events: PostToolUse\npython: broken:check")
    assert codes(found(modules, text)) == ["BH405"]
    assert found(modules, f"{text}    interpreter: {sys.executable}\n") == []


def test_modules_of_another_interpreter(modules: Path) -> None:
    """What is installed there is not known; what lies in the project is."""
    for target, expected in (("nomodx:fn", []), ("package.nil:fn", ["BH401"]), ("policies:nil", ["BH401"])):
        text = hook(f"events: PostToolUse\npython: {target}\ninterpreter: {sys.executable}")
        assert codes(found(modules, text)) == expected


def test_modules_of_a_user(tmp_path: Path) -> None:
    """They lie beside the user's file: a project can't stand in for them."""
    script(tmp_path, "project/guard_it.py", "def check(event): ...\n", 0o644)
    script(tmp_path, "home/note_it.py", "def note(event): ...\n", 0o644)
    text = "hooks:\n  a: {events: Stop, python: 'guard_it:check'}\n  b: {events: Stop, python: 'note_it:note'}\n"
    file = tmp_path / "home" / "hooks.yaml"
    file.write_text(text)
    findings = lint(read_file(str(file), "user", str(tmp_path / "project")).entries)
    assert [(one.hook, one.code) for one in findings] == [("a", "BH401")]


def test_no_module_is_imported(modules: Path) -> None:
    """Lint reads a source, and runs none of it."""
    script(modules, "acts.py", "import os\nos.mkdir('acted')\ndef check(event): ...\n", 0o644)
    script(modules, "acting/__init__.py", "import os\nos.mkdir('acted')\n", 0o644)
    for target in ("acts:check", "acts:nil", "acting.nil:check"):
        found(modules, hook(f"events: Stop\npython: {target}"))
    assert not (modules / "acted").exists() and not os.path.exists("acted")


def test_modules_made_to_be_hard(tmp_path: Path) -> None:
    """Deep, large, no text, a pipe, a link to itself: no exception, and no waiting."""
    script(tmp_path, "deep.py", "(" * 100_000, 0o644)
    script(tmp_path, "nested.py", "x = " + "-" * 60_000 + "1\n", 0o644)
    script(tmp_path, "large.py", "x = 1\n" * 100_000, 0o644)
    script(tmp_path, "binary.py", "\0\0", 0o644)
    os.mkfifo(tmp_path / "pipe.py")
    os.symlink("loop.py", tmp_path / "loop.py")
    began = time.process_time()
    for name in ("deep", "nested", "large", "binary"):
        assert set(codes(found(tmp_path, hook(f"events: Stop\npython: {name}:check")))) <= {"BH405"}
    for name in ("pipe", "loop"):
        assert codes(found(tmp_path, hook(f"events: Stop\npython: {name}:check"))) == ["BH401"]
    assert time.process_time() - began < 30


def test_a_program_beside_the_file(project: Path) -> None:
    """The project's folder is not searched."""
    script(project, "guard-it")
    assert found(project, run("guard-it"))[0].hint == "write `./guard-it`: the project's folder is not searched"


def test_nothing_is_run(project: Path) -> None:
    """Lint only looks."""
    script(project, "scripts/acts.sh", "#!/bin/sh\ntouch acted\nexit 2\n")
    found(project, hook("events: PreToolUse\nrun: ./scripts/acts.sh; touch acted; $(touch acted)"))
    assert not (project / "acted").exists()


def test_a_users_hook_that_runs_a_projects_script(project: Path) -> None:
    """BH511: for the user's own file; a project's file may."""
    for command in ("./scripts/good.sh", "python3 scripts/good.py", "$CLAUDE_PROJECT_DIR/scripts/good.sh"):
        text = run(command)
        assert "of the current project" in exactly(found(project, text, layer="user"), "BH511", text).message
        assert found(project, text) == []
    assert found(project, run("/bin/ls"), layer="user") == []
    assert found(project, run("jq . || true"), layer="user") == found(project, run("jq . || true"))


# -- time, gates, exit codes


@pytest.mark.parametrize(
    ("seconds", "meant"), [(5000, "5"), (1500, "1.5"), (30000, "30"), (60000, "60"), (1000, "1"), (12345, "12.345")]
)
def test_milliseconds(tmp_path: Path, seconds: int, meant: str) -> None:
    """BH501."""
    text = hook(f"events: PostToolUse\nrun: 'true'\ntimeout: {MARK}{seconds}")
    assert exactly(found(tmp_path, text), "BH501", text).hint == f"write `timeout: {meant}`"


@pytest.mark.parametrize("seconds", [0.5, 1, 60, 600, 999, 1800, 3600, 5400, 7200, 86400])
def test_seconds(tmp_path: Path, seconds: float) -> None:
    """Not BH501: minutes and hours that may be intended."""
    assert found(tmp_path, hook(f"events: PostToolUse\nrun: 'true'\ntimeout: {seconds}")) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(
            hook(f"events: PreToolUse\nrun: 'true'\ngate: true\nbackground: {MARK}true"), "BH502", id="on PreToolUse"
        ),
        pytest.param(
            hook(f"events: UserPromptSubmit\nrun: 'true'\ngate: true\nasync: {MARK}true"), "BH502", id="on a prompt"
        ),
        pytest.param(
            hook(f"events: Stop\nrun: 'true'\nasyncRewake: {MARK}true"), "BH510", id="asyncRewake wakes no agent"
        ),
        pytest.param(
            hook(f"events: PostToolUse\nrun: 'true'\ngate: true\nbackground: {MARK}true"), "BH502", id="on a gate"
        ),
        pytest.param(hook(f"events: PostToolUse\nrun: 'true'\ngate: {MARK}true"), "BH503", id="gate on PostToolUse"),
        pytest.param(
            hook(f"events: [SessionEnd, Notification]\nrun: 'true'\non_failure: {MARK}ask"),
            "BH503",
            id="two events",
        ),
        pytest.param(hook(f"events: PostToolUse\ndeny: {MARK}too late"), "BH503", id="deny on PostToolUse"),
        pytest.param(hook(f"events: PostToolUse\ngate: true\ndeny: {MARK}too late"), "BH503", id="deny and gate"),
        pytest.param(hook(f"events: SessionStart\nask: {MARK}may it begin?"), "BH503", id="ask on SessionStart"),
        pytest.param(hook(f"events: [Notification, SessionEnd]\ndeny: {MARK}never"), "BH503", id="deny on two events"),
        pytest.param(hook(f"events: Stop\nrun: 'true'\ngate: {MARK}true"), "BH510", id="gate on Stop"),
        pytest.param(
            hook(f"events: [SubagentStop, PostToolUse]\nrun: 'true'\non_failure: {MARK}deny"),
            "BH510",
            id="SubagentStop",
        ),
    ],
)
def test_answers_that_change_nothing(tmp_path: Path, text: str, code: str) -> None:
    """BH502, BH503, BH510."""
    exactly(found(tmp_path, text), code, text)


@pytest.mark.parametrize(
    "fields",
    [
        "events: PostToolUse\nrun: 'true'\nbackground: true",
        "events: Stop\nrun: 'true'\nbackground: true",
        "events: PreToolUse\nrun: 'true'\nbackground: false",
        *(
            f"events: {event}\nrun: 'true'\nasync: true"
            for event in (
                "PreToolUse",
                "UserPromptSubmit",
                "PermissionRequest",
                "PreCompact",
                "SessionStart",
                "SessionEnd",
            )
        ),
        "events: PreToolUse\nrun: 'true'\ngate: true",
        "events: [PreToolUse, PostToolUse]\nrun: 'true'\ngate: true",
        "events: PermissionRequest\nrun: 'true'\non_failure: ask",
        "events: PostToolBatch\nrun: 'true'\ngate: true",
        "events: PostToolUse\nrun: 'true'\ngate: false",
        "events: PostToolUse\ninject: remember the tests",
        "events: [PreToolUse, PostToolUse]\ndeny: never",
        "events: Stop\ndeny: the tests have not run",
        "events: UserPromptSubmit\nask: really?",
        "events: Whatever\ndeny: never",
        "events: Whatever\nrun: 'true'\ngate: true",
    ],
)
def test_answers_that_count(tmp_path: Path, fields: str) -> None:
    """Not BH502, BH503 or BH510."""
    assert found(tmp_path, hook(fields)) == []


INLINE = "'grep -q \"rm -rf\" && {{ echo no >&2; exit {code}; }}; true'"


def guard(code: int, dialect: str = "claude", event: str = "PreToolUse") -> str:
    return hook(f"events: {event}\ndialect: {dialect}\nrun: {MARK}{INLINE.format(code=code)}")


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        pytest.param(
            guard(1), "BH504", "write `exit 2` in place of `exit 1`, and add `gate: true`", id="exit 1 under claude"
        ),
        pytest.param(
            guard(1, "claw"),
            "BH504",
            "write `exit 2` in place of `exit 1`, and add `gate: true`",
            id="exit 1 under claw",
        ),
        pytest.param(
            guard(1, event="UserPromptSubmit"),
            "BH504",
            "write `exit 2` in place of `exit 1`, and add `gate: true`",
            id="on a prompt",
        ),
        pytest.param(
            hook(f"events: PreToolUse\ndialect: lesson\nrun: {MARK}echo blocked >&2; exit 2"),
            "BH505",
            "write `exit 1` in place of `exit 2`",
            id="exit 2 under lesson",
        ),
        pytest.param(guard(2), "BH506", "add `gate: true`", id="exit 2 under claude"),
        pytest.param(guard(2, "claw-text"), "BH506", "add `gate: true`", id="exit 2 under claw-text"),
        pytest.param(guard(1, "lesson"), "BH506", "add `gate: true`", id="exit 1 under lesson"),
        pytest.param(
            hook(f'events: PreToolUse\nrun: {MARK}echo \'{{"decision":"block","reason":"x"}}\''),
            "BH506",
            "add `gate: true`",
            id="a block in JSON",
        ),
        pytest.param(
            hook(f'events: PreToolUse\nrun: {MARK}|\n  echo "{{\\"permissionDecision\\": \\"deny\\"}}"'),
            "BH506",
            "add `gate: true`",
            id="a deny in JSON, quoted for a shell",
        ),
        pytest.param(
            hook(f"events: PreToolUse\npython: {MARK}tracing:note\ntitle: secret guard"),
            "BH506",
            "add `gate: true`",
            id="a function that calls itself a guard",
        ),
        pytest.param(
            hook(f"events: PreToolUse\ndialect: lesson\ngate: true\nrun: {MARK}echo blocked >&2; exit 2"),
            "BH505",
            "write `exit 1` in place of `exit 2`",
            id="exit 2 under lesson in a gate",
        ),
        pytest.param(
            hook(f"events: PreToolUse\ndialect: lesson\non_failure: ask\nrun: {MARK}grep -q x && exit 2; true"),
            "BH505",
            "write `exit 1` in place of `exit 2`",
            id="exit 2 under lesson in a gate without a message",
        ),
        pytest.param(
            hook(f"events: PreToolUse\non_failure: ask\nrun: {MARK}echo blocked >&2; exit 1"),
            "BH504",
            "write `exit 2` in place of `exit 1`",
            id="exit 1 of one that asks when it fails",
        ),
        pytest.param(
            hook(f"events: PreToolUse\nurl: {MARK}https://example.com/x\ntitle: policy"),
            "BH506",
            "add `gate: true`",
            id="an endpoint",
        ),
    ],
)
def test_refusals(tmp_path: Path, text: str, code: str, hint: str) -> None:
    """BH504 to BH506 in the hook's own line."""
    script(tmp_path, "tracing.py", "def note(event): ...\n", 0o644)
    assert exactly(found(tmp_path, text), code, text).hint == hint


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param("events: PreToolUse\ngate: true\nrun: echo no; exit 1", id="a gate refuses by any code"),
        pytest.param("events: PreToolUse\ngate: true\nrun: echo no; exit 2", id="a gate"),
        pytest.param("events: PreToolUse\non_failure: ask\nrun: exit 2", id="asks"),
        pytest.param("events: PreToolUse\non_failure: ask\nrun: exit 1", id="asks by failing"),
        pytest.param("events: PreToolUse\non_failure: deny\nrun: echo blocked; exit 1", id="refuses by failing"),
        pytest.param("events: PreToolUse\ndialect: lesson\ngate: true\nrun: echo no; exit 1", id="lesson's code"),
        pytest.param(
            "events: PreToolUse\ndialect: lesson\ngate: true\nrun: test -f x || exit 1; echo hint >&2; exit 2",
            id="lesson's codes",
        ),
        pytest.param("events: PostToolUse\nrun: exit 1", id="nothing to refuse"),
        pytest.param("events: PostToolUse\nrun: exit 2", id="too late to refuse"),
        pytest.param("events: Stop\nrun: exit 2", id="a failure never keeps an agent going"),
        pytest.param("events: PreToolUse\nrun: cd src || exit 1", id="a folder that is not there"),
        pytest.param("events: PreToolUse\nrun: command -v ls >/dev/null || exit 1; ls", id="a tool that is missing"),
        pytest.param("events: PreToolUse\nrun: exit $?", id="a computed code"),
        pytest.param("events: PreToolUse\nrun: exit 0", id="no objection"),
        pytest.param("events: PreToolUse\nrun: echo exit 10", id="another number"),
        pytest.param("events: PreToolUse\ndeny: never", id="a literal answer can't fail"),
        pytest.param("events: PreToolUse\npython: tracing:note", id="a function that is no guard"),
        pytest.param("events: PostToolUse\npython: tracing:guard", id="a guard after the tool"),
        pytest.param("events: PreToolUse\nurl: https://example.com/x\ntitle: investigate", id="gate inside a word"),
        pytest.param("events: PreToolUse\ndialect: lesson\nrun: echo remember the tests >&2; exit 2", id="injects"),
    ],
)
def test_no_refusals(tmp_path: Path, fields: str) -> None:
    """Not BH504 to BH506."""
    script(tmp_path, "tracing.py", "def note(event): ...\nguard = note\n", 0o644)
    assert found(tmp_path, hook(fields)) == []


@pytest.mark.parametrize(
    ("name", "text", "code", "hint"),
    [
        pytest.param("g.sh", "echo\nif x; then\n  echo blocked >&2\n  exit 1\nfi\n", "BH504", ":4", id="shell"),
        pytest.param("g.py", "import sys\nprint('denied')\nsys.exit(1)\n", "BH504", ":3", id="python"),
        pytest.param("g.py", "import sys\nsys.exit('not allowed')\n", "BH504", ":2", id="python, exit with a string"),
        pytest.param("g.js", "console.error('forbidden')\nprocess.exit(1)\n", "BH504", ":2", id="node"),
        pytest.param("g.sh", "# exit 1 is a failure\necho blocked\nexit 2\n", "BH506", "gate: true", id="comment"),
        pytest.param("g.py", "import json\nprint(json.dumps({'decision': 'block'}))\n", "BH506", "gate", id="json"),
        pytest.param("g.js", "process.exitCode = 2\n", "BH506", "gate: true", id="node, exit code set"),
        pytest.param("g.sh", "command -v jq || exit 1\necho fine\n", "", "", id="a missing tool"),
        pytest.param("g.py", "import sys\n# refuse?\nsys.exit(main())\n", "", "", id="a computed code"),
        pytest.param("g.sh", 'echo blocked\nexit "$code"\n', "", "", id="a variable"),
        pytest.param("g.py", 'print(\'{"permissionDecision": "allow"}\')\n', "", "", id="only ever allows"),
        pytest.param("g.sh", "\0\0exit 1 blocked", "", "", id="a program"),
        pytest.param("g.js", "print({decision: 'block'})\n", "BH506", "gate: true", id="node, an answer"),
    ],
)
def test_refusals_in_scripts(tmp_path: Path, name: str, text: str, code: str, hint: str) -> None:
    """BH504 and BH506 by the content of a script; the hint names the line."""
    script(tmp_path, name, f"#!/bin/sh\n{text}" if name.endswith("sh") and "\0" not in text else text)
    interpreter = {"sh": "sh", "py": "python3", "js": "/usr/bin/env"}[name.partition(".")[2]]
    config = hook(f"events: PreToolUse\nrun: {interpreter} ./{name}")
    findings = found(tmp_path, config)
    if name.endswith("js"):
        findings = found(tmp_path, config.replace("/usr/bin/env ", ""))
    assert [one for one in codes(findings) if one in ("BH504", "BH505", "BH506")] == ([code] if code else [])
    if code == "BH504":
        line = int(hint[1:]) + (1 if name.endswith("sh") else 0)
        assert [one.hint for one in findings if one.code == code] == [
            f"write `exit 2` in ./{name}:{line}, and add `gate: true`"
        ]


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        pytest.param("g.sh", "#!/bin/sh\ngrep -q rm && { echo blocked >&2; exit 2; }\n", "./g.sh", id="shell"),
        pytest.param(
            "g.py", "import sys\nprint('blocked', file=sys.stderr)\nsys.exit(2)\n", "python3 g.py", id="python"
        ),
    ],
)
def test_a_gate_that_refuses_with_the_wrong_code(tmp_path: Path, name: str, text: str, command: str) -> None:
    """BH505 in a lesson's file: there exit 2 is no failure, so `onFailure` does not help."""
    script(tmp_path, name, text)
    config = f'{{"hooks": {{"PreToolUse": [{{"command": {MARK}"{command}", "onFailure": "block"}}]}}}}'
    finding = exactly(found(tmp_path, config, ".hooks.json"), "BH505", config)
    assert finding.hint.startswith("write `exit 1` in ") and "`gate` does not change that" in finding.message


def test_the_hint_of_a_guard_follows_the_shape(tmp_path: Path) -> None:
    """BH506 in a settings file, and for a plain text there."""
    nested = handler("PreToolUse", f'"command": {MARK}"exit 2"')
    assert exactly(found(tmp_path, nested, ".claude/settings.json"), "BH506", nested).hint == (
        'add `"onFailure": "block"`'
    )
    plain = f'{{"hooks": {{"PreToolUse": [{MARK}"exit 2"]}}}}'
    assert exactly(found(tmp_path, plain, ".claude/settings.json"), "BH506", plain).hint == (
        'replace the string with `{"command": "...", "dialect": "claw", "onFailure": "block"}`'
    )
    better = plain.replace('"exit 2"', '{"command": "exit 2", "dialect": "claw", "onFailure": "block"}')
    assert found(tmp_path, better, ".claude/settings.json") == []


# -- files and addresses


def test_two_dialects_in_one_file(tmp_path: Path) -> None:
    """BH507, once for each further dialect; hooks that have no exit code don't count."""
    text = f'{{"hooks": {{"PostToolUse": [{{"hooks": [{{"type": "command", "command": "ls"}}]}}, {MARK}"ls", "ls"]}}}}'
    exactly(found(tmp_path, text, ".claude/settings.json"), "BH507", text)
    text = f"hooks:\n  a: {{events: Stop, run: ls}}\n  b: {{events: Stop, run: ls, dialect: {MARK}lesson}}\n"
    assert "line 2" in exactly(found(tmp_path, text), "BH507", text).hint
    text = "hooks:\n  a: {events: Stop, run: ls}\n  b: {events: PreToolUse, deny: x, dialect: lesson}\n"
    assert found(tmp_path, text) == []


@pytest.mark.parametrize(
    ("url", "found_codes"),
    [
        ("http://example.com/hook", ["BH508"]),
        ("http://10.0.0.7:8080/x", ["BH508"]),
        ("https://me:hunter2@example.com/", ["BH509"]),
        ("https://example.com/?api_key=hunter2", ["BH509"]),
        ("http://me:hunter2@example.com/?token=hunter2", ["BH508", "BH509"]),
        ("https://example.com/hook?page=2", []),
        ("http://localhost:9/x", []),
        ("http://127.0.0.1/x", []),
        ("http://[::1]:80/x", []),
        ("https://example.com/?token=$TOKEN", []),
    ],
)
def test_addresses(tmp_path: Path, url: str, found_codes: list[str]) -> None:
    """BH508 and BH509, without the secret."""
    text = hook(f'events: PostToolUse\nurl: {MARK}"{url}"')
    findings = found(tmp_path, text)
    assert codes(findings) == found_codes
    assert all((one.line, one.column) == place(text) for one in findings)
    assert "hunter2" not in repr(findings)


def test_an_http_hook_without_httpx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BH403 with the command that installs it; a note where the agent itself sends the request."""
    monkeypatch.setitem(sys.modules, "httpx", None)
    text = hook(f'events: PreToolUse\nurl: {MARK}"https://example.com/"')
    assert exactly(found(tmp_path, text), "BH403", text).hint == install_command("http")
    text = f'{{"hooks": {{"PreToolUse": [{{"hooks": [{{"type": "http", "url": {MARK}"https://example.com/"}}]}}]}}}}'
    assert exactly(found(tmp_path, text, ".claude/settings.json"), "BH403", text).note


# -- all of it


def test_the_matcher_of_a_group_is_reported_once(tmp_path: Path) -> None:
    """Two handlers, one matcher, one finding."""
    text = (
        f'{{"hooks": {{"PreToolUse": [{{"matcher": {MARK}"bash", "hooks": ['
        '{"type": "command", "command": "true"}, {"type": "command", "command": "ls"}]}]}}'
    )
    assert exactly(found(tmp_path, text, ".claude/settings.json"), "BH301", text).hint == 'write `"matcher": "Bash"`'


def test_findings_are_sorted_and_carry_the_name(tmp_path: Path) -> None:
    """By file, line and column."""
    text = "hooks:\n  b: {events: PreToolUse, match: bash, run: ./nil}\n  a: {events: Stop, match: x, run: ls}\n"
    findings = found(tmp_path, text)
    assert [(one.hook, one.code) for one in findings] == [("b", "BH301"), ("b", "BH401"), ("a", "BH304")]


def test_lint_takes_what_it_cannot_read(tmp_path: Path) -> None:
    """A script without permission, a link to itself, an endless device: no exception, and no waiting."""
    script(tmp_path, "secret.sh", mode=0o000)
    os.symlink("loop.sh", tmp_path / "loop.sh")
    os.mkfifo(tmp_path / "pipe.sh")
    for name in ("./secret.sh", "sh ./loop.sh", "sh ./pipe.sh", "sh /dev/zero", "'./\\udc80'", "./" + "x" * 5000):
        found(tmp_path, hook(f"events: PreToolUse\nrun: {name}"))


TEXT = st.text(max_size=40) | st.sampled_from(
    [
        "Bash",
        "bash|",
        "mcp__x",
        "(*",
        "./a b",
        "exit 1 # blocked",
        "$(",
        "http://[",
        "a\0b",
        "~root/x",
        "[",
        "x" * 3000,
    ]
)
ACTIONS = st.one_of(
    st.builds(RunAction, TEXT),
    st.builds(Exec, st.lists(TEXT, min_size=1, max_size=3).map(tuple)),
    st.builds(Python, TEXT, TEXT),
    st.builds(Url, TEXT | TEXT.map(lambda text: f"http://{text}")),
    st.builds(FixedAnswer, st.just("deny"), TEXT),
)


@settings(max_examples=300, deadline=None)
@given(
    data=st.fixed_dictionaries(
        {
            "action": ACTIONS,
            "events": st.lists(st.sampled_from([*EVENTS, "Other"]), max_size=2).map(tuple),
            "match": st.none() | TEXT,
            "conditions": (TEXT | TEXT.map(lambda text: f"Bash({text})")).map(lambda rule: Conditions(rules=(rule,))),
            "timeout": st.none() | st.floats(0.1, 1e8),
            "on_failure": st.sampled_from(["allow", "deny", "ask"]),
            "background": st.booleans(),
            "dialect": st.sampled_from([*MEANINGS]),
            "shape": st.sampled_from(["strings", "flat", "nested", "hooks.json", "yaml"]),
            "layer": st.sampled_from(LAYERS),
        }
    )
)
def test_any_values_of_a_hook(data: dict[str, Any]) -> None:
    """No exception, and every finding has its place and a hint."""
    one = HookDeclaration(name="h", file="/nowhere/hooks.yaml", line=3, column=5, folder="/nowhere", **data)
    for finding in lint([one, one]):
        assert finding.hint and finding.message and (finding.line, finding.column) == (3, 5)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("exit" + " " * 250_000, id="blanks after exit"),
        pytest.param("cd " * 80_000, id="cd cd cd"),
        pytest.param("\n" * 250_000, id="empty lines"),
        pytest.param("${CLAUDE_PROJECT_DIR:-" * 12_000, id="open variables"),
        pytest.param("./x;" * 60_000, id="many commands"),
        pytest.param("exit 1 || " * 25_000, id="many exits"),
        pytest.param("permissionDecision " * 13_000, id="many decisions"),
        pytest.param("[" * 250_000, id="brackets"),
        pytest.param("f (" * 80_000, id="functions"),
    ],
)
def test_texts_made_to_be_slow(tmp_path: Path, text: str) -> None:
    """As a command, as a script, as a matcher and as a rule: the time is linear."""
    script(tmp_path, "long.sh", f"#!/bin/sh\n{text}")
    place: dict[str, Any] = {
        "name": "h",
        "file": "/nowhere/hooks.yaml",
        "line": 1,
        "folder": str(tmp_path),
        "events": ("PreToolUse",),
    }
    hooks = [
        HookDeclaration(action=RunAction(text), **place),
        HookDeclaration(
            action=RunAction("./long.sh"), match=text, conditions=Conditions(rules=(f"Bash({text})",)), **place
        ),
        HookDeclaration(action=Url(f"http://x/?{text}"), **place),
    ]
    began = time.process_time()
    lint([*hooks, HookDeclaration(action=RunAction(text[:32_000]), **place)])
    assert time.process_time() - began < 30


def test_many_functions_of_one_module(tmp_path: Path) -> None:
    """Thousands of hooks that name a large module: it is looked at once."""
    script(tmp_path, "policies.py", "def check(event): ...\n" * 11_000, 0o644)
    place: dict[str, Any] = {"file": str(tmp_path / "hooks.yaml"), "folder": str(tmp_path), "layer": "project"}
    hooks = [HookDeclaration(name="h", action=Python(f"policies:f{i}"), line=i, **place) for i in range(3000)]
    began = time.process_time()
    assert len(lint(hooks)) == 3000
    assert time.process_time() - began < 30


@pytest.mark.parametrize("sign", [" ", "; ", " or ", "+", "/"])
def test_matchers_made_to_be_slow(sign: str) -> None:
    """As long as a matcher may be, many times."""
    hooks = [
        HookDeclaration(
            name="h",
            action=RunAction("true"),
            events=("PreToolUse",),
            match=f"Bash{sign * (4000 // len(sign))}Edit {i}",
        )
        for i in range(60)
    ]
    began = time.process_time()
    lint(hooks)
    assert time.process_time() - began < 30


def test_many_rules(tmp_path: Path) -> None:
    """Thousands of rules that are about the same deed."""
    hooks = [
        HookDeclaration(
            name="h",
            action=FixedAnswer("deny", "x"),
            events=("PreToolUse",),
            conditions=Conditions(rules=(f"Bash(rm -rf {i} *)",)),
        )
        for i in range(2000)
    ]
    began = time.process_time()
    lint(hooks)
    assert time.process_time() - began < 30
