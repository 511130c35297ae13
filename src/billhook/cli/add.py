"""`billhook add` and `billhook remove`: add recipes to a hooks.yaml, and remove them."""

import itertools
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from billhook.cli.install import diff
from billhook.cli.install.plan import FileChange
from billhook.cli.options import flag, option, refuse_agents
from billhook.cli.screen import filled, hint, name_lines, report, say, shown_path
from billhook.cli.trust import typed
from billhook.config import edit_yaml, recipes, sources
from billhook.config.config import Entry
from billhook.config.loader import load_config
from billhook.config.notices import acknowledge, missing
from billhook.config.recipes import Recipe
from billhook.config.trust import approve_entry, record_trust
from billhook.core.errors import UsageError
from billhook.core.text import suggest, visible
from billhook.store import files
from billhook.store.approvals import Approvals

_FILE = ".billhook/hooks.yaml"
_LARGEST = 1 << 20
_CHANGES = "it would change hooks that judge it"


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [one.name for one in recipes.shipped() if one.name.startswith(incomplete)]


@click.command(
    "add",
    epilog="""\b
Examples:
  billhook add                                    list recipes
  billhook add no-commits-to-main                 show it, then add it
  billhook add protect-paths --set paths='.env*,infra/**'
  billhook add tests-before-stop --set command='npm test' --user
  billhook add git-context --print                print it, change nothing
  billhook add ./ours/guard.yaml                  add your own recipe

Exit code: 0 added, or already there; 1 not added; 2 usage, or refused.""",
)
@click.argument("names", nargs=-1, metavar="[NAME|FILE|FOLDER ...]", shell_complete=_complete)
@option("--set", "settings", "KEY=VALUE", "Set a parameter of the recipe. May be repeated.", multiple=True)
@flag("--user", "Add it to your own hooks.yaml, for every project.")
@flag("--print", "printing", "Print the text that would be added. Changes nothing.")
@flag("--yes", "Add it without a question.")
@flag("--json", "as_json", "Print one line of JSON for each recipe.")
def verb(
    names: tuple[str, ...], settings: tuple[str, ...], user: bool, printing: bool, yes: bool, as_json: bool
) -> int:
    """Add a recipe to hooks.yaml: hooks for one purpose, with test cases. Without NAME, list all recipes.

    Shows the change and asks you first. Comments and order of the file stay. The added hooks are approved.
    """
    if not names:
        found = recipes.shipped()
        report(as_json, _listing(found), *map(_data, found))
        return 0
    chosen = [one for name in names for one in recipes.find(name)]
    given = _given(settings, chosen)
    if printing:
        texts = ["\n".join(_text(one, given)) for one in chosen]
        report(as_json, texts, *({**_data(one), "text": text} for one, text in zip(chosen, texts, strict=True)))
        return 0
    refuse_agents("add", _CHANGES, "--print")
    change = RecipeFile(user, yes, as_json)
    return max([_add(change, one, given) for one in chosen])


@click.command(
    "remove",
    epilog="""\b
Examples:
  billhook remove no-commits-to-main
  billhook remove git-context --user

Exit code: 0 removed; 1 not removed, or not found; 2 usage, or refused.""",
)
@click.argument("names", nargs=-1, required=True, metavar="NAME|FILE ...", shell_complete=_complete)
@flag("--user", "Remove it from your own hooks.yaml.")
@flag("--yes", "Remove it without a question.")
@flag("--json", "as_json", "Print one line of JSON for each recipe.")
def remove_verb(names: tuple[str, ...], user: bool, yes: bool, as_json: bool) -> int:
    """Remove a recipe from hooks.yaml.

    Shows the change and asks you first. If the recipe was not edited, the file is restored byte for byte. Otherwise
    only its hooks and their tests are removed.
    """
    chosen = [one for name in names for one in recipes.find(name)]
    refuse_agents("remove", _CHANGES)
    change = RecipeFile(user, yes, as_json)
    return max([_remove(change, one) for one in chosen])


# -- recipes


def _listing(found: Sequence[Recipe]) -> Iterator[str]:
    width = max(len(one.name) for one in found)
    for purpose, group in itertools.groupby(found, key=lambda one: one.purpose):
        yield purpose
        yield from name_lines([(one.name, one.title) for one in group], width)
    yield from ("", "`billhook add NAME` shows a recipe, asks you, and adds it")


def _data(one: Recipe) -> dict[str, Any]:
    parameters = {name: msgspec.to_builtins(value) for name, value in one.parameters.items()}
    return {"recipe": one.name, "title": one.title, "purpose": one.purpose, "parameters": parameters}


def _given(settings: Sequence[str], chosen: Sequence[Recipe]) -> dict[str, str]:
    """The parameters that --set gives. Raises UsageError for an unknown one."""
    known = {name: one for recipe in chosen for name, one in recipe.parameters.items()}
    given: dict[str, str] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            near = suggest(name, known) if known else "this recipe has no parameters"
            raise UsageError(f"no parameter `{visible(name)}`", hint=f"{near} (as in --set key=value)")
        known[name].read(name, value)
        given[name] = value
    return given


def _text(recipe: Recipe, given: Mapping[str, str]) -> Iterator[str]:
    """The text to add, as it would be in an empty file."""
    for key, block in recipe.sections(given).items():
        yield f"{key}:"
        yield from (f"  {line}".rstrip() for line in block.splitlines())


def _described(recipe: Recipe, given: Mapping[str, str]) -> Iterator[str]:
    yield visible(f"{recipe.name}: {recipe.title}")
    for name, one in recipe.parameters.items():
        value = recipe.values(given)[name]
        shown = ",".join(value) if isinstance(value, list) else str(value)
        yield from filled(f"--set {name}={shown}  ({one.about})", 2)
    yield from ("", *map(visible, _text(recipe, given)), "")


def _try(recipe: Recipe) -> str:
    return shlex.join(["billhook", "fire", *recipes.fire_arguments(recipe.show)]) if recipe.show else "billhook list"


# -- the file


class RecipeFile:
    """The file to change, and whether the user agrees."""

    def __init__(self, user: bool, yes: bool, as_json: bool) -> None:
        self.user, self.yes, self.as_json = user, yes, as_json
        self.config = load_config(builtins=False)
        folder, names = self._of_user() if user else self._of_project()
        there = [name for name in names if os.path.lexists(folder / name)]
        self.path, self.root = folder / (there or names)[0], folder
        self.before = files.read_bytes(self.path, _LARGEST, root=self.root)

    def _of_user(self) -> tuple[Path, list[str]]:
        names = [name for name in sources.user_files() if name.endswith((".yaml", ".yml"))]
        return Path(names[0]).parent, names

    def _of_project(self) -> tuple[Path, list[str]]:
        yaml = [name for name in sources.PROJECT_FILES if name.endswith((".yaml", ".yml"))]
        return Path(self.config.project), sorted(yaml, key=lambda name: name != _FILE)

    @property
    def shown(self) -> str:
        return visible(shown_path(str(self.path)))

    def agreed(self, question: str) -> bool:
        """Whether the user agrees, at the terminal or with --yes."""
        if self.yes:
            return True
        if self.as_json or not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
            hint("nothing was changed: run it in a terminal, or with --yes")
            return False
        return typed(f"{question} [y/N] ") in ("y", "yes")

    def write(self, after: bytes | None) -> None:
        """Write the file, or remove it. Raises UsageError if it has changed since it was read."""
        if files.read_bytes(self.path, _LARGEST, root=self.root) != self.before:
            raise UsageError("the file has changed in the meantime", place=str(self.path), hint="run it again")
        if after is None:
            files.remove(self.path, root=self.root)
            if self.path.parent.name == ".billhook" and not any(self.path.parent.iterdir()):
                self.path.parent.rmdir()
        else:
            mode = os.stat(self.path).st_mode & 0o777 if self.before is not None else 0o644
            files.write_atomically(self.path, after, root=self.root)
            os.chmod(self.path, mode)
        self.before = after

    def entries(self, names: set[str]) -> list[Entry]:
        """The hooks of these names in the current file."""
        self.config = load_config(builtins=False)
        found = [one for one in self.config.entries if one.declared.file == os.path.realpath(self.path)]
        return [one for one in found if one.declared.name in names]


def _add(change: RecipeFile, recipe: Recipe, given: Mapping[str, str]) -> int:
    sections = recipe.sections(given)
    hooks = recipes.plain(sections).get("hooks") or {}
    there = edit_yaml.hooks_in(change.before, str(change.path)) if change.before else {}
    done = {"recipe": recipe.name, "file": str(change.path), "hooks": [*hooks], "show": _try(recipe)}
    if _is_there(change, sections):
        report(
            change.as_json,
            [f"{recipe.name} is already in {change.shown}; nothing was changed"],
            {**done, "added": False},
        )
        return 0
    if clash := sorted(hooks.keys() & there.keys()):
        say(f"{change.shown} already has a different hook `{visible(clash[0])}`; nothing was changed", err=True)
        hint(f"edit it, or `billhook remove {recipe.source}` first")
        return 1
    after = edit_yaml.with_sections(change.before, str(change.path), sections)
    if not change.as_json:
        say("\n".join(_described(recipe, given)))
    if not change.agreed(f"add this to {change.shown}?"):
        return 1
    change.write(after)
    left = _approve(change, {*hooks}, of_project="/" in recipe.source)
    approved = (
        f"; {', '.join(left)} runs files of the project: review with `billhook trust`" if left else " and approved"
    )
    lines = [f"added to {change.shown}{approved}", "", "try it:", f"  {visible(str(done['show']))}"]
    report(change.as_json, lines, {**done, "added": True, "approved": not left})
    return 0


def _approve(change: RecipeFile, names: set[str], *, of_project: bool) -> list[str]:
    """Approve the added hooks. Returns those that still wait, because they run files that were not shown."""
    waiting = [one for one in change.entries(names) if one.pending]
    prints = [one.consent.fingerprint for one in waiting]
    hidden = [of_project and found is not None and bool(found.files) for found in prints]
    shown = [one for one, unseen in zip(waiting, hidden, strict=True) if not unseen]
    record_trust(
        "approved", [approve_entry(one, change.config.root, "by `billhook add`") for one in shown], change.config
    )
    return [visible(one.declared.name) for one in waiting if one not in shown]


def _is_there(change: RecipeFile, sections: Mapping[str, str]) -> bool:
    """Whether the file already has the recipe's hooks and built-ins."""
    if not change.before:
        return False
    content = edit_yaml.plain(change.before, str(change.path))
    hooks = {"hooks": edit_yaml.hooks_in(change.before, str(change.path))}
    return all(
        entries.items() <= ((content | hooks).get(key) or {}).items()
        for key, entries in recipes.plain(sections).items()
        if key != "tests"
    )


def _remove(change: RecipeFile, recipe: Recipe) -> int:
    names = {*(recipes.plain(recipe.texts).get("hooks") or {})}
    there = names & edit_yaml.names_in(change.before, str(change.path))
    given = _added_with(change.before, recipe)
    done = {"recipe": recipe.name, "file": str(change.path), "hooks": sorted(there)}
    if given is None:  # a hook of that name may be the user's own
        say(f"{recipe.name} is not in {change.shown}; nothing was changed", err=True)
        own = [
            f"its hook `{name}` was not added by `billhook add`: edit the file to remove it" for name in sorted(there)
        ]
        hint(own[0] if own else "`billhook list` shows where each hook is")
        return 1
    assert change.before is not None
    try:
        after = edit_yaml.without_sections(change.before, str(change.path), recipe.sections(given or {}))
    except LookupError:  # it was edited
        after = edit_yaml.without_hooks(change.before, str(change.path), names)
    if not change.as_json:
        say("\n".join(diff(FileChange(change.shown, str(change.path), change.before, after))))
    if not change.agreed(f"remove this from {change.shown}?"):
        return 1
    _revoke(change, there, after)
    report(change.as_json, [f"removed {recipe.name} from {change.shown}"], {**done, "removed": True})
    return 0


def _added_with(data: bytes | None, recipe: Recipe) -> dict[str, str] | None:
    """The parameters of an added recipe, from its comment in the file; None without that comment."""
    start = shlex.join(["billhook", "add", recipe.source])
    for line in (data or b"").decode("utf-8", "replace").splitlines():
        text = line.strip().removeprefix("# ")
        if text == start or text.startswith(f"{start} --set "):
            pairs = (word.partition("=") for word in shlex.split(text)[3:] if word != "--set")
            return {name: value for name, _, value in pairs if name in recipe.parameters}
    return None


def _revoke(change: RecipeFile, names: set[str], after: bytes | None) -> None:
    """Write the file without these hooks, and revoke their approvals. They are not reported as gone."""
    approvals = Approvals(Path(change.config.root))
    hashes = [one.hash for one in change.entries(names)]
    change.write(after)
    file = os.path.realpath(change.path)
    gone = [
        one for one in approvals.all() if one.file == file and one.hash in hashes and approvals.revoke(file, one.hash)
    ]
    change.config = load_config(builtins=False)
    record_trust("revoked", gone, change.config)
    acknowledge(change.config, [one for one in missing(change.config) if one.file == file and {*one.gates} <= names])
