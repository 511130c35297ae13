"""What the user is told inside the agent: once in a session, in the agent's own words, where those can carry it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from answering.agents import GOLDEN, Agent, golden, reported
from billhook.agents import AGENTS
from billhook.agents.base import CAPABILITIES
from billhook.config import load_config
from billhook.config.notices import acknowledge, missing
from billhook.config.trust import approve_entry
from billhook.core import client_env
from billhook.core.client_env import Caller
from cli.place import Place

THEIRS = "hooks:\n  lint: {events: PostToolUse, run: 'true'}\n  never: {events: PreToolUse, deny: not here}\n"
GATE = "hooks:\n  no-push: {events: PreToolUse, if: Bash(git push *), deny: ask a person}\n"
BROKEN = "hooks:\n  it: {events: EVENT, run: 'echo no jq >&2; exit 7'}\n"
PENDING = (
    "billhook: 2 hooks in .billhook/hooks.yaml are not approved and did not run: lint, never."
    " Review them: billhook trust"
)
OPEN = "billhook: hook `it` failed and was ignored: exit code 7: no jq. Details: billhook events --failed"
FIELDS: dict[str, dict[str, Any]] = {
    "PreToolUse": {"tool_name": "Bash", "tool_input": {"command": "ls"}},
    "PostToolUse": {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": {"stdout": "x"}},
    "SessionStart": {"source": "startup"},
    "UserPromptSubmit": {"prompt": "go"},
    "SessionEnd": {"reason": "exit"},
    "PreCompact": {"trigger": "manual"},
    "Stop": {"stop_hook_active": False},
}


def event(name: str, session: str = "s", **more: Any) -> dict[str, Any]:
    return {"hook_event_name": name, "session_id": session, "transcript_path": "", "cwd": "", **FIELDS[name], **more}


@pytest.fixture
def theirs(agent: Agent) -> Agent:
    """A clone with unapproved hooks."""
    folder = agent.project / ".billhook"
    folder.mkdir()
    (folder / "hooks.yaml").write_text(THEIRS)
    return agent


def messages(agent: Agent, *payloads: dict[str, Any], argv: tuple[str, ...] = ()) -> list[str]:
    return [str(reported(agent.ask(payload, *argv)).get("systemMessage", "")) for payload in payloads]


def approve(agent: Agent, how: str = "from a terminal") -> None:
    config = load_config(agent.project, home=agent.root, builtins=False)
    for entry in config.pending:
        approve_entry(entry, agent.root, how)


def test_problems_in_a_file(agent: Agent) -> None:
    """A hook that can't be used is reported."""
    agent.hooks("hooks:\n  it: {events: Stop, runn: 'true'}\n")
    [told, again] = messages(agent, event("Stop"), event("Stop"))
    assert "in the configuration: ~/.config/billhook/hooks.yaml:2: " in told and again == ""


def test_a_gate_is_remembered_when_it_is_approved(tmp_path: Path) -> None:
    """Also when no event came since."""
    place = Place(tmp_path)
    file = place.file(".billhook/hooks.yaml", GATE)
    place.alone("trust", "--all", "--yes")
    file.unlink()
    assert "no longer in force: no-push" in " ".join(place.run().out.split())


def test_every_agent_has_rows() -> None:
    assert set(CAPABILITIES) == set(AGENTS)


def test_pending_hooks_once_in_a_session(theirs: Agent) -> None:
    """At the first event of each session, and in no answer after it."""
    reported = messages(theirs, event("SessionStart"), event("PreToolUse"), event("Stop"), event("PreToolUse", "other"))
    assert reported == [PENDING, "", "", PENDING]


def test_the_first_event_that_can_carry_it(theirs: Agent) -> None:
    """Claude Code shows nothing on PreCompact and SessionEnd."""
    reported = messages(
        theirs, event("PreCompact"), event("SessionEnd"), event("UserPromptSubmit"), event("PreToolUse")
    )
    assert reported == ["", "", PENDING, ""]


def test_a_change_is_told_again(theirs: Agent) -> None:
    """Once more when other hooks wait."""
    assert messages(theirs, event("PreToolUse")) == [PENDING]
    (theirs.project / ".billhook" / "hooks.yaml").write_text("hooks:\n  third: {events: Stop, run: 'true'}\n")
    [told] = messages(theirs, event("PreToolUse"))
    assert told.startswith("billhook: 1 hook in .billhook/hooks.yaml is not approved and did not run: third.")


def test_a_gate_that_changed(theirs: Agent) -> None:
    """It blocks, and the notice reports that."""
    approve(theirs)
    (theirs.project / ".billhook" / "hooks.yaml").write_text(THEIRS.replace("not here", "no"))
    [told] = messages(theirs, event("SessionStart"))
    assert "hooks.yaml has changed since approval and blocks what it checks: never. Review it: billhook trust" in told


@pytest.mark.parametrize("name", ["PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart", "Stop"])
def test_what_failed_open_is_told_once(agent: Agent, name: str) -> None:
    """A hook that fails at every call is told of once, and again in the next session."""
    agent.hooks(BROKEN.replace("EVENT", name))
    assert messages(agent, event(name), event(name), event(name, "other")) == [OPEN, "", OPEN]


def test_a_failure_waits_for_an_event_that_can_carry_it(agent: Agent) -> None:
    """Also in another process."""
    agent.hooks(BROKEN.replace("EVENT", "PreCompact"))
    assert messages(agent, event("PreCompact"), event("PreCompact"), event("PreToolUse")) == ["", "", OPEN]


def test_secrets_of_a_failure_are_not_shown(agent: Agent) -> None:
    secret = "ghp_" + "a1B2" * 9
    agent.hooks(f"hooks:\n  it: {{events: Stop, run: 'echo {secret} >&2; exit 1'}}\n")
    [told] = messages(agent, event("Stop"))
    assert "failed and was ignored" in told and secret not in told


@pytest.mark.parametrize("host", sorted(CAPABILITIES))
def test_in_the_words_of_each_agent(theirs: Agent, host: str) -> None:
    """An event whose row can show a message carries it; an answer without one stays empty."""
    shown_on = []
    for path in sorted((GOLDEN / host).glob("*.json")):
        sample = golden(f"{host}/{path.stem}")
        payload = json.loads(sample["stdin"]) if isinstance(sample["stdin"], str) else sample["stdin"]
        session = {key: path.stem for key in ("session_id", "sessionId", "conversation_id") if key in payload}
        payload = {**payload, **session, "cwd": str(theirs.project)}
        heard = theirs.ask(payload, f"--as={host}", *([sample["argument"]] if sample.get("argument") else []))
        shown = PENDING.encode() in heard.stdout or json.dumps(PENDING).encode()[1:-1] in heard.stdout
        row = _row(host, payload, sample.get("argument") or "")
        assert shown == row, (path.stem, heard)
        assert shown or not heard.stdout or AGENTS[host].silence, path.stem
        shown_on += [path.stem] * shown
    assert bool(shown_on) == any(row.message for row in CAPABILITIES[host].values()), shown_on


def _row(host: str, payload: dict[str, Any], argument: str) -> bool:
    from billhook.agents import dialect
    from billhook.serve.hook_server import received

    found = received(dialect(host), json.dumps(payload).encode(), {}, argument)
    spoken = dialect(host)
    row = getattr(spoken, "row", None)
    return bool(row(found).message if row else CAPABILITIES[host][found.hook_event_name].message)


@pytest.mark.parametrize("dialect", ["claw", "claw-text", "lesson", "universal"])
def test_protocols_without_a_word_for_it(theirs: Agent, dialect: str) -> None:
    """Their answer is as it was; the note is on stderr."""
    heard = theirs.ask(event("PreToolUse"), f"--as={dialect}")
    assert heard.stdout == b""
    assert any("not approved and did not run" in line for line in heard.lines)


# -- approvals


def test_an_approval_is_announced_once(theirs: Agent) -> None:
    """In a session that runs, with how it came about; and in the next one while it is recent."""
    assert messages(theirs, event("SessionStart")) == [PENDING]
    approve(theirs)
    told = "billhook: 2 hooks were approved just now from a terminal: lint, never. Not you? billhook trust --list"
    [first] = messages(theirs, event("Stop"))
    assert sorted(first) == sorted(told)  # the names in any order
    assert messages(theirs, event("Stop")) == [""]
    assert len(messages(theirs, event("Stop", "other"))[0]) == len(told)


def test_a_hook_that_was_approved_twice_is_counted_once(theirs: Agent) -> None:
    """First as it was, then after a change."""
    approve(theirs)
    (theirs.project / ".billhook" / "hooks.yaml").write_text(THEIRS.replace("not here", "nowhere"))
    approve(theirs)
    [told] = messages(theirs, event("SessionStart"))
    assert "2 hooks were approved" in told and told.count("never") == 1


def test_an_approval_that_no_session_saw_is_announced_later(theirs: Agent) -> None:
    """However old; but only in one session."""
    approve(theirs, "with `billhook trust --yes`")
    for file in theirs.root.rglob("approvals/*/*.json"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    [first, again, other] = messages(theirs, event("Stop"), event("Stop"), event("Stop", "other"))
    assert "2 hooks were approved" in first and "days ago with `billhook trust --yes`" in first
    assert (again, other) == ("", "")


# -- gates that are gone


def gate(agent: Agent) -> Path:
    folder = agent.project / ".billhook"
    folder.mkdir(exist_ok=True)
    (folder / "hooks.yaml").write_text(GATE)
    approve(agent)
    return folder / "hooks.yaml"


@pytest.mark.parametrize("how", ["removed", "the folder", "emptied"])
def test_an_approved_gate_that_is_gone(agent: Agent, how: str) -> None:
    """Removed, or another branch was checked out: told in every session until it is acknowledged."""
    file = gate(agent)
    messages(agent, event("Stop"))
    if how == "emptied":
        file.write_text("hooks: {}\n")
    else:
        file.unlink()
    if how == "the folder":
        file.parent.rmdir()
    told = (
        "billhook: 1 gate is no longer in force: no-push in .billhook/hooks.yaml (removed or not on this branch)."
        " If that is intended: billhook trust --acknowledge"
    )
    [first, again, other] = messages(agent, event("Stop"), event("Stop"), event("Stop", "other"))
    assert (first, again, other.splitlines()[0]) == (told, "", told)
    file.parent.mkdir(exist_ok=True)
    file.write_text(GATE)
    assert told not in messages(agent, event("Stop", "third"))[0]


@pytest.mark.parametrize("variable", ["HOME", "XDG_CONFIG_HOME", "removed"])
def test_gates_of_the_user_that_are_gone(agent: Agent, variable: str, tmp_path: Path) -> None:
    """The file was removed, or another one is looked for."""
    agent.hooks(GATE)
    assert messages(agent, event("Stop")) == [""]
    if variable == "removed":
        (agent.home / ".config" / "billhook" / "hooks.yaml").unlink()
    else:
        agent.variables[variable] = str(tmp_path / "elsewhere")
    [told] = messages(agent, event("Stop"))
    why = "the file is gone" if variable == "removed" else "HOME or XDG_CONFIG_HOME has changed"
    assert "1 gate is no longer in force: no-push in " in told and f"({why})" in told


def test_another_home_has_another_state(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered in the home of the account is looked at, too."""
    monkeypatch.setattr("billhook.config.notices._account_home", lambda: str(agent.home))
    agent.variables = {"BILLHOOK_HOME": ""}
    agent.hooks(GATE)
    assert messages(agent, event("Stop")) == [""]
    agent.variables["HOME"] = str(tmp_path / "elsewhere")
    [told, again] = messages(agent, event("Stop"), event("Stop"))
    assert "1 gate is no longer in force: no-push" in told and again == ""
    with client_env.Serving(Caller(agent.env(), str(agent.project))):
        config = load_config(agent.project)
        acknowledge(config, missing(config))
        assert missing(config) == []
    assert messages(agent, event("Stop", "later")) == [""]


def test_an_edit_of_ones_own_file_is_no_news(agent: Agent) -> None:
    agent.hooks(GATE)
    messages(agent, event("Stop"))
    agent.hooks(GATE.replace("no-push", "no-pull"))
    assert messages(agent, event("Stop"), event("Stop", "other")) == ["", ""]


GUARD = "hooks:\n  guard: {events: PreToolUse, run: 'exit 0'}\n"


@pytest.mark.parametrize("layer", ["user", "project"])
def test_a_layer_without_gates_that_is_gone(agent: Agent, layer: str) -> None:
    """A guard that fails open is relied on, too."""
    folder = (agent.home / ".config" if layer == "user" else agent.project) / (".billhook", "billhook")[layer == "user"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hooks.yaml").write_text(GUARD)
    approve(agent)
    messages(agent, event("Stop"))
    (folder / "hooks.yaml").rename(folder / "away")
    [told, again] = messages(agent, event("Stop"), event("Stop"))
    assert "billhook: 1 hook is no longer in force: guard in " in told and again == ""
    with client_env.Serving(Caller(agent.env(), str(agent.project))):
        config = load_config(agent.project)
        acknowledge(config, missing(config))
        assert missing(config) == []


def test_a_hook_that_is_no_gate_may_be_removed(agent: Agent) -> None:
    """Of a project's file that is still there, only gates are reported."""
    folder = agent.project / ".billhook"
    folder.mkdir()
    (folder / "hooks.yaml").write_text(GUARD)
    approve(agent)
    messages(agent, event("Stop"))
    (folder / "hooks.yaml").write_text("hooks: {}\n")
    assert messages(agent, event("Stop")) == [""]


def test_a_gate_that_goes_twice_is_told_twice(agent: Agent) -> None:
    file = gate(agent)
    messages(agent, event("Stop"))
    told = []
    for _ in range(2):
        file.rename(file.with_name("away"))
        told += messages(agent, event("Stop"), event("Stop"))
        file.with_name("away").rename(file)
        told += messages(agent, event("Stop"))
    assert [("no-push" in one) for one in told] == [True, False, False] * 2


NAME = "b\x1b]0;title\x07\n\u202e\u200bsk_live_51H8xq2eZvKYlo2C0aBcDeFgHiJ"


@pytest.mark.parametrize("why", ["pending", "gone", "approved", "failed"])
def test_names_and_reasons_are_plain_text(agent: Agent, why: str) -> None:
    """No escape sequences, line breaks or secrets of a repository on the user's screen."""
    folder = agent.project / ".billhook"
    folder.mkdir()
    run = "printf '\\033[2J\\n\\342\\200\\256x' >&2; exit 1" if why == "failed" else "true"
    hook = {"name": NAME[-30:] if why == "failed" else NAME, "events": "Stop", "run": run, "onFailure": "allow"}
    (folder / "hooks.yaml").write_text(json.dumps({"hooks": [hook]}))
    if why != "pending":
        approve(agent)
    if why == "gone":
        messages(agent, event("Stop", "before"))
        (folder / "hooks.yaml").unlink()
    told = "\n".join(messages(agent, event("Stop")))
    assert told and all(line.startswith("billhook: ") and line.isprintable() for line in told.split("\n"))
    assert "sk_live_51H8" not in told


DAMAGED: list[Any] = [
    {"files": {"/x/y": [1, None, {"a": 2}], "/z": "text"}, "hooks": 3, "acknowledged": [1, None]},
    {"files": [1], "hooks": {"/x": None}, "acknowledged": 5},
    {"shown": [{"a": 1}, None], "waiting": [1, ["a"], [2, 3]]},
    {"shown": 5, "waiting": {}},
]


@pytest.mark.parametrize("record", DAMAGED)
def test_damaged_records(agent: Agent, record: Any) -> None:
    """They hide nothing and stop nothing."""
    agent.hooks(BROKEN.replace("EVENT", "Stop") + GATE.removeprefix("hooks:\n"))
    messages(agent, event("Stop", "before"))
    for file in (agent.root / "billhook").glob("*/*.json"):
        if file.parent.name in ("gates", "notices"):
            file.write_text(json.dumps(record))
    assert OPEN in messages(agent, event("Stop", "s"))[0]
    assert "can't show" not in messages(agent, event("Stop", "before"))[0]


@pytest.mark.parametrize("kind", ["gates", "notices", "locks"])
def test_state_that_can_not_be_used(agent: Agent, kind: str) -> None:
    """What can be told is told, and a gate still denies."""
    gate(agent)
    agent.hooks(BROKEN.replace("EVENT", "Stop"))
    messages(agent, event("Stop", "before"))
    folder = agent.root / "billhook" / kind
    folder.rename(folder.with_name("away"))
    folder.write_text("no folder")
    [told] = messages(agent, event("Stop"))
    assert OPEN in told and "1 hook was approved" in told
    push = event("PreToolUse", tool_input={"command": "git push now"})
    assert reported(agent.ask(push))["hookSpecificOutput"]["permissionDecision"] == "deny"


# -- through the programs


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_acknowledging(place: Place) -> None:
    """Bare `billhook` lists it until `trust --acknowledge`, which an agent is refused."""
    file = place.file(".billhook/hooks.yaml", GATE)
    place.alone("trust", "--all", "--yes")
    stdin = json.dumps(event("Stop")).encode()
    place.run("hook", stdin=stdin)
    file.unlink()
    assert "1 gate is no longer in force: no-push" in json.loads(place.run("hook", stdin=stdin).out)["systemMessage"]
    assert "no longer in force: no-push" in " ".join(place.run().out.split())
    assert json.loads(place.run("--json").out)["gone"][0]["gates"] == ["no-push"]
    refused = place.alone("trust", "--acknowledge", CLAUDECODE="1")
    assert refused.code == 2 and "only the user can approve hooks" in refused.err
    done = place.alone("trust", "--acknowledge")
    assert (done.code, done.out) == (0, "acknowledged no-push  .billhook/hooks.yaml\n")
    assert "no longer" not in place.run().out
    later = json.dumps(event("Stop", "later")).encode()
    assert "no longer" not in place.run("hook", stdin=later).out


def test_an_approval_is_in_the_log(place: Place) -> None:
    """What was approved, and how; likewise what was revoked."""
    place.file(".billhook/hooks.yaml", GATE)
    place.alone("trust", "--all", "--yes")
    place.alone("trust", "--revoke", "no-push")
    [log] = (place.home / ".claude" / "hooks").glob("*/hooks.jsonl")
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(one["event"], one["host"], one["input"]["action"]) for one in records] == [
        ("Trust", "trust", "approved"),
        ("Trust", "trust", "revoked"),
    ]
    [hook] = records[0]["input"]["hooks"]
    assert (hook["name"], hook["how"]) == ("no-push", "with `billhook trust --yes`")


def test_a_log_that_can_not_be_written(place: Place) -> None:
    """It is told once."""
    place.file(".claude/hooks", "in the way")
    (place.home / ".claude").mkdir()
    (place.home / ".claude" / "hooks").write_text("in the way")
    first, second = (place.run("hook", stdin=json.dumps(event("Stop")).encode()) for _ in range(2))
    assert "hook `event-logger` failed and was ignored: " in json.loads(first.out)["systemMessage"]
    assert second.out == ""


def test_hooks_that_claude_code_runs_itself(place: Place) -> None:
    """They are not billhook's to approve: neither a message nor the note that they did not run."""
    settings = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}] * 3}]}}
    place.file(".claude/settings.json", json.dumps(settings))
    ended = place.run("hook", stdin=json.dumps(event("Stop")).encode())
    assert (ended.code, ended.out) == (0, "")
    assert "not approved" not in ended.err
    assert "not approved" not in place.run("fire", "Stop").err
