"""One event of an agent, from its bytes to the response: for the daemon, HTTP and `billhook hook`."""

import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import msgspec
from msgspec.structs import fields, replace

from billhook import agents
from billhook.agents import AGENTS, DOUBTFUL, OTHERS, SHARED, canonical_event, dialect_of, who_calls, with_sent_names
from billhook.agents import whole as whole_event
from billhook.agents.child import Dialect
from billhook.core import client_env, strictjson
from billhook.core.answers import NOTHING, Answer, Decision, Verdict
from billhook.core.errors import BillhookError, ContradictionError, EventError, StrictJSONError, UsageError
from billhook.core.events import EVENTS, Block, Event, parse
from billhook.core.hook import Hook
from billhook.core.lazy import lazy_module, pattern
from billhook.core.text import lines_for_people, nearest
from billhook.store.files import StoreError, state_root
from billhook.store.state import LARGEST_HELD, FileState, HeldContext

if TYPE_CHECKING:
    from billhook.agents.child import ExitResult
    from billhook.config import loader
    from billhook.config.config import Config
    from billhook.serve.dedupe import SharedVerdict
else:
    loader = lazy_module("billhook.config.loader")


DIALECTS = (*AGENTS, "universal", "claw", "claw-text", "lesson")  # the values of `--as`
_MARGIN = 0.1
_SHORTEST_MARGIN, _LONGEST_MARGIN = 0.2, 0.5
_KNOWN = {"--as": DIALECTS, "--on-failure": ("allow", "deny"), "--from": ("user", "project")}
_FIELDS = {"--as": "dialect", "--on-failure": "on_failure", "--from": "source"}
_OPTIONS = ("--as", "--on-failure", "--config", "--deadline", "--from")


class Arguments(msgspec.Struct):
    """The command line of an agent's hook."""

    dialect: str = "claude"
    on_failure: str = ""
    """The decision for an event that can't be checked; empty: it is denied if a gate is configured for it."""
    files: list[str] = []
    event: str = ""  # the event's name, if the agent passes it on the command line
    seconds: float | None = None  # how long the agent waits for the answer
    source: str = ""  # whose settings contain the entry, `user` or `project`; empty: unknown

    @property
    def seconds_for_hooks(self) -> float | None:
        """How long hooks may take. The remaining time is for ending hooks that time out, and for writing the record and
        the response."""
        if self.seconds is None:
            return None
        margin = min(max(self.seconds * _MARGIN, _SHORTEST_MARGIN), _LONGEST_MARGIN)
        return self.seconds - min(margin, self.seconds / 2)

    def take(self, argv: list[str]) -> None:
        """Read a command line. Raises UsageError; the arguments before the error are kept."""
        said = tuple(argv)
        known = _parsed.get(said)
        if known is None:
            self._take_words(list(argv))
            if len(_parsed) >= _MOST_PARSED:
                _parsed.clear()
            _parsed[said] = replace(self, files=list(self.files))
            return
        self.dialect, self.on_failure, self.files = known.dialect, known.on_failure, list(known.files)
        self.event, self.seconds, self.source = known.event, known.seconds, known.source

    def _take_words(self, words: list[str]) -> None:
        while words:
            word = words.pop(0)
            option, equals, value = word.partition("=")
            if not word.startswith("-"):
                if self.event:
                    raise UsageError(f"unexpected argument `{word}`", hint="pass at most one event")
                self.event = word
            elif option not in _OPTIONS:
                raise UsageError(f"no option `{word}`", hint=f"the options are {', '.join(_OPTIONS)}")
            elif not equals and not words:
                raise UsageError(f"`{option}` needs a value", hint="see `billhook hook --help`")
            else:
                self._take_option(option, value if equals else words.pop(0))

    def _take_option(self, option: str, value: str) -> None:
        known = _KNOWN.get(option, ())
        if known and value not in known:
            raise UsageError(f"unknown {option} `{value}`", hint=f"one of {', '.join(known)}")
        if option == "--config":
            self.files.append(value)
        elif option == "--deadline":
            self.seconds = _seconds(value)
        else:
            setattr(self, _FIELDS[option], value)


_parsed: dict[tuple[str, ...], Arguments] = {}  # the last command lines: an agent uses the same one each time
_MOST_PARSED = 64


def _seconds(text: str) -> float:
    if not text.isdecimal() or not text.isascii() or len(text) > 9 or int(text) < 1:
        raise UsageError(f"invalid --deadline `{text}`", hint="use a number of milliseconds, as in --deadline 5000")
    return int(text) / 1000


# Context that an event can't carry in an agent's dialect:


def brought(root: str, dialect: Dialect, event: Event, answer: Answer) -> Answer:
    """The answer with the context that waited for an event that can carry it. If this one can't, it waits again."""
    row = getattr(dialect, "row", None)
    if row is None or not event.session_id or answer.objects or not row(event).context:
        return answer
    try:
        texts = HeldContext(FileState(Path(root))).take(event.session_id)
    except StoreError:
        return answer
    joined = dialect.meanings.join.join([*texts, *filter(None, [answer.context])])
    return replace(answer, context=joined) if texts else answer


def hold_context(root: str, event: Event, text: str) -> str:
    """Keep context for a later event of the session: the problem, or an empty string."""
    if not event.session_id:
        return "context can't be kept for a later event: this event has no session"
    if len(text) > LARGEST_HELD:
        return f"context of more than {LARGEST_HELD:,} characters can't be kept for a later event"
    from billhook.store.redaction import Redactor

    if Redactor().redacted(text).texts:
        return "context that contains a secret is not kept for a later event"
    try:
        gone = HeldContext(FileState(Path(root))).keep(event.session_id, text)
    except StoreError as error:
        return f"context can't be kept for a later event: {error.place}: {error.message}"
    return f"{gone} older texts that were kept for a later event are lost" if gone else ""


# The folder in which a session began:

KIND: Final = "folders"
_MOST: Final = 1024
_known: dict[tuple[str, str], str] = {}


def began_in(session: str, folder: str) -> str:
    """The folder in which the session began; this one for a new session."""
    if not session or not folder:
        return folder
    root = state_root()
    key = (str(root), session)
    found = _known.get(key)
    if found is None:
        found = folder
        with suppress(StoreError):  # a state that can't be written is reported by the log
            record = FileState(root).update(KIND, session, lambda before: None if before else {"folder": folder})
            found = str((record or {}).get("folder") or folder)
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = found
    return found


# The event as an agent sends it, in any spelling of the event's name.

_NAME = pattern(rb'"hook_event_name"\s*:\s*"([A-Za-z0-9_.-]{1,100})"')
_LONGEST = 100
_LIKELY = 0.75  # how similar a name must be to a known one to count as a typo; the same limit as in configuration files


class MistypedError(BillhookError):
    """The name is unknown, and so similar to a known one that it must be a typo."""


def detect_event(said: str, stdin: bytes, env: Mapping[str, str], argument: str) -> tuple[Event, str]:
    """The event on stdin, and the agent that sent it. That may be another agent that reads the same settings; its
    dialect is used then. Raises as `received` does."""
    dialect = agents.dialect(said)
    other = SHARED.get(said, "")
    if other and agents.agent(other).sends(_object_in(stdin) or {}, env):
        return _from_another(other, stdin, env, argument)
    if said != "claude":
        return received(dialect, stdin, env, argument), said
    try:
        event = received(dialect, stdin, env, argument)
        if event.hook_event_name in EVENTS and "cwd" in event.payload and DOUBTFUL.isdisjoint(event.payload):
            return event, said
        agent = who_calls(said, event.payload, env)
    except BillhookError:  # not valid for Claude Code, but maybe for another agent
        agent = who_calls(said, _object_in(stdin) or {}, env)
        if agent == said:
            raise
    return (event, agent) if agent == said else _from_another(agent, stdin, env, argument)


def _from_another(agent: str, stdin: bytes, env: Mapping[str, str], argument: str) -> tuple[Event, str]:
    """The event of an agent that reads another agent's settings."""
    payload = _object_in(stdin) or {}
    record = agents.agent(agent)
    if record.payload_of is not None:
        stdin = strictjson.written(record.payload_of(payload))
    name = argument or record.unnamed_event(payload)
    return received(agents.dialect(dialect_of(agent)), stdin, env, name), agent


def received(dialect: "Dialect", stdin: bytes, env: Mapping[str, str], argument: str) -> Event:
    """The event on stdin, under its canonical name; `argument` is the name if the JSON has none. It keeps the original
    text, for hooks in the same dialect.

    Raises EventError if it can't be read, and MistypedError if its name is nearly that of an event.
    """
    try:
        event = dialect.read_call(stdin, env)
    except EventError as error:
        if error.path != "$.hook_event_name" or not argument:
            raise
        sent, stdin = stdin, _with_name(stdin, argument, dialect.meanings.name)
        event = dialect.read_call(stdin, env)
        if dialect.meanings.naming in ("canonical", "seed"):  # hooks in these dialects read the name from the JSON
            sent = stdin
    else:
        sent = stdin
    event.__dict__["sent"] = dialect.meanings.name, sent
    name = event.hook_event_name
    if name in EVENTS:
        return event
    known = canonical(name, dialect.meanings.name)
    if known:
        return _respelt(dialect, stdin, env, known)
    if name not in agents.others() and (near := probable(name)):
        raise MistypedError(f"there is no event `{name[:_LONGEST]}`; did you mean `{near}`?")
    return event


def canonical(name: str, agent: str = "") -> str:
    """The known event with this name in any agent, ignoring case, `_` and `-`; empty if there is none."""
    if name in EVENTS:
        return name
    return canonical_event(name, agent)


def probable(name: str) -> str:
    """The known event that was probably meant; empty if no name is similar."""
    return canonical(name) or nearest(name[:_LONGEST], EVENTS, _LIKELY)


def _with_name(stdin: bytes, name: str, agent: str) -> bytes:
    """Add the event's name: some agents don't put it into the payload."""
    rest = stdin.lstrip()[1:].lstrip()
    comma = b"" if rest.startswith(b"}") else b","
    return b'{"hook_event_name":' + strictjson.encode(canonical(name, agent) or name) + comma + rest


def _respelt(dialect: "Dialect", stdin: bytes, env: Mapping[str, str], name: str) -> Event:
    """Read it again with its canonical name, which determines its fields."""
    if not stdin.strip():
        return dialect.read_call(stdin, {**env, "HOOK_EVENT": name})
    whole = strictjson.loads_leniently(stdin, max_depth=400)
    named = {"hook_event_name": name, "original_event_name": _name_in(whole)}
    return dialect.read_call(strictjson.encode({**whole, **named}), env)


def guessed(stdin: bytes, argument: str) -> Event | None:
    """An event of the probable kind, with its readable fields; None if the kind is unknown."""
    whole = _object_in(stdin)
    said = {_name_in(whole)} if whole is not None else {name.decode("ascii") for name in _NAME.findall(stdin)}
    said.discard("")
    if not said:
        said = {argument or client_env.environ().get("HOOK_EVENT", "")}
    elif argument:
        said.add(argument)
    meant = {probable(name) or name for name in said if name}
    return _likeness(meant.pop(), whole or {}) if len(meant) == 1 else None


def readable(stdin: bytes) -> Event:
    """The readable fields of an event of unknown kind."""
    whole = _object_in(stdin) or {}
    return _likeness(_name_in(whole) or "unknown", whole)


def _object_in(stdin: bytes) -> dict[str, Any] | None:
    """The JSON object on stdin; None for invalid JSON, where a name may also come from a tool's input."""
    try:
        whole = strictjson.loads(stdin, max_depth=400, max_bytes=None)
    except StrictJSONError:
        return None
    return whole if isinstance(whole, dict) else {}


def _name_in(whole: Mapping[str, Any]) -> str:
    name = whole.get("hook_event_name")
    return name if isinstance(name, str) else ""


def _likeness(name: str, whole: Mapping[str, Any]) -> Event:
    """An event of that name, sufficient to encode an answer. Its payload has only the valid fields that were sent."""
    required = [field.name for field in fields(EVENTS[name]) if field.required] if name in EVENTS else []
    blank = {field: None if field == "tool_input" else "" for field in required}
    sent = {**whole, "hook_event_name": name}
    while True:
        try:
            event = parse({**blank, **sent})
        except EventError as error:
            del sent[re.split(r"[.\[]", error.path)[1]]
            continue
        event.__dict__["payload"] = sent
        return event


# One event of an agent, from its bytes to the response.

Fire = Callable[["Config", Event], Awaitable[Verdict]]  # runs the hooks of a configuration for an event

_BLOCKS = (Block.DENY, Block.NOT_HONOURED, Block.STOP, Block.MODEL)  # where a refusal has an effect
_DECISIVE = (Decision.DENY, Decision.ASK, Decision.DEFER)
_STARTS = ("SessionStart", "Setup")  # events that never come over HTTP
_DEEPEST = 3  # nested calls: a hook that calls billhook, which runs hooks that call billhook. More is a loop


class HookResponse(msgspec.Struct, frozen=True):
    """What the agent gets: exit code, output, and lines for the user."""

    code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""  # part of the answer in some dialects
    lines: tuple[str, ...] = ()  # for stderr: problems and notes for the user
    fallback: "HookResponse | None" = None  # the response if stdout can't be written: then the exit code must refuse

    @property
    def all_of_stderr(self) -> bytes:
        """The dialect's stderr, and the lines for the user."""
        if not self.lines:
            return self.stderr
        apart = b"\n" if self.stderr and not self.stderr.endswith(b"\n") and self.lines else b""
        return self.stderr + apart + lines_for_people(self.lines)


class HookServer:
    """Answers one event. Variables and folder are the caller's (`billhook.core.client_env`)."""

    may_be_another: ClassVar[bool] = True  # whether the caller may be another agent that reads Claude Code's settings

    def __init__(self, stdin: Callable[[], bytes], fire: Fire) -> None:
        """`stdin` returns the bytes of the event, `fire` runs the hooks."""
        self.arguments = Arguments()
        self.agent = ""  # the calling agent, once the event was read
        self.over = ""  # how the event arrived, if not through a command hook
        self._stdin, self._fire = stdin, fire
        self.stdin: bytes | None = None
        self.event: Event | None = None
        self.remains: Event | None = None  # the readable part of an invalid event
        self.config: Config | None = None
        self.read_files = True
        """False: `prepare` raises NotLoadedError if files have to be read, because that may delay other callers."""
        self.ends: float | None = None
        """When the agent stops waiting, on the monotonic clock. A caller that knows it sets it before `prepare`."""

    async def answer(self, argv: list[str]) -> HookResponse:
        """The response to the event. Never raises an Exception."""
        try:
            return await self._prepared(argv) or await self.judge()
        except Exception as error:
            return self.crashed(error)

    async def _prepared(self, argv: list[str]) -> HookResponse | None:
        return self.prepare(argv)

    # -- the usual path

    def prepare(self, argv: list[str]) -> HookResponse | None:
        """Read command line, event and configuration. Returns a response only if the hooks can't run."""
        began = time.monotonic()
        self._take(argv)
        if self.arguments.seconds is not None:
            ends = began + self.arguments.seconds
            self.ends = ends if self.ends is None else min(ends, self.ends)
        environ, here = client_env.environ(), _here()
        if "BILLHOOK_DEPTH" in environ and _depth(environ) >= _DEEPEST:
            return self.fail("billhook hook was called by one of its own hooks, three levels deep")
        try:
            self.event = self._read(environ, here)
        except MistypedError as error:
            return self.fail(error.message)
        except (EventError, OSError, ValueError) as error:
            why = error.message if isinstance(error, EventError) else str(error)
            return self.fail(f"the event on stdin can't be read: {why}", sure=isinstance(error, ContradictionError))
        folder = self._folder(environ) or here
        if not folder:
            return self.fail(
                "can't determine the project: the working directory no longer exists and the event has no `cwd`"
            )
        self.config = self._load(folder, read_files=self.read_files)
        doubt = self._doubt()
        return self.fail(doubt) if doubt else None

    def _take(self, argv: list[str]) -> None:
        self.arguments.take(argv)

    @property
    def is_synchronous(self) -> bool:
        """Whether, after `prepare`, all hooks are plain functions: `judge` needs no loop, task or timer."""
        assert self.config is not None and self.event is not None
        if self._may_come_twice or self.config.parallel:
            return False
        plan = self.config.plan
        return type(self.event) in plan.at_once or not plan.steps(self.event).waits

    @property
    def may_go_on(self) -> bool:
        """Whether, after `prepare`, a hook may answer later than the agent should wait: in the background, or as a
        program that answers `{"async": true}`."""
        assert self.config is not None and self.event is not None
        return any(step.may_answer_later for step in self.config.plan.steps(self.event))

    async def judge(self) -> HookResponse:
        """Run the hooks."""
        assert self.config is not None and self.event is not None
        if self.ends is not None:
            self._look_at_the_clock()
        if not self._may_come_twice:
            return self._encoded_response(await self._fire(self.config, self.event), self.config)
        judged = await self._judged_once(self.config, self.event)
        return self._response(self.event, judged.answer, judged.warnings, _notes(self.event, self.config, self.host))

    def judge_at_once(self) -> HookResponse | Coroutine[Any, Any, HookResponse]:
        """The same without a loop, if `is_synchronous`. A question that waits for a person needs one: then the
        coroutine, which has begun."""
        judging = self.judge()
        try:
            first = judging.send(None)
        except StopIteration as end:
            return cast("HookResponse", end.value)
        if first is None:  # it only lets others run
            return judging
        judging.close()
        raise AssertionError("a hook waits for something")

    def _look_at_the_clock(self) -> None:
        """Limit the hooks to the time that is left."""
        if self.arguments.seconds is not None and self.ends is not None:
            self.arguments.seconds = max(0.01, self.ends - time.monotonic())

    @property
    def _may_come_twice(self) -> bool:
        """Whether the same call may arrive through several settings files. Claude Code runs equal commands once, but
        the user's and the project's entry differ."""
        if self.agent != "claude" or self.config is None or self.event is None:
            return self.agent in OTHERS
        return self.config.installed.get(self.event.hook_event_name, 0) > 1

    async def _judged_once(self, config: "Config", event: Event) -> "SharedVerdict":
        """The answer of the hooks, if the same call may arrive through several settings files."""
        from billhook.config.recorder import encoded
        from billhook.serve.dedupe import SharedCall, SharedVerdict, call_of

        async def judged() -> SharedVerdict:
            self._look_at_the_clock()
            verdict = await self._fire(config, event)
            answer = verdict.as_answer(self.dialect.meanings.join)
            if answer.decision in (Decision.ASK, Decision.DENY):  # a refusal explains how to allow the call
                answer = encoded(verdict, self.dialect).answer
            answer = brought(config.root, self.dialect, event, answer)
            return SharedVerdict(answer, tuple(_redacted(verdict.warnings)))

        call = call_of(self.agent, event, self.stdin or b"", config, self.arguments)
        seconds = self.arguments.seconds_for_hooks
        return await (judged() if call is None else SharedCall(config.root, call, seconds).judged(judged))

    @property
    def host(self) -> str:
        """The calling agent, for the log."""
        return self.over or self.agent or self.arguments.dialect

    @property
    def dialect_name(self) -> str:
        """The name of the dialect in use."""
        return dialect_of(self.agent or self.arguments.dialect)

    @property
    def dialect(self) -> "Dialect":
        return agents.dialect(self.dialect_name)

    def _read(self, env: Mapping[str, str], here: str) -> Event:
        self.stdin = b""  # after a signal during the read, stdin is not read again
        self.stdin = self._stdin()
        if not here:  # PWD may name a folder that no longer exists
            env = {name: value for name, value in env.items() if name != "PWD"}
        said, name = self.arguments.dialect, self.arguments.event
        if not self.may_be_another:
            return received(self.dialect, self.stdin, env, name)
        event, self.agent = detect_event(said, self.stdin, env, name)
        return event

    def _folder(self, environ: Mapping[str, str]) -> str:
        """The agent's folder, if the event or the variables contain it."""
        event = self.event or self.remains
        project = environ.get("CLAUDE_PROJECT_DIR")
        if not project or not os.path.isdir(project):
            return (_in_workspace(event) if event is not None else "") or project or ""
        if event is not None and event.hook_event_name in _STARTS:
            began_in(event.session_id, project)  # for the events that come over HTTP
        return project

    def _load(self, folder: str = "", *, read_files: bool = True) -> "Config":
        if not folder:
            environ = client_env.environ()
            folder = self._folder(environ) or _here() or environ.get("PWD", "/")
        over_http = self.host.startswith("http:") and bool(self.event and self.event.transcript_path)
        speaker = loader.CallerFormat(self.host.removeprefix("http:"), over_http)
        config = loader.load_for_cwd(folder, self.arguments.files, host=speaker, read_files=read_files)
        if self.arguments.on_failure == "allow" and config.unreadable:
            config = _with_hooks(config, lambda hook: hook.name != "unreadable-file")
        return _for_part(config, self.arguments.event, self.dialect_name) if self.arguments.event else config

    def _doubt(self) -> str:
        """Why the configuration is unknown; empty: it is known, or failures are allowed."""
        assert self.config is not None and self.event is not None
        if self.arguments.on_failure == "allow" or not (self.config.unreadable or self.config.pending):
            return ""
        for read in self.config.unreadable:
            named = read.source.layer == "explicit"
            if self.event.gates and (named or self.arguments.on_failure == "deny"):
                return f"{read.source.path} can't be read: {read.findings[0].message}"
        return _lost_approvals(self.config, self.event)

    def _encoded_response(self, verdict: Verdict, config: "Config") -> HookResponse:
        answer, written = NOTHING, None
        if verdict.has_content or verdict.reason:
            from billhook.config.recorder import encoded

            folded = encoded(verdict, self.dialect)
            answer, written = folded.answer, folded.written
        warnings, notes = _redacted(verdict.warnings), _notes(verdict.about, config, self.host)
        return self._response(verdict.about, answer, warnings, notes, written)

    def _response(
        self,
        event: Event,
        answer: Answer,
        warnings: Iterable[str],
        notes: Iterable[str] = (),
        written: "ExitResult | None" = None,
    ) -> HookResponse:
        """The response in the agent's dialect. If stderr is part of it, only problems are added, not notes."""
        if answer.updated_input is not None and self.agent in OTHERS:
            renamed = with_sent_names(self.agent, self.stdin or b"", answer)
            answer, written = renamed, written if renamed is answer else None
        if written is None:
            written = self.dialect.write_exit(event, answer)
        stderr = written.exit.stderr
        lines = list(warnings)
        if written.lost or written.held:
            losses = [*written.lost, *(self._hold_context(event, written.held) if written.held else ())]
            lines += [f"the `{self.dialect_name}` dialect can't express everything: {lost}" for lost in losses]
        if stderr:
            lines = [line for line in lines if line.encode("utf-8", "replace") not in stderr]
        else:
            lines += [f"note: {note}" for note in notes]
        response = HookResponse(written.exit.code or 0, written.exit.stdout, stderr, tuple(lines))
        if answer is NOTHING or not (answer.objects or answer.rewrites or answer.decision in _DECISIVE):
            return response
        gone = f"can't write the answer to stdout: {answer.reason or answer.decision.value}"
        code = self.refusing_code if event.gates else response.code
        fallback = replace(response, code=code, stdout=b"", lines=(gone, *lines))
        return replace(response, fallback=fallback)

    def _hold_context(self, event: Event, text: str) -> list[str]:
        """Keep context for an event that can carry it: what is lost."""
        lost = hold_context(self.config.root, event, text) if self.config is not None else "context"
        return [lost] if lost else []

    # -- failures

    def crashed(self, error: BaseException) -> HookResponse:
        """The failure answer for an error."""
        if isinstance(error, UsageError):
            return self.fail(f"{error.message} ({error.hint})", sure=True)
        return self.fail(f"internal error: {type(error).__name__}: {error}")

    def fail(self, why: str, *, passing: int = 0, sure: bool = False) -> HookResponse:
        """The failure answer. `sure`: deny without checking for a gate."""
        event = self.event or self._guessed()
        on_failure = self.arguments.on_failure
        denies = on_failure == "deny" or (not on_failure and (sure or self._gated(event)))
        unrecorded = self._record(event, why, denies)
        lines = [why, *([f"this was not logged: {_plainly(unrecorded)}"] if unrecorded is not None else [])]
        if not denies and not getattr(unrecorded, "deny", False):
            lines.append("the event continues without being checked")
            message = self._notice(event, why) if event is not None and not passing else ""
            if event is None or not message:
                return HookResponse(passing, self._silence(event), lines=tuple(lines))
            return self._response(event, Answer(message=message), lines)
        if event is None:
            return HookResponse(self.last_code, lines=tuple(lines))
        refused = Answer(decision=Decision.DENY, reason=f"billhook: {why}")
        return self._response(event, refused if self._can_refuse(event) else NOTHING, lines)

    def _silence(self, event: Event | None) -> bytes:
        """What the dialect prints without an opinion."""
        silent = getattr(self.dialect, "silent", None)
        return silent(event).stdout if silent is not None and event is not None else b""

    def _notice(self, event: Event, why: str) -> str:
        """The message for the user about an unchecked event; empty if it can't be shown, or already was."""
        from billhook.config.notices import Notices

        try:
            return Notices(self.config or self._load(), self.host).unjudged(event, why)
        except Exception:  # the configuration may be what is broken
            return ""

    def _can_refuse(self, event: Event) -> bool:
        """Whether a refusal of the event has an effect other than keeping the agent running."""
        row = getattr(self.dialect, "row", None)  # agents have a table of their capabilities
        return event.block in _BLOCKS if row is None else bool(row(event).deny)

    def _record(self, event: Event | None, why: str, denies: bool) -> BaseException | None:
        """Log an event that continued or was refused without being checked: the error if that fails."""
        try:
            config = self.config or self._load()
            if config.recording is not None:
                decision = Decision.DENY if denies else Decision.NONE
                about = event or self.remains
                assert about is not None
                unjudged = Verdict(about, decision=decision, reason=why, failed_open=int(not denies))
                config.recording.observer(self.host)(unjudged)
        except BaseException as error:  # the answer must be given even if logging fails
            return error
        return None

    @property
    def last_code(self) -> int:
        """The exit code if nothing else can be written."""
        return 0 if self.arguments.on_failure == "allow" else self.refusing_code

    @property
    def refusing_code(self) -> int:
        """The exit code that refuses."""
        return 1 if self.dialect_name == "lesson" else 2

    def _guessed(self) -> Event | None:
        """An event of the probable kind, with its readable fields; None if the kind is unknown."""
        if self.stdin is None:
            try:
                self.stdin = self._stdin()
            except OSError:
                self.stdin = b""
        event = guessed(self.stdin or b"", self.arguments.event)
        self.remains = event or readable(self.stdin or b"")
        return event

    def _gated(self, event: Event | None) -> bool:
        """Whether a gate is configured for the event, or that is unknown. A guard that is off does not count."""
        from billhook.config.builtin_hooks import is_guard_off
        from billhook.config.declaration import FixedAnswer

        try:
            config = self.config or self._load()
            if _lost_approvals(config, event):
                return True
        except BaseException:
            return True
        guards = [hook.events for hook in config.hooks if hook.gate and not is_guard_off(hook)]
        guards += [
            entry.declared.events
            for entry in config.entries
            if entry.state == "runs"
            and not entry.declared.shadow
            and isinstance(entry.declared.action, FixedAnswer)
            and entry.declared.action.decision in _DECISIVE
        ]
        unread = any(read.source.layer == "explicit" for read in config.unreadable)
        return unread or any(_about(events, event) for events in guards)


def _in_workspace(event: Event) -> str:
    """The folder of an event; if it is outside the agent's workspace, the first folder of that."""
    said = event.payload.get("workspace_roots")
    roots = [root for root in said if isinstance(root, str) and os.path.isdir(root)] if isinstance(said, list) else []
    if not roots or any(f"{event.cwd}/".startswith(f"{root.rstrip('/')}/") for root in roots):
        return event.cwd
    return roots[0]


def _lost_approvals(config: "Config", event: Event | None) -> str:
    """Why approvals can't be read, if a gate for this event has none: it may have been approved."""
    gates = [entry for entry in config.pending if entry.declared.gate and _about(entry.declared.events, event)]
    doubts = loader.doubts(config) if gates else []
    return f"approvals can't be read: {doubts[0]}" if doubts else ""


def _about(events: tuple[str, ...], event: Event | None) -> bool:
    """Whether a hook for these events runs for this one; for an unknown one, whether it may run."""
    if not events:
        return True
    if event is not None:
        return event.hook_event_name in events
    return any(name not in EVENTS or EVENTS[name].can_block for name in events)


def _redacted(warnings: list[str]) -> list[str]:
    """Warnings without the secrets that a hook may have printed: an agent stores what it reads here."""
    if not warnings:
        return warnings
    from billhook.store.redaction import Redactor

    redactor = Redactor()
    return [redactor.text(line) for line in warnings]


def _plainly(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, BillhookError):
        return f"{error.place}: {error.message}" if error.place else error.message
    return f"{type(error).__name__}: {error}"


def _notes(event: Event, config: "Config", host: str) -> list[str]:
    name = event.hook_event_name
    notes = []
    if name not in EVENTS and not any(name in entry.declared.events for entry in config.entries):
        notes.append(f"unknown event `{name[:_LONGEST]}`, and no configured hook listens for it")
    if config.pending or config.problems:
        from billhook.config.notices import notes as of_config

        notes += of_config(config, host)
    if config.recording is not None and config.recording.problem:
        notes.append(f"secrets are redacted with a key that only this process has: {config.recording.problem}")
    return notes


def _with_hooks(config: "Config", keep: Callable[[Hook], object]) -> "Config":
    """The configuration with only some of its hooks."""
    from billhook.engine.plan import Plan

    kept = [hook for hook in config.hooks if keep(hook)]
    names = {hook.name for hook in kept}
    hooks = tuple(replace(hook, after=tuple(name for name in hook.after if name in names)) for hook in kept)
    return replace(config, hooks=hooks, plan=Plan(hooks))


def _for_part(config: "Config", name: str, dialect_name: str) -> "Config":
    """Only the hooks for a narrower event, if an entry is for that event beside the whole one: the others listen for
    the whole event."""
    if whole_event(name, dialect_name) == name or not AGENTS[dialect_name].parts:
        return config
    from billhook.config.declaration import BUILTINS
    from billhook.config.entry import Part

    always = {"unreadable-file", *BUILTINS} - {"rate-limit"}  # rate-limit counts each call once
    return _with_hooks(config, lambda hook: isinstance(hook.condition, Part) or hook.name in always)


def _here() -> str:
    """The caller's working directory; empty if it no longer exists."""
    try:
        return client_env.getcwd()
    except OSError:
        return ""


def _depth(environ: Mapping[str, str]) -> int:
    """How many billhook hooks are between this process and the agent."""
    try:
        return int(environ.get("BILLHOOK_DEPTH") or 0)
    except ValueError:
        return 0
