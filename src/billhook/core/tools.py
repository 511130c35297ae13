"""Canonical tool names and inputs, their names in each dialect, and what the fields of an input mean.

Agents spell a file `file_path`, `filePath`, `path`, `absolute_path`. A call with different values in two spellings of
one field could be judged by one and run by the other. So all of them are judged, and a call that contradicts itself is
denied.
"""

import functools
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from billhook.core.lazy import AGENTS, LazyTable

FILE_TOOLS: Final = frozenset(
    {"Write", "Edit", "MultiEdit", "NotebookEdit", "apply_patch", "Read", "NotebookRead", "Grep", "Glob", "LS"}
)
_FILE = """
filepath path absolutepath notebookpath file filename targetfile targetpath relativepath uri fileuri
"""
_FILES: Final = frozenset({"paths", "files", "filepaths", "filenames", "uris"})
_FOLDER = "cwd workdir workingdirectory workingdir directory dirpath dir"
_FOLDERS: Final = frozenset(_FOLDER.split())
ARGUMENTS: Final = frozenset({"args", "argv", "arguments", "parameters"})
_LINE_KEYS = "command commands cmd script code commandline shellcommand bashcommand"
_LINE: Final = dict.fromkeys(_LINE_KEYS.split(), "command")
_TEXTS: Final = {
    "content": "content", "contents": "content", "filetext": "content", "oldstring": "old text", "oldstr": "old text",
    "newstring": "new text", "newstr": "new text",
}  # fmt: skip
_OF_FILE_TOOLS: Final = {**dict.fromkeys(_FILE.split(), "file"), **_TEXTS}
_SIGNS: Final = {"old text": "-", "new text": "+", "content": "+", "newsource": "+", "patch": ""}
_PATCH: Final = {**dict.fromkeys(("command", "patch", "input", "diff"), "patch"), **_OF_FILE_TOOLS}
_MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    **dict.fromkeys(FILE_TOOLS, _OF_FILE_TOOLS),
    "apply_patch": _PATCH,
    "Bash": _LINE,
}
_EVENT: Final = {"toolname": "tool_name", "toolinput": "tool_input", "toolargs": "tool_input"}
_MOST_VALUES: Final = 20_000


def folded(name: str) -> str:
    """A name without the differences in spelling: `onFailure`, `on_failure` and `on-failure` are the same."""
    return name.replace("_", "").replace("-", "").lower()


@functools.lru_cache(maxsize=4096)
def _word(key: str) -> str:
    return folded(key.replace(" ", "")) if len(key) < 100 else key


def contradiction(tool: str, given: Mapping[str, Any], cwd: str = "") -> str:
    """The two fields of an input that contradict each other; "" if none do. `tool` is a canonical name."""
    alike = _alike(tuple(given), tool) if tool in _MEANINGS and len(given) > 1 else []
    return _contradiction(given, alike, cwd) if alike else ""


def contradictory_event(payload: Mapping[str, Any]) -> str:
    """The same for the fields of an event, as agents spell them."""
    alike = _alike(tuple(payload), "")
    return _contradiction(payload, alike, "") if alike else ""


def _contradiction(given: Mapping[str, Any], alike: list[tuple[str, list[str]]], cwd: str) -> str:
    for meaning, keys in alike:
        first, *others = [key for key in keys if given[key] is not None] or [""]
        for key in others:
            if not _same(meaning, given[first], given[key], cwd):
                return f"`{first}` and `{key}` differ: it is unclear which {meaning} is meant"
    return ""


@functools.lru_cache(maxsize=512)
def _alike(keys: tuple[object, ...], tool: str) -> list[tuple[str, list[str]]]:
    """Groups of several fields with the same meaning. Cached: an agent sends the same fields again and again."""
    meanings, found = _MEANINGS[tool] if tool else _EVENT, dict[str, list[str]]()
    for key in keys:
        if isinstance(key, str) and (meaning := meanings.get(_word(key))):
            found.setdefault(meaning, []).append(key)
    return [(meaning, alike) for meaning, alike in found.items() if len(alike) > 1]


def _same(meaning: str, one: object, other: object, cwd: str) -> bool:
    if one == other:
        return True
    if meaning == "command":
        return _joined(one) == _joined(other) != ""
    if meaning == "tool_input":
        from billhook.core.strictjson import value_in

        return bool(value_in(one) == value_in(other))
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    if meaning == "tool_name":
        return one.lower() == other.lower()
    return meaning == "file" and _place(one, cwd) == _place(other, cwd)


def _joined(value: object) -> str:
    return value.strip() if isinstance(value, str) else " ".join(map(str, value)) if isinstance(value, list) else ""


def _place(path: str, cwd: str) -> str:
    return posixpath.normpath(posixpath.join(cwd or "/", path.removeprefix("file://")))


def paths(tool: str, given: Mapping[str, Any]) -> Iterator[str]:
    """Every file that the input of a file tool names, lists included: one call may edit several files."""
    for key, value in _values(given) if tool in FILE_TOOLS else ():
        if isinstance(value, str) and _is_file(_word(key)):
            yield value


def _is_file(word: str) -> bool:
    return _OF_FILE_TOOLS.get(word) == "file" or word in _FILES


def _values(given: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Every value in an input with its key; "" for one in a list, except in a list of paths."""
    waiting: list[tuple[str, object]] = list(given.items())[::-1]
    for _ in range(_MOST_VALUES):
        if not waiting:
            return
        key, value = waiting.pop()
        key = key if isinstance(key, str) else ""
        if isinstance(value, Mapping):
            waiting += list(value.items())[::-1]
        elif isinstance(value, list | tuple):
            waiting += ((key if _word(key) in _FILES else "", one) for one in reversed(value))
        else:
            yield key, value


def changes(tool: str, given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a file tool would do with its files: every other value of the input as text, with the sign of a line in a
    diff (`-` is old, `+` is new), or with its key. `tool` is a canonical name."""
    found = [(key, str(value)) for key, value in _values(given) if not (value is None or _is_file(_word(key)))]
    return [(_SIGNS.get(_MEANINGS[tool].get(_word(key), _word(key)), key), text) for key, text in found]


def odd_paths(given: Mapping[str, Any]) -> bool:
    """Whether a field for one path contains something else, such as a list of paths."""
    return any(
        not isinstance(value, str) and isinstance(key, str) and _OF_FILE_TOOLS.get(_word(key)) == "file"
        for key, value in given.items()
    )


def lines(given: Mapping[str, Any]) -> list[str] | None:
    """Every line that the input of a shell tool may run, with its arguments; None if one is not a string."""
    line_keys, argument_keys = _keys_of_lines(tuple(given))
    found: list[str] = []
    for key in line_keys:
        value = given[key]
        if value is None:
            continue
        line = _joined(value)
        if not line:
            return None
        found.append(value if isinstance(value, str) else line)
    if len(found) <= 1 and not argument_keys:
        return found
    given_apart = [_joined(given[key]) for key in argument_keys]
    return list(dict.fromkeys([*found, *(f"{line} {rest}" for line in found for rest in given_apart if rest)]))


@functools.lru_cache(maxsize=512)
def _keys_of_lines(keys: tuple[object, ...]) -> tuple[list[str], list[str]]:
    """The fields with a line, and the fields with arguments."""
    words = [(key, _word(key)) for key in keys if isinstance(key, str)]
    return [key for key, word in words if word in _LINE], [key for key, word in words if word in ARGUMENTS]


def folders(given: Mapping[str, Any]) -> list[str]:
    """The folder in which a call runs its command."""
    return [
        value
        for key, value in given.items()
        if isinstance(value, str) and isinstance(key, str) and _word(key) in _FOLDERS
    ]


# Canonical tool names and inputs, and their names in each dialect.


_SEED: Final = {"bash": "Bash", "read_file": "Read", "write_file": "Write", "edit_file": "Edit"}
_OURS: Final[Mapping[str, Mapping[str, str]]] = {"canonical": {}, "seed": _SEED}
NAMINGS: Final[Mapping[str, Mapping[str, str]]] = LazyTable(
    lambda: (*_OURS, *(name for name in AGENTS if name != "claude")),
    lambda naming: _OURS[naming] if naming in _OURS else AGENTS[naming].tools,
)
"""By naming (`seed`, or an agent): its name for a tool, and the canonical one; the first of several is used."""


def _reversed(names: Mapping[str, str]) -> dict[str, str]:
    """An agent's name for each canonical name; the first of several."""
    return {name: own for own, name in reversed(list(names.items()))}


def _words(naming: str, tool: str) -> Mapping[str, str]:
    """An agent's names for the fields of a tool; a field that is not listed stays unchanged."""
    return AGENTS[naming].inputs.get(tool, {}) if naming in AGENTS else {}


_CANONICAL: Final = _SEED
"""Names that are understood from every sender. An agent's names only count in its own events: `create` and `edit` are
good names for tools of other programs."""
_CALLED: Final = LazyTable(NAMINGS, lambda naming: _reversed(NAMINGS[naming]))
ALSO_EDITS: Final = "write_may_edit"  # the field with which a dialect marks such a call
_PATCHES: Final = frozenset({"apply_patch"})
OTHER_NAMES: Final = {own: (name,) for own, name in _SEED.items()} | dict.fromkeys(_PATCHES, ("Write", "Edit"))
"""Other names by which a hook may match a tool: its canonical name, and equivalent tools."""
_PATCHED: Final = r"(?m)^[ \t]*\*\*\* (?:(?:Add|Update|Delete) File|Move to):[ \t]*([^\n]+)"
_PATCH_KEYS: Final = ("command", "patch", "input")

_PATH_KEYS: Final = ("file_path", "path", "notebook_path")
_FIRST_KEY: Final = {"NotebookEdit": "notebook_path", "NotebookRead": "notebook_path"} | dict.fromkeys(
    ("Grep", "Glob", "LS"), "path"
)


def canonical(name: str, naming: str = "") -> str:
    """The canonical name of a tool, from its name in `naming`; an unknown name stays unchanged."""
    if naming:
        return NAMINGS[naming].get(name, name)
    return _CANONICAL.get(name, name)


def called(name: str, naming: str = "canonical") -> str:
    """The name of a tool in `naming`, from any of its names: `called("Bash", "seed")` is `bash`."""
    name = canonical(name)
    return _CALLED[naming].get(name, name)


def also_edits(payload: Mapping[str, Any]) -> bool:
    """Whether a call of `Write` may also be an edit: the agent that sent it has one tool for both."""
    return payload.get(ALSO_EDITS) is True


def also_called(name: str) -> tuple[str, ...]:
    """Further tools that a call is equivalent to: a hook for `Write` or `Edit` also gets patches."""
    return ("Write", "Edit") if name in _PATCHES else ()


def canonical_input(tool: str, given: Any, naming: str) -> tuple[Any, dict[str, str]]:
    """The input of a tool with canonical field names; and the original names of the renamed fields.

    For a tool with bare text as input (a patch), the text becomes `command`, with "" as its original name.
    """
    if isinstance(given, str) and tool in _PATCHES:
        return {"command": given}, {"command": ""}
    words = _words(naming, tool)
    if not words or not isinstance(given, Mapping):
        return given, {}
    renamed = {}
    for own, name in words.items():
        if own in given and name not in given and name not in renamed:
            renamed[name] = own
    back = {own: name for name, own in renamed.items()}
    return {back.get(key, key): value for key, value in given.items()}, renamed


def own_input(tool: str, given: Any, naming: str, renamed: Mapping[str, str] | None = None, sent: object = None) -> Any:
    """The input with the field names of `naming`; `renamed` has those that the agent used for this call.

    `sent`, if it is known: the input that the agent sent, made canonical. Its fields keep their names, and only new
    fields get the agent's usual names.
    """
    if not isinstance(given, Mapping):
        return given
    if renamed and renamed.get("command") == "" and tool in _PATCHES:
        return given.get("command")
    words = dict(renamed or {})
    if renamed is None or isinstance(sent, Mapping):
        usual = _reversed(_words(naming, tool))
        there = sent if isinstance(sent, Mapping) else {}
        words |= {name: own for name, own in usual.items() if name not in there and name not in words}
    return {key if words.get(key) in given else words.get(key, key): value for key, value in given.items()}


def is_shell(tool_name: str) -> bool:
    """Whether the tool runs shell commands, by its canonical or dialect name."""
    return canonical(tool_name) == "Bash"


def command_of(tool_name: str, tool_input: object) -> str | None:
    """The shell command that a call would run; None if the tool is not a shell or its input has no such string."""
    command = tool_input.get("command") if isinstance(tool_input, Mapping) else None
    return command if isinstance(command, str) and is_shell(tool_name) else None


def path_of(tool_name: str, tool_input: object) -> str | None:
    """The file or folder of a call: the first of `paths_of`, or None."""
    return next(iter(paths_of(tool_name, tool_input)), None)


def subject_of(tool_name: str, tool_input: object) -> str:
    """What a call is about, for people: its command, or else its path; empty if it has neither."""
    found = command_of(tool_name, tool_input) or path_of(tool_name, tool_input) if tool_name else ""
    return found or ""


def paths_of(tool_name: str, tool_input: object) -> tuple[str, ...]:
    """Every path in a call, in any spelling, first the one that this tool reads; for a patch, the files that it
    changes."""
    if not isinstance(tool_input, Mapping):
        return ()
    name = canonical(tool_name)
    also = paths(name, tool_input)
    if name in _PATCHES:
        texts = (tool_input.get(key) for key in _PATCH_KEYS)
        # All of them, however long the patch is: rules see only these files.
        found = (name.strip() for text in texts if isinstance(text, str) for name in re.findall(_PATCHED, text))
        return tuple(dict.fromkeys(name for name in (*found, *also) if name))
    keys = dict.fromkeys((_FIRST_KEY.get(name, "file_path"), *_PATH_KEYS))
    values = (tool_input.get(key) for key in keys)
    return tuple(dict.fromkeys([*(value for value in values if isinstance(value, str)), *also]))
