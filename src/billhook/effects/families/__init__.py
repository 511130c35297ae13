"""One table per family of programs: what each program does, in rows that users of the program can read.

A family is a module with `ROWS` and `READERS` (program name -> function); see `effects/table.py`. Loaded at first use.
"""

import functools
from importlib import import_module
from typing import Final

from billhook.effects.effect import Command, Effect, Scope
from billhook.effects.places import World
from billhook.effects.table import Call, Reader, Row, apply_row, rows_by_program

FAMILIES: Final = ("reading", "files", "git", "network", "packages", "databases", "cloud", "containers", "system")


@functools.cache
def _tables() -> tuple[dict[str, tuple[Row, ...]], dict[str, tuple[Reader, ...]]]:
    rows: dict[str, tuple[Row, ...]] = {}
    readers: dict[str, tuple[Reader, ...]] = {}
    for name in FAMILIES:
        family = import_module(f"{__name__}.{name}")
        for program, found in rows_by_program(family.ROWS).items():
            rows[program] = (*rows.get(program, ()), *found)
        for program, reader in family.READERS.items():
            readers[program] = (*readers.get(program, ()), reader)
    return rows, readers


def is_known(program: str) -> bool:
    """Whether a program is in a table."""
    return any(program in table for table in _tables())


def effects_of_command(command: Command, world: World, scopes: dict[str, Scope]) -> list[Effect]:
    """What one command itself does; commands that it runs are separate."""
    rows, readers = _tables()
    if command.name not in rows and command.name not in readers:
        return []
    call = Call(command, world, scopes, frozenset())
    found = [effect for row in rows.get(command.name, ()) for effect in apply_row(row, call)]
    return found + [effect for reader in readers.get(command.name, ()) for effect in reader(call)]
