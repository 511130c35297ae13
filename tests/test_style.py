"""The style check finds banned words in strings, comments, docs and test names, and reports where."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def style(tmp_path: Path, name: str, text: str) -> subprocess.CompletedProcess[str]:
    """Run the check in a small project that holds one file."""
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "style"
    script.write_text((ROOT / "scripts" / "style").read_text("utf-8"), "utf-8")
    (tmp_path / name).write_text(text, "utf-8")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    return subprocess.run([sys.executable, str(script), name], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("a.py", 'x = 1\nHINT = "mend it"\n', 'a.py:2: "mend"; write: fix'),
        ("a.py", 'HINT = f"Shall {1} be?"\n', 'a.py:1: "Shall"; write: drop it, or must, should'),
        ("a.py", '"""One\n\nline later it is held up.\n"""\n', 'a.py:3: "held up"; write: blocked'),
        ("a.py", "x = 1  # nobody reads it\n", 'a.py:1: "nobody"; write: name the subject'),
        ("a.py", "def test_that_it_says_no() -> None: ...\n", 'a.py:1: "says"; write: report, print'),
        ("a.md", "# Log\n\nAsk the log.\n", 'a.md:3: "Ask the log"; write: run, call, query'),
        ("a.yaml", "deny: Whoever does this\n", 'a.yaml:1: "Whoever"; write: name the subject'),
        ("a.c", 'puts("it is too late");\n', 'a.c:1: "is too late"; write: time out'),
    ],
)
def test_a_banned_word_is_found(tmp_path: Path, name: str, text: str, finding: str) -> None:
    ran = style(tmp_path, name, text)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout.startswith(finding)


@pytest.mark.parametrize("text", ["recommend = amend = 1\n", 'x = "I understand. Ask the user."\n', "mend = 1\n"])
def test_other_words_and_names_in_code_are_allowed(tmp_path: Path, text: str) -> None:
    ran = style(tmp_path, "a.py", text)
    assert (ran.returncode, ran.stdout) == (0, "no banned words\n")
