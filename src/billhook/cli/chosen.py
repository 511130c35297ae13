"""Which hooks a word of the command line means: a name that is unique here, or a hash. Never more than one by name."""

import re
from collections.abc import Iterable, Sequence

from billhook.config import Config, Entry
from billhook.errors import UsageError

_HASH = re.compile(r"[0-9a-f]{8,64}")
_SHORT = 12
_NAMED = 8  # hooks that a hint names; the rest is counted


def chosen(config: Config, word: str) -> list[Entry]:
    """The hooks that need consent and are meant by a word: the one that is shown so; else those that have the name
    when only one of them waits; else those with the hash. UsageError when several could be meant."""
    theirs = [entry for entry in config.entries if entry.hash]
    if shown := [entry for entry in theirs if entry.shown == word]:
        return shown
    named = [(entry, entry.declared) for entry in theirs]
    called = [entry for entry, one in named if word in (one.name, f"{one.layer}/{one.name}")]
    pending = [entry for entry in called if entry.pending]
    refuse_several(word, [(entry.shown, entry.hash) for entry in pending])
    if called:
        return pending or called
    hashed = [entry for entry in theirs if is_hash_of(word, entry.hash)]
    refuse_several(word, {entry.hash: (entry.shown, entry.hash) for entry in hashed}.values())
    return hashed


def is_hash_of(word: str, hash: str) -> bool:  # noqa: A002 (the word that everything else has for it)
    """Whether a word is a hash, or enough of its beginning."""
    return _HASH.fullmatch(word) is not None and hash.startswith(word)


def refuse_several(word: str, found: Iterable[tuple[str, str]]) -> None:
    """UsageError when a word means more than one hook, with what each of them is shown as and its hash."""
    several: Sequence[tuple[str, str]] = list(found)
    if len(several) < 2:
        return
    names = ", ".join(f"{shown} ({hash_[:_SHORT]})" for shown, hash_ in several[:_NAMED])
    more = f" and {len(several) - _NAMED} more" if len(several) > _NAMED else ""
    raise UsageError(f"`{word}` could mean {len(several)} hooks", hint=f"say which, by name or hash: {names}{more}")
