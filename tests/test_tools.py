"""Canonical tool names and what is read from a tool's input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook import tools

NAMES = [
    ("bash", "Bash"),
    ("read_file", "Read"),
    ("write_file", "Write"),
    ("edit_file", "Edit"),
]
UNCHANGED = ["Bash", "Read", "MultiEdit", "mcp__github__create_issue", "my-tool", "", "BASH", "é"]
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["command", "file_path", "path", "x"]), inner),
)


@pytest.mark.parametrize(("own", "name"), NAMES)
def test_the_seeds_names_map_both_ways(own: str, name: str) -> None:
    """A seed's name and its canonical name translate into each other."""
    assert tools.canonical(own) == name
    assert tools.called(name, "seed") == own
    assert tools.called(own, "seed") == own
    assert tools.called(own, "canonical") == name


@pytest.mark.parametrize("name", UNCHANGED)
def test_a_name_nobody_listed_passes_unchanged(name: str) -> None:
    """Canonical, foreign and odd names are their own canonical name."""
    assert tools.canonical(name) == name
    assert tools.called(name) == name


@pytest.mark.parametrize(
    ("tool", "tool_input", "command"),
    [
        pytest.param("Bash", {"command": "ls"}, "ls", id="canonical"),
        pytest.param("bash", {"command": "ls"}, "ls", id="the seeds' name"),
        pytest.param("Bash", {"command": ""}, "", id="empty is a command"),
        pytest.param("Bash", {"command": ["ls"]}, None, id="a list is none"),
        pytest.param("Bash", {}, None, id="missing"),
        pytest.param("Bash", None, None, id="no input"),
        pytest.param("Bash", "ls", None, id="a bare string"),
        pytest.param("Write", {"command": "ls"}, None, id="not a shell"),
    ],
)
def test_command_of(tool: str, tool_input: object, command: str | None) -> None:
    """The command is the shell tool's `command` string and nothing else."""
    assert tools.command_of(tool, tool_input) == command


@pytest.mark.parametrize(
    ("tool", "tool_input", "path"),
    [
        pytest.param("Write", {"file_path": "a"}, "a", id="file_path"),
        pytest.param("write_file", {"path": "a"}, "a", id="path"),
        pytest.param("NotebookEdit", {"notebook_path": "a"}, "a", id="notebook_path"),
        pytest.param("Write", {"file_path": "a", "path": "b"}, "a", id="file_path first"),
        pytest.param("NotebookEdit", {"file_path": "a", "notebook_path": "b"}, "b", id="notebook_path first"),
        pytest.param("Grep", {"file_path": "a", "path": "b"}, "b", id="path first"),
        pytest.param("Write", {"file_path": 3, "path": "b"}, "b", id="a number is no path"),
        pytest.param("Write", [], None, id="a list"),
        pytest.param("Glob", {"pattern": "*"}, None, id="no path"),
    ],
)
def test_path_of(tool: str, tool_input: object, path: str | None) -> None:
    """The path is the first string among the known keys, and the tool's own key comes first."""
    assert tools.path_of(tool, tool_input) == path


def test_paths_of() -> None:
    """Every path that a call names is told once per key, the tool's own first."""
    named = {"path": "a", "file_path": "b", "notebook_path": "c", "x": "d"}
    assert tools.paths_of("NotebookRead", named) == ("c", "b", "a")
    assert tools.paths_of("LS", named) == ("a", "b", "c")
    assert tools.paths_of("LS", None) == ()


@given(st.text(), JSON)
def test_accessors_take_any_json(tool: str, tool_input: object) -> None:
    """Whatever the input is, the answer is a string or None."""
    for value in (
        tools.command_of(tool, tool_input),
        tools.path_of(tool, tool_input),
        tools.command_of("Bash", tool_input),
    ):
        assert value is None or isinstance(value, str)
