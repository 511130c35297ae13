"""The shell lines that a project's own files hold for a command: Makefile, package.json, justfile."""

import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import Final

import msgspec

from billhook.effects.effect import UNKNOWN, Command
from billhook.effects.line_files import LARGEST_FILE
from billhook.effects.programs import Options
from billhook.effects.run import EMPTY, Run, Value
from billhook.effects.table import word_set

_ASSIGNMENT = re.compile(r"^(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*(?:[:?+]|::)?=[ \t]*(.*)$", re.M)
_REFERENCE = re.compile(r"\$[({](\w+)[)}]")
_MAKE_VALUES: Final = word_set("-C --directory -f --file --makefile -E --eval -I --include-dir -o --old-file -W")
_MAKE_DRY: Final = word_set("-n --dry-run --just-print --recon --help --version")
_MOST_RULES: Final = 32  # of one makefile
_PACKAGE_RUNNERS: Final = frozenset({"npm", "pnpm", "yarn", "bun"})
_SCRIPT_RUNNERS: Final = frozenset({"run-s", "run-p", "npm-run-all", "npm-run-all2"})
_PACKAGE_FOLDERS: Final = "--prefix -C --dir --cwd"
_PACKAGE_VALUES: Final = word_set(f"{_PACKAGE_FOLDERS} --filter -F -w --workspace --run")
_OWN_VERBS: Final = frozenset({"test", "start", "stop", "restart"})


def texts(command: Command, run: Run) -> Iterator[tuple[str, Value]]:
    """Each line that the command would run, with how it is reached; it may run in another folder."""
    folder, found = _lines(command, run)
    for label, value in found:
        moved = f"cd {shlex.quote(folder)}\n{value.text}" if folder else value.text
        yield label, Value(moved, value.origins)


def _lines(command: Command, run: Run) -> tuple[str, Iterator[tuple[str, Value]]]:
    name = command.name
    if name in ("make", "gmake"):
        options = Options(command.args, _MAKE_VALUES)
        return "".join(options.values("-C", "--directory")[-1:]), _make(command, options, run)
    if name in _PACKAGE_RUNNERS | _SCRIPT_RUNNERS or (name == "node" and "--run" in command.args):
        options = Options(command.args, _PACKAGE_VALUES)
        folder = "".join(options.values(*_PACKAGE_FOLDERS.split())[-1:])
        return folder, _package(command, options, folder, run)
    return "", _just(command, run) if name == "just" else iter(())


def _first(names: tuple[str, ...], folder: str, run: Run) -> str:
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
    variables = dict(_ASSIGNMENT.findall(text)) | given
    for target in [word for word in options.operands if "=" not in word] or _default(text):
        for line in _recipe(text, target, set()):
            yield target, Value(_for_shell(line, variables))


def _makefile(options: Options, run: Run) -> Value:
    folder = run.path("".join(options.values("-C", "--directory")[-1:]) or ".")
    named = options.values("-f", "--file", "--makefile")
    if not named:
        return Value(_first(("GNUmakefile", "makefile", "Makefile"), folder, run))
    if named[0] in ("-", "/dev/stdin"):
        return run.files.contents(run.fed or EMPTY)
    return run.files.contents(run.files.content(posixpath.join(folder, named[0])))


def _for_shell(line: str, variables: dict[str, str]) -> str:
    """A line of a recipe as the shell gets it."""
    line = line.replace("$(shell ", "$$(").replace("$$", "\ue000")
    return _REFERENCE.sub(lambda found: _value(found[1], variables), line).replace("\ue000", "$")


def _default(text: str) -> list[str]:
    found = re.search(r"^([A-Za-z][\w.-]*)[ \t]*:(?!=)", text, re.M)
    return [found[1]] if found else []


def _value(name: str, variables: dict[str, str]) -> str:
    value = variables.get(name, UNKNOWN).strip()
    return value if "$" not in value else UNKNOWN


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


def _package(command: Command, options: Options, folder: str, run: Run) -> Iterator[tuple[str, Value]]:
    names = _script_names(command, options)
    try:
        found = msgspec.json.decode(_first(("package.json",), run.path(folder or "."), run) or "{}") if names else None
    except (msgspec.DecodeError, RecursionError):
        return
    scripts = found.get("scripts") if isinstance(found, dict) else None
    for key in (each for name in names for each in (f"pre{name}", name, f"post{name}")):
        line = scripts.get(key) if isinstance(scripts, dict) else None
        if isinstance(line, str):
            yield f"{command.name} run {key}", Value(line)


def _script_names(command: Command, options: Options) -> list[str]:
    """The scripts of package.json that a command runs."""
    words = options.operands
    if command.name in _SCRIPT_RUNNERS:
        return words[:_MOST_RULES]
    if command.name == "node":
        return options.values("--run")[:1]
    if words[:1] in (["run"], ["run-script"]):
        return words[1:2]
    return words[:1] if command.name != "npm" or _OWN_VERBS.intersection(words[:1]) else []


def _just(command: Command, run: Run) -> Iterator[tuple[str, Value]]:
    text = _first(("justfile", "Justfile", ".justfile"), run.state.cwd, run)
    first = re.search(r"^@?([A-Za-z_][\w-]*)[^\n:=]*:(?!=)", text, re.M)
    default = [first[1]] if first and not command.args else []
    for name in default or [word for word in command.args if not word.startswith("-")][:4]:
        found = re.search(rf"^@?{re.escape(name)}\b[^\n:]*:(?!=)[^\n]*\n((?:[\t ]+[^\n]*\n?|\n)*)", text, re.M)
        for line in found[1].split("\n") if found else ():
            if line.strip():
                yield f"just {name}", Value(re.sub(r"\{\{[^}]*\}\}", UNKNOWN, line.strip().lstrip("@-")))
