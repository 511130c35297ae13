"""`billhook allow-once`: allow a denied call, once."""

import time
from pathlib import Path

import click

from billhook.cli.options import flag, loaded, refuse_programs
from billhook.cli.screen import note, report, say, shown_path
from billhook.cli.trust import typed
from billhook.config.override import WINDOW, DeniedCall, Overrides
from billhook.config.trust import record_trust
from billhook.core.errors import UsageError
from billhook.core.text import one_line, visible
from billhook.store.state import FileState

_WIDEST = 200


@click.command(
    "allow-once",
    epilog="""\b
Examples:
  billhook allow-once K7QF2M         the code is in the reason of the deny
  billhook allow-once K7QF2M --yes   don't ask

Exit code: 0 allowed; 1 not allowed; 2 usage, or refused.""",
)
@click.argument("codes", nargs=-1, required=True, metavar="CODE ...")
@flag("--yes", "Don't ask. Only in a terminal.")
@flag("--json", "as_json", "Print one line of JSON for each call; needs --yes.")
def verb(codes: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Allow one denied call, once, within the next 15 minutes.

    The call must have the same tool and input, in the same folder, session and project. Only the hook that denied it is
    overruled; other hooks still judge the call. Calls that change billhook itself can't be allowed.

    Only a person can do this: it is refused inside an agent, and without a terminal.
    """
    refuse_programs("`billhook allow-once`", "only the user can allow a call")
    config = loaded(())
    overrides = Overrides(FileState(Path(config.root)))
    calls = [_found(overrides, code) for code in codes]
    if not as_json:
        say("\n".join(f"{one.code}  {_shown(one)}" for one in calls))
    if not yes and (as_json or typed("allow once? [y/N] ") not in ("y", "yes")):
        return 1
    until = [overrides.allow(one) for one in calls]
    for one in calls:
        if unrecorded := record_trust("allowed once", (), config, what=f"{one.code} {one.call}", hook=one.hook):
            note(f"this was not logged: {unrecorded}")
    text = f"allowed once until {time.strftime('%H:%M', time.localtime(min(until)))}: repeat the call in the agent"
    data = [
        {"code": one.code, "hook": one.hook, "call": one.call, "until": end}
        for one, end in zip(calls, until, strict=True)
    ]
    report(as_json, [text], *data)
    return 0


def _found(overrides: Overrides, code: str) -> DeniedCall:
    call = overrides.find(code)
    if call is None:
        hint = f"codes are in the reasons of denied calls, and valid for a day; a call may run for {WINDOW / 60:g} min"
        raise UsageError(f"no denied call has the code `{code}`", hint=hint)
    return call


def _shown(one: DeniedCall) -> str:
    where = f"denied by {one.hook} in {shown_path(one.project)}"
    return f"{visible(one_line(one.call, _WIDEST))}  ({visible(where)})"
