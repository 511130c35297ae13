"""An abstract interpreter of shell lines: follows variables, folders, functions, loops, pipes and wrappers.

It runs nothing. It visits every command that the line would run, branches included, with its words expanded as far as
the line shows their values. The rest is UNKNOWN inside a word, and what depends on it is not certain. Steps and depth
are bounded: what is beyond them makes `complete` false.

`words.py` expands words, `execution.py` visits what a command runs in its turn, `outputs.py` knows what it prints, and
`line_changes.py` what it changes for the commands after it.
"""

import posixpath
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from billhook.effects import script, shell
from billhook.effects.effect import UNKNOWN, Command, Effect, Kind, Scope, Weight
from billhook.effects.execution import note_computed, run_inner
from billhook.effects.families import effects_of_command
from billhook.effects.families.reading import READS
from billhook.effects.line_changes import (
    DECLARES,
    LineFiles,
    after_saving,
    builtin_of,
    note_alias,
    note_made,
    note_saved,
)
from billhook.effects.outputs import output, prints_input, prints_secret
from billhook.effects.places import NO_FILES, World
from billhook.effects.programs import SHELLS, WRAPPERS, program
from billhook.effects.run import (
    EMPTY,
    MOST_FIELDS,
    NOTHING,
    UNKNOWN_VALUE,
    Node,
    Redirections,
    Run,
    ScriptBlock,
    State,
    Value,
    joined,
    pipelines,
    starts_forever,
    structured,
)
from billhook.effects.script import RawWord, ScriptCommand, ScriptRedirect
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import Call, word_set
from billhook.effects.words import MOST_DEPTH, assign, assignment, fields, is_array, text

MOST_STEPS: Final = 5_000  # a command that is visited is 1 to 5, and each of its effects is 1; loops are unrolled
MOST_TOKENS: Final = 10_000  # of all texts together
MOST_FILE_STEPS: Final = 5_000  # more of them for texts from files
MOST_FILE_TOKENS: Final = 24_000
MOST_SHOWN: Final = 8  # commands of a pipeline that are shown
MOST_REDIRECTIONS: Final = 256  # of one command that are different
MOST_WORDS: Final = 1_024  # of one command that are different
_PRINT_ONLY: Final = word_set(": [ break continue date echo exit false ls return sleep test true wait whoami")
"""Commands that run nothing else, and change nothing: most lines of long scripts are such."""
_TCP: Final = ("/dev/tcp/", "/dev/udp/")
_NOWHERE: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/stdin", "-"})
_CONNECTIONS: Final = frozenset({"nc", "ncat", "netcat", "telnet", "socat", "openssl"})
_ELSEWHERE: Final = World("/home/remote", "/home/remote", ("/home/remote",), fs=NO_FILES)
_ENDLESS: Final = {
    "while": word_set("true : /bin/true /usr/bin/true [ 1 true ]"),
    "until": word_set("false /bin/false /usr/bin/false"),
}
"""The words of conditions that always, or never, hold."""
_TOO_DEEP: Final = "it is too deeply nested to be read"

Stage = ScriptCommand | ScriptBlock


class Interpreter:
    """One line: the commands that it would run, and their effects."""

    def __init__(self, world: World) -> None:
        self.files = LineFiles(world.fs)
        self.world = msgspec.structs.replace(world, fs=self.files.overlay)
        self.scopes: dict[str, Scope] = world.scopes
        self.commands: list[Command] = []
        self.effects: list[Effect] = []
        self.code: list[str] = []  # programs in other languages that were not understood as a whole
        self.texts: list[str] = []  # every text that was read as a script
        self.complete = True
        self.why = ""  # it is not complete
        self.steps, self.tokens = MOST_STEPS, MOST_TOKENS
        self.file_steps, self.file_tokens = MOST_FILE_STEPS, MOST_FILE_TOKENS
        self.ended = ""  # why the rest is not visited at all
        self.calls: list[ScriptBlock] = []  # the functions that are being called

    def run_line(self, line: str, cwd: str, via: tuple[str, ...] = ()) -> None:
        """Visit the commands of a line that a new shell runs."""
        self.run_text(line, Run(self, State(cwd), via))

    def run_elsewhere(self, line: str, run: Run) -> None:
        """Visit the commands of a line that another machine runs: its files are not known."""
        there = Interpreter(_ELSEWHERE)
        there.steps, there.tokens = self.steps, self.tokens
        inner = run.inside("ssh", fed=run.fed, state=State(_ELSEWHERE.cwd))
        inner.interpreter = there
        there.run_text(line, inner)
        self.steps, self.tokens = there.steps, there.tokens
        self.commands += there.commands
        if there.ended:
            self.end(there.ended)
        for effect in there.effects:
            scope: Scope = "remote" if effect.scope in ("project", "home", "unknown") else effect.scope
            self.effects.append(msgspec.structs.replace(effect, scope=scope))

    # results

    def give_up(self, why: str) -> Value:
        """A part can't be read."""
        self.complete, self.why = False, self.why or why
        return UNKNOWN_VALUE

    def end(self, why: str) -> Value:
        """The budget ended: what is left may do anything, wherever it is from."""
        self.ended = self.ended or why
        return self.give_up(why)

    def read_more(self, text: str) -> None:
        """Add the text of a file to the budget, which limits all files together."""
        steps, tokens = min(len(text) // 8, self.file_steps), min(len(text) // 2, self.file_tokens)
        self.steps, self.tokens = self.steps + steps, self.tokens + tokens
        self.file_steps, self.file_tokens = self.file_steps - steps, self.file_tokens - tokens

    @contextmanager
    def certain_only(self) -> Iterator[None]:
        """For texts from files: what depends on values that they get elsewhere is left out."""
        outer = self.effects, self.complete, self.why
        self.effects = []
        yield
        found, (self.effects, self.complete, self.why) = self.effects, outer
        self.effects += [effect for effect in found if effect.certain]
        if self.ended:
            self.give_up(self.ended)

    def call(self, command: Command) -> Call:
        """A command as the tables take it."""
        return Call(command, self.world, self.scopes, NOTHING)

    def add(
        self,
        command: Command,
        kind: Kind,
        target: str,
        *,
        scope: Scope = "unknown",
        weight: Weight = "normal",
        certain: bool = True,
        why: str = "",
    ) -> None:
        """Add an effect of a command."""
        found = self.call(command).effect(kind, target, scope=scope, weight=weight, certain=certain, why=why)
        self.effects.append(found)

    def _record(self, command: Command) -> None:
        if command.shown and command.name in READS and "secret" in command.origins:
            files = [origin.partition(":")[2] for origin in sorted(command.origins) if ":" in origin]
            self.add(command, "read-secret", " ".join(filter(is_secret_file, files)) or " ".join(command.args))
        elif command.shown and prints_secret(command.words):
            self.add(command, "read-secret", " ".join(command.words))
        if command.name:
            self.commands.append(command)
            found = effects_of_command(command, self.world, self.scopes)
            self.steps -= len(found)
            self.effects += found
        for path in (*command.writes, *command.appends):
            self._record_write(path, command)
        for path in command.reads:
            self._record_read(path, command)

    def _record_read(self, path: str, command: Command) -> None:
        if path.startswith(_TCP):
            self.add(command, "remote-shell", command.text, scope="remote")
        elif path not in _NOWHERE and not path.startswith("/dev/fd/"):
            self.effects += self.call(command).on_path("read", path)

    def _record_write(self, path: str, command: Command) -> None:
        if path.startswith(_TCP) and _is_shell(command):
            self.add(command, "remote-shell", path, scope="remote")
        elif path.startswith(_TCP):
            secret = "secret" in command.origins | command.fed or any(map(is_secret_file, command.args))
            self.add(command, "upload", path, scope="remote", weight="heavy" if secret else "light")
        elif path not in _NOWHERE and not path.startswith("/dev/fd/"):
            call = self.call(command)
            truncates = path in command.writes and self.world.fs.kind(call.paths(path)[0]) == "file"
            self.effects += call.on_path("overwrite" if truncates else "write", path)

    # texts and pipelines

    def run_text(self, line: str, run: Run) -> Value:
        """Visit the commands of some text; returns what they print."""
        if self.tokens <= 0 or run.depth > MOST_DEPTH:
            return self.end("it is too long or too deeply nested to be read")
        parsed = script.read(line, self.tokens)
        self.tokens -= parsed.steps
        self.texts.append(line)
        if self.tokens <= 0:
            self.end("it is too long to be read")
        self.complete = self.complete and parsed.complete
        return self.run_nodes(structured(parsed.items), run)

    def run_nodes(self, nodes: Sequence[Node], run: Run) -> Value:
        """Visit a list of commands; what they print."""
        printed: list[Value] = []
        state = run.state
        elsewhere: tuple[str, ...] = ()
        for stages, separator in pipelines(nodes):
            if self.steps <= 0:
                return self.end("it has too many commands")
            run.background = separator == "&" or run.background
            printed.append(self._pipeline(stages, run))
            if separator == "&&":  # what follows runs only where a `cd` was successful
                elsewhere, state.folders = state.folders or elsewhere, ()
            else:
                elsewhere, state.folders = (), state.folders or elsewhere
                state.saved, state.staged_all = NOTHING, False
        return joined(printed)

    def _pipeline(self, stages: list[Stage], run: Run) -> Value:
        if len(stages) == 1:
            return self._stage(stages[0], run)
        self._connected_shell(stages, run)
        fed = run.fed
        whole = " | ".join(stage.text for stage in stages[:MOST_SHOWN] if isinstance(stage, ScriptCommand))
        for stage, shown in zip(stages[:MOST_STEPS], _shown(stages, run.shown), strict=False):
            if self.steps <= 0:
                return self.end("it has too many commands")
            inner = run.inside(fed=fed, shown=shown, state=run.state.copy())
            inner.pipeline = whole
            fed = self._stage(stage, inner)
        return fed or EMPTY

    def _connected_shell(self, stages: list[Stage], run: Run) -> None:
        """A shell and a connection in one pipeline."""
        commands = (stage.words for stage in stages if isinstance(stage, ScriptCommand) and stage.words)
        names = {program(words) for words in commands if words[0] != "openssl" or words[1:2] == ("s_client",)}
        if names & SHELLS and names & _CONNECTIONS:
            whole = Command("|".join(sorted(names)), cwd=run.state.cwd, via=run.via, text="a shell and a connection")
            self.add(whole, "remote-shell", "", scope="remote")

    def _stage(self, stage: Stage, run: Run) -> Value:
        self.steps -= 1
        return self._command(stage, run) if isinstance(stage, ScriptCommand) else self._block(stage, run)

    # compound commands

    def _block(self, block: ScriptBlock, run: Run) -> Value:
        if run.depth > MOST_DEPTH:
            return self.end(_TOO_DEEP)
        if block.kind == "function":
            run.state.functions[block.name] = block
            return EMPTY
        inner = run.inside(fed=run.fed)
        streams = self._redirections(block.redirects, inner)
        if block.redirects:
            inner.fed = streams.stdin if streams.stdin is not None else inner.fed
            inner.shown = inner.shown and not streams.hides
            self._record_streams(streams, "", run)
        if inner.fed is not None:
            inner.state.input = inner.state.source = inner.fed
            inner.fed = None if block.kind in ("while", "until") else inner.fed  # `read` takes it line by line
        if block.kind == "(":
            inner.state = inner.state.copy()
        return self._written(streams, self._rounds(block, inner), run)

    def _rounds(self, block: ScriptBlock, run: Run) -> Value:
        """The commands of a block, once for each value of a loop."""
        nodes, state = block.nodes, run.state
        if block.kind in _ENDLESS and starts_forever(nodes, _ENDLESS[block.kind]):
            self._bomb("a loop that starts commands in the background without end", run)
        if block.kind == "words":
            self._listed(block, run)  # for what they run
            return EMPTY
        if block.kind == "for" and block.head is not None:
            printed = []
            for value in self._listed(block, run):
                state.variables[block.name] = value
                printed.append(self.run_nodes(nodes, run))
            return joined(printed)
        times = 1
        if block.kind in ("while", "until") and state.input is not None:
            state.input = self.files.contents(state.input)
            times = len(state.input.text.splitlines()) if state.input.known else 1
        return joined([self.run_nodes(nodes, run) for _ in range(min(MOST_FIELDS, max(1, times)))])

    def _listed(self, block: ScriptBlock, run: Run) -> list[Value]:
        """The values of a `for` loop, within bounds: one unknown value represents the remaining ones."""
        listed = block.head.words if block.head is not None else None
        if listed is None:
            return run.state.given[:MOST_FIELDS] or [UNKNOWN_VALUE]
        each = [value for raw in listed for value in fields(raw, run)]
        return each if len(each) <= MOST_FIELDS else [*each[:MOST_FIELDS], UNKNOWN_VALUE]

    def _function(self, name: str, given: list[Value], run: Run) -> Value:
        block, state = run.state.functions[name], run.state
        if any(block is each for each in self.calls):
            if run.background or run.fed is not None:
                self._bomb(f"{name}() calls itself", run)
            return UNKNOWN_VALUE
        self.calls.append(block)
        before, state.arguments = (state.arguments, state.locals, state.variables.copy()), given
        state.locals = set()
        printed = self.run_nodes(block.body, run.inside(fed=run.fed))
        own = {name: before[2].get(name, EMPTY) for name in state.locals}
        state.arguments, state.locals = before[:2]
        state.variables |= own
        self.calls.pop()
        return printed

    def _bomb(self, cause: str, run: Run) -> None:
        command = Command("fork bomb", cwd=run.state.cwd, via=run.via, text=cause)
        self.add(command, "kill", "every process: a fork bomb", weight="heavy")

    # simple commands

    def _command(self, command: ScriptCommand, run: Run) -> Value:
        assignments = [assignment(raw, run) for raw in command.raw_assignments]
        given = command.raw if len(command.raw) <= MOST_WORDS else _different(command.raw)
        words = [field for raw in given for field in fields(raw, run)]
        for raw in given:
            if is_array(raw):  # `declare -a x=(...)`
                assign(run.state, *assignment(raw, run))
        streams = self._redirections(command.redirects, run)
        if not words:
            return self._assignments(assignments, streams, command.text, run)
        inner = run.inside(
            fed=streams.stdin if streams.stdin is not None else run.fed, shown=run.shown and not streams.hides
        )
        inner.depth = run.depth
        set_here = tuple(f"{name}={value.text}" for name, value in assignments if isinstance(value, Value))
        printed = self.run_words(words, inner, streams, set_here, command.text)
        return self._written(streams, printed, run)

    def _assignments(
        self, assignments: list[tuple[str, Value | list[Value]]], streams: Redirections, line: str, run: Run
    ) -> Value:
        """A command without words: variables of this shell, redirections alone, or `$(< file)`."""
        for name, value in assignments:
            assign(run.state, name, value)
        self._record_streams(streams, line, run)
        if assignments:
            return joined([value for _, value in assignments if isinstance(value, Value) and value.origins])
        return streams.stdin or EMPTY

    def run_words(
        self,
        words: list[Value],
        run: Run,
        streams: Redirections | None = None,
        assignments: tuple[str, ...] = (),
        line: str = "",
    ) -> Value:
        """Visit one command whose words are known; what it prints."""
        self.steps -= 1
        if run.depth > MOST_DEPTH or self.steps <= 0:
            return self.end("it has too many commands" if self.steps <= 0 else _TOO_DEEP)
        if not words:
            return EMPTY
        first = words[0].text
        if len(words) > MOST_WORDS:
            words = words[:MOST_WORDS]
            # these do nothing to what their words name, however many there are
            if first not in _PRINT_ONLY and (first != "git" or words[1].text != "add"):
                self.end("it has too many words")
        if first in run.state.aliases and not run.only_programs:
            return self._aliased(words, run)
        if first in run.state.functions and not run.only_programs:
            return self._function(first, words[1:], run)
        if alias := run.state.aliases.get(" ".join(word.text for word in words[:2])) if first == "git" else None:
            words = [words[0], Value("-c"), Value(f"alias.{words[1].text}={alias}"), *words[1:]]
        command = self._expanded(words, run, streams, assignments, line)
        before = len(self.effects)
        self._record(command)
        if run.state.saved:
            self.effects[before:] = [after_saving(effect, run) for effect in self.effects[before:]]
        if command.name == "git":
            note_saved(command, run)
            note_alias(command, run)
        if builtin := builtin_of(command.name, command.words):
            builtin(words, run)
            if command.name in DECLARES:
                self._run_values(command, run)
            return EMPTY
        if first in _PRINT_ONLY:
            return self._printed(command, run)
        self.steps -= 3
        note_computed(command, words[0], run)
        printed = run_inner(command, words, run)
        return self._printed(command, run) if printed is None else printed

    def _expanded(
        self, words: list[Value], run: Run, streams: Redirections | None, assignments: tuple[str, ...], line: str
    ) -> Command:
        first, *args = [word.text for word in words]
        first = self.files.copied(run.path(first)) or first if "/" in first else first
        name = program((first,)) or first
        origins = NOTHING.union(*(word.origins for word in words[1:]))
        files, fed, state = streams or Redirections(), run.fed, run.state
        return Command(
            name if UNKNOWN not in name else UNKNOWN,
            tuple(args),
            state.cwd,
            run.via,
            line or " ".join((first, *args)),
            first,
            assignments,
            tuple(files.reads),
            tuple(files.writes),
            tuple(files.appends),
            fed.text if fed is not None and fed.known else None,
            origins | self.files.named_origins(args, run),
            fed.origins if fed is not None else NOTHING,
            fed is not None,
            run.shown,
            state.folders,
        )

    def _aliased(self, words: list[Value], run: Run) -> Value:
        """The text of an alias in place of its name; inside that text the name is a plain word."""
        name, *rest = [word.text for word in words]
        state = run.state.copy()
        line = " ".join((state.aliases.pop(name), *(word if UNKNOWN in word else shlex.quote(word) for word in rest)))
        return self.run_text(line, run.inside(state=state))

    def _run_values(self, command: Command, run: Run) -> None:
        """`export EDITOR='...'`: values that other programs run."""
        for line in shell.unwrapped(ScriptCommand(command.words)).texts:
            self.run_text(line, run.inside(command.name, state=run.state.copy()))

    def _printed(self, command: Command, run: Run) -> Value:
        printed = output(command, run.fed or EMPTY, run)
        note_made(command, printed, run)
        return printed

    # redirections

    def _redirections(self, redirects: Sequence[ScriptRedirect], run: Run) -> Redirections:
        found = Redirections()
        for redirect in redirects if len(redirects) <= MOST_REDIRECTIONS else self._first(redirects):
            operator = redirect.operator
            if redirect.descriptor.startswith("{"):  # `exec {fd}<file`
                run.state.variables[redirect.descriptor.strip("{}")] = Value(redirect.descriptor)
            if operator in ("<<", "<<-", "<<<"):
                value = text(redirect.raw, run) if redirect.raw else Value(redirect.body or "")
                value = Value(value.text + ("\n" if operator == "<<<" else ""), value.origins)
                self._opened(redirect.descriptor, value, found)
                continue
            targets = fields(redirect.raw, run) if redirect.raw else [Value(redirect.target)]
            target = targets[0].text if targets else ""
            if operator == "<&" and target.isdigit():
                self._opened(redirect.descriptor, self.files.written.get(f"/dev/fd/{target}"), found)
            elif operator not in (">&", "<&") or not (target.rstrip("-").isdigit() or target == "-"):
                content = self.files.content(run.path(target))
                found.add(operator, redirect.descriptor, target, content)
                if operator == "<":
                    self._opened(redirect.descriptor, content, found)
        return found

    def _first(self, redirects: Sequence[ScriptRedirect]) -> list[ScriptRedirect]:
        """Of very many redirections those that differ, within bounds."""
        found = list({(each.operator, each.target, each.body, each.descriptor): each for each in redirects}.values())
        if len(found) > MOST_REDIRECTIONS:
            self.end("it has too many redirections")
        return found[-MOST_REDIRECTIONS:]

    def _opened(self, descriptor: str, value: Value | None, found: Redirections) -> None:
        """What a command reads from a descriptor: standard input, or `/dev/fd/3`."""
        if value is not None and descriptor in ("", "0"):
            found.stdin = value
        elif value is not None:
            self.files.written[f"/dev/fd/{descriptor}"] = value

    def _record_streams(self, streams: Redirections, line: str, run: Run) -> None:
        """Redirections of a block, or without a command."""
        reads, writes, appends = tuple(streams.reads), tuple(streams.writes), tuple(streams.appends)
        if reads or writes or appends:
            cwd, via = run.state.cwd, run.via
            self._record(Command("", cwd=cwd, via=via, text=line, reads=reads, writes=writes, appends=appends))

    def _written(self, streams: Redirections, printed: Value, run: Run) -> Value:
        """Write what was printed to the files it is redirected to; what remains to be printed."""
        for path in (*streams.writes, *streams.appends):
            self.files.write(run.path(path), printed)
        return EMPTY if streams.hides else printed


def _is_shell(command: Command) -> bool:
    """Whether a command is a shell, by itself or behind a wrapper; `exec` gives its streams to this one."""
    if command.name in SHELLS or command.name in ("exec", ""):
        return True
    return command.name in WRAPPERS and any(posixpath.basename(word) in SHELLS for word in command.args)


def _different(raw: Sequence[RawWord]) -> list[RawWord]:
    """The words of a long command without those that are there twice, and at most one more than are visited."""
    plain: set[RawWord] = set()
    found: list[RawWord] = []
    for word in raw:
        is_plain = len(word) == 1 and isinstance(word[0], str)
        if not is_plain or word not in plain:
            found.append(word)
            plain |= {word} if is_plain else set()
        if len(found) > MOST_WORDS:
            break
    return found


def _shown(stages: list[Stage], shown: bool) -> list[bool]:
    """Whether the output of each stage is seen: what a filter reads is seen as well."""
    found: list[bool] = []
    for stage in reversed(stages):
        found.append(shown)
        shown = shown and isinstance(stage, ScriptCommand) and prints_input(stage.words)
    return found[::-1]
