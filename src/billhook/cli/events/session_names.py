"""Which session somebody means: the newest here, a name, an id or the beginning of one; also in other projects."""

import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from billhook.cli.events.log import Here
from billhook.cli.options import words as split
from billhook.core.errors import UsageError
from billhook.core.text import suggest
from billhook.store import sessions
from billhook.store.files import StoreError, opened, read_in
from billhook.store.record import Record, Wanted
from billhook.store.sessions import VERBS, Session, Sessions
from billhook.store.state import FOLDERS, LARGEST, FileState

FEWEST: Final = 6  # characters of an id that name it
_RECORD = re.compile(r"[1-9][0-9]*|0[0-9a-f]{11,31}")
_NAMED = 8  # sessions that a hint names

Ids = dict[str, frozenset[str]]  # session ids by project


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
    means nothing, and when there is none. Empty when `.` is all that was asked for and the log is empty."""
    each = split(words) or ("",)
    found: dict[str, set[str]] = {}
    for word in each:
        for project, ids in one(word, here).items():
            found.setdefault(project, set()).update(ids)
    return {project: frozenset(ids) for project, ids in found.items()}


def one(word: str, here: Here) -> Ids:
    """The sessions that one word means. A whole id means its session, whatever others are called."""
    if not word:
        raise _no_word()
    if word == ".":
        newest = newest_session(here)
        return {} if newest is None else {here.project: frozenset((newest,))}
    ids = _by_id(word, here) or _known_here(word, here) or _in_the_log(word, here) or _elsewhere(word, here)
    if not ids:
        raise _unknown(word, here)
    return ids


def newest_session(here: Here) -> str | None:
    """The session of the newest record here that has one; empty: there are records, and none of them names one."""
    records = (entry.record for entry in here.reader().backward(Wanted(project=here.project)))
    newest = None
    for record in records:
        newest = record.session_id
        if newest:
            break
    return newest


def _by_id(word: str, here: Here) -> Ids:
    """The session with exactly this id, here or elsewhere."""
    sessions = Sessions(FileState(here.root))
    if any(session.session_id == word for session in sessions.recent(here.project)):
        return {here.project: frozenset((word,))}
    found = sessions.get(word)
    if found is not None:
        return {found.project: frozenset((word,))}
    return {here.project: frozenset((word,))} if not _is_made_up(word) and is_logged(word, here) else {}


def is_logged(session_id: str, here: Here) -> bool:
    """Whether a record of this project is of that session."""
    wanted = Wanted(sessions=frozenset((session_id,)), project=here.project)
    return next(here.reader().backward(wanted), None) is not None


def _is_made_up(word: str) -> bool:
    """Whether it is a name that billhook gives, and so nobody's id: a long log need not be searched for it."""
    adjective, _, animal = word.partition("-")
    return adjective in sessions.ADJECTIVES and animal.partition("-")[0] in sessions.ANIMALS


def _known_here(word: str, here: Here) -> Ids:
    """By what is remembered of this project's recent sessions: a name, or the beginning of an id."""
    recent = Sessions(FileState(here.root)).recent(here.project)
    named = frozenset(session.session_id for session in recent if session.name == word)
    ids = frozenset(session.session_id for session in recent)
    return {here.project: named} if named else _begun(word, {here.project: ids})


def _in_the_log(word: str, here: Here) -> Ids:
    """By the records themselves: sessions without a name, and those that are not remembered any more."""
    named, begun = set(), set()
    for entry in here.reader().forward(Wanted(text=word, project=here.project)):
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


def _no_word() -> UsageError:
    return UsageError("the session is empty", hint="`.` is the newest one here; `billhook events list` shows them all")


def _unknown(word: str, here: Here) -> UsageError:
    recent = Sessions(FileState(here.root)).recent(here.project)
    known = [*dict.fromkeys(session.name for session in recent), *(session.session_id for session in recent), *VERBS]
    if word in VERBS:
        hint = f"`{word}` is a command; `billhook events list` shows the sessions"
        return UsageError(f"no session is called `{word}`", hint=hint)
    hint = suggest(word, known)
    if not hint.startswith("did you mean"):
        hint = "`billhook events list` shows the sessions of this project, and with --all those of every project"
    if _RECORD.fullmatch(word):
        hint = f"`billhook events show {word}` shows a record by its number or id"
    if 0 < len(word) < FEWEST and any(session.session_id.startswith(word) for session in recent):
        hint = f"give at least {FEWEST} characters of an id"
    return UsageError(f"no session `{word}`", hint=hint)
