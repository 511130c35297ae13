"""Load the configuration of a folder, and cache it as long as all its inputs stay the same.

Every event checks the inputs, so the check must be cheap: for the many places where a file may appear and none exists,
only the times of their folders are compared.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import msgspec
from msgspec.structs import replace

from billhook.agents import AGENTS, EVERY_AGENT
from billhook.config import layers, sources
from billhook.config.builtin_hooks import Builtins, Reviews, StandIn, protected
from billhook.config.config import Config, Entry
from billhook.config.declaration import CONDITION_KEYS, LAYERS, HookDeclaration, Layer, needs_consent
from billhook.config.layers import UnsetError, Values, interpolated
from billhook.config.sources import FileRead, confirmed, inside, runs_itself, seen
from billhook.core import client_env
from billhook.core.errors import UsageError
from billhook.core.hook import Hook, Source
from billhook.core.lazy import lazy_module
from billhook.store.approvals import Approvals
from billhook.store.files import state_root
from billhook.store.state import FileState

if TYPE_CHECKING:
    from billhook.approvals import ApprovalSettings
    from billhook.config import build, shapes, trust
    from billhook.config.config import State
    from billhook.config.override import Pause
    from billhook.config.trust import Consent, Trust
    from billhook.engine.engine import Engine
else:
    trust = lazy_module("billhook.config.trust")
    build = lazy_module("billhook.config.build")
    shapes = lazy_module("billhook.config.shapes")


_SETTLED: Final = 1_000_000_000
"""Nanoseconds. A folder that changed just now may change again without a difference in its times."""


class CachedConfig:
    """One configuration, and its inputs."""

    def __init__(
        self,
        config: "Config",
        folder: str,
        found: sources.FoundSources,
        used: Mapping[str, str | None],
        approvals: "Approvals",
    ) -> None:
        """`used` are the variables that hooks contain. A file that was written just now may be written again without a
        difference in its times: what was read from it is never cached."""
        self.config = config
        # The real paths of both folders may change, too.
        self._places = {path: os.path.realpath(path) for path in (folder, client_env.expanduser("~"))}
        here = [(path, sources.identity(path)) for path in self._places]
        there = [(path, identity) for path, identity in found.probed if identity]
        self._present = (*here, *((path, one if sources.settled(one) else (-1,)) for path, one in there))
        self._passed = found.passed
        self._absent = tuple(path for path, identity in found.probed if not identity)
        self._folders: dict[str, sources.Identity] = {}
        """The folders in which a missing file would appear, with their times when none had. Those that changed just now
        are left out until `_until`: in these, each event looks for what would appear, `_awaited`."""
        self._until, self._awaited = 0.0, tuple[str, ...]()
        self._changeable, self._beyond = self._present, self._passed
        """Inputs that the times of these folders don't cover: everything except the folders and folders in them."""
        marks = {(mark.path, mark.kind): mark for entry in config.entries for mark in entry.consent.looked_at}
        self._marks, self._used, self._approvals = tuple(marks.values()), dict(used), approvals
        files = {read.source.path for read in config.sources if needs_consent(read.source.layer)}
        self._expires = config.fleet.expires if config.fleet is not None else 0.0
        self._stamps = {file: approvals.stamp(file) for file in files}
        self._approved: dict[str, sources.Identity] = {}
        """The folders of these approvals: unchanged times mean that nothing was approved or revoked."""

    def holds(self, env: Mapping[str, str]) -> bool:
        """Whether loading again would return the same configuration. Only `stat` is called."""
        if self._expires and time.time() > self._expires:
            return False
        came = time.time_ns() > self._until or any(map(os.path.lexists, self._awaited))
        came = came or any(_look(one, _TIMES, links=True) != times for one, times in self._folders.items())
        for path, identity in self._present if came else self._changeable:
            # the first, quick check is enough for a file that exists and is not a link
            if (_look(path, sources.IDENTITY) or (0,)) != identity and sources.identity(path) != identity:
                return False
        passed = self._passed if came else self._beyond
        if any(sources.is_world_writable(path) != writable for path, writable in passed):
            return False
        if any(env.get(name) != value for name, value in self._used.items()):
            return False
        for folder, identity in self._approved.items():
            if _look(folder, _OWN_FOLDER) != identity:
                self._approved = {}
                break
        if self._stamps and not self._approved and not self._same_approvals():
            return False
        if self._marks and not all(map(trust.holds, self._marks)):
            return False
        if not all(trust.unchanged(mark) for entry in self.config.pending for mark in entry.consent.looked_at):
            return False
        # A folder that was moved and replaced by a link is the same folder in another place.
        if (came or self._awaited) and any(os.path.realpath(path) != real for path, real in self._places.items()):
            return False
        return not came or self._none_appeared()

    def _same_approvals(self) -> bool:
        ways = {folder for file in self._stamps for folder in self._approvals.way_to(file)}
        before = {folder: _look(folder, _OWN_FOLDER) for folder in ways}
        if any(self._approvals.stamp(file) != stamp for file, stamp in self._stamps.items()):
            return False
        now = time.time_ns()
        self._approved = before if all(now - max(one[4:], default=0) > _SETTLED for one in before.values()) else {}
        return True

    def _none_appeared(self) -> bool:
        missing = set(map(_first_missing, self._absent))
        folders = {folder: _look(folder, _TIMES, links=True) for folder in map(os.path.dirname, missing)}
        if any(sources.identity(path) for path in self._absent):
            return False
        now = time.time_ns()
        self._folders = {one: times for one, times in folders.items() if times and now - max(times[2:]) > _SETTLED}
        fresh = folders.keys() - self._folders.keys()
        self._awaited = tuple(one for one in missing if os.path.dirname(one) in fresh or os.path.islink(one))
        self._until = now + _SETTLED if self._awaited else math.inf
        near = [path for path, _ in self._present if {path, os.path.dirname(path)} & self._folders.keys()]
        told = {path for path in near if os.path.isdir(path) and not os.path.islink(path)}
        self._changeable = tuple(place for place in self._present if place[0] not in told)
        self._beyond = tuple(place for place in self._passed if place[0] not in self._folders)
        return True


_OWN_FOLDER: Final = attrgetter("st_dev", "st_ino", "st_mode", "st_uid", "st_mtime_ns", "st_ctime_ns")
"""Identifies a folder of ours, its owner and mode, and the names in it."""
_TIMES: Final = attrgetter("st_dev", "st_ino", "st_mtime_ns", "st_ctime_ns")


def _look(path: str, fields: "attrgetter[sources.Identity]", *, links: bool = False) -> sources.Identity:
    """Fields that `stat` returns for a path; `links`: for the target of a link. Empty if it fails."""
    try:
        return fields(os.stat(path) if links else os.lstat(path))
    except (OSError, ValueError):
        return ()


def _first_missing(path: str) -> str:
    """The first missing part of a missing file's path; or a dangling link in it, whose target may appear elsewhere."""
    above = os.path.dirname(path)
    while not os.path.exists(above) and above != path:
        path, above = above, os.path.dirname(above)
        if os.path.lexists(path):
            break
    return path


# Load the layers:


def load_config(
    cwd: str | os.PathLike[str] | None = None,
    *,
    files: Iterable[str | os.PathLike[str]] | None = None,
    layers: Iterable[Layer] | None = None,
    home: str | os.PathLike[str] | None = None,
    builtins: bool = True,
    trust: "Trust" = "approved",
    env: Mapping[str, str] | None = None,
    host: str = "",
) -> Config:
    """The configuration of a folder. Never raises for the content of a file: mistakes in files are in `problems`.

    `files` are read as the explicit layer; given them and no `layers`, nothing else is read. `home` is the state root.
    `trust`: `approved` runs approved hooks, `all` runs everything this once, `none` runs nothing from a project.
    `host`: the configuration inside that agent (`claude`, or another that reads Claude Code's settings).
    Entries that the agent runs itself have the state `elsewhere`, no hook, and the agent in `why`.
    """
    if trust not in ("approved", "all", "none"):
        raise UsageError(f"unknown value of `trust`: `{trust}`", hint="use one of approved, all, none")
    if isinstance(files, str | os.PathLike):
        raise UsageError("`files` must be a list of paths, not one path", hint="write `files=[...]`")
    named = () if files is None else tuple(os.fspath(file) for file in files)
    wanted: tuple[Layer, ...] = tuple(layers) if layers is not None else LAYERS if files is None else ("explicit",)
    root, env = None if home is None else os.fspath(home), client_env.environ() if env is None else env
    request = _LoadRequest(os.fspath(cwd or ""), named, trust, host, wanted, root, builtins).within(env)
    return _cached(request, env) or _loaded(request, env)


class CallerFormat(msgspec.Struct, frozen=True):
    """A caller that uses an agent's format. Its environment variables show whether it is that agent."""

    name: str
    over_http: bool = False


class _LoadRequest(msgspec.Struct, frozen=True):
    """Everything that determines what is loaded, except for the files: the key of a cached configuration."""

    folder: str
    files: tuple[str, ...]
    trust: "Trust"
    host: str | CallerFormat
    layers: tuple[Layer, ...] = LAYERS
    home: str | None = None
    builtins: bool = True
    here: str = ""
    variables: tuple[str | None, ...] = ()

    def within(self, env: Mapping[str, str]) -> "_LoadRequest":
        """The same with the working directory, and the variables that determine where files and agents are."""
        try:
            here = client_env.getcwd()
        except OSError:
            here = ""
        variables = [*map(client_env.environ().get, _PLACES), *(map(env.get, _AGENT) if self.host else ())]
        return replace(self, here=here, variables=tuple(variables))


_PLACES: Final = ("HOME", "XDG_CONFIG_HOME", "BILLHOOK_HOME")
_AGENT: Final = ("CLAUDE_PROJECT_DIR", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT")
_cache: dict[_LoadRequest, CachedConfig] = {}
_MOST_CACHED: Final = 128


def _cached(request: _LoadRequest, env: Mapping[str, str]) -> "Config | None":
    known = _cache.get(request)
    return known.config if known is not None and known.holds(env) else None


def _loaded(request: _LoadRequest, env: Mapping[str, str]) -> "Config":
    folder = request.folder or request.here
    if not folder:
        raise _missing_cwd()
    loading = _Loading(request, folder, env)
    config = loading.config()
    if len(_cache) >= _MOST_CACHED:
        _cache.clear()
    _cache[request] = CachedConfig(config, folder, loading.found, loading.values.used, loading.approvals)
    return config


def _missing_cwd() -> UsageError:
    return UsageError("the working directory is gone", hint="change to a folder that exists")


Instead = Mapping[str, bytes | None]  # other contents of a project's files, by path; None: the file is missing


def load_instead(
    cwd: str, instead: Instead, files: Iterable[str] = (), *, host: str = "", layers: Iterable[Layer] = LAYERS
) -> Config:
    """The configuration of a folder with other contents of some files, all hooks approved. For verbs that run none of
    them; it is not cached."""
    env = client_env.environ()
    request = _LoadRequest(cwd, tuple(files), "all", host, tuple(layers)).within(env)
    return _Loading(request, existing_folder(cwd), env, instead).config()


def _replaced(found: sources.FoundSources, instead: Instead) -> sources.FoundSources:
    files = [file for file in found.files if instead.get(file.path, b"") is not None]
    known = {file.path for file in found.files}
    new = [path for path, text in instead.items() if text is not None and path not in known]
    files += [sources.SourceFile(path, "project", found.project) for path in new]
    return replace(found, files=tuple(sorted(files, key=lambda file: LAYERS.index(file.layer))))


class _Loading:
    def __init__(
        self, request: _LoadRequest, folder: str, env: Mapping[str, str], instead: Instead | None = None
    ) -> None:
        explicit = [client_env.abspath(file) for file in request.files]
        self.found = sources.find(
            os.path.realpath(folder), files=explicit, layers=request.layers, root=state_root(request.home)
        )
        if instead:
            self.found = _replaced(self.found, instead)
        self.root, self.trust, self.with_builtins = state_root(request.home), request.trust, request.builtins
        self.approvals, self.state = Approvals(self.root), FileState(self.root)
        self.values = Values(env)
        texts = instead or {}
        self.reads = [
            shapes.read_file(file.path, file.layer, file.folder, texts.get(file.path)) for file in self.found.files
        ]
        if self.found.fleet is not None:
            self.reads = self.found.fleet.limited(self.reads, self.found.files)
        host = request.host
        self.in_agent = isinstance(host, CallerFormat) and host.name in EVERY_AGENT
        agent = seen(host.name, env, over_http=host.over_http) if isinstance(host, CallerFormat) else inside(host, env)
        self.agent = confirmed(agent, self.reads)
        # a folder that can't be opened is reported for each file in it
        self.problems = list(dict.fromkeys(finding for read in self.reads for finding in read.findings))

    def config(self) -> Config:
        from billhook.engine.plan import Plan

        declared, off, attempts = layers.switched_off(self.reads)
        settings, more = layers.builtin_settings(self.reads)
        self.problems += [*attempts, *more]
        approvals = self._approvals()
        builtins = Builtins(self.root, self.found.project, settings) if self.with_builtins else None
        present = builtins.names if builtins is not None else frozenset[str]()
        entries = self._entries(declared, off, present) if declared else []
        reads = self._with_consent(entries)
        parallel = layers.parallel(reads)
        if not any(read.parallel is False for read in reads) and sum(bool(one.declared.agent) for one in entries) > 1:
            entries = build.with_waves(entries)
        if parallel and builtins is not None:
            # every hook gets the session's name and turn, so it runs after the trackers
            for place, entry in enumerate(entries):
                before = entry.hook.after if entry.hook is not None else ()
                entries[place] = entry.with_hook(after=tuple(dict.fromkeys([*before, *builtins.trackers])))
        pause = self._pause()
        reviewed = self._reviewed(pause)
        entries = [replace(one, hook=reviewed(one.hook, one.declared)) if one.hook else one for one in entries]
        hooks = [*(entry.hook for entry in entries if entry.hook is not None), *self._denying_hooks(entries)]
        if builtins is not None:
            hooks += [*builtins.hooks(), *self._guards(entries, settings["guard"])]
        known = {id(entry.hook) for entry in entries}
        hooks = [hook if id(hook) in known else reviewed(hook) for hook in hooks]
        return Config(
            project=self.found.project,
            root=str(self.root),
            sources=tuple(self.reads),
            entries=tuple(entries),
            problems=tuple(self.problems),
            hooks=tuple(hooks),
            parallel=parallel,
            builtins=settings,
            plan=Plan(hooks),
            knowing=None if builtins is None else builtins.knowing,
            trust=self.trust,
            host=self.agent.host,
            folder=self.found.folder,
            pause=pause,
            approvals=approvals,
            fleet=self.found.fleet,
        )

    def _approvals(self) -> "ApprovalSettings | None":
        """The settings of `approvals:`, if a file has it."""
        if all(read.approvals is None for read in self.reads):
            return None
        from billhook.config.approver import approvals_of

        settings, findings = approvals_of(self.reads)
        self.problems += findings
        return settings

    def _pause(self) -> "Pause | None":
        """The pause of this project, if its file exists: that was checked with the other files."""
        if not dict(self.found.probed)[sources.pause_file()]:
            return None
        from billhook.config.override import pauses

        return pauses().get(self.found.project)

    def _reviewed(self, pause: "Pause | None") -> "Callable[..., Hook]":
        """Adds the review of objections to hooks that the user can override, in an agent or during a pause."""
        if not self.in_agent and pause is None:
            return lambda hook, declared=None: hook
        return Reviews(self.found.project, self.state, self.in_agent, pause).added

    def _entries(self, declared: list[HookDeclaration], off: list[str], builtins: frozenset[str]) -> list[Entry]:
        consents = trust.consents(declared, self.approvals, self.trust)
        all_of_them = zip(declared, consents, off, strict=True)
        entries = [self._entry(*each) for each in all_of_them if not each[0].ours or each[1].state == "changed"]
        settled, cycles = layers.settle_order(_once(entries), builtins=builtins)
        self.problems += cycles
        return settled

    def _with_consent(self, entries: Sequence[Entry]) -> list[FileRead]:
        """The files whose settings count: a project's file only if one of its hooks is approved."""
        consented = {entry.declared.file for entry in entries if entry.consent.given}
        others = {entry.declared.place for entry in entries if entry.state == "elsewhere"}
        return [
            replace(read, entries=tuple(one for one in read.entries if not one.ours and one.place not in others))
            for read in self.reads
            if not needs_consent(read.source.layer) or read.source.path in consented
        ]

    def _entry(self, declared: HookDeclaration, consent: "Consent", off: str) -> Entry:
        if off and (declared.enabled or not (consent.before is not None and consent.before.gate)):
            return Entry(declared, consent, "off", off)
        if self.agent.host:
            read = next(read for read in self.reads if read.source.path == declared.file)
            if elsewhere := runs_itself(self.agent, declared, read, os.path.realpath(client_env.expanduser("~"))):
                return Entry(declared, consent, "elsewhere", elsewhere)
        if not consent.given and (build.runs(declared.action) or declared.broken or declared.gate or consent.before):
            return _pending(declared, consent)
        if declared.broken:
            return _unusable(declared, consent, "broken", declared.broken, f"it can't be used: {declared.broken}")
        if not build.runs(declared.action):
            return _unusable(declared, consent, "not yet", "billhook does not run hooks of this type")
        return self._running(declared, consent)

    def _running(self, declared: HookDeclaration, consent: "Consent") -> Entry:
        try:
            filled = interpolated(declared, self.values)
            limits = layers.limits(self.reads, declared.layer)
            return Entry(declared, consent, "runs", "", build.build(filled, consent, limits, self.state))
        except UnsetError as unset:
            why = f"the variable `{unset}` is not set"
            hint = f"set it, or give a default: `${{{unset}:-...}}`"
        except Exception as error:  # a matcher or rule that is invalid with the values of its variables
            why = f"after its variables are filled in, it can't be used: {error}"
            hint = "fix the values of the variables"
        self.problems.append(declared.finding("BH214", "action", why, hint))
        return _unusable(declared, consent, "broken", why)

    def _denying_hooks(self, entries: Sequence[Entry]) -> Iterator[Hook]:
        """Hooks that deny in place of files that can't be read, and of gates that are still gates after a change."""
        for entry in entries:
            if entry.state == "changed" and entry.declared.gate and not _judges_the_same(entry):
                yield replace(build.refusal(entry.declared, f"{entry.why} ({entry.declared.place})"), name=entry.shown)
        for read in self.reads:
            if not read.readable or read.mentions_gate:
                yield from self._unreadable(read, entries)
        if self.found.fleet is not None and (why := self.found.fleet.denies):
            place = Source(layer="fleet", file=os.path.join(self.root, *sources.FLEET_RECORD))
            deny, events = StandIn(why), build.GATED
            yield Hook(name="fleet-policy", run=deny, events=events, on_failure="deny", source=place, priority=0)

    def _unreadable(self, read: FileRead, entries: Sequence[Entry]) -> Iterator[Hook]:
        """A file that can't be read blocks the events that a gate in it may have judged, and the events of other gates:
        a user with gates relies on them. A file without any approval has no effect, readable or not."""
        source = read.source
        first = next((one for one in read.findings if one.code in _STRUCTURAL), read.findings[0])
        fix = f"; to fix it: {first.hint}" if first.code == "BH101" else ""
        why = f"{source.path} can't be read: {first.message} ({first.place}){fix}"
        consented = [entry for entry in entries if entry.consent.given and entry.state != "off"]
        if needs_consent(source.layer):
            known = [] if self.trust == "none" or read.readable else self.approvals.of_file(source.path)
            replaced = {one.replaces for one in known}
            blank = HookDeclaration(name="", layer=source.layer, file=source.path, line=first.line)
            yield from (build.refusal_of(one, blank, why) for one in known if one.gate and one.hash not in replaced)
            consented = [entry for entry in consented if needs_consent(entry.declared.layer)]
        events = {event for entry in consented if entry.declared.gate for event in entry.declared.events or build.GATED}
        if read.mentions_gate and (consented or not needs_consent(source.layer)):
            events |= set(build.GATED)
        if events:
            place = Source(layer=source.layer, file=source.path, line=first.line)
            listed, name = tuple(sorted(events)), "unreadable-file"
            yield Hook(name=name, run=StandIn(why), events=listed, on_failure="deny", source=place, priority=0)

    def _guards(self, entries: Sequence[Entry], said: sources.Builtin) -> Iterator[Hook]:
        """The guard, and its cells in shadow mode."""
        from billhook.builtins.guard import guard, shadow_cells
        from billhook.config.builtin_hooks import guard_settings

        taken = any(entry.shown == "guard" for entry in entries)
        hook = guard(protected(self.found, self.root, entries, self.approvals), guard_settings(said, self.reads))
        yield replace(hook, name="built-in/guard") if taken else hook
        yield from shadow_cells(hook)


def _judges_the_same(entry: Entry) -> bool:
    """Whether a changed gate still runs for the same events: then one stand-in is enough."""
    before, now = entry.consent.before, trust.definition(entry.declared)
    assert before is not None
    keys = ("events", "match", *CONDITION_KEYS, "dialect")
    return before.gate and all(now.get(key) == before.definition.get(key) for key in keys)


_STRUCTURAL = frozenset({"BH101", "BH102", "BH103", "BH104", "BH106", "BH202", "BH203"})


def _unusable(declared: HookDeclaration, consent: "Consent", state: "State", why: str, told: str = "") -> Entry:
    hook = build.refusal(declared, f"{told or why} ({declared.place})") if declared.gate else None
    return Entry(declared, consent, state, why, hook)


def _pending(declared: HookDeclaration, consent: "Consent") -> Entry:
    hook: Hook | None = None  # a hook that is broken and not approved has nothing to show
    before, state, why = consent.before, consent.state, "not approved; `billhook trust` shows it"
    if before is not None:
        why = f"{trust.what_changed(declared, consent)} changed since it was approved; `billhook trust` shows how"
    if before is not None and before.gate:
        hook = build.refusal_of(before, declared, f"{why} ({declared.place})")
    elif not declared.broken:
        hook = build.absence(declared, why)
    return Entry(declared, consent, cast("State", state), why, hook)


def _once(entries: Iterable[Entry]) -> list[Entry]:
    """The same hook from several layers runs once, with the strictest failure rule among those that may run. So does
    the same hook of one layer, if the agent whose settings these are would run it once."""
    kept: list[Entry] = []
    places: dict[object, int] = {}
    for entry in entries:
        if entry.state != "runs":
            kept.append(entry)
            continue
        at = places.setdefault(layers.what(entry.declared), len(kept))
        if at == len(kept) or _both_run(kept[at].declared, entry.declared):
            kept.append(entry)
            continue
        first = kept[at].declared
        strict = layers.stricter(first, entry.declared)
        kept[at] = replace(kept[at].with_hook(on_failure=strict.on_failure), declared=strict)
        why = f"the same hook is in {first.place} ({first.layer})"
        kept.append(replace(entry, state="same", why=why, hook=None))
    return kept


def _both_run(first: HookDeclaration, same: HookDeclaration) -> bool:
    agent = AGENTS.get(same.agent)
    once = agent is not None and agent.equal_once and first.agent == same.agent
    return first.layer == same.layer and not once


def load(
    cwd: str | os.PathLike[str] | None = None,
    *,
    files: Iterable[str | os.PathLike[str]] | None = None,
    layers: Iterable[Layer] | None = None,
    home: str | os.PathLike[str] | None = None,
    builtins: bool = True,
    trust: "Trust" = "approved",
    hooks: Iterable[Hook] = (),
) -> "Engine":
    """An engine with the hooks that are configured for a folder (see `load_config`), and the caller's own `hooks`."""
    config = load_config(cwd, files=files, layers=layers, home=home, builtins=builtins, trust=trust)
    return config.engine(hooks=hooks)


# The configured hooks for verbs that run them.


class NotLoadedError(Exception):
    """The files of a folder must be read first, which may take long."""


def load_for_cwd(
    cwd: str,
    files: Iterable[str] = (),
    trust: "Trust" = "approved",
    *,
    host: str | CallerFormat = "",
    read_files: bool = True,
) -> "Config":
    """The configuration of a folder, with the files of --config as one more layer. `host`: inside that agent, see
    `load_config`. Without `read_files` raises NotLoadedError, unless the configuration is cached."""
    env = client_env.environ()
    request = _LoadRequest(cwd, tuple(files), trust, host).within(env)
    known = _cached(request, env)
    if known is not None:
        return known
    if not read_files:
        raise NotLoadedError(cwd)
    folder = existing_folder(cwd)
    if folder == cwd:
        return _loaded(request, env)
    request = replace(request, folder=folder)
    return _cached(request, env) or _loaded(request, env)


def existing_folder(folder: str) -> str:
    """A folder, or the nearest existing one above it: an agent that removed its working directory still works in its
    project. If no folder of the path exists: the working directory."""
    try:
        given = folder = client_env.abspath(folder or ".")
    except FileNotFoundError:
        raise _missing_cwd() from None
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    if folder != given and os.path.dirname(folder) == folder:
        try:
            return client_env.getcwd()
        except OSError:
            return folder
    return folder


def doubts(config: "Config") -> list[str]:
    """Why approvals can't be read, for files with pending hooks: a lost approval may have been that of a gate."""
    approvals = Approvals(Path(config.root))
    for file in dict.fromkeys(entry.declared.file for entry in config.pending):
        approvals.of_file(file)
    return approvals.problems
