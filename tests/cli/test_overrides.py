"""`billhook allow-once`, `pause` and `resume`: a person overrides a hook, for one call or for some minutes."""

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from billhook.agents import AGENTS
from billhook.config.override import ALPHABET, Overrides, Pause, code_of, denied_call
from billhook.core.events import parse
from billhook.store.state import FileState
from cli.place import Place
from cli.terminal import PROGRAM

DENY = "hooks:\n  no-push:\n    events: PreToolUse\n    if: Bash(git push *)\n    deny: no pushes\n"
PUSH = "git push origin x"
PUBLISH = "npm publish"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.own(DENY)
    return place


def payload(place: Place, command: str = PUSH, **fields: Any) -> dict[str, Any]:
    about = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}}
    base = {"session_id": "s", "transcript_path": "", "cwd": str(place.project), "tool_use_id": "t"}
    return {**base, **about, **fields}


def answer(place: Place, command: str = PUSH, agent: str = "claude", **fields: Any) -> dict[str, Any]:
    """What the agent gets for a call."""
    ended = place.run("hook", "--as", agent, stdin=json.dumps(payload(place, command, **fields)).encode())
    assert ended.code == 0, ended
    return json.loads(ended.out) if ended.out else {}


def decision(said: dict[str, Any]) -> str:
    return str(said.get("hookSpecificOutput", {}).get("permissionDecision", "none"))


def code_in(said: dict[str, Any]) -> str:
    found = re.search(r"`billhook allow-once (\w{6})`", json.dumps(said))
    return found[1] if found else ""


def allow(place: Place, code: str) -> None:
    ended = place.typing("allow-once", code, answers=[("[y/N]", "y\n")])
    assert ended.code == 0 and "allowed once until" in ended.out, ended


def last_record(place: Place) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(place.run("events", "--last", "1", "--json").out)
    return record


# -- allow once


def test_allowed_once(place: Place) -> None:
    """The call passes once; then it is denied again, with the same code. The log has the code."""
    code = code_in(answer(place))
    assert len(code) == 6 and set(code) <= set(ALPHABET)
    allow(place, code.lower())
    assert decision(answer(place)) == "none"
    waived = [one["waived"] for one in last_record(place)["outcomes"] if one["hook"] == "no-push"]
    assert waived == [{"by": f"allowed once ({code})", "would": "deny", "reason": "no pushes"}]
    said = answer(place)
    assert decision(said) == "deny" and code_in(said) == code
    assert [one["code"] for one in last_record(place)["outcomes"] if one["hook"] == "no-push"] == [code]


@pytest.mark.parametrize(
    "other",
    [
        {"command": "git push origin y"},
        {"session_id": "another"},
        {"cwd": "/"},
        {"tool_input": {"command": PUSH, "run_in_background": True}},
        {"agent_id": "subagent"},
    ],
)
def test_no_other_call_is_allowed(place: Place, other: dict[str, Any]) -> None:
    allow(place, code_in(answer(place)))
    assert decision(answer(place, **other)) == "deny"
    assert decision(answer(place)) == "none"


def test_another_description_is_the_same_call(place: Place) -> None:
    allow(place, code_in(answer(place, tool_input={"command": PUSH, "description": "Push"})))
    assert decision(answer(place, tool_input={"description": "Push it", "command": PUSH})) == "none"


def test_other_hooks_still_judge_it(place: Place) -> None:
    """Only the hook that denied is overridden."""
    place.own(DENY + "  second:\n    events: PreToolUse\n    match: Bash\n    deny: never\n")
    allow(place, code_in(answer(place)))
    assert "never" in json.dumps(answer(place))


def test_two_hooks_are_allowed_one_after_the_other(place: Place) -> None:
    """What the user allowed is used up only by a call that passes: another hook that denies does not spend it."""
    place.own(DENY + "  second:\n    events: PreToolUse\n    match: Bash\n    deny: never\n")
    first = code_in(answer(place))
    allow(place, first)
    second = code_in(answer(place))
    assert second != first
    allow(place, second)
    assert decision(answer(place)) == "none"
    assert code_in(answer(place)) == first  # both are used up


def test_a_hook_without_a_code_does_not_spend_it(place: Place) -> None:
    gate = DENY + "  gate:\n    events: PreToolUse\n    run: exit 2\n"
    allow(place, code_in(answer(place)))
    place.own(gate)
    assert decision(answer(place)) == "deny"
    place.own(DENY)
    assert [decision(answer(place)) for _ in range(2)] == ["none", "deny"]


def test_the_guard(place: Place) -> None:
    """An ask in an agent that can't ask names the code in place of the rule."""
    said = answer(place, "git push --force origin x", "codex")
    place.own("")
    said = answer(place, "git push --force origin x", "codex")
    assert decision(said) == "deny" and "permissions:" not in json.dumps(said)
    allow(place, code_in(said))
    assert decision(answer(place, "git push --force origin x", "codex")) == "none"


@pytest.mark.parametrize("verb", ["allow-once K7QF2M", "pause", "promote x", "trust --all --yes", "resume"])
def test_billhook_itself_has_no_code(place: Place, verb: str) -> None:
    said = answer(place, f"billhook {verb}")
    assert decision(said) == "deny" and "is for the user" in json.dumps(said) and not code_in(said)


@pytest.mark.parametrize("agent", list(AGENTS))
def test_every_agent_gets_the_code(place: Place, agent: str) -> None:
    """The reason of a deny has the code in every agent, as in Claude Code."""
    ended = place.run("hook", "--as", agent, stdin=json.dumps(payload(place)).encode())
    assert "no pushes. The user can allow this call once: `billhook allow-once " in ended.out + ended.err, ended


def test_vscode_gets_the_code(place: Place) -> None:
    """VS Code's agent calls the entry of Claude Code."""
    sent = {"hookEventName": "PreToolUse", "sessionId": "s", "cwd": str(place.project), "tool_name": "run_in_terminal"}
    ended = place.run("hook", "--as", "claude", stdin=json.dumps(sent | {"tool_input": {"command": PUSH}}).encode())
    assert "no pushes. The user can allow this call once: `billhook allow-once " in ended.out + ended.err, ended


def test_test_events_have_no_code(place: Place) -> None:
    fired = place.run("fire", "PreToolUse", "--tool", "Bash", "--input", json.dumps({"command": PUSH}), "--json")
    assert fired.verdict["reason"] == "no pushes"


def test_commands_have_no_code(place: Place) -> None:
    """A program may deny for reasons that change: only fixed rules and the guard can be overridden."""
    place.own('hooks:\n  no:\n    events: PreToolUse\n    run: "echo no >&2; exit 2"\n')
    assert decision(answer(place)) == "deny" and not code_in(answer(place))


def test_it_is_for_people(place: Place) -> None:
    code = code_in(answer(place))
    assert "must be a terminal" in place.alone("allow-once", code, "--yes").err
    inside = place.typing("allow-once", code, "--yes", answers=[], CLAUDECODE="1")
    assert inside.code == 2 and "inside Claude Code" in inside.out
    assert place.typing("allow-once", code, answers=[("[y/N]", "n\n")]).code == 1
    assert decision(answer(place)) == "deny"


def test_unknown_code(place: Place) -> None:
    ended = place.typing("allow-once", "AAAAAA", "--yes", answers=[])
    assert ended.code == 2 and "no denied call has the code `AAAAAA`" in ended.out


def test_two_calls_at_once_use_it_once(tmp_path: Path) -> None:
    """The permission is taken under a lock."""
    event = parse({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": PUSH}})
    call = denied_call(event, "no-push", "/project")
    overrides = Overrides(FileState(tmp_path))
    overrides.allow(call)
    with ThreadPoolExecutor(8) as pool:
        used = list(pool.map(lambda _: Overrides(FileState(tmp_path)).use(call), range(16)))
    assert used.count(True) == 1


def test_it_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event = parse({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": PUSH}})
    call = denied_call(event, "no-push", "/project")
    overrides = Overrides(FileState(tmp_path))
    monkeypatch.setattr("billhook.config.override.WINDOW", -1.0)
    overrides.allow(call)
    assert not overrides.use(call)


def test_codes_have_no_lookalikes() -> None:
    assert not set(code_of("f" * 64) + ALPHABET) & set("01OILSBZU8")


def test_the_state_has_no_secrets(place: Place) -> None:
    token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    answer(place, f"git push https://{token}@github.com/x")
    state = place.home / ".claude" / "billhook" / "overrides"
    assert token not in "".join(file.read_text() for file in state.iterdir())


# -- pause


def test_pause(place: Place) -> None:
    """Hooks run and are recorded, and don't decide; the agent shows it at every event; `resume` ends it."""
    assert place.typing("pause", answers=[]).code == 0
    for _ in range(2):
        said = answer(place)
        assert decision(said) == "none" and "billhook is paused in this project until" in said["systemMessage"]
    waived = [one["waived"]["by"] for one in last_record(place)["outcomes"] if one["hook"] == "no-push"]
    assert waived == ["paused"]
    assert decision(answer(place, PUBLISH)) == "none"
    for screen in (place.run(), place.run("list"), place.run("doctor")):
        assert "billhook is paused in this project until" in screen.out + screen.err
    assert place.typing("resume", answers=[]).code == 0
    assert decision(answer(place)) == "deny"


def test_billhook_itself_is_never_paused(place: Place) -> None:
    place.typing("pause", answers=[])
    assert decision(answer(place, "billhook trust --all --yes")) == "deny"


def test_pause_one_hook(place: Place) -> None:
    ended = place.typing("pause", "5m", "--hook", "guard", answers=[])
    assert "(guard)" in ended.out
    assert decision(answer(place)) == "deny" and decision(answer(place, PUBLISH)) == "none"


def test_a_gate_that_fails_is_paused(place: Place) -> None:
    place.own("hooks:\n  gate:\n    events: PreToolUse\n    run: no-such-program-anywhere\n    gate: true\n")
    assert decision(answer(place)) == "deny"
    place.typing("pause", answers=[])
    assert decision(answer(place)) == "none"


def test_another_project_is_not_paused(place: Place) -> None:
    place.typing("pause", answers=[])
    other = place.folder / "other"
    other.mkdir()
    assert decision(answer(place, cwd=str(other))) == "deny"


def test_a_pause_ends_by_itself() -> None:
    import time

    assert not Pause(time.time() - 1).active
    assert not Pause(time.time() + 9 * 3600).active  # longer than allowed: an edited file


def test_pause_is_for_people(place: Place) -> None:
    assert "must be a terminal" in place.alone("pause").err
    assert "inside Claude Code" in place.typing("pause", answers=[], CLAUDECODE="1").out
    assert decision(answer(place)) == "deny"


@pytest.mark.parametrize("words", [("9h",), ("0s",), ("soon",), ("--hook", "nope")])
def test_pause_usage(place: Place, words: tuple[str, ...]) -> None:
    ended = place.typing("pause", *words, answers=[])
    assert ended.code == 2 and "hint:" in ended.out


def test_resume_without_pause(place: Place) -> None:
    ended = place.typing("resume", answers=[])
    assert (ended.code, ended.out) == (1, "there is no pause here\n")


# -- events save, fire --from


def test_save_and_fire(place: Place) -> None:
    answer(place)
    record = last_record(place)
    case = place.run("events", "save", str(record["seq"]), "--as-test", "--name", "pushes")
    assert case.out == '- {"name":"pushes","bash":"git push origin x","expect":"deny","by":"no-push"}\n'
    command = place.run("events", "save", record["id"][:12]).out
    assert command.startswith("billhook fire --event ")
    again = place.run("fire", "--from", str(record["seq"]), "--json").verdict
    assert (again["decision"], again["reason"]) == ("deny", "no pushes")
    env = place.env(PATH=f"{Path(PROGRAM).parent}:{os.environ['PATH']}")
    fired = subprocess.run(command, shell=True, env=env, cwd=place.project, capture_output=True, check=False)
    assert fired.returncode == 1


@pytest.mark.parametrize(
    ("command", "saved"),
    [
        ("cat {project}/src/a.py > {project}/b", "cat src/a.py > b"),
        ("cd {project} && ls '{project}/'", "cd . && ls '.'"),
        ("rm {project}/-rf", "rm ./-rf"),
        ("rm -rf {home}/notes", "rm -rf ~/notes"),
        ("git -C {project}-old status", "git -C {project}-old status"),
        ("rm -rf '{home}/notes'", "rm -rf '{home}/notes'"),  # a shell does not expand `~` in quotes
    ],
)
def test_saved_paths_are_valid_elsewhere(place: Place, command: str, saved: str) -> None:
    """Those below the project are relative, HOME is `~`; but only if hooks judge the test the same."""
    folders = {"project": place.project, "home": place.home}
    answer(place, command.format(**folders))
    case = json.loads(place.run("events", "save", "1", "--as-test", "--json").out)

    assert case["bash"] == saved.format(**folders)


def test_saved_paths_in_other_fields(place: Place) -> None:
    """Also in a folder below the project: tests run in the project's folder."""
    (place.project / ".git").mkdir()
    (place.project / "web").mkdir()
    path = str(place.project / "web" / "a.py")
    given: dict[str, Any] = {
        "tool_name": "Write",
        "tool_input": {"file_path": path, "content": "b"},
        "cwd": str(place.project / "web"),
    }
    answer(place, **given)
    answer(place, **{**given, "tool_name": "Read"})
    write, read = (json.loads(place.run("events", "save", number, "--as-test", "--json").out) for number in ("1", "2"))

    assert write["event"]["tool_input"] == {"file_path": "web/a.py", "content": "b"}
    assert read["read"] == "web/a.py"


def test_a_rule_about_an_absolute_path_keeps_it(place: Place) -> None:
    place.own(f"hooks:\n  here: {{events: PreToolUse, if: 'Bash(ls {place.project}/*)', deny: no}}\n")
    answer(place, f"ls {place.project}/a")

    assert str(place.project) in place.run("events", "save", "1", "--as-test").out


def test_save_into_a_file(place: Place) -> None:
    answer(place)
    file = place.home / ".config" / "billhook" / "hooks.yaml"
    assert place.run("events", "save", "1", "--to", str(file)).code == 0
    assert file.read_text() == DENY + '\ntests:\n  - {"bash":"git push origin x","expect":"deny","by":"no-push"}\n'
    assert place.run("check").code == 0


def test_save_reports_that_secrets_are_gone(place: Place) -> None:
    answer(place, "curl -H 'Authorization: Bearer ghp_abcdefghijklmnopqrstuvwxyz0123456789' x")
    saved = place.run("events", "save", "1")
    assert "ghp_" not in saved.out and "hooks decide the same without them" in saved.err


def test_save_reports_that_a_secret_decided(place: Place) -> None:
    place.own("hooks:\n  leak: {events: PreToolUse, when: {has_secret: true}, deny: a secret}\n")
    answer(place, "echo ghp_abcdefghijklmnopqrstuvwxyz0123456789")
    saved = place.run("events", "save", "1", "--as-test")
    assert "hooks decide none without them, not deny" in saved.err, saved


def test_explain_in_a_pause(place: Place) -> None:
    assert place.typing("pause", "10m", answers=[]).code == 0
    shown = place.run("explain", PUSH).out
    assert "verdict without the pause: deny, by no-push" in shown and "\nverdict: deny" not in shown


@pytest.mark.parametrize("words", [("events", "save", "99"), ("fire", "--from", "99")])
def test_no_such_record(place: Place, words: tuple[str, ...]) -> None:
    ended = place.run(*words)
    assert ended.code == 2 and "hint:" in ended.err


def test_other_events_are_whole_in_a_case(place: Place) -> None:
    answer(place, hook_event_name="PreToolUse", tool_name="Write", tool_input={"file_path": "a", "content": "b"})
    case = json.loads(place.run("events", "save", "1", "--as-test", "--json").out)
    assert case["event"]["tool_input"] == {"file_path": "a", "content": "b"} and case["expect"] == "none"
    assert "session_id" not in case["event"]


@pytest.mark.parametrize("command", ["echo x > {}", "cp a {}", "mv a {}", "ln -s /tmp/a {}"])
def test_an_agent_can_not_write_a_pause(place: Place, command: str) -> None:
    """The file is denied like billhook's state; a configuration file would be an ask."""
    file = place.home / ".config" / "billhook" / "paused.json"
    shell = json.dumps({"command": command.format(file)})
    written = json.dumps({"file_path": str(file), "content": "x"})
    for tool, given in (("Bash", shell), ("Write", written)):
        done = place.run("fire", "PreToolUse", "--tool", tool, "--input", given, "--json")
        assert (done.verdict["decision"], done.verdict["outcomes"][-1]["hook"]) == ("deny", "guard"), done
