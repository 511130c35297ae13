"""Patterns for the commands of a shell call: `git commit --no-verify`, `npm|pnpm add *`, `!git push --dry-run`.

A pattern is held against each command as its program reads it: options in any order, `-n` also inside of `-anm`, and
the value of an option (a commit message, a file name) is neither an option nor an argument.
"""

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from billhook.effects.effect import UNKNOWN, Command
from billhook.effects.families.git import general
from billhook.effects.patterns import segment_matches
from billhook.effects.programs import Options

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
    settings, folder, rest = general(command) if is_git else ({}, "", list(command.args))
    of = " ".join(("git", *rest[:1])) if is_git else command.name
    rest = [_ATTACHED.sub(r"\1", word) for word in rest] if of == "git commit" else rest
    options = Options(rest, frozenset(_VALUED.get(of, "").split()))
    return CommandWords(command.name, options.operands, options, settings, posixpath.join(command.cwd, folder))


def selects(patterns: Iterable[str], command: Command) -> bool:
    """Whether the last pattern that a command matches is one without `!`. One that prints its help does nothing."""
    found, words = False, words_of(command)
    for text in patterns:
        if found is text.startswith("!") and _matches(text.removeprefix("!"), words):
            found = not found
    return found and words.options.names.isdisjoint(("--help", "-h"))


def _matches(text: str, words: CommandWords) -> bool:
    name, *rest = text.split()
    settings, _, rest = general(Command("git", tuple(rest))) if name == "git" else ({}, "", rest)
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
