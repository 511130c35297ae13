"""`billhook completion`: the scripts work in real shells."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from billhook.cli.group import SHELLS
from billhook.config.lint import sections
from cli.terminal import PROGRAM, billhook, environment

CASES = [
    pytest.param("billhook inst", ["install"], id="a command"),
    pytest.param("billhook install cla", ["claude"], id="an agent"),
    pytest.param("billhook check --exp", ["--explain"], id="an option"),
    pytest.param(
        "billhook check --explain BH30", [code for code in sections() if code < "BH310" and code > "BH300"], id="a code"
    ),
    pytest.param("billhook check --format s", ["sarif"], id="a value of an option"),
    pytest.param("billhook fire Pre", ["PreToolUse", "PreCompact", "PreModelSwitch"], id="an event"),
    pytest.param("billhook add no-c", ["no-commits-to-main"], id="a recipe"),
    pytest.param("billhook events ver", ["verify"], id="a command of events"),
    pytest.param("billhook log ver", ["verify"], id="the alias of events"),
    pytest.param("billhook completion f", ["fish"], id="a shell"),
    pytest.param("billhook rul", [], id="hidden commands are not proposed"),
]


def around() -> dict[str, str]:
    """An environment in which `billhook` is the one under test."""
    return environment(PATH=f"{Path(PROGRAM).parent}:{os.environ['PATH']}")


def asked(shell: str, script: str) -> list[str]:
    """The lines that a shell prints for a script."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not on this machine")
    done = subprocess.run([shell, "-c", script], env=around(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.split()


@pytest.mark.parametrize(("line", "proposed"), CASES)
def test_bash(line: str, proposed: list[str]) -> None:
    """The script is sourced, and its function called as bash does when the user presses Tab."""
    words = line.split()
    script = f"""
        eval "$(billhook completion bash)"
        COMP_WORDS=({line}) COMP_CWORD={len(words) - 1}
        "$(complete -p billhook | sed 's/.*-F \\([^ ]*\\) .*/\\1/')" billhook
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert asked("bash", script) == proposed


@pytest.mark.parametrize(("line", "proposed"), CASES)
def test_fish(line: str, proposed: list[str]) -> None:
    found = asked(
        "fish", f"billhook completion fish | source; complete --do-complete '{line}' | string replace -r '\\t.*' ''"
    )
    assert sorted(found) == sorted(proposed)


def test_zsh() -> None:
    """The script defines a function and registers it for `billhook`."""
    script = 'autoload -Uz compinit; compinit -D; eval "$(billhook completion zsh)"; print ${_comps[billhook]}'
    assert asked("zsh", script) == ["_billhook_completion"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script(shell: str) -> None:
    ended = billhook("completion", shell)
    assert (ended.code, ended.err) == (0, "")
    assert "_BILLHOOK_COMPLETE" in ended.out and "_billhook_completion" in ended.out


def test_an_unknown_shell() -> None:
    assert billhook("completion", "zhs").screen == snapshot("""\
-- stderr
error: no completion for `zhs`

hint: did you mean `zsh`?
-- exit 2
""")


def test_help_shows_the_line_for_the_profile() -> None:
    text = billhook("completion", "--help").out
    assert 'eval "$(billhook completion bash)"' in text and "billhook completion fish | source" in text


LOADED = """
import sys
from billhook.cli.main import main
sys.argv = ["billhook"]
try:
    main()
except SystemExit:
    print(*sorted({"asyncio", "billhook.cli.events", "billhook.config.loader"} & sys.modules.keys()))
"""


def test_completing_a_command_imports_no_command() -> None:
    """Each Tab starts billhook, so it must be fast."""
    words = {"_BILLHOOK_COMPLETE": "bash_complete", "COMP_WORDS": "billhook ev", "COMP_CWORD": "1"}
    python = str(Path(PROGRAM).with_name("python"))
    done = subprocess.run([python, "-c", LOADED], env={**around(), **words}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plain,events"]
