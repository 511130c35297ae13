"""What a command printed, as far as a model should see it: the beginning, the end, and how much lies between."""

import codecs
from typing import Self


class Output(bytearray):
    """Takes any amount of bytes and keeps `cap` characters of them, both ends. `process` adds to a bytearray what a
    command prints; as a bytearray this one stays empty."""

    def __init__(self, cap: int) -> None:
        super().__init__()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._half = cap // 2
        self._head = self._tail = ""
        self._count = 0

    def __iadd__(self, chunk: bytes, /) -> Self:  # type: ignore[override,misc]  # nobody adds anything else
        self._keep(self._decoder.decode(chunk))
        return self

    def _keep(self, text: str) -> None:
        room = self._half - len(self._head)
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-self._half :]
        self._count += len(text)

    def text(self) -> str:
        """All of it, or both ends with a line between them. Final: call it when nothing more comes."""
        self._keep(self._decoder.decode(b"", final=True))
        if left_out := self._count - len(self._head) - len(self._tail):
            return f"{self._head}\n[... {left_out:,} characters left out ...]\n{self._tail}"
        return self._head + self._tail
