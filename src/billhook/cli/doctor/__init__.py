"""`billhook doctor`: whether agents really call billhook here, and if not, why."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from billhook import __version__
from billhook.agents import AGENTS
from billhook.agents.base import Agent
from billhook.cli import times
from billhook.cli.doctor import checks
from billhook.cli.install import ANOTHER, named, project_here
from billhook.cli.install.entries import agents_here
from billhook.cli.options import complete_among, flag, loaded, refuse_agents
from billhook.cli.screen import beside, coloured, filled, first_problem, note, report, shown_path, write
from billhook.cli.times import ago
from billhook.core.errors import UsageError
from billhook.core.text import counted, joined, visible
from billhook.store.files import state_root

if TYPE_CHECKING:
    from billhook.cli.doctor.proof import Coverage


class AgentReport(msgspec.Struct, frozen=True):
    host: Agent
    installed: tuple[checks.InstalledEntries, ...]
    findings: tuple[checks.DoctorFinding, ...]

    @property
    def well(self) -> bool:
        return checks.all_well(self.findings)

    @property
    def events(self) -> list[str]:
        """The events for which the agent calls billhook, by canonical names."""
        return [event for one in self.installed for event in one.events]


def examined(host: Agent, project: str, root: Path, daemon: checks.DaemonState, *, asked: bool = True) -> AgentReport:
    """Examine one agent. Nothing is changed, and no agent is started.

    `asked`: the user named this agent; otherwise it is one of those found here.
    """
    files = checks.SettingsPair(host, project, root)
    claude = checks.SettingsPair(AGENTS["claude"], project, root).installed if host.reads_claude else []
    others = [one for one in claude if one.scope in host.reads_claude]  # in files that this agent also reads
    installed = (*files.installed, *others)
    findings = [checks.program_finding(host), *checks.entry_findings(files, others, asked=asked)]
    if installed:
        findings += daemon.listens(call.address for one in installed for call in one.calls() if call.address)
        findings += checks.trust_findings(host, project, installed)
        findings += checks.hook_findings(host, project)
        findings += checks.log_findings(host, project)
    return AgentReport(host, installed, tuple(findings))


# The screen of `billhook doctor`:
_WORDS: Final = {"unknown": "note"}  # on the screen, both are worth knowing


def screen(project: str, general: Sequence[checks.DoctorFinding], reports: Sequence[AgentReport]) -> Iterator[str]:
    """Every agent with its findings, billhook itself, and a summary."""
    head = click.style(f"billhook {__version__}", bold=True)
    yield f"{head} in {visible(shown_path(project, here=False))}"
    for about in reports:
        yield from ("", click.style(about.host.title, bold=True))
        yield from lines(about.findings)
    yield from ("", click.style("billhook itself", bold=True))
    yield from lines(general)
    yield ""
    levels = [one.level for one in (*general, *(one for about in reports for one in about.findings))]
    names = {"fail": "failure", "warn": "warning"}
    wrong = [counted(levels.count(level), name) for level, name in names.items() if level in levels]
    yield ", ".join(wrong) or click.style("no problems found", fg="green")


def lines(findings: Iterable[checks.DoctorFinding]) -> Iterator[str]:
    for one in findings:
        word = coloured(f"{_WORDS.get(one.level, one.level):<5}", one.level)
        text, timed, when = one.text.partition(checks.LAST_CALL)
        told = f"{text} last called billhook {ago(when)}" if timed else text
        yield from beside(f"  {word} {one.about:<10} ", told)
        if one.remedy:
            yield from filled(f"-> {one.remedy}", 19, hang=3)


def beginning(project: str, general: Sequence[checks.DoctorFinding], reports: Sequence[AgentReport]) -> Iterator[str]:
    """The screen if no agent calls billhook: what to do first."""
    yield f"no agent calls billhook in {visible(shown_path(project, here=False))}"
    yield ""
    if reports:
        yield "found here"
        for about in reports:
            program = next(one.text for one in about.findings if one.about == "program")
            yield from filled(f"{about.host.title}: {program}", 2)
        findings = [one for about in reports for one in about.findings]
        wrong = [one for one in findings if not one.well and "not installed" not in one.text]
        yield from ([""] if wrong else [])
        yield from lines(wrong)
    else:
        yield "no coding agent was found on PATH or in your home folder"
    yield ""
    yield from lines([one for one in general if one.about in ("hooks", "guard", "fleet")])
    names = " ".join(about.host.name for about in reports) or "claude"
    config = loaded(())
    step = "check" if first_problem(config.problems) else "list" if config.entries else "init"
    yield from ("", "start with", f"  billhook install {names}", f"  billhook {step}")
    yield "  billhook replay --transcripts    what the guard would have stopped so far"


def as_data(project: str, general: Sequence[checks.DoctorFinding], reports: Sequence[AgentReport]) -> dict[str, Any]:
    return {
        "version": __version__,
        "project": project,
        "ok": bool(reports) and checks.all_well(general) and all(about.well for about in reports),
        "daemon": [one for one in general if one.about != "guard"],
        "guard": [one for one in general if one.about == "guard"],
        "agents": [
            {
                "agent": about.host.name,
                "title": about.host.title,
                "ok": about.well,
                "installed": [{"scope": one.scope, "file": one.path, "events": one.events} for one in about.installed],
                "findings": about.findings,
            }
            for about in reports
        ],
    }


# `billhook doctor`:
def _listed(word: str, field: str = "title") -> str:
    """The titles or names of the agents whose transcripts can be read: `a, b and c`."""
    return joined([getattr(host, field) for host in AGENTS.values() if host.transcripts], word)


_HELP = f"""Check whether agents call billhook in this folder, and if not, why.

Checks the agent's settings and timeouts, the daemon, the hooks and the event log, and whether the
agent trusts this folder.
Each problem comes with a fix. Nothing is changed.

With --canary, billhook starts the agent in this folder, without a model, with a unique prompt. If that prompt appears
in the event log, the agent calls billhook.

With --coverage, billhook counts the tool calls in the transcripts of {_listed("and")}, and
those that are missing from the event log.
"""


@click.command(
    "doctor",
    help=_HELP,
    epilog=f"""AGENT is one of {", ".join(AGENTS)}, or all.

\b
Examples:
  billhook doctor                        all agents found here
  billhook doctor claude {ANOTHER}           these agents
  billhook doctor {ANOTHER} --canary         start it briefly, and see whether it calls billhook
  billhook doctor --coverage --since 1w  the last week's calls that are not in the log
  billhook doctor --json | jq -r '.agents[].findings[] | select(.level == "fail") | .remedy'

Exit code: 0 no problems, 1 problems were found, 2 usage.""",
)
@click.argument("agents", nargs=-1, metavar="[AGENT ...]", shell_complete=complete_among([*AGENTS, "all"]))
@flag("--json", "as_json", "Print one JSON object.")
@flag("--canary", "Start the agent without a model, and see whether it calls billhook.")
@flag("--coverage", "Compare the agent's transcripts with the event log.")
@times.option("--since", end=False, help="With --coverage: only calls since that time.")
def verb(agents: tuple[str, ...], as_json: bool, canary: bool, coverage: bool, since: str | None) -> int:
    if since is not None and not coverage:
        raise UsageError("--since needs --coverage", hint="add --coverage, or leave out --since")
    if canary:
        refuse_agents("--canary", "it would start an agent", "`billhook doctor` without it")
    here = _DoctorScope(agents)
    if coverage:
        return here.show_coverage(as_json, since or "")
    if canary:
        return here.show_canary(as_json)
    return here.show(as_json)


class _DoctorScope:
    def __init__(self, agents: tuple[str, ...]) -> None:
        self.root, self.project, self.asked = state_root(), project_here("user"), bool(agents)
        self.hosts = named(agents)[0] if agents else list(self._hosts_here())
        self.daemon = checks.DaemonState(self.root)
        self.general = [*self.daemon.findings(), *checks.gate_findings(self.project)]
        self.general += [*checks.guard_findings(self.project), *checks.head_findings(self.project, self.root)]
        self.general += checks.fleet_findings(self.project)

    def _hosts_here(self) -> Iterator[Agent]:
        """The agents that are on this machine, or whose files have billhook's entries."""
        seen = agents_here("user", self.project)
        for host in AGENTS.values():
            if seen[host.name] or checks.SettingsPair(host, self.project, self.root).installed:
                yield host

    def report(self, host: Agent) -> AgentReport:
        return examined(host, self.project, self.root, self.daemon, asked=self.asked)

    def show(self, as_json: bool) -> int:
        reports = [self.report(host) for host in self.hosts]
        lines, data = screen(self.project, self.general, reports), as_data(self.project, self.general, reports)
        if not self.asked and not any(one.installed for one in reports):
            lines = beginning(self.project, self.general, reports)
        report(as_json, lines, data)
        return 0 if data["ok"] else 1

    def show_canary(self, as_json: bool) -> int:
        """One agent after the other, because each takes a while."""
        found = []
        for about in map(self.report, self.hosts):
            if not self.asked and not (about.installed and checks.path_of(about.host)):
                continue
            one = self._canary(about, as_json)
            found.append((about.host, one))
            if not as_json:
                write("\n".join([about.host.title, *lines([one])]))
        # proved: hooks have fired in every agent that was named, or in all of those here that can be started
        levels = {one.level for _, one in found}
        proved = "ok" in levels and levels <= ({"ok"} if self.asked else {"ok", "unknown"})
        agents = [{"agent": host.name, **msgspec.to_builtins(one)} for host, one in found]
        nothing = ["no agent that calls billhook is on PATH here\n\nstart with `billhook install claude`"]
        report(as_json, () if found else nothing, {"project": self.project, "ok": proved, "agents": agents})
        return 0 if proved else 1

    def _canary(self, report: AgentReport, as_json: bool) -> checks.DoctorFinding:
        from billhook.cli.doctor.proof import canary_finding, not_possible

        logged = checks.is_logged(report.host, self.project)
        if refusal := not_possible(report.host, report.events, logged=logged):
            return refusal
        if not as_json:
            note(f"{report.host.title} is started briefly, without a model ...")
        return canary_finding(report.host, self.project, self.root, [*report.findings, *self.general])

    def show_coverage(self, as_json: bool, since: str) -> int:
        from billhook.cli.doctor.proof import coverage_data, coverage_lines

        hosts = [host for host in self.hosts if host.transcripts]
        if not hosts and self.asked:
            hint = f"name {_listed('or', 'name')}"
            raise UsageError(f"only the transcripts of {_listed('and')} can be read", hint=hint)
        found = [self._coverage(host, since) for host in hosts]
        well, agents = all(one.well for one in found), [coverage_data(one) for one in found]
        texts = "\n\n".join("\n".join(coverage_lines(one)) for one in found)
        lines = [texts or f"none of {_listed('and')} was found here"]
        report(as_json, lines, {"project": self.project, "ok": well, "since": since or None, "agents": agents})
        return 0 if well else 1

    def _coverage(self, host: Agent, since: str) -> "Coverage":
        from billhook.cli.doctor.proof import LoggedCalls, Reasons, compared

        about, logged = self.report(host), checks.is_logged(host, self.project)
        seen = LoggedCalls(self.root, host)
        reasons = Reasons(host=host, seen=seen, findings=about.findings, events=about.events, logged=logged)
        return compared(self.project, reasons, since)
