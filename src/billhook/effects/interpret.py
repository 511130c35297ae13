"""An abstract interpreter of shell lines: follows variables, folders, functions, loops, pipes and wrappers.

It runs nothing. It visits every command that the line would run, branches included, with its words expanded as far as
the line shows their values. The rest is UNKNOWN inside a word, and what depends on it is not certain. Steps and depth
are bounded: what is beyond them makes `complete` false.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from billhook.effects import outputs, recipes, script, values, wrappers
from billhook.effects.blocks import Node, ScriptBlock, pipelines, structured
from billhook.effects.effect import UNKNOWN, Command, Effect, Scope, Weight
from billhook.effects.families import effects_of_command
from billhook.effects.families.reading import READS
from billhook.effects.fs import Overlay
from billhook.effects.places import World, absolute, has_pattern, inside
from billhook.effects.programs import ALSO_INTERPRET, INTERPRETERS, PYTHON, operand
from billhook.effects.script import Expansion, RawWord, ScriptCommand, ScriptRedirect
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import Call
from billhook.effects.values import EMPTY, MOST_FIELDS, NOTHING, UNKNOWN_VALUE, Value
from billhook.effects.wrappers import SHELLS

MOST_STEPS: Final = 600  # commands that are visited, loops unrolled
MOST_TOKENS: Final = 8_000  # of all texts together
MOST_SHOWN: Final = 8  # commands of a pipeline that are shown
MOST_WORDS: Final = 256  # of one command
MOST_DEPTH: Final = 40
MOST_FILES: Final = 8  # scripts that are read
_SHOWN_VARIABLES: Final = frozenset(
    {"USER", "LOGNAME", "SHELL", "CLAUDE_PROJECT_DIR", "BILLHOOK_HOME", "XDG_CONFIG_HOME"}
)
_DECLARES: Final = frozenset({"export", "declare", "local", "typeset", "readonly"})
_TCP: Final = ("/dev/tcp/", "/dev/udp/")
_NOWHERE: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/stdin", "-"})
_AWKS: Final = frozenset({"awk", "gawk", "mawk", "nawk"})
_MORE_INTERPRETERS: Final = _AWKS | ALSO_INTERPRET.keys()
_CONNECTIONS: Final = frozenset({"nc", "ncat", "netcat", "telnet", "socat", "openssl"})
_SUM = re.compile(r"\d{1,9}(?:\s*[-+]\s*\d{1,9})*")


class State:
    """What a shell knows at one point of the line."""

    __slots__ = (
        "aliases",
        "arguments",
        "arrays",
        "before",
        "cwd",
        "files",
        "folders",
        "functions",
        "input",
        "references",
        "stack",
        "variables",
    )

    def __init__(self, cwd: str) -> None:
        self.cwd = self.before = cwd
        self.folders: tuple[str, ...] = ()  # where it may be as well: after a `cd` that may have failed
        self.variables: dict[str, Value] = {}
        self.arrays: dict[str, list[Value]] = {}
        self.functions: dict[str, ScriptBlock] = {}
        self.aliases: dict[str, str] = {}
        self.arguments: list[Value] | None = None  # `$1` and on; None: those of the caller, which are not known
        self.files: dict[str, Value] = {}  # files that the line itself writes
        self.input: Value | None = None  # what `read` reads
        self.stack: list[str] = []
        self.references: dict[str, str] = {}  # `declare -n`

    def copy(self) -> "State":
        other = State(self.cwd)
        other.before, other.folders, other.arguments, other.input = (
            self.before,
            self.folders,
            self.arguments,
            self.input,
        )
        other.variables, other.arrays = self.variables.copy(), self.arrays.copy()
        other.functions, other.aliases = self.functions.copy(), self.aliases.copy()
        other.references = self.references.copy()
        other.files, other.stack = self.files, self.stack[:]  # what a subshell writes stays
        return other


class Run:
    """How a command is reached: its wrappers, its standard input, and whether its output is shown."""

    __slots__ = ("background", "depth", "fed", "from_file", "line", "shown", "via")

    def __init__(self, via: tuple[str, ...] = (), depth: int = 0, fed: Value | None = None, shown: bool = True) -> None:
        self.via, self.depth, self.fed, self.shown = via, depth, fed, shown
        self.from_file = self.background = False
        self.line = ""  # the pipeline that it is a part of, as written

    def inside(self, *via: str, fed: Value | None = None, shown: bool | None = None) -> "Run":
        run = Run((*self.via, *via), self.depth + 1, fed, self.shown if shown is None else shown)
        run.from_file, run.background, run.line = self.from_file, self.background, self.line
        return run


class Interpreter:
    """One line: the commands that it would run, and their effects."""

    def __init__(self, world: World) -> None:
        self.made = Overlay(world.fs)
        self.world = world = msgspec.structs.replace(world, fs=self.made)
        self.scopes: dict[str, Scope] = world.scopes
        self.commands: list[Command] = []
        self.effects: list[Effect] = []
        self.code: list[str] = []  # programs in other languages that were not understood as a whole
        self.texts: list[str] = []  # every text that was read as a script
        self.complete = True
        self.why = ""  # it is not complete
        self.steps, self.tokens, self.files_left = MOST_STEPS, MOST_TOKENS, MOST_FILES
        self.calls: list[ScriptBlock] = []  # the functions that are being called

    # texts

    def run_text(self, text: str, state: State, run: Run) -> Value:
        """Visit the commands of a text; what they print."""
        if self.tokens <= 0 or run.depth > MOST_DEPTH:
            return self._give_up("it is too long or too deeply nested to be read")
        parsed = script.read(text, self.tokens)
        self.tokens -= parsed.steps
        self.texts.append(text)
        if self.tokens <= 0:
            self._give_up("it is too long to be read")
        elif not parsed.complete:
            self.complete = False
        return self.run_nodes(structured(parsed.items), state, run)

    def _give_up(self, why: str) -> Value:
        self.complete, self.why = False, self.why or why
        return UNKNOWN_VALUE

    def run_nodes(self, nodes: Sequence[Node], state: State, run: Run) -> Value:
        printed: list[Value] = []
        elsewhere: tuple[str, ...] = ()
        for stages, separator in pipelines(nodes):
            if self.steps <= 0:
                return self._give_up("it has too many commands")
            run.background = separator == "&" or run.background
            value = self._pipeline(stages, state, run)
            if separator == "&&":  # what follows runs only where a `cd` was successful
                elsewhere, state.folders = state.folders or elsewhere, ()
            else:
                elsewhere, state.folders = (), state.folders or elsewhere
            if value.text or value.origins:
                printed.append(value)
        return joined_lines(printed)

    def _pipeline(self, stages: list[ScriptCommand | ScriptBlock], state: State, run: Run) -> Value:
        if len(stages) == 1:
            return self._stage(stages[0], state, run)
        shown, seen = run.shown, []
        for stage in reversed(stages):  # what a filter reads is seen as well
            seen.append(shown)
            shown = shown and isinstance(stage, ScriptCommand) and outputs.prints_input(stage.words)
        names = {
            posixpath.basename(stage.words[0]) for stage in stages if isinstance(stage, ScriptCommand) and stage.words
        }
        if names & SHELLS and names & _CONNECTIONS:
            call = self._call(
                Command("|".join(sorted(names)), cwd=state.cwd, via=run.via, text="a shell and a connection")
            )
            self.effects.append(call.effect("remote-shell", scope="remote"))
        fed = run.fed
        texts = [stage.text for stage in stages[:MOST_SHOWN] if isinstance(stage, ScriptCommand)]
        for stage in stages[:MOST_STEPS]:
            inner = run.inside(fed=fed, shown=seen.pop())
            inner.line = " | ".join(texts)
            fed = self._stage(stage, state.copy(), inner)
        return fed or EMPTY

    def _stage(self, stage: ScriptCommand | ScriptBlock, state: State, run: Run) -> Value:
        self.steps -= 1
        return self._command(stage, state, run) if isinstance(stage, ScriptCommand) else self._block(stage, state, run)

    # compound commands

    def _block(self, block: ScriptBlock, state: State, run: Run) -> Value:
        if run.depth > MOST_DEPTH:
            return self._give_up("it is too deeply nested to be read")
        if block.kind == "function":
            state.functions[block.name] = block
            return EMPTY
        inner = run.inside(fed=run.fed)
        if block.redirects:
            holder = self._redirected(ScriptCommand((), (), block.redirects), state, inner)
            inner.fed = holder.stdin if holder.stdin is not None else inner.fed
            inner.shown = inner.shown and not holder.hides
            self._record(Command("", cwd=state.cwd, via=run.via, writes=holder.writes, appends=holder.appends), state)
        if inner.fed is not None:
            state.input = inner.fed
            inner.fed = None if block.kind in ("while", "until") else inner.fed  # `read` takes it line by line
        if block.kind == "(":
            state = state.copy()
        printed = self._rounds(block, state, inner)
        if not block.redirects:
            return printed
        for path in holder.writes:
            self._wrote(state, path, printed)
        return EMPTY if holder.hides else printed

    def _rounds(self, block: ScriptBlock, state: State, run: Run) -> Value:
        nodes = block.nodes
        if block.kind == "for" and block.head is not None:
            listed = block.head.words
            each = (
                [v for raw in listed for v in self.fields(raw, state, run)]
                if listed is not None
                else self._given(state)
            )
            printed = []
            for value in each[:MOST_FIELDS] or ([] if listed is not None else [UNKNOWN_VALUE]):
                state.variables[block.name] = value
                printed.append(self.run_nodes(nodes, state, run))
            if len(each) > MOST_FIELDS:
                state.variables[block.name] = UNKNOWN_VALUE
                self.run_nodes(nodes, state, run)
            return joined_lines(printed)
        times = 1
        if block.kind in ("while", "until") and state.input is not None:
            state.input = self._contents(state.input)
        if block.kind in ("while", "until") and state.input is not None and state.input.known:
            times = min(MOST_FIELDS, max(1, len(state.input.text.splitlines())))
        return joined_lines([self.run_nodes(nodes, state, run) for _ in range(times)])

    def _given(self, state: State) -> list[Value]:
        return state.arguments if state.arguments is not None else [UNKNOWN_VALUE]

    # simple commands

    def _command(self, command: ScriptCommand, state: State, run: Run) -> Value:
        assignments = [self._assignment(raw, state, run) for raw in command.raw_assignments]
        fields = [field for raw in command.raw for field in self.fields(raw, state, run)]
        if not command.raw and command.words:  # made by a wrapper: its words are expanded already
            fields = [Value(word) for word in command.words]
        redirected = self._redirected(command, state, run)
        if not fields:
            for name, value in assignments:
                self._assign(state, name, value)
            if redirected.reads and not assignments:  # `$(< file)`
                return redirected.stdin or EMPTY
            if redirected.writes or redirected.appends:
                self._record(
                    Command(
                        "",
                        cwd=state.cwd,
                        via=run.via,
                        text=command.text,
                        writes=redirected.writes,
                        appends=redirected.appends,
                    ),
                    state,
                )
            if not assignments:
                return redirected.stdin or EMPTY  # `$(<file)`
            return joined_lines([value for _, value in assignments if isinstance(value, Value) and value.origins])
        inner = run.inside(fed=redirected.stdin if redirected.stdin is not None else run.fed)
        inner.depth, inner.shown = run.depth, run.shown and not redirected.hides
        set_here = tuple(f"{name}={value.text}" for name, value in assignments if isinstance(value, Value))
        text = command.text or " ".join(command.words)
        printed = self.run_words(fields, state, inner, redirected, set_here, text)
        for path in (*redirected.writes, *redirected.appends):
            self._wrote(state, path, printed)
        return EMPTY if redirected.hides else printed

    def _wrote(self, state: State, word: str, value: Value) -> None:
        """A file that the line itself writes."""
        path = absolute(word, state.cwd, self.world)
        state.files[path] = value
        self.made.written[path] = value.text if value.known else None

    def run_words(
        self,
        fields: list[Value],
        state: State,
        run: Run,
        redirected: "Redirected | None" = None,
        assignments: tuple[str, ...] = (),
        text: str = "",
    ) -> Value:
        """Visit one command whose words are known; what it prints."""
        self.steps -= 1
        if run.depth > MOST_DEPTH or self.steps <= 0:
            return self._give_up("it is too deeply nested to be read, or has too many commands")
        if not fields:
            return EMPTY
        if len(fields) > MOST_WORDS:  # what is beyond is not known
            fields = [*fields[:MOST_WORDS], UNKNOWN_VALUE]
        words = tuple(field.text for field in fields)
        name = posixpath.basename(words[0]) or words[0]
        if words[0] in state.aliases:
            rest = " ".join(map(_quoted, words[1:]))
            return self.run_text(
                f"{state.aliases[words[0]]} {rest}", self._without_alias(state, words[0]), run.inside()
            )
        origins = NOTHING.union(*(field.origins for field in fields[1:]))
        if self._holds_secret(words, state):
            origins |= {"secret"}
        fed = run.fed or EMPTY
        files = redirected or Redirected()
        command = Command(
            name if UNKNOWN not in name else UNKNOWN,
            words[1:],
            state.cwd,
            run.via,
            text or " ".join(words),
            words[0],
            assignments,
            files.reads,
            files.writes,
            files.appends,
            fed.text if run.fed is not None and fed.known else None,
            origins,
            fed.origins,
            run.fed is not None,
            run.shown,
            state.folders,
        )
        if words[0] in state.functions:
            return self._function(words[0], fields[1:], state, run)
        printed = self._builtin(name, fields, state, run)
        if printed is not None:
            self._record(command, state)
            for line in wrappers.inside(ScriptCommand(words)).texts if name in _DECLARES else ():
                self.run_text(line, state.copy(), run.inside(name))
            return printed
        self._record(command, state)
        self._dynamic(command, fields[0])
        inner = self._inside(command, fields, state, run)
        return inner if inner is not None else self._printed(command, fed, state)

    def _holds_secret(self, words: tuple[str, ...], state: State) -> bool:
        """Whether a word names a file that the line itself filled with a secret: `cp .env x; curl -F f=@x ...`."""
        if not any("secret" in value.origins for value in state.files.values()):
            return False
        paths = (absolute(word.rpartition("@")[2].rpartition("=")[2], state.cwd, self.world) for word in words[1:])
        return any("secret" in state.files[path].origins for path in paths if path in state.files)

    def _without_alias(self, state: State, name: str) -> State:
        other = state.copy()
        del other.aliases[name]
        return other

    def _printed(self, command: Command, fed: Value, state: State) -> Value:
        words = command.words
        if command.name in outputs.DOWNLOADS:
            self._downloaded(command, state)
        if command.name == "mktemp":
            self.made.made[outputs.TEMPORARY] = "dir"
        if command.name == "mkdir":
            self.made.made |= {absolute(word, state.cwd, self.world): "dir" for word in command.args if word[:1] != "-"}
        if command.name == "ln" and any("s" in word for word in command.args if word[:1] == "-"):
            self._link([word for word in command.args if word[:1] != "-"], state)
        if command.name == "tee":
            for word in command.args:
                self._wrote(state, word, fed)
        if command.name in ("cp", "mv", "install", "ln") and len(command.args) >= 2:
            source, target = command.args[-2:]
            self._wrote(state, target, self._content(source, state))
        if command.name == "cat" and len(command.args) == 1:
            path = absolute(command.args[0], state.cwd, self.world)
            if path in state.files:
                return state.files[path]
        if command.name in ("cat", "xargs") and not command.args:
            return fed
        printed = outputs.output(words, fed, state.cwd, self.world)
        if command.shown and outputs.prints_secret(words):
            self.effects.append(self._call(command).effect("read-secret", " ".join(words)))
        if command.name in outputs.PACKERS and "secret" in printed.origins:
            for path in (absolute(word, state.cwd, self.world) for word in command.args):
                state.files.setdefault(path, printed)
        return Value(
            printed.text, printed.origins | (command.origins if command.name in ("echo", "printf") else NOTHING)
        )

    def _link(self, operands: list[str], state: State) -> None:
        """`ln -s A B`: from here on B is a link."""
        for source in operands[:-1] or operands:
            target = absolute(operands[-1] if len(operands) > 1 else ".", state.cwd, self.world)
            if self.made.kind(self.made.real(target)) == "dir":
                target = posixpath.join(target, posixpath.basename(source.rstrip("/")))
            self.made.links[target] = source

    def _downloaded(self, command: Command, state: State) -> None:
        """Files that a download makes: what runs them runs something remote."""
        call = self._call(command).with_values(
            "-o --output -O --output-document -P -d --dir"
            if command.name != "curl"
            else "-o --output --output-dir -H --header -d --data -X -A -u -b -e"
        )
        named = call.options.values("-o", "--output", "-O", "--output-document")
        urls = [word for word in call.operands if "/" in word]
        if not named and (command.name == "wget" or call.has("-O", "--remote-name")):
            named = [posixpath.basename(url.rstrip("/").partition("?")[0]) for url in urls]
        for word in named:
            state.files[absolute(word, state.cwd, self.world)] = Value(UNKNOWN, frozenset({"remote"}))

    # what a command runs

    def _dynamic(self, command: Command, first: Value) -> None:
        """A command word that is computed: where from decides whether it matters."""
        call = self._call(command)
        if UNKNOWN not in command.program:
            if command.program.startswith("/") and has_pattern(command.name):
                self.effects.append(call.effect("run-opaque", command.text, why="a pattern chooses the program"))
            return
        if "remote" in first.origins:
            self.effects.append(call.effect("run-remote", command.text, scope="remote"))
        elif first.origins & {"decoded", "computed"}:
            self.effects.append(
                call.effect("run-opaque", command.text, why="the command word is computed", certain=False)
            )
        else:
            why = "the command word is a variable that the call doesn't show"
            self.effects.append(call.effect("run-opaque", command.text, weight="light", certain=False, why=why))

    def _inside(self, command: Command, fields: list[Value], state: State, run: Run) -> Value | None:
        """Visit what a command runs in its turn; what that prints, or None where it runs nothing."""
        name, words = command.name, (command.program, *command.args)
        if name in (".", "source") and command.args[:1] == ("/dev/stdin",) and run.fed is not None:
            return self._code_of_shell(run.fed, command, state, run.inside(name))
        if name in wrappers.RUN_INPUT and run.fed is not None:
            given = Value(wrappers.cron_lines(run.fed.text), run.fed.origins)
            return self._code_of_shell(given, command, state, run.inside(name))
        if name in SHELLS or name in (".", "source"):
            return self._shell(command, fields, state, run)
        if name == "eval":
            value = values.joined(fields[1:], " ") if len(fields) > 1 else EMPTY
            return self._code_of_shell(value, command, state, run.inside("eval"))
        language = "python" if PYTHON.fullmatch(name) else name
        if language in INTERPRETERS or name in _MORE_INTERPRETERS:
            self._interpreter(language, command, fields, state, run)
            if name not in _AWKS and name != "bun":
                return outputs.output(command.words, run.fed or EMPTY, state.cwd, self.world)
        if name not in ("bun", "deno") and (runs := wrappers.run_by(words)):
            if runs[0].startswith(("http://", "https://")):
                self.effects.append(self._call(command).effect("run-remote", runs[0], scope="remote"))
            inner = run.inside(name, fed=run.fed)
            return self.run_words([Value(word) for word in _as_command(runs)], state, inner, None, (), command.text)
        for label, text in recipes.texts(command, self.world, state.cwd):
            self._read_text(text, label, state, run)
        self._program_file(command, state, run)
        self._runs_files(command, state, run)
        stdin = (ScriptRedirect("<<<", "", command.stdin),) if command.stdin is not None else ()
        piped = command.piped and command.stdin is None
        found = wrappers.inside(ScriptCommand(words, command.assignments, stdin, piped))
        if name == "ssh" and not found.commands and not found.texts:
            return self._remote(command, fields, state, run)
        if not found.commands and not found.texts:
            return None
        return self._wrapped(command, found, fields, state, run)

    def _wrapped(
        self, command: Command, found: wrappers.InnerCommands, fields: list[Value], state: State, run: Run
    ) -> Value:
        name = command.name
        origins = NOTHING.union(*(field.origins for field in fields[1:]))
        printed: list[Value] = []
        inner = run.inside(name, fed=run.fed)
        here = self._moved(command, state)
        for each in found.commands[:4]:
            for words in self._fed_words(command, each.words, run):
                given = [Value(word, origins if UNKNOWN in word else NOTHING) for word in words]
                if UNKNOWN in words and run.fed is not None and name in ("xargs", "parallel"):
                    listed = run.fed.origins & {"remote", "decoded"}
                    given = [Value(one.text, listed) if one.text == UNKNOWN else one for one in given]
                printed.append(self.run_words(given, here, inner, None, each.assignments, command.text))
        for text in found.texts[:4]:
            value = Value(text, origins)
            printed.append(self._code_of_shell(value, command, here, inner))
        return joined_lines(printed)

    def _moved(self, command: Command, state: State) -> State:
        """`env -C x` and `sudo -D x` run elsewhere."""
        folder = self._call(command).with_values("-C --chdir -D").options.values("-C", "--chdir", "-D")
        if command.name not in ("env", "sudo", "git") or not folder:
            return state
        other = state.copy()
        other.cwd = absolute(folder[0], state.cwd, self.world)
        return other

    def _fed_words(self, command: Command, words: tuple[str, ...], run: Run) -> Iterator[tuple[str, ...]]:
        """The words of an inner command, with what the wrapper puts into them: `xargs rm`, `find -exec rm {}`."""
        text = ""
        if command.name in ("xargs", "parallel"):
            listed = command.args[command.args.index(":::") + 1 :] if ":::" in command.args else ()
            fed = self._read_lists(command, run.fed)
            text = "\n".join(listed) or (fed.text if fed is not None and fed.known else "")
            words = words[: words.index(":::")] if ":::" in words else words
            if listed and not any(UNKNOWN in word for word in words):
                words = (*words, UNKNOWN)
        elif command.name in ("find", "fd", "fdfind"):
            text = "\n".join(outputs.listed(command.words))
        given = [
            each
            for line in filter(None, text.split("\n")[:MOST_FIELDS])
            for each in ([line] if "{}" in command.text else line.split())
        ]
        if not given:
            yield words
        elif words[-1:] == (UNKNOWN,) and sum(UNKNOWN in word for word in words) == 1:
            yield (*words[:-1], *given[:MOST_FIELDS])
        else:
            for each in dict.fromkeys(given[:16]):
                yield tuple(word.replace(UNKNOWN, each) for word in words)

    def _read_lists(self, command: Command, fed: Value | None) -> Value | None:
        """What `xargs` and its like read: files that they name, or standard input."""
        call = self._call(command).with_values("-a --arg-file")
        words = call.options.values("-a", "--arg-file")
        if "::::" in command.args:
            words += command.args[command.args.index("::::") + 1 :]
        if not words:
            return self._contents(fed) if fed is not None else None
        paths = [absolute(word, command.cwd, self.world) for word in words]
        return self._contents(Value(UNKNOWN, frozenset(f"lines:{path}" for path in paths)))

    def _contents(self, value: Value) -> Value:
        """A value that is the text of files, or a part of it: that text, if it can be read."""
        if value.text != UNKNOWN:
            return value
        paths = [origin.partition(":")[2] for origin in value.origins if origin.startswith(("file:", "lines:"))]
        texts = [self._text_of(path, separated=True) for path in paths]
        known = [text for text in texts if text is not None]
        return Value("\n".join(known), value.origins) if known and len(known) == len(paths) else value

    def _shell(self, command: Command, fields: list[Value], state: State, run: Run) -> Value | None:
        """A shell: a text behind `-c`, a script, or what it reads."""
        options = INTERPRETERS["bash"]
        if command.name in (".", "source") and command.args[:1] == ("/dev/stdin",) and run.fed is not None:
            return self._code_of_shell(run.fed, command, state, run.inside(command.name))
        if command.name in (".", "source"):
            return self._script(command.args[0], fields[1], fields[2:], command, state, run) if command.args else None
        if {"--version", "--help", "-n"} & set(command.args[:1]):  # -n only checks its syntax
            return EMPTY
        path, code, _ = operand(command.args, options)
        if code is not None:
            place = next((n for n, word in enumerate(command.args) if word == code), len(command.args) - 1)
            other = self._with_arguments(state, fields[place + 2 + (len(fields) > place + 2) :])
            if len(fields) > place + 2:
                other.variables["0"] = fields[place + 2]
            return self._code_of_shell(fields[place + 1], command, other, run.inside(f"{command.name} -c", fed=run.fed))
        reads = any(re.fullmatch(r"-[a-z]*s[a-z]*", word) for word in command.args)
        if path and not reads and path not in ("/dev/stdin", "-"):
            place = command.args.index(path)
            return self._script(
                path, fields[place + 1], fields[place + 2 :], command, self._with_arguments(state, []), run
            )
        self._reverse_shell(command)
        if run.fed is not None:
            given = [field for field in fields[1:] if not field.text.startswith("-")]
            return self._code_of_shell(run.fed, command, self._with_arguments(state, given), run.inside(command.name))
        for path in command.reads:
            self._script(path, Value(path), [], command, self._with_arguments(state, []), run)
        return None

    def _with_arguments(self, state: State, given: list[Value]) -> State:
        other = state.copy()
        other.arguments = given
        return other

    def _runs_files(self, command: Command, state: State, run: Run) -> None:
        """Files whose text is run: `at -f x now`, `crontab x`, `tmux source-file x`."""
        for word in wrappers.files_run(command.words):
            text = self._text_of(absolute(word, state.cwd, self.world))
            if text is not None:
                self._read_text(wrappers.cron_lines(text), command.name, state, run)

    def _code_of_shell(self, value: Value, command: Command, state: State, run: Run) -> Value:
        """A text that a shell runs: read as far as it is known, judged by where the rest comes from."""
        call = self._call(command)
        if "remote" in value.origins:
            self._runs_remote(command, run)
            return Value(UNKNOWN, value.origins)
        path = next((origin[5:] for origin in value.origins if origin.startswith("file:")), "")
        if path and "decoded" not in value.origins:
            return self._script(path, value, [], command, state, run) or UNKNOWN_VALUE
        if not value.text.strip(UNKNOWN + " \t\n;\"'"):
            if value.text.strip():
                why = "the text that it runs is computed"
                self.effects.append(call.effect("run-opaque", command.text, certain=False, why=why))
            return UNKNOWN_VALUE
        if "decoded" in value.origins:
            self.effects.append(call.effect("run-opaque", command.text, why="the text that it runs is decoded first"))
        return self.run_text(value.text, state, run)

    def _runs_remote(self, command: Command, run: Run) -> None:
        """Code from the network: the whole pipeline is what does it."""
        whole = msgspec.structs.replace(command, text=run.line or command.text)
        self.effects.append(self._call(whole).effect("run-remote", whole.text, scope="remote"))

    def _script(
        self, word: str, value: Value, given: list[Value], command: Command, state: State, run: Run
    ) -> Value | None:
        """A file that a shell runs: one that the line wrote, or one that can be read."""
        path = absolute(word, state.cwd, self.world)
        written = state.files.get(path)
        if written is not None and not any(origin.startswith("file:") for origin in written.origins):
            return self._code_of_shell(written, command, self._with_arguments(state, given), run.inside(command.name))
        if written is not None:
            path = next(origin[5:] for origin in written.origins if origin.startswith("file:"))
        self._read_file(path, self._with_arguments(state, given), run.inside(command.name, posixpath.basename(path)))
        return UNKNOWN_VALUE

    def _read_file(self, path: str, state: State, run: Run) -> None:
        text = self._text_of(path)
        if text is not None and (language := _language(path, text)):
            if language == "shell":
                self._read_text(text, "", state, run)
            else:
                self._foreign(
                    language, text, Command(posixpath.basename(path), cwd=state.cwd, via=run.via), (), state, run
                )

    def _text_of(self, path: str, *, separated: bool = False) -> str | None:
        if UNKNOWN in path or self.files_left <= 0 or is_secret_file(path):
            return None
        self.files_left -= 1
        text = self.world.fs.read(path, recipes.LARGEST)
        return text if text is None or not separated else text.replace(UNKNOWN, "\n")

    def _read_text(self, text: str, label: str, state: State, run: Run) -> None:
        """A text from a file: what depends on values that it gets elsewhere is left out."""
        inner = run.inside(*filter(None, [label]))
        outer = self.effects, self.complete, self.why
        inner.from_file, self.effects = True, []
        self.run_text(text, state.copy(), inner)
        found, (self.effects, self.complete, self.why) = self.effects, outer
        self.effects += [effect for effect in found if effect.certain]

    def _program_file(self, command: Command, state: State, run: Run) -> None:
        """`./x.sh`: a script by its own path."""
        if "/" not in command.program or UNKNOWN in command.program:
            return
        path = absolute(command.program, state.cwd, self.world)
        written = state.files.get(path)
        if written is not None or inside(path, self.world.roots):
            self._script(path, Value(path), [Value(word) for word in command.args], command, state, run)

    def _interpreter(self, language: str, command: Command, fields: list[Value], state: State, run: Run) -> None:
        """python, node, perl ...: code behind an option, a script, or what it reads."""
        path, code, module, rest = _program_of(language, command.args)
        if module and language == "python":  # `python -m pip` is pip
            words = [Value(module), *map(Value, rest)]
            self.run_words(words, state, run.inside(command.name, fed=run.fed), None, (), command.text)
        elif code is not None:
            value = next((field for field in fields[1:] if field.text == code), Value(code))
            self._foreign_value(language, value, command, rest, state, run)
        elif path.startswith(("http://", "https://")):
            self.effects.append(self._call(command).effect("run-remote", path, scope="remote"))
        elif path and path != "-":
            full = absolute(path, state.cwd, self.world)
            written = state.files.get(full)
            if written is not None:
                self._foreign_value(language, written, command, rest, state, run)
            elif (text := self._text_of(full)) is not None:
                self._foreign(
                    language, text, command, rest, state, run.inside(posixpath.basename(path)), from_file=True
                )
        elif run.fed is not None and not {"--version", "-V", "--help", "-h"} & set(command.args):
            self._foreign_value(language, run.fed, command, rest, state, run)

    def _foreign_value(
        self, language: str, value: Value, command: Command, rest: tuple[str, ...], state: State, run: Run
    ) -> None:
        if "remote" in value.origins:
            self._runs_remote(command, run)
        elif path := next((origin[5:] for origin in value.origins if origin.startswith("file:")), ""):
            if (text := self._text_of(path)) is not None:
                self._foreign(language, text, command, rest, state, run, from_file=True)
        else:
            self._foreign(language, value.text, command, rest, state, run)

    def _foreign(
        self,
        language: str,
        text: str,
        command: Command,
        rest: tuple[str, ...],
        state: State,
        run: Run,
        from_file: bool = False,
    ) -> None:
        from billhook.effects.families.code import effects_of_code  # most lines hold no code

        found, texts, understood = effects_of_code(language, text, self._call(command), rest)
        self.effects += [effect for effect in found if effect.certain or not from_file]
        if not understood:
            self.code.append(text)
        for line in texts[:16]:
            if from_file:
                self._read_text(line, command.name, state, run)
            else:
                self.run_text(line, state.copy(), run.inside(command.name))

    def _remote(self, command: Command, fields: list[Value], state: State, run: Run) -> Value | None:
        """`ssh host ...`: paths of another machine, where no project is."""
        found = wrappers.remote_words(ScriptCommand((command.program, *command.args)))
        if not found:
            return None
        there = Interpreter(World("/home/remote", "/home/remote", ("/home/remote",), fs=recipes.NO_FILES))
        there.run_text(" ".join(found), State("/home/remote"), run.inside("ssh", fed=run.fed))
        self.commands += there.commands
        for effect in there.effects:
            scope: Scope = "remote" if effect.scope in ("project", "home", "unknown") else effect.scope
            self.effects.append(msgspec.structs.replace(effect, scope=scope))
        return UNKNOWN_VALUE

    def _reverse_shell(self, command: Command) -> None:
        if any(path.startswith(_TCP) for path in (*command.writes, *command.reads, *command.appends)):
            self.effects.append(self._call(command).effect("remote-shell", command.text, scope="remote"))

    # builtins

    def _function(self, name: str, given: list[Value], state: State, run: Run) -> Value:
        block = state.functions[name]
        if any(block is each for each in self.calls):
            if run.background or run.fed is not None:
                call = self._call(Command(name, cwd=state.cwd, via=run.via, text=f"{name}() calls itself"))
                self.effects.append(call.effect("kill", "every process: a fork bomb", weight="heavy"))
            return UNKNOWN_VALUE
        self.calls.append(block)
        before, state.arguments = state.arguments, given
        printed = self.run_nodes(block.body, state, run.inside(fed=run.fed))
        state.arguments = before
        self.calls.pop()
        return printed

    def _builtin(self, name: str, fields: list[Value], state: State, run: Run) -> Value | None:
        """The builtins that change what the shell knows; None for any other command."""
        words = [field.text for field in fields[1:]]
        if name in ("cd", "pushd", "popd", "chdir"):
            self._change_folder(name, words, state)
        elif name in _DECLARES:
            for field in fields[1:]:
                key, equals, value = field.text.partition("=")
                if equals and "-n" in words:  # a name for another variable
                    state.references[key] = value
                elif equals:
                    state.variables[key.rstrip("+")] = Value(value, field.origins)
        elif name == "read":
            self._read(words, state, run)
        elif name in ("mapfile", "readarray"):
            lines = self._contents(run.fed or state.input or UNKNOWN_VALUE).text.splitlines()[:MOST_FIELDS]
            state.arrays[words[-1] if words else "MAPFILE"] = [Value(line) for line in lines]
        elif name == "printf" and words[:1] == ["-v"]:
            state.variables[" ".join(words[1:2])] = Value(values.printf(words[2:]))
        elif name == "set" and "--" in words:
            state.arguments = fields[words.index("--") + 2 :]
        elif name == "shift":
            state.arguments = self._given(state)[1:] or [UNKNOWN_VALUE]
        elif name == "alias":
            state.aliases |= dict(word.split("=", 1) for word in words if "=" in word)
        elif name == "unset":
            for word in words:
                state.variables[word] = EMPTY
        elif name == "hash" and words[:1] == ["-p"] and len(words) > 2:
            state.aliases[words[2]] = words[1]
        else:
            return None
        return EMPTY

    def _change_folder(self, name: str, words: list[str], state: State) -> None:
        operands = [word for word in words if not word.startswith("-") or word == "-"]
        if name == "popd":
            target = state.stack.pop() if state.stack else state.before
        elif not operands:
            target = self.world.home if name != "pushd" else state.before
        elif operands[-1] == "-":
            target = state.before
        else:
            target = absolute(operands[-1], state.cwd, self.world)
        if name == "pushd":
            state.stack.append(state.cwd)
        there = UNKNOWN in target or self.world.fs.kind(target) in ("dir", "link")
        state.folders = () if there else (state.cwd,)  # it may fail, or the line makes the folder
        state.before, state.cwd = state.cwd, target

    def _read(self, words: list[str], state: State, run: Run) -> None:
        names = [word for word in words if word.isidentifier()] or ["REPLY"]
        given = run.fed if run.fed is not None else state.input
        if given is not None and not given.known:
            given = self._contents(given)
            state.input = given if run.fed is None else state.input
        if given is None or not given.known:
            for name in names:
                state.variables[name] = Value(UNKNOWN, given.origins if given else NOTHING)
            return
        line, _, rest = given.text.partition("\n")
        if state.input is given:
            state.input = Value(rest, given.origins)
        parts = line.strip().split(None, len(names) - 1) if len(names) > 1 else [line.strip()]
        for place, name in enumerate(names):
            state.variables[name] = Value(parts[place] if place < len(parts) else "", given.origins)

    # words

    def _assignment(self, raw: RawWord, state: State, run: Run) -> tuple[str, Value | list[Value]]:
        first = raw[0] if raw and isinstance(raw[0], str) else ""
        name, _, value = first.partition("=")
        if len(raw) == 2 and isinstance(raw[1], Expansion) and raw[1].kind == "array":
            return name, [field for word in raw[1].words[:MOST_FIELDS] for field in self.fields(word, state, run)]
        return name, self.text((value, *raw[1:]), state, run)

    def _assign(self, state: State, name: str, value: Value | list[Value]) -> None:
        if isinstance(value, list):
            state.arrays[name.rstrip("+")] = (state.arrays.get(name[:-1], []) if name.endswith("+") else []) + value
        elif name.endswith("+"):
            state.variables[name[:-1]] = values.joined([state.variables.get(name[:-1], EMPTY), value])
        else:
            state.variables[name.partition("[")[0]] = value

    def text(self, raw: RawWord, state: State, run: Run) -> Value:
        """A word as one value: what is not split, such as an assignment or a here-document."""
        parts = [Value(part) if isinstance(part, str) else self._one(part, state, run) for part in raw]
        return values.joined(parts) if parts else EMPTY

    def _one(self, part: Expansion, state: State, run: Run) -> Value:
        return values.joined(self._expansion(part, state, run) or [EMPTY], " ")

    def fields(self, raw: RawWord, state: State, run: Run) -> list[Value]:
        """A word as the shell splits it."""
        if len(raw) == 1 and isinstance(raw[0], str):
            return [Value(raw[0])]
        if len(raw) == 1 and isinstance(raw[0], Expansion) and raw[0].kind == "braces":
            return [field for word in values.braces(raw[0].words[0]) for field in self.fields(word, state, run)]
        done: list[Value] = []
        current: list[Value] = []
        for part in raw:
            if isinstance(part, str):
                current.append(Value(part))
                continue
            found = self._expansion(part, state, run)
            if not part.quoted:
                found = list(map(self._contents, found))
                found = [Value(word, value.origins) for value in found for word in self._split(value.text, state)]
            for place, value in enumerate(found[:MOST_FIELDS]):
                if place:
                    done.append(values.joined(current or [EMPTY]))
                    current = []
                current.append(value)
        done.append(values.joined(current or [EMPTY]))
        kept = any(part == "" or (isinstance(part, Expansion) and part.quoted) for part in raw)
        return [field for field in done if field.text or (kept and len(done) == 1 and current)]

    def _split(self, text: str, state: State) -> list[str]:
        """A value that is not quoted as words; blanks at its ends separate it from what is around it."""
        separators = state.variables.get("IFS")
        if separators is not None and separators.known and separators.text.strip():
            text = text.translate(dict.fromkeys(map(ord, separators.text), " "))
        return re.split(r"[ \t\n]+", text) if text else []

    def _expansion(self, part: Expansion, state: State, run: Run) -> list[Value]:
        if run.depth > MOST_DEPTH:
            return [self._give_up("it is too deeply nested to be read")]
        if part.kind == "var":
            return self._variable(part.text, state, run)
        if part.kind in ("sub", "backtick"):
            inner = run.inside(shown=False)
            if part.kind == "sub":
                value = self.run_nodes(structured(part.items), state.copy(), inner)
            else:
                value = self.run_text(part.text, state.copy(), inner)
            return [Value(value.text.rstrip("\n"), value.origins)]
        if part.kind == "input":
            value = self.run_nodes(structured(part.items), state.copy(), run.inside(shown=False))
            path = f"/dev/fd/{63 - len(state.files) % 50}"
            state.files[path] = value
            return [Value(path, value.origins)]
        if part.kind == "output":
            self.run_nodes(structured(part.items), state.copy(), run.inside(fed=run.fed or UNKNOWN_VALUE))
            return [Value("/dev/null")]
        if part.kind == "number" and _SUM.fullmatch(part.text.strip()):
            return [Value(str(_sum(part.text)))]
        if part.kind == "number" and ("$(" in part.text or "`" in part.text):
            self.text(script.read_text(part.text), state, run)
        return [Value("\0" if part.kind != "array" else "")]

    def _variable(self, text: str, state: State, run: Run) -> list[Value]:
        if text in ("@", "*"):
            return self._given(state)
        found = re.fullmatch(r"(\w+)\[[@*]\]", text)
        if found:
            return state.arrays.get(found[1]) or (
                [state.variables[found[1]]] if found[1] in state.variables else [UNKNOWN_VALUE]
            )
        if text.isidentifier() and text not in state.arrays:
            value = self._looked_up(text, "", state)
            return [value or UNKNOWN_VALUE]
        assigns = re.match(r"(\w+):?=", text)
        value = values.parameter(
            text,
            lambda name, subscript: self._looked_up(name, subscript, state),
            lambda word: (
                self.text(script.read_text(word, 1_000), state, run)
                if "$" in word or "`" in word
                else Value(_bare(word))
            ),
        )
        if assigns and assigns[1] not in state.variables:
            state.variables[assigns[1]] = value
        return [value]

    def _looked_up(self, name: str, subscript: str, state: State) -> Value | None:
        name = state.references.get(name, name)
        if name in state.arrays:
            index = subscript.strip("[]")
            elements = state.arrays[name]
            place = int(index) if index.isdigit() and len(index) < 4 else 0
            return elements[place] if place < len(elements) else EMPTY
        if name in state.variables:
            return state.variables[name]
        if name.isdigit():
            given = self._given(state)
            place = int(name[:3])
            return (
                given[place - 1]
                if 0 < place <= len(given)
                else (EMPTY if state.arguments is not None and place else None)
            )
        known = {"HOME": self.world.home, "PWD": state.cwd, "OLDPWD": state.before, "IFS": " ", "#": UNKNOWN}
        if name == "TMPDIR":
            return Value(self.world.environ.get("TMPDIR") or "/tmp")
        if name in known:
            return Value(known[name])
        shown = self.world.environ.get(name) if name in _SHOWN_VARIABLES else None
        return Value(shown) if shown else None

    # redirections and records

    def _redirected(self, command: ScriptCommand, state: State, run: Run) -> "Redirected":
        found = Redirected()
        for redirect in command.redirects:
            operator = redirect.operator
            if operator in ("<<", "<<-", "<<<"):
                value = self.text(redirect.raw, state, run) if redirect.raw else Value(redirect.body or "")
                found.stdin = Value(value.text + ("\n" if operator == "<<<" else ""), value.origins)
                continue
            fields = self.fields(redirect.raw, state, run) if redirect.raw else [Value(redirect.target)]
            target = fields[0].text if fields else ""
            if operator in (">&", "<&") and (target.rstrip("-").isdigit() or target == "-"):
                continue
            found.add(operator, redirect.descriptor, target, self._content(target, state))
        return found

    def _content(self, target: str, state: State) -> Value:
        path = absolute(target, state.cwd, self.world)
        if path in state.files:
            return state.files[path]
        origins = {f"file:{path}"} | ({"secret"} if is_secret_file(path) else set())
        return Value(UNKNOWN, frozenset(origins))

    def _call(self, command: Command) -> Call:
        return Call(command, self.world, self.scopes, NOTHING)

    def _record(self, command: Command, state: State) -> None:
        if command.name in READS and command.shown and "secret" in command.origins:
            self.effects.append(self._call(command).effect("read-secret", " ".join(command.args)))
        if command.name:
            self.commands.append(command)
            self.effects += effects_of_command(command, self.world, self.scopes)
        call = None
        for path in (*command.writes, *command.appends):
            call = call or self._call(command)
            if path.startswith(_TCP) and (command.name in SHELLS or command.name in ("exec", "")):
                self.effects.append(call.effect("remote-shell", path, scope="remote"))
            elif path.startswith(_TCP):
                secret = "secret" in command.origins | command.fed or any(map(is_secret_file, command.args))
                weight: Weight = "heavy" if secret else "light"
                self.effects.append(call.effect("upload", path, scope="remote", weight=weight))
            elif path not in _NOWHERE and not path.startswith("/dev/fd/"):
                truncates = path in command.writes and self.world.fs.kind(call.paths(path)[0]) == "file"
                self.effects += call.on_path("overwrite" if truncates else "write", path)
        for path in command.reads:
            if path.startswith(_TCP):
                self.effects.append(self._call(command).effect("remote-shell", path, scope="remote"))


class Redirected:
    """What the redirections of one command say."""

    __slots__ = ("_appends", "_reads", "_writes", "hides", "stdin")

    def __init__(self) -> None:
        self._reads: list[str] = []
        self._writes: list[str] = []
        self._appends: list[str] = []
        self.stdin: Value | None = None
        self.hides = False  # standard output goes elsewhere

    def add(self, operator: str, descriptor: str, target: str, content: Value) -> None:
        if operator in ("<", "<>") and descriptor in ("", "0"):
            self.stdin = content
        if operator == "<":
            self._reads.append(target)
            return
        (self._appends if operator in (">>", "&>>", "<>") else self._writes).append(target)
        if operator != "<>" and descriptor in ("", "1") and target not in ("/dev/stderr", "/dev/tty", "/dev/stdout"):
            self.hides = True

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(self._reads)

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(self._writes)

    @property
    def appends(self) -> tuple[str, ...]:
        return tuple(self._appends)


def joined_lines(printed: list[Value]) -> Value:
    """What several commands print, one after the other."""
    printed = [value for value in printed if value.text or value.origins]
    return values.joined(printed) if printed else EMPTY


def _program_of(language: str, args: tuple[str, ...]) -> tuple[str, str | None, str, tuple[str, ...]]:
    """The script, the code, the module and the arguments of an interpreter."""
    if language in ("awk", "gawk", "mawk", "nawk"):
        call = list(args)
        place = next(
            (
                n
                for n, word in enumerate(call)
                if not word.startswith("-") and (n == 0 or call[n - 1] not in ("-F", "-v", "-f"))
            ),
            None,
        )
        return ("", None, "", ()) if place is None or "-f" in call else ("", call[place], "", args[place + 1 :])
    if language in ("pwsh", "powershell"):
        place = next((n for n, word in enumerate(args) if word.lower() in ("-c", "-command")), None)
        return ("", None, "", ()) if place is None else ("", " ".join(args[place + 1 :]), "", ())
    if language in ("deno", "bun") and args[:1] in (("eval",), ("repl",)):
        return "", " ".join(args[1:2]), "", args[2:]
    options = INTERPRETERS.get(language) or ALSO_INTERPRET.get(language)
    if options is None:
        return "", None, "", ()
    words = args[1:] if language in ("deno", "bun") and args[:1] == ("run",) else args
    path, code, module = operand(words, options)
    at = next((words.index(each) for each in (code, path, module) if each and each in words), len(words) - 1)
    return path, code, module, words[at + 1 :]


def _as_command(words: tuple[str, ...]) -> tuple[str, ...]:
    """What a runner such as `uv run` runs, as a command: a script by its name is one for Python."""
    if words[0] == "-m" or words[0].endswith(".py"):
        return ("python", *words)
    return words


def _language(path: str, text: str) -> str:
    first = text.partition("\n")[0] if text.startswith("#!") else ""
    if path.endswith((".sh", ".bash", ".zsh")) or "sh" in posixpath.basename(
        first.split()[-1] if first.split() else ""
    ):
        return "shell"
    if path.endswith(".py") or "python" in first:
        return "python"
    if path.endswith((".js", ".mjs", ".cjs")) or "node" in first:
        return "node"
    return (
        "perl"
        if "perl" in first
        else "ruby"
        if "ruby" in first
        else ""
        if first or "." in posixpath.basename(path)
        else "shell"
    )


def _sum(text: str) -> int:
    return sum(int(part.replace(" ", "")) for part in re.findall(r"[-+]?\s*\d+", text))


def _bare(word: str) -> str:
    return word.replace('"', "").replace("'", "").replace("\\", "")


def _quoted(word: str) -> str:
    return word if UNKNOWN in word else shlex.quote(word)
