"""`billhook fire`: one event, made as an agent would send it, fired at the configured hooks or at given ones."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from billhook.agents import DIALECTS
from billhook.agents.inbound import others
from billhook.cli.options import choice, complete_among, flag, json_of, option, seconds, text_of, tool_options
from billhook.cli.screen import hint, not_written, note, say, unreadable, verdict_text, with_shown_paths
from billhook.cli.signals import catch_signals, fire
from billhook.config import loader
from billhook.config.sources import project_folders
from billhook.core import strictjson, tools
from billhook.core.answers import Decision, Status, Verdict
from billhook.core.dialect_traits import meanings
from billhook.core.errors import EventError, StrictJSONError, UsageError
from billhook.core.events import EVENTS, Event, decode, parse
from billhook.core.hook import Hook, Source
from billhook.core.match import compile_matcher
from billhook.core.text import visible
from billhook.engine.engine import Engine
from billhook.runners import process_tree
from billhook.runners.command import CommandRunner, command, execute
from billhook.serve.hook_server import canonical, probable
from billhook.store.files import sha256

if TYPE_CHECKING:
    from billhook.config.config import Config
else:
    import _signal as signal  # without enumerations, which take long to make


SAMPLES: dict[str, Any] = {
    "tool_use_id": "toolu_fire",
    "source": "startup",
    "reason": "other",
    "trigger": "manual",
    "notification_type": "idle_prompt",
    "agent_id": "agent-fire",
    "agent_type": "general-purpose",
    "load_reason": "session_start",
    "memory_type": "Project",
    "expansion_type": "slash_command",
    "error": "unknown",
    "action": "accept",
    "event": "change",
    "cache_ttl": "5m",
    "pricing": "default",
}
"""What a field gets when the command line does not give it, by name; others get an empty value."""

_EMPTY: dict[type, Any] = {str: "", bool: False, int: 0, float: 0, list: [], dict: {}}


def build_event(given: dict[str, Any]) -> Event:
    """The event of EVENT, --event and the options that name single fields. What is missing gets samples, but only
    without --event: an event that was recorded is fired as it is, or its fault is shown."""
    name = given["event"] and (canonical(given["event"]) or given["event"])
    if given["whole"] is not None:
        return _recorded(name, given)
    if not name:
        raise UsageError("which event?", hint="billhook fire PreToolUse ..., or --event '{\"hook_event_name\": ...}'")
    _doubt(name)
    fields, raw = _fields(name, given)
    cwd = str(fields.get("cwd") or _here())
    payload = {"session_id": _session(cwd), "transcript_path": "", "cwd": cwd, "hook_event_name": name}
    payload |= _samples(name, fields) | fields
    if raw is None:
        return parse(payload)
    # The input stays as it was typed: hooks of the seeds get the text as well as what it means.
    payload.pop("tool_input", None)
    return decode(f'{strictjson.dumps(payload)[:-1]},"tool_input":{raw}}}'.encode("utf-8", "surrogatepass"))


def _doubt(name: str) -> None:
    """A name that is nearly that of an event is a typing error; any other is fired, because an agent may have it."""
    if name in EVENTS:
        return
    if near := probable(name):
        raise UsageError(f"no event `{name}`", hint=f"did you mean {near}?")
    if name not in others():
        note(f"no known agent sends `{name}`; it is fired as it is")


def _recorded(name: str | None, given: dict[str, Any]) -> Event:
    text = text_of(given["whole"], "--event")
    whole = json_of(text, "--event", given["whole"])
    if not isinstance(whole, dict):
        raise UsageError("--event is not a JSON object", hint='as in --event \'{"hook_event_name": "Stop"}\'')
    said = whole.get("hook_event_name")
    if isinstance(said, str) and said not in EVENTS:
        if known := canonical(said):
            said = whole["hook_event_name"] = known
            text = strictjson.dumps(whole)
        else:
            _doubt(said)
    if name and said not in (None, name):
        raise UsageError(f"--event says `{said}`, but the event to fire is `{name}`", hint="leave one of them out")
    fields, _ = _fields(name or said, given)
    cwd = fields.get("cwd") or whole.get("cwd") or _here()
    missing = {"session_id": _session(str(cwd)), "transcript_path": "", "cwd": cwd, "hook_event_name": name}
    added = {key: value for key, value in missing.items() if key not in whole and value is not None}
    try:
        if fields or not whole:
            return parse({**added, **whole, **fields})
        # As it was recorded, with what it lacks put in front.
        start = strictjson.dumps(added)[1:-1] + "," if added else ""
        return decode(f"{{{start}{text.lstrip()[1:]}".encode("utf-8", "surrogatepass"))
    except EventError as error:
        error.place = given["whole"] if given["whole"].startswith("@") else "--event"
        error.hint = error.hint or f"`billhook fire {name or said} ...` without --event fills in samples"
        raise


def _session(cwd: str) -> str:
    """One session for all that is fired in a project, so that its turns and limits go on from one event to the next."""
    project = project_folders(os.path.realpath(cwd or "/"), os.path.realpath(os.path.expanduser("~")))[0]
    return f"fire-{sha256(os.fsencode(project)).hexdigest()[:8]}"


def _here() -> str:
    """Our working directory; nothing when it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _fields(name: Any, given: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The fields that the options give, and the tool's input as it was typed."""
    fields: dict[str, Any] = {}
    raw = None
    known = EVENTS[name].__struct_fields__ if isinstance(name, str) and name in EVENTS else None
    if given["session"] is not None:
        fields["session_id"] = given["session"]
    if given["cwd"] is not None:
        fields["cwd"] = os.path.normpath(os.path.join(_here(), given["cwd"]))
        if not os.path.isdir(fields["cwd"]):  # hooks would be looked for elsewhere
            raise UsageError(f"--cwd {given['cwd']}: there is no such folder", hint="check the path")
    if given["tool"] is not None and _applies("--tool", "tool_name", name, known):
        fields["tool_name"] = tools.canonical(given["tool"])
    if given["input_"] is not None:
        raw = text_of(given["input_"], "--input")
        value = json_of(raw, "--input", given["input_"])
        if known is None or "tool_input" in known:
            fields["tool_input"] = value
        elif isinstance(value, dict):
            fields, raw = fields | value, None
        else:
            raise UsageError(
                f"--input for {name} is an object with fields of the event",
                hint=f"{name} has {', '.join(_own_fields(name)) or 'no fields of its own'}",
            )
    if given["output"] is not None:
        output: Any = text_of(given["output"], "--output")
        with suppress(StrictJSONError):
            output = strictjson.loads(output, max_depth=400, max_bytes=None)
        if name == "PostToolUseFailure":
            fields["error"] = output if isinstance(output, str) else strictjson.compact(output)
        elif _applies("--output", "tool_response", name, known):
            fields["tool_response"] = output
    if given["error"] and name != "PostToolUseFailure" and _applies("--error", "tool_response", name, known):
        fields["tool_result_is_error"] = True
    return fields, raw


def _applies(option: str, field: str, name: str, known: tuple[str, ...] | None) -> bool:
    """Whether the event has room for what an option gives; an event that we don't know has room for anything."""
    if known is None or field in known:
        return True
    note(f"{option} has no effect: {name} has no `{field}`")
    return False


def _samples(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    if name not in EVENTS:
        return {}
    kind = EVENTS[name]
    if "tool_name" in kind.__struct_fields__ and "tool_name" not in fields:
        raise UsageError(f"{name} is about a tool: which one?", hint=f"billhook fire {name} --tool Bash ...")
    always: dict[str, Any] = {"tool_input": {}, "tool_response": ""}
    samples = {key: value for key, value in always.items() if key in kind.__struct_fields__}
    own = {*_own_fields(name)} - {*samples, *fields}
    for field in (field for field in msgspec.structs.fields(kind) if field.name in own):
        if field.name in kind.nullable:
            samples[field.name] = None
        elif field.required or field.default is not None:
            kinds = [one for one in (field.type, *getattr(field.type, "__args__", ())) if one in _EMPTY]
            empty = _EMPTY[kinds[0]] if kinds else []
            samples[field.name] = SAMPLES.get(field.name, empty) if empty == "" else empty
    return samples


def _own_fields(name: str) -> list[str]:
    """The fields of an event beyond those that every event has."""
    base = {*Event.__struct_fields__}
    return [
        field.name
        for field in msgspec.structs.fields(EVENTS[name])
        if field.name not in base or field.name in EVENTS[name].__annotations__  # it may have one of them as its own
    ]


# `billhook fire`:
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
@click.argument("event", required=False, metavar="[EVENT]", shell_complete=complete_among(EVENTS))
@tool_options
@option("--output", "JSON|TEXT|@FILE", "What the tool returned, or why it failed.")
@flag("--error", "The tool failed.")
@option("--session", "ID", "The session id.  [default: one for each project]")
@option("--cwd", "DIR", "The working directory of the event and its hooks.")
@option("--event", "whole", "JSON|@FILE|@-", "The whole event as JSON.")
@option("--config", "files", "FILE", "One more configuration file. May be repeated.", multiple=True)
@choice(
    ("approved", "all", "none"),
    "--trust",
    "Which hooks of the project run: those that were approved, all this once, or none.",
)
@option(
    "--run",
    "runs",
    "CMD",
    "A hook: a shell command, in place of those that are configured. May be repeated.",
    multiple=True,
)
@option("--exec", "execs", "'ARGV...'", "A hook: a program, without a shell; after all --run.", multiple=True)
@choice([*DIALECTS], "--dialect", "How --run hooks are spoken to: what they get, what their exit codes mean.")
@option("--match", "M", "--run hooks only for tools (or sources, triggers ...) that match.")
@option("--timeout", "S", "Seconds for each --run hook.", callback=seconds)
@choice(("allow", "deny", "ask"), "--on-failure", "What a --run hook counts as that fails, is late or can't start.")
@flag("--json", "as_json", "Print the verdict as one line of JSON.")
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
    process_tree.adopt_orphans()
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
        process_tree.settle()
    return 1 if verdict.decision in (Decision.DENY, Decision.ASK, Decision.DEFER) else 0


_OF_RUN = {"dialect": "--dialect", "match": "--match", "timeout": "--timeout", "on_failure": "--on-failure"}
_OF_FILES = {"files": "--config", "trust": "--trust"}


def _check_options(ctx: click.Context, adhoc: bool) -> None:
    for name, given in (_OF_FILES if adhoc else _OF_RUN).items():
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            about = "is about configured hooks" if adhoc else "is about hooks of --run and --exec"
            hint = "leave it out, or --run and --exec" if adhoc else "give hooks with --run 'COMMAND', or leave it out"
            raise UsageError(f"{given} {about}", hint=hint)


def _configured(event: Event, given: dict[str, Any]) -> "Config":
    for file in given["files"]:
        if not os.path.isfile(file):
            raise UsageError(f"--config {file}: there is no such file", hint="check the path")
    config = loader.load_for_cwd(event.cwd, given["files"], given["trust"])
    for text in loader.notes(config):
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
    shared: dict[str, Any] = {name: given[name] for name in ("match", "timeout", "on_failure", "dialect")}
    shared["source"] = Source(layer="command line")
    numbered = enumerate(runs, 1)
    return [Hook(name=f"hook-{number}", title=text, run=run, **shared) for number, (text, run) in numbered]


def _program(text: str, dialect: str) -> CommandRunner:
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
        nothing = "nothing is configured here; `billhook init` writes a first file, --run 'COMMAND' tries a hook"
        return unreadable(config) or nothing
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
