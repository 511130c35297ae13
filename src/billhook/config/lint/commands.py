"""Checks of commands and functions: what can't run, what others can change, misleading exit codes, and published
patterns that a recipe replaces. Nothing is run.

Words that only the shell can expand are skipped, and so are relative paths after a `cd`, and programs that the command
looks for before it runs them.
"""

import ast
import errno
import functools
import importlib
import itertools
import os
import re
import shlex
import shutil
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from billhook.config import sources
from billhook.config.declaration import Exec, HookDeclaration, Python, RunAction, Url
from billhook.config.lint import edit, finding, kinds
from billhook.core.events import Block
from billhook.core.text import Finding, counted, nearest
from billhook.effects import shell
from billhook.effects.effect import UNKNOWN
from billhook.effects.programs import SHELLS
from billhook.runners.spawn import diagnose

LARGEST: Final = 256 * 1024  # bytes of a script that are read
LONGEST: Final = 32 * 1024  # Characters of a command that is parsed. No person writes longer ones.
MOST: Final = 50  # programs and scripts of one hook that are checked

_PROJECT: Final = "/@billhook-project@"
_PROJECT_VARIABLE = re.compile(r"\$CLAUDE_PROJECT_DIR\b|\$\{CLAUDE_PROJECT_DIR(?::?-[^}]{0,200})?\}|\$PWD\b|\$\{PWD\}")
_SYSTEM: Final = ("/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/")
"""Files there are programs, whatever language they are written in."""
_HOME: Final = "/@billhook-home@"
_HOME_VARIABLE = re.compile(r"\$HOME\b|\$\{HOME\}")
_FUNCTION = re.compile(r"(?:^|[\s;{(&|])(?:function\s+([A-Za-z_][\w-]*)|([A-Za-z_][\w-]*)\s*\(\))")
_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*|node|ruby|perl|php|deno|bun|tsx|ts-node|osascript|Rscript|lua")
_RUNS_TEXT = re.compile(r"-\w*[cemnprEM]\w*|-|--eval|--print")  # options after which no file comes: `-c`, `-m`, `-pe`
_SHELL_RUNS_TEXT = re.compile(r"-\w*[cs]\w*|-")
_PLAIN_WRAPPERS: Final = SHELLS | {"`", "sudo", "env", "timeout", "nohup", "exec", "command", "time", "nice", "xargs"}
_LOOKS_FIRST: Final = frozenset({"[", "test", "command", "which", "type", "hash", "whence", "stat", "ls"})
_BUILTINS: Final = """
    . : [ [[ alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare
    dirs disown echo enable eval exec exit export false fc fg for function getopts hash help history if jobs kill
    let local logout mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source
    suspend test time times trap true type typeset ulimit umask unalias unset until wait while setopt unsetopt
    autoload
"""
BUILTINS: Final = frozenset(_BUILTINS.split())


class NamedProgram(msgspec.Struct, frozen=True):
    """One program or script of a hook."""

    word: str  # as in the file, except for variables
    path: str  # absolute, or empty: a name that is looked up in PATH
    direct: bool  # it is started directly; else an interpreter reads it
    by_shell: bool  # a shell starts or reads it
    of_project: bool  # it is in the current project


def named(hook: HookDeclaration) -> list[NamedProgram]:
    """Every program and script in the action of a hook."""
    match hook.action:
        case RunAction(text) if hook.action.shell != "powershell" and len(text) <= LONGEST:
            return list(itertools.islice(dict.fromkeys(_of_text(text, hook.folder)), MOST))
        case Exec(argv):
            words = tuple(_known(word) for word in argv)
            return list(dict.fromkeys(_of_words(words, hook.folder, by_shell=False, here=True)))
        case Python(_, interpreter) if interpreter:
            return [_named(_known(interpreter), hook.folder, direct=True, by_shell=False)]
        case _:
            return []


def _known(text: str) -> str:
    """The text with known variables replaced by words that a shell does not split."""
    return _HOME_VARIABLE.sub(_HOME, _PROJECT_VARIABLE.sub(_PROJECT, text))


def _shown(word: str) -> str:
    return word.replace(_PROJECT, "$CLAUDE_PROJECT_DIR").replace(_HOME, "$HOME")


def _of_text(text: str, folder: str) -> Iterator[NamedProgram]:
    parsed = shell.parse(_known(text))
    if "[[" in text:
        return  # the parser does not read its tests, which may look for a program first
    looked_for = {
        os.path.normpath(_shown(word))
        for command in parsed.commands
        if command.name in _LOOKS_FIRST
        for word in command.words[1:]
    }
    functions = {name for names in _FUNCTION.findall(text) for name in names}
    moves = [command.words[1:] for command in parsed.commands if command.name in ("cd", "pushd")]
    moved = any(to not in ((_PROJECT,), (".",)) for to in moves)
    own_path = "PATH=" in text
    for command in parsed.commands:
        if not set(command.via) <= _PLAIN_WRAPPERS or command.dynamic:
            continue
        for found in _of_words(command.words, folder, by_shell=True, here=not moved):
            known = not found.path and (found.word in functions or own_path)
            if not known and os.path.normpath(found.word) not in looked_for:
                yield found


def _of_words(words: tuple[str, ...], folder: str, *, by_shell: bool, here: bool) -> Iterator[NamedProgram]:
    if not words or not _plain(words[0]):
        return
    name = os.path.basename(words[0])
    if not (by_shell and words[0] in BUILTINS) and (here or not _relative(words[0])):
        yield _named(words[0], folder, direct=True, by_shell=by_shell)
    script = _script_of(name, words[1:])
    if script and _plain(script) and (here or not _relative(script)):
        reads = name in SHELLS or name in (".", "source")
        yield _named(script, folder, direct=False, by_shell=reads)


def _plain(word: str) -> bool:
    return word == "[" or (bool(word) and not set(word) & {UNKNOWN, "*", "?", "[", "$", "`"})


def _relative(word: str) -> bool:
    return "/" in word and not word.startswith(("/", "~"))


def _script_of(interpreter: str, arguments: tuple[str, ...]) -> str:
    """The file that an interpreter runs; empty where its options leave that open."""
    if interpreter in (".", "source"):
        return arguments[0] if arguments and "/" in arguments[0] else ""
    if interpreter == "uv" and arguments[:1] == ("run",):
        arguments = arguments[1:]
        return arguments[0] if arguments and arguments[0].endswith(".py") else ""
    if interpreter not in SHELLS and not _INTERPRETER.fullmatch(interpreter):
        return ""
    if interpreter in ("deno", "bun") and arguments[:1] == ("run",):
        arguments = arguments[1:]
    for argument in arguments:
        if (_SHELL_RUNS_TEXT if interpreter in SHELLS else _RUNS_TEXT).fullmatch(argument):
            return ""
        if not argument.startswith("-"):
            return argument if "/" in argument or "." in argument else ""
        if not re.fullmatch(r"-[a-zA-Z]+", argument) and argument != "--":
            return ""  # a long option may take the next word
    return ""


def _named(word: str, folder: str, *, direct: bool, by_shell: bool) -> NamedProgram:
    relative = _relative(word) if direct else not word.startswith(("/", "~"))
    of_project = relative or word.startswith(_PROJECT + "/")
    if direct and "/" not in word:
        return NamedProgram(_shown(word), "", direct, by_shell, of_project)
    path = word.replace(_PROJECT, folder).replace(_HOME, os.path.expanduser("~"))
    if by_shell and path.startswith("~"):
        path = os.path.expanduser(path)
    return NamedProgram(_shown(word), os.path.normpath(os.path.join(folder, path)), direct, by_shell, of_project)


def scripts(hook: HookDeclaration) -> Iterator[tuple[NamedProgram, str]]:
    """The first 256 KiB of every script of the hook, without binaries and unreadable files."""
    for found in named(hook):
        text = "" if found.path.startswith(_SYSTEM) else head_of(found.path)
        if text:
            yield found, text


def text_of(path: str) -> str | None:
    """The whole text of a file; None if it is too large, binary or unreadable."""
    found = sources.state(path)
    if found is None or not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
        return None
    return (head_of(path) or None) if found.st_size else ""


def head_of(path: str) -> str:
    """The first 256 KiB of a text file; empty for binary, unreadable and special files."""
    return _head_of(path, sources.identity(path)) if os.path.isfile(path) else ""


@functools.lru_cache(maxsize=256)
def _head_of(path: str, identity: sources.Identity) -> str:
    try:
        with open(path, "rb") as file:
            head = file.read(LARGEST)
    except OSError:
        return ""
    return "" if b"\0" in head[:1024] else head.decode("utf-8", "replace")


# Exit codes with another meaning than intended, and guards that fail open:


# Blanks are limited in these patterns: on hostile text, two `\s*` would take for ever.
_CODE = r"(?:\b(?:_?exit|SystemExit)\b\s{{0,9}}\(?\s{{0,9}}|\bexitCode\s{{0,9}}=\s{{0,9}}){code}\b"
_EXIT_1, _EXIT_2 = (re.compile(_CODE.format(code=code), re.I) for code in (1, 2))
_EXIT_WITH_TEXT = re.compile(r"\b(?:sys\.exit|SystemExit)\s{0,9}\(\s{0,9}[fr]?[\"']")
"""In Python this prints the text and exits with 1."""
_COMPUTED = re.compile(
    r"\bexit\s{0,9}\(?\s{0,9}[\"']?\$|\b(?:exit|SystemExit)\s{0,9}\(\s{0,9}[A-Za-z_]|\breturn 2\b|\bexec\b"
)
_DECISION = re.compile(r"permissionDecision|\\?[\"']decision\\?[\"']|hookSpecificOutput|\\?[\"']continue\\?[\"']")
_ASSIGNED = r"\\?[\"']?\s{0,9}[:=,]\s{0,9}\\?[\"']"
_DENIES = re.compile(rf"permissionDecision{_ASSIGNED}(?:deny|ask)|\bdecision{_ASSIGNED}block")
_REFUSAL = re.compile(
    r"block|den(?:y|ied|ies)|refus|forbid|not allowed|not permitted|disallow|prohibit|reject|protected"
    r"|dangerous|destructive|unsafe|must not|no(?:t)? permission",
    re.I,
)
_GUARD = re.compile(r"(?:^|[^a-z])(?:guard|deny|denies|block|protect|secur|policy|policies|gate)", re.I)
_MISSING_TOOL = re.compile(
    r"\b(?:cd|command|which|type|hash|test|\[)\b[^;|\n]{0,200}\|\|\s{0,9}(?:\{[^}\n]{0,200})?exit 1\b"
)
_CRASH = re.compile(
    r"not found|no such|missing|not installed|is required|\brequires?\b|usage:|failed to|could ?n[o']t|can(?:not|'t) "
    r"|unable to|invalid json|pars(?:e|ing) error|\bexcept\b|\bcatch\b|\btrap\b|\bcommand -v\b|\bwhich \w"
    r"|does not exist|doesn't exist|no input|exception|unexpected|internal error|crash|\bcd\b",
    re.I,
)
"""Words around an exit that reports an error in the hook itself."""
_NEAR, _AROUND = 120, 400  # characters before an exit: the message that goes with it, and the branch that it is in
_MOST = 200  # exits of one file that are checked
_COMMENT = re.compile(r"^[ \t]*(?:#|//).*$", re.M)
_BLOCKS_WITH_2 = frozenset({"claude", "claw", "claw-text"})


class ExitFacts(msgspec.Struct, frozen=True):
    """The exits of one script, as line numbers; 0: it has none of that kind."""

    exits_1: int
    exits_2: int
    computed: bool
    decides: bool
    denies: bool
    refuses: bool
    refuses_with_1: int
    ends_with_1: int  # an exit 1 that neither refuses nor reports an error


@functools.lru_cache(maxsize=256)
def facts(text: str) -> ExitFacts:
    """The exits of a script; cached, because many hooks may share a script."""
    code = _COMMENT.sub("", text)  # the lines stay where they are
    return ExitFacts(
        exits_1=_line(_EXIT_1, code) or _line(_EXIT_WITH_TEXT, code),
        exits_2=_line(_EXIT_2, code),
        computed=_COMPUTED.search(code) is not None,
        decides=_DECISION.search(code) is not None,
        denies=_DENIES.search(code) is not None,
        refuses=_REFUSAL.search(code) is not None,
        **_meanings_of_1(code),
    )


def _meanings_of_1(code: str) -> dict[str, int]:
    """Lines with an exit 1 that refuses, and with one that is unclear. An exit 1 for a crash or a missing tool is
    neither: its author may want the action to continue after a failure."""
    lines = {"refuses_with_1": 0, "ends_with_1": 0}
    for pattern in (_EXIT_1, _EXIT_WITH_TEXT):
        for found in itertools.islice(pattern.finditer(code), _MOST):
            kind = _meaning(code, found)
            if kind and not lines[kind]:
                lines[kind] = code.count("\n", 0, found.start()) + 1
    return lines


def _meaning(code: str, found: re.Match[str]) -> str:
    rest_of_line = code[found.end() : found.end() + _NEAR].partition("\n")[0]
    said = code[max(0, found.start() - _NEAR) : found.end()] + rest_of_line
    around = code[max(0, found.start() - _AROUND) : found.end()]
    if _REFUSAL.search(said):
        return "refuses_with_1"
    if _CRASH.search(said) or _MISSING_TOOL.search(around):
        return ""
    return "refuses_with_1" if _REFUSAL.search(around) else "" if _CRASH.search(around) else "ends_with_1"


def _line(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else 0


def lint_exits(hook: HookDeclaration) -> Iterator[Finding]:
    """Check how a hook refuses. A gate refuses with every exit code that is a failure in its dialect."""
    events = kinds(hook)
    if not any(kind.block in (Block.DENY, Block.NOT_HONOURED, Block.STOP) for kind in events):
        return
    evidence = [("", facts(hook.action.text))] if isinstance(hook.action, RunAction) else []
    if isinstance(hook.action, RunAction | Exec):
        evidence += [(named.word, facts(text)) for named, text in scripts(hook)]
    wrong = list(_wrong_code(hook, evidence)) if any(kind.block is Block.DENY for kind in events) else []
    yield from wrong
    if not (wrong or hook.gate or hook.background or hook.shadow) and _is_guard(hook, [known for _, known in evidence]):
        message = f"{hook.subject} fails open: if it crashes, times out or can't start, the action continues"
        yield finding(hook, "BH506", "action", message, _closing(hook))


def _wrong_code(hook: HookDeclaration, evidence: list[tuple[str, ExitFacts]]) -> Iterator[Finding]:
    every = [known for _, known in evidence]
    if any(known.decides or known.computed for known in every):
        return
    exits_1, exits_2 = any(known.exits_1 for known in every), any(known.exits_2 for known in every)
    if hook.dialect in _BLOCKS_WITH_2 and hook.on_failure != "deny" and exits_1 and not exits_2:
        outcome = "the user is only asked" if hook.on_failure == "ask" else "the action continues"
        message = f"{hook.subject} exits with 1, but in the dialect `{hook.dialect}` only exit code 2 blocks: {outcome}"
        for word, known in evidence:
            line = known.refuses_with_1
            # A command in the file that exits with 1 probably refuses. In a gate it may report a failure on purpose, so
            # that the user is asked.
            if not line and not hook.gate and (not word or _named_a_guard(hook)):
                line = known.ends_with_1
            if line:
                closing = "" if hook.gate or hook.background else f", and {_closing(hook)}"
                yield finding(hook, "BH504", "action", message, _instead("exit 2", word, line) + closing)
                return
    if hook.dialect == "lesson" and "PreToolUse" in hook.events and exits_2 and not exits_1:
        message = f"{hook.subject} exits with 2, but in the dialect `lesson` only exit code 1 blocks: the tool runs"
        message += "; `gate` does not change that" if hook.gate else ""
        for word, known in evidence:
            if known.exits_2 and (known.refuses or hook.gate):
                yield finding(hook, "BH505", "action", message, _instead("exit 1", word, known.exits_2))
                return


def _instead(wanted: str, word: str, line: int) -> str:
    wrong = "exit 1" if wanted == "exit 2" else "exit 2"
    return f"write `{wanted}` in {word}:{line}" if word else f"write `{wanted}` in place of `{wrong}`"


def _named_a_guard(hook: HookDeclaration) -> bool:
    return _GUARD.search(f"{hook.name} {hook.title}") is not None


def _is_guard(hook: HookDeclaration, every: list[ExitFacts]) -> bool:
    if isinstance(hook.action, Python | Url):
        return "PreToolUse" in hook.events and _named_a_guard(hook)
    if any(known.denies for known in every):
        return True
    if hook.dialect in _BLOCKS_WITH_2:
        return any(known.exits_2 for known in every)
    return hook.dialect == "lesson" and any(known.exits_1 for known in every)


def _closing(hook: HookDeclaration) -> str:
    if hook.shape == "strings":
        return f'replace the string with `{{"command": "...", "dialect": "{hook.dialect}", "onFailure": "block"}}`'
    return f"add `{edit(hook, 'gate', True) if hook.shape == 'yaml' else edit(hook, 'on_failure', 'block')}`"


# BH401 and BH405 for functions:


_OF_WORKERS = sys.stdlib_module_names | {"billhook", "msgspec"}
"""Modules that a worker may have imported before it searches a folder."""
_MAKES_NAMES = re.compile(r"\b(?:globals|locals|vars|exec|setattr)\s{0,9}\(|__getattr__|__dict__|sys\.modules")
"""A module with one of these may define names that no statement shows."""
_HOMES = ("", ".billhook", ".claude")
_MOVERS = ("__path__", "sys.modules", "meta_path", "path_hooks")
"""A package with one of these may have modules that no file shows."""


class Place(msgspec.Struct, frozen=True):
    """How much of a dotted name exists."""

    found: int  # how many of its parts exist
    file: str = ""  # the source of the last one, if it has one
    folders: tuple[str, ...] = ()  # where the next part would be
    open: bool = False  # more of it may exist elsewhere or at run time only


def lint_module(hook: HookDeclaration) -> Iterator[Finding]:
    """Check the function of a `python` hook."""
    if not isinstance(hook.action, Python):
        return
    module, _, function = hook.action.target.partition(":")
    parts, wanted = module.split("."), function.partition(".")[0]
    if not all(part.isidentifier() for part in (*parts, wanted)) or parts[0] in _OF_WORKERS:
        return
    # A file that is given on the command line may belong to a project.
    folders = (hook.module_folder, hook.folder) if hook.layer == "explicit" else (hook.module_folder,)
    roots = tuple(os.path.join(folder, home) if home else folder for folder in folders if folder for home in _HOMES)
    importlib.invalidate_caches()
    place = _follow(parts, roots)
    if place.found < len(parts):
        if not place.open and (place.found or not (hook.action.interpreter or _installed(parts[0]))):
            yield _no_module(hook, parts, place)
    elif place.file and not place.open:
        missing = list(_no_function(hook, module, wanted, place))
        yield from missing or _unusable(hook, module, function, place)


def _follow(parts: list[str], roots: tuple[str, ...]) -> Place:
    """Find each part as Python would. Nothing is imported."""
    place = Place(0, folders=roots)
    for part in parts:
        spec = PathFinder.find_spec(part, list(place.folders))
        if spec is None:
            break
        folders, file = tuple(spec.submodule_search_locations or ()), spec.origin or ""
        if file:
            text = text_of(file) if file.endswith(".py") else None
            unknown = text is None or any(word in text for word in _MOVERS)
        else:  # a folder without `__init__`, or several of them
            unknown = not place.found and _installed(part, folders)
        place = Place(place.found + 1, file if file.endswith(".py") else "", folders, place.open or unknown)
    return place


def _installed(name: str, here: tuple[str, ...] = ()) -> bool:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return True
    if spec is None or spec.origin is not None:
        return spec is not None
    known = {os.path.realpath(folder) for folder in here}
    return any(os.path.realpath(folder) not in known for folder in spec.submodule_search_locations or ())


def _no_module(hook: HookDeclaration, parts: list[str], place: Place) -> Finding:
    name, above = ".".join(parts[: place.found + 1]), ".".join(parts[: place.found])
    if not place.folders:
        return finding(
            hook, "BH401", "action", f"`{name}` does not exist: `{above}` is not a package", "correct the name"
        )
    where = f"in {place.folders[0]}" + ("" if place.found else ", and none is installed")
    names = [name for folder in place.folders for name in _names_in(folder)]
    near = nearest(parts[place.found], [name.removesuffix(".py") for name in names if name.endswith(".py")], 0.8)
    hint = f"create {place.folders[0]}/{parts[place.found]}.py, or correct the name"
    if near:
        hint = f"did you mean `{'.'.join((*parts[: place.found], near))}`?"
    return finding(hook, "BH401", "action", f"there is no module `{name}` {where}", hint)


def _names_in(folder: str) -> list[str]:
    with suppress(OSError, ValueError):
        return os.listdir(folder)[:1000]
    return []


def _no_function(hook: HookDeclaration, module: str, wanted: str, place: Place) -> Iterator[Finding]:
    names = _names_of(text_of(place.file) or "")
    if names is None or wanted in names or _follow([wanted], place.folders).found:
        return
    near = nearest(wanted, names)
    hint = f"did you mean `{module}:{near}`?" if near else f"define it in {place.file}, or correct the name"
    yield finding(hook, "BH401", "action", f"`{module}` has no `{wanted}`", hint)


def _unusable(hook: HookDeclaration, module: str, function: str, place: Place) -> Iterator[Finding]:
    """A syntax error, or a function with other parameters."""
    parsed = _parsed(text_of(place.file) or "")
    if isinstance(parsed, SyntaxError):
        if isinstance(hook.action, Python) and not hook.action.interpreter:  # which may be a later Python
            message = f"`{module}` can't be imported: {parsed.msg} ({place.file}:{parsed.lineno})"
            yield finding(hook, "BH405", "action", message, "fix the syntax")
    elif parsed is not None and (problem := _signature_problem(parsed, function)):
        hint = "change its parameters to `(event)`, `(event, ctx)` or `(ctx)`"
        hint = f"name a function of {place.file}" if problem == _NO_FUNCTION else hint
        yield finding(hook, "BH405", "action", f"`{module}:{function}` can't be called: {problem}", hint)


@functools.lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module | SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        return None if "\ufffd" in source else error
    except Exception:
        return None


def _signature_problem(module: ast.Module, name: str) -> str:
    last = next((node for node in reversed(module.body) if name in _defined(node)), None)
    if isinstance(last, ast.FunctionDef | ast.AsyncFunctionDef):
        return _arguments_problem(last.args) if last.name == name and not last.decorator_list else ""
    if not isinstance(last, ast.Assign | ast.AnnAssign) or not isinstance(last.value, _NO_FUNCTIONS):
        return ""
    if isinstance(last.value, ast.Lambda):
        return _arguments_problem(last.value.args)
    targets = last.targets if isinstance(last, ast.Assign) else [last.target]
    return _NO_FUNCTION if all(isinstance(one, ast.Name) for one in targets) else ""


_NO_FUNCTION = "it is not a function"
_NO_FUNCTIONS = (ast.Lambda, ast.Constant, ast.JoinedStr, ast.Dict, ast.List, ast.Set, ast.Tuple)
"""Values that are certainly not a function, or certainly one."""


def _arguments_problem(given: ast.arguments) -> str:
    positional = [*given.posonlyargs, *given.args]
    optional = {arg.arg for arg in positional[len(positional) - len(given.defaults) :]}
    required = len({arg.arg for arg in positional} - optional - {"options"})
    if required > 2:
        return f"it requires {required} arguments"
    if not positional and given.vararg is None:
        return "it takes no arguments"
    keywords = [arg.arg for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    unknown = next((name for name in keywords if name != "options"), "")
    return f"it requires the keyword `{unknown}`" if unknown else ""


@functools.lru_cache(maxsize=64)
def _names_of(source: str) -> frozenset[str] | None:
    """The names at the top of a module; None if unknown. Cached, because many hooks may share a module."""
    parsed = None if "\ufffd" in source or _MAKES_NAMES.search(source) else _parsed(source)
    names = frozenset(_defined(parsed)) if isinstance(parsed, ast.Module) else frozenset("*")
    return None if "*" in names else names


def _defined(node: ast.AST) -> Iterator[str]:
    """Every name that code outside of functions and classes binds. A star import may bind any name."""
    unseen = [node]
    while unseen:
        node = unseen.pop()
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name
                yield from (one for inner in ast.walk(node) if isinstance(inner, ast.Global) for one in inner.names)
                continue
            case ast.alias("*"):
                yield "*"
            case ast.alias(name, called):
                yield called or name.partition(".")[0]
            case ast.Name(name, ast.Store()):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name
        unseen.extend(ast.iter_child_nodes(node))


# Commands that can't run, or that others can change:


_WINDOWS = os.name == "nt"


def lint_command(hook: HookDeclaration) -> Iterator[Finding]:
    """Check the programs and scripts of a hook."""
    owners = {"user": ("a hook in the user's file", "~/.claude/hooks"), "managed": ("a managed hook", "/etc/billhook")}
    for one in named(hook):
        if hook.layer in owners and one.of_project:
            owner, home = owners[hook.layer]
            message = f"{owner} runs `{one.word}` of the current project"
            hint = f"move the script out of the project, for example to `{home}/{os.path.basename(one.word)}`"
            yield finding(hook, "BH511", "action", message, hint)
        else:
            yield from (_at_path if one.path else _in_path)(hook, one)


def _in_path(hook: HookDeclaration, one: NamedProgram) -> Iterator[Finding]:
    if shutil.which(one.word) is not None:
        return
    beside = os.path.join(hook.folder, one.word)
    near = nearest(one.word, SHELLS | {"python3", "node", "ruby", "jq", "git", "grep", "npx", "perl"}, 0.8)
    if os.path.isfile(beside):
        hint = f"write `./{one.word}`: the project's folder is not searched"
    elif near and shutil.which(near):
        hint = f"did you mean `{near}`?"
    else:
        hint = f"install `{one.word}`, or give its full path"
    yield finding(hook, "BH403", "action", f"`{one.word}` is not on PATH", hint)


def _at_path(hook: HookDeclaration, one: NamedProgram) -> Iterator[Finding]:
    if not os.path.exists(one.path):
        yield finding(hook, "BH401", "action", f"`{one.word}` does not exist", _where_it_is(hook, one))
    elif os.path.isdir(one.path):
        yield finding(hook, "BH401", "action", f"`{one.word}` is a folder", "name the script in it")
    elif os.path.isfile(one.path):  # reading a pipe or a device could take for ever
        if one.direct and not os.access(one.path, os.X_OK):
            hint = f"run `chmod +x {shlex.quote(one.path)}`"
            yield finding(hook, "BH402", "action", f"`{one.word}` is not executable", hint)
        yield from _cannot_start(hook, one)
        yield from _writable(hook, one)


def _where_it_is(hook: HookDeclaration, one: NamedProgram) -> str:
    """A file with the same or a similar name, in that folder or in the usual folders for hooks."""
    folder, name = os.path.split(one.path)
    for place in (folder, *(os.path.join(hook.folder, sub) for sub in (".claude/hooks", "scripts", "hooks", ""))):
        names = _names_in(place)
        near = name if name in names else nearest(name, names, 0.8)
        if near and os.path.isfile(os.path.join(place, near)):
            inside = os.path.relpath(os.path.join(place, near), hook.folder)
            return f"did you mean `{os.path.join(place, near) if inside.startswith('..') else './' + inside}`?"
    from_where = f" (relative to {hook.folder})" if one.of_project and hook.folder else ""
    return f"create it, or correct the path{from_where}"


def _cannot_start(hook: HookDeclaration, one: NamedProgram) -> Iterator[Finding]:
    convert = f"run `sed -i 's/\\r$//' {shlex.quote(one.path)}`"
    if one.direct:
        found = diagnose([one.path], os.environ, None) if os.access(one.path, os.X_OK) else None
        # A shell can run a script without `#!`; the system can't.
        if found and not (one.by_shell and found[0] == errno.ENOEXEC):
            what, _, remedy = found[1].partition("; ")
            message = what.replace(f"`{one.path}`", f"`{one.word}`")
            yield finding(hook, "BH405", "action", message, convert if remedy.startswith("convert") else remedy)
    elif one.by_shell and "\r\n" in head_of(one.path)[:4096]:
        yield finding(hook, "BH405", "action", f"`{one.word}` has Windows line ends (CRLF)", convert)


def _writable(hook: HookDeclaration, one: NamedProgram) -> Iterator[Finding]:
    if _WINDOWS:
        return
    for path, what in ((one.path, ""), (os.path.dirname(one.path), "the folder of ")):
        found = sources.state(path)
        mode = 0 if found is None else found.st_mode
        # In a sticky folder such as /tmp, users can't replace files of other users.
        if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            hint = f"run `chmod o-w {shlex.quote(path)}`"
            yield finding(hook, "BH404", "action", f"{what}`{one.word}` is world-writable", hint)


# -- published patterns that a recipe replaces: BH512, always a note
#
# A command *is* a recipe only if both do the same, with the command's own values (tests/recipes/test_replaceable.py
# runs both). A recipe *may replace* a hook that has its purpose. A script that does anything else is left alone.


_LONGEST: Final = 120  # lines of a script that does one thing
_FORMATTER: Final = r"(?:npx |uv run |uvx |pnpm exec )?(?:prettier --write|ruff format|gofmt -w|rustfmt)\b[^;&|]*"
_FILE: Final = r"""jq -r ['"]?\.tool_input\.file_path[^|;]*\| *"""
_TEXT: Final = r"""(?:'[^']*'|"[^"$`]*"|[\w/.-]+)"""
_REFUSES: Final = r"exit 2|permissionDecision\W+deny|decision\W+block"
_CURRENT: Final = (
    r"git (?:-C \S+ )?(?:branch --show-current|rev-parse --abbrev-ref HEAD|symbolic-ref (?:-q )?--short HEAD)"
)
_ELSEWHERE: Final = re.compile(r"\b(?:curl|wget|ssh|scp|npm|npx|docker|gh|rm|mv|cp|tee|mail)\b|>>|\bpip3? install")
"""Signs of a script that does more than refuse."""


class RecipeShape(NamedTuple):
    """A shape of hooks, and the recipe that does the same."""

    recipe: str
    events: frozenset[str]
    line: str = ""  # the whole command, where that is all; its named groups are parameters of the recipe
    script: tuple[str, ...] = ()  # what a script contains, each of it; or a command that is one
    same: bool = False  # it does the same, for the events that the hook has


_WAITING: Final = frozenset({"Stop", "Notification"})
_BEFORE: Final = frozenset({"PreToolUse"})
TABLE: Final = (
    RecipeShape("format-after-edit", frozenset({"PostToolUse"}), rf"{_FILE}xargs (?:-\S+ )*{_FORMATTER}(?:\|\| true)?"),
    RecipeShape("notify-desktop", _WAITING, rf"notify-send(?: -\S+)*(?: {_TEXT})+"),
    RecipeShape("notify-desktop", _WAITING, r"osascript -e 'display notification [^']*'"),
    RecipeShape("notify-sound", _WAITING, rf"paplay (?P<linux>{_TEXT})", same=True),
    RecipeShape("notify-sound", _WAITING, rf"afplay (?P<mac>{_TEXT})", same=True),
    RecipeShape("notify-bell", _WAITING, r"""(?:printf|echo -ne?) ['"]\\(?:a|007)['"] ?> ?/dev/tty""", same=True),
    RecipeShape("notify-bell", _WAITING, r"""(?:printf|echo -ne?) ['"]?\\(?:a|007)['"]?|tput bel"""),
    RecipeShape("no-commits-to-main", _BEFORE, script=(_CURRENT, r"\bmain\b", r"git.{0,9}commit", _REFUSES)),
    RecipeShape("no-verify", _BEFORE, script=("--no-verify", _REFUSES)),
)


def lint_replaceable(hook: HookDeclaration) -> Iterator[Finding]:
    """A hook in an agent's settings file that a recipe can replace."""
    if hook.shape == "yaml" or not isinstance(hook.action, RunAction):
        return
    text = hook.action.text.strip()
    for one in TABLE:
        if {*hook.events} <= one.events and (what := _described(one, hook, text)):
            yield replace(_found(one, hook, text, what), note=True)
            return


def _found(one: RecipeShape, hook: HookDeclaration, text: str, what: str) -> Finding:
    if one.same and hook.match in (None, "", "*"):
        found = re.fullmatch(one.line, text)
        values = {"events": ",".join(hook.events), **(found.groupdict() if found else {})}
        given = [word for name, value in values.items() for word in ("--set", f"{name}={''.join(shlex.split(value))}")]
        message = f"{what} is `{shlex.join(['billhook', 'add', one.recipe, *given])}`"
        return finding(hook, "BH512", "run", message, f"`billhook add {one.recipe} --print` shows what it would be")
    hint = f"compare them: `billhook add {one.recipe} --print` shows what it does"
    return finding(hook, "BH512", "run", f"`billhook add {one.recipe}` may replace {what}", hint)


def _described(one: RecipeShape, hook: HookDeclaration, text: str) -> str:
    """What a recipe replaces, in words; empty if nothing."""
    if one.line:
        return "this command" if re.fullmatch(one.line, text) else ""
    for content in (text, *(script for _, script in scripts(hook))):
        code = "\n".join(line for line in content.splitlines() if not line.lstrip().startswith("#"))
        if all(re.search(part, code) for part in one.script) and not _ELSEWHERE.search(code):
            lines = content.count("\n") + (not content.endswith("\n"))
            if lines <= _LONGEST:
                return "this command" if content is text else f"this script of {counted(lines, 'line')}"
    return ""


CHECKS: Final = (lint_command, lint_module, lint_exits, lint_replaceable)
