"""Matchers: patterns for a tool's name, or for another field of the event, as each dialect reads them.

Every pattern matches everything, a set of names, or one RE2 expression. So a plan can put a thousand of them into a
dict and one RE2 set. RE2 takes linear time; with Python's `re` one bad pattern hangs the process, and no watchdog can
stop it.
"""

import functools
import re
from typing import Any

import msgspec

from billhook.core.dialect_traits import Matching
from billhook.core.lazy import pattern
from billhook.core.tools import canonical

_NAMES_ONLY = pattern(r"[A-Za-z0-9_\- ,|]*")
_FEWER_NAMES_ONLY = pattern(r"[A-Za-z0-9_|]*")
_GLOB = pattern(r"[*?\[]")

LONGEST_NAME = 1024
"""Characters. No real tool has a longer name: such a name matches every expression without a comparison."""
LARGEST_EXPRESSION = 256 << 10
"""Bytes that RE2 may use for one pattern. No pattern for names needs more, and larger ones take long to compile: a file
without approval must not delay other hooks."""
NARROW = frozenset({"FileChanged", "StopFailure"})
"""Events whose matchers count as plain names only if they consist of letters, digits, `_` and `|`."""


class Matcher(msgspec.Struct, frozen=True):
    """A compiled pattern. Without names and expression, it matches everything."""

    names: frozenset[str] | None = None
    expression: str = ""
    problem: str = ""
    """Why the pattern could not be read; then it matches everything, so that a guard is not switched off."""

    @property
    def everything(self) -> bool:
        return self.names is None and not self.expression

    def matches(self, *targets: str) -> bool:
        """Whether one of several names for the same thing matches."""
        if self.everything:
            return True
        if self.names is not None:
            return not self.names.isdisjoint(targets)
        search = expression(self.expression).search
        return any(len(target) > LONGEST_NAME or search(printable(target)) is not None for target in targets)


EVERYTHING = Matcher()
_NO_NAME = Matcher(problem="it is a list without a name")


@functools.lru_cache(maxsize=4096)
def compile_matcher(pattern: str | None, matching: Matching, event_name: str) -> Matcher:
    """Read a pattern as the dialect does. Never raises: an invalid pattern matches everything and has a `problem`."""
    if pattern is None or pattern in ("", "*"):
        return EVERYTHING
    match matching:
        case "claude":
            return _claude(pattern, event_name)
        case "glob":
            if _GLOB.search(pattern):
                return _checked(_glob_expression(pattern))
            return Matcher(names=frozenset({pattern, canonical(pattern)}))
        case "wildcard":
            parts = [part.strip() for part in re.split(r"[|,]", pattern)]
            if any(part == "*" for part in parts):
                return EVERYTHING
            if not any(parts):
                return _NO_NAME
            body = "|".join(re.escape(part).replace(r"\*", ".*") for part in parts if part)
            return _checked(f"(?is)^(?:{body})$")
        case _:
            return Matcher(names=frozenset({pattern, canonical(pattern)}))


def _claude(pattern: str, event_name: str) -> Matcher:
    plain = _FEWER_NAMES_ONLY if event_name in NARROW else _NAMES_ONLY
    if plain.fullmatch(pattern):
        names = frozenset(part.strip() for part in re.split(r"[|,]", pattern)) - {""}
        return Matcher(names=names) if names else _NO_NAME
    return _checked(pattern)


def _checked(text: str) -> Matcher:
    try:
        expression(text)
    except Exception as error:
        why = error.args[0] if error.args else error
        why = why.decode("utf-8", "replace") if isinstance(why, bytes) else why
        return Matcher(problem=f"RE2 can't compile it: {why}")
    return Matcher(expression=text)


def _glob_expression(pattern: str) -> str:
    """A shell glob (`*`, `?`, `[...]`) as an anchored RE2 expression."""
    out, i = [], 0
    while i < len(pattern):
        char = pattern[i]
        end = pattern.find("]", i + 2) if char == "[" else -1
        if char == "*":
            out.append(".*")
        elif char == "?":
            out.append(".")
        elif end > 0:
            inner = pattern[i + 1 : end].replace("\\", "\\\\").replace("[", r"\[")
            out.append("[" + ("^" + inner[1:] if inner[0] in "!^" else inner) + "]")
            i = end
        else:
            out.append(re.escape(char))
        i += 1
    return f"(?s)^(?:{''.join(out)})$"


def printable(name: str) -> str:
    """A name that RE2 accepts: names come from outside, and a lone surrogate must not become an error here."""
    return name.encode("utf-8", "replace").decode("utf-8")


@functools.lru_cache(maxsize=4096)
def expression(text: str) -> Any:
    """Compile with RE2, without its log messages."""
    import re2

    options = _quiet()
    options.max_mem = LARGEST_EXPRESSION
    return re2.compile(text, options)


class ExpressionSet:
    """Many expressions, compared with a name in one pass."""

    def __init__(self, texts: list[str]) -> None:
        import re2

        self._texts = texts
        self._set: Any = re2.Set.SearchSet(_quiet())
        for text in (*texts, ""):
            self._set.Add(text)
        try:
            self._set.Compile()
        except re2.error:  # too large for one automaton
            self._set = None

    def matching(self, name: str) -> list[int]:
        """The positions of the expressions that match, in any order."""
        if len(name) > LONGEST_NAME:
            return list(range(len(self._texts)))
        if not name.isascii():
            name = printable(name)
        found: list[int] = [] if self._set is None else self._set.Match(name) or []
        try:
            found.remove(len(self._texts))
        except ValueError:
            # The last one matches everything. If it doesn't, the set ran out of memory, which RE2 does not report.
            return [i for i, text in enumerate(self._texts) if expression(text).search(name)]
        return found


def _quiet() -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    return options
