"""`billhook install` and `billhook uninstall`: the agents that were named, and the change to each of their files."""

import difflib
import functools
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import click
import msgspec

from billhook.agents import AGENTS, EVERY_AGENT, TABLE, agent
from billhook.agents.base import Agent, Scope
from billhook.agents.without_hooks import WITHOUT_HOOKS
from billhook.cli.install import entries, plan
from billhook.cli.install.entries import PROGRAM, TOKEN_VARIABLE, EntryOptions, IfMissing, written_handlers
from billhook.cli.options import at_terminal, choice, complete_among, flag, option, refuse_agents, usage
from billhook.cli.screen import error_text, filled, hint, note, shown_path, with_shown_paths, write, write_json
from billhook.cli.trust import agreed
from billhook.config import sources
from billhook.config.edit_json import measured
from billhook.config.loader import load_config
from billhook.config.notices import acknowledge, missing
from billhook.config.trust import approve_entry, record_trust
from billhook.core import client_env, strictjson
from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import counted, suggestion, visible
from billhook.core.tools import folded
from billhook.store.files import state_root

ALL = "all"
_CHANGES = "only a person may change its hooks"
ANOTHER = [*AGENTS][1]  # for examples: an agent that is not Claude Code


def agent_named(name: str, *also: str) -> Agent:
    """The agent with that name, title or alias. Raises UsageError; `also` are other valid names, for a suggestion."""
    plain = folded(name)
    if plain in WITHOUT_HOOKS:
        raise UsageError(WITHOUT_HOOKS[plain].refusal[0], hint=WITHOUT_HOOKS[plain].refusal[1])
    if name in AGENTS:
        return AGENTS[name]
    for one in EVERY_AGENT.values():
        if plain.replace(" ", "") in (folded(known).replace(" ", "") for known in (one.name, one.title, *one.aliases)):
            return _with_settings(one)
    raise UsageError(f"no agent `{name}`", hint=suggestion(name, (*AGENTS, *also)))


def _with_settings(host: Agent) -> Agent:
    """The agent. Raises UsageError if it reads the settings of others only."""
    if host.name in AGENTS:
        return host
    other = agent(TABLE[host.name].also_reads)
    message = f"{host.title} has no settings file: it reads those of {other.title} and of Claude Code"
    raise UsageError(message, hint=f"name `{other.name}` or `claude`: {host.title} then calls billhook, too")


def scope_options(verb: Callable[..., object]) -> Callable[..., object]:
    """`--user`, `--project`."""

    @functools.wraps(verb)
    def chosen(*arguments: object, user: bool, project: bool, **given: object) -> object:
        if user and project:
            raise UsageError("--user and --project can't be combined", hint="run it once with each")
        return verb(*arguments, scope="project" if project else "user", **given)

    user_option = flag("--user", "Your own settings, for every project.  [default]")
    project_option = flag("--project", "The settings of this project, for all who use it.")
    return user_option(project_option(chosen))


def project_here(scope: Scope) -> str:
    """The project of the working directory. Raises UsageError if it can't be a project."""
    found = sources.find(layers=("project", "local")).project
    if scope == "project" and found == os.path.realpath(client_env.expanduser("~")):
        raise UsageError("the home folder is not a project", hint="change into a project, or leave out --project")
    if scope == "project" and os.path.dirname(found) == found:
        raise UsageError(f"{found} is not a project", hint="change into a project, or leave out --project")
    return found


def named(agents: Sequence[str]) -> tuple[list[Agent], bool]:
    """The named agents, each once, and whether `all` was named. Raises UsageError."""
    if not agents:
        raise UsageError("no agent was named", hint=f"name one of {', '.join(AGENTS)}, or {ALL}")
    hosts = {host.name: host for host in (agent_named(name, ALL) for name in agents if name != ALL)}
    return (list(AGENTS.values()), True) if ALL in agents else (list(hosts.values()), False)


def one_by_one(hosts: Iterable[Agent], do: Callable[[Agent], bool]) -> int:
    """Call `do` for each agent, also after one fails; the exit code. `do` returns False for an agent that it skips."""
    handled, failed = 0, False
    for host in hosts:
        try:
            handled += do(host)
        except BillhookError as error:
            verb = getattr(click.get_current_context(silent=True), "info_name", None) or ""
            error.hint = error.hint or f"`billhook {verb} --help` shows the usage"
            write(error_text(error), err=True)
            failed = True
    return 2 if failed else 0 if handled else 1


# The screen for a change to an agent's file:
_WOULD = {"installed": "would install", "updated": "would update", "removed": "would remove"}


def _lines(change: plan.InstallChange, dry: bool) -> Iterator[str]:
    title, file, backup = change.target.host.title, visible(shown_path(change.file)), change.target.shelf.backup
    if change.state in ("already", "absent"):
        yield f"{title}: {'already' if change.state == 'already' else 'not'} installed in {file}; nothing was changed"
        return
    word = _WOULD[change.state] if dry else change.state
    names = ", ".join(map(visible, change.adopted))
    if change.state == "removed":
        as_before = "; the file is byte for byte as before" if change.target.untouched else ""
        if change.files[0].after is None:
            yield f"{title}: {word} {file}, which contained only billhook's entries"
        else:
            yield f"{title}: {word} billhook's entries from {file}{as_before}"
        if change.adopted:
            yield f"  {counted(len(change.adopted), 'hook')} restored: {names}"
    else:
        yield f"{title}: {word} in {file}; it calls billhook for"
        yield from filled(", ".join(change.events), 2)
        if change.adopted:
            where = visible(shown_path(change.files[1].path))
            yield f"  {counted(len(change.adopted), 'hook')} moved to {where}: {names}"
        if change.files[0].before is not None and not dry and backup.exists():
            yield f"  backup: {visible(shown_path(str(backup), here=False))}"
    if dry:
        yield "  nothing was written (--dry-run)"


def _shown(change: plan.InstallChange, dry: bool) -> Iterator[str]:
    """The diff. For a file that has nothing else, one of its entries is enough: all of them are alike."""
    settings, *others = change.files
    sample = [] if dry else list(_sample(settings, change.target.host))
    yield from sample or diff(settings)
    for one in others:
        yield from diff(one)


def _sample(change: plan.FileChange, host: Agent) -> Iterator[str]:
    """One entry of a file that is new, or goes with them; nothing for other files, and for formats other than JSON."""
    if change.before is not None and change.after is not None:
        return
    with suppress(BillhookError):
        document = measured((change.before or change.after or b"").decode("utf-8", "replace"))
        checks = host.spellings.get("PreToolUse")  # the longest one
        for one in sorted(written_handlers(document, host), key=lambda one: one.event != checks)[:1]:
            what = "new" if change.before is None else "removed"
            yield f"{visible(shown_path(change.path))} ({what}), the entry for {one.event}:"
            yield click.style(f"  {visible(strictjson.dumps(one.entry))}", fg="green" if what == "new" else "red")
            yield ""


def diff(change: plan.FileChange) -> Iterator[str]:
    """A unified diff, as `diff -u` and git print it."""
    name = visible(shown_path(change.path))
    before, after = _split(change.before), _split(change.after)
    old = name if change.before is not None else "/dev/null"
    new = name if change.after is not None else "/dev/null"
    lines = list(difflib.unified_diff(before, after, old, new, lineterm=""))
    for number, line in enumerate(lines):
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1]) if number >= 2 else None
        yield click.style(visible(line.rstrip("\r")), fg=colour, bold=number < 2 or None)
    if lines:
        yield ""


def _split(data: bytes | None) -> list[str]:
    """The lines, with git's remark on a last one that has no newline."""
    text = (data or b"").decode("utf-8", "replace")
    *lines, last = text.split("\n")
    return [*lines, last + "\n\\ No newline at end of file"] if last else lines


def as_data(change: plan.InstallChange, *, dry: bool) -> dict[str, Any]:
    wrote = change.state not in ("already", "absent")
    target, backup = change.target, change.target.shelf.backup
    return {
        "agent": target.host.name,
        "scope": target.scope,
        "file": change.file,
        "state": change.state,
        "dry_run": dry,
        "changed": [one.path for one in change.files if one.before != one.after],
        "events": list(change.events),
        "adopted": list(change.adopted),
        "backup": str(backup) if wrote and not dry and backup.exists() else None,
        "notes": list(change.notes),
        "diff": click.unstyle("\n".join(line for one in change.files for line in diff(one))),
    }


# `billhook install`:
@usage(f"""AGENT is one of {", ".join(AGENTS)}, or all.

\b
Examples:
  billhook install claude             in your own settings, for every project
  billhook install all --dry-run      show the changes for every agent here
  billhook install {ANOTHER} --project    in this repository, for all who clone it
  billhook install claude --adopt     and move its hooks to billhook
  billhook install claude --events PreToolUse,Stop

Exit code: 0 done, or installed already; 1 no agent was found, or you
declined; 2 refused, or a file can't be changed.""")
@click.argument("agents", nargs=-1, metavar="AGENT ...", shell_complete=complete_among([*AGENTS, ALL]))
@scope_options
@option(
    "--events", "NAME,...", "Only these events.  [default: the usual events, and those that hooks need]", multiple=True
)
@flag("--dry-run", "dry", "Show the changes without making them.")
@flag("--adopt", "Move the hooks in that file to billhook; uninstall restores them.")
@flag("--http", "Let the agent call the daemon over HTTP, if it supports that.")
@choice(("deny", "allow"), "--if-missing", "What happens on a machine without billhook.")
@option("--program", "PATH", "Path of the billhook-hook program to write into your settings.", default="")
@flag("--yes", "With `all`: don't ask.")
@flag("--json", "as_json", "Print one line of JSON for each agent.")
def verb(
    agents: tuple[str, ...],
    scope: Scope,
    dry: bool,
    http: bool,
    if_missing: IfMissing,
    program: str,
    yes: bool,
    **given: Any,
) -> int:
    """Add billhook to an agent's settings.

    Shows the diff (for a new file, only the entry of one event), keeps a backup of the file, and can be repeated.
    Comments, order and layout are kept. `billhook uninstall` restores the file byte for byte.

    --user writes the absolute path of billhook-hook into your own settings. --project writes settings that are
    committed and shared; on a machine without billhook, they deny calls and show how to install it.

    `all` finds the agents on this machine, shows all changes, and asks once in a terminal. If one file can't be
    changed, nothing is written.
    """
    hosts, all_agents = named(agents)
    if not dry:
        refuse_agents("install", _CHANGES, "--dry-run")
    project = project_here(scope)
    options = _options(scope, http, if_missing, program)
    asked = _InstallRequest(scope=scope, project=project, dry=dry, **given)
    if all_agents:
        code = _install_all(hosts, asked, options, yes)
    else:
        code = one_by_one(hosts, lambda host: asked.make(_planned(host, asked, options)))
    lines = list(dict.fromkeys(line for change in asked.done for line in _next_steps(change, options)))
    if lines and not asked.as_json and not dry:
        write("\nnext\n" + "\n".join(f"  {line}" for line in lines))
    return code


class _InstallRequest(msgspec.Struct, kw_only=True):
    """The options of `install` and `uninstall`, the same for every agent, and the changes made so far."""

    scope: Scope
    project: str
    dry: bool
    as_json: bool
    events: tuple[str, ...] = ()
    adopt: bool = False
    done: list[plan.InstallChange] = []

    def make(self, change: plan.InstallChange) -> bool:
        """Show the change, make it unless this is a dry run, and report it."""
        self.show(change)
        return self.carry_out(change)

    def show(self, change: plan.InstallChange) -> None:
        if not self.as_json and change.state not in ("already", "absent"):
            for line in _shown(change, self.dry):
                write(line, whole=True)

    def carry_out(self, change: plan.InstallChange) -> bool:
        if not self.dry:
            plan.carry_out(change)
            _approve(change)
        self.done.append(change)
        if self.as_json:
            write_json(as_data(change, dry=self.dry))
            return True
        write("\n".join(_lines(change, self.dry)))
        for text in change.notes:
            note(with_shown_paths(text))
        return True


def _options(scope: Scope, http: bool, if_missing: IfMissing, program: str) -> EntryOptions:
    if scope == "project":
        if program:
            raise UsageError(
                "--program is for your own settings", hint=f"entries of a project run `{PROGRAM}` from PATH"
            )
        if http:
            message = "--http is for your own settings: without billhook such an entry can't refuse calls"
            raise UsageError(message, hint="leave out --http, or --project")
        if not entries.on_path(PROGRAM):
            note(f"`{PROGRAM}` is not on PATH here, so these entries act as if billhook were missing")
        return EntryOptions(scope=scope, if_missing=if_missing)
    path = entries.chosen_program(program) if program else entries.lasting_program()
    if program and (place := entries.temporary_place(path)):
        note(f"{path} is in {place}; when it is removed, your agents deny the calls that it would check")
    if not program and (owner := entries.of_a_project(path)):
        own = "to install your own copy, run `uv tool install .` in a checkout"
        note(f"your settings will call billhook in {owner}; {own}")
    return EntryOptions(scope=scope, program=path, if_missing=if_missing, http=_daemon_address() if http else "")


def _daemon_address() -> str:
    """The address at which the daemon listens for HTTP; the default one if it does not."""
    from billhook.serve import control

    try:
        found = control.query_status(state_root())
    except control.SilentError:
        found = None
    return found.http.rstrip("/") if found is not None and found.http else "http://127.0.0.1:8123"


def _planned(host: Agent, asked: _InstallRequest, options: EntryOptions) -> plan.InstallChange:
    """The change to one agent's file. Raises BillhookError."""
    if options.http and not host.http:
        raise UsageError(f"{host.title} can't use --http: {host.why_no_http}", hint="leave out --http")
    target = plan.Target(host, asked.scope, asked.project, state_root())
    needs = plan.RequiredEvents(target)
    events = plan.chosen_events(host, asked.events) if asked.events else needs.events
    change = plan.plan_install(target, events, options, adopt=asked.adopt, seconds=needs.seconds)
    return msgspec.structs.replace(change, notes=(*plan.widened(host, asked.events), *change.notes))


_ALL_OR_NONE: Final = "nothing was written: fix that, or name the agents to install"


def _install_all(hosts: Sequence[Agent], asked: _InstallRequest, options: EntryOptions, yes: bool) -> int:
    """Plan the changes for all agents that are here, show them together, and make them after one question."""
    skipped = _skipped(hosts, asked, options)
    for name, why in skipped.items() if asked.as_json else ():
        write_json({"agent": name, "scope": asked.scope, "state": "skipped", "why": why})
    if skipped and not asked.as_json:
        titles = ", ".join(AGENTS[name].title for name in skipped)
        write(
            "\n".join(filled(f"skipped, not found here{' or without HTTP hooks' if options.http else ''}: {titles}", 0))
        )
    changes: list[plan.InstallChange] = []

    def planned(host: Agent) -> bool:
        changes.append(_planned(host, asked, options))
        return True

    code = one_by_one([host for host in hosts if host.name not in skipped], planned)
    if code:
        hint(_ALL_OR_NONE if code == 2 else "install one by its name: `billhook install claude`")
        return code
    for change in changes:
        asked.show(change)
    new = [change.target.host.title for change in changes if change.state != "already"]
    asks = new and not asked.dry and not asked.as_json and not yes and at_terminal()
    if asks and not agreed(f"Change the settings of {', '.join(new)}?"):
        write("nothing was written")
        return 1
    return _apply_all(changes, asked)


def _skipped(hosts: Iterable[Agent], asked: _InstallRequest, options: EntryOptions) -> dict[str, str]:
    """The agents that are not installed, by name, and why."""
    here, found = entries.agents_here(asked.scope, asked.project), dict[str, str]()
    for host in hosts:
        lacking = "none of its files in" if os.path.exists(host.home()) else "no"
        if not here[host.name]:
            found[host.name] = f"not found: no `{host.program}` on PATH, {lacking} {host.home()}"
        elif asked.scope == "project" and not host.project_file:
            found[host.name] = "it has no project settings"
        elif options.http and not host.http:
            found[host.name] = host.why_no_http
    return found


def _apply_all(changes: Sequence[plan.InstallChange], asked: _InstallRequest) -> int:
    """Make the changes; if one fails, report which files were written before."""
    for change in changes:
        try:
            asked.carry_out(change)
        except BillhookError as error:
            write(error_text(error), err=True)
            done = [one.file for one in asked.done if one.state != "already"]
            hint(f"written before that: {', '.join(map(shown_path, done))}" if done else "nothing was written")
            return 2
    return 0


def _approve(change: plan.InstallChange) -> None:
    """Approve the hooks that the user moved here: the diff showed them, and the agent has run them so far."""
    if not change.adopted or change.target.scope != "project" or change.state == "removed":
        return
    config = load_config(change.target.project, builtins=False)
    moved = [entry for entry in config.pending if entry.declared.file == change.files[1].real]
    how = "by `billhook install --adopt`"
    approvals = [approve_entry(entry, config.root, how) for entry in moved if entry.declared.name in change.adopted]
    record_trust("approved", approvals, config)
    acknowledge(config, missing(config))


def _has_past(host: Agent, project: str) -> bool:
    from billhook.agents.transcripts import TranscriptScan
    from billhook.testing.replay import project_of

    scan = TranscriptScan(host, project, lambda folder: project_of(folder) == project)
    return next(iter(scan), None) is not None


def _next_steps(change: plan.InstallChange, options: EntryOptions) -> Iterator[str]:
    host, own = change.target.host, change.target.scope
    if change.state == "already":
        return
    if options.http:
        address = options.http.removeprefix("http://")
        yield f"billhook daemon start --http {address}"
        token = state_root() / "billhook" / "daemon" / "token"
        yield "and in the shell that starts the agent:"
        yield f'export {TOKEN_VARIABLE}="$(cat {shlex.quote(str(token))})"'
    yield from (text for scope, text in host.next_steps if scope in ("any", own))
    if host.transcripts and _has_past(host, change.target.project):
        yield f"billhook replay --transcripts {host.name}    shows what would have been stopped in the last 30 days"
    if own == "project":
        yield from (f"git add {shown_path(one.path)}" for one in change.files)
        if change.adopted:
            yield "other users: billhook trust (the moved hooks are approved for you only)"
    yield f"billhook doctor {host.name}"


# `billhook uninstall`:
@usage(f"""AGENT is one of {", ".join(AGENTS)}, or all.

\b
Examples:
  billhook uninstall claude             from your own settings
  billhook uninstall all --dry-run      show the changes
  billhook uninstall {ANOTHER} --project    from the settings of this project

Exit code: 0 done, or not installed; 2 refused, or a file can't be changed.""")
@click.argument("agents", nargs=-1, metavar="AGENT ...", shell_complete=complete_among([*AGENTS, ALL]))
@scope_options
@flag("--dry-run", "dry", "Show the changes without making them.")
@flag("--json", "as_json", "Print one line of JSON for each agent.")
def uninstall_verb(agents: tuple[str, ...], scope: Scope, dry: bool, as_json: bool) -> int:
    """Remove billhook's entries from an agent's settings.

    If the file has no other changes, it is restored byte for byte. Hooks that --adopt moved are restored, too. The
    event log and your approvals stay.
    """
    hosts, _ = named(agents)
    if not dry:
        refuse_agents("uninstall", _CHANGES, "--dry-run")
    asked = _InstallRequest(scope=scope, project=project_here(scope), dry=dry, as_json=as_json)
    return one_by_one(hosts, partial(_uninstall, asked=asked))


def _uninstall(host: Agent, asked: _InstallRequest) -> bool:
    change = plan.plan_uninstall(plan.Target(host, asked.scope, asked.project, state_root()))
    other: Scope = "project" if asked.scope == "user" else "user"
    with suppress(BillhookError):
        target = plan.Target(host, other, asked.project, state_root())
        if change.state == "absent" and target.path != change.file and written_handlers(measured(target.text()), host):
            elsewhere = f"billhook is installed in {target.path}: `billhook uninstall {host.name} --{other}`"
            change = msgspec.structs.replace(change, notes=(*change.notes, elsewhere))
    return asked.make(change)
