"""`billhook add`, `remove` and `init`: write recipes and example hooks into a hooks.yaml, and approve them."""

import itertools
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from billhook.agents import AGENTS
from billhook.agents.around import agent_around
from billhook.cli.options import at_terminal, flag, option, refuse_agents, refuse_programs, usage
from billhook.cli.screen import command_lines, filled, hint, name_lines, note, report, shown_path, write
from billhook.cli.trust import agreed
from billhook.config import sources
from billhook.config.config import Config, Entry
from billhook.config.declaration import HookDeclaration, needs_consent
from billhook.config.loader import load_config
from billhook.config.notices import acknowledge, missing
from billhook.config.sources import FileRead
from billhook.config.trust import approve_entry, record_trust
from billhook.core.errors import UsageError
from billhook.core.lazy import lazy_module
from billhook.core.text import counted, suggestion, visible
from billhook.store import files
from billhook.store.approvals import Approvals

if TYPE_CHECKING:
    from billhook.cli.install import plan
    from billhook.config import edit_yaml, recipes
    from billhook.config.recipes import Recipe
else:
    plan = lazy_module("billhook.cli.install.plan")
    edit_yaml = lazy_module("billhook.config.edit_yaml")
    recipes = lazy_module("billhook.config.recipes")

_FILE = ".billhook/hooks.yaml"
_LARGEST = 1 << 20
_CHANGES = "it would change hooks that judge it"


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [one.name for one in recipes.shipped() if one.name.startswith(incomplete)]


@usage("""\b
Examples:
  billhook add                                    list all recipes
  billhook add no-commits-to-main                 show it, ask, and add it
  billhook add protect-paths --set paths='.env*,infra/**'
  billhook add tests-before-stop --set command='npm test' --user
  billhook add git-context --print                only print the text
  billhook add ./ours/guard.yaml                  a recipe of your own
  billhook add ./ours                             every recipe of a folder

Exit code: 0 added, or already there; 1 not added; 2 usage, or refused.""")
@click.argument("names", nargs=-1, metavar="[NAME|FILE|FOLDER ...]", shell_complete=_complete)
@option("--set", "settings", "KEY=VALUE", "Set a parameter of the recipe. May be repeated.", multiple=True)
@flag("--user", "Add it to your own hooks.yaml, for all your projects.")
@flag("--print", "printing", "Only print the text that would be added.")
@flag("--yes", "Add it without asking. Works only in a terminal.")
@flag("--json", "as_json", "Print one line of JSON for each recipe.")
def verb(
    names: tuple[str, ...], settings: tuple[str, ...], user: bool, printing: bool, yes: bool, as_json: bool
) -> int:
    """Add a recipe to hooks.yaml: ready-made hooks for one purpose, with test cases. Without a name, list all recipes.

    Shows the new text, asks, then adds it and approves its hooks. The rest of the file is not changed.
    """
    chosen = [one for name in names for one in recipes.find(name)]
    given = _given(settings, chosen)
    if printing:
        texts = ["\n".join(_text(one, given)) for one in chosen]
        data = ({**_data(one), "text": text} for one, text in zip(chosen, texts, strict=True))
        report(as_json, texts, *data, whole=True)
        return 0
    if not names or (any(map(os.path.isdir, names)) and not as_json):
        found = chosen or recipes.shipped()
        report(as_json, _listing(found, "NAME" if not names else "FILE"), *map(_data, found))
    if not names:
        return 0
    (refuse_programs if yes else refuse_agents)("--yes" if yes else "add", _CHANGES, "--print")
    change = RecipeFile(user, yes, as_json)
    return max([_add(change, one, given) for one in chosen])


@usage("""\b
Examples:
  billhook remove no-commits-to-main
  billhook remove git-context --user
  billhook remove guard                           added from ./ours/guard.yaml

Exit code: 0 removed; 1 not removed, or not in the file;
2 usage, an unknown recipe, or refused.""")
@click.argument("names", nargs=-1, required=True, metavar="NAME|FILE|FOLDER ...", shell_complete=_complete)
@flag("--user", "Remove it from your own hooks.yaml.")
@flag("--yes", "Remove it without asking. Works only in a terminal.")
@flag("--json", "as_json", "Print one line of JSON for each recipe.")
def remove_verb(names: tuple[str, ...], user: bool, yes: bool, as_json: bool) -> int:
    """Remove a recipe from hooks.yaml.

    Shows the diff and asks first. If you have not edited the recipe's text, the file is restored byte for byte.
    Otherwise only the hooks of the recipe and their tests are removed.
    """
    (refuse_programs if yes else refuse_agents)("--yes" if yes else "remove", _CHANGES)
    change = RecipeFile(user, yes, as_json)
    chosen = [one for name in names for one in recipes.find(_source_of(change.before, name))]
    return max([_remove(change, one) for one in chosen])


def _source_of(data: bytes | None, name: str) -> str:
    """The argument that a recipe was added with: its name, or the path of a file with that name."""
    sources = [words[2] for words in _added(data) if "/" in words[2]]
    return next((one for one in sources if Path(one).stem == name), name)


# Recipes:
def _listing(found: "Sequence[Recipe]", what: str) -> Iterator[str]:
    width = max(len(one.name) for one in found)
    for purpose, group in itertools.groupby(found, key=lambda one: one.purpose):
        yield visible(purpose)
        yield from name_lines([(visible(one.name), visible(one.title)) for one in group], width)
    yield from ("", f"`billhook add {what}` shows a recipe, asks, and adds it", *([""] if what != "NAME" else ()))


def _data(one: "Recipe") -> dict[str, Any]:
    parameters = {name: msgspec.to_builtins(value) for name, value in one.parameters.items()}
    return {"recipe": one.name, "title": one.title, "purpose": one.purpose, "parameters": parameters}


def _given(settings: Sequence[str], chosen: "Sequence[Recipe]") -> dict[str, str]:
    """The parameters that --set gives. Raises UsageError for an unknown one."""
    known = {name: one for recipe in chosen for name, one in recipe.parameters.items()}
    given: dict[str, str] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if name not in known:
            near = suggestion(name, known) if known else "it has no parameters"
            raise UsageError(f"no parameter `{visible(name)}`", hint=f"{near} (as in --set key=value)")
        if not equals:
            raise UsageError(f"`{name}` has no value", hint=f"write --set {name}=VALUE")
        known[name].read(name, value)
        given[name] = value
    for recipe in chosen if given else ():
        _check_values(recipe, given)
    return given


def _check_values(recipe: "Recipe", given: Mapping[str, str]) -> None:
    """Raises UsageError where the recipe's hooks can't be used with these values, before anything is written."""
    import tempfile

    from billhook.config.lint import is_note, lint

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "hooks.yaml")
        file.write_bytes(edit_yaml.with_sections(None, str(file), recipe.sections(given)))
        config = load_config(folder, files=[file], home=folder)
        found = [*config.problems, *lint([one.declared for one in config.entries])]
    for one in found:
        if not is_note(one):
            names = ", ".join(f"`{name}`" for name in recipe.parameters if name in given)
            raise UsageError(f"{names} can't be set to that: {one.message}", hint=one.hint)


def _text(recipe: "Recipe", given: Mapping[str, str]) -> Iterator[str]:
    for key, block in recipe.sections(given).items():
        yield f"{key}:"
        yield from (f"  {line}".rstrip() for line in block.splitlines())


def _described(recipe: "Recipe", given: Mapping[str, str]) -> Iterator[str]:
    yield visible(f"{recipe.name}: {recipe.title}")
    for name, one in recipe.parameters.items():
        value = recipe.values(given)[name]
        shown = ",".join(value) if isinstance(value, list) else str(value)
        yield from filled(f"--set {name}={shown}  ({one.about})", 2)
    yield from ("", *map(visible, _text(recipe, given)), "")


# The file:
class RecipeFile:
    """The file to change, and whether the user agrees."""

    def __init__(self, user: bool, yes: bool, as_json: bool) -> None:
        self.user, self.yes, self.as_json = user, yes, as_json
        self.config = load_config(builtins=False)
        wanted = sources.user_files() if user else sorted(sources.PROJECT_FILES, key=lambda name: name != _FILE)
        names = [name for name in wanted if name.endswith((".yaml", ".yml"))]
        self.root = Path(names[0]).parent if user else Path(self.config.project)
        there = [name for name in names if os.path.lexists(self.root / name)]
        self.path = self.root / (there or names)[0]
        self.before = files.read_bytes(self.path, _LARGEST, root=self.root)

    @property
    def shown(self) -> str:
        return visible(shown_path(str(self.path)))

    def agreed(self, question: str) -> bool:
        """Whether the user answers yes, or gave --yes."""
        if self.yes:
            return True
        if self.as_json or not at_terminal():
            hint("nothing was changed: run it yourself in a terminal; `billhook add NAME --print` only prints")
            return False
        return agreed(question)

    def write(self, after: bytes | None) -> None:
        """Write the file, or remove it. Raises BillhookError if it has changed since it was read."""
        if after is None:
            folder = self.path.parent
            plan.remove(str(self.path), self.before, [str(folder)] if folder.name == ".billhook" else [])
        else:
            plan.replace(str(self.path), after, "user" if self.user else "project", self.before)
        self.before = after

    def entries(self, names: set[str]) -> list[Entry]:
        """The hooks of these names in the current file."""
        self.config = load_config(builtins=False)
        found = [one for one in self.config.entries if one.declared.file == os.path.realpath(self.path)]
        return [one for one in found if one.declared.name in names]


def _add(change: RecipeFile, recipe: "Recipe", given: Mapping[str, str]) -> int:
    sections = recipe.sections(given)
    hooks = recipes.plain(sections).get("hooks") or {}
    there = edit_yaml.hooks_in(change.before, str(change.path))
    shown = recipe.demonstration(given)
    done = {"recipe": recipe.name, "file": str(change.path), "hooks": [*hooks], "show": "\n".join(shown)}
    if _is_there(change, sections):
        line = f"{recipe.name} is in {change.shown} already; nothing was changed"
        report(change.as_json, [line], {**done, "added": False})
        return 0
    if clash := sorted(hooks.keys() & there.keys()):
        what = f"{change.shown} already has a different hook `{visible(clash[0])}`"
        if (before := _added_with(change.before, recipe)) is not None:
            pairs = ", ".join(f"{name}={value}" for name, value in before.items()) or "its defaults"
            what = f"{recipe.name} is in {change.shown} already, with {visible(pairs)}, or it was edited"
        write(f"{what}; nothing was changed", err=True)
        hint(f"edit it, or `billhook remove {recipe.source}` first")
        return 1
    recipe.check_defaults(given, Path(change.config.project))
    after = edit_yaml.with_sections(change.before, str(change.path), sections)
    if not change.as_json:
        write("\n".join(_described(recipe, given)), whole=True)  # exactly what is written
    if not change.agreed(f"add this to {change.shown}?"):
        return 1
    change.write(after)
    left = _approve(change, {*hooks}, of_project="/" in recipe.source)
    waits = f"; {', '.join(left)} runs files of the project: review with `billhook trust`"
    lines = [
        f"added to {change.shown}{waits if left else ' and approved'}",
        "",
        "see it work:",
        *(f"  {visible(line)}" for line in shown),
    ]
    report(change.as_json, lines, {**done, "added": True, "approved": not left}, whole=True)
    return 0


def _approve(change: RecipeFile, names: set[str], *, of_project: bool) -> list[str]:
    """Approve the added hooks. Returns those that still wait, because they run files that were not shown."""
    waiting = [one for one in change.entries(names) if one.pending]
    prints = [one.consent.fingerprint for one in waiting]
    hidden = [of_project and found is not None and bool(found.files) for found in prints]
    shown = [one for one, unseen in zip(waiting, hidden, strict=True) if not unseen]
    approvals = [approve_entry(one, change.config.root, "by `billhook add`") for one in shown]
    record_trust("approved", approvals, change.config)
    return [visible(one.declared.name) for one in waiting if one not in shown]


def _is_there(change: RecipeFile, sections: Mapping[str, str]) -> bool:
    """Whether the file has the recipe: its hooks, or its built-ins, mean the same."""
    said = edit_yaml.plain(change.before, str(change.path)) if change.before else {}
    said["hooks"] = edit_yaml.hooks_in(change.before, str(change.path))
    wanted = {key: entries for key, entries in recipes.plain(sections).items() if key != "tests"}
    return all(entries.items() <= (said.get(key) or {}).items() for key, entries in wanted.items())


def _remove(change: RecipeFile, recipe: "Recipe") -> int:
    from billhook.cli.install import diff

    names = {*(recipes.plain(recipe.texts).get("hooks") or {})}
    there = names & edit_yaml.hooks_in(change.before, str(change.path)).keys()
    given = _added_with(change.before, recipe)
    done = {"recipe": recipe.name, "file": str(change.path), "hooks": sorted(there)}
    if given is None:  # a hook of that name may be the user's own
        write(f"{recipe.name} is not in {change.shown}; nothing was changed", err=True)
        own = f"its hook `{min(there, default='')}` was not added by `billhook add`: edit the file to remove it"
        hint(own if there else "`billhook list` shows where each hook is")
        return 1
    assert change.before is not None
    try:
        after = edit_yaml.without_sections(change.before, str(change.path), recipe.sections(given or {}))
    except LookupError:  # it was edited
        after = edit_yaml.without_hooks(change.before, str(change.path), names)
    if not change.as_json:
        write("\n".join(diff(plan.FileChange(change.shown, str(change.path), change.before, after))), whole=True)
    if not change.agreed(f"remove this from {change.shown}?"):
        return 1
    _revoke(change, there, after)
    report(change.as_json, [f"removed {recipe.name} from {change.shown}"], {**done, "removed": True})
    return 0


def _added_with(data: bytes | None, recipe: "Recipe") -> dict[str, str] | None:
    """The parameters that a recipe was added with, from its comment in the file; None where there is none."""
    for words in _added(data):
        if words[2] == recipe.source:
            pairs = (word.partition("=") for word in words[3:] if word != "--set")
            return {name: value for name, _, value in pairs if name in recipe.parameters}
    return None


def _added(data: bytes | None) -> Iterator[list[str]]:
    """The commands that recipes were added with, from their comments in the file."""
    for line in (data or b"").decode("utf-8", "replace").splitlines():
        if line.strip().startswith("# billhook add "):
            with suppress(ValueError):  # a person wrote something else
                yield shlex.split(line.strip()[2:])


def _revoke(change: RecipeFile, names: set[str], after: bytes | None) -> None:
    """Write the file without these hooks, and revoke their approvals. They are not reported as gone."""
    approvals = Approvals(Path(change.config.root))
    hashes = [one.hash for one in change.entries(names)]
    change.write(after)
    file = os.path.realpath(change.path)
    known = [one for one in approvals.all() if one.file == file and one.hash in hashes]
    gone = [one for one in known if approvals.revoke(file, one.hash)]
    change.config = load_config(builtins=False)
    record_trust("revoked", gone, change.config)
    acknowledge(change.config, [one for one in missing(change.config) if one.file == file and {*one.gates} <= names])


# `billhook init`:
_IGNORED = ("*.local.yaml", "*.local.yml", "*.log", "*.bak")
_TRY = "billhook explain 'echo DEBUG=1 >> .env'"
_INSTALL = ("billhook install claude", f"connect Claude Code (or {', '.join([*AGENTS][1:4])} ...)")
_LIST = ("billhook list", "show all hooks in run order")
_TRUST = ("billhook trust", "review these hooks and approve them")


@usage(f"""\b
Examples:
  billhook init
  {_TRY}

Exit code: 0 written; 1 the file exists, nothing was changed;
2 the file can't be written.""")
@flag("--force", "Replace an existing file. The old file is kept as hooks.yaml.bak.")
@flag("--json", "as_json", "Print the result as one line of JSON.")
def init_verb(force: bool, as_json: bool) -> int:
    """Write .billhook/hooks.yaml with four example hooks, and approve them.

    The first hook denies changes to .env files; init prints the command that shows it. Other hook files of the project
    stay in use and are not changed.
    """
    before = load_config(builtins=False)
    path = Path(before.project, _FILE)
    there = os.path.lexists(path)
    if there and not force:
        write(f"{visible(shown_path(str(path)))} already exists; nothing was changed")
        hint("edit the file, or replace it with --force, which keeps a copy")
        return 1
    if there:
        refuse_agents("--force", "would replace hooks that judge it")
    agent = agent_around()
    backup = _write_examples(path)
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
    report(as_json, _written(now, path, backup, wrote, agent), done)
    if agent and not as_json:
        note(f"not approved: this runs inside {agent}, and only the user can approve hooks (`billhook trust`)")
    return 0


def _write_examples(path: Path) -> Path | None:
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


def _written(
    config: Config, path: Path, backup: Path | None, wrote: list[HookDeclaration], agent: str
) -> Iterator[str]:
    yield f"wrote {visible(shown_path(str(path)))}{'' if agent else ' and approved its hooks'}"
    if backup is not None:
        yield f"  the old file is now {visible(shown_path(str(backup)))}"
    yield from name_lines([(one.name, one.does) for one in wrote])
    if others := _others(config, path):
        yield from ("", "other hook files that are in use here")
        yield from name_lines([(shown_path(read.source.path), _state_of(read, hooks)) for read, hooks in others])
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


def _state_of(read: FileRead, hooks: list[Entry]) -> str:
    if not read.readable:
        return "can't be read (`billhook check` shows why)"
    waiting = sum(entry.pending for entry in hooks)
    if not waiting:
        return f"{counted(len(hooks), 'hook')}{'' if needs_consent(read.source.layer) else ' (yours)'}"
    some = "" if waiting == len(hooks) else f"{waiting} "
    return f"{counted(len(hooks), 'hook')}, {some}not approved yet"
