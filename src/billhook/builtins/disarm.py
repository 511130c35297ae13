"""Judge whether a call would disarm billhook: its files, its programs, its own verbs."""

import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from billhook.builtins.protected_files import Hit, ProtectedFiles, Touch, git_hits
from billhook.effects.analysis import Analysis
from billhook.effects.effect import UNKNOWN, Command, Effect, ProtectedPaths
from billhook.effects.families import is_known
from billhook.effects.places import LONGEST_PATH, REAL, World, absolute, inside, resolved
from billhook.effects.programs import INTERPRETERS, PYTHON, SHELLS, WRAPPERS, Options, operand
from billhook.effects.shell import mounts
from billhook.effects.table import word_set

_READERS = """
. : [ [[ ag alias atom atq basename bat bbedit bc bg billhook break cal cargo cat cd cksum claude clear clion cloc
cmp code code-insiders codium column comm continue cursor cut dasel date declare df diff dig dirname disown docker
du echo egrep emacsclient env eval exit expand export expr eza false fg fgrep file flake8 fmt fold free gedit gh
glab go goland grep groups hash head helm help hexdump history host hostname htop hyperfine iconv id idea jobs join
journalctl jq kate kill kubectl ldd less let local locate logger ls lsof make man mate md5 md5sum mktemp more mypy
newgrp nl nm notify-send npm nproc numfmt objdump od open otool paste pgrep phpstorm ping pip pip3 pnpm popd
printenv printf ps pstree pushd pwd pycharm pylint pytest read readarray readelf readlink readonly realpath return
rev rg rubymine runuser seq service sg sha1sum sha256sum sha512sum shasum shellcheck shift shopt size sleep source
ssh-keygen stat strings su subl sum systemctl tac tail test times top tr trap tree true tsc tsort tty type typeset
ulimit umask uname unset uptime view-source vmstat wait wall wc webstorm whereis which who whoami windsurf xdg-open
xmllint yamllint yarn zcat zed zgrep zless
"""
READERS: Final = word_set(_READERS)
"""Programs that write none of the files they name; their redirections are checked elsewhere."""
_FILE_EFFECTS: Final = frozenset({"write", "overwrite", "delete", "permissions"})
_MAKE_FOLDERS: Final = word_set("mkdir gmkdir install ginstall")
_HIDES: Final = word_set(
    "chown chgrp gchown chattr setfacl setfattr chcon chflags xattr mount umount bindfs sshfs mergerfs"
)
"""Programs that can make the content of a folder unreadable for billhook."""
_LINKS: Final = word_set("ln gln cp gcp")
_EDITORS: Final = word_set("vi vim nvim view ex vimdiff gvim emacs ed nano pico joe micro")
_CONTAINERS: Final = word_set("docker podman nerdctl docker-compose kubectl")
_WITH_OUTPUT: Final = word_set("go tree xmllint iconv")  # they only read, except for the file after `-o`
_OUTPUT = re.compile(r"--[\w-]*(?:out|dest|log|report|write|save|dump|target)[\w-]*=(.+)", re.S)
_TO: Final = word_set("-o -out --out --output --outfile")
_CONFIG = re.compile(r"--?(?:c|config|settings|conf|cfg|rc|rcfile|config-file)")
_DESCRIPTOR = re.compile(r"/(?:dev|proc/[^/]+)/fd/(?:[3-9]|\d\d|\0)")
_OURS = re.compile(r"billhook(?:\.cli(?:\.\w+)*|\.exe|\.cmd)?(?:\[[^\]]*\])?(?:[@=<>~!]=?.*)?", re.I)
_FOR_THE_USER: Final = ("trust", "uninstall", "allow-once", "pause", "resume", "promote")
_ON_THE_PAGE: Final = "ui"  # its link answers approvals
_OF_THE_FLEET: Final = ("enrol", "leave", "init", "publish", "rollout")
_VERBS = "|".join((*_FOR_THE_USER, "approvals"))
_PAIRS = rf"daemon\W+stop|fleet\W+(?:{'|'.join(_OF_THE_FLEET)})"
_UNREAD = re.compile(rf"\bbillhook\b[^\n;|&]{{0,200}}?\b(?:{_VERBS}|{_PAIRS})\b", re.I)
_ANSWERS = rf"\bbillhook[\"',\s]+(?:{_VERBS}|{_ON_THE_PAGE})\b|\bbillhook\.(?:approvals|fleet)\b|\bapprovals\.key\b"
_IN_SCRIPT = re.compile(_ANSWERS, re.I)
_IN_CODE = re.compile(rf"\bapprove\s*\(|[\"'](?:{_VERBS})[\"']|{_ANSWERS}|\b(?:{_PAIRS})\b", re.I)
_PERL_HOME = re.compile(UNKNOWN + r"""\{["']?HOME["']?\}""")
_SELF = re.compile(r"(?:^|@)(?:localhost|127\.|\[?::1)|" + UNKNOWN)  # or a host that the call doesn't show
_HELP: Final = word_set("--help -h")
_SAFE: Final = _HELP | {"--list", "--json"}
_INSTALLERS = re.compile(
    r"pip[\d.]*|uv|pipx|poetry|pdm|hatch|rye|conda|mamba|micromamba|pixi|python[\d.]*|easy_install|brew|apt|apt-get|dnf|yum"
    r"|apk|pacman|zypper|snap|port|nix-env|dpkg|rpm|flatpak"
)
_REMOVES: Final = word_set("uninstall remove purge unlink erase autoremove del rm rem -R -Rs -Rns -e -r --erase")
_REPLACES: Final = word_set("reinstall upgrade inject runpip update downgrade --reinstall-package --upgrade-package -P")
_INSTALLS: Final = word_set("install add -S -i -U easy_install")
_FORCES: Final = word_set(
    "--force -f --force-reinstall --reinstall -U --upgrade -I --ignore-installed --no-cache --allow-downgrades --from"
)
_EVERY_PACKAGE: Final = tuple(map(word_set, [
    "pipx uninstall-all", "pipx reinstall-all", "uv python uninstall", "uv tool uninstall --all",
]))  # fmt: skip
_SPEC = re.compile(
    r"(?:.*[/=])?billhook(?:[-_]\d[^/]*|\.git(?:@.*)?)?(?:\[[^\]]*\])?(?:\s*(?:[@=<>~!]=?|@).*)?/?", re.I | re.S
)
"""billhook as installers name it: with a version, as an archive, a folder or an address."""
_PROJECT_NAME = re.compile(r"""^\s*name\s*=\s*["']?billhook["']?\s*,?\s*$""", re.I | re.M)
_PLAIN_SPEC = re.compile(r"billhook(?:\[[^\]]*\])?", re.I)


def disarm_effect(found: Analysis, protected: ProtectedPaths) -> Effect | None:
    """The row `disarm` of the guard's table: the worst that a call would do to billhook itself."""
    world = found.world
    if world is None:
        return None
    if any(_ends_us(effect) for effect in found.effects):
        why = "This would end billhook's processes, and with them the hooks that they run"
        return Effect("disarm", weight="heavy", why=why)
    if verb := _own_verb(found, world.cwd):
        why = f"`billhook {verb}` is for the user: they can run it in their own terminal"
        return Effect("disarm", weight="heavy", why=why)
    found = _on_this_machine(found)
    found_hits = hits(found, world, protected)
    worst = min(found_hits, key=lambda hit: (hit.compared, not hit.state, hit.doubtful), default=None)
    if worst:
        effect = Effect(
            "disarm", worst.path, weight="heavy" if worst.state else "normal", why=_reason(worst, protected)
        )
        return replace(effect, via=("git",)) if worst.compared else effect
    if any(_replaces_us(command, world.cwd) for command in found.commands):
        return Effect("disarm", why="This would remove or replace billhook, and with it every guard it runs")
    return None


def _on_this_machine(found: Analysis) -> Analysis:
    """The effects on this machine: files of another host are not billhook's."""
    if not any("ssh" in effect.via for effect in found.effects):
        return found
    if any(one.name == "ssh" and any(map(_SELF.search, one.args)) for one in found.commands):
        return found
    effects = tuple(effect for effect in found.effects if "ssh" not in effect.via)
    return replace(found, effects=effects, commands=tuple(one for one in found.commands if "ssh" not in one.via))


def _ends_us(effect: Effect) -> bool:
    """`pkill billhook`, `kill $(cat ~/.claude/billhook/daemon/pid)`."""
    said = effect.target if UNKNOWN not in effect.target else effect.cause
    return effect.kind == "kill" and "ssh" not in effect.via and "billhook" in said.lower()


def hits(found: Analysis, world: World, protected: ProtectedPaths) -> Iterator[Hit]:
    """The protected files that a call touches, or may touch."""
    changing = (effect for effect in found.effects if effect.kind in _FILE_EFFECTS)
    touches = [touch for effect in changing for touch in _touched(_below_home(effect, world))]
    touches += [Touch(path, maybe=True) for word in found.named for path in _paths(word, world.cwd, world)]
    code = list(found.code)
    for command in found.commands:
        touches += _touched_by(command, world)
        code += _code_of(command)
    code += [effect.target for effect in found.effects if effect.kind == "run-opaque" and effect.via[-1:] == ("sed",)]
    code += () if found.complete else found.texts
    git = [command for command in found.commands if command.name == "git"]
    if not (touches or code or git):
        return
    text = "\n".join(found.texts)
    guarded = ProtectedFiles(protected, world.cwd, text)
    if any(_DESCRIPTOR.match(path) for command in found.commands for path in (*command.writes, *command.appends)):
        code.append(text)
    yield from guarded.hits(list(dict.fromkeys(touches)), dict.fromkeys(code))
    for command in git:
        yield from git_hits(guarded, command, world, protected.approved)


# Touched files


def _touched(effect: Effect) -> Iterator[Touch]:
    """The paths of one effect; files that are put into a folder, by the names that they get there."""
    removes = effect.kind in ("delete", "permissions")
    if effect.names and not removes:
        yield Touch(effect.target, folder=True)
        yield from (Touch(posixpath.normpath(f"{effect.target}/{name}"), copied=True) for name in effect.names)
    else:
        makes_folder = effect.kind == "write" and not _MAKE_FOLDERS.isdisjoint(effect.via[-1:])
        below, itself = removes and effect.recursive, effect.kind == "delete"
        yield Touch(effect.target, below, effect.names, makes_folder, itself=itself)


def _below_home(effect: Effect, world: World) -> Effect:
    """An effect with the home folder in place of perl's `$ENV{HOME}`."""
    found = _PERL_HOME.match(effect.target)
    return replace(effect, target=world.home + effect.target[found.end() :]) if found else effect


def _paths(word: str, cwd: str, world: World) -> Iterator[str]:
    path = absolute(word, cwd, world) if word and len(word) <= LONGEST_PATH else UNKNOWN
    if path != UNKNOWN:
        yield path
        yield from [resolved(path, world.fs)] if UNKNOWN in path or world.fs.kind(path) or "/" in word else ()


def _touched_by(command: Command, world: World) -> Iterator[Touch]:
    """What a command touches besides its effects: the paths that it hides, links or only names."""
    for word, touch in _words_of(command):
        yield from (replace(touch, path=path) for path in _paths(word, command.cwd, world))


def _words_of(command: Command) -> Iterable[tuple[str, Touch]]:
    name, args = command.name, command.args
    if name.endswith("chmod") or (name == "install" and "-d" in args):
        return [(word, _HIDDEN) for word in _operands(args)] if _closes(args) else ()
    if name in _HIDES:
        return [(word, _HIDDEN) for word in _operands(args)]
    if name in _LINKS and (name.endswith("ln") or Options(args).has("-l", "-s", "--link", "--symbolic-link")):
        *sources, target = _operands(args) or [""]
        folder = posixpath.dirname(target)  # the target of a symbolic link is relative to the folder of the link
        return [(each, _NAMED) for word in sources or [target] for each in (word, posixpath.join(folder, word))]
    if name in _CONTAINERS:
        return [(source, _NAMED) for source, _, writable in mounts((name, *args)) if writable]
    if name == "billhook" and not _HELP & set(args):
        return [(_MADE[word], _WRITTEN) for word in args[:2] if word in _MADE]
    if name in ("pip", "pip3", "uv") and "install" in args[:2]:
        places = Options(args, _PIP_VALUES).values("-t", "--target", "--prefix", "--root")
        return [(f"{place}/sitecustomize.py", _WRITTEN) for place in places]
    if name in _WITH_OUTPUT:
        return [(value, _WRITTEN) for value in Options(args, _TO).values(*_TO)]
    return _named_by(command) if name in _EDITORS or name not in READERS else ()


_HIDDEN: Final = Touch("", below=True)
_NAMED: Final = Touch("", maybe=True)
_WRITTEN: Final = Touch("")
_MADE: Final = {"init": ".billhook/hooks.yaml", "install": ".claude/settings.json"}  # by billhook's own verbs
_PIP_VALUES: Final = word_set("-t --target --prefix --root -r --requirement -c --constraint -e --editable")


def _operands(args: Sequence[str]) -> list[str]:
    return [word for word in args if not word.startswith("-") or "/" in word]


def _named_by(command: Command) -> Iterator[tuple[str, Touch]]:
    """A program without a table may write every file that it names, but seldom the one after `--config`."""
    name, args = command.name, command.args
    language = "python" if PYTHON.fullmatch(name) else name
    if language in INTERPRETERS:
        script, code, module = operand(args, INTERPRETERS[language])
        args = args[args.index(script) + 1 :] if script in args and code is None and not module else ()
    elif is_known(name) or name in WRAPPERS:
        return
    before = ""
    for word in args:
        if word.startswith("-"):
            found = _OUTPUT.match(word)
            value = found[1] if found else word[2:] if word.startswith("-o") else ""
            yield from [(value, _WRITTEN)] if value else ()
        elif not _CONFIG.fullmatch(before):
            yield word, _WRITTEN if before in _TO else _NAMED
        before = word


def _code_of(command: Command) -> list[str]:
    """The commands that an editor is given: `vim -c 'w! x'`, `emacs --eval '(delete-file "x")'`."""
    if command.name not in _EDITORS:
        return []
    pairs = itertools.pairwise(command.args)
    given = [word for option, word in pairs if option in ("-c", "--cmd", "-eval", "--eval", "-S")]
    return given + [word for word in command.args if word.startswith("+")]


def _closes(args: Sequence[str]) -> bool:
    """Whether a mode among the words locks the owner out of a folder, or makes it world-writable."""
    modes = [*_operands(args)[:1], *Options(args, frozenset({"-m", "--mode"})).values("-m", "--mode")]
    dashed = (word for word in args if word.startswith("--ref") or re.fullmatch(r"-[rwxXst,]+", word))
    return any(dashed) or "-R" in args or any(map(closes, modes))


def closes(mode: str) -> bool:
    """Whether a mode locks the owner out of a folder, or makes it world-writable."""
    if re.fullmatch(r"[0-7]{1,5}", mode):
        bits = int(mode, 8)
        return bits & 0o500 != 0o500 or bits & 0o002 != 0
    for who, sign, what in re.findall(r"([ugoa]*)([-+=])([rwxXstugo]*)", mode):
        owner = not who or "u" in who or "a" in who
        if sign == "+" and "w" in what and ("o" in who or "a" in who):
            return True
        if sign == "-" and owner and set("rx") & set(what):
            return True
        if sign == "=" and owner and not ({"r"} < set(what) and set("xX") & set(what)):
            return True
    return False


def _reason(hit: Hit, protected: ProtectedPaths) -> str:
    does = "may change" if hit.doubtful else "changes"
    shown = hit.path.replace(UNKNOWN, "...")[:500].encode(errors="replace").decode()
    installed = (*protected.programs, *protected.interpreters, *protected.packages, *protected.sites)
    if hit.state:
        what = "where billhook keeps approvals, state and log; only billhook itself writes there"
    elif inside(hit.path, installed):
        what = "which is part of billhook's installation"
    else:
        what = "which billhook's hooks depend on (configuration, or an approved script)"
    return f"This {does} `{shown}`, {what}"


# billhook's own verbs


def _own_verb(found: Analysis, cwd: str) -> str:
    """The verb that the call runs, if only the user may run it: `trust`, `allow-once`, `daemon stop` ..."""
    ours = any("billhook" in text.lower() for text in found.texts)
    for command in found.commands:
        runs = command.name not in READERS or command.name in ("billhook", "env")
        if runs and (verb := _verb_of(command, ours, cwd)):
            return verb
    for text in _own_code(found) if ours else ():
        if verbs := _IN_CODE.search(text) or (None if found.complete else _UNREAD.search(text)):
            return _named(verbs[0])
    verbs = next(filter(None, map(_IN_SCRIPT.search, _scripts(found))), None)
    return _named(verbs[0]) if verbs else ""


def _scripts(found: Analysis) -> Iterator[str]:
    """The files that interpreters run."""
    for command in found.commands:
        language = "python" if PYTHON.fullmatch(command.name) else command.name
        if language in INTERPRETERS:
            script, code, module = operand(command.args, INTERPRETERS[language])
            path = posixpath.join(command.cwd, script or "")
            if script and code is None and not module and UNKNOWN not in path and len(path) <= LONGEST_PATH:
                yield REAL.read(path) or ""


def _own_code(found: Analysis) -> Iterator[str]:
    """Code that mentions billhook: code that was not understood, and code for interpreters."""
    programs = (one for one in found.commands if one.name not in SHELLS)
    runs = (one for one in programs if PYTHON.fullmatch(one.name) or one.name in INTERPRETERS)
    given = (text for command in runs for text in (*command.args, command.stdin or ""))
    unread = () if found.complete else found.texts
    yield from (text for text in (*found.code, *given, *unread) if "billhook" in text.lower())


def _named(text: str) -> str:
    lower = text.lower()
    named = next((verb for verb in (*_FOR_THE_USER[1:], "approvals") if verb in lower), "")
    fleet = next((verb for verb in _OF_THE_FLEET if "fleet" in lower and verb in lower), "")
    return named or (f"fleet {fleet}" if fleet else "daemon stop" if "daemon" in lower else "trust")


def _verb_of(command: Command, ours: bool, cwd: str) -> str:
    words = (command.program, *command.args)
    for place, word in enumerate(words):
        unknown = UNKNOWN in word and ours
        if not unknown and not _is_ours(word, place, cwd):
            continue
        rest = words[place + 1 :]
        operands = [each for each in rest if not each.startswith("-")]
        if verb := _forbidden(operands, rest):
            return verb
        if not unknown and operands and UNKNOWN in operands[0] and rest[0] == operands[0]:
            return "trust"  # `billhook $X`: it may be any verb
    return ""


def _forbidden(operands: list[str], rest: tuple[str, ...]) -> str:
    """The verb is the first operand, or the second if an option with a value comes before it."""
    candidates = [0] if rest[:1] and not rest[0].startswith("-") and operands[0] != "fleet" else [0, 1]
    for place in candidates:
        verb = operands[place] if place < len(operands) else ""
        if verb == "trust" and not (set(rest) & _SAFE and set(rest) <= _SAFE | {"trust"}):
            return "trust"
        if verb in (*_FOR_THE_USER[1:], _ON_THE_PAGE) and not _HELP & set(rest):
            return verb
        if verb == "test" and any(word.startswith("--update") for word in rest):
            return "test --update"
        if verb == "approvals" and not _HELP & set(rest):
            if operands[place + 1 :]:
                return "approvals allow"
            if "--watch" in rest and "--json" not in rest:
                return "approvals --watch"
        of_fleet = set(_OF_THE_FLEET) & {*operands[place + 1 : place + 3]}
        if verb == "fleet" and "approvals" in operands and {"allow", "deny"} & {*operands} and not _HELP & set(rest):
            return "fleet approvals allow"
        if verb == "fleet" and of_fleet and not _HELP & set(rest):
            return f"fleet {min(of_fleet)}"
        if verb == "daemon" and "stop" in operands[place + 1 : place + 3]:
            return "daemon stop"
    return ""


def _is_ours(word: str, place: int, cwd: str) -> bool:
    if _OURS.fullmatch(posixpath.basename(word)):
        return True
    if place or "/" not in word or UNKNOWN in word or len(word) > LONGEST_PATH // 4:
        return False
    real = REAL.real(posixpath.join(cwd, word))  # a link by another name
    return _OURS.fullmatch(posixpath.basename(real)) is not None


def _replaces_us(command: Command, cwd: str) -> bool:
    if not _INSTALLERS.fullmatch(command.name):
        return False
    words = [part for word in command.args for part in (word.split("=", 1) if word[:2] == "--" else [word])]
    given = {command.name, *words}
    if any(every <= given for every in _EVERY_PACKAGE):
        return True
    specs = [word for word in words if not word.startswith("-") and _SPEC.fullmatch(word)]
    specs += _specs_in_files(words, cwd) if given & _INSTALLS else []
    if not specs:
        return False
    other = not all(map(_PLAIN_SPEC.fullmatch, specs))
    return bool(given & (_REMOVES | _REPLACES) or (given & _INSTALLS and (other or given & _FORCES)))


def _specs_in_files(words: list[str], cwd: str) -> list[str]:
    """Other versions of billhook: those in `-r` files, and folders that contain one."""
    found: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        path = posixpath.join(cwd, word)
        if before in ("-r", "--requirement", "--requirements"):
            found += [line for line in map(_requirement, (REAL.read(path) or "").splitlines()) if _is_another(line)]
        elif "/" in word or word in (".", ".."):
            files = ("pyproject.toml", "setup.cfg", "setup.py")
            found += [f"{word}/billhook" for name in files if _PROJECT_NAME.search(REAL.read(f"{path}/{name}") or "")]
    return found


def _requirement(line: str) -> str:
    return line.partition("#")[0].partition(";")[0].replace(" ", "").strip()


def _is_another(requirement: str) -> bool:
    """Whether it requires another version than this one; `billhook` and `billhook>=1` don't."""
    from importlib.metadata import version

    if not _SPEC.fullmatch(requirement) or _PLAIN_SPEC.fullmatch(requirement.partition(">=")[0]):
        return False
    return requirement.partition("==")[2] != version("billhook")
