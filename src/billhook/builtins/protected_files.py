"""The protected files, found by any path that leads to them: links, patterns, case, hard links.

An effect already has real paths, so most calls need no more than a check of the names in them.
"""

import functools
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from billhook.effects import gitstate
from billhook.effects.effect import UNKNOWN, Command, ProtectedPaths
from billhook.effects.families.git import general
from billhook.effects.gitstate import BROKEN, UnreadableError, digest, read_file
from billhook.effects.places import REAL, World, absolute, has_pattern, inside, repository_above, upwards
from billhook.effects.programs import Options
from billhook.effects.rules import Glob, segment_matches
from billhook.effects.table import word_set

MAX_PATHS: Final = 20_000
_MAX_LISTED: Final = 4096
_SLASHES = re.compile(r"/(?:\.?/)*")
_CLASSES = re.compile(r"\[[^\]/]*\]|[*?]+")
_DESTROYS = re.compile(
    r"\b(?:rm|remove|unlink|rename|move|rmdir|rmtree|rmtreesync|delete|chmod|symlink|copytree|extractall)(?:Sync)?\b"
    r"|os\.replace",
    re.I,
)
_OWN_FOLDER: Final = ".billhook"
PROGRAMS: Final = frozenset({"billhook", "billhook-hook", "billhook.exe", "billhook-hook.exe"})
_RUN_FIRST: Final = frozenset({"sitecustomize", "usercustomize"})  # modules that Python runs before any program
_OUR_PLACE = re.compile(
    r"(?:which|command\s+-v|type\s+-[pP]|whereis|where)\s+(?:-\w+\s+)*[\"']?billhook|bin/billhook|billhook-hook"
    r"|\bbillhook\.__(?:file|path)__|find_spec\(\s*[\"']billhook|site-packages/billhook|pip3? show[^\n;|&]*billhook",
    re.I,
)
"""Ways for a line to find out where billhook is installed."""
_WRITES = re.compile(
    r"\bwrite|\bcopy|truncate|link|\bopen\s*\([^)]*,\s*(?:mode\s*=\s*)?[\"'][rbt]*[wax+]|>\s*[\"']|[\"'][wax]b?\+?[\"']",
    re.I,
)
_FED = re.compile(r"\b(?:xargs|parallel|read|mapfile|readarray|printf\s+-v)\b|=\(|\$\{\w+[^\w}]|\$\(|`|<\(")
"""Ways for a part of a line to get its words from another part."""
_FIRST_FILE = re.compile(r"/(?:[^/\s]*\.pth|(?:site|user)customize\.py)(?![\w.])")


class Touch(msgspec.Struct, frozen=True):
    """One path that is written, created or removed, with its links followed."""

    path: str
    below: bool = False  # everything below it as well: `rm -r`
    names: tuple[str, ...] = ()  # below it, only files or folders with such names: `find -name '*.pyc' -delete`
    folder: bool = False  # only an empty folder is made
    loose: bool = False  # patterns go across folders: `git checkout -- '*.json'`
    maybe: bool = False  # an unknown program names it, or a link to it is made
    copied: bool = False  # it is part of a folder, an archive or a patch
    itself: bool = False  # only this name is removed: a file that has other names stays


class Hit(msgspec.Struct, frozen=True):
    """A protected file that a call touches. `doubtful`: it may."""

    path: str
    state: bool = False
    doubtful: bool = False
    compared: bool = False  # git would change it if it differs, which was not compared


class ProtectedIndex:
    """The protected files by folded path; the same for every call until the configuration changes."""

    def __init__(self, protected: ProtectedPaths) -> None:
        self.names = {fold(name): name for name in protected.names}
        self.dotted = [name for name in protected.names if "/." in "/" + name]
        packages = _folded(protected.packages)
        programs = _folded(protected.programs) | _folded(protected.interpreters)
        self.files = _with_links(protected.files) | programs
        self.folders = _with_links(protected.folders) | packages
        self.state = _with_links(protected.state)
        self.elsewhere = _folded(protected.elsewhere)
        self.sites, self.search_path = _folded(protected.sites), _folded(protected.search_path)
        self.installed = packages.keys() | programs.keys()
        self.programs = protected.programs
        self.owned = {**self.state, **self.folders, **self.files}
        self.every = {**self.elsewhere, **self.owned}
        paths = (*self.every, *self.sites, *self.search_path, *self.names, *PROGRAMS, _OWN_FOLDER)
        self.words = {posixpath.basename(path) for path in paths}

    def may_hold(self, folded: str) -> bool:
        """Whether a path could be protected, by the names in it."""
        return not self.words.isdisjoint(folded.split("/"))


_index_of = functools.lru_cache(maxsize=8)(ProtectedIndex)


class ProtectedFiles:
    """The protected files, seen from one working folder."""

    def __init__(self, protected: ProtectedPaths, cwd: str, text: str = "") -> None:
        self.index = _index_of(protected)
        self.cwd, self.text = cwd, text
        self.dots = "dotglob" in text or "globdots" in text.lower().replace("_", "")
        self.listed = 0
        self.names: dict[str, list[str]] = {}  # of folders
        self.folders, self.compares = protected.folders, protected.compares

    @functools.cached_property
    def fed(self) -> bool:
        """Whether unknown words of the line may come from another part of it: `echo x | xargs rm`."""
        return _FED.search(self.text) is not None

    @functools.cached_property
    def places(self) -> dict[str, str]:
        """The folders from here upwards, in which files with our names are configuration."""
        return {fold(place): place for folder in _both(self.cwd) for place in upwards(folder)}

    @functools.cached_property
    def every(self) -> dict[str, str]:
        """Everything that is protected, whether it exists or not."""
        named = (posixpath.join(place, name) for place in self.places.values() for name in self.index.names.values())
        return {**{fold(path): path for path in named}, **self.index.every}

    @functools.cached_property
    def files(self) -> dict[str, str]:
        """Only files, without those of billhook's installation."""
        index = self.index
        left_out = {*index.state, *index.folders, *index.elsewhere, *index.installed}
        return {folded: path for folded, path in self.every.items() if folded not in left_out}

    @functools.cached_property
    def identities(self) -> set[tuple[int, int]]:
        """Device and inode of each file: a hard link has the same ones."""
        found = map(_identity, dict.fromkeys((*self.files.values(), *self.index.programs)))
        return {identity for identity, _ in found if identity}

    @functools.cached_property
    def roots(self) -> tuple[str, ...]:
        """The project's folders: a dotted name of ours counts anywhere below."""
        above = (posixpath.dirname(folder) for folder in self.folders)
        projects = [self.cwd, repository_above(self.cwd), *(each for each in above if inside(self.cwd, [each]))]
        return tuple(fold(path.rstrip("/")) + "/" for each in filter(None, projects) for path in _both(each))

    # Touched files

    def hits(self, touches: list[Touch], code: Iterable[str]) -> Iterator[Hit]:
        """Every protected file that is touched, or may be."""
        if len(touches) > MAX_PATHS:
            yield Hit(f"{len(touches)} files, too many to check", doubtful=True)
        for touch in touches[:MAX_PATHS]:
            yield from self.by_touch(touch)
        for text in code:
            yield from self.mentioned(text)

    def by_touch(self, touch: Touch) -> Iterator[Hit]:
        """The protected files that one path leads to."""
        path, stars, name = touch.path.partition("/**")
        if stars and UNKNOWN not in path and not touch.loose:  # everything below a folder, or all of one name there
            names = (name.strip("/"),) if name.strip("/*") else ()
            touch = replace(touch, path=path or "/", names=names, below=touch.below or not touch.maybe)
        is_pattern = has_pattern(touch.path)
        if UNKNOWN in touch.path or (touch.loose and is_pattern):
            yield from self.by_unknown(touch)
            return
        yield from self.by_path(touch)
        if is_pattern:
            yield from self.by_shell_pattern(touch)

    def by_path(self, touch: Touch) -> Iterator[Hit]:
        folded = fold(touch.path)
        if self.index.may_hold(folded) or folded.endswith(".pth"):
            yield from self.at(touch.path, folded, touch)
        if touch.below:
            yield from self.under(folded, touch.names)
        elif not touch.folder and not touch.itself and self.is_hard_link(touch.path):
            yield Hit(touch.path)

    def is_hard_link(self, path: str) -> bool:
        """Whether a file is one of ours under another name."""
        identity, links = _identity(path, follow=False)
        return links > 1 and identity in self.identities

    def at(self, path: str, folded: str, touch: Touch) -> Iterator[Hit]:
        """What a path itself is: a file of ours, or something in a folder of ours."""
        index = self.index
        owned = [each for each in upwards(folded) if each in index.owned]
        if touch.maybe:
            owned = [each for each in owned if each not in index.installed]
        if owned and not (touch.folder and owned[0] == folded and not self.is_file(folded)):
            yield Hit(path, state=not index.state.keys().isdisjoint(owned))
        for tail, name in index.names.items():
            if folded.endswith("/" + tail) and self.counts(path, folded[: -len(tail)], name):
                yield Hit(path)
        if folded in index.elsewhere or self.is_ours_anywhere(folded, touch):
            yield Hit(path)

    def counts(self, path: str, folded: str, name: str) -> bool:
        """Whether a file with a name of ours is configuration in its folder. A plain `hooks.yaml` alone is not."""
        place = path[: len(path) - len(name)]
        if (folded.rstrip("/") or "/") in self.places or os.path.lexists(place + ".git"):
            return True
        if name in self.index.dotted:
            return folded.startswith(self.roots)
        return any(os.path.lexists(place + other) for other in self.index.dotted)

    def is_ours_anywhere(self, folded: str, touch: Touch) -> bool:
        """Another project's `.billhook`, a program that PATH finds before ours, code that runs before ours."""
        if touch.folder:
            return False
        if f"/{_OWN_FOLDER}/" in folded + "/":
            return not touch.copied or os.path.lexists(touch.path[: folded.index(_OWN_FOLDER) + len(_OWN_FOLDER)])
        if touch.maybe:
            return False
        folder, _, name = folded.rpartition("/")
        found = folder == fold(self.cwd) and _OUR_PLACE.search(self.text)  # `$(which billhook)` as the line shows it
        if name in PROGRAMS and (found or folder in self.index.search_path):
            return True
        if folded in self.index.search_path and "billhook" in self.text:
            return True
        sites = (site for site in self.index.sites if folded.startswith(site + "/"))
        return any(_runs_first(folded[len(site) + 1 :].partition("/")[0]) for site in sites)

    def under(self, folded: str, names: tuple[str, ...]) -> Iterator[Hit]:
        """Our files below a folder: removing the folder removes them."""
        above = folded.rstrip("/") + "/"
        there = ((each, path) for each, path in self.every.items() if each.startswith(above) and os.path.lexists(path))
        for each, path in there:
            if not names or any_matches(names, each[len(above) :].split("/")) or self.holds(each, path, names):
                yield Hit(path, state=each in self.index.state)

    def is_file(self, folded: str) -> bool:
        return folded not in self.index.folders and folded not in self.index.state

    def holds(self, folded: str, folder: str, names: tuple[str, ...]) -> bool:
        """Whether a folder of ours contains such a name; a very large one may."""
        for _, folders, files in () if self.is_file(folded) else os.walk(folder):
            self.listed += len(folders) + len(files)
            if self.listed > _MAX_LISTED or any_matches(names, (*folders, *files)):
                return True
        return False

    def by_shell_pattern(self, touch: Touch) -> Iterator[Hit]:
        """`rm .cl*/set*`: only existing files are matched."""
        paths = [""]
        for segment in touch.path.split("/")[1:]:
            paths = [f"{path}/{name}" for path in paths for name in self.matching(path, segment)]
        for path in paths:
            folder, name = posixpath.split(path)
            yield from self.by_path(replace(touch, path=posixpath.join(REAL.real(folder), name)))

    def matching(self, folder: str, pattern: str) -> list[str]:
        """The names in a folder that a pattern matches; in a folder that is too large to list, only our names."""
        if not has_pattern(pattern):
            return [pattern]
        if folder not in self.names:
            self.names[folder] = list(dict.fromkeys(self.names_in(folder)))
        hides = not self.dots and pattern[0] != "."
        return [
            name
            for name in self.names[folder]
            if segment_matches(fold(pattern), fold(name)) and not (hides and name.startswith("."))
        ]

    def names_in(self, folder: str) -> Iterator[str]:
        names = REAL.names(folder or "/") if self.listed < _MAX_LISTED else []
        self.listed += len(names)
        yield from names
        ours = (path[len(folder) + 1 :].partition("/")[0] for path in self.every.values() if inside(path, [folder]))
        yield from (name for name in ours if name and os.path.lexists(f"{folder}/{name}"))

    # Unknown parts

    def by_unknown(self, touch: Touch) -> Iterator[Hit]:
        """A path with unknown parts. It counts if its known parts decide: its last name, or a folder of ours."""
        if touch.folder:
            return
        path = _SLASHES.sub("/", _CLASSES.sub(UNKNOWN, touch.path))
        known = path.partition(UNKNOWN)[0].rpartition("/")[0]
        rest = path[len(known) :]
        if "/../" in rest:
            known, rest = "", UNKNOWN + "/" + rest.rpartition("/../")[2]
        yield from self.at(known + "/" + UNKNOWN, fold(known) + "/" + UNKNOWN, touch) if known else ()
        pattern = Glob(tuple(fold(known + rest.rstrip("/")).split(UNKNOWN)))
        for folded, file in self.files.items():
            above = touch.below and _dotted_folder(folded) and pattern.matches(posixpath.dirname(folded))
            if (above or pattern.matches(folded)) and self.fits_known_parts(touch, file, fold(known), rest):
                yield Hit(file, doubtful=True)
        if not touch.maybe and self.may_be_installed(path, rest, pattern):
            yield _INSTALLATION
        yield from self.folders_in(rest.replace(UNKNOWN, "/"))

    def may_be_installed(self, path: str, rest: str, pattern: Glob) -> bool:
        if "bin/" in rest and any(map(pattern.matches, self.index.installed)):
            return True
        return path.startswith(UNKNOWN) and bool(_FIRST_FILE.search(path) or _OUR_PLACE.search(self.text))

    def fits_known_parts(self, touch: Touch, file: str, folder: str, rest: str) -> bool:
        """Whether the known parts of a path fit this file."""
        if touch.loose:
            return os.path.lexists(file)
        last = rest.rstrip("/").rpartition("/")[2]
        if UNKNOWN not in last or 2 * len(last.replace(UNKNOWN, "")) > len(posixpath.basename(file)):
            return True
        if folder == posixpath.dirname(fold(file)) and posixpath.basename(folder).startswith("."):
            return True
        names = filter(None, (posixpath.basename(file), _dotted_folder(file)))
        return self.fed and any(_contains_word(self.text, name) for name in names)

    def mentioned(self, text: str) -> Iterator[Hit]:
        """Code in another language, or a line that can't be read, that mentions a protected file."""
        if self.mentions_installation(text) and (_DESTROYS.search(text) or _WRITES.search(text)):
            yield _INSTALLATION
        if file := next((each for each in dict.fromkeys(self.files.values()) if _mentions(text, each)), ""):
            yield Hit(file, doubtful=True)
        yield from self.folders_in(text)

    def mentions_installation(self, text: str) -> bool:
        ours = "billhook" in _folded_text(text) and _OUR_PLACE.search(text)
        if ours or any(path in text for path in self.index.programs):
            return True
        return any(site in text for site in self.index.sites.values()) and _FIRST_FILE.search(text) is not None

    def folders_in(self, text: str) -> Iterator[Hit]:
        """Folders of ours that the text names: `$X/.billhook/y`."""
        for folded, folder in self.index.folders.items():
            name = posixpath.basename(folder)
            if folded not in self.index.installed and _contains_word(
                text, name if name.startswith(".") else _tail(folder)
            ):
                yield Hit(folder, doubtful=True)
        for folder in dict.fromkeys(self.index.state.values()):
            if _contains_word(text, _tail(folder)) or folder in text:
                yield self.state_hit(folder)
            elif _contains_word(text, "approvals") and _contains_word(text, posixpath.basename(folder)):
                yield Hit(folder, state=True, doubtful=True)

    def state_hit(self, folder: str) -> Hit:
        """A project may have its own `.claude/hooks`: it is unknown which one is meant, so the user is asked."""
        others = (f"{place}/{_tail(folder)}" for place in upwards(self.cwd))
        other = any(os.path.lexists(path) and path != folder for path in others)
        return Hit(folder, state=not other, doubtful=True)


_INSTALLATION: Final = Hit("billhook's own program or package", doubtful=True)


def _runs_first(name: str) -> bool:
    """Whether Python runs a file or folder of this name in site-packages before any program; `*` may match one."""
    return name.endswith(".pth") or "*" in name or UNKNOWN in name or name.partition(".")[0] in _RUN_FIRST


# Comparing paths and names


def _folded(paths: tuple[str, ...]) -> dict[str, str]:
    return {fold(path): path for path in paths}


def _with_links(paths: tuple[str, ...]) -> dict[str, str]:
    """Paths as written, and with their links followed, by how they are shown."""
    found: dict[str, str] = {}
    real: dict[str, str] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder not in real:
            real[folder] = REAL.real(folder or "/")
        found |= {fold(each): path for each in (normal(path), posixpath.join(real[folder], name), REAL.real(path))}
    return found


def _mentions(text: str, file: str) -> bool:
    """Whether text names a file; a file in a folder of ours by both names, or by the folder if the code destroys."""
    folder, name = _dotted_folder(file), posixpath.basename(file)
    if not folder:
        return _contains_word(text, name)
    return _contains_word(text, folder) and (_contains_word(text, name) or _DESTROYS.search(text) is not None)


def _contains_word(text: str, name: str) -> bool:
    """Whether text contains a name as a whole word, in any case."""
    if name not in text and fold(name) not in _folded_text(text):
        return False
    return re.search(rf"(?<![\w-])(?<!\w\.){re.escape(name)}(?![\w-])", text, re.I) is not None


def _dotted_folder(file: str) -> str:
    """The name of a file's folder, if it begins with a dot: that name alone tells which file is meant."""
    folder = posixpath.basename(posixpath.dirname(file))
    return folder if folder.startswith(".") else ""


def any_matches(patterns: Iterable[str], names: Iterable[str]) -> bool:
    """Whether one of the names matches one of the patterns."""
    folded = [fold(name) for name in names]
    return any(segment_matches(fold(pattern), name) for pattern in patterns for name in folded)


def _tail(path: str) -> str:
    return "/".join(path.rstrip("/").split("/")[-2:])


def normal(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


def fold(path: str) -> str:
    return path.casefold()


_folded_text = functools.lru_cache(maxsize=1)(fold)
"""The same long text is searched for many names."""


def _both(folder: str) -> dict[str, None]:
    return dict.fromkeys((normal(folder), REAL.real(folder)))


def _identity(path: str, *, follow: bool = True) -> tuple[tuple[int, int] | None, int]:
    """The device and inode of a file, and how many names it has."""
    try:
        found = os.stat(path, follow_symlinks=follow)
    except (OSError, ValueError):
        return None, 0
    return (found.st_dev, found.st_ino), found.st_nlink


# Which protected files a git command would really change: commits are compared with each other and with the disk. Only
# objects are read (`ls-tree`, `merge-base`): no hooks, filters, pagers, monitors or fetches run, and the index is left
# alone. Where git gives no answer in time, the file counts as changed.

_SECONDS: Final = 2.0
_MOST_FILES: Final = 2_000
_MOST_SPECS: Final = 200  # more of them count as the whole work tree
_APPROVED_ONLY: Final = frozenset({"switch", "merge", "pull", "pick", "remove"})
"""Ways to bring other commits into the work tree; changed files lose their approval anyway."""
_UNTRACKS = re.compile(r" (?:rm|reset|update-index|read-tree) ")
_MOVES = re.compile(r" (?:update-ref|symbolic-ref) | (?:branch|tag) .*(?:-f|-M|--force|-B)\b")
_OTHER_REPOSITORY = re.compile(r"--(?:git-dir|work-tree)|GIT_[A-Z_]*(?:DIR|TREE|FILE|DIRECTORY)[A-Z_]*=")
_VALUED: Final = word_set(
    "-b -B -c -C --create --force-create --orphan -s --source -m --message --conflict -e --exclude -x --exec -X --onto"
    " --strategy --strategy-option --mainline"
)
_MAGIC = re.compile(r":\([^)]*\)|:[!^/]*")
_CHANGES_TREES = re.compile(r"--(?:tree|index|commit|subdirectory|parent)-filter")
_PAUSED: Final = ("--abort", "--continue", "--quit", "--skip", "--edit-todo", "--show-current-patch")
_PLACES: Final = {"clone": 1, "worktree": 1, "submodule": 2}  # verbs that fill a folder: where it is named
Tree = dict[str, str]


class _Change(msgspec.Struct, frozen=True):
    """How a command changes the work tree. An empty kind: any file in it."""

    kind: str = ""
    commit: str = "HEAD"
    specs: tuple[str, ...] = (":/",)


def git_hits(guarded: ProtectedFiles, command: Command, world: World, approved: Sequence[str]) -> Iterator[Hit]:
    """The protected files that a git command changes or removes."""
    _, folder, rest = general(command)
    at = absolute(folder, command.cwd, world) if folder else command.cwd
    other = _OTHER_REPOSITORY.search(guarded.text) is not None  # its files are put into this folder
    for place in dict.fromkeys((at, command.cwd) if other else (at,)):
        root = world.fs.real(repository_above(place) or place) if UNKNOWN not in place else ""
        for change in _changes(rest) if rest else ():
            specs = change.specs if len(change.specs) <= _MOST_SPECS else (":/",)
            touches = [_touch(spec, place, root, world) for spec in dict.fromkeys(specs)]
            yield from _hits(guarded, change, root, touches, approved)


def _touch(spec: str, folder: str, root: str, world: World) -> Touch:
    """A path as git reads it: `:/x` from the top, `*` across folders; a folder includes everything below it."""
    magic = _MAGIC.match(spec)
    bare = spec[magic.end() :] if magic else spec
    path = absolute(bare.lstrip("/") or ".", root, world) if magic else absolute(bare, folder, world)
    return Touch(path, below=True, loose=has_pattern(bare))


def _hits(
    guarded: ProtectedFiles, change: _Change, root: str, touches: list[Touch], approved: Sequence[str]
) -> Iterator[Hit]:
    """Other branches are ordinary work: there only approved files count."""
    kind, commit = change.kind, change.commit
    if kind in _APPROVED_ONLY:
        there = [os.path.realpath(path) for path in approved if os.path.lexists(path)]
        hits = [Hit(path) for path in dict.fromkeys(there) if root and path.startswith(root + "/")]
        made = re.search(rf"\bgit branch {re.escape(commit)}\s*(?:&&|;|$)", guarded.text)
        if made or (commit and os.path.lexists(posixpath.join(guarded.cwd, commit))):
            return
    else:
        hits = [hit for touch in touches for hit in guarded.by_touch(touch)]
    if hits and kind not in ("", "remove") and not _is_prepared(guarded.text, kind):
        inside = {real: hit for hit in hits if root and (real := os.path.realpath(hit.path)).startswith(root + "/")}
        if not guarded.compares:
            yield from (msgspec.structs.replace(hit, compared=True) for hit in hits)
            return
        kept = set(changed(root, kind, commit, list(inside))) if inside else set()
        hits = [hit for hit in hits if (real := os.path.realpath(hit.path)) not in inside or real in kept]
    yield from hits


def _is_prepared(text: str, kind: str) -> bool:
    """Whether the line itself changes git's data, or uses another repository: then git can't be queried."""
    prepares = _UNTRACKS if kind in ("clean", "untracked") else _MOVES
    return _OTHER_REPOSITORY.search(text) is not None or any(map(prepares.search, re.split(r"&&|\|\||[;|\n]", text)))


# What a command does, by its words


def _changes(words: Sequence[str]) -> list[_Change]:
    verb, rest = words[0], list(words[1:])
    said = Options(rest, _VALUED)
    operands = [word for word in said.operands if word]
    if said.has("--pathspec-from-file") and verb in ("checkout", "restore", "rm"):
        return [_Change("" if verb == "rm" else "reset")]
    if verb in ("checkout", "switch"):
        return _checkout(verb, rest, said, operands)
    if verb == "restore":
        index_only = said.has("-S", "--staged") and not said.has("-W", "--worktree")
        commit = (said.values("-s", "--source") or ["HEAD"])[-1]
        return [] if index_only or not operands else [_Change("reset", commit, tuple(operands))]
    if verb in ("rm", "mv"):
        spared = said.has("--cached", "-n", "--dry-run")
        into = [f"{operands[-1]}/{posixpath.basename(each)}" for each in operands[:-1]] if verb == "mv" else []
        return [] if spared else [_Change(specs=(*operands, *into))]
    if verb == "clean":
        removes = said.has("-f", "--force", "-i", "--interactive") and not said.has("-n", "--dry-run")
        return [_Change("clean", specs=tuple(operands) or (".",))] if removes else []
    if verb == "stash":
        return _stash(rest, said, operands)
    if verb in _PLACES and (verb == "clone" or operands[:1] == ["add"]):
        return [_Change(specs=(word,)) for word in operands[_PLACES[verb] :][:1]]
    if verb == "reset" and said.has("--hard", "--merge", "--keep"):
        return [_Change("reset", (operands or ["HEAD"])[0])]
    if verb in ("checkout-index", "read-tree") and said.has("-f", "-u", "-a", "--force", "--all"):
        return [_Change()]
    return _other_commits(verb, said, operands)


def _checkout(verb: str, rest: list[str], said: Options, operands: list[str]) -> list[_Change]:
    """`git checkout x`: another commit, or a file; `git checkout x -- y`: files of another commit."""
    before = rest[: rest.index("--")] if "--" in rest else rest
    commits = Options(before, _VALUED).operands
    target = (["@{-1}"] if commits[:1] == ["-"] else commits or ["HEAD"])[0]
    if verb == "checkout" and operands[len(commits) :]:
        return [_Change("reset", target, tuple(operands[len(commits) :]))]
    if said.has("-f", "--force", "--discard-changes"):
        return [_Change("reset", target)]
    if verb == "switch" and said.has("--orphan"):
        return [_Change("remove")]
    switch = [_Change("switch", target)] if commits else []
    if verb == "switch" or said.has("-b", "-B", "--orphan", "--detach"):
        return switch
    files = [_Change("reset", "HEAD", tuple(operands))] if operands else []
    if operands[1:]:
        return [*files, _Change("reset", target, tuple(operands[1:]))]
    return files + switch


def _stash(rest: list[str], said: Options, operands: list[str]) -> list[_Change]:
    verb, named = (operands[0], operands[1:]) if operands else ("push", [])
    if verb in ("pop", "apply", "branch", "store"):
        which = named[1:2] if verb == "branch" else named[-1:]
        stash = which[0] if which else "0"
        return [_Change("pick", f"stash@{{{stash}}}" if stash.isdecimal() else stash)]
    if verb not in ("push", "save", "create") and not rest[0].startswith("-"):
        return []
    kind = "untracked" if said.has("-u", "-a", "--include-untracked", "--all") else "reset"
    return [_Change(kind, specs=tuple(named) if verb == "push" and named else (":/",))]


def _other_commits(verb: str, said: Options, operands: list[str]) -> list[_Change]:
    if said.has(*_PAUSED):
        return []
    if verb == "merge" or (verb == "rebase" and operands):
        commits = said.values("--onto") or (operands if verb == "merge" else operands[:1])
        return [_Change("merge", commit) for commit in commits]
    if verb == "pull" and operands and operands[0][0] in "./~":  # from a folder: its commits are not known here
        return [_Change("merge", "".join(operands[1:2]) or UNKNOWN if operands[0] == "." else UNKNOWN)]
    if verb in ("pull", "rebase"):
        return [_Change("pull", "/".join(operands[:2]) if operands[1:] else "@{upstream}")]
    if verb in ("cherry-pick", "revert"):
        return [_Change("pick", commit) for commit in operands]
    sparse = verb == "sparse-checkout" and operands[:1] in (["set"], ["init"], ["reapply"])
    rewrites = verb == "filter-repo" or (verb == "filter-branch" and any(map(_CHANGES_TREES.match, said.names)))
    return [_Change("remove", "")] if sparse or rewrites else []


# What really differs


def changed(root: str, kind: str, commit: str, paths: Sequence[str]) -> list[str]:
    """The files and folders below `root` that the command changes or removes; all if that is unknown."""
    names = {os.path.relpath(path, root): path for path in paths}
    try:
        difference = _Difference(root, kind, commit, list(names))
        return [path for name, path in names.items() if difference.of(name)]
    except BROKEN:
        nothing = kind == "pull" or (commit.startswith("stash@{") and not gitstate.has_stash(root))
        return [] if nothing else list(paths)


class _Difference:
    """What one command does to the files with these names."""

    def __init__(self, root: str, kind: str, commit: str, names: list[str]) -> None:
        self.root, self.kind, self.names = root, kind, names
        if UNKNOWN in commit or commit.startswith("-"):
            raise UnreadableError(commit)
        before, dots, after = commit.partition("..")
        if kind in ("merge", "pull"):
            before, after = gitstate.run_git(root, "merge-base", "HEAD", commit, seconds=_SECONDS).strip(), commit
        elif not dots:
            before, after = f"{commit}^" if kind == "pick" else "HEAD", commit
        self.before, self.after = self.tree(before), self.target(after.lstrip(".") or "HEAD")

    def of(self, name: str) -> bool:
        files = [file for file in {*self.before, *self.after} if inside(file, [name])]
        if self.kind in ("clean", "untracked") and any(file not in self.before for file in self.on_disk(name)):
            return True
        if self.kind in ("reset", "untracked"):
            return any(self.after.get(file, "") != self.blob(file) for file in files)
        return self.kind != "clean" and any(self.before.get(file) != self.after.get(file) for file in files)

    def target(self, commit: str) -> Tree:
        """The tree of a branch. `git switch` creates a branch that only the remote has."""
        try:
            return self.tree(commit)
        except UnreadableError:
            if self.kind != "switch":
                raise
            return self.tree(f"origin/{commit}")

    def tree(self, commit: str) -> Tree:
        words = ("ls-tree", "-r", "-z", "--full-tree", commit, "--", *self.names)
        listed = gitstate.run_git(self.root, *words, seconds=_SECONDS)
        entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
        return {name: meta.split()[2] for meta, _, name in entries}

    def blob(self, name: str) -> str:
        """The object id of a file on disk; "" if it does not exist."""
        path = os.path.join(self.root, name)
        data = os.fsencode(os.readlink(path)) if os.path.islink(path) else read_file(path)
        algorithm = "sha256" if any(len(each) == 64 for each in self.before.values()) else "sha1"
        return "" if data is None else digest(algorithm, b"blob %d\0" % len(data) + data).hex()

    def on_disk(self, name: str) -> list[str]:
        path = os.path.join(self.root, name)
        if not os.path.isdir(path) or os.path.islink(path):
            return [name]
        found: list[str] = []
        for folder, _, files in os.walk(path):
            found += [os.path.relpath(os.path.join(folder, file), self.root) for file in files]
            if len(found) > _MOST_FILES:
                raise UnreadableError(f"{name} has too many files")
        return found
