"""Canonical tool names and inputs, and what each dialect calls them.

Canonical names are those of the reference agent: `Bash`, `Read`, `Write`, `Edit`. A dialect's own names are a row in
`NAMINGS`; a further agent is a further row. A name nobody listed passes unchanged: your own tools need no row.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from billhook import spellings

NAMINGS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "canonical": {},
        # its own name -> canonical, one row per dialect that has names of its own; the first of several is used
        "seed": {"bash": "Bash", "read_file": "Read", "write_file": "Write", "edit_file": "Edit"},
        "codex": {"spawn_agent": "Agent"},
        "gemini": {
            "run_shell_command": "Bash",
            "read_file": "Read",
            "write_file": "Write",
            "replace": "Edit",
            "glob": "Glob",
            "grep_search": "Grep",
            "search_file_content": "Grep",
            "list_directory": "LS",
            "web_fetch": "WebFetch",
            "google_web_search": "WebSearch",
            "write_todos": "TodoWrite",
            "invoke_agent": "Agent",
        },
        "qwen": {
            "run_shell_command": "Bash",
            "read_file": "Read",
            "write_file": "Write",
            "edit": "Edit",
            "replace": "Edit",
            "glob": "Glob",
            "grep_search": "Grep",
            "search_file_content": "Grep",
            "list_directory": "LS",
            "web_fetch": "WebFetch",
            "web_search": "WebSearch",
            "todo_write": "TodoWrite",
            "agent": "Agent",
            "task": "Agent",
            "skill": "Skill",
            "exit_plan_mode": "ExitPlanMode",
            "ask_user_question": "AskUserQuestion",
        },
        "copilot": {
            "bash": "Bash",
            "view": "Read",
            "create": "Write",
            "edit": "Edit",
            "glob": "Glob",
            "grep": "Grep",
            "rg": "Grep",
            "web_fetch": "WebFetch",
            "web_search": "WebSearch",
            "task": "Agent",
            "skill": "Skill",
            # the same agent inside VS Code
            "run_in_terminal": "Bash",
            "runTerminalCommand": "Bash",
            "read_file": "Read",
            "create_file": "Write",
            "replace_string_in_file": "Edit",
        },
        "cursor": {
            "Shell": "Bash",
            "StrReplace": "Edit",
            "List": "LS",
            "Fetch": "WebFetch",
            "Task": "Agent",
        },
    }
)

_PATH: Final = {"path": "file_path"}
_FILE_PATH: Final = {"file_path": "file_path"}
INPUTS: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = MappingProxyType(
    {
        # naming -> canonical tool -> its own word for a field -> canonical; the first of several is its usual one
        "codex": {"Agent": {"message": "prompt"}},
        "gemini": {
            "Bash": {"is_background": "run_in_background"},
            "Read": {**_FILE_PATH, "absolute_path": "file_path"},
            "Edit": {"allow_multiple": "replace_all"},
            "Glob": {"dir_path": "path"},
            "Grep": {"dir_path": "path"},
            "LS": {"dir_path": "path"},
            "Agent": {"agent_name": "subagent_type"},
        },
        "qwen": {
            "Bash": {"is_background": "run_in_background"},
            "Read": {**_FILE_PATH, "absolute_path": "file_path"},
        },
        "copilot": {
            "Write": {**_PATH, "filePath": "file_path", "file_text": "content"},
            "Edit": {
                **_PATH,
                "filePath": "file_path",
                "old_str": "old_string",
                "oldString": "old_string",
                "new_str": "new_string",
                "newString": "new_string",
            },
            "Read": {**_PATH, "filePath": "file_path"},
            "Agent": {"agent_type": "subagent_type"},
        },
        "cursor": {
            "Write": {**_FILE_PATH, **_PATH, "content": "content", "contents": "content"},
            "Edit": {**_FILE_PATH, **_PATH},
            "Read": {**_FILE_PATH, **_PATH},
            "LS": {"path": "path", "file_path": "path"},
            "Grep": {"path": "path", "file_path": "path"},
        },
    }
)
"""What agents call the fields of their tools; a field that nobody listed passes unchanged."""

_CANONICAL: Final = dict(NAMINGS["seed"])
"""Names that are understood wherever they come from. Those of agents only count in what that agent sends: `create` and
`edit` are good names for tools of your own."""
_CALLED: Final = {naming: {name: own for own, name in reversed(list(rows.items()))} for naming, rows in NAMINGS.items()}
ALSO_EDITS: Final = "write_may_edit"  # the field by which a dialect says so of a call
_PATCHES: Final = frozenset({"apply_patch"})
_PATCHED: Final = r"(?m)^[ \t]*\*\*\* (?:(?:Add|Update|Delete) File|Move to):[ \t]*([^\n]+)"
_PATCH_KEYS: Final = ("command", "patch", "input")

_COMMAND_KEYS: Final = ("command",)
_PATH_KEYS: Final = ("file_path", "path", "notebook_path")
_FIRST_KEY: Final = {"NotebookEdit": "notebook_path", "NotebookRead": "notebook_path"} | dict.fromkeys(
    ("Grep", "Glob", "LS"), "path"
)
_SHELLS: Final = frozenset({"Bash"})


def canonical(name: str, naming: str = "") -> str:
    """The canonical name of a tool, as the dialects of `naming` call it; an unknown name is its own."""
    if naming:
        return NAMINGS[naming].get(name, name)
    return _CANONICAL.get(name, name)


def called(name: str, naming: str = "canonical") -> str:
    """What the dialects of `naming` call a tool, given by any of its names: `called("Bash", "seed")` is `bash`."""
    name = canonical(name)
    return _CALLED[naming].get(name, name)


def also_edits(payload: Mapping[str, Any]) -> bool:
    """Whether a call of `Write` may just as well be an edit: the agent that sent it has one tool for both."""
    return payload.get(ALSO_EDITS) is True


def also_called(name: str) -> tuple[str, ...]:
    """Further tools that a call is as good as: whoever guards `Write` or `Edit` guards patches, too."""
    return ("Write", "Edit") if name in _PATCHES else ()


def canonical_input(tool: str, given: Any, naming: str) -> tuple[Any, dict[str, str]]:
    """What a tool is given, with canonical names for its fields; and, for those that had others, which.

    A tool that takes bare text (a patch) is given a `command`, whose own name is then "".
    """
    if isinstance(given, str) and tool in _PATCHES:
        return {"command": given}, {"command": ""}
    words = INPUTS.get(naming, {}).get(tool)
    if not words or not isinstance(given, Mapping):
        return given, {}
    renamed = {}
    for own, name in words.items():
        if own in given and name not in given and name not in renamed:
            renamed[name] = own
    back = {own: name for name, own in renamed.items()}
    return {back.get(key, key): value for key, value in given.items()}, renamed


def own_input(tool: str, given: Any, naming: str, renamed: Mapping[str, str] | None = None, sent: object = None) -> Any:
    """The same in the words of `naming`; `renamed` tells which of them the agent used for this call.

    `sent`, where it is known: the input that the agent itself sent, made canonical. What was called so there keeps its
    name, and only what is new gets the agent's usual one.
    """
    if not isinstance(given, Mapping):
        return given
    if renamed and renamed.get("command") == "" and tool in _PATCHES:
        return given.get("command")
    words = dict(renamed or {})
    if renamed is None or isinstance(sent, Mapping):
        usual = {name: own for own, name in reversed(list(INPUTS.get(naming, {}).get(tool, {}).items()))}
        there = sent if isinstance(sent, Mapping) else {}
        words |= {name: own for name, own in usual.items() if name not in there and name not in words}
    return {key if words.get(key) in given else words.get(key, key): value for key, value in given.items()}


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
    """Every path a call names, in whatever spelling, the one that this tool reads first; of a patch, the files that it
    changes."""
    if not isinstance(tool_input, Mapping):
        return ()
    name = canonical(tool_name)
    also = spellings.paths(name, tool_input)
    if name in _PATCHES:
        texts = (tool_input.get(key) for key in _PATCH_KEYS)
        # every one of them, however long the patch is: what is left out here no rule ever sees
        found = (name.strip() for text in texts if isinstance(text, str) for name in re.findall(_PATCHED, text))
        return tuple(dict.fromkeys(name for name in (*found, *also) if name))
    keys = dict.fromkeys((_FIRST_KEY.get(name, "file_path"), *_PATH_KEYS))
    values = (tool_input.get(key) for key in keys)
    return tuple(dict.fromkeys([*(value for value in values if isinstance(value, str)), *also]))


def odd_paths(tool_input: Mapping[str, object]) -> bool:
    """Whether a field that should name one path holds something else, such as a list of them."""
    return spellings.is_odd(tool_input)


def _first_string(tool_input: object, keys: tuple[str, ...]) -> str | None:
    if not isinstance(tool_input, Mapping):
        return None
    for key in keys:
        value = tool_input.get(key)
        if isinstance(value, str):
            return value
    return None
