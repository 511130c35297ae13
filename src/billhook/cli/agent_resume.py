"""Which earlier session somebody wants to go on with: its id, its name, or `.` for the newest that can be resumed."""

from pathlib import Path

from billhook.agent.transcript import transcript_of
from billhook.cli.events_log import Here
from billhook.cli.events_sessions import FEWEST
from billhook.errors import UsageError
from billhook.store.files import StoreError
from billhook.store.sessions import Recent, Sessions
from billhook.store.state import FileState

_NAMED = 5  # sessions that a hint names


def session_meant(word: str, here: Here) -> str:
    """The id of the session that a word means: the id itself, a name, the beginning of an id, or `.`. UsageError, with
    what there is, when none of this project that has a transcript is meant."""
    resumable = _resumable(here)
    if word == ".":
        if not resumable:
            raise UsageError("there is no session to resume here", hint="start one: billhook agent -p '...'")
        return resumable[0]
    if word and _has_transcript(word, here):
        return word
    named = [one.session_id for one in _recent(here) if one.name == word and _has_transcript(one.session_id, here)]
    begun = [one for one in resumable if len(word) >= FEWEST and one.startswith(word)]
    if not named and len(begun) > 1:
        hint = f"give more of it: {', '.join(begun[:_NAMED])}"
        raise UsageError(f"the ids of {len(begun)} sessions begin with `{word}`", hint=hint)
    if found := named or begun:
        return found[0]
    raise UsageError(f"no session `{word}` can be resumed here", hint=_what_there_is(resumable, here))


def _has_transcript(session_id: str, here: Here) -> bool:
    try:
        return transcript_of(here.root, here.project, session_id).path.is_file()
    except (OSError, ValueError):
        return False


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


def _what_there_is(resumable: list[str], here: Here) -> str:
    names = {session.session_id: session.name for session in _recent(here)}
    there = list(dict.fromkeys(names.get(one, one) for one in resumable))
    if not there:
        return "none has a transcript here; only sessions of `billhook agent` have one"
    more = f" and {len(there) - _NAMED} more" if len(there) > _NAMED else ""
    return f"there are {', '.join(there[:_NAMED])}{more}; `.` is the newest"
