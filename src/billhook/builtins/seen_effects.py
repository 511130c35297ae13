"""The effects of the calls of a session, stored on disk for `after_effect`: each kind and scope once."""

from typing import Final

import msgspec

from billhook.core.answers import Verdict
from billhook.core.errors import UnrecordedError
from billhook.effects.analysis import effects_of
from billhook.effects.conditions import cell_of
from billhook.store.files import StoreError
from billhook.store.state import FileState, Value

_KIND: Final = "effects"


def seen_in(state: FileState, session_id: str) -> frozenset[str]:
    """The effects seen in a session, as `kind:scope`. Raises StoreError."""
    return state.value(_KIND, session_id, _cells)


def _cells(record: Value | None, session_id: str) -> frozenset[str]:
    return frozenset(record or ())


class SeenEffects(msgspec.Struct, frozen=True):
    """The observer: adds the effects of a call to the record of its session, unless the call was denied.

    A record has at most one entry for each kind and scope, so it can't grow without bounds.
    """

    state: FileState
    hook: str  # the hook with `after_effect` that a failure counts for
    gate: bool

    def __call__(self, verdict: Verdict) -> None:
        event = verdict.about
        if verdict.event != "PreToolUse" or verdict.denied or not event.session_id:
            return
        if verdict.tool_input is not None:
            event = event.replace(tool_input=verdict.tool_input)
        found = {cell_of(effect) for effect in effects_of(event)}
        try:
            if found and not found <= seen_in(self.state, event.session_id):
                self.state.update(_KIND, event.session_id, lambda record: {**(record or {}), **dict.fromkeys(found, 1)})
        except StoreError as error:
            message = f"the effects of this call can't be recorded: {error.message}"
            raise UnrecordedError(message, hook=self.hook, deny=self.gate, place=error.place) from error
