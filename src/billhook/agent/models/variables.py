"""What a service needs to know: from the environment that the caller gives, and from nowhere else."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from billhook.errors import UsageError


def key_in(env: Mapping[str, str], *names: str) -> tuple[str, str]:
    """The first of these variables that has a value, and the value. Raises UsageError if it can't be sent."""
    for name in names:
        if key := env.get(name, "").strip():
            if key.isascii() and key.isprintable():
                return name, key
            raise UsageError(f"{name} holds a character that no key has", hint="copy the key again")
    raise UsageError(f"no key: {names[0]} is not set", hint=f"set {' or '.join(names)}")


def address_in(env: Mapping[str, str], name: str, otherwise: str) -> str:
    """The address that a variable gives, or `otherwise`. Raises UsageError if it is none."""
    address = env.get(name, "").strip() or otherwise
    try:
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname:
            return address
    except ValueError:
        pass  # a bracket without its other half
    raise UsageError(f"{name} is no address of a service", hint=f"as in {name}={otherwise}")
