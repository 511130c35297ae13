"""Goal 32: `billhook test` for 12 rules with 40 tests, against the start of Python."""

import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

from harness import Bar, Goal, Trial, looped
from loading import own_home

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
    with tempfile.TemporaryDirectory() as folder, own_home(Path(folder, "home")):
        project = Path(folder, "project")
        (project / ".billhook").mkdir(parents=True)
        (project / ".billhook" / "hooks.yaml").write_text(hooks_yaml())

        def start(argv: tuple[str, ...]) -> str:
            """Run a program from its start to its end."""
            program = [sys.executable, *argv]
            return subprocess.run(program, cwd=project, stdout=subprocess.PIPE, text=True, check=True).stdout

        tests, nothing = ("-m", "billhook", "test"), ("-c", "pass")
        assert start(tests).startswith(f"{TESTS} passed")
        cases = {"billhook test": looped(start, tests), "python -c pass": looped(start, nothing)}
        bars = [Bar("billhook test", "python -c pass", _AT_MOST)]
        yield Trial(f"{RULES} rules, {TESTS} tests", cases, bars, _PASSES)


GOALS = (Goal(32, "The tests of rules", all_tests),)
