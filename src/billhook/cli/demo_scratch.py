"""The scratch folder of `billhook demo`: a project with hooks, and a home of its own, away from everything of yours."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, NamedTuple

from billhook.config import Config, load_config
from billhook.config.approving import approve_entry
from billhook.errors import BillhookError

_PREFIX: Final = "billhook-demo-"
_OVER: Final = "over"  # a file that says: the next demo may remove this folder
_LEAKS: Final = ("XDG_CONFIG_HOME", "CLAUDE_PROJECT_DIR", "BASH_ENV", "ENV")
"""Variables through which something of the person's own could have a say in the demo."""
_LINES: Final = 150  # of a log that is too long for the agent's budget


class Scratch(NamedTuple):
    """One scratch folder. Outlives its demo, so that people can look further: the next demo removes it."""

    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def home(self) -> Path:
        """Where billhook keeps what it writes."""
        return self.folder / "home"

    def config(self) -> Config:
        """The hooks of the project, and nobody else's."""
        return load_config(self.project, layers=("project",), home=self.home)

    def approve(self) -> None:
        """Approve the project's hooks, as their owner would with `billhook trust`."""
        for entry in self.config().pending:
            approve_entry(entry, self.home)

    def enter(self) -> None:
        """Be somebody who lives here, from now on: a demo is a process of its own."""
        for name in _LEAKS:
            os.environ.pop(name, None)
        os.environ |= {"HOME": str(self.home), "BILLHOOK_HOME": str(self.home)}
        os.chdir(self.project)


@contextmanager
def scratch(*, keep: bool) -> Iterator[Scratch]:
    """Make a scratch folder, which stays until the next demo; `keep`: until somebody removes it."""
    _sweep()
    made = _made()
    try:
        yield made
    finally:
        if not keep:
            (made.folder / _OVER).touch()


def _made() -> Scratch:
    try:
        made = Scratch(Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve())
        _copy(resources.files("billhook.cli") / "demo_files", made.folder)
        made.home.mkdir()
        (made.project / "old").mkdir()
        (made.project / "old" / "greet.sh").write_text("echo Hello\n")
        lines = (f"part {number} of {_LINES}: compiled, nothing to complain about\n" for number in range(1, _LINES + 1))
        (made.project / "build.log").write_text("".join(lines))
    except OSError as error:
        raise BillhookError(
            f"no scratch folder could be made: {error}", hint="the variable TMPDIR says where; is there room?"
        ) from None
    return made


def _copy(source: Traversable, target: Path) -> None:
    """The content alone: an installed package may be read-only, a copy must not be."""
    if not source.is_dir():
        target.write_bytes(source.read_bytes())
        return
    target.mkdir(exist_ok=True)
    for one in source.iterdir():
        _copy(one, target / one.name)


def _sweep() -> None:
    """Remove what earlier demos of the same person left behind: nothing piles up."""
    for over in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OVER}"):
        try:
            found = over.parent.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
            shutil.rmtree(over.parent, ignore_errors=True)
