"""The documents say what is so: their samples run, their screens are real, and everything has its place in them."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import billhook
from billhook import PreToolUse, load, load_config
from billhook.agents import DIALECTS
from billhook.cli.main import VERBS
from billhook.core.events import EVENTS
from replay import Session, replayed, steady

ROOT = Path(__file__).parent.parent
SOURCE = Path(billhook.__file__).parent
README = (ROOT / "README.md").read_text()
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


@pytest.mark.skipif(sys.platform == "win32", reason="the example uses a POSIX shell")
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
def test_every_verb_is_in_the_readme(name: str) -> None:
    """A reader meets each verb on the first page."""
    assert f"billhook {name}" in README


@pytest.mark.skipif(sys.platform == "win32", reason="the samples use a POSIX shell")
def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of the guide run one after the other."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BILLHOOK_HOME", str(tmp_path / "state"))
    code = "\n".join(blocks((ROOT / "docs" / "guides" / "write-a-hook.md").read_text(), "python"))

    exec(compile(code, "write-a-hook.md", "exec"), {})


@pytest.mark.skipif(sys.platform == "win32", reason="the sample uses a POSIX shell")
def test_the_readme_shows_a_real_screen() -> None:
    """The command of the README prints what the README says, times aside."""
    sample = next(block for block in blocks(README, "console") if "hook-1" in block)
    asked, _, shown = sample.partition("\nPreToolUse")
    command = asked.removeprefix("$ ").replace("\\\n", "").replace("billhook", f"{sys.executable} -m billhook", 1)

    printed = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)

    assert _untimed(printed.stdout) == _untimed("PreToolUse" + shown)
    assert printed.returncode == 1


def _untimed(screen: str) -> str:
    return re.sub(r" +[\d.]+ ms", " ms", screen).strip()


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sample denies with the reason that it prints."""
    monkeypatch.chdir(tmp_path)
    body = "\n".join(f"    {line}" for line in blocks(README, "python")[0].splitlines())
    names: dict[str, object] = {}

    exec(f"import asyncio\nasync def main():\n{body}\n    return verdict\nverdict = asyncio.run(main())", names)

    verdict = names["verdict"]
    assert (verdict.decision, verdict.reason) == ("deny", "no force pushes; open a pull request")  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.platform == "win32", reason="the sessions use a POSIX shell")
@pytest.mark.parametrize("name", ["README.md", "docs/guides/first-hooks.md", "docs/guides/ask-the-log.md"])
def test_sessions_are_real(name: str, tmp_path: Path) -> None:
    """Whoever follows a session sees what the document shows, times and hashes aside."""
    text = (ROOT / name).read_text()

    assert steady(replayed(text, Session(tmp_path))) == steady(text)


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
