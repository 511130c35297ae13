"""Permission rules such as `Bash(terraform destroy *)`, for conditions and for the agent's permissions."""

import functools
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from billhook.core import client_env, tools
from billhook.core.errors import RuleError
from billhook.effects import shell
from billhook.effects.effect import UNKNOWN

# Patterns over texts and paths, matched without backtracking. No regular expression is made from what a user wrote, so
# no pattern can take more than time linear in the text (times its own length where the text has unknown parts).

S = TypeVar("S")


class Glob(msgspec.Struct, frozen=True):
    """A pattern whose only sign is `*`: any text, nothing included. `\\*` is a star, `\\\\` a backslash."""

    pieces: tuple[str, ...]  # the literal stretches between the stars

    def matches(self, text: str) -> bool:
        """Whether the whole text matches. An unknown part is matched by a star alone."""
        first, *middle = self.pieces
        if not middle:
            return text == first
        last = middle.pop()
        if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for piece in middle:
            at = text.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True

    def may_match(self, text: str) -> bool:
        """Whether some value of the unknown parts would make the text match; `text` without any is simply matched."""
        known, unknown, _ = text.partition(UNKNOWN)
        if not unknown:
            return self.matches(text)
        first = self.pieces[0]
        shared = min(len(known), len(first))
        if known[:shared] != first[:shared] or (len(self.pieces) == 1 and len(known) > len(first)):
            return False
        return self._simulate(text)

    def _simulate(self, text: str) -> bool:
        """Run the pattern as an automaton; bit i of `state`: the first i signs of the pattern are used up."""
        places, stars, size = _automaton(self.pieces)
        every = (1 << (size + 1)) - 1
        state = _past_stars(1, stars)
        for char in text:
            if char == UNKNOWN:
                state = every & ~((state & -state) - 1)  # whatever lies ahead of the rearmost place
            else:
                state = _past_stars((state & stars) | ((state & places.get(char, 0)) << 1), stars)
            if not state:
                return False
        return bool(state >> size & 1)


def glob(pattern: str) -> Glob:
    """Read a pattern."""
    pieces, piece = [], []
    signs = iter(pattern)
    for char in signs:
        if char == "\\":
            after = next(signs, "")
            piece.append(after if after in ("*", "\\") else char + after)
        elif char == "*":
            pieces.append("".join(piece))
            piece = []
        else:
            piece.append(char)
    return Glob((*pieces, "".join(piece)))


@functools.lru_cache(maxsize=1024)
def _automaton(pieces: tuple[str, ...]) -> tuple[dict[str, int], int, int]:
    places: dict[str, int] = {}
    stars = at = 0
    for number, piece in enumerate(pieces):
        if number:
            stars |= 1 << at
            at += 1
        for char in piece:
            places[char] = places.get(char, 0) | 1 << at
            at += 1
    return places, stars, at


def _past_stars(state: int, stars: int) -> int:
    """A star may match nothing: the place after it is reached as well, and that may be a star again."""
    while (more := state | (state & stars) << 1) != state:
        state = more
    return state


ANY_DEPTH: Final = "**"


def path_matches(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Whether a path's segments match: `**` is any number of them, `*`, `?` and `[...]` stay within one."""
    return _two_pointers(pattern, path, ANY_DEPTH, segment_matches)


def _two_pointers(signs: Sequence[S], items: Sequence[str], star: str, fits: Callable[[S, str], bool]) -> bool:
    """Whether items match signs, of which `star` is any number of items: no recursion, one place to go back to."""
    at = place = 0
    retry, resume = -1, 0
    while place < len(items):
        if at < len(signs) and signs[at] == star:
            retry, resume = at, place
            at += 1
        elif at < len(signs) and fits(signs[at], items[place]):
            at += 1
            place += 1
        elif retry >= 0:
            resume += 1
            at, place = retry + 1, resume
        else:
            return False
    return all(sign == star for sign in signs[at:])


@functools.lru_cache(maxsize=4096)
def _segment(pattern: str) -> tuple[str | tuple[bool, frozenset[str], tuple[tuple[str, str], ...]], ...]:
    """One segment as signs: `*`, `?`, a literal as `=x`, or a class as (negated, characters, ranges)."""
    signs: list[str | tuple[bool, frozenset[str], tuple[tuple[str, str], ...]]] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            signs.append("=" + pattern[at + 1])
            at += 2
            continue
        close = pattern.find("]", at + 2) if char == "[" else -1
        if close > 0:
            inside = pattern[at + 1 : close]
            negated = inside[:1] in ("!", "^") and len(inside) > 1
            signs.append((negated, *_class(inside[negated:])))
            at = close + 1
            continue
        if not (char == "*" and signs and signs[-1] == "*"):
            signs.append(char if char in "*?" else "=" + char)
        at += 1
    return tuple(signs)


def _class(inside: str) -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
    single: set[str] = set()
    ranges: list[tuple[str, str]] = []
    at = 0
    while at < len(inside):
        if inside[at + 1 : at + 2] == "-" and at + 2 < len(inside):
            ranges.append((inside[at], inside[at + 2]))
            at += 3
        else:
            single.add(inside[at])
            at += 1
    return frozenset(single), tuple(ranges)


_MAGIC: Final = frozenset("*?[\\")


def segment_matches(pattern: str, text: str) -> bool:
    """Whether one segment of a path matches; two pointers, no recursion."""
    if _MAGIC.isdisjoint(pattern):  # most segments are plain names
        return pattern == text
    return _two_pointers(_segment(pattern), text, "*", _fits)


def _fits(sign: str | tuple[bool, frozenset[str], tuple[tuple[str, str], ...]], char: str) -> bool:
    if isinstance(sign, str):
        return sign == "?" or sign == "=" + char
    negated, single, ranges = sign
    return (char in single or any(low <= char <= high for low, high in ranges)) != negated


# rules

EDITS: Final = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch"})
"""A rule for `Edit` covers every tool that edits files."""
READS: Final = frozenset({"Read", "NotebookRead", "Grep", "Glob", "LS"})
"""A rule for `Read` covers every tool that reads files; a search counts as reading the folder that it searches."""
FIELDS: Final = {"Task": "subagent_type", "Agent": "subagent_type", "Skill": "skill", "WebSearch": "query"}
"""Tools whose specifier is a pattern over one field of the input."""

_LONGEST_PATH: Final = 16_384  # no system opens a longer one, and following its links takes long
_MOST_PATHS: Final = 5_000  # a patch may name more, and following the links of all of them takes long
_HARMLESS: Final = frozenset({"[", "test", "true", "false", ":"})
_NO_BRACES: Final = str.maketrans("", "", "{},")
_LIST = re.compile(r"[|,&\s]")
_SECOND_RULE = re.compile(r"\)\s*(?:[,|;&]+|\band\b|\bor\b|\s)\s*(?:[A-Z]\w*|mcp__\w+)\(")
_SECOND = re.compile(r"\)\s*(?:[,|;&]|(?:and|or)\b)")
_COMMAND = re.compile(r"[a-z][\w./-]*\s+(?!and\b|or\b)[^|,&]*")


class Rule(msgspec.Struct, frozen=True):
    """One permission rule. `tool` is a canonical name or a pattern of names; no `specifier` means every call of it."""

    tool: str
    specifier: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Read `Tool` or `Tool(specifier)`; raises RuleError."""
        return _parse(text)

    def __str__(self) -> str:
        return self.tool if self.specifier is None else f"{self.tool}({self.specifier})"

    @property
    def is_naming(self) -> bool:
        """Whether it names what it allows: `Bash(npm test)`, or one tool of an MCP server; `Bash(*)` names nothing."""
        if self.specifier is None:
            return self.tool.startswith("mcp__") and "__" in self.tool[5:] and "*" not in self.tool
        return bool(self.specifier.strip("*: "))

    def strikes(self, tool_name: str, tool_input: object, cwd: str | None = None) -> bool:
        """Whether a deny or ask rule, or a condition, applies to the call. In doubt it does."""
        if not self.names(tool_name):
            return False
        if self.specifier is None or _everything(self.specifier):
            return True
        if not isinstance(tool_input, Mapping):
            return True
        judge = _STRIKES.get(_kind(tool_name), _other_strikes)
        return judge(self.specifier, tools.canonical(tool_name), tool_input, cwd)

    def covers(self, tool_name: str, tool_input: object, cwd: str | None = None) -> bool:
        """Whether an allow rule approves the whole call by itself. In doubt it does not."""
        return covers((self,), tool_name, tool_input, cwd)

    def names(self, tool_name: str) -> bool:
        """Whether the rule is about this tool, by its canonical or dialect name."""
        name = tools.canonical(tool_name)
        if self.tool == name or (self.tool == "Edit" and name in EDITS) or (self.tool == "Read" and name in READS):
            return True
        if self.tool in tools.also_called(name):
            return True
        if "*" in self.tool:
            return glob(self.tool).matches(name)
        return self.tool.startswith("mcp__") and "__" not in self.tool[5:] and name.startswith(self.tool + "__")


def covers(rules: Iterable[Rule], tool_name: str, tool_input: object, cwd: str | None = None) -> bool:
    """Whether allow rules together approve the whole call: each command of a line by one of them."""
    rules = [rule for rule in rules if rule.names(tool_name)]
    if not rules or not isinstance(tool_input, Mapping):
        return False
    if tools.is_shell(tool_name) and tools.lines(tool_input) != [tool_input.get("command")]:
        return False
    specifiers = [rule.specifier for rule in rules if rule.specifier is not None and not _everything(rule.specifier)]
    if len(specifiers) < len(rules):
        return True
    judge = _COVERS.get(_kind(tool_name), _other_covers)
    return judge(specifiers, tools.canonical(tool_name), tool_input, cwd)


class When(msgspec.Struct, frozen=True):
    """A rule as a hook's condition: true if it matches. Equal if the rules are."""

    rule: Rule

    def __call__(self, ctx: object) -> bool:
        """Whether the rule matches `ctx.event`; an event without a tool never matches."""
        event = getattr(ctx, "event", None)
        name = getattr(event, "tool_name", None)
        if not isinstance(name, str) or not name:
            return False
        cwd = getattr(event, "cwd", None)
        return self.rule.strikes(name, getattr(event, "tool_input", None), cwd if isinstance(cwd, str) else None)


def condition(text: str) -> When:
    """The condition that `if: <text>` means; raises RuleError."""
    return When(Rule.parse(text))


@functools.lru_cache(maxsize=1024)
def _parse(text: str) -> Rule:
    rule = text.strip()
    if not rule:
        raise RuleError("the rule is empty", hint="name a tool: `Bash` or `Bash(git push *)`")
    if UNKNOWN in rule:
        raise RuleError(f"`{rule!r}` contains a NUL character", hint="remove it")
    tool, opened, rest = rule.partition("(")
    tool = tool.strip()
    if not tool:
        raise RuleError(f"no tool before the parenthesis in `{rule}`", hint=f"write `Bash{rule}`, or the tool you mean")
    if not opened and _COMMAND.fullmatch(rule):
        raise RuleError(f"`{rule}` names no tool", hint=f"write `Bash({rule})`")
    is_open = ")" in tool or (opened and not rest.endswith(")"))
    if _LIST.search(tool) or _SECOND_RULE.search(rule) or (is_open and _SECOND.search(rule)):
        message = f"`{rule}` is not one rule: `and`, `or` and lists are not supported"
        raise RuleError(message, hint="write one entry for each rule")
    if is_open:
        raise RuleError(f"unbalanced parenthesis in `{rule}`", hint="write `Tool` or `Tool(specifier)`, ending in `)`")
    if not opened:
        return Rule(tools.canonical(tool))
    specifier = rest[:-1].strip()
    if not specifier:
        raise RuleError(f"nothing between the parentheses in `{rule}`", hint=f"write `{tool}` for every call of it")
    tool = tools.canonical(tool)
    if tool == "WebFetch" and not specifier.startswith("domain:") and not _everything(specifier):
        raise RuleError(f"`{specifier}` is not a specifier of WebFetch", hint="write `WebFetch(domain:example.com)`")
    return Rule(tool, specifier)


def _everything(specifier: str) -> bool:
    return specifier in ("*", "**", ":*")


def _kind(tool_name: str) -> str:
    name = tools.canonical(tool_name)
    if tools.is_shell(name):
        return "shell"
    if name in EDITS or name in READS:
        return "path"
    return "value" if name == "WebFetch" or name in FIELDS else ""


# shell commands


@functools.lru_cache(maxsize=1024)
def command_globs(specifier: str) -> tuple[Glob, ...]:
    """`git push *` is also `git push` alone; `git push:*` is the same thing."""
    if specifier.endswith(":*"):
        specifier = specifier[:-2] + " *"
    if specifier.endswith(" *"):
        return glob(specifier), glob(specifier[:-2].rstrip())
    return (glob(specifier),)


def _shell_strikes(specifier: str, name: str, tool_input: Mapping[str, object], cwd: str | None) -> bool:
    lines = tools.lines(tool_input)
    if not lines:
        return True
    for line in lines:
        matches = _short_line_matches if len(line) <= _SHORT_LINE else _line_matches
        if matches(specifier, line):
            return True
    return False


def _line_matches(specifier: str, command: str) -> bool:
    globs = command_globs(specifier)
    if any(pattern.matches(command.strip()) for pattern in globs):
        return True
    parsed = shell.parse(command)
    if not parsed.complete or any(found.dynamic for found in parsed.commands):
        return True  # an unknown command may be a shell, and run anything
    return any(pattern.may_match(text) for found in parsed.commands for text in _readings(found) for pattern in globs)


_SHORT_LINE: Final = 4096
_short_line_matches = functools.lru_cache(maxsize=1024)(_line_matches)
"""Agents run the same few lines again and again, and every rule is held against each of them."""


def _readings(command: shell.SimpleCommand) -> Iterator[str]:
    """The texts a deny pattern is held against: as written, with its folder taken off, with its assignments."""
    text = command.text
    if UNKNOWN in text:  # an unknown word may also be none, or several
        text = text.replace(" " + UNKNOWN, UNKNOWN).replace(UNKNOWN + " ", UNKNOWN)
    if command.words:
        yield text
        if "/" in command.words[0]:
            yield text[text.rindex("/", 0, len(command.words[0])) + 1 :]
    if command.assignments:
        yield " ".join((*command.assignments, text)).rstrip()


_COVERED_STEPS: Final = 12_000
"""A longer line is approved by no rule: the guard looks at rules while the agent waits."""


def _shell_covers(specifiers: list[str], name: str, tool_input: Mapping[str, object], cwd: str | None) -> bool:
    parsed = shell.parse(str(tool_input["command"]), _COVERED_STEPS)
    globs = [pattern for specifier in specifiers for pattern in command_globs(specifier)]
    return parsed.complete and bool(parsed.commands) and all(_covered(command, globs) for command in parsed.commands)


def _covered(command: shell.SimpleCommand, globs: list[Glob]) -> bool:
    if command.written or command.dynamic or not command.placed:
        return False
    if not command.assignments and (command.transparent or not command.words or command.words[0] in _HARMLESS):
        return True
    text = " ".join((*command.assignments, *command.words))
    return any(pattern.matches(text) for pattern in globs)


# paths


def _path_strikes(specifier: str, name: str, tool_input: Mapping[str, object], cwd: str | None) -> bool:
    paths = _paths(name, tool_input, cwd)
    if paths is None:
        return True
    patterns = list(path_patterns(specifier, cwd, deny=True))
    # A pattern that names a folder matches everything in it; without a base folder a relative pattern is unknown.
    return not patterns or any(path_matches((*pattern, ANY_DEPTH), path) for pattern in patterns for path in paths)


def _path_covers(specifiers: list[str], name: str, tool_input: Mapping[str, object], cwd: str | None) -> bool:
    paths = _paths(name, tool_input, cwd)
    if paths is None:
        return False
    patterns = [pattern for specifier in specifiers for pattern in path_patterns(specifier, cwd, deny=False)]
    return all(any(path_matches(pattern, path) for pattern in patterns) for path in paths)


def _paths(name: str, tool_input: Mapping[str, object], cwd: str | None) -> list[list[str]] | None:
    """The paths of a call, as named and with symbolic links followed, in segments. None: one of them is unknown."""
    named = list(tools.paths_of(name, tool_input))
    if not named and tools.also_called(name):
        return None  # a patch without any file
    if len(named) > _MOST_PATHS:
        return None
    if not named and name in ("Grep", "Glob", "LS") and cwd:
        named.append(cwd)
    searched = _searched(name, tool_input)
    if searched is None:
        return None
    if searched and named:
        named.append(searched if searched.startswith(("/", "~")) else f"{named[0]}/{searched}")
    found: dict[str, None] = {}
    for path in named:
        absolute = _absolute(path, cwd) if path and "\0" not in path and len(path) <= _LONGEST_PATH else None
        if absolute is None:
            return None
        try:
            found |= dict.fromkeys((absolute, os.path.realpath(absolute)))
        except (OSError, ValueError):
            return None
    return [path_segments(each) for each in found] or None


def _searched(name: str, tool_input: Mapping[str, object]) -> str | None:
    """The folder that a search's own pattern names: `../x` for `../x/*.py`. None: it is unknown."""
    pattern = tool_input.get({"Glob": "pattern", "Grep": "glob"}.get(name, ""))
    if not isinstance(pattern, str):
        return ""
    pattern = pattern.removeprefix("!") if name == "Grep" else pattern
    segments = pattern.split("/")
    plain = next((place for place, segment in enumerate(segments) if set(segment) & set("*?[{\\")), len(segments))
    rest = "/".join(segments[plain:])
    # `*/../..`, `{a,/etc}` and `.{.,}` may lead anywhere
    if ".." in rest.translate(_NO_BRACES) or any(sign in rest for sign in ("{/", ",/", "{~", ",~", "\\")):
        return None
    return "/".join(segments[:plain]) or ("/" if plain and pattern.startswith("/") else "")


def _absolute(path: str, cwd: str | None) -> str | None:
    path = client_env.expanduser(path) if path.startswith("~") else path
    if not path.startswith("/"):
        if not cwd or not cwd.startswith("/"):
            return None
        path = f"{cwd}/{path}"
    return posixpath.normpath("/" + path.lstrip("/"))


def path_segments(path: str) -> list[str]:
    return [segment for segment in path.split("/") if segment]


def path_patterns(specifier: str, cwd: str | None, *, deny: bool) -> Iterator[tuple[str, ...]]:
    """A path specifier as absolute patterns. A relative one hangs below `cwd`, and below the real folder behind it."""
    if specifier.startswith("~"):
        specifier = client_env.expanduser(specifier)
    folder = specifier.endswith("/") and specifier.strip("/") != ""
    segments = _normal(specifier.split("/"), relative=not specifier.startswith("/"))
    if folder:
        segments.append(ANY_DEPTH)
    if specifier.startswith("/"):
        yield tuple(segments)
        yield _behind(segments)
        return
    bases: list[str] = []
    if cwd and cwd.startswith("/"):
        bases += dict.fromkeys((posixpath.normpath(cwd), os.path.realpath(cwd)))
    if deny:
        for base in bases:
            yield _behind(_normal([*path_segments(base), *segments]))
    if "/" not in specifier.rstrip("/") and not folder and segments[:1] != [".."]:
        segments = [ANY_DEPTH, *segments]  # a bare name: at any depth, as in .gitignore
    if segments[:1] == [ANY_DEPTH] and deny:
        yield tuple(segments)
    for base in bases:
        yield tuple(_normal([*(_literal(segment) for segment in path_segments(base)), *segments]))


def _behind(segments: list[str]) -> tuple[str, ...]:
    """A pattern through a symbolic link means what is behind it, too."""
    plain = next((place for place, segment in enumerate(segments) if set(segment) & set("*?[\\")), len(segments))
    real = path_segments(os.path.realpath("/" + "/".join(segments[:plain])))
    return (*(_literal(segment) for segment in real), *segments[plain:])


def _normal(segments: list[str], *, relative: bool = False) -> list[str]:
    """Segments without `.` and `..`; those `..` that lead out of a relative pattern are kept."""
    normal: list[str] = []
    for segment in segments:
        if segment == ".." and normal and normal[-1] != "..":
            normal.pop()
        elif segment not in ("", ".", "..") or (segment == ".." and relative):
            normal.append(segment)
    return normal


def _literal(segment: str) -> str:
    return "".join("\\" + char if char in "*?[\\" else char for char in segment)


# Addresses and other values


def _value_strikes(specifier: str, name: str, tool_input: Mapping[str, object], cwd: str | None) -> bool:
    value = _value(name, tool_input)
    return value is None or _value_glob(name, specifier).matches(value)


def _value_covers(specifiers: list[str], name: str, tool_input: Mapping[str, object], cwd: str | None) -> bool:
    value = _value(name, tool_input)
    return value is not None and any(_value_glob(name, specifier).matches(value) for specifier in specifiers)


def _value(name: str, tool_input: Mapping[str, object]) -> str | None:
    """The one value of a call that its specifier is about; None if it is unknown."""
    if name == "WebFetch":
        return _host(tool_input.get("url"))
    value = tool_input.get(FIELDS[name])
    return value if isinstance(value, str) else None


def _value_glob(name: str, specifier: str) -> Glob:
    if name != "WebFetch":
        return glob(specifier)
    domain = specifier.removeprefix("domain:").strip().lower().rstrip(".")
    return glob(_ascii(domain) or domain)


def _host(url: object) -> str | None:
    """The host of an address, or None where two readers might not agree on it."""
    if not isinstance(url, str) or any(char in "\\\0" or char.isspace() for char in url):
        return None
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return None
    return _ascii(host) if host and parts.scheme in ("http", "https") else None


def _ascii(host: str) -> str | None:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return None


def _other_strikes(specifier: str, name: str, tool_input: Mapping[str, object], cwd: str | None) -> bool:
    """For an unknown tool: the pattern over its input as compact JSON, or over any string in it."""
    pattern = glob(specifier)
    try:
        if pattern.matches(msgspec.json.encode(tool_input).decode()):
            return True
    except (TypeError, ValueError, RecursionError):
        return True
    return any(pattern.matches(text) for text in _strings(tool_input))


def _strings(value: object) -> Iterator[str]:
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            values += value.values()
        elif isinstance(value, list | tuple):
            values += value


def _other_covers(specifiers: list[str], name: str, tool_input: Mapping[str, object], cwd: str | None) -> bool:
    """Nothing: which part of an unknown input matters is not known either."""
    return False


_STRIKES: Final[dict[str, Callable[[str, str, Mapping[str, object], str | None], bool]]] = {
    "shell": _shell_strikes,
    "path": _path_strikes,
    "value": _value_strikes,
}
_COVERS: Final[dict[str, Callable[[list[str], str, Mapping[str, object], str | None], bool]]] = {
    "shell": _shell_covers,
    "path": _path_covers,
    "value": _value_covers,
}
