"""`billhook fleet`: one policy and one audit stream for many machines."""

from typing import ClassVar

import click

from billhook.cli.group import LazyCommands
from billhook.core.errors import UsageError
from billhook.core.text import suggest

LINES = {
    "dev": "Run a cluster on this machine, to try the fleet.",
    "init": "Create an organisation, its keys and credentials for hosts.",
    "enrol": "Make this machine a host of a fleet.",
    "leave": "Make this machine independent again.",
    "status": "Show the policy of this host, or all hosts.",
    "publish": "Check, test, sign and publish a policy.",
    "rollout": "Show, widen or end the rollout of the next policy.",
    "events": "Show the events of all hosts.",
    "verify": "Check that a host's records in the stream are unchanged.",
    "approvals": "Show and answer the questions of all hosts.",
}


class _FleetGroup(LazyCommands):
    lines, package = LINES, __name__
    modules: ClassVar = {"enrol": "host", "leave": "host", "verify": "events"}
    modules |= dict.fromkeys(("publish", "status"), "rollout") | dict.fromkeys(("init", "dev"), "organisation")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in LINES and not args[0].startswith("-"):
            raise UsageError(f"no command `{args[0]}`", hint=suggest(args[0], LINES))
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands (`billhook fleet COMMAND --help` has details)"):
            formatter.write_dl(list(LINES.items()))


@click.group(
    "fleet",
    cls=_FleetGroup,
    epilog="""\b
Examples:
  billhook fleet dev                     try it on this machine
  billhook fleet enrol tls://nats.example.com:4222 web-1.creds
  billhook fleet publish hooks.yaml
  billhook fleet status

Exit code: 0 done, 1 findings, 2 usage or failure.""",
)
def verb() -> None:
    """One policy for many machines, and one place to see what they decided.

    An organisation publishes a signed policy to a NATS server; every enrolled host obeys it within seconds, and keeps
    the last one when it is offline. Needs the extra `fleet`. Docs: docs/fleet.md.
    """
