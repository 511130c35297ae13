"""rate-limit: the tokens and the cost of a session, read from the agents' transcripts."""

import json
from pathlib import Path
from typing import Any

import pytest

from billhook import Engine
from billhook.agents.token_use import Tokens, tokens_used
from billhook.builtins.rate_limit import Price, RateLimit, rate_limit
from billhook.core.answers import Verdict
from billhook.store.state import FileState

RECORDED = Path(__file__).parent.parent / "hosts" / "transcripts"
PRICES = {"cheap-*": Price(input=1, output=10, cache_read=0.5, cache_write=2), "dear": Price(input=100, output=100)}
NO_SESSION = ""


class Counted:
    """A session with one transcript, and limits."""

    def __init__(self, root: Path, *limits: RateLimit) -> None:
        self.root, self.limits = root, limits
        self.transcript = root / "projects" / "abc.jsonl"
        self.transcript.parent.mkdir(parents=True)

    def said(self, id_: str, file: Path | None = None, model: str = "cheap-1", **usage: int | None) -> None:
        line = {"type": "assistant", "message": {"id": id_, "model": model, "usage": usage}}
        file = file or self.transcript
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as written:
            written.write(json.dumps(line) + "\n")

    def verdict(self, session: str = "abc", transcript: str | None = None) -> Verdict:
        """Made with everything new, as in a separate process."""
        state = FileState(self.root / "state", seconds=0.2)
        event: dict[str, Any] = {"hook_event_name": "PreToolUse", "session_id": session, "cwd": str(self.root)}
        event |= {"tool_name": "Bash", "tool_input": {"command": "ls"}}
        event["transcript_path"] = str(self.transcript) if transcript is None else transcript
        return Engine([rate_limit(state, self.limits, tokens=tokens_used)]).fire_sync(event)

    @property
    def decision(self) -> str:
        return str(self.verdict().decision)


@pytest.mark.parametrize(
    ("agent", "model", "used"),
    [
        ("claude", "claude-opus-5-5", Tokens(110, 55)),  # 9 messages, and 2 of the subagent
        ("gemini", "gemini-2.5-flash", Tokens(110, 55)),  # each message is written twice
    ],
)
def test_transcripts_of_real_agents(agent: str, model: str, used: Tokens) -> None:
    """With those of its subagents, and the same in the second reading."""
    folder = RECORDED / agent
    files = [path for path in folder.rglob("*.jsonl") if path.parent.name in ("chats", "@SLUG@")]
    (path,) = files
    session = path.stem if agent == "claude" else next(one.name for one in path.parent.iterdir() if one.is_dir())
    kept: dict[str, Any] = {}
    for _ in range(2):
        assert tokens_used(kept, str(path), session) == {model: used}
    assert len(kept) == 2


def test_a_transcript_of_real_pi() -> None:
    """The tokens of each of its messages."""
    (path,) = RECORDED.joinpath("pi").rglob("*.jsonl")
    assert tokens_used({}, str(path), path.stem) == {"scripted": Tokens(90, 45)}


def test_a_transcript_of_real_codex() -> None:
    """Its sums, and the model of the turn."""
    sessions = sorted(RECORDED.joinpath("codex").rglob("*.jsonl"))
    found = [tokens_used({}, str(path), path.stem) for path in sessions]
    assert [[*one] for one in found] == [["gpt-5.5"], ["gpt-5.5"]]
    for path, one in zip(sessions, found, strict=True):
        totals = [
            json.loads(line)["payload"]["info"] for line in path.read_text().splitlines() if "token_count" in line
        ]
        assert sum(one["gpt-5.5"]) == [each for each in totals if each][-1]["total_token_usage"]["total_tokens"] > 0


def test_tokens(tmp_path: Path) -> None:
    """All kinds count; a message that is written again counts once, with its last numbers."""
    session = Counted(tmp_path, RateLimit(at_most=100, of="tokens"))
    assert session.decision == "none"  # the transcript is not written yet
    session.said("1", input_tokens=40, output_tokens=1)
    session.said("1", input_tokens=40, output_tokens=9)
    assert session.decision == "none"
    session.said("2", input_tokens=10, cache_read_input_tokens=20, cache_creation_input_tokens=20, output_tokens=None)
    assert session.decision == "none"  # 99
    session.said("3", output_tokens=1)
    refused = session.verdict()
    assert refused.denied
    assert refused.reason == "Limit: at most 100 tokens per session; it applies until the session ends"


def test_another_session_has_its_own(tmp_path: Path) -> None:
    session = Counted(tmp_path, RateLimit(at_most=10, of="tokens"))
    session.said("1", input_tokens=10)
    other = tmp_path / "projects" / "def.jsonl"
    session.said("1", other, input_tokens=9)
    assert session.decision == "deny"
    assert str(session.verdict("def", str(other)).decision) == "none"


def test_cost(tmp_path: Path) -> None:
    """By the prices of each model; the user is asked."""
    session = Counted(tmp_path, RateLimit(at_most=2.5, of="cost", prices=PRICES, then="ask"))
    million = 1_000_000
    session.said("1", input_tokens=million, cache_read_input_tokens=million)  # 1.5
    session.said("2", cache_creation_input_tokens=million // 4, output_tokens=million // 25)  # 0.9
    assert session.decision == "none"
    session.said("3", model="dear", cache_read_input_tokens=1000)  # 0.1, at the price of input
    asked = session.verdict()
    assert (str(asked.decision), asked.reason) == (
        "ask",
        "Limit: a cost of at most 2.5 per session; it applies until the session ends",
    )


def test_a_model_without_a_price_blocks(tmp_path: Path) -> None:
    """No price is guessed: the call is denied, and the reason names the model."""
    session = Counted(tmp_path, RateLimit(at_most=5, of="cost", prices=PRICES))
    session.said("1", model="new-model", input_tokens=1)
    refused = session.verdict()
    assert refused.denied and "no price for the model `new-model`" in refused.reason, refused.reason
    session = Counted(tmp_path / "b", RateLimit(at_most=5, of="cost", prices=PRICES))
    session.said("1", model="<synthetic>", input_tokens=0)  # an error of the service, as Claude Code writes it
    assert session.decision == "none"


def test_subagents(tmp_path: Path) -> None:
    session = Counted(tmp_path, RateLimit(at_most=10, of="tokens"))
    session.said("1", input_tokens=5)
    session.said("2", tmp_path / "projects" / "abc" / "subagents" / "agent-1.jsonl", input_tokens=5)
    assert session.decision == "deny"


def test_a_transcript_is_read_from_where_it_was_read_last(tmp_path: Path) -> None:
    """Also where the agent had not yet ended a line. A shorter one is another file."""
    session = Counted(tmp_path, RateLimit(at_most=10, of="tokens"))
    session.said("1", input_tokens=4)
    with session.transcript.open("a") as file:
        file.write('{"message":{"id":"2","model":"m","usage":{"inp')
    assert session.decision == "none"
    with session.transcript.open("a") as file:
        file.write('ut_tokens":5}}}\n')
    text = session.transcript.read_text()
    session.transcript.write_text("x" * text.index("\n") + text[text.index("\n") :])  # what was read is not read again
    assert session.decision == "none"  # 9
    session.said("3", input_tokens=1)
    assert session.decision == "deny"
    session.transcript.write_text("\n")
    assert session.decision == "none"


def test_without_a_transcript_or_a_session(tmp_path: Path) -> None:
    """What was used is unknown: only other limits apply."""
    session = Counted(tmp_path, RateLimit(at_most=0, of="tokens"), RateLimit(at_most=1))
    assert [str(session.verdict(transcript="").decision) for _ in range(2)] == ["none", "deny"]
    session.said("1", input_tokens=5)
    assert [str(session.verdict(NO_SESSION).decision) for _ in range(2)] == ["none", "deny"]


def test_other_lines_are_skipped(tmp_path: Path) -> None:
    """Quoted numbers, results of tools and lines of no known format."""
    session = Counted(tmp_path, RateLimit(at_most=1, of="tokens"))
    quoted = json.dumps({"message": {"id": "1", "model": "m", "usage": {"input_tokens": 9}}})
    lines = [{"type": "user", "message": {"content": quoted}}, {"toolUseResult": {"usage": {"input_tokens": 9}}}]
    lines += [{"tokens": "many"}, {"message": "usage"}]
    session.transcript.write_text("\n".join(map(json.dumps, lines)) + '\nnot JSON "usage"\n')
    assert session.decision == "none"


def test_a_transcript_that_is_no_file(tmp_path: Path) -> None:
    """A pipe is never opened: it would block."""
    import os

    session = Counted(tmp_path, RateLimit(at_most=1, of="tokens"))
    os.mkfifo(session.transcript)
    assert session.decision == "none"
