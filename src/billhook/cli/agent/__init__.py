"""`billhook agent`: run an agent with your hooks, in a chat or for one prompt, or resume an earlier session."""

import asyncio
import functools
import os
import re
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final

from billhook.agent.conversation import transcript_of
from billhook.agent.factory import open_agent, start_over
from billhook.agent.loop import BUDGET, AgentLoop
from billhook.agent.models import ModelError, open_model
from billhook.agent.permissions import expected, question_text, read_answer
from billhook.agent.ui_events import Show, TurnEnded
from billhook.cli.agent.terminal import Interrupts, JsonStream, Screen, Terminal, in_loop
from billhook.cli.events.query import FEWEST, LogScope, here
from billhook.cli.options import among, config_option, flag, guarding, option, usage
from billhook.cli.screen import is_terminal, note, with_shown_paths
from billhook.config.notices import notes
from billhook.config.permissions import MODES, Rules
from billhook.core.errors import UsageError
from billhook.core.text import suggestion
from billhook.runners import process_tree
from billhook.session.calls import Question
from billhook.store.files import StoreError
from billhook.store.sessions import Sessions
from billhook.store.state import FileState


@usage("""\b
Examples:
  billhook agent                                 a chat
  billhook agent -p 'tidy up' > answer           one prompt; stdout has only the answer
  git diff | billhook agent                      the prompt is all of stdin
  billhook agent --resume . -p 'go on'           continue the newest session here
  billhook agent --model scripted:t.yaml -p hi   answers from a file, without a key
  billhook agent -p hi --json                    typed events, one per line

Exit code: 0 done, 1 blocked, stopped or failed, 2 usage, broken input, or
output that can't be written, 130 interrupted (128 + the signal's number for
other signals).""")
@option("-p", "--prompt", "TEXT", "One prompt: the agent works until it is done, and exits.")
@option(
    "--model",
    "M",
    "scripted:FILE, anthropic:MODEL or openai:MODEL.  [default: the model in the variable MODEL_ID, "
    "of the service whose API key is set]",
    default="",
)
@config_option
@option(
    "--permission-mode",
    "mode",
    "M",
    "default, acceptEdits, plan, dontAsk or bypassPermissions.  [default: from the settings]",
    callback=among(MODES),
)
@option("--resume", "ID", "Continue a session: its id, its name, or `.` for the newest here.")
@flag("--init", "First fire the event Setup, with the trigger init.")
@flag("--maintenance", "First fire the event Setup, with the trigger maintenance.")
@option("--context-budget", "budget", "TOKENS", "Compact the conversation if it gets longer.", type=int)
@flag("--json", "as_json", "Print typed events as JSON lines.")
def verb(**given: Any) -> int:
    """Run an agent in this folder: a model, tools (Bash, Read, Write, Edit, Task ...) and your hooks around every step.

    Shows inline which hook decided what, why, and in how many milliseconds. In a chat, /help shows the commands. Ctrl-C
    stops the turn; pressed twice, it ends the session.
    """
    if given["budget"] is not None and given["budget"] < 1:
        raise UsageError("--context-budget must be at least 1", hint="a number of tokens, as in --context-budget 50000")
    if given["init"] and given["maintenance"]:
        raise UsageError("--init and --maintenance can't be combined", hint="run one after the other")
    run = _AgentRun(given)
    process_tree.adopt_orphans()
    try:
        return asyncio.run(run.main())
    finally:
        run.close()
        process_tree.settle()


class _AgentRun:
    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.model = open_model(given["model"], os.environ)
        self.config = guarding(given["configs"])
        self.resume = "" if given["resume"] is None else find_session(given["resume"], here())
        self.prompt = _prompt(given["prompt"])
        self.close: Callable[[], None] = lambda: None  # ends background hooks that still run

    async def main(self) -> int:
        hooks = sum(entry.state == "runs" for entry in self.config.entries)
        later = frozenset(hook.name for hook in self.config.hooks if hook.background)
        screen = Screen(hooks=hooks, streams=self.prompt is None or is_terminal(sys.stdout), later=later)
        show = JsonStream() if self.given["as_json"] else screen
        terminal, interrupts = Terminal(screen), Interrupts(screen.interrupted)
        interrupts.catch()
        for text in (*notes(self.config), *_rules_that_wait(self.config.permissions)):
            note(with_shown_paths(text))
        ended = TurnEnded("interrupted", "")
        try:
            ended = await self._session(show, screen, terminal, interrupts)
        except asyncio.CancelledError:
            if not interrupts.code:
                raise
        finally:
            screen.flush()
            await self.model.close()
            interrupts.ignore()
        if self.given["as_json"]:
            show(ended)
        return interrupts.code or _CODES[ended.how] or (2 if show.unwritten else 0)

    async def _session(self, show: Show, screen: Screen, terminal: Terminal, interrupts: Interrupts) -> TurnEnded:
        async with open_agent(
            self.config,
            self.model,
            cwd=os.getcwd(),
            show=in_loop(show),
            ask=self._asker(terminal),
            permission_mode=self.given["mode"],
            resume=self.resume,
            setup="init" if self.given["init"] else "maintenance" if self.given["maintenance"] else None,
            budget=self.given["budget"] or BUDGET,
        ) as agent:
            self.close = agent.session.engine.background.cancel
            try:
                if self.prompt is None:
                    clear = functools.partial(start_over, agent, self.config)
                    return await Chat(agent, terminal, interrupts, clear=clear, tell=screen.urgent).run()
                ended = await interrupts.turn(agent.run(self.prompt), agent)
                if ended.how == "interrupted":
                    agent.session.end_background()
                if not self.given["as_json"]:
                    show(ended)
                return ended
            finally:
                interrupts.leave(agent.session.end_background)

    def _asker(self, terminal: Terminal) -> Any:
        """A function that asks the user; None without a terminal."""
        if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
            return None

        async def ask(question: Question) -> str:
            def read(line: str) -> str | None:
                return read_answer(line, rememberable=question.rememberable)

            return await terminal.answer(question_text(question), "? ", read, "no", expected=expected(question))

        return ask


_CODES = {"done": 0, "blocked": 1, "stopped": 1, "failed": 1, "interrupted": 130}


def _rules_that_wait(rules: Rules) -> list[str]:
    """At most one line about allow rules that are not approved, and one about invalid rules."""
    invalid = [f"{one.place}: {one.message} (`billhook check` shows all problems)" for one in rules.problems[:1]]
    return [*([rules.waiting] if rules.waiting else []), *(f"a permission rule is invalid: {text}" for text in invalid)]


def _prompt(given: str | None) -> str | None:
    """The single prompt: from -p, or all of standard input if that is not a terminal; None: a chat."""
    if given is None and is_terminal(sys.stdin):
        return None
    text = given or ""
    if given is None and sys.stdin is not None:
        text = sys.stdin.buffer.read().decode("utf-8", "replace").strip()
    if not text.strip():
        hint = "use `billhook agent -p 'what to do'`, or leave out -p in a terminal for a chat"
        raise UsageError("the prompt is empty", hint=hint)
    return text


# Which session to resume:
_NAMED = 5  # sessions that a hint names


def find_session(word: str, here: LogScope) -> str:
    """The id of a session, given its id, its name, a prefix of its id, or `.`. Raises UsageError with suggestions if no
    session of this project with a transcript matches."""
    sessions = _resumable(here)
    if word == ".":
        if not sessions:
            raise UsageError("there is no session to resume here", hint="start one with billhook agent -p '...'")
        return next(iter(sessions))
    if word and _has_transcript(word, here):
        return word
    named = [id_ for id_, name in sessions.items() if name == word]
    begun = [id_ for id_ in sessions if len(word) >= FEWEST and id_.startswith(word)]
    if not named and len(begun) > 1:
        hint = f"use more characters: {', '.join(begun[:_NAMED])}"
        raise UsageError(f"the ids of {len(begun)} sessions begin with `{word}`", hint=hint)
    if found := named or begun:
        return found[0]
    raise UsageError(f"no session `{word}` can be resumed here", hint=_what_there_is(sessions.values()))


def _has_transcript(session_id: str, here: LogScope) -> bool:
    try:
        return transcript_of(here.root, here.project, session_id).path.is_file()
    except (OSError, ValueError):
        return False


def _resumable(here: LogScope) -> dict[str, str]:
    """The sessions of this project that have a transcript, id to name, newest first. Without names, ids are used."""
    with suppress(StoreError):
        recent = Sessions(FileState(here.root)).recent(here.project)
        if named := {one.session_id: one.name for one in recent if _has_transcript(one.session_id, here)}:
            return named
    with suppress(OSError):
        files = transcript_of(here.root, here.project, "any").path.parent.glob("*.jsonl")
        newest_first = sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)
        return {path.stem: path.stem for path in newest_first}
    return {}


def _what_there_is(names: Iterable[str]) -> str:
    there = list(dict.fromkeys(names))
    if not there:
        return "no session here has a transcript; only sessions of `billhook agent` have one"
    more = f" and {len(there) - _NAMED} more" if len(there) > _NAMED else ""
    return f"sessions here: {', '.join(there[:_NAMED])}{more}; `.` is the newest"


# A plain chat in the terminal:
IDLE: Final = 60.0  # seconds without input after which a Notification is fired
PROMPT: Final = "> "
COMMANDS: Final = {
    "/compact": "replace the conversation with a summary; text after the command tells what to keep",
    "/clear": "start a new session with an empty conversation",
    "/help": "show this help",
    "/exit": "end the session (also Ctrl-D); Ctrl-C stops the turn, pressed twice it ends the session",
}
_COMMAND: Final = re.compile(r"(/[a-zA-Z]*)(?:\s+(.*))?", re.S)

Work = Coroutine[Any, Any, TurnEnded | None]


class Chat:
    """One chat with one agent. Lives as long as the session."""

    def __init__(
        self,
        agent: AgentLoop,
        terminal: Terminal,
        interrupts: Interrupts,
        *,
        clear: Callable[[], Coroutine[Any, Any, None]],
        tell: Callable[[str], None],
        idle: float = IDLE,
    ) -> None:
        self.agent, self.terminal, self.interrupts = agent, terminal, interrupts
        self._clear, self._tell, self._idle = clear, tell, idle

    async def run(self) -> TurnEnded:
        """Run until the user, a signal or a hook ends the session."""
        session = self.agent.session
        if session.stopped is not None:
            ended = TurnEnded("stopped", session.stopped)
            self.agent.show(ended)
            return ended
        while not self.interrupts.code:
            work = await self._next()
            if work is None:
                session.end_reason = "prompt_input_exit"
                return TurnEnded("done", "", self.agent.usage)
            done = await self.interrupts.turn(work, self.agent)
            if done is not None:
                self.agent.show(done)
        return TurnEnded("interrupted", "", self.agent.usage)

    async def _next(self) -> Work | None:
        """The next work: the user's line, or an unfinished background task; None: the user ended the chat."""
        line = asyncio.ensure_future(self.terminal.line(PROMPT))
        settled = asyncio.ensure_future(self.agent.team.settle())
        self.interrupts.at_prompt = True
        try:
            await self._wait(line, settled)
            still_open = settled.result() if settled.done() else ""
            if not line.done():
                return self.agent.answer(still_open)
            if still_open:
                self.agent.session.add_context(still_open)
            return self._work_for(line.result())
        finally:
            self.interrupts.at_prompt = False
            line.cancel()
            settled.cancel()
            await asyncio.wait([line, settled])

    async def _wait(self, line: "asyncio.Task[str | None]", settled: "asyncio.Task[str]") -> None:
        """Wait for a line, or for an unfinished background task. Fires one Notification if the user is idle."""
        waiting: set[asyncio.Task[Any]] = {line, settled}
        timeout: float | None = self._idle
        while not line.done() and not (settled.done() and settled.result()):
            waiting.difference_update([settled] if settled.done() else [])
            done, _ = await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                timeout = None
                await self.agent.session.notify("the agent waits for your input", type="idle_prompt")

    # -- commands

    def _work_for(self, line: str | None) -> Work | None:
        """The work for a line; None: the end of the chat."""
        if line is None:
            self._tell("")
            return None
        self.interrupts.typed()
        text = line.strip()
        command = _COMMAND.fullmatch(text)
        if command is None:
            return self.agent.turn(text) if text else self._print_lines()
        match command[1].lower():
            case "/exit":
                return None
            case "/clear":
                return self._clear()
            case "/compact":
                return self._compact((command[2] or "").strip())
            case "/help":
                return self._print_lines(*(f"{name:<9} {what}" for name, what in COMMANDS.items()))
            case other:
                return self._print_lines(f"no command `{other}`: {suggestion(other, COMMANDS)}")

    async def _print_lines(self, *lines: str) -> None:
        for line in lines:
            self._tell(line)

    async def _compact(self, instructions: str) -> TurnEnded | None:
        if not self.agent.messages:
            self._tell("the conversation is empty")
            return None
        try:
            if not await self.agent.compact("manual", instructions or None):
                self._tell("not compacted: a hook blocked it")
        except ModelError as error:
            await self.agent.session.failed(error.kind, details=error.details or None, last_message=str(error))
            return TurnEnded("failed", str(error), self.agent.usage)
        return None
