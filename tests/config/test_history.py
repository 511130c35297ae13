"""The event log about configured hooks: real logs, written by the real writer and by real events."""

import os
from pathlib import Path
from typing import Any

import pytest

from billhook.config.config import HookRow, rows
from billhook.config.history import budget_of, facts, last_fired, lint_log, log_of, recent
from billhook.config.trust import record_trust
from billhook.store.files import StoreError, log_folder
from config.logged import at, content, said, write
from config.project import Project

HOOKS = """\
hooks:
  every: {events: PreToolUse, run: 'true'}
  never: {events: PreToolUse, match: Write, run: 'true'}
  rule: {events: PreToolUse, if: Bash(git push *), deny: refused}
  stop: {events: Stop, run: 'true'}
"""
OWN = "~/.config/billhook/hooks.yaml"


def project_of(project: Project) -> str:
    return os.path.realpath(project.folder)


def noted(project: Project) -> list[tuple[str, str]]:
    """The notes of a check: code and hook."""
    config = project.load(builtins=True)
    log = log_of(config)
    assert log is not None
    return [(one.code, one.hook) for one in lint_log(facts(log, config), budget_of(config))]


def messages(project: Project) -> list[str]:
    config = project.load(builtins=True)
    log = log_of(config)
    assert log is not None
    return [one.message for one in lint_log(facts(log, config), budget_of(config))]


def logged(project: Project, *records: dict[str, Any]) -> None:
    write(project.root, project_of(project), [content(project_of(project), **record) for record in records])


def test_without_a_log(project: Project) -> None:
    """If nothing was recorded there is no log, and none is created."""
    config = project.load(builtins=True)

    assert log_of(config) is None
    assert not (project.root / "hooks").exists()


# -- when hooks last fired


def hooks_called(*names: str) -> list[HookRow]:
    rest: Any = {"what": "", "kind": "", "trust": "", "state": "runs", "effect": "runs", "layer": "user"}
    return [HookRow(name=name, **rest) for name in names]


def test_the_newest_time_counts(tmp_path: Path) -> None:
    """A skipped hook did not fire; a failed one did."""
    times = [at(hours=hours) for hours in (5, 4, 3, 2, 1)]
    outcomes = [
        [said("a"), said("b")],
        [said("a"), said("b", status="failed")],
        [said("a", status="skipped")],
        [said("c", status="background")],
        [],
    ]
    log = write(tmp_path, "/p", (content("/p", time=t, outcomes=o) for t, o in zip(times, outcomes, strict=True)))

    found = last_fired(log, "/p", hooks_called("a", "b", "c", "d"))

    assert found.times == {"a": times[1], "b": times[1], "c": times[3]}
    assert (found.events, found.complete) == (5, True)


def test_no_more_is_read_than_needed(tmp_path: Path) -> None:
    """It stops at the record with the last missing hook."""
    log = write(tmp_path, "/p", (content("/p", outcomes=[said("a"), said(f"h{n}")]) for n in range(300)))

    assert last_fired(log, "/p", hooks_called("a")).events == 1
    assert last_fired(log, "/p", hooks_called("h290")).events == 10
    assert last_fired(log, "/p", []).events <= 1


def test_the_scan_is_limited(tmp_path: Path) -> None:
    """After a number of bytes it returns how many events were read."""
    log = write(tmp_path, "/p", (content("/p", outcomes=[said("a")]) for _ in range(50)))
    found = last_fired(log, "/p", hooks_called("missing"), at_most=10_000)

    assert not found.complete
    assert 5 < found.events < 50


def test_the_log_of_a_project_with_the_same_folder(tmp_path: Path) -> None:
    """`/a-b` and `/a/b` share a folder; each gets only its own records."""
    write(tmp_path, "/a-b", [content("/a-b", outcomes=[said("mine")])])
    log = write(tmp_path, "/a/b", [content("/a/b", outcomes=[said("theirs")])])

    assert set(last_fired(log, "/a-b", hooks_called("mine", "theirs")).times) == {"mine"}


def test_outcomes_in_a_side_file(tmp_path: Path) -> None:
    """A record that is too long for its line counts like any other."""
    outcomes = [said(f"h{n}", reason="x" * 500) for n in range(200)]
    log = write(tmp_path, "/p", [content("/p", outcomes=outcomes)])

    assert set(last_fired(log, "/p", hooks_called("h0", "h199")).times) == {"h0", "h199"}


def test_a_link_in_place_of_a_log(project: Project) -> None:
    """It is refused, not followed."""
    config = project.load(builtins=True)
    (project.root / "hooks").mkdir(parents=True)
    (project.folder / "elsewhere").mkdir()
    log_folder(project.root, config.project).symlink_to(project.folder / "elsewhere")
    log = log_of(config)
    assert log is not None

    with pytest.raises(StoreError):
        last_fired(log, config.project, hooks_called("a"))


# -- which never fired


def test_hooks_that_never_fired(project: Project) -> None:
    """A hook is reported if its event occurred while it was configured, and not if it never occurred."""
    project.write(OWN, HOOKS)
    for _ in range(3):
        project.fire("Bash", "ls", builtins=True)

    assert noted(project) == [("BH601", "never"), ("BH601", "rule")]


def test_records_of_billhook_are_no_events(project: Project) -> None:
    """No hook can listen for `Trust`: an approval does not make a hook one that never ran."""
    project.write(OWN, "hooks:\n  every: {run: 'true'}\n")
    record_trust("acknowledged", (), project.load(), gates=[])
    assert noted(project) == []


def test_the_text_of_the_note(project: Project) -> None:
    """How often which event occurred, what did not match, the place of the hook, and where to look."""
    project.write(OWN, HOOKS)
    project.fire("Bash", "ls", builtins=True)
    verdict = project.fire("Bash", "ls", builtins=True)
    config = project.load(builtins=True)
    log = log_of(config)
    assert log is not None

    match, rule = lint_log(facts(log, config), 1000.0)

    assert match.message == "hook `never` has never run: `PreToolUse` occurred twice, and `match: Write` did not match"
    assert (
        rule.message
        == "hook `rule` has never run: `PreToolUse` occurred twice, and `if: Bash(git push *)` did not match"
    )
    assert f"`billhook explain {verdict.id}`" in match.hint
    assert (match.line, match.column > 1) == (3, True)


def test_a_hook_that_fired_once_is_not_reported(project: Project) -> None:
    """However long ago."""
    project.write(OWN, HOOKS)
    project.fire("Write", "x", builtins=True)
    for _ in range(3):
        project.fire("Bash", "git push x", builtins=True)

    assert noted(project) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "", "  late: {events: PreToolUse, match: Write, run: 'true'}\n", id="a hook younger than the events"
        ),
        pytest.param(
            "  late: {events: PreToolUse, match: Read, run: 'true'}\n",
            "  late: {events: PreToolUse, match: Write, run: 'true'}\n",
            id="a matcher that was changed later",
        ),
        pytest.param(
            "  late: {events: PreToolUse, if: Bash(a *), run: 'true'}\n",
            "  late: {events: PreToolUse, if: Bash(b *), run: 'true'}\n",
            id="a rule that was changed later",
        ),
        pytest.param(
            "  late: {events: PreToolUse, match: Write, run: 'true'}\n",
            "  late: {events: PreToolUse, match: Write, run: 'true', enabled: false}\n",
            id="switched off",
        ),
    ],
)
def test_hooks_that_could_not_have_fired(project: Project, before: str, after: str) -> None:
    """Events from before a change of the hook don't count."""
    every = "hooks:\n  every: {events: PreToolUse, run: 'true'}\n"
    project.write(OWN, every + before)
    project.fire("Bash", "ls", builtins=True)
    project.write(OWN, every + after)

    assert noted(project) == []


def test_a_hook_that_is_not_approved(project: Project) -> None:
    """It can't fire, which other commands report. Once it is approved and its event occurs, it is reported here."""
    project.write("hooks.yaml", "hooks: {late: {events: PreToolUse, match: Write, run: 'true'}}\n")
    project.fire("Bash", "ls", builtins=True)
    assert noted(project) == []

    project.approve(builtins=True)
    assert noted(project) == []

    project.fire("Bash", "ls", builtins=True)
    assert noted(project) == [("BH601", "late")]


def test_a_hook_behind_a_deny(project: Project) -> None:
    """It has never fired although its event occurred, and the note names the hook that always came first."""
    project.write(
        OWN,
        "hooks:\n  first: {events: PreToolUse, deny: refused}\n"
        "  second: {events: PreToolUse, run: 'true'}\n"
        "  third: {events: PreToolUse, match: Bash, run: 'true'}\n",
    )
    for tool in ("Bash", "Bash", "Write"):
        verdict = project.fire(tool, "ls", builtins=True)
    second, third = messages(project)

    assert second == (
        "hook `second` has never run: `PreToolUse` occurred 3 times, "
        "and each time `first` answered deny before it could run"
    )
    assert third == (
        "hook `third` has never run: `PreToolUse` occurred 3 times; `match: Bash` did not match once, "
        "and twice `first` answered deny before it could run"
    )
    config = project.load(builtins=True)
    log = log_of(config)
    assert log is not None
    hint = next(iter(lint_log(facts(log, config), 1000.0))).hint
    assert hint == (
        f"`billhook explain {verdict.id}` shows why it was skipped the last time; "
        "to run also for denied calls, it needs a smaller `priority`"
    )


def test_a_hook_behind_several(project: Project) -> None:
    """The hooks that came first most often are named. A stop counts like a deny, other reasons don't count."""
    project.write(OWN, "hooks: {late: {events: PreToolUse, run: 'true'}}\n")
    ended = ["`a` answered deny", "`b` answered stop", "`b` answered stop", "`c` answered deny", "`d` answered deny"]
    reasons = [*ended[:3], "not trusted", *ended[3:]]
    logged(project, *({"not_asked": {"late": why}} for why in reasons))

    assert messages(project) == [
        "hook `late` has never run: `PreToolUse` occurred 5 times, and each time "
        "`b` answered stop or `d` answered deny or `c` answered deny or others before it could run"
    ]


def test_a_hook_behind_a_deny_that_fired_once(project: Project) -> None:
    """It is not reported."""
    project.write(
        OWN,
        "hooks:\n  first: {events: PreToolUse, match: Bash, deny: refused}\n"
        "  second: {events: PreToolUse, run: 'true'}\n",
    )
    project.fire("Bash", "ls", builtins=True)
    project.fire("Write", "x", builtins=True)
    project.fire("Bash", "ls", builtins=True)

    assert noted(project) == []


def test_without_kept_configurations(project: Project) -> None:
    """The records contain the names of the hooks."""
    project.write(OWN, HOOKS)
    project.fire("Bash", "ls", builtins=True)
    for file in (project.root / "billhook" / "configs").iterdir():
        file.unlink()

    assert noted(project) == [("BH601", "never"), ("BH601", "rule")]


# -- under other names

GUARD = "hooks: {watch: {events: PreToolUse, run: 'true'}}\n"
OTHER = "hooks: {watch: {events: PreToolUse, match: Write, run: ':'}}\n"


def fired(project: Project) -> set[str]:
    """The hooks that fired according to the log."""
    config = project.load(builtins=True)
    log = log_of(config)
    assert log is not None
    return set(last_fired(log, config.project, [row for row in rows(config) if row.declared is not None]).times)


@pytest.mark.parametrize("kept", [True, False], ids=["with its configuration", "with its record only"])
def test_a_hook_that_was_shown_with_its_layer(project: Project, kept: bool) -> None:
    """It was `user/watch` while another hook had its name; it is the same hook."""
    project.write(OWN, GUARD)
    project.write("hooks.yaml", OTHER)
    project.approve(builtins=True)
    project.fire("Bash", "ls", builtins=True)
    project.write("hooks.yaml", "hooks: {}\n")
    if not kept:
        for file in (project.root / "billhook" / "configs").iterdir():
            file.unlink()

    assert fired(project) == {"watch"}
    assert noted(project) == []

    project.write(OWN, "hooks: {}\n")
    project.write("hooks.yaml", OTHER)
    assert fired(project) == set()
    assert noted(project) == [("BH601", "watch")]


def test_a_hook_that_is_shown_with_its_layer_now(project: Project) -> None:
    """Its records as `guard`, when it was the only one, don't count for the new hook of that name."""
    project.write(OWN, GUARD)
    project.fire("Bash", "ls", builtins=True)
    project.write("hooks.yaml", OTHER)
    project.approve(builtins=True)

    assert fired(project) == {"user/watch"}
    assert noted(project) == []


def test_a_hook_that_moved(project: Project) -> None:
    """Into another layer, with the same name: its earlier records count."""
    project.write(OWN, GUARD)
    project.fire("Bash", "ls", builtins=True)
    project.write(OWN, "hooks: {}\n")
    project.write("hooks.yaml", GUARD)
    project.approve(builtins=True)

    assert fired(project) == {"watch"}


def test_hooks_of_one_name_in_one_layer(tmp_path: Path) -> None:
    """Their numbers distinguish them."""
    log = write(tmp_path, "/p", [content("/p", outcomes=[said("user/a#2")]), content("/p", outcomes=[said("b")])])

    assert set(last_fired(log, "/p", hooks_called("user/a", "user/a#2", "user/b")).times) == {"user/a#2", "user/b"}


# -- which are slow


def test_slow_hooks(project: Project) -> None:
    """Over the budget in the newest 200 runs: earlier runs don't count."""
    project.write(OWN, "hooks:\n  fixed: {events: Stop, run: a}\n  worse: {events: Stop, run: b}\n")
    old = [{"outcomes": [said("fixed", duration_ms=5000.0), said("worse", duration_ms=1.0)]}] * 300
    new = [{"outcomes": [said("fixed", duration_ms=1.0), said("worse", duration_ms=1000.1)]}] * 200
    logged(project, *old, *new)

    assert noted(project) == [("BH602", "worse")]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        pytest.param([1500.0], "hook `slow` is slow: its one run took 1,500 ms", id="one"),
        pytest.param([1.0, 1500.0, 2000.0], "hook `slow` is slow: the slowest of 3 runs took 2,000 ms", id="few"),
        pytest.param(
            [1.0] * 18 + [1234.0] * 2, "hook `slow` is slow: one run in twenty takes 1,234 ms or more", id="many"
        ),
    ],
)
def test_the_note_about_a_slow_hook(project: Project, times: list[float], message: str) -> None:
    """The wording depends on the number of its runs."""
    project.write(OWN, "hooks:\n  slow: {events: Stop, run: a}\n")
    logged(project, *({"outcomes": [said("slow", duration_ms=ms)]} for ms in times))
    config = project.load(builtins=True)
    log = log_of(config)
    assert log is not None
    (note,) = lint_log(facts(log, config), budget_of(config))

    assert note.message == f"{message}, and the latency budget is 1,000 ms"
    assert note.hint == "make it faster, run it in the background, or raise `warn_ms` of the built-in `metrics`"


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        pytest.param("", 1000.0, id="default"),
        pytest.param("builtins: {metrics: {options: {warn_ms: 250}}}", 250, id="set"),
        pytest.param("builtins: {metrics: {options: {warnMs: 250}}}", 250, id="camelCase"),
        pytest.param("builtins: {metrics: {enabled: false}}", None, id="off"),
    ],
)
def test_the_budget(project: Project, options: str, budget: float | None) -> None:
    """The budget of the built-in; none if the metrics are switched off."""
    project.write(OWN, options or "hooks: {}")

    assert budget_of(project.load(builtins=True)) == budget


def test_a_hook_that_does_something_else_now(project: Project) -> None:
    """Runs of another command don't count."""
    project.write(
        OWN, "builtins: {metrics: {options: {warn_ms: 5}}}\nhooks: {h: {events: PreToolUse, run: sleep 0.05}}"
    )
    project.fire(builtins=True)
    assert noted(project) == [("BH602", "h")]

    project.write(OWN, "builtins: {metrics: {options: {warn_ms: 5}}}\nhooks: {h: {events: PreToolUse, run: 'true'}}")
    assert noted(project) == []


# -- recent events


def test_recent(tmp_path: Path) -> None:
    """Events since midnight, those that failed open, and the last one."""
    times = [at(hours=hours) for hours in (50, 40, 3, 2, 1)]
    log = write(tmp_path, "/p", (content("/p", time=t, failed_open=1) for t in times))

    found = recent(log, "/p", at(hours=10))
    assert found is not None
    assert (found.last, found.today, found.failed_open, found.complete) == (times[-1], 3, 3, True)
    assert recent(log, "/other", at(hours=10)) is None
    short = recent(log, "/p", at(hours=100), at_most=1500)
    assert short is not None
    assert (short.today < 5, short.complete) == (True, False)
