"""`billhook check --host NAME`: what an agent can't honour of the hooks that are configured here."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import click
import msgspec

from billhook import strictjson
from billhook.agents import AGENTS
from billhook.agents.base import Agent
from billhook.cli.agents import READS_OTHERS
from billhook.cli.check_formats import shown
from billhook.cli.show import picked
from billhook.cli.table import filled, shown_path
from billhook.config.declared import Declared
from billhook.config.hosting import Host, Limit, limits
from billhook.errors import BillhookError, UsageError
from billhook.hosts.agentfile import checked, ours
from billhook.hosts.entries import times
from billhook.text import counted, one_line, suggest, visible

_DEADLINE: Final = re.compile(r"(?:--deadline |[?&]deadline=)(\d{1,9})\b")


class Hosted(msgspec.Struct, frozen=True):
    """One agent, and what it does with the hooks."""

    host: Agent
    hooks: tuple[Declared, ...]  # those that were looked at
    found: tuple[Limit, ...]
    left: int = 0  # hooks that the agent runs itself, in its own way

    @property
    def sure(self) -> bool:
        """Something that a hook says or needs is not honoured."""
        return any(limit.sure for limit in self.found)


def host_named(name: str, *also: str) -> Agent:
    """The agent of that name; UsageError with the nearest, of which `also` are some, when there is none."""
    if name not in AGENTS:
        raise UsageError(f"--host: no agent `{name}`", hint=READS_OTHERS.get(name) or suggest(name, [*AGENTS, *also]))
    return AGENTS[name]


def hosted(host: Agent, hooks: Sequence[Declared], left: int, projects: Iterable[str]) -> Hosted:
    """What an agent can't honour of these hooks, in the order of the files."""
    installed = _deadlines(host, projects)

    def seconds(event: str, wanted: float) -> float:
        there = times(host, event, wanted)[1] / 1000
        return min(there, installed.get(event, there))

    agent = Host(host.name, host.title, seconds)
    return Hosted(host, tuple(hooks), tuple(limit for hook in hooks for limit in limits(hook, agent)), left)


def _deadlines(host: Agent, projects: Iterable[str]) -> dict[str, float]:
    """The seconds that billhook has on each event, as it is installed for this agent."""
    canonical = {own: event for event, own in host.spellings.items()}
    found: dict[str, float] = {}
    for file in {host.file("user", ""), *(host.file("project", project) for project in projects)}:
        try:
            with open(file, encoding="utf-8") as opened:
                handlers = ours(checked(opened.read(), host, file), host)
        except (OSError, ValueError, BillhookError):
            continue
        for handler in handlers:
            said = _DEADLINE.search(str(handler.data.get(host.command_key) or handler.data.get("url")))
            event = canonical.get(handler.event)
            if said and event:
                found[event] = min(int(said[1]) / 1000, found.get(event, 1e9))
    return found


def as_text(about: Sequence[Hosted]) -> str:
    """Each agent below its own line, each hook with its sentences."""
    return "\n".join(line for place, one in enumerate(about) for line in (*([""] if place else []), *_screen(one)))


def _screen(one: Hosted) -> Iterator[str]:
    title, all_ = one.host.title, len(one.hooks)
    touched = len({(limit.file, limit.line, limit.hook) for limit in one.found if limit.sure})
    if touched:
        are = "is" if touched == 1 else "are"
        heading = f"{title}: {touched} of {counted(all_, 'hook')} {are} not honoured as written"
    else:
        heading = f"{title}: {counted(all_, 'hook')}, and nothing is lost for certain" if all_ else f"{title}: no hooks"
    yield click.style(heading, bold=True)
    for hook in one.hooks:
        said = [
            limit for limit in one.found if (limit.file, limit.line, limit.hook) == (hook.file, hook.line, hook.name)
        ]
        if said:
            place = f"{shown_path(hook.file)}:{hook.line}" if hook.line else shown_path(hook.file)
            name = click.style(one_line(hook.name, 40), fg="cyan")
            yield f"  {name}  {visible(place)}"
        for limit in said:
            for line in filled(limit.sentence, 4):
                yield click.style(line, fg="yellow") if limit.sure else line
    if one.left:
        yield from filled(
            f"{counted(one.left, 'more hook')} {'is' if one.left == 1 else 'are'} run by {title} itself", 2
        )


def as_json(about: Sequence[Hosted]) -> str:
    """One object a line, nothing else."""
    return "\n".join(strictjson.dumps(_data(one.host, limit)) for one in about for limit in one.found)


def _data(host: Agent, limit: Limit) -> dict[str, object]:
    return {
        "host": host.name,
        **picked(limit, "hook file line? events"),
        "file": shown(limit.file) or None,
        "host_events": [host.spellings.get(event) for event in limit.events],
        **picked(limit, "wants becomes sure"),
        "message": limit.sentence,
    }
