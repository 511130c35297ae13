"""The doctor's findings about an agent's program, and about billhook's entries in its files."""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from billhook import __version__
from billhook.agents.base import Agent, Scope
from billhook.cli.install import entries as install_entries
from billhook.cli.install.files import ALSO_CALLS, notes_about, on_path
from billhook.cli.install.plan import Needs, Target
from billhook.config.edit_json import measured
from billhook.core.errors import BillhookError
from billhook.core.text import counted

_VERSION: Final = re.compile(r"\d+\.\d+\.\d+[\w.+-]*")
_HIGHEST: Final = 6  # folders above a program in which its package.json is looked for
_LARGEST: Final = 1 << 20
_TIME: Final = re.compile(r"deadline[ =]\d+")
_SECONDS: Final = 10.0
_NEVER_CALLS: Final = ("disables", "does not start")  # in notes on settings with which the agent does not call billhook

Level = Literal["ok", "unknown", "note", "warn", "fail"]
About = Literal["program", "installed", "trust", "daemon", "hooks", "guard", "log", "canary", "coverage"]


class DoctorFinding(msgspec.Struct, frozen=True):
    """What was looked at, its status, and how to fix it."""

    level: Level
    """`note`: a choice of the user that is worth seeing.
    `warn`: some calls are not judged, or may not be. `fail`: the agent does not call billhook, or gets no answer."""
    about: About
    text: str
    remedy: str = ""  # a command to run, or what to do; empty: nothing has to be fixed

    @property
    def well(self) -> bool:
        return self.level in ("ok", "unknown", "note")


_warn = partial(DoctorFinding, "warn", "installed")
_fail = partial(DoctorFinding, "fail", "installed")


def all_well(findings: Iterable[DoctorFinding]) -> bool:
    """Whether nothing has to be fixed."""
    return all(one.well for one in findings)


def path_of(host: Agent) -> str:
    """The agent's program on PATH; empty if there is none."""
    return on_path(host.program)


def program_finding(host: Agent) -> DoctorFinding:
    """Whether the agent can be started from here."""
    path = path_of(host)
    if not path:
        if host.without_program:
            return DoctorFinding("unknown", "program", f"no `{host.program}` on PATH here")
        remedy = f"install {host.title}, or run this where `{host.program}` is on PATH"
        text = f"{host.title} can't be started here: no `{host.program}` on PATH"
        return DoctorFinding("warn", "program", text, remedy)
    version = version_of(path)
    return DoctorFinding("ok", "program", f"{path}, version {version}" if version else path)


def version_of(path: str) -> str:
    """The version of a program, from the files around it; empty if unknown."""
    folder, name = os.path.split(os.path.realpath(path))
    if _VERSION.fullmatch(name):
        return name
    for _ in range(_HIGHEST):
        with suppress(OSError), open(os.path.join(folder, "package.json"), "rb") as file:
            found = re.search(rb'"version"\s*:\s*"([^"\\]{1,60})"', file.read(_LARGEST))
            if found and _VERSION.fullmatch(version := found[1].decode("ascii", "replace")):
                return version
        if os.path.basename(os.path.dirname(folder)) == "node_modules" or folder == "/":
            break
        folder = os.path.dirname(folder)
    return ""


# The entries in an agent's files:
class InstalledEntries(msgspec.Struct, frozen=True):
    """Billhook's entries in one file of an agent."""

    host: Agent
    scope: Scope
    path: str
    entries: tuple[install_entries.Handler, ...]

    @property
    def events(self) -> tuple[str, ...]:
        """The canonical names of the events for which the agent calls billhook."""
        own = {one.event for one in self.entries}
        return tuple(name for name, spelling in self.host.spellings.items() if spelling in own)

    @property
    def if_missing(self) -> install_entries.IfMissing:
        return "allow" if any(install_entries.NOT_RUNNING in str(one.data) for one in self.entries) else "deny"

    @property
    def command(self) -> str:
        """The command that installs it again."""
        words = ["billhook install", self.host.name]
        words += ["--project"] if self.scope == "project" else []
        words += ["--http"] if any(one.address for one in self.calls()) else []
        words += ["--if-missing allow"] if self.if_missing == "allow" else []
        return " ".join(words)

    def calls(self) -> list[install_entries.EntryCall]:
        return [call for one in self.entries if (call := install_entries.parse(one.data)) is not None]


class SettingsPair:
    """Both files of an agent: the user's and the project's."""

    def __init__(self, host: Agent, project: str, root: Path) -> None:
        self.host, self.project = host, project
        self.installed: list[InstalledEntries] = []
        self.findings: list[DoctorFinding] = []
        self._targets: list[Target] = []
        both: tuple[Scope, ...] = ("user", "project")
        same = len({os.path.realpath(host.file(scope, project)) for scope in both}) == 1
        for scope in both[:1] if same else both:
            try:
                self._read(Target(host, scope, project, root))
            except BillhookError as error:
                where = f"{error.place}: " if error.place else ""
                self.findings.append(_fail(f"{where}{error.message}", error.hint or "fix the file"))

    def _read(self, target: Target) -> None:
        document = measured(target.text())
        self._targets.append(target)
        written = install_entries.ours(document, target.host)
        if entries := written or install_entries.by_hand(document, target.host):
            self.installed.append(InstalledEntries(target.host, target.scope, target.path, tuple(entries)))
        for text in notes_about(target.path, measured(target.clean()), target.host):
            if any(words in text for words in _NEVER_CALLS):
                self.findings.append(_fail(text, "change that setting"))
            elif ALSO_CALLS in text and written:
                self.findings.append(_warn(text, "remove that entry"))

    def needed(self) -> set[str]:
        """The canonical names of events that configured hooks listen for, in this agent."""
        return {event for target in self._targets for event in Needs(target).events} - set(self.host.events)


def entry_findings(files: SettingsPair, others: list[InstalledEntries], *, asked: bool) -> Iterator[DoctorFinding]:
    """Findings about the installation. `asked`: the user named this agent."""
    host = files.host
    if not files.installed and not others:
        text = f"not installed: {host.title} does not call billhook"
        yield DoctorFinding("fail" if asked else "warn", "installed", text, f"billhook install {host.name}")
    for one in (*files.installed, *others):
        through = "" if one.host is host else f" (installed for {one.host.title}; {host.title} also reads this file)"
        missing = "; allows everything if billhook is missing" if one.if_missing == "allow" else ""
        text = f"{one.path}: {counted(len(one.events), 'event')}{through}{missing}"
        yield DoctorFinding("ok", "installed", text)
        for call in dict.fromkeys(one.calls()):
            if call.dialect != one.host.name:
                yield _fail(f"{one.path}: an entry uses the dialect of another agent, {call.dialect}", one.command)
        for program in dict.fromkeys(call.program for call in one.calls() if call.program):
            yield from _program(one, program)
        yield from _in_time(one)
        yield from _up_to_date(one)
    yield from files.findings
    installed = [*files.installed, *others]
    have = {event for one in installed for event in one.events}
    if installed and "PreToolUse" not in have:
        text = f"no tool call is judged: {host.spellings['PreToolUse']} is not among the installed events"
        yield _warn(text, installed[-1].command)
    if installed and (lacking := sorted(files.needed() - have)):
        text = f"hooks listen for events that are not installed: {', '.join(lacking)}"
        yield _warn(text, installed[-1].command)


def _program(one: InstalledEntries, program: str) -> Iterator[DoctorFinding]:
    """Whether the program of an entry exists, and is this billhook."""
    becomes = f"every tool call is {'allowed' if one.if_missing == 'allow' else 'denied'}"
    path = program if "/" in program else on_path(program)
    this = os.path.join(os.path.dirname(sys.executable), install_entries.PROGRAM)
    if not path:
        yield _fail(f"`{program}` is not on PATH here; {becomes}", install_entries.GET_BILLHOOK)
    elif not os.path.exists(path):
        remedy = install_entries.GET_BILLHOOK if one.scope == "project" else one.command
        yield _fail(f"{path} does not exist; {becomes}", remedy)
    elif not os.access(path, os.X_OK) or os.path.isdir(path):
        yield _fail(f"{path} is not executable; {becomes}", f"chmod +x {shlex.quote(path)}")
    elif os.path.realpath(path) != os.path.realpath(this) and (version := _version_beside(path)) != __version__:
        other = f"version {version}" if version else "of an unknown version"
        yield _warn(f"the entries call another billhook: {path}, {other}; this is {__version__}", one.command)


def _version_beside(path: str) -> str:
    """The version of the billhook to which a billhook-hook belongs; empty if unknown."""
    import subprocess

    program = os.path.join(os.path.dirname(os.path.realpath(path)), "billhook")
    try:
        words, nothing = [program, "--version"], subprocess.DEVNULL
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, stdin=nothing, check=False)
    except (OSError, subprocess.SubprocessError, ValueError):
        return ""
    found = re.search(r"\d+\.\d+\.\d+\S*", done.stdout)
    return found[0] if found else ""


def _in_time(one: InstalledEntries) -> Iterator[DoctorFinding]:
    """Every agent allows a call when a hook times out, so billhook's deadline must be shorter than that timeout."""
    late = []
    for entry in one.entries:
        call = install_entries.parse(entry.data)
        number = entry.data.get(one.host.timeout_key)
        plain = isinstance(number, int | float) and not isinstance(number, bool)
        seconds = number / one.host.unit_per_second if plain and number else one.host.default_timeout
        if call is not None and call.deadline >= seconds * 1000:
            late.append(f"{entry.event} ({call.deadline} ms, timeout {seconds:g} s)")
    if late:
        text = f"{one.path}: the deadline must be shorter than the agent's timeout: {', '.join(late)}"
        yield _fail(text, one.command)


def _up_to_date(one: InstalledEntries) -> Iterator[DoctorFinding]:
    """Whether `install` would write the same. Times are ignored: hooks of other folders may have made them longer."""
    calls = one.calls()
    options = install_entries.EntryOptions(
        scope=one.scope,
        program=next((call.program for call in calls if call.program), install_entries.PROGRAM),
        if_missing=one.if_missing,
        http=next((call.address for call in calls if call.address), ""),
    )
    today = install_entries.wanted(one.host, one.events, options)
    if all(_timeless(entry.entry, one.host) == _timeless(today.get(entry.event), one.host) for entry in one.entries):
        return
    if calls:
        yield _warn(f"{one.path}: the entries differ from those that this version of billhook writes", one.command)
    else:
        lines = ", ".join(str(entry.line) for entry in one.entries)
        text = f"{one.path}: `install` did not write the calls of billhook in line {lines}; their deadline is unknown"
        yield _warn(text, f"{one.command}, and remove those calls")


def _timeless(entry: Mapping[str, Any] | None, host: Agent) -> str:
    """An entry as text, without its times."""
    if entry is None:
        return ""
    handler = entry["hooks"][0] if host.shape == "nested" else entry
    times = {host.timeout_key: None}
    plain = {**entry, "hooks": [{**handler, **times}]} if host.shape == "nested" else {**entry, **times}
    return _TIME.sub("deadline", json.dumps(plain, sort_keys=True))
