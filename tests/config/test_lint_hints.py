"""The hint of every finding is applied as it is written; afterwards there is no finding left.

`EDITS` has hints that propose an edit. `ADVICE` has hints that propose none, because only the author knows the right
value; for those codes the fixed example of docs/codes.md is the edit, and tests/cli/test_rule.py applies it.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from billhook.cli.check import checked_hooks
from billhook.cli.main import GROUPS
from billhook.config.lint import sections
from billhook.core.text import Finding
from cli.test_rule import BLOCK, put

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="hints are commands of a POSIX shell")

_PRE: dict[str, Any] = {"events": "PreToolUse"}
_POST: dict[str, Any] = {"events": "PostToolUse", "run": "true"}
EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "misspelt event": ("BH201", {"events": "PreToolUsed", "run": "true"}),
    "misspelt key": ("BH202", {**_POST, "timout": 20}),
    "misspelt test": ("BH218", {**_PRE, "if": "Bash(pip *)", "when": {"file_exist": "uv.lock"}, "deny": "use uv"}),
    "number as a string": ("BH203", {**_POST, "match": 5}),
    "string as a list": ("BH203", {"events": "PostToolUse", "exec": "echo a b"}),
    "misspelt dialect": ("BH205", {**_POST, "dialect": "clade"}),
    "misspelt choice": ("BH206", {**_POST, "shell": "bahs"}),
    "misspelt period": ("BH206", {**_POST, "once": "sesion"}),
    "misspelt hook in after": ("BH212", {**_POST, "after": "othr"}),
    "misspelt hook in results": ("BH212", {**_PRE, "notify": "${results.othr.data.x}"}),
    "result of a later hook": ("BH212", {**_PRE, "notify": "${results.last.data.x}"}),
    "unclosed variable": ("BH214", {**_PRE, "ask": "push to ${branch now?"}),
    "misspelt effect": ("BH217", {**_PRE, "effect": "discrad", "deny": "commit first"}),
    "misspelt tool": ("BH301", {**_PRE, "match": "Wirte|Edit", "deny": "no"}),
    "misspelt tool of a rule": ("BH301", {**_PRE, "if": ["Bahs(rm *)", "Bash(mv *)"], "deny": "no"}),
    "rule as a matcher": ("BH301", {**_PRE, "match": "Bash(git push *)", "deny": "no"}),
    "event as a matcher": ("BH301", {**_PRE, "match": "SessionStart", "run": "true"}),
    "matcher and rule of different tools": ("BH301", {**_PRE, "match": "Write", "if": "Bash(ls *)", "deny": "no"}),
    "misspelt agent": ("BH301", {**_PRE, "match": "Bash", "when": {"agent": "claud"}, "deny": "no"}),
    "misspelt mode": ("BH301", {**_PRE, "match": "Bash", "when": {"permission_mode": "plann"}, "deny": "no"}),
    "server without tools": ("BH302", {**_POST, "match": "mcp__memory"}),
    "glob": ("BH303", {**_POST, "match": "Notebook*"}),
    "ignored matcher": ("BH304", {"events": "Stop", "match": "Bash", "run": "true"}),
    "rule at a prompt": ("BH305", {"events": "UserPromptSubmit", "if": "Bash(rm *)", "deny": "no"}),
    "rule at several events": ("BH305", {"events": ["PreToolUse", "Stop"], "if": "Bash(rm *)", "deny": "no"}),
    "effect at Stop": ("BH305", {"events": "Stop", "effect": "discard", "run": "true"}),
    "prompt at Stop": ("BH305", {"events": "Stop", "when": {"prompt": "deploy"}, "run": "true"}),
    "missed spellings": ("BH306", {**_PRE, "if": "Bash(git push --force *)", "ask": "push?"}),
    "missed spellings in a list": ("BH306", {**_PRE, "if": ["Bash(rm -rf *)", "Bash(npm publish *)"], "deny": "no"}),
    "condition as a matcher": ("BH308", {**_POST, "match": 'tool == "Bash"'}),
    "empty alternative": ("BH309", {**_POST, "match": "Bash|mcp__.*|"}),
    "not executable": ("BH402", {"events": "PostToolUse", "run": "./plain.sh"}),
    "not on PATH": ("BH403", {"events": "PostToolUse", "run": "pyhton3 -c 1"}),
    "world-writable": ("BH404", {"events": "PostToolUse", "run": "./open.sh"}),
    "Windows line ends": ("BH405", {"events": "PostToolUse", "run": "./crlf.sh"}),
    "variable of an event": ("BH406", {"events": "PostToolUse", "run": "wc -l $FILE_PATH"}),
    "bash": ("BH407", {"events": "PostToolUse", "run": "if [[ -f x ]]; then true; fi"}),
    "milliseconds": ("BH501", {**_POST, "timeout": 5000}),
    "gate in the background": ("BH502", {**_PRE, "run": "true", "gate": True, "background": True}),
    "gate after the tool": ("BH503", {**_POST, "gate": True}),
    "deny after the tool": ("BH503", {"events": "PostToolUse", "deny": "no"}),
    "exit 1": ("BH504", {**_PRE, "run": "grep -q rm && { echo blocked >&2; exit 1; }; true"}),
    "exit 2 under lesson": ("BH505", {**_PRE, "dialect": "lesson", "gate": True, "run": "echo blocked >&2; exit 2"}),
    "guard that fails open": ("BH506", {**_PRE, "run": "grep -q 'rm -rf' && exit 2; true"}),
    "plain http": ("BH508", {"events": "PostToolUse", "url": "http://hooks.example.com/event?x=1"}),
    "gate on Stop": ("BH510", {"events": "Stop", "run": "true", "gate": True}),
    "asyncRewake": ("BH510", {"events": "Stop", "run": "true", "asyncRewake": True}),
    "keep_going": ("BH510", {**_PRE, "keep_going": "run the tests"}),
    "keep_going at two events": ("BH510", {"events": ["Stop", "PreToolUse"], "keep_going": "run the tests"}),
    "stop": ("BH510", {"events": "SessionEnd", "stop": "enough"}),
    "rewrite": ("BH510", {"events": "PostToolUse", "match": "Bash", "rewrite": {"command": {"pip": "uv pip"}}}),
    "mask": ("BH510", {**_PRE, "mask": "secrets"}),
    "options": ("BH510", {**_PRE, "match": "Bash", "options": {"a": 1}, "deny": "no"}),
    "headers": ("BH510", {**_POST, "headers": {"A": "b"}}),
    "deny at every event": ("BH513", {"branch": "main", "deny": "no"}),
}  # fmt: skip
ADVICE = {
    "BH101": "fix or remove it",
    "BH102": "save the file as UTF-8",
    "BH103": "move",
    "BH104": "add a `,`",
    "BH105": "keep one of them",
    "BH106": "write the value out",
    "BH107": "remove the tag",
    "BH108": "keep one document",
    "BH204": "keep one of them",
    "BH207": "use a command",
    "BH208": "write one entry for each rule",
    "BH209": "fix the expression",
    "BH210": "rename it",
    "BH211": "rename one of them",
    "BH213": "remove one of these `after`",
    "BH215": "remove it",
    "BH216": "wrap it",
    "BH219": "put the command into a script",
    "BH307": "remove it",
    "BH401": "create it, or correct the path",
    "BH507": "move it to another file",
    "BH509": "send it as a header",
    "BH511": "move the script out of the project",
    "BH512": "billhook add",
    "BH601": "billhook explain",
    "BH602": "make it faster",
}
"""Codes whose hint proposes no edit that a program could make, with the beginning or the command of the hint."""
OTHERS = {"other": {"events": ["PreToolUse", "PostToolUse"], "run": "true", "priority": 1}}
LAST = {"last": {"events": ["PreToolUse", "PostToolUse"], "run": "true"}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, folder = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("HOME", "BILLHOOK_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(home))
    for name, text, mode in (("plain", "\n", 0o644), ("open", "\n", 0o777), ("crlf", "\r\n", 0o755)):
        (folder / f"{name}.sh").write_bytes(f"#!/bin/sh{text}exit 0{text}".encode())
        (folder / f"{name}.sh").chmod(mode)
    return folder


def findings(folder: Path, entry: dict[str, Any]) -> list[Finding]:
    depends = "after" in entry or "results." in json.dumps(entry)
    hooks = {**OTHERS, "h": entry, **LAST} if depends else {"h": entry}
    text = yaml.safe_dump({"hooks": hooks}, sort_keys=False)
    (folder / "hooks.yaml").write_text(text)
    return list(checked_hooks((), with_log=False).findings)


def applied(entry: dict[str, Any], found: Finding) -> dict[str, Any]:
    """The entry after the first thing that the hint proposes."""
    hint = found.hint.partition(", or ")[0]
    quoted = re.findall(r"`([^`]+)`", hint)
    if hint.startswith("run `"):
        subprocess.run(["/bin/sh", "-ec", quoted[0]], check=True)
        return entry
    if hint.startswith("did you mean"):
        message = found.message.removeprefix(f"hook `{found.hook}`")
        wrong = re.findall(r"`(?:when\.\w+: )?([^`]+)`", message)[-1 if "can't be" in message else 0]
        return replaced(entry, wrong, quoted[0])
    if " in place of " in hint:
        return edited(replaced(entry, quoted[1], quoted[0]), hint.partition(", and ")[2])
    if hint.startswith("change "):
        return replaced(entry, *quoted)
    if hint.startswith("write `${"):
        wrong = re.findall(r"`([^`]+)`", found.message)[0]
        return replaced(entry, wrong, quoted[0])
    return edited(entry, hint)


def replaced(entry: dict[str, Any], wrong: str, right: str) -> dict[str, Any]:
    text = json.dumps(entry)
    assert text.count(wrong) == 1, (text, wrong)
    result: dict[str, Any] = json.loads(text.replace(wrong, right))
    return result


def edited(entry: dict[str, Any], hint: str) -> dict[str, Any]:
    """Keys that a hint adds, sets, removes or replaces."""
    entry = dict(entry)
    for verb, text in re.findall(r"(write|add|quotes:|remove|replace|with|and) `([^`]+)`", hint):
        line = yaml.safe_load(text)
        key = next(iter(line)) if isinstance(line, dict) else line
        if verb in ("remove", "replace"):
            del entry[key]
        else:
            entry |= line
    return entry


@pytest.mark.parametrize("name", EDITS)
def test_a_proposed_edit_works(project: Path, name: str) -> None:
    """The example has this finding only. With the edit of its hint it has none."""
    code, entry = EDITS[name]
    (found,) = findings(project, entry)
    assert found.code == code
    assert findings(project, applied(entry, found)) == []


def test_every_code_is_in_a_table() -> None:
    """A new code needs an example whose hint is applied, or a reason why it has no edit."""
    assert {code for code, _ in EDITS.values()} | set(ADVICE) == set(sections())
    assert not {code for code, _ in EDITS.values()} & set(ADVICE)


@pytest.mark.parametrize("code", ADVICE)
def test_advice(project: Path, code: str) -> None:
    """The bad example of a code without an edit has the hint of the table."""
    for file in project.iterdir():
        file.unlink()
    bad = re.split(r"^Fixed", sections()[code].text, flags=re.MULTILINE)[0]
    for _, name, kind, text in BLOCK.findall(bad):
        put(kind, name, text, project, project.parent / "home")

    found = checked_hooks(()).findings
    assert any(ADVICE[code] in one.hint for one in found), found


@pytest.mark.parametrize("name", EDITS)
def test_one_pattern(project: Path, name: str) -> None:
    """One sentence without a full stop, and a hint that begins with what to do."""
    (found,) = findings(project, EDITS[name][1])

    assert found.message and not found.message.endswith(".") and ". " not in found.message
    assert re.match(r"(write|add|remove|replace|change|run|put it in quotes|did you mean|move)\b", found.hint), (
        found.hint
    )


def test_commands_in_hints_exist() -> None:
    """Every `billhook VERB` in a finding or hint is a verb of the command line."""
    verbs = {verb for group in GROUPS.values() for verb in group}
    folder = Path(__file__).parent.parent.parent / "src" / "billhook" / "config"
    texts = [file.read_text() for file in folder.rglob("*.py")]
    named = {verb for text in texts for verb in re.findall(r"`billhook ([a-z]+)", text)}

    assert named and named <= verbs
