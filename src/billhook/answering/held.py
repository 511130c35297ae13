"""Context that an event can't carry in an agent's dialect: it waits in the session for one that can."""

from pathlib import Path

from msgspec.structs import replace

from billhook.agents import Dialect
from billhook.answers import Answer
from billhook.events import Event
from billhook.store.files import StoreError
from billhook.store.held import LARGEST, Held
from billhook.store.state import FileState


def brought(root: str, dialect: Dialect, event: Event, answer: Answer) -> Answer:
    """The answer with what waited for an event like this. Where it can't be carried either, it is held once more."""
    row = getattr(dialect, "row", None)
    if row is None or not event.session_id or answer.objects or not row(event).context:
        return answer
    try:
        texts = Held(FileState(Path(root))).take(event.session_id)
    except StoreError:
        return answer
    joined = dialect.meanings.join.join([*texts, *filter(None, [answer.context])])
    return replace(answer, context=joined) if texts else answer


def hold(root: str, event: Event, text: str) -> str:
    """Let a text wait for a later event of the session; why it can't, or what had to go for it, when that is so."""
    if not event.session_id:
        return "context can't wait for another event: this one names no session"
    if len(text) > LARGEST:
        return f"context of more than {LARGEST:,} characters can't wait for another event"
    from billhook.store.redaction import Redactor

    if Redactor().redacted(text).texts:
        return "context with a secret in it is not written down to wait for another event"
    try:
        gone = Held(FileState(Path(root))).keep(event.session_id, text)
    except StoreError as error:
        return f"context can't wait for another event: {error.place}: {error.message}"
    return f"{gone} older texts that waited for another event are gone" if gone else ""
