"""`billhook demo`: an agent's session from its first event to its last, played by a scripted model among real hooks."""

import asyncio
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stderr
from pathlib import Path
from typing import Any, Final

import click

from billhook import process, strictjson
from billhook.agent.models.scripted import Scripted
from billhook.agent.opening import open_agent
from billhook.agent.shown import Ended, Show, TextDelta
from billhook.cli.agent_screen import Screen, Stream, in_loop
from billhook.cli.agent_terminal import Interrupts
from billhook.cli.demo_scratch import Scratch, scratch
from billhook.cli.events_filters import Filters, chosen
from billhook.cli.events_log import Logs, here
from billhook.cli.events_view import Printer
from billhook.cli.firing import catch_signals
from billhook.cli.show import note, say
from billhook.cli.table import filled
from billhook.config import Config
from billhook.store.record import ALL, Record

LIFECYCLE: Final = (
    "Setup", "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure",
    "SubagentStart", "SubagentStop", "PreCompact", "Stop", "TaskCompleted", "TeammateIdle", "Notification",
    "SessionEnd",
)  # fmt: skip
"""The events that an agent's life is made of; the demo has every one."""
PROMPT: Final = "Write a greeting, clear the old program away, and have it all tried."
_MODEL: Final = "../turns.yaml"
_BUDGET: Final = 1500  # tokens: one long file is too much, so that the conversation is compacted
_HEAD: Final = """\
An agent works in a scratch folder. What it says comes from a script (no key is
needed); its tools, the hooks around them and the log are real."""


@click.command(
    "demo",
    epilog="""\b
Exit code: 0 everything happened as it should, 1 something did not, 130 interrupted.""",
)
@click.option("--json", "as_json", is_flag=True, help="Print the typed events of the run, one line of JSON each.")
@click.option("--keep", is_flag=True, help="Let the scratch folder stay; else the next demo removes it.")
def verb(as_json: bool, keep: bool) -> int:
    """Watch an agent work among hooks: all 15 events of an agent's life, in a few seconds, without a key.

    It runs in a scratch folder with a home of its own: nothing of yours is read or changed. At the end stand the
    commands to look at what happened there.
    """
    with scratch(keep=keep) as made:
        made.enter()
        made.approve()
        began = time.monotonic()
        ended, code = _played(made, as_json)
        if ended.how == "interrupted":
            return code or 130
        return _Report(made, ended, time.monotonic() - began).tell(as_json) or code


def _played(made: Scratch, as_json: bool) -> tuple[Ended, int]:
    """Play the session: how it ended, and the exit code when a signal ended it or its output was lost."""
    process.adopt_orphans()
    try:
        # One reader reads it all, in this order: here is no answer that must be kept apart.
        with nullcontext() if as_json else redirect_stderr(sys.stdout):
            return asyncio.run(_session(made, as_json))
    finally:
        catch_signals([])
        process.settle()


async def _session(made: Scratch, as_json: bool) -> tuple[Ended, int]:
    config = made.config()
    screen = Screen(hooks=len(config.entries), streams=True)
    output = Stream() if as_json else screen
    show: Show = output if as_json else _Paragraphs(screen)
    interrupts = Interrupts(screen.interrupted)
    interrupts.catch()
    if not as_json:
        say(f"{_HEAD}\n\n{click.style(f'> {PROMPT}', bold=True)}")
    ended = Ended("interrupted", "")
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


async def _run(config: Config, show: Show, interrupts: Interrupts) -> Ended:
    settings: Any = {"permission_mode": "acceptEdits", "setup": "init", "budget": _BUDGET}
    async with open_agent(config, Scripted.read(_MODEL), cwd=config.project, show=show, **settings) as agent:
        try:
            return await interrupts.turn(agent.run(PROMPT), agent)
        finally:
            interrupts.leave(agent.session.end_background)


class _Paragraphs:
    """A screen with a blank line before each thing that the agent says: what follows belongs to that."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._speaks = False

    def __call__(self, event: Any) -> None:
        speaks = isinstance(event, TextDelta) and event.agent == "main"
        if speaks and not self._speaks:
            self._screen.line("")
        self._speaks = speaks
        self._screen(event)


class _Report:
    """What the log has of a session that was played, whether that is all, and where to look further."""

    def __init__(self, made: Scratch, ended: Ended, seconds: float) -> None:
        self.made, self.ended, self.seconds = made, ended, seconds
        self.here = here()
        logs = Logs({self.here.project: ALL}, self.here)
        self.records = [entry.record for entry in logs.forward()]

    def tell(self, as_json: bool) -> int:
        """Print it; the exit code."""
        amiss = list(self.amiss())
        if as_json:
            where = {"project": str(self.made.project), "home": str(self.made.home)}
            say(strictjson.dumps({"type": "demo", **where, "amiss": amiss}))
        else:
            self._table()
            say("\n".join(["", *self._next()]))
        for one in amiss:
            note(f"not as it should be: {one}")
        return 1 if amiss else 0

    def amiss(self) -> Iterator[str]:
        """What should have happened, and did not."""
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

    def _table(self) -> None:
        logs = chosen(Filters(sessions=(".",), events=LIFECYCLE), self.here)
        say("\n" + click.style("Every event is in the log, with what hooks said to it", bold=True) + "\n")
        Printer(self.here).show(logs, logs.forward())

    def _next(self) -> Iterator[str]:
        there = {record.event for record in self.records}
        happened = [event for event in LIFECYCLE if event in there]
        all_ = "All" if len(happened) == len(LIFECYCLE) else f"{len(happened)} of the"
        text = f"{all_} {len(LIFECYCLE)} events of an agent's life happened, in {self.seconds:.1f} s: "
        yield from filled(text + ", ".join(happened), 0)
        yield ""
        yield click.style("Look further", bold=True)
        yield f"  cd {shlex.quote(str(self.made.project))}"
        home = shlex.quote(str(self.made.home))
        yield f"  export HOME={home} BILLHOOK_HOME={home} XDG_CONFIG_HOME={home}"
        yield "      in this shell: your own hooks stay out of it"
        program, path = _program()
        if path:
            yield f"  export PATH={shlex.quote(path)}:$PATH"
        for command, shows in self._commands():
            yield f"  {program} {command}"
            yield f"      {shows}"
        yield f"  rm -r {shlex.quote(str(self.made.folder))}"
        yield "      removes it all"

    def _commands(self) -> Iterator[tuple[str, str]]:
        yield "events . --json", "every event whole, as its hooks got it"
        if self.denied is not None:
            yield f"explain {self.denied.seq}", "why `rm -rf` did not run"
        yield "list", "the hooks: they are in hooks.yaml, to play with"
        again = f"agent --init --permission-mode acceptEdits --context-budget {_BUDGET} --model scripted:{_MODEL}"
        yield f"{again} -p 'Once more'", "the script once more, in the folder as it is now: `old` is moved already"
        yield "agent", "with a key of your own: ask what you like"


def _program() -> tuple[str, str]:
    """How to call this billhook from anywhere: its name, and the folder that the PATH lacks."""
    ours = Path(sys.executable).with_name("billhook")
    if not ours.exists():
        return f"{shlex.quote(sys.executable)} -m billhook", ""
    found = shutil.which("billhook")
    return "billhook", "" if found is not None and Path(found).samefile(ours) else str(ours.parent)
