"""The event that a command line describes, made as an agent would send it."""

import os
from typing import Any

import msgspec

from billhook import strictjson, tools
from billhook.agents.names import others
from billhook.answering.received import canonical, probable
from billhook.cli.show import note
from billhook.cli.values import json_of, json_or_text, text_of
from billhook.config.sources import project_folders
from billhook.errors import EventError, UsageError
from billhook.events import EVENTS, Event, decode, parse
from billhook.store.digest import sha256

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
    """The event of --event."""
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


def _folder(given: str) -> str:
    """The folder of --cwd; UsageError when there is none: hooks would be looked for elsewhere."""
    folder = os.path.normpath(os.path.join(_here(), given))
    if not os.path.isdir(folder):
        raise UsageError(f"--cwd {given}: there is no such folder", hint="check the path")
    return folder


def _fields(name: Any, given: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The fields that the options give, and the tool's input as it was typed."""
    fields: dict[str, Any] = {}
    raw = None
    known = EVENTS[name].__struct_fields__ if isinstance(name, str) and name in EVENTS else None
    if given["session"] is not None:
        fields["session_id"] = given["session"]
    if given["cwd"] is not None:
        fields["cwd"] = _folder(given["cwd"])
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
        output = json_or_text(given["output"], "--output")
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
    samples: dict[str, Any] = {"tool_input": {}, "tool_response": ""}
    for field in msgspec.structs.fields(kind):
        if field.name in samples or field.name in fields:
            continue
        if field.name in kind.nullable:
            samples[field.name] = None
        elif field.required or field.default is not None:
            kinds = [one for one in (field.type, *getattr(field.type, "__args__", ())) if one in _EMPTY]
            empty = _EMPTY[kinds[0]] if kinds else []
            samples[field.name] = SAMPLES.get(field.name, empty) if empty == "" else empty
    own = {*_own_fields(name), "tool_input", "tool_response"} & {*kind.__struct_fields__}
    return {key: value for key, value in samples.items() if key in own}


def _own_fields(name: str) -> list[str]:
    """The fields of an event beyond those that every event has."""
    base = {*Event.__struct_fields__}
    return [
        field.name
        for field in msgspec.structs.fields(EVENTS[name])
        if field.name not in base or field.name in EVENTS[name].__annotations__  # it may have one of them as its own
    ]
