"""Which files a tool call writes, creates or removes, also by way of other files."""

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from billhook.core import tools
from billhook.core.events import Event
from billhook.core.lazy import later
from billhook.effects import listings, rules, shell
from billhook.effects.archives import patched, patched_by, unpacked
from billhook.effects.listings import listed, only_reads
from billhook.effects.paths import absolute, normal, placed, spelt_out
from billhook.effects.programs import Touch, Writes
from billhook.effects.protected_paths import ARGUMENT_KEYS, takes_arguments
from billhook.effects.script import UNKNOWN
from billhook.effects.shell import SimpleCommand
from billhook.effects.wrappers import SHELLS
from billhook.effects.writers import is_known, is_python, unknown_program, writes

if TYPE_CHECKING:
    import shlex
else:
    shlex = later("shlex")

# What the input of a tool that we know nothing of says:


_LONGEST_NAME: Final = 4096
_MAX_LINES: Final = 200
_LINE_KEYS: Final = frozenset({"command", "cmd", "script", "commands", "shell", "bash"})
_CODE_KEYS: Final = frozenset({"code", "source", "expression", "python", "javascript"})
_PATCH_KEYS: Final = frozenset({"patch", "diff", "input", "patches", "diffs"})
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FILE_WORDS = """
path paths file files filename filenames filepath filepaths target targets dest destination source sources src dst
uri uris url urls dir directory folder
"""
_OF_A_FILE: Final = frozenset(_FILE_WORDS.split())
_WRITES = ("write", "edit", "delete", "remove", "move", "rename", "patch", "save", "put", "upload", "copy", "append")
_RUNS_WORDS = "exec execute shell bash terminal cmd command process stdin keys tmux pty ssh"
_RUNS: Final = frozenset(_RUNS_WORDS.split())


class NamedFiles(msgspec.Struct):
    """What an input names. `sure` are files by the field they stand in; `bare` are words that may be anything."""

    sure: list[str] = []
    bare: list[str] = []
    lines: list[str] = []
    code: list[str] = []


def writes_by_name(tool: str) -> bool:
    """Whether the name of a tool speaks of writing files: `save_file`, but not `create_issue`."""
    words = _words(tool)
    return any(word.startswith((*_WRITES, "replace")) for word in words) or {"create", "file"} <= words


def said_by_input(tool: str, given: Mapping[str, object], *, shell: bool = False) -> NamedFiles:
    """Every string of the input by what it may be; `shell`: each may be a line that is run."""
    words = _words(tool)
    runs = shell or not words.isdisjoint(_RUNS)
    patches = not words.isdisjoint({"patch", "diff", "apply"})
    found = NamedFiles()
    for key, text in _strings(given):
        if runs or key in _LINE_KEYS:
            found.lines.append(text)
        if key in _CODE_KEYS:
            found.code.append(text)
        if patches or key in _PATCH_KEYS:
            found.sure += patched(text)
        if "\n" not in text and len(text) <= _LONGEST_NAME:
            one_word = "/" in text and " " not in text  # in prose and lines it is only spoken of
            about_files = one_word or not _words(key).isdisjoint(_OF_A_FILE)
            (found.sure if about_files else found.bare).append(from_address(text))
    found.sure += _in_two_fields(tool, given, found)
    lines = list(dict.fromkeys((*found.lines, *_argument_lists(given))))
    code = [*found.code, "\n".join(lines[_MAX_LINES:])]  # too many to be read one by one: searched for names
    sure, bare = dict.fromkeys(found.sure), dict.fromkeys(found.bare)
    return NamedFiles(list(sure), list(bare), lines[:_MAX_LINES], list(filter(None, dict.fromkeys(code))))


def from_address(text: str) -> str:
    """The path of a `file://` address; any other text as it is."""
    if text[:7].lower() != "file://":
        return text
    from urllib.parse import unquote

    path = text[7:]
    return unquote(path if path.startswith("/") else "/" + path.partition("/")[2])


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(name[:_LONGEST_NAME])}


def _in_two_fields(tool: str, given: Mapping[str, object], found: NamedFiles) -> list[str]:
    """A folder and a name, each in a field of its own."""
    folders = [*found.sure, *found.bare]
    if not 1 < len(folders) <= 8:
        return []
    named = found.bare if writes_by_name(tool) else []
    named = [*named, *found.sure, *(text for key, text in _strings(given) if "name" in _words(key))]
    return [f"{folder}/{name}" for folder in folders for name in dict.fromkeys(named) if name != folder]


def _strings(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Every string of an input with the key it stands under, at any depth."""
    yield from ((key, value) for key, value in _values(given) if isinstance(value, str))


def _values(given: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    values: list[tuple[str, object]] = [("", given)]
    seen: set[tuple[str, int]] = set()
    while values:
        key, value = values.pop()
        if isinstance(value, Mapping | list | tuple):
            if (key, id(value)) in seen:  # a program may give an input that holds itself
                continue
            seen.add((key, id(value)))
        yield key, value
        if isinstance(value, Mapping):
            values += ((str(name), one) for name, one in value.items())
        elif isinstance(value, list | tuple):
            values += ((key, one) for one in value)


def _argument_lists(given: Mapping[str, object]) -> Iterator[str]:
    """Lists of words that are a command: by the field they stand in, or by the program they begin with."""
    for key, value in _values(given):
        if isinstance(value, Mapping):
            yield from _with_arguments(value)
        words = list_of_words(value)
        if words and (key in _LINE_KEYS or key in ARGUMENT_KEYS or is_known(words[0])):
            yield shlex.join(words)
            if key in _LINE_KEYS and posixpath.basename(words[0]) not in SHELLS:
                yield " ".join(words)


def _with_arguments(value: Mapping[str, object]) -> Iterator[str]:
    """`{"command": "rm", "args": ["x"]}`."""
    for command in (value.get(key) for key in sorted(_LINE_KEYS & value.keys())):
        for rest in (value.get(key) for key in sorted(ARGUMENT_KEYS & value.keys())):
            words = [rest] if isinstance(rest, str) else [shlex.join(list_of_words(rest))]
            if isinstance(command, str):
                yield " ".join((command, *words))


def list_of_words(value: object) -> list[str]:
    """A list that holds words alone; [] of anything else."""
    if not isinstance(value, list | tuple):
        return []
    words = [one for one in value if isinstance(one, str)]
    return words if len(words) == len(value) else []


# What a line does by way of other files:


_MAX_FILES: Final = 16
_MAX_LINKS: Final = 32
_MAX_SCRIPTS: Final = 1_000
_POUR: Final = frozenset({"cat", "zcat", "gzcat", "bzcat", "xzcat", "gunzip", "pv"})
"""Programs that give a file to the next one in the line."""
_MAKE_FILES: Final = frozenset({"tee", "cp", "mv", "ln", "dd", "install", "sponge"})


class Following:
    """What is known so far of one line's links, and of the files that it writes and runs."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.files_left = _MAX_FILES
        self.links: dict[str, str] = {}  # where they are -> what they lead to
        self.written: set[str] = set()
        self.poured: list[str] = []
        self.run: dict[str, bool] = {}  # -> whether it is Python

    def take(self, command: SimpleCommand, wrote: Writes, folders: list[str]) -> Iterator[Touch]:
        """Look at one command; what its patches and archives write."""
        inner = list(absolute(wrote.folder, folders)) if wrote.folder else folders
        made = [touch.path for touch in wrote.touches] if command.name in _MAKE_FILES else []
        self.written |= {normal(path) for word in (*command.written, *made) for path in absolute(word, inner)}
        read = [redirect.target for redirect in command.redirects if redirect.operator == "<"]
        self._runs(command, wrote, read, folders)
        for source, target in wrote.links:
            self._link(source, target, inner)
        if command.name in _POUR and len(self.poured) < _MAX_FILES:
            self.poured += [word for word in command.words[1 : _MAX_FILES + 1] if not word.startswith("-")]
        files = [file for file in (*wrote.archives, *(wrote.patches or ())) if file != "-"]
        if not files and (wrote.archives or wrote.patches is not None):
            files = read or self.poured
        for file in files:
            yield from self._named_in(file, wrote, list(dict.fromkeys((*inner, *folders))))

    def _named_in(self, file: str, wrote: Writes, folders: list[str]) -> Iterator[Touch]:
        if UNKNOWN in file:
            return
        for path in absolute(file, folders):
            if self.files_left <= 0 or not os.path.isfile(path):
                continue
            self.files_left -= 1
            names = patched_by(path, wrote.strip) if wrote.patches is not None else unpacked(path, wrote.strip)
            inside = list(absolute(wrote.into, folders)) if wrote.into else folders
            yield from (Touch(found) for name in names for found in absolute(name.lstrip("~"), inside))

    # scripts

    def _runs(self, command: SimpleCommand, wrote: Writes, read: list[str], folders: list[str]) -> None:
        words = command.words
        if not words or len(self.run) >= _MAX_SCRIPTS:
            return
        scripts = [*wrote.scripts, *(wrote.patches or ()), *wrote.archives, *(words[:1] if "/" in words[0] else ())]
        if command.name in (".", "source"):
            scripts += words[1:2]
        if wrote.runs_input or command.name in SHELLS:
            scripts += read
        python = is_python(command.name)
        for path in (path for script in scripts for path in absolute(script, folders)):
            self.run[normal(path)] = python and self.run.get(normal(path), True)

    def scripts_of_the_line(self) -> list[str]:
        """The line itself, if it runs what it writes: the text of that is in it, in whatever language."""
        found = [python for path, python in self.run.items() if path in self.written]
        return [self.text] if found and not (all(found) and only_reads(self.text)) else []

    # links

    def _link(self, source: str, target: str, folders: list[str]) -> None:
        for place in absolute(target, folders):
            if UNKNOWN in place or UNKNOWN in source or len(self.links) >= _MAX_LINKS:
                continue
            if os.path.isdir(place) or target.endswith("/") or target in (".", ".."):
                link = posixpath.join(place, posixpath.basename(source.rstrip("/")))
            else:
                link = place
            for leads_to in absolute(source, [posixpath.dirname(normal(link))]):
                self.links[normal(link)] = normal(leads_to)

    def behind_links(self, paths: Iterable[Touch]) -> list[Touch]:
        """What the line touches by way of links that it makes itself: they are not there yet."""
        found: list[Touch] = []
        todo = list(paths) if self.links else []
        for _ in range(2):  # a link may lead to another
            todo = [other for touch in todo for other in self._behind(touch)]
            found += todo
        return found

    def _behind(self, touch: Touch) -> Iterator[Touch]:
        path = normal(touch.path)
        for place, leads_to in self.links.items():
            inside = path.startswith(place + "/")
            if any(normal(source) == leads_to for source in touch.sources):
                continue  # the link itself is made
            if leads_to != place and (inside or (path == place and (touch.below or touch.sources))):
                yield msgspec.structs.replace(touch, path=leads_to + path[len(place) :])


# Which files a tool call writes, creates or removes:


MAX_PATHS: Final = 20_000
_LONG_LINE: Final = 65_536
_MAX_FOLDERS: Final = 16

_READ_ONLY = (
    "WebFetch WebSearch TodoWrite TodoRead Task Agent Skill SlashCommand ExitPlanMode EnterPlanMode AskUserQuestion "
    "BashOutput TaskOutput KillShell KillBash TaskStop ToolSearch ListMcpResources ReadMcpResource "
    "ListMcpResourcesTool ReadMcpResourceTool TaskCreate TaskUpdate TaskList TaskGet LSP"
)
READ_ONLY: Final = rules.READS | frozenset(_READ_ONLY.split())  # tools that write no file of their input

_READING = """
analyze blame browse cat check compare count describe diagnostics diff directory exists explain fetch find get glob grep
has head hover info inspect is list load log lookup navigate open outline parse preview query read resolve retrieve
review screenshot search select show stat status summarize tail think tree validate view
"""
_READING_WORDS: Final = frozenset(_READING.split())
_WRITING = """
add append apply commit copy create delete edit exec execute format insert install make modify move patch push put
remove rename replace restore run save set sync trash truncate unlink update upload write
"""
_WRITING_WORDS: Final = frozenset(_WRITING.split())
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_REMOVING = re.compile(r"delete|remove|move|rename|rmdir|unlink|trash|clean", re.I)
_COPIED = re.compile(r"(?:source|src|from)", re.I)
_LEADING_CD = re.compile(
    r"""\s*cd\s+(?:--\s+)?(?:([\w./~@%+:,=][\w./~@%+:,=-]*)|'([^'\n]+)'|"([^"$`\\\n]+)")\s*(?:&&|;|\n)"""
)
_DESCRIPTOR = re.compile(r"/(?:dev|proc/[^/]+)/fd/(?:[3-9]|\d\d|\0)")
_FED = re.compile(
    r"\b(?:xargs|parallel|read|mapfile|readarray|printf\s+-v)\b|=\(|\$\{\w+[^\w}]|\$\(|`|<\(|\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}"
)
_FUNCTION = re.compile(r"\bfunction\s+([\w-]+)|(?<![\w-])([\w-]+)[ \t]*\(\)")
_TELLS: Final = frozenset({"--version", "-V", "-v", "--help", "-h"})


class Touched(msgspec.Struct, frozen=True):
    """What one tool call does to files, and what of it could not be told."""

    paths: tuple[Touch, ...] = ()  # absolute; one whose folder is not known begins with UNKNOWN
    code: tuple[str, ...] = ()
    """Programs in other languages, and lines that could not be read: they count if they mention what is protected."""
    text: str = ""  # the line as written and as read
    fed: bool = False  # unknown words of the line may be what another part of it says: `echo x | xargs rm`
    dots: bool = False  # `*` takes in names that begin with a dot
    commands: tuple[shell.SimpleCommand, ...] = ()
    complete: bool = True  # false: it could not be read as a whole; `code` has the text
    unread: str = ""  # a list of files that the line works on, and that could not be read


def touched(event: Event, cwd: str) -> Touched:
    """What the tool call of `event` writes, creates or removes. Never raises; `cwd` is where it would run."""
    name, given = getattr(event, "tool_name", ""), getattr(event, "tool_input", None)
    if isinstance(given, str):
        given = _object(given)
    if not isinstance(name, str) or not isinstance(given, Mapping):
        return Touched()
    name = tools.canonical(name)
    if tools.is_shell(name):
        lines = _lines(name, given)
        if not lines or takes_arguments(given):
            return _of_unknown_tool(name, given, cwd)
        places = [cwd, *(path for folder in tools.folders(given) for path in absolute(folder, [cwd]))]
        return _together([line_touched(line, place) for line in lines for place in dict.fromkeys(places)])
    if name in rules.EDITS:
        known = [from_address(word) for word in tools.paths_of(name, given)]
        if known and not tools.odd_paths(given):
            return Touched(tuple(Touch(path) for word in known for path in absolute(word, [cwd])))
        return _of_unknown_tool(name, given, cwd)
    return Touched() if name in READ_ONLY or _only_reads(name) else _of_unknown_tool(name, given, cwd)


def line_touched(text: str, cwd: str) -> Touched:
    """What a shell line writes, creates or removes."""
    variants, every = spelt_out(text, cwd)
    cut = not every or (len(text) > _LONG_LINE and len(variants) > 2)
    read = [_LineReading(variant, cwd) for variant in (variants[:2] if len(text) > _LONG_LINE else variants)]
    complete = not cut and all(each.complete for each in read)
    said = [text, *(each.said for each in read)]
    return Touched(
        paths=tuple(dict.fromkeys(path for each in read for path in each.paths)),
        code=tuple(dict.fromkeys([*(code for each in read for code in each.code), *([] if complete else said)])),
        text="\n".join(said),
        fed=any(each.fed for each in read),
        dots="dotglob" in text or "globdots" in text.lower().replace("_", ""),
        commands=tuple(command for each in read for command in each.commands),
        complete=complete,
        unread=next((each.unread for each in read if each.unread), ""),
    )


class _LineReading:
    """One reading of a line: the folders it may be in, and what its commands touch there."""

    def __init__(self, text: str, cwd: str) -> None:
        parsed = shell.parse(text)
        self.commands, self.complete = parsed.commands, parsed.complete
        self.said = " ".join(word for command in parsed.commands for word in command.words)
        self.fed = _FED.search(text) is not None
        self.paths: list[Touch] = []
        self.code: list[str] = []
        own = {name for found in _FUNCTION.finditer(text) for name in found.groups() if name}
        done = [(command, _writes(command, own)) for command in parsed.commands]
        places = _places(text, cwd, done)
        folders = list(dict.fromkeys(folder for each in places for folder in each)) or [cwd]
        following = Following(text)
        for (command, wrote), here in zip(done, places, strict=True):
            self.take(command, wrote, here, text)
            self.paths += following.take(command, wrote, here)
        self.unread = ""
        if _FROM_FILES.search(text):
            self.take_lists([command for command, _ in done], folders)
        unknown = any(UNKNOWN in touch.path for _, wrote in done for touch in wrote.touches)
        if re.search(r"\bread\b", text):
            unknown = unknown or any(UNKNOWN in target for target in parsed.written)
        if self.fed and unknown:
            for command in parsed.commands:
                self.paths += (path for touch in listed(command.words) for path in placed(touch, folders))
        self.paths += following.behind_links(self.paths)
        self.code += following.scripts_of_the_line()

    def take(self, command: shell.SimpleCommand, wrote: Writes, folders: list[str], text: str) -> None:
        for target in command.written:
            reopened = _DESCRIPTOR.match(target) is not None
            self.fed = self.fed or reopened
            self.paths += (Touch(path) for path in absolute(UNKNOWN if reopened else target, folders))
        self.code += wrote.code
        if command.dynamic and len(command.words) == 1 and "{" in text:
            self.code.append(text)  # `{rm,x}`: a command and its operands in one word
        if wrote.runs_input and ("<" in text or "|" in text) and not _TELLS & set(command.words):
            harmless = "<<" in text and is_python(command.name) and only_reads(text)
            self.code += [] if harmless else [text]
        inner = list(absolute(wrote.folder, folders)) if wrote.folder else folders
        for touch in wrote.touches:
            self.paths += placed(touch, inner)

    def take_lists(self, commands: list[shell.SimpleCommand], folders: list[str]) -> None:
        """`xargs rm < list`: the words of the list are given to the commands that have words from elsewhere."""
        words = listings.words_in(listings.files_of(commands), folders)
        for command in commands:
            if command.name in listings.RUN_FILES:
                self.code += [] if words is None else ["\n".join(words)]
            if command.name not in listings.WITH_LISTS and not any(UNKNOWN in word for word in command.words):
                continue
            if command.dynamic or command.name in SHELLS:
                self.code += [] if words is None else ["\n".join(words)]
            wrote = writes(listings.filled(command.words, words or [])) if command.words else Writes()
            if wrote.touches and words is None:
                self.unread = command.name
            self.paths += (path for touch in wrote.touches for path in placed(touch, folders))


def _places(text: str, cwd: str, done: list[tuple[shell.SimpleCommand, Writes]]) -> list[list[str]]:
    """For each command the folders it may run in. After `cd x &&` only x: where that fails nothing follows."""
    moves = [_goes_to(command) for command, _ in done]
    known = not any(move and UNKNOWN in move for move in moves)
    if known and not _NO_CHAIN.search(_SUBSHELL.sub(r"\1", text.strip())) and not any(one.via for one, _ in done):
        found, here = [], [cwd]
        for move in moves:
            found.append(here)
            if move == "-":  # back to one of them
                here = list(dict.fromkeys(folder for each in found for folder in each))
            elif move:
                here = list(absolute(move, here)) or here
        return found
    return [_folders(text, cwd, done)] * len(done)


_SUBSHELL = re.compile(r"\(([^()]*)\)")
_NO_CHAIN = re.compile(r"[;|\n`(){}]|(?<!&)&(?!&)")
_FROM_FILES = re.compile(
    r"\b(?:xargs|parallel|read|mapfile|readarray)\b|-T|--files-from|\b(?:at|batch)\s+-f|\bcrontab\s+[^-]|\btmux\s+(?:source|-f)|\$\(\s*(?:cat\b|<)|`\s*(?:cat\b|<)"
)


def _writes(command: shell.SimpleCommand, functions: set[str]) -> Writes:
    if not command.words:
        return Writes()
    return unknown_program(command.words) if command.name in functions else writes(command.words)


def _folders(text: str, cwd: str, done: list[tuple[shell.SimpleCommand, Writes]]) -> list[str]:
    """Every folder that the line may be in at one time or another.

    `cd x` at the very beginning, into a folder that is there, holds for all that follows; any other may have been in a
    subshell, or have failed, so both folders are kept.
    """
    folder, at = cwd, 0
    seen: set[str] = set()
    while (found := _LEADING_CD.match(text, at)) and len(seen) < _MAX_FOLDERS:
        word = found[1] or found[2] or found[3]
        inside = next(absolute(word, [folder]), "")
        if not inside or not os.path.isdir(inside):
            break
        folder, at = inside, found.end()
        seen.add(word)
    folders = {folder: None}
    for command, wrote in done:
        target = wrote.folder if command.name in ("env", "sudo") else _goes_to(command)
        if target is None or target in seen:
            continue
        if target == "-":
            folders[cwd] = None
        elif UNKNOWN in target or set(target) & set("*?["):
            folders[UNKNOWN] = None
        else:
            folders |= dict.fromkeys(absolute(target, list(folders)))
        if len(folders) > _MAX_FOLDERS:
            return [*list(folders)[:_MAX_FOLDERS], UNKNOWN]
    return list(folders)


def _goes_to(command: shell.SimpleCommand) -> str | None:
    if command.name == "popd":
        return "-"
    if command.name not in ("cd", "pushd", "chdir"):
        return None
    operands = [word for word in command.words[1:] if not word.startswith("-") or word == "-"]
    return operands[-1] if operands else "~"


# other tools


def _object(text: str) -> Mapping[str, object]:
    """An input that was sent as text: an object as JSON, or the command itself."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"command": text}


def _lines(name: str, given: Mapping[str, object]) -> list[str]:
    """The lines that a shell tool may run; a list also as a shell would read its words."""
    words = list_of_words(given.get("command"))
    if not words:
        command = tools.command_of(name, given)
        return [] if command is None else [command]
    if posixpath.basename(words[0]) in SHELLS:
        return [shlex.join(words)]
    return list(dict.fromkeys((shlex.join(words), " ".join(words))))


def _only_reads(name: str) -> bool:
    """Whether the name of a tool says that it only reads: `mcp__files__read_file`, `mcp__git__git_diff`."""
    verbs = [word.lower() for word in _NAME_WORDS.findall(name.rpartition("__")[2][:200])]
    first = verbs[1:2] if len(verbs) > 1 and f"__{verbs[0]}__" in name.lower() else verbs[:1]
    if "git" in verbs and verbs[-1] in _OF_THE_INDEX:
        return True
    return not _READING_WORDS.isdisjoint(first) and _WRITING_WORDS.isdisjoint(verbs)


_OF_THE_INDEX: Final = frozenset({"add", "stage", "unstage", "commit", "push", "fetch", "tag"})
_OF_THE_TREE: Final = frozenset(
    {"checkout", "switch", "restore", "reset", "stash", "merge", "rebase", "pick", "revert", "pull", "clean"}
)


def _git_line(name: str, given: Mapping[str, object]) -> tuple[str, str]:
    """The git command that a tool such as `mcp__git__git_checkout` stands for, and the folder it runs in."""
    verbs = [word.lower() for word in _NAME_WORDS.findall(name[:200])]
    verb = next((word for word in verbs if word in _OF_THE_TREE), "")
    if "git" not in verbs or not verb:
        return "", ""
    texts = {key: value for key, value in given.items() if isinstance(value, str) and value}
    folder = next((value for key, value in texts.items() if "repo" in key.lower()), "")
    words = [f"--{value}" if "mode" in key.lower() else value for key, value in texts.items() if value != folder]
    words += [f"--{key}" for key, value in given.items() if value is True]
    named = [word for value in given.values() for word in list_of_words(value)]
    verb = "cherry-pick" if verb == "pick" else verb
    return shlex.join(["git", verb, *words, *(["--", *named] if named else [])]), folder


def _of_unknown_tool(name: str, given: Mapping[str, object], cwd: str) -> Touched:
    """Whatever names a file in the input of a tool that we know nothing of may be written by it."""
    line, folder = _git_line(name, given)
    if line and folder:
        return _together([line_touched(line, place) for place in absolute(folder, [cwd])])
    if re.search(r"copy", name, re.I) and not _REMOVING.search(name):
        given = {key: value for key, value in given.items() if not _COPIED.match(key)}
    said = said_by_input(name, given, shell=tools.is_shell(name))
    words = said.sure
    if writes_by_name(name):
        words += [word for word in said.bare if os.path.lexists(f"{cwd}/{word}")]
    below = _REMOVING.search(name) is not None
    paths = [Touch(path, below=below) for word in words for path in absolute(word, [cwd])]
    return _together([Touched(tuple(paths), tuple(said.code)), *(line_touched(text, cwd) for text in said.lines)])


def _together(lines: list[Touched]) -> Touched:
    if len(lines) == 1:
        return lines[0]
    return Touched(
        paths=tuple(path for line in lines for path in line.paths),
        code=tuple(text for line in lines for text in line.code),
        text="\n".join(line.text for line in lines),
        fed=any(line.fed for line in lines),
        dots=any(line.dots for line in lines),
        commands=tuple(command for line in lines for command in line.commands),
        complete=all(line.complete for line in lines),
        unread=next((line.unread for line in lines if line.unread), ""),
    )
