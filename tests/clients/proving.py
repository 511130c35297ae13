"""Runs a case on a real agent with billhook installed into it, and says what was seen."""

import os
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from billhook.hosts import HOSTS
from clients.agents import AGENTS, Agent, Place
from clients.cases import Case
from clients.running import TESTS, Ran, Run, run

BILLHOOK: Final = os.path.join(sysconfig.get_path("scripts"), "billhook")


class Seen(msgspec.Struct, frozen=True):
    """What was promised and what was seen, and the run as evidence."""

    host: str
    case: str
    promised: str
    seen: str
    ran: Ran

    @property
    def kept(self) -> bool:
        return self.promised == self.seen


def prove(host: str, case: Case, binary: Path, scope: str = "--user") -> Seen:
    """One run in a folder of its own. A host is an agent, or `copilot-claude`: Copilot with Claude Code's entries."""
    agent = AGENTS[host.partition("-")[0]]
    with tempfile.TemporaryDirectory(prefix="bh-", ignore_cleanup_errors=True) as folder:
        place = Place(Path(folder).resolve())
        ran = run(_run(host, agent, case, binary, place, scope))
        return Seen(host, case.name, case.promised(agent.name), case.seen(ran, place), ran)


def _run(host: str, agent: Agent, case: Case, binary: Path, place: Place, scope: str) -> Run:
    installed = "claude" if host == "copilot-claude" else host
    before: list[Sequence[str]] = [[BILLHOOK, "install", installed, scope]]
    if case.short:
        file = HOSTS[installed].user_file if scope == "--user" else HOSTS[installed].project_file
        path = str((place.home if scope == "--user" else place.project) / file)
        event = HOSTS[installed].spellings["PreToolUse"]
        before.append([sys.executable, str(TESTS / "clients" / "shorten.py"), path, event, "2000", "15"])
    return Run(
        agent.name,
        str(binary),
        str(place.root),
        case.calls(agent, place.project),
        files={"home/.config/billhook/hooks.yaml": case.hooks},
        environ=case.environ,
        before=before,
        after=[[BILLHOOK, "daemon", "stop", "--force"]],
        seconds=60,
    )
