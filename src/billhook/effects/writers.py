"""Which files a shell command writes, creates or removes, by its words: one row or one small reader for each program.

A program that is in no table may write every file it names; one in `READERS` writes none. Paths are as written, with
UNKNOWN for what only the shell will know.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from billhook.effects import archives
from billhook.effects.git import git_writes
from billhook.effects.listings import find_names, listed, only_reads, only_reads_elsewhere
from billhook.effects.programs import Touch, Words, Writes, after
from billhook.effects.script import UNKNOWN
from billhook.effects.wrappers import SHELLS, WRAPPERS, mounts

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
READERS: Final = frozenset(_READERS.split())
"""Programs that write none of the files they name; what their redirections write is seen elsewhere."""

_CHECKERS: Final = frozenset({"ruff", "black", "prettier", "eslint", "isort"})
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
    "osascript": "e", "pwsh": "c", "powershell": "c", "tclsh": "", "bun": "e", "deno": "", "expect": "c",
}  # fmt: skip
"""Interpreters besides Python, and the letters of the options that are followed by code."""
_OUTPUT = re.compile(r"--[\w-]*(?:out|dest|log|report|write|save|dump|target)[\w-]*=(.+)", re.S)
_CONFIG = re.compile(r"--?(?:c|config|settings|conf|cfg|rc|rcfile|config-file)")
_SED_RUNS = re.compile(r"(?:^|[\d;{}$/])\s*e\s+\S|s([^\w\s])(?:\\.|(?!\1).)*\1(?:\\.|(?!\1).)*\1[gpiIMm\d]*e", re.S)
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
        return Writes([Touch(value) for value in after(words, "-o", "--output")], folder=_chdir(name, words))
    if name in _WITH_OUTPUT:
        return _sort(words)
    return Writes() if name in READERS else unknown_program(words)


def is_python(name: str) -> bool:
    """Whether a program is a Python interpreter."""
    return _PYTHON.fullmatch(name) is not None


def is_known(word: str) -> bool:
    """Whether a word is a program that writes or runs something: a list that begins with it is a command."""
    name = posixpath.basename(word)
    return name in _SPECIAL or name in _CODE or name in SHELLS or name in WRAPPERS or is_python(name)


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
            yield Touch(word, maybe=before not in ("-o", "-out", "--out", "--output", "--outfile"))
        before = word


def _chdir(name: str, words: Sequence[str]) -> str | None:
    """Where `env -C x` and `sudo -D x` run their command."""
    short = {"env": "-C", "sudo": "-D"}.get(name)
    return next(after(words, short, "--chdir"), None) if short else None


def _remove(words: Sequence[str]) -> Writes:
    said = Words(words[1:])
    below = said.has("r", "R", "recursive") or posixpath.basename(words[0]) != "rm"
    itself = posixpath.basename(words[0]) != "shred"
    return Writes([Touch(path, below=below, itself=itself) for path in said.operands])


def _named(words: Sequence[str]) -> Writes:
    """truncate, tee, touch, gzip: every file that is named is written."""
    if {"-c", "--stdout", "--to-stdout"} & set(words) and posixpath.basename(words[0]) not in ("touch", "truncate"):
        return Writes()
    return Writes(_written(words[1:]))


def _written(words: Sequence[str]) -> list[Touch]:
    return [msgspec.structs.replace(touch, maybe=False) for touch in _operands(words)]


def _attributes(words: Sequence[str]) -> Writes:
    """chmod, chown and the like; the mode among the operands names no file of ours.

    A folder that can't be entered any more hides what is in it, and one that others may write to is not trusted."""
    below = any(word == "--recursive" or (word[:1] == "-" and word[1:2] != "-" and "R" in word) for word in words)
    operands = [word for word in words[1:] if not word.startswith("-") or "/" in word]
    if posixpath.basename(words[0]) != "chmod":
        below = below or posixpath.basename(words[0]) not in ("setfattr", "xattr")
    else:
        below = below or any(map(closes, [*words[1:2], *operands[:1]])) or any(map(_closing_option, words[1:]))
    return Writes([Touch(word, below=below) for word in operands])


def _closing_option(word: str) -> bool:
    """`-rwx` is a mode, and what `--reference` says is not known."""
    return word.startswith("--ref") or re.fullmatch(r"-[rwxXst,]+", word) is not None


def closes(mode: str) -> bool:
    """Whether a mode keeps the owner out of a folder, or lets everybody write to it."""
    if re.fullmatch(r"[0-7]{1,5}", mode):
        bits = int(mode, 8)
        return bits & 0o500 != 0o500 or bits & 0o002 != 0
    for who, sign, what in re.findall(r"([ugoa]*)([-+=])([rwxXstugo]*)", mode):
        owner = not who or "u" in who or "a" in who
        if sign == "+":
            if "w" in what and ("o" in who or "a" in who):
                return True
        elif sign == "-":
            if owner and set("rx") & set(what):
                return True
        elif owner and not ({"r"} < set(what) and set("xX") & set(what)):
            return True
    return False


def _mount(words: Sequence[str]) -> Writes:
    return Writes([Touch(word, below=True) for word in words[1:] if not word.startswith("-")])


def _input_runs(words: Sequence[str]) -> Writes:
    """at, batch, crontab: they run what they read."""
    return Writes(list(_operands(words[1:])), runs_input=True)


def _apply_patch(words: Sequence[str]) -> Writes:
    return Writes(code=list(words[1:]), runs_input=True)


def _mkdir(words: Sequence[str]) -> Writes:
    return Writes([Touch(path, folder=True) for path in Words(words[1:], "mZ", "mode context").operands])


def _put(words: Sequence[str]) -> Writes:
    """cp, mv, install, ln, rsync, scp: into the last operand, or into what `-t` names; mv takes its sources away."""
    name = posixpath.basename(words[0])
    valued = {"install": "mogtS", "rsync": "efBT", "scp": "cFiJloPSX"}.get(name, "tS")
    said = Words(
        words[1:], valued, "target-directory suffix mode owner group rsh exclude include filter backup-dir temp-dir"
    )
    if name == "install" and said.has("d", "directory"):
        hides = any(map(closes, said.values("m", "mode")))
        return Writes([Touch(path, folder=not hides, below=hides) for path in said.operands])
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
        found += [Touch(source, below=name == "mv", itself=name == "mv", maybe=name == "ln") for source in sources]
        if name == "ln":  # what a symbolic link names is seen from the link's folder
            found += [
                Touch(f"{posixpath.dirname(target)}/{source}", maybe=True)
                for target in targets
                if "/" in target
                for source in sources
                if source[:1] not in "/~"
            ]
    links = [(source, target) for source in sources for target in targets] if name == "ln" else []
    return Writes(found, links=links)


def _dd(words: Sequence[str]) -> Writes:
    return Writes([Touch(word[3:]) for word in words[1:] if word.startswith("of=")])


def _sed(words: Sequence[str]) -> Writes:
    said = Words(
        [word for word in words[1:] if not re.match(r"-[nErsuz]*i", word)], "efl", "expression file line-length"
    )
    in_place = any(re.match(r"-[nErsuz]*i|--in-p", word) for word in words[1:])
    scripts = said.values("e", "expression")
    files = said.operands if scripts or said.has("f", "file") else said.operands[1:]
    scripts = scripts or said.operands[:1]
    found = [Touch(target[1]) for script in scripts for target in _SED_WRITES.finditer(script)]
    code = [script for script in scripts if _SED_RUNS.search(script)]
    return Writes(found + [Touch(file) for file in files if in_place], code, scripts=said.values("f", "file"))


def _awk(words: Sequence[str]) -> Writes:
    said = Words(words[1:], "fFvieEl", "file field-separator assign include source")
    in_place = any("inplace" in value for value in said.values("i", "include"))
    programs = [*said.operands[:1], *said.values("e", "source")]
    code = [program for program in programs if re.search(r"[>|]|system", program)]  # others only print
    scripts = said.values("f", "file")
    return Writes([Touch(path) for path in said.operands[1:] if in_place], code, scripts=scripts)


def _interpreter(words: Sequence[str], letters: str) -> Writes:
    """`python x.py a`: x.py is read, a may be written. `python -c '...'`, `node -e '...'`, `perl -i`: as they say."""
    name = posixpath.basename(words[0])
    found, at = Writes(), 1
    if name in ("deno", "bun") and words[1:2]:
        at = 2
        if words[1] in ("eval", "repl"):
            return Writes(code=[] if all(map(only_reads_elsewhere, words[2:])) else list(words[2:]))
    in_place = name in ("perl", "ruby") and any(re.match(r"-(?![MmI])[a-zA-Z0-9]*i", word) for word in words[1:])
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
            if words[at:] and (unpacks := archives.python_unpacks(words[at:])):
                return unpacks
            if words[at : at + 1] in (("venv",), ("virtualenv",)):
                return _venv(words[at:])
            reads = 2 if words[at : at + 1] == ("json.tool",) else 1
            return Writes(list(_operands(words[at + reads :])))
        elif word in ("-W", "-X", "-r", "--require", "-I", "-M"):
            at += 1
    operands = words[at:]
    judge = only_reads if is_python(name) else only_reads_elsewhere
    if found.code and all(map(judge, found.code)):
        return Writes()
    if found.code:
        found.touches = _written(operands) if in_place else []
        if not (name in ("perl", "ruby") and any(re.match(r"-(?![MmI])[a-zA-Z0]*[np]", word) for word in words[1:at])):
            found.code += operands  # the arguments that the code is given; with -n and -p they are read
        return found
    found.runs_input = not operands or operands[0] in ("-", "/dev/stdin")
    found.scripts = list(operands[:1])
    found.touches = _written(operands) if in_place else list(_operands(operands[1:]))
    return found


def _venv(words: Sequence[str]) -> Writes:
    """`python -m venv --clear x`, `uv venv --clear`: what was there is gone."""
    operands = [word for word in Words(words[1:], "p", "python prompt seed").operands if word != "venv"]
    return Writes([Touch(path, below=True) for path in operands or [".venv"]] if {"--clear", "-c"} & set(words) else [])


def _uv(words: Sequence[str]) -> Writes:
    return (
        _venv(words[1:])
        if words[1:2] == ("venv",)
        else _run_by(words)
        if words[1:2] in _UV_RUNS
        else unknown_program(words)
    )


_UV_RUNS: Final = (("run",), ("tool",))


def _make(words: Sequence[str]) -> Writes:
    """The rules of make are read from a file, from standard input or from an option."""
    files = list(after(words, "-f", "--file"))
    return Writes(code=list(after(words, "-E", "--eval")), runs_input=not {"-", "/dev/stdin"}.isdisjoint(files))


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
    reads = any(word[:1] == "-" and word[1:2] != "-" and "s" in word for word in words[1:])
    scripts = [] if reads or runs_text else operands[:1]
    return Writes(list(_operands(operands if reads and not runs_text else operands[1:])), scripts=scripts)


def _editor(words: Sequence[str]) -> Writes:
    commands = [
        word for word in words[1:] if word.startswith(("+", "-c", "--cmd")) or re.search(r"\bw(?:rite|q)?!?\s", word)
    ]
    commands += [*after(words, "-c", "--cmd"), *after(words, "-eval", "--eval")]
    return Writes(_written(words[1:]), commands, runs_input=True)


def _find(words: Sequence[str]) -> Writes:
    end = next((place for place, word in enumerate(words[1:], 1) if word[:1] in ("-", "(", "!")), len(words))
    tests = words[end:]
    found = [Touch(path) for option in ("-fprint", "-fprint0", "-fls", "-fprintf") for path in _next_to(tests, option)]
    runs = [name for option in ("-exec", "-execdir", "-ok", "-okdir") for name in _next_to(tests, option)]
    writing = any(posixpath.basename(name) not in READERS for name in runs)
    if "-delete" in tests or writing:
        found += [Touch(start, below=True, names=find_names(tests)) for start in words[1:end] or ["."]]
    return Writes(found)


def _next_to(words: Sequence[str], option: str) -> Iterator[str]:
    return (words[place + 1] for place, word in enumerate(words[:-1]) if word == option)


def _fd(words: Sequence[str]) -> Writes:
    """`fd -e pyc -x rm`: what it finds is given to a program."""
    at = next((place for place, word in enumerate(words) if re.match(r"-[xX]|--exec(?:-batch)?(?:=|$)", word)), 0)
    runs = re.sub(r"-[xX]|--exec(?:-batch)?=?", "", words[at], count=1) or " ".join(words[at + 1 : at + 2])
    writing = at and posixpath.basename(runs) not in READERS and posixpath.basename(runs) not in _CHECKERS
    return Writes(listed(words[:at]) if writing else [])


def _sort(words: Sequence[str]) -> Writes:
    return Writes([Touch(path) for path in after(words, "-o", "--output")])


def _yq(words: Sequence[str]) -> Writes:
    in_place = any(
        word in ("-i", "--inplace", "--in-place") or re.fullmatch(r"-[a-zA-Z]*i[a-zA-Z]*", word) for word in words
    )
    return Writes(_written(words[1:]) if in_place else [])


def _second(words: Sequence[str]) -> Writes:
    """uniq, xxd: the second operand is written."""
    return Writes([Touch(path) for path in Words(words[1:], "fswclgos").operands[1:]])


def _zip(words: Sequence[str]) -> Writes:
    """The archive is written; `-m` takes away what is put into it."""
    said = Words(words[1:], "bnPstxi", "temp-path")
    archives = [Touch(name) for each in said.operands[:1] for name in (each, each + ".zip")]
    return Writes(archives + [Touch(path, below=True) for path in said.operands[1:] if said.has("m", "move")])


def _seven_zip(words: Sequence[str]) -> Writes:
    verb, rest = " ".join(words[1:2]), [word for word in words[2:] if not word.startswith("-")]
    folder = next((word[2:] for word in words if word.startswith("-o")), ".")
    if verb in ("a", "u", "d", "rn"):
        taken = [Touch(path, below=True) for path in rest[1:] if "-sdel" in words]
        return Writes([Touch(path) for path in rest[:1]] + taken)
    return Writes([Touch(folder, sources=(UNKNOWN,))], into=folder) if verb in ("x", "e") else Writes()


def _check(words: Sequence[str]) -> Writes:
    """prettier, black, ruff: with `--check` they write nothing."""
    return Writes() if {"--check", "check", "-c"} & set(words) and "--fix" not in words else unknown_program(words)


def _pip(words: Sequence[str]) -> Writes:
    """`pip install --target x`: packages are put there; whether they are ours is looked at elsewhere."""
    said = Words(words[1:], "trce", "target prefix root requirement constraint editable python index-url")
    places = said.values("t", "target", "prefix", "root") if "install" in words[1:4] else []
    return Writes([Touch(f"{place}/{name}") for place in places for name in ("billhook", "sitecustomize.py")])


def _docker(words: Sequence[str]) -> Writes:
    """`docker cp x:/a b` writes b; a folder of ours that is given to a container may be written there."""
    if "cp" in words[1:4]:
        return Writes([Touch(words[-1], sources=tuple(words[-2:-1]))] if ":" not in words[-1] else [])
    built = [*after(words, "-o", "--output")] if {"build", "bake"} & set(words[1:4]) else []
    found = [Touch(source) for source, _, writable in mounts(words) if writable]
    return Writes(found + [Touch(re.sub(r"(?:.*,)?dest=([^,]*).*", r"\1", place), below=True) for place in built])


def _billhook(words: Sequence[str]) -> Writes:
    """`init` and `install` write configuration; the verbs that are denied are looked for elsewhere."""
    if {"--help", "-h"} & set(words):
        return Writes()
    if "init" in words[1:3]:
        return Writes([Touch(".billhook/hooks.yaml")])
    return Writes([Touch(".claude/settings.json")] if "install" in words[1:3] else [])


_Reader = Callable[[Sequence[str]], Writes]


def _rows(names: str, reader: _Reader) -> dict[str, _Reader]:
    return dict.fromkeys(names.split(), reader)


_SPECIAL: Final[dict[str, _Reader]] = (
    _rows("rm unlink rmdir shred trash trash-put rimraf del srm wipe", _remove)
    | _rows("chmod chown chgrp chattr setfacl setfattr chcon chflags xattr", _attributes)
    | _rows("cp mv install ln rsync scp gcp gmv gln", _put)
    | _rows("truncate tee touch sponge gzip gunzip bzip2 xz zstd lz4 strip upx patchelf chrpath objcopy", _named)
    | _rows("split csplit fallocate setcap dos2unix unix2dos install_name_tool codesign", _named)
    | _rows("prettier black ruff isort gofmt rustfmt clang-format biome eslint", _check)
    | _rows("pip pip3 easy_install", _pip)
    | _rows("docker podman nerdctl docker-compose kubectl", _docker)
    | _rows("7z 7za 7zz", _seven_zip)
    | _rows("make gmake", _make)
    | _rows("awk gawk mawk nawk original-awk", _awk)
    | _rows("vi vim nvim view ex vimdiff gvim emacs ed nano pico joe micro", _editor)
    | _rows("tar gtar bsdtar jar", archives.tar)
    | _rows("uniq xxd", _second)
    | _rows("sed gsed", _sed)
    | _rows("mount umount bindfs sshfs mergerfs", _mount)
    | _rows("at batch crontab", _input_runs)
    | _rows("apply_patch applypatch", _apply_patch)
    | {
        "mkdir": _mkdir, "dd": _dd, "find": _find, "fd": _fd, "fdfind": _fd, "zip": _zip, "sort": _sort, "yq": _yq,
        "git": git_writes, "uv": _uv, "virtualenv": _venv,
        "curl": archives.curl, "wget": archives.wget, "unzip": archives.unzip, "cpio": archives.cpio,
        "patch": archives.patch, "billhook": _billhook,
    }
)  # fmt: skip
