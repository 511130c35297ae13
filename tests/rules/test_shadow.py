"""Shadow mode: a hook runs and is recorded, and decides nothing; `billhook shadow` reports it, `promote` ends it."""

import json
from pathlib import Path
from typing import Any

import pytest

from billhook import Engine, Hook, deny, inject, rewrite
from billhook.config import edit_yaml
from billhook.core.answers import Answer
from billhook.core.errors import BillhookError
from cli.place import Place

PUSH = '{"command": "git push origin x"}'
DENY = """\
hooks:
  # pushes are for people
  no-push:
    events: PreToolUse
    if: Bash(git push *)
    shadow: true  # trial
    deny: no pushes
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def fired(place: Place, given: str = PUSH) -> dict[str, Any]:
    return place.run("fire", "PreToolUse", "--tool", "Bash", "--input", given, "--json").verdict


def outcome(verdict: dict[str, Any], hook: str) -> dict[str, Any]:
    return next(one for one in verdict["outcomes"] if one["hook"] == hook)


# -- it decides nothing


@pytest.mark.parametrize(
    ("run", "would"),
    [
        ("deny: no pushes", "deny"),
        ("ask: push?", "ask"),
        ('run: "echo no >&2; exit 2"', "deny"),
        ("inject: remember the tests", "context"),
        ("rewrite: {command: git status}", "rewrite"),
        ("stop: enough", "stop"),
        ("run: no-such-program-anywhere\n    gate: true", "deny"),
    ],
)
def test_no_answer_counts(place: Place, run: str, would: str) -> None:
    """Whatever the answer is, also that of a gate that fails, the verdict is as if there were no hook."""
    place.own(f"hooks:\n  trial:\n    events: PreToolUse\n    shadow: true\n    {run}\n")
    verdict = fired(place)
    assert (verdict["decision"], verdict["context"], verdict["tool_input"], verdict["stop"]) == (
        "none",
        [],
        None,
        False,
    )
    trial = outcome(verdict, "trial")
    assert trial["decision"] == "none" and trial["waived"]["by"] == "shadow" and trial["waived"]["would"] == would


def test_the_next_hook_sees_the_original_input() -> None:
    """A hook in shadow mode neither rewrites the input nor ends the run."""
    seen: list[object] = []
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    hooks = [
        Hook(name="rewrites", run=lambda ctx: rewrite(input={"command": "x"}), events=("PreToolUse",), shadow=True),
        Hook(name="denies", run=lambda ctx: deny("no"), events=("PreToolUse",), shadow=True),
        Hook(name="looks", run=lambda ctx: seen.append(ctx.event.tool_input), events=("PreToolUse",)),  # type: ignore[attr-defined]
    ]
    verdict = Engine(hooks).fire_sync(event)
    assert (verdict.decision, seen) == ("none", [{"command": "ls"}])
    assert [str(one.waived) for one in verdict.outcomes[:2]] == [
        "shadow: would have answered rewrite",
        "shadow: would have answered deny: no",
    ]


def test_in_the_background() -> None:
    """An answer that arrives with a later event does not count, either."""
    hook = Hook(name="later", run=lambda ctx: inject("hello"), events=("Stop",), background=True, shadow=True)
    engine = Engine([hook])
    event = {"hook_event_name": "Stop", "session_id": "s"}
    engine.fire_sync(event)
    engine.background.settle(5)
    verdict = engine.fire_sync(event)
    assert verdict.context == () and any(one.waived and one.waived.would == "context" for one in verdict.outcomes)


def test_an_async_function() -> None:
    """Functions without `await` are called on a shorter way."""

    async def no(event: object) -> Answer:
        return deny("no")

    import msgspec

    from billhook import PreToolUse, on

    hook = msgspec.structs.replace(on(PreToolUse)(no), shadow=True)
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    assert Engine([hook]).fire_sync(event).decision == "none"


def test_the_same_hook_of_a_project_does_not_loosen_the_users(place: Place) -> None:
    """A copy in shadow mode is another hook: the user's still denies."""
    place.own(DENY.replace("    shadow: true  # trial\n", ""))
    place.file(".billhook/hooks.yaml", DENY)
    place.alone("trust", "--all", "--yes")
    assert fired(place)["decision"] == "deny"


def test_an_approved_deny_needs_approval_for_shadow_mode(place: Place) -> None:
    file = place.file(".billhook/hooks.yaml", DENY.replace("    shadow: true  # trial\n", ""))
    place.alone("trust", "--all", "--yes")
    file.write_text(DENY)
    verdict = fired(place)
    assert verdict["decision"] == "deny" and "changed since it was approved" in verdict["reason"]
    place.alone("trust", "--all", "--yes")
    assert fired(place)["decision"] == "none"


def test_a_cell_of_the_guard(place: Place) -> None:
    """The table stays in force, and what the cell would change is recorded."""
    place.own("guard:\n  force-push: {shadow: deny}\n  push:remote: {shadow: ask}\n")
    verdict = fired(place, '{"command": "git push --force origin x"}')
    assert verdict["decision"] == "ask"
    assert outcome(verdict, "guard/force-push")["waived"]["would"] == "deny"
    quiet = fired(place)
    assert quiet["decision"] == "none" and outcome(quiet, "guard/push:remote")["waived"]["would"] == "ask"
    assert outcome(quiet, "guard/force-push")["waived"] == {"by": "shadow"}


def test_screens(place: Place) -> None:
    place.own(DENY)
    assert "shadow: it decides nothing" in place.run("list").out
    explained = place.run("explain", "git push origin x").out
    assert "would answer: deny: no pushes" in explained and "verdict: none" in explained
    assert "would deny" in place.run("fire", "PreToolUse", "--tool", "Bash", "--input", PUSH).out
    assert place.run("check").code == 0


# -- the report


def test_report(place: Place) -> None:
    """Counts, the rate per day, and at most three different examples."""
    place.own(DENY)
    for branch in ("a", "b", "c", "d", "a"):
        fired(place, f'{{"command": "git push origin {branch}"}}')
    fired(place, '{"command": "ls"}')
    (found,) = [json.loads(line) for line in place.run("shadow", "--json").out.splitlines()]
    assert (found["decisions"], found["runs"], found["would"], found["per_day"]) == (5, 5, {"deny": 5}, 5.0)
    assert [one["call"] for one in found["examples"]] == [f"Bash: git push origin {branch}" for branch in "adc"]
    assert place.run("shadow", "--since", "1s", "--json").verdict["name"] == "no-push"
    assert "deny 5 in 5 runs" in place.run("shadow").out


def test_report_without_hooks(place: Place) -> None:
    ended = place.run("shadow")
    assert (ended.code, ended.out) == (0, "no hook is in shadow mode here\n")


# -- promote


def test_promote(place: Place) -> None:
    """It shows the report and the edit, keeps comments, and the hook decides."""
    file = place.own(DENY)
    fired(place)
    ended = place.typing("promote", "no-push", answers=[("[y/N]", "y\n")])
    assert ended.code == 0 and "deny 1 in 1 run" in ended.out and "-    shadow: true  # trial" in ended.out
    assert file.read_text() == DENY.replace("    shadow: true  # trial\n", "")
    assert fired(place)["decision"] == "deny"
    records = [json.loads(line) for line in place.run("events", "--json").out.splitlines()]
    assert [one["input"]["what"] for one in records if one["event"] == "Trust"] == ["no-push"]


def test_promote_approves(place: Place) -> None:
    place.file(".billhook/hooks.yaml", DENY)
    place.alone("trust", "--all", "--yes")
    assert place.typing("promote", "no-push", "--yes", answers=[]).code == 0
    assert fired(place)["reason"] == "no pushes"


def test_promote_does_not_approve_what_was_never_approved(place: Place) -> None:
    file = place.file(".billhook/hooks.yaml", DENY)
    ended = place.typing("promote", "no-push", "--yes", answers=[])
    assert ended.code == 2 and "billhook trust" in ended.out and file.read_text() == DENY


def test_promote_a_cell(place: Place) -> None:
    file = place.own("guard:\n  push:remote: {shadow: ask}  # try\n")
    assert place.typing("promote", "guard/push:remote", answers=[("[y/N]", "y\n")]).code == 0
    assert file.read_text() == "guard:\n  push:remote: ask  # try\n"
    assert fired(place)["decision"] == "ask"


def test_promote_is_for_people(place: Place) -> None:
    file = place.own(DENY)
    assert "must be a terminal" in place.alone("promote", "no-push", "--yes").err
    inside = place.typing("promote", "no-push", "--yes", answers=[], CLAUDECODE="1")
    assert inside.code == 2 and "inside Claude Code" in inside.out
    no = place.typing("promote", "no-push", answers=[("[y/N]", "n\n")])
    assert no.code == 1 and file.read_text() == DENY


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("hooks: {a: {shadow: true, deny: no}}\n", "hooks: {a: {deny: no}}\n"),
        ("hooks: {a: {deny: no, shadow: true}}\n", "hooks: {a: {deny: no}}\n"),
        ("hooks:\n- name: a\n  shadow: true\n  deny: no\n", "hooks:\n- name: a\n  deny: no\n"),
        ("hooks:\r\n  a:\r\n    deny: no\r\n    shadow: true\r\n", "hooks:\r\n  a:\r\n    deny: no\r\n"),
    ],
)
def test_other_spellings(before: str, after: str) -> None:
    assert edit_yaml.promoted_hook(before.encode(), "hooks.yaml", "a").decode() == after


def test_a_file_that_needs_a_hand() -> None:
    merged = "x: &x {shadow: true, deny: no}\nhooks:\n  a: *x\n  b: *x\n"
    with pytest.raises(BillhookError, match="can't be edited"):
        edit_yaml.promoted_hook(merged.encode(), "hooks.yaml", "c")
