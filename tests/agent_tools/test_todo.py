"""The list of what there is to do."""

from pathlib import Path
from typing import Any

import pytest

from .calling import Agent


def test_the_answer_shows_the_list(tmp_path: Path) -> None:
    """Done, in progress in its own words, and to do."""
    todos = [
        {"content": "Read\nthe code", "status": "completed"},
        {"content": "Write a test", "status": "in_progress", "activeForm": "Writing a test"},
        {"content": "Run it", "status": "in_progress", "activeForm": None},
        {"content": "Ship it", "status": "pending", "activeForm": "Shipping it"},
    ]
    shown = "1 of 4 done\n[x] Read the code\n[>] Writing a test\n[>] Run it\n[ ] Ship it"
    assert Agent(tmp_path).call("TodoWrite", todos=todos) == shown


def test_an_empty_list(tmp_path: Path) -> None:
    """Nothing is left to do."""
    assert Agent(tmp_path).call("TodoWrite", todos=[]) == "The list is empty"


WRONG: dict[str, tuple[Any, str]] = {
    "missing": (None, "`todos` is missing: it must be a list"),
    "a string": ("do it", "`todos` must be a list, not a string"),
    "an object": ({"content": "a"}, "`todos` must be a list, not an object"),
    "a list of strings": (["do it"], "`todos[0]` must be an object, not a string"),
    "no content": ([{"status": "pending"}], "todos[0]: `content` is missing: it must be a string"),
    "empty content": ([{"content": "", "status": "pending"}], "todos[0]: `content` is empty"),
    "content of another type": ([{"content": 3, "status": "pending"}], "todos[0]: `content` must be a string, not 3"),
    "no status": ([{"content": "a"}], "todos[0]: `status` is missing: it must be a string"),
    "an odd status": (
        [{"content": "a", "status": "pending"}, {"content": "a", "status": "done"}],
        "todos[1]: `status` must be one of pending, in_progress, completed, not `done`",
    ),
    "an odd active form": (
        [{"content": "a", "status": "pending", "activeForm": True}],
        "todos[0]: `activeForm` must be a string, not a boolean",
    ),
}


@pytest.mark.parametrize(("todos", "reported"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_named(tmp_path: Path, todos: Any, reported: str) -> None:
    """The field, what it must be, and what it was."""
    assert Agent(tmp_path).fails("TodoWrite", todos=todos) == reported
