"""Code that a command runs: the script of a shell, the code behind `python -c`, what an interpreter reads.

All of it goes through `run_code`, which judges code by its origin and reads it as far as it is known.
"""

import posixpath
import re
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from billhook.effects.effect import UNKNOWN, Command
from billhook.effects.outputs import SETTINGS, output, transformed
from billhook.effects.programs import ALSO_INTERPRET, INTERPRETERS, PYTHON, SHELLS, Options, kind, operand
from billhook.effects.run import EMPTY, UNKNOWN_VALUE, Run, Value, joined
from billhook.effects.wrappers import in_container

_AWKS: Final = frozenset({"awk", "gawk", "mawk", "nawk"})
_POWERSHELLS: Final = frozenset({"pwsh", "powershell"})
JAVASCRIPT: Final = frozenset({"deno", "bun"})
_MORE_INTERPRETERS: Final = _AWKS | ALSO_INTERPRET.keys()
_FILTERS: Final = _AWKS | {"bun"}  # interpreters that are filters or runners as well
_STDIN: Final = frozenset({"", "-", "/dev/stdin"})
_HELP: Final = frozenset({"--version", "-V", "--help", "-h"})
_SHELL_HELP: Final = frozenset({"--version", "--help", "-n"})  # -n only checks its syntax
URL: Final = ("http://", "https://")
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
    """A program in another language."""
    from billhook.effects.families.code import effects_of_code  # most lines hold no code

    interpreter = run.interpreter
    found, lines, understood = effects_of_code(language, text, interpreter.call(command), args)
    interpreter.effects += found
    interpreter.code += [] if understood else [text]
    for line in lines[:_MOST_LINES]:
        interpreter.run_text(line, run.inside(command.name, state=run.state.copy()))
    return UNKNOWN_VALUE


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
    if language in _POWERSHELLS:
        return _powershell_program(args)
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
        if word in ("-f", "--file"):
            return _Program(path=" ".join(args[place + 1 : place + 2]) or "-", args=args[place + 2 :])
        if not word.startswith("-") and (not place or args[place - 1] not in ("-F", "-v")):
            return _Program(code=word, args=args[place + 1 :])
    return _Program()
