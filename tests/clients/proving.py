"""Runs a case on a real agent with billhook installed, and reports the result."""

import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from billhook.agents import AGENTS as HOSTS
from billhook.agents.base import can
from clients.agents import AGENTS, Agent, Place
from clients.case import Case
from clients.recording import recorder_files, recorder_path
from clients.running import TESTS, CanaryRun, Run, run

BILLHOOK: Final = os.path.join(sysconfig.get_path("scripts"), "billhook")


class KnownValue(msgspec.Struct, frozen=True):
    """The promised and the actual result, with the run as evidence."""

    host: str
    case: str
    promised: str
    seen: str
    ran: CanaryRun

    @property
    def kept(self) -> bool:
        return self.seen == self.promised or (self.ends and self.seen in ("not run", "not run, ended"))

    @property
    def ends(self) -> bool:
        """Whether a deny was promised, and it ends the run of this agent: then the model can't be told."""
        denied = self.promised == "not run, told"
        return denied and bool(can(AGENTS[self.host].speaks, "PreToolUse").becomes("deny"))


def prove(host: str, case: Case, binary: Path, scope: str = "") -> KnownValue:
    """One run in a temporary folder, with billhook installed; `scope` replaces the agent's usual one."""
    agent = AGENTS[host]
    with tempfile.TemporaryDirectory(prefix="bh-", ignore_cleanup_errors=True) as folder:
        place = Place(Path(folder).resolve())
        ran = run(_run(agent, case, binary, place, scope or agent.scope))
        return KnownValue(host, case.name, case.promised(agent.speaks), case.seen(ran, place), ran)


def _run(agent: Agent, case: Case, binary: Path, place: Place, scope: str) -> Run:
    return Run(
        agent.name,
        str(binary),
        str(place.root),
        case.calls(agent, place.project),
        files=_files(case, place),
        environ={**case.environ, "PATH": recorder_path(place)} if case.recorded else case.environ,
        words=[str(case.times[0] / 1000)] if case.times and not agent.installs else [],
        before=[*_before(case, place), *installing(agent, place, scope, case)],
        after=[[BILLHOOK, "daemon", "stop", "--force"]],
        seconds=180,
    )


def _files(case: Case, place: Place) -> Mapping[str, str]:
    hooks = {"home/.config/billhook/hooks.yaml": case.hooks} if case.hooks else {}
    return {**hooks, **recorder_files(place, case.recorded)} if case.recorded else hooks


def _before(case: Case, place: Place) -> Iterator[Sequence[str]]:
    if case.recorded:
        yield ["chmod", "-R", "+x", str(place.root / "bin")]
    yield from case.before


def installing(agent: Agent, place: Place, scope: str, case: Case | None = None) -> Iterator[Sequence[str]]:
    """The commands that install billhook for an agent; a case may change the times of its entries, or break them."""
    if not agent.installs:
        return
    host = HOSTS[agent.installs]
    program = ["--program", os.path.dirname(BILLHOOK)] if scope == "--user" else []  # wherever this checkout is
    only = ["--events", case.needs] if case and case.missing else []
    yield [BILLHOOK, "install", host.name, scope, *program, *only]
    path = str(place.home / host.user_file if scope == "--user" else place.project / host.project_file)
    if case and case.missing:
        yield ["sed", "-i", "s/billhook-hook/no-billhook-here/g", path]
    if case and case.times:
        retime = str(TESTS / "clients" / "retime.py")
        yield [sys.executable, retime, host.name, path, host.spellings["PreToolUse"], *map(str, case.times)]
