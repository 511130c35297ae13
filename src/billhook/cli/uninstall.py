"""`billhook uninstall`: an agent's file as it was."""

from contextlib import suppress
from functools import partial

import click
import msgspec

from billhook.agents import AGENTS
from billhook.agents.base import Agent, Scope
from billhook.cli.install import (
    ALL,
    ANOTHER,
    named,
    one_by_one,
    project_here,
    refuse_agents,
    report,
    scope_options,
    show_difference,
)
from billhook.cli.install.entries import ours
from billhook.cli.install.plan import Target, carry_out, plan_uninstall
from billhook.config.edit_json import measured
from billhook.core.errors import BillhookError
from billhook.store.files import state_root


@click.command(
    "uninstall",
    epilog=f"""\b
Examples:
  billhook uninstall claude             from your own settings
  billhook uninstall all --dry-run      what would change
  billhook uninstall {ANOTHER} --project    from the settings of this project

\b
Exit code: 0 done, or not installed; 2 refused, or a file can't be changed.""",
)
@click.argument("agents", nargs=-1, metavar="|".join([*AGENTS, ALL]))
@scope_options
@click.option("--dry-run", "dry", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each agent.")
def verb(agents: tuple[str, ...], scope: Scope, dry: bool, as_json: bool) -> int:
    """Take billhook's entries out of an agent's settings, and nothing else.

    When nothing else was changed since, the file is what it was before, byte for byte. Hooks that --adopt moved go back
    to where they were. The event log and what you have approved stay.
    """
    hosts, _ = named(agents)
    if not dry:
        refuse_agents("uninstall")
    project = project_here(scope)
    return one_by_one(hosts, partial(_uninstall, scope=scope, project=project, dry=dry, as_json=as_json))


def _uninstall(host: Agent, scope: Scope, project: str, dry: bool, as_json: bool) -> bool:
    change = plan_uninstall(Target(host, scope, project, state_root()))
    if change.state == "absent":
        change = msgspec.structs.replace(change, notes=(*change.notes, *_elsewhere(host, scope, project)))
    if not as_json:
        show_difference(change)
    if not dry:
        carry_out(change)
    report(change, dry=dry, as_json=as_json)
    return True


def _elsewhere(host: Agent, scope: Scope, project: str) -> list[str]:
    """Where it is installed instead."""
    other: Scope = "project" if scope == "user" else "user"
    with suppress(BillhookError):
        target = Target(host, other, project, state_root())
        if target.path != host.file(scope, project) and ours(measured(target.text()), host):
            return [f"it is installed in {target.path}: `billhook uninstall {host.name} --{other}`"]
    return []
