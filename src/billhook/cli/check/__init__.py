"""`billhook check`: what is wrong with the configuration, and the edit that repairs it. Runs nothing."""

import difflib
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec

from billhook.agents import AGENTS, TABLE
from billhook.cli.check.formats import FORMATS
from billhook.cli.options import one_of, words
from billhook.cli.screen import hint, note, say
from billhook.config import loader, sources
from billhook.config.config import Config
from billhook.config.declared import Declared
from billhook.config.history import budget_of, facts, log_of
from billhook.config.lint import lint
from billhook.config.lint.codes import is_note, sections
from billhook.config.lint.hooks import lint_log
from billhook.config.lint.rules import lint_permissions
from billhook.config.loader import load_config
from billhook.core.errors import UsageError
from billhook.core.text import Finding, suggest, visible
from billhook.store.files import StoreError


class Checked(msgspec.Struct, frozen=True):
    """What was looked at, and what was found there."""

    findings: tuple[Finding, ...]
    hooks: int
    files: int

    @property
    def unread(self) -> bool:
        """A file could not be opened or read at all: what it holds is not known."""
        return any(finding.code in ("BH101", "BH102", "BH103") for finding in self.findings)


@click.command(
    "check",
    epilog=f"""\b
Examples:
  billhook check
  billhook check .claude/settings.json hooks.yaml
  billhook check --ignore BH306,BH5 ../other-project
  billhook check --format github
  billhook check --json | jq -r .code | sort | uniq -c
  billhook check --host {[*AGENTS][1]}

\b
Exit code: 0 nothing found but notes (BH6), 1 findings, 2 something could not
be read. With --host: 1 when a hook says or needs something that this agent
does not honour; what a hook only may say is a note.""",
)
@click.argument("paths", nargs=-1, metavar="[PATH ...]")
@click.option("--format", "format_", **one_of(*FORMATS), help="How findings are printed.")
@click.option("--select", metavar="CODES", multiple=True, help="Only these codes, or beginnings of codes: BH3,BH506.")
@click.option("--ignore", metavar="CODES", multiple=True, help="All but these codes, or beginnings of codes.")
@click.option("--host", metavar="NAME", help=f"What this agent can't honour: {', '.join([*AGENTS][:3])} ..., or all.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def verb(
    paths: tuple[str, ...],
    format_: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    host: str | None,
    as_json: bool,
) -> int:
    """Look for what is wrong with hooks, and say how to mend it. No hook is run.

    Hooks that never fired and hooks that are slow, as the event log has it, are noted, too.

    PATH is a file, or the folder of a project. Without any: everything that applies here, your own files included.
    `billhook rule CODE` says what a code means.
    """
    wanted, unwanted = _codes(select, "--select"), _codes(ignore, "--ignore")
    if host is not None:
        if wanted or unwanted or format_ not in ("text", "json"):
            raise UsageError("--host has no codes", hint="give --json, or nothing beside it")
        return _for_host(host, paths, as_json=as_json or format_ == "json")
    found = checked(paths)
    kept = [one for one in found.findings if one.code.startswith(wanted or ("",)) and not one.code.startswith(unwanted)]
    text = FORMATS["json" if as_json else format_](kept, found.hooks, found.files)
    if text:
        say(text)
    if not found.files and format_ == "text" and not as_json:
        hint("`billhook init` writes a first file with hooks that work")
    if format_ == "text" and not as_json:
        _name_waiting(_folders(paths))
    return 2 if found.unread else 1 if any(not is_note(one) for one in kept) else 0


def _for_host(name: str, paths: Sequence[str], *, as_json: bool) -> int:
    """What one agent, or each, makes of the hooks; the exit code."""
    from billhook.cli.check import formats

    about, unread = [], False
    for host in list(AGENTS.values()) if name == "all" else [formats.host_named(name, "all")]:
        configs = [_of_path(path, host.name) for path in paths] or [_here(host.name)]
        entries = {_key(entry.declared): entry for config in configs for entry in config.entries}
        standing = [entry for entry in entries.values() if entry.state not in ("off", "same")]
        hooks = [_in_its_layer(entry.declared) for entry in standing if entry.state != "elsewhere"]
        about.append(formats.hosted(host, hooks, len(standing) - len(hooks), {one.project for one in configs}))
        unread = any(config.unreadable for config in configs)
    text = formats.host_json(about) if as_json else formats.host_text(about)
    if text:
        say(text)
    if unread:
        note("a file can't be read, so its hooks are not among these: `billhook check` says why")
    return 2 if unread else 1 if any(one.sure for one in about) else 0


def checked(paths: Sequence[str], *, with_log: bool = True) -> Checked:
    """What loading and lint find in these files and projects; in none of them, in all that applies here. `with_log`:
    also what the event log says against hooks."""
    configs = [_of_path(path) for path in paths] or [_here()]
    entries = {_key(entry.declared): entry for config in configs for entry in config.entries}
    findings = [finding for config in configs for finding in config.problems]
    tops = {read.source.path: read.places for config in configs for read in config.sources}
    hooks = [_in_its_layer(entry.declared) for entry in entries.values() if entry.state != "off"]
    variables = {read.source.path: read.variables for config in configs for read in config.sources}
    findings += lint([_with_the_files_place(hook, tops.get(hook.file, {})) for hook in hooks], variables)
    for rules in (config.permissions for config in configs):
        findings += [*rules.problems, *lint_permissions(rules)]
    if with_log:
        named = {(hook.file, hook.name) for hook in hooks}
        findings += [one for folder in _folders(paths) for one in _of_the_log(folder, named)]
    distinct = {(one.code, one.file, one.line, one.column, one.message): one for one in findings}
    twice = {(one.file, one.line, one.column) for one in findings if one.code == "BH105"}
    # a key that is there twice is a name that is there twice: one of the two is enough
    kept = [one for one in distinct.values() if one.code != "BH211" or (one.file, one.line, one.column) not in twice]
    ordered = sorted(kept, key=lambda one: (one.file, one.line, one.column, one.code))
    files = {read.source.path for config in configs for read in config.sources}
    return Checked(tuple(ordered), len(entries), len(files))


def _name_waiting(folders: Iterable[str]) -> None:
    """One line about allow rules that are not approved: nothing is wrong with them, but they have no effect."""
    waiting = [one.shown for folder in folders for one in loader.load_for_cwd(folder).permissions.pending]
    if waiting:
        say(
            f"\nhint: not approved, so that agents still ask: {visible(', '.join(waiting))} (`billhook trust`)",
            err=True,
        )


def _folders(paths: Sequence[str]) -> list[str]:
    """The projects whose logs have a say: a file alone is no project."""
    return [path for path in paths if os.path.isdir(path)] if paths else ["."]


def _of_the_log(folder: str, looked_at: Container[object]) -> list[Finding]:
    """What the event log of a project says against hooks that are checked here, and run."""
    config = loader.load_for_cwd(folder)
    try:
        log = log_of(config)
        found = lint_log(facts(log, config), budget_of(config)) if log is not None else ()
        return [one for one in found if (one.file, one.hook) in looked_at]
    except StoreError as error:
        note(f"the event log has no say: {error.message} ({error.place})")
        return []


def _here(host: str = "") -> Config:
    try:
        return load_config(builtins=False, trust="all", env=_set_variables(), host=host)
    except FileNotFoundError:
        raise UsageError("the working directory is gone", hint="change to a folder that exists") from None


def _of_path(path: str, host: str = "") -> Config:
    """A file as a file of its project, a folder as a project. Nothing is run, so nothing needs approval."""
    given: dict[str, Any] = {"builtins": False, "trust": "all", "env": _set_variables(), "host": host}
    if os.path.isdir(path):
        return load_config(path, layers=("project", "local"), **given)
    if not os.path.exists(path):
        raise UsageError(f"`{path}` does not exist", hint=_beside(path))
    return load_config(project_of(path), files=[path], **given)


def _set_variables() -> dict[str, str]:
    """Which variables are set, and nothing of what they hold: nobody has approved what is checked here."""
    return dict.fromkeys(os.environ, "x")


def project_of(file: str) -> str:
    """The folder that relative paths in a file start from."""
    real = os.path.realpath(file)
    folder = os.path.dirname(real)
    agent = sources.agent_of(real)
    if agent in TABLE and TABLE[agent].folders:
        return os.path.dirname(os.path.dirname(folder))
    return os.path.dirname(folder) if agent or os.path.basename(folder) in (".claude", ".billhook") else folder


def _beside(path: str) -> str:
    """The file of that folder that was likely meant."""
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return "name a settings file, a hooks.yaml, or the folder of a project"
    there = [one for one in sources.PROJECT_FILES if os.path.exists(os.path.join(folder, one))]
    known = {one: one for one in names[:1000]} | {os.path.basename(one): one for one in there}
    if near := difflib.get_close_matches(name, known, 1, 0.7):
        return f"did you mean `{os.path.join(folder, known[near[0]])}`?"
    if there:
        return f"hooks are in {', '.join(os.path.join(folder, one) for one in there)}"
    return "name a settings file, a hooks.yaml, or the folder of a project"


def _in_its_layer(declared: Declared) -> Declared:
    """The user's own file stays that, also when it is named on the command line."""
    if declared.layer == "explicit" and declared.file in sources.user_files():
        return msgspec.structs.replace(declared, layer="user")
    return declared


def _with_the_files_place(declared: Declared, top: Mapping[str, tuple[int, int]]) -> Declared:
    """A time-out that a hook has from the head of its file is wrong there, once, and not in each hook."""
    if declared.timeout is None or "timeout" in declared.places or "timeout" not in top:
        return declared
    return msgspec.structs.replace(declared, places={**declared.places, "timeout": top["timeout"]})


def _key(declared: Declared) -> tuple[Any, ...]:
    return declared.file, declared.line, declared.column, declared.name


def _codes(given: Iterable[str], option: str) -> tuple[str, ...]:
    """Codes and beginnings of codes, separated by commas; one that no code begins with is a slip."""
    found = tuple(word.upper() for word in words(given))
    for word in found:
        if not any(code.startswith(word) for code in sections()):
            near = suggest(word, sections())
            remedy = near if near.startswith("did") else "`billhook rule` lists them all"
            raise UsageError(f"{option}: no code begins with `{word}`", hint=remedy)
    return found
