"""`billhook doctor`: does it really guard?"""

import click

from billhook import strictjson
from billhook.cli.agents import project_here
from billhook.cli.doctor_screen import as_data, beginning, screen
from billhook.cli.show import say
from billhook.cli.values import nearest
from billhook.errors import UsageError
from billhook.hosts import HOSTS, Host
from billhook.hosts.doctor import Report, examined, hosts_here
from billhook.hosts.doctor_daemon import Daemon
from billhook.hosts.doctor_finding import all_well
from billhook.store.files import state_root


@click.command(
    "doctor",
    epilog="""\b
Examples:
  billhook doctor                       every agent that is here
  billhook doctor claude codex          these
  billhook doctor --json | jq -r '.agents[].findings[] | select(.level == "fail") | .remedy'

\b
Exit code: 0 all is well; 1 something has to be mended; 2 it can't be asked like that.""",
)
@click.argument("agents", nargs=-1, metavar="[claude|codex|gemini|qwen|copilot|cursor]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verb(agents: tuple[str, ...], as_json: bool) -> int:
    """Say whether an agent really asks billhook here, and what keeps it from that.

    Is it installed, does the entry lead to this billhook in time, is the folder trusted by that agent, does the daemon
    answer, which hooks apply. Each finding has what mends it. Nothing is changed.
    """
    root, project = state_root(), project_here("user")
    hosts = _named(agents) or hosts_here(project, root)
    daemon = Daemon(root)
    reports = [examined(host, project, root, daemon, asked=bool(agents)) for host in hosts]
    general = list(daemon.findings())
    if as_json:
        say(strictjson.dumps(as_data(project, general, reports)))
    elif agents or any(report.installed for report in reports):
        say("\n".join(screen(project, general, reports)))
    else:
        say("\n".join(beginning(project, reports)))
    return 0 if _well(reports) and all_well(general) else 1


def _well(reports: list[Report]) -> bool:
    """Nothing installed anywhere is no state to be content with."""
    return bool(reports) and all(report.well for report in reports)


def _named(agents: tuple[str, ...]) -> list[Host]:
    for name in agents:
        if name not in HOSTS:
            raise UsageError(f"no agent `{name}`", hint=nearest(name, HOSTS))
    return [HOSTS[name] for name in dict.fromkeys(agents)]
