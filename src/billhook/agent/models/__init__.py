"""The models that the agent can talk to, by name: `scripted:FILE`, `anthropic:MODEL`, `openai:MODEL`."""

from collections.abc import Mapping

from billhook.agent.model import Model
from billhook.agent.models.variables import key_in
from billhook.errors import UsageError

SERVICES = ("scripted", "anthropic", "openai")
DEFAULTS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5.5"}
"""Whom we ask when neither the name nor MODEL_ID says it."""

KEYS = {"anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "openai": ("OPENAI_API_KEY",)}
_HOW = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or take `--model scripted:FILE`, which needs no key"


def open_model(name: str, env: Mapping[str, str]) -> Model:
    """The model that a name stands for; without a name, of the service whose key is set. Raises UsageError. Only `env`
    counts: a project's `.env` must not choose where a conversation is sent."""
    with_key = (service for service, keys in KEYS.items() if any(env.get(key) for key in keys))
    service, _, model = (name or next(with_key, "")).partition(":")
    if not service and not name:
        raise UsageError("no model", hint=_HOW)
    if service == "scripted":
        from billhook.agent.models.scripted import Scripted

        if not model:
            raise UsageError("`scripted` needs a file", hint="as in --model scripted:turns.yaml")
        return Scripted.read(model)
    if service not in SERVICES:
        raise UsageError(f"unknown model `{name}`", hint=_meant(name, service))
    return _client(service, model or env.get("MODEL_ID") or DEFAULTS[service], env)


def _client(service: str, model: str, env: Mapping[str, str]) -> Model:
    key_in(env, *KEYS[service])  # before the SDK, which takes its time
    try:
        if service == "anthropic":
            from billhook.agent.models.anthropic import Anthropic

            return Anthropic(model, env)
        from billhook.agent.models.openai import OpenAI

        return OpenAI(model, env)
    except ModuleNotFoundError as error:
        from billhook.extras import install_command

        message = f"`{service}:{model}` needs the package `{error.name}`"
        raise UsageError(message, hint=install_command(service)) from None


def _meant(name: str, service: str) -> str:
    from billhook.config.findings import nearest

    for start, real in (("claude", "anthropic"), ("gpt", "openai")):
        if service.startswith(start):
            return f"did you mean `{real}:{name}`?"
    near = nearest(service, SERVICES)
    return f"did you mean `{near}:`?" if near else "one of scripted:FILE, anthropic:MODEL, openai:MODEL"
