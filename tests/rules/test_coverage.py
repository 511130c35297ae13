"""`billhook test --coverage` and `--mutate` on files with known holes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rules.place import RulesPlace

HOLES = """
hooks:
  both-ways: {events: PreToolUse, if: Bash(git push *), ask: "Push?"}
  only-runs: {events: UserPromptSubmit, when: {prompt: deploy}, deny: not now}
  never-runs: {events: PreToolUse, paths: {write: [infra/**]}, deny: not here}
  always: {events: SessionStart, inject: hello}
guard: {discard: deny, "delete:home": deny}
permissions:
  deny: [Bash(curl *), Bash(wget *)]
"""
SOME = """
  - {bash: git push origin, expect: ask}
  - {bash: ls, expect: none}
  - {bash: rm -rf ~/x, expect: deny}
  - {bash: curl https://example.com, expect: none}
  - {prompt: deploy it, expect: deny}
  - {event: {hook_event_name: SessionStart, source: startup}, context: hello}
"""


@pytest.fixture
def place(tmp_path: Path) -> RulesPlace:
    return RulesPlace(tmp_path)


def test_coverage_names_every_hole_and_no_other(place: RulesPlace) -> None:
    place.rules(SOME, HOLES)
    done = place.run("test", "--coverage")
    missing = [line.strip() for line in done.out.splitlines() if "no test in which" in line]

    assert done.code == 0
    assert missing == [
        "hook only-runs (.billhook/hooks.yaml:3): no test in which it does not run",
        "hook never-runs (.billhook/hooks.yaml:4): no test in which it runs",
        "guard cell discard: no test in which it stops a call",
        "permission rule permissions.deny `Bash(wget *)` (.billhook/hooks.yaml:8): no test in which it matches",
    ]
    assert "coverage: 4 of 8 rules exercised both ways" in done.out
    assert "delete:home deny" in done.out


def test_complete_coverage(place: RulesPlace) -> None:
    more = """
  - {prompt: hello, expect: none}
  - {write: infra/a.tf, expect: deny}
  - {bash: git checkout ., files: {.git/HEAD: "ref: refs/heads/main\\n"}, expect: deny}
  - {bash: wget https://example.com, expect: none}
"""
    place.rules(f"{SOME.strip(chr(10))}\n{more.strip(chr(10))}", HOLES)
    code, lines = place.lines("--coverage")
    found = next(one for one in lines if one["type"] == "coverage")

    assert [one for one in found["rules"] if one["missing"]] == [], (code, lines)
    assert found["cells"]["delete:home"] == "deny"


def mutants(place: RulesPlace) -> tuple[int, list[dict[str, Any]]]:
    code, lines = place.lines("--mutate")
    return code, [one for one in lines if one["type"] == "mutant"]


def test_every_mutant_is_noticed_by_complete_tests(place: RulesPlace) -> None:
    place.rules("""
  - {bash: git push origin, expect: ask, by: push-gate}
  - {bash: ls, expect: none}
  - {write: .env, expect: deny, by: no-env}
""")
    done = place.run("test", "--mutate")

    assert done.code == 0 and "mutants: 6 of 6 changes noticed by a test" in done.out, done


RULES = """
hooks:
  push-gate: {events: PreToolUse, match: Bash, if: Bash(git push *), branch: [main], ask: "Push?"}
  no-env: {events: PreToolUse, paths: {write: [".env*"]}, deny: not here}
  deploys: {events: UserPromptSubmit, when: {prompt: "(?i)deploy"}, deny: not now}
  lists: {events: PreToolUse, if: Read(docs/**), allow: fine}
  log: {events: PostToolUse, match: Bash, inject: noted}
  pnpm: {events: PreToolUse, if: Bash(npm *), when: {file_exists: pnpm-lock.yaml}, deny: use pnpm}
  careful: {events: PreToolUse, effect: force-push, deny: never}
"""


def test_each_hole_is_found_with_a_test_that_closes_it(place: RulesPlace) -> None:
    """With only one test that exercises nothing, every change survives. The proposed tests, pasted into the file, pass,
    and then notice every change for which one was proposed."""
    place.rules("  - {bash: 'true', expect: none}", RULES)
    code, found = mutants(place)
    changes = {(one["hook"], one["change"]) for one in found}

    assert code == 1
    assert changes >= {
        ("push-gate", "removed"),
        ("push-gate", "ask becomes no answer"),
        ("push-gate", "without `branch`"),
        ("no-env", "removed"),
        ("no-env", "deny becomes allow"),
        ("deploys", "without `when`"),
        ("lists", "allow becomes deny"),
        ("pnpm", "without `when`"),
        ("careful", "removed"),
    }
    without = {(one["hook"], one["change"]) for one in found if not one["test"]}
    assert without == {("push-gate", "without `match`")}, found  # `if` implies it: no test can tell
    proposed = list(dict.fromkeys(one["test"] for one in found if one["test"]))
    assert all(isinstance(yaml.safe_load(text), dict) for text in proposed)

    place.rules("".join(f"  - {text}\n" for text in proposed), RULES)
    assert set(place.statuses()) == {"passed"}
    code, left = mutants(place)
    assert (code, {(one["hook"], one["change"]) for one in left}) == (0, without)


def test_a_command_that_is_removed_is_noticed(place: RulesPlace) -> None:
    place.rules(
        "  - {bash: ls, expect: deny}\n  - {write: a, expect: none}",
        "hooks:\n  gate: {events: PreToolUse, match: Bash, run: exit 2}\n",
    )
    place.approve()

    assert mutants(place) == (0, [])


def test_failing_tests_come_first(place: RulesPlace) -> None:
    place.rules("  - {bash: ls, expect: deny}")
    done = place.run("test", "--mutate")

    assert done.code == 2 and "--mutate needs tests that pass" in done.err and "1 failed" not in done.err
