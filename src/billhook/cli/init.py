"""`billhook init`: a first file with hooks that work, approved by whoever asked for it."""

import os
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import click

from billhook.agents import AGENTS
from billhook.cli.options import agent_around
from billhook.cli.screen import note, say, shown_path
from billhook.config.config import Config, Entry
from billhook.config.declaration import Declared, needs_consent
from billhook.config.file_read import FileRead
from billhook.config.loader import load_config
from billhook.config.trust import approve_entry, record_trust
from billhook.core import strictjson
from billhook.core.errors import UsageError
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
@click.option("--force", is_flag=True, help="Replace the file that is there; it is kept as hooks.yaml.bak.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as one line of JSON.")
def verb(force: bool, as_json: bool) -> int:
    """Write .billhook/hooks.yaml with a gate, a logger and an annotator that work, and approve them.

    Hook files that are in the project already are used as well; init names them and leaves them as they are.
    """
    before = load_config(builtins=False)
    path = Path(before.project, _FILE)
    there = os.path.lexists(path)
    if there and not force:
        say(f"{visible(shown_path(str(path)))} is there already; nothing was changed")
        say("\nhint: edit it, or --force replaces it and keeps a copy", err=True)
        return 1
    agent = agent_around()
    if there and agent:
        raise UsageError(
            f"--force is refused here: this runs inside {agent}, and would replace hooks that judge it",
            hint="run it yourself, in a terminal of your own",
        )
    backup = _write(path)
    after = load_config(builtins=False)
    written = [entry for entry in after.entries if entry.declared.file == str(path)]
    if not agent:
        how = "by `billhook init`"
        record_trust("approved", [approve_entry(entry, after.root, how) for entry in written if entry.pending], after)
    done = _Done(load_config(builtins=False), path, backup, [entry.declared for entry in written], agent)
    if as_json:
        say(strictjson.dumps(done.as_data()))
    else:
        done.show()
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


class _Done:
    """What was done, and what is there besides."""

    def __init__(self, config: Config, path: Path, backup: Path | None, wrote: list[Declared], agent: str) -> None:
        self.config, self.path, self.backup, self.wrote, self.agent = config, path, backup, wrote, agent

    def show(self) -> None:
        say("\n".join(self._lines()))
        if self.agent:
            note(f"not approved: this runs inside {self.agent}, and consent is a person's to give (`billhook trust`)")

    def _lines(self) -> Iterator[str]:
        yield f"wrote {visible(shown_path(str(self.path)))}{'' if self.agent else ', and approved what is in it'}"
        if self.backup is not None:
            yield f"  the file that was there is now {visible(shown_path(str(self.backup)))}"
        width = max(len(one.name) for one in self.wrote)
        for one in self.wrote:
            yield f"  {one.name:<{width}}  {', '.join(one.events)}"
        if others := self._others():
            yield ""
            yield "found, and used as well"
            paths = [visible(shown_path(read.source.path)) for read, _ in others]
            width = max(map(len, paths))
            for path, (read, hooks) in zip(paths, others, strict=True):
                yield f"  {path:<{width}}  {_described(read, hooks)}"
            if any(entry.pending for _, hooks in others for entry in hooks):
                yield "  what is not approved does not run: `billhook trust` shows each hook and asks"
        yield ""
        yield "next"
        for command, shows in _NEXT:
            yield f"  {command}"
            yield f"      {shows}"

    def _others(self) -> list[tuple[FileRead, list[Entry]]]:
        """The other files with hooks, or that can't be read, and what they declare."""
        found = []
        for read in self.config.sources:
            hooks = [entry for entry in self.config.entries if entry.declared.file == read.source.path]
            if read.source.path != str(self.path) and (hooks or not read.readable):
                found.append((read, hooks))
        return found

    def as_data(self) -> dict[str, Any]:
        return {
            "file": str(self.path),
            "backup": str(self.backup) if self.backup is not None else None,
            "hooks": [one.name for one in self.wrote],
            "approved": not self.agent,
            "found": [
                {
                    "file": file.path,
                    "layer": file.layer,
                    "hooks": len(hooks),
                    "pending": sum(one.pending for one in hooks),
                }
                for file, hooks in ((read.source, hooks) for read, hooks in self._others())
            ],
        }


def _described(read: FileRead, hooks: list[Entry]) -> str:
    if not read.readable:
        return "can't be read (`billhook check` says why)"
    waiting = sum(entry.pending for entry in hooks)
    if not waiting:
        return f"{counted(len(hooks), 'hook')}{'' if needs_consent(read.source.layer) else ' of your own'}"
    some = "" if waiting == len(hooks) else f"{waiting} "
    return f"{counted(len(hooks), 'hook')}, {some}not approved yet"
