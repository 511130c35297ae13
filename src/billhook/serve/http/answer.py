"""One event over HTTP: its answer, in JSON only.

An error status refuses nothing: agents continue if their HTTP hook fails. So every refusal is a 200 with a JSON body
that the agent obeys, even if billhook could not check the event. An error status is returned only if the event would
continue anyway.
"""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from billhook.agents import AGENTS, OTHERS
from billhook.agents.base import REFUSE_ANYTHING
from billhook.agents.codec import AgentDialect
from billhook.config.loader import NotLoadedError
from billhook.core import client_env, strictjson
from billhook.core.answer_json import write_output
from billhook.core.answers import UNSET, Answer, Decision, Exit, Verdict
from billhook.core.errors import BillhookError, EventError, UsageError
from billhook.core.events import Event
from billhook.core.functions import in_thread
from billhook.serve.hook_server import Arguments, HookResponse, HookServer, MistypedError, began_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from billhook.agents.child import Dialect
    from billhook.config.config import Config
    from billhook.serve.engine_pool import EnginePool

GLIMPSE: Final = 64 * 1024
"""Bytes of an event that was too large or too slow; its name and folder are searched for in them."""
GRACE: Final = 0.2  # seconds after its deadline in which the engine may still return the result of an event
PARAMETERS: Final = ("on_failure", "deadline", "event")
_EVENT: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}")
_CWD: Final = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\\x00-\x1f]|\\.)*")')
_left_behind: set[asyncio.Task[Any]] = set()  # tasks that were cancelled and are not waited for


class HttpRequest(NamedTuple):
    """A client's request."""

    body: bytes  # if it could not be read completely, the beginning
    unread: str = ""  # why it could not be read completely
    project: str = ""


class OverHttp(HookServer):
    """One event that came over HTTP."""

    may_be_another = False

    def __init__(
        self, served: "EnginePool", sent: HttpRequest, query: Sequence[tuple[str, str]], *, dialect: str, host: str
    ) -> None:
        super().__init__(lambda: sent.body, self._fire)
        self.arguments.dialect = dialect
        self.agent = dialect if dialect in OTHERS else ""
        self.over = host
        self.verdict: Verdict | None = None
        self.why = ""  # why it could not be checked
        self.fault: BillhookError | None = None  # the error in the request
        self._served, self.sent, self._query = served, sent, query

    def _take(self, argv: list[str]) -> None:
        self.arguments = Arguments(dialect=self.arguments.dialect)
        try:
            super()._take([f"--as={self.arguments.dialect}", *_argv(self._query)])
        except UsageError as error:
            self.fault = _as_parameter(error)
            raise self.fault from None

    async def _prepared(self, argv: list[str]) -> HookResponse | None:
        self.read_files = False
        try:
            return self.prepare(argv)
        except NotLoadedError:
            self.read_files = True
            return await in_thread(lambda: self.prepare(argv))

    async def judge(self) -> HookResponse:
        """Run the hooks until the agent's timeout: no client in between enforces it."""
        seconds = self.arguments.seconds
        if seconds is None:
            return await super().judge()
        task = asyncio.ensure_future(super().judge())
        try:
            await asyncio.wait({task}, timeout=seconds + GRACE)
        finally:
            if not task.done():
                leave_behind(task)
        return task.result() if task.done() else self.fail(f"no answer within {seconds:g} s")

    async def _fire(self, config: "Config", event: Event) -> Verdict:
        self.verdict = await self._served.fire(self, config, event)
        return self.verdict

    def _read(self, env: Mapping[str, str], here: str) -> Event:
        self.stdin = self.sent.body
        if self.sent.unread:
            self.fault = BillhookError(self.sent.unread, hint="use a command hook for events of this size")
            raise ValueError(self.sent.unread)
        try:
            if self.sent.project and not os.path.isabs(self.sent.project):
                raise EventError("not an absolute path", path="X-Billhook-Project")
            event = super()._read(env, here)
            if event.cwd and not os.path.isabs(event.cwd):
                raise EventError("not an absolute path", path="$.cwd")
            if not event.cwd and not self.sent.project:
                hint = "send the project's folder as `cwd`, or in the header X-Billhook-Project"
                raise EventError("missing field", path="$.cwd", hint=hint)
        except (EventError, MistypedError) as error:
            self.fault = error
            raise
        return event

    def _folder(self, environ: Mapping[str, str]) -> str:
        """Also from an invalid event: the gates of its project decide whether it is refused."""
        said = super()._folder(environ)
        said = said if os.path.isabs(said) else _folder_in(self.sent.body)
        about = self.event or self.remains
        if about is None or self.sent.project or not self.host.startswith("http:"):
            return said
        return began_in(about.session_id, said)

    def _gated(self, event: Event | None) -> bool:
        return not self._folder(client_env.environ()) or super()._gated(event)  # the project is unknown

    def fail(self, why: str, *, passing: int = 0, sure: bool = False) -> HookResponse:
        self.why = why.replace("the event on stdin", "the event")
        return super().fail(self.why, passing=passing, sure=sure)

    def _notice(self, event: Event, why: str) -> str:
        return ""  # the status reports it

    def _response(
        self,
        event: Event,
        answer: Answer,
        warnings: "Iterable[str]",
        notes: "Iterable[str]" = (),
        written: object = None,
    ) -> HookResponse:
        worded = as_json(self.dialect, event, answer)
        name = self.arguments.dialect
        lost = [*worded.lost, *(self._hold_context(event, worded.held) if worded.held else ())]
        lines = [*warnings, *(f"the `{name}` dialect can't express everything: {one}" for one in lost)]
        lines += [f"note: {note}" for note in notes]
        return HookResponse(0, strictjson.encode(worded.output), lines=tuple(lines))

    @property
    def status(self) -> int:
        """The status of an event that was neither checked nor refused."""
        if self.sent.unread:
            return 408 if "within" in self.sent.unread else 413
        return 500 if self.fault is None else 400


class JsonAnswer(NamedTuple):
    """An answer as JSON without an exit code."""

    output: dict[str, Any]
    lost: Sequence[str]
    held: str = ""  # context for a later event that can carry it


def as_json(dialect: "Dialect", event: Event, answer: Answer) -> JsonAnswer:
    """An answer as JSON without an exit code, and what is lost. A refusal is part of the JSON."""
    if isinstance(dialect, AgentDialect):
        return _of_agent(dialect, event, answer)
    unfit = ""
    if dialect.meanings.name == "claude" and answer.updated_output is not UNSET:
        from billhook.agents.downgrade import shape_output

        answer, unfit = shape_output(event, answer)
    output, lost = write_output(event, answer, dialect.meanings)
    if answer.stop and event.gates and not _refuses(dialect, event, output):
        # The agent can't be stopped at every event, but the action can be refused.
        reason = answer.reason or answer.stop_reason or "a hook stopped the run"
        denied = replace(answer, decision=Decision.DENY, reason=reason, stop=False, stop_reason="")
        output, more = write_output(event, denied, dialect.meanings)
        lost = ["stop became a deny", *more]
    return JsonAnswer(output, [*lost, unfit] if unfit else lost)


def _of_agent(dialect: AgentDialect, event: Event, answer: Answer) -> JsonAnswer:
    """The output of the agent's command hook. A refusal by exit code becomes the JSON that most agents obey."""
    ended, lost, waits = dialect.write_exit(event, answer)
    output = strictjson.loads(ended.stdout) if ended.stdout else {}
    if ended.code and not _refuses(dialect, event, output):
        output = {"decision": "block", "reason": ended.stderr_text.strip()}
    return JsonAnswer(output, lost, waits)


def _refuses(dialect: "Dialect", event: Event, output: Mapping[str, Any]) -> bool:
    return dialect.read_exit(event, Exit(code=0, stdout=strictjson.encode(output))).answer.objects


def refusal_output(why: str, dialect: str = "claude") -> dict[str, Any]:
    """A refusal of an event of unknown kind: a part of it applies to each event, and where the agent supports it, it
    never keeps an agent running that is about to stop."""
    reason = f"billhook: {why}"
    return (AGENTS[dialect].refusal("http") if dialect in AGENTS else REFUSE_ANYTHING).output(reason)


def refusal(answering: OverHttp) -> Verdict:
    """The verdict on an event that was refused without being checked."""
    about = answering.event or answering.remains
    assert about is not None
    return Verdict(about, decision=Decision.DENY, reason=f"billhook: {answering.why}")


def _argv(query: Sequence[tuple[str, str]]) -> list[str]:
    """The query as a command line. Raises UsageError."""
    given: dict[str, str] = {}
    for name, value in query:
        if name not in PARAMETERS:
            raise UsageError(f"unknown parameter `{name[:100]}`", hint=f"the parameters are {', '.join(PARAMETERS)}")
        if name in given:
            raise UsageError(f"`{name}` is given twice", hint="give it once")
        given[name] = value
    if "event" in given and not _EVENT.fullmatch(given["event"]):
        raise UsageError("`event` is not the name of an event", hint="use, for example, PreToolUse")
    options = [f"--{name.replace('_', '-')}={given[name]}" for name in ("on_failure", "deadline") if name in given]
    return [*options, *([given["event"]] if "event" in given else [])]


def _as_parameter(error: UsageError) -> UsageError:
    """An error of an option as an error of a query parameter."""
    message = error.message.replace("--on-failure", "on_failure").replace("--deadline", "deadline")
    return UsageError(message, place="query", hint=error.hint.replace("--deadline ", "deadline="))


def _folder_in(body: bytes) -> str:
    """The `cwd` in a body that is not a valid event."""
    found = _CWD.search(body[:GLIMPSE])
    try:
        said = strictjson.loads(found[1]) if found else ""
    except BillhookError:
        return ""
    return said if os.path.isabs(said) and "\0" not in said else ""


def leave_behind(task: asyncio.Task[Any]) -> None:
    """Cancel a task without waiting for it."""
    _left_behind.add(task)
    task.add_done_callback(_left_behind.discard)
    task.cancel()


__all__ = ["GLIMPSE", "PARAMETERS", "HttpRequest", "OverHttp", "as_json", "leave_behind", "refusal", "refusal_output"]
