"""How each agent is started for a canary: headless, in this folder, with its own settings, and with no model.

The address of the model is a loopback port on which nobody listens, and so is that of every proxy: nothing leaves the
machine, nothing costs, and an agent without a model runs no tool.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from billhook.hosts import HOSTS
from billhook.hosts.trusting import dig, settings_of

KEY: Final = "billhook-canary"  # what stands where a key has to be; nobody ever gets it


class Start(msgspec.Struct, frozen=True):
    """The words behind the program, and the variables."""

    words: tuple[str, ...]
    environ: Mapping[str, str]


def _claude(url: str, prompt: str) -> Start:
    environ = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_USE_BEDROCK": "",
        "CLAUDE_CODE_USE_VERTEX": "",
    }
    # What settings say about the model's address counts more than a variable; what the command line says, most.
    return Start(("-p", prompt, "--settings", json.dumps({"env": environ})), environ)


def _codex(url: str, prompt: str) -> Start:
    provider = (
        f'{{name="canary", base_url="{url}/v1", env_key="BILLHOOK_CANARY_KEY", wire_api="responses", '
        "request_max_retries=0, stream_max_retries=0, supports_websockets=false}"
    )
    said = ['model_provider="canary"', f"model_providers.canary={provider}", "check_for_update_on_startup=false"]
    said += ["analytics.enabled=false", 'sandbox_mode="read-only"']
    options = tuple(word for one in said for word in ("-c", one))
    return Start(("exec", "--skip-git-repo-check", *options, prompt), {"BILLHOOK_CANARY_KEY": KEY})


def _gemini(url: str, prompt: str) -> Start:
    environ = {"GEMINI_API_KEY": KEY, "GEMINI_TELEMETRY_ENABLED": "false"}
    said = settings_of(HOSTS["gemini"].file("user", ""))
    if dig(said, "security", "auth", "selectedType"):
        # With nothing chosen, it would take an address for a gateway, and want to know more of it; then there is only
        # the way through the proxy.
        environ["GOOGLE_GEMINI_BASE_URL"] = url
    return Start(("-p", prompt), environ)


def _qwen(url: str, prompt: str) -> Start:
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "canary"}
    return Start(("-p", prompt, "--auth-type", "openai"), environ)


def _copilot(url: str, prompt: str) -> Start:
    environ = {
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": "gpt-4.1",
    }
    return Start(("-p", prompt, "--no-color", "--no-auto-update", "--disable-builtin-mcps"), environ)


STARTS: Final[Mapping[str, Callable[[str, str], Start]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "qwen": _qwen,
    "copilot": _copilot,
}
"""The agents that can be started without an account."""


def environment(start: Start, url: str, around: Mapping[str, str]) -> dict[str, str]:
    """What the agent is started with: what is around us, no way out, and the agent's own words."""
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    nowhere = {name: url for upper in proxies for name in (upper, upper.lower())}
    local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    given = {**around, **nowhere, **local, "NO_COLOR": "1", "CI": "1", **start.environ}
    return {name: value for name, value in given.items() if value}
