"""The guide for people with a loop of their own: its program is the example, its screens are real, its samples run."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from billhook import Engine
from billhook.session import Call, Question, Ruling, Session, ToolResult

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "own_loop.py"
GUIDE = (ROOT / "docs" / "guides" / "own-loop.md").read_text()
WATCHED = re.search(r"`(Engine\(\[mail_stays_inside\], observers=.*?)` the same", GUIDE)
QUESTION = "Send this mail? "


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def screen(program: str, answer: str, cwd: Path) -> str:
    """What a person sees who runs a program and types an answer to its question."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=f"{answer}\n",
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.replace(QUESTION, f"{QUESTION}{answer}\n")


def test_the_guide_shows_the_example() -> None:
    """Complete, as in its file, and in 40 lines."""
    assert blocks("python")[0] == EXAMPLE.read_text()
    assert len(EXAMPLE.read_text().splitlines()) <= 40


def test_its_screen_is_real(tmp_path: Path) -> None:
    """Running it with `yes` shows the screen of the guide."""
    assert f"$ python examples/own_loop.py\n{screen(EXAMPLE.read_text(), 'yes', tmp_path)}" == blocks("console")[0]


def test_what_it_fires_is_real(tmp_path: Path) -> None:
    """With the observer that the guide names, the events come where it shows them."""
    assert WATCHED is not None
    watched = EXAMPLE.read_text().replace("Engine([mail_stays_inside])", WATCHED[1])

    assert f"$ python examples/own_loop.py\n{screen(watched, 'yes', tmp_path)}" == blocks("console")[1]


@pytest.mark.parametrize("answer", ["no", "", "y"])
def test_a_user_who_does_not_answer_yes(answer: str, tmp_path: Path) -> None:
    """No mail is sent, and the loop goes on to its end."""
    shown = screen(EXAMPLE.read_text(), answer, tmp_path)

    assert "The user was asked and declined" in shown
    assert "result:" not in shown
    assert shown.endswith("Done.\n")


def test_its_samples_run(tmp_path: Path) -> None:
    """One after the other, after the example's own definitions; each checks what it promises."""
    definitions = EXAMPLE.read_text().rpartition("asyncio.run(")[0]
    samples = "\n".join(blocks("python")[1:])
    env = {"HOME": str(tmp_path), "BILLHOOK_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin"}

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{definitions}\n{samples}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=env,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_sync_loop_is_short() -> None:
    """Ten lines, import included."""
    (sample,) = [block for block in blocks("python") if "SyncSession" in block]

    assert len([line for line in sample.splitlines() if line]) <= 10


def test_the_reference_has_every_call() -> None:
    """Each public name of a session, each option and each field of its words is on docs/session.md."""
    page = (ROOT / "docs" / "session.md").read_text()
    names = {name for name in dir(Session) if not name.startswith("_")}
    names |= {*inspect.signature(Session.__init__).parameters, *vars(Session(Engine()))} - {"self"}
    names |= {field for record in (ToolResult, Call, Question, Ruling) for field in record.__struct_fields__} - {
        "began"
    }

    assert [name for name in sorted(names) if name[0] != "_" and not re.search(rf"\b{name}\b", page)] == []
