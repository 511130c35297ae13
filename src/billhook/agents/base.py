"""One record for each coding agent, and the types of its fields.

Each module of an agent has its record in `AGENTS`. Everything else (codecs, `install`, `doctor`, `check --host`,
coverage, detection, lint) reads these records and names no agent.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from billhook.agents import AGENTS
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
"""The effects of an answer, in the order of the tables."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The answers that an agent supports on one event."""

    allow: bool = False  # runs it without asking the user
    deny: bool = False  # does not run it, and reports the reason
    ask: bool = False  # asks the user
    rewrite_input: bool = False  # runs the tool with another input
    replace_output: bool = False  # shows the model another output
    context: bool = False  # adds context for the model
    stop: bool = False  # ends its run
    keep_going: bool = False  # continues instead of stopping
    message: bool = False  # shows the user a message
    quiet: bool = False  # supports `suppressOutput`: the answer is hidden from the user
    instead: Mapping[str, str] = _NONE  # for a field that is false: what happens instead, in one clause

    def true_fields(self) -> tuple[str, ...]:
        """The fields that are true."""
        return tuple(field for field in FIELDS if getattr(self, field))

    def becomes(self, field: str) -> str:
        """What happens instead if a field is not supported, or what else happens; "" if nothing."""
        return self.instead.get(field, "" if getattr(self, field) else "is lost")


def row(can: str = "", **instead: str) -> Capabilities:
    """A row of capabilities: the fields that are true, and what happens instead for some of the others."""
    flags = dict.fromkeys(can.split(), True)
    return Capabilities(**flags, instead=MappingProxyType(instead))


def pairs(text: str) -> Mapping[str, str]:
    """A table of names from pairs like `one=other`."""
    return {one: other for one, _, other in (pair.partition("=") for pair in text.split())}


def quiet(rows: Mapping[str, Capabilities]) -> Mapping[str, Capabilities]:
    """The rows of an agent that supports `suppressOutput` on every event."""
    return {event: msgspec.structs.replace(one, quiet=True) for event, one in rows.items()}


def rounded(held: str, /, **rows: str) -> dict[str, Capabilities]:
    """The rows of an agent whose answers `downgrade` adapts: by event, the fields that are true. `held`: the events
    that deliver context which other events can't carry; empty: none can."""
    return {event: rounded_row(can, held, event) for event, can in rows.items()}


def rounded_row(can: str, held: str, event: str = "PreToolUse", **instead: str) -> Capabilities:
    """One row. `instead`: exceptions from the result of `downgrade`, and what else happens to a supported field."""
    one = row(can)
    clauses = {"deny": _after_denial(one), "context": f"held until {held}" if held and event != "SessionEnd" else ""}
    if one.deny:
        clauses |= {"ask": DENIES, "stop": DENIES}
    elif one.keep_going or one.context:
        clauses["stop"] = "is what happens anyway" if one.keep_going else LATE
    if one.deny and event in WAITING:
        clauses["allow"] = "is left to the agent's own permissions"
        clauses["rewrite_input"] = "becomes deny; the reason has the new input"
    told = {field: clause for field, clause in clauses.items() if not getattr(one, field)} | instead
    said = {field: clause for field, clause in told.items() if clause}
    return msgspec.structs.replace(one, instead=MappingProxyType(said))


def _after_denial(one: Capabilities) -> str:
    """What happens to a deny after the action, in the order of `downgrade`."""
    if one.keep_going:
        return "keeps the agent going"
    if one.replace_output:
        return "replaces the output"
    if one.context:
        return LATE
    return "ends the run" if one.stop else "is only shown to the user" if one.message else UNPREVENTED


DENIES: Final = "becomes deny"
LATE: Final = "is passed to the model as context"
UNPREVENTED: Final = "is lost: the agent can't block here"
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
"""By event: its kind in a row of refusals."""


PATH: Final = {"path": "file_path"}
OLD_AND_NEW: Final = {"old_str": "old_string", "new_str": "new_string"}


class Refusal(NamedTuple):
    """How to refuse an event that billhook can't check. The first matching row counts."""

    kinds: str  # kinds of events, separated by spaces; empty: any
    code: int = 2  # the exit code; the reason is on stderr, too
    stdout: Mapping[str, Any] | str | None = ""  # JSON in which `@` is the reason, or text; None: the event continues
    by: str = "client user project"
    """The sender: the compiled client, an entry in the user's or a project's file if billhook is missing, or `http`: an
    HTTP answer to an event of unknown kind."""

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
"""Exit code 2, and compacting continues: supported by most agents."""
REFUSALS_WITH_PERMISSION: Final = (REFUSALS[0], Refusal("permission", 0, REFUSE_PERMISSION), REFUSALS[1])
"""The same, with JSON for refused permissions."""
REFUSE_ANYTHING: Final = Refusal("", 0, {"continue": False, "stopReason": "@", **REFUSE}, "http")
"""A refusal for every event."""

REFUSALS_OF_SEEDS: Final = {
    "claw": (Refusal("", 2, "@"),),
    "claw-text": (Refusal("", 2, "@"),),
    "lesson": (Refusal("tool", 1), Refusal("", 1, REFUSE)),  # elsewhere the code alone is a warning
}

TRUST_FIRST: Final = "{} reads a project's hooks only in trusted folders: start it there once, and trust the folder"


class Trust(NamedTuple):
    """One fact about an agent's trust in a folder or in hooks, as its files show it."""

    level: Literal["ok", "unknown", "note", "warn", "fail"]
    text: str
    remedy: str = ""


class Start(NamedTuple):
    """How an agent is started for a canary: arguments and variables."""

    words: tuple[str, ...]
    environ: Mapping[str, str]


CANARY_KEY: Final = "billhook-canary"  # a placeholder for an API key; it never leaves the machine


class SettingsEntry(Protocol):
    """One entry of billhook in an agent's file."""

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
    """One file of an agent with entries of billhook."""

    @property
    def scope(self) -> Scope: ...
    @property
    def path(self) -> str: ...
    @property
    def entries(self) -> Sequence[Any]: ...


Settings = Callable[[str], dict[str, Any]]  # Reads a settings file: empty if it is missing or can't be read.


class TrustCheck(NamedTuple):
    """The input of a trust check: a project, and the agent's files with entries of billhook."""

    agent: "Agent"
    project: str
    installed: Sequence[Installed]
    settings: Settings

    def read(self, name: str) -> dict[str, Any]:
        """A settings file in the agent's own folder."""
        return self.settings(os.path.join(self.agent.home(), name))

    def folder(self, trusted: bool | None, why: str = "", more: str = "") -> Trust:
        """Whether the agent trusts this folder, and how serious it is if not. `more`: further consequences."""
        title, because = self.agent.title, f" ({why})" if why else ""
        if trusted:
            return Trust("ok", f"{title} trusts this folder{because}")
        scopes = {one.scope for one in self.installed}
        text = f"{title} does not trust this folder{because}"
        if "project" not in scopes:
            return Trust("note" if more else "ok", f"{text}. The entries in your own settings still run{more}")
        level: Literal["warn", "fail"] = "fail" if scopes == {"project"} else "warn"
        remedy = f"start `{self.agent.program}` here, and trust the folder"
        return Trust(level, f"{text}, and reads no hooks from it", remedy)

    def switched_off(self, path: str) -> Iterator[Trust]:
        """A failure if a file disables all hooks."""
        if self.settings(path).get("disableAllHooks") is True:
            yield Trust("fail", f"{path} disables all hooks (`disableAllHooks`)", "change that setting")


class SettingsFormat:
    """The format of an agent's settings file: usually JSON. `formats` has those of several agents."""

    def read(self, text: str) -> str:
        """The settings of a file, as JSON."""
        return text

    def write(self, settings: str, text: str) -> str:
        """The file with these settings; `text`: its current content."""
        return settings


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known about one coding agent."""

    name: str  # the name in `--as` and `install`
    title: str  # the product name
    aliases: tuple[str, ...] = ()  # other names that users may try
    meanings: Meanings = rows.UNIVERSAL  # of its dialect

    # -- events and tools

    event_names: Mapping[str, str] = _NONE  # billhook's names of its events, and its own names in its settings
    narrower: Mapping[str, str] = _NONE  # its names of narrower events, each for a part of one billhook event
    tools_of: Mapping[str, str] = _NONE  # by such a name: the tools of that event
    only_its: tuple[str, ...] = ()  # events that only this agent has, by its own names
    installs_own: bool = False  # whether `install` can write entries for those
    not_usual: frozenset[str] = frozenset()  # events that `install` writes only for hooks that handle them
    tools: Mapping[str, str] = _NONE  # its names of tools, and billhook's; the first of several is its usual one
    inputs: Mapping[str, Mapping[str, str]] = _NONE  # by billhook's name of a tool: its names of fields, and billhook's
    unhooked: frozenset[str] = frozenset()  # tools for which it runs no hook

    # -- supported answers

    capabilities: Mapping[str, Capabilities] = _NONE  # by billhook's name of an event
    narrower_capabilities: Mapping[str, Capabilities] = _NONE  # by its narrower names
    taken_over: str = ""
    """What it accepts in a rewritten input of tools that write files or run commands; another rewrite becomes a deny.
    Empty: it accepts everything."""
    refusals: tuple[Refusal, ...] = REFUSALS
    parts: bool = False
    """Whether it sends narrower events beside the whole one, and a hook may be written for one of them. If not, they
    are parts of the whole event, and `install` writes all of them."""

    # -- detection

    sends: Callable[[Payload, Mapping[str, str]], int] = lambda _payload, _environ: 0
    """Whether a payload, in this environment, is from this agent: 0 no, 1 by its variables, 2 by the payload's form,
    3 by a field that only this agent sends."""
    unnamed_event: Callable[[Payload], str] = lambda _payload: ""  # the event of a payload without its name
    payload_of: Callable[[Payload], dict[str, Any]] | None = None
    """For an agent that uses another agent's dialect with different names: a payload with the names of that dialect."""
    input_for: Callable[[Payload, Payload], dict[str, Any]] | None = None
    """The reverse: a rewritten input with the names of the original input."""
    escapes: str = ""  # a sentence about calls for which it runs no hooks, for `doctor`
    reads_claude: tuple[Scope, ...] = ()  # the settings of Claude Code that it also reads
    marks: Mapping[str, str] = _NONE  # Variables that it sets for its children, and its name then; empty: its title.
    packages: tuple[tuple[str, str], ...] = ()  # the npm package of its program: scope, and name
    program_title: str = ""  # the name of its program, if that is not its title

    # -- its settings

    program: str = ""  # the executable on PATH
    without_program: bool = False  # whether it can be used without that program
    shares_program: bool = False  # whether another common program has that name: on PATH alone it shows nothing
    is_editor: bool = False  # whether that program is an editor: what runs in its terminal may be the user's
    project_file: str = ""  # the file with the entries of a project, relative to the project
    user_file: str = ""  # the file with those of the user, relative to the home folder
    folder: str = ""  # its own folder below the home folder; empty: the first part of `user_file`
    home_variable: str = ""  # the environment variable that moves that folder
    home_is: Literal["folder", "home"] = "folder"
    """The meaning of that variable: the folder of `user_file` itself, or the home folder above it."""
    traces: tuple[str, ...] = ("",)
    """Files and folders below its own folder that exist if the agent is used; empty: the folder itself."""
    format: SettingsFormat = SettingsFormat()
    companions: tuple[tuple[str, str], ...] = ()  # further files in the folder of `user_file`: name and content
    own_file: bool = False  # whether only billhook writes the file: the agent reads every file of that folder
    strict_files: tuple[
        str, ...
    ] = ()  # files of a project that it skips completely if one entry is invalid; of the user's, `user_file`
    beside: Callable[[str, Callable[[str], bytes]], Iterator[str]] | None = None
    """Sentences about other files beside the one with its entries; the second argument reads a file."""
    own_keys: Mapping[str, str] = _NONE  # its names of billhook's keys, in its own file
    read_keys: frozenset[str] = frozenset()  # keys of its handlers that other agents don't read
    trust: Callable[[TrustCheck], Iterable[Trust]] | None = None
    """Facts from its files about its trust in a project and in billhook's entries."""
    next_steps: tuple[tuple[Scope | Literal["any"], str], ...] = ()  # what to do after `install`, in which scope
    transcripts: bool = False  # whether `transcripts` has a reader of its transcripts
    names_calls: bool = True  # its events have the ids of calls, as its transcripts have
    start: Callable[["Agent", str, str, Settings], Start] | None = None
    """How it is started for a canary, with the address of its model and a prompt; None: it needs an account."""

    # -- its entries

    shape: Shape = "nested"  # `nested`: event, groups with a matcher, handlers in `hooks`. `flat`: event, handlers.
    ungrouped: frozenset[str] = frozenset()  # events without groups in a nested file, by its own names
    hooks_key: str = "hooks"  # the key of its file below which the events are
    named_groups: bool = False  # whether every key of its file has events below it: `hooks_key` is that of billhook
    head: Mapping[str, int | str] = _NONE  # keys that a new file needs beside `hooks`
    command_key: str = "command"
    typed: bool = True  # whether an entry has `"type": "command"`
    timeout_key: str = "timeout"  # empty: its entries have no timeout
    longest: Mapping[str, float] = _NONE
    """The agent's maximum timeout of some events, in seconds, even if an entry has a longer one."""
    ending: tuple[float, int] = (5, 4500)
    """For SessionEnd if no hook needs more: the timeout in seconds, and billhook's deadline in milliseconds."""
    fail_closed: tuple[str, str | bool] | None = None
    """The agent's setting, key and value, that fails closed if a hook fails; None if it has none."""
    also_refused: frozenset[str] = frozenset()  # further events that can be refused in this agent only
    named: bool = False  # whether an entry may have a `name`
    group: Mapping[str, bool] = _NONE  # keys of an entry's group beside its handlers
    http: bool = False  # whether a hook may be an HTTP request
    no_http: frozenset[str] = frozenset()  # events that don't support HTTP hooks
    why_no_http: str = "it has no HTTP hooks"
    silence: Mapping[str, Mapping[str, Any]] = _NONE
    """The answer without an opinion, by billhook's name of an event; "": of any other. Empty: it prints nothing."""
    event_argument: bool = False  # whether the entry must contain the event's name, because the payload doesn't
    system_message: bool = False  # whether it shows a `systemMessage` to the user
    parallel: bool = False  # whether it starts the hooks of one event at the same time, as far as that is known
    equal_once: bool = False  # whether it runs a command once that several entries of its settings name
    variable_files: tuple[str, ...] = (".env",)
    """Files of a project from which it, or the user's shell, may have variables."""
    headless: frozenset[str] = frozenset()  # words of a command line that starts it without a person
    unattended: Callable[[Payload, Mapping[str, str]], bool] = lambda _payload, _environ: False
    """Whether no person sees its questions in this run, as far as payload and variables tell."""

    @property
    def unit_per_second(self) -> int:
        """1: the agent counts its timeouts in seconds; 1000: in milliseconds."""
        return self.meanings.time_per_second

    @property
    def default_timeout(self) -> float:
        return self.meanings.timeout

    @property
    def spellings(self) -> Mapping[str, str]:
        """Every event that can be in its settings: billhook's name and its own. Narrower events, and those that only
        this agent has, by its own name."""
        own = (*self.narrower, *(self.only_its if self.installs_own else ()))
        return {**self.event_names, **{name: name for name in own}}

    @property
    def events(self) -> tuple[str, ...]:
        """Billhook's names of the events that `install` writes by default, each of the agent's names once."""
        usual = [name for name in _USUAL.split() if name in self.event_names]
        own = {self.event_names[name]: name for name in reversed(usual)}
        wide = [name for name in usual if name in own.values() and name not in self.not_usual]
        return (*wide, *(() if self.parts else self.narrower))

    def grouped(self, own: str) -> bool:
        """Whether the handlers of an event, by its own name, are in groups."""
        return self.shape == "nested" and own not in self.ungrouped

    def neutral(self, event: str) -> Mapping[str, Any] | None:
        """The answer without an opinion on an event, by billhook's name; None: nothing is printed."""
        return self.silence.get(event, self.silence.get(""))

    def refusal(self, by: str, event: str = "") -> Refusal:
        """The refusal of an event by a sender; `event` is billhook's name, empty for an unknown kind."""
        rows, kind = (*self.refusals, REFUSE_ANYTHING), REFUSAL_KINDS.get(event, "")
        return next(one for one in rows if by in one.by.split() and (not one.kinds or kind in one.kinds.split()))

    def file(self, scope: Scope, project: str) -> str:
        """The file of the entries, as an absolute path. An agent without project files has one file for both."""
        if scope == "project" and self.project_file:
            return os.path.join(project, self.project_file)
        return os.path.join(self.home(), self.user_file.removeprefix(f"{self._folder}/"))

    def home(self) -> str:
        """The agent's folder of this user, which may not exist."""
        moved = client_env.environ().get(self.home_variable) if self.home_variable else None
        if moved and self.home_is == "folder":
            return client_env.abspath(client_env.expanduser(moved))
        return os.path.join(client_env.abspath(client_env.expanduser(moved or "~")), self._folder)

    @property
    def _folder(self) -> str:
        return self.folder or self.user_file.partition("/")[0]


CAPABILITIES: Final = LazyTable[Mapping[str, Capabilities]](AGENTS, lambda name: AGENTS[name].capabilities)
"""By agent and by billhook's name of an event. An event that an agent does not have is absent."""


def can(dialect: str, event: str) -> Capabilities:
    """An agent's capabilities on an event, by billhook's name or the agent's; none if it does not have the event."""
    return able(AGENTS[dialect], event) if dialect in AGENTS else Capabilities()


def able(agent: Agent, event: str) -> Capabilities:
    """The same for the record of an agent."""
    known, narrow = agent.capabilities, agent.narrower_capabilities
    return narrow.get(event) or known.get(event) or known.get(agent.narrower.get(event, "")) or Capabilities()


def sends_own_names(names: Iterable[str], payload: Payload) -> bool:
    """Whether the name of the event in a payload is used by one agent only."""
    return payload.get("original_event_name", payload.get("hook_event_name")) in names


# -- trust checks of several agents


def way_up(folder: str) -> Iterator[str]:
    """A folder and its parents, as given and with links resolved."""
    for begin in dict.fromkeys((folder, os.path.realpath(folder))):
        path, above = "", begin
        while above != path:
            path, above = above, os.path.dirname(above)
            yield path


def dig(value: object, *keys: str) -> object:
    """The value below some keys; None if it is missing."""
    for key in keys:
        value = mapping(value).get(key)
    return value


def mapping(value: object) -> dict[str, Any]:
    """The same object; empty for any other value."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """The same list; empty for any other value."""
    return value if isinstance(value, list) else []


def only(value: object) -> dict[str, Any]:
    """The only object of a list; empty for any other value."""
    return mapping(value[0]) if isinstance(value, list) and len(value) == 1 else {}


def set_folder(payload: dict[str, Any], folders: object) -> None:
    """Fills in the folder of a payload without one: the first of these."""
    for folder in items(folders)[:1]:
        if isinstance(folder, str) and folder and not payload.get("cwd"):
            payload["cwd"] = folder


def without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The other fields."""
    return {name: value for name, value in fields.items() if name not in names}
