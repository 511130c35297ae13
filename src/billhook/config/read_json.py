"""Read JSON with comments and trailing commas into nodes.

A tokenizer and a stack of open brackets, because a parser that recovers from errors by itself is worse: tree-sitter
takes the next key for the value of `"a": NaN`, needs 15 seconds for 128 KiB of wrong text (quadratic), and is slow to
import. Here a piece between two commas that is not exactly one value is left out. If brackets or quotes may not match,
nothing is read at all.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Never, TypeAlias

import msgspec

from billhook.config import nodes
from billhook.config.nodes import MAX_DEPTH, FieldNodes, LineStarts, Node, Read, Scalar, quoted
from billhook.core.text import Finding

Token: TypeAlias = tuple[str, int, int]
"""Its kind, start and end. The kind of strings is `"`, of numbers and words `w`; brackets and marks are their kind."""

_TOKEN = re.compile(
    r"""[ \t\r\n]+ | //[^\n]*+ | /\*.*?\*/
    | (?P<open_comment>/\*)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*+")
    | (?P<mark>[\[\]{},:;])
    | (?P<single>'(?:[^'\\\n"{}\[\]]|\\[^\n])*+')
    | (?P<word>(?:[^\s"'\[\]{},:;=/]|/(?![/*]))++)
    | (?P<stray>.)""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_CONSTANTS: dict[str, Scalar] = {"true": True, "false": False, "null": None}
_ESCAPE_OR_FAULT = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])|(?P<fault>\\.|[\x00-\x1f])', re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_OUT_OF_STEP = re.compile(r"[{}\[\],:]")
_NEVER_CLOSED = {
    "/*": ("unclosed comment", "add `*/`"),
    '"': ('a `"` that is not closed in its line', 'add the `"`; write a line break in a string as `\\n`'),
    "'": ("a single quote outside of a string", "use double quotes"),
}
_CLOSES = {"{": "}", "[": "]"}
_KINDS = {"string": '"', "word": "w"}
_INSTEAD = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}
_INSTEAD.update(dict.fromkeys(("none", "nil", "undefined", "null"), "null"))


class _UnreadableJsonError(Exception):
    """Nothing of the file can be read."""


class _Item(msgspec.Struct):
    """A value, or the colon after a key."""

    kind: str  # `"` a string, `:` a colon, `{` a mapping, `v` any other value
    start: int
    node: Node | None = None  # None: it can't be read, and that was reported


class _OpenJson(msgspec.Struct):
    """A mapping or list whose end has not been read yet."""

    mapping: bool
    start: int
    depth: int
    pairs: list[tuple[Node, Node]] = []
    values: list[Node] = []
    piece: list[_Item] = []  # the items since the last comma
    lost: bool = False  # a part can't be read, and without it the value would have another meaning


def read_json(text: str, file: str) -> Read:
    """Read one JSON document; never raises. `//` and `/* */` comments and trailing commas are accepted."""
    reader = _JsonReader(text, file)
    try:
        node = reader.read(_tokens(text))
    except _UnreadableJsonError:
        return nodes.unread(*reader.findings)
    return Read(node, nodes.in_order(reader.findings))


def _tokens(text: str) -> Iterator[Token]:
    """The tokens, up to a comment or quote that is never closed. Unexpected characters are `stray` tokens."""
    for found in _TOKEN.finditer(text):
        match found.lastgroup:
            case None:
                continue
            case "mark":
                yield found[0], found.start(), found.end()
            case group:
                yield _KINDS.get(group, group), found.start(), found.end()
                if found[0] in _NEVER_CLOSED:
                    return


class _JsonReader:
    """The nodes of one text, while it is read."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.lines = LineStarts(text)
        self.findings: list[Finding] = []
        self.stack: list[_OpenJson] = []
        self.roots: list[_Item] = []
        self.checked = 0  # the line whose quotes were checked last

    def report(self, message: str, start: int, hint: str, code: str = "BH104") -> None:
        self.findings.append(Finding(code, message, self.file, *self.lines.place(start), hint))
        if len(self.findings) >= nodes.MAX_FINDINGS:
            raise _UnreadableJsonError  # after so many errors nothing is certain

    def stop(self, message: str, start: int, hint: str, code: str = "BH104") -> Never:
        self.report(message, start, hint, code)
        raise _UnreadableJsonError

    def read(self, tokens: Iterable[Token]) -> Node | None:
        for kind, start, end in tokens:
            if kind in "{[":
                self.open(kind, start)
            elif kind in "}]":
                self.close(kind, start)
            elif kind in ",;":
                self.comma(kind, start)
            elif kind == ":":
                self.put(_Item(":", start))
            elif self.stack or not self.roots or kind == "open_comment":
                self.put(self.leaf(kind, start, end))
            else:
                self.after_the_end(_Item("v", start))
        if self.stack:
            first = self.stack[-1]
            mark = "{" if first.mapping else "["
            self.stop(f"this `{mark}` is never closed", first.start, f"add its `{_CLOSES[mark]}`")
        return self.root()

    def root(self) -> Node | None:
        if not self.roots:
            return nodes.empty()
        if self.roots[0].kind == ":":
            self.stop("a `:` outside of a mapping", self.roots[0].start, "put the whole file between `{` and `}`")
        return self.roots[0].node

    def put(self, item: _Item) -> None:
        if self.stack:
            self.stack[-1].piece.append(item)
            return
        if self.roots:
            self.after_the_end(item)
        if item.node is None and item.kind != ":":
            raise _UnreadableJsonError  # reported, and nothing else could be the document
        self.roots.append(item)

    def after_the_end(self, item: _Item) -> Never:
        if item.kind == ":":
            self.stop("a `:` outside of a mapping", item.start, "put the whole file between `{` and `}`")
        hint = "keep one document, and move the other to a separate file"
        self.stop("a second document begins here", item.start, hint, "BH108")

    # Brackets and commas

    def open(self, mark: str, start: int) -> None:
        if not self.stack and self.roots:
            self.after_the_end(_Item("v", start))
        if len(self.stack) >= MAX_DEPTH:
            self.stop(f"nested deeper than {MAX_DEPTH} levels", start, "write it with fewer levels", "BH106")
        self.stack.append(_OpenJson(mark == "{", start, len(self.stack)))

    def close(self, mark: str, start: int) -> None:
        if not self.stack:
            self.stop(f"this `{mark}` closes nothing", start, f"remove the `{mark}`, or add what it should close")
        done = self.stack.pop()
        opened = "{" if done.mapping else "["
        if _CLOSES[opened] != mark:
            line, column = self.lines.place(done.start)
            message = f"`{mark}` can't close the `{opened}` of line {line}, column {column}"
            self.stop(message, start, f"add the missing `{_CLOSES[opened]}` before it, or remove one of the two")
        if done.piece:
            self.judge(done)
        value = FieldNodes(tuple(done.pairs)) if done.mapping else tuple(done.values)
        self.findings.extend(nodes.twice(done.pairs, self.file))
        node = None if done.lost else Node(value, *self.lines.place(done.start), done.start, start + 1)
        self.put(_Item("{" if done.mapping else "v", done.start, node))

    def comma(self, mark: str, start: int) -> None:
        if not self.stack:
            self.stop(f"a `{mark}` outside of a list", start, f"remove the `{mark}`")
        top = self.stack[-1]
        if mark == ";":
            self.report("a `;` instead of a `,`", start, "write `,`")
            self.lose(top)
        if top.piece:
            self.judge(top)
        else:
            self.report(f"a `{mark}` without a value before it", start, f"remove the `{mark}`, or write the value")
            self.lose(top)

    def lose(self, container: _OpenJson, mapping: bool = False) -> None:
        if not nodes.stays_without(container.mapping, container.depth, mapping):
            container.lost = True

    def judge(self, container: _OpenJson) -> None:
        piece, container.piece = container.piece, []
        if container.mapping:
            self.judge_pair(container, piece)
        else:
            self.judge_value(container, piece)

    def judge_pair(self, container: _OpenJson, piece: list[_Item]) -> None:
        thirds = [piece[at : at + 3] for at in range(0, len(piece), 3)]
        if not all(_is_pair(third) for third in thirds):
            self.not_a_pair(piece)
            self.lose(container)
            return
        for _ in thirds[1:]:
            self.lose(container)
        for number, (key, _, value) in enumerate(thirds):
            if number:
                self.report("a `,` is missing before this key", key.start, "add a `,` after the value before it")
            if key.node and value.node:
                container.pairs.append((key.node, value.node))
            else:
                self.lose(container)

    def not_a_pair(self, piece: list[_Item]) -> None:
        if any(item.node is None and item.kind != ":" for item in piece):
            return  # reported already
        kinds = [item.kind for item in piece]
        if kinds[0] != '"':
            self.report("a key must be a string", piece[0].start, 'write `"key": value`')
        elif kinds == ['"', ":"]:
            self.report("this key has no value", piece[0].start, "write the value after the `:`, or remove the key")
        elif ":" not in kinds[1:2]:
            self.report("this key has no `:`", piece[0].start, 'write `"key": value`')
        else:
            fault = next((item for item in piece[2:] if item.kind == ":"), piece[-1])
            self.report("this doesn't belong to the value before it", fault.start, "add a `,` before it, or remove it")

    def judge_value(self, container: _OpenJson, piece: list[_Item]) -> None:
        if len(piece) == 1 and piece[0].node:
            container.values.append(piece[0].node)
            return
        mappings = all(item.kind == "{" for item in piece)
        if len(piece) > 1 and all(item.node or item.kind == ":" for item in piece):
            self.not_one_value(piece)
        for item in piece:
            if mappings and item.node:
                container.values.append(item.node)  # a whole entry, with or without a comma before it
            else:
                self.lose(container, mappings)
        if len(piece) == 1 and piece[0].kind == ":":
            self.not_one_value(piece)

    def not_one_value(self, piece: list[_Item]) -> None:
        colon = next((item for item in piece if item.kind == ":"), None)
        if colon:
            self.report("a `:` in a list", colon.start, "put the key and its value between `{` and `}`")
            return
        for item in piece[1:]:
            self.report("a `,` is missing before this value", item.start, "add a `,` after the value before it")

    # Strings, numbers and other tokens

    def leaf(self, kind: str, start: int, end: int) -> _Item:
        token = self.text[start:end]
        if kind == '"':
            return self.string(token, start)
        if kind == "w":
            return self.word(token, start, end)
        if kind == "single":
            inner = token[1:-1].replace('\\"', '"').replace('"', '\\"')
            self.report("a string in single quotes", start, f"use double quotes: {quoted(chr(34) + inner + chr(34))}")
            return _Item('"', start)
        if token in _NEVER_CLOSED:
            message, hint = _NEVER_CLOSED[token]
            self.stop(message, start, hint)
        self.report(f"unexpected {quoted(token)}", start, "remove it, or put it in double quotes")
        return _Item("v", start)

    def string(self, token: str, start: int) -> _Item:
        inner = token[1:-1]
        for found in _ESCAPE_OR_FAULT.finditer(inner):
            if found["fault"]:
                fault, at = found[0], start + 1 + found.start()
                if fault[0] == "\\":
                    self.report(f"{quoted(fault)} is not an escape of JSON", at, "write `\\\\` for a backslash")
                else:
                    self.report("a control character in a string", at, f"write it as `\\u{ord(fault):04x}`")
                return _Item('"', start)
        if "\\" in inner:
            import json

            inner = json.loads(token)
        text = _LONE_SURROGATE.sub("\ufffd", inner)
        return _Item('"', start, Node(text, *self.lines.place(start), start, start + len(token)))

    def word(self, token: str, start: int, end: int) -> _Item:
        touches = self.touches_quote(start, end)
        number = _NUMBER.fullmatch(token)
        if number or token in _CONSTANTS:
            value = _number(token, number) if number else _CONSTANTS[token]
            return _Item("v", start, Node(value, *self.lines.place(start), start, end))
        is_key = self.text[end : end + 100].lstrip().startswith(":")
        if touches:
            hint = 'write `\\"` for a quote inside a string'
            self.report("a quote inside a string, or a string that is not closed", start, hint)
        else:
            self.report(*_not_a_word(token, is_key, start))
        return _Item('"' if is_key else "v", start)

    def touches_quote(self, start: int, end: int) -> bool:
        """Whether a word touches a quote: a string contains a quote, or is not closed.

        If a string of that line then seems to contain brackets or commas, they may belong to the file. Nothing is
        certain, and the reading stops.
        """
        if '"' not in (self.text[max(start - 1, 0) : start], self.text[end : end + 1]):
            return False
        number, column = self.lines.place(start)
        if number != self.checked:
            self.checked = number
            line = self.text[start - column + 1 :].partition("\n")[0]
            if any(kind == '"' and _OUT_OF_STEP.search(line[at:to]) for kind, at, to in _tokens(line)):
                hint = 'close the string with `"`, and write `\\"` for a quote inside a string'
                self.stop("the quotes of this line don't match", start, hint)
        return True


def _is_pair(third: list[_Item]) -> bool:
    return [item.kind == ":" for item in third] == [False, True, False] and third[0].kind == '"'


def _number(token: str, number: re.Match[str]) -> int | float:
    if number[1] or number[2]:
        return float(token)
    try:
        return int(token)
    except ValueError:  # Python accepts 4,300 digits at most
        return float(token)


def _not_a_word(token: str, is_key: bool, start: int) -> tuple[str, int, str]:
    if is_key:
        return f"the key {quoted(token)} is not in double quotes", start, f'write `"{quoted(token)[1:-1]}"`'
    if token.lstrip("+-").lower() in ("nan", "infinity", "inf"):
        return f"JSON has no {quoted(token)}", start, "write a number, or `null`"
    if token.startswith("#"):
        return "`#` does not begin a comment in JSON", start, "begin the comment with `//`"
    if instead := _INSTEAD.get(token.lower()):
        return f"{quoted(token)} is not a JSON value", start, f"write `{instead}`"
    if re.match(r"[-+.]*[0-9]", token):
        return f"{quoted(token)} is not a valid JSON number", start, "write it like `-1`, `0.5` or `1e3`"
    return f"{quoted(token)} is not in double quotes", start, f'write `"{quoted(token)[1:-1]}"`'
