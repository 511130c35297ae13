"""`billhook fleet approvals`: the questions of all hosts, answered from here."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click
from msgspec.structs import replace

from billhook.approvals.queue import AnsweredError, QueuedQuestion
from billhook.cli.approvals import lines_of, with_answers
from billhook.cli.fleet import as_member, fleet_option
from billhook.cli.options import flag, option, refuse_programs
from billhook.cli.screen import report
from billhook.core.errors import UsageError
from billhook.core.text import visible
from billhook.fleet import server
from billhook.fleet.questions import ApproverDesk, FleetQuestion

T = TypeVar("T")
_AS = option("--as", "member", "NAME", "The approver whose credentials to use.  [default: admin]", default="admin")


@click.group(
    epilog="""\b
Examples:
  billhook fleet approvals
  billhook fleet approvals allow K7QF2M
  billhook fleet approvals deny K7QF2M --reason "use a branch" --as ana

Exit code: 0 done, 1 another answer was first, 2 usage, or refused.""",
    invoke_without_command=True,
)
@_AS
@fleet_option
@flag("--json", "as_json", "Print one line of JSON for each question.")
@click.pass_context
def verb(ctx: click.Context, member: str, path: str, as_json: bool) -> int:
    """Show the questions that wait for a person on any host, and answer them.

    The answer is signed with your key. A host accepts it if its policy names that key: `billhook fleet init --approver
    NAME` creates one, and the next `billhook fleet publish` names it. The first answer wins, wherever it came from.
    """
    if ctx.invoked_subcommand is None:
        found = list(_at_desk(path, member, _waiting))
        shown = [replace(one.question, project=f"{one.host}:{one.question.project}") for one in found]
        lines = ["\n".join(lines_of(one)) for one in shown] or ["no question waits for an answer"]
        report(as_json, lines, *({**one.question.shown, "machine": one.host} for one in found))
    return 0


def _answer(name: str, allowed: bool, path: str, member: str, as_json: bool, why: str = "") -> int:
    refuse_programs(f"`billhook fleet approvals {'allow' if allowed else 'deny'}`", "only a person can answer")

    async def answer(desk: ApproverDesk) -> QueuedQuestion:
        waiting = await desk.collect()
        asked = next((one for id_, one in waiting.items() if name == id_ or name.upper() == one.question.code), None)
        if asked is None:
            raise UsageError(f"no question `{name}` waits", hint="`billhook fleet approvals` lists them")
        return await desk.answer(asked, allowed, why)

    try:
        one = _at_desk(path, member, answer)
    except AnsweredError as error:
        report(as_json, [visible(error.message)], error.question.shown)
        return 1
    report(as_json, [f"{'allowed' if allowed else 'denied'}: {visible(one.call)}"], one.shown)
    return 0


with_answers(verb, _answer, _AS, fleet_option)


async def _waiting(desk: ApproverDesk) -> list[FleetQuestion]:
    return list((await desk.collect()).values())


def _at_desk(path: str, member: str, work: Callable[[ApproverDesk], Awaitable[T]]) -> T:
    """Do some work with the questions of all hosts."""
    folder = Path(path)
    person = server.staff(folder, member)

    async def connected(client: object) -> T:
        desk = ApproverDesk(client, person)  # type: ignore[arg-type]
        async with desk.listening():
            return await work(desk)

    return as_member(folder, server.read_folder(folder), connected, member)
