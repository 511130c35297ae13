"""The files that are protected, found by whatever path leads to them: `..`, symbolic and hard links, patterns, case.

Instances live for one tool call: links and folders are looked up anew for each.
"""

import functools
import os
import posixpath
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from billhook.effects.calls import MAX_PATHS, Touched
from billhook.effects.paths import (
    LONGEST_PATH,
    any_matches,
    dots_agree,
    fold,
    git_root,
    identity_of,
    is_link,
    normal,
    says,
    tail,
    upwards,
)
from billhook.effects.programs import Touch
from billhook.effects.protected_paths import Protected
from billhook.effects.rules import Glob, path_matches, segment_matches
from billhook.effects.script import UNKNOWN

APPROVED_ONLY: Final = frozenset({"switch", "merge", "pull", "pick", "remove"})
"""Ways of git to bring other commits into the work tree; what they change loses its approval anyway."""
_UNTRACKS = re.compile(r" (?:rm|reset|update-index|read-tree) ")
_MOVES = re.compile(r" (?:update-ref|symbolic-ref) | (?:branch|tag) .*(?:-f|-M|--force|-B)\b")
_OTHER_REPOSITORY = re.compile(r"--(?:git-dir|work-tree)|GIT_[A-Z_]*(?:DIR|TREE|FILE|DIRECTORY)[A-Z_]*=")
_SIGNS: Final = frozenset("*?[")
_MAX_LISTED: Final = 4096
_SLASHES = re.compile(r"/(?:\.?/)*")
_CLASSES = re.compile(r"\[[^\]/]*\]|[*?]+")
_DESTROYS = re.compile(
    r"\b(?:rm|remove|unlink|rename|move|rmdir|rmtree|rmtreesync|delete|chmod|symlink|copytree|extractall)(?:Sync)?\b"
    r"|os\.replace",
    re.I,
)
_OWN_FOLDER: Final = ".billhook"
_PROGRAMS: Final = frozenset({"billhook", "billhook-hook", "billhook.exe", "billhook-hook.exe"})
_RUN_FIRST: Final = frozenset({"sitecustomize", "usercustomize"})  # modules that Python runs before any program
_OUR_PLACE = re.compile(
    r"(?:which|command\s+-v|type\s+-[pP]|whereis|where)\s+(?:-\w+\s+)*[\"']?billhook|bin/billhook|billhook-hook"
    r"|\bbillhook\.__(?:file|path)__|find_spec\(\s*[\"']billhook|site-packages/billhook|pip3? show[^\n;|&]*billhook",
    re.I,
)
"""How a line finds out where billhook is installed."""
_CHANGES = re.compile(r"\bwrite|\bcopy|truncate|link|\bopen\s*\([^)]*,\s*(?:mode\s*=\s*)?[\"'][rbt]*[wax+]", re.I)


@functools.lru_cache(maxsize=64)
def _folded(paths: tuple[str, ...]) -> dict[str, str]:
    """Many paths that are the same for every call: without regard to case, with how they are shown."""
    return {fold(path): path for path in paths}


class Hit(msgspec.Struct, frozen=True):
    """A protected file that a call touches. `doubtful`: it may."""

    path: str
    state: bool = False
    doubtful: bool = False


class Guarded:
    """The protected files as they lie on the disk now, seen from one working folder."""

    def __init__(self, protected: Protected, cwd: str, touched: Touched) -> None:
        self.names = protected.names
        self.dotted = [name for name in protected.names if "/." in "/" + name]
        self.cwd = cwd
        self.touched = touched
        self.real: dict[str, str] = {}
        self.listed = 0
        self.files: dict[str, str] = {}  # folded -> as it is shown
        places = dict.fromkeys(above for folder in (normal(cwd), self.follow(cwd)) for above in upwards(folder))
        named = (posixpath.join(place, name) for place in places for name in protected.names)
        for file in (*protected.files, *named):
            self.files |= {fold(path): file for path in self.variants(file)}
        self.programs, self.approved = protected.programs, protected.approved
        packages = _folded(protected.packages)
        programs = _folded(protected.programs) | _folded(protected.interpreters)
        self.files |= programs
        self.installed = packages.keys() | programs.keys()
        self.folders = {fold(path): folder for folder in protected.folders for path in self.variants(folder)} | packages
        self.sites, self.search_path = _folded(protected.sites), _folded(protected.search_path)
        self.elsewhere = _folded(protected.elsewhere)
        self.state = {fold(path): folder for folder in protected.state for path in self.variants(folder)}
        above = (posixpath.dirname(folder) for folder in protected.folders)
        projects = [cwd, git_root(cwd), *(folder for folder in above if (cwd + "/").startswith(folder + "/"))]
        self.roots = tuple({fold(path.rstrip("/")) + "/" for each in projects for path in self.variants(each)})
        self._identities: set[tuple[int, int]] | None = None
        self._existing: dict[str, str] | None = None
        self._written: set[str] | None = None

    # what is there

    def follow(self, path: str) -> str:
        found = self.real.get(path)
        if found is None:
            try:
                found = os.path.realpath(path)
            except (OSError, ValueError):
                found = normal(path)
            self.real[path] = found
        return found

    def variants(self, path: str, *, itself: bool = False) -> list[str]:
        """A path as written, with its folder's links followed, and with its own unless the link itself is meant."""
        if len(path) > LONGEST_PATH:
            return []
        folder, _, name = path.rstrip("/").rpartition("/")
        found = [normal(path)]
        if name not in ("", ".", ".."):
            behind = posixpath.join(self.follow(folder or "/"), name)
            found.append(behind)
            if (itself and not path.endswith("/")) or not is_link(behind):
                return list(dict.fromkeys(found))
        return list(dict.fromkeys((*found, self.follow(path))))

    @property
    def existing(self) -> dict[str, str]:
        """Everything protected that is there: removing a folder above it removes it."""
        if self._existing is None:
            every = {**self.elsewhere, **self.state, **self.folders, **self.files}
            self._existing = {folded: path for folded, path in every.items() if os.path.lexists(path)}
        return self._existing

    @property
    def identities(self) -> set[tuple[int, int]]:
        if self._identities is None:
            ours = dict.fromkeys(path for folded, path in self.files.items() if folded not in self.installed)
            found = (identity_of(path) for path in (*ours, *self.programs))
            self._identities = {identity for identity in found if identity}
        return self._identities

    # what is touched

    def hits(self) -> Iterator[Hit]:
        """Every protected file that the call touches, or may touch."""
        paths = self.touched.paths
        if len(paths) > MAX_PATHS:
            yield Hit(f"{len(paths)} files, more than can be looked at", doubtful=True)
        for touch in paths[:MAX_PATHS]:
            yield from self.by_git(touch) if touch.git[0] else self.by_touch(touch)
        for text in self.touched.code:
            yield from self.mentioned(text)

    def by_touch(self, touch: Touch) -> Iterator[Hit]:
        if UNKNOWN in touch.path or (touch.loose and _SIGNS & set(touch.path)):
            yield from self.by_pattern(touch)
        else:
            yield from self.by_path(touch)
            if _SIGNS & set(touch.path):
                yield from self.by_shell_pattern(touch)

    def by_git(self, touch: Touch) -> Iterator[Hit]:
        """What a git command really changes. Other branches are ordinary work: there only approved files count."""
        kind, commit = touch.git
        root = self.follow(git_root(normal(touch.path))) if UNKNOWN not in touch.path else ""
        if kind in APPROVED_ONLY:
            inside = {path: path for each in self.approved for path in (self.follow(each),) if os.path.lexists(each)}
            hits = [Hit(path) for path in inside if path.startswith(root + "/") and root]
            made = re.search(rf"\bgit branch {re.escape(commit)}\s*(?:&&|;|$)", self.touched.text)
            if not hits or made or (commit and os.path.lexists(posixpath.join(self.cwd, commit))):
                return
        else:
            hits = [hit for hit in self.by_touch(touch) if not hit.path.endswith("/")]
        known = [hit for hit in hits if root and self.follow(hit.path).startswith(root + "/")]
        if known and kind != "remove" and not self.is_prepared(kind):
            from billhook.effects.git import changed

            real = {self.follow(hit.path): hit for hit in known}
            kept = set(changed(root, kind, commit, list(real)))
            hits = [hit for hit in hits if hit not in known or self.follow(hit.path) in kept]
        yield from hits

    def is_prepared(self, kind: str) -> bool:
        """Whether the line itself changes what git knows, or uses another repository: then git can't be asked."""
        if _OTHER_REPOSITORY.search(self.touched.text):
            return True
        lines = [command.text for command in self.touched.commands if command.name == "git"]
        prepares = _UNTRACKS if kind in ("clean", "untracked") else _MOVES
        return any(map(prepares.search, lines))

    def by_path(self, touch: Touch) -> Iterator[Hit]:
        try:
            variants = self.variants(touch.path, itself=touch.itself)
        except (OSError, ValueError):
            return
        for path in variants:
            folded = fold(path)
            yield from self.at(path, folded, touch)
            if touch.below:
                yield from self.under(folded, touch.names)
            if touch.sources:
                yield from self.landing(touch, path, folded)
        identity = None if touch.itself else identity_of(touch.path)
        if (
            identity
            and identity in self.identities
            and not (touch.maybe and fold(self.follow(touch.path)) in self.installed)
        ):
            yield Hit(touch.path)

    def at(self, path: str, folded: str, touch: Touch) -> Iterator[Hit]:
        if folded in self.files and not (touch.maybe and folded in self.installed):
            yield Hit(self.files[folded])
        for folders, is_state in ((self.state, True), (self.folders, False)):
            for folder in folders:
                if touch.maybe and folder in self.installed:
                    continue
                if (folded == folder and not touch.folder) or folded.startswith(folder + "/"):
                    yield Hit(path, state=is_state)
        yield from (Hit(path) for name in self.names if folded.endswith("/" + fold(name)) and self.counts(path, name))
        if folded in self.elsewhere or self.is_ours_anywhere(folded, touch):
            yield Hit(path)

    def is_ours_anywhere(self, folded: str, touch: Touch) -> bool:
        """Another project's `.billhook`, a program that would be found before ours, code that runs before ours."""
        if touch.folder:
            return False
        if f"/{_OWN_FOLDER}/" in folded + "/":
            return True
        if touch.maybe:
            return False
        folder, _, name = folded.rpartition("/")
        if name in _PROGRAMS and folder in self.search_path:
            return True
        inside = (folded[len(site) + 1 :].partition("/")[0] for site in self.sites if folded.startswith(site + "/"))
        return any(map(_runs_first, inside))

    def counts(self, path: str, name: str) -> bool:
        """Whether a file of a name of ours is configuration where it lies: a plain `hooks.yaml` needs company."""
        place = path[: -len(name)]
        if os.path.lexists(place + ".git"):
            return True
        if name in self.dotted:
            return fold(place).startswith(self.roots)
        return any(os.path.lexists(place + other) for other in self.dotted)

    def under(self, folded: str, names: tuple[str, ...]) -> Iterator[Hit]:
        above = folded.rstrip("/") + "/"
        for inside, path in self.existing.items():
            if inside.startswith(above):
                segments = inside[len(above) :].split("/")
                if not names or any_matches(names, segments) or (inside not in self.files and self.holds(path, names)):
                    yield Hit(path, state=inside in self.state)

    def holds(self, folder: str, names: tuple[str, ...]) -> bool:
        """Whether a folder of ours has something of such a name in it; in a large one it may."""
        for _, folders, files in os.walk(folder):
            self.listed += len(folders) + len(files)
            if self.listed > _MAX_LISTED or any_matches(names, (*folders, *files)):
                return True
        return False

    def landing(self, touch: Touch, folder: str, folded: str) -> Iterator[Hit]:
        """What a copy or a move puts at the place of a protected file, there already or not."""
        above, depth = folded.rstrip("/") + "/", folder.rstrip("/").count("/") + 1
        is_folder = os.path.isdir(folder) or touch.path.endswith("/")
        for table in (self.state, self.folders, self.files):
            for inside, path in table.items():
                if not inside.startswith(above):
                    continue
                rest = inside.split("/")[depth:]
                own = path.split("/")[-len(rest) :]
                if any(self.lands(source, own, folder, is_folder) for source in touch.sources):
                    yield Hit(path, state=table is self.state)
        folded = folded.rstrip("/")
        for name in map(posixpath.basename, touch.sources):
            if (folded in self.search_path and fold(name) in _PROGRAMS) or (folded in self.sites and _runs_first(name)):
                yield Hit(posixpath.join(folder, name))
        for rest in self.nested(above):
            if any(self.lands(source, rest, folder, is_folder) for source in touch.sources):
                yield Hit(posixpath.join(folder, *rest))

    def nested(self, above: str) -> Iterator[list[str]]:
        """What would be configuration in this folder of the project: `settings.json` in `src/.claude/`."""
        if not above.startswith(self.roots):
            return
        for name in self.dotted:
            parts = name.split("/")
            yield parts
            yield from (
                parts[n:] for n in range(1, len(parts)) if above.endswith("/" + fold("/".join(parts[:n])) + "/")
            )

    def lands(self, source: str, rest: list[str], folder: str, is_folder: bool) -> bool:
        """Whether putting `source` there makes `rest` below the folder."""
        parent, _, name = source.rstrip("/").rpartition("/")
        ours = posixpath.basename(folder.rstrip("/")).startswith(".")
        if UNKNOWN in name:
            return ours and len(rest) == 1
        if _SIGNS & set(name):
            if not segment_matches(name, rest[0]) or (rest[0][0] == "." and name[0] != "." and not self.touched.dots):
                return False
            return UNKNOWN in parent or self.appears(posixpath.join(parent, *rest))
        there = UNKNOWN not in source and os.path.lexists(source)
        if name == ".":
            return self.appears(posixpath.join(source, *rest)) or (not there and ours)
        if fold(name) == fold(rest[0]):
            inner = posixpath.join(source, *rest[1:])
            if len(rest) == 1 or self.appears(inner) or (not there and name.startswith(".")):
                return True
        if is_folder:
            return False
        return self.appears(posixpath.join(source, *rest)) or (not there and ours and len(rest) == 1)

    def appears(self, path: str) -> bool:
        """Whether a path is there, or is by what the same call writes."""
        if self._written is None:
            self._written = {normal(touch.path) for touch in self.touched.paths[:MAX_PATHS]}
        return os.path.lexists(path) or normal(path) in self._written

    def by_shell_pattern(self, touch: Touch) -> Iterator[Hit]:
        """`rm .cl*/set*`: only what is there is matched; in folders too large to list, by name alone."""
        pattern = [fold(segment) for segment in normal(touch.path).split("/")]
        for folded, path in self.existing.items():
            segments = folded.split("/")
            if path_matches(pattern, segments) and (self.touched.dots or dots_agree(pattern, segments)):
                yield Hit(path, state=folded in self.state)
        for path in self.expanded(touch.path):
            yield from self.by_path(msgspec.structs.replace(touch, path=path))

    def expanded(self, pattern: str) -> list[str]:
        paths = [""]
        for segment in pattern.split("/")[1:]:
            if _SIGNS & set(segment):
                paths = [f"{path}/{name}" for path in paths for name in self.matching(path or "/", segment)]
            else:
                paths = [f"{path}/{segment}" for path in paths]
        return paths

    def matching(self, folder: str, pattern: str) -> list[str]:
        found: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self.listed += 1
                    if self.listed > _MAX_LISTED:
                        break
                    hidden = entry.name.startswith(".") and pattern[0] != "." and not self.touched.dots
                    if not hidden and segment_matches(pattern, entry.name):
                        found.append(entry.name)
        except (OSError, ValueError):
            pass  # no such folder: nothing matches there
        return found

    # what can't be told

    def by_pattern(self, touch: Touch) -> Iterator[Hit]:
        """A path with unknown parts. It counts where its known parts say enough: its last name, or a folder of ours."""
        if touch.folder:
            return
        path = _SLASHES.sub("/", _CLASSES.sub(UNKNOWN, touch.path))
        known = path.partition(UNKNOWN)[0].rpartition("/")[0]
        rest = path[len(known) :]
        if "/../" in rest:
            known, rest = "", UNKNOWN + "/" + rest.rpartition("/../")[2]
        last = rest.rstrip("/").rpartition("/")[2]
        for folder in dict.fromkeys((normal(known), self.follow(known))) if known else [""]:
            yield from self.at(folder + "/" + UNKNOWN, fold(folder) + "/" + UNKNOWN, touch)
            pattern = Glob(tuple(fold(folder + rest.rstrip("/")).split(UNKNOWN)))
            for folded, file in self.files.items():
                if not self.fits(pattern, folded, touch.below):
                    continue
                if folded in self.installed and ("bin/" not in rest or touch.maybe):
                    continue
                ours = fold(folder) == posixpath.dirname(folded) and posixpath.basename(folded and folder).startswith(
                    "."
                )
                known_letters = len(last.replace(UNKNOWN, ""))
                told = (
                    UNKNOWN not in last
                    or ours
                    or 2 * known_letters > len(posixpath.basename(file))
                    or (self.touched.fed and self.names_it(file, self.touched.text))
                )
                if (touch.loose and os.path.lexists(file)) or (told and not touch.loose):
                    yield Hit(file, doubtful=True)
        runs_first = _FIRST_FILE.search(path)
        if path.startswith(UNKNOWN) and not touch.maybe and (runs_first or _OUR_PLACE.search(self.touched.text)):
            yield Hit("billhook's own program or package", doubtful=True)
        yield from self.known_folder(f"/{rest.replace(UNKNOWN, '/')}/")
        if touch.sources and rest.strip("/" + UNKNOWN):
            for source in touch.sources:
                name = source.rstrip("/").rpartition("/")[2]
                yield from self.by_pattern(Touch(f"{touch.path}/{name}"))

    def fits(self, pattern: Glob, folded: str, below: bool) -> bool:
        if pattern.matches(folded):
            return True
        folder = posixpath.dirname(folded)
        return below and posixpath.basename(folder).startswith(".") and pattern.matches(folder)

    def known_folder(self, text: str) -> Iterator[Hit]:
        """Folders of ours that the known part of a path names: `$X/.billhook/y`."""
        text = fold(text)
        for folded, folder in self.folders.items():
            name = posixpath.basename(folded)
            if name.startswith(".") and f"/{name}/" in text:
                yield Hit(folder, doubtful=True)
        for folded, folder in self.state.items():
            if f"/{tail(folded)}/" in text:
                yield self.state_hit(folder)

    def state_hit(self, folder: str) -> Hit:
        """A project may have a `.claude/hooks` of its own: which one is meant can't be told, and a person is asked."""
        ending = tail(folder)
        others = (f"{place}/{ending}" for place in upwards(self.cwd))
        other = any(os.path.lexists(path) and path != folder for path in others)
        return Hit(folder, state=not other, doubtful=True)

    def names_it(self, file: str, text: str) -> bool:
        """Whether a text names the file, or the dotted folder that it is in."""
        folder = posixpath.basename(posixpath.dirname(file))
        return says(text, posixpath.basename(file)) or (folder.startswith(".") and says(text, folder))

    def mentioned(self, text: str) -> Iterator[Hit]:
        """Code in another language, or a line that can't be read, that speaks of a protected file."""
        writes = _DESTROYS.search(text) or _CHANGES.search(text) or _REDIRECTS.search(text)
        if writes and _OUR_PLACE.search(text):
            yield Hit("billhook's own program or package", doubtful=True)
        if writes and (program := next((path for path in self.programs if path in text), "")):
            yield Hit(program, doubtful=True)
        if (
            writes
            and _FIRST_FILE.search(text)
            and (site := next((one for one in self.sites.values() if one in text), ""))
        ):
            yield Hit(site, doubtful=True)
        for file in dict.fromkeys(file for folded, file in self.files.items() if folded not in self.installed):
            folder = posixpath.basename(posixpath.dirname(file))
            dotted = folder.startswith(".")
            named = says(text, posixpath.basename(file))
            if (named and (not dotted or says(text, folder))) or (
                dotted and says(text, folder) and _DESTROYS.search(text)
            ):
                yield Hit(file, doubtful=True)
                break
        for folder in dict.fromkeys(path for folded, path in self.folders.items() if folded not in self.installed):
            name = posixpath.basename(folder)
            if says(text, name if name.startswith(".") else tail(folder)):
                yield Hit(folder, doubtful=True)
        for folder in dict.fromkeys(self.state.values()):
            if says(text, tail(folder)) or folder in text:
                yield self.state_hit(folder)
            elif says(text, "approvals") and says(text, posixpath.basename(folder)):
                yield Hit(folder, state=True, doubtful=True)


_FIRST_FILE = re.compile(r"/(?:[^/\s]*\.pth|(?:site|user)customize\.py)(?![\w.])")
_REDIRECTS = re.compile(r">\s*[\"']|[\"'][wax]b?\+?[\"']")


def _runs_first(name: str) -> bool:
    """Whether Python runs a file or folder of this name in site-packages before any program; `*` may be one."""
    return name.endswith(".pth") or "*" in name or UNKNOWN in name or name.partition(".")[0] in _RUN_FIRST
