"""The guard in the real agents other than Claude Code, offline, right after `billhook install`: rows of docs/hosts.md.

Claude Code and the Claude Agent SDK have these cases in their own list of all cases.
"""

import pytest

from clients.agents import AGENTS, find
from clients.case import Case
from clients.guard_cases import GUARD_CASES
from clients.proving import prove
from clients.table import KNOWN

pytestmark = pytest.mark.slow

_HOSTS = [host for host in AGENTS if host not in ("claude", "claude-sdk")]


@pytest.mark.parametrize("case", GUARD_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("host", _HOSTS)
def test_guard(host: str, case: Case) -> None:
    """Denied calls don't run, and the model reads why; allowed calls run."""
    binary = find(AGENTS[host])
    if binary is None:
        pytest.skip(f"{AGENTS[host].title} is not here: scripts/clients --install gets it")
    seen = prove(host, case, binary)
    expected = "not run" if (host, case.name) in KNOWN else seen.promised
    assert seen.seen == expected, (seen.ran.stdout, seen.ran.stderr)
