"""The files that a patch changes, by its headers: unified diffs, git's, and `*** Update File:` blocks."""

import posixpath
import re
from typing import Final

LARGEST: Final = 1 << 20
_LONGEST_NAME: Final = 4096
_BLOCK = re.compile(r"^[ \t]*\*\*\* (?:(?:Add|Update|Delete) File|Move to):([^\n]+)", re.M)
_HEADER = re.compile(r"^(?:---|\+\+\+|\*\*\*|Index:|rename from|rename to|copy to) ([^\t\n]+)", re.M)
_GIT = re.compile(r"^diff --git (\S+) (\S+)$", re.M)
_STAMP = re.compile(r" \d{4}-\d\d-\d\d[ T][^\n]*")


def patched(text: str, strip: int | None = 1) -> list[str]:
    """The names in a patch: as written, and without their first `strip` folders; None: without any of them."""
    found = [name[1].strip() for name in _BLOCK.finditer(text)]
    headers = [_STAMP.sub("", name[1]).strip(' "\r') for name in _HEADER.finditer(text)]
    headers += [name for pair in _GIT.finditer(text) for name in pair.groups()]
    for name in [name for name in headers if name != "/dev/null"]:
        found += [name, posixpath.basename(name) if strip is None else "/".join(name.split("/")[strip:])]
    names = dict.fromkeys(name for name in found if len(name) <= _LONGEST_NAME)
    return [name for name in names if name]


def patched_by(path: str, strip: int | None) -> list[str]:
    """The names in a patch file, if it is there and not too large."""
    import os
    import stat

    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return []  # a pipe would keep us waiting
        with open(path, "rb") as file:
            text = file.read(LARGEST + 1)
    except (OSError, ValueError):
        return []
    return patched(text.decode(errors="replace"), strip) if len(text) <= LARGEST else []
