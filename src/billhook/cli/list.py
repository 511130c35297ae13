"""`billhook list`: all hooks in the order in which they run."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from billhook.agents import AGENTS
from billhook.cli import screen
from billhook.cli.options import checked_event, config_option, flag, loaded, option, usage
from billhook.cli.times import ago
from billhook.config import loader, sources
from billhook.config.config import Config, HookRow, as_data, rows
from billhook.config.declaration import conditions_in_words
from billhook.config.explain import only_observes
from billhook.config.history import LastFired, last_fired, log_of
from billhook.config.override import pause_of
from billhook.core.events import EVENTS
from billhook.core.text import counted, one_line

if TYPE_CHECKING:
    from billhook.agents.base import Agent
    from billhook.agents.without_hooks import HooklessAgent
    from billhook.cli.doctor.checks import PluginHook

_LONGEST_NAME = 28  # longer ones have a separate line
_LONGEST_FACT = 70
_INDENT = 5
_WAITING = ("new", "changed")
_DEFAULT_FORMAT = next(iter(AGENTS))  # of hooks in a hooks.yaml; it is not shown
_OBSERVERS = "Built-ins that only observe"


@usage(f"""\b
Examples:
  billhook list
  billhook list --event PreToolUse
  billhook list --host {[*AGENTS][2]}
  billhook list --json | jq -r 'select(.trust == "not approved") | .source'

Exit code: 0, or 2 usage.""")
@option("--event", "EVENT", "Show only the hooks that listen for this event.")
@option("--host", "NAME", f"Show what applies in this agent: {', '.join([*AGENTS][:3])} ...")
@config_option
@flag("--json", "as_json", "Print one line of JSON for each hook.")
def verb(event: str | None, host: str | None, configs: tuple[str, ...], as_json: bool) -> int:
    """Show all hooks in the order in which they run, and those that do not run, with the reason.

    With --host, show what applies in that agent. An agent runs the hooks of its settings file itself, and does not have
    every event. `billhook check --host NAME` shows what it does not support. Zed runs no hooks but has its own rules:
    `--host zed` prints your rules as settings for Zed, and on stderr those that Zed can't express.
    """
    config = loaded(configs)
    agent = None
    if host is not None:
        from billhook.agents.without_hooks import WITHOUT_HOOKS
        from billhook.cli.install import agent_named

        if (hookless := WITHOUT_HOOKS.get(host)) is not None and hookless.tools:
            return _exported(config, hookless, as_json)
        agent = agent_named(host)
        config = loader.load_for_cwd(".", configs, host=agent.name)
    wanted = checked_event(event, config) if event is not None else ""
    found = [row for row in rows(config) if not wanted or row.handles(wanted)]
    fired = _fired(config, found)
    plugins: list[PluginHook] = []
    if agent is None or agent.name == "claude":
        from billhook.cli.doctor.checks import plugin_hooks

        plugins = [one for one in plugin_hooks(config.project) if not wanted or wanted in one.declared.events]
    if as_json:
        screen.write_json(*(_as_data(row, config, agent, fired) for row in found), *map(_plugin_data, plugins))
        return 0
    if agent is not None and config.entries:
        screen.write(f"what applies in {agent.title}\n")
    lines = _screen(config, found, wanted, fired, agent) if config.entries else _empty(config, found)
    screen.write("\n".join([*lines, *_plugin_lines(plugins)]))
    if not config.sources:
        screen.hint("`billhook init` writes a first file with hooks")
    _hints(config)
    return 0


def _exported(config: Config, agent: "HooklessAgent", as_json: bool) -> int:
    """The rules as settings of an agent without hooks, and those that it can't have."""
    from billhook.config.permissions import exported

    found = exported(config, agent.tools)
    if as_json:
        settings = json.loads(agent.settings(found.patterns))
        screen.write_json({"settings": settings, "left": found.left})
        return 0
    screen.write(agent.settings(found.patterns), whole=True)
    for one in found.left:
        screen.note(f"not for {agent.title}: {screen.with_shown_paths(one)}")
    _hints(config)
    return 0


def _plugin_lines(plugins: "Sequence[PluginHook]") -> Iterator[str]:
    if plugins:
        yield from ("", click.style("Hooks of Claude Code plugins, run by Claude Code itself", bold=True))
    column = min(_LONGEST_NAME, screen.name_column((one.declared.name for one in plugins), 7))
    for one in plugins:
        declared = one.declared
        about = facts_of(screen.picked(declared, "events match"), "events match")
        where = [one.plugin, screen.shown_path(declared.place)]
        yield from _dimmed(declared.name, declared.does, [*about, *where], column)


def _plugin_data(one: "PluginHook") -> dict[str, object]:
    declared = one.declared
    about = {**screen.picked(declared, "events match"), "what": declared.does, "source": declared.place}
    status = {"state": "elsewhere", "why": "run by Claude Code itself", "effect": "nothing"}
    return {"name": declared.name, "plugin": one.plugin, **about, **status}


def _as_data(row: HookRow, config: Config, agent: "Agent | None", fired: LastFired | None) -> dict[str, object]:
    data = {**as_data(row), "hash": row.exact_hash or None}
    not_warm = row.not_warm(config.project)
    data |= {"warm": not_warm == "", "not_warm": not_warm or None}
    data["approve"] = "queue" if row.approve else None
    data |= {"policy": row.policy} if row.policy else {}
    data["last_fired"] = fired.times.get(row.name) if fired else None
    if agent is None:
        return data
    own = [agent.spellings[event] for event in row.events or EVENTS if event in agent.spellings]
    fires = row.effect != "nothing" and not _never_fires(row, agent)
    return {**data, "host": agent.name, "host_events": own, "fires": fires}


def _never_fires(row: HookRow, agent: "Agent | None") -> bool:
    return agent is not None and bool(row.events) and not any(event in agent.spellings for event in row.events)


def _fired(config: Config, found: Iterable[HookRow]) -> LastFired | None:
    """When these hooks last ran; None without a log."""
    with screen.noting("can't determine when hooks last ran"):
        if (log := log_of(config)) is not None:
            fired = last_fired(log, config.project, [row for row in found if row.effect != "nothing"])
            return fired if fired.events else None
    return None


def failure_rule(on_failure: str) -> str:
    """What a failure means. A gate denies or asks then, and after a change it blocks until it is approved."""
    return {"deny": "gate", "ask": "gate (asks)"}.get(on_failure, f"on_failure {on_failure}")


_FACTS: dict[str, Callable[[Any], str]] = {
    "events": lambda names: one_line(", ".join(names), _LONGEST_FACT),
    "part": str,
    "match": lambda text: one_line(f"match {text}", _LONGEST_FACT),
    "dialect": lambda name: "" if name == _DEFAULT_FORMAT else f"format {name}",
    "on_failure": failure_rule,
    "timeout": lambda seconds: f"timeout {seconds:g} s",
    "priority": lambda number: f"priority {number:g}",
    "after": lambda names: one_line(f"after {', '.join(names)}", _LONGEST_FACT),
    "background": lambda _: "in the background",
    "always": lambda _: "also after a deny",
    "shadow": lambda _: "shadow: it decides nothing",
    "approve": lambda _: "approve: queue",
    "trust": str,
    "policy": str,
    "source": screen.shown_path,
}
_EMPTY: tuple[Any, ...] = (None, "", False, (), [])


def facts_of(row: HookRow | Mapping[str, Any], names: str) -> Iterator[str]:
    """The facts of these names about a hook, in words. Empty ones are left out."""
    data = (
        {**as_data(row), "part": row.part, "approve": row.approve, "policy": row.policy}
        if isinstance(row, HookRow)
        else row
    )
    for name in names.split():
        if name == "conditions":
            yield from (one_line(f"{label} {text}", _LONGEST_FACT) for label, text in conditions_in_words(data))
        elif data.get(name) not in _EMPTY and (text := _FACTS[name](data[name])):
            yield text


def _screen(
    config: Config, found: Sequence[HookRow], wanted: str, fired: LastFired | None, agent: "Agent | None" = None
) -> Iterator[str]:
    column = min(_LONGEST_NAME, screen.name_column((row.name for row in found), 7))
    groups = [(event, rows_) for event, rows_ in _by_event(found, wanted, agent) if rows_]
    for place, (title, rows_) in enumerate(groups):
        yield from ("",) if place else ()
        yield click.style(one_line(title, screen.width()), bold=True)
        for number, row in enumerate(rows_, 1):
            idle = row.effect == "nothing" or _never_fires(row, agent)
            if row.state == "elsewhere":
                yield from _dimmed(row.name, row.what, [*facts_of(row, "events source"), row.why], column)
                continue
            yield from _hook(row, config.project, None if idle else number, column, fired, brief=title == _OBSERVERS)
    if not groups:
        yield f"no hook listens for {wanted}"


def _by_event(found: Sequence[HookRow], wanted: str, agent: "Agent | None") -> Iterator[tuple[str, list[HookRow]]]:
    active = [row for row in found if row.effect != "nothing" and not _never_fires(row, agent)]
    if wanted:
        yield _called(wanted, agent), active
    else:
        deciding = [row for row in active if not only_observes(row)]
        yield "Every event", [row for row in deciding if not row.events]
        named = {name for row in deciding for name in row.events if agent is None or name in agent.spellings}
        for event in (*(name for name in EVENTS if name in named), *sorted(named - set(EVENTS))):
            yield _called(event, agent), [row for row in deciding if event in row.events]
        yield _OBSERVERS, [row for row in active if only_observes(row)]
    idle = [row for row in found if row.effect == "nothing"]
    yield "Not approved (review with `billhook trust`)", [row for row in idle if row.state in _WAITING]
    if agent is not None:
        never = [row for row in found if row.effect != "nothing" and _never_fires(row, agent)]
        yield f"Never fires in {agent.title}, which has no such event", never
        yield f"Run by {agent.title} itself", [row for row in idle if row.state == "elsewhere"]
    yield "Not running", [row for row in idle if row.state not in (*_WAITING, "elsewhere")]


def _called(event: str, agent: "Agent | None") -> str:
    own = agent.spellings.get(event, event) if agent is not None else event
    return event if own == event else f"{event} ({own})"


def _dimmed(name: str, what: str, about: Sequence[str], column: int) -> Iterator[str]:
    lines = (*_headed("   - ", screen.shown_name(name), what, column), *screen.facts(about, _INDENT))
    yield from (click.style(line, dim=True) for line in lines)


def _headed(number: str, name: str, what: str, column: int) -> list[str]:
    """The name of a hook, and at most three lines of what it does. Long paths are cut in the middle."""
    head = f"{number}{name}{' ' * (column - len(click.unstyle(name)))}  "
    most = column + 7
    above = len(click.unstyle(head)) > most
    short = " ".join(screen.cut(word, screen.width() - (_INDENT if above else most)) for word in what.split())
    return screen.few(screen.beside(head, short, below=_INDENT, most=most), 3 + above)


def _hook(
    row: HookRow, project: str, number: int | None, column: int, fired: LastFired | None, *, brief: bool
) -> Iterator[str]:
    yield from _headed(f"  {number or '-':>2} ", click.style(screen.shown_name(row.name), fg="cyan"), row.what, column)
    if brief:
        return
    events, priority = "events" if number is None else "", "priority" if row.priority != 100 else ""
    dialect = "dialect" if row.layer != "built-in" else ""
    trust = "trust" if row.layer not in ("built-in", "fleet") else ""
    rule = "shadow" if row.shadow else "on_failure"
    when = f"{events} part match conditions {dialect}"
    names = f"{when} {rule} timeout {priority} after background always approve {trust} policy source"
    about = list(facts_of(row, names))
    not_warm = row.not_warm(project) if number is not None else None
    if not_warm is not None:
        about.insert(-1, one_line(f"not warm: {not_warm}", _LONGEST_FACT) if not_warm else "warm")
    if fired is not None and row.effect != "nothing":
        never = "never ran" if fired.complete else f"did not run in the last {fired.events:,} events"
        about.append(f"last ran {ago(fired.times[row.name])}" if row.name in fired.times else never)
    yield from screen.facts(about, _INDENT)
    text, colour = "", "yellow"
    if row.effect == "blocks":
        text, colour = f"blocks the events that it would judge: {row.why}", "red"
    elif row.why and (row.state != "new" or row.broken):
        text = row.broken or row.why
    yield from (click.style(line, fg=colour) for line in (screen.filled(text, _INDENT) if text else ()))


def _hints(config: Config) -> None:
    if pause := pause_of(config):
        screen.hint(f"{pause}: denials and asks have no effect; `billhook resume` ends it")
    if config.pending:
        screen.hint(f"{counted(len(config.pending), 'hook')} not approved yet: review with `billhook trust`")
    if waiting := config.permissions.waiting:
        screen.hint(waiting)
    if where := screen.first_problem(config.problems):
        screen.hint(f"fix {where} first; `billhook check` shows all problems")


def _empty(config: Config, found: Sequence[HookRow]) -> Iterator[str]:
    if config.unreadable:
        yield from _unread(config, [row.name for row in found if row.effect == "blocks"])
        return
    yield f"no hooks are configured for {one_line(screen.shown_path(config.project, here=False), 200)}"
    yield from ("", *_looked_in(config))
    if built_in := [row.name for row in found if row.layer == "built-in"]:
        yield from ("", f"built-ins: {', '.join(built_in)}")


def _unread(config: Config, blocking: Sequence[str]) -> Iterator[str]:
    files = ", ".join(screen.shown_path(read.source.path) for read in config.unreadable)
    yield from screen.filled(f"the hooks of {files} can't be read", 0)
    if blocking:
        several = len(blocking) > 1
        block = f"{len(blocking)} gates block what they checked" if several else "1 gate blocks what it checked"
        yield from screen.filled(f"{block} until this is fixed: {', '.join(blocking)}", 0)


def _looked_in(config: Config) -> Iterator[str]:
    there = {read.source.path: " (no hooks)" if read.readable else " (can't be read)" for read in config.sources}
    places: list[tuple[str, list[str]]] = [
        ("project", [f"{config.project}/{name}" for name in sources.PROJECT_FILES]),
        ("local", [f"{config.project}/{name}" for name in sources.LOCAL_FILES]),
        ("user", sources.user_files()),
        ("managed", [sources.MANAGED]),
        ("fleet", [file for file in there if f"/{'/'.join(sources.FLEET_RECORD[:-1])}/" in file]),
    ]
    yield "looked in:"
    for layer, files in filter(itemgetter(1), places):
        shown = [file for file in files if file in there or not file.endswith(".yml")]
        found = ", ".join(screen.shown_path(file) + there.get(file, "") for file in shown)
        yield from screen.beside(f"  {layer:<9}", found)
