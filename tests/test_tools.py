"""Canonical tool names and inputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.core import tools

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
def test_an_unknown_name_stays_unchanged(name: str) -> None:
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
    """Every path of a call is listed once per key, the tool's own first."""
    named = {"path": "a", "file_path": "b", "notebook_path": "c", "x": "d"}
    assert tools.paths_of("NotebookRead", named) == ("c", "b", "a")
    assert tools.paths_of("LS", named) == ("a", "b", "c")
    assert tools.paths_of("LS", None) == ()


PATCH = "*** Begin Patch\n*** Add File: /a b.txt\n+x\n*** Update File: c\n*** Move to: d\n*** Delete File: c\n"


@pytest.mark.parametrize("key", ["command", "patch", "input"])
def test_paths_of_a_patch(key: str) -> None:
    """The files that a patch changes are its paths; a hook for Write or Edit gets it, too."""
    assert tools.paths_of("apply_patch", {key: PATCH}) == ("/a b.txt", "c", "d")
    assert tools.paths_of("apply_patch", {key: 5}) == ()
    assert tools.also_called("apply_patch") == ("Write", "Edit")
    assert tools.also_called("Write") == ()


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("*** Add File: a\n" + f"+{'x' * 99}\n" * 11_000, id="long"),
        pytest.param("".join(f"*** Add File: f{n}\n+x\n" for n in range(2_001)), id="many files"),
    ],
)
def test_every_file_of_a_patch_is_seen(before: str) -> None:
    """However much comes before it: rules and the guard see only these files."""
    assert tools.paths_of("apply_patch", {"command": f"{before}*** Add File: secret\n"})[-1] == "secret"


def test_a_patch_in_any_field_is_seen() -> None:
    """Agents have several names for it, and it is unknown which of two is applied."""
    two = {"command": "*** Add File: a\n", "input": "*** Add File: b\n"}
    assert tools.paths_of("apply_patch", two) == ("a", "b")


AGENTS_TOOLS = [
    # naming, its own name, ours, its own input, ours
    ("gemini", "run_shell_command", "Bash", {"command": "ls", "is_background": True}, {"run_in_background": True}),
    ("gemini", "read_file", "Read", {"absolute_path": "/a"}, {"file_path": "/a"}),
    ("gemini", "search_file_content", "Grep", {"pattern": "x", "dir_path": "/a"}, {"path": "/a"}),
    ("qwen", "edit", "Edit", {"file_path": "/a", "old_string": "x"}, {"old_string": "x"}),
    ("copilot", "create", "Write", {"path": "/a", "file_text": "x"}, {"file_path": "/a", "content": "x"}),
    ("copilot", "edit", "Edit", {"path": "/a", "old_str": "x", "new_str": "y"}, {"old_string": "x", "new_string": "y"}),
    ("copilot", "create_file", "Write", {"filePath": "/a", "content": "x"}, {"file_path": "/a", "content": "x"}),
    ("copilot", "task", "Agent", {"prompt": "x", "agent_type": "y"}, {"subagent_type": "y"}),
    ("cursor", "Shell", "Bash", {"command": "ls"}, {"command": "ls"}),
    ("cursor", "Grep", "Grep", {"pattern": "x", "file_path": "/a"}, {"path": "/a"}),
    ("codex", "spawn_agent", "Agent", {"message": "x"}, {"prompt": "x"}),
]


@pytest.mark.parametrize(("naming", "own", "name", "given_", "holds"), AGENTS_TOOLS, ids=lambda value: str(value)[:30])
def test_agents_tools_and_inputs(
    naming: str, own: str, name: str, given_: dict[str, object], holds: dict[str, object]
) -> None:
    """An agent's tool and what it is given have our names, and go back under its own."""
    assert tools.canonical(own, naming) == name
    made, renamed = tools.canonical_input(name, given_, naming)

    assert holds.items() <= made.items()
    assert len(made) == len(given_)
    assert tools.own_input(name, made, naming, renamed) == given_


def test_names_of_agents_only_count_in_what_they_send() -> None:
    """`create` and `edit` are good names for tools of your own."""
    assert tools.canonical("create") == "create"
    assert tools.canonical("edit") == "edit"
    assert tools.canonical("create", "copilot") == "Write"


@pytest.mark.parametrize(
    ("naming", "tool", "sent", "added"),
    [
        ("gemini", "Read", {"file_path": "/a"}, {}),
        ("qwen", "Read", {"file_path": "/a"}, {}),
        ("cursor", "Write", {"file_path": "/a", "content": "x"}, {}),
        ("cursor", "Read", {"file_path": "/a"}, {}),
        ("copilot", "Write", {"file_path": "/a", "content": "x"}, {}),
        ("gemini", "Bash", {"command": "ls"}, {"run_in_background": "is_background"}),
        ("gemini", "Bash", {"command": "ls", "is_background": False}, {"timeout": "timeout"}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_rewritten_input_keeps_the_names_that_were_sent(
    naming: str, tool: str, sent: dict[str, object], added: dict[str, str]
) -> None:
    """Agents differ from version to version: the fields of this call keep their names; only new ones get the usual."""
    made, renamed = tools.canonical_input(tool, sent, naming)
    wanted = {**made, **dict.fromkeys(added, 1)}

    assert tools.own_input(tool, wanted, naming, renamed or None, made) == {**sent, **dict.fromkeys(added.values(), 1)}


def test_a_field_that_is_there_already_is_not_overwritten() -> None:
    """Both are kept, and both paths are seen by guards."""
    both = {"path": "/a", "file_path": "/b"}

    assert tools.canonical_input("Write", both, "copilot") == (both, {})
    assert tools.own_input("Write", both, "copilot") == both
    assert tools.own_input("Write", {"file_path": "/b", "content": "x"}, "copilot") == {"path": "/b", "file_text": "x"}
    assert tools.own_input("Write", None, "copilot") is None


@given(st.text(), JSON)
def test_accessors_take_any_json(tool: str, tool_input: object) -> None:
    """Whatever the input is, the answer is a string or None."""
    for value in (
        tools.command_of(tool, tool_input),
        tools.path_of(tool, tool_input),
        tools.command_of("Bash", tool_input),
    ):
        assert value is None or isinstance(value, str)
