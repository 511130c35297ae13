"""What a command runs in its turn: a shell its script, Python its code, `make` its recipe, a wrapper its command."""

import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from billhook.effects import recipes, wrappers
from billhook.effects.effect import UNKNOWN, Command
from billhook.effects.families.code import effects_of_code
from billhook.effects.listings import listed
from billhook.effects.outputs import PROCESSES, output
from billhook.effects.places import absolute, has_pattern, inside
from billhook.effects.programs import INTERPRETERS, PYTHON, operand
from billhook.effects.run import Run, State
from billhook.effects.script import ScriptCommand, ScriptRedirect
from billhook.effects.table import Options, word_set
from billhook.effects.transforms import transformed
from billhook.effects.values import EMPTY, MOST_FIELDS, NOTHING, UNKNOWN_VALUE, Value, joined
from billhook.effects.wrappers import SHELLS

_AWKS: Final = frozenset({"awk", "gawk", "mawk", "nawk"})
_POWERSHELLS: Final = frozenset({"pwsh", "powershell"})
_JAVASCRIPT: Final = frozenset({"deno", "bun"})
_MORE_INTERPRETERS: Final = _AWKS | _JAVASCRIPT
_GO_ON: Final = _AWKS | {"bun"}  # they are filters or runners as well
_STDIN: Final = frozenset({"", "-", "/dev/stdin"})
_HELP: Final = frozenset({"--version", "-V", "--help", "-h"})
_SHELL_HELP: Final = frozenset({"--version", "--help", "-n"})  # -n only checks its syntax
_OBEY_INPUT: Final = word_set("psql mysql mariadb sqlite3 mongosh mongo ed ex gdb lldb")
_OBEY_WORDS: Final = word_set("-c --command -e --execute -f --file --eval -x")  # which give their commands elsewhere
_URL: Final = ("http://", "https://")
_FOLDER_OPTIONS: Final = word_set("-C --chdir -D")
_LIST_OPTIONS: Final = word_set("-a --arg-file")
_READS_INPUT = re.compile(r"-[a-z]*s[a-z]*")
_LISTED = re.compile(f"remote|decoded|{PROCESSES}")  # origins of a list that matter for what is run with it
_PIPES_TO_SHELL = re.compile(r'\|\s*"(?:/bin/)?(?:ba|da|z)?sh\b')
_MOST_INNER: Final = 4  # commands or texts of one wrapper
_MOST_LINES: Final = 16  # that a program in another language runs
_MOST_ITEMS: Final = 16  # of a list, for each of which a command runs
_ENDINGS: Final = {
    **dict.fromkeys((".sh", ".bash", ".zsh"), "shell"),
    ".py": "python",
    **dict.fromkeys((".js", ".mjs", ".cjs"), "node"),
}


def run_inner(command: Command, fields: list[Value], run: Run) -> Value | None:
    """Visit what a command runs in its turn; what that prints, or None where it runs nothing."""
    name = command.name
    if name == "eval":
        return run_code("shell", joined(fields[1:], " "), command, run.inside("eval"))
    if name in (".", "source"):
        return _source(command, fields, run)
    if name in wrappers.RUN_INPUT and run.fed is not None:
        lines = Value(wrappers.cron_lines(run.fed.text), run.fed.origins)
        return run_code("shell", lines, command, run.inside(name))
    if name in SHELLS:
        return _shell(command, fields, run)
    if name == "kill":
        _kill(command, run)
        return None
    language = "python" if PYTHON.fullmatch(name) else name
    if language in INTERPRETERS or name in _MORE_INTERPRETERS:
        _interpreter(language, command, fields, run)
        if name not in _GO_ON:
            return output(command, run.fed or EMPTY, run)
    return _runner(command, run) or _other(command, fields, run)


def _runner(command: Command, run: Run) -> Value | None:
    """`uv run`, `npx` and their like: what they run is a command."""
    words = wrappers.run_by((command.program, *command.args)) if command.name not in _JAVASCRIPT else ()
    if not words:
        return None
    if words[0].startswith(_URL):
        run.interpreter.add(command, "run-remote", words[0], scope="remote")
    if words[0] == "-m" or words[0].endswith(".py"):  # a script by its name is one for Python
        words = ("python", *words)
    inner = run.inside(command.name, fed=run.fed)
    return run.interpreter.run_words([Value(word) for word in words], inner, line=command.text)


def _other(command: Command, fields: list[Value], run: Run) -> Value | None:
    """Any other program: files of the project that say what it runs, its own text, what it wraps."""
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
    return _remote(command, run) if command.name == "ssh" else None


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


# code, by where it comes from


def run_code(language: str, value: Value, command: Command, run: Run, args: tuple[str, ...] = ()) -> Value:
    """A text that a program runs: read as far as it is known, judged by where the rest comes from."""
    interpreter = run.interpreter
    if "remote" in value.origins:  # the whole pipeline is what runs it
        whole = msgspec.structs.replace(command, text=run.pipeline or command.text)
        interpreter.add(whole, "run-remote", whole.text, scope="remote")
        return Value(UNKNOWN, value.origins)
    path = next((origin[5:] for origin in value.origins if origin.startswith("file:")), "")
    if path and "decoded" not in value.origins:
        return _disk_file(path, language, command, run, args)
    if language == "shell" and not value.text.strip(UNKNOWN + " \t\n;\"'"):
        if value.text.strip():
            interpreter.add(command, "run-opaque", command.text, certain=False, why="the text that it runs is computed")
        return UNKNOWN_VALUE
    if "decoded" in value.origins:
        interpreter.add(command, "run-opaque", command.text, why="the text that it runs is decoded first")
    if language != "shell":
        return _foreign(language, value.text, command, run, args)
    return interpreter.run_text(value.text, run)


def run_file(word: str, language: str, command: Command, run: Run, args: tuple[str, ...] = ()) -> Value:
    """A file that a program runs: one that the line wrote, or one that can be read. "": its name or text tells."""
    path = run.path(word)
    written = run.files.written.get(path)
    if written is not None:
        return run_code(language or _language(path, written.text), written, command, run.inside(command.name), args)
    return _disk_file(path, language, command, run.inside(command.name), args)


def _disk_file(path: str, language: str, command: Command, run: Run, args: tuple[str, ...]) -> Value:
    text = run.files.read(path)
    language = language or _language(path, text or "")
    if text is not None and language:
        with run.interpreter.certain_only():
            run_code(language, Value(text), command, run.inside(posixpath.basename(path)), args)
    return UNKNOWN_VALUE


def _foreign(language: str, text: str, command: Command, run: Run, args: tuple[str, ...]) -> Value:
    """A program in another language."""
    interpreter = run.interpreter
    found, lines, understood = effects_of_code(language, text, interpreter.call(command), args)
    interpreter.effects += found
    interpreter.code += [] if understood else [text]
    for line in lines[:_MOST_LINES]:
        interpreter.run_text(line, run.inside(command.name, state=run.state.copy()))
    return UNKNOWN_VALUE


def _program_file(command: Command, run: Run) -> None:
    """`./x.sh`: a script by its own path."""
    if "/" in command.program and UNKNOWN not in command.program:
        path = run.path(command.program)
        if path in run.files.written or inside(path, run.world.roots):
            state = run.state.copy([Value(word) for word in command.args])
            run_file(path, "", command, run.inside(state=state), command.args)


def _language(path: str, text: str) -> str:
    """The language of a script by its name or its first line; without either it is one for the shell."""
    name, ending = posixpath.splitext(posixpath.basename(path))
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    if not text.startswith("#!"):
        return "" if ending or name.startswith(".") else "shell"
    first = text.partition("\n")[0]
    if "sh" in posixpath.basename(first.split()[-1]):
        return "shell"
    return next((each for each in ("python", "node", "perl", "ruby") if each in first), "")


# shells and other interpreters


def _source(command: Command, fields: list[Value], run: Run) -> Value | None:
    """`. FILE`: its text is run by this very shell."""
    if not command.args:
        return None
    if command.args[0] == "/dev/stdin" and run.fed is not None:
        return run_code("shell", run.fed, command, run.inside(command.name))
    state = run.state.copy(fields[2:]) if len(fields) > 2 else run.state
    return run_file(command.args[0], "shell", command, run.inside(state=state))


def _shell(command: Command, fields: list[Value], run: Run) -> Value | None:
    """A shell: a text behind `-c`, a script, or what it reads."""
    if not _SHELL_HELP.isdisjoint(command.args[:1]):
        return EMPTY
    program = _program_of("bash", command.args)
    given = fields[len(fields) - len(program.args) :]
    if program.code is not None:
        state = run.state.copy(given[1:])
        state.variables |= {"0": given[0]} if given else {}
        code = _value_of(program.code, fields)
        return run_code("shell", code, command, run.inside(f"{command.name} -c", fed=run.fed, state=state))
    if program.path not in _STDIN and not any(map(_READS_INPUT.fullmatch, command.args)):
        return run_file(program.path, "shell", command, run.inside(state=run.state.copy(given)))
    if run.fed is not None:
        given = [field for field in fields[1:] if not field.text.startswith("-")]
        return run_code("shell", run.fed, command, run.inside(command.name, state=run.state.copy(given)))
    return None


def _interpreter(language: str, command: Command, fields: list[Value], run: Run) -> None:
    """python, node, perl ...: code behind an option, a script, or what it reads."""
    path, code, module, args, decoded = _program_of(language, command.args)
    if module and language == "python":  # `python -m pip` is pip
        words = [Value(module), *map(Value, args)]
        run.interpreter.run_words(words, run.inside(command.name, fed=run.fed), line=command.text)
    elif code is not None:
        value = Value(code, frozenset({"decoded"})) if decoded else _value_of(code, fields)
        run_code(language, value, command, run, args)
        if language in _AWKS and run.fed is not None and _PIPES_TO_SHELL.search(code):
            run_code("shell", run.fed, command, run.inside(command.name, state=run.state.copy()))
    elif path.startswith(_URL):
        run.interpreter.add(command, "run-remote", path, scope="remote")
    elif posixpath.basename(path) == "manage.py" and args[:2] == ("shell", "-c"):
        run_code(language, _value_of(" ".join(args[2:3]), fields), command, run)
    elif path not in _STDIN:
        run_file(path, language, command, run, args)
    elif run.fed is not None and _HELP.isdisjoint(command.args):
        run_code(language, run.fed, command, run, args)


def _value_of(word: str, fields: list[Value]) -> Value:
    """A word with its origins."""
    return next((field for field in fields[1:] if field.text == word), Value(word))


class _Program(NamedTuple):
    """What an interpreter is told to run, and the arguments for it."""

    path: str = ""
    code: str | None = None
    module: str = ""
    args: tuple[str, ...] = ()
    decoded: bool = False


def _program_of(language: str, args: tuple[str, ...]) -> _Program:
    if language in _AWKS:
        return _awk_program(args)
    if language in _POWERSHELLS:
        return _powershell_program(args)
    if language in _JAVASCRIPT:
        if args[:1] in (("eval",), ("repl",)):
            return _Program(code=" ".join(args[1:2]), args=args[2:])
        if args[:1] != ("run",):
            return _Program()
        args = args[1:]
    path, code, module = operand(args, INTERPRETERS.get(language, INTERPRETERS["node"]))
    at = next((args.index(each) for each in (code, path, module) if each and each in args), len(args) - 1)
    return _Program(path, code, module, args[at + 1 :])


def _powershell_program(args: tuple[str, ...]) -> _Program:
    for place, word in enumerate(args, 1):
        option = word.lower()
        if option in ("-c", "-command"):
            return _Program(code=" ".join(args[place:]))
        if option == "-ec" or (len(option) > 1 and "-encodedcommand".startswith(option)):
            text = transformed(("base64", "-d"), "".join(args[place : place + 1])) or UNKNOWN
            return _Program(code=text, decoded=True)
    return _Program()


def _awk_program(args: tuple[str, ...]) -> _Program:
    for place, word in enumerate(args):
        if word == "-f":
            break
        if not word.startswith("-") and (not place or args[place - 1] not in ("-F", "-v")):
            return _Program(code=word, args=args[place + 1 :])
    return _Program()


# wrappers


def _wrapped(command: Command, found: wrappers.InnerCommands, fields: list[Value], run: Run) -> Value:
    origins = NOTHING.union(*(field.origins for field in fields[1:]))
    inner = run.inside(command.name, fed=run.fed, state=_moved(command, run))
    printed = [
        run.interpreter.run_words(_values(words, origins, command, run), inner, None, each.assignments, command.text)
        for each in found.commands[:_MOST_INNER]
        for words in _fed_words(command, each.words, run)
    ]
    printed += [run_code("shell", Value(text, origins), command, inner) for text in found.texts[:_MOST_INNER]]
    return joined(printed)


def _values(words: tuple[str, ...], origins: frozenset[str], command: Command, run: Run) -> list[Value]:
    """The words of an inner command; what is not known in them comes from the wrapper's own words or its input."""
    listed_here = command.name in ("xargs", "parallel") and run.fed is not None and UNKNOWN in words
    fed = frozenset(filter(_LISTED.match, run.fed.origins)) if listed_here and run.fed else origins
    return [Value(word, (fed if word == UNKNOWN else origins) if UNKNOWN in word else NOTHING) for word in words]


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
    words = Options(command.args, _LIST_OPTIONS).values("-a", "--arg-file")
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
    if not words:
        return None
    run.interpreter.run_elsewhere(" ".join(words), run)
    return UNKNOWN_VALUE


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
