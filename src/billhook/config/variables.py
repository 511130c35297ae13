"""`${tool}`, `${file_path}` and others: values of an event in texts, in arguments and in shell commands.

In a shell command they become quoted variables of its environment: a path with `; rm -rf ~` in it stays a path. Other
names in `${...}` are variables of the environment, which `layers.Values` replaces when a hook is built.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from billhook.config.conditions import OnPaths, agent_of, branches, result
from billhook.core import strictjson, tools
from billhook.core.hook import Context
from billhook.runners.command import CommandRunner

Named = tuple[str, str]  # the name in an environment, and the reference that it replaces
_LONGEST: Final = 10_000  # characters of a value for people or models


def _tool(ctx: Context) -> str:
    return tools.canonical(getattr(ctx.event, "tool_name", "") or "")


def _command(ctx: Context) -> str:
    return tools.command_of(_tool(ctx), getattr(ctx.event, "tool_input", None)) or ""


def _files(ctx: Context, paths: OnPaths | None) -> list[str]:
    """The files of a call, as the tool spells them. For a hook with `paths`, only those that it selects."""
    given = tools.paths_of(_tool(ctx), getattr(ctx.event, "tool_input", None))
    if paths is None:
        return list(given)
    spelt = {os.path.normpath(os.path.join(ctx.cwd, name)): name for name in given}
    return list(dict.fromkeys(spelt.get(path, path) for path in paths.selected(ctx)))


def _message(ctx: Context) -> str:
    """The text of a notification; if an agent stops, its last message."""
    event = ctx.event
    return str(getattr(event, "message", "") or getattr(event, "last_assistant_message", "") or "")


def _branch(ctx: Context) -> str:
    return next(iter(branches(ctx)), "")


def _reason(ctx: Context) -> str:
    """The event's reason, else the reason of the last earlier hook that gave one."""
    own = getattr(ctx.event, "reason", "") or ""
    given = [outcome.answer.reason or outcome.answer.stop_reason for outcome in ctx.results.values()]
    return str(own) or next(filter(None, reversed(given)), "")


VARIABLES: Final[Mapping[str, Callable[[Context], str]]] = {
    "tool": _tool,
    "command": _command,
    "message": _message,
    "branch": _branch,
    "reason": _reason,
    "prompt": lambda ctx: str(getattr(ctx.event, "prompt", "") or ""),
    "event": lambda ctx: ctx.event_type,
    "agent": agent_of,
    "session": lambda ctx: ctx.session_name or ctx.session_id,
    "cwd": lambda ctx: ctx.cwd,
    "project": lambda ctx: ctx.env.get("CLAUDE_PROJECT_DIR", ""),
}
_OF_LINES: Final = ("command", "message", "prompt", "reason")
FILES: Final[Mapping[str, Callable[[list[str]], str]]] = {
    "file_path": lambda files: "".join(files[:1]),
    "file_paths": "\n".join,
}
NAMES: Final = (*VARIABLES, *FILES)
_REFERENCE: Final = re.compile(rf"(\$?)\$\{{({'|'.join(NAMES)}|results\.[\w.-]+)(?::-([^}}]*))?\}}")


def used_in(text: str) -> bool:
    """Whether a string contains a variable of the event."""
    return "${" in text and _REFERENCE.search(text) is not None


def rendered(text: str, ctx: Context, paths: OnPaths | None = None) -> str:
    """Text for people and models with the event's values in it; `$${tool}` stays `${tool}`."""
    return _filled(text, lambda found: _shown(found, ctx, paths))


def argument(text: str, ctx: Context, paths: OnPaths | None = None) -> str:
    """The same for one argument of a program: values are not changed."""
    return _filled(text, lambda found: _value(found, ctx, paths))


def line(text: str, ctx: Context, paths: OnPaths | None = None) -> str:
    """The same for a shell line: every value is quoted, except `${command}`, which is a shell line itself."""

    def quoted(found: "re.Match[str]") -> str:
        if found[2] == "file_paths":
            return shlex.join(_files(ctx, paths))
        value = _value(found, ctx, paths)
        return value if found[2] == "command" else shlex.quote(value)

    return _filled(text, quoted)


class Fill(msgspec.Struct, frozen=True):
    """Puts the event's values into the arguments and variables of a command. `paths` are those of the hook."""

    paths: OnPaths | None

    def __call__(self, word: str, ctx: Context) -> list[str]:
        """One argument; for the word `${file_paths}`, one for each file."""
        return _files(ctx, self.paths) if word == ALL_FILES else [argument(word, ctx, self.paths)]


ALL_FILES: Final = "${file_paths}"


def _filled(text: str, value: Callable[["re.Match[str]"], str]) -> str:
    return _REFERENCE.sub(lambda found: found[0][1:] if found[1] else value(found), text)


def _shown(found: "re.Match[str]", ctx: Context, paths: OnPaths | None) -> str:
    """A value for people or models. A line break in a name must not look like another sentence."""
    if found[2] == "file_paths":
        return ", ".join(map(_in_one_line, _files(ctx, paths)))[:_LONGEST]
    value = _value(found, ctx, paths)[:_LONGEST]
    return value if found[2] in _OF_LINES else _in_one_line(value)


def _value(found: "re.Match[str]", ctx: Context, paths: OnPaths | None) -> str:
    _, name, default = found.groups()
    if name in FILES:
        value = FILES[name](_files(ctx, paths))
    else:
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
        quoted = quotes.at(found.start())
        if found[0] == ALL_FILES and shell != "powershell":
            name = "@"  # the positional parameters: each file stays one word
        pieces.append(_spelt(name, shell, quoted=quoted))
    return "".join((*pieces, text[at:])), tuple((name, reference) for reference, name in names.items())


def _spelt(name: str, shell: str, *, quoted: bool) -> str:
    if shell == "powershell":
        return f"${{env:{name}}}"
    return f"${{{name}}}" if quoted else f'"${{{name}}}"'


def with_values(runner: CommandRunner, text: str, names: tuple[Named, ...], paths: OnPaths | None) -> CommandRunner:
    """A shell command that gets the event's values as variables of its environment: never as text of the shell."""
    more = ("sh", ALL_FILES) if any(reference == ALL_FILES for _, reference in names) else ()
    argv, fill = (*runner.argv[:-1], text), Fill(paths) if names else None
    return msgspec.structs.replace(runner, argv=argv, variables=names, fill=fill, parameters=more)


class _Quotes:
    """Where a shell text is inside of quotes, read from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.open: list[str] = []
        self.lines = "<<" in text  # a here-document may begin, and quotes mean nothing there

    def at(self, place: int) -> bool:
        """Whether a place is quoted already; each place must be behind the one before."""
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
_BEFORE: Final = r"then|do|else|exec|sudo|nohup|env|nice|command|time|timeout\s+\S+"
_COMMAND: Final = rf"(?:^|[;&|({{`\n]|\b(?:{_BEFORE})\s)\s*(?:\w+=\S*\s+)*(?:/\S*/)?"
_NO_FILE: Final = r"""(?!\s+(?:--\s+)?["']?[\w.~$/{}"'-]*[./])"""  # what follows is not the file that a shell runs
_PROGRAMS: Final = "eval trap ssh su xargs parallel tmux screen watch flock script at batch awk gawk sed expect make"
_NESTED: Final = re.compile(
    rf"{_COMMAND}(?:(?:ba|da|z|k|a|c|tc|fi|mk|ya)?sh\b(?!\.){_NO_FILE}"
    r"|(?:python[\d.]*|perl|ruby|node|php|deno|bun|lua)\b(?:\s+-\w*[ceErp]\b|\s*$|\s*[|;&<]|\s+-(?:\s|$))"
    rf"|(?:{_PROGRAMS.replace(' ', '|')})\b)"
    r"|\balias\.|\$\{?\w+\}?\s+-\w*c\b|\bcore\.\w+="
)
_COPY: Final = re.compile(rf"""\b([A-Za-z_]\w*)=["']?\$\{{(?:{"|".join(NAMES)}|results\.)""")
_PIECE: Final = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|(;|&&|\|\||\n)|.""", re.S)


def nested(text: str) -> str:
    """The program that would run one of its arguments or its input as code, in a command with a value of an event: the
    value could become code. A shell or an interpreter that runs a file does not count."""
    copies = re.compile(rf"\$\{{?(?:{'|'.join(_COPY.findall(text)) or '(?!)'})\b")  # `X=${file_path}; sh -c "echo $X"`
    for command in [text] if "<<" in text else _commands(text):
        if (used_in(command) or copies.search(command)) and (found := _NESTED.search(command)):
            return found[0].strip(" ;&|({`\n")
    return ""


def _commands(text: str) -> Iterator[str]:
    """The pipelines of a shell command, split outside of quotes."""
    at = 0
    for found in _PIECE.finditer(text):
        if found[1]:
            yield text[at : found.start()]
            at = found.end()
    yield text[at:]
