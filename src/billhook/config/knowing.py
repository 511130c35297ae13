"""What is known of an event's session at every event: its name and its turn."""

from typing import TYPE_CHECKING

import msgspec

from billhook.events import Event
from billhook.later import later
from billhook.store.files import StoreError
from billhook.store.state import FileState

if TYPE_CHECKING:
    from billhook.store import sessions as stored
else:
    stored = later("billhook.store.sessions")


class Knowing(msgspec.Struct, frozen=True):
    """Looks up the session of an event."""

    state: FileState
    project: str
    names: bool  # whether sessions have names
    turns: bool  # whether turns are tracked

    def __call__(self, event: Event) -> "Looked":
        return Looked(self, event.session_id)


class Looked:
    """One session, looked up when somebody asks. Never raises: where nothing can be read or written, the built-ins say
    so, and nothing is known."""

    def __init__(self, knowing: Knowing, session_id: str) -> None:
        self.knowing, self.session_id = knowing, session_id
        self._name: str | None = None
        self._turn: str | None = None

    @property
    def session_name(self) -> str:
        """Its name. One that nobody named yet, because its start was not seen, gets its name here."""
        if self._name is None:
            self._name = self._find_name() if self.knowing.names and self.session_id else ""
        return self._name

    @property
    def turn_id(self) -> str:
        """The turn that it is in."""
        if self._turn is None:
            self._turn = self._find_turn() if self.knowing.turns and self.session_id else ""
        return self._turn

    def _find_name(self) -> str:
        sessions = stored.Sessions(self.knowing.state)
        try:
            found = sessions.get(self.session_id) or sessions.named(self.session_id, self.knowing.project)[0]
        except StoreError:
            return ""
        return found.name

    def _find_turn(self) -> str:
        from billhook.builtins.turn_tracker import turn_of

        try:
            return turn_of(self.knowing.state, self.session_id)[0]
        except StoreError:
            return ""
