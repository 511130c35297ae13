"""One event of an agent, from its bytes to the answer of its hook: for the daemon, HTTP and `billhook hook`."""

import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import msgspec
from msgspec.structs import fields, replace

from billhook import agents
from billhook.agents import AGENTS, dialect_of
from billhook.agents.child import Dialect
from billhook.agents.inbound import DOUBTFUL, OTHERS, canonical_event, who_calls, with_sent_names
from billhook.agents.inbound import whole as whole_event
from billhook.core import client_env, strictjson
from billhook.core.answers import NOTHING, Answer, Decision, Verdict
from billhook.core.errors import BillhookError, ContradictionError, EventError, StrictJSONError, UsageError
from billhook.core.events import EVENTS, Block, Event, parse
from billhook.core.hook import Hook
from billhook.core.lazy import later, pattern
from billhook.core.text import lines_for_people, nearest
from billhook.store.files import StoreError, state_root
from billhook.store.state import LARGEST_HELD, FileState, Held

if TYPE_CHECKING:
    from billhook.agents.child import Written
    from billhook.config import loader
    from billhook.config.config import Config
    from billhook.serve.dedupe import SharedVerdict
else:
    loader = later("billhook.config.loader")


DIALECTS = (*AGENTS, "universal", "claw", "claw-text", "lesson")
"""What `--as` takes."""
_MARGIN = 0.1
_SHORTEST_MARGIN, _LONGEST_MARGIN = 0.2, 0.5
_KNOWN = {"--as": DIALECTS, "--on-failure": ("allow", "deny"), "--from": ("user", "project")}
_FIELDS = {"--as": "dialect", "--on-failure": "on_failure", "--from": "source"}
_OPTIONS = ("--as", "--on-failure", "--config", "--deadline", "--from")


class Arguments(msgspec.Struct):
    """What an agent's hook was called with."""

    dialect: str = "claude"
    on_failure: str = ""
    """What becomes of an event that could not be judged; nothing: it is denied where a gate is configured for it."""
    files: list[str] = []
    event: str = ""  # the event's name, where the agent gives it on the command line
    seconds: float | None = None  # how long the agent waits for the answer
    source: str = ""  # whose file the entry stands in, `user` or `project`; empty: it doesn't say

    @property
    def seconds_for_hooks(self) -> float | None:
        """How long hooks may take: somebody has to end those that are late, and to write down and carry what was said,
        before the time is over."""
        if self.seconds is None:
            return None
        margin = min(max(self.seconds * _MARGIN, _SHORTEST_MARGIN), _LONGEST_MARGIN)
        return self.seconds - min(margin, self.seconds / 2)

    def take(self, argv: list[str]) -> None:
        """Read a command line. Raises UsageError; what stands before the fault was read."""
        said = tuple(argv)
        known = _taken.get(said)
        if known is None:
            self._take_words(list(argv))
            if len(_taken) >= _MOST_TAKEN:
                _taken.clear()
            _taken[said] = replace(self, files=list(self.files))
            return
        self.dialect, self.on_failure, self.files = known.dialect, known.on_failure, list(known.files)
        self.event, self.seconds, self.source = known.event, known.seconds, known.source

    def _take_words(self, words: list[str]) -> None:
        while words:
            word = words.pop(0)
            option, equals, value = word.partition("=")
            if not word.startswith("-"):
                if self.event:
                    raise UsageError(f"`{word}` is one argument too many", hint="give one event at most")
                self.event = word
            elif option not in _OPTIONS:
                raise UsageError(f"no option `{word}`", hint=f"{', '.join(_OPTIONS)} are known")
            elif not equals and not words:
                raise UsageError(f"`{option}` needs a value", hint="`billhook hook --help` shows how it is meant")
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


_taken: dict[tuple[str, ...], Arguments] = {}
"""The command lines that were read last: an agent says the same again and again."""
_MOST_TAKEN = 64


def _seconds(text: str) -> float:
    if not text.isdecimal() or not text.isascii() or len(text) > 9 or int(text) < 1:
        raise UsageError(f"--deadline is `{text}`", hint="a number of milliseconds, as in --deadline 5000")
    return int(text) / 1000


# Context that an event can't carry in an agent's dialect:


def brought(root: str, dialect: Dialect, event: Event, answer: Answer) -> Answer:
    """The answer with what waited for an event like this. Where it can't be carried either, it is held once more."""
    row = getattr(dialect, "row", None)
    if row is None or not event.session_id or answer.objects or not row(event).context:
        return answer
    try:
        texts = Held(FileState(Path(root))).take(event.session_id)
    except StoreError:
        return answer
    joined = dialect.meanings.join.join([*texts, *filter(None, [answer.context])])
    return replace(answer, context=joined) if texts else answer


def hold(root: str, event: Event, text: str) -> str:
    """Let a text wait for a later event of the session; why it can't, or what had to go for it, when that is so."""
    if not event.session_id:
        return "context can't wait for another event: this one names no session"
    if len(text) > LARGEST_HELD:
        return f"context of more than {LARGEST_HELD:,} characters can't wait for another event"
    from billhook.store.redaction import Redactor

    if Redactor().redacted(text).texts:
        return "context with a secret in it is not written down to wait for another event"
    try:
        gone = Held(FileState(Path(root))).keep(event.session_id, text)
    except StoreError as error:
        return f"context can't wait for another event: {error.place}: {error.message}"
    return f"{gone} older texts that waited for another event are gone" if gone else ""


# The folder in which a session began:

KIND: Final = "folders"
_MOST: Final = 1024
_known: dict[tuple[str, str], str] = {}


def began_in(session: str, folder: str) -> str:
    """The folder in which the session began; this one, when it was not heard of before."""
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


# The event as an agent hands it to its hook, whatever its spelling of the event's name.

_NAME = pattern(rb'"hook_event_name"\s*:\s*"([A-Za-z0-9_.-]{1,100})"')
_LONGEST = 100
_LIKELY = 0.75
"""How like a known name one has to be to count as a slip; configuration files are read by the same measure."""


class MistypedError(BillhookError):
    """The name is none that we know, and so like one that it is no doubt a slip."""


def received_from(said: str, stdin: bytes, env: Mapping[str, str], argument: str) -> tuple[Event, str]:
    """The event on stdin, in the dialect of the agent that `--as` named; where that is Claude Code, of the one that
    really calls: and which agent that is. Raises as `received` does."""
    dialect = agents.dialect(said)
    if said != "claude":
        return received(dialect, stdin, env, argument), said
    try:
        event = received(dialect, stdin, env, argument)
        if event.hook_event_name in EVENTS and DOUBTFUL.isdisjoint(event.payload):
            return event, said
        agent = who_calls(said, event.payload, env)
    except BillhookError:  # what Claude Code never sends another agent may well
        agent = who_calls(said, _object_in(stdin) or {}, env)
        if agent == said:
            raise
    return (event, agent) if agent == said else _from_another(agent, stdin, env, argument)


def _from_another(agent: str, stdin: bytes, env: Mapping[str, str], argument: str) -> tuple[Event, str]:
    """The event of an agent that reads another one's settings."""
    payload = _object_in(stdin) or {}
    record = agents.agent(agent)
    if record.payload_of is not None:
        stdin = strictjson.written(record.payload_of(payload))
    name = argument or record.unnamed_event(payload)
    return received(agents.dialect(dialect_of(agent)), stdin, env, name), agent


def received(dialect: "Dialect", stdin: bytes, env: Mapping[str, str], argument: str) -> Event:
    """The event on stdin, under its canonical name; `argument` names it where the JSON does not. It keeps the text of
    its sender, for hooks of the same agent.

    EventError when it can't be read, and MistypedError when its name is nearly that of an event.
    """
    try:
        event = dialect.read_call(stdin, env)
    except EventError as error:
        if error.path != "$.hook_event_name" or not argument:
            raise
        sent, stdin = stdin, _with_name(stdin, argument, dialect.meanings.name)
        event = dialect.read_call(stdin, env)
        if dialect.meanings.naming in ("canonical", "seed"):  # hooks of these look for the name in the JSON
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
    if near := probable(name):
        raise MistypedError(f"there is no event `{name[:_LONGEST]}`; did you mean `{near}`?")
    return event


def canonical(name: str, agent: str = "") -> str:
    """The known event that any agent calls so, in whatever case and with or without `_` and `-`; nothing when none
    does."""
    if name in EVENTS:
        return name
    return canonical_event(name, agent)


def probable(name: str) -> str:
    """The known event that was probably meant; nothing when the name is like none."""
    return canonical(name) or nearest(name[:_LONGEST], EVENTS, _LIKELY)


def _with_name(stdin: bytes, name: str, agent: str) -> bytes:
    """Some agents' payload does not say which event it is."""
    rest = stdin.lstrip()[1:].lstrip()
    comma = b"" if rest.startswith(b"}") else b","
    return b'{"hook_event_name":' + strictjson.encode(canonical(name, agent) or name) + comma + rest


def _respelt(dialect: "Dialect", stdin: bytes, env: Mapping[str, str], name: str) -> Event:
    """Read it again with its canonical name: that decides which fields it has."""
    if not stdin.strip():
        return dialect.read_call(stdin, {**env, "HOOK_EVENT": name})
    whole = strictjson.loads_leniently(stdin, max_depth=400)
    named = {"hook_event_name": name, "original_event_name": _name_in(whole)}
    return dialect.read_call(strictjson.encode({**whole, **named}), env)


def guessed(stdin: bytes, argument: str) -> Event | None:
    """An event of the kind that this probably is, with what of it can be read; None when nobody knows its kind."""
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
    """What can be read of an event whose kind nobody knows."""
    whole = _object_in(stdin) or {}
    return _likeness(_name_in(whole) or "unknown", whole)


def _object_in(stdin: bytes) -> dict[str, Any] | None:
    """The JSON object that was sent; None when the text is broken. In that the name of another event may stand, too: in
    a tool's input."""
    try:
        whole = strictjson.loads(stdin, max_depth=400, max_bytes=None)
    except StrictJSONError:
        return None
    return whole if isinstance(whole, dict) else {}


def _name_in(whole: Mapping[str, Any]) -> str:
    name = whole.get("hook_event_name")
    return name if isinstance(name, str) else ""


def _likeness(name: str, whole: Mapping[str, Any]) -> Event:
    """An event of that name: enough to word an answer to it. Its payload has the fields that are as they should be,
    and nothing that was not sent."""
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


# One event of an agent, from its bytes to the answer of its hook.

Fire = Callable[["Config", Event], Awaitable[Verdict]]  # asks the hooks of a configuration about an event

_BLOCKS = (Block.DENY, Block.NOT_HONOURED, Block.STOP, Block.MODEL)  # where a refusal has a reader
_HELD = (Decision.DENY, Decision.ASK, Decision.DEFER)
_STARTS = ("SessionStart", "Setup")  # events that never come over HTTP
_DEEPEST = 3  # hooks that call billhook, which calls hooks, that call billhook: from here on it is a circle


class HookResponse(msgspec.Struct, frozen=True):
    """What the agent gets: exit code, output, and lines for people."""

    code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""  # part of the answer in some dialects
    lines: tuple[str, ...] = ()  # for people who read stderr: what went wrong, and what they ought to know
    unheard: "HookResponse | None" = None
    """What to say when stdout can't be written: a refusal that nobody reads must be in the exit code."""

    @property
    def all_of_stderr(self) -> bytes:
        """What the dialect says there, and the lines for people."""
        if not self.lines:
            return self.stderr
        apart = b"\n" if self.stderr and not self.stderr.endswith(b"\n") and self.lines else b""
        return self.stderr + apart + lines_for_people(self.lines)


class Answering:
    """One event. Lives as long as that takes; variables and folder are the caller's (`billhook.core.client_env`)."""

    may_be_another: ClassVar[bool] = True  # whether agents that read Claude Code's settings come this way, too

    def __init__(self, stdin: Callable[[], bytes], fire: Fire) -> None:
        """`stdin` gives the bytes of the event, `fire` asks the hooks."""
        self.arguments = Arguments()
        self.agent = ""  # who really calls, once the event was read
        self.over = ""  # how the event came, where it did not come to a command hook
        self._stdin, self._ask = stdin, fire
        self.stdin: bytes | None = None
        self.event: Event | None = None
        self.remains: Event | None = None  # what can be read of an event that can't be read as a whole
        self.config: Config | None = None
        self.read_files = True
        """False: `prepare` raises NotLoadedError where files have to be read, which may keep other callers waiting."""
        self.ends: float | None = None
        """When the agent stops waiting, on the monotonic clock. Who knows it earlier than the command line says so."""

    async def answer(self, argv: list[str]) -> HookResponse:
        """The answer to the event, whatever happens."""
        try:
            return await self._prepared(argv) or await self.judge()
        except Exception as error:
            return self.crashed(error)

    async def _prepared(self, argv: list[str]) -> HookResponse | None:
        return self.prepare(argv)

    # -- the usual way

    def prepare(self, argv: list[str]) -> HookResponse | None:
        """Read command line, event and configuration. An answer means that the hooks can't be asked."""
        began = time.monotonic()
        self._take(argv)
        if self.arguments.seconds is not None:
            ends = began + self.arguments.seconds
            self.ends = ends if self.ends is None else min(ends, self.ends)
        environ, here = client_env.environ(), _here()
        if "BILLHOOK_DEPTH" in environ and _depth(environ) >= _DEEPEST:
            return self.fail("billhook hook is called by a hook of billhook's own, three deep")
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
                "the working directory is gone, and the event names none: nobody can tell whose hooks apply"
            )
        self.config = self._load(folder, read_files=self.read_files)
        doubt = self._doubt()
        return self.fail(doubt) if doubt else None

    def _take(self, argv: list[str]) -> None:
        self.arguments.take(argv)

    @property
    def nobody_waits(self) -> bool:
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
        """Ask the hooks."""
        assert self.config is not None and self.event is not None
        if self.ends is not None:
            self._look_at_the_clock()
        if not self._may_come_twice:
            return self._said(await self._ask(self.config, self.event), self.config)
        judged = await self._judged_once(self.config, self.event)
        return self._heard(self.event, judged.answer, judged.warnings, _notes(self.event, self.config, self.host))

    def judge_at_once(self) -> HookResponse:
        """The same without a loop, where `nobody_waits`."""
        judging = self.judge()
        try:
            judging.send(None)
        except StopIteration as end:
            return cast("HookResponse", end.value)
        judging.close()
        raise AssertionError("a hook waits for something")

    def _look_at_the_clock(self) -> None:
        """The hooks have what is left of the time."""
        if self.arguments.seconds is not None and self.ends is not None:
            self.arguments.seconds = max(0.01, self.ends - time.monotonic())

    @property
    def _may_come_twice(self) -> bool:
        """Whether the same call may be brought by several files. Claude Code runs the same command only once, but the
        user's entry and the project's are not the same."""
        if self.agent != "claude" or self.config is None or self.event is None:
            return self.agent in OTHERS
        return self.config.installed.get(self.event.hook_event_name, 0) > 1

    async def _judged_once(self, config: "Config", event: Event) -> "SharedVerdict":
        """What the hooks say, where the same call may come through several files."""
        from billhook.config.recorder import encoded
        from billhook.serve.dedupe import Once, SharedVerdict, call_of

        async def judged() -> SharedVerdict:
            self._look_at_the_clock()
            verdict = await self._ask(config, event)
            answer = verdict.as_answer(self.dialect.meanings.join)
            if answer.decision is Decision.ASK:  # for an agent that can't ask, it says how to allow the call
                answer = encoded(verdict, self.dialect).answer
            answer = brought(config.root, self.dialect, event, answer)
            return SharedVerdict(answer, tuple(_discreet(verdict.warnings)))

        call = call_of(self.agent, event, self.stdin or b"", config, self.arguments)
        seconds = self.arguments.seconds_for_hooks
        return await (judged() if call is None else Once(config.root, call, seconds).judged(judged))

    @property
    def host(self) -> str:
        """Whom we serve, for the log."""
        return self.over or self.agent or self.arguments.dialect

    @property
    def spoken(self) -> str:
        """The name of the dialect that is spoken."""
        return dialect_of(self.agent or self.arguments.dialect)

    @property
    def dialect(self) -> "Dialect":
        return agents.dialect(self.spoken)

    def _read(self, env: Mapping[str, str], here: str) -> Event:
        self.stdin = b""  # a signal that ends the reading must not make us begin again
        self.stdin = self._stdin()
        if not here:  # what the shell called this folder is no news about one that is gone
            env = {name: value for name, value in env.items() if name != "PWD"}
        said, name = self.arguments.dialect, self.arguments.event
        if not self.may_be_another:
            return received(self.dialect, self.stdin, env, name)
        event, self.agent = received_from(said, self.stdin, env, name)
        return event

    def _folder(self, environ: Mapping[str, str]) -> str:
        """The folder that the agent is in, as far as it says so."""
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
        speaker = loader.Speaker(self.host.removeprefix("http:"), over_http)
        config = loader.load_for_cwd(folder, self.arguments.files, host=speaker, read_files=read_files)
        if self.arguments.on_failure == "allow" and config.unreadable:
            config = _with_hooks(config, lambda hook: hook.name != "unreadable-file")
        return _for_part(config, self.arguments.event, self.spoken) if self.arguments.event else config

    def _doubt(self) -> str:
        """Why nobody can tell what is configured here; empty: it is known, or was chosen not to matter."""
        assert self.config is not None and self.event is not None
        if self.arguments.on_failure == "allow" or not (self.config.unreadable or self.config.pending):
            return ""
        for read in self.config.unreadable:
            named = read.source.layer == "explicit"
            if self.event.gates and (named or self.arguments.on_failure == "deny"):
                return f"{read.source.path} can't be read: {read.findings[0].message}"
        return _lost_approvals(self.config, self.event)

    def _said(self, verdict: Verdict, config: "Config") -> HookResponse:
        answer, written = NOTHING, None
        if verdict.speaks or verdict.reason:
            from billhook.config.recorder import encoded

            answer, written = encoded(verdict, self.dialect)
        warnings, notes = _discreet(verdict.warnings), _notes(verdict.about, config, self.host)
        return self._heard(verdict.about, answer, warnings, notes, written)

    def _heard(
        self,
        event: Event,
        answer: Answer,
        warnings: Iterable[str],
        notes: Iterable[str] = (),
        written: "Written | None" = None,
    ) -> HookResponse:
        """The answer in the agent's words. Where stderr is part of it, only what went wrong is added, and no notes."""
        if answer.updated_input is not None and self.agent in OTHERS:
            renamed = with_sent_names(self.agent, self.stdin or b"", answer)
            answer, written = renamed, written if renamed is answer else None
        if written is None:
            written = self.dialect.write_exit(event, answer)
        spoken = written.exit.stderr
        lines = list(warnings)
        if written.lost or written.held:
            unsaid = [*written.lost, *(self._hold(event, written.held) if written.held else ())]
            lines += [f"the `{self.spoken}` dialect can't express everything: {lost}" for lost in unsaid]
        if spoken:
            lines = [line for line in lines if line.encode("utf-8", "replace") not in spoken]
        else:
            lines += [f"note: {note}" for note in notes]
        heard = HookResponse(written.exit.code or 0, written.exit.stdout, spoken, tuple(lines))
        if answer is NOTHING or not (answer.objects or answer.rewrites or answer.decision in _HELD):
            return heard
        gone = f"the answer could not be written to stdout: {answer.reason or answer.decision.value}"
        code = self.refusing_code if event.gates else heard.code
        unheard = replace(heard, code=code, stdout=b"", lines=(gone, *lines))
        return replace(heard, unheard=unheard)

    def _hold(self, event: Event, text: str) -> list[str]:
        """Let context wait for an event that can carry it; what is lost of it."""
        lost = hold(self.config.root, event, text) if self.config is not None else "context"
        return [lost] if lost else []

    # -- when something is wrong

    def crashed(self, error: BaseException) -> HookResponse:
        """The failure answer for an error."""
        if isinstance(error, UsageError):
            return self.fail(f"{error.message} ({error.hint})", sure=True)
        return self.fail(f"a fault of billhook's own: {type(error).__name__}: {error}")

    def fail(self, why: str, *, passing: int = 0, sure: bool = False) -> HookResponse:
        """The failure answer. `sure`: nobody has to look whether there is a gate."""
        event = self.event or self._guessed()
        on_failure = self.arguments.on_failure
        denies = on_failure == "deny" or (not on_failure and (sure or self._gated(event)))
        unrecorded = self._record(event, why, denies)
        lines = [why, *([f"this is not in the log: {_plainly(unrecorded)}"] if unrecorded is not None else [])]
        if not denies and not getattr(unrecorded, "deny", False):
            lines.append("the event passes without having been judged")
            message = self._notice(event, why) if event is not None and not passing else ""
            if event is None or not message:
                return HookResponse(passing, lines=tuple(lines))
            return self._heard(event, Answer(message=message), lines)
        if event is None:
            return HookResponse(self.last_code, lines=tuple(lines))
        refused = Answer(decision=Decision.DENY, reason=f"billhook: {why}")
        return self._heard(event, refused if self._can_refuse(event) else NOTHING, lines)

    def _notice(self, event: Event, why: str) -> str:
        """What the user is told of an event that passes; nothing where that can't be shown, or was."""
        from billhook.config.notices import Notices

        try:
            return Notices(self.config or self._load(), self.host).unjudged(event, why)
        except Exception:  # the configuration may be what is broken
            return ""

    def _can_refuse(self, event: Event) -> bool:
        """Whether a refusal of the event has an effect, and not that of keeping an agent going."""
        row = getattr(self.dialect, "row", None)  # what an agent can be told stands in a table
        return event.block in _BLOCKS if row is None else bool(row(event).deny)

    def _record(self, event: Event | None, why: str, denies: bool) -> BaseException | None:
        """An event that passed without having been judged, or was refused for that, is in the log as well; or why it
        is not."""
        try:
            config = self.config or self._load()
            if config.recording is not None:
                decision = Decision.DENY if denies else Decision.NONE
                about = event or self.remains
                assert about is not None
                unjudged = Verdict(about, decision=decision, reason=why, failed_open=int(not denies))
                config.recording.observer(self.host)(unjudged)
        except BaseException as error:  # nothing is left to fail with: the answer is what matters now
            return error
        return None

    @property
    def last_code(self) -> int:
        """The exit code when there is nothing else left to say it with."""
        return 0 if self.arguments.on_failure == "allow" else self.refusing_code

    @property
    def refusing_code(self) -> int:
        """The exit code that refuses."""
        return 1 if self.spoken == "lesson" else 2

    def _guessed(self) -> Event | None:
        """An event of the kind that this probably is, with what of it can be read; None when nobody knows."""
        if self.stdin is None:
            try:
                self.stdin = self._stdin()
            except OSError:
                self.stdin = b""
        event = guessed(self.stdin or b"", self.arguments.event)
        self.remains = event or readable(self.stdin or b"")
        return event

    def _gated(self, event: Event | None) -> bool:
        """Whether a gate is configured for the event, or nobody can tell. A guard that is off does not count."""
        from billhook.config.builtin_hooks import is_guard_off
        from billhook.config.declaration import Say

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
            and isinstance(entry.declared.action, Say)
            and entry.declared.action.decision in _HELD
        ]
        unread = any(read.source.layer == "explicit" for read in config.unreadable)
        return unread or any(_about(events, event) for events in guards)


def _in_workspace(event: Event) -> str:
    """The folder of an event; outside the folders that an agent has open, the first of those."""
    said = event.payload.get("workspace_roots")
    roots = [root for root in said if isinstance(root, str) and os.path.isdir(root)] if isinstance(said, list) else []
    if not roots or any(f"{event.cwd}/".startswith(f"{root.rstrip('/')}/") for root in roots):
        return event.cwd
    return roots[0]


def _lost_approvals(config: "Config", event: Event | None) -> str:
    """Why approvals can't be read, where a gate for this event waits for one: it may have had it."""
    gates = [entry for entry in config.pending if entry.declared.gate and _about(entry.declared.events, event)]
    doubts = loader.doubts(config) if gates else []
    return f"approvals can't be read: {doubts[0]}" if doubts else ""


def _about(events: tuple[str, ...], event: Event | None) -> bool:
    """Whether a hook for these events is asked about this one; about an unknown one, whether it may be."""
    if not events:
        return True
    if event is not None:
        return event.hook_event_name in events
    return any(name not in EVENTS or EVENTS[name].can_block for name in events)


def _discreet(warnings: list[str]) -> list[str]:
    """What went wrong, without the secrets that a hook may have printed: an agent keeps what it reads here."""
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
    """What people ought to know beside the answer."""
    name = event.hook_event_name
    notes = []
    if name not in EVENTS and not any(name in entry.declared.events for entry in config.entries):
        notes.append(f"billhook knows no event `{name[:_LONGEST]}`, and no configured hook names it")
    if config.pending or config.problems:
        notes += loader.notes(config, host)
    if config.recording is not None and config.recording.problem:
        notes.append(f"secrets are taken out under a key of this process only: {config.recording.problem}")
    return notes


def _with_hooks(config: "Config", keep: Callable[[Hook], object]) -> "Config":
    """The same configuration with some of its hooks alone."""
    from billhook.engine.plan import Plan

    kept = [hook for hook in config.hooks if keep(hook)]
    names = {hook.name for hook in kept}
    hooks = tuple(replace(hook, after=tuple(name for name in hook.after if name in names)) for hook in kept)
    return replace(config, hooks=hooks, plan=Plan(hooks))


def _for_part(config: "Config", name: str, spoken: str) -> "Config":
    """The hooks for a narrower event alone, where an entry is for just that: the others hear of the whole event."""
    if whole_event(name, spoken) == name:
        return config
    from billhook.config.declaration import BUILTINS
    from billhook.config.entry import Part

    always = {"unreadable-file", *BUILTINS} - {"rate-limit"}  # that counts each call once
    return _with_hooks(config, lambda hook: isinstance(hook.condition, Part) or hook.name in always)


def _here() -> str:
    """The caller's working directory; nothing when it is gone."""
    try:
        return client_env.getcwd()
    except OSError:
        return ""


def _depth(environ: Mapping[str, str]) -> int:
    """How many hooks of billhook's stand between us and the agent."""
    try:
        return int(environ.get("BILLHOOK_DEPTH") or 0)
    except ValueError:
        return 0
