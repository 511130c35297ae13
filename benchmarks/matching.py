"""Goal 14: find the hooks of an event among a thousand."""

import itertools
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, TypeVar

import re2

from billhook import Event, Hook, PreToolUse
from billhook.engine.plan import Plan
from harness import LOOPS, Bar, Case, Goal, Trial

_TOOLS = ("Bash", "Read", "Write", "Edit", "mcp__github__create_issue", "Grep")
T = TypeVar("T")


async def thousand_matchers() -> AsyncGenerator[Trial, None]:
    few, many = patterns(10), patterns(1000)
    plan = plan_of(many)
    assert [len(plan.steps(event)) for event in events(_TOOLS)] == [1, 0, 1, 1, 1, 0]
    cases: dict[str, Case] = {
        "1000 matchers": over(plan.steps, known_events),
        "10 matchers": over(plan_of(few).steps, known_events),
        "loop over compiled expressions": over(loop_over(many), known_names),
    }
    bars = [Bar("1000 matchers", "10 matchers", 1.5), Bar("1000 matchers", "loop over compiled expressions", 1 / 100)]
    yield Trial("known name", cases, bars, LOOPS)
    cases = {"1000 matchers": over(plan.steps, new_events), "re2.Set": over(set_of(many).Match, new_names)}
    yield Trial("first sight", cases, [Bar("1000 matchers", "re2.Set", 3)], LOOPS)


def over(function: Callable[[T], object], arguments: Callable[[int], list[T]]) -> Case:
    """A function as a case, called with one argument after the other; making the arguments is not measured."""

    async def case(count: int) -> float:
        given = arguments(count)
        began = time.perf_counter_ns()
        for argument in given:
            function(argument)
        return time.perf_counter_ns() - began

    return case


def known_names(count: int) -> list[str]:
    return list(itertools.islice(itertools.cycle(_TOOLS), count))


def known_events(count: int) -> list[Event]:
    return list(itertools.islice(itertools.cycle(events(_TOOLS)), count))


def new_names(count: int) -> list[str]:
    """New names of tools; a hook matches every second one."""
    numbers = itertools.islice(_numbers, count)
    return [f"mcp__server{i % 500 * 2}__tool{i}" if i % 2 else f"Unknown{i}" for i in numbers]


def new_events(count: int) -> list[Event]:
    return events(new_names(count))


def events(names: Sequence[str]) -> list[Event]:
    return [PreToolUse(tool_name=name, tool_input={}) for name in names]


_numbers = itertools.count()


def patterns(count: int) -> list[str]:
    """Half of them are lists of names, half are expressions; three match real tools."""
    usual = ["Bash", "Edit|Write", "mcp__github__.*"]
    made = (f"Tool{i}|Other{i}" if i % 2 else f"mcp__server{i}__.*" for i in itertools.count())
    return [*itertools.islice(made, count - len(usual)), *usual]


def plan_of(wanted: Sequence[str]) -> Plan:
    """One hook for each pattern. `claude` reads a pattern as names if possible, else as an expression."""
    return Plan(
        Hook(name=f"hook-{i}", run=lambda ctx: None, events=("PreToolUse",), match=pattern, dialect="claude")
        for i, pattern in enumerate(wanted)
    )


def as_expressions(wanted: Sequence[str]) -> list[str]:
    """The same patterns for peers that have only expressions."""
    return [pattern if "*" in pattern else f"^(?:{pattern})$" for pattern in wanted]


def set_of(wanted: Sequence[str]) -> Any:
    """The limit: all expressions in one automaton."""
    made = re2.Set.SearchSet()
    for expression in as_expressions(wanted):
        made.Add(expression)
    made.Compile()
    return made


def loop_over(wanted: Sequence[str]) -> Callable[[str], object]:
    """The usual loop, written well: the expressions are compiled in advance."""
    searches = [re.compile(expression).search for expression in as_expressions(wanted)]
    return lambda name: [i for i, search in enumerate(searches) if search(name)]


GOALS = (Goal(14, "Matching with 1000 matchers", thousand_matchers),)
