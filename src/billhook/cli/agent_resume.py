"""Which earlier session somebody wants to go on with: its id, its name, or `.` for the newest that can be resumed."""

from collections.abc import Iterable
from pathlib import Path

from billhook.agent.transcript import transcript_of
from billhook.cli import events_sessions
from billhook.cli.events_log import Here
from billhook.errors import UsageError
from billhook.store.files import StoreError
from billhook.store.sessions import Recent, Sessions
from billhook.store.state import FileState

_NAMED = 5
"""Sessions that a hint names."""


def session_meant(word: str, here: Here) -> str:
    """The id of the session that a word means. UsageError, with what there is, when it means none that has a transcript
    in this project."""
    if word == ".":
        newest = next(iter(_resumable(here)), "")
        if not newest:
            raise UsageError("there is no session to resume here", hint="start one: billhook agent -p '...'")
        return newest
    if word and _has_transcript(word, here):
        return word
    found = events_sessions.one(word, here) if _is_known(word, here) else {}
    for session_id in _newest_first(found.get(here.project, ()), here):
        if _has_transcript(session_id, here):
            return session_id
    if others := [project for project in found if project != here.project]:
        raise UsageError(f"session `{word}` is of another project", place=others[0], hint="resume it there")
    raise UsageError(f"no session `{word}` can be resumed here", hint=_what_there_is(here))


def _is_known(word: str, here: Here) -> bool:
    try:
        events_sessions.one(word, here)
    except UsageError as error:
        if "begin with" in error.message:  # several do, which is worth saying
            raise
        return False
    return True


def _has_transcript(session_id: str, here: Here) -> bool:
    try:
        return transcript_of(here.root, here.project, session_id).path.is_file()
    except (OSError, ValueError):
        return False


def _newest_first(ids: Iterable[str], here: Here) -> list[str]:
    wanted = set(ids)
    recent = [session.session_id for session in _recent(here)]
    return [*(one for one in recent if one in wanted), *sorted(wanted.difference(recent))]


def _recent(here: Here) -> list[Recent]:
    try:
        return Sessions(FileState(here.root)).recent(here.project)
    except StoreError:
        return []


def _resumable(here: Here) -> list[str]:
    """The sessions of this project that have a transcript, newest first; where they have no names, by its time."""
    named = [session.session_id for session in _recent(here) if _has_transcript(session.session_id, here)]
    return named or [path.stem for path in _by_time(transcript_of(here.root, here.project, "any").path.parent)]


def _by_time(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []


def _what_there_is(here: Here) -> str:
    names = {session.session_id: session.name for session in _recent(here)}
    there = list(dict.fromkeys(names.get(one, one) for one in _resumable(here)))
    if not there:
        return "none has a transcript here; only sessions of `billhook agent` have one"
    more = f" and {len(there) - _NAMED} more" if len(there) > _NAMED else ""
    return f"there are {', '.join(there[:_NAMED])}{more}; `.` is the newest"
