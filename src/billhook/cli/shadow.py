"""`billhook shadow` and `billhook promote`: what hooks in shadow mode would have decided, and activate one."""

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from billhook.cli import times
from billhook.cli.install import diff
from billhook.cli.install.plan import FileChange, content, replace
from billhook.cli.options import flag, loaded, refuse_programs
from billhook.cli.screen import beside, hanging, hint, note, report, say, shown_path
from billhook.cli.trust import agreed, log_trust
from billhook.config import edit_yaml, trust
from billhook.config.config import Config, Entry, HookRow
from billhook.config.declaration import needs_consent
from billhook.config.loader import load_config
from billhook.core.errors import UsageError
from billhook.core.text import counted, suggest, visible
from billhook.testing.shadow import ShadowReport, shadow_report, shadow_rows

_DAYS = "7d"
_NONE = "no hook is in shadow mode here"
_HOW = "`shadow: true` on a hook, or `guard: {discard: {shadow: deny}}`, records its decisions without applying them"


@click.command(
    "shadow",
    epilog="""\b
Examples:
  billhook shadow
  billhook shadow --since 30d
  billhook shadow --json | jq -r '[.name, .decisions, .per_day] | @tsv'
  billhook promote no-push       activate one of them

Exit code: always 0.""",
)
@times.option("--since", end=False, default=_DAYS, help="How far back to look: 30m, 1d, a date.  [default: 7d]")
@flag("--json", "as_json", "Print one line of JSON for each hook.")
def verb(since: str, as_json: bool) -> int:
    """Show what hooks in shadow mode would have decided: how often, how often per day, and for which calls.

    A hook with `shadow: true` runs, and its answer is recorded, but has no effect.
    """
    config = loaded(())
    found, complete = shadow_report(config, since, shadow_rows(config))
    report(as_json, _screen(found), *map(_data, found))
    if not complete:
        note("the log is long: only its newest part was read")
    if not found:
        hint(_HOW)
    elif any(one.decisions for one in found):
        hint("`billhook promote NAME` activates a hook; `billhook events show ID` shows one event")
    return 0


def _data(one: ShadowReport) -> dict[str, Any]:
    return {**msgspec.to_builtins(one), "decisions": one.decisions, "per_day": one.per_day}


def _screen(found: Sequence[ShadowReport]) -> Iterator[str]:
    if not found:
        yield _NONE
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


@click.command(
    "promote",
    epilog="""\b
Examples:
  billhook promote no-push
  billhook promote guard/discard     a cell of the guard's table

Exit code: 0 done; 1 not promoted; 2 usage, or refused.""",
)
@click.argument("name", metavar="NAME")
@times.option("--since", end=False, default=_DAYS, help="How far back to look.  [default: 7d]")
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
        say("\n".join([*_lines(found[0]), ""]))
        say("\n".join(diff(change)), whole=True)
    if not yes and (as_json or not agreed(f"activate {visible(row.name)}?")):
        return 1
    _write(change, row)
    _approve(row, change.real)
    line = f"{visible(row.name)} is active: {visible(shown_path(change.real))}"
    report(as_json, [line], {**_data(found[0]), "file": change.real, "promoted": True})
    return 0


def _named(config: Config, name: str) -> HookRow:
    found = shadow_rows(config)
    row = next((one for one in found if name in (one.name, one.name.removeprefix("guard/"))), None)
    if row is None:
        names = [one.name for one in found]
        raise UsageError(f"no hook `{name}` is in shadow mode", hint=suggest(name, names) if names else _HOW)
    if row.declared is not None and row.state != "runs":
        raise UsageError(f"`{name}` does not run: {row.why}", hint="`billhook trust` shows and approves it")
    return row


def _change(config: Config, row: HookRow) -> FileChange:
    """The file with the hook, or the guard's cell, activated."""
    file, cell = row.file, row.name.removeprefix("guard/")
    if row.declared is None:
        reads = [read for read in config.sources if any(cell in one.options.get("shadow", {}) for one in read.builtins)]
        file = reads[0].source.path
    before = content(file) or b""
    edited = edit_yaml.promoted_cell if row.declared is None else edit_yaml.promoted_hook
    name = cell if row.declared is None else row.declared.name
    return FileChange(shown_path(file), file, before, edited(before, file, name))


def _write(change: FileChange, row: HookRow) -> None:
    assert change.after is not None
    of_project = row.declared is not None and needs_consent(row.declared.layer)
    replace(change.real, change.after, "project" if of_project else "user", change.before)


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
