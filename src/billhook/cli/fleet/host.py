"""`billhook fleet enrol` and `leave`: whether this machine obeys a fleet."""

import os
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from billhook import __version__
from billhook.cli.options import flag, loaded, option, refuse_programs, usage
from billhook.cli.screen import report, say
from billhook.cli.trust import agreed, log_trust
from billhook.config.fleet_policy import policy_of
from billhook.core.errors import UsageError
from billhook.fleet import connection, enrolment, keys
from billhook.fleet.enrolment import Enrolment
from billhook.fleet.policy import PolicyFollower
from billhook.fleet.signing import RefusedPolicyError, verified
from billhook.fleet.subjects import POLICY
from billhook.store.files import state_root

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
    if enrolment.enrolment(root) is not None:
        raise UsageError("this machine is a host already", hint="`billhook fleet leave` ends that")
    given = enrolment.read_credentials(Path(creds))
    if given.role != "host":
        raise UsageError(f"these are the credentials of the {given.role}", place=creds, hint="use those of a host")
    ca = os.path.abspath(ca) if ca else ""
    member = Enrolment(**msgspec.structs.asdict(given), url=url, managed=managed, ca=ca)
    policy = _policy(member)
    if not as_json:
        say("\n".join(_terms(member, policy)))
    if not yes and (as_json or not agreed("enrol this machine?")):
        return 1
    enrolment.enrol(root, member)
    follower = PolicyFollower(root, member)
    follower.restore()
    if policy is not None:
        follower.take(policy)
    log_trust("enrolled", (), loaded(()), what=f"{member.name} of {member.org}{', managed' * managed}")
    data = {"org": member.org, "host": member.name, "managed": managed, "sequence": follower.policy.sequence}
    report(as_json, [f"enrolled: {follower.policy.title}"], {**data, "key": keys.fingerprint(member.policy_key)})
    return 0


def _policy(member: Enrolment) -> bytes | None:
    """The policy that is published now. Raises FleetError if the server refuses this host."""
    import asyncio

    async def read() -> bytes | None:
        client = await connection.member_connection(member)
        try:
            return await connection.last(client, POLICY, member.subjects.policy)
        finally:
            await client.close()

    return asyncio.run(read())


def _terms(member: Enrolment, policy: bytes | None) -> Iterator[str]:
    yield f"organisation  {member.org}, at {member.url}"
    yield f"this host     {member.name}{''.join(f', tag {tag}' for tag in member.tags)}, billhook {__version__}"
    yield f"signing key   {keys.fingerprint(member.policy_key)}"
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
    found = enrolment.leave(root)
    report(as_json, ["left the fleet" if found else "this machine is not a host of a fleet"], {"left": found})
    return 0 if found else 1
