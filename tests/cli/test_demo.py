"""`billhook demo`: a whole session with real hooks, and the commands that it proposes afterwards work."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from billhook.agent.factory import open_agent
from billhook.agent.script import ScriptedModel
from billhook.cli.demo import PROMPT, scratch, verb
from cli.terminal import PROGRAM, Ended, billhook, environment, on_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the demo uses a POSIX shell")

BASE = ("session_id", "transcript_path", "cwd", "permission_mode")
SEED_001 = {
    "Setup": ("trigger",),
    "SessionStart": ("source", "agent_type", "model"),
    "UserPromptSubmit": ("prompt",),
    "PreToolUse": ("tool_name", "tool_input", "tool_use_id"),
    "PermissionRequest": ("tool_name", "tool_input"),
    "PostToolUse": ("tool_name", "tool_input", "tool_response", "tool_use_id"),
    "PostToolUseFailure": ("tool_name", "tool_input", "tool_use_id", "error", "is_interrupt"),
    "SubagentStart": ("agent_id", "agent_type"),
    "SubagentStop": ("stop_hook_active", "agent_id", "agent_transcript_path", "agent_type"),
    "PreCompact": ("trigger", "custom_instructions"),
    "Stop": ("stop_hook_active",),
    "TaskCompleted": ("task_id", "task_subject", "task_description", "teammate_name", "team_name"),
    "TeammateIdle": ("teammate_name", "team_name"),
    "Notification": ("message", "title", "notification_type"),
    "SessionEnd": ("reason",),
}
"""Section 3 of seed 001: every event with the fields of its input type, in the order of section 7's diagram (a session
that is set up first). PermissionRequest is described elsewhere ("Spec 06"); it is about a call."""
MAY_BE_EMPTY = {"custom_instructions", "is_interrupt", "stop_hook_active"}


BARE = ":".join(part for part in os.environ["PATH"].split(":") if not Path(part, "billhook").exists())
"""A PATH without billhook, as in a checkout."""


class Run(NamedTuple):
    """A demo that has run."""

    ended: Ended
    further: list[str]
    """The commands that it proposes."""

    @property
    def project(self) -> Path:
        return Path(self.further[0].removeprefix("cd "))


def demo(tmp: Path, *arguments: str, **changes: str | None) -> Run:
    """Run it in a temporary folder of its own."""
    ended = billhook("demo", *arguments, env=environment(**{"TMPDIR": str(tmp), "PATH": BARE, **changes}), cwd="/")
    further = ended.out.partition("\nA closer look\n")[2]
    return Run(ended, re.findall(r"^  (\S.*)$", further, re.MULTILINE))


def pasted(*commands: str) -> "subprocess.CompletedProcess[str]":
    """What a person pastes into a shell."""
    argv, env = ["/bin/sh", "-ec", "\n".join(commands)], environment(PATH=BARE)
    return subprocess.run(argv, env=env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with tempfile.TemporaryDirectory() as tmp:
        yield demo(Path(tmp))


@pytest.fixture(scope="module")
def events(run: Run) -> list[dict[str, Any]]:
    """The log, queried with the proposed command."""
    return [json.loads(line) for line in pasted(*run.further[:4]).stdout.splitlines()]


def test_it_shows_what_happened(run: Run) -> None:
    """The screen has the denial with who, why and how long, the linter's words and the table, in plain text."""
    screen = run.ended.out

    assert (run.ended.code, run.ended.err) == (0, "")
    assert re.search(r"denied by no-rm \([\d.]+ ms\): Do not remove files here: move them to .trash/", screen)
    assert re.search(r"context from lint \([\d.]+ ms\): greet.py:1: blanks at the line end", screen)
    assert re.search(r"PreToolUse +Bash rm -rf old +deny", screen)
    assert "All 15 events of a session happened" in screen
    assert not re.search(r"[^\n -~]", screen)


@pytest.mark.parametrize("event", SEED_001)
def test_every_event_has_its_fields(event: str, events: list[dict[str, Any]]) -> None:
    """Each event of seed 001 happens, and each time it does it carries what its input type lists."""
    found = [record["payload"] for record in events if record["event"] == event]

    assert found
    for payload in found:
        assert payload["hook_event_name"] == event
        fields = (*BASE, *SEED_001[event])
        assert [field for field in fields if field not in payload] == []
        assert [field for field in fields if field not in MAY_BE_EMPTY and not payload[field]] == []


def test_events_happen_in_the_order_of_the_diagram(events: list[dict[str, Any]]) -> None:
    """The first of each, the start after compacting included, are in the order of seed 001's lifecycle."""
    seen: list[str] = []
    for record in events:
        source = record["payload"].get("source")
        name = f"{record['event']} {source}" if source == "compact" else record["event"]
        of_a_task = record["payload"].get("notification_type") == "agent_completed"  # comes when the task ends
        if name not in seen and name.split()[0] in SEED_001 and not of_a_task:
            seen.append(name)

    wanted = list(SEED_001)
    wanted.insert(wanted.index("PreCompact") + 1, "SessionStart compact")
    assert seen == wanted


def test_permission_is_asked_for_a_call_that_was_judged(events: list[dict[str, Any]]) -> None:
    """Each PermissionRequest is about the tool and the input of the PreToolUse right before it."""
    asked = [number for number, record in enumerate(events) if record["event"] == "PermissionRequest"]

    assert asked
    for number in asked:
        before, request = events[number - 1]["payload"], events[number]["payload"]
        assert before["hook_event_name"] == "PreToolUse"
        assert before["tool_input"] == request["tool_input"]
        assert events[number]["decision"] == "allow"


def test_what_was_to_be_removed_is_there(run: Run) -> None:
    """`rm -rf` did not run: the folder was moved, as the reason suggests."""
    assert (run.project / ".trash" / "old" / "greet.sh").read_text() == "echo Hello\n"
    assert (run.project / "handed-over" / "greet.py").read_text() == (run.project / "greet.py").read_text()


def test_transcripts_are_where_the_events_name_them(events: list[dict[str, Any]]) -> None:
    """Both the session's transcript and the subagents' exist and hold messages."""
    payloads = [record["payload"] for record in events]
    paths = {payload["transcript_path"] for payload in payloads}
    paths |= {payload["agent_transcript_path"] for payload in payloads if payload["hook_event_name"] == "SubagentStop"}

    assert len(paths) == 3
    for path in paths:
        assert all(json.loads(line)["type"] in ("message", "compacted") for line in Path(path).read_text().splitlines())


def test_the_commands_to_look_further_work(tmp_path: Path) -> None:
    """Each of them does what it promises when it is pasted; the last one removes everything."""
    ran = demo(tmp_path)
    *go, logged, explain, listing, agent, own, remove = ran.further

    assert go[2:] == [f"export PATH={Path(PROGRAM).parent}:$PATH"]
    assert len(pasted(*go, logged).stdout.splitlines()) > 40
    assert "rm -rf old" in pasted(*go, explain).stdout
    assert "no-rm" in pasted(*go, listing).stdout
    again = pasted(*go, agent)
    assert again.returncode == 0
    assert "denied by no-rm" in again.stderr and "compacted (auto)" in again.stderr
    assert "5 hooks, mode acceptEdits" in again.stderr and "no user can be asked" not in again.stderr
    fired = [json.loads(line)["event"] for line in pasted(*go, logged).stdout.splitlines()]
    assert set(fired) >= set(SEED_001) and fired[0] == "Setup"
    assert own == "billhook agent"
    pasted(remove)
    assert list(tmp_path.iterdir()) == []


def test_ones_own_hooks_stay_out_of_what_comes_after(tmp_path: Path) -> None:
    """The commands to look further see the demo's hooks, and those alone."""
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    changes = _hostile(tmp_path / "home")
    ran = demo(tmp, **changes)
    *go, _, _, _, agent, _, _ = ran.further
    exports = [f"export {name}='{value}'" for name, value in changes.items() if name != "BASH_ENV"]
    again = pasted(*exports, *go, agent)
    assert again.returncode == 0 and ", 5 hooks, " in again.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_output_that_cant_be_written_is_a_failure(form: tuple[str, ...], tmp_path: Path) -> None:
    """The exit code is 2."""
    with open("/dev/full", "wb") as full:
        env = environment(TMPDIR=str(tmp_path))
        done = subprocess.run([PROGRAM, "demo", *form], env=env, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2 and b"can't write the output" in done.stderr


def test_the_model_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers of hooks reach the model: the house rules, the linter's output and the reason of the denial."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def played() -> list[tuple[str, str]]:
        with scratch(keep=True) as made:
            made.approve()
            model = ScriptedModel.read(made.folder / "turns.yaml")
            async with open_agent(
                made.config(), model, cwd=str(made.project), show=lambda event: None, permission_mode="acceptEdits"
            ) as agent:
                await agent.run(PROMPT)
            return [(one.system, getattr(one.messages[-1].content[-1], "content", "")) for one in model.requests]

    told = asyncio.run(played())
    assert told[0][0].endswith("No blanks at line ends.")
    assert told[2][0].endswith("greet.py:1: blanks at the line end")
    assert not told[3][0].endswith("blanks at the line end")
    assert told[4][1] == "Do not remove files here: move them to .trash/"


def _hostile(home: Path) -> dict[str, str]:
    """A home whose hooks deny everything, and variables that would apply it."""
    settings = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "exit 2"}]}]}}
    (home / ".claude").mkdir(parents=True)
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))
    (home / ".config" / "billhook").mkdir(parents=True)
    (home / ".config" / "billhook" / "hooks.yaml").write_text("hooks: {no: {events: Stop, inject: go on}}\n")
    (home / "noise.sh").write_text("touch $HERE/loud; exit 1\n")
    own = {"HOME": str(home), "BILLHOOK_HOME": str(home / ".claude"), "HERE": str(home)}
    return {**own, "XDG_CONFIG_HOME": str(home / ".config"), "BASH_ENV": str(home / "noise.sh")}


def _unwritable(home: Path) -> dict[str, str]:
    """Places where no user can write."""
    return {"HOME": "/proc/none", "BILLHOOK_HOME": "/dev/null", "CLAUDE_PROJECT_DIR": "/proc/nowhere"}


@pytest.mark.parametrize("place", [_hostile, _unwritable], ids=["hostile", "unwritable"])
def test_nothing_of_ones_own_matters(place: Any, tmp_path: Path) -> None:
    """Own hooks, state and variables are neither used nor touched, wherever they are."""
    home, tmp = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    tmp.mkdir()
    changes = place(home)
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}

    ran = demo(tmp, **changes)

    assert (ran.ended.code, ran.ended.err) == (0, "")
    assert "5 hooks" in ran.ended.out
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before


def test_nothing_piles_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo removes what an earlier one left, unless that was to be kept; what is not a demo's stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "billhook-demo-of-mine").mkdir()
    with scratch(keep=True) as kept, scratch(keep=False) as first:
        pass
    assert first.folder.exists()

    with scratch(keep=False) as last, scratch(keep=False) as at_the_same_time:
        there = {path.name for path in tmp_path.iterdir()}

    assert there == {"billhook-demo-of-mine", kept.folder.name, last.folder.name, at_the_same_time.folder.name}


def test_typed_events(tmp_path: Path) -> None:
    """`--json` prints one typed event a line, and at last where it was and whether all was as it should be."""
    ended = demo(tmp_path, "--json").ended

    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert (ended.code, ended.err) == (0, "")
    types = {line["type"] for line in lines}
    assert types >= {"session_started", "prompt", "message", "tool_call", "tool_result", "verdict", "compacted", "task"}
    *_, end, last = lines
    assert (end["type"], end["how"]) == ("ended", "done")
    assert (last["type"], last["amiss"]) == ("demo", [])
    assert Path(last["project"]).is_dir() and Path(last["home"]).is_dir()


def test_it_reports_what_went_wrong(tmp_path: Path) -> None:
    """When not everything happened as it should, the exit code is 1 and a note names what did not."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "mkdir").write_text('#!/bin/sh\ncase "$*" in *trash*) exit 1 ;; esac\nPATH=$REAL exec mkdir "$@"\n')
    (programs / "mkdir").chmod(0o755)

    ended = demo(tmp_path, PATH=f"{programs}:{os.environ['PATH']}", REAL=os.environ["PATH"]).ended

    assert ended.code == 1
    assert ended.err == "note: unexpected: `old` is not in .trash/\n"


def test_no_room_for_a_scratch_folder() -> None:
    """The error names the variable that chooses another folder."""
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), "/proc/nowhere")
    code = (
        "import sys, tempfile; tempfile.tempdir = '/proc/nowhere'; sys.argv[1:] = ['demo'];"
        "from billhook.cli.main import main; main()"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment(**places), capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert "can't create a scratch folder" in ended.stderr
    assert "TMPDIR" in ended.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "TERM"])
def test_a_signal_ends_it_and_all_that_it_started(number: int, code: int, tmp_path: Path) -> None:
    """Interrupted while a teammate's command runs, it ends at once and leaves no process behind."""
    env = environment(TMPDIR=str(tmp_path))
    with subprocess.Popen([PROGRAM, "demo"], env=env, cwd="/", stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        while "tess: Bash" not in (line := started.stdout.readline()):
            assert line

        started.send_signal(number)

        assert "A closer look" not in started.stdout.read()
        assert started.wait(30) == code
    assert _standing_in(tmp_path) == []


def _standing_in(folder: Path) -> list[str]:
    """The processes whose working directory lies in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.readlink(process / "cwd").startswith(f"{folder}/"):
                found.append((process / "cmdline").read_text())
    return found


def test_colours_are_for_terminals(tmp_path: Path) -> None:
    """On a terminal the decisions have their colours."""
    shown = on_terminal("demo", TMPDIR=str(tmp_path), NO_COLOR=None).out

    assert "\x1b[31mdenied by\x1b[0m no-rm" in shown


def test_its_help_names_the_options() -> None:
    """--help promises that no file of the user is touched."""
    shown = billhook("demo", "--help").out

    assert "Your files are neither read nor changed" in " ".join(shown.split())
    assert {"--json", "--keep"} <= {option for param in verb.params for option in param.opts}
