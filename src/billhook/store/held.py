"""Context that one event of a session could not carry to the model, and that waits for one which can."""

from typing import Final

from billhook.store.state import FileState, Value

KIND: Final = "held"
MOST: Final = 16  # texts of one session
LARGEST: Final = 64 << 10  # characters of all of them


class Held:
    """What waits, by session. Keeps nothing open; every method raises StoreError."""

    def __init__(self, state: FileState) -> None:
        self._state = state

    def keep(self, session: str, text: str) -> int:
        """Let a text wait; how many had to go for it. The same text waits once."""
        gone: list[int] = [0]

        def change(record: Value | None) -> Value | None:
            texts = _texts(record)
            if text in texts:
                return None
            kept = [*texts, text][-MOST:]
            while kept and sum(map(len, kept)) > LARGEST:
                del kept[0]
            gone[0] = len(texts) + 1 - len(kept)
            return {"texts": kept}

        self._state.update(KIND, session, change)
        return gone[0]

    def take(self, session: str) -> list[str]:
        """All that waits, oldest first; it waits no longer."""
        if not _texts(self._state.read(KIND, session)):
            return []
        found: list[str] = []

        def change(record: Value | None) -> Value:
            found.extend(_texts(record))
            return {"texts": []}

        self._state.update(KIND, session, change)
        return found


def _texts(record: Value | None) -> list[str]:
    texts = (record or {}).get("texts")
    return [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else []
