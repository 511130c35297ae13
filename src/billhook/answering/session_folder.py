"""The folder in which a session began: its project's gates stay in force when the agent changes its folder.

Claude Code tells a command hook its project at every event (`CLAUDE_PROJECT_DIR`). An HTTP hook is told by a header,
where the agent has that variable, and otherwise only the folder of the moment.
"""

from contextlib import suppress
from typing import Final

from billhook.store.files import StoreError, state_root
from billhook.store.state import FileState

KIND: Final = "folders"
_MOST: Final = 1024
_known: dict[tuple[str, str], str] = {}


def began_in(session: str, folder: str) -> str:
    """The folder in which the session began; this one, when it was not heard of before."""
    if not session or not folder:
        return folder
    root = state_root()
    key = (str(root), session)
    found = _known.get(key)
    if found is None:
        found = folder
        with suppress(StoreError):  # a state that can't be written is reported by the log
            record = FileState(root).update(KIND, session, lambda before: None if before else {"folder": folder})
            found = str((record or {}).get("folder") or folder)
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = found
    return found
