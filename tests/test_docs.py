"""The documents are correct: their samples run, their screens are real, and every part of the product has its place."""

import asyncio
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import billhook
from billhook import Engine, PreToolUse, load, load_config
from billhook.agents import AGENTS, DIALECTS
from billhook.cli.main import VERBS
from billhook.core.events import EVENTS
from replay import Session, replayed, steady

ROOT = Path(__file__).parent.parent
SOURCE = Path(billhook.__file__).parent
README = (ROOT / "README.md").read_text()
SESSIONS = runpy.run_path(str(ROOT / "scripts" / "docs"))["SESSIONS"]
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="the samples use a POSIX shell")
MAPS = ["architecture.md", "life-of-an-event.md"]  # pages that name files and functions
PATH = re.compile(r"[\w.-]+/[\w./-]*|[\w-]+\.(?:py|md|toml)")
OWN = re.compile(r"`((?:src|tests|scripts|benchmarks|examples)/[\w./-]*)")
MODULE = re.compile(r"`(billhook\.[a-z_]+(?:\.[a-z_]+)*)`")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_page_of_events_is_up_to_date() -> None:
    """docs/events.md is what scripts/docs writes."""
    page = runpy.run_path(str(ROOT / "scripts" / "docs"))["page"]()

    assert page == (ROOT / "docs" / "events.md").read_text()


def test_the_table_of_rooms_is_up_to_date() -> None:
    """Every folder of the package, with what it holds and may import, as its docstring has it."""
    script = runpy.run_path(str(ROOT / "scripts" / "docs"))
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}

    assert set(script["ROOMS"]) == rooms
    assert script["architecture"]() == (ROOT / "docs" / "architecture.md").read_text()


@pytest.mark.parametrize("page", MAPS)
def test_the_map_names_what_exists(page: str) -> None:
    """Every path in backticks or in a diagram leads to a file or folder; every name is in one of these files."""
    text = re.sub(r"```yaml\n.*?```", "", (ROOT / "docs" / page).read_text(), flags=re.DOTALL)
    diagrams, prose = "".join(blocks(text, "")), re.sub(r"```\n.*?```", "", text, flags=re.DOTALL)
    spans = [span for span in re.findall(r"`([^`]+)`", prose) if "NAME" not in span]
    paths = {word for word in [*spans, *diagrams.replace(",", " ").split()] if PATH.fullmatch(word)}
    found = {path: place_of(path) for path in paths}

    assert found
    assert [path for path, place in found.items() if place is None] == []
    code = "".join(place.read_text() for place in found.values() if place is not None and place.is_file())
    words = set(re.findall(r"\w+", code))
    names = {part for span in spans if NAME.fullmatch(span) for part in span.split(".")}
    assert sorted(names - words) == []


def place_of(path: str) -> Path | None:
    return next((place for place in (SOURCE / path, ROOT / path) if place.exists()), None)


@POSIX
def test_the_example_of_the_map_denies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hooks of life-of-an-event.md run in the order of its steps."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "hooks.yaml").write_text(blocks((ROOT / "docs" / "life-of-an-event.md").read_text(), "yaml")[0])
    (tmp_path / "branch-policy.sh").write_text("#!/bin/sh\n")
    (tmp_path / "branch-policy.sh").chmod(0o755)
    engine = load(tmp_path, files=[tmp_path / "hooks.yaml"], home=tmp_path / "state")
    event = PreToolUse(tool_name="Bash", tool_input={"command": "git push --force"}, cwd=str(tmp_path))

    verdict = engine.fire_sync(event)

    assert (verdict.decision, verdict.reason) == ("deny", "no force pushes; open a pull request")
    assert [(one.hook, one.status) for one in verdict.outcomes] == [
        ("metrics", "ok"),
        ("turn-tracker", "ok"),
        ("event-logger", "ok"),
        ("branch-policy", "ok"),
        ("no-force-push", "ok"),
        ("guard", "skipped"),
    ]


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_has_a_heading(name: str) -> None:
    """A reader finds each event by its name."""
    assert f"\n## {name}\n" in (ROOT / "docs" / "events.md").read_text()


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_is_described(name: str) -> None:
    """A reader finds each dialect in the table."""
    assert name in (ROOT / "docs" / "dialects.md").read_text().split("\n## ")[0]


@pytest.mark.parametrize("name", VERBS)
def test_every_command_is_described(name: str) -> None:
    """A reader finds each command on the page of commands."""
    assert f"`billhook {name}" in (ROOT / "docs" / "commands.md").read_text()


@POSIX
def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of the guide run one after the other."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BILLHOOK_HOME", str(tmp_path / "state"))
    code = "\n".join(blocks((ROOT / "docs" / "guides" / "write-a-hook.md").read_text(), "python"))

    exec(compile(code, "write-a-hook.md", "exec"), {})


def test_the_readme_is_short() -> None:
    """`wc -w README.md` prints at most 900."""
    assert len(README.split()) <= 900


def test_the_readme_counts_the_agents() -> None:
    """How many agents `install` supports, how many the README does not name, and how many were measured."""
    named = re.findall(r"`(\w+)`", re.findall(r"`install` also supports (.*?) and \[", README, re.DOTALL)[0])
    heads = (ROOT / "docs" / "hosts.md").read_text().split("<!-- cases -->\n")[1].splitlines()[0]
    measured = {cell.strip() for cell in re.findall(r"\| ([A-Za-z ]+) [\d.]+ ", heads)} - {"Claude Agent SDK"}

    assert set(named) < set(AGENTS)
    assert f"[{len(AGENTS) - 1 - len(named)} others](docs/install.md)" in README
    assert f"for {len(AGENTS)} agents" in README
    assert f"[measured](docs/hosts.md) with {['seven', 'eight', 'nine', 'ten'][len(measured) - 7]} |" in README


def test_the_third_command_of_the_readme_shows_a_denial() -> None:
    """The README begins with three commands; the output of the third, which is replayed below, contains the denial."""
    commands = blocks(README, "sh")[0].splitlines()
    shown = blocks(README, "console")[0]

    assert len(commands) == 3
    assert shown.startswith(f"$ {commands[2]}\n")
    assert "\nverdict: deny" in shown


@POSIX
def test_the_screenshot_is_up_to_date() -> None:
    """The picture has the words that the program prints, times and the session's name aside."""
    screenshot = runpy.run_path(str(ROOT / "scripts" / "screenshot"))

    shown = screenshot["text_in"](screenshot["IMAGE"].read_text("utf-8"))
    assert "denied by guard" in shown
    assert shown == screenshot["plain"](screenshot["recorded"]())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, and no files of a user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BILLHOOK_HOME", str(tmp_path / "state"))
    return tmp_path


def engine_of(file: Path, text: str) -> Engine:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return load(files=[file])


def test_the_rule_of_the_readme_denies(project: Path) -> None:
    """The rule finds the command where the README claims it, and nowhere else."""
    engine = engine_of(project / "hooks.yaml", f"hooks:\n{blocks(README, 'yaml')[0]}")

    destroys = fire(engine, "Bash", command="cd lib && sudo terraform destroy")
    assert (destroys.denied, destroys.reason) == (True, "Ask the user to destroy infrastructure.")
    assert not fire(engine, "Bash", command="terraform plan").denied


@POSIX
def test_the_python_hook_of_the_readme_denies(project: Path) -> None:
    """The function runs from hooks.yaml, with the entry that the README shows."""
    (project / "policies.py").write_text(blocks(README, "python")[0])
    engine = engine_of(project / "hooks.yaml", f"hooks:\n{blocks(README, 'yaml')[1]}")

    assert fire(engine, "Write", file_path="a", content="x" * 100_001).reason == "Write a smaller file."
    assert not fire(engine, "Write", file_path="a", content="x").denied


@POSIX
def test_the_claude_hook_of_the_readme_denies(project: Path) -> None:
    """The settings load as they are, and the script's exit code 2 denies."""
    (project / "protect-env.sh").write_text("#!/bin/sh\necho leave it alone >&2\nexit 2\n")
    (project / "protect-env.sh").chmod(0o755)
    engine = engine_of(project / ".claude" / "settings.json", blocks(README, "json")[0])

    assert fire(engine, "Edit", file_path=".env", old_string="a", new_string="b").reason == "leave it alone"
    assert not fire(engine, "Bash", command="ls").denied


def fire(engine: Engine, tool: str, **given: object) -> billhook.Verdict:
    return engine.fire_sync(PreToolUse(tool_name=tool, tool_input=given, cwd="."))


def test_the_loop_of_the_readme_runs_the_tool(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The session calls the function, and its result is for the model."""
    body = "\n".join(f"    {line}" for line in blocks(README, "python")[1].splitlines())
    names: dict[str, Any] = {"ask_user": lambda question: "once", "text": "go", "run_bash": lambda given: "a.txt"}

    exec(f"async def main():\n{body}", names)
    asyncio.run(names["main"]())

    assert capsys.readouterr().out == "a.txt False\n"


@POSIX
@pytest.mark.parametrize("name", SESSIONS)
def test_sessions_are_real(name: str, tmp_path: Path) -> None:
    """A reader who follows a session sees what the document shows, times and hashes aside."""
    text = (ROOT / name).read_text()

    assert steady(replayed(text, Session(tmp_path))) == steady(text)


def test_the_index_lists_every_page_once() -> None:
    """docs/README.md links each page of docs/ and its guides one time; the decisions have an index of their own."""
    folder = ROOT / "docs"
    pages = {page.relative_to(folder).as_posix() for page in [*folder.glob("*.md"), *folder.glob("guides/*.md")]}
    links = re.findall(r"\]\(([^)]+)\)", (folder / "README.md").read_text())

    assert sorted(links) == sorted(pages - {"README.md"} | {"decisions/README.md"})


def test_links_lead_somewhere() -> None:
    """Every relative link in the documents names a file that exists."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())]

    assert links
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_files_of_the_project_exist() -> None:
    """Every path of a source file, test or script that a document names is there."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    pages.remove(ROOT / "docs" / "codes.md")  # its examples are about scripts of the reader
    named = [(page, path) for page in pages for path in re.findall(OWN, page.read_text())]

    assert named
    assert [(page.name, path) for page, path in named if not (ROOT / path).exists()] == []


def test_docstrings_name_modules_that_exist() -> None:
    """Every `billhook.room.module` in the source can be found by its name."""
    named = [(path, one) for path in SOURCE.rglob("*.py") for one in re.findall(MODULE, path.read_text())]

    assert named
    assert [(path.name, one) for path, one in named if not is_module(one)] == []


def is_module(name: str) -> bool:
    place = SOURCE.joinpath(*name.split(".")[1:])
    return place.is_dir() or place.with_suffix(".py").is_file()


def test_anchors_lead_to_a_heading() -> None:
    """Every link to a part of a page names a heading of it."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    links = [
        (page, path, anchor)
        for page in pages
        for path, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())
    ]

    assert links
    assert [
        f"{page.name}: {path}#{anchor}"
        for page, path, anchor in links
        if anchor not in headings((page.parent / path) if path else page)
    ] == []


def headings(page: Path) -> set[str]:
    """The anchors of a page, as code hosts make them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_every_decision_is_in_the_index() -> None:
    """The index has each note once, by its number and its title."""
    folder = ROOT / "docs" / "decisions"
    notes = sorted(folder.glob("0*.md"))
    lines = [
        f"{note.read_text().splitlines()[0].removeprefix('# ').replace('. ', '. [', 1)}]({note.name})" for note in notes
    ]

    assert re.findall(r"\d+\. \[.+\]\(0.+\.md\)", (folder / "README.md").read_text()) == lines
    assert len({note.name[:4] for note in notes}) == len(notes)


@pytest.mark.parametrize("name", ["configuration.md", "built-ins.md"])
def test_samples_of_configuration_are_valid(name: str, tmp_path: Path) -> None:
    """Every file that these pages print loads without a finding."""
    samples = blocks((ROOT / "docs" / name).read_text(), "yaml")

    assert samples
    for sample in samples:
        file = tmp_path / "hooks.yaml"
        file.write_text(sample)
        assert load_config(tmp_path, files=[file], home=tmp_path / "state").problems == ()
