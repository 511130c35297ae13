"""The names of hooks: made for those that have none, and checked."""

import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from billhook import shell
from billhook.config.declared import Action, Exec, NotYet, Python, Run, Say, Url

_LONGEST_NAME: Final = 200


def made_name(action: Action | None) -> str:
    """A name for a hook that has none: what it runs, without folder and suffix."""
    match action:
        case Run(text):
            return _program(command.words for command in shell.parse(text[:4096]).commands) or "command"
        case Exec(argv):
            return _program([argv]) or "command"
        case Python(target):
            return target.rpartition(":")[2]
        case Url(url):
            from urllib.parse import urlsplit

            try:
                return urlsplit(url).hostname or "http"
            except ValueError:
                return "http"
        case Say(decision):
            return decision
        case NotYet(kind):
            return kind
        case _:
            return "hook"


_INTERPRETERS = re.compile(r"(?:ba|z|da|k)?sh|python[\d.]*|node|ruby|perl|php|deno|bun|uv|npx|env|run|exec|sudo|cd")
_NAME = re.compile(r"[\w.+@-]+")


def _program(commands: Iterable[Sequence[str]]) -> str:
    """The script that a line runs, or its first program."""
    first = ""
    for words in commands:
        for word in words:
            stem = _stem(word)
            if word.startswith("-") and word[1:2] in "ce":
                break  # the rest is code
            if not stem:
                continue
            if not _INTERPRETERS.fullmatch(stem):
                return stem
            first = first or stem
    return first


def _stem(word: str) -> str:
    """The name of a file without its folder and suffix; nothing when the word is no name."""
    name = os.path.basename(word)
    stem = os.path.splitext(name)[0].strip("-.")
    return stem[:_LONGEST_NAME] if _NAME.fullmatch(stem) and not name.startswith("-") else ""


def checked_name(name: str) -> str:
    """Why a name can't be one; nothing when it can."""
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        return "a name is printable, and has at most 200 characters"
    return ""
