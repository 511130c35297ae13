"""Judge whether a call would disarm billhook: its files, its programs, its own verbs."""

import os
import posixpath
import re
from typing import Final

from billhook.builtins.guard import Judged
from billhook.builtins.protected_files import Guarded, Hit
from billhook.core import client_env
from billhook.core.answers import NOTHING, Answer, ask, deny
from billhook.core.events import Event
from billhook.effects.analysis import Analysis
from billhook.effects.calls import Touched, touched
from billhook.effects.effect import Effect, Weight
from billhook.effects.paths import LONGEST_PATH
from billhook.effects.programs import Writes
from billhook.effects.protected_paths import Protected
from billhook.effects.script import UNKNOWN
from billhook.effects.shell import SimpleCommand
from billhook.effects.writers import READERS, writes

_OURS = re.compile(r"billhook(?:\.cli(?:\.\w+)*|\.exe|\.cmd)?(?:\[[^\]]*\])?(?:[@=<>~!]=?.*)?", re.I)
_UNREAD = re.compile(r"\bbillhook\b[^\n;|&]{0,200}?\b(?:trust|uninstall|daemon\W+stop)\b", re.I)
_IN_CODE = re.compile(
    r"\bapprove\s*\(|[\"'](?:trust|uninstall)[\"']|\bbillhook[\"',\s]+(?:trust|uninstall)\b|\bdaemon[\"',\s]+stop\b",
    re.I,
)
_LONGEST_CWD: Final = 4096  # no process runs in a folder with a longer name, and every folder above is looked at
_SAFE: Final = frozenset({"--list", "--json", "--help", "-h"})
_INSTALLERS = re.compile(
    r"pip[\d.]*|uv|pipx|poetry|pdm|hatch|rye|conda|mamba|micromamba|pixi|python[\d.]*|easy_install|brew|apt|apt-get|dnf|yum"
    r"|apk|pacman|zypper|snap|port|nix-env|dpkg|rpm|flatpak"
)
_REMOVES_WORDS = "uninstall remove purge unlink erase autoremove del rm rem -R -Rs -Rns -e -r --erase"
_REMOVES: Final = frozenset(_REMOVES_WORDS.split())
_REPLACES_WORDS = "reinstall upgrade inject runpip update downgrade --reinstall-package --upgrade-package -P"
_REPLACES: Final = frozenset(_REPLACES_WORDS.split())
_INSTALLS_WORDS = "install add -S -i -U"
_INSTALLS: Final = frozenset(_INSTALLS_WORDS.split())
_FORCES_WORDS = (
    "--force -f --force-reinstall --reinstall -U --upgrade -I --ignore-installed --no-cache --allow-downgrades --from"
)
_FORCES: Final = frozenset(_FORCES_WORDS.split())
_EVERY_PACKAGE: Final = (("pipx", "uninstall-all"), ("pipx", "reinstall-all"), ("uv", "python", "uninstall"))
_SPEC = re.compile(
    r"(?:.*[/=])?billhook(?:[-_]\d[^/]*|\.git(?:@.*)?)?(?:\[[^\]]*\])?(?:\s*(?:[@=<>~!]=?|@).*)?/?", re.I | re.S
)
"""billhook as installers name it: with a version, as an archive, a folder or an address."""
_PROJECT_NAME = re.compile(r"""^\s*name\s*=\s*["']?billhook["']?\s*,?\s*$""", re.I | re.M)
_PLAIN_SPEC = re.compile(r"billhook(?:\[[^\]]*\])?", re.I)


def disarmed(event: Event, found: Analysis, protected: Protected) -> list[Judged]:
    """The row `disarm` of the guard's table: what a call would do to billhook itself."""
    answer, _ = judged(event, protected)
    if answer is NOTHING:
        return []
    weight: Weight = "heavy" if answer.decision == "deny" else "normal"
    effect = Effect("disarm", scope="unknown", weight=weight, why=answer.reason or "")
    return [Judged(effect, answer.decision)]


def judged(event: Event, protected: Protected) -> tuple[Answer, Touched]:
    """The answer to a tool call, and what that call does."""
    cwd = event.cwd
    if not cwd.startswith("/") or len(cwd) > _LONGEST_CWD:
        cwd = _here()
    found = touched(event, cwd)
    if verb := _own_verb(found, cwd):
        why = f"`billhook {verb}` is for the person: they can run it in a terminal of their own"
        return deny(why), found
    worst: Hit | None = None
    if found.paths or found.code:
        for hit in Guarded(protected, cwd, found).hits():
            if hit.state:
                return deny(_state_reason(hit)), found
            worst = worst if worst and not worst.doubtful else hit if not worst or not hit.doubtful else worst
    if worst:
        return ask(_reason(worst, protected)), found
    if found.unread:
        return ask(f"This gives a list of files to `{found.unread}` that is too long to read, or unreadable"), found
    if any(_replaces_us(command, cwd) for command in found.commands):
        return ask("This would remove or replace billhook, and with it every guard it runs"), found
    return NOTHING, found


def does_nothing(found: Touched) -> bool:
    """Whether a plain line was understood, and neither writes nor runs nor goes anywhere."""
    if found.paths or found.code or found.fed or not found.complete or len(found.commands) != 1:
        return False
    command = found.commands[0]
    return command.name not in _ELSEWHERE and writes(command.words) == Writes()


_ELSEWHERE: Final = frozenset({"cd", "pushd", "popd", "chdir", "source", "env", "sudo", "function"})


def _here() -> str:
    try:
        return client_env.getcwd()
    except OSError:  # it was removed
        return "/"


def _reason(hit: Hit, protected: Protected) -> str:
    does = "may change" if hit.doubtful else "changes"
    installed = (*protected.programs, *protected.interpreters, *protected.packages, *protected.sites)
    if any(hit.path == path or hit.path.startswith(path + "/") for path in installed):
        return f"This {does} `{_shown(hit)}`, which is part of billhook's installation"
    return f"This {does} `{_shown(hit)}`, which billhook's hooks depend on (configuration, or an approved script)"


def _state_reason(hit: Hit) -> str:
    does = "may touch" if hit.doubtful else "touches"
    return (
        f"This {does} `{_shown(hit)}`, where billhook keeps approvals, state and log; only billhook itself writes there"
    )


def _shown(hit: Hit) -> str:
    return hit.path.replace(UNKNOWN, "...")[:500].encode(errors="replace").decode()


# our own verbs


def _own_verb(found: Touched, cwd: str) -> str:
    """Which of the verbs that are the person's alone the call runs: `trust`, `uninstall`, `daemon stop`."""
    ours = "billhook" in found.text.lower()
    for command in found.commands:
        runs = command.words and (command.name not in READERS or command.name in ("billhook", "env"))
        if runs and (verb := _verb_of(command, ours, cwd)):
            return verb
    for text in found.code:
        if not ours and "billhook" not in text.lower():
            continue
        says = _IN_CODE.search(text) if "billhook" in text.lower() else None
        if says := says or (None if found.complete else _UNREAD.search(text)):
            return _named(says[0])
    return ""


def _named(text: str) -> str:
    said = text.lower()
    return "uninstall" if "uninstall" in said else "daemon stop" if "daemon" in said else "trust"


def _verb_of(command: SimpleCommand, ours: bool, cwd: str) -> str:
    words = command.words
    for place, word in enumerate(words):
        unknown = UNKNOWN in word and ours
        if not unknown and not _is_ours(word, place, cwd):
            continue
        rest = words[place + 1 :]
        operands = [each for each in rest if not each.startswith("-")]
        verb = _forbidden(operands, rest)
        if verb or unknown:
            if verb:
                return verb
            continue
        if operands and UNKNOWN in operands[0] and rest[0] == operands[0]:
            return "trust"  # `billhook $X`: it may be
    return ""


def _forbidden(operands: list[str], rest: tuple[str, ...]) -> str:
    """The verb stands first; or second, if an option with a value stands before it."""
    candidates = [0] if rest[:1] and not rest[0].startswith("-") else [0, 1]
    for place in candidates:
        verb = operands[place] if place < len(operands) else ""
        if verb == "trust" and not (set(rest) & _SAFE and set(rest) <= _SAFE | {"trust"}):
            return "trust"
        if verb == "uninstall" and not {"--help", "-h"} & set(rest):
            return "uninstall"
        if verb == "daemon" and "stop" in operands[place + 1 : place + 3]:
            return "daemon stop"
    return ""


def _is_ours(word: str, place: int, cwd: str) -> bool:
    if _OURS.fullmatch(posixpath.basename(word)):
        return True
    if place or "/" not in word or UNKNOWN in word or len(word) > LONGEST_PATH // 4:
        return False
    try:  # a link by another name
        return _OURS.fullmatch(posixpath.basename(os.path.realpath(posixpath.join(cwd, word)))) is not None
    except (OSError, ValueError):
        return False


def _replaces_us(command: SimpleCommand, cwd: str) -> bool:
    """Whether an installer would remove billhook, or put another version in its place."""
    if not _INSTALLERS.fullmatch(command.name):
        return False
    words = [part for word in command.words[1:] for part in (word.split("=", 1) if word[:2] == "--" else [word])]
    said = set(words)
    if any(set(every[1:]) <= said for every in _EVERY_PACKAGE if every[0] == command.name):
        return True
    if command.name == "uv" and {"tool", "uninstall", "--all"} <= said:
        return True
    specs = [word for word in words if not word.startswith("-") and _SPEC.fullmatch(word)]
    specs += _specs_in_files(words, cwd) if said & _INSTALLS else []
    if not specs:
        return False
    other = not all(map(_PLAIN_SPEC.fullmatch, specs))
    installs = said & _INSTALLS or command.name == "easy_install"
    return bool(said & (_REMOVES | _REPLACES) or (installs and (other or said & _FORCES)))


def _specs_in_files(words: list[str], cwd: str) -> list[str]:
    """Another billhook as `-r` files name it, and folders that hold one."""
    found: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        path = posixpath.join(cwd, word)
        if before in ("-r", "--requirement", "--requirements"):
            found += [line for line in map(_requirement, _text_of(path).splitlines()) if _is_another(line)]
        elif "/" in word or word in (".", ".."):
            files = ("pyproject.toml", "setup.cfg", "setup.py")
            found += [f"{word}/billhook" for name in files if _PROJECT_NAME.search(_text_of(f"{path}/{name}"))]
    return found


def _requirement(line: str) -> str:
    return line.partition("#")[0].partition(";")[0].replace(" ", "").strip()


def _is_another(requirement: str) -> bool:
    """Whether it asks for another version than this one; `billhook` and `billhook>=1` don't."""
    from importlib.metadata import version

    if not _SPEC.fullmatch(requirement) or _PLAIN_SPEC.fullmatch(requirement.partition(">=")[0]):
        return False
    return requirement.partition("==")[2] != version("billhook")


def _text_of(path: str) -> str:
    """The text of a small file; "" of anything else."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _LARGEST_FILE:
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST_FILE)
    except (OSError, ValueError):
        return ""


_LARGEST_FILE: Final = 256 * 1024
