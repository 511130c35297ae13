"""Programs that delete, overwrite, write, move, re-permission or read files, and those that wipe disks."""

import functools
import itertools
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from billhook.effects.effect import Effect, Weight
from billhook.effects.families.sed import sed_script
from billhook.effects.listings import find_names
from billhook.effects.places import has_pattern
from billhook.effects.script import UNKNOWN
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import Call, Reader, Row, basename, word_set

_LVM: Final = "lvremove|vgremove|pvremove|lvreduce|vgreduce"
_ERASE_DRIVE: Final = "--security-erase --security-erase-enhanced --sanitize-block-erase --trim-sector-ranges"
_PARTITION: Final = "mklabel mktable mkpart rm resizepart resize rescue"

ROWS: Final[tuple[Row, ...]] = (
    Row("rm|grm", "delete", files=True, recursive="-r -R --recursive"),
    Row("unlink|rmdir|grmdir", "delete", files=True),
    Row("srm|wipe", "delete", files=True, recursive="-r -R --recursive"),
    Row("rimraf|del-cli|del", "delete", files=True, recursive="always", dry="--dry-run -d"),
    Row("trash|trash-put|rmtrash", "delete", files=True, weight="light"),
    Row("gio trash", "delete", files=True, weight="light"),
    Row("touch|gtouch", "write", files=True, values="-d -t -r --date --time --reference"),
    Row("mkdir|gmkdir", "write", files=True, values="-m --mode"),
    Row("mkfifo|mktemp", "write", files=True, values="-m --mode -p --suffix --tmpdir"),
    Row("fallocate", "write", files=True, values="-l -o --length --offset"),
    # compressed or rewritten in place: the content is kept in another form
    Row("gzip|gunzip|bzip2|bunzip2|xz|unxz|lzma|zstd|unzstd|lz4|compress|uncompress|pigz|brotli", "write", files=True,
        dry="-c --stdout --to-stdout -t --test -l --list -k --keep", values="-S --suffix -o -T"),
    Row("strip|dos2unix|unix2dos|upx|patchelf|install_name_tool|codesign|chrpath", "write", files=True, values="-o -s"),
    Row("prettier", "write", files=True, needs="--write -w"),
    Row("eslint|stylelint|markdownlint|oxlint", "write", files=True, needs="--fix", dry="--fix-dry-run"),
    Row("gofmt|goimports|gofumpt|shfmt", "write", files=True, needs="-w"),
    Row("clang-format|autopep8|yapf|autoflake", "write", files=True, needs="-i --in-place"),
    Row("black|isort|rustfmt|stylua|swiftformat", "write", files=True,
        dry="--check --diff --check-only -c --lint --dryrun", values="-l --line-length -t --config --edition"),
    Row("ruff format", "write", files=True, dry="--check --diff", values="--config"),
    Row("ruff check", "write", files=True, needs="--fix", dry="--diff", values="--config --select --ignore"),
    Row("biome|dprint check|format|lint|fmt", "write", files=True, needs="--write --apply --fix"),
    Row("yq", "write", "last", files=True, needs="-i --inplace --in-place"),
    Row("crudini", "write", files=True, needs="--set --del --merge"),
    Row("rename|prename", "write", files=True, dry="-n --nono --no-act"),
    Row("ed|ex", "write", files=True, values="-p -s -c"),
    Row("vi|vim|nvim|emacs|nano", "write", files=True, values="-c --cmd -u -S -s --eval -l --load", dry="-R"),
    # disks: what they hold is lost, whatever their name
    Row("wipefs", "device", needs="-a --all -o --offset", dry="-n --no-act", scope="system"),
    Row("fdisk|cfdisk|gdisk|cgdisk", "device", dry="-l --list -s -x --list-details -V -v", scope="system"),
    Row("sfdisk", "device", dry="-l --list -d --dump -J --json -s --show-size -F -V --verify -n --no-act -T",
        scope="system"),
    Row("sgdisk", "device", needs="-Z --zap-all -z --zap -o --clear -d --delete -n --new -G -g -R -l --load-backup",
        dry="-P --pretend", scope="system"),
    Row("parted", "device", needs=_PARTITION, scope="system"),
    Row("blkdiscard|grub-install|grub2-install", "device", scope="system"),
    Row("cryptsetup erase|luksErase|luksFormat|luksRemoveKey|luksKillSlot|reencrypt", "device", scope="system",
        values="-c --cipher -s --key-size -h --hash --type -d --key-file", dry="--test-passphrase"),
    Row(_LVM, "device", dry="-t --test", scope="system"),
    Row("zpool destroy|labelclear", "device", scope="system"),
    Row("zfs destroy|rollback", "device", dry="-n --dryrun", scope="system"),
    Row("mdadm", "device", needs="--zero-superblock --stop -S", scope="system"),
    Row("btrfs subvolume|sub delete|del", "device", scope="system"),
    Row("hdparm", "device", needs=_ERASE_DRIVE, scope="system"),
    Row("nvme format|sanitize|delete-ns|write-zeroes", "device", scope="system"),
    Row("badblocks", "device", needs="-w", scope="system"),
    Row("flashrom", "device", needs="-w -E --write --erase", scope="system"),
    Row("diskutil eraseDisk|eraseVolume|partitionDisk|zeroDisk|randomDisk|secureErase", "device", scope="system"),
    Row("diskutil apfs|cs deleteContainer|deleteVolume|eraseVolume|delete", "device", scope="system"),
    Row("losetup", "device", needs="-d -D --detach --detach-all", scope="system", weight="light"),
    Row("swapoff", "device", scope="system", weight="light"),
)  # fmt: skip

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


def put_file(call: Call, word: str, *, emptied: bool = False, keeps: bool = False) -> Iterator[Effect]:
    """A file that a program fills: `overwrite` where one is there already, unless the program keeps its content."""
    for effect in call.on_path("write", word):
        path = effect.target
        if is_device(path):
            yield call.effect("device", path, scope="system", certain=effect.certain)
        elif not path.startswith("/dev/") or path.startswith("/dev/shm/"):
            there = emptied or UNKNOWN in path or has_pattern(path) or call.world.fs.kind(path) not in ("", "dir")
            yield msgspec.structs.replace(effect, kind="overwrite" if there and not keeps else "write")


# Reading.


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
    1, "-e -f -A -B -C -m -d -D --regexp --file --include --exclude --exclude-dir --max-count --label --context",
    "-e -f --regexp --file", filters="--include", below="-r -R --recursive --dereference-recursive",
    quiet="-q --quiet --silent -c --count -l --files-with-matches -L --files-without-match",
)  # fmt: skip
_RG: Final = Reading(
    1, "-e -f -g -t -T -A -B -C -m -j -d -E -M -r --regexp --file --glob --iglob --type --type-not --max-count --sort "
    "--max-depth --replace --context --ignore", "-e -f --regexp --file --files", filters="-g --glob --iglob",
    below="always", quiet="-q --quiet -c --count --count-matches -l --files-with-matches --files",
)  # fmt: skip

_READING_TABLE: Final = {
    "cat tac gcat bat batcat nl rev fmt expand unexpand more most pr zcat gzcat bzcat xzcat zstdcat zless lesspipe "
    "hexdump hd pygmentize glow mdcat jless fx csvlook ccat lolcat view pbcopy": Reading(),
    "head tail ghead gtail": Reading(values="-n -c -s --lines --bytes --pid --sleep-interval"),
    "less": Reading(values="-p -P -t -k -j -b -h"),
    "grep egrep fgrep ggrep zgrep": _GREP,
    "rg ag ack ugrep": _RG,
    "awk gawk mawk nawk": Reading(1, "-F -v -f -e -i --assign --file --field-separator --source", "-f -e --file"),
    "jq gojq jaq": Reading(1, "--arg --argjson --indent -f --from-file -L", "-f --from-file", quiet="-e --exit-status"),
    "yq tomlq xq dasel": Reading(1, "-p -o -f --file -I --indent --input-format --output-format", quiet="-i"),
    "cut": Reading(values="-d -f -c -b --delimiter --fields --output-delimiter"),
    "sort gsort": Reading(values="-k -t -o -S -T --key --field-separator --output", quiet="-o -c --output --check"),
    "paste join comm column": Reading(values="-d -t -1 -2 -o -j -a -s -c -e"),
    "fold": Reading(values="-w --width"),
    "diff colordiff sdiff icdiff delta difft": Reading(
        values="-U -C -x -X -I -L -W --exclude --label", below="-r --recursive", quiet="-q --brief"),
    "cmp": Reading(quiet="always"),
    "od": Reading(values="-A -j -N -t -w -S"),
    "strings": Reading(values="-n -t -e -o --bytes"),
    "base64 base32 gbase64": Reading(values="-w -b -i -o --wrap --input", files="-i --input", quiet="-o"),
    "iconv": Reading(values="-f -t -o --from-code --to-code", quiet="-o"),
    "openssl": Reading(9, "-in -out -k -pass -passin -passout", files="-in", quiet="-out -noout -pubout"),
    "source .": Reading(quiet="always"),
    "split": Reading(values="-b -l -n -a -C --bytes --lines", quiet="always"),
}  # fmt: skip
_READS: Final[Mapping[str, Reading]] = {name: how for names, how in _READING_TABLE.items() for name in names.split()}


def _read(call: Call) -> Iterator[Effect]:
    """cat, grep, jq and the like: the files that they name, and a secret that they are fed."""
    how = _READS[call.command.name]
    call = call.with_values(how.values)
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
    if (not files or "-" in files) and prints and "secret" in call.command.fed:
        yield call.effect("read-secret", "", weight="normal")


def _prints(call: Call, how: Reading) -> bool:
    """Whether what is read reaches the model."""
    quiet = how.quiet == "always" or _any(call, how.quiet)
    return call.command.shown and not quiet and not _only_names(call)


def _any(call: Call, options: str) -> bool:
    return bool(options) and call.has(*options.split())


def _has_input(call: Call) -> bool:
    return call.command.piped or call.command.stdin is not None or bool(call.command.reads)


def _only_names(call: Call) -> bool:
    """`cut -d= -f1 .env` and its like show the names of variables, not their values."""
    name, first = call.command.name, (call.operands or [""])[0]
    if name == "cut":
        return call.options.values("-d", "--delimiter") == ["="] and call.options.values("-f", "--fields") == ["1"]
    if "awk" in name:
        return call.options.values("-F") == ["="] and "".join(first.split()) in ("{print$1}", "/=/{print$1}")
    if name == "sed":
        return re.match(r"s(.)=\.[*+]", first) is not None
    if name in ("grep", "egrep", "rg"):
        return call.has("-o", "--only-matching") and re.fullmatch(r"\^(?:\[[^]]*\]|\\w)[*+]=?", first) is not None
    return False


def read_file(call: Call, word: str, *, prints: bool, below: bool = False) -> Iterator[Effect]:
    """A file that is read; `prints`: its content would reach the model."""
    if word in ("-", "") or word.startswith("/dev/"):
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


# Copying and moving.

_PUT_VALUES: Final = "-t -S -m -o -g --target-directory --suffix --mode --owner --group"
_KEEPS: Final = ("-n", "--no-clobber", "-b", "--backup", "--update=none")


def _destination(call: Call) -> tuple[list[str], str, bool]:
    """Sources, target, and whether the target is a folder that they go into."""
    folders = call.options.values("-t", "--target-directory")
    if folders:
        return call.operands, folders[-1], True
    if len(call.operands) < 2:
        return [], "", False
    *sources, target = call.operands
    into = target.endswith("/") or len(sources) > 1 or (_is_folder(call, target) and not call.has("-T"))
    return sources, target, into and not call.has("--no-target-directory")


def _below(folder: str, word: str) -> str:
    """A word as seen from a folder that an option names."""
    return word if word.startswith("~") else posixpath.join(folder, word)


def _is_folder(call: Call, word: str) -> bool:
    fs = call.world.fs
    return any(fs.kind(fs.real(path)) == "dir" for path in call.paths(word))


def _arrives(call: Call, source: str, target: str, into: bool) -> Iterator[Effect]:
    """What a source that is copied or moved does to its target."""
    name = basename(source.rstrip("/"))
    if into and (name in ("", ".", "..") or has_pattern(name) or UNKNOWN in name):
        yield from call.on_path("write", target, recursive=True)
        return
    emptied = source == "/dev/null"
    yield from put_file(
        call, posixpath.join(target, name) if into else target, emptied=emptied, keeps=call.has(*_KEEPS)
    )


def _cp(call: Call) -> Iterator[Effect]:
    call = call.with_values("-t -S --target-directory --suffix" if call.command.name != "install" else _PUT_VALUES)
    if call.command.name == "install" and call.has("-d", "--directory"):
        yield from (effect for word in call.operands for effect in call.on_path("write", word))
        return
    sources, target, into = _destination(call)
    below = call.has("-r", "-R", "-a", "--recursive", "--archive")
    for source in sources:
        yield from read_file(call, source, prints=target in ("/dev/stdout", "/dev/stderr", "/dev/tty"), below=below)
        yield from _arrives(call, source, target, into)


def _mv(call: Call) -> Iterator[Effect]:
    call = call.with_values("-t -S --target-directory --suffix")
    sources, target, into = _destination(call)
    for source in sources:
        yield from _leaves(call, source, lost=target.startswith("/dev/"))
        yield from _arrives(call, source, target, into)


def _leaves(call: Call, source: str, *, lost: bool) -> Iterator[Effect]:
    """A source that is moved away: light, as its content is kept; one file of a user's is only renamed."""
    for effect in call.on_path("delete", source, itself=True):
        path, kind = effect.target, call.world.fs.kind(effect.target)
        below = kind == "dir" or effect.recursive
        named = kind == "file" or (kind == "" and posixpath.dirname(path) != call.world.home and not below)
        if lost or effect.scope == "system":
            yield msgspec.structs.replace(effect, recursive=below, weight="normal" if below else "light")
        elif effect.scope in ("home", "outside") and effect.certain and named and path != call.world.home:
            yield msgspec.structs.replace(effect, kind="write", weight="light")
        else:
            yield msgspec.structs.replace(effect, recursive=below, weight="light")


def _ln(call: Call) -> Iterator[Effect]:
    """The name that is made; what it points to is neither read nor written."""
    call = call.with_values("-t -S --target-directory --suffix")
    sources, target, into = _destination(call)
    if len(call.operands) == 1 and not sources:
        sources, target, into = call.operands, ".", True
    for source in sources:
        word = posixpath.join(target, basename(source.rstrip("/"))) if into else target
        for effect in call.on_path("write", word, itself=True):
            there = call.has("-f", "--force") and call.world.fs.kind(effect.target) == "file"
            yield msgspec.structs.replace(effect, kind="overwrite" if there and not call.has(*_KEEPS[2:]) else "write")


_RSYNC_VALUES: Final = (
    "-e -f -B -T -M --rsh --filter --exclude --include --exclude-from --include-from --files-from --backup-dir "
    "--partial-dir --log-file --password-file --port --chmod --chown --max-size --min-size --bwlimit --timeout"
)


def is_remote(word: str) -> bool:
    """Whether a word names a place on another machine: `host:path`, `rsync://...`."""
    return ":" in word.split("/", 1)[0].lstrip(UNKNOWN) and len(word.split(":", 1)[0]) > 1


def _rsync(call: Call) -> Iterator[Effect]:
    call = call.with_values(_RSYNC_VALUES)
    if call.has("-n", "--dry-run", "--list-only") or len(call.operands) < 2:
        return
    *sources, target = call.operands
    clears = any(option.startswith("--del") for option, _ in call.options.options)
    yield from _transfer(call, sources, target)
    if clears and is_remote(target):
        yield call.effect("delete", target, scope="remote", recursive=True)
    elif clears:
        yield from call.on_path("delete", target, recursive=True)
    if call.has("--remove-source-files"):
        for source in sources:
            yield from () if is_remote(source) else call.on_path("delete", source, recursive=True, weight="light")


def _scp(call: Call) -> Iterator[Effect]:
    call = call.with_values("-c -F -i -J -l -o -P -S -X -D")
    if len(call.operands) > 1:
        yield from _transfer(call, call.operands[:-1], call.operands[-1])


def _transfer(call: Call, sources: Sequence[str], target: str) -> Iterator[Effect]:
    """Files that go to another machine, come from one, or stay here."""
    local = [source for source in sources if not is_remote(source)]
    reads = [effect for source in local for effect in read_file(call, source, prints=False, below=True)]
    yield from reads
    if is_remote(target):
        secret = "secret" in call.command.origins or any(effect.kind == "read-secret" for effect in reads)
        yield call.effect("upload", target, scope="remote", weight="heavy" if secret else "light")
    elif target.endswith("/") or _is_folder(call, target) or call.command.name == "rsync":
        yield from call.on_path("write", target, recursive=True)
    else:
        yield from put_file(call, target)


# Programs that write what they name.


def _tee(call: Call) -> Iterator[Effect]:
    appends = call.has("-a", "--append")
    return (effect for word in call.operands for effect in put_file(call, word, keeps=appends))


def _truncate(call: Call) -> Iterator[Effect]:
    call = call.with_values("-s -r --size --reference")
    grows = any(size.startswith((">", "+", "%")) for size in call.options.values("-s", "--size"))
    return (effect for word in call.operands for effect in put_file(call, word, emptied=True, keeps=grows))


def _shred(call: Call) -> Iterator[Effect]:
    call = call.with_values("-n -s --iterations --size --random-source")
    for word in call.operands:
        if call.has("-u", "--remove") and not word.startswith("/dev/"):
            yield from call.on_path("delete", word, weight="normal")
        else:
            yield from put_file(call, word, emptied=True)


def _dd(call: Call) -> Iterator[Effect]:
    given = {name: value for name, _, value in (word.partition("=") for word in call.command.args)}
    if "if" in given:
        yield from read_file(call, given["if"], prints="of" not in given and call.command.shown)
    if "of" in given:
        keeps = "notrunc" in given.get("conv", "") or "append" in given.get("oflag", "")
        yield from put_file(call, given["of"], emptied=not keeps, keeps=keeps)


def _sed(call: Call) -> Iterator[Effect]:
    in_place = any(re.match(r"-[nErsuz]*i|--in-p", word) for word in call.command.args)
    words = tuple(word for word in call.command.args if not re.match(r"-[nErsuz]*i", word))
    call = _with_words(call, words, "-e -f -l --expression --file --line-length")
    scripts = call.options.values("-e", "--expression")
    files = call.operands if scripts or call.has("-f", "--file") else call.operands[1:]
    for script in scripts or ([] if call.has("-f", "--file") else call.operands[:1]):
        written, runs = sed_script(script)
        yield from (effect for word in written for effect in put_file(call, word))
        if runs:
            yield call.effect("run-opaque", script, certain=False, why="sed runs text as a command")
    for word in files:
        yield from read_file(call, word, prints=call.command.shown and not in_place and not _only_names(call))
        yield from call.on_path("write", word) if in_place else ()


def _with_words(call: Call, words: tuple[str, ...], valued: str) -> Call:
    """The same command with other words."""
    command = msgspec.structs.replace(call.command, args=words)
    return Call(command, call.world, call.scopes, frozenset(valued.split()))


def _sort(call: Call) -> Iterator[Effect]:
    call = call.with_values(_READS["sort"].values)
    for word in call.options.values("-o", "--output"):
        yield from put_file(call, word, keeps=word in call.operands)  # `sort -o x x` sorts in place


def _to_second(call: Call) -> Iterator[Effect]:
    """uniq, xxd: the second operand is written."""
    call = call.with_values("-f -s -w -c -l -g -o -n")
    for word in call.operands[:1]:
        yield from read_file(call, word, prints=call.command.shown and len(call.operands) == 1)
    for word in call.operands[1:2]:
        yield from put_file(call, word)


def _split(call: Call) -> Iterator[Effect]:
    """split, csplit: pieces beside each other, their names begin with a prefix."""
    call = call.with_values("-b -l -n -a -C -f --bytes --lines --prefix")
    prefix = call.options.values("-f", "--prefix") if call.command.name == "csplit" else call.operands[1:2]
    yield from call.on_path("write", (prefix or ["x"])[0] + "*")


def _patch(call: Call) -> Iterator[Effect]:
    call = call.with_values("-d -i -o -p -r -B -D -F -V -Y -z --directory --input --output --strip")
    if call.has("--dry-run", "-C", "--check"):
        return
    output = call.options.values("-o", "--output") or call.operands[:1]
    folder = (call.options.values("-d", "--directory") or ["."])[-1]
    for word in output:
        yield from call.on_path("write", _below(folder, word))
    if not output:
        yield from call.on_path("write", folder, recursive=True)


def _curl(call: Call) -> Iterator[Effect]:
    call = call.with_values(
        "-o -A -b -c -C -d -D -e -E -F -H -K -m -Q -r -t -T -u -U -w -x -X -y -Y -z --output --output-dir --cookie-jar "
        "--dump-header --trace --stderr --data --header --request --url --data-raw --data-binary --json --user --form "
        "--max-time --connect-timeout --retry --user-agent --upload-file --write-out --proxy --cookie"
    )
    folder = (call.options.values("--output-dir") or [""])[-1]
    targets = call.options.values("-o", "--output", "-c", "--cookie-jar", "-D", "--dump-header", "--trace", "--stderr")
    if call.has("-O", "--remote-name", "--remote-name-all"):
        targets += [_name_of(url) for url in [*call.operands, *call.options.values("--url")]]
    return (effect for word in targets if word != "-" for effect in put_file(call, _below(folder, word)))


def _wget(call: Call) -> Iterator[Effect]:
    call = call.with_values(
        "-O -P -o -a -i -B -t -T -w -Q -e -U --output-document --directory-prefix --output-file --append-output "
        "--input-file --user-agent --header --post-data --post-file --tries --timeout --method --body-data --body-file"
    )
    documents = call.options.values("-O", "--output-document")
    if not documents and not call.has("--spider", "-O"):
        folder = (call.options.values("-P", "--directory-prefix") or [""])[-1]
        # a file that is there already is kept: the new one gets a number
        yield from (e for url in call.operands for e in put_file(call, _below(folder, _name_of(url)), keeps=True))
    for word in documents + call.options.values("-o", "--output-file"):
        yield from put_file(call, word) if word != "-" else ()


def _name_of(url: str) -> str:
    path = url.partition("?")[0].partition("://")[2] or url
    return basename(path) if "/" in path else "index.html"


# Archives.

_TAR_VALUES: Final = (
    "-f -C -T -X -b -g -I -H -V -K -N --file --directory --exclude --exclude-from --files-from --strip-components "
    "--transform --xform --use-compress-program --format --owner --group --mode --mtime"
)


def _tar(call: Call) -> Iterator[Effect]:
    call = _with_words(call, _tar_words(call.command.args), _TAR_VALUES)
    folder = (call.options.values("-C", "--directory") or ["."])[-1]
    members = [_below(folder, member) for member in call.operands]
    if call.has("-x", "--extract", "--get"):
        if not call.has("-O", "--to-stdout"):
            lost = call.has("--overwrite", "-U", "--unlink-first", "--recursive-unlink")
            yield from call.on_path("overwrite" if lost else "write", folder, recursive=True)
        return
    if not call.has("-c", "-r", "-u", "-A", "--create", "--append", "--update", "--concatenate"):
        return
    for word in members:
        yield from read_file(call, word, prints=False, below=True)
        yield from call.on_path("delete", word, recursive=True) if call.has("--remove-files") else ()
    for word in call.options.values("-f", "--file"):
        if word != "-" and not is_remote(word):
            yield from put_file(call, word, keeps=not call.has("-c", "--create"))


def _tar_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """`tar czf a.tgz x` as `tar -c -z -f a.tgz x`: letters without a dash take their values in their order."""
    if not words or words[0].startswith("-"):
        return words
    found, rest = [], list(words[1:])
    for letter in words[0]:
        found.append("-" + letter)
        if letter in "fCTXbgIHVKN" and rest:
            found.append(rest.pop(0))
    return (*found, *rest)


def _unzip(call: Call) -> Iterator[Effect]:
    call = call.with_values("-d -x -P")
    if call.operands and not call.has("-l", "-p", "-t", "-v", "-z", "-Z", "-c"):
        folder = (call.options.values("-d") or ["."])[-1]
        yield from call.on_path("overwrite" if call.has("-o") else "write", folder, recursive=True)


def _zip(call: Call) -> Iterator[Effect]:
    call = call.with_values("-b -n -P -s -t -x -i --exclude --include")
    for word in call.operands[:1]:
        yield from put_file(call, word, keeps=True) if word != "-" else ()
    for word in call.operands[1:]:
        yield from read_file(call, word, prints=False, below=call.has("-r", "--recurse-paths"))
        yield from call.on_path("delete", word, recursive=True) if call.has("-m", "--move") else ()


def _seven_zip(call: Call) -> Iterator[Effect]:
    words = call.command.args
    verb, rest = " ".join(words[:1]), [word for word in words[1:] if not word.startswith("-")]
    if verb in ("x", "e"):
        folder = next((word[2:] for word in words if word.startswith("-o")), ".") or "."
        yield from call.on_path("overwrite" if "-aoa" in words else "write", folder, recursive=True)
    elif verb in ("a", "u", "d", "rn"):
        yield from (effect for word in rest[:1] for effect in put_file(call, word, keeps=True))
        for word in rest[1:] if verb in ("a", "u") else []:
            yield from read_file(call, word, prints=False, below=True)
            yield from call.on_path("delete", word, recursive=True) if "-sdel" in words else ()


def _cpio(call: Call) -> Iterator[Effect]:
    call = call.with_values("-D -F -O -E -H -M -I -C -R --directory --file")
    folder = (call.options.values("-D", "--directory") or ["."])[-1]
    if call.has("-p", "--pass-through"):
        folder = _below(folder, (call.operands or ["."])[0])
    if call.has("-p", "--pass-through") or (call.has("-i", "--extract") and not call.has("-t", "--list")):
        kept = not call.has("-u", "--unconditional")
        yield from call.on_path("write" if kept else "overwrite", folder, recursive=True)
    for word in call.options.values("-O") + (call.options.values("-F", "--file") if call.has("-o", "--create") else []):
        yield from put_file(call, word)


def _ar(call: Call) -> Iterator[Effect]:
    words = call.command.args
    if words and "t" not in words[0] and "p" not in words[0]:
        yield from call.on_path("write", words[1] if "x" not in words[0] and len(words) > 1 else ".")


# Searching.


def _find(call: Call) -> Iterator[Effect]:
    words = list(call.command.args)
    while words and words[0] in ("-H", "-L", "-P"):
        words.pop(0)
    end = next((place for place, word in enumerate(words) if word[:1] in ("-", "(", "!")), len(words))
    starts, tests = words[:end] or ["."], words[end:]
    if "-delete" in tests:
        before = tests[: tests.index("-delete")]  # what follows filters nothing any more
        weight: Weight | None = "light" if "-empty" in before else None
        for start in starts:
            yield from call.on_path("delete", start, recursive=True, names=find_names(before), weight=weight)
    for option, word in itertools.pairwise(tests):
        if option in ("-fprint", "-fprint0", "-fprintf", "-fls"):
            yield from put_file(call, word)


# Permissions.

_MODE = re.compile(r"-[rwxXstugo]+(?:,[-+=ugoarwxXst]+)*")
_OPENS = re.compile(r"[0-7]?[0-7]{2}[2367]|[2-7][0-7]{3}|0*|(?:[ugoa,]*[oa][ug]*)?[+=][rxXst]*w.*|[ug]*\+[rwx]*s.*")
"""Modes that let everybody write, run with another user's rights, or keep everybody out."""


def _chmod(call: Call) -> Iterator[Effect]:
    """A mode that begins with a dash is no option: `chmod -x file`."""
    modes = [word for word in call.command.args if _MODE.fullmatch(word)]
    words = tuple(word for word in call.command.args if word not in modes)
    call = _with_words(call, words, "--reference")
    if not modes and not call.has("--reference"):
        modes, paths = call.operands[:1], call.operands[1:]
    else:
        paths = call.operands
    opens = any(_OPENS.fullmatch(mode) for mode in modes)
    yield from _permissions(call, paths, opens)


def _permissions(call: Call, paths: Sequence[str], opens: bool = False) -> Iterator[Effect]:
    below = call.has("-R", "--recursive", "-r" if call.command.name == "xattr" else "-R")
    for word in paths:
        for effect in call.on_path("permissions", word, recursive=below):
            wide = opens and effect.scope in ("system", "home", "outside")
            yield msgspec.structs.replace(effect, weight="normal") if wide else effect


def _chown(call: Call) -> Iterator[Effect]:
    call = call.with_values("--reference --from")
    return _permissions(call, call.operands if call.has("--reference") else call.operands[1:])


def _attributes(call: Call) -> Iterator[Effect]:
    """chattr, chflags, setcap: what changes comes first, with any sign before it."""
    words = call.command.args
    signed = tuple(word for word in words if not re.fullmatch(r"[-+=][a-zA-Z]+", word) or word in ("-R", "-V", "-f"))
    call = _with_words(call, signed, "-v -p")
    named = call.operands if len(signed) < len(words) else call.operands[1:]
    return _permissions(call, named, opens=True)


def _setfacl(call: Call) -> Iterator[Effect]:
    call = call.with_values("-m -M -x -X --modify --remove --set --set-file --restore -t -u -r -l")
    return _permissions(call, call.operands) if not call.has("--test") else iter(())


# Disks.

_MAKERS: Final = (
    "mkfs mke2fs mkntfs mkdosfs mkexfatfs newfs newfs_apfs newfs_hfs mkswap mkfs.bfs mkfs.btrfs mkfs.cramfs mkfs.exfat "
    "mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.f2fs mkfs.fat mkfs.jfs mkfs.minix mkfs.msdos mkfs.ntfs mkfs.reiserfs mkfs.udf "
    "mkfs.vfat mkfs.xfs mkfs.zfs"
)


def _make_filesystem(call: Call) -> Iterator[Effect]:
    """A file system made anew: on a disk all is lost, in an image file only that file."""
    dry = call.command.name in ("mke2fs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4") and call.has("-n")
    if dry or call.has("-V"):
        return
    paths = [word for word in call.operands if "/" in word or UNKNOWN in word] or call.operands[-1:]
    for word in paths:
        if word.startswith(UNKNOWN):
            yield call.effect("device", word, scope="system", certain=False)
        else:
            yield from put_file(call, word, emptied=True)


def _unless_help(reader: Reader) -> Reader:
    """The same reader for calls that ask for more than the program's help."""

    @functools.wraps(reader)
    def read(call: Call) -> Iterator[Effect]:
        return iter(()) if call.wants_help else reader(call)

    return read


def _both(*readers: Reader) -> Callable[[Call], Iterator[Effect]]:
    return lambda call: (effect for reader in readers for effect in reader(call))


_SPECIAL: Final[Mapping[str, Reader]] = {
    "cp gcp install ginstall": _cp, "mv gmv": _mv, "ln gln": _ln, "rsync": _rsync, "scp": _scp,
    "tee gtee sponge": _tee, "truncate gtruncate": _truncate, "shred gshred": _shred, "dd gdd": _dd,
    "sed gsed": _sed, "uniq xxd": _to_second, "split csplit": _split, "patch gpatch": _patch, "curl": _curl,
    "wget": _wget, "tar gtar bsdtar": _tar, "unzip": _unzip, "zip": _zip, "7z 7za 7zz": _seven_zip, "cpio": _cpio,
    "ar": _ar, "find gfind": _find, "chmod gchmod": _chmod, "chown chgrp chcon gchown": _chown,
    "chattr chflags setcap": _attributes, "setfacl": _setfacl, _MAKERS: _make_filesystem,
}  # fmt: skip


def _readers() -> dict[str, Reader]:
    special = {name: reader for names, reader in _SPECIAL.items() for name in names.split()}
    found = {name: _unless_help(_read) for name in _READS} | {n: _unless_help(r) for n, r in special.items()}
    for name in ("sort", "gsort"):
        found[name] = _unless_help(_both(_read, _sort))
    found["split"] = _unless_help(_both(_read, _split))
    return found


READERS: Final[Mapping[str, Reader]] = _readers()
