"""Programs that delete, overwrite, write, move, re-permission or read files, and those that wipe disks."""

import itertools
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, Final, cast

import msgspec

from billhook.effects.effect import UNKNOWN, Effect, Weight
from billhook.effects.families.network import CURL_VALUES, WGET_VALUES
from billhook.effects.families.reading import find_branch, find_names, only_names, pass_on, read_file
from billhook.effects.places import has_pattern, is_device
from billhook.effects.rules import segment_matches
from billhook.effects.table import Call, Reader, Row, readers

_LVM: Final = "lvremove|vgremove|pvremove|lvreduce|vgreduce"
_ERASE_DRIVE: Final = "--security-erase --security-erase-enhanced --sanitize-block-erase --trim-sector-ranges"
_PARTITION: Final = "mklabel mktable mkpart rm resizepart resize rescue"

_INSTALL_VALUES: Final = "-t -S -m -o -g --target-directory --suffix --mode --owner --group"

ROWS: Final[tuple[Row, ...]] = (
    Row("rm|grm", "delete", files=True, recursive="-r -R --r --re --recursive"),
    Row("unlink|rmdir|grmdir", "delete", files=True),
    Row("srm|wipe", "delete", files=True, recursive="-r -R --recursive"),
    Row("rimraf|del-cli|del", "delete", files=True, recursive="always", dry="--dry-run -d"),
    Row("trash|trash-put|rmtrash", "delete", files=True, weight="light"),
    Row("gio trash", "delete", files=True, weight="light"),
    Row("touch|gtouch", "write", files=True, values="-d -t -r --date --time --reference"),
    Row("mkdir|gmkdir", "write", files=True, values="-m --mode"),
    Row("install|ginstall", "write", files=True, needs="-d --directory", values=_INSTALL_VALUES),
    Row("mkfifo|mktemp", "write", files=True, values="-m --mode -p --suffix --tmpdir"),
    Row("fallocate", "write", files=True, values="-l -o --length --offset"),
    Row("cpio", "write", "first", files=True, needs="-p --pass-through", recursive="always", values="-D -R -E"),
    Row("tee|gtee|sponge", "overwrite", files=True, keeps="-a --append"),
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
    Row("ed|ex", "write", files=True, values="-p -c"),
    Row("vi|vim|nvim|emacs|nano", "write", files=True, values="-c --cmd -u -S --eval -l --load", dry="-R"),
    Row("chown|chgrp|chcon|gchown", "permissions", files=True, skip=1, instead="--reference",
        recursive="-R --recursive", values="--reference --from"),
    Row("setfacl", "permissions", files=True, dry="--test", recursive="-R --recursive",
        values="-m -M -x -X --modify --remove --set --set-file --restore -t -u -r -l"),
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
    Row(f"lvm {_LVM}", "device", dry="-t --test", scope="system"),
    Row("zpool destroy|labelclear", "device", scope="system"),
    Row("zfs destroy|rollback", "device", dry="-n --dryrun", scope="system"),
    Row("btrfs subvolume|sub delete|del", "device", scope="system"),
    Row("hdparm", "device", needs=_ERASE_DRIVE, scope="system"),
    Row("nvme format|sanitize|delete-ns|write-zeroes", "device", scope="system"),
    Row("tune2fs|resize2fs|xfs_growfs|e2label", "device", dry="-l", scope="system"),
    Row("fsck|e2fsck|fsck.ext4|fsck.xfs|ntfsfix", "device", needs="-y -p -a -f", dry="-n -N", scope="system"),
    Row("xfs_repair", "device", dry="-n", scope="system"),
    Row("debugfs", "device", needs="-w", scope="system"),
    Row("badblocks", "device", needs="-w", scope="system"),
    Row("flashrom", "device", needs="-w -E --write --erase", scope="system"),
    Row("diskutil eraseDisk|eraseVolume|partitionDisk|zeroDisk|randomDisk|secureErase", "device", scope="system"),
    Row("diskutil apfs|cs deleteContainer|deleteVolume|eraseVolume|delete", "device", scope="system"),
    Row("losetup", "device", needs="-d -D --detach --detach-all", scope="system", weight="light"),
    Row("swapoff", "device", scope="system", weight="light"),
)  # fmt: skip


# Copying and moving.

_COPY_VALUES: Final = "-t -S --target-directory --suffix"
_KEEPS: Final = ("-n", "--no-clobber", "-b", "--backup")


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
    return word if word.startswith("~") or folder == "." else posixpath.join(folder, word)


def _is_folder(call: Call, word: str) -> bool:
    fs = call.world.fs
    kinds = ((fs.kind(path), path) for path in call.paths(word))
    return any(kind == "dir" or (kind == "link" and fs.kind(fs.real(path)) == "dir") for kind, path in kinds)


def _arrives(call: Call, source: str, target: str, *, into: bool, keeps: bool, deep: bool = True) -> Iterator[Effect]:
    """What a source that is copied or moved does to its target."""
    if call.is_stream(target):
        return
    name = posixpath.basename(source.rstrip("/"))
    several = name in ("", ".", "..") or has_pattern(name) or UNKNOWN in name
    if (into and several) or (deep and (several or _is_folder(call, source))):
        made = tuple(_copied(call, source, within="", deep=deep))
        word = posixpath.join(target, name) if into and not several else target
        effects = call.on_path("write", word, recursive=True, weight=None if several else "light")
        yield from (msgspec.structs.replace(effect, names=made) for effect in effects)
        return
    word = posixpath.join(target, name) if into else target
    yield from call.put(word, emptied=source == "/dev/null", keeps=keeps)


_MOST_COPIED: Final = 500


def _copied(call: Call, source: str, *, within: str, deep: bool) -> Iterator[str]:
    """What a copy of a folder or of all that a pattern matches makes, by its path inside the target."""
    fs, (path, *_) = call.world.fs, call.paths(source)
    folder, pattern = posixpath.split(path) if has_pattern(posixpath.basename(path)) else (path, "")
    if UNKNOWN in path or has_pattern(folder):
        yield UNKNOWN
        return
    todo = [(folder, within)]
    made = itertools.count()
    for at, (here, prefix) in enumerate(todo):
        for name in fs.names(here):
            hidden = name.startswith(".") and not pattern.startswith(".")
            if pattern and not at and (hidden or not segment_matches(pattern, name)):
                continue
            if next(made) >= _MOST_COPIED:
                yield UNKNOWN
                return
            inside = posixpath.join(prefix, name)
            yield inside
            if deep and fs.kind(posixpath.join(here, name)) == "dir":
                todo.append((posixpath.join(here, name), inside))


def _cp(call: Call) -> Iterator[Effect]:
    installs = call.command.name in ("install", "ginstall")
    call = call.with_values(_INSTALL_VALUES if installs else _COPY_VALUES)
    if installs and call.has("-d", "--directory"):  # it makes folders: a row
        return
    sources, target, into = _destination(call)
    below, keeps = call.has("-r", "-R", "-a", "--recursive", "--archive"), call.has(*_KEEPS)
    prints = _to_model(call, target)
    for source in sources:
        yield from read_file(call, source, prints=prints, below=below)
        yield from _arrives(call, source, target, into=into, keeps=keeps, deep=below)


def _to_model(call: Call, target: str) -> bool:
    """Whether a target is the command's own output, and that is shown."""
    return call.command.shown and call.is_stream(target) and posixpath.basename(target) != "null"


def _mv(call: Call) -> Iterator[Effect]:
    call = call.with_values(_COPY_VALUES)
    sources, target, into = _destination(call)
    lost, keeps = call.is_stream(target), call.has(*_KEEPS)
    for source in sources:
        yield from _leaves(call, source, lost=lost)
        yield from _arrives(call, source, target, into=into, keeps=keeps)


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
    call = call.with_values(_COPY_VALUES)
    sources, target, into = _destination(call)
    if len(call.operands) == 1 and not sources:
        sources, target, into = call.operands, ".", True
    replaces = call.has("-f", "--force") and not call.has("-b", "--backup")
    for source in sources:
        word = posixpath.join(target, posixpath.basename(source.rstrip("/"))) if into else target
        for effect in call.on_path("write", word, itself=True):
            lost = replaces and call.world.fs.kind(effect.target) == "file"
            yield msgspec.structs.replace(effect, kind="overwrite" if lost else "write")


_RSYNC_VALUES: Final = (
    "-e -f -B -T -M --rsh --filter --exclude --include --exclude-from --include-from --files-from --backup-dir "
    "--partial-dir --log-file --password-file --port --chmod --chown --max-size --min-size --bwlimit --timeout"
)


def is_remote(word: str) -> bool:
    """Whether a word names a place on another machine: `host:path`, `rsync://...`; `C:` is a disk of Windows."""
    host, colon, _ = word.split("/", 1)[0].partition(":")
    return bool(colon and host) and not (len(host) == 1 and host.isupper())


def _rsync(call: Call) -> Iterator[Effect]:
    call = call.with_values(_RSYNC_VALUES)
    if call.has("-n", "--dry-run", "--list-only") or len(call.operands) < 2:
        return
    *sources, target = call.operands
    clears = any(option.startswith("--delete") or option == "--del" for option, _ in call.options.options)
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
    local = [source for source in sources if not is_remote(source)]
    reads = [effect for source in local for effect in read_file(call, source, prints=False, below=True)]
    yield from reads
    if is_remote(target):
        secret = "secret" in call.command.origins or any(effect.kind == "read-secret" for effect in reads)
        yield call.effect("upload", target, scope="remote", weight="heavy" if secret else "light")
    elif target.endswith("/") or _is_folder(call, target) or call.command.name == "rsync":
        made = [UNKNOWN] if len(local) < len(sources) else []
        for source in local:
            within = "" if source.endswith(("/", ".")) else posixpath.basename(source)
            made += [within, *_copied(call, source, within=within, deep=True)]
        effects = call.on_path("write", target, recursive=True)
        yield from (msgspec.structs.replace(effect, names=tuple(filter(None, made))) for effect in effects)
    else:
        yield from call.put(target)


# Programs that write what they name.


def _truncate(call: Call) -> Iterator[Effect]:
    call = call.with_values("-s -r --size --reference")
    grows = any(size.startswith((">", "+", "%")) for size in call.options.values("-s", "--size"))
    return (effect for word in call.operands for effect in call.put(word, emptied=True, keeps=grows))


def _shred(call: Call) -> Iterator[Effect]:
    call = call.with_values("-n -s --iterations --size --random-source")
    removes = call.has("-u", "--remove")
    for word in call.operands:
        if removes and not any(map(is_device, call.paths(word))):
            yield from call.on_path("delete", word, weight="normal")
        else:
            yield from call.put(word, emptied=True)


def _dd(call: Call) -> Iterator[Effect]:
    given = {name: value for name, _, value in (word.partition("=") for word in call.command.args)}
    if "if" in given:
        printed = _to_model(call, given["of"]) if "of" in given else call.command.shown
        yield from read_file(call, given["if"], prints=printed)
    if "of" in given:
        keeps = "notrunc" in given.get("conv", "") or "append" in given.get("oflag", "")
        yield from call.put(given["of"], emptied=not keeps, keeps=keeps)


def _sed(call: Call) -> Iterator[Effect]:
    in_place = any(re.match(r"-[nErsuz]*i|--in-p", word) for word in call.command.args)
    words = tuple(word for word in call.command.args if word and not re.match(r"-[nErsuz]*i", word))
    call = call.with_words(words, "-e -f -l --expression --file --line-length")
    scripts = call.options.values("-e", "--expression")
    files = call.operands if scripts or call.has("-f", "--file") else call.operands[1:]
    for script in scripts or ([] if call.has("-f", "--file") else call.operands[:1]):
        written, runs = sed_script(script)
        yield from (effect for word in written[:_MOST_WRITTEN] for effect in call.put(word))
        if len(written) > _MOST_WRITTEN or len(script) > _LONGEST_SED:
            yield call.effect("run-opaque", certain=False, why="the script of sed is too long to be read")
        if runs:
            yield call.effect("run-opaque", script, certain=False, why="sed runs text as a command")
    prints = call.command.shown and not in_place and not only_names(call)
    for word in files:
        yield from read_file(call, word, prints=prints)
        yield from call.on_path("write", word) if in_place else ()
    if not files:
        yield from pass_on(call, prints=call.command.shown)


_EDITS = re.compile(r"-(?![MmI])[a-zA-Z0-9]*i")


def _in_place(call: Call) -> Iterator[Effect]:
    """`perl -i`, `ruby -i`, `gawk -i inplace`: the files are rewritten; `perl -p` prints them."""
    prints = False
    if call.command.name in ("perl", "ruby"):
        edits, words = any(map(_EDITS.match, call.command.args)), call.command.args
        code = {after for before, after in itertools.pairwise(words) if re.fullmatch(r"-\w*[eE]", before)}
        files = [word for word in words if not word.startswith("-") and word not in code]
        prints = call.command.shown and any(re.match(r"-[a-z]*p", word) for word in words)
    else:
        call = call.with_values("-i --include -f -F -v -e")
        edits, files = "inplace" in call.options.values("-i", "--include"), call.operands[1:]
    for word in files:
        yield from call.on_path("write", word) if edits else read_file(call, word, prints=True) if prints else ()


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
        files = [_below(folder, word) for word in call.options.values("-i", "--input")]
        yield from patch_effects(call, files, folder, _number(call, "-p", "--strip"))
        yield from undone_work(call)


def patch_effects(call: Call, files: Sequence[str], folder: str, strip: int | None) -> Iterator[Effect]:
    """What a patch writes, by the names in it."""
    texts = [call.command.stdin] if call.command.stdin and not files else []
    texts += [call.world.fs.read(path, LARGEST_PATCH) or "" for path in _input_files(call, files)]
    names = dict.fromkeys(name for text in texts for name in patched(text, strip))
    for effect in call.on_path("write", folder, recursive=True, weight="light" if call.command.name == "git" else None):
        yield msgspec.structs.replace(effect, names=(*names, UNKNOWN))


def undone_work(call: Call) -> Iterator[Effect]:
    """`git diff | git apply -R`: uncommitted changes are taken back, and kept nowhere."""
    if call.has("-R", "--reverse") and "changes" in call.command.fed:
        yield call.effect("discard", scope="project" if call.command.name == "patch" else "unknown", recursive=True)


def _input_files(call: Call, words: Sequence[str]) -> list[str]:
    """The files that a command reads: those it names, or where its standard input comes from."""
    named = [path for word in words if word != "-" for path in call.paths(word)]
    if named:
        return named
    read = [path for word in call.command.reads for path in call.paths(word)]
    return read + [origin.partition(":")[2] for origin in call.command.fed if origin.startswith(("file:", "packed:"))]


def _number(call: Call, *names: str, otherwise: int | None = None) -> int | None:
    values = [value for value in call.options.values(*names) if value.isdecimal() and len(value) < 4]
    return int(values[-1]) if values else otherwise


def _apply_patch(call: Call) -> Iterator[Effect]:
    """Patches in the words or on standard input, as models write them."""
    text = "\n".join((*call.command.args, call.command.stdin or ""))
    return (effect for name in patched(text) for effect in call.on_path("write", name))


def _curl(call: Call) -> Iterator[Effect]:
    call = call.with_values(CURL_VALUES)
    folder = (call.options.values("--output-dir") or [""])[-1]
    targets = call.options.values("-o", "--output", "-c", "--cookie-jar", "-D", "--dump-header", "--trace", "--stderr")
    if call.has("-O", "--remote-name", "--remote-name-all"):
        targets += [_name_of(url) for url in [*call.operands, *call.options.values("--url")]]
    for word in targets:
        yield from call.put(_below(folder, word))
    for url in call.operands:
        if url.startswith("file://"):
            yield from read_file(call, url[7:], prints=call.command.shown and not targets)


def _wget(call: Call) -> Iterator[Effect]:
    call = call.with_values(WGET_VALUES)
    documents = call.options.values("-O", "--output-document")
    if not documents and not call.has("--spider", "-O"):
        folder = (call.options.values("-P", "--directory-prefix") or [""])[-1]
        # a file that is there already is kept: the new one gets a number
        yield from (e for url in call.operands for e in call.put(_below(folder, _name_of(url)), keeps=True))
    for word in documents + call.options.values("-o", "--output-file"):
        yield from call.put(word)


def _name_of(url: str) -> str:
    path = url.partition("?")[0].partition("://")[2] or url
    return posixpath.basename(path) if "/" in path else "index.html"


# Archives.


class Archiver(msgspec.Struct, frozen=True):
    """How a program packs and unpacks files. Each field lists options; `always`: it needs none of them."""

    unpacks: str = ""
    packs: str = ""
    archive: str = ""  # they name the archive; without any it is the first operand
    folder: str = ""  # they name the folder to work in
    values: str = ""  # they take the next word
    prints: str = ""  # nothing is written with one of these
    replaces: str = ""  # files that are there are overwritten
    creates: str = ""  # an archive that is there is overwritten
    removes: str = ""  # what was packed is deleted
    flat: str = ""  # the members' folders are left out
    bare: bool = False  # the first word is letters without a dash: `tar czf x`


_TAR_VALUES: Final = (
    "-f -C -T -X -b -g -I -H -V -K -N --file --directory --exclude --exclude-from --files-from --strip-components "
    "--transform --xform --use-compress-program --format --owner --group --mode --mtime"
)
_TAR: Final = Archiver(
    "-x --extract --get", "-c -r -u -A --create --append --update --concatenate", "-f --file", "-C --directory",
    _TAR_VALUES, prints="-O --to-stdout", replaces="--overwrite -U --unlink-first --recursive-unlink",
    creates="-c --create", removes="--remove-files", bare=True,
)  # fmt: skip
_ARCHIVERS: Final = {
    "tar": _TAR, "gtar": _TAR, "bsdtar": _TAR,
    "unzip": Archiver("always", folder="-d", values="-d -x -P", prints="-l -p -t -v -z -Z -c", replaces="-o",
        flat="-j"),
    "zip": Archiver(packs="always", values="-b -n -P -s -t -x -i --exclude --include", removes="-m --move"),
    "cpio": Archiver("-i --extract", "-o --create", "-F --file -O", "-D --directory",
        "-D -F -O -E -H -M -I -C -R --directory --file", "-t --list", "-u --unconditional", "always"),
    "ar": Archiver("-x", "-r -q -d -m -s", prints="-t -p", bare=True),
}  # fmt: skip


def _archive(call: Call) -> Iterator[Effect]:
    how = _ARCHIVERS[call.command.name]
    call = call.with_words(_dashed(call.command.args, how.values) if how.bare else call.command.args, how.values)
    folder = [".", *call.values(how.folder)][-1]
    first = 0 if how.archive else 1
    archives, members = call.values(how.archive) + call.operands[:first], call.operands[first:]
    packs = call.given(how.packs) and not call.given(how.unpacks)
    if (call.given(how.prints) and not packs) or not (archives or how.archive):
        return
    if call.given(how.unpacks):
        strip = None if call.given(how.flat) else _number(call, "--strip-components", otherwise=0)
        yield from _unpacks(call, call.given(how.replaces), folder, archives, strip, members)
    elif packs:
        packed = _packed(call, how, [_below(folder, member) for member in members], archives)
        kept, here = not call.given(how.creates), [word for word in archives if not is_remote(word)]
        put = (effect for word in here for effect in call.put(word, keeps=kept))
        yield from itertools.chain(packed, put) if how.archive else itertools.chain(put, packed)


def _dashed(words: tuple[str, ...], values: str) -> tuple[str, ...]:
    """`tar czf a.tgz x` as `tar -c -z -f a.tgz x`: letters without a dash take their values in their order."""
    if not words or words[0].startswith("-"):
        return words
    found, rest = [], iter(words[1:])
    for letter in dict.fromkeys(words[0]):
        found.append("-" + letter)
        if f"-{letter}" in values.split():
            found.append(next(rest, ""))
    return (*found, *rest)


def _packed(call: Call, how: Archiver, members: list[str], archives: Sequence[str]) -> Iterator[Effect]:
    prints = call.command.shown and ("-" in archives or (call.given(how.prints) and not archives))
    removes = call.given(how.removes)
    if removes:
        lists = [path for word in call.values("-T --files-from") for path in call.paths(word)]
        members += [line for path in lists for line in (call.world.fs.read(path) or "").splitlines()[:_MOST_COPIED]]
    for word in members:
        yield from read_file(call, word, prints=prints, below=True)
        yield from call.on_path("delete", word, recursive=True) if removes else ()


def _unpacks(
    call: Call, lost: bool, folder: str, archives: Sequence[str], strip: int | None, members: Sequence[str]
) -> Iterator[Effect]:
    """What an archive puts into a folder: the members that are named, or all that can be read of it."""
    names = [each for member in members for each in (member, f"{member}/{UNKNOWN}")]
    if not members:
        named = [name for each in archives if each != "-" for name in (each, f"{each}.zip")]
        names = [name for path in _input_files(call, named) for name in unpacked(path, strip)]
    for effect in call.on_path("overwrite" if lost else "write", folder, recursive=True):
        yield msgspec.structs.replace(effect, names=(*names, UNKNOWN))


def _python_archive(call: Call) -> Iterator[Effect]:
    """`python -m zipfile -e x.zip d`, `python -m tarfile -e x.tar d`."""
    if call.has("-e", "--extract"):
        yield from _unpacks(call, True, (*call.operands[1:2], ".")[0], call.operands[:1], 0, ())


def _seven_zip(call: Call) -> Iterator[Effect]:
    words = call.command.args
    verb, rest = " ".join(words[:1]), [word for word in words[1:] if not word.startswith("-")]
    if verb in ("x", "e"):
        folder = next((word[2:] for word in words if word.startswith("-o")), ".") or "."
        yield from _unpacks(call, "-aoa" in words, folder, rest[:1], 0, ())
    elif verb in ("a", "u", "d", "rn"):
        yield from (effect for word in rest[:1] for effect in call.put(word, keeps=True))
        for word in rest[1:] if verb in ("a", "u") else []:
            yield from read_file(call, word, prints=False, below=True)
            yield from call.on_path("delete", word, recursive=True) if "-sdel" in words else ()


# Searching.

_FIND_OPTION = re.compile(r"-(?:[HLPEXxs]|O\d?)")  # what may precede the folders


def _find(call: Call) -> Iterator[Effect]:
    words = list(itertools.dropwhile(_FIND_OPTION.fullmatch, call.command.args))
    end = next((place for place, word in enumerate(words) if word[:1] in ("-", "(", "!")), len(words))
    starts, tests = words[:end] or ["."], words[end:]
    for place in (place for place, word in enumerate(tests) if word == "-delete"):
        before = find_branch(tests, place)  # what follows filters nothing any more
        weight: Weight | None = "light" if "-empty" in before else None
        names = find_names(before)
        if any(not name.strip("*") for name in names):
            names = ()
        for start in starts:
            yield from call.on_path("delete", start, recursive=True, names=names, weight=weight)
    for option, word in itertools.pairwise(tests):
        if option in ("-fprint", "-fprint0", "-fprintf", "-fls"):
            yield from call.put(word)


# Permissions.

_MODE = re.compile(r"-[rwxXstugo]+(?:,[-+=ugoarwxXst]+)*")
_OPENS = re.compile(r"[0-7]?[0-7]{2}[2367]|[2-7][0-7]{3}|0*|(?:[ugoa,]*[oa][ug]*)?[+=][rxXst]*w.*|[ug]*\+[rwx]*s.*")
"""Modes that are world-writable, run with another user's rights, or lock all users out."""


def _chmod(call: Call) -> Iterator[Effect]:
    """A mode that begins with a dash is no option: `chmod -x file`."""
    modes = [word for word in call.command.args if _MODE.fullmatch(word)]
    words = tuple(word for word in call.command.args if not _MODE.fullmatch(word))
    call = call.with_words(words, "--reference")
    if not modes and not call.has("--reference"):
        modes, paths = call.operands[:1], call.operands[1:]
    else:
        paths = call.operands
    opens = any(_OPENS.fullmatch(mode[:64]) for mode in modes)
    yield from _permissions(call, paths, opens)


def _permissions(call: Call, paths: Sequence[str], opens: bool = False) -> Iterator[Effect]:
    below = call.has("-R", "--recursive")
    for word in paths:
        for effect in call.on_path("permissions", word, recursive=below):
            wide = opens and effect.scope in ("system", "home", "outside")
            yield msgspec.structs.replace(effect, weight="normal") if wide else effect


def _attributes(call: Call) -> Iterator[Effect]:
    """chattr, chflags, setcap: what changes comes first, with any sign before it."""
    words = call.command.args
    signed = tuple(word for word in words if not re.fullmatch(r"[-+=][a-zA-Z]+", word) or word in ("-R", "-V", "-f"))
    call = call.with_words(signed, "-v -p")
    named = call.operands if len(signed) < len(words) else call.operands[1:]
    return _permissions(call, named, opens=True)


# Disks.

_MAKERS: Final = (
    "mkfs mke2fs mkntfs mkdosfs mkexfatfs newfs newfs_apfs newfs_hfs mkswap mkfs.bfs mkfs.btrfs mkfs.cramfs mkfs.exfat "
    "mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.f2fs mkfs.fat mkfs.jfs mkfs.minix mkfs.msdos mkfs.ntfs mkfs.reiserfs mkfs.udf "
    "mkfs.vfat mkfs.xfs mkfs.zfs"
)


def _make_filesystem(call: Call) -> Iterator[Effect]:
    """A new file system: on a disk everything is lost, in an image file only that file."""
    dry = call.command.name in ("mke2fs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4") and call.has("-n")
    if dry or call.has("-V"):
        return
    paths = [word for word in call.operands if "/" in word or UNKNOWN in word] or call.operands[-1:]
    for word in paths:
        if word.startswith(UNKNOWN):
            yield call.effect("device", word, scope="system", certain=False)
        else:
            yield from call.put(word, emptied=True)


READERS: Final[Mapping[str, Reader]] = readers({
    "cp gcp install ginstall": _cp, "mv gmv": _mv, "ln gln": _ln, "rsync": _rsync, "scp": _scp,
    "truncate gtruncate": _truncate, "shred gshred": _shred, "dd gdd dcfldd dc3dd": _dd, "sed gsed": _sed,
    "split csplit": _split, "patch gpatch": _patch, "curl": _curl, "wget": _wget, " ".join(_ARCHIVERS): _archive,
    "7z 7za 7zz": _seven_zip, "apply_patch applypatch": _apply_patch,
    "zipfile tarfile": _python_archive, "perl ruby awk gawk": _in_place, "chmod gchmod": _chmod,
    "chattr chflags setcap": _attributes, _MAKERS: _make_filesystem,
}) | {"find": _find, "gfind": _find}  # fmt: skip  # among its tests `--help` is a name


# A sed script, read only as far as it writes files or runs commands. One pass, so a long script costs linear time:

_BETWEEN = re.compile(r"[\s;{}]*")
_ADDRESS = re.compile(r"[\d$~+,!\s]+|[IM](?=[,\s!a-zA-Z{}=])")
_TAKES_LABEL: Final = frozenset(":btT")
_TAKES_TEXT: Final = frozenset("aic")
_TAKES_FILE: Final = frozenset("rRwW")


_LONGEST_SED: Final = 32_768
_MOST_WRITTEN: Final = 64


class _SedScript:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.written: list[str] = []
        self.runs = False

    def read(self) -> None:
        while self._skip(_BETWEEN) < len(self.text):
            self._addresses()
            letter = self.text[self.at : self.at + 1]
            self.at += 1
            self._command(letter)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        if found := pattern.match(self.text, self.at):
            self.at = found.end()
        return self.at

    def _addresses(self) -> None:
        before = -1
        while before != self.at < len(self.text):
            before = self.at
            self._skip(_ADDRESS)
            sign = self.text[self.at : self.at + 1]
            if sign in ("/", "\\"):
                self.at += 1 if sign == "/" else 2
                self._part(sign if sign == "/" else self.text[self.at - 1 : self.at])

    def _command(self, letter: str) -> None:
        if letter in ("s", "y"):
            sign = self.text[self.at : self.at + 1]
            self.at += 1
            self._part(sign)
            self._part(sign)
            self._flags() if letter == "s" else None
        elif letter == "e":
            self.runs = True
            self._line()
        elif letter in _TAKES_FILE:
            name = self._line().strip()
            self.written += [name] if letter in "wW" and name else []
        elif letter in _TAKES_TEXT:
            self._line()
        elif letter in _TAKES_LABEL:
            self._skip(re.compile(r"[^;\n}]*"))

    def _part(self, sign: str) -> None:
        """Up to the next sign that no backslash precedes."""
        while self.at < len(self.text) and self.text[self.at] != sign:
            self.at += 2 if self.text[self.at] == "\\" else 1
        self.at += 1

    def _flags(self) -> None:
        while self.text[self.at : self.at + 1] not in ("", ";", "\n", "}", " ", "#"):
            flag = self.text[self.at]
            self.at += 1
            if flag == "w":
                self.written.append(self._line().strip())
                return
            self.runs = self.runs or flag == "e"

    def _line(self) -> str:
        start = self.at
        end = self.text.find("\n", start)
        self.at = len(self.text) if end < 0 else end
        return self.text[start : self.at]


def sed_script(text: str) -> tuple[list[str], bool]:
    """The files that a script writes, and whether it runs commands."""
    script = _SedScript(text[:_LONGEST_SED])
    script.read()
    return list(dict.fromkeys(script.written)), script.runs


# The names in archives and patches, read with bounds:

MAX_MEMBERS: Final = 2_000
LARGEST: Final = 50_000_000


def unpacked(path: str, strip: int | None = 0) -> list[str]:
    """The members' names without their first `strip` folders (None: without any); empty if it can't be read."""
    found: list[str] = []
    try:
        for name in _members(path):
            cut = posixpath.basename(name) if strip is None else "/".join(name.split("/")[strip:])
            found += [cut] if cut else []
            if len(found) >= MAX_MEMBERS:
                break
    except Exception:
        return found  # broken archives raise any kind of error; names that were read before still count
    return found


class _Bounded:
    """A stream that ends after so many bytes: a small file may unpack to a huge one."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.left = LARGEST

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(min(size, self.left) if size >= 0 else self.left)
        self.left -= len(data)
        return data


def _members(path: str) -> Iterator[str]:
    import os
    import stat

    if not stat.S_ISREG(os.stat(path).st_mode) or os.path.getsize(path) > LARGEST:
        return
    with open(path, "rb") as file:
        magic = file.read(6)
    if magic.startswith(b"PK"):
        import zipfile

        with zipfile.ZipFile(path) as archive:
            yield from archive.namelist()
        return
    import tarfile

    with _opened(path, magic) as stream, tarfile.open(fileobj=cast(BinaryIO, _Bounded(stream)), mode="r|") as members:
        for member in members:
            yield member.name


def _opened(path: str, magic: bytes) -> BinaryIO:
    if magic.startswith(b"\x1f\x8b"):
        import gzip

        return cast(BinaryIO, gzip.open(path))
    if magic.startswith(b"BZh"):
        import bz2

        return cast(BinaryIO, bz2.open(path))
    if magic.startswith(b"\xfd7zXZ"):
        import lzma

        return cast(BinaryIO, lzma.open(path))
    return open(path, "rb")


# The files that a patch changes, by its headers:


LARGEST_PATCH: Final = 1 << 20
_LONGEST_NAME: Final = 4096
_PATCH_BLOCK = re.compile(r"^[ \t]*\*\*\* (?:(?:Add|Update|Delete) File|Move to):([^\n]+)", re.M)
_PATCH_HEADER = re.compile(
    r"^(?:---|\+\+\+|\*\*\*(?! (?:Begin|End) |.{0,20}(?:File|to):)|Index:|rename from|rename to|copy to) ([^\t\n]+)",
    re.M,
)
"""Of unified and context diffs; the lines of a block, `*** Begin Patch` and `*** Add File: x`, look alike."""
_PATCH_GIT = re.compile(r"^diff --git (\S+) (\S+)$", re.M)
_PATCH_STAMP = re.compile(r" \d{4}-\d\d-\d\d[ T][^\n]*")


def patched(text: str, strip: int | None = 1) -> list[str]:
    """The names in a patch: as written, and without their first `strip` folders; None: without any of them."""
    found = [name[1].strip() for name in _PATCH_BLOCK.finditer(text)]
    headers = [_PATCH_STAMP.sub("", name[1]).strip(' "\r') for name in _PATCH_HEADER.finditer(text)]
    headers += [name for pair in _PATCH_GIT.finditer(text) for name in pair.groups()]
    for name in [name for name in headers if name != "/dev/null"]:
        found += [name, posixpath.basename(name) if strip is None else "/".join(name.split("/")[strip:])]
    names = dict.fromkeys(name for name in found if len(name) <= _LONGEST_NAME)
    return [name for name in names if name]
