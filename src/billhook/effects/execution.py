"""What a command runs: a shell its script, Python its code, `make` its recipe, a wrapper its command.

Code goes through `run_code`, which judges it by its origin and reads it as far as it is known.
"""

import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from billhook.effects import powershell, programs, shell
from billhook.effects.effect import UNKNOWN, Command
from billhook.effects.families.reading import listed
from billhook.effects.line_changes import LARGEST_FILE
from billhook.effects.outputs import PROCESSES, SETTINGS, output, transformed
from billhook.effects.places import absolute, has_pattern, inside
from billhook.effects.programs import ALSO_INTERPRET, INTERPRETERS, PYTHON, SHELLS, Options, kind, operand
from billhook.effects.run import EMPTY, MOST_FIELDS, NOTHING, UNKNOWN_VALUE, Run, State, Value, joined
from billhook.effects.script import ScriptCommand, ScriptRedirect
from billhook.effects.shell import in_container
from billhook.effects.table import word_set
from billhook.effects.words import looked_up

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
    if command.name in shell.RUN_INPUT and run.fed is not None:
        lines = Value(shell.cron_lines(run.fed.text), run.fed.origins)
        return run_code("shell", lines, command, run.inside(command.name))
    if command.name == "kill":
        _kill(command, run)
    if "/" in command.program and run.path(command.program) in run.files.written:
        _program_file(command, run)  # whatever its name: `curl -o sh URL && ./sh`
    if powershell.is_cmdlet(command.program):
        return _windows(command.text, command, run)
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
    for label, value in recipe_texts(command, run):
        with run.interpreter.certain_only():
            run_code("shell", value, command, run.inside(label, state=run.state.copy()))
    _program_file(command, run)
    for word in shell.files_run(command.words):
        lines = shell.cron_lines(run.files.read(run.path(word)) or "")
        with run.interpreter.certain_only():
            run.interpreter.run_text(lines, run.inside(command.name, state=run.state.copy()))
    if run.fed is not None and command.name in _OBEY_INPUT and _OBEY_WORDS.isdisjoint(command.args):
        _obey_input(command, run.fed, run)
    stdin = (ScriptRedirect("<<<", "", command.stdin),) if command.stdin is not None else ()
    piped = command.piped and command.stdin is None
    found = shell.unwrapped(ScriptCommand((command.program, *command.args), command.assignments, stdin, piped))
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
    for text in shell.unwrapped(ScriptCommand(("ex", *lines))).texts[:_MOST_INNER]:
        run.interpreter.run_text(text, run.inside(command.name, state=run.state.copy()))


# wrappers


def _wrapped(command: Command, found: shell.InnerCommands, fields: list[Value], run: Run) -> Value:
    origins = NOTHING.union(*(field.origins for field in fields[1:]))
    inner = run.inside(command.name, fed=run.fed, state=_moved(command, run))
    inner.only_programs = command.name not in _RUN_FUNCTIONS
    printed = [
        run.interpreter.run_words(_values(words, origins, command, run), inner, None, each.assignments, command.text)
        for each in found.commands[:_MOST_INNER]
        for words in _fed_words(command, each.words, run)
    ]
    texts = found.texts[:_MOST_INNER]
    if command.name == "parallel":
        texts = [each for text in texts for (each, *_) in _fed_words(command, (text,), run)]
    printed += [run_code("shell", Value(text, origins), command, inner) for text in texts]
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
    whole = command.name == "parallel" or "{}" in command.text or shell.placeholder(command.words)
    given = lines if whole else [word for line in lines for word in line.split()]
    if not given:
        yield words
    elif words[-1:] == (UNKNOWN,) and sum(UNKNOWN in word for word in words) == 1:
        yield (*words[:-1], *given[:MOST_FIELDS])
    else:
        for each in dict.fromkeys(given[:_MOST_ITEMS]):
            each = shlex.quote(each) if len(words) == 1 else each  # noqa: PLW2901 parallel quotes it in its line
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
    words = shell.remote_words(ScriptCommand((command.program, *command.args)))
    if not words and (command.name not in _READ_LINES or run.fed is None):
        return None
    fed = _without_file(run.files.contents(run.fed)) if run.fed is not None else None
    run.interpreter.run_elsewhere(" ".join(words) or "sh", run.inside(fed=fed))
    return UNKNOWN_VALUE


def _without_file(value: Value) -> Value:
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


# code that a command runs: a script, the code behind `python -c`, what an interpreter reads

_AWKS: Final = frozenset({"awk", "gawk", "mawk", "nawk"})
_WINDOWS_SHELLS: Final = frozenset({"pwsh", "powershell", "cmd"})
_LONGEST_WINDOWS: Final = 24_576
_RUNS_COMMAND: Final = word_set("-c -command /c /k //c")
_WINDOWS_VALUES: Final = word_set("-executionpolicy -ep -ex -workingdirectory -wd -windowstyle -w -inputformat")
JAVASCRIPT: Final = frozenset({"deno", "bun"})
_MORE_INTERPRETERS: Final = _AWKS | ALSO_INTERPRET.keys()
_FILTERS: Final = _AWKS | {"bun"}  # interpreters that are filters or runners as well
_STDIN: Final = frozenset({"", "-", "/dev/stdin"})
_HELP: Final = frozenset({"--version", "-V", "--help", "-h"})
_SHELL_HELP: Final = frozenset({"--version", "--help", "-n"})  # -n only checks its syntax
URL: Final = ("http://", "https://")
_FIRST_FILES: Final = word_set("--rcfile --init-file")
_READS_INPUT = re.compile(r"-[a-z]*s[a-z]*")
_PIPES_TO_SHELL = re.compile(r'\|\s*"(?:/bin/)?(?:ba|da|z)?sh\b')
_MOST_LINES: Final = 16  # that a program in another language runs


def run_interpreter(command: Command, fields: list[Value], run: Run) -> Value | None:
    """Visit the code of a shell or another interpreter; None if the command is not one, or does something else, too."""
    name = command.name
    if name == "node" and command.args[:1] == ("--run",):  # a script of package.json
        return None
    language = "python" if PYTHON.fullmatch(name) else name
    printed: Value | None = None
    if name in _SHELL_PROGRAMS:
        printed = _SHELL_PROGRAMS[name](command, fields, run)
    elif command.words[:2] in _CONSOLES:
        _console(command.words, command, fields, run)
    elif language in INTERPRETERS or name in _MORE_INTERPRETERS:
        _interpreter(language, command, fields, run)
    else:
        return None
    return output(command, run.fed or EMPTY, run) if printed is None and name not in _FILTERS else printed


# code, by where it comes from


def run_code(language: str, value: Value, command: Command, run: Run, args: tuple[str, ...] = ()) -> Value:
    """Code that a program runs: read as far as it is known; its unknown parts are judged by their origin."""
    interpreter = run.interpreter
    if "remote" in value.origins:  # the whole pipeline is what runs it
        whole = msgspec.structs.replace(command, text=run.pipeline or command.text)
        interpreter.add(whole, "run-remote", whole.text, scope="remote", certain="fetched" not in value.origins)
        return Value(UNKNOWN, value.origins)
    path = next((origin[5:] for origin in value.origins if origin.startswith("file:")), "")
    if path and "decoded" not in value.origins and not in_container(path):
        return _disk_file(path, language, command, run, args)
    if language == "shell" and not value.text.strip(UNKNOWN + " \t\n;\"'"):
        if value.text.strip() and SETTINGS not in value.origins:
            interpreter.add(command, "run-opaque", command.text, certain=False, why="the text that it runs is computed")
        return UNKNOWN_VALUE
    if "decoded" in value.origins:
        interpreter.add(command, "run-opaque", command.text, why="the text that it runs is decoded first")
    if language in _WINDOWS_SHELLS:
        return _windows(value.text, command, run)
    if language != "shell":
        return _foreign(language, value.text, command, run, args)
    return interpreter.run_text(value.text, run)


def run_file(word: str, language: str, command: Command, run: Run, args: tuple[str, ...] = ()) -> Value:
    """A file that a program runs: one that the line wrote, or one that can be read. "": its name or text tells."""
    path = run.path(word)
    written = run.files.made(path)
    if written is not None:
        return run_code(language or _language(path, written.text), written, command, run.inside(command.name), args)
    return _disk_file(path, language, command, run.inside(command.name), args)


def _disk_file(path: str, language: str, command: Command, run: Run, args: tuple[str, ...]) -> Value:
    text = run.files.read(path)
    language = language or _language(path, text or "")
    if text is not None and language:
        run.interpreter.read_more(text)
        with run.interpreter.certain_only():
            run_code(language, Value(text), command, run.inside(posixpath.basename(path)), args)
    return UNKNOWN_VALUE


def _foreign(language: str, text: str, command: Command, run: Run, args: tuple[str, ...]) -> Value:
    from billhook.effects.families.code import effects_of_code  # most lines hold no code

    interpreter = run.interpreter
    found, lines, understood = effects_of_code(language, text, interpreter.call(command), args)
    interpreter.effects += found
    interpreter.code += [] if understood else [text]
    for line in lines[:_MOST_LINES]:
        interpreter.run_text(line, run.inside(command.name, state=run.state.copy()))
    return UNKNOWN_VALUE


def _windows(text: str, command: Command, run: Run) -> Value:
    """Code of PowerShell or cmd.exe: the reasons name its own statements."""
    interpreter, inner = run.interpreter, run.inside(command.name, fed=run.fed, state=run.state.copy())
    if len(text) > _LONGEST_WINDOWS:
        return interpreter.end("the code is too long to be read")
    printed = []
    for statement, line in powershell.translated(text):
        before = len(interpreter.effects)
        printed.append(interpreter.run_text(line, inner))
        interpreter.effects[before:] = [replace(each, cause=statement) for each in interpreter.effects[before:]]
    return joined(printed)


def _language(path: str, text: str) -> str:
    """The language of a script by its name or its first line; without either it is one for the shell."""
    if path.endswith((".js", ".mjs", ".cjs")):
        return "node"
    first = text.partition("\n")[0] if text.startswith("#!") else ""
    return kind(path, first, "program") or next((each for each in ("node", "perl", "ruby") if each in first), "")


# shells


def _eval(command: Command, fields: list[Value], run: Run) -> Value | None:
    return run_code("shell", joined(fields[1:], " "), command, run.inside("eval"))


def _source(command: Command, fields: list[Value], run: Run) -> Value | None:
    """`. FILE`: this shell runs its text."""
    if not command.args:
        return None
    if command.args[0] == "/dev/stdin" and run.fed is not None:
        return run_code("shell", run.fed, command, run.inside(command.name))
    state = run.state.copy(fields[2:]) if len(fields) > 2 else run.state
    return run_file(command.args[0], "shell", command, run.inside(state=state))


def _shell(command: Command, fields: list[Value], run: Run) -> Value | None:
    """A shell: the code after `-c`, a script, or its standard input."""
    if not _SHELL_HELP.isdisjoint(command.args[:1]):
        return EMPTY
    program = _program_of("bash", command.args)
    first = [word.partition("=")[2] for word in command.assignments if word.startswith(("BASH_ENV=", "ENV="))]
    for word in first + Options(command.args, _FIRST_FILES).values(*_FIRST_FILES):
        run_file(word, "shell", command, run.inside(state=run.state.copy()))
    given = fields[len(fields) - len(program.args) :]
    if program.code is not None:
        state = run.state.copy(given[1:])
        state.variables |= {"0": given[0]} if given else {}
        for word in command.assignments:
            name, _, value = word.partition("=")
            state.variables[name] = Value(value)
        code = _value_of(program.code, fields)
        return run_code("shell", code, command, run.inside(f"{command.name} -c", fed=run.fed, state=state))
    if program.path not in _STDIN and not any(map(_READS_INPUT.fullmatch, command.args)):
        return run_file(program.path, "shell", command, run.inside(state=run.state.copy(given)))
    if run.fed is not None:
        given = [field for field in fields[1:] if not field.text.startswith("-")]
        return run_code("shell", run.fed, command, run.inside(command.name, state=run.state.copy(given)))
    return None


_SHELL_PROGRAMS: Final[dict[str, Callable[[Command, list[Value], Run], Value | None]]] = {
    "eval": _eval,
    ".": _source,
    "source": _source,
    **dict.fromkeys(SHELLS, _shell),
}


# other interpreters


def _interpreter(language: str, command: Command, fields: list[Value], run: Run) -> None:
    """python, node, perl ...: the code after an option, a script, or standard input."""
    path, code, module, args, decoded = _program_of(language, command.args)
    if module and language == "python":  # `python -m pip` is pip
        words = [Value(module), *map(Value, args)]
        run.interpreter.run_words(words, run.inside(command.name, fed=run.fed), line=command.text)
    elif code is not None:
        value = Value(code, frozenset({"decoded"})) if decoded else _value_of(code, fields)
        run_code(language, value, command, run, args)
        if language in _AWKS and run.fed is not None and _PIPES_TO_SHELL.search(code):
            run_code("shell", run.fed, command, run.inside(command.name, state=run.state.copy()))
    elif path.startswith(URL):
        run.interpreter.add(command, "run-remote", path, scope="remote")
    elif (posixpath.basename(path), *args[:1]) in _CONSOLES:
        _console((posixpath.basename(path), *args), command, fields, run)
    elif path not in _STDIN:
        run_file(path, language, command, run, args)
    elif run.fed is not None and _HELP.isdisjoint(command.args):
        run_code(language, run.fed, command, run, args)


_CONSOLES: Final[dict[tuple[str, ...], tuple[str, str]]] = {
    ("manage.py", "shell"): ("python", "-c --command"),
    ("manage.py", "shell_plus"): ("python", "-c --command"),
    ("artisan", "tinker"): ("php", "--execute"),
    **{(name, verb): ("ruby", "") for name in ("rails", "gitlab-rails") for verb in ("runner", "r")},
    ("wp", "eval"): ("php", ""),
}
"""Programs of frameworks that run code: in which language, and behind which options; without any, as an operand."""


def _console(words: tuple[str, ...], command: Command, fields: list[Value], run: Run) -> None:
    language, option = _CONSOLES[words[:2]]
    options = Options(words[2:], frozenset((option or "-e --environment").split()))
    for text in (options.values(*option.split()) if option else options.operands)[:1]:
        if text.endswith((".rb", ".php")):
            run_file(text, language, command, run)
        else:
            run_code(language, _value_of(text, fields), command, run)


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
    if language in _WINDOWS_SHELLS:
        return _windows_program(args)
    if language in JAVASCRIPT and args[:1] in (("eval",), ("repl",)):
        return _Program(code=" ".join(args[1:2]), args=args[2:])
    is_script = language not in ALSO_INTERPRET or args[:1] == ("run",)
    args = args[1:] if language in JAVASCRIPT and args[:1] == ("run",) else args
    path, code, module = operand(args, INTERPRETERS.get(language) or ALSO_INTERPRET[language])
    if code is None and not is_script:
        return _Program()
    ends = (place for place, word in enumerate(args) if code and word.startswith("-") and word.endswith(code))  # `-pe1`
    at = next((args.index(each) for each in (code, path, module) if each and each in args), next(ends, len(args) - 1))
    return _Program(path, code, module, args[at + 1 :])


def _windows_program(args: tuple[str, ...]) -> _Program:
    skips = False
    for place, word in enumerate(args, 1):
        option = word.lower()
        if option in _RUNS_COMMAND:
            code = " ".join(args[place:])
            return _Program(path=code) if code in _STDIN else _Program(code=code)
        if option == "-ec" or (len(option) > 1 and "-encodedcommand".startswith(option)):
            text = transformed(("base64", "-d"), "".join(args[place : place + 1])) or UNKNOWN
            return _Program(code=text, decoded=True)
        if not skips and option[:1] not in "-/":
            is_file = option.endswith(".ps1")
            return _Program(path=word, args=args[place:]) if is_file else _Program(code=" ".join(args[place - 1 :]))
        skips = option in _WINDOWS_VALUES
    return _Program()


def _awk_program(args: tuple[str, ...]) -> _Program:
    for place, word in enumerate(args):
        if word in ("-f", "--file"):
            return _Program(path=" ".join(args[place + 1 : place + 2]) or "-", args=args[place + 2 :])
        if not word.startswith("-") and (not place or args[place - 1] not in ("-F", "-v")):
            return _Program(code=word, args=args[place + 1 :])
    return _Program()


# lines that a project's own files hold for a command: Makefile, package.json, justfile

_ASSIGNMENT = re.compile(r"^(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*(?:[:?+]|::)?=[ \t]*(.*)$", re.M)
_REFERENCE = re.compile(r"\$[({](\w+)[)}]")
_MAKE_DEFAULTS: Final = {"RM": "rm -f", "MAKE": "make", "SHELL": "/bin/sh", "CURDIR": "$$PWD"}
_DOLLAR: Final = "\ue000"  # one of the shell's, while those of make are replaced
_MOST_REFERENCES: Final = 4  # that lead to each other
_LONGEST_VARIABLE: Final = 256
_JUST_VALUE = re.compile(r"\{\{\s*(?:(?:env|env_var|home_dir\w*)\()?['\"]?(\w*)['\"]?\)?\s*\}\}")
_JUST_SHOWS: Final = word_set("-n --dry-run -l --list -s --show --summary --evaluate --dump --check")
_MAKE_VALUES: Final = word_set("-C --directory -f --file --makefile -E --eval -I --include-dir -o --old-file -W")
_MAKE_DRY: Final = word_set("-n --dry-run --just-print --recon --help --version")
_MOST_RULES: Final = 32  # of one makefile
_PACKAGE_RUNNERS: Final = frozenset({"npm", "pnpm", "yarn", "bun"})
_SCRIPT_RUNNERS: Final = frozenset({"run-s", "run-p", "npm-run-all", "npm-run-all2"})
_PACKAGE_FOLDERS: Final = "--prefix -C --dir --cwd"
_PACKAGE_VALUES: Final = word_set(f"{_PACKAGE_FOLDERS} --filter -F -w --workspace --run")
_OWN_VERBS: Final = frozenset({"test", "start", "stop", "restart"})


def recipe_texts(command: Command, run: Run) -> Iterator[tuple[str, Value]]:
    """Each line that the command would run, with how it is reached; it may run in another folder."""
    folder, found = _recipe_lines(command, run)
    for label, value in found:
        moved = f"cd {shlex.quote(folder)}\n{value.text}" if folder else value.text
        yield label, Value(moved, value.origins)


def _recipe_lines(command: Command, run: Run) -> tuple[str, Iterator[tuple[str, Value]]]:
    name = command.name
    if name in ("make", "gmake"):
        options = Options(command.args, _MAKE_VALUES)
        return "".join(options.values("-C", "--directory")[-1:]), _make(command, options, run)
    if name in _PACKAGE_RUNNERS | _SCRIPT_RUNNERS or (name == "node" and "--run" in command.args):
        options = Options(command.args, _PACKAGE_VALUES)
        folder = "".join(options.values(*_PACKAGE_FOLDERS.split())[-1:])
        return folder, _package_scripts(command, options, folder, run)
    return "", _just(command, run) if name == "just" else iter(())


def _first_text(names: tuple[str, ...], folder: str, run: Run) -> str:
    found = (run.world.fs.read(f"{folder}/{name}", LARGEST_FILE) for name in names)
    return next((text for text in found if text), "")


def _make(command: Command, options: Options, run: Run) -> Iterator[tuple[str, Value]]:
    if options.has(*_MAKE_DRY):
        return
    makefile = _makefile(options, run)
    if "remote" in makefile.origins:
        yield command.name, makefile
        return
    told = "\n".join(options.values("-E", "--eval"))
    if "$(shell " in told:  # it runs while the file is read
        yield command.name, Value(_for_shell(told, {}))
    text = f"{told}\n{makefile.text}\n"
    given = dict(word.split("=", 1) for word in options.operands if "=" in word)
    if "SHELL" in given:  # it gets every line as its last word
        yield command.name, Value(given["SHELL"])
    variables = _make_variables(text, command, run) | given
    for target in [word for word in options.operands if "=" not in word] or _first_target(text):
        for line in _recipe(text, target, set()):
            yield f"make {target}", Value(_for_shell(line, variables))


def _makefile(options: Options, run: Run) -> Value:
    folder = run.path("".join(options.values("-C", "--directory")[-1:]) or ".")
    named = options.values("-f", "--file", "--makefile")
    if not named:
        return Value(_first_text(("GNUmakefile", "makefile", "Makefile"), folder, run))
    if named[0] in ("-", "/dev/stdin"):
        return run.files.contents(run.fed or EMPTY)
    return run.files.contents(run.files.content(posixpath.join(folder, named[0])))


def _make_variables(text: str, command: Command, run: Run) -> dict[str, str]:
    """The variables of a makefile: its own, those of the environment, and empty ones that nothing sets."""
    used, words = Counter(_REFERENCE.findall(text)), Counter(re.findall(r"\w+", text))
    inherited = dict(word.split("=", 1) for word in command.assignments)
    for name in used.keys() - inherited.keys():
        value = looked_up(name, run)
        everywhere = words[name] == used[name] and not words["include"] and not words["eval"]
        if value is not None or (everywhere and not name.isdigit() and name not in run.world.environ):
            inherited[name] = value.text if value is not None else ""
    return inherited | _MAKE_DEFAULTS | dict(_ASSIGNMENT.findall(text))


def _for_shell(line: str, variables: dict[str, str]) -> str:
    """A line of a recipe as the shell gets it."""
    line = _with_dollars(line)
    for _ in range(_MOST_REFERENCES):
        line = _REFERENCE.sub(lambda found: _make_value(found[1], variables), line)[:LARGEST_FILE]
    return line.replace(_DOLLAR, "$")


def _with_dollars(text: str) -> str:
    return text.replace("$(shell ", "$$(").replace("$$", _DOLLAR)


def _make_value(name: str, variables: dict[str, str]) -> str:
    value = variables.get(name, UNKNOWN)
    return _with_dollars(value.strip()) if len(value) <= _LONGEST_VARIABLE else UNKNOWN


def _first_target(text: str) -> list[str]:
    found = re.search(r"^([A-Za-z][\w.-]*)[ \t]*:(?!=)", text, re.M)
    return [found[1]] if found else []


def _recipe(text: str, target: str, done: set[str]) -> Iterator[str]:
    """The lines of a rule, those of the rules it depends on first; each rule runs once."""
    if target in done or len(done) >= _MOST_RULES:
        return
    done.add(target)
    found = re.search(rf"^{re.escape(target)}[ \t]*:(?!=)([^\n]*)\n((?:[\t ][^\n]*\n?|\n)*)", text, re.M)
    if not found:
        return
    needs, _, inline = found[1].partition(";")
    for needed in needs.split()[:8]:
        yield from _recipe(text, needed, done)
    lines = f"{inline}\n{found[2]}".replace("\\\n", " ").split("\n")
    yield from (line.strip().lstrip("@-+") for line in lines if line.strip())


def _package_scripts(command: Command, options: Options, folder: str, run: Run) -> Iterator[tuple[str, Value]]:
    names = _script_names(command, options)
    try:
        found = (
            msgspec.json.decode(_first_text(("package.json",), run.path(folder or "."), run) or "{}") if names else None
        )
    except (msgspec.DecodeError, RecursionError):
        return
    scripts = found.get("scripts") if isinstance(found, dict) else None
    for key in (each for name in names for each in (f"pre{name}", name, f"post{name}")):
        line = scripts.get(key) if isinstance(scripts, dict) else None
        if isinstance(line, str):
            yield f"{command.name} run {key}", Value(line)


def _script_names(command: Command, options: Options) -> list[str]:
    words = options.operands
    if command.name in _SCRIPT_RUNNERS:
        return words[:_MOST_RULES]
    if command.name == "node":
        return options.values("--run")[:1]
    if words[:1] in (["run"], ["run-script"]):
        return words[1:2]
    return words[:1] if command.name != "npm" or _OWN_VERBS.intersection(words[:1]) else []


def _just(command: Command, run: Run) -> Iterator[tuple[str, Value]]:
    if not _JUST_SHOWS.isdisjoint(command.args):
        return
    text = _first_text(("justfile", "Justfile", ".justfile"), run.state.cwd, run)
    variables = {name: value.strip(" \"'") for name, value in _ASSIGNMENT.findall(text)}
    first = re.search(r"^@?([A-Za-z_][\w-]*)[^\n:=]*:(?!=)", text, re.M)
    default = [first[1]] if first and not command.args else []
    for name in default or [word for word in command.args if not word.startswith("-")][:4]:
        found = re.search(rf"^@?{re.escape(name)}\b[^\n:]*:(?!=)[^\n]*\n((?:[\t ]+[^\n]*\n?|\n)*)", text, re.M)
        for line in found[1].split("\n") if found else ():
            if line.strip():
                yield f"just {name}", Value(_just_line(line.strip().lstrip("@-"), variables))


def _just_line(line: str, variables: dict[str, str]) -> str:
    """A line of a justfile as the shell gets it: `{{x}}`, `{{env('HOME')}}`, `{{home_directory()}}`."""
    known = {"": "$HOME", "HOME": "$HOME", **variables}
    line = _JUST_VALUE.sub(lambda found: known.get(found[1], UNKNOWN), line)
    return re.sub(r"\{\{[^}]*\}\}", UNKNOWN, line)
