"""What the user can override: a denied call, allowed once by its code; and hooks that are paused for some minutes.

Only a deny or an ask of the guard and of rules with a fixed answer has a code. The guard's row `disarm` and hooks of
the managed layer can be neither allowed nor paused. Nothing here runs for a call that no hook objects to.
"""

import os
import time
from collections.abc import Container, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from billhook.config.sources import pause_file
from billhook.core import strictjson, tools
from billhook.core.answers import Outcome, Status, Verdict
from billhook.core.errors import StrictJSONError
from billhook.core.events import Event
from billhook.store import files
from billhook.store.files import StoreError, sha256
from billhook.store.state import FileState, Value, listed

if TYPE_CHECKING:
    from billhook.config.builtin_hooks import Review
    from billhook.config.config import Config

KIND: Final = "overrides"
KEY: Final = "calls"
WINDOW: Final = 15 * 60.0  # seconds in which an allowed call may run
LONGEST_PAUSE: Final = 8 * 3600.0
ALPHABET: Final = "2345679ACDEFGHJKMNPQRTVWXY"  # without letters and digits that look alike
_CODE: Final = 6
_MOST: Final = 64  # denied calls that are remembered
_REMEMBERED: Final = 86400.0
_LONGEST_CALL: Final = 300
_LARGEST: Final = 64 << 10
_ALLOWED: Final = "allowed once ("
_COMMENT: Final = "description"  # for people: agents word it again when they repeat a call


# -- one call


class DeniedCall(msgspec.Struct, frozen=True):
    """A call that was denied, and could be allowed."""

    code: str
    key: str  # identifies project, session, tool, input and hook
    hook: str
    project: str
    call: str  # for people, without secrets
    at: float
    until: float = 0.0  # it is allowed until then
    used: float = 0.0  # the same, after that was used up


class Overrides:
    """The denied calls of all projects, below one root. Every method raises StoreError."""

    def __init__(self, state: FileState) -> None:
        self._state = state

    def find(self, code: str) -> DeniedCall | None:
        """The call with this code; letters of any case."""
        calls = _known(self._state.read(KIND, KEY))
        return next((one for one in calls if one.code == code.upper()), None)

    def allow(self, call: DeniedCall) -> float:
        """Allow a call once; returns the time until which that is possible."""
        until = time.time() + WINDOW

        def change(record: Value | None) -> Value:
            others = [one for one in _known(record) if one.code != call.code]
            return _record([*others, replace(call, until=until)])

        self._state.update(KIND, KEY, change)
        return until

    def use(self, call: DeniedCall) -> bool:
        """Whether the call was allowed: then that is used up. Otherwise it is remembered, for `allow`. Two processes
        never use the same permission, because the record is changed under a lock."""
        allowed: list[DeniedCall] = []

        def change(record: Value | None) -> Value:
            known = _known(record)
            allowed.extend(one for one in known if one.key == call.key and one.until > time.time())
            now = replace(call, used=allowed[0].until) if allowed else call
            return _record([*(one for one in known if one.code != call.code), now])

        self._state.update(KIND, KEY, change)
        return bool(allowed)

    def restore(self, codes: Container[str]) -> None:
        """Allow calls again that were allowed, and then not run: another hook denied them."""

        def change(record: Value | None) -> Value:
            return _record([replace(one, until=one.used) if one.code in codes else one for one in _known(record)])

        self._state.update(KIND, KEY, change)


def _known(record: Value | None) -> list[DeniedCall]:
    oldest = time.time() - _REMEMBERED
    return [one for one in listed(record, KEY, DeniedCall) if one.at > oldest]


def _record(calls: Sequence[DeniedCall]) -> Value:
    return {KEY: msgspec.to_builtins(list(calls[-_MOST:]))}


def denied_call(event: Event, hook: str, project: str) -> DeniedCall:
    """The call as it is remembered. Its code depends on nothing but the call: a repeated call has the same one."""
    import json

    from billhook.store.redaction import Redactor

    tool, given = tools.canonical(getattr(event, "tool_name", "")), getattr(event, "tool_input", None)
    exact = {name: one for name, one in given.items() if name != _COMMENT} if isinstance(given, dict) else given
    whole = [project, event.cwd, event.session_id, event.agent_id or "", tool, exact, hook]
    key = sha256(json.dumps(whole, sort_keys=True, default=repr).encode("ascii")).hexdigest()
    about = tools.subject_of(tool, given)
    call = Redactor().text(f"{tool}: {about}" if about else tool)[:_LONGEST_CALL]
    return DeniedCall(code_of(key), key, hook, project, call, time.time())


def code_of(key: str) -> str:
    """Six characters for a key."""
    number, code = int(key, 16), ""
    for _ in range(_CODE):
        number, digit = divmod(number, len(ALPHABET))
        code += ALPHABET[digit]
    return code


# -- a pause


class Pause(msgspec.Struct, frozen=True):
    """Hooks that don't decide until some time."""

    until: float
    hooks: tuple[str, ...] = ()  # none: all

    @property
    def active(self) -> bool:
        return 0 < self.until - time.time() <= LONGEST_PAUSE

    def covers(self, *names: str) -> bool:
        return not self.hooks or not set(names).isdisjoint(self.hooks)

    def __str__(self) -> str:
        which = f" ({', '.join(self.hooks)})" if self.hooks else ""
        return f"billhook is paused in this project until {time.strftime('%H:%M', time.localtime(self.until))}{which}"


def pauses() -> dict[str, Pause]:
    """The pauses of all projects, by the folder of the project. A damaged file pauses nothing."""
    with suppress(StoreError, StrictJSONError, msgspec.ValidationError):
        data = files.read_bytes(Path(pause_file()), _LARGEST)
        return msgspec.convert(strictjson.loads(data), dict[str, Pause]) if data else {}
    return {}


def set_pause(project: str, pause: Pause | None) -> None:
    """Pause the hooks of a project, or end its pause. Pauses that are over are removed. Raises StoreError."""
    known = {folder: one for folder, one in pauses().items() if folder != project and one.active}
    known |= {project: pause} if pause is not None else {}
    path = Path(pause_file())
    if known:
        files.write_atomically(path, strictjson.encode(msgspec.to_builtins(known)) + b"\n")
    elif os.path.lexists(path):
        files.remove(path)


# -- the review of an objection


def reviewed(review: "Review", event: Event, outcome: Outcome) -> Outcome:
    """The outcome of a hook that objects; waived if the user paused the hook, or allowed this call."""
    if review.is_guard and _guards_billhook(outcome):
        return outcome
    if review.pause is not None and review.pause.active:
        return _waived(outcome, "paused")
    if not review.once or event.hook_event_name != "PreToolUse" or outcome.status is not Status.OK:
        return outcome
    with suppress(StoreError):  # without state no call can be allowed, and none has a code
        call = denied_call(event, review.hook, review.project)
        allowed = Overrides(review.state).use(call)
        return _waived(outcome, f"{_ALLOWED}{call.code})") if allowed else replace(outcome, code=call.code)
    return outcome


def restore_unused(state: FileState, verdict: Verdict) -> None:
    """Allow again what the user allowed once, after a verdict with which the call does not run."""
    waived = [one.waived.by for one in verdict.outcomes if one.waived is not None]
    codes = {by.removeprefix(_ALLOWED).rstrip(")") for by in waived if by.startswith(_ALLOWED)}
    if codes:
        with suppress(StoreError):
            Overrides(state).restore(codes)


def _waived(outcome: Outcome, by: str) -> Outcome:
    from billhook.engine.step import waive  # most denied calls stay denied

    return waive(outcome, by)


def _guards_billhook(outcome: Outcome) -> bool:
    """Whether this is the guard's row `disarm`, or a call that the guard can't judge: no rule allows those, either."""
    data: Any = outcome.answer.data
    return not (isinstance(data, dict) and "how_to_allow" in data)


def pause_of(config: "Config") -> Pause | None:
    """The pause that is in effect, if there is one."""
    return config.pause if config.pause is not None and config.pause.active else None
