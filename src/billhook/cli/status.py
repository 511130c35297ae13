"""Bare `billhook`: where it stands in this folder, and what to do next."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from billhook import __version__
from billhook.cli.check import checked_hooks
from billhook.cli.options import loaded
from billhook.cli.screen import filled, hanging, noting, picked, report, shown_path, width
from billhook.cli.times import ago, midnight
from billhook.config.config import Config
from billhook.config.declaration import needs_consent
from billhook.config.guard_report import GuardReport, guard_report
from billhook.config.history import RecentRecords, log_of, recent
from billhook.config.installation import adopting_command as _adopting
from billhook.config.installation import of_claude_code
from billhook.config.notices import Missing, gone_text, missing
from billhook.config.sources import FileRead
from billhook.core.text import Finding, counted, one_line

_SHOWN = 3  # problems that are shown; the rest is counted

_INIT = ("billhook init", "write a first file with hooks that work")
_EXPLAIN = ("billhook explain 'git push --force'", "which hooks a command would get, and why")


def show(*, as_json: bool) -> int:
    """Print it. Always 0: it is a report, and finding something is no failure."""
    config = loaded(())
    problems = checked_hooks((), with_log=False).findings
    lately: RecentRecords | None = None  # the end of the event log
    gone: Sequence[Missing] = ()  # gates that were in force here and are not any more
    with noting("the event log can't be read"):
        lately = recent(log, config.project, midnight()) if (log := log_of(config)) is not None else None
    with noting("can't tell whether a gate is gone"):
        gone = missing(config)
    guard: GuardReport | None = None
    with noting("can't tell what the guard did"):
        guard = guard_report(config)
    end = None if lately is None else picked(lately, "last today failed_open complete")
    data = {**_as_data(config, problems), "log": end, "gone": [picked(one, "file gates why") for one in gone]}
    data["guard"] = None if guard is None else picked(guard, "preset cells asks denies complete")
    report(as_json, _screen(config, problems, lately, gone, guard), data)
    return 0


def _as_data(config: Config, problems: Sequence[Finding]) -> dict[str, Any]:
    return {
        "version": __version__,
        "project": config.project,
        "state": config.root,
        "files": [
            {
                "layer": read.source.layer,
                "file": read.source.path,
                "readable": read.readable,
                "hooks": len(read.entries),
                **picked(counts, "running pending"),
                "run_by_claude": counts.itself,
            }
            for read, counts in ((read, _counts(config, read)) for read in config.sources)
        ],
        "pending": [entry.shown for entry in config.pending],
        "problems": [picked(one, "code message file line column") for one in problems],
        "next": [command for command, _ in next_commands(config, problems)],
    }


def _screen(
    config: Config,
    problems: Sequence[Finding],
    lately: RecentRecords | None,
    gone: Sequence[Missing],
    guard: GuardReport | None,
) -> Iterator[str]:
    head = click.style(f"billhook {__version__}", bold=True)
    yield f"{head} in {one_line(shown_path(config.project, here=False), width() - 20)}"
    yield ""
    yield from _files(config)
    if guard is not None:
        done = f"; {guard.lately}" if config.recording is not None else ""
        yield f"  {'guard':<8}  {click.style(guard.setting, fg=None if guard.on else 'yellow')}{done}"
    if lately is not None:
        from billhook.cli.doctor.hooks import head_findings

        number = f"{lately.today:,}" if lately.complete else f"at least {lately.today:,}"
        opened = click.style(f"{lately.failed_open:,} failed open", fg="yellow") if lately.failed_open else ""
        parts = (f"last event {ago(lately.last)}", f"{number} today", opened)
        yield f"  {'log':<8}  {', '.join(filter(None, parts))}"

        overdue = [one.text for one in head_findings(config.project, Path(config.root)) if not one.well]
        lines = (line for text in overdue for line in filled(text, 0, width() - 12))
        yield from (f"  {'':<8}  {click.style(line, fg='yellow')}" for line in lines)
    for one in gone:
        yield ""
        yield from (click.style(line, fg="red") for line in filled(gone_text(one, config), 2))
    if problems:
        yield from ("", click.style(counted(len(problems), "problem"), bold=True))
    for finding in problems[:_SHOWN]:
        place = ":".join(str(part) for part in (shown_path(finding.file), finding.line, finding.column) if part)
        yield from hanging(f"{place}: {finding.code} {finding.message}", 2)
    if len(problems) > _SHOWN:
        yield f"  and {len(problems) - _SHOWN} more; `billhook check` shows all"
    yield from ("", click.style("Next", bold=True))
    commands = next_commands(config, problems)
    column = max(len(command) for command, _ in commands)
    for command, what in commands:
        yield f"  {click.style(f'{command:<{column}}', fg='cyan')}  {what}"


def _files(config: Config) -> Iterator[str]:
    rows = [(read.source.layer, shown_path(read.source.path), _count(config, read)) for read in config.sources]
    built_in = [hook.name for hook in config.hooks if hook.source.layer == "built-in"]
    if not rows:
        yield "  no file with hooks is here"
    column = min(48, max((len(file) for _, file, _ in rows), default=0))
    for layer, file, count in rows:
        yield f"  {layer:<8}  {one_line(file, column):<{column}}  {count}"
    if built_in:
        yield f"  {'built-in':<8}  {', '.join(built_in)}"


def _count(config: Config, read: FileRead) -> str:
    if not read.readable:
        return click.style("can't be read", fg="red")
    _, pending, itself, others = _counts(config, read)
    parts = [counted(len(read.entries), "hook") if read.entries else "no hooks"]
    if itself:
        parts.append(f"{'' if itself == len(read.entries) else f'{itself} '}run by Claude Code itself")
    elif read.entries and not pending and needs_consent(read.source.layer):
        parts.append("approved")
    parts += [click.style(f"{pending} not approved", fg="yellow")] if pending else []
    parts += [click.style(f"{others} not running", fg="yellow")] if others else []
    return ", ".join(parts)


class _Counts(NamedTuple):
    """The hooks of one file."""

    running: int
    pending: int  # they wait for approval, and Claude Code does not run them itself
    itself: int  # Claude Code runs them itself, approved or not
    others: int


def _counts(config: Config, read: FileRead) -> _Counts:
    of_file = [entry for entry in config.entries if entry.declared.file == read.source.path]
    running = sum(entry.state == "runs" for entry in of_file)
    itself = [entry for entry in of_file if of_claude_code(entry.declared)]
    waiting = sum(entry.pending for entry in of_file)
    pending = waiting - sum(entry.pending for entry in itself)
    return _Counts(running, pending, len(itself), len(read.entries) - running - waiting)


def next_commands(config: Config, problems: Sequence[Finding]) -> list[tuple[str, str]]:
    """Three commands that fit, most urgent first."""
    if not config.sources:
        return [_INIT, _EXPLAIN, ("billhook --help", "every verb")]
    found: list[tuple[str, str]] = []
    adopt = [command for one in config.entries if of_claude_code(one.declared) and (command := _adopting(one.declared))]
    for command in list(dict.fromkeys(adopt))[:1]:
        found.append((command, f"move {counted(adopt.count(command), 'hook')} of Claude Code to billhook"))
    if waiting := [one for one in config.pending if not of_claude_code(one.declared)]:
        found.append(("billhook trust", f"look at {counted(len(waiting), 'hook')}, and approve what may run"))
    if problems:
        found.append(("billhook check", f"{counted(len(problems), 'problem')}, each with what mends it"))
    elif not config.entries:
        found.append(_INIT)
    found += [
        ("billhook list", "every hook in the order in which it runs"),
        _EXPLAIN,
        ("billhook fire PreToolUse --tool Bash", "try the hooks on an event"),
    ]
    return found[:3]
