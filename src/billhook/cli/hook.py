"""`billhook hook`: be a hook. An event on stdin; the verdict on stdout, stderr and exit code, in an agent's dialect.

The failure rule, for an event or a configuration that can't be read, an event whose name is mistyped or whose folder
nobody can tell, hooks that call us in a circle, a signal, and a crash of ours: one clear line on stderr, and
`--on-failure deny` denies, `--on-failure allow` lets pass; without it the event is denied as soon as a gate is
configured for it (or nobody can tell), and passes visibly otherwise. A failure never keeps an agent going that wants to
stop.

A hook that answers later has nowhere to bring its answer in a process for one event: the verdict is written and stdout
closed, then the hook may end within its own time-out.

Start-up is felt at every tool call: nothing here imports click.
"""

import os
import signal
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from billhook import caller
from billhook.answers import NOTHING, Answer, Decision, Status, Verdict
from billhook.cli.pipes import all_of, hang_up, put, tell
from billhook.cli.received import MistypedError, about_unknown, guessed, readable, received
from billhook.errors import BillhookError, EventError, UsageError
from billhook.events import EVENTS, Block, Event

if TYPE_CHECKING:
    from billhook.config import Config
    from billhook.dialects import Dialect

DIALECTS = ("claude", "claw", "claw-text", "lesson")
_BLOCKS = (Block.DENY, Block.NOT_HONOURED, Block.STOP, Block.MODEL)
"""Where a refusal has a reader."""
_DEEPEST = 3
"""Hooks that call billhook, which calls hooks, that call billhook: from here on it is a circle."""


def main(argv: list[str]) -> int:
    """Answer one event; the exit code. Never raises, and never ends with a code that means less than the answer."""
    run = _Run()
    try:
        _listen(run.caught)
        run.take(argv)
        return run.answer()
    except BaseException as error:  # a bare traceback would be "exit code 1", which agents let pass
        try:
            return run.crashed(error)
        except BaseException:
            return run.last_code()


class _Run:
    """One event from stdin to exit code."""

    def __init__(self) -> None:
        self.dialect_name = "claude"
        self.on_failure = ""
        self.files: list[str] = []
        self.argument = ""
        """The event's name, where the agent gives it on the command line."""
        self.stdin: bytes | None = None
        self.event: Event | None = None
        self.remains: Event | None = None
        """What can be read of an event that can't be read as a whole."""
        self.config: Config | None = None
        self.caught: list[int] = []
        self.told = False
        """The answer is out: what goes wrong now can't change it."""
        self.code = 0

    def take(self, argv: list[str]) -> None:
        """Read the command line."""
        words = list(argv)
        while words:
            word = words.pop(0)
            option, equals, value = word.partition("=")
            if not word.startswith("-"):
                self._take_event(word)
            elif option not in ("--as", "--on-failure", "--config"):
                raise UsageError(f"no option `{word}`", hint="--as, --on-failure and --config are known")
            elif not equals and not words:
                raise UsageError(f"`{option}` needs a value", hint="`billhook hook --help` shows how it is meant")
            else:
                self._take_option(option, value if equals else words.pop(0))

    def _take_event(self, word: str) -> None:
        if self.argument:
            raise UsageError(f"`{word}` is one argument too many", hint="give one event at most")
        self.argument = word

    def _take_option(self, option: str, value: str) -> None:
        known = {"--as": DIALECTS, "--on-failure": ("allow", "deny")}.get(option, ())
        if known and value not in known:
            raise UsageError(f"unknown {option} `{value}`", hint=f"one of {', '.join(known)}")
        if option == "--as":
            self.dialect_name = value
        elif option == "--on-failure":
            self.on_failure = value
        else:
            self.files.append(value)

    # -- the usual way

    def answer(self) -> int:
        if _depth() >= _DEEPEST:
            return self.fail("billhook hook is called by a hook of billhook's own, three deep")
        try:
            self.event = self._read()
        except MistypedError as error:
            return self.fail(error.message)
        except (EventError, OSError, ValueError) as error:
            why = error.message if isinstance(error, EventError) else str(error)
            return self.fail(f"the event on stdin can't be read: {why}")
        if not (self._folder or _here()):
            return self.fail(
                "the working directory is gone, and the event names none: nobody can tell whose hooks apply"
            )
        self.config = self._load()
        doubt = self._doubt()
        if doubt:
            return self.fail(doubt)
        return self._fire(self.event, self.config)

    @property
    def dialect(self) -> "Dialect":
        from billhook.dialects import dialect

        return dialect(self.dialect_name)

    def _read(self) -> Event:
        if os.isatty(0):
            tell(["waiting for an event as JSON on standard input (Ctrl-D ends it)"])
        self.stdin = b""  # a signal that ends the reading must not make us begin again
        self.stdin = all_of(0)
        # What the shell called this folder is no news about one that is gone.
        env = os.environ if _here() else {name: value for name, value in os.environ.items() if name != "PWD"}
        return received(self.dialect, self.stdin, env, self.argument)

    @property
    def _folder(self) -> str:
        """The folder that the agent is in, as far as it says so."""
        event = self.event or self.remains
        cwd = event.cwd if event is not None else ""
        project = caller.environ().get("CLAUDE_PROJECT_DIR", "")
        return project if os.path.isdir(project) else cwd or project

    def _load(self) -> "Config":
        from billhook.cli import configured

        folder = self._folder or _here() or caller.environ().get("PWD", "/")
        config = configured.load(folder, self.files)
        if self.on_failure == "allow" and config.unreadable:
            config = _without_stand_ins(config)
        return config

    def _doubt(self) -> str:
        """Why nobody can tell what is configured here; empty: it is known, or was chosen not to matter."""
        assert self.config is not None and self.event is not None
        if self.on_failure == "allow":
            return ""
        for read in self.config.unreadable:
            named = read.source.layer == "explicit"
            if self.event.gates and (named or self.on_failure == "deny"):
                return f"{read.source.path} can't be read: {read.findings[0].message}"
        return _lost_approvals(self.config, self.event)

    def _fire(self, event: Event, config: "Config") -> int:
        import asyncio

        from billhook import process
        from billhook.cli import firing

        process.adopt_orphans()
        engine = config.engine(host=self.dialect_name)
        try:
            verdict = asyncio.run(firing.fire(engine, event, self.caught))
            firing.catch_signals(self.caught)
            self._say(verdict, config)
            if any(outcome.status is Status.BACKGROUND for outcome in verdict.outcomes):
                hang_up()
                while not engine.background.settle(0.05) and not self.caught:
                    pass
        finally:
            firing.catch_signals([])
            engine.background.cancel()
            process.settle()
        return self.code

    def _say(self, verdict: Verdict, config: "Config") -> None:
        from billhook.cli import configured

        answer = verdict.as_answer(self.dialect.meanings.join)
        notes = [*_strange(verdict.event, config), *configured.notes(config)]
        if config.recording is not None and config.recording.problem:
            notes.append(f"secrets are taken out under a key of this process only: {config.recording.problem}")
        self.write(verdict.about, answer, _discreet(verdict.warnings), notes)

    def write(self, event: Event, answer: Answer, warnings: Iterable[str], notes: Iterable[str] = ()) -> None:
        """Give the answer. Where stderr is part of it, only what went wrong is added, and no notes."""
        written = self.dialect.write_exit(event, answer)
        self.code = written.exit.code or 0
        lines = [
            *warnings,
            *(f"the `{self.dialect_name}` dialect can't say everything: {lost}" for lost in written.lost),
        ]
        if not written.exit.stderr:
            lines += [f"note: {note}" for note in notes]
        self.told = True
        if not put(1, written.exit.stdout) and (answer.objects or answer.rewrites or answer.decision in _HELD):
            # stdout is gone, and with it a refusal: the exit code has to say it
            self.code = self._refusing_code if event.gates else self.code
            lines.insert(0, f"the answer could not be written to stdout: {answer.reason or answer.decision.value}")
        spoken = written.exit.stderr
        lines = [line for line in lines if line.encode("utf-8", "replace") not in spoken]
        put(2, spoken + b"\n" if spoken and not spoken.endswith(b"\n") and lines else spoken)
        tell(lines)

    # -- when something is wrong

    def crashed(self, error: BaseException) -> int:
        if caller.environ().get("BILLHOOK_DEBUG"):
            import traceback

            traceback.print_exception(error)
        if self.told:
            tell([f"after the answer: {type(error).__name__}: {error}"])
            return self.code
        if self.caught or isinstance(error, KeyboardInterrupt):
            number = (self.caught or [2])[0]
            return self.fail(f"ended by signal {number} before there was a verdict", passing=128 + number)
        if isinstance(error, UsageError):
            return self.fail(f"{error.message} ({error.hint})", sure=True)
        return self.fail(f"a fault of billhook's own: {type(error).__name__}: {error}")

    def fail(self, why: str, *, passing: int = 0, sure: bool = False) -> int:
        """The failure answer. `sure`: nobody has to look whether there is a gate."""
        event = self.event or self._guessed()
        denies = self.on_failure == "deny" or (not self.on_failure and (sure or self._gated(event)))
        unrecorded = self._record(event, why, denies)
        lines = [why, *([f"this is not in the log: {_plainly(unrecorded)}"] if unrecorded is not None else [])]
        if not denies and not getattr(unrecorded, "deny", False):
            tell([*lines, "the event passes without having been judged"])
            return passing
        reason = f"billhook: {why}"
        if event is None:
            tell(lines)
            return self.last_code()
        refuses = event.block in _BLOCKS
        self.write(event, Answer(decision=Decision.DENY, reason=reason) if refuses else NOTHING, lines)
        return self.code

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
                config.recording.observer(self.dialect_name)(unjudged)
        except BaseException as error:  # nothing is left to fail with: the answer is what matters now
            return error
        return None

    def last_code(self) -> int:
        """The exit code that refuses, when there is nothing else left to say it with."""
        return self.code if self.told and self.code else 0 if self.on_failure == "allow" else self._refusing_code

    @property
    def _refusing_code(self) -> int:
        return 1 if self.dialect_name == "lesson" else 2

    def _guessed(self) -> Event | None:
        """An event of the kind that this probably is, with what of it can be read; None when nobody knows."""
        if self.stdin is None and not os.isatty(0):
            try:
                self.stdin = all_of(0)
            except OSError:
                self.stdin = b""
        event = guessed(self.stdin or b"", self.argument)
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


_HELD = (Decision.DENY, Decision.ASK, Decision.DEFER)


def _lost_approvals(config: "Config", event: Event | None) -> str:
    """Why approvals can't be read, where a gate for this event waits for one: it may have had it."""
    from billhook.cli import configured

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


def _strange(event: str, config: "Config") -> Iterable[str]:
    """A line about an event that nobody has heard of: it may be one that guards were meant for."""
    if event not in EVENTS and not any(event in entry.declared.events for entry in config.entries):
        yield about_unknown(event)


def _listen(caught: list[int]) -> None:
    """A signal that comes before the hooks are asked is a failure like others, not a silent end."""

    def end(number: int, frame: object) -> None:
        caught.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


def _without_stand_ins(config: "Config") -> "Config":
    """The same without what stands in for files that can't be read."""
    from msgspec.structs import replace

    from billhook.plan import Plan

    hooks = tuple(hook for hook in config.hooks if hook.name != "unreadable-file")
    return replace(config, hooks=hooks, plan=Plan(hooks))


def _here() -> str:
    """Our working directory; nothing when it is gone."""
    try:
        return caller.getcwd()
    except OSError:
        return ""


def _depth() -> int:
    """How many hooks of billhook's stand between us and the agent."""
    try:
        return int(caller.environ().get("BILLHOOK_DEPTH", "") or 0)
    except ValueError:
        return 0


def __getattr__(name: str) -> Any:
    """The click command, which only `billhook hook --help` needs."""
    if name == "verb":
        from billhook.cli.hook_help import verb

        return verb
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
