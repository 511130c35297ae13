"""Why a model gave no answer, in the words that StopFailure knows."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from billhook.agent.model import ModelError


class _Kind(NamedTuple):
    what: str  # what the service did
    hint: str
    statuses: tuple[int, ...] = ()
    words: str = ""  # error types of Anthropic, error codes and types of OpenAI


_TABLE: Final = {
    "authentication_failed": _Kind(
        "refused the key",
        "check the key, and that it may use this model",
        (401, 403),
        "authentication_error permission_error invalid_api_key",
    ),
    "billing_error": _Kind(
        "wants to be paid first",
        "look at the account's balance and limits",
        (402,),
        "billing_error insufficient_quota billing_not_active billing_hard_limit_reached",
    ),
    "rate_limit": _Kind(
        "got too many requests",
        "wait a while, or ask for a higher limit",
        (429,),
        "rate_limit_error rate_limit_exceeded",
    ),
    "overloaded": _Kind("is overloaded", "try again later", (503, 529), "overloaded_error"),
    "invalid_request": _Kind("refused the request", "", (400, 413, 422), "invalid_request_error"),
    "model_not_found": _Kind(
        "has no such model", "check the model's name and the base URL", (404,), "not_found_error model_not_found"
    ),
    "server_error": _Kind("failed", "try again later", (408,), "api_error timeout_error server_error"),
    "unknown": _Kind("gave no answer", ""),
}
KINDS: Final = (*_TABLE, "max_output_tokens")
_BY_WORD: Final = {word: name for name, kind in _TABLE.items() for word in kind.words.split()}
_BY_STATUS: Final = {status: name for name, kind in _TABLE.items() for status in kind.statuses}
_SHORTEST = 8  # characters of a secret that is looked for in an error


def failure(error: Exception, service: str, secrets: Iterable[str]) -> ModelError:
    """What an SDK's error means, in our words, without the `secrets` that the service may have repeated."""
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) and status >= 400 else None
    said = _message(error)
    kind = _kind(error, status, said)
    what, hint, *_ = _TABLE[kind]
    if kind == "server_error" and not status:
        what = _on_the_way(error)
    for secret in secrets:
        if len(secret) < _SHORTEST:
            continue  # `k` stands in every other word
        said = said.replace(secret, "***")
    number = f" ({status})" if status else ""
    return ModelError(f"{service} {what}{number}: {said}", kind=kind, details=said, hint=hint)


def _kind(error: Exception, status: int | None, said: str) -> str:
    if "credit balance" in said:
        return "billing_error"  # Anthropic says it as an invalid request
    inner = _inner(error)
    for word in (inner.get("code"), inner.get("type")):
        # OpenAI's type for all that a caller can do wrong; the status says more.
        if isinstance(word, str) and word in _BY_WORD and not (status and word == "invalid_request_error"):
            return _BY_WORD[word]
    return _BY_STATUS.get(status, "server_error" if status >= 500 else "unknown") if status else "server_error"


def _on_the_way(error: Exception) -> str:
    name = type(error.__cause__ or error).__name__
    if "Timeout" in name:
        return "did not answer in time"
    return "can't be reached" if "Connect" in name else "broke off"


def _inner(error: Exception) -> dict[str, object]:
    """The part of an answer that describes the error. Both services nest it, and one SDK has unwrapped it already."""
    body = getattr(error, "body", None)
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    return body if isinstance(body, dict) else {}


def _message(error: Exception) -> str:
    said = _inner(error).get("message")
    if isinstance(said, str) and said:
        return said
    cause = error.__cause__ or error
    name, text = type(cause).__name__, " ".join(str(cause).split())[:500]
    return f"{name}: {text}" if text else name
