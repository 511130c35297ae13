"""What is known of an event's session at every event: its name and its turn."""

import msgspec

from billhook.events import Event
from billhook.hook import Known
from billhook.store.files import StoreError
from billhook.store.interfaces import State


class Knowing(msgspec.Struct, frozen=True):
    """Looks up a session. One that nobody named yet, because its start was not seen, gets its name here."""

    state: State
    project: str
    names: bool
    """Whether sessions have names."""
    turns: bool
    """Whether turns are tracked."""

    def __call__(self, event: Event) -> Known:
        """Never raises: where nothing can be read or written, the built-ins say so, and nothing is known."""
        from billhook.builtins.turn_tracker import turn_of
        from billhook.store.sessions import Sessions

        name = turn = ""
        try:
            if self.turns:
                turn, _ = turn_of(self.state, event.session_id)
        except StoreError:
            pass
        try:
            if self.names:
                sessions = Sessions(self.state)
                found = sessions.get(event.session_id) or sessions.named(event.session_id, self.project)[0]
                name = found.name
        except StoreError:
            pass
        return Known(session_name=name, turn_id=turn)
