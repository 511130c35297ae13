"""Programs that read files, what they print of them, and which of it is secret; and the files that programs list."""

import itertools
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from billhook.effects.effect import UNKNOWN, Effect, Weight
from billhook.effects.places import has_pattern
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import Call, Reader, readers


class ReaderSyntax(msgspec.Struct, frozen=True):
    """How a program reads files."""

    skip: int = 0  # operands before the files: a pattern, a program
    values: str = ""  # options that take the next word
    instead: str = ""  # options that take the place of the skipped operands: `grep -e x`
    before: str = ""  # words that may come before all other operands: `yq eval`
    only_first: bool = False  # the first file is read, others are not
    files: str = ""  # options whose values are files to read
    filters: str = ""  # options whose values select the files below a folder
    below: str = ""  # options with which folders are read; `always`
    quiet: str = ""  # options with which no content is printed; `always`
    output: str = ""  # options whose values are files that get the output; `second`: the second operand


_GREP: Final = ReaderSyntax(
    1, "-e -f -A -B -C -m -d -D --regexp --file --include --exclude --exclude-dir --max-count --label --context "
    "--after-context --before-context --binary-files",
    "-e -f --regexp --file", filters="--include", below="-r -R --recursive --dereference-recursive",
    quiet="-q --quiet --silent -c --count -l --files-with-matches -L --files-without-match",
)  # fmt: skip
_RG: Final = ReaderSyntax(
    1, "-e -f -g -t -T -A -B -C -m -j -d -E -M -r --regexp --file --glob --iglob --type --type-not --max-count --sort "
    "--max-depth --replace --context --ignore --max-filesize --max-columns --threads --color --colors --encoding "
    "--engine --pre --ignore-file --sortr --type-add --after-context --before-context",
    "-e -f --regexp --file --files", filters="-g --glob --iglob", below="always",
    quiet="-q --quiet -c --count --count-matches -l --files-with-matches --files",
)  # fmt: skip

_READING_TABLE: Final = {
    "cat tac gcat bat batcat nl rev fmt expand unexpand more most pr zcat gzcat bzcat xzcat zstdcat zless lesspipe "
    "hexdump hd pygmentize glow mdcat jless fx csvlook ccat lolcat view comm": ReaderSyntax(),
    "tr": ReaderSyntax(9),
    "head tail ghead gtail": ReaderSyntax(values="-n -c -s --lines --bytes --pid --sleep-interval"),
    "less": ReaderSyntax(values="-p -P -t -k -j -b -h"),
    "grep egrep fgrep ggrep zgrep": _GREP,
    "rg ag ack ugrep": _RG,
    "awk gawk mawk nawk": ReaderSyntax(1, "-F -v -f -e -i --assign --file --field-separator --source", "-f -e --file"),
    "jq gojq jaq": ReaderSyntax(
        1, "--indent -f --from-file -L --arg:2 --argjson:2 --slurpfile:2 --rawfile:2", "-f --from-file"),
    "yq tomlq xq": ReaderSyntax(
        1, "-p -o -f --file -I --indent --input-format --output-format", before="e eval ea eval-all", quiet="-i"),
    "cut": ReaderSyntax(values="-d -f -c -b --delimiter --fields --output-delimiter"),
    "sort gsort": ReaderSyntax(
        values="-k -t -o -S -T --key --field-separator --output", quiet="-c --check",
        output="-o --output"),
    "uniq": ReaderSyntax(values="-f -s -w", output="second"),
    "xxd": ReaderSyntax(values="-f -s -w -c -l -g -o -n", output="second"),
    "json.tool": ReaderSyntax(values="--indent", output="second"),
    "paste": ReaderSyntax(values="-d --delimiters"),
    "join column": ReaderSyntax(values="-1 -2 -o -j -a -s -c -e --separator"),
    "fold": ReaderSyntax(values="-w --width"),
    "diff colordiff sdiff icdiff delta difft": ReaderSyntax(
        values="-U -C -x -X -I -L -W --exclude --label", below="-r --recursive", quiet="-q --brief"),
    "cmp": ReaderSyntax(quiet="always"),
    "od": ReaderSyntax(values="-A -j -N -t -w -S"),
    "strings": ReaderSyntax(values="-n -t -e --bytes"),
    "base64 base32 gbase64": ReaderSyntax(values="-w -b -i -o --wrap --input", files="-i --input", output="-o"),
    "iconv": ReaderSyntax(values="-f -t -o --from-code --to-code --output", output="-o --output"),
    "openssl": ReaderSyntax(
        9, "-in -out -k -pass -passin -passout", files="-in", quiet="-noout -pubout", output="-out"
    ),
    "source .": ReaderSyntax(only_first=True, quiet="always"),
    "split": ReaderSyntax(values="-b -l -n -a -C --bytes --lines", only_first=True, quiet="always"),
}  # fmt: skip
READS: Final[Mapping[str, ReaderSyntax]] = {
    name: how for names, how in _READING_TABLE.items() for name in names.split()
}


_ECHO: Final = ("echo", "printf")
_NAME_ONLY = re.compile(r"\^(?:\[\^=\]|\[[\w-]+\]|\\w)[*+]=?")


def _read(call: Call) -> Iterator[Effect]:
    """cat, grep, jq and the like: the files that they name, and a secret that they are fed."""
    how = READS[call.command.name]
    call = call.with_values(how.values)
    files, written = _files(call, how)
    prints = call.command.shown and not written and not call.given(how.quiet) and not only_names(call)
    below = call.given(how.below)
    if not files and below and not (call.command.piped or call.command.stdin is not None or call.command.reads):
        files = ["."]
    for word in files:
        yield from read_file(call, word, prints=prints, below=below)
    for name in call.values(how.filters):
        if below and not name.startswith("!") and is_secret_file(name):
            yield call.effect("read-secret", name, scope="project", weight="normal" if prints else "light")
    if not files or "-" in files:
        yield from pass_on(call, prints=prints)
    for word in written[-1:]:
        yield from call.put(word, keeps=word in files)  # `sort -o x x` sorts in place


def _files(call: Call, how: ReaderSyntax) -> tuple[list[str], list[str]]:
    """The files that are read, and those that get the output."""
    words = call.operands
    if how.before and words and words[0] in how.before.split():
        words = words[1:]
    words = words if call.given(how.instead) else words[how.skip :]
    if how.output == "second":
        return words[:1], words[1:2]
    return (words[:1] if how.only_first else words) + call.values(how.files), call.values(how.output)


def pass_on(call: Call, *, prints: bool) -> Iterator[Effect]:
    """A secret on standard input, or among the words of `echo`, that a program prints."""
    if prints and "secret" in (call.command.origins if call.command.name in _ECHO else call.command.fed):
        yield call.effect("read-secret")


def only_names(call: Call) -> bool:
    """`cut -d= -f1 .env` and its like show the names of variables, not their values."""
    name, first = call.command.name, (call.operands or [""])[0]
    if name == "cut":
        return call.options.values("-d", "--delimiter") == ["="] and call.options.values("-f", "--fields") == ["1"]
    if "awk" in name:
        return call.options.values("-F") == ["="] and "".join(first.split()) in ("{print$1}", "/=/{print$1}")
    if name == "sed":
        return re.fullmatch(r"s(.)=\.\*\1[^&\\]*\1g?", first) is not None
    if name in ("grep", "egrep", "rg"):
        return call.has("-o", "--only-matching") and _NAME_ONLY.fullmatch(first) is not None
    return False


def read_file(call: Call, word: str, *, prints: bool, below: bool = False) -> Iterator[Effect]:
    """A file that is read; `prints`: its content would reach the model."""
    if word in ("-", "") or call.is_stream(word):
        return
    weight: Weight = "normal" if prints else "light"
    for effect in call.on_path("read", word):
        path = effect.target
        folder = below and call.world.fs.kind(path) != "file"
        if folder:
            effect = msgspec.structs.replace(effect, recursive=True, weight="normal")  # noqa: PLW2901
        yield effect
        if _is_secret(call, word, path) or (folder and _holds_secrets(path)):
            yield msgspec.structs.replace(effect, kind="read-secret", weight=weight)


def _holds_secrets(folder: str) -> bool:
    return is_secret_file(f"{folder}/_") or is_secret_file(f"{folder}/credentials")


def _is_secret(call: Call, word: str, path: str) -> bool:
    home = call.world.home
    if any(is_secret_file(each, home) for each in (*call.paths(word), path)):
        return True
    folder, name = posixpath.split(path)
    if not has_pattern(name) or has_pattern(folder) or UNKNOWN in path:
        return False
    found = (each for each in call.world.fs.names(folder) if each[0] != "." or name[0] == ".")
    return any(is_secret_file(f"{folder}/{each}", home) for each in found if fnmatchcase(each, name))


def _filter(call: Call) -> Iterator[Effect]:
    """`echo $(cat .env)`, `tee`: harmless unless what they print is a secret's content."""
    return pass_on(call, prints=call.command.shown)


ROWS: Final = ()
READERS: Final[Mapping[str, Reader]] = readers({" ".join(READS): _read, "echo printf tee gtee": _filter})


# the files that programs list, as patterns: `./**/*.pyc` for `find . -name '*.pyc'`


def listed(words: Sequence[str]) -> Iterator[str]:
    """The files that a command lists, as patterns: `./**/*.pyc` for `find . -name '*.pyc'`."""
    name = words[0]
    if name == "find":
        starts, names = find_starts(words), _found_names(words) or ("",)
        yield from (f"{start}/**/{each}".rstrip("/") for start in starts for each in names)
    elif name in ("fd", "fdfind"):
        yield from _fd_lists(words)
    elif name == "ls":
        yield from _ls_lists(words)
    elif name == "git" and tuple(words[1:2]) == ("ls-files",):
        named = [word for word in words[2:] if not word.startswith("-")]
        yield from (f"**/{each}" if "/" not in each else each for each in named or ["*"])
    elif name == "git" and tuple(words[1:2]) == ("grep",) and _lists_names(words):
        yield from _grep_lists(words[1:])
    elif name in ("grep", "rg", "egrep", "ag") and _lists_names(words):
        yield from _grep_lists(words)


def find_starts(words: Sequence[str]) -> list[str]:
    end = next((place for place, word in enumerate(words[1:], 1) if word[:1] in ("-", "(", "!")), len(words))
    options = [word for word in words[1:end] if word not in ("-H", "-L", "-P")]
    return options or ["."]


def find_names(tests: Sequence[str]) -> tuple[str, ...]:
    """The names that every branch of the expression requires; empty: one of them accepts any name."""
    branches: list[list[str]] = [[]]
    negated, before = False, ""
    for word in tests:
        if word in ("-o", "-or", ","):
            branches.append([])
        elif before in ("-name", "-iname", "-path", "-ipath", "-wholename") and not negated:
            path = word.rstrip("/*") if "path" in before or "whole" in before else word
            branches[-1].append(posixpath.basename(path) or "*")
        negated = word in ("!", "-not") or (negated and word in ("-name", "-iname", "-path", "-ipath"))
        before = word
    return tuple(name for branch in branches for name in branch) if all(branches) else ()


def _found_names(words: Sequence[str]) -> tuple[str, ...]:
    actions = [place for place, word in enumerate(words) if word.startswith(("-exec", "-ok", "-print"))]
    each = [find_names(find_branch(words, place)) for place in actions] or [find_names(words)]
    return tuple(name for names in each for name in names) if all(each) else ()


def find_branch(words: Sequence[str], action: int) -> list[str]:
    """The tests that lead to an action: those of its branch, and what is before the parentheses around it."""
    outer: list[tuple[list[str], list[str]]] = []  # of the parentheses that are open: their branch, all their words
    branch: list[str] = []
    group: list[str] = []
    for word in words[:action]:
        if word == "(":
            outer.append((branch, group))
            branch, group = [], []
        elif word == ")" and outer:
            inside = group
            branch, group = outer.pop()
            branch, group = branch + inside, group + inside
        elif word in ("-o", "-or", ","):
            branch, group = [], [*group, word]
        else:
            group.append(word)
            branch.append(word)
    return [word for before, _ in outer for word in before] + branch


_FD_VALUES: Final = frozenset(
    ["-t", "--type", "-d", "--max-depth", "-E", "--exclude", "-S", "--size", "-c", "--color", "-j", "--threads"]
)


def _fd_lists(words: Sequence[str]) -> Iterator[str]:
    operands, ending = [], ""
    for before, word in itertools.pairwise(words):
        if word in ("-x", "-X", "--exec", "--exec-batch"):
            break
        if before in ("-e", "--extension"):
            ending = f".{word}"
        elif before not in _FD_VALUES and not word.startswith("-"):
            operands.append(word)
    pattern = f"*{operands[0]}*" if operands and operands[0] != "." else "*"
    for start in operands[1:] or ["."]:
        yield f"{start}/**/{pattern.rstrip('*') if ending else pattern}{'*' if ending else ''}{ending}".replace(
            "**.", "*."
        )


def _ls_lists(words: Sequence[str]) -> Iterator[str]:
    operands = [word for word in words[1:] if not word.startswith("-")]
    flags = "".join(word[1:] for word in words[1:] if word.startswith("-") and not word.startswith("--"))
    yield from operands if "d" in flags else []
    if "d" not in flags:
        for operand in operands:
            yield operand if set(operand) & set("*?[") or "." in posixpath.basename(operand) else f"{operand}/*"
        if not operands:
            yield "*"
            if "a" in flags or "A" in flags:
                yield ".[!.]*"


def _lists_names(words: Sequence[str]) -> bool:
    letters = "".join(word[1:] for word in words[1:] if word[:1] == "-" and word[1:2] != "-")
    return "l" in letters or "L" in letters or "--files-with-matches" in words or "--files" in words


def _grep_lists(words: Sequence[str]) -> Iterator[str]:
    operands = [word for word in words[1:] if not word.startswith("-")]
    starts = operands[1:] or ["."]
    names = [word.partition("=")[2] for word in words if word.startswith("--include=")] or [""]
    for start in starts:
        plain = "." in posixpath.basename(start.rstrip("/")) and start not in (".", "..", "./")
        yield from [start] if plain else [f"{start.rstrip('/')}/**/{name}".rstrip("/") for name in names]
