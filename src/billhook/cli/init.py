"""`billhook init`: a first file with hooks that work, approved by whoever asked for it."""

import os
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import click

from billhook.agents import AGENTS
from billhook.cli.options import agent_around, flag, refuse_agents
from billhook.cli.screen import hint, note, report, say, shown_path
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
_TRY = """billhook fire PreToolUse --tool Bash --input '{"command": "git push"}'"""
_NEXT = (
    ("billhook list", "every hook, in the order in which they run"),
    (_TRY, "what the gate says to a push"),
    ("billhook install claude", f"let an agent ask these hooks: {', '.join(AGENTS)}"),
)


@click.command(
    "init",
    epilog="""\b
Exit code: 0 written; 1 there is a file already, and nothing was changed; 2 it could not be written.""",
)
@flag("--force", "Replace the file that is there; it is kept as hooks.yaml.bak.")
@flag("--json", "as_json", "Print what was done as one line of JSON.")
def verb(force: bool, as_json: bool) -> int:
    """Write .billhook/hooks.yaml with a gate, a logger and an annotator that work, and approve them.

    Hook files that are in the project already are used as well; init names them and leaves them as they are.
    """
    before = load_config(builtins=False)
    path = Path(before.project, _FILE)
    there = os.path.lexists(path)
    if there and not force:
        say(f"{visible(shown_path(str(path)))} is there already; nothing was changed")
        hint("edit it, or --force replaces it and keeps a copy")
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
        note(f"not approved: this runs inside {agent}, and consent is a person's to give (`billhook trust`)")
    return 0


def _write(path: Path) -> Path | None:
    """Write the file and what Git shall not see of it; the copy that was made of an older one, if there was one."""
    root = path.parent.parent
    old = files.read_bytes(path, _LARGEST, root=root)
    backup = None
    if old is not None:
        backup = path.with_name(path.name + ".bak")
        files.write_atomically(backup, old, root=root)
    files.write_atomically(path, resources.files("billhook.config").joinpath("starter.yaml").read_bytes(), root=root)
    ignore = path.with_name(".gitignore")
    said = (files.read_bytes(ignore, _LARGEST, root=root) or b"").decode("utf-8", "surrogateescape")
    missing = [line for line in _IGNORED if line not in said.splitlines()]
    if missing:
        start = said if not said or said.endswith("\n") else said + "\n"
        text = start + "\n".join(missing) + "\n"
        files.write_atomically(ignore, text.encode("utf-8", "surrogateescape"), root=root)
    return backup


def _lines(config: Config, path: Path, backup: Path | None, wrote: list[Declared], agent: str) -> Iterator[str]:
    yield f"wrote {visible(shown_path(str(path)))}{'' if agent else ', and approved what is in it'}"
    if backup is not None:
        yield f"  the file that was there is now {visible(shown_path(str(backup)))}"
    width = max(len(one.name) for one in wrote)
    for one in wrote:
        yield f"  {one.name:<{width}}  {', '.join(one.events)}"
    if others := _others(config, path):
        yield from ("", "found, and used as well")
        paths = [visible(shown_path(read.source.path)) for read, _ in others]
        width = max(map(len, paths))
        for file, (read, hooks) in zip(paths, others, strict=True):
            yield f"  {file:<{width}}  {_described(read, hooks)}"
        if any(entry.pending for _, hooks in others for entry in hooks):
            yield "  what is not approved does not run: `billhook trust` shows each hook and asks"
    yield from ("", "next")
    for command, shows in _NEXT:
        yield f"  {command}"
        yield f"      {shows}"


def _others(config: Config, path: Path) -> list[tuple[FileRead, list[Entry]]]:
    """The other files with hooks, or that can't be read, and what they declare."""
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
        return "can't be read (`billhook check` says why)"
    waiting = sum(entry.pending for entry in hooks)
    if not waiting:
        return f"{counted(len(hooks), 'hook')}{'' if needs_consent(read.source.layer) else ' of your own'}"
    some = "" if waiting == len(hooks) else f"{waiting} "
    return f"{counted(len(hooks), 'hook')}, {some}not approved yet"
