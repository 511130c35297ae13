"""The guard runs last: what that changes for the hooks before it, and what it does not change."""

import time
from typing import Any

import pytest

from billhook import Verdict
from billhook.config.config import rows
from billhook.core.answers import Answer, Status, allow, ask, deny, rewrite, stop
from billhook.core.events import PreToolUse
from billhook.core.hook import Context, Hook
from config.project import Project

USER = "~/.config/billhook/hooks.yaml"
GATE = "guard"
TRUST = "billhook trust --all"
"""What it denies, in any folder."""
FOR_THE_PERSON = "`billhook trust` is for the user: they can run it in their own terminal."


def own(name: str, answer: Answer | None, **fields: Any) -> Hook:
    """A hook of the program that always returns the same answer."""

    def run(ctx: Context) -> Answer | None:
        return answer

    return Hook(name=name, run=run, **{"events": ("PreToolUse",), **fields})


@pytest.fixture(params=["false", "true"], ids=["in order", "in parallel"])
def mode(request: pytest.FixtureRequest, project: Project) -> Project:
    """A project whose hooks run in order, and one whose hooks run in parallel."""
    project.write(USER, f"parallelExecution: {request.param}\nhooks:\n  mine: {{events: PreToolUse, run: 'true'}}\n")
    assert project.load().parallel is (request.param == "true")
    return project


def fire(project: Project, command: str, *hooks: Hook, deadline: float | None = None) -> Verdict:
    event = PreToolUse(tool_name="Bash", tool_input={"command": command}, session_id="s", cwd=str(project.folder))
    return project.load(builtins=True).engine(hooks=hooks).fire_sync(event, deadline=deadline)


def statuses(verdict: Verdict) -> dict[str, str]:
    return {outcome.hook: outcome.status.value for outcome in verdict.outcomes}


@pytest.mark.parametrize("fields", ["", ", priority: 1", ", priority: 999", ", priority: 1000"])
@pytest.mark.parametrize("parallel", ["false", "true"])
def test_a_gate_of_the_user_runs_first(fields: str, parallel: str, project: Project) -> None:
    """If both would deny, the reason is that of the user's hook, and the built-in is skipped."""
    guard = f"{{events: PreToolUse, if: Bash(billhook *), deny: not here{fields}}}"
    project.write(USER, f"parallelExecution: {parallel}\nhooks:\n  guard: {guard}\n")
    verdict = fire(project, TRUST)
    assert (verdict.decision, verdict.reason) == ("deny", "not here")
    assert verdict.outcomes[-1].hook == f"built-in/{GATE}" and verdict.outcomes[-1].status is Status.SKIPPED


@pytest.mark.parametrize("answer", [None, allow("fine"), ask("sure?")], ids=["nothing", "allow", "ask"])
def test_its_deny_wins(answer: Answer | None, mode: Project) -> None:
    """Whatever the hooks before it answered."""
    verdict = fire(mode, TRUST, own("before", answer))
    assert (verdict.decision, verdict.reason) == ("deny", FOR_THE_PERSON)


def test_reasons_of_asks_are_in_order(mode: Project) -> None:
    """If both ask, the reason of the hook comes first."""
    verdict = fire(mode, "rm hooks.yaml", own("asks", ask("sure?")))
    assert verdict.decision == "ask"
    assert verdict.reason.startswith("sure?\n") and "hooks.yaml" in verdict.reason


@pytest.mark.parametrize("priority", [1, 100, 999, 5000])
def test_it_judges_the_input_that_runs(priority: int, mode: Project) -> None:
    """A rewrite to a call that it denies is denied, whatever the priority of the hook. In order, a harmless rewrite of
    a call that it would deny is allowed."""
    to_worse = own("rewrites", rewrite(input={"command": TRUST}), priority=priority)
    verdict = fire(mode, "ls", to_worse)
    assert (verdict.decision, verdict.reason) == ("deny", FOR_THE_PERSON)
    if not mode.load().parallel:
        passes = fire(mode, TRUST, own("rewrites", rewrite(input={"command": "ls"}), priority=priority))
        assert passes.decision == "none"


def test_a_rewriter_that_waits_for_it(mode: Project) -> None:
    """`after: [guard]` does not bypass it: it runs again."""
    verdict = fire(mode, "ls", own("rewrites", rewrite(input={"command": TRUST}), after=(GATE,)))
    assert (verdict.decision, verdict.reason) == ("deny", FOR_THE_PERSON)


@pytest.mark.parametrize("parallel", ["false", "true"])
def test_hooks_of_a_file_that_wait_for_it(parallel: str, project: Project) -> None:
    """They run after it, and it waits neither for them nor for hooks that wait for them."""
    hooks = "  c: {events: PreToolUse, run: 'true', after: [b]}\n  b: {events: PreToolUse, run: 'true', after: [%s]}\n"
    more = "  a: {events: PreToolUse, run: 'true'}\n"
    project.write(USER, f"parallelExecution: {parallel}\nhooks:\n{hooks % GATE}{more}")
    config = project.load(builtins=True)
    assert not config.problems
    assert [hook.name for hook in config.plan.hooks][-4:] == ["a", GATE, "b", "c"]
    ran = statuses(fire(project, "ls"))
    assert [ran[name] for name in ("a", GATE, "b", "c")] == ["ok"] * 4
    assert [row.after for row in rows(config) if row.name == GATE] == [()], "no file declares that it waits"
    assert statuses(fire(project, TRUST)) == {**ran, "b": "skipped", "c": "skipped"}


def test_a_larger_priority(mode: Project) -> None:
    """No priority places a hook after it."""
    late = own("late", allow("fine"), priority=10**18)
    assert fire(mode, TRUST, late).reason == FOR_THE_PERSON
    verdict = fire(mode, "ls", late)
    assert verdict.decision == "allow" and [one.hook for one in verdict.outcomes][-2:] == ["late", GATE]


@pytest.mark.parametrize("parallel", ["false", "true"])
def test_an_allow_of_a_larger_priority(parallel: str, project: Project) -> None:
    """A call that a hook of the user allows is allowed, whatever its priority."""
    yes = "{events: PreToolUse, if: Bash(git push *), allow: fine, priority: 100000}"
    project.write(USER, f"parallelExecution: {parallel}\nhooks:\n  yes: {yes}\n")
    assert fire(project, "git push --force origin feature").decision == "allow"


@pytest.mark.parametrize("answer", [stop("enough"), deny("no")], ids=["stop", "deny"])
def test_a_hook_that_ends_the_run(answer: Answer, project: Project) -> None:
    """The guard is skipped, and the call does not run."""
    verdict = fire(project, TRUST, own("ends", answer))
    assert (verdict.decision, statuses(verdict)[GATE]) == ("deny", "skipped")
    assert FOR_THE_PERSON not in verdict.reason


def test_the_deadline_passes_before_it(mode: Project) -> None:
    """It waits for no other hook, so it still runs: a harmless call is allowed if the slow hook fails open, others are
    not."""
    mode.write(USER, mode.path(USER).read_text() + "  slow: {events: PreToolUse, run: sleep 30}\n")
    began = time.monotonic()
    harmless = fire(mode, "ls", deadline=0.5)
    harmful = fire(mode, TRUST, deadline=0.5)
    assert time.monotonic() - began < 15
    assert (statuses(harmless)["slow"], statuses(harmless)[GATE]) == ("timed_out", "ok")
    assert (harmless.decision, harmful.decision) == ("none", "deny")
    assert FOR_THE_PERSON in harmful.reason
