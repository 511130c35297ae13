"""What the input of a tool names: shell lines, files that are read, written or deleted, code."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.core import tools
from billhook.core.lazy import lazy_module
from billhook.effects import rules
from billhook.effects.effect import Kind
from billhook.effects.families import is_known
from billhook.effects.families.files import patched
from billhook.effects.programs import INTERPRETERS, PYTHON, SHELLS, WRAPPERS
from billhook.effects.table import word_set

if TYPE_CHECKING:
    import shlex
else:
    shlex = lazy_module("shlex")

_DESTROYS: Final = word_set("delete destroy drop terminate purge wipe truncate teardown")
_EMPTIES: Final = word_set("flushall flushdb")
_REGISTRIES: Final = word_set("npm pypi cargo crates rubygems docker registry marketplace")
_PLATFORMS: Final = word_set("kubectl kubernetes k8s helm terraform aws gcloud azure")
"""Servers and tools whose resources are infrastructure, whatever they are called."""
_INFRASTRUCTURE: Final = word_set("""
cluster instance instances stack namespace deployment server vm service project resource function app environment volume
network zone node pod droplet machine organization
""")
_DATA: Final = word_set("""
repository repo database table bucket collection index schema branch snapshot backup dataset object objects documents
records rows topic queue keyspace release workspace
""")
READ_ONLY: Final = rules.READS | word_set("""
WebFetch WebSearch TodoWrite TodoRead Task Agent Skill SlashCommand ExitPlanMode EnterPlanMode AskUserQuestion
BashOutput TaskOutput KillShell KillBash TaskStop ToolSearch ListMcpResources ReadMcpResource
ListMcpResourcesTool ReadMcpResourceTool TaskCreate TaskUpdate TaskList TaskGet LSP
""")
"""Tools that write no file of their input."""
_READING: Final = word_set("""
analyze blame browse cat check compare count describe diagnostics diff directory exists explain fetch find get glob grep
has head hover info inspect is list load log lookup navigate open outline parse preview query read resolve retrieve
review screenshot search select show stat status summarize tail think tree validate view
""")
_WRITING: Final = word_set("""
add append apply commit copy create delete edit exec execute format insert install make modify move patch push put
remove rename replace restore run save set sync trash truncate unlink update upload write
""")
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_REMOVING = re.compile(r"delete|remove|move|rename|rmdir|unlink|trash|clean", re.I)
_COPIED = re.compile(r"(?:source|src|from)", re.I)
_MOVES = re.compile(r"(?<!re)move|rename", re.I)
_FILLS: Final = word_set("write save put")
_MOVED = re.compile(r"(?:source|src|from|old|path$|file$)", re.I)
_LONGEST_NAME: Final = 4096
_MAX_LINES: Final = 200
_LINE_KEYS: Final = word_set("command cmd script commands shell bash")
_TEXT_KEYS: Final = word_set("""
content contents text texts body message description title comment prompt query pattern regex search replacement
oldtext newtext oldstring newstring oldstr newstr filetext insertline language encoding branch sha ref owner repo
""")
"""Fields whose value is content or about the call, and never names a file; `_` and capitals don't count."""
_CODE_KEYS: Final = word_set("code source expression python javascript")
_OF_LANGUAGES: Final = word_set("python ipython jupyter notebook node javascript js repl")
_PATCH_KEYS: Final = word_set("patch diff input patches diffs")
_OF_A_FILE: Final = word_set("""
path paths file files filename filenames filepath filepaths target targets dest destination source sources src dst
uri uris url urls dir directory folder
""")
_WRITES = ("write", "edit", "delete", "remove", "move", "rename", "patch", "save", "put", "upload", "copy", "append")
_RUNS: Final = word_set("exec execute shell bash terminal cmd command process stdin keys tmux pty ssh")
_PATCHES: Final = word_set("patch diff apply")
_STATEMENTS: Final = ("sql", "query", "statement", "queries")
_PATHS: Final = word_set("path file_path filePath filename file paths files file_paths filePaths filenames")
_SECRETS: Final = {".ssh": ("id_rsa",), ".aws": ("credentials",), ".kube": ("config",), ".gnupg": ("secring.gpg",)}
"""Folders with secrets among other files, and the file that a search there would show."""
_OF_THE_INDEX: Final = word_set("add stage unstage commit push fetch tag")
_OF_THE_TREE: Final = word_set("checkout switch restore reset stash merge rebase pick revert pull clean")


class ToolInput(msgspec.Struct):
    """One tool call, told apart."""

    tool: str
    lines: list[str] = []
    folder: str = ""
    paths: list[tuple[Kind, str]] = []
    code: list[str] = []
    sql: list[str] = []
    recursive: bool = False
    shows: bool = True  # of what it reads, the content
    moves: bool = False  # what it deletes is elsewhere afterwards
    destroys: Kind | None = None
    named: list[str] = []  # what an unknown tool may write, among other things

    @property
    def empty(self) -> bool:
        return not (self.lines or self.paths or self.code or self.sql or self.destroys or self.named)


def tool_input(name: str, given: object, server: Mapping[str, Any] | None = None) -> ToolInput:
    """The input of a tool by what it names. `name` is the canonical one."""
    if isinstance(given, str):
        given = _object(given)
    if not isinstance(given, Mapping):
        return ToolInput(name)
    if tools.is_shell(name):
        return _shell(name, given)
    if name in rules.READS:
        shows = given.get("output_mode") not in ("files_with_matches", "count")
        return ToolInput(name, paths=[("read", path) for path in _read(name, given)], shows=shows)
    if name == "apply_patch" or name in rules.EDITS:
        return _edit(name, given)
    if name in READ_ONLY or _hint(server, "readOnlyHint") or _only_reads(name):
        named = [value for key, value in _strings(given) if key in _PATHS or value[:7].lower() == "file://"]
        read: list[tuple[Kind, str]] = [("read", from_address(value)) for value in named]
        return ToolInput(name, paths=read, sql=[] if "search" in _words(name) else _sql(given))
    return _other(name, given, server)


def _read(name: str, given: Mapping[str, Any]) -> list[str]:
    """The files that a tool reads; of a search that shows content, also those that it looks for and in."""
    found = list(tools.paths_of(name, given))
    if name != "Grep" or given.get("output_mode") in ("files_with_matches", "count"):
        return found
    folder = found[0] if found else "."
    wanted = given.get("glob")
    if isinstance(wanted, str) and not wanted.startswith("!"):
        names = re.split(r"[{},]", wanted[:_LONGEST_NAME])
        found += [posixpath.join(folder, each) for each in names if each][:_MAX_LINES]
    return [*found, *(f"{folder}/{each}" for each in _SECRETS.get(posixpath.basename(folder.rstrip("/")), ()))]


def _sql(given: Mapping[str, Any]) -> list[str]:
    return [value for key, value in _strings(given) if key in _STATEMENTS]


def _hint(server: Mapping[str, Any] | None, key: str) -> bool:
    """An annotation of the tool, where the agent passes it."""
    annotations = server.get("annotations") if server else None
    found = annotations if isinstance(annotations, Mapping) else server or {}
    return found.get(key) is True


def _shell(name: str, given: Mapping[str, Any]) -> ToolInput:
    lines = _lines(name, given)
    if not lines or not tools.ARGUMENTS.isdisjoint(given):
        said = strings_of_input(name, given, shell=True)
        return ToolInput(name, [*lines, *said.lines], code=said.code)
    return ToolInput(name, lines, next(iter(tools.folders(given)), ""))


def _edit(name: str, given: Mapping[str, Any]) -> ToolInput:
    paths = [from_address(path) for path in tools.paths_of(name, given)]
    if name != "apply_patch":
        kind: Kind = "overwrite" if name == "Write" else "write"
        odd = not paths or tools.odd_paths(given)
        named = strings_of_input(name, given) if odd else NamedFiles()
        return ToolInput(name, paths=[(kind, path) for path in paths], named=[*named.sure, *named.bare])
    text = "\n".join(value for _, value in _strings(given))
    deleted = set(re.findall(r"(?m)^\*\*\* Delete File:[ \t]*([^\n]+)", text))
    paths = list(dict.fromkeys((*paths, *patched(text))))
    return ToolInput(name, paths=[("delete" if path in deleted else "write", path) for path in paths])


def _other(name: str, given: Mapping[str, Any], server: Mapping[str, Any] | None) -> ToolInput:
    """A tool of which only the name and the input are known."""
    line, folder = _git_line(name, given)
    if line and folder:
        return ToolInput(name, [line], folder)
    removes = _REMOVING.search(name) is not None
    if not removes and re.search("copy", name, re.I):
        given = {key: value for key, value in given.items() if not _COPIED.match(key)}
    said = strings_of_input(name, given)
    writes = writes_by_name(name) and not given.keys() >= {"owner", "repo"}  # a file of a repository elsewhere
    paths = _changed(name, given, said) if writes else []
    named = [*said.sure, *said.pairs, *(said.bare if writes else ())]
    lines = [shlex.join(("pwsh", "-c", line)) for line in said.lines] if name == "PowerShell" else said.lines
    found = ToolInput(name, lines, "", paths, said.code, recursive=removes, named=named)
    found.moves = _MOVES.search(name) is not None
    found.sql, found.destroys = _sql(given), _destroyed(name)
    if found.destroys:  # what it names is no file
        found.paths = []
    if _hint(server, "destructiveHint") and not found.paths:
        found.destroys = found.destroys or "destroy-data"
    return found


def _changed(name: str, given: Mapping[str, Any], said: "NamedFiles") -> list[tuple[Kind, str]]:
    """What a tool does to the files that it names: `move_file` deletes its source and writes its destination."""
    names = [text for key, text in _strings(given) if "name" in _words(key) and "/" not in text and text in said.bare]
    joined = [f"{folder}/{each}" for folder in said.sure[:1] for each in names]
    files = [path for path in (*said.sure, *joined) if not re.match(r"[a-z][a-z0-9+.-]*://", path)]
    if not _REMOVING.search(name):
        kind: Kind = "write" if _FILLS.isdisjoint(_words(name)) else "overwrite"
        return [(kind, path) for path in files]
    moves = _MOVES.search(name)
    goals = {from_address(text) for key, text in _strings(given) if moves and not _MOVED.match(key)}
    return [("overwrite" if path in goals else "delete", path) for path in files]


def _destroyed(name: str) -> Kind | None:
    """`mcp__github__delete_repository`: what it destroys, by its name."""
    words = set(_words(name.rpartition("__")[2]))
    if words & _EMPTIES or {"flush", "all"} <= words or {"flush", "db"} <= words:
        return "destroy-data"
    if "publish" in words and not _REGISTRIES.isdisjoint(name.lower().split("__")):
        return "publish"
    if words.isdisjoint(_DESTROYS):
        return None
    infrastructure = words & _INFRASTRUCTURE or not _PLATFORMS.isdisjoint(re.split(r"[^a-z0-9]+", name.lower()))
    return "destroy-infra" if infrastructure else "destroy-data" if words & _DATA else None


# every string of an input by what it may be


class NamedFiles(msgspec.Struct):
    """What an input names. `sure` are files, by their field; `bare` are words that may be anything."""

    sure: list[str] = []
    bare: list[str] = []
    lines: list[str] = []
    code: list[str] = []
    pairs: list[str] = []  # a folder and a name in separate fields, in all combinations


def writes_by_name(tool: str) -> bool:
    """Whether a tool writes files, by its name: `save_file`, but not `create_issue`."""
    words = _words(tool)
    return any(word.startswith((*_WRITES, "replace")) for word in words) or {"create", "file"} <= set(words)


def strings_of_input(tool: str, given: Mapping[str, object], *, shell: bool = False) -> NamedFiles:
    """Every string of the input by what it may be; `shell`: each may be a line that is run."""
    words = _words(tool)
    runs = shell or not _RUNS.isdisjoint(words)
    patches = not _PATCHES.isdisjoint(words)
    found = NamedFiles()
    for key, text in _strings(given):
        is_code = key in _CODE_KEYS and not _OF_LANGUAGES.isdisjoint(words)
        if (runs and not is_code) or key in _LINE_KEYS or key.endswith(("_command", "Command")):
            found.lines.append(text)
        if key in _CODE_KEYS:
            found.code.append(text)
        if patches or key in _PATCH_KEYS:
            found.sure += patched(text)
        if "\n" not in text and len(text) <= _LONGEST_NAME and tools.folded(key) not in _TEXT_KEYS:
            one_word = "/" in text and " " not in text  # in prose and lines it is only spoken of
            about_files = one_word or not _OF_A_FILE.isdisjoint(_words(key))
            (found.sure if about_files else found.bare).append(from_address(text))
    pairs = list(dict.fromkeys(_in_two_fields(tool, given, found)))
    lines = list(dict.fromkeys((*found.lines, *_argument_lists(given))))
    code = [*found.code, "\n".join(lines[_MAX_LINES:])]  # too many to be read one by one: searched for names
    sure, bare = dict.fromkeys(found.sure), dict.fromkeys(found.bare)
    return NamedFiles(list(sure), list(bare), lines[:_MAX_LINES], list(filter(None, dict.fromkeys(code))), pairs)


def from_address(text: str) -> str:
    """The path of a `file://` address; any other text as it is."""
    if text[:7].lower() != "file://":
        return text
    from urllib.parse import unquote

    path = text[7:]
    return unquote(path if path.startswith("/") else "/" + path.partition("/")[2])


def _words(name: str) -> list[str]:
    return [word.lower() for word in _NAME_WORDS.findall(name[:_LONGEST_NAME])]


def _in_two_fields(tool: str, given: Mapping[str, object], found: NamedFiles) -> list[str]:
    """A folder and a name, each in a separate field."""
    folders = [*found.sure, *found.bare]
    if not 1 < len(folders) <= 8:
        return []
    named = found.bare if writes_by_name(tool) else []
    named = [*named, *found.sure, *(text for key, text in _strings(given) if "name" in _words(key))]
    return [f"{folder}/{name}" for folder in folders for name in dict.fromkeys(named) if name != folder]


def _strings(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Every string of an input with its key, at any depth."""
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
    """Lists of words that are a command: by their field, or by the program that they begin with."""
    for key, value in _values(given):
        if isinstance(value, Mapping):
            yield from _with_arguments(value)
        words = list_of_words(value)
        if words and key in _LINE_KEYS:
            yield from _as_lines(words)
        elif words and (key in tools.ARGUMENTS or _is_program(words[0])):
            yield shlex.join(words)


def _as_lines(words: list[str]) -> list[str]:
    """A list of words as a line; also as a shell would read them, unless they start a shell themselves."""
    line = shlex.join(words)
    return [line] if posixpath.basename(words[0]) in SHELLS else list(dict.fromkeys((line, " ".join(words))))


def _with_arguments(value: Mapping[str, object]) -> Iterator[str]:
    """`{"command": "rm", "args": ["x"]}`."""
    for command in (value.get(key) for key in sorted(_LINE_KEYS & value.keys())):
        for rest in (value.get(key) for key in sorted(tools.ARGUMENTS & value.keys())):
            words = [rest] if isinstance(rest, str) else [shlex.join(list_of_words(rest))]
            if isinstance(command, str):
                yield " ".join((command, *words))


def _is_program(word: str) -> bool:
    """Whether a word is a program that writes or runs something: a list that begins with it is a command."""
    name = posixpath.basename(word)
    return is_known(name) or name in WRAPPERS or name in INTERPRETERS or PYTHON.fullmatch(name) is not None


def list_of_words(value: object) -> list[str]:
    """A list that holds words alone; [] of anything else."""
    if not isinstance(value, list | tuple):
        return []
    words = [one for one in value if isinstance(one, str)]
    return words if len(words) == len(value) else []


def _object(text: str) -> Mapping[str, object]:
    """An input that was sent as text: an object as JSON, or the command itself."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"command": text}


def _lines(name: str, given: Mapping[str, object]) -> list[str]:
    if words := list_of_words(given.get("command")):
        return _as_lines(words)
    command = tools.command_of(name, given)
    return [] if command is None else [command]


def _only_reads(name: str) -> bool:
    """Whether a tool only reads, by its name: `mcp__files__read_file`, `mcp__git__git_diff`."""
    verbs = _words(name.rpartition("__")[2])
    first = verbs[1:2] if len(verbs) > 1 and f"__{verbs[0]}__" in name.lower() else verbs[:1]
    if "git" in verbs and verbs[-1] in _OF_THE_INDEX:
        return True
    return not _READING.isdisjoint(first) and _WRITING.isdisjoint(verbs)


def _git_line(name: str, given: Mapping[str, object]) -> tuple[str, str]:
    """The git command of a tool such as `mcp__git__git_checkout`, and the folder that it runs in."""
    verbs = _words(name)
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
