"""`billhook events rename`: give a session a name."""

import click
import msgspec

from billhook import strictjson
from billhook.cli.events_log import here
from billhook.cli.events_sessions import one
from billhook.cli.show import safe, say
from billhook.errors import UsageError
from billhook.store.sessions import Sessions
from billhook.store.state import FileState

_NAMED = 8


@click.command(
    "rename",
    epilog="""\b
Examples:
  billhook events rename . login-rewrite
  billhook events rename jolly-squid login-rewrite""",
)
@click.argument("session", metavar="SESSION")
@click.argument("name", metavar="NAME")
@click.option("--json", "as_json", is_flag=True, help="Print the session as one line of JSON.")
def verb(session: str, name: str, as_json: bool) -> int:
    """Give a session a name: letters, digits, dots, hyphens and underscores.

    SESSION is `.` (the newest of this project), its name, its id or the first 6 characters of that. Hooks get the new
    name from the next event on. The log keeps what it has; it is found and shown by the new name.
    """
    where = here()
    ids = [(project, id_) for project, found in one(session, where).items() for id_ in sorted(found)]
    if not ids:
        raise UsageError("no session is recorded here yet", hint="`billhook events list --all` shows those elsewhere")
    sessions = Sessions(FileState(where.root))
    if len(ids) > 1:
        project, newest = ids[0][0], sessions.ids_of(session, ids[0][0])[:1]
        several = ", ".join(id_ for _, id_ in ids[:_NAMED])
        if len({of for of, _ in ids}) > 1 or not newest:
            raise UsageError(f"{len(ids)} sessions are called `{session}`", hint=f"name one by its id: {several}")
        ids = [(project, newest[0])]
    project, session_id = ids[0]
    before = sessions.get(session_id)
    renamed = sessions.rename(session_id, name, project)
    if as_json:
        say(strictjson.dumps(msgspec.to_builtins(renamed)))
    else:
        was = f" (it was {before.name})" if before and before.name != name else ""
        say(safe(f"session {session_id} is {renamed.name} now{was}"))
    return 0
