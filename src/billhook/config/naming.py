"""The names of hooks: made for those that have none, and checked."""

import os
import re
from typing import Final

from billhook import shell
from billhook.config.declared import Action, Exec, NotYet, Python, Run, Say, Url

_LONGEST_NAME: Final = 200


def made_name(action: Action | None) -> str:
    """A name for a hook that has none: what it runs, without folder and suffix."""
    match action:
        case Run(text):
            return _program(shell.parse(text[:4096])) or "command"
        case Exec(argv):
            return _stem(argv[0]) or "command"
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


_INTERPRETERS = re.compile(r"(?:ba|z|da|k)?sh|python[\d.]*|node|ruby|perl|php|deno|bun|uv|npx|env|run|exec|sudo")


def _program(parsed: shell.Parsed) -> str:
    """The script that a line runs, or its first program."""
    first = ""
    for command in parsed.commands:
        for word in command.words:
            stem = _stem(word)
            if not stem or word.startswith("-") or "\0" in word:
                continue
            if not _INTERPRETERS.fullmatch(stem):
                return stem
            first = first or stem
    return first


def _stem(word: str) -> str:
    stem = os.path.splitext(os.path.basename(word.replace("\0", "")))[0]
    return re.sub(r"[^\w.+-]+", "-", stem).strip("-.")[:_LONGEST_NAME]


def checked_name(name: str) -> str:
    """Why a name can't be one; nothing when it can."""
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        return "a name is printable, and has at most 200 characters"
    return ""
