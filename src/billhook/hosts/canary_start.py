"""The environment in which an agent is started for a canary: its own settings, and no model.

The address of the model is a loopback port on which nothing listens, and so is that of every proxy: nothing leaves the
machine, nothing costs, and an agent without a model runs no tool.
"""

from collections.abc import Mapping

from billhook.agents.base import Start


def environment(start: Start, url: str, around: Mapping[str, str]) -> dict[str, str]:
    """What the agent is started with: what is around us, no way out, and the agent's own words."""
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    nowhere = {name: url for upper in proxies for name in (upper, upper.lower())}
    local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    given = {**around, **nowhere, **local, "NO_COLOR": "1", "CI": "1", **start.environ}
    return {name: value for name, value in given.items() if value}
