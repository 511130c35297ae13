"""What happens in a run, as typed events: `--json` prints one line for each, the terminal a line where it helps.

Hook progress (`billhook.progress`) and these are one stream to whoever listens.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from billhook.agent.conversation import Usage


class Shown(msgspec.Struct, frozen=True, tag_field="type"):
    """Something that happened."""

    @property
    def type(self) -> str:
        """What kind of thing it is."""
        return str(type(self).__struct_config__.tag)


class SessionStarted(Shown, frozen=True, tag="session_started"):
    """The session is open, and SessionStart was fired."""

    session_id: str
    session_name: str
    source: str
    model: str
    cwd: str
    permission_mode: str
    transcript_path: str


class Prompted(Shown, frozen=True, tag="prompt"):
    """A prompt was submitted."""

    text: str


class TextDelta(Shown, frozen=True, tag="text_delta"):
    """A piece of what the model says, while it comes."""

    text: str
    agent: str


class Said(Shown, frozen=True, tag="message"):
    """What the model said in one reply, whole; its tool calls follow."""

    text: str
    agent: str
    usage: Usage


class ToolCalled(Shown, frozen=True, tag="tool_call"):
    """The model wants a tool to run; hooks and permissions come first."""

    tool_use_id: str
    name: str
    input: dict[str, Any]
    agent: str


class ToolEnded(Shown, frozen=True, tag="tool_result"):
    """What the model gets for it."""

    tool_use_id: str
    name: str
    content: str
    is_error: bool
    duration_ms: float
    agent: str


class Judged(Shown, frozen=True, tag="verdict"):
    """Hooks were asked about an event; `verdict` is the same object as everywhere."""

    verdict: dict[str, Any]


class Notice(Shown, frozen=True, tag="notice"):
    """Something that the person should know."""

    text: str


class Compacted(Shown, frozen=True, tag="compacted"):
    """The conversation was replaced by a summary."""

    trigger: str
    summary: str


class TaskChanged(Shown, frozen=True, tag="task"):
    """A background task or a teammate changed its state."""

    task_id: str
    subject: str
    state: Literal["started", "done", "failed", "open", "idle"]
    detail: str = ""


class Ended(Shown, frozen=True, tag="ended"):
    """A turn is over."""

    how: Literal["done", "blocked", "stopped", "failed", "interrupted"]
    """`blocked`: a hook refused the prompt; `stopped`: a hook ended the run; `failed`: the model gave no answer."""
    text: str
    """The last thing the model said, or the reason."""
    usage: Usage = Usage()


Show = Callable[[Any], None]
"""Gets everything that happens."""
