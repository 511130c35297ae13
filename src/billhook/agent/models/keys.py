"""The keys of services: from the environment that the caller gives, and from nowhere else."""

from collections.abc import Mapping

from billhook.errors import UsageError


def key_in(env: Mapping[str, str], *names: str) -> tuple[str, str]:
    """The first of these variables that has a value, and the value. Raises UsageError if it can't be sent."""
    for name in names:
        if key := env.get(name, "").strip():
            if key.isascii() and key.isprintable():
                return name, key
            raise UsageError(f"{name} holds a character that no key has", hint="copy the key again")
    raise UsageError(f"no key: {names[0]} is not set", hint=f"set {' or '.join(names)}")
