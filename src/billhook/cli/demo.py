"""`billhook demo`: an agent works with hooks in a scratch folder, with a separate project and home."""

import asyncio
import os
import shlex
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from billhook.agent.factory import open_agent
from billhook.agent.script import ScriptedModel
from billhook.agent.ui_events import Show, TextDelta, TurnEnded
from billhook.cli.agent.terminal import Interrupts, JsonStream, Screen, in_loop
from billhook.cli.events import Printer
from billhook.cli.events.query import Filters, Logs, chosen, here
from billhook.cli.options import flag, usage
from billhook.cli.screen import filled, note, write, write_json
from billhook.cli.signals import catch_signals
from billhook.config.config import Config
from billhook.config.loader import load_config
from billhook.config.trust import approve_entry
from billhook.core.errors import BillhookError
from billhook.runners import process_tree
from billhook.store.log import ALL, Record

_PREFIX: Final = "billhook-demo-"
_OVER: Final = "over"  # a file that marks a folder which the next demo may remove
_LEAKS: Final = ("XDG_CONFIG_HOME", "CLAUDE_PROJECT_DIR", "BASH_ENV", "ENV")
"""Variables through which the user's own files could affect the demo."""
_LINES: Final = 150  # lines of a log that exceeds the agent's budget


class DemoFolder(NamedTuple):
    """A scratch folder. It stays after the demo for a closer look, and the next demo removes it."""

    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def home(self) -> Path:
        """The folder for billhook's files."""
        return self.folder / "home"

    def config(self) -> Config:
        """The hooks of the project, without the user's own."""
        return load_config(self.project, layers=("project",), home=self.home)

    def approve(self) -> None:
        for entry in self.config().pending:
            approve_entry(entry, self.home)

    def enter(self) -> None:
        """Use this home and project from now on: a demo is a separate process."""
        for name in _LEAKS:
            os.environ.pop(name, None)
        os.environ |= {"HOME": str(self.home), "BILLHOOK_HOME": str(self.home)}
        os.chdir(self.project)


@contextmanager
def scratch(*, keep: bool) -> Iterator[DemoFolder]:
    """Make a scratch folder, which stays until the next demo. `keep`: until the user removes it."""
    _sweep()
    try:
        made = DemoFolder(Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve())
        _copy(resources.files("billhook.cli") / "demo_files", made.folder)
        made.home.mkdir()
        (made.project / "old").mkdir()
        (made.project / "old" / "greet.sh").write_text("echo Hello\n")
        lines = (f"part {number} of {_LINES}: compiled without warnings\n" for number in range(1, _LINES + 1))
        (made.project / "build.log").write_text("".join(lines))
    except OSError as error:
        remedy = "check the folder of the variable TMPDIR, and its free space"
        raise BillhookError(f"can't create a scratch folder: {error}", hint=remedy) from None
    try:
        yield made
    finally:
        if not keep:
            (made.folder / _OVER).touch()


def _copy(source: Traversable, target: Path) -> None:
    """Copy the content only: an installed package may be read-only, and the copy must be writable."""
    if not source.is_dir():
        target.write_bytes(source.read_bytes())
        return
    target.mkdir(exist_ok=True)
    for one in source.iterdir():
        _copy(one, target / one.name)


def _sweep() -> None:
    for over in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OVER}"):
        with suppress(OSError):
            found = over.parent.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
                shutil.rmtree(over.parent, ignore_errors=True)


# `billhook demo`:
LIFECYCLE: Final = (
    "Setup", "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure",
    "SubagentStart", "SubagentStop", "PreCompact", "Stop", "TaskCompleted", "TeammateIdle", "Notification",
    "SessionEnd",
)  # fmt: skip
"""The events of an agent's session; the demo has every one."""
PROMPT: Final = "Write a greeting, remove the old program, and test everything."
_MODEL: Final = "../turns.yaml"
_BUDGET: Final = 1500  # tokens: one long file exceeds it, so that the conversation is compacted
_HEAD: Final = (
    "An agent works in a scratch folder. Its text comes from a script, so it needs no API key. "
    "Its tools, the hooks and the log are real."
)


@usage("""\b
Examples:
  billhook demo
  billhook demo --keep

Exit code: 0 everything worked, 1 something failed, 130 interrupted.""")
@flag("--json", "as_json", "Print the typed events of the run, one line of JSON each.")
@flag("--keep", "Keep the scratch folder. By default the next demo removes it.")
def verb(as_json: bool, keep: bool) -> int:
    """Watch an agent work with hooks: 15 kinds of events in one session, in a few seconds, without an API key.

    Runs in a scratch folder with a separate home. Your files are neither read nor changed. At the end it prints
    commands for a closer look.
    """
    with scratch(keep=keep) as made:
        made.enter()
        made.approve()
        began = time.monotonic()
        ended, code = _played(made, as_json)
        if ended.how == "interrupted":
            return code or 130
        return _DemoReport(made, ended, time.monotonic() - began).report(as_json) or code


def _played(made: DemoFolder, as_json: bool) -> tuple[TurnEnded, int]:
    """Play the session. Returns its end, and the exit code if a signal or lost output ended it."""
    process_tree.adopt_orphans()
    try:
        # Both streams in one, in order: there is no answer that must be kept separate.
        with nullcontext() if as_json else redirect_stderr(sys.stdout):
            return asyncio.run(_session(made, as_json))
    finally:
        catch_signals([])
        process_tree.settle()


async def _session(made: DemoFolder, as_json: bool) -> tuple[TurnEnded, int]:
    config = made.config()
    screen = Screen(hooks=len(config.entries), streams=True)
    output = JsonStream() if as_json else screen
    show: Show = output if as_json else _Paragraphs(screen)
    interrupts = Interrupts(screen.interrupted)
    interrupts.catch()
    if not as_json:
        write("\n".join(filled(_HEAD, 0)))
        write(f"\n{click.style(f'> {PROMPT}', bold=True)}")
    ended = TurnEnded("interrupted", "")
    try:
        ended = await _run(config, in_loop(show), interrupts)
    except asyncio.CancelledError:
        if not interrupts.code:
            raise
    finally:
        interrupts.ignore()
    if as_json or ended.how != "done":
        show(ended)
    return ended, interrupts.code or (2 if output.unwritten else 0)


async def _run(config: Config, show: Show, interrupts: Interrupts) -> TurnEnded:
    settings: Any = {"permission_mode": "acceptEdits", "setup": "init", "budget": _BUDGET}
    async with open_agent(config, ScriptedModel.read(_MODEL), cwd=config.project, show=show, **settings) as agent:
        try:
            return await interrupts.turn(agent.run(PROMPT), agent)
        finally:
            interrupts.leave(agent.session.end_background)


class _Paragraphs:
    """A screen with a blank line before each text of the agent. Its tool calls follow that text."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._in_text = False

    def __call__(self, event: Any) -> None:
        in_text = isinstance(event, TextDelta) and event.agent == "main"
        if in_text and not self._in_text:
            self._screen.line("")
        self._in_text = in_text
        self._screen(event)


class _DemoReport:
    """What the log contains about the session, whether it is complete, and further commands."""

    def __init__(self, made: DemoFolder, ended: TurnEnded, seconds: float) -> None:
        self.made, self.ended, self.seconds = made, ended, seconds
        self.here = here()
        logs = Logs({self.here.project: ALL}, self.here)
        self.records = [entry.record for entry in logs.forward()]

    def report(self, as_json: bool) -> int:
        amiss = list(self.amiss())
        if as_json:
            where = {"project": str(self.made.project), "home": str(self.made.home)}
            write_json({"type": "demo", **where, "amiss": amiss})
        else:
            logs = chosen(Filters(sessions=(".",), events=LIFECYCLE), self.here)
            write("\n" + click.style("Every event is in the log, with the answers of hooks", bold=True) + "\n")
            Printer(self.here).show(logs, logs.forward())
            write("\n".join(["", *self._next()]))
        for one in amiss:
            note(f"unexpected: {one}")
        return 1 if amiss else 0

    def amiss(self) -> Iterator[str]:
        """What should have happened and did not."""
        if self.ended.how != "done":
            yield f"the session {self.ended.how}: {self.ended.text}"
        happened = {record.event for record in self.records}
        yield from (f"no {event} in the log" for event in LIFECYCLE if event not in happened)
        if self.denied is None:
            yield "nothing was denied"
        if not (self.made.project / ".trash" / "old" / "greet.sh").exists():
            yield "`old` is not in .trash/"

    @property
    def denied(self) -> Record | None:
        return next((record for record in self.records if record.decision == "deny"), None)

    def _next(self) -> Iterator[str]:
        there = {record.event for record in self.records}
        happened = [event for event in LIFECYCLE if event in there]
        all_ = "All" if len(happened) == len(LIFECYCLE) else f"{len(happened)} of the"
        text = f"{all_} {len(LIFECYCLE)} events of a session happened in {self.seconds:.1f} s: "
        yield from filled(text + ", ".join(happened), 0)
        yield from ("", click.style("A closer look", bold=True))
        yield f"  cd {shlex.quote(str(self.made.project))}"
        home = shlex.quote(str(self.made.home))
        yield f"  export HOME={home} BILLHOOK_HOME={home} XDG_CONFIG_HOME={home}"
        yield "      for this shell, so that your own hooks do not apply"
        program, path = _program()
        if path:
            yield f"  export PATH={shlex.quote(path)}:$PATH"
        again = f"agent --init --permission-mode acceptEdits --context-budget {_BUDGET} --model scripted:{_MODEL}"
        commands = {
            "events . --json": "every event in full",
            **({f"explain {self.denied.seq}": "why `rm -rf` did not run"} if self.denied is not None else {}),
            "list": "the hooks; edit them in hooks.yaml",
            f"{again} -p 'Once more'": "run the script again, in the folder as it is now",
            "agent": "with your own API key: any prompt",
        }
        for command, shows in commands.items():
            yield f"  {program} {command}"
            yield f"      {shows}"
        yield f"  rm -r {shlex.quote(str(self.made.folder))}"
        yield "      remove everything"


def _program() -> tuple[str, str]:
    """How to run this billhook from anywhere: its name, and the folder to add to PATH."""
    ours = Path(sys.executable).with_name("billhook")
    if not ours.exists():
        return f"{shlex.quote(sys.executable)} -m billhook", ""
    found = shutil.which("billhook")
    return "billhook", "" if found is not None and Path(found).samefile(ours) else str(ours.parent)
