"""docs/built-ins.md is correct: every built-in, every option with its default and layers, excerpts of the code."""

import re
from pathlib import Path
from typing import Any

import pytest

from billhook import Engine, UserPromptSubmit, load
from billhook.builtins import trackers
from billhook.config.builtin_hooks import LIMIT, OPTIONS, Option

SET_AT_BUILTINS = {name: options for name, options in OPTIONS.items() if name != "guard"}
"""The guard has a section of its own; docs/guard.md explains it."""

PAGE = (Path(__file__).parent.parent / "docs" / "built-ins.md").read_text()
TRIED: dict[str, list[Any]] = {
    "true or false": [True, False],
    "`warn` or `deny` (also `block`)": ["warn", "deny"],
    "a list of names": [("pin",)],
    "a list of limits": [({"at_most": 1, "per": "turn"},)],
    "a whole number from 65536 on": [65536, 1 << 30],
    "a number from 0 on": [0, 250.5],
    "a number of seconds from 1 on": [1, 250.5],
    "an absolute path of a folder, or one that begins with `~`": ["/mnt/x", "~/x"],
}
"""Values that an option may have according to the page."""


def table(heading: str) -> list[list[str]]:
    """The rows of the table whose head begins with these words."""
    lines = PAGE[PAGE.index(f"\n| {heading}") :].strip().splitlines()
    rows = lines[2 : next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def python(section: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0], re.DOTALL)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine with all built-ins and nothing else."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BILLHOOK_HOME", str(tmp_path / "state"))
    file = tmp_path / "hooks.yaml"
    file.write_text("builtins:\n  rate-limit: {options: {at_most: 9, per: turn}}\n")
    return load(tmp_path, files=[file])


def test_every_built_in_is_in_the_table(engine: Engine) -> None:
    """Name, priority, events: the table has what an engine runs, in that order."""
    found = [
        [str(hook.priority), f"`{hook.name}`", ", ".join(hook.events) or "all"]
        for hook in engine.hooks
    ]  # fmt: skip
    assert [row[:3] for row in table("priority")] == found


@pytest.mark.parametrize("name", OPTIONS)
def test_every_built_in_has_a_section(name: str) -> None:
    """A reader finds each by its name."""
    assert f"\n## {name}\n" in PAGE


@pytest.mark.parametrize(
    ("builtin", "option"),
    [(builtin, option) for builtin, options in SET_AT_BUILTINS.items() for option in options],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_every_option_is_in_the_table(builtin: str, option: Option) -> None:
    """Its default, and what a file of the project may set it to, are those of the code."""
    default, value, by_project = next(
        row[2:] for row in table("built-in | option") if row[:2] == [f"`{builtin}`", f"`{option.name}`"]
    )
    assert default == ("none" if option.default in ((), "") else f"`{str(option.default).lower()}`")
    allowed = [one for one in TRIED[value] if option.by_project(one)]
    if by_project == "nothing":
        assert allowed == []
    elif by_project.startswith("anything"):
        assert allowed == TRIED[value]
        assert option.adds_up == ("adds up" in by_project)
    else:
        assert [f"only `{str(one).lower()}`" for one in allowed] == [by_project]


def test_nothing_else_is_in_the_table() -> None:
    """The page promises no option that is not there."""
    rows = [(row[0].strip("`"), row[1].strip("`")) for row in table("built-in | option")]
    assert rows == [(builtin, option.name) for builtin, options in SET_AT_BUILTINS.items() for option in options]


def test_the_keys_of_a_limit() -> None:
    """All of them, and no other."""
    assert [row[0].strip("`") for row in table("key of a limit")] == [
        key for key in LIMIT["properties"] if key != "atMost"
    ]


def test_the_walk_through_shows_the_files_own_lines() -> None:
    """Every excerpt but the last is in builtins/trackers.py to the letter."""
    source = Path(trackers.__file__).read_text()
    *excerpts, _ = python("Write one yourself")
    assert len(excerpts) == 4
    assert [excerpt for excerpt in excerpts if excerpt not in source] == []


def test_the_hook_of_ones_own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook of the last block injects context in every twentieth turn, and names the turn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BILLHOOK_HOME", str(tmp_path / "state"))
    names: dict[str, Any] = {}
    exec(python("Write one yourself")[-1], names)
    turns = tmp_path / "state" / "turns"
    turns.mkdir(parents=True, mode=0o700)

    def told(turn: int) -> tuple[str, ...]:
        (turns / "abc.json").write_text(f'{{"sequence": {turn}, "subagentSeq": 0}}')
        context: tuple[str, ...] = names["engine"].fire_sync(UserPromptSubmit(prompt="go on", session_id="abc")).context
        return context

    assert told(19) == ()
    assert re.fullmatch(r"Turn 20 of [a-z]+-[a-z]+: list the open tasks\.", told(20)[0])
