"""Where configurations are kept that records name by their hash, and whether one is still what it was."""

from pathlib import Path
from typing import Final

from billhook.later import pattern
from billhook.store import files
from billhook.store.digest import sha256
from billhook.store.files import StoreError

LARGEST_SNAPSHOT: Final = 64 << 20
_HASH: Final = pattern(r"[0-9a-f]{64}")


def snapshot_path(root: Path, hash: str) -> Path:  # noqa: A002 (the word that records use)
    """The file of the configuration that has this hash."""
    return root / "billhook" / "configs" / f"{hash}.json"


def is_hash(text: object) -> bool:
    """Whether it could be the hash of a configuration."""
    return isinstance(text, str) and _HASH.fullmatch(text) is not None


def what_is_wrong(root: Path, hash: str) -> str:  # noqa: A002
    """What became of the configuration that has this hash; empty when it is there as it was. Never raises."""
    try:
        data = files.read_bytes(snapshot_path(root, hash), LARGEST_SNAPSHOT, root=root)
    except StoreError as error:
        return f"can't be read: {error.message}"
    if data is None:
        return "is missing"
    return "" if sha256(data).hexdigest() == hash else "was changed"
