"""Judge whether a call would disarm billhook: its files, its programs, its own verbs."""

import os
import posixpath
import re
from collections.abc import Iterator
from typing import Final

from billhook.builtins.guard import Judged
from billhook.builtins.protected_files import Guarded, Hit
from billhook.core import client_env
from billhook.core.events import Event
from billhook.effects.analysis import Analysis, world_of
from billhook.effects.calls import Touched
from billhook.effects.effect import Command, Effect, Weight
from billhook.effects.families import is_known
from billhook.effects.paths import LONGEST_PATH
from billhook.effects.programs import PYTHON, Touch
from billhook.effects.protected_paths import Protected
from billhook.effects.script import UNKNOWN
from billhook.effects.wrappers import SHELLS
from billhook.effects.writers import READERS

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
    cwd = world_of(event).cwd
    touched = touched_by(found, cwd)
    if verb := _own_verb(found, cwd):
        why = f"`billhook {verb}` is for the person: they can run it in a terminal of their own"
        return [_judged("deny", why)]
    worst: Hit | None = None
    for hit in Guarded(protected, cwd, touched).hits() if touched.paths or touched.code else ():
        if hit.state:
            return [_judged("deny", _state_reason(hit), hit.path)]
        worst = worst if worst and not worst.doubtful else hit if not worst or not hit.doubtful else worst
    if worst:
        return [_judged("ask", _reason(worst, protected), worst.path)]
    if any(_replaces_us(command, cwd) for command in found.commands):
        return [_judged("ask", "This would remove or replace billhook, and with it every guard it runs")]
    return []


def _judged(decision: str, why: str, path: str = "") -> Judged:
    weight: Weight = "heavy" if decision == "deny" else "normal"
    return Judged(Effect("disarm", path, weight=weight, why=why), decision)


_FILE_EFFECTS: Final = frozenset({"write", "overwrite", "delete", "permissions"})


def touched_by(found: Analysis, cwd: str) -> Touched:
    """The files that a call touches, and the code that may touch more."""
    paths = [_touch(effect) for effect in found.effects if effect.kind in _FILE_EFFECTS]
    for command in found.commands:
        paths += _named_by(command)
    texts = () if found.complete else found.texts
    return Touched(
        paths=tuple(dict.fromkeys(paths)),
        code=(*found.code, *texts),
        text="\n".join(found.texts),
        fed=any(effect.why for effect in found.effects),
        dots=any("dotglob" in text for text in found.texts),
        complete=found.complete,
    )


def _touch(effect: Effect) -> Touch:
    deletes = effect.kind == "delete"
    below = effect.recursive and effect.kind in ("delete", "permissions", "overwrite")
    return Touch(effect.target, below=below, names=effect.names, itself=deletes)


def _named_by(command: Command) -> Iterator[Touch]:
    """A program that is in no table may write every file that it names."""
    if command.name in READERS or is_known(command.name) or command.name in SHELLS or PYTHON.fullmatch(command.name):
        return
    for word in command.args:
        path = word.partition("=")[2] if word.startswith("-") else word
        if path and not path.startswith("-"):
            yield Touch(absolute(path, command.cwd), maybe=True)


def absolute(word: str, cwd: str) -> str:
    return word if word.startswith(("/", UNKNOWN)) else f"{cwd}/{word}"


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


def _own_verb(found: Analysis, cwd: str) -> str:
    """Which of the verbs that are the person's alone the call runs: `trust`, `uninstall`, `daemon stop`."""
    ours = any("billhook" in text.lower() for text in found.texts)
    for command in found.commands:
        runs = command.name not in READERS or command.name in ("billhook", "env")
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


def _verb_of(command: Command, ours: bool, cwd: str) -> str:
    words = (command.program, *command.args)
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


def _replaces_us(command: Command, cwd: str) -> bool:
    """Whether an installer would remove billhook, or put another version in its place."""
    if not _INSTALLERS.fullmatch(command.name):
        return False
    words = [part for word in command.args for part in (word.split("=", 1) if word[:2] == "--" else [word])]
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
