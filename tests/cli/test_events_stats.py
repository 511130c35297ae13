"""`billhook events stats`: the numbers of a known log."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from cli.folder import Folder
from config.logged import at, content, said, write

TIMES = ["2026-03-01T10:00:00.000000Z", "2026-03-01T11:00:00.000000Z"]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def logged(folder: Folder, records: Iterable[dict[str, Any]]) -> None:
    project = os.path.realpath(folder.project)
    write(folder.home / ".claude", project, [content(project, **record) for record in records])


def mixed() -> list[dict[str, Any]]:
    """Twenty runs of three hooks, one of them slow."""
    records: list[dict[str, Any]] = []
    late = {"status": "timed_out", "duration_ms": 60.0, "failed_open": True}
    for number in range(20):
        outcomes = [
            said("slow-scan", duration_ms=100.0 * (number + 1), output_bytes=1000),
            said("guard", duration_ms=0.25, decision="deny" if number == 3 else "none"),
            said("flaky", **(late if number % 5 == 0 else {"duration_ms": 30.0})),
            said("idle", status="skipped"),
        ]
        failed_open = 0 if number % 5 else 1
        decision = "deny" if number == 3 else "none"
        records.append(
            {"time": TIMES[number > 9], "outcomes": outcomes, "failed_open": failed_open, "decision": decision}
        )
    return records


def test_the_slowest_first(folder: Folder) -> None:
    """A table, totals, and the hooks over the budget."""
    logged(folder, mixed())

    assert folder.screen("events", "stats", "--human", TZ="UTC") == snapshot("""\
hook       runs  failed  timed out  p50 ms  p95 ms  max ms   output
slow-scan    20       -          -   1,000   1,900   2,000  20.0 kB  slow
flaky        20       4          4    30.0    60.0    60.0        -
guard        20       -          -    0.25    0.25    0.25        -
idle          0       -          -       -       -       -        -

20 records from 2026-03-01 10:00:00 to 2026-03-01 11:00:00; decisions: 19 none, 1 deny
failed open 4 times: a hook failed, and the event continued without its answer
latency budget 1,000 ms (warn_ms of `metrics`): 1 hook over it
-- exit 0
""")


def test_json(folder: Folder) -> None:
    """One object with all numbers."""
    logged(folder, mixed())
    ended = folder.billhook("events", "stats", "--json")
    found = json.loads(ended.out)
    hooks = {hook["name"]: hook for hook in found["hooks"]}

    assert (ended.code, ended.out.count("\n")) == (0, 1)
    assert folder.billhook("events", "stats").out == ended.out  # it is a pipe
    assert [hook["name"] for hook in found["hooks"]] == ["slow-scan", "flaky", "guard", "idle"]
    assert (found["events"], found["failed_open"], found["warn_ms"]) == (20, 4, 1000)
    assert (found["by_event"], found["decisions"]) == ({"PreToolUse": 20}, {"none": 19, "deny": 1})
    assert (found["first"], found["last"], found["foreign"]) == (TIMES[0], TIMES[1], 0)
    assert hooks["slow-scan"] == {
        "name": "slow-scan",
        "count": 20,
        "p50_ms": 1000.0,
        "p95_ms": 1900.0,
        "max_ms": 2000.0,
        "skipped": 0,
        "background": 0,
        "failures": 0,
        "timed_out": 0,
        "could_not_start": 0,
        "failed_open": 0,
        "denies": 0,
        "output_bytes": 20000,
        "output_max": 1000,
        "over_budget": True,
    }
    assert (hooks["flaky"]["failures"], hooks["flaky"]["timed_out"], hooks["flaky"]["failed_open"]) == (4, 4, 4)
    assert (hooks["idle"]["count"], hooks["idle"]["skipped"], hooks["idle"]["p95_ms"]) == (0, 20, None)
    assert hooks["guard"]["denies"] == 1


def test_what_runs_in_the_background(folder: Folder) -> None:
    """Starts in the background are counted separately."""
    logged(folder, [{"time": TIMES[0], "outcomes": [said("later", status="background"), said("now")]}] * 3)

    assert folder.screen("events", "stats", "--human", TZ="UTC") == snapshot("""\
hook      runs  started  failed  timed out  p50 ms  p95 ms  max ms  output
now          3        -       -          -    1.00    1.00    1.00       -
later        0        3       -          -       -       -       -       -

started: background runs, which are not timed
3 records from 2026-03-01 10:00:00 to 2026-03-01 10:00:00; decisions: 3 none
latency budget 1,000 ms (warn_ms of `metrics`): no hook is over it
-- exit 0
""")


@pytest.mark.parametrize(
    ("arguments", "events"),
    [
        pytest.param((), 6, id="all"),
        pytest.param(("one",), 4, id="a session by its name"),
        pytest.param((".",), 2, id="the newest session"),
        pytest.param(("one,two",), 6, id="several"),
        pytest.param(("--since", "90m"), 3, id="a time"),
        pytest.param(("one", "--since", "90m"), 1, id="both"),
        pytest.param(("--event", "Stop"), 1, id="an event"),
        pytest.param(("--hook", "a"), 5, id="a hook"),
        pytest.param(("--since", "1m"), 0, id="nothing"),
    ],
)
def test_filters(folder: Folder, arguments: tuple[str, ...], events: int) -> None:
    """The filters of `billhook events` apply."""
    ages = [5, 4, 3, 1.4, 1.2, 1.1]
    records: list[dict[str, Any]] = [
        {"time": at(hours=hours), "session_id": f"id-{name}", "session_name": name, "outcomes": [said("a")]}
        for hours, name in zip(ages, ["one"] * 4 + ["two"] * 2, strict=True)
    ]
    records[1] |= {"event": "Stop", "tool": None, "outcomes": [said("b")]}
    logged(folder, records)

    ended = folder.billhook("events", "stats", "--json", *arguments)

    assert (ended.code, json.loads(ended.out)["events"]) == (0, events), ended


def test_one_hook_only(folder: Folder) -> None:
    """With --hook, other hooks of the same events are left out, also with an id of seed 002."""
    logged(folder, mixed())

    for name in ("guard", "guard-PreToolUse"):
        found = json.loads(folder.billhook("events", "stats", "--hook", name, "--json").out)
        assert [hook["name"] for hook in found["hooks"]] == ["guard"]


@pytest.mark.parametrize(
    ("options", "over"),
    [
        pytest.param("metrics: {options: {warn_ms: 10}}", ["slow-scan", "flaky"], id="a smaller budget"),
        pytest.param("metrics: {enabled: false}", [], id="none"),
    ],
)
def test_the_budget_is_that_of_the_built_in(folder: Folder, options: str, over: list[str]) -> None:
    """`warn_ms` of `metrics`; if that is disabled, no hook is slow."""
    folder.write("~/.config/billhook/hooks.yaml", f"builtins: {{{options}}}\n")
    logged(folder, mixed())
    found = json.loads(folder.billhook("events", "stats", "--json").out)

    assert [hook["name"] for hook in found["hooks"] if hook["over_budget"]] == over


def test_nothing_is_there(folder: Folder) -> None:
    """Without a log the report is empty, and no file is created."""
    assert folder.screen("events", "stats", "--human") == snapshot("""\
no events match
-- exit 0
""")
    assert json.loads(folder.billhook("events", "stats", "--json").out)["hooks"] == []
    assert not (folder.home / ".claude" / "hooks").exists()


def test_foreign_lines_and_side_files(folder: Folder) -> None:
    """Lines of other programs are skipped and counted; outcomes in a side file count like any other."""
    logged(folder, [{"outcomes": [said(f"h{n}", reason="x" * 600) for n in range(150)]}])
    (file,) = (folder.home / ".claude" / "hooks").rglob("hooks.jsonl")
    with file.open("ab") as end:
        end.write(b'{"someone": "else"}\nnot json\n')
    found = json.loads(folder.billhook("events", "stats", "--json").out)

    assert (found["events"], len(found["hooks"]), found["foreign"]) == (1, 150, 2)
    assert folder.billhook("events", "stats", "--human").err == "note: skipped 2 lines that billhook did not write\n"


def test_hostile_names(folder: Folder) -> None:
    """A hook's name can't control the terminal, and long names fit."""
    logged(folder, [{"outcomes": [said("\x1b[31mred\n" + "x" * 300)]}])
    shown = folder.billhook("events", "stats", "--human").out

    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 120


def test_of_real_events(folder: Folder) -> None:
    """Records of `billhook hook` are counted."""
    folder.write(
        "~/.claude/settings.json", {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "echo hi"}]}]}}
    )
    event = {
        "hook_event_name": "PreToolUse",
        "session_id": "s",
        "cwd": str(folder.project),
        "tool_name": "Bash",
        "tool_input": {},
    }
    for _ in range(2):
        folder.billhook("hook", "claude", stdin=json.dumps(event).encode())
    found = json.loads(folder.billhook("events", "stats", "--json").out)
    own = next(hook for hook in found["hooks"] if hook["output_bytes"])

    assert (found["events"], own["count"], own["output_bytes"]) == (2, 2, 6)
