"""`billhook install`: an agent asks billhook from now on."""

import os
import shlex
import shutil
from collections.abc import Iterator
from functools import partial

import click
import msgspec

from billhook import caller, strictjson
from billhook.agents import AGENTS
from billhook.agents.base import Agent, Scope
from billhook.cli.agents import ALL, ANOTHER, named, one_by_one, project_here, refuse_agents, scope_options
from billhook.cli.install_screen import as_data, show_difference, show_outcome
from billhook.cli.main import VERBS
from billhook.cli.show import note, say
from billhook.cli.table import shown_path, with_shown_paths
from billhook.cli.values import one_of
from billhook.config import load_config
from billhook.config.approving import approve_entry, record_trust
from billhook.config.known_gates import acknowledge, missing
from billhook.errors import UsageError
from billhook.hosts import programs
from billhook.hosts.choosing import Needs, chosen_events, widened
from billhook.hosts.entries import PROGRAM, TOKEN_VARIABLE, Options
from billhook.hosts.installing import Change, Target, carry_out, plan_install
from billhook.store.files import state_root

_ADDRESS = "127.0.0.1:8123"


@click.command(
    "install",
    epilog=f"""\b
Examples:
  billhook install claude             in your own settings, for every project
  billhook install all --dry-run      what would change in every agent here
  billhook install {ANOTHER} --project    in this repository, for all who clone it
  billhook install claude --adopt     and move the hooks there to billhook
  billhook install claude --events PreToolUse,Stop

\b
Exit code: 0 done, or installed already; 1 no agent was found;
2 refused, or a file can't be changed.""",
)
@click.argument("agents", nargs=-1, metavar="|".join([*AGENTS, ALL]))
@scope_options
@click.option("--events", multiple=True, metavar="NAME,...", help="Only these events.  [default: what hooks need]")
@click.option("--dry-run", "dry", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    "--adopt", is_flag=True, help="Move the hooks that stand in that file to billhook; uninstall puts them back."
)
@click.option("--http", is_flag=True, help="Ask the daemon over HTTP, where the agent can.")
@click.option("--if-missing", **one_of("deny", "allow"), help="What happens on a machine without billhook.")
@click.option("--program", default="", metavar="PATH", help="The billhook-hook that your own settings shall call.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each agent.")
def verb(
    agents: tuple[str, ...],
    scope: Scope | None,
    events: tuple[str, ...],
    dry: bool,
    adopt: bool,
    http: bool,
    if_missing: str,
    program: str,
    as_json: bool,
) -> int:
    """Write into an agent's settings that it shall ask billhook, and nothing else.

    Shows the difference, keeps the file as it was, and can be repeated. Comments, order and layout stay; `billhook
    uninstall` gives back the file byte for byte.

    --user writes the absolute path of billhook-hook into your own settings. --project writes what is committed and
    shared: on a machine without billhook the entry itself refuses, and says how to install it.
    """
    hosts, everybody = named(agents)
    where: Scope = scope or "user"
    if not dry:
        refuse_agents("install")
    project = project_here(where)
    options = _options(where, http, if_missing, program)
    asked = _Asked(where, project, options, events, dry=dry, adopt=adopt, as_json=as_json)
    here = programs.agents_here(where, project) if everybody else {}
    code = one_by_one(hosts, partial(_install, asked=asked, here=here if everybody else None))
    asked.finish()
    return code


class _Asked:
    """What a person asked for, for every agent alike; and what came of it."""

    def __init__(
        self,
        scope: Scope,
        project: str,
        options: Options,
        events: tuple[str, ...],
        *,
        dry: bool,
        adopt: bool,
        as_json: bool,
    ) -> None:
        self.scope, self.project, self.options, self.events = scope, project, options, events
        self.dry, self.adopt, self.as_json = dry, adopt, as_json
        self.done: list[Change] = []

    def finish(self) -> None:
        """Say what is left for the person to do."""
        lines = list(dict.fromkeys(line for change in self.done for line in _next_steps(change, self.options)))
        if lines and not self.as_json and not self.dry:
            say("\nnext\n" + "\n".join(f"  {line}" for line in lines))


def _options(scope: Scope, http: bool, if_missing: str, program: str) -> Options:
    if scope == "project":
        if program:
            raise UsageError("--program is for your own settings", hint=f"a project's call `{PROGRAM}` by its name")
        if http:
            message = "--http is for your own settings: on a machine without billhook such an entry could not say so"
            raise UsageError(message, hint="leave out --http, or --project")
        if not shutil.which(PROGRAM, path=caller.environ().get("PATH")):
            note(f"`{PROGRAM}` is not on PATH here, so these entries will act as if billhook were missing")
        return Options(scope=scope, if_missing="allow" if if_missing == "allow" else "deny")
    path = programs.named(program) if program else programs.lasting()
    if program and (place := programs.soon_gone(path)):
        note(f"{path} is in {place}; when it is gone, your agents refuse what it would have judged")
    if not program and (owner := programs.of_a_project(path)):
        note(f"your settings will call the billhook of {owner}; `uv tool install billhook` gives you one of your own")
    return Options(
        scope=scope,
        program=path,
        if_missing="allow" if if_missing == "allow" else "deny",
        http=_daemon_address() if http else "",
    )


def _daemon_address() -> str:
    """Where the daemon listens for HTTP, or would."""
    from billhook.daemon import starting

    try:
        found = starting.ask(state_root())
    except starting.SilentError:
        found = None
    return found.http.rstrip("/") if found is not None and found.http else f"http://{_ADDRESS}"


def _install(host: Agent, asked: _Asked, here: dict[str, str] | None) -> bool:
    if here is not None and not here[host.name]:
        lacking = "nothing of it in" if os.path.exists(host.home()) else "no"
        _skipped(host, f"not found: no `{host.program}` on PATH, {lacking} {host.home()}", asked)
        return False
    if asked.options.http and not host.http:
        why = host.why_no_http
        if here is None:
            raise UsageError(f"--http is refused for {host.title}: {why}", hint="leave out --http")
        _skipped(host, why, asked)
        return False
    target = Target(host, asked.scope, asked.project, state_root())
    needs = Needs(target)
    events = chosen_events(host, asked.events) if asked.events else needs.events
    change = plan_install(target, events, asked.options, adopt=asked.adopt, seconds=needs.seconds)
    if not asked.as_json:
        show_difference(change)
    if not asked.dry:
        carry_out(change)
        _approve(change, asked)
    if wider := widened(host, asked.events):
        change = msgspec.structs.replace(change, notes=(*wider, *change.notes))
    asked.done.append(change)
    if asked.as_json:
        say(strictjson.dumps(as_data(change, dry=asked.dry)))
    else:
        show_outcome(change, dry=asked.dry)
    return True


def _skipped(host: Agent, why: str, asked: _Asked) -> None:
    if asked.as_json:
        say(strictjson.dumps({"agent": host.name, "scope": asked.scope, "state": "skipped", "why": why}))
    else:
        say(f"{host.title}: skipped, {with_shown_paths(why)}")


def _approve(change: Change, asked: _Asked) -> None:
    """Hooks that a person moves here run on: they were shown, and the agent has run them so far."""
    if not change.adopted or change.scope != "project":
        return
    config = load_config(asked.project, builtins=False)
    moved = [entry for entry in config.pending if entry.declared.file == change.files[1].real]
    how = "by `billhook install --adopt`"
    approvals = [approve_entry(entry, config.root, how) for entry in moved if entry.declared.name in change.adopted]
    record_trust("approved", approvals, config)
    acknowledge(config, missing(config))


def _next_steps(change: Change, options: Options) -> Iterator[str]:
    host = change.host
    if change.state == "already":
        return
    if options.http:
        address = options.http.removeprefix("http://")
        yield f"billhook daemon start --http {address}"
        token = state_root() / "billhook" / "daemon" / "token"
        yield "and where the agent is started:"
        yield f'export {TOKEN_VARIABLE}="$(cat {shlex.quote(str(token))})"'
    yield from (text for scope, text in host.next_steps if scope in ("any", change.scope))
    if change.scope == "project":
        yield from (f"git add {shown_path(one.path)}" for one in change.files)
        if change.adopted:
            yield "billhook trust, for everybody else: you have approved the hooks that were moved, they have not"
    if "doctor" in VERBS:
        yield f"billhook doctor {host.name}"
