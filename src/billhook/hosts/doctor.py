"""`billhook doctor`: whether an agent really asks billhook, and what keeps it from that."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from billhook.agents import AGENTS
from billhook.agents.base import Agent
from billhook.hosts.doctor_daemon import Daemon
from billhook.hosts.doctor_entries import Files, Installation, by_another_file, entry_findings
from billhook.hosts.doctor_finding import Finding, all_well
from billhook.hosts.doctor_hooks import hook_findings, log_findings
from billhook.hosts.doctor_programs import path_of, program_finding
from billhook.hosts.programs import agents_here
from billhook.hosts.trusting import trust_findings


class Report(msgspec.Struct, frozen=True):
    """What was found about one agent."""

    host: Agent
    installed: tuple[Installation, ...]
    findings: tuple[Finding, ...]

    @property
    def well(self) -> bool:
        return all_well(self.findings)


def hosts_here(project: str, root: Path) -> list[Agent]:
    """The agents that are on this machine, or have entries of ours."""
    seen = agents_here("user", project)
    return [
        host for host in AGENTS.values() if seen[host.name] or path_of(host) or Files(host, project, root).installed
    ]


def examined(host: Agent, project: str, root: Path, daemon: Daemon, *, asked: bool = True) -> Report:
    """Look at one agent. Nothing is changed, and no agent is started.

    `asked`: it is the agent's own turn; else it is only one of those that are here.
    """
    files = Files(host, project, root)
    others = by_another_file(host, project, root)
    findings = _findings(host, project, files, others, daemon, asked)
    return Report(host, (*files.installed, *others), tuple(findings))


def _findings(
    host: Agent, project: str, files: Files, others: list[Installation], daemon: Daemon, asked: bool
) -> Iterator[Finding]:
    installed = [*files.installed, *others]
    yield program_finding(host)
    yield from entry_findings(files, others, asked=asked)
    if not installed:
        return
    yield from daemon.listens(said.address for one in installed for said in one.calls() if said.address)
    yield from trust_findings(host, project, installed)
    yield from hook_findings(host, project)
    yield from log_findings(host, project)
