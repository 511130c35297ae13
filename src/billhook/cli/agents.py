"""What `install` and `uninstall` share: which agents are meant, and going through them one by one."""

import functools
import os
from collections.abc import Callable, Iterable, Sequence

import click

from billhook import caller
from billhook.agents import AGENTS, TABLE, agent
from billhook.agents.base import Agent, Scope
from billhook.cli.inside_agent import agent_around
from billhook.cli.show import error_text, say
from billhook.config import sources
from billhook.errors import BillhookError, UsageError
from billhook.text import suggest

ALL = "all"
ANOTHER = [*AGENTS][1]  # for examples: an agent that is not Claude Code
_NO_FILE = "{} has no file of its own: it reads those of {} and of Claude Code, so name `{}` or `claude`"
READS_OTHERS = {
    alias: _NO_FILE.format(agent(name).title, agent(row.module).title, row.module)
    for name, row in TABLE.items()
    if row.speaks
    for alias in agent(name).aliases
}
"""Names that people may try, and whose files they mean."""


def scope_options(verb: Callable[..., object]) -> Callable[..., object]:
    """`--user`, `--project`."""

    @functools.wraps(verb)
    def chosen(*arguments: object, user: bool, project: bool, **given: object) -> object:
        if user and project:
            raise UsageError("--user and --project exclude each other", hint="call it once for each")
        return verb(*arguments, scope="user" if user else "project" if project else None, **given)

    ours = click.option("--user", is_flag=True, help="Your own settings, for every project.  [default]")
    theirs = click.option("--project", is_flag=True, help="The settings of this project, for everybody.")
    return ours(theirs(chosen))


def refuse_agents(verb: str) -> None:
    """Whoever is judged by hooks does not put them in or out."""
    if agent := agent_around():
        raise UsageError(
            f"{verb} is refused here: this runs inside {agent}, and its hooks are a person's to change",
            hint="run it yourself, in a terminal of your own; --dry-run is open to everybody",
        )


def project_here(scope: Scope) -> str:
    """The project that we are in. Raises UsageError where there can be none."""
    found = sources.find(layers=("project", "local")).project
    if scope == "project" and found == os.path.realpath(caller.expanduser("~")):
        raise UsageError("the home folder is no project", hint="change into a project, or leave out --project")
    if scope == "project" and os.path.dirname(found) == found:
        raise UsageError(f"{found} is no project", hint="change into a project, or leave out --project")
    return found


def named(agents: Sequence[str]) -> tuple[list[Agent], bool]:
    """The agents that were named, each once; and whether that was `all`. Raises UsageError."""
    if not agents:
        raise UsageError("which agent?", hint=f"one of {', '.join(AGENTS)}, or {ALL}")
    for name in agents:
        if name not in AGENTS and name != ALL:
            raise UsageError(f"no agent `{name}`", hint=READS_OTHERS.get(name) or suggest(name, (*AGENTS, ALL)))
    if ALL in agents:
        return list(AGENTS.values()), True
    return [AGENTS[name] for name in dict.fromkeys(agents)], False


def one_by_one(hosts: Iterable[Agent], do: Callable[[Agent], bool]) -> int:
    """Go on with the others when one fails; the exit code. `do` says whether the agent was meant at all."""
    meant, failed = 0, False
    for host in hosts:
        try:
            meant += do(host)
        except BillhookError as error:
            error.hint = error.hint or f"`billhook {_verb()} --help` shows how it is meant"
            say(error_text(error), err=True)
            failed = True
    return 2 if failed else 0 if meant else 1


def _verb() -> str:
    context = click.get_current_context(silent=True)
    return context.info_name or "" if context else ""
