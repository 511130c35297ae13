"""Whatever a project sets, the user's settings stay at least as strict."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billhook import Decision, Verdict
from billhook.config import load_config
from billhook.core.events import Event, PreToolUse, Stop, UserPromptSubmit

NAMES = ["guard", "scan", "note", "guard", "turn-tracker", "missing"]
EVENTS: list[Event] = [
    PreToolUse(tool_name="Bash", tool_input={"command": "git push --force"}, cwd="/"),
    PreToolUse(tool_name="Write", tool_input={"file_path": "/x", "content": ""}, cwd="/"),
    UserPromptSubmit(prompt="hello", cwd="/"),
    Stop(stop_hook_active=False, cwd="/"),
]

answers = st.one_of(
    st.fixed_dictionaries({"deny": st.sampled_from(["no", "never"])}),
    st.fixed_dictionaries({"ask": st.just("sure?")}),
    st.fixed_dictionaries({"allow": st.just("fine")}),
    st.fixed_dictionaries({"inject": st.just("by the way")}),
    st.just({}),  # no action: broken
    st.just({"deny": "x", "ask": "y"}),  # broken, too
    st.just({"exec": ["${NOT_SET_ANYWHERE}"]}),
)
hooks = st.builds(
    lambda answer, more: answer | more,
    answers,
    st.fixed_dictionaries(
        {},
        optional={
            "events": st.sampled_from(
                ["PreToolUse", ["PreToolUse", "Stop"], "UserPromptSubmit", "Stop", "PreToolUs", ["Stop", "X"], 5]
            ),
            "match": st.sampled_from(["Bash", "Write|Edit", "*", "Ba.*", "bash", "(", 7]),
            "if": st.sampled_from(["Bash(git push *)", "Write", "Bash(", "Bash(ls)"]),
            "gate": st.sampled_from([True, False, "yes"]),
            "on_failure": st.sampled_from(["allow", "deny", "ask", "blok"]),
            "enabled": st.booleans(),
            "priority": st.sampled_from([-1000, 0, 50, 1000, 1e6]),
            "after": st.sampled_from(["guard", ["scan", "note"], ["missing"], "turn-tracker", []]),
            "timeout": st.sampled_from([0.001, 1, 1e8, 0, -1]),
            "dialect": st.sampled_from(["claude", "claw", "lesson", "spec", "clawd"]),
            "gat": st.just(True),
        },
    ),
)
files = st.fixed_dictionaries(
    {"hooks": st.dictionaries(st.sampled_from(NAMES), hooks, max_size=3)},
    optional={
        "parallelExecution": st.booleans(),
        "disableAllHooks": st.booleans(),
        "dialect": st.sampled_from(["claude", "lesson", "x"]),
        "settings": st.sampled_from([{"timeout": 0.001}, {"parallelExecution": True}, 5]),
        "builtins": st.sampled_from([{"guard": False}, {"event-logger": {"enabled": False}}, 5]),
        "allowedHttpHookUrls": st.just([]),
    },
)
broken = st.sampled_from(['{"hooks": ', "hooks: [", "gate: {", "", "[]", "5", "\x00"])
STRICTNESS = {Decision.NONE: 0, Decision.ALLOW: 0, Decision.ASK: 1, Decision.DEFER: 2, Decision.DENY: 3}


def verdicts(base: Path, user: Any, project: Any, trust: str) -> list[Verdict]:
    for name, content in (("user.yaml", user), ("hooks.yaml", project)):
        (base / name).write_text(content if isinstance(content, str) else json.dumps(content))
    layers: Any = ["explicit", "project"] if project is not None else ["explicit"]
    config = load_config(
        base,
        files=[base / "user.yaml"],
        layers=layers,
        home=base / "state",
        builtins=False,
        trust=trust,  # type: ignore[arg-type]
    )
    engine = config.engine()
    return [engine.fire_sync(event) for event in EVENTS]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("merging")
    (folder / ".git").mkdir()
    return folder


# In parts, so that they run in parallel; most of the examples are in the slow suite.
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 4))])
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(user=st.one_of(files, broken), project=st.one_of(files, files, files, broken), data=st.data())
def test_a_project_is_never_weaker_than_the_user_alone(
    base: Path, part: int, user: Any, project: Any, data: st.DataObject
) -> None:
    """Even if the whole project is trusted: no decision of the user's hooks is loosened, and none disappears."""
    del part, data
    alone = verdicts(base, user, None, "all")
    merged = verdicts(base, user, project, "all")
    for before, after in zip(alone, merged, strict=True):
        assert STRICTNESS[after.decision] >= STRICTNESS[before.decision]
        assert after.keep_going >= (before.keep_going and not after.stop)
        if after.decision is not Decision.DENY:  # a deny ends the run of later hooks
            assert set(before.context) <= set(after.context)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(user=files, project=st.one_of(files, broken))
def test_an_unapproved_project_changes_nothing(base: Path, user: Any, project: Any) -> None:
    """Unapproved hooks have no effect on any verdict, except for being named."""
    alone = verdicts(base, user, None, "approved")
    merged = verdicts(base, user, project, "approved")
    for before, after in zip(alone, merged, strict=True):
        assert (before.decision, before.context) == (after.decision, after.context)
        assert (before.messages, before.keep_going, before.stop) == (after.messages, after.keep_going, after.stop)
