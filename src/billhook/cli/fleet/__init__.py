"""`billhook fleet`: one policy and one audit stream for many machines."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click

from billhook.cli.group import LazyCommands
from billhook.cli.options import option
from billhook.core.errors import UsageError
from billhook.core.text import suggestion
from billhook.fleet import server
from billhook.fleet.connection import connect
from billhook.fleet.server import FleetFolder

if TYPE_CHECKING:
    from nats.aio.client import Client


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
    modules: ClassVar = {
        **dict.fromkeys(("dev", "init", "enrol", "leave"), "members"),
        **dict.fromkeys(("status", "publish"), "rollout"),
        "verify": "events",
    }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in LINES and not args[0].startswith("-"):
            raise UsageError(f"no command `{args[0]}`", hint=suggestion(args[0], LINES))
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


# For the verbs: the administrator's folder, and connections with its credentials.

T = TypeVar("T")
_VARIABLE = "BILLHOOK_FLEET"


def fleet_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """`--fleet FOLDER`: the organisation."""
    text = f"The folder that `fleet init` created.  [default: ${_VARIABLE}, or this folder]"
    return option("--fleet", "path", "FOLDER", text, default=lambda: os.environ.get(_VARIABLE) or ".")(verb)


def reader_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """`--as NAME`: whose credentials are used."""
    text = "Whose credentials to use: the name of a .creds file in the folder.  [default: reader]"
    return option("--as", "member", "NAME", text, default="reader")(verb)


def as_member(path: Path, fleet: FleetFolder, work: Callable[["Client"], Awaitable[T]], name: str = "admin") -> T:
    """Do some work over a connection of the administrator or the reader. Raises FleetError and UsageError."""
    if not fleet.url:
        raise UsageError(
            "the address of the server is not known", place=str(path), hint="billhook fleet init --url URL"
        )

    return connected(connect(server.staff(path, name), fleet.url, ca=fleet.ca), work)


def connected(opening: Awaitable["Client"], work: Callable[["Client"], Awaitable[T]]) -> T:
    """Do some work over a connection."""

    async def run() -> T:
        client = await opening
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())
