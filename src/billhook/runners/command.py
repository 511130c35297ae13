"""Factories of `run`: for a shell command, a program, a fixed answer.

The engine sees only the callables that they make. A handler is a frozen record with a `__call__`, so that two hooks
that do the same compare equal. Functions become handlers in `billhook.core.functions`.
"""

import functools
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import msgspec

from billhook.agents import dialect
from billhook.agents.child import fit, inherited
from billhook.agents.reference import announces_async
from billhook.core import client_env, strictjson
from billhook.core.answer_json import read_output
from billhook.core.answers import Answer, Exit, Reply, Status
from billhook.core.errors import UsageError
from billhook.core.hook import Context
from billhook.core.lazy import lazy_module

if TYPE_CHECKING:
    import asyncio
    import shlex

    from billhook.runners import login, process, process_tree, spawn, warm
else:
    asyncio = lazy_module("asyncio")
    shlex = lazy_module("shlex")
    login = lazy_module("billhook.runners.login")
    spawn = lazy_module("billhook.runners.spawn")
    process = lazy_module("billhook.runners.process")
    process_tree = lazy_module("billhook.runners.process_tree")
    warm = lazy_module("billhook.runners.warm")

Login = Literal["auto", "exact", "no"]


class CoveredFiles(msgspec.Struct, frozen=True):
    """What the approval of a hook covers: the hash of each file, and the project in which other files are not."""

    folder: str
    files: tuple[tuple[str, str], ...]


class CommandRunner(msgspec.Struct, frozen=True):
    """Run a command and read its exit by the rules of the dialect. It keeps `ctx.deadline` itself: what a hook printed
    before it was ended still counts."""

    argv: tuple[str, ...]
    dialect: str = "claude"
    login: Login = "auto"
    """`auto`: a login environment if the dialect has one; `exact`: a real login shell; `no`: never."""
    cwd: str = ""  # its project's folder, in which it runs; empty: the event's folder
    variables: tuple[tuple[str, str], ...] = ()  # environment variables with their templates, for `fill`
    fill: Callable[[str, Context], Sequence[str]] | None = None
    """Puts values of the event into variables and positional parameters; into `argv` where it has neither."""
    parameters: tuple[str, ...] = ()  # of a shell: what follows its text
    warm: bool = False  # a Python script may run in a warm interpreter
    covered: CoveredFiles | None = None  # None: a hook of the user, which needs no approval
    keeps_time: ClassVar[bool] = True

    async def __call__(self, ctx: Context) -> Reply:
        return await self.ended(ctx)

    async def ended(self, ctx: Context, read: Callable[[Exit, Context], Reply | None] | None = None) -> Reply:
        """Run it. `read` may turn its exit into a reply; if it returns none, the dialect does."""
        speech, event = dialect(self.dialect), ctx.event
        call = speech.write_call(ctx)
        base: Mapping[str, str] = inherited(hook_variables=not speech.meanings.hook_variables)
        if self.login == "auto" and speech.meanings.login and sys.platform != "win32":
            base = login.known(base) or await _login_environment(base, ctx.seconds_left / 2)
        results, waits = _results_file(ctx), False
        try:
            argv, env, cwd = self._filled(ctx, {**base, **call.env, "BILLHOOK_RESULTS": results or _NO_RESULTS})
            child = await self._warm(argv, call.stdin, env, cwd) if self.warm else None
            child = child or process.start(argv, stdin=call.stdin, env=env, cwd=cwd or None)
            promises: list[dict[str, object]] = []
            until = (lambda stdout: announces_async(stdout, promises)) if self.dialect in _PROMISING else None
            ended = await child.wait(ctx.seconds_left, until=until)
            waits = ended is None
        finally:
            if not waits:
                _remove(results)
        if ended is not None:
            reply = (read(ended, ctx) if read is not None else None) or speech.read_exit(event, ended)
            return self._explained(reply, env, cwd) if reply.status is Status.COULD_NOT_START else reply

        async def rest(seconds: float) -> Reply:
            try:
                late = await child.wait(seconds)
            finally:
                _remove(results)
            assert late is not None
            # The first line was the promise; the answer follows it.
            _, _, after = late.stdout.partition(b"\n")
            return speech.read_exit(event, msgspec.structs.replace(late, stdout=after))

        return msgspec.structs.replace(read_output(event, promises[0], speech.meanings), later=rest)

    def _filled(self, ctx: Context, env: dict[str, str]) -> tuple[tuple[str, ...], dict[str, str], str]:
        """Arguments, environment and folder for this event."""
        argv = _fitted(self.argv)
        if self.fill is not None:
            env = env | {name: fit("\n".join(self.fill(text, ctx)))[0] for name, text in self.variables}
            plain, filled = (argv, self.parameters) if self.variables else ((), argv)
            argv = (*plain, *(fit(each)[0] for word in filled for each in self.fill(word, ctx)))
        if not self.cwd:
            return argv, env, ctx.event.cwd or _folder_of_caller()
        # The project of the hook, whatever project is open: its approved files are relative to it.
        return argv, {**env, "CLAUDE_PROJECT_DIR": self.cwd, "BILLHOOK_DEPTH": str(_depth() + 1)}, self.cwd

    async def _warm(
        self, argv: tuple[str, ...], stdin: bytes, env: Mapping[str, str], cwd: str
    ) -> "process.Child | None":
        """The command in a warm interpreter, which only the daemon has; None: it starts the plain way."""
        if client_env.served() is None or not process_tree.adopting():
            return None
        return await warm.start(argv, stdin=stdin, env=env, cwd=cwd or None, covered=self.covered)

    def _explained(self, reply: Reply, env: Mapping[str, str], cwd: str) -> Reply:
        """A shell prints "not found" for a script with a bad interpreter, too: check the file that did not start."""
        named = _NAMED.search(reply.error)
        if named is None or reply.exit_code is None:
            return reply
        why = spawn.why_not([named[1]], env, cwd or None)
        return msgspec.structs.replace(reply, error=f"{why} ({reply.error})") if why else reply


_NO_RESULTS: Final = os.path.join(os.path.dirname(__file__), "no_results.json")  # an empty object


def _results_file(ctx: Context) -> str:
    """A file with the results of earlier hooks of this event, by name; "" if no configured hook has one."""
    found = {one.hook: one.to_dict() for one in ctx.earlier}
    if not found:
        return ""
    import tempfile

    handle, path = tempfile.mkstemp(prefix="billhook-results-", suffix=".json")
    with open(handle, "wb") as file:
        file.write(strictjson.encode(found))
    return path


def _remove(path: str) -> None:
    if path:
        with suppress(OSError):
            os.unlink(path)


def _folder_of_caller() -> str:
    """The folder of a caller that we serve; empty: our own working directory."""
    served = client_env.served()
    return "" if served is None else served.cwd


def _depth() -> int:
    """How many hooks deep we are: a hook that calls billhook again must not recurse for ever."""
    depth = client_env.environ().get("BILLHOOK_DEPTH", "")
    return int(depth) if depth.isdecimal() and len(depth) < 4 else 0


async def _login_environment(base: Mapping[str, str], seconds: float) -> Mapping[str, str]:
    """The login environment, if it is available in time: a profile that hangs must not use up the hook's timeout."""
    try:
        async with asyncio.timeout(seconds):
            return await login.environment(base)
    except TimeoutError:
        return base


_PROMISING = ("claude", "spec")  # dialects in which a command may print `{"async": true}` and continue
_NAMED = re.compile(r": ([^:]+): (?:command not found|not found|permission denied|no such file|cannot execute)", re.I)
"""`/bin/sh: 1: ./guard.sh: not found`."""


@functools.lru_cache(256)
def _fitted(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments that execve accepts; that they are too long is a separate error."""
    return tuple(word if cut else fitted for word in argv for fitted, cut in (fit(word),))


def command(
    text: str, *, dialect: str = "claude", login: Login = "auto", shell: str = "", cwd: str = ""
) -> CommandRunner:
    """A shell command: `sh -c`, or `cmd /C` on Windows, or a named shell: `bash`, `powershell`."""
    if shell:
        return CommandRunner(_SHELLS[shell] + (text,), dialect, login, cwd)
    if login == "exact" and sys.platform != "win32":
        return CommandRunner(("/bin/sh", "-lc", text), dialect, login, cwd)
    return CommandRunner(process.shell_argv(text), dialect, login, cwd)


_SHELLS = {"bash": ("bash", "-c"), "powershell": ("pwsh", "-NoProfile", "-Command")}


def execute(argv: Sequence[str] | str, *, dialect: str = "claude", cwd: str = "") -> CommandRunner:
    """A program and its arguments, without a shell in between."""
    try:
        words = tuple(shlex.split(argv) if isinstance(argv, str) else argv)
    except ValueError as error:
        raise UsageError(f"can't be split into words: {str(error).lower()}", hint="quote it as for a shell") from None
    if not words:
        raise UsageError("an empty command", hint="name a program to run")
    return CommandRunner(words, dialect, "no", cwd)


class ConstantAnswer(msgspec.Struct, frozen=True):
    """Always the same answer: a fixed value in the configuration."""

    answer: Answer

    def __call__(self, ctx: Context) -> Answer:
        return self.answer


def literal(answer: Answer) -> ConstantAnswer:
    return ConstantAnswer(answer)


__all__ = ["CommandRunner", "ConstantAnswer", "command", "execute", "literal"]
