"""Facts about a session: when it began, how many prompts it had, which files changed since, and which effects its calls
had, for `after_effect`.

Changed files are those that git lists as changed and that are newer than the session, and those committed in it.
"""

import itertools
import os
import time
from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from billhook.core.answers import Verdict
from billhook.core.errors import UnrecordedError
from billhook.effects import gitstate
from billhook.effects.conditions import cell_of
from billhook.effects.gitstate import UnreadableError
from billhook.store.files import StoreError, sha256
from billhook.store.state import FileState, Value

_KIND: Final = "runs"
_EFFECTS: Final = "effects"
_BEGAN, _PROMPTS, _SENT_BACK = "began", "prompts", "sent back"
_SECONDS: Final = 2.0  # time limit for git at the end of a turn
_MOST: Final = 20_000  # files that are checked in a folder without git
_COMMITTED: Final = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")


class SessionNotes(msgspec.Struct, frozen=True):
    """The observer: notes when a session was first seen and at which commit, and counts its prompts."""

    EVENTS: ClassVar = ("UserPromptSubmit", "Stop", "SubagentStop")
    state: FileState
    folder: str
    hook: str  # the hook with `changed_files` or `keep_going` that a failure counts for
    gate: bool

    def __call__(self, verdict: Verdict) -> None:
        session_id, counts = verdict.about.session_id, verdict.keep_going or verdict.event == "UserPromptSubmit"
        try:
            if session_id and (counts or _BEGAN not in (self.state.read(_KIND, session_id) or {})):
                began = {"at": time.time(), "head": _head(self.folder)}
                self.state.update(_KIND, session_id, lambda record: self._noted(record or {}, began, verdict))
        except StoreError as error:
            message = f"the start of this session can't be recorded: {error.message}"
            raise UnrecordedError(message, hook=self.hook, deny=self.gate, place=error.place) from error

    def _noted(self, record: Value, began: Value, verdict: Verdict) -> Value:
        noted = {_BEGAN: began, **record, _PROMPTS: prompts_in(record) + _is_typed(verdict, record)}
        return {**noted, _SENT_BACK: _digest(verdict.reason)} if verdict.keep_going else noted


def _is_typed(verdict: Verdict, record: Value) -> bool:
    """Whether this is a prompt of the user. Some agents also submit the reason of a Stop hook, or an empty prompt after
    each tool call."""
    prompt = getattr(verdict.about, "prompt", "") if verdict.event == "UserPromptSubmit" else ""
    return bool(prompt.strip()) and _digest(prompt) != record.get(_SENT_BACK)


def _digest(text: str) -> str:
    """Enough to recognize a prompt again, without a copy of its text."""
    return sha256(text.strip().encode(errors="replace")).hexdigest()


def prompts_in(record: Value | None) -> int:
    """How many prompts a session had."""
    count = (record or {}).get(_PROMPTS, 0)
    return count if isinstance(count, int) else 0


def _head(folder: str) -> str:
    found = gitstate.repository(folder)
    try:
        return gitstate.run_git(found[0], "rev-parse", "--verify", "-q", "HEAD").strip() if found else ""
    except UnreadableError:
        return ""


def changed_files(state: FileState, session_id: str, folder: str) -> list[str]:
    """The names of files below a folder that changed since the session began. If its start was not seen: all
    uncommitted files. Raises StoreError, and UnreadableError if git gives no answer."""
    began = (state.read(_KIND, session_id) or {}).get(_BEGAN) if session_id else None
    since, head = (began["at"], began["head"]) if isinstance(began, dict) else (0.0, "")
    found = gitstate.repository(folder)
    if found is None:
        return list(_newer(folder, since))
    root = found[0]
    names = [name for name in _uncommitted(root) if _is_newer(os.path.join(root, name), since)]
    names += _committed(root, head)
    return [os.path.relpath(os.path.join(root, name), folder) for name in dict.fromkeys(names)]


def _uncommitted(root: str) -> Iterator[str]:
    work = gitstate.uncommitted(root, untracked=True, deadline_ms=_SECONDS * 1000)
    if not work.certain:
        raise UnreadableError(work.why)
    yield from itertools.chain(work.modified, work.staged, work.untracked)


def _committed(root: str, head: str) -> list[str]:
    if not head or head == _head(root):
        return []
    return gitstate.run_git(root, *_COMMITTED, head, "HEAD", seconds=_SECONDS).split("\0")[:-1]


def _is_newer(path: str, since: float) -> bool:
    """Whether a file was written since. A deleted file counts: its time is unknown. A folder counts with its
    content."""
    try:
        found = os.lstat(path)
    except OSError:
        return True
    return os.path.isdir(path) or max(found.st_mtime, found.st_ctime) >= since


def _newer(folder: str, since: float) -> Iterator[str]:
    """The same without git, in files that are neither hidden nor generated."""
    seen = 0
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in gitstate.GENERATED]
        for name in names:
            seen += 1
            path = os.path.join(at, name)
            if not name.startswith(".") and _is_newer(path, since):
                yield os.path.relpath(path, folder)
        if seen > _MOST:
            return


# -- effects


def seen_in(state: FileState, session_id: str) -> frozenset[str]:
    """The effects seen in a session, as `kind:scope`. Raises StoreError."""
    return state.value(_EFFECTS, session_id, _cells)


def _cells(record: Value | None, session_id: str) -> frozenset[str]:
    return frozenset(record or ())


class SeenEffects(msgspec.Struct, frozen=True):
    """The observer: adds the effects of a call to the record of its session, unless the call was denied.

    A record has at most one entry for each kind and scope, so it can't grow without bounds.
    """

    EVENTS: ClassVar = ("PreToolUse",)
    state: FileState
    hook: str  # the hook with `after_effect` that a failure counts for
    gate: bool

    def __call__(self, verdict: Verdict) -> None:
        from billhook.effects.analysis import effects_of

        event = verdict.about
        if verdict.event != "PreToolUse" or verdict.denied or not event.session_id:
            return
        if verdict.tool_input is not None:
            event = event.replace(tool_input=verdict.tool_input)
        found = {cell_of(effect) for effect in effects_of(event)}
        try:
            if found and not found <= seen_in(self.state, event.session_id):
                more = dict.fromkeys(found, 1)
                self.state.update(_EFFECTS, event.session_id, lambda record: {**(record or {}), **more})
        except StoreError as error:
            message = f"the effects of this call can't be recorded: {error.message}"
            raise UnrecordedError(message, hook=self.hook, deny=self.gate, place=error.place) from error
