"""Shell lines that can't work where they run: BH406 and BH407.

Quoted text, comments and here-documents are blanked out first, for the shell does not read them. Nothing is run.
"""

import functools
import os
import re
from collections.abc import Iterator
from typing import Final

from billhook.agents.child import HOOK_VARIABLES
from billhook.config.declaration import Declared, RunAction
from billhook.config.lint.codes import edit, finding
from billhook.config.lint.commands import LONGEST, scripts
from billhook.config.sources import agent_of
from billhook.core.dialect_traits import meanings
from billhook.core.text import Finding

# -- BH406: variables that look as if an agent set them

_INVENTED: Final = re.compile(
    r"CLAUDE_(?:TOOL|FILE|HOOK|EVENT|INPUT|OUTPUT|PROMPT|USER_PROMPT|USER_MESSAGE|MESSAGE|NOTIFICATION|COMMAND|BASH"
    r"|EDIT|EDITED|RESPONSE|RESULT|ARG|ARGS|ARGUMENTS|MODIFIED|CHANGED|CURRENT|LAST|TRANSCRIPT|SESSION|CONVERSATION"
    r"|STDIN|PAYLOAD|MATCHER|SUBAGENT|STOP|CWD|WORKING)(?:_\w+)?S?"
    r"|CLAUDE_PROJECT_(?!DIR$)\w+|CLAUDE_WORKSPACE\w*"
    r"|(?:CURSOR|GEMINI|CODEX|COPILOT)_(?:TOOL|FILE|HOOK|EVENT|INPUT|PROMPT|COMMAND)(?:_\w+)?"
    r"|(?:TOOL|HOOK)_(?:NAME|INPUT|OUTPUT|RESULT|RESPONSE|ARG|ARGS|PARAMS|JSON|DATA|PAYLOAD|EVENT|FILE|COMMAND)(?:_\w+)?"
    r"|HOOK_TOOL_\w+|TOOL_USE_ID|STDIN_JSON|STDIN|EVENT_JSON|INPUT_JSON|HOOK_EVENT_NAME"
    r"|FILE_?PATHS?|FILES?|(?:EDITED|CHANGED|MODIFIED|TARGET)_FILES?(?:_PATHS?)?|ARGUMENTS"
    r"|file_?[pP]aths?|files?|tool_(?:name|input|response|result|output|use_id)|toolInput|toolName"
)
"""Names under which people look for what is in the event. Any other unknown variable may be the user's own."""
_SET_BY_BILLHOOK: Final = frozenset(
    f"CLAUDE_{name}" for name in ("SESSION_ID", "SESSION_NAME", "TURN_ID", "TURN_SEQUENCE", "EVENT_TYPE", "CWD")
)
_USED: Final = re.compile(r"(?<!\\)\$(?:\{#?([A-Za-z_]\w*)(\}|:?[-=+?])?|([A-Za-z_]\w*))")
_ASSIGNED: Final = re.compile(
    r"(?:^|[\s;&|({`])(?:(?:export|local|readonly|declare|typeset|set)\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)\+?="
    r"|\bfor\s+([A-Za-z_]\w*)\b|\b(?:read|mapfile|readarray|getopts)\b([^;|&\n<)]*)|\bprintf\s+-v\s+([A-Za-z_]\w*)"
)
_IN_CODE: Final = re.compile(r"(?:environ(?:\.get)?[\[(]|getenv\(|process\.env[.\[]|ENV\[)\s{0,9}[\"']?(CLAUDE_\w+)")
_READS_STDIN: Final = re.compile(
    r"\bjq\b|\bcat\b(?!\s*<<)|/dev/stdin|\bstdin\b|\bread\b|\binput\(|fs\.readFileSync\(0|STDIN"
)
_FIELDS: Final = (
    (re.compile(r"transcript", re.I), ".transcript_path"),
    (re.compile(r"file|path|edited|changed|modified", re.I), ".tool_input.file_path // empty"),
    (re.compile(r"command|bash", re.I), ".tool_input.command // empty"),
    (re.compile(r"tool_?(?:use_?)?name|matcher", re.I), ".tool_name"),
    (re.compile(r"session", re.I), ".session_id"),
    (re.compile(r"cwd|working", re.I), ".cwd"),
    (re.compile(r"prompt", re.I), ".prompt"),
    (re.compile(r"message|notification", re.I), ".message"),
    (re.compile(r"output|result|response", re.I), ".tool_response"),
    (re.compile(r"event", re.I), ".hook_event_name"),
)
"""Where the event has what a name asks for."""


def lint_variables(hook: Declared, given: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """Variables that no agent sets and nothing else does: they are empty, and the hook judges nothing. `given` are
    those that the file sets itself."""
    if not isinstance(hook.action, RunAction) or hook.action.shell == "powershell" or len(hook.action.text) > LONGEST:
        return
    text = hook.action.text
    names = [name for name in _unset(text) if name not in given and _is_invented(name, hook)]
    if names:
        yield _never_set(hook, names[0], "")
        return
    for one, text in scripts(hook):
        if not _READS_STDIN.search(text):  # one that reads stdin, too, has another way to know
            found = [*_unset(text), *_IN_CODE.findall(text)]
            name = next((name for name in found if name.startswith("CLAUDE_") and _is_invented(name, hook)), "")
            if name and name not in given:
                yield _never_set(hook, name, one.word)
                return


def _is_invented(name: str, hook: Declared) -> bool:
    if name in os.environ or (name in HOOK_VARIABLES and meanings(hook.dialect).hook_variables):
        return False
    if name in _SET_BY_BILLHOOK and not (hook.shape == "nested" and agent_of(hook.file)):
        return False
    return _INVENTED.fullmatch(name) is not None


def _never_set(hook: Declared, name: str, word: str) -> Finding:
    where = f" in {word}" if word else ""
    message = f"no agent sets `${name}`{where}: it is empty"
    if name.startswith(("CLAUDE_PROJECT_", "CLAUDE_WORKSPACE")):
        return finding(hook, "BH406", "action", message, "use `$CLAUDE_PROJECT_DIR`")
    asked = next((query for words, query in _FIELDS if words.search(name)), ".tool_input")
    hint = f"read it: `{name}=$(jq -r '{asked}')`"
    return finding(hook, "BH406", "action", f"{message}; the event comes as JSON on stdin", hint)


def _unset(text: str) -> list[str]:
    """The variables that a shell text uses and does not set, in their order. One with a default is no slip."""
    plain = blanked(text, double=False)
    assigned = {
        name
        for found in _ASSIGNED.finditer(plain)
        for group in found.groups()
        if group
        for name in re.findall(r"[A-Za-z_]\w*", group)
    }
    used = (found[1] or found[3] for found in _USED.finditer(plain) if found[2] in (None, "}") or not found[1])
    return [name for name in dict.fromkeys(used) if name not in assigned]


# -- BH407: what only bash knows

_START: Final = r"(?:^|[;&|({\n`]|\$\(|\b(?:if|elif|while|until|then|else|do)\s|!\s)\s{0,99}"
_OF_BASH: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("[[ ]]", re.compile(_START + r"\[\[\s")),
    ("<<<", re.compile(r"<<<")),
    ("&>", re.compile(r"(?<![0-9&>])&>(?!&)")),
    ("<( )", re.compile(r"(?<![<$])[<>]\((?!\()")),
    ("an array", re.compile(r"(?:^|[\s;&|({])[A-Za-z_]\w*\+?=\(")),
    ("function", re.compile(_START + r"function\s+\w")),
    ("source", re.compile(_START + r"source\s+\S")),
    ("==", re.compile(_START + r"(?:\[\s|test\s)[^];|&\n]{0,300}\s==\s")),
    ("a brace expansion", re.compile(r"(?<![$\w{])\{\w+\.\.\w+\}")),
    ("shopt", re.compile(_START + r"(?:shopt|declare|typeset|mapfile|readarray|pushd|popd|let)\s")),
)
_EXPANSIONS: Final = re.compile(
    r"\$\{(?:PIPESTATUS\b[^}]{0,50}|BASH_\w+[^}]{0,50}|![A-Za-z_]\w*|[A-Za-z_]\w*(?:\[[^]]{0,50}\]|//?[^}]{0,200}|\^\^?|,,?|:\d[^}]{0,50}|@\w))\}"
)
_LIKE_BASH: Final = frozenset({"bash", "zsh", "ksh", "ksh93", "mksh", "busybox", "ash", "rbash"})


def lint_bash(hook: Declared) -> Iterator[Finding]:
    """Bash in a line that `sh` runs, where `sh` is another shell."""
    if not isinstance(hook.action, RunAction) or hook.action.shell or len(hook.action.text) > LONGEST:
        return
    if agent_of(hook.file) not in ("", "claude", "plugin"):
        return  # other agents have shells of their own choice
    name = _sh()
    found = _bash_in(hook.action.text) if name and name not in _LIKE_BASH else ""
    if found:
        message = f"{found} is for bash, and `sh` runs this line; `sh` is `{name}` on this machine"
        yield finding(hook, "BH407", "action", message, f"add `{edit(hook, 'shell', 'bash')}`, or write it for `sh`")


def _bash_in(text: str) -> str:
    plain = blanked(text, double=True)
    name = next((name for name, sign in _OF_BASH if sign.search(plain)), "")
    if name:
        return f"`{name}`" if " " not in name or name[0] in "[<" else name
    expansion = _EXPANSIONS.search(blanked(text, double=False))
    return f"`{expansion[0]}`" if expansion else ""


@functools.cache
def _sh() -> str:
    return os.path.basename(os.path.realpath("/bin/sh")) if os.path.exists("/bin/sh") else ""


# -- what the shell reads as its own


_QUOTED: Final = re.compile(
    r"""\\.|'[^']*'|"(?:[^"\\]|\\.)*"|(?:(?<=\s)|^)\#[^\n]*|<<-?\s*([\"']?)(\w+)\1[^\n]*\n.*?^\s*\2$""", re.S | re.M
)


def blanked(text: str, *, double: bool) -> str:
    """The text with quoted text, comments and here-documents blanked out; `double`: what is in double quotes, too,
    except for the commands in `$(...)` there."""

    def blank(found: re.Match[str]) -> str:
        part = found[0]
        if part[0] == '"' and not double:
            return part
        if part[0] == '"':
            inner = re.findall(r"\$\([^()]*(?:\([^()]*\)[^()]*)*\)", part)
            return '""' + " ".join(inner) + " " if inner else '""'
        return "''" if part[0] == "'" else " " if part[0] != "\\" else "x"

    return _QUOTED.sub(blank, text)
