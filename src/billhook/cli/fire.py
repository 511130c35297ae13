"""`billhook fire`: sends an event, as an agent would, to the configured hooks or to given ones."""

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from billhook.agents import DIALECTS, others
from billhook.cli.options import choice, complete_among, flag, json_of, option, seconds, text_of, tool_options, usage
from billhook.cli.screen import (
    coloured,
    hint,
    name_column,
    not_written,
    note,
    outcome_lines,
    paragraphs,
    unreadable,
    with_shown_paths,
    word_of,
    write,
)
from billhook.cli.signals import catch_signals, fire
from billhook.config import loader
from billhook.config.notices import notes
from billhook.config.recorder import outcome_data
from billhook.config.sources import project_folders
from billhook.core import strictjson, tools
from billhook.core.answers import FAILURES, UNSET, Decision, Outcome, Skipped, SkipReason, Status, Verdict
from billhook.core.dialect_traits import meanings
from billhook.core.errors import EventError, StrictJSONError, UsageError
from billhook.core.events import EVENTS, Event, decode, parse
from billhook.core.hook import Hook, Source
from billhook.core.match import compile_matcher
from billhook.core.text import counted, one_line, visible
from billhook.engine.engine import Engine
from billhook.runners import process_tree
from billhook.runners.command import CommandRunner, command, execute
from billhook.serve.hook_server import canonical, probable
from billhook.store.files import sha256
from billhook.store.log import OutcomeRecord

if TYPE_CHECKING:
    from billhook.config.config import Config
else:
    import _signal as signal  # without its enums, which take long to create


SAMPLES: dict[str, Any] = {
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
"""Sample values of fields that the command line does not set. Other fields get an empty value."""

_EMPTY: dict[type, Any] = {str: "", bool: False, int: 0, float: 0, list: [], dict: {}}


def build_event(given: dict[str, Any]) -> Event:
    """The event from EVENT, --event and the options for single fields. Missing fields get sample values, but not with
    --event: a recorded event is fired unchanged, or its mistake is reported."""
    name = given["event"] and (canonical(given["event"]) or given["event"])
    if given["whole"] is not None:
        return _recorded(name, given)
    if not name:
        raise UsageError(
            "no event was named", hint="billhook fire PreToolUse ..., or --event '{\"hook_event_name\": ...}'"
        )
    _check_name(name)
    fields, raw = _fields(name, given)
    cwd = str(fields.get("cwd") or _here())
    payload = {"session_id": _session(cwd), "transcript_path": "", "cwd": cwd, "hook_event_name": name}
    payload |= _samples(name, fields) | fields
    if raw is None:
        return parse(payload)
    # The input stays as it was typed: some dialects pass the text to hooks as well.
    payload.pop("tool_input", None)
    return decode(f'{strictjson.dumps(payload)[:-1]},"tool_input":{raw}}}'.encode("utf-8", "surrogatepass"))


def _check_name(name: str) -> None:
    """A name that is similar to a known event is a mistake. Any other is fired, because an agent may have it."""
    if name in EVENTS:
        return
    if near := probable(name):
        raise UsageError(f"no event `{name}`", hint=f"did you mean {near}?")
    if name not in others():
        note(f"no known agent sends `{name}`; firing it unchanged")


def _recorded(name: str | None, given: dict[str, Any]) -> Event:
    text = text_of(given["whole"], "--event")
    whole = json_of(text, "--event", given["whole"])
    if not isinstance(whole, dict):
        raise UsageError("--event is not a JSON object", hint='as in --event \'{"hook_event_name": "Stop"}\'')
    own = whole.get("hook_event_name")
    if isinstance(own, str) and own not in EVENTS:
        if known := canonical(own):
            own = whole["hook_event_name"] = known
            text = strictjson.dumps(whole)
        else:
            _check_name(own)
    if name and own not in (None, name):
        raise UsageError(f"--event is a `{own}`, but the event to fire is `{name}`", hint="leave one of them out")
    fields, _ = _fields(name or own, given)
    cwd = fields.get("cwd") or whole.get("cwd") or _here()
    missing = {"session_id": _session(str(cwd)), "transcript_path": "", "cwd": cwd, "hook_event_name": name}
    added = {key: value for key, value in missing.items() if key not in whole and value is not None}
    try:
        if fields or not whole:
            return parse({**added, **whole, **fields})
        # As it was recorded, with the missing fields in front.
        start = strictjson.dumps(added)[1:-1] + "," if added else ""
        return decode(f"{{{start}{text.lstrip()[1:]}".encode("utf-8", "surrogatepass"))
    except EventError as error:
        error.place = given["whole"] if given["whole"].startswith("@") else "--event"
        error.hint = error.hint or f"`billhook fire {name or own} ...` without --event uses sample values"
        raise


def _session(cwd: str) -> str:
    """One session for all test events of a project, so that turns and limits continue from one event to the next."""
    project = project_folders(os.path.realpath(cwd or "/"), os.path.realpath(os.path.expanduser("~")))[0]
    return f"fire-{sha256(os.fsencode(project)).hexdigest()[:8]}"


def _here() -> str:
    """The working directory; empty if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _fields(name: Any, given: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The fields that the options set, and the tool's input as it was typed."""
    fields: dict[str, Any] = {}
    raw = None
    known = EVENTS[name].__struct_fields__ if isinstance(name, str) and name in EVENTS else None
    if given["session"] is not None:
        fields["session_id"] = given["session"]
    if given["cwd"] is not None:
        fields["cwd"] = os.path.normpath(os.path.join(_here(), given["cwd"]))
        if not os.path.isdir(fields["cwd"]):  # the hooks of another folder would apply
            raise UsageError(f"--cwd {given['cwd']}: no such folder", hint="check the path")
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
                f"--input for {name} must be an object with fields of the event",
                hint=f"{name} has {', '.join(_own_fields(name)) or 'no specific fields'}",
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
    """Whether the event has the field of an option. An unknown event may have any field."""
    if known is None or field in known:
        return True
    note(f"{option} has no effect: {name} has no `{field}`")
    return False


def _samples(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    if name not in EVENTS:
        return {}
    kind = EVENTS[name]
    if "tool_name" in kind.__struct_fields__ and "tool_name" not in fields:
        raise UsageError(f"{name} needs a tool", hint=f"billhook fire {name} --tool Bash ...")
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
    if "tool_use_id" in samples:  # each test event is a call of its own: `events` joins records with the same id
        samples["tool_use_id"] = f"toolu_fire_{os.urandom(6).hex()}"
    return samples


def _own_fields(name: str) -> list[str]:
    base = {*Event.__struct_fields__}
    return [
        field.name
        for field in msgspec.structs.fields(EVENTS[name])
        if field.name not in base or field.name in EVENTS[name].__annotations__  # redefined by this event
    ]


# `billhook fire`:
@usage("""\b
Examples:
  billhook fire PreToolUse --tool Bash --input '{"command": "git push --force"}'
  billhook fire PreToolUse --tool Bash --input '{"command": "ls"}' --run ./guard.sh
  billhook fire PostToolUse --tool Write --output done --run 'echo linted' --dialect claw
  billhook fire Stop --run 'echo "tests still fail" >&2; exit 2' --json
  billhook fire --from 12                      an event of the log again
  billhook fire --event @event.json --exec './guard.py --strict' --on-failure deny

Exit code: 0 no objection or allowed, 1 denied or asked, 2 usage or broken input.""")
@click.argument("event", required=False, metavar="[EVENT]", shell_complete=complete_among(EVENTS))
@tool_options
@option("--output", "JSON|TEXT|@FILE", "The result of the tool, or its error.")
@flag("--error", "The tool failed.")
@option("--session", "ID", "The session id.  [default: one per project]")
@option("--cwd", "DIR", "The working directory of the event and its hooks.")
@option("--event", "whole", "JSON|@FILE|@-", "The whole event as JSON.")
@option("--from", "recorded", "NR|ID", "Fire this event of the log again.")
@option("--config", "files", "FILE", "Also use this file with hooks. May be repeated.", multiple=True)
@choice(
    ("approved", "all", "none"),
    "--trust",
    "Which hooks of the project run: the approved ones, all of them this once, or none.",
)
@option(
    "--run",
    "runs",
    "CMD",
    "Use this shell command as a hook, instead of the configured hooks. May be repeated.",
    multiple=True,
)
@option(
    "--exec",
    "execs",
    "'ARGV...'",
    "Use this program as a hook, without a shell; it runs after --run hooks.",
    multiple=True,
)
@choice([*DIALECTS], "--dialect", "The protocol of --run hooks: their input, and the meaning of their exit codes.")
@option("--match", "M", "Run --run hooks only for tools (or sources, triggers ...) that match.")
@option("--timeout", "S", "The timeout of each --run hook, in seconds.", callback=seconds)
@choice(("allow", "deny", "ask"), "--on-failure", "What to do when a --run hook fails, times out or can't start.")
@flag("--json", "as_json", "Print the verdict as one line of JSON.")
@click.pass_context
def verb(ctx: click.Context, /, **given: Any) -> int:
    """Send a test event to the configured hooks, or to those of --run, and show their answers and the verdict.

    EVENT is the name of an event, such as PreToolUse. Fields that you do not set get sample values. The hooks
    really run; `billhook explain` predicts the verdict without running them.
    """
    adhoc = bool(given["runs"] or given["execs"])
    _check_options(ctx, adhoc)
    if given["recorded"] is not None:
        _take_recorded(given)
    event = build_event(given)
    if adhoc:
        engine, found = Engine(build_hooks(given, event)), None
    else:
        found = _configured(event, given)
        engine = found.engine(host="fire", approvals=False)
    process_tree.adopt_orphans()
    caught: list[int] = []
    try:
        verdict = asyncio.run(fire(engine, event, caught))
        catch_signals(caught)
        try:
            reasons = _unmet(verdict, found, event) if found is not None and not given["as_json"] else {}
            _show(verdict, engine, found, reasons, as_json=given["as_json"])
        except OSError as error:
            not_written(error)  # the exit code still has the verdict
        _show_later(engine, verdict, given["timeout"] or 600.0, caught)
    except KeyboardInterrupt:
        return 128 + (caught or [signal.SIGINT])[0]
    finally:
        catch_signals([])
        engine.background.cancel()
        process_tree.settle()
    return 1 if verdict.decision in (Decision.DENY, Decision.ASK, Decision.DEFER) else 0


def _take_recorded(given: dict[str, Any]) -> None:
    """Use an event of the log as --event. Its session is that of test events: the real one must not count it."""
    from billhook.cli.events.export import saved

    if given["whole"] is not None:
        raise UsageError("--from and --event can't be combined", hint="leave one of them out")
    payload, notes = saved(given["recorded"])
    payload["session_id"] = _session(str(payload.get("cwd") or _here()))
    given["whole"] = strictjson.dumps(payload)
    for text in notes:
        note(text)


_OF_RUN = {"dialect": "--dialect", "match": "--match", "timeout": "--timeout", "on_failure": "--on-failure"}
_OF_FILES = {"files": "--config", "trust": "--trust"}


def _check_options(ctx: click.Context, adhoc: bool) -> None:
    for name, given in (_OF_FILES if adhoc else _OF_RUN).items():
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            about = "is only for configured hooks" if adhoc else "is only for hooks of --run and --exec"
            hint = f"leave out {given}" if adhoc else f"add --run 'COMMAND', or leave out {given}"
            raise UsageError(f"{given} {about}", hint=hint)


def _configured(event: Event, given: dict[str, Any]) -> "Config":
    for file in given["files"]:
        if not os.path.isfile(file):
            raise UsageError(f"--config {file}: no such file", hint="check the path")
    config = loader.load_for_cwd(event.cwd, given["files"], given["trust"])
    for text in notes(config):
        note(with_shown_paths(text))
    return config


def build_hooks(given: dict[str, Any], event: Event) -> list[Hook]:
    """The hooks of --run, then those of --exec, in the order of the command line."""
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


def _unmet(verdict: Verdict, config: "Config", event: Event) -> dict[str, str]:
    """Which condition was false, by the name of the skipped hook."""
    false = str(Skipped(SkipReason.CONDITION_FALSE))
    names = {one.hook for one in verdict.outcomes if one.status is Status.SKIPPED and one.error == false}
    if not names:
        return {}
    from billhook.config.explain import explain

    return {
        one.row.name: one.reasons[0].why for one in explain(config, event).hooks if one.row.name in names and one.why
    }


def _show(verdict: Verdict, engine: Engine, config: "Config | None", reasons: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        write(verdict.to_json(), whole=True)
        return
    titles = dict(zip(engine.plan.names, (hook.title for hook in engine.hooks), strict=True))
    if config is not None and config.unreadable and not config.entries:
        write(verdict_text(verdict, titles, reasons, "your hooks can't be read"))
    else:
        write(verdict_text(verdict, titles, reasons))
    if text := _hint_of_run(verdict, engine) if config is None else _hint_of_files(verdict, config):
        hint(text)


def _hint_of_run(verdict: Verdict, engine: Engine) -> str:
    match = engine.hooks[0].match
    if not verdict.outcomes and match is not None:
        return f"--match `{visible(match)}` does not match `{visible(verdict.about.target or '')}`"
    return "with --on-failure deny, such a hook blocks the event" if verdict.failed_open else ""


def _why_not(event: str) -> str:
    """How to find out why no hook ran; `explain` reads an unknown event as a command."""
    if event not in EVENTS:
        return f"no hook ran: `{visible(event)}` is not an event that billhook knows"
    return f"no configured hook ran; `billhook explain {event} ...` shows why"


def _hint_of_files(verdict: Verdict, config: "Config") -> str:
    if not config.entries:
        nothing = "no hooks are configured here; `billhook init` writes a first file, --run 'COMMAND' tries a hook"
        return unreadable(config) or nothing
    if not any(outcome.source != "built-in" for outcome in verdict.outcomes):
        return _why_not(verdict.event)
    failed = [outcome for outcome in verdict.outcomes if outcome.failed_open]
    if verdict.failed_open and all(outcome.source == "built-in" for outcome in failed):
        return "with `on_log_failure: deny`, event-logger blocks events that can't be recorded"
    return "with `gate: true`, such a hook blocks the event" if verdict.failed_open else ""


# The verdict on the screen:
_WIDTH = 60  # columns of a title


def verdict_text(
    verdict: Verdict,
    titles: dict[str, str],
    unmet: Mapping[str, str] = MappingProxyType({}),
    nothing: str = "none of your hooks listens for this event",
) -> str:
    """Each hook with status, time and reason, then the verdict. `unmet`: which condition was false, for each hook that
    was skipped for it. `nothing`: what to print if only built-ins ran."""
    tool = getattr(verdict.about, "tool_name", "")
    lines = [click.style(one_line(f"{verdict.event} {tool}", _WIDTH), bold=True), ""]
    left_out = ("built-in", Status.SKIPPED)  # after a deny
    shown = [one for one in verdict.outcomes if not _routine(one) and (one.source, one.status) != left_out]
    column = name_column(outcome.hook for outcome in shown)
    for outcome in shown:
        named = unmet.get(outcome.hook) if outcome.status is Status.SKIPPED else None
        told = msgspec.structs.replace(_recorded_as(outcome), **({"error": named} if named else {}))
        lines += outcome_lines(told, column, title=titles.get(outcome.hook, ""))
    if not shown:
        lines.append(f"  {nothing}" if verdict.outcomes else "  no hook listens for this event")
    # a gate that ran again after a rewrite has two outcomes
    names = {outcome.hook for outcome in shown}
    routine = dict.fromkeys(one.hook for one in verdict.outcomes if _routine(one) and one.hook not in names)
    if routine:
        lines.append(click.style(f"  built-ins without objection: {', '.join(routine)}", dim=True))
    lines += ["", *_verdict_lines(verdict)]
    return "\n".join(lines)


def _recorded_as(outcome: Outcome) -> OutcomeRecord:
    return msgspec.convert(outcome_data(outcome), OutcomeRecord)


def _routine(outcome: Outcome) -> bool:
    silent = outcome.status is Status.OK and not outcome.lost and not outcome.error
    return outcome.source == "built-in" and silent and word_of(_recorded_as(outcome)) == "no objection"


def _verdict_lines(verdict: Verdict) -> list[str]:
    word = verdict.decision.value
    quiet = word == "none" and not (verdict.keep_going or verdict.stop or verdict.failed_open)
    lines = [f"{click.style('verdict ', bold=True)}  {coloured(word, word)}{' (no objection)' if quiet else ''}"]
    values = {
        "input": UNSET if verdict.tool_input is None else verdict.tool_input,
        "output": verdict.tool_output,
        "extras": verdict.extras or UNSET,
    }
    facts = [
        ("reason", verdict.reason),
        *(("to model", text) for text in verdict.context),
        *(("to user", text) for text in verdict.messages if not verdict.quiet),
        *((name, strictjson.compact(value)) for name, value in values.items() if value is not UNSET),
        ("agent", "keeps going" if verdict.keep_going else ""),
        ("agent", f"stops: {verdict.stop_reason}".removesuffix(": ") if verdict.stop else ""),
    ]
    if verdict.failed_open:
        facts.append(("open", f"{counted(verdict.failed_open, 'hook')} failed, and the event continued"))
    for label, text in facts:
        if text:
            first, *rest = paragraphs("", text)
            lines += [f"{label:<8}  {first}", *(f"          {line}".rstrip() for line in rest)]
    return lines


def _show_later(engine: Engine, verdict: Verdict, seconds: float, caught: list[int]) -> None:
    """The answer of a background hook would reach the next event. There is none here, so it is printed."""
    if not any(outcome.status is Status.BACKGROUND for outcome in verdict.outcomes):
        return
    write("waiting for background hooks ...", err=True)
    end = time.monotonic() + seconds
    while not engine.background.settle(0.05) and not caught and time.monotonic() < end:
        pass
    if caught:
        raise KeyboardInterrupt
    came = {outcome.hook: outcome for outcomes in engine.background.answers.values() for outcome in outcomes}
    for started in verdict.outcomes:
        if started.status is not Status.BACKGROUND:
            continue
        answered = came.get(started.hook)
        if answered is None or answered.status is Status.TIMED_OUT:
            write(f"{started.hook} timed out and was terminated", err=True)
        else:
            text = answered.answer.context or answered.answer.message or answered.error or "no message"
            how = "failed" if answered.status in FAILURES else "answered"
            write(f"{started.hook} {how} later: {visible(text)}", err=True)
