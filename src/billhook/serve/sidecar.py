"""Processes beside the daemon: they start with it, are started again if they end, and report as lines of JSON."""

import fcntl
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from billhook.core import tools
from billhook.core.answers import Status, Verdict
from billhook.core.lazy import lazy_module
from billhook.core.text import install_command
from billhook.runners import process_tree
from billhook.runners.process_tree import Tree

if TYPE_CHECKING:
    import asyncio

    from billhook.config.config import Config
else:
    asyncio = lazy_module("asyncio")


_PAUSE: Final = 10.0  # seconds after which a process that ended is started again


class Sidecar:
    """One such process. It ends when its stdin is closed."""

    def __init__(self, module: str, arguments: Sequence[str] = (), env: Mapping[str, str] | None = None) -> None:
        self._argv = [sys.executable, "-P", "-m", module, *arguments]
        self._env = dict(os.environ if env is None else env)
        self.said: dict[str, Any] = {}  # its newest report
        self.stdin: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._tree: Tree | None = None
        self._unread = b""
        self._next = 0.0

    def tick(self, now: float) -> bool:
        """Start it, also if it ended, and read its report: whether it was started now."""
        if self._process is not None and self._process.poll() is not None:
            self.close()
            self._next = now + _PAUSE
        start = self._process is None and now >= self._next
        if start:
            self._start()
        self._read()
        return start

    def close(self) -> None:
        """Close its stdin: it does what is left to do, within seconds, and ends."""
        process, self._process, self.stdin = self._process, None, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        process.returncode = process.poll() or 0  # it may still be working
        if self._tree is not None:
            self._tree.close()

    def _start(self) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with process_tree.starting():
            self._process = subprocess.Popen(self._argv, env=self._env, start_new_session=True, bufsize=0, **pipes)
            self._tree = Tree(self._process.pid, "")
        self._tree.resting = True
        self._unread = b""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self.stdin = self._process.stdin

    def _read(self) -> None:
        if self._process is None or self._process.stdout is None:
            return
        with suppress(OSError, ValueError):
            *lines, self._unread = (self._unread + (self._process.stdout.read(1 << 16) or b"")).split(b"\n")
            if lines:
                self.said = json.loads(lines[-1])


# Verdicts for OpenTelemetry, on their way from the daemon to the process that exports them (`otel.py`).
#
# A verdict never waits for telemetry: after its answer, one line of JSON goes into a pipe that never blocks. If the
# pipe is full, because the collector is slow or dead, the verdict is not reported, and counted as dropped. The SDK with
# its threads and its memory is in the other process.

PREFIX: Final = "OTEL_"
_ENDPOINTS: Final = tuple(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_", "LOGS_"))
_ROOM: Final = 1 << 20  # bytes of the pipe: some thousand verdicts
_LONGEST_REASON: Final = 500
_SOON: Final = 0.05  # seconds after an answer
_AT_ONCE: Final = 32
_MOST_WAITING: Final = 4096


def otel_settings(env: Mapping[str, str]) -> dict[str, str]:
    """The variables for OpenTelemetry, if they name an endpoint; otherwise telemetry is off."""
    found = {name: value for name, value in env.items() if name.startswith(PREFIX)}
    off = found.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return found if not off and any(found.get(name) for name in _ENDPOINTS) else {}


class HookSpan(msgspec.Struct, frozen=True, array_like=True):
    """A hook that ran."""

    hook: str
    status: str
    decision: str
    ms: float
    failed_open: bool


class VerdictSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """What telemetry gets of a verdict: no inputs, outputs or context."""

    id: str
    ended: float
    ms: float
    event: str
    session: str
    agent: str
    project: str
    decision: str
    turn: str = ""
    tool: str = ""
    call: str = ""
    reason: str = ""
    stop: bool = False
    keep_going: bool = False
    failed_open: int = 0
    hooks: list[HookSpan] = []


def reported(verdict: Verdict, config: "Config", host: str, ended: float) -> VerdictSummary:
    """The report of a verdict, without secrets."""
    event = verdict.about
    ran = [one for one in verdict.outcomes if one.status is not Status.SKIPPED]
    tool, call = event.payload.get("tool_name"), event.payload.get("tool_use_id")
    turns = (one.data.get("turn_id") for one in ran if isinstance(one.data, dict))
    return VerdictSummary(
        id=verdict.id,
        ended=ended,
        ms=verdict.duration_ms,
        event=verdict.event,
        session=event.session_id,
        agent=host,
        project=config.project,
        decision=verdict.decision.value,
        turn=next((turn for turn in turns if isinstance(turn, str)), ""),
        tool=tools.canonical(tool) if isinstance(tool, str) else "",
        call=call if isinstance(call, str) else "",
        reason=_redacted(verdict.reason or verdict.stop_reason, config),
        stop=verdict.stop,
        keep_going=verdict.keep_going,
        failed_open=verdict.failed_open,
        hooks=[
            HookSpan(one.hook, one.status.value, one.answer.decision.value, one.duration_ms, one.failed_open)
            for one in ran
        ],
    )


def _redacted(reason: str, config: "Config") -> str:
    if not reason:
        return ""
    from billhook.store.redaction import redactor

    return redactor(Path(config.root)).text(reason)[:_LONGEST_REASON]


class Telemetry:
    """The pipe to the exporter, and its process. Lives as long as the daemon."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = otel_settings(env)
        self.dropped = 0
        env = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)} | self._env
        self._exporter = Sidecar("billhook.serve.otel", env=env)
        self._rest = b""
        self._waiting: deque[tuple[Verdict, Config, str, float]] = deque()
        self._problem = ""
        if self._env and importlib.util.find_spec("opentelemetry") is None:
            self._problem = f"telemetry needs the extra `otel`: {install_command('otel')}"

    @property
    def is_on(self) -> bool:
        return bool(self._env) and not self._problem

    def observe(self, verdict: Verdict, config: "Config", host: str) -> None:
        """Report a verdict, soon after its answer was sent. Never waits, and never raises."""
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
            return
        if not self._waiting:
            asyncio.get_running_loop().call_later(_SOON, self._write_soon)
        self._waiting.append((verdict, config, host, time.time()))

    def _write_soon(self) -> None:
        """Write some, and the others later: requests must not wait for this."""
        for _ in range(min(len(self._waiting), _AT_ONCE)):
            self._write(*self._waiting.popleft())
        if self._waiting:
            asyncio.get_running_loop().call_later(_SOON, self._write_soon)

    def _write(self, verdict: Verdict, config: "Config", host: str, ended: float) -> None:
        pipe = self._exporter.stdin
        if pipe is None:
            self.dropped += 1
            return
        try:
            rest = self._rest or msgspec.json.encode(reported(verdict, config, host, ended)) + b"\n"
            self.dropped += bool(self._rest)
            self._rest = rest[os.write(pipe.fileno(), rest) :]
        except BlockingIOError:
            self.dropped += not self._rest
        except Exception:  # the exporter ended, or the verdict can't be reported: nothing depends on it
            self.dropped += 1

    def tick(self, now: float) -> None:
        """Start the exporter, also if it ended, and read its counts."""
        if not self.is_on:
            return
        if self._exporter.tick(now):
            self._rest = b""
            with suppress(OSError, AttributeError):
                fcntl.fcntl(self._exporter.stdin, fcntl.F_SETPIPE_SZ, _ROOM)  # type: ignore[arg-type]

    def close(self) -> None:
        """The exporter sends what it has, within seconds, and ends."""
        while self._waiting:
            self._write(*self._waiting.popleft())
        self._exporter.close()

    @property
    def status(self) -> dict[str, Any]:
        """For `billhook daemon status`: empty if telemetry is off."""
        if not self._env:
            return {}
        return {"endpoint": self._endpoint, "dropped": self.dropped, **self._exporter.said, "problem": self._trouble}

    @property
    def _trouble(self) -> str:
        return self._problem or str(self._exporter.said.get("problem", ""))

    @property
    def _endpoint(self) -> str:
        """Without a name and password in it."""
        url = urlsplit(next(self._env[name] for name in _ENDPOINTS if self._env.get(name)))
        return f"{url.scheme}://{url.hostname or ''}{f':{url.port}' if url.port else ''}{url.path}"
