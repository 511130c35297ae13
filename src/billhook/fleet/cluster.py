"""NATS servers on this machine: those of `billhook fleet dev`, and of the tests."""

import asyncio
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from billhook.fleet import server
from billhook.fleet.connection import FleetError, connect, make_streams
from billhook.fleet.server import FleetFolder

_READY: Final = 30.0  # seconds for a cluster to elect its leaders
_PAUSE: Final = 0.2


class DevCluster:
    """A cluster on loopback, in a folder. Its servers end with `stop`."""

    def __init__(self, folder: Path, org: str = "dev", hosts: Sequence[str] = (), nodes: int = 3) -> None:
        """Writes the administrator's folder and the servers' configuration; nothing runs yet."""
        self.folder = folder
        fleet = server.create_folder(folder, org)
        for host in hosts:
            fleet = server.add_member(folder, fleet, host)
        self.files, self.url = server.write_config(folder, fleet, nodes)
        self.fleet = replace(fleet, url=self.url, replicas=nodes)
        server.write_folder(folder, self.fleet)
        self.servers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the servers, create the streams, and wait until they can be used. Raises FleetError."""
        self.servers = [self.start_server(number) for number in range(len(self.files))]
        asyncio.run(self._ready())

    def start_server(self, number: int) -> subprocess.Popen[bytes]:
        """Start one server; its log is beside its configuration."""
        file = self.files[number]
        with open(file.with_suffix(".log"), "ab") as log:
            argv = [server.program(), "-c", str(file)]
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def write(self, fleet: FleetFolder) -> None:
        """Change the members: the servers read their configuration again."""
        self.fleet = fleet
        server.write_folder(self.folder, fleet)
        for one in self.servers:
            one.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """End the servers."""
        for one in self.servers:
            one.terminate()
        for one in self.servers:
            try:
                one.wait(5)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()

    async def _ready(self) -> None:
        ends = time.monotonic() + _READY
        while True:
            try:
                client = await connect(server.staff(self.folder), self.url)
                try:
                    return await make_streams(client, self.fleet.subjects, self.fleet.replicas)
                finally:
                    await client.close()
            except Exception as error:
                if time.monotonic() > ends:
                    raise FleetError(
                        f"the servers don't start: {error}", hint=f"see the logs in {self.folder}"
                    ) from None
                await asyncio.sleep(_PAUSE)
