"""`billhook doctor --coverage`: transcripts in the formats of three agents, compared with a log."""

import json
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from billhook.agents import AGENTS
from billhook.agents.transcripts import TranscriptCall
from billhook.cli.doctor.checks import DoctorFinding
from billhook.cli.doctor.proof import Coverage, LoggedCalls, Reasons, compared
from billhook.cli.replay import shown_call
from billhook.config import load_config
from billhook.core.events import PreToolUse
from cli.terminal import billhook
from hosts.test_doctor import Person, me

__all__ = ["me"]
SESSION = "87d4e515-fe48-40d6-ab4e-0555a236a646"


class Claude:
    """A transcript of Claude Code. Written line by line."""

    def __init__(self, me: Person, session: str = SESSION, agent: str = "") -> None:
        self.me, self.session, self.agent = me, session, agent
        slug = "".join(char if char.isalnum() and char.isascii() else "-" for char in str(me.project))
        folder = me.home / ".claude" / "projects" / slug
        self.path = folder / (f"{session}/subagents/agent-{agent}.jsonl" if agent else f"{session}.jsonl")
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def line(self, **more: Any) -> None:
        said = {"cwd": str(self.me.project), "sessionId": self.session, "isSidechain": bool(self.agent), **more}
        if self.agent:
            said["agentId"] = self.agent
        with self.path.open("a") as file:
            file.write(json.dumps(said) + "\n")

    def call(self, id_: str, tool: str, when: str, result: str | None = "done", **input_: Any) -> None:
        use = {"type": "tool_use", "id": id_, "name": tool, "input": input_}
        self.line(type="assistant", timestamp=when, message={"role": "assistant", "content": [use]})
        if result is not None:
            block = {"type": "tool_result", "tool_use_id": id_, "content": result}
            self.line(type="user", timestamp=when, message={"role": "user", "content": [block]})


def codex_rollout(me: Person, *items: dict[str, Any], thread: str = "t1", parent: str | None = None) -> Path:
    """A transcript of Codex with these response items."""
    path = me.home / ".codex" / "sessions" / "2026" / "11" / "16" / f"rollout-2026-11-16T09-01-45-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = {"session_id": parent or thread, "id": thread, "parent_thread_id": parent, "cwd": str(me.project)}
    lines: list[dict[str, Any]] = [{"type": "session_meta", "payload": meta}]
    lines += [{"timestamp": "2026-11-16T09:01:46.347Z", "type": "response_item", "payload": item} for item in items]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def function_call(id_: str, name: str, arguments: object) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": id_, "name": name, "arguments": json.dumps(arguments)}


def output(id_: str, text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id_, "output": text}


def judge(me: Person, id_: str, *, host: str = "claude", session: str = SESSION, event: str = "PreToolUse") -> str:
    """Let billhook judge a call; returns the time before it."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    payload = {"hook_event_name": event, "session_id": session, "cwd": str(me.project), "tool_name": "Bash"}
    payload |= {"tool_input": {"command": "true"}, "tool_use_id": id_}  # type: ignore[dict-item]
    ended = billhook("hook", "--as", host, stdin=json.dumps(payload).encode(), env=me.env(), cwd=me.project)
    assert ended.code == 0, ended
    return now


def looked(me: Person, host: str, monkeypatch: pytest.MonkeyPatch, since: str = "") -> Coverage:
    """The comparison of the verb, in this process."""
    monkeypatch.setenv("HOME", str(me.home))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "BILLHOOK_HOME"):
        monkeypatch.delenv(name, raising=False)
    root = me.home / ".claude"

    seen = LoggedCalls(root, AGENTS[host])
    reasons = Reasons(host=AGENTS[host], seen=seen, findings=[], events=["PreToolUse"], logged=True)
    return compared(str(me.project), reasons, since)


def counts(found: Coverage, names: str) -> list[int]:
    return [found.counts[name] for name in names.split()]


def test_claude(me: Person) -> None:
    """Judged, never seen, in a subagent, refused by the agent, stopped: each call is counted once, in its row."""
    early = "2020-01-01T00:00:00.000Z"
    transcript = Claude(me)
    transcript.line(type="queue-operation", timestamp=early)
    transcript.call("toolu_0", "Bash", early, command="curl -H 'Authorization: Bearer sk-ant-api03-abcdefghijklmnop'")
    now = judge(me, "toolu_1")
    transcript.call("toolu_1", "Bash", now, command="true")
    transcript.call("toolu_1", "Bash", now, command="true")  # a resumed session repeats earlier calls
    transcript.call("toolu_2", "NoSuch", now, "<tool_use_error>Error: No such tool available: NoSuch</tool_use_error>")
    judge(me, "toolu_9", event="PostToolUse")
    transcript.call("toolu_9", "Bash", now, command="seen late")
    Claude(me, agent="a8a0").call("toolu_3", "Write", "2099-01-01T00:00:00.000Z", file_path="/x/f.txt", content="y")
    with transcript.path.open("a") as file:
        file.write('{"type": "assistant", "message": {"content": [{"type": "tool_use", "id"\n')
    ended = me.doctor("claude", "--coverage")
    assert ended.screen.replace(str(now)[:10], "<today>") == snapshot("""\
Claude Code: transcripts compared with the event log
  2 transcripts, 1 session with tool calls, 0.0 MB

        5  tool calls
        1  judged before they ran
        1  seen only after they ran
        1  never ran: the agent refused them (unknown tool or invalid input)
        2  not seen by any hook
  1 line could not be read

Not seen, by the likely reason
       1  before Claude Code first called billhook here
    2020-01-01 00:00:00  Bash: curl -H 'Authorization: Bearer [redacted 29 ch...
       1  in a subagent that never called billhook
    2099-01-01 00:00:00  Write: /x/f.txt
-- exit 1
""")
    found = me.doctor("--coverage", "--json")
    (agent,) = [one for one in found.verdict["agents"] if one["agent"] == "claude"]
    assert (found.code, agent["calls"], agent["judged"], agent["unseen"], agent["unread_lines"]) == (1, 5, 1, 2, 1)
    assert "sk-ant-api03-abcdefghijklmnop" not in found.out
    since = me.doctor("claude", "--coverage", "--since", "2020-06-01", "--json").verdict["agents"][0]
    assert (since["calls"], since["unseen"]) == (4, 1)


def test_codex(me: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions, free-form tools and the old shell call; calls for which Codex runs no hooks; threads of subagents."""
    judge(me, "call_1", host="codex", session="t1")
    codex_rollout(
        me,
        function_call("call_1", "exec_command", {"cmd": "echo one"}),
        output("call_1", "Process exited with code 0"),
        {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Success"},
        {"type": "local_shell_call", "call_id": "call_3", "action": {"type": "exec", "command": ["ls", "-l"]}},
        output("call_3", "total 0"),
        function_call("call_4", "write_stdin", {"session_id": 1, "chars": "x"}),
        output("call_4", "x"),
        function_call("call_5", "no_such_tool", {}),
        output("call_5", "unsupported call: no_such_tool"),
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "words"}},
        function_call("call_6", "exec_command", {"cmd": "sleep 9"}),
        output("call_6", "Wall time: 0.1 seconds\naborted by user"),
    )
    codex_rollout(
        me,
        function_call("call_7", "exec_command", {"cmd": "echo inner"}),
        output("call_7", "Process exited with code 0"),
        thread="t2",
        parent="t1",
    )
    found = looked(me, "codex", monkeypatch)
    assert counts(found, "calls judged not_run unseen") == [8, 1, 1, 6]
    assert sorted((record.tool, shown_call(record)) for record, _ in found.unseen) == [
        ("Bash", "echo inner"),
        ("Bash", "ls -l"),
        ("Bash", "sleep 9"),
        ("apply_patch", "*** Begin Patch"),
        ("web_search", "words"),
        ("write_stdin", '{"session_id":1,"chars":"x"}'),
    ]
    assert "Codex runs no hooks for write_stdin" in found.reasons
    assert "it runs on the model provider's servers, where no hook runs" in found.reasons


# Gemini CLI: its events have no ids of calls.


def gemini_chat(me: Person, *calls: dict[str, Any]) -> None:
    """A session of Gemini CLI with these calls."""
    folder = me.home / ".gemini" / "tmp" / "project"
    path = folder / "chats" / "session-2026-11-18T14-11-f40cbed7.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    (folder / ".project_root").write_text(str(me.project))
    lines = [{"sessionId": SESSION, "kind": "main"}, {"type": "gemini", "toolCalls": list(calls)}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def gemini_call(id_: str, when: str, name: str = "run_shell_command", **given: Any) -> dict[str, Any]:
    return {"id": id_, "name": name, "args": given, "status": "success", "timestamp": when, "result": []}


def before_tool(me: Person, event: str = "BeforeTool", name: str = "run_shell_command", **given: Any) -> None:
    """Let billhook judge a call of Gemini CLI."""
    payload = {"hook_event_name": event, "session_id": SESSION, "cwd": str(me.project), "timestamp": "2026-11-18"}
    sent = json.dumps({**payload, "tool_name": name, "tool_input": given, "tool_response": {}}).encode()
    ended = billhook("hook", "--as", "gemini", stdin=sent, env=me.env(), cwd=me.project)
    assert ended.code == 0, ended


def test_gemini(me: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are found by session, tool and input: each record counts for one of two equal calls, whatever its time."""
    own = me.home / ".config" / "billhook" / "hooks.yaml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("hooks: {pnpm: {events: PreToolUse, if: Bash(npm *), rewrite: {command: {npm: pnpm}}}}\n")
    secret = "curl -H 'Authorization: Bearer sk-ant-api03-abcdefghijklmnop' x"
    for command in ("true", "npm ci", secret):
        before_tool(me, command=command)
        before_tool(me, "AfterTool", command=command)
    before_tool(me, "AfterTool", "write_file", file_path="a", content="b")
    now = "2099-01-01T00:00:00.000Z"
    gemini_chat(
        me,
        gemini_call("c0", now, command="ls"),
        gemini_call("c1", now, command="true"),
        gemini_call("c2", now, command="true"),
        gemini_call("c3", now, command="pnpm ci"),  # as a hook rewrote it
        gemini_call("c4", now, command=secret),
        gemini_call("c5", now, "write_file", file_path="a", content="b"),
    )
    found = looked(me, "gemini", monkeypatch)

    assert counts(found, "calls judged afterwards unseen") == [6, 3, 1, 2], found
    assert [shown_call(record) for record, _ in found.unseen] == ["ls", "true"]


def test_gemini_without_hooks(me: Person) -> None:
    gemini_chat(me, gemini_call("c0", "2026-11-18T14:11:00.000Z", command="ls"))
    ended = me.doctor("gemini", "--coverage")

    assert ended.code == 1 and "no event of Gemini CLI was ever logged here" in " ".join(ended.out.split()), ended


def test_pi(me: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that pi does not know never ran; a line in another form is skipped."""
    now = judge(me, "c1", host="pi")
    message = {
        "role": "assistant",
        "content": [pi_call("c1", "bash", command="true"), pi_call("c2", "bash", command="ls")],
    }
    unknown = {"role": "assistant", "content": [pi_call("c3", "NoSuch"), {"type": "text", "text": "toolCall"}]}
    refused = {"role": "toolResult", "toolCallId": "c3", "content": [{"type": "text", "text": "Tool NoSuch not found"}]}
    lines: list[dict[str, Any]] = [
        {"type": "session", "id": SESSION, "cwd": str(me.project)},
        {"type": "message", "message": "toolCall"},
    ]
    lines += [{"type": "message", "timestamp": now, "message": one} for one in (message, unknown, refused)]
    lines += [{"message": {"role": "toolResult", "toolCallId": id_, "content": []}} for id_ in ("c1", "c2")]
    path = me.home / ".pi" / "agent" / "sessions" / "--project--" / "one.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = looked(me, "pi", monkeypatch)
    assert counts(found, "calls judged not_run unseen unread") == [3, 1, 1, 1, 1], found


def pi_call(id_: str, name: str, **given: str) -> dict[str, Any]:
    return {"type": "toolCall", "id": id_, "name": name, "arguments": given}


def test_other_projects_are_left_out(me: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of other projects don't count, even if Claude Code uses the same folder name for both."""
    (me.project / "inner").mkdir()
    for number, folder in enumerate((me.project, me.project / "inner", me.folder)):
        transcript = Claude(me, f"s{number}")
        transcript.line(type="user", cwd=str(folder))
        transcript.call(f"toolu_{number}", "Bash", "2026-01-01T00:00:00.000Z", command="true")
    assert [record.session_id for record, _ in looked(me, "claude", monkeypatch).unseen] == ["s0", "s1"]


def test_ids_that_come_again(me: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model may use the same ids in every session: a judged call in one proves nothing about another. A forked
    session repeats its calls: they are counted once."""
    now = judge(me, "call_0", session="s1")
    for session, when in (("s0", now), ("s1", now), ("s2", "2026-01-01T00:00:00.000Z")):
        Claude(me, session).call("call_0", "Bash", when, command="true")
    found = looked(me, "claude", monkeypatch)
    assert counts(found, "calls judged") == [2, 1]
    assert [record.session_id for record, _ in found.unseen] == ["s2"]


def test_a_program_that_runs_the_agent(me: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of the Claude Agent SDK are in Claude Code's transcripts, and in the log under the SDK's name."""
    event = PreToolUse(session_id=SESSION, cwd=str(me.project), tool_name="Bash", tool_input={}, tool_use_id="toolu_1")
    engine = load_config(me.project, home=me.home / ".claude").engine(host="claude-agent-sdk")
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    engine.fire_sync(event)
    Claude(me).call("toolu_1", "Bash", now, command="true")
    found = looked(me, "claude", monkeypatch)
    assert counts(found, "calls judged") == [1, 1]


def test_lines_that_only_quote_calls(me: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress, attachments and pasted text may quote calls. They are not counted as calls, nor as unreadable."""
    claude = Claude(me)
    claude.call("toolu_1", "Bash", "2026-11-16T09:00:00.000Z", command="ls")
    use = {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {}}
    claude.line(type="progress", timestamp="2026-11-16T09:00:01.000Z", message={"content": [use]})
    claude.line(type="user", timestamp="2026-11-16T09:00:02.000Z", message={"content": [use]})
    claude.line(type="system", timestamp="2026-11-16T09:00:03.000Z", message='a "tool_use" in text', word="tool_use")
    found = looked(me, "claude", monkeypatch)
    assert counts(found, "calls unread") == [1, 0]


def test_a_call_that_is_being_made(me: Person) -> None:
    """A call without a result in a transcript that was just written is in progress."""
    Claude(me).call("toolu_1", "Bash", "2026-01-01T00:00:00.000Z", None, command="true")
    found = me.doctor("claude", "--coverage", "--json").verdict["agents"][0]
    assert (found["open"], found["unseen"], found["ok"]) == (1, 0, True)


BEFORE, AFTER = "2026-11-16T08:00:00.000Z", "2026-11-16T10:00:00.000Z"
SWITCHED = DoctorFinding("fail", "trust", "a file switches all hooks off", "change it")


@pytest.mark.parametrize(
    ("call", "findings", "logged", "words"),
    [
        pytest.param({"elsewhere": True}, [], True, "on the model provider's servers", id="service"),
        pytest.param({}, [], False, "the event log is disabled", id="no log"),
        pytest.param({"time": BEFORE}, [], True, "before Claude Code first called billhook", id="before"),
        pytest.param(
            {"session": "s9"}, [], True, "that session never called billhook: it began before", id="whole session"
        ),
        pytest.param({"session": "s9"}, [SWITCHED], True, "now: a file switches all hooks off", id="switched off"),
        pytest.param({"session": "s2"}, [], True, "PreToolUse is not among the installed events", id="event"),
        pytest.param({"agent": "a1"}, [], True, "in a subagent that never called billhook", id="subagent"),
        pytest.param({}, [], True, "this one was stopped, or its hook failed to run", id="one of many"),
    ],
)
def test_likely_reasons(call: dict[str, Any], findings: list[DoctorFinding], logged: bool, words: str) -> None:
    """Each reason, with the log and the settings that suggest it."""
    seen = LoggedCalls(Path("/nowhere"), AGENTS["claude"])
    seen.first, seen.asking, seen.sessions = "2026-11-16T09:00:00.000000Z", {"s1"}, {"s1", "s2"}
    one = TranscriptCall(**{"id": "t", "tool": "Bash", "time": AFTER, "session": "s1", **call})
    reasons = Reasons(host=AGENTS["claude"], seen=seen, findings=findings, events=["Stop"], logged=logged)
    assert words in reasons.why(one)


def test_hostile_transcripts(me: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invalid bytes, values of other types, an endless line, a pipe, a link: counted, never fatal."""
    transcript = Claude(me)
    transcript.call("toolu_1", "Bash", "2026-01-01T00:00:00.000Z", command="true")
    with transcript.path.open("ab") as file:
        file.write(b'\xff\xfe"tool_use"\n[]"tool_use"\n{"message":{"content":7},"x":"tool_use"}\n')
        file.write(b'{"message":{"content":"tool_use \\"tool_use\\""}}\n"tool_use"')
    (transcript.path.parent / "link.jsonl").symlink_to(transcript.path)
    os.mkdir(transcript.path.parent / "folder.jsonl")
    found = looked(me, "claude", monkeypatch)
    assert counts(found, "calls unseen") == [1, 1] and found.counts["unread"] >= 3


@pytest.mark.slow
def test_a_hundred_megabytes(
    me: Person, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """Large transcripts are read quickly, and memory does not grow with them."""
    transcript = Claude(me)
    big = "x" * 100_000
    for number in range(1000):
        transcript.call(f"toolu_{number}", "Bash", "2026-01-01T00:00:00.000Z", big, command="true")
    assert transcript.path.stat().st_size > 100_000_000
    tracemalloc.start()
    began = time.monotonic()
    found = looked(me, "claude", monkeypatch)
    took, (_, peak) = time.monotonic() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    record_property("measured", f"coverage of 100 MB: {took:.1f} s, {peak / 1e6:.1f} MB at most")
    assert found.counts["unseen"] == 1000
    assert took < 20 and peak < 16e6, (took, peak)
