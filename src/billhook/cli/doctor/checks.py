"""The doctor's checks: an agent's program, its entries, trust, the daemon, the hooks and the log.

Agents silently skip hooks in folders that they don't trust.
"""

import json
import os
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec

from billhook import __version__
from billhook.agents import AGENTS
from billhook.agents.base import Agent, Scope, TrustCheck
from billhook.cli.install import entries as install_entries
from billhook.cli.install.entries import ALSO_CALLS, TOKEN_VARIABLE, notes_about, on_path
from billhook.cli.install.plan import RequiredEvents, Target
from billhook.config import history, loader, sources
from billhook.config.config import HookRow, rows
from billhook.config.declaration import HookDeclaration
from billhook.config.edit_json import measured
from billhook.config.history import LogTailScan, log_of
from billhook.config.nodes import MAX_BYTES, read_text
from billhook.config.notices import blocking_text, missing, missing_gates_text
from billhook.config.override import pause_of
from billhook.config.shapes import read_file
from billhook.core import client_env
from billhook.core.errors import BillhookError
from billhook.core.lazy import lazy_module
from billhook.core.text import counted
from billhook.store.files import StoreError, log_folder

if TYPE_CHECKING:
    from billhook.serve import control
    from billhook.serve.protocol import DaemonStatus
    from billhook.store.log import verify
else:
    control = lazy_module("billhook.serve.control")
    verify = lazy_module("billhook.store.log.verify")

_VERSION: Final = re.compile(r"\d+\.\d+\.\d+[\w.+-]*")
_HIGHEST: Final = 6  # folders above a program in which its package.json is looked for
_TIME: Final = re.compile(r"deadline[ =]\d+")
_SECONDS: Final = 10.0
_NEVER_CALLS: Final = ("disables", "does not start")  # in notes on settings with which the agent does not call billhook

Level = Literal["ok", "unknown", "note", "warn", "fail"]
About = Literal["program", "installed", "trust", "daemon", "hooks", "guard", "log", "fleet", "canary", "coverage"]


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
            found = re.search(rb'"version"\s*:\s*"([^"\\]{1,60})"', file.read(1 << 20))
            if found and _VERSION.fullmatch(version := found[1].decode("ascii", "replace")):
                return version
        if os.path.basename(os.path.dirname(folder)) == "node_modules" or folder == "/":
            break
        folder = os.path.dirname(folder)
    return ""


# The entries in an agent's files:
class InstalledEntries(msgspec.Struct, frozen=True):
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
        written = install_entries.written_handlers(document, target.host)
        if entries := written or install_entries.by_hand(document, target.host):
            self.installed.append(InstalledEntries(target.host, target.scope, target.path, tuple(entries)))
        for text in notes_about(target.path, measured(target.clean()), target.host):
            if any(words in text for words in _NEVER_CALLS):
                self.findings.append(_fail(text, "change that setting"))
            elif ALSO_CALLS in text and written:
                self.findings.append(_warn(text, "remove that entry"))

    def needed(self) -> set[str]:
        """The canonical names of events that configured hooks listen for, in this agent."""
        return {event for target in self._targets for event in RequiredEvents(target).events} - set(self.host.events)


def entry_findings(files: SettingsPair, others: list[InstalledEntries], *, asked: bool) -> Iterator[DoctorFinding]:
    """Findings about the installation. `asked`: the user named this agent."""
    host = files.host
    if not files.installed and not others:
        text = f"not installed: {host.title} does not call billhook"
        yield DoctorFinding("fail" if asked else "warn", "installed", text, f"billhook install {host.name}")
    for one in (*files.installed, *others):
        through = "" if one.host is host else f" (installed for {one.host.title}; {host.title} also reads this file)"
        missing = "; allows everything if billhook is missing" if one.if_missing == "allow" else ""
        own = {entry.event for entry in one.entries}
        text = f"{one.path}: {counted(len(own), 'event')}{through}{missing}"
        yield DoctorFinding("ok", "installed", text)
        for call in dict.fromkeys(one.calls()):
            if call.dialect != one.host.name:
                yield _fail(f"{one.path}: an entry uses the dialect of another agent, {call.dialect}", one.command)
        for program in dict.fromkeys(call.program for call in one.calls() if call.program):
            yield from _program(one, program)
        yield from _in_time(one)
        yield from _up_to_date(one)
        yield from _question_time(one, files.project)
    yield from files.findings
    if files.installed and host.escapes:
        yield DoctorFinding("note", "installed", host.escapes)
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
        seconds = one.host.meanings.in_seconds(number) if plain and number else one.host.default_timeout
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
    today = install_entries.entries_for(one.host, one.events, options)
    if all(_timeless(entry.entry, one.host) == _timeless(today.get(entry.event), one.host) for entry in one.entries):
        return
    if calls:
        yield _warn(f"{one.path}: the entries differ from those that this version of billhook writes", one.command)
    else:
        lines = ", ".join(str(entry.line) for entry in one.entries)
        text = f"{one.path}: `install` did not write the calls of billhook in line {lines}; their deadline is unknown"
        yield _warn(text, f"{one.command}, and remove those calls")


def _question_time(one: InstalledEntries, project: str) -> Iterator[DoctorFinding]:
    """Whether questions can wait as long as it is configured: the entries may be older than `approvals:`."""
    config = loader.load_for_cwd(project, host=one.host.name)
    wanted, event = config.question_seconds(queued=bool(config.queued)), one.host.spellings.get("PreToolUse")
    calls = (install_entries.parse(entry.data) for entry in one.entries if entry.event == event)
    shortest = min((call.deadline / 1000 for call in calls if call is not None), default=wanted)
    if shortest < wanted and "PreToolUse" not in one.host.longest:  # the agent itself may have a limit
        text = f"{one.path}: questions wait {shortest:.0f} s for a person, not {wanted:g} s as configured"
        yield _warn(text, one.command)


def _timeless(entry: Mapping[str, Any] | None, host: Agent) -> str:
    if entry is None:
        return ""
    handler = entry["hooks"][0] if "hooks" in entry else entry
    times = {host.timeout_key: None}
    plain = {**entry, "hooks": [{**handler, **times}]} if "hooks" in entry else {**entry, **times}
    return _TIME.sub("deadline", json.dumps(plain, sort_keys=True))


_INVALID: Final = frozenset({"BH104", "BH203", "BH204", "BH206", "BH216"})


def trust_findings(host: Agent, project: str, installed: Sequence[InstalledEntries]) -> Iterator[DoctorFinding]:
    """Whether the agent trusts the folder, by its files; nothing for an agent without such a setting."""
    check = TrustCheck(host, project, installed, settings_of)
    found = host.trust(check) if host.trust is not None else ()
    facts = [DoctorFinding(one.level, "trust", one.text, one.remedy) for one in found]
    yield from facts[:-1]
    yield from _invalid_files(host, project)
    yield from facts[-1:]  # the finding about the folder comes last


def settings_of(path: str) -> dict[str, Any]:
    """A settings file, comments allowed; empty if it does not exist or can't be read."""
    try:
        data = sources.read_bytes(path, MAX_BYTES)
    except OSError:
        return {}
    read = read_text(data, path if path.endswith(".json") else f"{path}.json")
    plain = read.node.plain() if read.node is not None else {}
    return plain if isinstance(plain, dict) else {}


def _invalid_files(host: Agent, project: str) -> Iterator[DoctorFinding]:
    """Settings files that the agent skips as a whole, because one entry is invalid."""
    own = [host.file("user", project)] if host.strict_files else []
    paths = (*own, *(os.path.join(project, name) for name in host.strict_files))
    for path in dict.fromkeys(path for path in paths if os.path.isfile(path)):
        read = read_file(path, "explicit", project)
        wrong = [(one.line, one.message) for one in read.findings if one.code in _INVALID]
        odd = [(one.line, "a bare command") for one in read.entries if one.shape != "nested"]
        for line, what in [*wrong, *odd][:1]:
            text = f"{path}:{line}: {what}; {host.title} skips the whole file for one invalid entry"
            remedy = "fix that entry, or move it to a hooks.yaml; `billhook check` shows all problems"
            yield DoctorFinding("warn", "trust", text, remedy)


# Hooks of Claude Code's plugins.
_MOST: Final = 200  # plugins that are examined


class PluginHook(msgspec.Struct, frozen=True):
    plugin: str
    declared: HookDeclaration


def plugin_hooks(project: str) -> list[PluginHook]:
    """The hooks of every plugin that is installed and enabled for this project."""
    return [PluginHook(name, one) for name, folder in _enabled(project) for one in _hooks_in(folder)]


def _enabled(project: str) -> Iterator[tuple[str, str]]:
    """The name and folder of each enabled plugin. The project's settings override the user's, as in the agent."""
    home = AGENTS["claude"].home()
    switches: dict[str, Any] = {}
    for file in (f"{home}/settings.json", *(f"{project}/.claude/settings{local}.json" for local in ("", ".local"))):
        given = settings_of(file).get("enabledPlugins")
        switches |= given if isinstance(given, dict) else {}
    installed = settings_of(os.path.join(home, "plugins", "installed_plugins.json")).get("plugins")
    for name, found in list(installed.items())[:_MOST] if isinstance(installed, dict) else ():
        places = [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]
        folders = [one.get("installPath") for one in places if one.get("projectPath") in (None, project)]
        folder = next((one for one in folders if isinstance(one, str)), "")
        if folder and switches.get(name) is True:
            yield name, folder


def _hooks_in(folder: str) -> Iterator[HookDeclaration]:
    given = settings_of(os.path.join(folder, ".claude-plugin", "plugin.json")).get("hooks")
    named = [one for one in (given if isinstance(given, list) else [given]) if isinstance(one, str)]
    for path in dict.fromkeys(os.path.normpath(os.path.join(folder, one)) for one in ("hooks/hooks.json", *named)):
        if os.path.isfile(path) and path.startswith(os.path.join(folder, "")):
            yield from (one for one in read_file(path, "explicit", folder).entries if one.action is not None)


# Whether the daemon answers, and whether entries call this daemon.
class DaemonState:
    """The status of the daemon of a state root, read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.status: DaemonStatus | None = None
        self.error: BillhookError | None = None
        began = time.monotonic()
        try:
            self.status = control.query_status(root)
        except BillhookError as error:
            self.error = error
        self.seconds = time.monotonic() - began

    def findings(self) -> Iterator[DoctorFinding]:
        if self.error is not None:
            place = f" ({self.error.place})" if self.error.place else ""
            yield DoctorFinding("fail", "daemon", f"{self.error.message}{place}", "billhook daemon stop --force")
            return
        found = self.status
        if found is None:
            yield DoctorFinding("ok", "daemon", "not running; the next event starts it")
            return
        text = f"running: process {found.pid}, billhook {found.version}, answered in {self.seconds * 1000:.0f} ms"
        if found.version != __version__:
            yield DoctorFinding("warn", "daemon", f"{text}; this is {__version__}", "billhook daemon stop")
            return
        ends = f"; it is stopping ({found.leaving}), and the next event starts a new one" if found.leaving else ""
        yield DoctorFinding("ok", "daemon", text + ends)
        if found.warm:
            faults = ", ".join(f"{what} ({counted(count, 'time')})" for what, count in found.warm.items())
            text = f"warm interpreters: {faults}; these hooks started a new interpreter"
            yield DoctorFinding("warn", "daemon", text, "billhook daemon stop")

    def listens(self, addresses: Iterable[str]) -> Iterator[DoctorFinding]:
        """Whether it listens at the HTTP addresses of entries."""
        own = self.status.http.rstrip("/") if self.status is not None else ""
        called = list(dict.fromkeys(addresses))
        if called and not client_env.environ().get(TOKEN_VARIABLE):
            text = f"{TOKEN_VARIABLE} is not set here; the daemon refuses an agent that is started without it"
            remedy = f'export {TOKEN_VARIABLE}="$(cat {self._root / "billhook" / "daemon" / "token"})"'
            yield DoctorFinding("unknown", "daemon", text, remedy)
        for address in called:
            if address != own:
                text = f"entries call {address}, but no daemon listens there"
                remedy = f"billhook daemon start --http {address.partition('://')[2]}"
                yield DoctorFinding("fail", "daemon", text, remedy)


# Which hooks apply inside an agent, and when it last called billhook.
LAST_CALL: Final = " last called billhook at "
_NEWEST: Final = 8 << 20  # bytes at the end of the log that are searched


def _fate(row: HookRow, host: Agent) -> str:
    if row.layer == "built-in":
        return "built in"
    if row.effect == "nothing":
        return {"new": "waiting", "changed": "waiting", "elsewhere": "itself"}.get(row.state, "idle")
    if row.effect == "blocks":
        return "changed" if row.state == "changed" else "blocks"  # a placeholder for a gate that can't be used
    return "run" if not row.events or any(event in host.spellings for event in row.events) else "never"


def hook_findings(host: Agent, project: str) -> Iterator[DoctorFinding]:
    """Which hooks apply, which wait for approval, and what is wrong."""
    config = loader.load_for_cwd(project, host=host.name)
    found = Counter(_fate(row, host) for row in rows(config) if row.layer == "built-in" or not row.switch)
    words = {
        "itself": f"run by {host.title} itself",
        "never": f"for events that {host.title} does not have",
        "idle": "not running",
    }
    parts = [f"{found['run']} of your hooks {'runs' if found['run'] == 1 else 'run'}"]
    parts += [counted(found["built in"], "built-in")] if found["built in"] else []
    parts += [f"{found[fate]} {text}" for fate, text in words.items() if found[fate]]
    yield DoctorFinding("ok", "hooks", ", ".join(parts))
    if host.name == "claude" and (others := plugin_hooks(project)):
        plugins = ", ".join(dict.fromkeys(one.plugin for one in others))
        what = "1 hook of a plugin" if len(others) == 1 else f"{len(others)} hooks of plugins"
        yield DoctorFinding("ok", "hooks", f"{host.title} itself runs {what}: {plugins}")
    if waiting := found["waiting"]:
        what = "1 hook waits" if waiting == 1 else f"{waiting} hooks wait"
        yield DoctorFinding("warn", "hooks", f"{what} for your approval", "billhook trust")
    if blocks := found["blocks"]:
        what = "1 gate can't run; its events are" if blocks == 1 else f"{blocks} gates can't run; their events are"
        yield DoctorFinding("warn", "hooks", f"{what} denied", "billhook check")
    for one in missing(config):
        text = missing_gates_text(one, config).partition(" If that")[0]
        yield DoctorFinding("warn", "hooks", text, "restore it, or: billhook trust --acknowledge")
    if config.problems:
        first = config.problems[0]
        text = f"{counted(len(config.problems), 'problem')}, the first: {first.place}: {first.message}"
        yield DoctorFinding("warn", "hooks", text, "billhook check")


def gate_findings(project: str) -> Iterator[DoctorFinding]:
    """The gates that changed since their approval: they deny calls in every agent."""
    for row in rows(loader.load_for_cwd(project)):
        if row.effect == "blocks" and row.state == "changed":
            text, _, remedy = blocking_text(row).rpartition(": ")
            yield DoctorFinding("warn", "hooks", text, remedy)


def is_logged(host: Agent, project: str) -> bool:
    setting = loader.load_for_cwd(project, host=host.name).builtins.get("event-logger")
    return setting is None or setting.enabled is not False


def head_findings(project: str, root: Path) -> Iterator[DoctorFinding]:
    """Whether the heads of the log are exported, if that is configured."""
    recording = loader.load_for_cwd(project).recording
    target = recording.options["export_head_to"] if recording else ""
    if recording is None or not target:
        return
    folder = log_folder(root, project)
    try:
        wrong = verify.overdue(Path(target), folder, root, recording.options["export_head_every"])
    except StoreError as error:
        yield DoctorFinding("warn", "log", f"can't export the head: {error.message} ({error.place})", error.hint)
        return
    well = DoctorFinding("ok", "log", f"the heads of the log are exported to {target}")
    yield DoctorFinding("warn", "log", wrong, "billhook events verify --head") if wrong else well


def fleet_findings(project: str) -> Iterator[DoctorFinding]:
    """The policy of the fleet, and whether this host is still in contact."""
    config = loader.load_for_cwd(project)
    if config.fleet is None:
        return
    if problem := config.fleet.problem:
        yield DoctorFinding("warn", "fleet", problem, "billhook fleet status")
        return
    from billhook.config.fleet_policy import silence

    silent, way = silence(Path(config.root)), "managed" if config.fleet.managed else "tightens only"
    age = f"; no contact for {silent}: the last policy stays in force" if silent else ""
    remedy = "billhook daemon status" if silent else ""
    yield DoctorFinding("note" if silent else "ok", "fleet", f"{config.fleet.title} ({way}){age}", remedy)


def guard_findings(project: str) -> Iterator[DoctorFinding]:
    """Whether the guard is enabled, its settings, and its recent decisions; and whether hooks are paused."""
    if pause := pause_of(loader.load_for_cwd(project)):
        yield DoctorFinding("warn", "guard", f"{pause}: denials and asks have no effect", "billhook resume")
    try:
        for level, text, remedy in history.guard_findings(loader.load_for_cwd(project)):
            yield DoctorFinding(cast("Level", level), "guard", text, remedy)
    except StoreError as error:
        yield DoctorFinding("unknown", "guard", f"the event log can't be read: {error.message} ({error.place})")


def log_findings(host: Agent, project: str) -> Iterator[DoctorFinding]:
    """When the agent last called billhook."""
    config = loader.load_for_cwd(project, host=host.name)
    if not is_logged(host, project):
        yield DoctorFinding("unknown", "log", "the event log is disabled, so the last call of billhook is unknown")
        return
    try:
        tail = LogTailScan(log_of(config), config.project, _NEWEST)
        when = next((record.time for record in tail if record.host == host.name), "")
    except StoreError as error:
        yield DoctorFinding("warn", "log", f"the event log can't be read: {error.message} ({error.place})", error.hint)
        return
    if when:
        yield DoctorFinding("ok", "log", f"{host.title}{LAST_CALL}{when}")
        return
    remedy = f"billhook doctor {host.name} --canary" if host.start is not None and path_of(host) else ""
    yield DoctorFinding("unknown", "log", f"{host.title} has not called billhook in this project yet", remedy)
