"""Actions without a program (fixed answers, texts from a file or a command, rewritten inputs, masked outputs), and the
values of an event in them and in commands: `${tool}`, `${file_path}` and others.

In a shell command these become quoted variables of its environment: a path with `; rm -rf ~` in it stays a path. Other
names in `${...}` are variables of the environment, which `layers.Values` replaces when a hook is built.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from billhook.config.build import OnPaths, agent_of, branches, paths_of, result
from billhook.config.declaration import FixedAnswer, HookDeclaration, Mask, Rewrite
from billhook.core import strictjson, tools
from billhook.core.answers import NOTHING, Answer, Decision, Exit, Reply, Status, keep_going, notify, rewrite, stop
from billhook.core.hook import Context, Handler
from billhook.core.match import expression
from billhook.effects.effect import Command
from billhook.runners.command import CommandRunner, command, literal
from billhook.store.state import FileState, Value

if TYPE_CHECKING:
    from billhook.effects.script import ScriptCommand

LARGEST_FILE: Final = 64 << 10  # bytes of a file, and of a command's output, that the model is told
_SECRETS: Final = "secrets"  # `mask: secrets`: everything that the event log redacts
_MASK: Final = "***"


def handler(declared: HookDeclaration, state: FileState) -> Handler:
    """The handler of an action."""
    action = declared.action
    if isinstance(action, Rewrite):
        runs = dict(declared.conditions.when).get("runs", ())
        return InputRewrite(action.fields, action.programs, runs, paths_of(declared))
    if isinstance(action, Mask):
        return OutputMask(action.patterns, state.root)
    assert isinstance(action, FixedAnswer)
    made: Handler = _answering(action, declared)
    return Persistent(made, f"{declared.name} {declared.file}", action.limit, state) if action.limit else made


def _answering(action: FixedAnswer, declared: HookDeclaration) -> Handler:
    paths = paths_of(declared)
    if action.file:
        return FileContent(os.path.join(declared.folder, os.path.expanduser(action.file)))
    if action.command:
        text, names = for_shell(action.command, "")
        runner = command(text, dialect="claude", cwd=declared.folder)
        runner = with_values(runner, text, names, paths)
        return CommandOutput(runner, action.decision, action.text, paths)
    if used_in(action.text):
        return TemplateAnswer(action.decision, action.text, paths)
    return literal(_answer(action.decision, action.text))


def _answer(decision: str, text: str) -> Answer:
    make = _MAKERS.get(decision)
    return make(text) if make is not None else Answer(decision=Decision(decision), reason=text)


_MAKERS: Final[dict[str, Callable[[str], Answer]]] = {
    "inject": lambda text: Answer(context=text),
    "notify": notify,
    "keep_going": keep_going,
    "stop": stop,
}


class TemplateAnswer(msgspec.Struct, frozen=True):
    """An answer whose text depends on the event."""

    decision: str
    text: str
    paths: OnPaths | None = None

    def __call__(self, ctx: Context) -> Answer:
        return _answer(self.decision, rendered(self.text, ctx, self.paths))


class FileContent(msgspec.Struct, frozen=True):
    """Gives the model the current content of a file."""

    path: str

    def __call__(self, ctx: Context) -> Reply:
        try:
            with open(self.path, "rb") as file:
                text = file.read(LARGEST_FILE + 1).decode("utf-8", "replace")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", "") or str(error)
            return Reply(status=Status.FAILED, error=f"{self.path} can't be read: {why.lower()}")
        return Reply(answer=Answer(context=_cut(text)))


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= LARGEST_FILE else f"{text[:LARGEST_FILE]}\n[cut here: it is longer]"


class CommandOutput(msgspec.Struct, frozen=True):
    """Runs a command. `inject` gives its output to the model; `keep_going` keeps the agent going if it fails."""

    runner: CommandRunner
    decision: str
    text: str = ""
    paths: OnPaths | None = None
    keeps_time: ClassVar[bool] = True

    async def __call__(self, ctx: Context) -> Reply:
        return await self.runner.ended(ctx, self._read)

    def _read(self, ended: Exit, ctx: Context) -> Reply | None:
        """The answer of a command that ended by itself; None: it failed, with the usual error."""
        printed = "\n".join(filter(None, (ended.stdout_text.strip(), ended.stderr_text.strip())))
        if self.decision == "inject":
            return Reply(answer=Answer(context=_cut(ended.stdout_text))) if ended.code == 0 else None
        if ended.code == 0:
            return Reply(exit_code=0)
        if ended.code is None or ended.code in (126, 127):  # killed, timed out or not started: not a result
            return None
        request = rendered(self.text, ctx, self.paths) or "This must pass before you stop:"
        return Reply(answer=keep_going(f"{request}\n{_tail(printed)}".strip()), exit_code=ended.code)


_LONGEST_TAIL: Final = 4_000


def _tail(text: str) -> str:
    """The end of an output, where test runners print the failures."""
    return text if len(text) <= _LONGEST_TAIL else f"[...]{text[-_LONGEST_TAIL:]}"


class Persistent(msgspec.Struct, frozen=True):
    """Keeps an agent going, but not forever: after `limit` times since the last prompt it may stop, and the user is
    told. Counted since the prompt, because a turn ends whenever the agent tries to stop."""

    run: Handler
    hook: str
    limit: int
    state: FileState
    keeps_time: ClassVar[bool] = True

    async def __call__(self, ctx: Context) -> Any:
        reply: Any = self.run(ctx)
        reply = await reply if hasattr(reply, "__await__") else reply
        answer = reply.answer if isinstance(reply, Reply) else reply
        if not answer.keep_going:
            return reply
        times = self._times(ctx)
        if times <= self.limit:
            return reply
        told = f"stopped after {self.limit} attempts; still open: {answer.reason}"
        return Reply(answer=notify(told))

    def _times(self, ctx: Context) -> int:
        """How often it has kept the agent going since the last prompt, this time included."""
        from billhook.builtins.session_notes import prompts_in

        key, counted = f"{self.hook} kept going", list[int]()

        def change(record: Value | None) -> Value:
            prompt, last = prompts_in(record), (record or {}).get(key)
            before = last["times"] if isinstance(last, dict) and last.get("prompt") == prompt else 0
            counted.append(before + 1)
            return {**(record or {}), key: {"prompt": prompt, "times": before + 1}}

        self.state.update("runs", ctx.session_id or "no session", change)
        return counted[0]


class InputRewrite(msgspec.Struct, frozen=True):
    """Changes the tool's input: new values of fields, other programs in a shell command."""

    fields: tuple[tuple[str, Any], ...]
    programs: tuple[tuple[str, str], ...]
    runs: tuple[str, ...] = ()  # patterns of `when: {runs: ...}`: only such commands are rewritten
    paths: OnPaths | None = None

    def __call__(self, ctx: Context) -> Answer:
        given = getattr(ctx.event, "tool_input", None)
        if not isinstance(given, dict):
            return NOTHING
        new = given | {name: self._value(name, value, ctx) for name, value in self.fields}
        line = new.get("command")
        if self.programs and isinstance(line, str):
            programs = tuple((old, shell_line(by, ctx, self.paths)) for old, by in self.programs)
            new["command"] = with_programs(line, programs, self.runs)
        return rewrite(input=new) if new != given else NOTHING

    def _value(self, name: str, value: Any, ctx: Context) -> Any:
        """A new value. In a shell command, values of the event are quoted and stay one word."""
        if not isinstance(value, str):
            return value
        filled = shell_line if name == "command" else argument
        return filled(value, ctx, self.paths)


def with_programs(line: str, programs: tuple[tuple[str, str], ...], runs: tuple[str, ...] = ()) -> str:
    """A shell line in which commands that begin with these words begin with others: those that `runs` names, where it
    does, also behind `time`, `env` and the like. Text in quotes stays."""
    from billhook.effects import script

    pieces, at, seen = [], 0, 0
    for found in script.read(line).commands:
        place = line.find(found.text, seen) if found.text else -1
        if place < 0:
            continue
        seen = place + len(found.text)  # text in quotes there is not a command
        for old, new in programs:
            if begins := _beginning(found, old.split(), runs):
                pieces += [line[at : place + begins.start(1)], new]
                at = place + begins.end()
                break
    return "".join((*pieces, line[at:]))


def _beginning(command: "ScriptCommand", old: list[str], runs: tuple[str, ...]) -> "re.Match[str] | None":
    """Where in a command's text these words begin it; None where they don't, or not as they are written."""
    from billhook.effects import call_patterns

    for at in _starts(command.words):
        words = command.words[at : at + len(old)]
        if not words or [_SYSTEM.sub("", words[0]), *words[1:]] != old:
            continue
        inner = 2 if words[1:2] == ("-m",) else 0  # `python -m pip` runs pip
        name, *arguments = (_SYSTEM.sub("", command.words[at + inner]), *command.words[at + inner + 1 :])
        if not runs or call_patterns.selects_command(runs, Command(name, tuple(arguments))):
            before = "".join(rf"{re.escape(word)}\s+" for word in command.words[:at])
            begin = r"\s+".join(map(re.escape, words))
            return re.match(rf"{_ASSIGNED}{before}({begin})(?=\s|$)", command.text)
    return None


_ASSIGNED: Final = r"""(?:\w+=(?:'[^']*'|"[^"]*"|[^\s'"])*\s+)*"""
_SYSTEM: Final = re.compile(r"^/(?:usr/(?:local/)?)?bin/")


def _starts(words: tuple[str, ...]) -> Iterator[int]:
    """Where in its words a command begins: the first, and that behind each wrapper which changes nothing for it."""
    from billhook.effects.programs import TRANSPARENT, WRAPPERS, Prefix, program

    at = 0
    while words[at:]:
        yield at
        if program(words[at:]) not in (*TRANSPARENT, "env", "exec", "setsid", "xargs"):
            return
        prefix = Prefix(words[at:], WRAPPERS[program(words[at:])])
        at += len(words) if prefix.ending or prefix.doubtful else prefix.at


class OutputMask(msgspec.Struct, frozen=True):
    """Masks what the expressions match, in all strings of an output."""

    patterns: tuple[str, ...]
    root: Path

    def __call__(self, ctx: Context) -> Answer:
        output = getattr(ctx.event, "tool_response", None)
        masked = self._masked(output)
        return rewrite(output=masked) if masked != output else NOTHING

    def _masked(self, value: Any) -> Any:
        if _SECRETS in self.patterns:
            from billhook.store.redaction import redactor

            value = redactor(self.root).value(value)
        return each_text(value, self._text)

    def _text(self, text: str) -> str:
        for pattern in self.patterns:
            text = text if pattern == _SECRETS else expression(pattern).sub(_MASK, text)
        return text


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """A value with every string in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: each_text(one, change) for key, one in value.items()}
    return [each_text(one, change) for one in value] if isinstance(value, list) else value


# -- values of an event


Named = tuple[str, str]  # the name in an environment, and the reference that it replaces
_LONGEST: Final = 10_000  # characters of a value for people or models


def _tool(ctx: Context) -> str:
    return tools.canonical(getattr(ctx.event, "tool_name", "") or "")


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


def _reason(ctx: Context) -> str:
    """The event's reason, else the reason of the last earlier hook that gave one."""
    own = getattr(ctx.event, "reason", "") or ""
    given = [outcome.answer.reason or outcome.answer.stop_reason for outcome in ctx.results.values()]
    return str(own) or next(filter(None, reversed(given)), "")


VARIABLES: Final[Mapping[str, Callable[[Context], str]]] = {
    "tool": _tool,
    "command": lambda ctx: tools.command_of(_tool(ctx), getattr(ctx.event, "tool_input", None)) or "",
    "message": _message,
    "branch": lambda ctx: next(iter(branches(ctx)), ""),
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


def shell_line(text: str, ctx: Context, paths: OnPaths | None = None) -> str:
    """The same for a shell line: every value is quoted, except `${command}`, which is a shell line itself."""

    def quoted(found: "re.Match[str]") -> str:
        if found[2] == "file_paths":
            return shlex.join(_files(ctx, paths))
        value = _value(found, ctx, paths)
        return value if found[2] == "command" else shlex.quote(value)

    return _filled(text, quoted)


class EventValues(msgspec.Struct, frozen=True):
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
    if found[2] in FILES:
        files = _files(ctx, paths)[: 1 if found[2] == "file_path" else None]
        return ", ".join(_in_one_line(_in_project(file, ctx)) for file in files)[:_LONGEST] or found[3] or ""
    value = _value(found, ctx, paths)[:_LONGEST]
    return value if found[2] in _OF_LINES else _in_one_line(value)


def _in_project(path: str, ctx: Context) -> str:
    """A path below the project, relative to it."""
    root = VARIABLES["project"](ctx)
    return path.removeprefix(f"{root}/") if root else path


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
    argv, fill = (*runner.argv[:-1], text), EventValues(paths) if names else None
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
    for part in [text] if "<<" in text else _commands(text):
        if (used_in(part) or copies.search(part)) and (found := _NESTED.search(part)):
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
