"""rate-limit: how many calls are allowed, when calls are allowed again, and what happens when the count is unknown."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from billhook import Context, Decision, Engine, Hook, deny, rewrite
from billhook.builtins.rate_limit import RateLimit, rate_limit
from billhook.builtins.trackers import turn_tracker
from billhook.core.answers import Status, Verdict
from billhook.core.errors import RuleError
from billhook.store.state import FileState


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 5000.0

    def __call__(self) -> float:
        return self.now


class Session:
    """A session whose calls are counted in one home."""

    def __init__(self, root: Path, *limits: RateLimit, session: str = "abc", project: str = "", cwd: str = "/") -> None:
        self.root = root
        self.session = session
        self.project, self.cwd = project, cwd
        self.limits = limits
        self.clock = Clock()
        self.more: list[Hook] = []

    def verdict(self, command: str = "curl example.com", tool: str = "Bash") -> Verdict:
        """Made with everything new, as in a separate process."""
        limited = rate_limit(FileState(self.root, seconds=0.2), self.limits, self.project, clock=self.clock)
        engine = Engine([limited, *self.more])
        return engine.fire_sync(
            {
                "hook_event_name": "PreToolUse",
                "session_id": self.session,
                "cwd": self.cwd,
                "tool_name": tool,
                "tool_input": {"command": command},
            }
        )

    def calls(self, number: int, command: str = "curl example.com") -> list[str]:
        return [self.verdict(command).decision.value for _ in range(number)]

    def stop(self) -> None:
        """The turn ends."""
        engine = Engine([turn_tracker(FileState(self.root))])
        engine.fire_sync({"hook_event_name": "Stop", "session_id": self.session})


CURL = "Bash(curl *)"


def test_the_hook(tmp_path: Path) -> None:
    """It is an ordinary gate: a limit that can't be counted does not pass."""
    hook = rate_limit(FileState(tmp_path), [RateLimit(at_most=1)])
    assert (hook.name, hook.priority, hook.events) == ("rate-limit", 15, ("PreToolUse",))
    assert (hook.on_failure, hook.dialect, str(hook.source)) == ("deny", "spec", "built-in") and hook.title


def test_at_most_so_many_per_session(tmp_path: Path) -> None:
    """The rest is denied; another session has its own count."""
    limit = RateLimit(rule=CURL, at_most=3, per="session")
    assert Session(tmp_path, limit).calls(5) == ["none"] * 3 + ["deny"] * 2
    assert Session(tmp_path, limit, session="def").calls(1) == ["none"]


def test_only_what_the_rule_strikes_is_counted(tmp_path: Path) -> None:
    """Other calls are allowed without reading the state; a line that may match counts."""
    session = Session(tmp_path / "home", RateLimit(rule=CURL, at_most=1))
    assert session.calls(5, "ls -l") == ["none"] * 5
    assert not (tmp_path / "home").exists()
    assert session.calls(1, "ls && curl a") == ["none"]
    assert session.calls(1, "ls; curl b") == ["deny"]
    assert session.calls(1, "ls") == ["none"]
    assert session.verdict(tool="Read").decision is Decision.NONE


def test_without_a_rule_every_call_counts(tmp_path: Path) -> None:
    """Of any tool."""
    session = Session(tmp_path, RateLimit(at_most=2))
    assert session.verdict("ls").decision is Decision.NONE
    assert session.verdict(tool="Read").decision is Decision.NONE
    refused = session.verdict(tool="mcp__x__y")
    assert refused.decision is Decision.DENY and "tool calls at most 2 times per session" in refused.reason


def test_per_turn(tmp_path: Path) -> None:
    """The count starts again when turn-tracker counts the next turn."""
    session = Session(tmp_path, RateLimit(rule=CURL, at_most=2, per="turn"))
    assert session.calls(3) == ["none", "none", "deny"]
    session.stop()
    assert session.calls(3) == ["none", "none", "deny"]


def test_per_minute_slides(tmp_path: Path) -> None:
    """Each call counts for 60 seconds, not until the end of the clock's minute."""
    session = Session(tmp_path, RateLimit(rule=CURL, at_most=2, per="minute"))
    assert session.calls(1) == ["none"]
    session.clock.now += 30
    assert session.calls(2) == ["none", "deny"]
    session.clock.now += 29
    assert session.calls(1) == ["deny"]
    session.clock.now += 1
    assert session.calls(2) == ["none", "deny"]
    session.clock.now += 3600
    assert session.calls(3) == ["none", "none", "deny"]


@pytest.mark.parametrize("per", ["turn", "session"])
def test_minutes(tmp_path: Path, per: Any) -> None:
    """They begin with the first call, not with the limit; they start again with a new turn, but not in a session."""
    session = Session(tmp_path, RateLimit(at_most=2, of="minutes", per=per, then="ask"))
    assert session.calls(2) == ["none", "none"]
    session.clock.now += 119
    assert session.calls(1) == ["none"]
    session.clock.now += 1
    refused = session.verdict()
    assert refused.decision == "ask" and f"at most 2 minutes per {per}" in refused.reason
    session.stop()
    assert session.calls(1) == (["none"] if per == "turn" else ["ask"])


def test_minutes_after_the_machine_was_started(tmp_path: Path) -> None:
    """A begin that lies ahead is now."""
    session = Session(tmp_path, RateLimit(at_most=1, of="minutes"))
    assert session.calls(1) == ["none"]
    session.clock.now = 10.0
    assert session.calls(1) == ["none"]
    session.clock.now = 70.0
    assert session.calls(1) == ["deny"]


def test_minutes_without_a_session(tmp_path: Path) -> None:
    """Its start is unknown: calls are still limited, minutes are not."""
    session = Session(tmp_path, RateLimit(at_most=1, of="minutes"), RateLimit(at_most=2), session="")
    session.calls(1)
    session.clock.now += 90
    assert session.calls(2) == ["none", "deny"]


def test_a_clock_that_was_reset(tmp_path: Path) -> None:
    """The machine was restarted: no call is allowed at once, and no call is denied for longer than a minute,
    also when calls keep being refused meanwhile."""
    session = Session(tmp_path, RateLimit(rule=CURL, at_most=2, per="minute"))
    assert session.calls(3) == ["none", "none", "deny"]
    session.clock.now = 10.0
    for _ in range(4):
        assert session.calls(1) == ["deny"]
        session.clock.now += 14.9
    session.clock.now = 70.0
    assert session.calls(3) == ["none", "none", "deny"]


@pytest.mark.parametrize("per", ["turn", "session"])
def test_without_a_session(tmp_path: Path, per: Any) -> None:
    """Calls count for an hour, and the reason explains it; a Stop of some agent does not reset the count."""
    session = Session(tmp_path, RateLimit(rule=CURL, at_most=2, per=per), session="")
    assert session.calls(3) == ["none", "none", "deny"]
    session.stop()
    session.clock.now += 3599.5
    refused = session.verdict()
    assert refused.reason == (
        "Limit: `Bash(curl *)` at most 2 times per hour, because the agent names no session; "
        "the next call is allowed in 1 s"
    )
    session.clock.now += 0.5
    assert session.calls(3) == ["none", "none", "deny"]


def test_without_a_session_a_minute_is_a_minute(tmp_path: Path) -> None:
    """It needs none."""
    session = Session(tmp_path, RateLimit(rule=CURL, at_most=1, per="minute"), session="")
    assert session.calls(2) == ["none", "deny"]
    session.clock.now += 60
    assert session.calls(2) == ["none", "deny"]


def test_without_a_session_projects_count_apart(tmp_path: Path) -> None:
    """Where no project is known, by the folder; in a project, wherever the agent goes in it."""
    limit = RateLimit(rule=CURL, at_most=1)
    for folder in ("/a", "/b", ""):
        assert Session(tmp_path, limit, session="", cwd=folder).calls(2) == ["none", "deny"]
    assert Session(tmp_path, limit, session="", project="/p", cwd="/p").calls(1) == ["none"]
    assert Session(tmp_path, limit, session="", project="/p", cwd="/p/src").calls(1) == ["deny"]
    assert Session(tmp_path, limit, session="", project="/q", cwd="/p").calls(1) == ["none"]


def test_the_clock_is_monotonic(tmp_path: Path) -> None:
    """Times are those of the monotonic clock, which all processes share."""
    before = time.monotonic()
    engine = Engine([rate_limit(FileState(tmp_path), [RateLimit(at_most=5, per="minute")])])
    engine.fire_sync({"hook_event_name": "PreToolUse", "session_id": "a", "tool_name": "Bash", "tool_input": {}})
    record = FileState(tmp_path).read("limits", "a")
    assert record is not None
    (at,) = record["counts"]["minute *"]["times"]
    assert before - 0.001 <= at <= time.monotonic() + 0.001


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (
            RateLimit(rule=CURL, at_most=1, per="turn"),
            "Limit: `Bash(curl *)` at most once per turn; the count starts again with the next turn",
        ),
        (
            RateLimit(rule=CURL, at_most=1, per="session", reason="The API is not ours."),
            "The API is not ours.\nLimit: `Bash(curl *)` at most once per session; it applies until the session ends",
        ),
        (
            RateLimit(at_most=1, per="minute"),
            "Limit: tool calls at most once per minute; the next call is allowed in 48 s",
        ),
    ],
    ids=["turn", "session", "minute"],
)
def test_the_reason_has_rule_limit_and_end(tmp_path: Path, limit: RateLimit, reason: str) -> None:
    """The reason tells the model what to do instead."""
    session = Session(tmp_path, limit)
    session.calls(1)
    session.clock.now += 12.5
    assert session.verdict().reason == reason


def test_then_ask(tmp_path: Path) -> None:
    """The user decides about each call beyond the limit; none of them counts."""
    session = Session(tmp_path, RateLimit(rule=CURL, at_most=1, per="minute", then="ask"))
    assert session.calls(3) == ["none", "ask", "ask"]
    session.clock.now += 60
    assert session.calls(2) == ["none", "ask"]


def test_several_limits(tmp_path: Path) -> None:
    """A call is allowed if all limits allow it; a denied call counts under none; the strictest limit answers."""
    session = Session(
        tmp_path,
        RateLimit(rule="Bash", at_most=4, per="session", then="ask"),
        RateLimit(rule=CURL, at_most=1, per="session", reason="no more curl"),
    )
    assert session.calls(3) == ["none", "deny", "deny"]
    assert session.calls(4, "ls") == ["none"] * 3 + ["ask"]
    refused = session.verdict()
    assert refused.decision is Decision.DENY and refused.reason.startswith("no more curl")


def test_two_limits_on_the_same_count(tmp_path: Path) -> None:
    """A call is counted once for both."""
    session = Session(tmp_path, RateLimit(rule=CURL, at_most=3), RateLimit(rule=CURL, at_most=5))
    assert session.calls(4) == ["none"] * 3 + ["deny"]


def test_a_limit_whose_number_was_changed(tmp_path: Path) -> None:
    """What was used up stays used up; also when less is allowed than was used."""
    assert Session(tmp_path, RateLimit(rule=CURL, at_most=2, per="minute")).calls(3) == ["none", "none", "deny"]
    assert Session(tmp_path, RateLimit(rule=CURL, at_most=3, per="minute")).calls(2) == ["none", "deny"]
    lowered = Session(tmp_path, RateLimit(rule=CURL, at_most=1, per="minute"))
    lowered.clock.now += 20
    assert lowered.verdict().reason.endswith("the next call is allowed in 40 s")


@pytest.mark.parametrize("per", ["turn", "session", "minute"])
def test_none_at_all(tmp_path: Path, per: Any) -> None:
    """A limit of zero allows nothing."""
    refused = Session(tmp_path, RateLimit(rule=CURL, at_most=0, per=per)).verdict()
    assert refused.decision is Decision.DENY and "at most 0 times" in refused.reason


def test_a_call_that_is_rewritten_counts_once(tmp_path: Path) -> None:
    """A gate runs again on the final input; limits that only that input matches are counted then."""
    session = Session(tmp_path, RateLimit(rule="Bash", at_most=2), RateLimit(rule="Bash(wget *)", at_most=1))
    session.more = [Hook(name="rewriter", run=lambda ctx: rewrite(input={"command": "wget x"}), priority=200)]
    assert session.calls(1, "curl x") == ["none"]
    record = FileState(tmp_path).read("limits", "abc")
    assert record == {"counts": {"session Bash": {"count": 1}, "session Bash(wget *)": {"count": 1}}}
    assert session.calls(1, "curl x") == ["deny"]


def test_a_call_that_was_denied_before_is_not_counted(tmp_path: Path) -> None:
    """The gate is not even asked."""
    session = Session(tmp_path, RateLimit(rule=CURL, at_most=1))

    def guard(ctx: Context) -> Any:
        return deny("no")

    session.more = [Hook(name="guard", run=guard, priority=10)]
    assert session.calls(3) == ["deny"] * 3
    session.more = []
    assert session.calls(1) == ["none"]


def test_a_rule_that_can_not_be_read(tmp_path: Path) -> None:
    """It is an error where the hook is made."""
    with pytest.raises(RuleError):
        rate_limit(FileState(tmp_path), [RateLimit(rule="Bash(", at_most=1)])


def unwritable(root: Path) -> None:
    root.write_text("")


def damaged(root: Path) -> None:
    (root / "billhook" / "limits").mkdir(parents=True)
    (root / "billhook" / "limits" / "abc.json").write_text("")


def edited(root: Path) -> None:
    (root / "billhook" / "limits").mkdir(parents=True)
    (root / "billhook" / "limits" / "abc.json").write_text('{"counts": {"session Bash(curl *)": {"count": "none"}}}')


@pytest.mark.parametrize("spoil", [unwritable, damaged, edited])
def test_a_limit_that_can_not_be_counted(tmp_path: Path, spoil: Any) -> None:
    """It denies every call, with a hint; calls that match no limit are allowed."""
    root = tmp_path / "home"
    spoil(root)
    session = Session(root, RateLimit(rule=CURL, at_most=5))
    verdict = session.verdict()
    (outcome,) = verdict.outcomes
    assert verdict.decision is Decision.DENY and outcome.status is Status.FAILED
    assert "remove" in outcome.error or "BILLHOOK_HOME" in outcome.error
    assert session.verdict("ls").decision is Decision.NONE


@pytest.mark.parametrize("session", ["../../x", "x" * 4096, "a\0b", "\ud800", ""])
def test_hostile_ids(tmp_path: Path, session: str) -> None:
    """They are counted like others, inside the root."""
    assert Session(tmp_path / "home", RateLimit(at_most=1), session=session).calls(2) == ["none", "deny"]
    assert os.listdir(tmp_path) == ["home"] and len(os.listdir(tmp_path / "home" / "billhook" / "limits")) == 1


def test_processes_share_the_limit(tmp_path: Path) -> None:
    """Eight processes make 200 calls at once: exactly 50 pass."""
    code = """
    import sys
    from pathlib import Path
    from billhook import Engine
    from billhook.builtins.rate_limit import RateLimit as Limit, rate_limit
    from billhook.store.state import FileState
    engine = Engine([rate_limit(FileState(Path(sys.argv[1])), [Limit(at_most=50), Limit(at_most=90, per="turn")])])
    event = {"hook_event_name": "PreToolUse", "session_id": "abc", "tool_name": "Bash", "tool_input": {}}
    for _ in range(25):
        print(engine.fire_sync(event).decision.value)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    decisions = [word for process in running for word in process.communicate(timeout=120)[0].split()]
    assert (decisions.count("none"), decisions.count("deny")) == (50, 150)
