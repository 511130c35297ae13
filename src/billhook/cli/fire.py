"""`billhook fire`: build one event, fire it at hooks, show the verdict."""

import asyncio
import os
import signal
import sys
from typing import Any

import click
import msgspec

from billhook import process, strictjson, tools
from billhook.answers import Decision, OnFailure, Status, Verdict
from billhook.cli.show import safe, verdict_text
from billhook.dialects import DIALECTS
from billhook.engine import Engine
from billhook.errors import BillhookError, StrictJSONError, UsageError
from billhook.events import EVENTS, Event, decode, parse
from billhook.handlers import Command, command, execute
from billhook.hook import Hook, Source

SAMPLES: dict[str, Any] = {
    "source": "startup",
    "reason": "other",
    "trigger": "manual",
    "notification_type": "idle_prompt",
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
"""What a required field gets when the command line does not give it, by name; others get an empty value."""

_EMPTY: dict[type, Any] = {str: "", bool: False, int: 0, float: 0, list: [], dict: {}}


@click.command(
    "fire",
    epilog="""\b
Examples:
  billhook fire PreToolUse --tool Bash --input '{"command": "ls"}' --run ./guard.sh
  billhook fire PostToolUse --tool Write --output done --run 'echo linted' --dialect claw
  billhook fire Stop --run 'echo "tests still fail" >&2; exit 2' --json
  billhook fire PreToolUse --event @event.json --exec './guard.py --strict' --on-failure deny

\b
Exit code: 0 not denied, 1 denied or asked, 2 usage or broken input.""",
)
@click.argument("event", required=False, metavar="EVENT")
@click.option("--tool", metavar="NAME", help="The tool, by any name that a dialect has for it.")
@click.option(
    "--input", "input_", metavar="JSON|@FILE|@-", help="The tool's input; without a tool, fields of the event."
)
@click.option("--output", metavar="JSON|TEXT|@FILE", help="What the tool returned.")
@click.option("--error", is_flag=True, help="The tool failed.")
@click.option("--session", metavar="ID", default="fire", help="The session id.")
@click.option("--cwd", metavar="DIR", help="The working directory of the event and its hooks.")
@click.option("--event", "whole", metavar="JSON|@FILE|@-", help="The whole event as JSON.")
@click.option("--run", "runs", metavar="CMD", multiple=True, help="A hook: a shell command. May be repeated.")
@click.option("--exec", "execs", metavar="'ARGV...'", multiple=True, help="A hook: a program, without a shell.")
@click.option("--dialect", type=click.Choice(list(DIALECTS)), default="claude", show_default=True)
@click.option("--match", metavar="M", help="Only for tools (or sources, triggers ...) that match.")
@click.option("--timeout", metavar="S", type=float, help="Seconds for each hook.")
@click.option("--on-failure", type=click.Choice(["allow", "deny", "ask"]), default="allow", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one line of JSON.")
def verb(**given: Any) -> int:
    """Fire one event at hooks and show what each did, and the verdict.

    EVENT is the name of an event, PreToolUse for example. Required fields that are not given get sample values.
    """
    event = build_event(given)
    hooks = build_hooks(given)
    process.adopt_orphans()
    engine = Engine(hooks)
    try:
        verdict = asyncio.run(_fire(engine, event))
        _show(verdict, hooks, as_json=given["as_json"])
        _show_later(engine, verdict, given["timeout"])
    finally:
        engine.background.cancel()
        process.settle()
    return 1 if verdict.decision in (Decision.DENY, Decision.ASK, Decision.DEFER) else 0


def build_event(given: dict[str, Any]) -> Event:
    """The event that the command line describes, made as an agent would send it."""
    name = given["event"]
    payload: dict[str, Any] = {"session_id": given["session"], "transcript_path": "", "cwd": os.getcwd()}
    if given["whole"] is not None:
        whole = _json(given["whole"], "--event")
        if not isinstance(whole, dict):
            raise UsageError("--event is not a JSON object")
        said = whole.get("hook_event_name")
        if name and said not in (None, name):
            raise UsageError(f"--event says `{said}`, but the event to fire is `{name}`")
        name = name or said
        payload |= {"hook_event_name": name, **whole, **_fields(name, given)}
        if name is None:
            del payload["hook_event_name"]
        return parse(payload)
    if not name:
        raise UsageError("which event?", hint="billhook fire PreToolUse ..., or --event '{\"hook_event_name\": ...}'")
    fields = _fields(name, given)
    payload |= {"hook_event_name": name} | _samples(name, fields) | fields
    if given["input_"] is None or "tool_input" not in payload:
        return parse(payload)
    # The input stays as it was typed: hooks of the seeds get the text as well as what it means.
    del payload["tool_input"]
    raw = _text(given["input_"], "--input") if given["input_"] != "@-" else strictjson.dumps(fields["tool_input"])
    return decode(f'{strictjson.dumps(payload)[:-1]},"tool_input":{raw}}}'.encode("utf-8", "surrogatepass"))


def _fields(name: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The fields that the options give."""
    fields: dict[str, Any] = {}
    known = EVENTS[name].__struct_fields__ if name in EVENTS else ()
    if given["cwd"] is not None:
        fields["cwd"] = os.path.abspath(given["cwd"])
    if given["tool"] is not None:
        fields["tool_name"] = tools.canonical(given["tool"])
    if given["input_"] is not None:
        value = _json(given["input_"], "--input")
        if name in EVENTS and "tool_input" not in known:
            if not isinstance(value, dict):
                raise UsageError(f"--input for {name} is an object with fields of the event")
            fields |= value
        else:
            fields["tool_input"] = value
    output = None if given["output"] is None else _json_or_text(given["output"])
    if name == "PostToolUseFailure":
        if output is not None:
            fields["error"] = output if isinstance(output, str) else strictjson.compact(output)
    elif output is not None:
        fields["tool_response"] = output
    if given["error"] and name != "PostToolUseFailure":
        fields["tool_result_is_error"] = True
    return fields


def _samples(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    if name not in EVENTS:
        return {}
    kind = EVENTS[name]
    if "tool_name" in kind.__struct_fields__ and "tool_name" not in fields:
        raise UsageError(f"{name} is about a tool: which one?", hint=f"billhook fire {name} --tool Bash ...")
    samples: dict[str, Any] = {"tool_input": {}, "tool_response": ""}
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in samples:
            kinds = [one for one in (field.type, *getattr(field.type, "__args__", ())) if one in _EMPTY]
            empty = _EMPTY[kinds[0]] if kinds else []
            samples[field.name] = SAMPLES.get(field.name, empty) if empty == "" else empty
    return {key: value for key, value in samples.items() if key in kind.__struct_fields__}


def build_hooks(given: dict[str, Any]) -> list[Hook]:
    """The hooks of --run and --exec: those of --run first, each in the order in which they stand there."""
    if given["timeout"] is not None and not given["timeout"] > 0:
        raise UsageError(f"--timeout {given['timeout']}: a timeout is a positive number of seconds")
    runs = [(text, command(text, dialect=given["dialect"])) for text in given["runs"]]
    runs += [(text, execute(text, dialect=given["dialect"])) for text in given["execs"]]
    on_failure: OnFailure = given["on_failure"]

    def hook(number: int, text: str, run: Command) -> Hook:
        return Hook(
            name=f"hook-{number}",
            title=text,
            run=run,
            match=given["match"],
            timeout=given["timeout"],
            on_failure=on_failure,
            dialect=given["dialect"],
            source=Source(layer="command line"),
        )

    return [hook(number, text, run) for number, (text, run) in enumerate(runs, 1)]


async def _fire(engine: Engine, event: Event) -> Verdict:
    """Fire; a TERM to us ends the hooks before it ends us."""
    task = asyncio.current_task()
    assert task is not None
    if sys.platform != "win32":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await engine.fire(event)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _show(verdict: Verdict, hooks: list[Hook], *, as_json: bool) -> None:
    if as_json:
        print(verdict.to_json())
        return
    click.echo(verdict_text(verdict, {hook.name: hook.title for hook in hooks}))
    if not hooks:
        click.echo("\nhint: give hooks with --run 'COMMAND' or --exec 'PROGRAM ARGS'", err=True)


def _show_later(engine: Engine, verdict: Verdict, timeout: float | None) -> None:
    """Hooks that answer later would carry their answer to the next event; here there is none, so it is shown."""
    if not any(outcome.status is Status.BACKGROUND for outcome in verdict.outcomes):
        return
    click.echo("waiting for hooks that answer later ...", err=True)
    engine.background.settle(timeout or 600.0)
    for outcomes in engine.background.answers.values():
        for outcome in outcomes:
            text = outcome.answer.context or outcome.answer.message or outcome.error or "nothing to say"
            click.echo(f"{outcome.hook} answered later: {safe(text)}", err=True)


def _text(value: str, option: str) -> str:
    """An option's value, or what the file holds that it names with @."""
    if not value.startswith("@"):
        return value
    try:
        if value == "@-":
            return sys.stdin.buffer.read().decode("utf-8", "replace")
        with open(value[1:], "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"{option} {value}: {error.strerror}", hint="@FILE reads a file, @- standard input") from None


def _json(value: str, option: str) -> Any:
    text = _text(value, option)
    try:
        return strictjson.loads(text, max_depth=400, max_bytes=None)
    except StrictJSONError as error:
        place = value if value.startswith("@") else ""
        raise UsageError(
            f"{option} is not JSON: {error.message}: {strictjson.preview(text)}",
            place=place,
            hint='quote it for the shell, as in --input \'{"command": "ls"}\'',
        ) from None


def _json_or_text(value: str) -> Any:
    text = _text(value, "--output")
    try:
        return strictjson.loads(text, max_depth=400, max_bytes=None)
    except BillhookError:
        return text
