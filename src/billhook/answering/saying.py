"""Lines for people who read what a hook says on stderr."""

from collections.abc import Iterable


def lines_for_people(lines: Iterable[str]) -> bytes:
    """Lines that say who speaks; control characters are made visible."""
    return "".join(f"billhook: {_visible(line)}\n" for line in lines).encode("utf-8", "replace")


def _visible(text: str) -> str:
    return "".join(char if char.isprintable() else " " if char in "\n\t" else f"\\x{ord(char):02x}" for char in text)
