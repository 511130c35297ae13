"""Cases of program tables: a command as words, and what it does."""

import shlex
from collections.abc import Mapping

from billhook.effects.effect import Command, Effect
from billhook.effects.families import effects_of_command
from effects.world import PROJECT, world


def told(effects: list[Effect]) -> list[str]:
    """Effects as `kind:scope`, with the weight where it is not normal."""
    return [":".join([e.kind, e.scope, *([] if e.weight == "normal" else [e.weight])]) for e in effects]


def outcome(
    line: str,
    *,
    files: Mapping[str, str | None] | None = None,
    stdin: str | None = None,
    fed: str = "",
    origins: str = "",
    reads: tuple[str, ...] = (),
    assignments: tuple[str, ...] = (),
) -> list[str]:
    """What one plain command does by the tables; `$?` in the line is a part that the call doesn't show."""
    name, *args = shlex.split(line.replace("$?", "\0"))
    command = Command(
        name,
        tuple(args),
        PROJECT,
        text=line,
        stdin=stdin,
        fed=frozenset(fed.split()),
        origins=frozenset(origins.split()),
        piped=bool(fed),
        reads=reads,
        assignments=assignments,
    )
    here = world(files)
    return told(effects_of_command(command, here, here.scopes))
