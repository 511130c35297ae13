"""The fields of a tool's input by what they mean: agents spell a file `file_path`, `filePath`, `path`, `absolute_path`.

A call that says two different things in two spellings of one field could be judged by one and run by the other. So all
of them are judged, and a call that contradicts itself is denied.
"""

import functools
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Final

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
_PATCH: Final = {**dict.fromkeys(("command", "patch", "input", "diff"), "patch"), **_OF_FILE_TOOLS}
_MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    **dict.fromkeys(FILE_TOOLS, _OF_FILE_TOOLS),
    "apply_patch": _PATCH,
    "Bash": _LINE,
}
_EVENT: Final = {"toolname": "tool_name", "toolinput": "tool_input", "toolargs": "tool_input"}
_MOST_VALUES: Final = 20_000


@functools.lru_cache(maxsize=4096)
def _word(key: str) -> str:
    return key.replace("_", "").replace("-", "").replace(" ", "").lower() if len(key) < 100 else key


def contradiction(tool: str, given: Mapping[str, Any], cwd: str = "") -> str:
    """Which two fields of an input say different things of the same; "" when none do. `tool` is a canonical name."""
    return _contradiction(given, tool, cwd) if tool in _MEANINGS and len(given) > 1 else ""


def contradictory_event(payload: Mapping[str, Any]) -> str:
    """The same for the fields of an event, as agents spell them."""
    return _contradiction(payload, "", "")


def _contradiction(given: Mapping[str, Any], tool: str, cwd: str) -> str:
    for meaning, keys in _alike(tuple(given), tool):
        first, *others = [key for key in keys if given[key] is not None] or [""]
        for key in others:
            if not _same(meaning, given[first], given[key], cwd):
                return f"`{first}` and `{key}` differ: which {meaning} is meant can't be told"
    return ""


@functools.lru_cache(maxsize=512)
def _alike(keys: tuple[object, ...], tool: str) -> list[tuple[str, list[str]]]:
    """The fields that mean the same, where there are several. An agent sends the same fields again and again."""
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
        return _decoded(one) == _decoded(other)
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    if meaning == "tool_name":
        return one.lower() == other.lower()
    return meaning == "file" and _place(one, cwd) == _place(other, cwd)


def _joined(value: object) -> str:
    return value.strip() if isinstance(value, str) else " ".join(map(str, value)) if isinstance(value, list) else ""


def _decoded(value: object) -> object:
    from billhook import strictjson
    from billhook.errors import StrictJSONError

    try:
        return strictjson.loads(value) if isinstance(value, str) else value
    except StrictJSONError:
        return value


def _place(path: str, cwd: str) -> str:
    return posixpath.normpath(posixpath.join(cwd or "/", path.removeprefix("file://")))


def paths(tool: str, given: Mapping[str, Any]) -> Iterator[str]:
    """Every file that the input of a file tool names, also those in its lists: one call may edit several."""
    if tool not in FILE_TOOLS:
        return
    waiting: list[tuple[str, object]] = list(given.items())[::-1]
    for _ in range(_MOST_VALUES):
        if not waiting:
            return
        key, value = waiting.pop()
        word = _word(key) if isinstance(key, str) else ""
        if isinstance(value, str):
            if _OF_FILE_TOOLS.get(word) == "file" or word in _FILES:
                yield value
        elif isinstance(value, Mapping):
            waiting += list(value.items())[::-1]
        elif isinstance(value, list | tuple):
            waiting += ((key if word in _FILES else "", one) for one in reversed(value))


def is_odd(given: Mapping[str, Any]) -> bool:
    """Whether a field that should name one file holds something else."""
    return any(
        not isinstance(value, str) and isinstance(key, str) and _OF_FILE_TOOLS.get(_word(key)) == "file"
        for key, value in given.items()
    )


def lines(given: Mapping[str, Any]) -> list[str] | None:
    """Every line that the input of a shell tool may run, its arguments included; None where one is no text."""
    found: list[str] = []
    for key, value in given.items():
        if not isinstance(key, str) or _word(key) not in _LINE or value is None:
            continue
        line = _joined(value)
        if not line:
            return None
        found.append(value if isinstance(value, str) else line)
    given_apart = [_joined(value) for key, value in given.items() if isinstance(key, str) and _word(key) in ARGUMENTS]
    return list(dict.fromkeys([*found, *(f"{line} {rest}" for line in found for rest in given_apart if rest)]))


def folders(given: Mapping[str, Any]) -> list[str]:
    """Where a call says that its command runs."""
    return [
        value
        for key, value in given.items()
        if isinstance(value, str) and isinstance(key, str) and _word(key) in _FOLDERS
    ]
