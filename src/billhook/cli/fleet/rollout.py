"""`billhook fleet publish` and `rollout`: a policy, and which hosts have it."""

from pathlib import Path

import click

from billhook.cli.fleet.folder import as_member, fleet_option
from billhook.cli.fleet.status import document_of
from billhook.cli.options import flag, refuse_agents, usage
from billhook.cli.screen import report
from billhook.fleet import server
from billhook.fleet.connection import last, publish
from billhook.fleet.signing import PolicyDocument, signed
from billhook.fleet.subjects import POLICY


@usage("""\b
Examples:
  billhook fleet publish hooks.yaml --fleet acme

Exit code: 0 published, 1 not published: findings, 2 usage or failure.""")
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@fleet_option
@flag("--json", "as_json", "Print one line of JSON.")
def publish_verb(file: str, path: str, as_json: bool) -> int:
    """Sign a hooks.yaml, and publish it to all hosts."""
    refuse_agents("`billhook fleet publish`", "only the user can publish a policy")
    folder = Path(path)
    fleet = server.read_folder(folder)
    rules = Path(file).read_text("utf-8")
    seed = server.signing_seed(folder)

    async def send(client):  # type: ignore[no-untyped-def]
        newest = document_of(await last(client, POLICY, fleet.subjects.policy))
        document = PolicyDocument(fleet.org, newest.sequence + 1 if newest else 1, rules, approvers=fleet.approvers)
        await publish(client, fleet.subjects.policy, signed(document, seed))
        return document

    document = as_member(folder, fleet, send)
    report(as_json, [f"published: policy {document.sequence}"], {"sequence": document.sequence})
    return 0
