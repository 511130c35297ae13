"""The agent's own program: where it is, and which version, without starting it."""

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from billhook import __version__
from billhook.agents import AGENTS
from billhook.agents.base import Agent, Scope
from billhook.cli.doctor.finding import DoctorFinding
from billhook.cli.install.entries import (
    PROGRAM,
    UNGUARDED,
    EntryCall,
    EntryOptions,
    Handler,
    IfMissing,
    handlers,
    is_written,
    ours,
    parse,
    wanted,
)
from billhook.cli.install.files import notes_about
from billhook.cli.install.plan import Needs, Target
from billhook.config.declaration import RunAction, Url
from billhook.config.edit_json import Document, measured
from billhook.config.installation import is_billhook
from billhook.core import client_env
from billhook.core.errors import BillhookError

_VERSION: Final = re.compile(r"\d+\.\d+\.\d+[\w.+-]*")
_HIGHEST: Final = 6  # folders above a program in which its package may say what it is
_LARGEST: Final = 1 << 20


def path_of(host: Agent) -> str:
    """The agent's program on PATH; empty when there is none."""
    return shutil.which(host.program, path=client_env.environ().get("PATH")) or ""


def program_finding(host: Agent) -> DoctorFinding:
    """Whether the agent can be started from here."""
    path = path_of(host)
    if not path:
        if host.without_program:
            return DoctorFinding("unknown", "program", f"no `{host.program}` on PATH here")
        remedy = f"install {host.title}, or start billhook where `{host.program}` is on PATH"
        return DoctorFinding(
            "warn", "program", f"{host.title} can't be started here: no `{host.program}` on PATH", remedy
        )
    version = version_of(path)
    return DoctorFinding("ok", "program", f"{path}, version {version}" if version else path)


def version_of(path: str) -> str:
    """The version that the files around a program tell; empty when they don't."""
    real = os.path.realpath(path)
    if _VERSION.fullmatch(os.path.basename(real)):
        return os.path.basename(real)
    return next(_packages_above(real), "")


def _packages_above(real: str) -> Iterator[str]:
    folder = os.path.dirname(real)
    for _ in range(_HIGHEST):
        try:
            with open(os.path.join(folder, "package.json"), "rb") as file:
                text = file.read(_LARGEST)
        except OSError:
            text = b""
        found = re.search(rb'"version"\s*:\s*"([^"\\]{1,60})"', text)
        if found and _VERSION.fullmatch(found[1].decode("ascii", "replace")):
            yield found[1].decode("ascii")
        if os.path.basename(os.path.dirname(folder)) == "node_modules" or folder == "/":
            return
        folder = os.path.dirname(folder)


# The entries in an agent's files:


_TIME: Final = re.compile(r"deadline[ =]\d+")
_SECONDS: Final = 10.0


class InstalledEntries(msgspec.Struct, frozen=True):
    """Our entries in one file of an agent."""

    host: Agent
    scope: Scope
    path: str
    entries: tuple[Handler, ...]

    @property
    def events(self) -> tuple[str, ...]:
        """The canonical names of what the agent asks about."""
        own = {one.event for one in self.entries}
        return tuple(name for name, spelling in self.host.spellings.items() if spelling in own)

    @property
    def if_missing(self) -> IfMissing:
        return "allow" if any(UNGUARDED in str(one.data) for one in self.entries) else "deny"

    @property
    def command(self) -> str:
        """What installs it anew."""
        words = ["billhook install", self.host.name]
        words += ["--project"] if self.scope == "project" else []
        words += ["--http"] if any(one.address for one in self.calls()) else []
        words += ["--if-missing allow"] if self.if_missing == "allow" else []
        return " ".join(words)

    def calls(self) -> list[EntryCall]:
        return [call for one in self.entries if (call := parse(one.data)) is not None]


class SettingsPair:
    """Both files of an agent: the user's and the project's."""

    def __init__(self, host: Agent, project: str, root: Path) -> None:
        self.host, self.project = host, project
        self.installed: list[InstalledEntries] = []
        self.findings: list[DoctorFinding] = []
        self._targets: list[Target] = []
        for scope in _scopes(host, project):
            try:
                self._read(Target(host, scope, project, root))
            except BillhookError as error:
                where = f"{error.place}: " if error.place else ""
                remedy = error.hint or "mend the file"
                self.findings.append(DoctorFinding("fail", "installed", f"{where}{error.message}", remedy))

    def _read(self, target: Target) -> None:
        document = measured(target.text())
        self._targets.append(target)
        written = ours(document, target.host)
        if entries := written or by_hand(document, target.host):
            self.installed.append(InstalledEntries(target.host, target.scope, target.path, tuple(entries)))
        for text in notes_about(target.path, measured(target.clean()), target.host):
            if "switches" in text or "will not start" in text:
                self.findings.append(DoctorFinding("fail", "installed", text, "change that setting"))
            elif "calls billhook as well" in text and written:
                self.findings.append(DoctorFinding("warn", "installed", text, "remove that entry"))

    def needed(self) -> set[str]:
        """The canonical names of events that configured hooks want, in this agent."""
        usual = set(self.host.events)
        found: set[str] = set()
        for target in self._targets:
            found |= set(Needs(target).events) - usual
        return found


def by_hand(document: Document, host: Agent) -> list[Handler]:
    """Entries that call billhook in a person's own words."""
    found = []
    for one in handlers(document, host):
        text, url = one.data.get("command") or one.data.get("bash"), one.data.get("url")
        action = RunAction(text) if isinstance(text, str) else Url(url) if isinstance(url, str) else None
        found += [one] if is_billhook(action) and not is_written(one.data) else []
    return found


def _scopes(host: Agent, project: str) -> Iterable[Scope]:
    same = os.path.realpath(host.file("user", project)) == os.path.realpath(host.file("project", project))
    return ("user",) if same else ("user", "project")


def by_another_file(host: Agent, project: str, root: Path) -> list[InstalledEntries]:
    """Entries that were installed for Claude Code, in files that this agent reads, too."""
    scopes = host.reads_claude
    return (
        [one for one in SettingsPair(AGENTS["claude"], project, root).installed if one.scope in scopes]
        if scopes
        else []
    )


def entry_findings(files: SettingsPair, others: list[InstalledEntries], *, asked: bool) -> Iterator[DoctorFinding]:
    """What there is to say about being installed. `asked`: somebody wants to know about this very agent."""
    host = files.host
    if not files.installed and not others:
        text = f"not installed: {host.title} does not ask billhook"
        yield DoctorFinding("fail" if asked else "warn", "installed", text, f"billhook install {host.name}")
    for one in (*files.installed, *others):
        yield _present(one, host)
        yield from _leads_here(one)
        yield from _in_time(one)
        yield from _up_to_date(one)
    yield from files.findings
    yield from _covered(files, [*files.installed, *others])


def _present(one: InstalledEntries, host: Agent) -> DoctorFinding:
    through = "" if one.host is host else f" (installed for {one.host.title}, whose file {host.title} reads)"
    missing = "; lets everything pass where billhook is missing" if one.if_missing == "allow" else ""
    number = len(one.events)
    events = "1 event" if number == 1 else f"{number} events"
    return DoctorFinding("ok", "installed", f"{one.path}: {events}{through}{missing}")


def _covered(files: SettingsPair, installed: list[InstalledEntries]) -> Iterator[DoctorFinding]:
    """Events that nobody asks about."""
    if not installed:
        return
    have = {event for one in installed for event in one.events}
    host, again = files.host, installed[-1].command
    if "PreToolUse" not in have:
        text = f"no tool call is judged: {host.spellings['PreToolUse']} is not among its events"
        yield DoctorFinding("warn", "installed", text, again)
    if lacking := sorted(files.needed() - have):
        yield DoctorFinding(
            "warn", "installed", f"hooks want what the agent does not ask about: {', '.join(lacking)}", again
        )


def _leads_here(one: InstalledEntries) -> Iterator[DoctorFinding]:
    """Whether the command is there, and is this billhook."""
    for said in dict.fromkeys(one.calls()):
        if said.dialect != one.host.name:
            text = f"{one.path}: an entry speaks to {said.dialect}"
            yield DoctorFinding("fail", "installed", text, one.command)
    for program in dict.fromkeys(said.program for said in one.calls() if said.program):
        yield from _program(one, program)


def _program(one: InstalledEntries, program: str) -> Iterator[DoctorFinding]:
    becomes = "then every tool call passes" if one.if_missing == "allow" else "then every tool call is refused"
    remedy = "uv tool install billhook" if one.scope == "project" else one.command
    path = program if "/" in program else shutil.which(program, path=client_env.environ().get("PATH")) or ""
    if not path:
        yield DoctorFinding(
            "fail", "installed", f"`{program}` is not on PATH here; {becomes}", "uv tool install billhook"
        )
    elif not os.path.exists(path):
        yield DoctorFinding("fail", "installed", f"{path} is gone; {becomes}", remedy)
    elif not os.access(path, os.X_OK) or os.path.isdir(path):
        yield DoctorFinding(
            "fail", "installed", f"{path} is not executable; {becomes}", f"chmod +x {shlex.quote(path)}"
        )
    elif not _is_this(path):
        version = _version_beside(path)
        if version != __version__:
            other = f"version {version}" if version else "of an unknown version"
            text = f"it calls another billhook, {path}, {other}; this is {__version__}"
            yield DoctorFinding("warn", "installed", text, one.command)


def _is_this(path: str) -> bool:
    beside = os.path.join(os.path.dirname(sys.executable), PROGRAM)
    return os.path.realpath(path) == os.path.realpath(beside)


def _version_beside(path: str) -> str:
    """The version of the billhook that a billhook-hook belongs to; empty when it does not say."""
    import subprocess

    program = os.path.join(os.path.dirname(os.path.realpath(path)), "billhook")
    try:
        done = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return ""
    found = re.search(r"\d+\.\d+\.\d+\S*", done.stdout)
    return found[0] if found else ""


def _in_time(one: InstalledEntries) -> Iterator[DoctorFinding]:
    """Every agent lets a call pass when a hook is too late: our deadline has to lie below its time-out."""
    late = []
    for entry in one.entries:
        said = parse(entry.data)
        number = entry.data.get(one.host.timeout_key)
        plain = isinstance(number, int | float) and not isinstance(number, bool)
        seconds = number / one.host.unit_per_second if plain and number else one.host.default_timeout
        if said is not None and said.deadline >= seconds * 1000:
            late.append(f"{entry.event} ({said.deadline} ms against {seconds:g} s)")
    if late:
        text = f"{one.path}: the deadline is not below the agent's own time-out: {', '.join(late)}"
        yield DoctorFinding("fail", "installed", text, one.command)


def _up_to_date(one: InstalledEntries) -> Iterator[DoctorFinding]:
    """Whether `install` would write the same, but for the times, which hooks of any folder may have made longer."""
    calls = one.calls()
    options = EntryOptions(
        scope=one.scope,
        program=next((said.program for said in calls if said.program), PROGRAM),
        if_missing=one.if_missing,
        http=next((said.address for said in calls if said.address), ""),
    )
    today = wanted(one.host, one.events, options)
    if any(_timeless(entry.entry, one.host) != _timeless(today.get(entry.event), one.host) for entry in one.entries):
        yield _of_another_form(one)


def _of_another_form(one: InstalledEntries) -> DoctorFinding:
    if one.calls():
        return DoctorFinding(
            "warn", "installed", f"{one.path}: entries of another form than this version writes", one.command
        )
    lines = ", ".join(str(entry.line) for entry in one.entries)
    text = f"{one.path}: calls billhook in words of your own (line {lines}), with no deadline that is known"
    return DoctorFinding("warn", "installed", text, f"{one.command}, and remove those")


def _timeless(entry: Mapping[str, Any] | None, host: Agent) -> str:
    """An entry as text, without its times."""
    if entry is None:
        return ""
    handler = entry["hooks"][0] if host.shape == "nested" else entry
    plain = {key: value for key, value in handler.items() if key != host.timeout_key}
    group = {key: value for key, value in entry.items() if key != "hooks"} if host.shape == "nested" else {}
    return _TIME.sub("deadline", json.dumps({**plain, "": group}, sort_keys=True))
