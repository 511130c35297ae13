"""Lists of files that a line works on: `xargs rm < list`, `rm $(cat list)`, `while read f; do rm $f; done < list`."""

import itertools
import os
import stat
from collections.abc import Iterable, Sequence
from typing import Final

from billhook.builtins.placing import absolute
from billhook.builtins.touch import after
from billhook.script import UNKNOWN
from billhook.shell import SimpleCommand

LARGEST: Final = 256 * 1024
_MOST_FILES: Final = 16
_POUR: Final = frozenset({"cat", "sort", "uniq", "head", "tail", "tac", "tr", "grep", "sed", "awk"})
"""Programs that give a list, or some of it, to the next one in the line."""

WITH_LISTS: Final = {"tar": ("-T", "--files-from"), "rsync": ("--files-from", "--files-from")}
"""Programs that are given the list by an option."""

RUN_FILES: Final = frozenset({"at", "batch", "crontab", "tmux"})


def files_run(command: SimpleCommand) -> list[str]:
    """Files whose text is run: `at -f x now`, `crontab x`, `tmux source-file x`."""
    operands = [word for word in command.words[1:] if not word.startswith("-")]
    if command.name == "crontab":
        return operands[:1]
    sourced = [each for verb, each in itertools.pairwise(operands) if verb in ("source-file", "source")]
    return [*after(command.words, "-f", "--file"), *sourced]


def files_of(commands: Iterable[SimpleCommand]) -> list[str]:
    """The files that a line reads."""
    found: list[str] = []
    for command in commands:
        found += [redirect.target for redirect in command.redirects if redirect.operator == "<"]
        if command.name in ("xargs", "parallel"):
            found += after(command.words, "-a", "--arg-file")
            found += command.words[command.words.index("::::") + 1 :] if "::::" in command.words else ()
        elif command.name in WITH_LISTS:
            found += after(command.words, *WITH_LISTS[command.name])
        elif command.name in RUN_FILES:
            found += files_run(command)
        elif command.name in _POUR:
            found += [word for word in command.words[1:] if not word.startswith("-")]
    return list(dict.fromkeys(name for name in found if name and UNKNOWN not in name))


def words_in(files: Iterable[str], folders: Iterable[str]) -> list[str] | None:
    """The words of these files; None: one of them is there, and can't be read or is too large."""
    found: dict[str, None] = {}
    paths = dict.fromkeys(path for name in files for path in absolute(name, folders))
    for path in list(paths)[:_MOST_FILES]:
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                continue  # a pipe would keep us waiting
            if status.st_size > LARGEST:
                return None
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read(LARGEST).replace("\0", "\n")
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        except OSError:
            return None
        found |= dict.fromkeys((*text.split(), *text.splitlines()))
    return [word for word in found if word]


def filled(words: Sequence[str], listed: Sequence[str]) -> list[str]:
    """A command with the words of a list in the place of those that are not known."""
    name = words[0].rpartition("/")[2]
    if name in WITH_LISTS:
        return [words[0], *listed, *words[1:]] if name == "rsync" else [*words, *listed]
    found = [words[0]]
    for word in words[1:]:
        found += [word.replace(UNKNOWN, one) for one in listed] if UNKNOWN in word else [word]
    return found
