"""The key of the digests that stand for what was redacted: `billhook/redaction.key`, 32 random bytes, made once."""

import errno
import functools
import os
import time
from pathlib import Path
from typing import Final

from billhook.store.files import TEMPORARY, StoreError, opened, read_in

KEY_BYTES: Final = 32
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EINVAL})


def key_file(root: Path) -> Path:
    """Where the key lies."""
    return root / "billhook" / "redaction.key"


def kept_key(root: Path) -> bytes:
    """The user's key, made if there is none: whoever comes at the same time gets the same one. Raises StoreError."""
    path = key_file(root)
    with opened(path.parent, root, create=True) as folder:
        assert folder is not None
        found = read_in(folder, path, KEY_BYTES, private=True)
        if found is None:
            _make(folder, path)
            found = read_in(folder, path, KEY_BYTES, private=True)
        for _ in range(20):  # where there are no hard links, another process may be about to write it
            if found:
                break
            time.sleep(0.005)
            found = read_in(folder, path, KEY_BYTES, private=True)
    if found is None or len(found) != KEY_BYTES:
        size = 0 if found is None else len(found)
        raise StoreError(f"it has {size} bytes and not {KEY_BYTES}", place=str(path), hint=f"remove it: rm {path}")
    return found


@functools.cache
def own_key() -> bytes:
    """A key that nobody but this process has."""
    return os.urandom(KEY_BYTES)


def _make(folder: int, path: Path) -> None:
    """Create the file whole, and only if there is none yet."""
    temporary = TEMPORARY + os.urandom(8).hex()
    try:
        _write_new(temporary, folder)
        try:
            os.link(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _write_new(path.name, folder)
        finally:
            os.unlink(temporary, dir_fd=folder)
    except FileExistsError:
        pass
    except OSError as error:
        hint = "set BILLHOOK_HOME to a folder that you can write"
        raise StoreError(f"can't write it: {error.strerror}", place=str(path), hint=hint) from error


def _write_new(name: str, folder: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        if os.write(file, os.urandom(KEY_BYTES)) != KEY_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file)
    except OSError:
        os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(file)
