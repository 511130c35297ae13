"""One record for each coding agent, and the types of its fields.

Each module of an agent has its record in `AGENTS`. Everything else (codecs, `install`, `doctor`, `check --host`,
coverage, detection, lint) reads these records and knows no agent by name.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from billhook.agents import AGENTS
from billhook.agents.formats import SettingsFormat
from billhook.core import client_env
from billhook.core import dialect_traits as rows
from billhook.core.dialect_traits import Meanings
from billhook.core.lazy import LazyTable

if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object  # at run time an interface is only a name

Payload = Mapping[str, Any]
Shape = Literal["nested", "flat"]
Scope = Literal["user", "project"]
_NONE: Final = MappingProxyType[str, Any]({})

FIELDS: Final = ("allow", "deny", "ask", "rewrite_input", "replace_output", "context", "stop", "keep_going", "message")
"""What a hook can want, in the order of the tables."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent does when it is told so on one event."""

    allow: bool = False  # runs it without asking the person
    deny: bool = False  # does not do it, and tells why
    ask: bool = False  # asks the person
    rewrite_input: bool = False  # runs the tool with another input
    replace_output: bool = False  # shows the model another output
    context: bool = False  # tells the model something
    stop: bool = False  # ends its run
    keep_going: bool = False  # goes on when it wanted to stop
    message: bool = False  # tells the person something
    quiet: bool = False  # knows `suppressOutput`: the answer is hidden from the person
    instead: Mapping[str, str] = _NONE  # for a field that is false: in one clause, what becomes of it

    def wants(self) -> tuple[str, ...]:
        """The fields that are true."""
        return tuple(field for field in FIELDS if getattr(self, field))

    def becomes(self, field: str) -> str:
        """What becomes of something that can't be said; "" when it can."""
        return "" if getattr(self, field) else self.instead.get(field, "is lost")


def row(can: str = "", **instead: str) -> Capabilities:
    """A row of capabilities: the fields that are true, and what becomes of some of the others."""
    flags = dict.fromkeys(can.split(), True)
    return Capabilities(**flags, instead=MappingProxyType(instead))


def pairs(text: str) -> Mapping[str, str]:
    """A table of names: by one name, another, as `one=other`."""
    return {one: other for one, _, other in (pair.partition("=") for pair in text.split())}


def quiet(rows: Mapping[str, Capabilities]) -> Mapping[str, Capabilities]:
    """The rows of an agent that knows `suppressOutput` on every event."""
    return {event: msgspec.structs.replace(one, quiet=True) for event, one in rows.items()}


def rounded(held: str, /, **rows: str) -> dict[str, Capabilities]:
    """The rows of an agent whose answers are made to fit by `downgrade`: by event, the fields that are true.

    `held`: the events to which context is brought that another one can't carry.
    """
    return {event: rounded_row(can, held, event) for event, can in rows.items()}


def rounded_row(can: str, held: str, event: str = "PreToolUse", **instead: str) -> Capabilities:
    """One of them. `instead`: what differs from what `downgrade` makes of it."""
    one = row(can)
    clauses = {"deny": _late_denial(one), "context": "" if event == "SessionEnd" else f"held until {held}"}
    if one.deny:
        clauses |= {"ask": DENIES, "stop": DENIES}
    elif one.keep_going or one.context:
        clauses["stop"] = "is what happens anyway" if one.keep_going else LATE
    if one.deny and event in WAITING:
        clauses["allow"] = "is left to the agent's own permissions"
        clauses["rewrite_input"] = "becomes deny, with the input that was wanted"
    said = {field: clause for field, clause in (clauses | instead).items() if clause and not getattr(one, field)}
    return msgspec.structs.replace(one, instead=MappingProxyType(said))


def _late_denial(one: Capabilities) -> str:
    """What becomes of a deny of what can't be prevented, in the order in which `downgrade` tries them."""
    if one.keep_going:
        return "makes it go on"
    if one.replace_output:
        return "replaces the output"
    if one.context:
        return LATE
    return "ends the run" if one.stop else "is shown to the person only" if one.message else UNPREVENTED


DENIES: Final = "becomes deny"
LATE: Final = "is told to the model as context"
UNPREVENTED: Final = "is lost: this can't be prevented"
WAITING: Final = ("PreToolUse", "PermissionRequest")  # events on which a call waits for the answer

LIKE_CLAUDE: Final = (
    "PreToolUse PostToolUse UserPromptSubmit SessionStart SessionEnd Stop SubagentStart SubagentStop PreCompact"
)
"""Events that several agents have under the names of Claude Code."""
LIKE_CLAUDE_IN_CAMEL_CASE: Final = {
    name: name[0].lower() + name[1:] for name in f"{LIKE_CLAUDE} PostToolUseFailure".split()
}

_USUAL: Final = (
    "SessionStart UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure SubagentStart SubagentStop PreCompact "
    "Stop SessionEnd"
)
"""What guards, loggers and built-ins need; further events are written when a configured hook handles them."""


REFUSAL_KINDS: Final = {
    "PreToolUse": "tool",
    "UserPromptSubmit": "prompt",
    "PermissionRequest": "permission",
    "PreCompact": "compact",
    "SubagentStart": "subagent",
}
"""By event: what a row of refusals calls it."""


class Refusal(NamedTuple):
    """How an event is refused that billhook can't judge. Of several rows the first that fits counts."""

    kinds: str  # kinds of events, separated by spaces; empty: any
    code: int = 2  # the exit code; the reason is on stderr, too
    stdout: Mapping[str, Any] | str | None = ""  # JSON in which `@` is the reason, or text; None: the event continues
    by: str = "client user project"
    """Who refuses: the compiled client, an entry in the user's or a project's file where billhook is missing, or
    `http`: an HTTP answer about an event of an unknown kind."""

    def output(self, reason: str) -> dict[str, Any]:
        """The JSON on stdout, with the reason."""
        return _filled(self.stdout, reason) if isinstance(self.stdout, Mapping) else {}


def _filled(fields: Mapping[str, Any], reason: str) -> dict[str, Any]:
    filled = {key: _filled(value, reason) for key, value in fields.items() if isinstance(value, Mapping)}
    return {key: filled.get(key, reason if value == "@" else value) for key, value in fields.items()}


REFUSE_TOOL: Final = {"permissionDecision": "deny", "permissionDecisionReason": "@"}
REFUSE: Final = {"decision": "block", "reason": "@"}
REFUSE_PERMISSION: Final = {
    "hookSpecificOutput": {
        "hookEventName": "PermissionRequest",
        "decision": {"behavior": "deny", "message": "@"},
    }
}
REFUSALS: Final = (Refusal("compact", 0, None), Refusal(""))
"""Exit code 2, and compacting continues: what most agents understand."""
REFUSALS_WITH_PERMISSION: Final = (REFUSALS[0], Refusal("permission", 0, REFUSE_PERMISSION), REFUSALS[1])
"""The same where a permission is refused in JSON."""
REFUSE_ANYTHING: Final = Refusal("", 0, {"continue": False, "stopReason": "@", **REFUSE}, "http")
"""On every event something in it refuses."""


REFUSALS_OF_SEEDS: Final = {
    "claw": (Refusal("", 2, "@"),),
    "claw-text": (Refusal("", 2, "@"),),
    "lesson": (Refusal("tool", 1), Refusal("", 1, REFUSE)),  # elsewhere the code alone is a warning
}


TRUST_FIRST: Final = "{} reads a project's hooks only in a folder that it trusts: start it there once, and trust it"


class Trust(NamedTuple):
    """One fact about what an agent trusts, as far as its own files tell."""

    level: Literal["ok", "unknown", "warn", "fail"]
    text: str
    remedy: str = ""


class Start(NamedTuple):
    """How an agent is started for a canary: the words behind the program, and the variables."""

    words: tuple[str, ...]
    environ: Mapping[str, str]


CANARY_KEY: Final = "billhook-canary"  # stands where an API key is needed; it never leaves the machine


class SettingsEntry(Protocol):
    """One entry of ours in an agent's file."""

    @property
    def event(self) -> str: ...
    @property
    def at(self) -> int: ...
    @property
    def inner(self) -> int: ...
    @property
    def data(self) -> Mapping[str, Any]: ...
    @property
    def group(self) -> Mapping[str, Any]: ...


class Installed(Protocol):
    """One file of an agent with entries of ours."""

    @property
    def scope(self) -> Scope: ...
    @property
    def path(self) -> str: ...
    @property
    def entries(self) -> Sequence[Any]: ...


Settings = Callable[[str], dict[str, Any]]
"""Reads a settings file: empty when there is none, or none that can be read."""


class TrustCheck(NamedTuple):
    """What a look at an agent's trust is about: a project, and the agent's files with entries of ours."""

    agent: "Agent"
    project: str
    installed: Sequence[Installed]
    settings: Settings

    def read(self, name: str) -> dict[str, Any]:
        """A settings file in the agent's own folder."""
        return self.settings(os.path.join(self.agent.home(), name))

    def folder(self, trusted: bool | None, why: str = "", more: str = "") -> Trust:
        """Whether the agent trusts this folder, and how much that matters. `more`: what else happens if not."""
        title, because = self.agent.title, f" ({why})" if why else ""
        if trusted:
            return Trust("ok", f"{title} trusts this folder{because}")
        scopes = {one.scope for one in self.installed}
        text = f"{title} does not trust this folder{because}"
        if "project" not in scopes:
            return Trust("ok", f"{text}; the entries in your own settings count all the same{more}")
        level: Literal["warn", "fail"] = "fail" if scopes == {"project"} else "warn"
        remedy = f"start `{self.agent.program}` here, and trust the folder"
        return Trust(level, f"{text}, and reads no hooks of it", remedy)

    def switched_off(self, path: str) -> Iterator[Trust]:
        """What there is to say when a file has a switch against all hooks."""
        if self.settings(path).get("disableAllHooks") is True:
            yield Trust("fail", f"{path} switches all hooks off (`disableAllHooks`)", "change that setting")


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known about one coding agent."""

    name: str  # what `--as` and `install` call it
    title: str  # what people call it
    aliases: tuple[str, ...] = ()  # names that people may try
    meanings: Meanings = rows.UNIVERSAL  # of the dialect that it speaks

    # -- events and tools

    event_names: Mapping[str, str] = _NONE  # our names of the events that it has, and its own, as in its settings
    narrower: Mapping[str, str] = _NONE  # further names of its own, each for some of what one event of ours is about
    tools_of: Mapping[str, str] = _NONE  # by such a name: the tools that it is about
    only_its: tuple[str, ...] = ()  # events that only this agent has, by its own names
    installs_own: bool = False  # whether `install` can write entries for those
    not_usual: frozenset[str] = frozenset()  # events that `install` writes only for hooks that handle them
    tools: Mapping[str, str] = _NONE  # its own names of tools, and ours; the first of several is its usual one
    inputs: Mapping[str, Mapping[str, str]] = _NONE  # by our name of a tool: its own names of fields, and ours
    unhooked: frozenset[str] = frozenset()  # tools for which it runs no hook

    # -- what it can be told

    capabilities: Mapping[str, Capabilities] = _NONE  # by our name of an event
    narrower_capabilities: Mapping[str, Capabilities] = _NONE  # by its narrower names
    taken_over: str = ""
    """All that it takes over when the input of a tool that writes files or runs lines is rewritten; a rewrite of
    anything else becomes a deny. Empty: it takes over everything."""
    refusals: tuple[Refusal, ...] = REFUSALS
    parts: bool = False  # whether a hook may be written for one of its narrower events

    # -- who calls

    sends: Callable[[Payload, Mapping[str, str]], int] = lambda _payload, _environ: 0
    """Whether a payload, in this environment, is from this agent: 0 no, 1 by its variables, 2 by the payload's form,
    3 by a field that only this agent sends."""
    unnamed_event: Callable[[Payload], str] = lambda _payload: ""  # the event of a payload that does not name one
    payload_of: Callable[[Payload], dict[str, Any]] | None = None
    """For an agent that uses another one's dialect with names of its own: a payload with the names of that dialect."""
    input_for: Callable[[Payload, Payload], dict[str, Any]] | None = None
    """The same the other way round: a rewritten input in the names of the input that was sent."""
    reads_claude: tuple[Scope, ...] = ()  # the settings of Claude Code that it reads, too
    marks: Mapping[str, str] = _NONE
    """Variables in the environment of what it runs, and what it is called then; empty: its title."""
    packages: tuple[tuple[str, str], ...] = ()  # the npm package of its program: scope, and name
    program_title: str = ""  # what its program is called, where that is not its title

    # -- its settings

    program: str = ""  # the executable that is looked for on PATH
    without_program: bool = False  # whether it can be used without that program
    project_file: str = ""  # the file with the entries of a project, relative to the project
    user_file: str = ""  # the file with those of the user, relative to the home folder
    home_variable: str = ""  # the environment variable that moves the agent's own folder elsewhere
    home_is: Literal["folder", "home"] = "folder"
    """What that variable names: the folder of `user_file` itself, or the home folder that it lies in."""
    traces: tuple[str, ...] = ("",)
    """Files and folders below its own folder that exist where it is used; empty: the folder itself."""
    format: SettingsFormat = SettingsFormat()
    own_file: bool = False  # whether the file is billhook's alone: the agent reads every file of that folder
    strict_files: tuple[
        str, ...
    ] = ()  # files of a project that it skips as a whole for one invalid entry; of the user's, `user_file`
    beside: Callable[[str, Callable[[str], bytes]], Iterator[str]] | None = None
    """Sentences about other files beside the one with its entries; the second argument reads a file."""
    own_keys: Mapping[str, str] = _NONE  # its own words for our fields, in its own file
    read_keys: frozenset[str] = frozenset()  # keys of its handlers that other agents don't read
    trust: Callable[[TrustCheck], Iterable[Trust]] | None = None
    """What its files say about a project that it trusts, and about our entries."""
    next_steps: tuple[tuple[Scope | Literal["any"], str], ...] = ()  # what to do after `install`, in which scope
    transcripts: str = ""  # the module that reads its transcripts
    start: Callable[["Agent", str, str, Settings], Start] | None = None
    """How it is started for a canary, by the address of its model and a prompt; None: not without an account."""

    # -- its entries

    shape: Shape = "nested"  # `nested`: event, groups with a matcher, handlers in `hooks`. `flat`: event, handlers.
    head: Mapping[str, int] = _NONE  # keys that a new file needs beside `hooks`
    command_key: str = "command"
    typed: bool = True  # whether an entry says `"type": "command"`
    timeout_key: str = "timeout"
    longest: Mapping[str, float] = _NONE
    """Events that the agent gives no more time than this, in seconds, whatever an entry says."""
    ending: tuple[float, int] = (5, 4500)
    """What SessionEnd gets when no hook needs more: the time-out in seconds, and our deadline in milliseconds."""
    fail_closed: tuple[str, str | bool] | None = None
    """The agent's own switch, key and value, that refuses when a hook fails; None when it has none."""
    also_refused: frozenset[str] = frozenset()  # events besides the usual ones that only this agent lets one refuse
    named: bool = False  # whether an entry may have a `name`
    group: Mapping[str, bool] = _NONE  # what the group of an entry says beside its handlers
    http: bool = False  # whether a hook may be an HTTP request
    no_http: frozenset[str] = frozenset()  # events that take no HTTP hook
    why_no_http: str = "it has no HTTP hooks"
    event_argument: bool = False  # whether the entry has to name the event, because the payload doesn't
    system_message: bool = False  # whether it shows a `systemMessage` to the person
    parallel: bool = True  # whether it runs the hooks of one event at once

    @property
    def unit_per_second(self) -> int:
        """1: the agent counts its time-outs in seconds; 1000: in milliseconds."""
        return self.meanings.time_per_second

    @property
    def default_timeout(self) -> float:
        """Seconds that the agent gives a hook without a time-out."""
        return self.meanings.timeout

    @property
    def spellings(self) -> Mapping[str, str]:
        """Every event that can be in its settings: our name and its own. Narrower events, and those that only it has,
        by its own name."""
        own = (*self.narrower, *(self.only_its if self.installs_own else ()))
        return {**self.event_names, **{name: name for name in own}}

    @property
    def events(self) -> tuple[str, ...]:
        """Our names of the events that `install` writes by default, each of the agent's own names once."""
        usual = [name for name in _USUAL.split() if name in self.event_names]
        own = {self.event_names[name]: name for name in reversed(usual)}
        return tuple(name for name in usual if name in own.values() and name not in self.not_usual)

    def refusal(self, by: str, event: str = "") -> Refusal:
        """How one of those who refuse refuses an event, by our name of it; empty: one of an unknown kind."""
        rows, kind = (*self.refusals, REFUSE_ANYTHING), REFUSAL_KINDS.get(event, "")
        return next(one for one in rows if by in one.by.split() and (not one.kinds or kind in one.kinds.split()))

    def file(self, scope: Scope, project: str) -> str:
        """The file of the entries, as an absolute path. An agent whose projects have none has one for both."""
        if scope == "project" and self.project_file:
            return os.path.join(project, self.project_file)
        return os.path.join(self.home(), self.user_file.partition("/")[2])

    def home(self) -> str:
        """The agent's own folder of this user, existing or not."""
        moved = client_env.environ().get(self.home_variable) if self.home_variable else None
        if moved and self.home_is == "folder":
            return client_env.abspath(client_env.expanduser(moved))
        return os.path.join(client_env.abspath(client_env.expanduser(moved or "~")), self.user_file.partition("/")[0])


CAPABILITIES: Final = LazyTable[Mapping[str, Capabilities]](AGENTS, lambda name: AGENTS[name].capabilities)
"""By agent and by our name of an event. An event that an agent does not have is absent."""


def can(dialect: str, event: str) -> Capabilities:
    """What an agent can be told on an event, by our name of it or by the agent's own; on one that it does not have,
    nothing."""
    return able(AGENTS[dialect], event) if dialect in AGENTS else Capabilities()


def able(agent: Agent, event: str) -> Capabilities:
    """The same for the record of an agent."""
    known, narrow = agent.capabilities, agent.narrower_capabilities
    return narrow.get(event) or known.get(event) or known.get(agent.narrower.get(event, "")) or Capabilities()


def sends_own_names(names: Iterable[str], payload: Payload) -> bool:
    """Whether a payload has an event that only one agent calls so."""
    return payload.get("original_event_name", payload.get("hook_event_name")) in names


# -- what the trust checks of several agents share


def way_up(folder: str) -> Iterator[str]:
    """A folder and all above it, as it was named and as it really is."""
    for begin in dict.fromkeys((folder, os.path.realpath(folder))):
        path, above = "", begin
        while above != path:
            path, above = above, os.path.dirname(above)
            yield path


def dig(value: object, *keys: str) -> object:
    """The value below some keys; None where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
