"""The shell lines that a project's own files hold for a command: Makefile, package.json, justfile."""

import posixpath
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from billhook.effects.effect import UNKNOWN, Command
from billhook.effects.places import World, absolute

LARGEST: Final = 64 * 1024
_ASSIGNMENT = re.compile(r"^(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*(?:[:?+]|::)?=[ \t]*(.*)$", re.M)
_REFERENCE = re.compile(r"\$[({](\w+)[)}]")
_PACKAGE_RUNNERS: Final = frozenset({"npm", "pnpm", "yarn", "bun"})
_OWN_VERBS: Final = frozenset({"test", "start", "stop", "restart"})


class NoFiles:
    """A file system in which nothing is: that of another machine."""

    def kind(self, path: str) -> str:
        return ""

    def real(self, path: str) -> str:
        return posixpath.normpath(path)

    def names(self, folder: str) -> list[str]:
        return []

    def read(self, path: str, limit: int = LARGEST) -> str | None:
        return None


NO_FILES: Final = NoFiles()


def texts(command: Command, world: World, cwd: str) -> Iterator[tuple[str, str]]:
    """Each line that the command would run, with how it is reached."""
    if command.name in ("make", "gmake"):
        yield from _make(command, world, cwd)
    elif command.name in _PACKAGE_RUNNERS:
        yield from _package(command, world, cwd)
    elif command.name == "just":
        yield from _just(command, world, cwd)


def _first(names: tuple[str, ...], folder: str, world: World) -> str:
    found = (world.fs.read(f"{folder}/{name}", LARGEST) for name in names)
    return next((text for text in found if text), "")


def _make(command: Command, world: World, cwd: str) -> Iterator[tuple[str, str]]:
    args, folder, file, targets, told = list(command.args), cwd, "", [], ""
    if {"-n", "--dry-run", "--just-print", "--recon", "--help", "--version"} & set(args):
        return
    while args:
        word = args.pop(0)
        if word in ("-C", "-f", "--directory", "--file") and args:
            folder, file = (
                (absolute(args.pop(0), cwd, world), file) if word in ("-C", "--directory") else (folder, args.pop(0))
            )
        elif word.startswith(("--eval=", "-E")):
            told = word.partition("=")[2] or "".join(args[:1])
        elif not word.startswith("-") and "=" not in word:
            targets.append(word)
    if file in ("-", "/dev/stdin"):
        text = command.stdin or ""
    else:
        text = _first((file,) if file else ("GNUmakefile", "makefile", "Makefile"), folder, world)
    text = f"{told}\n{text}\n"
    given = dict(word.split("=", 1) for word in command.args if "=" in word and not word.startswith("-"))
    variables = dict(_ASSIGNMENT.findall(text)) | given
    for target in targets or _default(text):
        for line in _recipe(text, target, 4):
            yield (
                target,
                _REFERENCE.sub(lambda found: _value(found[1], variables), line.replace("$$", "\ue000")).replace(
                    "\ue000", "$"
                ),
            )


def _default(text: str) -> list[str]:
    found = re.search(r"^([A-Za-z][\w.-]*)[ \t]*:(?!=)", text, re.M)
    return [found[1]] if found else []


def _value(name: str, variables: dict[str, str]) -> str:
    value = variables.get(name, UNKNOWN).strip()
    return value if "$" not in value else UNKNOWN


def _recipe(text: str, target: str, depth: int) -> Iterator[str]:
    """The lines of a rule, those of the rules it depends on first."""
    found = re.search(rf"^{re.escape(target)}[ \t]*:(?!=)([^\n]*)\n((?:[\t ][^\n]*\n?|\n)*)", text, re.M)
    if not found or not depth:
        return
    needs, _, inline = found[1].partition(";")
    for needed in needs.split()[:8]:
        yield from _recipe(text, needed, depth - 1)
    lines = f"{inline}\n{found[2]}".replace("\\\n", " ").split("\n")
    yield from (line.strip().lstrip("@-+") for line in lines if line.strip())


def _package(command: Command, world: World, cwd: str) -> Iterator[tuple[str, str]]:
    words = [word for word in command.args if not word.startswith("-")]
    runs = words[:1] in (["run"], ["run-script"])
    name = " ".join(words[1:2]) if runs else " ".join(words[:1])
    if not name or not (runs or name in _OWN_VERBS or command.name in ("yarn", "pnpm", "bun")):
        return
    try:
        found = msgspec.json.decode(_first(("package.json",), cwd, world) or "{}")
    except (msgspec.DecodeError, RecursionError):
        return
    scripts = found.get("scripts") if isinstance(found, dict) else None
    if not isinstance(scripts, dict):
        return
    for key in (f"pre{name}", name, f"post{name}"):
        line = scripts.get(key)
        if isinstance(line, str):
            yield f"{command.name} run {key}", line


def _just(command: Command, world: World, cwd: str) -> Iterator[tuple[str, str]]:
    text = _first(("justfile", "Justfile", ".justfile"), cwd, world)
    first = re.search(r"^@?([A-Za-z_][\w-]*)[^\n:=]*:(?!=)", text, re.M)
    default = [first[1]] if first and not command.args else []
    for name in default or [word for word in command.args if not word.startswith("-")][:4]:
        found = re.search(rf"^@?{re.escape(name)}\b[^\n:]*:(?!=)[^\n]*\n((?:[\t ]+[^\n]*\n?|\n)*)", text, re.M)
        for line in found[1].split("\n") if found else ():
            if line.strip():
                yield f"just {name}", re.sub(r"\{\{[^}]*\}\}", UNKNOWN, line.strip().lstrip("@-"))
