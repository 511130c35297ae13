"""Goal 27: `billhook test` for 12 rules with 40 tests, against the start of Python."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from harness import Bar, Case, Goal, Trial

RULES, TESTS = 12, 40
_PASSES = 10
_AT_MOST = 60.0
_KINDS = (
    ("if: Bash(tool-{0} *)", "deny: not {0}", "{{bash: tool-{0} x, expect: deny, by: rule-{0}}}"),
    ('paths: {{write: ["area-{0}/**"]}}', "ask: really {0}?", "{{write: area-{0}/a.txt, expect: ask, by: rule-{0}}}"),
    ("if: [Bash(git *), Read(area-{0}/**)]", "inject: note {0}", "{{bash: git status, expect: none, by: rule-{0}}}"),
)


def hooks_yaml() -> str:
    """12 rules, the tests of each, and further tests of calls that no rule is about."""
    lines, tests = ["hooks:"], list[str]()
    for number in range(RULES):
        condition, action, test = (text.format(number) for text in _KINDS[number % len(_KINDS)])
        lines += [f"  rule-{number}:", "    events: PreToolUse", f"    {condition}", f"    {action}"]
        tests += [test, f"{{bash: ls area-{number}, expect: none}}", f"{{read: notes-{number}.txt, expect: none}}"]
    tests += [f"{{bash: rm -rf ~/project-{number}, expect: deny, by: guard}}" for number in range(TESTS - len(tests))]
    return "\n".join([*lines, "tests:", *(f"  - {test}" for test in tests), ""])


async def all_tests() -> AsyncGenerator[Trial, None]:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "project")
        (project / ".billhook").mkdir(parents=True)
        (project / ".billhook" / "hooks.yaml").write_text(hooks_yaml())
        env = {**os.environ, "HOME": folder}
        program = [sys.executable, "-m", "billhook", "test"]
        told = subprocess.run(program, cwd=project, env=env, capture_output=True, text=True, check=True).stdout
        assert told.strip().startswith(f"{TESTS} passed"), told
        cases = {
            "billhook test": _started(program, project, env),
            "python -c pass": _started([sys.executable, "-c", "pass"], project, env),
        }
        bars = [Bar("billhook test", "python -c pass", _AT_MOST)]
        yield Trial(f"{RULES} rules, {TESTS} tests", cases, bars, _PASSES)


def _started(argv: list[str], folder: Path, env: dict[str, str]) -> Case:
    """A program from its start to its end."""

    async def case(count: int) -> float:
        began = time.perf_counter_ns()
        for _ in range(count):
            subprocess.run(argv, cwd=folder, env=env, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter_ns() - began

    return case


GOALS = (Goal(27, "The tests of rules", all_tests),)
