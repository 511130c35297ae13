"""The events of a run for the user interface: `--json` prints one line for each, the terminal shows some.

Hook progress (`billhook.engine.progress`) and these are one stream.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from billhook.agent.conversation import Usage
from billhook.core import strictjson, tools
from billhook.core.answers import FAILURES, UNSET, Decision, Outcome, Verdict
from billhook.core.events import Block, Event


class UiEvent(msgspec.Struct, frozen=True, tag_field="type"):
    @property
    def type(self) -> str:
        return str(type(self).__struct_config__.tag)


class SessionStarted(UiEvent, frozen=True, tag="session_started"):
    """The session is open, and SessionStart was fired."""

    session_id: str
    session_name: str
    source: str
    model: str
    cwd: str
    permission_mode: str
    transcript_path: str


class Prompted(UiEvent, frozen=True, tag="prompt"):
    text: str


class TextDelta(UiEvent, frozen=True, tag="text_delta"):
    """A piece of the model's text, as it arrives."""

    text: str
    agent: str


class MessageShown(UiEvent, frozen=True, tag="message"):
    """The whole text of one reply; its tool calls follow."""

    text: str
    agent: str
    usage: Usage


class ToolCalled(UiEvent, frozen=True, tag="tool_call"):
    """A tool call of the model; hooks and permissions come first."""

    tool_use_id: str
    name: str
    input: dict[str, Any]
    agent: str


class ToolEnded(UiEvent, frozen=True, tag="tool_result"):
    tool_use_id: str
    name: str
    content: str
    is_error: bool
    duration_ms: float
    agent: str


Did = Literal[
    "denied", "objected", "asked", "deferred", "allowed", "stopped", "kept_going", "rewrote_input", "rewrote_output",
    "told_model", "told_user", "failed", "failed_open", "warned",
]  # fmt: skip


class HookEffect(msgspec.Struct, frozen=True):
    """One effect of a hook. `objected`: it denied after the action; `failed_open`: it failed, and the event continued
    without its answer; `warned`: a part of its answer was ignored."""

    hook: str
    did: Did
    text: str
    duration_ms: float


class VerdictShown(UiEvent, frozen=True, tag="verdict"):
    """Hooks ran for an event; `verdict` is the usual object, `deeds` are the effects of each hook."""

    verdict: dict[str, Any]
    deeds: tuple[HookEffect, ...] = ()
    tool_use_id: str | None = None
    agent: str = "main"  # a subagent's type, for its events
    agent_id: str = ""  # its id, then


class NoticeShown(UiEvent, frozen=True, tag="notice"):
    text: str


class Compacted(UiEvent, frozen=True, tag="compacted"):
    """The conversation was replaced with a summary."""

    trigger: str
    summary: str


class TaskChanged(UiEvent, frozen=True, tag="task"):
    """A background task or a teammate changed its state."""

    task_id: str
    subject: str
    state: Literal["started", "done", "failed", "open", "idle"]
    detail: str = ""
    agent: str = "main"  # a teammate's name, for its tasks
    agent_id: str = ""  # the teammate's id, as in verdicts


Ending = Literal["done", "blocked", "stopped", "failed", "interrupted"]


class TurnEnded(UiEvent, frozen=True, tag="ended"):
    how: Ending
    """`blocked`: a hook refused the prompt; `stopped`: a hook ended the run; `failed`: the model gave no answer."""
    text: str  # the model's last text, or the reason
    usage: Usage = Usage()
    """Of the whole session so far, including subagents, teammates, background tasks and summaries."""


def judged(verdict: Verdict) -> VerdictShown:
    about = verdict.about
    deeds = tuple(deed for outcome in verdict.outcomes for deed in _deeds(outcome, about))
    agent = about.agent_type if about.agent_id else None
    use = getattr(about, "tool_use_id", None) or None
    return VerdictShown(verdict.to_dict(), deeds, use, agent or "main", about.agent_id or "")


def _deeds(outcome: Outcome, about: Event) -> list[HookEffect]:
    answer, done = outcome.answer, list[tuple[Did, str]]()
    if outcome.status in FAILURES:
        done.append(("failed_open" if outcome.failed_open else "failed", outcome.error))
    if answer.decision is not Decision.NONE:
        late = answer.decision is Decision.DENY and about.block in (Block.MODEL, Block.USER, Block.IGNORED)
        done.append(("objected" if late else _DECIDED[answer.decision], answer.reason))
    if answer.stop:
        done.append(("stopped", answer.stop_reason))
    if answer.keep_going:
        done.append(("kept_going", answer.reason))
    if answer.updated_input is not None:
        command = tools.command_of(getattr(about, "tool_name", ""), answer.updated_input)
        done.append(("rewrote_input", strictjson.compact(answer.updated_input) if command is None else command))
    if answer.updated_output is not UNSET:
        done.append(("rewrote_output", ""))
    if not answer.quiet:  # `suppressOutput`
        done += [("told_model", answer.context)] if answer.context else []
        done += [("told_user", answer.message)] if answer.message else []
    done += [("warned", lost) for lost in outcome.lost]
    return [HookEffect(outcome.hook, did, text, round(outcome.duration_ms, 3)) for did, text in done]


_DECIDED: dict[Decision, Did] = {
    Decision.DENY: "denied",
    Decision.ASK: "asked",
    Decision.DEFER: "deferred",
    Decision.ALLOW: "allowed",
}

Show = Callable[[Any], None]  # gets all events
