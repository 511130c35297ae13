"""What a tool call would do: `effects_of(event)`, for shell lines and for every other tool."""

import fnmatch
import posixpath
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from billhook.core import client_env, tools
from billhook.core.events import Event
from billhook.effects import gitstate
from billhook.effects.effect import UNKNOWN, Command, Effect, Kind, Weight
from billhook.effects.families.databases import effects_of_sql
from billhook.effects.families.system import persist_place
from billhook.effects.interpret import Interpreter
from billhook.effects.places import REAL, FileSystem, World, base_of, has_pattern, repository_above
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import word_set
from billhook.effects.tool_inputs import ToolInput, tool_input

_KEPT: Final = 64
_LONGEST_CWD: Final = 4096
_LONGEST_CAUSE: Final = 60  # of a line that can't be read as a whole
_DISK = re.compile(r"/dev/(?:[hsv]d[a-z]|nvme\d|mmcblk\d|disk\d|rdisk\d|mapper/|md\d|dm-\d|loop\d|mem|kmem|port)")
_DANGEROUS = re.compile(
    r"\b(?:rm|dd|mkfs|shred|wipefs|truncate|curl|wget|chmod|chown|kill|pkill|terraform|kubectl|dropdb|eval|base64)\b"
)
"""Programs whose presence in a line that can't be read is reason enough to ask."""

_UNREAD: Final = "a part of it can't be read"
_ASSIGNED = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=", re.M)
_TELLING = re.compile(r"\$\{?((?:\w+_)?(?:TOKEN|SECRET|PASSWORD|API_?KEY|(?:ACCESS|SECRET|PRIVATE)_KEY))\b(?!:?\+)")
"""Variables whose names tell that they are secret."""
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)[}:#%/^,-](?!\+))")  # `${X:+set}` prints no value


class Analysis(msgspec.Struct, frozen=True):
    """What is known of one tool call."""

    effects: tuple[Effect, ...] = ()
    commands: tuple[Command, ...] = ()
    code: tuple[str, ...] = ()  # programs in other languages that were not understood as a whole
    texts: tuple[str, ...] = ()  # every text that was read as shell
    complete: bool = True  # False: a part could not be read; the effects may lack some
    why: str = ""
    named: tuple[str, ...] = ()  # the words of an unknown tool's input: it may write the files that they name
    world: World | None = None  # where it happens, with what the call itself makes on top; None: it does nothing


def effects_of(event: Event, fs: FileSystem = REAL) -> tuple[Effect, ...]:
    """What the tool call of `event` would do. Never raises, runs nothing, and takes linear, bounded time."""
    return analysis_of(event, fs).effects


_analyses: dict[int, tuple[Event, FileSystem, Analysis]] = {}


def analysis_of(event: Event, fs: FileSystem = REAL) -> Analysis:
    """The same with the commands and what could not be read; one analysis per event."""
    kept = _analyses.get(id(event))
    if kept is not None and kept[0] is event and kept[1] is fs:
        return kept[2]
    try:
        found = _analysed(event, fs)
    except Exception as error:  # an internal error must neither open the guard nor stop the agent
        why = f"internal error: {type(error).__name__}"
        unread = Effect("run-opaque", certain=False, why=why, cause=str(getattr(event, "tool_name", "")))
        found = Analysis((unread,), complete=False, why=why)
    if len(_analyses) >= _KEPT:
        _analyses.clear()
    _analyses[id(event)] = event, fs, found
    return found


def _analysed(event: Event, fs: FileSystem) -> Analysis:
    name, given = getattr(event, "tool_name", None), getattr(event, "tool_input", None)
    if not isinstance(name, str):
        return Analysis()
    said = tool_input(tools.canonical(name), given, getattr(event, "mcp_server", None))
    if said.empty:
        return Analysis()
    world = world_of(event, fs)
    found = _of_input(said, world)
    plain = all(line.isascii() and line.isprintable() for line in said.lines)
    return found if plain else _with_lookalikes(found, said, world)


def _with_lookalikes(found: Analysis, said: ToolInput, world: World) -> Analysis:
    lines = [plain_letters(line) for line in said.lines]
    if lines == said.lines:
        return found
    known = {(effect.kind, effect.scope, effect.weight) for effect in found.effects}
    other = _of_input(msgspec.structs.replace(said, lines=lines), world).effects
    why = "some of its letters or blanks look like others"
    new = [effect for effect in other if (effect.kind, effect.scope, effect.weight) not in known]
    more = (msgspec.structs.replace(effect, certain=False, why=why) for effect in new)
    fakes = (
        Effect("run-remote", host[1], "remote", (command.name,), False, why, command.text)
        for command in found.commands
        if command.name in _DOWNLOADS
        for host in map(_HOST.fullmatch, command.args)
        if host and not host[1].isascii() and plain_letters(host[1]).isascii()
    )
    return msgspec.structs.replace(found, effects=(*found.effects, *more, *fakes))


def world_of(event: Event, fs: FileSystem = REAL) -> World:
    """Where an event happens."""
    environ = client_env.environ()
    cwd = event.cwd
    if not cwd.startswith("/") or len(cwd) > _LONGEST_CWD or UNKNOWN in cwd:
        try:
            cwd = client_env.getcwd()
        except OSError:
            cwd = "/"
    cwd = posixpath.normpath(cwd)
    roots = _roots(cwd, environ.get("CLAUDE_PROJECT_DIR", ""), fs)
    temporary = tuple(folder.rstrip("/") for folder in (environ.get("TMPDIR", ""),) if folder.startswith("/"))
    return World(cwd, client_env.expanduser("~"), roots, temporary, environ, fs)


def _roots(cwd: str, told: str, fs: FileSystem) -> tuple[str, ...]:
    """The project's root and its worktrees, as named and with links followed."""
    inside = told.startswith("/") and (cwd + "/").startswith(told.rstrip("/") + "/")
    root = told if inside else repository_above(cwd, fs)
    found = gitstate.repository(root) if root and fs is REAL and fs.kind(f"{root}/.git") else None
    others = gitstate.worktrees(found[1]) if found else []
    root = root or cwd
    return tuple(dict.fromkeys([root, fs.real(root), *others]))


def _of_input(said: ToolInput, world: World) -> Analysis:
    interpreter = Interpreter(world)
    call = interpreter.call(Command(said.tool, cwd=world.cwd, text=said.tool))
    for line in said.lines:
        interpreter.run_line(line, posixpath.join(world.cwd, said.folder) if said.folder else world.cwd)
    for told, path in said.paths:
        new = told == "overwrite" and not world.fs.kind(call.paths(path)[0])
        kind: Kind = "write" if new else told
        moved = said.moves and kind == "delete"
        below = kind == "delete" and said.recursive and not (moved and world.fs.kind(call.paths(path)[0]) == "file")
        interpreter.effects += call.on_path(
            kind, path, recursive=below, itself=kind == "delete", weight="light" if moved else None
        )
        if kind == "read" and said.shows and is_secret_file(call.paths(path)[0]):
            interpreter.effects += call.on_path("read-secret", path, weight="normal")
    for code in said.code:
        from billhook.effects.families.code import effects_of_code  # most calls hold no code
        from billhook.effects.families.python_code import UNPARSED

        effects, lines, understood = effects_of_code("python", code, call, ())
        interpreter.effects += [each for each in effects if each.why != UNPARSED]  # it may be no Python at all
        interpreter.code += [] if understood else [code]
        for line in lines:
            interpreter.run_line(line, world.cwd, (said.tool,))
    for text in said.sql:
        interpreter.effects += effects_of_sql(call, text)
    if said.destroys:
        interpreter.effects.append(call.effect(said.destroys, said.tool, scope="remote"))
    return _finished(interpreter, world, tuple(said.named))


def _add_unread(interpreter: Interpreter, world: World) -> None:
    """What was not read may do anything. The guard asks if it is over a limit, or names a dangerous program."""
    if not interpreter.why and any(map(_DANGEROUS.search, interpreter.texts[:1])):
        interpreter.why = _UNREAD
    weight: Weight = "normal" if interpreter.why else "light"
    begin = " ".join(interpreter.texts[0][:_LONGEST_CAUSE].split()) if interpreter.texts else ""
    whole = Command("", cwd=world.cwd, text=begin)
    interpreter.add(whole, "run-opaque", "", weight=weight, certain=False, why=interpreter.why or _UNREAD)


def _finished(interpreter: Interpreter, world: World, named: tuple[str, ...] = ()) -> Analysis:
    if interpreter.why or not interpreter.complete:
        _add_unread(interpreter, world)
    interpreter.effects += _shown_secrets(interpreter)
    found = [each for effect in interpreter.effects for each in _also(effect, world)]
    return Analysis(
        tuple(dict.fromkeys(found)),
        tuple(interpreter.commands),
        tuple(interpreter.code),
        tuple(interpreter.texts),
        interpreter.complete,
        interpreter.why,
        named,
        interpreter.world,
    )


def _shown_secrets(interpreter: Interpreter) -> Iterator[Effect]:
    """Commands that print variables which the same call loaded from a file: `. ./.env; env`."""
    loaded: dict[str, str] = {}  # variable -> the file that sets it
    for command in interpreter.commands:
        if command.name in (".", "source") and command.args:
            path = interpreter.call(command).paths(command.args[0])[0]
            text = interpreter.world.fs.read(path) if is_secret_file(path) else None
            loaded |= dict.fromkeys(_ASSIGNED.findall(text or ""), path)
        elif loaded and command.shown and (path := _printed(command, loaded)):
            yield from interpreter.call(command).on_path("read-secret", path, weight="normal")
        elif command.shown and command.name in ("echo", "printf") and UNKNOWN in "".join(command.args):
            for name in _TELLING.findall(command.text):
                if not any(f"{name}=" in text for text in interpreter.texts):  # else the line shows where it is from
                    yield interpreter.call(command).effect("read-secret", f"${name}")


def _printed(command: Command, loaded: dict[str, str]) -> str:
    """The file whose variables a command prints: all of them, or one that it names."""
    bare = all(word in ("-0", "-p", "-x", "-a") for word in command.args)
    if command.name in ("env", "printenv", "set", "export", "declare") and bare and not command.assignments:
        return "" if command.name == "set" and command.args else next(iter(loaded.values()))
    if command.name not in ("echo", "printf", "printenv"):
        return ""
    written = ("".join(found) for found in _VARIABLE.findall(command.text))
    named = command.args if command.name == "printenv" else written
    return next((loaded[name] for name in named if name in loaded), "")


def _also(effect: Effect, world: World) -> Iterator[Effect]:
    """An effect with what follows from its path: a disk is a device, a shell profile is run later."""
    if effect.kind not in ("write", "overwrite", "delete", "permissions"):
        yield effect
        return
    path = effect.target
    if _DISK.match(path) and effect.kind != "delete":
        yield msgspec.structs.replace(effect, kind="device", scope="system", weight="normal")
        return
    if path in ("/proc/sysrq-trigger", "/proc/sys/kernel/sysrq"):
        yield msgspec.structs.replace(effect, kind="device", scope="system", weight="heavy")
        return
    yield effect
    if effect.kind == "delete":
        yield from _repository_of(effect, world)
    if effect.kind not in ("write", "overwrite"):
        return
    is_own = not posixpath.basename(path).startswith(".env")  # such files are those of projects
    if effect.scope == "home" and is_own and is_secret_file(path, world.home):
        yield msgspec.structs.replace(effect, kind="overwrite", weight="normal")
    for name in ("", *effect.names):
        if weight := persist_place(f"{path}/{name}" if name else path, world):
            yield msgspec.structs.replace(effect, kind="persist", weight=weight, names=())
            break


def _repository_of(effect: Effect, world: World) -> Iterator[Effect]:
    """`rm -rf .g*` and `find . -name .git -exec rm -rf {} +` take the repository, too."""
    name, base = posixpath.basename(effect.target), base_of(effect.target)
    names = effect.names or ((name,) if has_pattern(effect.target) else ())
    takes = any(each.startswith(".") and fnmatch.fnmatchcase(".git", each) for each in names)
    if takes and effect.recursive and world.fs.kind(f"{base}/.git"):
        yield msgspec.structs.replace(effect, target=f"{base}/.git", names=())


# Letters that look like those of a command: `rm` with a Cyrillic letter, blanks that a shell does not split at. A shell
# does not run such a line as people read it, but its author, or the user who approves it, may mean that.

_LONGEST_TEXT: Final = 65_536
_DOWNLOADS: Final = word_set("git curl wget ssh scp nc ncat pip pip3 npm pnpm yarn docker go")
_HOST = re.compile(r"(?:[\w.+-]*(?:://|@))*([\w.-]+\.\w+)(?:[:/]\S*)?")
_CYRILLIC: Final = dict(zip("аеорсухіјѕмктнвгԁԛԝһӏАВЕКМНОРСТХІЈЅ", "aeopcyxijsmkthbrdqwhlABEKMHOPCTXIJS", strict=True))
_OTHERS: Final = dict(zip("οανρικτυεσωıɡօ", "oavpiktueowigo", strict=True))  # Greek, and letters of a few more
_SIGNS: Final = {"\u2014": "--", "\u2212": "-", "\v": " ", "\f": " ", "\x85": " ", "\u2028": " ", "\u2029": " "}
_LOOKALIKES: Final = {**_CYRILLIC, **_OTHERS, **_SIGNS}
_SIGNS_KEPT: Final = frozenset("-./~_=")  # signs that may replace one; others would change how a shell reads the line


def plain_letters(text: str) -> str:
    """Text with plain letters, dashes and blanks in place of those that look like them."""
    if len(text) > _LONGEST_TEXT:
        return text
    return text.translate({ord(each): _plain(each) for each in set(text) if each in _SIGNS or not each.isascii()})


def _plain(letter: str) -> str:
    if letter in _LOOKALIKES:
        return _LOOKALIKES[letter]
    import unicodedata  # few lines have other letters

    category = unicodedata.category(letter)
    if category in ("Zs", "Cf", "Pd"):  # blanks, what is not visible, dashes
        return {"Zs": " ", "Cf": "", "Pd": "-"}[category]
    normal = unicodedata.normalize("NFKC", letter)
    return normal if normal.isascii() and (normal.isalnum() or normal in _SIGNS_KEPT) else letter
