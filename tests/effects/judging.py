"""The real guard in a real repository, for tests."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from billhook import Engine, PreToolUse
from billhook.builtins.guard import GuardSettings, guard
from billhook.effects import gitstate
from billhook.effects.analysis import effects_of
from billhook.effects.effect import ProtectedPaths

# A busy machine must not change a decision: the look at the repository takes the time that it needs.
_defaults = gitstate.uncommitted.__kwdefaults__
assert _defaults is not None
_defaults["deadline_ms"] = 60_000.0


class Judgement(msgspec.Struct, frozen=True):
    """The guard's answer about a call."""

    decision: str
    reason: str
    effects: tuple[str, ...]  # `kind:scope`; what is only read is left out

    @property
    def stopped(self) -> bool:
        return self.decision in ("ask", "deny")


def engine(preset: str = "standard") -> Engine:
    return Engine([guard(ProtectedPaths(), GuardSettings(preset))])


def judge(judging: Engine, cwd: str, tool: str, given: Mapping[str, Any]) -> Judgement:
    event = PreToolUse(session_id="s", cwd=cwd, tool_name=tool, tool_input=dict(given))
    verdict = judging.fire_sync(event)
    failed = [outcome for outcome in verdict.outcomes if outcome.status != "ok"]
    assert not failed, failed
    effects = dict.fromkeys(f"{each.kind}:{each.scope}" for each in effects_of(event) if each.kind != "read")
    return Judgement(str(verdict.decision), verdict.reason or "", tuple(effects))


@contextmanager
def home_is(home: str) -> Iterator[None]:
    """The guard looks up the home folder of its caller."""
    before = {name: os.environ.get(name) for name in ("HOME", "TMPDIR")}
    os.environ["HOME"] = home
    os.environ.pop("TMPDIR", None)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is not None:
                os.environ[name] = value
