"""An agent's file: which entries are ours, which are others', and the text with one or the other more or less."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from billhook.agents.base import Agent
from billhook.hosts.entries import is_written
from billhook.hosts.jsonedit import appended, at_path, begun, emptied, inside, removed
from billhook.hosts.jsontext import Document, FaultyFileError, Value, measured


class Handler(msgspec.Struct, frozen=True):
    """One handler of an agent's file."""

    event: str  # what the agent calls it
    at: int  # which item of the event's list it is, or stands in
    inner: int  # which item of that group's `hooks`; -1 in a flat file
    data: dict[str, Any]
    group: dict[str, Any]  # the group that it stands in, without its handlers; empty in a flat file
    line: int


def checked(text: str, host: Agent, file: str) -> Document:
    """The text with its places, if entries can be put into it. Raises FaultyFileError."""
    document = measured(text)
    root = document.root
    if root is None:
        return document
    if root.kind != "object":
        raise _wrong(document, root, file, "the file is no mapping", "put it all between `{` and `}`")
    hooks = root.get("hooks")
    if hooks is None:
        return document
    if hooks.kind != "object":
        raise _wrong(document, hooks, file, "`hooks` is no mapping", 'write "hooks": {}, or remove it')
    for (name, _), value in zip(hooks.keys, hooks.items, strict=True):
        if value.kind != "array" and name in host.spellings.values():
            raise _wrong(document, value, file, f"`{name}` is no list", f'put it into a list: "{name}": [...]')
    return document


def _wrong(document: Document, value: Value, file: str, message: str, hint: str) -> FaultyFileError:
    return FaultyFileError(message, place=f"{file}:{document.place(value)}", hint=hint)


def handlers(document: Document, host: Agent) -> list[Handler]:
    """Every handler that the agent would run, in the order of the file."""
    hooks = at_path(document, ["hooks"])
    if hooks is None:
        return []
    return [one for event in dict.fromkeys(name for name, _ in hooks.keys) for one in _of(document, host, event)]


def _of(document: Document, host: Agent, event: str) -> Iterator[Handler]:
    listed = at_path(document, ["hooks", event])
    if listed is None or listed.kind != "array":
        return
    for at, item in enumerate(listed.items):
        data = document.plain(item)
        if not isinstance(data, dict):
            continue
        if host.shape == "flat":
            yield Handler(event, at, -1, data, {}, document.place(item))
            continue
        inner = item.get("hooks")
        group = {key: value for key, value in data.items() if key != "hooks"}
        for number, one in enumerate(inner.items if inner is not None and inner.kind == "array" else ()):
            handler = document.plain(one)
            if isinstance(handler, dict):
                yield Handler(event, at, number, handler, group, document.place(one))


def ours(document: Document, host: Agent) -> list[Handler]:
    """The handlers that `install` has written."""
    return [one for one in handlers(document, host) if is_written(one.data)]


def holds(document: Document, host: Agent, wanted: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether exactly these entries of ours are there."""
    found = [
        (one.event, {**one.group, "hooks": [one.data]} if one.inner >= 0 else one.data) for one in ours(document, host)
    ]
    return sorted(event for event, _ in found) == sorted(wanted) and all(data == wanted[event] for event, data in found)


def with_entries(text: str, host: Agent, wanted: Mapping[str, Any]) -> str:
    """The text with one more entry at the end of each event's list."""
    text = begun(text)
    document = measured(text)
    for key, value in host.head.items():
        if document.root is not None and document.root.get(key) is None:
            text = appended(text, [], value, key)
    if at_path(document, ["hooks"]) is None:
        return appended(text, [], {event: [entry] for event, entry in wanted.items()}, "hooks")
    for event, entry in wanted.items():
        if at_path(measured(text), ["hooks", event]) is None:
            text = appended(text, ["hooks"], [entry], event)
        else:
            text = appended(text, ["hooks", event], entry)
    return text


def without(text: str, host: Agent, leaves: Callable[[Handler], bool], original: str | None = None) -> str:
    """The text without the handlers that `leaves` picks, and without what only held them.

    What `original` has stays, empty as it is; without it, whatever is empty then goes.
    """
    document = measured(text)
    found = handlers(document, host)
    leaving = [one for one in found if leaves(one)]
    whole = {(one.event, one.at) for one in leaving} - {(one.event, one.at) for one in found if one not in leaving}
    done = set()
    for one in reversed(leaving):
        path = ["hooks", one.event]
        if one.inner < 0 or (one.event, one.at) not in whole:
            text = (
                removed(text, path, one.at)
                if one.inner < 0
                else removed(text, [*path, str(one.at), "hooks"], one.inner)
            )
        elif (one.event, one.at) not in done:
            done.add((one.event, one.at))
            text = removed(text, path, one.at)
    before = measured(original) if original is not None else None
    for event in dict.fromkeys(one.event for one in leaving):
        text = _pruned(text, ["hooks", event], before)
    return _without_head(_pruned(text, ["hooks"], before), host, before) if leaving else text


def _pruned(text: str, path: list[str], original: Document | None) -> str:
    """The text without an empty container that was not there before."""
    document = measured(text)
    container = at_path(document, path)
    if container is None or container.items or inside(document, container).strip():
        return text
    kept = at_path(original, path) if original is not None else None
    if kept is not None and original is not None:
        return emptied(text, path, inside(original, kept) if not kept.items else "")
    above = at_path(document, path[:-1])
    assert above is not None
    return removed(text, path[:-1], above.index(path[-1]))


def _without_head(text: str, host: Agent, original: Document | None) -> str:
    """The text without the keys that came with our entries: when nothing else is left, or the others did without."""
    root = measured(text).root
    had = {key for key, _ in original.root.keys} if original is not None and original.root is not None else set()
    alone = root is not None and not {key for key, _ in root.keys} - set(host.head)
    if root is not None and (alone or had):
        for key in [key for key, _ in reversed(root.keys) if key in host.head and key not in had]:
            now = measured(text).root
            text = removed(text, [], now.index(key)) if now is not None else text
    return _empty_root(text, original)


def _empty_root(text: str, original: Document | None) -> str:
    kept = original.root if original is not None else None
    return emptied(
        text, [], inside(original, kept) if kept is not None and original is not None and not kept.items else ""
    )
