"""The tokens that a session has used, from its transcripts: no agent sends them to hooks.

A file is read from where it was read last. Agents write a message again when more of it is known, and Codex writes
sums: what was counted under the same id before is subtracted.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from billhook.agents.transcripts import named

_MOST_LAST: Final = 64  # messages that may still be written again


class Tokens(NamedTuple):
    """Numbers of tokens, by price. `input` and the two of the cache don't overlap."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def more(self, other: "Tokens", before: "Tokens") -> "Tokens":
        """With those of a message, of which `before` were counted."""
        return Tokens(*(a + max(0, b - c) for a, b, c in zip(self, other, before, strict=True)))


class TranscriptUse(msgspec.Struct, omit_defaults=True):
    """How far one transcript was read, and what it contains up to there."""

    end: int = 0  # in bytes
    model: str = ""  # the model of the present turn
    used: dict[str, Tokens] = {}  # by model
    last: dict[str, Tokens] = {}  # by message


def tokens_used(kept: dict[str, Any], transcript: str, session: str) -> dict[str, Tokens]:
    """The tokens of a session and its subagents by model. `kept` is updated: how far each file was read, and what it
    contained. Raises OSError, and ValidationError for an invalid `kept`."""
    readings = msgspec.convert(kept, dict[str, TranscriptUse])
    below = named(os.path.join(os.path.dirname(transcript), os.path.basename(session) or "."), ".jsonl")
    for path in (transcript, *(below if session else ())):
        if os.path.isfile(path):
            readings[path] = _read_on(readings.get(path, TranscriptUse()), path)
            kept[path] = msgspec.to_builtins(readings[path])
    used: dict[str, Tokens] = {}
    for reading in readings.values():
        for model, tokens in reading.used.items():
            used[model] = used.get(model, Tokens()).more(tokens, Tokens())
    return used


def _read_on(reading: TranscriptUse, path: str) -> TranscriptUse:
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < reading.end:
            reading = TranscriptUse()  # another file
        file.seek(reading.end)
        for line in file:
            if line.endswith(b"\n"):
                reading.end += len(line)
                for found in _uses(line):
                    _count(reading, found)
    return reading


def _count(reading: TranscriptUse, found: "_Use") -> None:
    reading.model = found.model or reading.model
    if any(found.tokens):
        before = reading.last.pop(found.id, Tokens())
        reading.last[found.id] = found.tokens
        reading.used[reading.model] = reading.used.get(reading.model, Tokens()).more(found.tokens, before)
        while len(reading.last) > _MOST_LAST:
            del reading.last[next(iter(reading.last))]


# The formats:


class _Use(NamedTuple):
    id: str
    model: str
    tokens: Tokens = Tokens()


class _ClaudeUsage(msgspec.Struct):
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0


class _ClaudeUse(msgspec.Struct):
    id: str
    model: str
    usage: _ClaudeUsage


class _ClaudeUseLine(msgspec.Struct):
    message: _ClaudeUse

    @property
    def found(self) -> _Use:
        numbers = (number or 0 for number in msgspec.structs.astuple(self.message.usage))
        return _Use(self.message.id, self.message.model, Tokens(*numbers))


class _CodexUsage(msgspec.Struct):
    """Sums of a session; those of the cache are a part of the input."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0


class _CodexInfo(msgspec.Struct):
    total_token_usage: _CodexUsage


class _CodexPayload(msgspec.Struct):
    model: str = ""
    info: _CodexInfo | None = None


class _CodexUseLine(msgspec.Struct):
    payload: _CodexPayload

    @property
    def found(self) -> _Use:
        if self.payload.info is None:
            return _Use("", self.payload.model)
        sums = self.payload.info.total_token_usage
        cached = sums.cached_input_tokens, sums.cache_write_input_tokens
        return _Use("", self.payload.model, Tokens(sums.input_tokens - sum(cached), sums.output_tokens, *cached))


class _GeminiTokens(msgspec.Struct):
    input: int = 0  # with those of the cache
    output: int = 0
    cached: int = 0
    thoughts: int = 0
    tool: int = 0


class _GeminiUseLine(msgspec.Struct):
    id: str
    model: str
    tokens: _GeminiTokens

    @property
    def found(self) -> _Use:
        one = self.tokens
        return _Use(
            self.id, self.model, Tokens(one.input - one.cached + one.tool, one.output + one.thoughts, one.cached)
        )


class _PiUsage(msgspec.Struct, rename="camel"):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class _PiUse(msgspec.Struct):
    model: str
    usage: _PiUsage


class _PiUseLine(msgspec.Struct):
    id: str
    message: _PiUse

    @property
    def found(self) -> _Use:
        return _Use(self.id, self.message.model, Tokens(*msgspec.structs.astuple(self.message.usage)))


_FORMATS: Final = (
    ((b'"usage"',), msgspec.json.Decoder(_ClaudeUseLine)),
    ((b'"total_token_usage"', b'"turn_context"'), msgspec.json.Decoder(_CodexUseLine)),
    ((b'"tokens"',), msgspec.json.Decoder(_GeminiUseLine)),
    ((b'"cacheRead"',), msgspec.json.Decoder(_PiUseLine)),
)
"""By agent: the words of its lines with tokens, or with the model of those that follow."""


def _uses(line: bytes) -> Iterator[_Use]:
    for words, decoder in _FORMATS:
        if any(word in line for word in words):
            with suppress(msgspec.MsgspecError):  # a line of another format, or with other content
                yield decoder.decode(line).found
