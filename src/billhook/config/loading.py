"""Load the layers: every file that applies here, what each declares, what may run, and an engine of it.

Loading is a snapshot. What changes on disk takes effect at the next load; only the contents of approved scripts are
looked at before each call.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from billhook import caller
from billhook.config import merging, sources
from billhook.config.builtin import Builtins, speaking_last
from billhook.config.declared import LAYERS, Declared, Layer, needs_consent
from billhook.config.fileread import FileRead
from billhook.config.findings import Finding
from billhook.config.inside import Inside, believed, inside, runs_itself
from billhook.config.interpolate import UnsetError, Values, interpolated
from billhook.config.kept import Kept
from billhook.config.loaded import Config, Entry
from billhook.errors import UsageError
from billhook.hook import Hook, Source
from billhook.later import later
from billhook.store.approvals import Approvals
from billhook.store.files import state_root

if TYPE_CHECKING:
    from billhook.config import building, shapes
    from billhook.config.consent import Consent, Trust
    from billhook.config.loaded import State
    from billhook.engine import Engine
else:
    building, shapes = later("billhook.config.building"), later("billhook.config.shapes")


def load_config(
    cwd: str | os.PathLike[str] | None = None,
    *,
    files: Iterable[str | os.PathLike[str]] | None = None,
    layers: Iterable[Layer] | None = None,
    home: str | os.PathLike[str] | None = None,
    builtins: bool = True,
    trust: "Trust" = "approved",
    env: Mapping[str, str] | None = None,
    host: str | Inside = "",
) -> Config:
    """What applies in a folder. Never raises for what is in a file: that is in `problems`.

    `files` are read as the explicit layer; given them and no `layers`, nothing else is read. `home` is the state root.
    `trust`: `approved` runs what was approved, `all` everything this once, `none` nothing that came with a project.
    `host`: what applies inside that agent (`claude`, or another that reads Claude Code's settings).
    Entries that it runs itself have the state `elsewhere`, no hook, and in `why` who runs them.
    """
    if trust not in ("approved", "all", "none"):
        raise UsageError(f"trust is `{trust}`", hint="one of approved, all, none")
    if isinstance(files, str | os.PathLike):
        raise UsageError("`files` is one file", hint="give a list of them: `files=[...]`")
    return load_kept(cwd, files, layers, home, builtins, trust, env, host).config


def load_kept(
    cwd: str | os.PathLike[str] | None,
    files: Iterable[str | os.PathLike[str]] | None,
    layers: Iterable[Layer] | None,
    home: str | os.PathLike[str] | None = None,
    builtins: bool = True,
    trust: "Trust" = "approved",
    env: Mapping[str, str] | None = None,
    host: "str | Inside" = "",
) -> Kept:
    """The same, with what tells for how long it is true."""
    explicit = () if files is None else tuple(caller.abspath(os.fspath(file)) for file in files)
    wanted: tuple[Layer, ...] = tuple(layers) if layers is not None else LAYERS if files is None else ("explicit",)
    env = caller.environ() if env is None else env
    root, folder = state_root(home), os.fspath(cwd or _here())
    agent = inside(host, env) if host else _NOBODY
    key = (folder, explicit, wanted, root, builtins, trust, sources.homes(), agent)
    kept = _kept.get(key)
    if kept is not None and kept.holds(env):
        return kept
    found = sources.find(os.path.realpath(folder), files=explicit, layers=wanted)
    loading = _Loading(found, root, builtins=builtins, trust=trust, env=env, agent=agent)
    config = loading.config()
    if len(_kept) >= _KEEP_AT_MOST:
        _kept.clear()
    kept = _kept[key] = Kept(config, folder, found, loading.values.used, loading.approvals)
    return kept


def _here() -> str:
    try:
        return caller.getcwd()
    except OSError:
        raise UsageError("the working directory is gone", hint="change to a folder that exists") from None


_kept: dict[object, Kept] = {}
_NOBODY = Inside()
_KEEP_AT_MOST = 64


class _Loading:
    """One load."""

    def __init__(
        self, found: sources.Found, root: Path, *, builtins: bool, trust: "Trust", env: Mapping[str, str], agent: Inside
    ) -> None:
        self.found, self.root, self.trust, self.with_builtins = found, root, trust, builtins
        self.approvals = Approvals(root)
        self.values = Values(env)
        self.reads = [shapes.read_file(file.path, file.layer, file.folder) for file in found.files]
        self.agent = believed(agent, self.reads)
        # one folder that can't be opened may hide several files
        self.problems = list(dict.fromkeys(finding for read in self.reads for finding in read.findings))

    def config(self) -> Config:
        from billhook.plan import Plan

        declared, off, attempts = merging.switched_off(self.reads)
        settings, more = merging.builtin_settings(self.reads)
        self.problems += [*attempts, *more]
        builtins = Builtins(self.root, self.found.project, settings) if self.with_builtins else None
        present = builtins.names if builtins is not None else frozenset[str]()
        entries = self._entries(declared, off, present) if declared else []
        parallel = merging.parallel(self._with_consent(entries))
        if parallel and builtins is not None:
            entries = [_after(entry, builtins.trackers) for entry in entries]
        hooks = [*(entry.hook for entry in entries if entry.hook is not None), *self._stand_ins(entries)]
        if builtins is not None:
            hooks += [*builtins.hooks(), self._self_protection(entries)]
        if parallel and builtins is not None:
            hooks = speaking_last(hooks)
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
        )

    def _entries(self, declared: list[Declared], off: list[str], builtins: frozenset[str]) -> list[Entry]:
        from billhook.config.consent import consents
        from billhook.config.dependencies import settle_order

        all_of_them = zip(declared, consents(declared, self.approvals, self.trust), off, strict=True)
        entries = [self._entry(*each) for each in all_of_them if not each[0].ours or each[1].standing == "changed"]
        settled, cycles = settle_order(_once(entries), builtins=builtins)
        self.problems += cycles
        return settled

    def _with_consent(self, entries: Sequence[Entry]) -> list[FileRead]:
        """The files that have a say in how hooks run: not those of which nobody approved anything."""
        heard = {entry.declared.file for entry in entries if entry.consent.given}
        others = {entry.declared.place for entry in entries if entry.state == "elsewhere"}
        return [
            msgspec.structs.replace(
                read, entries=tuple(one for one in read.entries if not one.ours and one.place not in others)
            )
            for read in self.reads
            if not needs_consent(read.source.layer) or read.source.path in heard
        ]

    def _entry(self, declared: Declared, consent: "Consent", off: str) -> Entry:
        if off and (declared.enabled or not (consent.before is not None and consent.before.gate)):
            return Entry(declared, consent, "off", off)
        if self.agent.host and (elsewhere := self._elsewhere(declared)):
            return Entry(declared, consent, "elsewhere", elsewhere)
        if not consent.given:
            return _pending(declared, consent)
        if declared.broken:
            return _unusable(declared, consent, "broken", declared.broken, f"it can't be used: {declared.broken}")
        if not building.runs(declared.action):
            return _unusable(declared, consent, "not yet", "hooks of this kind are not run yet")
        return self._running(declared, consent)

    def _elsewhere(self, declared: Declared) -> str:
        read = next(read for read in self.reads if read.source.path == declared.file)
        return runs_itself(self.agent, declared, read, os.path.realpath(caller.expanduser("~")))

    def _running(self, declared: Declared, consent: "Consent") -> Entry:
        try:
            filled = interpolated(declared, self.values)
            limits = merging.limits(self.reads, declared.layer)
            return Entry(declared, consent, "runs", "", building.build(filled, consent, limits))
        except UnsetError as unset:
            why = f"the variable `{unset}` is not set"
            hint = f"set it, or give a default: `${{{unset}:-...}}`"
        except Exception as error:  # a matcher or rule that only now can be seen to be none
            why = f"with its variables put in it can't be used: {error}"
            hint = "mend what the variables hold"
        line, column = declared.places.get("action", (declared.line, declared.column))
        self.problems.append(Finding("BH214", why, declared.file, line, column, hint, declared.name))
        return _unusable(declared, consent, "broken", why)

    def _stand_ins(self, entries: Sequence[Entry]) -> Iterator[Hook]:
        """For what is not an entry: files that can't be read, and gates that are still gates after they changed."""
        for entry in entries:
            if entry.state == "changed" and entry.declared.gate and not _judges_the_same(entry):
                stand_in = building.refusal(entry.declared, f"{entry.why} ({entry.declared.place})")
                yield msgspec.structs.replace(stand_in, name=entry.shown)
        for read in self.reads:
            if not read.readable or read.says_gate:
                yield from self._unreadable(read, entries)

    def _unreadable(self, read: FileRead, entries: Sequence[Entry]) -> Iterator[Hook]:
        """A file that can't be read holds up what a gate in it may have judged, and what other gates judge: whoever has
        one wants to be asked. What nobody consented to has no effect, readable or not."""
        source = read.source
        first = next((one for one in read.findings if one.code in _STRUCTURAL), read.findings[0])
        fix = f"; to fix it: {first.hint}" if first.code == "BH101" else ""
        why = f"{source.path} can't be read: {first.message} ({first.place}){fix}"
        consented = [entry for entry in entries if entry.consent.given and entry.state != "off"]
        if needs_consent(source.layer):
            known = [] if self.trust == "none" or read.readable else self.approvals.of_file(source.path)
            replaced = {one.replaces for one in known}
            blank = Declared(name="", layer=source.layer, file=source.path, line=first.line)
            yield from (building.refusal_of(one, blank, why) for one in known if one.gate and one.hash not in replaced)
            consented = [entry for entry in consented if needs_consent(entry.declared.layer)]
        events = {
            event for entry in consented if entry.declared.gate for event in entry.declared.events or building.GATED
        }
        if read.says_gate and (consented or not needs_consent(source.layer)):
            events |= set(building.GATED)
        if events:
            place = Source(layer=source.layer, file=source.path, line=first.line)
            yield building.blockade(place, tuple(sorted(events)), why)

    def _self_protection(self, entries: Sequence[Entry]) -> Hook:
        from billhook.builtins.self_protection import self_protection
        from billhook.config.protecting import protected

        return self_protection(protected(self.found, self.root, entries, self.approvals))


def _after(entry: Entry, trackers: tuple[str, ...]) -> Entry:
    """Hooks that run at once run after those that know the session's name and turn: every hook is told them."""
    if entry.hook is None:
        return entry
    after = tuple(dict.fromkeys([*entry.hook.after, *trackers]))
    return msgspec.structs.replace(entry, hook=msgspec.structs.replace(entry.hook, after=after))


def _judges_the_same(entry: Entry) -> bool:
    """Whether a changed gate is asked about the same as before: then one stand-in is enough."""
    before = entry.consent.before
    assert before is not None
    from billhook.config.fingerprint import definition

    now = definition(entry.declared)
    return before.gate and all(now[key] == before.definition.get(key) for key in ("events", "match", "if", "dialect"))


_STRUCTURAL = frozenset({"BH101", "BH102", "BH103", "BH104", "BH106", "BH202", "BH203"})


def _unusable(declared: Declared, consent: "Consent", state: "State", why: str, told: str = "") -> Entry:
    hook = building.refusal(declared, f"{told or why} ({declared.place})") if declared.gate else None
    return Entry(declared, consent, state, why, hook)


def _pending(declared: Declared, consent: "Consent") -> Entry:
    hook: Hook | None = None  # a broken hook that may not run either has nothing to show
    before, state, why = consent.before, consent.standing, "not approved; `billhook trust` shows it"
    if before is not None:
        from billhook.config.consent import what_changed

        why = f"{what_changed(declared, consent)} changed since it was approved; `billhook trust` shows how"
    if before is not None and before.gate:
        hook = building.refusal_of(before, declared, f"{why} ({declared.place})")
    elif not declared.broken:
        hook = building.absence(declared, why)
    return Entry(declared, consent, cast("State", state), why, hook)


def _once(entries: Iterable[Entry]) -> list[Entry]:
    """The same hook from several layers runs once, with the strictest failure rule among those that may run."""
    kept: list[Entry] = []
    places: dict[object, int] = {}
    for entry in entries:
        if entry.state != "runs":
            kept.append(entry)
            continue
        at = places.setdefault(merging.what(entry.declared), len(kept))
        if at == len(kept) or kept[at].declared.layer == entry.declared.layer:
            kept.append(entry)
            continue
        first = kept[at]
        assert first.hook is not None
        strict = merging.stricter(first.declared, entry.declared)
        kept[at] = msgspec.structs.replace(
            first, declared=strict, hook=msgspec.structs.replace(first.hook, on_failure=strict.on_failure)
        )
        why = f"the same hook is already there: {first.declared.layer} {first.declared.place}"
        kept.append(msgspec.structs.replace(entry, state="same", why=why, hook=None))
    return kept


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
