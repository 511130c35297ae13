"""Goal 28: judging costs the same with OpenTelemetry or a fleet on, whether the collector or the cluster is alive or
dead."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import msgspec

from billhook.fleet import server
from billhook.fleet.members import Enrolment, enrol, read_credentials
from fleet_scale import running
from harness import PROCESSES, Bar, Case, Goal, Trial
from warm import CLIENT, daemon, process, project

_DEAD = "http://127.0.0.1:9"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None: ...


@contextmanager
def _collector() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def reporting() -> AsyncGenerator[Trial, None]:
    with ExitStack() as stack:
        alive = stack.enter_context(_collector())
        cases: dict[str, Case] = {}
        for name, url in {"telemetry off": "", "collector alive": alive, "collector dead": _DEAD}.items():
            base, env = stack.enter_context(project())
            _start(env | ({"OTEL_EXPORTER_OTLP_ENDPOINT": url} if url else {}))
            stack.enter_context(daemon(env))
            cases[name] = process(base, env)([CLIENT, "--as", "claude"])
        bars = [Bar(name, "telemetry off", 1.05) for name in ("collector alive", "collector dead")]
        yield Trial("daemon warm", cases, bars, 2 * PROCESSES)


async def in_a_fleet() -> AsyncGenerator[Trial, None]:
    """The same on a host of a fleet: its records are shipped meanwhile, or can't be."""
    with ExitStack() as stack:
        cluster = await asyncio.to_thread(stack.enter_context, running(nodes=1))
        cases: dict[str, Case] = {}
        for name, url in {"no fleet": "", "cluster alive": cluster.url, "cluster dead": "nats://127.0.0.1:9"}.items():
            base, env = stack.enter_context(project())
            if url:
                host = name.replace(" ", "-")
                cluster.write(server.add_member(cluster.folder, cluster.fleet, host))
                given = read_credentials(cluster.folder / f"{host}.creds")
                enrol(Path(env["BILLHOOK_HOME"]), Enrolment(**msgspec.structs.asdict(given), url=url))
            _start(env)
            stack.enter_context(daemon(env))
            cases[name] = process(base, env)([CLIENT, "--as", "claude"])
        bars = [Bar(name, "no fleet", 1.05) for name in ("cluster alive", "cluster dead")]
        yield Trial("daemon warm, in a fleet", cases, bars, 2 * PROCESSES)


async def _both() -> AsyncGenerator[Trial, None]:
    async for trial in reporting():
        yield trial
    async for trial in in_a_fleet():
        yield trial


def _start(env: dict[str, str]) -> None:
    argv = [CLIENT.removesuffix("-hook"), "daemon", "start"]
    subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL)


GOALS = (Goal(28, "Judging while verdicts are reported", _both),)
