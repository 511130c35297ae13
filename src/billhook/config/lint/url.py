"""HTTP hooks that can't be sent (BH403), and addresses that give things away: BH508 and BH509."""

import importlib.util
import ipaddress
import re
from collections.abc import Iterator
from urllib.parse import SplitResult, parse_qsl, urlsplit

import msgspec

from billhook.config.declared import Declared, Url
from billhook.config.findings import Finding
from billhook.config.lint.found import edit, finding
from billhook.config.sources import agent_of
from billhook.extras import install_command

_SECRET = re.compile(r"(?:api|access|auth|secret|private)?[_-]?(?:key|token|secret|password|passwd|pwd|auth|sig)", re.I)


def lint_url(hook: Declared) -> Iterator[Finding]:
    """What is wrong with the address of an HTTP hook. No finding repeats a secret."""
    if not isinstance(hook.action, Url):
        return
    if importlib.util.find_spec("httpx") is None:
        message = "an HTTP hook needs the package `httpx`, which is not installed; it can't be run"
        found = finding(hook, "BH403", "action", message, install_command("http"))
        # in a file of an agent's own that agent sends the request, so it is only worth knowing
        yield msgspec.structs.replace(found, note=bool(agent_of(hook.file)))
    try:
        parts = urlsplit(hook.action.url)
        host = parts.hostname or ""
    except ValueError:
        return
    if parts.scheme.lower() == "http" and host and "$" not in host and not _loopback(host):
        query = re.sub(r"=[^&]*", "=...", parts.query)
        safe = parts._replace(scheme="https", netloc=parts.netloc.rpartition("@")[2], query=query).geturl()
        message = f"plain http to `{host}`: whoever is on the way can read events and forge answers"
        yield finding(hook, "BH508", "action", message, edit(hook, "url", safe))
    secret = _secret(parts)
    if secret:
        message = f"the address holds {secret}, for all who can read the file or a log"
        yield finding(hook, "BH509", "action", message, _header(hook))


def _loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _secret(parts: SplitResult) -> str:
    credentials = parts.netloc.rpartition("@")[0]
    if credentials and not credentials.lstrip(":").startswith("$"):
        return "a user name and password" if ":" in credentials else "a user name"
    names = [name for name, value in parse_qsl(parts.query) if _SECRET.fullmatch(name) and not value.startswith("$")]
    return f"a secret (`{names[0]}`)" if names else ""


def _header(hook: Declared) -> str:
    if hook.shape == "yaml":
        return 'send it as a header: `headers: {Authorization: "Bearer $TOKEN"}` and `allowedEnvVars: [TOKEN]`'
    return 'send it as a header: `"headers": {"Authorization": "Bearer $TOKEN"}, "allowedEnvVars": ["TOKEN"]`'
