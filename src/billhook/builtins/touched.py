"""Which files a tool call writes, creates or removes: by its input, or by the shell line it would run.

A net against accidents; a sandbox is the wall. Not seen: what a program does besides its words (`make`, `npm run x`, a
script), text that a line fetches and gives to a shell (`base64 -d x | sh`; a rule such as `Bash(base64 *)` is the place
to refuse that), archives and patches that are large or not there yet, and variables that were set before the line.
"""

import os
import posixpath
import re
import shlex
from collections.abc import Mapping
from typing import Final

import msgspec

from billhook import rules, shell, spellings, tools
from billhook.builtins import inputs, lists
from billhook.builtins.following import Following
from billhook.builtins.listings import listed
from billhook.builtins.placing import absolute, placed
from billhook.builtins.protected import takes_arguments
from billhook.builtins.reading_code import only_reads
from billhook.builtins.spelling import spelt_out
from billhook.builtins.touch import Touch, Writes
from billhook.builtins.writers import is_python, unknown_program, writes
from billhook.events import Event
from billhook.script import UNKNOWN
from billhook.unwrap import SHELLS

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
        places = [cwd, *(path for folder in spellings.folders(given) for path in absolute(folder, [cwd]))]
        return _together([line_touched(line, place) for line in lines for place in dict.fromkeys(places)])
    if name in rules.EDITS:
        known = [inputs.from_address(word) for word in tools.paths_of(name, given)]
        if known and not tools.odd_paths(given):
            return Touched(tuple(Touch(path) for word in known for path in absolute(word, [cwd])))
        return _of_unknown_tool(name, given, cwd)
    return Touched() if name in READ_ONLY or _only_reads(name) else _of_unknown_tool(name, given, cwd)


def line_touched(text: str, cwd: str) -> Touched:
    """What a shell line writes, creates or removes."""
    variants, every = spelt_out(text, cwd)
    cut = not every or (len(text) > _LONG_LINE and len(variants) > 2)
    read = [_Line(variant, cwd) for variant in (variants[:2] if len(text) > _LONG_LINE else variants)]
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


class _Line:
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
        words = lists.words_in(lists.files_of(commands), folders)
        for command in commands:
            if command.name in lists.RUN_FILES:
                self.code += [] if words is None else ["\n".join(words)]
            if command.name not in lists.WITH_LISTS and not any(UNKNOWN in word for word in command.words):
                continue
            if command.dynamic or command.name in SHELLS:
                self.code += [] if words is None else ["\n".join(words)]
            wrote = writes(lists.filled(command.words, words or [])) if command.words else Writes()
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
    words = inputs.list_of_words(given.get("command"))
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
    named = [word for value in given.values() for word in inputs.list_of_words(value)]
    verb = "cherry-pick" if verb == "pick" else verb
    return shlex.join(["git", verb, *words, *(["--", *named] if named else [])]), folder


def _of_unknown_tool(name: str, given: Mapping[str, object], cwd: str) -> Touched:
    """Whatever names a file in the input of a tool that we know nothing of may be written by it."""
    line, folder = _git_line(name, given)
    if line and folder:
        return _together([line_touched(line, place) for place in absolute(folder, [cwd])])
    if re.search(r"copy", name, re.I) and not _REMOVING.search(name):
        given = {key: value for key, value in given.items() if not _COPIED.match(key)}
    said = inputs.said(name, given, shell=tools.is_shell(name))
    words = said.sure
    if inputs.writes_by_name(name):
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
