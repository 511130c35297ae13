"""`billhook allow-once`, `billhook pause` and `billhook resume`: what a person can override, for a while.

All three are refused inside an agent and without a terminal, and recorded in the event log.
"""

import time
from pathlib import Path

import click

from billhook.cli.options import flag, loaded, option, refuse_programs
from billhook.cli.screen import report, say, shown_path
from billhook.cli.times import seconds_of
from billhook.cli.trust import agreed, log_trust
from billhook.config.config import rows
from billhook.config.override import LONGEST_PAUSE, WINDOW, DeniedCall, Overrides, Pause, pause_of, set_pause
from billhook.core.errors import UsageError
from billhook.core.text import one_line, suggest, visible
from billhook.store.state import FileState

_WHY = "only the user can pause hooks"
_DEFAULT = "10m"
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
    if not yes and (as_json or not agreed("allow once?")):
        return 1
    until = [overrides.allow(one) for one in calls]
    for one in calls:
        log_trust("allowed once", (), config, what=f"{one.code} {one.call}", hook=one.hook)
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


# `billhook pause` and `billhook resume`:


@click.command(
    "pause",
    epilog="""\b
Examples:
  billhook pause                     10 minutes
  billhook pause 1h --hook guard     only this hook
  billhook resume                    end it

Exit code: 0 paused; 2 usage, or refused.""",
)
@click.argument("length", default=_DEFAULT, metavar="[TIME]")
@option("--hook", "hooks", "NAME", "Only this hook. May be repeated.", multiple=True)
@flag("--json", "as_json", "Print one line of JSON.")
def pause_verb(length: str, hooks: tuple[str, ...], as_json: bool) -> int:
    """Pause the hooks of this project for TIME.

    TIME is 10m by default, and at most 8h. The hooks still run and are recorded, but a deny, an ask, a stop or a
    `keep_going` has no effect. The agent shows the pause at every event.

    Hooks of the managed layer, and the guard's protection of billhook itself, can't be paused. Only a person can do
    this: it is refused inside an agent, and without a terminal.
    """
    refuse_programs("`billhook pause`", _WHY)
    seconds = seconds_of(length, "TIME")
    if not 0 < seconds <= LONGEST_PAUSE:
        raise UsageError(f"`{length}` is not between 1 second and 8 hours", hint="as in 10m or 1h")
    config = loaded(())
    known = [row.name for row in rows(config)]
    for name in hooks:
        if name not in known:
            raise UsageError(f"no hook is called `{name}`", hint=suggest(name, known))
    pause = Pause(time.time() + seconds, hooks)
    set_pause(config.project, pause)
    log_trust("paused", (), config, what=str(pause))
    report(as_json, [f"{visible(str(pause))}; `billhook resume` ends it"], {"until": pause.until, "hooks": hooks})
    return 0


@click.command(
    "resume",
    epilog="""\b
Examples:
  billhook resume

Exit code: 0 the hooks decide again, 1 there was no pause, 2 refused.""",
)
@flag("--json", "as_json", "Print one line of JSON.")
def resume_verb(as_json: bool) -> int:
    """End the pause of this project: its hooks decide again."""
    refuse_programs("`billhook resume`", _WHY)
    config = loaded(())
    pause = pause_of(config)
    set_pause(config.project, None)
    if pause is not None:
        log_trust("resumed", (), config, what=str(pause))
    report(as_json, ["the hooks decide again" if pause else "there is no pause here"], {"resumed": pause is not None})
    return 0 if pause else 1
