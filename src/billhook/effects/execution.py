"""What a command runs: a shell its script, Python its code, `make` its recipe, a wrapper its command."""

import re
import shlex
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from billhook.effects import programs, recipes, wrappers
from billhook.effects.code_execution import JAVASCRIPT, URL, run_code, run_file, run_interpreter
from billhook.effects.effect import UNKNOWN, Command
from billhook.effects.families.reading import listed
from billhook.effects.outputs import PROCESSES
from billhook.effects.places import absolute, has_pattern, inside
from billhook.effects.programs import Options
from billhook.effects.run import MOST_FIELDS, NOTHING, UNKNOWN_VALUE, Run, State, Value, joined
from billhook.effects.script import ScriptCommand, ScriptRedirect
from billhook.effects.table import word_set

_OBEY_INPUT: Final = word_set("psql mysql mariadb sqlite3 mongosh mongo ed ex gdb lldb")
_OBEY_WORDS: Final = word_set("-c --command -e --execute -f --file --eval -x")  # which give their commands elsewhere
_FOLDER_OPTIONS: Final = word_set("-C --chdir -D")
_LIST_OPTIONS: Final = word_set("-a --arg-file")
_LISTED = re.compile(f"remote|decoded|secret|{PROCESSES}")  # origins of a list that matter for what is run with it
_READ_LINES: Final = frozenset({"ssh", "mosh", "autossh", "slogin", "rsh"})
"""Programs that run what they read on another machine, where they are given no command."""
_RUN_FUNCTIONS: Final = frozenset({"time", "parallel"})
"""Wrappers that run functions of the shell as well; the others know programs alone."""
_MOST_INNER: Final = 4  # commands or texts of one wrapper
_MOST_ITEMS: Final = 16  # of a list, for each of which a command runs


def run_inner(command: Command, fields: list[Value], run: Run) -> Value | None:
    """Visit what a command runs; returns its output, or None if it runs nothing."""
    if command.name in wrappers.RUN_INPUT and run.fed is not None:
        lines = Value(wrappers.cron_lines(run.fed.text), run.fed.origins)
        return run_code("shell", lines, command, run.inside(command.name))
    if command.name == "kill":
        _kill(command, run)
    return run_interpreter(command, fields, run) or _runner(command, run) or _other(command, fields, run)


def _runner(command: Command, run: Run) -> Value | None:
    """`uv run`, `npx` and similar programs: they run a command."""
    words = programs.run_by((command.program, *command.args))
    own = command.name in JAVASCRIPT and programs.INSTALLED.isdisjoint(words[:1])  # a script that it runs itself
    if not words or own:
        return None
    if words[0].startswith(URL):
        run.interpreter.add(command, "run-remote", words[0], scope="remote")
    if words[0] == "-m" or words[0].endswith(".py"):  # a script by its name is one for Python
        words = ("python", *words)
    inner = run.inside(command.name, fed=run.fed)
    return run.interpreter.run_words([Value(word) for word in words], inner, line=command.text)


def _other(command: Command, fields: list[Value], run: Run) -> Value | None:
    """Any other program: files of the project that define what it runs, its own text, the command that it wraps."""
    for label, value in recipes.texts(command, run):
        with run.interpreter.certain_only():
            run_code("shell", value, command, run.inside(label, state=run.state.copy()))
    _program_file(command, run)
    for word in wrappers.files_run(command.words):
        lines = wrappers.cron_lines(run.files.read(run.path(word)) or "")
        with run.interpreter.certain_only():
            run.interpreter.run_text(lines, run.inside(command.name, state=run.state.copy()))
    if run.fed is not None and command.name in _OBEY_INPUT and _OBEY_WORDS.isdisjoint(command.args):
        _obey_input(command, run.fed, run)
    stdin = (ScriptRedirect("<<<", "", command.stdin),) if command.stdin is not None else ()
    piped = command.piped and command.stdin is None
    found = wrappers.inside(ScriptCommand((command.program, *command.args), command.assignments, stdin, piped))
    if found.commands or found.texts:
        return _wrapped(command, found, fields, run)
    return _remote(command, run)


def _program_file(command: Command, run: Run) -> None:
    """`./x.sh`: a script by its own path."""
    if "/" in command.program and UNKNOWN not in command.program:
        path = run.path(command.program)
        if path in run.files.written or inside(path, run.world.roots):
            state = run.state.copy([Value(word) for word in command.args])
            run_file(path, "", command, run.inside(state=state), command.args)


def _kill(command: Command, run: Run) -> None:
    """`kill $(pgrep node)` is `pkill node`."""
    for origin in sorted(command.origins):
        if origin.startswith(PROCESSES) and origin != PROCESSES:
            words = ["pkill", *shlex.split(origin.removeprefix(PROCESSES))]
            run.interpreter.run_words([Value(word) for word in words], run.inside(command.name), line=command.text)


def _obey_input(command: Command, fed: Value, run: Run) -> None:
    """Programs that do what they read: a line of theirs may be one for a shell, as `!ls` is in an editor."""
    if "remote" in fed.origins:
        run.interpreter.add(command, "run-opaque", command.text, why="it does what it reads from the network")
    lines = run.files.contents(fed).text.splitlines()[:MOST_FIELDS]
    for text in wrappers.inside(ScriptCommand(("ex", *lines))).texts[:_MOST_INNER]:
        run.interpreter.run_text(text, run.inside(command.name, state=run.state.copy()))


# wrappers


def _wrapped(command: Command, found: wrappers.InnerCommands, fields: list[Value], run: Run) -> Value:
    origins = NOTHING.union(*(field.origins for field in fields[1:]))
    inner = run.inside(command.name, fed=run.fed, state=_moved(command, run))
    inner.only_programs = command.name not in _RUN_FUNCTIONS
    printed = [
        run.interpreter.run_words(_values(words, origins, command, run), inner, None, each.assignments, command.text)
        for each in found.commands[:_MOST_INNER]
        for words in _fed_words(command, each.words, run)
    ]
    printed += [run_code("shell", Value(text, origins), command, inner) for text in found.texts[:_MOST_INNER]]
    return joined(printed)


def _values(words: tuple[str, ...], origins: frozenset[str], command: Command, run: Run) -> list[Value]:
    """The words of an inner command; what is not known in them comes from the wrapper's own words or its input."""
    whole = origins  # of a word that is not known at all
    if command.name in ("xargs", "parallel") and run.fed is not None:
        whole = frozenset(filter(_LISTED.match, run.fed.origins))
    return [
        Value(word, whole if word == UNKNOWN else origins | whole if UNKNOWN in word else NOTHING) for word in words
    ]


def _moved(command: Command, run: Run) -> State:
    """`env -C x` and `sudo -D x` run elsewhere."""
    if command.name not in ("env", "sudo", "git"):
        return run.state
    folder = Options(command.args, _FOLDER_OPTIONS).values("-C", "--chdir", "-D")
    if not folder:
        return run.state
    other = run.state.copy()
    other.cwd = run.path(folder[0])
    return other


def _fed_words(command: Command, words: tuple[str, ...], run: Run) -> Iterator[tuple[str, ...]]:
    """The words of an inner command, with what the wrapper puts into them: `xargs rm`, `find -exec rm {}`."""
    lines: list[str] = []
    if command.name in ("xargs", "parallel"):
        told = command.args[command.args.index(":::") + 1 :] if ":::" in command.args else ()
        lines = list(told) or _read_lists(command, run).split("\n")
        words = words[: words.index(":::")] if ":::" in words else words
        if told and not any(UNKNOWN in word for word in words):
            words = (*words, UNKNOWN)
    elif command.name in ("find", "fd", "fdfind"):
        lines = list(listed(command.words))
    lines = [line for line in lines[:MOST_FIELDS] if line]
    given = lines if "{}" in command.text else [word for line in lines for word in line.split()]
    if not given:
        yield words
    elif words[-1:] == (UNKNOWN,) and sum(UNKNOWN in word for word in words) == 1:
        yield (*words[:-1], *given[:MOST_FIELDS])
    else:
        for each in dict.fromkeys(given[:_MOST_ITEMS]):
            yield tuple(word.replace(UNKNOWN, each) for word in words)


def _read_lists(command: Command, run: Run) -> str:
    """What `xargs` and its like read: files that they name, or standard input; "" where it is not known."""
    own = programs.Prefix(command.words, programs.WRAPPERS[command.name])
    words = Options(own.words[1 : own.at], _LIST_OPTIONS).values("-a", "--arg-file")
    if "::::" in command.args:
        words += command.args[command.args.index("::::") + 1 :]
    given = run.fed or UNKNOWN_VALUE
    if words:
        given = Value(UNKNOWN, frozenset(f"lines:{absolute(word, command.cwd, run.world)}" for word in words))
    given = run.files.contents(given)
    return given.text if given.known else ""


def _remote(command: Command, run: Run) -> Value | None:
    """`ssh host ...`: paths of another machine, where no project is."""
    words = wrappers.remote_words(ScriptCommand((command.program, *command.args)))
    if not words and (command.name not in _READ_LINES or run.fed is None):
        return None
    fed = _without_file(run.files.contents(run.fed)) if run.fed is not None else None
    run.interpreter.run_elsewhere(" ".join(words) or "sh", run.inside(fed=fed))
    return UNKNOWN_VALUE


def _without_file(value: Value) -> Value:
    """Text that was read from a file here, which does not exist on the other machine."""
    if not value.known:
        return value
    return Value(value.text, frozenset(each for each in value.origins if not each.startswith("file:")))


# the command word


def note_computed(command: Command, first: Value, run: Run) -> None:
    """A command word that is computed: where from decides whether it matters."""
    add = run.interpreter.add
    if UNKNOWN not in command.program:
        if command.program.startswith("/") and has_pattern(command.name):
            add(command, "run-opaque", command.text, why="a pattern chooses the program")
    elif "remote" in first.origins:
        add(command, "run-remote", command.text, scope="remote")
    elif first.origins & {"decoded", "computed"}:
        add(command, "run-opaque", command.text, why="the command word is computed", certain=False)
    else:
        why = "the command word is a variable that the call doesn't show"
        add(command, "run-opaque", command.text, weight="light", certain=False, why=why)
        _maybe_shell(command, run, why)


def _maybe_shell(command: Command, run: Run, why: str) -> None:
    """`$X -c '...'`: a shell, if the variable names one."""
    interpreter, before = run.interpreter, len(run.interpreter.effects)
    for line in Options(command.args, frozenset({"-c"})).values("-c")[:1]:
        interpreter.run_text(line, run.inside(command.text.partition(" ")[0], state=run.state.copy()))
    found = interpreter.effects[before:]
    interpreter.effects[before:] = [replace(effect, certain=False, why=effect.why or why) for effect in found]
