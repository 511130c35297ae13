"""`billhook fire`: build one event, fire it at hooks, show the verdict."""

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from billhook import process
from billhook.agents import DIALECTS
from billhook.answers import Decision, OnFailure, Status, Verdict
from billhook.cli.event import build_event
from billhook.cli.firing import catch_signals, fire
from billhook.cli.show import hint, not_written, note, say, verdict_text
from billhook.cli.table import unreadable, with_shown_paths
from billhook.cli.values import one_of, seconds
from billhook.config import configured
from billhook.engine import Engine
from billhook.errors import UsageError
from billhook.events import Event
from billhook.handlers import Command, command, execute
from billhook.hook import Hook, Source
from billhook.match import compile_matcher
from billhook.meanings import meanings
from billhook.text import visible

if TYPE_CHECKING:
    from billhook.config import Config


@click.command(
    "fire",
    epilog="""\b
Examples:
  billhook fire PreToolUse --tool Bash --input '{"command": "git push --force"}'
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
@click.option("--session", metavar="ID", help="The session id.  [default: one for each project]")
@click.option("--cwd", metavar="DIR", help="The working directory of the event and its hooks.")
@click.option("--event", "whole", metavar="JSON|@FILE|@-", help="The whole event as JSON.")
@click.option("--config", "files", metavar="FILE", multiple=True, help="One more configuration file. May be repeated.")
@click.option(
    "--trust",
    **one_of("approved", "all", "none"),
    help="Which hooks of the project run: those that were approved, all this once, or none.",
)
@click.option(
    "--run",
    "runs",
    metavar="CMD",
    multiple=True,
    help="A hook: a shell command, in place of those that are configured. May be repeated.",
)
@click.option(
    "--exec", "execs", metavar="'ARGV...'", multiple=True, help="A hook: a program, without a shell; after all --run."
)
@click.option(
    "--dialect", **one_of(*DIALECTS), help="How --run hooks are spoken to: what they get, what their exit codes mean."
)
@click.option("--match", metavar="M", help="--run hooks only for tools (or sources, triggers ...) that match.")
@click.option("--timeout", metavar="S", callback=seconds, help="Seconds for each --run hook.")
@click.option(
    "--on-failure",
    **one_of("allow", "deny", "ask"),
    help="What a --run hook counts as that fails, is late or can't start.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one line of JSON.")
@click.pass_context
def verb(ctx: click.Context, /, **given: Any) -> int:
    """Fire one event at the hooks that are configured here, or at those of --run, and show what each did, and the
    verdict.

    EVENT is the name of an event, PreToolUse for example. Fields that are not given get sample values.
    """
    adhoc = bool(given["runs"] or given["execs"])
    _check_options(ctx, adhoc)
    event = build_event(given)
    if adhoc:
        engine, found = Engine(build_hooks(given, event)), None
    else:
        found = _configured(event, given)
        engine = found.engine(host="fire")
    process.adopt_orphans()
    caught: list[int] = []
    try:
        verdict = asyncio.run(fire(engine, event, caught))
        catch_signals(caught)
        try:
            _show(verdict, engine, found, as_json=given["as_json"])
        except OSError as error:
            not_written(error)  # the exit code still tells
        _show_later(engine, verdict, given["timeout"] or 600.0, caught)
    except KeyboardInterrupt:
        return 128 + (caught or [signal.SIGINT])[0]
    finally:
        catch_signals([])
        engine.background.cancel()
        process.settle()
    return 1 if verdict.decision in (Decision.DENY, Decision.ASK, Decision.DEFER) else 0


_OF_RUN = {"dialect": "--dialect", "match": "--match", "timeout": "--timeout", "on_failure": "--on-failure"}
_OF_FILES = {"files": "--config", "trust": "--trust"}


def _check_options(ctx: click.Context, adhoc: bool) -> None:
    """Options that would have no effect are slips."""
    for name, option in (_OF_FILES if adhoc else _OF_RUN).items():
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            about = "is about configured hooks" if adhoc else "is about hooks of --run and --exec"
            hint = "leave it out, or --run and --exec" if adhoc else "give hooks with --run 'COMMAND', or leave it out"
            raise UsageError(f"{option} {about}", hint=hint)


def _configured(event: Event, given: dict[str, Any]) -> "Config":
    for file in given["files"]:
        if not os.path.isfile(file):
            raise UsageError(f"--config {file}: there is no such file", hint="check the path")
    config = configured.load(event.cwd, given["files"], given["trust"])
    for text in configured.notes(config):
        note(with_shown_paths(text))
    return config


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


def _show(verdict: Verdict, engine: Engine, config: "Config | None", *, as_json: bool) -> None:
    if as_json:
        say(verdict.to_json())
        return
    titles = dict(zip(engine.plan.names, (hook.title for hook in engine.hooks), strict=True))
    say(verdict_text(verdict, titles))
    if text := _hint_of_run(verdict, engine) if config is None else _hint_of_files(verdict, config):
        hint(text)


def _hint_of_run(verdict: Verdict, engine: Engine) -> str:
    match = engine.hooks[0].match
    if not verdict.outcomes and match is not None:
        return f"--match `{visible(match)}` does not match `{visible(verdict.about.target or '')}`"
    return "--on-failure deny makes such a hook hold the event up" if verdict.failed_open else ""


def _hint_of_files(verdict: Verdict, config: "Config") -> str:
    if not config.entries:
        return (
            unreadable(config)
            or "nothing is configured here; `billhook init` writes a first file, --run 'COMMAND' tries a hook"
        )
    if not any(outcome.source != "built-in" for outcome in verdict.outcomes):
        return f"no configured hook was asked; `billhook explain {visible(verdict.event)} ...` says why"
    failed = [outcome for outcome in verdict.outcomes if outcome.failed_open]
    if verdict.failed_open and all(outcome.source == "built-in" for outcome in failed):
        return "`on_log_failure: deny` of event-logger refuses what can't be recorded"
    return "`gate: true` makes such a hook hold the event up" if verdict.failed_open else ""


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
            say(f"{asked.hook} answered later: {visible(text)}", err=True)
