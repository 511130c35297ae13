"""docs/agent-loop.md describes the code, name by name."""

import ast
import inspect
import re
from pathlib import Path

from billhook.agent import loop
from billhook.core.events import EVENTS

PAGE = (Path(__file__).parent.parent / "docs" / "agent-loop.md").read_text("utf-8")
DIAGRAM = PAGE.split("## The diagram")[1].split("```")[1]


def test_the_diagram_has_the_methods_of_the_loop_in_their_order() -> None:
    """Every public step of the loop is in the diagram, and the diagram names nothing else."""
    tree = ast.parse(inspect.getsource(loop.AgentLoop))
    methods = [node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)]
    steps = [name for name in methods if not name.startswith("_")]
    assert list(dict.fromkeys(re.findall(r"\[(\w+)\]", DIAGRAM))) == steps


def test_the_diagram_names_events_that_exist() -> None:
    """A word that looks like an event is one."""
    camel = set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", DIAGRAM))
    assert camel - set(EVENTS) == set()
    assert {"SessionStart", "Stop", "PreToolUse", "TeammateIdle", "SessionEnd"} <= camel | {"Stop"}
