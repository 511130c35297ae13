"""Which session somebody means: the newest here, a name, an id or the beginning of one; also in other projects."""

import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from billhook.cli.events_log import Here
from billhook.cli.values import nearest
from billhook.errors import UsageError
from billhook.store.files import StoreError, opened, read_in
from billhook.store.record import Record, Wanted
from billhook.store.sessions import VERBS, Session, Sessions
from billhook.store.state import FOLDERS, LARGEST, FileState

FEWEST: Final = 6
"""Characters of an id that name it."""
_RECORD = re.compile(r"[1-9][0-9]*|0[0-9a-f]{11,31}")
_NAMED = 8
"""Sessions that a hint names."""

Ids = dict[str, frozenset[str]]
"""Session ids by project."""


class Names:
    """What sessions are called today. A log keeps the name that a session had; people look for the one it has."""

    def __init__(self, here: Here) -> None:
        self._sessions = Sessions(FileState(here.root))
        self._known: dict[str, str] = {}

    def of(self, record: Record) -> str:
        """Its name, else the beginning of its id; empty for a record without a session."""
        return self.name(record) or record.session_id[:8]

    def name(self, record: Record) -> str:
        """Its name; empty when it has none."""
        key = record.session_id
        if key not in self._known:
            self._known[key] = self._named(key) or record.session_name
        return self._known[key]

    def _named(self, session_id: str) -> str:
        try:
            found = self._sessions.get(session_id) if session_id else None
        except StoreError:
            return ""
        return found.name if found else ""


def meant(words: Iterable[str], here: Here) -> Ids:
    """The sessions that are meant by words, each of which may be several with commas between; UsageError for one that
    means nothing. Empty when `.` is all that was asked for and no session is in the log."""
    found: dict[str, set[str]] = {}
    for word in (part.strip() for text in words for part in text.split(",")):
        if word:
            for project, ids in one(word, here).items():
                found.setdefault(project, set()).update(ids)
    return {project: frozenset(ids) for project, ids in found.items()}


def one(word: str, here: Here) -> Ids:
    """The sessions that one word means."""
    if word == ".":
        newest = newest_session(here)
        return {here.project: frozenset((newest,))} if newest else {}
    ids = _known_here(word, here) or _elsewhere_by_id(word, here) or _in_the_log(word, here) or _elsewhere(word, here)
    if not ids:
        raise _unknown(word, here)
    return ids


def newest_session(here: Here) -> str:
    """The session of the newest record here that has one."""
    records = (entry.record for entry in here.reader().backward(Wanted(project=here.project)))
    return next((record.session_id for record in records if record.session_id), "")


def _known_here(word: str, here: Here) -> Ids:
    """By what is remembered of this project's recent sessions."""
    recent = Sessions(FileState(here.root)).recent(here.project)
    named = frozenset(session.session_id for session in recent if session.name == word)
    if named:
        return {here.project: named}
    ids = [session.session_id for session in recent]
    return {here.project: frozenset((word,))} if word in ids else _begun(word, {here.project: frozenset(ids)})


def _elsewhere_by_id(word: str, here: Here) -> Ids:
    found = Sessions(FileState(here.root)).get(word)
    return {found.project: frozenset((word,))} if found else {}


def _in_the_log(word: str, here: Here) -> Ids:
    """By the records themselves: sessions without a name, and those that are not remembered any more."""
    reader = here.reader()
    if next(reader.backward(Wanted(sessions=frozenset((word,)), project=here.project)), None):
        return {here.project: frozenset((word,))}
    named, begun = set(), set()
    for entry in reader.forward(Wanted(text=word, project=here.project)):
        if entry.record.session_name == word:
            named.add(entry.record.session_id)
        elif entry.record.session_id.startswith(word):
            begun.add(entry.record.session_id)
    return {here.project: frozenset(named)} if named else _begun(word, {here.project: frozenset(begun)})


def _elsewhere(word: str, here: Here) -> Ids:
    """By the records of all sessions that ever had a name, whatever their project."""
    named: dict[str, set[str]] = {}
    begun: dict[str, set[str]] = {}
    for session in every_session(here):
        if session.name == word:
            named.setdefault(session.project, set()).add(session.session_id)
        begun.setdefault(session.project, set()).add(session.session_id)
    if named:
        return {project: frozenset(ids) for project, ids in named.items()}
    return _begun(word, {project: frozenset(ids) for project, ids in begun.items()})


def _begun(word: str, known: Ids) -> Ids:
    """The one session whose id begins with a word that is long enough; UsageError when there are several."""
    if len(word) < FEWEST:
        return {}
    found = [(project, id_) for project, ids in known.items() for id_ in sorted(ids) if id_.startswith(word)]
    if len(found) > 1:
        named = ", ".join(id_ for _, id_ in found[:_NAMED])
        raise UsageError(f"the ids of {len(found)} sessions begin with `{word}`", hint=f"give more of it: {named}")
    return {project: frozenset((id_,)) for project, id_ in found}


def every_session(here: Here) -> Iterator[Session]:
    """All sessions with a name, in no order."""
    path = here.root / FOLDERS["sessions"]
    with opened(path, here.root) as folder:
        if folder is None:
            return
        for name in os.listdir(folder):
            if not name.endswith(".json"):
                continue
            try:
                yield msgspec.json.decode(read_in(folder, path / name, LARGEST) or b"", type=Session)
            except (StoreError, msgspec.MsgspecError, UnicodeDecodeError):
                continue  # somebody else's file, or gone meanwhile


def _unknown(word: str, here: Here) -> UsageError:
    recent = Sessions(FileState(here.root)).recent(here.project)
    known = [*dict.fromkeys(session.name for session in recent), *(session.session_id for session in recent), *VERBS]
    hint = nearest(word, known)
    if not hint.startswith("did you mean"):
        hint = "`billhook events list` shows the sessions of this project, and with --all those of every project"
    if _RECORD.fullmatch(word):
        hint = f"`billhook events show {word}` shows a record by its number or id"
    if 0 < len(word) < FEWEST and any(session.session_id.startswith(word) for session in recent):
        hint = f"give at least {FEWEST} characters of an id"
    return UsageError(f"no session `{word}`", hint=hint)
