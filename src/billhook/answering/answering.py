"""One event of an agent, from its bytes to the answer of its hook.

The failure rule, for an event or a configuration that can't be read, an event whose name is mistyped or whose folder
nobody can tell, hooks that call us in a circle, a signal, and a crash of ours: one clear line on stderr, and
`--on-failure deny` denies, `--on-failure allow` lets pass; without it the event is denied as soon as a gate is
configured for it (or nobody can tell), and passes visibly otherwise. A failure never keeps an agent going that wants to
stop.
"""

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

import msgspec

from billhook import caller
from billhook.agents import dialect_of
from billhook.agents.detect import OTHERS, with_sent_names
from billhook.answering.arguments import Arguments
from billhook.answering.received import MistypedError, about_unknown, guessed, readable, received, received_from
from billhook.answering.saying import lines_for_people
from billhook.answers import NOTHING, Answer, Decision, Verdict
from billhook.errors import BillhookError, ContradictionError, EventError, UsageError
from billhook.events import EVENTS, Block, Event
from billhook.later import later

if TYPE_CHECKING:
    from billhook import agents
    from billhook.agents import Dialect
    from billhook.agents.child import Written
    from billhook.answering.once import Judged
    from billhook.config import Config, configured
    from billhook.config import inside as insides
    from billhook.config.inside import Inside
else:
    agents = later("billhook.agents")
    configured = later("billhook.config.configured")
    insides = later("billhook.config.inside")

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
    """One event. Lives as long as that takes; everything it depends on is asked of the caller (`billhook.caller`)."""

    may_be_another: ClassVar[bool] = True  # whether agents that read Claude Code's settings come this way, too

    def __init__(self, stdin: Callable[[], bytes], fire: Fire) -> None:
        """`stdin` gives the bytes of the event, `fire` asks the hooks."""
        self.arguments = Arguments()
        self.agent = ""  # who really calls, once the event was read
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
        self.arguments.take(argv)
        if self.arguments.seconds is not None:
            ends = began + self.arguments.seconds
            self.ends = ends if self.ends is None else min(ends, self.ends)
        environ, here = caller.environ(), _here()
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

    @property
    def nobody_waits(self) -> bool:
        """Whether, after `prepare`, all hooks are plain functions: `judge` needs no loop, task or timer."""
        assert self.config is not None and self.event is not None
        return not (self._may_come_twice or self.config.parallel or self.config.plan.steps(self.event).waits)

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

    async def _judged_once(self, config: "Config", event: Event) -> "Judged":
        """What the hooks say, where the same call may come through several files."""
        from billhook.answering.held import brought
        from billhook.answering.once import Judged, Once, call_of

        async def judged() -> Judged:
            self._look_at_the_clock()
            verdict = await self._ask(config, event)
            answer = brought(config.root, self.dialect, event, verdict.as_answer(self.dialect.meanings.join))
            return Judged(answer, tuple(_discreet(verdict.warnings)))

        call = call_of(self.agent, event, self.stdin or b"", config, self.arguments)
        seconds = self.arguments.seconds_for_hooks
        return await (judged() if call is None else Once(config.root, call, seconds).judged(judged))

    @property
    def host(self) -> str:
        """Whom we serve, for the log."""
        return self.agent or self.arguments.dialect

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
            from billhook.answering.session_folder import began_in

            began_in(event.session_id, project)  # for the events that come over HTTP
        return project

    def _load(self, folder: str = "", *, read_files: bool = True) -> "Config":
        if not folder:
            environ = caller.environ()
            folder = self._folder(environ) or _here() or environ.get("PWD", "/")
        config = configured.load(folder, self.arguments.files, host=self._inside(), read_files=read_files)
        if self.arguments.on_failure == "allow" and config.unreadable:
            config = _without_stand_ins(config)
        return _for_part(config, self.arguments.event, self.spoken) if self.arguments.event else config

    def _inside(self) -> "Inside":
        """The agent that we are inside of, as far as anybody can tell."""
        host = self.host
        over_http = host.startswith("http:") and bool(self.event and self.event.transcript_path)
        return insides.seen(host.removeprefix("http:"), caller.environ(), over_http=over_http)

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
            from billhook.config.unsaid import encoded

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
            lines += [f"the `{self.spoken}` dialect can't say everything: {lost}" for lost in unsaid]
        if spoken:
            lines = [line for line in lines if line.encode("utf-8", "replace") not in spoken]
        else:
            lines += [f"note: {note}" for note in notes]
        heard = HookResponse(written.exit.code or 0, written.exit.stdout, spoken, tuple(lines))
        if answer is NOTHING or not (answer.objects or answer.rewrites or answer.decision in _HELD):
            return heard
        gone = f"the answer could not be written to stdout: {answer.reason or answer.decision.value}"
        code = self.refusing_code if event.gates else heard.code
        unheard = msgspec.structs.replace(heard, code=code, stdout=b"", lines=(gone, *lines))
        return msgspec.structs.replace(heard, unheard=unheard)

    def _hold(self, event: Event, text: str) -> list[str]:
        """Let context wait for an event that can carry it; what is lost of it."""
        from billhook.answering.held import hold

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
        """Whether a gate is configured for the event, or nobody can tell. One that nobody asked for does not count."""
        from billhook.config.declared import Say

        try:
            config = self.config or self._load()
            if _lost_approvals(config, event):
                return True
        except BaseException:
            return True
        guards = [hook.events for hook in config.hooks if hook.gate and hook.name != "self-protection"]
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
    doubts = configured.doubts(config) if gates else []
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
    notes = [] if event.hook_event_name in EVENTS else [*_strange(event.hook_event_name, config)]
    if config.pending or config.problems:
        notes += configured.notes(config, host)
    if config.recording is not None and config.recording.problem:
        notes.append(f"secrets are taken out under a key of this process only: {config.recording.problem}")
    return notes


def _strange(event: str, config: "Config") -> Iterable[str]:
    """A line about an event that nobody has heard of: it may be one that guards were meant for."""
    if not any(event in entry.declared.events for entry in config.entries):
        yield about_unknown(event)


def _without_stand_ins(config: "Config") -> "Config":
    """The same without what stands in for files that can't be read."""
    from msgspec.structs import replace

    from billhook.plan import Plan

    hooks = tuple(hook for hook in config.hooks if hook.name != "unreadable-file")
    return replace(config, hooks=hooks, plan=Plan(hooks))


def _for_part(config: "Config", name: str, spoken: str) -> "Config":
    """The hooks for a narrower event alone, where an entry is for just that: the others hear of the whole event."""
    from billhook.agents.names import whole

    if whole(name, spoken) == name:
        return config
    from msgspec.structs import replace

    from billhook.config.keys import BUILTINS
    from billhook.config.parts import Part
    from billhook.plan import Plan

    always = {"unreadable-file", *BUILTINS} - {"rate-limit"}  # that counts each call once
    kept = [hook for hook in config.hooks if isinstance(hook.condition, Part) or hook.name in always]
    names = {hook.name for hook in kept}
    hooks = tuple(replace(hook, after=tuple(name for name in hook.after if name in names)) for hook in kept)
    return replace(config, hooks=hooks, plan=Plan(hooks))


def _here() -> str:
    """The caller's working directory; nothing when it is gone."""
    try:
        return caller.getcwd()
    except OSError:
        return ""


def _depth(environ: Mapping[str, str]) -> int:
    """How many hooks of billhook's stand between us and the agent."""
    try:
        return int(environ.get("BILLHOOK_DEPTH") or 0)
    except ValueError:
        return 0
