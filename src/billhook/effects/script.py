"""Shell text read into the commands written in it; `shell.py` unwraps what those run in turn.

A hand-written reader: one pass, no recursion over the text, no backtracking. A general parser was tried first, but
tree-sitter-bash needs seconds for 16 KiB of `a|a|a|` (quadratic, and it can't be interrupted), and it reads
`pu\\<newline>sh` as two words. A guard can afford neither. What this reader is not sure of makes `complete` false.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from billhook.effects.effect import UNKNOWN

MAX_STEPS: Final = 100_000
MAX_NESTING: Final = 5_500
MAX_HEREDOC_DEPTH: Final = 8

_PLAIN = re.compile(r"[^\s'\"\\$`;&|<>()#\0]+")
_BLANKS = re.compile(r"[ \t]+")
_ARGUMENTS = re.compile(r"(?:[^\s'\"\\$`;&|<>()#{}\0]++(?:[ \t]+|(?=[\n;&|)]))){1,256}")
"""Arguments that are nothing but letters, up to the end of the command; most words of long commands are."""
_LINES = re.compile(r"[ \t\n]+")
_IN_DOUBLE = re.compile(r'[^"\\$`\0]+')
_IN_HEREDOC = re.compile(r"[^\\$`\0]+")
_IN_EXPANSION = re.compile(r"[^'\"\\$`{}()\[\]\0]+")
_ANSI = re.compile(r"\$'([^'\\]*(?:\\.[^'\\]*)*)'", re.S)
_BACKTICKS = re.compile(r"`([^`\\]*(?:\\.[^`\\]*)*)`", re.S)
_NAME = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-])")
_ASSIGNMENT = re.compile(r"[A-Za-z_](?:\w++|\\\n)*+(?:\[[^\]\n]*\])?(?:\\\n)*\+?(?:\\\n)*=")
_DEFAULT = re.compile(r"\$\{\w+:?[-+=?]")
_OPERATOR = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|>>|>\||>&|<|>")
_SEPARATOR = re.compile(r";;&|;;|;&|;|&&|&|\|\||\|&|\|")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.S)
_DESCRIPTOR = re.compile(r"[0-9]+|\{[A-Za-z_]\w*\}")
_EMPTY = re.compile(r"[ \t]*\)")
_TWO_WORDS = re.compile(r"[A-Za-z_][\w-]*[ \t]+[A-Za-z_./]")
_LETTERS: Final = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))
_STARTS: Final = {"for": "for", "select": "for", "case": "case", "function": "function", "[[": "test"}
_RESERVED: Final = frozenset(
    {"if", "then", "else", "elif", "fi", "while", "until", "do", "done", "{", "}", "!", "esac"}
)
_CLOSERS: Final = {"${": "}", '"${': "}", '"${-': "}", "$[": "]", "(": ")"}
_LONGEST_SHOWN: Final = 2_000  # of a command's text, which is shown to people
_LONGEST_KEPT: Final = 4_096
_MOST_KEPT: Final = 64
_ARITHMETIC: Final = frozenset({"((", "(", "$["})
_GLOB: Final = frozenset("*?[")


class Expansion(msgspec.Struct):
    """A part of a word that the shell replaces."""

    kind: str  # var, sub, backtick, number, input and output (process substitution), array
    text: str = ""  # `X` of `$X`, `X:-y` of `${X:-y}`, the inside of backticks
    items: "list[Item]" = []  # what a substitution runs
    quoted: bool = False
    words: "list[RawWord]" = []  # the elements of an array

    @property
    def runs(self) -> bool:
        """Whether the shell may run commands to replace it."""
        return self.kind in ("sub", "backtick", "input", "output") or "$(" in self.text or "`" in self.text


RawWord = tuple[str | Expansion, ...]
"""A word in its parts: plain text, quotes removed, and expansions."""


class ScriptRedirect(msgspec.Struct):
    """One redirection as written. `body` is the text of a here-document or here-string, read when its lines are."""

    operator: str
    target: str
    body: str | None = None
    descriptor: str = ""
    raw: RawWord = ()  # the target in its parts, or the body of a here-document


class ScriptCommand(msgspec.Struct):
    """One simple command as written. `feeder` is the command piped into it, when that is a simple one."""

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    redirects: tuple[ScriptRedirect, ...] = ()
    piped: bool = False
    feeder: "ScriptCommand | None" = None
    raw: tuple[RawWord, ...] = ()  # the words in their parts
    raw_assignments: tuple[RawWord, ...] = ()
    text: str = ""


class Keyword(msgspec.Struct):
    """An item between commands: a separator, a reserved word, the head of a loop or of a function."""

    word: str
    name: str = ""  # the variable of a loop, the name of a function
    words: list[RawWord] | None = None  # the list of a `for` loop; None: the positional parameters
    items: "list[Item] | None" = None  # the commands of a subshell


Item = ScriptCommand | Keyword


class ParsedScript(msgspec.Struct):
    """One parsed text: its commands, the code in its backticks, and whether all of it was understood.

    `items` has the same commands with the items between them; substitutions are inside their words.
    """

    commands: list[ScriptCommand]
    backticks: list[str]
    complete: bool
    steps: int = 0
    items: list[Item] = []


_recent: dict[str, ParsedScript] = {}
"""Rules and the interpreter read the same line, one after the other."""


def read(text: str, max_steps: int = MAX_STEPS) -> ParsedScript:
    """Read `text` as a shell would. Never raises; time is linear in the text, at most `max_steps` tokens are read."""
    kept = _recent.get(text)
    if kept is not None and kept.steps < max_steps:
        return kept
    reader = _ScriptReader(text, max_steps)
    reader.run()
    found = ParsedScript(reader.commands, reader.backticks, reader.complete, reader.steps, reader.items)
    if len(text) <= _LONGEST_KEPT and found.steps < max_steps:
        if len(_recent) >= _MOST_KEPT:
            _recent.clear()
        _recent[text] = found
    return found


def read_text(text: str, max_steps: int = MAX_STEPS) -> RawWord:
    """Read `text` as the inside of double quotes, in its parts."""
    reader = _ScriptReader(text, max_steps)
    reader.expand()
    return tuple(reader.tokens)


def evaluates(word: str) -> bool:
    """Whether the shell runs a substitution in `word` if it takes it for a variable or a number: `a[$(x)]`."""
    subscript = word.partition("[")[2]
    return "$(" in subscript or "${" in subscript or "`" in subscript


def ansi_c(text: str) -> str:
    """The inside of `$'...'` with its escapes replaced."""

    def replace(found: re.Match[str]) -> str:
        escape = found[1]
        kind = escape[0]
        if kind in "xuU" and len(escape) > 1:
            code = int(escape[1:], 16)
            return chr(code) if 0 < code < 0x110000 else ""
        if kind in "01234567":
            return chr(int(escape, 8) & 0xFF)
        if kind == "c" and len(escape) > 1:
            return chr(ord(escape[1]) & 0x1F)
        return _LETTERS.get(kind, escape if kind in "\\'\"?" else found[0])

    parts: list[str] = []
    at = 0
    for found in _ESCAPE.finditer(text):
        letter = replace(found)
        if letter == "\0":  # bash ends the string there; one that is not escaped is UNKNOWN
            return "".join((*parts, text[at : found.start()]))
        parts += (text[at : found.start()], letter)
        at = found.end()
    return "".join((*parts, text[at:]))


def _shown(tokens: Sequence[str | Expansion]) -> str:
    """A word as text: one UNKNOWN for expansions in a row."""
    parts: list[str] = []
    for token in tokens:
        if isinstance(token, str):
            parts.append(token)
        elif parts[-1:] != [UNKNOWN]:
            parts.append(UNKNOWN)
    return "".join(parts)


def _trimmed(text: str) -> str:
    """A command as written, without what separates it from the next."""
    text = text.rstrip(" \t\n;&|")
    while text.endswith(")") and text.count(")") > text.count("("):
        text = text[:-1].rstrip(" \t\n;&|")
    return text


_HOLDS = re.compile(r"\(\(\s*(?:1|true)\s*\)\)|\[\[ 1 \]\]")
_FOREVER: Final = "((;;"
_ENDLESS_HEAD = re.compile(r"\(\([^;()]{0,80};\s*1?\s*;")
_TRUE: Final = ScriptCommand(("true",))
"""What a condition that always holds is read as: `while [[ 1 ]]`, `for ((;;))`."""


class _Frame:
    """One list of commands being read: the whole text, or the inside of a parenthesis."""

    def __init__(self, closer: str, state: str = "command") -> None:
        self.closer = closer
        self.state = state  # command, array, arithmetic, case, for, function, pattern, test
        self.cases = 0
        self.piped = False
        self.before: ScriptCommand | None = None
        self.tokens: list[str | Expansion] | None = None  # the word being read, in its parts
        self.modes: list[str] = []  # the quotes and expansions open in that word
        self.start = 0
        self.items: list[Item] = []
        self.opened: Expansion | None = None  # the `${` or `$((` that is being read, how deep, and where it began
        self.opened_depth = self.opened_at = 0
        self.begin = -1  # where the command began
        self.head: list[RawWord] = []  # the words of a loop's head, or of an array
        self.quoted = self.globbed = self.braced = False
        self.redirect = self.descriptor = ""
        self.clear()

    def clear(self) -> None:
        self.arguments: list[str] = []
        self.assignments: list[str] = []
        self.redirects: list[ScriptRedirect] = []
        self.raw: list[RawWord] = []
        self.raw_assignments: list[RawWord] = []
        self.begin = -1

    @property
    def takes_arguments(self) -> bool:
        """Whether a word that begins here is an argument, and none of its letters means anything to the shell."""
        said = self.arguments
        return (
            bool(said) and self.tokens is None and said[0] != "time" and self.state == "command" and not self.redirect
        )

    @property
    def at_command(self) -> bool:
        """Whether a reserved word counts as one here: at the start of a command, or after `time`."""
        if self.assignments:
            return False
        said = self.arguments
        return not said or (said[0] == "time" and all(word in ("time", "-p", "--") for word in said))


class _ScriptReader:
    def __init__(self, text: str, max_steps: int, heredoc_depth: int = 0) -> None:
        self.text = text
        self.end = len(text)
        self.at = 0
        self.steps = 0
        self.max_steps = max_steps
        self.heredoc_depth = heredoc_depth
        self.complete = UNKNOWN not in text
        self.commands: list[ScriptCommand] = []
        self.backticks: list[str] = []
        self.frames = [_Frame("")]
        self.items = self.frames[0].items
        self.tokens: list[str | Expansion] = []
        self.pending: list[
            tuple[ScriptRedirect, bool]
        ] = []  # here-documents still to be read, and whether they are literal

    def run(self) -> None:
        self.loop()
        if self.at < self.end or len(self.frames) > 1 or self.frames[0].modes:
            self.complete = False
        while self.frames:
            frame = self.frames.pop()
            self.end_command(frame, "")
            self.complete = self.complete and frame.state == "command" and not frame.cases
        self.complete = self.complete and not self.pending

    def expand(self) -> str:
        """Read the whole text as the lines of a here-document and return them, expansions as UNKNOWN."""
        frame = self.frames[0]
        frame.tokens, frame.modes = self.tokens, ["heredoc"]
        self.loop()
        self.complete = self.complete and self.at >= self.end and len(self.frames) == 1 and frame.modes == ["heredoc"]
        while len(self.frames) > 1:
            self.end_command(self.frames.pop(), "")
        return _shown(self.tokens)

    def loop(self) -> None:
        while self.at < self.end and self.steps < self.max_steps:
            self.steps += 1
            frame = self.frames[-1]
            if not frame.modes:
                self.step(frame)
            elif len(frame.modes) <= MAX_NESTING:
                self.step_in_quotes(frame, frame.modes[-1])
            else:
                return
            if len(self.frames) > MAX_NESTING:
                return

    # words

    def add(self, frame: _Frame, token: str | Expansion) -> None:
        if frame.tokens is None:
            frame.tokens, frame.start = [], self.at
            frame.quoted = frame.globbed = frame.braced = False
            if frame.begin < 0:
                frame.begin = self.at
        frame.tokens.append(token)

    def unknown(self, frame: _Frame, expansion: Expansion | None = None) -> None:
        if frame.opened is None:  # else it is part of that expansion, which is read again when its value is needed
            self.add(frame, expansion or Expansion("number"))

    def open(self, frame: _Frame, closer: str, length: int, state: str = "command") -> list[Item]:
        self.frames.append(_Frame(closer, state))
        self.at += length
        return self.frames[-1].items

    def open_expansion(self, frame: _Frame, kind: str, length: int) -> None:
        """Begin `${` or `$((`; its text is known at its end."""
        expansion = Expansion(kind, quoted=bool(frame.modes))
        self.unknown(frame, expansion)
        if frame.opened is None:
            frame.opened, frame.opened_at, frame.opened_depth = expansion, self.at + length, len(frame.modes)

    def close_expansion(self, frame: _Frame, length: int) -> None:
        if frame.opened is not None and len(frame.modes) == frame.opened_depth:
            frame.opened.text = self.text[frame.opened_at : self.at - length]
            frame.opened = None

    def step(self, frame: _Frame) -> None:
        text, at = self.text, self.at
        if frame.takes_arguments and (found := _ARGUMENTS.match(text, at)):
            self.add_arguments(frame, found[0].split())
            self.at = found.end()
            return
        plain = _PLAIN.match(text, at)
        if plain:
            chunk = plain[0]
            self.add(frame, chunk)
            frame.globbed = frame.globbed or not _GLOB.isdisjoint(chunk)
            frame.braced = frame.braced or "{" in chunk
            self.at = plain.end()
            if self.at >= self.end or text[self.at] not in " \t":
                return
            at = self.at
        char = text[at]
        if blanks := _BLANKS.match(text, at):
            self.finish_word(frame)
            self.at = blanks.end()
        elif char == "\n":
            self.newline(frame)
        elif char == "'":
            self.single_quotes(frame)
        elif char == '"':
            self.open_quotes(frame, '"', 1)
        elif char == "\\":
            if not text.startswith("\n", at + 1):
                self.add(frame, text[at + 1 : at + 2] or char)
                frame.quoted = True
            self.at += 2
        elif char in "$`":
            self.expansion(frame)
        elif char == UNKNOWN:
            self.unknown(frame)
            self.at += 1
        elif char == "#" and frame.tokens is None:
            newline = text.find("\n", at)
            self.at = self.end if newline < 0 else newline
        elif char in "<>" or text.startswith("&>", at):
            self.redirection(frame)
        elif char == "(":
            self.parenthesis(frame)
        elif char == ")":
            self.close(frame)
        elif char in ";&|":
            separator = _SEPARATOR.match(text, at)
            self.end_command(frame, separator[0] if separator else char)
            self.at = separator.end() if separator else at + 1
        else:  # `#` inside a word; white space that is a letter to the shell
            self.add(frame, char)
            self.at += 1

    def add_arguments(self, frame: _Frame, words: list[str]) -> None:
        """Take words that need no second look; they cost little."""
        frame.arguments += words
        frame.raw += zip(words, strict=False)
        self.steps += len(words) >> 2

    def newline(self, frame: _Frame) -> None:
        self.end_command(frame, "\n")
        self.at += 1
        if self.pending:
            self.read_heredocs()
        elif more := _LINES.match(self.text, self.at):
            self.at = more.end()

    def open_quotes(self, frame: _Frame, mode: str, length: int) -> None:
        self.add(frame, "")
        frame.quoted = True
        frame.modes.append(mode)
        self.at += length

    def single_quotes(self, frame: _Frame) -> None:
        close = self.text.find("'", self.at + 1)
        if close < 0:
            self.complete = False
            close = self.end
        self.add(frame, self.text[self.at + 1 : close])
        frame.quoted = True
        self.at = close + 1

    def step_in_quotes(self, frame: _Frame, mode: str) -> None:
        text, at = self.text, self.at
        plain = (_IN_DOUBLE if mode == '"' else _IN_HEREDOC if mode == "heredoc" else _IN_EXPANSION).match(text, at)
        says = mode in ('"', "heredoc") and len(frame.modes) == 1  # else it is part of an expansion
        if plain:
            if says:
                self.add(frame, plain[0])
            self.at = plain.end()
            return
        char = text[at]
        if mode in _ARITHMETIC and char in "'\"\\":
            self.complete = False  # what is quoted here is expanded once more
        if char == "\\":
            after = text[at + 1 : at + 2]
            if mode in _CLOSERS and after in ("$", "`"):
                self.complete = False
            if says and after != "\n":
                self.add(frame, after if after in ('$`\\"' if mode == '"' else "$`\\") else char + after)
            self.at += 2
        elif char in "$`":
            self.expansion(frame)
        elif char == UNKNOWN:
            self.unknown(frame)
            self.at += 1
        elif char == '"':
            if mode == '"':
                frame.modes.pop()
            else:
                self.complete = self.complete and frame.modes[0] != "heredoc"
                frame.modes.append('"')
            self.at += 1
        elif mode == "((" and char == ")":
            if text.startswith("))", at):
                self.at += 2
            else:  # a subshell after all: `((a); b)`
                self.complete = False
                self.at += 1
            frame.modes.pop()
            self.close_expansion(frame, 2)
            if frame.state in ("arithmetic", "for") and not frame.modes:
                self.finish_word(frame)
        else:
            self.at += 1
            if char == "'" and mode == "${":
                self.quoted_in_expansion()
            elif char == "'" and mode == '"${':
                self.complete = False  # a quote in a pattern, a letter elsewhere
            elif char == _CLOSERS.get(mode):
                frame.modes.pop()
                self.close_expansion(frame, 1)
            elif (char == "(" and mode in ("((", "(")) or (char == "[" and mode == "$["):
                frame.modes.append("(" if char == "(" else "$[")

    def quoted_in_expansion(self) -> None:
        close = self.text.find("'", self.at)
        stop = close if close >= 0 else self.end
        # what is quoted may be a subscript's, and is expanded once more
        dollar, backtick = self.text.find("$", self.at, stop), self.text.find("`", self.at, stop)
        self.complete = self.complete and close >= 0 and dollar < 0 and backtick < 0
        self.at = stop + 1

    def expansion(self, frame: _Frame) -> None:
        text, at = self.text, self.at
        bare = not frame.modes
        if text[at] == "`":
            found = _BACKTICKS.match(text, at)
            if not found:
                self.complete = False
                self.at = self.end
                return
            inner = re.sub(r"\\([`$\\])" if bare else r'\\([`$\\"])', r"\1", found[1])
            self.backticks.append(inner)
            self.unknown(frame, Expansion("backtick", inner, quoted=not bare))
            self.at = found.end()
        elif text.startswith("$((", at):
            self.open_expansion(frame, "number", 3)
            frame.modes.append("((")
            self.at += 3
        elif text.startswith("$(", at):
            substitution = Expansion("sub", quoted=not bare)
            self.unknown(frame, substitution)
            substitution.items = self.open(frame, ")", 2)
        elif text.startswith("${", at):
            self.open_expansion(frame, "var", 2)
            quoted = not bare and frame.modes[-1] in ('"', "heredoc", '"${', '"${-')
            default = frame.modes == ['"'] and _DEFAULT.match(text, at)
            frame.modes.append('"${-' if default else '"${' if quoted else "${")
            if text[at + 2 : at + 3] in (" ", "\n", "\t", "|"):  # `${ command; }` of newer shells
                self.complete = False
            self.at += 2
        elif text.startswith("$[", at):
            self.unknown(frame)
            frame.modes.append("$[")
            self.at += 2
        elif bare and text.startswith("$'", at):
            found = _ANSI.match(text, at)
            if not found:
                self.complete = False
            self.add(frame, ansi_c(found[1] if found else text[at + 2 :]))
            frame.quoted = True
            self.at = found.end() if found else self.end
        elif bare and text.startswith('$"', at):
            self.open_quotes(frame, '"', 2)
        elif name := _NAME.match(text, at):
            self.unknown(frame, Expansion("var", name[0][1:], quoted=not bare))
            self.at = name.end()
        else:
            in_expansion = not bare and frame.modes[-1] in _CLOSERS
            if text.startswith("$\\\n", at) or (in_expansion and text.startswith(("$'", '$"'), at)):
                self.complete = False
            self.add(frame, "$")
            self.at += 1

    def finish_word(self, frame: _Frame) -> None:
        if frame.tokens is None:
            return
        raw = tuple(frame.tokens)
        text = _shown(raw)
        bare = not frame.quoted and UNKNOWN not in text
        frame.tokens = frame.opened = None
        if frame.redirect:
            self.finish_redirect(frame, text, raw)
            return
        state = frame.state
        if state == "command":
            self.finish_argument(frame, text, bare, raw)
        elif state == "array":
            frame.head.append(raw)
        elif state == "arithmetic":
            self.keep_runs(frame, raw)
            self.keep_truth(frame, frame.start)
            frame.state = "command"
            if _TWO_WORDS.search(self.text, frame.start, min(self.at, frame.start + 4096)):
                self.complete = False  # commands to a shell without arithmetic
        elif state == "pattern":
            self.keep_runs(frame, raw)
            if bare and text == "esac":
                frame.cases -= 1
                frame.state = "command"
                frame.items.append(Keyword("esac"))
        elif state == "for":
            frame.arguments.append("")
            if not frame.head:  # `for ((i=$(x); ...`
                self.keep_runs(frame, raw)
            frame.head.append((_FOREVER,) if _ENDLESS_HEAD.match(self.text, frame.start) else raw)
            if len(frame.arguments) == 1 and bare:
                self.commands.append(ScriptCommand((), (text + "=",)))  # the variable is set
            elif bare and text in ("do", "{") and len(frame.arguments) == 2:
                self.finish_head(frame)
                frame.items.append(Keyword(text))
                self.restart(frame)
        elif state == "case":
            self.keep_runs(frame, raw)
            frame.arguments.append("")
            if bare and text == "in" and len(frame.arguments) >= 2:
                self.restart(frame, "pattern")
                frame.cases += 1
        elif state == "function":
            frame.items.append(Keyword("function", text))
            self.restart(frame)
        elif state == "test" and bare and text == "]]":
            self.keep_truth(frame, frame.start - len("[[ 1 "))
            self.restart(frame)
        elif state == "test":
            self.keep_runs(frame, raw)
            self.complete = self.complete and not evaluates(text)

    def keep_runs(self, frame: _Frame, raw: RawWord) -> None:
        """Keep a word that is no argument of a command for what its substitutions run: `[[ -n $(x) ]]`."""
        if any(isinstance(part, Expansion) and part.runs for part in raw):
            frame.items.append(Keyword("words", words=[raw]))

    def keep_truth(self, frame: _Frame, start: int) -> None:
        if _HOLDS.match(self.text, max(start, 0)):
            frame.items.append(_TRUE)

    def restart(self, frame: _Frame, state: str = "command") -> None:
        frame.clear()
        frame.state = state

    def finish_head(self, frame: _Frame) -> None:
        """The head of a `for` loop: its variable and, after `in`, its words."""
        name, *rest = frame.head or [()]
        listed = rest[1:] if rest and rest[0] == ("in",) else None
        if name == (_FOREVER,):
            frame.items += [Keyword("while"), _TRUE]
        else:
            frame.items.append(Keyword("for", "".join(part for part in name if isinstance(part, str)), listed))
        frame.head = []

    def finish_argument(self, frame: _Frame, text: str, bare: bool, raw: RawWord) -> None:
        if bare and (text in _RESERVED or text in _STARTS or text == "coproc") and frame.at_command:
            self.reserved(frame, text)
            return
        if not frame.arguments and (assigns := _ASSIGNMENT.match(self.text, frame.start)):
            frame.assignments.append(text)
            frame.raw_assignments.append(raw)
            in_word = assigns.end() <= self.at  # else the subscript has blanks
            self.complete = self.complete and in_word and not evaluates(text.partition("=")[0])
            return
        opened, closed = text.find("{"), text.rfind("}")
        if 0 <= opened < closed and frame.braced:
            inside = text[opened:closed]
            if "," in inside or ".." in inside:
                text = text[:opened] + UNKNOWN + text[closed + 1 :]
                raw = (Expansion("braces", words=[raw]),)
        if not frame.arguments and frame.globbed and text not in ("[", "*"):
            base = text.rfind("/") + 1
            places = [place for place in (text.find(char, base) for char in _GLOB) if place >= 0]
            if places:  # a pattern in the folder stays as written: the name is known nevertheless
                text = text[: min(places)] + UNKNOWN
        frame.arguments.append(text)
        frame.raw.append(raw)

    def reserved(self, frame: _Frame, word: str) -> None:
        self.emit(frame)  # `time` before a compound command
        if word not in ("for", "select", "function"):
            frame.items.append(Keyword(word))
        frame.begin = -1
        if word in _STARTS:
            frame.state = _STARTS[word]
        elif word == "esac" and frame.cases:
            frame.cases -= 1
        elif word == "coproc":
            self.complete = False

    # redirections

    def redirection(self, frame: _Frame) -> None:
        text, at = self.text, self.at
        if text.startswith(("<(", ">("), at):
            substitution = Expansion("input" if text[at] == "<" else "output", quoted=True)
            self.unknown(frame, substitution)
            substitution.items = self.open(frame, ")", 2)
            return
        if frame.state == "test":
            self.finish_word(frame)
            self.at += 1
            return
        named = frame.tokens is not None and not (frame.redirect or frame.quoted) and text[at] != "&"
        number = _shown(frame.tokens or ())
        if named and _DESCRIPTOR.fullmatch(number):
            frame.descriptor = number
            frame.tokens = None
        else:
            self.finish_word(frame)
            frame.descriptor = ""
        if frame.redirect or text.startswith("\\\n", at + 1):
            self.complete = False
        if frame.begin < 0:
            frame.begin = at
        operator = _OPERATOR.match(text, at)
        frame.redirect = operator[0] if operator else text[at]
        self.at += len(frame.redirect)

    def finish_redirect(self, frame: _Frame, target: str, raw: RawWord) -> None:
        redirect = ScriptRedirect(frame.redirect, target, None, frame.descriptor, raw)
        frame.redirect = ""
        frame.redirects.append(redirect)
        if redirect.operator in ("<<", "<<-"):
            if UNKNOWN in target:  # the delimiter is never expanded: the lines can't be told from what follows
                self.complete = False
            self.pending.append((redirect, frame.quoted))
        elif redirect.operator == "<<<":
            redirect.body = target

    def read_heredocs(self) -> None:
        pending, self.pending = self.pending, []
        for redirect, quoted in pending:
            body = self.heredoc_lines(redirect, quoted)
            redirect.body = body if quoted else self.heredoc_text(body, redirect)
            if quoted:
                redirect.raw = (body,)

    def heredoc_lines(self, redirect: ScriptRedirect, quoted: bool) -> str:
        tabs = redirect.operator == "<<-"
        if not tabs and (body := self.plain_heredoc(redirect.target, quoted)) is not None:
            return body
        lines: list[str] = []
        begun: list[str] = []  # what a backslash joined to the line being read
        while self.at < self.end:
            newline = self.text.find("\n", self.at)
            stop = self.end if newline < 0 else newline
            line = self.text[self.at : stop]
            self.at = min(stop + 1, self.end)
            if tabs and not begun:
                line = line.lstrip("\t")
            if not quoted and (len(line) - len(line.rstrip("\\"))) % 2:
                begun.append(line[:-1])
                continue
            if begun:
                line = "".join((*begun, line))
                begun = []
                self.complete = self.complete and line != redirect.target  # shells differ in what ends it
            if line == redirect.target:
                break
            lines.append(line + "\n")
        else:
            self.complete = False
        return "".join((*lines, *begun))

    def plain_heredoc(self, target: str, quoted: bool) -> str | None:
        """The lines up to the delimiter, where no backslash joins any; None where it has to be read line by line."""
        end = self.text.find(f"\n{target}\n", self.at - 1)
        last = self.end if end < 0 else end + 1
        if not quoted and self.text.find("\\\n", self.at, last) >= 0:
            return None
        if end >= 0:
            body = self.text[self.at : last]
            self.at = last + len(target) + 1
            return body
        body = self.text[self.at : last]
        if body == target or body.endswith(("\\", f"\n{target}")):
            return None
        self.at, self.complete = self.end, False
        return body if not body or body.endswith("\n") else f"{body}\n"

    def heredoc_text(self, body: str, redirect: ScriptRedirect) -> str:
        redirect.raw = (body,)
        if "$" not in body and "`" not in body and "\\" not in body:
            return body
        if self.heredoc_depth >= MAX_HEREDOC_DEPTH:
            self.complete = False
            return UNKNOWN
        inner = _ScriptReader(body, self.max_steps - self.steps, self.heredoc_depth + 1)
        text = inner.expand()
        redirect.raw = tuple(inner.tokens)
        self.commands += inner.commands
        self.backticks += inner.backticks
        self.steps += inner.steps
        self.complete = self.complete and inner.complete
        return text

    # commands

    def parenthesis(self, frame: _Frame) -> None:
        text, at, begun = self.text, self.at, frame.tokens is not None
        at_command = frame.state == "command" and frame.at_command
        if frame.state in ("pattern", "test"):
            self.finish_word(frame)
            self.at += 1
        elif begun and not frame.redirect and text[at - 1] == "=" and _ASSIGNMENT.match(text, frame.start):
            array = Expansion("array")
            self.unknown(frame, array)
            self.open(frame, ")", 1, "array")
            array.words = self.frames[-1].head
        elif text.startswith("((", at) and not begun and (frame.state == "for" or at_command):
            if frame.state == "command":
                self.emit(frame)
                frame.state = "arithmetic"
            if text.startswith("(((", at):  # nested subshells to some shells
                self.complete = False
            self.unknown(frame)
            frame.modes.append("((")
            self.at += 2
        else:
            self.finish_word(frame)
            if frame.state == "command" and len(frame.arguments) == 1 and (empty := _EMPTY.match(text, at + 1)):
                frame.items.append(Keyword("function", frame.arguments[0]))
                frame.clear()
                self.at = empty.end()
            else:
                if not (frame.state == "command" and frame.at_command):
                    self.complete = False
                self.emit(frame)
                frame.items.append(Keyword("(", items=self.open(frame, ")", 1)))

    def close(self, frame: _Frame) -> None:
        self.at += 1
        if frame.state in ("pattern", "test"):
            self.finish_word(frame)  # which may be `esac`
        if frame.state == "pattern":
            frame.state = "command"
        elif frame.state == "test":
            return
        elif frame.closer == ")":
            self.end_command(frame, ")")
            self.complete = self.complete and frame.state in ("command", "array") and not frame.cases
            self.frames.pop()
        else:
            self.complete = False
            self.end_command(frame, ")")

    def end_command(self, frame: _Frame, separator: str) -> None:
        frame.modes.clear()
        self.finish_word(frame)
        if frame.redirect:
            self.complete = False
            frame.redirect = ""
        state = frame.state
        if state in ("pattern", "array") or (state == "test" and separator != ";"):
            return
        if state in ("case", "function") and separator == "\n":
            return
        if state == "for":
            self.finish_head(frame)
        if state != "command":  # the head of a `for`, or one cut short
            self.restart(frame)
            return
        last = self.emit(frame)
        if separator and separator != ")":
            frame.items.append(Keyword(separator))
        if separator in ("|", "|&"):
            frame.piped, frame.before = True, last
        elif separator != "\n" or last is not None:
            frame.piped, frame.before = False, None
        if separator in (";;", ";&", ";;&") and frame.cases:
            frame.state = "pattern"

    def emit(self, frame: _Frame) -> ScriptCommand | None:
        if not (frame.arguments or frame.assignments or frame.redirects):
            return None
        said = tuple(frame.arguments), tuple(frame.assignments), tuple(frame.redirects)
        end = min(self.at, frame.begin + _LONGEST_SHOWN)
        text = self.text[frame.begin : end] if frame.begin >= 0 else ""
        raw = tuple(frame.raw), tuple(frame.raw_assignments)
        command = ScriptCommand(*said, frame.piped, frame.before, *raw, _trimmed(text))
        self.commands.append(command)
        frame.items.append(command)
        frame.clear()
        return command
