"""Permission: rules, hooks and the user decide about a call that no hook denied."""

import asyncio
from typing import Any

import pytest

from billhook import Answer, Decision, Hook, allow, ask, deny, inject, notify, rewrite, stop
from billhook.session import Question, Ruling, Session, ToolResult
from session.around import LS, Noted, Rules, run, says

ALLOW, ASK, DENY = Ruling(Decision.ALLOW), Ruling(Decision.ASK, "asks for Bash", "mode default"), Ruling(Decision.DENY)
FIRM = Ruling(Decision.ASK, "ask rule Bash(ls)", "rule Bash(ls)", firm=True)
OTHER = {"command": "ls --safe"}


class Person:
    """A user who answers, and records the questions."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Any:
        self.asked.append(question)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def called(noted: Noted, rules: Rules | None, person: Any = None, **options: Any) -> ToolResult:
    async def work() -> ToolResult:
        async with noted.session(permissions=rules, ask=person, **options) as session:
            return await session.call_tool("Bash", LS, lambda given: given["command"], tool_use_id="1")

    return run(work())


def behaves(behavior: str, **more: Any) -> dict[str, Any]:
    """A PermissionRequest hook's answer, as the reference has it."""
    decision = {"behavior": behavior, **more}
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


# -- rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reported", "decision"), [(None, "none"), (inject("x"), "none"), (allow(), "allow"), (ask("sure?"), "ask")]
)
def test_what_rules_are_told(reported: Answer | None, decision: str) -> None:
    """The call, its folder and mode, and the decision of the hooks."""
    rules = Rules(ALLOW)
    noted = Noted(*([says("PreToolUse", reported)] if reported else []))

    called(noted, rules, cwd="/somewhere", permission_mode="plan")

    assert rules.judged == [("Bash", LS, "/somewhere", "plan", Decision(decision))]


def test_rules_are_skipped_for_a_denied_call() -> None:
    """A hook's deny is the end of it."""
    rules = Rules(ALLOW)

    assert called(Noted(says("PreToolUse", deny("no"))), rules).content == "no"
    assert rules.judged == []


@pytest.mark.parametrize(
    ("ruling", "reason"), [(Ruling(Decision.DENY, "rule Bash(ls)"), "rule Bash(ls)"), (DENY, "Bash is not permitted")]
)
@pytest.mark.parametrize("reported", [None, allow("fine")])
def test_a_rule_denies(reported: Answer | None, ruling: Ruling, reason: str) -> None:
    """No hook's allow and no user overrides it; PermissionDenied has the call and the reason."""
    person = Person(True)
    noted = Noted(*([says("PreToolUse", reported)] if reported else []))

    assert called(noted, Rules(ruling), person) == ToolResult("1", reason, True)
    assert noted.inside == ["PreToolUse", "PermissionDenied"]
    denied = noted.of("PermissionDenied")
    assert (denied["tool_name"], denied["tool_input"], denied["tool_use_id"]) == ("Bash", LS, "1")
    assert denied["reason"] == reason
    assert person.asked == []


def test_a_hook_may_let_the_model_try_again() -> None:
    """PermissionDenied's `retry` is told to the model."""
    reported = {"hookSpecificOutput": {"hookEventName": "PermissionDenied", "retry": True}}
    noted = Noted(says("PermissionDenied", reported, dialect="claude"))

    assert called(noted, Rules(DENY)).content == "Bash is not permitted\nA hook allows you to try again."


def test_broken_rules_deny() -> None:
    """The call has its one result, an error with the reason."""

    class LogFault(Rules):
        def judge(self, *call: Any, **options: Any) -> Ruling:
            raise KeyError("no such rule")

    noted = Noted()

    assert called(noted, LogFault(ALLOW)) == ToolResult("1", "the permissions failed: 'no such rule'", True)
    assert noted.inside == ["PreToolUse"]


def test_without_rules_silence_lets_a_call_run() -> None:
    """A loop without rules: only hooks decide."""
    assert called(Noted(), None) == ToolResult("1", "ls")
    assert called(Noted(says("PreToolUse", allow())), None) == ToolResult("1", "ls")


# -- the person ------------------------------------------------------------------------------------------------------


async def yes_later(question: Question) -> bool:
    await asyncio.sleep(0)
    return True


@pytest.mark.parametrize("answer", [True, "once", "session", "yes"])
def test_the_user_answers_yes(answer: Any) -> None:
    """PermissionRequest, a notification, the question, then the tool."""
    noted, rules, person = Noted(), Rules(ASK), Person(answer)

    assert called(noted, rules, person) == ToolResult("1", "ls")
    assert noted.inside == ["PreToolUse", "PermissionRequest", "Notification", "PostToolUse"]
    assert person.asked == [Question("Bash", LS, "asks for Bash", "mode default", True)]
    request, told = noted.of("PermissionRequest"), noted.of("Notification")
    assert (request["tool_name"], request["tool_input"]) == ("Bash", LS)
    assert (told["notification_type"], told["message"]) == ("permission_prompt", "Bash needs your permission")


def test_the_person_takes_time() -> None:
    """The callable may be async."""
    assert called(Noted(), Rules(ASK), yes_later) == ToolResult("1", "ls")


@pytest.mark.parametrize("answer", [False, "no", "", None, 0, 1, "YES", "perhaps", ["once"]])
def test_the_user_answers_no(answer: Any) -> None:
    """Anything but a yes is a no; the user was asked, so PermissionDenied is not fired."""
    noted = Noted()

    result = called(noted, Rules(ASK), Person(answer))

    assert result == ToolResult("1", "The user was asked and declined (asks for Bash).", True)
    assert noted.inside == ["PreToolUse", "PermissionRequest", "Notification"]


@pytest.mark.parametrize("error", [EOFError("no terminal"), RuntimeError()])
def test_the_person_could_not_be_asked(error: Exception) -> None:
    """A question that fails is a denial, and PermissionDenied is fired."""
    noted = Noted()

    result = called(noted, Rules(ASK), Person(error))

    assert result == ToolResult("1", f"the user could not be asked: {str(error) or 'RuntimeError'}", True)
    assert noted.inside[-1] == "PermissionDenied"


def test_the_person_breaks_off() -> None:
    """Ctrl-C at the question ends the program: the tool has not run."""
    noted = Noted()

    async def work() -> None:
        async with noted.session(permissions=Rules(ASK), ask=Person(KeyboardInterrupt())) as session:
            await session.call_tool("Bash", LS, lambda given: pytest.fail("it must not run"))

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(work())
    assert noted.inside == ["PreToolUse", "PermissionRequest", "Notification"]


def test_cancelled_while_the_person_thinks() -> None:
    """The tool has not run, and no event reports that it did."""
    noted = Noted()

    async def work() -> None:
        thinks = lambda question: asyncio.sleep(60, True)
        async with noted.session(permissions=Rules(ASK), ask=thinks) as session, asyncio.timeout(0.1):
            await session.call_tool("Bash", LS, lambda given: pytest.fail("it must not run"))

    with pytest.raises(TimeoutError):
        asyncio.run(work())
    assert noted.inside == ["PreToolUse", "PermissionRequest", "Notification"]


@pytest.mark.parametrize(
    ("answer", "rememberable", "remembered"),
    [("session", True, True), ("session", False, False), ("once", True, False), (True, True, False)],
)
def test_a_yes_for_the_session(answer: Any, rememberable: bool, remembered: bool) -> None:
    """It is remembered where that may be, with the input as it runs."""
    rules = Rules(Ruling(Decision.ASK, rememberable=rememberable))
    noted = Noted(says("PreToolUse", rewrite(input=OTHER)))

    assert called(noted, rules, Person(answer), cwd="/somewhere") == ToolResult("1", "ls --safe")
    assert rules.remembered == ([("Bash", OTHER, "/somewhere")] if remembered else [])


@pytest.mark.parametrize(
    ("ruling", "content"),
    [
        (ASK, "asks for Bash (no user can be asked)"),
        (Ruling(Decision.ASK), "Bash needs permission (no user can be asked)"),
    ],
)
def test_no_user_can_be_asked(ruling: Ruling, content: str) -> None:
    """Without `ask`, ask becomes deny; hooks could answer, and PermissionDenied is fired."""
    noted = Noted()

    assert called(noted, Rules(ruling)) == ToolResult("1", content, True)
    assert noted.inside == ["PreToolUse", "PermissionRequest", "PermissionDenied"]
    assert noted.of("PermissionDenied")["reason"] == content


# -- a hook's ask ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [None, Rules(ASK)], ids=["no rules", "rules"])
def test_a_hook_asks(rules: Rules | None) -> None:
    """The person learns which hook asks and why, and is asked each time."""
    person = Person(True)
    noted = Noted(says("PreToolUse", ask("it pushes"), "careful"))

    assert called(noted, rules, person) == ToolResult("1", "ls")
    assert person.asked == [Question("Bash", LS, "it pushes", "hook `careful`", False)]


def test_a_hook_asks_without_a_user() -> None:
    """Then it is denied, with the hook's reason."""
    noted = Noted(says("PreToolUse", ask("it pushes")))

    assert called(noted, None) == ToolResult("1", "it pushes (no user can be asked)", True)
    assert noted.inside[-1] == "PermissionDenied"


def test_a_yes_to_a_hook_is_for_once() -> None:
    """Even after the answer `session` the hook asks again."""
    rules = Rules(ASK)

    called(Noted(says("PreToolUse", ask("it pushes"))), rules, Person("session"))

    assert rules.remembered == []


# -- hooks that answer in the person's place -------------------------------------------------------------------------


def test_a_permission_hook_allows() -> None:
    """The person is not bothered."""
    person = Person(False)
    noted = Noted(says("PermissionRequest", behaves("allow")))

    assert called(noted, Rules(ASK), person) == ToolResult("1", "ls")
    assert person.asked == []
    assert noted.inside == ["PreToolUse", "PermissionRequest", "PostToolUse"]


@pytest.mark.parametrize(
    ("reported", "content"), [(behaves("deny", message="not on Fridays"), "not on Fridays"), (deny("no"), "no")]
)
def test_a_permission_hook_denies(reported: Any, content: str) -> None:
    """The model gets its message, and there is no question."""
    person = Person(True)
    noted = Noted(says("PermissionRequest", reported))

    assert called(noted, Rules(ASK), person) == ToolResult("1", content, True)
    assert person.asked == []
    assert noted.inside == ["PreToolUse", "PermissionRequest"]


def test_a_permission_hook_that_interrupts() -> None:
    """`interrupt` with a deny ends the run as well."""
    noted = Noted(says("PermissionRequest", behaves("deny", message="stop that", interrupt=True), dialect="claude"))

    async def work() -> tuple[ToolResult, str | None]:
        async with noted.session(permissions=Rules(ASK)) as session:
            return await session.call_tool("Bash", LS, lambda given: "out", tool_use_id="1"), session.stopped

    result, stopped = run(work())

    assert result == ToolResult("1", "stop that", True)
    assert stopped


@pytest.mark.parametrize("event", ["PermissionRequest", "Notification"])
def test_a_stop_while_asking(event: str) -> None:
    """A hook that stops the run there: no question, and nothing runs."""
    person = Person(True)

    assert called(Noted(says(event, stop("enough"))), Rules(ASK), person) == ToolResult("1", "enough", True)
    assert person.asked == []


@pytest.mark.parametrize("reported", [None, notify("look"), ask("hm")])
def test_a_permission_hook_without_an_opinion(reported: Answer | None) -> None:
    """The person decides."""
    person = Person(True)
    noted = Noted(Hook(name="quiet", run=lambda ctx: reported, events=("PermissionRequest",)))

    assert called(noted, Rules(ASK), person) == ToolResult("1", "ls")
    assert len(person.asked) == 1


def test_a_permission_hook_that_crashes() -> None:
    """A failure is never a yes."""

    def crashes(ctx: Any) -> Any:
        raise RuntimeError("broken")

    noted = Noted(Hook(name="broken", run=crashes, events=("PermissionRequest",)))

    assert called(noted, Rules(ASK)).is_error


@pytest.mark.parametrize(
    ("rules", "hooks"),
    [
        pytest.param(Rules(FIRM), (), id="an ask rule"),
        pytest.param(None, (says("PreToolUse", ask("sure?"), "asks"),), id="a hook's ask"),
        pytest.param(Rules(ASK), (says("PreToolUse", ask("sure?"), "asks"),), id="a hook's ask beside rules"),
    ],
)
@pytest.mark.parametrize("yes", [True, False, None])
def test_a_firm_ask_is_for_the_person(rules: Rules | None, hooks: tuple[Hook, ...], yes: bool | None) -> None:
    """No hook can allow it instead."""
    noted = Noted(says("PermissionRequest", behaves("allow")), *hooks)

    result = called(noted, rules, None if yes is None else Person(yes))

    assert result.is_error is (not yes)
    assert ("PostToolUse" in noted.inside) is bool(yes)


# -- what a hook allows with another input ---------------------------------------------------------------------------


def test_an_input_rewritten_with_an_allow_is_judged_again() -> None:
    """Hooks and rules judge the new input; then the tool gets it."""
    rules = Rules(ASK)
    noted = Noted(says("PermissionRequest", behaves("allow", updatedInput=OTHER)))

    assert called(noted, rules) == ToolResult("1", "ls --safe")
    assert noted.inside == ["PreToolUse", "PermissionRequest", "PreToolUse", "PostToolUse"]
    inputs = [event.payload["tool_input"] for event in noted.events if event.hook_event_name == "PreToolUse"]
    assert inputs == [LS, OTHER]
    assert [one[1] for one in rules.judged] == [LS, OTHER]
    assert noted.of("PostToolUse")["tool_input"] == OTHER


def test_the_same_input_is_not_judged_twice() -> None:
    """An allow that repeats the input changes nothing."""
    noted = Noted(says("PermissionRequest", behaves("allow", updatedInput=dict(LS))))

    assert called(noted, Rules(ASK)) == ToolResult("1", "ls")
    assert noted.inside.count("PreToolUse") == 1


def guard_of_other(answer: Answer) -> Hook:
    """A hook that speaks only of the rewritten input."""
    return Hook(
        name="guard", run=lambda ctx: answer if ctx.payload["tool_input"] == OTHER else None, events=("PreToolUse",)
    )


@pytest.mark.parametrize(
    ("rules", "reported", "content", "last"),
    [
        pytest.param(Rules(ASK), deny("not that"), "not that", "PreToolUse", id="a hook denies it"),
        pytest.param(
            Rules(ASK, Ruling(Decision.DENY, "rule")), None, "rule", "PermissionDenied", id="a rule denies it"
        ),
        pytest.param(Rules(ASK, FIRM), None, "ask rule Bash(ls)", "PermissionDenied", id="an ask rule catches it"),
        pytest.param(Rules(ASK), ask("sure?"), "sure?", "PermissionDenied", id="a hook asks about it"),
        pytest.param(
            Rules(ASK),
            rewrite(input={"command": "third"}),
            "a hook rewrote an input again that was already allowed as rewritten",
            "PermissionDenied",
            id="a hook rewrites it once more",
        ),
    ],
)
def test_an_input_rewritten_with_an_allow_is_refused(
    rules: Rules, reported: Answer | None, content: str, last: str
) -> None:
    """A hook can't bypass other hooks with a rewritten input."""
    hooks = [says("PermissionRequest", behaves("allow", updatedInput=OTHER), "permits")]
    noted = Noted(*hooks, *([guard_of_other(reported)] if reported else []))

    assert called(noted, rules, Person(True)) == ToolResult("1", content, True)
    assert noted.inside[-1] == last


def test_a_hook_that_normalises_does_so_twice() -> None:
    """Rewriting the allowed input to itself is no rewrite."""
    noted = Noted(
        says("PermissionRequest", behaves("allow", updatedInput=OTHER), "permits"), guard_of_other(rewrite(input=OTHER))
    )

    assert called(noted, Rules(ASK)) == ToolResult("1", "ls --safe")


# -- a session as it goes --------------------------------------------------------------------------------------------


def test_context_of_the_permission_flow() -> None:
    """Context of hooks there waits for the next model call, also if the call was denied."""
    noted = Noted(says("PreToolUse", inject("before")), says("Notification", inject("asked"), "other"))

    async def work(person: Person) -> str:
        async with noted.session(permissions=Rules(ASK), ask=person) as session:
            await session.call_tool("Bash", LS, lambda given: "out")
            return session.take_context()

    assert sorted(run(work(Person(True))).split("\n")) == ["asked", "before"]
    assert sorted(run(work(Person(False))).split("\n")) == ["asked", "before"]


def test_the_mode_is_the_one_of_the_moment() -> None:
    """A loop that changes the mode is judged by the new one."""
    rules = Rules(ALLOW)

    async def work() -> Session:
        async with Noted().session(permissions=rules) as session:
            await session.call_tool("Bash", LS, lambda given: "out")
            session.permission_mode = "plan"
            await session.call_tool("Bash", LS, lambda given: "out")
            return session

    run(work())

    assert [one[3] for one in rules.judged] == ["default", "plan"]
