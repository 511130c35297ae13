"""`billhook agent` without a terminal: one prompt, its answer, its exit code, and the progress on stderr."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agent.model_server import ModelServer, Refuse, Say, use
from billhook.agent.conversation import Usage
from billhook.agent.ui_events import MessageShown, TextDelta
from billhook.agent.ui_events import TurnEnded as HowEnded
from billhook.agents.around import agent_of
from billhook.cli.agent.terminal import Screen
from cli.chatting import conversation, events, names, transcripts
from cli.place import Place
from cli.terminal import PROGRAM, Ended, gone, living

SAYS = "- text: All done.\n"
LISTS = "- text: I'll look.\n  tool: {name: Bash, input: {command: echo one; echo two}}\n- text: Two lines.\n"
BASH = "- tool: {name: Bash, input: {command: touch made}}\n- text: All done.\n"
FREELY = ("--permission-mode", "bypassPermissions")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def agent(place: Place, script: str, *arguments: str, prompt: str = "go", **options: Any) -> Ended:
    """One prompt with a scripted model."""
    place.file("turns.yaml", script)
    return place.run("agent", "--model", "scripted:turns.yaml", "-p", prompt, *arguments, **options)


# -- output streams


def test_the_answer_alone_is_on_stdout(place: Place) -> None:
    """Progress goes to standard error, so that the answer can go into a file."""
    ended = agent(place, LISTS, *FREELY)
    assert (ended.code, ended.out) == (0, "Two lines.\n")
    assert re.search(
        r"^[a-z]+-[a-z]+  scripted:turns.yaml, .*project, 0 hooks, mode bypassPermissions$", ended.err, re.M
    )
    assert "I'll look.\nBash  echo one; echo two\n    one\n    two\n" in ended.err


def test_the_answer_is_not_changed_in_a_file(place: Place) -> None:
    """Only text for a screen is escaped."""
    script = '- text: "way \\e[31mred"\n  tool: {name: Bash, input: {command: "printf \'\\\\033[2J\'"}}\n'
    ended = agent(place, script + '- text: "an answer \\e[31mred\\nü"\n', *FREELY)
    assert ended.out == "an answer \x1b[31mred\nü\n"
    assert "way \\x1b[31mred" in ended.err and "\\x1b[2J" in ended.err
    assert "\x1b" not in ended.err


@pytest.mark.parametrize(
    "stdin", [b"what is here?\n", "größe\n".encode(), b"\xff what"], ids=["plain", "utf-8", "bytes"]
)
def test_stdin_is_the_prompt(place: Place, stdin: bytes) -> None:
    """Without -p, and without a terminal, all of standard input is the prompt."""
    place.file("turns.yaml", SAYS)
    ended = place.run("agent", "--model", "scripted:turns.yaml", stdin=stdin)
    assert (ended.code, ended.out) == (0, "All done.\n")
    (transcript,) = transcripts(place)
    said = conversation(transcript)[0]["content"][0]["text"]
    assert said == stdin.decode("utf-8", "replace").strip()


def test_json_has_a_typed_event_a_line(place: Place) -> None:
    """In order; the last line has the result."""
    ended = agent(place, LISTS, *FREELY, "--json")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    types = [line["type"] for line in lines if not line["type"].startswith(("hook_", "text_"))]
    assert types == [
        *("verdict", "session_started", "prompt", "verdict", "message", "tool_call", "verdict", "verdict"),
        *("tool_result", "verdict", "message", "verdict", "verdict", "ended"),
    ]
    assert {line["type"] for line in lines} >= {"hook_started", "hook_finished", "text_delta"}
    verdicts = [line["verdict"]["event"] for line in lines if line["type"] == "verdict"]
    assert verdicts == [
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch", "Stop", "SessionEnd")
    ]
    assert lines[-1] | {"usage": 0} == {"type": "ended", "how": "done", "text": "Two lines.", "usage": 0}
    assert ended.err == ""


def test_json_has_what_each_hook_did(place: Place) -> None:
    """Hook, action, reason and duration, beside the verdict."""
    place.own("hooks:\n  guard:\n    events: PreToolUse\n    deny: not today\n")
    lines = [json.loads(line) for line in agent(place, LISTS, "--json").out.splitlines()]
    (denied,) = [line for line in lines if line["type"] == "verdict" and line["verdict"]["decision"] == "deny"]
    (deed,) = denied["deeds"]
    assert (deed["hook"], deed["did"], deed["text"]) == ("guard", "denied", "not today")
    assert deed["duration_ms"] >= 0 and denied["tool_use_id"] == "toolu_0001"


def test_a_closed_pipe(place: Place) -> None:
    """A closed pipe is not an error: the run continues to its end, silently."""
    place.file("turns.yaml", LISTS)
    command = f"{PROGRAM} agent -p go --model scripted:turns.yaml --json | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=place.project, env=place.env(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert names(place)[-1] == "SessionEnd"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_an_answer_that_cant_be_written_is_a_failure(place: Place, form: tuple[str, ...]) -> None:
    """The run continues to its end, and the exit code shows that its answer is lost."""
    place.file("turns.yaml", LISTS)
    command = [PROGRAM, "agent", "-p", "go", "--model", "scripted:turns.yaml", *FREELY, *form]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command, cwd=place.project, env=place.env(), stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2 and b"can't write the output: No space left" in done.stderr
    assert names(place)[-1] == "SessionEnd"


# -- hooks inline


REWRITES = (
    """run: 'echo "{\\"hookSpecificOutput\\": {\\"hookEventName\\": \\"PreToolUse\\", """
    """\\"updatedInput\\": {\\"command\\": \\"echo three\\"}}}"'"""
)
ANSWERS = {
    "denied": ("deny: never", r"    denied by mine \([\d.]+ ms\): never\n"),
    "asked": ("ask: sure?", r"    asked by mine \([\d.]+ ms\): sure\?\n"),
    "allowed": ("allow: fine", r"    allowed by mine \([\d.]+ ms\): fine\n    one\n"),
    "context": ("inject: be kind", r"    context from mine \([\d.]+ ms\): be kind\n"),
    "exit 2": ("run: 'echo no >&2; exit 2'", r"    denied by mine \([\d.]+ ms\): no\n"),
    "rewritten": (REWRITES, r"    input rewritten by mine \([\d.]+ ms\): echo three\n    three\n"),
    "message": ("""run: 'echo "{\\"systemMessage\\": \\"psst\\"}"'""", r"    message from mine \([\d.]+ ms\): psst\n"),
    "stopped": (
        """run: 'echo "{\\"continue\\": false, \\"stopReason\\": \\"enough\\"}"'""",
        r"    stopped by mine \([\d.]+ ms\): enough\n(.*\n)*stopped: enough\n",
    ),
    "failed open": (
        "run: 'echo boom >&2; exit 3'",
        r"    FAILED OPEN: mine \([\d.]+ ms\), and the event continued without its answer: exit code 3: boom\n",
    ),
    "failed": (
        "run: exit 3\n    gate: true",
        r"    denied by mine \([\d.]+ ms\): hook `mine` failed: exit code 3\n(?! )",
    ),
    "missing": ("run: /no/such/program", r"    FAILED OPEN: mine \([\d.]+ ms\), .*not found.*\n"),
}


@pytest.mark.parametrize(("does", "line"), ANSWERS.values(), ids=ANSWERS)
def test_a_hooks_decision_is_shown_below_the_call(place: Place, does: str, line: str) -> None:
    """Hook, action, duration and reason."""
    place.own(f"hooks:\n  mine:\n    events: PreToolUse\n    {does}\n")
    ended = agent(place, LISTS, *FREELY)
    assert re.search(rf"^Bash  echo one; echo two\n{line}", ended.err, re.M), ended


def test_a_denied_call_is_reported_once(place: Place) -> None:
    """The reason is in the hook's line, and in the result for the model; the screen does not repeat it."""
    place.own("hooks:\n  guard:\n    events: PreToolUse\n    deny: never remove it\n")
    ended = agent(place, LISTS)
    assert ended.err.count("never remove it") == 1
    (transcript,) = transcripts(place)
    (result,) = conversation(transcript)[2]["content"]
    assert result["is_error"] and "never remove it" in result["content"]


def test_what_keeps_the_agent_going_is_shown(place: Place) -> None:
    """The model's text before that is not the answer."""
    place.own(
        "hooks:\n  again:\n    events: Stop\n    run: 'test -e been || { touch been; echo test it >&2; exit 2; }'\n"
    )
    ended = agent(place, "- text: Done.\n- text: Tested.\n")
    assert ended.out == "Tested.\n"
    assert re.search(r"^Done\.\n    Stop: more work requested by again \([\d.]+ ms\): test it\n", ended.err, re.M)


def test_a_hook_that_keeps_going_is_named_each_time(place: Place) -> None:
    """The ninth request is not granted, and no line claims that it was."""
    place.own("hooks:\n  again:\n    events: Stop\n    run: 'echo test it >&2; exit 2'\n")
    ended = agent(place, "- text: Done.\n")
    assert ended.err.count("Stop: more work requested by again") == 9 and "kept going by" not in ended.err
    assert "note: `again` kept the agent going 8 times in a row; it stops now" in ended.err


def test_a_blocked_prompt_has_its_reason_once(place: Place) -> None:
    """The hook's line has the reason."""
    place.own("hooks:\n  no:\n    events: UserPromptSubmit\n    deny: not that\n")
    assert agent(place, SAYS).err.count("not that") == 1


def test_a_teammate_has_one_name(place: Place) -> None:
    """Hooks get its type, the user gave it a name: every line on the screen has the name."""
    place.own("hooks:\n  kind:\n    events: [SubagentStart, SubagentStop, TaskCompleted]\n    inject: be kind\n")
    task = "{description: help, prompt: help, name: bob, subagent_type: tester}"
    ended = agent(
        place, f"turns: [{{tool: Task, input: {task}}}, {{text: done}}]\nagents: {{bob: [{{text: I did.}}]}}\n"
    )
    assert ended.err.count("    bob: SubagentStart: context from kind") == 1
    assert "tester" not in ended.err, ended.err


@pytest.mark.parametrize("text", ["''", "' '"], ids=["nothing", "blank"])
def test_an_empty_answer(place: Place, text: str) -> None:
    """A note on standard error; standard output stays empty."""
    ended = agent(place, f"- text: {text}\n")
    assert (ended.code, ended.out) == (0, "") and ended.err.endswith("\n(no answer)\n")


def test_a_slow_hook_is_named(place: Place) -> None:
    """Once, after half a second, and then its end."""
    place.own(
        "hooks:\n  scan:\n    events: PreToolUse\n    run: sleep 0.8\n  quick:\n    events: Stop\n    run: 'true'\n"
    )
    ended = agent(place, LISTS, *FREELY)
    steady = re.sub(r"after [\d.]+ s", "after N s", ended.err)
    assert re.findall(r"^    hook .*", steady, re.M) == [
        "    hook `scan` is still running (0.5 s) on PreToolUse; its timeout is 600 s ...",
        "    hook `scan` finished after N s",
    ]


def test_the_time_of_a_slow_hook_is_rounded(place: Place) -> None:
    """SessionEnd has five seconds in all, and some of them have passed."""
    place.own("hooks:\n  last:\n    events: SessionEnd\n    run: sleep 0.7\n    timeout: 60\n")
    assert "is still running (0.5 s) on SessionEnd; its timeout is 5 s ..." in agent(place, SAYS).err


def test_a_slow_start_is_named_at_once(place: Place) -> None:
    """Before the session's header; and a hook that times out is reported."""
    place.own("hooks:\n  slow:\n    events: SessionStart\n    run: sleep 60\n    timeout: 0.7\n")
    lines = agent(place, SAYS).err.splitlines()
    assert lines[0].startswith("    hook `slow` is still running (0.5 s) on SessionStart")
    assert lines[1].startswith("    hook `slow` timed out after ")
    assert "FAILED OPEN" in lines[2] or "failed: slow" in lines[2]


def test_tasks_subagents_and_teammates_have_their_lines(place: Place) -> None:
    """Lines of other agents than the main one begin with their name."""
    script = """\
turns:
  - tool: {name: Task, input: {description: look, prompt: look, subagent_type: scout}}
  - tool: {name: Task, input: {description: help, prompt: help, name: bob}}
  - tool: {name: Bash, input: {command: echo behind, run_in_background: true}}
  - text: done
agents:
  scout: [{tool: Read, input: {file_path: turns.yaml}}, {text: I looked.}]
  bob: [{text: I helped.}]
"""
    ended = agent(place, script, *FREELY)
    assert ended.out == "done\n"
    for line in ("scout: Read  turns.yaml", "scout: I looked.", "bob: I helped.", "bob is idle (help)"):
        assert f"\n{line}\n" in ended.err
    for line in ("task_1 started (help)", "task_1 done (help)", "task_2 started (echo behind)", "task_2 done"):
        assert f"\n{line}" in ended.err


def test_a_small_budget_compacts(place: Place) -> None:
    """The conversation gets longer than the budget, and a line reports the compaction."""
    ended = agent(place, LISTS, *FREELY, "--context-budget", "1")
    assert re.search(r"^compacted \(auto\): Summary of ", ended.err, re.M)
    assert {"PreCompact", "PostCompact"} <= set(names(place))


@pytest.mark.parametrize("trigger", ["init", "maintenance"])
def test_setup_comes_first(place: Place, trigger: str) -> None:
    """--init and --maintenance fire Setup before SessionStart."""
    assert agent(place, SAYS, f"--{trigger}").code == 0
    first, second = events(place)[:2]
    assert (first["event"], first["input"]["trigger"], second["event"]) == ("Setup", trigger, "SessionStart")


def test_a_teammate_at_work_does_not_repeat_the_answer(place: Place) -> None:
    """An agent that waits for a teammate has already answered."""
    script = """\
turns: [{tool: Task, input: {description: help, prompt: help, name: bob}}, {text: All done.}]
agents: {bob: [{tool: Bash, input: {command: sleep 0.2}}, {tool: Bash, input: {command: 'true'}}, {text: Helped.}]}
"""
    place.own("hooks:\n  guard:\n    events: PreToolUse\n    if: Bash(true)\n    deny: not that\n")
    ended = agent(place, script, *FREELY)
    assert ended.out == "All done.\n" and "All done." not in ended.err
    assert re.search(r"^bob: Bash  true\n    bob: denied by guard \([\d.]+ ms\): not that\n", ended.err, re.M)


@pytest.mark.parametrize("streams", [True, False])
def test_a_model_need_not_stream(capfd: pytest.CaptureFixture[str], streams: bool) -> None:
    """Its text is shown once, streamed or whole."""
    screen = Screen(hooks=0, streams=True)
    for piece in ("Hel", "lo.") if streams else ():
        screen(TextDelta(piece, "main"))
    screen(MessageShown("Hello.", "main", Usage()))
    screen(HowEnded("done", "Hello."))
    assert capfd.readouterr().out == "Hello.\n"


# -- real models


def test_a_real_client(place: Place) -> None:
    """A model behind a service: a tool call, and its answer."""
    steps = Say(("I'll look.",), (use("Bash", {"command": "echo one"}),)), Say(("One ", "line."))
    with ModelServer(*steps) as server:
        told = {"ANTHROPIC_API_KEY": "test-key-0123", "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_AUTH_TOKEN": None}
        ended = place.run("agent", "-p", "go", "--model", "anthropic:some-model", *FREELY, told=told)
    assert (ended.code, ended.out) == (0, "One line.\n"), ended
    assert "anthropic:some-model" in ended.err and "I'll look.\nBash  echo one\n    one\n" in ended.err


def test_an_interrupted_answer_is_requested_again(place: Place) -> None:
    """The user is told, and only the second answer counts."""
    with ModelServer(Say(("I st",), fault="error"), Say(("All ", "done."))) as server:
        told = {"ANTHROPIC_API_KEY": "test-key-0123", "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_AUTH_TOKEN": None}
        ended = place.run("agent", "-p", "go", "--model", "anthropic:some-model", told=told)
    assert (ended.code, ended.out) == (0, "All done.\n"), ended
    assert "note: anthropic is overloaded: too much to do; the answer so far is discarded" in ended.err
    assert "StopFailure" not in names(place)


def test_a_call_that_the_model_withdrew_is_named(place: Place) -> None:
    """A model that refuses midway has called nothing, and a line reports that."""
    with ModelServer(Say(("I won't.",), (use("Bash", {"command": "touch made"}),), stop="refusal")) as server:
        told = {"ANTHROPIC_API_KEY": "test-key-0123", "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_AUTH_TOKEN": None}
        ended = place.run("agent", "-p", "go", "--model", "anthropic:some-model", *FREELY, told=told)
    assert (ended.code, ended.out) == (0, "I won't.\n")
    assert "note: anthropic declined to continue: Bash was not called" in ended.err
    assert not (place.project / "made").exists()


def test_a_service_that_refuses(place: Place) -> None:
    """Exit 1, the service's message, and StopFailure for the hooks."""
    with ModelServer(Refuse(401, "authentication_error", "no such key")) as server:
        told = {"ANTHROPIC_API_KEY": "test-key-0123", "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_AUTH_TOKEN": None}
        ended = place.run("agent", "-p", "go", "--model", "anthropic:some-model", told=told)
    assert (ended.code, ended.out) == (1, "") and "no such key" in ended.err
    (failed,) = [record for record in events(place) if record["event"] == "StopFailure"]
    assert failed["input"]["error"] == "authentication_failed"


# -- permissions


def test_without_a_terminal_permission_is_denied(place: Place) -> None:
    """What needs permission is denied, and the model is told why."""
    ended = agent(place, LISTS)
    assert "    error: Bash needs permission" in ended.err and "(no user can be asked)" in ended.err
    assert "PermissionDenied" in names(place)


def test_what_waits_for_approval_is_named_once(place: Place) -> None:
    """Hooks and allow rules of the project don't apply before the user approves them."""
    allowed = {"permissions": {"allow": ["Bash(echo *)", "Bash(ls)"]}}
    place.file(".claude/settings.json", json.dumps(allowed))
    place.file(".billhook/hooks.yaml", "hooks:\n  theirs:\n    events: Stop\n    run: 'true'\n")
    ended = agent(place, LISTS)
    assert ended.err.count("note: ") == 2
    hook = "note: 1 hook in .billhook/hooks.yaml is not approved and did not run: theirs."
    assert f"{hook} Review it: billhook trust\n" in ended.err
    waits = "note: permissions.allow of .claude/settings.json: the rules have no effect until you approve them"
    assert f"{waits} (`billhook trust`)\n" in ended.err
    assert ", 0 hooks, " in ended.err and "needs permission" in ended.err


# -- exit codes


CLOSES = """run: 'echo "{\\"continue\\": false, \\"stopReason\\": \\"closed\\"}"'"""
ENDS = {
    "done": (SAYS, "", 0, ""),
    "blocked": (
        SAYS,
        "hooks:\n  no:\n    events: UserPromptSubmit\n    deny: not that\n",
        1,
        "blocked: the model has not seen it",
    ),
    "failed": ("- error: {kind: overloaded, message: too much}\n", "", 1, "error: too much"),
    "stopped": (
        SAYS,
        f"hooks:\n  no:\n    events: SessionStart\n    {CLOSES}\n",
        1,
        "stopped: closed",
    ),
}


@pytest.mark.parametrize(("script", "hooks", "code", "line"), ENDS.values(), ids=ENDS)
def test_the_exit_code_tells_how_it_ended(place: Place, script: str, hooks: str, code: int, line: str) -> None:
    """0 done, 1 blocked, stopped or failed; the last lines have the reason, and stdout only has an answer."""
    place.own(hooks)
    ended = agent(place, script)
    assert ended.code == code, ended
    assert ended.out == ("All done.\n" if code == 0 else "")
    assert line in ended.err.splitlines()[-1]
    assert names(place)[-1] == "SessionEnd"


SLIPS = {
    "model": (("--model", "gpt-5"), "unknown model"),
    "script": (("--model", "scripted:none.yaml"), "No such file"),
    "mode": (("--permission-mode", "acceptedits"), "did you mean `acceptEdits`?"),
    "config": (("--config", "none.yaml"), "no such file"),
    "budget": (("--context-budget", "0"), "--context-budget"),
    "prompt": (("-p", " "), "the prompt is empty"),
    "session": (("--resume", "unknown"), "no session `unknown`"),
    "both triggers": (("--init", "--maintenance"), "--init and --maintenance can't be combined"),
    "no session": (("--resume", "."), "there is no session to resume here"),
}


@pytest.mark.parametrize(("slip", "message"), SLIPS.values(), ids=SLIPS)
def test_wrong_usage_ends_before_any_hook_runs(place: Place, slip: tuple[str, ...], message: str) -> None:
    """Exit 2, an error with a hint, and no effect."""
    place.own("hooks:\n  mark:\n    events: [SessionStart, SessionEnd, Setup]\n    run: touch ran\n")
    place.file("turns.yaml", SAYS)
    options = ("-p", "go", "--model", "scripted:turns.yaml", *slip)
    ended = place.run("agent", *options)
    assert ended.code == 2 and ended.err.startswith("error: ") and message in ended.err and "\nhint: " in ended.err
    assert not (place.project / "ran").exists() and transcripts(place) == []


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [("mine.yaml", "hooks:\n  guard: [\n", ":3:"), ("mine.json", '{"hooks": {\n', ":1:"), ("mine.yaml", "\0", ":1:")],
    ids=["yaml", "json", "binary"],
)
def test_an_unreadable_config_file(place: Place, name: str, text: str, where: str) -> None:
    """The agent does not run without the hooks of a file that the user named."""
    place.file(name, text)
    ended = agent(place, BASH, "--config", name, *FREELY)
    assert ended.code == 2 and re.match(rf"error: \S*{name}{where}", ended.err), ended
    assert not (place.project / "made").exists() and names(place) == []


def test_empty_stdin(place: Place) -> None:
    """Without a terminal there is no chat."""
    place.file("turns.yaml", SAYS)
    ended = place.run("agent", "--model", "scripted:turns.yaml")
    assert ended.code == 2 and "the prompt is empty" in ended.err


def test_unreadable_deny_rules_prevent_the_start(place: Place) -> None:
    """No session starts before they are fixed."""
    place.file(".claude/settings.json", '{"permissions": {"deny": [1]}}')
    ended = agent(place, SAYS)
    assert ended.code == 2 and ".claude/settings.json" in ended.err and names(place) == []


# -- resuming


@pytest.mark.parametrize("word", ["id", "begun", "name", "."])
def test_resume(place: Place, word: str) -> None:
    """By its id, its name, or `.` for the newest here: the same session, and the whole conversation."""
    first = [json.loads(line) for line in agent(place, SAYS, "--json", prompt="remember blue").out.splitlines()]
    started = next(line for line in first if line["type"] == "session_started")
    session_id = started["session_id"]
    meant = {"id": session_id, "begun": session_id[:8], "name": started["session_name"], ".": "."}[word]
    ended = agent(place, "- text: Blue.\n", "--resume", meant, prompt="which?")
    assert (ended.code, ended.out) == (0, "Blue.\n")
    assert started["session_name"] in ended.err and ended.err.splitlines()[0].endswith(", resume")
    (transcript,) = transcripts(place)
    texts = [line["content"][0]["text"] for line in conversation(transcript)]
    assert texts == ["remember blue", "All done.", "which?", "Blue."]
    sources = [record["input"]["source"] for record in events(place) if record["event"] == "SessionStart"]
    assert sources == ["startup", "resume"]


def test_an_unknown_session(place: Place) -> None:
    """The hint names the sessions that have a transcript here."""
    first = [json.loads(line) for line in agent(place, SAYS, "--json").out.splitlines()]
    name = next(line for line in first if line["type"] == "session_started")["session_name"]
    place.run("fire", "SessionStart", "--session", "of-another-agent")
    for word in ("unknown", "of-another-agent"):
        ended = agent(place, SAYS, "--resume", word)
        assert ended.code == 2, ended
        assert (
            f"error: no session `{word}` can be resumed here\n\nhint: sessions here: {name}; `.` is the newest"
            in ended.err
        )
    assert agent(place, SAYS, "--resume", ".").code == 0


def test_without_names_the_newest_transcript_is_the_newest_session(place: Place) -> None:
    """Resuming also works if the naming of sessions is disabled."""
    place.own("builtins:\n  session-naming: false\n")
    for prompt in ("first", "second"):
        assert agent(place, SAYS, prompt=prompt).code == 0
    assert agent(place, SAYS, "--resume", ".", prompt="third").code == 0
    texts = [[line["content"][0]["text"] for line in conversation(path)] for path in transcripts(place)]
    assert texts == [["first", "All done."], ["second", "All done.", "third", "All done."]]


# -- signals


def begin(place: Place, script: str, *arguments: str) -> "subprocess.Popen[bytes]":
    place.file("turns.yaml", script)
    return subprocess.Popen(
        [PROGRAM, "agent", "-p", "go", "--model", "scripted:turns.yaml", *FREELY, *arguments],
        cwd=place.project,
        env=place.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for(path: Path) -> None:
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.02)


SIGNALS = {
    "Ctrl-C in a tool": (signal.SIGINT, 130, "tool"),
    "Ctrl-C in a hook": (signal.SIGINT, 130, "PreToolUse"),
    "Ctrl-C in the first hook": (signal.SIGINT, 130, "SessionStart"),
    "TERM in a tool": (signal.SIGTERM, 143, "tool"),
    "HUP in a hook": (signal.SIGHUP, 129, "PreToolUse"),
}


@pytest.mark.parametrize(("number", "code", "where"), SIGNALS.values(), ids=SIGNALS)
def test_a_signal_ends_one_shot(place: Place, number: int, code: int, where: str) -> None:
    """The running tool or hook is killed with all its processes, every call has its result, and SessionEnd is fired."""
    tag = f"61{time.time_ns()}"
    sleeps = f"touch began; (setsid sleep {tag} &) ; sleep {tag}"
    script = f"- tool: {{name: Bash, input: {{command: '{sleeps if where == 'tool' else 'true'}'}}}}\n- text: never\n"
    if where != "tool":
        place.own(f"hooks:\n  sleeper:\n    events: {where}\n    run: {sleeps}\n")
    with begin(place, script) as process:
        wait_for(place.project / "began")
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (code, b""), err
    assert living(tag) == [] and gone(tag, 0)
    assert names(place)[-1] == "SessionEnd"
    if where != "SessionStart":
        (transcript,) = transcripts(place)
        (result,) = conversation(transcript)[2]["content"]
        assert result["is_error"] and "interrupted" in result["content"]


def test_json_ends_with_the_result_after_an_interrupt(place: Place) -> None:
    """The last line is always printed."""
    with begin(place, "- tool: {name: Bash, input: {command: touch began; sleep 60}}\n", "--json") as process:
        wait_for(place.project / "began")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    last = json.loads(out.splitlines()[-1])
    assert (last["type"], last["how"]) == ("ended", "interrupted")


def test_a_second_ctrl_c_does_not_wait_for_hooks(place: Place) -> None:
    """The second Ctrl-C ends hooks for the interrupted tool, and SessionEnd is still fired."""
    tag = f"62{time.time_ns()}"
    place.own(f"hooks:\n  after:\n    events: PostToolUseFailure\n    run: touch after; sleep {tag}\n")
    with begin(place, "- tool: {name: Bash, input: {command: touch began; sleep 60}}\n") as process:
        wait_for(place.project / "began")
        process.send_signal(signal.SIGINT)
        wait_for(place.project / "after")
        pressed = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        took = time.monotonic() - pressed
    assert process.returncode == 130 and took < 4
    assert living(tag) == []
    assert names(place)[-1] == "SessionEnd"


def test_background_hooks_time_out(place: Place) -> None:
    """A hook that takes too long is ended with all its processes."""
    tag = f"63{time.time_ns()}"
    place.own(
        f"hooks:\n  later:\n    events: PostToolUse\n    run: touch later; sleep {tag}\n    "
        "background: true\n    timeout: 1\n"
    )
    ended = agent(place, 2 * "- tool: {name: Bash, input: {command: sleep 0.4}}\n" + "- text: done\n", *FREELY)
    assert (ended.code, ended.out) == (0, "done\n")
    assert (place.project / "later").exists() and "still running" not in ended.err, "it is not waited for"
    assert living(tag) == []


def test_an_agent_can_not_approve(place: Place) -> None:
    """`billhook trust` refuses inside this agent, as inside others."""
    assert agent_of(["/usr/bin/python3", PROGRAM, "agent", "-p", "go"]) == "billhook agent"
    place.file(".billhook/hooks.yaml", "hooks:\n  theirs:\n    events: Stop\n    run: 'true'\n")
    place.file("approve.sh", f"{PROGRAM} trust theirs --yes\n")
    ended = agent(place, "- tool: {name: Bash, input: {command: sh approve.sh}}\n- text: done\n", *FREELY)
    assert "    error: exit code 2\n    error: --yes is refused here" in ended.err or "denied by" in ended.err, ended


# -- background hooks

LATER = """\
hooks:
  later:
    events: [PostToolUse, Stop, SessionEnd]
    run: sleep 0.4; touch "$CLAUDE_PROJECT_DIR/$CLAUDE_EVENT_TYPE"
    background: true
    timeout: 20
"""


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_background_hooks_finish(place: Place, arguments: tuple[str, ...]) -> None:
    """The agent waits for them at the end."""
    place.own(LATER)
    assert agent(place, BASH, *FREELY, *arguments).code == 0
    assert {"PostToolUse", "Stop", "SessionEnd"} <= {path.name for path in place.project.iterdir()}


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_ctrl_c_ends_background_hooks(place: Place, arguments: tuple[str, ...]) -> None:
    """The user need not wait for them."""
    tag = f"64{time.time_ns()}"
    place.own(LATER.replace("sleep 0.4", f"sleep {tag}").replace("timeout: 20", "timeout: 100"))
    place.file("turns.yaml", BASH)
    command = [PROGRAM, "agent", "--model", "scripted:turns.yaml", "-p", "go", *FREELY, *arguments]
    started = subprocess.Popen(
        command, cwd=place.project, env=place.env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert started.stdout is not None
    seen = ""
    while "waiting for hooks in the background: later" not in seen:
        line = started.stdout.readline()
        assert line, seen
        seen += line
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=20)
    assert started.returncode == 130
    assert gone(tag, 5)
