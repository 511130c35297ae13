"""Options of built-ins: every spelling, findings for invalid options, and what a project may set."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.config.builtin_hooks import OPTIONS, filled, merged, refused
from billhook.core.text import folded
from config.project import Project

USER = "~/.config/billhook/hooks.yaml"


def settled(project: Project, name: str) -> dict[str, Any]:
    return filled(name, project.load().builtins[name].options)


def found(project: Project) -> list[tuple[str, int, int, str]]:
    return [(one.code, one.line, one.column, one.message) for one in project.load().problems]


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


@pytest.mark.parametrize("spell", [str, camel], ids=["snake_case", "camelCase"])
def test_both_spellings_work(project: Project, spell: Any) -> None:
    """The seed's file has snake_case, its program reads only camelCase: here both have the same meaning."""
    project.write(
        USER,
        f"builtins:\n  turn-tracker:\n    options:\n      {spell('preserve_on_resume')}: false\n"
        f"      {spell('inject_context')}: true\n  event-logger:\n    options:\n      {spell('include_input')}: false\n"
        f"      {spell('on_log_failure')}: deny\n      {spell('max_bytes')}: 100000\n  metrics:\n    options:\n"
        f"      {spell('warn_ms')}: 20\n  rate-limit:\n    options:\n      {spell('at_most')}: 2\n      per: turn\n",
    )
    assert found(project) == []
    assert settled(project, "turn-tracker") == {"preserve_on_resume": False, "inject_context": True}
    logger = settled(project, "event-logger")
    assert (logger["include_input"], logger["on_log_failure"], logger["max_bytes"]) == (False, "deny", 100000)
    assert settled(project, "metrics") == {"warn_ms": 20}
    assert settled(project, "rate-limit") == {"limits": ({"at_most": 2, "per": "turn"},)}


WRONG = {
    "an unknown option": (
        "turn-tracker",
        "inject_contxt: true",
        "BH202",
        "`turn-tracker` has no option `inject_contxt`",
    ),
    "an option of a built-in without any": (
        "session-naming",
        "format: uuid",
        "BH202",
        "`session-naming` has no option",
    ),
    "a string for a flag": ("event-logger", "redact: nope", "BH203", "`redact` must be true or false, not a string"),
    "an unknown word": ("event-logger", "on_log_failure: dney", "BH203", "must be one of warn, deny"),
    "a size too small": ("event-logger", "max_bytes: 10", "BH203", "must be a whole number of at least 65536"),
    "a flag for a number": ("metrics", "warn_ms: true", "BH203", "must be a number of at least 0"),
    "a negative number": ("metrics", "warn_ms: -1", "BH203", "must be a number of at least 0"),
    "keys that are not names": ("event-logger", "redact_keys: [a, 1]", "BH203", "must be a list of names"),
    "a limit without a number": ("rate-limit", "limits: [{per: turn}]", "BH203", "a limit needs `at_most`"),
    "a limit without a period": ("rate-limit", "limits: [{at_most: 1}]", "BH203", "a limit needs `per`"),
    "a limit with a typo": ("rate-limit", "limits: [{at_mst: 1, per: turn}]", "BH202", "a limit has no `at_mst`"),
    "a limit that is a string": ("rate-limit", "limits: [Bash]", "BH203", "a limit must be a mapping, not a string"),
    "an invalid rule": ("rate-limit", "limits: [{rule: 'Bash(', at_most: 1, per: turn}]", "BH203", "`rule`"),
    "an hour without a fleet": (
        "rate-limit",
        "limits: [{at_most: 1, per: hour}]",
        "BH203",
        "`per: hour` is for limits of the fleet",
    ),
    "a turn of the fleet": (
        "rate-limit",
        "limits: [{at_most: 1, per: turn, scope: fleet}]",
        "BH203",
        "per minute, hour or day",
    ),
    "minutes per minute": (
        "rate-limit",
        "limits: [{at_most: 1, of: minutes, per: minute}]",
        "BH203",
        "turn or session",
    ),
    "tokens per turn": ("rate-limit", "limits: [{at_most: 9, of: tokens, per: turn}]", "BH203", "must be per session"),
    "a cost without prices": (
        "rate-limit",
        "limits: [{at_most: 5, of: cost, per: session}]",
        "BH203",
        "needs `prices`",
    ),
    "prices without a cost": (
        "rate-limit",
        "limits: [{at_most: 5, per: session, prices: {'*': {input: 1, output: 1}}}]",
        "BH203",
        "no other has them",
    ),
    "half a price": (
        "rate-limit",
        "limits: [{at_most: 5, of: cost, per: session, prices: {m: {input: 1}}}]",
        "BH203",
        "the price of `m` needs `input` and `output`",
    ),
    "a typo in a price": (
        "rate-limit",
        "limits: [{at_most: 5, of: cost, per: session, prices: {m: {inptu: 1, output: 1}}}]",
        "BH202",
        "a price has no `inptu`",
    ),
    "half a call": ("rate-limit", "limits: [{at_most: 1.5, per: turn}]", "BH203", "must be a whole number, not `1.5`"),
    "an unknown period": ("rate-limit", "limits: [{at_most: 1, per: week}]", "BH203", "turn, session, minute"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_mistakes_are_reported(project: Project, case: tuple[str, str, str, str]) -> None:
    """Each with its place and a hint; the other options stay."""
    builtin, option, code, message = case
    project.write(USER, f"builtins:\n  {builtin}:\n    options:\n      {option}\n")
    (problem,) = project.load().problems
    assert (problem.code, problem.line) == (code, 4) and message in problem.message and problem.hint
    assert problem.column >= 7


def test_a_limit_that_cannot_be_used_blocks(project: Project) -> None:
    """A mistake in a limit of the user blocks the calls that it would have counted, and the reason is reported."""
    project.write(USER, "builtins: {rate-limit: {options: {at_most: x, per: turn}}}\n")
    verdict = project.fire(builtins=True)
    assert verdict.decision == "deny" and "its options can't be used" in verdict.reason
    project.write(USER, "")
    project.write("hooks.yaml", "builtins: {rate-limit: {options: {at_most: x, per: turn}}}\n")
    assert project.fire(builtins=True).decision == "none"


LOOSENING = {
    "less input": "include_input: false",
    "less output": "include_output: false",
    "secrets": "redact: false",
    "a log that may fail": "on_log_failure: warn",
    "an early rotation": "max_bytes: 70000",
    "heads elsewhere": "export_head_to: /tmp",
    "heads less often": "export_head_every: 86400",
    "no sync": "sync: false",
}


@pytest.mark.parametrize("option", LOOSENING.values(), ids=LOOSENING.keys())
def test_a_project_can_only_tighten(project: Project, option: str) -> None:
    """Options that record less, or record secrets, count only in the user's file."""
    name, _, value = option.partition(": ")
    project.write("hooks.yaml", f"builtins:\n  event-logger:\n    options:\n      {option}\n")
    assert settled(project, "event-logger") == filled("event-logger", {})
    assert [code for code, *_ in found(project)] == ["BH215"]
    project.path("hooks.yaml").unlink()
    project.write(USER, f"builtins:\n  event-logger:\n    options:\n      {option}\n")
    assert str(settled(project, "event-logger")[name]).lower() == value
    assert found(project) == []


def test_a_project_adds_to_lists(project: Project) -> None:
    """Limits and names to redact of several files add up."""
    limits = (
        "builtins:\n  rate-limit: {{options: {{limits: [{{at_most: {0}, per: turn}}]}}}}\n"
        "  event-logger: {{options: {{redact_keys: [{1}]}}}}\n"
    )
    project.write(USER, limits.format(5, "mine"))
    project.write("hooks.yaml", limits.format(2, "yours"))
    assert [one["at_most"] for one in settled(project, "rate-limit")["limits"]] == [5, 2]
    assert settled(project, "event-logger")["redact_keys"] == ("mine", "yours")


def test_too_many_limits_are_refused(project: Project) -> None:
    """Each is checked before every call: an unapproved file must not delay the user's gates."""
    many = ", ".join(["{at_most: 1, per: turn}"] * 51)
    project.write("hooks.yaml", f"builtins: {{rate-limit: {{options: {{limits: [{many}]}}}}}}\n")
    assert settled(project, "rate-limit") == {"limits": ()}
    assert "at most 50 are allowed" in found(project)[0][3]


def test_no_two_options_fold_to_one_name() -> None:
    """Otherwise a spelling would be ambiguous."""
    for options in OPTIONS.values():
        names = [folded(option.name) for option in options]
        assert len(names) == len(set(names))


FLAGS = st.fixed_dictionaries(
    {},
    optional={
        "include_input": st.booleans(),
        "redact": st.booleans(),
        "on_log_failure": st.sampled_from(["warn", "deny"]),
    },
)


@given(FLAGS, FLAGS)
def test_no_option_of_a_project_loosens(user: dict[str, Any], project: dict[str, Any]) -> None:
    """With any options of the user and of a project, nothing less is recorded or redacted than without it."""
    allowed = {key: value for key, value in project.items() if key not in refused("event-logger", project)}
    alone, both = filled("event-logger", user), filled("event-logger", merged("event-logger", user, allowed))
    assert both["include_input"] >= alone["include_input"] and both["redact"] >= alone["redact"]
    assert (both["on_log_failure"] == "deny") >= (alone["on_log_failure"] == "deny")
