"""The administrator's folder of a verb, and connections with its credentials."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from billhook.cli.options import option
from billhook.core.errors import UsageError
from billhook.fleet import server
from billhook.fleet.connection import connect
from billhook.fleet.server import FleetFolder

if TYPE_CHECKING:
    from nats.aio.client import Client

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

    async def connected() -> T:
        client = await connect(server.staff(path, name), fleet.url, ca=fleet.ca)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(connected())
