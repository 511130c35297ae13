"""What the interpreter carries along a line: its commands as a tree, values, the state of a shell, and redirections."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from billhook.effects.effect import UNKNOWN
from billhook.effects.places import World, absolute
from billhook.effects.script import Item, Keyword, ScriptCommand, ScriptRedirect

if TYPE_CHECKING:
    from billhook.effects.interpret import Interpreter
    from billhook.effects.line_changes import LineFiles

NOTHING: Final[frozenset[str]] = frozenset()
MOST_FIELDS: Final = 64  # of one brace expansion, one array, one loop
LONGEST_VALUE: Final = 65_536


class Value(NamedTuple):
    """Text as far as it is known, and where it comes from: "remote", "decoded", "secret", "computed", "file:PATH"."""

    text: str
    origins: frozenset[str] = NOTHING

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text


UNKNOWN_VALUE: Final = Value(UNKNOWN)
EMPTY: Final = Value("")


def joined(values: Sequence[Value], by: str = "") -> Value:
    """Several values as one."""
    if len(values) == 1:
        return values[0]
    return Value(by.join(value.text for value in values)[:LONGEST_VALUE], NOTHING.union(*(v.origins for v in values)))


# the commands of a script as a tree: pipelines, loops, functions, subshells

_OPENS: Final = {"{": "}", "if": "fi", "while": "done", "until": "done", "for": "done", "case": "esac"}
_CLOSES: Final = frozenset(_OPENS.values())


class ScriptBlock(msgspec.Struct):
    """A compound command: its kind is the word that opens it, or `words` for words that are only expanded."""

    kind: str
    body: "list[Node]" = []
    name: str = ""  # of a function, or a loop's variable
    head: Keyword | None = None
    items: Sequence[Item] | None = None  # of a subshell, structured when it runs
    redirects: tuple[ScriptRedirect, ...] = ()

    @property
    def nodes(self) -> "list[Node]":
        return self.body if self.items is None else structured(self.items)


Node = ScriptCommand | ScriptBlock | str
"""A string is a separator: `;`, `&&`, `|` ..."""


def structured(items: Sequence[Item]) -> list[Node]:
    """Flat items as a tree. A closing word without its opening one, or none at all, is read as a separator."""
    root: list[Node] = []
    stack: list[ScriptBlock] = []
    nodes, function = root, ""
    for item in items:
        if isinstance(item, ScriptCommand):
            last = nodes[-1] if nodes else None
            if isinstance(last, ScriptBlock) and not item.words and not item.assignments:
                last.redirects = item.redirects
            else:
                nodes.append(item)
            continue
        word = item.word
        if word == "function":
            function = item.name
        elif word == "words":
            nodes.append(ScriptBlock(word, head=item))
        elif word == "(" or word in _OPENS:
            block = ScriptBlock(word, [], item.name, item, item.items)
            nodes.append(ScriptBlock("function", [block], function) if function else block)
            function = ""
            if word != "(":
                stack.append(block)
                nodes = block.body
        elif word in _CLOSES and stack:
            stack.pop()
            nodes = stack[-1].body if stack else root
            if nodes and isinstance(last := nodes[-1], ScriptBlock) and last.kind == "function":
                continue
        else:
            nodes.append(word if word in ("|", "|&", "&&", "||", "&") else ";")
    return root


def pipelines(nodes: Sequence[Node]) -> Iterator[tuple[list[ScriptCommand | ScriptBlock], str]]:
    """The pipelines of a list of commands, each with what follows it: `&&`, `||`, `&` or `;`."""
    stages: list[ScriptCommand | ScriptBlock] = []
    piped = False
    for node in nodes:
        if not isinstance(node, str):
            if stages and not piped:
                yield stages, ";"
                stages = []
            stages.append(node)
            piped = False
        elif node in ("|", "|&"):
            piped = True
        elif stages and not (piped and node == ";"):  # a line may end after `|`
            yield stages, node
            stages = []
    if stages:
        yield stages, ";"


_PAUSES: Final = frozenset({"wait", "sleep", "break", "exit", "return", "read"})


def starts_forever(nodes: Sequence[Node], endless: frozenset[str]) -> bool:
    """Whether a loop whose condition has only such words starts commands in the background, and never pauses."""
    found = list(pipelines(nodes))
    if len(found) < 2:
        return False
    (condition, _), *body = found
    plain = [(stages[0].words[:1], end) for stages, end in body if isinstance(stages[0], ScriptCommand)]
    pauses = any(words and words[0] in _PAUSES and end != "&" for words, end in plain)
    is_endless = isinstance(condition[0], ScriptCommand) and endless.issuperset(condition[0].words)
    return is_endless and not pauses and any(end == "&" for _, end in body)


# the state of a shell, how a command is reached, and its redirections

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
        self.locals: set[str] = set()  # of the function that runs
        self.constants: frozenset[str] = frozenset()  # `readonly`

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
