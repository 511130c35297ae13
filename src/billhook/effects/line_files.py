"""Files as one line sees them: what it writes itself, and what is on the disk."""

import posixpath
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from billhook.effects.effect import UNKNOWN, Command
from billhook.effects.outputs import DOWNLOADS, PACKERS, TEMPORARY
from billhook.effects.places import FileSystem, Overlay, inside
from billhook.effects.programs import Options
from billhook.effects.run import Run, Value
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import word_set

MOST_FILES: Final = 8  # that are read
LARGEST_FILE: Final = 64 * 1024
_DOWNLOAD_VALUES: Final = word_set("-o --output -O --output-document -P -d --dir")
FETCHED: Final = Value(UNKNOWN, frozenset({"remote", "fetched"}))
"""What comes from a place that may be one's own: a bucket, a host, an archive."""
_CURL_VALUES: Final = word_set("-o --output --output-dir -H --header -d --data -X -A -u -b -e")


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

    def contents(self, value: Value) -> Value:
        """A value that is the text of files, or a part of it: that text, if it can be read."""
        if value.text != UNKNOWN:
            return value
        paths = [origin.partition(":")[2] for origin in value.origins if origin.startswith(("file:", "lines:"))]
        texts = [text.replace(UNKNOWN, "\n") for text in map(self.read, paths) if text is not None]
        return Value("\n".join(texts), value.origins) if texts and len(texts) == len(paths) else value

    def holds_secret(self, words: Iterable[str], run: Run) -> bool:
        """Whether a word names a file that the line itself filled with a secret: `cp .env x; curl -F f=@x ...`."""
        secret = {path for path, value in self.written.items() if "secret" in value.origins}
        return bool(secret) and any(run.path(word.rpartition("@")[2].rpartition("=")[2]) in secret for word in words)


# what programs write, as far as it matters for what follows in the line


def note_made(command: Command, printed: Value, run: Run) -> None:
    """Remember the files, folders and links that a command makes."""
    for maker in _MAKERS.get(command.name, ()):
        maker(command, printed, run)


def _operands(command: Command) -> list[str]:
    return [word for word in command.args if not word.startswith("-")]


def _folders(command: Command, printed: Value, run: Run) -> None:
    run.files.overlay.made |= {run.path(word): "dir" for word in _operands(command)}


def _temporary(command: Command, printed: Value, run: Run) -> None:
    run.files.overlay.made[TEMPORARY] = "dir"


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
        overlay.links[target] = source


def _download(command: Command, printed: Value, run: Run) -> None:
    """What runs a downloaded file runs something remote."""
    for word in _downloads(command):
        run.files.written[run.path(word)] = Value(UNKNOWN, frozenset({"remote"}))


def _downloads(command: Command) -> Iterator[str]:
    options = Options(command.args, _CURL_VALUES if command.name == "curl" else _DOWNLOAD_VALUES)
    named = options.values("-o", "--output", "-O", "--output-document")
    yield from named
    if not named and (command.name in ("wget", "aria2c", "axel") or options.has("-O", "--remote-name")):
        urls = (word for word in options.operands if "/" in word)
        yield from (posixpath.basename(url.rstrip("/").partition("?")[0]) for url in urls)


def _unpack(command: Command, printed: Value, run: Run) -> None:
    """`curl ... | tar xz`: what it unpacks came from there."""
    if run.fed is not None and "remote" in run.fed.origins:
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


_Maker = Callable[[Command, Value, Run], None]
_MAKERS: Final[dict[str, tuple[_Maker, ...]]] = {
    "mkdir": (_folders,),
    "mktemp": (_temporary,),
    "tee": (_tee,),
    "ln": (_link, _copy),
    **dict.fromkeys(("cp", "mv", "install"), (_copy,)),
    **dict.fromkeys(DOWNLOADS | {"axel"}, (_download,)),
    **dict.fromkeys(PACKERS, (_pack,)),
    "tar": (_pack, _unpack),
    **dict.fromkeys(("bsdtar", "cpio"), (_unpack,)),
    **dict.fromkeys(("scp", "rsync", "aws", "gsutil", "gcloud", "gh", "rclone"), (_fetch,)),
}
