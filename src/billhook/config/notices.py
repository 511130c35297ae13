"""Notices for the user beside a verdict. Gates and files that are gone are reported until the user acknowledges it.

The hooks in force are remembered by the folder that their file belongs to, and under `user` for files that belong to no
project. A file of the user is reported only if the whole file is gone, because its owner may edit it freely. For a
project's file, each approved gate is reported, and all approved hooks if the file is gone. If `HOME` is not the
account's home folder, the record in the account's home folder is read, too.
"""

import functools
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from billhook.agents import AGENTS, dialect_of
from billhook.config.config import Config, Entry, HookRow, as_data
from billhook.config.declaration import HookDeclaration, conditions_in_words, needs_consent
from billhook.config.sources import adopting_command, is_claudes, shown_path
from billhook.core import client_env
from billhook.core.answers import Verdict
from billhook.core.events import Event
from billhook.core.text import age, counted
from billhook.store.files import StoreError, sha256
from billhook.store.state import FileState, Value

if TYPE_CHECKING:
    from billhook.store.approvals import Approval


GATES_KIND: Final = "gates"
USER: Final = "user"
_IN_FORCE: Final = ("runs", "broken", "not yet", "same", "changed")
"""States in which a gate judges events, or a refusal denies them in its place."""


class MissingGates(msgspec.Struct, frozen=True):
    """Gates of one file that no longer apply; all hooks of the file if the whole file is gone."""

    key: str
    file: str
    gates: tuple[str, ...]
    what: str = "hook"

    @property
    def why(self) -> str:
        if self.key != USER:
            return "removed or not on this branch"
        return "HOME or XDG_CONFIG_HOME has changed" if os.path.lexists(self.file) else "the file is gone"


class _GatesFound(msgspec.Struct, frozen=True):
    """By file: its gates in force, and all of its hooks that may run."""

    gates: dict[str, list[str]]
    hooks: dict[str, list[str]]


def remember(config: Config) -> None:
    """Store which hooks are in force now. Writes only if something is new. Raises StoreError."""
    state = FileState(Path(config.root))
    for key, found in _in_force(config).items():
        merged = functools.partial(_merged, found=found, whole=key == USER)
        if merged(state.read(GATES_KIND, key)) is not None:
            state.update(GATES_KIND, key, merged)


def missing(config: Config) -> list[MissingGates]:
    """Gates and files that were in force here and no longer are. Raises StoreError."""
    state = FileState(Path(config.root))
    mine = state.read(GATES_KIND, USER)
    present = {read.source.path for read in config.sources} | set(_strings(mine, "acknowledged"))
    known = {one.file: one for one in (*_missing_files(USER, _accounts(config)), *_missing_files(USER, mine))}
    found = [one for file, one in known.items() if file not in present]
    here = config.folder or config.project
    for folder in (here, *map(str, Path(here).parents)):
        found += _missing_in(config, folder, state.read(GATES_KIND, folder))
    return found


def _missing_files(key: str, record: Value | None) -> Iterator[MissingGates]:
    gates = _names(record, "files")
    for file, hooks in {**gates, **_names(record, "hooks")}.items():
        of_file = gates.get(file, [])
        names = tuple(dict.fromkeys([*of_file, *hooks]))
        yield MissingGates(key, file, names, "gate" if len(of_file) == len(names) else "hook")


def acknowledge(config: Config, gone: Iterable[MissingGates]) -> None:
    """Forget gates that are gone. They are remembered again when they come back. Raises StoreError."""
    state = FileState(Path(config.root))
    for one in gone:
        state.update(GATES_KIND, one.key, functools.partial(_without, gone=one))


def _in_force(config: Config) -> dict[str, _GatesFound]:
    found: dict[str, _GatesFound] = defaultdict(lambda: _GatesFound({}, {}))
    for read in config.sources:
        if read.source.layer in ("managed", "user") and read.readable:
            entries = [one for one in read.entries if not one.ours]
            found[USER].gates[read.source.path] = [one.name for one in entries if one.gate]
            found[USER].hooks[read.source.path] = [one.name for one in entries if one.enabled and not one.broken]
    for entry in config.entries:
        declared = entry.declared
        if needs_consent(declared.layer) and entry.consent.given and not declared.ours:
            found[declared.folder].hooks.setdefault(declared.file, []).append(declared.name)
        if needs_consent(declared.layer) and _guards(entry):
            found[declared.folder].gates.setdefault(declared.file, []).append(declared.name)
    return found


def _guards(entry: Entry) -> bool:
    before = entry.consent.before
    given = entry.consent.given or (before is not None and before.gate)
    return given and entry.declared.gate and entry.state in _IN_FORCE


def _merged(before: Value | None, found: _GatesFound, *, whole: bool) -> Value | None:
    """The record, with the found gates added; None if nothing changes. Only an acknowledgement removes a gate of a
    project. The gates of a user's file (`whole`) are replaced by those that it has now."""
    files, hooks, known = _names(before, "files"), _names(before, "hooks"), _strings(before, "acknowledged")
    gates = {
        file: sorted({*names, *(() if whole else files.get(file, ()))})
        for file, names in {**files, **found.gates}.items()
    }
    after = {
        "files": {file: names for file, names in gates.items() if names},
        "hooks": {file: sorted(set(names)) for file, names in {**hooks, **found.hooks}.items() if names},
        "acknowledged": [file for file in known if file not in found.gates],
    }
    return None if after == {"files": files, "hooks": hooks, "acknowledged": known} else after


def _missing_in(config: Config, folder: str, record: Value | None) -> Iterator[MissingGates]:
    reads = {read.source.path: read for read in config.sources}
    elsewhere = {entry.declared.name for entry in config.entries if entry.consent.given or _guards(entry)}
    gates = _names(record, "files")
    for one in _missing_files(folder, record):
        exists = os.path.lexists(one.file)
        if (one.file in reads and not reads[one.file].readable) or (one.file not in reads and exists):
            continue  # an unreadable file denies by itself; the other one belongs to another project now
        here = {entry.declared.name for entry in config.entries if entry.declared.file == one.file}
        known = gates.get(one.file, ()) if exists else one.gates
        gone = tuple(name for name in known if name not in here | elsewhere)
        if gone:
            yield replace(one, gates=gone, what="gate" if set(gone) <= set(gates.get(one.file, ())) else "hook")


def _without(before: Value | None, gone: MissingGates) -> Value:
    left: dict[str, dict[str, list[str]]] = {}
    for field in ("files", "hooks"):
        files = _names(before, field)
        names = [name for name in files.pop(gone.file, ()) if name not in gone.gates]
        left[field] = {**files, gone.file: names} if names else files
    known = {*_strings(before, "acknowledged"), gone.file} if gone.key == USER else ()
    return {**left, "acknowledged": sorted(known)}


def _accounts(config: Config) -> Value | None:
    """The record in the account's home folder, if `HOME` is another folder and BILLHOOK_HOME is not set."""
    environ = client_env.environ()
    own = "" if environ.get("BILLHOOK_HOME") else _account_home()
    if own in ("", environ.get("HOME")):
        return None
    try:
        return FileState(Path(own, ".claude")).read(GATES_KIND, USER)
    except StoreError:  # not ours to read
        return None


def _account_home() -> str:
    """The home of the account in /etc/passwd. The `pwd` module would connect to name servers, which may hang."""
    uid = str(os.geteuid())
    try:
        lines = Path("/etc/passwd").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((found[5] for found in (line.split(":") for line in lines) if found[2:3] == [uid] and found[5:]), "")


def _names(record: Value | None, field: str) -> dict[str, list[str]]:
    files = (record or {}).get(field)
    found = {file: names for file, names in files.items() if isinstance(names, list)} if isinstance(files, dict) else {}
    return {file: _strings(found, file) for file in found}


def _strings(record: Value | None, field: str) -> list[str]:
    found = (record or {}).get(field)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


# Notices that the agent shows beside a verdict:


KIND: Final = "notices"
_NAMED: Final = 5  # hooks that a notice names; the others are counted
_LONGEST: Final = 300  # characters of a reason
_LONGEST_NAME: Final = 60
_MOST_SHOWN: Final = 500
_MOST_SESSIONS: Final = 1024
_RECENT: Final = 3600.0
"""For this many seconds an approval is announced in every session; later only if no session has shown it."""
_MOST_WAITING: Final = 16
_TOLD_OTHERWISE: Final = {"library": frozenset({"open"}), "fire": frozenset({"open", "pending", "gone", "approved"})}
"""What the caller of an engine shows by itself. Loops and adapters show failures and pending hooks."""


class Notice(msgspec.Struct, frozen=True):
    """One fact."""

    keys: tuple[str, ...]  # identify the fact: a notice with the same keys is shown once per session
    text: str


class Notices:
    """The notices of one loaded configuration for one host. Lives as long as its engine."""

    def __init__(self, config: "Config", host: str) -> None:
        assert config.knowing is not None
        self.config, self._state = config, config.knowing.state
        self.host = dialect_of(host).removeprefix("http:")
        self._shown: dict[str, set[str]] = {}  # by session: the keys of the notices that it was shown
        self._waiting: dict[str, list[Notice]] = {}  # by session: notices that wait for an event that can show them
        self.notified: set[str] = set()  # sessions that need no notice until a hook fails
        self._remembered = False

    def __call__(self, verdict: Verdict) -> tuple[str, ...]:
        """The notices to show with this verdict."""
        session = verdict.about.session_id
        self.notified.discard(session)
        try:
            due = tuple(map(_notice_line, self._due(session, verdict)))
        except Exception as error:  # no verdict fails because of a notice
            return (_notice_line(_unshown(error)),)
        if self.config.pause is not None:
            return (*due, *self._paused(verdict.about))
        if session not in self._waiting:
            self.notified.add(session)
        return due

    def _paused(self, event: Event) -> Iterator[str]:
        """Shown at every event: a pause must not be forgotten."""
        pause = self.config.pause
        if pause is not None and pause.active and self._can_show(event):
            yield f"{pause}. To end it: billhook resume"

    def unjudged(self, event: Event, why: str) -> str:
        """The notice that an event continued without being judged; empty if the user was told before."""
        if not self._can_show(event):
            return ""
        session = event.session_id
        self._look_up(session)
        sentence = why if why.endswith(("?", ".")) else f"{why}."
        notice = Notice((f"unjudged {why}",), f"{sentence} The {event.hook_event_name} event was not judged.")
        known = self._shown[session]
        new = [] if known.issuperset(notice.keys) else self._claim(session, known, [notice])
        return _notice_line(notice) if new else ""

    def _due(self, session: str, verdict: Verdict) -> list[Notice]:
        if not self._remembered and "gone" not in self._reported_elsewhere:
            self._remembered = True
            with suppress(StoreError):  # state that can't be written is reported by the log
                remember(self.config)
        facts = self._waiting.pop(session, [])
        if session not in self._shown:
            facts += self._look_up(session)
            facts += self._current(session)
        if verdict.failed_open and "open" not in self._reported_elsewhere:
            facts += failed_open(verdict)
        known = self._shown[session]
        new = list({one.keys: one for one in facts if not known.issuperset(one.keys)}.values())
        if new and not self._can_show(verdict.about):
            self._wait(session, new)
            return []
        return self._claim(session, known, new) if new else []

    # -- notices that were shown

    def _look_up(self, session: str) -> list[Notice]:
        if len(self._shown) >= _MOST_SESSIONS:
            self._shown.clear()
            self._waiting.clear()
            self.notified.clear()
        record = self._read(session) if session else None
        self._shown[session] = set(_strings(record, "shown"))
        return _texts(record)

    def _claim(self, session: str, known: set[str], new: list[Notice]) -> list[Notice]:
        """Mark notices as shown. Returns those that no other process has shown in the meantime."""
        keys = [key for one in new for key in one.keys]
        known.update(keys)
        before: set[str] = set()

        def change(record: "Value | None") -> "Value":
            shown = _strings(record, "shown")
            before.update(shown)
            return {"shown": [*shown, *(key for key in keys if key not in before)][-_MOST_SHOWN:]}

        if session:
            self._update(session, change)
        return [one for one in new if not before.issuperset(one.keys)]

    def _wait(self, session: str, new: list[Notice]) -> None:
        """Keep notices for a later event. Failures are also stored, because another process may handle that event."""
        self._waiting[session] = new
        failed = [[*one.keys, one.text] for one in new if one.keys[0].startswith("open ")]
        shows = self.host in AGENTS and any(row.message for row in AGENTS[self.host].capabilities.values())
        if not session or not failed or not shows:
            return

        def change(record: "Value | None") -> "Value":
            before = [[*one.keys, one.text] for one in _texts(record)]
            waiting = [*before, *(one for one in failed if one not in before)][-_MOST_WAITING:]
            return {"shown": _strings(record, "shown"), "waiting": waiting}

        self._update(session, change)

    def _update(self, key: str, change: "Callable[[Value | None], Value]") -> None:
        with suppress(StoreError):  # showing a notice twice is better than never
            self._state.update(KIND, key, change)

    def _read(self, key: str) -> "Value | None":
        with suppress(StoreError):
            return self._state.read(KIND, key)
        return None

    # -- what the host can show

    @property
    def _reported_elsewhere(self) -> Collection[str]:
        return () if self.host in AGENTS else _TOLD_OTHERWISE.get(self.host, ("open", "pending"))

    def _can_show(self, event: Event) -> bool:
        from billhook import agents
        from billhook.agents.base import can

        if self.host not in AGENTS:
            return self.host not in agents.DIALECTS
        row = getattr(agents.dialect(self.host), "row", None)
        return bool(can(self.host, event.hook_event_name).message if row is None else row(event).message)

    # -- the facts

    def _current(self, session: str) -> Iterator[Notice]:
        told = self._reported_elsewhere
        if "pending" not in told:
            yield from _readable(pending(self.config, self.host))
            yield from _readable(problems(self.config))
        yield from _readable(fleet(self.config))
        if "gone" not in told:
            missing = _readable(missing_gates(self.config))
            self._forget(session, {key for one in missing for key in one.keys})
            yield from missing
        if "approved" not in told:
            yield from _readable(self._approvals(self._shown[session]))

    def _forget(self, session: str, missing: Collection[str]) -> None:
        """Forget notices about gates that are back, so that they are reported if they disappear again."""
        back = {key for key in self._shown[session] if key.startswith("gone ")}.difference(missing)

        def change(record: "Value | None") -> "Value":
            return {**(record or {}), "shown": [key for key in _strings(record, "shown") if key not in back]}

        if back:
            self._shown[session] -= back
            self._update(session, change)

    def _approvals(self, known: Collection[str]) -> Iterator[Notice]:
        """Recent approvals, and approvals that no session has announced: the user notices those of another person."""
        from billhook.store.approvals import Approvals

        approvals, scope = Approvals(Path(self.config.root)), f"project {self.config.project}"
        files = {read.source.path for read in self.config.sources if needs_consent(read.source.layer)}
        listed = {
            f"approved {hash_} {when}": (file, hash_)
            for file in files
            for hash_, when in approvals.listed(file).items()
        }
        told = _strings(self._read(scope), "shown") if listed else []
        due: dict[str, Approval] = {}
        for key, (file, hash_) in listed.items():
            recent = time.time() - int(key.rpartition(" ")[2]) / 1e9 < _RECENT
            record = approvals.get(file, hash_) if key not in known and (recent or key not in told) else None
            if record is not None:
                due[key] = record
        if sorted(told) != sorted(listed):
            self._update(scope, lambda before: {"shown": sorted(listed)})
        if due:
            yield Notice(tuple(due), _approved(list(due.values()), max(int(key.rpartition(" ")[2]) for key in due)))


def _readable(facts: Iterator[Notice]) -> list[Notice]:
    """The facts of one kind. An error becomes a notice and does not hide the other kinds."""
    found: list[Notice] = []
    try:
        for one in facts:
            found.append(one)  # one by one, to keep those before an error
    except Exception as error:
        found.append(_unshown(error))
    return found


def _unshown(error: Exception) -> Notice:
    why = f"{type(error).__name__}: {error}"
    return Notice((f"unshown {why}",), f"can't show notices: {why}")


def _notice_line(notice: Notice) -> str:
    """The text to show. Names and reasons come from files and hooks, so secrets, line breaks, control and
    bidirectional characters are replaced."""
    from billhook.store.redaction import Redactor

    text = " ".join(Redactor().text(notice.text).split())
    visible = (char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return f"billhook: {''.join(visible)}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."


_PENDING: Final = (
    ("new", False, "is not approved and did not run"),
    ("changed", False, "has changed since approval and did not run"),
    ("changed", True, "has changed since approval and blocks what it checks"),
)
"""State, whether a gate was approved, and what that means."""


def _is_gate(entry: "Entry") -> bool:
    return entry.consent.before is not None and entry.consent.before.gate


def _plural(text: str) -> str:
    for one, several in (("is", "are"), ("has", "have"), ("blocks", "block"), ("it checks", "they check")):
        text = re.sub(rf"\b{one}\b", several, text)
    return text


def pending(config: "Config", host: str) -> Iterator[Notice]:
    """Hooks that are not approved, or changed since approval, except for those that the agent runs itself."""
    ours = [entry for entry in config.pending if not is_claudes(entry.declared, host)]
    for state, gates, what in _PENDING:
        entries = [entry for entry in ours if entry.state == state and _is_gate(entry) is gates]
        if not entries:
            continue
        files = {shown_path(entry.declared.file, config.project) for entry in entries}
        where = f" in {files.pop()}" if len(files) == 1 else ""
        are, them = counted(len(entries), "hook"), "it" if len(entries) == 1 else "them"
        names = listed_names([_short(entry.shown) for entry in entries])
        text = f"{are}{where} {_plural(what) if them == 'them' else what}: {names}."
        from billhook.config.trust import definition  # not needed if every hook is approved

        # A hook is identified by its definition. The files that it names are not read: it is not approved.
        facts = [repr((entry.shown, definition(entry.declared))) for entry in entries]
        keys = tuple(f"{state} {sha256(one.encode('utf-8', 'surrogatepass')).hexdigest()}" for one in facts)
        yield Notice(keys, f"{text} Review {them}: billhook trust")


def notes(config: "Config", host: str = "") -> list[str]:
    """For verbs and adapters, one line each: hooks that are not approved or have changed, hooks that Claude Code
    runs itself, problems in the files, and approvals that are ignored."""
    from billhook.config.loader import doubts

    found = [one.text for one in pending(config, host)]
    found += _run_by_claude([one.declared for one in config.pending if is_claudes(one.declared, host)])
    found += [one.text for one in problems(config)]
    return found + [f"ignoring invalid approvals: {why}" for why in doubts(config)[:1]]


def _run_by_claude(hooks: "Sequence[HookDeclaration]") -> Iterator[str]:
    if not hooks:
        return
    them = "it" if len(hooks) == 1 else "them"
    moving = dict.fromkeys(filter(None, map(adopting_command, hooks)))
    moves = f" (`{'`, `'.join(moving)}` moves {them} to billhook)" if moving else ""
    why = f"because Claude Code runs {them} itself"
    yield f"{counted(len(hooks), 'hook')} in Claude Code's settings did not run here, {why}{moves}"


def problems(config: "Config") -> Iterator[Notice]:
    """Problems in the configuration files: a hook that can't be used does not run."""
    found = [one for one in config.problems if not one.note]
    if not found:
        return
    first = found[0]
    number = "1 problem" if len(found) == 1 else f"{len(found)} problems, the first"
    keys = tuple(f"problem {one.code} {one.place} {one.hook}" for one in found)
    place = shown_path(first.file, config.project) + (f":{first.line}" if first.line else "")
    yield Notice(keys, f"{number} in the configuration: {place}: {first.message}. Details: billhook check")


def fleet(config: "Config") -> Iterator[Notice]:
    """A policy of the fleet that is refused, expired or damaged."""
    if config.fleet is not None and (problem := config.fleet.problem):
        yield Notice((f"fleet {problem}",), f"{problem}. Details: billhook fleet status")


def missing_gates(config: "Config") -> Iterator[Notice]:
    """Gates that are no longer in force."""
    try:
        found = missing(config)
    except StoreError as error:
        yield Notice(("gates unread",), f"can't determine whether a gate is gone: {error.place}: {error.message}")
        return
    for one in found:
        yield Notice(tuple(f"gone {one.file} {name}" for name in one.gates), missing_gates_text(one, config))


def missing_gates_text(one: "MissingGates", config: "Config") -> str:
    """The gates that are gone, and the command that acknowledges it."""
    are = f"{one.what} is" if len(one.gates) == 1 else f"{one.what}s are"
    where = f"{listed_names(list(map(_short, one.gates)))} in {shown_path(one.file, config.project)} ({one.why})"
    acknowledge = "If that is intended: billhook trust --acknowledge"
    return f"{len(one.gates)} {are} no longer in force: {where}. {acknowledge}"


def blocking_text(row: HookRow) -> str:
    """What a gate that changed since its approval blocks."""
    about = [", ".join(row.events) or "every event"]
    about += [f"match {row.match}"] if row.match else []
    about += [f"{label} {text}" for label, text in conditions_in_words(as_data(row))]
    checks = f"what it checks ({', '.join(about)})"
    return f"`{row.name}` has changed since its approval and blocks {checks} until you approve it: billhook trust"


def failed_open(verdict: Verdict) -> Iterator[Notice]:
    """Hooks that failed and were ignored."""
    from billhook.store.redaction import Redactor

    for outcome in verdict.outcomes:
        if outcome.failed_open:
            error = " ".join(Redactor().text(outcome.error).split())
            error = error if len(error) <= _LONGEST else f"{error[:_LONGEST]} ..."
            how = outcome.status.replace("_", " ")
            text = f"hook `{_short(outcome.hook)}` {how} and was ignored: {error}. Details: billhook events --failed"
            yield Notice((f"open {outcome.hook} {outcome.status}",), text)


def _approved(approvals: "Sequence[Approval]", when: int) -> str:
    hooks = list(dict.fromkeys(one.name for one in approvals if one.of_hook))  # one may be approved twice
    names = [*hooks, *(f"the allow rules of {one.file}" for one in approvals if not one.of_hook)]
    what = f"{len(names)} {'hook' if hooks else 'approval'}{'s were' if len(names) > 1 else ' was'}"
    how = {one.how for one in approvals}
    by = f" {how.pop()}".rstrip() if len(how) == 1 else ""
    ago = age(time.time() - when / 1e9)
    return f"{what} approved {ago}{by}: {listed_names(list(map(_short, names)))}. Not you? billhook trust --list"


def listed_names(names: Sequence[str]) -> str:
    """The first few names, and the number of the others."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _texts(record: "Value | None") -> list[Notice]:
    waiting = (record or {}).get("waiting")
    pairs = waiting if isinstance(waiting, list) else ()
    return [Notice((str(one[0]),), str(one[1])) for one in pairs if isinstance(one, list) and len(one) == 2]
