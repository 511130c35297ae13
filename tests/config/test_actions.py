"""`inject` from files and commands, `notify`, `rewrite`, `mask`, `keep_going`, `stop`, `options`, earlier results."""

import json
from pathlib import Path
from typing import Any

import pytest

from billhook import Decision, Verdict
from config.project import Project, codes

OWN = "~/.config/billhook/hooks.yaml"


def fire(project: Project, hooks: dict[str, Any], event: str = "PreToolUse", **fields: Any) -> Verdict:
    path = project.path(OWN)
    text = json.dumps({"guard": "off", "hooks": hooks})
    if not path.exists() or path.read_text() != text:
        project.write(OWN, text)
    about: dict[str, Any] = {"hook_event_name": event, "session_id": "s", "cwd": str(project.folder)}
    if "ToolUse" in event:
        about |= {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    config = project.load(builtins=True)
    assert codes(config) == []
    return config.engine(host="claude").fire_sync(about | fields)


def one(event: str = "PreToolUse", **fields: Any) -> dict[str, Any]:
    return {"h": {"events": event, **fields}}


def test_inject_a_file(project: Project) -> None:
    project.write("NOTES.md", "remember the milk\n")
    hooks = one("SessionStart", inject={"file": "NOTES.md"})
    assert fire(project, hooks, "SessionStart", source="startup").context == ("remember the milk",)
    project.write("NOTES.md", "x" * 70_000)
    (text,) = fire(project, hooks, "SessionStart", source="startup").context
    assert text.endswith("[cut here: it is longer]") and len(text) < 66_000


def test_inject_a_file_that_is_missing(project: Project) -> None:
    """That is a failure, which is shown, and not an answer."""
    verdict = fire(project, one("SessionStart", inject={"file": "none.md"}), "SessionStart", source="startup")
    assert verdict.failed_open == 1 and "none.md can't be read" in verdict.outcomes[-1].error + str(verdict.outcomes)


def test_inject_the_output_of_a_command(project: Project) -> None:
    hooks = one("SessionStart", inject={"command": "echo on ${event}; echo noise >&2"})
    assert fire(project, hooks, "SessionStart", source="startup").context == ("on SessionStart",)
    failing = one("SessionStart", inject={"command": "echo no; exit 3"})
    verdict = fire(project, failing, "SessionStart", source="startup")
    assert verdict.context == () and verdict.failed_open == 1


def test_notify(project: Project) -> None:
    verdict = fire(project, one("Stop", notify="done: ${message}"), "Stop", last_assistant_message="all green")
    assert "done: all green" in verdict.messages


def test_stop(project: Project) -> None:
    verdict = fire(project, one(**{"if": "Bash(ls)"}, stop="enough of ${command}"))
    assert verdict.stop and verdict.stop_reason == "enough of ls"


REWRITES: list[tuple[dict[str, Any], str, str]] = [
    ({"pip": "uv pip"}, "pip install x", "uv pip install x"),
    ({"pip": "uv pip"}, "cd a && pip install x; echo pip", "cd a && uv pip install x; echo pip"),
    ({"pip": "uv pip"}, "echo 'pip install x' && pip install x", "echo 'pip install x' && uv pip install x"),
    ({"pip": "uv pip"}, "pipx install x", "pipx install x"),
    ({"python -m pip": "uv pip"}, "python -m pip list | wc -l", "uv pip list | wc -l"),
    ({"npm install": "pnpm install", "npm": "pnpm"}, "npm install && npm test", "pnpm install && pnpm test"),
    ({"pip": "uv pip"}, 'git commit -m "use pip install"', 'git commit -m "use pip install"'),
    ({"pip": "uv pip"}, "A=1 pip install x", "A=1 uv pip install x"),
]


@pytest.mark.parametrize(("programs", "line", "expected"), REWRITES)
def test_rewrite_programs(project: Project, programs: dict[str, str], line: str, expected: str) -> None:
    verdict = fire(project, one(rewrite={"command": programs}), tool_input={"command": line})
    given = verdict.tool_input["command"] if verdict.tool_input else line
    assert given == expected


def test_rewrite_fields(project: Project) -> None:
    hooks = one(rewrite={"timeout": 5000, "description": "was: ${command}"})
    verdict = fire(project, hooks, tool_input={"command": "ls", "description": "x"})
    assert verdict.tool_input == {"command": "ls", "description": "was: ls", "timeout": 5000}


def test_mask(project: Project) -> None:
    hooks = one("PostToolUse", mask=[r"\b\d{3}-\d{4}\b"])
    output = {"stdout": "call 555-1234", "more": ["555-9999", 5]}
    verdict = fire(project, hooks, "PostToolUse", tool_response=output)
    assert verdict.tool_output == {"stdout": "call ***", "more": ["***", 5]}
    assert not fire(project, hooks, "PostToolUse", tool_response="nothing").outcomes[-1].answer.rewrites


def test_mask_secrets(project: Project) -> None:
    """Everything that the event log redacts."""
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bD1fG3hJ5"
    verdict = fire(project, one("PostToolUse", mask="secrets"), "PostToolUse", tool_response=f"token {secret} end")
    assert secret not in verdict.tool_output and verdict.tool_output.endswith(" end")


def test_keep_going_is_limited(project: Project) -> None:
    """After three times the agent may stop, and the user is told why. The next prompt resets the count."""
    hooks = one("Stop", keep_going="write the summary")
    assert [fire(project, hooks, "Stop").keep_going for _ in range(4)] == [True, True, True, False]
    last = fire(project, hooks, "Stop")
    assert any("stopped after 3 attempts; still open: write the summary" in text for text in last.messages)
    fire(project, hooks, "UserPromptSubmit", prompt="again")
    assert fire(project, hooks, "Stop").keep_going


@pytest.mark.parametrize("prompt", ["write the summary", "write the summary\n", ""])
def test_a_reason_that_comes_back_as_a_prompt_does_not_count(project: Project, prompt: str) -> None:
    """Copilot, Gemini CLI and Qwen Code submit the reason of a Stop hook as a prompt; Qwen Code also an empty one."""
    hooks, kept = one("Stop", keep_going="write the summary"), []
    for _ in range(5):
        kept.append(fire(project, hooks, "Stop").keep_going)
        fire(project, hooks, "UserPromptSubmit", prompt=prompt)
    assert kept == [True, True, True, False, False]


def test_keep_going_while_a_command_fails(project: Project) -> None:
    hooks = one("Stop", keep_going={"command": "test -e done || { echo 2 failed; exit 1; }", "text": "Fix the tests"})
    verdict = fire(project, hooks, "Stop")
    assert verdict.keep_going and verdict.reason == "Fix the tests\n2 failed"
    project.write("done", "")
    assert not fire(project, hooks, "Stop").keep_going


def test_a_command_that_can_not_start_does_not_keep_the_agent_going(project: Project) -> None:
    verdict = fire(project, one("Stop", keep_going={"command": "no-such-program"}), "Stop")
    assert not verdict.keep_going and verdict.failed_open == 1


def test_results_for_commands(project: Project) -> None:
    """A JSON file with the results of earlier hooks; an empty object if there are none."""
    answer = json.dumps({"data": {"n": 3}})
    show = {"events": "PreToolUse", "run": 'cat "$BILLHOOK_RESULTS" > seen.json; echo "$BILLHOOK_RESULTS" > name'}
    fire(project, {"show": show})
    assert json.loads(project.path("seen.json").read_text()) == {}
    fire(project, {"first": {"events": "PreToolUse", "dialect": "spec", "run": f"echo '{answer}'"}, "show": show})
    assert json.loads(project.path("seen.json").read_text())["first"]["data"] == {"n": 3}
    assert not Path(project.path("name").read_text().strip()).exists()


@pytest.mark.parametrize(
    "signature",
    ["event, ctx", "ctx", "event, options", "event, ctx, options", "options", "ctx, options=None", "event, *, options"],
)
def test_options_of_a_function(project: Project, signature: str) -> None:
    found = "options" if "options" in signature else "ctx.options"
    module = f"from billhook import deny\n\ndef check({signature}):\n    return deny(str({found}['most']))\n"
    project.write("~/.config/billhook/policy.py", module)
    verdict = fire(project, one(python="policy:check", options={"most": 3, "names": ["a"]}))
    assert (verdict.decision, verdict.reason) == (Decision.DENY, "3")


BROKEN = [
    ({"inject": {"fille": "a"}}, "BH202", "unknown key `fille` in `inject`"),
    ({"inject": {}}, "BH204", "`inject` is empty"),
    ({"keep_going": {"command": "x", "limit": 0}}, "BH203", "`keep_going.limit` must be a number above 0"),
    ({"rewrite": "x"}, "BH203", "`rewrite` must be a mapping of fields, not a string"),
    ({"rewrite": {"a": ["b"]}}, "BH203", "`rewrite.a` must be one value, not a list"),
    ({"mask": "("}, "BH206", "the expression `(` can't be used"),
    ({"mask": []}, "BH203", "`mask` is empty"),
    ({"inject": {"file": "a", "command": "b"}}, "BH204", "`inject` has both a file and a command"),
    ({"notify": "x", "deny": "y"}, "BH204", "hook `h` has more than one action: `deny`, `notify`"),
    ({"python": "a:b", "options": 3}, "BH203", "`options` must be a mapping"),
    ({"run": 'bash -c "x ${file_path}"'}, "BH219", "`${...}` can't be used in code that `bash` runs"),
    ({"inject": {"command": "ssh h ${branch}"}}, "BH219", "`${...}` can't be used in code that `ssh` runs"),
    ({"exec": ["sh", "-c", "x ${branch}"]}, "BH219", "`${...}` can't be used in code that `sh` runs"),
]


@pytest.mark.parametrize(("fields", "code", "message"), BROKEN)
def test_findings(project: Project, fields: dict[str, Any], code: str, message: str) -> None:
    project.write(OWN, json.dumps({"hooks": one(**fields)}))
    config = project.load()
    assert [(found.code, found.message[: len(message)]) for found in config.problems] == [(code, message)]
    assert all(found.hint for found in config.problems)
