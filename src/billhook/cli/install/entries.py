"""The handlers in an agent's file: billhook's entries, the program that they call, and others that can be adopted."""

import json
import math
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from billhook.agents import AGENTS, declared_event, whole
from billhook.agents.base import Agent, Scope
from billhook.config import edit_json, sources
from billhook.config.declaration import (
    ADOPTED,
    RESERVED,
    Action,
    Exec,
    RunAction,
    Url,
    checked_name,
    free_name,
    made_name,
)
from billhook.config.edit_json import Document, at_path
from billhook.config.edit_yaml import blocks_of, hooks_in
from billhook.config.nodes import Node
from billhook.config.sources import is_billhook
from billhook.core import client_env
from billhook.core.dialect_traits import meanings
from billhook.core.errors import UsageError
from billhook.core.tools import NAMINGS

SECONDS: Final = 60.0  # the timeout of an entry, unless a hook needs more
PROGRAM: Final = "billhook-hook"
NAME: Final = "billhook"  # the name of an entry, for agents whose entries have one
TOKEN_VARIABLE: Final = "BILLHOOK_TOKEN"
PROJECT_VARIABLE: Final = "CLAUDE_PROJECT_DIR"
REFUSED_WITHOUT: Final = frozenset({"PreToolUse", "UserPromptSubmit", "UserPromptExpansion", "PreModelSwitch"})
"""Events that are refused if billhook is missing: those before an action. Refusing the others would keep an agent
going."""
GET_BILLHOOK: Final = "in a checkout of billhook: uv tool install ."  # it is not on PyPI
MISSING_HERE: Final = (
    f"billhook guards this project, and is not installed here. Install it ({GET_BILLHOOK}), and try again."
)
MISSING_THERE: Final = f"billhook is not installed at {{}}. Install it again ({GET_BILLHOOK} && billhook install {{}})."
NOT_RUNNING: Final = "billhook is not installed here, so its hooks do not run."  # the same in every version
UNGUARDED: Final = f"{NOT_RUNNING} Install it: {GET_BILLHOOK}"

IfMissing = Literal["deny", "allow"]


class EntryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the entries."""

    scope: Scope
    program: str = PROGRAM  # an absolute path in the user's file, the bare name in a project's
    if_missing: IfMissing = "deny"
    http: str = ""  # the daemon's address, such as `http://127.0.0.1:8123`; empty: run a command
    seconds: Mapping[str, float] = {}  # events whose hooks need more than the usual timeout


def entry(host: Agent, event: str, options: EntryOptions) -> dict[str, Any]:
    """One item for the list of an event."""
    seconds, deadline = times(host, event, options.seconds.get(event, 0))
    if options.http and event not in host.no_http:
        handler = _http(host, event, options, deadline)
    else:
        names = {**({"name": NAME} if host.named else {}), **({"type": "command"} if host.typed else {})}
        handler = {**names, host.command_key: command(host, event, options, deadline)}
    if host.timeout_key:
        handler[host.timeout_key] = seconds * host.unit_per_second
    if host.fail_closed and is_refused(host, event):
        handler[host.fail_closed[0]] = host.fail_closed[1]
    return {**host.group, "hooks": [handler]} if host.grouped(host.spellings[event]) else handler


def is_refused(host: Agent, event: str) -> bool:
    """Whether an event is refused if billhook is missing, or can't start."""
    return whole(event) in REFUSED_WITHOUT or event in host.also_refused


def _http(host: Agent, event: str, options: EntryOptions, deadline: int) -> dict[str, Any]:
    rule = "on_failure=deny&" if event in REFUSED_WITHOUT else ""
    return {
        "type": "http",
        "url": f"{options.http}/hook/{host.name}?{rule}deadline={deadline}",
        "headers": {"Authorization": f"Bearer ${TOKEN_VARIABLE}", "X-Billhook-Project": f"${PROJECT_VARIABLE}"},
        "allowedEnvVars": [TOKEN_VARIABLE, PROJECT_VARIABLE],
    }


def times(host: Agent, event: str, needed: float) -> tuple[int, int]:
    """The agent's timeout in seconds, and billhook's deadline in milliseconds, which is shorter."""
    if event == "SessionEnd" and needed <= host.ending[0]:
        return int(host.ending[0]), host.ending[1]
    wanted = max(SECONDS if event != "SessionEnd" else 0, needed + _margin(needed))
    seconds = math.ceil(min(wanted, host.longest.get(event, wanted)))
    return seconds, int((seconds - _margin(seconds)) * 1000)


def _margin(seconds: float) -> float:
    """Time for the agent and the shell to start billhook, and to read its answer."""
    return min(2.0, max(0.5, seconds / 10))


def command(host: Agent, event: str, options: EntryOptions, deadline: int) -> str:
    """The command line: runs billhook, or does what `--if-missing` selects if billhook is missing."""
    # for a narrower event, only the hooks of that event run: all others run for the whole event
    argument = f" {host.spellings[event]}" if host.event_argument or whole(event) != event else ""
    program = shlex.quote(options.program)
    run = f"exec {program} --as {host.name} --deadline {deadline} --from {options.scope}{argument}"
    silent = host.neutral(event) is None
    if options.scope == "user" and not is_refused(host, event) and silent:
        return run
    return f"command -v {program} >/dev/null 2>&1 || {_without(host, event, options)}; {run}"


def _without(host: Agent, event: str, options: EntryOptions) -> str:
    silence = host.neutral(event)
    neutral = f"echo {shlex.quote(json.dumps(silence))}; " if silence is not None else ""
    if options.if_missing == "allow" and event in REFUSED_WITHOUT | {"SessionStart"}:
        stdout = f"echo {shlex.quote(json.dumps({'systemMessage': UNGUARDED}))}; " if host.system_message else neutral
        return f"{{ {stdout}echo {shlex.quote(UNGUARDED)} >&2; exit 0; }}"
    if options.if_missing == "allow" or not is_refused(host, event):
        return f"{{ {neutral}exit 0; }}" if neutral else "exit 0"
    reason = MISSING_HERE if options.scope == "project" else MISSING_THERE.format(options.program, host.name)
    refusal = host.refusal(options.scope, whole(event))
    answer = refusal.output(reason)
    stdout = f"echo {shlex.quote(json.dumps(answer, ensure_ascii=False))}; " if answer else neutral
    stderr = f"echo {shlex.quote(reason)} >&2; " if refusal.code else ""
    return f"{{ {stdout}{stderr}exit {refusal.code}; }}"


_WORD: Final = r"(?:[\w@%+=:,./-]+|'(?:[^']|'\"'\"')*')"
_CALL: Final = re.compile(rf"exec (?P<program>{_WORD}) --as (?P<name>[\w-]+) --deadline (?P<ms>\d+)")
_WRITTEN: Final = re.compile(
    rf"(?:command -v {_WORD} >/dev/null 2>&1 \|\| (?:exit 0|\{{ .* \}}); )?{_CALL.pattern}(?: --from \w+)?(?: \w+)?",
    re.DOTALL,
)
"""Exactly what `command` returns. Earlier versions wrote no `--from`."""
_ADDRESS: Final = re.compile(
    r"(?P<base>https?://(?:[\w.-]+|\[[\w:.]+\])(?::\d+)?)/hook/(?P<name>[\w-]+)\?.*?\bdeadline=(?P<ms>\d+)"
)
_VARIABLES: Final = ([TOKEN_VARIABLE, PROJECT_VARIABLE], [TOKEN_VARIABLE])  # earlier versions did not send the project


class EntryCall(msgspec.Struct, frozen=True):
    """The program that an entry runs, or the address that it calls."""

    dialect: str
    deadline: int  # milliseconds
    program: str = ""
    address: str = ""  # the daemon's, if the entry calls it over HTTP; then `program` is empty


def parse(handler: Mapping[str, Any]) -> EntryCall | None:
    """The call of a handler that has the form of `entry`, also if a person wrote it; else None."""
    for text in _commands(handler):
        if found := _CALL.search(text):
            return EntryCall(found["name"], int(found["ms"]), program=shlex.split(found["program"])[0])
    url = handler.get("url")
    if isinstance(url, str) and (found := _ADDRESS.match(url)):
        return EntryCall(found["name"], int(found["ms"]), address=found["base"])
    return None


def _commands(handler: Mapping[str, Any]) -> list[str]:
    return [handler[key] for key in ("command", "bash") if isinstance(handler.get(key), str)]


def is_written(handler: object) -> bool:
    """Whether `install` wrote this handler, for any agent."""
    if not isinstance(handler, dict) or (call := parse(handler)) is None:
        return False
    if call.address:
        return handler.get("type") == "http" and handler.get("allowedEnvVars") in _VARIABLES
    return any(map(_WRITTEN.fullmatch, _commands(handler))) and call.program.rpartition("/")[2] == PROGRAM


def entries_for(host: Agent, events: Iterable[str], options: EntryOptions) -> dict[str, dict[str, Any]]:
    """The entries of these canonical events, by the agent's names of the events."""
    return {host.spellings[event]: entry(host, event, options) for event in events}


# An agent's file:
class Handler(msgspec.Struct, frozen=True):
    event: str  # the agent's name of it
    at: int  # index in the event's list: of the handler, or of its group
    inner: int  # index in that group's `hooks`; -1 in a flat file
    data: dict[str, Any]
    group: dict[str, Any]  # its group, without the handlers; empty in a flat file
    line: int
    under: str = "hooks"  # the key of the file below which it is

    @property
    def entry(self) -> dict[str, Any]:
        """An item for the event's list with this handler alone."""
        return {**self.group, "hooks": [self.data]} if self.inner >= 0 else self.data


def checked(text: str, host: Agent, file: str) -> edit_json.Document:
    """The parsed text, if entries can be added to it. Raises FaultyFileError."""
    document = edit_json.measured(text)
    key, root = host.hooks_key, document.root
    hooks = edit_json.at_path(document, [key])
    if root is not None and not edit_json.is_mapping(root):
        raise _wrong(root, file, "the file is not a mapping", "enclose its content in `{` and `}`")
    if hooks is not None and not edit_json.is_mapping(hooks):
        raise _wrong(hooks, file, f"`{key}` is not a mapping", f'write "{key}": {{}}, or remove it')
    for name, value in zip(edit_json.keys(hooks), edit_json.items(hooks), strict=True):
        if not isinstance(value.value, tuple) and name in host.spellings.values():
            raise _wrong(value, file, f"`{name}` is not a list", f'write "{name}": [...]')
    return document


def _wrong(node: Node, file: str, message: str, hint: str) -> edit_json.FaultyFileError:
    return edit_json.FaultyFileError(message, place=f"{file}:{node.line}", hint=hint)


def handlers(document: edit_json.Document, host: Agent) -> list[Handler]:
    keys = dict.fromkeys(edit_json.keys(document.root) if host.named_groups else [host.hooks_key])
    return [one for key in keys for one in _handlers_below(document, key, host)]


def _handlers_below(document: edit_json.Document, key: str, host: Agent) -> list[Handler]:
    found = []
    below = edit_json.at_path(document, [key])
    for event in dict.fromkeys(edit_json.keys(below) if below is not None and edit_json.is_mapping(below) else ()):
        listed = edit_json.at_path(document, [key, event])
        for at, item in enumerate(_listed(listed)):
            data = item.plain()
            if isinstance(data, dict) and not host.grouped(event):
                found.append(Handler(event, at, -1, data, {}, item.line, key))
            elif isinstance(data, dict):
                group = {name: value for name, value in data.items() if name != "hooks"}
                inner = enumerate(_listed(edit_json.at_path(document, [key, event, str(at), "hooks"])))
                mappings = [(number, one) for number, one in inner if edit_json.is_mapping(one)]
                found += [Handler(event, at, number, one.plain(), group, one.line, key) for number, one in mappings]
    return found


def _listed(node: Node | None) -> tuple[Node, ...]:
    return node.value if node is not None and isinstance(node.value, tuple) else ()


def written_handlers(document: edit_json.Document, host: Agent) -> list[Handler]:
    """The handlers that `install` wrote."""
    return [one for one in handlers(document, host) if is_written(one.data)]


def by_hand(document: edit_json.Document, host: Agent) -> list[Handler]:
    """The handlers that call billhook and were not written by `install`."""
    found = []
    for one in handlers(document, host):
        actions: list[Action] = [*map(RunAction, _commands(one.data))]
        actions += [Url(one.data["url"])] if isinstance(one.data.get("url"), str) else []
        if any(map(is_billhook, actions)) and not is_written(one.data):
            found.append(one)
    return found


def holds(document: edit_json.Document, host: Agent, wanted: Mapping[str, Mapping[str, Any]]) -> bool:
    found = [(one.event, one.entry) for one in written_handlers(document, host)]
    return sorted(event for event, _ in found) == sorted(wanted) and all(data == wanted[event] for event, data in found)


def with_entries(text: str, host: Agent, wanted: Mapping[str, Any], under: str = "") -> str:
    """The text with an entry added at the end of each event's list. `under`: the key of the events, if it is not the
    usual one."""
    under = under or host.hooks_key
    text = edit_json.begun(text)
    document = edit_json.measured(text)
    for key, value in host.head.items():
        if key not in edit_json.keys(document.root):
            text = edit_json.appended(text, [], value, key)
    if edit_json.at_path(document, [under]) is None:
        return edit_json.appended(text, [], {event: [entry] for event, entry in wanted.items()}, under)
    for event, entry in wanted.items():
        if edit_json.at_path(edit_json.measured(text), [under, event]) is None:
            text = edit_json.appended(text, [under], [entry], event)
        else:
            text = edit_json.appended(text, [under, event], entry)
    return text


def without(text: str, host: Agent, leaves: Callable[[Handler], bool], original: str | None = None) -> str:
    """The text without the handlers that `leaves` selects, and without the containers that are then empty.

    A container that is in `original` stays, also if it is empty.
    """
    document = edit_json.measured(text)
    found = handlers(document, host)
    leaving = [one for one in found if leaves(one)]
    staying = {(one.under, one.event, one.at) for one in found if one not in leaving}
    done = set(staying)
    for one in reversed(leaving):
        place, path = (one.under, one.event, one.at), [one.under, one.event, str(one.at)]
        if place in staying:
            text = edit_json.removed(text, [*path, "hooks", str(one.inner)])
        elif place not in done:
            done.add(place)
            text = edit_json.removed(text, path)
    before = edit_json.measured(original) if original is not None else None
    for under, event in dict.fromkeys((one.under, one.event) for one in leaving):
        text = _pruned(text, [under, event], before)
    for under in dict.fromkeys(one.under for one in leaving):
        text = _pruned(text, [under], before)
    return _without_head(text, host, before) if leaving else text


def _pruned(text: str, path: list[str], original: edit_json.Document | None) -> str:
    """The text without this container, if it is empty and not in `original`."""
    document = edit_json.measured(text)
    container = edit_json.at_path(document, path)
    if container is None or edit_json.items(container) or edit_json.inside(document, container).strip():
        return text
    kept = edit_json.at_path(original, path) if original is not None else None
    if kept is None or original is None:
        return edit_json.removed(text, path)
    return edit_json.emptied(text, path, edit_json.inside(original, kept) if not edit_json.items(kept) else "")


def _without_head(text: str, host: Agent, original: edit_json.Document | None) -> str:
    """The text without the keys that came with billhook's entries, if they are not needed: nothing else is left, or the
    original did not have them."""
    kept = original.root if original is not None else None
    found, had = edit_json.keys(edit_json.measured(text).root), set(edit_json.keys(kept))
    if had or not set(found) - set(host.head):
        for key in reversed(found):
            text = edit_json.removed(text, [key]) if key in host.head and key not in had else text
    return edit_json.emptied(
        text,
        [],
        edit_json.inside(original, kept) if original and kept is not None and not edit_json.items(kept) else "",
    )


ALSO_CALLS: Final = "also calls billhook"
_SWITCHES: Final = {"disableAllHooks": True, "hooksConfig.enabled": False, "tools.enableHooks": False}


def notes_about(file: str, document: Document, host: Agent) -> list[str]:
    """Notes on what the user should change in a file; `document` is the file without billhook's entries."""
    off = []
    for path, value in _SWITCHES.items():
        found = at_path(document, path.split("."))
        if found is not None and found.value is value:
            off.append(f"{file}:{found.line} disables all hooks (`{path}`): {host.title} will not call billhook")
    for path in ("hooksConfig.disabled", "hooks.disabled"):  # some agents can disable single hooks by name
        found = at_path(document, path.split("."))
        if host.named and found is not None and isinstance(found.value, tuple) and NAME in found.plain():
            off.append(f"{file}:{found.line} disables billhook's hooks (`{path}`): {host.title} will not call it")
    twice = by_hand(document, host)
    return [
        *off,
        *(f"{file}:{one.line} {ALSO_CALLS}, in an entry that `install` did not write; remove it" for one in twice),
        *(host.beside(file, sources.read_bytes) if host.beside else ()),
    ]


# The path of billhook-hook, and whether it is a lasting one.
_REMEDY: Final = "install it permanently (`uv tool install .` in a checkout of billhook, or pipx), and run that one"
_TEMPORARY: Final = "a temporary folder"
_SCRATCH: Final = ("/tmp", "/var/tmp", "/dev/shm", "/private/tmp", "/private/var/folders")
_CACHES: Final = (("UV_CACHE_DIR", ""), ("PIPX_HOME", ".cache"), ("XDG_CACHE_HOME", ""))


def on_path(program: str) -> str:
    """The path of a program on PATH; empty if it is not there."""
    return shutil.which(program, path=client_env.environ().get("PATH")) or ""


def chosen_program(program: str) -> str:
    """The program that the user chose, as an absolute path. Raises UsageError."""
    path = client_env.abspath(client_env.expanduser(program))
    if os.path.isdir(path):
        path = os.path.join(path, PROGRAM)
    if os.path.basename(path) != PROGRAM or not os.access(path, os.X_OK):
        hint = f"name an executable `{PROGRAM}`, or its folder"
        raise UsageError(f"`{program}` is not an executable {PROGRAM}", hint=hint)
    return path


def lasting_program() -> str:
    """A lasting absolute path of billhook-hook. Raises UsageError."""
    beside = os.path.join(os.path.dirname(sys.executable), PROGRAM)
    installed = on_path(PROGRAM)
    found = [path for path in (beside, installed and os.path.abspath(installed)) if path and os.access(path, os.X_OK)]
    if not found:
        raise UsageError(f"there is no `{PROGRAM}` next to {sys.executable}", hint=_REMEDY)
    stays = [path for path in found if not throw_away(path)]
    if not stays:
        raise UsageError(
            f"this billhook is in {throw_away(found[0])}: entries in your settings would soon point to a missing file",
            place=found[0],
            hint=f"{_REMEDY}; or name a permanent one with --program",
        )
    # The link on PATH outlives its target: a new version may be installed elsewhere.
    return stays[-1] if os.path.samefile(stays[0], stays[-1]) else stays[0]


def throw_away(path: str) -> str:
    """The kind of temporary place in which a program is, or to which it links; empty if there is none."""
    caches = [os.path.join(value, rest) for name, rest in _CACHES if (value := client_env.environ().get(name))]
    caches += [client_env.expanduser("~/.cache"), client_env.expanduser("~/Library/Caches")]
    for one in (path, os.path.realpath(path)):
        if any(_below(one, cache) for cache in caches) or "/.cache/" in one:
            return "a cache (of uvx, pipx run or a similar tool)"
        if any(_below(one, folder) for folder in (*_SCRATCH, tempfile.gettempdir())):
            return _TEMPORARY
    return ""


def temporary_place(path: str) -> str:
    """The kind of temporary place of a program that the user named; empty if the home folder is in one, too."""
    place = throw_away(path)
    return "" if place == _TEMPORARY == throw_away(client_env.expanduser("~")) else place


def _below(path: str, folder: str) -> bool:
    return path.startswith((os.path.join(folder, ""), os.path.join(os.path.realpath(folder), "")))


def of_a_project(path: str) -> str:
    """The virtual environment of a repository to which a program belongs; empty if there is none."""
    above = os.path.dirname(os.path.dirname(os.path.realpath(path)))
    marks = (os.path.join(above, "pyvenv.cfg"), os.path.join(os.path.dirname(above), ".git"))
    return above if all(map(os.path.exists, marks)) else ""


def agents_here(scope: Scope, project: str) -> dict[str, str]:
    """For every agent, the path that shows that it is used here; empty if there is none."""
    seen = {}
    for host in AGENTS.values():
        places = [os.path.normpath(os.path.join(host.home(), trace)) for trace in host.traces]
        places += [_folder_or_file(host.file(scope, project), project)] if scope == "project" else []
        program = "" if host.shares_program else on_path(host.program)
        seen[host.name] = program or next(filter(os.path.exists, places), "")
    return seen


def _folder_or_file(file: str, project: str) -> str:
    """The folder of an agent's file; the file itself if it is beside all other files of the project."""
    folder = os.path.dirname(file)
    return file if folder == os.path.normpath(project) else folder


# `install --adopt`: turns an agent's handlers into hooks of a hooks.yaml, so that they are logged and explained.
_HANDLED: Final = frozenset({"asyncRewake", "type", "matcher", "name", "description", "once"})
_SAME: Final = {
    **{key: key for key in ("if", "shell", "headers", "allowedEnvVars")},
    "async": "background",
    "statusMessage": "title",
}
"""Keys of handlers that also exist in a hooks.yaml, with their names there."""
_OF_GROUPS: Final = frozenset({"matcher", "sequential", "description"})
_TOOL_EVENTS: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"})


class AdoptedHook(msgspec.Struct, frozen=True):
    """One handler that was moved into a hooks.yaml."""

    event: str  # the agent's name of it
    entry: dict[str, Any]  # the item of the event's list: a group with this one handler, or the handler itself
    name: str  # its name in hooks.yaml
    under: str = ""  # the key of the agent's file below which it was; empty: the usual one


class AdoptionTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks.yaml to which handlers were moved."""

    file: str
    existed: bool
    after: str  # the hash of that file after the move
    pieces: tuple[str, ...]  # the added sections
    handlers: tuple[AdoptedHook, ...]
    made: tuple[str, ...] = ()


class Adoption:
    """The handlers that can be moved, and those that can't, with the reason."""

    def __init__(self, host: Agent, found: Iterable[Handler], taken: set[str]) -> None:
        """`taken`: names of existing hooks."""
        self._host, self._taken = host, set(taken)
        self._events = {own: declared_event(host.name, own) for own in host.spellings.values()}
        self.hooks: dict[str, dict[str, Any]] = {}
        self.handlers: list[AdoptedHook] = []
        self.picked: list[Handler] = []
        self.staying: list[str] = []
        self.seconds: dict[str, float] = {}
        for one in found:
            if not is_written(one.data):
                self._take(one)

    def _take(self, handler: Handler) -> None:
        action = _action(handler.data, self._host)
        if why := self._stays(handler, action):
            self.staying.append(f"the {handler.event} hook on line {handler.line} stays there: {why}")
            return
        assert action is not None
        event, given = self._events[handler.event], handler.data.get("name")
        stem = given if isinstance(given, str) and not checked_name(given) else made_name(action, event)
        name = free_name(stem, event, self._taken | RESERVED)
        self._taken.add(name)
        mark = f"{self._host.name} {handler.event} {json.dumps(handler.entry)}"  # the original entry, with its event
        self.hooks[name] = {**self._fields(handler, event, action), ADOPTED: mark}
        self.seconds[event] = max(self.seconds.get(event, 0), self.hooks[name].get("timeout", 0))
        self.handlers.append(AdoptedHook(handler.event, handler.entry, name, handler.under))
        self.picked.append(handler)

    def _stays(self, handler: Handler, action: Action | None) -> str:
        if action is None:
            kind = handler.data.get("type")
            typed = isinstance(kind, str) and kind not in ("command", "http")
            return f"billhook can't run hooks of type `{kind}`" if typed else "it has no command"
        if handler.data.get("asyncRewake") is True:
            return "billhook does not support `asyncRewake`"
        if is_billhook(action):
            return "it calls billhook, which would run twice; remove it"
        if handler.event not in self._events:
            return "billhook does not support this event"
        command = self._host.command_key
        own = {RunAction: (command, "command"), Exec: ("command", "args"), Url: ("url",)}[type(action)]
        known = {*_HANDLED, *_SAME, *own, self._host.timeout_key, *(self._host.fail_closed or ())[:1]}
        odd = [key for key, value in handler.data.items() if key not in known and (key, value) != ("enabled", True)]
        odd += [key for key in handler.group if key not in _OF_GROUPS]
        pattern, seconds = (handler.data.get(key, handler.group.get(key)) for key in ("matcher", "timeout"))
        odd += ["matcher"] if pattern is not None and not isinstance(pattern, str) else []
        positive = isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0
        odd += ["timeout"] if seconds is not None and not positive else []
        return f"a hooks.yaml has no equivalent of its `{odd[0]}`" if odd else ""

    def _fields(self, handler: Handler, event: str, action: Action) -> dict[str, Any]:
        data, host = handler.data, self._host
        fields: dict[str, Any] = {"events": event}
        pattern = data.get("matcher", handler.group.get("matcher"))
        if isinstance(pattern, str) and pattern not in ("", "*", ".*"):
            fields["match"] = _matcher(pattern, host) if event in _TOOL_EVENTS else pattern
        match action:
            case RunAction(text):
                fields["run"] = text
            case Exec(argv):
                fields["exec"] = list(argv)
            case Url(url):
                fields["url"] = url
        fields |= {mine: data[key] for key, mine in _SAME.items() if key in data and key not in fields}
        if host.name != "claude":
            fields["dialect"] = host.name
        if isinstance(data.get("description"), str) and "title" not in fields:
            fields["title"] = data["description"]
        seconds = data.get(host.timeout_key)
        if seconds is not None:
            fields["timeout"] = _number(host.meanings.in_seconds(seconds))
        elif event != "SessionEnd":
            fields["timeout"] = _number(meanings(host.name).timeout_for(event))
        if host.fail_closed and data.get(host.fail_closed[0]) == host.fail_closed[1]:
            fields["gate"] = True
        if fields.get("background") is True:  # nothing waits for it, so its failure can't block
            fields.pop("gate", None)
        return fields


def _action(data: Mapping[str, Any], host: Agent) -> Action | None:
    command, url, args = data.get(host.command_key, data.get("command")), data.get("url"), data.get("args")
    kind = data.get("type", "command" if not host.typed else None)
    if kind == "http" and isinstance(url, str):
        return Url(url)
    if kind != "command" or not isinstance(command, str) or not command.strip():
        return None
    if isinstance(args, list) and all(isinstance(one, str) for one in args):
        return Exec((command, *args))
    return RunAction(command)


def _matcher(pattern: str, host: Agent) -> str:
    """A matcher that also selects the tools by their canonical names."""
    names = NAMINGS[meanings(host.name).naming]
    try:
        wanted = [canonical for own, canonical in names.items() if re.search(pattern, own)]
    except re.error:
        return pattern
    return "|".join(dict.fromkeys([pattern, *wanted]))


def _number(seconds: float) -> int | float:
    return int(seconds) if seconds == int(seconds) else seconds


# The origin of adopted hooks, as the hooks.yaml records it.
def moved_into(file: str, data: bytes, host: Agent) -> AdoptionTarget | None:
    """The handlers that were moved into a hooks.yaml from an agent's file; None if there are none.

    Raises FaultyFileError.
    """
    hooks = hooks_in(data, file)
    found = [one for name, fields in hooks.items() if (one := _adopted(name, fields.get(ADOPTED), host)) is not None]
    if not found:
        return None
    # a hook that was edited since is not removed: its text no longer matches
    pieces = blocks_of(data, file, {one.name: _original_fields(one, host) for one in found}, apart=True)
    return AdoptionTarget(file=file, existed=True, after="", pieces=pieces, handlers=tuple(found))


def _adopted(name: str, mark: object, host: Agent) -> AdoptedHook | None:
    words = mark.split(" ", 2) if isinstance(mark, str) else []
    if len(words) < 3 or words[0] != host.name or words[1] not in host.spellings.values():
        return None
    try:
        entry = json.loads(words[2])
    except ValueError:
        return None
    inner = entry.get("hooks") if isinstance(entry, dict) else None  # of a group: must be exactly one handler
    alone = isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], dict)
    usable = isinstance(entry, dict) and (alone or not host.grouped(words[1]))
    return AdoptedHook(words[1], entry, name) if usable else None


def _original_fields(one: AdoptedHook, host: Agent) -> dict[str, Any]:
    nested = host.grouped(one.event)
    data = one.entry["hooks"][0] if nested else one.entry
    group = {key: value for key, value in one.entry.items() if key != "hooks"} if nested else {}
    made = Adoption(host, [Handler(one.event, 0, 0 if nested else -1, data, group, 0)], set()).hooks
    return next(iter(made.values()), {})
