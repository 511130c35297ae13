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
    assert "coverage: 4 of 8 rules tested with a match and without one" in done.out
    assert "delete:home deny" in done.out


def test_coverage_of_shadow_cells_and_limits(place: RulesPlace) -> None:
    rules = """
guard: {"write:home": {shadow: deny}}
builtins: {rate-limit: {options: {limits: [{rule: Bash(curl *), at_most: 1, per: session}]}}}
"""
    place.rules("  - {bash: ls, expect: none}", rules)
    done = place.run("test", "--coverage")
    assert "shadow cell write:home: no test in which it is reached" in done.out, done
    assert "built-in rate-limit: no test in which it stops a call" in done.out

    more = """
  - {bash: touch x, expect: none}
  - {bash: touch ~/x, expect: none}
  - {bash: curl x, after: [{bash: curl x}], expect: deny}
"""
    place.rules(more, rules)
    assert "coverage: 2 of 2 rules tested with a match and without one" in place.run("test", "--coverage").out


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
  no-env: {events: PreToolUse, paths: {write: [".env*", "!.env.example"]}, deny: not here}
  deploys: {events: UserPromptSubmit, when: {prompt: "(?i)deploy"}, deny: not now}
  lists: {events: PreToolUse, if: Read(docs/**), allow: true}
  log: {events: [PostToolUse, PostToolUseFailure], match: Bash, inject: noted}
  pnpm: {events: PreToolUse, if: [Bash(npm *), Bash(yarn *)], when: {file_exists: pnpm-lock.yaml}, deny: use pnpm}
  careful: {events: PreToolUse, effect: force-push, deny: never}
  leak: {events: PreToolUse, effect: upload, after_effect: read-secret, deny: not after a secret}
  begin: {events: SessionStart, match: startup, inject: hi}
  planned: {events: PreToolUse, match: Write, when: {all: [{agent: claude}, {not: {permission_mode: plan}}]}, deny: x}
  tools: {events: PreToolUse, when: {runs: [make all, tox], not: {file_exists: x.lock}}, ask: sure?}
  rarely: {events: PreToolUse, if: Bash(aa *), once: session, deny: once}
  slowly: {events: PreToolUse, if: Bash(bb *), cooldown: 5m, deny: later}
  swap: {events: PreToolUse, match: Bash, rewrite: {command: {pip: uv pip, poetry: uv}}}
  hide: {events: PostToolUse, match: Read, mask: [alpha, beta]}
  try: {events: PreToolUse, if: Bash(cc *), shadow: true, deny: no cc}
guard: {discard: deny, "push:remote": ask, "delete:home": deny}
permissions:
  deny: [Bash(rm *), Read(secret/**)]
  allow: [Bash(git status *)]
builtins:
  rate-limit: {options: {limits: [{rule: Bash(curl *), at_most: 2, per: session}, {at_most: 40, per: session}]}}
"""
SURVIVING = {
    "push-gate": ["removed", "without `if`", "without `branch`", "ask becomes allow"],
    "no-env": [
        *("removed", "without `paths`", "without `paths.write: .env*`", "without `paths.write: !.env.example`"),
        "deny becomes allow",
    ],
    "deploys": ["removed", "without `when`", "deny becomes allow"],
    "lists": ["removed", "without `if`", "allow becomes deny"],
    "log": ["removed", "without `events: PostToolUse`", "without `events: PostToolUseFailure`", "without `match`"],
    "pnpm": [
        *("removed", "without `if`", "without `if: Bash(npm *)`", "without `if: Bash(yarn *)`", "without `when`"),
        "deny becomes allow",
    ],
    "careful": ["removed", "without `effect`", "deny becomes allow"],
    "leak": ["removed", "without `effect`", "without `after_effect`", "deny becomes allow"],
    "begin": ["removed", "without `match`"],
    "planned": [
        *("removed", "without `match`", "without `when`", 'without `when.all: {"agent":"claude"}`'),
        *('without `when.all: {"not":{"permission_mode":"plan"}}`', "deny becomes allow"),
    ],
    "tools": [
        *("removed", "without `when`", "without `when.runs`", "without `when.runs: make all`"),
        *("without `when.runs: tox`", "without `when.not`", "ask becomes allow"),
    ],
    "rarely": ["removed", "without `if`", "without `once`", "deny becomes allow"],
    "slowly": ["removed", "without `if`", "without `cooldown`", "deny becomes allow"],
    "swap": ["removed", "without `match`", "without `rewrite.command.pip`", "without `rewrite.command.poetry`"],
    "hide": ["removed", "without `match`", "without `mask: alpha`", "without `mask: beta`"],
    "try": ["removed", "without `if`"],
    "guard": ["without `discard`", "without `push:remote`", "without `delete:home`"],
    "permissions": [
        *("without `deny: Bash(rm *)`", "without `deny: Read(secret/**)`", "without `allow: Bash(git status *)`"),
    ],
    "rate-limit": [
        'without `limits: {"rule":"Bash(curl *)","at_most":2,"per":"session"}`',
        "without `limits.rule`",
        'without `limits: {"at_most":40,"per":"session"}`',
    ],
}
"""Every change of these rules. `match: Bash` of push-gate is not one: its `if` implies it."""


def test_each_hole_is_found_with_a_test_that_closes_it(place: RulesPlace) -> None:
    """With only one test that exercises nothing, every change survives, each with a test. These, pasted into the file,
    pass, and then notice every change."""
    place.rules("  - {event: {hook_event_name: Stop}, expect: none}", RULES)
    code, found = mutants(place)
    changes: dict[str, list[str]] = {}
    for one in found:
        changes.setdefault(one["hook"], []).append(one["change"])

    assert code == 1
    assert changes == SURVIVING
    assert [one for one in found if not one["test"]] == []
    proposed = list(dict.fromkeys(one["test"] for one in found))
    assert all(isinstance(yaml.safe_load(text), dict) and "\n" not in text for text in proposed)

    place.rules("".join(f"  - {text}\n" for text in proposed), RULES)
    assert set(place.statuses()) == {"passed"}
    assert mutants(place) == (0, [])


CELLS = """\
guard:
  device: deny
  run-remote: deny
  publish: ask
  force-push: ask
  kill: ask
  "delete:home": ask
  "delete:system": deny
"""


def test_cells_that_repeat_the_table(place: RulesPlace) -> None:
    """Each has a test of a call that the table alone decides differently, or is listed as a repetition, which is no
    failure."""
    place.rules("  - {bash: ls, expect: none}", CELLS)
    code, found = mutants(place)
    repeated = [one["change"] for one in found if one["repeats"]]

    assert (code, repeated) == (1, ["without `run-remote`", "without `publish`", "without `delete:home`"])
    proposed = [one["test"] for one in found if one["test"]]
    assert len(proposed) == len(found) - 3 == 4

    place.rules("".join(f"  - {text}\n" for text in proposed), CELLS)
    done = place.run("test", "--mutate")
    assert done.code == 0 and "4 of 4 changes noticed" in done.out, done
    assert done.out.count("it repeats the guard's table") == 3


def test_a_change_without_a_test_is_not_noticed(place: RulesPlace) -> None:
    """A cell that no known call reaches: the exit code is 1."""
    place.rules("  - {bash: ls, expect: none}", 'guard: {"publish:home": deny}')
    done = place.run("test", "--mutate")

    assert done.code == 1 and "0 of 1 change noticed" in done.out and "no test was found" in done.out, done


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
