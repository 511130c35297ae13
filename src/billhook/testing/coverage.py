"""How well tests cover the rules: what no test exercises. A rule is exercised in two ways: it applies, it does not."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from billhook.config.builtin_hooks import filled
from billhook.config.config import Entry
from billhook.config.declaration import Conditions
from billhook.config.sources import of_claude_code, shown_path
from billhook.core.text import counted
from billhook.testing.runner import CaseResult, Suite

_VERBS = {
    "hook": ("runs", "run"),
    "guard cell": ("stops a call", "stop a call"),
    "shadow cell": ("is reached", "apply"),
    "built-in": ("stops a call", "stop a call"),
    "permission rule": ("matches", "match"),
}


class CoveredRule(msgspec.Struct, frozen=True):
    """One rule, and in which ways tests exercise it."""

    kind: str  # `hook`, `guard cell` or `permission rule`
    name: str
    applies: bool  # in one test at least
    spares: bool  # there is a test to which it does not apply, or it has no condition
    place: str = ""

    @property
    def missing(self) -> str:
        """What no test shows; empty if both ways are exercised."""
        verb, plain = _VERBS[self.kind]
        if not self.applies:
            return f"no test in which it {verb}"
        return "" if self.spares else f"no test in which it does not {plain}"


class RuleCoverage(msgspec.Struct, frozen=True):
    """All rules, and the cells of the guard's table that calls of tests reach."""

    rules: tuple[CoveredRule, ...]
    cells: dict[str, str]

    def lines(self) -> Iterator[str]:
        missing = [one for one in self.rules if one.missing]
        sum_ = f"{len(self.rules) - len(missing)} of {counted(len(self.rules), 'rule')}"
        yield f"coverage: {sum_} tested with a match and without one"
        for one in missing:
            place = f" ({one.place})" if one.place else ""
            yield f"  {one.kind} {one.name}{place}: {one.missing}"
        if self.cells:
            reached = ", ".join(f"{cell} {decision.replace('-', 'allow')}" for cell, decision in self.cells.items())
            yield f"  cells of the guard's table that tests reach: {reached}"
        yield ""

    def data(self) -> dict[str, Any]:
        rules = [{**msgspec.to_builtins(one), "missing": one.missing or None} for one in self.rules]
        return {"rules": rules, "cells": self.cells}


def coverage(suite: Suite, results: Sequence[CaseResult]) -> RuleCoverage:
    """What these results exercise."""
    seen = [one.exercised for one in results]
    hooks = _both_ways(one.hooks for one in seen)
    of_files = suite.real.permissions
    waiting = [one for file in of_files.pending for one in file.rules]
    known = [one.shown for one in (*of_files.deny, *of_files.ask, *of_files.allow, *waiting)]
    rules = {name: set[bool]() for name in known} | _both_ways(one.rules for one in seen)
    limits = ["rate-limit"] if suite.real.builtins["rate-limit"].options.get("limits") else []
    cells: dict[str, str] = {}
    for one in seen:
        for cell, decision in one.cells.items():
            cells[cell] = max(cells.get(cell, "-"), decision, key=("-", "ask", "deny").index)
    return RuleCoverage(
        (
            *(_of_entry(one, hooks, suite.real.project) for one in suite.real.entries if _counts(one)),
            *_of_cells(suite, [one.cells for one in seen if one.cells or one.rules]),
            *(
                CoveredRule("built-in", name, True in hooks.get(name, ()), False in hooks.get(name, ()))
                for name in limits
            ),
            *(CoveredRule("permission rule", name, True in ways, False in ways) for name, ways in rules.items()),
        ),
        dict(sorted(cells.items())),
    )


def _both_ways(seen: Iterable[Mapping[str, bool]]) -> dict[str, set[bool]]:
    found: dict[str, set[bool]] = {}
    for one in seen:
        for name, applied in one.items():
            found.setdefault(name, set()).add(applied)
    return found


def _counts(entry: Entry) -> bool:
    """Whether it is a rule that can run here."""
    unused = entry.declared.switch or entry.declared.broken or entry.state in ("off", "same", "not yet")
    return not unused and not (entry.pending and of_claude_code(entry.declared))


def _of_entry(entry: Entry, seen: Mapping[str, set[bool]], project: str) -> CoveredRule:
    declared, ways = entry.declared, seen.get(entry.shown, set())
    unconditional = not declared.match and not declared.part and declared.conditions == Conditions()
    place = f"{shown_path(declared.file, project)}:{declared.line}"
    return CoveredRule("hook", entry.shown, True in ways, unconditional or False in ways, place)


def _of_cells(suite: Suite, seen: Sequence[Mapping[str, str]]) -> Iterator[CoveredRule]:
    """The cells of the guard's table that the files set. One in shadow mode stops nothing: tests reach it."""
    options = filled("guard", suite.real.builtins["guard"].options)
    for cell in dict.fromkeys([*options["cells"], *options["project_cells"], *options["shadow"]]):
        tried = cell in options["shadow"]
        reached = [
            any(cell in (name, name.partition(":")[0]) and (tried or decision != "-") for name, decision in one.items())
            for one in seen
        ]
        kind = "shadow cell" if tried else "guard cell"
        yield CoveredRule(kind, cell, any(reached), not all(reached) or not seen)
