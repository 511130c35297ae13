"""Longer scripts in the style of published hooks, with events as Claude Code sends them, plain and warm."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from equivalence.harness import Case, check_same, parameters

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="warm interpreters are for Linux")
SCRIPTS = Path(__file__).parent / "published"
TIMES = {r"\d{4}-\d\d-\d\dT[\d:]+\+00:00": "TIME", r"\b\d{10}\.\d+": "TIME"}
COMMITTER = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.invalid",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.invalid",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}
REPOSITORY = (
    "git init -q -b main . && git add -A && git -c user.name=A -c user.email=a@example.invalid commit -qm First"
)
TRANSCRIPT = "\n".join(
    json.dumps(line)
    for line in (
        {"type": "user", "timestamp": "2026-11-18T10:00:00+00:00", "message": {"content": "Fix the bug"}},
        {
            "type": "assistant",
            "timestamp": "2026-11-18T10:00:04+00:00",
            "message": {"content": [{"type": "tool_use", "name": "Bash", "input": {}}]},
        },
        {
            "type": "assistant",
            "timestamp": "2026-11-18T10:01:00+00:00",
            "message": {"content": [{"type": "text", "text": "é"}, {"type": "tool_use", "name": "Edit", "input": {}}]},
        },
    )
)
TOPICS = """
    import unicodedata
    TOPICS = {
        "tests": {"keywords": ["test", "tests"], "hint": "Run them with $RUNNER."},
        "style": {"keywords": ["format", "lint"], "hint": "Use ruff."},
    }
    def normalise(text):
        return unicodedata.normalize("NFKD", text).lower()
"""


def event(name: str, **fields: object) -> bytes:
    """An event of Claude Code."""
    common = {
        "session_id": "0b7e4f3a-9d5c-4a53-8c11-2f6b7c1d9e00",
        "transcript_path": "session.jsonl",
        "cwd": ".",
        "permission_mode": "default",
        "hook_event_name": name,
    }
    return json.dumps({**common, **fields}).encode()


def bash(command: str, name: str = "PreToolUse", **fields: object) -> bytes:
    tool_input = {"command": command, "description": "Run it"}
    return event(name, tool_name="Bash", tool_input=tool_input, tool_use_id="toolu_01", **fields)


def edit(path: str, name: str = "PostToolUse", **tool_input: object) -> bytes:
    return event(name, tool_name="Write", tool_input={"file_path": path, **tool_input}, tool_response={"success": True})


def case(script: str, stdin: bytes, /, **options: object) -> Case:
    env = options.pop("env", {})
    normalise = options.pop("normalise", {})
    assert isinstance(env, Mapping)
    assert isinstance(normalise, Mapping)
    return Case(
        name=script,
        script=(SCRIPTS / f"{script}.py").read_bytes(),
        stored=f".claude/hooks/{script}.py",
        path=f".claude/hooks/{script}.py",
        stdin=stdin,
        env={"CLAUDE_PROJECT_DIR": "{folder}", **env},
        normalise={**TIMES, **normalise},
        **options,  # type: ignore[arg-type]
    )


HELPERS = {".claude/hooks/topics.py": TOPICS}
CONFIG = {".claude/hooks/hook_config.py": 'SUFFIXES = {".py"}\nDECISION = "deny"\n'}
PYTHON_FILES = {"good.py": "VALUE = 1\n", "bad.py": "def f(:\n", "spaces.py": "x = 1   \n\n\n"}
PROJECT = {
    "app.py": "VALUE = 1\n",
    "test_app.py": """
        import unittest, app
        class Checks(unittest.TestCase):
            def test_value(self):
                assert app.VALUE == 1
    """,
}
CASES = [
    case("block_dangerous", bash("ls -la")),
    case("block_dangerous", bash("rm -rf / ; git push --force origin main")),
    case("block_dangerous", b"{not json"),
    case("block_dangerous", edit("x.py")),
    case("protect_paths", edit("config/.env", "PreToolUse")),
    case("protect_paths", edit(".env.example", "PreToolUse")),
    case("protect_paths", edit("../outside.py", "PreToolUse")),
    case("protect_paths", event("PreToolUse")),
    case("secret_scan", edit("a.py", content="key = 1\n")),
    case("secret_scan", edit("a.py", content="id = 'AKIAABCDEFGHIJKLMNOP'\npassword = 'x8$kQz!29vLmPw'\n")),
    case("secret_scan", edit("a.py", edits=[{"new_string": "-----BEGIN PRIVATE KEY-----"}]), arguments=("--warn",)),
    case("branch_guard", bash("git commit -m 'work'"), setup=REPOSITORY, env=COMMITTER),
    case("branch_guard", bash("ls && git push origin main"), setup=REPOSITORY, env=COMMITTER),
    case("branch_guard", bash("echo 'open"), setup=REPOSITORY, env=COMMITTER),
    case("branch_guard", bash("git status"), env={"GIT_CEILING_DIRECTORIES": "/"}),
    case("enforce_uv", bash("pip install requests"), files={"uv.lock": ""}),
    case("enforce_uv", bash("python -m pytest -q"), files={"uv.lock": ""}),
    case("enforce_uv", bash("pip install requests")),
    case("format_python", edit("spaces.py"), files=PYTHON_FILES),
    case("format_python", edit("bad.py"), files=PYTHON_FILES),
    case(
        "format_python",
        edit("good.py"),
        files={**PYTHON_FILES, "bin/ruff": "#!/bin/sh\nexit 3\n"},
        env={"FORMATTERS": "{folder}/bin"},
    ),
    case("config_lint", edit("a.json"), files={"a.json": '{"a": 1,\n}'}),
    case("config_lint", edit("a.xml"), files={"a.xml": "<a><b></a>"}),
    case("config_lint", edit("a.ini"), files={"a.ini": "[a]\nx = 1\n[a]\n"}),
    case("config_lint", edit("a.json"), files={"a.json": "[]"}),
    case("tool_logger", bash("echo hi", "PostToolUse", tool_response={"stdout": "é" * 300, "api_token": "x"})),
    case("tool_logger", event("SessionStart", source="startup")),
    case("tool_logger", b"[]"),
    case("csv_audit", bash("echo 'a, b'", "PostToolUse", tool_response={"stdout": ""})),
    case("csv_audit", edit("x.py"), files={"audit.csv": "x" * 5000, "audit.csv.1": "older"}),
    case("sqlite_telemetry", event("SessionEnd", reason="exit"), normalise={r"(?s)SQLite format 3.*": "DATABASE"}),
    case("sqlite_telemetry", bash("ls"), env={"TIMES": "3"}, normalise={r"(?s)SQLite format 3.*": "DATABASE"}),
    case(
        "session_context",
        event("SessionStart", source="startup"),
        setup=REPOSITORY,
        env=COMMITTER,
        files={"NOTES.md": "Remember é."},
    ),
    case(
        "session_context",
        event("SessionStart", source="resume"),
        arguments=("--json", "--notes", "A.md"),
        files={"A.md": "A"},
        env={"GIT_CEILING_DIRECTORIES": "/"},
    ),
    case("session_context", event("SessionStart"), arguments=("--unknown",)),
    case(
        "prompt_hints",
        event("UserPromptSubmit", prompt="Please test and lint the tests"),
        files=HELPERS,
        env={"RUNNER": "pytest"},
    ),
    case("prompt_hints", event("UserPromptSubmit", prompt="/clear"), files=HELPERS),
    case(
        "prompt_hints",
        event("UserPromptSubmit", prompt="anything at all"),
        files={**HELPERS, ".claude/hooks/topics.py": "TOPICS = {'a': {}}\nnormalise = str.lower\n"},
    ),
    case("prompt_filter", event("UserPromptSubmit", prompt="Mail a.b@example.com, card 4111 1111 1111 1111")),
    case("prompt_filter", event("UserPromptSubmit", prompt="Decode c2tfbGl2ZV9hYmNkZWZnaGlqa2xtbm9wcXJzdA==")),
    case("prompt_filter", event("UserPromptSubmit")),
    case("stop_gate", event("Stop", stop_hook_active=True)),
    case("stop_gate", event("Stop", stop_hook_active=False), files=PROJECT),
    case("stop_gate", event("Stop"), files={"broken.py": "def f(:\n"}, arguments=("syntax", "style")),
    case("notify", event("Notification", message="Claude needs your permission to use Bash in this project")),
    case("notify", event("Stop"), env={"NOTIFY_FILE": "{folder}/told.txt"}, arguments=("--width", "10")),
    case("notify", b""),
    case("transcript_backup", event("PreCompact", trigger="manual"), files={"session.jsonl": TRANSCRIPT}),
    case("transcript_backup", event("PreCompact", trigger="auto"), env={"LOG_LEVEL": "DEBUG"}),
    case("transcript_stats", event("SessionEnd", reason="clear"), files={"session.jsonl": TRANSCRIPT + "\n{bad\n"}),
    case("transcript_stats", event("SessionEnd"), files={"session.jsonl": ""}),
    case("transcript_stats", event("SessionEnd")),
    case("auto_commit", event("Stop"), setup=REPOSITORY + " && echo 2 > new.txt", env=COMMITTER),
    case("auto_commit", event("Stop"), env={"GIT_CEILING_DIRECTORIES": "/", **COMMITTER}),
    case("tests_before_code", edit("src/app.py", "PreToolUse"), files=CONFIG),
    case("tests_before_code", edit("src/app.py", "PreToolUse"), files={**CONFIG, "tests/test_app.py": ""}),
    case("tests_before_code", edit("src/app.py", "PreToolUse")),
    case("rate_limit", bash("ls")),
    case("rate_limit", bash("ls"), env={"LIMIT": "0"}),
    case("rate_limit", bash("ls"), files={"state.json": "{"}),
    case("rewrite_command", bash("git log -3")),
    case("rewrite_command", bash("sudo ls")),
    case("rewrite_command", bash("npm i left-pad")),
    case("rewrite_command", bash("echo 'unclosed")),
    case("http_forward", event("Stop"), normalise={r"\w{32}\.json": "NAME.json"}),
    case(
        "http_forward",
        b"\xef\xbb\xbf" + event("Stop"),
        env={"COLLECTOR_URL": "bad://x"},
        normalise={r"\w{32}\.json": "NAME.json"},
    ),
    case("subagent_tracker", event("SubagentStop", agent_id="a1", agent_type="Explore")),
    case("subagent_tracker", event("Stop")),
    case("todo_check", event("Stop"), files={"a.py": "# TODO: later\n", "b/c.js": "// FIXME\n", "bad.md": b"\xff"}),
    case("todo_check", event("Stop"), files={"a.py": "# XXX\n"}, env={"METHOD": "spawn"}, slow=True),
    case("async_checks", edit("file.txt"), files={"file.txt": "text\n"}),
    case("async_checks", edit("file.txt"), files={"file.txt": "<<<<<<< HEAD\n"}, env={"SLOW": "30"}),
]


def test_each_script_is_used() -> None:
    """There are at least 20, of 20 to 80 lines, and each has a case."""
    scripts = {path.stem: len(path.read_text().splitlines()) for path in SCRIPTS.glob("*.py")}
    assert {case.name for case in CASES} == set(scripts)
    assert len(scripts) >= 20
    assert all(20 <= lines <= 80 for lines in scripts.values())


@pytest.mark.parametrize("case", parameters(CASES))
def test_published(case: Case, tmp_path: Path) -> None:
    """Answers, messages, exit codes and files are equal."""
    check_same(case, tmp_path / "here")
