"""Which files are written by programs that fetch, unpack or patch."""

import posixpath
from collections.abc import Sequence

from billhook.builtins.touch import Touch, Words, Writes, after
from billhook.script import UNKNOWN


def curl(words: Sequence[str]) -> Writes:
    said = Words(
        words[1:],
        "oAbcCdDeEFHKmQrtTuUwxXyYz",
        "output output-dir cookie-jar dump-header trace stderr data header request url",
    )
    folder = next(iter(said.values("output-dir")), "")
    targets = said.values("o", "output", "c", "cookie-jar", "D", "dump-header", "trace", "stderr")
    if said.has("O", "remote-name", "remote-name-all", "J"):
        targets += [posixpath.basename(url) for url in [*said.operands, *said.values("url")]]
    return Writes([Touch(posixpath.join(folder, target) if folder else target) for target in targets])


def wget(words: Sequence[str]) -> Writes:
    said = Words(
        words[1:],
        "OPoaiBtTwQeU",
        "output-document directory-prefix output-file append-output input-file user-agent header",
    )
    targets = said.values("O", "output-document", "o", "output-file", "a", "append-output")
    folder = next(iter(said.values("P", "directory-prefix")), "")
    if not said.has("O", "output-document"):
        targets += [posixpath.join(folder, posixpath.basename(url)) for url in said.operands]
    return Writes([Touch(target) for target in targets])


def tar(words: Sequence[str]) -> Writes:
    """The members that are named, or all that an archive has, if it can be read; and a place to unpack that is ours."""
    first = words[1] if len(words) > 1 else ""
    rest = ["-" + first if first[:1] not in ("-", "") else first, *words[2:]]
    said = Words(rest, "fCTXbgIHV" if first[:1] == "-" else "", "file directory exclude strip-components transform")
    archives, folders = said.values("f", "file"), said.values("C", "directory")
    members = list(said.operands)
    if first[:1] != "-" and "f" in first:
        archives, members = members[:1], members[1:]
        folders = list(after(words, "-C", "--directory"))
        members = [member for member in members if member not in folders]
    if said.has("x", "extract", "get"):
        folder = folders[-1] if folders else "."
        inside = [Touch(posixpath.join(folder, member), below=True) for member in members]
        found = Writes([Touch(folder, sources=(UNKNOWN,)), *inside], into=folder)
        found.archives = [] if members else archives or ["-"]
        found.strip = number(said.values("strip-components"), 0)
        return found
    removes = [Touch(path, below=True) for path in members] if said.has("remove-files") else []
    return Writes([Touch(path) for path in archives if said.has("c", "create", "r", "u", "A")] + removes)


def unzip(words: Sequence[str]) -> Writes:
    said = Words(words[1:], "dxP")
    if said.has("l", "p", "t", "v", "Z"):
        return Writes()
    folder = next(iter(said.values("d")), ".")
    inside = [Touch(posixpath.join(folder, member), loose=True) for member in said.operands[1:]]
    found = Writes([Touch(folder, sources=(UNKNOWN,)), *inside], into=folder)
    found.archives = [] if inside else [name for each in said.operands[:1] for name in (each, each + ".zip")]
    found.strip = None if said.has("j") else 0
    return found


def python_unpacks(words: Sequence[str]) -> Writes | None:
    """`python -m zipfile -e x.zip d`, `python -m tarfile -e x.tar d`; None: something else."""
    if words[0] not in ("zipfile", "tarfile") or not {"-e", "--extract"} & set(words):
        return None
    operands = [word for word in words[1:] if not word.startswith("-")]
    folder = operands[1] if operands[1:] else "."
    return Writes([Touch(folder, sources=(UNKNOWN,))], archives=operands[:1], into=folder)


def cpio(words: Sequence[str]) -> Writes:
    said = Words(words[1:], "DFOEHMIC", "directory file")
    folder = next(iter(said.values("D", "directory")), ".")
    return Writes([Touch(folder, sources=(UNKNOWN,))] + [Touch(path) for path in said.operands + said.values("O", "F")])


def patch(words: Sequence[str]) -> Writes:
    said = Words(words[1:], "dioprBDFVYz", "directory input output strip")
    found = Writes([Touch(path) for path in [*said.operands[:1], *said.values("o", "output")]], runs_input=True)
    found.folder = next(iter(said.values("d", "directory")), None)
    found.patches = [*said.operands[1:2], *said.values("i", "input")]
    found.strip = number(said.values("p", "strip"), None)
    return found


def number(values: Sequence[str], otherwise: int | None) -> int | None:
    """The number that an option says."""
    return int(values[-1]) if values and values[-1].isdecimal() and len(values[-1]) < 4 else otherwise
