"""`${...}` of an event: hostile values stay values in texts, arguments and shell commands."""

import asyncio
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from billhook import Verdict
from billhook.config import actions
from config.project import Project, codes

OWN = "~/.config/billhook/hooks.yaml"
HOSTILE = [
    "; touch hacked",
    "$(touch hacked)",
    "`touch hacked`",
    "a b  c",
    "'; touch hacked; '",
    '"; touch hacked; "',
    "x' \" $(touch hacked) `touch hacked` \\",
    "*",
    "~",
    "${HOME}",
    "-rf",
    "&& touch hacked &&",
    "line\n; touch hacked",
    "ünïcödé",
]
PLACES = ["${%s}", '"${%s}"', "x${%s}y", '"a $(echo "${%s}")"', "'lit' ${%s}", "$(echo ${%s})"]


def fire(project: Project, hooks: dict[str, Any], **fields: Any) -> Verdict:
    project.write(OWN, json.dumps({"guard": "off", "hooks": hooks}))
    about: dict[str, Any] = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(project.folder)}
    about |= {"tool_name": "Write", "tool_input": {"file_path": "a.py", "content": ""}}
    config = project.load(builtins=True)
    assert codes(config) == []
    return config.engine(host="claude").fire_sync(about | fields)


def told(project: Project, line: str, **fields: Any) -> list[str]:
    """The arguments that a command gets."""
    script = 'import json, sys; json.dump(sys.argv[1:], open("told", "w"))'
    project.write("show.py", script)
    fire(project, {"h": {"events": "*", "run": f"python3 show.py {line}"}}, **fields)
    found: list[str] = json.loads(project.path("told").read_text())
    return found


@pytest.mark.parametrize("value", HOSTILE)
def test_a_path_stays_a_path(project: Project, value: str) -> None:
    assert told(project, "${file_path}", tool_input={"file_path": value, "content": ""}) == [value]
    assert not project.path("hacked").exists()


PATCH = "*** Begin Patch\n*** Update File: README.md\n@@\n-a\n+b\n"
PATCH += "*** Add File: {}\n+x\n*** Add File: c.py\n+x\n*** End Patch"


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("${file_path}", ["a b.py"]),
        ("${file_paths}", ["a b.py", "c.py"]),
        ('-- "${file_paths}" end', ["--", "a b.py", "c.py", "end"]),
    ],
)
def test_the_files_of_a_patch_that_paths_selects(project: Project, line: str, arguments: list[str]) -> None:
    patched: dict[str, Any] = {"tool_name": "apply_patch", "tool_input": {"input": PATCH.format("a b.py")}}
    paths = {"paths": {"write": "*.py"}}
    script = 'import json, sys; json.dump(sys.argv[1:], open("told", "w"))'
    project.write("show.py", script)
    for action in ({"run": f"python3 show.py {line}"}, {"exec": ["python3", "show.py", *shlex.split(line)]}):
        fire(project, {"h": {"events": "*", **paths, **action}}, **patched)
        assert json.loads(project.path("told").read_text()) == arguments


def test_the_file_of_a_shell_command_that_paths_selects(project: Project) -> None:
    hooks = {"h": {"events": "*", "paths": {"write": "src/**"}, "deny": "not ${file_path}, ${file_paths}"}}
    command = {"tool_name": "Bash", "tool_input": {"command": "touch b src/a src/c"}}
    assert fire(project, hooks, **command).reason == "not src/a, src/a, src/c"


@pytest.mark.parametrize("value", [value for value in HOSTILE if "\n" not in value])
def test_hostile_names_among_several_files(project: Project, value: str) -> None:
    patched: dict[str, Any] = {"tool_name": "apply_patch", "tool_input": {"input": PATCH.format(value)}}
    assert told(project, "${file_paths}", **patched) == ["README.md", value, "c.py"]
    assert not project.path("hacked").exists()


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_never_becomes_code(project: Project, value: str) -> None:
    """In every kind of quotes and substitutions, no part of a value runs."""
    line = " ".join(place % "prompt" for place in PLACES)
    assert told(project, line, hook_event_name="UserPromptSubmit", prompt=value)
    assert not project.path("hacked").exists()


@pytest.mark.parametrize("name", [*actions.VARIABLES, "results.first.data.x"])
@pytest.mark.parametrize("how", ["run", "exec", "inject", "command"])
def test_every_variable(project: Project, name: str, how: str) -> None:
    """Hostile file names, prompts, branches and results, in every context."""
    hostile = "$(touch hacked);`touch hacked`"
    git(project.folder, "init", "-q")
    (project.folder / ".git" / "HEAD").write_text(f"ref: refs/heads/{hostile}\n")
    text = f"${{{name}}}"
    deeds: dict[str, dict[str, Any]] = {
        "run": {"run": f"printf %s {text} > told"},
        "exec": {"exec": ["printf", "%s", text]},
        "inject": {"inject": text},
        "command": {"inject": {"command": f"printf %s {text}"}},
    }
    deed = deeds[how]
    answer = json.dumps({"data": {"x": hostile}})
    project.write("answer.json", answer)
    first = {"events": "PreToolUse", "dialect": "spec", "run": "cat answer.json"}
    fields: dict[str, Any] = {
        "tool_input": {"file_path": hostile, "command": hostile, "content": ""},
        "message": hostile,
        "reason": hostile,
        "prompt": hostile,
    }
    if name == "command":
        fields |= {"tool_name": "Bash", "tool_input": {"command": hostile}}
    fire(project, {"first": first, "h": {"events": "PreToolUse", **deed}}, **fields)
    assert not project.path("hacked").exists()


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


TEXTS = [
    ("${tool} ${file_path}", "Write a.py"),
    ("${file_path:-none} ${message:-quiet}", "a.py quiet"),
    ("$${tool}", "${tool}"),
    ("${event} by ${agent}", "PreToolUse by claude"),
    ("${branch}", "main"),
    ("${results.first.data.n} ${results.first.data} ${results.none.data}", '3 {"n":3} '),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_texts(project: Project, text: str, expected: str) -> None:
    git(project.folder, "init", "-q", "-b", "main")
    first = {"events": "PreToolUse", "dialect": "spec", "run": """echo '{"data": {"n": 3}}'"""}
    verdict = fire(project, {"first": first, "h": {"events": "PreToolUse", "deny": text}})
    assert verdict.reason.replace(": ", ":") == expected


def test_the_reason_of_an_earlier_hook(project: Project) -> None:
    hooks = {
        "gate": {"events": "PreToolUse", "deny": "not today"},
        "log": {"events": "PreToolUse", "always": True, "run": "printf %s ${reason} > told", "after": ["gate"]},
    }
    fire(project, hooks)
    assert project.path("told").read_text() == "not today"


def test_environment_variables_are_still_replaced(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM", "ours")
    assert fire(project, {"h": {"events": "PreToolUse", "deny": "${TEAM}: ${tool}"}}).reason == "ours: Write"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a ${tool}", 'a "${BILLHOOK_TOOL}"'),
        ('a "x ${tool}"', 'a "x ${BILLHOOK_TOOL}"'),
        ("a 'x ${tool}'", "a 'x ${BILLHOOK_TOOL}'"),
        ('"$(b ${tool})"', '"$(b "${BILLHOOK_TOOL}")"'),
        ('a \\" ${tool}', 'a \\" "${BILLHOOK_TOOL}"'),
        ("cat <<E\n${tool}\nE", "cat <<E\n${BILLHOOK_TOOL}\nE"),
        ("echo $${tool} $tool", "echo ${tool} $tool"),
        ("a ${results.x.data.n}", 'a "${BILLHOOK_RESULTS_X_DATA_N}"'),
    ],
)
def test_in_a_shell(text: str, expected: str) -> None:
    assert actions.for_shell(text, "")[0] == expected


NESTED = [
    {"exec": ["sh", "-c", "echo ${file_path}"]},
    {"exec": ["env", "bash", "-c", "echo ${file_path}"]},
    {"exec": ["timeout", "5", "sh", "-c", "echo ${file_path}"]},
    {"exec": ["python3", "-c", "print('${file_path}')"]},
    {"run": 'echo "echo ${file_path}" | sh'},
    {"run": "echo ${file_path} | bash -s"},
    {"run": "bash <<EOF\necho ${file_path}\nEOF"},
    {"run": "cat <<EOF | sh\necho ${file_path}\nEOF"},
    {"run": 'trap "echo ${file_path}" EXIT'},
    {"run": 'git -c alias.x="!echo ${file_path}" x'},
    {"run": 'sed "s/a/${file_path}/e" x'},
    {"run": 'tmux new -d "echo ${file_path}"'},
    {"run": 'flock x -c "echo ${file_path}"'},
    {"run": 'script -qc "echo ${file_path}"'},
    {"run": 'X=sh; $X -c "echo ${file_path}"'},
    {"inject": {"command": 'echo "${message}" | sh'}},
    {"keep_going": {"command": 'echo "${message}" | sh'}},
]


@pytest.mark.parametrize("deed", NESTED)
def test_programs_that_could_run_a_value(project: Project, deed: dict[str, Any]) -> None:
    project.write(OWN, json.dumps({"hooks": {"h": {"events": "Stop", **deed}}}))
    assert codes(project.load()) == ["BH219"]


@pytest.mark.parametrize(
    "line",
    [
        "ruff format ${file_path}",
        "bash scripts/x.sh ${file_path}",
        'sh "$CLAUDE_PROJECT_DIR"/x.sh ${branch}',
        "python3 tools/check.py ${file_path}",
        "python3 -m black ${file_path}",
        "./x.sh ${file_path}",
        "notify-send agent ${message}",
        "git add ${file_path} && git commit -m ${message}",
        "node scripts/a.js ${file_path}",
    ],
)
def test_programs_that_take_it_as_an_argument(project: Project, line: str) -> None:
    project.write(OWN, json.dumps({"hooks": {"h": {"events": "Stop", "run": line}}}))
    assert codes(project.load()) == []


def test_a_value_in_a_rewritten_line_is_one_word(project: Project) -> None:
    hooks = {"h": {"events": "PreToolUse", "rewrite": {"command": "cd x && ${command} # ${branch}"}}}
    git(project.folder, "init", "-q")
    (project.folder / ".git" / "HEAD").write_text("ref: refs/heads/a;touch hacked\n")
    verdict = fire(project, hooks, tool_name="Bash", tool_input={"command": "ls -l"})
    assert verdict.tool_input == {"command": "cd x && ls -l # 'a;touch hacked'"}


def test_a_cancelled_event_leaves_no_file_with_results(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent may end while its hooks run."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    project.write("wait.sh", "touch started; exec sleep 60")
    hooks = {"first": {"events": "*", "notify": "hello"}, "second": {"events": "*", "run": "sh wait.sh"}}
    project.write(OWN, json.dumps({"guard": "off", "hooks": hooks}))
    engine = project.load(builtins=True).engine(host="claude")
    stop = {"hook_event_name": "Stop", "session_id": "s", "cwd": str(project.folder)}

    async def cancelled() -> list[str]:
        firing = asyncio.ensure_future(engine.fire(stop))
        while not project.path("started").exists():  # noqa: ASYNC110 (another process makes it)
            await asyncio.sleep(0.01)
        found = results()
        firing.cancel()
        await asyncio.wait([firing])
        return found

    def results() -> list[str]:
        return [name for name in os.listdir(tmp_path) if name.startswith("billhook-results-")]

    assert asyncio.run(cancelled())
    assert not results()
