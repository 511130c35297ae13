"""Where things lie below the state root. Session ids and project paths are hostile file names."""

import os
import re
from pathlib import Path

from billhook.later import pattern
from billhook.store.digest import sha256

_PLAIN = pattern(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_RESERVED = pattern(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.I)
_LONGEST = 200  # bytes of a folder's name: file systems take 255, and something is added to some


def file_name(key: str, folder: Path) -> str:
    """A name in `folder` for any text, without its ending: never a path, never another text's name.

    A plain id is its own name. Anything else, and on a file system that takes `A` for `a` also an id with capitals, is
    its harmless characters, a tilde, which no plain id has, and a digest.
    """
    if _PLAIN.fullmatch(key) and not _RESERVED.fullmatch(key) and (key == key.lower() or not _folds_case(folder)):
        return key
    harmless = re.sub(r"[^a-z0-9_-]+", "-", key[:60].lower()).strip("-")
    return f"{harmless or 'none'}~{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def project_name(project: str) -> str:
    """The name of a project's folder: its path, every character outside A-Z a-z 0-9 turned to `-`, as seed 002 has it.

    Two projects may share one (`/a-b` and `/a/b`): every record names its project.
    """
    name = re.sub(r"[^A-Za-z0-9]", "-", project)
    if len(name) <= _LONGEST:
        return name or "-"
    return f"{name[: _LONGEST - 17]}-{sha256(os.fsencode(project)).hexdigest()[:16]}"


def log_folder(root: Path, project: str) -> Path:
    """The folder of a project's event log."""
    return root / "hooks" / project_name(project)


def _folds_case(folder: Path) -> bool:
    """Whether the file system takes capitals and small letters for the same."""
    swapped = folder.with_name(folder.name.swapcase())
    try:
        return os.path.samefile(folder, swapped)
    except OSError:
        return False
