"""Bare `billhook`: the status of this folder, and what to do next."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from billhook import __version__
from billhook.agents import AGENTS
from billhook.cli import screen
from billhook.cli.check import checked_hooks
from billhook.cli.doctor.checks import InstalledEntries, SettingsPair
from billhook.cli.install.entries import agents_here
from billhook.cli.options import loaded
from billhook.cli.times import ago, midnight
from billhook.config.config import Config, rows
from billhook.config.declaration import HookDeclaration, needs_consent
from billhook.config.history import GuardReport, RecentRecords, guard_report, log_of, recent
from billhook.config.lint import is_note
from billhook.config.notices import MissingGates, blocking_text, missing, missing_gates_text
from billhook.config.override import pause_of
from billhook.config.sources import FileRead, adopting_command, of_claude_code
from billhook.core.text import Finding, counted

_SHOWN = 3  # problems on the screen; further ones are only counted
_LABEL = 10  # columns of a label and the gap after it
_SCOPES = {"user": "your settings", "project": "this project"}

_INIT = ("billhook init", "create hooks.yaml with example hooks")
_EXPLAIN = ("billhook explain 'git push --force'", "show which hooks would run for a command")
_LIST = ("billhook list", "show all hooks in run order")
_EVENTS = ("billhook events", "show recent events and decisions")
_HELP = ("billhook --help", "show all commands")

Command = tuple[str, str]


class FolderStatus(msgspec.Struct, frozen=True, kw_only=True):
    config: Config
    problems: Sequence[Finding]
    installed: Sequence[InstalledEntries]  # billhook's entries in the settings of agents
    lately: RecentRecords | None  # the end of the event log
    gone: Sequence[MissingGates]  # gates that were in force here before and no longer are
    guard: GuardReport | None

    @property
    def files(self) -> list[FileRead]:
        """The files to show: those with hooks, those that can't be read, and every hooks.yaml."""
        sources = self.config.sources
        ours = (".yaml", ".yml")
        return [read for read in sources if _hooks(read) or not read.readable or read.source.path.endswith(ours)]


def show(*, as_json: bool) -> int:
    """Print the status. Always 0: this is a report, and a problem is not a failure."""
    status = _status()
    screen.report(as_json, _screen(status), _as_data(status))
    return 0


def _status() -> FolderStatus:
    config = loaded(())
    problems = [one for one in checked_hooks((), with_log=False).findings if not is_note(one)]
    lately: RecentRecords | None = None
    gone: Sequence[MissingGates] = ()
    guard: GuardReport | None = None
    with screen.noting("the event log can't be read"):
        lately = recent(log, config.project, midnight()) if (log := log_of(config)) is not None else None
    with screen.noting("can't determine whether a gate is gone"):
        gone = missing(config)
    with screen.noting("can't determine what the guard did"):
        guard = guard_report(config)
    pairs = [SettingsPair(host, config.project, Path(config.root)) for host in AGENTS.values()]
    installed = [one for pair in pairs for one in pair.installed]
    return FolderStatus(config=config, problems=problems, installed=installed, lately=lately, gone=gone, guard=guard)


def _hooks(read: FileRead) -> list[HookDeclaration]:
    """The hooks of a file, without billhook's entries in an agent's settings."""
    return [one for one in read.entries if not one.ours]


def _as_data(status: FolderStatus) -> dict[str, Any]:
    config, lately, guard = status.config, status.lately, status.guard
    return {
        "version": __version__,
        "project": config.project,
        "state": config.root,
        "files": [
            {
                "layer": read.source.layer,
                "file": read.source.path,
                "readable": read.readable,
                "hooks": len(_hooks(read)),
                **screen.picked(counts, "running pending"),
                "run_by_claude": counts.itself,
            }
            for read, counts in ((read, _counts(config, read)) for read in config.sources)
        ],
        "agents": [{"agent": one.host.name, **screen.picked(one, "scope path")} for one in status.installed],
        "pending": [entry.shown for entry in config.pending],
        "problems": [screen.picked(one, "code message file line column") for one in status.problems],
        "next": [command for command, _ in next_commands(status)],
        "log": None if lately is None else screen.picked(lately, "last today failed_open complete"),
        "gone": [screen.picked(one, "file gates why") for one in status.gone],
        "paused": screen.picked(pause, "until hooks") if (pause := pause_of(config)) else None,
        "guard": None if guard is None else screen.picked(guard, "preset cells asks denies complete"),
    }


def _screen(status: FolderStatus) -> Iterator[str]:
    config, problems = status.config, status.problems
    head = click.style(f"billhook {__version__}", bold=True)
    yield f"{head} in {screen.cut(screen.shown_path(config.project, here=False), screen.width() - 20)}"
    yield from ("", *_files(status))
    yield from _labelled("agents", _agents(status), "" if status.installed else "yellow")
    if status.guard is not None:
        done = f"; {status.guard.lately}" if config.recording is not None else ""
        yield from _labelled("guard", f"{status.guard.setting}{done}", "" if status.guard.on else "yellow")
    if pause := pause_of(config):
        yield from _labelled("paused", f"{pause}; `billhook resume` ends it", "yellow")
    if status.lately is not None:
        yield from _log(config, status.lately)
    for row in (one for one in rows(config) if one.effect == "blocks" and one.state == "changed"):
        yield from ("", *(click.style(line, fg="red") for line in screen.filled(blocking_text(row), 2)))
    for one in status.gone:
        yield from ("", *(click.style(line, fg="red") for line in screen.filled(missing_gates_text(one, config), 2)))
    if problems:
        yield from ("", click.style(counted(len(problems), "problem"), bold=True))
    for finding in problems[:_SHOWN]:
        place = ":".join(str(part) for part in (screen.shown_path(finding.file), finding.line, finding.column) if part)
        yield from screen.hanging(f"{place}: {finding.code} {finding.message}", 2)
    if len(problems) > _SHOWN:
        yield f"  and {len(problems) - _SHOWN} more; `billhook check` shows all"
    yield from ("", click.style("Next", bold=True))
    yield from screen.command_lines(next_commands(status))


def _labelled(label: str, text: str, colour: str = "") -> Iterator[str]:
    for line in screen.beside(f"  {label:<8}  ", text):
        at = _LABEL + 2
        yield line[:at] + (click.style(line[at:], fg=colour) if colour else line[at:])


def _files(status: FolderStatus) -> Iterator[str]:
    config = status.config
    rows = [(read.source.layer, screen.shown_path(read.source.path), _count(config, read)) for read in status.files]
    built_in = [hook.name for hook in config.hooks if hook.source.layer == "built-in"]
    if not rows:
        yield "  no hooks are configured here"
    column = min(48, max((len(file) for _, file, _ in rows), default=0))
    fits = all(_LABEL + 2 + column + 2 + len(click.unstyle(count)) <= screen.width() for _, _, count in rows)
    for layer, file, count in rows:
        shown = screen.padded(file, column) if fits else screen.cut(file, screen.width() - _LABEL - 2)
        yield f"  {layer:<8}  {shown}{f'  {count}' if fits else ''}"
        yield from () if fits else screen.wrapped(f"  {'':<8}    {count}", screen.width(), _LABEL + 4)
    if built_in:
        yield from _labelled("built-in", ", ".join(built_in))


def _agents(status: FolderStatus) -> str:
    """The agents that call billhook here, with where it is installed."""
    scopes: dict[str, list[str]] = {}
    for one in status.installed:
        scopes.setdefault(one.host.title, []).append(_SCOPES[one.scope])
    return (
        ", ".join(f"{title} ({' and '.join(where)})" for title, where in scopes.items())
        or "no agent calls billhook here"
    )


def _log(config: Config, lately: RecentRecords) -> Iterator[str]:
    from billhook.cli.doctor.checks import head_findings

    number = f"{lately.today:,}" if lately.complete else f"at least {lately.today:,}"
    opened = click.style(f"{lately.failed_open:,} failed open", fg="yellow") if lately.failed_open else ""
    parts = (f"last event {ago(lately.last)}", f"{number} today", opened)
    yield f"  {'log':<8}  {', '.join(filter(None, parts))}"
    for one in head_findings(config.project, Path(config.root)):
        if not one.well:
            yield from _labelled("", one.text, "yellow")


def _count(config: Config, read: FileRead) -> str:
    if not read.readable:
        return click.style("can't be read", fg="red")
    counts, hooks = _counts(config, read), _hooks(read)
    parts = [counted(len(hooks), "hook") if hooks else "no hooks"]
    if counts.itself:
        parts.append(f"{'' if counts.itself == len(hooks) else f'{counts.itself} '}run by Claude Code itself")
    elif hooks and not counts.pending and not counts.others and needs_consent(read.source.layer):
        parts.append("approved")
    parts += [click.style(f"{counts.pending} not approved", fg="yellow")] if counts.pending else []
    parts += [click.style(f"{counts.others} not running", fg="yellow")] if counts.others else []
    return ", ".join(parts)


class _Counts(msgspec.Struct, frozen=True):
    running: int
    pending: int  # not approved yet, and not run by Claude Code itself
    itself: int  # run by Claude Code itself, approved or not
    others: int


def _counts(config: Config, read: FileRead) -> _Counts:
    of_file = [entry for entry in config.entries if entry.declared.file == read.source.path and not entry.declared.ours]
    running = sum(entry.state == "runs" for entry in of_file)
    itself = [entry for entry in of_file if of_claude_code(entry.declared)]
    waiting = sum(entry.pending for entry in of_file)
    pending = waiting - sum(entry.pending for entry in itself)
    return _Counts(running, pending, len(itself), len(_hooks(read)) - running - waiting)


def next_commands(status: FolderStatus) -> list[Command]:
    """At most three commands, the most urgent first."""
    config = status.config
    found: list[Command] = []
    if status.problems:
        found.append(("billhook check", f"show {counted(len(status.problems), 'problem')}, with fixes"))
    if waiting := _waiting(config):
        found.append(("billhook trust", f"review {waiting}, and approve what may run"))
    if not found and not config.entries:
        found.append(_INIT)
    found += _connect(status)
    found += [_EVENTS] if status.installed and status.lately is not None else []
    found += [_LIST] if config.entries else []
    return [*found, _EXPLAIN, _HELP][:3]


def _waiting(config: Config) -> str:
    """The hooks or allow rules that are not approved yet, counted; empty if there are none."""
    hooks = sum(not of_claude_code(one.declared) for one in config.pending)
    rules = len(config.permissions.pending)
    return counted(hooks, "hook") if hooks else counted(rules, "allow rule") if rules else ""


def _connect(status: FolderStatus) -> list[Command]:
    hooks = [one.declared for one in status.config.entries if of_claude_code(one.declared)]
    commands = [command for one in hooks if (command := adopting_command(one))]
    if commands:
        return [(commands[0], f"move {counted(commands.count(commands[0]), 'hook')} to billhook")]
    if not status.installed:
        here = agents_here("user", status.config.project)
        names = [name for name, trace in here.items() if trace] or [*AGENTS][:1]
        titles = ", ".join(AGENTS[name].title for name in names)
        return [(f"billhook install {' '.join(names)}", f"connect {titles}")]
    if status.lately is None:
        return [("billhook doctor", f"check that {status.installed[0].host.title} calls billhook")]
    return []
