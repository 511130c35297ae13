"""The models that the agent can use, by name; the interface of a model, and the settings of a service."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import msgspec

from billhook.agent.conversation import Message, Usage
from billhook.core.errors import BillhookError, UsageError


def key_in(env: Mapping[str, str], *names: str) -> tuple[str, str]:
    """The first of these variables that is set, and its value. Raises UsageError if it can't be sent."""
    for name in names:
        if key := env.get(name, "").strip():
            if key.isascii() and key.isprintable():
                return name, key
            raise UsageError(f"{name} contains a character that is not allowed in a key", hint="copy the key again")
    raise UsageError(f"no key: {names[0]} is not set", hint=f"set {' or '.join(names)}")


def address_in(env: Mapping[str, str], name: str, otherwise: str) -> str:
    """The address in a variable, or `otherwise`. Raises UsageError if it is not an address."""
    address = env.get(name, "").strip() or otherwise
    try:
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname:
            return address
    except ValueError:
        pass  # an unbalanced bracket
    raise UsageError(f"{name} is not the address of a service", hint=f"set it like {name}={otherwise}")


# The interface of a model:


UNREADABLE: Final = "unreadable_tool_call"
"""The name of a tool use with invalid input. No tool has this name: it is refused like an unknown tool, the model sees
its text and the error, and nothing runs with a wrong input. Its input contains the `tool`, the original `arguments`
and the `fault`."""


class ToolSpec(msgspec.Struct, frozen=True):
    """The description of a tool for the model. `schema` is the JSON Schema of its input."""

    name: str
    description: str
    schema: Mapping[str, Any]


class ModelRequest(msgspec.Struct, frozen=True):
    """The input of one model call. Without `tools` only text is expected: a summary, for example."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    agent: str = "main"  # the caller: `main`, a subagent's type or a teammate's name


class Completion(msgspec.Struct, frozen=True):
    """The model's answer."""

    message: Message
    usage: Usage = Usage()
    left_out: str = ""  # the unusable part of the answer, for the user; empty: all of it can be used


class ModelError(BillhookError):
    """The model gave no answer. `kind` is one of the values of StopFailure: `rate_limit`, `overloaded`,
    `authentication_failed`, `billing_error`, `invalid_request`, `model_not_found`, `server_error`, `max_output_tokens`,
    `unknown`."""

    def __init__(self, message: str, *, kind: str = "unknown", details: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.details = details


Say = Callable[[str], None]  # gets the text of an answer in pieces, as it arrives


class Model(Protocol):
    """A model. Lives as long as the agent; several tasks of one loop may call it at once."""

    @property
    def name(self) -> str: ...

    async def complete(self, request: ModelRequest, say: Say) -> Completion:
        """The answer to a request. Raises ModelError, after retries where they make sense."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


# Models by name:


SERVICES = ("scripted", "anthropic", "openai")
DEFAULTS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5.5"}
"""The default models, without a name and MODEL_ID."""

KEYS = {"anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "openai": ("OPENAI_API_KEY",)}
_HOW = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or use `--model scripted:FILE`, which needs no key"


def open_model(name: str, env: Mapping[str, str]) -> Model:
    """The model for a name; without a name, that of the service whose key is set. Raises UsageError. Only `env` counts:
    a project's `.env` must not choose where a conversation is sent."""
    with_key = (service for service, keys in KEYS.items() if any(env.get(key) for key in keys))
    service, _, model = (name or next(with_key, "")).partition(":")
    if not service and not name:
        raise UsageError("no model is configured", hint=_HOW)
    if service == "scripted":
        from billhook.agent.models.script import Scripted

        if not model:
            raise UsageError("`scripted` needs a file", hint="as in --model scripted:turns.yaml")
        return Scripted.read(model)
    if service not in SERVICES:
        raise UsageError(f"unknown model `{name}`", hint=_meant(name, service))
    return _client(service, model or env.get("MODEL_ID") or DEFAULTS[service], env)


def _client(service: str, model: str, env: Mapping[str, str]) -> Model:
    from billhook.agent.models.services import Anthropic, OpenAI

    key_in(env, *KEYS[service])  # before the SDK, which loads slowly
    try:
        return Anthropic(model, env) if service == "anthropic" else OpenAI(model, env)
    except ModuleNotFoundError as error:
        from billhook.core.text import install_command

        message = f"`{service}:{model}` needs the package `{error.name}`"
        raise UsageError(message, hint=install_command(service)) from None


def _meant(name: str, service: str) -> str:
    from billhook.core.text import nearest

    for start, real in (("claude", "anthropic"), ("gpt", "openai")):
        if service.startswith(start):
            return f"did you mean `{real}:{name}`?"
    near = nearest(service, SERVICES)
    return f"did you mean `{near}:`?" if near else "use one of scripted:FILE, anthropic:MODEL, openai:MODEL"
