"""Recipes in the real agents other than Claude Code, offline, added by `billhook add`: rows of docs/hosts.md.

Claude Code and the Claude Agent SDK have these cases in their own list of all cases.
"""

import pytest

from billhook.agents.base import CAPABILITIES
from clients.agents import AGENTS, find
from clients.case import Case
from clients.proving import prove
from clients.recipe_cases import RECIPE_CASES
from clients.table import KNOWN

pytestmark = pytest.mark.slow

_HOSTS = [host for host in AGENTS if host not in ("claude", "claude-sdk")]


@pytest.mark.parametrize("case", RECIPE_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("host", _HOSTS)
def test_recipe(host: str, case: Case) -> None:
    """A recipe works in each agent as far as the capability table allows."""
    binary = find(AGENTS[host])
    if binary is None:
        pytest.skip(f"{AGENTS[host].title} is not here: scripts/clients --install gets it")
    if case.needs not in CAPABILITIES[AGENTS[host].speaks]:
        pytest.skip(f"{AGENTS[host].title} has no {case.needs}")
    seen = prove(host, case, binary)
    expected = "not run" if (host, case.name) in KNOWN else seen.promised
    assert seen.seen == expected, (seen.ran.stdout, seen.ran.stderr)
