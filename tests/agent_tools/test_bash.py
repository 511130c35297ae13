"""Bash: commands that go somewhere, print too much, never end, or leave something behind."""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from billhook.agent.tools import OUTPUT_CAP, ToolError
from cli.terminal import gone, living

from .calling import Agent, begun

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "sub" / "deep").mkdir(parents=True)
    return Path(os.path.realpath(folder))


@pytest.fixture
def agent(root: Path) -> Agent:
    return Agent(root)


@pytest.fixture
def tag() -> Iterator[str]:
    """A number of seconds to sleep that no other test uses; what still sleeps so long afterwards is killed."""
    name = str(random.randrange(10**8, 10**9))
    yield name
    for pid in living(name):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# What comes back


def test_the_first_two_of_seed_004(agent: Agent, root: Path) -> None:
    """`pwd` and `ls -la` in the workspace."""
    assert agent.call("Bash", command="pwd", description="Where are we?") == str(root)
    assert " sub\n" in agent.call("Bash", command="ls -la") + "\n"


OUTPUTS: dict[str, tuple[str, str]] = {
    "both streams as they come": ("echo 1; echo 2 >&2; echo 3; echo 4 >&2", "1\n2\n3\n4"),
    "nothing": ("true", "(no output)"),
    "a heredoc": ("cat <<'END'\nno $expansion 'here'\nEND\necho after", "no $expansion 'here'\nafter"),
    "a heredoc with expansion": ("x=1\ncat <<END\n$x $(echo 2)\nEND", "1 2"),
    "several lines": ("x=1\n\n# a comment\necho $x", "1"),
    "a comment at the end": ("echo a # b", "a"),
    "quotes": ("""echo "it's" 'a "b"' \\$x""", """it's a "b" $x"""),
    "no standard input": ("cat; read x || echo none", "none"),
    "no arguments": ('echo "$#$*"', "0"),
    "bad bytes": (r"printf 'a\xff\xfeb'", "a\ufffd\ufffdb"),
    "half a character at the end": (r"printf 'a\xc3'", "a\ufffd"),
    "unicode": ("echo 'ü 日本'", "ü 日本"),
    "trailing blank lines": (r"printf 'a\n\n\n'", "a"),
    "a closed output": ("exec >&- 2>&-; true", "(no output)"),
    "bash": ("[[ abc == a* ]] && echo ${BASH_VERSION:+yes}", "yes"),
    "a handled failure": ("false || echo handled", "handled"),
    "set -e without a failure": ("set -euo pipefail; echo fine", "fine"),
}


@pytest.mark.parametrize(("command", "output"), OUTPUTS.values(), ids=OUTPUTS)
def test_the_output_is_the_answer(agent: Agent, command: str, output: str) -> None:
    """As it was written, without the last line's end."""
    assert agent.call("Bash", command=command) == output


FAILURES: dict[str, tuple[str, str]] = {
    "exit": ("echo a; exit 3", "exit code 3\na"),
    "exit without output": ("exit 200", "exit code 200"),
    "the last command": ("echo a; false", "exit code 1\na"),
    "set -e": ("set -e; echo a; false; echo b", "exit code 1\na"),
    "an unknown command": ("nonesuch", "exit code 127\nbash: line 1: nonesuch: command not found"),
    "the line is named": ("true\n\nnonesuch", "exit code 127\nbash: line 3: nonesuch: command not found"),
    "a signal": ("echo a; kill -9 $$", "ended by signal 9 (Killed)\na"),
    "a signal without a name": ("kill -50 $$", "ended by signal 50 (Real-time signal 16)"),
    "in a trap": ("trap 'echo bye; exit 5' EXIT; exit 4", "exit code 5\nbye"),
}


@pytest.mark.parametrize(("command", "reported"), FAILURES.values(), ids=FAILURES)
def test_a_failure_reports_how_it_ended(agent: Agent, command: str, reported: str) -> None:
    """The exit code or the signal, then the output."""
    assert agent.fails("Bash", command=command).removesuffix("\n") == reported


def test_broken_syntax_is_a_failure(agent: Agent) -> None:
    """In the shell's own words."""
    reported = agent.fails("Bash", command="echo a; if true; then")
    assert reported.startswith("exit code 2\n") and "syntax error" in reported


def test_a_command_may_be_longer_than_an_argument(agent: Agent, root: Path) -> None:
    """A heredoc of a megabyte, for example; nor is it seen in the list of processes."""
    agent.call("Bash", command="cat > big <<'END'\n" + "x" * 99 * 10_000 + "\nEND")
    assert (root / "big").stat().st_size == 990_001
    assert agent.call("Bash", command="tr '\\0' ' ' < /proc/$$/cmdline | grep -c find-me-not || true") == "0"


def test_of_fifty_megabytes_both_ends_come_back(agent: Agent) -> None:
    """With a line about how much is missing between them."""
    reported = agent.call("Bash", command="echo BEGIN; yes 0123456 | head -c 50000000; echo END")
    assert reported.startswith("BEGIN\n0123456\n") and reported.endswith("0123456\nEND")
    assert "\n[... 49,970,010 characters left out ...]\n" in reported
    assert len(reported) < OUTPUT_CAP + 100


def test_an_output_at_the_cap_is_whole(agent: Agent) -> None:
    """One character more is one left out, and characters count, not bytes."""
    many = "printf 'ü%.0s' $(seq {})"
    assert agent.call("Bash", command=many.format(OUTPUT_CAP)) == "ü" * OUTPUT_CAP
    half = "ü" * (OUTPUT_CAP // 2)
    assert agent.call("Bash", command=many.format(OUTPUT_CAP + 1)) == f"{half}\n[... 1 characters left out ...]\n{half}"


# Where it is


MOVES: dict[str, tuple[str, str]] = {
    "cd": ("cd sub", "sub"),
    "cd twice": ("cd sub; cd deep", "sub/deep"),
    "there and back": ("cd sub && cd ..", "."),
    "pushd and popd": ("pushd sub >/dev/null; pushd deep >/dev/null; popd >/dev/null", "sub"),
    "then exit": ("cd sub; exit 3", "sub"),
    "then a failure": ("cd sub; false", "sub"),
    "then set -e": ("set -e; cd sub; false; cd deep", "sub"),
    "then a trap": ("trap 'echo bye' EXIT; cd sub", "sub"),
    "then exit with a trap": ("trap 'echo bye; exit 7' EXIT; cd sub; exit 3", "sub"),
    "in a trap": ("trap 'cd deep' EXIT; cd sub; exit 3", "sub/deep"),
    "then exec": ("cd sub; exec echo a", "sub"),
    "then a signal": ("cd sub; kill -9 $$", "sub"),
    "then TERM": ("cd sub; kill $$; sleep 1", "sub"),
    "before broken syntax": ("cd sub\nif", "sub"),
    "in a function": ("go() { cd sub; }; go", "sub"),
    "in braces": ("{ cd sub; }", "sub"),
    "in a sourced file": ("echo 'cd sub' > go.sh; . ./go.sh", "sub"),
    "by the builtin": ("builtin cd sub; command cd deep", "sub/deep"),
    "by a cd of its own": ('cd() { command cd "$1"; }; cd sub', "sub"),
    "with strict settings": ("set -euo pipefail; set -C; cd sub; cd deep", "sub/deep"),
    "with closed descriptors": ("exec 1>&- 2>&- 3>&- 9>&-; cd sub", "sub"),
    "with other variables": ("unset PWD OLDPWD; PATH=; HOME=/; cd sub", "sub"),
    "with a trace": ("set -x; cd sub", "sub"),
    "after cleaning up": ('cd sub; rm -rf "${TMPDIR:-/tmp}"/nonesuch/*', "sub"),
    "to an odd name": ("mkdir -p $'a\\nb \"c\\' $d'; cd a*", "a\nb \"c' $d"),
    "to unicode": ("mkdir -p 'ünï 日本'; cd 'ünï 日本'", "ünï 日本"),
    "by a link": ("ln -s sub/deep link; cd link", "sub/deep"),
    "not in a subshell": ("(cd sub)", "."),
    "not in a pipe": ("cd sub | cat; true | cd sub", "."),
    "not in a substitution": ("x=$(cd sub; pwd)", "."),
    "not in another shell": ("bash -c 'cd sub'", "."),
    "not in the background": ("cd sub & wait", "."),
    "not nowhere": ("cd nowhere", "."),
    "a folder that moved": ("cd sub/deep; mv ../../sub ../../other; true", "other/deep"),
}


@pytest.mark.parametrize(("command", "folder"), MOVES.values(), ids=MOVES)
def test_the_next_command_starts_where_this_one_ended(agent: Agent, root: Path, command: str, folder: str) -> None:
    """However it ended, and whatever it did to the shell."""
    with suppress(ToolError):
        agent.call("Bash", command=command)
    assert agent.workspace.cwd == root / folder
    assert agent.call("Bash", command="pwd -P") == str(root / folder)


def test_a_folder_whose_name_is_no_text(agent: Agent, root: Path) -> None:
    """It can be entered and left again, and its name can be sent."""
    agent.call("Bash", command=r"mkdir $'odd\xff'; cd odd*")
    assert os.fsencode(agent.workspace.cwd).endswith(b"/odd\xff")
    assert agent.call("Write", file_path="a", content="") == r"Wrote 0 lines to odd\udcff/a"
    agent.call("Bash", command="cd ..")
    assert agent.workspace.cwd == root


def test_the_files_follow(agent: Agent, root: Path) -> None:
    """Relative paths of the other tools begin in the same place."""
    agent.call("Bash", command="cd sub")
    assert agent.call("Write", file_path="a.txt", content="x") == "Wrote 1 line to sub/a.txt"
    assert agent.call("Read", file_path="../sub/a.txt") == "x"


@pytest.mark.parametrize("command", ["cd /", "cd ..", "cd sub; cd ../..", "ln -s / out; cd out", "cd /; exit 3"])
def test_outside_it_goes_back_to_the_root(agent: Agent, root: Path, command: str) -> None:
    """And the model is told, also when the command failed."""
    agent.workspace.cwd = root / "sub" / ".."
    try:
        reported = agent.call("Bash", command=command)
    except ToolError as error:
        reported = str(error)
    assert f"is not a folder in the workspace: the next command starts in `{root}` again)" in reported
    assert agent.workspace.cwd == root


def test_a_folder_that_the_command_removed(agent: Agent, root: Path) -> None:
    """There is no way to stay there; the next command starts at the root."""
    agent.call("Bash", command="cd sub/deep")
    reported = agent.call("Bash", command="rm -r ../../sub")
    assert f"`{root}/sub/deep` is not a folder in the workspace" in reported
    assert agent.call("Bash", command="pwd") == str(root)


def test_a_forged_report_leads_nowhere(agent: Agent, root: Path) -> None:
    """A command that finds the file of the report can't have us wait for a pipe or go out."""
    find = "file=$(declare -f cd | grep -o '/[^ ]*/cwd' | head -1); "
    agent.call("Bash", command=find + "trap - EXIT; rm -f $file; mkfifo $file")
    assert agent.workspace.cwd == root
    reported = agent.call("Bash", command=find + "trap - EXIT; echo /etc > $file")
    assert "`/etc` is not a folder in the workspace" in reported
    agent.call("Bash", command=find + "trap - EXIT; ln -sf /etc/passwd $file")
    assert agent.workspace.cwd == root


def test_no_report_is_left_behind(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a command that removes it do any harm."""
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "quote ' and blank"))
    (tmp_path / "quote ' and blank").mkdir()
    agent.call("Bash", command="cd sub")
    assert agent.workspace.cwd.name == "sub"
    assert agent.call("Bash", command=f"cd deep; rm -rv {tmp_path}/quote*/.billhook-* | wc -l") == "2"
    assert agent.workspace.cwd.name == "sub"
    assert list((tmp_path / "quote ' and blank").iterdir()) == []


def test_without_bash_there_is_sh(agent: Agent, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same promises, but for a command that sets its own EXIT trap."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("cat", "sleep", "rm"):
        (tools / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tools))
    assert agent.call("Bash", command='echo "${BASH_VERSION:-none}"; echo 2 >&2; cat') == "none\n2"
    assert agent.fails("Bash", command="(cd sub/deep); cd sub; exit 3") == "exit code 3"
    assert agent.workspace.cwd == root / "sub"
    agent.call("Bash", command="cd /")
    assert agent.workspace.cwd == root


# Time, and what is left behind


def test_a_timeout_ends_it_and_is_reported(agent: Agent, root: Path, tag: str) -> None:
    """With the output so far; where it had gone by then counts."""
    reported = agent.fails("Bash", command=f"cd sub; echo begun; sleep {tag}", timeout=500)
    assert reported == "timed out: ended after 0.5 seconds\nbegun"
    assert gone(tag, 5)
    assert agent.workspace.cwd == root / "sub"


STUBBORN = {
    "ignores TERM": "trap '' TERM; sleep {tag} & while :; do sleep 1; done",
    "left the group": "setsid sleep {tag} & sleep {tag}",
    "left twice": "(setsid sh -c 'trap \"\" TERM HUP; sleep {tag}; sleep {tag}' >/dev/null 2>&1 &) ; sleep {tag}",
    "prints for ever": "yes {tag}",
}


@pytest.mark.parametrize("command", STUBBORN.values(), ids=STUBBORN)
def test_nothing_survives_a_timeout(agent: Agent, tag: str, command: str) -> None:
    """Whatever it does to stay."""
    begin = time.monotonic()
    assert "timed out" in agent.fails("Bash", command=command.format(tag=tag), timeout=500)
    assert gone(tag, 5)
    assert time.monotonic() - begin < 15


@pytest.mark.parametrize("command", STUBBORN.values(), ids=STUBBORN)
def test_nothing_survives_a_cancel(agent: Agent, tag: str, command: str) -> None:
    """The person pressed Ctrl-C."""

    async def cancelled() -> None:
        task = asyncio.create_task(agent.acall("Bash", command=command.format(tag=tag)))
        await asyncio.to_thread(begun, tag)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert gone(tag, 5)


def test_a_child_that_keeps_the_output_open_blocks_nothing(agent: Agent, tag: str) -> None:
    """The answer comes when the shell ends, and the child is ended with it."""
    begin = time.monotonic()
    assert agent.call("Bash", command=f"sleep {tag} & echo started") == "started"
    assert time.monotonic() - begin < 10
    assert gone(tag, 5)


def test_the_longest_time_is_ten_minutes(agent: Agent) -> None:
    """A longer one is cut; the usual one is two minutes, as the model is told."""
    assert agent.call("Bash", command="echo a", timeout=10**12) == "a"
    reported = str(agent.tools["Bash"].spec.schema["properties"]["timeout"]["description"])
    assert "120000" in reported and "600000" in reported


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no command": ({}, "`command` is missing: it must be a string"),
    "a list": ({"command": ["ls"]}, "`command` must be a string, not a list"),
    "empty": ({"command": ""}, "`command` is empty"),
    "blank": ({"command": " \n"}, "`command` must be a shell command: it is blank, or contains a NUL character"),
    "NUL": ({"command": "a\0b"}, "`command` must be a shell command: it is blank, or contains a NUL character"),
    "half a character": (
        {"command": "echo \ud800"},
        "`command` contains half a character (a lone surrogate) at position 5",
    ),
    "no time": ({"command": "ls", "timeout": 0}, "`timeout` must be a whole number from 1 up, not 0"),
    "time in words": ({"command": "ls", "timeout": "1s"}, "`timeout` must be a whole number from 1 up, not a string"),
    "an odd flag": (
        {"command": "ls", "run_in_background": 1},
        "`run_in_background` must be true or false, not 1",
    ),
    "an odd description": ({"command": "ls", "description": 5}, "`description` must be a string, not 5"),
    "no background here": (
        {"command": "ls", "run_in_background": True},
        "`run_in_background` is not available here; run it without",
    ),
}


@pytest.mark.parametrize(("given", "reported"), WRONG.values(), ids=WRONG)
def test_a_wrong_input_is_named(agent: Agent, given: dict[str, Any], reported: str) -> None:
    """The field, what it must be, and what it was."""
    assert agent.fails("Bash", **given) == reported


def test_the_keys_of_the_model_stay_with_the_agent(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else in the environment is there."""
    names = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "MY_OWN"]
    for name in names:
        monkeypatch.setenv(name, "value-of-it")
    reported = agent.call("Bash", command="env | grep value-of-it | sort")
    assert reported == "ANTHROPIC_BASE_URL=value-of-it\nMY_OWN=value-of-it"


def test_a_workspace_that_is_gone(agent: Agent, root: Path) -> None:
    """No shell can start there, and the reason is told."""
    agent.call("Bash", command=f"rm -r {root}")
    assert f"the working directory `{root}` can't be entered" in agent.fails("Bash", command="pwd")


# In the background


class Tasks:
    """Takes jobs, for later."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.jobs: list[Callable[[], Awaitable[str]]] = []

    async def __call__(self, subject: str, description: str, job: Callable[[], Awaitable[str]]) -> str:
        self.asked.append((subject, description))
        self.jobs.append(job)
        return f"task {len(self.jobs)} runs"

    def run(self) -> str:
        async def last() -> str:
            return await self.jobs[-1]()

        return asyncio.run(last())


def test_a_background_command_is_a_job(root: Path) -> None:
    """The model hears of the task at once; the job gives the output, and its `cd` is its own."""
    tasks = Tasks()
    agent = Agent(root, tasks)
    command = "cd sub\npwd"
    assert agent.call("Bash", command=command, run_in_background=True, description="Look around") == "task 1 runs"
    agent.call("Bash", command=command, run_in_background=True)
    assert tasks.asked == [("Look around", command), ("cd sub", command)]
    agent.workspace.cwd = root / "sub" / "deep"
    assert tasks.run() == str(root / "sub")
    assert agent.workspace.cwd == root / "sub" / "deep"


def test_a_background_command_fails_and_times_out_like_any(root: Path, tag: str) -> None:
    """With the same words."""
    tasks = Tasks()
    agent = Agent(root, tasks)
    agent.call("Bash", command="echo a; exit 3", run_in_background=True)
    with pytest.raises(ToolError, match=r"^exit code 3\na$"):
        tasks.run()
    agent.call("Bash", command=f"echo a; sleep {tag}", run_in_background=True, timeout=300)
    with pytest.raises(ToolError, match=r"^timed out: ended after 0.3 seconds\na$"):
        tasks.run()
    assert gone(tag, 5)


def test_a_cancelled_background_command_is_dead(root: Path, tag: str) -> None:
    """The session ended before it did."""
    tasks = Tasks()
    agent = Agent(root, tasks)

    async def session() -> None:
        await agent.acall("Bash", command=f"trap '' TERM; sleep {tag}; sleep {tag}", run_in_background=True)
        running = asyncio.ensure_future(tasks.jobs[0]())
        await asyncio.to_thread(begun, tag)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(session())
    assert gone(tag, 5)
