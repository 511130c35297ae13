"""Words of a line expanded: variables, substitutions, parameters, braces, and how the shell splits them."""

import fnmatch
import re
from collections.abc import Callable, Iterator
from typing import Final

from billhook.effects import script
from billhook.effects.effect import UNKNOWN
from billhook.effects.run import EMPTY, LONGEST_VALUE, MOST_FIELDS, UNKNOWN_VALUE, Run, State, Value, joined, structured
from billhook.effects.script import Expansion, RawWord

MOST_DEPTH: Final = 40
_LONGEST_DEFAULT: Final = 1_000  # tokens of a word inside `${...}`
_SHOWN_VARIABLES: Final = frozenset(
    {"USER", "LOGNAME", "SHELL", "CLAUDE_PROJECT_DIR", "BILLHOOK_HOME", "XDG_CONFIG_HOME"}
)
_KNOWN: Final[dict[str, Callable[[Run], str]]] = {
    "HOME": lambda run: run.world.home,
    "PWD": lambda run: run.state.cwd,
    "OLDPWD": lambda run: run.state.before,
    "TMPDIR": lambda run: run.world.environ.get("TMPDIR") or "/tmp",
    "IFS": lambda run: " ",
    "BASH": lambda run: "/bin/bash",
    "#": lambda run: UNKNOWN,
}
_BLANKS = re.compile(r"[ \t\n]+")
_ELEMENTS = re.compile(r"(\w+)\[[@*]\]")
_SUBSCRIPT = re.compile(r"\[\w+\]=")
_ASSIGNS = re.compile(r"(\w+):?=")
_SUM = re.compile(r"\d{1,9}(?:\s*[-+]\s*\d{1,9})*")
_TERM = re.compile(r"[-+]?\s*\d+")
_QUOTES: Final = str.maketrans("", "", "\"'\\")


def text(raw: RawWord, run: Run) -> Value:
    """A word as one value: what is not split, such as an assignment or a here-document."""
    return joined([Value(part) if isinstance(part, str) else joined(_expanded(part, run), " ") for part in raw])


def fields(raw: RawWord, run: Run) -> list[Value]:
    """A word as the shell splits it."""
    if len(raw) == 1:
        only = raw[0]
        if isinstance(only, str):
            return [Value(only)]
        if only.kind == "braces":
            return [field for word in braces(only.words[0]) for field in fields(word, run)]
    words: list[list[Value]] = [[]]
    for part in raw:
        for place, value in enumerate(_values(part, run)):
            if place:
                words.append([])
            words[-1].append(value)
    found = [joined(word) for word in words]
    empty = len(found) == 1 and words[0] and any(part == "" or getattr(part, "quoted", False) for part in raw)
    return [field for field in found if field.text or empty]


def _values(part: str | Expansion, run: Run) -> list[Value]:
    """A part of a word; each value after the first begins a new word."""
    if isinstance(part, str):
        return [Value(part)]
    found = _expanded(part, run)
    if not part.quoted:
        found = [
            Value(word, each.origins) for each in map(run.files.contents, found) for word in _split(each.text, run)
        ]
    return found[:MOST_FIELDS]


def _split(value: str, run: Run) -> list[str]:
    """A value that is not quoted as words; blanks at its ends separate it from what is around it."""
    separators = run.state.variables.get("IFS")
    if separators is not None and separators.known and separators.text.strip():
        value = value.translate(dict.fromkeys(map(ord, separators.text), " "))
    return _BLANKS.split(value) if value else []


# assignments


def assignment(raw: RawWord, run: Run) -> tuple[str, Value | list[Value]]:
    """`NAME=VALUE` or `NAME=(...)`; the name ends in `+` where the value is appended."""
    first = raw[0] if raw and isinstance(raw[0], str) else ""
    name, _, value = first.partition("=")
    if is_array(raw):
        elements = getattr(raw[1], "words", [])[:MOST_FIELDS]
        return name, [_without_subscript(field) for word in elements for field in fields(word, run)]
    return name, text((value, *raw[1:]), run)


def is_array(raw: RawWord) -> bool:
    """Whether a word is `NAME=(...)`."""
    return len(raw) == 2 and isinstance(raw[1], Expansion) and raw[1].kind == "array"


def _without_subscript(element: Value) -> Value:
    """`[2]=x` of an array is `x`; its place is taken for the next one."""
    found = _SUBSCRIPT.match(element.text)
    return Value(element.text[found.end() :], element.origins) if found else element


def assign(state: State, name: str, value: Value | list[Value]) -> None:
    """Set a variable or an array."""
    plain = name.rstrip("+").partition("[")[0]
    appends = name.endswith("+")
    if plain in state.constants:
        return
    if isinstance(value, list):
        state.arrays[plain] = (state.arrays.get(plain, []) if appends else []) + value
    else:
        state.variables[plain] = joined([state.variables.get(plain, EMPTY), value]) if appends else value


# expansions


def _expanded(part: Expansion, run: Run) -> list[Value]:
    if run.depth > MOST_DEPTH:
        return [run.interpreter.give_up("it is too deeply nested to be read")]
    expand = _EXPAND.get(part.kind)
    return expand(part, run) if expand else [UNKNOWN_VALUE]


def _substituted(part: Expansion, run: Run) -> list[Value]:
    interpreter = run.interpreter
    interpreter.steps -= 1
    if interpreter.steps <= 0:
        return [interpreter.end("it has too many commands")]
    inner = run.inside(shown=False, state=run.state.copy())
    if part.kind == "backtick":
        value = interpreter.run_text(part.text, inner)
    else:
        value = interpreter.run_nodes(structured(part.items), inner)
    return [Value(value.text.rstrip("\n"), value.origins)]


def _process_input(part: Expansion, run: Run) -> list[Value]:
    """`<(...)`: the name of a file that holds what is printed."""
    value = run.interpreter.run_nodes(structured(part.items), run.inside(shown=False, state=run.state.copy()))
    path = f"/dev/fd/{63 - len(run.files.written) % 50}"
    run.files.write(path, value)
    return [Value(path, value.origins)]


def _process_output(part: Expansion, run: Run) -> list[Value]:
    inner = run.inside(fed=run.fed or UNKNOWN_VALUE, state=run.state.copy())
    run.interpreter.run_nodes(structured(part.items), inner)
    return [Value("/dev/null")]


def _number(part: Expansion, run: Run) -> list[Value]:
    if _SUM.fullmatch(part.text.strip()):
        return [Value(str(sum(int(term.replace(" ", "")) for term in _TERM.findall(part.text))))]
    if "$(" in part.text or "`" in part.text:
        text(script.read_text(part.text), run)  # for what it runs
    return [UNKNOWN_VALUE]


def _variable(part: Expansion, run: Run) -> list[Value]:
    name, state = part.text, run.state
    if name.isidentifier() and name not in state.arrays:
        return [looked_up(name, run) or UNKNOWN_VALUE]
    if name in ("@", "*"):
        return state.given
    if found := _ELEMENTS.fullmatch(name):
        return state.arrays.get(found[1]) or [state.variables.get(found[1], UNKNOWN_VALUE)]
    read: list[str] = []  # words inside of it

    def nested(word: str) -> Value:
        read.append(word)
        return _nested(word, run)

    value = parameter(name, lambda other, subscript: looked_up(other, run, subscript), nested)
    if part.runs and not read:  # `${a[$(x)]}`
        _nested(name, run)
    assigns = _ASSIGNS.match(name)
    if assigns and not state.variables.get(assigns[1], EMPTY).text:
        state.variables[assigns[1]] = value
    return [value]


def _nested(word: str, run: Run) -> Value:
    if "$" in word or "`" in word:
        return text(script.read_text(word, _LONGEST_DEFAULT), run)
    return Value(word.translate(_QUOTES))


def looked_up(name: str, run: Run, subscript: str = "") -> Value | None:
    """The value of a variable; None where the call doesn't show it, or nothing sets it."""
    state = run.state
    name = state.references.get(name, name)
    if name in state.arrays:
        return _element(state.arrays[name], subscript.strip("[]"))
    if name in state.variables:
        return state.variables[name]
    if name.isdigit():
        return _argument(int(name[:3]), state)
    if name in _KNOWN:
        return Value(_KNOWN[name](run))
    shown = run.world.environ.get(name) if name in _SHOWN_VARIABLES else None
    return Value(shown) if shown else None


def _element(elements: list[Value], index: str) -> Value:
    place = int(index) if index.isdigit() and len(index) < 4 else 0
    return elements[place] if place < len(elements) else EMPTY


def _argument(place: int, state: State) -> Value | None:
    if 0 < place <= len(state.given):
        return state.given[place - 1]
    return EMPTY if state.arguments is not None and place else None


_EXPAND: Final[dict[str, Callable[[Expansion, Run], list[Value]]]] = {
    "var": _variable,
    "sub": _substituted,
    "backtick": _substituted,
    "input": _process_input,
    "output": _process_output,
    "number": _number,
    "array": lambda part, run: [EMPTY],
}


# parameter expansion

_PARAMETER = re.compile(r"(!?#?)(\w+|[@*#?$!-])(\[[^\]]*\])?(.*)", re.S)
_SLICE = re.compile(r":\s*(-?\d+)(?::\s*(-?\d+))?")
_RANGE = re.compile(r"(-?\d{1,6}|[a-zA-Z])\.\.(-?\d{1,6}|[a-zA-Z])")


def parameter(text: str, look_up: Callable[[str, str], Value | None], nested: Callable[[str], Value]) -> Value:
    """The value of `${text}`. `look_up` has the variable's; `nested` reads a word inside the braces."""
    found = _PARAMETER.fullmatch(text)
    if not found:
        return UNKNOWN_VALUE
    sign, name, subscript, rest = found.groups()
    value = look_up(name, subscript or "")
    if sign == "#":
        return Value(str(len(value.text))) if value and value.known else UNKNOWN_VALUE
    if sign == "!":
        value = look_up(value.text, "") if value and value.known else None
    if not rest:
        return UNKNOWN_VALUE if value is None else value
    return _modified(value, rest, nested)


def _modified(value: Value | None, rest: str, nested: Callable[[str], Value]) -> Value:
    operator = rest[:2] if rest[:2] in (":-", ":=", ":+", ":?", "##", "%%", "//", "^^", ",,", "/#", "/%") else rest[:1]
    word = rest[len(operator) :]
    if operator in (":-", ":=", "-", "="):
        # an unset variable has the default; one that is set elsewhere is not known
        return nested(word) if value is None or not value.text else value
    if operator in (":+", "+"):
        return nested(word) if value is not None and value.text else EMPTY
    if operator in (":?", "?") or value is None:
        return value or UNKNOWN_VALUE
    if not value.known:
        return value
    changed = _cut(value.text, operator, nested(word).text, rest)
    return UNKNOWN_VALUE if changed is None else Value(changed, value.origins)


def _cut(text: str, operator: str, word: str, rest: str) -> str | None:
    if operator in ("#", "##", "%", "%%"):
        return _without(text, word, operator)
    if operator[0] == "/":
        old, _, new = word.partition("/")
        plain = not set(old) & set("*?[")
        return text.replace(old, new, -1 if operator == "//" else 1) if plain and old else None
    if operator[0] == "^":
        return text.upper() if operator == "^^" else text[:1].upper() + text[1:]
    if operator[0] == ",":
        return text.lower() if operator == ",," else text[:1].lower() + text[1:]
    found = _SLICE.fullmatch(rest)
    if not found:
        return None
    begin = int(found[1])
    tail = text[begin:] if begin >= 0 or -begin <= len(text) else ""
    return tail[: int(found[2])] if found[2] else tail


def _without(text: str, pattern: str, operator: str) -> str:
    """Text without its shortest or longest beginning or end that a pattern matches."""
    ends = range(len(text) + 1) if operator in ("#", "%%") else range(len(text), -1, -1)
    if len(text) > 4096:
        return UNKNOWN
    for end in ends:
        cut, kept = (text[:end], text[end:]) if operator[0] == "#" else (text[end:], text[:end])
        if fnmatch.fnmatchcase(cut, pattern):
            return kept
    return text


# braces


def braces(raw: RawWord) -> list[RawWord]:
    """`{a,b}c` as its words; expansions inside keep their place."""
    parts: list[Expansion] = []
    text = ""
    for part in raw:
        if isinstance(part, str):
            text += part
        else:
            text += chr(0xE000 + min(len(parts), 0x1800))
            parts.append(part)
    if len(text) > LONGEST_VALUE:
        return [(Expansion("number"),)]  # too long to be expanded: its value is unknown
    words = [text]
    for _ in range(4):  # nested and repeated braces
        words = [word for each in words for word in _one_brace(each)][:MOST_FIELDS]
    return [tuple(_back(word, parts)) for word in words]


def _back(word: str, parts: list[Expansion]) -> Iterator[str | Expansion]:
    for piece in re.split(r"([\ue000-\uf8ff])", word):
        place = ord(piece) - 0xE000 if len(piece) == 1 else -1
        if 0 <= place < len(parts):
            yield parts[place]
        elif piece:
            yield piece


def _one_brace(word: str) -> list[str]:
    close = word.find("}")
    while close >= 0:
        begin = word.rfind("{", 0, close)
        inside = word[begin + 1 : close]
        if begin >= 0 and "," in inside:
            return [word[:begin] + each + word[close + 1 :] for each in inside.split(",")]
        if begin >= 0 and (found := _RANGE.fullmatch(inside)):
            return [word[:begin] + each + word[close + 1 :] for each in _range(found[1], found[2])]
        close = word.find("}", close + 1)
    return [word]


def _range(first: str, last: str) -> list[str]:
    numbers = first.lstrip("-").isdigit() and last.lstrip("-").isdigit()
    begin, end = (int(first), int(last)) if numbers else (ord(first[0]), ord(last[0]))
    step = 1 if begin <= end else -1
    found = range(begin, end + step, step)[:MOST_FIELDS]
    return [str(each) if numbers else chr(each) for each in found]
