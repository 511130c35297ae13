"""Every event as a typed record, tagged by `hook_event_name`.

An event is frozen and keeps everything that it came with: `payload` is the whole object as received, with unknown
fields. Large free-form fields (`tool_input`, `tool_response`) are decoded on first use, so an event that no hook reads
costs only a scan.

Older agents and other agents omit fields, or send null. Only the fields that a guard judges are required: a tool's name
and input, a prompt, and in events that can be denied the field of their matchers. All other fields have defaults, which
are never added to a received payload.
"""

import enum
import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import msgspec
from msgspec import Raw, Struct

from billhook.core import strictjson
from billhook.core.errors import EventError, StrictJSONError
from billhook.core.lazy import analysed, pattern

if TYPE_CHECKING:
    from billhook.effects.effect import Command, Effect

    Json = Any  # any JSON value
else:
    # Raw makes the decoder skip over the value; `_Lazy` below decodes it on first use.
    Json = Raw

# Escapes that hide plain characters from a guard that greps the text: \u002d for a hyphen, \/ for a slash.
_HIDING = pattern(rb"\\u00[2-7]|\\/", re.IGNORECASE)
_NO_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


def _one_line(data: bytes) -> bytes:
    """JSON text on one line, otherwise unchanged; empty if it hides characters or is not UTF-8."""
    if _HIDING.search(data):
        return b""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return b""
    return data.removeprefix(b"\xef\xbb\xbf").strip().translate(_NO_LINE_ENDS)


class Block(enum.StrEnum):
    """What happens when a hook blocks an event (exit 2, `decision: "block"`)."""

    DENY = "deny"  # the action does not happen
    KEEP_GOING = "keep_going"  # the agent continues to work
    STOP = "stop"  # the agent's loop ends
    MODEL = "model"  # too late to prevent; the text goes to the model
    USER = "user"  # too late to prevent; the text is shown to the user
    IGNORED = "ignored"  # nothing
    NOT_HONOURED = "not honoured"  # this event needs its decision in JSON; a bare block is a mistake


class Event(Struct, frozen=True, kw_only=True, dict=True, eq=False, tag_field="hook_event_name", tag=True):
    """One thing that happened in an agent. It never changes."""

    session_id: str = ""
    transcript_path: str = ""
    cwd: str = ""
    permission_mode: str | None = None
    prompt_id: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None
    effort: dict[str, Any] | None = None
    scratchpad_dir: str | None = None

    hook_event_name: ClassVar[str] = ""
    match_field: ClassVar[str | None] = None  # the field that a matcher compares; None: this event has no matcher
    block: ClassVar[Block] = Block.IGNORED
    text_is_context: ClassVar[bool] = False  # plain text that a hook prints is context for the model
    takes_context: ClassVar[bool] = False  # the event's answer can carry `additionalContext`
    nullable: ClassVar[frozenset[str]] = frozenset()  # fields that are sent even when they are null
    can_block: ClassVar[bool] = False
    """A hook can prevent something here, make the agent continue, or end its loop. Follows from `block`."""
    gates: ClassVar[bool] = False
    """The agent waits for the answer, so a later answer has no effect. Follows from `block`."""

    @property
    def target(self) -> str | None:
        """What a matcher is compared with: the tool's name, the source, the trigger ..."""
        return None if self.match_field is None else cast("str | None", getattr(self, self.match_field, None))

    @property
    def payload(self) -> dict[str, Any]:
        """The event as one JSON object: as received, or as it would be sent. Treat it as read-only."""
        own = self.__dict__
        kept: dict[str, Any] | None = own.get("payload")
        if kept is None:
            source = own.get("source")
            kept = own["payload"] = self._fields() if source is None else read_object(source)
        return kept

    def given(self, field: str) -> Any:
        """A field that came with the event, whether its type has it or not; None if it is missing."""
        own = self.__dict__
        return self.payload.get(field) if "payload" in own or "source" in own else getattr(self, field, None)

    @property
    def was_read(self) -> bool:
        """It was read from JSON, so it can be written as JSON completely."""
        return "source" in self.__dict__

    @property
    def extra(self) -> dict[str, Any]:
        """The fields that came with the event and are not part of its type."""
        return {key: value for key, value in self.payload.items() if key not in _KNOWN[type(self)]}

    def text_of(self, field: str, limit: int | None = None) -> str:
        """A JSON field as text, or its first bytes: as the sender wrote it if that is known, else as we write it."""
        sent = self.sent_text(field, limit)
        return self.json_of(field)[:limit].decode("utf-8", "ignore") if sent is None else sent

    def sent_text(self, field: str, limit: int | None = None) -> str | None:
        """The sender's text of a JSON field, if it is known. Text that hides plain characters behind escapes does not
        count, because a guard that greps would miss them."""
        value = self._raw(field)
        if value is None or _HIDING.search(value):
            return None
        return bytes(memoryview(value)[:limit]).decode("utf-8", "replace" if limit is None else "ignore")

    def json_of(self, field: str) -> bytes:
        """The same on one line of UTF-8, made once: large inputs have several readers."""
        kept = self.__dict__.get(f"json of {field}")
        if kept is None:
            raw = self._raw(field)
            kept = (_one_line(bytes(raw)) if raw else b"") or strictjson.written(getattr(self, field))
            self.__dict__[f"json of {field}"] = kept
        return cast("bytes", kept)

    def _raw(self, field: str) -> Raw | bytes | None:
        """The sender's text of a JSON field, if it is known."""
        value = _member(type(self), field).__get__(self, type(self)) if field in _KNOWN[type(self)] else None
        return value if type(value) is Raw else cast("bytes | None", self.__dict__.get(f"text of {field}"))

    def sent_as(self, dialect: str) -> bytes:
        """The text in which an agent of that dialect sent this event, on one line. Empty if another agent sent it, if
        it was changed since, or if it hides characters behind escapes."""
        sender, data = self.__dict__.get("sent", ("", b""))
        if sender != dialect:
            return b""
        kept = self.__dict__.get("sent on one line")
        if kept is None:
            kept = self.__dict__["sent on one line"] = _one_line(data)
        return cast("bytes", kept)

    def keep_sent_input(self, value: Any, text: str = "") -> None:
        """Keep the tool's input as the model wrote it, if its field names or its text differ."""
        if value == getattr(self, "tool_input", None):
            self.__dict__.update({"text of tool_input": text.encode("utf-8", "surrogatepass")} if text else {})
        else:
            self.__dict__["sent input"] = value, text

    def copy_sent_input(self, other: "Event") -> None:
        """Keep the same input from another event of the same call."""
        self.__dict__.update({key: other.__dict__[key] for key in _OF_SENT_INPUT if key in other.__dict__})

    @property
    def as_sent(self) -> Self:
        """The same event with the tool's input as the model wrote it."""
        if "sent input" not in self.__dict__:
            return self
        value, text = self.__dict__["sent input"]
        sent = self.replace(tool_input=value)
        sent.keep_sent_input(value, text)
        return sent

    def replace(self, **changes: Any) -> Self:
        """A copy with other values for some fields; all other fields stay, unknown ones included."""
        copy = msgspec.structs.replace(self, **changes)
        copy.__dict__["payload"] = {**self.payload, **changes}
        return copy

    def _fields(self) -> dict[str, Any]:
        nullable = self.nullable
        return {
            name: value
            for name in _in_order(type(self))
            if (value := getattr(self, name)) is not None or name in JSON_FIELDS or name in nullable
        }

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Event) and self.payload == other.payload

    __hash__ = None  # type: ignore[assignment]  # its tool_input is a dict

    def __reduce__(self) -> Any:
        return parse, (self.payload,)

    def __copy__(self) -> Self:
        return self  # it never changes

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self._fields().items() if v != "" and k != "hook_event_name")
        return f"{self.hook_event_name}({shown})"


_BASE = Event.__struct_fields__


@functools.cache
def _in_order(kind: type[Event]) -> tuple[str, ...]:
    """The fields in the order in which they are sent."""
    return (*_BASE, "hook_event_name", *(name for name in kind.__struct_fields__ if name not in _BASE))


# -- tools ---------------------------------------------------------------------------------------------------------
class _ToolEvent(Event, frozen=True, kw_only=True):
    tool_name: str
    tool_input: Json
    match_field = "tool_name"

    @property
    def effects(self) -> "tuple[Effect, ...]":
        """What the call would do: `delete` of a path, `force-push` of a branch ... See docs/effects.md."""
        found: tuple[Effect, ...] = analysed(self).effects
        return found

    @property
    def commands(self) -> "tuple[Command, ...]":
        """The commands that a shell call would run, wrappers and substitutions included."""
        found: tuple[Command, ...] = analysed(self).commands
        return found


class PreToolUse(_ToolEvent, frozen=True, kw_only=True):
    """A tool is about to run."""

    tool_use_id: str = ""
    mcp_server: dict[str, Any] | None = None
    block = Block.DENY
    takes_context = True


class PostToolUse(_ToolEvent, frozen=True, kw_only=True):
    """A tool has run and succeeded."""

    tool_response: Json = None
    tool_use_id: str = ""
    duration_ms: int | float | None = None
    mcp_server: dict[str, Any] | None = None
    block = Block.MODEL
    takes_context = True
    nullable = frozenset({"tool_response"})


class PostToolUseFailure(_ToolEvent, frozen=True, kw_only=True):
    """A tool started and failed."""

    tool_use_id: str = ""
    error: str = ""
    is_interrupt: bool | None = None
    duration_ms: int | float | None = None
    mcp_server: dict[str, Any] | None = None
    block = Block.MODEL
    takes_context = True


class PostToolBatch(Event, frozen=True, kw_only=True):
    """All tools of one model reply have run; the next model call has not begun."""

    tool_calls: list[dict[str, Any]] = []
    block = Block.STOP
    takes_context = True


# -- permission ----------------------------------------------------------------------------------------------------
class PermissionRequest(_ToolEvent, frozen=True, kw_only=True):
    """The agent is about to ask the user for permission, or to deny the call because it can't ask."""

    permission_suggestions: list[Any] | None = None
    mcp_server: dict[str, Any] | None = None
    block = Block.NOT_HONOURED


class PermissionDenied(_ToolEvent, frozen=True, kw_only=True):
    """A call was denied without asking."""

    tool_use_id: str = ""
    reason: str = ""
    mcp_server: dict[str, Any] | None = None


# -- prompt and display --------------------------------------------------------------------------------------------
class UserPromptSubmit(Event, frozen=True, kw_only=True):
    """A prompt was submitted; the model has not seen it yet."""

    prompt: str
    source: str | None = None
    session_title: str | None = None
    block = Block.DENY
    text_is_context = True
    takes_context = True


class UserPromptExpansion(Event, frozen=True, kw_only=True):
    """A typed slash command or an MCP prompt expands."""

    expansion_type: str = ""
    command_name: str
    command_args: str = ""
    command_source: str | None = None
    prompt: str
    match_field = "command_name"
    block = Block.DENY
    text_is_context = True
    takes_context = True


class Notification(Event, frozen=True, kw_only=True):
    """The user is notified of something."""

    message: str = ""
    title: str | None = None
    notification_type: str = ""
    match_field = "notification_type"
    takes_context = True


class MessageDisplay(Event, frozen=True, kw_only=True):
    """Finished lines of a reply are about to be shown."""

    turn_id: str = ""
    message_id: str = ""
    index: int | float = 0
    final: bool = False
    delta: str = ""


# -- session -------------------------------------------------------------------------------------------------------
class SessionStart(Event, frozen=True, kw_only=True):
    """A session begins, resumes, or continues after clear or compact."""

    source: str = "startup"
    model: str | None = None
    session_title: str | None = None
    seconds_since_last_response: int | float | None = None
    context_tokens: int | float | None = None
    prompt_cache_likely_expired: bool | None = None
    estimated_cache_write_usd: int | float | None = None
    match_field = "source"
    block = Block.USER
    text_is_context = True
    takes_context = True


class SessionEnd(Event, frozen=True, kw_only=True):
    """A session ends."""

    reason: str = "other"
    match_field = "reason"
    block = Block.USER


class Setup(Event, frozen=True, kw_only=True):
    """A run begins that initialises or maintains the project."""

    trigger: str = ""
    match_field = "trigger"
    block = Block.USER
    takes_context = True


# -- end of a turn -------------------------------------------------------------------------------------------------
class Stop(Event, frozen=True, kw_only=True):
    """The agent has finished its reply."""

    stop_hook_active: bool = False
    last_assistant_message: str | None = None
    background_tasks: list[Any] | None = None
    session_crons: list[Any] | None = None
    block = Block.KEEP_GOING
    takes_context = True


class StopFailure(Event, frozen=True, kw_only=True):
    """The model's service ended the turn with an error."""

    error: str = ""
    error_details: str | None = None
    last_assistant_message: str | None = None
    match_field = "error"


# -- agents, teams, tasks ------------------------------------------------------------------------------------------
class SubagentStart(Event, frozen=True, kw_only=True):
    """A subagent was started."""

    agent_id: str = ""
    agent_type: str = ""
    match_field = "agent_type"
    block = Block.USER
    takes_context = True


class SubagentStop(Event, frozen=True, kw_only=True):
    """A subagent has finished."""

    stop_hook_active: bool = False
    agent_id: str = ""
    agent_transcript_path: str = ""
    agent_type: str = ""
    last_assistant_message: str | None = None
    background_tasks: list[Any] | None = None
    session_crons: list[Any] | None = None
    match_field = "agent_type"
    block = Block.KEEP_GOING
    takes_context = True


class TeammateIdle(Event, frozen=True, kw_only=True):
    """A teammate has run out of work."""

    teammate_name: str = ""
    team_name: str = ""
    block = Block.KEEP_GOING


class _TaskEvent(Event, frozen=True, kw_only=True):
    task_id: str = ""
    task_subject: str = ""
    task_description: str | None = None
    teammate_name: str | None = None
    team_name: str | None = None
    block = Block.DENY


class TaskCreated(_TaskEvent, frozen=True, kw_only=True):
    """A task is being created."""


class TaskCompleted(_TaskEvent, frozen=True, kw_only=True):
    """A task is being marked as done."""


# -- compaction ----------------------------------------------------------------------------------------------------
class PreCompact(Event, frozen=True, kw_only=True):
    """The conversation is about to be summarised."""

    trigger: str = ""
    custom_instructions: str | None = None
    match_field = "trigger"
    block = Block.DENY
    nullable = frozenset({"custom_instructions"})


class PostCompact(Event, frozen=True, kw_only=True):
    """The conversation was summarised."""

    trigger: str = ""
    compact_summary: str = ""
    match_field = "trigger"
    block = Block.USER


# -- model ---------------------------------------------------------------------------------------------------------
class _ModelSwitch(Event, frozen=True, kw_only=True):
    from_model: str = ""
    to_model: str = ""
    requested_model: str | None = None
    source: str = ""
    context_tokens: int | float = 0
    prompt_cache_warm: bool = False
    cache_ttl: str = ""
    estimated_cache_write_usd: int | float = 0
    pricing: str = ""
    match_field = "to_model"
    nullable = frozenset({"requested_model"})


class PreModelSwitch(_ModelSwitch, frozen=True, kw_only=True):
    """A switch to another model was requested."""

    to_model: str
    block = Block.DENY


class PostModelSwitch(_ModelSwitch, frozen=True, kw_only=True):
    """The model was switched."""

    block = Block.USER
    text_is_context = True
    takes_context = True


# -- MCP elicitation -----------------------------------------------------------------------------------------------
class Elicitation(Event, frozen=True, kw_only=True):
    """An MCP server asks the user for input."""

    mcp_server_name: str
    message: str = ""
    mode: str | None = None
    url: str | None = None
    elicitation_id: str | None = None
    requested_schema: dict[str, Any] | None = None
    match_field = "mcp_server_name"
    block = Block.DENY


class ElicitationResult(Event, frozen=True, kw_only=True):
    """The user has answered; the answer has not been sent."""

    mcp_server_name: str
    elicitation_id: str | None = None
    mode: str | None = None
    action: str = ""
    content: dict[str, Any] | None = None
    match_field = "mcp_server_name"
    block = Block.DENY


# -- configuration, files, worktrees -------------------------------------------------------------------------------
class ConfigChange(Event, frozen=True, kw_only=True):
    """A settings, skill or policy file changed during the session."""

    source: str
    file_path: str | None = None
    match_field = "source"
    block = Block.DENY


class InstructionsLoaded(Event, frozen=True, kw_only=True):
    """A file of instructions was loaded."""

    file_path: str = ""
    memory_type: str = ""
    load_reason: str = ""
    globs: list[str] | None = None
    trigger_file_path: str | None = None
    parent_file_path: str | None = None
    match_field = "load_reason"


class CwdChanged(Event, frozen=True, kw_only=True):
    """The working directory changed."""

    old_cwd: str = ""
    new_cwd: str = ""
    block = Block.USER


class FileChanged(Event, frozen=True, kw_only=True):
    """A watched file changed on disk."""

    file_path: str = ""
    event: str = ""
    match_field = "file_path"
    block = Block.USER

    @property
    def target(self) -> str | None:
        return self.file_path.replace("\\", "/").rsplit("/", 1)[-1]


class DirectoryAdded(Event, frozen=True, kw_only=True):
    """A directory was added to the session."""

    directory: str = ""
    source: str = ""
    match_field = "source"
    block = Block.USER


class WorktreeCreate(Event, frozen=True, kw_only=True):
    """A worktree is needed; the hook makes it and prints its path."""

    # The wire calls this field `name`.
    name: str = ""
    block = Block.DENY


class WorktreeRemove(Event, frozen=True, kw_only=True):
    """A worktree is removed."""

    worktree_path: str = ""


class OtherEvent(Event, frozen=True, kw_only=True):
    """An event without a type: everything that it came with is in `payload`."""

    name: str
    # Its meaning is unknown, so a block counts as a refusal.
    block = Block.DENY
    can_block = True

    @property
    def hook_event_name(self) -> str:  # type: ignore[override]
        return self.name

    def _fields(self) -> dict[str, Any]:
        fields = super()._fields()
        del fields["name"]
        return fields


# -- reading -------------------------------------------------------------------------------------------------------

EVENTS: dict[str, type[Event]] = {
    name: kind
    for name, kind in globals().items()
    if isinstance(kind, type) and issubclass(kind, Event) and kind not in (Event, OtherEvent) and name[0] != "_"
}
"""Every event that has a type, by name."""

_OF_SENT_INPUT = ("text of tool_input", "sent input")
JSON_FIELDS = ("tool_input", "tool_response")


class _LazyField:
    """A field that may contain undecoded JSON: decoded on first use, then remembered."""

    def __init__(self, member: Any, field: str) -> None:
        self.member = member
        self.field = field

    def __get__(self, event: Event | None, kind: type[Event]) -> Any:
        if event is None:
            return self
        kept = event.__dict__  # Python finds its entries without calling us
        value = self.member.__get__(event, kind)
        if type(value) is Raw:
            whole = kept.get("payload")
            value = _decode_any(bytes(value), f"$.{self.field}") if whole is None else whole[self.field]
            kept[self.field] = value
        return value


for _kind in EVENTS.values():
    type.__setattr__(_kind, "hook_event_name", _kind.__name__)
    type.__setattr__(_kind, "gates", _kind.block in (Block.DENY, Block.NOT_HONOURED))
    type.__setattr__(_kind, "can_block", _kind.gates or _kind.block in (Block.KEEP_GOING, Block.STOP))
for _kind, _field in ((_ToolEvent, "tool_input"), (PostToolUse, "tool_response")):
    type.__setattr__(_kind, _field, _LazyField(getattr(_kind, _field), _field))


def decode(data: bytes) -> Event:
    """Read one event from its JSON. Raises EventError, which names the JSON path of the error."""
    try:
        event = _decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        # An unknown event, an escape that msgspec refuses (a lone \ud800), or a real error: the slow way tells them
        # apart. One odd escape in a command must not switch guards off.
        return parse(read_object(data))
    event.__dict__["source"] = data
    return event


def decode_all(data: bytes) -> Event:
    """The same with all of its JSON decoded, so that an error anywhere in it is raised now."""
    event = decode(data)
    kept = event.__dict__
    if "payload" not in kept:
        payload = kept["payload"] = read_object(data)
        if "tool_input" in _KNOWN[type(event)]:
            kept["tool_input"] = payload["tool_input"]
    return event


def _decode_first(data: bytes) -> Event:
    """One decoder for all kinds takes a while to make: a process with a single event does without."""
    global _decode  # noqa: PLW0603 - the first call chooses how all later ones are read
    _decode = _decode_second
    kind = EVENTS.get(msgspec.json.decode(data, type=_NamedEvent).hook_event_name)
    return _decode_second(data) if kind is None else msgspec.json.decode(data, type=kind)


def _decode_second(data: bytes) -> Event:
    global _decode  # noqa: PLW0603
    _decode = msgspec.json.Decoder(functools.reduce(operator.or_, EVENTS.values())).decode
    return _decode(data)


_decode: Callable[[bytes], Event] = _decode_first


class _NamedEvent(Struct):
    hook_event_name: str


def parse(payload: Mapping[str, Any], *, tool_input: bytes | None = None) -> Event:
    """Make an event from a dict in wire form; unknown fields are kept. `tool_input` is the input's text as sent."""
    if not isinstance(payload, Mapping):
        raise EventError(f"expected an object, got {_kind_of(payload)}")
    name = payload.get("hook_event_name")
    if not isinstance(name, str) or not name:
        hint = 'every event has a name, for example "hook_event_name": "PreToolUse"'
        what = "missing field" if name is None else f"expected a name, got {_kind_of(name)}"
        raise EventError(what, path="$.hook_event_name", hint=hint)
    kind = EVENTS.get(name, OtherEvent)
    given = payload.keys() & _KNOWN[kind] - {"hook_event_name"}
    absent = _null_is_absent(kind)
    known = {key: payload[key] for key in given if payload[key] is not None or key not in absent}
    if kind is OtherEvent:
        known["name"] = name
    free = {key: known.pop(key) for key in JSON_FIELDS if key in known}
    try:
        checked = msgspec.convert(known, _checked(kind))
    except msgspec.ValidationError as error:
        raise _event_error(error) from None
    if "tool_input" in _KNOWN[kind] and "tool_input" not in free:
        raise EventError("missing field", path="$.tool_input")
    event = kind(**{key: getattr(checked, key) for key in known}, **free)
    event.__dict__["payload"] = dict(payload)
    if tool_input is not None:
        event.__dict__["text of tool_input"] = tool_input
    return event


def read_object(data: bytes) -> dict[str, Any]:
    """The JSON object that an agent sent. Raises EventError."""
    try:
        payload = _ANY.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        payload = _decode_any(data, "$")
    if not isinstance(payload, dict):
        raise EventError(f"expected an object, got {_kind_of(payload)}")
    return payload


def _decode_any(data: bytes, path: str) -> Any:
    try:
        return _ANY.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        try:
            return strictjson.loads_leniently(data, max_depth=400)
        except StrictJSONError as error:
            raise EventError(f"not JSON: {error.message}", path=path) from None


def _event_error(error: msgspec.ValidationError) -> EventError:
    text, _, path = str(error).partition(" - at `")
    path = path.rstrip("`") or "$"
    if text.startswith("Object missing required field `"):
        return EventError("missing field", path=f"{path}.{text.split('`')[1]}")
    return EventError(text[:1].lower() + text[1:], path=path)


def _kind_of(value: object) -> str:
    if value == "":
        return "an empty string"
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _member(kind: type[Event], field: str) -> Any:
    found = getattr(kind, field)
    return found.member if isinstance(found, _LazyField) else found


@functools.cache
def _checked(kind: type[Event]) -> type[Struct]:
    """The same fields without the free-form ones; `parse` checks a dict against them."""
    default: Any = msgspec.field  # its stub refuses NODEFAULT
    fields = [
        (field.name, field.type, default(default=field.default, default_factory=field.default_factory))
        for field in msgspec.structs.fields(kind)
        if field.name not in JSON_FIELDS
    ]
    return msgspec.defstruct(f"{kind.__name__}Fields", fields, kw_only=True)


@functools.cache
def _null_is_absent(kind: type[Event]) -> frozenset[str]:
    """The fields for which null means missing: those with a default, and without null in their type."""
    optional = (f for f in msgspec.structs.fields(kind) if not f.required and f.name not in JSON_FIELDS)
    return frozenset(f.name for f in optional if type(None) not in getattr(f.type, "__args__", ()))


_KNOWN = {kind: frozenset({*kind.__struct_fields__, "hook_event_name"}) for kind in EVENTS.values()}
_KNOWN[OtherEvent] = frozenset({*_BASE, "hook_event_name"})
_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
