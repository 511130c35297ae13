"""Hostile payloads, hooks, terminals and signals, through the real command line."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cli.terminal import PROGRAM, billhook, environment, gone, living

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
PRE = ("fire", "PreToolUse", "--tool", "Bash")
LEFT = 1.0
"""Seconds after which no process of a hook may be left."""


@pytest.fixture
def tag() -> Iterator[str]:
    """A duration for `sleep` that no other test uses; remaining `sleep` processes of that duration are killed."""
    name = str(random.randrange(10**8, 10**9))
    yield name
    for pid in living(name):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# -- payloads ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "dialect"),
    [
        *((size, "claw") for size in (65_530, 131_000, 131_071, 131_072, 3 << 20)),
        *((131_072, dialect) for dialect in ("claw-text", "lesson")),
        pytest.param(50_000_000, "claw", marks=pytest.mark.slow),
        pytest.param(50_000_000, "claw-text", marks=pytest.mark.slow),
    ],
)
def test_large_payloads(size: int, dialect: str, tmp_path: Path) -> None:
    """The hook runs, reads the whole payload on its standard input, and sees that the variable's copy is cut."""
    value = {"command": "é" + "x" * size}
    (tmp_path / "in.json").write_text(json.dumps(value))
    look = (
        f'cat > {tmp_path}/stdin; echo "$HOOK_TOOL_INPUT_TRUNCATED" >&2; '
        'printf %s "$HOOK_TOOL_INPUT" | wc -c >&2; exit 1'
    )
    verdict = billhook(
        *PRE, "--input", f"@{tmp_path}/in.json", "--dialect", dialect, "--json", "--on-failure", "deny", "--run", look
    ).verdict
    assert verdict["decision"] == "deny"
    marked, length = (
        verdict["outcomes"][0]["error" if dialect != "lesson" else "reason"]
        .split("exit code 1: ")[-1]
        .replace("\\n", "\n")
        .split("\n")
    )
    got = json.loads((tmp_path / "stdin").read_bytes())
    text = json.dumps(got["tool_input"]) if dialect != "claw-text" else json.dumps({"command": got["tool_input"]})
    assert hashlib.sha256(text.encode()).digest() == hashlib.sha256(json.dumps(value).encode()).digest()
    assert (marked, int(length) <= 65536) == ("1", True)


def test_a_small_payload_is_not_marked() -> None:
    """A complete copy is not marked as cut."""
    verdict = billhook(*PRE, "--json", "--run", 'echo "[$HOOK_TOOL_INPUT_TRUNCATED]" >&2; exit 2').verdict
    assert verdict["reason"] == "[]"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(r'{"command":"a\u0000b"}', id="NUL"),
        pytest.param(r'{"command":"\ud800"}', id="a lone surrogate"),
        pytest.param(r'{"command":"\udc80\ud83d"}', id="surrogates in the wrong order"),
        pytest.param(r'{"command":"\u202e\u001b[2J\u007f"}', id="control characters"),
        pytest.param('{"command":"a=b\\n\\nc"}', id="newlines"),
        pytest.param('{"\\u0000=":"x"}', id="NUL in a key"),
        pytest.param('"\\ud800"', id="text that is a lone surrogate"),
    ],
)
@pytest.mark.parametrize("dialect", ["claude", "claw", "claw-text", "lesson"])
def test_odd_characters(text: str, dialect: str, tmp_path: Path) -> None:
    """The hook runs, and reads these characters on its standard input."""
    verdict = billhook(
        *PRE, "--input", text, "--dialect", dialect, "--json", "--run", f"cat > {tmp_path}/stdin"
    ).verdict
    assert verdict["outcomes"][0]["status"] == "ok", verdict
    got: Any = json.loads((tmp_path / "stdin").read_bytes())
    sent = json.loads(text)
    if dialect in ("claude", "claw", "lesson") and isinstance(sent, dict):
        assert got["tool_input"] == sent


def test_a_directory_that_is_not_utf8(tmp_path: Path) -> None:
    """The hook runs in it, by `--cwd` or as the working directory, and gets its name."""
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    look = "pwd | od -An -tx1 | tr -d ' \\n' >&2; printf ' %s' \"$CLAUDE_CWD\" | od -An -tx1 | tr -d ' \\n' >&2; exit 2"
    for ended in (
        billhook(*PRE, "--cwd", folder, "--json", "--run", look),
        billhook(*PRE, "--json", "--run", look, cwd=folder),
    ):
        assert ended.verdict["reason"].count("636166e9") == 2, ended


@pytest.mark.parametrize(
    "changes",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": None, "LANG": None, "LC_CTYPE": None},
    ],
    ids=["C", "POSIX, not UTF-8", "C, not UTF-8", "none"],
)
@pytest.mark.parametrize("dialect", ["claude", "claw"])
def test_locales(changes: dict[str, str | None], dialect: str, tmp_path: Path) -> None:
    """In any locale: text of the command line reaches the hook, and the hook's text reaches the screen."""
    run = f"cat > {tmp_path}/stdin; printf 'gr\\303\\274n' >&2; exit 2"
    arguments = (*PRE, "--input", '{"command":"grün"}', "--dialect", dialect, "--run", run)
    ended = billhook(*arguments, env=environment(**changes))
    assert ended.code == 1, ended
    assert "grün" in ended.out
    assert json.loads((tmp_path / "stdin").read_bytes())["tool_input"] == {"command": "grün"}
    assert billhook(*arguments, "--json", env=environment(**changes)).verdict["reason"] == "grün"


def test_a_directory_that_was_removed(tmp_path: Path) -> None:
    """Started in a directory that is gone: the hook runs in the folder of `--cwd`, or else in ours."""

    def fire(*arguments: str) -> tuple[int, dict[str, Any]]:
        done = started(*arguments)
        return done.returncode, json.loads(done.stdout)

    def started(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        code = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.argv[1], sys.argv[1:])"
        (tmp_path / "gone").mkdir()
        argv = [sys.executable, "-c", code, PROGRAM, *PRE, "--json", "--run", "pwd >&2; exit 2", *arguments]
        return subprocess.run(argv, cwd=tmp_path / "gone", capture_output=True, timeout=60, check=False)

    code, verdict = fire("--cwd", str(tmp_path))
    assert (code, verdict["reason"]) == (1, str(tmp_path))
    assert fire()[0] == 1
    refused = started("--cwd", "nowhere")
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert refused.stderr.startswith(b"error: --cwd nowhere: no such folder")


# -- streams -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str, tmp_path: Path) -> None:
    """Without standard input, output or error the verdict is the same and the hook gets its payload."""
    command = f"{PROGRAM} {' '.join(PRE)} --run 'cat > {tmp_path}/stdin; exit 2' {closed}"
    done = subprocess.run(["/bin/sh", "-c", command], timeout=60, check=False, capture_output=True)
    assert done.returncode == 1, done
    assert json.loads((tmp_path / "stdin").read_bytes())["tool_name"] == "Bash"


def test_closed_input_that_is_needed() -> None:
    """`@-` without a standard input is an error, not a crash."""
    command = f"{PROGRAM} {' '.join(PRE)} --input @- <&-"
    done = subprocess.run(["/bin/sh", "-c", command], timeout=60, check=False, capture_output=True)
    assert (done.returncode, b"standard input is closed" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param([*PRE, "--run", "exit 2"], 1, id="a deny"),
        pytest.param([*PRE, "--run", "exit 2", "--json"], 1, id="a deny as JSON"),
        pytest.param([*PRE, "--run", "true"], 0, id="no objection"),
        pytest.param(
            [*PRE, "--run", "head -c 900000 /dev/zero | tr '\\0' x", "--json", "--dialect", "claw"], 0, id="much"
        ),
        pytest.param(["--help"], 0, id="help"),
        pytest.param(["fire", "--help"], 0, id="help of a verb"),
    ],
)
def test_closed_output(arguments: list[str], code: int) -> None:
    """Output into a closed pipe: no error, and the exit code still has the verdict."""
    ours, theirs = os.pipe()
    process = subprocess.Popen([PROGRAM, *arguments], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    os.close(ours)
    _, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (code, b"")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param([*PRE, "--run", "exit 2"], 1, id="a deny"),
        pytest.param([*PRE, "--run", "true", "--json"], 0, id="no objection as JSON"),
        pytest.param(["fire", "--help"], 2, id="help"),
    ],
)
def test_no_room_for_the_output(arguments: list[str], code: int) -> None:
    """Output to a full disk is reported, and the exit code still has the verdict."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
        mute = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=full, timeout=60, check=False)
    assert done.stderr.startswith(b"error: can't write the output: No space left on device\n\nhint: ")
    assert (done.returncode, mute.returncode) == (code, code)


def test_no_room_for_complaints() -> None:
    """Standard error to a full disk: everything else works."""
    with open("/dev/full", "wb") as full:
        for arguments, code in (([*PRE, "--run", "exit 7"], 0), ([*PRE, "--input", "{"], 2)):
            done = subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=full, timeout=60, check=False)
            assert done.returncode == code, done


# -- hooks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_flood(stream: str) -> None:
    """100 MB of output: the decision is kept, and only a little of the output."""
    flood = f"head -c 100000000 /dev/zero | tr '\\0' x >&{stream}; exit 2"
    script = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    argv = [sys.executable, "-c", script, PROGRAM, *PRE, "--run", flood, "--dialect", "claw", "--json"]
    code, peak = subprocess.run(argv, capture_output=True, timeout=120, check=True).stdout.split()
    assert code == b"1"
    assert int(peak) < 120_000  # KiB; the hook printed 97,657


@pytest.mark.parametrize(
    "hook",
    [
        pytest.param("sleep {tag}", id="sleeps"),
        pytest.param("trap '' TERM INT HUP; while :; do sleep {tag}; done", id="ignores TERM"),
        pytest.param("sleep {tag} & sleep {tag} & wait", id="children"),
        pytest.param("setsid sleep {tag} & wait", id="a child in another session"),
        pytest.param("setsid sh -c 'setsid sleep {tag} & sleep {tag}' & wait", id="grandchildren in other sessions"),
        pytest.param("kill -STOP $$; sleep {tag}", id="stops itself"),
        pytest.param("(trap '' TERM; sleep {tag}) & kill -STOP $!; sleep {tag}", id="a stopped child"),
        pytest.param("exec >&- 2>&-; sleep {tag}", id="closes its output"),
        pytest.param("(setsid env -i sleep {tag} &); sleep {tag}", id="an orphan without environment"),
        pytest.param("setsid -f env -i sleep {tag}; sleep {tag}", id="an orphan by setsid -f"),
    ],
)
def test_a_hook_that_hangs(hook: str, tag: str) -> None:
    """The verdict comes in time, and a second later no process of the hook is left."""
    began = time.monotonic()
    ended = billhook(*PRE, "--timeout", "1", "--on-failure", "deny", "--json", "--run", hook.format(tag=tag))
    took = time.monotonic() - began
    assert gone(tag, LEFT), living(tag)
    assert (ended.code, ended.verdict["outcomes"][0]["status"]) == (1, "timed_out")
    assert took < 15


def test_orphans_of_one_of_several_hooks(tag: str) -> None:
    """Parallel hooks, one of which leaves an orphan without environment at its deadline: it is killed, too."""
    run = ["--run", f"(setsid env -i sleep {tag} &); sleep {tag}", "--run", f"sleep {tag}"]
    ended = billhook("fire", "Notification", "--timeout", "0.5", "--json", *run)
    assert gone(tag, LEFT), living(tag)
    assert [outcome["status"] for outcome in ended.verdict["outcomes"]] == ["timed_out"] * 2


def test_a_background_child_does_not_delay_the_verdict(tag: str) -> None:
    """The exit status decides, although a child still has the hook's output open; the child is ended."""
    began = time.monotonic()
    ended = billhook(*PRE, "--json", "--run", f"sleep {tag} & echo no >&2; exit 2")
    assert (ended.code, ended.verdict["reason"]) == (1, "no")
    assert time.monotonic() - began < 15
    assert gone(tag, LEFT)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT], ids=lambda number: number.name
)
@pytest.mark.parametrize(
    ("event", "hook"),
    [
        pytest.param("PreToolUse", "sleep {tag}", id="a hook"),
        pytest.param("PreToolUse", "trap '' INT TERM HUP QUIT; setsid sleep {tag} & sleep {tag}", id="a stubborn hook"),
        pytest.param("Notification", "echo '{{\"async\": true}}'; sleep {tag}", id="a hook that answers later"),
    ],
)
def test_signals(number: signal.Signals, event: str, hook: str, tag: str) -> None:
    """Signals while a hook runs: all its processes are ended, then billhook exits with 128 plus the signal's number."""
    tool = ["--tool", "Bash"] if event == "PreToolUse" else []
    process = subprocess.Popen(
        [PROGRAM, "fire", event, *tool, "--run", hook.format(tag=tag)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    end = time.monotonic() + 30
    while len(living(f"sleep\0{tag}")) < hook.count("sleep") and time.monotonic() < end:
        time.sleep(0.02)
    if event == "Notification":
        assert process.stdout is not None
        process.stdout.readline()  # the screen is shown: from now on billhook waits for the late answer
        time.sleep(0.1)
    process.send_signal(number)
    _, complaints = process.communicate(timeout=60)
    assert gone(tag, LEFT), living(tag)
    assert process.returncode == 128 + number
    assert b"Traceback" not in complaints
