"""The examples: ten published scripts as rules. Their tests are right, and the guide counts their lines as they are."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from billhook.config import edit_yaml, load_config
from billhook.config.lint import lint
from billhook.config.recipes import find, plain, shipped
from recipes.cases import Scratch, judge, possible

ROOT = Path(__file__).parent.parent.parent
FILES = {path.stem: path.read_text() for path in sorted((ROOT / "examples" / "rules").glob("*.yaml"))}
GUIDE = (ROOT / "docs" / "guides" / "from-scripts-to-rules.md").read_text()
ALL = [(name, case) for name, text in FILES.items() for case in yaml.safe_load(text)["tests"]]


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ruff is found, and a notify-send that notes its arguments."""
    program = tmp_path / "bin" / "notify-send"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/seen\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{Path(sys.executable).parent}:/usr/bin:/bin")


def lines(text: str) -> int:
    """The lines of the hooks, without comments and without those that only give a name."""
    inside = text.partition("\nhooks:\n")[2].partition("\ntests:\n")[0]
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in inside.splitlines())


def test_there_are_ten() -> None:
    """One for each script of the guide, which names its lines before and after."""
    counted = re.findall(r"^\| \[[^]]+\]\(\S*/examples/rules/([\w-]+)\.yaml\) \| [\d+() ]+ \| (\d+) \|", GUIDE, re.M)

    assert len(FILES) == 10
    assert {name: int(number) for name, number in counted} == {name: lines(text) for name, text in FILES.items()}


@pytest.mark.parametrize("name", FILES)
def test_no_script(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No script, no jq, and nothing that `check` would find."""
    scratch = Scratch(tmp_path, FILES[name], monkeypatch)
    config = load_config(scratch.project, trust="all", home=scratch.home / ".claude")

    assert not re.search(r"\bjq\b|\.sh\b|\bpython3? -c\b", FILES[name])
    assert [*config.problems, *lint([one.declared for one in config.entries])] == []


@pytest.mark.parametrize(("name", "case"), ALL, ids=[f"{name}-{number}" for number, (name, _) in enumerate(ALL)])
def test_its_tests_are_right(name: str, case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the published script behaves."""
    scratch = Scratch(tmp_path, FILES[name], monkeypatch)
    assert possible(case), f"no {case['needs']} here"

    judge(case, scratch.fire(scratch.event(case)))


def test_the_notification_shows_the_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one argument, whatever is in it."""
    scratch = Scratch(tmp_path, FILES["notification"], monkeypatch)
    message = "Input needed; $(touch hacked)"
    scratch.fire(scratch.event({"event": {"hook_event_name": "Notification", "message": message}}))

    assert (tmp_path / "seen").read_text().splitlines()[-1] == message
    assert not os.path.exists(scratch.project / "hacked")


def test_the_formatter_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The edited file, and no other."""
    scratch = Scratch(tmp_path, FILES["format-after-edit"], monkeypatch)
    case = next(one for name, one in ALL if name == "format-after-edit")
    scratch.file("b.py", "y=1\n")
    scratch.fire(scratch.event(case))

    assert [(scratch.project / name).read_text() for name in ("a.py", "b.py")] == ["x = 1\n", "y=1\n"]


@pytest.mark.parametrize("sample", re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL))
def test_samples_of_the_guide(sample: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is part of an example."""
    assert any(sample.strip() in text for text in FILES.values())


# -- the page of recipes


def rows() -> str:
    """The table of docs/recipes.md."""
    found = []
    for one in shipped():
        parameters = ", ".join(f"`{name}`{'' if value.tested else '*'}" for name, value in one.parameters.items())
        found.append(f"| `{one.name}` | {one.title} | {parameters} |\n")
    return "".join(found)


def test_the_page_of_recipes_is_complete() -> None:
    """Every recipe with its parameters, and nothing else."""
    page = (ROOT / "docs" / "recipes.md").read_text()

    assert page.partition("|---|---|---|\n")[2].startswith(f"{rows()}\n")


def test_the_recipe_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be added, and its tests are right."""
    page = (ROOT / "docs" / "recipes.md").read_text()
    file = tmp_path / "guard.yaml"
    file.write_text(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    (recipe,) = find(str(file))
    text = edit_yaml.with_sections(None, "hooks.yaml", recipe.sections({})).decode()
    scratch = Scratch(tmp_path, text, monkeypatch)

    for case in plain(recipe.sections({}))["tests"]:
        judge(case, scratch.fire(scratch.event(case)))
