"""Findings as people and machines read them: text, lines of JSON, GitHub's annotations, SARIF."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import click
import msgspec

from billhook import __version__
from billhook.agents import AGENTS
from billhook.agents.base import Agent
from billhook.cli.install import READS_OTHERS
from billhook.cli.install.entries import checked, ours, times
from billhook.cli.screen import filled, picked, shown_path
from billhook.config.declared import Declared
from billhook.config.host_limits import Host, Limit, limits
from billhook.config.lint.codes import Section, is_note, sections
from billhook.core import strictjson
from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import Finding, counted, one_line, suggest, visible

Format = Callable[[Sequence[Finding], int, int], str]


def shown(file: str) -> str:
    """A path as people write it: relative when it is below the folder that we are in."""
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:
        return file
    return os.path.relpath(file, here) if file.startswith(here.rstrip("/") + "/") else file


def as_text(findings: Sequence[Finding], hooks: int, files: int) -> str:
    """One line each, the hint below it, and a last line that counts."""
    lines = [line for finding in findings for line in _lines(finding)]
    notes = [finding for finding in findings if is_note(finding)]
    touched = {finding.file for finding in findings if not is_note(finding)}
    if len(notes) < len(findings):
        last = f"{counted(len(findings) - len(notes), 'finding')} in {counted(len(touched), 'file')}"
    else:
        last = f"no findings in {counted(hooks, 'hook')} of {counted(files, 'file')}"
    return "\n".join([*lines, *([""] if lines else []), last + (f"; {counted(len(notes), 'note')}" if notes else "")])


def _lines(finding: Finding) -> Iterator[str]:
    place = ":".join(str(part) for part in (_one_line(shown(finding.file)), finding.line, finding.column) if part)
    start = click.style(f"{place}:", bold=True) + " " if place else ""
    yield f"{start}{click.style(finding.code, fg='yellow')} {_one_line(finding.message)}"
    if finding.hint:
        yield f"  {click.style('hint:', fg='cyan')} {_one_line(finding.hint)}"


def _one_line(text: str) -> str:
    return visible(text.replace("\\\n", "\\\\n").replace("\n", "\\n").replace("\t", "\\t"))


def as_json(findings: Sequence[Finding], hooks: int, files: int) -> str:
    """One object a line, nothing else."""
    return "\n".join(strictjson.dumps(_check_formats_data(finding)) for finding in findings)


def _check_formats_data(finding: Finding) -> dict[str, object]:
    about = picked(finding, "code message file line? column? hint? hook? note")
    return {**about, "file": shown(finding.file) or None, "note": is_note(finding)}


def as_github(findings: Sequence[Finding], hooks: int, files: int) -> str:
    """Annotations that a workflow of GitHub shows beside the lines."""
    return "\n".join(_annotation(finding) for finding in findings)


def _annotation(finding: Finding) -> str:
    given = {"file": shown(finding.file), "line": finding.line, "col": finding.column, "title": finding.code}
    properties = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in given.items() if value)
    return f"::{'notice' if is_note(finding) else 'error'} {properties}::{_escaped(_with_hint(finding))}"


def _escaped(text: str, more: str = "") -> str:
    for char in f"%\r\n{more}":
        text = text.replace(char, f"%{ord(char):02X}")
    return visible(text)


def as_sarif(findings: Sequence[Finding], hooks: int, files: int) -> str:
    """One run of SARIF 2.1.0; only the rules that were found are described."""
    codes = sorted({finding.code for finding in findings})
    rules = [_rule(code, sections().get(code)) for code in codes]
    run = {
        "tool": {"driver": {"name": "billhook", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in findings],
    }
    whole = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(whole, indent=2)


def _rule(code: str, section: Section | None) -> dict[str, object]:
    if section is None:
        return {"id": code}
    words = "".join(char if char.isalnum() else " " for char in section.title.replace("'", "")).split()
    return {
        "id": code,
        "name": "".join(word[0].upper() + word[1:] for word in words),
        "shortDescription": {"text": section.title},
        "fullDescription": {"text": section.summary},
        "help": {"text": section.text, "markdown": section.text},
    }


def _with_hint(finding: Finding) -> str:
    return f"{finding.message}\nhint: {finding.hint}" if finding.hint else finding.message


def _result(finding: Finding, index: int) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": "note" if is_note(finding) else "error" if finding.code < "BH3" else "warning",
        "message": {"text": _with_hint(finding)},
    }
    if finding.file:
        place: dict[str, object] = {"artifactLocation": {"uri": _uri(shown(finding.file))}}
        if finding.line:
            place["region"] = {"startLine": finding.line, "startColumn": max(finding.column, 1)}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _uri(path: str) -> str:
    if os.path.isabs(path):
        return Path(path).as_uri()
    return quote(path.replace(os.sep, "/").encode("utf-8", "surrogateescape"))


FORMATS: dict[str, Format] = {"text": as_text, "json": as_json, "github": as_github, "sarif": as_sarif}


# `billhook check --host NAME`:


_DEADLINE: Final = re.compile(r"(?:--deadline |[?&]deadline=)(\d{1,9})\b")


class Hosted(msgspec.Struct, frozen=True):
    """One agent, and what it does with the hooks."""

    host: Agent
    hooks: tuple[Declared, ...]  # those that were looked at
    found: tuple[Limit, ...]
    left: int = 0  # hooks that the agent runs itself, in its own way

    @property
    def sure(self) -> bool:
        """Something that a hook says or needs is not honoured."""
        return any(limit.sure for limit in self.found)


def host_named(name: str, *also: str) -> Agent:
    """The agent of that name; UsageError with the nearest, of which `also` are some, when there is none."""
    if name not in AGENTS:
        raise UsageError(f"--host: no agent `{name}`", hint=READS_OTHERS.get(name) or suggest(name, [*AGENTS, *also]))
    return AGENTS[name]


def hosted(host: Agent, hooks: Sequence[Declared], left: int, projects: Iterable[str]) -> Hosted:
    """What an agent can't honour of these hooks, in the order of the files."""
    installed = _deadlines(host, projects)

    def seconds(event: str, wanted: float) -> float:
        there = times(host, event, wanted)[1] / 1000
        return min(there, installed.get(event, there))

    agent = Host(host.name, host.title, seconds)
    return Hosted(host, tuple(hooks), tuple(limit for hook in hooks for limit in limits(hook, agent)), left)


def _deadlines(host: Agent, projects: Iterable[str]) -> dict[str, float]:
    """The seconds that billhook has on each event, as it is installed for this agent."""
    canonical = {own: event for event, own in host.spellings.items()}
    found: dict[str, float] = {}
    for file in {host.file("user", ""), *(host.file("project", project) for project in projects)}:
        try:
            with open(file, encoding="utf-8") as opened:
                handlers = ours(checked(opened.read(), host, file), host)
        except (OSError, ValueError, BillhookError):
            continue
        for handler in handlers:
            said = _DEADLINE.search(str(handler.data.get(host.command_key) or handler.data.get("url")))
            event = canonical.get(handler.event)
            if said and event:
                found[event] = min(int(said[1]) / 1000, found.get(event, 1e9))
    return found


def host_text(about: Sequence[Hosted]) -> str:
    """Each agent below its own line, each hook with its sentences."""
    return "\n".join(line for place, one in enumerate(about) for line in (*([""] if place else []), *_screen(one)))


def _screen(one: Hosted) -> Iterator[str]:
    title, all_ = one.host.title, len(one.hooks)
    touched = len({(limit.file, limit.line, limit.hook) for limit in one.found if limit.sure})
    if touched:
        are = "is" if touched == 1 else "are"
        heading = f"{title}: {touched} of {counted(all_, 'hook')} {are} not honoured as written"
    else:
        heading = f"{title}: {counted(all_, 'hook')}, and nothing is lost for certain" if all_ else f"{title}: no hooks"
    yield click.style(heading, bold=True)
    for hook in one.hooks:
        said = [
            limit for limit in one.found if (limit.file, limit.line, limit.hook) == (hook.file, hook.line, hook.name)
        ]
        if said:
            place = f"{shown_path(hook.file)}:{hook.line}" if hook.line else shown_path(hook.file)
            name = click.style(one_line(hook.name, 40), fg="cyan")
            yield f"  {name}  {visible(place)}"
        for limit in said:
            for line in filled(limit.sentence, 4):
                yield click.style(line, fg="yellow") if limit.sure else line
    if one.left:
        yield from filled(
            f"{counted(one.left, 'more hook')} {'is' if one.left == 1 else 'are'} run by {title} itself", 2
        )


def host_json(about: Sequence[Hosted]) -> str:
    """One object a line, nothing else."""
    return "\n".join(strictjson.dumps(_data(one.host, limit)) for one in about for limit in one.found)


def _data(host: Agent, limit: Limit) -> dict[str, object]:
    return {
        "host": host.name,
        **picked(limit, "hook file line? events"),
        "file": shown(limit.file) or None,
        "host_events": [host.spellings.get(event) for event in limit.events],
        **picked(limit, "wants becomes sure"),
        "message": limit.sentence,
    }
