"""`${tool}`, `${file_path}` and the like: what an event says, in texts, in arguments and in shell commands.

In a shell command they are variables of its environment, quoted where they stand: a path with `; rm -rf ~` in it stays
a path. Other names in `${...}` are variables of the environment, which `layers.Values` puts in when a hook is made.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from billhook.agents.child import fit
from billhook.config.conditions import agent_of, branches, result
from billhook.core import strictjson, tools
from billhook.core.hook import Context

Named = tuple[str, str]  # the name in an environment, and the reference that it stands for
_LONGEST: Final = 10_000  # characters of a value in a text


def _tool(ctx: Context) -> str:
    return tools.canonical(getattr(ctx.event, "tool_name", "") or "")


def _command(ctx: Context) -> str:
    return tools.command_of(_tool(ctx), getattr(ctx.event, "tool_input", None)) or ""


def _file_path(ctx: Context) -> str:
    return _in_one_line(tools.path_of(_tool(ctx), getattr(ctx.event, "tool_input", None)) or "")


def _message(ctx: Context) -> str:
    """What a notification says; of an agent that stops, its last words."""
    event = ctx.event
    return str(getattr(event, "message", "") or getattr(event, "last_assistant_message", "") or "")


def _branch(ctx: Context) -> str:
    return _in_one_line(next(iter(branches(ctx)), ""))


def _reason(ctx: Context) -> str:
    """The event's own reason, else that of the last hook before which gave one."""
    own = getattr(ctx.event, "reason", "") or ""
    given = [outcome.answer.reason or outcome.answer.stop_reason for outcome in ctx.results.values()]
    return str(own) or next(filter(None, reversed(given)), "")


VARIABLES: Final[Mapping[str, Callable[[Context], str]]] = {
    "tool": _tool,
    "command": _command,
    "file_path": _file_path,
    "message": _message,
    "branch": _branch,
    "reason": _reason,
    "prompt": lambda ctx: str(getattr(ctx.event, "prompt", "") or ""),
    "event": lambda ctx: ctx.event_type,
    "agent": agent_of,
    "session": lambda ctx: ctx.session_name or ctx.session_id,
    "cwd": lambda ctx: _in_one_line(ctx.cwd),
    "project": lambda ctx: _in_one_line(ctx.env.get("CLAUDE_PROJECT_DIR", "")),
}
_REFERENCE: Final = re.compile(rf"(\$?)\$\{{({'|'.join(VARIABLES)}|results\.[\w.-]+)(?::-([^}}]*))?\}}")


def used_in(text: str) -> bool:
    """Whether a text names something of an event."""
    return "${" in text and _REFERENCE.search(text) is not None


def rendered(text: str, ctx: Context) -> str:
    """A text with what the event says put in; `$${tool}` stays `${tool}`."""
    return _REFERENCE.sub(lambda found: found[0][1:] if found[1] else _value(found, ctx)[:_LONGEST], text)


def value_of(reference: str, ctx: Context) -> str:
    """The value of one `${...}`, as an environment takes it."""
    found = _REFERENCE.fullmatch(reference)
    return fit(_value(found, ctx))[0] if found is not None else ""


def _value(found: "re.Match[str]", ctx: Context) -> str:
    _, name, default = found.groups()
    value = VARIABLES[name](ctx) if name in VARIABLES else _text(result(name, ctx))
    return value or default or ""


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else strictjson.dumps(value)


def _in_one_line(text: str) -> str:
    """A name as one line: a line break in it must not look like another sentence."""
    return "".join(char if char.isprintable() else "?" for char in text)


# -- in a shell command


def for_shell(text: str, shell: str) -> tuple[str, tuple[Named, ...]]:
    """A command with each reference as a variable of the environment, and these variables."""
    names: dict[str, str] = {}
    pieces, at, quotes = [], 0, _Quotes(text)
    for found in _REFERENCE.finditer(text):
        pieces.append(text[at : found.start()])
        at = found.end()
        if found[1]:
            pieces.append(found[0][1:])
            continue
        name = names.setdefault(found[0], f"BILLHOOK_{re.sub('[^A-Z0-9]', '_', found[2].upper())}")
        pieces.append(_spelt(name, shell, quoted=quotes.at(found.start())))
    return "".join((*pieces, text[at:])), tuple((name, reference) for reference, name in names.items())


def _spelt(name: str, shell: str, *, quoted: bool) -> str:
    if shell == "powershell":
        return f"${{env:{name}}}"
    return f"${{{name}}}" if quoted else f'"${{{name}}}"'


class _Quotes:
    """Where a shell text is inside of quotes, read from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.open: list[str] = []
        self.lines = "<<" in text  # a here-document may begin, and quotes mean nothing there

    def at(self, place: int) -> bool:
        """Whether a place is quoted already; each place asked for lies behind the one before."""
        while self.place < place:
            if self.text[self.place] == "\\" and self.open[-1:] != ["'"]:
                self.place += 2
                continue
            self.place += 1
            self._pass(self.text[self.place - 1])
        return self.lines or self.open[-1:] in (["'"], ['"'])

    def _pass(self, char: str) -> None:
        inner = self.open[-1] if self.open else ""
        if inner == char or (char == ")" and inner == "("):
            self.open.pop()
        elif char in _OPENING.get(inner, "'\"("):
            self.open.append(char)


_OPENING: Final = {"'": "", '"': "("}
"""What begins inside of quotes: in double ones a substitution, in single ones nothing."""
NESTED: Final = re.compile(
    r"\b(?:ba|da|z|k|a)?sh\s+-\w*c\b|\b(?:eval|ssh|su|xargs)\b|\bpython[\d.]*\s+-c\b|\b(?:node|perl|ruby)\s+-e\b"
)
"""What reads one of its arguments as a program: a value that is put there could become code."""
