"""Gives each session a name that people can say: `jolly-squid`.

The name is one that no recent session of the project has. It stays when the session is resumed or compacted, goes over
to the session that follows a `/clear`, and `billhook events rename` changes it. Later hooks read it with
`ctx.find("session-naming").data["sessionName"]`, and every hook with `ctx.session_name`. Where the agent names no
session there is none to name.
"""

from typing import Final

import msgspec

from billhook.answers import NOTHING, Answer
from billhook.hook import Context, Hook, Source
from billhook.store.sessions import Sessions

NAME: Final = "session-naming"


def session_naming(sessions: Sessions, project: str) -> Hook:
    """The built-in that names the sessions of a project."""
    return Hook(
        name=NAME,
        title="names the session",
        run=SessionNaming(sessions, project),
        events=("SessionStart",),
        priority=10,
        dialect="spec",
        source=Source(layer="built-in"),
    )


class SessionNaming(msgspec.Struct, frozen=True):
    """What the built-in does. A name that can't be kept makes it fail, which stops nobody."""

    sessions: Sessions
    project: str

    def __call__(self, ctx: Context) -> Answer:
        if not ctx.session_id:
            return NOTHING
        cleared = getattr(ctx.event, "source", "") == "clear"
        session, new = self.sessions.named(ctx.session_id, self.project, recover=cleared)
        source = session.source if new or session.source == "user" else "existing"
        return Answer(data={"sessionName": session.name, "isNew": new, "source": source})
