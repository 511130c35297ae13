"""What the user is told inside the agent beside a verdict: hooks that did not run, gates that are gone, approvals.

Each fact is shown once in a session, at the first event that can carry a message to the user, and again when it
changes. Which were shown is in the state, by session. A quiet event costs one lookup.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from billhook.agents import AGENTS, dialect_of
from billhook.config.declared import needs_consent
from billhook.config.host_hooks import is_claudes
from billhook.core import client_env
from billhook.core.answers import Verdict
from billhook.core.events import Event
from billhook.store.files import StoreError

if TYPE_CHECKING:
    from billhook.config.config import Config, Entry
    from billhook.config.known_gates import Missing
    from billhook.store.approvals import Approval
    from billhook.store.state import FileState, Value

KIND: Final = "notices"
_NAMED: Final = 5  # hooks that a notice names; the rest is counted
_LONGEST: Final = 300  # characters of a reason
_LONGEST_NAME: Final = 60
_MOST_SHOWN: Final = 500
_MOST_SESSIONS: Final = 1024
_RECENT: Final = 3600.0
"""Seconds in which an approval is announced in every session; later only if no session has shown it."""
_MOST_WAITING: Final = 16
_TOLD_OTHERWISE: Final = {"library": frozenset({"open"}), "fire": frozenset({"open", "pending", "gone", "approved"})}
"""What the caller of an engine shows by itself. Loops and adapters show failures and pending hooks."""


class Notice(NamedTuple):
    """One fact."""

    keys: tuple[str, ...]  # the same as long as the fact is
    text: str


class Notices:
    """The notices of one loaded configuration for one host. Lives as long as its engine."""

    def __init__(self, config: "Config", host: str) -> None:
        self.config = config
        self.host = dialect_of(host).removeprefix("http:")
        self._shown: dict[str, set[str]] = {}
        """By session that was looked up for this configuration: all that it was shown."""
        self._waiting: dict[str, list[Notice]] = {}  # by session: what waits for an event that can carry it
        self._remembered = False

    def __call__(self, verdict: Verdict) -> tuple[str, ...]:
        """What is due at this event."""
        session = verdict.about.session_id
        if not verdict.failed_open and session in self._shown and session not in self._waiting:
            return ()
        try:
            return tuple(map(_told, self._due(session, verdict)))
        except Exception as error:  # no verdict fails because of a notice
            return (_told(_unshown(error)),)

    def unjudged(self, event: Event, why: str) -> str:
        """That an event passed without having been judged, where the user was not told so before."""
        if not self._can_show(event):
            return ""
        session = event.session_id
        self._look_up(session)
        sentence = why if why.endswith(("?", ".")) else f"{why}."
        notice = Notice((f"unjudged {why}",), f"{sentence} The {event.hook_event_name} event was not judged.")
        known = self._shown[session]
        new = [] if known.issuperset(notice.keys) else self._claim(session, known, [notice])
        return _told(notice) if new else ""

    def _due(self, session: str, verdict: Verdict) -> list[Notice]:
        self._remember()
        facts = self._waiting.pop(session, [])
        if session not in self._shown:
            facts += self._look_up(session)
            facts += self._standing(session)
        if verdict.failed_open and "open" not in self._told_otherwise:
            facts += failed_open(verdict)
        known = self._shown[session]
        new = list({one.keys: one for one in facts if not known.issuperset(one.keys)}.values())
        if new and not self._can_show(verdict.about):
            self._wait(session, new)
            return []
        return self._claim(session, known, new) if new else []

    # -- which were shown

    def _look_up(self, session: str) -> list[Notice]:
        if len(self._shown) >= _MOST_SESSIONS:
            self._shown.clear()
            self._waiting.clear()
        record = self._read(session) if session else None
        self._shown[session] = set(_keys(record))
        return _texts(record)

    def _claim(self, session: str, known: set[str], new: list[Notice]) -> list[Notice]:
        """Note them as shown; those of them that no other process has shown in the meantime."""
        keys = [key for one in new for key in one.keys]
        known.update(keys)
        before: set[str] = set()

        def change(record: "Value | None") -> "Value":
            shown = _keys(record)
            before.update(shown)
            return {"shown": [*shown, *(key for key in keys if key not in before)][-_MOST_SHOWN:]}

        if session:
            self._update(session, change)
        return [one for one in new if not before.issuperset(one.keys)]

    def _wait(self, session: str, new: list[Notice]) -> None:
        """What is no longer true at the next event, a failure, waits in the state: the next process knows it."""
        self._waiting[session] = new
        failed = [[*one.keys, one.text] for one in new if one.keys[0].startswith("open ")]
        if session and failed and self._ever_shows:
            self._update(session, lambda record: {"shown": _keys(record), "waiting": _merged(record, failed)})

    def _update(self, key: str, change: "Callable[[Value | None], Value]") -> None:
        with suppress(StoreError):  # it is told again rather than never
            self._state.update(KIND, key, change)

    def _read(self, key: str) -> "Value | None":
        with suppress(StoreError):
            return self._state.read(KIND, key)
        return None

    @property
    def _state(self) -> "FileState":
        assert self.config.knowing is not None
        return self.config.knowing.state

    # -- who is told what

    @property
    def _told_otherwise(self) -> Collection[str]:
        return () if self.host in AGENTS else _TOLD_OTHERWISE.get(self.host, ("open", "pending"))

    def _can_show(self, event: Event) -> bool:
        from billhook import agents
        from billhook.agents.base import can

        if self.host not in AGENTS:
            return self.host not in agents.DIALECTS
        row = getattr(agents.dialect(self.host), "row", None)
        return bool(can(self.host, event.hook_event_name).message if row is None else row(event).message)

    @property
    def _ever_shows(self) -> bool:
        return self.host in AGENTS and any(row.message for row in AGENTS[self.host].capabilities.values())

    # -- the facts

    def _remember(self) -> None:
        if self._remembered or "gone" in self._told_otherwise:
            return
        from billhook.config.known_gates import remember

        self._remembered = True
        with suppress(StoreError):  # state that can't be written is reported by the log
            remember(self.config)

    def _standing(self, session: str) -> Iterator[Notice]:
        told = self._told_otherwise
        if "pending" not in told:
            yield from _readable(pending(self.config, self.host))
            yield from _readable(problems(self.config))
        if "gone" not in told:
            missing = _readable(gone(self.config))
            self._forget(session, {key for one in missing for key in one.keys})
            yield from missing
        if "approved" not in told:
            yield from _readable(self._approvals(self._shown[session]))

    def _forget(self, session: str, missing: Collection[str]) -> None:
        """What was gone and is back is told again when it goes again."""
        back = {key for key in self._shown[session] if key.startswith("gone ")}.difference(missing)
        if not back:
            return
        self._shown[session] -= back
        self._update(
            session, lambda record: {**(record or {}), "shown": [key for key in _keys(record) if key not in back]}
        )

    def _approvals(self, known: Collection[str]) -> Iterator[Notice]:
        """What was approved lately, and what no session has announced: the user sees an approval of somebody else's."""
        from billhook.store.approvals import Approvals

        approvals, scope = Approvals(Path(self.config.root)), f"project {self.config.project}"
        files = {read.source.path for read in self.config.sources if needs_consent(read.source.layer)}
        listed = {
            f"approved {hash_} {when}": (file, hash_)
            for file in files
            for hash_, when in approvals.listed(file).items()
        }
        told = _keys(self._read(scope)) if listed else []
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
    """The facts of one kind. That they can't be told hides no other kind."""
    found: list[Notice] = []
    try:
        for one in facts:
            found.append(one)  # those before an error count
    except Exception as error:
        found.append(_unshown(error))
    return found


def _unshown(error: Exception) -> Notice:
    why = f"{type(error).__name__}: {error}"
    return Notice((f"unshown {why}",), f"can't show notices: {why}")


def _told(notice: Notice) -> str:
    """Names and reasons come from files and hooks: no secrets, line breaks, control or bidirectional characters."""
    from billhook.store.redaction import Redactor

    text = " ".join(Redactor().text(notice.text).split())
    visible = (char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return f"billhook: {''.join(visible)}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."


def pending(config: "Config", host: str) -> Iterator[Notice]:
    """Hooks that are not approved, or changed since they were; but for those that the agent runs itself."""
    ours = [entry for entry in config.pending if not is_claudes(entry.declared, host)]
    for state, what in (("new", "not approved"), ("changed", "changed since approval")):
        entries = [entry for entry in ours if entry.state == state]
        if not entries:
            continue
        files = dict.fromkeys(_shown_path(entry.declared.file, config) for entry in entries)
        where = f" in {next(iter(files))}" if len(files) == 1 else ""
        are, them = ("1 hook", "it") if len(entries) == 1 else (f"{len(entries)} hooks", "them")
        approved = [entry.consent.before for entry in entries]
        blocks = "; gates among them block until approved" if any(one and one.gate for one in approved) else ""
        names = _listed([entry.shown for entry in entries])
        text = f"{are}{where} {'is' if them == 'it' else 'are'} {what} and did not run: {names}{blocks}."
        keys = tuple(f"{state} {_definition(entry)}" for entry in entries)
        yield Notice(keys, f"{text} Review {them}: billhook trust")


def _definition(entry: "Entry") -> str:
    """What tells a hook from another one, without a look at the files that it names: nobody has approved it."""
    from billhook.config.fingerprint import definition
    from billhook.store.digest import sha256

    return sha256(repr((entry.shown, definition(entry.declared))).encode("utf-8", "surrogatepass")).hexdigest()


def problems(config: "Config") -> Iterator[Notice]:
    """What is wrong with the files: a hook that can't be used does not run."""
    found = [one for one in config.problems if not one.note]
    if not found:
        return
    first = found[0]
    number = "1 problem" if len(found) == 1 else f"{len(found)} problems, the first"
    keys = tuple(f"problem {one.code} {one.place} {one.hook}" for one in found)
    place = f"{_shown_path(first.file, config)}:{first.line}" if first.line else _shown_path(first.file, config)
    yield Notice(keys, f"{number} in the configuration: {place}: {first.message}. Details: billhook check")


def gone(config: "Config") -> Iterator[Notice]:
    """Gates that were in force here before."""
    from billhook.config.known_gates import missing

    try:
        found = missing(config)
    except StoreError as error:
        yield Notice(("gates unread",), f"can't tell whether a gate is gone: {error.place}: {error.message}")
        return
    for one in found:
        yield Notice(tuple(f"gone {one.file} {name}" for name in one.gates), gone_text(one, config))


def gone_text(one: "Missing", config: "Config") -> str:
    """What is gone, and the command that acknowledges it."""
    are = f"{one.what} is" if len(one.gates) == 1 else f"{one.what}s are"
    where = f"{_listed(one.gates)} in {_shown_path(one.file, config)} ({one.why})"
    acknowledge = "If that is intended: billhook trust --acknowledge"
    return f"{len(one.gates)} {are} no longer in force: {where}. {acknowledge}"


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
    hooks = [one.name for one in approvals if one.of_hook]
    names = [*hooks, *(f"the allow rules of {one.file}" for one in approvals if not one.of_hook)]
    what = f"{len(names)} {'hook' if hooks else 'approval'}{'s were' if len(names) > 1 else ' was'}"
    how = {one.how for one in approvals}
    by = f" {how.pop()}".rstrip() if len(how) == 1 else ""
    return f"{what} approved {_ago(time.time() - when / 1e9)}{by}: {_listed(names)}. Not you? billhook trust --list"


def _ago(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if (number := int(seconds // length)) > 0:
            return f"{number} {unit}{'s' if number > 1 else ''} ago"
    return "just now"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(_short, names[:_NAMED])) + more


def _shown_path(path: str, config: "Config") -> str:
    inside, home = config.project.rstrip("/") + "/", client_env.expanduser("~").rstrip("/") + "/"
    if path.startswith(inside):
        return os.path.relpath(path, config.project)
    return f"~/{path[len(home) :]}" if path.startswith(home) else path


def _keys(record: "Value | None") -> list[str]:
    shown = (record or {}).get("shown")
    return [key for key in shown if isinstance(key, str)] if isinstance(shown, list) else []


def _texts(record: "Value | None") -> list[Notice]:
    waiting = (record or {}).get("waiting")
    pairs = waiting if isinstance(waiting, list) else ()
    return [Notice((str(one[0]),), str(one[1])) for one in pairs if isinstance(one, list) and len(one) == 2]


def _merged(record: "Value | None", more: list[list[str]]) -> list[list[str]]:
    before = [[*one.keys, one.text] for one in _texts(record)]
    return [*before, *(one for one in more if one not in before)][-_MOST_WAITING:]
