"""`billhook install`, `uninstall` and `doctor`: billhook's entries in the files of coding agents."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from billhook import __version__
from billhook.agents import AGENTS
from billhook.agents.base import Agent
from billhook.cli import times
from billhook.cli.doctor.entries import (
    InstalledEntries,
    SettingsPair,
    by_another_file,
    entry_findings,
    path_of,
    program_finding,
)
from billhook.cli.doctor.finding import DoctorFinding, all_well
from billhook.cli.doctor.hooks import DaemonState, head_findings, hook_findings, is_logged, log_findings, trust_findings
from billhook.cli.install import ALL, ANOTHER, READS_OTHERS, project_here
from billhook.cli.install.files import agents_here
from billhook.cli.options import agent_around, loaded
from billhook.cli.screen import filled, first_problem, note, say, shown_path
from billhook.cli.times import ago
from billhook.core import strictjson
from billhook.core.errors import UsageError
from billhook.core.text import one_line, suggest
from billhook.store.files import state_root

if TYPE_CHECKING:
    from billhook.cli.doctor.coverage import Coverage, LoggedCalls


# `billhook doctor`:


class AgentReport(msgspec.Struct, frozen=True):
    """What was found about one agent."""

    host: Agent
    installed: tuple[InstalledEntries, ...]
    findings: tuple[DoctorFinding, ...]

    @property
    def well(self) -> bool:
        return all_well(self.findings)


def hosts_here(project: str, root: Path) -> list[Agent]:
    """The agents that are on this machine, or have entries of ours."""
    seen = agents_here("user", project)
    return [
        host
        for host in AGENTS.values()
        if seen[host.name] or path_of(host) or SettingsPair(host, project, root).installed
    ]


def examined(host: Agent, project: str, root: Path, daemon: DaemonState, *, asked: bool = True) -> AgentReport:
    """Look at one agent. Nothing is changed, and no agent is started.

    `asked`: it is the agent's own turn; else it is only one of those that are here.
    """
    files = SettingsPair(host, project, root)
    others = by_another_file(host, project, root)
    findings = _findings(host, project, files, others, daemon, asked)
    return AgentReport(host, (*files.installed, *others), tuple(findings))


def _findings(
    host: Agent, project: str, files: SettingsPair, others: list[InstalledEntries], daemon: DaemonState, asked: bool
) -> Iterator[DoctorFinding]:
    installed = [*files.installed, *others]
    yield program_finding(host)
    yield from entry_findings(files, others, asked=asked)
    if not installed:
        return
    yield from daemon.listens(said.address for one in installed for said in one.calls() if said.address)
    yield from trust_findings(host, project, installed)
    yield from hook_findings(host, project)
    yield from log_findings(host, project)


# What `billhook doctor` shows.


_COLOURS: Final = {"ok": "green", "unknown": None, "warn": "yellow", "fail": "red"}
_WORDS: Final = {"unknown": "?"}
_INDENT: Final = 19
_LONGEST_PATH: Final = 300


def screen(project: str, general: Sequence[DoctorFinding], reports: Sequence[AgentReport]) -> Iterator[str]:
    """Every agent with its findings, the daemon, and the sum of it."""
    head = click.style(f"billhook {__version__}", bold=True)
    yield f"{head} in {one_line(shown_path(project, here=False), _LONGEST_PATH)}"
    for report in reports:
        yield ""
        yield click.style(report.host.title, bold=True)
        yield from lines(report.findings)
    yield ""
    yield click.style("billhook itself", bold=True)
    yield from lines(general)
    yield ""
    yield _sum([*general, *(one for report in reports for one in report.findings)])


def lines(findings: Iterable[DoctorFinding]) -> Iterator[str]:
    """A line or more for each finding, and its remedy below it."""
    for one in findings:
        word = click.style(f"{_WORDS.get(one.level, one.level):<5}", fg=_COLOURS[one.level])
        first, *rest = filled(with_age(one.text), _INDENT)
        yield f"  {word} {one.about:<10} {first.strip()}"
        yield from rest
        if one.remedy:
            yield from filled(f"-> {one.remedy}", _INDENT)


def with_age(text: str) -> str:
    """A time of the log as people say it."""
    said, found, when = text.partition(" last asked at ")
    return f"{said} last asked {ago(when)}" if found else text


def _sum(findings: Sequence[DoctorFinding]) -> str:
    levels = [one.level for one in findings]
    if all_well(findings):
        return click.style("all is well", fg="green")
    counts = [f"{levels.count(level)} {level}" for level in ("fail", "warn") if level in levels]
    return ", ".join(counts)


def beginning(project: str, reports: Sequence[AgentReport], step: str) -> Iterator[str]:
    """What to do where no agent asks billhook."""
    yield f"no agent asks billhook in {one_line(shown_path(project, here=False), _LONGEST_PATH)}"
    yield ""
    if reports:
        yield "found here"
        for report in reports:
            programs = [one.text for one in report.findings if one.about == "program"]
            yield from filled(f"{report.host.title}: {programs[0]}", 2)
        yield from _problems(reports)
    else:
        yield "no coding agent was found: none is on PATH, none has a folder in your home"
    yield ""
    yield "begin with"
    names = " ".join(report.host.name for report in reports) or "claude"
    yield f"  billhook install {names}"
    yield f"  {step}"


def _problems(reports: Sequence[AgentReport]) -> Iterator[str]:
    """Files that are broken are worth a word even then."""
    wrong = [one for report in reports for one in report.findings if not one.well and "not installed" not in one.text]
    yield from ([""] if wrong else [])
    yield from lines(wrong)


def as_data(project: str, general: Sequence[DoctorFinding], reports: Sequence[AgentReport]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "version": __version__,
        "project": project,
        "ok": bool(reports) and all_well(general) and all(report.well for report in reports),
        "daemon": [_finding(one) for one in general],
        "agents": [
            {
                "agent": report.host.name,
                "title": report.host.title,
                "ok": report.well,
                "installed": [
                    {"scope": one.scope, "file": one.path, "events": list(one.events)} for one in report.installed
                ],
                "findings": [_finding(one) for one in report.findings],
            }
            for report in reports
        ],
    }


def proved(found: Sequence[tuple[Agent, DoctorFinding]], *, asked: bool) -> bool:
    """Whether hooks have fired: in every agent that was asked for, or in all of those here that can be started."""
    levels = [one.level for _, one in found]
    return "ok" in levels and all(level == "ok" or (level == "unknown" and not asked) for level in levels)


def canary_data(project: str, found: Sequence[tuple[Agent, DoctorFinding]], *, asked: bool) -> dict[str, Any]:
    """What came of starting agents, for programs."""
    return {
        "project": project,
        "ok": proved(found, asked=asked),
        "agents": [{"agent": host.name, **_finding(one)} for host, one in found],
    }


def _finding(one: DoctorFinding) -> dict[str, str]:
    return {"level": one.level, "about": one.about, "text": one.text, "remedy": one.remedy}


# `billhook doctor`:


def _readable(field: str) -> list[str]:
    """The names or titles of the agents whose transcripts can be read."""
    return [getattr(host, field) for host in AGENTS.values() if host.transcripts]


_HELP = f"""Say whether an agent really asks billhook here, and what keeps it from that.

Is it installed, does the entry lead to this billhook in time, is the folder trusted by that agent, does the daemon
answer, which hooks apply. Each finding has what mends it. Nothing is changed.

--canary proves it: the agent is started in this folder with a prompt that has a word of our own in it, and with the
address of its model leading nowhere; when that prompt is in the event log, the agent has asked. --coverage counts
the tool calls in the transcripts of {" and ".join(_readable("title"))}, and those that no hook ever saw.
"""


@click.command(
    "doctor",
    help=_HELP,
    epilog=f"""\b
Examples:
  billhook doctor                       every agent that is here
  billhook doctor claude {ANOTHER}          these
  billhook doctor {ANOTHER} --canary        start it for a moment, and see whether it asks
  billhook doctor --coverage --since 1w what no hook saw of the last week
  billhook doctor --json | jq -r '.agents[].findings[] | select(.level == "fail") | .remedy'

\b
Exit code: 0 all is well; 1 something has to be mended; 2 it can't be asked like that.""",
)
@click.argument("agents", nargs=-1, metavar=f"[{'|'.join(AGENTS)}|all]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--canary", is_flag=True, help="Start the agent without a model, and see whether it asks billhook.")
@click.option("--coverage", is_flag=True, help="Hold the agent's own transcripts against the event log.")
@times.option("--since", end=False, help="With --coverage: only calls since then.")
def verb(agents: tuple[str, ...], as_json: bool, canary: bool, coverage: bool, since: str | None) -> int:
    if since is not None and not coverage:
        raise UsageError("--since is for --coverage", hint="say both, or neither")
    if canary:
        _refuse_agents()
    here = _DoctorScope(agents)
    if coverage:
        return here.show_coverage(as_json, since or "")
    if canary:
        return here.show_canary(as_json)
    return here.show(as_json)


def _first_step() -> str:
    """What a folder needs before an agent is of use there."""
    config = loaded(())
    if first_problem(config.problems):
        return "billhook check"
    return "billhook list" if config.entries else "billhook init"


class _DoctorScope:
    """What is asked about: this project, and some agents."""

    def __init__(self, agents: tuple[str, ...]) -> None:
        self.root, self.project, self.asked = state_root(), project_here("user"), bool(agents)
        self.hosts = _named(agents) or hosts_here(self.project, self.root)
        self.daemon = DaemonState(self.root)
        self.general = [*self.daemon.findings(), *head_findings(self.project, self.root)]

    def report(self, host: Agent) -> AgentReport:
        return examined(host, self.project, self.root, self.daemon, asked=self.asked)

    def show(self, as_json: bool) -> int:
        reports = [self.report(host) for host in self.hosts]
        if as_json:
            say(strictjson.dumps(as_data(self.project, self.general, reports)))
        elif self.asked or any(report.installed for report in reports):
            say("\n".join(screen(self.project, self.general, reports)))
        else:
            say("\n".join(beginning(self.project, reports, _first_step())))
        return 0 if reports and all(report.well for report in reports) and all_well(self.general) else 1

    def show_canary(self, as_json: bool) -> int:
        """One agent after the other: each takes the time it needs."""
        found = []
        for report in map(self.report, self.hosts):
            if not self.asked and not (report.installed and path_of(report.host)):
                continue
            one = self._canary(report, as_json)
            found.append((report.host, one))
            if not as_json:
                say("\n".join([report.host.title, *lines([one])]))
        if as_json:
            say(strictjson.dumps(canary_data(self.project, found, asked=self.asked)))
        elif not found:
            say("no agent that asks billhook is on PATH here\n\nbegin with `billhook install claude`")
        return 0 if proved(found, asked=self.asked) else 1

    def _canary(self, report: AgentReport, as_json: bool) -> DoctorFinding:
        from billhook.cli.doctor.canary import canary_finding, not_possible

        events = [event for one in report.installed for event in one.events]
        logged = is_logged(report.host, self.project)
        if refusal := not_possible(report.host, events, logged=logged):
            return refusal
        if not as_json:
            note(f"{report.host.title} is started for a moment, without a model ...")
        return canary_finding(report.host, self.project, self.root, [*report.findings, *self.general])

    def show_coverage(self, as_json: bool, since: str) -> int:
        from billhook.cli.doctor.coverage import coverage_data, coverage_lines

        hosts = [host for host in self.hosts if host.transcripts]
        if not hosts and self.asked:
            titles, names = " and ".join(_readable("title")), " or ".join(_readable("name"))
            raise UsageError(f"only the transcripts of {titles} can be read", hint=f"name {names}")
        found = [self._coverage(host, since) for host in hosts]
        if as_json:
            well = all(one.well for one in found)
            agents = [coverage_data(one) for one in found]
            say(strictjson.dumps({"project": self.project, "ok": well, "since": since or None, "agents": agents}))
        else:
            texts = ["\n".join(coverage_lines(one)) for one in found]
            say("\n\n".join(texts) or f"neither {' nor '.join(_readable('title'))} was found here")
        return 0 if all(one.well for one in found) else 1

    def _coverage(self, host: Agent, since: str) -> "Coverage":
        from billhook.cli.doctor.coverage import Reasons, compared

        report = self.report(host)
        events = [event for one in report.installed for event in one.events]
        logged = is_logged(host, self.project)

        def why(seen: "LoggedCalls") -> Reasons:
            return Reasons(host, seen, report.findings, events, logged=logged)

        return compared(host, self.project, self.root, why, since)


def _refuse_agents() -> None:
    """Who is judged by hooks starts no agents to try them."""
    if agent := agent_around():
        raise UsageError(
            f"--canary is refused here: this runs inside {agent}, and it would start an agent",
            hint="run it yourself, in a terminal of your own; without --canary it is open to everybody",
        )


def _named(agents: tuple[str, ...]) -> list[Agent]:
    for name in agents:
        if name not in AGENTS and name != ALL:
            raise UsageError(f"no agent `{name}`", hint=READS_OTHERS.get(name) or suggest(name, (*AGENTS, ALL)))
    if ALL in agents:
        return list(AGENTS.values())
    return [AGENTS[name] for name in dict.fromkeys(agents)]
