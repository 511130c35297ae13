"""Actions without a program: fixed answers, texts from a file or a command, rewritten inputs and masked outputs."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from billhook.builtins.session_notes import prompts_in
from billhook.config import variables
from billhook.config.conditions import OnPaths, paths_of
from billhook.config.declaration import Declared, Mask, Rewrite, Say
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


def handler(declared: Declared, state: FileState) -> Handler:
    """The handler of an action."""
    action = declared.action
    if isinstance(action, Rewrite):
        runs = dict(declared.conditions.when).get("runs", ())
        return Rewriting(action.fields, action.programs, runs, paths_of(declared))
    if isinstance(action, Mask):
        return Masking(action.patterns, state.root)
    assert isinstance(action, Say)
    made: Handler = _answering(action, declared)
    return Persistent(made, f"{declared.name} {declared.file}", action.limit, state) if action.limit else made


def _answering(action: Say, declared: Declared) -> Handler:
    paths = paths_of(declared)
    if action.file:
        return FileContent(os.path.join(declared.folder, os.path.expanduser(action.file)))
    if action.command:
        text, names = variables.for_shell(action.command, "")
        runner = command(text, dialect="claude", cwd=declared.folder)
        runner = variables.with_values(runner, text, names, paths)
        return CommandOutput(runner, action.decision, action.text, paths)
    if variables.used_in(action.text):
        return Spoken(action.decision, action.text, paths)
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


class Spoken(msgspec.Struct, frozen=True):
    """An answer whose text depends on the event."""

    decision: str
    text: str
    paths: OnPaths | None = None

    def __call__(self, ctx: Context) -> Answer:
        return _answer(self.decision, variables.rendered(self.text, ctx, self.paths))


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
        request = variables.rendered(self.text, ctx, self.paths) or "This must pass before you stop:"
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
        key, counted = f"{self.hook} kept going", list[int]()

        def change(record: Value | None) -> Value:
            prompt, last = prompts_in(record), (record or {}).get(key)
            before = last["times"] if isinstance(last, dict) and last.get("prompt") == prompt else 0
            counted.append(before + 1)
            return {**(record or {}), key: {"prompt": prompt, "times": before + 1}}

        self.state.update("runs", ctx.session_id or "no session", change)
        return counted[0]


class Rewriting(msgspec.Struct, frozen=True):
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
            programs = tuple((old, variables.line(by, ctx, self.paths)) for old, by in self.programs)
            new["command"] = with_programs(line, programs, self.runs)
        return rewrite(input=new) if new != given else NOTHING

    def _value(self, name: str, value: Any, ctx: Context) -> Any:
        """A new value. In a shell command, values of the event are quoted and stay one word."""
        if not isinstance(value, str):
            return value
        filled = variables.line if name == "command" else variables.argument
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


class Masking(msgspec.Struct, frozen=True):
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
        return _each_text(value, self._text)

    def _text(self, text: str) -> str:
        for pattern in self.patterns:
            text = text if pattern == _SECRETS else expression(pattern).sub(_MASK, text)
        return text


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _each_text(one, change) for key, one in value.items()}
    return [_each_text(one, change) for one in value] if isinstance(value, list) else value


__all__ = ["CommandOutput", "FileContent", "Masking", "Persistent", "Rewriting", "Spoken", "handler"]
