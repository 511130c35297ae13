"""`billhook events rename`: give a session a name."""

import click

from billhook.cli.events_log import Here, here
from billhook.cli.events_sessions import is_logged, one
from billhook.cli.show import note, say, say_json
from billhook.errors import UsageError
from billhook.store.sessions import Sessions, is_an_id
from billhook.store.state import FileState
from billhook.text import counted, visible

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
    """Give a session a name: at most 64 characters of a-z A-Z 0-9 . _ - and not another session's id.

    SESSION is `.` (the newest of this project), its name, its id or the first 6 characters of that. Hooks get the new
    name from the next event on. The log keeps what it has; it is found and shown by the new name.
    """
    where = here()
    sessions = Sessions(FileState(where.root))
    project, session_id, others = _meant(session, where, sessions)
    if name not in (session_id, "") and is_logged(name, where):
        raise is_an_id(name)
    before = sessions.get(session_id)
    renamed = sessions.rename(session_id, name, project)
    if as_json:
        say_json(renamed)
    else:
        was = f" (it was {before.name})" if before and before.name != name else ""
        say(visible(f"session {session_id} is {renamed.name} now{was}"))
    if others:
        keep = "keeps" if len(others) == 1 else "keep"
        note(f"{counted(len(others), 'earlier session')} of that name {keep} it: {', '.join(others[:_NAMED])}")
    return 0


def _meant(word: str, where: Here, sessions: Sessions) -> tuple[str, str, list[str]]:
    """Project and id of the session, and the ids of others that have its name: those it had before it was cleared."""
    found = one(word, where)
    elsewhere = "`billhook events list --all` shows those elsewhere"
    if not found:
        raise UsageError("no session is recorded here yet", hint=elsewhere)
    if found == {where.project: frozenset(("",))}:
        raise UsageError("no session is recorded here yet: the events in this log name no session", hint=elsewhere)
    if len(found) == 1:
        ((project, ids),) = found.items()
        remembered = sessions.ids_of(word, project) if len(ids) > 1 else list(ids)
        if remembered:
            return project, remembered[0], remembered[1:]
    several = [id_ for ids in found.values() for id_ in sorted(ids)]
    named = ", ".join(several[:_NAMED])
    raise UsageError(f"{len(several)} sessions are called `{word}`", hint=f"name one by its id: {named}")
