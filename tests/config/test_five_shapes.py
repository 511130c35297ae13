"""A folder with all five shapes, listed and fired with the program, before and after consent."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.place import Place
from cli.terminal import Ended

INPUT = ("--tool", "Bash", "--input", '{"command": "ls"}')


class Shape:
    """One hook of one shape: its file, the text of the file, its line, and its dialect."""

    def __init__(self, file: str, text: str, dialect: str, line: int) -> None:
        self.file, self.text, self.dialect, self.line = file, text, dialect, line


SHAPES = {
    "strings": Shape(".claude/settings.json", '{\n"hooks": {\n"PreToolUse": [\n"./strings.sh"\n]}}\n', "claw", 4),
    "flat": Shape(".claude.json", '{"hooks": {"PreToolUse": [\n\n{"command": "./flat.sh"}\n]}}\n', "claw-text", 3),
    "nested": Shape(
        ".claude/settings.local.json",
        '{"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [\n{"type": "command", "command": "./nested.sh"}]}]}}\n',
        "claude",
        2,
    ),
    "lesson": Shape(
        ".hooks.json",
        '{\n"hooks": {\n"PreToolUse": [\n{"matcher": "bash", "command": "./lesson.sh"}\n]}}\n',
        "lesson",
        4,
    ),
    "native": Shape(
        "hooks.yaml",
        "# a comment\nhooks:\n  native:\n    events: PreToolUse\n    run: ./native.sh\n"
        "  gate:\n    events: PreToolUse\n    match: Bash\n    run: ./gate.sh\n    gate: true\n",
        "claude",
        3,
    ),
}
ALL = [*SHAPES, "gate"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """All five, each with a script that records that it ran."""
    made = Place(tmp_path)
    (made.project / ".git").mkdir()
    for name in ALL:
        made.file(f"{name}.sh", f"#!/bin/sh\necho {name} >> ran\n", 0o755)
    for shape in SHAPES.values():
        made.file(shape.file, shape.text)
    return made


def listed(place: Place) -> dict[str, dict[str, Any]]:
    """The output of `list --json`, without built-ins."""
    done = place.run("list", "--json")
    assert done.code == 0, done
    rows = [json.loads(line) for line in done.out.splitlines()]
    return {row["name"]: row for row in rows if row["layer"] != "built-in"}


def fire(place: Place) -> Ended:
    return place.run("fire", "PreToolUse", *INPUT, "--json")


def ran(place: Place) -> list[str]:
    """The hooks that ran since the last time."""
    note = place.project / "ran"
    names = note.read_text().split() if note.exists() else []
    note.unlink(missing_ok=True)
    return sorted(names)


def trust(place: Place) -> None:
    done = place.alone("trust", "--all", "--yes")
    assert done.code == 0, done


def test_list_shows_each_with_its_dialect_and_place(place: Place) -> None:
    """`billhook list --json` shows each hook with its dialect and file:line."""
    found = listed(place)
    assert sorted(found) == sorted(ALL)
    for name, shape in SHAPES.items():
        row = found[name]
        where = f"{place.project / shape.file}:{shape.line}"
        assert (row["dialect"], row["source"], row["trust"]) == (shape.dialect, where, "not approved"), row


def test_none_before_consent_and_all_after(place: Place) -> None:
    """`fire` runs none of them before `billhook trust --all --yes`, and all of them after."""
    before = fire(place)
    assert before.code == 0 and ran(place) == []
    assert {one["status"] for one in before.verdict["outcomes"] if one["hook"] in ALL} == {"skipped"}
    assert "not approved" in before.err
    trust(place)
    after = fire(place)
    assert after.code == 0 and ran(place) == sorted(ALL), after
    assert {row["trust"] for row in listed(place).values()} == {"approved"}


@pytest.mark.parametrize("name", SHAPES)
def test_one_byte_disables_only_that_hook(place: Place, name: str) -> None:
    """Changing one byte of a script disables only that hook; approving it again enables it."""
    trust(place)
    script = place.project / f"{name}.sh"
    script.write_text(script.read_text().replace("ran\n", "ran \n"))
    done = fire(place)
    assert done.code == 0 and ran(place) == sorted(set(ALL) - {name}), done
    assert {one: row["trust"] for one, row in listed(place).items() if row["trust"] != "approved"} == {name: "changed"}
    trust(place)
    assert fire(place).code == 0 and ran(place) == sorted(ALL)


def test_one_byte_of_a_gate_makes_it_deny(place: Place) -> None:
    """A changed gate denies."""
    trust(place)
    script = place.project / "gate.sh"
    script.write_text(script.read_text().replace("ran\n", "ran \n"))
    done = fire(place)
    assert done.code == 1 and done.verdict["decision"] == "deny", done
    assert "gate" not in ran(place) and "gate.sh" in done.verdict["reason"]
    other = place.run("fire", "PreToolUse", "--tool", "Read", "--input", '{"file_path": "a"}', "--json")
    assert other.verdict["decision"] == "none"  # it never judged that
    ran(place)
    trust(place)
    assert fire(place).code == 0 and ran(place) == sorted(ALL)


BAD: dict[str, tuple[str, str, int, int]] = {
    # by shape: the text to replace, the replacement, and the place of the finding
    "strings": ('"./strings.sh"\n', '"./strings.sh",\n5\n', 5, 1),
    "flat": ('{"command": "./flat.sh"}\n', '{"command": "./flat.sh"},\n{"command": ["x"]}\n', 4, 13),
    "nested": ('"./nested.sh"}', '"./nested.sh"},\n {"type": "command"}', 3, 2),
    "lesson": ('"./lesson.sh"}\n', '"./lesson.sh"},\n{"comand": "x"}\n', 5, 2),
    "native": ("  gate:\n", "  bad:\n    events: PreToolUes\n    run: x\n  gate:\n", 7, 13),
}


@pytest.mark.parametrize("name", BAD)
def test_one_bad_entry_leaves_its_neighbours_alone(place: Place, name: str) -> None:
    """`check` exits 1 with file, line and column; the other hooks still run."""
    good, bad, line, column = BAD[name]
    shape = SHAPES[name]
    assert good in shape.text
    place.file(shape.file, shape.text.replace(good, bad))
    trust_what_can_run(place)
    found = place.run("check", "--format", "json", shape.file)
    assert found.code == 1, found
    text = place.run("check", shape.file)
    assert text.code == 1 and f"{shape.file}:{line}:{column}: BH2" in text.out, text
    assert fire(place).code == 0 and ran(place) == sorted(ALL)


def trust_what_can_run(place: Place) -> None:
    """A broken entry that is not a gate waits for approval like any other."""
    done = place.alone("trust", "--all", "--yes")
    assert done.code in (0, 1), done


def test_one_bad_entry_in_each_shape_at_once(place: Place) -> None:
    """Five bad entries, five places, and all the others run."""
    for name, (good, bad, _, _) in BAD.items():
        place.file(SHAPES[name].file, SHAPES[name].text.replace(good, bad))
    trust_what_can_run(place)
    done = place.run("check")
    assert done.code == 1
    for name, (_, _, line, column) in BAD.items():
        assert f"{SHAPES[name].file}:{line}:{column}: BH2" in done.out, done.out
    assert fire(place).code == 0 and ran(place) == sorted(ALL)
