"""`billhook hook` with odd event names, with a removed folder, and when one of its hooks calls it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.place import Place
from cli.terminal import PROGRAM, Ended

BASH: dict[str, Any] = {"tool_name": "bash", "tool_input": {"command": "rm x"}}
NEVER = "hooks:\n  never:\n    events: PreToolUse\n    deny: not here\n"
LOGGER = "hooks:\n  log:\n    events: PreToolUse\n    run: 'true'\n"
SPELLINGS = ["pre_tool_use", "pretooluse", "PRE-TOOL-USE", "preToolUse", "PreToolUse"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def event(name: str | None = None, **fields: Any) -> bytes:
    return json.dumps({**({} if name is None else {"hook_event_name": name}), **BASH, **fields}).encode()


# -- the event's name


@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.parametrize("how", ["argument", "JSON", "environment"])
def test_every_spelling_is_the_event(place: Place, name: str, how: str) -> None:
    """Case, `_` and `-` don't matter, wherever the name is: the guard runs."""
    place.own(NEVER)
    told = {"HOOK_EVENT": name, "HOOK_TOOL_NAME": "bash", "HOOK_TOOL_INPUT": '{"command":"rm x"}'}
    ended = {
        "argument": lambda: place.run("hook", "--as", "lesson", name, stdin=event()),
        "JSON": lambda: place.run("hook", "--as", "lesson", stdin=event(name)),
        "environment": lambda: place.run("hook", "--as", "lesson", told=told),
    }[how]()
    assert (ended.code, ended.out, ended.err) == (1, "", "not here")


def test_a_spelling_in_the_claude_dialect(place: Place) -> None:
    """The answer has the canonical name, and the hook gets the whole event under it."""
    place.own(f"hooks:\n  it:\n    events: PreToolUse\n    run: cat > {place.folder}/seen; echo no >&2; exit 2\n")
    ended = place.run("hook", "--as", "claude", stdin=event("pre_tool_use", odd="\ud800", session_id="s"))
    said = json.loads(ended.out)["hookSpecificOutput"]
    assert (said["hookEventName"], said["permissionDecision"]) == ("PreToolUse", "deny")
    seen = json.loads((place.folder / "seen").read_bytes())
    assert (seen["hook_event_name"], seen["tool_input"], seen["odd"]) == ("PreToolUse", {"command": "rm x"}, "\ud800")


def test_a_spelling_with_fields_of_another_dialect(place: Place) -> None:
    """The canonical name determines how a tool's output is read."""
    place.own(f"hooks:\n  it:\n    events: PostToolUse\n    run: cat > {place.folder}/seen\n")
    assert place.run("hook", "--as", "claw", stdin=event("post_tool_use", tool_output="done")).code == 0
    assert json.loads((place.folder / "seen").read_bytes())["tool_response"] == "done"


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        pytest.param(["--as", "lesson", "PreToolUze"], event(), 1, id="an argument"),
        pytest.param(["--as", "lesson"], event("PreToolUze"), 1, id="lesson"),
        pytest.param(["--as", "claw"], event("PreToolUze"), 2, id="claw"),
        pytest.param(["--as", "claude", "--on-failure", "allow"], event("PreToolUze"), 0, id="--on-failure allow"),
    ],
)
def test_a_mistyped_event_is_broken(place: Place, arguments: list[str], stdin: bytes, code: int) -> None:
    """A name that is nearly an event follows the failure rule, with a suggestion on stderr."""
    place.own(NEVER)
    ended = place.run("hook", *arguments, stdin=stdin)
    assert ended.code == code
    assert "there is no event `PreToolUze`; did you mean `PreToolUse`?" in ended.err


def test_a_mistyped_event_in_the_claude_dialect(place: Place) -> None:
    """It is denied as the nearest event."""
    place.own(NEVER)
    ended = place.run("hook", stdin=event("PreToolUze"))
    assert (ended.code, json.loads(ended.out)["hookSpecificOutput"]["permissionDecision"]) == (0, "deny")


def test_a_mistyped_event_without_gates_continues_visibly(place: Place) -> None:
    """Without a gate for the nearest event it continues, with a message to the user and on stderr."""
    place.own("guard: off\n" + LOGGER)
    ended = place.run("hook", stdin=event("PreToolUze"))
    assert (ended.code, json.loads(ended.out)) == (
        0,
        {
            "systemMessage": "billhook: there is no event `PreToolUze`; did you mean `PreToolUse`?"
            " The PreToolUse event was not judged."
        },
    )
    assert ended.err == (
        "billhook: there is no event `PreToolUze`; did you mean `PreToolUse`?\n"
        "billhook: the event continues without being checked\n"
    )


def test_a_broken_event_under_another_spelling(place: Place) -> None:
    """The gates of that event count if the rest of the text can't be read."""
    place.own(NEVER)
    ended = place.run("hook", stdin=b'{"hook_event_name": "pre_tool_use", ')
    assert '"deny"' in ended.out


def test_an_unknown_event(place: Place) -> None:
    """It is fired unchanged, with a note on stderr that billhook does not know it."""
    place.own(f"hooks:\n  all:\n    events: DeployStarted\n    run: cat > {place.folder}/seen\n" + LOGGER[7:])
    ended = place.run("hook", stdin=event("RocketLaunched"))
    assert (ended.code, ended.out) == (0, "")
    assert "billhook: note: unknown event `RocketLaunched`, and no configured hook listens for it\n" in ended.err
    named = place.run("hook", stdin=event("DeployStarted"))
    assert "knows no event" not in named.err
    assert json.loads((place.folder / "seen").read_bytes())["hook_event_name"] == "DeployStarted"


# -- a removed folder


def stranded(place: Place, *arguments: str, stdin: bytes = b"", **changes: str | None) -> Ended:
    """Run billhook in a folder that was just removed."""
    code = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.argv[1], sys.argv[1:])"
    gone = place.folder / "gone"
    gone.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", code, PROGRAM, *arguments],
        input=stdin,
        cwd=gone,
        env=place.env(**{"PWD": str(gone), **changes}),
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["init"],
        ["trust"],
        ["trust", "--list"],
        ["list"],
        ["check"],
        ["explain", "ls"],
        ["fire", "PreToolUse", "--tool", "Bash"],
    ],
    ids=" ".join,
)
def test_every_verb_reports_a_removed_folder(place: Place, arguments: list[str]) -> None:
    """A removed working directory is a usage error, not an internal error."""
    ended = stranded(place, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: the working directory is gone\n\nhint: ")


@pytest.mark.parametrize("speech", ["claude", "lesson"])
@pytest.mark.parametrize("pwd", ["set", "unset"])
def test_a_hook_in_a_removed_folder(place: Place, speech: str, pwd: str) -> None:
    """If the event has no folder either, a gate of the user blocks it; without one it continues visibly."""
    changes: dict[str, str | None] = {} if pwd == "set" else {"PWD": None}
    place.own(NEVER)
    ended = stranded(place, "hook", "--as", speech, stdin=event("PreToolUse"), **changes)
    assert "the working directory no longer exists" in ended.err
    assert ended.code == 1 if speech == "lesson" else '"deny"' in ended.out
    place.own("guard: off\n" + LOGGER)
    ended = stranded(place, "hook", "--as", speech, stdin=event("PreToolUse"), **changes)
    assert (ended.code, "event was not judged" in ended.out) == (0, speech == "claude")
    assert ended.err.endswith("billhook: the event continues without being checked\n")
    assert ended.err.startswith("billhook: can't determine the project: the working directory no longer exists")


def test_the_event_still_names_the_folder(place: Place) -> None:
    """If the event has a folder, the working directory does not matter."""
    place.own(NEVER)
    ended = stranded(place, "hook", stdin=event("PreToolUse", cwd=str(place.project)))
    assert ('"deny"' in ended.out, ended.err) == (True, "")


# -- a hook that calls billhook


@pytest.mark.parametrize(
    ("depth", "told"),
    [("3", True), ("17", True), ("2", False), ("", False), ("deep", False)],
    ids=["three deep", "deeper", "two deep", "empty", "no number"],
)
def test_depth(place: Place, depth: str, told: bool) -> None:
    """The third level counts as a recursion: the failure rule ends it."""
    place.own("guard: off\n" + LOGGER)
    ended = place.run("hook", stdin=event("PreToolUse"), BILLHOOK_DEPTH=depth)
    line = "billhook: billhook hook was called by one of its own hooks, three levels deep\n"
    assert (ended.code, "event was not judged" in ended.out, ended.err.startswith(line)) == (0, told, told)
    place.own(NEVER)
    assert '"deny"' in place.run("hook", stdin=event("PreToolUse"), BILLHOOK_DEPTH=depth).out


def test_a_hook_that_calls_billhook_ends(place: Place) -> None:
    """A configured command `billhook hook` ends, with the reason."""
    place.own(f"hooks:\n  round:\n    events: PreToolUse\n    run: {PROGRAM} hook\n    gate: true\n")
    ended = place.run("hook", stdin=event("PreToolUse"), BILLHOOK_DEPTH=None)
    assert '"deny"' in ended.out
    assert "three levels deep" in ended.out
