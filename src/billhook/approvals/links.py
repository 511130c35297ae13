"""Signed links that answer a question: `{base}/approve/{id}?until=...&via=...&allow=SIGNATURE&deny=SIGNATURE`.

A link never answers by GET, because programs that show previews open every link. GET shows the question with two
buttons; a POST with `answer=allow` or `answer=deny` answers it. A signature covers the question, the answer, the time
until which the link is valid, and the channel. It works once, because a question is answered once.
"""

import hmac
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from billhook.core.errors import UsageError
from billhook.store.redaction import kept_key

ANSWERS: Final = ("allow", "deny")
PATH: Final = "/approve/"
_KEY: Final = "approvals.key"


class LinkError(UsageError):
    """A link that is not valid: a wrong signature, or one that has expired."""


def sign(key: bytes, id: str, answer: str, until: int, via: str) -> str:  # noqa: A002 (its name in the record)
    """The signature of one answer to one question."""
    return hmac.new(key, "\n".join((id, answer, str(until), via)).encode(), "sha256").hexdigest()


def link(root: Path, base: str, id: str, until: float, via: str) -> str:  # noqa: A002
    """The link of a question for one channel, valid until a time. Raises StoreError."""
    key, end = signing_key(root), int(until)
    signatures = {answer: sign(key, id, answer, end, via) for answer in ANSWERS}
    return f"{base.rstrip('/')}{PATH}{quote(id)}?{urlencode({'until': end, 'via': via, **signatures})}"


def check(root: Path, id: str, answer: str, fields: Mapping[str, str]) -> str:  # noqa: A002
    """Check the link of an answer; returns the channel. `fields` is the query of the link. Raises LinkError."""
    until, via = fields.get("until", ""), fields.get("via", "")
    if answer not in ANSWERS or not (until.isascii() and until.isdigit() and len(until) < 16):
        raise LinkError("this link is not complete")
    right = sign(signing_key(root), id, answer, int(until), via)
    if not hmac.compare_digest(right.encode(), fields.get(answer, "").encode()):
        raise LinkError("the signature of this link is wrong")
    if time.time() > int(until):
        raise LinkError("this link has expired")
    return via


def signing_key(root: Path) -> bytes:
    """The user's key for links, created if it is missing. Raises StoreError."""
    return kept_key(Path(root), _KEY)
