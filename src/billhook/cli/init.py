"""`billhook init`: writes hooks.yaml with example hooks. The user who runs it approves them."""

import os
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import click

from billhook.agents import AGENTS
from billhook.cli.options import agent_around, flag, refuse_agents
from billhook.cli.screen import command_lines, hint, name_lines, note, report, say, shown_path
from billhook.config.config import Config, Entry
from billhook.config.declaration import Declared, needs_consent
from billhook.config.loader import load_config
from billhook.config.sources import FileRead
from billhook.config.trust import approve_entry, record_trust
from billhook.core.text import counted, visible
from billhook.store import files

_FILE = ".billhook/hooks.yaml"
_IGNORED = ("*.local.yaml", "*.local.yml", "*.log", "*.bak")
_LARGEST = 1 << 20
_TRY = "billhook explain 'echo DEBUG=1 >> .env'"
_INSTALL = ("billhook install claude", f"connect Claude Code (or {', '.join([*AGENTS][1:4])} ...)")
_LIST = ("billhook list", "show all hooks in run order")
_TRUST = ("billhook trust", "review these hooks and approve them")


@click.command(
    "init",
    epilog=f"""\b
Examples:
  billhook init
  {_TRY}

Exit code: 0 written; 1 the file exists, nothing was changed;
2 the file can't be written.""",
)
@flag("--force", "Replace an existing file. The old file is kept as hooks.yaml.bak.")
@flag("--json", "as_json", "Print the result as one line of JSON.")
def verb(force: bool, as_json: bool) -> int:
    """Write .billhook/hooks.yaml with four example hooks, and approve them.

    The first hook denies changes to .env files; init prints the command that shows it. Other hook files of the project
    stay in use and are not changed.
    """
    before = load_config(builtins=False)
    path = Path(before.project, _FILE)
    there = os.path.lexists(path)
    if there and not force:
        say(f"{visible(shown_path(str(path)))} already exists; nothing was changed")
        hint("edit the file, or replace it with --force, which keeps a copy")
        return 1
    if there:
        refuse_agents("--force", "would replace hooks that judge it")
    agent = agent_around()
    backup = _write(path)
    after = load_config(builtins=False)
    written = [entry for entry in after.entries if entry.declared.file == str(path)]
    if not agent:
        how = "by `billhook init`"
        record_trust("approved", [approve_entry(entry, after.root, how) for entry in written if entry.pending], after)
    now, wrote = load_config(builtins=False), [entry.declared for entry in written]
    done = {
        "file": str(path),
        "backup": str(backup) if backup is not None else None,
        "hooks": [one.name for one in wrote],
        "approved": not agent,
        "found": [_found_data(read, hooks) for read, hooks in _others(now, path)],
    }
    report(as_json, _lines(now, path, backup, wrote, agent), done)
    if agent and not as_json:
        note(f"not approved: this runs inside {agent}, and only the user can approve hooks (`billhook trust`)")
    return 0


def _write(path: Path) -> Path | None:
    """Write the file and a .gitignore beside it. Returns the copy of the old file, if there was one."""
    root = path.parent.parent
    old = files.read_bytes(path, _LARGEST, root=root)
    backup = None
    if old is not None:
        backup = path.with_name(path.name + ".bak")
        files.write_atomically(backup, old, root=root)
    files.write_atomically(path, resources.files("billhook.config").joinpath("starter.yaml").read_bytes(), root=root)
    ignore = path.with_name(".gitignore")
    old_lines = (files.read_bytes(ignore, _LARGEST, root=root) or b"").decode("utf-8", "surrogateescape")
    missing = [line for line in _IGNORED if line not in old_lines.splitlines()]
    if missing:
        start = old_lines if not old_lines or old_lines.endswith("\n") else old_lines + "\n"
        text = start + "\n".join(missing) + "\n"
        files.write_atomically(ignore, text.encode("utf-8", "surrogateescape"), root=root)
    return backup


def _lines(config: Config, path: Path, backup: Path | None, wrote: list[Declared], agent: str) -> Iterator[str]:
    yield f"wrote {visible(shown_path(str(path)))}{'' if agent else ' and approved its hooks'}"
    if backup is not None:
        yield f"  the old file is now {visible(shown_path(str(backup)))}"
    yield from name_lines([(one.name, one.does) for one in wrote])
    if others := _others(config, path):
        yield from ("", "other hook files that are in use here")
        yield from name_lines([(shown_path(read.source.path), _described(read, hooks)) for read, hooks in others])
        if any(entry.pending for _, hooks in others for entry in hooks):
            yield "  hooks that are not approved do not run; review them with `billhook trust`"
    if not agent:
        yield from ("", "try it: this command would be denied", f"  {_TRY}")
    yield from ("", "next")
    yield from command_lines([_TRUST, _INSTALL] if agent else [_INSTALL, _LIST])


def _others(config: Config, path: Path) -> list[tuple[FileRead, list[Entry]]]:
    """The other files that have hooks or can't be read, with their hooks."""
    found = []
    for read in config.sources:
        hooks = [entry for entry in config.entries if entry.declared.file == read.source.path]
        if read.source.path != str(path) and (hooks or not read.readable):
            found.append((read, hooks))
    return found


def _found_data(read: FileRead, hooks: list[Entry]) -> dict[str, Any]:
    pending = sum(one.pending for one in hooks)
    return {"file": read.source.path, "layer": read.source.layer, "hooks": len(hooks), "pending": pending}


def _described(read: FileRead, hooks: list[Entry]) -> str:
    if not read.readable:
        return "can't be read (`billhook check` shows why)"
    waiting = sum(entry.pending for entry in hooks)
    if not waiting:
        return f"{counted(len(hooks), 'hook')}{'' if needs_consent(read.source.layer) else ' (yours)'}"
    some = "" if waiting == len(hooks) else f"{waiting} "
    return f"{counted(len(hooks), 'hook')}, {some}not approved yet"
