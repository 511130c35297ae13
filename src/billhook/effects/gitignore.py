"""Which untracked files git ignores: the patterns of `.gitignore` files, and folders that are generated anyway."""

import fnmatch
import functools
import os
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from billhook.effects.gitobjects import BROKEN, read_file

GENERATED: Final = frozenset(
    (
        "build", "dist", "node_modules", "target", ".venv", "venv", "__pycache__", ".pytest_cache", ".mypy_cache",
        ".ruff_cache", ".tox", "coverage", ".next", ".nuxt", ".cache", ".gradle", ".terraform",
    )
)  # fmt: skip
_MOST_RULES: Final = 2_000  # of one file
_LONGEST_RULE: Final = 500
_CHAR_CLASS = re.compile(r"\[\^")


class IgnoreRule(NamedTuple):
    """One line of a `.gitignore`."""

    base: str  # the folder of the file: "" or `src/`
    segments: tuple[str, ...]
    negated: bool
    only_folders: bool
    anchored: bool  # from `base` on; otherwise a name at any depth below it

    def matches(self, name: str, is_folder: bool) -> bool:
        if self.only_folders and not is_folder:
            return False
        if not self.anchored:
            return bool(_glob(self.segments[0])(name.rpartition("/")[2]))
        return _match(name[len(self.base) :].split("/"), self.segments)


def read_rules(path: str, base: str) -> list[IgnoreRule]:
    """The rules of one file, in order; none where it can't be read. A link is not followed, as git doesn't."""
    try:
        text = read_file(path, 1 << 18, os.O_NOFOLLOW) or b""
    except BROKEN:
        return []
    lines = os.fsdecode(text).split("\n")[:_MOST_RULES]
    return [rule for line in lines if (rule := _rule(line.removesuffix("\r"), base))]


def _rule(line: str, base: str) -> IgnoreRule | None:
    text = line.rstrip(" ") + (" " if line.rstrip(" ").endswith("\\") else "")
    if not text or text.startswith("#") or len(text) > _LONGEST_RULE:
        return None
    negated = text.startswith("!")
    text = text[negated:]
    body = text.removesuffix("/")
    if not body.strip("/"):
        return None
    segments = tuple(body.removeprefix("/").split("/"))
    return IgnoreRule(base, segments, negated, text.endswith("/"), "/" in body)


def is_ignored(rules: Sequence[IgnoreRule], name: str, is_folder: bool) -> bool:
    """Whether the last rule that matches a name ignores it. The folders above it must not be ignored."""
    for rule in reversed(rules):
        if rule.matches(name, is_folder):
            return not rule.negated
    return False


def _match(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Segments against a pattern with `**`; only the last `**` is tried again, so the time is bounded."""
    at = place = retry = 0
    star = -1
    while at < len(parts):
        if place < len(pattern) and pattern[place] == "**":
            star, retry, place = place, at, place + 1
        elif place < len(pattern) and _glob(pattern[place])(parts[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            retry += 1
            at, place = retry, star + 1
        else:
            return False
    return place == len(pattern)


@functools.lru_cache(maxsize=4096)
def _glob(pattern: str) -> Callable[[str], object]:
    """A test of one segment. The usual patterns, `name` and `*.ext`, need no regular expression."""
    if not any(sign in pattern for sign in "*?[\\"):
        return pattern.__eq__
    rest = pattern[1:]
    if pattern.startswith("*") and not any(sign in rest for sign in "*?[\\"):
        return lambda name: name.endswith(rest)
    escaped = re.sub(r"\\(.)", lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], pattern)
    try:
        # fnmatch writes atomic groups: no pattern takes exponential time
        return re.compile(fnmatch.translate(_CHAR_CLASS.sub("[!", escaped))).match
    except re.error:
        return lambda name: False
