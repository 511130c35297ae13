"""Classifies the output of a child: empty, text, a JSON answer, a broken JSON answer; and finds a deny anywhere in
it."""

import functools
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from billhook.core import strictjson
from billhook.core.answer_json import read_output
from billhook.core.answer_schema import ALL_SPECIFIC, PERMISSION_FIELDS, PIPELINE, UNIVERSAL
from billhook.core.answers import Exit, Reply, Status
from billhook.core.dialect_traits import Meanings
from billhook.core.errors import StrictJSONError
from billhook.core.events import Event
from billhook.core.lazy import lazy_module, pattern

if TYPE_CHECKING:
    import json
else:
    json = lazy_module("json")


class StdoutContent(NamedTuple):
    """Stdout, classified once."""

    text: str
    output: dict[str, Any] | None = None
    broken: str = ""

    @property
    def plain(self) -> str:
        """The text, if it is not JSON and not broken JSON."""
        return "" if self.output is not None or self.broken else self.text


def printed(exit: Exit) -> StdoutContent:  # noqa: A002
    text = exit.stdout_text.removeprefix("\ufeff").strip()
    if not text.startswith("{"):
        return StdoutContent(text)
    try:
        output = strictjson.loads(text)
    except StrictJSONError as error:
        cut = " (cut at the cap)" if exit.truncated else ""
        return StdoutContent(
            text, broken=f"stdout is not one JSON document: {error.message}{cut}: {strictjson.preview(text)}"
        )
    return StdoutContent(text, output=output)


def names_a_field(text: str) -> bool:
    """Whether text that is not JSON contains a key of the protocol, with or without quotes, in any spelling: then it
    was meant as an answer."""
    return any(word.replace("_", "").lower() in _field_names() for word in _KEY.findall(text)) or "\\u00" in text


_KEY = pattern(r"""(?<![A-Za-z_])([A-Za-z_]{1,40}+)\\?["'`]?\s*[:=]""")


@functools.cache
def _field_names() -> frozenset[str]:
    return frozenset(key.lower() for key in (*UNIVERSAL, *ALL_SPECIFIC, *PERMISSION_FIELDS)) | PIPELINE


# -- a deny in garbage ---------------------------------------------------------------------------------------------

_DENIES = pattern(
    r'"(?:decision|permissionDecision|permission|behavior|action)"\s*:\s*"(?:block|deny|decline|cancel)"'
    r'|"continue"\s*:\s*false|"block"\s*:\s*true'
    r"|\\u00",  # any of these words may be escaped
    re.IGNORECASE,
)
_START = pattern(r'\{\s*"')
_BUDGET = 1 << 25  # The limit of a search, in characters: some thirty passes over the longest output.

ReaderSyntax = Callable[[dict[str, Any]], Reply]


def objection_in(exit: Exit, event: Event, meanings: Meanings, also: ReaderSyntax | None = None) -> Reply | None:  # noqa: A002
    """A complete deny anywhere in output that is not one JSON document: after banners, beside or inside another
    document, with duplicate keys, in an unusual encoding. `also`: a further reader. Reads leniently, because a result
    can only make the decision stricter. Output that is too large or too deep to be searched, and contains the words of
    a deny, is a deny."""
    if b"{" not in exit.stdout:
        return None
    for text in _decoded(exit.stdout):
        if not _DENIES.search(text):
            continue
        found = _search(text, event, meanings, also)
        if found is not None:
            return found
    return None


def _decoded(stdout: bytes) -> Iterator[str]:
    """The output in every possible encoding; PowerShell writes UTF-16."""
    yield stdout.decode("utf-8", "replace")
    if b"\0" in stdout:
        yield stdout.replace(b"\0", b"").decode("utf-8", "replace")
        for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
            yield stdout.decode(encoding, "replace")
            yield stdout[1:].decode(encoding, "replace")


def _search(text: str, event: Event, meanings: Meanings, also: ReaderSyntax | None) -> Reply | None:
    budget = _BUDGET
    start = _START.search(text)
    while start is not None:
        at = start.start()
        try:
            _, end = _decoders()[0].raw_decode(text, at)
            worded = _DENIES.search(text, at, end) is not None
            found = _objection(text, at, event, meanings, also) if worded else None
        except json.JSONDecodeError as error:
            # The decoder counts the lines before an error: its cost grows with the position.
            budget -= error.pos - at + error.pos // 8 + 256
        except RecursionError:
            return _refusal(event, meanings)
        else:
            if found is not None:
                return found
            budget -= (end - at) // 4 + (8192 if worded else 256)
        if budget < 0:
            return _refusal(event, meanings)
        start = _START.search(text, at + 1)  # inside it, too
    return None


def _objection(text: str, at: int, event: Event, meanings: Meanings, also: ReaderSyntax | None) -> Reply | None:
    """The deny in the document at a position, with any reader."""
    for decoder in _decoders():
        document, _ = decoder.raw_decode(text, at)
        for reply in (read_output(event, document, meanings), *([also(document)] if also else [])):
            if reply.status is Status.OK and reply.answer.objects:
                return replace(reply, error="the deny was inside other output")
    return None


def _refusal(event: Event, meanings: Meanings) -> Reply | None:
    reason = "the hook printed a deny inside output that can't be read"
    if event.hook_event_name == "PermissionRequest":
        said = {"hookEventName": event.hook_event_name, "decision": {"behavior": "deny", "message": reason}}
        return read_output(event, {"hookSpecificOutput": said}, meanings)
    return read_output(event, {"decision": "block", "reason": reason}, meanings)


def _strictest(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a duplicate key, the value that objects."""
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key not in made or _objects(value) or not _objects(made[key]):
            made[key] = value
    return made


def _objects(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_objects, value.values()))
    return value is False or (isinstance(value, str) and value in {"block", "deny", "decline", "cancel"})


@functools.cache
def _decoders() -> "tuple[json.JSONDecoder, ...]":
    """The last of two equal keys wins; the first; the strictest."""
    return tuple(
        json.JSONDecoder(strict=False, parse_int=strictjson.any_int, object_pairs_hook=hook)
        for hook in (None, lambda pairs: dict(reversed(pairs)), _strictest)
    )
