"""What the input of a tool that we know nothing of says: file names, shell lines, code, patches."""

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from billhook.builtins.patches import patched
from billhook.builtins.protected import ARGUMENT_KEYS
from billhook.builtins.writers import is_known
from billhook.unwrap import SHELLS

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


class Said(msgspec.Struct):
    """What an input names. `sure` are files by the field they stand in; `bare` are words that may be anything."""

    sure: list[str] = []
    bare: list[str] = []
    lines: list[str] = []
    code: list[str] = []


def writes_by_name(tool: str) -> bool:
    """Whether the name of a tool speaks of writing files: `save_file`, but not `create_issue`."""
    words = _words(tool)
    return any(word.startswith((*_WRITES, "replace")) for word in words) or {"create", "file"} <= words


def said(tool: str, given: Mapping[str, object], *, shell: bool = False) -> Said:
    """Every string of the input by what it may be; `shell`: each may be a line that is run."""
    words = _words(tool)
    runs = shell or not words.isdisjoint(_RUNS)
    patches = not words.isdisjoint({"patch", "diff", "apply"})
    found = Said()
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
    return Said(list(sure), list(bare), lines[:_MAX_LINES], list(filter(None, dict.fromkeys(code))))


def from_address(text: str) -> str:
    """The path of a `file://` address; any other text as it is."""
    if text[:7].lower() != "file://":
        return text
    from urllib.parse import unquote

    path = text[7:]
    return unquote(path if path.startswith("/") else "/" + path.partition("/")[2])


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(name[:_LONGEST_NAME])}


def _in_two_fields(tool: str, given: Mapping[str, object], found: Said) -> list[str]:
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
