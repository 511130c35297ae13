"""`billhook fire`: build one event, fire it at hooks, show the verdict."""

import asyncio
import signal
import sys
import time
from typing import Any

import click

from billhook import process
from billhook.answers import Decision, OnFailure, Status, Verdict
from billhook.cli.event import build_event
from billhook.cli.show import not_written, note, safe, say, verdict_text
from billhook.cli.values import one_of, seconds
from billhook.dialects import DIALECTS
from billhook.engine import Engine
from billhook.errors import UsageError
from billhook.events import Event
from billhook.handlers import Command, command, execute
from billhook.hook import Hook, Source
from billhook.match import compile_matcher
from billhook.meanings import meanings


@click.command(
    "fire",
    epilog="""\b
Examples:
  billhook fire PreToolUse --tool Bash --input '{"command": "ls"}' --run ./guard.sh
  billhook fire PostToolUse --tool Write --output done --run 'echo linted' --dialect claw
  billhook fire Stop --run 'echo "tests still fail" >&2; exit 2' --json
  billhook fire --event @event.json --exec './guard.py --strict' --on-failure deny

\b
Exit code: 0 not denied, 1 denied or asked, 2 usage or broken input.""",
)
@click.argument("event", required=False, metavar="EVENT")
@click.option("--tool", metavar="NAME", help="The tool, by any name that a dialect has for it.")
@click.option(
    "--input", "input_", metavar="JSON|@FILE|@-", help="The tool's input; for other events, fields of the event."
)
@click.option("--output", metavar="JSON|TEXT|@FILE", help="What the tool returned, or why it failed.")
@click.option("--error", is_flag=True, help="The tool failed.")
@click.option("--session", metavar="ID", help="The session id.  [default: fire]")
@click.option("--cwd", metavar="DIR", help="The working directory of the event and its hooks.")
@click.option("--event", "whole", metavar="JSON|@FILE|@-", help="The whole event as JSON.")
@click.option("--run", "runs", metavar="CMD", multiple=True, help="A hook: a shell command. May be repeated.")
@click.option(
    "--exec", "execs", metavar="'ARGV...'", multiple=True, help="A hook: a program, without a shell; after all --run."
)
@click.option(
    "--dialect", **one_of(*DIALECTS), help="How hooks are spoken to: what they get, what their exit codes mean."
)
@click.option("--match", metavar="M", help="Only for tools (or sources, triggers ...) that match.")
@click.option("--timeout", metavar="S", callback=seconds, help="Seconds for each hook.")
@click.option(
    "--on-failure", **one_of("allow", "deny", "ask"), help="What a hook counts as that fails, is late or can't start."
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one line of JSON.")
def verb(**given: Any) -> int:
    """Fire one event at hooks and show what each did, and the verdict.

    EVENT is the name of an event, PreToolUse for example. Fields that are not given get sample values.
    """
    event = build_event(given)
    hooks = build_hooks(given, event)
    process.adopt_orphans()
    engine = Engine(hooks)
    caught: list[int] = []
    try:
        verdict = asyncio.run(_fire(engine, event, caught))
        _catch_signals(caught)
        try:
            _show(verdict, hooks, as_json=given["as_json"])
        except OSError as error:
            not_written(error)  # the exit code still tells
        _show_later(engine, verdict, given["timeout"] or 600.0, caught)
    except KeyboardInterrupt:
        return 128 + (caught or [signal.SIGINT])[0]
    finally:
        _catch_signals([])
        engine.background.cancel()
        process.settle()
    return 1 if verdict.decision in (Decision.DENY, Decision.ASK, Decision.DEFER) else 0


def build_hooks(given: dict[str, Any], event: Event) -> list[Hook]:
    """The hooks of --run and --exec: those of --run first, each in the order in which they stand there."""
    dialect: str = given["dialect"]
    if given["match"] is not None:
        problem = compile_matcher(given["match"], meanings(dialect).matching, event.hook_event_name).problem
        if problem:
            note(f"--match `{given['match']}` matches everything: {problem}")
    runs = [(text, command(text, dialect=dialect)) for text in given["runs"]]
    runs += [(text, _program(text, dialect)) for text in given["execs"]]
    on_failure: OnFailure = given["on_failure"]

    def hook(number: int, text: str, run: Command) -> Hook:
        return Hook(
            name=f"hook-{number}",
            title=text,
            run=run,
            match=given["match"],
            timeout=given["timeout"],
            on_failure=on_failure,
            dialect=dialect,
            source=Source(layer="command line"),
        )

    return [hook(number, text, run) for number, (text, run) in enumerate(runs, 1)]


def _program(text: str, dialect: str) -> Command:
    try:
        return execute(text, dialect=dialect)
    except UsageError as error:
        raise UsageError(f"--exec `{text}`: {error.message}", hint=error.hint) from None


async def _fire(engine: Engine, event: Event, caught: list[int]) -> Verdict:
    """Fire; a signal that ends us ends the hooks first, and is noted. (Ctrl-C is asyncio's own affair.)"""
    task = asyncio.current_task()
    assert task is not None

    def end(number: int) -> None:
        caught.append(number)
        task.cancel()

    if sys.platform != "win32":
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await engine.fire(event)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _catch_signals(caught: list[int]) -> None:
    """From now on a signal that would end us is only noted, in the list: one that broke into the wait for a thread
    would leave its hook running."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda caught_number, frame: caught.append(caught_number))


def _show(verdict: Verdict, hooks: list[Hook], *, as_json: bool) -> None:
    if as_json:
        say(verdict.to_json())
        return
    say(verdict_text(verdict, {hook.name: hook.title for hook in hooks}))
    if not hooks:
        say("\nhint: give hooks with --run 'COMMAND' or --exec 'PROGRAM ARGS'", err=True)
    elif not verdict.outcomes and hooks[0].match is not None:
        say(f"\nhint: --match `{safe(hooks[0].match)}` does not match `{safe(verdict.about.target or '')}`", err=True)
    elif verdict.failed_open:
        say("\nhint: --on-failure deny makes such a hook hold the event up", err=True)


def _show_later(engine: Engine, verdict: Verdict, seconds: float, caught: list[int]) -> None:
    """Hooks that answer later would carry their answer to the next event; here there is none, so it is shown."""
    if not any(outcome.status is Status.BACKGROUND for outcome in verdict.outcomes):
        return
    say("waiting for hooks that answer later ...", err=True)
    end = time.monotonic() + seconds
    while not engine.background.settle(0.05) and not caught and time.monotonic() < end:
        pass
    if caught:
        raise KeyboardInterrupt
    came = {outcome.hook: outcome for outcomes in engine.background.answers.values() for outcome in outcomes}
    for asked in verdict.outcomes:
        if asked.status is not Status.BACKGROUND:
            continue
        late = came.get(asked.hook)
        if late is None or late.status is Status.TIMED_OUT:
            say(f"{asked.hook} gave no answer in time, and is ended", err=True)
        else:
            text = late.answer.context or late.answer.message or late.error or "nothing to say"
            say(f"{asked.hook} answered later: {safe(text)}", err=True)
