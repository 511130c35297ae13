"""Which files a shell command writes, creates or removes, by its words: one row or one small reader for each program.

A program that is in no table may write every file it names; one in `READERS` writes none. Paths are as written, with
UNKNOWN for what only the shell will know.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from billhook.builtins import fetch_writes
from billhook.builtins.git_writes import git_writes
from billhook.builtins.listings import find_names
from billhook.builtins.reading_code import only_reads
from billhook.builtins.touch import Touch, Words, Writes, after
from billhook.unwrap import SHELLS, WRAPPERS

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
_SED_RUNS = re.compile(r"(?:^|[\d;{}$/])\s*e\s+\S")
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
            yield Touch(word)
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


def _attributes(words: Sequence[str]) -> Writes:
    """chmod, chown and the like; the mode among the operands names no file of ours."""
    below = any(word == "--recursive" or (word[:1] == "-" and word[1:2] != "-" and "R" in word) for word in words)
    operands = [word for word in words[1:] if not word.startswith("-") or "/" in word]
    # a folder that can't be entered any more hides what is in it
    return Writes(
        [Touch(word, below=below or re.match(r"\.\w", posixpath.basename(word)) is not None) for word in operands]
    )


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
            return Writes(code=list(words[2:]))
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
            if words[at:] and (unpacks := fetch_writes.python_unpacks(words[at:])):
                return unpacks
            reads = 2 if words[at : at + 1] == ("json.tool",) else 1
            return Writes(list(_operands(words[at + reads :])))
        elif word in ("-W", "-X", "-r", "--require", "-I", "-M"):
            at += 1
    operands = words[at:]
    if found.code and letters == "c" and all(map(only_reads, found.code)):
        return Writes()
    if found.code:
        found.touches = list(_operands(operands)) if in_place else []
        if not (name in ("perl", "ruby") and any(re.match(r"-(?![MmI])[a-zA-Z0]*[np]", word) for word in words[1:at])):
            found.code += operands  # the arguments that the code is given; with -n and -p they are read
        return found
    found.runs_input = not operands or operands[0] in ("-", "/dev/stdin")
    found.scripts = list(operands[:1])
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
    reads = any(word[:1] == "-" and word[1:2] != "-" and "s" in word for word in words[1:])
    scripts = [] if reads or runs_text else operands[:1]
    return Writes(list(_operands(operands if reads and not runs_text else operands[1:])), scripts=scripts)


def _editor(words: Sequence[str]) -> Writes:
    commands = [
        word for word in words[1:] if word.startswith(("+", "-c", "--cmd")) or re.search(r"\bw(?:rite|q)?!?\s", word)
    ]
    return Writes(list(_operands(words[1:])), [*commands, *after(words, "-c", "--cmd")], runs_input=True)


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
    runs = any(word in ("-x", "-X", "--exec", "--exec-batch") for word in words)
    return Writes([Touch(".", below=True)] if runs and len(words) < 4 else [])


def _sort(words: Sequence[str]) -> Writes:
    return Writes([Touch(path) for path in after(words, "-o", "--output")])


def _yq(words: Sequence[str]) -> Writes:
    in_place = any(
        word in ("-i", "--inplace", "--in-place") or re.fullmatch(r"-[a-zA-Z]*i[a-zA-Z]*", word) for word in words
    )
    return Writes(list(_operands(words[1:])) if in_place else [])


def _second(words: Sequence[str]) -> Writes:
    """uniq, xxd: the second operand is written."""
    return Writes([Touch(path) for path in Words(words[1:], "fswclgos").operands[1:]])


def _billhook(words: Sequence[str]) -> Writes:
    """`init` and `install` write configuration; the verbs that are denied are looked for elsewhere."""
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
    | _rows("awk gawk mawk nawk original-awk", _awk)
    | _rows("vi vim nvim view ex vimdiff gvim emacs ed nano pico joe micro", _editor)
    | _rows("tar gtar bsdtar jar", fetch_writes.tar)
    | _rows("uniq xxd", _second)
    | _rows("sed gsed", _sed)
    | _rows("mount umount", _mount)
    | _rows("at batch crontab", _input_runs)
    | _rows("apply_patch applypatch", _apply_patch)
    | {
        "mkdir": _mkdir, "dd": _dd, "find": _find, "fd": _fd, "sort": _sort, "yq": _yq, "git": git_writes,
        "curl": fetch_writes.curl, "wget": fetch_writes.wget, "unzip": fetch_writes.unzip, "cpio": fetch_writes.cpio,
        "patch": fetch_writes.patch, "billhook": _billhook,
    }
)  # fmt: skip
