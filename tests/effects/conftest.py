"""The score of the corpus, printed at the end of a run."""

from collections import Counter
from typing import Any

SCORE = "corpus"
"""The property of a test that tells its group, how many commands it has, and how many of them are judged as wanted."""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Properties of tests reach the main process under pytest-xdist as well."""
    wanted: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())):
        for name, value in getattr(report, "user_properties", ()):
            if name == SCORE and report.when == "call":
                group, right, all_of_them = value
                wanted[group] += right
                total[group] += all_of_them
    if not total:
        return
    terminalreporter.section("guard: commands judged as wanted")
    for group in sorted(total):
        share = 100 * wanted[group] / total[group]
        terminalreporter.write_line(f"{group:45} {wanted[group]:5} of {total[group]:5}  {share:5.1f} %")
