"""What is known of an event's session at every event: its name and its turn."""

from functools import cached_property

import msgspec

from billhook.events import Event
from billhook.store.files import StoreError
from billhook.store.interfaces import State


class Knowing(msgspec.Struct, frozen=True):
    """Looks up the session of an event."""

    state: State
    project: str
    names: bool
    """Whether sessions have names."""
    turns: bool
    """Whether turns are tracked."""

    def __call__(self, event: Event) -> "Looked":
        return Looked(self, event.session_id)


class Looked:
    """One session, looked up when somebody asks. Never raises: where nothing can be read or written, the built-ins say
    so, and nothing is known."""

    def __init__(self, knowing: Knowing, session_id: str) -> None:
        self.knowing, self.session_id = knowing, session_id

    @cached_property
    def session_name(self) -> str:
        """Its name. One that nobody named yet, because its start was not seen, gets its name here."""
        if not self.knowing.names or not self.session_id:
            return ""
        from billhook.store.sessions import Sessions

        sessions = Sessions(self.knowing.state)
        try:
            found = sessions.get(self.session_id) or sessions.named(self.session_id, self.knowing.project)[0]
        except StoreError:
            return ""
        return found.name

    @cached_property
    def turn_id(self) -> str:
        """The turn that it is in."""
        if not self.knowing.turns or not self.session_id:
            return ""
        from billhook.builtins.turn_tracker import turn_of

        try:
            return turn_of(self.knowing.state, self.session_id)[0]
        except StoreError:
            return ""
