"""Servers, networks, disks and processes that fail while hosts ship their records: nothing is lost, nothing doubled,
and no writer of a log waits. The cluster has three servers."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from billhook.fleet import link, server, shipper
from billhook.fleet.members import AUDIT, Enrolment, enrol, read_credentials
from billhook.fleet.server import DevCluster
from daemon.running import Home
from fleet.conftest import Fleet
from fleet.hosts import Proxy, Writer, eventually, lines, linked, shipped, stream, written

pytestmark = [
    pytest.mark.slow,
    # The client leaves the sockets of lost connections to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
_LATEST = 90.0  # seconds until everything has arrived, on a busy machine
_LONGEST_WRITE = 2.0  # seconds: a write takes under a millisecond, but other tests run beside this one


class Cluster(Fleet):
    """Three servers that can be killed and started again."""

    def restart(self, *numbers: int) -> None:
        for number in numbers:
            self.cluster.servers[number] = self.cluster.start_server(number)

    def kill(self, *numbers: int) -> None:
        for number in numbers:
            self.cluster.servers[number].kill()
            self.cluster.servers[number].wait()

    def leader(self) -> int:
        """The server that leads the audit stream."""

        async def ask(client: Any) -> str:
            reply = await client.request(f"$JS.API.STREAM.INFO.{AUDIT}", b"", timeout=5)
            return str(json.loads(reply.data).get("cluster", {}).get("leader", ""))

        def found() -> str:
            with suppress(Exception):  # no majority yet
                return str(self.run(ask))
            return ""

        return int(eventually(found, 60).removeprefix("n")) - 1

    def arrived(self, root: Path, member: Enrolment) -> bool:
        """Whether the stream has exactly the lines of a host's log."""
        try:
            found = shipped(read_credentials(self.folder / "reader.creds"), self.cluster.url, member.name)
        except Exception:
            return False  # no majority yet
        own = lines(root)
        assert found == own[: len(found)], "lost, doubled or out of order"
        return len(found) == len(own)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = DevCluster(tmp_path_factory.mktemp("chaos"), org="acme", nodes=3)
    try:
        made.start()
        yield Cluster(made)
    finally:
        made.stop()


@contextmanager
def shipping_hosts(cluster: Cluster, folder: Path, number: int = 3, **settings: Any) -> Iterator[Writer]:
    """Hosts that write and ship without end; afterwards, everything that they wrote is in the stream, once."""
    roots = [folder / str(one) for one in range(number)]
    members = [cluster.host(root, **settings) for root in roots]
    with ExitStack() as stack:
        for root, member in zip(roots, members, strict=True):
            stack.enter_context(linked(root, member, [shipper.follow]))
        with Writer(roots) as writer:
            eventually(lambda: all(stream_has_some(cluster, one) for one in members), 30)
            yield writer
            time.sleep(1)
        for root, member in zip(roots, members, strict=True):
            eventually(lambda root=root, member=member: cluster.arrived(root, member), _LATEST)  # type: ignore[misc]
    assert writer.written > 100 and writer.longest < _LONGEST_WRITE


def stream_has_some(cluster: Cluster, member: Enrolment) -> bool:
    return bool(stream(read_credentials(cluster.folder / "reader.creds"), cluster.cluster.url, member.name))


def test_leader_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Three times, each time the server that leads the stream at that moment."""
    with shipping_hosts(cluster, tmp_path):
        for _ in range(3):
            number = cluster.leader()
            cluster.kill(number)
            time.sleep(3)
            cluster.restart(number)
            time.sleep(3)


def test_majority_is_lost_and_returns(cluster: Cluster, tmp_path: Path) -> None:
    """Nothing can be stored meanwhile: the records wait in the logs."""
    with shipping_hosts(cluster, tmp_path) as writer:
        cluster.kill(0, 1)
        before = writer.written
        time.sleep(8)
        assert writer.written > before + 50
        cluster.restart(0, 1)
        time.sleep(3)


def test_all_servers_restart(cluster: Cluster, tmp_path: Path) -> None:
    with shipping_hosts(cluster, tmp_path):
        cluster.kill(0, 1, 2)
        time.sleep(2)
        cluster.restart(0, 1, 2)
        time.sleep(3)


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("how", ["closed", "silent"])
def test_network_is_cut(tmp_path: Path, how: str, nodes: int) -> None:
    """Connections end, or the network takes everything and answers nothing: to all servers, which announce only
    addresses behind it."""
    made = DevCluster(tmp_path / "servers", org="acme", nodes=nodes)
    with ExitStack() as stack:
        ports = [int(url.rpartition(":")[2]) for url in made.url.split(",")]
        proxies = [stack.enter_context(Proxy(port)) for port in ports]
        for file, proxy in zip(made.files, proxies, strict=True):
            file.write_text(f'client_advertise: "127.0.0.1:{proxy.port}"\n{file.read_text()}')
        stack.callback(made.stop)
        made.start()
        one = Cluster(made)
        member = one.host(tmp_path)
        url = ",".join(f"nats://127.0.0.1:{proxy.port}" for proxy in proxies)
        with linked(tmp_path, Enrolment(**{**struct(member), "url": url}), [shipper.follow]):
            with Writer([tmp_path]) as writer:
                eventually(lambda: stream_has_some(one, member), 30)
                for proxy in proxies:
                    if how == "closed":
                        proxy.cut()
                    proxy.is_silent = True
                time.sleep(7)
                before = len(shipped(read_credentials(made.folder / "reader.creds"), made.url, member.name))
                assert len(lines(tmp_path)) > before + 50
                for proxy in proxies:
                    proxy.refuses = proxy.is_silent = False
                time.sleep(2)
            eventually(lambda: one.arrived(tmp_path, member), _LATEST)
    assert writer.longest < _LONGEST_WRITE


def struct(member: Enrolment) -> dict[str, Any]:
    return {name: getattr(member, name) for name in member.__struct_fields__}


def test_disk_of_a_server_is_full(tmp_path: Path) -> None:
    """One of three servers has a disk of 8 MB: the other two go on. Needs the right to mount."""
    folder = tmp_path / "servers"
    made = DevCluster(folder, org="acme", nodes=3)
    small = folder / "store" / "n1"
    small.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small disk can't be mounted here")
    try:
        made.start()
        one = Cluster(made)
        with shipping_hosts(one, tmp_path, 1):
            with open(small / "full", "wb") as file, suppress(OSError):
                while True:
                    os.write(file.fileno(), bytes(1 << 16))
            for _ in range(10):
                written(tmp_path / "0", 2000)
                time.sleep(0.3)
            eventually(lambda: "no space left" in (folder / "n1.log").read_text(errors="replace"), 30)
    finally:
        made.stop()
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_clock_of_a_host_is_wrong(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an hour, and back again."""
    right = time.time
    with shipping_hosts(cluster, tmp_path):
        for hours in (1, -1, 0):
            monkeypatch.setattr(time, "time", lambda hours=hours: right() + 3600 * hours)
            time.sleep(1.5)


def test_credentials_are_revoked(cluster: Cluster, tmp_path: Path) -> None:
    """The host goes on alone, and reports why. With new credentials everything arrives."""
    member = cluster.host(tmp_path)
    said: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch, Writer([tmp_path]) as writer:
        patch.setattr(link, "_print_status", said.append)
        with linked(tmp_path, member, [shipper.follow]):
            eventually(lambda: stream_has_some(cluster, member), 30)
            cluster.cluster.write(server.without_member(cluster.record, member.name))
            eventually(lambda: said[-1]["connected"] is False and "uthoriz" in said[-1].get("problem", ""), 30)
        time.sleep(1)
        cluster.cluster.write(server.add_member(cluster.folder, cluster.record, member.name))
        cluster.wait_for(member.name)
        given = read_credentials(cluster.folder / f"{member.name}.creds")
        again = Enrolment(**struct(given), url=member.url)  # type: ignore[arg-type]
        enrol(tmp_path, again)
        with linked(tmp_path, again, [shipper.follow]):
            time.sleep(2)
            writer.__exit__()
            eventually(lambda: cluster.arrived(tmp_path, again), _LATEST)
    assert writer.longest < _LONGEST_WRITE


def test_daemon_and_link_are_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Real processes: the link is killed while it ships, then the daemon; events are judged all the time."""
    home = Home(tmp_path)
    member = cluster.host(home.root)

    def judged(number: int) -> None:
        for _ in range(number):
            began = time.monotonic()
            call = json.dumps({"command": "make"})
            done = home.billhook("fire", "PreToolUse", "--tool", "Bash", "--input", call)
            assert done.returncode == 0 and time.monotonic() - began < 30

    project = str(home.project)
    try:
        home.billhook("daemon", "start")
        written(home.root, 20_000, project)
        eventually(lambda: stream_has_some(cluster, member), 40)
        killed = 0
        for _ in range(3):
            for pid in links_of(home.root):
                os.kill(pid, signal.SIGKILL)
                killed += 1
            written(home.root, 2000, project)
            judged(1)
        status = home.status()
        assert killed and status is not None
        os.kill(status.pid, signal.SIGKILL)
        written(home.root, 2000, project)
        eventually(lambda: not links_of(home.root), 20)
        home.billhook("daemon", "start")
        judged(1)

        def same() -> bool:
            reader = read_credentials(cluster.folder / "reader.creds")
            return shipped(reader, cluster.cluster.url, member.name) == lines(home.root, project)

        eventually(same, _LATEST)
    finally:
        home.close()


def links_of(root: Path) -> list[int]:
    """The links of one state root."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
        except OSError:
            continue
        if b"billhook.fleet.link" in words and os.fsencode(root) in words:
            found.append(int(entry.name))
    return found


def test_a_week_later(cluster: Cluster, tmp_path: Path) -> None:
    """A host that was off with 60,000 records catches up, in order, while it writes new ones."""
    member = cluster.host(tmp_path)
    written(tmp_path, 60_000, max_bytes=8 << 20)
    with linked(tmp_path, member, [shipper.follow]), Writer([tmp_path]) as writer:
        time.sleep(1)
        writer.__exit__()
        eventually(lambda: cluster.arrived(tmp_path, member), _LATEST)
