"""`billhook fleet init`: an organisation, and the members of its account."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from billhook.cli.fleet.folder import as_member, fleet_option
from billhook.cli.options import flag, option, refuse_agents, usage, words
from billhook.cli.screen import report, shown_path
from billhook.core.errors import UsageError
from billhook.core.text import counted
from billhook.fleet import keys, server
from billhook.fleet.connection import make_streams
from billhook.fleet.server import FleetFolder


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
def verb(
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
