"""The only reader for the output of hooks, and the only writer for their input.

In Python's reader the last duplicate key wins, NaN and infinities are accepted, and deep nesting is a crash; each of
these has turned a deny into an allow somewhere. Here they are errors.
"""

import functools
import re
from typing import TYPE_CHECKING, Any, Never

import msgspec

from billhook.core.errors import StrictJSONError
from billhook.core.lazy import lazy_module, pattern

if TYPE_CHECKING:
    import json
else:
    json = lazy_module("json")

MAX_DEPTH = 64
MAX_BYTES = 1 << 20

# A string that is never closed runs to the end; the possessive `*+` keeps hostile text from making this quadratic.
_TOKEN = pattern(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_LINE_END = pattern(b"\xc2\x85|\xe2\x80[\xa8\xa9]")  # U+0085, U+2028, U+2029: Node and Python split lines at them
_MAX_PREVIEW = 160
_INFINITE = float("inf")


def loads(text: str | bytes, *, max_depth: int = MAX_DEPTH, max_bytes: int | None = MAX_BYTES) -> Any:
    """Read exactly one JSON document; raise StrictJSONError for anything else.

    A byte order mark is accepted, bytes that are not UTF-8 are replaced. Lone surrogates (`\\ud800`) are kept:
    `dumps` writes them back as the same escape.
    """
    if max_bytes is not None and _size(text) > max_bytes:
        raise StrictJSONError(f"longer than {max_bytes:,} bytes")
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return _read(text.removeprefix("\ufeff"), _strictly(), max_depth)


def value_in(value: object, *, max_bytes: int | None = MAX_BYTES) -> Any:
    """The value of a string that is one JSON document; any other value unchanged."""
    try:
        return loads(value, max_bytes=max_bytes) if isinstance(value, str) else value
    except StrictJSONError:
        return value


def _read(text: str, decoder: "json.JSONDecoder", max_depth: int) -> Any:
    if too_deep(text, max_depth):
        raise StrictJSONError(f"nested deeper than {max_depth} levels")
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        extra = error.msg == "Extra data"
        what = "more text after the JSON document" if extra else error.msg[:1].lower() + error.msg[1:]
        raise StrictJSONError(f"{what} at line {error.lineno} column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        # Integers of more than 4,300 digits are a plain ValueError; a depth that we allow may still be too deep.
        raise StrictJSONError(str(error) or type(error).__name__) from None


def loads_own(data: bytes) -> Any:
    """Read a document that we wrote ourselves: our own format needs no strict check."""
    try:
        made = msgspec.json.decode(data)
        if _ENCODER.encode(made) == data.rstrip(b"\n") and not too_deep(data.decode(), MAX_DEPTH):
            return made
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    return loads(data, max_bytes=None)


def loads_leniently(data: bytes, *, max_depth: int) -> Any:
    """Read an agent's input: odd numbers, keys or escapes must not switch guards off. Numbers beyond a float are
    infinite, and the last of two equal keys counts. Still exactly one document."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    return _read(text, _leniently(), max_depth)


def encode(value: Any) -> bytes:
    """One compact line of ASCII: any JSON value, lone surrogates included. Values that JSON does not have become text
    or null: a NaN in a tool's input must not switch the guard off."""
    try:
        data = _ENCODER.encode(value)
        if data.isascii():
            return data
    except (TypeError, ValueError, OverflowError):
        pass  # a lone surrogate, an integer beyond 64 bits, a key that is not a string
    encoder = _encoder(escapes=True)
    try:
        return encoder.encode(value).encode("ascii")
    except (TypeError, ValueError):
        return encoder.encode(_sayable(value)).encode("ascii")


def dumps(value: Any) -> str:
    """`encode` as text."""
    return encode(value).decode("ascii")


def compact(value: Any) -> str:
    """One compact line without escapes for characters: for people and for `grep`."""
    return utf8(value).decode("utf-8", "surrogatepass")


def utf8(value: Any) -> bytes:
    """`compact` as bytes; a lone surrogate is encoded like any other character."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, OverflowError):
        return _encoder().encode(_sayable(value)).encode("utf-8", "surrogatepass")


def written(value: Any, *, spaced: bool = True) -> bytes:
    """One line for a hook, with characters instead of escapes, so that `grep` finds them. Lone surrogates and line ends
    stay escapes. `spaced`: with a space after `:` and `,`."""
    try:
        data = _ENCODER.encode(value)
        if spaced:
            data = msgspec.json.format(data, indent=0)
    except (TypeError, ValueError, OverflowError):
        data = _encoder(spaced=spaced).encode(_sayable(value)).encode("utf-8", "backslashreplace")
    if data.isascii():
        return data
    return _LINE_END.sub(lambda found: f"\\u{ord(found[0].decode()):04x}".encode(), data)


def too_deep(text: str, max_depth: int = MAX_DEPTH) -> bool:
    """Count brackets outside strings, in one pass, so that a nesting bomb never reaches a recursive parser."""
    if text.count("[") + text.count("{") <= max_depth:
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        bracket = token[0][0]
        if bracket in "[{":
            depth += 1
            if depth > max_depth:
                return True
        elif bracket in "]}":
            depth -= 1
    return False


def preview(text: str) -> str:
    """The start of some text for an error message, on one line, with control characters escaped."""
    shown = text[:_MAX_PREVIEW].encode("unicode_escape").decode("ascii")
    return shown + ("..." if len(text) > _MAX_PREVIEW else "")


def _size(text: str | bytes) -> int:
    return len(text) if isinstance(text, bytes) or text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _sayable(value: Any) -> Any:
    """A copy without the keys and numbers that JSON can't express. A cycle in it is a RecursionError."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _sayable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(one) for one in value]
    return None if isinstance(value, float) and not -_INFINITE < value < _INFINITE else value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {json.dumps(twice)} is given twice")
    return made


def any_int(digits: str) -> int | float:
    """An integer; one that is too long for Python becomes a float."""
    return int(digits) if len(digits) <= 4300 else float(digits)  # Python's own limit


def _constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if abs(value) == _INFINITE:
        raise ValueError(f"the number {text[:40]} is too large")
    return value


@functools.cache
def _strictly() -> "json.JSONDecoder":
    return json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)


@functools.cache
def _leniently() -> "json.JSONDecoder":
    return json.JSONDecoder(parse_constant=_constant, parse_int=any_int)


@functools.cache
def _encoder(*, spaced: bool = False, escapes: bool = False) -> "json.JSONEncoder":
    separators = None if spaced else (",", ":")
    return json.JSONEncoder(separators=separators, ensure_ascii=escapes, allow_nan=not escapes, default=str)


_ENCODER = msgspec.json.Encoder(enc_hook=str)
