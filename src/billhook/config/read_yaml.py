"""Read YAML into nodes, from the events of PyYAML's C parser.

PyYAML's composer is not used: it is recursive, so a hundred thousand brackets end the whole process, and it copies
what the events contain already.
"""

import re
from typing import TYPE_CHECKING, Any

import msgspec

from billhook.config import nodes
from billhook.config.nodes import MAX_DEPTH, FieldNodes, LineStarts, Node, Read, Scalar, quoted
from billhook.core.text import Finding

if TYPE_CHECKING:
    import yaml

MAX_VALUES = 20_000  # an alias counts each time that it is used

_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = {"!", _TAG + "str", _TAG + "timestamp", _TAG + "binary", _TAG + "value", _TAG + "merge"}
_LINE_END = "\r\n|[\r\n\x85\u2028\u2029]"
_LONGEST_SEXAGESIMAL = 100  # `1:1:1:...` is a number in YAML 1.1, and computing a long one takes minutes

_IN_OUR_WORDS: tuple[tuple[str, str, str], ...] = (
    ("tab character", "a tab instead of spaces", "indent with spaces"),
    ("cannot start any token", "a value can't begin with {char}", "put the text in quotes"),
    ("mapping values are not", "unexpected `:`", "put the text in quotes, or fix the indentation"),
    ("expected ':'", "a key without a `:`", "write `key: value`, or fix the indentation"),
    ("expected key", "this doesn't fit the mapping around it", "indent it like the lines around it"),
    ("expected '-' indicator", "this doesn't fit the list around it", "begin it with `- `, or fix the indentation"),
    ("expected <block end>", "this doesn't fit the lines around it", "indent it like the lines around it"),
    ("expected ',' or ']'", "a list without a `,` or its `]`", "add the `,` or the `]`"),
    ("expected ',' or '}'", "a mapping without a `,` or its `}}`", "add the `,` or the `}`"),
    ("unexpected end of stream", "unclosed quote", "close the quote"),
    ("unexpected document indicator", "unclosed quote", "close the quote"),
    ("unknown escape", "unknown escape sequence", "write `\\\\` for a backslash, or use single quotes"),
    ("expected node content", "a value is missing", "write the value"),
    ("alphabetic or numeric", "`&` and `*` begin the name of an anchor in YAML", "put the text in quotes"),
    ("undefined tag handle", "undeclared tag", "remove the tag"),
)
_BRACKETS = {"[": "a list", "{": "a mapping"}
_KEY = re.compile(r"\s*([\w.-]+|\"[^\"]+\"|'[^']+'):(?:\s|$)")
_TEXT_IN_BRACKETS = re.compile(r"(?:^|:|-)\s+([\[{]).*[\]}]\s*[^\s\]},#]")
"""A value that looks like a list or mapping and goes on after its end, such as `run: [[ -f x ]] && exit 2`."""
_BEGAN_EARLIER = ("unexpected end of stream", "unexpected document indicator", "expected ':'")
"""Errors that the parser notices long after the place of the mistake."""


class _UnreadableYamlError(Exception):
    """The file can't be read: code, message, place and hint."""


class _Anchored(msgspec.Struct):
    """The value of an alias."""

    item: "Node | None" = None
    text: str | None = None  # as it is written, if it is a scalar: it may be used as a key
    size: int = 0  # 0 while the value is still being read
    height: int = 0
    mapping: bool = False


class _OpenYaml(msgspec.Struct):
    """A mapping or list whose end has not been read yet."""

    mapping: bool
    line: int
    column: int
    before: int  # how many values had been counted when it began
    anchor: str | None
    height: int = 0
    items: list[Node] = []
    pairs: list[tuple[Node, Node]] = []
    merged: list[tuple[Node, Node]] = []
    key: Node | None = None
    expects_key: bool = True
    merges: bool = False
    lost: bool = False  # a part can't be read, and without it the value would have another meaning


def read_yaml(text: str, file: str) -> Read:
    """Read one YAML document; never raises. Keys are strings as written; values follow YAML 1.1 (`on` is true). An
    aliased value has the place of its anchor."""
    import yaml

    builder = _Builder(file)
    try:
        _refuse_odd_characters(text)
        return builder.read(getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text))
    except _UnreadableYamlError as stop:
        code, message, place, hint = stop.args
    except yaml.MarkedYAMLError as error:
        code, (message, place, hint) = "BH104", _in_our_words(error, text)
    except (yaml.YAMLError, ValueError, ArithmeticError, RecursionError) as error:
        code, message, place, hint = "BH104", f"not YAML: {quoted(str(error))}", (1, 1), "write it as plain YAML"
    place = _inside(place, text, LineStarts(text, _LINE_END))
    return nodes.unread(*builder.findings, Finding(code, message, file, *place, hint))


def _refuse_odd_characters(text: str) -> None:
    from yaml.reader import Reader

    if found := Reader.NON_PRINTABLE.search(text):
        message = f"the character U+{ord(found[0]):04X} is not allowed in YAML"
        hint = "remove it, or write it as an escape in double quotes"
        raise _UnreadableYamlError("BH104", message, LineStarts(text, _LINE_END).place(found.start()), hint)


def _in_our_words(error: "yaml.MarkedYAMLError", text: str) -> tuple[str, tuple[int, int], str]:
    lines = LineStarts(text, _LINE_END)
    problem, mark = error.problem or "", error.problem_mark or error.context_mark
    place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    if error.context_mark and (place != _inside(place, text, lines) or any(one in problem for one in _BEGAN_EARLIER)):
        place = (error.context_mark.line + 1, error.context_mark.column + 1)
    line, column = place = _inside(place, text, lines)
    char = text[lines.starts[line - 1] + column - 1 :][:1]
    if char == "\t" and "cannot start any token" in problem:
        problem = "tab character"
    written = text[lines.starts[line - 1] :].partition("\n")[0]
    if "'-' indicator" in problem and (told := _below_a_list(error, written, text, lines)):
        return told[0], place, told[1]
    if "expected ',' or" not in problem and (value := _TEXT_IN_BRACKETS.search(written)):
        message = f"`{value[1]}` begins {_BRACKETS[value[1]]} in YAML"
        return message, (line, value.start(1) + 1), "put the text in quotes"
    for part, message, hint in _IN_OUR_WORDS:
        if part in problem:
            return message.format(char=quoted(char)), place, hint
    return f"not YAML: {problem}", place, "fix this line, or put the text in quotes"


def _below_a_list(error: "yaml.MarkedYAMLError", written: str, text: str, lines: LineStarts) -> tuple[str, str] | None:
    """What is wrong with a key between or after the items of a list, and the hint."""
    key, begin = _KEY.match(written), error.context_mark
    if key is None or begin is None:
        return None
    above = (_KEY.match(line) for line in reversed(text[: lines.starts[begin.line]].split("\n")))
    owner = next((found[1] for found in above if found), "")
    if not owner:
        return None
    message = f"`{key[1]}` is below `{owner}:`, which is a list"
    if owner == "tests":
        return message, "if it is a hook, move it below `hooks:`; if it is a test, begin it with `- `"
    return message, "begin it with `- `, or fix the indentation"


def _inside(place: tuple[int, int], text: str, lines: LineStarts) -> tuple[int, int]:
    """A place inside of the text: the parser may report a line after the last one."""
    line, column = place
    if line > len(lines.starts):
        return lines.place(len(text))
    end = lines.starts[line] if line < len(lines.starts) else len(text)
    return line, max(1, min(column, end - lines.starts[line - 1] + 1))


class _Builder:
    """The nodes of one text, while it is read."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self.anchors: dict[str, _Anchored] = {}
        self.stack: list[_OpenYaml] = []
        self.count = 0
        self.root: Node | None = None
        self.resolve = _Scalars()

    def read(self, parser: Any) -> Read:
        import yaml

        next_event, documents = parser.get_event, 0
        scalar, alias = yaml.ScalarEvent, yaml.AliasEvent
        starts, ends = (yaml.MappingStartEvent, yaml.SequenceStartEvent), (yaml.MappingEndEvent, yaml.SequenceEndEvent)
        while not isinstance(event := next_event(), yaml.StreamEndEvent):
            if isinstance(event, scalar):
                self.scalar(event)
            elif isinstance(event, ends):
                self.close()
            elif isinstance(event, starts):
                self.open(event, isinstance(event, yaml.MappingStartEvent))
            elif isinstance(event, alias):
                self.alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    hint = "keep one document, and move the other to a separate file"
                    raise _UnreadableYamlError("BH108", "a second document begins here", _place(event), hint)
        read = documents and (self.root or self.findings)
        return Read(self.root, nodes.in_order(self.findings)) if read else Read(nodes.empty(), ())

    def report(self, code: str, message: str, place: tuple[int, int], hint: str) -> None:
        self.findings.append(Finding(code, message, self.file, *place, hint))

    def counted(self, more: int, height: int, event: Any) -> None:
        self.count += more
        if self.count > MAX_VALUES:
            message = f"more than {MAX_VALUES:,} values, aliases included"
            hint = "use fewer values, or fewer aliases of aliases"
            raise _UnreadableYamlError("BH106", message, _place(event), hint)
        if len(self.stack) + height > MAX_DEPTH:
            hint = "write it with fewer levels"
            raise _UnreadableYamlError("BH106", f"nested deeper than {MAX_DEPTH} levels", _place(event), hint)
        if self.stack and height >= self.stack[-1].height:
            self.stack[-1].height = height

    # Events of the parser

    def scalar(self, event: Any) -> None:
        if event.tag is None and event.anchor is None and self.stack and self.count < MAX_VALUES:
            self.usual_scalar(event)
            return
        self.counted(1, 0, event)
        (line, column), text = _place(event), event.value
        is_key = bool(self.stack) and self.stack[-1].mapping and self.stack[-1].expects_key
        node: Node | None
        if self.foreign(event, _SCALAR_TAGS):
            node = None
        elif is_key:
            node = Node(text, line, column)
        else:
            node = self.value(event, line, column)
        if event.anchor is not None:
            valued = self.value(event, line, column) if node and is_key else node
            self.anchors[event.anchor] = _Anchored(valued, text, 1)
        if is_key:
            self.key(node, event.implicit[0] and text == "<<")
        elif self.stack or text or not event.implicit[0] or event.tag:
            self.place(node, False)

    def usual_scalar(self, event: Any) -> None:
        """The usual case, kept short because most events are scalars without tag or anchor."""
        self.count += 1
        mark, top = event.start_mark, self.stack[-1]
        if top.mapping and top.expects_key:
            top.key = Node(event.value, mark.line + 1, mark.column + 1)
            top.merges = event.value == "<<" and event.implicit[0]
            top.expects_key = False
            return
        self.place(Node(self.resolve(event), mark.line + 1, mark.column + 1), False)

    def value(self, event: Any, line: int, column: int) -> Node | None:
        try:
            return Node(self.resolve(event), line, column)
        except (ValueError, ArithmeticError, LookupError):
            kind = event.tag.removeprefix(_TAG)
            message = f"{quoted(event.value)} can't be read as {quoted('!!' + kind)}"
            self.report("BH107", message, (line, column), "remove the tag, or fix the value")
            return None

    def foreign(self, event: Any, taken: frozenset[str]) -> bool:
        if event.tag is None or event.tag in taken:
            return False
        tag = event.tag.replace(_TAG, "!!", 1)
        self.report("BH107", f"the tag {quoted(tag)} is not supported", _place(event), "remove the tag")
        return True

    def open(self, event: Any, mapping: bool) -> None:
        self.counted(1, 1, event)
        lost = self.foreign(event, _MAPPING_TAGS if mapping else _LIST_TAGS)
        line, column = _place(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored()
        self.stack.append(_OpenYaml(mapping, line, column, self.count - 1, event.anchor, lost=lost))

    def close(self) -> None:
        done = self.stack.pop()
        value = self.fields(done) if done.mapping else tuple(done.items)
        node = None if done.lost else Node(value, done.line, done.column)
        if done.anchor is not None:
            size = self.count - done.before
            self.anchors[done.anchor] = _Anchored(node, None, size, done.height + 1, done.mapping)
        if self.stack:
            self.stack[-1].height = max(self.stack[-1].height, done.height + 1)
        if self.stack and self.stack[-1].mapping and self.stack[-1].expects_key:
            place, hint = (done.line, done.column), "use plain text as the key"
            self.report("BH104", "a list or mapping can't be a key", place, hint)
            self.key(None, False)
        else:
            self.place(node, done.mapping)

    def alias(self, event: Any) -> None:
        known = self.anchors.get(event.anchor)
        if known is None:
            hint = f"define it before with `&{event.anchor}`, or put the text in quotes"
            raise _UnreadableYamlError("BH104", f"there is no anchor {quoted('&' + event.anchor)}", _place(event), hint)
        if not known.size:
            message = f"{quoted('*' + event.anchor)} would contain itself"
            hint = "write the value out instead of the alias"
            raise _UnreadableYamlError("BH106", message, _place(event), hint)
        self.counted(known.size, known.height, event)
        if not (self.stack and self.stack[-1].mapping and self.stack[-1].expects_key):
            self.place(known.item, known.mapping)
        elif known.text is None:
            self.report("BH104", "a list or mapping can't be a key", _place(event), "use plain text as the key")
            self.key(None, False)
        else:
            self.key(Node(known.text, *_place(event)), False)

    # Add values to what is open

    def key(self, node: Node | None, merges: bool) -> None:
        top = self.stack[-1]
        top.key, top.merges, top.expects_key = node, merges, False

    def place(self, node: Node | None, mapping: bool) -> None:
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        top.expects_key = True
        if top.mapping and top.key is None:
            return
        if node is None:
            top.lost = top.lost or not nodes.stays_without(top.mapping, len(self.stack) - 1, mapping)
        elif not top.mapping:
            top.items.append(node)
        elif top.merges:
            self.merge(top, node)
        elif top.key is not None:
            top.pairs.append((top.key, node))

    def merge(self, top: _OpenYaml, node: Node) -> None:
        """`<<` adds the pairs of one mapping or of several; for the same key the first one wins."""
        sources = node.value if isinstance(node.value, tuple) else (node,)
        for source in sources:
            if isinstance(source.value, FieldNodes):
                top.merged.extend(source.value.pairs)
                continue
            top.lost = top.lost or not nodes.stays_without(True, len(self.stack) - 1, False)
            place = (top.key or source).line, (top.key or source).column
            message = f"`<<` must be a mapping, not {source.kind}"
            self.report("BH104", message, place, "name a mapping: `<<: *anchor`")
            return

    def fields(self, done: _OpenYaml) -> FieldNodes:
        self.findings.extend(nodes.twice(done.pairs, self.file))
        if not done.merged:
            return FieldNodes(tuple(done.pairs))
        own = {key.value for key, _ in done.pairs}
        merged: dict[Any, tuple[Node, Node]] = {}
        for key, value in done.merged:
            if key.value not in own:
                merged.setdefault(key.value, (key, value))
        return FieldNodes((*merged.values(), *done.pairs))


_SCALAR_TAGS = frozenset({*_TEXT_TAGS, *(_TAG + name for name in ("null", "bool", "int", "float"))})
_MAPPING_TAGS = frozenset({"!", _TAG + "map"})
_LIST_TAGS = frozenset({"!", _TAG + "seq"})


class _Scalars:
    """The values of scalars, cached for one text."""

    def __init__(self) -> None:
        from yaml import SafeLoader
        from yaml.constructor import SafeConstructor

        self.patterns: dict[Any, list[tuple[str, re.Pattern[str]]]] = SafeLoader.yaml_implicit_resolvers
        self.constructor: Any = SafeConstructor()
        self.known: dict[str, Scalar] = {}

    def __call__(self, event: Any) -> Scalar:
        """Raises ValueError, ArithmeticError or LookupError for a value that does not fit its tag."""
        text: str = event.value
        if event.tag is not None:
            return text if event.tag in _TEXT_TAGS else self.convert(event.tag, text)
        if not event.implicit[0]:
            return text
        if text not in self.known:
            self.known[text] = self.plain(text)
        return self.known[text]

    def plain(self, text: str) -> Scalar:
        for tag, pattern in self.patterns.get(text[:1], ()):
            if pattern.match(text):
                try:
                    return text if tag in _TEXT_TAGS else self.convert(tag, text)
                except (ValueError, ArithmeticError):  # `0x_` looks like a number but is not
                    return text
        return text

    def convert(self, tag: str, text: str) -> Scalar:
        if tag == _TAG + "null":
            return None
        if tag == _TAG + "bool":
            return bool(self.constructor.bool_values[text.lower()])
        if ":" in text and len(text) > _LONGEST_SEXAGESIMAL:
            raise ValueError(text)
        from yaml import ScalarNode

        node = ScalarNode(tag, text)
        try:
            name = "construct_yaml_int" if tag == _TAG + "int" else "construct_yaml_float"
            made: Scalar = getattr(self.constructor, name)(node)
        except IndexError as error:  # `!!int ""`
            raise ValueError(text) from error
        return made


def _place(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
