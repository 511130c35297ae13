"""The plan: order, missing names, cycles, layers."""

import random
import time
from typing import Any

import pytest

from billhook import Context, Engine, Hook, PlanError, PreToolUse, Source, UsageError
from billhook.core.events import parse
from billhook.engine.plan import Plan


def nothing(ctx: Context) -> None:
    return None


def hook(name: str, **options: Any) -> Hook:
    """A hook that is like no other."""
    return Hook(name=name, **{"run": lambda ctx: None, **options})


def order(*hooks: Hook) -> list[str]:
    return [one.name for one in Plan(hooks).hooks]


def test_priority_then_given_order() -> None:
    """Ascending and stable: 100 is the default."""
    assert order(hook("x"), hook("b", priority=50), hook("y"), hook("a", priority=5), hook("z", priority=100)) == [
        "a", "b", "x", "y", "z"
    ]  # fmt: skip
    names = [str(i) for i in range(500)]
    assert order(*map(hook, names)) == names


def test_after_beats_priority() -> None:
    """A hook waits for the hooks that it names, whatever the priorities are, and for no others."""
    assert order(hook("a", priority=1, after=("b",)), hook("c"), hook("b", priority=150), hook("d", priority=200)) == [
        "c", "b", "a", "d"
    ]  # fmt: skip
    assert order(hook("c", after=("b",)), hook("b", after=("a",)), hook("a")) == ["a", "b", "c"]


def test_after_waits_for_every_hook_of_that_name() -> None:
    """A name that two layers use means both."""
    twins = [hook("x", source=Source(layer=layer), priority=p) for layer, p in (("user", 10), ("project", 300))]
    assert order(*twins, hook("y", after=("x",))) == ["x", "x", "y"]


def test_missing_name() -> None:
    """A name that does not exist is an error that names both ends and the place."""
    with pytest.raises(PlanError) as caught:
        Plan([hook("scan", after=("turn-traker",), source=Source("user", "hooks.yaml", 7)), hook("turn-tracker")])
    assert "`scan`" in str(caught.value) and "`turn-traker`" in str(caught.value)
    assert "hooks.yaml:7" in str(caught.value)
    assert "turn-tracker" in caught.value.hint


@pytest.mark.parametrize(
    ("edges", "cycle"),
    [
        ({"a": "a"}, {"a"}),
        ({"a": "b", "b": "a"}, {"a", "b"}),
        ({"x": "a", "a": "b", "b": "c", "c": "a", "free": ""}, {"a", "b", "c"}),
    ],
)
def test_cycle(edges: dict[str, str], cycle: set[str]) -> None:
    """A cycle is an error that names only its members."""
    with pytest.raises(PlanError) as caught:
        Plan([hook(name, after=tuple(after.split())) for name, after in edges.items()])
    path = caught.value.message.removeprefix("hooks wait for each other: ").split(" -> ")
    assert set(path) == cycle
    assert path[0] == path[-1]


def test_random_graphs_keep_every_promise() -> None:
    """For any graph without cycles: dependencies first, and between free hooks the lower (priority, position)."""
    rng = random.Random(7)
    for _ in range(100):
        names = [f"h{i}" for i in range(12)]
        shuffled = rng.sample(names, len(names))
        hooks = [
            hook(
                name,
                priority=rng.choice((5, 100)),
                after=tuple(rng.sample(shuffled[:i], min(i, rng.choice((0, 1, 2))))),
            )
            for i, name in enumerate(shuffled)
        ]
        rng.shuffle(hooks)
        given = {one.name: (one.priority, i) for i, one in enumerate(hooks)}
        done: set[str] = set()
        waiting = {one.name: one for one in hooks}
        for one in Plan(hooks).hooks:
            ready = [other for other in waiting.values() if done.issuperset(other.after)]
            assert one is min(ready, key=lambda other: given[other.name])
            done.add(one.name)
            del waiting[one.name]


def test_identical_hooks_of_several_layers_run_once() -> None:
    """With the strictest `on_failure` among them; in one layer they all run."""
    layers = [("managed", "allow"), ("user", "deny"), ("project", "ask")]
    same = [hook(f"n-{layer}", run=nothing, on_failure=rule, source=Source(layer=layer)) for layer, rule in layers]
    plan = Plan(same)
    assert [(one.name, one.on_failure) for one in plan.hooks] == [("n-managed", "deny")]
    assert len(Plan([hook("a", run=nothing), hook("b", run=nothing)]).hooks) == 2
    assert len(Plan([same[0], hook("x", run=nothing, match="Bash", source=Source(layer="user"))]).hooks) == 2
    assert len(Plan([same[0], hook("x", run=nothing, background=True, source=Source(layer="user"))]).hooks) == 2


def test_after_a_hook_that_was_left_out() -> None:
    """The name of an identical hook that does not run again is an alias of the one that runs."""
    same = [hook(layer, run=nothing, source=Source(layer=layer)) for layer in ("user", "project")]
    assert order(*same, hook("z", after=("project",), priority=1)) == ["user", "z"]


def test_same_name_in_two_layers() -> None:
    """Both run and are shown as `layer/name`; twice in one layer is numbered."""
    event = PreToolUse(tool_name="Bash", tool_input={})
    two = [hook("scan", source=Source(layer=layer)) for layer in ("user", "project")]
    assert [one.hook for one in Engine(two).fire_sync(event).outcomes] == ["user/scan", "project/scan"]
    assert [one.hook for one in Engine([hook("a"), hook("a")]).fire_sync(event).outcomes] == ["a", "a#2"]


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_timeout_must_be_positive(timeout: float) -> None:
    """A timeout that can't be kept is an error at once."""
    with pytest.raises(PlanError, match="`a` has a timeout"):
        Plan([hook("a", timeout=timeout)])


def test_dialect_must_exist() -> None:
    """An unknown dialect is an error at once, not when a tool is about to run."""
    with pytest.raises(UsageError, match="no dialect `klingon`"):
        Plan([hook("a", dialect="klingon")])


def test_invalid_hooks() -> None:
    """A bare function is refused with the way to make a hook of it."""
    with pytest.raises(PlanError, match="is not a hook"):
        Engine([nothing])  # type: ignore[list-item]


def test_many_expressions_that_are_too_large_for_one_set() -> None:
    """A thousand large expressions match as each of them would alone."""
    patterns = [f"^(mcp__server_{i}__[a-z_]{{1,200}}|x{i}[0-9]{{1,500}})$" for i in range(1000)]
    hooks = [hook(f"h{i}", match=pattern, dialect="claude") for i, pattern in enumerate(patterns)]
    verdict = Engine(hooks).fire_sync(PreToolUse(tool_name="mcp__server_500__go", tool_input={}))
    assert [one.hook for one in verdict.outcomes] == ["h500"]


def test_a_thousand_matchers_cost_a_lookup() -> None:
    """A tool's name that was met before is looked up, however many matchers there are."""
    hooks = [Hook(name=f"h{i}", run=nothing, match=f"^tool_{i}_.*", dialect="claude") for i in range(1000)]
    plan = Plan(hooks)
    event = PreToolUse(tool_name="tool_7_x", tool_input={})
    assert [step.name for step in plan.steps(event)] == ["h7"]
    began = time.process_time()
    for _ in range(10_000):
        plan.steps(event)
    assert time.process_time() - began < 1


def test_names_from_outside_do_not_pile_up() -> None:
    """The caches for names that come from outside are bounded."""
    plan = Plan([Hook(name="h", run=nothing, match="^x", dialect="claude")])
    for i in range(5000):
        plan.steps(PreToolUse(tool_name=f"t{i}", tool_input={}))
        plan.list_for(parse({"hook_event_name": f"E{i}"}))
    assert len(plan.by_type[PreToolUse].known) <= 1024
    assert len(plan._by_name) <= 1024
