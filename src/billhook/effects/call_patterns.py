"""Patterns for the commands and the files of a call: `git commit --no-verify`, `src/**`, `!git push --dry-run`.

Of several patterns the last one that matches decides, and one with `!` excludes.
"""

import itertools
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from billhook.core.events import Event
from billhook.core.lazy import lazy_module
from billhook.effects.effect import UNKNOWN, Command, Effect
from billhook.effects.families.reading import READS
from billhook.effects.programs import Options
from billhook.effects.rules import ANY_DEPTH, path_matches, path_patterns, path_segments, segment_matches
from billhook.effects.table import word_set

if TYPE_CHECKING:
    import glob

    from billhook.effects.families import git
else:
    glob, git = lazy_module("glob"), lazy_module("billhook.effects.families.git")

# Commands. A pattern is held against each command as its program reads it: options in any order, `-n` also inside of
# `-anm`, and the value of an option (a commit message, a file name) is neither an option nor an argument.

_NPM: Final = "--prefix -C --dir --cwd --filter -F -w --workspace --registry --omit --include --cache --tag --loglevel"
_PIP: Final = """
-r --requirement --requirements -c --constraint --constraints -e --editable -i --index-url --extra-index-url --index
--default-index -f --find-links -t --target --prefix --root --python --python-version --platform --only-binary
--no-binary --cache-dir --proxy --timeout --cert --trusted-host --report --config-settings --log
"""
_COMMIT: Final = """
-m -F -C -c -t --message --file --author --date --reuse-message --reedit-message --fixup --squash --template --cleanup
--trailer --pathspec-from-file
"""
_VALUED: Final[Mapping[str, str]] = {
    "git commit": _COMMIT,
    "git merge": "-m -F --file -s --strategy -X --strategy-option --into-name --cleanup",
    "git push": "-o --push-option --receive-pack --exec --repo",
    "git am": "-p -C --directory --exclude --include",
    "git config": "-f --file --type --default --blob --comment",
    **dict.fromkeys(("git cherry-pick", "git revert"), "-m --mainline -X --strategy --strategy-option --cleanup"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _NPM),
    **dict.fromkeys(("pip", "pip3", "pipx"), _PIP),
    "uv": f"{_PIP} -p --project --directory --group --extra --package --override --overrides --with",
    "poetry": "-G --group -C --directory -P --project -E --extras --source --python --platform",
    "cargo": "-p --package --manifest-path --registry --index --features -F --path --git --branch --tag --rev --root",
    "go": "-C -o -modfile -p -tags -ldflags",
    "gem": "-v --version -i --install-dir -n --bindir -s --source -g --file --platform",
    "bundle": "--gemfile --path --with --without -j --jobs -g --group -v --version --git --source",
}
"""The options of a program, or of a verb of git, that take the next word as their value."""
_ATTACHED = re.compile(r"^(-[^-mFCctSu]*[Su]).+", re.DOTALL)
"""`git commit -uno`, `-Skey`: the value of these letters can only be attached."""


class CommandWords(NamedTuple):
    """A command's words told apart. For git, `folder` is where it works, and the first operand is its verb."""

    name: str
    operands: list[str]
    options: Options
    settings: Mapping[str, str] = {}  # of `git -c NAME=VALUE`
    folder: str = ""


def words_of(command: Command) -> CommandWords:
    """The words of a command as its program reads them."""
    is_git = command.name == "git"
    settings, folder, rest = git.general(command) if is_git else ({}, "", list(command.args))
    of = " ".join(("git", *rest[:1])) if is_git else command.name
    rest = [_ATTACHED.sub(r"\1", word) for word in rest] if of == "git commit" else rest
    options = Options(rest, frozenset(_VALUED.get(of, "").split()))
    return CommandWords(command.name, options.operands, options, settings, posixpath.join(command.cwd, folder))


def selects_command(patterns: Iterable[str], command: Command) -> bool:
    """Whether the last pattern that a command matches is one without `!`. One that prints its help does nothing."""
    found, words = False, words_of(command)
    for text in patterns:
        if found is text.startswith("!") and _matches_command(text.removeprefix("!"), words):
            found = not found
    return found and words.options.names.isdisjoint(("--help", "-h"))


def _matches_command(text: str, words: CommandWords) -> bool:
    name, *rest = text.split()
    settings, _, rest = git.general(Command("git", tuple(rest))) if name == "git" else ({}, "", rest)
    operands = [word for word in rest if not word.startswith("-")]
    return (
        words.name in name.split("|")
        and len(words.operands) >= len(operands)
        and all(_fits(choice, word) for choice, word in zip(operands, words.operands, strict=False))
        and all(_has(word, words.options) for word in rest if word.startswith("-"))
        and settings.keys() <= words.settings.keys()
    )


def _fits(choice: str, word: str) -> bool:
    return any(segment_matches(one, word) for one in choice.split("|"))


def _has(choice: str, options: Options) -> bool:
    """Whether one of `-n|--dry-run` was given; `-e=*://*` is an option with such a value."""
    names = choice.split("|")
    given = [f"{name}={value}" for name, value in options.options]
    return options.has(*names) or any(segment_matches(name, one) for name in names if "=" in name for one in given)


# -- git


def commit_message(command: Command) -> str | None:
    """The message that a call shows of `git commit`: after -m, or on its standard input. None: there is none."""
    words = words_of(command)
    if words.name != "git" or words.operands[:1] != ["commit"]:
        return None
    texts = words.options.values("-m", "--message")
    if words.options.values("-F", "--file") == ["-"]:
        texts = [command.stdin or ""]
    message = "\n\n".join(texts).lstrip()
    return None if not message or message.startswith(UNKNOWN) else message


def pushed_branches(words: CommandWords) -> list[str]:
    """The branches that `git push` changes: "" is the current one, `*` all."""
    if words.options.has("--all", "--mirror", "--branches"):
        return ["*"]
    refs = words.operands[2:] or ([] if words.options.has("--tags") else [""])
    goals = [ref.removeprefix("+").rpartition(":")[2].removeprefix("refs/heads/") for ref in refs]
    return ["*" if "*" in goal else "" if goal in ("HEAD", "@") else goal for goal in goals]


# Files. A glob without a folder means such files at any depth, as in `.gitignore`.

Use = Literal["read", "write"]
_USES: Final[dict[str, Use]] = {
    "read": "read", "read-secret": "read", "upload": "read",
    "write": "write", "overwrite": "write", "delete": "write", "discard": "write", "permissions": "write",
    "persist": "write",
}  # fmt: skip
_GIT_USES: Final[dict[str, Use]] = {
    "show": "read", "diff": "read", "blame": "read", "annotate": "read", "cat-file": "read", "difftool": "read",
    "rm": "write", "mv": "write",
}  # fmt: skip
_NAMES_ONLY: Final = word_set("""
ls ll dir exa eza tree echo printf test [ [[ touch mkdir rmdir rm unlink chmod chown chgrp stat file realpath readlink
basename dirname find fd which type du df cd pushd export set unset true false tee ln mv
""")
"""Programs that use the names of files and not their content, or whose effects show which files they read."""
_SKIP_HIDDEN: Final = frozenset({"rg", "ag", "ack", "Grep"})
_PART_OF_WORD: Final = re.compile(r"[@=:]+")
_MOST_COMMANDS: Final = 100
_MOST_WORDS: Final = 200
_MOST_BELOW: Final = 5_000  # files of a folder that are compared with the globs


def used(event: Event, project: str) -> Iterator[tuple[str, Use]]:
    """The files that a tool call would read or write. Of a folder that is searched or removed, the files below it; of
    one that contains the project, only those of the project."""
    for effect in getattr(event, "effects", ()):
        use = _USES.get(effect.kind)
        if use is not None and effect.target.startswith("/") and UNKNOWN not in effect.target:
            yield effect.target, use
            if effect.recursive:
                yield from ((path, use) for path in _below(effect, project))
    for command in getattr(event, "commands", ())[:_MOST_COMMANDS]:
        yield from _named(command)


def _below(effect: Effect, project: str) -> Iterator[str]:
    top = project if project.startswith(effect.target.rstrip("/") + "/") else effect.target
    skip_hidden = not _SKIP_HIDDEN.isdisjoint(effect.via)
    count = 0
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != ".git" and not (skip_hidden and name.startswith("."))]
        for name in names:
            count += 1
            if count > _MOST_BELOW:
                return
            shown = not (skip_hidden and name.startswith("."))
            if shown and (not effect.names or any(fnmatch(name, each) for each in effect.names)):
                yield os.path.join(folder, name)


def _named(command: Command) -> Iterator[tuple[str, Use]]:
    """The files that a command names. A program that no table describes most likely reads those that exist."""
    if command.name in READS or command.name in _NAMES_ONLY or UNKNOWN in command.cwd:
        return
    use = _GIT_USES.get(next((word for word in command.args if word in _GIT_USES), "")) if _is_git(command) else "read"
    for word in command.args[:_MOST_WORDS] if use else ():
        for name in dict.fromkeys((word, *_PART_OF_WORD.split(word)[-1:])):  # `@.env`, `file=@.env`, `HEAD:.env`
            path = os.path.normpath(os.path.join(command.cwd, name))
            if use and name and UNKNOWN not in name and (_is_git(command) or os.path.isfile(path)):
                yield path, use


def _is_git(command: Command) -> bool:
    return command.name == "git"


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # a link that can't be read
        return path


def selects_path(globs: Sequence[str], path: str, folder: str) -> bool:
    """Whether the last glob that matches a path has no `!`. Where all have one, every other path is selected."""
    names = [path_segments(name) for name in dict.fromkeys((path, _real(path)))]
    chosen = all(text.startswith("!") for text in globs)
    for text in globs:
        if any(_matches_path(text.removeprefix("!"), name, folder) for name in names):
            chosen = not text.startswith("!")
    return chosen


def _matches_path(text: str, path: list[str], folder: str) -> bool:
    """Below the folder a glob also selects the content of a folder of that name; elsewhere only that name."""
    patterns = path_patterns(text, folder, deny=False)
    if any(path_matches((*pattern, ANY_DEPTH), path) for pattern in patterns):
        return True
    return "/" not in text and path_matches((ANY_DEPTH, text), path)


_MOST_NAMES: Final = 10_000  # names that are looked at for a glob


def exists(text: str, folder: str) -> bool:
    """Whether a file of a project has such a name."""
    text = os.path.expanduser(text)
    if not glob.has_magic(text):
        return os.path.exists(os.path.join(folder, text))
    found = itertools.islice(glob.iglob(text, root_dir=folder, recursive=True, include_hidden=True), _MOST_NAMES)
    return any(os.path.lexists(os.path.join(folder, name)) for name in found)
