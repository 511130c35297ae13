"""The tool Bash, and its output for the model: the beginning, the end, and how much was left out between them."""

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
    """Accepts any number of bytes and keeps `cap` characters of them, from both ends. `process` adds a command's output
    to a bytearray; as a bytearray this one stays empty."""

    def __init__(self, cap: int) -> None:
        super().__init__()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._half = cap // 2
        self._head = self._tail = ""
        self._count = 0

    def __iadd__(self, chunk: bytes, /) -> Self:  # type: ignore[override,misc]  # only bytes are added
        self._keep(self._decoder.decode(chunk))
        return self

    def _keep(self, text: str) -> None:
        room = self._half - len(self._head)
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-self._half :]
        self._count += len(text)

    def text(self) -> str:
        """All of it, or both ends with a line between them. Call it once, at the end."""
        self._keep(self._decoder.decode(b"", final=True))
        if left_out := self._count - len(self._head) - len(self._tail):
            return f"{self._head}\n[... {left_out:,} characters left out ...]\n{self._tail}"
        return self._head + self._tail


# Bash:


Background = Callable[[str, str, Callable[[], Awaitable[str]]], Awaitable[str]]
"""Makes a task of a job, from its subject and description: the text for the model."""

SECONDS = 120.0
LONGEST = 600.0
CAP = 30_000  # characters of output that the model gets
CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")

# The shell writes its folder to a file, independent of the command's descriptors and variables: at its end, and in bash
# also at each change (outside subshells), so that no trap, `exec` or signal of the command can prevent it.
_TELL = "{{ command pwd -P >|{file}; }} 2>/dev/null"
_AT_END = "trap {tell} EXIT; "
_AT_CHANGE = '{name}() {{ builtin {name} "$@" || return; ((BASH_SUBSHELL)) || {tell} || :; }}; '
# All on one line, so that the shell's messages count the lines of the command.
_RUN = 'eval "$(cat)" </dev/null 2>&1'


async def bash(workspace: Workspace, background: Background | None, given: Input) -> str:
    """Run a command. With `background` it can leave one running."""
    command = given["command"]
    if not command.strip() or "\0" in command:
        raise ToolError("`command` must be a shell command: it is blank, or contains a NUL character")
    if not given.get("run_in_background"):
        return await _foreground(command, workspace, _seconds(given, SECONDS))
    if background is None:
        raise ToolError("`run_in_background` is not available here; run it without")
    cwd, seconds = workspace.cwd, _seconds(given, LONGEST)
    subject = given.get("description") or command.strip().splitlines()[0][:80]
    return await background(subject, command, lambda: _shell(command, cwd, seconds))


def _seconds(given: Input, default: float) -> float:
    return min(given["timeout"] / 1000, LONGEST) if "timeout" in given else default


async def _foreground(command: str, workspace: Workspace, seconds: float) -> str:
    """Run it, then change to its last folder, even if it failed."""
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
    """Run a command to its end: its output. Raises ToolError, with the output, unless it succeeds."""
    output = CappedOutput(CAP)
    # Commands don't get the agent's API keys: one `env` in a log would publish them.
    env = {name: value for name, value in os.environ.items() if name not in CREDENTIALS}
    child = process.start(_argv(report), stdin=command.encode(), env=env, cwd=cwd, keep=output)
    ended = await child.wait(seconds)
    assert ended is not None
    output += ended.stdout  # empty, if `keep` is supported
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
        how = "ended with an unknown exit code" if ended.code is None else f"exit code {ended.code}"
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
    """The last folder of the shell; empty if unknown."""
    try:
        # The command could replace this file: links and pipes are not followed.
        file = os.open(report, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(file, "rb") as stream:
            return os.fsdecode((stream.read(1 << 16) or b"").removesuffix(b"\n"))
    except OSError:
        return ""


def _move(workspace: Workspace, folder: str) -> str:
    """Make it the current directory, or return to the root with a note."""
    try:
        workspace.cwd = Path(folder)
    except ToolError:
        workspace.go_back()
        root = shown(workspace.root)
        return f"(`{shown(folder)}` is not a folder in the workspace: the next command starts in `{root}` again)"
    return ""


SPEC = base.spec(
    "Bash",
    "Run a shell command in the workspace. `cd` lasts until the next call; variables and functions don't. Standard "
    "input is empty. Processes that the command leaves running are ended: use `run_in_background` for a server or a "
    f"long job. Of a long output you get the beginning and the end, {CAP:,} characters in total.",
    "command",
    command={"type": "string", "minLength": 1, "description": "One or more lines of shell commands"},
    timeout={
        "type": "integer",
        "minimum": 1,
        "description": f"Timeout in milliseconds: {SECONDS * 1000:.0f} by default (in the "
        f"background {LONGEST * 1000:.0f}), at most {LONGEST * 1000:.0f}",
    },
    run_in_background={"type": "boolean", "description": "Don't wait for the end"},
    description={"type": "string", "description": "What it does, in five to ten words"},
)
