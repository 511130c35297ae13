"""The values of options: numbers, words, and JSON that is given as it is, in a file or on standard input."""

import math
import os
import sys
from collections.abc import Iterable
from typing import Any

import click

from billhook import strictjson
from billhook.errors import StrictJSONError, UsageError
from billhook.text import suggest

_QUOTING = {
    "--input": 'quote it for the shell, as in --input \'{"command": "ls"}\'',
    "--event": 'quote it for the shell, as in --event \'{"hook_event_name": "Stop"}\'',
}


def one_of(*words: str) -> dict[str, Any]:
    """The arguments of an option that takes one of a few words; a mistyped one is answered with the nearest."""

    def check(ctx: click.Context, param: click.Parameter, value: str) -> str:
        if value not in words:
            raise UsageError(f"unknown {param.opts[0]} `{value}`", hint=suggest(value, words))
        return value

    return {"metavar": "|".join(words), "default": words[0], "show_default": True, "callback": check}


def seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Reads a positive number of seconds."""
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if 0 < number < math.inf:
        return number
    option = param.opts[0]
    raise UsageError(f"{option} `{value}` is not a positive number of seconds", hint=f"as in {option} 2.5")


def words(texts: Iterable[str]) -> tuple[str, ...]:
    """The words between the commas of an option that may be repeated."""
    return tuple(word for text in texts for part in text.split(",") if (word := part.strip()))


def text_of(value: str, option: str) -> str:
    """An option's value, or what stands in the file that it names with @."""
    if not value.startswith("@"):
        # In a locale other than UTF-8, Python has not understood the bytes of the command line; JSON is always UTF-8.
        return os.fsencode(value).decode("utf-8", "surrogateescape")
    try:
        return _bytes_of(value[1:]).decode("utf-8", "replace").removeprefix("\ufeff")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{option} {value}: {why}", hint="@FILE reads a file, @- standard input") from None


def json_of(text: str, option: str, value: str) -> Any:
    """A text as JSON, whatever its size; UsageError says where it breaks. `value` is what stood on the command line."""
    try:
        return strictjson.loads(text, max_depth=400, max_bytes=None)
    except StrictJSONError as error:
        read = value.startswith("@")
        raise UsageError(
            f"{option} is not JSON: {error.message}: {strictjson.preview(text)}",
            place=value if read else "",
            hint="it must hold exactly one JSON document" if read else _QUOTING[option],
        ) from None


def json_or_text(value: str, option: str) -> Any:
    text = text_of(value, option)
    try:
        return strictjson.loads(text, max_depth=400, max_bytes=None)
    except StrictJSONError:
        return text


_taken: list[str] = []


def _bytes_of(path: str) -> bytes:
    if path != "-":
        with open(path, "rb") as file:
            return file.read()
    if sys.stdin is None:
        raise ValueError("standard input is closed")
    if _taken:
        raise ValueError("standard input was read already, for another option")
    _taken.append(path)
    return sys.stdin.buffer.read()
