"""Which files a shell command writes, creates or removes, by its words: one row or one small reader for each program.

A program that is in no table may write every file it names; one in `READERS` writes none. Paths are as written, with
UNKNOWN for what only the shell will know.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from billhook.script import UNKNOWN
from billhook.unwrap import SHELLS, WRAPPERS


class Touch(msgspec.Struct, frozen=True):
    """One path that is written, created or removed."""

    path: str
    below: bool = False
    """What lies below it as well: `rm -r`."""
    sources: tuple[str, ...] = ()
    """What is put there, or into it when it is a folder: `cp a b`."""
    names: tuple[str, ...] = ()
    """Of what lies below only files or folders of such names: `find -name '*.pyc' -delete`."""
    folder: bool = False
    """Only a folder is made; it holds nothing yet."""
    itself: bool = False
    """A link at its end is removed or moved, not followed: what it leads to stays as it is."""
    loose: bool = False
    """Patterns go across folders: `git checkout -- '*.json'`."""


class Writes(msgspec.Struct):
    """What one command does: paths it touches, and code in other languages that it runs."""

    touches: list[Touch] = []
    code: list[str] = []
    """Programs in another language; they count when they mention what is protected."""
    runs_input: bool = False
    """The program is read from standard input."""
    folder: str | None = None
    """The command runs in this folder: `git -C x`."""


_READERS = """
. : [ [[ ag alias basename bat bc bg billhook break cal cargo cat cd cksum claude clear cloc cmp column comm
continue cut dasel date declare df diff dig dirname disown docker du echo egrep env eval exit expand export expr
eza false fg fgrep file flake8 fmt fold free gh go grep groups hash head helm help hexdump history host hostname
htop hyperfine iconv id jobs join journalctl jq kill kubectl less let local locate ls lsof make man md5 md5sum
mktemp more mypy newgrp nl nm npm nproc numfmt objdump od paste pgrep ping pip pip3 pnpm popd printenv printf ps
pstree pushd pwd pylint pytest read readarray readlink readonly realpath return rev rg runuser seq service sg
sha1sum sha256sum sha512sum shasum shellcheck shift shopt sleep source ssh-keygen stat strings su sum systemctl
tac tail test times top tr trap tree true tsc tsort tty type typeset ulimit umask uname unset uptime vmstat
wait wc whereis which who whoami xmllint yamllint yarn zcat zgrep zless
"""
READERS: Final = frozenset(_READERS.split())
"""Programs that write none of the files they name; what their redirections write is seen elsewhere."""

_WITH_OUTPUT: Final = frozenset({"go", "tree", "xmllint", "iconv"})
_RUNNERS: Final = frozenset({"npx", "bunx", "uvx", "pnpx", "dlx"})
_RUN_VERBS: Final = {
    "uv": {"run", "tool"}, "poetry": {"run"}, "pipenv": {"run"}, "hatch": {"run"}, "pdm": {"run"}, "rye": {"run"},
    "pipx": {"run"}, "pnpm": {"exec", "dlx"}, "yarn": {"exec", "dlx"}, "npm": {"exec"}, "bundle": {"exec"},
    "mise": {"exec", "x"}, "direnv": {"exec"},
}  # fmt: skip
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*w?")
_CODE: Final = {
    "node": "ep", "nodejs": "ep", "perl": "eE", "ruby": "e", "php": "rBRE", "lua": "e", "Rscript": "e",
    "osascript": "e", "pwsh": "c", "powershell": "c", "tclsh": "", "bun": "e", "deno": "",
}  # fmt: skip
"""Interpreters besides Python, and the letters of the options that are followed by code."""
_OUTPUT = re.compile(r"--[\w-]*(?:out|dest|log|report|write|save|dump|target)[\w-]*=(.+)", re.S)
_CONFIG = re.compile(r"--?(?:c|config|settings|conf|cfg|rc|rcfile|config-file)")
_SED_WRITES = re.compile(r"w\s*([^\s;}]+)")


def writes(words: Sequence[str]) -> Writes:
    """What the command of these words touches; a wrapper's inner command is not looked at."""
    name = posixpath.basename(words[0])
    reader = _SPECIAL.get(name)
    if reader is not None:
        return reader(words)
    if _PYTHON.fullmatch(name) or name in _CODE:
        return _interpreter(words, _CODE.get(name, "c"))
    if name in _RUNNERS or (words[1:2] and words[1] in _RUN_VERBS.get(name, ())):
        return _run_by(words)
    if name in SHELLS:
        return _shell(words)
    if name in WRAPPERS:
        return Writes([Touch(value) for value in _after(words, "-o", "--output")], folder=_chdir(name, words))
    if name in _WITH_OUTPUT:
        return _sort(words)
    return Writes() if name in READERS else unknown_program(words)


def unknown_program(words: Sequence[str]) -> Writes:
    """What a program that we know nothing of may write."""
    return Writes(list(_operands(words[1:])))


def _operands(words: Sequence[str]) -> Iterator[Touch]:
    """Every file that an unknown program names; it may write any of them, but seldom what follows `--config`."""
    before = ""
    for word in words:
        if word.startswith("-"):
            if found := _OUTPUT.match(word):
                yield Touch(found[1])
            elif word.startswith("-o") and len(word) > 2:
                yield Touch(word[2:])
        elif not _CONFIG.fullmatch(before):
            yield Touch(word)
        before = word


class _Words:
    """A command's words told apart: its options with their values, and its operands."""

    def __init__(self, words: Sequence[str], valued: str = "", long: str = "") -> None:
        self.options: list[tuple[str, str]] = []
        self.operands: list[str] = []
        rest = iter(words)
        longs = frozenset(long.split())
        for word in rest:
            if word == "--":
                self.operands += rest
            elif word.startswith("--"):
                name, equals, value = word[2:].partition("=")
                self.options.append((name, value if equals or name not in longs else next(rest, "")))
            elif word.startswith("-") and len(word) > 1:
                self._short(word, valued, rest)
            else:
                self.operands.append(word)

    def _short(self, word: str, valued: str, rest: Iterator[str]) -> None:
        for place, letter in enumerate(word[1:], 2):
            if letter in valued:
                self.options.append((letter, word[place:] or next(rest, "")))
                return
            self.options.append((letter, ""))

    def has(self, *names: str) -> bool:
        return any(
            name in names or (len(name) > 3 and any(each.startswith(name) for each in names))
            for name, _ in self.options
        )

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.options if name in names and value]


def _after(words: Sequence[str], short: str, long: str) -> Iterator[str]:
    for place, word in enumerate(words):
        if word in (short, long):
            yield from words[place + 1 : place + 2]
        elif word.startswith(long + "="):
            yield word[len(long) + 1 :]
        elif word.startswith(short) and len(word) > 2:
            yield word[2:]


def _chdir(name: str, words: Sequence[str]) -> str | None:
    """Where `env -C x` and `sudo -D x` run their command."""
    short = {"env": "-C", "sudo": "-D"}.get(name)
    return next(_after(words, short, "--chdir"), None) if short else None


def _remove(words: Sequence[str]) -> Writes:
    said = _Words(words[1:])
    below = said.has("r", "R", "recursive") or posixpath.basename(words[0]) != "rm"
    itself = posixpath.basename(words[0]) != "shred"
    return Writes([Touch(path, below=below, itself=itself) for path in said.operands])


def _attributes(words: Sequence[str]) -> Writes:
    """chmod, chown and the like; the mode among the operands names no file of ours."""
    below = any(word == "--recursive" or (word[:1] == "-" and word[1:2] != "-" and "R" in word) for word in words)
    return Writes([Touch(word, below=below) for word in words[1:] if not word.startswith("-") or "/" in word])


def _mkdir(words: Sequence[str]) -> Writes:
    return Writes([Touch(path, folder=True) for path in _Words(words[1:], "mZ", "mode context").operands])


def _put(words: Sequence[str]) -> Writes:
    """cp, mv, install, ln, rsync, scp: into the last operand, or into what `-t` names; mv takes its sources away."""
    name = posixpath.basename(words[0])
    valued = {"install": "mogtS", "rsync": "efBT", "scp": "cFiJloPSX"}.get(name, "tS")
    said = _Words(
        words[1:], valued, "target-directory suffix mode owner group rsh exclude include filter backup-dir temp-dir"
    )
    if name == "install" and said.has("d", "directory"):
        return Writes([Touch(path, folder=True) for path in said.operands])
    folders = said.values("t", "target-directory") if name not in ("rsync", "scp") else []
    sources, targets = (said.operands, folders) if folders else (said.operands[:-1], said.operands[-1:])
    if name == "ln" and len(said.operands) == 1 and not folders:
        sources, targets = said.operands, ["."]
    if any(source.endswith("/") for source in sources) and name == "rsync":
        sources = [source + "." if source.endswith("/") else source for source in sources]
    if name == "cp" and said.has("T", "no-target-directory"):
        sources = [source + "/." for source in sources]
    clears = name == "rsync" and any(option.startswith("del") for option, _ in said.options)
    found = [Touch(target, below=clears, sources=tuple(sources)) for target in targets]
    if name in ("mv", "ln") or said.has("l", "link", "s", "symbolic-link", "remove-source-files"):
        found += [Touch(source, below=name == "mv", itself=name == "mv") for source in sources]
        if name == "ln":  # what a symbolic link names is seen from the link's folder
            found += [
                Touch(f"{posixpath.dirname(target)}/{source}")
                for target in targets
                if "/" in target
                for source in sources
                if source[:1] not in "/~"
            ]
    return Writes(found)


def _dd(words: Sequence[str]) -> Writes:
    return Writes([Touch(word[3:]) for word in words[1:] if word.startswith("of=")])


def _sed(words: Sequence[str]) -> Writes:
    said = _Words(
        [word for word in words[1:] if not re.match(r"-[nErsuz]*i", word)], "efl", "expression file line-length"
    )
    in_place = any(re.match(r"-[nErsuz]*i|--in-p", word) for word in words[1:])
    scripts = said.values("e", "expression")
    files = said.operands if scripts or said.has("f", "file") else said.operands[1:]
    scripts = scripts or said.operands[:1]
    found = [Touch(target[1]) for script in scripts for target in _SED_WRITES.finditer(script)]
    return Writes(
        found + [Touch(file) for file in (said.operands if in_place else [])] + [Touch(f) for f in files if in_place]
    )


def _awk(words: Sequence[str]) -> Writes:
    said = _Words(words[1:], "fFvieEl", "file field-separator assign include source")
    in_place = any("inplace" in value for value in said.values("i", "include"))
    code = [*said.operands[:1], *said.values("e", "source")]
    return Writes([Touch(path) for path in said.operands[1:] if in_place], code)


def _interpreter(words: Sequence[str], letters: str) -> Writes:
    """`python x.py a`: x.py is read, a may be written. `python -c '...'`, `node -e '...'`, `perl -i`: as they say."""
    name = posixpath.basename(words[0])
    found, at = Writes(), 1
    if name in ("deno", "bun") and words[1:2]:
        at = 2
        if words[1] in ("eval", "repl"):
            return Writes(code=list(words[2:]))
    in_place = name in ("perl", "ruby") and any(re.match(r"-(?![MmI])[a-zA-Z0]*i", word) for word in words[1:])
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        word = words[at]
        at += 1
        if word in ("--eval", "--print", "-pe", "-ne") or (
            word[1] != "-" and letters and _runs_code(name, word, letters)
        ):
            found.code += words[at : at + 1] if word[-1] in letters or word.startswith("--") else [word]
            at += 1 if word[-1] in letters or word.startswith("--") else 0
        elif word.startswith("--eval="):
            found.code.append(word)
        elif word == "-m" and letters == "c":
            reads = 2 if words[at : at + 1] == ("json.tool",) else 1
            return Writes(list(_operands(words[at + reads :])))
        elif word in ("-W", "-X", "-r", "--require", "-I", "-M"):
            at += 1
    operands = words[at:]
    if found.code:
        found.touches = list(_operands(operands)) if in_place else []
        if not (name in ("perl", "ruby") and any(re.match(r"-(?![MmI])[a-zA-Z0]*[np]", word) for word in words[1:at])):
            found.code += operands  # the arguments that the code is given; with -n and -p they are read
        return found
    found.runs_input = not operands or operands[0] in ("-", "/dev/stdin")
    found.touches = list(_operands(operands if in_place else operands[1:]))
    return found


def _runs_code(name: str, word: str, letters: str) -> bool:
    if name in ("perl", "ruby"):
        return re.match(rf"-(?![MmI])[a-zA-Z0]*[{letters}]", word) is not None
    return any(letter in word[1:] for letter in letters)


def _run_by(words: Sequence[str]) -> Writes:
    """`npx rimraf x`, `uv run python x`: what they run."""
    at = 1
    while at < len(words) and (words[at].startswith("-") or words[at] in ("run", "exec", "tool", "dlx", "x")):
        at += 1
    return writes(words[at:]) if at < len(words) else Writes()


def _shell(words: Sequence[str]) -> Writes:
    """The text of `sh -c` is listed by itself; a script is read, and may write what it is given."""
    operands = [word for word in words[1:] if not word.startswith(("-", "+"))]
    runs_text = any(word[:1] == "-" and word[1:2] != "-" and "c" in word for word in words[1:])
    return Writes(list(_operands(operands[2:] if runs_text else operands[1:])))


def _editor(words: Sequence[str]) -> Writes:
    commands = [
        word for word in words[1:] if word.startswith(("+", "-c", "--cmd")) or re.search(r"\bw(?:rite|q)?!?\s", word)
    ]
    return Writes(list(_operands(words[1:])), [*commands, *_after(words, "-c", "--cmd")], runs_input=True)


def _find(words: Sequence[str]) -> Writes:
    end = next((place for place, word in enumerate(words[1:], 1) if word[:1] in ("-", "(", "!")), len(words))
    tests = words[end:]
    found = [Touch(path) for option in ("-fprint", "-fprint0", "-fls", "-fprintf") for path in _next_to(tests, option)]
    runs = [name for option in ("-exec", "-execdir", "-ok", "-okdir") for name in _next_to(tests, option)]
    writing = any(posixpath.basename(name) not in READERS for name in runs)
    if "-delete" in tests or writing:
        found += [Touch(start, below=True, names=_find_names(tests)) for start in words[1:end] or ["."]]
    return Writes(found)


def _next_to(words: Sequence[str], option: str) -> Iterator[str]:
    return (words[place + 1] for place, word in enumerate(words[:-1]) if word == option)


def _find_names(tests: Sequence[str]) -> tuple[str, ...]:
    """The names that every branch of the expression asks for; none: one of them takes whatever there is."""
    branches: list[list[str]] = [[]]
    negated, before = False, ""
    for word in tests:
        if word in ("-o", "-or", ","):
            branches.append([])
        elif before in ("-name", "-iname", "-path", "-ipath", "-wholename") and not negated:
            path = word.rstrip("/*") if "path" in before or "whole" in before else word
            branches[-1].append(posixpath.basename(path) or "*")
        if word.startswith(("-exec", "-ok")):
            break
        negated = word in ("!", "-not") or (negated and word in ("-name", "-iname", "-path", "-ipath"))
        before = word
    return tuple(name for branch in branches for name in branch) if all(branches) else ()


def _fd(words: Sequence[str]) -> Writes:
    runs = any(word in ("-x", "-X", "--exec", "--exec-batch") for word in words)
    return Writes([Touch(".", below=True)] if runs and len(words) < 4 else [])


def _curl(words: Sequence[str]) -> Writes:
    said = _Words(
        words[1:],
        "oAbcCdDeEFHKmQrtTuUwxXyYz",
        "output output-dir cookie-jar dump-header trace stderr data header request url",
    )
    folder = next(iter(said.values("output-dir")), "")
    targets = said.values("o", "output", "c", "cookie-jar", "D", "dump-header", "trace", "stderr")
    if said.has("O", "remote-name", "remote-name-all", "J"):
        targets += [posixpath.basename(url) for url in [*said.operands, *said.values("url")]]
    return Writes([Touch(posixpath.join(folder, target) if folder else target) for target in targets])


def _wget(words: Sequence[str]) -> Writes:
    said = _Words(
        words[1:],
        "OPoaiBtTwQeU",
        "output-document directory-prefix output-file append-output input-file user-agent header",
    )
    targets = said.values("O", "output-document", "o", "output-file", "a", "append-output")
    folder = next(iter(said.values("P", "directory-prefix")), "")
    if not said.has("O", "output-document"):
        targets += [posixpath.join(folder, posixpath.basename(url)) for url in said.operands]
    return Writes([Touch(target) for target in targets])


def _tar(words: Sequence[str]) -> Writes:
    """Which members an archive has is not known: only named ones count, and a place to unpack that is ours."""
    first = words[1] if len(words) > 1 else ""
    rest = ["-" + first if first[:1] not in ("-", "") else first, *words[2:]]
    said = _Words(rest, "fCTXbgIHV" if first[:1] == "-" else "", "file directory exclude strip-components transform")
    archives, folders = said.values("f", "file"), said.values("C", "directory")
    members = list(said.operands)
    if first[:1] != "-" and "f" in first:
        archives, members = members[:1], members[1:]
        folders = list(_after(words, "-C", "--directory"))
        members = [member for member in members if member not in folders]
    if said.has("x", "extract", "get"):
        folder = folders[-1] if folders else "."
        inside = [Touch(posixpath.join(folder, member), below=True) for member in members]
        return Writes([Touch(folder, sources=(UNKNOWN,)), *inside])
    removes = [Touch(path, below=True) for path in members] if said.has("remove-files") else []
    return Writes([Touch(path) for path in archives if said.has("c", "create", "r", "u", "A")] + removes)


def _unzip(words: Sequence[str]) -> Writes:
    said = _Words(words[1:], "dxP")
    if said.has("l", "p", "t", "v", "Z"):
        return Writes()
    folder = next(iter(said.values("d")), ".")
    inside = [Touch(posixpath.join(folder, member), loose=True) for member in said.operands[1:]]
    return Writes([Touch(folder, sources=(UNKNOWN,)), *inside])


def _cpio(words: Sequence[str]) -> Writes:
    said = _Words(words[1:], "DFOEHMIC", "directory file")
    folder = next(iter(said.values("D", "directory")), ".")
    return Writes([Touch(folder, sources=(UNKNOWN,))] + [Touch(path) for path in said.operands + said.values("O", "F")])


def _patch(words: Sequence[str]) -> Writes:
    said = _Words(words[1:], "dioprBDFVYz", "directory input output strip")
    found = Writes([Touch(path) for path in [*said.operands[:1], *said.values("o", "output")]], runs_input=True)
    found.folder = next(iter(said.values("d", "directory")), None)
    return found


def _sort(words: Sequence[str]) -> Writes:
    return Writes([Touch(path) for path in _after(words, "-o", "--output")])


def _yq(words: Sequence[str]) -> Writes:
    in_place = any(
        word in ("-i", "--inplace", "--in-place") or re.fullmatch(r"-[a-zA-Z]*i[a-zA-Z]*", word) for word in words
    )
    return Writes(list(_operands(words[1:])) if in_place else [])


def _second(words: Sequence[str]) -> Writes:
    """uniq, xxd: the second operand is written."""
    return Writes([Touch(path) for path in _Words(words[1:], "fswclgos").operands[1:]])


def _billhook(words: Sequence[str]) -> Writes:
    """`init` and `install` write configuration; the verbs that are denied are looked for elsewhere."""
    if "init" in words[1:3]:
        return Writes([Touch(".billhook/hooks.yaml")])
    return Writes([Touch(".claude/settings.json")] if "install" in words[1:3] else [])


def _git(words: Sequence[str]) -> Writes:
    from billhook.builtins.git_writes import git_writes

    return git_writes(words)


_Reader = Callable[[Sequence[str]], Writes]


def _rows(names: str, reader: _Reader) -> dict[str, _Reader]:
    return dict.fromkeys(names.split(), reader)


_SPECIAL: Final[dict[str, _Reader]] = (
    _rows("rm unlink rmdir shred trash trash-put rimraf del srm wipe", _remove)
    | _rows("chmod chown chgrp chattr setfacl setfattr chcon chflags xattr", _attributes)
    | _rows("cp mv install ln rsync scp gcp gmv gln", _put)
    | _rows("awk gawk mawk nawk original-awk", _awk)
    | _rows("vi vim nvim view ex vimdiff gvim emacs ed nano pico joe micro", _editor)
    | _rows("tar gtar bsdtar", _tar)
    | _rows("uniq xxd", _second)
    | _rows("sed gsed", _sed)
    | {
        "mkdir": _mkdir, "dd": _dd, "find": _find, "fd": _fd, "curl": _curl, "wget": _wget, "unzip": _unzip,
        "cpio": _cpio, "patch": _patch, "sort": _sort, "yq": _yq, "git": _git, "billhook": _billhook,
    }
)  # fmt: skip
