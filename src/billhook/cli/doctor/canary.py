"""`billhook doctor --canary`: start an agent with its own settings and no model, and see whether it calls billhook.

The addresses of the model and of all proxies are a loopback port on which nothing listens: nothing leaves the machine,
nothing costs money, and an agent without a model runs no tool.
"""

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

import msgspec

from billhook.agents.base import Agent, Start
from billhook.cli.doctor.entries import DoctorFinding, Level, path_of
from billhook.cli.doctor.hooks import settings_of
from billhook.core import client_env, strictjson
from billhook.runners.process_tree import processes
from billhook.store.files import log_folder
from billhook.store.log import Record, Wanted
from billhook.store.log.reader import LogReader


def environment(start: Start, url: str, around: Mapping[str, str]) -> dict[str, str]:
    """The agent's environment: ours, with proxies that lead nowhere, and the variables that it needs."""
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    nowhere = {name: url for upper in proxies for name in (upper, upper.lower())}
    local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    given = {**around, **nowhere, **local, "NO_COLOR": "1", "CI": "1", **start.environ}
    return {name: value for name, value in given.items() if value}


SECONDS: Final = 60.0  # how long an agent may take to call billhook
_POLL: Final = 0.1
_LATE: Final = 2.0  # seconds after the agent's exit in which a record may still be written
_OFFLINE: Final = "waiting for network"
"""One agent prints this for ever once it calls its model: the events before that have been fired then."""
_SETTLES: Final = 0.5
_TAIL: Final = 4096
_ENDS: Final = 3.0  # seconds between TERM and KILL
_ENDED: Final = "exited after {:.1f} s with code {}"
_EARLY: Final = frozenset({"SessionStart", "UserPromptSubmit"})  # events that are fired before the model is called


class Ran(msgspec.Struct, frozen=True):
    """The result of one run."""

    record: Record | None
    seconds: float
    exit: int | None  # the agent's exit code; None: it was ended by us
    output: str  # the last line that it printed


def canary_finding(
    host: Agent, project: str, root: Path, findings: Sequence[DoctorFinding], seconds: float = SECONDS
) -> DoctorFinding:
    """Start the agent, and report the result. `findings`: what the doctor found about it."""
    try:
        ran = run(host, path_of(host), project, root, seconds)
    except OSError as error:
        text = f"{path_of(host)} can't be started: {error.strerror or error}"
        return DoctorFinding("fail", "canary", text, f"start `{host.program}` here, and read what it prints")
    if (record := ran.record) is not None:
        text = f"the hook fired after {ran.seconds:.1f} s ({record.event}, session {record.session_id[:8]})"
        if record.decision in ("deny", "ask") or record.stop:
            word = record.decision if record.decision != "none" else "stop"
            text += f"; its answer was {word}: {record.reason or ''}".rstrip(": ")
        return DoctorFinding("ok", "canary", text)
    why = next((one for one in findings if not one.well and one.about in ("trust", "installed", "daemon")), None)
    ended = f"ran for {ran.seconds:.0f} s" if ran.exit is None else _ENDED.format(ran.seconds, ran.exit)
    text = f"no hook fired: {host.title} {ended} and did not call billhook"
    if why is not None:
        return DoctorFinding("fail", "canary", f"{text}; likely because {why.text}", why.remedy)
    printed = f"; it printed: {ran.output}" if ran.output else ""
    level: Level = "warn" if ran.exit else "fail"  # it may have failed for another reason, such as a missing account
    return DoctorFinding(level, "canary", f"{text}{printed}", f"start `{host.program}` here, and read what it prints")


def not_possible(host: Agent, events: Sequence[str], *, logged: bool) -> DoctorFinding | None:
    """Why the agent can't be started, or why its start would prove nothing; None: it can."""
    if host.start is None:
        text = f"can't be tested: {host.title} needs an account and a window"
        return DoctorFinding("unknown", "canary", text)
    if not events:
        return DoctorFinding("fail", "canary", "no hook can fire: not installed", f"billhook install {host.name}")
    if not path_of(host):
        return DoctorFinding("unknown", "canary", f"can't be tested: no `{host.program}` on PATH")
    if not logged:
        return DoctorFinding("unknown", "canary", "can't be tested: the event log is disabled")
    if not _EARLY & set(events):
        text = "can't be tested: none of the installed events is fired before the model is called"
        return DoctorFinding("unknown", "canary", text, f"billhook install {host.name}")
    return None


def run(host: Agent, program: str, project: str, root: Path, seconds: float) -> Ran:
    """Start the agent, wait until it calls billhook or exits, and end it with all its processes."""
    nonce = os.urandom(8).hex()
    prompt = f"This is a canary of `billhook doctor`, {nonce}. Do nothing."
    with socket.socket() as taken, tempfile.TemporaryFile() as output:
        taken.bind(("127.0.0.1", 0))  # reserved, so that no process listens there meanwhile
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert host.start is not None
        start = host.start(host, url, prompt, settings_of)
        began, since = time.monotonic(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        process = subprocess.Popen(
            [program, *start.words],
            cwd=client_env.getcwd(),
            env=environment(start, url, client_env.environ()),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            record = _awaited(process, _Watch(root, project, host.name, nonce, since), output, began + seconds)
            took = time.monotonic() - began
            exited = process.poll() if record is None else None
            if record is not None:
                time.sleep(_SETTLES)  # let the hook return its answer
        finally:
            end_all(process)
        return Ran(record, took, exited, _last_line(output))


class _Watch:
    """Looks for the record of the canary's prompt."""

    def __init__(self, root: Path, project: str, host: str, nonce: str, since: str) -> None:
        self._log = LogReader(log_folder(root, project), root)
        self._host, self._nonce = host, nonce
        self._wanted = Wanted(since=since, events=_EARLY)

    def found(self) -> Record | None:
        """The record with the nonce; where prompts are not logged, any prompt since the start."""
        blind: Record | None = None
        for entry in self._log.backward(self._wanted):
            record = entry.record
            if record.host != self._host:
                continue
            if self._nonce in strictjson.dumps(msgspec.to_builtins(self._log.whole(record).input)):
                return record
            if record.event == "UserPromptSubmit" and record.input is None:
                blind = record
        return blind


def _awaited(process: "subprocess.Popen[bytes]", watch: _Watch, output: IO[bytes], end: float) -> Record | None:
    over = False
    while time.monotonic() < end:
        if not over and (process.poll() is not None or _OFFLINE in _last_line(output)):
            over, end = True, min(end, time.monotonic() + _LATE)
        if (record := watch.found()) is not None:
            return record
        time.sleep(_POLL)
    return watch.found()


def end_all(process: "subprocess.Popen[bytes]") -> None:
    """End all processes in the agent's session. A daemon that a hook started is in another one."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        members = [one for one in processes() if one.session == process.pid and one.alive]
        if not members and process.poll() is not None:
            return
        for one in members:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one.pid, number)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS)
    process.wait()


def _last_line(output: IO[bytes]) -> str:
    """The last line that it printed."""
    size = os.fstat(output.fileno()).st_size
    tail = os.pread(output.fileno(), _TAIL, max(0, size - _TAIL))  # does not move the agent's write position
    lines = tail.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""
