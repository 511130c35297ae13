"""Programs that read files, what they print of them, and which of it is secret."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from billhook.effects.effect import UNKNOWN, Effect, Weight
from billhook.effects.places import has_pattern
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import Call, word_set

_HARMLESS_DEVICES: Final = tuple(
    word_set("""
    null zero full random urandom tty pts/ ptmx std fd/ shm/ console tcp/ udp/ cu. dri/ snd/ video input/ kvm net/ log
    fuse usb serial i2c spi gpio kmsg mqueue
    """)
)


def is_device(path: str) -> bool:
    """Whether writing to a path reaches a disk, the memory or the kernel's emergency keys; terminals don't count."""
    if path in ("/proc/sysrq-trigger", "/proc/kcore"):
        return True
    return path.startswith("/dev/") and len(path) > 5 and not path[5:].startswith(_HARMLESS_DEVICES)


def is_stream(call: Call, word: str) -> bool:
    """Whether a word is `/dev/null`, a terminal or a descriptor: what is written there is kept nowhere."""
    return any(
        path.startswith("/dev/") and not is_device(path) and not path.startswith("/dev/shm/")
        for path in call.paths(word)
    )


class Reading(msgspec.Struct, frozen=True):
    """How a program reads files."""

    skip: int = 0  # operands before the files: a pattern, a program
    values: str = ""  # options that take the next word
    instead: str = ""  # options that take the place of the skipped operands: `grep -e x`
    files: str = ""  # options whose values are files to read
    filters: str = ""  # options whose values say which files below a folder are read
    below: str = ""  # options with which folders are read; `always`
    quiet: str = ""  # options with which no content is printed; `always`


_GREP: Final = Reading(
    1, "-e -f -A -B -C -m -d -D --regexp --file --include --exclude --exclude-dir --max-count --label --context "
    "--after-context --before-context --binary-files",
    "-e -f --regexp --file", filters="--include", below="-r -R --recursive --dereference-recursive",
    quiet="-q --quiet --silent -c --count -l --files-with-matches -L --files-without-match",
)  # fmt: skip
_RG: Final = Reading(
    1, "-e -f -g -t -T -A -B -C -m -j -d -E -M -r --regexp --file --glob --iglob --type --type-not --max-count --sort "
    "--max-depth --replace --context --ignore --max-filesize --max-columns --threads --color --colors --encoding "
    "--engine --pre --ignore-file --sortr --type-add --after-context --before-context",
    "-e -f --regexp --file --files", filters="-g --glob --iglob", below="always",
    quiet="-q --quiet -c --count --count-matches -l --files-with-matches --files",
)  # fmt: skip

_READING_TABLE: Final = {
    "cat tac gcat bat batcat nl rev fmt expand unexpand more most pr zcat gzcat bzcat xzcat zstdcat zless lesspipe "
    "hexdump hd pygmentize glow mdcat jless fx csvlook ccat lolcat view comm": Reading(),
    "tr": Reading(9),
    "head tail ghead gtail": Reading(values="-n -c -s --lines --bytes --pid --sleep-interval"),
    "less": Reading(values="-p -P -t -k -j -b -h"),
    "grep egrep fgrep ggrep zgrep": _GREP,
    "rg ag ack ugrep": _RG,
    "awk gawk mawk nawk": Reading(1, "-F -v -f -e -i --assign --file --field-separator --source", "-f -e --file"),
    "jq gojq jaq": Reading(1, "--indent -f --from-file -L", "-f --from-file"),
    "yq tomlq xq": Reading(1, "-p -o -f --file -I --indent --input-format --output-format", quiet="-i"),
    "cut": Reading(values="-d -f -c -b --delimiter --fields --output-delimiter"),
    "sort gsort": Reading(values="-k -t -o -S -T --key --field-separator --output", quiet="-o -c --output --check"),
    "paste": Reading(values="-d --delimiters"),
    "join column": Reading(values="-1 -2 -o -j -a -s -c -e --separator"),
    "fold": Reading(values="-w --width"),
    "diff colordiff sdiff icdiff delta difft": Reading(
        values="-U -C -x -X -I -L -W --exclude --label", below="-r --recursive", quiet="-q --brief"),
    "cmp": Reading(quiet="always"),
    "od": Reading(values="-A -j -N -t -w -S"),
    "strings": Reading(values="-n -t -e --bytes"),
    "base64 base32 gbase64": Reading(values="-w -b -i -o --wrap --input", files="-i --input", quiet="-o"),
    "iconv": Reading(values="-f -t -o --from-code --to-code", quiet="-o"),
    "openssl": Reading(9, "-in -out -k -pass -passin -passout", files="-in", quiet="-out -noout -pubout"),
    "source .": Reading(quiet="always"),
    "split": Reading(values="-b -l -n -a -C --bytes --lines", quiet="always"),
}  # fmt: skip
READS: Final[Mapping[str, Reading]] = {name: how for names, how in _READING_TABLE.items() for name in names.split()}


_ECHO: Final = ("echo", "printf")
_NAME_ONLY = re.compile(r"\^(?:\[\^=\]|\[[\w-]+\]|\\w)[*+]=?")


def read(call: Call) -> Iterator[Effect]:
    """cat, grep, jq and the like: the files that they name, and a secret that they are fed."""
    how = READS[call.command.name]
    call = _plain(call).with_values(how.values)
    files = call.operands if _any(call, how.instead) else call.operands[how.skip :]
    files = files[:1] if call.command.name in ("source", ".", "split") else files
    files = files + call.options.values(*how.files.split())
    prints = _prints(call, how)
    below = how.below == "always" or _any(call, how.below)
    if not files and below and not _has_input(call):
        files = ["."]
    for word in files:
        yield from read_file(call, word, prints=prints, below=below)
    for name in call.options.values(*how.filters.split()):
        if below and not name.startswith("!") and is_secret_file(name):
            yield call.effect("read-secret", name, scope="project", weight="normal" if prints else "light")
    if not files or "-" in files:
        yield from pass_on(call, prints=prints)


def _plain(call: Call) -> Call:
    """`jq --arg NAME VALUE` and `yq eval` without these words, so that the filter is the first operand."""
    words = call.command.args
    if call.command.name == "yq" and words[:1] and words[0] in ("e", "eval", "ea", "eval-all"):
        return call.with_words(words[1:])
    if call.command.name not in ("jq", "gojq", "jaq"):
        return call
    found, rest = [], iter(words)
    for word in rest:
        if word in ("--arg", "--argjson", "--slurpfile", "--rawfile"):
            next(rest, ""), next(rest, "")
        else:
            found.append(word)
    return call.with_words(tuple(found))


def pass_on(call: Call, *, prints: bool) -> Iterator[Effect]:
    """A secret on standard input, or among the words of `echo`, that a program prints."""
    if prints and "secret" in (call.command.origins if call.command.name in _ECHO else call.command.fed):
        yield call.effect("read-secret")


def echo(call: Call) -> Iterator[Effect]:
    """`echo $(cat .env)`: harmless unless its words are a secret's content."""
    return pass_on(call, prints=call.command.shown)


def _prints(call: Call, how: Reading) -> bool:
    """Whether what is read reaches the model."""
    quiet = how.quiet == "always" or _any(call, how.quiet)
    return call.command.shown and not quiet and not only_names(call)


def _any(call: Call, options: str) -> bool:
    return bool(options) and call.has(*options.split())


def _has_input(call: Call) -> bool:
    return call.command.piped or call.command.stdin is not None or bool(call.command.reads)


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
    if word in ("-", "") or is_stream(call, word):
        return
    weight: Weight = "normal" if prints else "light"
    for effect in call.on_path("read", word):
        path = effect.target
        folder = below and call.world.fs.kind(path) != "file"
        if folder:
            effect = msgspec.structs.replace(effect, recursive=True, weight="normal")  # noqa: PLW2901
        yield effect
        if _is_secret(call, word, path) or (folder and is_secret_file(path + "/_")):
            yield msgspec.structs.replace(effect, kind="read-secret", weight=weight)


def _is_secret(call: Call, word: str, path: str) -> bool:
    """Whether a word names a secret file, a link to one, or a pattern that matches one."""
    home = call.world.home
    if any(is_secret_file(each, home) for each in (*call.paths(word), path)):
        return True
    folder, name = posixpath.split(path)
    if not has_pattern(name) or has_pattern(folder) or UNKNOWN in path:
        return False
    found = (each for each in call.world.fs.names(folder) if each[0] != "." or name[0] == ".")
    return any(is_secret_file(f"{folder}/{each}", home) for each in found if fnmatchcase(each, name))
