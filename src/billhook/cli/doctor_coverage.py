"""`billhook doctor --coverage`: what it shows."""

from collections.abc import Iterator
from typing import Any, Final

import click

from billhook.cli.ages import shown_time
from billhook.cli.table import filled, width, with_shown_paths
from billhook.hosts.coverage import Coverage, Unseen, shortly
from billhook.text import counted, one_line

_SHOWN: Final = 20  # calls on the screen; --json has more


def coverage_lines(found: Coverage) -> Iterator[str]:
    """What came of one agent."""
    yield click.style(f"{found.host.title}: transcripts against the log", bold=True)
    if not found.transcripts:
        yield "  no transcript of this project was found"
        return
    head = f"{counted(found.transcripts, 'transcript')}, {counted(found.sessions, 'session')} with tool calls"
    yield f"  {head}, {found.bytes / 1e6:.1f} MB"
    yield ""
    for number, what in _rows(found):
        yield f"  {number:>7,}  {what}"
    if found.unread:
        yield f"  {counted(found.unread, 'line')} could not be read"
    yield from _unseen(found)


def _rows(found: Coverage) -> Iterator[tuple[int, str]]:
    yield found.calls, "tool calls"
    yield found.judged, "judged before they ran"
    rows = (
        (found.unjudged, "came to billhook, and no hook could be asked (`billhook events` shows why)"),
        (found.afterwards, "were seen only after they had run"),
        (found.not_run, "never ran: the agent itself refused them, called wrongly or not there"),
        (found.open, "are being made right now"),
    )
    yield from (row for row in rows if row[0])
    yield found.unseen, "no hook ever saw"


def _unseen(found: Coverage) -> Iterator[str]:
    if not found.unseen:
        return
    yield ""
    yield click.style("Likely why", bold=True)
    for why, number in found.reasons.most_common():
        first, *rest = filled(why, 11)
        yield f"  {number:>7,}  {first.strip()}"
        yield from rest
    yield ""
    yield click.style("Not seen", bold=True)
    for one in found.shown[:_SHOWN]:
        yield _call(one)
    if found.unseen > _SHOWN:
        yield f"  and {found.unseen - _SHOWN:,} more; --json has the first thousand"


def _call(one: Unseen) -> str:
    call = one.call
    who = f"{call.session[:8]}{'/' + call.agent[:8] if call.agent else ''}"
    head = f"  {shown_time(call.time)}  {one_line(who, 17):<8}  {one_line(call.tool, 24)}  "
    return head + one_line(with_shown_paths(shortly(call)), max(20, width() - len(head)))


def coverage_data(found: Coverage) -> dict[str, Any]:
    """The same for programs."""
    return {
        "agent": found.host.name,
        "ok": found.well,
        "transcripts": found.transcripts,
        "sessions": found.sessions,
        "calls": found.calls,
        "judged": found.judged,
        "unjudged": found.unjudged,
        "afterwards": found.afterwards,
        "not_run": found.not_run,
        "open": found.open,
        "unseen": found.unseen,
        "unread_lines": found.unread,
        "first_asked": found.first or None,
        "reasons": [{"why": why, "calls": number} for why, number in found.reasons.most_common()],
        "unseen_calls": [
            {
                "time": one.call.time,
                "session_id": one.call.session,
                "agent_id": one.call.agent or None,
                "tool": one.call.tool,
                "tool_use_id": one.call.id,
                "input": shortly(one.call),
                "why": one.why,
            }
            for one in found.shown
        ],
    }
