"""What the interpreter carries along a line: the state of a shell, how a command is reached, and its redirections."""

from typing import TYPE_CHECKING, Final

from billhook.effects.places import World, absolute
from billhook.effects.values import UNKNOWN_VALUE, Value

if TYPE_CHECKING:
    from billhook.effects.blocks import ScriptBlock
    from billhook.effects.interpret import Interpreter
    from billhook.effects.line_files import LineFiles

_OF_ONE_SHELL: Final = ("variables", "arrays", "functions", "aliases", "references", "stack")
_TERMINAL: Final = frozenset({"/dev/stderr", "/dev/tty", "/dev/stdout"})


class State:
    """The state of a shell at one point of the line."""

    def __init__(self, cwd: str) -> None:
        self.cwd = self.before = cwd
        self.folders: tuple[str, ...] = ()  # where it may be as well: after a `cd` that may have failed
        self.variables: dict[str, Value] = {}
        self.arrays: dict[str, list[Value]] = {}
        self.functions: dict[str, ScriptBlock] = {}
        self.aliases: dict[str, str] = {}
        self.arguments: list[Value] | None = None  # `$1` and on; None: those of the caller, which are not known
        self.input: Value | None = None  # what `read` reads, less with every line
        self.source: Value | None = None  # the same as it was when its block began
        self.stack: list[str] = []
        self.saved: frozenset[str] = frozenset()  # kinds of work that a stash or commit before an `&&` has kept
        self.saved_in = ""  # the repository of that
        self.staged_all = False
        self.references: dict[str, str] = {}  # `declare -n`

    @property
    def given(self) -> list[Value]:
        """The values of `$@`."""
        return self.arguments if self.arguments is not None else [UNKNOWN_VALUE]

    def copy(self, arguments: list[Value] | None = None) -> "State":
        """The state of a subshell; a script has its own arguments."""
        other = State.__new__(State)
        known = other.__dict__
        known.update(self.__dict__)
        for name in _OF_ONE_SHELL:
            known[name] = known[name].copy()
        if arguments is not None:
            other.arguments = arguments
        return other


class Run:
    """How a command is reached: in which shell, through which wrappers, with which input, and who sees its output."""

    __slots__ = ("background", "depth", "fed", "interpreter", "only_programs", "pipeline", "shown", "state", "via")

    def __init__(self, interpreter: "Interpreter", state: State, via: tuple[str, ...] = ()) -> None:
        self.interpreter, self.state, self.via = interpreter, state, via
        self.depth = len(via)
        self.fed: Value | None = None  # its standard input
        self.shown = True
        self.background = False
        self.only_programs = False  # its command is no function and no alias: `command rm`
        self.pipeline = ""  # that it is a part of, as written

    def inside(
        self, *via: str, fed: Value | None = None, shown: bool | None = None, state: State | None = None
    ) -> "Run":
        """The run of something that this command runs."""
        run = Run(self.interpreter, state or self.state, (*self.via, *via) if via else self.via)
        run.depth, run.fed = self.depth + 1, fed
        run.shown = self.shown if shown is None else shown
        run.background, run.pipeline = self.background, self.pipeline
        return run

    @property
    def world(self) -> World:
        return self.interpreter.world

    @property
    def files(self) -> "LineFiles":
        return self.interpreter.files

    def path(self, word: str) -> str:
        """A word as an absolute path."""
        return absolute(word, self.state.cwd, self.interpreter.world)


class Redirections:
    """Where the redirections of one command lead."""

    __slots__ = ("appends", "hides", "reads", "stdin", "writes")

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.appends: list[str] = []
        self.stdin: Value | None = None
        self.hides = False  # standard output goes elsewhere

    def add(self, operator: str, descriptor: str, target: str, content: Value) -> None:
        """Take one redirection; `content` is what the target holds."""
        if operator in ("<", "<>") and descriptor in ("", "0"):
            self.stdin = content
        if operator == "<":
            self.reads.append(target)
            return
        (self.appends if operator in (">>", "&>>", "<>") else self.writes).append(target)
        if operator != "<>" and descriptor in ("", "1") and target not in _TERMINAL:
            self.hides = True
