"""`billhook agent` on a terminal: a chat, questions, Ctrl-C, and what happens while the prompt waits."""

import asyncio
import os
import pty
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from agent.model_server import ModelServer, Say
from billhook.cli.agent.terminal import FORGOTTEN, LONGEST, Terminal
from cli.chatting import CTRL_C, CTRL_D, Chatting, conversation, events, names, transcripts
from cli.place import Place
from cli.terminal import gone, living

BASH = "- tool: {{name: Bash, input: {{command: {0}}}}}\n".format
SAYS = "- text: Hello to you.\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def chatting(place: Place, script: str, *arguments: str, **changes: str | None) -> Chatting:
    place.file("turns.yaml", script)
    return Chatting(place, "--model", "scripted:turns.yaml", *arguments, **changes)


def freely(place: Place, script: str, *arguments: str, **changes: str | None) -> Chatting:
    return chatting(place, script, "--permission-mode", "bypassPermissions", *arguments, **changes)


def reason(place: Place) -> str:
    """The reason of the last SessionEnd."""
    last = events(place)[-1]
    assert last["event"] == "SessionEnd"
    said: str = last["input"]["reason"]
    return said


# -- talking


@pytest.mark.parametrize("ends", ["/exit\n", CTRL_D], ids=["/exit", "Ctrl-D"])
def test_a_chat(place: Place, ends: str) -> None:
    """A header, the prompt, the model's text, and a SessionEnd with the reason that the user ended it."""
    with chatting(place, SAYS + "- text: Still here.\n") as chat:
        assert re.match(r"[a-z]+-[a-z]+  scripted:turns.yaml, \S+, 0 hooks, mode default\n> ", chat.until("> "))
        chat.type("hello\n")
        assert chat.until("> ") == "hello\nHello to you.\n> "
        chat.type("and now?\n")
        assert chat.until("> ") == "and now?\nStill here.\n> "
        chat.type(ends)
        assert chat.end() == 0
    assert reason(place) == "prompt_input_exit"
    assert names(place).count("UserPromptSubmit") == 2


def test_hook_decisions_are_shown_inline(place: Place) -> None:
    """Below their call, with hook, duration and reason; a blocked prompt names the hook."""
    place.own(
        "hooks:\n  guard:\n    events: PreToolUse\n    deny: not today\n"
        "  prompts:\n    events: UserPromptSubmit\n"
        "    run: 'grep -q secret && { echo no secrets >&2; exit 2; } || true'\n"
    )
    with freely(place, BASH("rm -rf build") + SAYS) as chat:
        chat.say("tidy up")
        said = chat.until("\n> ")
        assert re.search(
            r"\nBash  rm -rf build\n    denied by guard \([\d.]+ ms\): not today\nHello to you\.\n> $", said
        )
        chat.type("my secret\n")
        said = chat.until("\n> ")
        assert re.search(
            r"    UserPromptSubmit: denied by prompts \([\d.]+ ms\): no secrets\n"
            r"blocked: the model has not seen it\n> $",
            said,
        )


def test_compact_clear_and_help(place: Place) -> None:
    """The commands of the chat: a summary, a new session with an empty conversation, and the list of commands."""
    with chatting(place, SAYS + "- text: Fresh.\n") as chat:
        chat.say("/compact")
        assert "the conversation is empty" in chat.until("> ")
        chat.type("hello\n")
        chat.until("\n> ")
        chat.type("/compact the names\n")
        assert "compacted (manual): Summary of 3 messages." in chat.until("\n> ")
        chat.type("/clear\n")
        assert re.search(r", mode default, clear\n> $", chat.until("\n> "))
        chat.type("again\n")
        assert "Fresh." in chat.until("\n> ")
        for spelled in ("/help", "/Help"):
            chat.type(f"{spelled}\n")
            assert "/compact " in chat.until("\n> ")
        chat.type("/comapct\n")
        assert "did you mean `/compact`?" in chat.until("\n> ")
        chat.type("/exit\n")
        assert chat.end() == 0
    log = events(place)
    (before,) = [one for one in log if one["event"] == "PreCompact"]
    assert before["input"].items() >= {"trigger": "manual", "custom_instructions": "the names"}.items()
    assert [one["input"]["source"] for one in log if one["event"] == "SessionStart"] == ["startup", "compact", "clear"]
    assert [one["input"]["reason"] for one in log if one["event"] == "SessionEnd"] == ["clear", "prompt_input_exit"]
    first, second = transcripts(place)
    assert [line["content"][0]["text"] for line in conversation(second)] == ["again", "Fresh."]
    assert {one["transcript_path"] for one in log} == {str(first), str(second)}
    starts = [one for one in log if one["event"] == "SessionStart"]
    assert starts[-1]["transcript_path"] == str(second) and starts[-1]["session_id"] == second.stem


def test_a_hook_can_block_compacting(place: Place) -> None:
    """The conversation is not changed, and the user sees which hook blocked it."""
    place.own("hooks:\n  keep:\n    events: PreCompact\n    deny: I need all of it\n")
    with chatting(place, SAYS) as chat:
        chat.say("hello")
        chat.say("/compact")
        said = chat.until("not compacted")
        assert re.search(r"PreCompact: denied by keep \([\d.]+ ms\): I need all of it", said)


@pytest.mark.parametrize("length", [LONGEST - 1, LONGEST, 3 * LONGEST])
def test_a_line_that_the_terminal_cut_is_not_used(place: Place, length: int) -> None:
    """Half of a prompt may mean something else: the user is told, and nothing is sent."""
    fits = length < LONGEST
    with chatting(place, SAYS) as chat:
        chat.until("> ")
        for start in range(0, length, 1000):
            chat.type("x" * min(1000, length - start))
            chat.until("x" * max(0, min(1000, length - start, LONGEST - start)))
        chat.type("\n")
        if not fits:
            chat.until("the terminal cut this line at 4,095 bytes, so it was ignored; use `billhook agent < file`")
            chat.say("hello")
        chat.until("Hello to you.\n> ")
    (prompt,) = [one["input"]["prompt"] for one in events(place) if one["event"] == "UserPromptSubmit"]
    assert prompt == ("x" * length if fits else "hello")


def test_one_shot_on_a_terminal_shows_the_text_as_it_comes(place: Place) -> None:
    """Once: streamed text is not printed again."""
    with freely(
        place, "- text: I'll look.\n  tool: {name: Bash, input: {command: echo one}}\n" + SAYS, "-p", "go"
    ) as chat:
        assert chat.end() == 0
        assert chat.seen.count("Hello to you.") == 1
        assert "I'll look.\nBash  echo one\n    one\nHello to you.\n" in chat.seen


def test_a_terminal_that_can_show_little(place: Place) -> None:
    """Letters that its encoding lacks become question marks; the run continues."""
    place.own("hooks:\n  größe:\n    events: Stop\n    inject: naïve\n")
    with freely(place, "- text: Grüße.\n", "-p", "go", PYTHONIOENCODING="ascii") as chat:
        assert chat.end() == 0
        assert "Gr??e." in chat.seen.replace("�", "?")


def test_json_in_a_chat(place: Place) -> None:
    """Each turn ends with its line."""
    with chatting(place, SAYS, "--json") as chat:
        chat.say("hello")
        chat.until('{"type":"ended","how":"done","text":"Hello to you."')
        chat.say("/exit")
        assert chat.end() == 0


# -- questions


@pytest.mark.parametrize(("answer", "runs"), [("y", True), ("n", False), ("", False), (CTRL_D, False)])
def test_the_user_is_asked(place: Place, answer: str, runs: bool) -> None:
    """Yes runs it, anything else does not, and the model is told."""
    with chatting(place, BASH("touch made") + SAYS) as chat:
        chat.say("go")
        asked = chat.until("\n? ")
        assert "Allow this Bash call?\n  | touch made\n" in asked and "[y] yes, once" in asked
        chat.type(answer if answer == CTRL_D else f"{answer}\n")
        chat.until("Hello to you.\n> ")
    assert (place.project / "made").exists() is runs
    (transcript,) = transcripts(place)
    (result,) = conversation(transcript)[2]["content"]
    assert result["is_error"] is not runs
    assert ("declined" in result["content"]) is not runs
    assert {"PermissionRequest", "Notification"} <= set(names(place))


def test_yes_for_the_session_is_asked_once(place: Place) -> None:
    """The same command needs no second question, except after /clear."""
    with chatting(place, 2 * BASH("touch made") + SAYS + BASH("touch made") + SAYS) as chat:
        chat.say("go")
        chat.until("\n? ")
        chat.type("s\n")
        assert "?" not in chat.until("Hello to you.")
        chat.say("/clear")
        chat.say("go")
        chat.until("\n? ")


def test_an_invalid_answer_is_asked_again(place: Place) -> None:
    """Input from before the question is discarded."""
    place.own("hooks:\n  slow:\n    events: PermissionRequest\n    run: touch asked; sleep 0.4\n")
    with chatting(place, BASH("touch made") + SAYS) as chat:
        chat.say("go")
        while not (place.project / "asked").exists():
            time.sleep(0.02)
        chat.type("y\n")
        chat.until("\n? ")
        chat.type("perhaps\n")
        assert chat.until("\n? ") == "perhaps\ninvalid answer; type y, s or n (Enter: no)\n? "
        chat.type("n\n")
        chat.until("Hello to you.")
    assert not (place.project / "made").exists()


def test_a_question_interrupts_the_prompt(place: Place) -> None:
    """A teammate asks for permission while the prompt waits; then the prompt is shown again."""
    script = """\
turns:
  - tool: {name: Task, input: {description: make it, prompt: make it, name: bob}}
  - text: Bob does it.
  - text: Fine.
agents:
  bob: [{tool: Bash, input: {command: sleep 0.2; touch made}}, {text: I made it.}]
"""
    with chatting(place, script) as chat:
        chat.say("go")
        chat.until("\n? ")
        chat.type("y\n")
        chat.until("bob is idle (make it)")
        chat.say("good")
        chat.until("Fine.\n> ")
    assert (place.project / "made").exists()


# -- while the prompt waits


def test_a_background_task_ends_while_the_prompt_waits(place: Place) -> None:
    """Its line is shown at once, and the prompt again after it."""
    script = "- tool: {name: Bash, input: {command: sleep 0.5; echo made, run_in_background: true}}\n" + SAYS
    with freely(place, script + "- text: I know.\n") as chat:
        chat.say("go")
        chat.until("Hello to you.\n> ")
        chat.until("task_1 done (sleep 0.5; echo made)\n> ")
        chat.type("and?\n")
        chat.until("I know.\n> ")
    assert "TaskCompleted" in names(place)


def test_a_task_that_is_not_accepted_goes_back_to_the_model(place: Place) -> None:
    """While the prompt waits, without input of the user."""
    place.own("hooks:\n  tests:\n    events: TaskCompleted\n    run: 'echo it has no tests >&2; exit 2'\n")
    script = "- tool: {name: Bash, input: {command: sleep 0.3, run_in_background: true}}\n" + SAYS
    with freely(place, script + "- text: I'll write some.\n") as chat:
        chat.say("go")
        chat.until("Hello to you.\n> ")
        chat.until("task_1 is not accepted as done (sleep 0.3): it has no tests")
        chat.until("I'll write some.\n> ")
    (transcript,) = transcripts(place)
    assert "it has no tests" in conversation(transcript)[-2]["content"][0]["text"]


def test_idle_notification(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while without input an idle_prompt Notification is fired, once."""
    from billhook.agent.factory import open_agent
    from billhook.agent.script import ScriptedModel
    from billhook.cli.agent import Chat
    from billhook.cli.agent.terminal import Interrupts, Screen
    from billhook.config import load_config

    monkeypatch.setenv("HOME", str(place.home))
    ours, theirs = pty.openpty()
    fired: list[str] = []

    def show(event: Any) -> None:
        if getattr(event, "type", "") == "verdict" and event.verdict["event"] == "Notification":
            fired.append(event.verdict["event"])

    async def main() -> None:
        config = load_config(place.project)
        async with open_agent(config, ScriptedModel([]), cwd=str(place.project), show=show) as agent:
            chat = Chat(
                agent,
                Terminal(Screen(hooks=0, streams=True), theirs),
                Interrupts(print),
                clear=lambda: asyncio.sleep(0),
                tell=print,
                idle=0.05,
            )
            asyncio.get_running_loop().call_later(0.5, os.write, ours, b"/exit\n")
            await chat.run()

    asyncio.run(main())
    os.close(ours)
    os.close(theirs)
    assert fired == ["Notification"]
    (record,) = [one for one in events(place) if one["event"] == "Notification"]
    assert record["input"]["notification_type"] == "idle_prompt"


# -- Ctrl-C


@pytest.mark.parametrize("where", ["tool", "hook"])
def test_ctrl_c_stops_the_turn(place: Place, where: str) -> None:
    """The running tool is killed with all its processes, the call has its result, and the chat continues."""
    tag = f"64{time.time_ns()}"
    sleeps = f"touch began; (setsid sleep {tag} &) ; sleep {tag}"
    if where == "hook":
        place.own(f"hooks:\n  sleeper:\n    events: PreToolUse\n    run: {sleeps}\n")
    with freely(place, BASH(sleeps if where == "tool" else "touch made") + SAYS) as chat:
        chat.say("go")
        while not (place.project / "began").exists():
            time.sleep(0.02)
        chat.type(CTRL_C)
        chat.until("stopping ...\n")
        chat.until("stopped\n> ")
        assert living(tag) == []
        chat.type("hello\n")
        chat.until("Hello to you.\n> ")
        chat.type("/exit\n")
        assert chat.end() == 0
    assert not (place.project / "made").exists()
    (transcript,) = transcripts(place)
    (result,) = conversation(transcript)[2]["content"]
    assert result["is_error"] and "interrupted" in result["content"]
    assert conversation(transcript)[-1]["content"][0]["text"] == "Hello to you."


def test_ctrl_c_twice_ends_the_session(place: Place) -> None:
    """The second one comes while the turn stops: SessionEnd is fired, and no process survives."""
    tag = f"65{time.time_ns()}"
    place.own(f"hooks:\n  after:\n    events: PostToolUseFailure\n    run: touch after; sleep {tag}\n")
    with freely(place, BASH(f"touch began; sleep {tag}") + SAYS) as chat:
        chat.say("go")
        while not (place.project / "began").exists():
            time.sleep(0.02)
        chat.type(CTRL_C)
        while not (place.project / "after").exists():
            time.sleep(0.02)
        chat.type(CTRL_C)
        assert chat.end() == 130
    assert living(tag) == []
    assert reason(place) == "other"


def test_ctrl_c_after_a_stopped_turn_ends_the_session(place: Place) -> None:
    """The second one comes at the prompt."""
    with freely(place, BASH("touch began; sleep 60")) as chat:
        chat.say("go")
        while not (place.project / "began").exists():
            time.sleep(0.02)
        chat.type(CTRL_C)
        chat.until("stopped\n> ")
        chat.type(CTRL_C)
        assert chat.end() == 130
    assert reason(place) == "other"


def test_an_old_ctrl_c_does_not_count(place: Place) -> None:
    """Some seconds after a Ctrl-C that stopped a turn, the next one counts as the first again."""
    with freely(place, BASH("touch began; sleep 60")) as chat:
        chat.say("go")
        while not (place.project / "began").exists():
            time.sleep(0.02)
        chat.type(CTRL_C)
        chat.until("stopped\n> ")
        time.sleep(FORGOTTEN + 0.1)
        chat.type(CTRL_C)
        chat.until("press Ctrl-C again to end the session\n> ")
        chat.type(CTRL_C)
        assert chat.end() == 130


def test_ctrl_c_at_the_prompt(place: Place) -> None:
    """The first one clears the line, and explains the second; any input resets the count."""
    with chatting(place, SAYS) as chat:
        chat.until("> ")
        chat.type("never mi")
        chat.type(CTRL_C)
        chat.until("press Ctrl-C again to end the session\n> ")
        chat.type("hello\n")
        chat.until("Hello to you.\n> ")
        chat.type(CTRL_C)
        chat.until("press Ctrl-C again to end the session\n> ")
        chat.type(CTRL_C)
        assert chat.end() == 130
        assert chat.seen.endswith("ending the session ...\n> \r")
    assert names(place).count("UserPromptSubmit") == 1
    assert reason(place) == "other"


def test_ctrl_c_at_a_question_stops_the_turn(place: Place) -> None:
    """Nothing runs, and the call has its result."""
    with chatting(place, BASH("touch made") + SAYS) as chat:
        chat.say("go")
        chat.until("\n? ")
        chat.type(CTRL_C)
        chat.until("stopped\n> ")
        chat.type("hello\n")
        chat.until("Hello to you.\n> ")
    assert not (place.project / "made").exists()


def test_ctrl_c_stops_a_model_that_does_not_answer(place: Place) -> None:
    """The session does not wait for a stalled service, and the chat continues."""
    with ModelServer(Say(("Let me ",), fault="stall"), Say(("Here ", "I am."))) as server:
        changes = {"ANTHROPIC_API_KEY": "test-key-0123", "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_AUTH_TOKEN": None}
        with Chatting(place, "--model", "anthropic:some-model", **changes) as chat:
            chat.say("go")
            chat.until("Let me ")
            chat.type(CTRL_C)
            chat.until("stopped\n> ")
            chat.type("hello?\n")
            chat.until("Here I am.\n> ")
            chat.type("/exit\n")
            assert chat.end() == 0
    said = [message["content"] for message in server.bodies[-1]["messages"]]
    assert "go" in str(said) and "hello?" in str(said)


def test_background_work_ends_with_the_session(place: Place) -> None:
    """Tasks and teammates that still run are killed at the end."""
    tag = f"66{time.time_ns()}"
    script = f"- tool: {{name: Bash, input: {{command: touch began; sleep {tag}, run_in_background: true}}}}\n" + SAYS
    with freely(place, script) as chat:
        chat.say("go")
        chat.until("Hello to you.\n> ")
        while not living(tag):
            time.sleep(0.02)
        chat.type("/exit\n")
        assert chat.end() == 0
    assert living(tag) == []


@pytest.mark.parametrize("where", ["tool", "prompt"])
def test_a_terminal_that_goes_away_ends_the_session(place: Place, where: str) -> None:
    """Like SIGHUP: SessionEnd is fired, and no process survives."""
    tag = f"67{time.time_ns()}"
    with freely(place, BASH(f"touch began; sleep {tag}") if where == "tool" else SAYS) as chat:
        chat.say("go")
        if where == "tool":
            while not (place.project / "began").exists():
                time.sleep(0.02)
        else:
            chat.until("Hello to you.\n> ")
        chat.hang_up()
        assert chat.process.wait(20) == 128 + signal.SIGHUP
    assert living(tag) == []
    assert reason(place) == "other"


def test_term_at_the_prompt(place: Place) -> None:
    """Exit 143, with SessionEnd."""
    with chatting(place, SAYS) as chat:
        chat.until("> ")
        chat.process.send_signal(signal.SIGTERM)
        assert chat.end() == 143
    assert reason(place) == "other"


def test_a_chat_ends_after_background_hooks(place: Place) -> None:
    """`/exit` waits for them, and Ctrl-C then ends them."""
    tag = f"65{time.time_ns()}"
    place.own(
        "hooks:\n  later: {events: Stop, run: 'sleep 0.4; touch done', background: true, timeout: 20}\n"
        f"  longer: {{events: Stop, run: 'sleep {tag}', background: true, timeout: 90}}\n"
    )
    with chatting(place, "- text: All done.\n") as chat:
        chat.say("go")
        chat.until("All done.")
        chat.say("/exit")
        chat.until("waiting for hooks in the background: longer (Ctrl-C ends them)")
        chat.type(CTRL_C)
        chat.end()
    assert (place.project / "done").exists()
    assert gone(tag, 5)
