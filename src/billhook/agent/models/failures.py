"""Why a model gave no answer, in the words that StopFailure knows."""

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
