"""The real Claude Code waits, without a user, while a person answers its question in a terminal."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from approvals.asking import approvals
from billhook.approvals.queue import Questions, QueuedQuestion
from billhook.serve import control
from cli.place import Place as User
from clients.agents import AGENTS, Place, find
from clients.proving import BILLHOOK, installing
from clients.running import CanaryRun, Run, run
from clients.script import Script, Step
from daemon.running import eventually

pytestmark = pytest.mark.slow
TESTS = Path(__file__).parents[1]


def _run(binary: Path, place: Place) -> CanaryRun:
    agent = AGENTS["claude"]
    script = Script([Step(calls=[agent.shell("touch marker # git push origin main")]), Step("all done")])
    hooks = approvals("50s").replace("Bash(git push *)", "Bash(touch *)")
    return run(
        Run(
            "claude",
            str(binary),
            str(place.root),
            script,
            files={"home/.config/billhook/hooks.yaml": hooks},
            before=[*installing(agent, place, "--user")],
            after=[[BILLHOOK, "daemon", "stop", "--force"]],
        )
    )


def _in_a_terminal(place: Place, question: QueuedQuestion, *, allow: bool) -> None:
    (place.root / "person").mkdir()
    words = ["allow", question.code] if allow else ["deny", question.code, "--reason", "use a branch"]
    state = str(place.home / ".claude")
    ended = User(place.root / "person").typing("approvals", *words, answers=[], BILLHOOK_HOME=state)
    assert ended.code == 0, ended


_VISIT = """
import sys
from pathlib import Path
from playwright.sync_api import sync_playwright
from billhook.serve import control
with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=sys.argv[2], args=["--no-sandbox", "--disable-gpu"])
    page = browser.new_page()
    page.set_default_timeout(30_000)
    page.goto(control.page_link(Path(sys.argv[1])).url)
    page.wait_for_selector(".question")
    if sys.argv[3] == "False":
        page.fill("input[aria-label='Reason for a denial']", "use a branch")
    page.click("text=Allow once" if sys.argv[3] == "True" else ".question >> text=Deny")
    page.wait_for_selector(".answered")
    browser.close()
"""


def _namespace(pid: str, kind: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{kind}")


def _daemon(place: Place) -> str:
    """The process of the daemon. In the namespace of the agent it has another number."""
    inside = str(control.holder(control.folder_of(place.home / ".claude")))
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            (numbers,) = re.findall(r"^NSpid:(.*)$", (folder / "status").read_text(), re.MULTILINE)
            if numbers.split()[-1] == inside and os.fsencode(place.home) in (folder / "environ").read_bytes():
                return folder.name
    raise LookupError(inside)


def _on_the_page(place: Place, question: QueuedQuestion, *, allow: bool) -> None:
    """In Chromium, beside the daemon: agents are run with loopback alone."""
    chromium = shutil.which("chromium-headless-shell")
    if chromium is None or importlib.util.find_spec("playwright") is None:
        pytest.skip("scripts/browser installs Chromium")
    root, daemon = place.home / ".claude", _daemon(place)
    kinds = {"user": ["-U", "--preserve-credentials"], "net": ["-n"]}  # what is in others ends with the agent
    others = [flags for kind, flags in kinds.items() if _namespace("self", kind) != _namespace(daemon, kind)]
    enter = ["nsenter", "-t", daemon, *(flag for flags in others for flag in flags)]
    argv = [*enter, sys.executable, "-c", _VISIT, str(root), chromium, str(allow)]
    ended = subprocess.run(argv, cwd=TESTS, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("allow", [True, False], ids=["allow", "deny"])
@pytest.mark.parametrize("answer", [_in_a_terminal, _on_the_page])
def test_claude_code_waits_for_a_person(answer: Callable[..., None], *, allow: bool) -> None:
    """After an allow the command runs; after a deny it does not, and the model gets the reason."""
    binary = find(AGENTS["claude"])
    if binary is None:
        pytest.skip("Claude Code is not here: scripts/clients --install gets it")
    with (
        tempfile.TemporaryDirectory(prefix="bh-", ignore_cleanup_errors=True) as folder,
        ThreadPoolExecutor(1) as agent,
    ):
        place = Place(Path(folder).resolve())
        running = agent.submit(_run, binary, place)
        questions = Questions(place.home / ".claude")
        (one,) = eventually(questions.pending, 90)
        assert not running.done() and not (place.project / "marker").exists()
        answer(place, one, allow=allow)
        ran = running.result()
        assert (place.project / "marker").exists() is allow, (ran.stdout, ran.stderr)
        assert ran.model_saw(": use a branch") is not allow
