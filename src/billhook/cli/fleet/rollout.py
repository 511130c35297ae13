"""`billhook fleet publish`, `rollout` and `status`: a policy, and which hosts have it."""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from billhook.cli.fleet import as_member, fleet_option
from billhook.cli.options import flag, refuse_agents, usage
from billhook.cli.screen import aligned, beside, note, report, write
from billhook.cli.times import seconds_of
from billhook.cli.trust import agreed
from billhook.config.declaration import HookDeclaration
from billhook.config.fleet_policy import AppliedPolicy, age, applied, last_contact, loosens, rules_name, silence
from billhook.config.shapes import read_file
from billhook.core.errors import UsageError
from billhook.core.text import counted
from billhook.fleet import policy, server
from billhook.fleet.connection import last_of_all
from billhook.fleet.link import HostState
from billhook.fleet.members import HOSTS, Enrolment, enrolment
from billhook.fleet.policy import SHADOW, PolicyCandidate, PolicyDocument, PolicySettings, in_stage, published
from billhook.fleet.server import FleetFolder
from billhook.store.files import state_root

if TYPE_CHECKING:
    from nats.aio.client import Client


_SILENT = 60.0  # seconds after which a host that sent nothing is not connected


@usage("""\b
Examples:
  billhook fleet status                  on a host: its own policy
  billhook fleet status --fleet acme     for the administrator: all hosts
  billhook fleet status --json | jq -r 'select(.behind) | .host'

Exit code: 0 all is well, 1 a policy is missing, refused, old or expired, 2 usage or failure.""")
@fleet_option
@flag("--json", "as_json", "Print one line of JSON for each host.")
def status_verb(path: str, as_json: bool) -> int:
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
            f"{age(time.time() - one.at)} ago" if one.at else "never",
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


# `billhook fleet publish` and `rollout`: a policy, and which hosts have it.

_WHY = "only the user can publish a policy"
_MOST = 8  # hosts that are named


@usage("""\b
Examples:
  billhook fleet publish hooks.yaml --fleet acme
  billhook fleet rollout                           if the file has `fleet: {stages: [shadow, 10%]}`

Exit code: 0 published, 1 not published: problems or failed tests,
2 usage or failure.""")
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@fleet_option
@flag("--json", "as_json", "Print one line of JSON.")
def publish_verb(file: str, path: str, as_json: bool) -> int:
    """Check a hooks.yaml, run its tests, sign it, and publish it as the policy of all hosts.

    In the file, `fleet:` sets how long the policy is valid, and the stages of its rollout.
    """
    refuse_agents("`billhook fleet publish`", _WHY)
    folder = Path(path)
    fleet, seed = server.read_folder(folder), server.signing_seed(folder)
    rules = Path(file).read_text("utf-8")
    settings = policy.settings_of(rules, file)
    if problems := _checked(rules, file):
        write(problems, err=True)
        return 1
    document = as_member(folder, fleet, _publishing(fleet, seed, rules, settings))
    unused = [one.name for one in _hooks(rules) if loosens(one)]
    stage = document.candidate.stage if document.candidate else ""
    data = {"sequence": document.sequence, "stage": stage or None, "only_managed": unused}
    report(as_json, [f"published: policy {document.sequence}{f', stage {stage}' if stage else ''}"], data)
    if unused:
        note(f"these hooks run only on managed hosts: {', '.join(unused)}")
    return 0


def _publishing(fleet: FleetFolder, seed: str, rules: str, settings: PolicySettings) -> Callable[["Client"], Any]:
    seconds = seconds_of(settings.valid, "`valid`") if settings.valid else 0.0

    async def send(client: "Client") -> PolicyDocument:
        now, after = await policy.published(client, fleet)
        document = policy.next_document(now, fleet, rules, settings, seconds)
        await policy.publish(client, fleet, seed, document, after)
        return document

    return send


def _hooks(rules: str) -> Sequence[HookDeclaration]:
    return read_file("hooks.yaml", "fleet", "/", rules.encode()).entries


def _checked(rules: str, file: str) -> str:
    """What `billhook check` and `billhook test` report about the rules, as those of a user in an empty project."""
    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        place = home / ".config" / "billhook" / "hooks.yaml"
        for each in (place.parent, project):
            each.mkdir(parents=True)
        place.write_text(rules, "utf-8")
        commands = [["check", "--ignore", "BH403"], *([["test", "--user"]] if "\ntests:" in f"\n{rules}" else [])]
        ended = [_run(words, home, project) for words in commands]
        told = "".join(one.stdout + one.stderr for one in ended if one.returncode)
    return told.replace(str(place), file).replace("~/.config/billhook/hooks.yaml", file).strip()


def _run(words: Sequence[str], home: Path, project: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("BILLHOOK_", "XDG_"))}
    env = {**kept, "HOME": str(home), "BILLHOOK_HOME": str(home / "state")}
    argv = [sys.executable, "-P", "-m", "billhook", *words]
    return subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, check=False)


# `billhook fleet rollout`:


@usage("""\b
Examples:
  billhook fleet rollout             which hosts have the next policy, and what it would decide
  billhook fleet rollout next        the next stage
  billhook fleet rollout end         return to the policy before the rollout

Exit code: 0 done, or no rollout; 1 not changed; 2 usage or failure.""")
@click.argument("step", required=False, type=click.Choice(["next", "end"]))
@fleet_option
@flag("--yes", "Don't ask.")
@flag("--json", "as_json", "Print one line of JSON; to change the stage it needs --yes.")
def rollout_verb(step: str | None, path: str, yes: bool, as_json: bool) -> int:
    """Show the rollout of the next policy, and widen or end it.

    A policy with `stages` reaches the hosts one stage after the other. In the stage `shadow` every host runs its new
    and changed hooks without effect, and their decisions are shown here.
    """
    if step:
        refuse_agents("`billhook fleet rollout`", _WHY)
    folder = Path(path)
    fleet = server.read_folder(folder)
    now, after = as_member(folder, fleet, lambda client: policy.published(client, fleet))
    candidate = now.candidate if now else None
    if now is None or candidate is None:
        report(as_json, ["there is no rollout"], {"stage": None})
        return 0
    would = would_be(folder, fleet, candidate)
    data = {"sequence": now.sequence, "stages": candidate.stages, "stage": candidate.stage, "would": would}
    data["hosts"] = hosts_of(fleet, candidate)
    if step is None or not as_json:
        report(as_json, _lines(fleet, now, candidate, would), data)
    if step is None:
        return 0
    document = policy.widened(now) if step == "next" else policy.ended(now)
    question = "end the rollout?" if step == "end" else f"widen it to {candidate.stages[candidate.at + 1]}?"
    if not yes and (as_json or not agreed(question)):
        return 1
    seed = server.signing_seed(folder)
    as_member(folder, fleet, lambda client: policy.publish(client, fleet, seed, document, after))
    stage = document.candidate.stage if document.candidate else ""
    told = f"stage {stage}" if stage else "in force on all hosts" if step == "next" else "ended"
    report(as_json, [f"{told}: policy {document.sequence}"], {**data, "sequence": document.sequence, "stage": stage})
    return 0


def hosts_of(fleet: FleetFolder, candidate: PolicyCandidate) -> list[str]:
    """The hosts that have the candidate, also those that run it in shadow mode."""
    return [one.name for one in fleet.hosts if in_stage(candidate, one.name, one.tags)]


def would_be(folder: Path, fleet: FleetFolder, candidate: PolicyCandidate) -> dict[str, dict[str, int]]:
    """What the hooks of the candidate would have decided so far, by hook and answer, from the audit stream."""
    from billhook.cli.fleet.events import copy_of, update

    copy = copy_of(fleet)
    as_member(folder, fleet, lambda client: update(client, fleet, copy), "reader")
    found: dict[str, Counter[str]] = {}
    for entry in (entry for _, reader in copy.logs() for entry in reader.forward()):
        for outcome in entry.record.outcomes:
            if outcome.waived is not None and rules_name(candidate.rules) in (outcome.source or ""):
                found.setdefault(outcome.hook, Counter())[outcome.waived.would] += 1
    return {hook: dict(counts) for hook, counts in found.items()}


def _lines(
    fleet: FleetFolder, now: PolicyDocument, candidate: PolicyCandidate, would: dict[str, dict[str, int]]
) -> Iterator[str]:
    yield f"policy {now.sequence}, rollout began {age(time.time() - candidate.since)} ago"
    stages = [f"[{stage}]" if place == candidate.at else stage for place, stage in enumerate(candidate.stages)]
    yield from beside("  stages    ", " -> ".join(stages))
    hosts, how = hosts_of(fleet, candidate), " (in shadow mode)" if candidate.stage == SHADOW else ""
    more = f" and {len(hosts) - _MOST} more" if len(hosts) > _MOST else ""
    named = f": {', '.join(hosts[:_MOST])}{more}" if hosts else ""
    yield from beside("  hosts     ", f"{len(hosts)} of {len(fleet.hosts)}{how}{named}")
    for hook, counts in would.items():
        times = ", ".join(f"{answer} {counted(number, 'time')}" for answer, number in counts.items())
        yield from beside("  would     ", f"{times}: {hook}")
    if candidate.stage == SHADOW and not would:
        yield "  would     no decision so far"
