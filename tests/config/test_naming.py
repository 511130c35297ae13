"""Names for hooks that have none, from what they run."""

import pytest

from billhook.config.declaration import (
    Action,
    Exec,
    FixedAnswer,
    HookDeclaration,
    Python,
    RunAction,
    UnsupportedAction,
    Url,
    checked_name,
    free_name,
    made_name,
)

NAMES: dict[str, tuple[Action | None, str]] = {
    "a program": (RunAction("ruff check ."), "ruff"),
    "a script": (RunAction("./scripts/lint.sh --all"), "lint"),
    "a script of the project": (RunAction("$CLAUDE_PROJECT_DIR/.claude/hooks/check-style.sh"), "check-style"),
    "quoted": (RunAction('"$CLAUDE_PROJECT_DIR"/.claude/hooks/check_style.py'), "check_style"),
    "an interpreter's": (RunAction("python3 /path/to/safety-check.py"), "safety-check"),
    "through a runner": (RunAction("uv run scripts/x.py"), "x"),
    "code": (RunAction("python3 -c 'import sys; sys.exit(0)'"), "stop-python3"),
    "a runner with options": (
        RunAction("uv run --no-project --python python3 $CLAUDE_PROJECT_DIR/.claude/hooks/a_b.py"),
        "a_b",
    ),
    "a module": (RunAction("python3 -m pkg.guard --all"), "guard"),
    "a package": (RunAction("npx -y @scope/prettier@3.1 --write x"), "prettier"),
    "a package script": (RunAction("npm run lint"), "lint"),
    "node": (RunAction('node "${CLAUDE_PLUGIN_ROOT}/scripts/keyword-detector.mjs"'), "keyword-detector"),
    "a shell's code": (RunAction("bash -c './hooks/capture.sh 2>/dev/null || true'"), "capture"),
    "a program by its path": (RunAction('/usr/bin/python3 "${CLAUDE_PLUGIN_ROOT}/bin/pitstop" hook stop'), "pitstop"),
    "PowerShell": (RunAction("powershell -NoProfile -ExecutionPolicy Bypass -File x/on-stop.ps1"), "on-stop"),
    "a main file": (RunAction("go run tools/test-guard/main.go"), "test-guard"),
    "only git": (RunAction("git diff --stat"), "stop-git"),
    "only an exit": (RunAction("exit 0"), "stop-exit"),
    "a tool behind a pipe": (RunAction("jq -r .x | { read -r f; oxfmt --write $f; }"), "oxfmt"),
    "a script behind git": (RunAction('node "$(git rev-parse --show-toplevel)/scripts/check.mjs" --hook'), "check"),
    "variables": (RunAction("A=b sh .cursor/hooks/probe.sh src/x.js"), "probe"),
    "after cd": (RunAction('cd "$CLAUDE_PROJECT_DIR" && ./x.sh'), "x"),
    "a condition": (RunAction("if echo x | grep -q y; then exit 2; fi"), "stop-echo"),
    "a variable": (RunAction("$GUARD --all"), "stop-command"),
    "argv": (Exec(("python3", "tools/guard.py")), "guard"),
    "a function": (Python("policies.guard:check"), "check"),
    "an address": (Url("https://user@hooks.example.com:8443/x"), "hooks.example.com"),
    "an invalid address": (Url("https://["), "http"),
    "an answer": (FixedAnswer("deny", "no"), "deny"),
    "not supported yet": (UnsupportedAction("prompt"), "prompt"),
    "nothing": (None, "hook"),
}


@pytest.mark.parametrize("row", NAMES)
def test_made_names(row: str) -> None:
    """The script, else the program, without folder and suffix."""
    action, expected = NAMES[row]
    assert made_name(action, "Stop") == expected


def test_names_that_are_taken() -> None:
    """The event distinguishes two hooks, and a number two hooks of one event."""
    taken: set[str] = set()
    for wanted in ("log", "log-post-tool-use", "log-post-tool-use-2"):
        assert free_name("log", "PostToolUse", taken) == wanted
        taken.add(wanted)
    assert free_name("log", "", taken) == "log-2"


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[31m", "x" * 201])
def test_invalid_names(name: str) -> None:
    """A name fits on a line and can't control a terminal."""
    assert checked_name(name)
    assert checked_name("no-force-push") == ""


SECRETS = {
    "https://user:pw@example.com/x": "POST https://***@example.com/x",
    "https://example.com/x?token=T&n=5#f": "POST https://example.com/x?token=***&n=***#f",
    "https://example.com/a=b": "POST https://example.com/a=b",
}


@pytest.mark.parametrize("url", SECRETS)
def test_an_address_is_shown_without_secrets(url: str) -> None:
    """A password or a token in a URL is not shown on screens or in logs."""
    assert HookDeclaration(name="x", action=Url(url)).does == SECRETS[url]
