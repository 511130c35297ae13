"""`billhook allow-once`, `pause`, `resume`, `shadow` and `promote`: which decisions of hooks have an effect.

A person overrides a decision for a while, or activates a hook whose decisions were only recorded. Apart from `shadow`,
all are refused inside an agent and without a terminal, and recorded in the event log.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from billhook.cli import times
from billhook.cli.options import flag, loaded, option, refuse_programs, usage
from billhook.cli.screen import beside, hanging, hint, note, report, shown_path, write
from billhook.cli.times import seconds_of
from billhook.cli.trust import agreed, log_trust
from billhook.config.config import Config, Entry, HookRow, rows
from billhook.config.declaration import needs_consent
from billhook.config.history import ShadowReport, shadow_report, shadow_rows
from billhook.config.loader import load_config
from billhook.config.override import LONGEST_PAUSE, DeniedCall, Overrides, Pause, pause_of, set_pause
from billhook.core.errors import UsageError
from billhook.core.lazy import lazy_module
from billhook.core.text import counted, one_line, suggestion, visible
from billhook.store.state import FileState

if TYPE_CHECKING:
    from billhook.cli import install
    from billhook.cli.install import plan
    from billhook.config import edit_yaml, trust
else:
    install = lazy_module("billhook.cli.install")
    plan = lazy_module("billhook.cli.install.plan")
    edit_yaml = lazy_module("billhook.config.edit_yaml")
    trust = lazy_module("billhook.config.trust")

_WHY = "only the user can pause hooks"


@usage("""\b
Examples:
  billhook allow-once K7QF2M         the code is in the reason of the deny
  billhook allow-once K7QF2M --yes   don't ask

Exit code: 0 allowed; 1 not allowed; 2 usage, or refused.""")
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
    calls = [_denied(overrides, code) for code in codes]
    if not as_json:
        write("\n".join(f"{one.code}  {_call_shown(one)}" for one in calls))
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


def _denied(overrides: Overrides, code: str) -> DeniedCall:
    call = overrides.find(code)
    if call is None:
        hint = "a code is in the reason of a deny, and valid for a day; `billhook events show` prints it, too"
        raise UsageError(f"no denied call has the code `{code}`", hint=hint)
    return call


def _call_shown(one: DeniedCall) -> str:
    where = f"denied by {one.hook} in {shown_path(one.project)}"
    return f"{visible(one_line(one.call, 200))}  ({visible(where)})"


# `billhook pause` and `billhook resume`:
@usage("""\b
Examples:
  billhook pause                     10 minutes
  billhook pause 1h --hook guard     only this hook
  billhook resume                    end it

Exit code: 0 paused; 2 usage, or refused.""")
@click.argument("length", default="10m", metavar="[TIME]")
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
            raise UsageError(f"no hook is called `{name}`", hint=suggestion(name, known))
    pause = Pause(time.time() + seconds, hooks)
    set_pause(config.project, pause)
    log_trust("paused", (), config, what=str(pause))
    report(as_json, [f"{visible(str(pause))}; `billhook resume` ends it"], {"until": pause.until, "hooks": hooks})
    return 0


@usage("""\b
Examples:
  billhook resume

Exit code: 0 the hooks decide again, 1 there was no pause, 2 refused.""")
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


# `billhook shadow`:
_LAST_DAYS = "7d"
_SHADOW_HINT = (
    "`shadow: true` on a hook, or `guard: {discard: {shadow: deny}}`, records its decisions without applying them"
)


@usage("""\b
Examples:
  billhook shadow
  billhook shadow --since 30d
  billhook shadow --json | jq -r '[.name, .decisions, .per_day] | @tsv'
  billhook promote no-push       activate one of them

Exit code: 0 done, 2 usage.""")
@times.option("--since", end=False, default=_LAST_DAYS, help="How far back to look: 30m, 1d, a date.  [default: 7d]")
@flag("--json", "as_json", "Print one line of JSON for each hook.")
def shadow_verb(since: str, as_json: bool) -> int:
    """Show what hooks in shadow mode would have decided: how often, how often per day, and for which calls.

    A hook with `shadow: true` runs, and its answer is recorded, but has no effect.
    """
    config = loaded(())
    found, complete = shadow_report(config, since, shadow_rows(config))
    report(as_json, _shadow_screen(found), *map(_shadow_data, found))
    if not complete:
        note("the log is long: only its newest part was read")
    if not found:
        hint(_SHADOW_HINT)
    elif any(one.decisions for one in found):
        hint("`billhook promote NAME` activates a hook; `billhook events show ID` shows one event")
    return 0


def _shadow_data(one: ShadowReport) -> dict[str, Any]:
    return {**msgspec.to_builtins(one), "decisions": one.decisions, "per_day": one.per_day}


def _shadow_screen(found: Sequence[ShadowReport]) -> Iterator[str]:
    if not found:
        yield "no hook is in shadow mode here"
    for place, one in enumerate(found):
        yield from ("",) if place else ()
        yield from _lines(one)


def _lines(one: ShadowReport) -> Iterator[str]:
    name = click.style(visible(one.name), fg="cyan")
    yield from beside(f"{name}  ", one.what)
    if not one.runs:
        yield "  has not run in this time"
        return
    counts = ", ".join(f"{word} {number}" for word, number in one.would.most_common()) or "no objection"
    rate = f", {one.per_day:g} per day" if one.decisions else ""
    yield f"  would have answered: {counts} in {counted(one.runs, 'run')} since {times.shown_time(one.since)}{rate}"
    for example in one.examples:
        yield from hanging(f"{example.would}  {visible(example.call)}  ({example.id[:12]})", 4)


# `billhook promote NAME`:
@usage("""\b
Examples:
  billhook promote no-push
  billhook promote guard/discard     a cell of the guard's table

Exit code: 0 done; 1 not promoted; 2 usage, or refused.""")
@click.argument("name", metavar="NAME")
@times.option("--since", end=False, default=_LAST_DAYS, help="How far back to look.  [default: 7d]")
@flag("--yes", "Don't ask. Only in a terminal.")
@flag("--json", "as_json", "Print one line of JSON; needs --yes.")
def promote_verb(name: str, since: str, yes: bool, as_json: bool) -> int:
    """Activate a hook that is in shadow mode.

    Shows what the hook would have decided, removes `shadow` from its file, and approves it. Comments in the file stay.

    Only a person can do this: it is refused inside an agent, and without a terminal.
    """
    refuse_programs("`billhook promote`", "only the user can change which hooks decide")
    config = loaded(())
    row = _named(config, name)
    found, _ = shadow_report(config, since, [row])
    change = _change(config, row)
    if not as_json:
        write("\n".join([*_lines(found[0]), ""]))
        write("\n".join(install.diff(change)), whole=True)
    if not yes and (as_json or not agreed(f"activate {visible(row.name)}?")):
        return 1
    _write(change, row)
    _approve(row, change.real)
    line = f"{visible(row.name)} is active: {visible(shown_path(change.real))}"
    report(as_json, [line], {**_shadow_data(found[0]), "file": change.real, "promoted": True})
    return 0


def _named(config: Config, name: str) -> HookRow:
    found = shadow_rows(config)
    row = next((one for one in found if name in (one.name, one.name.removeprefix("guard/"))), None)
    if row is None:
        names = [one.name for one in found]
        raise UsageError(f"no hook `{name}` is in shadow mode", hint=suggestion(name, names) if names else _SHADOW_HINT)
    if row.declared is not None and row.state != "runs":
        raise UsageError(f"`{name}` does not run: {row.why}", hint="`billhook trust` shows and approves it")
    return row


def _change(config: Config, row: HookRow) -> "plan.FileChange":
    file, cell = row.file, row.name.removeprefix("guard/")
    if row.declared is None:
        reads = [read for read in config.sources if any(cell in one.options.get("shadow", {}) for one in read.builtins)]
        file = reads[0].source.path
    before = plan.content(file) or b""
    edited = edit_yaml.promoted_cell if row.declared is None else edit_yaml.promoted_hook
    name = cell if row.declared is None else row.declared.name
    return plan.FileChange(shown_path(file), file, before, edited(before, file, name))


def _write(change: "plan.FileChange", row: HookRow) -> None:
    assert change.after is not None
    of_project = row.declared is not None and needs_consent(row.declared.layer)
    plan.replace(change.real, change.after, "project" if of_project else "user", change.before)


def _approve(row: HookRow, file: str) -> None:
    """Approve the hook of a project as it is now, if only `shadow` was removed from it; and log it in any case."""
    config = load_config()
    approvals = []
    if row.entry is not None and needs_consent(row.entry.declared.layer):
        entry = next(one for one in config.entries if one.declared.file == file and one.shown == row.name)
        if _content(entry) != _content(row.entry):
            raise UsageError("the hook was changed in the meantime", place=file, hint="review it: `billhook trust`")
        approvals.append(trust.approve_entry(entry, config.root, "with `billhook promote`"))
    log_trust("promoted", approvals, config, what=row.name)


def _content(entry: Entry) -> object:
    """Everything that an approval covers, without `shadow`."""
    now = trust.fingerprint(entry.declared)
    definition = {key: value for key, value in trust.definition(entry.declared).items() if key != "shadow"}
    return definition, {mark.path: mark.sha256 for mark in now.files}
