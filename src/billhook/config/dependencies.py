"""`after`: who waits for whom. A missing name or a cycle breaks the hooks that are part of it, and no others."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from billhook.config.building import refusal
from billhook.config.declared import Declared
from billhook.config.findings import Finding, nearest
from billhook.config.keys import BUILTINS

if TYPE_CHECKING:
    from billhook.config.loading import Entry


def settle_order(entries: Sequence["Entry"]) -> tuple[list["Entry"], list[Finding]]:
    """The entries, each waiting only for hooks that are there; and what was wrong with their `after`."""
    findings: list[Finding] = []
    known = {entry.declared.name for entry in entries} | set(BUILTINS)
    settled = list(entries)
    for i, entry in enumerate(entries):
        missing = [name for name in entry.declared.after if name not in known]
        if missing:
            message = f"it runs after `{missing[0]}`, which does not exist"
            near = nearest(missing[0], known)
            hint = f"did you mean `{near}`?" if near else "remove it, or name a hook that is there"
            findings.append(_finding("BH212", message, hint, entry.declared))
            settled[i] = _broken(entry, message)
    for i, path in _cycles(settled):
        message = f"hooks wait for each other: {' -> '.join(path)}"
        findings.append(_finding("BH213", message, "remove one of these `after`", settled[i].declared))
        settled[i] = _broken(settled[i], message)
    present = {entry.hook.name for entry in settled if entry.hook is not None}
    return [_waiting_for(entry, present) for entry in settled], findings


def _finding(code: str, message: str, hint: str, declared: Declared) -> Finding:
    line, column = declared.places.get("after", (declared.line, declared.column))
    return Finding(code, message, declared.file, line, column, hint, declared.name)


def _broken(entry: "Entry", why: str) -> "Entry":
    if entry.state != "runs":
        return entry  # whatever stands in for it stays
    hook = refusal(entry.declared, f"{why} ({entry.declared.place})") if entry.declared.gate else None
    return msgspec.structs.replace(entry, state="broken", why=why, hook=hook)


def _waiting_for(entry: "Entry", present: set[str]) -> "Entry":
    if entry.hook is None or not entry.hook.after:
        return entry
    after = () if entry.state == "broken" else tuple(name for name in entry.hook.after if name in present)
    return msgspec.structs.replace(entry, hook=msgspec.structs.replace(entry.hook, after=after))


def _cycles(entries: Sequence["Entry"]) -> Iterator[tuple[int, list[str]]]:
    """The entries that wait, through others, for themselves; each with the way round."""
    waits = {entry.declared.name: entry.declared.after for entry in entries if entry.hook is not None}
    for i, entry in enumerate(entries):
        name = entry.declared.name
        if name in waits:
            way = _way_back(name, waits)
            if way:
                yield i, way


def _way_back(start: str, waits: dict[str, tuple[str, ...]]) -> list[str]:
    came_from: dict[str, str] = {}
    to_do = [start]
    while to_do:
        at = to_do.pop()
        for name in waits.get(at, ()):
            if name == start:
                way = [start]
                while at != start:
                    way.insert(0, at)
                    at = came_from[at]
                return [start, *way]
            if name not in came_from:
                came_from[name] = at
                to_do.append(name)
    return []
