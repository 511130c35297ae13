"""The names of hooks: made for those that have none, and checked."""

import itertools
import os
import re
from collections.abc import Container, Sequence
from typing import Final

from billhook import shell
from billhook.config.declared import Action, Exec, NotYet, Python, Run, Say, Url

_LONGEST_NAME: Final = 200


def made_name(action: Action | None, event: str = "") -> str:
    """A name for a hook that has none: its script, else the tool that it calls, else its event and first program."""
    match action:
        case Run(text):
            return _of_commands([command.words for command in shell.parse(text[:4096]).commands], event)
        case Exec(argv):
            return _of_commands([argv], event)
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


def free_name(stem: str, event: str, taken: Container[str]) -> str:
    """The name, or one with the event if another hook has it; with a number only if that one is taken, too."""
    for name in (stem, f"{stem}-{_kebab(event)}" if event else stem):
        if name not in taken:
            return name
    return next(f"{name}-{number}" for number in itertools.count(2) if f"{name}-{number}" not in taken)


_INTERPRETERS = re.compile(
    r"(?:ba|z|da|k)?sh|python[\d.]*|py|node|ruby|perl|php|deno|bun|uv|uvx|npx|bunx|pnpx|tsx|ts-node|env|run|exec|dlx"
    r"|sudo|cd|pwsh|powershell|timeout|nohup|nice|time|command|go|npm|pnpm|yarn|poetry|pipx|pipenv|hatch|rye"
)
"""They run what is meant."""
_WORDS: Final = """
    awk cat cp curl cut date echo export eval exit false find gh git grep head jq kill ls mkdir mv printf pwd
    read return rg rm sed set sleep sort source tail tee test touch tr trap true uniq unset wc wget which xargs
    [ [[ . : if then else fi for while until do done case esac in !
"""
_EVERYDAY: Final = frozenset(_WORDS.split())  # they say little of what a hook is for
_SCRIPT: Final = re.compile(r".+\.(?:sh|bash|zsh|py|js|mjs|cjs|ts|mts|cts|rb|pl|php|ps1|go|lua|fish|exe|bat|cmd)")
_GENERAL: Final = frozenset({"main", "index", "hook", "hooks", "run", "cli", "__main__", "script", "mod"})
_FOLDERS: Final = frozenset({"hooks", "scripts", "src", "dist", "bin", "lib", "tools", "build", "out", "cmd", ""})
_NAME = re.compile(r"[\w.+@-]+")


def _of_commands(commands: Sequence[Sequence[str]], event: str) -> str:
    script = next((name for words in commands for word in words if (name := _script(word))), "")
    if script:
        return script
    for words in commands:
        name = _tool(words)
        if name and name not in _EVERYDAY:
            return name
    first = next((stem for words in commands for word in words[:1] if (stem := _stem(word))), "command")
    return f"{_kebab(event)}-{first}" if event else first


def _script(word: str) -> str:
    """The name of a script file, or of a program that is given by its path; of a `main.py` that of its folder."""
    path = word.rstrip("/")
    folder, name = os.path.split(path)
    if not (_SCRIPT.fullmatch(name) or (folder and _stem(name) and not path.startswith(_SYSTEM))) or "://" in path:
        return ""
    stem, above = _stem(name), _stem(os.path.basename(folder))
    return above if stem in _GENERAL and above not in _FOLDERS else "" if _INTERPRETERS.fullmatch(stem) else stem


def _tool(words: Sequence[str]) -> str:
    words = list(words)
    for place, word in enumerate(words):
        if word == "-m" and place and place + 1 < len(words):
            return _stem(words[place + 1].rpartition(".")[2])
        if word.startswith("-") and word[1:2] in "ce" and not word.startswith("--"):
            return ""  # the rest is code
        stem = _stem(word)
        if stem and not _INTERPRETERS.fullmatch(stem):
            return stem
        if not stem and not word.startswith("-"):
            return ""
    return ""


_SYSTEM: Final = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/", "/dev/", "/tmp/", "/etc/", "/System/")


def _stem(word: str) -> str:
    """The name of a file without its folder, suffix and version; nothing when the word is no name."""
    name = os.path.basename(word)
    name = name[:1] + name[1:].partition("@")[0]
    stem = (os.path.splitext(name)[0] if _SCRIPT.fullmatch(name) else name).strip("-.")
    return stem[:_LONGEST_NAME] if _NAME.fullmatch(stem) and not name.startswith("-") else ""


def _kebab(event: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", event).lower()


def checked_name(name: str) -> str:
    """Why a name can't be one; nothing when it can."""
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        return "a name is printable, and has at most 200 characters"
    return ""
