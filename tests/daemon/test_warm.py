"""Python scripts of a project in the daemon: warm, checked against their approval, and reported when that fails."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from billhook.cli.doctor.checks import DaemonState

from .running import Home, eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="warm interpreters need Linux")
SCRIPT = f"""#!{os.path.realpath(sys.executable)}
import json, sys
event = json.load(sys.stdin)
import helper
where = "warm" if "argparse" in sys.modules else "plain"
print(json.dumps({{"systemMessage": f"{{where}} {{event['tool_name']}} {{helper.word}}"}}))
"""
HOOK = "hooks: {{check: {{events: PreToolUse, run: '\"$CLAUDE_PROJECT_DIR\"/hooks/check.py'{more}}}}}"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    (home.project / ".git").mkdir()
    home.file("hooks/check.py", SCRIPT, 0o755)
    home.file("hooks/helper.py", "word = 'approved'")
    yield home
    home.close()


def configured(home: Home, more: str = "") -> None:
    home.file(".billhook/hooks.yaml", HOOK.format(more=more))
    home.approve()
    home.start()


def becomes_warm(home: Home) -> None:
    eventually(lambda: b"warm Bash approved" in home.ask().stdout, 30)


def test_a_script_becomes_warm_and_gives_the_same_answer(home: Home) -> None:
    configured(home)
    assert b"plain Bash approved" in home.ask().stdout
    becomes_warm(home)


def test_a_change_needs_another_approval(home: Home) -> None:
    configured(home)
    becomes_warm(home)
    home.file("hooks/helper.py", "word = 'changed'")
    assert b"changed since approval" in home.ask().stdout
    home.approve()
    eventually(lambda: b"warm Bash changed" in home.ask().stdout, 30)


def test_a_module_that_the_approval_could_not_foresee_is_refused(home: Home) -> None:
    more = "import sys\nsys.path.append('elsewhere')\n__import__(''.join(['un', 'seen']))\nimport json, sys\n"
    home.file("hooks/check.py", SCRIPT.replace("import json, sys\n", more), 0o755)
    home.file("elsewhere/unseen.py", "word = 'loaded'")
    configured(home)
    eventually(lambda: "is not covered by the hook's approval; run `billhook trust`" in _errors(home), 30)


def _errors(home: Home) -> str:
    home.ask()
    return str(home.records()[-1]["outcomes"])


@pytest.mark.parametrize("place", ["hook", "file", "user"])
def test_it_can_be_switched_off(home: Home, place: str) -> None:
    if place == "user":
        home.own("warm: false\nhooks: {}")
    configured(home, ", warm: false" if place == "hook" else "")
    if place == "file":
        home.file(".billhook/hooks.yaml", "warm: false\n" + HOOK.format(more=""))
        home.approve()
    for _ in range(4):
        assert b"plain Bash approved" in home.ask().stdout
    assert "not warm: `warm: false`" in home.billhook("list").stdout


def test_the_list_shows_it(home: Home) -> None:
    configured(home)
    assert "approved   warm   .billhook/hooks.yaml:1" in home.billhook("list").stdout
    home.file(".billhook/hooks.yaml", "hooks: {check: {events: PreToolUse, run: python3 hooks/check.py | cat}}")
    home.approve()
    assert "not warm: shell syntax: `| cat`" in home.billhook("list").stdout


def test_the_doctor_reports_a_parent_that_ended(home: Home) -> None:
    configured(home)
    becomes_warm(home)
    daemon = home.children[0].pid
    children = Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()
    for pid in children:
        if b"warm_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(int(pid), signal.SIGKILL)
    eventually(lambda: b"approved" in home.ask().stdout and DaemonState(home.root).status.warm, 30)  # type: ignore[union-attr]
    found = [one for one in DaemonState(home.root).findings() if one.level == "warn"]
    assert [one.text.partition(":")[0] for one in found] == ["warm interpreters"]
    becomes_warm(home)


def test_nothing_outlives_the_daemon(home: Home) -> None:
    configured(home)
    becomes_warm(home)
    daemon = home.children[0].pid
    children = Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()
    assert children
    os.kill(daemon, signal.SIGKILL)
    home.children[0].wait()
    eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in children), 10)
