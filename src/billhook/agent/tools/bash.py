"""The tool Bash, and its output as far as a model should see it: the beginning, the end, and how much lies between."""

import codecs
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from billhook.agent import tools as base
from billhook.agent.tools import Input, ToolError
from billhook.agent.tools.files import Workspace, shown
from billhook.runners import process


class CappedOutput(bytearray):
    """Takes any amount of bytes and keeps `cap` characters of them, both ends. `process` adds to a bytearray what a
    command prints; as a bytearray this one stays empty."""

    def __init__(self, cap: int) -> None:
        super().__init__()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._half = cap // 2
        self._head = self._tail = ""
        self._count = 0

    def __iadd__(self, chunk: bytes, /) -> Self:  # type: ignore[override,misc]  # nobody adds anything else
        self._keep(self._decoder.decode(chunk))
        return self

    def _keep(self, text: str) -> None:
        room = self._half - len(self._head)
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-self._half :]
        self._count += len(text)

    def text(self) -> str:
        """All of it, or both ends with a line between them. Final: call it when nothing more comes."""
        self._keep(self._decoder.decode(b"", final=True))
        if left_out := self._count - len(self._head) - len(self._tail):
            return f"{self._head}\n[... {left_out:,} characters left out ...]\n{self._tail}"
        return self._head + self._tail


# Bash:


Background = Callable[[str, str, Callable[[], Awaitable[str]]], Awaitable[str]]
"""Makes a task of a job, from its subject and description; gives what the model is told about it."""

SECONDS = 120.0
LONGEST = 600.0
CAP = 30_000  # characters of output that the model gets
CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")

# The shell tells where it is in a file, whatever the command does to descriptors and variables: at its end, and in
# bash also at each change (outside subshells), which no trap, `exec` or signal of the command's own can prevent.
_TELL = "{{ command pwd -P >|{file}; }} 2>/dev/null"
_AT_END = "trap {tell} EXIT; "
_AT_CHANGE = '{name}() {{ builtin {name} "$@" || return; ((BASH_SUBSHELL)) || {tell} || :; }}; '
# All on one line, so that the shell's messages count the lines of the command.
_RUN = 'eval "$(cat)" </dev/null 2>&1'


async def bash(workspace: Workspace, background: Background | None, given: Input) -> str:
    """Run a command. With `background` it can leave one running."""
    command = given["command"]
    if not command.strip() or "\0" in command:
        raise ToolError("`command` must be a shell command: it is blank, or holds a NUL character")
    if not given.get("run_in_background"):
        return await _foreground(command, workspace, _seconds(given, SECONDS))
    if background is None:
        raise ToolError("`run_in_background`: nothing can be run in the background here; run it without")
    cwd, seconds = workspace.cwd, _seconds(given, LONGEST)
    subject = given.get("description") or command.strip().splitlines()[0][:80]
    return await background(subject, command, lambda: _shell(command, cwd, seconds))


def _seconds(given: Input, default: float) -> float:
    return min(given["timeout"] / 1000, LONGEST) if "timeout" in given else default


async def _foreground(command: str, workspace: Workspace, seconds: float) -> str:
    """Run it, then go where it went, also when it failed."""
    cwd = workspace.cwd
    with tempfile.TemporaryDirectory(prefix=".billhook-", ignore_cleanup_errors=True) as folder:
        report = Path(folder, "cwd")
        try:
            text, failed = await _shell(command, cwd, seconds, report), False
        except ToolError as error:
            text, failed = str(error), True
        moved = _move(workspace, _reported(report) or str(cwd))
    told = f"{text}\n{moved}" if moved else text
    if failed:
        raise ToolError(told)
    return told


async def _shell(command: str, cwd: Path, seconds: float, report: Path | None = None) -> str:
    """Run a command to its end; its output. Raises ToolError, with the output, for every end but a good one."""
    output = CappedOutput(CAP)
    # The model's keys pay for the agent, not for what a model makes of them: one `env` in a log would publish them.
    env = {name: value for name, value in os.environ.items() if name not in CREDENTIALS}
    child = process.start(_argv(report), stdin=command.encode(), env=env, cwd=cwd, keep=output)
    ended = await child.wait(seconds)
    assert ended is not None
    output += ended.stdout  # nothing, where `keep` is known
    text = output.text().rstrip("\n")
    if ended.code == 0:
        return text or "(no output)"
    if ended.start_error:
        how = f"the shell could not be started: {ended.start_error}"
    elif ended.timed_out:
        how = f"timed out: ended after {seconds:g} seconds"
    elif ended.signal is not None:
        how = f"ended by signal {ended.signal} ({signal.strsignal(ended.signal)})"
    else:
        how = "ended, nobody knows how" if ended.code is None else f"exit code {ended.code}"
    raise ToolError(f"{how}\n{text}" if text else how)


def _argv(report: Path | None) -> tuple[str, ...]:
    found = shutil.which("bash")
    shell = found or "/bin/sh"
    before = ""
    if report is not None:
        tell = _TELL.format(file=shlex.quote(str(report)))
        before = _AT_END.format(tell=shlex.quote(tell))
        if found:
            before += "".join(_AT_CHANGE.format(name=name, tell=tell) for name in ("cd", "pushd", "popd"))
    return (shell, "-c", before + _RUN, Path(shell).name)


def _reported(report: Path) -> str:
    """Where the shell was last; empty when it did not say."""
    try:
        # The command could reach this file: neither a link nor a pipe in its place gets us anywhere.
        file = os.open(report, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(file, "rb") as stream:
            return os.fsdecode((stream.read(1 << 16) or b"").removesuffix(b"\n"))
    except OSError:
        return ""


def _move(workspace: Workspace, folder: str) -> str:
    """Make it the current directory, or go back to the root and say so."""
    try:
        workspace.cwd = Path(folder)
    except ToolError:
        workspace.go_back()
        root = shown(workspace.root)
        return f"(`{shown(folder)}` is no folder in the workspace: the next command starts in `{root}` again)"
    return ""


SPEC = base.spec(
    "Bash",
    "Run a shell command in the workspace. `cd` lasts until the next call; variables and functions don't. Standard "
    "input is empty. What the command leaves running is ended with it: give `run_in_background` for a server or a long "
    f"job. Of a long output you get the beginning and the end, {CAP:,} characters in all.",
    "command",
    command={"type": "string", "minLength": 1, "description": "The command, or several lines of them"},
    timeout={
        "type": "integer",
        "minimum": 1,
        "description": f"Milliseconds after which it is ended: {SECONDS * 1000:.0f} when not given (in the "
        f"background {LONGEST * 1000:.0f}), at most {LONGEST * 1000:.0f}",
    },
    run_in_background={"type": "boolean", "description": "Don't wait for its end"},
    description={"type": "string", "description": "What it does, in five to ten words"},
)
