"""The screens of docs/shadow.md and docs/doctor.md are real. Shadow mode and exceptions need a person at a terminal,
and the doctor needs agents, so these pages are not replayed like the others."""

import json
import re
import shlex
from pathlib import Path

import pytest

from hosts.test_canary import ASKS, agent
from hosts.test_coverage import Claude, judge
from hosts.test_doctor import Person, me

__all__ = ["me"]
DOCS = Path(__file__).parent.parent.parent / "docs"
PUSHES = ["git push origin fix", "git push", "git push origin main"]
VARIES = [
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<time>"),
    (r"\b\d\d:\d\d\b", "<time>"),
    (r"\(01[0-9a-f]{10}\)", "(<id>)"),
    (r"(?<=allow-once )\w{6}|^[A-Z0-9]{6}(?=  )", "<CODE>"),
    (r"\d+\.\d s\b", "N.N s"),
]


def shown(page: str) -> dict[str, str]:
    """The page's screens, by their command."""
    blocks = re.findall(r"```(?:console)?\n\$ (billhook [^\n#]+)\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return {command: steady(text) for command, text in blocks}


def steady(text: str) -> str:
    for pattern, instead in VARIES:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


class Shop(Person):
    """A project `~/shop`, as the pages have it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.project = self.home / "shop"
        (self.project / ".git").mkdir(parents=True)

    def plain(self, text: str) -> str:
        text = super().plain(text).replace("\r", "")
        return steady(text.replace("<here>/home/shop", "~/shop").replace("<here>/bin", "/usr/local/bin"))

    def call(self, command: str) -> str:
        """What Claude Code gets when it is about to run a command."""
        event = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(self.project), "tool_name": "Bash"}
        event |= {"tool_input": {"command": command}, "tool_use_id": "t"}  # type: ignore[dict-item]
        ended = self.run("hook", "--as", "claude", stdin=json.dumps(event).encode())
        assert ended.code == 0, ended
        return ended.out

    def screen(self, *arguments: str, yes: bool = False) -> str:
        """On a terminal. A yes is echoed, as in the page."""
        typed = [("[y/N] ", "y\n")] if yes else []
        ended = self.typing(*arguments, answers=typed, NO_COLOR="1", COLUMNS="80")
        return ended.out.replace("[y/N] ", "[y/N] y\n", 1) if yes else ended.out


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_shadow_mode_and_exceptions(shop: Shop) -> None:
    """Report, promotion, one call, a pause and a test case, one after the other."""
    page = (DOCS / "shadow.md").read_text()
    screens = shown("shadow.md")
    shop.own(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    for command in PUSHES:
        assert shop.call(command) == ""
    assert shop.screen("shadow") == screens["billhook shadow"]
    assert shop.screen("promote", "no-push", yes=True) == screens["billhook promote no-push"]
    denied = json.loads(shop.call("git push origin x"))["hookSpecificOutput"]["permissionDecisionReason"]
    assert f"```\n{steady(denied)}\n```" in steady(page)  # the answer to Claude Code
    (code,) = re.findall(r"allow-once (\w{6})`", denied)
    allowing = next(command for command in screens if command.startswith("billhook allow-once"))
    assert shop.screen("allow-once", code, yes=True) == screens[allowing]
    assert shop.screen("pause", "30m") == screens["billhook pause 30m"]
    records = map(json.loads, shop.run("events", "--json").out.splitlines())
    denial = next(str(record["seq"]) for record in records if record["decision"] == "deny")
    saving = next(command for command in screens if command.startswith("billhook events save"))
    options = shlex.split(saving)[4:]
    assert shop.run("events", "save", denial, *options).out == screens[saving]


def test_the_doctor(shop: Shop) -> None:
    """An agent that skips billhook's entries, a canary that fires, and calls that no hook saw."""
    screens = shown("doctor.md")
    agent(shop, "#!/bin/sh\n", "codex")
    assert shop.alone("install", "codex", "--program", str(shop.bin)).code == 0
    assert shop.doctor("codex").out == screens["billhook doctor codex"]
    tag = f"exec -a tag-{shop.folder.name} sleep 600.5"
    agent(shop, ASKS.replace("sleep 600.5 TAG", tag).replace("#!/bin/sh", "#!/bin/bash"))
    (shop.bin / "sleep").symlink_to("/bin/sleep")
    assert shop.alone("install", "claude", "--program", str(shop.bin)).code == 0
    try:
        assert shop.doctor("claude", "codex", "--canary").out == screens["billhook doctor claude codex --canary"]
    finally:
        shop.alone("daemon", "stop")


def test_calls_that_no_hook_saw(shop: Shop) -> None:
    """A session of Claude Code that began before billhook was installed."""
    transcript = Claude(shop)
    early = "2026-11-16T09:27:02.000Z"
    transcript.call("toolu_1", "Bash", early, command="npm test")
    transcript.call("toolu_2", "Write", early, file_path="app.txt", content="x")
    now = judge(shop, "toolu_3")
    transcript.call("toolu_3", "Bash", now, command="true")
    transcript.call("toolu_4", "NoSuch", now, "<tool_use_error>Error: No such tool available: NoSuch</tool_use_error>")
    Claude(shop, agent="a341e55a").call("toolu_5", "Bash", early, command="git status")
    assert shop.doctor("claude", "--coverage").out == shown("doctor.md")["billhook doctor claude --coverage"]
