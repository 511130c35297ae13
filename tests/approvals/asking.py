"""What tests of approvals share: a hook that asks, a call, a question, an answer in a real terminal."""

import json
import time
from pathlib import Path
from typing import Any

from billhook.approvals.queue import Questions, QueuedQuestion, new_id
from cli.place import Place
from cli.terminal import Ended
from daemon.running import Home, Reply, eventually

PUSH = "git push origin main"
ASKS = """
hooks:
  push:
    events: PreToolUse
    if: Bash(git push *)
    ask: push to a remote?
"""
QUEUED = f"{ASKS.rstrip()}\n    approve: queue\n"


def approvals(time: str = "20s", more: str = "", channels: str = "[]") -> str:
    return f"approvals:\n  time: {time}\n  channels: {channels}\n{more}{ASKS}"


def question(key: str = "k", *, seconds: float = 60, **fields: Any) -> QueuedQuestion:
    now = time.time()
    about = {"session": "s", "project": "/p", "agent": "claude", "event": "PreToolUse", "tool": "Bash"}
    call = {"call": "Bash: ls", "reason": "list?", "hooks": ("h",), "asked": now, "until": now + seconds, "key": key}
    return QueuedQuestion(**{"id": new_id(), "code": "K7QF2M", **about, **call, **fields})


def push(home: Home, command: str = PUSH, mode: str = "dontAsk", **fields: Any) -> dict[str, Any]:
    return home.event(tool_input={"command": command}, permission_mode=mode, **fields)


def waiting(home: Home, many: int = 1) -> list[QueuedQuestion]:
    """The questions, once so many wait."""
    questions = Questions(home.root)
    eventually(lambda: len(questions.pending()) >= many)
    return questions.pending()


def decision(reply: Reply) -> str:
    said = json.loads(reply.stdout) if reply.stdout else {}
    return str(said.get("hookSpecificOutput", {}).get("permissionDecision", "none"))


def reason(reply: Reply) -> str:
    return str(json.loads(reply.stdout)["hookSpecificOutput"]["permissionDecisionReason"])


def in_terminal(home: Home, folder: Path, *words: str) -> Ended:
    """`billhook approvals ...` in a terminal of its own, as a child of init, with the state of `home`."""
    folder.mkdir()
    return Place(folder).typing("approvals", *words, answers=[], BILLHOOK_HOME=str(home.root))
