"""The output of `billhook test`: exit codes, JSON, JUnit, annotations, workers, --watch."""

import os
import pty
import signal
import subprocess
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cli.terminal import PROGRAM
from rules.place import RULES, RulesPlace

TESTS = """
  - {bash: git push, expect: ask}
  - {bash: git push, expect: deny, name: "100%: a, b"}
  - {bash: ls, expect: none, needs: no-such-program}
"""


@pytest.fixture
def place(tmp_path: Path) -> RulesPlace:
    return RulesPlace(tmp_path)


def test_json(place: RulesPlace) -> None:
    place.rules(TESTS)
    code, lines = place.lines()

    assert code == 1
    assert [(one["type"], one.get("line"), one.get("status")) for one in lines] == [
        ("test", 11, "passed"),
        ("test", 12, "failed"),
        ("test", 13, "skipped"),
        ("summary", None, None),
    ]
    assert lines[1]["problems"] == ["expected deny, got ask"] and lines[1]["expect"] == "deny"
    asks, guard, skipped = lines[1]["why"]
    assert (asks, guard) == ("push-gate: runs, and answers ask", "guard: runs, and answers none")
    assert skipped.startswith("no-env: skipped, because the call reads or writes no file")
    assert {key: lines[-1][key] for key in ("passed", "failed", "skipped")} == {"passed": 1, "failed": 1, "skipped": 1}


def test_junit(place: RulesPlace) -> None:
    place.rules(TESTS)
    done = place.run("test", "--junit", "report.xml")
    suite = ElementTree.parse(place.project / "report.xml").getroot()

    assert done.code == 1 and "1 passed, 1 failed, 1 skipped in" in done.out
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    failure = suite[1].find("failure")
    assert failure is not None and failure.get("message") == "expected deny, got ask"
    assert suite[1].get("line") == "12" and suite[1].get("name") == "100%: a, b [12]"


def test_junit_that_can_not_be_written(place: RulesPlace) -> None:
    place.rules(TESTS)
    done = place.run("test", "--junit", "no/such/folder.xml")

    assert done.code == 2 and "--junit no/such/folder.xml can't be written" in done.err


def test_annotations(place: RulesPlace) -> None:
    place.rules(TESTS)
    done = place.run("test", "--github", GITHUB_WORKSPACE=str(place.folder))

    assert done.code == 1
    start = (
        "::error file=project/.billhook/hooks.yaml,line=12,title=billhook test::100%25: a, b: expected deny, got ask"
    )
    assert done.out.startswith(start)


@pytest.mark.parametrize(
    ("tests", "told"),
    [
        ("  - {bash: ls, expect: perhaps}", ".billhook/hooks.yaml:11:24: BH206 unknown value `perhaps` of `expect`"),
        ("  - {expect: deny}", "BH204 a test needs a call"),
        ("  - {bash: ls, reason: '('}", "BH206 `reason` is not a regular expression"),
        ("  - {bash: ls, expct: deny}", "unknown key `expct` in a test"),
        ("  - {bash: [", "hooks.yaml:12:1: BH104"),
    ],
)
def test_broken_files(place: RulesPlace, tests: str, told: str) -> None:
    """Nothing runs, each mistake has its place, and the exit code is 2."""
    place.rules(tests)
    done = place.run("test")

    assert done.code == 2 and told in done.out and "no test ran" in done.out, done
    assert "::error file=.billhook/hooks.yaml,line=" in place.run("test", "--github").out


def test_an_unknown_key_beside_tests(place: RulesPlace) -> None:
    place.file(".billhook/a.hooktest.yaml", "tests: []\nhooks: {}\n")

    assert "a.hooktest.yaml:2:1: BH202 unknown key `hooks`" in place.run("test").out


def test_without_tests(place: RulesPlace) -> None:
    done = place.run("test")
    assert done.code == 2 and "error: no tests here" in done.err and "hint: add some to hooks.yaml" in done.err
    place.rules(TESTS)
    done = place.run("test", "-k", "nothing like it")
    assert done.code == 2 and "no test contains `nothing like it`" in done.err
    assert place.run("test", "missing.yaml").code == 2


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("{event: {hook_event_name: PreToolUse, tool_name: 3}, expect: none}", "got `int` at `$.tool_name`"),
        ("{event: {hook_event_name: PreToolUse}, expect: none}", "missing"),
        ("{event: {hook_event_name: PreTolUse}, expect: none}", "did you mean `PreToolUse`?"),
        ("{bash: ls, expect: none, after: [{bsh: ls}]}", "did you mean `bash`?"),
        ("{bash: ls, effects: [pushh:remote]}", "unknown effect `pushh:remote`"),
        ("{bash: ls}", "a test without an expectation can't fail"),
        ("{bash: ls, effects: []}", "a test without an expectation can't fail"),
        ("{bash: ls, without: push-gat}", "no hook is called `push-gat`\n  hint: did you mean `push-gate`?"),
        ("{bash: ls, expect: none, only: [guard, nothing]}", "no hook is called `nothing`"),
        ("{bash: ls, permission: denied}", "did you mean `deny`?"),
    ],
)
def test_a_test_that_means_nothing_is_an_error(place: RulesPlace, case: str, message: str) -> None:
    place.rules(f"  - {case}\n  - {{bash: ls, expect: none}}")
    done = place.run("test")

    assert done.code == 2 and message in done.out and "1 problem in .billhook/hooks.yaml; no test ran" in done.out, done


def test_many_cases_are_spread_over_workers_and_reported_in_order(place: RulesPlace) -> None:
    """Processes share the work; each has its own copy."""
    rules = "hooks:\n  gate: {events: PreToolUse, match: Bash, run: 'echo $PPID in $PWD >&2; exit 2'}\n"
    place.rules("".join(f"  - {{bash: ls {number}, expect: deny, reason: ^never$}}\n" for number in range(32)), rules)
    place.approve()
    code, lines = place.lines()
    cases = [one for one in lines if one["type"] == "test"]

    assert code == 1
    assert [one["line"] for one in cases] == list(range(4, 36))
    parents = {one["got"].split()[3] for one in cases}
    assert len(parents) == min(os.cpu_count() or 1, 4), cases[0]
    assert {one["got"].rpartition(" in ")[2] for one in cases} == {str(place.project)}


def test_a_terminal_shows_progress(place: RulesPlace) -> None:
    place.rules(TESTS)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "test"], cwd=place.project, env=place.env(TERM="xterm"), stderr=theirs, stdout=subprocess.PIPE
    )
    process.communicate(timeout=60)
    os.close(theirs)

    assert b"\r[####################] 100% of tests" in os.read(ours, 65536)
    os.close(ours)


def test_watch_runs_again_after_a_change(place: RulesPlace) -> None:
    place.rules("  - {bash: git push, expect: deny}")
    process = subprocess.Popen(
        [PROGRAM, "test", "--watch"], cwd=place.project, env=place.env(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        _read_until(process, "1 failed in")
        _read_until(process, "waiting for changes")
        place.rules("  - {bash: git push, expect: den}")
        _read_until(process, "BH206")
        place.rules("  - {bash: git push, expect: ask}")
        _read_until(process, "1 passed in")
    finally:
        process.send_signal(signal.SIGINT)
        process.stdout.close()
    assert process.wait(30) == 130


def test_watch_notices_every_file_of_the_copy(place: RulesPlace) -> None:
    """A file that a condition looks for, which no hook names as a script."""
    subprocess.run(["git", "init", "-q"], cwd=place.project, check=True)
    rules = "hooks:\n  frozen: {events: PreToolUse, when: {file_exists: go.mark}, deny: frozen}"
    place.rules("  - {bash: ls, expect: deny, by: frozen}", rules)
    process = subprocess.Popen(
        [PROGRAM, "test", "--watch"], cwd=place.project, env=place.env(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        _read_until(process, "waiting for changes")
        place.file("go.mark", "")
        _read_until(process, "1 passed in")
    finally:
        process.send_signal(signal.SIGINT)
        process.stdout.close()
    assert process.wait(30) == 130


def _read_until(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdout is not None
    end = time.monotonic() + 60
    while text not in (line := process.stdout.readline()):
        assert line and time.monotonic() < end, f"no `{text}`"


def test_a_report_of_broken_files(place: RulesPlace) -> None:
    """Not the report of an earlier run."""
    place.rules("  - {bash: ls}")
    assert place.run("test", "--junit", "report.xml").code == 2
    suite = ElementTree.parse(place.project / "report.xml").getroot()

    assert (suite.get("errors"), suite[0].get("name")) == ("1", "a test without an expectation can't fail [11]")


@pytest.mark.parametrize("text", ["expect: ask", "git push, exp", "GIT PUSH", '"bash":"git'])
def test_a_part_of_the_line_selects(place: RulesPlace, text: str) -> None:
    place.rules("  - {bash: git push, expect: ask}\n  - {bash: ls, expect: none, name: other}")
    done = place.run("test", "-k", text)

    assert done.code == 0 and "1 passed" in done.out, done


def test_by_is_the_hook_that_decided(place: RulesPlace) -> None:
    """And the reasons include the hook that decided instead."""
    more = """
  note: {events: PreToolUse, match: Bash, inject: hello}
  never: {events: PreToolUse, if: Bash(git push *), deny: never}
"""
    place.rules(
        """
  - {bash: git push, expect: deny, by: note}
  - {bash: git push, expect: deny, by: never}
  - {bash: ls, expect: none, by: note}
  - {bash: git push, agent: codex, expect: deny, by: never}
""",
        f"{RULES.rstrip()}{more.rstrip()}",
    )
    code, lines = place.lines()

    assert code == 1 and [one["status"] for one in lines[:-1]] == ["failed", "passed", "passed", "passed"], lines
    assert lines[0]["problems"] == ["expected deny by hook `note`, decided by never"]
    assert "never: runs, and answers deny" in lines[0]["why"]


def test_other_hooks_make_no_difference_to_only(place: RulesPlace) -> None:
    place.rules("""
  - {bash: git push --force, expect: ask, only: push-gate}
  - {bash: git push, expect: none, only: [no-env]}
  - {bash: rm -rf ~, expect: none, only: no-env}
  - {bash: rm -rf ~, expect: deny, by: guard}
""")
    assert place.statuses() == ["passed"] * 4, place.run("test")


def test_permission_rules(place: RulesPlace) -> None:
    place.rules(
        """
  - {bash: rm x, permission: deny}
  - {bash: git status, permission: allow}
  - {bash: ls, permission: none}
  - {bash: rm x, permission: none}
""",
        "permissions: {deny: [Bash(rm *)], allow: [Bash(git status *)]}",
    )
    code, lines = place.lines()
    assert code == 1 and [one["status"] for one in lines[:-1]] == ["passed", "passed", "passed", "failed"], lines
    assert lines[3]["problems"] == ["expected the permission rules to decide none, got deny"]
