"""Every command of the corpus through the real guard, in real repositories."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from effects.conftest import SCORE
from effects.corpus_files import Case, groups
from effects.judging import Judgement, engine, home_is, judge
from effects.repository import Repository, make_repository

GROUPS = groups()
PLACES = ("temp", "temp, in a subfolder", "home", "home, in a subfolder")


@pytest.fixture(scope="session")
def below_temp() -> Iterator[Repository]:
    """A repository in /tmp, and a home elsewhere."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="guard-corpus-") as folder:
        yield make_repository(Path(folder) / "proj", Path(folder) / "home")


@pytest.fixture(scope="session")
def below_home() -> Iterator[Repository]:
    """A repository two folders below a home."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="guard-corpus-") as folder:
        home = Path(folder) / "home"
        yield make_repository(home / "work" / "proj", home)


def test_the_corpus_is_large_enough() -> None:
    """The goal of the reference is 600 commands; at least a third of them are harmless."""
    cases = [case for group in GROUPS.values() for case in group]
    harmless = [case for case in cases if case.decision == "none" and case.is_right]
    assert len(cases) >= 1_900
    assert len(harmless) >= 600


def test_no_command_is_there_twice() -> None:
    seen = [(case.command or str(case.input), str(case.files)) for group in GROUPS.values() for case in group]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("group", GROUPS)
def test_effects_and_decisions(
    group: str, below_temp: Repository, record_property: Callable[[str, object], None]
) -> None:
    cases = GROUPS[group]
    record_property(SCORE, (group, sum(case.is_right for case in cases), len(cases)))
    wrong = []
    for case in cases:
        found = _judged(case, below_temp)
        if (found.decision, _without_existence(found.effects)) != (case.decision, _without_existence(case.effects)):
            wrong.append(f"{case.command or case.input}: {found.decision} {found.effects} {found.reason}")
    assert not wrong, "\n".join(wrong)


def _without_existence(effects: Iterable[str]) -> list[str]:
    """Whether a file in /tmp exists depends on the other programs of this machine."""
    return ["write:temp" if effect == "overwrite:temp" else effect for effect in effects]


def _judged(case: Case, at: Repository) -> Judgement:
    judging = engine()
    with home_is(at.home):
        if not case.files:
            return judge(judging, at.root, case.tool, case.given(at.home))
        with tempfile.TemporaryDirectory(dir="/tmp", prefix="guard-corpus-") as folder:
            copy = Path(folder) / "proj"
            shutil.copytree(at.root, copy, symlinks=True)
            _add(copy, case.files)
            return judge(judging, str(copy), case.tool, case.given(at.home))


def _add(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:])
        else:
            path.write_text(text)


@pytest.mark.parametrize("place", PLACES[1:])
def test_the_same_is_stopped_elsewhere(place: str, below_temp: Repository, below_home: Repository) -> None:
    """A repository below a home, and a subfolder as working directory."""
    at = below_home if place.startswith("home") else below_temp
    cwd = f"{at.root}/src" if "subfolder" in place else at.root
    judging, wrong = engine(), []
    with home_is(at.home):
        for case in (case for group in GROUPS.values() for case in group if _holds(case, place)):
            found = judge(judging, cwd, case.tool, case.given(at.home))
            if found.stopped != (case.decision != "none"):
                wrong.append(f"{case.command}: {found.decision} {found.effects} {found.reason}")
    assert not wrong, "\n".join(wrong)


def _holds(case: Case, place: str) -> bool:
    if not case.command or case.files or (case.at == "temp" and place != "temp"):
        return False
    return case.at != "root" or "subfolder" not in place


def test_every_reason_names_the_part_and_an_alternative(below_temp: Repository) -> None:
    """A reason names what would happen, which part causes it, and what to do instead."""
    judging, wrong = engine(), []
    with home_is(below_temp.home):
        for case in (case for group in GROUPS.values() for case in group if case.decision != "none" and not case.files):
            reason = judge(judging, below_temp.root, case.tool, case.given(below_temp.home)).reason
            part = re.match(r"`(.+?)`(?:, which `.+?` runs,)? (?:would|may) .+?\. [A-Z`]", reason)
            if part is None or not part[1].strip():
                wrong.append(f"{case.command}: {reason}")
    assert not wrong, "\n".join(wrong)
