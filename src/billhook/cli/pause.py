"""`billhook pause` and `billhook resume`: hooks don't decide for some minutes."""

import time

import click

from billhook.cli.options import flag, loaded, option, refuse_programs
from billhook.cli.screen import note, report
from billhook.cli.times import seconds_of
from billhook.config.config import rows
from billhook.config.override import LONGEST_PAUSE, Pause, pause_of, set_pause
from billhook.config.trust import record_trust
from billhook.core.errors import UsageError
from billhook.core.text import suggest, visible

_WHY = "only the user can pause hooks"
_DEFAULT = "10m"


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
def verb(length: str, hooks: tuple[str, ...], as_json: bool) -> int:
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
    if unrecorded := record_trust("paused", (), config, what=str(pause)):
        note(f"this was not logged: {unrecorded}")
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
    if pause is not None and (unrecorded := record_trust("resumed", (), config, what=str(pause))):
        note(f"this was not logged: {unrecorded}")
    report(as_json, ["the hooks decide again" if pause else "there is no pause here"], {"resumed": pause is not None})
    return 0 if pause else 1
