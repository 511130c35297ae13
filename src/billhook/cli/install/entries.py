"""The entries in an agent's file that call billhook: how they are written, and how they are recognised later."""

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from billhook.agents import whole
from billhook.agents.base import Agent, Scope
from billhook.config import edit_json
from billhook.config.declaration import Action, RunAction, Url
from billhook.config.installation import is_billhook
from billhook.config.nodes import Node

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
MISSING_THERE: Final = (
    f"billhook is gone from where it was installed. Install it again ({GET_BILLHOOK} && billhook install {{}})."
)
NOT_RUNNING: Final = "billhook is not installed here, so its hooks do not run."  # the same in every version
UNGUARDED: Final = f"{NOT_RUNNING} Install it: {GET_BILLHOOK}"
_WARNED: Final = REFUSED_WITHOUT | {"SessionStart"}

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
    handler[host.timeout_key] = seconds * host.unit_per_second
    if host.fail_closed and is_refused(host, event):
        handler[host.fail_closed[0]] = host.fail_closed[1]
    return {**host.group, "hooks": [handler]} if host.shape == "nested" else handler


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
    if options.scope == "user" and not is_refused(host, event):
        return run
    return f"command -v {program} >/dev/null 2>&1 || {_without(host, event, options)}; {run}"


def _without(host: Agent, event: str, options: EntryOptions) -> str:
    """The shell commands that run if billhook is missing."""
    if options.if_missing == "allow" and event in _WARNED:
        stdout = f"echo {shlex.quote(json.dumps({'systemMessage': UNGUARDED}))}; " if host.system_message else ""
        return f"{{ {stdout}echo {shlex.quote(UNGUARDED)} >&2; exit 0; }}"
    if options.if_missing == "allow" or not is_refused(host, event):
        return "exit 0"
    reason = MISSING_HERE if options.scope == "project" else MISSING_THERE.format(host.name)
    refusal = host.refusal(options.scope, whole(event))
    answer = refusal.output(reason)
    stdout = f"echo {shlex.quote(json.dumps(answer, ensure_ascii=False))}; " if answer else ""
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


def wanted(host: Agent, events: Iterable[str], options: EntryOptions) -> dict[str, dict[str, Any]]:
    """The entries of these canonical events, by the agent's names of the events."""
    return {host.spellings[event]: entry(host, event, options) for event in events}


# An agent's file:
class Handler(msgspec.Struct, frozen=True):
    """One handler of an agent's file."""

    event: str  # the agent's name of it
    at: int  # index in the event's list: of the handler, or of its group
    inner: int  # index in that group's `hooks`; -1 in a flat file
    data: dict[str, Any]
    group: dict[str, Any]  # its group, without the handlers; empty in a flat file
    line: int

    @property
    def entry(self) -> dict[str, Any]:
        """An item for the event's list with this handler alone."""
        return {**self.group, "hooks": [self.data]} if self.inner >= 0 else self.data


def checked(text: str, host: Agent, file: str) -> edit_json.Document:
    """The parsed text, if entries can be added to it. Raises FaultyFileError."""
    document = edit_json.measured(text)
    root, hooks = document.root, edit_json.at_path(document, ["hooks"])
    if root is not None and not edit_json.is_mapping(root):
        raise _wrong(root, file, "the file is not a mapping", "enclose its content in `{` and `}`")
    if hooks is not None and not edit_json.is_mapping(hooks):
        raise _wrong(hooks, file, "`hooks` is not a mapping", 'write "hooks": {}, or remove it')
    for name, value in zip(edit_json.keys(hooks), edit_json.items(hooks), strict=True):
        if not isinstance(value.value, tuple) and name in host.spellings.values():
            raise _wrong(value, file, f"`{name}` is not a list", f'write "{name}": [...]')
    return document


def _wrong(node: Node, file: str, message: str, hint: str) -> edit_json.FaultyFileError:
    return edit_json.FaultyFileError(message, place=f"{file}:{node.line}", hint=hint)


def handlers(document: edit_json.Document, host: Agent) -> list[Handler]:
    """Every handler in the file, in its order."""
    found = []
    for event in dict.fromkeys(edit_json.keys(edit_json.at_path(document, ["hooks"]))):
        listed = edit_json.at_path(document, ["hooks", event])
        for at, item in enumerate(_listed(listed)):
            data = item.plain()
            if isinstance(data, dict) and host.shape == "flat":
                found.append(Handler(event, at, -1, data, {}, item.line))
            elif isinstance(data, dict):
                group = {key: value for key, value in data.items() if key != "hooks"}
                inner = enumerate(_listed(edit_json.at_path(document, ["hooks", event, str(at), "hooks"])))
                mappings = [(number, one) for number, one in inner if edit_json.is_mapping(one)]
                found += [Handler(event, at, number, one.plain(), group, one.line) for number, one in mappings]
    return found


def _listed(node: Node | None) -> tuple[Node, ...]:
    """The items of a list; empty for anything else."""
    return node.value if node is not None and isinstance(node.value, tuple) else ()


def ours(document: edit_json.Document, host: Agent) -> list[Handler]:
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
    """Whether billhook's entries are exactly these."""
    found = [(one.event, one.entry) for one in ours(document, host)]
    return sorted(event for event, _ in found) == sorted(wanted) and all(data == wanted[event] for event, data in found)


def with_entries(text: str, host: Agent, wanted: Mapping[str, Any]) -> str:
    """The text with an entry added at the end of each event's list."""
    text = edit_json.begun(text)
    document = edit_json.measured(text)
    for key, value in host.head.items():
        if key not in edit_json.keys(document.root):
            text = edit_json.appended(text, [], value, key)
    if edit_json.at_path(document, ["hooks"]) is None:
        return edit_json.appended(text, [], {event: [entry] for event, entry in wanted.items()}, "hooks")
    for event, entry in wanted.items():
        if edit_json.at_path(edit_json.measured(text), ["hooks", event]) is None:
            text = edit_json.appended(text, ["hooks"], [entry], event)
        else:
            text = edit_json.appended(text, ["hooks", event], entry)
    return text


def without(text: str, host: Agent, leaves: Callable[[Handler], bool], original: str | None = None) -> str:
    """The text without the handlers that `leaves` selects, and without the containers that are then empty.

    A container that is in `original` stays, also if it is empty.
    """
    document = edit_json.measured(text)
    found = handlers(document, host)
    leaving = [one for one in found if leaves(one)]
    whole = {(one.event, one.at) for one in leaving} - {(one.event, one.at) for one in found if one not in leaving}
    done = set()
    for one in reversed(leaving):
        path = ["hooks", one.event, str(one.at)]
        if (one.event, one.at) not in whole:
            text = edit_json.removed(text, [*path, "hooks", str(one.inner)])
        elif (one.event, one.at) not in done:
            done.add((one.event, one.at))
            text = edit_json.removed(text, path)
    before = edit_json.measured(original) if original is not None else None
    for event in dict.fromkeys(one.event for one in leaving):
        text = _pruned(text, ["hooks", event], before)
    return _without_head(_pruned(text, ["hooks"], before), host, before) if leaving else text


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
