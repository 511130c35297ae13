"""The question before a tool runs: harmless on a terminal, and answers that can't be mistaken."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.agent.permissions import expected, question_text, read_answer
from billhook.session import Question


def asked(name: str, tool_input: dict[str, Any], **more: Any) -> list[str]:
    return question_text(Question(name, tool_input, **more)).split("\n")


def test_a_command() -> None:
    """The call, the reason of the question, and the possible answers."""
    reason = "Bash needs permission: permissions.ask `Bash(git push *)` (.claude/settings.json:4)"
    assert asked("Bash", {"command": "git push\necho done"}, reason=reason) == [
        "Allow this Bash call?",
        "  | git push",
        "  | echo done",
        f"why: {reason}",
        "[y] yes, once",
        "[s] yes, for this session: exactly this command, in this folder",
        "[n] no (also Enter and Ctrl-D)",
    ]


def test_an_edit() -> None:
    """Every field is shown."""
    assert asked("Edit", {"file_path": "a.py", "new_string": "x\ny", "replace_all": True}, rememberable=False) == [
        "Allow this Edit call?",
        "  file_path:",
        "  | a.py",
        "  new_string:",
        "  | x",
        "  | y",
        "  replace_all:",
        "  | true",
        "[y] yes, once",
        "[n] no (also Enter and Ctrl-D)",
    ]


COVERED = {
    "a file": ("Edit", {"file_path": "a.py"}, "this tool anywhere in the workspace; outside of it, only this file"),
    "no file": ("TodoWrite", {"todos": []}, "every use of this tool"),
}


@pytest.mark.parametrize(("name", "tool_input", "covered"), COVERED.values(), ids=COVERED)
def test_the_session_covers_only_what_is_shown(name: str, tool_input: dict[str, Any], covered: str) -> None:
    """The user sees what an answer for the session covers."""
    assert asked(name, tool_input)[-2] == f"[s] yes, for this session: {covered}"


@pytest.mark.parametrize(("rememberable", "keys"), [(True, "y, s or n"), (False, "y or n")])
def test_what_is_expected_is_what_is_offered(rememberable: bool, keys: str) -> None:
    """After an invalid answer the valid ones are shown."""
    asking = Question("Bash", {"command": "ls"}, rememberable=rememberable)
    assert expected(asking) == f"invalid answer; type {keys} (Enter: no)"


def test_nothing_to_show() -> None:
    """A call without input."""
    assert asked("TodoRead", {})[1] == "  | (no input)"


def test_the_end_of_a_long_command_is_shown() -> None:
    """The dangerous part may come last."""
    lines = asked("Bash", {"command": "echo " + "x" * 10_000 + "; rm -rf ~"})
    assert lines[-4].endswith("; rm -rf ~") and any("6,015 characters not shown" in line for line in lines)


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("ls\x1b[2K\rrm x", "ls\\x1b[2K\\x0drm x"),
        ("ls \u202egnp.exe", "ls \\u202egnp.exe"),
        ("a\x07\x9b", "a\\x07\\x9b"),
        ("\U000e0041", "\\U000e0041"),
    ],
    ids=["escape", "bidi", "c1", "tag"],
)
def test_control_characters_are_shown(hostile: str, shown: str) -> None:
    """In the command, in other fields, in the tool's name and in the reason."""
    assert f"  | {shown}" in asked("Bash", {"command": hostile})
    text = question_text(Question(hostile, {hostile: hostile}, hostile))
    assert text.count(shown) == 4


@given(st.text(), st.dictionaries(st.text(), st.text(), max_size=3), st.text())
def test_nothing_looks_like_the_question(name: str, tool_input: dict[str, str], reason: str) -> None:
    """For any call: our lines can't be forged, and nothing moves the cursor."""
    text = question_text(Question(name.replace("\n", ""), tool_input, reason))
    assert all(char.isprintable() or char in "\n\t" or char.isspace() for char in text)
    assert "\r" not in text and "\x1b" not in text
    assert sum(line.startswith("[y]") for line in text.split("\n")) <= 1 + name.startswith("[y]")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        *((word, "once") for word in ("y", "Y", "yes", "once", " 1 \n")),
        *((word, "session") for word in ("s", "session", "SESSION\n", "2")),
        *((word, "no") for word in ("n", "no", "3", "", "\n")),
        *((word, None) for word in ("yy", "ja", "4", "yes no", "0", "y;")),
    ],
)
def test_answers(line: str, answer: str | None) -> None:
    """Words, letters and numbers; nothing is a no, and everything else is asked again."""
    assert read_answer(line) == answer


def test_no_session_where_none_is_offered() -> None:
    """The question is repeated."""
    assert read_answer("s", rememberable=False) is None and read_answer("y", rememberable=False) == "once"
