"""Signed links that answer a question: `{base}/approve/{id}?until=...&via=...&by=...&allow=SIGNATURE&deny=SIGNATURE`.

A link never answers by GET, because programs that show previews open every link. GET shows the question with two
buttons; a POST with `answer=allow` or `answer=deny` answers it. A signature covers the question, the answer, the time
until which the link is valid, and the channel. It works once, because a question is answered once.
"""

import hmac
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from billhook.core.errors import UsageError
from billhook.store.redaction import kept_key

ANSWERS: Final = ("allow", "deny")
PATH: Final = "/approve/"
_KEY: Final = "approvals.key"


class LinkError(UsageError):
    """A link that is not valid: a wrong signature, or one that has expired."""


class LinkOwner(NamedTuple):
    """Who got a link: the channel, and the person that the configuration names for it."""

    via: str
    by: str = ""


def sign(key: bytes, id: str, answer: str, until: int, owner: LinkOwner) -> str:  # noqa: A002 (its name in the record)
    """The signature of one answer to one question."""
    signed = "\n".join((id, answer, str(until), quote(owner.via), quote(owner.by)))
    return hmac.new(key, signed.encode(), "sha256").hexdigest()


def link(root: Path, base: str, id: str, until: float, owner: LinkOwner) -> str:  # noqa: A002
    """The link of a question for one channel, valid until a time. Raises StoreError."""
    key, end = signing_key(root), int(until)
    fields = {"until": end, **owner._asdict(), **{one: sign(key, id, one, end, owner) for one in ANSWERS}}
    return f"{base.rstrip('/')}{PATH}{quote(id)}?{urlencode(fields)}"


def check(root: Path, id: str, answer: str, fields: Mapping[str, str]) -> LinkOwner:  # noqa: A002
    """Check the link of an answer; returns whose it is. `fields` is the query of the link. Raises LinkError."""
    until, owner = fields.get("until", ""), LinkOwner(fields.get("via", ""), fields.get("by", ""))
    if answer not in ANSWERS or not (until.isascii() and until.isdigit() and len(until) < 16):
        raise LinkError("this link is not complete")
    right = sign(signing_key(root), id, answer, int(until), owner)
    if not hmac.compare_digest(right.encode(), fields.get(answer, "").encode("utf-8", "replace")):
        raise LinkError("the signature of this link is wrong")
    if time.time() > int(until):
        raise LinkError("this link has expired")
    return owner


def signing_key(root: Path) -> bytes:
    """The user's key for links, created if it is missing. Raises StoreError."""
    return kept_key(Path(root), _KEY)
