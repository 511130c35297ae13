"""`billhook fleet status`: the policy of this host; for the administrator, all hosts."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from billhook.cli.fleet.folder import as_member, fleet_option
from billhook.cli.options import flag, usage
from billhook.cli.screen import aligned, report
from billhook.config.fleet_policy import AppliedPolicy, applied, last_contact, silence
from billhook.core.errors import UsageError
from billhook.core.text import counted
from billhook.fleet import server
from billhook.fleet.connection import last_of_all
from billhook.fleet.enrolment import Enrolment, enrolment
from billhook.fleet.publishing import published
from billhook.fleet.report import HostState
from billhook.fleet.signing import PolicyDocument
from billhook.fleet.subjects import HOSTS
from billhook.store.files import state_root

_SILENT = 60.0  # seconds after which a host that sent nothing is not connected


@usage("""\b
Examples:
  billhook fleet status                  on a host: its own policy
  billhook fleet status --fleet acme     for the administrator: all hosts
  billhook fleet status --json | jq -r 'select(.behind) | .host'

Exit code: 0 all is well, 1 a policy is missing, refused, old or expired, 2 usage or failure.""")
@fleet_option
@flag("--json", "as_json", "Print one line of JSON for each host.")
def verb(path: str, as_json: bool) -> int:
    """Show the policy of this host and its age, or every host with its version, policy and lag."""
    root = state_root()
    if os.path.exists(os.path.join(path, "fleet.json")):
        return _of_all(Path(path), as_json)
    member = enrolment(root)
    if member is None:
        raise UsageError(
            "this machine is not a host of a fleet", hint="`billhook fleet enrol URL CREDS`, or --fleet FOLDER"
        )
    return _of_this_host(root, member, as_json)


def _of_this_host(root: Path, member: Enrolment, as_json: bool) -> int:
    policy = applied(root) or AppliedPolicy(member.org, member.name, "")
    checked, silent = last_contact(root), silence(root)
    connected = not silent
    data = {**msgspec.to_builtins(policy), "checked": checked, "connected": connected, "url": member.url}
    report(as_json, _host_lines(member, policy, silent), data)
    return int(bool(not policy.sequence or policy.refused or policy.expired or not connected))


def _host_lines(member: Enrolment, policy: AppliedPolicy, silent: str) -> Iterator[str]:
    yield f"host       {member.name} of {member.org}, at {member.url}"
    yield f"policy     {policy.sequence or 'none yet'}{', in shadow: the next one' if policy.shadow else ''}"
    yield f"signed by  {policy.signer}"
    yield f"obeys      {'everything (managed)' if policy.managed else 'what is stricter than your own rules'}"
    yield f"connected  {f'no contact for {silent}: the last policy stays in force' if silent else 'yes'}"
    if policy.valid_until:
        ended = f"; {'everything is denied' if policy.on_expiry == 'deny' else 'it stays in force'}" * policy.expired
        yield f"valid      until {time.strftime('%Y-%m-%d %H:%M', time.localtime(policy.valid_until))}{ended}"
    if policy.refused:
        yield f"refused    a newer policy: {policy.refused}"


def _of_all(path: Path, as_json: bool) -> int:
    fleet = server.read_folder(path)

    async def read(client: Any) -> tuple[PolicyDocument | None, list[bytes]]:
        newest, _ = await published(client, fleet)
        return newest, await last_of_all(client, HOSTS, fleet.subjects.host(">"))

    newest, states = as_member(path, fleet, read)
    known = {one.host: one for one in (msgspec.json.decode(state, type=HostState) for state in states)}
    rows = [known.get(one.name) or HostState(one.name, "", 0.0) for one in fleet.hosts]
    behind = [is_behind(one, newest) for one in rows]
    lines = _table(rows, newest)
    report(as_json, lines, *map(_data, rows, behind))
    return int(any(behind))


def is_behind(one: HostState, newest: PolicyDocument | None) -> bool:
    """Whether a host does not have the newest policy, or is not connected."""
    return bool(one.refused or time.time() - one.at > _SILENT or (newest and one.sequence < newest.sequence))


def _data(one: HostState, behind: bool) -> dict[str, Any]:
    return {**msgspec.to_builtins(one), "behind": behind}


def _table(rows: list[HostState], newest: PolicyDocument | None) -> Iterator[str]:
    yield f"policy {newest.sequence if newest else 'none yet'}, {counted(len(rows), 'host')}"
    yield ""
    cells = [
        (
            one.host,
            one.version or "-",
            f"{one.sequence or '-'}{f' {one.stage}' if one.stage else ''}",
            shown_age(one.at) if one.at else "never",
            str(one.lag),
            "; ".join(_remarks(one)),
        )
        for one in rows
    ]
    yield from aligned(("host", "version", "policy", "seen", "lag", ""), cells, flexible=5)


def _remarks(one: HostState) -> Iterator[str]:
    if one.refused:
        yield f"refused: {one.refused}"
    if one.lost:
        yield f"{counted(one.lost, 'record')} removed before they were sent"
    if one.answers_refused:
        yield f"{counted(one.answers_refused, 'answer')} to questions refused"


def shown_age(at: float) -> str:
    """How long ago a time is."""
    seconds = max(0, int(time.time() - at))
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"
