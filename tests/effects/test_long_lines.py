"""Long commands and scripts: read to their end, or asked about where that takes too long."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from billhook.effects.interpret import Interpreter
from billhook.effects.places import World
from effects.judging import engine, home_is, judge
from effects.repository import Repository, make_repository
from effects.world import FakeFileSystem

_SCRIPT = "set -e\necho step\nif [ -f x ]; then\n  echo found\nfi\nls src | head -3\n"


@pytest.fixture(scope="module")
def repository() -> Iterator[Repository]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="guard-long-") as folder:
        yield make_repository(Path(folder) / "proj", Path(folder) / "home")


def _decision(at: Repository, line: str, files: dict[str, str] | None = None) -> str:
    for name, text in (files or {}).items():
        (Path(at.root) / name).write_text(text)
    with home_is(at.home):
        return judge(engine(), at.root, "Bash", {"command": line}).decision


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        pytest.param("rm " + "-v " * 260 + "-rf ~", "deny", id="rm"),
        pytest.param("git push " + "-v " * 3_000 + "--force origin main", "deny", id="git push"),
        pytest.param("cat " + "README.md " * 260 + ".env", "ask", id="cat"),
        pytest.param("cat " + " ".join(f"f{n}" for n in range(900)) + " .env", "ask", id="cat of different files"),
        pytest.param("cat " + " ".join(f"f{n}" for n in range(9_000)) + " .env", "ask", id="cat of too many files"),
        pytest.param("bash " + "-e " * 260 + "-c 'rm -rf ~'", "deny", id="bash"),
        pytest.param("find / " + "-name a " * 130 + "-delete", "deny", id="find"),
        pytest.param("git add " + " ".join(f"src/f{n}.py" for n in range(9_000)), "none", id="git add"),
        pytest.param("echo " + "x " * 9_000, "none", id="echo"),
        pytest.param("rm -f " + " ".join(f"src/f{n}.o" for n in range(900)), "none", id="rm of many files"),
        pytest.param("rm " + " ".join(f"f{n}*" for n in range(900)), "ask", id="rm of many patterns"),
        pytest.param("rm -rf " + " ".join(f"d{n}" for n in range(20)), "none", id="rm of some folders"),
        pytest.param("rm -rf " + " ".join(f"d{n}" for n in range(20)) + " src", "ask", id="and one with work"),
        pytest.param("rm " + "[" * 10_000, "none", id="rm of a pattern that is too long"),
        pytest.param("sed '" + "s/a/b/;" * 9_000 + "' f", "ask", id="sed"),
        pytest.param("sed '" + "w x\n" * 4_000 + "w /etc/x\n' f", "ask", id="sed that writes"),
        pytest.param("ls " + "> f " * 3_000, "none", id="redirections to one file"),
        pytest.param("ls " + " ".join(f"> f{n}" for n in range(1_000)), "ask", id="redirections to many files"),
        pytest.param("pwsh -c '" + "ls; " * 9_000 + "'", "ask", id="PowerShell"),
    ],
)
def test_words_of_one_command(repository: Repository, line: str, decision: str) -> None:
    assert _decision(repository, line) == decision


@pytest.mark.parametrize(
    ("script", "decision"),
    [
        pytest.param("echo hello world\n" * 2_000, "none", id="2,000 plain commands"),
        pytest.param("echo hello world\n" * 2_000 + "rm -rf ~\n", "deny", id="and a dangerous one"),
        pytest.param(_SCRIPT * 100, "none", id="600 lines of a script"),
        pytest.param(_SCRIPT * 100 + "rm -rf ~\n", "deny", id="600 lines, and a dangerous one"),
        pytest.param("npm test && echo ok || echo no\n" * 200, "none", id="200 lines with alternatives"),
        pytest.param("for x in a b c; do\n  echo $x\n  ls $x\ndone\n" * 100, "none", id="100 loops"),
        pytest.param("rm -f src/a.o\n" * 9_000 + "rm -rf ~\n", "ask", id="too long to be read"),
    ],
)
def test_lines_and_script_files(repository: Repository, script: str, decision: str) -> None:
    """A file is read as far as a line is, and neither ends without a word."""
    assert _decision(repository, script) == decision
    if len(script) <= 65_536:
        assert _decision(repository, "bash long.sh", {"long.sh": script}) == decision


class _Counting(FakeFileSystem):
    """Counts how often a folder is listed and how often its links are followed."""

    def __init__(self, files: dict[str, str | None]) -> None:
        super().__init__(files)
        self.asked = 0

    def names(self, folder: str) -> list[str]:
        self.asked += 1
        return super().names(folder)

    def real(self, path: str) -> str:
        self.asked += 1
        return super().real(path)


@pytest.mark.parametrize("line", ["cp {} d/", "mv {} d/", "cat {}", "rsync -a {} d/", "ln -s {} d/"])
def test_many_patterns_look_at_each_folder_once(line: str) -> None:
    fs = _Counting({"/p/src/a.py": "", "/p/d": None})
    interpreter = Interpreter(World("/p", "/home/me", ("/p",), fs=fs))
    interpreter.run_line(line.format(" ".join(f"src/*{n}*" for n in range(900))), "/p")
    assert interpreter.commands
    assert fs.asked < 50


def test_a_pipeline_ends_with_the_budget() -> None:
    interpreter = Interpreter(World("/p", "/home/me", ("/p",), fs=FakeFileSystem({})))
    interpreter.run_line("|".join(["cat"] * 10_000), "/p")
    assert interpreter.ended
    assert interpreter.steps > -100  # the stages behind are not visited


def test_a_long_recipe(repository: Repository) -> None:
    recipe = "all:\n" + "\techo hello\n" * 2_000
    assert _decision(repository, "make", {"Makefile": recipe}) == "none"
    assert _decision(repository, "make", {"Makefile": recipe + "\trm -rf ~\n"}) == "deny"


def test_the_end_of_the_budget_is_not_hidden_by_a_file(repository: Repository) -> None:
    """What a script file does beyond the budget is asked about, as it would be in a line."""
    assert _decision(repository, "bash long.sh", {"long.sh": "rm -f src/a.o\n" * 4_000 + "rm -rf ~\n"}) == "ask"
