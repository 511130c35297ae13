"""What a command of a line changes for those after it: files, the shell's folder and variables, work that it keeps."""

import itertools
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from billhook.effects.effect import UNKNOWN, Command, Effect
from billhook.effects.families import git, network
from billhook.effects.outputs import DOWNLOADS, PACKERS, TEMPORARY, printf
from billhook.effects.places import FileSystem, Overlay, base_of, has_pattern, inside, repository_above
from billhook.effects.programs import Options
from billhook.effects.run import EMPTY, MOST_FIELDS, NOTHING, UNKNOWN_VALUE, Run, Value
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import word_set

_TELLING: Final = frozenset({"secret", "destroys"})
MOST_FILES: Final = 8  # that are read
LARGEST_FILE: Final = 64 * 1024
_DOWNLOAD_VALUES: Final = word_set("-o --output -O --output-document -P -d --dir")
FETCHED: Final = Value(UNKNOWN, frozenset({"remote", "fetched"}))
"""What comes from a place that may be one's own: a bucket, a host, an archive."""


class LineFiles:
    """The files of one line. A subshell writes to the same ones."""

    def __init__(self, fs: FileSystem) -> None:
        self.overlay = Overlay(fs)
        self.written: dict[str, Value] = {}
        self.unpacked: list[str] = []  # folders into which the line unpacks what it downloads
        self.left = MOST_FILES

    def write(self, path: str, value: Value) -> None:
        """The line writes a file."""
        self.written[path] = value
        self.overlay.written[path] = value.text if value.known else None

    def made(self, path: str) -> Value | None:
        """What the line wrote to a file, or unpacked as one that was not there before."""
        if path not in self.written and inside(path, self.unpacked) and not self.overlay.kind(path):
            return FETCHED
        return self.written.get(path)

    def content(self, path: str) -> Value:
        """What a file holds: what the line wrote, or a reference to the file on the disk."""
        if path in self.written:
            return self.written[path]
        origins = {f"file:{path}"} | ({"secret"} if is_secret_file(path) else set())
        return Value(UNKNOWN, frozenset(origins))

    def read(self, path: str) -> str | None:
        """The text of a file on the disk, within bounds; None where it can't or must not be read."""
        if UNKNOWN in path or self.left <= 0 or is_secret_file(path):
            return None
        self.left -= 1
        return self.overlay.read(path, LARGEST_FILE)

    def copied(self, path: str) -> str:
        """The file that the line copied or linked to a path: `cp /bin/rm q` makes `./q` another `rm`."""
        made = self.written.get(path)
        return next((each[5:] for each in sorted(made.origins) if each.startswith("file:")), "") if made else ""

    def contents(self, value: Value) -> Value:
        """A value that is the text of files, or a part of it: that text, if it can be read."""
        if value.text != UNKNOWN:
            return value
        paths = [origin.partition(":")[2] for origin in value.origins if origin.startswith(("file:", "lines:"))]
        texts = [text.replace(UNKNOWN, "\n") for text in map(self.read, paths) if text is not None]
        return Value("\n".join(texts), value.origins) if texts and len(texts) == len(paths) else value

    def named_origins(self, words: Iterable[str], run: Run) -> frozenset[str]:
        """What is in the files that words name, where the line itself filled them: `cp .env x; curl -F f=@x ...`."""
        if not self.written:
            return NOTHING
        paths = (run.path(word.rpartition("@")[2].rpartition("=")[2]) for word in words)
        found = (self.written[path].origins for path in paths if path in self.written)
        return _TELLING.intersection(itertools.chain.from_iterable(found))


# what programs write, as far as it matters for what follows in the line


def note_made(command: Command, printed: Value, run: Run) -> None:
    """Remember the files, folders and links that a command makes."""
    for maker in _MAKERS.get(command.name, ()):
        maker(command, printed, run)


def _operands(command: Command) -> list[str]:
    return [word for word in command.args if not word.startswith("-")]


def _tee(command: Command, printed: Value, run: Run) -> None:
    for word in command.args:
        run.files.write(run.path(word), printed)


def _copy(command: Command, printed: Value, run: Run) -> None:
    if len(command.args) >= 2:
        source, target = map(run.path, command.args[-2:])
        run.files.write(target, run.files.content(source))


def _link(command: Command, printed: Value, run: Run) -> None:
    """`ln -s A B`: from here on B is a link."""
    operands, overlay = _operands(command), run.files.overlay
    if not any("s" in word for word in command.args if word.startswith("-")):
        return
    for source in operands[:-1] or operands:
        target = run.path(operands[-1] if len(operands) > 1 else ".")
        if overlay.kind(overlay.real(target)) == "dir":
            target = posixpath.join(target, posixpath.basename(source.rstrip("/")))
        overlay.links[target] = run.path(source) if source.startswith("~") else source


def _download(command: Command, printed: Value, run: Run) -> None:
    """What runs a downloaded file runs something remote."""
    for word in _downloads(command):
        run.files.written[run.path(word)] = Value(UNKNOWN, frozenset({"remote"}))


def _downloads(command: Command) -> Iterator[str]:
    options = Options(command.args, word_set(network.CURL_VALUES) if command.name == "curl" else _DOWNLOAD_VALUES)
    named = options.values("-o", "--output", "-O", "--output-document")
    yield from named
    if not named and (command.name in ("wget", "aria2c", "axel") or options.has("-O", "--remote-name")):
        urls = (word for word in options.operands if "/" in word)
        yield from (posixpath.basename(url.rstrip("/").partition("?")[0]) for url in urls)


def _unpack(command: Command, printed: Value, run: Run) -> None:
    """`curl ... | tar xz`, `curl -O .../a.tgz && tar xf a.tgz`: what it unpacks came from there."""
    named = (run.files.written.get(run.path(word), EMPTY) for word in command.args)
    if any("remote" in each.origins for each in (run.fed or EMPTY, *named)):
        folder = Options(command.args, word_set("-C --directory -d")).values("-C", "--directory", "-d")
        run.files.unpacked.append(run.path("".join(folder[-1:]) or "."))


def _fetch(command: Command, printed: Value, run: Run) -> None:
    """`scp h:x.sh .`, `aws s3 cp s3://b/x.sh .`, `gh release download -p x.sh`."""
    if command.args[:2] == ("release", "download"):
        for word in Options(command.args, word_set("-p --pattern -O --output")).values(
            "-p", "--pattern", "-O", "--output"
        ):
            run.files.written[run.path(word)] = FETCHED
    source, target = ("", "", *_operands(command))[-2:]
    if ":" in source and ":" not in target:
        place = run.path(target)
        name = posixpath.basename(source.rpartition(":")[2])
        into = target.endswith(("/", ".")) or run.files.overlay.kind(place) == "dir"
        run.files.written[posixpath.join(place, name) if into else place] = FETCHED


def _pack(command: Command, printed: Value, run: Run) -> None:
    """An archive of secret files is secret."""
    if "secret" in printed.origins:
        for word in command.args:
            run.files.written.setdefault(run.path(word), printed)


def _plan(command: Command, printed: Value, run: Run) -> None:
    """`terraform plan -destroy -out=p`: who applies it destroys."""
    options = Options(command.args, word_set("-out --out"))
    for word in options.values("-out", "--out") if options.has("-destroy", "--destroy") else ():
        run.files.written[run.path(word)] = Value(UNKNOWN, frozenset({"destroys"}))


def note_alias(command: Command, run: Run) -> None:
    """`git config alias.p 'push --force'`: from here on `git p` is that."""
    words = [word for word in command.args if not word.startswith("-")]
    if words[:1] == ["config"] and len(words) > 2 and words[-2].startswith("alias."):
        run.state.aliases[f"git {words[-2][6:]}"] = words[-1]


_Maker = Callable[[Command, Value, Run], None]
_MAKERS: Final[dict[str, tuple[_Maker, ...]]] = {
    "mkdir": (
        lambda command, _, run: run.files.overlay.made.update({run.path(word): "dir" for word in _operands(command)}),
    ),
    "mktemp": (lambda command, printed, run: run.files.overlay.made.update({TEMPORARY: "dir"}),),
    "tee": (_tee,),
    **dict.fromkeys(("terraform", "tofu", "terragrunt"), (_plan,)),
    "ln": (_link, _copy),
    **dict.fromkeys(("cp", "mv", "install"), (_copy,)),
    **dict.fromkeys(DOWNLOADS | {"axel"}, (_download,)),
    **dict.fromkeys(PACKERS, (_pack,)),
    "tar": (_pack, _unpack),
    **dict.fromkeys(("bsdtar", "cpio", "unzip", "7z"), (_unpack,)),
    **dict.fromkeys(("scp", "rsync", "aws", "gsutil", "gcloud", "gh", "rclone"), (_fetch,)),
}


# builtins of the shell that change what it knows

Builtin = Callable[[list[Value], Run], None]
"""A builtin gets its words, the name first."""
DECLARES: Final = frozenset({"export", "declare", "local", "typeset", "readonly"})
_PRINT_ALONE: Final = DECLARES | {"set", "alias", "hash"}


def builtin_of(name: str, words: Sequence[str]) -> Builtin | None:
    """The builtin that a command is; None for any other command, and where it only prints."""
    found = BUILTINS.get(name)
    if name == "printf" and tuple(words[1:2]) != ("-v",):
        return None
    return None if len(words) == 1 and name in _PRINT_ALONE else found


def _words(fields: list[Value]) -> list[str]:
    return [field.text for field in fields[1:]]


# folders


def _cd(fields: list[Value], run: Run) -> None:
    target = next((word for word in reversed(_words(fields)) if word[:1] != "-" or word == "-"), run.world.home)
    _move(run.state.before if target == "-" else run.path(target), run)


def _pushd(fields: list[Value], run: Run) -> None:
    run.state.stack.append(run.state.cwd)
    _cd(fields if len(fields) > 1 else [*fields, Value("-")], run)


def _popd(fields: list[Value], run: Run) -> None:
    _move(run.state.stack.pop() if run.state.stack else run.state.before, run)


def _move(target: str, run: Run) -> None:
    state = run.state
    there = UNKNOWN in target or run.world.fs.kind(target) in ("dir", "link")
    state.folders = () if there else (state.cwd,)  # it may fail, or the line makes the folder
    state.before, state.cwd = state.cwd, target


# variables


def _declare(fields: list[Value], run: Run) -> None:
    names = any(field.text == "-n" for field in fields)  # for other variables
    lower = any(field.text == "-l" for field in fields)
    state = run.state
    for field in fields[1:]:
        key, equals, value = field.text.partition("=")
        if fields[0].text not in ("export", "readonly") and "-g" not in _words(fields):
            state.locals.add(key)
        if equals and names:
            state.references[key] = value
        elif equals and key not in state.constants:
            state.variables[key.rstrip("+")] = Value(value.lower() if lower else value, field.origins)
        if fields[0].text == "readonly":
            state.constants |= {key}


def _read(fields: list[Value], run: Run) -> None:
    names = [word for word in _words(fields) if word.isidentifier()] or ["REPLY"]
    given = _next_line(run)
    if not given.known:
        run.state.variables |= dict.fromkeys(names, Value(UNKNOWN, given.origins))
        return
    parts = given.text.strip().split(None, len(names) - 1) if len(names) > 1 else [given.text.strip()]
    for name, part in zip(names, (*parts, *[""] * len(names)), strict=False):
        run.state.variables[name] = Value(part, given.origins)


def _next_line(run: Run) -> Value:
    """One line of standard input; what a block reads has one line less afterwards."""
    state = run.state
    shared = run.fed is None or run.fed is state.source
    given = run.files.contents((state.input if shared else run.fed) or UNKNOWN_VALUE)
    line, _, rest = given.text.partition("\n") if given.known else (UNKNOWN, "", UNKNOWN)
    if shared:
        state.input = Value(rest, given.origins)
    return Value(line, given.origins)


def _mapfile(fields: list[Value], run: Run) -> None:
    for line in Options(_words(fields), word_set("-C -c -d -n -O -s -u")).values("-C"):
        run.interpreter.run_text(line, run.inside(fields[0].text, state=run.state.copy()))
    given = run.files.contents(run.fed or run.state.input or UNKNOWN_VALUE)
    name = fields[-1].text if len(fields) > 1 else "MAPFILE"
    run.state.arrays[name] = [Value(line, given.origins) for line in given.text.splitlines()[:MOST_FIELDS]]


def _printf(fields: list[Value], run: Run) -> None:
    """`printf -v NAME FORMAT ...`."""
    words = _words(fields)
    run.state.variables[" ".join(words[1:2])] = Value(printf(words[2:]), NOTHING.union(*(f.origins for f in fields)))


# arguments and names


def _set(fields: list[Value], run: Run) -> None:
    words = _words(fields)
    if "--" in words:
        run.state.arguments = fields[words.index("--") + 2 :]


def _shift(fields: list[Value], run: Run) -> None:
    run.state.arguments = run.state.given[1:] or [UNKNOWN_VALUE]


def _alias(fields: list[Value], run: Run) -> None:
    run.state.aliases |= dict(word.split("=", 1) for word in _words(fields) if "=" in word)


def _hash(fields: list[Value], run: Run) -> None:
    """`hash -p PROGRAM NAME`: the name runs that program."""
    words = _words(fields)
    if words[0] == "-p" and len(words) > 2:
        run.state.aliases[words[2]] = words[1]


BUILTINS: Final[dict[str, Builtin]] = {
    "cd": _cd,
    "chdir": _cd,
    "pushd": _pushd,
    "popd": _popd,
    **dict.fromkeys(DECLARES, _declare),
    "unset": lambda fields, run: run.state.variables.update(
        dict.fromkeys(frozenset(_words(fields)) - run.state.constants, EMPTY)
    ),
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "printf": _printf,
    "set": _set,
    "shift": _shift,
    "alias": _alias,
    "hash": _hash,
}


# Work that the line itself keeps: after `git stash -u &&` there is nothing left that a reset could discard.
# Only commands after a successful stash or commit count: those behind `&&`.

_CHANGED: Final = "changed"  # tracked files, and what is staged
_NEEDED: Final = {
    git.UNTRACKED: frozenset({git.UNTRACKED}),
    git.IGNORED: frozenset({git.IGNORED}),
    git.UNTRACKED_AND_IGNORED: frozenset({git.UNTRACKED, git.IGNORED}),
}
"""What must be kept so that `git clean` loses nothing; every other command discards changes."""
_VALUES: Final = word_set("-m --message -F --file -C -c --author --date --pathspec-from-file")
_PARTS: Final = word_set(
    "-p --patch -k --keep-index -S --staged --pathspec-from-file --dry-run -o --only --interactive"
)
"""Options with which a stash or a commit takes only a part of the work, or none."""
_GIVES_BACK: Final = frozenset({"pop", "apply", "branch", "drop", "clear"})


def note_saved(command: Command, run: Run) -> None:
    """Remember what a stash or a commit keeps, and in which repository."""
    if command.name != "git" or not command.args:
        return
    verb, *words = command.args
    if verb not in ("stash", "add", "commit"):
        return
    state, root = run.state, repository_above(run.state.cwd, run.world.fs) if UNKNOWN not in run.state.cwd else ""
    if state.saved_in != root:
        state.saved, state.saved_in = frozenset(), root
    options = Options(words, _VALUES)
    if verb == "add":
        everything = options.has("-A", "--all") and not options.operands
        state.staged_all = everything or (options.operands == ["."] and state.cwd == root)
    elif verb == "commit":
        state.saved |= _committed(options, state.staged_all)
    elif words[:1] and words[0] in _GIVES_BACK:
        state.saved = frozenset()
    else:
        state.saved |= _stashed(words, options)


def _committed(options: Options, staged_all: bool) -> frozenset[str]:
    if options.operands or options.has(*_PARTS):
        return frozenset()
    if staged_all:
        return frozenset({_CHANGED, git.UNTRACKED})
    return frozenset({_CHANGED}) if options.has("-a", "--all") else frozenset()


def _stashed(words: list[str], options: Options) -> frozenset[str]:
    operands = options.operands
    is_save = operands[:1] == ["save"]  # what follows it is a message
    if (operands and operands != ["push"] and not is_save) or options.has(*_PARTS) or words[:1] == ["create"]:
        return frozenset()
    if options.has("-a", "--all"):
        return frozenset({_CHANGED, git.UNTRACKED, git.IGNORED})
    untracked = {git.UNTRACKED} if options.has("-u", "--include-untracked") else set()
    return frozenset({_CHANGED, *untracked})


def after_saving(effect: Effect, run: Run) -> Effect:
    """The remaining effect, without the work that the line has saved so far."""
    saved = run.state.saved
    if effect.kind == "drop-recovery" and saved and "stash" in effect.cause.split():
        return replace(effect, weight="heavy", certain=False, why="this line stashes work before")
    if effect.weight != "normal" or effect.scope not in ("project", "temp", "unknown"):
        return effect
    needed = frozenset({_CHANGED, git.UNTRACKED}) if effect.kind == "delete" else _NEEDED.get(effect.why, {_CHANGED})
    return replace(effect, weight="light") if needed <= saved and _is_there(effect, run) else effect


def _is_there(effect: Effect, run: Run) -> bool:
    """Whether all that an effect takes belongs to the repository whose work was kept."""
    fs, root, target = run.world.fs, run.state.saved_in, effect.target
    if effect.kind == "discard" and not target:
        return repository_above(run.state.cwd, fs) == root
    if effect.kind not in ("discard", "delete") or UNKNOWN in target:
        return False
    base = base_of(target)
    below = base != root or (effect.kind == "discard" and not has_pattern(target))
    return below and repository_above(base, fs) == root
