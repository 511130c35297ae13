"""An error as an HTTP answer: the same anatomy as everywhere, what is wrong, where, and what repairs it."""

from collections.abc import Mapping

from starlette.responses import Response

from billhook import strictjson
from billhook.errors import BillhookError

PLAIN = {"cache-control": "no-store", "x-content-type-options": "nosniff"}  # what every answer says of itself


def said(value: object, status: int = 200, headers: Mapping[str, str] = {}) -> Response:
    """A JSON answer."""
    content = strictjson.encode(value) + b"\n"
    return Response(content, status, media_type="application/json", headers={**PLAIN, **headers})


def problem(status: int, error: BillhookError | str, *, hint: str = "", headers: Mapping[str, str] = {}) -> Response:
    """An error in JSON."""
    if isinstance(error, str):
        error = BillhookError(error, hint=hint)
    shown = {"message": error.message, "place": error.place or None, "hint": error.hint or hint or None}
    return said({"error": shown}, status, headers)
