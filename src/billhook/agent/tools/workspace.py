"""The folder that an agent works in: which paths lie inside, and how to reach them without being led out."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from billhook.agent.tool import ToolError
from billhook.errors import BillhookError

# O_PATH: a folder that may be entered but not listed will do.
_FOLDER = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Workspace:
    """One folder and the current directory in it; lives as long as the agent that works there."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise BillhookError(f"the workspace `{shown(root)}` is not a folder", hint="start in a folder that exists")
        self._cwd = self.root

    @property
    def cwd(self) -> Path:
        """Where commands start and relative paths begin. A folder that is gone means the root again."""
        if not self._cwd.is_dir():
            self.go_back()
        return self._cwd

    @cwd.setter
    def cwd(self, folder: str | os.PathLike[str]) -> None:
        """Raises ToolError for a folder outside the workspace, and for what is no folder."""
        path = self.path(os.fspath(folder))
        if not path.is_dir():
            raise ToolError(f"`{shown(folder)}` is not a folder")
        self._cwd = path

    def go_back(self) -> None:
        """Make the root the current directory again."""
        self._cwd = self.root

    def path(self, text: str) -> Path:
        """The real path behind one that a model gave, absolute or relative to `cwd`; it need not exist. Links are
        followed, and `~` is a name like any other. Raises ToolError when it ends outside."""
        try:
            real = Path(os.path.realpath(os.path.join(self.cwd, text)))
        except ValueError as error:
            raise ToolError(f"`{shown(text)}` is no path: {error}") from None
        if not real.is_relative_to(self.root):
            leads = "" if os.path.normpath(text) == str(real) else f" leads to `{shown(real)}`, which"
            raise ToolError(f"`{shown(text)}`{leads} is outside the workspace `{shown(self.root)}`")
        if why := _not_sure(real):
            raise ToolError(f"`{shown(text)}` is no path that can be followed: {why}")
        return real

    def inside(self, text: str) -> bool:
        """Whether `path` would accept it."""
        try:
            self.path(text)
        except ToolError:
            return False
        return True

    def name(self, path: Path) -> str:
        """What people call a path of this workspace: relative to its root."""
        return shown(path.relative_to(self.root)) if path.is_relative_to(self.root) else shown(path)

    @contextmanager
    def holder(self, path: Path, *, create: bool = False) -> Iterator[int]:
        """A descriptor of the folder that holds a path from `path`, for `dir_fd`; missing folders are made on demand.
        No link is followed on the way. Raises OSError."""
        held = os.open(self.root, _FOLDER)
        try:
            for name in path.parent.relative_to(self.root).parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=held)
                inner = os.open(name, _FOLDER, dir_fd=held)
                os.close(held)
                held = inner
            yield held
        finally:
            os.close(held)


def _not_sure(real: Path) -> str:
    """Why `realpath` could not see where a path leads: after a link to itself it gives up and guesses the rest."""
    try:
        real.lstat()
    except FileNotFoundError:
        pass
    except OSError as error:  # a name that is too long, a folder that may not be entered, a file taken for a folder
        return error.strerror or str(error)
    return "a link leads to itself" if real.is_symlink() or os.path.realpath(real) != str(real) else ""


def shown(path: str | os.PathLike[str]) -> str:
    """A path as text that can be printed and sent: not endless, and without the half characters of odd names."""
    text = os.fspath(path)
    short = text if len(text) <= 200 else text[:200] + "..."
    return short.encode("utf-8", "backslashreplace").decode()
