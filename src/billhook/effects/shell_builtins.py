"""Builtins of the shell that change what it knows: its folder, its variables, its arguments, its aliases."""

from collections.abc import Callable, Sequence
from typing import Final

from billhook.effects.effect import UNKNOWN
from billhook.effects.outputs import printf
from billhook.effects.run import EMPTY, MOST_FIELDS, NOTHING, UNKNOWN_VALUE, Run, Value

Builtin = Callable[[list[Value], Run], None]
"""A builtin gets its words, the name first."""
DECLARES: Final = frozenset({"export", "declare", "local", "typeset", "readonly"})
_PRINT_ALONE: Final = DECLARES | {"set", "alias", "hash"}


def builtin_of(name: str, words: Sequence[str]) -> Builtin | None:
    """The builtin that a command is; None for any other command, and where it only prints."""
    found = BUILTINS.get(name)
    if name == "printf" and tuple(words[1:2]) != ("-v",):
        return None
    return None if len(words) == 1 and name in _PRINT_ALONE else found


def _words(fields: list[Value]) -> list[str]:
    return [field.text for field in fields[1:]]


# folders


def _cd(fields: list[Value], run: Run) -> None:
    target = next((word for word in reversed(_words(fields)) if word[:1] != "-" or word == "-"), run.world.home)
    _move(run.state.before if target == "-" else run.path(target), run)


def _pushd(fields: list[Value], run: Run) -> None:
    run.state.stack.append(run.state.cwd)
    _cd(fields if len(fields) > 1 else [*fields, Value("-")], run)


def _popd(fields: list[Value], run: Run) -> None:
    _move(run.state.stack.pop() if run.state.stack else run.state.before, run)


def _move(target: str, run: Run) -> None:
    state = run.state
    there = UNKNOWN in target or run.world.fs.kind(target) in ("dir", "link")
    state.folders = () if there else (state.cwd,)  # it may fail, or the line makes the folder
    state.before, state.cwd = state.cwd, target


# variables


def _declare(fields: list[Value], run: Run) -> None:
    names = any(field.text == "-n" for field in fields)  # for other variables
    for field in fields[1:]:
        key, equals, value = field.text.partition("=")
        if equals and names:
            run.state.references[key] = value
        elif equals:
            run.state.variables[key.rstrip("+")] = Value(value, field.origins)


def _unset(fields: list[Value], run: Run) -> None:
    run.state.variables |= dict.fromkeys(_words(fields), EMPTY)


def _read(fields: list[Value], run: Run) -> None:
    names = [word for word in _words(fields) if word.isidentifier()] or ["REPLY"]
    given = _next_line(run)
    if not given.known:
        run.state.variables |= dict.fromkeys(names, Value(UNKNOWN, given.origins))
        return
    parts = given.text.strip().split(None, len(names) - 1) if len(names) > 1 else [given.text.strip()]
    for name, part in zip(names, (*parts, *[""] * len(names)), strict=False):
        run.state.variables[name] = Value(part, given.origins)


def _next_line(run: Run) -> Value:
    """One line of standard input; what a block reads has one line less afterwards."""
    state = run.state
    shared = run.fed is None or run.fed is state.source
    given = run.files.contents((state.input if shared else run.fed) or UNKNOWN_VALUE)
    line, _, rest = given.text.partition("\n") if given.known else (UNKNOWN, "", UNKNOWN)
    if shared:
        state.input = Value(rest, given.origins)
    return Value(line, given.origins)


def _mapfile(fields: list[Value], run: Run) -> None:
    lines = run.files.contents(run.fed or run.state.input or UNKNOWN_VALUE).text.splitlines()
    name = fields[-1].text if len(fields) > 1 else "MAPFILE"
    run.state.arrays[name] = [Value(line) for line in lines[:MOST_FIELDS]]


def _printf(fields: list[Value], run: Run) -> None:
    """`printf -v NAME FORMAT ...`."""
    words = _words(fields)
    run.state.variables[" ".join(words[1:2])] = Value(printf(words[2:]), NOTHING.union(*(f.origins for f in fields)))


# arguments and names


def _set(fields: list[Value], run: Run) -> None:
    words = _words(fields)
    if "--" in words:
        run.state.arguments = fields[words.index("--") + 2 :]


def _shift(fields: list[Value], run: Run) -> None:
    run.state.arguments = run.state.given[1:] or [UNKNOWN_VALUE]


def _alias(fields: list[Value], run: Run) -> None:
    run.state.aliases |= dict(word.split("=", 1) for word in _words(fields) if "=" in word)


def _hash(fields: list[Value], run: Run) -> None:
    """`hash -p PROGRAM NAME`: the name runs that program."""
    words = _words(fields)
    if words[0] == "-p" and len(words) > 2:
        run.state.aliases[words[2]] = words[1]


BUILTINS: Final[dict[str, Builtin]] = {
    "cd": _cd,
    "chdir": _cd,
    "pushd": _pushd,
    "popd": _popd,
    **dict.fromkeys(DECLARES, _declare),
    "unset": _unset,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "printf": _printf,
    "set": _set,
    "shift": _shift,
    "alias": _alias,
    "hash": _hash,
}
