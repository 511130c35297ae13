"""Why a model gave no answer, in the words that StopFailure knows."""

from collections.abc import Iterable

from billhook.agent.model import ModelError

KINDS = (
    "authentication_failed",
    "billing_error",
    "rate_limit",
    "overloaded",
    "invalid_request",
    "model_not_found",
    "server_error",
    "max_output_tokens",
    "unknown",
)

_BY_WORD = {
    # Anthropic's error types
    "authentication_error": "authentication_failed",
    "permission_error": "authentication_failed",
    "billing_error": "billing_error",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded",
    "invalid_request_error": "invalid_request",
    "not_found_error": "model_not_found",
    "api_error": "server_error",
    "timeout_error": "server_error",
    # OpenAI's error codes and types
    "invalid_api_key": "authentication_failed",
    "insufficient_quota": "billing_error",
    "billing_not_active": "billing_error",
    "billing_hard_limit_reached": "billing_error",
    "rate_limit_exceeded": "rate_limit",
    "model_not_found": "model_not_found",
    "server_error": "server_error",
}
_BY_STATUS = {
    400: "invalid_request",
    401: "authentication_failed",
    402: "billing_error",
    403: "authentication_failed",
    404: "model_not_found",
    408: "server_error",
    413: "invalid_request",
    422: "invalid_request",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}
_SAID = {
    "authentication_failed": ("refused the key", "check the key, and that it may use this model"),
    "billing_error": ("wants to be paid first", "look at the account's balance and limits"),
    "rate_limit": ("got too many requests", "wait a while, or ask for a higher limit"),
    "overloaded": ("is overloaded", "try again later"),
    "invalid_request": ("refused the request", ""),
    "model_not_found": ("has no such model", "check the model's name and the base URL"),
    "server_error": ("failed", "try again later"),
    "unknown": ("gave no answer", ""),
}


_SHORTEST = 8  # characters of a secret that is looked for in an error


def failure(error: Exception, service: str, secrets: Iterable[str]) -> ModelError:
    """What an SDK's error means, in our words. None of `secrets` that is long enough to be one is in it,
    whatever the service has repeated."""
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) and status >= 400 else None
    said = _message(error)
    kind = _kind(error, status, said)
    what, hint = _SAID[kind]
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
