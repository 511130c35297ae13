"""How the tables of programs are written and read: a program is a row, a row is a few words.

A family (`families/*.py`) lists its programs in `ROWS`. What a row can't express is a small function that gets the
`Call` and yields effects; it is in the family's `READERS` under the program's name (`readers` makes them of a table).
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Final, Literal

import msgspec

from billhook.effects.effect import UNKNOWN, Command, Effect, Kind, Scope, Weight
from billhook.effects.places import World, absolute, has_pattern, is_device, is_stream, resolved, scope_of
from billhook.effects.programs import Options

Operands = Literal["all", "first", "last", "rest", "none"]
_HELP: Final = frozenset({"--help", "--version", "-help", "-version", "--usage"})
_DESTROYING: Final = frozenset({"destroy-infra", "destroy-data"})
_OF_REPOSITORIES: Final = frozenset({"discard", "drop-recovery", "force-push", "rewrite-history"})
_PRODUCTION: Final = frozenset({"prod", "production", "prd", "live"})
_THROWAWAY: Final = frozenset({"test", "tests", "testing", "tmp", "temp", "scratch", "memory", "e2e"})
_BETWEEN_PARTS = re.compile(r"[^a-z0-9]+")


class ProgramCall:
    """One command as it would run, with everything that the readers of a family need."""

    __slots__ = ("command", "options", "scopes", "world")

    def __init__(self, command: Command, world: World, scopes: dict[str, Scope], valued: frozenset[str]) -> None:
        self.command, self.world, self.scopes = command, world, scopes
        self.options = Options(command.args, valued)

    @property
    def operands(self) -> list[str]:
        return self.options.operands

    @property
    def wants_help(self) -> bool:
        """Whether the program only prints its help; after `--` the same word is a name."""
        return not _HELP.isdisjoint(self.before_dashes)

    @property
    def before_dashes(self) -> tuple[str, ...]:
        """The words before `--`, among which one that begins with a dash is an option."""
        words = self.command.args
        return words[: words.index("--")] if "--" in words else words

    def has(self, *names: str) -> bool:
        return self.options.has(*names)

    def given(self, options: str) -> bool:
        """Whether one of the options was given, which a table has as one text; `always` is given always."""
        return bool(options) and (options == "always" or self.options.has(*word_set(options)))

    def values(self, options: str) -> list[str]:
        """The values of options that a table has as one text."""
        return self.options.values(*options.split()) if options else []

    def with_values(self, valued: str) -> "ProgramCall":
        """The same call, its words read with other options that take a value."""
        return ProgramCall(self.command, self.world, self.scopes, word_set(valued))

    def with_words(self, words: tuple[str, ...], valued: str = "") -> "ProgramCall":
        """The same command with other words."""
        command = msgspec.structs.replace(self.command, args=words)
        return ProgramCall(command, self.world, self.scopes, word_set(valued))

    @property
    def assignments(self) -> tuple[str, ...]:
        """Variables set for the command, or for the wrapper that runs it: `RAILS_ENV=test bundle exec rails ...`."""
        command = self.command
        if not command.via or command.assignments:
            return command.assignments
        words = command.text.split()
        return tuple(takewhile(lambda word: "=" in word and word.partition("=")[0].isidentifier(), words))

    def is_throwaway(self, names: Iterable[str]) -> bool:
        """Whether the names are those of a test's database, or of a file in a temporary folder."""
        names = [*names, *self.assignments]
        paths = (path for name in names if name.startswith(("/", "~", ".")) for path in self.paths(name))
        in_temp = any(scope_of(path, self.scopes) == "temp" for path in paths)
        return in_temp or not _THROWAWAY.isdisjoint(parts_of(names))

    def paths(self, word: str) -> list[str]:
        """A word as absolute paths, one for each folder that the command may run in."""
        command = self.command
        if not command.folders:
            return [absolute(word, command.cwd, self.world)]
        return list(dict.fromkeys(absolute(word, cwd, self.world) for cwd in (command.cwd, *command.folders)))

    def is_stream(self, word: str) -> bool:
        """Whether what is written to a word is kept nowhere."""
        return any(map(is_stream, self.paths(word)))

    def put(self, word: str, *, emptied: bool = False, keeps: bool = False) -> Iterator[Effect]:
        """A file that the program fills: `overwrite` where one is there already, unless its content is kept."""
        if word == "-" or self.is_stream(word):
            return
        for effect in self.on_path("write", word):
            path = effect.target
            if is_device(path):
                yield self.effect("device", path, scope="system", certain=effect.certain)
            else:
                there = emptied or UNKNOWN in path or has_pattern(path) or self.world.fs.kind(path) not in ("", "dir")
                yield msgspec.structs.replace(effect, kind="overwrite" if there and not keeps else "write")

    def on_path(
        self,
        kind: Kind,
        word: str,
        *,
        recursive: bool = False,
        itself: bool = False,
        names: tuple[str, ...] = (),
        weight: Weight | None = None,
        certain: bool = True,
        why: str = "",
    ) -> Iterator[Effect]:
        """An effect on what a word names. `itself`: a link is not followed."""
        for named in self.paths(word):
            path = resolved(named, self.world.fs, itself=itself and not word.endswith("/"))
            scope = scope_of(path, self.scopes)
            yield self.effect(
                kind,
                path,
                # a project may lie in a temporary folder: its neighbours are work, too
                scope="outside" if scope == "temp" and word.startswith("..") else scope,
                recursive=recursive or has_pattern(path),
                names=names,
                weight=weight or ("normal" if recursive or has_pattern(path) else "light"),
                certain=certain and UNKNOWN not in path,
                why=why,
            )

    def effect(
        self,
        kind: Kind,
        target: str = "",
        *,
        scope: Scope = "unknown",
        weight: Weight = "normal",
        recursive: bool = False,
        names: tuple[str, ...] = (),
        certain: bool = True,
        why: str = "",
    ) -> Effect:
        """An effect of this command."""
        command = self.command
        if kind in _DESTROYING and names_production((target, *command.args, *self.assignments)):
            weight = "heavy"
        if not (certain and command.certain):
            why = why or command.why or "it depends on a value that the call doesn't show"
        return Effect(
            kind,
            target,
            scope,
            (*command.via, command.name),
            certain and command.certain,
            why,
            command.text,
            weight,
            recursive,
            names,
            command.cwd if kind in _OF_REPOSITORIES else "",
        )


Call = ProgramCall  # the short name in the tables; `billhook.session` has another `Call`


class Row(msgspec.Struct, frozen=True):
    """One program, or one subcommand of it, and the effect that it has.

    Where a field lists options or words, `--prune=now` is an option with that value, however it is spelled, and
    `*` matches any text: `--vacuum-*`, `docker://*`.
    """

    words: str
    """The program and the operands that select the subcommand, `|` between alternatives: `kubectl delete|drain`.

    `*` is any one operand, and a target: `service * stop`, `skopeo copy * docker://*`."""
    kind: Kind
    targets: Operands = "rest"  # which operands, those of `words` left out, are what it acts on
    files: bool = False  # the targets are paths
    skip: int = 0  # operands before the targets: the owner of `chown`
    instead: str = ""  # options that take the place of these: `chown --reference=x`
    keeps: str = ""  # it overwrites the files that are there, unless one of these options is given: `tee -a`
    named_by: str = ""  # the targets are the values of these options instead
    throwaway: bool = False  # light for a test's database, as every test run throws it away
    noun: str = ""  # what the targets are, where their names don't tell: `package`
    needs: str = ""  # only with one of these options; `-d & -f`: with one of each side
    dry: str = ""  # harmless with one of these options: dry runs, `--help`
    heavy: str = ""  # heavy with one of these options or words: `--force -y production`
    light: str = ""  # light with one of these, even then
    recursive: str = ""  # acts on what is below as well with one of these options; `always`
    values: str = ""  # options that take the next word as their value
    scope: Scope = "unknown"  # of targets that are no paths
    weight: Weight = "normal"


Reader = Callable[[Call], Iterator[Effect]]


@functools.lru_cache(maxsize=4096)
def word_set(words: str) -> frozenset[str]:
    """The words of a string as a set."""
    return frozenset(words.split())


def apply_row(row: Row, call: Call) -> Iterator[Effect]:
    """The effects of a command by one row; none where the row is about another subcommand, or the options spare it."""
    for plain, patterns in _choices(row.words)[:1]:
        if not patterns and plain.isdisjoint(call.command.args):
            return  # most rows of a program are about other subcommands
    if row.values:
        call = call.with_values(row.values)
    left = _operands_left(row, call.operands)
    if left is None or not _applies(row, call):
        return
    skipped = 0 if call.given(row.instead) else row.skip
    values = call.options.values
    targets = values(*row.named_by.split()) if row.named_by else _targets(row.targets, left[skipped:])
    recursive = row.recursive == "always" or _given(row.recursive, call)
    weight: Weight = "light" if _given(row.light, call) else "heavy" if _given(row.heavy, call) else row.weight
    if row.throwaway and call.is_throwaway([*targets, *(value for _, value in call.options.options)]):
        weight = "light"
    if row.files:
        for word in filter(None, targets):
            yield from _on_file(row, call, word, recursive, weight)
    else:
        target = " ".join([row.noun, *targets]).lstrip()
        yield call.effect(row.kind, target, scope=row.scope, weight=weight, recursive=recursive)


def _on_file(row: Row, call: Call, word: str, recursive: bool, weight: Weight) -> Iterator[Effect]:
    if row.keeps:
        return call.put(word, keeps=call.given(row.keeps))
    given = None if weight == "normal" else weight  # a path tells its own weight: one file, or all below it
    return call.on_path(row.kind, word, recursive=recursive, itself=row.kind == "delete", weight=given)


def _operands_left(row: Row, operands: list[str]) -> list[str] | None:
    """The operands without those that the row's own words take; None where they differ."""
    wanted = _choices(row.words)
    if len(operands) < len(wanted):
        return None
    free: list[str] = []  # what a pattern takes is a target
    for operand, (plain, patterns) in zip(operands, wanted, strict=False):
        if operand not in plain and not any(fnmatchcase(operand, each) for each in patterns):
            return None
        free += [operand] if patterns else []
    return free + operands[len(wanted) :]


@functools.lru_cache(maxsize=4096)
def _choices(words: str) -> tuple[tuple[frozenset[str], tuple[str, ...]], ...]:
    """The alternatives for each word behind the program: those that are plain, and patterns."""
    parts = [choice.split("|") for choice in words.split()[1:]]
    return tuple((frozenset(part), tuple(each for each in part if "*" in each)) for part in parts)


def _applies(row: Row, call: Call) -> bool:
    if not (_HELP - word_set(row.values)).isdisjoint(call.before_dashes) or _given(row.dry, call):
        return False
    return not row.needs or all(_given(words, call) for words in row.needs.split("&"))


def _given(words: str, call: Call) -> bool:
    """Whether one of the words is an option of the call, or any of its words."""
    if not words:
        return False
    wanted, patterns = _plain_and_patterns(words)
    names = (word for word in call.operands if not word.startswith("-"))
    if call.has(*wanted) or not wanted.isdisjoint(names):
        return True
    given = [*call.operands, *(f"{option}={value}" for option, value in call.options.options)] if patterns else ()
    return any(fnmatchcase(word, pattern) for word in given for pattern in patterns)


@functools.lru_cache(maxsize=4096)
def _plain_and_patterns(words: str) -> tuple[frozenset[str], tuple[str, ...]]:
    patterns = tuple(word for word in words.split() if "*" in word or "=" in word)
    return word_set(words) - frozenset(patterns), patterns


def _targets(which: Operands, operands: list[str]) -> list[str]:
    if which == "none":
        return []
    return {"first": operands[:1], "last": operands[-1:]}.get(which, operands)


def rows_by_program(rows: Sequence[Row]) -> dict[str, tuple[Row, ...]]:
    """The rows of a family by the programs that they are about."""
    found: dict[str, tuple[Row, ...]] = {}
    for row in rows:
        for name in row.words.split()[0].split("|"):
            found[name] = (*found.get(name, ()), row)
    return found


def readers(table: Mapping[str, Reader]) -> dict[str, Reader]:
    """The readers of a family by program; they are not called where the program only prints its help."""
    return {name: _unless_help(reader) for names, reader in table.items() for name in names.split()}


def _unless_help(reader: Reader) -> Reader:
    return lambda call: iter(()) if call.wants_help else reader(call)


def parts_of(words: Iterable[str]) -> frozenset[str]:
    """The parts of names: `db`, `prod` of `db-prod`. A word with blanks, such as SQL, is not a name."""
    names = (word for word in words if word and not any(blank in word for blank in " \n\t"))
    return frozenset(part for name in names for part in _BETWEEN_PARTS.split(name.lower()))


def names_production(words: Iterable[str]) -> bool:
    return not _PRODUCTION.isdisjoint(parts_of(words))
