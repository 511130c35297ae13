"""The conversation between a user, a model and tools: plain records, from which each wire format is made."""

import os
import time
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

import msgspec

from billhook.core import strictjson
from billhook.core.errors import UsageError
from billhook.session.calls import ToolResult
from billhook.store.files import StoreError, file_name, opened, project_name, read_bytes
from billhook.store.log.eventlog import open_to_append


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class ToolUse(msgspec.Struct, frozen=True, eq=False, omit_defaults=True, tag_field="type", tag="tool_use"):
    """A tool call of the model. `id` is unique in the conversation."""

    id: str
    name: str
    input: dict[str, Any]
    sent: str = ""  # The text of the input as the model wrote it, for hooks that read it; empty if unknown.

    def __eq__(self, other: object) -> bool:
        """Whether it is the same call; the spacing of its text does not matter."""
        return isinstance(other, ToolUse) and (self.id, self.name, self.input) == (other.id, other.name, other.input)

    __hash__ = None  # type: ignore[assignment]  # its input is a dict


Block = Text | ToolUse | ToolResult


class Message(msgspec.Struct, frozen=True):
    """One turn of the conversation: text and tool results from the user's side, text and tool uses from the model."""

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def tool_uses(self) -> list[ToolUse]:
        return [block for block in self.content if isinstance(block, ToolUse)]


class Usage(msgspec.Struct, frozen=True):
    """The cost of a model call, in tokens."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


def user(*blocks: Block | str) -> Message:
    """A message from the user's side."""
    return Message("user", _blocks(blocks))


def assistant(*blocks: Block | str) -> Message:
    """A message of the model."""
    return Message("assistant", _blocks(blocks))


def unused_id(wanted: str, used: set[str]) -> str:
    """An unused id for a tool use, as similar as possible to the model's id. It is marked as used."""
    given = [wanted] if wanted else []
    ids = chain(given, (f"{wanted or 'call'}_{number}" for number in count(1 + len(given))))
    new = next(one for one in ids if one not in used)
    used.add(new)
    return new


def _blocks(blocks: Sequence[Block | str]) -> tuple[Block, ...]:
    return tuple(Text(block) if isinstance(block, str) else block for block in blocks)


# The conversation on disk:

_LONGEST = 1 << 30
INTERRUPTED = "interrupted: the tool may have run in part"
NOT_RUN = "not run: the turn was interrupted before it"


class Transcript:
    """One agent's transcript. Lives as long as the agent; each line is one write."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path, self.root = path, root
        self.problem = ""  # why it can't be written; the run continues without it
        self._torn = False

    def message(self, message: Message) -> None:
        self._append({"type": "message", **msgspec.to_builtins(message)})

    def compacted(self, messages: list[Message]) -> None:
        """Write the messages that are left after compaction."""
        self._append({"type": "compacted", "messages": msgspec.to_builtins(messages)})

    def _append(self, line: dict[str, Any]) -> None:
        # Half a character, which a tool may print, would make the line unreadable.
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text = strictjson.utf8({"time": now, **line}).decode("utf-8", "replace")
        data = b"\n" * self._torn + text.encode() + b"\n"
        self._torn = False
        try:
            with opened(self.path.parent, self.root, create=True) as folder:
                assert folder is not None
                file = open_to_append(folder, self.path)
                try:
                    self._torn = os.write(file, data) < len(data)  # a full disk: the next line begins with a newline
                finally:
                    os.close(file)
        except (StoreError, OSError) as error:
            self.problem = self.problem or f"the transcript can't be written: {error}"

    def read(self) -> list[Message]:
        """The conversation so far, without a torn last line. A tool call without a result gets one: models need it."""
        data = read_bytes(self.path, _LONGEST, root=self.root) or b""
        self._torn = data != b"" and not data.endswith(b"\n")
        messages: list[Message] = []
        for line in data.splitlines():
            try:
                read = msgspec.json.decode(line, type=_CompactionLine | _MessageLine)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            if isinstance(read, _CompactionLine):
                messages = list(read.messages)
            else:
                messages.append(Message(read.role, read.content))
        return _whole(messages)


class _MessageLine(msgspec.Struct, tag_field="type", tag="message"):
    role: Literal["user", "assistant"]
    content: tuple[Block, ...]


class _CompactionLine(msgspec.Struct, tag_field="type", tag="compacted"):
    messages: list[Message]


def transcript_of(root: Path, project: str, session_id: str, agent_id: str = "") -> Transcript:
    """The path of an agent's transcript: below the state root, by project and session."""
    folder = root / "billhook" / "transcripts" / project_name(project)
    name = file_name(session_id, folder)
    path = folder / name / f"{file_name(agent_id, folder)}.jsonl" if agent_id else folder / f"{name}.jsonl"
    return Transcript(path, root)


def resumed(root: Path, project: str, session_id: str) -> tuple[Transcript, list[Message]]:
    """The transcript of an earlier session of a project, and its conversation. Raises UsageError if there is none."""
    transcript = transcript_of(root, project, session_id)
    messages = transcript.read()
    if not messages:
        raise UsageError(
            f"session `{session_id}` has no transcript here",
            place=str(transcript.path),
            hint="`billhook events list` shows the sessions; only those of `billhook agent` can be resumed",
        )
    return transcript, messages


def _whole(messages: list[Message]) -> list[Message]:
    """The conversation with one result for each tool call, directly after it, and no result without a call."""
    blocks = (block for message in messages for block in message.content)
    results = {block.tool_use_id: block for block in blocks if isinstance(block, ToolResult)}
    whole: list[Message] = []
    for message in messages:
        rest = tuple(block for block in message.content if not isinstance(block, ToolResult))
        if rest:
            whole.append(Message(message.role, rest))
        uses = message.tool_uses
        if uses:
            given = (results.get(use.id) or ToolResult(use.id, INTERRUPTED, True) for use in uses)
            whole.append(user(*given))
    return whole
