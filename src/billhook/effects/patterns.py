"""Patterns over texts and paths, matched without backtracking.

No regular expression is made from what a user wrote, so no pattern can take more than time linear in the text (times
the pattern's length where the text has unknown parts).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from billhook.effects.effect import UNKNOWN

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


def segment_matches(pattern: str, text: str) -> bool:
    """Whether one segment of a path matches; two pointers, no recursion."""
    return _two_pointers(_segment(pattern), text, "*", _fits)


def _fits(sign: str | tuple[bool, frozenset[str], tuple[tuple[str, str], ...]], char: str) -> bool:
    if isinstance(sign, str):
        return sign == "?" or sign == "=" + char
    negated, single, ranges = sign
    return (char in single or any(low <= char <= high for low, high in ranges)) != negated
