"""`billhook doctor`: does it really guard?"""

from typing import TYPE_CHECKING

import click

from billhook import strictjson
from billhook.agents import AGENTS
from billhook.agents.base import Agent
from billhook.cli import events_times
from billhook.cli.agents import ALL, ANOTHER, READS_OTHERS, project_here
from billhook.cli.doctor_screen import as_data, beginning, canary_data, lines, proved, screen
from billhook.cli.inside_agent import agent_around
from billhook.cli.loaded import loaded
from billhook.cli.show import note, say
from billhook.cli.table import first_problem
from billhook.errors import UsageError
from billhook.hosts.doctor import Report, examined, hosts_here
from billhook.hosts.doctor_daemon import Daemon
from billhook.hosts.doctor_finding import Finding, all_well
from billhook.hosts.doctor_hooks import head_findings, is_logged
from billhook.hosts.doctor_programs import path_of
from billhook.store.files import state_root
from billhook.text import suggest

if TYPE_CHECKING:
    from billhook.hosts.coverage import Coverage
    from billhook.hosts.coverage_log import Seen


@click.command(
    "doctor",
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
@events_times.option("--since", end=False, help="With --coverage: only calls since then.")
def verb(agents: tuple[str, ...], as_json: bool, canary: bool, coverage: bool, since: str | None) -> int:
    """Say whether an agent really asks billhook here, and what keeps it from that.

    Is it installed, does the entry lead to this billhook in time, is the folder trusted by that agent, does the daemon
    answer, which hooks apply. Each finding has what mends it. Nothing is changed.

    --canary proves it: the agent is started in this folder with a prompt that has a word of our own in it, and with the
    address of its model leading nowhere; when that prompt is in the event log, the agent has asked. --coverage counts
    the tool calls in the transcripts of Claude Code and Codex, and those that no hook ever saw.
    """
    if since is not None and not coverage:
        raise UsageError("--since is for --coverage", hint="say both, or neither")
    if canary:
        _refuse_agents()
    here = _Here(agents)
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


class _Here:
    """What is asked about: this project, and some agents."""

    def __init__(self, agents: tuple[str, ...]) -> None:
        self.root, self.project, self.asked = state_root(), project_here("user"), bool(agents)
        self.hosts = _named(agents) or hosts_here(self.project, self.root)
        self.daemon = Daemon(self.root)
        self.general = [*self.daemon.findings(), *head_findings(self.project, self.root)]

    def report(self, host: Agent) -> Report:
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

    def _canary(self, report: Report, as_json: bool) -> Finding:
        from billhook.hosts.canary import canary_finding, not_possible

        events = [event for one in report.installed for event in one.events]
        logged = is_logged(report.host, self.project)
        if refusal := not_possible(report.host, events, logged=logged):
            return refusal
        if not as_json:
            note(f"{report.host.title} is started for a moment, without a model ...")
        return canary_finding(report.host, self.project, self.root, [*report.findings, *self.general])

    def show_coverage(self, as_json: bool, since: str) -> int:
        from billhook.cli.doctor_coverage import coverage_data, coverage_lines

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
        from billhook.hosts.coverage import compared
        from billhook.hosts.coverage_why import Reasons

        report = self.report(host)
        events = [event for one in report.installed for event in one.events]
        logged = is_logged(host, self.project)

        def why(seen: "Seen") -> Reasons:
            return Reasons(host, seen, report.findings, events, logged=logged)

        return compared(host, self.project, self.root, why, since)


def _refuse_agents() -> None:
    """Who is judged by hooks starts no agents to try them."""
    if agent := agent_around():
        raise UsageError(
            f"--canary is refused here: this runs inside {agent}, and it would start an agent",
            hint="run it yourself, in a terminal of your own; without --canary it is open to everybody",
        )


def _readable(field: str) -> list[str]:
    """The names or titles of the agents whose transcripts can be read."""
    return [getattr(host, field) for host in AGENTS.values() if host.transcripts]


def _named(agents: tuple[str, ...]) -> list[Agent]:
    for name in agents:
        if name not in AGENTS and name != ALL:
            raise UsageError(f"no agent `{name}`", hint=READS_OTHERS.get(name) or suggest(name, (*AGENTS, ALL)))
    if ALL in agents:
        return list(AGENTS.values())
    return [AGENTS[name] for name in dict.fromkeys(agents)]
