"""Who answers an `ask`: the agent's own dialog, or a person through the queue.

An ask waits in the queue if one of the hooks that ask has `approve: queue`; or if the agent can't show it to a person,
and the user has configured `approvals:` or sees the queue now. Otherwise the agent handles it as it can.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from billhook import agents
from billhook.agents import AGENTS, EVERY_AGENT, dialect_of
from billhook.agents.base import WAITING, can
from billhook.approvals import KINDS, ApprovalSettings, Channel
from billhook.approvals.queue import Questions, QueuedQuestion, is_watched, new_id
from billhook.config.builtin_hooks import OptionError
from billhook.config.nodes import FieldNodes, Node
from billhook.config.override import denied_call
from billhook.config.read_hook import seconds_in
from billhook.config.sources import FileRead
from billhook.core import client_env, strictjson, tools
from billhook.core.answers import Answer, Decision, Outcome, Verdict
from billhook.core.errors import BillhookError
from billhook.core.events import Event
from billhook.core.functions import in_thread
from billhook.core.text import Finding, suggestion

NAME: Final = "approvals"  # of its outcome in a verdict
_UNATTENDED: Final = ("bypassPermissions", "dontAsk")  # permission modes in which an agent shows no question
_MARGIN: Final = 0.2  # seconds before the agent's deadline at which silence denies
_MOST_OF_IT: Final = 0.9  # of the configured time: a shorter wait has a hint
_LONGEST: Final = 4000  # characters of a call, and of a reason
_WATCHED: Final = ApprovalSettings(channels=())  # without `approvals:`, while a person watches the queue
_UNWATCHED: Final = ApprovalSettings(channels=(), seconds=0.0)
_WHILE_OPEN: Final = (
    "no person could answer; such calls wait while `billhook ui` or `billhook approvals --watch` is open, or with "
    "`approvals:` in the user's hooks.yaml"
)
_UNSET: Final = "to wait longer, set `approvals:` in your hooks.yaml and run `billhook install`"
_SHORT: Final = "the agent's timeout for hooks is shorter than this wait; `billhook doctor` shows the fix"
_PLACES: Final = {"terminal": "in a terminal", "page": "on the page"}


class Approver(msgspec.Struct, frozen=True):
    """The stage of an engine after the fold: replaces an `ask` by the answer of a person."""

    settings: ApprovalSettings | None  # None: an ask waits while a person watches the queue
    queued: frozenset[str]  # the hooks with `approve: queue`, which always wait
    root: Path
    project: str
    host: str

    async def __call__(self, verdict: Verdict, ends: float) -> Verdict:
        """The verdict with the answer. Silence denies, and so does a question that can't be stored."""
        asking = tuple(one.hook for one in verdict.outcomes if one.answer.decision is Decision.ASK)
        settings = self._applied(verdict.about, asking)
        if settings is None:
            return verdict
        if settings is _UNWATCHED:
            return replace(verdict, reason=f"{verdict.reason} ({_WHILE_OPEN})".lstrip())
        began = time.monotonic()
        seconds = max(0.0, min(settings.seconds, ends - began - _MARGIN))
        is_early = seconds < settings.seconds * _MOST_OF_IT
        hint = (_UNSET if self.settings is None else _SHORT) if is_early else ""
        question = replace(self._question(verdict, asking, seconds), hint=hint)
        try:
            asked, problems = await self._wait_for_answer(question, settings, seconds)
            allowed = asked.answer == "allow" and await in_thread(lambda: Questions(self.root).use(asked.id))
            answer = _answer(asked, seconds, allowed=allowed)
        except BillhookError as error:
            refused = Answer(decision=Decision.DENY, reason=f"the question can't be asked: {error.message}")
            return _with(verdict, refused, began, ())
        return _with(verdict, answer, began, problems)

    async def _wait_for_answer(
        self, question: QueuedQuestion, settings: ApprovalSettings, seconds: float
    ) -> tuple[QueuedQuestion, Sequence[str]]:
        """The question after the wait, and the problems with its messages."""
        from billhook.approvals.channels import send
        from billhook.approvals.queue import wait

        questions = Questions(self.root)
        await asyncio.sleep(0)  # a caller without a loop starts one now
        asked = await in_thread(lambda: questions.add(question))  # another process may hold the lock
        is_new = asked.id == question.id  # people got a message about an older one already
        files = [file for one in AGENTS.values() for file in one.variable_files]
        problems = send(settings, asked, self.root, files) if is_new else ()
        return await wait(questions, asked, seconds), problems

    def _applied(self, event: Event, asking: Sequence[str]) -> ApprovalSettings | None:
        """The settings for a question; None if the agent handles it."""
        own = self.settings
        if event.hook_event_name not in WAITING:
            return None
        if not self.queued.isdisjoint(asking):
            return own if own is not None and own.seconds else ApprovalSettings()
        if self._is_shown(event) or (own is not None and not own.seconds):
            return None
        return own or (_WATCHED if is_watched(self.root) else _UNWATCHED)

    def _is_shown(self, event: Event) -> bool:
        """Whether the agent shows the question to a person. A program that is no known agent handles it itself."""
        name = self.host.removeprefix("http:")
        if name not in EVERY_AGENT:
            return True
        row = getattr(agents.dialect(dialect_of(name)), "row", None)
        asks = (row(event) if row is not None else can(name, event.hook_event_name)).ask
        if not asks or event.permission_mode in _UNATTENDED:
            return False
        from billhook.agents.around import is_headless

        agent = agents.agent(name)
        return not (agent.unattended(event.payload, client_env.environ()) or is_headless(agent, client_env.process()))

    def _question(self, verdict: Verdict, asking: tuple[str, ...], seconds: float) -> QueuedQuestion:
        from billhook.store.redaction import redactor

        event, now, redact = verdict.about, time.time(), redactor(self.root).text
        given = getattr(event, "tool_input", None) if verdict.tool_input is None else verdict.tool_input
        tool = tools.canonical(getattr(event, "tool_name", ""))
        about = tools.subject_of(tool, given) or strictjson.compact(given)
        call = denied_call(event.replace(tool_input=given), f"{NAME}: {event.hook_event_name}", self.project)
        return QueuedQuestion(
            id=new_id(),
            code=call.code,
            session=event.session_id,
            project=self.project,
            agent=self.host.removeprefix("http:"),
            event=event.hook_event_name,
            tool=tool,
            call=_cut(redact(f"{tool}: {about}")),
            content=_content(tool, given, redact),
            reason=_cut(redact(verdict.reason)),
            hooks=asking,
            asked=now,
            until=now + seconds,
            key=call.key,
        )


def _content(tool: str, given: object, redact: Callable[[str], str]) -> str:
    """What a file tool would write. Each part gets an equal share, so that a long one hides no other."""
    if tool not in tools.FILE_TOOLS or not isinstance(given, Mapping) or not tools.subject_of(tool, given):
        return ""
    parts = tools.changes(tool, given)
    share = _LONGEST // max(1, len(parts))
    return _cut("\n".join(_cut(_part(sign, redact(text)), share) for sign, text in parts), 2 * _LONGEST)


def _part(sign: str, text: str) -> str:
    if sign in ("+", "-"):
        return "\n".join(f"{sign} {line}" for line in text.split("\n"))
    return f"{sign}: {text}" if sign else text


def _cut(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]} ... ({len(text) - longest} more characters)"


def _answer(asked: QueuedQuestion, seconds: float, *, allowed: bool) -> Answer:
    """The answer of a person, or of silence."""
    who = f"{asked.by or 'a person'} {_PLACES.get(asked.via, f'with a link ({asked.via})')}"
    about = f": {asked.reason}" if asked.reason else ""
    data = {"code": asked.code, "by": asked.by, "via": asked.via, "answer": asked.answer or "none"}
    if allowed:
        return Answer(decision=Decision.ALLOW, reason=f"allowed by {who}", data=data)
    if asked.answer == "deny":
        why = f": {asked.why}" if asked.why else ""
        return Answer(decision=Decision.DENY, reason=f"denied by {who}{why}", data=data)
    if asked.answer:
        reason = f"this needs an approval of its own: {who} allowed an equal call, once{about}"
        return Answer(decision=Decision.DENY, reason=reason, data=data)
    shows = f"the user can run `billhook approvals allow {asked.code}`, and this call may then be repeated"
    notes = "; ".join(filter(None, (shows, asked.hint)))
    return Answer(decision=Decision.DENY, reason=f"no answer within {seconds:.0f} s{about} ({notes})", data=data)


def _with(verdict: Verdict, answer: Answer, began: float, problems: Sequence[str]) -> Verdict:
    """The verdict with this answer. The outcomes of the hooks that asked stay as they are."""
    took = (time.monotonic() - began) * 1e3
    outcome = Outcome(NAME, "built-in", answer=answer, duration_ms=took, lost=tuple(problems))
    return replace(
        verdict,
        raw_outcomes=(*verdict.outcomes, outcome),
        duration_ms=verdict.duration_ms + took,
        decision=answer.decision,
        reason=answer.reason,
    )


# -- `approvals:` in hooks.yaml: how questions reach people, and how long they wait. Only the user's own files have it.
_KEYS: Final = ("channels", "time", "link")
_OF_A_CHANNEL: Final = (*KINDS, "secret", "who")
_LONGEST_WAIT: Final = 3600.0


def approvals_of(reads: Iterable[FileRead]) -> tuple[ApprovalSettings | None, list[Finding]]:
    """The settings of the most trusted file that has some; None without one. And the findings."""
    found: list[ApprovalSettings] = []
    findings: list[Finding] = []
    for read in reads:
        node, path = read.approvals, read.source.path
        if node is None:
            continue
        if read.source.tightens:
            message = f"a {read.source.layer} file can't set `approvals`"
            findings.append(Finding("BH215", message, path, node.line, node.column, "set it in your own hooks.yaml"))
            continue
        try:
            found.append(_settings(node))
        except OptionError as wrong:
            findings.append(Finding(wrong.code, str(wrong), path, wrong.node.line, wrong.node.column, wrong.hint))
            found.append(ApprovalSettings(channels=()))  # questions still wait: a mistake must not answer them
    return (found[0] if found else None), findings


def _settings(node: Node) -> ApprovalSettings:
    if node.value is False:
        return ApprovalSettings(channels=(), seconds=0.0)
    if node.value in (True, None):
        return ApprovalSettings()
    if not isinstance(node.value, FieldNodes):
        raise OptionError(f"`approvals` must be a mapping, not {node.kind}", "write `approvals: true`", node)
    given = dict(_known(node.value, _KEYS, "`approvals` has no key"))
    channels = tuple(map(_channel, _many(given["channels"]))) if "channels" in given else ApprovalSettings().channels
    seconds = seconds_in(given["time"]) if "time" in given else ApprovalSettings().seconds
    if not 0 < seconds <= _LONGEST_WAIT:
        raise OptionError(f"`time` can't be {given['time'].shown}", "for example `time: 5m`; at most 1h", given["time"])
    return ApprovalSettings(channels, seconds, _address(given["link"]) if "link" in given else "")


def _known(fields: FieldNodes, known: Iterable[str], message: str) -> Iterator[tuple[str, Node]]:
    for key, value in fields:
        name = str(key.value)
        if name not in known:
            raise OptionError(f"{message} `{name}`", suggestion(name, known), key, "BH202")
        yield name, value


def _many(node: Node) -> tuple[Node, ...]:
    return node.value if isinstance(node.value, tuple) else (node,)


def _channel(node: Node) -> Channel:
    """`desktop`, `{slack: $ADDRESS}`, `{webhook: https://..., secret: $SECRET, who: Ann}`."""
    if node.value == "desktop":
        return Channel("desktop")
    if not isinstance(node.value, FieldNodes):
        raise OptionError("a channel must be `desktop`, or a mapping", "such as `slack: $SLACK_WEBHOOK`", node)
    given = dict(_known(node.value, _OF_A_CHANNEL, "a channel has no key"))
    kinds = [key for key in given if key in KINDS and key != "desktop"]
    if len(kinds) != 1:
        raise OptionError("a channel has one of webhook, ntfy and slack", "such as `slack: $SLACK_WEBHOOK`", node)
    secret, who = (_text(given[key], key) if key in given else "" for key in ("secret", "who"))
    if kinds == ["webhook"] and not secret:
        raise OptionError("a webhook needs a `secret`, which signs its requests", "such as `secret: $NAME`", node)
    return Channel(kinds[0], _address(given[kinds[0]]), secret, who)


def _text(node: Node, name: str) -> str:
    if not isinstance(node.value, str) or not node.value.strip():
        raise OptionError(f"`{name}` must be a string, not {node.kind}", "write a string", node)
    return node.value


def _address(node: Node) -> str:
    """An address, or one with variables, which is checked when it is used."""
    from billhook.runners.webhook import address_problem

    url = _text(node, "address")
    if "$" not in url and (problem := address_problem(url)):
        raise OptionError(f"the address can't be used: {problem}", "such as https://example.com/path", node)
    return url
