"""Billhook inside other agent frameworks: one module per framework.

Here is what they share: their hooks, the session of one run, and one tool call in it.

Imports: core, agents, engine, config, session.
"""

import inspect
import logging
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from msgspec import UNSET

from billhook.config.builtin_hooks import guard, is_the_guard
from billhook.core.answers import Verdict
from billhook.core.errors import BillhookError, UsageError
from billhook.core.events import Event
from billhook.core.hook import Hook
from billhook.engine.engine import Engine
from billhook.session.calls import Call, SentInput, ToolResult, awaited, text_of
from billhook.session.session import Session

__all__ = ["BlockedError", "StoppedError"]

Hooks = Engine | Iterable[Hook] | Hook | None
"""The hooks of an adapter: an engine, hooks, or nothing for the configuration."""

Tell = Callable[[str], None]  # shows a line to the user

K = TypeVar("K")
V = TypeVar("V")
_MOST_ENTRIES: Final = 1024
_log = logging.getLogger("billhook.adapters")


class BlockedError(BillhookError):
    """A hook refused the prompt: the model has not seen it. The message is the hook's reason."""


class StoppedError(BillhookError):
    """A hook ended the run. The message is its reason."""


def not_installed(extra: str, missing: ImportError) -> ImportError:
    """The same error with an install command."""
    from billhook.core.text import install_command

    return ImportError(f"{missing}; install it: {install_command(extra)}", name=missing.name)


def engine_for(
    hooks: Hooks, cwd: str | os.PathLike[str] = "", *, host: str = "library", tell: Tell | None = None
) -> Engine:
    """The engine of an adapter: with a list of hooks, plus the built-in guard unless the list has one; without hooks,
    with the configuration for the folder. `tell` gets notes about configured hooks that don't run: unapproved hooks,
    invalid files. `host` is the framework, for the log."""
    if isinstance(hooks, Engine):
        return hooks
    if hooks is None:
        from billhook.config.loader import load_config
        from billhook.config.notices import notes

        config = load_config(cwd or None)
        report(notes(config), tell)
        return config.engine(host=host)
    given = [hooks] if isinstance(hooks, Hook) or not isinstance(hooks, Iterable) else list(hooks)
    for hook in given:
        if not isinstance(hook, Hook):
            raise UsageError(f"`{hook}` is not a hook", hint="pass an Engine, a list of hooks (`@on`), or nothing")
    return Engine(given if any(map(is_the_guard, given)) else [*given, guard(cwd=cwd)])


def prepared(
    hooks: Hooks, host: str, names: Mapping[str, str] | None, tell: Tell | None, session: Mapping[str, Any]
) -> tuple[Engine, dict[str, Any]]:
    """The engine of an adapter, and the options of its runs. An unknown option of a Session is an error here, not
    during a run."""
    known = inspect.signature(Session.__init__).parameters.keys() - {"self", "engine"}
    for name in session.keys() - known:
        raise UsageError(f"unknown session option `{name}`", hint=f"the options are {', '.join(sorted(known))}")
    engine = engine_for(hooks, session.get("cwd", ""), host=host, tell=tell)
    return engine, {"names": names, "tell": tell, **session}


def report(lines: Iterable[str], tell: Tell | None) -> None:
    """Report problems to the user, or to the log if there is no `tell`."""
    for line in lines:
        (tell or _log.warning)(line)


class AdapterRun(Session):
    """The session of one run of a framework's agent."""

    def __init__(
        self, engine: Engine, *, names: Mapping[str, str] | None = None, tell: Tell | None = None, **options: Any
    ) -> None:
        """`names`: the names of tools for hooks. `tell` gets messages of hooks for the user, and failures of hooks;
        without it, these are logged. `options`: those of a Session."""
        super().__init__(engine, **options)
        self._names = dict(names or {})
        self._tell = tell
        self._seen: set[str] = set()
        self._outputs: dict[str, Any] = {}

    async def ask_hooks(self, event: type[Event], *, deadline: float | None = None, **fields: Any) -> Verdict:
        verdict = await super().ask_hooks(event, deadline=deadline, **fields)
        if verdict.tool_output is not UNSET:
            self._outputs[fields.get("tool_use_id", "")] = verdict.tool_output
        report(verdict.warnings, self._tell)  # a failed hook is always reported
        for line in () if verdict.quiet else verdict.messages:
            (self._tell or _log.info)(line)
        return verdict

    def _bounded(self, verdict: Verdict) -> Verdict:
        bounded = super()._bounded(verdict)
        report(bounded.messages[len(verdict.messages) :], self._tell)  # the note that it was kept running too often
        return bounded

    def report(self, line: str) -> None:
        """Report a problem to the user."""
        report([line], self._tell)

    async def before_tool(
        self, name: str, tool_input: dict[str, Any], *, tool_use_id: str = "", sent: SentInput | None = None
    ) -> Call:
        own = self._own(tool_use_id)
        return await super().before_tool(self._names.get(name, name), tool_input, tool_use_id=own, sent=sent)

    def _own(self, tool_use_id: str) -> str:
        """A new id for each attempt: a framework may retry a call under its id, but for hooks it is a new call."""
        own, number = tool_use_id, 1
        while own in self._seen:
            number += 1
            own = f"{tool_use_id}-{number}"
        if own:
            self._seen.add(own)
        return own

    @property
    def under_way(self) -> bool:
        """Whether a call without a result is running."""
        return bool(self._calls._open)

    def output_of(self, attempt: "Attempt", result: ToolResult) -> Any:
        """The result for the framework: the output of the tool or of a hook, or the text with feedback."""
        rewritten = self._outputs.pop(result.tool_use_id, UNSET)
        output = attempt.read if rewritten is UNSET else rewritten
        if result.is_error or result.content != text_of(output):
            return result.content
        return attempt.output if rewritten is UNSET else rewritten

    def was_rewritten(self, result: ToolResult) -> bool:
        """Whether a hook has replaced the output of a call."""
        return result.tool_use_id in self._outputs


class PassingError(BaseException):
    """A framework's control-flow exception, not a failure: the session passes it on without hooks."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class Attempt:
    """One call of a framework's tool, as a session executes it. Keeps the tool's output or exception."""

    def __init__(
        self,
        invoke: Callable[[dict[str, Any]], Any],
        *,
        read: Callable[[Any], Any] | None = None,
        passing: tuple[type[Exception], ...] = (),
    ) -> None:
        """`read` converts an output for hooks, and raises ToolFailure for an output that reports a failure."""
        self._invoke, self._read, self._passing = invoke, read or plain, passing
        self.began = False  # false: it was refused, and has not run
        self.output: Any = None
        self.read: Any = None
        self.error: Exception | None = None

    def __call__(self, given: dict[str, Any]) -> Any:
        """For a SyncSession."""
        with self._recorded_error():
            self.output = self._invoke(given)
        self.read = self._read(self.output)
        return self.read

    async def wait(self, given: dict[str, Any]) -> Any:
        """For a Session."""
        with self._recorded_error():
            self.output = await awaited(self._invoke(given))
        self.read = self._read(self.output)
        return self.read

    @contextmanager
    def _recorded_error(self) -> Iterator[None]:
        self.began = True
        try:
            yield
        except self._passing as error:
            raise PassingError(error) from error
        except Exception as error:
            self.error = error
            raise

    @contextmanager
    def raising(self) -> Iterator[None]:
        """A call in a session; the tool's exception is raised again after its hooks have run."""
        try:
            yield
        except PassingError as passing:
            raise passing.error from None
        if self.error is not None:
            raise self.error


class RunCache(OrderedDict[K, V]):
    """A bounded cache of runs: a run that raised or was stopped never reports its end."""

    def __setitem__(self, key: K, run: V) -> None:
        super().__setitem__(key, run)
        while len(self) > _MOST_ENTRIES:
            self.popitem(last=False)


class ToolFailureError(Exception):
    """An output that reports a failure of the tool."""


async def attempted(
    run: AdapterRun, name: str, tool_input: dict[str, Any], attempt: Attempt, tool_use_id: str
) -> ToolResult:
    with attempt.raising():
        return await run.call_tool(name, tool_input, attempt.wait, tool_use_id=tool_use_id)


def passing(ask: Callable[..., Any], errors: tuple[type[Exception], ...]) -> Callable[..., Awaitable[Any]]:
    """The same `ask`, which may raise its framework's control-flow exception instead of answering."""

    async def guarded(question: Any) -> Any:
        try:
            return await awaited(ask(question))
        except errors as error:
            raise PassingError(error) from None

    return guarded


def plain(value: Any) -> Any:
    """A value as JSON, for hooks."""
    if value is None or isinstance(value, str | bool | int):
        return value
    from pydantic_core import to_jsonable_python

    try:
        return to_jsonable_python(value, fallback=str, bytes_mode="base64")
    except ValueError:  # it contains itself
        return str(value)
