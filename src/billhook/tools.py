"""Canonical tool names and inputs, and what each dialect calls them.

Canonical names are those of the reference agent: `Bash`, `Read`, `Write`, `Edit`. A dialect's own names are a row in
`NAMINGS`; a further agent is a further row. A name nobody listed passes unchanged: your own tools need no row.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

NAMINGS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "canonical": {},
        # its own name -> canonical, one row per dialect that has names of its own
        "seed": {"bash": "Bash", "read_file": "Read", "write_file": "Write", "edit_file": "Edit"},
        "gemini": {"run_shell_command": "Bash", "read_file": "Read", "write_file": "Write", "replace": "Edit"},
        "qwen": {"run_shell_command": "Bash", "read_file": "Read", "write_file": "Write", "edit": "Edit"},
        "copilot": {"bash": "Bash", "view": "Read", "create": "Write", "edit": "Edit"},
        "cursor": {"Shell": "Bash"},
    }
)

_CANONICAL: Final = dict(NAMINGS["seed"])
_CALLED: Final = {naming: {name: own for own, name in rows.items()} for naming, rows in NAMINGS.items()}

_COMMAND_KEYS: Final = ("command",)
_PATH_KEYS: Final = ("file_path", "path", "notebook_path")
_FIRST_KEY: Final = {"NotebookEdit": "notebook_path", "NotebookRead": "notebook_path"} | dict.fromkeys(
    ("Grep", "Glob", "LS"), "path"
)
_SHELLS: Final = frozenset({"Bash"})


def canonical(name: str) -> str:
    """The canonical name of a tool, whichever dialect named it; an unknown name is its own."""
    return _CANONICAL.get(name, name)


def called(name: str, naming: str = "canonical") -> str:
    """What the dialects of `naming` call a tool, given by any of its names: `called("Bash", "seed")` is `bash`."""
    name = canonical(name)
    return _CALLED[naming].get(name, name)


def is_shell(tool_name: str) -> bool:
    """Whether the tool runs shell commands, by its canonical or dialect name."""
    return canonical(tool_name) in _SHELLS


def command_of(tool_name: str, tool_input: object) -> str | None:
    """The shell command a call would run, or None when the tool is no shell or its input holds no such string."""
    return _first_string(tool_input, _COMMAND_KEYS) if is_shell(tool_name) else None


def path_of(tool_name: str, tool_input: object) -> str | None:
    """The file or folder a call is about, or None when it names none: the first of `paths_of`."""
    return next(iter(paths_of(tool_name, tool_input)), None)


def paths_of(tool_name: str, tool_input: object) -> tuple[str, ...]:
    """Every path a call names (`file_path`, `path`, `notebook_path`), the one that this tool reads first."""
    if not isinstance(tool_input, Mapping):
        return ()
    keys = dict.fromkeys((_FIRST_KEY.get(canonical(tool_name), "file_path"), *_PATH_KEYS))
    values = (tool_input.get(key) for key in keys)
    return tuple(value for value in values if isinstance(value, str))


def odd_paths(tool_input: Mapping[str, object]) -> bool:
    """Whether a field that should name one path holds something else, such as a list of them."""
    return any(key in tool_input and not isinstance(tool_input[key], str) for key in _PATH_KEYS)


def _first_string(tool_input: object, keys: tuple[str, ...]) -> str | None:
    if not isinstance(tool_input, Mapping):
        return None
    for key in keys:
        value = tool_input.get(key)
        if isinstance(value, str):
            return value
    return None
